//! Where the manual is, for messages that lead there.

/// The address of a heading of a page of `docs/`, such as `page("how-to/prune-safely", "many-deletions-at-once")`. A test
/// holds that the sources name only what is there.
pub fn page(path: &str, heading: &str) -> String {
    format!("https://stator.dev/docs/{path}#{heading}")
}
