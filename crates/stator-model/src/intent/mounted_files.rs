//! Files that models mount (`spec.files`): which of a repository are named, and what they hold.

use super::git_secrets::{secret_finding, secret_line, secrets_of_file};
use super::model::Model;
use super::scalar::VolumeName;
use super::workspace::LFS_POINTER_START;
use super::yaml::{YamlNode, parse_yaml};
use super::{FieldOrigins, FileRole, SourceFile, SourceTree, rules};
use rayon::prelude::*;
use stator_core::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most files that a model mounts.
pub const MAX_MOUNTED_FILES: usize = 64;
/// The most objects that a model has beside those that stator renders.
pub const MAX_MANIFESTS: usize = 64;
/// The most bytes that a ConfigMap holds.
pub(super) const MAX_CONFIG_MAP_BYTES: usize = 1 << 20;
/// The fields that name files of a model's folder. One of them must be in a document that names any: a cheap test before it
/// is parsed.
const FIELDS: [&str; 2] = ["files", "manifests"];
/// The most files that are read for a model: those of two layers that differ in all of them.
const MAX_NAMED_FILES: usize = 2 * (MAX_MOUNTED_FILES + MAX_MANIFESTS);

/// Why a path does not lead to a file of the model's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathFault {
    /// It begins with `/`.
    Absolute,
    /// It has a part `..`.
    Leaves,
    /// A part is empty or `.`.
    Unclean,
    /// A part begins with a dot: such folders and files are never read.
    Hidden,
    /// A character is none for a path: a backslash, or one that steers a terminal.
    Character,
    /// It is the model's own file, or one of another model.
    Manifest,
}

impl PathFault {
    /// What is wrong, and what to do.
    pub(super) fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Absolute => ("is an absolute path", "Write the path from the folder of `model.yaml`."),
            Self::Leaves => (
                "leads out of the model's folder",
                "Put the file into the model's folder, and write its path from there.",
            ),
            Self::Unclean => ("has an empty part, or one that is `.`", "Write the names alone: `engine/decode.yaml`."),
            Self::Hidden => ("leads to a hidden file or folder, and those are not read", "Rename it, without the dot."),
            Self::Character => ("has characters that a path in git should not have", "Rename the file."),
            Self::Manifest => ("is a file that stator reads as its own", "Name the file that the engine is to read."),
        }
    }
}

/// Whether a path leads to a file below a model's folder, as far as the text tells.
pub(super) fn check_path(path: &str) -> Result<(), PathFault> {
    if path.starts_with('/') {
        return Err(PathFault::Absolute);
    }
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return Err(PathFault::Character);
    }
    let parts: Vec<&str> = path.split('/').collect();
    if parts.contains(&"..") {
        return Err(PathFault::Leaves);
    }
    if parts.iter().any(|part| part.is_empty() || *part == ".") {
        return Err(PathFault::Unclean);
    }
    if parts.iter().any(|part| part.starts_with('.')) {
        return Err(PathFault::Hidden);
    }
    match FileRole::of_name(parts.last().copied().unwrap_or_default()) {
        FileRole::Settings | FileRole::Intent | FileRole::Overlay(_) | FileRole::Lock(_) => Err(PathFault::Manifest),
        FileRole::Misnamed { .. } | FileRole::Other => Ok(()),
    }
}

fn split_folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The path of a file below a folder.
pub(super) fn join_path(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// The files that models may mount, or have their other objects in: folder of a `model.yaml` → paths from the root. By what its own files and the settings
/// above it write, of any environment; so it may name more than are mounted, and never one outside the folder.
pub fn named_files(tree: &SourceTree) -> BTreeMap<String, BTreeSet<String>> {
    let named: Vec<(&str, FileRole, Vec<String>)> = tree
        .files
        .par_iter()
        .filter_map(|file| {
            let bytes = file.content.as_ref().ok()?;
            let role = FileRole::of_name(file.path.rsplit('/').next().unwrap_or_default());
            let written = match role {
                FileRole::Intent | FileRole::Overlay(_) | FileRole::Settings => paths_of(bytes),
                FileRole::Lock(_) | FileRole::Misnamed { .. } | FileRole::Other => Vec::new(),
            };
            let counts = role == FileRole::Intent || !written.is_empty();
            counts.then_some((file.path.as_str(), role, written))
        })
        .collect();
    let mut by_folder: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (path, _, written) in named.iter().filter(|(_, _, written)| !written.is_empty()) {
        by_folder.entry(split_folder(path)).or_default().extend(written);
    }
    if by_folder.is_empty() {
        return BTreeMap::new();
    }
    let folders = named.iter().filter(|(_, role, _)| *role == FileRole::Intent).map(|(path, _, _)| split_folder(path));
    folders
        .filter_map(|folder| {
            let ends = folder.match_indices('/').map(|(end, _)| end).chain([folder.len()]);
            let above = std::iter::once("").chain(ends.filter(|end| *end > 0).filter_map(|end| folder.get(..end)));
            let written = above.filter_map(|above| by_folder.get(above)).flatten();
            let paths: BTreeSet<String> = written.map(|path| join_path(folder, path)).take(MAX_NAMED_FILES).collect();
            (!paths.is_empty()).then(|| (folder.to_owned(), paths))
        })
        .collect()
}

/// The paths that a document names, in any of its layers.
fn paths_of(bytes: &[u8]) -> Vec<String> {
    // Nearly every file ends here.
    let holds_field = std::str::from_utf8(bytes).is_ok_and(|text| FIELDS.iter().any(|field| text.contains(field)));
    let Some(root) = holds_field.then(|| parse_yaml(bytes, 0, "").root).flatten() else { return Vec::new() };
    let Some(spec) = root.get("spec") else { return Vec::new() };
    let is_repository = root.get("kind").and_then(YamlNode::as_str) == Some("Repository");
    let environments = spec.get("environments").map(YamlNode::entries).unwrap_or_default();
    let layers = environments.iter().map(|entry| &entry.value).chain([spec]).filter_map(|layer| layer.get("defaults"));
    let layers: Vec<&YamlNode> = if is_repository { layers.collect() } else { vec![spec] };
    let files =
        layers.iter().filter_map(|layer| layer.get("files")).flat_map(YamlNode::entries).map(|file| &file.value);
    let manifests = layers.iter().filter_map(|layer| layer.get("manifests")).flat_map(YamlNode::items);
    let paths = files.chain(manifests).filter_map(|one| one.get("from")?.as_str());
    paths.filter(|path| check_path(path).is_ok()).map(str::to_owned).collect()
}

/// The content of a model's files, by name, with a finding for each that cannot be had or holds what it should not.
pub(super) fn read_mounted_files(
    model: &Model,
    origins: &FieldOrigins,
    folder: &str,
    there: &[SourceFile],
    findings: &mut Vec<Finding>,
) -> BTreeMap<String, Arc<[u8]>> {
    let mut contents = BTreeMap::new();
    let mut looked_through = BTreeSet::new();
    for (name, file) in &model.spec.files {
        if file.text.as_deref().and_then(secret_line).is_some() {
            findings.push(secret_finding(origins.locate(&format!("spec.files.{name}.text"))));
        }
        let Some(from) = file.from.as_deref().filter(|from| check_path(from).is_ok()) else { continue };
        let path = join_path(folder, from);
        let place = || origins.locate(&format!("spec.files.{name}.from"));
        match find_file(there, &path) {
            Err((message, help)) => findings.push(Finding::error(rules::MODEL_FILE, place(), message, help)),
            Ok(bytes) if bytes.len() > MAX_CONFIG_MAP_BYTES => findings.push(Finding::error(
                rules::MODEL_FILE,
                place(),
                format!("`{path}` is larger than 1 MiB, the limit of a ConfigMap"),
                "Make it smaller, or put it onto the volume of the weights.",
            )),
            Ok(bytes) => {
                if looked_through.insert(path.clone()) {
                    findings.extend(secrets_of_file(&path, bytes));
                }
                contents.insert(name.to_string(), bytes.clone());
            }
        }
    }
    let mut sizes: BTreeMap<&VolumeName, usize> = BTreeMap::new();
    for (name, file) in &model.spec.files {
        let Some(config_map) = &file.config_map else { continue };
        let bytes = file.text.as_ref().map(String::len).or(contents.get(name.as_str()).map(|bytes| bytes.len()));
        let size = sizes.entry(config_map).or_default();
        let before = *size;
        *size = before.saturating_add(bytes.unwrap_or_default());
        if *size > MAX_CONFIG_MAP_BYTES && before <= MAX_CONFIG_MAP_BYTES {
            findings.push(Finding::error(
                rules::MODEL_FILE,
                origins.locate(&format!("spec.files.{name}.configMap")),
                format!(
                    "the files of ConfigMap `{config_map}` are larger than 1 MiB together, the limit of a ConfigMap"
                ),
                "Make them smaller, or put some of them onto the volume of the weights.",
            ));
        }
    }
    contents
}

/// The content of a file of a model's folder; or why it cannot be had, and what to do.
pub(super) fn find_file<'a>(there: &'a [SourceFile], path: &str) -> Result<&'a Arc<[u8]>, (String, &'static str)> {
    let found = there.iter().find(|file| file.path == path).map(|file| file.content.as_ref());
    match found.unwrap_or(Err(&NOT_READ.to_owned())) {
        Err(reason) => Err((
            format!("`{path}` cannot be read: {reason}"),
            "Correct `from`, which is a path from the folder of `model.yaml`, or commit the file.",
        )),
        Ok(bytes) if bytes.starts_with(LFS_POINTER_START) => Err((
            format!("`{path}` cannot be read: it is a Git LFS pointer, and stator does not fetch from LFS"),
            "Take it out of LFS: remove its pattern from `.gitattributes` and add the file again.",
        )),
        Ok(bytes) => Ok(bytes),
    }
}

/// Of a file that nobody looked for: more are named than a model may mount.
const NOT_READ: &str = "the model names too many files";
