//! From a model's text to what the fields of the form show.

use super::fields::{FORM_FIELDS, FieldKind, FormField, ServingLayout, ServingMode, path_of};
use stator_model::intent::field_at::{escape_pointer, scalar_text};
use stator_model::intent::yaml::{YamlNode, parse_yaml};
use stator_model::present::escape;
use std::collections::BTreeMap;

/// What a field shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownValue {
    /// This text; empty where the model says nothing.
    Text(String),
    /// The model says something that the field cannot show.
    OnlyInYaml,
}

/// What a model's text says in the words of the form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormReading {
    /// Who decides how it runs.
    pub mode: ServingMode,
    /// How workers serve.
    pub layout: ServingLayout,
    /// What each field shows, by pointer; one that cannot show what there is is missing.
    pub values: BTreeMap<String, String>,
    /// Fields of the model that the form does not have, or cannot show, by pointer.
    pub only_in_yaml: Vec<String>,
}

impl FormReading {
    /// Reads a text. `None` where it is no map.
    pub fn read(text: &str) -> Option<Self> {
        let root = parse_yaml(text.as_bytes(), 0, "").root.filter(|root| !root.entries().is_empty())?;
        let at = |pointer: &str| node_at(&root, pointer);
        let is_target = at("/spec/sla").is_some();
        let is_split = at("/spec/serving/prefill").is_some() || at("/spec/serving/decode").is_some();
        let mut reading = Self {
            mode: if is_target { ServingMode::Target } else { ServingMode::Direct },
            layout: if is_split { ServingLayout::Disaggregated } else { ServingLayout::Aggregated },
            ..Self::default()
        };
        for field in FORM_FIELDS.iter() {
            match shown_value(field, at(&field.pointer)) {
                ShownValue::Text(text) => drop(reading.values.insert(field.pointer.clone(), text)),
                ShownValue::OnlyInYaml => {}
            }
        }
        collect_others(&root, "", &reading.values, &mut reading.only_in_yaml);
        Some(reading)
    }
}

/// What stands at a pointer of the form.
pub(super) fn node_at<'a>(root: &'a YamlNode, pointer: &str) -> Option<&'a YamlNode> {
    path_of(pointer).iter().try_fold(root, |node, word| node.get(word))
}

fn shown_value(field: &FormField, node: Option<&YamlNode>) -> ShownValue {
    let Some(node) = node else { return ShownValue::Text(String::new()) };
    let shown = match field.kind {
        FieldKind::Text | FieldKind::Number | FieldKind::Choice | FieldKind::Flag => {
            // A text that is empty is not the same as none, and looks the same.
            one_line(node).filter(|text| !text.is_empty())
        }
        FieldKind::Lines => list_lines(node),
        FieldKind::Variables => {
            Some(variables(node).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n"))
        }
    };
    shown.map_or(ShownValue::OnlyInYaml, ShownValue::Text)
}

/// A scalar that fits into a line and shows all its characters.
fn one_line(node: &YamlNode) -> Option<String> {
    scalar_text(node).filter(|text| escape::line(text) == *text)
}

fn list_lines(node: &YamlNode) -> Option<String> {
    let items: Option<Vec<String>> =
        node.items().iter().map(|item| item.as_str().and_then(|_| one_line(item))).collect();
    let items = items.filter(|items| !items.is_empty() && items.iter().all(|item| !item.trim().is_empty()))?;
    Some(items.join("\n"))
}

/// The variables of a map that have a plain value.
pub(super) fn variables(node: &YamlNode) -> impl Iterator<Item = (String, String)> {
    node.entries().iter().filter_map(|entry| {
        let value = entry.value.as_str().and_then(|_| one_line(&entry.value))?;
        let is_name = !entry.key.is_empty() && !entry.key.contains('=') && escape::line(&entry.key) == *entry.key;
        is_name.then(|| (entry.key.to_string(), value))
    })
}

/// The lowest fields that no field of the form shows.
fn collect_others(node: &YamlNode, pointer: &str, shown: &BTreeMap<String, String>, others: &mut Vec<String>) {
    for entry in node.entries() {
        let own = format!("{pointer}/{}", escape_pointer(&entry.key));
        if own == "/apiVersion" || own == "/kind" {
            continue;
        }
        match FORM_FIELDS.iter().find(|field| field.pointer == own) {
            Some(field) if field.kind == FieldKind::Variables => {
                let plain: BTreeMap<String, String> = variables(&entry.value).collect();
                let hidden = entry.value.entries().iter().filter(|one| !plain.contains_key(&*one.key));
                others.extend(hidden.map(|one| format!("{own}/{}", escape_pointer(&one.key))));
            }
            Some(_) if shown.contains_key(&own) => {}
            Some(_) => others.push(own),
            None if entry.value.entries().is_empty() => others.push(own),
            None => collect_others(&entry.value, &own, shown, others),
        }
    }
}
