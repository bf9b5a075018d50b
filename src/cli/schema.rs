//! `stator schema`.

use super::error::{CliError, ExitStatus};
use super::output::Output;
use clap::{Args, ValueEnum};
use schemars::generate::SchemaSettings;
use serde_json::Value;
use stator_git::source::model_source::ModelSource;
use stator_model::intent::schema::{SchemaKind, editor_schema, with_address};

/// Print the JSON Schema of a document
#[derive(Debug, Args)]
#[command(
    after_help = "Example: stator schema intent > schemas/intent.json, and in a model.yaml:\n  # yaml-language-server: $schema=../schemas/intent.json"
)]
pub struct SchemaArgs {
    /// The document
    document: SchemaDocument,
}

/// The documents that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemaDocument {
    /// A model.yaml
    Intent,
    /// A model.<environment>.yaml
    Overlay,
    /// The root stator.yaml
    Repository,
    /// A stator.yaml below the root
    Defaults,
    /// A model.lock.yaml
    Lock,
    /// A ModelSource
    Source,
    /// The output of `stator plan -o json`
    Plan,
}

pub fn run(arguments: &SchemaArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let document = match arguments.document {
        SchemaDocument::Intent => editor_schema(SchemaKind::Intent),
        SchemaDocument::Overlay => editor_schema(SchemaKind::Overlay),
        SchemaDocument::Repository => editor_schema(SchemaKind::Repository),
        SchemaDocument::Defaults => editor_schema(SchemaKind::Defaults),
        SchemaDocument::Lock => editor_schema(SchemaKind::Lock),
        SchemaDocument::Source => with_address("source", source_schema()),
        SchemaDocument::Plan => with_address("plan", stator_model::plan::schema()),
    };
    output.write_result(&stator_model::present::json(&document)?)?;
    Ok(ExitStatus::Success)
}

/// Draft 7, which every editor's YAML support understands.
fn source_schema() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<ModelSource>().to_value()
}
