//! Differences of texts: hunks, and a file's change as a patch that `git apply` takes. The one place that compares lines, as
//! every other would compile the algorithms anew.

use similar::{DiffOp, TextDiff};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// The patch that makes a file of a repository what it is to be; `before` is `None` for a file that is new. Empty where
/// nothing changes.
pub fn file_patch(path: &str, before: Option<&str>, after: &str) -> String {
    if before == Some(after) {
        return String::new();
    }
    let hunks = diff_hunks(before.unwrap_or_default(), after, CONTEXT_LINES, MissingNewline::Said);
    let (old, new) = (quote_path("a/", path), quote_path("b/", path));
    let header = match before {
        Some(_) => format!("diff --git {old} {new}\n--- {}\n", ended(&old)),
        None => format!("diff --git {old} {new}\nnew file mode 100644\n--- /dev/null\n"),
    };
    format!("{header}+++ {}\n{hunks}", ended(&new))
}

/// Whether hunks say that the last line of a text does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingNewline {
    /// As `diff` and git do.
    Said,
    /// Where the texts are no files.
    Unsaid,
}

/// The hunks of a unified diff, without the names. Empty where nothing changes.
pub(super) fn diff_hunks(before: &str, after: &str, context: usize, missing: MissingNewline) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().context_radius(context).missing_newline_hint(missing == MissingNewline::Said).to_string()
}

/// The lines that stay, go and come, as ranges of their numbers from 0.
pub(super) fn line_changes(before: &str, after: &str) -> Vec<DiffOp> {
    TextDiff::from_lines(before, after).ops().to_vec()
}

/// A unified diff under the names of both sides. Empty where nothing changes.
pub fn unified_diff((old_name, before): (&str, &str), (new_name, after): (&str, &str)) -> String {
    let hunks = diff_hunks(before, after, CONTEXT_LINES, MissingNewline::Said);
    if hunks.is_empty() { hunks } else { format!("--- {old_name}\n+++ {new_name}\n{hunks}") }
}

/// A path as git writes it: in quotes, where it holds something that would end it or reads as an escape.
fn quote_path(side: &str, path: &str) -> String {
    if !path.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
        return format!("{side}{path}");
    }
    let mut quoted = String::new();
    for byte in path.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    format!("\"{side}{quoted}\"")
}

/// git ends a name that has blanks with a tab.
fn ended(path: &str) -> String {
    if path.contains(' ') && !path.starts_with('"') { format!("{path}\t") } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_what_changes() {
        insta::assert_snapshot!(file_patch("models/a/model.yaml", Some("a: 1\nb: 2\n"), "a: 1\nb: 3\n"), @"
        diff --git a/models/a/model.yaml b/models/a/model.yaml
        --- a/models/a/model.yaml
        +++ b/models/a/model.yaml
        @@ -1,2 +1,2 @@
         a: 1
        -b: 2
        +b: 3
        ");
        insta::assert_snapshot!(file_patch("my models/\"a\".yaml", None, "a: 1"), @r#"
        diff --git "a/my models/\"a\".yaml" "b/my models/\"a\".yaml"
        new file mode 100644
        --- /dev/null
        +++ "b/my models/\"a\".yaml"
        @@ -0,0 +1 @@
        +a: 1
        \ No newline at end of file
        "#);
        assert_eq!(file_patch("a", Some("x"), "x"), "");
    }
}
