//! Whether a repository may choose a context of the kubeconfig. A clone's files are somebody else's: the context that they name
//! decides whose login is used, and which plugin is run for it. So a person is asked once for each repository and context.

use super::error::{CliError, CliErrorKind};
use super::output::Output;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The context that an environment names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvironmentContext<'a> {
    /// Which.
    pub name: &'a str,
    /// Whether nobody may be asked.
    pub no_input: bool,
}

impl<'a> EnvironmentContext<'a> {
    /// Of an environment that may name none; whoever sits at a terminal is asked.
    pub fn of(name: Option<&'a String>) -> Option<Self> {
        name.map(|name| Self { name, no_input: false })
    }
}

/// One answer that was given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct TrustedContext {
    /// The repository's root.
    repository: PathBuf,
    /// The context that it may choose.
    context: String,
}

/// All answers that were given, in a file of the user's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TrustedContexts {
    trusted: BTreeSet<TrustedContext>,
}

impl TrustedContexts {
    /// What the file holds. One that cannot be read holds no answer: who is asked again loses nothing.
    fn read(file: &Path) -> Self {
        let text = fs_err::read_to_string(file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes all of them, in one step, for nobody else to read.
    fn write(&self, file: &Path) -> std::io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        written.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        fs_err::rename(&new, file)
    }
}

/// Where answers are kept; `None` where the user has no home.
fn answers_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("stator/trusted-contexts.json"))
}

/// Goes on where the repository may choose this context: somebody said so before, or says so now.
///
/// # Errors
/// When nobody did, or the answer is no.
pub fn require_trust(
    root: &Path,
    chosen: EnvironmentContext<'_>,
    current: Option<&str>,
    output: &Output,
) -> Result<(), CliError> {
    let root = fs_err::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let answer = TrustedContext { repository: root, context: chosen.name.to_owned() };
    let file = answers_file(|name| std::env::var_os(name));
    let mut known = file.as_deref().map(TrustedContexts::read).unwrap_or_default();
    if known.trusted.contains(&answer) {
        return Ok(());
    }
    let (context, repository) = (&answer.context, answer.repository.display());
    let is_current = current.map_or_else(String::new, |current| format!("; the current context is `{current}`"));
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if chosen.no_input || !terminal {
        return Err(CliError::usage(format!(
            "the repository asks for the context `{context}` of the kubeconfig, which you have not allowed{is_current}"
        ))
        .with_hint(format!("pass --context {context} to use it, or --context with another one"))
        .with_hint("on a terminal stator asks, and remembers the answer for this repository"));
    }
    output.write_stderr(&format!(
        "The files in {repository} choose the context `{context}` of your kubeconfig{is_current}.\nstator would use \
         its login, and run its plugin if it has one. Let this repository use it from now on? [y/N] "
    ));
    let mut said = String::new();
    std::io::stdin().lock().read_line(&mut said)?;
    if !matches!(said.trim().to_lowercase().as_str(), "y" | "yes") {
        return Err(CliError::new(CliErrorKind::Refused, format!("the context `{context}` is not used"))
            .with_hint("choose one with --context"));
    }
    known.trusted.insert(answer);
    let kept = file.map_or_else(|| Err(std::io::Error::other("there is no home folder")), |file| known.write(&file));
    if let Err(error) = kept {
        output.warn(&format!("the answer could not be saved: {error}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_answer_is_for_one_repository_and_one_context_and_nobody_elses_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let home = |name: &str| (name == "HOME").then(|| folder.path().as_os_str().to_owned());
        let file = answers_file(home).unwrap();
        assert_eq!(file, folder.path().join(".local/state/stator/trusted-contexts.json"));
        assert_eq!(TrustedContexts::read(&file), TrustedContexts::default());
        let answer = |repository: &str, context: &str| TrustedContext {
            repository: PathBuf::from(repository),
            context: context.to_owned(),
        };
        let given = TrustedContexts { trusted: BTreeSet::from([answer("/clone", "prod"), answer("/own", "staging")]) };
        given.write(&file).unwrap();
        let known = TrustedContexts::read(&file).trusted;
        assert!(known.contains(&answer("/clone", "prod")));
        assert!(!known.contains(&answer("/clone", "staging")) && !known.contains(&answer("/other", "prod")));
        let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        // What cannot be read lets nobody choose anything.
        fs_err::write(&file, "{\"trusted\": true}").unwrap();
        assert_eq!(TrustedContexts::read(&file), TrustedContexts::default());
    }

    #[test]
    fn answers_are_kept_where_the_user_keeps_state() {
        let all = |name: &str| match name {
            "XDG_STATE_HOME" => Some(OsString::from("/state")),
            "HOME" => Some(OsString::from("/home/me")),
            _ => None,
        };
        assert_eq!(answers_file(all), Some(PathBuf::from("/state/stator/trusted-contexts.json")));
        // A folder that depends on where one stands could be the clone's.
        let relative = |name: &str| matches!(name, "XDG_STATE_HOME" | "HOME").then(|| OsString::from("."));
        assert_eq!(answers_file(relative), None);
    }
}
