//! What is reported of a commit, and in which words. The most important comes first: hosts cut what is long.

use serde_json::Value;
use stator_core::commit::short_commit;
use stator_core::mask;
use stator_core::outcome::{OutcomeClass, SyncOutcome};
use stator_git::forge::StatusState;
use stator_model::plan::HoldKind;
use stator_model::present::{escape, pluralize};
use std::fmt::Display;

/// Characters of one message of others (a finding, a pod's reason) inside a sentence.
const MAX_MESSAGE_CHARS: usize = 200;

/// How a commit is synced while no window is open.
pub const OUTSIDE_WINDOWS: &str = "outside the sync windows, as requested";

/// Where a commit is on its way. All of these are `pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CommitStage {
    /// It was seen, and nothing is done yet.
    #[default]
    Queued,
    /// It is fetched, checked and rendered.
    Reading,
    /// It is compared with what is live.
    Planning,
    /// Its changes are written.
    Applying {
        /// Models of which something changes.
        models: usize,
    },
    /// Its models are waited for.
    Waiting {
        /// How many are healthy.
        healthy: usize,
        /// How many there are.
        models: usize,
        /// The first that is not, by name.
        first: Option<String>,
    },
    /// No sync may run now.
    WindowClosed {
        /// When one may, as people read it: `2026-11-21 20:00 Europe/Zurich`. `None` when no window opens again.
        opens: Option<String>,
    },
    /// The source is suspended.
    Suspended,
}

/// The first of some findings, as it is named in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstFinding {
    /// The file, from the repository's root.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// How many more findings there are.
    pub more: usize,
}

impl FirstFinding {
    /// The first of these findings that is an error, and the number of the other errors. `None` without errors.
    pub fn from_findings(findings: &[stator_core::finding::Finding]) -> Option<Self> {
        let mut errors = findings.iter().filter(|finding| finding.is_error());
        let first = errors.next()?;
        Some(Self {
            file: first.location.file.clone(),
            line: first.location.line,
            message: first.message.clone(),
            more: errors.count(),
        })
    }

    /// File, line, how many more there are, and what is wrong.
    pub fn sentence(&self) -> String {
        let place = match (self.file.as_str(), self.line) {
            ("", _) => String::new(),
            (file, 0) => format!("{}: ", escape::line(file)),
            (file, line) => format!("{}:{line}: ", escape::line(file)),
        };
        // The count of the others goes before the message: it is the message that may be cut.
        let more = if self.more == 0 { String::new() } else { format!("(and {} more) ", self.more) };
        format!("{place}{more}{}", sanitize_message(&self.message))
    }
}

/// What holds a commit back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldCause {
    /// A guard, which an approval releases.
    Guard(HoldKind),
    /// An object that cannot be touched, whatever is approved.
    BlockedObject,
}

impl HoldCause {
    /// The word that a commit's status has for it: the guard's, as `--allow` takes it, or `blocked`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guard(guard) => guard.as_str(),
            Self::BlockedObject => "blocked",
        }
    }
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitVerdict {
    /// It is applied, and all of its models are healthy at the generation that was applied.
    Healthy {
        /// How many models there are.
        models: usize,
        /// How many of them were written to.
        changed: usize,
    },
    /// It has no model for this environment.
    NoModels,
    /// A newer commit came before this one had ended.
    Superseded {
        /// The newer one.
        by: String,
    },
    /// Its files have errors. What has none was synced all the same.
    Invalid(FirstFinding),
    /// Its models do not become healthy.
    Unhealthy {
        /// The first of them by name.
        model: String,
        /// Its health and why, in a sentence.
        why: String,
        /// How many others there are.
        more: usize,
    },
    /// A guard holds its plan back, or an object cannot be touched.
    Held {
        /// What holds it back.
        by: HoldCause,
        /// What it holds back, with the numbers.
        message: String,
    },
    /// Its signature is missing or not one of those that are trusted.
    Unsigned {
        /// What was found, in a sentence.
        message: String,
    },
    /// stator could not do its work: the repository, the cluster, the network or stator itself is at fault.
    Error {
        /// What happened, in a sentence.
        message: String,
    },
}

impl CommitStage {
    /// What people read.
    pub fn sentence(&self) -> String {
        match self {
            Self::Queued => "queued".to_owned(),
            Self::Reading => "reading and rendering".to_owned(),
            Self::Planning => "planning".to_owned(),
            Self::Applying { models } => format!("applying {}", pluralize(*models, "model", "models")),
            Self::Waiting { healthy, models, first } => {
                let waits = first.as_ref().map(|name| format!(", waiting for {}", escape::line(name)));
                format!("{healthy} of {} healthy{}", pluralize(*models, "model", "models"), waits.unwrap_or_default())
            }
            Self::WindowClosed { opens: Some(opens) } => {
                format!("waiting for the sync window at {}; the previous commit keeps running", escape::line(opens))
            }
            Self::WindowClosed { opens: None } => "waiting: no sync window opens again".to_owned(),
            Self::Suspended => "waiting: the source is suspended".to_owned(),
        }
    }
}

impl CommitVerdict {
    /// The outcome of the commit, without its wording.
    pub fn outcome(&self) -> SyncOutcome {
        match self {
            Self::Healthy { .. } | Self::NoModels => SyncOutcome::Healthy,
            Self::Superseded { .. } => SyncOutcome::Superseded,
            Self::Invalid(_) => SyncOutcome::Invalid,
            Self::Unhealthy { .. } => SyncOutcome::Unhealthy,
            Self::Held { by: HoldCause::BlockedObject, message: _ } => SyncOutcome::Blocked,
            Self::Held { .. } => SyncOutcome::Held,
            Self::Unsigned { .. } => SyncOutcome::Unsigned,
            Self::Error { .. } => SyncOutcome::Failed,
        }
    }

    /// Which state a host shows.
    pub fn state(&self) -> StatusState {
        status_state(self.outcome())
    }

    /// Whether a host shows a success.
    pub fn is_success(&self) -> bool {
        self.state() == StatusState::Success
    }

    /// What people read.
    pub fn sentence(&self) -> String {
        match self {
            Self::Healthy { models, changed: 0 } => {
                format!("{} healthy, nothing to change", pluralize(*models, "model", "models"))
            }
            Self::Healthy { models, changed } => {
                format!("{} healthy, {changed} changed", pluralize(*models, "model", "models"))
            }
            Self::NoModels => "nothing to sync: no model for this environment".to_owned(),
            Self::Superseded { by } => format!("superseded by {}", commit_label(by)),
            Self::Invalid(first) => first.sentence(),
            Self::Unhealthy { model, why, more } => {
                let more = if *more == 0 { String::new() } else { format!(" (and {more} more)") };
                format!("{}{more}: {}", escape::line(model), sanitize_message(why))
            }
            Self::Held { by, message } => format!("held back ({}): {}", by.as_str(), sanitize_message(message)),
            Self::Unsigned { message } => format!("signature refused: {}", sanitize_message(message)),
            Self::Error { message } => format!("not synced: {}", sanitize_message(message)),
        }
    }
}

/// The state that a git host shows. A commit that was superseded is no failure of anybody.
fn status_state(outcome: SyncOutcome) -> StatusState {
    match outcome.class() {
        OutcomeClass::Success if outcome == SyncOutcome::Deleting => StatusState::Pending,
        OutcomeClass::Success | OutcomeClass::Cancelled => StatusState::Success,
        OutcomeClass::Failure => StatusState::Failure,
        OutcomeClass::Error => StatusState::Error,
    }
}

/// How one model of a commit ended, for a status of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelVerdict {
    /// How.
    pub outcome: SyncOutcome,
    /// Why, in a sentence; empty where it ended well.
    pub message: String,
}

impl ModelVerdict {
    /// Of a model that ended well, or is gone.
    pub fn success(outcome: SyncOutcome) -> Self {
        Self { outcome, message: String::new() }
    }

    /// Which state a host shows.
    pub fn state(&self) -> StatusState {
        status_state(self.outcome)
    }

    /// What people read.
    pub fn sentence(&self) -> String {
        let message = sanitize_message(&self.message);
        match self.outcome {
            SyncOutcome::Synced | SyncOutcome::Unchanged | SyncOutcome::Healthy | SyncOutcome::Deferred => {
                "healthy".to_owned()
            }
            SyncOutcome::Deleting => format!("being deleted: {message}"),
            SyncOutcome::Deleted => "deleted".to_owned(),
            // The sentence of a finding is made safe where it is put together.
            SyncOutcome::Invalid => self.message.clone(),
            SyncOutcome::Unhealthy | SyncOutcome::Unsigned => message,
            SyncOutcome::Held | SyncOutcome::Blocked => format!("held back: {message}"),
            SyncOutcome::Cancelled | SyncOutcome::Superseded => format!("cancelled: {message}"),
            SyncOutcome::Failed => format!("not synced: {message}"),
        }
    }
}

/// The first seven characters of a commit.
pub fn commit_label(commit: &str) -> String {
    escape::line(short_commit(commit))
}

/// A sentence about a commit, with the commit before it: `3f2c1ab: 2 models healthy`.
pub fn prefix_commit(commit: &str, sentence: impl Display) -> String {
    format!("{}: {sentence}", commit_label(commit))
}

/// A window of the source itself, or of an administrators' policy.
pub fn window_label(policy: Option<&str>) -> String {
    policy.map_or_else(|| "sync window".to_owned(), |policy| format!("sync window of fleet policy `{policy}`"))
}

/// A text in which what looks like a secret is hidden.
pub fn redact_text(text: &str) -> String {
    let mut value = Value::String(text.to_owned());
    mask::redact_value(&mut value);
    value.as_str().unwrap_or_default().to_owned()
}

/// A message of others in one line without control characters, with what looks like a secret hidden, and not endless.
fn sanitize_message(message: &str) -> String {
    let text = escape::line(redact_text(message).trim());
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
