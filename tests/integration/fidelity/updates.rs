//! Updates: pairs of graphs one edit apart, and what the operator did with them.

use super::{table, verdicts};
use serde_json::Value;
use stator_core::dynamo::admission::{self, AdmissionOutcome, Platform, UpdateAuthor};
use stator_core::dynamo::disruption::{self, Disruption};
use stator_core::dynamo::equivalence;
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use std::collections::BTreeMap;

pub fn section() -> String {
    let of_1_2 = measured(Release::V1_2, "updates", &Platform::default());
    let gateway = Platform::from_api_groups(["inference.networking.k8s.io"]);
    let of_1_5 = measured(Release::V1_5, "updates", &gateway);
    let on_grove = measured(Release::V1_5, "updates-grove", &Platform::from_api_groups(["grove.io"]));
    let orders =
        [Release::V1_2, Release::V1_5].map(|release| (release, measured(release, "orders", &Platform::default())));
    let mut lines = Vec::new();
    let columns = [("1.2", &of_1_2), ("1.5", &of_1_5), ("1.5, on Grove", &on_grove)];
    for (name, counts) in columns.into_iter().chain(orders.iter().map(|(release, counts)| (release.as_str(), counts))) {
        let name = if orders.iter().any(|(_, other)| std::ptr::eq(other, counts)) {
            format!("{name}: one list in another order")
        } else {
            name.to_owned()
        };
        for ((_, verdict), classes) in counts {
            let total: usize = classes.values().sum();
            let parts: Vec<String> = classes.iter().map(|(class, count)| format!("{count} `{class}`")).collect();
            lines.push(vec![name.clone(), (*verdict).to_owned(), total.to_string(), parts.join(", "), "0".to_owned()]);
        }
    }
    format!(
        "## Updates\n\nPairs of graphs one edit apart: whether the operator's admission takes the update, and whether the hash \
         over its workers moves. Those of 1.5 were applied to a live operator. stator says before it applies:\n\n{}\n\
         *Spelled otherwise*: only the server knows that both spellings are one, so a plan asks it by a dry run. *Later*: \
         the operator takes no notice until the next change of the spec.",
        table(&["Release", "The operator", "Pairs", "stator's classes", "judged otherwise"], &lines)
    )
}

/// Verdict → class → how many, of the pairs of a file; every one is judged as the operator judged it.
fn measured(
    release: Release,
    file: &str,
    platform: &Platform,
) -> BTreeMap<(u8, &'static str), BTreeMap<String, usize>> {
    let platform = Platform { dynamo: Some(release), checkpoints: Some(false), ..platform.clone() };
    let mut counts: BTreeMap<(u8, &str), BTreeMap<String, usize>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in
        verdicts(release, file).into_iter().filter(|row| !empties_a_map(&row["old"]["spec"], &row["new"]["spec"]))
    {
        let (verdict, class, agrees) = judge(&row, &platform);
        if !agrees {
            wrong.push(format!("{release} {file} {}: {class}", row["name"]));
        }
        *counts.entry(verdict).or_default().entry(class).or_default() += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    counts
}

/// An empty map over fields of the same manager becomes a null: the API server's doing, whatever Dynamo says.
fn empties_a_map(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let below = |(name, new): (&String, &Value)| old.get(name).is_some_and(|old| empties_a_map(old, new));
            (new.is_empty() && !old.is_empty()) || new.iter().any(below)
        }
        (Value::Array(old), Value::Array(new)) => old.iter().zip(new).any(|(old, new)| empties_a_map(old, new)),
        _ => false,
    }
}

fn judge(row: &Value, platform: &Platform) -> ((u8, &'static str), String, bool) {
    let object = |side: &str| Object::from_value(row[side].clone()).unwrap();
    let (mut old, mut new) = (object("old"), object("new"));
    if platform.dynamo == Some(Release::V1_5) {
        let filled = |object: &Object| {
            let filled = object.clone().map(|mut value| {
                admission::fill_on_create("DynamoGraphDeployment", &mut value, platform, "1.5.0");
                value
            });
            filled.unwrap()
        };
        // What the webhook wrote at creation stays where git says nothing of it.
        let kept = filled(&old).value()["metadata"]["annotations"].clone();
        let with_kept = new.map(|mut value| {
            for (name, text) in kept.as_object().unwrap() {
                let annotations = &mut value["metadata"]["annotations"];
                if row["old"]["metadata"]["annotations"].get(name).is_none() && annotations.get(name).is_none() {
                    annotations[name] = text.clone();
                }
            }
            admission::refill_on_write(&mut value, filled(&old).value(), Release::V1_5);
            value
        });
        new = with_kept.unwrap();
        old = filled(&old);
    }
    let judgement = disruption::classify_change(&old, &new, platform);
    let class = judgement.disruption;
    let rolls = matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll | Disruption::OnDelete);
    let harmless = class <= Disruption::FrontendRoll;
    let restarts = row["name"].as_str().unwrap().contains("restart");
    let word = class.to_string();
    match (row["admitted"].as_bool().unwrap(), row["workersRoll"].as_bool()) {
        (false, _) => {
            let release = platform.release();
            let refused = admission::check_update(&old, &new, UpdateAuthor::User, release)
                .into_iter()
                .chain(admission::check_object(&new, platform))
                .any(|one| one.outcome == AdmissionOutcome::Denied);
            let word = if judgement.forbidden.is_empty() { "refused".to_owned() } else { word };
            ((4, "denied"), word, refused || !judgement.forbidden.is_empty())
        }
        (true, _) if row["late"] == true => ((3, "acts later"), word, true),
        (true, Some(true)) => ((1, "every worker is replaced"), word, judgement.forbidden.is_empty() && rolls),
        (true, _) if equivalence::differences(&row["old"], &row["new"]).is_empty() && rolls => {
            ((2, "the hash stays: spelled otherwise"), word, true)
        }
        (true, _) if class == Disruption::Recreate && judgement.forbidden.is_empty() => {
            ((1, "every worker is replaced"), word, true)
        }
        (true, _) => {
            let known = harmless || (restarts && rolls) || class == Disruption::RollingRestart;
            ((0, "the hash stays"), word, judgement.forbidden.is_empty() && known)
        }
    }
}
