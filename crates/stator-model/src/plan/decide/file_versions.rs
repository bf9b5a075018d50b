//! Files that pods mount, from one content to the next: which ConfigMap takes the place of which, which components mount
//! the new one, and how long the old one stays.

use crate::plan::{Action, Change, ChangeReason, DeleteStep, MountedChange, PlanStep, PlannedWrite};
use crate::render::{FILE_VOLUME_PREFIX, is_config_map_of};
use serde_json::Value;
use stator_core::dynamo::graph_components::named_components;
use stator_core::dynamo::kinds::{ANNOTATION_FILE_SOURCE, CONFIG_MAP, GRAPH, JOB, LABEL_FILE};
use stator_core::dynamo::references::NAMED_BY_PODS;
use stator_core::object::{JsonText, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};

/// What the labels and annotations of a ConfigMap say of its file.
struct FileIdentity {
    model: String,
    file: String,
    source: Option<String>,
}

fn identify(change: &Change, side: Option<&JsonText>) -> Option<FileIdentity> {
    let object = side.filter(|_| change.object.kind == CONFIG_MAP.kind)?.parse();
    let metadata = object.get("metadata")?;
    let text = |field: &str, key: &str| Some(metadata.get(field)?.get(key)?.as_str()?.to_owned());
    let source = text("annotations", ANNOTATION_FILE_SOURCE);
    Some(FileIdentity { model: change.model.clone(), file: text("labels", LABEL_FILE)?, source })
}

/// Puts the old and the new content of a file side by side, and says of each graph which of its files are others.
pub(in crate::plan) fn pair_file_versions(changes: &mut [Change]) {
    let mut old: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    let mut new: Vec<(usize, FileIdentity)> = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        match change.action {
            Action::Create => new.extend(identify(change, change.after.as_ref()).map(|one| (index, one))),
            Action::Delete => {
                if let Some(one) = identify(change, change.before.as_ref()) {
                    old.entry((one.model, one.file)).or_default().push(index);
                }
            }
            Action::Update
            | Action::Replace
            | Action::Deleting
            | Action::Adopt
            | Action::Keep
            | Action::Blocked
            | Action::LeftBehind => {}
        }
    }
    let sources: BTreeMap<(&str, &str), Option<&str>> =
        new.iter().map(|(_, one)| ((one.model.as_str(), one.file.as_str()), one.source.as_deref())).collect();
    explain_mounts(changes, &sources);
    for (index, one) in &new {
        let versions = old.get(&(one.model.clone(), one.file.clone())).map(Vec::as_slice).unwrap_or_default();
        let mounted = |at: &&usize| changes.get(**at).is_some_and(|version| is_mounted_before(changes, version));
        let Some(last) = versions.iter().find(mounted).or(versions.last()) else { continue };
        let before = changes.get(*last).and_then(|version| version.before.clone());
        let Some(change) = changes.get_mut(*index) else { continue };
        change.before = before;
        change.reasons = vec![ChangeReason::FileContent { file: one.file.clone(), source: one.source.clone() }];
        let by = change.object.clone();
        for at in versions {
            if let Some(version) = changes.get_mut(*at) {
                // Its lines are shown once, as what the new content is compared with.
                version.before = None;
                version.reasons = vec![ChangeReason::FileSuperseded { by: by.clone() }];
            }
        }
    }
}

/// Whether a graph of the same model mounts a ConfigMap until now.
fn is_mounted_before(changes: &[Change], config_map: &Change) -> bool {
    let graphs = changes.iter().filter(|one| one.object.kind == GRAPH.kind && one.model == config_map.model);
    let mut sides = graphs.filter_map(|graph| graph.before.as_ref());
    sides.any(|side| mounted_by_component(&side.parse()).any(|(_, _, name)| name == config_map.object.name))
}

/// Component, volume and ConfigMap of every volume that is one.
fn mounted_by_component(graph: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    let spec = graph.get("spec").unwrap_or(&Value::Null);
    named_components(spec).flat_map(|(component, own)| {
        let volumes = own.pointer("/podTemplate/spec/volumes").and_then(Value::as_array);
        volumes.into_iter().flatten().filter_map(move |volume| {
            let name = volume.get("name").and_then(Value::as_str)?;
            Some((component, name, volume.pointer("/configMap/name").and_then(Value::as_str)?))
        })
    })
}

/// Says of each graph that changes which files it mounts with other content, as those are why pods are replaced.
fn explain_mounts(changes: &mut [Change], sources: &BTreeMap<(&str, &str), Option<&str>>) {
    for change in changes.iter_mut().filter(|one| one.object.kind == GRAPH.kind) {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        let (before, after) = (before.parse(), after.parse());
        let was: BTreeMap<(&str, &str), &str> =
            mounted_by_component(&before).map(|(component, volume, name)| ((component, volume), name)).collect();
        let mut changed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (component, volume, name) in mounted_by_component(&after) {
            let own = || sources.keys().find(|(model, file)| *model == change.model && is_config_map_of(name, file));
            let file = volume.strip_prefix(FILE_VOLUME_PREFIX).or_else(|| own().map(|(_, file)| *file));
            if let Some(file) = file.filter(|_| was.get(&(component, volume)).is_some_and(|before| *before != name)) {
                changed.entry(file).or_default().insert(component);
            }
        }
        if changed.is_empty() {
            continue;
        }
        let files = changed.into_iter().map(|(file, components)| MountedChange {
            file: file.to_owned(),
            source: sources.get(&(change.model.as_str(), file)).copied().flatten().map(str::to_owned),
            components: components.into_iter().map(str::to_owned).collect(),
        });
        let reason = ChangeReason::FilesChanged { files: files.collect() };
        change.reasons.push(reason);
    }
}

/// What pods name and git no longer has goes once the model's graph, as git wants it, is Healthy: until then pods may start
/// that name it.
pub(in crate::plan) fn delete_after_switch(changes: &mut [Change]) {
    let graphs: BTreeMap<String, ObjectRef> = changes
        .iter()
        .filter(|one| one.object.kind == GRAPH.kind && one.action != Action::Delete)
        .filter_map(|one| {
            let entry = one.inventory.as_ref()?;
            let writes = one.step != PlanStep::NoWrite;
            Some((one.model.clone(), if writes { entry.object.clone() } else { one.object.clone() }))
        })
        .collect();
    // A Job that downloaded what the model no longer serves goes then too, and so never before what it serves is complete.
    let is_named = |kind: &str| NAMED_BY_PODS.iter().any(|named| named.kind == kind);
    let goes_after = |one: &&mut Change| one.object.kind == JOB.kind || is_named(&one.object.kind);
    for change in changes.iter_mut().filter(goes_after) {
        if let PlanStep::Write(PlannedWrite::Delete(DeleteStep { after, .. })) = &mut change.step {
            *after = graphs.get(&change.model).cloned().map(Box::new);
        }
        let graph =
            graphs.get(&change.model).filter(|_| change.object.kind == JOB.kind && change.action == Action::Delete);
        change.reasons.extend(graph.map(|graph| ChangeReason::DownloadSuperseded { graph: graph.clone() }));
    }
}
