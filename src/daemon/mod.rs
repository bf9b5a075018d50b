//! The processes that run until they are asked to end: of which parts each is built, and in which order they start and end.
//!
//! | File | What lives there |
//! |-|-|
//! | `file_controller` | `stator controller --source-file FILE`: the controller, its sources from a file |
//! | `object_controller` | `stator controller`: one replica of the controller, its sources from `ModelSource` objects |
//! | `webhook_server` | `stator server`: webhooks for sources that other processes run |
//! | `process_identity` | what a process is called among others, and where their leases are |
//!
//! Flags, what is printed and exit codes are the command line's.

mod file_controller;
mod object_controller;
mod webhook_server;

pub use file_controller::{FileController, FileControllerOptions, SourceFileReader};
pub use object_controller::{ObjectController, ObjectControllerOptions};
pub use webhook_server::{WebhookServer, WebhookServerOptions};

use crate::controller::sources::registry::SourceRegistry;
use crate::server::BindError;
use stator_cluster::cluster::kube::ServiceAccount;
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

/// The namespace of leases outside a pod.
const DEFAULT_LEASE_NAMESPACE: &str = "stator-system";
/// The longest part of a machine's name that is kept.
const MAX_HOST_CHARS: usize = 40;
/// Set by Kubernetes in every pod.
const POD_VARIABLE: &str = "KUBERNETES_SERVICE_HOST";

/// Whether this process runs in a pod.
pub fn is_in_pod() -> bool {
    std::env::var_os(POD_VARIABLE).is_some()
}

/// Whether a text can be the name of an object of Kubernetes: of a namespace, a service account, a pod. These are
/// lower-case DNS names (RFC 1123) of at most 253 characters.
pub fn is_object_name(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=253).contains(&text.len()) && text.chars().all(is_inside) && text.starts_with(is_end) && text.ends_with(is_end)
}

/// The name of the pod, or that of the machine with a random part, as several processes may run on it.
pub fn default_identity() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| fs_err::read_to_string("/etc/hostname").ok());
    let host: String = host.unwrap_or_default().trim().to_ascii_lowercase().chars().take(MAX_HOST_CHARS).collect();
    let host = if is_object_name(&host) { host } else { "stator".to_owned() };
    if is_in_pod() {
        return host;
    }
    let random: String = uuid::Uuid::new_v4().simple().to_string().chars().take(5).collect();
    format!("{host}-{random}")
}

/// The namespace of the pod that this process runs in, else `stator-system`.
pub fn default_lease_namespace() -> String {
    let of_pod = ServiceAccount::from_pod_env().ok().and_then(|account| account.namespace());
    of_pod.filter(|namespace| is_object_name(namespace)).unwrap_or_else(|| DEFAULT_LEASE_NAMESPACE.to_owned())
}
