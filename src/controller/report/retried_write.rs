//! One write to a server, tried again with growing pauses: notifications, events and the statuses of sources go out so.

use kube::Error;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The longest pause that is believed of an API server that asks for one.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_secs(3600);

/// How a write is retried.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// The first pause, before a random part is taken off.
    pub first_pause: Duration,
    /// The longest that pauses grow to. A server may ask for more.
    pub longest_pause: Duration,
    /// How often it is tried; `None` for as long as it fails.
    pub max_attempts: Option<u32>,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// What is reported of an attempt that took longer.
    pub timeout_message: &'static str,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome<T> {
    /// Nothing is left to do.
    Done(T),
    /// Another attempt would end the same way.
    Refused(String),
    /// It may pass, after a pause where the server asks for one.
    Failed(String, Option<Duration>),
}

impl<T> WriteOutcome<T> {
    /// What the API server's answer means to somebody who would write the same again.
    pub fn from_kube_error(error: Error) -> Self {
        let Error::Api(status) = error else { return Self::Failed(error.to_string(), None) };
        if (400..500).contains(&status.code) && ![408, 409, 425, 429].contains(&status.code) {
            return Self::Refused(status.message);
        }
        let pause = status.details.map(|details| Duration::from_secs(details.retry_after_seconds.into()));
        Self::Failed(status.message, pause.filter(|pause| !pause.is_zero()).map(|pause| pause.min(MAX_REQUESTED_PAUSE)))
    }
}

/// Attempts a write until it is done, is refused, or has failed too often. `report` gets every failure but the last.
/// `hurry` ends the pauses: what is not done then is attempted once more.
pub async fn write_with_retry<T, Sent: Future<Output = WriteOutcome<T>>>(
    policy: &RetryPolicy,
    hurry: &CancellationToken,
    attempt: impl Fn() -> Sent,
    report: impl Fn(&str),
) -> WriteOutcome<T> {
    let mut backoff = Backoff::new(policy.first_pause, policy.longest_pause, random_bits());
    loop {
        let most = policy.max_attempts.unwrap_or(u32::MAX);
        let is_last = hurry.is_cancelled() || backoff.attempts().saturating_add(1) >= most;
        let outcome = tokio::time::timeout(policy.attempt_timeout, attempt()).await;
        let outcome = outcome.unwrap_or_else(|_| WriteOutcome::Failed(policy.timeout_message.to_owned(), None));
        let (why, requested) = match outcome {
            WriteOutcome::Failed(why, requested) if !is_last => (why, requested),
            ended @ (WriteOutcome::Done(_) | WriteOutcome::Refused(_) | WriteOutcome::Failed(..)) => return ended,
        };
        report(&why);
        let pause = backoff.next_delay().max(requested.unwrap_or_default());
        let _ = hurry.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::cell::{Cell, RefCell};
    use tokio::time::Instant;

    const POLICY: RetryPolicy = RetryPolicy {
        first_pause: Duration::from_secs(2),
        longest_pause: Duration::from_secs(8),
        max_attempts: Some(4),
        attempt_timeout: Duration::from_secs(15),
        timeout_message: "no answer in 15 s",
    };

    /// What attempts end with, one after the other.
    struct Server {
        answer: fn(u32) -> WriteOutcome<u32>,
        /// After how many seconds it was asked.
        attempts: RefCell<Vec<f64>>,
        failures: RefCell<Vec<String>>,
    }

    impl Server {
        fn new(answer: fn(u32) -> WriteOutcome<u32>) -> Self {
            Self { answer, attempts: RefCell::default(), failures: RefCell::default() }
        }

        async fn write(&self, policy: &RetryPolicy, hurry: &CancellationToken) -> WriteOutcome<u32> {
            let start = Instant::now();
            let attempt = || async {
                self.attempts.borrow_mut().push(start.elapsed().as_secs_f64());
                (self.answer)(self.count())
            };
            write_with_retry(policy, hurry, attempt, |why| self.failures.borrow_mut().push(why.to_owned())).await
        }

        fn count(&self) -> u32 {
            u32::try_from(self.attempts.borrow().len()).unwrap()
        }

        fn pauses(&self) -> Vec<f64> {
            self.attempts.borrow().windows(2).map(|two| two[1] - two[0]).collect()
        }
    }

    fn failed(why: &str) -> WriteOutcome<u32> {
        WriteOutcome::Failed(why.to_owned(), None)
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_and_pauses_grow() {
        let server = Server::new(|_| failed("busy"));
        assert_eq!(server.write(&POLICY, &CancellationToken::new()).await, failed("busy"));
        assert_eq!(server.count(), 4);
        assert_eq!(*server.failures.borrow(), ["busy"; 3], "the last failure is the outcome");
        let pauses = server.pauses();
        let bounds = [(1.0, 2.0), (2.0, 4.0), (4.0, 8.0)];
        assert!(
            pauses.iter().zip(bounds).all(|(pause, (low, high))| (low..=high + 0.01).contains(pause)),
            "{pauses:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_pause_is_granted_to_a_server_that_asks_for_one() {
        let server = Server::new(|count| match count {
            1 => WriteOutcome::Failed("busy".to_owned(), Some(Duration::from_secs(100))),
            2 => WriteOutcome::Failed("busy".to_owned(), Some(Duration::from_millis(1))),
            _ => WriteOutcome::Done(count),
        });
        assert_eq!(server.write(&POLICY, &CancellationToken::new()).await, WriteOutcome::Done(3));
        let pauses = server.pauses();
        assert!(pauses[0] >= 100.0 && pauses[0] < 101.0 && pauses[1] >= 2.0, "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_final() {
        let refused = || WriteOutcome::Refused("forbidden".to_owned());
        let server = Server::new(|_| WriteOutcome::Refused("forbidden".to_owned()));
        let endless = RetryPolicy { max_attempts: None, ..POLICY };
        let hurry = CancellationToken::new();
        let outcome = tokio::time::timeout(Duration::from_secs(60), server.write(&endless, &hurry)).await;
        assert_eq!((outcome, server.count()), (Ok(refused()), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_it_is_tried_until_it_is_done() {
        let server = Server::new(|count| if count < 500 { failed("busy") } else { WriteOutcome::Done(count) });
        let endless = RetryPolicy { max_attempts: None, ..POLICY };
        assert_eq!(server.write(&endless, &CancellationToken::new()).await, WriteOutcome::Done(500));
        assert!(server.pauses().iter().all(|pause| *pause <= 8.01));
    }

    #[tokio::test(start_paused = true)]
    async fn hurry_ends_the_pause_and_leaves_one_attempt() {
        let long =
            RetryPolicy { first_pause: Duration::from_secs(1000), longest_pause: Duration::from_secs(1000), ..POLICY };
        let (server, hurry) = (Server::new(|_| failed("busy")), CancellationToken::new());
        let (outcome, ()) = tokio::join!(server.write(&long, &hurry), async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            hurry.cancel();
        });
        assert_eq!(outcome, failed("busy"));
        assert!(server.count() == 2 && server.pauses()[0] < 3.01, "{:?}", server.pauses());
        let late = Server::new(|_| failed("busy"));
        assert_eq!((late.write(&long, &hurry).await, late.count()), (failed("busy"), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_has_failed() {
        let (attempts, hurry) = (Cell::new(0), CancellationToken::new());
        let hangs = || {
            attempts.set(attempts.get() + 1);
            std::future::pending::<WriteOutcome<u32>>()
        };
        let outcome = write_with_retry(&POLICY, &hurry, hangs, |_| {});
        let outcome = tokio::time::timeout(Duration::from_secs(600), outcome).await;
        assert_eq!((outcome, attempts.get()), (Ok(failed("no answer in 15 s")), 4));
    }

    #[test]
    fn an_api_server_refuses_what_it_will_never_take() {
        let answered = |code: u16, seconds: u32| {
            let status = json!({"code": code, "message": "no", "details": {"retryAfterSeconds": seconds}});
            WriteOutcome::<u32>::from_kube_error(Error::Api(serde_json::from_value(status).unwrap()))
        };
        for code in [400, 401, 403, 404, 410, 413, 422] {
            assert_eq!(answered(code, 5), WriteOutcome::Refused("no".to_owned()), "{code}");
        }
        for code in [408, 409, 425, 429, 500, 503, 504] {
            let after = |pause| WriteOutcome::Failed("no".to_owned(), pause);
            assert_eq!(answered(code, 0), after(None), "{code}");
            assert_eq!(answered(code, 5), after(Some(Duration::from_secs(5))), "{code}");
            assert_eq!(answered(code, u32::MAX), after(Some(MAX_REQUESTED_PAUSE)), "{code}");
        }
        let closed = Error::ReadEvents(std::io::Error::other("closed"));
        assert!(matches!(WriteOutcome::<u32>::from_kube_error(closed), WriteOutcome::Failed(_, None)));
    }
}
