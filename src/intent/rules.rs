//! Every rule that an intent, an overlay or a `stator.yaml` can break.

use crate::finding::Rule;

macro_rules! rules {
    ($($name:ident = $id:literal, $summary:literal;)*) => {
        $(
            #[doc = $summary]
            pub const $name: Rule = Rule { id: $id, summary: $summary };
        )*
        /// All of them, sorted by id within each area.
        pub const ALL: &[Rule] = &[$($name),*];
    };
}

rules! {
    FILE_UNREADABLE = "file/unreadable", "Every file of the repository can be read.";

    YAML_ANCHOR = "yaml/anchor", "A file has no anchors, aliases or merge keys: it reads as it stands.";
    YAML_DOCUMENTS = "yaml/documents", "A file holds one document.";
    YAML_DUPLICATE_KEY = "yaml/duplicate-key", "A map gives each key once.";
    YAML_EMPTY = "yaml/empty", "A file holds a document.";
    YAML_ENCODING = "yaml/encoding", "A file is UTF-8, without a byte order mark inside.";
    YAML_KEY = "yaml/key", "Keys are strings.";
    YAML_LEADING_ZERO = "yaml/leading-zero", "A number has no leading zero, which some readers take for octal.";
    YAML_NULL = "yaml/null", "A field has a value or is left out; `null` is neither.";
    YAML_NUMBER = "yaml/number", "A number is finite, and an integer fits 64 bits.";
    YAML_SYNTAX = "yaml/syntax", "A file is valid YAML 1.2.";
    YAML_TAG = "yaml/tag", "Values carry no tags.";
    YAML_TOO_BIG = "yaml/too-big", "A file has at most 1 MiB and 100 000 values.";
    YAML_TOO_DEEP = "yaml/too-deep", "Lists and maps are nested at most 64 deep.";

    SCHEMA_KIND = "schema/kind", "Each file has the kind that its name and place ask for.";
    SCHEMA_LENGTH = "schema/length", "Texts and lists are neither too short nor too long.";
    SCHEMA_MISSING = "schema/missing-field", "Required fields are given, if need be by defaults.";
    SCHEMA_PATTERN = "schema/format", "Names, quantities, durations and images are well formed.";
    SCHEMA_RANGE = "schema/range", "Numbers are in range.";
    SCHEMA_REFUSED = "schema/refused", "A document decodes into stator's types.";
    SCHEMA_TYPE = "schema/type", "Each field has a value of its type.";
    SCHEMA_UNKNOWN_FIELD = "schema/unknown-field", "Only known fields are given.";
    SCHEMA_WORD = "schema/unknown-word", "A field with a set of words has one of them.";

    LAYOUT_DUPLICATE_NAME = "layout/duplicate-name", "A model's name is unique in its environment.";
    LAYOUT_GLOB = "layout/glob", "`include` and `exclude` are valid globs.";
    LAYOUT_OVERLAY_ENVIRONMENT = "layout/overlay-environment", "An overlay is named after an environment of the repository.";
    LAYOUT_OVERLAY_NAME = "layout/overlay-name", "An overlay has no name, or its intent's.";
    LAYOUT_OVERLAY_ORPHAN = "layout/overlay-orphan", "An overlay stands beside the `model.yaml` that it changes.";

    POLICY_COMPILE = "policy/compile", "A policy is a valid CEL expression.";
    POLICY_FAILED = "policy/failed", "A policy gives true or false for every model.";
    POLICY_VIOLATED = "policy/violated", "A model keeps the policies of its repository and environment.";
}
