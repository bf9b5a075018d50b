//! Whom the controller believes: hosts by their keys, commits by their signatures.

use super::stage::{Setting, Stage, model};
use crate::gitea::new_key;

#[test]
fn a_repository_over_ssh_is_followed_while_its_host_key_is_the_known_one() {
    let Some(stage) = Stage::set("ssh", Setting { ssh: true, interval: "2s", ..Setting::DEFAULT }) else { return };
    stage.follow();
    stage.synced(&stage.first);

    // Another key at the same address: somebody in between, or a new server.
    let known = stage.gitea().known_hosts();
    let known = known.trim();
    let (host, _) = known.split_once(' ').unwrap();
    let other = format!("{host} {}", new_key().public_key().to_openssh().unwrap());
    stage.edit_source(known, &other);
    stage.until("a changed host key is told", || stage.log().contains("its key differs"));
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let commit = stage.push("Two workers");

    let stranger = other.replace(host, "elsewhere.example.com");
    stage.edit_source(&other, &stranger);
    stage.until("an unknown host is told", || stage.log().contains("`known_hosts` has no key of it"));
    assert_eq!(stage.said_of(&commit), "", "{}", stage.log());
    assert_eq!(stage.workers("chat"), Some(1));

    stage.edit_source(&stranger, known);
    stage.synced(&commit);
    assert_eq!(stage.workers("chat"), Some(2));
    stage.end();
}

#[test]
fn only_commits_that_are_signed_by_a_known_key_are_rendered() {
    let Some(stage) = Stage::set("signed", Setting { verify: true, ..Setting::DEFAULT }) else { return };
    stage.follow();
    let told = stage.wait_for(&stage.first, "stator/staging", "failure");
    insta::assert_snapshot!(stage.masked(&told), @"signature refused: commit [COMMIT] is not signed");
    assert_eq!(stage.workers("chat"), None);

    let signed = stage.push_it(&stage.commit_signed("Signed", &stage.key));
    stage.synced(&signed);
    assert_eq!(stage.workers("chat"), Some(1));

    stage.bench.write("models/chat/model.yaml", model("chat", 9));
    let stranger = new_key();
    let strange = stage.push_it(&stage.commit_signed("Signed by a stranger", &stranger));
    let told = stage.wait_for(&strange, "stator/staging", "failure");
    insta::assert_snapshot!(stage.masked(&told), @"signature refused: commit [COMMIT] is signed with the key [KEY], which the secret does not have");
    assert_eq!(stage.workers("chat"), Some(1));

    // Whoever signs a commit vouches for all files as they are in it, whoever wrote those before it.
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let mended = stage.push_it(&stage.commit_signed("Signed on top of it", &stage.key));
    stage.synced(&mended);
    assert_eq!(stage.workers("chat"), Some(2));
    stage.end();
}
