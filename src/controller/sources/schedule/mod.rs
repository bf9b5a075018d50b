//! When something is due: cron expressions of five fields in a time zone, and intervals with jitter.
//!
//! The crate `cron` reads the fields. Which instants they mean is worked out here, because it leaves out what a clock
//! skips, and a window that keeps syncs away must not be lost to the night on which the clock is put forward.

use chrono::{DateTime, Datelike as _, Days, MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use cron::TimeUnitSpec as _;
use jiff::Timestamp;
use std::time::Duration;

/// Whichever years a rule of February 29 skips, within nine there is one.
const MAX_DAYS_AHEAD: u64 = 9 * 366;
/// How far a clock was ever put forward at once: Samoa left out a day in 2011.
const MAX_CLOCK_GAP_MINUTES: i64 = 25 * 60;

/// A cron expression in a time zone.
///
/// The five fields are those of POSIX `crontab`: minute, hour, day of the month, month, day of the week (0 and 7 are
/// Sunday), each `*`, a number, a range, a step, a list; months and weekdays by name too; and `@hourly`, `@daily`,
/// `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. Where both days are restricted, either will do.
///
/// A time that the clock shows twice counts twice; one that it skips counts as the first minute after.
#[derive(Clone, Debug)]
pub struct CronSchedule {
    text: String,
    zone: Tz,
    fields: cron::Schedule,
    /// Whether the day of the month, and that of the week, say anything.
    by_day: bool,
    by_weekday: bool,
}

/// Why an expression is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There are not five of them.
    #[error("`{text}` has {found} fields; a schedule has five: minute, hour, day of the month, month, day of the week")]
    Fields {
        /// As given.
        text: String,
        /// How many there are.
        found: usize,
    },
    /// One of the five.
    #[error("`{text}` is no {field}: write {allowed}")]
    Field {
        /// Which, in words.
        field: &'static str,
        /// As given.
        text: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A date that no year has.
    #[error("`{text}` never comes: no year has such a day")]
    Never {
        /// As given.
        text: String,
    },
    /// Not in the IANA database.
    #[error("`{zone}` is no time zone: write its IANA name, such as `Europe/Zurich` or `UTC`")]
    Zone {
        /// As given.
        zone: String,
    },
}

impl PartialEq for CronSchedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.zone == other.zone
    }
}

impl std::fmt::Display for CronSchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text, self.zone.name())
    }
}

/// The five fields: their names, and what each may be.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59, `*`, `*/5`, `10-20` or a list of these"),
    ("hour", "0 to 23, `*`, `*/2`, `8-18` or a list of these"),
    ("day of the month", "1 to 31, `*`, `*/2`, `1-7` or a list of these"),
    ("month", "1 to 12, `jan` to `dec`, `*`, `1-6` or a list of these"),
    ("day of the week", "0 to 7 (0 and 7 are Sunday), `sun` to `sat`, `*`, `mon-fri` or a list of these"),
];

const WEEKDAYS: [&str; 8] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl CronSchedule {
    /// Reads an expression; `zone` is an IANA name, UTC when there is none.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let zone = match zone {
            Some(name) => name.parse().map_err(|_| ScheduleError::Zone { zone: name.to_owned() })?,
            None => Tz::UTC,
        };
        let text = text.trim();
        let spelled = match text {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            spelled => spelled,
        };
        let fields: Vec<&str> = spelled.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(ScheduleError::Fields { text: text.to_owned(), found: fields.len() });
        };
        let weekdays = weekdays(weekday).unwrap_or_else(|| (*weekday).to_owned());
        let parts = [minute, hour, day, month, weekdays.as_str()];
        for (index, (part, (field, allowed))) in parts.iter().zip(FIELDS).enumerate() {
            let mut alone = ["*"; 5];
            if let Some(place) = alone.get_mut(index) {
                *place = part;
            }
            if part.contains('?') || compile(&alone).is_none() {
                let text = fields.get(index).copied().unwrap_or_default().to_owned();
                return Err(ScheduleError::Field { field, text, allowed });
            }
        }
        let never = || ScheduleError::Never { text: text.to_owned() };
        let schedule = Self {
            text: text.to_owned(),
            zone,
            fields: compile(&parts).ok_or_else(never)?,
            by_day: !is_every(day),
            by_weekday: !is_every(weekday),
        };
        if schedule.by_day && !schedule.by_weekday && !schedule.has_a_date() {
            return Err(never());
        }
        Ok(schedule)
    }

    /// The first time after `now`. `None` only at the end of the calendar.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let now = DateTime::<Utc>::from_timestamp(now.as_second(), 0)?;
        let today = now.with_timezone(&self.zone).date_naive();
        // A clock that is put back a day repeats it, so the search starts one before and looks one further.
        let mut day = today.checked_sub_days(Days::new(1))?;
        let mut found: Option<(DateTime<Utc>, NaiveDate)> = None;
        for _ in 0..MAX_DAYS_AHEAD {
            if found.is_some_and(|(_, on)| day.signed_duration_since(on).num_days() > 1) {
                break;
            }
            if self.is_day(day) {
                let earliest = self.times(day).filter(|at| *at > now).min();
                found = match (found, earliest) {
                    (Some(known), Some(at)) if at < known.0 => Some((at, known.1)),
                    (None, Some(at)) => Some((at, day)),
                    (known, _) => known,
                };
            }
            day = day.succ_opt()?;
        }
        Timestamp::from_second(found?.0.timestamp()).ok()
    }

    fn has_a_date(&self) -> bool {
        self.fields.months().iter().any(|month| {
            // 2024 was a leap year.
            self.fields.days_of_month().iter().any(|day| NaiveDate::from_ymd_opt(2024, month, day).is_some())
        })
    }

    fn is_day(&self, date: NaiveDate) -> bool {
        let day = self.fields.days_of_month().includes(date.day());
        let weekday = self.fields.days_of_week().includes(date.weekday().number_from_sunday());
        let either = match (self.by_day, self.by_weekday) {
            (true, true) => day || weekday,
            (_, _) => day && weekday,
        };
        either && self.fields.months().includes(date.month())
    }

    /// All instants that the fields mean on one day of the calendar.
    fn times(&self, day: NaiveDate) -> impl Iterator<Item = DateTime<Utc>> {
        let hours = self.fields.hours().iter();
        let local =
            hours.flat_map(move |hour| self.fields.minutes().iter().filter_map(move |m| day.and_hms_opt(hour, m, 0)));
        local.flat_map(|local| self.instants(local))
    }

    /// When the clock shows this time: once, twice, or at the end of what it skips.
    fn instants(&self, local: NaiveDateTime) -> Vec<DateTime<Utc>> {
        for minutes in 0..=MAX_CLOCK_GAP_MINUTES {
            let Some(shifted) = local.checked_add_signed(TimeDelta::minutes(minutes)) else { return Vec::new() };
            match self.zone.from_local_datetime(&shifted) {
                MappedLocalTime::Single(at) => return vec![at.to_utc()],
                MappedLocalTime::Ambiguous(first, _) if minutes > 0 => return vec![first.to_utc()],
                MappedLocalTime::Ambiguous(first, second) => return vec![first.to_utc(), second.to_utc()],
                MappedLocalTime::None => {}
            }
        }
        Vec::new()
    }
}

fn is_every(field: &str) -> bool {
    matches!(field, "*" | "*/1")
}

fn compile(parts: &[&str; 5]) -> Option<cron::Schedule> {
    format!("0 {}", parts.join(" ")).parse().ok()
}

/// Weekdays by name, as the crate numbers them from 1: `0,5-7` becomes `sun,fri,sat,sun`. What is no number stays as it
/// is; `None` for a range that leads nowhere.
fn weekdays(field: &str) -> Option<String> {
    let number = |text: &str| -> Option<usize> {
        text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten().filter(|day| *day <= 7)
    };
    let item = |item: &str| -> Option<String> {
        if !item.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(item.to_owned());
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            // `2/2` goes on to Saturday.
            None => (number(range)?, if step.is_some() { 6.max(number(range)?) } else { number(range)? }),
        };
        if first > last {
            return None;
        }
        let days = WEEKDAYS.iter().take(last + 1).skip(first).step_by(step.unwrap_or(1));
        Some(days.copied().collect::<Vec<_>>().join(","))
    };
    field.split(',').map(item).collect::<Option<Vec<_>>>().map(|items| items.join(","))
}

/// An interval, shortened by up to a tenth: sources of one age would all ask at once otherwise. Never longer, so that a
/// webhook that is lost costs no more than the interval.
pub fn jittered(interval: Duration) -> Duration {
    // A random uid is all the chance that is needed.
    let chance = u32::try_from(uuid::Uuid::new_v4().as_u128() % 1000).unwrap_or_default();
    interval.saturating_sub(interval / 10_000 * chance)
}

#[cfg(test)]
mod tests;
