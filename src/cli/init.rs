//! `stator init`.

use super::error::{CliError, ExitStatus};
use super::files;
use super::output::Output;
use clap::{Args, ValueHint};
use stator_model::intent::scaffold;
use stator_model::present::escape;
use std::path::PathBuf;

/// Create a small example repository, ready to validate, render and sync
#[derive(Debug, Args)]
#[command(after_help = "Existing files are never overwritten.")]
pub struct InitArgs {
    /// The folder; created if missing
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub fn run(arguments: &InitArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let folder = &arguments.directory;
    fs_err::create_dir_all(folder)?;
    let absolute = fs_err::canonicalize(folder)?;
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let files = scaffold::repository_files(&name);
    // All or nothing: half a repository beside somebody's files helps nobody.
    if let Some((taken, _)) = files.iter().find(|(path, _)| folder.join(path).symlink_metadata().is_ok()) {
        return Err(CliError::input(format!("{} exists already", folder.join(taken).display()))
            .with_hint("choose another folder: `stator init DIR`"));
    }
    for (path, text) in &files {
        files::write_atomically(&folder.join(path), text.as_bytes())?;
        output.write_result(&(escape::line(path) + "\n"))?;
    }
    let place = if folder.as_os_str() == "." { String::new() } else { format!("cd {} && ", folder.display()) };
    output.note(&format!(
        "Next: {place}stator validate && stator sync -e staging --cluster embedded --simulate-operator --wait"
    ));
    Ok(ExitStatus::Success)
}
