//! A repository's files → documents, each checked on its own; what depends on an environment comes later.

use super::check::check_document;
use super::decode::{decode, decode_finding};
use super::git_secrets::token_findings;
use super::globs::check_pattern;
use super::origins::FileNames;
use super::policy::{MAX_RULES, compile_expression};
use super::repository::{Defaults, Repository, fallback_environments, fallback_repository, recover_repository};
use super::scalar::ModelName;
use super::schema::SchemaKind;
use super::yaml::{FileId, PackedNode, YamlNode, parse_yaml};
use super::{BrokenIntent, FileRole, SourceFile, SourceTree, TreeSize, UnreadCause, UnreadPlace, rules};
use rayon::prelude::*;
use stator_core::finding::limit::{MAX_FILE_FINDINGS, MAX_FINDINGS, limit_findings};
use stator_core::finding::{self, Finding, Location};
use std::collections::{BTreeMap, BTreeSet};

/// How a file begins that Git LFS keeps elsewhere.
pub(super) const LFS_POINTER_START: &[u8] = b"version https://git-lfs.github.com/spec/";
/// The file name of a repository's and a folder's settings.
const SETTINGS_FILE_NAME: &str = "stator.yaml";

/// A repository as parsed: everything that does not depend on the environment.
#[derive(Debug)]
pub struct Workspace {
    /// The root file, or the one that a repository without any has. Where the root file has faults, what could be
    /// read of it; every model is broken then.
    pub repository: Repository,
    /// How many files were read.
    pub files: usize,
    /// How much there was to read.
    pub size: TreeSize,
    /// Faults of files, whatever the environment. Sorted.
    pub findings: Vec<Finding>,
    pub(super) file_names: FileNames,
    /// The root file's document.
    pub(super) root: Option<ParsedFile>,
    /// Folder → its `stator.yaml` of kind `Defaults`.
    pub(super) folders: BTreeMap<String, ParsedFile>,
    /// Folder of a model → files that it may mount, sorted by path.
    pub(super) mounted_files: BTreeMap<String, Vec<SourceFile>>,
    /// Folder → its model, sorted.
    pub(super) models: Vec<ModelFiles>,
    /// Files that may hide a model whose name nobody knows.
    pub(super) unidentified: Vec<BrokenIntent>,
    /// What may hold models and is not read. Sorted.
    pub(super) unread: Vec<UnreadPlace>,
    /// Folders of models that are not among these, as nothing of them changed.
    pub(super) omitted_folders: BTreeSet<String>,
}

/// One file that was read. Those of models stay packed until they are looked into.
#[derive(Debug)]
pub(super) struct ParsedFile<N = YamlNode> {
    pub(super) path: String,
    /// The document, as far as it could be read.
    pub(super) node: Option<N>,
    /// It has errors of its own: nothing may be built on it.
    pub(super) broken: bool,
    /// A key or the whole document is there twice, so that what was read of it may not be what is meant.
    pub(super) is_ambiguous: bool,
}

pub(super) type PackedFile = ParsedFile<PackedNode>;

impl PackedFile {
    fn unpack(self) -> ParsedFile {
        let Self { path, node, broken, is_ambiguous } = self;
        ParsedFile { path, node: node.as_ref().map(PackedNode::unpack), broken, is_ambiguous }
    }

    pub(super) fn unpack_node(&self) -> Option<YamlNode> {
        self.node.as_ref().map(PackedNode::unpack)
    }
}

/// A `model.yaml` and its overlays.
#[derive(Debug)]
pub(super) struct ModelFiles {
    pub(super) folder: String,
    pub(super) intent: PackedFile,
    /// Environment → overlay.
    pub(super) overlays: BTreeMap<String, PackedFile>,
    /// Environment, or `None` for all → lock.
    pub(super) locks: BTreeMap<Option<String>, PackedFile>,
    /// An overlay is for an environment that does not exist. Which one was meant is unknown, so none may use the model.
    pub(super) stray_overlay: bool,
}

fn split_folder(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

struct LoadedFile {
    role: FileRole,
    kind: Option<SchemaKind>,
    document: PackedFile,
    findings: Vec<Finding>,
}

fn load_file(position: usize, file: &SourceFile) -> LoadedFile {
    let role = FileRole::of_name(split_folder(&file.path).1);
    let mut findings = Vec::new();
    let mut node = None;
    let mut kind = None;
    match &file.content {
        Err(_) if matches!(role, FileRole::Misnamed { .. }) => {}
        Err(reason) => findings.push(Finding::error(
            rules::FILE_UNREADABLE,
            Location::file(&file.path),
            format!("the file cannot be read: {reason}"),
            "Make it readable, or remove it.",
        )),
        Ok(_) if role == FileRole::Other => {}
        Ok(bytes) if matches!(role, FileRole::Misnamed { .. }) => {
            let parsed = parse_yaml(bytes, FileId::try_from(position).unwrap_or(FileId::MAX), &file.path);
            let is_whole = parsed.findings.iter().all(|one| !one.is_error());
            node = parsed.root.filter(|node| is_whole && is_ours(node));
        }
        Ok(bytes) if bytes.starts_with(LFS_POINTER_START) => findings.push(Finding::error(
            rules::FILE_UNREADABLE,
            Location::file(&file.path),
            "the file cannot be read: it is a Git LFS pointer, and stator does not fetch from LFS",
            "Take it out of LFS: remove its pattern from `.gitattributes` and add the file again.",
        )),
        Ok(bytes) => {
            let parsed = parse_yaml(bytes, FileId::try_from(position).unwrap_or(FileId::MAX), &file.path);
            findings = parsed.findings;
            findings.extend(token_findings(&file.path, bytes));
            kind = match &role {
                FileRole::Intent => Some(SchemaKind::Intent),
                FileRole::Overlay(_) => Some(SchemaKind::Overlay),
                FileRole::Lock(_) => Some(SchemaKind::Lock),
                FileRole::Settings => Some(settings_kind(&file.path, parsed.root.as_ref())),
                FileRole::Misnamed { .. } | FileRole::Other => None,
            };
            node = parsed.root;
            let nested = role == FileRole::Settings && file.path != SETTINGS_FILE_NAME;
            match (&node, kind) {
                (Some(node), Some(_)) if nested && has_kind(node, "Repository") => findings.push(Finding::error(
                    rules::SCHEMA_KIND,
                    node.get("kind").map_or(node.span, |kind| kind.span).location(&file.path),
                    "a repository inside a repository: this `stator.yaml` is below the root one",
                    "Write `kind: Defaults` and a `spec` for the models of this folder, or move the file to the root.",
                )),
                (Some(node), Some(kind)) => check_document(kind, node, &file.path, &mut findings),
                (_, _) => {}
            }
        }
    }
    let broken = findings.iter().any(Finding::is_error);
    let is_ambiguous =
        findings.iter().any(|one| [rules::YAML_DUPLICATE_KEY, rules::YAML_DOCUMENTS].contains(&one.rule));
    limit_findings(&mut findings, MAX_FILE_FINDINGS, &Location::file(&file.path));
    let node = node.as_ref().map(PackedNode::of);
    LoadedFile { role, kind, document: ParsedFile { path: file.path.clone(), node, broken, is_ambiguous }, findings }
}

/// Below the root a settings file holds defaults, at the root it says itself what it is.
fn settings_kind(path: &str, node: Option<&YamlNode>) -> SchemaKind {
    if path == SETTINGS_FILE_NAME && !node.is_some_and(|node| has_kind(node, "Defaults")) {
        SchemaKind::Repository
    } else {
        SchemaKind::Defaults
    }
}

/// Whether a document says that it is stator's.
fn is_ours(node: &YamlNode) -> bool {
    node.get("apiVersion").and_then(YamlNode::as_str).is_some_and(|version| version.starts_with("stator.dev/"))
}

fn has_kind(node: &YamlNode, kind: &str) -> bool {
    node.get("kind").and_then(YamlNode::as_str) == Some(kind)
}

impl Workspace {
    /// Parses every file of a repository, on all cores. Never fails: faults become findings, and what they touch is
    /// broken.
    pub fn parse(tree: &SourceTree) -> Self {
        let names: FileNames = tree.files.iter().map(|file| file.path.as_str().into()).collect();
        let loaded: Vec<LoadedFile> =
            tree.files.par_iter().enumerate().map(|(position, file)| load_file(position, file)).collect();
        let mut workspace = Self {
            repository: fallback_repository(),
            files: tree.files.len(),
            size: tree.size(),
            findings: Vec::new(),
            file_names: names,
            root: None,
            folders: BTreeMap::new(),
            mounted_files: tree.mounted_files.clone(),
            models: Vec::new(),
            unidentified: Vec::new(),
            unread: tree.unread.clone(),
            omitted_folders: tree.omitted_folders.clone(),
        };
        let mut models: BTreeMap<String, ModelFiles> = BTreeMap::new();
        let mut overlays: Vec<(String, PackedFile)> = Vec::new();
        let mut locks: Vec<(Option<String>, PackedFile)> = Vec::new();
        let mut misnamed: Vec<(String, ParsedFile)> = Vec::new();
        for mut file in loaded {
            workspace.findings.append(&mut file.findings);
            let document = file.document;
            let folder = split_folder(&document.path).0.to_owned();
            match file.role {
                FileRole::Settings if file.kind == Some(SchemaKind::Repository) => {
                    workspace.root = Some(document.unpack())
                }
                // Unreadable at the root: it may have been the repository's.
                FileRole::Settings if file.kind.is_none() && folder.is_empty() => {
                    workspace.root = Some(document.unpack())
                }
                FileRole::Settings => {
                    workspace.folders.insert(folder, document.unpack());
                }
                FileRole::Intent => {
                    let files = ModelFiles {
                        folder: folder.clone(),
                        intent: document,
                        overlays: BTreeMap::new(),
                        locks: BTreeMap::new(),
                        stray_overlay: false,
                    };
                    models.insert(folder, files);
                }
                FileRole::Overlay(environment) => overlays.push((environment, document)),
                FileRole::Lock(environment) => locks.push((environment, document)),
                FileRole::Misnamed { meant } => misnamed.push((meant, document.unpack())),
                FileRole::Other if document.broken => {
                    workspace.unidentified.push(BrokenIntent { source: document.path, name: None });
                }
                FileRole::Other => {}
            }
        }
        let mounted: BTreeSet<&str> = tree.mounted_files.values().flatten().map(|file| file.path.as_str()).collect();
        // A file that pods mount may be called as it likes.
        for (meant, document) in misnamed.into_iter().filter(|(_, document)| !mounted.contains(document.path.as_str()))
        {
            workspace.report_misnamed(&models, meant, document);
        }
        workspace.read_repository();
        workspace.check_root();
        workspace.check_folders();
        for (environment, overlay) in overlays {
            workspace.attach_overlay(&mut models, environment, overlay);
        }
        for (environment, lock) in locks {
            workspace.attach_lock(&mut models, environment, lock);
        }
        workspace.models = models.into_values().collect();
        workspace.unread.sort();
        finding::sort_and_dedup(&mut workspace.findings);
        limit_findings(&mut workspace.findings, MAX_FINDINGS, &Location::default());
        workspace
    }

    /// Says of a file with nearly a right name what it should be called, where it was meant to be ours. Renamed, a root
    /// file would take its environments and guards along, so that one is an error.
    fn report_misnamed(&mut self, models: &BTreeMap<String, ModelFiles>, meant: String, document: ParsedFile) {
        let (folder, name) = split_folder(&document.path);
        let is_model_file = meant != SETTINGS_FILE_NAME;
        let is_plain = meant == "model.yaml" || !is_model_file;
        if document.node.is_none() && !is_plain && !models.contains_key(folder) {
            return; // A name like `model-00001.yaml` is nobody's in particular.
        }
        let join = if folder.is_empty() { "" } else { "/" };
        let message = format!("`{name}` is not read; did you mean `{meant}`?");
        let help = format!("Rename the file to `{folder}{join}{meant}`, or to something else if it is not for stator.");
        let location = Location::file(&document.path);
        let is_repository = document.node.as_ref().is_some_and(|node| has_kind(node, "Repository"));
        if is_repository && folder.is_empty() && !is_model_file && self.root.is_none() {
            self.findings.push(Finding::error(rules::LAYOUT_FILE_NAME, location, message, help));
            self.root = Some(ParsedFile { broken: true, ..document });
            return;
        }
        if is_model_file {
            let model = document.node.as_ref().filter(|node| has_kind(node, "Model"));
            let model = model.and_then(|node| model_name(node, document.is_ambiguous));
            let cause = UnreadCause::Misnamed { meant, model };
            self.unread.push(UnreadPlace { path: document.path, cause });
        }
        self.findings.push(Finding::warning(rules::LAYOUT_FILE_NAME, location, message, help));
    }

    /// True when a `stator.yaml` at the root gives the repository its name. Any folder without one is `default`.
    pub fn is_named(&self) -> bool {
        self.root.is_some()
    }

    /// Lets the documents of models go, once their environment is rendered: ten thousand of them take a lot of memory.
    /// Every environment has no models from then on.
    pub fn forget_models(&mut self) {
        self.models = Vec::new();
        self.folders = BTreeMap::new();
        self.mounted_files = BTreeMap::new();
    }

    /// The environments' names, sorted.
    pub fn environment_names(&self) -> Vec<String> {
        self.repository.spec.environments.keys().map(ToString::to_string).collect()
    }

    fn read_repository(&mut self) {
        if let Some(root) = &mut self.root {
            match root.node.as_ref().map(|node| (node, decode::<Repository>(node))) {
                Some((_, Ok(repository))) => self.repository = repository,
                Some((node, Err(error))) => {
                    if !root.broken {
                        let location = error.span.unwrap_or(node.span).location(&root.path);
                        self.findings.push(decode_finding(location, &error.message));
                        root.broken = true;
                    }
                    self.repository = recover_repository(node);
                }
                None => root.broken = true,
            }
        }
        if self.repository.spec.environments.is_empty() && !self.root.as_ref().is_some_and(|root| root.broken) {
            self.repository.spec.environments = fallback_environments();
        }
    }

    /// Policies and globs of the root file, which only look like text to the schema.
    fn check_root(&mut self) {
        let Some(root) = &mut self.root else { return };
        let Some(spec) = root.node.as_ref().and_then(|node| node.get("spec")) else { return };
        let before = self.findings.len();
        let environments = spec.get("environments").map(YamlNode::entries).unwrap_or_default();
        for holder in std::iter::once(spec).chain(environments.iter().map(|entry| &entry.value)) {
            let policy = YamlNode::items_of(holder.get("policy"));
            if let Some(superfluous) = policy.get(MAX_RULES) {
                self.findings.push(Finding::error(
                    rules::POLICY_COMPILE,
                    superfluous.span.location(&root.path),
                    format!("more than {MAX_RULES} rules of policy"),
                    "Put several conditions into one expression, with `&&`.",
                ));
            }
            for rule in policy.iter().take(MAX_RULES) {
                let Some(expression) = rule.get("expression") else { continue };
                if let Err(reason) = compile_expression(expression.as_str().unwrap_or_default()) {
                    self.findings.push(Finding::error(
                        rules::POLICY_COMPILE,
                        expression.span.location(&root.path),
                        format!("not a CEL expression: {reason}"),
                        "Correct it; `stator explain policy` shows the variables of an expression.",
                    ));
                }
            }
            for pattern in
                YamlNode::items_of(holder.get("include")).iter().chain(YamlNode::items_of(holder.get("exclude")))
            {
                if let Err(error) = check_pattern(pattern.as_str().unwrap_or_default()) {
                    self.findings.push(Finding::error(
                        rules::LAYOUT_GLOB,
                        pattern.span.location(&root.path),
                        format!("not a glob: {error}"),
                        "Correct it: `*` matches within a folder, `**` over folders.",
                    ));
                }
            }
        }
        for entry in environments.iter().filter(|entry| &*entry.key == "lock") {
            self.findings.push(Finding::error(
                rules::LAYOUT_ENVIRONMENT_NAME,
                entry.key_span.location(&root.path),
                "an environment named `lock`: its overlays would be `model.lock.yaml`, which is the name of locks",
                "Rename the environment.",
            ));
        }
        root.broken |= self.findings.len() > before;
    }

    fn check_folders(&mut self) {
        for document in self.folders.values_mut().filter(|document| !document.broken) {
            let Some(node) = &document.node else { continue };
            if let Err(error) = decode::<Defaults>(node) {
                let location = error.span.unwrap_or(node.span).location(&document.path);
                self.findings.push(decode_finding(location, &error.message));
                document.broken = true;
            }
        }
    }

    fn attach_overlay(&mut self, models: &mut BTreeMap<String, ModelFiles>, environment: String, overlay: PackedFile) {
        let folder = split_folder(&overlay.path).0;
        let Some(model) = models.get_mut(folder) else {
            self.findings.push(Finding::error(
                rules::LAYOUT_OVERLAY_ORPHAN,
                Location::file(&overlay.path),
                "an overlay without its intent: there is no `model.yaml` beside it",
                "Add the `model.yaml`, or remove the overlay with the model.",
            ));
            let name = packed_model_name(&overlay);
            self.unidentified.push(BrokenIntent { source: overlay.path, name });
            return;
        };
        let known: BTreeSet<&str> = self.repository.spec.environments.keys().map(ModelName::as_str).collect();
        if !known.contains(environment.as_str()) {
            // With a broken root file the environments are not all known, and its own findings say enough.
            if !self.root.as_ref().is_some_and(|root| root.broken) {
                self.findings.push(unknown_environment(&overlay.path, &environment, &known));
            }
            model.stray_overlay = true;
        }
        model.overlays.insert(environment, overlay);
    }
}

impl Workspace {
    /// A lock hides no model, so one that is out of place is only said to be.
    fn attach_lock(
        &mut self,
        models: &mut BTreeMap<String, ModelFiles>,
        environment: Option<String>,
        lock: PackedFile,
    ) {
        let Some(model) = models.get_mut(split_folder(&lock.path).0) else {
            self.findings.push(Finding::warning(
                rules::LOCK_UNUSED,
                Location::file(&lock.path),
                "a lock without its intent: there is no `model.yaml` beside it",
                "Remove it, or restore the `model.yaml` from git.",
            ));
            return;
        };
        let root_broken = self.root.as_ref().is_some_and(|root| root.broken);
        let known = |name: &String| self.repository.spec.environments.keys().any(|known| known.as_str() == name);
        if let Some(name) = environment.as_ref().filter(|name| !root_broken && !known(name)) {
            self.findings.push(Finding::warning(
                rules::LOCK_UNUSED,
                Location::file(&lock.path),
                format!("lock for unknown environment `{name}`"),
                "Rename it after an environment, or remove it.",
            ));
        }
        model.locks.insert(environment, lock);
    }
}

fn unknown_environment(path: &str, environment: &str, known: &BTreeSet<&str>) -> Finding {
    let list: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let folder = split_folder(path).0;
    let join = if folder.is_empty() { "" } else { "/" };
    let help = match finding::closest_match(environment, known.iter().copied()) {
        Some(meant) => format!("Did you mean `{meant}`? Rename the file to `{folder}{join}model.{meant}.yaml`."),
        None => format!("Rename the file, or add `{environment}` to `spec.environments` in the root `stator.yaml`."),
    };
    Finding::error(
        rules::LAYOUT_OVERLAY_ENVIRONMENT,
        Location::file(path),
        format!("overlay for unknown environment `{environment}`; known: {}", list.join(", ")),
        help,
    )
}

/// `metadata.name`, as far as it can be read. A file that is ambiguous may hold another name as well.
pub(super) fn packed_model_name(document: &PackedFile) -> Option<String> {
    model_name(&document.unpack_node()?, document.is_ambiguous)
}

fn model_name(node: &YamlNode, is_ambiguous: bool) -> Option<String> {
    let name = node.get("metadata")?.get("name")?.as_str().filter(|_| !is_ambiguous);
    name.map(str::to_owned)
}
