//! A node of the tests' Kubernetes cluster: it takes the pods that wait for one and runs what they say, as processes.
//!
//! Everything above a node is real: a Deployment makes its pods by Kubernetes' own controllers, the API server admits them,
//! and this does what a scheduler and a kubelet do then. It binds a pod, gets a token of its service account that is bound
//! to it, makes its volumes, starts its program with the arguments and variables of the template, probes it, writes its
//! status, starts it again when it ends, and ends it as it is told to when the pod is deleted.
//!
//! There are no containers, so some of it is another than on a real node, and the same for every pod:
//! - An image is a program of this machine ([`NodeSettings::images`]); a pod of another image is left alone.
//! - Paths of volumes are those of temporary folders: in arguments and variables they are replaced. What the program writes
//!   anywhere else is found by [`Node::strays`], where a read-only root would have refused it.
//! - All pods share one network. A wildcard address with a port of the pod (`0.0.0.0:8080`) becomes a free port of
//!   127.0.0.1; [`Node::address`] and [`Node::expose`] say which, as a service would.
//! - The service account's files are where `STATOR_SERVICE_ACCOUNT_DIR` says.
//! - Readiness is asked more often than a template says, since tests wait for it; liveness is not.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by several test targets, of which none uses all; a test that cannot go on must stop"
)]

mod expose;
mod kubelet;
mod operator;
mod probe;
mod spec;

pub use operator::Operator;

use crate::testbed::{self, ControlPlane, ReservedPort, Supervisor};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often pods are looked for.
const LOOK: Duration = Duration::from_millis(150);

/// What a node runs, and how.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// The namespaces whose pods it takes.
    pub namespaces: Vec<String>,
    /// The program that an image's repository stands for: the part before `:` and `@`.
    pub images: Vec<(String, PathBuf)>,
    /// Variables that every process gets beside its template's, as an image would have them.
    pub variables: Vec<(String, String)>,
    /// Arguments that `stator controller` gets behind its template's.
    pub controller_arguments: Vec<String>,
}

/// One process of a pod.
#[derive(Clone, Debug)]
pub struct ContainerProcess {
    /// The process.
    pub id: u32,
    /// How often it was started again.
    pub restarts: u32,
    /// Whether its probe says that it is ready.
    pub ready: bool,
}

/// What all parts of a node share.
struct NodeState {
    setting: NodeSettings,
    supervisor: Supervisor,
    kubeconfig: PathBuf,
    authority: PathBuf,
    server: SocketAddr,
    /// By namespace and pod.
    running: Mutex<BTreeMap<(String, String), ContainerProcess>>,
    /// Where a pod's ports really are: by namespace, pod and port.
    ports: Mutex<BTreeMap<(String, String, u16), ReservedPort>>,
    ending: CancellationToken,
}

/// A node; its processes end with it, or with the process that holds it.
pub struct Node {
    shared: Arc<NodeState>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("setting", &self.shared.setting).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node of a control plane. `None` where nothing there makes pods of a Deployment: skip the test, it has been
    /// said.
    pub fn start(plane: &ControlPlane, setting: NodeSettings) -> Option<Self> {
        if !plane.collects_garbage() {
            return None;
        }
        let script = r#"start() { . "./$1.run"; }"#;
        let supervisor = Supervisor::start(script, |_| Ok(Vec::new()), Supervisor::piped).unwrap();
        let shared = Arc::new(NodeState {
            setting,
            supervisor,
            kubeconfig: plane.kubeconfig(),
            authority: plane.authority(),
            server: plane.server().trim_start_matches("https://").parse().unwrap(),
            running: Mutex::default(),
            ports: Mutex::default(),
            ending: CancellationToken::new(),
        });
        let own = Arc::clone(&shared);
        // A runtime of its own: a test may block the thread that it runs on.
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(watch(own));
        };
        let thread = std::thread::Builder::new().name("node".to_owned()).spawn(work).unwrap();
        Some(Self { shared, thread: Some(thread) })
    }

    /// The pods that run here, in a namespace, sorted by name.
    pub fn pods(&self, namespace: &str) -> Vec<(String, ContainerProcess)> {
        let running = self.shared.running.lock().unwrap();
        let own = running.iter().filter(|((of, _), _)| of == namespace);
        own.map(|((_, name), running)| (name.clone(), running.clone())).collect()
    }

    /// Where a port of a pod really is.
    pub fn address(&self, namespace: &str, pod: &str, port: u16) -> Option<SocketAddr> {
        self.shared.address(namespace, pod, port)
    }

    /// Sends a pod's process a signal: `-STOP`, `-CONT`, `-KILL`.
    pub fn signal(&self, namespace: &str, pod: &str, signal: &str) {
        let running = self.shared.running.lock().unwrap();
        let process = running.get(&(namespace.to_owned(), pod.to_owned())).unwrap_or_else(|| panic!("no pod {pod}"));
        let sent = std::process::Command::new("kill").args([signal, &process.id.to_string()]).status().unwrap();
        assert!(sent.success(), "{signal} to {pod}");
    }

    /// All that a pod's process has written, restarts included.
    pub fn log(&self, namespace: &str, pod: &str) -> String {
        let file = self.shared.supervisor.folder().join(format!("{}.log", program(namespace, pod)));
        String::from_utf8_lossy(&fs_err::read(file).unwrap_or_default()).into_owned()
    }

    /// The logs of all pods that ever ran here, for a test that failed.
    pub fn logs(&self) -> String {
        let mut files: Vec<PathBuf> = fs_err::read_dir(self.shared.supervisor.folder())
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        files.sort();
        let text = |path: &Path| String::from_utf8_lossy(&fs_err::read(path).unwrap_or_default()).into_owned();
        let one = |path: &PathBuf| format!("--- {}\n{}", path.display(), testbed::tail(&text(path), 60));
        files.iter().map(one).collect::<Vec<String>>().join("\n")
    }

    /// What processes wrote beside their volumes: on a read-only root they would have failed. Empty is right.
    pub fn strays(&self) -> Vec<PathBuf> {
        let roots = fs_err::read_dir(self.shared.supervisor.folder().join("pods")).map(|entries| {
            entries.flatten().flat_map(|entry| fs_err::read_dir(entry.path().join("root")).into_iter().flatten())
        });
        roots.map(|files| files.flatten().map(|file| file.path()).collect()).unwrap_or_default()
    }

    /// Gives a service a port of this machine for as long as the node runs, as a load balancer would: connections go to
    /// one ready pod after the other.
    pub fn expose(&self, namespace: &str, service: &str, port: &str) -> SocketAddr {
        expose::expose(&self.shared, namespace, service, port)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.ending.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if std::thread::panicking() {
            testbed::say(&format!("the pods said\n{}", self.logs()));
        }
    }
}

impl NodeState {
    fn address(&self, namespace: &str, pod: &str, port: u16) -> Option<SocketAddr> {
        let key = (namespace.to_owned(), pod.to_owned(), port);
        self.ports.lock().unwrap().get(&key).map(ReservedPort::address)
    }
}

/// What the supervisor calls a pod's process.
fn program(namespace: &str, pod: &str) -> String {
    format!("{namespace}_{pod}")
}

/// Looks for pods, and has a task for each that runs here.
async fn watch(shared: Arc<NodeState>) {
    let client = testbed::client(&shared.kubeconfig, "admin").await.unwrap();
    // By uid: a stateful pod would come again under its name.
    let mut known: BTreeMap<String, kubelet::PodHandle> = BTreeMap::new();
    loop {
        for namespace in &shared.setting.namespaces {
            // An API server that is away comes back.
            let Ok(pods) = Api::<Pod>::namespaced(client.clone(), namespace).list(&ListParams::default()).await else {
                continue;
            };
            let alive: Vec<String> = pods.items.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
            for pod in pods.items {
                let Some(uid) = pod.metadata.uid.clone() else { continue };
                match known.get(&uid) {
                    Some(handle) => handle.seen(&pod),
                    None if pod.metadata.deletion_timestamp.is_none()
                        && spec::image(&shared.setting, &pod).is_some() =>
                    {
                        known.insert(uid, kubelet::start(&shared, client.clone(), namespace.clone(), pod));
                    }
                    None => {}
                }
            }
            // Somebody deleted it with no grace at all.
            known.retain(|uid, handle| {
                handle.is_of(namespace) && {
                    if !alive.contains(uid) {
                        handle.gone();
                    }
                    alive.contains(uid)
                } || !handle.is_of(namespace)
            });
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shared.ending.cancelled() => break,
        }
    }
}
