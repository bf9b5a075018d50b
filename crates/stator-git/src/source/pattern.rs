//! The patterns of OpenSSH's files.

/// Whether one of the patterns matches the whole text, and none that begins with `!` does.
pub(super) fn matches_any<T: AsRef<str>>(patterns: &[T], text: &str) -> bool {
    let mut found = false;
    for pattern in patterns {
        match pattern.as_ref().strip_prefix('!') {
            Some(pattern) if matches(pattern, text) => return false,
            Some(_) => {}
            None => found = found || matches(pattern.as_ref(), text),
        }
    }
    found
}

/// Whether a pattern of `*` and `?` matches the whole text. Takes time by the product of the lengths at most.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0_usize, 0_usize);
    // Where the last `*` stood, and how far it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p = p.saturating_add(1);
            }
            Some(c) if *c == b'?' || text.get(t) == Some(c) => {
                p = p.saturating_add(1);
                t = t.saturating_add(1);
            }
            _ => match star {
                Some((at, eaten)) => {
                    p = at.saturating_add(1);
                    t = eaten.saturating_add(1);
                    star = Some((at, t));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_any};

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, is) in [
            ("*", "", true),
            ("git", "git", true),
            ("git", "gitx", false),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "example.com", false),
            ("a*b*c", "axxbyybzc", true),
            ("?.?", "a.b", true),
            ("?", "", false),
            ("a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} on {text}");
        }
    }

    #[test]
    fn what_is_taken_out_stays_out() {
        assert!(matches_any(&["*", "!file"], "git"));
        assert!(!matches_any(&["*", "!g*"], "git"));
        assert!(!matches_any(&["!file"], "git"));
        assert!(!matches_any::<&str>(&[], "git"));
    }
}
