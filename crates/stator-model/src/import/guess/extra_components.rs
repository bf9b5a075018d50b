//! Further components: planners, endpoint pickers, routers, and workers that have no place under `serving`.

use super::component::ComponentManifest;
use super::{roles, shared};
use crate::import::guess::worker::{GPU_RESOURCE, MAX_GPUS_PER_REPLICA};
use crate::intent::model::{Component, ComponentType, EnvValue, ModelSpec};
use serde_json::Value;
use stator_core::dynamo::registry::env as names;

/// A further component with everything that has a field.
pub fn component(target: ComponentManifest<'_>) -> Component {
    let line = target.command_line().unwrap_or_default();
    let component_type = roles::component_type(target);
    let nodes = target.nodes();
    let gpus = target.gpus(GPU_RESOURCE).map(|gpus| gpus.saturating_mul(nodes.unwrap_or(1)));
    let fits = gpus.is_none_or(|gpus| gpus <= MAX_GPUS_PER_REPLICA);
    let (gpus, nodes) = if fits { (gpus, nodes) } else { (None, None) };
    Component {
        component_type,
        replicas: target.replicas(),
        min_available: target.min_available(),
        gpus,
        nodes,
        config: picker_config(target).filter(|_| component_type == Some(ComponentType::Epp)),
        shared_memory: target.shared_memory(),
        resources: target.resources(gpus.map(|_| GPU_RESOURCE)),
        command: line.command.unwrap_or_default(),
        args: line.args,
        compilation_cache: target.compilation_cache(),
        working_dir: target.working_dir(),
        env: target.env(),
        probes: target.probes(),
        scaling: shared::scaling(target),
        rollout: shared::rollout(target),
        ..Component::default()
    }
}

/// An endpoint picker's plugins, written out in the graph.
fn picker_config(target: ComponentManifest<'_>) -> Option<serde_json::Map<String, Value>> {
    let map = target.component.get("eppConfig")?.as_object().filter(|map| map.len() == 1)?;
    map.get("config")?.as_object().cloned()
}

/// Takes out of an endpoint picker's environment what stator sets by itself.
pub fn strip_picker_env(spec: &mut ModelSpec, targets: &[ComponentManifest<'_>]) {
    if !targets.iter().any(|target| roles::component_type(*target) == Some(ComponentType::Epp)) {
        return;
    }
    let serving = spec.serving.clone().unwrap_or_default();
    let size = serving.block_size();
    let known_texts = [
        (names::MODEL_NAME, Some(spec.served_name.clone().unwrap_or_else(|| spec.model.clone()))),
        (names::ENFORCE_DISAGG, Some(serving.prefill.is_some().to_string())),
        (names::KV_BLOCK_SIZE, size.map(|size| size.to_string())),
    ];
    for component in spec.components.values_mut().filter(|one| one.component_type == Some(ComponentType::Epp)) {
        component.env.retain(|name, value| {
            let same =
                |text: &Option<String>| matches!((text, &*value), (Some(text), EnvValue::Literal(own)) if text == own);
            !known_texts.iter().any(|(known, text)| *known == name.as_str() && same(text))
        });
    }
}
