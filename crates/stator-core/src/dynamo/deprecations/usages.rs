//! Where a document uses what the table names.

use super::{ALL, DeprecatedItem, Deprecation};
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
/// What a release after [`OLDEST_SUPPORTED_RELEASE`] deprecates counts only for a document whose images are of that release or a later one:
/// until then there may be nothing else to write.
pub fn find_deprecated(document: &Value) -> Vec<DeprecatedUsage> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let running = newest_image_release(document, 0).unwrap_or(OLDEST_SUPPORTED_RELEASE).max(OLDEST_SUPPORTED_RELEASE);
    let mut found = Vec::new();
    for deprecation in ALL.iter().filter(|line| parse_release(line.since).is_some_and(|since| since <= running)) {
        let mut add = |path: FieldPath| found.push(DeprecatedUsage { path, deprecation });
        match deprecation.subject {
            DeprecatedItem::Version(of, version) => {
                if of == kind && version == api_version {
                    add(FieldPath::from_fields(["apiVersion"]));
                }
            }
            DeprecatedItem::Kind(of) => {
                if of == kind {
                    add(FieldPath::from_fields(["kind"]));
                }
            }
            DeprecatedItem::Field(of, pattern) => {
                if of == kind {
                    values_matching(document, pattern).into_iter().for_each(|(path, _)| add(path));
                }
            }
            DeprecatedItem::Value(of, pattern, value) => {
                if of == kind {
                    let places = values_matching(document, pattern).into_iter();
                    places.filter(|(_, found)| found.as_str() == Some(value)).for_each(|(path, _)| add(path));
                }
            }
            DeprecatedItem::Label(_)
            | DeprecatedItem::Annotation(_)
            | DeprecatedItem::Variable(_)
            | DeprecatedItem::Flag(_)
            | DeprecatedItem::FlagValue(..) => {
                walk(document, &FieldPath::root(), deprecation.subject, &mut add);
            }
        }
    }
    found
}

/// The places of a document that a pattern names, with what is there.
fn values_matching<'a>(document: &'a Value, pattern: &str) -> Vec<(FieldPath, &'a Value)> {
    let mut places = vec![(FieldPath::root(), document)];
    for step in pattern.split('.') {
        let (name, items) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
        let mut next = Vec::new();
        for (path, value) in places {
            let fields = value.as_object().into_iter().flatten();
            for (field, value) in fields.filter(|(field, value)| (name == "*" || *field == name) && !value.is_null()) {
                let path = path.field(field.clone());
                match value.as_array() {
                    Some(list) if items => {
                        next.extend(
                            list.iter().enumerate().map(|(index, item)| (path.join(item_step(index, item)), item)),
                        );
                    }
                    Some(_) | None if items => {}
                    Some(_) | None => next.push((path, value)),
                }
            }
        }
        places = next;
    }
    places
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

/// Looks for labels, annotations, variables and flags wherever a document can have them.
fn walk(value: &Value, path: &FieldPath, subject: DeprecatedItem, add: &mut impl FnMut(FieldPath)) {
    if path.0.len() > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = path.field(name.clone());
                match (name.as_str(), subject) {
                    ("status" | "managedFields", _) => continue,
                    ("labels" | "matchLabels", DeprecatedItem::Label(key))
                    | ("annotations", DeprecatedItem::Annotation(key)) => {
                        if value.get(key).is_some() {
                            add(path.field(key));
                        }
                    }
                    ("env" | "envs", DeprecatedItem::Variable(variable)) => {
                        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                            let family = variable.ends_with('_') && name.starts_with(variable);
                            if name == variable || family {
                                add(path.join(item_step(index, item)));
                            }
                        }
                    }
                    ("args" | "command", DeprecatedItem::Flag(_) | DeprecatedItem::FlagValue(..)) => {
                        find_flag(value, &path, subject, add)
                    }
                    _ => walk(value, &path, subject, add),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &path.join(item_step(index, item)), subject, add);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Looks for a flag among arguments, and in the words of a shell's script.
fn find_flag(value: &Value, path: &FieldPath, subject: DeprecatedItem, add: &mut impl FnMut(FieldPath)) {
    let lines = value.as_array().into_iter().flatten().enumerate();
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
            | DeprecatedItem::Kind(_)
            | DeprecatedItem::Field(..)
            | DeprecatedItem::Value(..)
            | DeprecatedItem::Label(_)
            | DeprecatedItem::Annotation(_)
            | DeprecatedItem::Variable(_) => false,
        };
        if hit {
            add(path.join(PathSegment::Index(index)));
        }
        before = word;
    }
}
