//! Manifests become `model.yaml`, with a proof that they render back.
//!
//! Pure: takes bytes, gives text and findings. A guess is made of what a person would have written, the guess is rendered
//! by the renderer itself, and what is left over goes into `template` and `overrides`. The text is then read back as an
//! intent and rendered once more, and every difference from the manifest that counts is a finding.

mod attachments;
mod classify;
mod command_line;
mod completion;
pub mod coverage;
mod documents;
mod guess;
mod remainder;
mod round_trip;
pub mod rules;
mod shell;
mod source_map;
#[cfg(test)]
mod tests;
mod write;

use crate::intent::model::{Adapter, Model, OverrideKind};
use crate::intent::scalar::{DnsName, LabelValue, ModelName};
use documents::ManifestDocument;
use serde_json::{Map, Value};
use stator_core::dynamo::graph_components::{components_mut, named_components};
use stator_core::dynamo::{equivalence, kinds};
use stator_core::finding::{self, Finding};
use stator_core::object::FieldPath;
use std::collections::BTreeMap;

/// One file to import.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// Its name, for findings.
    pub file: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// A model made of manifests.
#[derive(Clone, Debug)]
pub struct ImportedModel {
    /// Its name, which is also that of its folder.
    pub name: String,
    /// The file and the number of the document that it was made of.
    pub origin: (String, usize),
    /// The namespace that the manifest names.
    pub namespace: Option<String>,
    /// The text of its `model.yaml`.
    pub text: String,
    /// Whether rendering it gives every one of its manifests back.
    pub round_trips: bool,
    /// How much of the manifests has fields of its own.
    pub coverage: FieldCoverage,
}

/// How much of a model's manifests has fields of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldCoverage {
    /// Leaves of the manifests, in their normal form.
    pub leaves: usize,
    /// Leaves in `template` and `overrides`.
    pub unmapped: usize,
}

impl FieldCoverage {
    /// Leaves that have a field.
    pub fn named(self) -> usize {
        self.leaves.saturating_sub(self.unmapped)
    }
}

/// What came of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportResult {
    /// The models, sorted by name.
    pub models: Vec<ImportedModel>,
    /// What could not be carried, and what is worth a look.
    pub findings: Vec<Finding>,
}

/// Imports files, all their documents together: what belongs to a graph is found wherever it stands.
pub fn import(inputs: &[ManifestFile]) -> ImportResult {
    let mut findings = Vec::new();
    let mut all = Vec::new();
    for input in inputs {
        all.extend(documents::read(&input.file, &input.content, &mut findings));
    }
    let sorted = classify::classify_documents(all, &mut findings);
    let roots = drop_requests_with_graphs(sorted.roots, &mut findings);
    let mut drafts: Vec<ImportDraft> = roots.iter().filter_map(|root| ImportDraft::of(root, &mut findings)).collect();
    for document in &sorted.adapters {
        attach_adapter(document, &mut drafts, &mut findings);
    }
    for document in &sorted.mounted_files {
        let mut near = drafts.iter_mut().filter(|draft| draft.shares_namespace(document));
        if !near.any(|draft| draft.take_mounted_file(document)) {
            findings.push(classify::unsupported_kind_finding(document, "", "v1", kinds::CONFIG_MAP.kind));
        }
    }
    for draft in &mut drafts {
        draft.complete();
    }
    for document in &sorted.claims {
        let mut near = drafts.iter_mut().filter(|draft| draft.shares_namespace(document));
        if !near.any(|draft| draft.take_claim(document)) {
            findings.push(unused_claim_finding(document));
        }
    }
    let mut models: Vec<ImportedModel> = drafts.into_iter().map(|draft| draft.finish(&mut findings)).collect();
    models.sort_by(|a, b| (&a.name, &a.origin).cmp(&(&b.name, &b.origin)));
    finding::sort_and_dedup(&mut findings);
    ImportResult { models, findings }
}

/// The roots that become models. A request and a graph of one name would be two models of that name: of these the graph,
/// which runs, is taken.
fn drop_requests_with_graphs(roots: Vec<ManifestDocument>, findings: &mut Vec<Finding>) -> Vec<ManifestDocument> {
    let key = |root: &ManifestDocument| {
        (classify::namespace_of(&root.value).unwrap_or_default().to_owned(), classify::name_of(&root.value).to_owned())
    };
    let is_request = |root: &ManifestDocument| classify::kind_of(&root.value) == kinds::REQUEST.kind;
    let graphs: BTreeMap<(String, String), String> = roots
        .iter()
        .filter(|root| !is_request(root))
        .map(|root| (key(root), format!("{}:{}", root.file, root.line)))
        .collect();
    let (left, taken): (Vec<ManifestDocument>, Vec<ManifestDocument>) =
        roots.into_iter().partition(|root| is_request(root) && graphs.contains_key(&key(root)));
    for root in left {
        let message = format!(
            "document {}: {} `{}` is not imported: the graph of {} has the same name, and model names must be unique",
            root.number,
            kinds::REQUEST.kind,
            classify::name_of(&root.value),
            graphs.get(&key(&root)).map_or("this import", String::as_str),
        );
        let help =
            "import the request separately and give its model another name: requests are named after their target";
        findings.push(Finding::error(rules::DUPLICATE_NAME, root.at_text("metadata.name"), message, help));
    }
    taken
}

/// A model on its way.
struct ImportDraft {
    root: ManifestDocument,
    model: Model,
    notes: Vec<(&'static str, String)>,
    adapters: Vec<ManifestDocument>,
    /// The ConfigMaps of its files.
    mounted_files: Vec<Value>,
    /// The manifests that it must render to.
    targets: Vec<Value>,
}

impl ImportDraft {
    fn of(root: &ManifestDocument, findings: &mut Vec<Finding>) -> Option<Self> {
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
            root,
        };
        draft.guess(&[]);
        Some(draft)
    }

    fn spec(&self) -> Map<String, Value> {
        self.root.value.get("spec").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    fn guess(&mut self, adapters: &[Adapter]) {
        let (name, spec) = (self.model.metadata.name.clone(), self.spec());
        if classify::kind_of(&self.root.value) == kinds::REQUEST.kind {
            self.model = guess::request(name, &spec);
        } else {
            let guess = guess::graph(name, &without_nulls(&spec), adapters);
            (self.model, self.notes) = (guess.model, guess.notes);
        }
    }

    /// Whether a document is in the same namespace.
    fn shares_namespace(&self, document: &ManifestDocument) -> bool {
        classify::namespace_of(&self.root.value) == classify::namespace_of(&document.value)
    }

    fn kind(&self) -> OverrideKind {
        if classify::kind_of(&self.root.value) == kinds::REQUEST.kind {
            OverrideKind::DynamoGraphDeploymentRequest
        } else {
            OverrideKind::DynamoGraphDeployment
        }
    }

    /// Takes a claim, when it is that of the cache, or may be: one that some workers mount, or that they mount in part.
    fn take_claim(&mut self, document: &ManifestDocument) -> bool {
        let mut model = self.model.clone();
        if model.spec.cache.is_none() {
            let (target, kind) = (self.target(), self.kind());
            model.spec.cache = attachments::mounted_cache(&target, document);
            if model.spec.cache.is_none() {
                return false;
            }
            // Mounts that the cache brings and the graph lacks go.
            completion::complete_model(&mut model, &target, kind);
            if !completion::renders_graph(&model, &target) {
                return false;
            }
        }
        let mine = attachments::apply_cache_claim(&mut model, document);
        if mine {
            self.model = model;
            self.targets.push(document.value.clone());
        }
        mine
    }

    /// Takes a file that stator rendered, when the graph mounts it.
    fn take_mounted_file(&mut self, document: &ManifestDocument) -> bool {
        let target = self.target();
        let mine = attachments::apply_mounted_file(&mut self.model, &target, document);
        if mine {
            self.mounted_files.push(document.value.clone());
        }
        mine
    }

    /// The root as it is to be rendered.
    fn target(&self) -> Value {
        Value::Object(without_nulls(self.root.value.as_object().unwrap_or(&Map::new())))
    }

    /// Guesses with the adapters that were found, and adds what the guess lacks.
    fn complete(&mut self) {
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

    fn finish(self, findings: &mut Vec<Finding>) -> ImportedModel {
        let Self { root, model, notes, targets, .. } = self;
        let name = model.metadata.name.to_string();
        let head = format!("Imported by stator from {}, document {}.", root.file, root.number);
        let text = write::model_yaml(&model, &head, &notes);
        let (rest, leaves) = completion::measure_coverage(&model, &targets);
        let (text, proven) = match text {
            Ok(text) => {
                let mut faults = round_trip::verify_manifests(&text, &targets, &root);
                let proven = !faults.iter().any(Finding::is_error);
                findings.append(&mut faults);
                (text, proven)
            }
            Err(error) => {
                findings.push(Finding::error(rules::NO_MODEL, root.location(), error.to_string(), "import the others"));
                (String::new(), false)
            }
        };
        for (_, note) in &notes {
            let help = "see the comment in the model, and correct it";
            let message = format!("document {}: {note}", root.number);
            findings.push(Finding::warning(rules::DIFFERENCE_NOTE, root.location(), message, help));
        }
        ImportedModel {
            name,
            namespace: valid_namespace(&root, findings),
            origin: (root.file, root.number),
            text,
            round_trips: proven,
            coverage: FieldCoverage { leaves, unmapped: rest },
        }
    }
}

/// The namespace of a manifest, where it is the name of one: what was meant to be replaced by hand (`<your-namespace>`) is
/// reported and left out.
fn valid_namespace(root: &ManifestDocument, findings: &mut Vec<Finding>) -> Option<String> {
    let text = classify::namespace_of(&root.value)?;
    if text.parse::<DnsName>().is_ok_and(|name| !name.as_str().contains('.')) {
        return Some(text.to_owned());
    }
    let message = format!("document {}: namespace `{text}` is a placeholder, and is left out", root.number);
    let help = "name the namespace with `-n NAMESPACE`, or in the environment of stator.yaml";
    findings.push(Finding::warning(rules::PLACEHOLDER, root.at_text("metadata.namespace"), message, help));
    None
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

/// A map without nulls, which mean nothing in a manifest and are refused in an intent.
fn without_nulls(map: &Map<String, Value>) -> Map<String, Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, below| !below.is_null());
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => {
                items.retain(|item| !item.is_null());
                items.iter_mut().for_each(strip);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut value = Value::Object(map.clone());
    strip(&mut value);
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Finds the graph that an adapter is for.
fn attach_adapter(document: &ManifestDocument, drafts: &mut [ImportDraft], findings: &mut Vec<Finding>) {
    let base = attachments::base_model_of(document);
    let mut fitting: Vec<&mut ImportDraft> = drafts
        .iter_mut()
        .filter(|draft| {
            draft.shares_namespace(document) && attachments::serves_base_model(&draft.root.value, &draft.model, base)
        })
        .collect();
    let names: Vec<String> = fitting.iter().map(|draft| format!("`{}`", draft.model.metadata.name)).collect();
    let why = match fitting.as_mut_slice() {
        [draft] => match attachments::adapter_from_manifest(
            document,
            draft.model.metadata.name.as_str(),
            draft.model.spec.engine,
        ) {
            Ok(_) => {
                draft.adapters.push(document.clone());
                return;
            }
            Err(finding) => {
                findings.push(*finding);
                return;
            }
        },
        [] => format!("no graph beside it serves `{base}`"),
        _ => format!("several graphs serve `{base}`: {}", names.join(", ")),
    };
    findings.push(Finding::error(
        rules::NOT_CARRIED,
        document.at_text("spec.baseModelName"),
        format!(
            "document {}: DynamoModel `{}` is not imported: `spec.baseModelName`: {why}",
            document.number,
            classify::name_of(&document.value)
        ),
        "import it together with the one graph that it is loaded into",
    ));
}

fn unused_claim_finding(document: &ManifestDocument) -> Finding {
    Finding::error(
        rules::NOT_CARRIED,
        document.location(),
        format!(
            "document {}: PersistentVolumeClaim `{}` is not imported: a model has a claim only for its cache, which \
             every worker mounts",
            document.number,
            classify::name_of(&document.value)
        ),
        "keep it where it is applied today; pods refer to it by name",
    )
}
