//! A model on its way: a graph or request, and what is found to belong to it.

use super::documents::{self, ManifestDocument};
use super::download_job::DownloadJob;
use super::prepared::{PreparedModel, UnwrittenModel, count_errors};
use super::{
    ImportOptions, ImportedFile, attachments, carried, classify, completion, config_maps, guess, pod_fields, rules,
    typed_leaves,
};
use crate::intent::model::{Adapter, Model, OverrideKind};
use crate::intent::scalar::{LabelValue, ModelName, VolumeName};
use serde_json::{Map, Value};
use stator_core::dynamo::graph_components::{components_mut, named_components};
use stator_core::dynamo::{equivalence, kinds};
use stator_core::finding::Finding;
use stator_core::object::FieldPath;
use std::collections::BTreeSet;

/// How many Jobs of one name a model may have.
const MAX_JOBS_OF_ONE_NAME: usize = 20;

/// A model on its way.
pub struct ImportDraft {
    /// The graph or request.
    pub root: ManifestDocument,
    /// What it becomes.
    pub model: Model,
    /// What a reader should know, by path in the model.
    pub notes: Vec<(&'static str, String)>,
    /// The adapters that are loaded into it.
    pub adapters: Vec<ManifestDocument>,
    /// The ConfigMaps of its files.
    mounted_files: Vec<Value>,
    /// The manifests that it must render to.
    targets: Vec<Value>,
    /// The Jobs that its `weights` stand for.
    downloads: Vec<Value>,
    /// Names of the objects that other models use too.
    pub shared: BTreeSet<String>,
}

impl ImportDraft {
    pub fn of(root: &ManifestDocument, findings: &mut Vec<Finding>) -> Option<Self> {
        let name: ModelName = match classify::name_of(&root.value).parse() {
            Ok(name) => name,
            Err(why) => {
                let message = format!(
                    "document {}: {} `{}` is not imported: `metadata.name` is not a valid model name; {why}",
                    root.number,
                    classify::kind_of(&root.value),
                    classify::name_of(&root.value)
                );
                let help = "rename it in the manifest; in a cluster this creates another object";
                findings.push(Finding::error(rules::NOT_CARRIED, root.at_text("metadata.name"), message, help));
                return None;
            }
        };
        let mut root = root.clone();
        for (component, word) in unknown_component_types(&root.value) {
            let message = format!(
                "document {}: type `{word}` of component `{component}` is omitted: v1beta1 has no such type, and Dynamo's \
                 operator treats the component as one without a type",
                root.number
            );
            let help = "nothing, unless something selects pods by the label of the type";
            let path = FieldPath::from_fields(["spec", "services", component.as_str(), "componentType"]);
            findings.push(Finding::warning(rules::DIFFERENCE_NOTE, root.at(&path), message, help));
        }
        for component in components_mut(&mut root.value) {
            let word = component.get("type").and_then(Value::as_str);
            if word.is_some_and(equivalence::is_unknown_component_type) {
                component.remove("type");
            }
        }
        let mut draft = Self {
            model: guess::request(name, &Map::new()),
            notes: Vec::new(),
            adapters: Vec::new(),
            mounted_files: Vec::new(),
            targets: vec![root.value.clone()],
            downloads: Vec::new(),
            shared: BTreeSet::new(),
            root,
        };
        draft.guess(&[]);
        Some(draft)
    }

    /// Where it stands among the others.
    pub fn order(&self) -> (&ModelName, &str, usize) {
        (&self.model.metadata.name, &self.root.file, self.root.number)
    }

    /// Whether it is in a namespace, or in any.
    pub fn is_in(&self, namespace: Option<&str>) -> bool {
        namespace.is_none() || classify::named_namespace(&self.root.value).is_none_or(|own| namespace == Some(own))
    }

    /// Whether it has an object already.
    pub fn has(&self, document: &ManifestDocument) -> bool {
        let same = |target: &Value| {
            classify::kind_of(target) == classify::kind_of(&document.value)
                && classify::name_of(target) == classify::name_of(&document.value)
        };
        self.targets.iter().any(same)
    }

    fn spec(&self) -> Map<String, Value> {
        self.root.value.get("spec").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    fn guess(&mut self, adapters: &[Adapter]) {
        let (name, spec) = (self.model.metadata.name.clone(), self.spec());
        if classify::kind_of(&self.root.value) == kinds::REQUEST.kind {
            self.model = guess::request(name, &spec);
        } else {
            let guess = guess::graph(name, &documents::without_nulls(&spec), adapters);
            (self.model, self.notes) = (guess.model, guess.notes);
        }
    }

    /// Whether a document is in the same namespace.
    pub fn shares_namespace(&self, document: &ManifestDocument) -> bool {
        classify::named_namespace(&self.root.value) == classify::named_namespace(&document.value)
    }

    /// Whether a document may be in the same namespace: one that names none is applied beside the graph.
    pub fn is_near(&self, document: &ManifestDocument) -> bool {
        self.shares_namespace(document)
            || classify::named_namespace(&self.root.value).is_none()
            || classify::named_namespace(&document.value).is_none()
    }

    /// Takes an object as it is.
    pub fn carry(&mut self, document: &ManifestDocument) -> Result<(), Box<Finding>> {
        let mut document = document.clone();
        if classify::kind_of(&document.value) != kinds::JOB.kind && self.has(&document) {
            let (kind, name) = (classify::kind_of(&document.value), classify::name_of(&document.value));
            let message = format!(
                "document {}: {kind} `{name}` is not imported: model `{}` has another of that name",
                document.number, self.model.metadata.name
            );
            let help = "import the folders one at a time, each into its own";
            return Err(Box::new(Finding::error(rules::DUPLICATE_NAME, document.location(), message, help)));
        }
        let is_taken = |value: &Value| {
            let same = |target: &Value| {
                classify::kind_of(target) == kinds::JOB.kind && classify::name_of(target) == classify::name_of(value)
            };
            self.targets.iter().any(same)
        };
        // What a Job runs is part of its name in the cluster, so that two of one name are no fault there.
        let written = classify::name_of(&document.value).to_owned();
        for number in 2..=MAX_JOBS_OF_ONE_NAME {
            if classify::kind_of(&document.value) != kinds::JOB.kind || !is_taken(&document.value) {
                break;
            }
            document.value["metadata"]["name"] = format!("{written}-{number}").into();
        }
        let manifest = carried::manifest_of(&self.model, &document)?;
        self.model.spec.manifests.push(manifest);
        self.targets.push(document.value);
        Ok(())
    }

    fn kind(&self) -> OverrideKind {
        if classify::kind_of(&self.root.value) == kinds::REQUEST.kind {
            OverrideKind::DynamoGraphDeploymentRequest
        } else {
            OverrideKind::DynamoGraphDeployment
        }
    }

    /// Takes a claim, when it is that of the cache.
    pub fn take_claim(&mut self, document: &ManifestDocument) -> bool {
        let mut model = self.model.clone();
        let mine = attachments::apply_cache_claim(&mut model, document);
        if mine {
            self.model = model;
            self.targets.push(document.value.clone());
        }
        mine
    }

    /// Takes a download, when it is of the weights that are served from the claim of the cache.
    pub fn take_download(&mut self, document: &ManifestDocument, job: &DownloadJob) -> bool {
        let target = self.target();
        let changed = job.weights_of(&self.model).into_iter().find(|model| completion::renders_graph(model, &target));
        let is_taken = changed.is_some();
        if let Some(changed) = changed {
            self.model = changed;
            self.downloads.push(document.value.clone());
        }
        is_taken
    }

    /// Takes a route to the graph.
    pub fn take_route(&mut self, document: &ManifestDocument) -> bool {
        let is_taken = attachments::apply_route(&mut self.model, document);
        if is_taken {
            self.targets.push(document.value.clone());
        }
        is_taken
    }

    /// Reads the model's name from a file of the engine, where the graph does not say it.
    pub fn read_model(&mut self, document: &ManifestDocument) {
        let is_missing = |note: &(&str, String)| note.1 == guess::NO_MODEL_NOTE;
        if !self.notes.iter().any(is_missing) {
            return;
        }
        let Some(name) = attachments::model_of_files(&document.value) else { return };
        let mut changed = self.model.clone();
        changed.spec.model = name;
        if completion::renders_graph(&changed, &self.target()) {
            self.model = changed;
            self.notes.retain(|note| !is_missing(note));
        }
    }

    /// Every text of the graph and of the objects that its model has, to look for names in.
    pub fn texts(&self) -> String {
        self.targets.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Takes a file that stator rendered, when the graph mounts it.
    pub fn take_mounted_file(&mut self, document: &ManifestDocument) -> bool {
        let target = self.target();
        let mine = attachments::apply_mounted_file(&mut self.model, &target, document);
        if mine {
            self.mounted_files.push(document.value.clone());
        }
        mine
    }

    /// The root as it is to be rendered.
    fn target(&self) -> Value {
        Value::Object(documents::without_nulls(self.root.value.as_object().unwrap_or(&Map::new())))
    }

    /// Guesses with the adapters that were found, and adds what the guess lacks.
    pub fn complete(&mut self) {
        let name = self.model.metadata.name.to_string();
        let engine = self.model.spec.engine;
        let adapters: Vec<Adapter> = self
            .adapters
            .iter()
            .filter_map(|document| attachments::adapter_from_manifest(document, &name, engine).ok())
            .collect();
        if !adapters.is_empty() {
            let files = std::mem::take(&mut self.model.spec.files);
            self.guess(&adapters);
            self.model.spec.files = files;
        }
        copy_labels(&mut self.model, &self.root.value);
        let (target, kind) = (self.target(), self.kind());
        completion::complete_model(&mut self.model, &target, kind);
        for adapter in std::mem::take(&mut self.adapters) {
            completion::complete_model(&mut self.model, &adapter.value, OverrideKind::DynamoModel);
            self.targets.push(adapter.value);
        }
        self.targets.append(&mut self.mounted_files);
    }

    /// The model as it is to be written. `left_out` are the texts of documents that are no model's.
    pub fn prepare(self, options: ImportOptions<'_>, left_out: &BTreeSet<String>) -> PreparedModel {
        let graph = self.target();
        let Self { root, mut model, notes, targets, downloads, shared, .. } = self;
        pod_fields::lift_pod_fields(&mut model, &graph);
        let prepare = |model: Model, files: Vec<ImportedFile>, renamed: Vec<VolumeName>| {
            let coverage = typed_leaves::measure_coverage(&model, &targets, &downloads);
            let (root, notes, targets) = (root.clone(), notes.clone(), targets.clone());
            let unwritten = UnwrittenModel { root, model, notes, targets, files, renamed, coverage };
            PreparedModel::of(unwritten, options.release)
        };
        let mut with_files = model.clone();
        let is_kept = |name: &str| options.is_running || shared.contains(name) || left_out.contains(name);
        let (files, renamed) = config_maps::take_config_maps(&mut with_files, &graph, &targets, &is_kept);
        let as_manifests = (with_files != model).then_some(model);
        let prepared = prepare(with_files, files, renamed);
        // A ConfigMap that cannot be files without a fault is what it was.
        match as_manifests {
            Some(model) if count_errors(&prepared.faults) > 0 => {
                let plain = prepare(model, Vec::new(), Vec::new());
                if count_errors(&plain.faults) < count_errors(&prepared.faults) { plain } else { prepared }
            }
            Some(_) | None => prepared,
        }
    }
}

/// The components whose type v1beta1 has no word for, with that type.
fn unknown_component_types(graph: &Value) -> Vec<(String, String)> {
    named_components(&graph["spec"])
        .filter_map(|(name, component)| Some((name.to_owned(), component.get("type")?.as_str()?.to_owned())))
        .filter(|(_, word)| equivalence::is_unknown_component_type(word))
        .collect()
}

/// Labels and annotations that a person gave.
fn copy_labels(model: &mut Model, target: &Value) {
    let all = |field: &str| {
        let map = target.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        let own = |(key, value): (&String, &Value)| {
            (!equivalence::is_reserved_key(key)).then(|| Some((key.clone(), value.as_str()?.to_owned()))).flatten()
        };
        map.into_iter().flatten().filter_map(own).collect::<Vec<(String, String)>>()
    };
    model.metadata.labels =
        all("labels").into_iter().filter_map(|(key, value)| Some((key, value.parse::<LabelValue>().ok()?))).collect();
    model.metadata.annotations = all("annotations").into_iter().collect();
}
