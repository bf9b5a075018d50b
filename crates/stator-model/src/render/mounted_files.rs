//! Files that pods mount (`spec.files`): each an immutable ConfigMap, and a mount of its one key at the file's path.
//!
//! The ConfigMap's name ends in a digest of its content. So new content is another ConfigMap, the pod template of every
//! component that mounts it names another volume source, and pods roll as for any change of their template; a file that
//! changed beneath running pods would reach some of them, at some time.

use super::pod::PodTemplate;
use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::Intent;
use crate::intent::model::MountedFile;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::graph_components::is_worker_type;
use stator_core::dynamo::kinds;
use stator_core::dynamo::registry::MAIN_CONTAINER;

/// How many hex digits of the content's digest are part of a name.
const DIGEST_LENGTH: usize = 10;
/// What the name of a file's volume begins with.
pub const FILE_VOLUME_PREFIX: &str = "file-";

/// A file with its content, as it is rendered.
#[derive(Debug)]
pub(super) struct RenderedFile<'a> {
    name: &'a str,
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

    /// The key in the ConfigMap: the file's own name, which is what a directory of such files would show.
    fn key(&self) -> &str {
        self.file.mount_path.as_str().rsplit('/').next().unwrap_or_default()
    }

    fn volume(&self) -> Value {
        json!({"name": format!("{FILE_VOLUME_PREFIX}{}", self.name), "configMap": {"name": self.config_map}})
    }

    fn volume_mount(&self) -> Value {
        json!({
            "name": format!("{FILE_VOLUME_PREFIX}{}", self.name),
            "mountPath": self.file.mount_path.as_str(),
            "subPath": self.key(),
            "readOnly": true,
        })
    }
}

/// The files of a model, in the order of their names. One without content has been reported.
pub(super) fn rendered_files(intent: &Intent) -> Vec<RenderedFile<'_>> {
    let model = intent.model.metadata.name.as_str();
    let files = intent.model.spec.files.iter().filter_map(|(name, file)| {
        let name = name.as_str();
        let content = match &file.text {
            Some(text) => text.as_bytes(),
            None => intent.files.get(name)?,
        };
        let mut one = RenderedFile { name, file, content, config_map: String::new() };
        one.config_map = format!("{model}-{name}-{}", content_digest(model, name, one.key(), content));
        Some(one)
    });
    files.collect()
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
    context.files.iter().map(|file| draft_config_map(context, file)).collect()
}

fn draft_config_map(context: &RenderContext<'_>, file: &RenderedFile<'_>) -> ObjectDraft {
    let mut value = object_metadata::new_object(context, kinds::CONFIG_MAP, &file.config_map, Value::Null, false);
    value.remove("spec");
    if let Some(metadata) = value.get_mut("metadata") {
        metadata["labels"][kinds::LABEL_FILE] = file.name.into();
        if let Some(from) = &file.file.from {
            metadata["annotations"] = json!({kinds::ANNOTATION_FILE_SOURCE: from});
        }
    }
    // Text stays text, for whoever reads the ConfigMap.
    let (field, content) = match std::str::from_utf8(file.content) {
        Ok(text) => ("data", text.to_owned()),
        Err(_) => ("binaryData", STANDARD.encode(file.content)),
    };
    value.insert(field.to_owned(), json!({file.key(): content}));
    value.insert("immutable".to_owned(), true.into());
    ObjectDraft {
        kind: kinds::CONFIG_MAP,
        value,
        path: format!("spec.files.{}", file.name),
        stage: ApplyStage::Cache,
        prune: true,
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
