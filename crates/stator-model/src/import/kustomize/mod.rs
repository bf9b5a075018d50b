//! Folders that kustomize builds, built as it would: resources, components and patches are data. What uses more of kustomize is
//! left to it.

mod patch;

use super::documents::{self, ManifestDocument, folder_of};
use super::{ManifestFile, rules};
use patch::{MergeSchemas, PatchTarget};
use serde::Deserialize;
use serde_json::Value;
use stator_core::finding::{Finding, Location};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The names that kustomize looks for.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// How many folders a message names.
const MAX_NAMED: usize = 3;
/// How deep folders may name each other.
const MAX_DEPTH: usize = 32;
/// The most documents that are built of all folders together: each may name another several times.
const MAX_DOCUMENTS: usize = 20_000;

/// What kustomize leaves to be imported.
pub struct KustomizedFiles<'a> {
    /// The files that are manifests as they stand.
    pub plain: Vec<&'a ManifestFile>,
    /// What is built of the others.
    pub documents: Vec<ManifestDocument>,
    /// The folders that cannot be built here.
    pub unbuilt: Vec<UnbuiltFolder>,
}

/// A folder that cannot be built here.
#[derive(Debug)]
pub struct UnbuiltFolder {
    file: String,
    fault: KustomizeFault,
}

/// Why a folder cannot be built here.
#[derive(Debug, thiserror::Error)]
pub enum KustomizeFault {
    /// A field that is not data.
    #[error("{0}")]
    Unsupported(String),
    /// A path that leads to nothing of the import.
    #[error("it names `{0}`, which is not among the files given")]
    Missing(String),
    /// A patch that cannot be applied.
    #[error("its patch {0}")]
    Patch(String),
    /// It names itself, or too much.
    #[error("it names too many folders or files, or itself")]
    Excessive,
}

/// A `kustomization.yaml`, as far as it is data.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kustomization {
    #[serde(default, rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, rename = "metadata")]
    _metadata: Option<Value>,
    #[serde(default, rename = "sortOptions")]
    _sort_options: Option<Value>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    components: Vec<String>,
    #[serde(default)]
    patches: Vec<KustomizePatch>,
    #[serde(default)]
    patches_strategic_merge: Vec<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    openapi: Option<OpenApiFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenApiFile {
    path: String,
}

/// A patch: a file or its text, and what it is for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KustomizePatch {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    patch: Option<String>,
    #[serde(default)]
    target: Option<PatchTarget>,
}

/// Whether a file says how its folder is built.
pub fn is_kustomization(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// A path without `.` and, where a folder is named before it, without `..`.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        let is_inside = matches!(cleaned.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::CurDir => {}
            Component::ParentDir if is_inside => {
                cleaned.pop();
            }
            Component::ParentDir | Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                cleaned.push(part)
            }
        }
    }
    cleaned
}

/// Builds every folder that no other names. The files that it is built of are no manifests themselves.
pub fn build(inputs: &[ManifestFile]) -> KustomizedFiles<'_> {
    let files: BTreeMap<PathBuf, &ManifestFile> =
        inputs.iter().map(|input| (clean(Path::new(&input.file)), input)).collect();
    let mut folders: BTreeMap<PathBuf, (&ManifestFile, Result<Kustomization, KustomizeFault>)> = BTreeMap::new();
    for (path, input) in files.iter().filter(|(_, input)| is_kustomization(&input.file)) {
        folders.insert(folder_of_path(path), (input, read_kustomization(input)));
    }
    let mut parts: BTreeMap<&Path, Vec<PathBuf>> = BTreeMap::new();
    for (folder, (input, _)) in &folders {
        parts.insert(folder, named_paths(input).iter().map(|path| clean(&folder.join(path))).collect());
    }
    let named: BTreeSet<&Path> = parts.values().flatten().map(PathBuf::as_path).collect();
    let is_part = |path: &Path| {
        let is_below =
            |above: &Path| folders.contains_key(above) && (above != Path::new("") || path.parent() == Some(above));
        named.contains(path) || path.ancestors().skip(1).any(is_below)
    };
    let mut built = KustomizedFiles { plain: Vec::new(), documents: Vec::new(), unbuilt: Vec::new() };
    built.plain.extend(inputs.iter().filter(|input| !is_part(&clean(Path::new(&input.file)))));
    let mut left = MAX_DOCUMENTS;
    let mut reached: BTreeSet<&Path> = BTreeSet::new();
    let (roots, rest): (Vec<_>, Vec<_>) = folders.iter().partition(|(folder, _)| !named.contains(folder.as_path()));
    // Folders that name each other in a circle are nobody's, and are said to be.
    for (folder, (input, kustomization)) in roots.into_iter().chain(rest) {
        // Of a component that nothing here is made of, there is nothing to build.
        let is_component = kustomization.as_ref().is_ok_and(|one| one.kind.as_deref() == Some("Component"));
        if is_component || reached.contains(folder.as_path()) {
            continue;
        }
        let mut waiting = vec![folder.as_path()];
        while let Some(next) = waiting.pop() {
            if reached.insert(next) {
                waiting.extend(parts.get(next).into_iter().flatten().map(PathBuf::as_path));
            }
        }
        let schemas = MergeSchemas::default();
        let mut builder = KustomizeBuilder { files: &files, folders: &folders, schemas, left: &mut left };
        let mut documents = Vec::new();
        match builder.accumulate(folder, 0, &mut documents) {
            Ok(()) => {
                let numbered = documents.into_iter().zip(1..);
                built.documents.extend(numbered.map(|(value, number)| documents::built(&input.file, number, value)));
            }
            Err(fault) => built.unbuilt.push(UnbuiltFolder { file: input.file.clone(), fault }),
        }
    }
    built
}

fn folder_of_path(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The paths that a `kustomization.yaml` names, whatever else it says: what they lead to is a part of something.
fn named_paths(input: &ManifestFile) -> Vec<String> {
    let documents = read_documents(input).unwrap_or_default();
    let list = |field: &str| -> Vec<Value> {
        let lists = documents.iter().filter_map(|document| document.get(field)?.as_array());
        lists.flatten().cloned().collect()
    };
    let patches = list("patches").into_iter().filter_map(|patch| patch.get("path").cloned());
    let all = ["resources", "bases", "components", "patchesStrategicMerge"].into_iter().flat_map(list).chain(patches);
    all.filter_map(|path| path.as_str().map(str::to_owned)).collect()
}

fn read_kustomization(input: &ManifestFile) -> Result<Kustomization, KustomizeFault> {
    let documents = read_documents(input)?;
    let [document] = documents.as_slice() else {
        return Err(KustomizeFault::Unsupported(format!("it holds {} documents instead of one", documents.len())));
    };
    if !document.is_object() {
        return Err(KustomizeFault::Unsupported("it is not a map of fields".to_owned()));
    }
    let fault = |error: serde_json::Error| {
        let text = error.to_string();
        let field = text.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
        KustomizeFault::Unsupported(match field {
            Some((field, _)) => format!("it uses `{field}`, which stator does not build"),
            None => format!("it cannot be read: {text}"),
        })
    };
    serde_json::from_value(document.clone()).map_err(fault)
}

/// The documents of a patch that stands in the file itself.
fn inline(input: &ManifestFile, text: &str) -> Result<Vec<Value>, KustomizeFault> {
    read_documents(&ManifestFile { file: input.file.clone(), content: text.as_bytes().to_vec() })
}

fn read_documents(input: &ManifestFile) -> Result<Vec<Value>, KustomizeFault> {
    let mut findings = Vec::new();
    let documents = documents::read(&input.file, &input.content, &mut findings);
    match findings.into_iter().find(Finding::is_error) {
        Some(fault) => Err(KustomizeFault::Unsupported(format!("`{}` cannot be read: {}", input.file, fault.message))),
        None => Ok(documents.into_iter().map(|document| document.value).collect()),
    }
}

type Folders<'a> = BTreeMap<PathBuf, (&'a ManifestFile, Result<Kustomization, KustomizeFault>)>;

struct KustomizeBuilder<'a, 'f> {
    files: &'a BTreeMap<PathBuf, &'f ManifestFile>,
    folders: &'a Folders<'f>,
    schemas: MergeSchemas,
    /// How many documents may still be read.
    left: &'a mut usize,
}

impl KustomizeBuilder<'_, '_> {
    /// Adds what a folder names to the documents, then changes them as the folder says: a component those of the folder that
    /// names it, too.
    fn accumulate(&mut self, folder: &Path, depth: usize, documents: &mut Vec<Value>) -> Result<(), KustomizeFault> {
        if depth > MAX_DEPTH {
            return Err(KustomizeFault::Excessive);
        }
        let (input, kustomization) =
            self.folders.get(folder).ok_or_else(|| KustomizeFault::Missing(folder.display().to_string()))?;
        let kustomization = match kustomization {
            Ok(kustomization) => kustomization,
            Err(fault) if depth == 0 => return Err(KustomizeFault::Unsupported(fault.to_string())),
            Err(fault) => return Err(KustomizeFault::Unsupported(format!("in `{}`, {fault}", input.file))),
        };
        if let Some(openapi) = &kustomization.openapi {
            let schema = self.documents_at(folder, &openapi.path)?;
            self.schemas.add(schema);
        }
        for path in &kustomization.resources {
            let place = clean(&folder.join(path));
            if self.folders.contains_key(&place) {
                let mut below = Vec::new();
                self.accumulate(&place, depth.saturating_add(1), &mut below)?;
                documents.append(&mut below);
            } else {
                documents.append(&mut self.documents_at(folder, path)?);
            }
        }
        for path in &kustomization.components {
            self.accumulate(&clean(&folder.join(path)), depth.saturating_add(1), documents)?;
        }
        for patch in &kustomization.patches_strategic_merge {
            let patches = if patch.contains('\n') { inline(input, patch)? } else { self.documents_at(folder, patch)? };
            self.apply(&patches, None, documents)?;
        }
        for patch in &kustomization.patches {
            let patches = match (&patch.path, &patch.patch) {
                (Some(path), None) => self.documents_at(folder, path)?,
                (None, Some(text)) => inline(input, text)?,
                (Some(_), Some(_)) | (None, None) => {
                    return Err(KustomizeFault::Patch("has to be either `path` or `patch`".to_owned()));
                }
            };
            self.apply(&patches, patch.target.as_ref(), documents)?;
        }
        if let Some(namespace) = &kustomization.namespace {
            for metadata in documents.iter_mut().filter_map(|one| one.get_mut("metadata")?.as_object_mut()) {
                metadata.insert("namespace".to_owned(), namespace.as_str().into());
            }
        }
        Ok(())
    }

    fn documents_at(&mut self, folder: &Path, path: &str) -> Result<Vec<Value>, KustomizeFault> {
        let place = clean(&folder.join(path));
        let input = self.files.get(&place).ok_or_else(|| KustomizeFault::Missing(place.display().to_string()))?;
        let documents = read_documents(input)?;
        *self.left = self.left.checked_sub(documents.len().max(1)).ok_or(KustomizeFault::Excessive)?;
        Ok(documents)
    }

    fn apply(
        &self,
        patches: &[Value],
        target: Option<&PatchTarget>,
        documents: &mut Vec<Value>,
    ) -> Result<(), KustomizeFault> {
        for patch in patches {
            let matches = patch::matcher(patch, target).map_err(KustomizeFault::Patch)?;
            let chosen: Vec<usize> =
                (0..documents.len()).filter(|at| documents.get(*at).is_some_and(&matches)).collect();
            if chosen.is_empty() && target.is_none() {
                return Err(KustomizeFault::Patch("is for an object that is not there".to_owned()));
            }
            let mut removed = BTreeSet::new();
            for at in chosen {
                let Some(document) = documents.get_mut(at) else { continue };
                if !patch::apply(document, patch, &self.schemas).map_err(KustomizeFault::Patch)? {
                    removed.insert(at);
                }
            }
            let mut at = 0..;
            documents.retain(|_| at.next().is_none_or(|at| !removed.contains(&at)));
        }
        Ok(())
    }
}

/// What to do with the folders that cannot be built here, once for all: an error where nothing else was imported.
pub fn finding(unbuilt: &[UnbuiltFolder], is_all: bool) -> Option<Finding> {
    let first = unbuilt.first()?;
    let folder = |one: &UnbuiltFolder| match folder_of(&one.file).display().to_string() {
        folder if folder.is_empty() => ".".to_owned(),
        folder => folder,
    };
    let location = Location { file: first.file.clone(), line: 1, column: 1, length: 1 };
    let named: Vec<String> = unbuilt.iter().take(MAX_NAMED).map(|one| format!("`{}`", folder(one))).collect();
    let more = unbuilt.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("{}{more} not imported: {}", named.join(", "), first.fault);
    let help = "run `kustomize build FOLDER` for the overlay that you apply, and import its output";
    Some(if is_all {
        Finding::error(rules::KUSTOMIZE, location, message, help)
    } else {
        Finding::warning(rules::KUSTOMIZE, location, message, help)
    })
}

#[cfg(test)]
mod tests;
