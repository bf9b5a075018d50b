//! Sources as they are known: where they are read from, as whom they act, when they are due, and how they stand.

pub mod file;
pub mod folder_watch;
pub mod hints;
pub mod manual_requests;
pub mod notification_target;
pub mod objects;
pub mod owned_shards;
pub mod registry;
pub mod resolved_source;
pub mod source_order;
pub mod spec;
pub mod sync_windows;
pub mod tenancy;
