//! A commit that ends the process, beside a source that is fine.

use super::scene::Scene;
use super::{STATOR, fleet, head, scale};
use crate::cli::MOCK;
use crate::git_server::{GitReply, GitServer, OriginRepository};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Row S1 of the review: one commit ended the shared controller for all, again after each restart. The process is killed
/// while it has the commit in hand, as the kernel does when memory runs out.
#[test]
fn a_commit_that_kills_the_controller_twice_is_reported_and_not_tried_again() {
    let mut scene = Scene::of(fleet(1));
    let origin = OriginRepository::new(&scene.folder.path().join("models.git"));
    let settings = STATOR.replace("namespace: models", "namespace: others").replace("name: fleet", "name: others");
    let bomb = origin.commit("main", &[("stator.yaml", &settings), ("models/mock/model.yaml", MOCK)]);
    let is_fatal = Arc::new(AtomicBool::new(true));
    let fatal = Arc::clone(&is_fatal);
    let server = GitServer::answering(scene.folder.path(), move |asked| {
        if asked.method == "POST" && fatal.load(Ordering::SeqCst) { GitReply::Never } else { GitReply::Git }
    });
    let hostile = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: hostile}}\nspec:\n  url: {}\n  allowInsecure: \
         true\n  ref: {{branch: main}}\n  interval: 1s\n",
        server.url("models.git")
    );
    scene.declare(&(scene.source("good", "") + &hostile));

    for death in 1..=2 {
        scene.start();
        scene.synced("good", &head(&scene.bench));
        scene.until("the commit is fetched", || server.asked().iter().any(|asked| asked.method == "POST"));
        scene.signal("-KILL");
        assert!(!scene.ended().success(), "death {death}");
    }
    let pushed = scale(&scene.bench, 0, 2);
    scene.start();
    scene.hears(
        "not synced: trial: reading this commit crashed the controller 2 times, so stator does not try it again",
    );
    scene.synced("good", &pushed);
    assert!(scene.metric("stator_trials_total{result=\"refused\"}") >= 1.0);
    assert!(server.asked().iter().all(|asked| asked.method == "GET"), "it was fetched again");
    scene.end();
    // Nor after any other restart, and what comes after it is synced.
    is_fatal.store(false, Ordering::SeqCst);
    scene.start();
    scene.hears("trial: reading this commit crashed the controller 2 times");
    assert!(server.asked().iter().all(|asked| asked.method == "GET"), "it was fetched again");
    let next = origin.commit("main", &[("README.md", "harmless")]);
    assert_ne!(next, bomb);
    scene.synced("hostile", &next);
    scene.end();
}
