//! One environment of a workspace: which models belong to it, each merged, decoded and checked.

use super::check::check_merged;
use super::decode::{decode, decode_finding};
use super::lock::{self, LockCheck};
use super::manifests::read_manifests;
use super::merge::{MergedSpan, UnusedUnset, forget_unset, merge, remove_unset};
use super::model::Model;
use super::mounted_files::read_mounted_files;
use super::patterns::{included_models, unmatched_patterns};
use super::repository::Environment;
use super::schema_tree::DocumentKind;
use super::shape;
use super::shared_routes::check_routes;
use super::validate::validate_model;
use super::workspace::{ModelFiles, PackedFile, ParsedFile, Workspace, packed_model_name};
use super::yaml::{FileId, PackedNode, YamlEntry, YamlNode, YamlSpan, YamlValue};
use super::{BrokenIntent, FieldOrigins, IntentRest, ResolvedEnvironment, StoredIntent, rules};
use rayon::prelude::*;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Release;
use stator_core::finding::{self, Finding, Location};
use std::collections::{BTreeMap, BTreeSet};

/// Why an environment cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// No environment has this name.
    #[error("unknown environment `{name}`; known: {}{}", list(known), meant(nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, sorted.
        known: Vec<String>,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// None was named, and there are several.
    #[error("the repository has several environments: {}; choose one with --environment", list(known))]
    Ambiguous {
        /// What there is, sorted.
        known: Vec<String>,
    },
    /// The root file has faults, and the environment cannot be read from it.
    #[error("the environments cannot be read from {file}, which has errors; `stator validate` lists them")]
    Unreadable {
        /// The root file.
        file: String,
    },
}

fn list(known: &[String]) -> String {
    known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// One model in one environment.
enum ResolvedModel {
    Valid(Box<StoredIntent>, Vec<Finding>),
    Broken(BrokenIntent, Vec<Finding>),
}

impl ResolvedModel {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Valid(intent, _) => Some(intent.name.as_str()),
            Self::Broken(broken, _) => broken.name.as_deref(),
        }
    }
}

impl Workspace {
    /// The models of one environment, merged and checked, on all cores. The name may be left out where there is one
    /// environment.
    ///
    /// # Errors
    /// When the environment does not exist, when none is named among several, and when the root file's faults hide it.
    pub fn resolve_environment(&self, name: Option<&str>) -> Result<ResolvedEnvironment, EnvironmentError> {
        let (name, environment) = self.select_environment(name)?;
        let resolver = EnvironmentResolver::new(self, name, environment);
        let included = included_models(&self.models, &environment.include, &environment.exclude);
        let mut resolved: Vec<ResolvedModel> =
            included.into_par_iter().map(|files| resolver.resolve_model(files)).collect();
        let mut findings = self.findings.clone();
        findings.extend(unmatched_patterns(self, name));
        self.break_duplicates(&mut resolved, &mut findings);
        let mut selection = ResolvedEnvironment {
            name: name.to_owned(),
            environment: environment.clone(),
            repository: self.repository.metadata.name.to_string(),
            intents: Vec::with_capacity(resolved.len()),
            broken: self.unidentified.clone(),
            unread: self.unread.clone(),
            findings,
            model_findings: BTreeMap::new(),
            policy: self.repository.spec.policy.iter().chain(&environment.policy).cloned().collect(),
            prices: self.repository.spec.prices.clone(),
            guards: environment.guards.clone().unwrap_or_default(),
            places: self.places(),
        };
        if let Some(root) = self.root.as_ref().filter(|root| root.broken) {
            // Models that the file no longer selects may still be live.
            selection.broken.push(BrokenIntent { source: root.path.clone(), name: None });
        }
        for model in resolved {
            match model {
                ResolvedModel::Valid(intent, own) => {
                    if !own.is_empty() {
                        selection.findings.extend(own.iter().cloned());
                        selection.model_findings.insert(intent.source.clone(), own);
                    }
                    selection.intents.push(*intent);
                }
                ResolvedModel::Broken(broken, mut own) => {
                    selection.broken.push(broken);
                    selection.findings.append(&mut own);
                }
            }
        }
        selection.intents.sort_by(|a, b| a.name.cmp(&b.name));
        selection.broken.sort_by(|a, b| (&a.name, &a.source).cmp(&(&b.name, &b.source)));
        // Where unchanged models are left out, it is not known who else there is.
        if self.omitted_folders.is_empty() {
            let broken: Vec<&str> = selection.broken.iter().filter_map(|one| one.name.as_deref()).collect();
            let found = check_routes(&selection.intents, &broken);
            selection.findings.extend(found);
        }
        finding::sort_and_dedup(&mut selection.findings);
        finding::limit::limit_findings(&mut selection.findings, finding::limit::MAX_FINDINGS, &Location::default());
        Ok(selection)
    }

    fn select_environment(&self, name: Option<&str>) -> Result<(&str, &Environment), EnvironmentError> {
        let environments = &self.repository.spec.environments;
        let found = match name {
            Some(name) => environments.iter().find(|(known, _)| known.as_str() == name),
            None if environments.len() == 1 => environments.iter().next(),
            None => None,
        };
        if let Some((name, environment)) = found {
            return Ok((name.as_str(), environment));
        }
        if let Some(root) = self.root.as_ref().filter(|root| root.broken) {
            return Err(EnvironmentError::Unreadable { file: root.path.clone() });
        }
        let known = self.environment_names();
        Err(match name {
            Some(name) => {
                let nearest = finding::closest_match(name, known.iter().map(String::as_str)).map(str::to_owned);
                EnvironmentError::Unknown { name: name.to_owned(), known, nearest }
            }
            None => EnvironmentError::Ambiguous { known },
        })
    }

    /// All environments with their namespaces; none where the root file may name others.
    fn places(&self) -> BTreeSet<(String, String)> {
        let is_whole = self.root.as_ref().is_none_or(|root| !root.broken);
        let environments = self.repository.spec.environments.iter().filter(|_| is_whole);
        environments.map(|(name, one)| (name.to_string(), one.namespace.to_string())).collect()
    }

    /// Where the name of a model stands in its `model.yaml`.
    fn name_location(&self, source: &str) -> Location {
        let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
        let found = self.models.binary_search_by(|files| files.folder.as_str().cmp(folder)).ok();
        let node = found.and_then(|at| self.models.get(at)?.intent.unpack_node());
        let name = node.as_ref().and_then(|node| node.get("metadata")?.get("name"));
        name.map_or_else(|| Location::file(source), |name| name.span.location(source))
    }

    /// Two models of one name: both are broken, and each finding names the other.
    fn break_duplicates(&self, resolved: &mut [ResolvedModel], findings: &mut Vec<Finding>) {
        let mut names: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (position, model) in resolved.iter().enumerate() {
            if let Some(name) = model.name() {
                names.entry(name.to_owned()).or_default().push(position);
            }
        }
        for (name, positions) in names.into_iter().filter(|(_, positions)| positions.len() > 1) {
            let sources: Vec<String> = positions
                .iter()
                .filter_map(|position| resolved.get(*position))
                .map(|model| match model {
                    ResolvedModel::Valid(intent, _) => intent.source.clone(),
                    ResolvedModel::Broken(broken, _) => broken.source.clone(),
                })
                .collect();
            for (position, source) in positions.iter().zip(&sources) {
                let others: Vec<String> =
                    sources.iter().filter(|other| *other != source).map(|other| format!("`{other}`")).collect();
                findings.push(Finding::error(
                    rules::LAYOUT_DUPLICATE_NAME,
                    self.name_location(source),
                    format!("the name `{name}` is also used by {}", others.join(", ")),
                    "Rename one of them, or exclude one from the environment with `exclude`.",
                ));
                if let Some(model) = resolved.get_mut(*position) {
                    let own = match model {
                        ResolvedModel::Valid(_, own) | ResolvedModel::Broken(_, own) => std::mem::take(own),
                    };
                    *model =
                        ResolvedModel::Broken(BrokenIntent { source: source.clone(), name: Some(name.clone()) }, own);
                }
            }
        }
    }
}

/// What is the same for every model of an environment.
struct EnvironmentResolver<'a> {
    workspace: &'a Workspace,
    environment: &'a str,
    root_defaults: Option<&'a YamlNode>,
    environment_defaults: Option<&'a YamlNode>,
    root_broken: bool,
    release: Release,
}

impl<'a> EnvironmentResolver<'a> {
    fn new(workspace: &'a Workspace, name: &'a str, environment: &Environment) -> Self {
        let spec = workspace.root.as_ref().and_then(|root| root.node.as_ref()?.get("spec"));
        Self {
            workspace,
            environment: name,
            root_defaults: spec.and_then(|spec| spec.get("defaults")),
            environment_defaults: spec.and_then(|spec| spec.get("environments")?.get(name)?.get("defaults")),
            root_broken: workspace.root.as_ref().is_some_and(|root| root.broken),
            release: environment.platform.as_ref().map_or(Release::STABLE, Platform::release),
        }
    }

    /// The settings of the folders above a model, from the top down.
    fn folder_defaults(&self, folder: &str) -> impl Iterator<Item = &'a ParsedFile> {
        let workspace = self.workspace;
        let ends = folder.match_indices('/').map(|(end, _)| end).chain([folder.len()]);
        let above: Vec<&str> =
            std::iter::once("").chain(ends.filter_map(|end| folder.get(..end)).filter(|f| !f.is_empty())).collect();
        above.into_iter().filter_map(|folder| workspace.folders.get(folder))
    }

    fn resolve_model(&self, files: &ModelFiles) -> ResolvedModel {
        let source = &files.intent.path;
        let overlay = files.overlays.get(self.environment);
        // A lock of the environment's own is stronger than one for all.
        let lock = files.locks.get(&Some(self.environment.to_owned())).or_else(|| files.locks.get(&None));
        let broken = |findings| {
            let broken = BrokenIntent { source: source.clone(), name: packed_model_name(&files.intent) };
            ResolvedModel::Broken(broken, findings)
        };
        let unusable = self.root_broken
            || files.intent.broken
            || files.stray_overlay
            || overlay.is_some_and(|overlay| overlay.broken)
            || lock.is_some_and(|lock| lock.broken)
            || self.folder_defaults(&files.folder).any(|folder| folder.broken);
        let Some(intent) = files.intent.unpack_node().filter(|_| !unusable) else { return broken(Vec::new()) };
        let intent = &intent;
        let mut findings = Vec::new();
        let overlay = overlay.and_then(|overlay| Some((overlay, overlay.unpack_node()?)));
        let overlay = overlay.as_ref();
        if let Some((overlay, node)) = overlay {
            findings.extend(check_overlay_name(overlay, node, intent));
        }
        let (merged, without_effect) = self.merge_layers(files, intent, overlay.map(|(_, node)| node));
        findings.extend(self.no_effect_findings(&without_effect));
        let model: Model = match decode(&merged) {
            Ok(model) => model,
            Err(error) => {
                let file_name = |file| self.file_name(file).unwrap_or(source).to_owned();
                let before = findings.len();
                check_merged(&merged, &file_name, &mut findings);
                if findings.len() == before {
                    let span = error.span.unwrap_or(merged.span);
                    findings.push(decode_finding(span.location(&file_name(span.file)), &error.message));
                }
                return broken(findings);
            }
        };
        let packed = PackedNode::of(&merged);
        let origins = FieldOrigins::new(self.workspace.file_names.clone(), merged);
        findings.extend(validate_model(&model, &origins, self.release));
        let there = self.workspace.mounted_files.get(&files.folder).map_or(&[][..], Vec::as_slice);
        let contents = read_mounted_files(&model, &origins, &files.folder, there, &mut findings);
        let manifests = read_manifests(&model, &origins, &files.folder, there, &mut findings);
        let mut holds = None;
        if let Some((document, node)) = lock.and_then(|lock| Some((lock, lock.unpack_node()?))) {
            match lock::check_lock(&document.path, &node, &model, &origins) {
                LockCheck::Valid(lock) => holds = Some(lock),
                LockCheck::Unused(finding) | LockCheck::Damaged(finding) => findings.push(finding),
            }
        }
        if findings.iter().any(Finding::is_error) {
            return broken(findings);
        }
        let rest = IntentRest { files: contents, manifests, lock: holds };
        let intent = StoredIntent {
            name: model.metadata.name,
            source: source.clone(),
            has_route: model.spec.route.is_some(),
            merged: packed,
            file_names: self.workspace.file_names.clone(),
            rest: Some(Box::new(rest)).filter(|rest| !rest.is_empty()),
        };
        ResolvedModel::Valid(Box::new(intent), findings)
    }

    fn file_name(&self, file: FileId) -> Option<&str> {
        usize::try_from(file).ok().and_then(|file| self.workspace.file_names.get(file)).map(|name| &**name)
    }

    /// Root defaults, folder defaults from the top down, environment defaults, intent, overlay: weakest first.
    ///
    /// Gives, too, what the intent and its overlay take away for nothing: shared defaults may take away what only some models
    /// have.
    fn merge_layers(&self, files: &ModelFiles, intent: &YamlNode, overlay: Option<&YamlNode>) -> (YamlNode, NoEffect) {
        let folders = self.folder_defaults(&files.folder).filter_map(|folder| folder.node.as_ref()?.get("spec"));
        let defaults: Vec<&YamlNode> =
            self.root_defaults.into_iter().chain(folders).chain(self.environment_defaults).collect();
        let with_overlay = overlay.map(|overlay| own_layers(intent.clone(), overlay));
        let own = with_overlay.as_ref().unwrap_or(intent).get("spec");
        let workers = shape::worker_fields(own, defaults.iter().copied());
        let mut spec = YamlNode { value: YamlValue::Map(Vec::new()), span: intent.span };
        for layer in defaults {
            merge_spec(&mut spec, layer, &workers, MergedSpan::Over);
        }
        if let Some(own) = own {
            shape::drop_other_shapes(&mut spec, own);
        }
        let mut without_effect = NoEffect::default();
        for (document, maps) in [(Some(intent), MergedSpan::Over), (overlay, MergedSpan::Base)] {
            if let Some(layer) = document.and_then(|document| document.get("spec")) {
                without_effect.extend(merge_spec(&mut spec, layer, &workers, maps));
            }
        }
        forget_unset(&mut spec);
        let mut merged = intent.clone();
        if let Some(overlay) = overlay {
            merge(&mut merged, overlay, MergedSpan::Base, Some(DocumentKind::Model.schema()));
        }
        put_spec(&mut merged, spec);
        (merged, without_effect)
    }

    fn no_effect_findings(&self, without_effect: &NoEffect) -> Vec<Finding> {
        let unset = without_effect.unset.iter().map(|one| self.unused_unset_finding(one));
        let removed = without_effect.removed.iter().map(|span| {
            Finding::warning(
                rules::MODEL_UNSET,
                span.location(self.file_name(span.file).unwrap_or_default()),
                "no weaker layer has this item in the list",
                "Remove it from `remove`, or correct it; `stator render --show-origins` shows what each layer sets.",
            )
        });
        unset.chain(removed).collect()
    }

    fn unused_unset_finding(&self, unused: &UnusedUnset) -> Finding {
        let file = self.file_name(unused.span.file).unwrap_or_default();
        Finding::warning(
            rules::MODEL_UNSET,
            unused.span.location(file),
            format!("no weaker layer sets `spec.{}`", unused.path),
            "Remove it from `unset`, or correct the path; `stator render --show-origins` shows what each layer sets.",
        )
    }
}

/// What a layer takes away that no weaker one has.
#[derive(Default)]
struct NoEffect {
    unset: Vec<UnusedUnset>,
    /// Where items of lists are named.
    removed: Vec<YamlSpan>,
}

impl NoEffect {
    fn extend(&mut self, mut other: Self) {
        self.unset.append(&mut other.unset);
        self.removed.append(&mut other.removed);
    }
}

/// Merges one layer of `spec` over the weaker ones. `workers` are the fields that the model has its workers in.
fn merge_spec(base: &mut YamlNode, layer: &YamlNode, workers: &[&str], maps: MergedSpan) -> NoEffect {
    let place = DocumentKind::Model.schema().field("spec");
    let unset = remove_unset(base, layer);
    let mut removed = Vec::new();
    let (of_all, rest) = shape::split_workers(layer, workers);
    for over in of_all.iter().chain([&*rest]) {
        drop_exclusive_field(base, over);
        shape::drop_other_programs(base, over);
        removed.append(&mut merge(base, over, maps, place));
    }
    NoEffect { unset, removed }
}

/// `image` stands in place of `runtime`: the stronger layer that gives one of them takes the other away, or a default
/// could never be replaced. So does `from` in place of `text`, of each file.
fn drop_exclusive_field(base: &mut YamlNode, over: &YamlNode) {
    drop_other_of_pair(base, over, ["image", "runtime"]);
    let YamlValue::Map(entries) = &mut base.value else { return };
    let (Some(files), Some(changes)) = (entries.iter_mut().find(|entry| &*entry.key == "files"), over.get("files"))
    else {
        return;
    };
    let YamlValue::Map(files) = &mut files.value.value else { return };
    for file in files {
        if let Some(change) = changes.get(&file.key) {
            drop_other_of_pair(&mut file.value, change, ["from", "text"]);
        }
    }
}

fn drop_other_of_pair(base: &mut YamlNode, over: &YamlNode, [one, other]: [&str; 2]) {
    let YamlValue::Map(entries) = &mut base.value else { return };
    for (given, replaced) in [(one, other), (other, one)] {
        if over.get(given).is_some() && over.get(replaced).is_none() {
            entries.retain(|entry| &*entry.key != replaced);
        }
    }
}

fn spec_of(document: &mut YamlNode) -> Option<&mut YamlNode> {
    let YamlValue::Map(entries) = &mut document.value else { return None };
    entries.iter_mut().find(|entry| &*entry.key == "spec").map(|entry| &mut entry.value)
}

/// The intent with its overlay: what a model says of itself.
fn own_layers(mut intent: YamlNode, overlay: &YamlNode) -> YamlNode {
    if let (Some(spec), Some(change)) = (spec_of(&mut intent), overlay.get("spec")) {
        remove_unset(spec, change);
    }
    merge(&mut intent, overlay, MergedSpan::Base, Some(DocumentKind::Model.schema()));
    intent
}

/// Gives a document its merged `spec`.
fn put_spec(document: &mut YamlNode, spec: YamlNode) {
    let span = document.span;
    let YamlValue::Map(entries) = &mut document.value else { return };
    match entries.iter_mut().find(|entry| &*entry.key == "spec") {
        Some(entry) => entry.value = spec,
        None => entries.push(YamlEntry { key: "spec".into(), key_span: span, value: spec }),
    }
}

/// An overlay may repeat its intent's name, and may not change it.
fn check_overlay_name(overlay: &PackedFile, node: &YamlNode, intent: &YamlNode) -> Option<Finding> {
    let name = |node: &YamlNode| node.get("metadata").and_then(|metadata| metadata.get("name")).cloned();
    let (given, wanted) = (name(node)?, name(intent)?);
    let (text, wanted) = (given.as_str()?, wanted.as_str()?.to_owned());
    (text != wanted).then(|| {
        Finding::error(
            rules::LAYOUT_OVERLAY_NAME,
            given.span.location(&overlay.path),
            format!("the overlay is named `{text}`, its intent `{wanted}`"),
            "Remove the name from the overlay; a model has one name in all environments.",
        )
    })
}
