//! The disk that mirrors take: of all sources together, and of sources that are gone.
//!
//! A mirror is bounded by itself, and all of it can be fetched again. Where all of them take more than there is, the one
//! that was used longest ago goes; one that nobody uses any more goes after some minutes.

use crate::controller::sources::resolved_source::SourceKey;
use stator_git::source::mirror::Mirror;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Bytes of all mirrors. The chart's volume has ten gibibytes, and a node evicts a pod that has more than its volume.
const MAX_BYTES: u64 = 8 << 30;
/// How long the mirror of a source that is gone is kept: it may be back, or faulty for a moment.
const GRACE: Duration = Duration::from_secs(600);
/// How often it is looked for such mirrors.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Where a mirror is while nobody works with it.
pub(in crate::controller) type MirrorSlot = Arc<tokio::sync::Mutex<Option<Mirror>>>;

/// The folders of all mirrors. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct MirrorDisk {
    state: Arc<Mutex<DiskState>>,
}

#[derive(Debug)]
struct DiskState {
    data: PathBuf,
    limit: u64,
    /// Folder → what is known of it. Filled with what earlier processes left at the first look.
    mirrors: Option<HashMap<PathBuf, MirrorUse>>,
    uses: u64,
    swept: Option<Instant>,
}

struct MirrorUse {
    bytes: u64,
    /// Counts up with every use of any mirror.
    last_used: u64,
    /// Where the mirror is, if its source is there.
    slot: Weak<tokio::sync::Mutex<Option<Mirror>>>,
    unused_since: Option<Instant>,
}

impl std::fmt::Debug for MirrorUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MirrorUse").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl MirrorDisk {
    /// Of the mirrors below a data folder.
    pub(in crate::controller) fn new(data: &Path) -> Self {
        Self::with_limit(data, MAX_BYTES)
    }

    fn with_limit(data: &Path, limit: u64) -> Self {
        let state = DiskState { data: data.to_owned(), limit, mirrors: None, uses: 0, swept: None };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The folder of a source's mirror.
    pub(in crate::controller) fn folder(data: &Path, source: &SourceKey) -> PathBuf {
        data.join("mirrors").join(&source.namespace).join(format!("{}.git", source.name))
    }

    /// A mirror was used and takes so much. Removes others where all of them take too much. Blocks.
    pub(in crate::controller) fn record_use(&self, folder: &Path, slot: &MirrorSlot, bytes: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).record_use(folder, slot, bytes, Instant::now());
    }
}

impl DiskState {
    fn record_use(&mut self, folder: &Path, slot: &MirrorSlot, bytes: u64, now: Instant) {
        self.uses += 1;
        let mirrors = self.mirrors.get_or_insert_with(|| find_mirrors(&self.data));
        let used = MirrorUse { bytes, last_used: self.uses, slot: Arc::downgrade(slot), unused_since: None };
        mirrors.insert(folder.to_owned(), used);
        if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_INTERVAL) {
            self.swept = Some(now);
            mirrors.retain(|folder, mirror| {
                if mirror.slot.strong_count() > 0 {
                    mirror.unused_since = None;
                    return true;
                }
                let since = *mirror.unused_since.get_or_insert(now);
                now.duration_since(since) < GRACE || !remove_folder(folder, "its source is gone")
            });
        }
        while mirrors.values().map(|mirror| mirror.bytes).fold(0, u64::saturating_add) > self.limit {
            let others = mirrors.iter().filter(|(other, mirror)| *other != folder && mirror.bytes > 0);
            let Some(oldest) = others.min_by_key(|(_, mirror)| mirror.last_used).map(|(folder, _)| folder.clone())
            else {
                return;
            };
            if let Some(mirror) = mirrors.get_mut(&oldest) {
                // One that somebody works with is counted again when that is over.
                mirror.bytes = 0;
                mirror.empty(&oldest);
            }
        }
    }
}

impl MirrorUse {
    /// Removes the objects, unless somebody works with them. Whoever needs them fetches them again.
    fn empty(&self, folder: &Path) {
        let Some(slot) = self.slot.upgrade() else {
            remove_folder(folder, "all mirrors take too much disk");
            return;
        };
        if let Ok(mut slot) = slot.try_lock() {
            // Closed before its files go.
            drop(slot.take());
            remove_folder(&folder.join("mirror.git"), "all mirrors take too much disk");
        }
    }
}

fn remove_folder(folder: &Path, why: &str) -> bool {
    tracing::info!(folder = %folder.display(), "a copy of a repository is removed: {why}");
    let removed = fs_err::remove_dir_all(folder);
    if let Err(error) = &removed {
        tracing::warn!(%error, "a copy of a repository could not be removed");
    }
    removed.is_ok()
}

/// What earlier processes left. Nobody uses it until somebody does.
fn find_mirrors(data: &Path) -> HashMap<PathBuf, MirrorUse> {
    let folders = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
    };
    let mirrors = folders(&data.join("mirrors")).into_iter().flat_map(|namespace| folders(&namespace));
    let used = |folder: PathBuf| {
        let packs = fs_err::read_dir(folder.join("mirror.git/objects/pack")).into_iter().flatten().flatten();
        let bytes = packs.filter_map(|pack| Some(pack.metadata().ok()?.len())).sum();
        (folder, MirrorUse { bytes, last_used: 0, slot: Weak::new(), unused_since: None })
    };
    mirrors.map(used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a mirror of that size in it, and where it is kept.
    fn mirror(data: &Path, name: &str, bytes: usize) -> (PathBuf, MirrorSlot) {
        let folder = MirrorDisk::folder(data, &SourceKey::new("team", name));
        let packs = folder.join("mirror.git/objects/pack");
        fs_err::create_dir_all(&packs).unwrap();
        fs_err::write(packs.join("pack-1.pack"), vec![0; bytes]).unwrap();
        (folder, MirrorSlot::default())
    }

    fn sizes(data: &Path) -> Vec<(String, u64)> {
        let name = |folder: &Path| folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut all: Vec<_> = find_mirrors(data).iter().map(|(folder, one)| (name(folder), one.bytes)).collect();
        all.sort();
        all
    }

    fn expected(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|(name, bytes)| (format!("{name}.git"), *bytes)).collect()
    }

    /// Row S6 of the review: nothing bounded all mirrors together, and the node evicts a pod whose disk is full.
    #[test]
    fn the_mirror_that_was_used_longest_ago_makes_room() {
        let data = tempfile::tempdir().unwrap();
        let disk = MirrorDisk::with_limit(data.path(), 250);
        let (earlier, _) = mirror(data.path(), "earlier", 100);
        let (a, of_a) = mirror(data.path(), "a", 100);
        disk.record_use(&a, &of_a, 100);
        assert_eq!(sizes(data.path()), expected(&[("a", 100), ("earlier", 100)]));
        let (b, of_b) = mirror(data.path(), "b", 100);
        disk.record_use(&b, &of_b, 100);
        assert_eq!(sizes(data.path()), expected(&[("a", 100), ("b", 100)]), "what an earlier process left goes first");
        assert!(!earlier.exists());
        disk.record_use(&a, &of_a, 100);
        let (c, of_c) = mirror(data.path(), "c", 100);
        disk.record_use(&c, &of_c, 100);
        assert_eq!(sizes(data.path()), expected(&[("a", 100), ("b", 0), ("c", 100)]));
        // Whoever works with one keeps it, and it is the next time's matter.
        let at_work = of_a.try_lock().unwrap();
        disk.record_use(&c, &of_c, 240);
        assert_eq!(sizes(data.path()), expected(&[("a", 100), ("b", 0), ("c", 100)]));
        drop(at_work);
    }

    /// Row S6 of the review: mirrors of deleted sources stayed.
    #[test]
    fn the_mirror_of_a_source_that_is_gone_goes_after_a_while() {
        let data = tempfile::tempdir().unwrap();
        let disk = MirrorDisk::with_limit(data.path(), 1000);
        let [(gone, of_gone), (stays, of_stays), (earlier, _)] =
            ["gone", "stays", "earlier"].map(|name| mirror(data.path(), name, 1));
        let began = Instant::now();
        let use_at = |folder: &Path, slot: &MirrorSlot, minutes: u64| {
            let now = began + Duration::from_secs(60 * minutes);
            disk.state.lock().unwrap().record_use(folder, slot, 1, now);
        };
        use_at(&gone, &of_gone, 0);
        drop(of_gone);
        use_at(&stays, &of_stays, 1);
        use_at(&stays, &of_stays, 10);
        assert!(gone.exists() && !earlier.exists());
        use_at(&stays, &of_stays, 11);
        assert!(!gone.exists() && stays.exists());
    }
}
