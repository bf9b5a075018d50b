//! What components have in common, lifted to where a person writes it once.

use super::component::{ComponentManifest, most_common, runtime_of_image};
use super::roles::ComponentRoles;
use super::worker_field;
use crate::intent::model::{
    Cache, ComponentType, CountOrPercent, EnvValue, ExternalScaling, GpuSku, Hardware, ModelSpec, Rollout,
    RolloutStrategy, Scaling, Secrets,
};
use crate::intent::scalar::{DnsName, DynamoVersion, EnvName, ImageReference};
use crate::render::engine::EngineTable;
use crate::render::hardware::gpu_products;
use serde_json::{Map, Value, json};
use stator_core::dynamo::registry::{EPP_IMAGE, PLANNER_IMAGE, annotation, env as names, label};
use std::collections::BTreeMap;

/// Where caches are mounted when an intent does not say.
const DEFAULT_CACHE_MOUNT: &str = "/opt/model-cache";
/// What stator calls the volume of the weights when an intent does not say.
const DEFAULT_CACHE_VOLUME: &str = "model-cache";

/// Something else decides about replicas where there is a scaling adapter.
pub fn scaling(target: ComponentManifest<'_>) -> Option<Scaling> {
    target.component.get("scalingAdapter").map(|_| Scaling::External(ExternalScaling::External))
}

/// How pods are replaced, by the annotations that the operator reads.
pub fn rollout(target: ComponentManifest<'_>) -> Option<Rollout> {
    let annotations = target.component.get("podTemplate")?.get("metadata")?.get("annotations")?;
    let text = |name: &str| annotations.get(name).and_then(Value::as_str);
    if text(annotation::STRATEGY) == Some("Recreate") {
        return Some(Rollout { strategy: Some(RolloutStrategy::Recreate), max_surge: None, max_unavailable: None });
    }
    let amount = |name: &str| -> Option<CountOrPercent> {
        let text = text(name)?;
        match text.parse() {
            Ok(count) if count <= 10_000 => Some(CountOrPercent::Count(count)),
            Ok(_) => None,
            Err(_) => serde_json::from_value(text.into()).ok(),
        }
    };
    let (max_surge, max_unavailable) = (amount(annotation::MAX_SURGE), amount(annotation::MAX_UNAVAILABLE));
    (max_surge.is_some() || max_unavailable.is_some()).then_some(Rollout { strategy: None, max_surge, max_unavailable })
}

/// The image that most workers have, as a runtime version where it is NVIDIA's.
pub fn lift_images(spec: &mut ModelSpec, shape: &ComponentRoles<'_>, table: &EngineTable) {
    let of_workers: Vec<ImageReference> = shape.workers.iter().filter_map(|(_, target)| target.image()).collect();
    let of_others = || shape.extra.iter().filter_map(|target| target.image()).collect::<Vec<_>>();
    let image = most_common(&of_workers).or_else(|| most_common(&of_others()));
    if let Some((runtime, registry)) = image.as_ref().and_then(|image| runtime_of_image(image, table.image)) {
        (spec.runtime, spec.image_registry) = (Some(runtime), registry);
    } else {
        spec.image.clone_from(&image);
    }
    let own = |target: ComponentManifest<'_>, default: Option<String>| {
        target.image().filter(|image| Some(image.as_str()) != default.as_deref())
    };
    // The version that most components with the model's image give of it; others give their own.
    let with_image: Vec<ComponentManifest<'_>> = shape
        .workers
        .iter()
        .map(|(_, target)| *target)
        .chain(shape.frontend)
        .chain(shape.extra.iter().copied())
        .filter(|target| target.image().is_some() && target.image() == spec.image)
        .collect();
    let versions: Vec<Option<DynamoVersion>> = with_image.iter().map(|target| target.runtime_version()).collect();
    if versions.iter().all(Option::is_some) {
        spec.runtime_version = most_common(&versions).flatten();
    }
    let of_model = spec.runtime_version.clone();
    let version = |target: ComponentManifest<'_>, has_own_image: bool| {
        target.runtime_version().filter(|own| has_own_image || Some(own) != of_model.as_ref())
    };
    let engine = image.map(|image| image.to_string());
    let (of_planner, of_picker) = (spec.runtime_image(PLANNER_IMAGE), spec.runtime_image(EPP_IMAGE));
    if let Some(serving) = &mut spec.serving {
        if let (Some(target), Some(frontend)) = (shape.frontend, &mut serving.frontend) {
            frontend.image = own(target, engine.clone());
            frontend.runtime_version = version(target, frontend.image.is_some());
        }
        for (role, target) in &shape.workers {
            if let Some(worker) = worker_field(serving, *role) {
                worker.image = own(*target, engine.clone());
                worker.runtime_version = version(*target, worker.image.is_some());
            }
        }
    }
    for target in &shape.extra {
        let Some((_, component)) = spec.components.iter_mut().find(|(name, _)| name.as_str() == target.name()) else {
            continue;
        };
        component.image = own(
            *target,
            match component.component_type {
                Some(ComponentType::Planner) => of_planner.clone(),
                Some(ComponentType::Epp) => of_picker.clone(),
                Some(
                    ComponentType::Frontend | ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode,
                )
                | None => engine.clone(),
            },
        );
        component.runtime_version = version(*target, component.image.is_some());
    }
}

/// The secrets that most workers have; components that have others name their own.
pub fn lift_secrets(spec: &mut ModelSpec, shape: &ComponentRoles<'_>) {
    let of = |target: ComponentManifest<'_>| target.secrets().unwrap_or_default();
    let of_workers: Vec<Secrets> = shape.workers.iter().map(|(_, target)| of(*target)).collect();
    let of_others = || shape.extra.iter().map(|target| of(*target)).collect::<Vec<_>>();
    let common = most_common(&of_workers).or_else(|| most_common(&of_others())).unwrap_or_default();
    let only_pull = Secrets { image_pull: common.image_pull.clone(), ..Secrets::default() };
    let own = |target: ComponentManifest<'_>, default: &Secrets| Some(of(target)).filter(|own| own != default);
    if let Some(serving) = &mut spec.serving {
        if let (Some(target), Some(frontend)) = (shape.frontend, &mut serving.frontend) {
            frontend.secrets = own(target, &only_pull);
        }
        for (role, target) in &shape.workers {
            if let Some(worker) = worker_field(serving, *role) {
                worker.secrets = own(*target, &common);
            }
        }
    }
    for target in &shape.extra {
        if let Some((_, component)) = spec.components.iter_mut().find(|(name, _)| name.as_str() == target.name()) {
            let default = match component.component_type {
                Some(ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode | ComponentType::Epp) => {
                    &common
                }
                Some(ComponentType::Frontend | ComponentType::Planner) | None => &only_pull,
            };
            component.secrets = own(*target, default);
        }
    }
    spec.secrets = Some(common).filter(|common| *common != Secrets::default());
}

/// The claim that every worker mounts at one path is the cache.
pub fn lift_cache(spec: &mut ModelSpec, shape: &ComponentRoles<'_>) {
    let mounted: Vec<Option<(Cache, bool)>> = shape.workers.iter().map(|(_, target)| cache_claim(*target)).collect();
    let Some(Some((cache, home))) = mounted.first().cloned() else { return };
    if !mounted.iter().all(|other| other.as_ref() == Some(&(cache.clone(), home))) {
        return;
    }
    if home && let Some(serving) = &mut spec.serving {
        for (role, _) in &shape.workers {
            if let Some(worker) = worker_field(serving, *role) {
                worker.env.retain(|name, _| name.as_str() != names::HF_HOME);
            }
        }
    }
    spec.cache = Some(cache);
}

/// A claim that `main` mounts whole, and whether `HF_HOME` points there: that one before others.
fn cache_claim(target: ComponentManifest<'_>) -> Option<(Cache, bool)> {
    let items = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let volumes = items(target.pod_spec()?.get("volumes"));
    let mounts = items(target.main_field("volumeMounts"));
    let volume_of = |name: &str| volumes.iter().find(|volume| volume.get("name").is_some_and(|of| of == name));
    let compiled = target.compilation_cache().map(|cache| cache.claim);
    let candidates: Vec<(Cache, bool)> = mounts
        .iter()
        .filter_map(|mount| {
            let name = mount.get("name")?.as_str()?;
            let path = mount.get("mountPath")?.as_str().filter(|path| path.starts_with('/'))?;
            let read_only = mount.get("readOnly") == Some(&Value::Bool(true));
            let mut plain = json!({"name": name, "mountPath": path});
            if read_only {
                plain["readOnly"] = true.into();
            }
            if *mount != plain {
                return None;
            }
            // Dynamo's operator takes a mount without a volume as that of the claim of its name.
            let (claim, is_implicit) = match volume_of(name) {
                None => (name, true),
                Some(volume) => (volume.get("persistentVolumeClaim")?.get("claimName")?.as_str()?, false),
            };
            let plain = json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
            if volume_of(name).is_some_and(|volume| *volume != plain) {
                return None;
            }
            let claim: DnsName = claim.parse().ok().filter(|claim| Some(claim) != compiled.as_ref())?;
            let home = target.own_env_text(names::HF_HOME).is_some_and(|home| home == path);
            let cache = Cache {
                claim,
                size: None,
                storage_class: None,
                access_mode: None,
                mount_path: Some(path.to_owned()).filter(|path| path != DEFAULT_CACHE_MOUNT),
                volume: if name == DEFAULT_CACHE_VOLUME || is_implicit { None } else { Some(name.parse().ok()?) },
                implicit_volume: is_implicit.then_some(true),
                hf_home: (!home).then_some(false),
                read_only: read_only.then_some(true),
                model_path: None,
                prune: None,
            };
            Some((cache, home))
        })
        .collect();
    let declared = |(cache, _): &&(Cache, bool)| cache.implicit_volume.is_none();
    let best = candidates.iter().find(|(_, home)| *home).or_else(|| candidates.iter().find(declared));
    best.or(candidates.first()).cloned()
}

/// The nodes that every worker runs on: those it selects, and those whose taints it tolerates. Further components with
/// GPUs run there, too.
pub fn lift_node_selection(spec: &mut ModelSpec, shape: &ComponentRoles<'_>) {
    let with_gpus = shape.extra.iter().filter(|target| target.gpus(super::worker::GPU_RESOURCE).is_some());
    let targets: Vec<ComponentManifest<'_>> =
        shape.workers.iter().map(|(_, target)| *target).chain(with_gpus.copied()).collect();
    let Some(first) = targets.first() else { return };
    let of = |target: &ComponentManifest<'_>, field: &str| target.pod_spec().and_then(|pod| pod.get(field)).cloned();
    let alike = |field: &str| {
        let value = of(first, field);
        value.filter(|value| targets.iter().all(|target| of(target, field).as_ref() == Some(value)))
    };
    let selected = match alike("nodeSelector") {
        Some(Value::Object(selector)) => selected_hardware(&selector, &targets),
        Some(_) | None => None,
    };
    let tolerations: Option<Vec<Map<String, Value>>> = match alike("tolerations") {
        Some(Value::Array(items)) => items.iter().map(|item| item.as_object().cloned()).collect(),
        Some(_) | None => None,
    };
    let hardware = Hardware { tolerations: tolerations.unwrap_or_default(), ..selected.unwrap_or_default() };
    spec.hardware = Some(hardware).filter(|hardware| *hardware != Hardware::default());
}

/// Nodes by their GPU where one label says it, else by labels.
fn selected_hardware(selector: &Map<String, Value>, targets: &[ComponentManifest<'_>]) -> Option<Hardware> {
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let labels = selector.iter().map(text).collect::<Option<BTreeMap<_, _>>>()?;
    let has_gpus = targets.iter().all(|target| target.gpus(super::worker::GPU_RESOURCE).is_some());
    Some(match selected_sku(selector).filter(|_| has_gpus) {
        Some(gpu) => Hardware { gpu: Some(gpu), ..Hardware::default() },
        None => Hardware { node_selector: Some(labels), ..Hardware::default() },
    })
}

fn selected_sku(selector: &Map<String, Value>) -> Option<GpuSku> {
    let product = selector.get(label::GPU_PRODUCT).filter(|_| selector.len() == 1)?.as_str()?;
    crate::intent::model::GpuSku::ALL.iter().copied().find(|sku| gpu_products(*sku) == [product])
}

/// Variables that every worker and further component has are the model's.
pub fn lift_environment(spec: &mut ModelSpec) {
    let mut all: Vec<&mut BTreeMap<EnvName, EnvValue>> = Vec::new();
    if let Some(serving) = &mut spec.serving {
        let workers = [&mut serving.worker, &mut serving.prefill, &mut serving.decode];
        all.extend(workers.into_iter().flatten().map(|worker| &mut worker.env));
    }
    all.extend(spec.components.values_mut().map(|component| &mut component.env));
    // With one component there is nothing to have in common.
    let [first, rest @ ..] = all.as_mut_slice() else { return };
    if rest.is_empty() {
        return;
    }
    let common: BTreeMap<EnvName, EnvValue> = first
        .iter()
        .filter(|(name, value)| rest.iter().all(|other| other.get(*name) == Some(value)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for env in &mut all {
        env.retain(|name, _| !common.contains_key(name));
    }
    spec.env = common;
}
