//! From a model of well-formed fields to a valid one: what does not fit the rest is taken away, never added.

use crate::intent::model::*;
use crate::intent::scalar::{DynamoVersion, ImageReference};
use serde_json::{Map, Value, json};
use stator_core::dynamo::admission::version_in_tag;
use std::collections::BTreeSet;

/// Gives overrides to the model that there is something to merge over, and names their targets.
pub(super) fn aim(model: &mut Model, overrides: Vec<(Override, bool)>) {
    let spec = &model.spec;
    let claim = spec.cache.as_ref().filter(|cache| cache.size.is_some()).map(|cache| cache.claim.to_string());
    let aimed = overrides.into_iter().filter_map(|(mut change, named)| {
        let (rendered, name) = match change.target.kind {
            OverrideKind::DynamoGraphDeployment => {
                (spec.serving.is_some() || spec.sla.is_some(), Some(model.metadata.name.to_string()))
            }
            OverrideKind::DynamoGraphDeploymentRequest => (spec.sla.is_some(), None),
            OverrideKind::DynamoModel => (!spec.adapters.is_empty(), None),
            OverrideKind::PersistentVolumeClaim => (claim.is_some(), claim.clone()),
            // Of a Job, `remove` names a field that is not there.
            OverrideKind::Job => (spec.weights.is_some() && change.remove.is_empty(), None),
        };
        change.target.name = name.filter(|_| named);
        rendered.then_some(change)
    });
    model.spec.overrides = aimed.collect();
}

/// Takes away what the intent's rules refuse.
pub(super) fn settle(mut model: Model) -> Model {
    let spec = &mut model.spec;
    if spec.sla.is_some() {
        by_target(spec);
    } else {
        by_components(spec);
    }
    components(spec);
    adapters(spec);
    weights(spec);
    files(spec);
    route(spec);
    versions(spec);
    if let Some(rollout) = &mut spec.rollout {
        settle_surge(&mut rollout.max_surge);
    }
    // Without adapters there is nothing to override.
    let adapters = !spec.adapters.is_empty();
    spec.overrides.retain(|change| adapters || change.target.kind != OverrideKind::DynamoModel);
    let downloads = spec.weights.as_ref().is_some_and(|weights| weights.source.is_some());
    spec.overrides.retain(|change| downloads || change.target.kind != OverrideKind::Job);
    // Grove's budget: the name, a component's name twice, and `-ldr` in 45 characters.
    let longest = spec.components.keys().map(|name| name.as_str().len()).max().unwrap_or(0).max("frontend".len());
    let available = 45_usize.saturating_sub(2 * longest + "-ldr".len());
    let name: String = model.metadata.name.as_str().chars().take(available).collect();
    let name = name.trim_end_matches('-').to_owned();
    for change in &mut model.spec.overrides {
        if change.target.kind == OverrideKind::DynamoGraphDeployment && change.target.name.is_some() {
            change.target.name = Some(name.clone());
        }
    }
    model.metadata.name = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    model
}

fn by_target(spec: &mut ModelSpec) {
    let Some(sla) = &mut spec.sla else { return };
    if spec.engine == Engine::Auto {
        sla.search = sla.search.filter(|search| *search != Search::Thorough);
        sla.worker = None;
        spec.served_name = None;
    }
    if let Some(workload) = &mut sla.workload
        && workload.concurrency.is_some()
    {
        workload.request_rate = None;
    }
    if spec.engine == Engine::Trtllm
        && let Some(worker) = &mut sla.worker
    {
        // An engine option, which would replace all that the profiler chose.
        worker.dtype = None;
    }
}

fn by_components(spec: &mut ModelSpec) {
    let hardware = spec.hardware.clone();
    let Some(serving) = &mut spec.serving else { return };
    // One block size for both halves.
    let block_size = serving.prefill.as_ref().and_then(|prefill| prefill.block_size);
    if let Some(decode) = &mut serving.decode {
        decode.block_size = decode.block_size.and(block_size);
    }
    for worker in [&mut serving.worker, &mut serving.prefill, &mut serving.decode].into_iter().flatten() {
        worker.args.retain(|argument| !argument.starts_with("--"));
        if let Some(rollout) = &mut worker.rollout {
            settle_surge(&mut rollout.max_surge);
        }
        if worker.shell.is_some() && worker.args.is_empty() {
            worker.args.push("true".to_owned());
        }
        if spec.engine == Engine::Custom && worker.own_command().is_none() {
            worker.command = Some(vec!["serve".to_owned()]);
        }
        let size = worker.parallel_size(spec.engine);
        let sizes = [worker.tensor_parallel, worker.pipeline_parallel, worker.data_parallel];
        if sizes.iter().any(Option::is_some) {
            worker.gpus = worker.gpus.filter(|gpus| *gpus == size);
            worker.expert_parallel = worker.expert_parallel.filter(|experts| size.is_multiple_of(*experts));
        }
        if !fits(ReplicaSize::for_worker(worker, spec.engine, hardware.as_ref()), hardware.as_ref()) {
            worker.nodes = None;
        }
        if !fits(ReplicaSize::for_worker(worker, spec.engine, hardware.as_ref()), hardware.as_ref()) {
            (worker.tensor_parallel, worker.pipeline_parallel, worker.data_parallel) = (None, None, None);
            (worker.gpus, worker.expert_parallel) = (None, None);
        }
    }
    // Names that `serving` gives, and images that do not follow from anything.
    spec.components.retain(|name, _| !["frontend", "worker", "prefill", "decode"].contains(&name.as_str()));
    // A runtime has no image for a program of one's own.
    if spec.engine == Engine::Custom {
        spec.runtime = None;
    }
    if spec.runtime.is_none() {
        let image = spec.image.get_or_insert_with(|| "engine:1.2.0".parse().unwrap_or_else(|error| panic!("{error}")));
        for component in spec.components.values_mut() {
            component.image.get_or_insert_with(|| image.clone());
        }
    }
}

fn components(spec: &mut ModelSpec) {
    let hardware = spec.hardware.clone();
    let mut picker = false;
    for component in spec.components.values_mut() {
        if component.component_type == Some(ComponentType::Epp) {
            if std::mem::replace(&mut picker, true) {
                component.component_type = None;
            } else {
                (component.replicas, component.nodes, component.gpus) = (None, None, None);
                // Admission wants exactly one replica and one source of settings.
                component.scaling = None;
                component.config = Some(picker_config());
            }
        }
        component.args.retain(|argument| !argument.starts_with("--"));
        if let Some(rollout) = &mut component.rollout {
            settle_surge(&mut rollout.max_surge);
        }
        if !fits(ReplicaSize::for_component(component, hardware.as_ref()), hardware.as_ref()) {
            component.nodes = None;
        }
        if !fits(ReplicaSize::for_component(component, hardware.as_ref()), hardware.as_ref()) {
            component.gpus = None;
        }
    }
}

/// An endpoint picker's settings have a schema of their own in the CRD.
fn picker_config() -> Map<String, Value> {
    let mut config = Map::new();
    config
        .insert("plugins".into(), json!([{"type": "max-score-picker"}, {"type": "kv-aware", "parameters": {"a": 1}}]));
    let plugins = json!([{"pluginRef": "max-score-picker"}, {"pluginRef": "kv-aware", "weight": 2}]);
    config.insert("schedulingProfiles".into(), json!([{"name": "default", "plugins": plugins}]));
    config
}

fn fits(replica: ReplicaSize, hardware: Option<&Hardware>) -> bool {
    let available = hardware.and_then(|hardware| hardware.gpus_per_node);
    replica.is_even() && available.is_none_or(|available| replica.gpus_per_pod() <= available)
}

fn settle_surge(max_surge: &mut Option<CountOrPercent>) {
    let none = |value: &CountOrPercent| matches!(value, CountOrPercent::Count(0) | CountOrPercent::Percent(0));
    if max_surge.as_ref().is_some_and(none) {
        *max_surge = None;
    }
}

/// Files are mounted by what is there, each at a path of its own.
fn files(spec: &mut ModelSpec) {
    let Some(serving) = &spec.serving else { return };
    let has_workers = serving.workers().next().is_some();
    let fronts = |kind| matches!(kind, Some(ComponentType::Epp | ComponentType::Frontend));
    let replaced = spec.components.values().any(|one| fronts(one.component_type));
    let renamed = serving.frontend.as_ref().is_some_and(|frontend| frontend.name.is_some());
    let has_frontend = serving.frontend.is_some() || (!replaced && serving.headless != Some(true) && has_workers);
    let works = |kind: Option<ComponentType>| kind.is_some_and(ComponentType::is_worker);
    let has_workers = has_workers || spec.components.values().any(|one| works(one.component_type));
    let mut places = BTreeSet::new();
    spec.files.retain(|name, file| {
        let is_there = if file.components.is_some() { has_frontend && !renamed } else { has_workers };
        let key = file.key(name).to_owned();
        is_there && places.insert((file.mount_path.clone(), file.config_map.clone(), key))
    });
    // Two labels of one key would be those of one ConfigMap.
    let mut labelled = BTreeSet::new();
    for file in spec.files.values_mut() {
        if file.config_map.is_some() && !labelled.insert(file.config_map.clone()) {
            file.labels.clear();
        }
    }
    let named: BTreeSet<String> =
        spec.files.values().filter_map(|file| Some(file.config_map.as_ref()?.to_string())).collect();
    for name in named {
        let volume = json!({"name": format!("volume-{name}"), "configMap": {"name": name}});
        let pod = spec.pod.get_or_insert_default();
        pod.volumes.extend(volume.as_object().cloned());
    }
}

/// A route leads to a frontend, or to a picker.
fn route(spec: &mut ModelSpec) {
    let Some(serving) = &spec.serving else { return };
    let fronts = |kind| matches!(kind, Some(ComponentType::Epp | ComponentType::Frontend));
    let replaced = spec.components.values().any(|one| fronts(one.component_type));
    let implied = serving.headless != Some(true) && serving.workers().next().is_some();
    if !(replaced || serving.frontend.is_some() || implied) {
        spec.route = None;
    }
}

/// An image whose tag is no version has one beside it, and one is beside an image.
fn versions(spec: &mut ModelSpec) {
    let settle = |image: Option<&ImageReference>, version: &mut Option<DynamoVersion>| match image {
        Some(image) if version_in_tag(image.as_str()).is_none() => {
            version.get_or_insert_with(|| "1.4.0".parse().unwrap_or_else(|error| panic!("{error}")));
        }
        Some(_) => {}
        None => *version = None,
    };
    settle(spec.image.as_ref(), &mut spec.runtime_version);
    if let Some(serving) = &mut spec.serving {
        if let Some(frontend) = &mut serving.frontend {
            settle(frontend.image.as_ref(), &mut frontend.runtime_version);
        }
        for worker in [&mut serving.worker, &mut serving.prefill, &mut serving.decode].into_iter().flatten() {
            settle(worker.image.as_ref(), &mut worker.runtime_version);
        }
    }
    for component in spec.components.values_mut() {
        settle(component.image.as_ref(), &mut component.runtime_version);
    }
}

fn adapters(spec: &mut ModelSpec) {
    if spec.engine != Engine::Vllm || spec.serving.is_none() {
        spec.adapters.clear();
    }
    let mut names = BTreeSet::new();
    let mut served = BTreeSet::new();
    spec.adapters.retain(|adapter| {
        let shown = adapter.served_name.clone().unwrap_or_else(|| adapter.name.to_string());
        names.insert(adapter.name.clone()) && served.insert(shown)
    });
}

/// Weights go to a volume of their own, are served by a graph, and come from what they are called after.
fn weights(spec: &mut ModelSpec) {
    if spec.sla.is_some() {
        spec.weights = None;
    }
    if let Some(cache) = spec.cache.as_mut().filter(|cache| cache.implicit_volume == Some(true)) {
        cache.volume = None;
    }
    let Some(weights) = &mut spec.weights else { return };
    match weights.parse_source() {
        Ok(Some(WeightsSource::HuggingFace { repository, revision: _ })) => spec.model = repository,
        Ok(Some(WeightsSource::Other { .. })) => {
            spec.model = spec.model.trim_start_matches('/').to_owned() + "m";
            weights.image.get_or_insert_with(|| "fetch:1.2.0".parse().unwrap_or_else(|error| panic!("{error}")));
            weights.token_secret = None;
        }
        Ok(None) | Err(_) => {
            *weights = Weights {
                claim: weights.claim.clone(),
                host_path: weights.host_path.clone(),
                volume_image: weights.volume_image.clone(),
                read_only: weights.read_only,
                resources: None,
                security_context: None,
                image_pull: Vec::new(),
                tolerations: Vec::new(),
                retries: None,
                mount_path: weights.mount_path.clone(),
                volume: weights.volume.clone(),
                source: None,
                include: Vec::new(),
                exclude: Vec::new(),
                image: None,
                token_secret: None,
                env: std::collections::BTreeMap::new(),
                deadline: None,
                attempt: None,
                implicit_volume: weights.implicit_volume.filter(|_| weights.claim.is_some()),
                load: None,
                hf_home: weights.hf_home,
            };
        }
    }
    if matches!(weights.source, Some(WeightsSources::Several(_))) {
        (weights.include, weights.exclude) = (Vec::new(), Vec::new());
    }
    if weights.implicit_volume == Some(true) {
        weights.volume = None;
    }
    // Both are mounted at the same place unless they say otherwise.
    if weights.mount_path.is_none() && spec.cache.is_some() {
        weights.mount_path = Some("/Weights".parse().unwrap_or_else(|error| panic!("{error}")));
    }
}
