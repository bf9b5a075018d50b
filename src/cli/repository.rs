//! From a path on the command line to models, and from there to desired objects.

use super::args::{EmptyArgs, EnvironmentArgs};
use super::error::CliError;
use super::files;
use super::output::Output;
use super::targets::{TargetArgs, TargetedModels};
use jiff::Timestamp;
pub use stator_cluster::sync::DesiredState;
pub use stator_cluster::sync::desired::target_of;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Release;
use stator_core::finding::Finding;
use stator_git::source::{self, Checkout, RepositoryScope, ScopePart};
use stator_model::fleet_policy::{FleetPolicies, JudgedSource, SourcePolicies};
use stator_model::intent::scalar::DnsName;
use stator_model::intent::{EnvironmentError, FileRole, ResolvedEnvironment, SourceFile, SourceTree, Workspace};
use std::path::Path;
use std::sync::Arc;

/// A repository, read and parsed.
#[derive(Debug)]
pub struct OpenedRepository {
    /// Its files.
    pub checkout: Checkout,
    /// What they say, whatever the environment.
    pub workspace: Workspace,
    /// Which of its models are meant.
    pub models: TargetedModels,
}

/// Reads and parses the repository that a path lies in, and says what is worth a word.
pub fn open(path: &Path, output: &Output) -> Result<OpenedRepository, CliError> {
    let checkout = source::open(path)?;
    let models = TargetedModels::of_scope(checkout.scope.clone());
    Ok(parse(checkout, models, output))
}

/// Reads and parses a whole repository, with other texts in place of those of some files: what an editor has not saved.
pub fn open_edited<'a>(
    root: &Path,
    edited: impl Iterator<Item = (&'a Path, Arc<[u8]>)>,
    output: &Output,
) -> Result<OpenedRepository, CliError> {
    let mut checkout = source::open(root)?;
    let files = &mut checkout.tree.files;
    for (path, text) in edited {
        let Some(path) = path.strip_prefix(&checkout.root).ok().and_then(Path::to_str) else { continue };
        let path = path.replace(std::path::MAIN_SEPARATOR, "/");
        match files.binary_search_by(|known| known.path.cmp(&path)) {
            Ok(at) => {
                if let Some(file) = files.get_mut(at) {
                    file.content = Ok(text);
                }
            }
            // A model that was never saved is one all the same.
            Err(at) if FileRole::of_name(file_name(&path)) != FileRole::Other => {
                files.insert(at, SourceFile { path, content: Ok(text) });
            }
            Err(_) => {}
        }
    }
    let models = TargetedModels::of_scope(checkout.scope.clone());
    Ok(parse(checkout, models, output))
}

/// Reads and parses the repository that targets lie in: where they are names alone, that of the current folder.
pub fn open_targets(targets: &TargetArgs, output: &Output) -> Result<OpenedRepository, CliError> {
    let (paths, _) = targets.paths().split();
    let (checkout, scope) = match paths.split_first() {
        Some((first, others)) => {
            let checkout = source::open_parts(first, others)?;
            let scope = checkout.scope.clone();
            (checkout, scope)
        }
        None => (source::open(Path::new("."))?, RepositoryScope::default()),
    };
    Ok(parse(checkout, targets.selection(scope), output))
}

/// A repository of one model.yaml and no settings, which another program pipes in.
pub fn open_standard_input() -> Result<OpenedRepository, CliError> {
    let content = files::read_standard_input();
    let file = SourceFile { path: "model.yaml".to_owned(), content };
    let scope = RepositoryScope::of([ScopePart::Folder(String::new())]);
    let tree = SourceTree { files: vec![file], ..SourceTree::default() };
    let workspace = Workspace::parse(&tree);
    let checkout = Checkout {
        root: std::env::current_dir()?,
        scope: scope.clone(),
        tree,
        revision: String::new(),
        notes: Vec::new(),
    };
    Ok(OpenedRepository { checkout, workspace, models: TargetedModels::of_scope(scope) })
}

fn parse(checkout: Checkout, models: TargetedModels, output: &Output) -> OpenedRepository {
    for note in &checkout.notes {
        output.note(&format!("note: {note}"));
    }
    let workspace = Workspace::parse(&checkout.tree);
    OpenedRepository { checkout, workspace, models }
}

impl OpenedRepository {
    /// The models of one environment, in the namespace that the options ask for. From now on the scope is what is selected
    /// of it.
    ///
    /// # Errors
    /// When there is no such environment or namespace.
    pub fn select(&mut self, arguments: &EnvironmentArgs, output: &Output) -> Result<ResolvedEnvironment, CliError> {
        let selection = select_environment(&self.workspace, arguments)?;
        self.models.check_namespaces(&[&selection])?;
        self.checkout.scope = self.models.scope_in(&[&selection]);
        if self.checkout.scope.is_nothing()
            && let Some(note) = self.models.note_of_nothing()
        {
            output.note(&note);
        }
        Ok(selection)
    }

    /// Says so when there is nothing to work on.
    pub fn note_when_empty(&self, output: &Output) {
        if self.models.names().is_empty()
            && let Some(places) = places_without_models(&self.checkout, &self.checkout.scope)
        {
            output.note(&format!("note: no model.yaml in {places}"));
        }
    }

    /// Refuses a folder that is no repository, which would be a success of nothing; says so when a repository has nothing to
    /// work on.
    ///
    /// # Errors
    /// When there is neither a stator.yaml nor a model.yaml.
    pub fn refuse_when_empty(&self, empty: EmptyArgs, output: &Output) -> Result<(), CliError> {
        if self.models.names().is_empty() {
            refuse_empty_checkout(&self.checkout, &self.checkout.scope, empty)?;
        }
        self.note_when_empty(output);
        Ok(())
    }

    /// Renders an environment that is chosen already, as that of the repository that this is a checkout of, held to what
    /// administrators allow.
    pub fn render_selection(&self, selection: ResolvedEnvironment, policies: FleetPolicies) -> DesiredState {
        self.render_judged(selection, policies, None)
    }

    /// The same, to be written at `now`: also held to the windows of policies.
    pub fn render_for_writing(
        &self,
        selection: ResolvedEnvironment,
        policies: FleetPolicies,
        now: Timestamp,
    ) -> DesiredState {
        self.render_judged(selection, policies, Some(now))
    }

    fn render_judged(
        &self,
        selection: ResolvedEnvironment,
        policies: FleetPolicies,
        written_at: Option<Timestamp>,
    ) -> DesiredState {
        let claim = source::origin::find_claim(&self.checkout.root);
        let size = Some(self.checkout.tree.size());
        let source = JudgedSource { written_at, size, ..JudgedSource::of_claim(&claim) };
        DesiredState::render(selection, &SourcePolicies { policies, source }).owned_by(claim)
    }

    /// What the repository that this is a checkout of is held to.
    pub fn held_to(&self, policies: FleetPolicies) -> SourcePolicies {
        let mut held = held_to(&self.checkout.root, policies);
        held.source.size = Some(self.checkout.tree.size());
        held
    }

    /// The text of a file, for showing the line that a finding is about.
    pub fn file_text(&self, file: &str) -> Option<String> {
        let files = &self.checkout.tree.files;
        let at = files.binary_search_by(|known| known.path.as_str().cmp(file)).ok()?;
        let content = files.get(at)?.content.as_ref().ok()?;
        Some(String::from_utf8_lossy(content).into_owned())
    }
}

/// Refuses a checkout that has neither a stator.yaml nor, in this part of it, a model.yaml.
///
/// # Errors
/// Then.
pub fn refuse_empty_checkout(
    checkout: &Checkout,
    scope: &RepositoryScope,
    EmptyArgs { allow_empty }: EmptyArgs,
) -> Result<(), CliError> {
    let is_settings = |file: &SourceFile| FileRole::of_name(file_name(&file.path)) == FileRole::Settings;
    if allow_empty || checkout.tree.files.iter().any(is_settings) {
        return Ok(());
    }
    match places_without_models(checkout, scope) {
        Some(places) => Err(CliError::input(format!("no stator.yaml and no model.yaml in {places}"))
            .with_hint("check the path; `stator init` creates a small repository to start from")
            .with_hint("if the folder is empty on purpose, pass --allow-empty")),
        None => Ok(()),
    }
}

/// The folders of a scope, where none of them has a model.
fn places_without_models(checkout: &Checkout, scope: &RepositoryScope) -> Option<String> {
    if checkout.tree.files.iter().any(|file| is_intent(&file.path) && scope.contains(&file.path)) {
        return None;
    }
    let place = |part: &ScopePart| {
        let (ScopePart::Folder(below) | ScopePart::Intent(below)) = part;
        let root = &checkout.root;
        if below.is_empty() { root.display().to_string() } else { root.join(below).display().to_string() }
    };
    let places: Vec<String> = scope.parts().map(place).collect();
    Some(places.join(", "))
}

/// What the repository of a folder is held to.
pub fn held_to(root: &Path, policies: FleetPolicies) -> SourcePolicies {
    SourcePolicies { policies, source: JudgedSource::of_claim(&source::origin::find_claim(root)) }
}

/// Says so when an environment has no model although the repository does: it is most likely a mistake in `include`.
pub fn note_when_environment_empty(opened: &OpenedRepository, selection: &ResolvedEnvironment, output: &Output) {
    // Who asks for models by name may well ask for one that only another environment has.
    if !opened.models.names().is_empty() {
        return;
    }
    let scope = &opened.checkout.scope;
    let here = |source: &str| is_intent(source) && scope.contains(source);
    let intents = selection.intents.iter().map(|intent| intent.source.as_str());
    let has_models = intents.chain(selection.broken.iter().map(|broken| broken.source.as_str())).any(here);
    if !has_models && opened.checkout.tree.files.iter().any(|file| here(&file.path)) {
        output.note(&format!(
            "note: environment {} has no models here: check `include` and `exclude` under `spec.environments.{0}` in the \
             root stator.yaml",
            selection.name
        ));
    }
}

/// The models of one environment of a workspace, in the namespace that the options ask for.
pub fn select_environment(workspace: &Workspace, arguments: &EnvironmentArgs) -> Result<ResolvedEnvironment, CliError> {
    let mut selection = workspace.resolve_environment(arguments.environment.as_deref())?;
    if let Some(namespace) = &arguments.namespace {
        selection.environment.namespace = namespace
            .parse::<DnsName>()
            .map_err(|error| CliError::usage(format!("`{namespace}` is not a valid namespace name: {error}")))?;
    }
    arguments.dynamo.apply(&mut selection);
    Ok(selection)
}

/// Says which release of Dynamo is assumed, where neither a cluster nor anybody else says one.
pub fn note_assumed_release(platform: Option<&Platform>, output: &Output) {
    if platform.is_some_and(|platform| platform.dynamo.is_some() || platform.served.is_some()) {
        return;
    }
    output.note(&format!(
        "note: checked against Dynamo {}, the stable release; name yours with --dynamo, or with `platform: {{dynamo: …}}` \
         under the environment in stator.yaml",
        Release::STABLE
    ));
}

/// Findings that a scope is about: those of its files, and those of the settings that hold for it.
pub fn findings_in_scope(findings: Vec<Finding>, scope: &RepositoryScope) -> Vec<Finding> {
    findings.into_iter().filter(|finding| is_in_scope(&finding.location.file, scope)).collect()
}

fn is_in_scope(file: &str, scope: &RepositoryScope) -> bool {
    if scope.contains(file) || file.is_empty() {
        return true;
    }
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    scope.parts().any(|part| {
        let (ScopePart::Folder(below) | ScopePart::Intent(below)) = part;
        if name == "stator.yaml" {
            // Settings hold for everything below their folder.
            return folder.is_empty() || below.starts_with(&format!("{folder}/")) || below == folder;
        }
        match part {
            // An overlay lies beside its intent.
            ScopePart::Intent(intent) => intent.rsplit_once('/').map_or("", |(folder, _)| folder) == folder,
            ScopePart::Folder(_) => false,
        }
    })
}

fn is_intent(path: &str) -> bool {
    file_name(path) == "model.yaml"
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl From<EnvironmentError> for CliError {
    fn from(error: EnvironmentError) -> Self {
        let hint = match &error {
            EnvironmentError::Unknown { .. } => {
                "environments are named in the root stator.yaml, under `spec.environments`"
            }
            EnvironmentError::Ambiguous { .. } => "or set STATOR_ENVIRONMENT",
            EnvironmentError::Unreadable { .. } => "fix the root stator.yaml first",
        };
        Self::input(error.to_string()).with_hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_about_its_files_and_the_settings_above_them() {
        let intent = RepositoryScope::intent("models/a/model.yaml");
        let folder = RepositoryScope::of([ScopePart::Folder("models".into())]);
        for (file, of_intent, of_folder) in [
            ("models/a/model.yaml", true, true),
            ("models/a/model.prod.yaml", true, true),
            ("models/b/model.yaml", false, true),
            ("models/stator.yaml", true, true),
            ("stator.yaml", true, true),
            ("other/stator.yaml", false, false),
            ("other/model.yaml", false, false),
            ("modelsish/stator.yaml", false, false),
        ] {
            assert_eq!(is_in_scope(file, &intent), of_intent, "{file} for the intent");
            assert_eq!(is_in_scope(file, &folder), of_folder, "{file} for the folder");
        }
    }
}
