//! One component of a graph: the frontend, a worker, or a further one.

use super::command_lines::{frontend_command_line, worker_command_line};
use super::engine::{self, WorkerInputs, WorkerRole};
use super::engine_arguments::{check_arguments, check_flags};
use super::graph_context::GraphContext;
use super::hardware;
use super::pod::{self, EnvVars, PodContainer, PodTemplate};
use super::{RenderContext, planner, rules};
use crate::intent::model::{
    self, CompilationCache, ComponentType, ModelRollout, ReplicaSize, RouterMode, Scaling, Secrets, Weights, Worker,
};
use crate::intent::scalar::{ComponentName, DynamoVersion, ImageReference};
use serde_json::{Map, Value, json};
use stator_core::dynamo::registry::{EPP_IMAGE, PLANNER_IMAGE, SIDECAR_FRONTEND, env as names};
use stator_core::dynamo::release::Behaviour;
use stator_core::dynamo::v1beta1::{ComponentSpec, ModelRef, MultinodeSpec};

/// The rank that engines reserve space for when no adapter says more (upstream's LoRA example).
const DEFAULT_ADAPTER_RANK: u32 = 64;

/// The frontend.
pub(super) fn render_frontend(context: &mut RenderContext<'_>, graph: &GraphContext<'_>) -> ComponentSpec {
    let default = model::Frontend::default();
    let written = graph.serving.frontend.as_deref().unwrap_or(&default);
    let mut env = EnvVars::default();
    if let Some(mode) = written.router {
        env.set(names::ROUTER_MODE, router_mode_name(mode));
        if mode == RouterMode::Kv
            && let Some(size) = graph.serving.block_size()
        {
            env.set(names::KV_BLOCK_SIZE, size.to_string());
        }
    }
    env.add_layer(&written.env);
    let image = written.image.as_ref().map(ToString::to_string).or_else(|| engine_image(graph));
    require_image(context, "spec.serving.frontend", image.as_deref(), written.template.as_ref());
    let (command, args) = frontend_command_line(context, written);
    let mut pod = PodTemplate::with_main_container(PodContainer {
        image,
        command,
        args,
        working_dir: written.working_dir.clone(),
        env: env.into_values(),
        env_from: pod::env_from(written.secrets.as_ref()),
        resources: pod::resources(written.resources.as_ref(), 0, ""),
        ..PodContainer::default()
    });
    // The frontend reads the tokenizer from where the model is.
    let is_path = graph.spec.model.starts_with('/');
    if let Some(cache) = graph.spec.cache.as_ref().filter(|_| is_path) {
        pod.mount_cache(cache);
    }
    if let Some(weights) = graph.spec.weights.as_ref().filter(|own| own.folder().is_some() || is_path) {
        pod.mount_weights(weights);
    }
    let name = written.name.as_ref().map_or("frontend", ComponentName::as_str);
    pod.mount_files(&context.files, &[name, "frontend"], false);
    pod.set_image_pull_secrets(written.secrets.as_ref().or(graph.spec.secrets.as_ref()));
    pod.set_probes(written.probes.as_ref());
    let version = engine_version(graph, written.image.as_ref(), written.runtime_version.as_ref());
    ComponentSpec {
        replicas: Some(i64::from(written.replicas.unwrap_or(1))),
        rest: later_fields(context, version, written.min_available, Map::new()),
        shared_memory_size: written.shared_memory.as_ref().map(|size| size.as_str().into()),
        pod_template: Some(
            pod.to_json_with([graph.spec.pod.as_deref(), written.pod.as_deref()], written.template.as_ref()),
        ),
        ..ComponentSpec::new(name, Some("frontend"))
    }
}

/// A worker of `serving`.
pub(super) fn render_worker(
    context: &mut RenderContext<'_>,
    graph: &GraphContext<'_>,
    name: &'static str,
    role: WorkerRole,
    worker: &Worker,
) -> ComponentSpec {
    let spec = graph.spec;
    let path = format!("spec.serving.{name}");
    let shape = ReplicaSize::for_worker(worker, spec.engine, spec.hardware.as_ref());

    let adapters = !spec.adapters.is_empty();
    let weights_folder = spec.weights.as_ref().and_then(Weights::folder);
    let inputs = WorkerInputs {
        model: weights_folder.as_deref().unwrap_or(&spec.model),
        // Of a folder, engines would take the path for the name.
        served_name: spec.served_name.as_deref().or(weights_folder.as_ref().map(|_| spec.model.as_str())),
        worker,
        role,
        kv_events: graph.kv_events,
        adapter_rank: adapters.then(|| {
            spec.adapters
                .iter()
                .map(|adapter| adapter.max_rank.unwrap_or(DEFAULT_ADAPTER_RANK))
                .max()
                .unwrap_or(DEFAULT_ADAPTER_RANK)
        }),
    };
    check_arguments(context, graph.table, &path, &inputs);
    check_flags(context, graph.table.module, &path, &worker.flags);
    let (command, args) = worker_command_line(context, graph, &path, &inputs);
    let mut env = EnvVars::default();
    env.set_hf_home(spec.cache.as_ref(), spec.weights.as_ref());
    if adapters {
        for (name, value) in graph.table.adapter_env {
            env.set(name, *value);
        }
    }
    env.add_layer(&spec.env);
    env.add_layer(&worker.env);

    let image = worker.image.as_ref().map(ToString::to_string).or_else(|| engine_image(graph));
    require_image(context, &path, image.as_deref(), worker.template.as_ref());
    let gpu = spec.hardware.as_ref().and_then(|hardware| hardware.gpu);
    let secrets = worker.secrets.as_ref().or(spec.secrets.as_ref());
    let is_engines_own = worker.own_command().is_none() && !engine::names_flags(&worker.args);
    let needed = graph.table.working_dir.filter(|_| is_engines_own).map(str::to_owned);
    let mut pod = PodTemplate::with_main_container(PodContainer {
        image: image.clone(),
        command,
        args,
        working_dir: worker.working_dir.clone().or(needed),
        env: env.into_values(),
        env_from: pod::env_from(secrets),
        resources: pod::resources(worker.resources.as_ref(), shape.gpus_per_pod(), hardware::gpu_resource(gpu)),
        ..PodContainer::default()
    });
    if let Some(cache) = &spec.cache {
        pod.mount_cache(cache);
    }
    if let Some(weights) = &spec.weights {
        pod.mount_weights(weights);
    }
    let field = name;
    let name = worker.name.as_ref().map_or(field, ComponentName::as_str);
    pod.mount_files(&context.files, &[name, field], true);
    if graph.has_endpoint_picker {
        pod.spec.containers.push(frontend_sidecar_container(secrets, image));
    }
    pod.set_image_pull_secrets(secrets);
    pod.set_probes(worker.probes.as_ref());
    pod.set_node_placement(spec.hardware.as_ref(), shape.gpus > 0);
    pod.set_rollout(worker.rollout.clone().or_else(|| spec.rollout.as_ref().map(ModelRollout::pods)).as_ref());

    let version = engine_version(graph, worker.image.as_ref(), worker.runtime_version.as_ref());
    ComponentSpec {
        replicas: Some(starting_replicas(worker.replicas, worker.scaling)),
        multinode: multinode(shape),
        shared_memory_size: worker.shared_memory.as_ref().map(|size| size.as_str().into()),
        rest: later_fields(
            context,
            version,
            worker.min_available,
            compilation_cache(worker.compilation_cache.as_ref()),
        ),
        model_ref: adapters.then(|| ModelRef { name: spec.model.clone(), ..ModelRef::default() }),
        scaling_adapter: worker.scaling.map(|_| Map::new()),
        frontend_sidecar: graph.has_endpoint_picker.then(|| SIDECAR_FRONTEND.to_owned()),
        pod_template: Some(pod.to_json_with([spec.pod.as_deref(), worker.pod.as_deref()], worker.template.as_ref())),
        ..ComponentSpec::new(
            name,
            Some(worker.component_type.map_or(graph.table.component_type(role), component_type_name)),
        )
    }
}

/// A further component of `components`.
pub(super) fn render_further_component(
    context: &mut RenderContext<'_>,
    graph: &GraphContext<'_>,
    name: &str,
    written: &model::Component,
) -> ComponentSpec {
    let spec = graph.spec;
    let path = format!("spec.components.{name}");
    let shape = ReplicaSize::for_component(written, spec.hardware.as_ref());

    let mut command = written.own_command();
    let mut args = Vec::new();
    let mut epp_config = None;
    let mut env = EnvVars::default();
    match written.component_type {
        Some(ComponentType::Planner) => {
            if let Some(config) = planner::render_config(graph, written) {
                if command.is_empty() {
                    command = ["python3", "-m", "dynamo.planner"].map(str::to_owned).to_vec();
                }
                args = vec!["--config".to_owned(), config];
            }
        }
        Some(ComponentType::Epp) => {
            epp_config = written.config.as_ref().map(|config| {
                let mut wrapped = Map::new();
                wrapped.insert("config".to_owned(), Value::Object(config.clone()));
                wrapped
            });
            env.set(names::MODEL_NAME, spec.served_name.as_deref().unwrap_or(&spec.model));
            // What later releases read instead.
            let has_successor = written.env.keys().any(|name| name.as_str() == names::DECODE_FALLBACK);
            if !has_successor {
                env.set(names::ENFORCE_DISAGG, if graph.serving.prefill.is_some() { "true" } else { "false" });
            }
            if let Some(size) = graph.serving.block_size() {
                env.set(names::KV_BLOCK_SIZE, size.to_string());
            }
        }
        Some(ComponentType::Frontend | ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode)
        | None => {
            if written.config.is_some() {
                context.warning(
                    rules::SETTING_IGNORED,
                    &format!("{path}.config"),
                    "`config` has no effect here: only a planner and an endpoint picker have one",
                    "remove it, or pass settings under `args`",
                );
            }
        }
    }
    args.extend(written.args.iter().cloned());
    env.add_layer(&spec.env);
    env.add_layer(&written.env);

    let image = written.image.as_ref().map(ToString::to_string).or_else(|| component_image(graph, written));
    require_image(context, &path, image.as_deref(), written.template.as_ref());
    let gpu = spec.hardware.as_ref().and_then(|hardware| hardware.gpu);
    let of_model = || spec.secrets.as_ref().filter(|_| takes_secrets(written.component_type));
    let mut pod = PodTemplate::with_main_container(PodContainer {
        image,
        command,
        args,
        working_dir: written.working_dir.clone(),
        env: env.into_values(),
        env_from: pod::env_from(written.secrets.as_ref().or_else(of_model)),
        resources: pod::resources(written.resources.as_ref(), shape.gpus_per_pod(), hardware::gpu_resource(gpu)),
        ..PodContainer::default()
    });
    pod.mount_files(&context.files, &[name], written.component_type.is_some_and(ComponentType::is_worker));
    pod.set_image_pull_secrets(written.secrets.as_ref().or(spec.secrets.as_ref()));
    pod.set_probes(written.probes.as_ref());
    pod.set_node_placement(spec.hardware.as_ref().filter(|_| shape.gpus > 0), shape.gpus > 0);
    pod.set_rollout(written.rollout.as_ref());

    // These do not run the model's image.
    let is_apart = matches!(written.component_type, Some(ComponentType::Planner | ComponentType::Epp));
    let version = written.runtime_version.as_ref();
    let version = if is_apart { version } else { engine_version(graph, written.image.as_ref(), version) };
    ComponentSpec {
        replicas: Some(starting_replicas(written.replicas, written.scaling)),
        multinode: multinode(shape),
        shared_memory_size: written.shared_memory.as_ref().map(|size| size.as_str().into()),
        scaling_adapter: written.scaling.map(|_| Map::new()),
        rest: later_fields(
            context,
            version,
            written.min_available,
            compilation_cache(written.compilation_cache.as_ref()),
        ),
        epp_config,
        pod_template: Some(
            pod.to_json_with([graph.spec.pod.as_deref(), written.pod.as_deref()], written.template.as_ref()),
        ),
        ..ComponentSpec::new(name, written.component_type.map(component_type_name))
    }
}

/// The version of a component that runs the model's image where it has none of its own.
fn engine_version<'a>(
    graph: &GraphContext<'a>,
    image: Option<&ImageReference>,
    own: Option<&'a DynamoVersion>,
) -> Option<&'a DynamoVersion> {
    own.or(graph.spec.runtime_version.as_ref().filter(|_| image.is_none() && graph.spec.image.is_some()))
}

/// What a component says for fields that releases after 1.2 brought, beside other fields.
fn later_fields(
    context: &RenderContext<'_>,
    version: Option<&DynamoVersion>,
    min_available: Option<u32>,
    mut fields: Map<String, Value>,
) -> Map<String, Value> {
    if let Some(version) = version.filter(|_| context.target.platform.release().has(Behaviour::RuntimeVersionRead)) {
        fields.insert("runtimeVersionOverride".to_owned(), version.as_str().into());
    }
    if let Some(least) = min_available {
        fields.insert("minAvailable".to_owned(), least.into());
    }
    fields
}

/// `compilationCache` of a component, as Dynamo has it.
fn compilation_cache(cache: Option<&CompilationCache>) -> Map<String, Value> {
    let Some(cache) = cache else { return Map::new() };
    let mut rendered = json!({"pvcName": cache.claim.as_str()});
    if let Some(path) = &cache.mount_path {
        rendered["mountPath"] = json!(path);
    }
    Map::from_iter([("compilationCache".to_owned(), rendered)])
}

/// The operator starts one pod a node.
fn multinode(replica: ReplicaSize) -> Option<MultinodeSpec> {
    (replica.nodes > 1).then(|| MultinodeSpec { node_count: i64::from(replica.nodes) })
}

/// How many replicas, or, with `scaling`, how many to start with.
fn starting_replicas(written: Option<u32>, scaling: Option<Scaling>) -> i64 {
    let start = match scaling {
        Some(Scaling::Bounds(bounds)) => written.unwrap_or(bounds.min).clamp(bounds.min, bounds.max.max(bounds.min)),
        Some(Scaling::External(_)) | None => written.unwrap_or(1),
    };
    i64::from(start)
}

/// The frontend that an endpoint picker finds beside each worker (upstream's `gaie` examples).
fn frontend_sidecar_container(secrets: Option<&Secrets>, image: Option<String>) -> PodContainer {
    PodContainer {
        name: SIDECAR_FRONTEND,
        image,
        args: ["-m", "dynamo.frontend", "--router-mode", "direct"].map(str::to_owned).to_vec(),
        env_from: pod::env_from(secrets),
        ..PodContainer::default()
    }
}

/// Workers load weights and an endpoint picker a tokenizer; nobody else needs the token.
fn takes_secrets(component_type: Option<ComponentType>) -> bool {
    match component_type {
        Some(ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode | ComponentType::Epp) => true,
        Some(ComponentType::Frontend | ComponentType::Planner) | None => false,
    }
}

/// The image of workers and frontend: the intent's own, else NVIDIA's for the engine.
fn engine_image(graph: &GraphContext<'_>) -> Option<String> {
    let name = Some(graph.table.image).filter(|name| !name.is_empty());
    let runtime = || name.and_then(|name| graph.spec.runtime_image(name));
    graph.spec.image.as_ref().map(ToString::to_string).or_else(runtime)
}

/// The image of a further component: a planner and an endpoint picker have their own.
fn component_image(graph: &GraphContext<'_>, component: &model::Component) -> Option<String> {
    match component.component_type {
        Some(ComponentType::Planner) => graph.spec.runtime_image(PLANNER_IMAGE),
        Some(ComponentType::Epp) => graph.spec.runtime_image(EPP_IMAGE),
        Some(ComponentType::Frontend | ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode)
        | None => engine_image(graph),
    }
}

fn require_image(
    context: &mut RenderContext<'_>,
    path: &str,
    image: Option<&str>,
    template: Option<&Map<String, Value>>,
) {
    if image.is_none() && !template.is_some_and(model::template_has_image) {
        let help = if context.intent.model.spec.image.is_some() {
            "give the component its own `image`: that of the model is the engine's"
        } else {
            "give `spec.runtime`, such as `1.2.0`, or the component its own `image`"
        };
        context.error(
            crate::intent::rules::MODEL_IMAGE,
            path,
            "no image: the component sets none, and `runtime` implies none",
            help,
        );
    }
}

pub(super) fn router_mode_name(mode: RouterMode) -> &'static str {
    match mode {
        RouterMode::RoundRobin => "round-robin",
        RouterMode::Random => "random",
        RouterMode::PowerOfTwo => "power-of-two",
        RouterMode::Kv => "kv",
        RouterMode::Direct => "direct",
        RouterMode::LeastLoaded => "least-loaded",
        RouterMode::DeviceAwareWeighted => "device-aware-weighted",
    }
}

fn component_type_name(component_type: ComponentType) -> &'static str {
    match component_type {
        ComponentType::Frontend => "frontend",
        ComponentType::Worker => "worker",
        ComponentType::Prefill => "prefill",
        ComponentType::Decode => "decode",
        ComponentType::Planner => "planner",
        ComponentType::Epp => "epp",
    }
}
