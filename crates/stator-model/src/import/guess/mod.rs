//! The model that a person would have written for a graph: named fields first, as far as they can be recognised.
//!
//! A guess need not be right in every leaf. What it misses, [`super::carry`] finds out by rendering it.

mod component;
mod extra_components;
mod request;
mod roles;
mod shared;
mod worker;

pub use component::ComponentManifest;
pub use request::request;

use super::command_line::{self, FoundSetting};
use crate::intent::model::{
    Adapter, ApiVersion, BackendFramework, Engine, EnvValue, Frontend, Metadata, Model, ModelKind, ModelSpec,
    RouterMode, Secrets, Serving, Worker,
};
use crate::intent::scalar::{EnvName, ModelName};
use crate::render::engine::{self, EngineSetting, WorkerRole};
use component::most_common;
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

/// The workers of a guess with their targets: which field of `serving` they are in, and what their lines gave.
struct PlacedWorker<'a> {
    role: WorkerRole,
    target: ComponentManifest<'a>,
    named: Vec<FoundSetting>,
}

/// Guesses the model of a graph's `spec`. Labels and annotations are added by the caller.
pub fn graph(name: ModelName, spec: &Map<String, Value>, adapters: &[Adapter]) -> ModelGuess {
    let components = spec.get("components").and_then(Value::as_array);
    let targets: Vec<ComponentManifest<'_>> =
        components.into_iter().flatten().filter_map(Value::as_object).map(ComponentManifest).collect();
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
        notes.push(("spec.model", "no model was found in the manifest; nothing is rendered from this".to_owned()));
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
        *worker_field(&mut serving, *role) = Some(worker);
        placed.push(PlacedWorker { role: *role, target: *target, named });
    }
    serving.frontend = shape.frontend.map(|target| guess_frontend(target, &serving));
    let implied = !shape.workers.is_empty() && shape.frontend.is_none() && !shape.has_entry_point(&targets);
    serving.headless = implied.then_some(true);
    spec_of_model.serving = Some(serving);
    for target in &shape.extra {
        if let Ok(name) = target.name().parse() {
            spec_of_model.components.insert(name, extra_components::component(*target));
        }
    }
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
    assign_command_lines(&mut model, &placed, table);
    shared::lift_environment(&mut model.spec);
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
        hardware: None,
        serving: None,
        sla: None,
        adapters: Vec::new(),
        cache: None,
        files: BTreeMap::new(),
        secrets: None,
        env: BTreeMap::new(),
        rollout: None,
        restart: None,
        components: BTreeMap::new(),
        take_over: Vec::new(),
        overrides: Vec::new(),
    }
}

/// The field of `serving` that a role is in.
pub fn worker_field(serving: &mut Serving, role: WorkerRole) -> &mut Option<Worker> {
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
    Frontend {
        replicas: target.replicas(),
        router,
        resources: target.resources(None),
        command: (!plain && !implied).then(|| line.command.clone().unwrap_or_default()),
        args: line.args,
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
            EnvValue::Secret(_) | EnvValue::ConfigMap(_) => None,
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

/// Leaves the command line to the engine where it renders to exactly the target's; elsewhere the worker keeps its own.
fn assign_command_lines(model: &mut Model, placed: &[PlacedWorker<'_>], table: &engine::EngineTable) {
    let mut open: Vec<&PlacedWorker<'_>> = Vec::new();
    for one in placed {
        let line = one.target.command_line().unwrap_or_default();
        let usual = ["python3", "-m", table.module].map(str::to_owned);
        let directory = one.target.working_dir();
        let fits = line.command.as_deref() == Some(usual.as_slice()) && !table.module.is_empty();
        if fits && (directory.is_some() || table.working_dir.is_none()) {
            open.push(one);
            let own = directory.filter(|directory| Some(directory.as_str()) != table.working_dir);
            update_worker(model, one.role, |worker| worker.working_dir = own);
        } else {
            update_worker(model, one.role, |worker| {
                *worker = worker::with_own_command_line(worker.clone(), &line, &one.named, directory);
            });
        }
    }
    for with_switches in [true, false] {
        for one in &open {
            update_worker(model, one.role, |worker| set_engine_options(worker, one, table, with_switches));
        }
        let rendered = super::completion::rendered_args(model);
        open.retain(|one| {
            let Some(start) = rendered.get(one.target.name()) else { return true };
            let args = one.target.command_line().unwrap_or_default().args;
            let rest = args.strip_prefix(start.as_slice());
            // A setting further back would be there twice, or not be named.
            let named = |rest: &[String]| one.named.iter().any(|found| found.args_index(3) >= args.len() - rest.len());
            match rest.filter(|rest| !named(rest)) {
                Some(rest) => {
                    update_worker(model, one.role, |worker| worker.args = rest.to_vec());
                    false
                }
                None => true,
            }
        });
    }
    for one in open {
        let line = one.target.command_line().unwrap_or_default();
        update_worker(model, one.role, |worker| {
            set_engine_options(worker, one, table, false);
            worker.engine_options = None;
            *worker = worker::with_own_command_line(worker.clone(), &line, &one.named, one.target.working_dir());
        });
    }
}

fn update_worker(model: &mut Model, role: WorkerRole, how: impl FnOnce(&mut Worker)) {
    if let Some(worker) = model.spec.serving.as_mut().and_then(|serving| worker_field(serving, role).as_mut()) {
        how(worker);
    }
}

/// What an engine takes as a switch, or as options in JSON.
fn set_engine_options(worker: &mut Worker, one: &PlacedWorker<'_>, table: &engine::EngineTable, with_switches: bool) {
    let line = one.target.command_line().unwrap_or_default();
    let Some(program) = line.program() else { return };
    for (setting, flag, factors) in table.switches() {
        let size = |setting| match setting {
            EngineSetting::TensorParallel => worker.tensor_parallel,
            EngineSetting::DataParallel => worker.data_parallel,
            EngineSetting::PipelineParallel => worker.pipeline_parallel,
            EngineSetting::Model
            | EngineSetting::ServedName
            | EngineSetting::ExpertParallel
            | EngineSetting::Dtype
            | EngineSetting::MaxSequences
            | EngineSetting::MaxLength
            | EngineSetting::MemoryFraction
            | EngineSetting::BlockSize
            | EngineSetting::DisaggregationMode
            | EngineSetting::AdapterRank => None,
        };
        let implied = factors.iter().filter_map(|factor| size(*factor)).fold(1_u32, u32::saturating_mul);
        let value = (with_switches && program.has_flag(flag) && implied > 1).then_some(implied);
        if setting == EngineSetting::ExpertParallel {
            worker.expert_parallel = value;
        } else if setting == EngineSetting::DataParallel {
            worker.data_parallel = value;
        }
    }
    let written = table.options_flag.and_then(|flag| program.value_of(flag));
    if let Some(Value::Object(written)) = written.and_then(|text| serde_json::from_str(text).ok()) {
        let fixed = table.fixed_options(one.role);
        let own: Map<String, Value> =
            written.into_iter().filter(|(name, value)| fixed.get(name) != Some(value)).collect();
        worker.engine_options = (!own.is_empty()).then_some(own);
    }
}

/// The names of secrets that are not there.
pub fn no_secrets() -> Secrets {
    Secrets::default()
}

/// The engine that a component's command line starts, if one.
pub fn engine_of(target: ComponentManifest<'_>) -> Option<Engine> {
    command_line::engine_of(&target.command_line()?.program()?.module)
}
