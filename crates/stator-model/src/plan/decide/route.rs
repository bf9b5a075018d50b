//! Routes and the graphs that they lead to: a route follows a graph that is replaced new-first, and is applied once what it
//! newly leads to is Healthy.

use super::desired_form::with_owner_labels;
use super::desired_object::{self, PlannedChange};
use super::replacement::{backends, redirect};
use crate::plan::context::PlanContext;
use crate::plan::{Action, Change, ChangeReason, PlanStep, PlannedWrite};
use crate::render::RenderedText;
use stator_core::dynamo::addresses;
use stator_core::dynamo::health::{self, Health};
use stator_core::dynamo::kinds::{ANNOTATION_CANARY, GRAPH, HTTP_ROUTE};
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};

/// Where a graph is to come up beside the one that it replaces, the model's routes lead to the new one.
pub(in crate::plan) fn follow_new_graphs(
    context: &PlanContext<'_>,
    rendered: &[&RenderedText],
    decided: &mut [PlannedChange],
) {
    let moves: Vec<(String, Object, Object)> = decided
        .iter_mut()
        .filter_map(|one| {
            let model = one.change.model.clone();
            match one.change.step.any_write_mut()? {
                PlannedWrite::Replace { delete, apply } if delete.after.is_some() => {
                    Some((model, context.live(&one.change.object)?, apply.object.parse()))
                }
                PlannedWrite::Replace { .. } | PlannedWrite::Apply(_) | PlannedWrite::Delete(_) => None,
            }
        })
        .collect();
    for (model, old, new) in moves {
        let guard =
            decided.iter().find(|one| one.change.object == old.reference()).and_then(|one| one.change.step.held_by());
        let Some(rendered) = rendered.iter().find(|one| one.model == model) else { continue };
        for desired in rendered.objects.iter().filter_map(|desired| redirect(&desired.parse(), &old, &new)) {
            let reference = desired.object.reference();
            let line = decided.iter_mut().find(|one| one.change.model == model && one.change.object == reference);
            let Some(line) = line.filter(|line| line.change.action != Action::Blocked) else { continue };
            let desired = with_owner_labels(context.input, &model, &desired);
            *line = desired_object::decide_desired(context, rendered, &desired);
            if let Some(guard) = guard {
                line.change.step.hold_back(guard);
                line.change.reasons.push(ChangeReason::Held(guard));
            }
        }
    }
}

/// A graph as the plan leaves it.
struct RoutedGraph {
    reference: ObjectRef,
    /// The names under which it is reached; empty where no route of its own model asks.
    addresses: Vec<String>,
}

impl RoutedGraph {
    fn of(context: &PlanContext<'_>, change: &Change, has_route: bool) -> Option<Self> {
        let graph = match change.step.any_write() {
            Some(PlannedWrite::Apply(apply) | PlannedWrite::Replace { delete: _, apply }) => &apply.object,
            Some(PlannedWrite::Delete(_)) | None => context.live_text(&change.object)?,
        };
        let addresses = if has_route { addresses::graph_addresses(&graph.parse()) } else { Vec::new() };
        let addresses = addresses.iter().map(|address| address.name().to_owned()).collect();
        Some(Self { reference: graph.reference().clone(), addresses })
    }
}

/// Has every route wait for the graphs that it newly leads to. One that leads elsewhere than before, as somebody takes a
/// share away from a graph that is not well, waits for nobody.
pub(in crate::plan) fn wait_for_graphs(context: &PlanContext<'_>, changes: &mut [Change]) {
    let routed: BTreeSet<&str> =
        changes.iter().filter(|one| one.object.kind == HTTP_ROUTE.kind).map(|one| one.model.as_str()).collect();
    if routed.is_empty() {
        return;
    }
    let graphs: BTreeMap<String, RoutedGraph> = changes
        .iter()
        .filter(|one| one.object.kind == GRAPH.kind && one.action != Action::Delete)
        .filter_map(|one| {
            let graph = RoutedGraph::of(context, one, routed.contains(one.model.as_str()))?;
            Some((one.model.clone(), graph))
        })
        .collect();
    let written: BTreeSet<ObjectIdentity> = changes
        .iter()
        .filter(|one| one.object.kind == GRAPH.kind && one.step != PlanStep::NoWrite)
        .flat_map(|one| one.objects().map(ObjectRef::identity))
        .collect();
    for change in changes.iter_mut().filter(|one| one.object.kind == HTTP_ROUTE.kind) {
        let own = graphs.get(&change.model);
        let live = context.live(&change.object).filter(|live| !live.is_deleting());
        let Some(PlannedWrite::Apply(apply) | PlannedWrite::Replace { delete: _, apply }) = change.step.any_write_mut()
        else {
            continue;
        };
        let before = live.as_ref().map(backends).unwrap_or_default();
        let desired = apply.object.parse();
        let wanted = backends(&desired);
        let newly = |names: &[String]| {
            names.iter().any(|name| wanted.contains(name.as_str()) && !before.contains(name.as_str()))
        };
        let canary = desired.annotations().get(ANNOTATION_CANARY).map(|model| (*model).to_owned());
        let canary = canary.filter(|model| newly(&[addresses::frontend_of(model), addresses::pool_of(model)]));
        let canary = canary.map(|model| {
            let named = GRAPH.reference(&change.object.namespace, &model);
            graphs.get(&model).map_or(named, |graph| graph.reference.clone())
        });
        let leads_to_own = |graph: &&RoutedGraph| live.is_none() || newly(&graph.addresses);
        let own = own.filter(leads_to_own).map(|graph| graph.reference.clone());
        apply.after_graphs = own.into_iter().chain(canary).collect();
        let is_ready = |graph: &&ObjectRef| {
            let is_healthy = |live: Object| health::assess_health(&live, None).health == Health::Healthy;
            !written.contains(&graph.identity()) && context.live(graph).is_some_and(is_healthy)
        };
        let waits: Vec<ObjectRef> = apply.after_graphs.iter().filter(|graph| !is_ready(graph)).cloned().collect();
        change.reasons.extend(waits.into_iter().map(|workload| ChangeReason::WaitsForWorkload { workload }));
    }
}
