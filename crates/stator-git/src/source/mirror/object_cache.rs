//! The git objects that were read lately.

use crate::source::git::TreeListing;
use git2::Oid;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all mirrors of the process remember. Each of many sources may be small by itself.
const MAX_BYTES_IN_ALL: usize = 160 << 20;
/// Bytes that they remember now.
static BYTES_IN_ALL: AtomicUsize = AtomicUsize::new(0);

/// The bytes of a file, or why they are not read.
pub(super) type BlobContent = Result<Arc<[u8]>, String>;

/// What is remembered from one commit to the next: git names trees and blobs by their content, so nothing that is
/// remembered can be stale. Bounded in bytes; what was not used for longest goes first.
#[derive(Default)]
pub(super) struct GitObjectCache {
    listings: CachedObjects<TreeListing>,
    blobs: CachedObjects<BlobContent>,
    /// Files that models mount, by the tree of the model's folder and the path from there.
    mounted: HashMap<Oid, CachedGitObject<MountedEntries>>,
    bytes: usize,
    /// What it has of [`BYTES_IN_ALL`].
    counted: usize,
    round: u64,
    read: u64,
}

/// Where the files of one folder are: the blob of each, or why it is not read.
type MountedEntries = HashMap<String, Arc<Result<Oid, String>>>;

type CachedObjects<T> = HashMap<Oid, CachedGitObject<T>>;

struct CachedGitObject<T> {
    value: Arc<T>,
    bytes: usize,
    /// When it was last used.
    round: u64,
}

impl GitObjectCache {
    /// How many objects were read out of the object database since the mirror was opened.
    pub(super) fn objects_read(&self) -> u64 {
        self.read
    }

    /// A tree that is remembered.
    pub(super) fn listing(&mut self, oid: Oid) -> Option<Arc<TreeListing>> {
        recall(&mut self.listings, oid, self.round)
    }

    /// A file that is remembered.
    pub(super) fn blob(&mut self, oid: Oid) -> Option<Arc<BlobContent>> {
        recall(&mut self.blobs, oid, self.round)
    }

    /// Where a file that a model mounts is, when the folder was looked into before.
    pub(super) fn mounted(&mut self, folder: Oid, path: &str) -> Option<Arc<Result<Oid, String>>> {
        recall(&mut self.mounted, folder, self.round)?.get(path).cloned()
    }

    /// Remembers where a file that a model mounts is.
    pub(super) fn add_mounted(
        &mut self,
        folder: Oid,
        path: &str,
        found: Result<Oid, String>,
    ) -> Arc<Result<Oid, String>> {
        let found = Arc::new(found);
        let known = recall(&mut self.mounted, folder, self.round);
        let (mut entries, mut bytes) = match self.mounted.get(&folder).zip(known) {
            Some((kept, entries)) => (entries.as_ref().clone(), kept.bytes),
            None => (MountedEntries::new(), 0),
        };
        entries.insert(path.to_owned(), Arc::clone(&found));
        let more = 128 + path.len() + found.as_ref().as_ref().err().map_or(0, String::len);
        bytes += more;
        self.count_read(more);
        remember(&mut self.mounted, folder, entries, (bytes, self.round));
        found
    }

    /// Remembers a tree that was read.
    pub(super) fn add_listing(&mut self, oid: Oid, listing: TreeListing, bytes: usize) -> Arc<TreeListing> {
        self.count_read(bytes);
        remember(&mut self.listings, oid, listing, (bytes, self.round))
    }

    /// Remembers a file that was read.
    pub(super) fn add_blob(&mut self, oid: Oid, content: BlobContent, bytes: usize) -> Arc<BlobContent> {
        self.count_read(bytes);
        remember(&mut self.blobs, oid, content, (bytes, self.round))
    }

    fn count_read(&mut self, bytes: usize) {
        self.read += 1;
        self.bytes += bytes;
    }

    /// Ends one look at a commit, and forgets what is beyond `limit` bytes.
    pub(super) fn end_round(&mut self, limit: usize) {
        self.round += 1;
        let others = BYTES_IN_ALL.load(Ordering::Acquire).saturating_sub(self.counted);
        self.forget_beyond(limit.min(MAX_BYTES_IN_ALL.saturating_sub(others)));
        BYTES_IN_ALL.fetch_add(self.bytes, Ordering::AcqRel);
        BYTES_IN_ALL.fetch_sub(std::mem::replace(&mut self.counted, self.bytes), Ordering::AcqRel);
    }

    fn forget_beyond(&mut self, limit: usize) {
        if self.bytes <= limit {
            return;
        }
        let mut ages: Vec<(u64, Oid, usize)> =
            self.listings.iter().map(|(oid, kept)| (kept.round, *oid, kept.bytes)).collect();
        ages.extend(self.blobs.iter().map(|(oid, kept)| (kept.round, *oid, kept.bytes)));
        ages.extend(self.mounted.iter().map(|(oid, kept)| (kept.round, *oid, kept.bytes)));
        ages.sort_unstable();
        for (_, oid, bytes) in ages {
            if self.bytes <= limit {
                return;
            }
            self.listings.remove(&oid);
            self.blobs.remove(&oid);
            self.mounted.remove(&oid);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

impl Drop for GitObjectCache {
    fn drop(&mut self) {
        BYTES_IN_ALL.fetch_sub(self.counted, Ordering::AcqRel);
    }
}

fn recall<T>(objects: &mut CachedObjects<T>, oid: Oid, round: u64) -> Option<Arc<T>> {
    let kept = objects.get_mut(&oid)?;
    kept.round = round;
    Some(Arc::clone(&kept.value))
}

fn remember<T>(objects: &mut CachedObjects<T>, oid: Oid, value: T, (bytes, round): (usize, u64)) -> Arc<T> {
    let value = Arc::new(value);
    objects.insert(oid, CachedGitObject { value: Arc::clone(&value), bytes, round });
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row S1 of the review: each source remembered 64 MiB, however many sources there were.
    #[test]
    fn what_all_mirrors_remember_is_bounded_together() {
        let object = |number: usize| Oid::from_str(&format!("{number:040x}")).unwrap();
        let mut caches: Vec<GitObjectCache> = (0..8).map(|_| GitObjectCache::default()).collect();
        for cache in &mut caches {
            for number in 0..32 {
                // As large as it says, and empty.
                cache.add_blob(object(number), Ok(Arc::default()), 1 << 20);
            }
            cache.end_round(64 << 20);
            assert!(BYTES_IN_ALL.load(Ordering::Acquire) <= MAX_BYTES_IN_ALL + (1 << 20));
        }
        assert!(caches.iter().map(|cache| cache.bytes).sum::<usize>() <= MAX_BYTES_IN_ALL);
        assert!(caches[0].blob(object(31)).is_some());
        drop(caches);
        assert!(BYTES_IN_ALL.load(Ordering::Acquire) < 32 << 20, "what is gone is not counted");
    }
}
