//! Where a document uses what the table names.

use super::{ALL, DeprecatedItem, Deprecation};
use crate::dynamo::release::Release;
use crate::object::{FieldPath, KeyValue, PathSegment};
use serde_json::Value;

/// The oldest release that stator writes for.
pub const OLDEST_SUPPORTED_RELEASE: (u32, u32) = (1, 2);

/// `1.4` and `1.4.0-rc1` are the release 1.4.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The newest release among the tags of Dynamo's images.
fn newest_image_release(value: &Value, depth: usize) -> Option<(u32, u32)> {
    if depth > MAX_DEPTH {
        return None;
    }
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| match value.as_str() {
                Some(image) if name == "image" && image.contains("/ai-dynamo/") => {
                    parse_release(image.rsplit_once(':').map_or("", |(_, tag)| tag))
                }
                Some(_) | None => newest_image_release(value, depth + 1),
            })
            .max(),
        Value::Array(items) => items.iter().filter_map(|item| newest_image_release(item, depth + 1)).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A place of a document that uses something deprecated.
#[derive(Clone, Debug, PartialEq)]
pub struct DeprecatedUsage {
    /// Where.
    pub path: FieldPath,
    /// What.
    pub deprecation: &'static Deprecation,
}

/// Everything deprecated that a document uses, in the order of the table and of its fields.
///
/// What `release` or one before gives up of the API counts. What is for the programs in the pods, flags and variables, counts
/// from the release of their images on: until then there may be nothing else to write.
pub fn find_deprecated(document: &Value, release: Release) -> Vec<DeprecatedUsage> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let running = newest_image_release(document, 0).unwrap_or(OLDEST_SUPPORTED_RELEASE).max(OLDEST_SUPPORTED_RELEASE);
    let of_api = parse_release(release.nearest_known().as_str()).unwrap_or(OLDEST_SUPPORTED_RELEASE);
    let dated = ALL.iter().filter(|line| {
        let by = match line.subject {
            DeprecatedItem::Variable(_) | DeprecatedItem::Flag(_) | DeprecatedItem::FlagValue(..) => running,
            DeprecatedItem::Version(..)
            | DeprecatedItem::Field(..)
            | DeprecatedItem::Label(_)
            | DeprecatedItem::Annotation(_) => of_api,
        };
        parse_release(line.since).is_some_and(|since| since <= by)
    });
    let (mut found, mut anywhere) = (Vec::new(), Vec::new());
    for (rank, deprecation) in dated.enumerate() {
        let mut add = |path: FieldPath| found.push((rank, DeprecatedUsage { path, deprecation }));
        match deprecation.subject {
            DeprecatedItem::Version(of, version) => {
                if of == kind && version == api_version {
                    add(FieldPath::from_fields(["apiVersion"]));
                }
            }
            DeprecatedItem::Field(of, pattern) => {
                if of == kind {
                    let pattern: Vec<&str> = pattern.split('.').collect();
                    match_pattern(document, &Trail::ROOT, &pattern, &mut |trail, _| add(trail.to_path()));
                }
            }
            DeprecatedItem::Label(_)
            | DeprecatedItem::Annotation(_)
            | DeprecatedItem::Variable(_)
            | DeprecatedItem::Flag(_)
            | DeprecatedItem::FlagValue(..) => anywhere.push((rank, deprecation)),
        }
    }
    walk(document, &Trail::ROOT, &mut |trail, part| {
        for (rank, deprecation) in &anywhere {
            let mut add = |path: FieldPath| found.push((*rank, DeprecatedUsage { path, deprecation }));
            find_in_part(part, trail, deprecation.subject, &mut add);
        }
    });
    // Those of one line stay in the order of the document.
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, usage)| usage).collect()
}

/// The way to a place, as steps that lead back to the root: a path is made only of the few that are reported.
struct Trail<'a> {
    before: Option<&'a Trail<'a>>,
    step: TrailStep<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum TrailStep<'a> {
    Root,
    Field(&'a str),
    Item(usize, &'a Value),
}

impl<'a> Trail<'a> {
    const ROOT: Self = Self { before: None, step: TrailStep::Root, depth: 0 };

    fn then<'b>(&'b self, step: TrailStep<'b>) -> Trail<'b>
    where
        'a: 'b,
    {
        Trail { before: Some(self), step, depth: self.depth + 1 }
    }

    fn to_path(&self) -> FieldPath {
        let mut steps: Vec<PathSegment> = std::iter::successors(Some(self), |trail| trail.before)
            .filter_map(|trail| match trail.step {
                TrailStep::Root => None,
                TrailStep::Field(name) => Some(PathSegment::Field(name.to_owned())),
                TrailStep::Item(index, item) => Some(item_step(index, item)),
            })
            .collect();
        steps.reverse();
        FieldPath(steps)
    }
}

/// The places of a document that a pattern names, with what is there.
fn match_pattern(value: &Value, trail: &Trail<'_>, pattern: &[&str], add: &mut impl FnMut(&Trail<'_>, &Value)) {
    let Some((step, rest)) = pattern.split_first() else { return add(trail, value) };
    let (name, items) = step.strip_suffix("[]").map_or((*step, false), |name| (name, true));
    let fields = value.as_object().into_iter().flatten();
    for (field, value) in fields.filter(|(field, value)| (name == "*" || *field == name) && !value.is_null()) {
        let trail = trail.then(TrailStep::Field(field));
        match value.as_array() {
            Some(list) if items => {
                for (index, item) in list.iter().enumerate() {
                    match_pattern(item, &trail.then(TrailStep::Item(index, item)), rest, add);
                }
            }
            Some(_) | None if items => {}
            Some(_) | None => match_pattern(value, &trail, rest, add),
        }
    }
}

/// An item by its name, where it has one.
fn item_step(index: usize, item: &Value) -> PathSegment {
    match item.get("name") {
        Some(name) if name.is_string() => PathSegment::Key([("name".to_owned(), KeyValue::new(name))].into()),
        Some(_) | None => PathSegment::Index(index),
    }
}

/// Documents nest a few dozen levels; what is deeper is not looked at.
const MAX_DEPTH: usize = 64;

/// A part of a document that can have labels, annotations, variables or flags.
#[derive(Clone, Copy)]
enum NamedPart<'a> {
    Labels(&'a Value),
    Annotations(&'a Value),
    Variables(&'a Value),
    Words(&'a Value),
}

/// Shows the parts of a document that can have labels, annotations, variables or flags, wherever they are.
fn walk(value: &Value, trail: &Trail<'_>, show: &mut impl FnMut(&Trail<'_>, NamedPart<'_>)) {
    if trail.depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let trail = trail.then(TrailStep::Field(name));
                match name.as_str() {
                    "status" | "managedFields" => continue,
                    "labels" | "matchLabels" => show(&trail, NamedPart::Labels(value)),
                    "annotations" => show(&trail, NamedPart::Annotations(value)),
                    "env" | "envs" => show(&trail, NamedPart::Variables(value)),
                    "args" | "command" => show(&trail, NamedPart::Words(value)),
                    _ => {}
                }
                walk(value, &trail, show);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &trail.then(TrailStep::Item(index, item)), show);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Looks for what the table names in a part that can have it.
fn find_in_part(part: NamedPart<'_>, trail: &Trail<'_>, subject: DeprecatedItem, add: &mut impl FnMut(FieldPath)) {
    match (part, subject) {
        (NamedPart::Labels(labels), DeprecatedItem::Label(key))
        | (NamedPart::Annotations(labels), DeprecatedItem::Annotation(key)) => {
            if labels.get(key).is_some() {
                add(trail.then(TrailStep::Field(key)).to_path());
            }
        }
        (NamedPart::Variables(variables), DeprecatedItem::Variable(variable)) => {
            for (index, item) in variables.as_array().into_iter().flatten().enumerate() {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                let family = variable.ends_with('_') && name.starts_with(variable);
                if name == variable || family {
                    add(trail.then(TrailStep::Item(index, item)).to_path());
                }
            }
        }
        (NamedPart::Words(words), DeprecatedItem::Flag(_) | DeprecatedItem::FlagValue(..)) => {
            find_flag(words, trail, subject, add);
        }
        (_, _) => {}
    }
}

/// Looks for a flag among arguments, and in the words of a shell's script.
fn find_flag(words: &Value, trail: &Trail<'_>, subject: DeprecatedItem, add: &mut impl FnMut(FieldPath)) {
    let lines = words.as_array().into_iter().flatten().enumerate();
    let words: Vec<(usize, &str)> = lines
        .filter_map(|(index, line)| Some((index, line.as_str()?)))
        .flat_map(|(index, line)| line.split_whitespace().map(move |word| (index, word)))
        .collect();
    let mut before = "";
    for (index, word) in words {
        let (flag, inline) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        let hit = match subject {
            DeprecatedItem::Flag(wanted) => flag == wanted,
            DeprecatedItem::FlagValue(wanted, value) => {
                (flag == wanted && inline == Some(value)) || (before == wanted && word == value)
            }
            DeprecatedItem::Version(..)
            | DeprecatedItem::Field(..)
            | DeprecatedItem::Label(_)
            | DeprecatedItem::Annotation(_)
            | DeprecatedItem::Variable(_) => false,
        };
        if hit {
            add(trail.to_path().join(PathSegment::Index(index)));
        }
        before = word;
    }
}
