//! Somebody who was let in.

use super::token_gate::{SignedInUser, TokenGate};
use std::sync::Arc;

/// Somebody who was let in.
#[derive(Clone, Debug)]
pub(super) enum Visitor {
    /// Whoever opened the link.
    LinkHolder,
    /// Whoever the API server knows, and what asks it of them.
    User(SignedInUser, Arc<TokenGate>),
}

impl Visitor {
    /// What the API server calls them.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::LinkHolder => None,
            Self::User(signed_in, _) => Some(signed_in.user.name()),
        }
    }

    /// Whether each request has a token, so that no other site can have a browser send it.
    pub(super) fn has_token(&self) -> bool {
        match self {
            Self::LinkHolder => false,
            Self::User(signed_in, _) => signed_in.has_token,
        }
    }
}
