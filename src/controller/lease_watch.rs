//! Leases as they come from the API server: one list, and one watch that the server ends and that is opened again.

use futures_util::stream::{Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};

/// What is new about the leases that are watched.
#[derive(Debug)]
pub(in crate::controller) enum LeaseWatchEvent {
    /// These are all that there are. Comes first, and again after events were lost.
    Listed(Vec<Lease>),
    /// One is there, new or changed.
    Set(Box<Lease>),
    /// One is gone; this was its last state.
    Deleted(Box<Lease>),
}

/// Watches the leases that `config` selects. After an error the stream goes on with a new list, at once: whoever reads it
/// pauses before.
pub(in crate::controller) fn watch_leases(
    api: Api<Lease>,
    config: watcher::Config,
) -> impl Stream<Item = Result<LeaseWatchEvent, watcher::Error>> + Send {
    let events = watcher(api, config).scan(Vec::new(), |listing, event| {
        let news = match event {
            Ok(Event::Init) => {
                listing.clear();
                None
            }
            Ok(Event::InitApply(lease)) => {
                listing.push(lease);
                None
            }
            Ok(Event::InitDone) => Some(Ok(LeaseWatchEvent::Listed(std::mem::take(listing)))),
            Ok(Event::Apply(lease)) => Some(Ok(LeaseWatchEvent::Set(Box::new(lease)))),
            Ok(Event::Delete(lease)) => Some(Ok(LeaseWatchEvent::Deleted(Box::new(lease)))),
            Err(error) => Some(Err(error)),
        };
        std::future::ready(Some(news))
    });
    events.filter_map(std::future::ready)
}
