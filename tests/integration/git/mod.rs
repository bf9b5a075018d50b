//! Stories on a real git host: see `tests/support/gitea`.

mod forge;
mod host;
mod rollback;
