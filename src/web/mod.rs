//! Pages and API: what the board holds, over HTTP, to whoever opened the link that was printed. Nothing is
//! written.
//!
//! | File | What lives there |
//! |-|-|
//! | `listener` | a listener of its own, on this machine alone, so that streams take no place from webhooks and probes |
//! | `access` | who may read: the host that is named, the one-time link, the cookie |
//! | `routes` | from a path to a page or to an endpoint of the API |
//! | `drafts` | models that are sent: where from, how much, for how long; and judging them |
//! | `forms` | the form: opened, sent, and downloaded as a patch |
//! | `state` | what every request is answered from |
//! | `stream` | server-sent events |
//! | `answer` | what every answer has: headers, entity tags, and a problem as a page or as JSON |

mod access;
mod answer;
mod drafts;
mod forms;
mod listener;
mod routes;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub use listener::{WebListenError, WebListener};
