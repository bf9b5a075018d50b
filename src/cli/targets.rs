//! Which models a command is about: folders, files, names, and labels.

use super::error::CliError;
use super::label_selector::LabelSelector;
use clap::{Args, ValueHint};
use stator_core::finding::did_you_mean;
use stator_git::source::{RepositoryScope, ScopePart};
use stator_model::intent::scalar::DnsName;
use stator_model::intent::{ResolvedEnvironment, Workspace};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which parts of which repository.
#[derive(Clone, Debug, Default, Args)]
pub struct PathArgs {
    /// Folders of a repository, model.yaml files, or names of models; by default the current folder
    #[arg(value_name = "PATH|MODEL", value_hint = ValueHint::AnyPath)]
    targets: Vec<String>,
}

/// Which models of which repository.
#[derive(Clone, Debug, Default, Args)]
pub struct TargetArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Only models that match this label selector: `team=search,tier!=dev`, `zone in (a,b)`, `!canary`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<LabelSelector>,
}

impl PathArgs {
    /// The targets as paths of one repository, and names of its models. Without any, the current folder is the target.
    pub fn split(&self) -> (Vec<PathBuf>, BTreeSet<NamedModel>) {
        let (mut paths, mut names) = (Vec::new(), BTreeSet::new());
        for target in &self.targets {
            match parse_target(target) {
                Target::Path(path) => paths.push(path),
                Target::Model(model) => {
                    names.insert(model);
                }
            }
        }
        if self.targets.is_empty() {
            paths.push(PathBuf::from("."));
        }
        (paths, names)
    }

    /// The targets as they were given; nothing where the current folder is the only one.
    pub fn words(&self) -> Vec<String> {
        if self.targets.as_slice() == ["."] { Vec::new() } else { self.targets.clone() }
    }

    /// Whether the target is `-`, standard input.
    ///
    /// # Errors
    /// Beside other targets.
    pub fn is_standard_input(&self) -> Result<bool, CliError> {
        match self.targets.as_slice() {
            [target] if target == "-" => Ok(true),
            targets if targets.iter().any(|target| target == "-") => {
                Err(CliError::usage("`-` cannot be used with other targets")
                    .with_hint("run the command separately for standard input"))
            }
            _ => Ok(false),
        }
    }

    /// The same paths, with all of their models.
    pub fn without_names(&self) -> Self {
        let is_path = |target: &&String| matches!(parse_target(target), Target::Path(_));
        Self { targets: self.targets.iter().filter(is_path).cloned().collect() }
    }

    /// A path that leads to the repository.
    pub fn first_path(&self) -> PathBuf {
        self.split().0.into_iter().next().unwrap_or_else(|| PathBuf::from("."))
    }
}

impl TargetArgs {
    /// The paths and names among the targets.
    pub fn paths(&self) -> &PathArgs {
        &self.paths
    }

    /// All models of these, without a selector.
    pub fn of_paths(paths: PathArgs) -> Self {
        Self { paths, selector: None }
    }

    /// What is selected of a repository, of which the paths are this part.
    pub fn selection(&self, scope: RepositoryScope) -> TargetedModels {
        TargetedModels { selector: self.selector.clone(), ..TargetedModels::of_names(scope, self.paths.split().1) }
    }

    /// The targets and the selector as words of a command.
    pub fn words(&self) -> Vec<String> {
        let selector = self.selector.iter().flat_map(|selector| ["-l".to_owned(), selector.to_string()]);
        self.paths.words().into_iter().chain(selector).collect()
    }
}

/// What an argument means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A folder or a file.
    Path(PathBuf),
    /// A model: by its name, and the namespace where one was written with it.
    Model(NamedModel),
}

/// A model as somebody named it: `chat`, `models/chat`, `model/chat` or `model/models/chat`, which `-o name` prints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedModel {
    /// Its name.
    pub name: String,
    /// The namespace that was written before it.
    namespace: Option<String>,
}

impl NamedModel {
    /// Of a name alone.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), namespace: None }
    }

    /// Says so when the namespace is not one of an environment that is looked at.
    ///
    /// # Errors
    /// Then: the text may well be a path that is misspelled.
    pub fn check_namespace(&self, environments: &[&ResolvedEnvironment]) -> Result<(), CliError> {
        let Some(namespace) = &self.namespace else { return Ok(()) };
        let known: BTreeSet<&str> = environments.iter().map(|one| one.environment.namespace.as_str()).collect();
        if known.contains(namespace.as_str()) {
            return Ok(());
        }
        let message = format!("`{namespace}/{}` is neither a path nor NAMESPACE/NAME of a model", self.name);
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Err(CliError::input(message).with_hint(format!("check the path; the environment's namespace is {known}")))
    }
}

/// A path that exists is one, and so is what looks like one; anything else names a model.
pub fn parse_target(text: &str) -> Target {
    let named = |name: &str, namespace: Option<&str>| {
        Target::Model(NamedModel { name: name.to_owned(), namespace: namespace.map(str::to_owned) })
    };
    let is_file = || [".yaml", ".yml"].iter().any(|end| text.ends_with(end));
    if Path::new(text).exists() || is_file() {
        return Target::Path(PathBuf::from(text));
    }
    let is_kind_named = text.starts_with("model/");
    let words: Vec<&str> = text.strip_prefix("model/").unwrap_or(text).split('/').collect();
    match words.as_slice() {
        [name] => named(name, None),
        [namespace, name] if is_kind_named || is_namespaced_name(namespace, name) => named(name, Some(namespace)),
        _ => Target::Path(PathBuf::from(text)),
    }
}

fn is_namespaced_name(namespace: &str, name: &str) -> bool {
    namespace.parse::<DnsName>().is_ok() && name.parse::<DnsName>().is_ok()
}

/// Which models of a repository are meant: those of its parts and those of these names, and of them the ones with the right
/// labels.
#[derive(Clone, Debug, Default)]
pub struct TargetedModels {
    scope: RepositoryScope,
    names: BTreeSet<String>,
    /// Those of the names that came with a namespace.
    namespaced: Vec<NamedModel>,
    selector: Option<LabelSelector>,
    /// Whether a name may be that of no model.
    allows_unknown: bool,
}

impl TargetedModels {
    /// All models of a part.
    pub fn of_scope(scope: RepositoryScope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// The models of a part, and those of these names, wherever they are.
    pub fn of_names(scope: RepositoryScope, named: BTreeSet<NamedModel>) -> Self {
        let names = named.iter().map(|model| model.name.clone()).collect();
        let namespaced = named.into_iter().filter(|model| model.namespace.is_some()).collect();
        Self { scope, names, namespaced, ..Self::default() }
    }

    /// Says so when a name came with a namespace that is none of these environments'.
    ///
    /// # Errors
    /// For the first such name.
    pub fn check_namespaces(&self, environments: &[&ResolvedEnvironment]) -> Result<(), CliError> {
        self.namespaced.iter().try_for_each(|model| model.check_namespace(environments))
    }

    /// The same models, where a name may be that of none: what is to be gone may never have been.
    #[must_use]
    pub fn allowing_unknown(self) -> Self {
        Self { allows_unknown: true, ..self }
    }

    /// The names that were asked for.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    fn selects_paths_only(&self) -> bool {
        self.names.is_empty() && self.selector.is_none()
    }

    /// The part of the repository that the models of some environments are. A model with errors is in it whatever its labels
    /// are, as they may be the right ones.
    pub fn scope_in(&self, environments: &[&ResolvedEnvironment]) -> RepositoryScope {
        let mut scope = if self.selector.is_none() { self.scope.clone() } else { RepositoryScope::default() };
        if scope.is_everything() || self.selects_paths_only() {
            return scope;
        }
        for environment in environments {
            let is_named = |source: &str, name: Option<&str>| {
                self.scope.contains(source) || name.is_some_and(|name| self.names.contains(name))
            };
            for intent in &environment.intents {
                let has_labels = |selector: &LabelSelector| {
                    intent.load().is_ok_and(|intent| selector.matches(&intent.model.metadata.labels))
                };
                if is_named(&intent.source, Some(intent.name.as_str())) && self.selector.as_ref().is_none_or(has_labels)
                {
                    scope.add(ScopePart::Intent(intent.source.clone()));
                }
            }
            for broken in &environment.broken {
                if is_named(&broken.source, broken.name.as_deref()) {
                    scope.add(ScopePart::Intent(broken.source.clone()));
                }
            }
        }
        scope
    }

    /// Says so when a name is that of no model.
    ///
    /// # Errors
    /// For the first such name.
    pub fn check_names<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Result<(), CliError> {
        if self.names.is_empty() || self.allows_unknown {
            return Ok(());
        }
        let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
        match self.names.difference(&known).next() {
            Some(unknown) => {
                let hint = did_you_mean(unknown, known.iter().map(String::as_str)).unwrap_or_else(|| {
                    "check the spelling; `stator status` lists the models of the environment".to_owned()
                });
                let message = format!("`{unknown}` is neither a path nor a model of the environment");
                Err(CliError::input(message).with_hint(hint))
            }
            None => Ok(()),
        }
    }

    /// What to say where labels select nothing.
    pub fn note_of_nothing(&self) -> Option<String> {
        self.selector.as_ref().map(|selector| format!("note: no model matches the selector `{selector}`"))
    }

    /// The part that a whole workspace's models are, in whatever environments, with the names checked.
    ///
    /// # Errors
    /// When a name is that of no model.
    pub fn scope_in_workspace(&self, workspace: &Workspace) -> Result<RepositoryScope, CliError> {
        if self.selects_paths_only() {
            return Ok(self.scope.clone());
        }
        let names = workspace.environment_names();
        let environments: Vec<ResolvedEnvironment> =
            names.iter().filter_map(|name| workspace.resolve_environment(Some(name)).ok()).collect();
        let environments: Vec<&ResolvedEnvironment> = environments.iter().collect();
        self.check_namespaces(&environments)?;
        self.check_names(environments.iter().flat_map(|environment| model_names(environment)))?;
        Ok(self.scope_in(&environments))
    }
}

/// The names of an environment's models, those with errors included as far as they can be read.
pub fn model_names(environment: &ResolvedEnvironment) -> impl Iterator<Item = &str> {
    let broken = environment.broken.iter().filter_map(|broken| broken.name.as_deref());
    environment.intents.iter().map(|intent| intent.name.as_str()).chain(broken)
}
