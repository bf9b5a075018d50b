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
use stator_model::import::{self, ImportOptions, ImportResult, ImportedModel, ManifestFile, rules};
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
    /// Write each model to DIR/NAME/model.yaml instead of printing it
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
    let options = ImportOptions { release: platform.release(), lossy: arguments.lossy };
    if arguments.measure {
        return print_measures(&inputs, options, output);
    }
    repository::note_assumed_release(Some(&platform), output);
    let mut import = import::import(&inputs, options);
    if let Some(namespace) = &arguments.namespace {
        import.models.retain(|model| model.namespace.as_ref().is_none_or(|named| named == namespace));
    }
    let mut refused = false;
    if let Some(folder) = &arguments.out {
        refused = write_models(&import, folder, arguments, output)?;
    } else {
        print_models(&import, output)?;
    }
    report_outcome(&import, output);
    for error in &unreadable {
        output.report_error(error);
    }
    Ok(exit_status(&import, &inputs, unreadable.is_empty(), refused))
}

/// Prints how much of each file has fields of its own. Each file is looked at by itself: two of them may say different
/// things of one name.
fn print_measures(inputs: &[ManifestFile], options: ImportOptions, output: &Output) -> Result<ExitStatus, CliError> {
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

/// Where a model is written, from the folder of all.
fn model_path(model: &ImportedModel) -> String {
    format!("{}/model.yaml", model.name)
}

/// One document a model, each after a comment with its path.
fn print_models(import: &ImportResult, output: &Output) -> Result<(), CliError> {
    for model in import.models.iter().filter(|model| !model.text.is_empty()) {
        output.write_verbatim(&format!("---\n# {}\n{}", model_path(model), model.text))?;
        for file in &model.files {
            output.write_verbatim(&format!("---\n# {}/{}\n{}", model.name, file.path, file.text))?;
        }
    }
    Ok(())
}

/// Writes each model, and a `stator.yaml` where the namespace needs one. True when a file was in the way.
fn write_models(
    import: &ImportResult,
    folder: &Path,
    arguments: &ImportArgs,
    output: &Output,
) -> Result<bool, CliError> {
    let mut planned: Vec<(PathBuf, String)> = Vec::new();
    let namespaces: BTreeSet<&str> = import.models.iter().filter_map(|model| model.namespace.as_deref()).collect();
    let namespace = arguments.namespace.as_deref().or_else(|| namespaces.first().copied());
    if namespaces.len() > 1 {
        let all: Vec<&str> = namespaces.into_iter().collect();
        output.warn(&format!(
            "The manifests are in several namespaces ({}), but an environment has only one: import each namespace into its own folder with -n NAMESPACE.",
            all.join(", ")
        ));
    } else if let Some(namespace) = namespace.filter(|namespace| *namespace != DEFAULT_NAMESPACE)
        && !in_repository(folder)
    {
        planned.push((folder.join("stator.yaml"), repository_text(namespace)));
    }
    let models = import.models.iter().filter(|model| !model.text.is_empty());
    for model in models {
        planned.push((folder.join(model_path(model)), model.text.clone()));
        let beside = model.files.iter().map(|file| (folder.join(&model.name).join(&file.path), file.text.clone()));
        planned.extend(beside);
    }
    let mut refused = false;
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
    let reported: Vec<String> = import.models.iter().filter(|model| !model.round_trips).map(model_path).collect();
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

fn repository_text(namespace: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: imported\nspec:\n  environments:\n    \
         default:\n      namespace: {namespace}\n"
    )
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
