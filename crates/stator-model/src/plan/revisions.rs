//! One revision's desired objects against another's, with no cluster: what a pull request would change.

use super::build::sort_changes;
use super::compare::dry_run::field_change;
use super::decide::{desired_form, download, file_versions, gpu_usage, prune, renames};
use super::guard::{GuardLimits, MIN_DELETION_LIMIT};
use super::{
    Action, AddressMove, Change, ChangeReason, Disruption, HeldChanges, Hold, ImmutableAdvice, KeptBy, Plan,
    PlanOwnership, UnchangedTotals, masking, totals,
};
use crate::intent::model::ReplacementOrder;
use crate::intent::repository::{Guards, Prices};
use crate::render::{RenderedObject, RenderedText};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::disruption;
use stator_core::dynamo::kinds::{FIELD_MANAGER, GRAPH};
use stator_core::dynamo::references::{NAMED_BY_PODS, is_named_by, names_of};
use stator_core::fields;
use stator_core::finding::{self, Finding};
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Two revisions of one environment.
#[derive(Clone, Debug, Default)]
pub struct RevisionComparison<'a> {
    /// The repository's name.
    pub repository: &'a str,
    /// The environment's name.
    pub environment: &'a str,
    /// What is compared with.
    pub base: &'a [RenderedText],
    /// The commit that is compared with.
    pub base_revision: &'a str,
    /// Models of the base that cannot be used: what they rendered to is not known.
    pub base_broken: &'a [crate::intent::BrokenIntent],
    /// What would be.
    pub head: &'a [RenderedText],
    /// The commit that would be.
    pub head_revision: &'a str,
    /// Models of the head that cannot be used: what they render to is not known, so nothing of them is compared.
    pub broken: &'a [crate::intent::BrokenIntent],
    /// What may hold models of the head and is not read.
    pub unread: &'a [crate::intent::UnreadPlace],
    /// Findings of the head's intents.
    pub findings: &'a [Finding],
    /// What GPUs cost.
    pub prices: Option<&'a Prices>,
    /// What will hold the sync back.
    pub guards: Guards,
    /// Models that are the same in both and are left out of both.
    pub unchanged: UnchangedTotals,
    /// The Dynamo that changes are judged by.
    pub platform: Platform,
}

struct ComparedObject<'a> {
    rendered: &'a RenderedText,
    desired: &'a RenderedObject<ObjectText>,
}

/// Compares two revisions. Nothing in the plan can be carried out; every field is stator's.
pub fn compare_revisions(comparison: &RevisionComparison<'_>) -> Plan {
    let (base, head) = (index_objects(comparison.base), index_objects(comparison.head));
    let mut lines = Vec::new();
    let was_broken = |side: &ComparedObject<'_>| {
        let model = side.rendered.model.as_str();
        let unread = comparison.base_broken.iter();
        unread.clone().any(|one| one.source == side.rendered.source || one.name.as_deref() == Some(model))
            || comparison.base.iter().any(|one| one.model == model && one.findings.iter().any(Finding::is_error))
    };
    for (identity, new) in &head {
        let mut change = compare_object(base.get(identity), new, &comparison.platform);
        if change.action == Action::Create && was_broken(new) {
            change.reasons = vec![ChangeReason::ModelWasFaulty];
        }
        lines.push((new.desired.stage, Box::new(change)));
    }
    let broken =
        |side: &ComparedObject<'_>| {
            comparison.broken.iter().any(|one| {
                one.source == side.rendered.source || one.name.as_deref() == Some(side.rendered.model.as_str())
            }) || comparison
                .head
                .iter()
                .any(|one| one.model == side.rendered.model && one.findings.iter().any(Finding::is_error))
        };
    let rendered: BTreeSet<&str> = comparison.head.iter().map(|one| one.model.as_str()).collect();
    let nameless = comparison.broken.iter().any(|one| one.name.is_none());
    let mut unread = BTreeMap::new();
    for (_, old) in base.iter().filter(|(identity, _)| !head.contains_key(identity)) {
        let RenderedText { model, source, .. } = old.rendered;
        let is_gone = !rendered.contains(model.as_str());
        let place = comparison.unread.iter().find(|place| is_gone && place.may_hold(model, source));
        unread.extend(place.map(|place| (model.as_str(), place)));
        // As a sync prunes: a file that does not say whose it is may be any model's that is not there.
        let is_unknown = broken(old) || place.is_some() || (is_gone && nameless);
        let mut change = removed_object(old, is_unknown);
        let user = (change.action == Action::Delete).then(|| find_user(comparison, old)).flatten();
        if let Some(by) = user {
            change = Change::new(&change.model, &change.source, change.object);
            change.reasons.push(ChangeReason::Kept(KeptBy::StillUsed { by, is_held: false }));
        }
        lines.push((old.desired.stage, Box::new(change)));
    }
    let mut changes = sort_changes(lines);
    file_versions::pair_file_versions(&mut changes);
    renames::explain_names(&renames::compare_names(comparison.base, comparison.head), &mut changes);
    download::explain_downloads(&mut changes);
    let mut findings: Vec<Finding> = comparison.findings.to_vec();
    findings.extend(comparison.head.iter().flat_map(|one| one.findings.iter().cloned()));
    findings.extend(unread.into_iter().map(|(model, place)| prune::unread_finding(model, place)));
    finding::sort_and_dedup(&mut findings);
    finding::limit::limit_findings(&mut findings, finding::limit::MAX_FINDINGS, &finding::Location::default());
    let holds = expected_holds(comparison, &changes);
    let digest = totals::plan_digest(&changes, &holds);
    totals::price_changes(&mut changes, comparison.prices);
    let summary = totals::summarize_changes(&changes, Some(&comparison.unchanged), comparison.prices);
    findings.extend(totals::capacity_findings(&summary, &comparison.platform));
    finding::sort_and_dedup(&mut findings);
    masking::mask_changes(&mut changes);
    Plan {
        api_version: "stator.dev/v1alpha1",
        kind: "Plan",
        repository: comparison.repository.to_owned(),
        environment: comparison.environment.to_owned(),
        revision: comparison.head_revision.to_owned(),
        base: comparison.base_revision.to_owned(),
        digest,
        summary,
        changes,
        holds,
        held: HeldChanges::default(),
        retired: Vec::new(),
        renames: BTreeMap::new(),
        upgrade: None,
        elsewhere: Vec::new(),
        folder: None,
        ownership: PlanOwnership::default(),
        intents: BTreeMap::new(),
        findings,
    }
}

/// Objects by identity; of several models that render one claim the first by name counts.
fn index_objects(rendered: &[RenderedText]) -> BTreeMap<ObjectIdentity, ComparedObject<'_>> {
    let mut all: BTreeMap<ObjectIdentity, ComparedObject<'_>> = BTreeMap::new();
    for rendered in rendered {
        for desired in &rendered.objects {
            let identity = desired.object.reference().identity();
            if all.get(&identity).is_none_or(|other| other.rendered.model > rendered.model) {
                all.insert(identity, ComparedObject { rendered, desired });
            }
        }
    }
    all
}

fn compare_object(old: Option<&ComparedObject<'_>>, new: &ComparedObject<'_>, platform: &Platform) -> Change {
    let mut change = Change::new(&new.rendered.model, &new.rendered.source, new.desired.object.reference().clone());
    let desired = new.desired.parse();
    let wanted = if old.is_some() { Cow::Borrowed(&desired) } else { desired_form::created_form(&desired) };
    let after = wanted.with_initial_replicas();
    change.gpu_range = gpu_usage::scaling_gpu_range(&desired);
    let Some(old) = old else {
        change.action = Action::Create;
        change.disruption = disruption::of_create(&after);
        gpu_usage::set_changed_gpus(&mut change, None, Some(&after));
        change.reasons.push(ChangeReason::NewInRevision);
        change.reasons.extend(gpu_usage::search_reason(&after));
        change.after = Some(after.value().into());
        return change;
    };
    let old_desired = old.desired.parse();
    let before = old_desired.with_initial_replicas();
    gpu_usage::set_changed_gpus(&mut change, Some(&before), Some(&after));
    let schema = fields::bundled_schema(after.api_version(), after.kind());
    let (Some(schema), true) = (schema, before != after) else { return change };
    // What is compared are the objects as git has them: seeded counts are no wish of git's.
    let differences = fields::diff(schema, old_desired.object.value(), desired.object.value());
    if differences.is_empty() {
        return change;
    }
    let judgement = disruption::classify_change(&before, &after, platform);
    change.action = if judgement.forbidden.is_empty() {
        Action::Update
    } else if judgement.is_replaceable() && new.desired.prune {
        Action::Replace
    } else {
        Action::Blocked
    };
    change.disruption = judgement.disruption;
    change.fields = differences.into_iter().map(|one| field_change(one, FIELD_MANAGER.to_owned())).collect();
    gpu_usage::set_changed_gpus(&mut change, Some(&before), Some(&after));
    change.reasons.extend(judgement.notes.into_iter().map(ChangeReason::Disrupts));
    change.reasons.extend(
        judgement
            .forbidden
            .into_iter()
            .map(|one| ChangeReason::Immutable { message: one.message, advice: ImmutableAdvice::InMessage }),
    );
    if change.action == Action::Replace && after.kind() == GRAPH.kind {
        match new.rendered.replacement {
            ReplacementOrder::OldFirst => {}
            ReplacementOrder::NewFirst => {
                change.disruption = Disruption::ManagedRoll;
                gpu_usage::set_side_by_side_gpus(&mut change, &before, &after);
                change.reasons.push(ChangeReason::NewGraphFirst { graph: None, moves: AddressMove::default() });
            }
        }
    }
    change.before = Some(old_desired.object.value().into());
    change.after = Some(desired.object.value().into());
    change
}

/// Who names an object that pods need, of what would be.
fn find_user(comparison: &RevisionComparison<'_>, old: &ComparedObject<'_>) -> Option<ObjectRef> {
    let object = &old.desired.object;
    if !NAMED_BY_PODS.iter().any(|kind| kind.kind == object.kind()) {
        return None;
    }
    let names = names_of(&object.parse());
    let mut wanted = comparison.head.iter().flat_map(|one| &one.objects).map(|one| &one.object);
    wanted.find(|user| is_named_by(&names, user)).map(|user| user.reference().clone())
}

fn removed_object(old: &ComparedObject<'_>, broken: bool) -> Change {
    let mut change = Change::new(&old.rendered.model, &old.rendered.source, old.desired.object.reference().clone());
    let before = old.desired.parse().with_initial_replicas();
    gpu_usage::set_unchanged_gpus(&mut change, &before);
    if broken {
        change.action = Action::Blocked;
        change.reasons.push(ChangeReason::FateUnknown);
    } else if old.desired.prune {
        change.action = Action::Delete;
        change.disruption = disruption::of_delete(&before);
        gpu_usage::set_changed_gpus(&mut change, Some(&before), None);
        change.reasons.push(ChangeReason::NoLongerInGit);
        change.before = Some(before.value().into());
    } else {
        change.reasons.push(ChangeReason::Kept(KeptBy::Data));
    }
    change
}

fn expected_holds(comparison: &RevisionComparison<'_>, changes: &[Change]) -> Vec<Hold> {
    let total = comparison.base.iter().map(|one| one.objects.len()).sum::<usize>() + comparison.unchanged.objects;
    // In a comparison no object has a record: of how many objects the deletions are a share is known from the base.
    let share = u32::try_from(MIN_DELETION_LIMIT.max(total / 5)).unwrap_or(u32::MAX);
    let limits = GuardLimits {
        max_deletions: comparison.guards.max_deletions.or(Some(share)),
        max_gpus: comparison.guards.max_gpus,
        present: total,
        other_gpus: comparison.unchanged.gpus.peak,
        rewound: None,
        allow: &BTreeSet::new(),
    };
    // Nothing of a comparison is written; what a sync of it would write, every change says by its action.
    limits.find_holds(changes, |one| match one.action {
        Action::Create | Action::Update | Action::Replace | Action::Delete | Action::Adopt => true,
        Action::Deleting | Action::Keep | Action::Blocked | Action::LeftBehind => false,
    })
}
