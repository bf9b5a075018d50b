//! `stator import`.

use super::args::{ClusterArgs, DynamoArgs};
use super::connect::ClusterAccess;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::{connect, files, repository, validate};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueHint};
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::admission::Platform;
use stator_core::finding::Finding;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::import::{
    self, DEFAULT_ENVIRONMENT, ImportOptions, ImportResult, ImportedEnvironment, ManifestFile, rules,
};
use stator_model::present::{escape, findings, pluralize};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

mod from_cluster;

/// Convert manifests to models: Dynamo's graphs, requests and adapters, and their volume claims
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the models render back to the manifests; 1 something could not be imported; 2 nothing could be read."
)]
pub struct ImportArgs {
    /// Manifests, folders of them, or `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required_unless_present = "from_cluster", conflicts_with = "from_cluster")]
    paths: Vec<PathBuf>,
    /// Read from the cluster instead of files
    #[arg(long, env = "STATOR_FROM_CLUSTER", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    from_cluster: bool,
    /// Write the models to DIR instead of printing them: each to NAME/model.yaml, several of one model below a folder with what
    /// they share
    #[arg(long, env = "STATOR_OUT", value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Import only this namespace; with --from-cluster, `default` unless given
    #[arg(short, long, env = "STATOR_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// Overwrite files that have other content; on the command line only, never by a variable
    #[arg(long, action = ArgAction::SetTrue)]
    force: bool,
    /// Instead of the models, print how much of each manifest maps to model fields
    #[arg(long, env = "STATOR_MEASURE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new(), conflicts_with = "out")]
    measure: bool,
    /// Leave out anything that a model cannot express, with a warning instead of an error
    #[arg(long, env = "STATOR_LOSSY", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    lossy: bool,
    #[command(flatten)]
    dynamo: DynamoArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The largest file that is read, in bytes: all of a large cluster's graphs are less.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How deep folders are read.
const MAX_DEPTH: usize = 32;
/// The namespace where none is named.
const DEFAULT_NAMESPACE: &str = "default";
/// The file of a repository, and of what models of a folder share.
const REPOSITORY_FILE: &str = "stator.yaml";

pub async fn run(arguments: &ImportArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut unreadable = Vec::new();
    let mut platform = Platform { dynamo: arguments.dynamo.release, ..Platform::default() };
    let inputs = if arguments.from_cluster {
        let here = std::env::current_dir()?;
        let cluster = connect::open(&arguments.cluster, ClusterAccess::Read, &here, None, output).await?;
        let namespace = arguments.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let (input, notes) =
            connect::with_timeout(&arguments.cluster, from_cluster::read_manifests(&cluster, namespace)).await?;
        for note in notes {
            output.warn(&note);
        }
        match connect::with_timeout(&arguments.cluster, async { Ok(cluster.platform(&platform).await?) }).await {
            Ok(found) => platform = platform.or(&found),
            Err(error) => output.warn(&format!("The release of the cluster's Dynamo could not be read: {error}")),
        }
        vec![input]
    } else {
        read_inputs(&arguments.paths, &mut unreadable)
    };
    let options = ImportOptions {
        release: platform.release(),
        lossy: arguments.lossy,
        is_running: arguments.from_cluster,
        namespace: arguments.namespace.as_deref(),
    };
    if arguments.measure {
        return print_measures(&inputs, options, output);
    }
    repository::note_assumed_release(Some(&platform), output);
    let import = import::import(&inputs, options);
    let mut refused = false;
    if let Some(folder) = &arguments.out {
        refused = write_models(&import, folder, arguments, output)?;
    } else {
        print_models(&import, arguments, output)?;
    }
    report_outcome(&import, output);
    for error in &unreadable {
        output.report_error(error);
    }
    Ok(exit_status(&import, &inputs, unreadable.is_empty(), refused))
}

/// Prints how much of each file has fields of its own. Each file is looked at by itself: two of them may say different
/// things of one name.
fn print_measures(
    inputs: &[ManifestFile],
    options: ImportOptions<'_>,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    let imports = inputs.iter().map(|input| import::import(std::slice::from_ref(input), options));
    let rows: Vec<import::CoverageRow> =
        imports.flat_map(|import| import.models.iter().map(import::coverage_row).collect::<Vec<_>>()).collect();
    output.write_result(&import::coverage_markdown(&rows))?;
    Ok(if rows.iter().all(|row| row.round_trips) { ExitStatus::Success } else { ExitStatus::Negative })
}

/// 2 when nothing of the input could be read, 1 when something could not be carried.
fn exit_status(import: &ImportResult, inputs: &[ManifestFile], all_read: bool, refused: bool) -> ExitStatus {
    let errors = || import.findings.iter().filter(|finding| finding.is_error());
    let unreadable = |finding: &Finding| finding.rule == rules::UNREADABLE || finding.rule == rules::TEMPLATE;
    let nothing = import.models.is_empty() && (inputs.is_empty() || (errors().count() > 0 && errors().all(unreadable)));
    if !all_read || nothing {
        ExitStatus::Error
    } else if refused || errors().count() > 0 {
        ExitStatus::Negative
    } else {
        ExitStatus::Success
    }
}

/// Reads files and folders. One that cannot be read leaves the others alone.
fn read_inputs(paths: &[PathBuf], unreadable: &mut Vec<CliError>) -> Vec<ManifestFile> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            match read_bounded(std::io::stdin().lock(), "standard input") {
                Ok(content) => inputs.push(ManifestFile { file: "stdin".to_owned(), content }),
                Err(error) => unreadable.push(error),
            }
            continue;
        }
        let mut found = Vec::new();
        if path.is_dir() {
            find_manifests(path, 0, &mut found, unreadable);
            if found.is_empty() {
                unreadable.push(
                    CliError::input(format!("{} contains no .yaml, .yml or .json file", path.display()))
                        .with_hint("pass the folder that contains the manifests"),
                );
            }
        } else {
            found.push(path.clone());
        }
        for file in found {
            let content = fs_err::File::open(&file)
                .map_err(CliError::from)
                .and_then(|open| read_bounded(open, &file.display().to_string()));
            match content {
                Ok(content) => inputs.push(ManifestFile { file: file.display().to_string(), content }),
                Err(error) => unreadable.push(error),
            }
        }
    }
    inputs
}

fn read_bounded(reader: impl std::io::Read, name: &str) -> Result<Vec<u8>, CliError> {
    let mut content = Vec::new();
    let mut limited = reader.take(MAX_BYTES.saturating_add(1));
    limited.read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(CliError::input(format!("{name} is larger than {MAX_BYTES} bytes (64 MiB), which is the limit"))
            .with_hint("split it"));
    }
    Ok(content)
}

/// Files of a folder and the folders in it, sorted. Hidden ones and links are passed over.
fn find_manifests(folder: &Path, depth: usize, found: &mut Vec<PathBuf>, unreadable: &mut Vec<CliError>) {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unreadable.push(error.into()),
    };
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push((entry.path(), entry.file_type())),
            Err(error) => unreadable.push(error.into()),
        }
    }
    paths.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, kind) in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let extension = path.extension().and_then(|extension| extension.to_str());
        match kind {
            Ok(kind) if kind.is_dir() && !hidden && depth < MAX_DEPTH => {
                find_manifests(&path, depth.saturating_add(1), found, unreadable);
            }
            Ok(kind) if kind.is_file() && !hidden && matches!(extension, Some("yaml" | "yml" | "json")) => {
                found.push(path)
            }
            Ok(_) => {}
            Err(error) => unreadable.push(error.into()),
        }
    }
}

/// Every file of an import, by its path from the folder of all.
fn files_of(import: &ImportResult) -> Vec<(String, &str)> {
    let shared = import.shared_files.iter().map(|file| (file.path.clone(), file.text.as_str()));
    let models = import.models.iter().filter(|model| !model.text.is_empty()).flat_map(|model| {
        let folder = model.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = model.files.iter().map(move |file| (format!("{folder}/{}", file.path), file.text.as_str()));
        std::iter::once((model.path.clone(), model.text.as_str())).chain(beside)
    });
    let mut files: Vec<(String, &str)> = shared.collect();
    for (path, text) in models {
        // Variants of a model have the files in common that are the same.
        if !files.iter().any(|(known, other)| *known == path && *other == text) {
            files.push((path, text));
        }
    }
    files
}

/// One document a file, each after a comment with its path.
fn print_models(import: &ImportResult, arguments: &ImportArgs, output: &Output) -> Result<(), CliError> {
    if !import.environments.is_empty() {
        let text = repository_text(&import.environments, arguments.namespace.as_deref())?;
        output.write_verbatim(&format!("---\n# {REPOSITORY_FILE}\n{text}"))?;
    }
    for (path, text) in files_of(import) {
        output.write_verbatim(&format!("---\n# {path}\n{text}"))?;
    }
    Ok(())
}

/// Writes each model, and a `stator.yaml` where namespace or variants need one. True when a file was in the way.
fn write_models(
    import: &ImportResult,
    folder: &Path,
    arguments: &ImportArgs,
    output: &Output,
) -> Result<bool, CliError> {
    let mut planned: Vec<(PathBuf, String)> = Vec::new();
    let mut refused = false;
    let of_environments = import.environments.iter().filter_map(|one| one.namespace.as_deref());
    let is_named = |name: &&str| of_environments.clone().any(|own| own == *name);
    let namespaces: BTreeSet<&str> =
        import.models.iter().filter_map(|model| model.namespace.as_deref()).filter(|name| !is_named(name)).collect();
    let namespace = arguments.namespace.as_deref().or_else(|| namespaces.first().copied());
    if namespaces.len() > 1 {
        let all: Vec<&str> = namespaces.into_iter().collect();
        output.warn(&format!(
            "The manifests are in several namespaces ({}), but an environment has only one: import each namespace into its own folder with -n NAMESPACE.",
            all.join(", ")
        ));
    }
    let needs_root =
        !import.environments.is_empty() || namespace.is_some_and(|namespace| namespace != DEFAULT_NAMESPACE);
    if needs_root && !in_repository(folder) {
        planned.push((folder.join(REPOSITORY_FILE), repository_text(&import.environments, namespace)?));
    } else if let Some(error) = missing_environments(import, folder, namespace, output)? {
        output.report_error(&error);
        refused = true;
    }
    for (path, text) in files_of(import) {
        planned.push((folder.join(path), text.to_owned()));
    }
    for layer in import.shared_files.iter().filter(|file| file.path.ends_with(REPOSITORY_FILE)) {
        let below = folder.join(&layer.path);
        if let Some(other) = below.parent().and_then(|below| other_model(below, &planned)) {
            let error = CliError::new(
                CliErrorKind::Refused,
                format!("{} would change {}, which is not of this import", below.display(), other.display()),
            )
            .with_hint("choose another folder with --out, or import these models together");
            output.report_error(&error);
            return Ok(true);
        }
    }
    let mut written = BTreeSet::new();
    for (path, text) in planned {
        let old = fs_err::read(&path).ok();
        let shown = path.display();
        if !written.insert(path.clone()) {
            let error =
                CliError::new(CliErrorKind::Refused, format!("{shown} is already the model of another namespace"))
                    .with_hint("import one namespace at a time with -n NAMESPACE, each into its own folder");
            output.report_error(&error);
            refused = true;
        } else if old.as_deref() == Some(text.as_bytes()) {
            output.note(&format!("{shown} is up to date."));
        } else if old.is_some() && !arguments.force {
            let error = CliError::new(CliErrorKind::Refused, format!("{shown} exists and has other content"))
                .with_hint("pass --force to overwrite it, or choose another folder with --out");
            output.report_error(&error);
            refused = true;
        } else {
            files::write_atomically(&path, text.as_bytes())?;
            output.write_result(&(escape::line(&shown.to_string()) + "\n"))?;
        }
    }
    Ok(refused || !is_valid_as_written(import, folder, arguments, output)?)
}

/// Reads the folder back as any other command does, and reports what is wrong with it beside what the import reports of
/// single models.
fn is_valid_as_written(
    import: &ImportResult,
    folder: &Path,
    arguments: &ImportArgs,
    output: &Output,
) -> Result<bool, CliError> {
    if !folder.is_dir() {
        return Ok(true);
    }
    let opened = repository::open(folder, output)?;
    let (found, _) = validate::collect_findings(&opened, None, arguments.dynamo, FleetPolicies::default(), output)?;
    let reported: Vec<&str> =
        import.models.iter().filter(|model| !model.round_trips).map(|model| model.path.as_str()).collect();
    let is_new = |finding: &Finding| !reported.iter().any(|path| finding.location.file.ends_with(path));
    let errors: Vec<Finding> = found.into_iter().filter(|finding| finding.is_error() && is_new(finding)).collect();
    if !errors.is_empty() {
        output.note(findings::concise(&errors, &output.stderr_style).trim_end());
    }
    Ok(errors.is_empty())
}

/// Whether a folder is in a repository already, or is one.
fn in_repository(folder: &Path) -> bool {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    absolute.ancestors().any(|above| above.join("stator.yaml").is_file())
}

/// A `model.yaml` below a folder that is not among the files to write.
fn other_model(folder: &Path, planned: &[(PathBuf, String)]) -> Option<PathBuf> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    if folder.is_dir() {
        find_manifests(folder, 0, &mut found, &mut unreadable);
    }
    let is_other = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == "model.yaml") && !planned.iter().any(|(own, _)| own == path)
    };
    found.into_iter().find(is_other)
}

/// What a repository lacks that the models are written into: environments for the variants of graphs.
fn missing_environments(
    import: &ImportResult,
    folder: &Path,
    namespace: Option<&str>,
    output: &Output,
) -> Result<Option<CliError>, CliError> {
    if import.environments.is_empty() {
        return Ok(None);
    }
    let absolute = std::path::absolute(folder)?;
    let Some(there) = absolute.ancestors().find(|above| above.is_dir()) else { return Ok(None) };
    let opened = repository::open(there, output)?;
    let known = opened.workspace.environment_names();
    let below = absolute.strip_prefix(&opened.checkout.root).unwrap_or(Path::new("")).display().to_string();
    let is_missing = |one: &&ImportedEnvironment| !known.contains(&one.name);
    let missing: Vec<ImportedEnvironment> =
        import.environments.iter().filter(is_missing).map(|one| one.below(&below)).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let text = repository_text(&missing, namespace)?;
    let lines = text.split_once("spec:\n").map_or(text.as_str(), |(_, lines)| lines);
    let message = "some graphs have variants, and the repository has no environment for each of them";
    let hint = format!("add this to `spec` of {}:\n{lines}", opened.checkout.root.join(REPOSITORY_FILE).display());
    Ok(Some(CliError::new(CliErrorKind::Refused, message).with_hint(hint)))
}

/// The text of a root file with these environments, or the one that a repository has without any.
fn repository_text(environments: &[ImportedEnvironment], namespace: Option<&str>) -> Result<String, CliError> {
    let default = [ImportedEnvironment::named(DEFAULT_ENVIRONMENT)];
    let environments = if environments.is_empty() { &default[..] } else { environments };
    import::repository_yaml(environments, namespace).map_err(|error| CliError::input(error.to_string()))
}

/// What could not be carried, and how it went.
fn report_outcome(import: &ImportResult, output: &Output) {
    let listed: Vec<Finding> =
        import.findings.iter().filter(|finding| finding.is_error() || !output.is_quiet()).cloned().collect();
    if !listed.is_empty() {
        output.write_stderr(&findings::concise(&listed, &output.stderr_style));
    }
    let back = import.models.iter().filter(|model| model.round_trips).count();
    let lost = import.findings.iter().filter(|finding| finding.is_error()).count();
    output.note(&format!(
        "{} imported, {back} of them rendering back to their manifests; {} not imported.",
        pluralize(import.models.len(), "model", "models"),
        pluralize(lost, "thing", "things"),
    ));
}
