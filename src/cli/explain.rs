//! `stator explain`.

use super::args::{ClusterArgs, PolicyArgs, ReportFormat, to_yaml};
use super::connect;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use clap::Args;
use serde::Serialize;
use stator_core::finding::{Rule, did_you_mean};
use stator_core::manual;
use stator_git::source::model_source::ModelSource;
use stator_model::fleet_policy::{FleetPolicy, JudgedSource};
use stator_model::intent::explain::{ChildField, ExplainError, FieldExplanation, explain, explain_document};
use stator_model::intent::schema::strict_schema;
use stator_model::intent::{DocumentKind, SchemaTree};
use stator_model::present::{TerminalOptions, Tone, escape};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Explain a field of a document, or a rule that a finding names
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stator explain serving.decode.gpus\n  stator explain repository.spec.environments\n  stator explain modelsource.spec.url\n  stator explain schema/unknown-field\n  stator explain serving --recursive\n  stator explain policy -n team-a --context prod"
)]
pub struct ExplainArgs {
    /// Dotted path of a field, with or without its document (model, repository, defaults, modelsource, fleetpolicy); or the
    /// id of a rule, such as `yaml/null`
    #[arg(value_name = "FIELD.PATH|RULE", default_value = "model", hide_default_value = true)]
    field: String,
    /// Show all nested fields, by name and type
    #[arg(long)]
    recursive: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
    #[command(flatten)]
    policies: PolicyArgs,
    /// With `policy`: show only the policies that apply to this namespace; by default, all policies
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(arguments: &ExplainArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.field == "policy" {
        if arguments.recursive {
            return Err(
                CliError::usage("--recursive works with fields, not with `policy`").with_hint("omit --recursive")
            );
        }
        return show_policies(arguments, output).await;
    }
    if let Some(rule) = find_rule(&arguments.field)? {
        let data = arguments.output.encode(&RuleExplanation::of(rule))?;
        output.write_result(&data.unwrap_or_else(|| format_rule(rule, &output.stdout_style)))?;
        return Ok(ExitStatus::Success);
    }
    let explanation = explain_any(&arguments.field).map_err(|error| {
        let documents = DocumentKind::ALL.map(DocumentKind::as_str).into_iter();
        let documents: Vec<String> =
            documents.chain(OTHER_DOCUMENTS.iter().map(|(kind, _)| *kind)).map(str::to_lowercase).collect();
        let first = arguments.field.split('.').next().unwrap_or_default();
        let meant = did_you_mean(first, documents.iter().map(String::as_str));
        let meant = meant.filter(|_| !documents.iter().any(|document| document.eq_ignore_ascii_case(first)));
        CliError::from(error).with_hint(meant.unwrap_or_default())
    })?;
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

/// What a word may go on to that is explained: fields below what it names, documents, and rules.
pub fn explainable_words(word: &str) -> Vec<String> {
    if let Some((above, _)) = word.rsplit_once('.') {
        let fields = explain_any(above).map(|explanation| explanation.fields).unwrap_or_default();
        return fields.into_iter().map(|field| format!("{above}.{}", field.name)).collect();
    }
    let documents = DocumentKind::ALL.map(DocumentKind::as_str).into_iter();
    let documents = documents.chain(OTHER_DOCUMENTS.iter().map(|(kind, _)| *kind)).map(str::to_lowercase);
    let fields = explain("model.spec").map(|explanation| explanation.fields).unwrap_or_default();
    let rules = RULE_GROUPS.iter().flat_map(|(_, rules)| rules.iter()).map(|rule| rule.id.to_owned());
    documents.chain(fields.into_iter().map(|field| field.name)).chain(rules.filter(|_| word.contains('/'))).collect()
}

/// Every rule that a finding may name, by what it is about.
pub const RULE_GROUPS: [(&str, &[Rule]); 8] = [
    ("Intents", stator_model::intent::rules::ALL),
    ("Dynamo", stator_core::dynamo::admission::rules::ALL),
    ("Rendering", stator_model::render::rules::ALL),
    ("Policies of a fleet", stator_model::fleet_policy::rules::ALL),
    ("Plans", stator_model::plan::rules::ALL),
    ("Importing", stator_model::import::rules::ALL),
    ("Sources", crate::controller::sources::spec::rules::ALL),
    ("Findings", stator_core::finding::limit::ALL),
];

/// The rule of an id, `None` for a word that cannot be one.
///
/// # Errors
/// When there is no such rule; the error names the nearest one.
fn find_rule(word: &str) -> Result<Option<Rule>, CliError> {
    if !word.contains('/') {
        return Ok(None);
    }
    let rules = || RULE_GROUPS.iter().flat_map(|(_, rules)| rules.iter());
    match rules().find(|rule| rule.id == word) {
        Some(rule) => Ok(Some(*rule)),
        None => {
            let hint = did_you_mean(word, rules().map(|rule| rule.id));
            let hint = hint.unwrap_or_else(|| format!("all rules: {}", manual::page("rules", "rules")));
            Err(CliError::usage(format!("there is no rule `{word}`")).with_hint(hint))
        }
    }
}

/// What `explain RULE -o json` prints.
#[derive(Debug, Serialize)]
struct RuleExplanation {
    rule: &'static str,
    description: &'static str,
    page: String,
}

impl RuleExplanation {
    fn of(rule: Rule) -> Self {
        Self { rule: rule.id, description: rule.summary, page: rule.page() }
    }
}

fn format_rule(rule: Rule, look: &TerminalOptions) -> String {
    let heading = |text: &str| look.paint(Tone::Strong, text);
    format!("{}  {}\n\n{}\n{}  {}\n", heading("RULE:"), rule.id, indented(rule.summary), heading("PAGE:"), rule.page())
}

/// The documents beside those of a repository, by their kinds.
static OTHER_DOCUMENTS: LazyLock<[(&str, SchemaTree); 2]> = LazyLock::new(|| {
    [
        ("ModelSource", SchemaTree::new(&strict_schema::<ModelSource>())),
        ("FleetPolicy", SchemaTree::new(&strict_schema::<FleetPolicy>())),
    ]
});

/// Explains a field of any document.
fn explain_any(path: &str) -> Result<FieldExplanation, ExplainError> {
    let first = path.split('.').next().unwrap_or(path);
    match OTHER_DOCUMENTS.iter().find(|(kind, _)| kind.eq_ignore_ascii_case(first)) {
        Some((kind, schema)) => explain_document(kind, schema, path),
        None => explain(path),
    }
}

/// Shows what administrators allow, as they wrote it: everything that binds a namespace.
async fn show_policies(arguments: &ExplainArgs, output: &Output) -> Result<ExitStatus, CliError> {
    // A file alone is shown as it is, before any cluster has it.
    let policies = connect::read_policies(&arguments.policies, &arguments.cluster, output).await?;
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
        let below = explain_any(&path).ok();
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
