//! Tables for a terminal: aligned by display width, cut only where there is a terminal to cut for.

use super::{TerminalOptions, Tone, escape};

/// A cell: what it says, and what that means.
#[derive(Clone, Debug)]
pub struct TableCell {
    text: String,
    tone: Tone,
}

impl TableCell {
    /// A cell in a tone. The text is made harmless here.
    pub fn new(tone: Tone, text: &str) -> Self {
        Self { text: if text.is_empty() { "-".to_owned() } else { escape::line(text) }, tone }
    }

    /// A cell that means nothing special.
    pub fn plain(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// A table with a line of headings. The last column is the one that is cut.
#[derive(Clone, Debug)]
pub struct TextTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<TableCell>>,
}

impl TextTable {
    /// An empty table.
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the headings are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.rows.push(cells.into_iter().take(self.headings.len()).collect());
    }

    /// The table as text, columns two spaces apart.
    pub fn render(&self, look: &TerminalOptions) -> String {
        let heading_width = |heading: &&str| if look.rows_only { 0 } else { heading.len() };
        let mut widths: Vec<usize> = self.headings.iter().map(heading_width).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(escape::display_width(&cell.text));
            }
        }
        let headings: Vec<TableCell> =
            self.headings.iter().map(|heading| TableCell::new(Tone::Strong, heading)).collect();
        let headings = (!look.rows_only).then_some(&headings);
        headings.into_iter().chain(&self.rows).map(|row| format_row(row, &widths, look)).collect()
    }
}

fn format_row(row: &[TableCell], widths: &[usize], look: &TerminalOptions) -> String {
    let mut out = String::new();
    let mut used = 0;
    for (position, (cell, width)) in row.iter().zip(widths).enumerate() {
        let room = look.width.map_or(usize::MAX, |total| total.saturating_sub(used));
        let text = escape::truncate(&cell.text, room);
        out.push_str(&look.paint(cell.tone, &text));
        if position + 1 < row.len() {
            out.push_str(&" ".repeat((width - escape::display_width(&cell.text)).min(room) + 2));
        }
        used += width + 2;
    }
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TextTable {
        let mut table = TextTable::new(&["NAME", "MESSAGE"]);
        table.row([TableCell::plain("llama"), TableCell::plain("all is well with this one")]);
        table.row([TableCell::plain("模型"), TableCell::plain("")]);
        table
    }

    #[test]
    fn rows_alone_have_no_headings_and_no_room_for_them() {
        let mut table = TextTable::new(&["NAMESPACE", "GPUS"]);
        table.row([TableCell::plain("a"), TableCell::plain("8")]);
        assert_eq!(table.render(&TerminalOptions { rows_only: true, ..TerminalOptions::default() }), "a  8\n");
    }

    #[test]
    fn columns_line_up_by_display_width() {
        insta::assert_snapshot!(sample().render(&TerminalOptions::default()), @r"
        NAME   MESSAGE
        llama  all is well with this one
        模型   -
        ");
    }

    #[test]
    fn only_a_terminal_cuts() {
        insta::assert_snapshot!(sample().render(&TerminalOptions { width: Some(20), ..TerminalOptions::default() }), @r"
        NAME   MESSAGE
        llama  all is well …
        模型   -
        ");
    }
}
