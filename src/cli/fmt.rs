//! `stator fmt`.

use super::args::PathArg;
use super::error::{CliError, Exit};
use super::files;
use super::output::Output;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use rayon::prelude::*;
use stator_git::source;
use stator_model::intent::format::format;
use stator_model::present::{count, escape};

/// Write model.yaml, overlays and stator.yaml in canonical order and style; comments stay
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all is well; 1 with --check, a file would change; 2 a file cannot be formatted.")]
pub struct Arguments {
    #[command(flatten)]
    path: PathArg,
    /// Change nothing; list the files that would change
    #[arg(long, env = "STATOR_CHECK", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    check: bool,
}

/// What becomes of one file.
enum Verdict {
    Same,
    New(String),
    Refused(String),
}

pub fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let checkout = source::open(&arguments.path.path)?;
    let files: Vec<_> = checkout.tree.files.iter().filter(|file| checkout.scope.contains(&file.path)).collect();
    let verdicts: Vec<Verdict> = files.par_iter().map(|file| judge(&file.content)).collect();
    let (mut changed, mut refused) = (0, 0);
    for (file, verdict) in files.iter().zip(verdicts) {
        match verdict {
            Verdict::Same => {}
            Verdict::New(text) => {
                changed += 1;
                if !arguments.check {
                    files::write(&checkout.root.join(&file.path), text.as_bytes())?;
                }
                output.result(&(escape::line(&file.path) + "\n"))?;
            }
            Verdict::Refused(reason) => {
                refused += 1;
                output.warn(&format!("error: {}: {reason}", file.path));
            }
        }
    }
    let verb = if arguments.check { "would change" } else { "changed" };
    let rest = files.len() - changed - refused;
    output.note(&format!(
        "{} {verb}, {rest} {} formatted already{}",
        count(changed, "file", "files"),
        if rest == 1 { "is" } else { "are" },
        if refused > 0 { format!(", {refused} cannot be formatted") } else { String::new() }
    ));
    Ok(match (refused, arguments.check && changed > 0) {
        (0, false) => Exit::Success,
        (0, true) => Exit::No,
        (_, _) => Exit::Error,
    })
}

fn judge(content: &Result<Vec<u8>, String>) -> Verdict {
    let bytes = match content {
        Ok(bytes) => bytes,
        Err(reason) => return Verdict::Refused(reason.clone()),
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Verdict::Refused(format!("not UTF-8 at byte {}", error.valid_up_to())),
    };
    match format(text) {
        Ok(new) if new == text => Verdict::Same,
        Ok(new) => Verdict::New(new),
        Err(error) => Verdict::Refused(error.to_string()),
    }
}
