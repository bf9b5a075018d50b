//! The git host itself: it does what the stories need, and it leaves nothing behind.

use crate::gitea::{self, BOT, Gitea, OWNER, WebhookRelay};
use crate::testbed;
use crate::workbench::Workbench;
use aws_lc_rs::hmac;
use serde_json::json;
use std::process::{Command, Stdio};

#[test]
fn it_takes_pushes_and_delivers_them_signed() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("delivers");
    let wire = WebhookRelay::start();
    repository.webhook(&wire.address(), "the secret of the hook");
    let bench = Workbench::with(&[("model.yaml", "one")]);
    let first = bench.commit("one");
    repository.push(&bench.root(), "main");

    let delivery = wire.wait_for_push(&first);
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"the secret of the hook");
    let signature = hex::encode(hmac::sign(&key, &delivery.body));
    assert_eq!(delivery.header("x-gitea-signature"), signature);
    assert_eq!(delivery.header("x-hub-signature-256"), format!("sha256={signature}"));
    assert_eq!(delivery.json()["repository"]["full_name"], repository.path());
    assert_eq!(repository.tip("main"), first);

    // Over what is there only when it is meant.
    bench.write("model.yaml", "other");
    let other = bench.commit("other");
    let git = git2::Repository::open(bench.root()).unwrap();
    let orphan = git.find_commit(git2::Oid::from_str(&other).unwrap()).unwrap();
    let who = orphan.author();
    let rewritten = git.commit(None, &who, &who, "rewritten", &orphan.tree().unwrap(), &[]).unwrap().to_string();
    git.set_head_detached(git2::Oid::from_str(&rewritten).unwrap()).unwrap();
    let refused = repository.try_push(&bench.root(), &["HEAD:refs/heads/main"]).unwrap_err();
    assert!(refused.contains("rejected"), "{refused}");
    repository.force_push(&bench.root(), "main");
    assert_eq!(repository.tip("main"), rewritten);
    wire.wait_for_push(&rewritten);
}

#[test]
fn it_keeps_every_status_and_tells_who_wrote_what() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("keeps");
    let bench = Workbench::with(&[("model.yaml", "one")]);
    let commit = bench.commit("one");
    repository.push(&bench.root(), "main");
    bench.switch("change");
    bench.write("model.yaml", "two");
    bench.commit("two");
    repository.push(&bench.root(), "change");

    let path = format!("/repos/{}", repository.path());
    for state in ["pending", "success"] {
        let status = json!({"context": "stator/test", "state": state, "description": state});
        let answer = gitea.try_call(gitea.bot_token(), "POST", &format!("{path}/statuses/{commit}"), Some(&status));
        assert_eq!(answer.unwrap().0, 201);
    }
    let number = repository.open_pull_request("change", "main", "Two");
    let comment = json!({"body": "Fine."});
    let answer = gitea.try_call(gitea.bot_token(), "POST", &format!("{path}/issues/{number}/comments"), Some(&comment));
    assert_eq!(answer.unwrap().0, 201);
    repository.call("POST", &format!("/issues/{number}/comments"), &comment);
    // What a bot may not do.
    let admin = gitea.try_call(gitea.bot_token(), "DELETE", &path, None).unwrap().0;

    let statuses: Vec<String> =
        repository.statuses(&commit).into_iter().map(|row| format!("{} {}", row.account, row.state)).collect();
    assert_eq!(statuses, [format!("{BOT} pending"), format!("{BOT} success")]);
    assert_eq!(repository.status(&commit, "stator/test").unwrap().state, "success");
    let comments: Vec<String> = repository.comments(number).into_iter().map(|comment| comment.account).collect();
    assert_eq!(comments, [BOT, OWNER]);
    assert_eq!(admin, 403);
    repository.merge(number);
    assert_ne!(repository.tip("main"), commit);
}

#[test]
fn it_comes_back_with_everything_after_it_was_killed() {
    if gitea::shared().is_none() {
        return;
    }
    let gitea = Gitea::start().unwrap();
    let repository = gitea.repository("comes-back");
    let bench = Workbench::with(&[("model.yaml", "one")]);
    let commit = bench.commit("one");
    repository.push(&bench.root(), "main");
    gitea.kill();
    assert!(repository.try_push(&bench.root(), &["HEAD:refs/heads/other"]).is_err());
    gitea.restart();
    assert_eq!(repository.tip("main"), commit);
    repository.push(&bench.root(), "other");
}

/// A process that holds the pipe, as a test process does, and that is killed: `cat`, through which the words of this
/// test reach the supervisor.
#[test]
fn a_killed_test_process_takes_its_gitea_along() {
    if gitea::shared().is_none() {
        return;
    }
    let mut holder = None;
    let mut gitea = Gitea::launch(|supervisor| {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (ours, theirs) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        holder = Some(cat);
        Ok((supervisor.stdin(theirs).spawn()?, Box::new(ours)))
    })
    .unwrap();
    gitea.setup().unwrap();
    let until = |what: &str, done: &dyn Fn() -> bool| {
        testbed::until(what, || done().then_some(()).ok_or(|| gitea.logs()));
    };
    let alive = |pid: u32| {
        let status = Command::new("sh").args(["-c", &format!("kill -0 {pid}")]).stderr(Stdio::null()).status();
        status.unwrap().success()
    };
    until("started", &|| gitea.pid().is_some());
    let pid = gitea.pid().unwrap();
    assert!(alive(pid), "{}", gitea.logs());

    let mut holder = holder.unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();

    until("ended", &|| !alive(pid));
    until("its data is removed", &|| !gitea.folder().exists());
}
