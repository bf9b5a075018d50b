//! Keyed lists in the order that they have live, so that an apply moves no item that stays.
//!
//! A server-side apply puts the items of a keyed list into the order of what is applied. Dynamo's operator hashes the
//! pod templates of workers with their lists in order: the same variables in another order replace every worker pod.

use super::field_set::MAX_DEPTH;
use super::schema::{ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm};
use crate::object::PathSegment;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a field's list may be applied in another order: the field's name, the items as they are wanted, and the same items
/// in live order.
pub type MayReorder<'a> = &'a dyn Fn(&str, &[Value], &[Value]) -> bool;

/// What is about to be applied, with its keyed lists and sets in the order of the live object. Items that are new keep
/// their place behind the one that they follow in `config`. `may_reorder` is asked for each list that would change; where it
/// says no, the list stays as it is wanted.
///
/// Items whose keys the schema cannot tell, or that occur twice, are left alone.
pub fn align_keyed_lists(
    schema: &StructuralSchema,
    config: &Value,
    live: &Value,
    may_reorder: MayReorder<'_>,
) -> Value {
    align(TypeRef::Declared(&schema.root), "", config, live, may_reorder, 0)
}

fn align(
    r#type: TypeRef<'_>,
    name: &str,
    config: &Value,
    live: &Value,
    may_reorder: MayReorder<'_>,
    depth: usize,
) -> Value {
    if depth >= MAX_DEPTH {
        return config.clone();
    }
    match (r#type.form(Some(config)), config, live) {
        (ValueForm::Map | ValueForm::Ambiguous, Value::Object(wanted), Value::Object(have))
            if !r#type.map_type().atomic =>
        {
            let field = |(name, value): (&String, &Value)| {
                let aligned = match have.get(name) {
                    Some(live) => align(r#type.field_type(name), name, value, live, may_reorder, depth + 1),
                    None => value.clone(),
                };
                (name.clone(), aligned)
            };
            Value::Object(wanted.iter().map(field).collect::<Map<String, Value>>())
        }
        (ValueForm::List, Value::Array(wanted), Value::Array(have)) => {
            let keys = match r#type.list_type() {
                ListType::Map(_) | ListType::Set => identify_all(wanted, have, |item| r#type.identify(item).ok()),
                // A list of variables that a schema does not call keyed has names all the same.
                ListType::Atomic if name == "env" => identify_all(wanted, have, variable_name),
                ListType::Atomic => None,
            };
            let Some((wanted_keys, live_keys)) = keys else { return config.clone() };
            let live_items: BTreeMap<&PathSegment, &Value> = live_keys.iter().zip(have).collect();
            let items = wanted_keys.iter().zip(wanted).map(|(key, item)| match live_items.get(key) {
                Some(live) => align(r#type.item_type(), name, item, live, may_reorder, depth + 1),
                None => item.clone(),
            });
            let items: Vec<Value> = items.collect();
            let order = live_order(&wanted_keys, &live_keys);
            if order.is_sorted() {
                return Value::Array(items);
            }
            let reordered: Vec<Value> = order.iter().filter_map(|place| items.get(*place).cloned()).collect();
            Value::Array(if may_reorder(name, &items, &reordered) { reordered } else { items })
        }
        (ValueForm::Scalar | ValueForm::Map | ValueForm::Ambiguous | ValueForm::List, _, _) => config.clone(),
    }
}

/// What tells the items of both lists apart; `None` where something does not.
fn identify_all(
    wanted: &[Value],
    live: &[Value],
    identify: impl Fn(&Value) -> Option<PathSegment>,
) -> Option<(Vec<PathSegment>, Vec<PathSegment>)> {
    let keys_of = |items: &[Value]| {
        let keys: Vec<PathSegment> = items.iter().map(&identify).collect::<Option<_>>()?;
        (keys.iter().collect::<BTreeSet<_>>().len() == keys.len()).then_some(keys)
    };
    Some((keys_of(wanted)?, keys_of(live)?))
}

fn variable_name(item: &Value) -> Option<PathSegment> {
    Some(PathSegment::Field(item.get("name")?.as_str()?.to_owned()))
}

/// The places of the wanted items, in the order in which they are to stand: those that are live as they are there, each
/// with the new ones that follow it in what is wanted.
fn live_order(wanted: &[PathSegment], live: &[PathSegment]) -> Vec<usize> {
    let live_place: BTreeMap<&PathSegment, usize> = live.iter().enumerate().map(|(place, key)| (key, place)).collect();
    // New items at the head stand before everything.
    let mut rank = None;
    let mut ranked: Vec<(Option<usize>, usize)> = Vec::with_capacity(wanted.len());
    for (place, key) in wanted.iter().enumerate() {
        rank = live_place.get(key).copied().or(rank);
        ranked.push((rank, place));
    }
    ranked.sort();
    ranked.into_iter().map(|(_, place)| place).collect()
}
