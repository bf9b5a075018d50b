//! `stator controller --source-file FILE`: sources and their secrets from a file.

use super::{ControllerArgs, controller_options, print_addresses, run_daemon};
use crate::cli::connect::{self, ClusterAccess};
use crate::cli::error::{CliError, ExitStatus};
use crate::cli::output::Output;
use crate::cli::web::RunningPages;
use crate::controller::sources::file::{self, ResolvedSource};
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::supervisor::{ControllerOptions, SourceChanges};
use crate::daemon::{FileController, FileControllerOptions, SourceFileReader};
use stator_model::present::{findings, pluralize};
use std::path::{Path, PathBuf};

pub(super) async fn run(arguments: &ControllerArgs, source: &Path, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.listen.authorize_metrics {
        return Err(CliError::usage("--authorize-metrics works only with the ModelSource objects of a cluster")
            .with_hint("omit it; --metrics-listen gives metrics an address that few may reach"));
    }
    let sources = read_sources(source, output)?;
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs_err::canonicalize(folder)?;
    let cluster = connect::open(&arguments.cluster, ClusterAccess::Write, &folder, None, output).await?;
    let _operator = arguments.simulate.start_operator(&cluster)?;
    connect::preflight(&cluster, output).await?;
    if arguments.once {
        arguments.web.refuse("--once, which ends when everything is synced")?;
    }
    arguments.sign_in.refuse()?;
    let pages = arguments.web.start(output).await?;
    let followed = describe_sources(&sources);
    let options = FileControllerOptions {
        file: source.to_owned(),
        sources,
        listen: (!arguments.once).then(|| arguments.listen.options(arguments.webhooks)),
        controller: ControllerOptions {
            observations: pages.as_ref().map(RunningPages::board),
            ..controller_options(arguments, cluster, &folder)
        },
        folder,
    };
    let reader = PrintingReader { file: source.to_owned(), output: *output };
    let daemon = FileController::start(options, reader).await?;
    match daemon.addresses() {
        Some(addresses) => print_addresses(addresses, &format!("following {followed}"), output),
        None => output.note(&format!("Syncing {followed}.")),
    }
    let exit = run_daemon(daemon, arguments.cluster.timeout, output).await;
    if let Some(pages) = pages {
        pages.end().await;
    }
    exit
}

/// Reads the file; its errors are reported with their lines, and without anything that may be secret.
fn read_sources(path: &Path, output: &Output) -> Result<Vec<ResolvedSource>, CliError> {
    let read = file::read_file(path).map_err(|error| {
        CliError::input(error.to_string()).with_hint("`stator schema source` describes the file format")
    })?;
    if read.findings.is_empty() {
        return Ok(read.sources);
    }
    output.write_stderr(&findings::with_snippets(
        &read.findings,
        &|_| Some(read.redacted_text.clone()),
        &output.stderr_style,
    ));
    let errors = read.findings.iter().filter(|finding| finding.is_error()).count();
    if errors == 0 {
        return Ok(read.sources);
    }
    Err(CliError::input(format!("{} has {}", path.display(), pluralize(errors, "error", "errors")))
        .with_hint("`stator schema source` describes the documents"))
}

fn describe_sources(sources: &[ResolvedSource]) -> String {
    const MAX_LISTED_SOURCES: usize = 5;
    let mut names: Vec<String> = sources
        .iter()
        .take(MAX_LISTED_SOURCES)
        .map(|source| format!("{} ({} of {})", source.key.name, source.reference_text(), source.url))
        .collect();
    if sources.len() > MAX_LISTED_SOURCES {
        names.push(format!("{} more", sources.len() - MAX_LISTED_SOURCES));
    }
    format!("{}: {}", pluralize(sources.len(), "source", "sources"), names.join(", "))
}

/// Reads the file again when it changes, and prints what came of it.
struct PrintingReader {
    file: PathBuf,
    output: Output,
}

impl SourceFileReader for PrintingReader {
    fn read_sources(&mut self) -> Option<Vec<ResolvedSource>> {
        match read_sources(&self.file, &self.output) {
            Ok(sources) => Some(sources),
            Err(error) => {
                self.output.report_error(&error);
                self.output.warn("The sources keep running unchanged.");
                None
            }
        }
    }

    fn report_changes(&mut self, changes: &SourceChanges) {
        let list = |what: &str, keys: &[SourceKey]| {
            let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let lists =
            [list("started", &changes.started), list("replaced", &changes.replaced), list("ended", &changes.ended)];
        let changes: Vec<String> = lists.into_iter().flatten().collect();
        let changes = if changes.is_empty() { "nothing to change".to_owned() } else { changes.join("; ") };
        self.output.note(&format!("Reloaded {}: {changes}.", self.file.display()));
    }
}
