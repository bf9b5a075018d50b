//! Files that pods read (`spec.files`): each an immutable ConfigMap, and a mount of its one key at the file's path; or the
//! keys of a ConfigMap that the graph itself names.
//!
//! The ConfigMap's name ends in a digest of its content. So new content is another ConfigMap, the pod template of every
//! component that mounts it names another volume source, and pods roll as for any change of their template; a file that
//! changed beneath running pods would reach some of them, at some time.

use super::pod::PodTemplate;
use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::model::MountedFile;
use crate::intent::scalar::FileName;
use crate::intent::{Intent, rules};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::graph_components::is_worker_type;
use stator_core::dynamo::kinds;
use stator_core::dynamo::registry::MAIN_CONTAINER;
use std::collections::{BTreeMap, BTreeSet};

/// How many hex digits of the content's digest are part of a name.
const DIGEST_LENGTH: usize = 10;
/// What the name of a file's volume begins with.
pub const FILE_VOLUME_PREFIX: &str = "file-";

/// A file with its content, as it is rendered.
#[derive(Debug)]
pub(super) struct RenderedFile<'a> {
    name: &'a FileName,
    file: &'a MountedFile,
    content: &'a [u8],
    /// The ConfigMap's name.
    config_map: String,
}

impl RenderedFile<'_> {
    /// Whether a component mounts it, by the names that it has.
    pub(super) fn is_mounted_by(&self, names: &[&str], is_worker: bool) -> bool {
        self.file.is_mounted_by(names, is_worker)
    }

    /// What it holds.
    pub(super) fn content(&self) -> &[u8] {
        self.content
    }

    /// Where its content comes from, for a message: the path from the model's folder, or the file's name for text.
    pub(super) fn origin(&self) -> String {
        self.file.from.clone().unwrap_or_else(|| format!("file `{}`", self.name))
    }

    /// The field of the intent that its content comes from.
    pub(super) fn content_path(&self) -> String {
        let field = if self.file.from.is_some() { "from" } else { "text" };
        format!("spec.files.{}.{field}", self.name)
    }

    fn key(&self) -> &str {
        self.file.key(self.name)
    }

    /// What is said of its ConfigMap from one content to the next.
    fn config_map_label(&self) -> &str {
        self.file.config_map.as_ref().map_or(self.name.as_str(), |name| name.as_str())
    }

    fn volume(&self) -> Value {
        json!({"name": format!("{FILE_VOLUME_PREFIX}{}", self.name), "configMap": {"name": self.config_map}})
    }

    fn volume_mount(&self) -> Value {
        json!({
            "name": format!("{FILE_VOLUME_PREFIX}{}", self.name),
            "mountPath": self.file.mount_path.as_ref().map(|path| path.as_str()),
            "subPath": self.key(),
            "readOnly": true,
        })
    }
}

/// The files of a model, in the order of their names. One without content has been reported.
pub(super) fn rendered_files(intent: &Intent) -> Vec<RenderedFile<'_>> {
    let model = intent.model.metadata.name.as_str();
    let files = intent.model.spec.files.iter().filter_map(|(name, file)| {
        let content = match &file.text {
            Some(text) => text.as_bytes(),
            None => intent.files.get(name.as_str())?,
        };
        let mut one = RenderedFile { name, file, content, config_map: String::new() };
        one.config_map = format!("{model}-{name}-{}", content_digest(model, name.as_str(), one.key(), content));
        Some(one)
    });
    let mut files: Vec<RenderedFile<'_>> = files.collect();
    let mut keys: Vec<(&str, &RenderedFile<'_>)> =
        files.iter().filter_map(|file| Some((file.file.config_map.as_ref()?.as_str(), file))).collect();
    keys.sort_by_key(|(config_map, file)| (*config_map, file.key()));
    let mut contents: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for (config_map, file) in keys {
        let all = contents.entry(config_map).or_default();
        all.extend(file.key().as_bytes());
        all.push(0);
        all.extend(Sha256::digest(file.content));
    }
    for file in &mut files {
        if let Some(written) = file.file.config_map.as_ref().map(|name| name.as_str()) {
            let all = contents.get(written).map(Vec::as_slice).unwrap_or_default();
            file.config_map = format!("{written}-{}", content_digest(model, written, "", all));
        }
    }
    files
}

/// Whether a ConfigMap is that of files which name another, by `configMap`.
pub fn is_config_map_of(name: &str, written: &str) -> bool {
    name.strip_prefix(written)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|digest| digest.len() == DIGEST_LENGTH && digest.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Of all that the ConfigMap holds, and of whose it is: the dash between a model's name and a file's says neither.
fn content_digest(model: &str, name: &str, key: &str, content: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in [model.as_bytes(), name.as_bytes(), key.as_bytes()] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(content);
    let mut hex = hex::encode(hash.finalize());
    hex.truncate(DIGEST_LENGTH);
    hex
}

/// The ConfigMaps of a model's files.
pub(super) fn draft_config_maps(context: &RenderContext<'_>) -> Vec<ObjectDraft> {
    let mut by_name: BTreeMap<&str, Vec<&RenderedFile<'_>>> = BTreeMap::new();
    for file in &context.files {
        by_name.entry(&file.config_map).or_default().push(file);
    }
    by_name.into_values().filter_map(|keys| draft_config_map(context, &keys)).collect()
}

/// A ConfigMap of the files that are its keys.
fn draft_config_map(context: &RenderContext<'_>, keys: &[&RenderedFile<'_>]) -> Option<ObjectDraft> {
    let file = keys.first()?;
    let mut value = object_metadata::new_object(context, kinds::CONFIG_MAP, &file.config_map, Value::Null, false);
    value.remove("spec");
    if let Some(metadata) = value.get_mut("metadata") {
        for (key, value) in keys.iter().flat_map(|one| &one.file.labels) {
            metadata["labels"][key] = value.as_str().into();
        }
        metadata["labels"][kinds::LABEL_FILE] = file.config_map_label().into();
        if let (Some(from), [_]) = (&file.file.from, keys) {
            metadata["annotations"] = json!({kinds::ANNOTATION_FILE_SOURCE: from});
        }
    }
    for one in keys {
        // Text stays text, for whoever reads the ConfigMap.
        let (field, content) = match std::str::from_utf8(one.content) {
            Ok(text) => ("data", text.to_owned()),
            Err(_) => ("binaryData", STANDARD.encode(one.content)),
        };
        let map = value.entry(field).or_insert_with(|| json!({}));
        map[one.key()] = content.into();
    }
    value.insert("immutable".to_owned(), true.into());
    Some(ObjectDraft {
        kind: kinds::CONFIG_MAP,
        value,
        path: format!("spec.files.{}", file.name),
        stage: ApplyStage::Cache,
        prune: true,
    })
}

/// Gives what names a ConfigMap of `files` in a graph the name that it has in the cluster. What nothing names is reported.
pub(super) fn follow_config_maps(context: &mut RenderContext<'_>, drafts: &mut [ObjectDraft]) {
    let names: BTreeMap<String, String> = context
        .files
        .iter()
        .filter_map(|file| Some((file.file.config_map.as_ref()?.to_string(), file.config_map.clone())))
        .collect();
    let mut found = BTreeSet::new();
    // A graph that a profiler has yet to write names nothing.
    if names.is_empty() || !drafts.iter().any(|draft| draft.kind == kinds::GRAPH) {
        return;
    }
    for graph in drafts.iter_mut().filter(|draft| draft.kind == kinds::GRAPH) {
        if let Some(spec) = graph.value.get_mut("spec") {
            rename_config_maps(spec, &names, &mut found);
        }
    }
    let unused: Vec<String> = context
        .files
        .iter()
        .filter(|file| file.file.config_map.as_ref().is_some_and(|name| !found.contains(name.as_str())))
        .map(|file| file.name.to_string())
        .collect();
    for name in unused {
        context.error(
            rules::MODEL_FILE_MOUNT,
            &format!("spec.files.{name}.configMap"),
            "no volume and no variable of the graph names this ConfigMap",
            "Add a volume with it under `pod`, or write `mountPath` instead of `configMap`.",
        );
    }
}

/// Renames ConfigMaps wherever a graph refers to one: as a volume, a part of a projected one, and as the source of variables.
pub fn rename_config_maps(graph: &mut Value, names: &BTreeMap<String, String>, found: &mut BTreeSet<String>) {
    const REFERENCES: [&str; 3] = ["configMap", "configMapKeyRef", "configMapRef"];
    match graph {
        Value::Object(map) => {
            for (field, below) in map {
                let name = below.get_mut("name").filter(|_| REFERENCES.contains(&field.as_str()));
                if let Some(Value::String(name)) = name
                    && let Some(real) = names.get(name.as_str())
                {
                    found.insert(std::mem::replace(name, real.clone()));
                }
                rename_config_maps(below, names, found);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|below| rename_config_maps(below, names, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl PodTemplate {
    /// Mounts the files into `main` that a component mounts, by the names that the component has.
    pub(super) fn mount_files(&mut self, files: &[RenderedFile<'_>], names: &[&str], is_worker: bool) {
        for file in files.iter().filter(|one| one.is_mounted_by(names, is_worker)) {
            self.spec.volumes.push(file.volume());
            if let Some(main) = self.spec.containers.first_mut() {
                main.volume_mounts.push(file.volume_mount());
            }
        }
    }
}

/// Mounts files into a component that a profiler wrote.
pub(super) fn mount_into_component(component: &mut Map<String, Value>, files: &[RenderedFile<'_>]) {
    let text = |field: &str| component.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, kind) = (text("name"), text("type"));
    let is_worker = is_worker_type(&kind);
    let Some(pod) = component.get_mut("podTemplate").and_then(|template| template.get_mut("spec")) else { return };
    for file in files.iter().filter(|one| one.is_mounted_by(&[&name, &kind], is_worker)) {
        push_item(pod, "volumes", file.volume());
        let containers = pod.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten();
        for main in containers.filter(|one| one.get("name").is_some_and(|name| name == MAIN_CONTAINER)) {
            push_item(main, "volumeMounts", file.volume_mount());
        }
    }
}

fn push_item(map: &mut Value, field: &str, item: Value) {
    let Some(map) = map.as_object_mut() else { return };
    if let Some(list) = map.entry(field).or_insert_with(|| json!([])).as_array_mut() {
        list.push(item);
    }
}
