//! From a path on the command line to models, and from there to desired objects.

use super::args::EnvironmentArgs;
use super::error::CliError;
use super::output::Output;
pub use stator_cluster::sync::DesiredState;
pub use stator_cluster::sync::desired::target_of;
use stator_core::finding::Finding;
use stator_git::source::{self, Checkout, RepositoryScope};
use stator_model::intent::scalar::DnsName;
use stator_model::intent::{EnvironmentError, ResolvedEnvironment, Workspace};
use std::path::Path;

/// A repository, read and parsed.
#[derive(Debug)]
pub struct OpenedRepository {
    /// Its files.
    pub checkout: Checkout,
    /// What they say, whatever the environment.
    pub workspace: Workspace,
}

/// Reads and parses the repository that a path lies in, and says what is worth a word.
pub fn open(path: &Path, output: &Output) -> Result<OpenedRepository, CliError> {
    let checkout = source::open(path)?;
    for note in &checkout.notes {
        output.note(&format!("note: {note}"));
    }
    let workspace = Workspace::parse(&checkout.tree);
    Ok(OpenedRepository { checkout, workspace })
}

impl OpenedRepository {
    /// Says so when there is nothing to work on.
    pub fn note_when_empty(&self, output: &Output) {
        let scope = &self.checkout.scope;
        let any = self.checkout.tree.files.iter().any(|file| is_intent(&file.path) && scope.contains(&file.path));
        if !any {
            let (RepositoryScope::Folder(below) | RepositoryScope::Intent(below)) = scope;
            let place = if below.is_empty() { self.checkout.root.clone() } else { self.checkout.root.join(below) };
            output.note(&format!(
                "note: no model.yaml in {}; `stator init` creates a small repository to start from",
                place.display()
            ));
        }
    }

    /// Renders an environment that is chosen already, as that of the repository that this is a checkout of.
    pub fn render_selection(&self, selection: ResolvedEnvironment) -> DesiredState {
        DesiredState::render(selection).owned_by(source::origin::find_claim(&self.checkout.root))
    }

    /// The text of a file, for showing the line that a finding is about.
    pub fn file_text(&self, file: &str) -> Option<String> {
        let files = &self.checkout.tree.files;
        let at = files.binary_search_by(|known| known.path.as_str().cmp(file)).ok()?;
        let content = files.get(at)?.content.as_ref().ok()?;
        Some(String::from_utf8_lossy(content).into_owned())
    }
}

/// Says so when an environment has no model although the repository does: it is most likely a mistake in `include`.
pub fn note_when_environment_empty(opened: &OpenedRepository, selection: &ResolvedEnvironment, output: &Output) {
    let scope = &opened.checkout.scope;
    let here = |source: &str| is_intent(source) && scope.contains(source);
    let has_files = opened.checkout.tree.files.iter().any(|file| here(&file.path));
    let intents = selection.intents.iter().map(|intent| intent.source.as_str());
    let has_models = intents.chain(selection.broken.iter().map(|broken| broken.source.as_str())).any(here);
    if has_files && !has_models {
        output.note(&format!(
            "note: environment {} has no models here: check `include` and `exclude` under `spec.environments.{0}` in the \
             root stator.yaml",
            selection.name
        ));
    }
}

/// Renders one environment of a workspace.
pub fn render_environment(workspace: &Workspace, arguments: &EnvironmentArgs) -> Result<DesiredState, CliError> {
    Ok(render_selection(select_environment(workspace, arguments)?))
}

/// The models of one environment of a workspace, in the namespace that the options ask for.
pub fn select_environment(workspace: &Workspace, arguments: &EnvironmentArgs) -> Result<ResolvedEnvironment, CliError> {
    let mut selection = workspace.resolve_environment(arguments.environment.as_deref())?;
    if let Some(namespace) = &arguments.namespace {
        selection.environment.namespace = namespace
            .parse::<DnsName>()
            .map_err(|error| CliError::usage(format!("`{namespace}` is not a valid namespace name: {error}")))?;
    }
    Ok(selection)
}

/// Renders an environment that is chosen already.
pub fn render_selection(selection: ResolvedEnvironment) -> DesiredState {
    DesiredState::render(selection)
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
    let (RepositoryScope::Folder(below) | RepositoryScope::Intent(below)) = scope;
    if name == "stator.yaml" {
        // Settings hold for everything below their folder.
        return folder.is_empty() || below.starts_with(&format!("{folder}/")) || below == folder;
    }
    match scope {
        // An overlay lies beside its intent.
        RepositoryScope::Intent(intent) => intent.rsplit_once('/').map_or("", |(folder, _)| folder) == folder,
        RepositoryScope::Folder(_) => false,
    }
}

fn is_intent(path: &str) -> bool {
    path.rsplit('/').next() == Some("model.yaml")
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
        let intent = RepositoryScope::Intent("models/a/model.yaml".into());
        let folder = RepositoryScope::Folder("models".into());
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
