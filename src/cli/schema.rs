//! `stator schema`.

use super::error::{CliError, Exit};
use super::output::Output;
use clap::{Args, ValueEnum};
use schemars::generate::SchemaSettings;
use serde_json::Value;
use stator_git::source::model_source::ModelSource;
use stator_model::intent::schema::{SchemaKind, schema};

/// Print the JSON Schema of a document that stator reads or writes
#[derive(Debug, Args)]
#[command(
    after_help = "Example: stator schema intent > schemas/intent.json, and in a model.yaml:\n  # yaml-language-server: $schema=../schemas/intent.json"
)]
pub struct Arguments {
    /// The document
    document: Document,
}

/// The documents that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
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
    /// What `stator plan -o json` prints
    Plan,
}

pub fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let document = match arguments.document {
        Document::Intent => schema(SchemaKind::Intent),
        Document::Overlay => schema(SchemaKind::Overlay),
        Document::Repository => schema(SchemaKind::Repository),
        Document::Defaults => schema(SchemaKind::Defaults),
        Document::Lock => schema(SchemaKind::Lock),
        Document::Source => source(),
        Document::Plan => stator_model::plan::schema(),
    };
    output.result(&stator_model::present::json(&document)?)?;
    Ok(Exit::Success)
}

/// Draft 7, which every editor's YAML support understands.
fn source() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<ModelSource>().to_value()
}
