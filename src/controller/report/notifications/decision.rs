//! Which events of a source are sent to people, and when: no I/O, and no clock.
//!
//! Three laws. A change is reported once: the same failure of the same commit is not reported again before the source
//! was healthy. No recovery is reported of what was not reported to have failed. What is overtaken before it was reported
//! is not reported: a failure that may pass by itself is reported when it has lasted for [`TRANSIENT_FAILURE_GRACE`], and
//! not at all when it passed or when a newer commit came.
//!
//! What an earlier process reported is read from the source's own status, which has its last state: that is not reported
//! again. A source of a file has none, so that its state when the process starts counts as reported.

use crate::controller::sources::registry::source_events::{SourceEvent, SourceEventKind};
use crate::controller::sources::registry::{PreviousState, ProblemReason};
use jiff::{SignedDuration, Timestamp};
use stator_git::source::model_source::NotificationEvent;
use std::collections::{BTreeMap, BTreeSet};

/// How long a failure that may pass by itself is left to pass.
pub const TRANSIENT_FAILURE_GRACE: SignedDuration = SignedDuration::from_mins(5);
/// How long after one drift was reported the next is reported: two that fight over an object do so every few seconds.
pub const DRIFT_REPEAT_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// What is to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationDecision {
    /// What it is called.
    pub event: NotificationEvent,
    /// What else it is: a receiver of either gets it once.
    pub also: Option<NotificationEvent>,
    /// What happened.
    pub source_event: SourceEvent,
}

impl NotificationDecision {
    fn new(event: NotificationEvent, source_event: SourceEvent) -> Self {
        Self { event, also: None, source_event }
    }

    /// What it is called for somebody who wants these, if he wants it.
    pub fn matching_event(&self, events: &BTreeSet<NotificationEvent>) -> Option<NotificationEvent> {
        [Some(self.event), self.also].into_iter().flatten().find(|event| events.contains(event))
    }
}

/// What failures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum FailureSubject {
    /// A commit.
    Commit,
    /// The source itself, or its repository.
    Source,
}

impl FailureSubject {
    fn of(source_event: &SourceEvent) -> Self {
        if source_event.revision.is_some() { Self::Commit } else { Self::Source }
    }
}

/// What is remembered of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotificationHistory {
    /// Nothing is known of the time before, and no commit has had its verdict since: events are of the state as it was.
    is_unprimed: bool,
    /// Reported failures without a reported recovery.
    failing: BTreeSet<FailureSubject>,
    /// What was reported since it was last well.
    notified: BTreeSet<(SourceEventKind, Option<String>)>,
    /// What may pass by itself.
    pending: BTreeMap<FailureSubject, SourceEvent>,
    /// The commit that was last reported as synced.
    synced: Option<String>,
    /// When drift was last reported, and whether it is still there.
    drifted: Option<(Timestamp, bool)>,
}

impl NotificationHistory {
    /// Of a source, as it is known to have stood before this process.
    pub fn new(recalled: Option<&PreviousState>) -> Self {
        let Some(recalled) = recalled else { return Self { is_unprimed: true, ..Self::default() } };
        let shown = recalled.reason.as_deref().filter(|_| !recalled.ready && recalled.judged_commit.is_some());
        let reason = ProblemReason::ALL.iter().copied().find(|one| Some(one.as_str()) == shown);
        // A failure that may pass was perhaps never reported, so its end is not reported either.
        let failing =
            reason.filter(|one| is_commit_failure(*one)).map(|_| FailureSubject::Commit).into_iter().collect();
        let notified = reason
            .map(|reason| (SourceEventKind::Failed(reason), recalled.judged_commit.clone()))
            .into_iter()
            .collect();
        Self { failing, notified, synced: recalled.applied.clone().filter(|_| recalled.ready), ..Self::default() }
    }

    /// Something happened.
    pub fn observe_event(&mut self, source_event: SourceEvent) -> Option<NotificationDecision> {
        // The result of one model is reported with its commit.
        if source_event.model.is_some() {
            return None;
        }
        let about = FailureSubject::of(&source_event);
        let overtaken = |one: &SourceEvent| one.revision.is_some() && one.revision != source_event.revision;
        if about == FailureSubject::Commit && self.pending.get(&about).is_some_and(overtaken) {
            self.pending.remove(&about);
        }
        match source_event.kind {
            SourceEventKind::Synced => {
                self.pending.remove(&about);
                self.notified.retain(|(_, revision)| revision.is_none());
                let failed = self.failing.remove(&about);
                let known = self.synced == source_event.revision && !failed;
                self.synced.clone_from(&source_event.revision);
                let silent = std::mem::take(&mut self.is_unprimed) || known;
                let (event, also) = match failed {
                    true => (NotificationEvent::Recovered, Some(NotificationEvent::Synced)),
                    false => (NotificationEvent::Synced, None),
                };
                (!silent).then_some(NotificationDecision { event, also, source_event })
            }
            SourceEventKind::Recovered => {
                self.pending.remove(&about);
                self.notified.retain(|(_, revision)| revision.is_some() != source_event.revision.is_some());
                self.failing
                    .remove(&about)
                    .then_some(NotificationDecision::new(NotificationEvent::Recovered, source_event))
            }
            SourceEventKind::Failed(reason) if is_transient_failure(reason) && !self.is_unprimed => {
                if !self.notified.contains(&(source_event.kind, source_event.revision.clone())) {
                    // It counts from when it began, whatever the words.
                    let at = self.pending.get(&about).map_or(source_event.at, |first| first.at);
                    self.pending.insert(about, SourceEvent { at, ..source_event });
                }
                None
            }
            SourceEventKind::Failed(_) => self.record_failure(about, source_event),
            SourceEventKind::Held => {
                self.pending.remove(&about);
                let new = self.notified.insert((source_event.kind, source_event.revision.clone()));
                let silent = std::mem::take(&mut self.is_unprimed) || !new;
                (!silent).then_some(NotificationDecision::new(NotificationEvent::Held, source_event))
            }
            SourceEventKind::Drifted => {
                let silent = match self.drifted {
                    Some((_, true)) => true,
                    Some((last, false)) => source_event.at.duration_since(last) < DRIFT_REPEAT_INTERVAL,
                    None => false,
                } || self.is_unprimed;
                let last =
                    if silent { self.drifted.map_or(Timestamp::UNIX_EPOCH, |(last, _)| last) } else { source_event.at };
                self.drifted = Some((last, true));
                (!silent).then_some(NotificationDecision::new(NotificationEvent::Drifted, source_event))
            }
            SourceEventKind::Healed => {
                self.drifted = self.drifted.map(|(last, _)| (last, false));
                None
            }
            SourceEventKind::Approved
            | SourceEventKind::OutsideWindows
            | SourceEventKind::WindowClosed
            | SourceEventKind::Suspended
            | SourceEventKind::Resumed
            | SourceEventKind::RequestRejected => None,
        }
    }

    fn record_failure(&mut self, about: FailureSubject, source_event: SourceEvent) -> Option<NotificationDecision> {
        self.pending.remove(&about);
        let new = self.notified.insert((source_event.kind, source_event.revision.clone()));
        if self.is_unprimed {
            self.is_unprimed = about == FailureSubject::Source;
            return None;
        }
        if !new {
            return None;
        }
        self.failing.insert(about);
        Some(NotificationDecision::new(NotificationEvent::Failed, source_event))
    }

    /// What has lasted too long by now. What it is not the `newest` commit's is left aside.
    pub fn take_overdue(&mut self, now: Timestamp, newest: Option<&str>) -> Vec<NotificationDecision> {
        self.pending.retain(|_, one| one.revision.as_deref().is_none_or(|commit| Some(commit) == newest));
        let late: Vec<FailureSubject> = self
            .pending
            .iter()
            .filter(|(_, one)| now.duration_since(one.at) >= TRANSIENT_FAILURE_GRACE)
            .map(|(about, _)| *about)
            .collect();
        let late = late.into_iter().filter_map(|about| Some((about, self.pending.remove(&about)?)));
        let late: Vec<(FailureSubject, SourceEvent)> = late.collect();
        late.into_iter().filter_map(|(about, source_event)| self.record_failure(about, source_event)).collect()
    }

    /// When [`NotificationHistory::take_overdue`] has something to report, if nothing happens before.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.pending.values().map(|one| one.at).min().and_then(|at| at.checked_add(TRANSIENT_FAILURE_GRACE).ok())
    }
}

/// Whether it is a commit that failed so, and will again.
fn is_commit_failure(reason: ProblemReason) -> bool {
    match reason {
        ProblemReason::VerificationFailed
        | ProblemReason::Trial
        | ProblemReason::BuildFailed
        | ProblemReason::Blocked
        | ProblemReason::HealthCheckFailed => true,
        ProblemReason::AccessDenied
        | ProblemReason::SecretInvalid
        | ProblemReason::ClusterUnreachable
        | ProblemReason::InternalError
        | ProblemReason::AuthenticationFailed
        | ProblemReason::GitOperationFailed
        | ProblemReason::ReconciliationFailed
        | ProblemReason::Held => false,
    }
}

/// Whether a failure may pass without anybody doing anything.
fn is_transient_failure(reason: ProblemReason) -> bool {
    match reason {
        ProblemReason::ClusterUnreachable
        | ProblemReason::InternalError
        | ProblemReason::GitOperationFailed
        | ProblemReason::ReconciliationFailed => true,
        ProblemReason::AccessDenied
        | ProblemReason::SecretInvalid
        | ProblemReason::AuthenticationFailed
        | ProblemReason::VerificationFailed
        | ProblemReason::Trial
        | ProblemReason::BuildFailed
        | ProblemReason::Held
        | ProblemReason::Blocked
        | ProblemReason::HealthCheckFailed => false,
    }
}
