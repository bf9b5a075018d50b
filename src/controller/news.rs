//! What happens to sources, as people are told of it: made of how a source stood before and how it stands now, so that
//! nothing is told twice, and nothing that did not change.
//!
//! Events of the cluster and notifications are both made of these. [`Board::listen`](super::board::Board::listen) hears
//! of them, in order, however fast one follows the other.

use super::board::{Part, Phase, Reason, Standing};
use super::sources::SourceKey;
use super::verdicts::{ModelVerdict, short};
use jiff::Timestamp;
use stator_git::source::model_source::NotificationEvent;
use stator_model::present::count;

/// Something that happened to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The source.
    pub source: SourceKey,
    /// What.
    pub what: What,
    /// The model that it is about, where it is about one alone.
    pub model: Option<ModelName>,
    /// The commit that it is about, in full, where it is about one.
    pub revision: Option<String>,
    /// In a sentence, without a secret; with what to do about it where something is to be done.
    pub message: String,
    /// When, by the wall clock.
    pub at: Timestamp,
}

/// A model of a source, as its record is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The namespace of its record.
    pub namespace: String,
    /// Its name, and its record's.
    pub name: String,
}

impl News {
    /// What `spec.notifications` calls it; none where it is for events alone, as what is about one model is.
    pub fn notification(&self) -> Option<NotificationEvent> {
        self.model.is_none().then(|| self.what.notification()).flatten()
    }
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A commit was synced, and its models are healthy.
    Synced,
    /// A look, a commit, or a model of it failed.
    Failed(Reason),
    /// What had failed is well again.
    Recovered,
    /// A guard holds a plan back until somebody lets it go.
    Held,
    /// Live objects were changed by somebody else.
    Drifted,
    /// They are as they should be again.
    Healed,
    /// A commit is synced although no window is open, as somebody asked for it.
    OutsideWindows,
    /// No window is open, and a commit waits for one.
    Waiting,
    /// The source is suspended.
    Suspended,
    /// It is suspended no longer.
    Resumed,
    /// Somebody asked for something that cannot be done.
    Unheard,
}

impl What {
    /// In one word in CamelCase: the reason of an event.
    pub fn word(self) -> &'static str {
        match self {
            Self::Synced => "Synced",
            Self::Failed(reason) => reason.word(),
            Self::Recovered => "Recovered",
            Self::Held => "Held",
            Self::Drifted => "Drifted",
            Self::Healed => "Healed",
            Self::OutsideWindows => "OutsideWindows",
            Self::Waiting => "WindowClosed",
            Self::Suspended => "Suspended",
            Self::Resumed => "Resumed",
            Self::Unheard => "RequestNotMet",
        }
    }

    /// Whether somebody should look.
    pub fn is_warning(self) -> bool {
        match self {
            Self::Failed(_) | Self::Held | Self::Drifted | Self::OutsideWindows | Self::Unheard => true,
            Self::Synced | Self::Recovered | Self::Healed | Self::Waiting | Self::Suspended | Self::Resumed => false,
        }
    }

    /// What `spec.notifications` calls it; none where it is for events alone.
    fn notification(self) -> Option<NotificationEvent> {
        match self {
            Self::Synced => Some(NotificationEvent::Synced),
            Self::Failed(_) => Some(NotificationEvent::Failed),
            Self::Recovered => Some(NotificationEvent::Recovered),
            Self::Held => Some(NotificationEvent::Held),
            Self::Drifted => Some(NotificationEvent::Drifted),
            Self::Healed | Self::OutsideWindows | Self::Waiting | Self::Suspended | Self::Resumed | Self::Unheard => {
                None
            }
        }
    }
}

/// What happened, if anything, between two moments of one source, in the order in which people want to read it.
pub fn between(source: &SourceKey, before: &Standing, now: &Standing) -> Vec<News> {
    let mut all: Vec<(What, Option<String>, String)> = Vec::new();
    let newest = now.seen.as_ref().map(|seen| seen.commit.clone());
    match (before.phase == Phase::Suspended, now.phase == Phase::Suspended) {
        (false, true)
            if before.recalled.as_ref().is_none_or(|recalled| recalled.reason.as_deref() != Some("Suspended")) =>
        {
            all.push((What::Suspended, None, "nothing is synced until the source is resumed".to_owned()));
        }
        (true, false) => all.push((What::Resumed, None, "syncs go on with the newest commit".to_owned())),
        (false | true, true) | (false, false) => {}
    }
    if now.outside_windows.is_some() && before.outside_windows != now.outside_windows {
        let of = now.outside_windows.clone().unwrap_or_default();
        let message = format!("{} is synced although no window is open, as somebody asked for it", short(&of));
        all.push((What::OutsideWindows, Some(of), message));
    }
    let closed = before.phase != Phase::Window || before.seen != now.seen;
    if now.phase == Phase::Window && closed && !is_applied(now) {
        let opens = now.opens.map_or_else(|| "none opens again".to_owned(), |at| format!("the next one opens at {at}"));
        let what = newest.as_deref().map_or_else(|| "the newest commit".to_owned(), short);
        all.push((What::Waiting, newest.clone(), format!("{what} waits for a sync window: {opens}")));
    }
    if now.counts.drifted > before.counts.drifted {
        let models = count(now.counts.drifted, "model", "models");
        all.push((What::Drifted, newest.clone(), format!("live objects of {models} were changed by somebody else")));
    }
    all.extend(judged(before, now));
    all.extend(looked(before, now));
    if before.counts.drifted > 0 && now.counts.drifted == 0 && before.seen == now.seen && now.problems.is_empty() {
        all.push((What::Healed, newest.clone(), "live objects are as the commit says again".to_owned()));
    }
    for sentence in now.unheard.difference(&before.unheard) {
        all.push((What::Unheard, newest.clone(), sentence.clone()));
    }
    let at = Timestamp::now();
    let of = |(what, revision, message)| News { source: source.clone(), what, model: None, revision, message, at };
    all.into_iter().map(of).collect()
}

/// What is to be told of one model of a commit.
pub(super) fn of_model(source: &SourceKey, revision: &str, model: ModelName, verdict: &ModelVerdict) -> Option<News> {
    let what = match verdict {
        ModelVerdict::Healthy => What::Synced,
        // Its record is gone, and with it whoever would read of it.
        ModelVerdict::Removed => return None,
        ModelVerdict::Unhealthy { .. } => What::Failed(Reason::HealthCheckFailed),
        ModelVerdict::Invalid(_) => What::Failed(Reason::BuildFailed),
        ModelVerdict::Held { .. } => What::Held,
        ModelVerdict::Fault { .. } => What::Failed(Reason::ReconciliationFailed),
    };
    let message = format!("{}: {}", short(revision), verdict.sentence());
    let (source, revision, model) = (source.clone(), Some(revision.to_owned()), Some(model));
    Some(News { source, what, model, revision, message, at: Timestamp::now() })
}

fn is_applied(standing: &Standing) -> bool {
    let commit = |one: &Option<super::board::Revision>| one.as_ref().map(|one| one.commit.clone());
    standing.seen.is_some() && commit(&standing.seen) == commit(&standing.applied)
}

/// A verdict that is new.
fn judged(before: &Standing, now: &Standing) -> Vec<(What, Option<String>, String)> {
    let Some(judged) = now.verdict.as_ref() else { return Vec::new() };
    let last = before.verdict.as_ref();
    let reason = Reason::of(&judged.verdict);
    let known = last.is_some_and(|last| last.revision == judged.revision && same(&last.verdict, &judged.verdict));
    if known {
        return Vec::new();
    }
    let recalled = before.recalled.as_ref().filter(|_| last.is_none());
    let told = recalled.is_some_and(|recalled| match reason {
        None => recalled.ready && recalled.applied.as_ref() == Some(&judged.revision),
        Some(reason) => {
            recalled.judged.as_ref() == Some(&judged.revision) && recalled.reason.as_deref() == Some(reason.word())
        }
    });
    if told {
        return Vec::new();
    }
    let revision = Some(judged.revision.clone());
    let sentence = format!("{}: {}", short(&judged.revision), judged.verdict.sentence());
    let help = now.problems.get(&Part::Commit).map(|problem| problem.help.clone()).filter(|help| !help.is_empty());
    let message = help.map_or_else(|| sentence.clone(), |help| format!("{sentence}; {help}"));
    match reason {
        Some(Reason::Held) => vec![(What::Held, revision, message)],
        Some(reason) => vec![(What::Failed(reason), revision, message)],
        None => {
            let was_bad = last.map_or_else(
                || recalled.is_some_and(|recalled| !recalled.ready && recalled.judged.is_some()),
                |last| Reason::of(&last.verdict).is_some_and(|reason| reason != Reason::Held),
            );
            let same_commit = last.is_some_and(|last| last.revision == judged.revision);
            let was_held = last.is_some_and(|last| Reason::of(&last.verdict) == Some(Reason::Held));
            // The first success of a commit is that it was synced; what comes after a failure of it is a recovery too.
            let mut all = Vec::new();
            if !same_commit || was_held || was_bad {
                all.push((What::Synced, revision.clone(), sentence.clone()));
            }
            if was_bad {
                all.push((What::Recovered, revision, sentence));
            }
            all
        }
    }
}

/// Whether two verdicts are one to people: numbers that move while a model starts are no news.
fn same(one: &super::verdicts::Verdict, other: &super::verdicts::Verdict) -> bool {
    let is = Reason::of(one);
    match is {
        None => Reason::of(other).is_none(),
        Some(Reason::HealthCheckFailed | Reason::ReconciliationFailed) => is == Reason::of(other),
        Some(_) => one == other,
    }
}

/// Looks that fail in a row before it is told: hosts hiccup, and nobody wants to know.
const HICCUPS: u32 = 3;

/// A look, or the source itself, that fails, or works again.
fn looked(before: &Standing, now: &Standing) -> Vec<(What, Option<String>, String)> {
    let mut all = Vec::new();
    for part in [Part::Source, Part::Repository] {
        let worth = |standing: &Standing| {
            let problem = standing.problems.get(&part)?;
            let hiccup = part == Part::Repository && problem.may_pass && standing.failures < HICCUPS;
            (!hiccup).then(|| problem.clone())
        };
        let recalled = before.recalled.as_ref().and_then(|recalled| recalled.reason.clone());
        match (worth(before), worth(now)) {
            (None, Some(problem)) if !before.looked && recalled.as_deref() == Some(problem.reason.word()) => {}
            (None, Some(problem)) => all.push((What::Failed(problem.reason), None, problem.to_string())),
            (Some(last), Some(problem)) if last.reason != problem.reason => {
                all.push((What::Failed(problem.reason), None, problem.to_string()));
            }
            (Some(_), None) if part == Part::Repository => {
                all.push((What::Recovered, None, "the repository can be looked at again".to_owned()));
            }
            (Some(_), None) => all.push((What::Recovered, None, "the source works again".to_owned())),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    all
}
