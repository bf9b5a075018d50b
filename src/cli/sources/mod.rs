//! Sources of a cluster: shown, asked, suspended and resumed. What is asked stands in the objects themselves, so that the
//! cluster decides who may ask, and its audit log says who did.

pub mod create;
pub mod list;
pub mod remote_sync;
pub mod suspend;

use super::args::ClusterArgs;
use super::connect::{self, KubernetesPurpose};
use super::error::{CliError, CliErrorKind};
use super::output::Output;
use crate::controller::sources::objects::MODEL_SOURCE;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use serde_json::Value;
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::cluster::{Cluster as _, ClusterError};
use stator_core::finding::did_you_mean;
use stator_core::object::Object;
use stator_git::source::model_source::status::{ConditionStatus, ModelSourceStatus, READY, SourceCondition};
use std::collections::BTreeMap;

/// In whose name a person's changes of a source are made.
pub const CLI_FIELD_MANAGER: &str = "stator-cli";

/// A cluster, and the namespace that is meant where none is named.
#[derive(Debug)]
pub struct SourceClient {
    kube: KubeCluster,
    namespace: String,
}

/// One source, as the cluster holds it.
#[derive(Clone, Debug)]
pub struct ListedSource {
    object: Object,
    status: ModelSourceStatus,
}

impl SourceClient {
    /// Opens the cluster that the options name.
    ///
    /// # Errors
    /// When it is the embedded one, or cannot be reached.
    pub async fn open(cluster: &ClusterArgs, namespace: Option<&str>, output: &Output) -> Result<Self, CliError> {
        let kube = connect::open_kubernetes(cluster, KubernetesPurpose::EditSources, output).await?;
        let namespace = namespace.map_or_else(|| kube.client().default_namespace().to_owned(), str::to_owned);
        Ok(Self { kube, namespace })
    }

    /// For a cluster that is open already.
    pub fn of(kube: KubeCluster, namespace: &str) -> Self {
        Self { kube, namespace: namespace.to_owned() }
    }

    /// The namespace that is meant.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The sources of the namespace, or of all, sorted.
    pub async fn list(&self, everywhere: bool) -> Result<Vec<ListedSource>, CliError> {
        let namespace = (!everywhere).then_some(self.namespace.as_str());
        let objects =
            self.kube.list(&MODEL_SOURCE, namespace, &BTreeMap::new()).await.map_err(explain_cluster_error)?;
        Ok(objects.into_iter().map(ListedSource::new).collect())
    }

    /// The source of a name.
    pub async fn get(&self, name: &str) -> Result<ListedSource, CliError> {
        let all = self.list(false).await?;
        let names: Vec<String> = all.iter().map(|one| one.name().to_owned()).collect();
        all.into_iter().find(|one| one.name() == name).ok_or_else(|| self.unknown_source(name, &names))
    }

    /// Changes a source, and gives it as it is then.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<ListedSource, CliError> {
        let changed = self
            .kube
            .merge_patch(&MODEL_SOURCE, &self.namespace, name, CLI_FIELD_MANAGER, patch)
            .await
            .map_err(explain_cluster_error)?;
        changed.map(ListedSource::new).ok_or_else(|| self.unknown_source(name, &[]))
    }

    /// As whom the API server knows whoever asks; `None` where it does not say.
    pub async fn user_name(&self) -> Option<String> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.kube.client());
        let answer = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok()?;
        answer.status?.user_info?.username
    }

    fn unknown_source(&self, name: &str, known: &[String]) -> CliError {
        let hint = did_you_mean(name, known.iter().map(String::as_str))
            .unwrap_or_else(|| "`stator get sources -A` lists the sources of all namespaces".to_owned());
        CliError::input(format!("there is no source `{name}` in namespace {}", self.namespace)).with_hint(hint)
    }
}

impl ListedSource {
    fn new(object: Object) -> Self {
        let status = ModelSourceStatus::read(object.value());
        Self { object, status }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.object.namespace(), self.object.name())
    }

    /// What it follows: a branch, a tag, a commit or a range of versions.
    fn follows(&self) -> &str {
        let one =
            self.object.spec().get("ref").and_then(Value::as_object).and_then(|reference| reference.values().next());
        one.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn is_suspended(&self) -> bool {
        self.object.spec().get("suspend") == Some(&Value::Bool(true))
    }

    /// Whether its status is about the spec that it has now.
    fn is_current(&self) -> bool {
        self.object.generation().is_some() && self.status.observed_generation == self.object.generation()
    }

    /// Whether its controller says that it is ready, of the spec that it has now.
    pub fn is_ready(&self) -> bool {
        self.ready().is_some_and(|ready| ready.status == ConditionStatus::True)
    }

    /// `Ready`, where the status is about the spec that it has now.
    fn ready(&self) -> Option<&SourceCondition> {
        self.status.condition(READY).filter(|_| self.is_current())
    }

    /// What the controller says of it.
    pub fn message(&self) -> &str {
        match self.status.condition(READY) {
            Some(ready) if self.is_current() => &ready.message,
            Some(_) => "changed; no controller has observed it yet",
            None => "no controller has observed it yet",
        }
    }
}

/// The name in `modelsource/NAMESPACE/NAME`, as `-o name` prints it, with its namespace; or the text itself.
pub fn parse_source_name(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix("modelsource/").map(|rest| rest.split_once('/')) {
        Some(Some((namespace, name))) => (Some(namespace), name),
        Some(None) => (None, text.trim_start_matches("modelsource/")),
        None => (None, text),
    }
}

fn explain_cluster_error(error: ClusterError) -> CliError {
    if matches!(error, ClusterError::UnknownKind { .. }) {
        return CliError::new(CliErrorKind::Cluster, "the cluster does not serve `ModelSource`")
            .with_hint("install stator there first: its definitions are in `crds/`, and the Helm chart includes them");
    }
    error.into()
}
