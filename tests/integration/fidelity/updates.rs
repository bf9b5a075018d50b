//! Updates: pairs of graphs one edit apart, and what the operator did with them.

use super::{table, verdicts};
use stator_core::dynamo::disruption::{self, Disruption};
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use std::collections::BTreeMap;

pub fn section() -> String {
    let rows = verdicts(Release::V1_2, "updates");
    let mut counts: BTreeMap<(u8, &str), BTreeMap<Disruption, usize>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let object = |side: &str| Object::from_value(row[side].clone()).unwrap();
        let judgement = disruption::classify_change(
            &object("old"),
            &object("new"),
            &Platform { dynamo: Some(Release::V1_2), ..Platform::default() },
        );
        let class = judgement.disruption;
        let (verdict, agrees) = match (row["admitted"].as_bool().unwrap(), row["workersRoll"].as_bool().unwrap()) {
            (false, _) => ((2, "denied"), !judgement.forbidden.is_empty() && class == Disruption::Recreate),
            (true, true) => (
                (1, "every worker is replaced"),
                judgement.forbidden.is_empty() && matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll),
            ),
            (true, false) if row["name"].as_str().unwrap().starts_with("restart-id") => (
                (0, "the hash stays"),
                judgement.forbidden.is_empty() && matches!(class, Disruption::RollingRestart | Disruption::NativeRoll),
            ),
            (true, false) => (
                (0, "the hash stays"),
                judgement.forbidden.is_empty()
                    && matches!(
                        class,
                        Disruption::None | Disruption::AdapterOnly | Disruption::Scale | Disruption::FrontendRoll
                    ),
            ),
        };
        if !agrees {
            wrong.push(format!("{}: {judgement:?}", row["name"]));
        }
        *counts.entry(verdict).or_default().entry(class).or_default() += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    let lines: Vec<Vec<String>> = counts
        .into_iter()
        .map(|((_, verdict), classes)| {
            let total: usize = classes.values().sum();
            let parts: Vec<String> = classes.iter().map(|(class, count)| format!("{count} `{class}`")).collect();
            vec![verdict.to_owned(), total.to_string(), parts.join(", "), wrong.len().to_string()]
        })
        .collect();
    format!(
        "## Updates\n\n{} pairs of graphs of 1.2, one edit apart: whether the operator's admission takes the update, and whether \
         the hash over its workers moves. stator says before it applies:\n\n{}",
        rows.len(),
        table(&["The operator", "Pairs", "stator's classes", "judged otherwise"], &lines)
    )
}
