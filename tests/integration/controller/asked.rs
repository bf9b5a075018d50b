//! What people ask of a source that runs, and what it does by itself meanwhile: approvals, windows, suspension, drift.
//! The controller as a library, a repository, an embedded cluster, and an operator that is played.

use super::{fleet, head, scale};
use crate::testbed::eventually;
use crate::workbench::Workbench;
use stator::controller::sources::file;
use stator::controller::sources::manual_requests::{
    ALLOW, ManualRequests, OUTSIDE_WINDOWS_ANNOTATION, REQUESTED_AT_ANNOTATION,
};
use stator::controller::sources::objects::ModelSourceStore;
use stator::controller::sources::registry::{SourcePhase, SourceState};
use stator::controller::sources::resolved_source::SourceKey;
use stator::controller::sources::sync_windows::WindowClock;
use stator::controller::supervisor::{Controller, ControllerOptions};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::embedded::operator::{OperatorHandle, SimulatedOperator};
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(super) struct Room {
    pub(super) bench: Workbench,
    folder: tempfile::TempDir,
    controller: Controller,
    told: Arc<Mutex<Vec<String>>>,
    operator: Option<OperatorHandle>,
}

fn key() -> SourceKey {
    SourceKey::new("default", "models")
}

impl Room {
    /// A controller that follows the repository; `more` are further lines of the source's `spec`.
    pub(super) async fn of(bench: Workbench, more: &str) -> Self {
        Self::at(WindowClock::default(), bench, more).await
    }

    /// The same, with a clock of its own for sync windows.
    pub(super) async fn at(clock: WindowClock, bench: Workbench, more: &str) -> Self {
        bench.commit("first");
        let folder = tempfile::Builder::new().prefix("stator-asked-").tempdir().unwrap();
        let cluster = EmbeddedCluster::open(&folder.path().join("cluster"), EmbeddedOptions::default()).unwrap();
        let operator = SimulatedOperator::start(cluster.clone(), 1000.0);
        let place = ControllerOptions {
            cluster: AnyCluster::from(cluster),
            implied_cluster: None,
            policies: None,
            data_dir: folder.path().join("data"),
            once: false,
            observations: None,
            pages: None,
        };
        // As where sources are objects of a cluster, which people annotate.
        let controller = Controller::new(place).with_resources(Arc::new(ModelSourceStore::default()));
        let controller = controller.with_window_clock(clock);
        let (told, mut news) = (Arc::new(Mutex::new(Vec::new())), controller.registry().subscribe_events());
        let kept = Arc::clone(&told);
        tokio::spawn(async move {
            while let Ok(news) = news.recv().await {
                if news.model.is_none() {
                    kept.lock().unwrap().push(news.kind.as_str().to_owned());
                }
            }
        });
        let mut room = Self { bench, folder, controller, told, operator: Some(operator) };
        room.declare(more).await;
        room
    }

    async fn declare(&mut self, more: &str) {
        self.declare_of("master", more);
    }

    /// Follows another branch from now on.
    pub(super) fn follow(&mut self, branch: &str) {
        self.declare_of(branch, "");
    }

    fn declare_of(&mut self, branch: &str, more: &str) {
        let interval = if more.contains("interval:") { "" } else { "  interval: 1s\n" };
        let text = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: models}}\nspec:\n  url: {}\n  allowLocal: true\n  ref: {{branch: {branch}}}\n{interval}{more}",
            self.bench.root().canonicalize().unwrap().display()
        );
        let path = self.folder.path().join("sources.yaml");
        fs_err::write(&path, text).unwrap();
        let read = file::read_file(&path).unwrap();
        assert!(read.findings.is_empty(), "{:?}", read.findings);
        self.controller.apply(read.sources);
    }

    pub(super) fn standing(&self) -> SourceState {
        self.controller.states().into_iter().next().unwrap().1
    }

    pub(super) async fn until(&self, what: &str, so: impl Fn() -> bool) {
        self.stands(what, |_| so()).await;
    }

    pub(super) async fn stands(&self, what: &str, so: impl Fn(&SourceState) -> bool) -> SourceState {
        // The state that was judged: a later one may be another.
        let seen = || format!("{:#?}\n{:?}", self.standing(), self.told.lock().unwrap());
        let look = || Some(self.standing()).filter(&so).ok_or(&seen);
        eventually(what, async || look()).await
    }

    pub(super) async fn synced(&self, commit: &str) -> SourceState {
        self.stands(&format!("{commit} is synced"), |standing| {
            standing.is_ready()
                && standing.phase == SourcePhase::Idle
                && standing.applied.as_ref().is_some_and(|applied| applied.commit == commit)
        })
        .await
    }

    /// Annotates the source.
    pub(super) fn ask(&self, pairs: &[(&str, &str)]) {
        let annotations: BTreeMap<String, String> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (requests, faults) = ManualRequests::from_annotations(&annotations);
        assert!(faults.is_empty(), "{faults:?}");
        self.controller.set_requests(&key(), requests);
    }

    /// Writes a policy of the administrators.
    pub(super) fn allow(&self, name: &str, spec: &str) {
        let folder = self.folder.path().join("cluster/fleetpolicies.stator.dev");
        fs_err::create_dir_all(&folder).unwrap();
        let text =
            format!("apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        fs_err::write(folder.join(format!("{name}.yaml")), text).unwrap();
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("cluster/models/dynamographdeployments/{name}.yaml"))
    }

    pub(super) fn graph(&self, name: &str) -> String {
        fs_err::read_to_string(self.place(name)).unwrap_or_default()
    }

    /// The conditions of a model's record.
    pub(super) fn conditions(&self, model: &str) -> Vec<String> {
        let path = self.folder.path().join(format!("cluster/models/models/{model}.yaml"));
        let text = fs_err::read_to_string(path).unwrap_or_default();
        let record: serde_json::Value = serde_saphyr::from_str(&text).unwrap_or_default();
        let conditions = record["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        conditions.iter().map(|one| format!("{}={}", text(&one["type"]), text(&one["status"]))).collect()
    }

    pub(super) fn graphs(&self) -> usize {
        let folder = self.folder.path().join("cluster/models/dynamographdeployments");
        let Ok(entries) = fs_err::read_dir(folder) else { return 0 };
        entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
    }

    /// Whether anything was ever written to a namespace.
    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.folder.path().join("cluster").join(name).exists()
    }

    /// Deletes a model's record, as somebody does by hand.
    pub(super) fn remove_record(&self, model: &str) {
        fs_err::remove_file(self.folder.path().join(format!("cluster/models/models/{model}.yaml"))).unwrap();
    }

    /// Changes a live graph, as somebody does by hand.
    pub(super) fn edit(&self, name: &str, old: &str, new: &str) {
        let text = self.graph(name);
        assert!(text.contains(old), "{text}");
        fs_err::write(self.place(name), text.replace(old, new)).unwrap();
    }

    /// The cluster, as `--cluster` takes it.
    pub(super) fn cluster(&self) -> String {
        format!("embedded:{}", self.folder.path().join("cluster").display())
    }

    /// Nobody makes anything healthy from now on.
    pub(super) fn end_operator(&mut self) {
        self.operator = None;
    }

    /// Deletes a live graph, as somebody does by hand.
    pub(super) fn delete(&self, name: &str) {
        fs_err::remove_file(self.place(name)).unwrap();
    }

    /// Asserts that nothing is left to do.
    pub(super) fn is_settled(&self) {
        self.bench.run(["plan", "--exit-code", "--cluster", &self.cluster()]).success();
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    pub(super) async fn end(mut self) {
        self.controller.shutdown_token().cancel();
        assert!(self.controller.wait_until_ended().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mass_removal_waits_for_an_approval_of_its_commit() {
    let room = Room::of(fleet(7), "").await;
    let first = head(&room.bench);
    // An approval of another commit.
    let plan = "0".repeat(64);
    room.ask(&[(ALLOW, &format!("mass-delete@{first}:{plan}"))]);
    room.synced(&first).await;
    for number in 1..7 {
        room.bench.remove(&format!("models/mock-{number}"));
    }
    let second = room.bench.commit("remove most");
    let standing =
        room.stands("it is held", |standing| standing.hold.is_some() && standing.phase == SourcePhase::Idle).await;
    let held = standing.hold.clone().unwrap();
    assert_eq!((held.revision.as_str(), room.graphs()), (second.as_str(), 7));
    assert_eq!(held.release_command(&key()), "stator sync --source models -n default --allow mass-delete");
    let problem = standing.problem().unwrap();
    insta::assert_snapshot!(problem.to_string().replace(&second, "<commit>").replace(&held.plan, "<plan>"), @"held back (mass-delete): 6 of 7 objects would be deleted; the limit without approval is 5; check that this is intended, then run `stator sync --source models -n default --allow mass-delete`, or annotate the source with stator.dev/allow=mass-delete@<commit>:<plan>");
    let unheard: Vec<String> = standing.rejected_requests.iter().cloned().collect();
    assert_eq!(
        unheard,
        [format!(
            "the approval `mass-delete@{first}:{plan}` is for another commit and approves nothing of {}",
            &second[..7]
        )]
    );

    room.ask(&[(ALLOW, &held.approval_annotation()), (REQUESTED_AT_ANNOTATION, "now")]);
    let standing = room.synced(&second).await;
    assert_eq!((room.graphs(), standing.hold.is_none(), standing.rejected_requests.is_empty()), (1, true, true));
    room.stands("the request is answered", |standing| standing.handled_request.as_deref() == Some("now")).await;
    room.is_settled();
    assert_eq!(room.told(), ["Synced", "Held", "RequestNotMet", "Approved", "Synced"]);

    // What was approved stays approved for that commit alone.
    for number in 1..7 {
        super::add(&room.bench, number);
    }
    let third = room.bench.commit("add them again");
    room.synced(&third).await;
    for number in 1..7 {
        room.bench.remove(&format!("models/mock-{number}"));
    }
    room.bench.write("note.txt", "another commit");
    room.bench.commit("remove most again");
    room.stands("it is held again", |standing| standing.hold.is_some()).await;
    assert_eq!(room.graphs(), 7);
    room.end().await;
}

/// S13: an approval is for what was held back when it was given. What moves since then needs an approval of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_void_once_the_plan_moves() {
    let room = Room::of(fleet(8), "").await;
    room.synced(&head(&room.bench)).await;
    for number in 1..8 {
        room.bench.remove(&format!("models/mock-{number}"));
    }
    let commit = room.bench.commit("remove most");
    let standing =
        room.stands("it is held", |standing| standing.hold.is_some() && standing.phase == SourcePhase::Idle).await;
    let before = standing.hold.clone().unwrap();
    assert_eq!(before.revision, commit);
    // What is held is kept as it was, so it is made again, as another object of its name.
    room.delete("mock-7");
    room.until("it is created again", || room.graphs() == 8).await;
    let moved = |standing: &SourceState| {
        standing.hold.as_ref().is_some_and(|hold| hold.plan != before.plan) && standing.phase == SourcePhase::Idle
    };
    room.stands("another plan is held", moved).await;
    room.ask(&[(ALLOW, &before.approval_annotation()), (REQUESTED_AT_ANNOTATION, "1")]);
    let refused = room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("1")).await;
    assert!(refused.rejected_requests.iter().any(|one| one.contains("is for another plan")), "{refused:?}");
    assert_eq!((room.graphs(), refused.approval.is_none()), (8, true));
    let standing = room.stands("it rests", moved).await;
    room.ask(&[(ALLOW, &standing.hold.unwrap().approval_annotation()), (REQUESTED_AT_ANNOTATION, "2")]);
    let done = room.synced(&commit).await;
    assert_eq!((room.graphs(), done.approval.map(|approval| approval.revision)), (1, Some(commit)));
    room.is_settled();
    room.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_window_opens_for_one_commit_and_says_so() {
    let room = Room::of(fleet(1), "  windows: [{kind: allow, schedule: '0 0 29 2 *', duration: 1m}]\n").await;
    let first = head(&room.bench);
    room.stands("no sync window is open", |standing| standing.phase == SourcePhase::WindowClosed).await;
    room.ask(&[(OUTSIDE_WINDOWS_ANNOTATION, &"0123456789".repeat(4))]);
    room.stands("another commit was meant", |standing| standing.rejected_requests.len() == 1).await;
    assert_eq!(room.graphs(), 0);
    room.ask(&[(OUTSIDE_WINDOWS_ANNOTATION, &first)]);
    let standing = room.synced(&first).await;
    assert_eq!(standing.outside_windows.as_ref(), Some(&first));
    room.is_settled();

    // Synced, the window is closed again: for drift, for a request, and for the next commit.
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    room.stands("it is closed again", |standing| standing.phase == SourcePhase::WindowClosed).await;
    room.ask(&[(OUTSIDE_WINDOWS_ANNOTATION, &first), (REQUESTED_AT_ANNOTATION, "1")]);
    let standing = room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("1")).await;
    assert!(
        standing.rejected_requests.iter().any(|text| text.contains("no sync window is open")),
        "{:?}",
        standing.rejected_requests
    );
    assert!(room.graph("mock-0").contains("replicas: 7"));
    let second = scale(&room.bench, 0, 3);
    room.stands("it is seen", |standing| standing.seen.as_ref().is_some_and(|seen| seen.commit == second)).await;
    room.ask(&[(OUTSIDE_WINDOWS_ANNOTATION, &second)]);
    room.synced(&second).await;
    assert!(room.graph("mock-0").contains("replicas: 3"));
    room.is_settled();
    let told = room.told();
    assert_eq!(told.iter().filter(|word| *word == "OutsideWindows").count(), 2, "{told:?}");
    room.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_that_is_not_to_be_healed_stays_until_somebody_asks_or_commits() {
    let room = Room::of(fleet(2), "  selfHeal: false\n").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    let standing = room.stands("it is seen", |standing| standing.counts.drifted == 1).await;
    assert!(standing.verdict.as_ref().unwrap().is_success() && standing.is_ready());
    assert!(room.graph("mock-0").contains("replicas: 7"));
    // Another change is seen as well, and one that is taken back is no drift.
    room.edit("mock-1", "replicas: 2", "replicas: 9");
    room.stands("both are seen", |standing| standing.counts.drifted == 2).await;
    room.edit("mock-1", "replicas: 9", "replicas: 2");
    room.stands("one is left", |standing| standing.counts.drifted == 1).await;

    room.ask(&[(REQUESTED_AT_ANNOTATION, "1")]);
    room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("1")).await;
    room.stands("it is put back", |standing| standing.counts.drifted == 0 && standing.is_ready()).await;
    assert!(room.graph("mock-0").contains("replicas: 2"));
    room.is_settled();

    // The next commit puts back what it does not change, too.
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    room.stands("it is seen again", |standing| standing.counts.drifted == 1).await;
    let second = scale(&room.bench, 1, 4);
    room.synced(&second).await;
    room.stands("nothing drifted", |standing| standing.counts.drifted == 0).await;
    assert!(room.graph("mock-0").contains("replicas: 2") && room.graph("mock-1").contains("replicas: 4"));
    room.is_settled();
    room.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_broken_commit_cannot_speak_for_is_kept_as_it_was() {
    let room = Room::of(fleet(2), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    room.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    let broken = scale(&room.bench, 1, 4);
    room.stands("it is judged", |standing| {
        standing.verdict.as_ref().is_some_and(|verdict| verdict.revision == broken)
            && standing.phase == SourcePhase::Idle
    })
    .await;
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    room.until("the broken one is put back", || room.graph("mock-0").contains("replicas: 2")).await;
    let standing = room.stands("it is told", |standing| standing.counts.drifted == 0).await;
    assert_eq!(standing.last_known_good.as_ref(), Some(&first));
    // What the newest commit did stays done.
    assert!(room.graph("mock-1").contains("replicas: 4"));

    // A root that cannot be read speaks for nothing at all.
    room.bench.write("stator.yaml", "kind: [\n");
    let worse = room.bench.commit("break all");
    room.stands("it is judged, too", |standing| {
        standing.verdict.as_ref().is_some_and(|verdict| verdict.revision == worse)
            && standing.phase == SourcePhase::Idle
    })
    .await;
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    room.until("it is put back again", || room.graph("mock-0").contains("replicas: 2")).await;
    room.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspension_writes_nothing_and_the_newest_commit_is_synced_after_it() {
    let mut room = Room::of(fleet(1), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    let before = room.graph("mock-0");
    room.declare("  suspend: true\n").await;
    room.stands("it is suspended", |standing| standing.phase == SourcePhase::Suspended).await;
    // What is known stays known.
    assert_eq!(room.standing().applied.unwrap().commit, first);
    let second = scale(&room.bench, 0, 3);
    room.stands("it is seen", |standing| standing.seen.as_ref().is_some_and(|seen| seen.commit == second)).await;
    room.ask(&[(REQUESTED_AT_ANNOTATION, "1")]);
    let standing = room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("1")).await;
    assert!(
        standing.rejected_requests.iter().any(|text| text.contains("suspended")),
        "{:?}",
        standing.rejected_requests
    );
    let third = scale(&room.bench, 0, 5);
    room.stands("it is seen", |standing| standing.seen.as_ref().is_some_and(|seen| seen.commit == third)).await;
    assert_eq!(room.graph("mock-0"), before);
    room.declare("").await;
    room.synced(&third).await;
    assert!(room.graph("mock-0").contains("replicas: 5"));
    // The request was answered, and is not carried out once more.
    assert_eq!(room.standing().handled_request.as_deref(), Some("1"));
    room.is_settled();
    assert_eq!(room.told(), ["Synced", "Suspended", "RequestNotMet", "Resumed", "Synced"]);
    room.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_answered_whatever_the_source_waits_for() {
    // Nothing looks by itself: the interval is longer than the test.
    let room = Room::of(fleet(1), "  interval: 12h\n").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    // At rest: the look finds the commit that nobody told of, and it is synced before the request counts as answered.
    let second = scale(&room.bench, 0, 3);
    room.ask(&[(REQUESTED_AT_ANNOTATION, "1")]);
    let standing = room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("1")).await;
    assert_eq!(standing.attempted.unwrap().commit, second);
    room.synced(&second).await;

    // Waiting for a change of the commit.
    room.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    let broken = room.bench.commit("break it");
    room.ask(&[(REQUESTED_AT_ANNOTATION, "2")]);
    room.stands("it is judged", |standing| {
        standing.handled_request.as_deref() == Some("2")
            && standing.verdict.as_ref().is_some_and(|one| one.revision == broken)
    })
    .await;
    room.ask(&[(REQUESTED_AT_ANNOTATION, "3")]);
    room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("3")).await;

    // Backing off, as the repository is gone.
    let (root, aside) = (room.bench.root(), room.bench.root().with_file_name("aside"));
    fs_err::rename(&root, &aside).unwrap();
    room.ask(&[(REQUESTED_AT_ANNOTATION, "4")]);
    let standing = room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("4")).await;
    assert!(
        standing.problems.contains_key(&stator::controller::sources::registry::ProblemScope::Repository),
        "{standing:#?}"
    );
    fs_err::rename(&aside, &root).unwrap();
    room.bench.replace("models/mock-0/model.yaml", "engine: steam", "engine: mocker");
    let mended = room.bench.commit("mend it");
    room.ask(&[(REQUESTED_AT_ANNOTATION, "5")]);
    room.stands("it is answered", |standing| standing.handled_request.as_deref() == Some("5")).await;
    room.synced(&mended).await;
    room.is_settled();
    room.end().await;
}

/// Two models on GPUs of which the source may have three: making one again that somebody deleted is held back.
fn two_on_gpus() -> Workbench {
    let bench = fleet(0);
    for number in 0..2 {
        let text = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: NAME}\nspec:\n  model: Qwen/Qwen3-0.6B\n  engine: vllm\n  runtime: 1.2.0\n  hardware: {gpu: l40s, gpusPerNode: 4}\n  serving:\n    frontend: {replicas: 1}\n    worker: {tensorParallel: 1, replicas: 2}\n";
        bench.write(&format!("models/mock-{number}/model.yaml"), text.replace("NAME", &format!("mock-{number}")));
    }
    bench
}

/// Row C1 of the review: drift whose repair a guard holds back was told by nobody, and the source stayed ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_whose_repair_is_held_back_is_held_and_drifted() {
    let mut room = Room::of(two_on_gpus(), "").await;
    let first = head(&room.bench);
    room.synced(&first).await;
    room.declare("  guards: {maxGpus: 3}\n").await;
    room.synced(&first).await;
    fs_err::remove_file(room.place("mock-0")).unwrap();
    let is_told = |state: &SourceState| {
        let held = state.hold.as_ref().is_some_and(|hold| hold.guard_list() == "max-gpus");
        held && state.counts.drifted == 1 && !state.is_ready() && state.phase == SourcePhase::Idle
    };
    let state = room.stands("it is held, and drifted", is_told).await;
    let message = &state.problem().unwrap().message;
    assert!(message.contains("GPUs") && message.contains("model drifted"), "{message}");
    let told = room.told();
    assert!(told.contains(&"Drifted".to_owned()) && told.contains(&"Held".to_owned()), "{told:?}");

    // Looked at again, it is what it was.
    room.ask(&[(REQUESTED_AT_ANNOTATION, "1")]);
    room.stands("it is answered", |state| state.handled_request.as_deref() == Some("1")).await;
    assert!(is_told(&room.stands("it is judged", |state| state.phase == SourcePhase::Idle).await));
    assert_eq!(room.graphs(), 1);

    let approval = room.standing().hold.unwrap().approval_annotation();
    assert!(approval.starts_with(&format!("max-gpus@{first}:")), "{approval}");
    room.ask(&[(REQUESTED_AT_ANNOTATION, "1"), (ALLOW, &approval)]);
    room.stands("it is put back", |state| state.is_ready() && state.counts.drifted == 0).await;
    assert_eq!(room.graphs(), 2);
    room.end().await;
}
