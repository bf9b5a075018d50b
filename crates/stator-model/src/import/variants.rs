//! Graphs of one name that run in different places: the variants of one model, each of an environment.

use super::common_parts::{shared_part, without};
use super::documents::folder_of;
use super::prepared::PreparedModel;
use super::round_trip::join_path;
use super::{ImportedEnvironment, kustomize, write};
use crate::intent::FileRole;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The environment of models without variants.
pub const DEFAULT_ENVIRONMENT: &str = "default";
/// The namespace where none is named.
const DEFAULT_NAMESPACE: &str = "default";

/// All variants of a model; of most models there is one.
#[derive(Debug)]
pub struct Variants {
    /// Each variant.
    pub models: Vec<PreparedModel>,
    /// The environment of each; none where there is but one.
    pub environments: Vec<String>,
    /// The document of each.
    pub documents: Vec<Value>,
}

impl Variants {
    pub fn of(mut models: Vec<PreparedModel>) -> Self {
        let environments = if models.len() > 1 { environment_names(&models) } else { Vec::new() };
        let common = common_contents(&models);
        for (model, environment) in models.iter_mut().zip(&environments) {
            keep_apart(model, environment, &common);
        }
        let documents = models.iter().map(|model| model.document.clone()).collect();
        Self { models, environments, documents }
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
            write(&self.with_head(own), &model.head, &model.notes)
        });
        let texts = own.collect();
        let head = "Imported by stator: what all variants have in common.";
        (Some(write(&self.with_head(base), head, &[])), texts)
    }

    fn with_head(&self, mut document: Value) -> Value {
        document["apiVersion"] = "stator.dev/v1alpha1".into();
        document["kind"] = "Model".into();
        document["metadata"]["name"] = self.name().into();
        if document.get("spec").is_none() {
            document["spec"] = json!({});
        }
        document
    }
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
fn keep_apart(model: &mut PreparedModel, environment: &str, common: &BTreeMap<String, String>) {
    let mut moved = BTreeSet::new();
    for file in model.files.iter_mut().filter(|file| common.get(&file.path) != Some(&file.text)) {
        moved.insert(file.path.clone());
        file.path = format!("{environment}/{}", file.path);
    }
    let rename_in = |one: &mut Value| {
        if let Some(path) = one.get("from").and_then(Value::as_str).filter(|path| moved.contains(*path)) {
            one["from"] = format!("{environment}/{path}").into();
        }
    };
    if let Some(Value::Object(files)) = model.document["spec"].get_mut("files") {
        files.values_mut().for_each(rename_in);
    }
    if let Some(Value::Array(manifests)) = model.document["spec"].get_mut("manifests") {
        manifests.iter_mut().for_each(rename_in);
    }
}

/// A name for the environment of each variant: what of its file's path the others have not.
fn environment_names(models: &[PreparedModel]) -> Vec<String> {
    let is_separator = |c: char| !c.is_ascii_alphanumeric();
    let parts = |model: &PreparedModel| -> Vec<String> {
        let file = &model.root.file;
        let stem = if kustomize::is_kustomization(file) {
            folder_of(file).display().to_string()
        } else {
            file.rsplit_once('.').map_or(file.as_str(), |(stem, _)| stem).to_owned()
        };
        let stem = stem.to_ascii_lowercase();
        let namespace = super::draft::named_namespace(&model.root.value).unwrap_or_default();
        let all = stem.split(is_separator).chain(namespace.split(is_separator));
        all.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = models.iter().map(parts).collect();
    let is_common = |part: &String| all.iter().all(|parts| parts.contains(part));
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for parts in &all {
        let mut own: Vec<&str> = parts.iter().filter(|part| !is_common(part)).map(String::as_str).collect();
        own.dedup();
        let joined = own.join("-");
        let joined = if joined.is_empty() { DEFAULT_ENVIRONMENT.to_owned() } else { joined };
        let is_plain = joined.starts_with(|c: char| c.is_ascii_lowercase()) && joined != "lock";
        let whole = if is_plain { joined } else { format!("on-{joined}") };
        let name: String = whole.chars().take(MAX_ENVIRONMENT_LENGTH).collect();
        let name = name.trim_end_matches('-');
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| taken.insert(name.clone()));
        names.extend(free);
    }
    names
}

/// How long a name may be before a number is added.
const MAX_ENVIRONMENT_LENGTH: usize = 58;

/// The environments of models, by the path of each and the namespace that it names: one for each variant, with the models that
/// have it, and one for all others. None where no model has variants.
pub fn environments_of<'a>(models: impl Iterator<Item = (String, Option<&'a str>)>) -> Vec<ImportedEnvironment> {
    let mut environments: BTreeMap<String, ImportedEnvironment> = BTreeMap::new();
    let mut varied = BTreeSet::new();
    let mut is_default_used = false;
    for (path, namespace) in models {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        match FileRole::of_name(file) {
            FileRole::Overlay(name) => {
                let environment = environments.entry(name.clone()).or_insert_with(|| ImportedEnvironment::named(&name));
                environment.include.push(format!("{folder}/**"));
                environment.namespace = environment.namespace.take().or_else(|| namespace.map(str::to_owned));
                varied.insert(format!("{folder}/**"));
                is_default_used |= name == DEFAULT_ENVIRONMENT;
            }
            FileRole::Settings | FileRole::Intent | FileRole::Lock(_) | FileRole::Misnamed { .. } | FileRole::Other => {
                is_default_used = true;
            }
        }
    }
    if varied.is_empty() {
        return Vec::new();
    }
    if is_default_used {
        let default = environments
            .entry(DEFAULT_ENVIRONMENT.to_owned())
            .or_insert_with(|| ImportedEnvironment::named(DEFAULT_ENVIRONMENT));
        default.exclude = varied.into_iter().filter(|folder| !default.include.contains(folder)).collect();
        default.include = Vec::new();
    }
    environments.into_values().collect()
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
