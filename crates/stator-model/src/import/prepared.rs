//! A model that is ready to be written, by itself or with what it shares with others.

use super::documents::ManifestDocument;
use super::round_trip::{self, WrittenModel};
use super::{FieldCoverage, ImportedFile, ImportedModel, classify, common_parts, rules, write};
use crate::intent::model::Model;
use crate::intent::scalar::VolumeName;
use serde_json::{Value, json};
use stator_core::dynamo::release::Release;
use stator_core::finding::Finding;

/// A model that is ready to be written.
#[derive(Debug)]
pub struct PreparedModel {
    /// The graph or request that it was made of.
    pub root: ManifestDocument,
    /// The model.
    pub model: Model,
    /// Its document.
    pub document: Value,
    /// What stands first in its file.
    pub head: String,
    /// What a reader should know, by path in the model.
    pub notes: Vec<(&'static str, String)>,
    /// All its manifests.
    pub targets: Vec<Value>,
    /// The files of its folder that it names.
    pub files: Vec<ImportedFile>,
    /// Its text, written by itself; empty where it cannot be written.
    pub text: String,
    /// What the proof of that text finds.
    pub faults: Vec<Finding>,
    renamed: Vec<VolumeName>,
    coverage: FieldCoverage,
}

/// A model that has all its parts.
#[derive(Debug)]
pub struct UnwrittenModel {
    /// The graph or request that it was made of.
    pub root: ManifestDocument,
    /// The model, its other objects among its manifests.
    pub model: Model,
    /// What a reader should know, by path in the model.
    pub notes: Vec<(&'static str, String)>,
    /// All its manifests.
    pub targets: Vec<Value>,
    /// The files that it names.
    pub files: Vec<ImportedFile>,
    /// The ConfigMaps that get another name.
    pub renamed: Vec<VolumeName>,
    /// How much of its manifests has fields.
    pub coverage: FieldCoverage,
}

impl PreparedModel {
    /// Writes a model by itself, as short as it renders back.
    pub fn of(unwritten: UnwrittenModel, release: Release) -> Self {
        let UnwrittenModel { root, mut model, notes, targets, files: mut own_files, renamed, coverage } = unwritten;
        let head = format!("Imported by stator from {}, document {}.", root.file, root.number);
        let files = write::take_manifests(&mut model).map(|mut files| {
            files.append(&mut own_files);
            files
        });
        let mut prepared = Self {
            root,
            document: Value::Null,
            head,
            notes,
            targets,
            files: Vec::new(),
            text: String::new(),
            faults: Vec::new(),
            renamed,
            coverage,
            model,
        };
        let written = files.and_then(|files| {
            prepared.files = files;
            let plain = prepared.proven(&prepared.model, release)?;
            let short = common_parts::with_common_parts(&prepared.model);
            let short = short.and_then(|short| Some((prepared.proven(&short, release).ok()?, short)));
            Ok((plain, short))
        });
        match written {
            Ok((plain, short)) => {
                let short = short.filter(|((_, faults), _)| count_errors(faults) <= count_errors(&plain.1));
                let ((text, faults), model) = short.unwrap_or((plain, prepared.model.clone()));
                prepared.document = json!(model);
                (prepared.text, prepared.faults, prepared.model) = (text, faults, model);
            }
            Err(error) => {
                let (place, help) = (prepared.root.location(), "import the others");
                prepared.faults.push(Finding::error(rules::NO_MODEL, place, error.to_string(), help));
            }
        }
        prepared
    }

    fn proven(&self, model: &Model, release: Release) -> Result<(String, Vec<Finding>), write::WriteError> {
        let text = write::document_yaml(model, &self.head, &self.notes)?;
        let tree = round_trip::source_tree(&[("model.yaml".to_owned(), &text)], &[(String::new(), &self.files)]);
        let written = WrittenModel { environment: None, folder: "", root: &self.root, targets: &self.targets };
        let faults = round_trip::verify_models(&tree, &[written], release).into_iter().flatten().collect();
        Ok((text, faults))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.model.metadata.name.as_str()
    }

    /// What is to be said of it, and the model at its place: the path of its file, with its text.
    pub fn finish(
        mut self,
        path: String,
        text: String,
        files: Vec<ImportedFile>,
        findings: &mut Vec<Finding>,
    ) -> ImportedModel {
        let (root, number) = (&self.root, self.root.number);
        let proven = !text.is_empty() && count_errors(&self.faults) == 0;
        findings.append(&mut self.faults);
        for config_map in &self.renamed {
            let message = format!(
                "document {number}: ConfigMap `{config_map}` becomes files, and its name gets a digest of them: a graph that \
                 runs with it restarts once"
            );
            let help = "nothing for a new graph; import one that runs with `--from-cluster`, which keeps the name";
            findings.push(Finding::warning(rules::DIFFERENCE_NOTE, root.location(), message, help));
        }
        for (_, note) in &self.notes {
            let help = "see the comment in the model, and correct it";
            let message = format!("document {number}: {note}");
            findings.push(Finding::warning(rules::DIFFERENCE_NOTE, root.location(), message, help));
        }
        ImportedModel {
            name: self.name().to_owned(),
            path,
            namespace: valid_namespace(root, findings),
            origin: (root.file.clone(), number),
            text,
            files,
            // What was left out is not rendered back, however well the rest is.
            round_trips: proven && !root.is_cut,
            coverage: self.coverage,
        }
    }
}

/// How many errors there are.
pub fn count_errors(faults: &[Finding]) -> usize {
    faults.iter().filter(|one| one.is_error()).count()
}

/// The namespace of a manifest, where it is the name of one: what was meant to be replaced by hand (`<your-namespace>`) is
/// reported and left out.
fn valid_namespace(root: &ManifestDocument, findings: &mut Vec<Finding>) -> Option<String> {
    let text = classify::namespace_of(&root.value)?;
    if classify::is_namespace(text) {
        return Some(text.to_owned());
    }
    let message = format!("document {}: namespace `{text}` is a placeholder, and is left out", root.number);
    let help = "name the namespace with `-n NAMESPACE`, or in the environment of stator.yaml";
    findings.push(Finding::warning(rules::PLACEHOLDER, root.at_text("metadata.namespace"), message, help));
    None
}
