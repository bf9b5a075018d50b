//! `stator explain`.

use super::args::{ClusterArgs, PolicyArgs, ReportFormat};
use super::connect;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::yaml::to_yaml;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use serde::Serialize;
use stator_model::fleet_policy::{FleetPolicy, JudgedSource};
use stator_model::intent::explain::{ChildField, ExplainError, FieldExplanation, explain};
use stator_model::present::{TerminalOptions, Tone, escape};
use std::fmt::Write as _;
use std::path::Path;

/// Show what a field means, which values it takes, and the fields below it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stator explain serving.decode.gpus\n  stator explain repository.spec.environments\n  stator explain serving --recursive\n  stator explain policy -n team-a --context prod"
)]
pub struct ExplainArgs {
    /// The field, by its dotted path
    #[arg(value_name = "FIELD.PATH", default_value = "model", hide_default_value = true)]
    field: String,
    /// Show the fields below at every depth, by name and type
    #[arg(long, env = "STATOR_RECURSIVE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    recursive: bool,
    /// Output format
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
    #[command(flatten)]
    policies: PolicyArgs,
    /// With `policy`: the namespace whose policies are shown; those of every namespace when left out
    #[arg(short, long, env = "STATOR_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(arguments: &ExplainArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.field == "policy" {
        if arguments.recursive {
            return Err(CliError::usage(
                "--recursive shows the fields below a field, and policies are shown as documents",
            )
            .with_hint("omit --recursive, or unset STATOR_RECURSIVE"));
        }
        return show_policies(arguments, output).await;
    }
    let explanation = explain(&arguments.field)?;
    if arguments.recursive {
        let explanation = RecursiveExplanation::of(explanation);
        let data = arguments.output.encode(&explanation)?;
        output.write_result(&data.unwrap_or_else(|| format_recursive(explanation, &output.stdout_style)))?;
        return Ok(ExitStatus::Success);
    }
    let data = arguments.output.encode(&explanation)?;
    output.write_result(&data.unwrap_or_else(|| format_explanation(&explanation, &output.stdout_style)))?;
    Ok(ExitStatus::Success)
}

/// Shows what administrators allow, as they wrote it: everything that binds a namespace.
async fn show_policies(arguments: &ExplainArgs, output: &Output) -> Result<ExitStatus, CliError> {
    // A file alone is shown as it is, before any cluster has it.
    let only_files = arguments.policies.policies.is_some() && !arguments.cluster.names_cluster();
    let policies = if only_files {
        arguments.policies.read_files()?
    } else {
        connect::with_timeout(&arguments.cluster, async {
            let cluster = connect::open(&arguments.cluster, Path::new(""), None, output).await?;
            arguments.policies.read(&cluster).await
        })
        .await?
    };
    let bound = match &arguments.namespace {
        Some(namespace) => policies.bind(&JudgedSource::default(), namespace),
        None => policies.all(),
    };
    let shown: Vec<&FleetPolicy> = bound.documents().collect();
    let text = match arguments.output.encode(&shown)? {
        Some(data) => data,
        None if shown.is_empty() => "no policy\n".to_owned(),
        None => shown.iter().map(to_yaml).collect::<Result<Vec<_>, _>>()?.join("---\n"),
    };
    output.write_result(&text)?;
    for reason in bound.unreadable() {
        output.warn(&format!("the policies of the fleet cannot be read: {reason}"));
    }
    let is_whole = bound.unreadable().next().is_none();
    Ok(if is_whole { ExitStatus::Success } else { ExitStatus::Negative })
}

/// A field with everything below it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecursiveExplanation {
    #[serde(flatten)]
    explanation: FieldExplanation,
    /// The fields below, each with those below it.
    tree: Vec<FieldTree>,
}

/// A field and the fields below it.
#[derive(Debug, Serialize)]
struct FieldTree {
    #[serde(flatten)]
    field: ChildField,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldTree>,
}

impl RecursiveExplanation {
    fn of(explanation: FieldExplanation) -> Self {
        let mut path = explanation.kind.to_lowercase();
        if !explanation.path.is_empty() {
            path = format!("{path}.{}", explanation.path);
        }
        let tree = trees_below(&path, &explanation, &[]);
        Self { explanation, tree }
    }
}

/// The fields below a field. A field with the same fields as one above it is a shape within itself, and is not entered.
fn trees_below(path: &str, explanation: &FieldExplanation, above: &[&[ChildField]]) -> Vec<FieldTree> {
    if above.contains(&explanation.fields.as_slice()) {
        return Vec::new();
    }
    let above: Vec<&[ChildField]> = above.iter().copied().chain([explanation.fields.as_slice()]).collect();
    let tree = |field: &ChildField| {
        // A map's values have fields of their own, under any name.
        let is_map = field.type_name.starts_with("map[");
        let path = format!("{path}.{}{}", field.name, if is_map { ".NAME" } else { "" });
        let below = explain(&path).ok();
        let fields = below.map(|below| trees_below(&path, &below, &above)).unwrap_or_default();
        FieldTree { field: field.clone(), fields }
    };
    explanation.fields.iter().map(tree).collect()
}

fn format_recursive(recursive: RecursiveExplanation, look: &TerminalOptions) -> String {
    let RecursiveExplanation { explanation, tree } = recursive;
    let mut out = format_explanation(&FieldExplanation { fields: Vec::new(), ..explanation }, look);
    if !tree.is_empty() {
        let _ = writeln!(out, "\n{}", look.paint(Tone::Strong, "FIELDS:"));
        write_trees(&tree, 1, &mut out);
    }
    out
}

fn write_trees(trees: &[FieldTree], depth: usize, out: &mut String) {
    for FieldTree { field, fields } in trees {
        let required = if field.required { ", required" } else { "" };
        let _ = writeln!(out, "{}{} <{}>{required}", "  ".repeat(depth), field.name, field.type_name);
        write_trees(fields, depth + 1, out);
    }
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
