//! What to do for an upgrade, in which order.

use super::correction::CorrectedFiles;
use super::{RenderedSide, UpgradeQuestion, compare_sides};
use crate::plan::{Action, Disruption, ModelForesight, Plan};
use crate::present::pluralize;
use stator_core::dynamo::release::Release;
use stator_core::dynamo::upgrade::Certainty;
use std::collections::BTreeSet;

/// What a release asks of whoever installs it, beside what is in git. Source: the README of Dynamo's platform chart, and the
/// release notes.
const PREPARATIONS: &[(Release, &str)] = &[
    (
        Release::V1_4,
        "install the Grove that goes with the release, where graphs run on Grove; and set `global.nats.install` in the \
         chart's values to what you have now: its default changed, and another value restarts every pod of every graph",
    ),
    (Release::V1_5, "install the Snapshot operator first, where graphs have checkpoints"),
];

/// What to do, in this order.
pub(super) fn steps<'a>(
    question: &UpgradeQuestion<'_>,
    before: &RenderedSide,
    corrected: &CorrectedFiles,
    models: impl Iterator<Item = &'a ModelForesight> + Clone,
) -> Vec<String> {
    let UpgradeQuestion { from, to, .. } = *question;
    let mut steps = Vec::new();
    let by_hand: BTreeSet<&str> = models
        .clone()
        .filter(|model| model.refused.iter().any(|one| one.correction.is_none()))
        .map(|model| model.model.as_str())
        .collect();
    if !before.broken.is_empty() {
        let models = pluralize(before.broken.len(), "model", "models");
        steps.push(format!("Correct {models} that cannot be judged: `stator validate` lists the errors."));
    }
    if !by_hand.is_empty() {
        let names: Vec<String> = by_hand.iter().map(|name| format!("`{name}`")).collect();
        steps.push(format!("Correct {} by hand, as the lines above say.", join_some(&names)));
    }
    let now = question.asked(&corrected.now, from);
    if corrected.now.files != question.tree.files {
        let written = compare_sides(question, (&before.models, from), (&now.models, from));
        let when = if from == to { String::new() } else { format!("While Dynamo {from} runs: ") };
        let step = format!("{when}merge the patch, which `--write` writes, and sync: that {}.", plan_words(&written));
        steps.push(step.chars().take(1).flat_map(char::to_uppercase).chain(step.chars().skip(1)).collect());
    }
    if from == to {
        return steps;
    }
    let (older, newer) = (from.min(to), from.max(to));
    let crossed = PREPARATIONS.iter().filter(|(release, _)| older < *release && *release <= newer);
    if from < to {
        steps.extend(crossed.map(|(release, words)| format!("For {release}: {words}.")));
    }
    let way: Vec<&str> =
        Release::KNOWN.iter().filter(|one| older < **one && **one < newer).map(|one| one.as_str()).collect();
    let verb = if from < to { "Upgrade" } else { "Return" };
    let through = if way.is_empty() {
        String::new()
    } else {
        let mut way = way;
        if to < from {
            way.reverse();
        }
        format!(", by way of {} as Dynamo asks for", way.join(" and "))
    };
    steps
        .push(format!("{verb} Dynamo's definitions and operator to {to}{through}: {}.", restart_words(models.clone())));
    let then = question.asked(&corrected.then, to);
    let mut last = vec![format!("set `platform: {{dynamo: \"{to}\"}}` of the environment in stator.yaml")];
    if corrected.then.files != corrected.now.files {
        last.push(format!("write the rest with `stator check --dynamo {to} --write`"));
    }
    let written = compare_sides(question, (&now.models, from), (&then.models, to));
    steps.push(format!("Once it runs: {}, merge, and sync: that {}.", last.join(", "), plan_words(&written)));
    steps
}

/// What the operator restarts by itself.
fn restart_words<'a>(models: impl Iterator<Item = &'a ModelForesight> + Clone) -> String {
    let surely = |model: &ModelForesight| model.restarts.iter().any(|one| one.certainty == Certainty::Stated);
    let restarted = models.clone().filter(|model| !model.restarts.is_empty());
    let (sure, likely): (Vec<&ModelForesight>, Vec<&ModelForesight>) = restarted.partition(|model| surely(model));
    let named = |models: &[&ModelForesight]| {
        let names: Vec<String> = models.iter().map(|model| format!("`{}`", model.model)).collect();
        join_some(&names)
    };
    let mut parts = Vec::new();
    if !sure.is_empty() {
        parts.push(format!("it restarts pods of {} by itself", named(&sure)));
    }
    if !likely.is_empty() {
        let verb = if sure.is_empty() { "it is likely to restart" } else { "is likely to restart" };
        parts.push(format!("{verb} pods of {}", named(&likely)));
    }
    if parts.is_empty() { "it restarts nothing by itself".to_owned() } else { parts.join(", and ") }
}

/// What a sync writes, in the middle of a sentence.
fn plan_words(plan: &Plan) -> String {
    let written: Vec<_> = plan.changes.iter().filter(|change| change.action != Action::Keep).collect();
    if written.is_empty() {
        return "writes nothing".to_owned();
    }
    let harmless = [Disruption::None, Disruption::AdapterOnly, Disruption::Scale];
    let restarting: Vec<String> = written
        .iter()
        .filter(|change| !harmless.contains(&change.disruption))
        .map(|change| format!("`{}` ({})", change.model, change.disruption))
        .collect();
    let objects = pluralize(written.len(), "object", "objects");
    if restarting.is_empty() {
        return format!("writes {objects} and restarts nothing");
    }
    let peak = plan.summary.gpus;
    let peak =
        if peak.peak > peak.before { format!(", with at most {} GPUs meanwhile", peak.peak) } else { String::new() };
    format!("writes {objects} and restarts {}{peak}", join_some(&restarting))
}

/// Names, as many as a sentence bears.
fn join_some(names: &[String]) -> String {
    const MAX_NAMES: usize = 8;
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
