//! Weights that are downloaded: pinned, to a volume that can be written to, and that nothing else is mounted at.

use super::ModelValidator;
use super::files::is_at_or_below;
use crate::intent::model::{AccessMode, Cache, Weights, WeightsLoad, WeightsRevision, WeightsSource, WeightsSources};
use crate::intent::rules;
use crate::intent::scalar::VolumeName;

pub(super) fn validate_weights(judge: &mut ModelValidator<'_>) {
    if let Some(cache) = &judge.model.spec.cache {
        check_volume(judge, "spec.cache", cache.implicit_volume, cache.volume.as_ref());
    }
    let Some(weights) = &judge.model.spec.weights else { return };
    if weights.mount_path().split('/').any(|part| part == "." || part == "..") {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights.mountPath",
            format!("`{}` has a part that is `.` or `..`", weights.mount_path()),
            "Write the path without it.",
        );
    }
    if judge.model.spec.sla.is_some() {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights",
            "`weights` with `sla`: the graph that would be served from them does not exist yet",
            "Use `cache` with `modelPath` for the profiler, or `serving`.",
        );
    }
    check_cache(judge, weights);
    check_volume(judge, "spec.weights", weights.implicit_volume, weights.volume.as_ref());
    check_place(judge, weights);
    let several = matches!(weights.source, Some(WeightsSources::Several(_)));
    let downloads = weights.downloads();
    if several {
        check_list(judge, weights, downloads.is_empty());
    }
    for (index, (path, download)) in downloads.into_iter().enumerate() {
        let path = format!("spec.weights.{path}");
        match download {
            Err(fault) => {
                let (what, help) = fault.describe();
                judge.error(rules::MODEL_WEIGHTS, &path, what, help);
            }
            Ok(download) => {
                if several && !matches!(download.source, WeightsSource::HuggingFace { .. }) {
                    judge.error(
                        rules::MODEL_WEIGHTS,
                        &path,
                        "a list of sources has `hf://` only",
                        "Write this source alone, and download the others yourself.",
                    );
                }
                check_download(judge, weights, (&path, &download.source), index == 0);
            }
        }
    }
    if weights.source.is_none() {
        check_filled_claim(judge, weights);
    } else if weights.claim.as_ref().is_some_and(|claim| claim.access_mode == Some(AccessMode::ReadOnlyMany)) {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights.claim.accessMode",
            "the volume is read-only, so nothing can be downloaded to it",
            "Use `ReadWriteMany`; or omit `source`, and fill the claim yourself.",
        );
    }
}

/// The weights are in one place, and only a claim can be downloaded to.
fn check_place(judge: &mut ModelValidator<'_>, weights: &Weights) {
    let given = [
        ("claim", weights.claim.is_some()),
        ("hostPath", weights.host_path.is_some()),
        ("volumeImage", weights.volume_image.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(field, _)| *field).collect();
    match given.as_slice() {
        [] => judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights",
            "the weights have no volume",
            "Add `claim: {name: NAME}`; or `hostPath` or `volumeImage`, if the weights are there already.",
        ),
        [one] if *one != "claim" && weights.source.is_some() => judge.error(
            rules::MODEL_WEIGHTS,
            &format!("spec.weights.{one}"),
            format!("`source` with `{one}`: weights are downloaded to a claim only"),
            "Use `claim: {name: NAME}`, or remove `source`.",
        ),
        [_] => {}
        [_, second, ..] => judge.error(
            rules::MODEL_WEIGHTS,
            &format!("spec.weights.{second}"),
            format!("the weights are in {} places: `{}`", given.len(), given.join("`, `")),
            "Keep one of them.",
        ),
    }
    if weights.implicit_volume == Some(true) && weights.claim.is_none() {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights.implicitVolume",
            "`implicitVolume` without `claim`: Dynamo's operator mounts only claims by their names",
            "Remove it.",
        );
    }
}

/// Several sources say of themselves which files are downloaded.
fn check_list(judge: &mut ModelValidator<'_>, weights: &Weights, is_empty: bool) {
    if is_empty {
        let help = "Add a source, such as `hf://openai/gpt-oss-120b@COMMIT`, or remove `source`.";
        judge.error(rules::MODEL_WEIGHTS, "spec.weights.source", "the list of sources is empty", help);
    }
    for (field, is_given) in [("include", !weights.include.is_empty()), ("exclude", !weights.exclude.is_empty())] {
        if is_given {
            judge.error(
                rules::MODEL_WEIGHTS,
                &format!("spec.weights.{field}"),
                format!("`{field}` has no effect: `source` is a list"),
                format!("Write it with its source: `{{uri: hf://…, {field}: […]}}`."),
            );
        }
    }
}

/// A mount without a volume is called like its claim.
fn check_volume(judge: &mut ModelValidator<'_>, path: &str, implicit: Option<bool>, volume: Option<&VolumeName>) {
    if implicit == Some(true) && volume.is_some() {
        judge.error(
            rules::MODEL_WEIGHTS,
            &format!("{path}.volume"),
            "`volume` with `implicitVolume`: there is no volume to name",
            "Remove one of them.",
        );
    }
}

/// What only one of the two kinds of source takes, and what each needs.
fn check_download(
    judge: &mut ModelValidator<'_>,
    weights: &Weights,
    (path, source): (&str, &WeightsSource),
    is_models: bool,
) {
    let model = judge.model.spec.model.as_str();
    let is_folder_given = weights.load() == WeightsLoad::Folder;
    if is_models && model.starts_with('/') && is_folder_given {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.model",
            "`model` is a path, but the engine loads the path that the weights are downloaded to",
            "Write the name that clients ask for, such as `openai/gpt-oss-120b`.",
        );
    }
    match source {
        WeightsSource::HuggingFace { repository, revision } => {
            if let WeightsRevision::Moving(name) = revision {
                judge.warning(
                    rules::MODEL_WEIGHTS,
                    path,
                    format!("`{name}` may move: the model serves the commit that it pointed to when the Job ran"),
                    format!("Pin it: `git ls-remote https://huggingface.co/{repository} {name}` prints the commit."),
                );
            }
            if is_models && model != repository && !model.starts_with('/') {
                judge.error(
                    rules::MODEL_WEIGHTS,
                    path,
                    format!("the source is `{repository}`, and `model` is `{model}`"),
                    format!("Write `model: {repository}`; `servedName` is the name that clients ask for."),
                );
            }
        }
        WeightsSource::Other { .. } => {
            if weights.image.is_none() {
                judge.error(
                    rules::MODEL_WEIGHTS,
                    path,
                    "only `hf://` is downloaded without an `image`",
                    "Name the image of a downloader: it is given `WEIGHTS_SOURCE` and `WEIGHTS_FOLDER`.",
                );
            }
            if weights.token_secret.is_some() {
                judge.error(
                    rules::MODEL_WEIGHTS,
                    "spec.weights.tokenSecret",
                    "`tokenSecret` is a Hugging Face token, but the source is not Hugging Face",
                    "Give the downloader its credentials by `env`: `NAME: {secret: NAME, key: KEY}`.",
                );
            }
        }
    }
}

/// A claim that somebody else fills: nothing is downloaded, so nothing can be said of how.
fn check_filled_claim(judge: &mut ModelValidator<'_>, weights: &Weights) {
    let written = [
        ("include", !weights.include.is_empty()),
        ("exclude", !weights.exclude.is_empty()),
        ("image", weights.image.is_some()),
        ("tokenSecret", weights.token_secret.is_some()),
        ("env", !weights.env.is_empty()),
        ("resources", weights.resources.is_some()),
        ("tolerations", !weights.tolerations.is_empty()),
        ("imagePull", !weights.image_pull.is_empty()),
        ("securityContext", weights.security_context.is_some()),
        ("deadline", weights.deadline.is_some()),
        ("retries", weights.retries.is_some()),
        ("attempt", weights.attempt.is_some()),
        ("load", weights.load.is_some()),
    ];
    for (field, _) in written.into_iter().filter(|(_, is_written)| *is_written) {
        judge.error(
            rules::MODEL_WEIGHTS,
            &format!("spec.weights.{field}"),
            format!("`{field}` has no effect: without `source`, nothing is downloaded"),
            format!("Add `source`, or remove `{field}`."),
        );
    }
}

/// Cache and weights are two volumes, or one of them is not needed.
fn check_cache(judge: &mut ModelValidator<'_>, weights: &Weights) {
    let Some(cache) = &judge.model.spec.cache else { return };
    let (mine, other) = (weights.mount_path(), Cache::mount_path(cache));
    if is_at_or_below(mine, other.trim_end_matches('/')) || is_at_or_below(other, mine) {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights",
            format!("the weights are mounted at `{mine}`, and `cache` at `{other}`"),
            "Remove `cache`: `weights` mounts its volume as well. Or give one of them another `mountPath`.",
        );
    }
    if weights.claim.as_ref().is_some_and(|claim| claim.name == cache.claim) {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights.claim.name",
            format!("`cache` uses claim `{}` too", cache.claim),
            "Remove `cache`: `weights` mounts its volume as well.",
        );
    }
    if cache.volume.as_ref().map(VolumeName::as_str) == Some(weights.volume()) && weights.implicit_volume != Some(true)
    {
        judge.error(
            rules::MODEL_WEIGHTS,
            "spec.weights.volume",
            format!("`cache` uses volume `{}` too", weights.volume()),
            "Give it another name.",
        );
    }
}
