//! `stator logs`, on a real API server that asks a node of the test for what containers wrote.

use super::fleet;
use crate::testbed::{self, ControlPlane};
use crate::workbench::Workbench;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::stream;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// What the containers of a node wrote, each line a second after the one before; by `POD/CONTAINER`, with `previous/` before it
/// for what was written before a restart. Clones are of the same node.
#[derive(Clone, Default)]
pub(crate) struct WrittenOutput(Arc<Mutex<NodeState>>);

#[derive(Default)]
struct NodeState {
    written: BTreeMap<String, Vec<String>>,
    /// How many connections follow a container now.
    followers: BTreeMap<String, usize>,
    /// How many connections that would follow a container are still refused.
    refusals: BTreeMap<String, usize>,
}

/// One connection that follows, counted while it is open.
struct Follower(WrittenOutput, String);

impl Drop for Follower {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap().followers.get_mut(&self.1).unwrap() -= 1;
    }
}

impl WrittenOutput {
    pub(crate) fn write(&self, container: &str, line: &str) {
        let mut node = self.0.lock().unwrap();
        let lines = node.written.entry(container.to_owned()).or_default();
        let second = lines.len();
        lines.push(format!("2026-11-24T03:00:{second:02}.5Z {line}\n"));
    }

    /// The lines that a request asks for, and how many there are; `None` where nothing was ever written.
    fn lines(&self, container: &str, query: &HashMap<String, String>) -> Option<(Vec<String>, usize)> {
        let lines = self.0.lock().unwrap().written.get(container).cloned()?;
        let written = lines.len();
        let since = query.get("sinceTime").cloned().unwrap_or_default();
        let lines: Vec<String> =
            lines.into_iter().filter(|line| line.as_str() >= since.trim_end_matches('Z')).collect();
        let tail = query.get("tailLines").map_or(lines.len(), |lines| lines.parse().unwrap());
        Some((lines[lines.len().saturating_sub(tail)..].to_vec(), written))
    }

    /// Counts a connection that follows a container; `None` where it is refused.
    fn follow(&self, container: &str) -> Option<Follower> {
        let mut node = self.0.lock().unwrap();
        if let Some(left) = node.refusals.get_mut(container).filter(|left| **left > 0) {
            *left -= 1;
            return None;
        }
        *node.followers.entry(container.to_owned()).or_default() += 1;
        Some(Follower(self.clone(), container.to_owned()))
    }

    /// Waits until so many connections follow a container.
    pub(crate) fn wait_for_followers(&self, container: &str, wanted: usize) {
        testbed::until(&format!("{wanted} connections follow {container}"), || {
            let node = self.0.lock().unwrap();
            node.followers.get(container).copied().unwrap_or_default() == wanted
        });
    }
}

/// As a kubelet answers: `/containerLogs/NAMESPACE/POD/CONTAINER`.
async fn answer(
    State(written): State<WrittenOutput>,
    Path((_, pod, container)): Path<(String, String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    assert_eq!(query.get("timestamps").map(String::as_str), Some("true"));
    let is_set = |name: &str| query.get(name).is_some_and(|value| value == "true");
    let previous = if is_set("previous") { "previous/" } else { "" };
    let key = format!("{previous}{pod}/{container}");
    let Some((first, told)) = written.lines(&key, &query) else {
        return (StatusCode::NOT_FOUND, "there is no such container").into_response();
    };
    if !is_set("follow") {
        return Body::from(first.concat()).into_response();
    }
    let Some(follower) = written.follow(&key) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "try again").into_response();
    };
    let rest = stream::unfold((follower, key, told), |(follower, key, mut told)| async move {
        loop {
            let lines = follower.0.0.lock().unwrap().written.get(&key).cloned();
            match lines {
                // The connection ends, as connections do.
                None => return None,
                Some(lines) if lines.len() > told => {
                    let line = lines[told].clone();
                    told += 1;
                    return Some((Ok::<_, std::io::Error>(Bytes::from(line)), (follower, key, told)));
                }
                Some(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let first = stream::iter([Ok(Bytes::from(first.concat()))]);
    Body::from_stream(futures_util::StreamExt::chain(first, rest)).into_response()
}

/// Starts a node that serves output, for as long as the test runs, and tells the API server of it.
pub(crate) async fn start_node(plane: &ControlPlane, name: &str) -> WrittenOutput {
    testbed::provider();
    let written = WrittenOutput::default();
    let data = |file: &str| format!("{}/tests/data/tls/{file}", env!("CARGO_MANIFEST_DIR"));
    let chain = CertificateDer::pem_file_iter(data("server.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let routes =
        Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(answer)).with_state(written.clone());
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, routes) = (acceptor.clone(), routes.clone());
            tokio::spawn(async move {
                let Ok(connection) = acceptor.accept(connection).await else { return };
                let service = TowerToHyperService::new(routes);
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(connection), service).await;
            });
        }
    });
    let nodes: Api<Node> = Api::all(plane.admin().await);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    written
}

/// A pod of the graph `mock` on the node; `statuses` are its containers'.
pub(crate) async fn start_pod(pods: &Api<Pod>, node: &str, (name, component): (&str, &str), statuses: Value) {
    let statuses = statuses.as_array().unwrap();
    let containers: Vec<Value> =
        statuses.iter().map(|one| json!({"name": one["name"], "image": "example/mock:1"})).collect();
    let labels = json!({"nvidia.com/dynamo-graph-deployment-name": "mock", "nvidia.com/dynamo-component": component});
    let pod = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": containers, "automountServiceAccountToken": false},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let filled = |one: &Value| {
        let mut one = one.clone();
        for (name, value) in [("image", json!("example/mock:1")), ("imageID", json!("")), ("ready", json!(false))] {
            one[name] = value;
        }
        one
    };
    let statuses: Vec<Value> = statuses.iter().map(filled).collect();
    let status = Patch::Merge(json!({"status": {"phase": "Running", "containerStatuses": statuses}}));
    pods.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

pub(crate) fn running(name: &str, restarts: u64) -> Value {
    json!({"name": name, "restartCount": restarts, "state": {"running": {"startedAt": "2026-11-24T03:00:00Z"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pods_of_a_model_write_is_shown_and_followed() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("logs").await;
    let bench = fleet();
    bench.write("kubeconfig", fs_err::read_to_string(plane.kubeconfig()).unwrap());
    let command = |bench: &Workbench, args: &[&str]| {
        let mut command = bench.command();
        command.args(args).args(["-e", "prod", "-n", &namespace, "--context", "admin"]);
        command.env_remove("STATOR_CLUSTER").env("KUBECONFIG", bench.path("kubeconfig"));
        command
    };
    let run = |args: &[&str]| bench.finish(&mut command(&bench, args));
    run(&["sync", "--yes"]).success();
    let nobody = run(&["logs", "mock"]).exits(1);
    assert!(
        nobody.stderr.ends_with(
            "error: mock has no pod\nhint: run `stator describe MODEL` to see why, and `stator tree` to list the pods\n"
        ),
        "{nobody}"
    );

    let node = format!("node-of-{namespace}");
    let written = start_node(plane, &node).await;
    let pods: Api<Pod> = Api::namespaced(plane.admin().await, &namespace);
    for line in ["listening on 8000", "model is ready"] {
        written.write("mock-frontend-0/main", line);
    }
    written.write("mock-worker-0/main", "loading");
    written.write("mock-worker-0/main", "\u{1b}[32mloaded\u{1b}[0m");
    written.write("mock-worker-0/metrics", "scraped");
    written.write("previous/mock-worker-0/main", "out of memory");
    start_pod(&pods, &node, ("mock-frontend-0", "frontend"), json!([running("main", 0)])).await;
    start_pod(&pods, &node, ("mock-worker-0", "worker"), json!([running("metrics", 0), running("main", 1)])).await;
    let waiting = json!({"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}});
    start_pod(&pods, &node, ("mock-worker-1", "worker"), json!([waiting])).await;

    insta::assert_snapshot!(run(&["logs", "mock", "-c", "frontend"]).success().stdout, @"
    listening on 8000
    model is ready
    ");
    let several = run(&["logs", "mock", "--tail", "1", "--timestamps"]).success();
    insta::assert_snapshot!(several.stdout.replace('\u{1b}', "ESC"), @"
    [pod/mock-frontend-0/main] 2026-11-24T03:00:01.5Z model is ready
    [pod/mock-worker-0/main] 2026-11-24T03:00:01.5Z ESC[32mloadedESC[0m
    ");
    assert!(
        several.stderr.contains("pod mock-worker-1: container main has not started: ImagePullBackOff"),
        "{several}"
    );
    insta::assert_snapshot!(run(&["logs", "-c", "worker", "--all-containers", "--prefix=false"]).success().stdout.replace('\u{1b}', "ESC"), @"
    scraped
    loading
    ESC[32mloadedESC[0m
    ");
    let crashed = run(&["logs", "mock", "--pod", "mock-worker-0", "--previous", "-o", "json"]).success();
    insta::assert_snapshot!(crashed.stdout, @r#"{"model":"mock","pod":"mock-worker-0","component":"worker","container":"main","time":"2026-11-24T03:00:00.5Z","message":"out of memory"}"#);
    assert_eq!(run(&["logs", "mock", "-c", "frontend", "--since", "1s"]).success().stdout, "");
    assert_eq!(run(&["logs", "mock", "-c", "frontend", "--since", "900000h"]).success().stdout.lines().count(), 2);
    let yaml = run(&["logs", "mock", "-c", "frontend", "-o", "yaml"]).success().stdout;
    insta::assert_snapshot!(yaml, @r#"
    - model: mock
      pod: mock-frontend-0
      component: frontend
      container: main
      time: "2026-11-24T03:00:00.5Z"
      message: listening on 8000
    - model: mock
      pod: mock-frontend-0
      component: frontend
      container: main
      time: "2026-11-24T03:00:01.5Z"
      message: model is ready
    "#);
    let none = run(&["logs", "mock", "--pod", "mock-worker-1"]).exits(1);
    assert!(none.stderr.contains("no container has logs yet"), "{none}");
    let unknown = run(&["logs", "mock", "-c", "decode"]).exits(1);
    assert!(unknown.stderr.contains("mock has no pod of component decode"), "{unknown}");
    let many = run(&["logs", "mock", "--max-containers", "2"]).exits(2);
    assert!(many.stderr.contains("3 containers are more than --max-containers 2"), "{many}");
    let denied = run(&["logs", "mock", "--as", "system:serviceaccount:default:nobody"]).exits(2);
    assert!(denied.stderr.contains("hint: grant"), "{denied}");
    let embedded = bench.finish(bench.command().args(["logs", "mock", "-e", "prod", "--cluster", "embedded"])).exits(2);
    assert!(embedded.stderr.contains("the embedded cluster runs no pods"), "{embedded}");

    // A rollout: what is written is followed, through a connection that ends, a restart, and to the pod that comes next.
    // The first connection does not even come about: what was written before is not shown for that.
    written.0.lock().unwrap().refusals.insert("mock-worker-0/main".to_owned(), 1);
    let mut follow = command(&bench, &["logs", "mock", "-f", "--tail", "0", "-c", "worker"]);
    let mut child = follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut expect = |line: &str| assert_eq!(lines.next().unwrap().unwrap(), line);
    // What is written before it looks is not asked for.
    written.wait_for_followers("mock-worker-0/main", 1);
    written.write("mock-worker-0/main", "serving");
    expect("[pod/mock-worker-0/main] serving");
    let all = written.0.lock().unwrap().written.remove("mock-worker-0/main").unwrap();
    written.wait_for_followers("mock-worker-0/main", 0);
    written.0.lock().unwrap().written.insert("mock-worker-0/main".to_owned(), all);
    written.write("mock-worker-0/main", "still serving");
    expect("[pod/mock-worker-0/main] still serving");
    written.write("mock-worker-2/main", "loading");
    start_pod(&pods, &node, ("mock-worker-2", "worker"), json!([running("main", 0)])).await;
    expect("[pod/mock-worker-2/main] loading");
    pods.delete("mock-worker-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    written.write("mock-worker-2/main", "serving");
    expect("[pod/mock-worker-2/main] serving");
    let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
