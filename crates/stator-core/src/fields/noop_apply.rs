//! Whether an apply would change nothing, decided in one walk and without building a field set or a merged object.

use super::field_set::{MAX_DEPTH, step_to_key};
use super::managers::apply_entries;
use super::packed::fields_v1;
use super::schema::{ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm, values_equal};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Fields of `metadata` that name an object: nobody owns them.
const IDENTITY_FIELDS: [&str; 2] = ["name", "namespace"];

/// True when `manager` owns exactly the fields that applying `config` would give it, and all of them have their values:
/// then an apply changes nothing. False means "perhaps not", and [`super::apply`] tells: whatever is out of the
/// ordinary (nulls, empty keyed lists, keys written in another form) is not settled here.
pub fn is_noop_apply(schema: &StructuralSchema, live: &Value, config: &Value, manager: &str) -> bool {
    check_noop(schema, live, config, manager).is_some()
}

/// `None` for no, so that every look-up that fails ends the walk.
fn check_noop(schema: &StructuralSchema, live: &Value, config: &Value, manager: &str) -> Option<()> {
    let owned = fields_applied_by(schema, live, manager)?;
    let owned = owned.as_object()?;
    let (live, config) = (live.as_object()?, config.as_object()?);
    let root = TypeRef::Declared(&schema.root);
    let mut owned_left = owned.len();
    for (name, wanted) in config {
        let have = live.get(name)?;
        match name.as_str() {
            "apiVersion" | "kind" => ensure(wanted == have)?,
            // Written through an endpoint of its own, and dropped from any other apply.
            "status" => return None,
            "metadata" => owned_left -= metadata_matches(root.field_type(name), wanted, owned.get("f:metadata"), have)?,
            _ => {
                value_matches(
                    root.field_type(name),
                    wanted,
                    owned.get(&format!("f:{name}"))?,
                    have,
                    !root.declares(name),
                    1,
                )?;
                owned_left -= 1;
            }
        }
    }
    ensure(owned_left == 0)
}

fn ensure(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// The `fieldsV1` of the manager's applies, where they were written at the version of the schema.
fn fields_applied_by<'a>(schema: &StructuralSchema, live: &'a Value, manager: &str) -> Option<Cow<'a, Value>> {
    let mut own = apply_entries(live, manager);
    let entry = own.next().filter(|entry| entry.get("apiVersion").is_some_and(|own| *own == schema.api_version))?;
    ensure(own.next().is_none())?;
    fields_v1(entry)
}

/// `metadata` without what names the object. How many of the root's owned fields that accounts for.
fn metadata_matches(r#type: TypeRef<'_>, wanted: &Value, owned: Option<&Value>, have: &Value) -> Option<usize> {
    let (wanted, have) = (wanted.as_object()?, have.as_object()?);
    let mut owned_left = owned.map_or(Some(0), |owned| owned.as_object().map(Map::len))?;
    for (name, wanted) in wanted {
        if IDENTITY_FIELDS.contains(&name.as_str()) {
            ensure(have.get(name) == Some(wanted))?;
        } else {
            let owned = owned?.get(format!("f:{name}"))?;
            value_matches(r#type.field_type(name), wanted, owned, have.get(name)?, !r#type.declares(name), 2)?;
            owned_left -= 1;
        }
    }
    ensure(owned_left == 0)?;
    Some(usize::from(owned.is_some()))
}

/// One field. `member` says that the container itself is owned too, beside what is in it.
fn value_matches(
    r#type: TypeRef<'_>,
    wanted: &Value,
    owned: &Value,
    have: &Value,
    member: bool,
    depth: usize,
) -> Option<()> {
    ensure(depth < MAX_DEPTH)?;
    let owned = owned.as_object()?;
    let leaf = || ensure(owned.is_empty() && values_equal(wanted, have));
    match (r#type.form(Some(wanted)), wanted) {
        (_, Value::Null) => None,
        (ValueForm::Scalar, _) => leaf(),
        (ValueForm::Map | ValueForm::Ambiguous, _) if r#type.map_type().atomic => leaf(),
        (ValueForm::List, _) if *r#type.list_type() == ListType::Atomic => leaf(),
        (ValueForm::Map | ValueForm::Ambiguous, Value::Object(wanted)) => {
            let have = have.as_object()?;
            if wanted.is_empty() {
                return ensure(owned.is_empty());
            }
            fields_match(r#type, wanted, owned, have, member, depth)
        }
        (ValueForm::List, Value::Array(wanted)) if !wanted.is_empty() => {
            items_match(r#type, wanted, owned, have, member, depth)
        }
        (ValueForm::Map | ValueForm::Ambiguous | ValueForm::List, _) => None,
    }
}

fn fields_match(
    r#type: TypeRef<'_>,
    wanted: &Map<String, Value>,
    owned: &Map<String, Value>,
    have: &Map<String, Value>,
    member: bool,
    depth: usize,
) -> Option<()> {
    ensure(owned.contains_key(".") == member && owned.len() == wanted.len() + usize::from(member))?;
    // Both sides are sorted, and a prefix that all keys share does not change their order.
    let owned = owned.iter().filter(|(key, _)| *key != ".");
    for ((name, wanted), (key, owned)) in wanted.iter().zip(owned) {
        ensure(key.strip_prefix("f:") == Some(name))?;
        value_matches(r#type.field_type(name), wanted, owned, have.get(name)?, !r#type.declares(name), depth + 1)?;
    }
    Some(())
}

/// Items of a keyed list or a set: each there once, and in the same order among themselves.
fn items_match(
    r#type: TypeRef<'_>,
    wanted: &[Value],
    owned: &Map<String, Value>,
    have: &Value,
    member: bool,
    depth: usize,
) -> Option<()> {
    ensure(owned.contains_key(".") == member && owned.len() == wanted.len() + usize::from(member))?;
    let have = have.as_array()?;
    let key = |item: &Value| r#type.identify(item).ok().map(|step| step_to_key(&step));
    // Only ever asked, so that its order cannot show.
    let mut places: HashMap<String, usize> = HashMap::with_capacity(have.len());
    for (place, item) in have.iter().enumerate() {
        ensure(places.insert(key(item)?, place).is_none())?;
    }
    let mut earliest = 0;
    for wanted in wanted {
        let key = key(wanted)?;
        let place = *places.get(&key)?;
        ensure(place >= earliest)?;
        // The next item stands further on, so that none is wanted twice.
        earliest = place + 1;
        let (owned, have) = (owned.get(&key)?, have.get(place)?);
        match wanted {
            Value::Object(wanted) => {
                fields_match(r#type.item_type(), wanted, owned.as_object()?, have.as_object()?, true, depth + 1)?;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                ensure(owned.as_object()?.is_empty() && values_equal(wanted, have))?;
            }
        }
    }
    Some(())
}
