//! Sequences of applies and updates whose outcome was recorded from structured-merge-diff 6.4.2 itself, over the schema
//! of `small.rs` (with the API server's handling of nulls, defaults and repeated updates around it).

use super::small::SMALL;
use crate::fields::managers::read_managers;
use crate::fields::{ApplyError, ApplyInput, ManagerOperation, apply, update};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const NOW: &str = "2026-01-01T00:00:00Z";

/// What one step left behind, in the recording's terms.
#[derive(Debug, PartialEq)]
struct Outcome {
    conflicts: BTreeSet<String>,
    refused: bool,
    object: Value,
    owners: BTreeMap<String, Value>,
}

fn recorded(result: &Value) -> Outcome {
    let conflicts = result["paths"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let owners = result["managers"].as_object().expect("managers");
    Outcome {
        // Two entries of one manager that dispute the same field are one conflict to us.
        conflicts: conflicts.filter_map(|text| Some(text.split_once(':')?.1.replace('"', ""))).collect(),
        refused: result.get("error").is_some(),
        object: result["live"].clone(),
        owners: owners.iter().map(|(name, fields)| (name.clone(), fields.clone())).collect(),
    }
}

/// Takes one step; gives the object after it.
fn step(live: Option<Value>, operation: &Value) -> (Option<Value>, Outcome) {
    let manager = operation["Manager"].as_str().expect("a manager");
    let config = &operation["Object"];
    let (mut conflicts, mut refused) = (BTreeSet::new(), false);
    let after = if operation["Op"] == "apply" {
        let force = operation["Force"] == true;
        let live_before = live.as_ref();
        match apply(&ApplyInput { schema: &SMALL, live: live_before, config, manager, force, status: false, now: NOW })
        {
            Ok(result) => {
                assert_eq!(result.changed, live_before != Some(&result.object), "`changed` tells the truth");
                Some(result.object)
            }
            Err(ApplyError::Conflicts(found)) => {
                conflicts = found.iter().map(|(name, path)| format!("{name} .{path}")).collect();
                live
            }
            Err(ApplyError::TypeErrors(_)) => {
                refused = true;
                live
            }
            Err(other @ (ApplyError::MalformedManagedFields(_) | ApplyError::ObjectNotFound)) => panic!("{other}"),
        }
    } else {
        Some(update(&SMALL, live.as_ref().unwrap_or(&Value::Null), config.clone(), manager, false, NOW))
    };
    let mut object = after.clone().unwrap_or_default();
    let managers = read_managers(&object).expect("readable owners");
    let letter = |operation| if operation == ManagerOperation::Apply { 'A' } else { 'U' };
    let owners = managers
        .iter()
        .map(|manager| (format!("{}:{}", letter(manager.operation), manager.name), manager.fields.to_fields_v1()))
        .collect();
    without_owners(&mut object);
    (after, Outcome { conflicts, refused, object, owners })
}

/// Drops the owners, and `metadata` with them where nothing else is in it.
fn without_owners(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if metadata.is_empty() {
            object.remove("metadata");
        }
    }
}

fn replay(recording: &str) -> usize {
    let mut steps = 0;
    for (number, line) in recording.lines().enumerate() {
        let line: Value = serde_json::from_str(line).expect("every line is JSON");
        let pairs = line["ops"].as_array().into_iter().flatten().zip(line["results"].as_array().into_iter().flatten());
        let mut live = None;
        for (position, (operation, result)) in pairs.enumerate() {
            let before = live.clone();
            let (after, outcome) = step(live, operation);
            let mut wanted = recorded(result);
            without_owners(&mut wanted.object);
            assert_eq!(outcome, wanted, "sequence {number}, step {position}: {operation} on {before:?}");
            live = after;
            steps += 1;
        }
    }
    steps
}

#[test]
fn every_recorded_sequence_ends_as_it_did_in_the_reference() {
    assert!(
        replay(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/smd/sequences.jsonl"))) > 200,
        "the recording is there"
    );
}
