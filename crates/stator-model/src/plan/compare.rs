//! One revision's desired objects against another's, with no cluster: what a pull request would change.

use super::build::sorted;
use super::decide::line;
use super::merge::{Seeds, field};
use super::{Action, Change, GpuTotals, Hold, HoldKind, Plan, Step, mask, merge, totals, uses};
use crate::intent::repository::{Guards, Prices};
use crate::render::{Desired, Rendered, Stage};
use stator_core::dynamo::disruption;
use stator_core::dynamo::kinds::MANAGER;
use stator_core::fields;
use stator_core::finding::{self, Finding};
use stator_core::object::{Object, ObjectIdentity};
use std::collections::BTreeMap;

/// Two revisions of one environment.
#[derive(Clone, Debug, Default)]
pub struct Comparison<'a> {
    /// The repository's name.
    pub repository: &'a str,
    /// The environment's name.
    pub environment: &'a str,
    /// What is compared with.
    pub base: &'a [Rendered],
    /// The commit that is compared with.
    pub base_revision: &'a str,
    /// Models of the base that cannot be used: what they rendered to is not known.
    pub base_broken: &'a [crate::intent::BrokenIntent],
    /// What would be.
    pub head: &'a [Rendered],
    /// The commit that would be.
    pub head_revision: &'a str,
    /// Models of the head that cannot be used: what they render to is not known, so nothing of them is compared.
    pub broken: &'a [crate::intent::BrokenIntent],
    /// Findings of the head's intents.
    pub findings: &'a [Finding],
    /// What GPUs cost.
    pub prices: Option<&'a Prices>,
    /// What will hold the sync back.
    pub guards: Guards,
    /// Models that are the same in both and are left out of both.
    pub rest: Rest,
}

/// What is the same in both revisions and not compared: its share of sums and guards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// How many objects.
    pub objects: usize,
    /// Their GPUs.
    pub gpus: GpuTotals,
    /// The same by SKU.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
}

impl Rest {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.gpus.add(other.gpus);
        for (sku, totals) in &other.gpus_by_sku {
            self.gpus_by_sku.entry(sku.clone()).or_default().add(*totals);
        }
    }
}

struct Side<'a> {
    rendered: &'a Rendered,
    desired: &'a Desired,
}

/// Compares two revisions. Nothing in the plan can be carried out; every field is stator's.
pub fn compare(comparison: &Comparison<'_>) -> Plan {
    let (base, head) = (sides(comparison.base), sides(comparison.head));
    let mut lines = Vec::new();
    let was_broken = |side: &Side<'_>| {
        let model = side.rendered.model.as_str();
        let unread = comparison.base_broken.iter();
        unread.clone().any(|one| one.source == side.rendered.source || one.name.as_deref() == Some(model))
            || comparison.base.iter().any(|one| one.model == model && one.findings.iter().any(Finding::is_error))
    };
    for (identity, new) in &head {
        let mut change = changed(base.get(identity), new);
        if change.action == Action::Create && was_broken(new) {
            change.reasons =
                vec!["the model had errors before, so what changes is not known: all of it is shown".to_owned()];
        }
        lines.push((new.desired.stage, change));
    }
    let broken =
        |side: &Side<'_>| {
            comparison.broken.iter().any(|one| {
                one.source == side.rendered.source || one.name.as_deref() == Some(side.rendered.model.as_str())
            }) || comparison
                .head
                .iter()
                .any(|one| one.model == side.rendered.model && one.findings.iter().any(Finding::is_error))
        };
    for (_, old) in base.iter().filter(|(identity, _)| !head.contains_key(identity)) {
        lines.push((old.desired.stage, gone(old, broken(old))));
    }
    let mut changes = sorted(lines);
    let mut findings: Vec<Finding> = comparison.findings.to_vec();
    findings.extend(comparison.head.iter().flat_map(|one| one.findings.iter().cloned()));
    finding::sort(&mut findings);
    let holds = holds(comparison, &changes);
    let digest = totals::digest(&changes, &holds);
    totals::price(&mut changes, comparison.prices);
    mask::changes(&mut changes);
    Plan {
        api_version: "stator.dev/v1alpha1",
        kind: "Plan",
        repository: comparison.repository.to_owned(),
        environment: comparison.environment.to_owned(),
        revision: comparison.head_revision.to_owned(),
        base: comparison.base_revision.to_owned(),
        digest,
        summary: totals::summary(&changes, Some(&comparison.rest), comparison.prices),
        changes,
        holds,
        retired: Vec::new(),
        elsewhere: Vec::new(),
        folder: None,
        intents: BTreeMap::new(),
        findings,
    }
}

/// Objects by identity; of several models that render one claim the first by name counts.
fn sides(rendered: &[Rendered]) -> BTreeMap<ObjectIdentity, Side<'_>> {
    let mut all: BTreeMap<ObjectIdentity, Side<'_>> = BTreeMap::new();
    for rendered in rendered {
        for desired in &rendered.objects {
            let identity = desired.object.reference().identity();
            if all.get(&identity).is_none_or(|other| other.rendered.model > rendered.model) {
                all.insert(identity, Side { rendered, desired });
            }
        }
    }
    all
}

fn whole(desired: &Desired) -> Object {
    let (object, seeds): (Object, Seeds) = merge::without_delegated(desired);
    merge::with_replicas(&object, &seeds)
}

fn changed(old: Option<&Side<'_>>, new: &Side<'_>) -> Change {
    let mut change = line(&new.rendered.model, &new.rendered.source, new.desired.object.reference());
    let after = whole(new.desired);
    change.gpu_range = uses::range(new.desired, &after);
    let Some(old) = old else {
        change.action = Action::Create;
        change.disruption = disruption::of_create(&after);
        uses::count(&mut change, None, Some(&after));
        change.reasons.push("is new".to_owned());
        change.reasons.extend(uses::search(&after));
        change.after = Some(after.into_value());
        return change;
    };
    let before = whole(old.desired);
    uses::count(&mut change, Some(&before), Some(&after));
    let schema = fields::schema_of(after.api_version(), after.kind());
    let (Some(schema), true) = (schema, before != after) else { return change };
    // What is compared are the objects as git has them: seeded counts are no wish of git's.
    let differences = fields::diff(schema, old.desired.object.value(), new.desired.object.value());
    if differences.is_empty() {
        return change;
    }
    let judgement = disruption::judge(&before, &after);
    change.action = if judgement.forbidden.is_empty() {
        Action::Update
    } else if judgement.replace_helps() && new.desired.prune {
        Action::Replace
    } else {
        Action::Blocked
    };
    change.disruption = judgement.disruption;
    change.fields = differences.into_iter().map(|one| field(one, MANAGER.to_owned())).collect();
    uses::count(&mut change, Some(&before), Some(&after));
    change.reasons.extend(judgement.notes);
    change.reasons.extend(judgement.forbidden.into_iter().map(|one| one.message));
    change.before = Some(old.desired.object.value().clone());
    change.after = Some(new.desired.object.value().clone());
    change
}

fn gone(old: &Side<'_>, broken: bool) -> Change {
    let mut change = line(&old.rendered.model, &old.rendered.source, old.desired.object.reference());
    let before = whole(old.desired);
    uses::standing(&mut change, &before);
    if broken {
        change.action = Action::Blocked;
        change.reasons.push("the model has errors, so what becomes of it is not known".to_owned());
    } else if old.desired.prune {
        change.action = Action::Delete;
        change.disruption = disruption::of_delete(&before);
        uses::count(&mut change, Some(&before), None);
        change.reasons.push("is no longer in git".to_owned());
        change.before = Some(before.into_value());
    } else {
        change.reasons.push("git no longer has it; it is kept because it holds data: delete it by hand".to_owned());
    }
    change
}

fn holds(comparison: &Comparison<'_>, changes: &[Change]) -> Vec<Hold> {
    let total = comparison.base.iter().map(|one| one.objects.len()).sum::<usize>() + comparison.rest.objects;
    // In a comparison no object has a record: of how many objects the deletions are a share is known from the base.
    let share = u32::try_from(super::guard::FEW.max(total / 5)).unwrap_or(u32::MAX);
    let rest = comparison.rest.gpus.peak;
    let guards = Guards {
        max_deletions: comparison.guards.max_deletions.or(Some(share)),
        max_gpus: comparison
            .guards
            .max_gpus
            .map(|most| u32::try_from(u64::from(most).saturating_sub(rest)).unwrap_or(u32::MAX)),
    };
    let input = super::PlanInput { guards, ..super::PlanInput::default() };
    let mut scratch = changes.to_vec();
    // Guards look at what would be written: in a comparison every change is.
    for change in &mut scratch {
        if change.action != Action::Keep && change.action != Action::Blocked {
            change.step = Step::Delete(super::DeleteStep {
                object: change.object.clone(),
                stage: Stage::Graph,
                uid: String::new(),
                resource_version: String::new(),
            });
        }
    }
    let mut holds = super::guard::hold(&input, &mut scratch);
    for hold in &mut holds {
        match hold.kind {
            HoldKind::MassDelete => {
                let deletions = changes.iter().filter(|one| one.action == Action::Delete).count();
                hold.message = format!("{deletions} of {total} objects would be deleted at once");
            }
            HoldKind::MaxGpus => {
                let peak = changes.iter().fold(rest, |sum, one| sum.saturating_add(one.gpus.peak));
                let most = comparison.guards.max_gpus.unwrap_or_default();
                hold.message = format!("up to {peak} GPUs would be needed at once, the environment may have {most}");
            }
            HoldKind::Replace | HoldKind::Delete | HoldKind::Adopt => {}
        }
    }
    holds
}
