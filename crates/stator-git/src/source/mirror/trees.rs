//! The files of a commit, and what differs between two, reading only what is not known yet.

use super::error::MirrorError;
use super::object_cache::BlobContent;
use super::{FetchLimits, Mirror};
use crate::source::git::{self, CommittedFiles, MAX_PATH_LENGTH, TreeFile, TreeListing};
use crate::source::remote::{CommitSize, count_values};
use crate::source::source_file::{MAX_FILE_BYTES, attach_mounted_files};
use git2::{ObjectType, Oid};
use stator_model::intent::{SourceFile, SourceTree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What [`FetchLimits::max_total_bytes`] counts.
const FILE_BYTES: &str = "bytes of files to read";

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

    /// How much [`Mirror::tree`] would read of a commit.
    ///
    /// # Errors
    /// As for [`Mirror::tree`].
    pub fn measure(&mut self, commit: &str, folder: &str) -> Result<CommitSize, MirrorError> {
        let oid = super::reference::parse_full_commit(commit)?;
        self.with_repair(&[oid], |mirror| mirror.measure_folder(oid, folder))
    }

    /// How much is taken of the repository.
    pub fn limits(&self) -> &FetchLimits {
        &self.remote.limits
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

    /// The tree of a folder of a commit.
    fn folder_tree(&mut self, commit: Oid, folder: &str) -> Result<Oid, MirrorError> {
        let mut top = self.root(commit)?;
        for part in folder.split('/').filter(|part| !part.is_empty() && *part != ".") {
            let listing = self.listing(top)?;
            let inside = listing.folders.iter().find(|folder| folder.plain && folder.name == part);
            let missing = || MirrorError::NoFolder { commit: commit.to_string(), folder: folder.to_owned() };
            top = inside.ok_or_else(missing)?.oid;
        }
        Ok(top)
    }

    fn files_in_folder(&mut self, commit: Oid, folder: &str) -> Result<SourceTree, MirrorError> {
        let limits = self.remote.limits;
        let top = self.folder_tree(commit, folder)?;
        let CommittedFiles { files: found, unread } = self.walk_tree(commit, folder, &limits)?;
        let mut files = Vec::with_capacity(found.len());
        let (mut bytes, mut values) = (0_usize, 0_usize);
        // How many values a file spells out; one blob can stand at thousands of paths.
        let mut counted: HashMap<TreeFile, usize> = HashMap::new();
        for (path, file) in found {
            let content = self.content(file)?;
            let text = content.as_ref().as_deref().unwrap_or_default();
            bytes = bytes.saturating_add(path.len()).saturating_add(text.len());
            check_limit(commit, bytes, limits.max_total_bytes, FILE_BYTES)?;
            values = values.saturating_add(*counted.entry(file).or_insert_with(|| count_values(text)));
            check_limit(commit, values, limits.max_values, "values in the files to read")?;
            files.push(SourceFile { path, content: content.as_ref().clone() });
        }
        let mut tree = SourceTree { files, unread, ..SourceTree::default() };
        attach_mounted_files(&mut tree, |folder, path| {
            let content = self.mounted_content(top, folder, path)?;
            bytes = bytes.saturating_add(content.as_ref().as_ref().map_or(0, |bytes| bytes.len()));
            check_limit(commit, bytes, limits.max_total_bytes, FILE_BYTES)?;
            Ok::<_, MirrorError>(content.as_ref().clone())
        })?;
        self.cache.end_round(limits.cache_bytes);
        Ok(tree)
    }

    /// A file that a model mounts, by the model's folder and its path from there. Where the folder is one that was looked
    /// into before, it is not looked into again.
    fn mounted_content(&mut self, top: Oid, folder: &str, path: &str) -> Result<Arc<BlobContent>, MirrorError> {
        let mut at = top;
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            let listing = self.listing(at)?;
            let Some(inside) = listing.folders.iter().find(|one| one.plain && one.name == part) else {
                return Ok(Arc::new(Err("there is no such folder".to_owned())));
            };
            at = inside.oid;
        }
        let found = match self.cache.mounted(at, path) {
            Some(known) => known,
            None => {
                let found = git::find_mounted(self.store.repository(), at, "", path)
                    .map_err(|error| damaged_object_error(at, &error))?;
                self.cache.add_mounted(at, path, found)
            }
        };
        match found.as_ref() {
            Ok(oid) => self.blob_content(*oid, git::read_mounted_blob),
            Err(reason) => Ok(Arc::new(Err(reason.clone()))),
        }
    }

    /// By the objects' headers: no file is unpacked.
    fn measure_folder(&mut self, commit: Oid, folder: &str) -> Result<CommitSize, MirrorError> {
        let limits = self.remote.limits;
        let found = self.walk_tree(commit, folder, &limits)?;
        let mut size = CommitSize { files: found.files.len(), bytes: 0 };
        let mut known: HashMap<Oid, usize> = HashMap::new();
        for (path, file) in &found.files {
            let content = match file {
                TreeFile::Refused(_) => 0,
                TreeFile::Blob(oid) => match known.get(oid) {
                    Some(length) => *length,
                    None => {
                        let length = self.content_length(*oid)?;
                        known.insert(*oid, length);
                        length
                    }
                },
            };
            size.bytes = size.bytes.saturating_add(path.len()).saturating_add(content);
            check_limit(commit, size.bytes, limits.max_total_bytes, FILE_BYTES)?;
        }
        Ok(size)
    }

    /// How much of a file is read. What is remembered needs no look at the object.
    fn content_length(&mut self, oid: Oid) -> Result<usize, MirrorError> {
        if let Some(content) = self.cache.blob(oid) {
            return Ok(content.as_ref().as_deref().unwrap_or_default().len());
        }
        let (length, _) = self.odb()?.read_header(oid).map_err(|error| damaged_object_error(oid, &error))?;
        Ok(if length > git::MAX_BLOB_BYTES { 0 } else { length.min(MAX_FILE_BYTES) })
    }

    /// Every file of ours below a folder. A folder's path is there once, however many entries it has, and so is each
    /// listing: what is open takes no more than the tree is deep.
    fn walk_tree(&mut self, commit: Oid, folder: &str, limits: &FetchLimits) -> Result<CommittedFiles, MirrorError> {
        struct OpenFolder {
            prefix: String,
            listing: Arc<TreeListing>,
            next: usize,
            plain: bool,
        }
        let top = self.folder_tree(commit, folder)?;
        let mut found = CommittedFiles::default();
        let (mut looked_at, mut path_bytes) = (0_usize, 0_usize);
        let mut enter = |mirror: &mut Self, prefix: String, oid: Oid, plain: bool| {
            check_limit(commit, prefix.len(), MAX_PATH_LENGTH, "bytes in one path")?;
            let listing = mirror.listing(oid)?;
            looked_at = looked_at.saturating_add(1 + listing.entries);
            check_limit(commit, looked_at, limits.max_tree_entries, "entries")?;
            let names = listing.files.iter().map(|(name, _)| name).chain(listing.unread.iter().map(|(name, _)| name));
            path_bytes = names.fold(path_bytes, |sum, name| sum.saturating_add(prefix.len() + name.len()));
            check_limit(commit, path_bytes, limits.max_total_bytes, FILE_BYTES)?;
            found.add_listing(&prefix, &listing, plain);
            check_limit(commit, found.len(), limits.max_files, "files to read")?;
            Ok::<_, MirrorError>(OpenFolder { prefix, listing, next: 0, plain })
        };
        let mut open = vec![enter(self, String::new(), top, true)?];
        while let Some(folder) = open.last_mut() {
            let Some(inside) = folder.listing.folders.get(folder.next) else {
                open.pop();
                continue;
            };
            folder.next += 1;
            let (prefix, plain) = (format!("{}{}/", folder.prefix, inside.name), folder.plain && inside.plain);
            let oid = inside.oid;
            open.push(enter(self, prefix, oid, plain)?);
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
        check_limit(oid, size, self.remote.limits.max_tree_bytes, "bytes in one folder")?;
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
        self.blob_content(oid, |odb, oid| git::read_blob(odb, &TreeFile::Blob(oid)))
    }

    fn blob_content(
        &mut self,
        oid: Oid,
        read: impl FnOnce(&git2::Odb<'_>, Oid) -> BlobContent,
    ) -> Result<Arc<BlobContent>, MirrorError> {
        if let Some(known) = self.cache.blob(oid) {
            return Ok(known);
        }
        let odb = self.store.repository().odb().map_err(|error| damaged_object_error(oid, &error))?;
        // A blob that is missing or does not unpack is the mirror's fault and never the file's: it must not look like one
        // bad file among good ones.
        let (size, kind) = odb.read_header(oid).map_err(|error| damaged_object_error(oid, &error))?;
        let content = read(&odb, oid);
        if content.is_err() && kind == ObjectType::Blob && size <= git::MAX_BLOB_BYTES {
            return Err(MirrorError::Damaged { reason: format!("object {oid} does not unpack") });
        }
        let bytes = 128 + content.as_ref().map_or_else(String::len, |bytes| bytes.len());
        Ok(self.cache.add_blob(oid, content, bytes))
    }
}

fn check_limit(commit: Oid, count: usize, limit: usize, what: &'static str) -> Result<(), MirrorError> {
    if count > limit { Err(MirrorError::TooMany { commit: commit.to_string(), limit, what }) } else { Ok(()) }
}

fn damaged_object_error(oid: Oid, error: &git2::Error) -> MirrorError {
    MirrorError::Damaged { reason: format!("object {oid}: {}", error.message()) }
}
