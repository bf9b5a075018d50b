//! What a source synced once and nothing names any more: of an environment that is no longer in `stator.yaml`, in a namespace
//! that an environment moved away from, or of what the source was called before. No plan deletes it, and each says it.
//! Known by all that the source was called.

use super::gpu_usage;
use crate::plan::context::PlanContext;
use crate::plan::{
    Action, Change, ChangeReason, LeftBehindCause, OwnerRelation, PlanInput, PlanScope, Record, RepositoryOrigin,
    SourceClaim,
};
use stator_core::dynamo::kinds::{self, LABEL_ENVIRONMENT, LABEL_MODEL, LABEL_OWNER_ID, LABEL_REPOSITORY, RECORD};
use stator_core::object::{ObjectIdentity, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// A line for each object that is left behind, sorted by model and object. `named` are the objects of the plan.
pub(in crate::plan) fn find_left_behind(context: &PlanContext<'_>, named: &[Change]) -> Vec<Change> {
    let input = context.input;
    if input.strays.is_empty() || input.places.is_empty() || input.scope != PlanScope::All {
        return Vec::new();
    }
    let model_key = |change: &Change| (change.object.namespace.clone(), change.model.clone());
    let mut with_objects: BTreeSet<(String, String)> = named.iter().map(model_key).collect();
    let named: BTreeSet<ObjectIdentity> =
        named.iter().flat_map(|change| change.objects().map(|object| object.identity())).collect();
    let (records, objects): (Vec<&ObjectText>, Vec<&ObjectText>) =
        input.strays.iter().partition(|object| object.kind() == RECORD.kind);
    let judge = StrayJudge::new(context, &records);
    let is_left = |object: &&ObjectText| !named.contains(&object.reference().identity());
    let mut lines: Vec<Change> =
        objects.into_iter().filter(is_left).filter_map(|object| judge.line(context, object)).collect();
    // A record is worth a line where it is all that is left.
    with_objects.extend(lines.iter().map(model_key));
    let is_alone = |record: &&ObjectText| {
        let object = record.reference();
        let is_own = object.namespace == input.namespace && context.records().contains_key(object.name.as_str());
        !is_own && !with_objects.contains(&(object.namespace.clone(), object.name.clone()))
    };
    lines.extend(records.into_iter().filter(is_alone).filter_map(|record| judge.line(context, record)));
    lines.sort_by(|a, b| (&a.model, &a.object).cmp(&(&b.model, &b.object)));
    lines
}

/// Tells what is the source's, and why no plan names it.
struct StrayJudge<'a> {
    /// The labels of what the source is and was.
    owner_ids: BTreeSet<String>,
    /// By namespace and model.
    records: BTreeMap<(String, String), Record>,
    places: &'a BTreeSet<(String, String)>,
}

impl<'a> StrayJudge<'a> {
    fn new(context: &PlanContext<'a>, records: &[&ObjectText]) -> Self {
        let read = records.iter().filter_map(|record| Record::from_object(&record.parse()).ok());
        Self {
            owner_ids: origins(context.input).iter().map(RepositoryOrigin::digest).collect(),
            records: read.map(|record| ((record.namespace.clone(), record.model.clone()), record)).collect(),
            places: &context.input.places,
        }
    }

    fn line(&self, context: &PlanContext<'_>, object: &ObjectText) -> Option<Change> {
        let input = context.input;
        let (reference, model) = (object.reference(), object.label(LABEL_MODEL)?);
        let record = self.records.get(&(reference.namespace.clone(), model.to_owned()));
        let is_own = match object.label(LABEL_OWNER_ID) {
            Some(id) => self.owner_ids.contains(id),
            None => object.label(LABEL_REPOSITORY) == Some(input.repository.as_str()),
        };
        if !is_own || record.is_some_and(|record| is_of_another_source(context, record)) {
            return None;
        }
        let environment = object.label(LABEL_ENVIRONMENT)?;
        let is_configured = self.places.iter().any(|(name, _)| name == environment);
        let is_own_environment = environment == input.environment;
        let cause = match (is_own_environment, reference.namespace == input.namespace) {
            // Its owner is what this source was before, or it would have a line.
            (true, true) => LeftBehindCause::FormerOwner {
                owner: record.and_then(|record| record.owner.as_ref()).map(crate::plan::SourceIdentity::describe),
            },
            // Another source may have the environment where `stator.yaml` puts it.
            (true, false) if self.places.contains(&(environment.to_owned(), reference.namespace.clone())) => {
                return None;
            }
            (true, false) => LeftBehindCause::FormerNamespace { environment: environment.to_owned() },
            (false, _) if !is_configured => LeftBehindCause::NoEnvironment { environment: environment.to_owned() },
            (false, _) => return None,
        };
        let source = record.map(|record| record.source.as_str()).unwrap_or_default();
        let mut change = Change::new(model, source, reference.clone());
        change.action = Action::LeftBehind;
        gpu_usage::set_unchanged_gpus(&mut change, &object.parse());
        // Where its objects may not be listed, a record tells what they held.
        if let Some(state) = record.filter(|_| object.kind() == RECORD.kind).and_then(|record| record.state.as_ref()) {
            gpu_usage::set_recorded_gpus(&mut change, state.gpus, state.gpu_sku.as_deref());
        }
        let resource = kinds::by_name(object.kind()).map(kinds::ObjectKind::resource).unwrap_or_default();
        let delete = format!("kubectl delete {resource} {} -n {}", reference.name, reference.namespace);
        change.reasons.push(ChangeReason::LeftBehind { cause, delete });
        Some(change)
    }
}

/// Whether a record says that another `ModelSource`, or another repository, has the model.
fn is_of_another_source(context: &PlanContext<'_>, record: &Record) -> bool {
    let (Some(claim), Some(owner)) = (&context.input.owner, &record.owner) else { return false };
    let is_other = claim.identity.relation_to(owner) == OwnerRelation::Foreign;
    is_other && !former_origins(context.input).any(|origin| origin == owner.origin())
}

/// Where the content of a source comes from, first, and all that it came from before.
fn origins(input: &PlanInput) -> Vec<RepositoryOrigin> {
    known_origins(input.owner.as_ref(), &input.records)
}

/// What it came from before: its folder before it was in a repository, the repository before it had an address, and what its
/// records say that they were taken over from.
fn former_origins(input: &PlanInput) -> impl Iterator<Item = &RepositoryOrigin> {
    former(input.owner.as_ref(), &input.records)
}

/// Where the content of a source comes from, first, and all that it came from before, as its records in a namespace say.
pub fn known_origins(owner: Option<&SourceClaim>, records: &[Record]) -> Vec<RepositoryOrigin> {
    let own = owner.map(|claim| claim.identity.origin()).into_iter();
    let mut origins: Vec<RepositoryOrigin> = Vec::new();
    for origin in own.chain(former(owner, records)) {
        if !origins.contains(origin) {
            origins.push(origin.clone());
        }
    }
    origins
}

fn former<'a>(owner: Option<&'a SourceClaim>, records: &'a [Record]) -> impl Iterator<Item = &'a RepositoryOrigin> {
    let is_own = move |record: &&Record| {
        let recorded = record.owner.as_ref().map(crate::plan::SourceIdentity::origin);
        recorded.is_some() && recorded == owner.map(|claim| claim.identity.origin())
    };
    let recorded = records.iter().filter(is_own).filter_map(|record| record.former_origin.as_ref());
    owner.into_iter().flat_map(|claim| &claim.former_origins).chain(recorded)
}
