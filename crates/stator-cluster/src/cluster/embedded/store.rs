//! The folder, read through a cache that notices what people do to the files.

use super::disk;
use super::entry::{self, Body, Entry, Read, Stamp, unreadable};
use super::hub::Hub;
use super::layout;
use super::lock::WriteLock;
use super::text::{self, Edit};
use super::{Options, engine};
use crate::cluster::ClusterError;
use fs_err as fs;
use rayon::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stator_core::dynamo::kinds::{self, Kind};
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The embedded cluster without its asynchronous face.
pub(super) struct Store {
    pub(super) root: PathBuf,
    pub(super) options: Options,
    /// How many simulated operators run.
    pub(super) operators: AtomicUsize,
    /// Whether the thread that looks at the folder runs.
    pub(super) watching: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// By path below the root.
    entries: BTreeMap<PathBuf, Entry>,
    pub(super) hub: Hub,
}

impl Store {
    pub(super) fn open(root: &Path, options: Options) -> Result<Self, ClusterError> {
        let storage = |error: std::io::Error| ClusterError::Storage {
            message: format!("cannot open the embedded cluster: {error}"),
        };
        fs::create_dir_all(root).map_err(storage)?;
        let root = fs::canonicalize(root).map_err(storage)?;
        let store = Self {
            root,
            options,
            operators: AtomicUsize::new(0),
            watching: AtomicBool::new(false),
            state: Mutex::default(),
        };
        {
            let _lock = WriteLock::acquire(&store.root, store.options.lock_wait)?;
            disk::sweep(&store.root).map_err(storage)?;
        }
        Ok(store)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst an older cache, and every read compares it with the folder.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One object as the folder now holds it.
    pub(super) fn get(&self, reference: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        let path = layout::path_of(reference)?;
        let mut state = self.state();
        self.refresh(&mut state, vec![path.clone()], None)?;
        self.cached(&mut state, &path)
    }

    /// The objects of a kind. Fails when one of their files is damaged: a list that lacks one would prune it.
    pub(super) fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let mut state = self.state();
        let paths = self.refresh_kind(&mut state, kind, namespace)?;
        let mut damaged = Vec::new();
        let fresh: Vec<Option<Object>> =
            paths.iter().map(|path| state.entries.get_mut(path).and_then(|entry| entry.fresh.take())).collect();
        let found: Vec<(Option<Object>, &str)> = paths
            .iter()
            .zip(fresh)
            .filter_map(|(path, fresh)| match state.entries.get(path).map(|entry| &entry.body) {
                Some(Body::Whole(text)) => Some((fresh, text.as_ref())),
                Some(Body::Damaged(fault)) => {
                    damaged.push((path.clone(), fault.clone()));
                    None
                }
                None => None,
            })
            .collect();
        if let Some(error) = self.damage(damaged) {
            return Err(error);
        }
        let whole = |(fresh, text): (Option<Object>, &str)| fresh.map_or_else(|| parse(text), Ok);
        let mut objects = found.into_par_iter().map(whole).collect::<Result<Vec<Object>, ClusterError>>()?;
        drop(state);
        if !labels.is_empty() {
            objects.retain(|object| {
                let own = object.labels();
                labels.iter().all(|(key, value)| own.get(key.as_str()) == Some(&value.as_str()))
            });
        }
        objects.par_sort_by_cached_key(Object::reference);
        Ok(objects)
    }

    /// Reads again what changed under a kind, tells the watchers, and gives the paths that are there.
    pub(super) fn refresh_kind(
        &self,
        state: &mut State,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Result<Vec<PathBuf>, ClusterError> {
        let namespaces = match namespace {
            Some(name) if layout::is_label(name) => vec![name.to_owned()],
            Some(_) => Vec::new(),
            None => self.namespaces()?,
        };
        let mut here = Vec::new();
        for namespace in &namespaces {
            self.files(&layout::folder_of(kind, namespace), &mut here)?;
        }
        here.sort();
        let gone = state.entries.keys().filter(|path| {
            layout::reference_of(path).is_some_and(|object| {
                object.kind == kind.kind && namespace.is_none_or(|namespace| namespace == object.namespace)
            }) && here.binary_search(path).is_err()
        });
        let all: Vec<PathBuf> = here.iter().chain(gone).cloned().collect();
        self.refresh(state, all, None)?;
        here.retain(|path| state.entries.contains_key(path));
        Ok(here)
    }

    /// Every namespace that has a folder.
    fn namespaces(&self) -> Result<Vec<String>, ClusterError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
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
    fn files(&self, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), ClusterError> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
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
        state: &mut State,
        paths: Vec<PathBuf>,
        held: Option<&WriteLock>,
    ) -> Result<(), ClusterError> {
        let read = |path: PathBuf| -> Result<(PathBuf, Read), ClusterError> {
            let found = entry::read(&self.root, &path, state.entries.get(&path))?;
            Ok((path, found))
        };
        let reads: Vec<(PathBuf, Read)> = if paths.len() > 16 {
            paths.into_par_iter().map(read).collect::<Result<_, _>>()?
        } else {
            paths.into_iter().map(read).collect::<Result<_, _>>()?
        };
        let mut edited = Vec::new();
        for (path, read) in reads {
            match read {
                Read::Same => {}
                Read::Touched(stamp, settled) => {
                    if let Some(entry) = state.entries.get_mut(&path) {
                        (entry.stamp, entry.settled) = (stamp, settled);
                    }
                }
                Read::Gone => state.forget(&path),
                Read::Found(_, Some(_)) => edited.push(path),
                Read::Found(entry, None) => state.learn(path, entry),
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
        edited.into_iter().try_for_each(|path| self.take_in(state, lock, path))
    }

    pub(super) fn lock(&self) -> Result<WriteLock, ClusterError> {
        WriteLock::acquire(&self.root, self.options.lock_wait)
    }

    /// Takes a hand edit in as the API server would a write: new resource version, and generation where it counts.
    fn take_in(&self, state: &mut State, lock: &WriteLock, path: PathBuf) -> Result<(), ClusterError> {
        // Under the lock, since another process may have taken it in already.
        let (entry, edit) = match entry::read(&self.root, &path, None)? {
            Read::Gone | Read::Same | Read::Touched(..) => {
                state.forget(&path);
                return Ok(());
            }
            Read::Found(entry, edit) => (entry, edit),
        };
        let (Body::Whole(text), Some(edit)) = (&entry.body, edit) else {
            state.learn(path, entry);
            return Ok(());
        };
        let object = parse(text)?;
        if let Err(fault) = engine::by_hand(layout::kind_of(&object.reference())?, &object) {
            state.learn(path, Entry { body: Body::Damaged(fault), fresh: None, ..entry });
            return Ok(());
        }
        let mut value = object.into_value();
        if edit == Edit::Main
            && let Some(generation) = value.pointer_mut("/metadata/generation")
            && let Some(number) = generation.as_i64()
        {
            *generation = json!(number.saturating_add(1));
        }
        let object = Object::from_value(value).map_err(impossible)?;
        tracing::info!(object = %object.reference(), "edited by hand");
        if object.is_deleting() && object.finalizers().is_empty() {
            return self.remove(state, lock, &object).map(drop);
        }
        self.write(state, lock, object).map(drop)
    }

    /// What the cache says of a path that was just refreshed.
    pub(super) fn cached(&self, state: &mut State, path: &Path) -> Result<Option<Object>, ClusterError> {
        if let Some(fresh) = state.entries.get_mut(path).and_then(|entry| entry.fresh.take()) {
            return Ok(Some(fresh));
        }
        match state.entries.get(path).map(|entry| &entry.body) {
            None => Ok(None),
            Some(Body::Whole(text)) => parse(text).map(Some),
            Some(Body::Damaged(fault)) => self.damage(vec![(path.to_owned(), fault.clone())]).map_or(Ok(None), Err),
        }
    }

    fn damage(&self, damaged: Vec<(PathBuf, String)>) -> Option<ClusterError> {
        let full = |path: &Path| self.root.join(path).display().to_string();
        let ((first, fault), rest) = damaged.split_first()?;
        let mut message = format!("{fault}; mend the file, or delete it and sync again");
        if !rest.is_empty() {
            let others: Vec<String> = rest.iter().map(|(path, fault)| format!("{}: {fault}", full(path))).collect();
            message = format!("{message}. {} more damaged: {}", rest.len(), others.join("; "));
        }
        Some(ClusterError::Damaged { path: full(first), message })
    }

    /// Writes an object under the next resource version and tells the watchers.
    pub(super) fn write(&self, state: &mut State, lock: &WriteLock, object: Object) -> Result<Object, ClusterError> {
        let reference = object.reference();
        let path = layout::path_of(&reference)?;
        let object = self.at_next_revision(state, lock, object)?;
        let full = self.root.join(&path);
        let text = text::encode(&object)
            .map_err(|fault| ClusterError::Storage { message: format!("cannot write {}: {fault}", full.display()) })?;
        self.options.disk.replace(&full, text.as_bytes()).map_err(|error| ClusterError::Storage {
            message: format!("cannot write {}: {error}; nothing was changed", full.display()),
        })?;
        let stamp = fs::metadata(&full).map(|data| Stamp::of(&data)).map_err(unreadable)?;
        let body = Body::Whole(object.value().to_string().into());
        let digest = Sha256::digest(text.as_bytes()).into();
        state.entries.insert(path, Entry { stamp, settled: false, digest, body, fresh: None });
        state.hub.applied(&object);
        Ok(object)
    }

    /// Takes an object away and tells the watchers its last state.
    pub(super) fn remove(&self, state: &mut State, lock: &WriteLock, object: &Object) -> Result<Object, ClusterError> {
        let path = layout::path_of(&object.reference())?;
        let last = self.at_next_revision(state, lock, object.clone())?;
        let full = self.root.join(&path);
        self.options
            .disk
            .remove(&full)
            .map_err(|error| ClusterError::Storage { message: format!("cannot delete {}: {error}", full.display()) })?;
        state.entries.remove(&path);
        state.hub.deleted(&last);
        Ok(last)
    }

    fn at_next_revision(&self, state: &mut State, lock: &WriteLock, object: Object) -> Result<Object, ClusterError> {
        let known = match lock.revision()? {
            Some(revision) => revision,
            None => self.highest(state)?,
        };
        let own = object.resource_version().and_then(|text| text.parse().ok()).unwrap_or(0);
        let next = known.max(own).saturating_add(1);
        lock.set_revision(next)?;
        let mut value = object.into_value();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), Value::String(next.to_string()));
        }
        Object::from_value(value).map_err(impossible)
    }

    /// The highest resource version in the folder, when the counter is lost.
    fn highest(&self, state: &State) -> Result<u64, ClusterError> {
        let mut paths = Vec::new();
        for namespace in self.namespaces()? {
            for kind in kinds::ALL {
                self.files(&layout::folder_of(kind, &namespace), &mut paths)?;
            }
        }
        let revision = |text: &str| parse(text).ok()?.resource_version()?.parse::<u64>().ok();
        let highest = paths
            .par_iter()
            .map(|path| match entry::read(&self.root, path, state.entries.get(path)) {
                Ok(Read::Same | Read::Touched(..)) => match &state.entries.get(path)?.body {
                    Body::Whole(text) => revision(text),
                    Body::Damaged(_) => None,
                },
                Ok(Read::Found(Entry { body: Body::Whole(text), .. }, _)) => revision(&text),
                Ok(Read::Found(..) | Read::Gone) | Err(_) => None,
            })
            .max();
        Ok(highest.flatten().unwrap_or(0))
    }
}

impl State {
    fn learn(&mut self, path: PathBuf, mut entry: Entry) {
        let news = match (&entry.body, self.entries.get(&path).map(|old| &old.body)) {
            _ if self.hub.is_empty() => None,
            (Body::Whole(new), Some(Body::Whole(old))) if new == old => None,
            (Body::Whole(new), _) => entry.fresh.take().or_else(|| parse(new).ok()),
            // A damaged object is still there: nobody may take it for deleted.
            (Body::Damaged(_), _) => None,
        };
        self.entries.insert(path, entry);
        if let Some(object) = news {
            self.hub.applied(&object);
        }
    }

    fn forget(&mut self, path: &Path) {
        if let Some(Entry { body: Body::Whole(text), .. }) = self.entries.remove(path)
            && !self.hub.is_empty()
            && let Ok(object) = parse(&text)
        {
            self.hub.deleted(&object);
        }
    }
}

fn parse(text: &str) -> Result<Object, ClusterError> {
    serde_json::from_str(text).map_err(impossible).and_then(|value| Object::from_value(value).map_err(impossible))
}

/// For text that this module wrote itself and that does not read: a bug, told rather than panicked.
pub(super) fn impossible(error: impl std::fmt::Display) -> ClusterError {
    ClusterError::Storage { message: format!("internal error in the embedded cluster: {error}; please report it") }
}
