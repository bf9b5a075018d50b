//! What a graph that Dynamo's profiler makes is held to: `overrides.dgd` of a request.
//!
//! The profiler of Dynamo 1.2 merges it over the graph that it generated, which is a v1alpha1 graph whatever the
//! request's version is. Arguments of workers are appended, everything else replaces; a service that the graph turns out
//! not to have is passed over. So every name that the profiler gives to workers of the engine is written.

use super::component::router_mode_name;
use super::engine::{self, EngineTable, WorkerInputs, WorkerRole};
use super::engine_arguments::check_arguments;
use super::pod::EnvVars;
use super::strategic_merge::merge_maps;
use super::{RenderContext, pod, rules};
use crate::intent::model::{Engine, Hardware, ModelSpec, PodSettings, Sla, SlaWorker, Worker};
use serde_json::{Map, Value, json};
use stator_core::dynamo::registry::env as names;
use std::collections::BTreeSet;

/// What the profiler calls the frontend that it makes.
const GENERATED_FRONTEND: &str = "Frontend";

/// The partial graph, when the intent holds the generated one to anything.
pub(super) fn render_overrides(context: &mut RenderContext<'_>, sla: &Sla) -> Option<Value> {
    let model = &context.intent.model.spec;
    let mut spec = Map::new();
    // At the graph's own level, which the profiler leaves empty: a list replaces what a service has.
    let env = graph_env(model, sla);
    if !env.is_empty() {
        spec.insert("envs".to_owned(), Value::Array(env));
    }
    let mut services = worker_services(context, model, sla);
    if let Some(pod) = &model.pod {
        services.insert(GENERATED_FRONTEND.to_owned(), Value::Object(service_of_pod(pod)));
    }
    if !services.is_empty() {
        spec.insert("services".to_owned(), Value::Object(services));
    }
    (!spec.is_empty())
        .then(|| json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "spec": spec}))
}

fn graph_env(model: &ModelSpec, sla: &Sla) -> Vec<Value> {
    let mut env = EnvVars::default();
    if let Some(mode) = sla.router {
        env.set(names::ROUTER_MODE, router_mode_name(mode));
    }
    env.add_layer(&model.env);
    env.into_values()
}

fn worker_services(context: &mut RenderContext<'_>, model: &ModelSpec, sla: &Sla) -> Map<String, Value> {
    let written = sla.worker.clone().unwrap_or_default();
    let table =
        engine::table(model.engine).filter(|_| matches!(model.engine, Engine::Vllm | Engine::Sglang | Engine::Trtllm));
    let Some(table) = table else {
        // An engine that is none for `sla` has a finding of its own.
        if model.engine == Engine::Auto {
            report_unnamed_engine(context, model, sla);
            // A service that the graph turns out not to have is passed over, so those of all engines are written.
            let mut service = Map::new();
            place_pods(&mut service, model);
            let names: BTreeSet<&str> = [Engine::Vllm, Engine::Sglang, Engine::Trtllm]
                .into_iter()
                .filter_map(engine::table)
                .flat_map(|table| table.generated_workers.iter().copied())
                .collect();
            return services_of(&names.into_iter().collect::<Vec<_>>(), service);
        }
        return Map::new();
    };
    let worker = to_worker(&written);
    let inputs = WorkerInputs {
        model: &model.model,
        served_name: model.served_name.as_deref(),
        worker: &worker,
        role: WorkerRole::Aggregated,
        kv_events: false,
        adapter_rank: None,
    };
    check_arguments(context, table, "spec.sla.worker", &inputs);
    for field in table.settings_without_flag(&inputs) {
        context.error(
            rules::NOT_WITH_SLA,
            &format!("spec.sla.worker.{field}"),
            format!(
                "`{field}` has no separate flag in this engine, and would replace everything that the profiler chose"
            ),
            "remove it, and set it in `serving` once the recommendation is promoted",
        );
    }
    let mut service = worker_service(table, &inputs);
    place_pods(&mut service, model);
    services_of(table.generated_workers, service)
}

/// The same for every worker that the profiler may make.
fn services_of(names: &[&str], service: Map<String, Value>) -> Map<String, Value> {
    if service.is_empty() {
        return Map::new();
    }
    names.iter().map(|name| ((*name).to_owned(), Value::Object(service.clone()))).collect()
}

/// Where the intent wants workers to run, and what it says of pods. The profiler's own job is told where elsewhere.
fn place_pods(service: &mut Map<String, Value>, model: &ModelSpec) {
    let placement = model.hardware.as_ref().map(node_placement).unwrap_or_default();
    if !placement.is_empty() {
        merge_maps(service, json!({"extraPodSpec": placement}).as_object());
    }
    merge_maps(service, model.pod.as_deref().map(service_of_pod).as_ref());
}

/// What a service of a v1alpha1 graph says of pods: `main` has a place of its own there.
fn service_of_pod(pod: &PodSettings) -> Map<String, Value> {
    let mut template = pod::partial_template(pod);
    let mut service = Map::new();
    if let Some(metadata) = template.remove("metadata") {
        service.insert("extraPodMetadata".to_owned(), metadata);
    }
    if let Some(Value::Object(mut spec)) = template.remove("spec") {
        let containers = spec.remove("containers");
        let main = containers.as_ref().and_then(Value::as_array).and_then(|all| all.first()).and_then(Value::as_object);
        if let Some(mut main) = main.cloned() {
            main.remove("name");
            spec.insert("mainContainer".to_owned(), Value::Object(main));
        }
        service.insert("extraPodSpec".to_owned(), Value::Object(spec));
    }
    service
}

/// Node selector and tolerations, as a pod's spec has them.
pub(super) fn node_placement(hardware: &Hardware) -> Map<String, Value> {
    let mut placement = Map::new();
    if let Some(selector) = hardware.node_selector.as_ref().filter(|selector| !selector.is_empty()) {
        placement.insert("nodeSelector".to_owned(), json!(selector));
    }
    if !hardware.tolerations.is_empty() {
        placement.insert("tolerations".to_owned(), json!(hardware.tolerations));
    }
    placement
}

fn worker_service(table: &EngineTable, inputs: &WorkerInputs<'_>) -> Map<String, Value> {
    let mut service = Map::new();
    let args = table.override_args(inputs);
    if !args.is_empty() {
        service.insert("extraPodSpec".to_owned(), json!({"mainContainer": {"args": args}}));
    }
    let sizes = [inputs.worker.tensor_parallel, inputs.worker.pipeline_parallel];
    if sizes.iter().any(Option::is_some) {
        let gpus = sizes.into_iter().flatten().fold(1_u32, u32::saturating_mul);
        service.insert("resources".to_owned(), json!({"limits": {"gpu": gpus.to_string()}}));
    }
    service
}

fn to_worker(written: &SlaWorker) -> Worker {
    Worker {
        tensor_parallel: written.tensor_parallel,
        pipeline_parallel: written.pipeline_parallel,
        dtype: written.dtype.clone(),
        max_sequences: written.max_sequences,
        max_length: written.max_length,
        args: written.args.clone(),
        ..Worker::default()
    }
}

/// Which flags a worker takes is not known before the profiler has picked its engine.
fn report_unnamed_engine(context: &mut RenderContext<'_>, model: &ModelSpec, sla: &Sla) {
    let written = [("spec.sla.worker", sla.worker.is_some()), ("spec.servedName", model.served_name.is_some())];
    for (path, present) in written {
        if present {
            let field = path.rsplit('.').next().unwrap_or(path);
            context.error(
                rules::NOT_WITH_SLA,
                path,
                format!("`{field}` needs an engine's flags, but `engine: auto` names no engine"),
                format!("name the engine, or remove `{field}`"),
            );
        }
    }
}
