//! The first line of a comment: whose it is, and what it shows.

/// What every marker of ours begins with.
const MARKER_PREFIX: &str = "stator:preview v1";

/// Which comment this is, of all that stator's account wrote on a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentMarker {
    /// Who keeps it: instance, namespace, source and environment. Another instance on the same token, or another
    /// environment, has a comment of its own.
    pub scope: String,
    /// The commit that is shown.
    pub head: String,
    /// A digest of all that follows the marker: an equal one needs no edit.
    pub digest: String,
}

impl CommentMarker {
    /// The scope of a source's previews, of letters that end neither a comment of HTML nor a word.
    pub fn scope<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
        parts.into_iter().map(sanitize_word).collect::<Vec<_>>().join("/")
    }

    /// The marker as a line that nobody sees: a comment of HTML, or a link's definition where HTML is shown as text.
    pub(super) fn to_line(&self, html: bool) -> String {
        let text = format!(
            "{MARKER_PREFIX} scope={} head={} digest={}",
            sanitize_scope(&self.scope),
            sanitize_word(&self.head),
            sanitize_word(&self.digest)
        );
        if html { format!("<!-- {text} -->\n") } else { format!("[//]: # ({text})\n\n") }
    }

    /// The marker of a comment's first line; `None` when it has none. Trust it only in a comment that stator's own
    /// account wrote: anybody can write one.
    pub fn parse(body: &str) -> Option<Self> {
        let line = body.lines().next()?.trim();
        let hidden = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
        let text = hidden.or_else(|| line.strip_prefix("[//]: # (")?.strip_suffix(')'))?.trim();
        let mut words = text.strip_prefix(MARKER_PREFIX)?.split_ascii_whitespace();
        let mut next = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
        Some(Self { scope: next("scope")?, head: next("head")?, digest: next("digest")? })
    }
}

/// Letters, digits, dots and dashes, so that no name ends the marker or begins another of its words.
fn sanitize_word(text: &str) -> String {
    sanitize_scope(text).replace('/', "-")
}

fn sanitize_scope(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/') { c } else { '-' };
    let text: String = text.chars().take(400).map(plain).collect();
    // Two dashes may not stand in a comment of HTML.
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '-' || !out.ends_with('-') {
            out.push(c);
        }
    }
    out
}
