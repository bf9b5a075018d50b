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
mod documents;
mod download_job;
mod draft;
mod guess;
mod kustomize;
mod pod_fields;
mod remainder;
mod round_trip;
mod shell;
mod source_map;
#[cfg(test)]
mod tests;
mod typed_leaves;
mod write;

use documents::ManifestDocument;
use download_job::DownloadJob;
use draft::ImportDraft;
use stator_core::dynamo::kinds;
use stator_core::dynamo::release::Release;
use stator_core::finding::{self, Finding};
use std::collections::BTreeMap;

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
    /// Its name, which is also that of its folder.
    pub name: String,
    /// The file and the number of the document that it was made of.
    pub origin: (String, usize),
    /// The namespace that the manifest names.
    pub namespace: Option<String>,
    /// The text of its `model.yaml`.
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
    /// What could not be carried, and what is worth a look.
    pub findings: Vec<Finding>,
}

/// How manifests are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The release of Dynamo that converts what is at v1alpha1.
    pub release: Release,
    /// Whether what has no place in a model is left out with a warning. It is an error otherwise.
    pub lossy: bool,
}

/// Imports files, all their documents together: what belongs to a graph is found wherever it stands.
pub fn import(inputs: &[ManifestFile], options: ImportOptions) -> ImportResult {
    let mut findings = Vec::new();
    let mut all = Vec::new();
    let (inputs, built) = kustomize::without_kustomizations(inputs);
    for input in inputs {
        all.extend(documents::read(&input.file, &input.content, &mut findings));
    }
    let sorted = classify::classify_documents(all, options, &mut findings);
    let roots = drop_requests_with_graphs(sorted.roots, &mut findings);
    let mut drafts: Vec<ImportDraft> = roots.iter().filter_map(|root| ImportDraft::of(root, &mut findings)).collect();
    // What several of them use belongs to the first by name.
    drafts.sort_by(|a, b| a.model.metadata.name.cmp(&b.model.metadata.name));
    for document in &sorted.adapters {
        attach_adapter(document, &mut drafts, &mut findings);
    }
    let mut others = Vec::new();
    for document in sorted.mounted_files {
        let near = by_closeness(&drafts, &document);
        let takes = |at: &usize| {
            let draft = drafts.get_mut(*at).filter(|draft| draft.shares_namespace(&document));
            draft.is_some_and(|draft| draft.take_mounted_file(&document))
        };
        if !near.iter().any(takes) {
            others.push(document);
        }
    }
    for draft in &mut drafts {
        draft.complete();
    }
    for document in sorted.claims {
        let near = by_closeness(&drafts, &document);
        let takes = |at: &usize| drafts.get_mut(*at).is_some_and(|draft| draft.take_claim(&document));
        match near.into_iter().find(takes) {
            Some(owner) => note_sharing(&mut drafts, owner, "spec.cache", &document),
            None => others.push(document),
        }
    }
    for document in others.iter().chain(&sorted.others) {
        if classify::kind_of(&document.value) == kinds::CONFIG_MAP.kind {
            drafts.iter_mut().filter(|draft| draft.is_near(document)).for_each(|draft| draft.read_model(document));
        }
        let is_route = classify::kind_of(&document.value) == kinds::HTTP_ROUTE.kind;
        let near = if is_route { by_closeness(&drafts, document) } else { Vec::new() };
        let takes = |at: &usize| drafts.get_mut(*at).is_some_and(|draft| draft.take_route(document));
        if !near.iter().any(takes) {
            carry_object(document, &mut drafts, &mut findings);
        }
    }
    for (document, job) in &sorted.downloads {
        take_download(document, job, &mut drafts, &mut findings);
    }
    let mut models: Vec<ImportedModel> =
        drafts.into_iter().map(|draft| draft.finish(options.release, &mut findings)).collect();
    models.sort_by(|a, b| (&a.name, &a.origin).cmp(&(&b.name, &b.origin)));
    findings.extend(built.map(|built| built.finding(models.is_empty())));
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

/// Gives a download to the models that are served from it. Models that share weights share the Job; where `weights` cannot
/// say it, it stays a Job of the first.
fn take_download(
    document: &ManifestDocument,
    job: &DownloadJob,
    drafts: &mut [ImportDraft],
    findings: &mut Vec<Finding>,
) {
    let serves = |draft: &ImportDraft| draft.is_near(document) && job.serves(&draft.texts());
    let served: Vec<usize> =
        by_closeness(drafts, document).into_iter().filter(|at| drafts.get(*at).is_some_and(serves)).collect();
    let Some(first) = served.first().copied() else {
        findings.push(classify::unused_download_finding(document, job));
        return;
    };
    let taken = served.iter().filter(|at| drafts.get_mut(**at).is_some_and(|draft| draft.take_download(job))).count();
    if taken == 0
        && let Some(draft) = drafts.get_mut(first)
        && let Err(finding) = draft.carry(document)
    {
        findings.push(*finding);
    }
}

/// Gives an object to the model that uses it, else to the first there is.
fn carry_object(document: &ManifestDocument, drafts: &mut [ImportDraft], findings: &mut Vec<Finding>) {
    let near = by_closeness(drafts, document);
    let using = near.iter().copied().find(|at| drafts.get(*at).is_some_and(|draft| draft.uses(document)));
    let is_job = classify::kind_of(&document.value) == kinds::JOB.kind;
    let shares_claim =
        |at: &usize| drafts.get(*at).is_some_and(|draft| carried::shares_claim(&draft.texts(), document));
    if is_job && !near.iter().any(shares_claim) {
        findings.push(classify::unrelated_job_finding(document));
        return;
    }
    let using = if is_job { near.iter().copied().find(shares_claim) } else { using };
    let Some(owner) = using.or_else(|| near.first().copied()) else {
        findings.push(classify::lonely_object_finding(document));
        return;
    };
    let carried = drafts.get_mut(owner).map_or(Ok(()), |draft| draft.carry(document));
    match carried {
        Ok(()) => note_sharing(drafts, owner, "spec.manifests", document),
        Err(finding) => findings.push(*finding),
    }
}

/// The models that an object may belong to, those first whose manifests are in the folder that is nearest to it.
fn by_closeness(drafts: &[ImportDraft], document: &ManifestDocument) -> Vec<usize> {
    let near = |at: &usize| drafts.get(*at).is_some_and(|draft| draft.is_near(document));
    let mut places: Vec<usize> = (0..drafts.len()).filter(near).collect();
    let closeness = |at: &usize| drafts.get(*at).map_or(0, |draft| draft.root.folders_shared_with(document));
    places.sort_by_key(|at| std::cmp::Reverse(closeness(at)));
    places
}

/// Notes with the owner of an object that other models use it too, or that none does.
fn note_sharing(drafts: &mut [ImportDraft], owner: usize, path: &'static str, document: &ManifestDocument) {
    let near: Vec<usize> =
        (0..drafts.len()).filter(|at| drafts.get(*at).is_some_and(|one| one.is_near(document))).collect();
    let users: Vec<usize> =
        near.iter().copied().filter(|at| drafts.get(*at).is_some_and(|one| one.uses(document))).collect();
    let names = |places: &[usize]| -> String {
        let others = places.iter().filter(|at| **at != owner).filter_map(|at| drafts.get(*at));
        others.map(|draft| format!("`{}`", draft.model.metadata.name)).collect::<Vec<_>>().join(", ")
    };
    let object = format!("{} `{}`", classify::kind_of(&document.value), classify::name_of(&document.value));
    let note = match (users.as_slice(), near.as_slice()) {
        ([], [_, _, ..]) => format!("{object} is kept with this model: none of the graphs names it"),
        ([_, _, ..], _) => format!("{object} is kept with this model, and used by {} too", names(&users)),
        ([], _) | ([_], _) => return,
    };
    if let Some(draft) = drafts.get_mut(owner) {
        draft.notes.push((path, note));
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
