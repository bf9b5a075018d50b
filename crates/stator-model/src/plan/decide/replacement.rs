//! Replacing a graph new-first: which of its two names a model's graph has, and what is in the way of a second one.
//!
//! A graph is called after its model. One that is brought up beside it, since Dynamo forbids the change in place, has the
//! model's alternate name; the replacement after that has the first name again. So there are never more than two. Which of
//! them a plan is about follows from what is live, and from the record where nothing is; a sync that was interrupted needs
//! to remember nothing.
//! A route to the graph follows its name.

use crate::intent::model::ReplacementOrder;
use crate::plan::compare::dry_run;
use crate::plan::context::{LiveOwnership, PlanContext};
use crate::plan::names::{AddressMove, NewGraphObstacle, alternate_graph_name};
use crate::render::{ApplyStage, RenderedObject, RenderedText};
use serde_json::Value;
use stator_core::dynamo::addresses;
use stator_core::dynamo::disruption::{self, ChangeRemedy};
use stator_core::dynamo::health;
use stator_core::dynamo::kinds::{GRAPH, HTTP_ROUTE, LABEL_MODEL};
use stator_core::object::{Object, ObjectRef};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Where the graph of a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GraphPlacement {
    /// The name of the one that the plan is about.
    name: String,
    /// The other one, where both run: it goes once the first is Healthy.
    replaced: Option<ObjectRef>,
}

/// What is wanted, each graph under the name that it has; and the graphs that others take the place of.
pub(in crate::plan) struct PlacedModels<'a> {
    pub(in crate::plan) models: Vec<Cow<'a, RenderedText>>,
    /// A graph that is replaced, and the one that takes its place.
    pub(in crate::plan) replaced: Vec<(ObjectRef, ObjectRef)>,
}

/// Gives every graph that is wanted the name that it has.
pub(in crate::plan) fn place_graphs<'a>(context: &PlanContext<'a>, rendered: &'a [RenderedText]) -> PlacedModels<'a> {
    let moved = models_with_other_names(context);
    let mut replaced = Vec::new();
    let place = |rendered: &'a RenderedText| {
        let graph = rendered.objects.iter().find(|one| is_graph(one.stage, one.object.kind()));
        let Some(graph) = graph.filter(|_| moved.contains(rendered.model.as_str())) else {
            return Cow::Borrowed(rendered);
        };
        let graph = graph.parse();
        let placement = place_graph(context, &graph);
        let at = ObjectRef { name: placement.name, ..graph.object.reference() };
        replaced.extend(placement.replaced.map(|old| (old, at.clone())));
        if at.name == graph.object.name() {
            return Cow::Borrowed(rendered);
        }
        let mut placed = rendered.clone();
        let new = under_name(&graph, &at.name);
        for one in &mut placed.objects {
            if is_graph(one.stage, one.object.kind()) {
                *one = under_name(&one.parse(), &at.name).into_text();
            } else if let Some(redirected) = redirect(&one.parse(), &graph.object, &new.object) {
                *one = redirected.into_text();
            }
        }
        Cow::Owned(placed)
    };
    let models = rendered.iter().map(place).collect();
    PlacedModels { models, replaced }
}

fn is_graph(stage: ApplyStage, kind: &str) -> bool {
    stage == ApplyStage::Graph && kind == GRAPH.kind
}

/// The models that have, or had, a graph that is not called after them. Nearly always there is none.
fn models_with_other_names<'a>(context: &PlanContext<'a>) -> BTreeSet<&'a str> {
    let live = context.input.live.iter().filter(|object| object.kind() == GRAPH.kind);
    let live = live.filter_map(|graph| graph.label(LABEL_MODEL).filter(|model| *model != graph.name()));
    let recorded = context.records().values().filter_map(|record| {
        let mut graphs = record.inventory.iter().filter(|entry| entry.object.kind == GRAPH.kind);
        graphs.any(|entry| entry.object.name != record.model).then_some(record.model.as_str())
    });
    live.chain(recorded).collect()
}

fn place_graph(context: &PlanContext<'_>, desired: &RenderedObject) -> GraphPlacement {
    let first = desired.object.reference();
    let second = ObjectRef { name: alternate_graph_name(&first.name), ..first.clone() };
    let ours = |graph: &ObjectRef| context.live(graph).filter(|live| context.ownership_of(live) == LiveOwnership::Ours);
    let is_there = |live: &Object| !live.is_deleting();
    let at = |graph: &ObjectRef, replaced: Option<&ObjectRef>| GraphPlacement {
        name: graph.name.clone(),
        replaced: replaced.cloned(),
    };
    let (live_first, live_second) = (ours(&first), ours(&second));
    let (has_first, has_second) = (live_first.is_some(), live_second.is_some());
    match (live_first.filter(is_there), live_second.filter(is_there)) {
        (Some(one), Some(other)) => {
            if keeps_first(context, desired, &one, &other) {
                at(&first, Some(&second))
            } else {
                at(&second, Some(&first))
            }
        }
        (Some(_), None) => at(&first, None),
        (None, Some(_)) => at(&second, None),
        (None, None) => {
            // Where it was, or is on its way out: clients know that address.
            let is_recorded = |graph: &ObjectRef| context.inventory_entry(graph).is_some();
            let was_second = has_second || (is_recorded(&second) && !is_recorded(&first));
            at(if !has_first && was_second { &second } else { &first }, None)
        }
    }
}

/// Of two graphs of a model, whether the first is what git can be reached from. Where it is neither, the one that serves is
/// left alone, and the other is made again.
fn keeps_first(context: &PlanContext<'_>, desired: &RenderedObject, first: &Object, second: &Object) -> bool {
    match (can_become(context, desired, first), can_become(context, desired, second)) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => serves_rather(first, second),
        (false, false) => !serves_rather(first, second),
    }
}

/// Whether Dynamo lets a live graph be changed to what git wants in place.
fn can_become(context: &PlanContext<'_>, desired: &RenderedObject, live: &Object) -> bool {
    let platform = &context.input.platform;
    let Some(schema) = platform.merge_schema(live.api_version(), live.kind()) else { return false };
    let Some(result) = dry_run::forced_result(schema, &under_name(desired, live.name()), live) else { return false };
    let judgement = disruption::classify_change(live, &result, platform);
    judgement.forbidden.iter().all(|one| one.remedy != ChangeRemedy::Replace)
}

/// Whether the first of two graphs is the one that clients go to: a Healthy one; of two Healthy ones the newer, as the
/// older was to go; of two that are not the older, as the newer was never ready.
fn serves_rather(first: &Object, second: &Object) -> bool {
    let is_good = |graph: &Object| health::assess_health(graph, None).health.is_good();
    let created = |graph: &Object| graph.str_at("/metadata/creationTimestamp").unwrap_or_default().to_owned();
    match (is_good(first), is_good(second)) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => created(first) > created(second),
        (false, false) => created(first) <= created(second),
    }
}

/// An object under another name.
pub(in crate::plan) fn under_name(desired: &RenderedObject, name: &str) -> RenderedObject {
    let renamed = desired.object.clone().map(|mut value| {
        value["metadata"]["name"] = name.into();
        value
    });
    match renamed {
        Ok(object) => RenderedObject { object, ..desired.clone() },
        Err(_) => desired.clone(),
    }
}

/// How a graph is replaced that cannot be changed in place.
pub(in crate::plan) enum GraphReplacement {
    /// It goes, and is made again under its name.
    OldFirst,
    /// A second one comes up first.
    NewFirst(NewGraph),
    /// A second one should come up, and cannot.
    Obstructed(NewGraphObstacle),
}

/// The graph that comes up beside the one that it replaces.
pub(in crate::plan) struct NewGraph {
    pub(in crate::plan) desired: RenderedObject,
    pub(in crate::plan) moves: AddressMove,
}

/// What a model's graph is called where it was never replaced new-first.
fn rendered_graph_name<'a>(context: &PlanContext<'a>, model: &str) -> Option<&'a str> {
    let rendered = context.input.rendered.iter().find(|one| one.model == model)?;
    rendered.objects.iter().find(|one| is_graph(one.stage, one.object.kind())).map(|graph| graph.object.name())
}

/// How a live graph of stator's is replaced by what git wants.
pub(in crate::plan) fn plan_replacement(
    context: &PlanContext<'_>,
    rendered: &RenderedText,
    desired: &RenderedObject,
    live: &Object,
) -> GraphReplacement {
    let current = live.reference();
    // Beside a graph that serves, this one is not missed while it is made again.
    if !is_graph(desired.stage, desired.object.kind()) || context.outgoing_graph_of(&current).is_some() {
        return GraphReplacement::OldFirst;
    }
    match rendered.replacement {
        ReplacementOrder::OldFirst => return GraphReplacement::OldFirst,
        ReplacementOrder::NewFirst => {}
    }
    let first = rendered_graph_name(context, &rendered.model).unwrap_or(&rendered.model);
    let name = if current.name == first { alternate_graph_name(first) } else { first.to_owned() };
    let graph = ObjectRef { name, ..current.clone() };
    let is_wanted_elsewhere = graph.name != rendered.model && context.renders(&graph.name);
    match context.live(&graph) {
        Some(other) if other.is_deleting() && context.ownership_of(&other) == LiveOwnership::Ours => {
            return GraphReplacement::Obstructed(NewGraphObstacle::NotGone { graph });
        }
        Some(_) => return GraphReplacement::Obstructed(NewGraphObstacle::NameTaken { graph }),
        None if is_wanted_elsewhere || context.unreadable_reason(&graph).is_some() => {
            return GraphReplacement::Obstructed(NewGraphObstacle::NameTaken { graph });
        }
        None => {}
    }
    let desired = under_name(desired, &graph.name);
    let global = [live, &desired.object].into_iter().find_map(addresses::globally_discovered_component);
    if let Some(component) = global {
        let component = component.to_owned();
        return GraphReplacement::Obstructed(NewGraphObstacle::SharedNamespace { component });
    }
    let moves = AddressMove::between(live, &desired.object);
    GraphReplacement::NewFirst(NewGraph { desired, moves })
}

/// A route with what it says of one graph's addresses said of another's; `None` where it names none of them.
pub(super) fn redirect(desired: &RenderedObject, from: &Object, to: &Object) -> Option<RenderedObject> {
    if desired.object.kind() != HTTP_ROUTE.kind || from.name() == to.name() {
        return None;
    }
    let moved: BTreeMap<String, String> = addresses::graph_addresses(from)
        .iter()
        .zip(addresses::graph_addresses(to))
        .map(|(old, new)| (old.name().to_owned(), new.name().to_owned()))
        .collect();
    let mut value = desired.object.value().clone();
    let mut has_moved = false;
    for name in backends_mut(&mut value).filter_map(|backend| backend.get_mut("name")) {
        if let Some(new) = name.as_str().and_then(|old| moved.get(old)) {
            *name = new.as_str().into();
            has_moved = true;
        }
    }
    let object = Object::from_value(value).ok().filter(|_| has_moved)?;
    Some(RenderedObject { object, ..desired.clone() })
}

fn backends_mut(route: &mut Value) -> impl Iterator<Item = &mut Value> {
    let rules = route.pointer_mut("/spec/rules").and_then(Value::as_array_mut).into_iter().flatten();
    rules.filter_map(|rule| rule.get_mut("backendRefs")?.as_array_mut()).flatten()
}

/// What a route sends requests to, by name; what has no share of them is left out.
pub(super) fn backends(route: &Object) -> BTreeSet<&str> {
    let rules = route.spec().get("rules").and_then(Value::as_array).into_iter().flatten();
    let all = rules.filter_map(|rule| rule.get("backendRefs")?.as_array()).flatten();
    let has_share = |backend: &&Value| backend.get("weight").and_then(Value::as_u64) != Some(0);
    all.filter(has_share).filter_map(|backend| backend.get("name")?.as_str()).collect()
}
