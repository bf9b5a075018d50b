//! The parser's events → nodes and findings.

use super::plain_scalar::{LeadingZero, PlainScalar, parse_plain_scalar};
use super::{FileId, MAX_BYTES, MAX_DEPTH, MAX_NODES, YamlEntry, YamlNode, YamlSpan, YamlValue};
use crate::intent::rules;
use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle};
use stator_core::finding::limit::FileFindings;
use stator_core::finding::{Finding, Location};
use std::collections::HashMap;

/// What one file holds.
#[derive(Clone, Debug, Default)]
pub struct ParsedYaml {
    /// The document, as far as it could be read. A document with findings may lack parts.
    pub root: Option<YamlNode>,
    /// Everything that strict YAML refuses.
    pub findings: Vec<Finding>,
}

/// What a file of several documents holds.
#[derive(Clone, Debug, Default)]
pub struct ParsedDocuments {
    /// The documents, as far as they could be read, without empty ones.
    pub roots: Vec<YamlNode>,
    /// Everything that strict YAML refuses.
    pub findings: Vec<Finding>,
}

/// How many documents a file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentCount {
    One,
    Any,
}

/// Reads one file. Never panics, whatever the bytes; time and memory are bounded by [`MAX_BYTES`].
pub fn parse_yaml(bytes: &[u8], file: FileId, path: &str) -> ParsedYaml {
    let ParsedDocuments { mut roots, findings } = parse_documents(bytes, file, path, DocumentCount::One);
    ParsedYaml { root: roots.pop(), findings }
}

/// Reads one file of any number of documents, as [`parse_yaml`] does one.
pub fn parse_yaml_documents(bytes: &[u8], file: FileId, path: &str) -> ParsedDocuments {
    parse_documents(bytes, file, path, DocumentCount::Any)
}

fn parse_documents(bytes: &[u8], file: FileId, path: &str, allowed: DocumentCount) -> ParsedDocuments {
    if bytes.len() > MAX_BYTES {
        // How much larger is not known: sources stop reading here.
        let message = format!("the file is larger than {MAX_BYTES} bytes (1 MiB), which is the limit");
        return rejected_file(Finding::error(
            rules::YAML_TOO_BIG,
            Location::file(path),
            message,
            "Keep one model per file, and no data in it.",
        ));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return rejected_file(not_utf8(bytes, error.valid_up_to(), path)),
    };
    // A byte order mark at the very start is what some editors write; it has no width.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = YamlBuilder {
        file,
        path,
        allowed,
        nodes: 0,
        stack: Vec::new(),
        earlier: Vec::new(),
        root: None,
        findings: FileFindings::default(),
    };
    builder.check_byte_order_mark(text);
    builder.consume_events(text);
    let roots: Vec<YamlNode> = builder.earlier.into_iter().chain(builder.root).collect();
    if roots.is_empty() && builder.findings.is_empty() {
        builder.findings.push(Finding::error(
            rules::YAML_EMPTY,
            Location::file(path),
            "the file is empty",
            "Write a document, or remove the file.",
        ));
    }
    ParsedDocuments { roots, findings: builder.findings.finish(Location::file(path)) }
}

fn rejected_file(finding: Finding) -> ParsedDocuments {
    ParsedDocuments { roots: Vec::new(), findings: vec![finding] }
}

fn not_utf8(bytes: &[u8], valid: usize, path: &str) -> Finding {
    let before = bytes.get(..valid).unwrap_or_default();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
    let column = String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count();
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let location = Location {
        file: path.to_owned(),
        line: saturating_u32(line) + 1,
        column: saturating_u32(column) + 1,
        length: 1,
    };
    let byte = bytes.get(valid).copied().unwrap_or_default();
    Finding::error(
        rules::YAML_ENCODING,
        location,
        format!("the file is not UTF-8: byte {valid} is 0x{byte:02x}"),
        "Save the file as UTF-8.",
    )
}

/// Counts in files are below [`MAX_BYTES`], so this never saturates in practice.
fn saturating_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A list or map that is still open.
struct OpenCollection {
    span: YamlSpan,
    kind: OpenKind,
    /// The collection stands where its content is of no use, as a key: build it, then drop it.
    is_key: bool,
}

enum OpenKind {
    List(Vec<YamlNode>),
    Map {
        entries: Vec<YamlEntry>,
        /// `None`: a key comes next. `Some(None)`: the value of a refused key comes next.
        key: Option<Option<(Box<str>, YamlSpan)>>,
        /// Keys and their lines, filled once a map is long enough for a scan of all keys to be slow.
        seen: HashMap<Box<str>, u32>,
    },
}

struct YamlBuilder<'a> {
    file: FileId,
    path: &'a str,
    nodes: usize,
    stack: Vec<OpenCollection>,
    allowed: DocumentCount,
    /// The documents before the one that is being read.
    earlier: Vec<YamlNode>,
    root: Option<YamlNode>,
    findings: FileFindings,
}

/// From this many keys on a map finds duplicates by hash.
const HASHED_MAP_MIN_KEYS: usize = 24;

impl YamlBuilder<'_> {
    fn consume_events(&mut self, text: &str) {
        let options = granit_parser::options! {
            emit_comments: false,
            emit_anchor_events: true,
            emit_unresolved_aliases: true,
            disallow_directives: true,
        };
        let mut documents = 0_u32;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, place) = match event {
                Ok(event) => event,
                Err(error) => {
                    let span = self.span(error.marker(), error.marker());
                    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
                        self.report_too_deep(span);
                        return;
                    }
                    self.error(
                        rules::YAML_SYNTAX,
                        span,
                        format!("not valid YAML: {}", error.info()),
                        "Fix the syntax here or just above.",
                    );
                    return;
                }
            };
            let span = self.span(&place.start, &place.end);
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Comment(..) => {}
                Event::DocumentStart(..) => {
                    documents += 1;
                    self.earlier.extend(self.root.take_if(|_| self.allowed == DocumentCount::Any));
                    if documents > 1 && self.allowed == DocumentCount::One {
                        self.error(
                            rules::YAML_DOCUMENTS,
                            span,
                            "a second document starts here; a file holds one",
                            "Move it to a separate file, or remove the `---`.",
                        );
                        return;
                    }
                }
                Event::Anchor(_, name) => self.error(
                    rules::YAML_ANCHOR,
                    span,
                    format!("anchor `&{name}`; anchors and aliases are not allowed"),
                    "Remove the anchor, and write the value out where it is needed, or put it into defaults.",
                ),
                Event::Alias(_) | Event::UnresolvedAlias(_) => {
                    let name = place.slice(text).unwrap_or("*").to_owned();
                    self.error(
                        rules::YAML_ANCHOR,
                        span,
                        format!("alias `{name}`; anchors and aliases are not allowed"),
                        "Write the value out, or put it into defaults.",
                    );
                    self.push_scalar(YamlValue::Invalid, span);
                }
                Event::Scalar(value, style, _, tag) => {
                    self.reject_tag(tag.as_deref(), &place);
                    if self.allowed == DocumentCount::Any && self.stack.is_empty() && place.is_empty() {
                        // Nothing between two `---`.
                        continue;
                    }
                    // The parser gives an empty value as `~` without a width.
                    let value = if place.is_empty() && style == ScalarStyle::Plain { "" } else { &*value };
                    let content = self.scalar_value(value, style, span);
                    self.push_scalar(content, span);
                }
                Event::SequenceStart(_, _, tag) => {
                    self.reject_tag(tag.as_deref(), &place);
                    self.open_collection(OpenKind::List(Vec::new()), span);
                }
                Event::MappingStart(_, _, tag) => {
                    self.reject_tag(tag.as_deref(), &place);
                    self.open_collection(OpenKind::Map { entries: Vec::new(), key: None, seen: HashMap::new() }, span);
                }
                Event::SequenceEnd | Event::MappingEnd => self.close_collection(),
                // The crate may add kinds of metadata; none of them is a node unless asked for.
                _ => {}
            }
            if self.exceeds_limits(span) {
                return;
            }
        }
    }

    fn span(&self, start: &Marker, end: &Marker) -> YamlSpan {
        let length = if start.line() == end.line() { end.index().saturating_sub(start.index()) } else { 1 };
        YamlSpan {
            file: self.file,
            line: saturating_u32(start.line()).max(1),
            column: saturating_u32(start.col()).saturating_add(1),
            length: saturating_u32(length).max(1),
        }
    }

    fn error(
        &mut self,
        rule: stator_core::finding::Rule,
        span: YamlSpan,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.findings.push(Finding::error(rule, span.location(self.path), message, help));
    }

    fn check_byte_order_mark(&mut self, text: &str) {
        let Some(at) = text.find('\u{feff}') else { return };
        let before = text.get(..at).unwrap_or_default();
        let span = YamlSpan {
            file: self.file,
            line: saturating_u32(before.matches('\n').count()) + 1,
            column: saturating_u32(before.rsplit('\n').next().unwrap_or_default().chars().count()) + 1,
            length: 1,
        };
        self.error(
            rules::YAML_ENCODING,
            span,
            "an invisible byte order mark (U+FEFF) inside the file",
            "Remove the invisible character; it often comes from joining files.",
        );
    }

    fn reject_tag(&mut self, tag: Option<&granit_parser::Tag>, place: &granit_parser::Span) {
        if let Some(tag) = tag {
            let place = place.tag_span().unwrap_or(*place);
            let span = self.span(&place.start, &place.end);
            self.error(
                rules::YAML_TAG,
                span,
                format!("tag `{}`; tags are not allowed", tag.original()),
                "Remove the tag; quote a value to make it a string.",
            );
        }
    }

    fn scalar_value(&mut self, value: &str, style: ScalarStyle, span: YamlSpan) -> YamlValue {
        if style != ScalarStyle::Plain {
            return YamlValue::Text(value.into());
        }
        if self.expects_key() {
            return self.key_value(value, span);
        }
        match parse_plain_scalar(value) {
            PlainScalar::Value(content, LeadingZero::No) => content,
            PlainScalar::Value(content, LeadingZero::Yes) => {
                self.findings.push(Finding::warning(
                    rules::YAML_LEADING_ZERO,
                    span.location(self.path),
                    format!("`{value}` is a decimal number in YAML 1.2, and an octal one for older readers"),
                    format!("Write it without the leading zero, as `0o…` if octal is meant, or quote it: \"{value}\"."),
                ));
                content
            }
            PlainScalar::Null => {
                let found = if value.is_empty() { "an empty value" } else { "null" };
                self.error(
                    rules::YAML_NULL,
                    span,
                    format!("{found} is not allowed; set a value or omit the field"),
                    "Set a value, or remove the line. To drop a default, name its field in `unset`.",
                );
                YamlValue::Invalid
            }
            PlainScalar::Unrepresentable => {
                self.error(
                    rules::YAML_NUMBER,
                    span,
                    format!("`{value}` is a number that does not fit: it is infinite, undefined, or above 64 bits"),
                    format!("Write a smaller number, or quote it if a string is meant: \"{value}\"."),
                );
                YamlValue::Invalid
            }
        }
    }

    /// A plain key that YAML does not read as text (`1:`, `true:`, `~:`) is refused: readers disagree on its name.
    fn key_value(&mut self, value: &str, span: YamlSpan) -> YamlValue {
        match parse_plain_scalar(value) {
            PlainScalar::Value(YamlValue::Text(text), _) => YamlValue::Text(text),
            PlainScalar::Value(..) | PlainScalar::Null | PlainScalar::Unrepresentable => {
                let found = if value.is_empty() { "nothing".to_owned() } else { format!("`{value}`") };
                self.error(
                    rules::YAML_KEY,
                    span,
                    format!("{found} as a key; keys are strings"),
                    format!("Quote it: \"{value}\"."),
                );
                YamlValue::Invalid
            }
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(OpenCollection { kind: OpenKind::Map { key: None, .. }, .. }))
    }

    fn exceeds_limits(&mut self, span: YamlSpan) -> bool {
        if self.stack.len() > MAX_DEPTH {
            self.report_too_deep(span);
            return true;
        }
        if self.nodes > MAX_NODES {
            self.error(
                rules::YAML_TOO_BIG,
                span,
                format!("more than {MAX_NODES} values in one file"),
                "Keep one model per file, and no data in it.",
            );
            self.root = None;
            return true;
        }
        false
    }

    fn report_too_deep(&mut self, span: YamlSpan) {
        self.error(
            rules::YAML_TOO_DEEP,
            span,
            format!("nested deeper than {MAX_DEPTH} levels"),
            "Flatten the document; no field of stator needs this depth.",
        );
        self.root = None;
    }

    fn open_collection(&mut self, kind: OpenKind, span: YamlSpan) {
        self.nodes += 1;
        let is_key = self.expects_key();
        self.stack.push(OpenCollection { span, kind, is_key });
    }

    fn close_collection(&mut self) {
        let Some(open) = self.stack.pop() else { return };
        let value = match open.kind {
            OpenKind::List(items) => YamlValue::List(items),
            OpenKind::Map { entries, .. } => YamlValue::Map(entries),
        };
        if open.is_key {
            self.error(
                rules::YAML_KEY,
                open.span,
                "a list or map as a key; keys are strings",
                "Give the field a name. Text with braces, such as `{{ value }}`, must be quoted.",
            );
            self.attach_node(YamlNode { value: YamlValue::Invalid, span: open.span });
        } else {
            self.attach_node(YamlNode { value, span: open.span });
        }
    }

    fn push_scalar(&mut self, content: YamlValue, span: YamlSpan) {
        self.nodes += 1;
        self.attach_node(YamlNode { value: content, span });
    }

    /// Puts a finished node where it belongs: the root, a list, or a map as key or value.
    fn attach_node(&mut self, node: YamlNode) {
        let path = self.path;
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map { entries, key, seen } => match key.take() {
                Some(Some((key, key_span))) => entries.push(YamlEntry { key, key_span, value: node }),
                Some(None) => {}
                None => *key = Some(accept_key(node, entries, seen, path, &mut self.findings)),
            },
        }
    }
}

/// Accepts or refuses a key; the value of a refused one is read and dropped.
fn accept_key(
    node: YamlNode,
    entries: &[YamlEntry],
    seen: &mut HashMap<Box<str>, u32>,
    path: &str,
    findings: &mut FileFindings,
) -> Option<(Box<str>, YamlSpan)> {
    let span = node.span;
    let YamlValue::Text(key) = node.value else { return None };
    if &*key == "<<" {
        findings.push(Finding::error(
            rules::YAML_ANCHOR,
            span.location(path),
            "merge key `<<`; merge keys are not allowed",
            "Write the fields out, or put them into defaults.",
        ));
        return None;
    }
    let first = if entries.len() < HASHED_MAP_MIN_KEYS {
        entries.iter().find(|entry| entry.key == key).map(|entry| entry.key_span.line)
    } else {
        if seen.is_empty() {
            seen.extend(entries.iter().map(|entry| (entry.key.clone(), entry.key_span.line)));
        }
        let first = seen.get(&key).copied();
        if first.is_none() {
            seen.insert(key.clone(), span.line);
        }
        first
    };
    if let Some(first) = first {
        findings.push(Finding::error(
            rules::YAML_DUPLICATE_KEY,
            span.location(path),
            format!("`{key}` is defined twice; the first is on line {first}"),
            "Keep one of them.",
        ));
        return None;
    }
    Some((key, span))
}
