//! The graph (DGD): frontend, workers, further components.
//!
//! A frontend is rendered for every `serving` with a worker, unless the intent brings its own component of type
//! `frontend`, or an endpoint picker takes the requests and no frontend is written.

use super::component;
use super::engine::{self, EngineTable, WorkerRole};
use super::pod::env_item;
use super::rules;
use super::{RenderContext, planner};
use crate::intent::model::{BackendFramework, ComponentType, ModelSpec, Serving, Worker};
use serde_json::{Map, Value};
use stator_core::dynamo::v1beta1::{ComponentSpec, GraphSpec, RestartSpec};

/// What the components of one graph need to know of each other.
pub(super) struct GraphContext<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) serving: &'a Serving,
    pub(super) table: &'static EngineTable,
    /// An endpoint picker is among the components.
    pub(super) has_endpoint_picker: bool,
    /// Somebody follows the workers' KV events.
    pub(super) kv_events: bool,
}

impl<'a> GraphContext<'a> {
    /// The workers with their names and roles, in the order they are rendered.
    pub(super) fn workers(&self) -> Vec<(&'static str, WorkerRole, &'a Worker)> {
        [
            ("worker", WorkerRole::Aggregated, self.serving.worker.as_deref()),
            ("prefill", WorkerRole::Prefill, self.serving.prefill.as_deref()),
            ("decode", WorkerRole::Decode, self.serving.decode.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, role, worker)| worker.map(|worker| (name, role, worker)))
        .collect()
    }
}

/// Renders `spec` of the graph, and judges what only makes sense between components.
pub(super) fn render_spec(context: &mut RenderContext<'_>, serving: &Serving) -> GraphSpec {
    let model = &context.intent.model.spec;
    let Some(table) = engine::table(model.engine) else {
        context.error(
            crate::intent::rules::MODEL_ENGINE,
            "spec.engine",
            "`auto` works only with `sla`, where the profiler chooses the engine",
            "name the engine, or describe targets under `sla` instead of `serving`",
        );
        return GraphSpec::default();
    };
    let has_type = |wanted| model.components.values().any(|component| component.component_type == Some(wanted));
    let picker = has_type(ComponentType::Epp);
    let kv_router =
        serving.frontend.as_ref().and_then(|frontend| frontend.router) == Some(crate::intent::model::RouterMode::Kv);
    let graph =
        GraphContext { spec: model, serving, table, has_endpoint_picker: picker, kv_events: picker || kv_router };

    let mut components = Vec::with_capacity(3 + model.components.len());
    let workers = graph.workers();
    let headless = serving.headless.unwrap_or(false);
    let implied = !workers.is_empty() && !picker && !has_type(ComponentType::Frontend) && !headless;
    if serving.frontend.is_some() || implied {
        components.push(component::render_frontend(context, &graph));
    }
    for (name, role, worker) in workers {
        components.push(component::render_worker(context, &graph, name, role, worker));
    }
    for (name, further) in &model.components {
        components.push(component::render_further_component(context, &graph, name.as_str(), further));
    }
    let declared = model.backend_framework != Some(BackendFramework::Detected);
    check_block_sizes(context, &graph);
    planner::check_worker_scaling(context, &graph);
    let mut rest = Map::new();
    if !model.graph_env.is_empty() {
        let env = model.graph_env.iter().map(|one| env_item(one.name.as_str(), &one.value)).collect();
        rest.insert("env".to_owned(), Value::Array(env));
    }
    if let Some(class) = &model.priority_class_name {
        rest.insert("priorityClassName".to_owned(), class.as_str().into());
    }
    GraphSpec {
        rest,
        backend_framework: table.framework.filter(|_| declared).map(str::to_owned),
        components,
        restart: model.restart.as_ref().map(|id| RestartSpec { id: id.clone(), ..RestartSpec::default() }),
        ..GraphSpec::default()
    }
}

/// Prefill and decode hand KV blocks over, so their sizes must be one.
fn check_block_sizes(context: &mut RenderContext<'_>, graph: &GraphContext<'_>) {
    let (Some(prefill), Some(decode)) = (&graph.serving.prefill, &graph.serving.decode) else { return };
    if let (Some(first), Some(second)) = (prefill.block_size, decode.block_size)
        && first != second
    {
        context.error(
            rules::BLOCK_SIZE,
            "spec.serving.decode.blockSize",
            format!("prefill has KV blocks of {first} tokens and decode of {second}; they hand blocks to each other"),
            "give both the same `blockSize`",
        );
    }
}

/// An empty component of a name and type.
pub(super) fn empty_component(name: &str, component_type: Option<&str>) -> ComponentSpec {
    ComponentSpec {
        name: name.to_owned(),
        component_type: component_type.map(str::to_owned),
        ..ComponentSpec::default()
    }
}
