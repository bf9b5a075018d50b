//! Stories of commits, and the laws that hold for all of them.

mod laws;

use super::*;
use crate::controller::status_wording::{FirstFinding, HoldCause, commit_label};
use stator_core::outcome::SyncOutcome;
use stator_model::plan::HoldKind;
use std::fmt::Write as _;

fn contexts(per_model: bool) -> StatusContexts {
    StatusContexts { prefix: "stator".into(), environment: "prod".into(), per_model, most_models: 3, target_url: None }
}

fn ledger() -> CommitLedger {
    CommitLedger::new(contexts(true))
}

fn commit(letter: &str) -> String {
    letter.repeat(40)
}

fn shown(ledger: &CommitLedger) -> String {
    let mut out = String::new();
    for (commit, status) in ledger.desired_statuses() {
        let state = format!("{:?}", status.state).to_lowercase();
        writeln!(out, "{} {} {state}: {}", commit_label(&commit), status.context, status.description).unwrap();
    }
    out
}

fn first(more: usize) -> FirstFinding {
    FirstFinding {
        file: "chat/llama/model.yaml".into(),
        line: 9,
        message: "`spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`".into(),
        more,
    }
}

#[test]
fn a_commit_is_pending_until_its_models_are_healthy() {
    let (mut ledger, a) = (ledger(), commit("a"));
    let mut text = String::new();
    ledger.record_commit(&a);
    text += &shown(&ledger);
    for stage in [
        CommitStage::Reading,
        CommitStage::Planning,
        CommitStage::Applying { models: 1 },
        CommitStage::Waiting { healthy: 1, models: 2, first: Some("llama".into()) },
    ] {
        ledger.record_progress(&a, stage);
        text += &shown(&ledger);
    }
    ledger.record_verdict(&a, CommitVerdict::Healthy { models: 2, changed: 1 });
    text += &shown(&ledger);
    insta::assert_snapshot!(text, @r#"
    aaaaaaa stator/prod pending: queued
    aaaaaaa stator/prod pending: reading and rendering
    aaaaaaa stator/prod pending: planning
    aaaaaaa stator/prod pending: applying 1 model
    aaaaaaa stator/prod pending: 1 of 2 models healthy, waiting for llama
    aaaaaaa stator/prod success: 2 models healthy, 1 changed
    "#);
}

#[test]
fn whoever_is_at_fault_is_told_apart() {
    let verdicts = [
        CommitVerdict::Healthy { models: 12, changed: 0 },
        CommitVerdict::NoModels,
        CommitVerdict::Superseded { by: commit("b") },
        CommitVerdict::Invalid(first(0)),
        CommitVerdict::Invalid(first(3)),
        CommitVerdict::Unhealthy {
            model: "llama".into(),
            why: "Failed: worker-0 is in CrashLoopBackOff".into(),
            more: 2,
        },
        CommitVerdict::Held {
            by: HoldCause::Guard(HoldKind::MassDelete),
            message: "12 of 14 objects would be deleted; the limit without approval is 5".into(),
        },
        CommitVerdict::Held {
            by: HoldCause::Guard(HoldKind::Replace),
            message: "Dynamo forbids the change in place".into(),
        },
        CommitVerdict::Unsigned { message: "the commit is not signed".into() },
        CommitVerdict::Error { message: "the cluster cannot be reached: connection refused".into() },
    ];
    let mut text = String::new();
    for verdict in verdicts {
        writeln!(text, "{}: {}", format!("{:?}", verdict.state()).to_lowercase(), verdict.sentence()).unwrap();
    }
    for stage in [
        CommitStage::WindowClosed { opens: Some("2026-11-21 20:00 UTC".into()) },
        CommitStage::WindowClosed { opens: None },
        CommitStage::Suspended,
    ] {
        writeln!(text, "pending: {}", stage.sentence()).unwrap();
    }
    insta::assert_snapshot!(text, @r#"
    success: 12 models healthy, nothing to change
    success: nothing to sync: no model for this environment
    success: superseded by bbbbbbb
    failure: chat/llama/model.yaml:9: `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`
    failure: chat/llama/model.yaml:9: (and 3 more) `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`
    failure: llama (and 2 more): Failed: worker-0 is in CrashLoopBackOff
    failure: held back (mass-delete): 12 of 14 objects would be deleted; the limit without approval is 5
    failure: held back (replace): Dynamo forbids the change in place
    failure: signature refused: the commit is not signed
    error: not synced: the cluster cannot be reached: connection refused
    pending: waiting for the sync window at 2026-11-21 20:00 UTC; the previous commit keeps running
    pending: waiting: no sync window opens again
    pending: waiting: the source is suspended
    "#);
}

#[test]
fn a_newer_commit_ends_the_one_before_and_its_late_end_changes_nothing() {
    let (mut ledger, a, b) = (ledger(), commit("a"), commit("b"));
    ledger.record_commit(&a);
    ledger.record_progress(&a, CommitStage::Applying { models: 1 });
    ledger.record_model(&a, "llama", None);
    ledger.record_commit(&b);
    ledger.record_verdict(&a, CommitVerdict::Healthy { models: 1, changed: 1 });
    ledger.record_progress(&a, CommitStage::Planning);
    ledger.record_model(&a, "llama", Some(ModelVerdict::success(SyncOutcome::Healthy)));
    insta::assert_snapshot!(shown(&ledger), @r#"
    aaaaaaa stator/prod success: superseded by bbbbbbb
    aaaaaaa stator/prod/llama success: superseded by bbbbbbb
    bbbbbbb stator/prod pending: queued
    "#);
}

#[test]
fn a_commit_that_failed_is_mended_and_one_that_went_well_stays() {
    let (mut ledger, a) = (ledger(), commit("a"));
    ledger.record_commit(&a);
    ledger.record_verdict(&a, CommitVerdict::Error { message: "the cluster cannot be reached".into() });
    // Another attempt is no change: the status stays until there is another end.
    ledger.record_progress(&a, CommitStage::Planning);
    let failed = shown(&ledger);
    ledger.record_verdict(&a, CommitVerdict::Healthy { models: 1, changed: 1 });
    let mended = shown(&ledger);
    ledger.record_verdict(&a, CommitVerdict::Error { message: "the cluster cannot be reached".into() });
    insta::assert_snapshot!(failed + &mended + &shown(&ledger), @r#"
    aaaaaaa stator/prod error: not synced: the cluster cannot be reached
    aaaaaaa stator/prod success: 1 model healthy, 1 changed
    aaaaaaa stator/prod success: 1 model healthy, 1 changed
    "#);
}

#[test]
fn a_held_commit_that_is_released_is_pending_once_more() {
    let (mut ledger, a) = (ledger(), commit("a"));
    ledger.record_commit(&a);
    ledger.record_verdict(
        &a,
        CommitVerdict::Held {
            by: HoldCause::Guard(HoldKind::Replace),
            message: "deleted and made again: llama".into(),
        },
    );
    ledger.reopen_commit(&a);
    insta::assert_snapshot!(shown(&ledger), @"aaaaaaa stator/prod pending: queued");
}

#[test]
fn a_branch_that_is_set_back_begins_its_old_commit_anew() {
    let (mut ledger, a, b) = (ledger(), commit("a"), commit("b"));
    ledger.record_commit(&a);
    ledger.record_verdict(&a, CommitVerdict::Healthy { models: 1, changed: 1 });
    ledger.record_commit(&b);
    ledger.record_commit(&a);
    insta::assert_snapshot!(shown(&ledger), @r#"
    bbbbbbb stator/prod success: superseded by aaaaaaa
    aaaaaaa stator/prod pending: queued
    "#);
}

#[test]
fn models_have_statuses_of_their_own_and_beyond_the_cap_a_sentence() {
    let (mut ledger, a) = (ledger(), commit("a"));
    ledger.record_commit(&a);
    ledger.record_model(&a, "llama", None);
    ledger.record_model(&a, "qwen", Some(ModelVerdict::success(SyncOutcome::Healthy)));
    ledger.record_model(&a, "old", Some(ModelVerdict::success(SyncOutcome::Deleted)));
    ledger.record_model(&a, "phi", Some(ModelVerdict::success(SyncOutcome::Healthy)));
    ledger.record_model(&a, "phi", Some(ModelVerdict::success(SyncOutcome::Healthy)));
    ledger.record_model(
        &a,
        "llama",
        Some(ModelVerdict { outcome: SyncOutcome::Unhealthy, message: "Failed: no GPUs".into() }),
    );
    ledger.record_verdict(&a, CommitVerdict::Unhealthy { model: "llama".into(), why: "x".repeat(400), more: 0 });
    insta::assert_snapshot!(shown(&ledger), @"
    aaaaaaa stator/prod failure: llama: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…; only 3 models have their own status
    aaaaaaa stator/prod/llama failure: Failed: no GPUs
    aaaaaaa stator/prod/old success: deleted
    aaaaaaa stator/prod/qwen success: healthy
    ");
    assert!(ledger.desired_statuses()[0].1.description.chars().count() <= 140);
}

#[test]
fn a_model_under_way_shares_the_end_of_its_commit() {
    let (mut ledger, a) = (ledger(), commit("a"));
    ledger.record_commit(&a);
    ledger.record_model(&a, "llama", None);
    ledger.record_verdict(&a, CommitVerdict::Error { message: "the cluster cannot be reached".into() });
    insta::assert_snapshot!(shown(&ledger), @r#"
    aaaaaaa stator/prod error: not synced: the cluster cannot be reached
    aaaaaaa stator/prod/llama error: not synced: the cluster cannot be reached
    "#);
}

#[test]
fn without_being_asked_models_have_no_statuses() {
    let (mut ledger, a) = (CommitLedger::new(contexts(false)), commit("a"));
    ledger.record_commit(&a);
    ledger.record_model(&a, "llama", Some(ModelVerdict::success(SyncOutcome::Healthy)));
    assert_eq!(ledger.desired_statuses().len(), 1);
}

/// A host that did not answer after a restart may show the end already: nothing is said over it.
#[test]
fn nothing_is_said_of_a_commit_whose_statuses_could_not_be_read_yet() {
    let (mut ledger, a, b) = (ledger(), commit("a"), commit("b"));
    ledger.record_commit(&a);
    ledger.await_statuses(&a);
    ledger.record_progress(&a, CommitStage::Planning);
    assert_eq!(shown(&ledger), "");
    let ended = CommitStatus {
        context: "stator/prod".into(),
        state: StatusState::Success,
        description: "2 models healthy, 2 changed".into(),
        target_url: None,
    };
    ledger.restore_statuses(&a, &[ended]);
    ledger.record_verdict(&a, CommitVerdict::Healthy { models: 2, changed: 0 });
    assert_eq!(shown(&ledger), "aaaaaaa stator/prod success: 2 models healthy, 2 changed\n");
    // Overtaken before the host answered, and pending there.
    ledger.record_commit(&b);
    ledger.await_statuses(&b);
    ledger.record_commit(&commit("c"));
    ledger.restore_statuses(&b, &[]);
    insta::assert_snapshot!(shown(&ledger), @r"
    aaaaaaa stator/prod success: 2 models healthy, 2 changed
    bbbbbbb stator/prod success: superseded by ccccccc
    ccccccc stator/prod pending: queued
    ");
}

#[test]
fn after_a_restart_the_host_is_what_remembers() {
    let (a, b, c) = (commit("a"), commit("b"), commit("c"));
    let status = |context: &str, state, description: &str| CommitStatus {
        context: context.into(),
        state,
        description: description.into(),
        target_url: None,
    };
    let mut ledger = ledger();
    ledger.record_commit(&c);
    ledger.restore_statuses(&c, &[status("stator/prod", StatusState::Pending, "planning")]);
    ledger.restore_statuses(
        &b,
        &[
            status("stator/prod", StatusState::Pending, "0 of 1 model healthy"),
            status("stator/prod/llama", StatusState::Pending, "0 of 1 model healthy"),
            status("stator/staging", StatusState::Pending, "another's"),
        ],
    );
    ledger.restore_statuses(
        &a,
        &[
            status("stator/prod", StatusState::Failure, "llama: Failed"),
            status("stator/prod/llama", StatusState::Failure, "Failed"),
        ],
    );
    insta::assert_snapshot!(shown(&ledger), @r#"
    aaaaaaa stator/prod failure: llama: Failed
    aaaaaaa stator/prod/llama failure: Failed
    bbbbbbb stator/prod success: superseded by ccccccc
    bbbbbbb stator/prod/llama success: superseded by ccccccc
    ccccccc stator/prod pending: queued
    "#);
}

#[test]
fn hostile_words_are_one_harmless_line() {
    let first = FirstFinding {
        file: "a\n\u{1b}[2J/model.yaml".into(),
        line: 0,
        message: "value `--api-key=sk-canary` at https://u:canary@h\u{202e}".into(),
        more: 0,
    };
    insta::assert_snapshot!(CommitVerdict::Invalid(first).sentence(), @r#"a\n\u{1b}[2J/model.yaml: value `--api-key=*** at https://u:***@h\u{202e}"#);
}

#[test]
fn contexts_are_in_small_letters_and_the_prefix_is_the_users() {
    let contexts = StatusContexts { prefix: "GPU-West/stator".into(), ..contexts(true) };
    assert_eq!(contexts.environment(), "gpu-west/stator/prod");
    assert_eq!(contexts.model("llama"), "gpu-west/stator/prod/llama");
    assert_eq!(contexts.preview(), "gpu-west/stator/preview/prod");
}

/// Every stage and verdict there is, and when it is said.
fn sentences() -> Vec<(&'static str, StatusState, String)> {
    let stage = |when, stage: CommitStage| (when, StatusState::Pending, stage.sentence());
    let end = |when, verdict: CommitVerdict| (when, verdict.state(), verdict.sentence());
    vec![
        stage("it was seen", CommitStage::Queued),
        stage("it is fetched and checked", CommitStage::Reading),
        stage("it is compared with the cluster", CommitStage::Planning),
        stage("its changes are written", CommitStage::Applying { models: 2 }),
        stage(
            "its models are waited for",
            CommitStage::Waiting { healthy: 11, models: 12, first: Some("llama".into()) },
        ),
        stage("no sync window is open", CommitStage::WindowClosed { opens: Some("2026-11-21 20:00 UTC".into()) }),
        stage("no sync window opens again", CommitStage::WindowClosed { opens: None }),
        stage("the source is suspended", CommitStage::Suspended),
        end("all models are healthy", CommitVerdict::Healthy { models: 12, changed: 3 }),
        end("nothing had to change", CommitVerdict::Healthy { models: 12, changed: 0 }),
        end("it selects no model", CommitVerdict::NoModels),
        end("a newer commit came first", CommitVerdict::Superseded { by: "abc1234".into() }),
        end("files have errors", CommitVerdict::Invalid(first(2))),
        end(
            "a model does not become healthy",
            CommitVerdict::Unhealthy {
                model: "llama".into(),
                why: "Failed: worker-0 is in CrashLoopBackOff".into(),
                more: 1,
            },
        ),
        end(
            "a guard holds the plan back",
            CommitVerdict::Held {
                by: HoldCause::Guard(HoldKind::MassDelete),
                message: "12 of 14 objects would be deleted".into(),
            },
        ),
        end("its signature is not trusted", CommitVerdict::Unsigned { message: "the commit is not signed".into() }),
        end(
            "stator, the cluster or the network is at fault",
            CommitVerdict::Error { message: "the cluster cannot be reached".into() },
        ),
    ]
}

#[test]
fn the_reference_page_has_every_sentence() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/statuses.md");
    let text = fs_err::read_to_string(&page).unwrap();
    let mut table = String::from("\n| When | State | For example |\n|-|-|-|\n");
    for (when, state, sentence) in sentences() {
        let state = format!("{state:?}").to_lowercase();
        writeln!(table, "| {when} | `{state}` | {sentence} |").unwrap();
    }
    let (start, end) = ("<!-- sentences -->", "<!-- /sentences -->");
    let (before, rest) = text.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{start}{table}{end}{after}");
    if std::env::var_os("STATOR_BLESS").is_some() {
        fs_err::write(&page, &wanted).unwrap();
        return;
    }
    assert_eq!(text, wanted, "run with STATOR_BLESS=1");
}
