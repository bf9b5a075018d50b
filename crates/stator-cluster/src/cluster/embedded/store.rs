//! The folder, read through a cache that notices what people do to the files.

use super::file_format::{self, ManualEdit};
use super::file_writer;
use super::layout;
use super::object_file::{self, ObjectFile, ObjectFileBody, ObjectFileRead, ObjectFileStamp, read_error, revision_of};
use super::options::EmbeddedOptions;
use super::structured_merge;
use super::watch_broadcaster::WatchBroadcaster;
use super::write_lock::WriteLock;
use crate::cluster::ClusterError;
use crate::cluster::api_conventions::increment_generation;
use fs_err as fs;
use rayon::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::release::Release;
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The embedded cluster without its asynchronous face.
pub(super) struct EmbeddedStore {
    pub(super) root: PathBuf,
    pub(super) options: EmbeddedOptions,
    /// How many simulated operators run.
    pub(super) running_operators: AtomicUsize,
    /// The release of Dynamo that is simulated, once somebody has said one.
    release: OnceLock<Release>,
    /// Whether the thread that looks at the folder runs.
    pub(super) watching: AtomicBool,
    state: Mutex<EmbeddedStoreState>,
}

#[derive(Default)]
pub(super) struct EmbeddedStoreState {
    /// By path below the root.
    files: BTreeMap<PathBuf, ObjectFile>,
    pub(super) watchers: WatchBroadcaster,
}

impl EmbeddedStore {
    pub(super) fn open(root: &Path, options: EmbeddedOptions) -> Result<Self, ClusterError> {
        let storage = |error: std::io::Error| ClusterError::Storage {
            message: format!("cannot open the embedded cluster: {error}"),
        };
        let root = match fs::canonicalize(root) {
            // A cluster without objects.
            Err(error) if options.read_only && error.kind() == ErrorKind::NotFound => std::path::absolute(root),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(root).and_then(|()| fs::canonicalize(root))
            }
            found => found,
        };
        let root = root.map_err(storage)?;
        let store = Self {
            root,
            options,
            running_operators: AtomicUsize::new(0),
            release: OnceLock::new(),
            watching: AtomicBool::new(false),
            state: Mutex::default(),
        };
        if !store.options.read_only {
            let _lock = store.lock()?;
            file_writer::remove_temporary_files(&store.root).map_err(storage)?;
        }
        Ok(store)
    }

    /// Simulates this release from now on, unless one is simulated already; and says which that is.
    pub(super) fn simulate(&self, release: Option<Release>) -> Release {
        match release {
            Some(release) => *self.release.get_or_init(|| release),
            None => self.release(),
        }
    }

    /// The release that is simulated.
    pub(super) fn release(&self) -> Release {
        self.release.get().copied().unwrap_or_default()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, EmbeddedStoreState> {
        // A panic elsewhere leaves at worst an older cache, and every read compares it with the folder.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One object as the folder now holds it.
    pub(super) fn get(&self, reference: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        let path = layout::path_of(reference)?;
        let mut state = self.state();
        self.refresh(&mut state, vec![path.clone()], None)?;
        self.cached(&state, &path)
    }

    /// The objects of a kind. Fails when one of their files is damaged: a list that lacks one would prune it.
    pub(super) fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let texts = self.list_texts(kind, namespace, labels)?;
        Ok(texts.into_par_iter().map(|text| text.parse()).collect())
    }

    /// The same as texts.
    pub(super) fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        let mut state = self.state();
        let paths = self.refresh_kind(&mut state, kind, namespace)?;
        let (mut texts, mut damaged) = (Vec::new(), Vec::new());
        for path in paths {
            match state.files.get(&path).map(|entry| &entry.body) {
                Some(ObjectFileBody::Intact(text)) => texts.push(text.clone()),
                Some(ObjectFileBody::Damaged(fault)) => damaged.push((path, fault.clone())),
                None => {}
            }
        }
        drop(state);
        if let Some(error) = self.damaged_error(damaged) {
            return Err(error);
        }
        texts.retain(|text| text.has_labels(labels));
        texts.sort_by(|one, other| one.reference().cmp(other.reference()));
        Ok(texts)
    }

    /// Reads again what changed under a kind, tells the watchers, and gives the paths that are there.
    pub(super) fn refresh_kind(
        &self,
        state: &mut EmbeddedStoreState,
        kind: &ObjectKind,
        namespace: Option<&str>,
    ) -> Result<Vec<PathBuf>, ClusterError> {
        let namespaces = match namespace {
            Some(name) if layout::is_label(name) => vec![name.to_owned()],
            Some(_) => Vec::new(),
            None => self.namespaces()?,
        };
        let mut here = Vec::new();
        for namespace in &namespaces {
            self.object_files(&layout::folder_of(kind, namespace), &mut here)?;
        }
        here.sort();
        // Paths are sorted by their parts, so the files of a folder are next to each other.
        let first = namespace.map(|namespace| layout::folder_of(kind, namespace)).unwrap_or_default();
        let known =
            state.files.range(first.clone()..).map(|(path, _)| path).take_while(|path| path.starts_with(&first));
        let is_of_kind = |path: &&PathBuf| path.iter().nth(1).is_some_and(|part| part == kind.plural);
        let gone = known.filter(is_of_kind).filter(|path| here.binary_search(path).is_err());
        let all: Vec<PathBuf> = here.iter().chain(gone).cloned().collect();
        self.refresh(state, all, None)?;
        here.retain(|path| state.files.contains_key(path));
        Ok(here)
    }

    /// The names of a kind's objects in a namespace, whatever is in their files.
    pub(super) fn names(&self, kind: &ObjectKind, namespace: &str) -> Result<Vec<String>, ClusterError> {
        let mut paths = Vec::new();
        if layout::is_label(namespace) {
            self.object_files(&layout::folder_of(kind, namespace), &mut paths)?;
        }
        Ok(paths.iter().filter_map(|path| layout::reference_of(path)).map(|object| object.name).collect())
    }

    /// Every namespace that has a folder.
    fn namespaces(&self) -> Result<Vec<String>, ClusterError> {
        let mut names = Vec::new();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if self.options.read_only && error.kind() == ErrorKind::NotFound => return Ok(names),
            found => found.map_err(read_error)?,
        };
        for entry in entries {
            let entry = entry.map_err(read_error)?;
            if let Some(name) = entry.file_name().to_str()
                && layout::is_label(name)
                && entry.path().is_dir()
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The object files of one folder. A folder that is not there holds none; one that cannot be read is an error.
    fn object_files(&self, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), ClusterError> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(read_error(error)),
        };
        for entry in entries {
            let name = entry.map_err(read_error)?.file_name();
            let path = folder.join(&name);
            if layout::reference_of(&path).is_some() {
                paths.push(path);
            } else if !name.to_string_lossy().starts_with('.') {
                tracing::warn!(path = %self.root.join(&path).display(), "not an object of the embedded cluster, ignored");
            }
        }
        Ok(())
    }

    /// Compares the cache with the folder for these paths, takes hand edits in, and tells the watchers. `held` is the
    /// lock of a caller that has it already.
    pub(super) fn refresh(
        &self,
        state: &mut EmbeddedStoreState,
        paths: Vec<PathBuf>,
        held: Option<&WriteLock>,
    ) -> Result<(), ClusterError> {
        let read = |path: PathBuf| -> Result<(PathBuf, ObjectFileRead), ClusterError> {
            let found = object_file::read_object_file(&self.root, &path, state.files.get(&path))?;
            Ok((path, found))
        };
        let reads: Vec<(PathBuf, ObjectFileRead)> = if paths.len() > 16 {
            paths.into_par_iter().map(read).collect::<Result<_, _>>()?
        } else {
            paths.into_iter().map(read).collect::<Result<_, _>>()?
        };
        let mut edited = Vec::new();
        for (path, read) in reads {
            match read {
                ObjectFileRead::Unchanged => {}
                ObjectFileRead::Touched(stamp, settled) => {
                    if let Some(entry) = state.files.get_mut(&path) {
                        (entry.stamp, entry.settled) = (stamp, settled);
                    }
                }
                ObjectFileRead::Gone => state.remove_file(&path),
                ObjectFileRead::Changed(_, Some(_)) => edited.push(path),
                ObjectFileRead::Changed(entry, None) => state.update_file(path, entry),
            }
        }
        if edited.is_empty() {
            return Ok(());
        }
        let own;
        let lock = match held {
            Some(lock) => lock,
            None => {
                own = self.lock()?;
                &own
            }
        };
        edited.into_iter().try_for_each(|path| self.accept_manual_edit(state, lock, path))
    }

    pub(super) fn lock(&self) -> Result<WriteLock, ClusterError> {
        if self.options.read_only {
            return Ok(WriteLock::for_reading(&self.root));
        }
        WriteLock::acquire(&self.root, self.options.lock_wait)
    }

    /// Takes a hand edit in as the API server would a write: new resource version, and generation where it counts.
    fn accept_manual_edit(
        &self,
        state: &mut EmbeddedStoreState,
        lock: &WriteLock,
        path: PathBuf,
    ) -> Result<(), ClusterError> {
        // Under the lock, since another process may have taken it in already.
        let (entry, edit) = match object_file::read_object_file(&self.root, &path, None)? {
            ObjectFileRead::Gone | ObjectFileRead::Unchanged | ObjectFileRead::Touched(..) => {
                state.remove_file(&path);
                return Ok(());
            }
            ObjectFileRead::Changed(entry, edit) => (entry, edit),
        };
        let (ObjectFileBody::Intact(text), Some(edit)) = (&entry.body, edit) else {
            state.update_file(path, entry);
            return Ok(());
        };
        let object = text.parse();
        if let Err(fault) =
            structured_merge::check_manual_edit(layout::served_kind(&object.reference())?, &object, self.release())
        {
            state.update_file(path, ObjectFile { body: ObjectFileBody::Damaged(fault), ..entry });
            return Ok(());
        }
        let mut value = object.into_value();
        if edit == ManualEdit::Main
            && let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
        {
            increment_generation(metadata);
        }
        let object = Object::from_value(value).map_err(internal_error)?;
        tracing::info!(object = %object.reference(), "edited by hand");
        if self.options.read_only {
            if object.is_deleting() && object.finalizers().is_empty() {
                state.remove_file(&path);
            } else {
                let known = state.files.get(&path).and_then(|known| known.body.revision()).unwrap_or(0);
                let body = ObjectFileBody::Intact(ObjectText::from(&with_next_revision(object, known)?));
                state.update_file(path, ObjectFile { body, ..entry });
            }
            return Ok(());
        }
        if object.is_deleting() && object.finalizers().is_empty() {
            return self.remove(state, lock, &object).map(drop);
        }
        self.write(state, lock, object).map(drop)
    }

    /// What the cache says of a path that was just refreshed.
    pub(super) fn cached(&self, state: &EmbeddedStoreState, path: &Path) -> Result<Option<Object>, ClusterError> {
        match state.files.get(path).map(|entry| &entry.body) {
            None => Ok(None),
            Some(ObjectFileBody::Intact(text)) => Ok(Some(text.parse())),
            Some(ObjectFileBody::Damaged(fault)) => {
                self.damaged_error(vec![(path.to_owned(), fault.clone())]).map_or(Ok(None), Err)
            }
        }
    }

    fn damaged_error(&self, damaged: Vec<(PathBuf, String)>) -> Option<ClusterError> {
        let full = |path: &Path| self.root.join(path).display().to_string();
        let ((first, fault), rest) = damaged.split_first()?;
        let mut message = format!("{fault}; fix the file, or delete it and sync again");
        if !rest.is_empty() {
            let others: Vec<String> = rest.iter().map(|(path, fault)| format!("{}: {fault}", full(path))).collect();
            message = format!("{message}. {} more damaged: {}", rest.len(), others.join("; "));
        }
        Some(ClusterError::Damaged { path: full(first), message })
    }

    /// Writes an object under the next resource version and tells the watchers.
    pub(super) fn write(
        &self,
        state: &mut EmbeddedStoreState,
        lock: &WriteLock,
        object: Object,
    ) -> Result<Object, ClusterError> {
        self.require_writable()?;
        let reference = object.reference();
        let path = layout::path_of(&reference)?;
        let object = self.assign_next_revision(state, lock, object)?;
        let full = self.root.join(&path);
        let text = file_format::encode(&object)
            .map_err(|fault| ClusterError::Storage { message: format!("cannot write {}: {fault}", full.display()) })?;
        self.options.files.replace(&full, text.as_bytes()).map_err(|error| ClusterError::Storage {
            message: format!("cannot write {}: {error}; nothing was changed", full.display()),
        })?;
        let stamp = fs::metadata(&full).map(|data| ObjectFileStamp::of(&data)).map_err(read_error)?;
        let kept = ObjectText::from(&object);
        state.watchers.broadcast_applied(&kept);
        let digest = Sha256::digest(text.as_bytes()).into();
        state.files.insert(path, ObjectFile { stamp, settled: false, digest, body: ObjectFileBody::Intact(kept) });
        Ok(object)
    }

    /// Takes an object away and tells the watchers its last state.
    pub(super) fn remove(
        &self,
        state: &mut EmbeddedStoreState,
        lock: &WriteLock,
        object: &Object,
    ) -> Result<Object, ClusterError> {
        self.require_writable()?;
        let path = layout::path_of(&object.reference())?;
        let last = self.assign_next_revision(state, lock, object.clone())?;
        let full = self.root.join(&path);
        self.options
            .files
            .remove(&full)
            .map_err(|error| ClusterError::Storage { message: format!("cannot delete {}: {error}", full.display()) })?;
        state.files.remove(&path);
        state.watchers.broadcast_deleted(&ObjectText::from(&last));
        Ok(last)
    }

    fn assign_next_revision(
        &self,
        state: &mut EmbeddedStoreState,
        lock: &WriteLock,
        object: Object,
    ) -> Result<Object, ClusterError> {
        let known = match lock.revision()? {
            Some(revision) => revision,
            None => self.highest_revision(state)?,
        };
        let object = with_next_revision(object, known)?;
        lock.set_revision(revision_of(object.resource_version()).unwrap_or(known))?;
        Ok(object)
    }

    fn require_writable(&self) -> Result<(), ClusterError> {
        if self.options.read_only {
            return Err(internal_error("a write to a cluster that is opened for reading"));
        }
        Ok(())
    }

    /// The highest resource version in the folder, when the counter is lost.
    fn highest_revision(&self, state: &EmbeddedStoreState) -> Result<u64, ClusterError> {
        let mut paths = Vec::new();
        for namespace in self.namespaces()? {
            for kind in kinds::ALL {
                self.object_files(&layout::folder_of(kind, &namespace), &mut paths)?;
            }
        }
        let highest = paths
            .par_iter()
            .map(|path| match object_file::read_object_file(&self.root, path, state.files.get(path)) {
                Ok(ObjectFileRead::Unchanged | ObjectFileRead::Touched(..)) => state.files.get(path)?.body.revision(),
                Ok(ObjectFileRead::Changed(entry, _)) => entry.body.revision(),
                Ok(ObjectFileRead::Gone) | Err(_) => None,
            })
            .max();
        Ok(highest.flatten().unwrap_or(0))
    }
}

impl EmbeddedStoreState {
    fn update_file(&mut self, path: PathBuf, entry: ObjectFile) {
        let news = match (&entry.body, self.files.get(&path).map(|old| &old.body)) {
            (ObjectFileBody::Intact(new), Some(ObjectFileBody::Intact(old))) if new == old => None,
            (ObjectFileBody::Intact(new), _) => Some(new.clone()),
            // A damaged object is still there: nobody may take it for deleted.
            (ObjectFileBody::Damaged(_), _) => None,
        };
        self.files.insert(path, entry);
        if let Some(object) = news {
            self.watchers.broadcast_applied(&object);
        }
    }

    fn remove_file(&mut self, path: &Path) {
        if let Some(ObjectFile { body: ObjectFileBody::Intact(text), .. }) = self.files.remove(path) {
            self.watchers.broadcast_deleted(&text);
        }
    }
}

/// An object under the resource version that follows the last one that is known, and its own.
fn with_next_revision(object: Object, known: u64) -> Result<Object, ClusterError> {
    let next = known.max(revision_of(object.resource_version()).unwrap_or(0)).saturating_add(1);
    let mut value = object.into_value();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::String(next.to_string()));
    }
    Object::from_value(value).map_err(internal_error)
}

/// For text that this module wrote itself and that does not read: a bug, reported rather than panicked on.
pub(super) fn internal_error(error: impl std::fmt::Display) -> ClusterError {
    ClusterError::Storage { message: format!("internal error in the embedded cluster: {error}; please report it") }
}
