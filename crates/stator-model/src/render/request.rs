//! The request (DGDR): a model described by targets. It is one-shot: Dynamo ignores edits once it has ended, so its
//! name ends in a hash of its spec, and another spec is another request.

use super::{ApplyStage, ObjectDraft, RenderContext, dgd_overrides, object_metadata, rules};
use crate::intent::model::{Engine, ModelSpec, Optimize, OverrideKind, Rollout, Search, Secrets, Sla};
use crate::intent::scalar::Millis;
use serde_json::{Value, json};
use stator_core::dynamo::kinds;
use stator_core::dynamo::registry::PLANNER_IMAGE;
use stator_core::dynamo::release::Behaviour;
use stator_core::dynamo::v1beta1::{RequestSpec, to_value};
use std::collections::BTreeMap;

/// The longest name of a request: the operator's job is `profile-<name>`, and a job's name has at most 63 characters.
const MAX_REQUEST_NAME_LENGTH: usize = 55;

pub(super) fn draft_request(context: &mut RenderContext<'_>, sla: &Sla) -> ObjectDraft {
    let intent = context.intent;
    let model = &intent.model.spec;
    warn_graph_fields_with_sla(context, model, false);
    let mut request = RequestSpec {
        model: model.model.clone(),
        backend: Some(backend_name(context, model.engine).to_owned()),
        image: profiler_image(model),
        auto_apply: Some(sla.auto_apply.unwrap_or(false)),
        search_strategy: sla.search.map(|search| {
            match search {
                Search::Rapid => "rapid",
                Search::Thorough => "thorough",
            }
            .to_owned()
        }),
        hardware: hardware_fields(model),
        workload: workload_fields(sla),
        sla: target_fields(sla),
        model_cache: model_cache_fields(model),
        features: feature_fields(sla),
        overrides: override_fields(context, sla),
        ..RequestSpec::default()
    };
    let mut identity = to_value(&request).to_string();
    // What the version is changes nothing that is asked for, so it makes no other request.
    let version = model.runtime_version.as_ref().filter(|_| model.image.is_some());
    if let Some(version) = version.filter(|_| context.target.platform.release().has(Behaviour::RuntimeVersionRead)) {
        request.rest.insert("runtimeVersionOverride".to_owned(), version.as_str().into());
    }
    let spec = to_value(&request);
    // Dynamo has no field for it, and another name is what makes another attempt.
    if let Some(attempt) = sla.attempt.filter(|attempt| *attempt > 1) {
        identity.push_str(&format!(" attempt {attempt}"));
    }
    // Overrides are merged later, and make another request as well.
    for change in &model.overrides {
        if change.target.kind == OverrideKind::DynamoGraphDeploymentRequest {
            identity.push_str(&Value::Object(change.merge.clone()).to_string());
        }
    }
    let hash = object_metadata::short_hash(identity.as_bytes());
    let name = object_metadata::bounded_name(intent.model.metadata.name.as_str(), &hash, MAX_REQUEST_NAME_LENGTH);
    ObjectDraft {
        kind: kinds::REQUEST,
        value: object_metadata::new_object(context, kinds::REQUEST, &name, spec, true),
        path: "spec.sla".to_owned(),
        stage: ApplyStage::Graph,
        prune: true,
    }
}

/// Fields that say how a graph runs have no place in a request; silence would lose them.
pub(super) fn warn_graph_fields_with_sla(context: &mut RenderContext<'_>, model: &ModelSpec, locked: bool) {
    let written = [
        ("components", !model.components.is_empty()),
        ("files", !model.files.is_empty() && !locked),
        ("restart", model.restart.is_some() && !locked),
        ("workers", model.workers.is_some()),
        // What comes first when the graph is replaced is said of locked graphs too.
        ("rollout", model.rollout.as_ref().is_some_and(|rollout| rollout.pods() != Rollout::default())),
    ];
    for (field, present) in written {
        // Defaults of a folder are for all its models, and need not fit each of them.
        let by_default = context.intent.origins.locate(&format!("spec.{field}")).file.ends_with("stator.yaml");
        if present && !by_default {
            context.warning(
                rules::NOT_WITH_SLA,
                &format!("spec.{field}"),
                format!("`{field}` has no effect with `sla`: Dynamo writes the graph"),
                format!("remove `{field}`, or promote the recommendation into `serving`"),
            );
        }
    }
}

fn backend_name(context: &mut RenderContext<'_>, engine: Engine) -> &'static str {
    match engine {
        Engine::Vllm => "vllm",
        Engine::Sglang => "sglang",
        Engine::Trtllm => "trtllm",
        Engine::Auto => "auto",
        Engine::Mocker | Engine::Custom => {
            let (name, help) = if engine == Engine::Mocker {
                ("mocker", "name a real engine, and write `sla.mocker: true` to profile without GPUs")
            } else {
                ("custom", "name a real engine, or say how your program runs under `serving`")
            };
            context.error(
                crate::intent::rules::MODEL_ENGINE,
                "spec.engine",
                format!("the profiler has no engine `{name}`"),
                help,
            );
            "auto"
        }
    }
}

/// The profiler's image; without one, Dynamo's webhook fills in its own.
fn profiler_image(model: &ModelSpec) -> Option<String> {
    model.image.as_ref().map(ToString::to_string).or_else(|| model.runtime_image(PLANNER_IMAGE))
}

/// Collects the entries that have a value.
fn present_fields<const N: usize>(entries: [(&str, Option<Value>); N]) -> BTreeMap<String, Value> {
    entries.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

fn hardware_fields(model: &ModelSpec) -> BTreeMap<String, Value> {
    let Some(hardware) = &model.hardware else { return BTreeMap::new() };
    present_fields([
        ("gpuSku", hardware.gpu.map(|sku| sku.name().into())),
        ("numGpusPerNode", hardware.gpus_per_node.map(Value::from)),
        ("totalGpus", hardware.total_gpus.map(Value::from)),
        ("vramMb", hardware.vram_mib.map(Value::from)),
        ("interconnect", hardware.interconnect.as_deref().map(Value::from)),
        ("rdma", hardware.rdma.map(Value::from)),
    ])
}

fn workload_fields(sla: &Sla) -> BTreeMap<String, Value> {
    let Some(workload) = &sla.workload else { return BTreeMap::new() };
    present_fields([
        ("isl", workload.isl.map(Value::from)),
        ("osl", workload.osl.map(Value::from)),
        ("concurrency", workload.concurrency.map(Value::from)),
        ("requestRate", workload.request_rate.map(Value::from)),
    ])
}

/// Targets are in milliseconds in Dynamo.
fn target_fields(sla: &Sla) -> BTreeMap<String, Value> {
    let millis = |duration: Option<Millis>| duration.map(|Millis(count)| Value::from(count));
    present_fields([
        ("ttft", millis(sla.ttft)),
        ("itl", millis(sla.itl)),
        ("e2eLatency", millis(sla.e2e)),
        (
            "optimizationType",
            sla.optimize.map(|optimize| {
                match optimize {
                    Optimize::Latency => "latency",
                    Optimize::Throughput => "throughput",
                }
                .into()
            }),
        ),
    ])
}

fn model_cache_fields(model: &ModelSpec) -> BTreeMap<String, Value> {
    let Some(cache) = &model.cache else { return BTreeMap::new() };
    present_fields([
        ("pvcName", Some(cache.claim.as_str().into())),
        ("pvcModelPath", cache.model_path.as_deref().map(Value::from)),
        ("pvcMountPath", cache.mount_path.as_deref().map(Value::from)),
    ])
}

fn feature_fields(sla: &Sla) -> BTreeMap<String, Value> {
    present_fields([
        ("planner", sla.planner.clone().map(Value::Object)),
        ("mocker", sla.mocker.map(|enabled| json!({"enabled": enabled}))),
    ])
}

fn override_fields(context: &mut RenderContext<'_>, sla: &Sla) -> BTreeMap<String, Value> {
    let model = &context.intent.model.spec;
    let placement = model.hardware.as_ref().map(dgd_overrides::node_placement).unwrap_or_default();
    let job = profiling_job(model.secrets.as_ref(), placement);
    present_fields([("dgd", dgd_overrides::render_overrides(context, sla)), ("profilingJob", job)])
}

/// Secrets reach the profiler through its job's pod, which also runs where the intent says. The container's name is the
/// operator's own, so that the override is merged into it.
fn profiling_job(secrets: Option<&Secrets>, placement: serde_json::Map<String, Value>) -> Option<Value> {
    let pull = secrets.map(|secrets| secrets.image_pull.as_slice()).unwrap_or_default();
    let pull: Vec<Value> = pull.iter().map(|name| json!({"name": name.as_str()})).collect();
    let env_from = super::pod::env_from(secrets);
    if pull.is_empty() && env_from.is_empty() && placement.is_empty() {
        return None;
    }
    let mut pod = placement;
    let mut container = json!({"name": "profiler"});
    if let (false, Some(map)) = (env_from.is_empty(), container.as_object_mut()) {
        map.insert("envFrom".to_owned(), Value::Array(env_from));
    }
    pod.insert("containers".to_owned(), json!([container]));
    if !pull.is_empty() {
        pod.insert("imagePullSecrets".to_owned(), Value::Array(pull));
    }
    Some(json!({"template": {"spec": pod}}))
}
