//! Names of git commits.

/// The first seven characters of a commit, as git and the hosts show it; a shorter text stays as it is.
///
/// ```
/// assert_eq!(stator_core::commit::short_commit("9f2c1ab4d5e6f708192a3b4c5d6e7f8091a2b3c4"), "9f2c1ab");
/// ```
pub fn short_commit(commit: &str) -> &str {
    commit.char_indices().nth(7).and_then(|(end, _)| commit.get(..end)).unwrap_or(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_cut_to_seven_characters() {
        assert_eq!(short_commit("0123456789abcdef0123456789abcdef01234567"), "0123456");
        assert_eq!(short_commit("0123456"), "0123456");
        assert_eq!(short_commit(""), "");
        assert_eq!(short_commit("ééééééééé"), "ééééééé");
    }
}
