//! ConfigMaps that only the pods of a graph read become files of the model's folder.

use super::write::MANIFESTS_FILE;
use super::{ImportedFile, completion};
use crate::intent::FileRole;
use crate::intent::model::{Manifest, Model, MountedFile};
use crate::intent::scalar::{FileName, LabelValue, VolumeName};
use crate::render::{RenderedObject, is_config_map_of, rename_config_maps};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{CONFIG_MAP, LABEL_FILE};
use std::collections::{BTreeMap, BTreeSet};

/// Moves the ConfigMaps that only the graph's pods read out of the model's manifests: each key becomes a file. Where that
/// would not give the same pods, or something else reads them too (`is_kept`), they stay. `targets` are the manifests as they were. With the files come the names of
/// those ConfigMaps that get another one.
pub fn take_config_maps(
    model: &mut Model,
    graph: &Value,
    targets: &[Value],
    is_kept: &dyn Fn(&str) -> bool,
) -> (Vec<ImportedFile>, Vec<VolumeName>) {
    let (mut files, mut names) = (Vec::new(), Vec::new());
    let is_own = |one: &&Manifest| is_plain(one) && manifest_name(one).is_some_and(|name| !is_kept(name));
    let candidates: Vec<Manifest> = model.spec.manifests.iter().filter(is_own).cloned().collect();
    let keys = counted_keys(model);
    let folders: BTreeSet<String> = candidates.iter().filter_map(manifest_name).map(str::to_owned).collect();
    for manifest in candidates {
        let taken = with_files_of(model, &manifest, graph, targets, &keys, &folders);
        if let Some((changed, mut own, name)) = taken {
            *model = changed;
            files.append(&mut own);
            // One that stator rendered has the digest already.
            names.extend(Some(name).filter(|name| manifest_name(&manifest) == Some(name.as_str())));
        }
    }
    (files, names)
}

/// What a ConfigMap of files that the text of a model has is called in the cluster, by its name in the model.
pub fn rendered_names(model: &Model, objects: &[RenderedObject]) -> BTreeMap<String, String> {
    let written = model.spec.files.values().filter_map(|file| file.config_map.as_ref());
    let real = |name: &VolumeName| {
        let config_maps = objects.iter().filter(|one| one.object.kind() == CONFIG_MAP.kind);
        let mut names = config_maps.map(|one| one.object.name());
        Some((name.to_string(), names.find(|real| is_config_map_of(real, name.as_str()))?.to_owned()))
    };
    written.filter_map(real).collect()
}

fn manifest_name(manifest: &Manifest) -> Option<&str> {
    manifest.metadata.as_ref()?.get("name")?.as_str()
}

/// Whether a ConfigMap says nothing that files would not.
fn is_plain(manifest: &Manifest) -> bool {
    let is_text = |data: &serde_json::Map<String, Value>| !data.is_empty() && data.values().all(Value::is_string);
    let is_written = |field: &String| field == "name" || field == "labels";
    let has_only_name = manifest.metadata.as_ref().is_some_and(|map| map.keys().all(is_written));
    manifest.kind.as_deref() == Some(CONFIG_MAP.kind)
        && has_only_name
        && manifest.data.as_ref().is_some_and(is_text)
        && manifest.binary_data.is_none()
        && manifest.immutable != Some(false)
}

/// How many ConfigMaps have each key: files of one name cannot lie side by side.
fn counted_keys(model: &Model) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let data = model.spec.manifests.iter().filter_map(|one| one.data.as_ref());
    let written = model.spec.files.iter().map(|(name, file)| file.key(name).to_owned());
    for key in data.flat_map(|map| map.keys().cloned()).chain(written) {
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
}

fn with_files_of(
    model: &Model,
    manifest: &Manifest,
    graph: &Value,
    targets: &[Value],
    keys: &BTreeMap<String, usize>,
    folders: &BTreeSet<String>,
) -> Option<(Model, Vec<ImportedFile>, VolumeName)> {
    let real = manifest_name(manifest)?;
    let quoted = format!("\"{real}\"");
    let is_same = |one: &Manifest| one == manifest;
    let is_read_elsewhere = |one: &&Manifest| serde_json::to_string(one).is_ok_and(|text| text.contains(&quoted));
    if model.spec.manifests.iter().filter(|one| !is_same(one)).any(|one| is_read_elsewhere(&one)) {
        return None;
    }
    let label = targets.iter().find(|target| {
        target["kind"] == CONFIG_MAP.kind && target.pointer("/metadata/name").is_some_and(|name| name == real)
    });
    let label = label.and_then(|target| target.pointer("/metadata/labels")?.get(LABEL_FILE)?.as_str());
    let written: VolumeName = label.filter(|label| is_config_map_of(real, label)).unwrap_or(real).parse().ok()?;
    let mut found = BTreeSet::new();
    rename_config_maps(&mut graph.clone(), &[(real.to_owned(), written.to_string())].into(), &mut found);
    if found.is_empty() || is_said_elsewhere(&graph["spec"], "", real) {
        return None;
    }
    let mut spec = serde_json::to_value(&model.spec).ok()?;
    rename_text(&mut spec, real, written.as_str());
    let mut changed = Model { spec: serde_json::from_value(spec).ok()?, ..model.clone() };
    changed.spec.manifests = model.spec.manifests.iter().filter(|one| !is_same(one)).cloned().collect();
    let labels = manifest.metadata.as_ref()?.get("labels").cloned().unwrap_or_else(|| json!({}));
    let mut labels: BTreeMap<String, LabelValue> = serde_json::from_value(labels).ok()?;
    labels.retain(|key, value| model.metadata.labels.get(key) != Some(value));
    let mut files = Vec::new();
    for (key, text) in manifest.data.as_ref()? {
        let text = text.as_str()?;
        let is_file_name = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        let is_own = FileRole::of_name(key) != FileRole::Other || key == MANIFESTS_FILE || folders.contains(key);
        if key.is_empty() || key.starts_with('.') || !key.chars().all(is_file_name) || is_own {
            return None;
        }
        let is_shared = keys.get(key).is_some_and(|count| *count > 1);
        let path = if is_shared { format!("{written}/{key}") } else { key.clone() };
        let name = free_name(&changed, key)?;
        let file = MountedFile {
            from: Some(path.clone()),
            text: None,
            mount_path: None,
            config_map: Some(written.clone()),
            labels: std::mem::take(&mut labels),
            components: None,
        };
        changed.spec.files.insert(name, file);
        files.push(ImportedFile { path, text: text.to_owned() });
    }
    // Read back from the files themselves, once those are written; until then the texts stand for them.
    let mut probe = changed.clone();
    for (name, file) in changed.spec.files.iter().filter(|(_, file)| file.config_map.as_ref() == Some(&written)) {
        let text = files.iter().find(|own| file.from.as_deref() == Some(own.path.as_str()))?.text.clone();
        probe.spec.files.insert(name.clone(), MountedFile { from: None, text: Some(text), ..file.clone() });
    }
    let is_rendered = completion::render_objects(&probe)
        .iter()
        .any(|one| one.object.kind() == CONFIG_MAP.kind && is_config_map_of(one.object.name(), written.as_str()));
    is_rendered.then_some((changed, files, written))
}

/// Whether a graph says a name where it is none of a part of its pods: a program may ask for the ConfigMap by it.
fn is_said_elsewhere(value: &Value, field: &str, name: &str) -> bool {
    match value {
        Value::String(text) => {
            field != "name" && text.split(|c: char| c.is_whitespace() || "=\"',".contains(c)).any(|word| word == name)
        }
        Value::Object(map) => map.iter().any(|(field, below)| is_said_elsewhere(below, field, name)),
        Value::Array(items) => items.iter().any(|below| is_said_elsewhere(below, field, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn rename_text(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) if text == old => new.clone_into(text),
        Value::Object(map) => map.values_mut().for_each(|below| rename_text(below, old, new)),
        Value::Array(items) => items.iter_mut().for_each(|below| rename_text(below, old, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A name for a file, after its key.
fn free_name(model: &Model, key: &str) -> Option<FileName> {
    const MAX_LENGTH: usize = 36;
    let stem = key.rsplit_once('.').map_or(key, |(stem, _)| if stem.is_empty() { key } else { stem });
    let clean: String = stem
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(MAX_LENGTH)
        .collect();
    let clean = clean.trim_matches('-');
    let clean = if clean.is_empty() { "file" } else { clean };
    let numbered = (2..100).map(|number| format!("{clean}-{number}"));
    let names = std::iter::once(clean.to_owned()).chain(numbered).filter_map(|name| name.parse::<FileName>().ok());
    names.into_iter().find(|name| !model.spec.files.contains_key(name))
}
