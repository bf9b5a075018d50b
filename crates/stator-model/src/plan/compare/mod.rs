//! Desired against live: what an apply would change, whose fields it takes, and what drifted or stayed as it was.

pub(super) mod adoption;
pub(super) mod drift;
pub(super) mod dry_run;
pub(super) mod server_merge;
pub(super) mod unchanged;
