//! How long an answer asks to be left alone.

use http::HeaderMap;
use jiff::Timestamp;
use std::time::Duration;

/// The longest wait that is believed. GitHub's window is an hour, and a header that says more is wrong, or a clock is.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(3600);
/// How long to wait where a host says that the time is over already: one of the clocks is wrong.
const FALLBACK_WAIT: Duration = Duration::from_secs(60);

/// `Retry-After`, in seconds or as a date: from a second to an hour. `None` where there is none that can be read.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(clamp_wait(Duration::from_secs(seconds))),
        Err(_) => Some(time_until(jiff::fmt::rfc2822::parse(text).ok()?.timestamp(), headers, now)),
    }
}

/// The time until then, by the host's own clock where it says what that shows.
pub(crate) fn time_until(then: Timestamp, headers: &HeaderMap, now: Timestamp) -> Duration {
    let left = then.as_second().saturating_sub(host_clock(headers).unwrap_or(now).as_second());
    u64::try_from(left)
        .ok()
        .filter(|left| *left > 0)
        .map_or(FALLBACK_WAIT, |left| clamp_wait(Duration::from_secs(left)))
}

/// What the host's own clock showed when it answered.
pub(crate) fn host_clock(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(http::header::DATE)?.to_str().ok()?;
    Some(jiff::fmt::rfc2822::parse(date).ok()?.timestamp())
}

fn clamp_wait(wait: Duration) -> Duration {
    wait.clamp(Duration::from_secs(1), MAX_RETRY_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, text.parse().unwrap())]);
        headers.extend(date.map(|date| (http::header::DATE, date.parse().unwrap())));
        retry_after(&headers, Timestamp::from_second(1_000_000_000).unwrap())
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        assert_eq!(after("17", None), Some(Duration::from_secs(17)));
        assert_eq!(after("0", None), Some(Duration::from_secs(1)));
        assert_eq!(after("Sun, 09 Sep 2001 01:47:50 GMT", None), Some(Duration::from_secs(70)));
        assert_eq!(after("99999999999", None), Some(MAX_RETRY_WAIT));
        assert_eq!(after("soon", None), None);
        assert_eq!(after("-1", None), None);
    }

    #[test]
    fn a_date_is_measured_with_the_hosts_own_clock() {
        let date = Some("Sun, 09 Sep 2001 01:30:00 GMT");
        assert_eq!(after("Sun, 09 Sep 2001 01:30:20 GMT", date), Some(Duration::from_secs(20)));
        assert_eq!(after("Sun, 09 Sep 2001 01:29:00 GMT", date), Some(FALLBACK_WAIT));
    }
}
