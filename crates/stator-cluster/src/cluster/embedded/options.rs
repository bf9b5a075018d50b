//! What the embedded cluster is opened with.

use super::file_writer::{AtomicFileWriter, FileWriter};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the embedded cluster takes from the world around it, so that tests can give it their own.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The clock of creation, deletion and `managedFields` times.
    pub clock: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// Where uids come from: a new one at each call.
    pub new_uid: Arc<dyn Fn() -> String + Send + Sync>,
    /// How files are written.
    pub files: Arc<dyn FileWriter>,
    /// How long a write waits for another process that holds the folder's lock.
    pub lock_wait: Duration,
    /// Whether the folder is only looked at: nothing in it is made, locked or changed, a write is an error, and what a person
    /// edited is taken in for this process alone.
    pub read_only: bool,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(jiff::Timestamp::now),
            new_uid: Arc::new(|| uuid::Uuid::new_v4().to_string()),
            files: Arc::new(AtomicFileWriter),
            lock_wait: Duration::from_secs(10),
            read_only: false,
        }
    }
}

impl EmbeddedOptions {
    /// The time of that clock.
    pub(super) fn now(&self) -> jiff::Timestamp {
        (self.clock)()
    }
}

impl fmt::Debug for EmbeddedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("lock_wait", &self.lock_wait)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
