//! The model that a person would have written for a graph: named fields first, as far as they can be recognised.
//!
//! A guess need not be right in every leaf. What it misses, [`super::carry`] finds out by rendering it.

mod component;
mod extra_components;
mod line_assignment;
mod request;
mod roles;
mod shared;
mod short_commands;
mod worker;

pub use component::{ComponentManifest, env_value};
pub use request::request;

use super::command_line;
use crate::intent::model::{
    Adapter, ApiVersion, BackendFramework, Engine, EnvValue, Frontend, Metadata, Model, ModelKind, ModelSpec,
    RouterMode, Serving, Worker,
};
use crate::intent::scalar::{EnvName, ModelName};
use crate::render::engine::{self, EngineSetting, WorkerRole};
use component::most_common;
use line_assignment::PlacedWorker;
use roles::ComponentRoles;
use serde_json::{Map, Value};
use stator_core::dynamo::registry::env as names;
use std::collections::BTreeMap;
use worker::GraphSettings;

/// A guess, and what could not be determined.
#[derive(Clone, Debug)]
pub struct ModelGuess {
    /// The model.
    pub model: Model,
    /// What a reader should know, by path in the model; empty for the model as a whole.
    pub notes: Vec<(&'static str, String)>,
}

/// What is said where no model was found.
pub const NO_MODEL_NOTE: &str = "no model was found in the manifest; nothing is rendered from this";

/// Guesses the model of a graph's `spec`. Labels and annotations are added by the caller.
pub fn graph(name: ModelName, spec: &Map<String, Value>, adapters: &[Adapter]) -> ModelGuess {
    let components = spec.get("components").and_then(Value::as_array);
    let of_graph = |component| ComponentManifest { component, graph_env: spec.get("env") };
    let targets: Vec<ComponentManifest<'_>> =
        components.into_iter().flatten().filter_map(Value::as_object).map(of_graph).collect();
    let mut notes = Vec::new();
    let mut engine = roles::detect_engine(&targets, spec);
    if engine == Engine::Custom && !adapters.is_empty() {
        // Whatever its program is called, only vLLM loads adapters.
        engine = Engine::Vllm;
    }
    let Some(table) = engine::table(engine) else { return empty_guess(name) };
    if engine == Engine::Custom {
        notes.push(("spec.engine", "no Dynamo engine was recognised on the command lines".to_owned()));
    }
    let shape = ComponentRoles::of(&targets, table);
    let settings = roles::worker_settings(&shape, table);
    let first_of = |setting| {
        let values: Vec<String> = settings
            .iter()
            .filter(|found| found.setting == setting && !found.unresolved)
            .map(|found| found.value.clone())
            .collect();
        most_common(&values)
    };
    let served_name = first_of(EngineSetting::ServedName);
    let model = first_of(EngineSetting::Model).or_else(|| roles::referenced_model(&targets)).unwrap_or_else(|| {
        notes.push(("spec.model", NO_MODEL_NOTE.to_owned()));
        name.to_string()
    });
    let common = GraphSettings { engine, table, model: &model, served_name: served_name.as_deref() };

    let mut spec_of_model = ModelSpec {
        model: model.clone(),
        served_name: served_name.clone(),
        engine,
        backend_framework: (table.framework.is_some() && !spec.contains_key("backendFramework"))
            .then_some(BackendFramework::Detected),
        adapters: adapters.to_vec(),
        ..empty_spec(engine)
    };
    // One rank for all, as the workers have it.
    let rank = first_of(EngineSetting::AdapterRank)
        .and_then(|rank| rank.parse().ok())
        .filter(|rank| (1..=4096).contains(rank));
    for adapter in &mut spec_of_model.adapters {
        adapter.max_rank = rank.filter(|rank| *rank != 64);
    }
    let mut serving = Serving::default();
    let mut placed = Vec::new();
    for (role, target) in &shape.workers {
        let (worker, named) = worker::base_worker(*target, common);
        *worker_field(&mut serving, *role) = Some(Box::new(worker));
        placed.push(PlacedWorker { role: *role, target: *target, named });
    }
    serving.frontend = shape.frontend.map(|target| Box::new(guess_frontend(target, &serving)));
    let implied = !shape.workers.is_empty() && shape.frontend.is_none() && !shape.has_entry_point(&targets);
    serving.headless = implied.then_some(true);
    spec_of_model.serving = Some(serving);
    for target in &shape.extra {
        if let Ok(name) = target.name().parse() {
            spec_of_model.components.insert(name, extra_components::component(*target));
        }
    }
    spec_of_model.priority_class_name =
        spec.get("priorityClassName").and_then(Value::as_str).and_then(|class| class.parse().ok());
    spec_of_model.restart =
        spec.get("restart").and_then(|restart| restart.get("id")).and_then(Value::as_str).map(str::to_owned);
    let mut model = Model {
        api_version: ApiVersion::default(),
        kind: ModelKind::default(),
        metadata: Metadata { name, labels: BTreeMap::new(), annotations: BTreeMap::new() },
        spec: spec_of_model,
    };
    set_names_and_types(&mut model, &shape, table);
    shared::lift_images(&mut model.spec, &shape, table);
    shared::lift_secrets(&mut model.spec, &shape);
    shared::lift_cache(&mut model.spec, &shape);
    shared::lift_node_selection(&mut model.spec, &shape);
    extra_components::strip_picker_env(&mut model.spec, &targets);
    line_assignment::assign_command_lines(&mut model, &placed, table);
    shared::lift_environment(&mut model.spec);
    model.spec.graph_env = component::read_graph_env(spec.get("env"));
    short_commands::shorten(&mut model.spec);
    ModelGuess { model, notes }
}

fn empty_guess(name: ModelName) -> ModelGuess {
    let spec = empty_spec(Engine::Custom);
    let metadata = Metadata { name, labels: BTreeMap::new(), annotations: BTreeMap::new() };
    ModelGuess {
        model: Model { api_version: ApiVersion::default(), kind: ModelKind::default(), metadata, spec },
        notes: Vec::new(),
    }
}

/// A model with nothing said.
pub fn empty_spec(engine: Engine) -> ModelSpec {
    ModelSpec {
        model: String::new(),
        served_name: None,
        engine,
        backend_framework: None,
        runtime: None,
        image: None,
        runtime_version: None,
        image_registry: None,
        hardware: None,
        serving: None,
        workers: None,
        sla: None,
        adapters: Vec::new(),
        cache: None,
        weights: None,
        files: BTreeMap::new(),
        secrets: None,
        env: BTreeMap::new(),
        graph_env: Vec::new(),
        pod: None,
        rollout: None,
        priority_class_name: None,
        restart: None,
        components: BTreeMap::new(),
        take_over: Vec::new(),
        route: None,
        manifests: Vec::new(),
        overrides: Vec::new(),
        unset: Vec::new(),
    }
}

/// The field of `serving` that a role is in.
pub fn worker_field(serving: &mut Serving, role: WorkerRole) -> &mut Option<Box<Worker>> {
    match role {
        WorkerRole::Aggregated => &mut serving.worker,
        WorkerRole::Prefill => &mut serving.prefill,
        WorkerRole::Decode => &mut serving.decode,
    }
}

/// Names and types that are not the ones that stator would give.
fn set_names_and_types(model: &mut Model, shape: &ComponentRoles<'_>, table: &engine::EngineTable) {
    let Some(serving) = &mut model.spec.serving else { return };
    if let (Some(target), Some(frontend)) = (shape.frontend, &mut serving.frontend) {
        frontend.name = target.name().parse().ok().filter(|_| target.name() != "frontend");
    }
    for (role, target) in &shape.workers {
        let default = match role {
            WorkerRole::Aggregated => "worker",
            WorkerRole::Prefill => "prefill",
            WorkerRole::Decode => "decode",
        };
        if let Some(worker) = worker_field(serving, *role) {
            worker.name = target.name().parse().ok().filter(|_| target.name() != default);
            worker.component_type =
                roles::component_type(*target).filter(|_| target.text("type") != Some(table.component_type(*role)));
            worker.scaling = shared::scaling(*target);
            worker.rollout = shared::rollout(*target);
        }
    }
}

fn guess_frontend(target: ComponentManifest<'_>, serving: &Serving) -> Frontend {
    let line = target.command_line().unwrap_or_default();
    let mut env = target.env();
    let router = take_router_mode(&mut env, serving);
    let plain = line.command.as_deref() == Some(&["python3".to_owned()]) && !line.args.is_empty();
    let implied = line.command.is_none() && line.args.is_empty();
    let of_module =
        plain || line.command.as_deref() == Some(&["python3", "-m", engine::FRONTEND_MODULE].map(str::to_owned));
    let (flags, args) =
        if of_module { line_assignment::frontend_flags(&line.args) } else { (Map::new(), line.args.clone()) };
    Frontend {
        replicas: target.replicas(),
        min_available: target.min_available(),
        router,
        resources: target.resources(None),
        command: (!plain && !implied).then(|| line.command.clone().unwrap_or_default()),
        flags,
        args,
        shared_memory: target.shared_memory(),
        working_dir: target.working_dir(),
        env,
        probes: target.probes(),
        ..Frontend::default()
    }
}

/// The router's mode, when its variables say what the field would.
fn take_router_mode(env: &mut BTreeMap<EnvName, EnvValue>, serving: &Serving) -> Option<RouterMode> {
    let text = |env: &BTreeMap<EnvName, EnvValue>, wanted: &str| {
        env.iter().find(|(name, _)| name.as_str() == wanted).and_then(|(_, value)| match value {
            EnvValue::Literal(text) => Some(text.clone()),
            EnvValue::Secret(_) | EnvValue::ConfigMap(_) | EnvValue::Field(_) | EnvValue::Resource(_) => None,
        })
    };
    let mode: RouterMode = serde_json::from_value(Value::String(text(env, names::ROUTER_MODE)?)).ok()?;
    let size = serving.block_size();
    if let (RouterMode::Kv, Some(size)) = (mode, size) {
        // The field would tell the frontend the block size, too.
        if text(env, names::KV_BLOCK_SIZE)? != size.to_string() {
            return None;
        }
        env.retain(|name, _| name.as_str() != names::KV_BLOCK_SIZE);
    }
    env.retain(|name, _| name.as_str() != names::ROUTER_MODE);
    Some(mode)
}

/// The engine that a component's command line starts, if one.
pub fn engine_of(target: ComponentManifest<'_>) -> Option<Engine> {
    command_line::engine_of(&target.command_line()?.program()?.module)
}
