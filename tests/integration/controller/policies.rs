//! What policies of the administrators ask of a source as a whole: who signed its commits, when it syncs, how many there are.

use super::asked::Room;
use super::scene::Scene;
use super::windows::{MovedClock, moment};
use super::{fleet, head, scale};
use russh::keys::ssh_key::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;
use stator::controller::sources::manual_requests::{OUTSIDE_WINDOWS_ANNOTATION, REQUESTED_AT_ANNOTATION};
use stator::controller::sources::registry::{SourcePhase, SourceState};

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
}

fn public(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

fn policy(name: &str, spec: &str) -> String {
    format!("apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n")
}

/// A scene whose controller reads this file of policies.
fn held_to(scene: &mut Scene, policies: &str) {
    let file = scene.folder.path().join("policies.yaml");
    fs_err::write(&file, policies).unwrap();
    scene.variables.push(("STATOR_POLICIES", file.display().to_string()));
}

/// Row N9 of the threats: whoever configures a source names a key of his own, and signs for himself.
#[test]
fn a_key_that_a_source_names_for_itself_satisfies_no_policy() {
    let (admin, tenant) = (key(1), key(2));
    let mut scene = Scene::of(fleet(1));
    let spec = format!("{{signatures: {{required: true, keys: [{}]}}}}", public(&admin));
    held_to(&mut scene, &policy("signed", &spec));
    let own = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {{me.sshpub: '{}'}}\n---\n",
        public(&tenant)
    );
    scene.declare(&(scene.source("models", "  verify: {mode: Head, secretRef: {name: keys}}\n") + &own));
    let own_signed = scene.bench.sign(&tenant);
    scene.start();
    let refused = format!(
        "fleet policy `signed`: the commit is not signed by a key of the policy: commit {} is signed with the key",
        &own_signed[..12]
    );
    scene.hears(&refused);
    assert!(scene.graphs("models").is_empty(), "nothing is applied");

    // Signed by a key of the policy, and without one of his own, it goes.
    scene.declare(&scene.source("models", ""));
    let good = scene.bench.sign(&admin);
    scene.synced("models", &good);
    assert_eq!(scene.graphs("models"), ["mock-0"]);
    // Neither an unsigned commit nor one of a stranger is applied, and nothing is pruned by it.
    let unsigned = scale(&scene.bench, 0, 7);
    scene.hears(&format!("not signed by a key of the policy: commit {} is not signed", &unsigned[..12]));
    scene.bench.remove("models/mock-0");
    scene.bench.commit("remove");
    let foreign = scene.bench.sign(&tenant);
    scene.hears(&format!("not signed by a key of the policy: commit {} is signed with", &foreign[..12]));
    assert!(scene.graph("models", "mock-0").contains("replicas: 2"));
    scene.until("it is not ready", || scene.metric("stator_source_ready{source=\"models\"}") == 0.0);
    scene.end();
}

#[test]
fn a_source_s_own_keys_are_asked_as_well() {
    let (admin, tenant) = (key(1), key(2));
    let mut scene = Scene::of(fleet(1));
    let spec = format!("{{signatures: {{required: true, keys: ['admin@example.com {}']}}}}", public(&admin));
    held_to(&mut scene, &policy("signed", &spec));
    let own = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {{me.sshpub: '{}'}}\n---\n",
        public(&tenant)
    );
    scene.declare(&(scene.source("models", "  verify: {mode: Head, secretRef: {name: keys}}\n") + &own));
    let signed = scene.bench.sign(&admin);
    scene.start();
    scene.hears(&format!("signature refused: commit {} is signed with the key", &signed[..12]));
    assert!(scene.graphs("models").is_empty());
    scene.end();
}

/// Policies of a version before keys: nothing of the bound sources goes, and everything else goes on.
#[test]
fn a_policy_that_requires_signatures_without_keys_refuses_whom_it_binds() {
    let mut scene = Scene::of(fleet(1));
    held_to(&mut scene, &policy("keyless", "{appliesTo: {sources: [default/bound]}, signatures: {required: true}}"));
    scene.declare(
        &(scene.source("bound", "  targetNamespace: bound\n") + &scene.source("free", "  targetNamespace: free\n")),
    );
    scene.start();
    scene.hears("fleet policy `keyless`: signatures are required, but the policy names no keys");
    scene.synced("free", &head(&scene.bench));
    assert_eq!((scene.graphs("bound").len(), scene.graphs("free").len()), (0, 1));
    scene.end();
}

/// In a file, the order of the file is the order of their creation.
#[test]
fn of_too_many_sources_of_a_namespace_the_last_are_refused() {
    let mut scene = Scene::of(fleet(1));
    held_to(&mut scene, &policy("few", "{quotas: {sources: 1}}"));
    let source = |name: &str| scene.source(name, &format!("  targetNamespace: {name}\n"));
    scene.declare(&(source("second") + &source("first")));
    scene.start();
    scene.synced("second", &head(&scene.bench));
    scene.hears("fleet policy `few`: namespace `default` has 1 source before this one; allowed: at most 1");
    assert_eq!((scene.graphs("second").len(), scene.graphs("first").len()), (1, 0));
    scene.end();
}

fn waits_for_nights(state: &SourceState) -> bool {
    state.phase == SourcePhase::WindowClosed && state.window_policy.as_deref() == Some("nights")
}

/// A person opens the windows of a source for a commit, and never those of a policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_windows_of_a_policy_hold_whatever_is_asked_of_the_source() {
    let clock = MovedClock::at(16, "22:10:00Z");
    let room = Room::at(clock.window_clock(), fleet(1), "").await;
    room.synced(&head(&room.bench)).await;
    // It binds by the namespace that the commit itself names.
    room.allow(
        "nights",
        "{appliesTo: {namespaces: [models]}, windows: [{kind: allow, schedule: '0 22 * * *', duration: 1h}]}",
    );
    room.allow(
        "others",
        "{appliesTo: {namespaces: [others]}, windows: [{kind: deny, schedule: '* * * * *', duration: 1h}]}",
    );
    clock.put(16, "23:30:00Z");
    let newer = scale(&room.bench, 0, 5);
    let waits = room
        .stands("the commit waits", |state| {
            waits_for_nights(state) && state.seen.as_ref().is_some_and(|seen| seen.commit == newer)
        })
        .await;
    assert_eq!(waits.next_window, Some(moment(17, "22:00:00Z")));
    room.ask(&[(OUTSIDE_WINDOWS_ANNOTATION, &newer), (REQUESTED_AT_ANNOTATION, "1")]);
    room.stands("the request is answered", |state| {
        let told = |text: &String| text.contains("the windows of a fleet policy are closed");
        state.handled_request.as_deref() == Some("1")
            && waits_for_nights(state)
            && state.rejected_requests.iter().any(told)
    })
    .await;
    assert!(room.graph("mock-0").contains("replicas: 2"));
    // It opens, and nobody has to push or to ask; also when it opens while it is asked.
    clock.leap(17, "21:59:59Z", "22:00:01Z");
    room.ask(&[(REQUESTED_AT_ANNOTATION, "2")]);
    room.stands("it is still closed", |state| state.handled_request.as_deref() == Some("2")).await;
    room.synced(&newer).await;
    assert!(room.graph("mock-0").contains("replicas: 5"));
    room.is_settled();
    room.end().await;
}
