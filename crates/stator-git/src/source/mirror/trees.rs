//! The files of a commit, and what differs between two, reading only what is not known yet.

use super::error::MirrorError;
use super::object_cache::BlobContent;
use super::{FetchLimits, Mirror};
use crate::source::git::{self, CommittedFiles, MAX_PATH_LENGTH, TreeFile, TreeListing};
use git2::{ObjectType, Oid};
use stator_model::intent::{SourceFile, SourceTree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of one git tree: more than a million entries.
const MAX_TREE_BYTES: usize = 64 << 20;

impl Mirror {
    /// The files of a commit below a folder, as [`read_tree_at`](crate::source::read_tree_at) gives them. Folders and files that an earlier
    /// call has read are not read again.
    ///
    /// # Errors
    /// When the commit is not in the mirror, does not have the folder, or holds more than [`FetchLimits`] let in. A single
    /// file that cannot be read is an entry with its reason.
    pub fn tree(&mut self, commit: &str, folder: &str) -> Result<SourceTree, MirrorError> {
        let oid = super::reference::parse_full_commit(commit)?;
        self.with_repair(&[oid], |mirror| mirror.files_in_folder(oid, folder))
    }

    /// The files of ours that differ between two commits, by their paths from the repository's root. Folders that are
    /// the same in both are not looked into.
    ///
    /// # Errors
    /// As for [`Mirror::tree`].
    pub fn changed_paths(&mut self, from: &str, to: &str) -> Result<BTreeSet<String>, MirrorError> {
        let (from, to) = (super::reference::parse_full_commit(from)?, super::reference::parse_full_commit(to)?);
        self.with_repair(&[from, to], |mirror| mirror.differing_paths(from, to))
    }

    fn files_in_folder(&mut self, commit: Oid, folder: &str) -> Result<SourceTree, MirrorError> {
        let limits = self.remote.limits;
        let mut top = self.root(commit)?;
        for part in folder.split('/').filter(|part| !part.is_empty() && *part != ".") {
            let listing = self.listing(top)?;
            let inside = listing.folders.iter().find(|folder| folder.plain && folder.name == part);
            let missing = || MirrorError::NoFolder { commit: commit.to_string(), folder: folder.to_owned() };
            top = inside.ok_or_else(missing)?.oid;
        }
        let found = self.walk_tree(commit, top, &limits)?;
        let CommittedFiles { files: found, unread } = found;
        let (mut files, mut bytes) = (Vec::with_capacity(found.len()), 0_usize);
        for (path, file) in found {
            let content = self.content(file)?;
            bytes = bytes.saturating_add(content.as_ref().as_ref().map_or(0, Vec::len));
            // One blob can stand at a hundred thousand paths.
            if bytes > limits.max_total_bytes {
                return Err(MirrorError::TooMany {
                    commit: commit.to_string(),
                    limit: limits.max_total_bytes,
                    what: "bytes of files to read",
                });
            }
            files.push(SourceFile { path, content: content.as_ref().clone() });
        }
        self.cache.end_round(limits.cache_bytes);
        Ok(SourceTree { files, unread, ..SourceTree::default() })
    }

    /// Every file of ours below a tree.
    fn walk_tree(&mut self, commit: Oid, top: Oid, limits: &FetchLimits) -> Result<CommittedFiles, MirrorError> {
        let mut found = CommittedFiles::default();
        let mut looked_at = 0_usize;
        let mut open = vec![(String::new(), top, true)];
        while let Some((prefix, oid, plain)) = open.pop() {
            let listing = self.listing(oid)?;
            looked_at = looked_at.saturating_add(1 + listing.entries);
            check_limit(commit, looked_at, limits.max_tree_entries, "entries")?;
            check_limit(commit, prefix.len(), MAX_PATH_LENGTH, "bytes in one path")?;
            found.add_listing(&prefix, &listing, plain);
            check_limit(commit, found.len(), limits.max_files, "files to read")?;
            open.extend(
                listing
                    .folders
                    .iter()
                    .map(|folder| (format!("{prefix}{}/", folder.name), folder.oid, plain && folder.plain)),
            );
        }
        found.unread.sort();
        Ok(found)
    }

    fn differing_paths(&mut self, from: Oid, to: Oid) -> Result<BTreeSet<String>, MirrorError> {
        let limits = self.remote.limits;
        let mut differing = BTreeSet::new();
        let mut looked_at = 0_usize;
        let mut open = vec![(String::new(), Some(self.root(from)?), Some(self.root(to)?))];
        while let Some((prefix, old, new)) = open.pop() {
            if old == new {
                continue;
            }
            check_limit(to, prefix.len(), MAX_PATH_LENGTH, "bytes in one path")?;
            let mut side = |oid: Option<Oid>| oid.map_or_else(|| Ok(Arc::default()), |oid| self.listing(oid));
            let (old, new) = (side(old)?, side(new)?);
            looked_at = looked_at.saturating_add(2 + old.entries + new.entries);
            check_limit(to, looked_at, limits.max_tree_entries, "entries")?;
            let files =
                |listing: &TreeListing| -> BTreeSet<(String, TreeFile)> { listing.files.iter().cloned().collect() };
            for (name, _) in files(&old).symmetric_difference(&files(&new)) {
                differing.insert(format!("{prefix}{name}"));
            }
            check_limit(to, differing.len(), limits.max_files, "files to read")?;
            let folders = |listing: &TreeListing| -> BTreeMap<String, Oid> {
                listing.folders.iter().map(|folder| (folder.name.clone(), folder.oid)).collect()
            };
            let (old, new) = (folders(&old), folders(&new));
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            open.extend(
                names
                    .into_iter()
                    .map(|name| (format!("{prefix}{name}/"), old.get(name).copied(), new.get(name).copied())),
            );
        }
        self.cache.end_round(limits.cache_bytes);
        Ok(differing)
    }

    /// The tree of a commit.
    fn root(&self, commit: Oid) -> Result<Oid, MirrorError> {
        let object = self.read_object(&commit.to_string(), ObjectType::Commit)?;
        super::history::tree_of(&object)
            .ok_or_else(|| MirrorError::Damaged { reason: format!("commit {commit} names no tree") })
    }

    fn listing(&mut self, oid: Oid) -> Result<Arc<TreeListing>, MirrorError> {
        if let Some(known) = self.cache.listing(oid) {
            return Ok(known);
        }
        let odb = self.store.repository().odb().map_err(|error| damaged_object_error(oid, &error))?;
        let (size, _) = odb.read_header(oid).map_err(|error| damaged_object_error(oid, &error))?;
        check_limit(oid, size, MAX_TREE_BYTES, "bytes in one folder")?;
        let tree = self.store.repository().find_tree(oid).map_err(|error| damaged_object_error(oid, &error))?;
        let listing = git::list_tree(&tree);
        let names = listing
            .files
            .iter()
            .map(|(name, _)| name.len())
            .chain(listing.folders.iter().map(|folder| folder.name.len()))
            .chain(listing.unread.iter().map(|(name, _)| name.len()));
        let bytes = 128 + names.map(|name| name + 64).sum::<usize>();
        Ok(self.cache.add_listing(oid, listing, bytes))
    }

    fn content(&mut self, file: TreeFile) -> Result<Arc<BlobContent>, MirrorError> {
        let oid = match file {
            TreeFile::Blob(oid) => oid,
            TreeFile::Refused(reason) => return Ok(Arc::new(Err(reason.to_owned()))),
        };
        if let Some(known) = self.cache.blob(oid) {
            return Ok(known);
        }
        let odb = self.store.repository().odb().map_err(|error| damaged_object_error(oid, &error))?;
        // A blob that is missing or does not unpack is the mirror's fault and never the file's: it must not look like one
        // bad file among good ones.
        let (size, kind) = odb.read_header(oid).map_err(|error| damaged_object_error(oid, &error))?;
        let content = git::read_blob(&odb, &file);
        if content.is_err() && kind == ObjectType::Blob && size <= git::MAX_BLOB_BYTES {
            return Err(MirrorError::Damaged { reason: format!("object {oid} does not unpack") });
        }
        let bytes = 128 + content.as_ref().map_or_else(String::len, Vec::len);
        Ok(self.cache.add_blob(oid, content, bytes))
    }
}

fn check_limit(commit: Oid, count: usize, limit: usize, what: &'static str) -> Result<(), MirrorError> {
    if count > limit { Err(MirrorError::TooMany { commit: commit.to_string(), limit, what }) } else { Ok(()) }
}

fn damaged_object_error(oid: Oid, error: &git2::Error) -> MirrorError {
    MirrorError::Damaged { reason: format!("object {oid}: {}", error.message()) }
}
