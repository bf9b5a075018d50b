//! The processes that run until they are told to end: of which parts each is built, and in which order they start and end.
//!
//! | File | What lives there |
//! |-|-|
//! | `file_controller` | `stator controller --source FILE`: the controller, its sources from a file |
//! | `object_controller` | `stator controller`: one replica of the controller, its sources from `ModelSource` objects |
//! | `webhook_server` | `stator server`: webhooks for sources that other processes run |
//! | `process_identity` | what a process is called among others, and where their leases are |
//!
//! Flags, what is printed and exit codes are the command line's.

mod file_controller;
mod object_controller;
pub mod process_identity;
mod webhook_server;

pub use file_controller::{FileController, FileControllerOptions, SourceFileReader};
pub use object_controller::{ObjectController, ObjectControllerOptions};
pub use webhook_server::{WebhookServer, WebhookServerOptions};

use crate::controller::sources::registry::SourceRegistry;
use crate::server::BindError;
use std::future::Future;
use std::sync::Arc;

/// A process that was started.
pub trait Daemon {
    /// How its sources stand.
    fn registry(&self) -> Arc<SourceRegistry>;

    /// Works until nothing is left to do, which is never but for a controller that syncs each source once. True when every
    /// source ended well. Whoever stops waiting for it calls [`Daemon::shut_down`].
    fn run(&mut self) -> impl Future<Output = bool>;

    /// Ends with grace: what is under way is finished, writes are carried out to their end, and leases are handed over. Dropped
    /// before it is through, what is left is for the next start to put right.
    fn shut_down(self) -> impl Future<Output = ()>;
}

/// Why a process did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonStartError {
    /// The folder for mirrors cannot be made.
    #[error(transparent)]
    DataFolder(#[from] std::io::Error),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] BindError),
}
