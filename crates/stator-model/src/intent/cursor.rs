//! Which field a cursor is in, in a document that is being written.
//!
//! Such a document is seldom YAML: a name without its colon, a list without an item. So this goes by lines and how far they are
//! indented, as whoever writes does, and takes what it cannot make sense of for nothing.

use super::explain::{ExplainError, FieldExplanation, explain};
use super::schema_tree::DocumentKind;

/// What stands, or may stand, at a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorSlot {
    /// A field's name: of the map at the path.
    Name,
    /// A value: of the field at the path.
    Value,
}

/// Where a cursor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentCursor {
    /// The document.
    document: DocumentKind,
    /// The names that lead to the map, or to the field, from the top.
    path: Vec<String>,
    /// Which of them is to be written.
    pub slot: CursorSlot,
    /// The word at the cursor: from where on it is to be replaced, in characters from 0.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// How far the names of this map are indented, in characters.
    pub indent: usize,
    /// The names that the map has already.
    pub siblings: Vec<String>,
}

/// A line, as far as its indentation goes.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    /// Where the first dash of list items is.
    dash: Option<usize>,
    /// Where what follows begins.
    column: usize,
    /// What follows.
    text: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for one that is empty or a comment.
    fn of(line: &'a str) -> Option<Self> {
        let read = Self::read(line);
        (!read.text.is_empty() && !read.text.starts_with('#')).then_some(read)
    }

    fn read(line: &'a str) -> Self {
        let mut text = line.trim_start_matches(' ');
        let mut column = line.len() - text.len();
        let mut dash = None;
        while let Some(rest) = text.strip_prefix("- ").or_else(|| text.strip_prefix('-').filter(|rest| rest.is_empty()))
        {
            dash = dash.or(Some(column));
            let item = rest.trim_start_matches(' ');
            column += text.len() - item.len();
            text = item;
        }
        Self { dash, column, text }
    }

    /// The field's name and what stands behind its colon.
    fn field(&self) -> Option<(&'a str, &'a str)> {
        let (name, value) = match self.text.split_once(": ") {
            Some(both) => both,
            None => (self.text.trim_end().strip_suffix(':')?, ""),
        };
        let name = name.trim().trim_matches(['"', '\'']);
        let is_name = !name.is_empty() && !name.contains(['{', '[', '"', '\'', '#']);
        is_name.then_some((name, value))
    }
}

impl DocumentCursor {
    /// Where a cursor is, by its line and by the characters before it in that line, both from 0. A document that does not say
    /// what it is counts as `usual`.
    pub fn find(text: &str, line: usize, column: usize, usual: DocumentKind) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let whole = lines.get(line).copied().unwrap_or_default();
        let before: String = whole.chars().take(column).collect();
        let read = Line::read(&before);
        let own = Line::read(whole);
        // On an empty line, the cursor is as far as the author means to indent.
        let indent = read.column.min(before.len());
        let mut path = parents(&lines, line, indent, read.dash);
        let word_end = |from: usize| {
            let rest = whole.chars().skip(from);
            from + rest.take_while(|c| !c.is_whitespace() && !matches!(c, ':' | ',' | '#' | ']' | '}')).count()
        };
        let chars = |text: &str| text.chars().count();
        let (slot, start) = match read.field() {
            Some((name, value)) => {
                path.push(name.to_owned());
                (CursorSlot::Value, chars(&before) - chars(value))
            }
            // `name:` with the cursor right behind the colon: a space is still missing.
            None => (CursorSlot::Name, chars(&before) - chars(read.text)),
        };
        let end = match slot {
            CursorSlot::Name => word_end(column.min(chars(whole))),
            CursorSlot::Value => chars(whole.split(" #").next().unwrap_or(whole).trim_end()).max(chars(&before)),
        };
        let siblings = match slot {
            CursorSlot::Name => siblings(&lines, line, own.column.min(indent)),
            CursorSlot::Value => Vec::new(),
        };
        Self { document: document_kind(&lines).unwrap_or(usual), path, slot, start, end, indent, siblings }
    }

    /// The field whose name or value stands at a place, for somebody who asks what it is.
    pub fn under(text: &str, line: usize, column: usize, usual: DocumentKind) -> Option<Self> {
        let whole = text.lines().nth(line)?;
        let read = Line::of(whole)?;
        let (name, _) = read.field()?;
        if column < read.column || column > whole.chars().count() {
            return None;
        }
        let behind_name = read.column + name.chars().count() + 1;
        let mut cursor = Self::find(text, line, behind_name.min(whole.chars().count()), usual);
        if cursor.slot == CursorSlot::Name {
            cursor.path.push(name.to_owned());
        }
        Some(Self { slot: CursorSlot::Value, start: read.column, end: behind_name - 1, ..cursor })
    }

    /// The path, as `stator explain` takes it: `model.spec.serving`.
    pub fn dotted_path(&self) -> String {
        // A name with dots in it is that of a map's entry, of which any name will do.
        let word = |name: &String| if name.contains(['.', '[', ']']) { "NAME".to_owned() } else { name.clone() };
        let words = std::iter::once(self.document.as_str().to_lowercase()).chain(self.path.iter().map(word));
        words.collect::<Vec<_>>().join(".")
    }

    /// What there is to say about the map, or about the field.
    ///
    /// # Errors
    /// When there is no such field.
    pub fn explain(&self) -> Result<FieldExplanation, ExplainError> {
        explain(&self.dotted_path())
    }

    /// The last name of the path.
    pub fn field_name(&self) -> Option<&str> {
        self.path.last().map(String::as_str)
    }
}

fn document_kind(lines: &[&str]) -> Option<DocumentKind> {
    let kind = lines.iter().find_map(|line| line.strip_prefix("kind:"))?;
    DocumentKind::from_kind(kind.trim().trim_matches(['"', '\'']))
}

/// The names of the maps that a line lies in, the outermost first.
fn parents(lines: &[&str], line: usize, column: usize, dash: Option<usize>) -> Vec<String> {
    // What holds the line stands further left than this. A list may stand as far left as the name of its field.
    let mut limit = dash.map_or(column, |dash| dash + 1);
    let mut path = Vec::new();
    for above in lines[..line.min(lines.len())].iter().rev().filter_map(|line| Line::of(line)) {
        if above.column < limit {
            let Some((name, _)) = above.field() else { continue };
            // `- a` beside `- b`: no name holds another item.
            if above.dash.is_some_and(|dash| dash + 1 >= limit) {
                continue;
            }
            path.push(name.to_owned());
            limit = above.dash.map_or(above.column, |dash| dash + 1);
        } else if above.column == limit
            && let Some(dash) = above.dash
        {
            // The first name of the item that the line is in.
            limit = dash + 1;
        }
        if limit == 0 {
            break;
        }
    }
    path.reverse();
    path
}

/// The names of a map, beside the one of a line of it.
fn siblings(lines: &[&str], line: usize, column: usize) -> Vec<String> {
    let names = |lines: &mut dyn Iterator<Item = Line<'_>>, dash_begins: bool| {
        let mut names = Vec::new();
        for one in lines {
            let begins_item = one.column == column && one.dash.is_some();
            if one.column < column || (begins_item && dash_begins) {
                break;
            }
            if one.column == column
                && let Some((name, _)) = one.field()
            {
                names.push(name.to_owned());
            }
            if begins_item {
                break;
            }
        }
        names
    };
    let line = line.min(lines.len());
    // A line that begins an item has none of its siblings above it.
    let begins = lines.get(line).is_some_and(|one| Line::read(one).dash.is_some());
    let above = if begins {
        Vec::new()
    } else {
        names(&mut lines[..line].iter().rev().filter_map(|line| Line::of(line)), false)
    };
    let below = names(&mut lines.iter().skip(line + 1).filter_map(|line| Line::of(line)), true);
    above.into_iter().chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a cursor, written as `|`, is in.
    fn described(text: &str) -> String {
        let at = text.find('|').unwrap();
        let line = text[..at].matches('\n').count();
        let column = text[..at].rsplit('\n').next().unwrap().chars().count();
        let text = text.replacen('|', "", 1);
        let cursor = DocumentCursor::find(&text, line, column, DocumentKind::Model);
        let slot = if cursor.slot == CursorSlot::Name { "name in" } else { "value of" };
        let siblings =
            if cursor.siblings.is_empty() { String::new() } else { format!(" beside {}", cursor.siblings.join(" ")) };
        format!("{slot} {} {}..{}{siblings}", cursor.dotted_path(), cursor.start, cursor.end)
    }

    #[test]
    fn a_cursor_is_in_a_field_although_the_document_is_not_finished() {
        assert_eq!(described("kind: Model\nspec:\n  eng|"), "name in model.spec 2..5");
        assert_eq!(described("kind: Model\nspec:\n  engine: |\n  model: x\n"), "value of model.spec.engine 10..10");
        assert_eq!(described("spec:\n  engine: vl|lm # ours\n"), "value of model.spec.engine 10..14");
        assert_eq!(
            described("spec:\n  serving:\n    worker:\n      |\n  engine: vllm\n"),
            "name in model.spec.serving.worker 6..6"
        );
        assert_eq!(
            described("spec:\n  engine: vllm\n  |\n  model: x\n"),
            "name in model.spec 2..2 beside engine model"
        );
        assert_eq!(described("|"), "name in model 0..0");
        assert_eq!(
            described("kind: Repository\nspec:\n  environments:\n    prod:\n      name|"),
            "name in repository.spec.environments.prod 6..10"
        );
    }

    #[test]
    fn items_of_lists_are_told_from_the_fields_around_them() {
        let list = "spec:\n  adapters:\n    - name: a\n      source: b\n    - name: c\n      |\n  secrets: {}\n";
        assert_eq!(described(list), "name in model.spec.adapters 6..6 beside name");
        assert_eq!(described("spec:\n  adapters:\n  - name: a\n  - na|"), "name in model.spec.adapters 4..6");
        assert_eq!(
            described("spec:\n  adapters:\n    - name: a\n      so|urce: b\n    - name: c\n"),
            "name in model.spec.adapters 6..12 beside name"
        );
        assert_eq!(
            described("spec:\n  serving:\n    worker:\n      args:\n        - a\n        - |\n"),
            "name in model.spec.serving.worker.args 10..10"
        );
        assert_eq!(described("spec:\n  adapters:\n  - name: a\n  eng|"), "name in model.spec 2..5 beside adapters");
    }

    #[test]
    fn what_a_field_is_can_be_asked_on_its_name_and_on_its_value() {
        let text = "kind: Model\nspec:\n  adapters:\n    - name: sql\n      maxRank: 8\n";
        let at = |line, column| {
            DocumentCursor::under(text, line, column, DocumentKind::Model).map(|cursor| cursor.dotted_path())
        };
        assert_eq!(at(4, 8).as_deref(), Some("model.spec.adapters.maxRank"));
        assert_eq!(at(4, 16).as_deref(), Some("model.spec.adapters.maxRank"));
        assert_eq!(at(3, 7).as_deref(), Some("model.spec.adapters.name"));
        assert_eq!(at(2, 3).as_deref(), Some("model.spec.adapters"));
        assert_eq!((at(2, 0), at(9, 0)), (None, None));
        let explained = DocumentCursor::under(text, 4, 8, DocumentKind::Model).unwrap().explain().unwrap();
        assert_eq!(explained.path, "spec.adapters.maxRank");
    }

    #[test]
    fn names_with_dots_are_entries_of_maps() {
        let text = "spec:\n  pod:\n    annotations:\n      example.com/a: |b\n";
        assert_eq!(described(text), "value of model.spec.pod.annotations.NAME 21..22");
    }

    proptest! {
        /// Whatever is written, and wherever the cursor is, even outside of it.
        #[test]
        fn any_text_is_looked_at(text in "[ \\-a-c:#{}\\[\\]\n\"'é\t]{0,80}", line in 0_usize..12, column in 0_usize..40) {
            let cursor = DocumentCursor::find(&text, line, column, DocumentKind::Model);
            prop_assert!(cursor.start <= cursor.end, "{cursor:?}");
            let _ = cursor.explain();
            let _ = DocumentCursor::under(&text, line, column, DocumentKind::Model);
        }
    }
}
