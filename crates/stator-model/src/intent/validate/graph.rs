//! The graph as a whole: its components, their names, adapters, overrides.

use super::{ModelValidator, further_components, serving_workers};
use crate::intent::model::{ComponentType, Engine, OverrideKind, is_identity_path};
use crate::intent::rules;
use crate::intent::scalar::{ComponentName, RemovedPath};
use stator_core::dynamo::names::{MAX_COMPONENTS, MAX_LABEL, workload_length};
use stator_core::object::FieldPath;
use std::collections::BTreeMap;

pub(super) fn validate_graph(judge: &mut ModelValidator<'_>) {
    check_adapters(judge);
    check_overrides(judge);
    if judge.model.spec.serving.is_some() {
        check_component_names(judge);
        check_endpoint_pickers(judge);
        check_name_budget(judge);
    }
}

fn check_adapters(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    if spec.adapters.is_empty() {
        return;
    }
    if spec.sla.is_some() {
        judge.error(
            rules::MODEL_ADAPTER_ENGINE,
            "spec.adapters",
            "adapters with `sla`: the graph that they load into does not exist yet",
            "Use `serving`, with the shape that the profiler recommended.",
        );
    } else if spec.engine != Engine::Vllm {
        judge.error(
            rules::MODEL_ADAPTER_ENGINE,
            "spec.adapters",
            "adapters need engine `vllm`: Dynamo loads LoRA adapters into no other engine",
            "Use `engine: vllm`, or merge the adapter into the weights.",
        );
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut served: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, adapter) in spec.adapters.iter().enumerate() {
        let name = adapter.name.as_str();
        if let Some(first) = names.insert(name, index) {
            judge.error(
                rules::MODEL_ADAPTER_NAME,
                &format!("spec.adapters[{index}].name"),
                format!("adapter `{name}` is defined twice; the first is item {first}"),
                "Rename one of them, or remove it.",
            );
        } else if let Some(first) = served.insert(adapter.served_name.as_deref().unwrap_or(name), index) {
            judge.error(
                rules::MODEL_ADAPTER_NAME,
                &format!("spec.adapters[{index}]"),
                format!("clients cannot tell adapter `{name}` from item {first}: both have the same served name"),
                "Give one of them another `servedName`.",
            );
        }
    }
}

/// Every component of the graph: name, path, and whether it is a worker.
pub(super) fn all_components(judge: &ModelValidator<'_>) -> Vec<(String, String, bool)> {
    let spec = &judge.model.spec;
    let mut all = Vec::new();
    if has_frontend(judge) {
        let name = spec.serving.as_ref().and_then(|serving| serving.frontend.as_ref()?.name.as_ref());
        all.push((
            name.map_or("frontend", ComponentName::as_str).to_owned(),
            "spec.serving.frontend".to_owned(),
            false,
        ));
    }
    for (name, path, worker) in serving_workers(spec.serving.as_ref()) {
        let name = worker.name.as_ref().map_or(name, ComponentName::as_str);
        all.push((name.to_owned(), path, true));
    }
    for (name, path, component) in further_components(judge.model) {
        let worker = component.component_type.is_some_and(ComponentType::is_worker);
        all.push((name.to_owned(), path, worker));
    }
    all
}

/// Whether the graph gets the frontend of `serving`: it does when one is written, and else unless an endpoint picker or
/// a component of type `frontend` takes its place, or there are no workers to front.
pub(super) fn has_frontend(judge: &ModelValidator<'_>) -> bool {
    let Some(serving) = &judge.model.spec.serving else { return false };
    let replaced = further_components(judge.model)
        .any(|(_, _, c)| matches!(c.component_type, Some(ComponentType::Epp | ComponentType::Frontend)));
    let implied = !replaced && serving.headless != Some(true) && !serving_workers(Some(serving)).is_empty();
    serving.frontend.is_some() || implied
}

fn check_component_names(judge: &mut ModelValidator<'_>) {
    let all = all_components(judge);
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (name, path, _) in &all {
        if let Some(first) = seen.insert(name.to_lowercase(), name.clone()) {
            judge.error(
                rules::MODEL_COMPONENTS,
                path,
                format!("component `{name}` clashes with `{first}`; names must differ by more than case"),
                "Rename it.",
            );
        }
    }
    if all.len() > MAX_COMPONENTS {
        judge.error(
            rules::MODEL_COMPONENTS,
            "spec.components",
            format!("{} components; a graph has at most {MAX_COMPONENTS}", all.len()),
            "Remove some, or split the graph in two.",
        );
    }
}

/// Endpoint pickers: at most one, with one replica, on one node (Dynamo's admission).
fn check_endpoint_pickers(judge: &mut ModelValidator<'_>) {
    let model = judge.model;
    let pickers = further_components(model).filter(|(_, _, c)| c.component_type == Some(ComponentType::Epp));
    for (position, (name, path, picker)) in pickers.enumerate() {
        if position > 0 {
            judge.error(
                rules::MODEL_COMPONENTS,
                &format!("{path}.type"),
                format!("`{name}` is a second endpoint picker; a graph has at most one"),
                "Remove one of them.",
            );
        }
        if let Some(replicas) = picker.replicas.filter(|replicas| *replicas != 1) {
            judge.error(
                rules::MODEL_COMPONENTS,
                &format!("{path}.replicas"),
                format!("an endpoint picker has exactly 1 replica, not {replicas}"),
                "Remove `replicas`.",
            );
        }
        if let Some(nodes) = picker.nodes.filter(|nodes| *nodes > 1) {
            judge.error(
                rules::MODEL_COMPONENTS,
                &format!("{path}.nodes"),
                format!("an endpoint picker runs on one node, not {nodes}"),
                "Remove `nodes`.",
            );
        }
    }
}

/// The operator names what runs a component after graph and component, and workers after a hash as well; it finds the
/// pods by a label of that value. Names that are too long are admitted, and never run.
fn check_name_budget(judge: &mut ModelValidator<'_>) {
    let graph = judge.model.metadata.name.as_str();
    let longest = all_components(judge)
        .into_iter()
        .map(|(component, _, worker)| (workload_length(graph, &component, worker), component, worker))
        .max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
    let Some((length, component, worker)) = longest else { return };
    if let Some(excess) = length.checked_sub(MAX_LABEL).filter(|excess| *excess > 0) {
        let hash = if worker { "-<8 characters>" } else { "" };
        judge.error(
            rules::MODEL_NAME_BUDGET,
            "metadata.name",
            format!(
                "the name has {} characters; the operator derives `{graph}-{component}{hash}` from it, which has {length}, and uses it as a label value, which may have {MAX_LABEL}",
                graph.len()
            ),
            format!(
                "Shorten the model's name by {excess} character{}, or the component's.",
                if excess == 1 { "" } else { "s" }
            ),
        );
    }
}

fn check_overrides(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    let name = judge.model.metadata.name.as_str();
    for (index, change) in spec.overrides.iter().enumerate() {
        let path = format!("spec.overrides[{index}]");
        let (rendered, why, only_name) = match change.target.kind {
            OverrideKind::DynamoGraphDeployment => {
                (spec.serving.is_some() || spec.sla.is_some(), "it has no `serving`", Some(name))
            }
            OverrideKind::DynamoGraphDeploymentRequest => (spec.sla.is_some(), "it has no `sla`", None),
            OverrideKind::DynamoModel => (!spec.adapters.is_empty(), "it has no `adapters`", None),
            OverrideKind::PersistentVolumeClaim => {
                let cache = spec.cache.as_ref().filter(|cache| cache.size.is_some()).map(|cache| cache.claim.as_str());
                let claim = spec
                    .weights
                    .as_ref()
                    .and_then(|weights| weights.claim.as_ref())
                    .filter(|claim| claim.size.is_some());
                let claims: Vec<&str> = cache.into_iter().chain(claim.map(|claim| claim.name.as_str())).collect();
                let only = if let [only] = claims.as_slice() { Some(*only) } else { None };
                (!claims.is_empty(), "it has no `cache` or `weights` with a `size`", only)
            }
            OverrideKind::Job => {
                let weights = spec.weights.as_ref().filter(|weights| weights.source.is_some());
                (weights.is_some(), "it has no `weights` with a `source`", None)
            }
        };
        if !rendered {
            judge.error(
                rules::MODEL_OVERRIDE,
                &format!("{path}.target.kind"),
                format!("nothing of kind `{:?}` is rendered for this model: {why}", change.target.kind),
                "Correct the kind, or remove the override.",
            );
        } else if let (Some(given), Some(only)) = (&change.target.name, only_name)
            && given != only
        {
            judge.error(
                rules::MODEL_OVERRIDE,
                &format!("{path}.target.name"),
                format!("no object of this kind is named `{given}`; known: `{only}`"),
                format!("Write `name: {only}`, or omit the name."),
            );
        }
        check_removed_paths(judge, &path, &change.remove);
        let metadata = change.merge.get("metadata").and_then(serde_json::Value::as_object);
        let identity = ["apiVersion", "kind", "status"]
            .into_iter()
            .filter(|field| change.merge.contains_key(*field))
            .map(str::to_owned)
            .chain(
                ["name", "namespace"]
                    .into_iter()
                    .filter(|field| metadata.is_some_and(|metadata| metadata.contains_key(*field)))
                    .map(|field| format!("metadata.{field}")),
            );
        for field in identity {
            judge.error(
                rules::MODEL_OVERRIDE,
                &format!("{path}.merge.{field}"),
                format!("an override must not change `{field}`: stator sets it"),
                "Remove it.",
            );
        }
    }
}

/// What an override removes is a path, and not what says which object this is.
fn check_removed_paths(judge: &mut ModelValidator<'_>, origin: &str, paths: &[RemovedPath]) {
    for (index, text) in paths.iter().enumerate() {
        let place = format!("{origin}.remove[{index}]");
        match text.as_str().parse::<FieldPath>() {
            Err(reason) => judge.error(
                rules::MODEL_OVERRIDE,
                &place,
                format!("`{text}` is {reason}"),
                "Write it as `stator plan` prints paths: `spec.components[name=worker].podTemplate.spec.nodeSelector`.",
            ),
            Ok(path) if is_identity_path(&path) => judge.error(
                rules::MODEL_OVERRIDE,
                &place,
                format!("an override must not remove `{text}`: stator finds its objects by it"),
                "Remove it from `remove`.",
            ),
            Ok(_) => {}
        }
    }
}
