//! Secrets in a plan: hidden before anybody sees it, so that no face of it can show one.

use super::{Change, FieldChange};
use crate::render::RenderedText;
use rayon::prelude::*;
use serde_json::Value;
use stator_core::mask;
use stator_core::object::{FieldPath, JsonText, PathSegment};

/// Hides what looks like a secret in the values that a change shows. What is applied stays as it is.
pub(super) fn mask_changes(changes: &mut [Change]) {
    changes.par_iter_mut().for_each(|change| {
        for field in &mut change.fields {
            let FieldChange { path, old, new, owner: _ } = field;
            mask::redact_change(value_name(path).as_deref(), old, new);
        }
        let mut sides = (change.before.as_ref().map(JsonText::parse), change.after.as_ref().map(JsonText::parse));
        match &mut sides {
            (Some(before), Some(after)) => mask::redact_change(None, before, after),
            (Some(alone), None) | (None, Some(alone)) => mask::redact_value(alone),
            (None, None) => return,
        }
        for (side, masked) in [(&mut change.before, sides.0), (&mut change.after, sides.1)] {
            // A text with nothing to hide stays shared.
            *side = masked.map(JsonText::from).filter(|masked| side.as_ref() != Some(masked)).or(side.take());
        }
    });
}

/// What a field's value stands under: the name of the variable for `env[name=HF_TOKEN].value`, else the field's own.
fn value_name(path: &FieldPath) -> Option<String> {
    let [.., before, PathSegment::Field(last)] = path.0.as_slice() else { return path.last_field().map(str::to_owned) };
    match before {
        PathSegment::Key(keys) if last == "value" => keys.get("name").map(ToString::to_string),
        PathSegment::Key(_) | PathSegment::Field(_) | PathSegment::Item(_) | PathSegment::Index(_) => {
            Some(last.clone())
        }
    }
}

/// A hidden value with no side to it: drift says itself which side it shows.
pub(super) fn without_side_marks(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            text.replace(mask::HIDDEN_BEFORE, mask::HIDDEN).replace(mask::HIDDEN_AFTER, mask::HIDDEN).into()
        }
        Value::Array(items) => items.iter().map(without_side_marks).collect(),
        Value::Object(map) => map.iter().map(|(field, value)| (field.clone(), without_side_marks(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The longest intent, in bytes of JSON, that a record keeps: an object of more than a megabyte and a half is refused.
const MAX_INTENT_BYTES: usize = 256 * 1024;

/// What the record of a model keeps of its intent.
pub(super) fn recorded_intent(rendered: &RenderedText) -> JsonText {
    let mut intent = rendered.intent.parse();
    stator_core::mask::redact_value(&mut intent);
    let text = JsonText::from(intent);
    if text.to_text().len() > MAX_INTENT_BYTES { JsonText::default() } else { text }
}
