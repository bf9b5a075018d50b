//! What happens to each object of a plan, and why: to what git wants, to what it no longer has, and what either waits for.

pub(super) mod desired_form;
pub(super) mod desired_object;
pub(super) mod download;
pub(super) mod file_versions;
pub(super) mod gpu_usage;
pub(super) mod left_behind;
pub(super) mod prune;
pub(super) mod renames;
pub(super) mod replacement;
pub(super) mod route;
pub(super) mod shared_use;
pub(super) mod unlisted;
