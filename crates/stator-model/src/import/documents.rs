//! Text to documents: a file of many, each read by itself, so that one that cannot be read leaves the others alone.

use super::rules;
use super::source_map::ManifestSourceMap;
use serde_json::{Map, Value};
use stator_core::finding::{Finding, Location};
use stator_core::object::FieldPath;
use std::path::Path;
use std::sync::Arc;

/// One document, or one item of a list.
#[derive(Clone, Debug)]
pub struct ManifestDocument {
    /// The file as the user named it.
    pub file: String,
    /// Its number in the file, from 1.
    pub number: usize,
    /// The line it starts on, from 1.
    pub line: u32,
    /// What it holds.
    pub value: Value,
    /// Whether something of it was left out.
    pub is_cut: bool,
    /// Other files that have the same document.
    pub copies: Vec<String>,
    /// Its text.
    source: Arc<ManifestSourceMap>,
    /// Which item of a list it is in that text, from the outermost list on.
    item_path: Vec<usize>,
}

impl ManifestDocument {
    /// Where it starts, for a finding.
    pub fn location(&self) -> Location {
        if self.item_path.is_empty() { self.start() } else { self.at(&FieldPath::root()) }
    }

    fn start(&self) -> Location {
        Location { file: self.file.clone(), line: self.line, column: 1, length: 1 }
    }

    /// Where a field stands, or the nearest one above it that was written; where the document starts when that is all
    /// that is known.
    pub fn at(&self, path: &FieldPath) -> Location {
        let place = self.source.place(&self.item_path, path);
        place.map_or_else(|| self.start(), |(line, column)| Location { line, column, ..self.start() })
    }

    /// How near its file is to the nearest that has another: how many folders, from the outermost on, they have in common. One
    /// file is nearer than any other.
    pub fn closeness_to(&self, other: &Self) -> usize {
        let closeness = |file: &String| {
            let (a, b) = (folder_of(&self.file).components(), folder_of(file).components());
            if *file == self.file { usize::MAX } else { a.zip(b).take_while(|(a, b)| a == b).count() }
        };
        std::iter::once(&other.file).chain(&other.copies).map(closeness).max().unwrap_or_default()
    }

    /// Another value that was made of the same text.
    pub fn with_value(&self, value: Value) -> Self {
        Self { value, ..self.clone() }
    }

    /// As [`Self::at`], for a path as people write it.
    pub fn at_text(&self, path: &str) -> Location {
        path.parse().map_or_else(|_| self.location(), |path| self.at(&path))
    }
}

/// The folder of a file.
pub fn folder_of(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new(""))
}

/// How deep a document may nest: as deep as an intent.
const MAX_DEPTH: usize = 64;
/// The most values that a small document may hold, its aliases unfolded.
const MIN_NODE_BUDGET: usize = 250_000;
/// The most values that any document may hold: a list of ten thousand graphs has fewer.
const MAX_NODE_BUDGET: usize = 4_000_000;
/// How deep lists of lists are opened.
const MAX_LIST_DEPTH: usize = 4;

/// A document that was built of several: it has no place of its own in the file that says how.
pub fn built(file: &str, number: usize, value: Value) -> ManifestDocument {
    ManifestDocument {
        file: file.to_owned(),
        number,
        line: 1,
        value,
        is_cut: false,
        copies: Vec::new(),
        source: Arc::new(ManifestSourceMap::new("", 0)),
        item_path: Vec::new(),
    }
}

/// The documents of one file. Documents without anything in them are passed over.
pub fn read(file: &str, bytes: &[u8], findings: &mut Vec<Finding>) -> Vec<ManifestDocument> {
    let place = |line: u32, column: u32| Location { file: file.to_owned(), line, column, length: 1 };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}'),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
            findings.push(Finding::error(
                rules::UNREADABLE,
                place(u32::try_from(line).unwrap_or(u32::MAX), 1),
                "the file is not UTF-8 text",
                "save it as UTF-8, or name another file",
            ));
            return Vec::new();
        }
    };
    let mut documents = Vec::new();
    for (index, part) in split_documents(text).into_iter().enumerate() {
        let number = index.saturating_add(1);
        match parse(part.text) {
            Ok(Value::Null) => {}
            Ok(value) => {
                let source = Arc::new(ManifestSourceMap::new(part.text, part.start));
                let whole = ManifestDocument {
                    file: file.to_owned(),
                    number,
                    line: part.first,
                    value,
                    is_cut: false,
                    copies: Vec::new(),
                    source,
                    item_path: Vec::new(),
                };
                expand_lists(whole, 0, &mut documents);
            }
            Err(fault) => findings.push(parse_finding(part, number, &fault, &place)),
        }
    }
    documents
}

/// A `List` is the objects in it.
fn expand_lists(document: ManifestDocument, depth: usize, documents: &mut Vec<ManifestDocument>) {
    let is_list = document.value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document.value.get("items") {
        Some(Value::Array(items)) if is_list && depth < MAX_LIST_DEPTH => {
            for (index, item) in items.iter().enumerate() {
                let mut within = document.item_path.clone();
                within.push(index);
                let source = Arc::clone(&document.source);
                let (file, number, line) = (document.file.clone(), document.number, document.line);
                let one = ManifestDocument {
                    file,
                    number,
                    line,
                    value: item.clone(),
                    is_cut: false,
                    copies: Vec::new(),
                    source,
                    item_path: within,
                };
                expand_lists(one, depth.saturating_add(1), documents);
            }
        }
        Some(_) | None => documents.push(document),
    }
}

/// A document's text, and its first line.
#[derive(Clone, Copy, Debug)]
struct ManifestText<'a> {
    text: &'a str,
    /// The line that its text starts on.
    start: u32,
    /// The line of its first content.
    first: u32,
}

/// Splits at lines of `---`, which YAML takes for nothing else at the start of a line.
fn split_documents(text: &str) -> Vec<ManifestText<'_>> {
    let mut parts = Vec::new();
    let (mut from, mut start, mut offset, mut line) = (0, 1_u32, 0, 1_u32);
    for content in text.split_inclusive('\n') {
        let marks = content
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marks {
            parts.push((text.get(from..offset).unwrap_or_default(), start));
            // What stands behind the dashes belongs to the document; the dashes may stay.
            (from, start) = (offset, line);
        }
        offset += content.len();
        line = line.saturating_add(1);
    }
    parts.push((text.get(from..).unwrap_or_default(), start));
    let content = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---" && line != "..."
    };
    parts
        .into_iter()
        .filter_map(|(text, start)| {
            let skipped = text.lines().position(content)?;
            let first = start.saturating_add(u32::try_from(skipped).unwrap_or(u32::MAX));
            Some(ManifestText { text, start, first })
        })
        .collect()
}

/// What is wrong with a document, and where in it.
struct ManifestParseError {
    message: String,
    line: u32,
    column: u32,
}

fn parse(text: &str) -> Result<Value, ManifestParseError> {
    // kubectl reads `0644` as an octal number, as YAML 1.1 did.
    let nodes = text.len().checked_div(8).unwrap_or_default().clamp(MIN_NODE_BUDGET, MAX_NODE_BUDGET);
    let budget = serde_saphyr::budget! { max_nodes: nodes, max_events: nodes.saturating_mul(3) };
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        emit_comments: false,
        budget: budget,
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location();
        let message = error.without_snippet().to_string();
        let message = message.lines().next().unwrap_or_default();
        let message = match message.split_once("budget breached: ") {
            Some((_, what)) if what.starts_with("Depth") => format!("nested more than {MAX_DEPTH} levels deep"),
            Some(_) => "it contains, or its aliases expand to, more values than any manifest".to_owned(),
            None => message.to_owned(),
        };
        ManifestParseError {
            message,
            line: at.map_or(1, |at| u32::try_from(at.line()).unwrap_or(1)),
            column: at.map_or(1, |at| u32::try_from(at.column()).unwrap_or(1)),
        }
    })?;
    if too_deep(&value, 0) {
        return Err(ManifestParseError {
            message: format!("nested more than {MAX_DEPTH} levels deep"),
            line: 1,
            column: 1,
        });
    }
    Ok(value)
}

fn too_deep(value: &Value, depth: usize) -> bool {
    depth > MAX_DEPTH
        || match value {
            Value::Array(items) => items.iter().any(|item| too_deep(item, depth.saturating_add(1))),
            Value::Object(map) => map.values().any(|below| too_deep(below, depth.saturating_add(1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

fn parse_finding(
    part: ManifestText<'_>,
    number: usize,
    fault: &ManifestParseError,
    place: &dyn Fn(u32, u32) -> Location,
) -> Finding {
    let line = part.start.saturating_add(fault.line.saturating_sub(1));
    // Helm's own braces are in most lines of a template; in a value they would be quoted.
    let template = part.text.lines().position(|line| {
        let line = line.trim();
        !line.starts_with('#') && line.contains("{{") && line.contains("}}")
    });
    match template {
        Some(at) => Finding::error(
            rules::TEMPLATE,
            place(part.start.saturating_add(u32::try_from(at).unwrap_or(u32::MAX)), 1),
            format!("document {number} is a template, with `{{{{ … }}}}` that Helm fills in"),
            "run `helm template` and import what it prints",
        ),
        None => Finding::error(
            rules::UNREADABLE,
            place(line, fault.column),
            format!("document {number} cannot be read: {}", fault.message),
            "correct the document; the others of the file are imported",
        ),
    }
}

/// A map without nulls, which mean nothing in a manifest and are refused in an intent.
pub fn without_nulls(map: &Map<String, Value>) -> Map<String, Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, below| !below.is_null());
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => {
                items.retain(|item| !item.is_null());
                items.iter_mut().for_each(strip);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut value = Value::Object(map.clone());
    strip(&mut value);
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
