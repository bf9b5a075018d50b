//! Stories of one source's status, and the laws of all of them.

use super::*;
use crate::controller::sources::registry::source_state::{RevisionHold, StatusPostingState};
use crate::controller::status_wording::{CommitVerdict, FirstFinding, HoldCause};
use proptest::prelude::*;
use serde_json::Value;
use stator_git::forge::{CommitStatus, StatusState};
use stator_git::source::model_source::crd::custom_resource_definition;
use stator_model::plan::HoldKind;
use std::fmt::Write as _;

fn key() -> SourceKey {
    SourceKey::new("team-a", "models")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn digits(letter: char) -> String {
    letter.to_string().repeat(40)
}

fn revision(letter: char, second: i64) -> TimestampedRevision {
    TimestampedRevision { commit: digits(letter), at: at(second) }
}

fn judgement(letter: char, verdict: CommitVerdict) -> RevisionVerdict {
    RevisionVerdict { revision: digits(letter), verdict, at: at(0) }
}

/// A source whose newest commit is applied and healthy.
fn well(letter: char) -> SourceState {
    SourceState {
        was_polled: true,
        environment: Some("prod".into()),
        seen: Some(revision(letter, 0)),
        attempted: Some(revision(letter, 1)),
        applied: Some(revision(letter, 9)),
        verdict: Some(judgement(letter, CommitVerdict::Healthy { models: 4, changed: 1 })),
        counts: ModelHealthCounts { models: 4, healthy: 4, not_healthy: 0, drifted: 0 },
        ..SourceState::default()
    }
}

fn status_of(standing: &SourceState, previous: &ModelSourceStatus, now: Timestamp) -> ModelSourceStatus {
    build_status(standing, &SourceStatusInput { key: &key(), generation: 3, previous, remarks: &[], now })
}

fn shown(status: &ModelSourceStatus) -> String {
    let mut out = String::new();
    for one in &status.conditions {
        let message = if one.message.is_empty() { String::new() } else { format!(": {}", one.message) };
        writeln!(
            out,
            "{} {} {} since {}{message}",
            one.kind,
            one.status.as_str(),
            one.reason,
            one.last_transition_time
        )
        .unwrap();
    }
    out
}

#[test]
fn a_commit_comes_is_synced_and_is_ready() {
    let mut all = String::new();
    let mut report = |standing: &SourceState, previous: &ModelSourceStatus, second: i64| {
        let status = status_of(standing, previous, at(second));
        writeln!(all, "{}", shown(&status)).unwrap();
        status
    };
    let new = report(&SourceState::default(), &ModelSourceStatus::default(), 0);
    let mut standing = SourceState { was_polled: true, seen: Some(revision('a', 2)), ..SourceState::default() };
    (standing.phase, standing.attempted) = (SourcePhase::Syncing, Some(revision('a', 3)));
    let syncing = report(&standing, &new, 5);
    let done = report(&well('a'), &syncing, 10);
    let again = report(&SourceState { attempted: Some(revision('a', 70)), ..well('a') }, &done, 80);
    assert_eq!(again, done);
    insta::assert_snapshot!(all, @"
    Ready Unknown Progressing since 2026-09-21T14:13:20Z: the repository is polled for the first time
    Reconciling True Progressing since 2026-09-21T14:13:20Z: the repository is polled for the first time
    Stalled False Progressing since 2026-09-21T14:13:20Z

    Ready Unknown Progressing since 2026-09-21T14:13:20Z: aaaaaaa: syncing
    Reconciling True Progressing since 2026-09-21T14:13:20Z: aaaaaaa: syncing
    Stalled False Progressing since 2026-09-21T14:13:20Z

    Ready True ReconciliationSucceeded since 2026-09-21T14:13:30Z: aaaaaaa: 4 models healthy, 1 changed
    Reconciling False ReconciliationSucceeded since 2026-09-21T14:13:30Z
    Stalled False ReconciliationSucceeded since 2026-09-21T14:13:20Z

    Ready True ReconciliationSucceeded since 2026-09-21T14:13:30Z: aaaaaaa: 4 models healthy, 1 changed
    Reconciling False ReconciliationSucceeded since 2026-09-21T14:13:30Z
    Stalled False ReconciliationSucceeded since 2026-09-21T14:13:20Z
    ");
    insta::assert_snapshot!(serde_json::to_string(&done.revision).unwrap(), @r#"{"seen":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seenAt":"2026-09-21T14:13:22Z","attempted":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","attemptedAt":"2026-09-21T14:13:23Z","applied":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","appliedAt":"2026-09-21T14:13:29Z"}"#);
}

#[test]
fn what_holds_a_source_up_is_told_with_what_to_do() {
    let ready = status_of(&well('a'), &ModelSourceStatus::default(), at(10));
    let mut all = String::new();
    let mut report = |what: &str, standing: &SourceState| {
        let status = status_of(standing, &ready, at(20));
        writeln!(all, "{what}:\n{}", shown(&status)).unwrap();
        status
    };
    let newer = || SourceState { seen: Some(revision('b', 12)), attempted: Some(revision('b', 13)), ..well('a') };
    let mut held = newer();
    held.verdict = Some(judgement(
        'b',
        CommitVerdict::Held {
            by: HoldCause::Guard(HoldKind::MassDelete),
            message: "7 of 9 objects would be deleted".into(),
        },
    ));
    held.set_problem(
        ProblemScope::Commit,
        Some(SourceProblem::permanent(
            ProblemReason::Held,
            "held back (mass-delete): 7 of 9 objects would be deleted",
            "allow it",
        )),
    );
    let guards = [(HoldKind::MassDelete, "7 of 9 objects would be deleted".to_owned())].into();
    held.hold = Some(RevisionHold { guards, revision: digits('b'), plan: "d".repeat(64) });
    let status = report("held", &held);
    let mut broken = newer();
    broken.set_problem(
        ProblemScope::Repository,
        Some(SourceProblem::transient(ProblemReason::GitOperationFailed, "git.example.com does not answer", "")),
    );
    broken.phase = SourcePhase::Retrying;
    report("the host is gone", &broken);
    let mut sick = newer();
    sick.verdict =
        Some(judgement('b', CommitVerdict::Unhealthy { model: "chat".into(), why: "no GPUs".into(), more: 0 }));
    sick.set_problem(
        ProblemScope::Commit,
        Some(SourceProblem::permanent(ProblemReason::HealthCheckFailed, "chat: no GPUs", "")),
    );
    report("a model is not healthy", &sick);
    report(
        "no sync window is open",
        &SourceState { phase: SourcePhase::WindowClosed, next_window: Some(at(3600)), verdict: None, ..newer() },
    );
    report("no window ever opens", &SourceState { phase: SourcePhase::WindowClosed, verdict: None, ..newer() });
    report("suspended, and as git says", &SourceState { phase: SourcePhase::Suspended, ..well('a') });
    report("suspended, and a commit is new", &SourceState { phase: SourcePhase::Suspended, ..newer() });
    let drifted = ModelHealthCounts { drifted: 1, ..well('a').counts };
    report("drifted, and nobody puts it back", &SourceState { counts: drifted, ..well('a') });
    let unheard = ["the annotation `stator.dev/allow` names no commit".to_owned()].into();
    let statuses = StatusPostingState { problem: Some("the token is refused".into()), ..StatusPostingState::default() };
    report(
        "somebody asked for what is not understood",
        &SourceState { rejected_requests: unheard, statuses, ..well('a') },
    );
    insta::assert_snapshot!(all, @"
    held:
    Ready False Held since 2026-09-21T14:13:40Z: bbbbbbb: held back (mass-delete): 7 of 9 objects would be deleted; allow it
    Reconciling False Held since 2026-09-21T14:13:30Z
    Stalled True Held since 2026-09-21T14:13:40Z: bbbbbbb: held back (mass-delete): 7 of 9 objects would be deleted; allow it

    the host is gone:
    Ready False GitOperationFailed since 2026-09-21T14:13:40Z: git.example.com does not answer
    Reconciling True ProgressingWithRetry since 2026-09-21T14:13:40Z: git.example.com does not answer
    Stalled False GitOperationFailed since 2026-09-21T14:13:30Z

    a model is not healthy:
    Ready False HealthCheckFailed since 2026-09-21T14:13:40Z: bbbbbbb: chat: no GPUs
    Reconciling False HealthCheckFailed since 2026-09-21T14:13:30Z
    Stalled False HealthCheckFailed since 2026-09-21T14:13:30Z

    no sync window is open:
    Ready False WindowClosed since 2026-09-21T14:13:40Z: no sync window is open; the next one opens at 2026-09-21T15:13:20Z
    Reconciling False WindowClosed since 2026-09-21T14:13:30Z
    Stalled False WindowClosed since 2026-09-21T14:13:30Z

    no window ever opens:
    Ready False WindowClosed since 2026-09-21T14:13:40Z: no sync window will open; correct `spec.windows`
    Reconciling False WindowClosed since 2026-09-21T14:13:30Z
    Stalled True WindowClosed since 2026-09-21T14:13:40Z: no sync window will open; correct `spec.windows`

    suspended, and as git says:
    Ready True Suspended since 2026-09-21T14:13:30Z: syncing is suspended; resume it with `stator resume models -n team-a`
    Reconciling False Suspended since 2026-09-21T14:13:30Z
    Stalled False Suspended since 2026-09-21T14:13:30Z

    suspended, and a commit is new:
    Ready False Suspended since 2026-09-21T14:13:40Z: syncing is suspended; resume it with `stator resume models -n team-a`
    Reconciling False Suspended since 2026-09-21T14:13:30Z
    Stalled False Suspended since 2026-09-21T14:13:30Z

    drifted, and nobody puts it back:
    Ready False Drifted since 2026-09-21T14:13:40Z: live objects of 1 of 4 models drifted; `stator sync --source models -n team-a` heals them
    Reconciling False Drifted since 2026-09-21T14:13:30Z
    Stalled False Drifted since 2026-09-21T14:13:30Z

    somebody asked for what is not understood:
    Ready True ReconciliationSucceeded since 2026-09-21T14:13:30Z: aaaaaaa: 4 models healthy, 1 changed; the annotation `stator.dev/allow` names no commit; no commit statuses are posted: the token is refused
    Reconciling False ReconciliationSucceeded since 2026-09-21T14:13:30Z
    Stalled False ReconciliationSucceeded since 2026-09-21T14:13:30Z
    ");
    insta::assert_snapshot!(serde_json::to_string_pretty(&status.held).unwrap(), @r#"
    {
      "revision": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
      "plan": "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd",
      "guards": [
        {
          "guard": "mass-delete",
          "message": "7 of 9 objects would be deleted"
        }
      ],
      "command": "stator sync --source models -n team-a --allow mass-delete"
    }
    "#);
}

#[test]
fn a_source_that_is_not_run_says_why_and_keeps_what_is_known() {
    let ready = status_of(&well('a'), &ModelSourceStatus::default(), at(10));
    let about = SourceStatusInput { key: &key(), generation: 4, previous: &ready, remarks: &[], now: at(20) };
    let mut all = String::new();
    for (reason, message) in [
        (RejectionReason::SecretMissing, "there is no secret `git`; make it"),
        (RejectionReason::SecretNotRead, "the secret `git` cannot be read"),
        (RejectionReason::Duplicate, "`other` syncs the same environment"),
    ] {
        let status = build_rejected_status(&NotRun { reason, message: message.into() }, &about);
        assert_eq!((status.revision.clone(), status.observed_generation), (ready.revision.clone(), Some(4)));
        all.push_str(&(shown(&status) + "\n"));
    }
    insta::assert_snapshot!(all, @"
    Ready False SecretMissing since 2026-09-21T14:13:40Z: there is no secret `git`; make it
    Reconciling False SecretMissing since 2026-09-21T14:13:30Z
    Stalled False SecretMissing since 2026-09-21T14:13:30Z

    Ready False SecretUnread since 2026-09-21T14:13:40Z: the secret `git` cannot be read
    Reconciling True ProgressingWithRetry since 2026-09-21T14:13:40Z: the secret `git` cannot be read
    Stalled False SecretUnread since 2026-09-21T14:13:30Z

    Ready False Duplicate since 2026-09-21T14:13:40Z: `other` syncs the same environment
    Reconciling False Duplicate since 2026-09-21T14:13:30Z
    Stalled True Duplicate since 2026-09-21T14:13:40Z: `other` syncs the same environment
    ");
}

/// A pod that moves is no change: what the one before reported of the same commit stays until there is something to report.
#[test]
fn a_process_that_has_just_started_says_what_the_one_before_said() {
    let ready = status_of(&well('a'), &ModelSourceStatus::default(), at(10));
    let looked = SourceState {
        was_polled: true,
        seen: Some(revision('a', 90)),
        phase: SourcePhase::Reading,
        ..SourceState::default()
    };
    for standing in
        [SourceState::default(), looked.clone(), SourceState { attempted: Some(revision('a', 91)), ..looked.clone() }]
    {
        let phase = reported_phase(&standing).to_owned();
        assert_eq!(
            status_of(&standing, &ready, at(95)),
            ModelSourceStatus { phase: phase.to_string(), ..ready.clone() }
        );
    }
    let newer = status_of(&SourceState { seen: Some(revision('b', 90)), ..looked }, &ready, at(95));
    assert!(!newer.is_condition_true(READY) && newer.is_condition_true(RECONCILING));
    assert_eq!(newer.commit.as_deref(), Some("aaaaaaa"));
}

fn commits() -> impl Strategy<Value = Option<TimestampedRevision>> {
    proptest::option::of(
        (prop::sample::select(vec!['a', 'b', 'c']), 0_i64..1000).prop_map(|(letter, at)| revision(letter, at)),
    )
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,20}", "(.|\n|\u{1b}|\u{7f}|\u{202e}){0,60}", "\\PC{0,1500}"]
}

fn verdicts() -> impl Strategy<Value = Option<RevisionVerdict>> {
    let verdict = prop_oneof![
        (0_usize..9, 0_usize..9).prop_map(|(models, changed)| CommitVerdict::Healthy { models, changed }),
        Just(CommitVerdict::NoModels),
        Just(CommitVerdict::Superseded { by: digits('c') }),
        (text(), text()).prop_map(|(file, message)| CommitVerdict::Invalid(FirstFinding {
            file,
            line: 3,
            message,
            more: 2
        })),
        (text(), text()).prop_map(|(model, why)| CommitVerdict::Unhealthy { model, why, more: 1 }),
        text().prop_map(|message| CommitVerdict::Held { by: HoldCause::Guard(HoldKind::Replace), message }),
        text().prop_map(|message| CommitVerdict::Unsigned { message }),
        text().prop_map(|message| CommitVerdict::Error { message }),
    ];
    proptest::option::of(
        (prop::sample::select(vec!['a', 'b']), verdict).prop_map(|(letter, verdict)| judgement(letter, verdict)),
    )
}

fn phases() -> impl Strategy<Value = SourcePhase> {
    use SourcePhase::{Idle, Reading, Retrying, Suspended, Syncing, WindowClosed};
    prop::sample::select(vec![Idle, Reading, Syncing, Retrying, WindowClosed, Suspended])
}

fn problems() -> impl Strategy<Value = std::collections::BTreeMap<ProblemScope, SourceProblem>> {
    let part = prop::sample::select(vec![ProblemScope::Source, ProblemScope::Repository, ProblemScope::Commit]);
    let problem = (prop::sample::select(ProblemReason::ALL.to_vec()), text(), text(), any::<bool>())
        .prop_map(|(reason, message, help, may_pass)| SourceProblem { reason, message, help, is_transient: may_pass });
    prop_oneof![3 => Just([].into()), 2 => prop::collection::btree_map(part, problem, 0..3)]
}

fn plans() -> impl Strategy<Value = Option<PlanSummary>> {
    let one = (0_usize..3, 0_usize..3, 0_usize..9000).prop_map(|(create, delete, keep)| PlanSummary {
        create,
        delete,
        keep,
        ..PlanSummary::from_summary(&digits('b'), &stator_model::plan::Summary::default())
    });
    proptest::option::of(one)
}

fn statuses() -> impl Strategy<Value = StatusPostingState> {
    let shown = (text(), text()).prop_map(|(context, description)| ShownStatus {
        revision: digits('a'),
        status: CommitStatus { context, state: StatusState::Error, description, target_url: None },
    });
    (proptest::option::of(shown), proptest::option::of(text())).prop_map(|(shown, problem)| StatusPostingState {
        shown,
        problem,
        ..StatusPostingState::default()
    })
}

fn holds() -> impl Strategy<Value = Option<RevisionHold>> {
    let kinds = vec![HoldKind::Replace, HoldKind::MassDelete, HoldKind::MaxGpus];
    let guards = prop::collection::btree_map(prop::sample::select(kinds), text(), 1..4);
    proptest::option::of(guards.prop_map(|guards| RevisionHold { guards, revision: digits('b'), plan: "d".repeat(64) }))
}

prop_compose! {
    fn standings()(
        (was_polled, environment, seen, attempted, applied, phase) in
            (any::<bool>(), proptest::option::of(text()), commits(), commits(), commits(), phases()),
        (problems, verdict, hold, plan, statuses) in (problems(), verdicts(), holds(), plans(), statuses()),
        (opens, handled_request, rejected_requests) in (proptest::option::of(0_i64..99), proptest::option::of(text()), prop::collection::btree_set(text(), 0..3)),
        (models, healthy, drifted) in (0_usize..20_000, 0_usize..20_000, prop_oneof![3 => Just(0_usize), 1 => 0_usize..9]),
    ) -> SourceState {
        SourceState {
            was_polled, environment, seen, attempted, applied, phase, problems, verdict, hold, plan, statuses, handled_request, rejected_requests,
            next_window: opens.map(at),
            counts: ModelHealthCounts { models, healthy, not_healthy: 0, drifted },
            ..SourceState::default()
        }
    }
}

/// What in a value the definition does not take.
fn against(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let fault = |what: &str| vec![format!("{path}: {what}: {value}")];
    let limit = |word: &str| schema[word].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    match value {
        Value::String(text) if schema["type"] == "string" => {
            let choice = schema["enum"].as_array().is_none_or(|words| words.contains(value));
            let fits = (schema["minLength"].as_u64().unwrap_or(0)..=limit("maxLength") as u64)
                .contains(&(text.chars().count() as u64));
            let time = schema["format"] != "date-time" || text.parse::<Timestamp>().is_ok();
            if choice && fits && time { Vec::new() } else { fault("not taken") }
        }
        Value::Number(number) if schema["type"] == "integer" && number.is_u64() => Vec::new(),
        Value::Array(items) if schema["type"] == "array" && items.len() <= limit("maxItems") => {
            items.iter().flat_map(|item| against(&schema["items"], item, path)).collect()
        }
        Value::Object(fields) if schema["type"] == "object" => {
            let below = |(name, value): (&String, &Value)| match schema["properties"].get(name) {
                Some(field) => against(field, value, &format!("{path}.{name}")),
                None => vec![format!("{path}.{name}: no such field")],
            };
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required.filter(|name| fields.get(name.as_str().unwrap()).is_none());
            fields.iter().flat_map(below).chain(missing.map(|name| format!("{path}: no {name}"))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            fault("another type")
        }
    }
}

fn schema() -> Value {
    custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"].clone()
}

proptest! {
    #[test]
    fn every_status_keeps_the_laws(
        first in standings(), second in standings(), remarks in prop::collection::vec(text(), 0..2),
    ) {
        let key = key();
        let report = |standing: &SourceState, previous: &ModelSourceStatus, second: i64| {
            build_status(standing, &SourceStatusInput { key: &key, generation: 3, previous, remarks: &remarks, now: at(second) })
        };
        let one = report(&first, &ModelSourceStatus::default(), 100);
        let two = report(&second, &one, 200);
        for status in [&one, &two] {
            // Never both, and ready only when the newest commit is what is applied.
            prop_assert!(!(status.is_condition_true(RECONCILING) && status.is_condition_true(STALLED)), "{:?}", status);
            if status.is_condition_true(READY) {
                prop_assert!(!status.is_condition_true(STALLED));
                prop_assert!(status.revision.seen.is_some() && status.revision.seen == status.revision.applied);
            }
            prop_assert!(status.conditions.iter().map(|one| one.kind.as_str()).eq([READY, RECONCILING, STALLED]));
            for condition in &status.conditions {
                prop_assert!(!condition.message.chars().any(char::is_control), "{:?}", condition);
            }
            // The API server takes it.
            let faults = against(&schema(), &serde_json::to_value(status).unwrap(), "status");
            prop_assert!(faults.is_empty(), "{:?}", faults);
        }
        // A time moves only when the status of its condition does.
        for (before, after) in one.conditions.iter().zip(&two.conditions) {
            let moved = before.last_transition_time != after.last_transition_time;
            prop_assert_eq!(moved, before.status != after.status, "{:?} {:?}", before, after);
        }
        // The same again changes nothing, however much time goes by: then nothing is written.
        prop_assert_eq!(report(&second, &two, 300), two);
    }
}
