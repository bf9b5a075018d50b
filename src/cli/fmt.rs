//! `stator fmt`.

use super::args::EmptyArgs;
use super::error::{CliError, ExitStatus};
use super::files;
use super::output::Output;
use super::repository;
use super::targets::{PathArgs, TargetedModels};
use clap::Args;
use rayon::prelude::*;
use stator_git::source::{self, Checkout, RepositoryScope, ScopePart};
use stator_model::intent::Workspace;
use stator_model::intent::format::format_document;
use stator_model::present::patch::unified_diff;
use stator_model::present::{escape, pluralize};
use std::path::PathBuf;
use std::sync::Arc;

/// Format model.yaml, overlays and stator.yaml; comments stay
#[derive(Debug, Args)]
#[command(
    after_help = "With `-`, standard input is formatted to standard output.\n\nExit codes: 0 success; 1 with --check or --diff, a file would change; 2 a file cannot be formatted.\n\nExamples:\n  stator fmt\n  stator fmt --diff models/chat\n  stator fmt - < model.yaml"
)]
pub struct FmtArgs {
    #[command(flatten)]
    targets: PathArgs,
    #[command(flatten)]
    empty: EmptyArgs,
    /// Change nothing; list the files that would change
    #[arg(long)]
    check: bool,
    /// Change nothing; show what would change as a unified diff
    #[arg(long)]
    diff: bool,
}

/// What becomes of one file.
enum FormatOutcome {
    Unchanged,
    Reformatted { old: String, new: String },
    Rejected(String),
}

pub fn run(arguments: &FmtArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.targets.is_standard_input()? {
        return format_standard_input(arguments, output);
    }
    let (checkout, scope) = open(&arguments.targets)?;
    repository::refuse_empty_checkout(&checkout, &scope, arguments.empty)?;
    let files: Vec<_> = checkout.tree.files.iter().filter(|file| scope.contains(&file.path)).collect();
    let verdicts: Vec<FormatOutcome> = files.par_iter().map(|file| format_file(&file.content)).collect();
    let (mut changed, mut refused) = (0, 0);
    let is_dry = arguments.check || arguments.diff;
    for (file, verdict) in files.iter().zip(verdicts) {
        match verdict {
            FormatOutcome::Unchanged => {}
            FormatOutcome::Reformatted { old, new } => {
                changed += 1;
                if !is_dry {
                    files::write_atomically(&checkout.root.join(&file.path), new.as_bytes())?;
                }
                output.write_result(&match arguments.diff {
                    true => file_diff(&file.path, &old, &new),
                    false => escape::line(&file.path) + "\n",
                })?;
            }
            FormatOutcome::Rejected(reason) => {
                refused += 1;
                output.warn(&format!("error: {}: {reason}", file.path));
            }
        }
    }
    let verb = if is_dry { "would change" } else { "changed" };
    let rest = files.len() - changed - refused;
    output.note(&format!(
        "{} {verb}, {rest} {} formatted already{}",
        pluralize(changed, "file", "files"),
        if rest == 1 { "is" } else { "are" },
        if refused > 0 { format!(", {refused} cannot be formatted") } else { String::new() }
    ));
    Ok(exit_status(refused > 0, is_dry && changed > 0))
}

fn exit_status(is_refused: bool, would_change: bool) -> ExitStatus {
    match (is_refused, would_change) {
        (false, false) => ExitStatus::Success,
        (false, true) => ExitStatus::Negative,
        (true, _) => ExitStatus::Error,
    }
}

/// Formats one document that another program pipes in. What cannot be formatted is not printed.
fn format_standard_input(arguments: &FmtArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let content = files::read_standard_input();
    match format_file(&content) {
        FormatOutcome::Unchanged if arguments.check || arguments.diff => Ok(ExitStatus::Success),
        FormatOutcome::Reformatted { .. } if arguments.check => Ok(ExitStatus::Negative),
        FormatOutcome::Reformatted { old, new } if arguments.diff => {
            output.write_result(&file_diff("stdin", &old, &new))?;
            Ok(ExitStatus::Negative)
        }
        FormatOutcome::Unchanged => {
            let text = content.unwrap_or_default();
            output.write_verbatim(&String::from_utf8_lossy(&text))?;
            Ok(ExitStatus::Success)
        }
        FormatOutcome::Reformatted { new, .. } => {
            output.write_verbatim(&new)?;
            Ok(ExitStatus::Success)
        }
        FormatOutcome::Rejected(reason) => Err(CliError::input(format!("standard input: {reason}"))
            .with_hint("`stator explain model` lists the fields of a model.yaml")),
    }
}

/// Opens the repository of the targets. A model's name stands for the folder of its files.
fn open(targets: &PathArgs) -> Result<(Checkout, RepositoryScope), CliError> {
    let (paths, names) = targets.split();
    let here = PathBuf::from(".");
    let (first, others) = paths.split_first().unwrap_or((&here, &[]));
    let checkout = source::open_parts(first, others)?;
    let mut scope = if paths.is_empty() { RepositoryScope::default() } else { checkout.scope.clone() };
    if !names.is_empty() {
        let models = TargetedModels::of_names(RepositoryScope::default(), names);
        for part in models.scope_in_workspace(&Workspace::parse(&checkout.tree))?.parts() {
            let (ScopePart::Folder(path) | ScopePart::Intent(path)) = part;
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            scope.add(ScopePart::Folder(folder.to_owned()));
        }
    }
    Ok((checkout, scope))
}

fn file_diff(path: &str, old: &str, new: &str) -> String {
    let text = unified_diff((&format!("a/{path}"), old), (&format!("b/{path}"), new));
    text.lines().map(|line| escape::line(line) + "\n").collect()
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
        Ok(new) => FormatOutcome::Reformatted { old: text.to_owned(), new },
        Err(error) => FormatOutcome::Rejected(error.to_string()),
    }
}
