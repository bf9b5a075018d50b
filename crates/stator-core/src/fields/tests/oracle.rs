//! What a real API server said of 296 objects on create, against what the bundled schemas say.

use crate::fields::{apply_defaults, bundled_schema, typing_errors, validate};
use serde_json::Value;

struct Verdict {
    name: String,
    denied: Option<String>,
    faults: Vec<String>,
}

fn verdicts() -> Vec<Verdict> {
    let lines =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/creates.jsonl")).lines();
    lines
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("every line is JSON");
            let mut object = line["object"].clone();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let schema = bundled_schema(&text(&object["apiVersion"]), &text(&object["kind"])).expect("a bundled kind");
            let mut faults: Vec<String> =
                typing_errors(schema, &object).iter().map(|fault| fault.message.clone()).collect();
            if faults.is_empty() {
                apply_defaults(schema, &mut object);
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

#[test]
fn what_an_api_server_takes_is_taken() {
    let wrong: Vec<String> = verdicts()
        .into_iter()
        .filter(|verdict| verdict.denied.is_none() && !verdict.faults.is_empty())
        .map(|verdict| format!("{}: {:?}", verdict.name, verdict.faults))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_the_schema_refuses_is_refused() {
    let judged_elsewhere = |denied: &str| denied.contains("admission webhook") || denied.contains("conversion webhook");
    let refused =
        verdicts().into_iter().filter(|v| v.denied.as_deref().is_some_and(|denied| !judged_elsewhere(denied)));
    let missed: Vec<String> = refused
        .filter(|verdict| {
            // In the same words, where the server's webhooks did not fill in what was missing before it looked.
            let denied = verdict.denied.as_deref().unwrap_or_default();
            !verdict.faults.iter().any(|fault| denied.contains(fault.as_str()) || fault == "Required value")
        })
        .map(|verdict| format!("{}: {:?} but {:?}", verdict.name, verdict.denied, verdict.faults))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
