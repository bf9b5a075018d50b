//! One simulated operator at a time works on a folder, as one replica of the real operator leads.
//!
//! Two that carry out the steps of the same graph undo each other's status, and when one of them ends in the middle the
//! other takes its own work for done.

use crate::cluster::ClusterError;
use fs_err as fs;
use std::fs::TryLockError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Between two tries to become the leader.
const TRY_INTERVAL: Duration = Duration::from_millis(20);

/// The lock of the leader. It is free once all clones are dropped, also when the process is killed.
#[derive(Clone, Debug)]
pub(super) struct OperatorLeadership {
    _file: Arc<fs::File>,
}

impl OperatorLeadership {
    /// Waits, without end, until no other operator leads the folder.
    ///
    /// # Errors
    /// The lock's file cannot be opened or locked.
    pub(super) async fn acquire(root: &Path) -> Result<Self, ClusterError> {
        let storage = |error: std::io::Error| ClusterError::Storage {
            message: format!("cannot lock the embedded cluster for the simulated operator: {error}"),
        };
        let path = root.join(".operator.lock");
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(storage)?;
        loop {
            match file.file().try_lock() {
                Ok(()) => return Ok(Self { _file: Arc::new(file) }),
                Err(TryLockError::Error(error)) => return Err(storage(error)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(TRY_INTERVAL).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OperatorLeadership;
    use crate::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
    use futures_util::FutureExt;
    use std::sync::mpsc;

    #[tokio::test]
    async fn the_next_leader_waits_for_what_the_last_one_is_still_writing() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let first = OperatorLeadership::acquire(folder.path()).await.unwrap();
        let writer = cluster.holding(first);
        let (begun, has_begun) = mpsc::channel();
        let (finish, is_finished) = mpsc::channel::<()>();
        let write = tokio::spawn(async move {
            let work = move |_: &_| {
                begun.send(()).unwrap();
                is_finished.recv().unwrap();
                Ok(())
            };
            writer.run_blocking(work).await
        });
        tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();
        // The operator is stopped in the middle of a write.
        write.abort();
        assert!(write.await.unwrap_err().is_cancelled());
        assert!(OperatorLeadership::acquire(folder.path()).now_or_never().is_none());
        finish.send(()).unwrap();
        OperatorLeadership::acquire(folder.path()).await.unwrap();
    }
}
