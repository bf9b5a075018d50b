//! A controller whose sources are in a file.

use super::{Daemon, DaemonStartError};
use crate::controller::sources::folder_watch::FolderWatch;
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::resolved_source::ResolvedSource;
use crate::controller::supervisor::{Controller, ControllerOptions, SourceChanges};
use crate::server::{ListenAddresses, ListenOptions, ProcessListeners};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Reads the file of sources, and tells people what came of it.
pub trait SourceFileReader {
    /// The sources of the file as it is now. `None` where it has errors: those that run go on as they were.
    fn read_sources(&mut self) -> Option<Vec<ResolvedSource>>;

    /// What was read runs now, with these changes.
    fn report_changes(&mut self, changes: &SourceChanges);
}

/// What a [`FileController`] works on.
#[derive(Debug)]
pub struct FileControllerOptions {
    /// The file, which is read again whenever it changes.
    pub file: PathBuf,
    /// The folder of the file, which is watched.
    pub folder: PathBuf,
    /// What the file says now.
    pub sources: Vec<ResolvedSource>,
    /// Where to listen; nowhere with [`ControllerOptions::once`].
    pub listen: Option<ListenOptions>,
    /// The cluster, and how sources are synced to it.
    pub controller: ControllerOptions,
}

/// A controller whose sources are in a file.
#[derive(Debug)]
pub struct FileController<R> {
    file: PathBuf,
    folder: PathBuf,
    sources: Vec<ResolvedSource>,
    once: bool,
    controller: Controller,
    addresses: Option<ListenAddresses>,
    serving: Option<JoinHandle<()>>,
    reader: R,
}

impl<R: SourceFileReader> FileController<R> {
    /// Makes the folder for mirrors, and listens. No source is looked at before [`Daemon::run`].
    ///
    /// # Errors
    /// See [`DaemonStartError`].
    pub async fn start(options: FileControllerOptions, reader: R) -> Result<Self, DaemonStartError> {
        let FileControllerOptions { file, folder, sources, listen, controller } = options;
        fs_err::create_dir_all(&controller.data_dir)?;
        let listeners = match listen {
            Some(listen) => Some(ProcessListeners::bind(listen).await?),
            None => None,
        };
        let once = controller.once;
        let controller = Controller::new(controller);
        let addresses = listeners.as_ref().map(ProcessListeners::addresses);
        let serving = listeners.map(|listeners| {
            listeners.serve(&controller.registry(), &controller.metrics(), &controller.shutdown_token())
        });
        Ok(Self { file, folder, sources, once, controller, addresses, serving, reader })
    }

    /// Where it listens, where it does.
    pub fn addresses(&self) -> Option<ListenAddresses> {
        self.addresses
    }
}

impl<R: SourceFileReader> Daemon for FileController<R> {
    fn registry(&self) -> Arc<SourceRegistry> {
        self.controller.registry()
    }

    async fn run(&mut self) -> bool {
        self.controller.apply(std::mem::take(&mut self.sources));
        if self.once {
            return self.controller.wait_until_ended().await;
        }
        // The folder and not the file: Kubernetes and editors put a new file in the old one's place.
        let watch = FolderWatch::new(&self.folder, false, |_| true);
        let mut last = fs_err::read(&self.file).ok();
        loop {
            watch.changed().await;
            let now = fs_err::read(&self.file).ok();
            if now == last {
                continue;
            }
            last = now;
            let sources = self.reader.read_sources();
            self.controller.metrics().record_reload(sources.is_some());
            if let Some(sources) = sources {
                let changes = self.controller.apply(sources);
                self.reader.report_changes(&changes);
            }
        }
    }

    async fn shut_down(mut self) {
        self.controller.shutdown_token().cancel();
        self.controller.wait_until_ended().await;
        if let Some(serving) = self.serving {
            let _ = serving.await;
        }
    }
}
