//! `stator controller` as it runs: the real program, a repository, an embedded cluster, and an operator that is played.

mod asked;
mod attacked;
mod canaries;
mod created;
mod crowded;
mod drifting;
mod granted;
mod hanging;
mod moved;
mod notified;
mod objects;
mod page_logs;
mod page_oidc;
mod pages;
mod panicking;
mod policies;
pub mod process;
mod protected;
pub mod readers;
mod replaced;
mod resting;
mod rewound;
pub mod scene;
mod served;
mod stopped;
mod told;
mod traced;
mod trying;
mod unfit;
mod windows;

use crate::cli::MOCK;
use crate::workbench::Workbench;
use aws_lc_rs::hmac;
use russh::keys::ssh_key::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;
use scene::Scene;

const STATOR: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: fleet}
spec:
  environments:
    staging: {namespace: models}
";

/// Models `mock-0`, `mock-1` and so on.
pub fn fleet(models: usize) -> Workbench {
    let bench = Workbench::with(&[("stator.yaml", STATOR)]);
    for number in 0..models {
        add(&bench, number);
    }
    bench
}

fn add(bench: &Workbench, number: usize) {
    let text = MOCK.replace("name: mock", &format!("name: mock-{number}"));
    bench.write(&format!("models/mock-{number}/model.yaml"), text);
}

fn head(bench: &Workbench) -> String {
    git2::Repository::open(bench.root()).unwrap().head().unwrap().peel_to_commit().unwrap().id().to_string()
}

fn scale(bench: &Workbench, number: usize, replicas: u32) -> String {
    let path = format!("models/mock-{number}/model.yaml");
    let text = bench.read(&path);
    let at = text.rfind("replicas:").unwrap();
    bench.write(&path, format!("{}replicas: {replicas}\n", &text[..at]));
    bench.commit(&format!("scale mock-{number} to {replicas}"))
}

pub const HOOK: &str = "  forge: {type: gitea}\n  webhook: {secretRef: {name: hook}}\n";
pub const SECRET: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: hook}\nstringData: {token: canary-hook}\n---\n";

fn deliver(scene: &Scene, id: &str, secret: &str) -> (u16, String) {
    let body = r#"{"ref":"refs/heads/master"}"#;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hex::encode(hmac::sign(&key, body.as_bytes()));
    let head = format!(
        "POST /webhooks/gitea HTTP/1.1\r\nContent-Type: application/json\r\nX-Gitea-Event: push\r\nX-Gitea-Delivery: {id}\r\nX-Gitea-Signature: {signature}"
    );
    scene.asks(&head, body.as_bytes())
}

#[test]
fn what_is_pushed_is_synced_and_then_nothing_is_done() {
    let mut scene = Scene::of(fleet(2));
    let first = head(&scene.bench);
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.synced("models", &first);
    assert_eq!(scene.graphs("models"), ["mock-0", "mock-1"]);
    assert_eq!(scene.gets("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(scene.gets("/readyz").0, 200);
    scene.is_settled();

    let second = scale(&scene.bench, 0, 5);
    scene.synced("models", &second);
    assert!(scene.graph("models", "mock-0").contains("replicas: 5"));

    // Looks go on, and nothing else does.
    let writes = scene.metric("stator_writes_total{source=\"models\"}");
    let syncs = scene.metric("stator_syncs_total{source=\"models\",result=\"success\"}");
    let looks = scene.metric("stator_looks_total{source=\"models\",result=\"same\"}");
    scene.until("three more looks", || {
        scene.metric("stator_looks_total{source=\"models\",result=\"same\"}") >= looks + 3.0
    });
    assert_eq!(scene.metric("stator_writes_total{source=\"models\"}"), writes);
    assert_eq!(scene.metric("stator_syncs_total{source=\"models\",result=\"success\"}"), syncs);
    assert_eq!(scene.end().code(), Some(0));
    scene.is_settled();
}

#[test]
fn drift_is_put_right() {
    let mut scene = Scene::of(fleet(1));
    scene.declare(&scene.source("models", "  environment: staging\n"));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    let file = scene.folder.path().join("cluster/models/dynamographdeployments/mock-0.yaml");
    let text = fs_err::read_to_string(&file).unwrap();
    fs_err::write(&file, text.replace("replicas: 2", "replicas: 7")).unwrap();
    scene.until("the replicas are what git says", || scene.graph("models", "mock-0").contains("replicas: 2"));
    scene.until("the repair is counted", || scene.metric("stator_drift_repaired_total{source=\"models\"}") >= 1.0);
    fs_err::remove_file(&file).unwrap();
    scene.until("the graph is back", || scene.graphs("models") == ["mock-0"]);
    assert_eq!(scene.end().code(), Some(0));
}

#[test]
fn what_somebody_takes_after_the_verdict_is_told_and_so_is_its_return() {
    let mut scene = Scene::of(fleet(2));
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    scene.until("it is ready", || scene.metric("stator_source_ready{source=\"models\"}") == 1.0);
    let file = scene.folder.path().join("cluster/models/dynamographdeployments/mock-0.yaml");
    let text = fs_err::read_to_string(&file).unwrap();
    let taken = text.replace("stator.dev/model: mock-0", "stator.dev/model: another");
    assert_ne!(text, taken);
    fs_err::write(&file, taken).unwrap();
    scene.until("it is not ready", || scene.metric("stator_source_ready{source=\"models\"}") == 0.0);
    scene.hears("held back (blocked): mock-0");
    assert!(scene.graph("models", "mock-0").contains("stator.dev/model: another"), "it is not taken back");

    fs_err::write(&file, text).unwrap();
    scene.until("it is ready again", || scene.metric("stator_source_ready{source=\"models\"}") == 1.0);
    assert_eq!(scene.end().code(), Some(0));
    scene.is_settled();
}

#[test]
fn a_broken_model_leaves_the_others_alone() {
    let mut scene = Scene::of(fleet(2));
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    scene.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    let broken = scale(&scene.bench, 1, 4);
    scene.hears("models/mock-0/model.yaml:7");
    scene.until("the sound one is synced", || scene.graph("models", "mock-1").contains("replicas: 4"));
    assert_eq!(scene.graphs("models"), ["mock-0", "mock-1"]);
    assert!(scene.said().contains(&broken[..7]));
    scene.until("it is not ready", || scene.metric("stator_source_ready{source=\"models\"}") == 0.0);
    scene.bench.replace("models/mock-0/model.yaml", "engine: steam", "engine: mocker");
    let mended = scene.bench.commit("mend it");
    scene.synced("models", &mended);
}

#[test]
fn a_newer_commit_and_a_force_push_overtake_a_sync() {
    // At this speed no model is ever healthy before the test goes on.
    let mut scene = Scene::of(fleet(1));
    scene.speed = "0.001";
    let first = head(&scene.bench);
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.until("the first sync waits", || !scene.graphs("models").is_empty());
    scale(&scene.bench, 0, 3);
    scene.until("the second is applied", || scene.graph("models", "mock-0").contains("replicas: 3"));
    assert!(scene.times("a newer commit was found: stopping") >= 1, "{}", scene.said());
    // History is written anew: back to the first commit, and another one from there.
    scene.bench.reset(&first);
    scale(&scene.bench, 0, 6);
    scene.until("the third is applied", || scene.graph("models", "mock-0").contains("replicas: 6"));
    scene.hears("history was rewritten");
    assert_eq!(scene.end().code(), Some(0));
    scene.is_settled();
}

#[test]
fn a_controller_that_is_ended_in_the_middle_goes_on_where_it_was() {
    let mut scene = Scene::of(fleet(12));
    scene.declare(&scene.source("models", ""));
    // At this speed no model is healthy before the test goes on: no sync is through before it is ended.
    let slowly = "0.001";
    scene.speed = slowly;
    scene.start();
    scene.until("a sync is under way", || scene.graphs("models").len() > 2);
    assert_eq!(scene.times("models healthy"), 0, "{}", scene.said());
    assert_eq!(scene.end().code(), Some(0));
    scene.speed = "1000";
    scene.start();
    scene.synced("models", &head(&scene.bench));
    assert_eq!(scene.graphs("models").len(), 12);
    assert_eq!(scene.end().code(), Some(0));

    // Killed this time: nobody is asked. Before the next one starts, git goes on.
    scene.speed = slowly;
    scene.start();
    let killed = scale(&scene.bench, 3, 9);
    scene.until("a sync is under way", || scene.graph("models", "mock-3").contains("replicas: 9"));
    let is_through = |line: &str| line.contains(&killed[..7]) && line.contains("healthy");
    assert!(!scene.said().lines().any(is_through), "{}", scene.said());
    scene.signal("-KILL");
    scene.ended();
    scale(&scene.bench, 3, 4);
    scene.bench.remove("models/mock-5");
    let last = scene.bench.commit("remove mock-5");
    scene.speed = "1000";
    scene.start();
    scene.synced("models", &last);
    assert!(scene.graph("models", "mock-3").contains("replicas: 4"));
    assert_eq!(scene.graphs("models").len(), 11);
    scene.is_settled();
    assert_eq!(scene.end().code(), Some(0));
}

#[test]
fn one_source_that_fails_is_not_in_the_way_of_another() {
    let mut scene = Scene::of(fleet(1));
    let broken = scene.source("broken", "  path: nowhere\n");
    let gone = scene.source("gone", "  path: x/\n  ref: {branch: never}\n");
    scene.declare(&[scene.source("models", ""), broken, gone].concat());
    scene.start();
    scene.synced("models", &head(&scene.bench));
    scene.hears("no folder `nowhere`");
    scene.hears("no branch `never`");
    assert_eq!(scene.gets("/readyz").0, 200);
    let second = scale(&scene.bench, 0, 3);
    scene.synced("models", &second);
}

#[test]
fn a_webhook_makes_it_at_once_and_a_forged_one_does_not() {
    let mut scene = Scene::of(fleet(1));
    // The interval is longer than any test.
    scene.declare(&(scene.source("models", &format!("  interval: 24h\n{HOOK}")) + SECRET));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    let looks = |scene: &Scene| {
        ["same", "moved", "failed"]
            .map(|how| scene.metric(&format!("stator_looks_total{{source=\"models\",result=\"{how}\"}}")))
            .iter()
            .sum::<f64>()
    };
    let before = looks(&scene);
    let second = scale(&scene.bench, 0, 3);
    assert_eq!(deliver(&scene, "1", "forged").0, 401);
    let large = "POST /webhooks/gitea HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999999";
    assert_eq!(scene.asks(large, b"{").0, 401, "nothing is read of what is not signed");
    let signed = format!("{large}\r\nX-Gitea-Signature: {}", "0".repeat(64));
    assert_eq!(scene.asks(&signed, b"{").0, 413);
    assert_eq!(looks(&scene), before, "nobody was hinted at anything");
    assert_eq!(deliver(&scene, "2", "canary-hook"), (202, r#"{"status":"accepted"}"#.to_owned()));
    scene.synced("models", &second);
    let after = looks(&scene);
    assert_eq!(deliver(&scene, "2", "canary-hook"), (202, r#"{"status":"already received"}"#.to_owned()));
    assert_eq!(looks(&scene), after);
    let third = scale(&scene.bench, 0, 4);
    assert_eq!(deliver(&scene, "3", "canary-hook").0, 202);
    scene.synced("models", &third);
    assert!(!scene.said().contains("canary"), "{}", scene.said());
}

#[test]
fn the_file_may_change_while_it_runs() {
    let mut scene = Scene::of(fleet(1));
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    // A version with a fault is told, and the old one goes on.
    scene.declare("apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {name: models}\nspec: {uri: x}\n");
    scene.hears("unknown field `uri`");
    scene.hears("The sources keep running unchanged.");
    let second = scale(&scene.bench, 0, 3);
    scene.synced("models", &second);
    // Another namespace for the same, and a source besides.
    let other = scene.source("other", "  targetNamespace: elsewhere\n");
    scene.declare(&(scene.source("models", "") + &other));
    scene.hears("started other");
    scene.until("the other one is synced", || scene.graphs("elsewhere") == ["mock-0"]);
    assert!(!scene.said().contains("replaced models"), "{}", scene.said());
    // One that is gone from the file ends, and what it made stays.
    scene.declare(&scene.source("models", "  interval: 2s\n"));
    scene.hears("replaced models; ended other");
    assert_eq!(scene.graphs("elsewhere"), ["mock-0"]);
    let third = scale(&scene.bench, 0, 4);
    scene.synced("models", &third);
}

#[test]
fn a_branch_that_is_gone_prunes_nothing() {
    let mut scene = Scene::of(fleet(2));
    scene.bench.switch("live");
    scene.declare(&scene.source("models", "  ref: {branch: live}\n"));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    scene.bench.switch("master");
    let git = git2::Repository::open(scene.bench.root()).unwrap();
    git.find_branch("live", git2::BranchType::Local).unwrap().delete().unwrap();
    scene.hears("no branch `live`");
    assert_eq!(scene.graphs("models"), ["mock-0", "mock-1"]);
    // A folder without models is no wish to have none, either.
    scene.bench.remove("models");
    let empty = scene.bench.commit("remove them all");
    scene.bench.branch("live", &empty);
    scene.hears(&empty[..7]);
    scene.until("the empty commit has its verdict", || {
        scene.said().lines().filter(|line| line.contains(&empty[..7])).count() > 1
    });
    assert_eq!(scene.graphs("models"), ["mock-0", "mock-1"]);
    assert_eq!(scene.end().code(), Some(0));
}

#[test]
fn a_suspended_source_and_a_closed_window_wait() {
    let mut scene = Scene::of(fleet(1));
    let closed = scene.source("closed", "  windows: [{kind: deny, schedule: '* * * * *', duration: 1h}]\n");
    let suspended = scene.source("suspended", "  suspend: true\n  targetNamespace: other\n");
    scene.declare(&(closed + &suspended));
    scene.start();
    scene.hears("no sync window is open");
    scene.until("it is suspended", || scene.metric("stator_source_suspended{source=\"suspended\"}") == 1.0);
    assert!(scene.graphs("models").is_empty() && scene.graphs("other").is_empty());
    scene.declare(&scene.source("closed", ""));
    scene.synced("closed", &head(&scene.bench));
    assert!(scene.graphs("other").is_empty());
}

#[test]
fn once_syncs_and_ends_with_a_code() {
    let scene = Scene::of(fleet(1));
    scene.declare(&scene.source("models", ""));
    let well = scene.bench.finish(scene.command().arg("--once")).success();
    assert!(well.stderr.contains("Syncing 1 source: models (branch master of"), "{well}");
    scene.is_settled();
    scene.bench.finish(scene.command().arg("--once")).success();
    scene.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    scene.bench.commit("break it");
    let broken = scene.bench.finish(scene.command().arg("--once")).exits(1);
    assert!(broken.stderr.contains("models/mock-0/model.yaml:7"), "{broken}");
    // Without a commit there is nothing before it to be told of, and nothing to wait for.
    scene.declare(&scene.source("models", "  ref: {branch: gone}\n"));
    let gone = scene.bench.finish(scene.command().arg("--once")).exits(1);
    assert!(gone.stderr.contains("gone") && !gone.stderr.contains("older commits"), "{gone}");
}

#[test]
fn a_faulty_file_is_told_with_its_places_and_without_its_secrets() {
    let scene = Scene::of(fleet(1));
    scene.declare(
        &(scene.source("models", "  schedule: '0 0 30 2 *'\n  secretRef: {name: git}\n")
            + "kind: Secret\napiVersion: v1\nmetadata: {name: git}\nstringData: {password: &canary canary}\n"),
    );
    let told = scene.bench.finish(scene.command().arg("--once")).exits(2);
    insta::assert_snapshot!(told.notes().replace(&scene.folder.path().display().to_string(), "[PLACE]"), @"
    error[source/schedule]: `0 0 30 2 *` never matches: no year has such a day
     --> [PLACE]/sources.yaml:9:13
      |
    9 |   schedule: '0 0 30 2 *'
      |             ^^^^^^^^^^^^
      |
      = help: Correct it: `*/5 * * * *` means every five minutes.
      = rule: https://stator.dev/docs/rules#source/schedule

    error[source/secret]: secret `git`: `password` has no effect for a local path; it is read with the rights of this process: remove `secretRef` from the source
      --> [PLACE]/sources.yaml:10:3
       |
    10 |   secretRef: {name: git}
       |   ^^^^^^^^^
       |
       = help: Correct the secret, or the address.
       = rule: https://stator.dev/docs/rules#source/secret

    error[yaml/anchor]: A file has no anchors, aliases or merge keys. The value may be a secret and is not shown.
      --> [PLACE]/sources.yaml:15:24
       |
    15 | stringData: ********** ******* *******
       |                        ^^^^^^^
       |
       = help: Correct the document.
       = rule: https://stator.dev/docs/rules#yaml/anchor

    error: [PLACE]/sources.yaml has 3 errors
    hint: `stator schema source` describes the documents
    ");
    let missing =
        scene.bench.finish(scene.bench.command().args(["controller", "--source-file", "nowhere.yaml"])).exits(2);
    insta::assert_snapshot!(missing.notes(), @r"
    error: failed to open file `nowhere.yaml`: No such file or directory (os error 2)
    hint: `stator schema source` describes the file format
    ");
}

#[test]
fn a_folder_that_is_watched_is_synced_whenever_it_changes() {
    let scene = Scene::of(fleet(1));
    let cluster = scene.cluster();
    let mut command = scene.bench.command();
    command.args(["sync", "--watch", "--yes", "--cluster", &cluster]);
    let errors = std::process::Stdio::piped();
    let mut child = command.stdout(std::process::Stdio::null()).stderr(errors).spawn().unwrap();
    scene.until("the first sync", || scene.graphs("models") == ["mock-0"]);
    add(&scene.bench, 1);
    scene.until("the new model is synced", || scene.graphs("models") == ["mock-0", "mock-1"]);
    // What is wrong is told, and the next change is taken all the same.
    scene.bench.write("stator.yaml", "nonsense");
    scene.bench.write("stator.yaml", STATOR);
    scene.bench.replace("models/mock-1/model.yaml", "replicas: 2", "replicas: 8");
    scene.until("the change is synced", || scene.graph("models", "mock-1").contains("replicas: 8"));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("Watching "), "{said}");
}

#[test]
fn a_commit_that_nobody_trusted_signed_changes_nothing() {
    let key = |seed: u8| PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]));
    let (trusted, stranger) = (key(1), key(2));
    let public = trusted.public_key().to_openssh().unwrap();
    let mut scene = Scene::of(fleet(2));
    let unsigned = head(&scene.bench);
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {{ada.sshpub: '{public} ada@example.com'}}\n---\n"
    );
    scene.declare(&(scene.source("models", "  verify: {mode: HEAD, secretRef: {name: keys}}\n") + &secret));
    scene.start();
    scene.hears(&format!("signature refused: commit {} is not signed", &unsigned[..12]));
    assert!(scene.graphs("models").is_empty(), "nothing is rendered, so nothing is applied");
    scene.until("it is not ready", || scene.metric("stator_source_ready{source=\"models\"}") == 0.0);

    let good = scene.bench.sign(&trusted);
    scene.synced("models", &good);
    assert_eq!(scene.graphs("models"), ["mock-0", "mock-1"]);

    // A commit that changes one model and removes the other, by somebody else: the last good revision stays, also after
    // a start anew.
    scene.bench.remove("models/mock-1");
    scale(&scene.bench, 0, 7);
    let foreign = scene.bench.sign(&stranger);
    let refused = format!("signature refused: commit {} is signed with the key", &foreign[..12]);
    scene.hears(&refused);
    let stays = |scene: &Scene| {
        assert_eq!(scene.graphs("models"), ["mock-0", "mock-1"]);
        assert!(scene.graph("models", "mock-0").contains("replicas: 2"));
    };
    stays(&scene);
    // What drifts goes back to what it says.
    let file = scene.folder.path().join("cluster/models/dynamographdeployments/mock-0.yaml");
    let text = fs_err::read_to_string(&file).unwrap();
    fs_err::write(&file, text.replace("replicas: 2", "replicas: 9")).unwrap();
    scene.hears("reverted to the last-known-good revision");
    stays(&scene);
    assert_eq!(scene.end().code(), Some(0));
    scene.start();
    scene.hears(&refused);
    stays(&scene);

    let mended = scene.bench.sign(&trusted);
    scene.synced("models", &mended);
    assert_eq!(scene.graphs("models"), ["mock-0"]);
    assert!(scene.graph("models", "mock-0").contains("replicas: 7"));
    assert!(!scene.said().contains(&format!("signature refused: commit {}", &mended[..12])));
}
