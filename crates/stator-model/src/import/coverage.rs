//! How much of each file has fields of its own: what `stator import --measure` prints.

use super::{FieldCoverage, ImportedModel};

/// One model's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverageRow {
    /// The file that it was made of.
    pub file: String,
    /// The model.
    pub model: String,
    /// Whether it renders back.
    pub round_trips: bool,
    /// How much of it has fields.
    pub coverage: FieldCoverage,
}

/// A model's line.
pub fn row(model: &ImportedModel) -> CoverageRow {
    CoverageRow {
        file: model.origin.0.clone(),
        model: model.name.clone(),
        round_trips: model.round_trips,
        coverage: model.coverage,
    }
}

/// All lines together.
pub fn total(rows: &[CoverageRow]) -> FieldCoverage {
    rows.iter().fold(FieldCoverage::default(), |all, row| FieldCoverage {
        leaves: all.leaves.saturating_add(row.coverage.leaves),
        unmapped: all.unmapped.saturating_add(row.coverage.unmapped),
    })
}

/// The table in Markdown, with a line for all.
pub fn markdown(rows: &[CoverageRow]) -> String {
    let mut text = "| File | Model | Renders back | Leaves | Named | Share |\n|-|-|-|-:|-:|-:|\n".to_owned();
    let line = |file: &str, model: &str, back: &str, share: FieldCoverage| {
        format!("| {file} | {model} | {back} | {} | {} | {} |\n", share.leaves, share.named(), percent(share))
    };
    for row in rows {
        let back = if row.round_trips { "yes" } else { "no" };
        text.push_str(&line(&format!("`{}`", row.file), &format!("`{}`", row.model), back, row.coverage));
    }
    let back = format!("{} of {}", rows.iter().filter(|row| row.round_trips).count(), rows.len());
    text.push_str(&line("all", "", &back, total(rows)));
    text
}

/// A share in percent with one digit, rounded down so that it never says more than is.
pub fn percent(share: FieldCoverage) -> String {
    let tenths = share.named().saturating_mul(1000).checked_div(share.leaves).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}
