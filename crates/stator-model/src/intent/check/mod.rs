//! A document against its schema: every fault, with what was found, what is allowed, and the fix.

mod describe;
mod meant_field;
mod nearest_value;

use super::list_edit;
use super::rules;
use super::schema::SchemaKind;
use super::schema_tree::{AllowedValue, ExtraKeys, MapShape, MeantFields, SchemaShape, SchemaTree, ShapeId, TextShape};
use super::yaml::{FileId, YamlEntry, YamlNode, YamlValue};
pub(super) use describe::join_alternatives;
use describe::{describe_shape, describe_value, join_quoted, truncate_text};
pub(super) use meant_field::meant_fields;
use stator_core::finding::limit::FileFindings;
use stator_core::finding::{Finding, Rule, closest_match};
use std::fmt;

/// Holds a document against the schema of its kind and adds every fault.
pub fn check_document(kind: SchemaKind, root: &YamlNode, path: &str, findings: &mut Vec<Finding>) {
    let edits = match kind {
        SchemaKind::Intent | SchemaKind::Overlay | SchemaKind::Repository | SchemaKind::Defaults => true,
        SchemaKind::Lock => false,
    };
    let found = find_faults(SchemaTree::of_kind(kind), root, false, edits);
    findings.extend(found.into_iter().map(|one| one.map_location(|span| span.location(path))));
}

/// Adds a fault for every required field that a merged model lacks; all else was checked file by file.
pub(super) fn check_merged(root: &YamlNode, file_name: &dyn Fn(FileId) -> String, findings: &mut Vec<Finding>) {
    let found = find_faults(SchemaTree::of_merged_model(), root, true, false);
    findings.extend(found.into_iter().map(|one| one.map_location(|span| span.location(&file_name(span.file)))));
}

/// Every fault of a document, at the places that its nodes have. `edits` says whether an edit may stand for a list.
fn find_faults<P: Copy>(shapes: &SchemaTree, root: &YamlNode<P>, only_missing: bool, edits: bool) -> Vec<Finding<P>> {
    let mut checker = SchemaChecker { shapes, findings: FileFindings::default(), only_missing, edits };
    checker.check_value(shapes.root, root, root.span, &DocumentPath::Root);
    checker.findings.finish(root.span)
}

/// The path of a value, put into words only for a finding.
enum DocumentPath<'a> {
    Root,
    Field(&'a DocumentPath<'a>, &'a str),
    Item(&'a DocumentPath<'a>, usize),
}

impl fmt::Display for DocumentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the document"),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl DocumentPath<'_> {
    /// The steps from the top: names of fields, and `[3]` for items.
    fn segments(&self) -> Vec<String> {
        match self {
            Self::Root => Vec::new(),
            Self::Field(parent, name) => [parent.segments(), vec![(*name).to_owned()]].concat(),
            Self::Item(parent, index) => [parent.segments(), vec![format!("[{index}]")]].concat(),
        }
    }

    fn quoted(&self) -> String {
        match self {
            Self::Root => self.to_string(),
            Self::Field(..) | Self::Item(..) => format!("`{self}`"),
        }
    }
}

/// Every fault of a document that no [`SchemaKind`] names, at the places that its nodes have.
pub fn check_against<P: Copy>(schema: &SchemaTree, root: &YamlNode<P>) -> Vec<Finding<P>> {
    find_faults(schema, root, false, false)
}

struct SchemaChecker<'a, P> {
    shapes: &'a SchemaTree,
    findings: FileFindings<P>,
    only_missing: bool,
    edits: bool,
}

impl<P: Copy> SchemaChecker<'_, P> {
    fn error(&mut self, rule: Rule, place: P, message: String, help: impl Into<String>) {
        self.findings.push(Finding::error(rule, place, message, help));
    }

    /// `place` is where to point for the value as a whole: its key, for a map or list.
    fn check_value(&mut self, id: ShapeId, node: &YamlNode<P>, place: P, path: &DocumentPath<'_>) {
        let shape = self.shapes.get(id);
        match (shape, &node.value) {
            (SchemaShape::Any, _) | (_, YamlValue::Invalid) => {}
            (SchemaShape::Map(shape), YamlValue::Map(entries)) => self.check_map(shape, entries, place, path),
            (SchemaShape::List(item), YamlValue::List(items)) => {
                for (index, node) in items.iter().enumerate() {
                    self.check_value(*item, node, node.span, &DocumentPath::Item(path, index));
                }
            }
            (SchemaShape::List(item), YamlValue::Map(entries)) if self.edits && list_edit::is_edit(entries) => {
                self.check_list_edit(*item, entries, path);
            }
            (SchemaShape::Choice(options, words), _) => self.check_choice(options, words.as_deref(), node, place, path),
            (_, _) if self.only_missing => {}
            (SchemaShape::Text(shape), YamlValue::Text(text)) => self.check_text(shape, text, node.span, path),
            (SchemaShape::Enum(words), YamlValue::Text(text)) => self.check_enum_word(words, text, node.span, path),
            (SchemaShape::Bool, YamlValue::Bool(_)) => {}
            (SchemaShape::Integer { min, max }, YamlValue::Number(number)) => match as_whole_number(number) {
                Some(number) if (*min..=*max).contains(&number) => {}
                Some(number) => self.report_range(&number.to_string(), id, node.span, path),
                None => self.report_wrong_type(id, node, place, path),
            },
            (SchemaShape::Number { min, max }, YamlValue::Number(number)) => {
                let value = number.as_f64().unwrap_or_default();
                if value < *min || value > *max {
                    self.report_range(&number.to_string(), id, node.span, path);
                }
            }
            (_, _) => self.report_wrong_type(id, node, place, path),
        }
    }

    /// Items that are added are whole; of those that are taken away, it is enough to say what tells them apart.
    fn check_list_edit(&mut self, item: ShapeId, entries: &[YamlEntry<P>], path: &DocumentPath<'_>) {
        for entry in entries {
            let below = DocumentPath::Field(path, &entry.key);
            if !list_edit::FIELDS.contains(&&*entry.key) {
                let allowed = join_quoted(list_edit::FIELDS.into_iter());
                let message =
                    format!("unknown field `{}` in {}; allowed: {allowed}", truncate_text(&entry.key), path.quoted());
                let help = "Remove it: a map instead of a list edits the list of the weaker layers.";
                self.error(rules::SCHEMA_UNKNOWN_FIELD, entry.key_span, message, help);
                continue;
            }
            let YamlValue::List(items) = &entry.value.value else {
                self.error(
                    rules::SCHEMA_TYPE,
                    entry.place(),
                    format!("{} is {}; expected a list", below.quoted(), describe_value(&entry.value)),
                    "Write a list: `[…]`, or one item per line after `- `.",
                );
                continue;
            };
            if &*entry.key == "remove" {
                if let Some(superfluous) = items.get(list_edit::MAX_REMOVED) {
                    self.error(
                        rules::SCHEMA_LENGTH,
                        superfluous.span,
                        format!("{} has more than {} items", below.quoted(), list_edit::MAX_REMOVED),
                        "Write the list that you want instead of the edit.",
                    );
                }
                continue;
            }
            for (index, node) in items.iter().enumerate() {
                self.check_value(item, node, node.span, &DocumentPath::Item(&below, index));
            }
        }
    }

    fn check_map(&mut self, shape: &MapShape, entries: &[YamlEntry<P>], place: P, path: &DocumentPath<'_>) {
        for entry in entries {
            let below = DocumentPath::Field(path, &entry.key);
            if let Some(field) = shape.fields.get(&*entry.key) {
                self.check_value(field.shape, &entry.value, entry.place(), &below);
                continue;
            }
            match &shape.extra_keys {
                ExtraKeys::Any(value) => self.check_value(*value, &entry.value, entry.place(), &below),
                ExtraKeys::Pattern(form, words, value) => {
                    if !self.only_missing && !form.is_match(&entry.key) {
                        self.error(
                            rules::SCHEMA_PATTERN,
                            entry.key_span,
                            format!(
                                "`{}` is not a name for {}: expected {words}",
                                truncate_text(&entry.key),
                                path.quoted()
                            ),
                            nearest_value::rename_help(form, &entry.key),
                        );
                    }
                    self.check_value(*value, &entry.value, entry.place(), &below);
                }
                ExtraKeys::None if self.only_missing => {}
                ExtraKeys::None => self.report_unknown_field(shape, entry, path),
            }
        }
        for field in &shape.required {
            if !entries.iter().any(|entry| *entry.key == **field) {
                self.report_missing(shape, field, place, path);
            }
        }
    }

    fn report_missing(&mut self, shape: &MapShape, field: &str, place: P, path: &DocumentPath<'_>) {
        let what = shape.fields.get(field).map(|field| describe_shape(self.shapes, field.shape)).unwrap_or_default();
        self.error(
            rules::SCHEMA_MISSING,
            place,
            format!("{} is missing the required field `{field}`", path.quoted()),
            format!("Add `{field}`: {what}."),
        );
    }

    fn report_unknown_field(&mut self, shape: &MapShape, entry: &YamlEntry<P>, path: &DocumentPath<'_>) {
        let message = format!("unknown field `{}` in {}", truncate_text(&entry.key), path.quoted());
        let (message, help) = match meant_fields(self.shapes, shape, &entry.key, &path.segments()) {
            // Without a word that is near, the list of all leads on.
            None => (
                format!("{message}; allowed: {}", join_quoted(shape.fields.keys().map(String::as_str))),
                "Remove it, or move it to where it belongs: check the indentation.".to_owned(),
            ),
            Some(MeantFields::Here(meant) | MeantFields::Below(meant) | MeantFields::Elsewhere(meant)) => {
                (message, format!("Did you mean {}?", join_alternatives(&meant)))
            }
        };
        self.error(rules::SCHEMA_UNKNOWN_FIELD, entry.key_span, message, help);
    }

    fn check_text(&mut self, shape: &TextShape, text: &str, span: P, path: &DocumentPath<'_>) {
        let length = text.chars().count();
        if !shape.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)) {
            let wanted = match (&shape.expected, &shape.pattern) {
                (Some(words), _) => words.clone(),
                (None, Some(pattern)) => format!("a string that matches `{pattern}`"),
                (None, None) => "text".to_owned(),
            };
            self.error(
                rules::SCHEMA_PATTERN,
                span,
                format!("{} is `{}`; expected {wanted}", path.quoted(), truncate_text(text)),
                nearest_value::text_help(shape, text),
            );
        } else if length < shape.min || length > shape.max {
            let (word, bound) = if length < shape.min { ("least", shape.min) } else { ("most", shape.max) };
            self.error(
                rules::SCHEMA_LENGTH,
                span,
                format!("{} has {length} characters; at {word} {bound} are allowed", path.quoted()),
                if length < shape.min { "Set a value, or omit the field." } else { "Shorten it." },
            );
        }
    }

    fn check_enum_word(&mut self, words: &[AllowedValue], text: &str, span: P, path: &DocumentPath<'_>) {
        if words.iter().any(|word| word.value == text) {
            return;
        }
        let allowed = words.iter().map(|word| word.value.as_str());
        let help = match closest_match(text, allowed.clone()) {
            Some(meant) => format!("Did you mean `{meant}`?"),
            None => "Use one of these values.".to_owned(),
        };
        let listed = join_quoted(allowed);
        let one = if words.len() == 1 { "expected" } else { "expected one of" };
        self.error(
            rules::SCHEMA_WORD,
            span,
            format!("{} is `{}`; {one} {listed}", path.quoted(), truncate_text(text)),
            help,
        );
    }

    fn report_range(&mut self, value: &str, id: ShapeId, span: P, path: &DocumentPath<'_>) {
        let wanted = describe_shape(self.shapes, id);
        self.error(
            rules::SCHEMA_RANGE,
            span,
            format!("{} is {value}; expected {wanted}", path.quoted()),
            "Choose a number in this range.",
        );
    }

    fn report_wrong_type(&mut self, id: ShapeId, node: &YamlNode<P>, place: P, path: &DocumentPath<'_>) {
        let wanted = describe_shape(self.shapes, id);
        let help = nearest_value::type_help(self.shapes, id, node);
        self.error(
            rules::SCHEMA_TYPE,
            place,
            format!("{} is {}; expected {wanted}", path.quoted(), describe_value(node)),
            help,
        );
    }

    /// Takes the option that the value was most likely meant to be, and reports against that one.
    fn check_choice(
        &mut self,
        options: &[ShapeId],
        words: Option<&str>,
        node: &YamlNode<P>,
        place: P,
        path: &DocumentPath<'_>,
    ) {
        let fits = |id: &&ShapeId| match (self.shapes.get(**id), &node.value) {
            (SchemaShape::Any, _)
            | (SchemaShape::Map(_), YamlValue::Map(_))
            | (SchemaShape::List(_), YamlValue::List(_))
            | (SchemaShape::Text(_) | SchemaShape::Enum(_), YamlValue::Text(_))
            | (SchemaShape::Integer { .. } | SchemaShape::Number { .. }, YamlValue::Number(_))
            | (SchemaShape::Bool, YamlValue::Bool(_)) => true,
            (_, _) => false,
        };
        let likeness = |id: &&ShapeId| {
            let SchemaShape::Map(shape) = self.shapes.get(**id) else { return 0 };
            let fields = || shape.fields.keys().map(String::as_str);
            node.entries().iter().filter(|entry| closest_match(&entry.key, fields()).is_some()).count()
        };
        // The first of the likeliest: `max_by_key` would take the last.
        let best = options.iter().rev().filter(fits).max_by_key(likeness).copied();
        match best {
            Some(option) => match (self.shapes.get(option), words, &node.value) {
                (SchemaShape::Text(shape), Some(words), YamlValue::Text(text))
                    if !shape.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)) =>
                {
                    self.error(
                        rules::SCHEMA_PATTERN,
                        node.span,
                        format!("{} is `{}`; expected {words}", path.quoted(), truncate_text(text)),
                        nearest_value::text_help(shape, text),
                    );
                }
                (_, _, _) => self.check_value(option, node, place, path),
            },
            None if self.only_missing => {}
            None => {
                let wanted = match words {
                    Some(words) => words.to_owned(),
                    None => options.iter().map(|id| describe_shape(self.shapes, *id)).collect::<Vec<_>>().join(", or "),
                };
                let quoted = options.iter().any(|id| match (self.shapes.get(*id), &node.value) {
                    (SchemaShape::Text(shape), YamlValue::Bool(_) | YamlValue::Number(_)) => {
                        shape.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&node.to_json().to_string()))
                    }
                    (_, _) => false,
                });
                let example = options.iter().find_map(|id| {
                    let SchemaShape::Text(shape) = self.shapes.get(*id) else { return None };
                    shape.example.as_deref()
                });
                let help = match example {
                    _ if quoted => "Put the value in quotes.".to_owned(),
                    Some(example) => format!("Write it like `{example}`."),
                    None => "Use one of these formats.".to_owned(),
                };
                self.error(
                    rules::SCHEMA_TYPE,
                    place,
                    format!("{} is {}; expected {wanted}", path.quoted(), describe_value(node)),
                    help,
                );
            }
        }
    }
}

/// A number as a whole one; `2.0` is not, because it says that the writer expects fractions.
fn as_whole_number(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests;
