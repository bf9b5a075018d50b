//! The clock that sync windows are asked by.

use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;

/// The clock that sync windows are asked by: the system's, or one that a test moves.
#[derive(Clone)]
pub struct WindowClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WindowClock {
    /// A clock that shows what `read` gives.
    pub fn new(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for WindowClock {
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for WindowClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowClock").field(&self.now()).finish()
    }
}
