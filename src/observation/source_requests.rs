//! What people ask of a source that this process follows by itself.

use std::fmt;
use std::sync::Arc;

/// Takes what people ask of one source.
pub trait SourceRequests: Send + Sync {
    /// Looks and syncs now.
    fn sync_now(&self);

    /// Lets go what is held back, as a commit and the digest of a plan name it.
    fn approve(&self, commit: &str, plan: &str);
}

/// Where people ask. Clones are of the same.
#[derive(Clone)]
pub struct RequestDesk(pub Arc<dyn SourceRequests>);

impl fmt::Debug for RequestDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestDesk")
    }
}
