//! `stator controller --source FILE`: sources and their secrets from a file.

use super::{Arguments, End, Listeners, farewell, place, timeout};
use crate::cli::connect;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::signals::interrupted;
use crate::controller::file::{self, Source};
use crate::controller::run::Controller;
use crate::controller::sources::SourceKey;
use crate::controller::watch::Watch;
use crate::server::Listener;
use stator_model::present::{count, findings};
use std::path::Path;

pub(super) async fn run(arguments: &Arguments, source: &Path, output: &Output) -> Result<Exit, CliError> {
    let sources = read(source, output)?;
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs_err::canonicalize(folder)?;
    let cluster = connect::open(&arguments.cluster, &folder, None, output).await?;
    let _operator = arguments.simulate.start(&cluster)?;
    connect::preflight(&cluster, output).await?;
    let data = arguments.data.clone().unwrap_or_else(|| folder.join(".stator").join("controller"));
    fs_err::create_dir_all(&data)?;
    let listener =
        if arguments.once { None } else { Some(Listeners::bind(arguments.listen, arguments.metrics_listen).await?) };
    output.note(&greeting(&sources, listener.as_ref().map(|listeners| &listeners.main)));
    if let Some(listeners) = &listener {
        listeners.say_metrics(output);
    }
    let mut controller = Controller::new(place(arguments, &arguments.cluster, cluster, data));
    let ending = controller.ending();
    let serving = listener
        .map(|listeners| listeners.serve((controller.board(), controller.metrics()), &ending, arguments.webhooks));
    controller.apply(sources);
    let end = tokio::select! {
        through = work(arguments, source, &mut controller, &folder, output) => End::Through(through),
        () = interrupted() => End::Asked,
        () = timeout(arguments.cluster.timeout) => End::Timeout,
    };
    let work = async {
        controller.ended().await;
        if let Some(serving) = serving {
            let _ = serving.await;
        }
    };
    farewell(&end, &ending, output, work).await?;
    Ok(match end {
        End::Through(true) | End::Asked => Exit::Success,
        End::Through(false) => {
            for (name, standing) in controller.standings() {
                if let Some(problem) = standing.problem() {
                    output.warn(&format!("{name}: {problem}"));
                }
            }
            Exit::No
        }
        End::Timeout => {
            output.warn("The time is up.");
            Exit::Timeout
        }
    })
}

/// Reads the file; its faults are told, with the lines that they are in, and none of what may be secret.
fn read(path: &Path, output: &Output) -> Result<Vec<Source>, CliError> {
    let read = file::open(path).map_err(|error| {
        CliError::input(error.to_string()).hint("`stator schema source` describes what the file holds")
    })?;
    if read.findings.is_empty() {
        return Ok(read.sources);
    }
    output.block(&findings::full(&read.findings, &|_| Some(read.shown.clone()), &output.notes));
    let errors = read.findings.iter().filter(|finding| finding.is_error()).count();
    if errors == 0 {
        return Ok(read.sources);
    }
    Err(CliError::input(format!("{} has {}", path.display(), count(errors, "fault", "faults")))
        .hint("`stator schema source` describes the documents"))
}

fn greeting(sources: &[Source], listener: Option<&Listener>) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = sources
        .iter()
        .take(SHOWN)
        .map(|source| format!("{} ({} of {})", source.key.name, source.follows(), source.url))
        .collect();
    if sources.len() > SHOWN {
        names.push(format!("{} more", sources.len() - SHOWN));
    }
    let following = format!("{}: {}", count(sources.len(), "source", "sources"), names.join(", "));
    match listener {
        Some(listener) => format!("Listening on http://{}, following {following}.", listener.address()),
        None => format!("Syncing {following}."),
    }
}

/// With `--once` until all are through; else for ever, reading the file whenever it changes.
async fn work(
    arguments: &Arguments,
    source: &Path,
    controller: &mut Controller,
    folder: &Path,
    output: &Output,
) -> bool {
    if arguments.once {
        return controller.ended().await;
    }
    // The folder and not the file: Kubernetes and editors put a new file in the old one's place.
    let watch = Watch::new(folder, false, |_| true);
    let mut last = fs_err::read(source).ok();
    loop {
        watch.changed().await;
        let now = fs_err::read(source).ok();
        if now == last {
            continue;
        }
        last = now;
        match read(source, output) {
            Ok(sources) => {
                let applied = controller.apply(sources);
                controller.metrics().reloaded(true);
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
                output.note(&format!("Read {} anew: {told}.", source.display()));
            }
            Err(error) => {
                controller.metrics().reloaded(false);
                output.error(&error);
                output.warn("The sources go on as they were.");
            }
        }
    }
}
