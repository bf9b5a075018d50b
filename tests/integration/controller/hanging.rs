//! Git hosts that take a connection and never answer, beside one that does.

use super::panicking::until;
use super::{fleet, head, scale};
use crate::testbed::eventually;
use crate::workbench::Workbench;
use stator::controller::sources::file;
use stator::controller::sources::registry::SourceState;
use stator::controller::supervisor::{Controller, ControllerOptions};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::embedded::operator::SimulatedOperator;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

const HANGING: usize = 30;

/// What a host that trickles begins to say: to whoever asks for refs, and to whoever asks an API.
const FIRST_WORDS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\ncontent-length: \
                           100000\r\n\r\n001e# service=git-upload-pack\n0000ffe0";

/// A host that takes connections and never answers, or never comes to the end of what it says.
pub(super) struct Host {
    listener: TcpListener,
    /// Those that are open, and whether they were asked something.
    taken: Vec<(TcpStream, bool)>,
    /// Those that were given up.
    left: usize,
    trickles: bool,
}

impl Host {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener, taken: Vec::new(), left: 0, trickles: false }
    }

    /// One that says a byte each time that it is looked at.
    pub(super) fn trickling() -> Self {
        Self { trickles: true, ..Self::new() }
    }

    /// `http://` and where it listens.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// How many conversations it is in now, and how many were given up before.
    pub(super) fn open(&mut self) -> (usize, usize) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            self.taken.push((stream, false));
        }
        let (trickles, before) = (self.trickles, self.taken.len());
        self.taken.retain_mut(|(stream, is_asked)| {
            let mut request = [0; 4096];
            loop {
                match stream.read(&mut request) {
                    Ok(0) => return false,
                    Ok(_) => {
                        if trickles && !std::mem::replace(is_asked, true) {
                            let _ = stream.write(FIRST_WORDS.as_bytes());
                        }
                    }
                    Err(error) => {
                        if *is_asked {
                            let _ = stream.write(b"x");
                        }
                        return error.kind() == std::io::ErrorKind::WouldBlock;
                    }
                }
            }
        });
        self.left += before - self.taken.len();
        (self.taken.len(), self.left)
    }

    /// The number of the conversation that it is in now; nothing where it is in none.
    pub(super) fn conversation(&mut self) -> Option<usize> {
        let (open, left) = self.open();
        (open > 0).then_some(left)
    }
}

/// The conversations of all hosts, once they are in one at the same time.
pub(super) async fn conversations(hosts: &mut [Host]) -> Vec<usize> {
    let mut all = || hosts.iter_mut().map(Host::conversation).collect::<Option<Vec<usize>>>();
    eventually("all hosts are being asked", async || all()).await
}

/// The sources: one of a repository on this machine, and one of each host that hangs.
fn declaration(bench: &Workbench, hosts: &[Host]) -> String {
    let source = |name: &str, url: &str, more: &str| {
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {url}\n  \
             ref: {{branch: master}}\n  interval: 1s\n{more}---\n"
        )
    };
    let url = bench.root().canonicalize().unwrap().display().to_string();
    let mut text = source("good", &url, "  allowLocal: true\n");
    for (number, host) in hosts.iter().enumerate() {
        let url = format!("{}/team/models.git", host.url());
        text += &source(&format!("hangs-{number}"), &url, "  allowInsecure: true\n");
    }
    text
}

/// Row D7 of the review: conversations with hosts that hang held the threads that everything else needs, too.
#[test]
fn hosts_that_never_answer_keep_no_push_of_another_source_waiting() {
    // A few threads stand for the 512 of a process, and a few dozen hosts for 600.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .unwrap();
    let story = async {
        let mut hosts: Vec<Host> = (0..HANGING).map(|_| Host::new()).collect();
        let bench = fleet(1);
        bench.commit("first");
        let folder = tempfile::Builder::new().prefix("stator-hanging-").tempdir().unwrap();
        let cluster = EmbeddedCluster::open(&folder.path().join("cluster"), EmbeddedOptions::default()).unwrap();
        let _operator = SimulatedOperator::start(cluster.clone(), 1000.0);
        let mut controller = Controller::new(ControllerOptions {
            cluster: AnyCluster::from(cluster),
            implied_cluster: None,
            policies: None,
            data_dir: folder.path().join("data"),
            once: false,
            observations: None,
            pages: None,
        });
        let path = folder.path().join("sources.yaml");
        fs_err::write(&path, declaration(&bench, &hosts)).unwrap();
        let read = file::read_file(&path).unwrap();
        assert!(read.findings.is_empty(), "{:?}", read.findings);
        controller.apply(read.sources);
        // Each of them is being asked, and all at once.
        conversations(&mut hosts).await;
        let first = head(&bench);
        let is_synced = |state: &SourceState, commit: &str| {
            state.is_ready() && state.applied.as_ref().is_some_and(|applied| applied.commit == commit)
        };
        until(&controller, "good", "the first commit is synced", |state| is_synced(state, &first)).await;
        // A push is synced before any host is left. One of them may be in a moment; then the next push tells.
        let mut workers = 3;
        loop {
            workers += 1;
            assert!(workers < 14, "every push waits until a host is left");
            let before = conversations(&mut hosts).await;
            let pushed = scale(&bench, 0, workers);
            until(&controller, "good", "the push is synced", |state| is_synced(state, &pushed)).await;
            if hosts.iter_mut().map(Host::conversation).eq(before.into_iter().map(Some)) {
                break;
            }
        }
        controller.shutdown_token().cancel();
        assert!(controller.wait_until_ended().await);
    };
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(story)));
    // Whoever still talks to a host that hangs is not waited for.
    runtime.shutdown_background();
    if let Err(panic) = told {
        std::panic::resume_unwind(panic);
    }
}
