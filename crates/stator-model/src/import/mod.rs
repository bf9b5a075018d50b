//! Manifests become `model.yaml`, with a proof that they render back.
//!
//! Pure: takes bytes, gives text and findings. A guess is made of what a person would have written, the guess is rendered
//! by the renderer itself, and what is left over goes into `template` and `overrides`. The text is then read back as an
//! intent and rendered once more, and every difference from the manifest that counts is a finding.
//! It can say how much of each file has fields of its own.

mod attachments;
mod carried;
mod classify;
mod command_line;
mod common_parts;
mod completion;
mod config_maps;
mod defaults;
mod documents;
mod download_job;
mod draft;
mod families;
mod guess;
mod kustomize;
mod layers;
mod legacy;
mod owners;
mod pod_fields;
mod prepared;
mod remainder;
mod round_trip;
mod shell;
mod source_map;
#[cfg(test)]
mod tests;
mod typed_leaves;
mod variants;
mod write;

use documents::ManifestDocument;
use draft::ImportDraft;
use layers::ArrangedModels;
use owners::ObjectOwners;
use stator_core::dynamo::kinds;
use stator_core::dynamo::release::Release;
use stator_core::finding::{self, Finding};
use std::collections::BTreeMap;
pub use variants::{DEFAULT_ENVIRONMENT, environment_of, repository_yaml};
pub use write::WriteError;

/// The rules that importing judges by.
pub mod rules {
    stator_core::rules! {
        NO_MODEL = "import/no-model", "The model that was written is valid and renders to the manifest.";
        DIFFERENCE_NOTE = "import/note", "A harmless difference that should be reviewed.";
        KUSTOMIZE = "import/kustomize", "What kustomize builds is imported as it builds it.";
        NOT_AN_OBJECT = "import/not-an-object", "A document is a Kubernetes object: it has `apiVersion`, `kind` and a name.";
        NOT_CARRIED = "import/not-carried", "Everything in a manifest can be expressed in a model.";
        PLACEHOLDER = "import/placeholder", "A namespace is the name of one, and not a placeholder to be replaced by hand.";
        TEMPLATE = "import/template", "A Helm template is rendered before it is imported.";
        DUPLICATE_NAME = "import/twice", "Objects have different names.";
        UNKNOWN_KIND = "import/unknown-kind", "A kind and its version are known.";
        UNREADABLE = "import/unreadable", "A document is YAML or JSON from its first line to its last.";
    }
}

/// One file to import.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// Its name, for findings.
    pub file: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// A file beside a `model.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedFile {
    /// Its path from the model's folder.
    pub path: String,
    /// What it holds.
    pub text: String,
}

/// A model made of manifests.
#[derive(Clone, Debug)]
pub struct ImportedModel {
    /// Its name.
    pub name: String,
    /// The path of its file from the folder of all: a `model.yaml`, or the overlay of an environment.
    pub path: String,
    /// The file and the number of the document that it was made of.
    pub origin: (String, usize),
    /// The namespace that the manifest names.
    pub namespace: Option<String>,
    /// The text of that file.
    pub text: String,
    /// Other files of its folder, which the model names.
    pub files: Vec<ImportedFile>,
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
    /// Files that several models are made of, by their paths from the folder of all.
    pub shared_files: Vec<ImportedFile>,
    /// The environments that the models need, where graphs have variants; none otherwise.
    pub environments: Vec<ImportedEnvironment>,
    /// What could not be carried, and what is worth a look.
    pub findings: Vec<Finding>,
}

/// An environment for one variant of graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedEnvironment {
    /// Its name, made of the paths of the manifests.
    pub name: String,
    /// The namespace that the manifests name.
    pub namespace: Option<String>,
    /// The folders of its models, as globs; all where there is none.
    pub include: Vec<String>,
    /// The folders of models that are of other environments only.
    pub exclude: Vec<String>,
}

/// How manifests are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions<'a> {
    /// The release of Dynamo that converts what is at v1alpha1.
    pub release: Release,
    /// Whether what has no place in a model is left out with a warning. It is an error otherwise.
    pub lossy: bool,
    /// Whether the manifests are of what runs: ConfigMaps keep their names, as pods restart with another.
    pub is_running: bool,
    /// The one namespace to import; what names none is in it.
    pub namespace: Option<&'a str>,
}

/// Imports files, all their documents together: what belongs to a graph is found wherever it stands.
pub fn import(inputs: &[ManifestFile], options: ImportOptions<'_>) -> ImportResult {
    let mut findings = Vec::new();
    let mut all = Vec::new();
    let kustomized = kustomize::build(inputs);
    for input in kustomized.plain {
        all.extend(documents::read(&input.file, &input.content, &mut findings));
    }
    all.extend(kustomized.documents);
    let sorted = classify::classify_documents(all, options, &mut findings);
    let roots = drop_requests_with_graphs(sorted.roots, &mut findings);
    let mut drafts: Vec<ImportDraft> = roots.iter().filter_map(|root| ImportDraft::of(root, &mut findings)).collect();
    // What several of them use belongs to the first by name.
    drafts.sort_by(|a, b| a.order().cmp(&b.order()));
    drafts.retain(|draft| draft.is_in(options.namespace));
    for document in &sorted.adapters {
        attach_adapter(document, &mut drafts, &mut findings);
    }
    let mut owners = ObjectOwners::of(drafts, sorted.left_out);
    let mut others = Vec::new();
    for document in sorted.mounted_files {
        if !owners.take(&document, ImportDraft::take_mounted_file) {
            others.push(document);
        }
    }
    owners.drafts.iter_mut().for_each(ImportDraft::complete);
    owners.name_objects(sorted.claims.iter().chain(&others).chain(&sorted.others));
    let mut carried = Vec::new();
    for document in &sorted.claims {
        if owners.take(document, ImportDraft::take_claim) {
            owners.note_sharing("spec.cache", document);
        } else {
            carried.push(document);
        }
    }
    for document in carried.into_iter().chain(&others).chain(&sorted.others) {
        if classify::kind_of(&document.value) == kinds::CONFIG_MAP.kind {
            owners.read_models(document);
        }
        let is_route = classify::kind_of(&document.value) == kinds::HTTP_ROUTE.kind;
        if !(is_route && owners.take(document, ImportDraft::take_route)) {
            owners.carry(document, &mut findings);
        }
    }
    for (document, job) in &sorted.downloads {
        owners.take_download(document, job, &mut findings);
    }
    let left_out = owners.texts_of_left_out();
    let prepared = owners.drafts.into_iter().map(|draft| draft.prepare(options, &left_out)).collect();
    let ArrangedModels { mut models, mut shared_files, environments } =
        layers::arrange(prepared, options.release, &mut findings);
    models.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    shared_files.sort_by(|a, b| a.path.cmp(&b.path));
    findings.extend(kustomize::finding(&kustomized.unbuilt, models.is_empty()));
    finding::sort_and_dedup(&mut findings);
    ImportResult { models, shared_files, environments, findings }
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

/// One model's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverageRow {
    /// The file that it was made of.
    pub file: String,
    /// The model.
    pub model: String,
    /// Whether it renders back.
    pub round_trips: bool,
    /// How much of it has fields.
    pub coverage: FieldCoverage,
}

/// A model's line.
pub fn coverage_row(model: &ImportedModel) -> CoverageRow {
    CoverageRow {
        file: model.origin.0.clone(),
        model: model.name.clone(),
        round_trips: model.round_trips,
        coverage: model.coverage,
    }
}

/// All lines together.
pub fn coverage_total(rows: &[CoverageRow]) -> FieldCoverage {
    rows.iter().fold(FieldCoverage::default(), |all, row| FieldCoverage {
        leaves: all.leaves.saturating_add(row.coverage.leaves),
        unmapped: all.unmapped.saturating_add(row.coverage.unmapped),
    })
}

/// The table in Markdown, with a line for all.
pub fn coverage_markdown(rows: &[CoverageRow]) -> String {
    let mut text = "| File | Model | Renders back | Leaves | Named | Share |\n|-|-|-|-:|-:|-:|\n".to_owned();
    let line = |file: &str, model: &str, back: &str, share: FieldCoverage| {
        format!("| {file} | {model} | {back} | {} | {} | {} |\n", share.leaves, share.named(), coverage_percent(share))
    };
    for row in rows {
        let back = if row.round_trips { "yes" } else { "no" };
        text.push_str(&line(&format!("`{}`", row.file), &format!("`{}`", row.model), back, row.coverage));
    }
    let back = format!("{} of {}", rows.iter().filter(|row| row.round_trips).count(), rows.len());
    text.push_str(&line("all", "", &back, coverage_total(rows)));
    text
}

/// A share in percent with one digit, rounded down so that it never says more than is.
pub fn coverage_percent(share: FieldCoverage) -> String {
    let tenths = share.named().saturating_mul(1000).checked_div(share.leaves).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}
