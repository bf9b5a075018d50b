//! Printed paths, read back.

use super::super::field_paths::{format_path, parse_apply_path, parse_validation_path, resolve_owned_path};
use proptest::prelude::*;
use serde_json::{Value, json};
use stator_core::fields::managers;
use stator_core::object::{FieldPath, KeyValue, Object, PathSegment};

#[test]
fn a_conflict_is_about_the_field_that_is_owned_and_not_about_the_one_it_looks_like() {
    let object = Object::from_value(super::live("llama", "7", "2026-11-21T03:00:00Z")).unwrap();
    let known = managers(&object).unwrap();
    let label = resolve_owned_path(".metadata.labels.example.com/team", &known, "stator");
    assert_eq!(label, FieldPath::from_fields(["metadata", "labels", "example.com/team"]));
    let replicas = resolve_owned_path(".spec.components[name=\"worker\"].replicas", &known, "somebody");
    assert_eq!(replicas.to_string(), "spec.components[name=worker].replicas");
    // Of an object that cannot be read, it is taken apart as well as it can be.
    assert_eq!(resolve_owned_path(".metadata.labels.team", &[], "stator").to_string(), "metadata.labels.team");
}

#[test]
fn a_path_is_read_along_the_object_that_it_is_about() {
    let object = json!({
        "metadata": {"labels": {"a.b/c[d]": "x", "a": "y", "7": "z"}},
        "spec": {"ports": [{"containerPort": 80, "protocol": "a,b]\"c"}], "args": ["x"]},
    });
    for (printed, read) in [
        (".metadata.labels.a.b/c[d]", r#"metadata.labels["a.b/c[d]"]"#),
        (".metadata.labels.a", "metadata.labels.a"),
        (".spec.ports[containerPort=80,protocol=\"a,b]\\\"c\"].x", "spec.ports[containerPort=80,protocol=a,b]\"c].x"),
        (".spec.args[=\"x\"]", "spec.args[=x]"),
        (".spec.args[0]", "spec.args[0]"),
        (".spec.nowhere.at.all", "spec.nowhere.at.all"),
    ] {
        assert_eq!(parse_apply_path(printed, &object).to_string(), read, "{printed}");
    }
    assert_eq!(parse_validation_path("metadata.labels[7]", &object).to_string(), "metadata.labels.7");
    assert_eq!(parse_validation_path("spec.args[0]", &object).to_string(), "spec.args[0]");
    assert_eq!(
        parse_validation_path("metadata.annotations[a.b/c]", &object).to_string(),
        r#"metadata.annotations["a.b/c"]"#
    );
}

fn step() -> impl Strategy<Value = PathSegment> {
    let scalar = prop_oneof![any::<i64>().prop_map(Value::from), "[a-z\"\\],=.]{0,4}".prop_map(Value::from)];
    let key = scalar.prop_map(|value| KeyValue::new(&value));
    prop_oneof![
        "[a-z]{1,5}".prop_map(PathSegment::Field),
        (0usize..30).prop_map(PathSegment::Index),
        key.clone().prop_map(PathSegment::Item),
        proptest::collection::btree_map("[a-z]{1,4}", key, 1..3).prop_map(PathSegment::Key),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(steps in proptest::collection::vec(step(), 1..6)) {
        let path = FieldPath(steps);
        prop_assert_eq!(parse_apply_path(&format_path(&path), &Value::Null), path);
    }

    #[test]
    fn nothing_that_a_server_may_print_is_too_odd(printed in ".{0,60}") {
        let object = json!({"a": {"": 1, "b.c": [1, {"d": 2}]}});
        parse_apply_path(&printed, &object);
        parse_validation_path(&printed, &object);
        resolve_owned_path(&printed, &[], "stator");
    }
}
