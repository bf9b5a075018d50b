//! Which verdict a commit gets of those that are true of it, and what follows.

use super::*;
use stator_core::finding::{Location, Rule};

const RULE: Rule = Rule { id: "test/rule", summary: "anything" };

/// Something that is wrong, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Invalid,
    Held,
    Error,
    Blocked,
    Unhealthy,
    /// Nothing is wrong.
    Healthy,
}

use Trouble::{Blocked, Error, Healthy, Held, Invalid, Unhealthy};

const ALL: [Trouble; 6] = [Invalid, Held, Error, Blocked, Unhealthy, Healthy];

fn outcome(name: &str, result: SyncOutcome) -> ModelOutcome {
    let message = if result.is_success() { String::new() } else { "why".to_owned() };
    ModelOutcome { name: name.to_owned(), result, message, applied: 0, pruned: 0 }
}

fn overview(models: &[&str], troubles: &[Trouble]) -> PlanOverview {
    let hold =
        Hold { kind: HoldKind::MaxGpus, message: "too many GPUs".to_owned(), help: String::new(), allowed: false };
    PlanOverview {
        holds: if troubles.contains(&Held) { vec![hold] } else { Vec::new() },
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        ..PlanOverview::default()
    }
}

fn judge(troubles: &[Trouble], writes: usize) -> AttemptReport {
    let models: Vec<ModelOutcome> = troubles
        .iter()
        .filter_map(|trouble| match trouble {
            Invalid | Held => None,
            Error => Some(outcome("error", SyncOutcome::Failed)),
            Blocked => Some(outcome("blocked", SyncOutcome::Blocked)),
            Unhealthy => Some(outcome("unhealthy", SyncOutcome::Unhealthy)),
            Healthy => Some(outcome("healthy", SyncOutcome::Healthy)),
        })
        .collect();
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let at = Location { file: "models/a/model.yaml".to_owned(), line: 3, ..Location::default() };
    let finding = Finding::error(RULE, at, "no such field", "");
    let findings = if troubles.contains(&Invalid) { vec![finding] } else { Vec::new() };
    let report = SyncReport { models: models.clone(), writes, ..SyncReport::default() };
    evaluate_sync(&overview(&names, troubles), &findings, &BTreeMap::new(), &report)
}

/// The kind of trouble that a verdict tells of.
fn trouble_of(verdict: &CommitVerdict) -> Trouble {
    match verdict {
        CommitVerdict::Invalid(_) => Invalid,
        CommitVerdict::Held { by: HoldCause::BlockedObject, .. } => Blocked,
        CommitVerdict::Held { by: HoldCause::Guard(_), .. } => Held,
        CommitVerdict::Error { .. } => Error,
        CommitVerdict::Unhealthy { .. } => Unhealthy,
        CommitVerdict::NoModels | CommitVerdict::Healthy { .. } => Healthy,
        CommitVerdict::Superseded { .. } | CommitVerdict::Unsigned { .. } => panic!("no sync ends in {verdict:?}"),
    }
}

#[test]
fn of_two_things_that_are_wrong_the_first_of_the_table_is_told() {
    for first in ALL {
        for second in ALL {
            let evaluation = judge(&[first, second], 0);
            assert_eq!(trouble_of(&evaluation.verdict), first.min(second), "{first:?} and {second:?}");
            assert_eq!(evaluation.summary.is_success, first.min(second) == Healthy, "{first:?} and {second:?}");
        }
    }
}

#[test]
fn each_trouble_has_its_verdict_its_count_and_its_next_step() {
    let lines: Vec<String> = ALL
        .iter()
        .flat_map(|trouble| [0, 1].map(|writes| (*trouble, writes)))
        .map(|(trouble, writes)| {
            let evaluation = judge(&[trouble], writes);
            let counts = evaluation.models.as_ref().unwrap().counts;
            format!(
                "{trouble:?} after {writes} writes: {} | {}/{} healthy | {:?}",
                evaluation.verdict.sentence(),
                counts.healthy,
                counts.models,
                evaluation.summary.next
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    Invalid after 0 writes: models/a/model.yaml:3: no such field | 0/0 healthy | Watch { statuses: false }
    Invalid after 1 writes: models/a/model.yaml:3: no such field | 0/0 healthy | Settle
    Held after 0 writes: held back (max-gpus): too many GPUs | 0/0 healthy | Watch { statuses: false }
    Held after 1 writes: held back (max-gpus): too many GPUs | 0/0 healthy | Settle
    Error after 0 writes: not synced: error: why | 0/1 healthy | Retry
    Error after 1 writes: not synced: error: why | 0/1 healthy | Retry
    Blocked after 0 writes: held back (blocked): blocked: why | 0/1 healthy | Watch { statuses: true }
    Blocked after 1 writes: held back (blocked): blocked: why | 0/1 healthy | Settle
    Unhealthy after 0 writes: unhealthy: why | 0/1 healthy | Watch { statuses: true }
    Unhealthy after 1 writes: unhealthy: why | 0/1 healthy | Settle
    Healthy after 0 writes: 1 model healthy, nothing to change | 1/1 healthy | Watch { statuses: false }
    Healthy after 1 writes: 1 model healthy, nothing to change | 1/1 healthy | Settle
    ");
}

#[test]
fn a_commit_without_models_is_no_healthy_one() {
    let report = SyncReport::default();
    let evaluation = evaluate_sync(&overview(&[], &[]), &[], &BTreeMap::new(), &report);
    assert_eq!(evaluation.verdict, CommitVerdict::NoModels);
    let removed = PlanOverview { changing: BTreeSet::from(["gone".to_owned()]), ..overview(&[], &[]) };
    let evaluation = evaluate_sync(&removed, &[], &BTreeMap::new(), &report);
    assert_eq!(evaluation.verdict, CommitVerdict::Healthy { models: 0, changed: 1 });
}
