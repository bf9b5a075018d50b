//! Whether the cluster is as git says, as a word.

use serde::Serialize;

/// Whether the cluster is as git says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr)]
pub enum SyncState {
    /// It is.
    Synced,
    /// A sync would change something.
    OutOfSync,
    /// A sync cannot make it so: somebody else is in the way, or the model has errors.
    Blocked,
    /// It cannot be told.
    #[default]
    Unknown,
}

impl SyncState {
    /// The word for it, in JSON and wherever people read it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The state of a word; `Unknown` for any other, so that what a later stator wrote can be read.
    pub fn parse_or_unknown(word: &str) -> Self {
        let all = [Self::Synced, Self::OutOfSync, Self::Blocked];
        all.into_iter().find(|one| one.as_str() == word).unwrap_or_default()
    }
}
