use super::decide::{Memory, PATIENCE, Tell};
use super::message::Message;
use super::target::Target;
use crate::controller::board::{Part, Problem, Reason, Recalled, Revision, Standing};
use crate::controller::news::{self, News, What};
use crate::controller::sources::SourceKey;
use crate::controller::verdicts::{FirstFinding, Verdict};
use jiff::Timestamp;
use proptest::prelude::*;
use stator_git::source::model_source::{Notification, NotificationEvent, NotificationKind, SecretRef};
use stator_git::source::secret::SecretValues;
use std::collections::BTreeMap;

fn key() -> SourceKey {
    SourceKey::new("team", "models")
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
}

fn news(minute: i64, what: What, revision: Option<&str>) -> News {
    let (revision, message) = (revision.map(str::to_owned), "3f2c1ab: something".to_owned());
    News { source: key(), what, model: None, revision, message, at: at(minute) }
}

/// What is told of news of a commit (or of none), in one line each.
fn told(memory: &mut Memory, all: &[(i64, What, Option<&str>)]) -> String {
    let mut lines = Vec::new();
    for (minute, what, revision) in all {
        let ticked = memory.tick(at(*minute), all.first().and_then(|(_, _, revision)| *revision));
        let heard = memory.hear(news(*minute, *what, *revision));
        lines.extend(ticked.into_iter().chain(heard).map(|tell| line(&tell)));
    }
    lines.join("\n")
}

fn line(tell: &Tell) -> String {
    let also = tell.also.map(|also| format!(" ({also:?} too)")).unwrap_or_default();
    format!("{:?}{also} {}", tell.event, tell.news.revision.as_deref().unwrap_or("-"))
}

fn known(recalled: Recalled) -> Memory {
    Memory::new(Some(&recalled))
}

const BROKEN: What = What::Failed(Reason::BuildFailed);
const OUTAGE: What = What::Failed(Reason::ReconciliationFailed);

#[test]
fn each_change_is_told_once() {
    let mut memory = known(Recalled::default());
    let story = [
        (0, What::Synced, Some("a")),
        (1, BROKEN, Some("b")),
        (2, BROKEN, Some("b")),
        (3, What::Failed(Reason::HealthCheckFailed), Some("b")),
        (4, BROKEN, Some("b")),
        (5, What::Synced, Some("c")),
        (5, What::Recovered, Some("c")),
        (6, What::Held, Some("d")),
        (7, What::Held, Some("d")),
        (8, What::Synced, Some("d")),
        (9, What::Drifted, Some("d")),
        (9, What::Drifted, Some("d")),
        (10, What::Healed, Some("d")),
        (11, What::Drifted, Some("d")),
        (12, What::Healed, Some("d")),
        (30, What::Drifted, Some("d")),
        (31, What::Suspended, None),
    ];
    insta::assert_snapshot!(told(&mut memory, &story), @r"
    Synced a
    Failed b
    Failed b
    Recovered (Synced too) c
    Held d
    Synced d
    Drifted d
    Drifted d
    ");
}

#[test]
fn what_passes_by_itself_is_told_when_it_does_not() {
    let mut memory = known(Recalled::default());
    let passed = [(0, OUTAGE, Some("a")), (4, What::Synced, Some("a")), (4, What::Recovered, Some("a"))];
    assert_eq!(told(&mut memory, &passed), "Synced a");
    let overtaken = [(10, OUTAGE, Some("b")), (11, What::Held, Some("c")), (30, What::Suspended, None)];
    assert_eq!(told(&mut memory, &overtaken), "Held c");
    let lasting = [
        (40, OUTAGE, Some("d")),
        (44, OUTAGE, Some("d")),
        (45, What::Suspended, None),
        (60, OUTAGE, Some("d")),
        (70, What::Recovered, Some("d")),
    ];
    assert_eq!(told(&mut memory, &lasting), "Failed d\nRecovered d");
    let look = What::Failed(Reason::GitOperationFailed);
    assert_eq!(told(&mut memory, &[(80, look, None), (81, What::Recovered, None)]), "");
    assert_eq!(memory.hear(news(90, look, None)), None);
    assert_eq!(memory.due(), Some(at(90).checked_add(PATIENCE).unwrap()));
}

#[test]
fn after_a_restart_nothing_is_told_anew() {
    let failed = Recalled {
        applied: Some("a".to_owned()),
        ready: false,
        reason: Some("BuildFailed".to_owned()),
        judged: Some("b".to_owned()),
        seen: Some("b".to_owned()),
    };
    assert_eq!(
        told(&mut known(failed), &[(0, What::Synced, Some("c")), (0, What::Recovered, Some("c"))]),
        "Recovered (Synced too) c"
    );
    // A file has no status: what is there at the start counts as told, and as never told to have failed.
    let mut blind = Memory::new(None);
    let story =
        [(0, BROKEN, Some("a")), (1, What::Synced, Some("b")), (2, BROKEN, Some("c")), (3, What::Synced, Some("d"))];
    assert_eq!(told(&mut blind, &story), "Synced b\nFailed c\nRecovered (Synced too) d");
}

/// A source as it may stand, step by step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Well,
    Broken,
    Sick,
    Outage,
    LookFails,
    LookWorks,
    Wait,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::{Broken, LookFails, LookWorks, Outage, Push, Restart, Sick, Wait, Well};
    proptest::collection::vec(
        prop::sample::select(vec![Push, Push, Well, Well, Broken, Sick, Outage, LookFails, LookWorks, Wait, Restart]),
        0..60,
    )
}

fn verdict(step: Step) -> Option<(Verdict, Option<Problem>)> {
    let problem = |reason| Some(Problem::lasting(reason, "it failed", ""));
    let finding = FirstFinding { file: "m".to_owned(), line: 1, message: "no".to_owned(), more: 0 };
    match step {
        Step::Well => Some((Verdict::Healthy { models: 1, changed: 1 }, None)),
        Step::Broken => Some((Verdict::Invalid(finding), problem(Reason::BuildFailed))),
        Step::Sick => {
            let why = "a pod crashes".to_owned();
            Some((Verdict::Unhealthy { model: "a".to_owned(), why, more: 0 }, problem(Reason::HealthCheckFailed)))
        }
        Step::Outage => {
            Some((Verdict::Fault { message: "no answer".to_owned() }, problem(Reason::ReconciliationFailed)))
        }
        Step::Push | Step::LookFails | Step::LookWorks | Step::Wait | Step::Restart => None,
    }
}

/// What its status would say of it.
fn recalled(standing: &Standing) -> Recalled {
    let commit = |one: &Option<Revision>| one.as_ref().map(|one| one.commit.clone());
    Recalled {
        applied: commit(&standing.applied),
        ready: standing.is_ready(),
        reason: standing.problem().map(|problem| problem.reason.word().to_owned()),
        judged: standing.verdict.as_ref().map(|judged| judged.revision.clone()),
        seen: commit(&standing.seen),
    }
}

proptest! {
    /// Whatever happens: no failure of a commit is told twice before the source was well, nor the one that its status
    /// shows after a restart; nothing recovers that was not told to have failed, and nothing is told of a commit that is not the newest.
    #[test]
    fn people_are_told_once_and_in_order(steps in steps()) {
        let mut standing = Standing { recalled: Some(Recalled::default()), ..Standing::default() };
        let mut memory = known(Recalled::default());
        let (mut pushes, mut minute) = (0, 0);
        let mut failed: BTreeMap<(What, Option<String>), ()> = BTreeMap::new();
        let (mut open, mut open_rest) = (false, false);
        for step in steps {
            minute += 1;
            let before = standing.clone();
            match step {
                Step::Push => {
                    pushes += 1;
                    standing.seen = Some(Revision::now(format!("{pushes:07}")));
                }
                Step::LookFails => standing.set(Part::Repository, Some(Problem::lasting(Reason::AuthenticationFailed, "no", ""))),
                Step::LookWorks => standing.set(Part::Repository, None),
                Step::Wait => minute += 10,
                Step::Restart => {
                    let recalled = recalled(&standing);
                    memory = known(recalled.clone());
                    // The status says how it stood in the end, and no more.
                    failed.retain(|(what, commit), ()| Some(what.word()) == recalled.reason.as_deref() && *commit == recalled.judged);
                    let seen = standing.seen.clone();
                    standing = Standing { recalled: Some(recalled), seen, ..Standing::default() };
                    continue;
                }
                Step::Well | Step::Broken | Step::Sick | Step::Outage => {
                    let Some(seen) = standing.seen.clone() else { continue };
                    let Some((verdict, problem)) = verdict(step) else { continue };
                    if problem.is_none() {
                        standing.applied = Some(seen.clone());
                    }
                    standing.set(Part::Commit, problem);
                    standing.verdict = Some(crate::controller::board::Judgement { revision: seen.commit, verdict, at: at(minute) });
                }
            }
            standing.looked = true;
            let newest = standing.seen.as_ref().map(|seen| seen.commit.clone());
            let mut all = memory.tick(at(minute), newest.as_deref());
            for one in news::between(&key(), &before, &standing) {
                all.extend(memory.hear(News { at: at(minute), ..one }));
            }
            for tell in all {
                let of_commit = tell.news.revision.is_some();
                prop_assert!(!of_commit || tell.news.revision == newest, "{:?} is not {:?}", tell, newest);
                match tell.event {
                    NotificationEvent::Failed => {
                        let again = failed.insert((tell.news.what, tell.news.revision.clone()), ());
                        prop_assert!(!of_commit || again.is_none(), "told twice: {:?}", tell);
                        if of_commit { open = true } else { open_rest = true }
                    }
                    NotificationEvent::Recovered => {
                        let was = if of_commit { std::mem::take(&mut open) } else { std::mem::take(&mut open_rest) };
                        prop_assert!(was, "nothing was told to have failed: {:?}", tell);
                        if of_commit { failed.clear(); }
                    }
                    NotificationEvent::Synced => failed.clear(),
                    NotificationEvent::Held | NotificationEvent::Drifted => {}
                }
            }
        }
    }

    /// Whatever a repository writes, it is one line, in which nothing is markup or calls anybody.
    #[test]
    fn what_a_repository_says_is_only_text(text in any::<String>()) {
        let message = Message { text, ..message() };
        let slack: serde_json::Value = serde_json::from_slice(&message.body(NotificationKind::Slack)).unwrap();
        let line = slack["text"].as_str().unwrap();
        prop_assert!(!line.contains(['<', '>', '\n']) && !line.chars().any(char::is_control));
        let called = line.split('@').skip(1).any(|rest| !rest.starts_with('\u{200b}'));
        prop_assert!(!called);
        prop_assert!(line.chars().count() < 16_000);
        let generic: serde_json::Value = serde_json::from_slice(&message.body(NotificationKind::Webhook)).unwrap();
        prop_assert_eq!(generic["event"].as_str(), Some("failed"));
    }
}

fn message() -> Message {
    Message {
        event: NotificationEvent::Failed,
        reason: "HealthCheckFailed",
        source: key(),
        environment: Some("prod".to_owned()),
        revision: Some("3f2c1ab99d".to_owned()),
        text: "3f2c1ab: <!channel> & @here: llama is not healthy".to_owned(),
        at: at(0),
    }
}

#[test]
fn a_message_says_what_where_and_why() {
    let told = |kind| String::from_utf8(message().body(kind)).unwrap().replace('\u{200b}', "~");
    insta::assert_snapshot!(told(NotificationKind::Slack) + "\n" + &told(NotificationKind::Webhook), @r#"
    {"mrkdwn":false,"text":"Failed: team/models (prod) at 3f2c1ab: &lt;!channel&gt; &amp; @~here: llama is not healthy","unfurl_links":false,"unfurl_media":false}
    {"apiVersion":"stator.dev/v1alpha1","environment":"prod","event":"failed","kind":"Notification","message":"3f2c1ab: <!channel> & @here: llama is not healthy","reason":"HealthCheckFailed","revision":"3f2c1ab99d","source":{"name":"models","namespace":"team"},"time":"2023-11-14T22:13:20Z"}
    "#);
}

#[test]
fn an_address_is_judged_and_never_shown() {
    let wanted = Notification {
        kind: NotificationKind::Slack,
        secret_ref: SecretRef { name: "slack".parse().unwrap() },
        events: Vec::new(),
    };
    let read = |url: &str, insecure| {
        let secret = SecretValues::new("slack", [("url".to_owned(), url.as_bytes().to_vec())]);
        Target::read(&wanted, &secret, insecure).map(|target| format!("{target:?}")).map_err(|fault| fault.to_string())
    };
    let all = [
        read("https://hooks.example.com/services/canary\n", false),
        read("http://hooks.example.com/canary", false),
        read("http://hooks.example.com/canary", true),
        read("file:///etc/canary", true),
        read("canary", true),
        read(" ", true),
    ];
    let lines: Vec<String> = all.into_iter().map(|one| one.unwrap_or_else(|fault| fault)).collect();
    assert!(!lines.join("\n").contains("canary"), "{lines:?}");
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Target { kind: Slack, name: "slack", .. }
    has an `http://` address under `url`, and what is sent there can be read and changed on the way
    Target { kind: Slack, name: "slack", .. }
    has no address of the web under `url`
    has no address of the web under `url`
    has no `url`, or an empty one
    "#);
}
