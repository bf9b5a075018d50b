//! Changes of single fields. Everything else stays as it is written: comments, order, style, and fields that nobody knows.
//!
//! Each change is checked: the text is read back, and has to say what it said before, but for that field.

mod emit;

use super::FormatError;
use super::key_order::document_kind;
use super::layout::{LayoutContent, LayoutNode, parse_layout};
use crate::intent::schema_tree::SchemaPlace;
use crate::intent::yaml::parse_yaml;
use emit::{block_entry, flow_value};
use serde_json::{Map, Value};
use std::ops::Range;
use thiserror::Error;

/// A change of one field.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentEdit {
    /// The field gets a value; maps above it are made where there are none.
    Set {
        /// The names that lead to it, and the numbers of list items from 0.
        path: Vec<String>,
        /// Its value.
        value: Value,
    },
    /// The field goes, where it is there.
    Remove {
        /// The names that lead to it, and the numbers of list items from 0.
        path: Vec<String>,
    },
    /// The field gets another name, and keeps what stands in it.
    Rename {
        /// The names that lead to it.
        path: Vec<String>,
        /// The last of them, as it is to be.
        to: String,
    },
}

/// Why a field was not changed. The text stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// The text cannot be read, or the change would change more than the field.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Something above the field is no map.
    #[error("`{path}` is not a map, so no field can be set in it; correct it in the YAML")]
    NotAMap {
        /// What is no map, with dots.
        path: String,
    },
    /// A field of the new name is there already.
    #[error("`{path}` already exists; remove one of the two in the YAML")]
    Taken {
        /// The new name, with dots.
        path: String,
    },
}

/// Makes these changes, one after the other.
///
/// # Errors
/// When the text is not YAML that stator reads, and when a field cannot be changed alone.
pub fn edit_document(text: &str, edits: &[DocumentEdit]) -> Result<String, EditError> {
    edits.iter().try_fold(text.to_owned(), |text, edit| apply_edit(&text, edit))
}

fn apply_edit(text: &str, edit: &DocumentEdit) -> Result<String, EditError> {
    let parsed = parse_layout(text)?;
    let Some(root) = &parsed.root else { return Err(FormatError::Unsafe { what: "an empty file" }.into()) };
    let before = value_of(text);
    let mut wanted = before.clone();
    edit.apply_to_value(&mut wanted)?;
    let is_rename = matches!(edit, DocumentEdit::Rename { .. });
    if wanted == before && !is_rename {
        return Ok(text.to_owned());
    }
    let editor = DocumentEditor { text, root };
    let edited = match edit {
        DocumentEdit::Set { path, value } => editor.set(path, value),
        DocumentEdit::Remove { path } => editor.remove(path),
        DocumentEdit::Rename { path, to } => editor.rename(path, to),
    };
    edited
        .filter(|edited| value_of(edited) == wanted)
        .ok_or_else(|| FormatError::Unsafe { what: "more than that field" }.into())
}

/// What a text says.
fn value_of(text: &str) -> Value {
    parse_yaml(text.as_bytes(), 0, "").root.map_or(Value::Null, |root| root.to_json())
}

impl DocumentEdit {
    /// The same change of the value that the text says.
    fn apply_to_value(&self, root: &mut Value) -> Result<(), EditError> {
        match self {
            Self::Set { path, value } => {
                if let Some((last, above)) = path.split_last() {
                    map_at(root, above)?.insert(last.clone(), value.clone());
                }
            }
            Self::Remove { path } => {
                let mut place = root;
                let Some((last, above)) = path.split_last() else { return Ok(()) };
                for word in above {
                    match below_mut(place, word) {
                        Some(next) => place = next,
                        None => return Ok(()),
                    }
                }
                if let Some(map) = place.as_object_mut() {
                    map.remove(last);
                }
            }
            Self::Rename { path, to } => {
                let Some((last, above)) = path.split_last() else { return Ok(()) };
                let map = map_at(root, above)?;
                if map.contains_key(to) {
                    return Err(EditError::Taken { path: [above, std::slice::from_ref(to)].concat().join(".") });
                }
                if let Some(value) = map.remove(last) {
                    map.insert(to.clone(), value);
                }
            }
        }
        Ok(())
    }
}

fn map_at<'a>(root: &'a mut Value, path: &[String]) -> Result<&'a mut Map<String, Value>, EditError> {
    let mut place = root;
    for (depth, word) in path.iter().enumerate() {
        let not_a_map = || EditError::NotAMap { path: path.get(..depth).unwrap_or_default().join(".") };
        if place.is_array() {
            place = below_mut(place, word).ok_or_else(not_a_map)?;
            continue;
        }
        let map = place.as_object_mut().ok_or_else(not_a_map)?;
        place = map.entry(word.clone()).or_insert_with(|| Value::Object(Map::new()));
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
    }
    place.as_object_mut().ok_or_else(|| EditError::NotAMap { path: path.join(".") })
}

/// A field of a map, or an item of a list.
fn below_mut<'a>(place: &'a mut Value, word: &str) -> Option<&'a mut Value> {
    match place {
        Value::Object(fields) => fields.get_mut(word),
        Value::Array(items) => items.get_mut(word.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A value in maps of these names.
fn nested(path: &[String], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, word| Value::Object(Map::from_iter([(word.clone(), inner)])))
}

type LayoutEntry = (LayoutNode, LayoutNode);

/// Writes one change into a text. `None` where the text is written in a way that does not allow it.
struct DocumentEditor<'a> {
    text: &'a str,
    root: &'a LayoutNode,
}

/// A map of the text, and what its fields are.
#[derive(Clone, Copy)]
struct OpenMap<'a> {
    entries: &'a [LayoutEntry],
    is_flow: bool,
    place: Option<SchemaPlace<'static>>,
}

fn open_map<'a>(node: &'a LayoutNode, place: Option<SchemaPlace<'static>>) -> Option<OpenMap<'a>> {
    match &node.content {
        LayoutContent::Map { flow, entries } => Some(OpenMap { entries, is_flow: *flow, place }),
        LayoutContent::Scalar { .. } | LayoutContent::List { .. } => None,
    }
}

impl<'a> OpenMap<'a> {
    fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|(key, _)| key.text() == Some(name))
    }

    /// The map under a name, or in a list under it; and how many words of the path led there.
    fn below(&self, path: &[String]) -> Option<(OpenMap<'a>, usize)> {
        let name = path.first()?;
        let (_, value) = self.entries.get(self.position(name)?)?;
        let (mut node, mut place, mut words) = (value, self.place.and_then(|place| place.field(name)), 1);
        while let LayoutContent::List { items } = &node.content {
            node = items.get(path.get(words)?.parse::<usize>().ok()?)?;
            place = place.and_then(SchemaPlace::item);
            words += 1;
        }
        Some((open_map(node, place)?, words))
    }
}

fn is_nothing(node: &LayoutNode) -> bool {
    matches!(&node.content, LayoutContent::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
}

fn last_line((key, value): &LayoutEntry) -> usize {
    value.last_line.max(key.last_line)
}

impl<'a> DocumentEditor<'a> {
    fn top(&self) -> Option<OpenMap<'a>> {
        open_map(self.root, Some(document_kind(self.root).schema()))
    }

    fn set(&self, path: &[String], value: &Value) -> Option<String> {
        let (mut map, mut path) = (self.top()?, path);
        while let Some((word, rest)) = path.split_first() {
            let Some(position) = map.position(word) else {
                return self.insert(map, word, &nested(rest, value));
            };
            let entry = map.entries.get(position)?;
            let is_empty = matches!(&entry.1.content, LayoutContent::Map { entries, .. } if entries.is_empty());
            if rest.is_empty() || is_nothing(&entry.1) || is_empty {
                return self.replace(map, entry, &nested(rest, value));
            }
            let (below, words) = map.below(path)?;
            (map, path) = (below, path.get(words..)?);
        }
        None
    }

    fn remove(&self, path: &[String]) -> Option<String> {
        let (last, mut above) = path.split_last()?;
        let mut map = self.top()?;
        let mut holder = None;
        while let Some(word) = above.first() {
            let entry = map.entries.get(map.position(word)?)?;
            let (below, words) = map.below(above)?;
            // Of an item of a list, nothing would be left to hold.
            holder = (words == 1).then_some((map, entry));
            (map, above) = (below, above.get(words..)?);
        }
        let position = map.position(last)?;
        let entry = map.entries.get(position)?;
        if map.entries.len() == 1 {
            let (outer, holder) = holder?;
            return self.replace(outer, holder, &Value::Object(Map::new()));
        }
        if !map.is_flow {
            self.is_alone_before(&entry.0).then_some(())?;
            let mut lines: Vec<&str> = self.text.split('\n').collect();
            (last_line(entry) < lines.len()).then_some(())?;
            lines.drain(entry.0.line..=last_line(entry));
            return Some(lines.join("\n"));
        }
        let range = match (map.entries.get(position + 1), position.checked_sub(1).and_then(|at| map.entries.get(at))) {
            (Some((next, _)), _) => entry.0.bytes.start..next.bytes.start,
            (None, Some((_, before))) => self.end_of(before)..self.end_of(&entry.1),
            (None, None) => return None,
        };
        Some(self.with(range, ""))
    }

    fn rename(&self, path: &[String], to: &str) -> Option<String> {
        let (last, above) = path.split_last()?;
        let (mut map, mut above) = (self.top()?, above);
        while !above.is_empty() {
            let (below, words) = map.below(above)?;
            (map, above) = (below, above.get(words..)?);
        }
        let (key, _) = map.entries.get(map.position(last)?)?;
        Some(self.with(key.bytes.clone(), &flow_value(&Value::from(to))))
    }

    /// A field that is not there yet: behind the last one that stands before it in the order of the reference pages.
    fn insert(&self, map: OpenMap<'_>, name: &str, value: &Value) -> Option<String> {
        let names = map.place.map(SchemaPlace::field_names).unwrap_or_default();
        let rank = |name: Option<&str>| names.iter().position(|one| Some(*one) == name).unwrap_or(names.len());
        let own = rank(Some(name));
        let before = map.entries.iter().rev().find(|(key, _)| rank(key.text()) <= own);
        let first = map.entries.first()?;
        let is_first = before.is_none() && !map.is_flow && self.is_bare_before(&first.0);
        let before = before.unwrap_or(first);
        if map.is_flow {
            let end = self.end_of(&before.1).max(self.end_of(&before.0));
            let field = format!(", {}: {}", flow_value(&Value::from(name)), flow_value(value));
            return Some(self.with(end..end, &field));
        }
        let ending = if self.text.contains("\r\n") { "\r" } else { "" };
        let new = block_entry(name, value, before.0.column).into_iter().map(|line| line + ending);
        let mut lines: Vec<String> = self.text.split('\n').map(str::to_owned).collect();
        let at = if is_first { first.0.line } else { last_line(before) + 1 };
        (at <= lines.len()).then_some(())?;
        lines.splice(at..at, new);
        Some(lines.join("\n"))
    }

    /// Another value in place of what stands there.
    fn replace(&self, map: OpenMap<'_>, entry: &LayoutEntry, value: &Value) -> Option<String> {
        let (key, old) = entry;
        let is_one_line = old.line == key.line && old.last_line == key.line && !self.is_block_scalar(old);
        let is_block_map = value.as_object().is_some_and(|map| !map.is_empty());
        if map.is_flow || (is_one_line && !is_block_map && !is_nothing(old)) {
            let range = old.bytes.start..self.end_of(old);
            let space = if is_nothing(old) { " " } else { "" };
            return Some(self.with(range, &format!("{space}{}", flow_value(value))));
        }
        if let (LayoutContent::List { items }, Value::Array(new)) = (&old.content, value)
            && let Some(edited) = self.replace_items(items, new)
        {
            return Some(edited);
        }
        self.is_alone_before(key).then_some(())?;
        let mut lines: Vec<String> = self.text.split('\n').map(str::to_owned).collect();
        let ending = if self.text.contains("\r\n") { "\r" } else { "" };
        let name = self.text.get(key.bytes.clone())?;
        let mut new = block_entry("key", value, key.column);
        let first = new.first_mut()?;
        *first = first.replacen("key", name, 1);
        if is_one_line {
            // What stands beside the value is said of the field.
            let beside = lines.get(key.line)?.split_once(" #").map(|(_, comment)| format!(" #{}", comment.trim_end()));
            first.push_str(&beside.unwrap_or_default());
        }
        (last_line(entry) < lines.len()).then_some(())?;
        lines.splice(key.line..=last_line(entry), new.into_iter().map(|line| line + ending));
        Some(lines.join("\n"))
    }

    /// Another list of scalars in place of a block list: items that are the same stay, with their comments.
    fn replace_items(&self, items: &[LayoutNode], new: &[Value]) -> Option<String> {
        let mut lines: Vec<String> = self.text.split('\n').map(str::to_owned).collect();
        let (first, last) = (items.first()?, items.last()?);
        let dash = |item: &LayoutNode| lines.get(item.line).is_some_and(|line| line.trim_start().starts_with('-'));
        if new.is_empty() || !items.iter().all(dash) || new.iter().any(|item| item.is_object() || item.is_array()) {
            return None;
        }
        let old: Vec<Value> =
            items.iter().map(|item| value_of(self.text.get(item.bytes.clone()).unwrap_or(""))).collect();
        let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let most = old.len().min(new.len()) - same;
        let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new).count();
        let indent: String = lines.get(first.line)?.chars().take_while(|c| *c == ' ').collect();
        let ending = if self.text.contains("\r\n") { "\r" } else { "" };
        let added = new.get(same..new.len() - tail)?.iter();
        let added: Vec<String> = added.map(|item| format!("{indent}- {}{ending}", flow_value(item))).collect();
        let start = items.get(same).map_or(last.last_line + 1, |item| item.line);
        let end = match old.len() - tail {
            end if end > same => items.get(end - 1)?.last_line + 1,
            _ => start,
        };
        (end <= lines.len()).then_some(())?;
        lines.splice(start..end, added);
        Some(lines.join("\n"))
    }

    fn is_block_scalar(&self, node: &LayoutNode) -> bool {
        let written = self.text.get(node.bytes.clone()).unwrap_or_default();
        matches!(node.content, LayoutContent::Scalar { plain: false, .. }) && !written.starts_with(['"', '\''])
    }

    /// Whether a key begins its line, and no comment above it may be about it.
    fn is_bare_before(&self, key: &LayoutNode) -> bool {
        let above = key.line.checked_sub(1).and_then(|above| self.text.split('\n').nth(above)).unwrap_or_default();
        self.is_alone_before(key) && !above.trim_start().starts_with('#')
    }

    /// Whether nothing but blanks stands before a key on its line.
    fn is_alone_before(&self, key: &LayoutNode) -> bool {
        let before = self.text.get(..key.bytes.start).unwrap_or_default();
        before.rsplit('\n').next().is_some_and(|start| start.trim().is_empty())
    }

    /// Where what is written of a node ends.
    fn end_of(&self, node: &LayoutNode) -> usize {
        let written = self.text.get(node.bytes.clone()).unwrap_or_default();
        node.bytes.start + written.trim_end().len()
    }

    fn with(&self, range: Range<usize>, text: &str) -> String {
        let before = self.text.get(..range.start).unwrap_or_default();
        let after = self.text.get(range.end..).unwrap_or_default();
        format!("{before}{text}{after}")
    }
}

#[cfg(test)]
mod tests;
