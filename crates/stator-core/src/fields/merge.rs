//! Merging what is applied into what is live.

use super::field_set::MAX_DEPTH;
use super::schema::ListType;
use super::type_ref::{TypeRef, ValueForm};
use crate::object::PathSegment;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The live value with the applied one merged over it; `None` when nothing is left.
pub(super) fn merge(r#type: TypeRef<'_>, live: Option<&Value>, applied: Option<&Value>, depth: usize) -> Option<Value> {
    let form = if applied.is_some() { r#type.form(applied) } else { r#type.form(live) };
    let leaf = || applied.or(live).cloned();
    if depth > MAX_DEPTH {
        return leaf();
    }
    match form {
        ValueForm::Scalar => leaf(),
        ValueForm::Map | ValueForm::Ambiguous => {
            let (old, new) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            if r#type.map_type().atomic || (old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty)) {
                return leaf();
            }
            let mut out = Map::new();
            for (name, value) in old.into_iter().flatten() {
                let merged = merge(r#type.field_type(name), Some(value), new.and_then(|new| new.get(name)), depth + 1);
                out.extend(merged.map(|value| (name.clone(), value)));
            }
            for (name, value) in new.into_iter().flatten() {
                if old.is_none_or(|old| !old.contains_key(name)) {
                    let merged = merge(r#type.field_type(name), None, Some(value), depth + 1);
                    out.extend(merged.map(|value| (name.clone(), value)));
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        ValueForm::List => {
            let old: Vec<&Value> = live.and_then(Value::as_array).into_iter().flatten().collect();
            let new: Vec<&Value> = applied.and_then(Value::as_array).into_iter().flatten().collect();
            if *r#type.list_type() == ListType::Atomic || (old.is_empty() && new.is_empty()) {
                return leaf();
            }
            let merged = merge_items(r#type, &old, &new, depth);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

/// Merges two lists whose items have identities. What is applied keeps its order; live items that are not applied keep
/// their place among the shared ones.
fn merge_items(r#type: TypeRef<'_>, old: &[&Value], new: &[&Value], depth: usize) -> Vec<Value> {
    let identify = |items: &[&Value]| -> Vec<PathSegment> {
        items.iter().enumerate().map(|(index, item)| r#type.identify_or_index(index, item)).collect()
    };
    let (old_ids, new_ids) = (identify(old), identify(new));
    // Live items that share an identity are not merged with what is applied: they give way to it.
    let mut old_by_id: BTreeMap<&PathSegment, Option<&Value>> = BTreeMap::new();
    for (id, item) in old_ids.iter().zip(old) {
        old_by_id.entry(id).and_modify(|found| *found = None).or_insert(Some(item));
    }
    let applied: BTreeSet<&PathSegment> = new_ids.iter().collect();
    let mut shared: VecDeque<&PathSegment> = new_ids.iter().filter(|id| old_by_id.contains_key(id)).collect();
    let mut next_shared = shared.pop_front();
    let mut taken: BTreeSet<&PathSegment> = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let item_type = r#type.item_type();
    let take = |out: &mut Vec<Value>, live: Option<&Value>, applied: Option<&Value>| {
        out.extend(merge(item_type, live, applied, depth + 1));
    };

    let mut left = old_ids.iter().zip(old).peekable();
    let mut right = new_ids.iter().zip(new).peekable();
    loop {
        if let (Some((old_id, _)), Some((new_id, new_item))) = (left.peek(), right.peek()) {
            if old_id == new_id {
                taken.insert(old_id);
                take(&mut out, old_by_id.get(new_id).copied().flatten(), Some(new_item));
                left.next();
                right.next();
                next_shared = shared.pop_front();
                continue;
            }
            if applied.contains(old_id) && next_shared.is_some_and(|next| next != *old_id) {
                // Shared, but its turn comes later, where it was applied.
                left.next();
                continue;
            }
        }
        if let Some((old_id, old_item)) = left.peek() {
            if !applied.contains(old_id) {
                take(&mut out, Some(old_item), None);
                left.next();
                continue;
            }
            if taken.contains(old_id) {
                left.next();
            }
        }
        match right.next() {
            Some((new_id, new_item)) => {
                taken.insert(new_id);
                take(&mut out, old_by_id.get(new_id).copied().flatten(), Some(new_item));
                if next_shared == Some(new_id) {
                    next_shared = shared.pop_front();
                }
            }
            // Whatever is left was either applied already or, in a damaged list, is there twice.
            None if left.peek().is_none() => return out,
            None => {
                if left.peek().is_some_and(|(id, _)| applied.contains(id)) {
                    left.next();
                }
            }
        }
    }
}
