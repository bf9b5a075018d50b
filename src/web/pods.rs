//! What the cluster has below a model, and what its containers write: read when somebody asks, and as far as they may.

use super::access::Visitor;
use super::answer::{self, HTML, JSON, WebRequest};
use super::request_scope::RequestScope;
use super::state::{StreamPlace, StreamPlaces, WebState};
use super::stream::ACCESS_INTERVAL;
use crate::fair_turns::Turn;
use crate::server::Peer;
use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use stator_cluster::cluster::kube::{
    KubeCluster, LogLine, LogRequest, LogSource, LogStream, PodOwner, PodSelection, pod_owners,
};
use stator_cluster::cluster::{AnyCluster, ClusterError};
use stator_core::dynamo::kinds::POD;
use stator_core::dynamo::pod_containers::ContainerSelection;
use stator_core::mask::star_tokens;
use stator_model::present::tree::{self, ObjectForest, OwnedObject, UnlistedResource};
use stator_view::model::check_objects;
use stator_view::observation::FoundModel;
use stator_view::page;
use stator_view::pod_logs::{LogContainer, LogQuery, PodLogView};
use stator_view::problem::{ProblemDetails, ProblemKind};
use stator_view::reader::{LOGS_RIGHT, RequiredRight};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

/// How long the cluster may take.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The most text of a log that is shown at once: the newest lines.
const MAX_LOG_BYTES: usize = 1 << 20;
/// The most containers of one model.
const MAX_CONTAINERS: usize = 1000;
const TEXT: &str = "text/plain; charset=utf-8";
const LIST_PODS: RequiredRight = RequiredRight { verb: "list", group: "", resource: "pods" };

/// A response whose parts go out as they come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unbuffered;

/// Everything below a model, as a page.
pub(super) async fn tree_page(
    state: &WebState,
    scope: &RequestScope,
    (namespace, name): (&str, &str),
) -> Result<Response, ProblemDetails> {
    let found = scope.observation.model(namespace, name)?;
    let forest = read_tree(state, scope, &found).await?;
    Ok(answer::text(StatusCode::OK, HTML, page::tree_page(&scope.observation, &found, &forest, Timestamp::now())))
}

/// The same, for programs.
pub(super) async fn tree_document(
    state: &WebState,
    scope: &RequestScope,
    found: &FoundModel<'_>,
) -> Result<Response, ProblemDetails> {
    let forest = read_tree(state, scope, found).await?;
    Ok(answer::text(StatusCode::OK, JSON, serde_json::to_string(&forest).unwrap_or_default()))
}

/// The last lines of a container, as a page.
pub(super) async fn log_page(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    (namespace, name): (&str, &str),
) -> Result<Response, ProblemDetails> {
    let found = scope.observation.model(namespace, name)?;
    let query = LogQuery { timestamps: true, follow: false, ..LogQuery::parse(question.query)? };
    let log = ModelLog::find(state, scope, &found, query).await?;
    let (lines, note) = match log.chosen {
        Some(_) => log.last_lines().await?,
        None => (Vec::new(), Some("The model has no pods.".to_owned())),
    };
    let containers = log.containers.iter().map(|one| LogContainer {
        pod: one.container.pod.name.clone(),
        name: one.container.name.clone(),
        restarts: one.container.restarts,
        state: if one.container.is_running { "Running".to_owned() } else { one.container.waits_for.clone() },
    });
    let view = PodLogView { containers: containers.collect(), lines, note, query: log.query };
    Ok(answer::text(StatusCode::OK, HTML, page::log_page(&scope.observation, &found, &view)))
}

/// The same as text, for programs, and the lines that follow.
pub(super) async fn log_document(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    found: &FoundModel<'_>,
) -> Result<Response, ProblemDetails> {
    let query = LogQuery::parse(question.query)?;
    let log = ModelLog::find(state, scope, found, query).await?;
    if !log.query.follow {
        let (lines, _) = log.last_lines().await?;
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        return Ok(answer::text(StatusCode::OK, TEXT, text));
    }
    let too_many = || ProblemDetails::new(ProblemKind::TooManyStreams);
    let place = StreamPlaces::take(&state.streams, &scope.visitor).ok_or_else(too_many)?;
    let following = FollowedLog {
        lines: log.open().await?,
        timestamps: log.query.timestamps,
        reader: LogReader {
            state: state.clone(),
            headers: question.headers.clone(),
            peer: question.peer,
            model: (found.row.namespace.clone(), found.row.name.clone()),
            pod: log.query.pod.clone().unwrap_or_default(),
        },
        checked: Instant::now(),
        _place: place,
    };
    let parts = stream::unfold(following, |mut following| async move {
        let line = following.next_line().await?;
        Some((Ok::<_, Infallible>(Bytes::from(line)), following))
    });
    let mut response = Response::new(Body::from_stream(parts));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.extensions_mut().insert(Unbuffered);
    Ok(response)
}

fn not_read(error: &ClusterError) -> ProblemDetails {
    ProblemDetails::new(ProblemKind::NotReadNow).with_detail(format!("The API server does not show it: {error}."))
}

async fn in_time<T>(reading: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ProblemDetails> {
    let read = tokio::time::timeout(READ_TIMEOUT, reading).await;
    read.map_err(|_| ProblemDetails::new(ProblemKind::OutOfTime))?.map_err(|error| not_read(&error))
}

/// The cluster of a model, as whoever runs the pages reaches it, and a turn to read from it.
async fn cluster_of(
    state: &WebState,
    scope: &RequestScope,
    found: &FoundModel<'_>,
) -> Result<(AnyCluster, Turn), ProblemDetails> {
    let source = found.source;
    let cluster = state.board.cluster(&source.namespace, &source.name);
    let cluster = cluster.ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?;
    let turn = state.reading.wait(scope.visitor.name().map(str::to_owned), 1);
    let turn = tokio::time::timeout(READ_TIMEOUT, turn).await;
    Ok((cluster, turn.map_err(|_| ProblemDetails::new(ProblemKind::OutOfTime))?))
}

/// What pods of a model are made for, in its own namespace alone: a record may name others, where rights were not asked for.
fn owners_of(found: &FoundModel<'_>) -> BTreeSet<PodOwner> {
    let status = &found.model.status;
    let owners = pod_owners([status], &found.model.live).into_iter();
    owners.filter(|owner| owner.object.namespace == status.namespace).collect()
}

async fn read_tree(
    state: &WebState,
    scope: &RequestScope,
    found: &FoundModel<'_>,
) -> Result<ObjectForest, ProblemDetails> {
    check_objects(found)?;
    let (cluster, turn) = cluster_of(state, scope, found).await?;
    let (status, live) = (std::slice::from_ref(&found.model.status), &found.model.live);
    let namespace = status.iter().map(|one| one.namespace.as_str()).next().unwrap_or_default();
    let roots = tree::live_objects(status, live);
    let mut below = in_time(cluster.objects_below(namespace, &roots)).await?;
    if let Some(kube) = cluster.as_kubernetes() {
        let owners = owners_of(found);
        below.objects.extend(loose_pods(kube, &owners, &roots, &below.objects).await?);
    }
    drop(turn);
    let resources: BTreeSet<String> = below.objects.iter().map(|one| one.resource.clone()).collect();
    let mut hidden = BTreeSet::new();
    for resource in resources {
        if !scope.may_list(&resource, namespace).await? {
            let message = format!("you need the right to `list {resource}` in namespace {namespace}");
            below.unlisted.push(UnlistedResource { resource: resource.clone(), message });
            hidden.insert(resource);
        }
    }
    let visible = tree::keep_visible(below.objects, |one| !hidden.contains(&one.resource));
    Ok(tree::build_forest(status, &roots, &visible, below.unlisted))
}

/// The pods of a model that nothing found connects with it: what is between them may not be listed here. A label says whose
/// they are.
async fn loose_pods(
    kube: &KubeCluster,
    owners: &BTreeSet<PodOwner>,
    roots: &[OwnedObject],
    known: &[OwnedObject],
) -> Result<Vec<OwnedObject>, ProblemDetails> {
    let known: BTreeSet<&str> = known.iter().map(|one| one.uid.as_str()).collect();
    let uids: BTreeMap<_, &str> = roots.iter().map(|one| (one.object.identity(), one.uid.as_str())).collect();
    let mut loose = Vec::new();
    for owner in owners {
        let root = uids.get(&owner.object.identity()).or_else(|| uids.values().next());
        for pod in in_time(owner.pods(kube)).await? {
            let pod = OwnedObject::of(&pod, POD.resource());
            if !known.contains(pod.uid.as_str()) {
                loose.push(OwnedObject { owners: root.map(|&uid| uid.to_owned()).into_iter().collect(), ..pod });
            }
        }
    }
    Ok(loose)
}

/// The logs of a model's containers, and the one that is asked for.
struct ModelLog {
    cluster: KubeCluster,
    query: LogQuery,
    containers: Vec<LogSource>,
    chosen: Option<LogSource>,
    _turn: Turn,
}

impl ModelLog {
    /// The container that a query means, among those of the model; none where there is no pod.
    ///
    /// # Errors
    /// Where whoever asks may not, or the container is not one of the model's.
    async fn find(
        state: &WebState,
        scope: &RequestScope,
        found: &FoundModel<'_>,
        query: LogQuery,
    ) -> Result<Self, ProblemDetails> {
        let namespace = &found.model.status.namespace;
        scope.check_right(LOGS_RIGHT, namespace, query.pod.as_deref()).await?;
        scope.check_right(LIST_PODS, namespace, None).await?;
        let (cluster, turn) = cluster_of(state, scope, found).await?;
        let AnyCluster::Kubernetes(cluster) = cluster else {
            let detail = "The embedded cluster runs no pods, so there are no logs.";
            return Err(ProblemDetails::new(ProblemKind::NotReadNow).with_detail(detail));
        };
        let pods = PodSelection {
            owners: owners_of(found),
            component: None,
            pod: None,
            containers: ContainerSelection::All,
            limit: MAX_CONTAINERS,
        };
        let mut containers = in_time(pods.find(&cluster)).await?;
        containers.truncate(pods.limit);
        let usual = PodSelection {
            pod: query.pod.clone(),
            containers: query.container.clone().map_or(ContainerSelection::Default, ContainerSelection::Named),
            ..pods
        };
        let chosen = in_time(usual.find(&cluster)).await?.into_iter().next();
        if chosen.is_none() && (query.pod.is_some() || query.container.is_some()) {
            let detail = format!("Model {} has no such pod or container.", found.model.status.name);
            return Err(ProblemDetails::new(ProblemKind::NotFound).with_detail(detail));
        }
        let named = |of: fn(&LogSource) -> &str| chosen.as_ref().map(|chosen| of(chosen).to_owned());
        let (pod, container) = (named(|one| &one.container.pod.name), named(|one| &one.container.name));
        Ok(Self { cluster, query: LogQuery { pod, container, ..query }, containers, chosen, _turn: turn })
    }

    async fn open(&self) -> Result<LogStream, ProblemDetails> {
        let nothing = || ProblemDetails::new(ProblemKind::NotReadNow).with_detail("The model has no pods.");
        let container = &self.chosen.as_ref().ok_or_else(nothing)?.container;
        if !container.has_started {
            let detail = format!("Container {} has not started: {}.", container.name, container.waits_for);
            return Err(ProblemDetails::new(ProblemKind::NotReadNow).with_detail(detail));
        }
        let request = LogRequest {
            pod: container.pod.clone(),
            container: container.name.clone(),
            follow: self.query.follow,
            previous: self.query.previous,
            tail: Some(self.query.lines),
            since: None,
        };
        in_time(self.cluster.open_log(&request)).await
    }

    /// The last lines, and what is to be said of them.
    async fn last_lines(&self) -> Result<(Vec<String>, Option<String>), ProblemDetails> {
        let mut log = match self.open().await {
            Ok(log) => log,
            Err(problem) if problem.of == ProblemKind::NotReadNow => return Ok((Vec::new(), problem.detail)),
            Err(problem) => return Err(problem),
        };
        let (mut lines, mut bytes, mut is_cut) = (VecDeque::new(), 0, false);
        let reading = async {
            while let Some(line) = log.next_line().await? {
                let line = line_text(&line, self.query.timestamps);
                bytes += line.len();
                lines.push_back(line);
                while bytes > MAX_LOG_BYTES {
                    bytes -= lines.pop_front().map_or(bytes, |line: String| line.len());
                    is_cut = true;
                }
            }
            Ok(())
        };
        in_time(reading).await?;
        let note = match (lines.is_empty(), is_cut) {
            (true, _) => Some("The container has written nothing yet.".to_owned()),
            (false, true) => Some("Only the newest lines are shown: they are long.".to_owned()),
            (false, false) => None,
        };
        Ok((lines.into(), note))
    }
}

/// A line, without colours and without what looks like a secret.
fn line_text(line: &LogLine, with_time: bool) -> String {
    let time = line.time.filter(|_| with_time).map(|time| format!("{time} ")).unwrap_or_default();
    let plain = anstream::adapter::strip_str(&line.text).to_string();
    format!("{time}{}", star_tokens(&plain))
}

/// A log that somebody follows.
struct FollowedLog {
    lines: LogStream,
    timestamps: bool,
    reader: LogReader,
    /// When it was found out last that they still may.
    checked: Instant,
    _place: StreamPlace,
}

/// Who follows it: that they still may is found out again and again.
struct LogReader {
    state: WebState,
    headers: HeaderMap,
    peer: Peer,
    model: (String, String),
    pod: String,
}

impl FollowedLog {
    /// The next line; `None` when the log or the process ends, or whoever reads may not any more.
    async fn next_line(&mut self) -> Option<String> {
        let ending = self.reader.state.ending.clone();
        loop {
            if self.checked.elapsed() >= ACCESS_INTERVAL {
                match self.reader.check().await {
                    // Known again in a moment.
                    Err(problem) if problem.of != ProblemKind::ReviewFailed => return None,
                    Ok(()) | Err(_) => self.checked = Instant::now(),
                }
            }
            let next = tokio::select! {
                next = tokio::time::timeout_at(self.checked + ACCESS_INTERVAL, self.lines.next_line()) => next,
                () = ending.cancelled() => return None,
            };
            if let Ok(line) = next {
                return Some(line_text(&line.ok()??, self.timestamps) + "\n");
            }
        }
    }
}

impl LogReader {
    async fn check(&self) -> Result<(), ProblemDetails> {
        let visitor: Visitor = self.state.gate.visitor(&self.headers, self.peer).await?;
        let (place, name) = (self.model.0.as_str(), self.model.1.as_str());
        let scope = RequestScope::new(&self.state, visitor, Some((place, name))).await?;
        let namespace = scope.observation.model(place, name)?.model.status.namespace.clone();
        scope.check_right(LIST_PODS, &namespace, None).await?;
        scope.check_right(LOGS_RIGHT, &namespace, Some(&self.pod)).await
    }
}
