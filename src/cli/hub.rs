//! Pages of several clusters at once, which only show: models as their records and graphs have them, without a repository.

use super::args::ClusterArgs;
use super::error::CliError;
use crate::observation::ObservationBoard;
use stator_cluster::cluster::kube::{
    ConnectOptions, ImpersonatedUser, KubeCluster, kubeconfig_contexts, kubeconfig_files,
};
use stator_cluster::cluster::{AnyCluster, Cluster as _, ClusterError, WatchReceiver};
use stator_cluster::random::random_bits;
use stator_core::dynamo::kinds::{GRAPH, ObjectKind, RECORD, REQUEST};
use stator_core::object::ObjectText;
use stator_core::retry::Backoff;
use stator_git::source::model_source::crd::MODEL_SOURCE;
use stator_git::source::model_source::status::{ConditionStatus, ModelSourceStatus};
use stator_model::plan::Record;
use stator_view::facts::{ModelFacts, SourceControl, SourceFacts};
use stator_view::recorded::recorded_models;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Changes that come this close together are one look.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// A look that takes long is followed by a rest this many times as long.
const REST_FACTOR: u32 = 3;
/// How long after a look there is another one, though nothing was heard.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// How soon, and how late, a cluster that is away is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// The longest that a cluster may take for all that a look reads.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// What is read of a cluster.
const KINDS: [&ObjectKind; 4] = [&RECORD, &GRAPH, &REQUEST, &MODEL_SOURCE];

/// One cluster of a hub.
#[derive(Clone, Debug)]
pub struct HubCluster {
    /// The context that reaches it.
    pub context: String,
    /// The kubeconfig, where one is named.
    pub kubeconfig: Option<PathBuf>,
    /// In whose name it is read.
    pub impersonate: Option<String>,
}

/// What a look at a cluster found.
struct SeenCluster {
    models: Vec<ModelFacts>,
    problems: Vec<String>,
}

impl HubCluster {
    /// Looks at the cluster again and again. While it is away, its models stay as they were last seen.
    pub async fn observe(self, board: ObservationBoard) {
        let mut retry = Backoff::new(FIRST_RETRY, LAST_RETRY, random_bits());
        board.set_source(self.facts(&[], Some("it is being read".to_owned())));
        loop {
            let Err(error) = self.follow(&board, &mut retry).await;
            let known = board.source("", &self.context);
            let models = known.map(|known| Arc::clone(&known.models)).unwrap_or_default();
            let away = SourceFacts {
                models,
                phase: "Away".to_owned(),
                ..self.facts(&[], Some(format!("it is away: {error}")))
            };
            board.set_source(away);
            tokio::time::sleep(retry.next_delay()).await;
        }
    }

    /// Connects, and looks whenever something changes.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or may not be read.
    async fn follow(&self, board: &ObservationBoard, retry: &mut Backoff) -> Result<Infallible, CliError> {
        let options = ConnectOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: Some(self.context.clone()),
            impersonate: self.impersonate.clone().map(|user| ImpersonatedUser { user, groups: Vec::new() }),
            ..ConnectOptions::default()
        };
        let cluster = KubeCluster::connect(options).await?;
        board.set_desks("", &self.context, |desks| desks.cluster = Some(AnyCluster::from(cluster.clone())));
        let kinds: Vec<ObjectKind> = KINDS.into_iter().copied().collect();
        let mut changes: WatchReceiver = cluster.watch(&kinds, None).await?;
        loop {
            let began = Instant::now();
            let known = board.source("", &self.context);
            let earlier = known.map(|known| Arc::clone(&known.models)).unwrap_or_default();
            let looking = tokio::time::timeout(LOOK_TIMEOUT, look(&cluster, &earlier));
            let late = |_| CliError::input(format!("it did not answer for {} s", LOOK_TIMEOUT.as_secs()));
            let SeenCluster { models, problems } = looking.await.map_err(late)??;
            board.set_source(SourceFacts { models: models.into(), ..self.facts(&problems, None) });
            retry.reset();
            tokio::time::sleep(DEBOUNCE.max(began.elapsed().saturating_mul(REST_FACTOR))).await;
            if let Ok(None) = tokio::time::timeout(LOOK_INTERVAL, changes.recv()).await {
                changes = cluster.watch(&kinds, None).await?;
            }
            while changes.try_recv().is_ok() {}
        }
    }

    fn facts(&self, problems: &[String], unread: Option<String>) -> SourceFacts {
        SourceFacts {
            name: self.context.clone(),
            cluster: Some(self.context.clone()),
            origin: "records of the cluster".to_owned(),
            phase: "Shown".to_owned(),
            is_kubernetes: true,
            problems: problems.to_vec(),
            control: SourceControl::Command { reason: "these pages show several clusters, and change none".to_owned() },
            unread,
            ..SourceFacts::default()
        }
    }
}

async fn look(cluster: &KubeCluster, earlier: &[ModelFacts]) -> Result<SeenCluster, CliError> {
    let list = |kind: &'static ObjectKind| async move { cluster.list_texts(kind, None, &BTreeMap::new()).await };
    let (records, graphs, requests) = tokio::try_join!(list(&RECORD), list(&GRAPH), list(&REQUEST))?;
    // Whoever installed no controller has no sources.
    let sources = match list(&MODEL_SOURCE).await {
        Ok(sources) => sources,
        Err(ClusterError::UnknownKind { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let live: Vec<ObjectText> = graphs.into_iter().chain(requests).collect();
    let mut problems: Vec<String> = sources.iter().filter_map(source_problem).collect();
    let (mut read, mut unread) = (Vec::new(), 0_usize);
    for text in &records {
        match Record::from_object(&text.parse()) {
            Ok(record) => read.push(record),
            Err(_) => unread += 1,
        }
    }
    if unread > 0 {
        problems.push(format!("{unread} records cannot be read; `stator version` shows which release wrote them"));
    }
    let earlier = earlier.to_vec();
    let making = tokio::task::spawn_blocking(move || recorded_models(read, &live, &earlier, jiff::Timestamp::now()));
    let models = making.await.map_err(|_| CliError::input("reading its models was stopped"))?;
    Ok(SeenCluster { models, problems })
}

/// What is in the way of a source, as its own status says.
fn source_problem(text: &ObjectText) -> Option<String> {
    let status = ModelSourceStatus::read(text.parse().value());
    let ready = status.conditions.into_iter().find(|one| one.kind == "Ready")?;
    let is_well = ready.status == ConditionStatus::True;
    (!is_well)
        .then(|| format!("ModelSource {}/{}: {}", text.reference().namespace, text.reference().name, ready.message))
}

/// The clusters of a hub: those of the named contexts, or of the current one.
///
/// # Errors
/// Where the kubeconfig does not have one of them.
pub fn hub_clusters(arguments: &ClusterArgs, contexts: &[String]) -> Result<Vec<HubCluster>, CliError> {
    let known = kubeconfig_contexts(&kubeconfig_files(arguments.kubeconfig.as_deref()))?;
    let mut contexts = contexts.to_vec();
    contexts.extend(known.current.filter(|_| contexts.is_empty()));
    let mut named = BTreeSet::new();
    contexts.retain(|context| named.insert(context.clone()));
    let unknown: Vec<&str> =
        contexts.iter().map(String::as_str).filter(|one| !known.names.iter().any(|known| known == one)).collect();
    if contexts.is_empty() || !unknown.is_empty() {
        let missing = if contexts.is_empty() {
            "no current context".to_owned()
        } else {
            format!("no context {}", unknown.join(", "))
        };
        return Err(CliError::usage(format!("the kubeconfig has {missing}")).with_hint(match known.names.as_slice() {
            [] => "name a kubeconfig that has contexts with --kubeconfig".to_owned(),
            names => format!("name contexts with --context; it has: {}", names.join(", ")),
        }));
    }
    Ok(contexts
        .into_iter()
        .map(|context| HubCluster {
            context,
            kubeconfig: arguments.kubeconfig.clone(),
            impersonate: arguments.impersonate.clone(),
        })
        .collect())
}
