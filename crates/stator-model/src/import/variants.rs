//! Graphs of one name that run in different places: the variants of one model, each of an environment.

use super::classify::named_namespace;
use super::common_parts::{shared_part, without};
use super::documents::folder_of;
use super::prepared::PreparedModel;
use super::round_trip::join_path;
use super::{ImportedEnvironment, ImportedFile, kustomize, rules, write};
use crate::intent::FileRole;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use stator_core::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// The environment of models without variants.
pub const DEFAULT_ENVIRONMENT: &str = "default";
/// The namespace where none is named.
const DEFAULT_NAMESPACE: &str = "default";

/// All variants of a model; of most models there is one.
#[derive(Debug)]
pub struct ModelVariants {
    /// Each variant.
    pub models: Vec<PreparedModel>,
    /// The environment of each; none where there is but one.
    pub environments: Vec<String>,
    /// The document of each.
    pub documents: Vec<Value>,
    /// The files that each names: those that differ apart.
    pub files: Vec<Vec<ImportedFile>>,
}

/// Gives the variants of each model their environments. Those that nothing tells apart are reported, but for the first.
pub fn in_environments(groups: Vec<Vec<PreparedModel>>, findings: &mut Vec<Finding>) -> Vec<ModelVariants> {
    let mut named = Vec::new();
    for models in groups {
        match environment_names(&models) {
            Some(names) => named.push((models, names)),
            None => {
                let reason = "nothing in their paths and namespaces tells them apart";
                named.extend(keep_first(models, reason, findings).map(|first| (vec![first], Vec::new())));
            }
        }
    }
    // An environment has one namespace.
    let mut namespaces: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let namespace = |model: &PreparedModel| named_namespace(&model.root.value).map(str::to_owned);
    for (model, name) in named.iter().flat_map(|(models, names)| models.iter().zip(names)) {
        namespaces.entry(name.clone()).or_default().extend(namespace(model));
    }
    let with_namespace = |(model, name): (&PreparedModel, &String)| {
        let several = namespaces.get(name).is_some_and(|all| all.len() > 1);
        namespace(model).filter(|_| several).map_or_else(|| name.clone(), |namespace| format!("{name}-{namespace}"))
    };
    let variants = |(models, names): (Vec<PreparedModel>, Vec<String>)| {
        let names = models.iter().zip(&names).map(with_namespace).collect();
        ModelVariants::of(models, names)
    };
    named.into_iter().map(variants).collect()
}

/// The first of several graphs of one name; the others are reported.
pub fn keep_first(models: Vec<PreparedModel>, reason: &str, findings: &mut Vec<Finding>) -> Option<PreparedModel> {
    let mut models = models.into_iter();
    let first = models.next()?;
    for other in models {
        let message = format!(
            "document {}: {} `{}` is defined twice with different content; the one in {}:{} is imported: {reason}",
            other.root.number,
            other.root.value["kind"].as_str().unwrap_or_default(),
            other.name(),
            first.root.file,
            first.root.line,
        );
        let help = "import each by itself, into a folder of its own";
        findings.push(Finding::error(rules::DUPLICATE_NAME, other.root.location(), message, help));
    }
    Some(first)
}

impl ModelVariants {
    fn of(models: Vec<PreparedModel>, environments: Vec<String>) -> Self {
        let common = common_contents(&models);
        let mut documents: Vec<Value> = models.iter().map(|model| model.document.clone()).collect();
        let mut files: Vec<Vec<ImportedFile>> = models.iter().map(|model| model.files.clone()).collect();
        let paths: BTreeSet<String> = files.iter().flatten().map(|file| file.path.clone()).collect();
        for ((document, files), environment) in documents.iter_mut().zip(&mut files).zip(&environments) {
            let is_taken = |folder: &str| {
                let inside = format!("{folder}/");
                paths.iter().any(|path| path == folder || path.starts_with(&inside))
            };
            let folders = std::iter::once(environment.clone()).chain((2..).map(|n| format!("{environment}-{n}")));
            let folder = folders.into_iter().find(|folder| !is_taken(folder)).unwrap_or_default();
            keep_apart(document, files, &folder, &common);
        }
        Self { models, environments, documents, files }
    }

    /// The name that all have.
    pub fn name(&self) -> &str {
        self.models.first().map_or("", PreparedModel::name)
    }

    /// The file of a variant in the model's folder.
    pub fn file(&self, at: usize) -> String {
        self.environments.get(at).map_or("model.yaml".to_owned(), |name| format!("model.{name}.yaml"))
    }

    /// What the documents of the variants have in common as the text of a `model.yaml`, and the text of each; empty where one
    /// cannot be written.
    pub fn split(&self, documents: Vec<Value>) -> (Option<String>, Vec<String>) {
        let write = |document: &Value, head: &str, notes: &[(&'static str, String)]| {
            write::document_yaml(document, head, notes).unwrap_or_default()
        };
        if self.environments.is_empty() {
            let texts = self.models.iter().zip(&documents).map(|(model, one)| write(one, &model.head, &model.notes));
            return (None, texts.collect());
        }
        let all: Vec<&Value> = documents.iter().collect();
        let base = shared_part(&all).unwrap_or_else(|| json!({}));
        let own = self.models.iter().zip(&documents).map(|(model, one)| {
            let mut own = one.clone();
            without(&mut own, &base);
            write(&with_head(own), &model.head, &model.notes)
        });
        let texts = own.collect();
        let head = "Imported by stator: what all variants have in common.";
        let mut base = with_head(base);
        base["metadata"]["name"] = self.name().into();
        (Some(write(&base, head, &[])), texts)
    }
}

/// A document of a model, or an overlay of one.
fn with_head(mut document: Value) -> Value {
    document["apiVersion"] = "stator.dev/v1alpha1".into();
    document["kind"] = "Model".into();
    if document.get("spec").is_none() {
        document["spec"] = json!({});
    }
    document
}

/// What each file holds in most variants, and in two at least where it differs.
fn common_contents(models: &[PreparedModel]) -> BTreeMap<String, String> {
    let mut contents: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for file in models.iter().flat_map(|model| &model.files) {
        let count = contents.entry(&file.path).or_default().entry(&file.text).or_default();
        *count = count.saturating_add(1);
    }
    let most = |texts: BTreeMap<&str, usize>| {
        let is_one = texts.len() == 1;
        let most = texts.into_iter().max_by_key(|(_, count)| *count)?;
        (is_one || most.1 > 1).then(|| most.0.to_owned())
    };
    contents.into_iter().filter_map(|(path, texts)| Some((path.to_owned(), most(texts)?))).collect()
}

/// Gives the files of a variant that are not those of most a folder of their own.
fn keep_apart(document: &mut Value, files: &mut [ImportedFile], folder: &str, common: &BTreeMap<String, String>) {
    let mut moved = BTreeSet::new();
    for file in files.iter_mut().filter(|file| common.get(&file.path) != Some(&file.text)) {
        moved.insert(file.path.clone());
        file.path = format!("{folder}/{}", file.path);
    }
    let rename_in = |one: &mut Value| {
        if let Some(path) = one.get("from").and_then(Value::as_str).filter(|path| moved.contains(*path)) {
            one["from"] = format!("{folder}/{path}").into();
        }
    };
    if let Some(Value::Object(files)) = document["spec"].get_mut("files") {
        files.values_mut().for_each(rename_in);
    }
    if let Some(Value::Array(manifests)) = document["spec"].get_mut("manifests") {
        manifests.iter_mut().for_each(rename_in);
    }
}

/// A name for the environment of each variant: what of its file's path the others have not, and where that does not do, of its
/// namespace. `None` where nothing tells them apart; no names for a single one.
fn environment_names(models: &[PreparedModel]) -> Option<Vec<String>> {
    if models.len() < 2 {
        return Some(Vec::new());
    }
    let by_path: Vec<Vec<String>> = models.iter().map(|model| name_parts(&path_of(&model.root.file))).collect();
    let namespaces = models.iter().map(|model| name_parts(named_namespace(&model.root.value).unwrap_or_default()));
    let by_both: Vec<Vec<String>> =
        by_path.iter().zip(namespaces).map(|(path, namespace)| [path.clone(), namespace].concat()).collect();
    distinct_names(&by_path).or_else(|| distinct_names(&by_both))
}

/// The path that tells what a file is of: of one that says how a folder is built, the folder's.
fn path_of(file: &str) -> String {
    if kustomize::is_kustomization(file) {
        return folder_of(file).display().to_string();
    }
    file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_owned()
}

fn name_parts(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    // A name has no other letters.
    let plain = |part: &str| if part.is_ascii() { part.to_ascii_lowercase() } else { digest_of(part) };
    parts.map(plain).collect()
}

/// Names of the parts that not all have; `None` where two are the same.
fn distinct_names(all: &[Vec<String>]) -> Option<Vec<String>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for part in all.iter().flat_map(|parts| parts.iter().map(String::as_str).collect::<BTreeSet<_>>()) {
        let count = counts.entry(part).or_default();
        *count = count.saturating_add(1);
    }
    let name = |parts: &Vec<String>| {
        let is_own = |part: &&str| counts.get(part).is_some_and(|count| *count < all.len());
        let mut own: Vec<&str> = parts.iter().map(String::as_str).filter(is_own).collect();
        own.dedup();
        let joined = own.join("-");
        let joined = if joined.is_empty() { DEFAULT_ENVIRONMENT.to_owned() } else { joined };
        let is_plain = joined.starts_with(|c: char| c.is_ascii_lowercase()) && joined != "lock";
        let whole = if is_plain { joined } else { format!("on-{joined}") };
        let start: String = whole.chars().take(MAX_ENVIRONMENT_LENGTH).collect();
        if start == whole { whole } else { format!("{}-{}", start.trim_end_matches('-'), digest_of(&whole)) }
    };
    let names: Vec<String> = all.iter().map(name).collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    (distinct.len() == names.len()).then_some(names)
}

/// How long a name may be before a digest stands for the rest of it.
const MAX_ENVIRONMENT_LENGTH: usize = 50;

fn digest_of(text: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(text.as_bytes()));
    digest.truncate(8);
    digest
}

/// The environments of models, by the path of each and the namespace that it names: one for each variant with the models that have
/// it, and one for all others. A model without variants is in the one environment of its namespace, where there is one. None
/// where no model has variants.
pub fn environments_of(models: &[(String, Option<String>)]) -> Vec<ImportedEnvironment> {
    let mut environments: BTreeMap<String, ImportedEnvironment> = BTreeMap::new();
    let mut varied = BTreeSet::new();
    let mut single: Vec<(String, &Option<String>)> = Vec::new();
    for (path, namespace) in models {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = format!("{folder}/**");
        if let FileRole::Overlay(name) = FileRole::of_name(file) {
            let environment = environments.entry(name.clone()).or_insert_with(|| ImportedEnvironment::named(&name));
            environment.include.push(folder.clone());
            environment.namespace = environment.namespace.take().or_else(|| namespace.clone());
            varied.insert(folder);
        } else {
            single.push((folder, namespace));
        }
    }
    if environments.is_empty() {
        return Vec::new();
    }
    let mut namespaces = BTreeSet::new();
    let mut is_default_used = environments.contains_key(DEFAULT_ENVIRONMENT);
    for (folder, namespace) in single {
        let mut fitting = environments
            .values_mut()
            .filter(|one| namespace.is_some() && one.namespace == *namespace && one.name != DEFAULT_ENVIRONMENT);
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => {
                only.include.push(folder.clone());
                varied.insert(folder);
            }
            (_, _) => {
                is_default_used = true;
                namespaces.extend(namespace.clone());
            }
        }
    }
    if is_default_used {
        let default = environments
            .entry(DEFAULT_ENVIRONMENT.to_owned())
            .or_insert_with(|| ImportedEnvironment::named(DEFAULT_ENVIRONMENT));
        default.exclude = varied.into_iter().filter(|folder| !default.include.contains(folder)).collect();
        default.include = Vec::new();
        default.namespace = default.namespace.take().or_else(|| namespaces.into_iter().next());
    }
    environments.into_values().collect()
}

/// The environment of a model, by the path of its file.
pub fn environment_of<'a>(environments: &'a [ImportedEnvironment], path: &str) -> Option<&'a str> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = format!("{folder}/**");
    let overlay = match FileRole::of_name(file) {
        FileRole::Overlay(name) => Some(name),
        FileRole::Settings | FileRole::Intent | FileRole::Lock(_) | FileRole::Misnamed { .. } | FileRole::Other => None,
    };
    let is_it = |one: &&ImportedEnvironment| match &overlay {
        Some(name) => one.name == *name,
        None => one.include.contains(&folder),
    };
    let default = || environments.iter().find(|one| one.name == DEFAULT_ENVIRONMENT);
    environments.iter().find(is_it).or_else(default).map(|one| one.name.as_str())
}

impl ImportedEnvironment {
    /// One with all models.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// The same for models below a folder of a repository.
    pub fn below(&self, folder: &str) -> Self {
        let below = |globs: &[String]| globs.iter().map(|glob| join_path(folder, glob)).collect();
        Self { include: below(&self.include), exclude: below(&self.exclude), ..self.clone() }
    }
}

/// The text of a repository with these environments; `namespace` is of those that name none.
///
/// # Errors
/// When the serializer refuses a value.
pub fn repository_yaml(
    environments: &[ImportedEnvironment],
    namespace: Option<&str>,
) -> Result<String, write::WriteError> {
    let environment = |one: &ImportedEnvironment| {
        let namespace = one.namespace.as_deref().or(namespace).unwrap_or(DEFAULT_NAMESPACE);
        let mut document = json!({"namespace": namespace});
        for (field, paths) in [("include", &one.include), ("exclude", &one.exclude)] {
            if !paths.is_empty() {
                document[field] = json!(paths);
            }
        }
        (one.name.clone(), document)
    };
    let environments: Map<String, Value> = environments.iter().map(environment).collect();
    let document = json!({
        "apiVersion": "stator.dev/v1alpha1",
        "kind": "Repository",
        "metadata": {"name": "imported"},
        "spec": {"environments": environments},
    });
    write::document_yaml(&document, "", &[])
}
