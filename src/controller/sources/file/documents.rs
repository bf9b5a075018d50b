//! One file of many documents, each read strictly and by itself; nothing of a secret is ever quoted.

use stator_core::finding::{Finding, Location};
use stator_model::intent::rules;
use stator_model::intent::yaml::{self, YamlNode};

/// One document of the file.
#[derive(Debug)]
pub(super) struct SourceFileDocument {
    /// What it holds, as far as it could be read.
    pub node: Option<YamlNode>,
    /// Where it begins.
    pub location: Location,
    /// Faults of its YAML.
    pub findings: Vec<Finding>,
    /// Its first line, from 1, and the one after its last.
    pub lines: (usize, usize),
    /// Whether nothing in it looks like the beginning or the end of another document.
    pub is_unambiguous: bool,
}

impl SourceFileDocument {
    /// Whether it may be shown. What says anything else than `kind: ModelSource`, or cannot be read, may hold a secret,
    /// and so may what comes after a mark that only YAML takes for one, or after one that got lost: then a key comes twice.
    pub(super) fn is_public(&self) -> bool {
        self.is_unambiguous && self.kind() == Some("ModelSource") && !self.repeats_top_level_key()
    }

    fn repeats_top_level_key(&self) -> bool {
        let first = self.node.as_ref().and_then(|node| node.entries().first());
        let Some(column) = first.map(|entry| entry.key_span.column) else { return false };
        let mut repeated = self.findings.iter().filter(|finding| finding.rule.id == rules::YAML_DUPLICATE_KEY.id);
        repeated.any(|finding| finding.location.column == column)
    }

    /// Its `kind`.
    pub(super) fn kind(&self) -> Option<&str> {
        self.node.as_ref()?.get("kind")?.as_str()
    }
}

/// The documents of a file; those with nothing in them are passed over.
pub(super) fn split_documents(path: &str, bytes: &[u8]) -> Vec<SourceFileDocument> {
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= yaml::MAX_BYTES) else {
        let parsed = yaml::parse_yaml(bytes, 0, path);
        return vec![SourceFileDocument {
            node: None,
            location: Location::file(path),
            findings: parsed.findings,
            lines: (1, usize::MAX),
            is_unambiguous: false,
        }];
    };
    let mut starts = vec![0];
    let lines: Vec<&str> = text.lines().collect();
    starts.extend(lines.iter().enumerate().filter(|(_, line)| is_document_marker(line)).map(|(number, _)| number + 1));
    let ends = starts.iter().skip(1).map(|start| start - 1).chain([lines.len()]);
    let mut documents = Vec::new();
    for (start, end) in starts.iter().copied().zip(ends) {
        let body = lines.get(start..end).unwrap_or_default();
        let content = |line: &&str| !matches!(line.trim(), "" | "...") && !line.trim().starts_with('#');
        let Some(first) = body.iter().position(content) else { continue };
        documents.push(parse_document(path, body, start, start + first, end));
    }
    documents
}

fn is_document_marker(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
}

fn parse_document(path: &str, body: &[&str], start: usize, first: usize, end: usize) -> SourceFileDocument {
    let mut parsed = yaml::parse_yaml(body.join("\n").as_bytes(), 0, path);
    let shift = u32::try_from(start).unwrap_or(u32::MAX);
    if let Some(node) = &mut parsed.root {
        shift_lines(node, shift);
    }
    for finding in &mut parsed.findings {
        if finding.location.line > 0 {
            finding.location.line = finding.location.line.saturating_add(shift);
        }
    }
    let line = u32::try_from(first).unwrap_or(u32::MAX).saturating_add(1);
    SourceFileDocument {
        node: parsed.root,
        location: Location { file: path.to_owned(), line, column: 1, length: 1 },
        findings: parsed.findings,
        lines: (start + 1, end + 1),
        is_unambiguous: !body.iter().any(|line| line.starts_with("---") || line.starts_with("...")),
    }
}

/// Moves a node's places down. The reader bounds its depth.
fn shift_lines(node: &mut YamlNode, lines: u32) {
    node.span.line = node.span.line.saturating_add(lines);
    match &mut node.value {
        yaml::YamlValue::List(items) => items.iter_mut().for_each(|item| shift_lines(item, lines)),
        yaml::YamlValue::Map(entries) => {
            for entry in entries {
                entry.key_span.line = entry.key_span.line.saturating_add(lines);
                shift_lines(&mut entry.value, lines);
            }
        }
        yaml::YamlValue::Invalid | yaml::YamlValue::Bool(_) | yaml::YamlValue::Number(_) | yaml::YamlValue::Text(_) => {
        }
    }
}

/// A finding about a document that may hold a secret: the rule in its place, as the message quotes what stands there.
pub(super) fn redact_finding(finding: Finding) -> Finding {
    let message = format!("{} The value may be a secret and is not shown.", finding.rule.summary);
    Finding { message, help: "Correct the document.".to_owned(), ..finding }
}

/// The file for showing findings in: whatever may be secret is starred out, in place.
pub(super) fn redact_text(bytes: &[u8], documents: &[SourceFileDocument]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let public =
        |number: usize| documents.iter().any(|one| one.is_public() && (one.lines.0..one.lines.1).contains(&number));
    let mut shown = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        if public(index + 1) || is_document_marker(line) {
            shown.push_str(&mask_credentials(line));
        } else {
            let keep = VISIBLE_SECRET_FIELDS
                .iter()
                .find(|key| line.trim_start().starts_with(**key))
                .map_or(0, |key| line.len() - line.trim_start().len() + key.len());
            shown.push_str(line.get(..keep).unwrap_or_default());
            let rest = line.get(keep..).unwrap_or_default();
            shown.extend(rest.chars().map(|c| if c.is_whitespace() { c } else { '*' }));
        }
        shown.push('\n');
    }
    shown
}

/// What may be read of a secret: the fields that every secret has.
const VISIBLE_SECRET_FIELDS: [&str; 6] = ["apiVersion:", "kind:", "metadata:", "data:", "stringData:", "type:"];

/// A line with `user:password` before the host of an address starred out. Such an address is refused, and shown so that
/// it can be found.
fn mask_credentials(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("//") {
        let (before, after) = rest.split_at(at + 2);
        shown.push_str(before);
        let end = after.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(after.len());
        let login = after.get(..end).and_then(|authority| authority.rfind('@')).unwrap_or(0);
        shown.extend(after.chars().take(after.get(..login).unwrap_or_default().chars().count()).map(|_| '*'));
        rest = after.get(login..).unwrap_or_default();
    }
    shown + rest
}
