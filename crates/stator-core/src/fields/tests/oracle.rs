//! What real API servers said of objects on create, against what the schemas of their release say.

use crate::dynamo::release::{Behaviour, Definitions, Release};
use crate::fields::{apply_defaults, apply_defaults_after_merge, typing_errors, validate};
use serde_json::Value;

struct Verdict {
    name: String,
    denied: Option<String>,
    faults: Vec<String>,
}

fn verdicts(release: Release) -> Vec<Verdict> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo");
    let folder = if release == Release::V1_2 { "" } else { release.as_str() };
    let text = fs_err::read_to_string(format!("{root}/{folder}/oracle/creates.jsonl")).unwrap();
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("every line is JSON");
            let mut object = line["object"].clone();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let definitions = Definitions::of_release(release);
            let schema =
                definitions.schema(&text(&object["apiVersion"]), &text(&object["kind"])).expect("a bundled kind");
            let mut faults: Vec<String> =
                typing_errors(schema, &object).iter().map(|fault| fault.message.clone()).collect();
            if faults.is_empty() {
                if release.has(Behaviour::StoredAsWritten) {
                    apply_defaults_after_merge(schema, &mut object);
                } else {
                    apply_defaults(schema, &mut object);
                }
                let found = validate(schema, &object, None);
                faults.extend(found.into_iter().map(|(path, message)| match message.as_str() {
                    "Required value" => message,
                    _ => format!("{path}: {message}"),
                }));
            }
            let admitted = line["admitted"].as_bool().expect("a verdict");
            Verdict { name: text(&line["name"]), denied: (!admitted).then(|| text(&line["denied"])), faults }
        })
        .collect()
}

fn both_releases() -> impl Iterator<Item = Verdict> {
    [Release::V1_2, Release::V1_5].into_iter().flat_map(verdicts)
}

#[test]
fn what_an_api_server_takes_is_taken() {
    let wrong: Vec<String> = both_releases()
        // The webhook puts `enabled` into a checkpoint before its form is judged.
        .filter(|verdict| verdict.denied.is_none() && verdict.faults.iter().any(|fault| fault != "Required value"))
        .map(|verdict| format!("{}: {:?}", verdict.name, verdict.faults))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_the_schema_refuses_is_refused() {
    let judged_elsewhere = |denied: &str| denied.contains("admission webhook") || denied.contains("conversion webhook");
    let refused = both_releases().filter(|v| v.denied.as_deref().is_some_and(|denied| !judged_elsewhere(denied)));
    let missed: Vec<String> = refused
        .filter(|verdict| {
            // In the same words, where the server's webhooks did not fill in what was missing before it looked.
            // A key of a map stands in brackets there.
            let denied = verdict.denied.as_deref().unwrap_or_default().replace("[VllmWorker]", ".VllmWorker");
            !verdict.faults.iter().any(|fault| denied.contains(fault.as_str()) || fault == "Required value")
        })
        .map(|verdict| format!("{}: {:?} but {:?}", verdict.name, verdict.denied, verdict.faults))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
