//! Deployments of one model, written with what they share: the defaults of a folder, and of the variants of one graph a
//! `model.yaml` with an overlay for each.

use super::classify::named_namespace;
use super::defaults::{DEFAULTS_FILE, DefaultLayers, Documents};
use super::families::ModelFamilies;
use super::prepared::{PreparedModel, count_errors};
use super::round_trip::{self, WrittenModel, join_path};
use super::variants::{self, ModelVariants, environment_of, environments_of, repository_yaml};
use super::{ImportedEnvironment, ImportedFile, ImportedModel, rules};
use serde_json::Value;
use stator_core::dynamo::release::Release;
use stator_core::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// How many lines defaults must save to be worth a file.
const MIN_SAVED_LINES: usize = 10;
/// How deep the folders of a family are.
const MAX_SPLITS: usize = 2;

/// Models with the files that several of them are made of.
#[derive(Debug, Default)]
pub struct ArrangedModels {
    pub models: Vec<ImportedModel>,
    pub shared_files: Vec<ImportedFile>,
    pub environments: Vec<ImportedEnvironment>,
}

/// Gives each model its place.
pub fn arrange(prepared: Vec<PreparedModel>, release: Release, findings: &mut Vec<Finding>) -> ArrangedModels {
    let mut by_name: BTreeMap<String, Vec<PreparedModel>> = BTreeMap::new();
    for model in prepared {
        by_name.entry(model.name().to_owned()).or_default().push(model);
    }
    let names: BTreeSet<String> = by_name.keys().cloned().collect();
    let families = ModelFamilies::of(by_name.values().flatten().map(|model| model.model.spec.model.as_str()));
    let mut members_of: BTreeMap<String, Vec<ModelVariants>> = BTreeMap::new();
    let groups = by_name.into_values().map(|models| without_copies(models, findings)).collect();
    for one in variants::in_environments(groups, findings) {
        let family = families.common(&one.models).filter(|family| !names.contains(family));
        // One that is alone has a place of its own, whatever it serves.
        members_of.entry(family.unwrap_or_else(|| format!("/{}", one.name()))).or_default().push(one);
    }
    let mut arranged = ArrangedModels::default();
    for (family, members) in members_of {
        let files: BTreeSet<&str> =
            members.iter().flat_map(|one| &one.models).map(|one| one.root.file.as_str()).collect();
        let folder =
            Some(family.as_str()).filter(|family| !family.starts_with('/') && members.len() > 1 && files.len() > 1);
        let layered = folder.map(|folder| FamilyLayout::below(&members, folder)).filter(|layout| {
            let apart = members.iter().map(|one| FamilyLayout::alone(one).count_lines());
            layout.count_lines().saturating_add(MIN_SAVED_LINES) <= apart.sum()
        });
        match layered.map(|layout| layout.proven(&members, release)) {
            Some(Ok((layout, faults))) => layout.write(members, faults, &mut arranged, findings),
            Some(Err(_)) | None => {
                members.into_iter().for_each(|one| arrange_alone(one, release, &mut arranged, findings));
            }
        }
    }
    let places: Vec<(String, Option<String>)> =
        arranged.models.iter().map(|model| (model.path.clone(), model.namespace.clone())).collect();
    arranged.environments = environments_of(&places);
    arranged
}

/// Models without those that say the same as another, each of which is reported.
fn without_copies(models: Vec<PreparedModel>, findings: &mut Vec<Finding>) -> Vec<PreparedModel> {
    let mut kept: Vec<PreparedModel> = Vec::new();
    for model in models {
        let namespace = |one: &PreparedModel| named_namespace(&one.root.value).map(str::to_owned);
        let is_same = |one: &&PreparedModel| {
            one.document == model.document && one.files == model.files && namespace(one) == namespace(&model)
        };
        match kept.iter().find(is_same) {
            Some(first) => {
                let message = format!(
                    "document {}: {} `{}` duplicates that of {}:{}",
                    model.root.number,
                    model.root.value["kind"].as_str().unwrap_or_default(),
                    model.name(),
                    first.root.file,
                    first.root.line,
                );
                let help = "nothing is lost: it is imported once";
                findings.push(Finding::warning(rules::DIFFERENCE_NOTE, model.root.location(), message, help));
            }
            None => kept.push(model),
        }
    }
    kept
}

/// A model that shares nothing with others.
fn arrange_alone(one: ModelVariants, release: Release, arranged: &mut ArrangedModels, findings: &mut Vec<Finding>) {
    let mut reason = None;
    if one.models.len() > 1 {
        match FamilyLayout::alone(&one).proven(std::slice::from_ref(&one), release) {
            Ok((layout, faults)) => return layout.write(vec![one], faults, arranged, findings),
            Err(fault) => reason = fault,
        }
    }
    let reason = reason.unwrap_or_else(|| "they cannot be read back as variants of one model".to_owned());
    if let Some(first) = variants::keep_first(one.models, &reason, findings) {
        let (path, text, files) = (format!("{}/model.yaml", first.name()), first.text.clone(), first.files.clone());
        arranged.models.push(first.finish(path, text, files, findings));
    }
}

/// Documents of some models, and where each is.
struct FamilyLayout {
    shared: Vec<ImportedFile>,
    /// Of each model its folder, and of each of its variants the text.
    models: Vec<(String, Vec<String>)>,
}

impl FamilyLayout {
    /// A model by itself.
    fn alone(one: &ModelVariants) -> Self {
        Self::written(std::slice::from_ref(one), vec![one.documents.clone()], vec![one.name().to_owned()], Vec::new())
    }

    /// Models below a folder, with its defaults and those of folders in it.
    fn below(members: &[ModelVariants], folder: &str) -> Self {
        let mut documents: Documents = members.iter().map(|one| one.documents.clone()).enumerate().collect();
        let mut folders: Vec<String> = members.iter().map(|one| join_path(folder, one.name())).collect();
        let mut shared = Vec::new();
        let layers = DefaultLayers::of(members, &mut documents, MAX_SPLITS);
        layers.write(members, folder, &mut folders, &mut shared);
        Self::written(members, documents.into_values().collect(), folders, shared)
    }

    fn written(
        members: &[ModelVariants],
        documents: Vec<Vec<Value>>,
        folders: Vec<String>,
        mut shared: Vec<ImportedFile>,
    ) -> Self {
        let mut models = Vec::new();
        for ((one, own), folder) in members.iter().zip(documents).zip(folders) {
            let (base, own) = one.split(own);
            if let Some(text) = base {
                shared.push(ImportedFile { path: join_path(&folder, "model.yaml"), text });
            }
            models.push((folder, own));
        }
        Self { shared, models }
    }

    fn count_lines(&self) -> usize {
        let own = self.models.iter().flat_map(|(_, texts)| texts);
        let all = self.shared.iter().map(|file| &file.text).chain(own);
        all.flat_map(|text| text.lines()).filter(|line| !line.trim_start().starts_with('#')).count()
    }

    /// The layout with what its proof finds, variant by variant.
    ///
    /// # Errors
    /// Where a model renders less than by itself, with the first fault.
    fn proven(self, members: &[ModelVariants], release: Release) -> Result<(Self, Vec<Vec<Finding>>), Option<String>> {
        let mut places = Vec::new();
        for (one, (folder, texts)) in members.iter().zip(&self.models) {
            if texts.iter().any(String::is_empty) {
                return Err(None);
            }
            for (at, model) in one.models.iter().enumerate() {
                let namespace = named_namespace(&model.root.value).map(str::to_owned);
                places.push((join_path(folder, &one.file(at)), namespace));
            }
        }
        let environments = environments_of(&places);
        let root = repository_yaml(&environments, None).map_err(|error| Some(error.to_string()))?;
        let mut files: Vec<(String, &str)> =
            self.shared.iter().map(|file| (file.path.clone(), file.text.as_str())).collect();
        if !environments.is_empty() {
            files.push((DEFAULTS_FILE.to_owned(), &root));
        }
        let mut beside = Vec::new();
        let mut written = Vec::new();
        let mut paths = places.iter().map(|(path, _)| path);
        for (one, (folder, texts)) in members.iter().zip(&self.models) {
            for ((model, own), (text, path)) in one.models.iter().zip(&one.files).zip(texts.iter().zip(&mut paths)) {
                files.push((path.clone(), text));
                beside.push((folder.clone(), own.as_slice()));
                let (root, targets) = (&model.root, model.targets.as_slice());
                written.push(WrittenModel { environment: environment_of(&environments, path), folder, root, targets });
            }
        }
        let faults = round_trip::verify_models(&round_trip::source_tree(&files, &beside), &written, release);
        let alone = members.iter().flat_map(|one| &one.models).map(|model| count_errors(&model.faults));
        let worse = faults.iter().zip(alone).find(|(faults, alone)| count_errors(faults) > *alone);
        match worse.map(|(faults, _)| faults.iter().find(|one| one.is_error())) {
            Some(fault) => Err(fault.map(|fault| fault.message.clone())),
            None => Ok((self, faults)),
        }
    }

    fn write(
        self,
        members: Vec<ModelVariants>,
        faults: Vec<Vec<Finding>>,
        arranged: &mut ArrangedModels,
        findings: &mut Vec<Finding>,
    ) {
        arranged.shared_files.extend(self.shared);
        let mut faults = faults.into_iter();
        for (one, (folder, texts)) in members.into_iter().zip(self.models) {
            let paths: Vec<String> = (0..one.models.len()).map(|at| join_path(&folder, &one.file(at))).collect();
            for ((mut model, files), (text, path)) in
                one.models.into_iter().zip(one.files).zip(texts.into_iter().zip(paths))
            {
                model.faults = faults.next().unwrap_or_default();
                arranged.models.push(model.finish(path, text, files, findings));
            }
        }
    }
}
