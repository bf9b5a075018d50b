//! A file of sources: `ModelSource` documents and the `Secret` documents that they name.
//!
//! Read as strictly as intents are, every fault at once, and without a word of what a secret holds: what is said of a
//! document that may be one names the rule and the place only.

mod documents;

#[cfg(test)]
mod tests;

use super::resolved_source::SyncTarget;
pub use super::resolved_source::{ResolvedSource, SourceKey, SourceSecrets};
use super::spec::{self, SecretKey, rules};
use documents::SourceFileDocument;
use stator_core::finding::{self, Finding, Location};
use stator_git::source::secret::{SecretError, SecretValues};
use stator_model::intent::yaml::{MAX_BYTES, YamlNode};
use std::collections::BTreeMap;
use std::path::Path;

/// Most sources of one file: each has a task, a mirror and metrics of its own.
pub const MAX_SOURCES: usize = 1000;

/// What was read of a file.
#[derive(Debug)]
pub struct ParsedSourceFile {
    /// The sources without faults, sorted by name.
    pub sources: Vec<ResolvedSource>,
    /// Every fault of the file, sorted.
    pub findings: Vec<Finding>,
    /// The file for showing faults in, with everything starred out that may be secret.
    pub redacted_text: String,
}

/// Reads a file from disk.
///
/// # Errors
/// When it cannot be read at all.
pub fn read_file(path: &Path) -> std::io::Result<ParsedSourceFile> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    fs_err::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(parse_file(&path.display().to_string(), &bytes))
}

/// Reads the bytes of a file; `path` is what it is called in findings.
pub fn parse_file(path: &str, bytes: &[u8]) -> ParsedSourceFile {
    let documents = documents::split_documents(path, bytes);
    let mut findings = Vec::new();
    let mut secrets: BTreeMap<SecretKey, SecretValues> = BTreeMap::new();
    let mut described = 0;
    for document in &documents {
        let (found, public) = (document.findings.iter().cloned(), document.is_public());
        findings.extend(found.map(|finding| if public { finding } else { documents::redact_finding(finding) }));
        match (document.kind(), &document.node) {
            (Some("ModelSource"), _) => described += 1,
            (Some("Secret"), Some(node)) => read_secret_document(path, node, document, &mut secrets, &mut findings),
            (_, None) => {}
            (_, Some(_)) if !document.findings.is_empty() => {}
            (kind, Some(_)) => findings.push(unknown_kind_finding(document, kind)),
        }
    }
    let mut sources: Vec<PlacedSource> = Vec::new();
    for document in documents.iter().filter(|document| document.is_public()) {
        let Some(node) = &document.node else { continue };
        match spec::read_source(node, spec::SourceSecretLookup::File(&secrets)) {
            Ok(source) if !document.findings.iter().any(Finding::is_error) => {
                let location = node.span.location(path);
                let source = ResolvedSource { position: location.line, ..source };
                sources.push(PlacedSource { source, location });
            }
            Ok(_) => {}
            Err(faults) => {
                findings.extend(faults.into_iter().map(|one| one.map_location(|span| span.location(path))));
            }
        }
    }
    let refuse = |message: String, help: &str| Finding::error(rules::DOCUMENT, Location::file(path), message, help);
    if described == 0 && findings.is_empty() {
        let help =
            "Write one as `stator schema source` describes it; docs/how-to/run-the-controller.md has an example.";
        findings.push(refuse("there is no `ModelSource` in the file".to_owned(), help));
    }
    if described > MAX_SOURCES {
        let message = format!("there are {described} sources in the file; at most {MAX_SOURCES} are allowed");
        findings.push(refuse(message, "Divide them among several controllers."));
    }
    sources.sort_by(|a, b| (&a.source.key, a.location.line).cmp(&(&b.source.key, b.location.line)));
    find_duplicates(&sources, &mut findings);
    finding::sort_and_dedup(&mut findings);
    let sources = sources.into_iter().map(|one| one.source).collect();
    ParsedSourceFile { sources, findings, redacted_text: documents::redact_text(bytes, &documents) }
}

/// A source, and where its document begins in the file.
struct PlacedSource {
    source: ResolvedSource,
    location: Location,
}

/// What is no kind of ours may well be a secret with a slip of the pen in it, so its `kind` is all that is said.
fn unknown_kind_finding(document: &SourceFileDocument, kind: Option<&str>) -> Finding {
    let message = match kind {
        Some(_) => "the document is neither a `ModelSource` nor a `Secret`",
        None => "the document has no `kind`",
    };
    let help = "Write `kind: ModelSource` or `kind: Secret`; put other objects into another file.";
    Finding::error(rules::DOCUMENT, document.location.clone(), message, help)
}

fn read_secret_document(
    path: &str,
    node: &YamlNode,
    document: &SourceFileDocument,
    known: &mut BTreeMap<SecretKey, SecretValues>,
    findings: &mut Vec<Finding>,
) {
    let version = node.get("apiVersion").and_then(YamlNode::as_str);
    let place =
        |node: Option<&YamlNode>| node.map_or_else(|| document.location.clone(), |node| node.span.location(path));
    if version != Some("v1") {
        let message = "a `Secret` has `apiVersion: v1`";
        findings.push(Finding::error(rules::SECRET, place(node.get("apiVersion")), message, "Write `apiVersion: v1`."));
    }
    for entry in node.entries() {
        if !["apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData"].contains(&&*entry.key) {
            let at = entry.key_span.location(path);
            let message = "a field that secrets do not have";
            findings.push(Finding::error(rules::SECRET, at, message, "Put values under `stringData`."));
        }
    }
    match SecretValues::read(&node.to_json()) {
        Ok(values) => {
            let namespace =
                node.get("metadata").and_then(|metadata| metadata.get("namespace")).and_then(YamlNode::as_str);
            let key = (namespace.unwrap_or("default").to_owned(), values.name().to_owned());
            if known.insert(key, values).is_some() {
                let message = "a second secret of that name in its namespace";
                let at = place(node.get("metadata").and_then(|metadata| metadata.get("name")));
                findings.push(Finding::error(rules::DUPLICATE, at, message, "Keep one of them, or rename one."));
            }
        }
        // What could not be read was refused by the YAML reader, and reported.
        Err(_) if !document.findings.is_empty() => {}
        Err(faults) => findings.extend(faults.into_iter().map(|fault| {
            let at = secret_error_location(path, node, &fault).unwrap_or_else(|| document.location.clone());
            Finding::error(rules::SECRET, at, fault.to_string(), "Correct the secret.")
        })),
    }
}

fn secret_error_location(path: &str, node: &YamlNode, fault: &SecretError) -> Option<Location> {
    let key_of = |key: &str| {
        let maps = ["stringData", "data"].into_iter().filter_map(|field| node.get(field));
        maps.filter_map(|map| map.entry(key)).map(|entry| entry.key_span).next()
    };
    let span = match fault {
        SecretError::Nameless => node.entry("metadata")?.key_span,
        SecretError::NoMap { field, .. } => node.entry(field)?.key_span,
        SecretError::NotText { key, .. } => key_of(key)?,
        SecretError::NotBase64 { key, .. } => node.get("data")?.entry(key)?.key_span,
    };
    Some(span.location(path))
}

/// Names are in paths of webhooks, in metrics and in the names of mirrors; and two sources that sync one environment
/// would take turns at undoing each other.
fn find_duplicates(sources: &[PlacedSource], findings: &mut Vec<Finding>) {
    let mut names: BTreeMap<&SourceKey, &Location> = BTreeMap::new();
    let mut targets: BTreeMap<SyncTarget<'_>, &ResolvedSource> = BTreeMap::new();
    for PlacedSource { source, location } in sources {
        if let Some(first) = names.get(&source.key) {
            let message = format!("a second source `{}`; the first is in line {}", source.key.name, first.line);
            findings.push(Finding::error(rules::DUPLICATE, location.clone(), message, "Rename one of them."));
            continue;
        }
        names.insert(&source.key, location);
        // All sources of a file have one owner: whoever wrote it.
        if let Some(first) = targets.insert(source.sync_target(""), source) {
            let message =
                format!("`{}` and `{}` sync the same environment of one repository", first.key.name, source.key.name);
            let help = "Keep one of them: each would undo the changes of the other.";
            findings.push(Finding::error(rules::DUPLICATE, location.clone(), message, help));
        }
    }
}
