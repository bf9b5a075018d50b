//! Watching files on this machine: notified when something may have changed, and checked again from time to time, as
//! not every
//! file system tells.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Changes that come this close together are one: editors write a file in several steps.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The longest that changes which go on are gathered.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);
/// How often is looked all the same.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// A watched folder.
#[derive(Debug)]
pub struct FolderWatch {
    wakeup: Arc<Notify>,
    /// Watching ends when it is dropped; `None` where there is no watching.
    _watcher: Option<RecommendedWatcher>,
}

impl FolderWatch {
    /// Watches a folder; with `below` all that is in it too. `counts` says which paths matter. A folder that cannot be
    /// watched is looked at from time to time.
    pub fn new(folder: &Path, below: bool, counts: impl Fn(&Path) -> bool + Send + 'static) -> Self {
        let wakeup = Arc::new(Notify::new());
        let notifier = Arc::clone(&wakeup);
        let on_event = move |event: notify::Result<notify::Event>| {
            let matters = match event {
                // Reading is no change, and reading is what is done about each.
                Ok(event) => !matches!(event.kind, EventKind::Access(_)) && event.paths.iter().any(|path| counts(path)),
                // Events were lost.
                Err(_) => true,
            };
            if matters {
                notifier.notify_one();
            }
        };
        let mode = if below { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        let watcher =
            notify::recommended_watcher(on_event).and_then(|mut watcher| watcher.watch(folder, mode).map(|()| watcher));
        if let Err(error) = &watcher {
            tracing::warn!(folder = %folder.display(), %error, "the folder is polled every {POLL_INTERVAL:?}, because it cannot be watched");
        }
        Self { wakeup, _watcher: watcher.ok() }
    }

    /// Ends when something may have changed, and nothing has since for a moment.
    pub async fn changed(&self) {
        if tokio::time::timeout(POLL_INTERVAL, self.wakeup.notified()).await.is_err() {
            return;
        }
        let quiet = async { while tokio::time::timeout(DEBOUNCE, self.wakeup.notified()).await.is_ok() {} };
        let _ = tokio::time::timeout(MAX_DEBOUNCE, quiet).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_written_is_noticed_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sources.yaml");
        let watch = FolderWatch::new(folder.path(), false, |path| path.ends_with("sources.yaml"));
        fs_err::write(folder.path().join("other.yaml"), "x").unwrap();
        let nothing = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(nothing.is_err(), "the other file counts for nothing");
        fs_err::write(&file, "one").unwrap();
        watch.changed().await;
        // As Kubernetes and editors replace a file.
        fs_err::write(folder.path().join("new"), "two").unwrap();
        fs_err::rename(folder.path().join("new"), &file).unwrap();
        watch.changed().await;
    }
}
