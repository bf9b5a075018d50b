//! When syncs may run: windows, as a source and a policy of the administrators write them, and what they say of a moment.
//!
//! Time is passed in.

mod evaluation;
mod schedule;

pub use evaluation::{SyncWindowState, evaluate_window_sets, evaluate_windows};
pub use schedule::{CronSchedule, ScheduleError};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::sync::LazyLock;
use std::time::Duration;

/// How long something takes: whole numbers of hours, minutes, seconds and milliseconds, in this order, or one of them with
/// a fraction. Every reader of durations in the world of Kubernetes takes it.
pub const DURATION_PATTERN: &str =
    "^(([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?|[0-9]{1,9}[.][0-9]{1,9}(h|m|s|ms))$";
/// What an interval, a window or a timeout may be.
const MIN_DURATION: Duration = Duration::from_secs(1);
const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

/// How a duration is written.
static DURATION_REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(DURATION_PATTERN).ok());

/// A time span in which syncs may, or may not, run.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Whether the window allows or denies syncs.
    pub kind: WindowKind,
    /// When it opens, as a cron expression of five fields.
    #[schemars(length(min = 6, max = 512))]
    pub schedule: String,
    /// How long it stays open: `2h`.
    #[schemars(length(min = 2, max = 64))]
    pub duration: String,
    /// The time zone, by its IANA name. Defaults to UTC.
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
}

/// Whether a window allows or denies syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Syncs run only inside.
    Allow,
    /// Syncs do not run inside.
    Deny,
}

/// A time span in which syncs may, or may not, run, read.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncWindow {
    /// Which of both.
    pub kind: WindowKind,
    /// When it opens.
    pub opens: CronSchedule,
    /// How long it stays open.
    pub duration: Duration,
}

impl Window {
    /// The window, read; `None` where its schedule or its duration is not valid.
    pub fn read(&self) -> Option<SyncWindow> {
        let opens = CronSchedule::parse(&self.schedule, self.time_zone.as_deref()).ok()?;
        Some(SyncWindow { kind: self.kind, opens, duration: parse_duration(&self.duration)? })
    }
}

/// A duration from one second to a year, as [`DURATION_PATTERN`] has it.
pub fn parse_duration(text: &str) -> Option<Duration> {
    // jiff takes more: words for units, and signs. What a file may say, an object in a cluster may too, and the reverse.
    DURATION_REGEX.as_ref().filter(|form| form.is_match(text))?;
    let duration = Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok()?;
    (MIN_DURATION..=MAX_DURATION).contains(&duration).then_some(duration)
}
