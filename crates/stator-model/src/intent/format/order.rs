//! Puts entries into canonical order, each with its comments, by moving whole lines (blocks) or slices (flow maps).

use super::tree::{Content, Node, Parsed};
use crate::intent::outline::{Document, Place};
use std::ops::Range;

/// Which document it is, by its `kind`. What says nothing else is taken as a model.
pub(super) fn document(root: &Node) -> Document {
    let Content::Map { entries, .. } = &root.content else { return Document::Model };
    entries
        .iter()
        .find(|(key, _)| key.text() == Some("kind"))
        .and_then(|(_, value)| Document::of_kind(value.text()?))
        .unwrap_or(Document::Model)
}

/// The text with every known map in canonical order.
pub(super) fn reorder(text: &str, parsed: &Parsed, document: Document) -> String {
    let Some(root) = &parsed.root else { return text.to_owned() };
    let mut flows = Flows { text, comments: &parsed.comments, moves: Vec::new() };
    flows.visit(root, Some(Place::top(document)));
    if !flows.moves.is_empty() {
        // Slices of one line trade places, so no line moves; blocks follow in the next pass.
        return apply(text, flows.moves);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::with_capacity(lines.len());
    Blocks { lines: &lines, out: &mut out }.node(root, Some(Place::top(document)), 0..lines.len(), true);
    let mut sorted = out.join("\n");
    sorted.push('\n');
    sorted
}

/// The order that a map's entries belong in, as indices into it; none when they are in it already.
fn wanted(entries: &[(Node, Node)], place: Option<Place>) -> Option<Vec<usize>> {
    let names = place?.names();
    let rank = |index: &usize| {
        let key = entries.get(*index).and_then(|(key, _)| key.text());
        names.iter().position(|name| Some(*name) == key).unwrap_or(names.len())
    };
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(rank);
    let sorted = order.iter().enumerate().all(|(position, index)| position == *index);
    (!sorted && !names.is_empty()).then_some(order)
}

fn inside(place: Option<Place>, key: &Node) -> Option<Place> {
    place?.field(key.text()?)
}

/// Flow maps: the slices of their entries trade places, commas and spaces between them stay.
struct Flows<'a> {
    text: &'a str,
    comments: &'a [(Range<usize>, String)],
    moves: Vec<(Range<usize>, String)>,
}

impl Flows<'_> {
    fn visit(&mut self, node: &Node, place: Option<Place>) {
        match &node.content {
            Content::Scalar { .. } => {}
            Content::List { items } => {
                let item_place = place.and_then(Place::item);
                items.iter().for_each(|item| self.visit(item, item_place));
            }
            Content::Map { flow, entries } => {
                let commented = self.comments.iter().any(|(at, _)| node.bytes.contains(&at.start));
                if let Some(order) = wanted(entries, place).filter(|_| *flow && !commented) {
                    let slots: Vec<Range<usize>> = entries
                        .iter()
                        .map(|(key, value)| key.bytes.start..value.bytes.end.max(key.bytes.end))
                        .collect();
                    let taken =
                        order.iter().map(|index| slots.get(*index).and_then(|slot| self.text.get(slot.clone())));
                    let moves: Option<Vec<_>> =
                        slots.iter().cloned().zip(taken).map(|(slot, text)| Some((slot, text?.to_owned()))).collect();
                    self.moves.extend(moves.unwrap_or_default());
                    // What is inside moved along and is looked at in the next pass.
                    return;
                }
                entries.iter().for_each(|(key, value)| self.visit(value, inside(place, key)));
            }
        }
    }
}

/// Replaces ranges, which neither overlap nor stand out of order.
fn apply(text: &str, moves: Vec<(Range<usize>, String)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (range, replacement) in moves {
        out.push_str(text.get(from..range.start).unwrap_or_default());
        out.push_str(&replacement);
        from = range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// Block maps: whole lines move.
struct Blocks<'a, 'o> {
    lines: &'a [&'a str],
    out: &'o mut Vec<String>,
}

impl Blocks<'_, '_> {
    /// Writes the lines of a node, given all lines that are its own: from the one it starts on to the next part's first.
    fn node(&mut self, node: &Node, place: Option<Place>, own: Range<usize>, top: bool) {
        match &node.content {
            Content::Map { flow: false, entries } => self.map(node, entries, place, own, top),
            Content::List { items } if !items.is_empty() && items.iter().all(|item| self.starts_item(item)) => {
                let place = place.and_then(Place::item);
                let starts: Vec<usize> = self.starts(items.iter().map(|item| (item.line, self.dash(item))), &own);
                self.copy(own.start..starts.first().copied().unwrap_or(own.end));
                for (index, item) in items.iter().enumerate() {
                    let start = starts.get(index).copied().unwrap_or(own.end);
                    let end = starts.get(index + 1).copied().unwrap_or(own.end);
                    self.copy(start..item.line);
                    self.node(item, place, item.line..end, false);
                }
            }
            Content::Scalar { .. } | Content::List { .. } | Content::Map { .. } => self.copy(own),
        }
    }

    fn map(&mut self, node: &Node, entries: &[(Node, Node)], place: Option<Place>, own: Range<usize>, top: bool) {
        let body_end = if top { self.footer(node, own.end) } else { own.end };
        let starts = self.starts(entries.iter().map(|(key, _)| (key.line, key.column)), &own);
        let header = starts.first().copied().unwrap_or(own.end);
        let order = wanted(entries, place).filter(|_| self.movable(node, entries));
        let header = if top && order.is_some() { self.header(header, node.line) } else { header };
        self.copy(own.start..header);

        // Each entry as its lines, comments above it included.
        let mut parts: Vec<Vec<String>> = Vec::with_capacity(entries.len());
        for (index, (key, value)) in entries.iter().enumerate() {
            let start = if index == 0 { header } else { starts.get(index).copied().unwrap_or(body_end) };
            let end = starts.get(index + 1).copied().unwrap_or(body_end);
            let mut part = Vec::new();
            let mut inner = Blocks { lines: self.lines, out: &mut part };
            if value.line > key.last_line {
                // Comments between a key and its value belong to the value's first part.
                inner.copy(start..key.last_line + 1);
                inner.node(value, inside(place, key), key.last_line + 1..end, false);
            } else {
                inner.copy(start..end);
            }
            parts.push(part);
        }
        match order {
            Some(order) => self.write_moved(node, &order, parts, key_offset(entries, header)),
            None => self.out.extend(parts.into_iter().flatten()),
        }
        self.copy(body_end..own.end);
    }

    /// Writes parts in another order. What stands left of the first key (`- `) goes left of the new first key.
    fn write_moved(&mut self, node: &Node, order: &[usize], mut parts: Vec<Vec<String>>, first_key: usize) {
        let prefix: String =
            self.lines.get(node.line).map(|line| line.chars().take(node.column).collect()).unwrap_or_default();
        let blanks = " ".repeat(node.column);
        let swap = |line: &mut String, from: &str, to: &str| {
            if let Some(rest) = line.strip_prefix(from) {
                *line = format!("{to}{rest}");
            }
        };
        if let Some(line) = parts.first_mut().and_then(|part| part.get_mut(first_key)) {
            swap(line, &prefix, &blanks);
        }
        for (position, index) in order.iter().enumerate() {
            let Some(part) = parts.get_mut(*index) else { continue };
            if position == 0 {
                // Blank lines separate an entry from the one before, and there is none any more.
                let lead = part.iter().take_while(|line| line.trim().is_empty()).count();
                part.drain(..lead);
                let key = part.iter().position(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
                let dashes = !prefix.trim().is_empty();
                for (at, line) in part.iter_mut().enumerate() {
                    if Some(at) == key {
                        swap(line, &blanks, &prefix);
                    } else if key.is_some_and(|key| at < key) && dashes {
                        // A comment above the first key of a list's item stands above its dash.
                        let indent = prefix.chars().take_while(|c| *c == ' ').count();
                        *line = format!("{}{}", " ".repeat(indent), line.trim_start());
                    }
                }
            }
            self.out.append(part);
        }
    }

    /// Whether lines of the map can be moved: each key alone at the start of its line, and only dashes left of the first.
    fn movable(&self, node: &Node, entries: &[(Node, Node)]) -> bool {
        let left = |line: usize, column: usize| -> String {
            self.lines.get(line).map(|line| line.chars().take(column).collect()).unwrap_or_default()
        };
        left(node.line, node.column).chars().all(|c| c == ' ' || c == '-')
            && entries.iter().all(|(key, _)| {
                key.column == node.column && (key.line == node.line || left(key.line, key.column).trim().is_empty())
            })
    }

    /// Where each part begins: with the comments and blank lines above it, save those that are indented deeper and so
    /// belong to the part before.
    fn starts(&self, parts: impl Iterator<Item = (usize, usize)>, own: &Range<usize>) -> Vec<usize> {
        let mut floor = own.start;
        let mut starts = Vec::new();
        for (line, column) in parts {
            let mut start = line;
            while start > floor && self.is_gap(start - 1) {
                start -= 1;
            }
            if start > own.start {
                while start < line && self.belongs_above(start, line, column) {
                    start += 1;
                }
            }
            starts.push(start);
            floor = line + 1;
        }
        starts
    }

    /// Whether a line of a gap belongs to the part above it: a deeper comment, or a blank line with one further down.
    fn belongs_above(&self, start: usize, line: usize, column: usize) -> bool {
        self.lines
            .get(start..line)
            .unwrap_or_default()
            .iter()
            .find(|line| !line.trim().is_empty())
            .is_some_and(|comment| indent(comment) > column)
    }

    fn is_gap(&self, line: usize) -> bool {
        self.lines.get(line).is_some_and(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    }

    /// Where the comments at the head of the file end: behind the last blank line, and behind a modeline.
    fn header(&self, first: usize, key_line: usize) -> usize {
        let gap = self.lines.get(first..key_line).unwrap_or_default();
        let last = gap.iter().rposition(|line| line.trim().is_empty() || line.contains("yaml-language-server"));
        first + last.map_or(0, |last| last + 1)
    }

    /// Where the comments at the end of the file begin.
    fn footer(&self, node: &Node, end: usize) -> usize {
        let mut footer = end;
        while footer > node.last_line + 1 && self.is_gap(footer - 1) {
            footer -= 1;
        }
        while footer < end && self.belongs_above(footer, end, node.column) {
            footer += 1;
        }
        footer
    }

    /// Whether an item of a list starts on the line of its dash.
    fn starts_item(&self, item: &Node) -> bool {
        self.lines.get(item.line).is_some_and(|line| line.trim_start().starts_with("- "))
    }

    fn dash(&self, item: &Node) -> usize {
        self.lines.get(item.line).map_or(0, |line| indent(line))
    }

    fn copy(&mut self, range: Range<usize>) {
        self.out.extend(self.lines.get(range).unwrap_or_default().iter().map(|line| (*line).to_owned()));
    }
}

/// How far below the start of the first part its key stands.
fn key_offset(entries: &[(Node, Node)], start: usize) -> usize {
    entries.first().map_or(0, |(key, _)| key.line.saturating_sub(start))
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}
