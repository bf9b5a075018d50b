//! What a user sees happen.

use super::pipeline::Site;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{Action, HoldKind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_sync_becomes_healthy_and_a_second_writes_nothing() {
    let site = Site::new(&[("llama", 1), ("qwen", 2)]);
    let report = site.sync(&[]).await;
    assert!(report.models.iter().all(|model| model.result == SyncOutcome::Healthy), "{report:#?}");
    site.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_to_a_live_file_is_drift_and_is_healed() {
    let site = Site::new(&[("llama", 1)]);
    site.sync(&[]).await;
    let file = site.path("../cluster/prod/dynamographdeployments/llama.yaml");
    let text = fs_err::read_to_string(&file).unwrap();
    assert!(text.contains("replicas: 1"), "{text}");
    fs_err::write(&file, text.replace("replicas: 1", "replicas: 7")).unwrap();
    let (plan, _) = site.plan(&site.cluster, &[]).await;
    assert!(plan.changes.iter().any(|change| change.action != Action::Keep), "the drift is not in the plan");
    let report = site.sync(&[]).await;
    assert!(report.is_success(), "{report:#?}");
    let (plan, _) = site.plan(&site.cluster, &[]).await;
    assert!(plan.changes.iter().all(|change| change.action == Action::Keep), "{:#?}", plan.changes);
    site.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_model_is_pruned_and_a_mass_removal_is_held_back() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let site = Site::new(&names.map(|name| (name, 1)));
    site.sync(&[]).await;
    site.remove("a");
    assert!(site.sync(&[]).await.is_success());
    assert!(!site.objects().iter().any(|path| path.ends_with("/a.yaml")), "{:?}", site.objects());
    site.settled().await;

    for name in &names[2..] {
        site.remove(name);
    }
    let before = site.objects();
    let report = site.sync(&[]).await;
    assert!(!report.is_success(), "{report:#?}");
    assert_eq!(site.objects(), before, "a mass removal waits");
    assert!(site.sync(&[HoldKind::MassDelete]).await.is_success());
    assert!(site.objects().len() < before.len());
    site.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_not_pruned() {
    let site = Site::new(&[("llama", 1), ("qwen", 1)]);
    site.sync(&[]).await;
    let before = site.objects();
    // A link in place of the file, a fault in the file, and no file at all any more.
    let intent = site.path("models/llama/model.yaml");
    fs_err::remove_file(&intent).unwrap();
    std::os::unix::fs::symlink("/dev/null", &intent).unwrap();
    site.sync(&[]).await;
    assert_eq!(site.objects(), before);
    fs_err::remove_file(&intent).unwrap();
    site.write("models/llama/model.yaml", "kind: [\n");
    site.sync(&[]).await;
    assert_eq!(site.objects(), before);
    site.remove("llama");
    site.remove("qwen");
    site.sync(&[]).await;
    assert_eq!(site.objects(), before, "an empty repository never prunes");
}
