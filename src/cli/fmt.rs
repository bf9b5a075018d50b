//! `stator fmt`.

use super::args::PathArg;
use super::error::{CliError, ExitStatus};
use super::files;
use super::output::Output;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use rayon::prelude::*;
use stator_git::source;
use stator_model::intent::format::format_document;
use stator_model::present::{escape, pluralize};
use std::sync::Arc;

/// Format model.yaml, overlays and stator.yaml in canonical order and style; comments are kept
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 success; 1 with --check, a file would change; 2 a file cannot be formatted.")]
pub struct FmtArgs {
    #[command(flatten)]
    path: PathArg,
    /// Change nothing; list the files that would change
    #[arg(long, env = "STATOR_CHECK", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    check: bool,
}

/// What becomes of one file.
enum FormatOutcome {
    Unchanged,
    Reformatted(String),
    Rejected(String),
}

pub fn run(arguments: &FmtArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let checkout = source::open(&arguments.path.path)?;
    let files: Vec<_> = checkout.tree.files.iter().filter(|file| checkout.scope.contains(&file.path)).collect();
    let verdicts: Vec<FormatOutcome> = files.par_iter().map(|file| format_file(&file.content)).collect();
    let (mut changed, mut refused) = (0, 0);
    for (file, verdict) in files.iter().zip(verdicts) {
        match verdict {
            FormatOutcome::Unchanged => {}
            FormatOutcome::Reformatted(text) => {
                changed += 1;
                if !arguments.check {
                    files::write_atomically(&checkout.root.join(&file.path), text.as_bytes())?;
                }
                output.write_result(&(escape::line(&file.path) + "\n"))?;
            }
            FormatOutcome::Rejected(reason) => {
                refused += 1;
                output.warn(&format!("error: {}: {reason}", file.path));
            }
        }
    }
    let verb = if arguments.check { "would change" } else { "changed" };
    let rest = files.len() - changed - refused;
    output.note(&format!(
        "{} {verb}, {rest} {} formatted already{}",
        pluralize(changed, "file", "files"),
        if rest == 1 { "is" } else { "are" },
        if refused > 0 { format!(", {refused} cannot be formatted") } else { String::new() }
    ));
    Ok(match (refused, arguments.check && changed > 0) {
        (0, false) => ExitStatus::Success,
        (0, true) => ExitStatus::Negative,
        (_, _) => ExitStatus::Error,
    })
}

fn format_file(content: &Result<Arc<[u8]>, String>) -> FormatOutcome {
    let bytes = match content {
        Ok(bytes) => bytes,
        Err(reason) => return FormatOutcome::Rejected(reason.clone()),
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return FormatOutcome::Rejected(format!("not UTF-8 at byte {}", error.valid_up_to())),
    };
    match format_document(text) {
        Ok(new) if new == text => FormatOutcome::Unchanged,
        Ok(new) => FormatOutcome::Reformatted(new),
        Err(error) => FormatOutcome::Rejected(error.to_string()),
    }
}
