use super::decision::{NotificationDecision, NotificationHistory, TRANSIENT_FAILURE_GRACE};
use super::message::NotificationMessage;
use crate::controller::sources::notification_target::NotificationTarget;
use crate::controller::sources::registry::source_events::{self, SourceEvent, SourceEventKind};
use crate::controller::sources::registry::{
    PreviousState, ProblemReason, ProblemScope, SourceProblem, SourceState, TimestampedRevision,
};
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::status_wording::{CommitVerdict, FirstFinding};
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

fn event(minute: i64, what: SourceEventKind, revision: Option<&str>) -> SourceEvent {
    let (revision, message) = (revision.map(str::to_owned), "3f2c1ab: something".to_owned());
    SourceEvent { source: key(), kind: what, model: None, revision, message, at: at(minute) }
}

/// What is reported of events of a commit (or of none), in one line each.
fn decisions(history: &mut NotificationHistory, all: &[(i64, SourceEventKind, Option<&str>)]) -> String {
    let mut lines = Vec::new();
    for (minute, what, revision) in all {
        let overdue = history.take_overdue(at(*minute), all.first().and_then(|(_, _, revision)| *revision));
        let decision = history.observe_event(event(*minute, *what, *revision));
        lines.extend(overdue.into_iter().chain(decision).map(|decision| line(&decision)));
    }
    lines.join("\n")
}

fn line(decision: &NotificationDecision) -> String {
    let also = decision.also.map(|also| format!(" ({also:?} too)")).unwrap_or_default();
    format!("{:?}{also} {}", decision.event, decision.source_event.revision.as_deref().unwrap_or("-"))
}

fn known(recalled: PreviousState) -> NotificationHistory {
    NotificationHistory::new(Some(&recalled))
}

const BROKEN: SourceEventKind = SourceEventKind::Failed(ProblemReason::BuildFailed);
const OUTAGE: SourceEventKind = SourceEventKind::Failed(ProblemReason::ReconciliationFailed);

#[test]
fn each_change_is_reported_once() {
    let mut history = known(PreviousState::default());
    let story = [
        (0, SourceEventKind::Synced, Some("a")),
        (1, BROKEN, Some("b")),
        (2, BROKEN, Some("b")),
        (3, SourceEventKind::Failed(ProblemReason::HealthCheckFailed), Some("b")),
        (4, BROKEN, Some("b")),
        (5, SourceEventKind::Synced, Some("c")),
        (5, SourceEventKind::Recovered, Some("c")),
        (6, SourceEventKind::Held, Some("d")),
        (7, SourceEventKind::Held, Some("d")),
        (8, SourceEventKind::Synced, Some("d")),
        (9, SourceEventKind::Drifted, Some("d")),
        (9, SourceEventKind::Drifted, Some("d")),
        (10, SourceEventKind::Healed, Some("d")),
        (11, SourceEventKind::Drifted, Some("d")),
        (12, SourceEventKind::Healed, Some("d")),
        (30, SourceEventKind::Drifted, Some("d")),
        (31, SourceEventKind::Suspended, None),
    ];
    insta::assert_snapshot!(decisions(&mut history, &story), @r"
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
fn what_passes_by_itself_is_reported_when_it_does_not() {
    let mut history = known(PreviousState::default());
    let passed =
        [(0, OUTAGE, Some("a")), (4, SourceEventKind::Synced, Some("a")), (4, SourceEventKind::Recovered, Some("a"))];
    assert_eq!(decisions(&mut history, &passed), "Synced a");
    let overtaken =
        [(10, OUTAGE, Some("b")), (11, SourceEventKind::Held, Some("c")), (30, SourceEventKind::Suspended, None)];
    assert_eq!(decisions(&mut history, &overtaken), "Held c");
    let lasting = [
        (40, OUTAGE, Some("d")),
        (44, OUTAGE, Some("d")),
        (45, SourceEventKind::Suspended, None),
        (60, OUTAGE, Some("d")),
        (70, SourceEventKind::Recovered, Some("d")),
    ];
    assert_eq!(decisions(&mut history, &lasting), "Failed d\nRecovered d");
    let look = SourceEventKind::Failed(ProblemReason::GitOperationFailed);
    assert_eq!(decisions(&mut history, &[(80, look, None), (81, SourceEventKind::Recovered, None)]), "");
    assert_eq!(history.observe_event(event(90, look, None)), None);
    assert_eq!(history.next_due(), Some(at(90).checked_add(TRANSIENT_FAILURE_GRACE).unwrap()));
}

#[test]
fn after_a_restart_nothing_is_reported_anew() {
    let failed = PreviousState {
        applied: Some("a".to_owned()),
        applied_from: None,
        ready: false,
        reason: Some("BuildFailed".to_owned()),
        judged_commit: Some("b".to_owned()),
        seen: Some("b".to_owned()),
    };
    assert_eq!(
        decisions(
            &mut known(failed),
            &[(0, SourceEventKind::Synced, Some("c")), (0, SourceEventKind::Recovered, Some("c"))]
        ),
        "Recovered (Synced too) c"
    );
    // An outage that its status shows counts as reported, also when the commit failed in another way since.
    let outage = PreviousState {
        applied: None,
        applied_from: None,
        ready: false,
        reason: Some("ReconciliationFailed".to_owned()),
        judged_commit: Some("b".to_owned()),
        seen: Some("b".to_owned()),
    };
    let mut history = known(outage);
    let unreachable = SourceEventKind::Failed(ProblemReason::ReconciliationFailed);
    assert_eq!(decisions(&mut history, &[(0, BROKEN, Some("b")), (1, unreachable, Some("b"))]), "Failed b");
    assert_eq!(history.next_due(), None);
    // A file has no status: what is there at the start counts as reported, and as never reported to have failed.
    let mut blind = NotificationHistory::new(None);
    let story = [
        (0, BROKEN, Some("a")),
        (1, SourceEventKind::Synced, Some("b")),
        (2, BROKEN, Some("c")),
        (3, SourceEventKind::Synced, Some("d")),
    ];
    assert_eq!(decisions(&mut blind, &story), "Synced b\nFailed c\nRecovered (Synced too) d");
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

fn verdict(step: Step) -> Option<(CommitVerdict, Option<SourceProblem>)> {
    let problem = |reason| Some(SourceProblem::permanent(reason, "it failed", ""));
    let finding = FirstFinding { file: "m".to_owned(), line: 1, message: "no".to_owned(), more: 0 };
    match step {
        Step::Well => Some((CommitVerdict::Healthy { models: 1, changed: 1 }, None)),
        Step::Broken => Some((CommitVerdict::Invalid(finding), problem(ProblemReason::BuildFailed))),
        Step::Sick => {
            let why = "a pod crashes".to_owned();
            Some((
                CommitVerdict::Unhealthy { model: "a".to_owned(), why, more: 0 },
                problem(ProblemReason::HealthCheckFailed),
            ))
        }
        Step::Outage => Some((
            CommitVerdict::Error { message: "no answer".to_owned() },
            problem(ProblemReason::ReconciliationFailed),
        )),
        Step::Push | Step::LookFails | Step::LookWorks | Step::Wait | Step::Restart => None,
    }
}

/// What its status would say of it.
fn recalled(standing: &SourceState) -> PreviousState {
    let commit = |one: &Option<TimestampedRevision>| one.as_ref().map(|one| one.commit.clone());
    PreviousState {
        applied: commit(&standing.applied),
        applied_from: None,
        ready: standing.is_ready(),
        reason: standing.problem().map(|problem| problem.reason.as_str().to_owned()),
        judged_commit: standing.verdict.as_ref().map(|judged| judged.revision.clone()),
        seen: commit(&standing.seen),
    }
}

proptest! {
    /// Whatever happens: no failure of a commit is reported twice before the source was well, nor the one that its status
    /// shows after a restart; nothing recovers that was not reported to have failed, and nothing is reported of a commit that is not the newest.
    #[test]
    fn people_are_notified_once_and_in_order(steps in steps()) {
        let mut standing = SourceState { previous: Some(PreviousState::default()), ..SourceState::default() };
        let mut history = known(PreviousState::default());
        let (mut pushes, mut minute) = (0, 0);
        let mut failed: BTreeMap<(SourceEventKind, Option<String>), ()> = BTreeMap::new();
        let (mut open, mut open_rest) = (false, false);
        for step in steps {
            minute += 1;
            let before = standing.clone();
            match step {
                Step::Push => {
                    pushes += 1;
                    standing.seen = Some(TimestampedRevision::now(format!("{pushes:07}")));
                }
                Step::LookFails => standing.set_problem(ProblemScope::Repository, Some(SourceProblem::permanent(ProblemReason::AuthenticationFailed, "no", ""))),
                Step::LookWorks => standing.set_problem(ProblemScope::Repository, None),
                Step::Wait => minute += 10,
                Step::Restart => {
                    let recalled = recalled(&standing);
                    history = known(recalled.clone());
                    // The status says how it stood in the end, and no more.
                    failed.retain(|(what, commit), ()| Some(what.as_str()) == recalled.reason.as_deref() && *commit == recalled.judged_commit);
                    let seen = standing.seen.clone();
                    standing = SourceState { previous: Some(recalled), seen, ..SourceState::default() };
                    continue;
                }
                Step::Well | Step::Broken | Step::Sick | Step::Outage => {
                    let Some(seen) = standing.seen.clone() else { continue };
                    let Some((verdict, problem)) = verdict(step) else { continue };
                    if problem.is_none() {
                        standing.applied = Some(seen.clone());
                    }
                    standing.set_problem(ProblemScope::Commit, problem);
                    standing.verdict = Some(crate::controller::sources::registry::RevisionVerdict { revision: seen.commit, verdict, at: at(minute) });
                }
            }
            standing.was_polled = true;
            let newest = standing.seen.as_ref().map(|seen| seen.commit.clone());
            let mut all = history.take_overdue(at(minute), newest.as_deref());
            for one in source_events::diff_states(&key(), &before, &standing) {
                all.extend(history.observe_event(SourceEvent { at: at(minute), ..one }));
            }
            for decision in all {
                let of_commit = decision.source_event.revision.is_some();
                prop_assert!(!of_commit || decision.source_event.revision == newest, "{:?} is not {:?}", decision, newest);
                match decision.event {
                    NotificationEvent::Failed => {
                        let again = failed.insert((decision.source_event.kind, decision.source_event.revision.clone()), ());
                        prop_assert!(!of_commit || again.is_none(), "reported twice: {:?}", decision);
                        if of_commit { open = true } else { open_rest = true }
                    }
                    NotificationEvent::Recovered => {
                        let was = if of_commit { std::mem::take(&mut open) } else { std::mem::take(&mut open_rest) };
                        prop_assert!(was, "nothing was reported to have failed: {:?}", decision);
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
        let source_event = SourceEvent { message: text, ..message().source_event };
        let message = NotificationMessage { source_event, ..message() };
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

fn message() -> NotificationMessage {
    NotificationMessage {
        event: NotificationEvent::Failed,
        environment: Some("prod".to_owned()),
        source_event: SourceEvent {
            message: "3f2c1ab: <!channel> & @here: llama is not healthy".to_owned(),
            ..event(0, SourceEventKind::Failed(ProblemReason::HealthCheckFailed), Some("3f2c1ab99d"))
        },
    }
}

#[test]
fn a_message_says_what_where_and_why() {
    let decisions = |kind| String::from_utf8(message().body(kind)).unwrap().replace('\u{200b}', "~");
    insta::assert_snapshot!(decisions(NotificationKind::Slack) + "\n" + &decisions(NotificationKind::Webhook), @r#"
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
        NotificationTarget::from_secret(&wanted, &secret, insecure)
            .map(|target| format!("{target:?}"))
            .map_err(|fault| fault.to_string())
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
    has an `http://` address under `url`, which is not encrypted
    Target { kind: Slack, name: "slack", .. }
    has no web address under `url`
    has no web address under `url`
    has no `url`, or an empty one
    "#);
}
