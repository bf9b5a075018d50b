//! Somebody who was let in.

use crate::server::ReviewedUser;
use std::sync::Arc;

/// Somebody who was let in.
#[derive(Clone, Debug)]
pub(super) enum Visitor {
    /// Whoever opened the link.
    LinkHolder,
    /// Whoever the API server knows.
    User {
        user: Arc<ReviewedUser>,
        /// Whether each request has the token, so that no other site can have a browser send it.
        has_token: bool,
    },
}

impl Visitor {
    /// What the API server calls them.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::LinkHolder => None,
            Self::User { user, has_token: _ } => Some(user.name()),
        }
    }
}
