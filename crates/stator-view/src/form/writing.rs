//! From what was touched to the text: each field alone, where it stands.

use super::fields::{FORM_FIELDS, FieldKind, FormField, ServingLayout, ServingMode, path_of};
use super::reading::{FormReading, node_at, variables};
use super::submission::FormSubmission;
use crate::problem::RequestFault;
use serde_json::{Map, Value};
use stator_model::intent::format::{DocumentEdit, EditError, FormatError, edit_document};
use stator_model::intent::yaml::parse_yaml;
use std::collections::BTreeMap;

/// Maps that say nothing when they are empty, and go with the last field of the form in them.
const GROUPS: [&str; 10] = [
    "/spec/sla/workload",
    "/spec/sla/worker",
    "/spec/serving/frontend",
    "/spec/serving/worker/scaling",
    "/spec/serving/prefill/scaling",
    "/spec/serving/decode/scaling",
    "/spec/hardware",
    "/spec/secrets",
    "/spec/env",
    "/metadata/labels",
];

/// The text that a form makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormDraft {
    /// The text.
    pub text: String,
    /// What could not be written, by field. The text is then as it was sent.
    pub faults: Vec<RequestFault>,
    /// What was taken out for another kind of serving, as JSON by pointer.
    pub kept: String,
    /// Whether something that was touched is not in the text: then fields say it still.
    pub is_unwritten: bool,
}

/// The text with everything that was touched: what a field holds other than what it was filled with. The rest is the text as
/// it was sent, byte by byte.
pub fn apply_submission(sent: &FormSubmission) -> FormDraft {
    let Some(before) = FormReading::read(&sent.base) else {
        return FormDraft { text: sent.yaml.clone(), kept: sent.kept.clone(), ..FormDraft::default() };
    };
    let kept = serde_json::from_str(&sent.kept).unwrap_or_default();
    let mut writer = TextWriter { text: sent.yaml.clone(), faults: Vec::new(), kept, is_stuck: false };
    let mode = sent.mode.unwrap_or(before.mode);
    let layout = sent.layout.unwrap_or(before.layout);
    let touched: Vec<TouchedField<'_>> = FORM_FIELDS
        .iter()
        .filter_map(|field| {
            let (was, is) = (before.values.get(&field.pointer)?, sent.values.get(&field.pointer)?);
            (tidy(field.kind, was) != tidy(field.kind, is)).then_some(TouchedField { field, was, is })
        })
        .collect();
    let (now, later): (Vec<_>, Vec<_>) =
        touched.iter().partition(|one| one.field.group.applies(before.mode, before.layout));
    // What was typed before another kind of serving was chosen is kept with the rest of its kind.
    writer.write_all(&now);
    let mut layout = layout;
    if mode != before.mode {
        writer.change_mode(mode);
        // What was put back says how workers serve.
        layout = match ["prefill", "decode", "worker"].map(|one| writer.has(&format!("/spec/serving/{one}"))) {
            [false, false, false] => layout,
            [false, false, true] => ServingLayout::Aggregated,
            [true, ..] | [_, true, _] => ServingLayout::Disaggregated,
        };
    } else if mode == ServingMode::Direct && layout != before.layout {
        writer.change_layout(layout);
    }
    let later: Vec<_> = later.into_iter().filter(|one| one.field.group.applies(mode, layout)).collect();
    writer.write_all(&later);
    if mode != before.mode || layout != before.layout {
        writer.complete(mode, layout);
    }
    for group in GROUPS {
        if touched.iter().any(|one| format!("{}/", one.field.pointer).starts_with(&format!("{group}/"))) {
            writer.remove_empty(group);
        }
    }
    let TextWriter { text, faults, kept, is_stuck } = writer;
    if is_stuck || !faults.is_empty() {
        return FormDraft { text: sent.yaml.clone(), faults, kept: sent.kept.clone(), is_unwritten: true };
    }
    let kept = if kept.is_empty() { String::new() } else { Value::Object(kept).to_string() };
    FormDraft { text, faults, kept, is_unwritten: false }
}

/// What a field says, without what does not count.
fn tidy(kind: FieldKind, text: &str) -> String {
    match kind {
        FieldKind::Text | FieldKind::Number | FieldKind::Choice | FieldKind::Flag => text.trim().to_owned(),
        FieldKind::Lines | FieldKind::Variables => {
            text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A field that somebody touched.
#[derive(Clone, Copy)]
struct TouchedField<'a> {
    field: &'a FormField,
    was: &'a str,
    is: &'a str,
}

struct TextWriter {
    text: String,
    faults: Vec<RequestFault>,
    /// What was taken out, by pointer.
    kept: Map<String, Value>,
    /// Whether the text has an error of its own, so that nothing can be written into it.
    is_stuck: bool,
}

impl TextWriter {
    fn edit(&mut self, pointer: &str, edit: DocumentEdit) {
        match edit_document(&self.text, &[edit]) {
            Ok(text) => self.text = text,
            // The text has an error of its own, which is reported with its place.
            Err(EditError::Format(FormatError::Syntax { .. })) => self.is_stuck = true,
            Err(error) => self.faults.push(RequestFault {
                pointer: format!("#{pointer}"),
                detail: error.to_string(),
                ..RequestFault::default()
            }),
        }
    }

    fn set(&mut self, pointer: &str, value: Value) {
        self.edit(pointer, DocumentEdit::Set { path: path_of(pointer), value });
    }

    fn remove(&mut self, pointer: &str) {
        self.edit(pointer, DocumentEdit::Remove { path: path_of(pointer) });
    }

    fn rename(&mut self, pointer: &str, to: &str) {
        self.edit(pointer, DocumentEdit::Rename { path: path_of(pointer), to: to.to_owned() });
    }

    fn has(&self, pointer: &str) -> bool {
        parse_yaml(self.text.as_bytes(), 0, "").root.is_some_and(|root| node_at(&root, pointer).is_some())
    }

    fn remove_empty(&mut self, pointer: &str) {
        let root = parse_yaml(self.text.as_bytes(), 0, "").root;
        let is_empty =
            root.and_then(|root| Some(node_at(&root, pointer)?.to_json() == Value::Object(serde_json::Map::new())));
        if is_empty == Some(true) {
            self.remove(pointer);
        }
    }

    fn write_all(&mut self, touched: &[&TouchedField<'_>]) {
        for TouchedField { field, was, is } in touched {
            self.write(field, was, is);
        }
    }

    /// Takes a part out, and keeps it for when it is wanted again.
    fn put_away(&mut self, pointer: &str) {
        let root = parse_yaml(self.text.as_bytes(), 0, "").root;
        if let Some(part) = root.as_ref().and_then(|root| node_at(root, pointer)) {
            self.kept.insert(pointer.to_owned(), part.to_json());
            self.remove(pointer);
        }
    }

    /// Puts a part back that was taken out before.
    fn put_back(&mut self, pointer: &str) {
        if let Some(part) = self.kept.remove(pointer).filter(|_| !self.has(pointer)) {
            self.set(pointer, part);
        }
    }

    fn change_mode(&mut self, mode: ServingMode) {
        let (direct, target) = (["/spec/serving"].as_slice(), ["/spec/sla", "/spec/hardware/totalGpus"].as_slice());
        let (from, to) = match mode {
            ServingMode::Target => (direct, target),
            ServingMode::Direct => (target, direct),
        };
        let (left, entered) = (mode_word(mode.other()), mode_word(mode));
        self.kept.insert(format!("text {left}"), Value::from(self.text.as_str()));
        from.iter().for_each(|pointer| self.put_away(pointer));
        self.remove_empty("/spec/hardware");
        let rest = Value::from(self.text.as_str());
        self.kept.insert(format!("rest {left}"), rest.clone());
        // Where nothing else was changed meanwhile, the text is what it was, with its comments and its order.
        let known = self.kept.remove(&format!("rest {entered}")).zip(self.kept.remove(&format!("text {entered}")));
        match known {
            Some((before, Value::String(text))) if before == rest => {
                to.iter().for_each(|pointer| drop(self.kept.remove(*pointer)));
                self.text = text;
            }
            Some(_) | None => to.iter().for_each(|pointer| self.put_back(pointer)),
        }
    }

    /// To the other layout; back to how it was, where nothing else was changed meanwhile.
    fn change_layout(&mut self, layout: ServingLayout) {
        let (left, entered) = match layout {
            ServingLayout::Disaggregated => ("aggregated", "disaggregated"),
            ServingLayout::Aggregated => ("disaggregated", "aggregated"),
        };
        let text = Value::from(self.text.as_str());
        let known = self.kept.remove(&format!("after {entered}")).zip(self.kept.remove(&format!("text {entered}")));
        self.kept.insert(format!("text {left}"), text.clone());
        match known {
            Some((after, Value::String(before))) if after == text => self.text = before,
            Some(_) | None => self.rearrange_workers(layout),
        }
        self.kept.insert(format!("after {left}"), Value::from(self.text.as_str()));
    }

    /// What workers say goes along: those of one kind become those that decode, and the other way round.
    fn rearrange_workers(&mut self, layout: ServingLayout) {
        let (from, to) = match layout {
            ServingLayout::Disaggregated => ("/spec/serving/worker", "decode"),
            ServingLayout::Aggregated => {
                self.put_away("/spec/serving/prefill");
                ("/spec/serving/decode", "worker")
            }
        };
        if self.has(from) {
            self.rename(from, to);
        }
        if layout == ServingLayout::Disaggregated {
            self.put_back("/spec/serving/prefill");
        }
    }

    /// Adds what a kind of serving needs at least.
    fn complete(&mut self, mode: ServingMode, layout: ServingLayout) {
        let needed: &[&str] = match (mode, layout) {
            (ServingMode::Target, _) => {
                if !self.has("/spec/sla") {
                    self.set("/spec/sla/autoApply", Value::Bool(false));
                }
                &[]
            }
            (ServingMode::Direct, ServingLayout::Aggregated) => &["/spec/serving/worker"],
            (ServingMode::Direct, ServingLayout::Disaggregated) => &["/spec/serving/prefill", "/spec/serving/decode"],
        };
        for pointer in needed {
            if !self.has(pointer) {
                self.set(&format!("{pointer}/replicas"), Value::from(1));
            }
        }
    }

    fn write(&mut self, field: &FormField, was: &str, is: &str) {
        let text = tidy(field.kind, is);
        if text.is_empty() && field.kind != FieldKind::Variables {
            self.remove(&field.pointer);
            return;
        }
        match field.kind {
            FieldKind::Variables => self.write_variables(field, &tidy(field.kind, was), &text),
            FieldKind::Text | FieldKind::Choice => self.set(&field.pointer, Value::from(text)),
            // What is no number stays a text, and the model's own check says what is wrong with it.
            FieldKind::Number => self.set(&field.pointer, number(&text).unwrap_or_else(|| Value::from(text))),
            FieldKind::Flag => {
                let flag = text.parse::<bool>().map_or_else(|_| Value::from(text), Value::Bool);
                self.set(&field.pointer, flag);
            }
            FieldKind::Lines => self.set(&field.pointer, text.lines().map(Value::from).collect()),
        }
    }

    /// Each variable by itself, so that those that the form cannot show stay.
    fn write_variables(&mut self, field: &FormField, was: &str, is: &str) {
        let read = |text: &str| -> BTreeMap<String, String> {
            let pair =
                |line: &str| line.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.to_owned()));
            text.lines().filter_map(pair).collect()
        };
        if let Some(line) = is.lines().find(|line| line.split_once('=').is_none_or(|(name, _)| name.trim().is_empty()))
        {
            self.faults.push(RequestFault {
                pointer: format!("#{}", field.pointer),
                detail: format!("`{line}` is not a variable"),
                found: Some(line.to_owned()),
                help: Some("write `NAME=VALUE` on each line".to_owned()),
                ..RequestFault::default()
            });
            return;
        }
        let names: Vec<&str> =
            is.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim()).collect();
        if let Some(name) = names
            .iter()
            .enumerate()
            .find_map(|(at, name)| names.iter().take(at).any(|other| other == name).then_some(name))
        {
            self.faults.push(RequestFault {
                pointer: format!("#{}", field.pointer),
                detail: format!("`{name}` is there twice"),
                found: Some((*name).to_owned()),
                help: Some("keep one of them".to_owned()),
                ..RequestFault::default()
            });
            return;
        }
        let (was, is) = (read(was), read(is));
        let at = |name: &str| [field.path(), vec![name.to_owned()]].concat();
        for name in was.keys().filter(|name| !is.contains_key(*name)) {
            self.edit(&field.pointer, DocumentEdit::Remove { path: at(name) });
        }
        for (name, value) in is.iter().filter(|(name, value)| was.get(*name) != Some(value)) {
            // A name that stands for something else already is not overwritten.
            let root = parse_yaml(self.text.as_bytes(), 0, "").root;
            let map = root.as_ref().and_then(|root| node_at(root, &field.pointer));
            let is_hidden =
                map.is_some_and(|map| map.get(name).is_some() && variables(map).all(|(own, _)| own != *name));
            if is_hidden {
                self.faults.push(RequestFault {
                    pointer: format!("#{}", field.pointer),
                    detail: format!("`{name}` is already set, to a value that only the YAML shows"),
                    help: Some("change it in the YAML".to_owned()),
                    ..RequestFault::default()
                });
                continue;
            }
            self.edit(&field.pointer, DocumentEdit::Set { path: at(name), value: Value::from(value.as_str()) });
        }
    }
}

fn mode_word(mode: ServingMode) -> &'static str {
    match mode {
        ServingMode::Target => "target",
        ServingMode::Direct => "direct",
    }
}

fn number(text: &str) -> Option<Value> {
    let whole = || text.parse::<i64>().ok().map(Value::from);
    let fraction = || text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
    whole().or_else(fraction)
}
