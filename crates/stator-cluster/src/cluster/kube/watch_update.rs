//! The updates of a kind that is listed and watched.

use crate::cluster::{ClusterError, WatchEvent};
use stator_core::object::Object;

/// One update of a kind. Versions are resource versions.
#[derive(Debug)]
pub enum WatchUpdate {
    /// A list begins, as of that version: every object comes as [`WatchUpdate::Listed`], until [`WatchUpdate::ListComplete`]. A list that
    /// breaks off begins anew.
    ListStarted(String),
    /// One object of a list.
    Listed(Object),
    /// The list is whole: what it did not show is not there.
    ListComplete,
    /// A change, as the watch shows it.
    Event(WatchEvent, String),
    /// Nothing happened up to that version.
    Bookmark(String),
    /// The watch is open: everything is reported as it happens.
    WatchOpened,
    /// The watch cannot be opened at the moment: there may be news that nobody has heard of.
    WatchFailed(ClusterError),
    /// No list is to be had.
    ListFailed(ClusterError),
}

impl WatchUpdate {
    /// The version that it is about, where it has one.
    pub fn resource_version(&self) -> Option<&str> {
        match self {
            Self::ListStarted(version) | Self::Event(_, version) | Self::Bookmark(version) => Some(version),
            Self::Listed(object) => Some(object.resource_version().unwrap_or_default()),
            Self::ListComplete | Self::WatchOpened | Self::WatchFailed(_) | Self::ListFailed(_) => None,
        }
    }
}

/// The receiver.
pub type WatchUpdateHandler<'a> = &'a (dyn Fn(WatchUpdate) + Send + Sync);
