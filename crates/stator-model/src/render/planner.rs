//! The planner's settings: what the intent leaves out and the graph already says.

use super::graph_context::GraphContext;
use super::{RenderContext, rules};
use crate::intent::model::{Component, ComponentType, ReplicaSize, Scaling, ScalingBounds, Worker};
use serde_json::{Map, Value};

/// The planner's `--config`, as JSON with sorted keys; none for a component that brings its own command line.
pub(super) fn render_config(graph: &GraphContext<'_>, planner: &Component) -> Option<String> {
    planner_config(graph, planner).map(|config| Value::Object(config).to_string())
}

/// What the planner is configured with; none for a component that brings its own command line.
///
/// Defaults that the user's own `config` overrides: `environment: kubernetes`, `backend`, `mode: agg` for aggregated
/// serving (the planner's own default is disaggregated), and the bounds of `scaling` as `min_endpoint` and
/// `max_gpu_budget` (`components/src/dynamo/planner/config`).
fn planner_config(graph: &GraphContext<'_>, planner: &Component) -> Option<Map<String, Value>> {
    let own_command_line = !planner.own_command().is_empty() || !planner.args.is_empty();
    if planner.config.is_none() && own_command_line {
        return None;
    }
    let mut config = Map::new();
    config.insert("environment".to_owned(), "kubernetes".into());
    config.insert("backend".to_owned(), graph.table.framework.unwrap_or("mocker").into());
    if graph.serving.worker.is_some() {
        config.insert("mode".to_owned(), "agg".into());
    }
    let bounded: Vec<(&Worker, ScalingBounds)> = graph
        .workers()
        .into_iter()
        .filter_map(|(_, _, worker)| worker_bounds(worker).map(|bounds| (worker, bounds)))
        .collect();
    if let Some(min) = bounded.iter().map(|(_, bounds)| bounds.min).min() {
        config.insert("min_endpoint".to_owned(), min.into());
    }
    if !bounded.is_empty() && bounded.len() == graph.workers().len() {
        let most: u64 = bounded
            .iter()
            .map(|(worker, bounds)| {
                u64::from(bounds.max)
                    * u64::from(ReplicaSize::for_worker(worker, graph.spec.engine, graph.spec.hardware.as_ref()).gpus)
            })
            .fold(0, u64::saturating_add);
        if most > 0 {
            config.insert("max_gpu_budget".to_owned(), most.into());
        }
    }
    super::strategic_merge::merge_maps(&mut config, planner.config.as_ref());
    Some(config)
}

fn worker_bounds(worker: &Worker) -> Option<ScalingBounds> {
    match worker.scaling {
        Some(Scaling::Bounds(bounds)) => Some(bounds),
        Some(Scaling::External(_)) | None => None,
    }
}

/// A worker that a planner scales should say so: later releases of the planner only scale through an adapter.
pub(super) fn check_worker_scaling(context: &mut RenderContext<'_>, graph: &GraphContext<'_>) {
    let planned = graph.spec.components.values().any(|component| {
        component.component_type == Some(ComponentType::Planner)
            && planner_config(graph, component)
                .is_some_and(|config| config.get("environment").is_some_and(|environment| environment == "kubernetes"))
    });
    if !planned {
        return;
    }
    for (name, _, worker) in graph.workers() {
        if worker.scaling.is_none() {
            context.warning(
                rules::PLANNER_SCALING,
                &format!("spec.serving.{name}"),
                format!("a planner scales `{name}`, but its bounds are not set"),
                "add `scaling: {min: 1, max: 4}`, or remove the planner",
            );
        }
    }
}
