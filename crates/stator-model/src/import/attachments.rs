//! What belongs to a graph: adapters, and the claim of its cache.

use super::documents::ManifestDocument;
use super::{classify, completion, rules};
use crate::intent::model::{AccessMode, Adapter, Engine, Model, MountedFile, Route, RouteGateway};
use crate::intent::scalar::LabelValue;
use serde_json::Value;
use stator_core::dynamo::graph_components::{components, is_worker_type, named_components};
use stator_core::dynamo::{equivalence, kinds};
use stator_core::finding::Finding;
use std::collections::BTreeMap;

/// The model that an adapter is for: Dynamo compares `baseModelName` with the graph's reference byte for byte.
pub fn base_model_of(adapter: &ManifestDocument) -> &str {
    adapter.value.pointer("/spec/baseModelName").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a graph serves a base model: by its components' references, or by what its workers load.
pub fn serves_base_model(graph: &Value, model: &Model, base: &str) -> bool {
    let reference = |component: &Value| component.pointer("/modelRef/name").is_some_and(|name| name == base);
    !base.is_empty() && (model.spec.model == base || components(&graph["spec"]).any(reference))
}

/// An adapter as an intent has it; else why not.
pub fn adapter_from_manifest(
    document: &ManifestDocument,
    graph: &str,
    engine: Engine,
) -> Result<Adapter, Box<Finding>> {
    let value = &document.value;
    let name = classify::name_of(value);
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let refuse = |path: &str, why: String| {
        let message = format!("document {}: DynamoModel `{name}` is not imported: `{path}` {why}", document.number);
        Box::new(Finding::error(
            rules::NOT_CARRIED,
            document.at_text(path),
            message,
            "keep it where it is applied today",
        ))
    };
    let model_type = text("/spec/modelType");
    if model_type != "lora" {
        let found = if model_type.is_empty() { "base" } else { model_type };
        return Err(refuse("spec.modelType", format!("is `{found}`, and a model has adapters of type `lora` only")));
    }
    if !matches!(engine, Engine::Vllm | Engine::Custom) {
        return Err(refuse("spec.baseModelName", "refers to a graph whose engine loads no adapters".to_owned()));
    }
    let source = text("/spec/source/uri");
    let source = source.parse().map_err(|_| {
        refuse("spec.source.uri", format!("is `{source}`; Dynamo takes `s3://…`, `hf://…` and `file:///…`"))
    })?;
    let served = text("/spec/modelName");
    let prefix = format!("{graph}-");
    let short = name.strip_prefix(prefix.as_str()).filter(|short| !short.is_empty());
    let adapter_name = short.unwrap_or(name).parse().map_err(|why| refuse("metadata.name", why))?;
    let object_name = if short.is_some() { None } else { name.parse().ok() };
    let served_name = Some(served.to_owned()).filter(|served| !served.is_empty() && *served != short.unwrap_or(name));
    Ok(Adapter { name: adapter_name, source, served_name, object_name, max_rank: None })
}

/// Gives the cache the claim's size and class, when the claim is the cache's and nothing else is said of it; false otherwise.
pub fn apply_cache_claim(model: &mut Model, document: &ManifestDocument) -> bool {
    let value = &document.value;
    let Some(cache) = model.spec.cache.as_mut().filter(|cache| cache.size.is_none()) else { return false };
    if cache.claim.as_str() != classify::name_of(value) {
        return false;
    }
    let size = value.pointer("/spec/resources/requests/storage");
    let size = match size {
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Number(number)) => number.to_string().parse().ok(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    if size.is_none() {
        return false;
    }
    cache.size = size;
    let class = value.pointer("/spec/storageClassName").and_then(Value::as_str);
    cache.storage_class = class.and_then(|class| class.parse().ok());
    let modes = value.pointer("/spec/accessModes").and_then(Value::as_array);
    let first = modes.and_then(|modes| modes.first()).cloned().unwrap_or_default();
    cache.access_mode =
        serde_json::from_value(first).ok().filter(|mode: &AccessMode| *mode != AccessMode::ReadWriteMany);
    let rendered = completion::render_object(model, kinds::CLAIM, Some(classify::name_of(value)));
    rendered.is_some_and(|object| completion::differs_by_labels_only(object.value(), value, model))
}

/// Gives the model an HTTPRoute that is its `route`, where it renders to the same. False, with nothing changed, elsewhere.
pub fn apply_route(model: &mut Model, document: &ManifestDocument) -> bool {
    let value = &document.value;
    let Some(mut route) = route_of(value).filter(|_| model.spec.route.is_none()) else { return false };
    route.name = route.name.filter(|name| name.as_str() != model.metadata.name.as_str());
    let mut changed = model.clone();
    changed.spec.route = Some(route);
    let rendered = completion::render_object(&changed, kinds::HTTP_ROUTE, Some(classify::name_of(value)));
    let is_same = rendered.is_some_and(|object| {
        let (mut rendered, mut written) = (object.value().clone(), value.clone());
        [&mut rendered, &mut written].into_iter().for_each(completion::fill_defaults);
        completion::differs_by_labels_only(&rendered, &written, model)
    });
    if is_same {
        *model = changed;
    }
    is_same
}

/// What of an HTTPRoute a `route` has words for.
fn route_of(value: &Value) -> Option<Route> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let parent = value.pointer("/spec/parentRefs/0")?;
    let rule = value.pointer("/spec/rules/0")?;
    let optional = |text: Option<String>| text.map(|text| text.parse()).transpose().ok();
    let hostnames = value.pointer("/spec/hostnames").and_then(Value::as_array).into_iter().flatten();
    let path = rule.pointer("/matches/0/path/value").and_then(Value::as_str).filter(|path| *path != "/");
    let timeout = rule.pointer("/timeouts/request").and_then(Value::as_str);
    Some(Route {
        name: classify::name_of(value).parse().ok(),
        gateway: RouteGateway {
            name: text(parent, "name")?.parse().ok()?,
            namespace: match text(parent, "namespace") {
                Some(namespace) => Some(namespace.parse().ok()?),
                None => None,
            },
            section_name: optional(text(parent, "sectionName"))?,
        },
        hostnames: hostnames.map(|host| host.as_str()?.parse().ok()).collect::<Option<_>>()?,
        path: match path {
            Some(path) => Some(path.parse().ok()?),
            None => None,
        },
        timeout: match timeout {
            Some(timeout) => Some(timeout.parse().ok()?),
            None => None,
        },
        canary: None,
    })
}

/// The model that a file of an engine names, where the graph's command lines name none.
pub fn model_of_files(config_map: &Value) -> Option<String> {
    const KEYS: [&str; 3] = ["model-path", "model_path", "model"];
    let texts = config_map.get("data")?.as_object()?.values().filter_map(Value::as_str);
    let named = |text: &str| {
        let root = crate::intent::yaml::parse_yaml(text.as_bytes(), 0, "").root?.to_json();
        let found = KEYS.iter().find_map(|key| root.get(*key)?.as_str());
        found.filter(|name| !name.is_empty() && !name.contains('$')).map(str::to_owned)
    };
    texts.into_iter().find_map(named)
}

/// Gives the model a file that stator rendered, by its ConfigMap and the mounts of the graph. False, with nothing changed,
/// where the model would not render that very ConfigMap: its name is a digest of all that it says.
pub fn apply_mounted_file(model: &mut Model, graph: &Value, document: &ManifestDocument) -> bool {
    let value = &document.value;
    let Some((name, file)) = mounted_file(graph, value) else { return false };
    let Ok(name) = name.parse() else { return false };
    model.spec.files.insert(name, file);
    let config_map = completion::render_object(model, kinds::CONFIG_MAP, Some(classify::name_of(value)));
    let is_same = config_map.is_some_and(|object| object.value().get("data") == value.get("data"));
    if !is_same {
        let name = value.pointer("/metadata/labels").and_then(|labels| labels.get(kinds::LABEL_FILE)?.as_str());
        model.spec.files.retain(|known, _| Some(known.as_str()) != name);
    }
    is_same
}

/// The labels that a person gave a ConfigMap, beside those of the model.
fn own_labels(graph: &Value, config_map: &Value) -> BTreeMap<String, LabelValue> {
    let labels =
        |value: &Value| value.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let models = labels(graph);
    let own = labels(config_map)
        .into_iter()
        .filter(|(key, value)| !equivalence::is_reserved_key(key) && models.get(key) != Some(value));
    own.filter_map(|(key, value)| Some((key, value.as_str()?.parse().ok()?))).collect()
}

/// A file's name, and how it is mounted.
fn mounted_file(graph: &Value, config_map: &Value) -> Option<(String, MountedFile)> {
    let name = config_map.pointer("/metadata/labels")?.get(kinds::LABEL_FILE)?.as_str()?.to_owned();
    let data = config_map.get("data")?.as_object().filter(|data| data.len() == 1)?;
    let text = data.values().next()?.as_str()?.to_owned();
    let volume = format!("{}{name}", crate::render::FILE_VOLUME_PREFIX);
    let (mut mount_path, mut mounting, mut workers) = (None, Vec::new(), Vec::new());
    for (component, own) in named_components(&graph["spec"]) {
        if own.get("type").and_then(Value::as_str).is_some_and(is_worker_type) {
            workers.push(component);
        }
        let containers = own.pointer("/podTemplate/spec/containers").and_then(Value::as_array);
        let mounts = containers.into_iter().flatten().filter_map(|one| one.get("volumeMounts")?.as_array()).flatten();
        for mount in mounts.filter(|mount| mount.get("name").is_some_and(|name| *name == volume)) {
            mount_path = mount.get("mountPath").and_then(Value::as_str);
            mounting.push(component);
        }
    }
    let components: Option<Vec<_>> = mounting.iter().map(|name| name.parse().ok()).collect();
    let components = components?;
    let file = MountedFile {
        from: None,
        text: Some(text),
        mount_path: Some(mount_path?.parse().ok()?),
        config_map: None,
        labels: own_labels(graph, config_map),
        components: (mounting != workers).then_some(components),
    };
    Some((name, file))
}
