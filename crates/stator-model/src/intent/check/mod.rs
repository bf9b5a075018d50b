//! A document against its schema: every fault, with what was found, what is allowed, and the fix.

mod compile;
mod words;

use super::rules;
use super::schema::SchemaKind;
use super::yaml::{Content, Entry, FileId, Node, Span};
use compile::{Id, MapShape, Rest, Shape, Shapes, TextShape};
use stator_core::finding::{Finding, Rule, nearest};
use std::fmt;
use words::{expected, found, list, shown};

/// Holds a document against the schema of its kind and adds every fault.
pub fn check(kind: SchemaKind, root: &Node, path: &str, findings: &mut Vec<Finding>) {
    let file_name = |_: FileId| path.to_owned();
    let shapes = compile::shapes(kind);
    let mut checker = Checker { shapes, file_name: &file_name, findings, only_missing: false };
    checker.value(shapes.root, root, root.span, &Path::Root);
}

/// Adds a fault for every required field that a merged model lacks; all else was checked file by file.
pub(super) fn check_merged(root: &Node, file_name: &dyn Fn(FileId) -> String, findings: &mut Vec<Finding>) {
    let shapes = compile::merged();
    let mut checker = Checker { shapes, file_name, findings, only_missing: true };
    checker.value(shapes.root, root, root.span, &Path::Root);
}

/// The path of a value, put into words only for a finding.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the document"),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Path<'_> {
    fn quoted(&self) -> String {
        match self {
            Self::Root => self.to_string(),
            Self::Field(..) | Self::Item(..) => format!("`{self}`"),
        }
    }
}

/// The schema of a document that no [`SchemaKind`] names, made ready for checking.
pub struct Form(Shapes);

impl Form {
    /// Of a type's schema, as [`super::schema::strict`] gives it.
    pub fn new(schema: &serde_json::Value) -> Self {
        Self(compile::compile(schema))
    }

    /// Holds a document against it and adds every fault.
    pub fn check(&self, root: &Node, path: &str, findings: &mut Vec<Finding>) {
        let file_name = |_: FileId| path.to_owned();
        let mut checker = Checker { shapes: &self.0, file_name: &file_name, findings, only_missing: false };
        checker.value(self.0.root, root, root.span, &Path::Root);
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form")
    }
}

struct Checker<'a> {
    shapes: &'a Shapes,
    file_name: &'a dyn Fn(FileId) -> String,
    findings: &'a mut Vec<Finding>,
    only_missing: bool,
}

impl Checker<'_> {
    fn error(&mut self, rule: Rule, span: Span, message: String, help: impl Into<String>) {
        let location = span.location(&(self.file_name)(span.file));
        self.findings.push(Finding::error(rule, location, message, help));
    }

    /// `place` is where to point for the value as a whole: its key, for a map or list.
    fn value(&mut self, id: Id, node: &Node, place: Span, path: &Path<'_>) {
        let shape = self.shapes.get(id);
        match (shape, &node.value) {
            (Shape::Any, _) | (_, Content::Refused) => {}
            (Shape::Map(shape), Content::Map(entries)) => self.map(shape, entries, place, path),
            (Shape::List(item), Content::List(items)) => {
                for (index, node) in items.iter().enumerate() {
                    self.value(*item, node, node.span, &Path::Item(path, index));
                }
            }
            (Shape::Choice(options, words), _) => self.choice(options, words.as_deref(), node, place, path),
            (_, _) if self.only_missing => {}
            (Shape::Text(shape), Content::Text(text)) => self.text(shape, text, node.span, path),
            (Shape::Words(words), Content::Text(text)) => self.word(words, text, node.span, path),
            (Shape::Bool, Content::Bool(_)) => {}
            (Shape::Integer { min, max }, Content::Number(number)) => match whole(number) {
                Some(number) if (*min..=*max).contains(&number) => {}
                Some(number) => self.range(&number.to_string(), id, node.span, path),
                None => self.wrong_type(id, node, place, path),
            },
            (Shape::Number { min, max }, Content::Number(number)) => {
                let value = number.as_f64().unwrap_or_default();
                if value < *min || value > *max {
                    self.range(&number.to_string(), id, node.span, path);
                }
            }
            (_, _) => self.wrong_type(id, node, place, path),
        }
    }

    fn map(&mut self, shape: &MapShape, entries: &[Entry], place: Span, path: &Path<'_>) {
        for entry in entries {
            let below = Path::Field(path, &entry.key);
            if let Some(field) = shape.fields.get(&*entry.key) {
                self.value(*field, &entry.value, entry.place(), &below);
                continue;
            }
            match &shape.rest {
                Rest::Any(value) => self.value(*value, &entry.value, entry.place(), &below),
                Rest::Form(form, words, value) => {
                    if !self.only_missing && !form.is_match(&entry.key) {
                        self.error(
                            rules::SCHEMA_PATTERN,
                            entry.key_span,
                            format!("`{}` is not a name for {}: expected {words}", shown(&entry.key), path.quoted()),
                            "Rename it.",
                        );
                    }
                    self.value(*value, &entry.value, entry.place(), &below);
                }
                Rest::None if self.only_missing => {}
                Rest::None => self.unknown_field(shape, entry, path),
            }
        }
        for field in &shape.required {
            if !entries.iter().any(|entry| *entry.key == **field) {
                self.missing(shape, field, place, path);
            }
        }
    }

    fn missing(&mut self, shape: &MapShape, field: &str, place: Span, path: &Path<'_>) {
        let what = shape.fields.get(field).map(|id| expected(self.shapes, *id)).unwrap_or_default();
        self.error(
            rules::SCHEMA_MISSING,
            place,
            format!("{} lacks `{field}`", path.quoted()),
            format!("Add `{field}`: {what}."),
        );
    }

    fn unknown_field(&mut self, shape: &MapShape, entry: &Entry, path: &Path<'_>) {
        let allowed = shape.fields.keys().map(String::as_str);
        let help = match nearest(&entry.key, allowed.clone()) {
            Some(meant) => format!("Did you mean `{meant}`?"),
            None => "Remove it, or move it to where it belongs: check the indentation.".to_owned(),
        };
        self.error(
            rules::SCHEMA_UNKNOWN_FIELD,
            entry.key_span,
            format!("unknown field `{}` in {}; allowed are {}", shown(&entry.key), path.quoted(), list(allowed)),
            help,
        );
    }

    fn text(&mut self, shape: &TextShape, text: &str, span: Span, path: &Path<'_>) {
        let length = text.chars().count();
        if !shape.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)) {
            let wanted = match (&shape.expected, &shape.pattern) {
                (Some(words), _) => words.clone(),
                (None, Some(pattern)) => format!("text of the form `{pattern}`"),
                (None, None) => "text".to_owned(),
            };
            self.error(
                rules::SCHEMA_PATTERN,
                span,
                format!("{} is `{}`; expected {wanted}", path.quoted(), shown(text)),
                "Correct the value.",
            );
        } else if length < shape.min || length > shape.max {
            let (word, bound) = if length < shape.min { ("least", shape.min) } else { ("most", shape.max) };
            self.error(
                rules::SCHEMA_LENGTH,
                span,
                format!("{} has {length} characters; at {word} {bound} are allowed", path.quoted()),
                if length < shape.min { "Give a value, or leave the field out." } else { "Shorten it." },
            );
        }
    }

    fn word(&mut self, words: &[String], text: &str, span: Span, path: &Path<'_>) {
        if words.iter().any(|word| word == text) {
            return;
        }
        let allowed = words.iter().map(String::as_str);
        let help = match nearest(text, allowed.clone()) {
            Some(meant) => format!("Did you mean `{meant}`?"),
            None => "Use one of these words.".to_owned(),
        };
        let listed = list(allowed);
        let one = if words.len() == 1 { "expected" } else { "expected one of" };
        self.error(rules::SCHEMA_WORD, span, format!("{} is `{}`; {one} {listed}", path.quoted(), shown(text)), help);
    }

    fn range(&mut self, value: &str, id: Id, span: Span, path: &Path<'_>) {
        let wanted = expected(self.shapes, id);
        self.error(
            rules::SCHEMA_RANGE,
            span,
            format!("{} is {value}; expected {wanted}", path.quoted()),
            "Choose a number in this range.",
        );
    }

    fn wrong_type(&mut self, id: Id, node: &Node, place: Span, path: &Path<'_>) {
        let wanted = expected(self.shapes, id);
        let help = self.type_help(id, node);
        self.error(rules::SCHEMA_TYPE, place, format!("{} is {}; expected {wanted}", path.quoted(), found(node)), help);
    }

    fn type_help(&self, id: Id, node: &Node) -> &'static str {
        let takes_text = match self.shapes.get(id) {
            Shape::Text(shape) => shape.pattern.as_ref().is_none_or(|form| form.is_match(&node.to_json().to_string())),
            Shape::Any
            | Shape::Map(_)
            | Shape::List(_)
            | Shape::Words(_)
            | Shape::Integer { .. }
            | Shape::Number { .. }
            | Shape::Bool
            | Shape::Choice(..) => false,
        };
        match (self.shapes.get(id), &node.value) {
            (_, Content::Bool(_) | Content::Number(_)) if takes_text => "Put the value in quotes.",
            (Shape::Integer { .. } | Shape::Number { .. }, Content::Text(text))
                if text.trim().parse::<f64>().is_ok() =>
            {
                "Remove the quotes."
            }
            (Shape::Bool, Content::Text(_)) => {
                "Write `true` or `false`; YAML 1.2 reads `yes`, `no`, `on`, `off` as text."
            }
            (Shape::List(_), _) => "Write a list: `[…]`, or one item a line after `- `.",
            (Shape::Map(_), _) => "Write a map: `{name: value}`, or one field a line, indented.",
            (_, _) => "Correct the value.",
        }
    }

    /// Takes the option that the value was most likely meant to be, and reports against that one.
    fn choice(&mut self, options: &[Id], words: Option<&str>, node: &Node, place: Span, path: &Path<'_>) {
        let fits = |id: &&Id| match (self.shapes.get(**id), &node.value) {
            (Shape::Any, _)
            | (Shape::Map(_), Content::Map(_))
            | (Shape::List(_), Content::List(_))
            | (Shape::Text(_) | Shape::Words(_), Content::Text(_))
            | (Shape::Integer { .. } | Shape::Number { .. }, Content::Number(_))
            | (Shape::Bool, Content::Bool(_)) => true,
            (_, _) => false,
        };
        let likeness = |id: &&Id| match self.shapes.get(**id) {
            Shape::Map(shape) => {
                let fields = || shape.fields.keys().map(String::as_str);
                node.entries().iter().filter(|entry| nearest(&entry.key, fields()).is_some()).count()
            }
            Shape::Any
            | Shape::List(_)
            | Shape::Text(_)
            | Shape::Words(_)
            | Shape::Integer { .. }
            | Shape::Number { .. }
            | Shape::Bool
            | Shape::Choice(..) => 0,
        };
        // The first of the likeliest: `max_by_key` would take the last.
        let best = options.iter().rev().filter(fits).max_by_key(likeness).copied();
        match best {
            Some(option) => match (self.shapes.get(option), words, &node.value) {
                (Shape::Text(shape), Some(words), Content::Text(text))
                    if !shape.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)) =>
                {
                    self.error(
                        rules::SCHEMA_PATTERN,
                        node.span,
                        format!("{} is `{}`; expected {words}", path.quoted(), shown(text)),
                        "Correct the value.",
                    );
                }
                (_, _, _) => self.value(option, node, place, path),
            },
            None if self.only_missing => {}
            None => {
                let wanted = match words {
                    Some(words) => words.to_owned(),
                    None => options.iter().map(|id| expected(self.shapes, *id)).collect::<Vec<_>>().join(", or "),
                };
                let quote = options.iter().any(|id| matches!(self.shapes.get(*id), Shape::Text(_)))
                    && matches!(node.value, Content::Bool(_) | Content::Number(_));
                let help = if quote { "Put the value in quotes." } else { "Write one of these forms." };
                self.error(
                    rules::SCHEMA_TYPE,
                    place,
                    format!("{} is {}; expected {wanted}", path.quoted(), found(node)),
                    help,
                );
            }
        }
    }
}

/// A number as a whole one; `2.0` is not, because it says that the writer expects fractions.
fn whole(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests;
