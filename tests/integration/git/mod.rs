//! Stories on a real git host: see `tests/support/gitea`.

mod canaries;
mod forge;
mod host;
mod previews;
mod push;
mod rollback;
mod stage;
mod trouble;
mod trust;
mod webhooks;
