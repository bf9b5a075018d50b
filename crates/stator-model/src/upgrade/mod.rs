//! What another release of Dynamo does to the models of an environment: what it refuses, freezes and gives up of what git
//! has, what its operator restarts by itself when it takes over, and what to do in which order.
//!
//! Nothing here knows a rule of Dynamo's: the same models are rendered and judged for both releases, and what differs is
//! told.

mod correction;
mod steps;
#[cfg(test)]
mod tests;

use crate::intent::{BrokenIntent, SourceTree};
use crate::plan::{
    ForeseenDeprecation, ForeseenFreeze, ForeseenRestart, GpuTotals, ModelForesight, Plan, RefusedUse,
    RevisionComparison, UpgradeForesight, UpgradeSummary, compare_revisions,
};
use crate::render::{RenderedObject, RenderedText};
use serde_json::Value;
use stator_core::dynamo::admission::{self, Platform, rules};
use stator_core::dynamo::gpu_change::unchanged_gpus;
use stator_core::dynamo::gpus::{ComponentGpus, gpu_use};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::dynamo::release::{Definitions, Release};
use stator_core::dynamo::upgrade;
use stator_core::fields;
use stator_core::finding::Finding;
use stator_core::object::{Object, ObjectIdentity, ObjectText, PathSegment};
use std::collections::{BTreeMap, BTreeSet};

/// An environment, rendered for one release.
#[derive(Clone, Debug, Default)]
pub struct RenderedSide {
    /// Its models.
    pub models: Vec<RenderedText>,
    /// Models that cannot be read.
    pub broken: Vec<BrokenIntent>,
}

/// What is asked.
pub struct UpgradeQuestion<'a> {
    /// The environment's name.
    pub environment: &'a str,
    /// The release that runs.
    pub from: Release,
    /// The release that would.
    pub to: Release,
    /// What the cluster has beside Dynamo.
    pub platform: &'a Platform,
    /// The files of the repository.
    pub tree: &'a SourceTree,
    /// Which models are asked about, by their file.
    pub is_asked: &'a dyn Fn(&str) -> bool,
    /// Objects as the cluster has them; what it lacks is taken to be as git has it.
    pub live: &'a BTreeMap<ObjectIdentity, Object>,
    /// Renders the environment of these files for a release.
    pub render: &'a dyn Fn(&SourceTree, Release) -> RenderedSide,
}

/// What an upgrade of Dynamo does to an environment.
pub fn foresee(question: &UpgradeQuestion<'_>) -> UpgradeForesight {
    let before = question.asked(question.tree, question.from);
    let after = question.asked(question.tree, question.to);
    let mut models: BTreeMap<(&str, &str), ModelForesight> = BTreeMap::new();
    for (today, then) in pairs(&before.models, &after.models) {
        models.insert((&then.model, &then.source), foresee_model(question, today, then));
    }
    let corrected = correction::correct(question, &after);
    for (model, one) in models.iter_mut().flat_map(|(key, model)| model.refused.iter_mut().map(move |one| (key.1, one)))
    {
        if let Some(found) = corrected.of(model, &one.finding) {
            one.correction = Some(found.words.clone());
            one.later = found.later;
        }
    }
    let steps = steps::steps(question, &before, &corrected, models.values());
    let summary = summarize(&after, models.values());
    let mut models: Vec<ModelForesight> = models.into_values().filter(ModelForesight::is_concerned).collect();
    models.sort_by(|a, b| (&a.model, &a.source).cmp(&(&b.model, &b.source)));
    UpgradeForesight {
        environment: question.environment.to_owned(),
        from: question.from,
        to: question.to,
        summary,
        models,
        steps,
        corrections: correction::file_corrections(question.tree, &corrected.now),
        later_corrections: correction::file_corrections(&corrected.now, &corrected.then),
    }
}

impl UpgradeQuestion<'_> {
    /// The models that are asked about, of these files.
    fn asked(&self, tree: &SourceTree, release: Release) -> RenderedSide {
        let RenderedSide { mut models, mut broken } = (self.render)(tree, release);
        models.retain(|one| (self.is_asked)(&one.source));
        broken.retain(|one| (self.is_asked)(&one.source));
        RenderedSide { models, broken }
    }
}

/// The models of two sides, by file and name.
fn pairs<'a>(
    before: &'a [RenderedText],
    after: &'a [RenderedText],
) -> impl Iterator<Item = (&'a RenderedText, &'a RenderedText)> {
    let known: BTreeMap<(&str, &str), &RenderedText> =
        before.iter().map(|one| ((one.source.as_str(), one.model.as_str()), one)).collect();
    after.iter().filter_map(move |then| Some((*known.get(&(then.source.as_str(), then.model.as_str()))?, then)))
}

fn foresee_model(question: &UpgradeQuestion<'_>, today: &RenderedText, then: &RenderedText) -> ModelForesight {
    let is_known = |finding: &Finding| today.findings.iter().any(|one| is_same(one, finding));
    let refused = then.findings.iter().filter(|one| one.is_error()).map(|finding| RefusedUse {
        already: is_known(finding),
        finding: finding.clone(),
        correction: None,
        later: false,
    });
    let is_deprecated = |finding: &Finding| finding.rule == rules::DEPRECATED;
    let doubtful = then.findings.iter().filter(|one| !one.is_error() && !is_deprecated(one) && !is_known(one));
    let deprecated = then.deprecated.iter().map(|(location, line)| ForeseenDeprecation {
        finding: Finding::warning(rules::DEPRECATED, location.clone(), line.message(), line.replacement),
        removed_in: line.removed_in,
    });
    let mut model = ModelForesight {
        model: then.model.clone(),
        source: then.source.clone(),
        refused: refused.collect(),
        doubtful: doubtful.cloned().collect(),
        restarts: Vec::new(),
        frozen: Vec::new(),
        deprecated: deprecated.collect(),
        gpus: GpuTotals::default(),
        restarted_gpus: 0,
    };
    // What is refused today has no objects, and what runs of it is the cluster's to say.
    let objects = if today.objects.is_empty() { &then.objects } else { &today.objects };
    for desired in objects {
        let whole = desired.parse().with_initial_replicas();
        let object = question.live.get(&whole.reference().identity()).unwrap_or(&whole);
        add_object(&mut model, question, object);
    }
    model
}

/// Adds what happens to one of a model's objects.
fn add_object(model: &mut ModelForesight, question: &UpgradeQuestion<'_>, object: &Object) {
    let UpgradeQuestion { from, to, platform, .. } = *question;
    let frozen = upgrade::newly_frozen(object, from, to, platform);
    model.frozen.extend(frozen.into_iter().map(|one| ForeseenFreeze {
        object: object.reference(),
        field: one.path.to_string(),
        message: one.message,
    }));
    if object.kind() != GRAPH.kind {
        model.gpus.add(unchanged_gpus(object).totals);
        return;
    }
    let restarts = upgrade::operator_restarts(object, from, to, platform);
    model.gpus.add(upgrade::restart_gpus(object, &restarts).totals);
    let is_restarted = |name: &String| restarts.iter().any(|one| one.components.contains(name));
    let components = gpu_use(object).components;
    model.restarted_gpus +=
        components.iter().filter(|one| is_restarted(&one.name)).map(ComponentGpus::total).sum::<u64>();
    model.restarts.extend(restarts.into_iter().map(|one| ForeseenRestart {
        object: object.reference(),
        components: one.components,
        disruption: one.disruption,
        certainty: one.certainty,
        since: one.cause.since(),
        reason: one.cause.sentence().to_owned(),
    }));
}

/// Whether two findings are one, of two renderings of the same files.
fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.rule, one.is_error(), &one.location) == (other.rule, other.is_error(), &other.location)
}

fn summarize<'a>(after: &RenderedSide, models: impl Iterator<Item = &'a ModelForesight> + Clone) -> UpgradeSummary {
    let count = |is_meant: &dyn Fn(&ModelForesight) -> bool| models.clone().filter(|one| is_meant(one)).count();
    let mut gpus = GpuTotals::default();
    models.clone().for_each(|one| gpus.add(one.gpus));
    let restarted = models.clone().filter(|one| !one.restarts.is_empty());
    UpgradeSummary {
        models: after.models.len() + after.broken.len(),
        unreadable: after.broken.len(),
        refused: count(&|one| !one.refused.is_empty()),
        corrected: count(&|one| {
            !one.refused.is_empty() && one.refused.iter().all(|refused| refused.correction.is_some())
        }),
        restarted: restarted.clone().count(),
        restarted_gpus: restarted.map(|one| one.restarted_gpus).sum(),
        gpus,
        frozen: count(&|one| !one.frozen.is_empty()),
        deprecated: count(&|one| !one.deprecated.is_empty()),
    }
}

/// What a sync writes where the cluster has one rendering of the models, written under one release, and another is wanted
/// under another. A model that is refused on one of the sides is left out.
fn compare_sides(
    question: &UpgradeQuestion<'_>,
    (base, had): (&[RenderedText], Release),
    (head, has): (&[RenderedText], Release),
) -> Plan {
    let names = |side: &[RenderedText]| -> BTreeSet<(String, String)> {
        let whole = side.iter().filter(|one| !one.findings.iter().any(Finding::is_error));
        whole.map(|one| (one.source.clone(), one.model.clone())).collect()
    };
    let both: BTreeSet<(String, String)> = names(base).intersection(&names(head)).cloned().collect();
    let of_both = |side: &[RenderedText]| -> Vec<RenderedText> {
        side.iter().filter(|one| both.contains(&(one.source.clone(), one.model.clone()))).cloned().collect()
    };
    let (mut base, mut head) = (of_both(base), of_both(head));
    if has < had {
        // What the older definitions do not know is gone when they serve an object.
        change_objects(base.iter_mut().flat_map(|one| &mut one.objects), |object| drop_undeclared(object, has));
    }
    let live: BTreeMap<ObjectIdentity, ObjectText> = objects_of(&base).collect();
    // An object that stays as it is, is not written, and no webhook sees it.
    switch_checkpoints(&mut head, has, |object| live.get(&object.reference().identity()) != Some(object));
    switch_checkpoints(&mut base, had, |_| true);
    compare_revisions(&RevisionComparison {
        environment: question.environment,
        base: &base,
        head: &head,
        platform: Platform { dynamo: Some(has), served: None, ..question.platform.clone() },
        ..RevisionComparison::default()
    })
}

fn objects_of(side: &[RenderedText]) -> impl Iterator<Item = (ObjectIdentity, ObjectText)> {
    side.iter().flat_map(|one| &one.objects).map(|one| (one.object.reference().identity(), one.object.clone()))
}

/// What the webhook of a release writes into these graphs.
fn switch_checkpoints(side: &mut [RenderedText], release: Release, is_written: impl Fn(&ObjectText) -> bool) {
    let graphs = side.iter_mut().flat_map(|one| &mut one.objects).filter(|one| one.object.kind() == GRAPH.kind);
    change_objects(graphs.filter(|one| is_written(&one.object)), |object| {
        let mut value = object.value().clone();
        admission::switch_checkpoints(&mut value, release);
        value
    });
}

fn change_objects<'a>(
    objects: impl Iterator<Item = &'a mut RenderedObject<ObjectText>>,
    change: impl Fn(&Object) -> Value,
) {
    for desired in objects {
        if let Ok(changed) = Object::from_value(change(&desired.object.parse())) {
            desired.object = changed.into();
        }
    }
}

/// The object as the definitions of a release have it.
fn drop_undeclared(object: &Object, release: Release) -> Value {
    let mut value = object.value().clone();
    let definitions = Definitions::of_release(release);
    if let Some(schema) = definitions.schema(object.api_version(), object.kind()) {
        for path in fields::undeclared_fields(schema, object.value()) {
            remove_field(&mut value, &path.0);
        }
    }
    value
}

fn remove_field(value: &mut Value, path: &[PathSegment]) {
    match (path, value) {
        ([PathSegment::Field(name)], Value::Object(fields)) => drop(fields.remove(name)),
        ([PathSegment::Field(name), below @ ..], Value::Object(fields)) => {
            if let Some(field) = fields.get_mut(name) {
                remove_field(field, below);
            }
        }
        ([PathSegment::Key(keys), below @ ..], Value::Array(items)) => {
            let is_it = |item: &&mut Value| keys.iter().all(|(key, wanted)| item.get(key) == Some(&wanted.value()));
            items.iter_mut().filter(is_it).for_each(|item| remove_field(item, below));
        }
        ([PathSegment::Index(index), below @ ..], Value::Array(items)) => {
            if let Some(item) = items.get_mut(*index) {
                remove_field(item, below);
            }
        }
        // Nothing else leads to a field that a definition could lack.
        ([], _)
        | ([PathSegment::Field(_) | PathSegment::Key(_) | PathSegment::Index(_) | PathSegment::Item(_), ..], _) => {}
    }
}
