//! A request (DGDR) as `sla`.

use super::component::runtime_of_image;
use super::empty_spec;
use crate::intent::model::{
    ApiVersion, Cache, Engine, Hardware, Metadata, Model, ModelKind, ModelSpec, Optimize, Search, Secrets, Sla,
    Workload,
};
use crate::intent::scalar::{ImageReference, Millis, ModelName};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stator_core::dynamo::registry::PLANNER_IMAGE;
use std::collections::BTreeMap;

/// Guesses the model of a request's `spec`.
pub fn request(name: ModelName, spec: &Map<String, Value>) -> Model {
    let text = |field: &str| spec.get(field).and_then(Value::as_str);
    let part = |field: &str| spec.get(field).and_then(Value::as_object);
    let engine = match text("backend") {
        Some("vllm") => Engine::Vllm,
        Some("sglang") => Engine::Sglang,
        Some("trtllm") => Engine::Trtllm,
        Some(_) | None => Engine::Auto,
    };
    let image: Option<ImageReference> = text("image").and_then(|image| image.parse().ok());
    let runtime = image.as_ref().and_then(|image| runtime_of_image(image, PLANNER_IMAGE));
    let (runtime, image_registry) = runtime.map_or((None, None), |(version, registry)| (Some(version), registry));
    let model = text("model").unwrap_or_default().to_owned();
    let spec_of_model = ModelSpec {
        model: if model.is_empty() { name.to_string() } else { model },
        runtime_version: text("runtimeVersionOverride")
            .filter(|_| runtime.is_none())
            .and_then(|version| version.parse().ok()),
        image: image.filter(|_| runtime.is_none()),
        runtime,
        image_registry,
        hardware: part("hardware").map(hardware),
        cache: part("modelCache").and_then(cache),
        secrets: part("overrides").and_then(|overrides| secrets(overrides.get("profilingJob")?)),
        sla: Some(sla(spec)),
        ..empty_spec(engine)
    };
    Model {
        api_version: ApiVersion::default(),
        kind: ModelKind::default(),
        metadata: Metadata { name, labels: BTreeMap::new(), annotations: BTreeMap::new() },
        spec: spec_of_model,
    }
}

/// A field as the intent's own type reads it.
fn read_field<T: DeserializeOwned>(map: Option<&Map<String, Value>>, field: &str) -> Option<T> {
    serde_json::from_value(map?.get(field)?.clone()).ok()
}

fn sla(spec: &Map<String, Value>) -> Sla {
    let part = |field: &str| spec.get(field).and_then(Value::as_object);
    let targets = part("sla");
    let millis = |field: &str| {
        let number = targets?.get(field)?.as_f64()?;
        // Whole milliseconds of at most a day, as an intent has them.
        let whole = number.fract() == 0.0 && (1.0..=86_400_000.0).contains(&number);
        whole.then(|| format!("{number}ms").parse::<Millis>().ok()).flatten()
    };
    let features = part("features");
    let sla = Sla {
        ttft: millis("ttft"),
        itl: millis("itl"),
        e2e: millis("e2eLatency"),
        optimize: read_field::<Optimize>(targets, "optimizationType"),
        workload: part("workload").map(|_| Workload {
            isl: read_field(part("workload"), "isl"),
            osl: read_field(part("workload"), "osl"),
            concurrency: read_field(part("workload"), "concurrency"),
            request_rate: read_field(part("workload"), "requestRate"),
        }),
        search: read_field::<Search>(Some(spec), "searchStrategy"),
        // Dynamo applies its result unless it is disabled; stator does not unless it is enabled.
        auto_apply: Some(spec.get("autoApply").and_then(Value::as_bool).unwrap_or(true)).filter(|applies| *applies),
        planner: features.and_then(|features| features.get("planner")?.as_object().cloned()),
        router: None,
        worker: None,
        mocker: features.and_then(|features| features.get("mocker")?.get("enabled")?.as_bool()),
        attempt: None,
    };
    Sla { workload: sla.workload.clone().filter(|workload| *workload != Workload::default()), ..sla }
}

fn hardware(map: &Map<String, Value>) -> Hardware {
    let map = Some(map);
    Hardware {
        gpu: read_field(map, "gpuSku"),
        gpus_per_node: read_field(map, "numGpusPerNode"),
        total_gpus: read_field(map, "totalGpus"),
        vram_mib: read_field(map, "vramMb"),
        interconnect: read_field(map, "interconnect"),
        rdma: read_field(map, "rdma"),
        node_selector: None,
        tolerations: Vec::new(),
    }
}

fn cache(map: &Map<String, Value>) -> Option<Cache> {
    Some(Cache {
        claim: read_field(Some(map), "pvcName")?,
        size: None,
        storage_class: None,
        access_mode: None,
        mount_path: read_field(Some(map), "pvcMountPath"),
        volume: None,
        implicit_volume: None,
        hf_home: None,
        read_only: None,
        model_path: read_field(Some(map), "pvcModelPath"),
        prune: None,
    })
}

/// The secrets of the profiling job, when its pod is nothing but them.
fn secrets(job: &Value) -> Option<Secrets> {
    let pod = job.pointer("/template/spec")?.as_object()?;
    let main = pod.get("containers")?.as_array()?.first()?.clone();
    let component = serde_json::json!({"podTemplate": {"spec": {
        "imagePullSecrets": pod.get("imagePullSecrets").cloned().unwrap_or(Value::Null),
        "containers": [{"name": "main", "envFrom": main.get("envFrom").cloned().unwrap_or(Value::Null)}],
    }}});
    super::ComponentManifest { component: component.as_object()?, graph_env: None }
        .secrets()
        .filter(|secrets| *secrets != Secrets::default())
}
