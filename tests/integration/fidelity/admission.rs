//! Admission: every verdict on an object that was to be created.

use super::{source, table, verdicts};
use serde_json::{Value, json};
use stator_core::dynamo::admission::{self, AdmissionFinding, AdmissionOutcome, Platform};
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
        blind: admission::check_object(&object, &Platform::default()),
        known: admission::check_object(&object, platform),
    }
}

fn creates() -> Vec<Case> {
    // Without Grove, LeaderWorkerSet and the inference gateway.
    let platform = Platform::from_api_groups([]);
    verdicts("creates").iter().map(|row| judge(&row["name"], &row["denied"], &row["object"], &platform)).collect()
}

fn manifests() -> Vec<Case> {
    // The validators alone, with Grove and LeaderWorkerSet off; nobody looked for an inference gateway.
    let platform = Platform { inference_gateway: Some(true), ..Platform::from_api_groups([]) };
    let rows = verdicts("manifests");
    let judged = rows.iter().filter(|row| row["v1beta1"].is_object() && row["admitted"].is_boolean());
    judged.map(|row| judge(&row["file"], &row["denied"], &source(row), &platform)).collect()
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

pub fn section() -> String {
    let (creates, manifests) = (creates(), manifests());
    let sets = [creates.as_slice(), manifests.as_slice()];
    let wrong: Vec<String> = sets.iter().flat_map(|cases| exceptions(cases)).collect();
    assert_eq!(wrong, Vec::<String>::new());

    let denied = |cases: &[Case]| cases.iter().filter(|case| case.denied.is_some()).count();
    let depends =
        |cases: &[Case]| cases.iter().filter(|case| case.denied.is_some() && refused(&case.blind).is_none()).count();
    let said = |case: &&Case| {
        let words = case.denied.as_deref()?;
        Some(words.split_once("denied the request: ").map_or(words, |(_, words)| words).to_owned())
    };
    let alike = |cases: &[Case]| {
        cases
            .iter()
            .filter(|case| said(case).is_some_and(|words| admission::denial_message(&case.known) == Some(words)))
            .count()
    };
    let count =
        |number: fn(&[Case]) -> usize| -> Vec<String> { sets.iter().map(|set| number(set).to_string()).collect() };
    let row = |what: &str, numbers: Vec<String>| std::iter::once(what.to_owned()).chain(numbers).collect::<Vec<_>>();
    let rows = [
        row("Verdicts", count(<[Case]>::len)),
        row(
            "admitted, and not refused by stator",
            count(|cases| cases.iter().filter(|case| case.denied.is_none()).count()),
        ),
        row("denied, and foreseen with field and fix", sets.iter().map(|set| denied(set).to_string()).collect()),
        row("… of these in the operator's own words", sets.iter().map(|set| alike(set).to_string()).collect()),
        row("… of these depend on the cluster", sets.iter().map(|set| depends(set).to_string()).collect()),
        row("judged otherwise", sets.iter().map(|set| exceptions(set).len().to_string()).collect()),
    ];
    let mut text = String::from(
        "## Admission\n\n`validate` and `plan` refuse what the operator would. *Objects* are 296 odd graphs, requests and \
         adapters, judged by a real API server with the CRDs and the operator's webhooks; *manifests* are upstream's \
         examples, in both versions of the API, judged by the operator's validators.\n\n",
    );
    text += &table(&["", "Objects", "Manifests"], &rows);
    text += "\nWhat depends on the cluster (Grove, the inference gateway, topologies, GPU discovery) is a warning with a rule \
             of its own, until the environment's `platform` in `stator.yaml` says what there is: then it is an error, or \
             nothing. A cluster is asked which API groups it serves; one that serves Grove while the operator's chart has it off \
             (`global.grove.enabled: false`) needs `platform: {grove: false}`. Denials by the rule that foresees them:\n\n";
    let foreseen = |case: &Case| {
        case.denied.iter().filter_map(|_| refused(&case.known)).map(|refusal| refusal.rule.id).collect::<BTreeSet<_>>()
    };
    text += &table(&["Rule", "Objects", "Manifests"], &by_rule(&sets, foreseen));
    text += "\nAdmitted is not the same as works. These findings are stator's own, warnings on admitted objects:\n\n";
    let own = |case: &Case| {
        let found = case.known.iter().filter(|_| case.denied.is_none());
        found.map(|refusal| refusal.rule.id).collect::<BTreeSet<_>>()
    };
    write!(text, "{}", table(&["Rule", "Objects", "Manifests"], &by_rule(&sets, own))).unwrap();
    text
}
