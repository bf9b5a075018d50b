//! Tables for a terminal: aligned by display width. Where a terminal is too narrow, the least important columns go and the
//! last one is folded; elsewhere nothing is left out.

use super::{TerminalOptions, Tone, escape};

/// The width that the last column has at least, before others go for it.
const MIN_LAST_WIDTH: usize = 24;
/// The width that it has when nothing more can go.
const MIN_FOLD_WIDTH: usize = 10;
/// Between two columns.
const GAP: usize = 2;

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

/// A table with a line of headings.
#[derive(Clone, Debug)]
pub struct TextTable {
    headings: Vec<&'static str>,
    least_important: &'static [&'static str],
    rows: Vec<Vec<TableCell>>,
}

impl TextTable {
    /// An empty table.
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), least_important: &[], rows: Vec::new() }
    }

    /// The columns that a narrow terminal can do without, the least important first.
    #[must_use]
    pub fn least_important(self, headings: &'static [&'static str]) -> Self {
        Self { least_important: headings, ..self }
    }

    /// Adds a row; cells beyond the headings are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.rows.push(cells.into_iter().take(self.headings.len()).collect());
    }

    /// The table as text, columns two spaces apart. A line below it names the columns that there was no space for.
    pub fn render(&self, look: &TerminalOptions) -> String {
        let heading_width = |heading: &&str| if look.rows_only { 0 } else { heading.len() };
        let mut widths: Vec<usize> = self.headings.iter().map(heading_width).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(escape::display_width(&cell.text));
            }
        }
        let mut shown: Vec<usize> = (0..self.headings.len()).collect();
        let hidden = look.width.map(|available| self.hide_columns(&mut shown, &widths, available)).unwrap_or_default();
        let headings: Vec<TableCell> =
            self.headings.iter().map(|heading| TableCell::new(Tone::Strong, heading)).collect();
        let headings = (!look.rows_only).then_some(&headings);
        let rows = headings.into_iter().chain(&self.rows);
        let mut out: String = rows.map(|row| format_row(row, &shown, &widths, look)).collect();
        if !hidden.is_empty() && !look.rows_only {
            let line = format!("No room for {}: widen the terminal, or use `-o json`.", hidden.join(", "));
            for part in fold(&line, look.width.unwrap_or(usize::MAX)) {
                out.push_str(&look.paint(Tone::Faint, &part));
                out.push('\n');
            }
        }
        out
    }

    /// Takes columns away until the rest has space, and gives their headings in the order of the table.
    fn hide_columns(&self, shown: &mut Vec<usize>, widths: &[usize], available: usize) -> Vec<&'static str> {
        let width_of = |column: &usize| widths.get(*column).copied().unwrap_or(0);
        let needed = |shown: &[usize]| match shown.split_last() {
            Some((last, others)) => {
                others.iter().map(|column| width_of(column) + GAP).sum::<usize>() + width_of(last).min(MIN_LAST_WIDTH)
            }
            None => 0,
        };
        for heading in self.least_important {
            if needed(shown) <= available {
                break;
            }
            shown.retain(|column| self.headings.get(*column) != Some(heading));
        }
        let is_hidden = |(column, _): &(usize, &&'static str)| !shown.contains(column);
        self.headings.iter().enumerate().filter(is_hidden).map(|(_, heading)| *heading).collect()
    }
}

/// One row, of several lines where its last cell is folded.
fn format_row(row: &[TableCell], shown: &[usize], widths: &[usize], look: &TerminalOptions) -> String {
    let Some((last, others)) = shown.split_last() else { return String::new() };
    let mut line = String::new();
    let mut indent = 0;
    for column in others {
        let (Some(cell), Some(width)) = (row.get(*column), widths.get(*column)) else { continue };
        line.push_str(&look.paint(cell.tone, &cell.text));
        line.push_str(&" ".repeat(width.saturating_sub(escape::display_width(&cell.text)) + GAP));
        indent += width + GAP;
    }
    let available = look.width.map_or(usize::MAX, |available| available.saturating_sub(indent).max(MIN_FOLD_WIDTH));
    let mut out = String::new();
    let folded = row.get(*last).map(|cell| (cell.tone, fold(&cell.text, available)));
    let (tone, parts) = folded.unwrap_or((Tone::Plain, vec![String::new()]));
    for (position, part) in parts.iter().enumerate() {
        if position > 0 {
            line = " ".repeat(indent);
        }
        line.push_str(&look.paint(tone, part));
        out.push_str(line.trim_end_matches(' '));
        out.push('\n');
    }
    out
}

/// A text in lines of at most this width; a word that is longer is broken.
fn fold(text: &str, width: usize) -> Vec<String> {
    if escape::display_width(text) <= width {
        return vec![text.to_owned()];
    }
    textwrap::wrap(text, width).into_iter().map(|part| part.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> TextTable {
        let mut table = TextTable::new(&["NAME", "REVISION", "AGE", "MESSAGE"]).least_important(&["AGE", "REVISION"]);
        table.row(
            ["llama", "3f2a91c", "3d", "all is well with this one, as far as anybody can tell"].map(TableCell::plain),
        );
        table.row(["模型", "3f2a91c", "12m", ""].map(TableCell::plain));
        table
    }

    fn at(width: usize) -> String {
        sample().render(&TerminalOptions { width: Some(width), ..TerminalOptions::default() })
    }

    #[test]
    fn rows_alone_have_no_headings_and_no_room_for_them() {
        let mut table = TextTable::new(&["NAMESPACE", "GPUS"]);
        table.row([TableCell::plain("a"), TableCell::plain("8")]);
        assert_eq!(table.render(&TerminalOptions { rows_only: true, ..TerminalOptions::default() }), "a  8\n");
    }

    #[test]
    fn columns_line_up_by_display_width() {
        insta::assert_snapshot!(sample().render(&TerminalOptions::default()), @"
        NAME   REVISION  AGE  MESSAGE
        llama  3f2a91c   3d   all is well with this one, as far as anybody can tell
        模型   3f2a91c   12m  -
        ");
    }

    #[test]
    fn a_narrow_terminal_folds_the_last_column_and_does_without_the_least_important_ones() {
        insta::assert_snapshot!([at(60), at(40), at(30)].join("\n"), @"
        NAME   REVISION  AGE  MESSAGE
        llama  3f2a91c   3d   all is well with this one, as far as
                              anybody can tell
        模型   3f2a91c   12m  -

        NAME   MESSAGE
        llama  all is well with this one, as far
               as anybody can tell
        模型   -
        No room for REVISION, AGE: widen the
        terminal, or use `-o json`.

        NAME   MESSAGE
        llama  all is well with this
               one, as far as anybody
               can tell
        模型   -
        No room for REVISION, AGE:
        widen the terminal, or use `-o
        json`.
        ");
    }

    proptest! {
        /// No line is wider than the terminal where the first column leaves space, and no word of the last column is lost.
        #[test]
        fn nothing_of_a_message_is_lost(message in "[a-z ]{1,80}", width in 20_usize..100) {
            let mut table = TextTable::new(&["NAME", "MESSAGE"]);
            table.row([TableCell::plain("llama"), TableCell::plain(&message)]);
            let shown = table.render(&TerminalOptions { width: Some(width), ..TerminalOptions::default() });
            prop_assert!(shown.lines().all(|line| escape::display_width(line) <= width), "{shown}");
            let words = |text: &str| text.split_whitespace().collect::<String>();
            let body: String = shown.lines().skip(1).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(&body).replacen("llama", "", 1), words(&TableCell::plain(&message).text));
        }
    }
}
