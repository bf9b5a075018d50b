//! Notices what other processes and people do to the files, for the watchers.

use super::store::EmbeddedStore;
use notify::{RecursiveMode, Watcher};
use stator_core::dynamo::kinds;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the folder is read where the system tells of changes: only a net under that.
const RESCAN_INTERVAL: Duration = Duration::from_secs(5);
/// A reading of the folder is followed by so many times what it took, so that it takes half a percent of a core at most.
const RESCAN_REST_FACTOR: u32 = 200;
/// How often it is read where the system does not.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// As above, where nothing else tells of changes.
const POLL_REST_FACTOR: u32 = 4;
/// Events that come so close together are handled as one.
const DEBOUNCE_TIME: Duration = Duration::from_millis(10);

/// Starts the one thread of a store that looks at the folder. It ends with the store.
pub(super) fn start(store: &Arc<EmbeddedStore>) {
    if store.watching.swap(true, Ordering::SeqCst) {
        return;
    }
    let root = store.root.clone();
    let weak = Arc::downgrade(store);
    let spawned =
        std::thread::Builder::new().name("stator-embedded-watch".to_owned()).spawn(move || watch_loop(&root, &weak));
    if let Err(error) = spawned {
        store.watching.store(false, Ordering::SeqCst);
        tracing::warn!(%error, "changes that others make to the embedded cluster are noticed late");
    }
}

fn watch_loop(root: &std::path::Path, store: &Weak<EmbeddedStore>) {
    let (sender, events) = channel();
    let watcher = start_notify(root, sender.clone());
    let (interval, rest_factor) = match watcher {
        Some(_) => (RESCAN_INTERVAL, RESCAN_REST_FACTOR),
        None => (POLL_INTERVAL, POLL_REST_FACTOR),
    };
    // Short waits in between, so that the thread ends soon after its store.
    let step = interval.min(Duration::from_millis(500));
    let (mut since, mut pause) = (Duration::ZERO, interval);
    loop {
        let mut paths = BTreeSet::new();
        match events.recv_timeout(step) {
            Ok(event) => {
                paths.extend(event);
                while let Ok(event) = events.recv_timeout(DEBOUNCE_TIME) {
                    paths.extend(event);
                    if paths.len() > 1000 {
                        break;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => since += step,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(step),
        }
        let Some(store) = store.upgrade() else { return };
        let mut state = store.state();
        if state.watchers.is_empty() {
            continue;
        }
        let all = since >= pause || paths.contains(&None);
        let named: Vec<PathBuf> = paths
            .into_iter()
            .flatten()
            .filter_map(|path| path.strip_prefix(root).map(ToOwned::to_owned).ok())
            .filter(|path| super::layout::reference_of(path).is_some())
            .collect();
        let mut outcome = store.refresh(&mut state, named, None);
        if all {
            let began = Instant::now();
            for (kind, namespace) in state.watchers.scopes() {
                if let Some(kind) = kinds::by_name(kind) {
                    outcome = outcome.and(store.refresh_kind(&mut state, kind, namespace.as_deref()).map(drop));
                }
            }
            (since, pause) = (Duration::ZERO, interval.max(began.elapsed().saturating_mul(rest_factor)));
        }
        if let Err(error) = outcome {
            // The watchers' next list says it too, to somebody who can act on it.
            tracing::warn!(%error, "the embedded cluster cannot be watched at the moment");
        }
    }
}

fn is_hidden(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The system's own notices; each event is a set of paths, `None` standing for "anything".
fn start_notify(
    root: &std::path::Path,
    sender: Sender<BTreeSet<Option<PathBuf>>>,
) -> Option<notify::RecommendedWatcher> {
    let folder = root.to_owned();
    let handler = move |event: notify::Result<notify::Event>| {
        let paths = match event {
            // Our own reading makes access events; they say nothing.
            Ok(event) if event.kind.is_access() => return,
            // Nor do files that are no objects: the lock, the counter, and what is being written.
            Ok(event) if !event.need_rescan() && event.paths.iter().all(|path| *path != folder && is_hidden(path)) => {
                return;
            }
            // A folder that comes or goes takes its files along.
            Ok(event) if event.need_rescan() || event.paths.iter().any(|path| path.extension().is_none()) => {
                BTreeSet::from([None])
            }
            Ok(event) => event.paths.into_iter().map(Some).collect(),
            Err(_) => BTreeSet::from([None]),
        };
        let _ = sender.send(paths);
    };
    let mut watcher = notify::recommended_watcher(handler).ok()?;
    watcher.watch(root, RecursiveMode::Recursive).ok()?;
    Some(watcher)
}
