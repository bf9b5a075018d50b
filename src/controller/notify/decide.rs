//! What of all that happens to a source is told to people, and when: no I/O, and no clock of its own.
//!
//! Three laws. A change is told once: the same failure of the same commit is not told again before the source was well. Nothing recovers that was not told to have failed. What is overtaken before it was told is not
//! told: a failure that may pass by itself is told when it has lasted for [`PATIENCE`], and not at all when it passed or
//! when a newer commit came.
//!
//! What an earlier process told is read from the source's own status, which says how it stood in the end: that is not told
//! again. A source of a file has none, so that what it stands like when the process starts counts as told.

use crate::controller::board::{Reason, Recalled};
use crate::controller::news::{News, What};
use jiff::{SignedDuration, Timestamp};
use stator_git::source::model_source::NotificationEvent;
use std::collections::{BTreeMap, BTreeSet};

/// How long a failure that may pass by itself is left to pass.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// How long after drift was told the next is told: two that fight over an object do so every few seconds.
pub const QUIET: SignedDuration = SignedDuration::from_mins(10);

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    /// What it is called.
    pub event: NotificationEvent,
    /// What else it is: whoever wants one of both is told once.
    pub also: Option<NotificationEvent>,
    /// What happened.
    pub news: News,
}

impl Tell {
    /// What it is called for somebody who wants these, if he wants it.
    pub fn wanted(&self, events: &BTreeSet<NotificationEvent>) -> Option<NotificationEvent> {
        [Some(self.event), self.also].into_iter().flatten().find(|event| events.contains(event))
    }
}

/// What failures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum About {
    /// A commit.
    Commit,
    /// The source itself, or its repository.
    Rest,
}

impl About {
    fn of(news: &News) -> Self {
        if news.revision.is_some() { Self::Commit } else { Self::Rest }
    }
}

/// What is remembered of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Nothing is known of the time before, and no commit has had its verdict since: what is heard is as it was.
    blind: bool,
    /// What was told to have failed, and not to be well again.
    failing: BTreeSet<About>,
    /// What was said since it was last well.
    said: BTreeSet<(What, Option<String>)>,
    /// What may pass by itself.
    waiting: BTreeMap<About, News>,
    /// The commit that was last told to be synced.
    synced: Option<String>,
    /// When drift was last told, and whether it is still there.
    drifted: Option<(Timestamp, bool)>,
}

impl Memory {
    /// Of a source, as it is known to have stood before this process.
    pub fn new(recalled: Option<&Recalled>) -> Self {
        let Some(recalled) = recalled else { return Self { blind: true, ..Self::default() } };
        // What may pass was perhaps never told, so nothing is said of its passing either.
        let known = |reason: &str| Reason::ALL.into_iter().find(|one| one.word() == reason && is_of_a_commit(*one));
        let reason =
            recalled.reason.as_deref().and_then(known).filter(|_| !recalled.ready && recalled.judged.is_some());
        let failing = reason.map(|_| About::Commit).into_iter().collect();
        let said = reason.map(|reason| (What::Failed(reason), recalled.judged.clone())).into_iter().collect();
        Self { failing, said, synced: recalled.applied.clone().filter(|_| recalled.ready), ..Self::default() }
    }

    /// Something happened.
    pub fn hear(&mut self, news: News) -> Option<Tell> {
        // What becomes of one model is told with its commit.
        if news.model.is_some() {
            return None;
        }
        let about = About::of(&news);
        let overtaken = |one: &News| one.revision.is_some() && one.revision != news.revision;
        if about == About::Commit && self.waiting.get(&about).is_some_and(overtaken) {
            self.waiting.remove(&about);
        }
        match news.what {
            What::Synced => {
                self.waiting.remove(&about);
                self.said.retain(|(_, revision)| revision.is_none());
                let failed = self.failing.remove(&about);
                let known = self.synced == news.revision && !failed;
                self.synced.clone_from(&news.revision);
                let silent = std::mem::take(&mut self.blind) || known;
                let (event, also) = match failed {
                    true => (NotificationEvent::Recovered, Some(NotificationEvent::Synced)),
                    false => (NotificationEvent::Synced, None),
                };
                (!silent).then_some(Tell { event, also, news })
            }
            What::Recovered => {
                self.waiting.remove(&about);
                self.said.retain(|(_, revision)| revision.is_some() != news.revision.is_some());
                self.failing.remove(&about).then_some(Tell { event: NotificationEvent::Recovered, also: None, news })
            }
            What::Failed(reason) if passes(reason) && !self.blind => {
                if !self.said.contains(&(news.what, news.revision.clone())) {
                    // It counts from when it began, whatever the words.
                    let at = self.waiting.get(&about).map_or(news.at, |first| first.at);
                    self.waiting.insert(about, News { at, ..news });
                }
                None
            }
            What::Failed(_) => self.fail(about, news),
            What::Held => {
                self.waiting.remove(&about);
                let new = self.said.insert((news.what, news.revision.clone()));
                let silent = std::mem::take(&mut self.blind) || !new;
                (!silent).then_some(Tell { event: NotificationEvent::Held, also: None, news })
            }
            What::Drifted => {
                let silent = match self.drifted {
                    Some((_, true)) => true,
                    Some((told, false)) => news.at.duration_since(told) < QUIET,
                    None => false,
                } || self.blind;
                let told = if silent { self.drifted.map_or(Timestamp::UNIX_EPOCH, |(told, _)| told) } else { news.at };
                self.drifted = Some((told, true));
                (!silent).then_some(Tell { event: NotificationEvent::Drifted, also: None, news })
            }
            What::Healed => {
                self.drifted = self.drifted.map(|(told, _)| (told, false));
                None
            }
            What::OutsideWindows | What::Waiting | What::Suspended | What::Resumed | What::Unheard => None,
        }
    }

    fn fail(&mut self, about: About, news: News) -> Option<Tell> {
        self.waiting.remove(&about);
        let new = self.said.insert((news.what, news.revision.clone()));
        if self.blind {
            self.blind = about == About::Rest;
            return None;
        }
        if !new {
            return None;
        }
        self.failing.insert(about);
        Some(Tell { event: NotificationEvent::Failed, also: None, news })
    }

    /// What has lasted too long by now. What it is not the `newest` commit's is left aside.
    pub fn tick(&mut self, now: Timestamp, newest: Option<&str>) -> Vec<Tell> {
        self.waiting.retain(|_, news| news.revision.as_deref().is_none_or(|commit| Some(commit) == newest));
        let late: Vec<About> = self
            .waiting
            .iter()
            .filter(|(_, news)| now.duration_since(news.at) >= PATIENCE)
            .map(|(about, _)| *about)
            .collect();
        let late = late.into_iter().filter_map(|about| Some((about, self.waiting.remove(&about)?)));
        let late: Vec<(About, News)> = late.collect();
        late.into_iter().filter_map(|(about, news)| self.fail(about, news)).collect()
    }

    /// When [`Memory::tick`] has something to say, if nothing happens before.
    pub fn due(&self) -> Option<Timestamp> {
        self.waiting.values().map(|news| news.at).min().and_then(|at| at.checked_add(PATIENCE).ok())
    }
}

/// Whether it is a commit that failed so, and will again.
fn is_of_a_commit(reason: Reason) -> bool {
    match reason {
        Reason::VerificationFailed | Reason::BuildFailed | Reason::Blocked | Reason::HealthCheckFailed => true,
        Reason::AccessDenied
        | Reason::SecretInvalid
        | Reason::ClusterUnreachable
        | Reason::InternalError
        | Reason::AuthenticationFailed
        | Reason::GitOperationFailed
        | Reason::ReconciliationFailed
        | Reason::Held => false,
    }
}

/// Whether a failure may pass without anybody doing anything.
fn passes(reason: Reason) -> bool {
    match reason {
        Reason::ClusterUnreachable
        | Reason::InternalError
        | Reason::GitOperationFailed
        | Reason::ReconciliationFailed => true,
        Reason::AccessDenied
        | Reason::SecretInvalid
        | Reason::AuthenticationFailed
        | Reason::VerificationFailed
        | Reason::BuildFailed
        | Reason::Held
        | Reason::Blocked
        | Reason::HealthCheckFailed => false,
    }
}
