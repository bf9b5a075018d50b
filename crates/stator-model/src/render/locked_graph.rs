//! The graph of a locked model: what the profiler chose, with what the intent says about any graph put over it.
//!
//! Names, labels and annotations, environment variables, secrets, files, `pod` and `restart` are the intent's, whatever the lock says:
//! they can change without a profiler. `overrides` of the graph follow, as for every model.

use super::pod::{self, EnvVars, PodTemplate};
use super::{ApplyStage, ObjectDraft, RenderContext, mounted_files, object_metadata, strategic_merge};
use crate::intent::lock::ActiveLock;
use crate::intent::model::{Hardware, Secrets};
use serde_json::{Map, Value, json};
use stator_core::dynamo::registry::{IMAGE_REGISTRY, MAIN_CONTAINER};
use stator_core::dynamo::release::Behaviour;
use stator_core::dynamo::{admission, gpus, kinds};

pub(super) fn draft_graph(context: &mut RenderContext<'_>, lock: &ActiveLock) -> ObjectDraft {
    let intent = context.intent;
    let model = &intent.model.spec;
    super::request::warn_graph_fields_with_sla(context, model, true);
    let mut spec = lock.document.spec.graph.clone();
    let mut env = EnvVars::default();
    env.add_layer(&model.env);
    set_env(&mut spec, env.into_values());
    let reads_versions = context.target.platform.release().has(Behaviour::RuntimeVersionRead);
    let components = spec.get_mut("components").and_then(Value::as_array_mut);
    for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(secrets) = &model.secrets {
            add_secrets(component, secrets);
        }
        set_node_placement(component, model.hardware.as_ref());
        if let Some(registry) = &model.image_registry {
            take_images_from(component, registry.as_str());
        }
        if let Some(version) = model.runtime_version.as_ref().filter(|_| reads_versions) {
            add_runtime_version(component, version.as_str());
        }
        mounted_files::mount_into_component(component, &context.files);
        if let Some(pod) = &model.pod {
            let template = component.entry("podTemplate").or_insert_with(|| json!({}));
            if let Some(template) = template.as_object_mut() {
                strategic_merge::merge_maps(template, Some(&pod::partial_template(pod)));
            }
        }
    }
    if let Some(id) = &model.restart {
        spec.insert("restart".to_owned(), json!({"id": id}));
    }
    let name = intent.model.metadata.name.as_str();
    ObjectDraft {
        kind: kinds::GRAPH,
        value: object_metadata::new_object(context, kinds::GRAPH, name, Value::Object(spec), true),
        path: "spec.sla".to_owned(),
        stage: ApplyStage::Graph,
        prune: true,
    }
}

/// Says which version is in an image whose tag does not: as a request's is given to each component that has none.
fn add_runtime_version(component: &mut Map<String, Value>, version: &str) {
    let containers = component.get("podTemplate").and_then(|template| template.pointer("/spec/containers"));
    let mut containers = containers.and_then(Value::as_array).into_iter().flatten();
    let main = containers.find(|container| container.get("name").is_some_and(|name| name == MAIN_CONTAINER));
    let image = main.and_then(|main| main.get("image")?.as_str());
    if image.is_some_and(|image| admission::version_in_tag(image).is_none()) {
        component.entry("runtimeVersionOverride").or_insert_with(|| version.into());
    }
}

/// Takes NVIDIA's images from another registry, under the same names.
fn take_images_from(component: &mut Map<String, Value>, registry: &str) {
    let pod = component.get_mut("podTemplate").and_then(|template| template.get_mut("spec"));
    let Some(pod) = pod.and_then(Value::as_object_mut) else { return };
    for (_, containers) in pod.iter_mut().filter(|(field, _)| matches!(field.as_str(), "containers" | "initContainers"))
    {
        let images = containers.as_array_mut().into_iter().flatten().filter_map(|one| one.get_mut("image"));
        for image in images {
            let name = image.as_str().and_then(|text| text.strip_prefix(IMAGE_REGISTRY)?.strip_prefix('/'));
            if let Some(name) = name {
                *image = format!("{registry}/{name}").into();
            }
        }
    }
}

/// Sets variables of the graph's own level, which is where a request puts them too. The router is part of the target, and
/// stays as locked.
fn set_env(spec: &mut Map<String, Value>, wanted: Vec<Value>) {
    if wanted.is_empty() {
        return;
    }
    let list = spec.entry("env").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for item in wanted {
        match list.iter_mut().find(|known| known.get("name") == item.get("name")) {
            Some(known) => *known = item,
            None => list.push(item),
        }
    }
}

/// Adds the intent's secrets to a component's pod, and its token to a worker's container.
fn add_secrets(component: &mut Map<String, Value>, secrets: &Secrets) {
    let works =
        component.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "frontend" && kind != "planner");
    let Some(pod) = component.get_mut("podTemplate").and_then(|template| template.get_mut("spec")) else { return };
    let Some(pod) = pod.as_object_mut() else { return };
    let pulls = secrets.image_pull.iter().map(|name| json!({"name": name.as_str()})).collect();
    append_missing(pod, "imagePullSecrets", pulls);
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
        if works && container.get("name").is_some_and(|name| name == MAIN_CONTAINER) {
            append_missing(container, "envFrom", pod::env_from(Some(secrets)));
        }
    }
}

/// Picks nodes for pods with GPUs, where the profiler has not.
fn set_node_placement(component: &mut Map<String, Value>, hardware: Option<&Hardware>) {
    let Some(template) = component.get_mut("podTemplate") else { return };
    if gpus::pod_gpus(template) == 0 {
        return;
    }
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let mut placed = PodTemplate::default();
    placed.set_node_placement(hardware, true);
    if !pod.contains_key("tolerations") && !placed.spec.tolerations.is_empty() {
        pod.insert("tolerations".to_owned(), json!(placed.spec.tolerations));
    }
    if pod.contains_key("nodeSelector") || pod.contains_key("affinity") {
        return;
    }
    if !placed.spec.node_selector.is_empty() {
        pod.insert("nodeSelector".to_owned(), json!(placed.spec.node_selector));
    }
    if let Some(affinity) = placed.spec.affinity {
        pod.insert("affinity".to_owned(), affinity);
    }
}

fn append_missing(map: &mut Map<String, Value>, field: &str, wanted: Vec<Value>) {
    if wanted.is_empty() {
        return;
    }
    let Some(list) = map.entry(field).or_insert_with(|| json!([])).as_array_mut() else { return };
    for item in wanted {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
