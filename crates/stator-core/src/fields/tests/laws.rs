//! Laws that hold whatever is applied.

use super::small::SMALL;
use crate::fields::managers::read_managers;
use crate::fields::type_ref::values_equal;
use crate::fields::{
    ApplyInput, ApplyResult, FieldDifference, FieldSet, apply, apply_defaults, bundled_schema, diff, is_noop_apply,
    managers, owners_of, restrict_to, typing_errors, undeclared_fields, update, validate,
};
use crate::object::{FieldPath, Object, PathSegment};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T00:00:00Z";

fn by(manager: &str, live: Option<&Value>, config: &Value, force: bool, now: &str) -> ApplyResult {
    apply(&ApplyInput { schema: &SMALL, live, config, manager, force, status: false, now }).expect("no conflict")
}

/// The object without the record of its owners.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn some(fields: Vec<(&str, Option<Value>)>) -> Value {
    Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn number() -> impl Strategy<Value = Value> {
    (0..4_i64).prop_map(Value::from)
}

fn text() -> impl Strategy<Value = Value> {
    select(vec!["a", "b", "c"]).prop_map(Value::from)
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map(select(vec!["k1", "k2", "k.3"]).prop_map(str::to_owned), text(), 0..3)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn free() -> impl Strategy<Value = Value> {
    prop_oneof![number(), text()].prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            btree_map("[pq]", inner.clone(), 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
            vec(inner, 0..3).prop_map(Value::Array),
        ]
    })
}

fn item(name: &'static str) -> impl Strategy<Value = Value> {
    let ports = subsequence(vec![80, 81, 82], 0..=3)
        .prop_flat_map(|ports| {
            let count = ports.len();
            (Just(ports), vec(of(text()), count))
        })
        .prop_map(|(ports, hints)| {
            let port = |(port, hint): (i32, Option<Value>)| some(vec![("port", Some(json!(port))), ("hint", hint)]);
            Value::Array(ports.into_iter().zip(hints).map(port).collect())
        });
    let nested = (of(number()), of(number())).prop_map(|(a, b)| some(vec![("a", a), ("b", b)]));
    (of(number()), of(nested), of(ports)).prop_map(move |(value, nested, ports)| {
        some(vec![("name", Some(json!(name))), ("value", value), ("nested", nested), ("ports", ports)])
    })
}

fn items() -> impl Strategy<Value = Value> {
    subsequence(vec!["i", "j", "k", "l"], 0..=4)
        .prop_shuffle()
        .prop_flat_map(|names| names.into_iter().map(|name| item(name).boxed()).collect::<Vec<_>>())
        .prop_map(Value::Array)
}

/// Anything that can be applied under the small schema.
fn thing() -> impl Strategy<Value = Value> {
    let set = subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle().prop_map(|set| json!(set));
    let whole = (of(number()), of(number())).prop_map(|(x, y)| some(vec![("x", x), ("y", y)]));
    let list = vec(text(), 0..3).prop_map(Value::Array);
    (of(number()), of(text()), of(list), of(set), of(items()), of(texts()), of(whole), of(free())).prop_map(
        |(replicas, text, list, set, items, labels, whole, free)| {
            let fields = vec![
                ("replicas", replicas),
                ("text", text),
                ("list", list),
                ("set", set),
                ("items", items),
                ("labels", labels),
                ("whole", whole),
                ("free", free),
            ];
            json!({"apiVersion": "v1", "kind": "Thing", "spec": some(fields)})
        },
    )
}

/// Any JSON at all, with names that mean something to the schemas.
fn anything() -> impl Strategy<Value = Value> {
    let names = select(vec![
        "metadata",
        "spec",
        "items",
        "name",
        "labels",
        "managedFields",
        "fieldsV1",
        "components",
        "podTemplate",
        "f:x",
        "finalizers",
        "status",
        "set",
        "free",
        "",
        ".",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(names.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The identity of an item in the small schema's lists.
fn is_item(step: &PathSegment, item: &Value) -> bool {
    match step {
        PathSegment::Key(keys) => keys.iter().all(|(name, value)| {
            let default = json!("TCP");
            let found = item.get(name).unwrap_or(if name == "protocol" { &default } else { &Value::Null });
            *found == value.value()
        }),
        PathSegment::Item(value) => *item == value.value(),
        PathSegment::Field(_) | PathSegment::Index(_) => false,
    }
}

/// The value with its keyed lists and sets in one order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| {
                let mut value = sorted(value);
                if let (Some(list), "items" | "set" | "ports") = (value.as_array_mut(), name.as_str()) {
                    list.sort_by_key(Value::to_string);
                }
                (name.clone(), value)
            })
            .collect(),
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The value without maps and lists that hold nothing.
fn filled(value: &Value) -> Value {
    let empty =
        |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(name, value)| (name.clone(), filled(value)));
            Value::Object(kept.filter(|(_, value)| !empty(value)).collect())
        }
        Value::Array(items) => items.iter().map(filled).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Carries one difference out.
fn patch(value: &mut Value, path: &[PathSegment], new: Option<&Value>) {
    match path {
        [] => *value = new.cloned().unwrap_or_default(),
        [PathSegment::Field(name)] => {
            let map = value.as_object_mut().expect("a map above a field");
            match new {
                Some(new) => drop(map.insert(name.clone(), new.clone())),
                None => drop(map.remove(name)),
            }
        }
        [PathSegment::Field(name), rest @ ..] => patch(value.get_mut(name).expect("what is above exists"), rest, new),
        [step, rest @ ..] => {
            let list = value.as_array_mut().expect("a list above an item");
            let at = list.iter().position(|item| is_item(step, item));
            match (at, rest, new) {
                (Some(at), [], None) => drop(list.remove(at)),
                (Some(at), [], Some(new)) => list[at] = new.clone(),
                (None, [], Some(new)) => list.push(new.clone()),
                (Some(at), rest, new) => patch(&mut list[at], rest, new),
                (None, ..) => panic!("no such item"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn applying_twice_changes_nothing(config in thing()) {
        // Who owns nothing leaves no record, and looks like nobody the next time.
        prop_assume!(config["spec"].as_object().is_some_and(|spec| spec.values().any(|value| *value != json!([]))));
        let once = by("a", None, &config, false, NOW);
        prop_assert!(once.changed);
        let twice = by("a", Some(&once.object), &config, false, LATER);
        prop_assert!(!twice.changed, "{:?}", diff(&SMALL, &once.object, &twice.object));
        prop_assert_eq!(once.object, twice.object);
    }

    /// What the one walk calls settled, an apply leaves alone, whoever changed whatever before; and what was just
    /// applied is settled, so that the walk is not for nothing.
    #[test]
    fn what_is_settled_an_apply_leaves_alone(config in thing(), edits in vec((thing(), any::<bool>()), 0..3)) {
        let applied = by("a", None, &config, false, NOW).object;
        let odd = |spec: &Value| filled(spec) != *spec;
        if !odd(&config["spec"]) && config["spec"] != json!({}) {
            prop_assert!(is_noop_apply(&SMALL, &applied, &config, "a"), "{applied:#}");
        }
        let mut live = applied;
        for (edit, same_fields) in edits {
            // Half the time other values for what is there, or more of it; else anything.
            let mut spec = live["spec"].clone();
            let changes = edit["spec"].as_object().expect("a map");
            for (name, value) in changes {
                if !same_fields || spec.get(name).is_some_and(|old| values_equal(old, value)) {
                    spec[name] = value.clone();
                }
            }
            let mut edited = live.clone();
            edited["spec"] = spec;
            live = update(&SMALL, &live, edited, "hand", false, NOW);
            live = match apply(&ApplyInput {
                schema: &SMALL, live: Some(&live), config: &edit, manager: "b", force: false, status: false, now: NOW,
            }) {
                Ok(result) => result.object,
                Err(_) => live,
            };
        }
        if is_noop_apply(&SMALL, &live, &config, "a") {
            let again = by("a", Some(&live), &config, false, LATER);
            prop_assert!(!again.changed, "{:?}", diff(&SMALL, &live, &again.object));
        }
        // And for any other wish: settled only where an apply changes nothing.
        let other = by("b", None, &config, false, NOW).object;
        prop_assert!(!is_noop_apply(&SMALL, &other, &config, "a"));
    }

    /// The smallest edits there are: one value of the live object or of the wish becomes another.
    #[test]
    fn one_value_more_or_less_is_noticed(config in thing(), at in any::<prop::sample::Index>(), new in number(), of_live in any::<bool>()) {
        let live = by("a", None, &config, false, NOW).object;
        let (mut live, mut config) = (live, config);
        let edited = if of_live { &mut live["spec"] } else { &mut config["spec"] };
        let places = FieldSet::from_value(&SMALL, &json!({"spec": edited})).leaves().collect::<Vec<_>>();
        prop_assume!(!places.is_empty());
        // A list or a map that is owned as one, or an item without its keys, is replaced as a whole.
        patch(edited, &at.get(&places).0[1..], Some(&new));
        if is_noop_apply(&SMALL, &live, &config, "a") {
            let again = by("a", Some(&live), &config, false, LATER);
            prop_assert!(!again.changed, "{:?}", diff(&SMALL, &live, &again.object));
        }
    }

    #[test]
    fn what_its_only_owner_omits_is_gone(first in thing(), second in thing()) {
        let object = by("a", None, &first, false, NOW).object;
        let object = by("a", Some(&object), &second, false, LATER).object;
        let fresh = by("a", None, &second, false, NOW).object;
        // Empty containers aside: a struct that is taken apart goes, even where `{}` was applied in its place, and `[]`
        // is nobody's. So it is in structured-merge-diff 6.4.
        let values = |object: &Value| sorted(&filled(&bare(object)));
        prop_assert_eq!(diff(&SMALL, &values(&object), &values(&fresh)), vec![]);
    }

    #[test]
    fn managers_of_different_fields_commute(a in thing(), b in thing()) {
        let keep = |value: &Value, names: &[&str]| {
            let spec: Map<String, Value> = value["spec"].as_object().into_iter().flatten()
                .filter(|(name, _)| names.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone())).collect();
            json!({"apiVersion": "v1", "kind": "Thing", "spec": spec})
        };
        let a = keep(&a, &["replicas", "list", "items", "free"]);
        let b = keep(&b, &["text", "set", "labels", "whole"]);
        let ab = by("b", Some(&by("a", None, &a, false, NOW).object), &b, false, NOW).object;
        let ba = by("a", Some(&by("b", None, &b, false, NOW).object), &a, false, NOW).object;
        prop_assert_eq!(diff(&SMALL, &bare(&ab), &bare(&ba)), vec![]);
    }

    #[test]
    fn force_moves_the_ownership(a in thing(), b in thing()) {
        let object = by("a", None, &a, false, NOW).object;
        let object = by("b", Some(&object), &b, true, LATER).object;
        let owners = read_managers(&object).expect("readable owners");
        for path in FieldSet::from_value(&SMALL, &b).leaves().filter(|path| path.0[0] == PathSegment::Field("spec".to_owned())) {
            prop_assert!(owners_of(&owners, &path).contains(&"b"), "{path}");
        }
    }

    #[test]
    fn nobody_loses_a_field_without_force(a in thing(), mut b in thing()) {
        // The one hole in the reference: a free-form map that is replaced by a scalar takes its parts along unasked.
        b["spec"].as_object_mut().expect("a map").remove("free");
        let object = by("a", None, &a, false, NOW).object;
        let input = ApplyInput {
            schema: &SMALL, live: Some(&object), config: &b, manager: "b", force: false, status: false, now: LATER,
        };
        if let Ok(result) = apply(&input) {
            let of_a = |object: &Value| {
                read_managers(object).expect("readable").into_iter().find(|manager| manager.name == "a")
            };
            prop_assert_eq!(of_a(&object).map(|m| m.fields), of_a(&result.object).map(|m| m.fields));
            let held = FieldSet::from_value(&SMALL, &a);
            let values = |object: &Value| restrict_to(&SMALL, &bare(object), &held);
            prop_assert_eq!(diff(&SMALL, &values(&object), &values(&result.object))
                .into_iter()
                // The order of items is whoever's who applied last.
                .filter(|difference| !matches!(difference.old, Some(Value::Array(_))))
                .collect::<Vec<_>>(), vec![]);
        }
    }

    #[test]
    fn field_sets_survive_their_written_form(config in thing()) {
        let set = FieldSet::from_value(&SMALL, &config);
        prop_assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()), Ok(set.clone()));
        prop_assert_eq!(FieldSet::from_paths(set.iter()), set.clone());
        prop_assert_eq!(set.len(), set.iter().count());
        for path in set.iter() {
            prop_assert!(set.contains(&path) && set.overlaps(&path));
        }
    }

    #[test]
    fn field_sets_are_sets(a in thing(), b in thing()) {
        let (a, b) = (FieldSet::from_value(&SMALL, &a), FieldSet::from_value(&SMALL, &b));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&a).is_empty() && a.without(&a).is_empty());
    }

    #[test]
    fn a_diff_carried_out_gives_the_other_side(a in thing(), b in thing()) {
        prop_assert_eq!(diff(&SMALL, &a, &a), vec![]);
        let mut patched = a.clone();
        for FieldDifference { path, old, new } in diff(&SMALL, &a, &b) {
            prop_assert!(old != new);
            patch(&mut patched, &path.0, new.as_ref());
        }
        // Where a new item stands among the others is nobody's business.
        prop_assert_eq!(diff(&SMALL, &sorted(&patched), &sorted(&b)), vec![]);
    }

    #[test]
    fn restricting_to_all_that_is_owned_keeps_all_values(config in thing()) {
        let set = FieldSet::from_value(&SMALL, &config);
        let kept = restrict_to(&SMALL, &config, &set);
        // Only what nobody can own goes: empty keyed lists, and what holds nothing else.
        prop_assert_eq!(diff(&SMALL, &filled(&config), &filled(&kept)), vec![]);
    }

    #[test]
    fn no_value_makes_the_room_panic(live in anything(), config in anything(), force in any::<bool>()) {
        for schema in [&*SMALL, bundled_schema("nvidia.com/v1beta1", "DynamoGraphDeployment").expect("bundled")] {
            for status in [false, true] {
                let input = ApplyInput { schema, live: Some(&live), config: &config, manager: "a", force, status, now: NOW };
                let _ = apply(&input);
                let _ = update(schema, &live, config.clone(), "b", status, NOW);
            }
            let _ = is_noop_apply(schema, &live, &config, "a");
            let set = FieldSet::from_value(schema, &live);
            let _ = (validate(schema, &live, Some(&config)), undeclared_fields(schema, &live), restrict_to(schema, &config, &set));
            let mut filled = live.clone();
            apply_defaults(schema, &mut filled);
            let mut again = filled.clone();
            apply_defaults(schema, &mut again);
            prop_assert!(values_equal(&filled, &again), "defaults settle");
            prop_assert_eq!(diff(schema, &live, &live), vec![]);
            let _ = FieldSet::from_fields_v1(&live);
            if let Ok(object) = Object::from_value(live.clone()) {
                let _ = managers(&object);
            }
        }
    }
}

/// The graphs that a real API server admitted.
fn admitted_graphs() -> impl Iterator<Item = Value> {
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/creates.jsonl"))
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line["admitted"] == true)
        .map(|line| line["object"].clone())
}

#[test]
fn real_objects_apply_once_and_vanish_when_omitted() {
    for graph in admitted_graphs() {
        let text = |pointer: &str| graph.pointer(pointer).and_then(Value::as_str).expect("text").to_owned();
        let schema = bundled_schema(&text("/apiVersion"), &text("/kind")).expect("bundled");
        assert_eq!(typing_errors(schema, &graph), vec![]);
        let go = |live: Option<&Value>, config: &Value| {
            apply(&ApplyInput { schema, live, config, manager: "stator", force: false, status: false, now: NOW })
                .expect("no conflict")
        };
        let once = go(None, &graph).object;
        let twice = go(Some(&once), &graph);
        assert!(!twice.changed, "{}: {:?}", text("/metadata/name"), diff(schema, &once, &twice.object));
        assert!(is_noop_apply(schema, &once, &graph, "stator"), "{}", text("/metadata/name"));
        let owners = read_managers(&once).expect("readable owners");
        let mine = &owners.first().expect("an owner").fields;
        assert_eq!(FieldSet::from_fields_v1(&mine.to_fields_v1()).as_ref(), Ok(mine));
        let held = restrict_to(schema, &once, mine);
        for path in FieldSet::from_value(schema, &held).leaves() {
            assert!(mine.overlaps(&path), "{path} is not owned");
        }
        let emptied = json!({"apiVersion": text("/apiVersion"), "kind": text("/kind"), "metadata": graph["metadata"]});
        let rest = go(Some(&once), &emptied).object;
        let left = FieldSet::from_value(schema, rest.get("spec").unwrap_or(&Value::Null));
        let defaults_only = left.leaves().all(|path| path == FieldPath::root() || path.0.len() <= 2);
        assert!(defaults_only, "{}: {}", text("/metadata/name"), rest["spec"]);
    }
}
