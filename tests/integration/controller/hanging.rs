//! Git hosts that take a connection and never answer, beside one that does.

use super::{fleet, head, scale};
use crate::workbench::Workbench;
use stator::controller::sources::file;
use stator::controller::sources::registry::SourceState;
use stator::controller::supervisor::{Controller, ControllerOptions};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::embedded::operator::SimulatedOperator;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// How long anything is waited for before the test counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);
const HANGING: usize = 30;

/// The sources: one of a repository on this machine, and one of each host that hangs.
fn declaration(bench: &Workbench, hosts: &[TcpListener]) -> String {
    let source = |name: &str, url: &str, more: &str| {
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {url}\n  \
             ref: {{branch: master}}\n  interval: 1s\n{more}---\n"
        )
    };
    let url = bench.root().canonicalize().unwrap().display().to_string();
    let mut text = source("good", &url, "  allowLocal: true\n");
    for (number, host) in hosts.iter().enumerate() {
        let url = format!("http://{}/team/models.git", host.local_addr().unwrap());
        text += &source(&format!("hangs-{number}"), &url, "  allowInsecure: true\n");
    }
    text
}

async fn until(controller: &Controller, what: &str, so: impl Fn(&SourceState) -> bool) {
    let start = Instant::now();
    loop {
        let good = controller.states().into_iter().find(|(key, _)| key.name == "good").unwrap().1;
        if so(&good) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "it never came to this: {what}\n{good:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
        let hosts: Vec<TcpListener> = (0..HANGING).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
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
        // Each of them is being asked.
        let asked = tokio::time::timeout(PATIENCE, async {
            for host in &hosts {
                host.set_nonblocking(true).unwrap();
                while let Err(error) = host.accept().map(std::mem::forget) {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
        assert!(asked.await.is_ok(), "not all hosts were asked at once");
        let first = head(&bench);
        let is_synced = |state: &SourceState, commit: &str| {
            state.is_ready() && state.applied.as_ref().is_some_and(|applied| applied.commit == commit)
        };
        until(&controller, "the first commit is synced", |state| is_synced(state, &first)).await;
        let second = scale(&bench, 0, 4);
        until(&controller, "the push is synced", |state| is_synced(state, &second)).await;
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
