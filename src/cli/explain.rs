//! `stator explain`.

use super::args::ReportFormat;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use clap::Args;
use stator_model::intent::explain::{ExplainError, FieldExplanation, explain};
use stator_model::present::{TerminalOptions, Tone, escape};
use std::fmt::Write as _;

/// Show what a field means, which values it takes, and the fields below it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stator explain serving.decode.gpus\n  stator explain repository.spec.environments"
)]
pub struct ExplainArgs {
    /// The field, by its dotted path
    #[arg(value_name = "FIELD.PATH", default_value = "model", hide_default_value = true)]
    field: String,
    /// Output format: text or JSON
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
}

pub fn run(arguments: &ExplainArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let explanation = explain(&arguments.field)?;
    output.write_result(&match arguments.output {
        ReportFormat::Text => format_explanation(&explanation, &output.stdout_style),
        ReportFormat::Json => stator_model::present::json(&explanation)?,
    })?;
    Ok(ExitStatus::Success)
}

impl From<ExplainError> for CliError {
    fn from(error: ExplainError) -> Self {
        Self::usage(error.to_string()).with_hint("`stator explain` without arguments lists the top-level fields")
    }
}

fn format_explanation(explanation: &FieldExplanation, look: &TerminalOptions) -> String {
    let heading = |text: &str| look.paint(Tone::Strong, text);
    let mut out = format!("{}   {}\n", heading("KIND:"), explanation.kind);
    if !explanation.path.is_empty() {
        let required = if explanation.required { ", required" } else { "" };
        let _ = writeln!(out, "{}  {} <{}>{required}", heading("FIELD:"), explanation.path, explanation.type_name);
    }
    let _ = writeln!(out, "\n{}", indented(&explanation.description));
    if !explanation.rules.is_empty() {
        let _ = writeln!(out, "{}", heading("RULES:"));
        for rule in &explanation.rules {
            let _ = writeln!(out, "  {}", escape::line(rule));
        }
        out.push('\n');
    }
    if !explanation.values.is_empty() {
        let _ = writeln!(out, "{}", heading("VALUES:"));
        let column = explanation.values.iter().map(|value| escape::display_width(&value.value)).max().unwrap_or(0);
        for value in &explanation.values {
            let line = format!("  {:column$}  {}", value.value, value.description);
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }
    if !explanation.fields.is_empty() {
        let _ = writeln!(out, "{}", heading("FIELDS:"));
        for field in &explanation.fields {
            let required = if field.required { ", required" } else { "" };
            let _ = writeln!(out, "  {} <{}>{required}", heading(&field.name), field.type_name);
            let _ = writeln!(out, "{}", indented(&indented(&field.description)));
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
