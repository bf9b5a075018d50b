//! Many sources, of which a third have git hosts that hang or trickle, and APIs of git hosts that do: the others are synced
//! as if they were alone.

use super::hanging::{Host, conversations};
use super::panicking::until;
use super::{fleet, head, scale};
use crate::forge_fake::{CANARY, FakeForgeHost, ForgeFlavor};
use crate::git_server::{GitServer, OriginRepository};
use crate::testbed::{eventually, say};
use crate::workbench::Workbench;
use stator::controller::sources::file;
use stator::controller::sources::registry::SourceState;
use stator::controller::sources::resolved_source::SourceKey;
use stator::controller::supervisor::{Controller, ControllerOptions};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::embedded::operator::{OperatorHandle, SimulatedOperator};
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_git::forge::webhook::WebhookHint;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Of two hundred sources, those of hosts that hang, and of hosts that trickle.
const HANGING: usize = 50;
const SLOW: usize = 20;
const GOOD: usize = 130;
/// Pushes to a source among the others, and as many to one that is alone.
const ROUNDS: usize = 9;
/// What a push may take longer among others although nothing keeps it: less than any deadline of a host that hangs.
const NOISE: Duration = Duration::from_secs(5);

/// A controller of an embedded cluster, with its file of sources.
struct Desk {
    controller: Controller,
    file: PathBuf,
    _operator: OperatorHandle,
}

impl Desk {
    fn new(folder: &Path) -> Self {
        let cluster = EmbeddedCluster::open(&folder.join("cluster"), EmbeddedOptions::default()).unwrap();
        let operator = SimulatedOperator::start(cluster.clone(), 1000.0);
        let controller = Controller::new(ControllerOptions {
            cluster: AnyCluster::from(cluster),
            implied_cluster: None,
            policies: None,
            data_dir: folder.join("data"),
            once: false,
            observations: None,
            pages: None,
        });
        Self { controller, file: folder.join("sources.yaml"), _operator: operator }
    }

    fn apply(&mut self, text: &str) {
        fs_err::write(&self.file, text).unwrap();
        let read = file::read_file(&self.file).unwrap();
        assert!(read.findings.is_empty(), "{:?}", read.findings);
        self.controller.apply(read.sources);
    }

    async fn synced(&self, source: &str, commit: &str) {
        let is_synced = |state: &SourceState| {
            state.is_ready() && state.applied.as_ref().is_some_and(|applied| applied.commit == commit)
        };
        until(&self.controller, source, &format!("{source} is synced at {commit}"), is_synced).await;
    }

    /// What a webhook does.
    fn hint(&self, source: &str, branch: &str) {
        let entry = self.controller.registry().entry(&SourceKey::new("default", source)).unwrap();
        entry.hints.add(WebhookHint::Ref { name: format!("refs/heads/{branch}") });
    }

    /// How long it takes from a push until it is applied.
    async fn push(&self, source: &str, bench: &Workbench, replicas: u32) -> Duration {
        let began = Instant::now();
        let pushed = scale(bench, 0, replicas);
        self.hint(source, "master");
        self.synced(source, &pushed).await;
        began.elapsed()
    }

    async fn end(mut self) {
        self.controller.shutdown_token().cancel();
        assert!(self.controller.wait_until_ended().await);
    }
}

fn source(name: &str, url: &str, more: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {url}\n{more}---\n"
    )
}

/// A repository on this machine that is looked at when somebody says so.
fn local(name: &str, bench: &Workbench) -> String {
    let url = bench.root().canonicalize().unwrap().display().to_string();
    source(name, &url, "  allowLocal: true\n  ref: {branch: master}\n  interval: 24h\n")
}

/// A repository with so many models, whose namespace no other has.
fn repository(number: usize, models: usize) -> Workbench {
    let bench = fleet(models);
    bench.replace("stator.yaml", "namespace: models", &format!("namespace: models-{number}"));
    bench.commit("first");
    bench
}

/// Runs a story on few threads, which stand for those of a process.
fn tell(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .unwrap();
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(story)));
    // Whoever still talks to a host that hangs is not waited for.
    runtime.shutdown_background();
    if let Err(panic) = told {
        std::panic::resume_unwind(panic);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Two hundred sources, of which 50 hosts never answer and 20 trickle: what is pushed to another is applied while all of them
/// are in the conversations that they were in when it was pushed, and as soon as where it is alone. Both are pushed to in
/// turn, so whatever else the machine does is in both medians; what waits for a host that hangs waits for a minute.
#[test]
fn among_hosts_that_hang_and_trickle_a_push_is_applied_as_soon_as_alone() {
    tell(async {
        let hosts = (0..HANGING).map(|_| Host::new()).chain((0..SLOW).map(|_| Host::trickling()));
        let mut hosts: Vec<Host> = hosts.collect();
        // One has a model that is scaled; the others are there, and at rest.
        let good: Vec<Workbench> = (0..GOOD).map(|number| repository(number, usize::from(number == 0))).collect();
        let lone = repository(0, 1);
        let folder = tempfile::Builder::new().prefix("stator-crowded-").tempdir().unwrap();
        let (in_crowd, alone) = (folder.path().join("crowd"), folder.path().join("alone"));
        fs_err::create_dir_all(&in_crowd).unwrap();
        fs_err::create_dir_all(&alone).unwrap();
        let (mut crowd, mut alone) = (Desk::new(&in_crowd), Desk::new(&alone));
        let mut text: String = (0..).zip(&hosts).fold(String::new(), |text, (number, host): (usize, &Host)| {
            let more = "  allowInsecure: true\n  ref: {branch: main}\n  interval: 1s\n";
            text + &source(&format!("bad-{number}"), &format!("{}/team/models.git", host.url()), more)
        });
        text += &(0..)
            .zip(&good)
            .map(|(number, bench): (usize, _)| local(&format!("good-{number}"), bench))
            .collect::<String>();
        crowd.apply(&text);
        alone.apply(&local("good-0", &lone));
        alone.synced("good-0", &head(&lone)).await;
        for (number, bench) in good.iter().enumerate() {
            crowd.synced(&format!("good-{number}"), &head(bench)).await;
        }
        let (mut among, mut apart, mut undisturbed) = (Vec::new(), Vec::new(), 0);
        for (round, replicas) in (0..ROUNDS).zip(3..) {
            apart.push(alone.push("good-0", &lone, replicas).await);
            let before = conversations(&mut hosts).await;
            among.push(crowd.push("good-0", &good[0], replicas).await);
            undisturbed += usize::from(hosts.iter_mut().map(Host::conversation).eq(before.into_iter().map(Some)));
            say(&format!("round {round}: {:?} alone, {:?} among the others", apart[round], among[round]));
        }
        assert!(undisturbed > 0, "every push waits until a host is left");
        let (among, apart) = (median(among), median(apart));
        assert!(among <= apart * 2 + NOISE, "{among:?} among the others, {apart:?} alone");
        crowd.end().await;
        alone.end().await;
    });
}

/// Sources of one git host's API that hangs, and calls that it gets at a time.
const OF_ONE_HOST: usize = 40;
const CALLS_OF_ONE_HOST: usize = 16;

/// APIs of git hosts hang and trickle, one of them for forty sources: it has so many calls at a time and no more, and a push
/// to another source is applied, and its status posted, while those that were asked when it was pushed are still asked.
#[test]
fn among_forges_that_hang_and_trickle_a_push_is_applied_and_its_status_posted() {
    let folder = tempfile::Builder::new().prefix("stator-crowded-").tempdir().unwrap();
    let hosted = folder.path().join("hosted");
    fs_err::create_dir_all(hosted.join("team")).unwrap();
    let origin = OriginRepository::new(&hosted.join("team/models.git"));
    let commit = |replicas: u32| {
        let model = crate::cli::MOCK.replace("replicas: 2", &format!("replicas: {replicas}"));
        origin.commit("main", &[("stator.yaml", super::STATOR), ("models/mock/model.yaml", &model)])
    };
    let first = commit(2);
    let git = GitServer::start(&hosted);
    tell(async {
        let good = FakeForgeHost::start(ForgeFlavor::Gitea).await;
        good.state().commits.push(first.clone());
        let mut hosts: Vec<Host> =
            (0..HANGING - 1).map(|_| Host::new()).chain((0..SLOW).map(|_| Host::trickling())).collect();
        let mut busy = Host::new();
        let declared = |name: &str, api: &str| {
            let more = format!(
                "  allowInsecure: true\n  ref: {{branch: main}}\n  interval: 24h\n  targetNamespace: {name}\n  forge: \
                 {{type: gitea, url: '{api}', secretRef: {{name: forge}}}}\n"
            );
            source(name, &git.url("team/models.git"), &more)
        };
        let mut text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: forge}}\nstringData: {{token: {CANARY}}}\n---\n{}",
            declared("good", &good.api())
        );
        for number in 0..OF_ONE_HOST {
            text += &declared(&format!("busy-{number}"), &format!("{}/api/v1", busy.url()));
        }
        for (number, host) in hosts.iter().enumerate() {
            text += &declared(&format!("bad-{number}"), &format!("{}/api/v1", host.url()));
        }
        let mut desk = Desk::new(folder.path());
        desk.apply(&text);
        let is_posted = async |commit: &str| {
            eventually("its success is posted", async || {
                let newest = good.state().newest(commit);
                newest.iter().any(|row| row.state == "success").then_some(()).ok_or(move || format!("{newest:?}"))
            })
            .await;
        };
        desk.synced("good", &first).await;
        is_posted(&first).await;
        eventually("one host has all the calls that it may have", async || busy.open().0 == CALLS_OF_ONE_HOST).await;
        let mut undisturbed = 0;
        for replicas in 3..9 {
            let look = |hosts: &mut [Host]| hosts.iter_mut().map(Host::conversation).collect::<Vec<_>>();
            let before = eventually("most hosts are asked", async || {
                let asked = look(&mut hosts);
                (asked.iter().flatten().count() > hosts.len() / 2).then_some(asked)
            })
            .await;
            let pushed = commit(replicas);
            good.state().commits.push(pushed.clone());
            desk.hint("good", "main");
            desk.synced("good", &pushed).await;
            is_posted(&pushed).await;
            let after = look(&mut hosts);
            let is_same = before.iter().zip(&after).all(|(before, after)| before.is_none() || before == after);
            undisturbed += usize::from(is_same);
            assert!(busy.open().0 <= CALLS_OF_ONE_HOST, "{:?}", busy.open());
        }
        assert!(undisturbed > 0, "every push waits until a host is left");
        good.assert_no_faults();
        desk.controller.shutdown_token().cancel();
    });
}
