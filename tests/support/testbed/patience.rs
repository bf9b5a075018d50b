//! How tests wait: for what is to happen, never for a time.

use super::say;
use std::cell::Cell;
use std::panic::Location;
use std::time::{Duration, Instant};

/// How long anything is waited for before the test counts as failed. Only a test that hangs ever waits so long, so it may be
/// generous: the slowest machine under the heaviest load needs less.
pub const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// When a wait is told of for the first time; then again each time that it is twice as old.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// How long two looks are apart.
const PAUSE: Duration = Duration::from_millis(25);

/// What a look gives: whether it is so, what is there, or else words on what there is instead, which are made only once it
/// has taken too long.
pub trait Look {
    /// What is there at the end.
    type Found;

    /// The same for each kind of look.
    fn found(self) -> Result<Self::Found, impl FnOnce() -> String>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Result<(), impl FnOnce() -> String> {
        self.then_some(()).ok_or(String::new)
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Result<T, impl FnOnce() -> String> {
        self.ok_or(String::new)
    }
}

impl<T, S: FnOnce() -> String> Look for Result<T, S> {
    type Found = T;

    fn found(self) -> Result<T, impl FnOnce() -> String> {
        self
    }
}

/// A wait for one thing.
struct Wait<'a> {
    what: &'a str,
    place: &'static Location<'static>,
    start: Instant,
    /// How old it is when it is told of next.
    told_at: Cell<Duration>,
}

impl<'a> Wait<'a> {
    #[track_caller]
    fn until(what: &'a str) -> Self {
        Self { what, place: Location::caller(), start: Instant::now(), told_at: Cell::new(WORTH_TELLING) }
    }

    /// What a look found. Says so when that takes long, and ends the test when it takes too long.
    fn judge<L: Look>(&self, look: L) -> Option<L::Found> {
        match look.found() {
            Ok(found) => {
                if self.told_at.get() > WORTH_TELLING {
                    say(&format!("{}: after {} s {}", self.place, self.start.elapsed().as_secs(), self.what));
                }
                Some(found)
            }
            Err(seen) => {
                let (what, place, age) = (self.what, self.place, self.start.elapsed());
                if age >= PATIENCE {
                    panic!("{place}: it never came to this: {what}\n{}", seen());
                }
                if age >= self.told_at.get() {
                    self.told_at.set(self.told_at.get() * 2);
                    say(&format!("{place}: for {} s it has not come to this: {what}\n{}", age.as_secs(), seen()));
                }
                None
            }
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until<L: Look>(what: &str, mut look: impl FnMut() -> L) -> L::Found {
    let wait = Wait::until(what);
    loop {
        if let Some(found) = wait.judge(look()) {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until something is so, and lets others work meanwhile.
#[track_caller]
pub fn eventually<L: Look>(what: &str, mut look: impl AsyncFnMut() -> L) -> impl Future<Output = L::Found> {
    let wait = Wait::until(what);
    async move {
        loop {
            if let Some(found) = wait.judge(look().await) {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
