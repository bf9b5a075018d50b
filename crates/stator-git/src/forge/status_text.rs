//! Texts within the limits of hosts.

use sha2::{Digest as _, Sha256};
use stator_core::text::{TextLimit, one_line};

/// The most characters of a context. GitHub and GitLab keep 255; the others are held to the same.
pub(super) const MAX_CONTEXT_LENGTH: usize = 255;

/// One line of at most `limit` UTF-16 units, see [`one_line`].
pub(super) fn truncate_text(text: &str, limit: usize) -> String {
    one_line(text, TextLimit::Utf16Units(limit))
}

/// A context as every host keeps it: in lower case, as GitHub takes `A` and `a` for one and Gitea for two; and where it is
/// too long, a beginning that is distinguished from others by a digest of the full text. Cut plainly, two models would
/// share one.
pub(super) fn normalize_context(text: &str) -> String {
    let whole = one_line(text, TextLimit::Utf16Units(usize::MAX)).to_lowercase();
    if whole.encode_utf16().count() <= MAX_CONTEXT_LENGTH {
        return whole;
    }
    let digest = hex::encode(Sha256::digest(whole.as_bytes()));
    let tail = digest.get(..8).unwrap_or_default();
    let head = truncate_text(&whole, MAX_CONTEXT_LENGTH - tail.len());
    format!("{}-{tail}", head.trim_end_matches('…'))
}

/// What Bitbucket knows a status by: at most 40 characters, so a digest of the context, as Flux has it.
pub(super) fn bitbucket_status_key(context: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, context.as_bytes());
    hex::encode(digest.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_contexts_that_begin_alike_stay_apart() {
        assert_eq!(normalize_context("Stator/Prod"), "stator/prod");
        let [one, other] = ["a", "b"].map(|end| normalize_context(&format!("stator/prod/{}{end}", "m".repeat(300))));
        assert_ne!(one, other);
        assert_eq!((one.len(), other.len()), (MAX_CONTEXT_LENGTH, MAX_CONTEXT_LENGTH));
    }

    #[test]
    fn a_key_is_the_sha1_of_its_context() {
        assert_eq!(bitbucket_status_key("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    proptest! {
        #[test]
        fn nothing_is_longer_than_its_limit(text in "\\PC{0,400}|[a-z]{250,260}|.{0,40}", limit in 0_usize..300) {
            prop_assert!(truncate_text(&text, limit).encode_utf16().count() <= limit);
            let short = normalize_context(&text);
            prop_assert!(short.encode_utf16().count() <= MAX_CONTEXT_LENGTH);
            prop_assert_eq!(normalize_context(&short), short.clone());
            prop_assert_eq!(bitbucket_status_key(&short).len(), 40);
        }
    }
}
