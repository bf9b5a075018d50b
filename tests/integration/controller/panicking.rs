//! A source whose task panics, beside one that goes on.

use super::{fleet, head, scale};
use crate::testbed::eventually;
use jiff::Timestamp;
use stator::controller::sources::file;
use stator::controller::sources::registry::{ProblemReason, SourceState};
use stator::controller::sources::sync_windows::WindowClock;
use stator::controller::supervisor::{Controller, ControllerOptions};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::embedded::operator::SimulatedOperator;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Waits until a source of a controller stands as it should.
pub(super) async fn until(controller: &Controller, source: &str, what: &str, so: impl Fn(&SourceState) -> bool) {
    eventually(what, async || {
        let state = controller.states().into_iter().find(|(key, _)| key.name == source).unwrap().1;
        so(&state).then_some(()).ok_or(move || format!("{state:#?}"))
    })
    .await;
}

/// Only a source with windows asks the clock, and this clock panics for as long as it is broken: each attempt of that source
/// ends in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_an_attempt_of_one_source_leaves_the_others_running() {
    let (good, bad) = (fleet(1), fleet(1));
    bad.replace("stator.yaml", "namespace: models", "namespace: others");
    let (first, of_bad) = (good.commit("first"), bad.commit("first"));
    let folder = tempfile::Builder::new().prefix("stator-panicking-").tempdir().unwrap();
    let cluster = EmbeddedCluster::open(&folder.path().join("cluster"), EmbeddedOptions::default()).unwrap();
    let _operator = SimulatedOperator::start(cluster.clone(), 1000.0);
    let (is_broken, panics) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (broken, count) = (Arc::clone(&is_broken), Arc::clone(&panics));
    let clock = WindowClock::new(move || {
        if broken.load(Ordering::SeqCst) {
            count.fetch_add(1, Ordering::SeqCst);
            panic!("a clock that is broken");
        }
        Timestamp::now()
    });
    let mut controller = Controller::new(ControllerOptions {
        cluster: AnyCluster::from(cluster),
        implied_cluster: None,
        policies: None,
        data_dir: folder.path().join("data"),
        once: false,
        observations: None,
        pages: None,
    })
    .with_window_clock(clock);
    let declare = |name: &str, bench: &crate::workbench::Workbench, more: &str| {
        let url = bench.root().canonicalize().unwrap().display().to_string();
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {url}\n  \
             allowLocal: true\n  ref: {{branch: master}}\n  interval: 1s\n{more}---\n"
        )
    };
    let windows = "  windows: [{kind: allow, schedule: '* * * * *', duration: 1h}]\n";
    let path = folder.path().join("sources.yaml");
    fs_err::write(&path, declare("good", &good, "") + &declare("bad", &bad, windows)).unwrap();
    let read = file::read_file(&path).unwrap();
    assert!(read.findings.is_empty(), "{:?}", read.findings);
    controller.apply(read.sources);

    let is_synced = |state: &SourceState, commit: &str| {
        state.is_ready() && state.applied.as_ref().is_some_and(|applied| applied.commit == commit)
    };
    let is_said = |state: &SourceState| format!("{state:?}").contains(&format!("{:?}", ProblemReason::InternalError));
    until(&controller, "bad", "its panic is said", is_said).await;
    until(&controller, "good", "the first commit is synced", |state| is_synced(state, &first)).await;
    // It is started anew again and again, and a push to the other one is synced in between.
    let before = panics.load(Ordering::SeqCst);
    let second = scale(&good, 0, 4);
    until(&controller, "good", "a push is synced", |state| is_synced(state, &second)).await;
    until(&controller, "bad", "it panics again", |_| panics.load(Ordering::SeqCst) > before.max(1)).await;
    until(&controller, "good", "it is still well", |state| is_synced(state, &second)).await;

    // Nothing of what went wrong is left once it goes right.
    is_broken.store(false, Ordering::SeqCst);
    until(&controller, "bad", "its commit is synced", |state| is_synced(state, &of_bad) && !is_said(state)).await;
    assert_eq!(head(&good), second);
    controller.shutdown_token().cancel();
    assert!(controller.wait_until_ended().await);
}
