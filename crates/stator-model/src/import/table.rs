//! How much of each file has fields of its own: what `stator import --measure` prints.

use super::{Imported, Share};

/// One model's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The file that it was made of.
    pub file: String,
    /// The model.
    pub model: String,
    /// Whether it renders back.
    pub proven: bool,
    /// How much of it has fields.
    pub share: Share,
}

/// A model's line.
pub fn row(model: &Imported) -> Row {
    Row { file: model.origin.0.clone(), model: model.name.clone(), proven: model.proven, share: model.share }
}

/// All lines together.
pub fn total(rows: &[Row]) -> Share {
    rows.iter().fold(Share::default(), |all, row| Share {
        leaves: all.leaves.saturating_add(row.share.leaves),
        rest: all.rest.saturating_add(row.share.rest),
    })
}

/// The table in Markdown, with a line for all.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = "| File | Model | Renders back | Leaves | Named | Share |\n|-|-|-|-:|-:|-:|\n".to_owned();
    let line = |file: &str, model: &str, back: &str, share: Share| {
        format!("| {file} | {model} | {back} | {} | {} | {} |\n", share.leaves, share.named(), percent(share))
    };
    for row in rows {
        let back = if row.proven { "yes" } else { "no" };
        text.push_str(&line(&format!("`{}`", row.file), &format!("`{}`", row.model), back, row.share));
    }
    let back = format!("{} of {}", rows.iter().filter(|row| row.proven).count(), rows.len());
    text.push_str(&line("all", "", &back, total(rows)));
    text
}

/// A share in percent with one digit, rounded down so that it never says more than is.
fn percent(share: Share) -> String {
    let tenths = share.named().saturating_mul(1000).checked_div(share.leaves).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}
