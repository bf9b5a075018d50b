//! `stator render`.

use super::args::{EnvironmentArgs, PathArg};
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::files;
use super::output::Output;
use super::repository;
use clap::{Args, ValueEnum, ValueHint};
use stator_core::object::Object;
use stator_model::present::{findings, pluralize};
use stator_model::render::emit;
use std::path::PathBuf;

/// Show the desired objects of an environment, in apply order. No cluster is needed
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all rendered; 1 some models have errors, the others are rendered; 2 the repository cannot be read."
)]
pub struct RenderArgs {
    #[command(flatten)]
    path: PathArg,
    #[command(flatten)]
    environment: EnvironmentArgs,
    /// Output format: YAML documents or a JSON List
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "yaml")]
    output: ManifestFormat,
    /// Write one file per object into this folder, as MODEL/KIND-NAME.yaml
    #[arg(long, env = "STATOR_OUT", value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
}

/// The forms of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ManifestFormat {
    /// YAML documents
    Yaml,
    /// A JSON List
    Json,
}

pub fn run(arguments: &RenderArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let opened = repository::open(&arguments.path.path, output)?;
    opened.note_when_empty(output);
    let desired = repository::render_environment(&opened.workspace, &arguments.environment)?;
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
                    ManifestFormat::Yaml => ("yaml", format_objects(arguments.output, &[object])?),
                    ManifestFormat::Json => ("json", stator_model::present::json(object)?),
                };
                let path = folder.join(file_name(model)).join(format!("{}.{extension}", file_name(&name)));
                files::write_atomically(&path, text.as_bytes())?;
            }
            output.note(&format!("{} written to {}", pluralize(objects.len(), "object", "objects"), folder.display()));
        }
        None => {
            let objects: Vec<&Object> = objects.iter().map(|(_, _, object)| *object).collect();
            output.write_result(&format_objects(arguments.output, &objects)?)?;
        }
    }
    let found = repository::findings_in_scope(desired.findings, scope);
    if !found.is_empty() && (!output.is_quiet() || found.iter().any(stator_core::finding::Finding::is_error)) {
        output.write_stderr(&findings::with_snippets(&found, &|file| opened.file_text(file), &output.stderr_style));
    }
    Ok(if found.iter().any(stator_core::finding::Finding::is_error) {
        ExitStatus::Negative
    } else {
        ExitStatus::Success
    })
}

fn format_objects(format: ManifestFormat, objects: &[&Object]) -> Result<String, CliError> {
    match format {
        ManifestFormat::Yaml => {
            emit::yaml_documents(objects).map_err(|error| CliError::new(CliErrorKind::Bug, error.to_string()))
        }
        ManifestFormat::Json => Ok(emit::json_list(objects)?),
    }
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
