//! Several replicas of the controller: what becomes of sources when one ends, dies, freezes, or is cut off.

mod scene;
pub mod upgrade;

use crate::gitea;
use crate::testbed::{self, ControlPlane, Programs, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use scene::{Replica, Scene, aside};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Waits until a replica holds the shard that another one has just lost. How long that may take is told by the tests of the
/// replicas' machine, whose time is made.
async fn takes_over(scene: &Scene, replica: &Replica) {
    let name = format!("{}-", replica.name);
    let holds = async || scene.holder(0).await.is_some_and(|holder| holder.starts_with(&name));
    let start = Instant::now();
    eventually("the other one takes over", holds).await;
    tell("takeover of the lease", start);
}

fn tell(what: &str, start: Instant) {
    testbed::say(&format!("{what}: {:.1} s", start.elapsed().as_secs_f32()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_takes_over_from_one_that_is_killed_and_from_one_that_ends() {
    let Some(scene) = Scene::set("replicas-failover").await else { return };
    scene.push(3, 1);
    scene.source("models", json!({})).await;
    let mut pair = [scene.start("one", 1).await, scene.start("two", 1).await];
    eventually("the first commit is synced", async || scene.are(3, 1).await).await;
    let leader = scene.leader(&[&pair[0], &pair[1]]).await;
    for replica in &pair {
        let (said, owns) = (replica.said(), "this replica now owns the shard");
        assert!(!said.split(owns).next().unwrap().contains("applied"), "only the one that owns it works:\n{said}");
    }

    pair[leader].kill();
    takes_over(&scene, &pair[1 - leader]).await;
    scene.push(3, 2);
    eventually("the other one syncs the next push", async || scene.are(3, 2).await).await;

    let third = scene.start("three", 1).await;
    eventually("it is known", async || {
        let leases: Api<Lease> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let all = leases.list(&ListParams::default().labels("stator.dev/lease=member")).await.unwrap();
        all.iter().any(|lease| lease.metadata.name.as_deref().unwrap_or_default().starts_with("stator-member-three-"))
    })
    .await;
    scene.quiet().await;
    scene.push(3, 3);
    pair[1 - leader].signal("-TERM");
    let start = Instant::now();
    eventually("it holds the shard", async || scene.holder(0).await.is_some_and(|holder| holder.starts_with("three-")))
        .await;
    tell("handover at an orderly end, until the lease is taken", start);
    assert!(pair[1 - leader].ended().await);
    eventually("it syncs the next push", async || scene.are(3, 3).await).await;
    assert!(third.said().contains("this replica now owns the shard"), "{}", third.said());
}

/// A leader that is frozen in the middle of a sync, overtaken, and let go on, begins no write any more: not in the cluster,
/// not on the git host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_frozen_in_a_sync_writes_nothing_when_it_goes_on() {
    const MODELS: usize = 40;
    /// As many as a sync sends before it waits for answers.
    const WRITES_AT_ONCE: usize = 8;
    let Some(git) = aside(gitea::shared) else { return };
    let Some(scene) = Scene::set("replicas-frozen").await else { return };
    let repository = aside(|| git.repository("replicas-frozen"));
    let bare = scene.origin.0.path().to_owned();
    let push = |replicas: u32| {
        let commit = scene.push(MODELS, replicas);
        aside(|| {
            repository.try_push(&bare, &["refs/heads/main:refs/heads/main"]).unwrap();
            repository.wait_for_tip("main", &commit);
        });
        commit
    };
    let secret = |name: &str, data: serde_json::Value| {
        let secret = json!({
            "metadata": {"name": name, "labels": {"stator.dev/credential": "true"}}, "stringData": data,
        });
        scene.make("v1", "Secret", "secrets", secret)
    };
    let authority = fs_err::read_to_string(git.certificate()).unwrap();
    secret("git", json!({"username": gitea::BOT, "password": git.bot_token(), "ca.crt": authority})).await;
    secret("forge", json!({"token": git.bot_token(), "ca.crt": authority})).await;
    let first = push(1);
    let forge = json!({"type": "gitea", "secretRef": {"name": "forge"}});
    scene.source("models", json!({"url": repository.url(), "secretRef": {"name": "git"}, "forge": forge})).await;
    let pair = [scene.start("one", 1).await, scene.start("two", 1).await];
    eventually("the first commit is synced", async || scene.are(MODELS, 1).await).await;
    let verdict = |commit: &str| aside(|| repository.status(commit, "stator/prod")).map(|status| status.state);
    eventually("its verdict is told", async || verdict(&first).as_deref() == Some("success")).await;
    let leader = scene.leader(&[&pair[0], &pair[1]]).await;
    let (frozen, other) = (&pair[leader], &pair[1 - leader]);

    let mut workers = 1_u32;
    let second = loop {
        workers += 1;
        let commit = push(workers);
        let begun = async || scene.graphs().await.values().any(|(_, _, now)| *now == i64::from(workers));
        eventually("it is in the middle", begun).await;
        frozen.signal("-STOP");
        if !scene.are(MODELS, workers.into()).await {
            break commit;
        }
        // It was through before it could be frozen: the next commit is tried.
        assert!(workers < 30, "no sync could be frozen in the middle");
        frozen.signal("-CONT");
        eventually("its verdict is told", async || verdict(&commit).as_deref() == Some("success")).await;
    };
    takes_over(&scene, other).await;
    let third = push(workers + 1);
    let newest = async || scene.are(MODELS, (workers + 1).into()).await;
    eventually("the other one syncs the newest commit", newest).await;
    eventually("its verdict is told", async || verdict(&third).as_deref() == Some("success")).await;
    let before = scene.quiet().await;
    let all = |commit: &str| aside(|| repository.statuses(commit));
    let statuses = |commit: &str| all(commit).len();
    let told = [statuses(&first), statuses(&second), statuses(&third)];

    frozen.signal("-CONT");
    let noticed = "no longer owns the shard";
    eventually("it notices", async || frozen.said().contains(noticed)).await;
    let after = scene.quiet().await;
    // Answers that were there already are still told.
    let said = frozen.said();
    let told_after = said.split_once(noticed).unwrap().1.matches(": applied ").count();
    assert!(told_after <= WRITES_AT_ONCE, "{said}");
    // What it was sending at the very moment arrives now (`kube/connection_gate.rs`), and the other one puts that right.
    let moved: Vec<_> = after.iter().filter(|(name, graph)| before.get(*name) != Some(*graph)).collect();
    assert!(moved.len() <= WRITES_AT_ONCE, "the frozen one went on: {moved:#?}\n{before:#?}");
    eventually("what it sent is put right", newest).await;
    assert!(scene.holder(0).await.unwrap().starts_with(&format!("{}-", other.name)));
    // It is a follower now, and takes over when the other one ends.
    assert_eq!([statuses(&first), statuses(&second), statuses(&third)], told);
    for commit in [&first, &second, &third] {
        let last = verdict(commit);
        assert_eq!(last.as_deref(), Some("success"), "{commit}: {:?}", all(commit));
        let ends = all(commit).iter().filter(|status| status.state != "pending").count();
        assert_eq!(ends, 1, "one verdict a commit: {:?}", all(commit));
    }
    other.signal("-TERM");
    push(workers + 2);
    eventually("the one that was frozen works again", async || scene.are(MODELS, (workers + 2).into()).await).await;
}

/// Whatever a hand does to the leases, the end is that of the newest commit, and nothing is deleted that git has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_leaders_for_a_moment_are_harmless() {
    let Some(scene) = Scene::set("replicas-two-leaders").await else { return };
    scene.push(6, 1);
    scene.source("models", json!({})).await;
    let pair = [scene.start("one", 1).await, scene.start("two", 1).await];
    eventually("the first commit is synced", async || scene.are(6, 1).await).await;
    let created = |graphs: &kube::core::ObjectList<kube::api::DynamicObject>| -> BTreeSet<String> {
        graphs.iter().map(|graph| graph.metadata.uid.clone().unwrap()).collect()
    };
    let api = scene.api("nvidia.com/v1beta1", "DynamoGraphDeployment", "dynamographdeployments");
    let before = created(&api.list(&ListParams::default()).await.unwrap());
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), &scene.namespace);
    for round in 0..6_u32 {
        scene.push(6, 2 + round);
        let leader = scene.leader(&[&pair[0], &pair[1]]).await;
        if round % 2 == 0 {
            leases.delete("stator-shard-0", &DeleteParams::default()).await.unwrap();
        } else {
            // The lease says at once that the other one has it, who knows nothing of it.
            let member = format!("stator-member-{}-", pair[1 - leader].name);
            let all = leases.list(&ListParams::default().labels("stator.dev/lease=member")).await.unwrap();
            let names = all.iter().filter_map(|lease| lease.metadata.name.as_deref());
            let other =
                names.filter_map(|name| name.strip_prefix("stator-member-").filter(|_| name.starts_with(&member)));
            let patch = json!({"spec": {"holderIdentity": other.last().unwrap()}});
            leases.patch("stator-shard-0", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
        let workers = i64::from(2 + round);
        eventually("the newest commit is synced", async || scene.are(6, workers).await).await;
    }
    scene.quiet().await;
    assert!(scene.are(6, 7).await);
    let after = created(&api.list(&ListParams::default()).await.unwrap());
    assert_eq!(before, after, "graphs were deleted and made anew");
}

/// A leader that does not reach the API server for longer than its lease stops by itself, and takes up again what nobody
/// else took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_stops_by_itself() {
    if aside(testbed::shared).is_none() {
        return;
    }
    let plane = aside(|| ControlPlane::start(&Programs::find().unwrap())).unwrap();
    let scene = Scene::on(&plane, "replicas-cut-off").await;
    scene.push(2, 1);
    scene.source("models", json!({})).await;
    let only = scene.start("one", 1).await;
    eventually("the first commit is synced", async || scene.are(2, 1).await).await;
    plane.freeze(true);
    eventually("it stops", async || only.said().contains("no longer owns the shard")).await;
    scene.push(2, 2);
    plane.freeze(false);
    eventually("it goes on with the newest commit", async || scene.are(2, 2).await).await;
    assert!(only.said().matches("this replica now owns the shard").count() > 1, "{}", only.said());
}

/// Which replica works on each source, as its log says.
fn workers(replicas: &[&Replica]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for replica in replicas {
        for line in replica.said().lines().filter(|line| line.contains("a new commit")) {
            let source = line.split_once("source=").unwrap().1;
            let source = source.split(|c: char| !c.is_ascii_alphanumeric() && !"-/.".contains(c)).next().unwrap();
            found.entry(source.to_owned()).or_default().insert(replica.name.clone());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_sources_are_shared_out_among_three_and_taken_over() {
    const SOURCES: usize = 40;
    let Some(scene) = Scene::set("replicas-shards").await else { return };
    for number in 0..SOURCES {
        let name = format!("team-{number:02}");
        let (stator, model) = (
            format!(
                "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: {name}}}\nspec: {{environments: {{prod: {{namespace: {}}}}}}}\n",
                scene.namespace
            ),
            crate::cli::MOCK.replace("name: mock", &format!("name: {name}")),
        );
        scene.origin.commit(
            "main",
            &[(&format!("{name}/stator.yaml"), &stator), (&format!("{name}/models/m/model.yaml"), &model)],
        );
    }
    let mut three = [scene.start("one", 12).await, scene.start("two", 12).await, scene.start("three", 12).await];
    eventually("all shards are held", async || {
        let mut held = 0;
        for shard in 0..12 {
            held += usize::from(scene.holder(shard).await.is_some());
        }
        held == 12
    })
    .await;
    let lost = |replicas: &[Replica]| -> usize {
        replicas.iter().map(|one| one.said().matches("no longer owns the shard").count()).sum()
    };
    let lost_before = lost(&three);
    for number in 0..SOURCES {
        let name = format!("team-{number:02}");
        scene.source(&name, json!({"path": name, "interval": "1h"})).await;
    }
    eventually("all are synced", async || scene.graphs().await.len() == SOURCES).await;
    let all = workers(&three.iter().collect::<Vec<_>>());
    assert_eq!(all.len(), SOURCES);
    let twice: Vec<_> = all.iter().filter(|(_, replicas)| replicas.len() != 1).collect();
    // A replica that stood still for as long as its leases last has lost them.
    assert!(twice.is_empty() || lost(&three) > lost_before, "worked on by several: {twice:?}");
    let idle: Vec<&str> =
        three.iter().filter(|one| !one.said().contains("a new commit")).map(|one| one.name.as_str()).collect();
    assert!(idle.is_empty(), "nothing to do for {idle:?}");

    three[0].kill();
    let of_dead: BTreeSet<String> =
        all.iter().filter(|(_, replicas)| replicas.contains("one")).map(|(source, _)| source.clone()).collect();
    let left = [&three[1], &three[2]];
    let start = Instant::now();
    eventually("its sources are taken over", async || {
        let now = workers(&left);
        of_dead.iter().all(|source| now.get(source).is_some_and(|replicas| replicas.len() == 1))
    })
    .await;
    tell("takeover of a third of forty sources after a kill -9", start);
    assert_eq!(scene.graphs().await.len(), SOURCES);
}
