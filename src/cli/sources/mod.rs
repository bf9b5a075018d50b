//! Sources of a cluster: shown, asked, suspended and resumed. What is asked stands in the objects themselves, so that the
//! cluster decides who may ask, and its audit log says who did.

pub mod ask;
pub mod list;
pub mod suspend;

use super::args::ClusterArgs;
use super::connect;
use super::error::{CliError, ErrorKind};
use super::output::Output;
use crate::controller::resources::MODEL_SOURCE;
use serde_json::Value;
use stator_cluster::cluster::kube::Kube;
use stator_cluster::cluster::{Cluster as _, ClusterError};
use stator_core::finding::nearest;
use stator_core::object::Object;
use stator_git::source::model_source::status::{Condition, ModelSourceStatus, READY};
use std::collections::BTreeMap;

/// In whose name a person's changes of a source are made.
pub const MANAGER: &str = "stator-cli";

/// A cluster, and the namespace that is meant where none is named.
#[derive(Debug)]
pub struct Site {
    kube: Kube,
    namespace: String,
}

/// One source, as the cluster holds it.
#[derive(Clone, Debug)]
pub struct Found {
    object: Object,
    status: ModelSourceStatus,
}

impl Site {
    /// Opens the cluster that the options name.
    ///
    /// # Errors
    /// When it is the embedded one, or cannot be reached.
    pub async fn open(cluster: &ClusterArgs, namespace: Option<&str>, output: &Output) -> Result<Self, CliError> {
        let kube = connect::kubernetes(cluster, "sources are objects", output).await?;
        let namespace = namespace.map_or_else(|| kube.client().default_namespace().to_owned(), str::to_owned);
        Ok(Self { kube, namespace })
    }

    /// The namespace that is meant.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The sources of the namespace, or of all, sorted.
    pub async fn all(&self, everywhere: bool) -> Result<Vec<Found>, CliError> {
        let namespace = (!everywhere).then_some(self.namespace.as_str());
        let objects = self.kube.list(&MODEL_SOURCE, namespace, &BTreeMap::new()).await.map_err(refused)?;
        Ok(objects.into_iter().map(Found::new).collect())
    }

    /// The source of a name.
    pub async fn one(&self, name: &str) -> Result<Found, CliError> {
        let all = self.all(false).await?;
        let names: Vec<String> = all.iter().map(|one| one.name().to_owned()).collect();
        all.into_iter().find(|one| one.name() == name).ok_or_else(|| self.unknown(name, &names))
    }

    /// Changes a source, and gives it as it is then.
    pub async fn change(&self, name: &str, patch: &Value) -> Result<Found, CliError> {
        let changed = self.kube.merge(&MODEL_SOURCE, &self.namespace, name, MANAGER, patch).await.map_err(refused)?;
        changed.map(Found::new).ok_or_else(|| self.unknown(name, &[]))
    }

    fn unknown(&self, name: &str, known: &[String]) -> CliError {
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`stator get sources -A` lists the sources of all namespaces".to_owned(),
        };
        CliError::input(format!("there is no source `{name}` in namespace {}", self.namespace)).hint(hint)
    }
}

impl Found {
    fn new(object: Object) -> Self {
        let status = ModelSourceStatus::read(object.value());
        Self { object, status }
    }

    fn name(&self) -> &str {
        self.object.name()
    }

    /// `namespace/name`.
    fn title(&self) -> String {
        format!("{}/{}", self.object.namespace(), self.object.name())
    }

    /// What it follows: a branch, a tag, a commit or a range of versions.
    fn follows(&self) -> &str {
        let one =
            self.object.spec().get("ref").and_then(Value::as_object).and_then(|reference| reference.values().next());
        one.and_then(Value::as_str).unwrap_or_default()
    }

    fn is_suspended(&self) -> bool {
        self.object.spec().get("suspend") == Some(&Value::Bool(true))
    }

    /// Whether its status is about the spec that it has now.
    fn is_current(&self) -> bool {
        self.object.generation().is_some() && self.status.observed_generation == self.object.generation()
    }

    /// `Ready`, where the status is about the spec that it has now.
    fn ready(&self) -> Option<&Condition> {
        self.status.condition(READY).filter(|_| self.is_current())
    }

    /// What the controller says of it.
    fn message(&self) -> &str {
        match self.status.condition(READY) {
            Some(ready) if self.is_current() => &ready.message,
            Some(_) => "changed, and not taken up by a controller yet",
            None => "no controller has looked at it yet",
        }
    }
}

/// The name in `modelsource/NAMESPACE/NAME`, as `-o name` prints it, with its namespace; or the text itself.
pub fn named(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix("modelsource/").map(|rest| rest.split_once('/')) {
        Some(Some((namespace, name))) => (Some(namespace), name),
        Some(None) => (None, text.trim_start_matches("modelsource/")),
        None => (None, text),
    }
}

fn refused(error: ClusterError) -> CliError {
    if matches!(error, ClusterError::UnknownKind { .. }) {
        return CliError::new(ErrorKind::Cluster, "the cluster does not know `ModelSource`")
            .hint("install stator there first: its definitions are in `crds/`, and the Helm chart brings them along");
    }
    error.into()
}
