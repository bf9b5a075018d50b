//! Notifications that a folder or a file on this machine may have changed.
//!
//! A notification is a hint: its receiver reads again and compares. Hints that come close together are one, so an
//! editor
//! that writes a file in five steps, or `git checkout`, is looked at once, when it is done.

use notify::event::EventKind;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long nothing must happen before a change is reported.
const DEBOUNCE_DELAY: Duration = Duration::from_millis(200);
/// How long at most after the first change, however much goes on.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);

/// Watches a folder or a file, for as long as it lives.
#[derive(Debug)]
pub struct PathWatcher {
    change_signal: Arc<Notify>,
    _watcher: RecommendedWatcher,
}

/// Why something cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be watched: {reason}", .path.display())]
pub struct PathWatchError {
    /// What.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl PathWatchError {
    /// What to do next, in a sentence.
    pub fn help(&self) -> &'static str {
        "check that it exists and can be read; on Linux, a large folder may need a higher `fs.inotify.max_user_watches`"
    }
}

impl PathWatcher {
    /// Watches a folder and all below it, hidden folders left out: git's own, and the embedded cluster's, which a sync
    /// writes to.
    ///
    /// # Errors
    /// When it is not there, or the system watches no more.
    pub fn folder(path: &Path) -> Result<Self, PathWatchError> {
        let root = resolve_path(path)?;
        let below = root.clone();
        Self::start(path, &root, RecursiveMode::Recursive, move |path| is_relevant_path(&below, path))
    }

    /// Watches one file, also when it is put in place by a rename, or by the swap of a link as Kubernetes does it for
    /// mounted secrets and config maps (`FILE` leads to `..data/FILE`, and `..data` to the newest folder).
    ///
    /// # Errors
    /// As for [`PathWatcher::folder`].
    pub fn file(path: &Path) -> Result<Self, PathWatchError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = resolve_path(folder)?;
        let name = path.file_name().map(ToOwned::to_owned);
        Self::start(path, &folder, RecursiveMode::NonRecursive, move |path| {
            path.file_name().is_none_or(|changed| Some(changed) == name.as_deref() || changed == "..data")
        })
    }

    fn start(
        asked: &Path,
        root: &Path,
        mode: RecursiveMode,
        matters: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<Self, PathWatchError> {
        let failed = |error: notify::Error| PathWatchError { path: asked.to_owned(), reason: error.to_string() };
        let news = Arc::new(Notify::new());
        let notified = Arc::clone(&news);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let counts = match event {
                Ok(event) => {
                    let reads = matches!(event.kind, EventKind::Access(_));
                    event.need_rescan() || (!reads && event.paths.iter().any(|path| matters(path)))
                }
                // Something was missed: it may have been anything.
                Err(_) => true,
            };
            if counts {
                notified.notify_one();
            }
        })
        .map_err(failed)?;
        watcher.watch(root, mode).map_err(failed)?;
        Ok(Self { change_signal: news, _watcher: watcher })
    }

    /// Waits for a change, and then until nothing has changed for a moment. Changes from before the call count.
    pub async fn changed(&mut self) {
        self.change_signal.notified().await;
        let end = Instant::now() + MAX_DEBOUNCE;
        while Instant::now() < end && tokio::time::timeout(DEBOUNCE_DELAY, self.change_signal.notified()).await.is_ok()
        {
        }
    }
}

fn resolve_path(path: &Path) -> Result<PathBuf, PathWatchError> {
    fs_err::canonicalize(path).map_err(|error| PathWatchError { path: path.to_owned(), reason: error.to_string() })
}

/// Whether a change there can change what is read: not below a hidden folder, nor a hidden file. Links such as `..data`
/// are no hidden ones.
fn is_relevant_path(root: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.components().all(|part| match part {
        Component::Normal(name) => {
            let name = name.as_encoded_bytes();
            !name.starts_with(b".") || name.starts_with(b"..")
        }
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a test that fails waits so long.
    async fn notified(watch: &mut PathWatcher) -> bool {
        tokio::time::timeout(Duration::from_secs(15 * 60), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_new_file_in_a_new_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = PathWatcher::folder(folder.path()).unwrap();
        fs_err::create_dir_all(folder.path().join("team/a")).unwrap();
        assert!(notified(&mut watch).await);
        fs_err::write(folder.path().join("team/a/model.yaml"), "a: 1").unwrap();
        assert!(notified(&mut watch).await);
        fs_err::remove_dir_all(folder.path().join("team")).unwrap();
        assert!(notified(&mut watch).await);
    }

    #[tokio::test]
    async fn a_file_is_followed_through_renames_and_swapped_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, text) in [("..1", "one"), ("..2", "two")] {
            fs_err::create_dir(at(version)).unwrap();
            fs_err::write(at(version).join("source.yaml"), text).unwrap();
        }
        std::os::unix::fs::symlink("..1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/source.yaml", at("source.yaml")).unwrap();
        let mut watch = PathWatcher::file(&at("source.yaml")).unwrap();
        std::os::unix::fs::symlink("..2", at("..data_tmp")).unwrap();
        fs_err::rename(at("..data_tmp"), at("..data")).unwrap();
        assert!(notified(&mut watch).await);
        assert_eq!(fs_err::read_to_string(at("source.yaml")).unwrap(), "two");

        fs_err::write(at("new"), "three").unwrap();
        fs_err::rename(at("new"), at("source.yaml")).unwrap();
        assert!(notified(&mut watch).await);
    }

    #[test]
    fn what_stator_and_git_write_themselves_does_not_count() {
        let root = Path::new("/models");
        for (path, counts) in [
            ("/models/a/model.yaml", true),
            ("/models", true),
            ("/models/..data", true),
            ("/models/.git/index", false),
            ("/models/.stator/cluster/a.yaml", false),
            ("/models/a/.model.yaml.swp", false),
        ] {
            assert_eq!(is_relevant_path(root, Path::new(path)), counts, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_cannot_be_watched() {
        let error = PathWatcher::folder(Path::new("/does/not/exist")).unwrap_err();
        assert!(format!("{error}; {}", error.help()).starts_with("/does/not/exist cannot be watched: "), "{error}");
    }
}
