//! Files that pods mount: where they come from and go to. Whether they can be read is judged where they are.

use super::graph::all_components;
use super::{ModelValidator, serving_workers};
use crate::intent::model::{Cache, MountedFile, Weights};
use crate::intent::mounted_files::{MAX_CONFIG_MAP_BYTES, MAX_MOUNTED_FILES, check_path};
use crate::intent::rules;
use crate::intent::scalar::FileName;
use stator_core::finding::did_you_mean;

pub(super) fn validate_files(judge: &mut ModelValidator<'_>) {
    let files = &judge.model.spec.files;
    if files.len() > MAX_MOUNTED_FILES {
        judge.error(
            rules::MODEL_FILE,
            "spec.files",
            format!("{} files; a model has at most {MAX_MOUNTED_FILES}", files.len()),
            "Join some of them, or put them onto the volume of the weights.",
        );
    }
    for (name, file) in files {
        check_content(judge, name, file);
    }
    if judge.model.spec.serving.is_some() {
        check_mounts(judge);
    }
}

fn check_content(judge: &mut ModelValidator<'_>, name: &FileName, file: &MountedFile) {
    let place = format!("spec.files.{name}");
    match (&file.from, &file.text) {
        (Some(from), None) => {
            if let Err(fault) = check_path(from) {
                let (what, help) = fault.describe();
                judge.error(rules::MODEL_FILE, &format!("{place}.from"), format!("`{from}` {what}"), help);
            }
        }
        (None, Some(text)) if text.len() > MAX_CONFIG_MAP_BYTES => judge.error(
            rules::MODEL_FILE,
            &format!("{place}.text"),
            "the text is larger than 1 MiB, the limit of a ConfigMap",
            "Make it smaller, or put it onto the volume of the weights.",
        ),
        (None, Some(_)) => {}
        (Some(_), Some(_)) => judge.error(
            rules::MODEL_FILE,
            &place,
            format!("file `{name}` has both `from` and `text`"),
            "Keep one of them.",
        ),
        (None, None) => judge.error(
            rules::MODEL_FILE,
            &place,
            format!("file `{name}` has no content"),
            "Add `from`, the path of a file in the model's folder, or `text`.",
        ),
    }
    let others = judge.model.spec.files.iter().take_while(|(known, _)| *known != name);
    let same = others.filter(|(_, other)| other.config_map == file.config_map);
    let twin = same.map(|(known, other)| (known, other.key(known))).find(|(_, key)| *key == file.key(name));
    if let Some((other, key)) = twin.filter(|_| file.config_map.is_some()) {
        judge.error(
            rules::MODEL_FILE,
            &place,
            format!("files `{other}` and `{name}` are both the key `{key}` of one ConfigMap"),
            "Rename the file of one of them.",
        );
    }
    let path = match (&file.mount_path, &file.config_map) {
        (Some(path), None) => path.as_str(),
        (None, Some(_)) => "",
        (Some(_), Some(_)) => {
            return judge.error(
                rules::MODEL_FILE_MOUNT,
                &place,
                format!("file `{name}` has both `mountPath` and `configMap`"),
                "Keep `mountPath`, or `configMap` where the graph's own volumes and variables name the ConfigMap.",
            );
        }
        (None, None) => {
            return judge.error(
                rules::MODEL_FILE_MOUNT,
                &place,
                format!("file `{name}` goes nowhere"),
                "Add `mountPath`, the path of the file in the pods.",
            );
        }
    };
    if file.config_map.is_some() && file.components.is_some() {
        judge.error(
            rules::MODEL_FILE_MOUNT,
            &format!("{place}.components"),
            format!("file `{name}` has both `configMap` and `components`"),
            "Remove `components`: the components that name the ConfigMap read the file.",
        );
    }
    if path.split('/').any(|part| part == "." || part.starts_with("..")) {
        judge.error(
            rules::MODEL_FILE_MOUNT,
            &format!("{place}.mountPath"),
            format!("`{path}` has a part that is `.` or begins with `..`"),
            "Write the path without it.",
        );
    }
}

/// An engine reads its file where that is mounted: one that is mounted elsewhere under the same name is meant, and missed.
fn check_engine_configs(judge: &mut ModelValidator<'_>, targets: &[MountTarget], volumes: Vec<&str>) {
    let spec = &judge.model.spec;
    for (_, path, worker) in serving_workers(spec.serving.as_ref()) {
        let Some(config) = worker.engine_config.as_deref() else { continue };
        let field = path.rsplit('.').next().unwrap_or_default();
        let Some(target) = targets.iter().find(|one| one.field == field) else { continue };
        let files: Vec<(&FileName, &str)> = spec
            .files
            .iter()
            .filter(|(_, file)| mounts(file, target))
            .filter_map(|(name, file)| Some((name, file.mount_path.as_ref()?.as_str())))
            .collect();
        let pods = [spec.pod.as_deref(), worker.pod.as_deref()].into_iter().flatten();
        let own = pods.flat_map(|pod| &pod.volume_mounts).filter_map(|mount| mount.get("mountPath")?.as_str());
        let is_there = files
            .iter()
            .map(|(_, mounted)| *mounted)
            .chain(volumes.iter().copied())
            .chain(own)
            .any(|mounted| is_at_or_below(config, mounted.trim_end_matches('/')));
        let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let Some((name, mounted)) = files.iter().find(|(_, mounted)| !is_there && last(mounted) == last(config)) else {
            continue;
        };
        judge.error(
            rules::MODEL_FILE_MOUNT,
            &format!("{path}.engineConfig"),
            format!("nothing is mounted at `{config}`, and file `{name}` is mounted at `{mounted}`"),
            format!("Write `engineConfig: {mounted}`, or mount the file at `{config}`."),
        );
    }
}

/// A component of the graph, as files name it.
struct MountTarget {
    /// In the graph.
    name: String,
    /// In the model: `decode` for a worker that has another name in the graph.
    field: String,
    is_worker: bool,
    /// Whether the weights are mounted into it.
    has_cache: bool,
}

fn check_mounts(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    let targets: Vec<MountTarget> = all_components(judge)
        .into_iter()
        .map(|(name, path, is_worker)| {
            let field = path.rsplit('.').next().unwrap_or_default().to_owned();
            // A frontend reads the tokenizer from where the model is.
            let is_read_by_frontend =
                spec.model.starts_with('/') || spec.weights.as_ref().is_some_and(|weights| weights.source.is_some());
            let has_cache = path.starts_with("spec.serving.") && (is_worker || is_read_by_frontend);
            MountTarget { name, field, is_worker, has_cache }
        })
        .collect();
    let caches = [spec.cache.as_ref().map(Cache::mount_path), spec.weights.as_ref().map(Weights::mount_path)];
    check_engine_configs(judge, &targets, caches.into_iter().flatten().collect());
    let mounted = spec.files.iter().filter_map(|(name, file)| Some((name, file, file.mount_path.as_ref()?.as_str())));
    let mounted: Vec<(&FileName, &MountedFile, &str)> = mounted.collect();
    for (position, (name, file, path)) in mounted.iter().enumerate() {
        let place = format!("spec.files.{name}");
        for (index, wanted) in file.components.iter().flatten().enumerate() {
            if !targets.iter().any(|one| one.name == wanted.as_str() || one.field == wanted.as_str()) {
                let known: Vec<&str> = targets.iter().map(|one| one.name.as_str()).collect();
                let listed = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                let help = did_you_mean(wanted.as_str(), known.iter().copied())
                    .map_or_else(|| "Name a component of the model, or omit `components`.".to_owned(), capitalize);
                judge.error(
                    rules::MODEL_FILE_MOUNT,
                    &format!("{place}.components[{index}]"),
                    format!("the model has no component `{wanted}`; it has {listed}"),
                    help,
                );
            }
        }
        let mounting: Vec<&MountTarget> = targets.iter().filter(|one| mounts(file, one)).collect();
        if mounting.is_empty() && file.components.is_none() {
            judge.error(
                rules::MODEL_FILE_MOUNT,
                &place,
                format!("no component mounts file `{name}`: the model has no workers"),
                "Name the components that do under `components`.",
            );
        }
        let clash = mounted.iter().take(position).find(|(_, other, above)| {
            let meets = is_at_or_below(path, above) || is_at_or_below(above, path);
            meets && mounting.iter().any(|one| mounts(other, one))
        });
        if let Some((other, _, _)) = clash {
            judge.error(
                rules::MODEL_FILE_MOUNT,
                &format!("{place}.mountPath"),
                format!("`{path}` and the path of file `{other}` cannot both be mounted into one component"),
                "Mount one of them elsewhere, or into other components.",
            );
        }
        if caches.iter().flatten().any(|cache| is_at_or_below(cache, path)) && mounting.iter().any(|one| one.has_cache)
        {
            judge.error(
                rules::MODEL_FILE_MOUNT,
                &format!("{place}.mountPath"),
                format!("`{path}` is where the volume of the weights is mounted"),
                "Mount the file elsewhere.",
            );
        }
    }
}

fn mounts(file: &MountedFile, target: &MountTarget) -> bool {
    file.is_mounted_by(&[&target.name, &target.field], target.is_worker)
}

/// Whether a path is another, or below it.
pub(super) fn is_at_or_below(path: &str, other: &str) -> bool {
    path.trim_end_matches('/').strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn capitalize(text: String) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
