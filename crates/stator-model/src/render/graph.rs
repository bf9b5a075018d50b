//! The graph (DGD): frontend, workers, further components.
//!
//! A frontend is rendered for every `serving` with a worker, unless the intent brings its own component of type
//! `frontend`, or an endpoint picker takes the requests and no frontend is written.

use super::component;
use super::engine;
use super::graph_context::GraphContext;
use super::pod::env_item;
use super::{RenderContext, planner};
use crate::intent::model::{BackendFramework, ComponentType, Serving};
use serde_json::{Map, Value};
use stator_core::dynamo::v1beta1::{GraphSpec, RestartSpec};

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
    let graph = GraphContext::new(model, serving, table);

    let mut components = Vec::with_capacity(3 + model.components.len());
    let workers = graph.workers();
    let headless = serving.headless.unwrap_or(false);
    let has_frontend = graph.has_endpoint_picker || graph.has_component_of(ComponentType::Frontend);
    let implied = !workers.is_empty() && !has_frontend && !headless;
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
    graph.check_block_sizes(context);
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
