//! Making hostile text harmless, one function a face.

use stator_core::mask;
use unicode_width::UnicodeWidthChar;

/// Text for one line of a terminal: control characters, line ends, and the characters that reorder or hide text are
/// written as escapes, so that no name in a repository can move the cursor or fake a line.
pub fn line(text: &str) -> String {
    if !text.chars().any(is_hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len() + 16), |mut out, c| {
        if is_hidden(c) {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

/// The same for text of several lines: line ends stay.
pub fn lines(text: &str) -> String {
    let mut out: String = text.split('\n').map(|part| line(part.strip_suffix('\r').unwrap_or(part)) + "\n").collect();
    out.pop();
    out
}

/// Controls, bidirectional overrides (CVE-2021-42574, "Trojan Source"), line separators, and characters of no width
/// that hide inside words.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// An empty character, which keeps forges from reading a mention, a reference or a link. An escape alone does not: they look
/// for these in what the Markdown renders to.
const LINK_BREAK: &str = "&#8203;";
/// From so many hexadecimal digits on, a word is the beginning of a commit's hash.
const SHORTEST_HASH: usize = 7;

/// Text for Markdown outside code: nothing of it is markup, HTML, a mention, a reference or a link.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    // A line of these alone makes a heading of what stands above it.
    let is_underline = |sign: char| !text.trim().is_empty() && text.trim().chars().all(|c| c == sign);
    if is_underline('=') || is_underline('-') {
        return format!("\\{}", text.trim());
    }
    with_broken_links(&text, |c, out| match c {
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '&' => out.push_str("&amp;"),
        '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '!' | '$' | '#' => out.extend(['\\', c]),
        _ => out.push(c),
    })
}

/// Text for an element of HTML inside a comment, in which a forge looks for mentions and references all the same.
pub fn comment_markup(text: &str) -> String {
    with_broken_links(&line(text), |c, out| match c {
        '`' => out.push_str("&#96;"),
        _ => out.push_str(&markup(c.encode_utf8(&mut [0; 4]))),
    })
}

/// Writes each character, with an empty one in the middle of whatever a forge makes a link of.
fn with_broken_links(text: &str, mut write: impl FnMut(char, &mut String)) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 16);
    let mut hash = 0;
    for (at, c) in chars.iter().copied().enumerate() {
        let before = |back: usize| at.checked_sub(back).and_then(|at| chars.get(at)).copied();
        let next = |on: usize| chars.get(at + on).copied();
        hash = if c.is_ascii_hexdigit() { hash + 1 } else { 0 };
        if hash == SHORTEST_HASH {
            hash = 1;
            out.push_str(LINK_BREAK);
        } else if breaks_link(before(1), c, next(1))
            || (c == '.' && is_www(&before))
            || (c.is_ascii_digit() && before(1) == Some('-') && is_tracker_key(chars.get(..at - 1).unwrap_or_default()))
        {
            out.push_str(LINK_BREAK);
        }
        write(c, &mut out);
    }
    // What follows the text may make a reference of its end.
    if text.ends_with(['@', '#']) {
        out.push_str(LINK_BREAK);
    }
    out
}

/// Whether between two characters something is to stand that no link has.
fn breaks_link(last: Option<char>, c: char, next: Option<char>) -> bool {
    match last {
        // Mentions, issues and pull requests of all forges.
        Some('@' | '#') => true,
        Some(':') => c == '/' && next == Some('/'),
        // GitLab: merge requests, snippets, milestones, labels, epics, alerts, iterations, `[vulnerability:1]`.
        Some('!' | '$' | '%' | '~' | '&' | '^' | '*' | '[') => c.is_alphanumeric() || matches!(c, '"' | '_'),
        Some(_) | None => false,
    }
}

/// Whether a text ends in what stands before the number of an issue: `GH`, in any letters, or capitals, as other trackers
/// have it that hosts are told of. Names of models and objects have small letters, and are to be copied as they are.
fn is_tracker_key(text: &[char]) -> bool {
    let key: String = text.iter().rev().take_while(|c| c.is_ascii_alphanumeric()).collect();
    key.eq_ignore_ascii_case("hg")
        || (key.contains(|c: char| c.is_ascii_uppercase()) && !key.contains(|c: char| c.is_ascii_lowercase()))
}

/// Whether `www` comes before.
fn is_www(before: &impl Fn(usize) -> Option<char>) -> bool {
    (1..=3).all(|back| before(back).is_some_and(|c| c.eq_ignore_ascii_case(&'w')))
}

/// A Markdown code span for a table cell or a list: its delimiter is longer than any run of backticks inside.
pub fn code(text: &str) -> String {
    // A bar ends a cell even in code. After a backslash an escape would be read as one of the backslash.
    let text = line(text).replace("\\|", "\\ |").replace('|', "\\|");
    if text.trim().is_empty() {
        return String::new();
    }
    let ticks = "`".repeat(longest_run(&text) + 1);
    // CommonMark strips one space at each end, so that a backtick may stand at the edge.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// A fenced Markdown block whose fence is longer than any run of backticks inside.
pub fn fence(language: &str, text: &str) -> String {
    let text = lines(text);
    let ticks = "`".repeat(longest_run(&text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{ticks}{language}\n{text}{end}{ticks}\n")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Text for HTML and XML, in elements and in quoted attributes. What XML 1.0 cannot hold is written as an escape.
pub fn markup(text: &str) -> String {
    let text = lines(text);
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_default()),
            _ => out.push(c),
        }
    }
    out
}

/// How many columns text takes.
pub fn display_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Text cut to at most `columns` columns, with an ellipsis where something is missing. Tokens in it are hidden first: a part
/// of one looks like none.
pub fn truncate(text: &str, columns: usize) -> String {
    let text = &*mask::redact_tokens(text);
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used >= columns {
            break;
        }
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_cannot_move_the_cursor_or_fake_a_line() {
        insta::assert_snapshot!(line("a\u{1b}[2Jb\nc\u{202e}d"), @r"a\u{1b}[2Jb\nc\u{202e}d");
    }

    #[test]
    fn markdown_text_is_never_markup() {
        insta::assert_snapshot!(
            markdown("<b>@team #12 `x` | [a](https://e.vil) **b**"),
            @r"&lt;b&gt;@&#8203;team \#&#8203;12 \`x\` \| \[&#8203;a\](https:&#8203;//e.vil) \*\*&#8203;b\*\*"
        );
    }

    /// Row S18 of the review: a tenant's text linked to, and notified, whatever it named.
    #[test]
    fn nothing_in_a_comment_refers_to_anything() {
        let all = [
            "GH-12 ABC-7 A2-3 gh-1 qwen3-8b -1",
            "0123456 deadbeef 0123456789abcdef0123456789abcdef01234567 x@0123456",
            "@name a@b.c @{id} #12 o/r#12 !12 o/r!12 $12 &12 %1.0 %\"next\" ~label ~\"two words\" ^alert#1 *iteration:1",
            "[vulnerability:1] [issue:2] [a][b] ![c](d)",
            "https://e.vil http://e.vil WWW.e.vil ftp://e.vil mailto:a@b.c",
            "ends in @",
            "ends in #",
            "a - b & c * d ~ e ! f 100% 5$ x[0]",
        ];
        insta::assert_snapshot!(all.map(markdown).join("\n"), @r#"
            GH-&#8203;12 ABC-&#8203;7 A2-&#8203;3 gh-&#8203;1 qwen3-8b -1
            012345&#8203;6 deadbe&#8203;ef 012345&#8203;6789ab&#8203;cdef01&#8203;234567&#8203;89abcd&#8203;ef0123&#8203;4567 x@&#8203;012345&#8203;6
            @&#8203;name a@&#8203;b.c @&#8203;\{id\} \#&#8203;12 o/r\#&#8203;12 \!&#8203;12 o/r\!&#8203;12 \$&#8203;12 &amp;&#8203;12 %&#8203;1.0 %&#8203;"next" \~&#8203;label \~&#8203;"two words" ^&#8203;alert\#&#8203;1 \*&#8203;iteration:1
            \[&#8203;vulnerability:1\] \[&#8203;issue:2\] \[&#8203;a\]\[&#8203;b\] \!\[&#8203;c\](d)
            https:&#8203;//e.vil http:&#8203;//e.vil WWW&#8203;.e.vil ftp:&#8203;//e.vil mailto:a@&#8203;b.c
            ends in @&#8203;
            ends in \#&#8203;
            a - b &amp; c \* d \~ e \! f 100% 5\$ x\[&#8203;0\]
            "#);
        insta::assert_snapshot!(all.map(comment_markup).join("\n"), @"
            GH-&#8203;12 ABC-&#8203;7 A2-&#8203;3 gh-&#8203;1 qwen3-8b -1
            012345&#8203;6 deadbe&#8203;ef 012345&#8203;6789ab&#8203;cdef01&#8203;234567&#8203;89abcd&#8203;ef0123&#8203;4567 x@&#8203;012345&#8203;6
            @&#8203;name a@&#8203;b.c @&#8203;{id} #&#8203;12 o/r#&#8203;12 !&#8203;12 o/r!&#8203;12 $&#8203;12 &amp;&#8203;12 %&#8203;1.0 %&#8203;&quot;next&quot; ~&#8203;label ~&#8203;&quot;two words&quot; ^&#8203;alert#&#8203;1 *&#8203;iteration:1
            [&#8203;vulnerability:1] [&#8203;issue:2] [&#8203;a][&#8203;b] ![&#8203;c](d)
            https:&#8203;//e.vil http:&#8203;//e.vil WWW&#8203;.e.vil ftp:&#8203;//e.vil mailto:a@&#8203;b.c
            ends in @&#8203;
            ends in #&#8203;
            a - b &amp; c * d ~ e ! f 100% 5$ x[&#8203;0]
            ");
    }

    #[test]
    fn code_and_fences_hold_backticks() {
        insta::assert_snapshot!(code("a`b``|"), @r"```a`b``\|```");
        insta::assert_snapshot!(code("`a"), @"`` `a ``");
        insta::assert_snapshot!(fence("diff", " ```\n+x"), @r"
        ````diff
         ```
        +x
        ````
        ");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_line_is_one_line_without_controls(text in any::<String>()) {
            let escaped = line(&text);
            prop_assert!(!escaped.chars().any(is_hidden));
        }

        #[test]
        fn cut_text_fits(text in any::<String>(), columns in 0usize..40) {
            prop_assert!(display_width(&truncate(&line(&text), columns)) <= columns);
        }

        #[test]
        fn no_reference_survives(text in "[-@#!$%~&^*\\[\\]:/.wWaAfG0-9\" ]{0,40}") {
            let reference = regex::Regex::new(
                "[@#][^\u{200b}]|[!$%~&^*\\[][\"\\w]|\\b(?:[A-Z][A-Z0-9]*|(?i:gh))-\\d|://|(?i:www)\\.|[0-9a-fA-F]{7}"
            ).unwrap();
            for escaped in [markdown(&text), comment_markup(&text)] {
                // As it is rendered, with the empty character as what it is.
                let shown = escaped
                    .replace("&#8203;", "\u{200b}")
                    .replace("&#39;", "'").replace("&#96;", "`").replace("&quot;", "\"")
                    .replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace('\\', "");
                prop_assert!(!reference.is_match(&shown), "{shown:?}");
                prop_assert_eq!(shown.replace('\u{200b}', ""), line(&text));
            }
        }

        #[test]
        fn markup_has_no_tags(text in any::<String>()) {
            let escaped = markup(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        }
    }
}
