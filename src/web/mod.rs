//! Pages and API: what the board holds, over HTTP, to whoever opened the link that was printed, or to whoever the API server of
//! a cluster knows. Nothing is written.
//!
//! | File | What lives there |
//! |-|-|
//! | `listener` | a listener of its own, so that streams take no place from webhooks and probes |
//! | `access` | who may read, in one of two ways |
//! | `link_gate` | on this machine: the host that is named, the one-time link, the cookie |
//! | `token_gate` | in a cluster: tokens, and what their owners may see |
//! | `sessions` | what nobody can guess, and who signed in |
//! | `sign_in` | the page where a token signs in, and out |
//! | `request_scope`, `visitor` | who sends a request, and what they see |
//! | `route` | what a path is, and what holds for it |
//! | `routes` | from a request to its answer |
//! | `drafts` | models that are sent: where from, how much, for how long; and judging them |
//! | `forms` | the form: opened, sent, and downloaded as a patch |
//! | `state` | what every request is answered from |
//! | `stream`, `stream_places` | server-sent events, and how many |
//! | `answer` | what every answer has: headers, entity tags, and a problem as a page or as JSON |

mod access;
mod actions;
mod answer;
mod drafts;
mod forms;
mod link_gate;
mod listener;
mod oidc;
mod pods;
mod proposals;
mod request_scope;
mod route;
mod routes;
mod sessions;
pub(crate) use sessions::random_token;
mod sign_in;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod token_gate;

pub use access::{WebAccess, WebListenError};
pub use listener::WebListener;
pub use oidc::{OidcSettings, is_protected};
pub use route::route_rules;
pub use token_gate::TokenAccess;
