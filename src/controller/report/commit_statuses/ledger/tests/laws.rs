//! What holds whatever happens, and in whatever order it becomes known.

use super::*;
use proptest::prelude::*;
use stator_core::outcome::SyncOutcome;

#[derive(Clone, Debug)]
enum Event {
    Seen(u8),
    Progress(u8, CommitStage),
    Model(u8, u8, Option<ModelVerdict>),
    Ended(u8, CommitVerdict),
    Reopened(u8),
}

fn name(number: u8) -> String {
    format!("{number:x}").repeat(40)
}

fn happen(ledger: &mut CommitLedger, event: &Event) {
    match event {
        Event::Seen(commit) => ledger.record_commit(&name(*commit)),
        Event::Progress(commit, stage) => ledger.record_progress(&name(*commit), stage.clone()),
        Event::Model(commit, model, verdict) => {
            ledger.record_model(&name(*commit), &format!("model-{model}"), verdict.clone());
        }
        Event::Ended(commit, verdict) => ledger.record_verdict(&name(*commit), verdict.clone()),
        Event::Reopened(commit) => ledger.reopen_commit(&name(*commit)),
    }
}

fn about(event: &Event) -> u8 {
    match event {
        Event::Seen(commit)
        | Event::Progress(commit, _)
        | Event::Model(commit, ..)
        | Event::Ended(commit, _)
        | Event::Reopened(commit) => *commit,
    }
}

fn verdict() -> impl Strategy<Value = CommitVerdict> {
    prop_oneof![
        (1usize..5, 0usize..5).prop_map(|(models, changed)| CommitVerdict::Healthy { models, changed }),
        Just(CommitVerdict::NoModels),
        (0usize..3).prop_map(|more| CommitVerdict::Invalid(first(more))),
        "[a-z]{1,9}".prop_map(|model| CommitVerdict::Unhealthy { model, why: "Failed".into(), more: 0 }),
        Just(CommitVerdict::Held { by: HoldCause::Guard(HoldKind::Replace), message: "no".into() }),
        "[ -~]{0,300}".prop_map(|message| CommitVerdict::Error { message }),
    ]
}

fn stage() -> impl Strategy<Value = CommitStage> {
    prop_oneof![
        Just(CommitStage::Reading),
        Just(CommitStage::Planning),
        Just(CommitStage::Suspended),
        (0usize..9).prop_map(|healthy| CommitStage::Waiting { healthy, models: 9, first: None }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let model = prop_oneof![
        Just(None),
        Just(Some(ModelVerdict::success(SyncOutcome::Healthy))),
        Just(Some(ModelVerdict { outcome: SyncOutcome::Unhealthy, message: "Failed".into() })),
    ];
    prop_oneof![
        2 => (0u8..6).prop_map(Event::Seen),
        3 => (0u8..6, stage()).prop_map(|(commit, stage)| Event::Progress(commit, stage)),
        3 => (0u8..6, 0u8..5, model).prop_map(|(commit, model, verdict)| Event::Model(commit, model, verdict)),
        2 => (0u8..6, verdict()).prop_map(|(commit, verdict)| Event::Ended(commit, verdict)),
        1 => (0u8..6).prop_map(Event::Reopened),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 0..40)
}

/// A git host: what it shows, and all that it was ever sent.
#[derive(Clone, Default)]
struct Host {
    shows: BTreeMap<(String, String), CommitStatus>,
    sent: Vec<(String, CommitStatus)>,
}

impl Host {
    /// Is sent what differs, as the poster does it.
    fn mend(&mut self, ledger: &CommitLedger) {
        for (commit, status) in ledger.desired_statuses() {
            let key = (commit.clone(), status.context.clone());
            if self.shows.get(&key) != Some(&status) {
                self.shows.insert(key, status.clone());
                self.sent.push((commit, status));
            }
        }
    }

    fn of(&self, commit: &str) -> Vec<CommitStatus> {
        self.shows.iter().filter(|(key, _)| key.0 == commit).map(|(_, status)| status.clone()).collect()
    }
}

fn is_end(status: &CommitStatus) -> bool {
    status.state != StatusState::Pending
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_commit_ends_in_exactly_one_way(events in events(), last in verdict()) {
        let mut ledger = ledger();
        let mut host = Host::default();
        for event in &events {
            happen(&mut ledger, event);
            host.mend(&ledger);
        }
        if let Some(newest) = ledger.newest().map(str::to_owned) {
            ledger.record_verdict(&newest, last);
        }
        host.mend(&ledger);
        for (key, status) in &host.shows {
            prop_assert!(is_end(status), "{key:?} is still {status:?}");
        }
        let mut keys: Vec<_> = ledger.desired_statuses().into_iter().map(|(commit, status)| (commit, status.context)).collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(keys.len(), all, "one status a commit and context");
    }

    #[test]
    fn what_was_overtaken_never_changes_again(events in events()) {
        let mut ledger = ledger();
        let mut host = Host::default();
        for event in &events {
            let before = host.clone();
            let newest = ledger.newest().map(str::to_owned);
            happen(&mut ledger, event);
            host.mend(&ledger);
            for (commit, status) in &host.sent[before.sent.len()..] {
                let key = (commit.clone(), status.context.clone());
                // Nothing is sent that is shown already.
                prop_assert_ne!(before.shows.get(&key), Some(status));
                let overtaken_before = newest.as_deref() != Some(commit.as_str());
                let seen_again = matches!(event, Event::Seen(number) if name(*number) == *commit);
                prop_assert!(!overtaken_before || seen_again, "{event:?} changed {key:?} of an older commit");
                // Under way again only when somebody says so.
                let ended = before.shows.get(&key).is_some_and(is_end);
                let anew = seen_again || matches!(event, Event::Reopened(_));
                prop_assert!(!ended || is_end(status) || anew, "{event:?} took the end of {key:?} back");
            }
        }
    }

    #[test]
    fn what_is_said_of_the_newest_does_not_hang_from_when_others_end(events in events()) {
        let mut whole = ledger();
        events.iter().for_each(|event| happen(&mut whole, event));
        let Some(newest) = whole.newest().map(str::to_owned) else { return Ok(()) };
        // Which other commits were seen matters, and nothing that was reported of them.
        let mut alone = ledger();
        for event in events.iter().filter(|event| name(about(event)) == newest || matches!(event, Event::Seen(_))) {
            happen(&mut alone, event);
        }
        let own = |ledger: &CommitLedger| -> Vec<_> { ledger.desired_statuses().into_iter().filter(|(commit, _)| *commit == newest).collect() };
        prop_assert_eq!(own(&whole), own(&alone));
    }

    #[test]
    fn a_restart_at_any_moment_loses_no_end(
        events in events(),
        lost in 0usize..4,
        order in Just((0u8..6).collect::<Vec<_>>()).prop_shuffle(),
        last in verdict(),
    ) {
        let mut before = ledger();
        let mut host = Host::default();
        // The last events were never sent.
        let sent = events.len().saturating_sub(lost);
        for (at, event) in events.iter().enumerate() {
            happen(&mut before, event);
            if at < sent {
                host.mend(&before);
            }
        }
        let Some(tip) = before.newest().map(str::to_owned) else { return Ok(()) };
        let ended_before: BTreeMap<_, _> = host
            .shows
            .iter()
            .filter(|(key, status)| key.0 != tip && key.1 == "stator/prod" && is_end(status))
            .map(|(key, status)| (key.clone(), status.clone()))
            .collect();

        let mut after = ledger();
        after.record_commit(&tip);
        for number in order {
            after.restore_statuses(&name(number), &host.of(&name(number)));
        }
        host.mend(&after);
        after.record_verdict(&tip, last);
        host.mend(&after);
        for (key, status) in &host.shows {
            prop_assert!(is_end(status), "{key:?} is still {status:?}");
        }
        for (key, status) in &ended_before {
            prop_assert_eq!(&host.shows[key], status);
        }
        prop_assert_eq!(after.newest(), Some(tip.as_str()));
    }

    #[test]
    fn a_late_answer_of_the_host_counts_as_if_it_had_come_at_once(events in events(), shown in verdict()) {
        let whole = CommitStatus {
            context: "stator/prod".into(),
            state: shown.state(),
            description: shown.sentence(),
            target_url: None,
        };
        // One commit, which nobody takes up again.
        let own = |event: &&Event| about(event) == 0 && !matches!(event, Event::Reopened(_));
        let (mut at_once, mut late) = (ledger(), ledger());
        for ledger in [&mut at_once, &mut late] {
            ledger.record_commit(&name(0));
            ledger.await_statuses(&name(0));
        }
        at_once.restore_statuses(&name(0), std::slice::from_ref(&whole));
        for event in events.iter().filter(own) {
            happen(&mut at_once, event);
            happen(&mut late, event);
        }
        late.restore_statuses(&name(0), &[whole]);
        prop_assert_eq!(late.desired_statuses(), at_once.desired_statuses());
    }

    #[test]
    fn the_first_140_characters_are_one_line_that_says_it(verdict in verdict()) {
        let sentence = verdict.sentence();
        prop_assert!(!sentence.chars().take(140).any(char::is_control));
        if let CommitVerdict::Invalid(first) = &verdict {
            let start: String = sentence.chars().take(140).collect();
            prop_assert!(start.contains(&first.file) && start.contains(&first.line.to_string()));
        }
    }
}
