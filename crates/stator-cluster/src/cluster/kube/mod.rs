//! A Kubernetes API server: server-side apply, deletes with preconditions, paged lists, and watches that resume.
//!
//! Objects stay JSON values all the way; the crate `kube` gives the connection (kubeconfigs, exec plugins, TLS, proxies,
//! impersonation), and every request here is one of ours, so that its deadline, its code (201 or 200) and its refusal
//! are seen. Nothing is tried twice here: whoever knows what a call is for does that.

mod access_review;
mod api_client;
mod api_error;
mod connect;
mod connection;
mod connection_gate;
mod discovery;
mod events;
mod field_paths;
mod kube_cluster;
mod list_watch;
mod log_sources;
mod nodes;
mod owned_objects;
mod ownership_transfer;
mod paged_list;
mod pod_logs;
mod preflight;
mod request_observer;
mod resource_versions;
mod watch_stream;

#[cfg(test)]
mod tests;

pub use access_review::AccessRight;
pub use watch_stream::{WatchUpdate, WatchUpdateHandler};
// Callers still know it by this path.
pub use connect::{
    ConnectError, ConnectOptions, ImpersonatedUser, KubeconfigContexts, RequestDeadlines, ServiceAccount,
    kubeconfig_contexts, kubeconfig_files,
};
pub use events::{KubeEvent, events_of_models};
pub use kube_cluster::KubeCluster;
pub use log_sources::{LogSource, PodOwner, PodSelection, pod_owners};
pub use owned_objects::OwnedObjects;
pub use pod_logs::{LogLine, LogRequest, LogStream};
pub use preflight::{PreflightProblem, PreflightReport, PreflightSubject};
pub use request_observer::{ObservedRequest, RequestObserver};
