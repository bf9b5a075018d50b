//! Puts entries into canonical order, each with its comments, by moving whole lines (blocks) or slices (flow maps).

use super::layout::{CommentedYaml, LayoutContent, LayoutNode};
use crate::intent::schema_tree::{DocumentKind, SchemaPlace};
use std::ops::Range;

/// Which document it is, by its `kind`. What says nothing else is taken as a model.
pub(super) fn document_kind(root: &LayoutNode) -> DocumentKind {
    let LayoutContent::Map { entries, .. } = &root.content else { return DocumentKind::Model };
    entries
        .iter()
        .find(|(key, _)| key.text() == Some("kind"))
        .and_then(|(_, value)| DocumentKind::from_kind(value.text()?))
        .unwrap_or(DocumentKind::Model)
}

/// The text with every known map in canonical order.
pub(super) fn reorder(text: &str, parsed: &CommentedYaml, document: DocumentKind) -> String {
    let Some(root) = &parsed.root else { return text.to_owned() };
    let mut flows = FlowMapSorter { text, comments: &parsed.comments, moves: Vec::new() };
    flows.collect_moves(root, Some(document.schema()));
    if !flows.moves.is_empty() {
        // Slices of one line trade places, so no line moves; blocks follow in the next pass.
        return replace_ranges(text, flows.moves);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::with_capacity(lines.len());
    BlockMapSorter { lines: &lines, out: &mut out }.write_node(root, Some(document.schema()), 0..lines.len(), true);
    let mut sorted = out.join("\n");
    sorted.push('\n');
    sorted
}

/// The order that a map's entries belong in, as indices into it; none when they are in it already.
fn sorted_indices(entries: &[(LayoutNode, LayoutNode)], place: Option<SchemaPlace<'static>>) -> Option<Vec<usize>> {
    let names = place?.field_names();
    let rank = |index: &usize| {
        let key = entries.get(*index).and_then(|(key, _)| key.text());
        names.iter().position(|name| Some(*name) == key).unwrap_or(names.len())
    };
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(rank);
    let sorted = order.iter().enumerate().all(|(position, index)| position == *index);
    (!sorted && !names.is_empty()).then_some(order)
}

fn child_schema(place: Option<SchemaPlace<'static>>, key: &LayoutNode) -> Option<SchemaPlace<'static>> {
    place?.field(key.text()?)
}

/// Flow maps: the slices of their entries trade places, commas and spaces between them stay.
struct FlowMapSorter<'a> {
    text: &'a str,
    comments: &'a [(Range<usize>, String)],
    moves: Vec<(Range<usize>, String)>,
}

impl FlowMapSorter<'_> {
    fn collect_moves(&mut self, node: &LayoutNode, place: Option<SchemaPlace<'static>>) {
        match &node.content {
            LayoutContent::Scalar { .. } => {}
            LayoutContent::List { items } => {
                let item_place = place.and_then(SchemaPlace::item);
                items.iter().for_each(|item| self.collect_moves(item, item_place));
            }
            LayoutContent::Map { flow, entries } => {
                let commented = self.comments.iter().any(|(at, _)| node.bytes.contains(&at.start));
                if let Some(order) = sorted_indices(entries, place).filter(|_| *flow && !commented) {
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
                entries.iter().for_each(|(key, value)| self.collect_moves(value, child_schema(place, key)));
            }
        }
    }
}

/// Replaces ranges, which neither overlap nor stand out of order.
fn replace_ranges(text: &str, moves: Vec<(Range<usize>, String)>) -> String {
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
struct BlockMapSorter<'a, 'o> {
    lines: &'a [&'a str],
    out: &'o mut Vec<String>,
}

impl BlockMapSorter<'_, '_> {
    /// Writes the lines of a node, given all lines that are its own: from the one it starts on to the next part's first.
    fn write_node(&mut self, node: &LayoutNode, place: Option<SchemaPlace<'static>>, own: Range<usize>, top: bool) {
        match &node.content {
            LayoutContent::Map { flow: false, entries } => self.write_map(node, entries, place, own, top),
            LayoutContent::List { items } if !items.is_empty() && items.iter().all(|item| self.starts_item(item)) => {
                let place = place.and_then(SchemaPlace::item);
                let starts: Vec<usize> =
                    self.part_starts(items.iter().map(|item| (item.line, self.dash_column(item))), &own);
                self.copy_lines(own.start..starts.first().copied().unwrap_or(own.end));
                for (index, item) in items.iter().enumerate() {
                    let start = starts.get(index).copied().unwrap_or(own.end);
                    let end = starts.get(index + 1).copied().unwrap_or(own.end);
                    self.copy_lines(start..item.line);
                    self.write_node(item, place, item.line..end, false);
                }
            }
            LayoutContent::Scalar { .. } | LayoutContent::List { .. } | LayoutContent::Map { .. } => {
                self.copy_lines(own)
            }
        }
    }

    fn write_map(
        &mut self,
        node: &LayoutNode,
        entries: &[(LayoutNode, LayoutNode)],
        place: Option<SchemaPlace<'static>>,
        own: Range<usize>,
        top: bool,
    ) {
        let body_end = if top { self.footer_start(node, own.end) } else { own.end };
        let starts = self.part_starts(entries.iter().map(|(key, _)| (key.line, key.column)), &own);
        let header = starts.first().copied().unwrap_or(own.end);
        let order = sorted_indices(entries, place).filter(|_| self.is_movable(node, entries));
        let header = if top && order.is_some() { self.header_end(header, node.line) } else { header };
        self.copy_lines(own.start..header);

        // Each entry as its lines, comments above it included.
        let mut parts: Vec<Vec<String>> = Vec::with_capacity(entries.len());
        for (index, (key, value)) in entries.iter().enumerate() {
            let start = if index == 0 { header } else { starts.get(index).copied().unwrap_or(body_end) };
            let end = starts.get(index + 1).copied().unwrap_or(body_end);
            let mut part = Vec::new();
            let mut inner = BlockMapSorter { lines: self.lines, out: &mut part };
            if value.line > key.last_line {
                // Comments between a key and its value belong to the value's first part.
                inner.copy_lines(start..key.last_line + 1);
                inner.write_node(value, child_schema(place, key), key.last_line + 1..end, false);
            } else {
                inner.copy_lines(start..end);
            }
            parts.push(part);
        }
        match order {
            Some(order) => self.write_moved(node, &order, parts, key_offset(entries, header)),
            None => self.out.extend(parts.into_iter().flatten()),
        }
        self.copy_lines(body_end..own.end);
    }

    /// Writes parts in another order. What stands left of the first key (`- `) goes left of the new first key.
    fn write_moved(&mut self, node: &LayoutNode, order: &[usize], mut parts: Vec<Vec<String>>, first_key: usize) {
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
    fn is_movable(&self, node: &LayoutNode, entries: &[(LayoutNode, LayoutNode)]) -> bool {
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
    fn part_starts(&self, parts: impl Iterator<Item = (usize, usize)>, own: &Range<usize>) -> Vec<usize> {
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
            .is_some_and(|comment| indent_width(comment) > column)
    }

    fn is_gap(&self, line: usize) -> bool {
        self.lines.get(line).is_some_and(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    }

    /// Where the comments at the head of the file end: behind the last blank line, and behind a modeline.
    fn header_end(&self, first: usize, key_line: usize) -> usize {
        let gap = self.lines.get(first..key_line).unwrap_or_default();
        let last = gap.iter().rposition(|line| line.trim().is_empty() || line.contains("yaml-language-server"));
        first + last.map_or(0, |last| last + 1)
    }

    /// Where the comments at the end of the file begin.
    fn footer_start(&self, node: &LayoutNode, end: usize) -> usize {
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
    fn starts_item(&self, item: &LayoutNode) -> bool {
        self.lines.get(item.line).is_some_and(|line| line.trim_start().starts_with("- "))
    }

    fn dash_column(&self, item: &LayoutNode) -> usize {
        self.lines.get(item.line).map_or(0, |line| indent_width(line))
    }

    fn copy_lines(&mut self, range: Range<usize>) {
        self.out.extend(self.lines.get(range).unwrap_or_default().iter().map(|line| (*line).to_owned()));
    }
}

/// How far below the start of the first part its key stands.
fn key_offset(entries: &[(LayoutNode, LayoutNode)], start: usize) -> usize {
    entries.first().map_or(0, |(key, _)| key.line.saturating_sub(start))
}

fn indent_width(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}
