//! `stator render`.

use super::args::{EmptyArgs, EnvironmentArgs, PolicyArgs};
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::files;
use super::output::Output;
use super::repository::{self, DesiredState, OpenedRepository};
use super::targets::{TargetArgs, model_names};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::Value;
use stator_core::finding::Finding;
use stator_core::mask;
use stator_core::object::{Object, ObjectRef, ObjectText};
use stator_model::intent::{Intent, ResolvedEnvironment};
use stator_model::present::origins::{ModelOrigins, OriginReport, UnwritableModel};
use stator_model::present::{escape, findings, pluralize};
use stator_model::render::emit;
use std::path::PathBuf;

/// Show the desired objects of an environment, without a cluster
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all rendered; 1 some models have errors, the others are rendered; 2 the repository cannot be read."
)]
pub struct RenderArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    empty: EmptyArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    output: ManifestFormat,
    /// Show the merged models instead, with the file and line of each value
    #[arg(long, conflicts_with = "out")]
    show_origins: bool,
    /// Print secrets, too. Without it, what looks like one is printed as `***`. Files of --out have all values in any case
    #[arg(long)]
    show_secrets: bool,
    /// Write one file per object into this folder, as MODEL/KIND-NAME.yaml
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
}

/// The forms of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ManifestFormat {
    /// YAML documents
    Yaml,
    /// A JSON List
    Json,
    /// KIND/NAMESPACE/NAME, one per line
    Name,
}

pub fn run(arguments: &RenderArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.out.is_some() && arguments.output == ManifestFormat::Name {
        return Err(CliError::usage("`-o name` lists objects, and cannot be used with --out")
            .with_hint("use `-o yaml` or `-o json`"));
    }
    let mut opened = repository::open_targets(&arguments.targets, output)?;
    opened.refuse_when_empty(arguments.empty, output)?;
    let selection = opened.select(&arguments.environment, output)?;
    opened.models.check_names(model_names(&selection))?;
    if !arguments.show_origins {
        repository::note_assumed_release(selection.environment.platform.as_ref(), output);
    }
    if arguments.show_origins {
        return show_origins(&opened, selection, arguments, output);
    }
    opened.workspace.forget_models();
    let desired = DesiredState::render(selection, &opened.held_to(arguments.policies.read_files()?));
    let scope = &opened.checkout.scope;
    let mut objects: Vec<_> = desired
        .rendered
        .iter()
        .filter(|model| scope.contains(&model.source))
        .flat_map(|model| model.objects.iter().map(|object| (object.stage, model.model.as_str(), &object.object)))
        .collect();
    // The sort is stable: within a stage, models stay in their order.
    objects.sort_by_key(|(stage, _, _)| *stage);
    match &arguments.out {
        Some(folder) => {
            for (_, model, object) in &objects {
                let name = format!("{}-{}", object.kind().to_lowercase(), object.name());
                let (extension, text) = match arguments.output {
                    ManifestFormat::Yaml => ("yaml", yaml_document(&object.parse())?),
                    ManifestFormat::Json => ("json", stator_model::present::json(&object.parse())?),
                    ManifestFormat::Name => ("txt", name_line(object.reference())),
                };
                let path = folder.join(file_name(model)).join(format!("{}.{extension}", file_name(&name)));
                files::write_atomically(&path, text.as_bytes())?;
            }
            output.note(&format!("{} written to {}", pluralize(objects.len(), "object", "objects"), folder.display()));
        }
        None => {
            let objects: Vec<&ObjectText> = objects.iter().map(|(_, _, object)| *object).collect();
            print_objects(&objects, arguments, output)?;
        }
    }
    Ok(report_findings(&opened, desired.findings, output))
}

/// Prints objects, without what looks like a secret unless that is asked for; one after the other, as there may be many.
fn print_objects(objects: &[&ObjectText], arguments: &RenderArgs, output: &Output) -> Result<(), CliError> {
    let write = |text: &str| match arguments.show_secrets {
        true => output.write_verbatim(text),
        false => output.write_result(text),
    };
    let mut hidden_values = 0;
    let mut failed = None;
    let mut shown = objects.iter().map_while(|text| {
        let object = text.parse();
        if arguments.show_secrets {
            return Some(object);
        }
        let (value, count) = hide_secrets(object.value());
        hidden_values += count;
        Object::from_value(value).map_err(|error| failed = Some(unhideable(&error))).ok()
    });
    match arguments.output {
        ManifestFormat::Yaml => shown.try_for_each(|object| write(&yaml_document(&object)?))?,
        ManifestFormat::Json => emit::json_list(shown, write)?,
        ManifestFormat::Name => objects.iter().try_for_each(|object| write(&name_line(object.reference())))?,
    }
    if let Some(error) = failed {
        return Err(error);
    }
    note_hidden(hidden_values, output);
    Ok(())
}

/// A value without what looks like a secret, and how many values of it are hidden.
fn hide_secrets(shown: &Value) -> (Value, usize) {
    let mut hidden = shown.clone();
    mask::redact_value(&mut hidden);
    let count = count_differences(shown, &hidden);
    (hidden, count)
}

/// How many texts and numbers of two values of one shape differ.
fn count_differences(one: &Value, other: &Value) -> usize {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => one.iter().zip(other).map(|(a, b)| count_differences(a, b)).sum(),
        (Value::Object(one), Value::Object(other)) => {
            one.values().zip(other.values()).map(|(a, b)| count_differences(a, b)).sum()
        }
        (one, other) => usize::from(one != other),
    }
}

fn note_hidden(count: usize, output: &Output) {
    if count > 0 {
        output.note(&format!("{} hidden; --show-secrets shows them", pluralize(count, "value", "values")));
    }
}

fn unhideable(error: &dyn std::fmt::Display) -> CliError {
    CliError::new(CliErrorKind::Bug, format!("the secrets cannot be hidden: {error}"))
        .with_hint("pass --show-secrets to print all values")
}

/// Says what is wrong with what was asked for.
fn report_findings(opened: &OpenedRepository, findings: Vec<Finding>, output: &Output) -> ExitStatus {
    let found = repository::findings_in_scope(findings, &opened.checkout.scope);
    let is_faulty = found.iter().any(Finding::is_error);
    if !found.is_empty() && (!output.is_quiet() || is_faulty) {
        output.write_stderr(&findings::with_snippets(&found, &|file| opened.file_text(file), &output.stderr_style));
    }
    if is_faulty { ExitStatus::Negative } else { ExitStatus::Success }
}

fn yaml_document(object: &Object) -> Result<String, CliError> {
    emit::yaml_documents(&[object]).map_err(|error| CliError::new(CliErrorKind::Bug, error.to_string()))
}

fn name_line(object: &ObjectRef) -> String {
    format!("{}/{}/{}\n", object.kind.to_lowercase(), object.namespace, object.name)
}

/// Shows the models after all layers. Those with errors have no such form, and are reported.
fn show_origins(
    opened: &OpenedRepository,
    selection: ResolvedEnvironment,
    arguments: &RenderArgs,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    let scope = &opened.checkout.scope;
    let asked = selection.intents.iter().filter(|intent| scope.contains(&intent.source));
    let mut intents: Vec<Intent> = asked.filter_map(|intent| intent.load().ok()).collect();
    let mut hidden_values = 0;
    for intent in intents.iter_mut().filter(|_| !arguments.show_secrets) {
        let (value, count) = hide_secrets(&serde_json::to_value(&intent.model).map_err(|error| unhideable(&error))?);
        if count > 0 {
            hidden_values += count;
            intent.model = serde_json::from_value(value).map_err(|error| unhideable(&error))?;
        }
    }
    let models: Result<Vec<ModelOrigins>, UnwritableModel> = intents.iter().map(ModelOrigins::of).collect();
    let report = OriginReport { models: models.map_err(|error| CliError::new(CliErrorKind::Bug, error.to_string()))? };
    let text = match arguments.output {
        ManifestFormat::Yaml => report
            .models
            .iter()
            .map(|model| format!("---\n# {}\n{}", escape::line(&model.source), model.yaml()))
            .collect(),
        ManifestFormat::Json => stator_model::present::json(&report)?,
        ManifestFormat::Name => report.models.iter().map(|model| format!("{}\n", escape::line(&model.name))).collect(),
    };
    match arguments.show_secrets {
        true => output.write_verbatim(&text)?,
        false => output.write_result(&text)?,
    }
    // In JSON, origins have no values.
    if arguments.output == ManifestFormat::Yaml {
        note_hidden(hidden_values, output);
    }
    Ok(report_findings(opened, selection.findings.clone(), output))
}

/// A name as one part of a path. Overrides may name an object anything; nothing leaves the folder.
fn file_name(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' }).collect();
    if safe.starts_with('.') { format!("_{safe}") } else { safe }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_name_leads_out_of_the_folder() {
        assert_eq!(super::file_name("../../etc/passwd"), "_.._.._etc_passwd");
        assert_eq!(super::file_name(".."), "_..");
        assert_eq!(super::file_name("llama-3.1"), "llama-3.1");
    }
}
