//! How a policy names what it allows: patterns with `*`.

use crate::intent::PathGlobs;
use crate::intent::scalar::{text_grammar, text_type};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

text_type!(
    /// A pattern of names: `team-a`, `team-*`, `*`.
    NamePattern,
    pattern = "^[-a-z0-9.*]+$",
    max = 253,
    example = "team-*",
    expected = "a name of lower-case letters, digits, `-` and `.`, with `*` for any part of it, such as `team-*`"
);
text_type!(
    /// A pattern of sources: their namespace, a slash, and their name.
    SourcePattern,
    pattern = "^[-a-z0-9.*]+/[-a-z0-9.*]+$",
    max = 507,
    example = "team-a/*",
    expected = "`NAMESPACE/NAME`, with `*` for any part of either, such as `team-a/*`"
);
text_type!(
    /// A pattern of addresses: of repositories without scheme, user and `.git`, or of images without tag and digest. `*`
    /// stands for any part of what is between two slashes, `**` for anything. What names a folder means all below it.
    AddressPattern,
    pattern = "^[A-Za-z0-9*][-A-Za-z0-9._:/*]*$",
    max = 512,
    example = "git.example.com/team-a/**",
    expected = "a host and a path with `*` for any part of a name and `**` for anything, such as `git.example.com/team-a/**`"
);
text_type!(
    /// A pattern of keys of labels or taints. `*` stands for any part of what is between two slashes; alone, for any key.
    KeyPattern,
    pattern = "^[A-Za-z0-9*][-A-Za-z0-9._/*]*$",
    max = 317,
    example = "nvidia.com/*",
    expected = "a key of labels or taints, with `*` for any part of it, such as `nvidia.com/*`"
);
text_type!(
    /// A kind of volume, as its field is called.
    VolumeKind,
    pattern = "^[a-z][A-Za-z]*$",
    max = 63,
    example = "persistentVolumeClaim",
    expected = "the field of a volume, such as `persistentVolumeClaim`"
);
text_type!(
    /// A kind of object.
    KindName,
    pattern = "^[A-Z][A-Za-z0-9]*$",
    max = 63,
    example = "ConfigMap",
    expected = "the name of a kind, such as `ConfigMap`"
);
text_type!(
    /// A GPU by its SKU, or `*` for all that are not named.
    SkuName,
    pattern = "^([A-Za-z0-9][-A-Za-z0-9._]*|[*])$",
    max = 63,
    example = "h200_sxm",
    expected = "a GPU as `hardware.gpu` spells it, or `*` for all that are not named"
);

/// Patterns, compiled once.
#[derive(Clone, Debug)]
pub(super) struct CompiledPatterns {
    globs: PathGlobs,
    written: Vec<String>,
}

impl CompiledPatterns {
    /// Of names. One that does not compile matches nothing.
    pub(super) fn of_names<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Self::compile(patterns, false)
    }

    /// Of addresses: one that names a folder means everything below it too.
    pub(super) fn of_addresses<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Self::compile(patterns, true)
    }

    fn compile<'a>(patterns: impl IntoIterator<Item = &'a str>, below: bool) -> Self {
        let written: Vec<String> = patterns.into_iter().map(str::to_owned).collect();
        let globs = PathGlobs::of(written.iter().flat_map(|pattern| {
            let folder = format!("{}/**", pattern.trim_end_matches('/'));
            // Alone, it means whatever there is: a key with a domain as well, or none.
            let whole = if pattern == "*" { "**".to_owned() } else { pattern.clone() };
            std::iter::once(whole).chain(below.then_some(folder))
        }));
        Self { globs, written }
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.globs.is_match(text)
    }

    /// What is allowed, for a person.
    pub(super) fn describe(&self) -> String {
        if self.written.is_empty() {
            return "none".to_owned();
        }
        self.written.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
    }
}
