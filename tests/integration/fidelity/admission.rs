//! Admission: every verdict on an object that was to be created.

use super::{JUDGED, source, table, verdicts};
use serde_json::{Value, json};
use stator_core::dynamo::admission::{self, AdmissionFinding, AdmissionOutcome, Platform};
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One judged object.
struct Case {
    name: String,
    denied: Option<String>,
    /// What is said without knowing the cluster.
    blind: Vec<AdmissionFinding>,
    /// What is said of the cluster that the verdict comes from.
    known: Vec<AdmissionFinding>,
}

fn judge(name: &Value, denied: &Value, object: &Value, platform: &Platform) -> Case {
    let mut object = object.clone();
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("default");
    }
    let object = Object::from_value(object).unwrap();
    Case {
        name: name.as_str().unwrap().to_owned(),
        denied: denied.as_str().map(str::to_owned),
        blind: admission::check_object(&object, &Platform { dynamo: platform.dynamo, ..Platform::default() }),
        known: admission::check_object(&object, platform),
    }
}

/// What the clusters were that the verdicts come from: without Grove, LeaderWorkerSet, checkpoints and the inference gateway.
fn bare(release: Release) -> Platform {
    Platform { dynamo: Some(release), checkpoints: Some(false), ..Platform::from_api_groups([]) }
}

fn creates(release: Release) -> Vec<Case> {
    let platform = bare(release);
    let rows = verdicts(release, "creates");
    rows.iter().map(|row| judge(&row["name"], &row["denied"], &row["object"], &platform)).collect()
}

fn manifests(release: Release) -> Vec<Case> {
    // Nobody looked for an inference gateway.
    let platform = Platform { inference_gateway: Some(true), ..bare(release) };
    let rows = verdicts(release, "manifests");
    let known = |row: &&Value| row["admitted"].is_boolean() && (release != Release::V1_2 || row["v1beta1"].is_object());
    let mut cases = Vec::new();
    for row in rows.iter().filter(known) {
        let document = source(release, row);
        cases.push(judge(&row["file"], &row["denied"], &document, &platform));
        if let Some(tagged) = row.get("tagged") {
            let mut document = document;
            tag_images(&mut document);
            let denied = tagged.get("denied").unwrap_or(&Value::Null);
            cases.push(judge(&format!("{} with tags", row["file"]).into(), denied, &document, &platform));
        }
    }
    cases
}

/// A version in place of every tag that is none.
fn tag_images(value: &mut Value) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(name, below)| match below.as_str() {
            Some(image) if name == "image" && admission::version_in_tag(image).is_none() => {
                let name = image.rsplit_once(':').map_or(image, |(name, _)| name);
                *below = format!("{name}:1.5.0").into();
            }
            _ => tag_images(below),
        }),
        Value::Array(items) => items.iter_mut().for_each(tag_images),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn refused(refusals: &[AdmissionFinding]) -> Option<&AdmissionFinding> {
    refusals.iter().find(|refusal| refusal.outcome == AdmissionOutcome::Denied)
}

/// Every case that is judged otherwise than the operator judged it, or without a reason.
fn exceptions(cases: &[Case]) -> Vec<String> {
    cases
        .iter()
        .filter_map(|case| {
            let wrong = match (&case.denied, refused(&case.known)) {
                (Some(denied), None) => Some(format!("denied, and not foreseen: {denied}")),
                (None, Some(refusal)) => Some(format!("admitted, and refused: {}", refusal.message)),
                (Some(_), Some(refusal)) if refusal.path.0.is_empty() || refusal.help.is_empty() => {
                    Some(format!("no field or no fix: {}", refusal.message))
                }
                // Where the cluster is not known, a denial is a refusal, or said to depend on the cluster.
                (Some(_), Some(_))
                    if case.blind.iter().all(|refusal| refusal.outcome == AdmissionOutcome::WouldFail) =>
                {
                    Some("not foreseen without the cluster".to_owned())
                }
                (None, None) if refused(&case.blind).is_some() => Some("admitted, and refused".to_owned()),
                (Some(_), Some(_)) | (None, None) => None,
            };
            wrong.map(|wrong| format!("{}: {wrong}", case.name))
        })
        .collect()
}

/// Rule → how many denials it foresees, in each set.
fn by_rule<'a>(sets: &[&'a [Case]], of: impl Fn(&'a Case) -> BTreeSet<&'static str>) -> Vec<Vec<String>> {
    let mut counts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, cases) in sets.iter().enumerate() {
        for rule in cases.iter().flat_map(&of) {
            counts.entry(rule).or_insert_with(|| vec![0; sets.len()])[index] += 1;
        }
    }
    let row = |(rule, counts): (&str, Vec<usize>)| {
        std::iter::once(format!("`{rule}`")).chain(counts.iter().map(usize::to_string)).collect()
    };
    counts.into_iter().map(row).collect()
}

const HEAD: [&str; 5] = ["", "1.2: objects", "1.2: manifests", "1.5: objects", "1.5: manifests"];

pub fn section() -> String {
    let all: Vec<Vec<Case>> = JUDGED.into_iter().flat_map(|release| [creates(release), manifests(release)]).collect();
    let sets: Vec<&[Case]> = all.iter().map(Vec::as_slice).collect();
    let wrong: Vec<String> = sets.iter().flat_map(|cases| exceptions(cases)).collect();
    assert_eq!(wrong, Vec::<String>::new());

    let denied = |cases: &[Case]| cases.iter().filter(|case| case.denied.is_some()).count();
    let depends =
        |cases: &[Case]| cases.iter().filter(|case| case.denied.is_some() && refused(&case.blind).is_none()).count();
    let count =
        |number: &dyn Fn(&[Case]) -> usize| -> Vec<String> { sets.iter().map(|set| number(set).to_string()).collect() };
    let row = |what: &str, numbers: Vec<String>| std::iter::once(what.to_owned()).chain(numbers).collect::<Vec<_>>();
    let rows = [
        row("Verdicts", count(&<[Case]>::len)),
        row(
            "admitted, and not refused by stator",
            count(&|cases| cases.iter().filter(|case| case.denied.is_none()).count()),
        ),
        row("denied, and foreseen with field and fix", count(&denied)),
        row("… of these depend on the cluster", count(&depends)),
        row("judged otherwise", count(&|cases| exceptions(cases).len())),
    ];
    let mut text = String::from(
        "## Admission\n\n`validate` and `plan` refuse what the operator would. *Objects* are odd graphs, requests, adapters and \
         what the operator makes of them, judged by a real API server with the definitions and the operator's webhooks of the \
         release; *manifests* are upstream's examples of its time, in both versions of the API, and once more with a version \
         instead of tags that are none.\n\n",
    );
    text += &table(&HEAD, &rows);
    text += "\nWhat depends on the cluster (Grove, the inference gateway, topologies, checkpoints, GPU discovery) is a warning with a rule \
             of its own, until the environment's `platform` in `stator.yaml` says what there is: then it is an error, or \
             nothing. A cluster is asked which API groups it serves; one that serves Grove while the operator's chart has it off \
             (`global.grove.enabled: false`) needs `platform: {grove: false}`. Denials by the rule that foresees them:\n\n";
    let foreseen = |case: &Case| {
        case.denied.iter().filter_map(|_| refused(&case.known)).map(|refusal| refusal.rule.id).collect::<BTreeSet<_>>()
    };
    text += &table(&HEAD.map(|head| if head.is_empty() { "Rule" } else { head }), &by_rule(&sets, foreseen));
    text += "\nAdmitted is not the same as works. These findings are stator's own, warnings on admitted objects:\n\n";
    let own = |case: &Case| {
        let found = case.known.iter().filter(|_| case.denied.is_none());
        found.map(|refusal| refusal.rule.id).collect::<BTreeSet<_>>()
    };
    let head = HEAD.map(|head| if head.is_empty() { "Rule" } else { head });
    write!(text, "{}", table(&head, &by_rule(&sets, own))).unwrap();
    text
}
