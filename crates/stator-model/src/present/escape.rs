//! Making hostile text harmless, one function a face.

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

/// Text for Markdown outside code: nothing of it is markup, HTML, a mention, a reference or a link.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let mut out = String::with_capacity(text.len() + 16);
    // A line of these alone makes a heading of what stands above it.
    let is_underline = |sign: char| !text.trim().is_empty() && text.trim().chars().all(|c| c == sign);
    if is_underline('=') || is_underline('-') {
        return format!("\\{}", text.trim());
    }
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // An empty character keeps forges from reading a mention, a reference or a link; an escape alone does not.
            '@' => out.push_str("@&#8203;"),
            '#' => out.push_str("\\#&#8203;"),
            ':' if rest.as_str().starts_with("//") => out.push_str(":&#8203;"),
            // GitLab reads `!12`, `$12`, `%12` and `~12` as references; GitHub reads `www.` as a link.
            '!' | '$' | '%' | '~' if rest.as_str().starts_with(|next: char| next.is_ascii_digit()) => {
                out.extend(['\\', c]);
                out.push_str("&#8203;");
            }
            '.' if out.len() >= 3 && out.as_bytes().ends_with(b"www") => out.push_str("&#8203;."),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
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

/// Text cut to at most `columns` columns, with an ellipsis where something is missing.
pub fn truncate(text: &str, columns: usize) -> String {
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
            @r"&lt;b&gt;@&#8203;team \#&#8203;12 \`x\` \| \[a\](https:&#8203;//e.vil) \*\*b\*\*"
        );
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
        fn markup_has_no_tags(text in any::<String>()) {
            let escaped = markup(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        }
    }
}
