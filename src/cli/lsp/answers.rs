//! Answers to an editor's questions about one file.

use super::analysis::{DIAGNOSTIC_SOURCE, KnownValues};
use super::buffers::OpenBuffers;
use super::positions;
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeActionParams, CompletionItem, CompletionItemKind,
    CompletionParams, CompletionTextEdit, Diagnostic, DocumentFormattingParams, Documentation, Hover, HoverContents,
    HoverParams, MarkupContent, MarkupKind, TextEdit, WorkspaceEdit,
};
use stator_core::finding::closest_match;
use stator_model::intent::cursor::{CursorSlot, DocumentCursor};
use stator_model::intent::explain::{ExplainError, FieldExplanation, explain};
use stator_model::intent::field_at::field_at;
use stator_model::intent::format::format_document;
use stator_model::intent::{DocumentKind, FileRole};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;

/// What a file says that does not say what it is; `None` for a file of others.
fn usual_document(path: &Path) -> Option<DocumentKind> {
    Some(match FileRole::of_name(&path.file_name().unwrap_or_default().to_string_lossy()) {
        FileRole::Settings => DocumentKind::Repository,
        FileRole::Lock(_) => DocumentKind::Lock,
        FileRole::Intent | FileRole::Overlay(_) | FileRole::Misnamed { .. } => DocumentKind::Model,
        FileRole::Other => return None,
    })
}

/// What the field at a place is.
pub fn hover(buffers: &OpenBuffers, asked: &HoverParams) -> Option<Hover> {
    let place = &asked.text_document_position_params;
    let (path, buffer) = buffers.get(&place.text_document.uri)?;
    let (line, column) = (positions::line_of(place.position), positions::column_of(&buffer.text, place.position));
    let cursor = DocumentCursor::under(&buffer.text, line, column, usual_document(&path)?)?;
    let explanation = cursor.explain().ok()?;
    let value = explanation_markdown(&explanation);
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value }),
        range: Some(positions::range_in_line(&buffer.text, line, cursor.start, cursor.end)),
    })
}

fn explanation_markdown(explanation: &FieldExplanation) -> String {
    let required = if explanation.required { ", required" } else { "" };
    let mut out =
        format!("`{}` ({}{required})\n\n{}\n", explanation.path, explanation.type_name, explanation.description);
    for rule in &explanation.rules {
        let _ = write!(out, "\n- {rule}");
    }
    for value in &explanation.values {
        let _ = write!(out, "\n- `{}` {}", value.value, value.description);
    }
    out.trim_end().to_owned()
}

/// What may stand at a place: the fields of its map that are not there yet, or the values of its field.
pub fn completion(buffers: &OpenBuffers, asked: &CompletionParams, known: &KnownValues) -> Option<Vec<CompletionItem>> {
    let place = &asked.text_document_position;
    let (path, buffer) = buffers.get(&place.text_document.uri)?;
    let (line, column) = (positions::line_of(place.position), positions::column_of(&buffer.text, place.position));
    let cursor = DocumentCursor::find(&buffer.text, line, column, usual_document(&path)?);
    let explanation = cursor.explain().ok()?;
    let range = positions::range_in_line(&buffer.text, line, cursor.start, cursor.end);
    let items = match cursor.slot {
        CursorSlot::Name => proposed_names(&explanation, &cursor, buffer.text.lines().nth(line).unwrap_or_default()),
        CursorSlot::Value => Vec::new(),
    };
    // A list of plain values has its values where a map has names.
    let values = match cursor.slot {
        CursorSlot::Name if !explanation.fields.is_empty() => Vec::new(),
        CursorSlot::Name | CursorSlot::Value => proposed_values(&explanation, &cursor, known),
    };
    let numbered = items.into_iter().chain(values).enumerate().map(|(at, proposal)| CompletionItem {
        label: proposal.label,
        kind: Some(proposal.kind),
        detail: proposal.detail,
        documentation: proposal.documentation.map(Documentation::String),
        // In the order of the reference, which puts first what is written first.
        sort_text: Some(format!("{at:04}")),
        text_edit: Some(CompletionTextEdit::Edit(TextEdit { range, new_text: proposal.text })),
        ..CompletionItem::default()
    });
    Some(numbered.collect())
}

struct CompletionProposal {
    label: String,
    text: String,
    kind: CompletionItemKind,
    detail: Option<String>,
    documentation: Option<String>,
}

fn proposed_names(explanation: &FieldExplanation, cursor: &DocumentCursor, line: &str) -> Vec<CompletionProposal> {
    let taken: BTreeSet<&str> = cursor.siblings.iter().map(String::as_str).collect();
    // A name that is only renamed keeps what stands behind it.
    let has_colon = line.chars().skip(cursor.end).collect::<String>().trim_start().starts_with(':');
    let below = " ".repeat(cursor.indent + 2);
    let free = explanation.fields.iter().filter(|field| !taken.contains(field.name.as_str()));
    let proposals = free.map(|field| {
        let rest = if has_colon {
            String::new()
        } else if field.type_name.starts_with("[]") {
            format!(":\n{below}- ")
        } else if field.type_name == "object" || field.type_name.starts_with("map") {
            format!(":\n{below}")
        } else {
            ": ".to_owned()
        };
        let required = if field.required { ", required" } else { "" };
        CompletionProposal {
            label: field.name.clone(),
            text: format!("{}{rest}", field.name),
            kind: CompletionItemKind::PROPERTY,
            detail: Some(format!("{}{required}", field.type_name)),
            documentation: Some(field.description.clone()),
        }
    });
    proposals.collect()
}

fn proposed_values(
    explanation: &FieldExplanation,
    cursor: &DocumentCursor,
    known: &KnownValues,
) -> Vec<CompletionProposal> {
    let allowed = explanation.values.iter().map(|value| CompletionProposal {
        label: value.value.clone(),
        text: value.value.clone(),
        kind: CompletionItemKind::ENUM_MEMBER,
        detail: None,
        documentation: Some(value.description.clone()).filter(|text| !text.is_empty()),
    });
    let mut proposals: Vec<CompletionProposal> = allowed.collect();
    let names = explanation.refers_to_model.then_some(&known.models).into_iter().flatten();
    // Values that are few are all known; of others, those that the repository's models have.
    let used = cursor.field_name().and_then(|name| known.by_field.get(name)).filter(|_| proposals.is_empty());
    let open = match explanation.type_name.as_str() {
        "boolean" => vec!["true".to_owned(), "false".to_owned()],
        _ if explanation.refers_to_model => names.cloned().collect(),
        _ => used.into_iter().flatten().cloned().collect(),
    };
    let has = |proposals: &[CompletionProposal], label: &str| proposals.iter().any(|one| one.label == label);
    for label in open {
        if !has(&proposals, &label) {
            let (text, kind) = (label.clone(), CompletionItemKind::VALUE);
            proposals.push(CompletionProposal { label, text, kind, detail: None, documentation: None });
        }
    }
    proposals
}

/// What mends findings: the name or the value that was meant in place of what stands there.
pub fn code_actions(buffers: &OpenBuffers, asked: &CodeActionParams) -> Vec<CodeActionOrCommand> {
    let uri = &asked.text_document.uri;
    let Some((path, buffer)) = buffers.get(uri) else { return Vec::new() };
    let own = asked.context.diagnostics.iter().filter(|one| one.source.as_deref() == Some(DIAGNOSTIC_SOURCE));
    let action = |diagnostic: &Diagnostic| {
        let meant = meant_word(&buffer.text, diagnostic, usual_document(&path)?)?;
        let edit = TextEdit { range: diagnostic.range, new_text: meant.clone() };
        // The type of the protocol has addresses as keys.
        #[allow(clippy::mutable_key_type, reason = "an address does not change once it is made")]
        let changes = HashMap::from([(uri.clone(), vec![edit])]);
        Some(CodeActionOrCommand::CodeAction(CodeAction {
            title: format!("Replace with `{meant}`"),
            kind: Some(CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![diagnostic.clone()]),
            edit: Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }),
            is_preferred: Some(true),
            ..CodeAction::default()
        }))
    };
    own.filter_map(action).collect()
}

/// The word that was meant where a diagnostic stands; `None` where none is near, or what stands there is allowed.
fn meant_word(text: &str, diagnostic: &Diagnostic, usual: DocumentKind) -> Option<String> {
    let start = diagnostic.range.start;
    let (line, column) = (positions::line_of(start), positions::column_of(text, start));
    let end = positions::column_of(text, diagnostic.range.end);
    let whole = text.lines().nth(line)?;
    let marked: String = whole.chars().skip(column).take(end.saturating_sub(column)).collect();
    let marked = marked.trim_matches(['"', '\'']);
    let cursor = DocumentCursor::under(text, line, column, usual)?;
    // A name that nobody knows, or that an engine calls so.
    if cursor.field_name() == Some(marked)
        && let Err(ExplainError::UnknownField { meant, allowed, .. }) = explain(&cursor.dotted_path())
    {
        // One that stands elsewhere is no word for this place.
        return meant.into_iter().find(|one| allowed.contains(one));
    }
    let from_one = |index: usize| u32::try_from(index + 1).ok();
    let field = field_at(text.as_bytes(), from_one(line)?, from_one(column)?)?;
    let found = field.found.filter(|found| found == marked && !field.allowed.contains(found))?;
    closest_match(&found, field.allowed.iter().map(String::as_str)).map(str::to_owned)
}

/// The document in its canonical form; nothing where it cannot be read, and for a file of others.
pub fn formatting(buffers: &OpenBuffers, asked: &DocumentFormattingParams) -> Option<Vec<TextEdit>> {
    let (path, buffer) = buffers.get(&asked.text_document.uri)?;
    usual_document(&path)?;
    let formatted = format_document(&buffer.text).ok()?;
    let edit = TextEdit { range: positions::whole_range(&buffer.text), new_text: formatted };
    Some(if edit.new_text == *buffer.text { Vec::new() } else { vec![edit] })
}
