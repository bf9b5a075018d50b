//! `stator controller --source FILE`: sources and their secrets from a file.

use super::{ControllerArgs, ProcessListeners, ShutdownReason, controller_settings, shut_down, wait_for_timeout};
use crate::cli::connect;
use crate::cli::error::{CliError, ExitStatus};
use crate::cli::output::Output;
use crate::cli::signals::wait_for_interrupt;
use crate::controller::sources::file::{self, ResolvedSource};
use crate::controller::sources::folder_watch::FolderWatch;
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::supervisor::Controller;
use crate::server::HttpListener;
use stator_model::present::{findings, pluralize};
use std::path::Path;

pub(super) async fn run(arguments: &ControllerArgs, source: &Path, output: &Output) -> Result<ExitStatus, CliError> {
    let sources = read_sources(source, output)?;
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs_err::canonicalize(folder)?;
    let cluster = connect::open(&arguments.cluster, &folder, None, output).await?;
    let _operator = arguments.simulate.start_operator(&cluster)?;
    connect::preflight(&cluster, output).await?;
    let data = arguments.data.clone().unwrap_or_else(|| folder.join(".stator").join("controller"));
    fs_err::create_dir_all(&data)?;
    let listener = if arguments.once {
        None
    } else {
        Some(ProcessListeners::bind(arguments.listen, arguments.metrics_listen).await?)
    };
    output.note(&startup_message(&sources, listener.as_ref().map(|listeners| &listeners.main)));
    if let Some(listeners) = &listener {
        listeners.print_metrics_address(output);
    }
    let mut controller = Controller::new(controller_settings(arguments, &arguments.cluster, cluster, data));
    let ending = controller.shutdown_token();
    let serving = listener
        .map(|listeners| listeners.serve((controller.registry(), controller.metrics()), &ending, arguments.webhooks));
    controller.apply(sources);
    let end = tokio::select! {
        through = run_sources(arguments, source, &mut controller, &folder, output) => ShutdownReason::Completed(through),
        () = wait_for_interrupt() => ShutdownReason::Requested,
        () = wait_for_timeout(arguments.cluster.timeout) => ShutdownReason::Timeout,
    };
    let work = async {
        controller.wait_until_ended().await;
        if let Some(serving) = serving {
            let _ = serving.await;
        }
    };
    shut_down(&end, &ending, output, work).await?;
    Ok(match end {
        ShutdownReason::Completed(true) | ShutdownReason::Requested => ExitStatus::Success,
        ShutdownReason::Completed(false) => {
            for (name, state) in controller.states() {
                if let Some(problem) = state.problem() {
                    output.warn(&format!("{name}: {problem}"));
                }
            }
            ExitStatus::Negative
        }
        ShutdownReason::Timeout => {
            output.warn("Timed out.");
            ExitStatus::Timeout
        }
    })
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

fn startup_message(sources: &[ResolvedSource], listener: Option<&HttpListener>) -> String {
    const MAX_LISTED_SOURCES: usize = 5;
    let mut names: Vec<String> = sources
        .iter()
        .take(MAX_LISTED_SOURCES)
        .map(|source| format!("{} ({} of {})", source.key.name, source.reference_text(), source.url))
        .collect();
    if sources.len() > MAX_LISTED_SOURCES {
        names.push(format!("{} more", sources.len() - MAX_LISTED_SOURCES));
    }
    let following = format!("{}: {}", pluralize(sources.len(), "source", "sources"), names.join(", "));
    match listener {
        Some(listener) => format!("Listening on http://{}, following {following}.", listener.address()),
        None => format!("Syncing {following}."),
    }
}

/// With `--once` until all are through; else for ever, reading the file whenever it changes.
async fn run_sources(
    arguments: &ControllerArgs,
    source: &Path,
    controller: &mut Controller,
    folder: &Path,
    output: &Output,
) -> bool {
    if arguments.once {
        return controller.wait_until_ended().await;
    }
    // The folder and not the file: Kubernetes and editors put a new file in the old one's place.
    let watch = FolderWatch::new(folder, false, |_| true);
    let mut last = fs_err::read(source).ok();
    loop {
        watch.changed().await;
        let now = fs_err::read(source).ok();
        if now == last {
            continue;
        }
        last = now;
        match read_sources(source, output) {
            Ok(sources) => {
                let applied = controller.apply(sources);
                controller.metrics().record_reload(true);
                let list = |what: &str, keys: &[SourceKey]| {
                    let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
                    (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
                };
                let told: Vec<String> = [
                    list("started", &applied.started),
                    list("replaced", &applied.replaced),
                    list("ended", &applied.ended),
                ]
                .into_iter()
                .flatten()
                .collect();
                let told = if told.is_empty() { "nothing to change".to_owned() } else { told.join("; ") };
                output.note(&format!("Reloaded {}: {told}.", source.display()));
            }
            Err(error) => {
                controller.metrics().record_reload(false);
                output.report_error(&error);
                output.warn("The sources keep running unchanged.");
            }
        }
    }
}
