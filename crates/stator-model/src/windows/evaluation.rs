//! Whether windows let a sync in: inside of an `allow` window where there is any, and outside of every `deny` window.

use super::{SyncWindow, WindowKind};
use jiff::{SignedDuration, Timestamp};

/// Changes that one search looks at, of all windows: two weeks of one that opens every minute.
const MAX_SEARCH_STEPS: usize = 20_000;
/// Where none lets a sync in for so long, none ever does: two years, in which every hour of a year was looked at.
const MAX_SEARCH_TIME: SignedDuration = SignedDuration::from_hours(2 * 366 * 24);

/// Whether a sync may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWindowState {
    /// It may.
    Open,
    /// It may not before then, and is to be asked again at that moment; `None` when no window lets one in for two years.
    Closed(Option<Timestamp>),
}

/// Whether the windows of a source let a sync in at `now`.
///
/// The search for the next opening ends where the work gets too much; the answer is then the moment that it reached, at
/// which it is to be asked again.
pub fn evaluate_windows(windows: &[SyncWindow], now: Timestamp) -> SyncWindowState {
    evaluate_window_sets(&[windows], now)
}

/// Whether all of several sets of windows let a sync in at `now`, as [`evaluate_windows`] says it of one.
pub fn evaluate_window_sets(sets: &[&[SyncWindow]], now: Timestamp) -> SyncWindowState {
    let is_open_at = |time: Timestamp| sets.iter().all(|windows| is_sync_allowed(windows, time));
    let windows = || sets.iter().flat_map(|windows| windows.iter());
    if is_open_at(now) {
        return SyncWindowState::Open;
    }
    if windows().any(denies_for_ever) {
        return SyncWindowState::Closed(None);
    }
    let mut time = now;
    for _ in 0..MAX_SEARCH_STEPS / windows().count().max(1) {
        let Some(next) = windows().flat_map(|window| next_changes(window, time)).min() else {
            return SyncWindowState::Closed(None);
        };
        time = next;
        if is_open_at(time) {
            break;
        }
        if time.duration_since(now) > MAX_SEARCH_TIME {
            return SyncWindowState::Closed(None);
        }
    }
    SyncWindowState::Closed(Some(time))
}

/// Whether a window denies every minute, as those that open every minute and last one do.
fn denies_for_ever(window: &SyncWindow) -> bool {
    window.kind == WindowKind::Deny
        && window.opens.is_every_minute()
        && window.duration >= std::time::Duration::from_secs(60)
}

fn is_sync_allowed(windows: &[SyncWindow], now: Timestamp) -> bool {
    let any_allows = windows.iter().any(|window| window.kind == WindowKind::Allow);
    let inside = |kind: WindowKind| windows.iter().any(|window| window.kind == kind && is_open(window, now));
    (!any_allows || inside(WindowKind::Allow)) && !inside(WindowKind::Deny)
}

fn is_open(window: &SyncWindow, now: Timestamp) -> bool {
    last_opening(window, now).is_some_and(|opened| opened <= now)
}

/// The first opening whose window has not ended at `now`.
fn last_opening(window: &SyncWindow, now: Timestamp) -> Option<Timestamp> {
    let before = now.checked_sub(SignedDuration::try_from(window.duration).ok()?).ok()?;
    window.opens.next_after(before)
}

/// When the window next opens, and when what is open of it next ends.
fn next_changes(window: &SyncWindow, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let ends = last_opening(window, now)
        .and_then(|opened| opened.checked_add(SignedDuration::try_from(window.duration).ok()?).ok());
    window.opens.next_after(now).into_iter().chain(ends).filter(move |time| *time > now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::CronSchedule;
    use std::time::Duration;

    fn window(kind: WindowKind, opens: &str, hours: u64, zone: &str) -> SyncWindow {
        let opens = CronSchedule::parse(opens, Some(zone)).unwrap();
        SyncWindow { kind, opens, duration: Duration::from_secs(hours * 3600) }
    }

    fn described(windows: &[SyncWindow], now: &str) -> String {
        match evaluate_windows(windows, now.parse().unwrap()) {
            SyncWindowState::Open => format!("{now}: open"),
            SyncWindowState::Closed(Some(opens)) => format!("{now}: closed until {opens}"),
            SyncWindowState::Closed(None) => format!("{now}: closed for good"),
        }
    }

    /// Row D4 of the review: windows that deny every minute of three days were said to be closed for good.
    #[test]
    fn the_next_opening_is_found_behind_days_of_denied_minutes() {
        use WindowKind::{Allow, Deny};
        let minutes = |expression: &str| SyncWindow {
            duration: Duration::from_secs(60),
            ..window(Deny, expression, 1, "Europe/Zurich")
        };
        let all = [
            described(&[minutes("* * * * 1-3")], "2026-11-16T09:00:00Z"),
            // The clock is put forward on Sunday and the denial ends an hour earlier by UTC.
            described(&[minutes("* * * * 5,6,0")], "2026-03-27T09:00:00Z"),
            described(&[minutes("* * * * 5,6,0")], "2026-10-23T09:00:00Z"),
            described(&[minutes("* * * 1-11 *"), window(Allow, "0 22 * * *", 1, "UTC")], "2026-11-27T09:00:00Z"),
            described(&[window(Deny, "0 * * * *", 1, "UTC")], "2026-11-18T09:00:00Z"),
            described(&[window(Deny, "0 0 * * *", 24, "Europe/Zurich")], "2026-09-18T09:00:00Z"),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        2026-11-16T09:00:00Z: closed until 2026-11-18T23:00:00Z
        2026-03-27T09:00:00Z: closed until 2026-03-29T22:00:00Z
        2026-10-23T09:00:00Z: closed until 2026-10-25T23:00:00Z
        2026-11-27T09:00:00Z: closed until 2026-12-01T22:00:00Z
        2026-11-18T09:00:00Z: closed for good
        2026-09-18T09:00:00Z: closed until 2026-10-25T22:00:00Z
        ");
    }

    /// Row D4: what is too far to be found at once is looked for again, and not waited for without an end.
    #[test]
    fn an_opening_out_of_reach_is_looked_for_again() {
        let denied =
            SyncWindow { duration: Duration::from_secs(60), ..window(WindowKind::Deny, "* * * 1-11 *", 1, "UTC") };
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let SyncWindowState::Closed(Some(next)) = evaluate_windows(&[denied], now) else { panic!() };
        assert!(next > now && next <= "2026-12-01T00:00:00Z".parse().unwrap());
    }

    #[test]
    fn windows_let_syncs_in_and_keep_them_out() {
        use WindowKind::{Allow, Deny};
        let weekend = window(Deny, "0 18 * * 5", 62, "Europe/Zurich");
        let nights = window(Allow, "0 22 * * *", 6, "UTC");
        let lunch = window(Deny, "0 12 * * *", 1, "UTC");
        let all = [
            described(&[], "2026-11-21T12:00:00Z"),
            described(std::slice::from_ref(&weekend), "2026-11-20T16:59:59Z"),
            described(std::slice::from_ref(&weekend), "2026-11-20T17:00:00Z"),
            described(std::slice::from_ref(&weekend), "2026-11-23T06:59:59Z"),
            described(std::slice::from_ref(&weekend), "2026-11-23T07:00:00Z"),
            described(std::slice::from_ref(&nights), "2026-11-18T12:00:00Z"),
            described(std::slice::from_ref(&nights), "2026-11-18T22:00:00Z"),
            described(std::slice::from_ref(&nights), "2026-11-19T03:59:59Z"),
            described(&[nights.clone(), weekend.clone()], "2026-11-20T23:00:00Z"),
            described(&[window(Allow, "0 12 * * *", 1, "UTC"), lunch.clone()], "2026-11-18T09:00:00Z"),
            described(&[window(Deny, "* * * * *", 1, "UTC")], "2026-11-18T09:00:00Z"),
            described(&[lunch], "2026-11-18T12:30:00Z"),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        2026-11-21T12:00:00Z: open
        2026-11-20T16:59:59Z: open
        2026-11-20T17:00:00Z: closed until 2026-11-23T07:00:00Z
        2026-11-23T06:59:59Z: closed until 2026-11-23T07:00:00Z
        2026-11-23T07:00:00Z: open
        2026-11-18T12:00:00Z: closed until 2026-11-18T22:00:00Z
        2026-11-18T22:00:00Z: open
        2026-11-19T03:59:59Z: open
        2026-11-20T23:00:00Z: closed until 2026-11-23T22:00:00Z
        2026-11-18T09:00:00Z: closed for good
        2026-11-18T09:00:00Z: closed for good
        2026-11-18T12:30:00Z: closed until 2026-11-18T13:00:00Z
        ");
    }
}
