//! When syncs may run: inside of an `allow` window where there is any, and outside of every `deny` window.

use super::file::SyncWindow;
use jiff::{SignedDuration, Timestamp};
use stator_git::source::model_source::WindowKind;

/// Changes of the windows that are looked ahead over before it is taken that none lets a sync in.
const MAX_LOOKAHEAD_CHANGES: usize = 2000;

/// Whether a sync may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWindowState {
    /// It may.
    Open,
    /// It may not before then; `None` when no window lets one in for as far as can be told.
    Closed(Option<Timestamp>),
}

/// Looks at all windows of a source.
pub fn evaluate_windows(windows: &[SyncWindow], now: Timestamp) -> SyncWindowState {
    if is_sync_allowed(windows, now) {
        return SyncWindowState::Open;
    }
    let mut time = now;
    for _ in 0..MAX_LOOKAHEAD_CHANGES {
        let Some(next) = windows.iter().flat_map(|window| next_changes(window, time)).min() else { break };
        time = next;
        if is_sync_allowed(windows, time) {
            return SyncWindowState::Closed(Some(time));
        }
    }
    SyncWindowState::Closed(None)
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
    use crate::controller::sources::schedule::CronSchedule;
    use std::time::Duration;

    fn window(kind: WindowKind, opens: &str, hours: u64, zone: &str) -> SyncWindow {
        let opens = CronSchedule::parse(opens, Some(zone)).unwrap();
        SyncWindow { kind, opens, duration: Duration::from_secs(hours * 3600) }
    }

    fn told(windows: &[SyncWindow], now: &str) -> String {
        match evaluate_windows(windows, now.parse().unwrap()) {
            SyncWindowState::Open => format!("{now}: open"),
            SyncWindowState::Closed(Some(opens)) => format!("{now}: closed until {opens}"),
            SyncWindowState::Closed(None) => format!("{now}: closed for good"),
        }
    }

    #[test]
    fn windows_let_syncs_in_and_keep_them_out() {
        use WindowKind::{Allow, Deny};
        let weekend = window(Deny, "0 18 * * 5", 62, "Europe/Zurich");
        let nights = window(Allow, "0 22 * * *", 6, "UTC");
        let lunch = window(Deny, "0 12 * * *", 1, "UTC");
        let all = [
            told(&[], "2026-11-21T12:00:00Z"),
            told(std::slice::from_ref(&weekend), "2026-11-20T16:59:59Z"),
            told(std::slice::from_ref(&weekend), "2026-11-20T17:00:00Z"),
            told(std::slice::from_ref(&weekend), "2026-11-23T06:59:59Z"),
            told(std::slice::from_ref(&weekend), "2026-11-23T07:00:00Z"),
            told(std::slice::from_ref(&nights), "2026-11-18T12:00:00Z"),
            told(std::slice::from_ref(&nights), "2026-11-18T22:00:00Z"),
            told(std::slice::from_ref(&nights), "2026-11-19T03:59:59Z"),
            told(&[nights.clone(), weekend.clone()], "2026-11-20T23:00:00Z"),
            told(&[window(Allow, "0 12 * * *", 1, "UTC"), lunch.clone()], "2026-11-18T09:00:00Z"),
            told(&[window(Deny, "* * * * *", 1, "UTC")], "2026-11-18T09:00:00Z"),
            told(&[lunch], "2026-11-18T12:30:00Z"),
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
