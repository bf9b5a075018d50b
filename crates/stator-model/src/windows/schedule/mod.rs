//! When something is due: cron expressions of five fields in a time zone.
//!
//! The crate `cron` reads the fields. Which instants they mean is worked out here, because it leaves out what a clock
//! skips, and a window that keeps syncs away must not be lost to the night on which the clock is put forward.

use cron::TimeUnitSpec as _;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};
use std::sync::LazyLock;

/// Whichever years a rule of February 29 skips, within nine there is one.
const MAX_DAYS_AHEAD: usize = 9 * 366;

/// The time zones that come with stator: the same on every machine, also on one that has none of its own.
static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

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
    zone: TimeZone,
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
    #[error("`{text}` is not a valid {field}: write {allowed}")]
    Field {
        /// Which, in words.
        field: &'static str,
        /// As given.
        text: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A date that no year has.
    #[error("`{text}` never matches: no year has such a day")]
    Never {
        /// As given.
        text: String,
    },
    /// Not in the IANA database.
    #[error("`{zone}` is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC`")]
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
        write!(f, "{} ({})", self.text, self.zone.iana_name().unwrap_or("UTC"))
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
            Some(name) => TIME_ZONES.get(name).map_err(|_| ScheduleError::Zone { zone: name.to_owned() })?,
            None => TimeZone::UTC,
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
        // Schedules have minutes, so the first that can follow is the next whole one.
        let from = Timestamp::from_second(now.as_second()).ok()?.checked_add(1.second()).ok()?;
        let mut offset = self.zone.to_offset(from);
        let mut local = offset.to_datetime(from);
        // Between two changes of the clock, one offset leads from what it shows to the instant.
        for change in self.zone.following(from) {
            let next = self.next_local(local)?;
            let ends = offset.to_datetime(change.timestamp());
            if next < ends {
                return offset.to_timestamp(next).ok();
            }
            let begins = change.offset().to_datetime(change.timestamp());
            // It skips this time, which then counts as the first minute after.
            if next < begins {
                return Some(change.timestamp());
            }
            (offset, local) = (change.offset(), begins);
        }
        offset.to_timestamp(self.next_local(local)?).ok()
    }

    /// Whether every minute of every day is meant.
    pub(super) fn is_every_minute(&self) -> bool {
        let days_and_months = !self.by_day && !self.by_weekday && self.fields.months().count() == 12;
        days_and_months && self.fields.hours().count() == 24 && self.fields.minutes().count() == 60
    }

    /// The first time from `from` on, itself included, that the fields mean, by a clock that is never changed.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        let today = from.date();
        if self.is_day(today)
            && let Some(time) = self.next_time(from.time())
        {
            return Some(today.to_datetime(time));
        }
        let first = self.next_time(Time::midnight())?;
        let mut days = today.series(1.day()).skip(1).take(MAX_DAYS_AHEAD);
        days.find(|day| self.is_day(*day)).map(|day| day.to_datetime(first))
    }

    /// The first time of a day, from `from` on.
    fn next_time(&self, from: Time) -> Option<Time> {
        // What is left of a minute that has begun belongs to no schedule.
        let minute = u32::try_from(from.minute()).ok()? + u32::from(from.second() > 0);
        let hour = u32::try_from(from.hour()).ok()?;
        let time = |hour: u32, minute: u32| Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0).ok();
        if self.fields.hours().includes(hour)
            && let Some(minute) = self.fields.minutes().iter().find(|at| *at >= minute)
        {
            return time(hour, minute);
        }
        time(self.fields.hours().iter().find(|at| *at > hour)?, self.fields.minutes().iter().next()?)
    }

    fn has_a_date(&self) -> bool {
        self.fields.months().iter().any(|month| {
            // 2024 was a leap year.
            let exists = |day| Date::new(2024, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
            self.fields.days_of_month().iter().any(|day| exists(day).is_some())
        })
    }

    fn is_day(&self, date: Date) -> bool {
        let includes = |field: &dyn Fn(u32) -> bool, number: i8| u32::try_from(number).is_ok_and(field);
        let day = includes(&|number| self.fields.days_of_month().includes(number), date.day());
        let weekday = date.weekday().to_sunday_one_offset();
        let weekday = includes(&|number| self.fields.days_of_week().includes(number), weekday);
        let either = match (self.by_day, self.by_weekday) {
            (true, true) => day || weekday,
            (_, _) => day && weekday,
        };
        either && includes(&|number| self.fields.months().includes(number), date.month())
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

#[cfg(test)]
mod tests;
