//! Places in text: stator counts lines and characters from 1, an editor lines and UTF-16 units from 0.

use lsp_types::{Position, Range};
use stator_core::finding::Location;

/// The characters before a position in its line.
pub fn column_of(text: &str, position: Position) -> usize {
    let line = text.lines().nth(index(position.line)).unwrap_or_default();
    let mut units = 0;
    let before = line.chars().take_while(|c| {
        let fits = units < index(position.character);
        units += c.len_utf16();
        fits
    });
    before.count()
}

/// The line of a position, from 0.
pub fn line_of(position: Position) -> usize {
    index(position.line)
}

/// A part of a line, by its characters from 0.
pub fn range_in_line(text: &str, line: usize, start: usize, end: usize) -> Range {
    let whole = text.lines().nth(line).unwrap_or_default();
    let position = |column: usize| {
        let units: usize = whole.chars().take(column).map(char::len_utf16).sum();
        Position { line: number(line), character: number(units) }
    };
    Range { start: position(start), end: position(end.max(start)) }
}

/// What a finding marks: what it says, else the whole line, else the first one.
pub fn range_of(text: &str, location: &Location) -> Range {
    let line = index(location.line.saturating_sub(1));
    if location.column == 0 {
        let whole = text.lines().nth(line).unwrap_or_default();
        let indent = whole.chars().take_while(|c| c.is_whitespace()).count();
        return range_in_line(text, line, indent, whole.chars().count());
    }
    let start = index(location.column - 1);
    range_in_line(text, line, start, start + index(location.length.max(1)))
}

/// All of a text.
pub fn whole_range(text: &str) -> Range {
    Range { start: Position::default(), end: Position { line: number(text.split('\n').count()), character: 0 } }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first character takes two units, as it is outside the Basic Multilingual Plane.
    #[test]
    fn columns_of_editors_are_units_of_utf_16() {
        let text = "a: 1\n𝄞é: x\n";
        let at = |character| column_of(text, Position { line: 1, character });
        assert_eq!([at(0), at(2), at(3), at(5), at(99)], [0, 1, 2, 4, 5]);
        let location = Location { line: 2, column: 2, length: 1, ..Location::default() };
        let range = range_of(text, &location);
        assert_eq!((range.start.character, range.end.character), (2, 3));
        let line = Location { line: 2, ..Location::default() };
        assert_eq!(range_of(text, &line).end.character, 6);
        assert_eq!(range_of(text, &Location { line: 9, column: 7, ..Location::default() }).start.line, 8);
        assert_eq!(whole_range(text).end.line, 3);
    }
}
