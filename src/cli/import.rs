//! `stator import`.

use super::args::{ClusterArgs, DynamoArgs};
use super::connect::ClusterAccess;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::{connect, files, repository, validate};
use clap::{Args, ValueHint};
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::admission::Platform;
use stator_core::finding::Finding;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::import::{
    self, DEFAULT_ENVIRONMENT, ImportOptions, ImportResult, ImportedEnvironment, ImportedModel, ManifestFile, rules,
};
use stator_model::intent::FileRole;
use stator_model::present::{escape, findings, pluralize};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

mod from_cluster;

/// Convert manifests or running graphs to models
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the models render back to the manifests; 1 something could not be imported; 2 nothing could be read."
)]
pub struct ImportArgs {
    /// Manifests, folders of them, or `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required_unless_present = "from_cluster", conflicts_with = "from_cluster")]
    paths: Vec<PathBuf>,
    /// Read from the cluster instead of files
    #[arg(long)]
    from_cluster: bool,
    /// Write the models to DIR instead of printing them: each to NAME/model.yaml, several of one model below a folder with what
    /// they share
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Import only this namespace; with --from-cluster, `default` unless given
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Overwrite files that have other content
    #[arg(long)]
    force: bool,
    /// Instead of the models, print how much of each manifest maps to model fields
    #[arg(long, conflicts_with = "out")]
    measure: bool,
    /// Leave out anything that a model cannot express, with a warning instead of an error
    #[arg(long)]
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
    let mut written = WriteOutcome::Valid;
    if let Some(folder) = &arguments.out {
        written = write_models(&import, folder, arguments, output)?;
    } else {
        print_models(&import, arguments, output)?;
    }
    report_outcome(&import, written, output);
    for error in &unreadable {
        output.report_error(error);
    }
    Ok(exit_status(&import, &inputs, unreadable.is_empty(), written))
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
fn exit_status(import: &ImportResult, inputs: &[ManifestFile], all_read: bool, written: WriteOutcome) -> ExitStatus {
    let errors = || import.findings.iter().filter(|finding| finding.is_error());
    let unreadable = |finding: &Finding| finding.rule == rules::UNREADABLE || finding.rule == rules::TEMPLATE;
    let nothing = import.models.is_empty() && (inputs.is_empty() || (errors().count() > 0 && errors().all(unreadable)));
    if !all_read || nothing {
        ExitStatus::Error
    } else if written != WriteOutcome::Valid || errors().count() > 0 {
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
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        output.write_verbatim(&format!("---\n# {path}\n{text}{end}"))?;
    }
    Ok(())
}

/// What came of the files to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteOutcome {
    /// They are there, and valid together.
    Valid,
    /// They are there, and something is wrong with them together.
    Invalid,
    /// None is: something was in the way.
    Refused,
}

/// A file to write.
struct PlannedFile {
    path: PathBuf,
    text: String,
    /// Whether other files mean something else with it.
    is_shared: bool,
}

/// Writes each model, and a `stator.yaml` where namespace or variants need one; all of them, or none.
fn write_models(
    import: &ImportResult,
    folder: &Path,
    arguments: &ImportArgs,
    output: &Output,
) -> Result<WriteOutcome, CliError> {
    let (mut planned, mut refusals) = (Vec::new(), Vec::new());
    let namespaces = unplaced_namespaces(import);
    let namespace = arguments.namespace.as_deref().or_else(|| namespaces.first().copied());
    if namespaces.len() > 1 {
        let all: Vec<&str> = namespaces.iter().copied().collect();
        output.warn(&format!(
            "The manifests are in several namespaces ({}), but an environment has only one: import each namespace into its own folder with -n NAMESPACE.",
            all.join(", ")
        ));
    }
    for (path, text) in files_of(import) {
        if Path::new(&path).components().any(|part| !matches!(part, Component::Normal(_))) {
            let message = format!("`{path}` leads out of {}", folder.display());
            refusals.push(CliError::new(CliErrorKind::Refused, message).with_hint("rename it in the manifest"));
            continue;
        }
        let is_shared = import.shared_files.iter().any(|file| file.path == path);
        planned.push(PlannedFile { path: folder.join(path), text: text.to_owned(), is_shared });
    }
    let there = models_of(folder);
    let others: Vec<&(PathBuf, String)> =
        there.iter().filter(|(path, _)| !planned.iter().any(|file| file.path == *path)).collect();
    let names: BTreeSet<&str> = import.models.iter().map(|model| model.name.as_str()).collect();
    for (path, name) in others.iter().filter(|(_, name)| names.contains(name.as_str())) {
        let message = format!("model `{name}` is in {} already", path.display());
        let hint = "import it together with the others of that folder, or remove that file";
        refusals.push(CliError::new(CliErrorKind::Refused, message).with_hint(hint));
    }
    refusals.extend(planned.iter().filter_map(|file| meaning_changed(file, &planned, &others)));
    let is_root_needed = !import.environments.is_empty()
        || (namespaces.len() < 2 && namespace.is_some_and(|namespace| namespace != DEFAULT_NAMESPACE));
    if is_root_needed && !in_repository(folder) {
        let environments = with_default_for(&import.environments, !others.is_empty());
        let (path, text) = (folder.join(REPOSITORY_FILE), repository_text(&environments, namespace)?);
        planned.insert(0, PlannedFile { path, text, is_shared: true });
    } else {
        refusals.extend(missing_environments(import, folder, namespace, output)?);
    }
    let paths: BTreeSet<&Path> = planned.iter().map(|file| file.path.as_path()).collect();
    for file in &planned {
        let shown = file.path.display();
        let old = fs_err::read(&file.path).ok();
        let is_file = |above: &&Path| above.is_file() || paths.contains(*above);
        let in_the_way = file.path.ancestors().skip(1).find(is_file);
        if let Some(above) = in_the_way {
            let message = format!("{} is a file, where {shown} needs a folder", above.display());
            let hint = "rename it, or choose another folder with --out";
            refusals.push(CliError::new(CliErrorKind::Refused, message).with_hint(hint));
        } else if file.path.is_dir() {
            let message = format!("{shown} is a folder, where a file is to be written");
            let hint = "rename it, or choose another folder with --out";
            refusals.push(CliError::new(CliErrorKind::Refused, message).with_hint(hint));
        } else if old.is_some_and(|old| old != file.text.as_bytes()) && !arguments.force {
            let hint = "pass --force to overwrite it, or choose another folder with --out";
            let error = CliError::new(CliErrorKind::Refused, format!("{shown} exists and has other content"));
            refusals.push(error.with_hint(hint));
        }
    }
    refusals.iter().for_each(|error| output.report_error(error));
    if !refusals.is_empty() {
        output.note("Nothing was written.");
        return Ok(WriteOutcome::Refused);
    }
    for file in &planned {
        if fs_err::read(&file.path).is_ok_and(|old| old == file.text.as_bytes()) {
            output.note(&format!("{} is up to date.", file.path.display()));
        } else {
            files::write_atomically(&file.path, file.text.as_bytes())?;
            output.write_result(&(escape::line(&file.path.display().to_string()) + "\n"))?;
        }
    }
    let is_valid = is_valid_as_written(import, folder, arguments, output)?;
    Ok(if is_valid { WriteOutcome::Valid } else { WriteOutcome::Invalid })
}

/// The namespaces of the models that no environment of a variant has.
fn unplaced_namespaces(import: &ImportResult) -> BTreeSet<&str> {
    let is_placed = |model: &&ImportedModel| {
        let environment = import::environment_of(&import.environments, &model.path);
        environment.is_some_and(|name| name != DEFAULT_ENVIRONMENT)
    };
    let unplaced = import.models.iter().filter(|model| !is_placed(model));
    unplaced.filter_map(|model| model.namespace.as_deref()).collect()
}

/// The models below a folder, with their names.
fn models_of(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    if folder.is_dir() {
        find_manifests(folder, 0, &mut found, &mut unreadable);
    }
    found.retain(|path| path.file_name().is_some_and(|name| name == "model.yaml"));
    let name = |path: &PathBuf| -> Option<String> {
        let document: serde_json::Value = serde_saphyr::from_str(&fs_err::read_to_string(path).ok()?).ok()?;
        Some(document.pointer("/metadata/name")?.as_str()?.to_owned())
    };
    found.into_iter().map(|path| (path.clone(), name(&path).unwrap_or_default())).collect()
}

/// Why a file is not to be written: models or overlays that are not of this import would mean something else with it.
fn meaning_changed(file: &PlannedFile, planned: &[PlannedFile], others: &[&(PathBuf, String)]) -> Option<CliError> {
    let folder = file.path.parent()?;
    let is_model = file.path.file_name().is_some_and(|name| name == "model.yaml");
    let changed = if is_model {
        let entries = fs_err::read_dir(folder).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let is_overlay = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            matches!(FileRole::of_name(name), FileRole::Overlay(_))
        };
        entries.filter(is_overlay).find(|path| !planned.iter().any(|file| file.path == *path))
    } else if file.is_shared {
        others.iter().find(|(path, _)| path.starts_with(folder)).map(|(path, _)| path.clone())
    } else {
        None
    }?;
    let message = format!("{} would change {}, which is not of this import", file.path.display(), changed.display());
    let hint = "import all of the folder's models together, or choose another folder with --out";
    Some(CliError::new(CliErrorKind::Refused, message).with_hint(hint))
}

/// The environments of an import, with one for the models that are there already.
fn with_default_for(environments: &[ImportedEnvironment], has_others: bool) -> Vec<ImportedEnvironment> {
    let mut all = environments.to_vec();
    if has_others && !all.is_empty() && !all.iter().any(|one| one.name == DEFAULT_ENVIRONMENT) {
        let exclude: BTreeSet<String> = all.iter().flat_map(|one| one.include.clone()).collect();
        let exclude = exclude.into_iter().collect();
        all.insert(0, ImportedEnvironment { exclude, ..ImportedEnvironment::named(DEFAULT_ENVIRONMENT) });
    }
    all
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
        output.write_stderr(&findings::concise(&errors, &output.stderr_style));
    }
    Ok(errors.is_empty())
}

/// Whether a folder is in a repository already, or is one.
fn in_repository(folder: &Path) -> bool {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let is_root = |above: &Path| {
        let text = fs_err::read_to_string(above.join(REPOSITORY_FILE)).unwrap_or_default();
        text.lines().any(|line| line.trim_end() == "kind: Repository")
    };
    absolute.ancestors().any(is_root)
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
    let folders: BTreeSet<&str> = missing.iter().flat_map(|one| &one.include).map(String::as_str).collect();
    let folders: Vec<&str> = folders.into_iter().collect();
    let hint = format!(
        "add this to `spec` of {}, and `exclude: [{}]` to its other environments:\n{lines}",
        opened.checkout.root.join(REPOSITORY_FILE).display(),
        folders.join(", ")
    );
    Ok(Some(CliError::new(CliErrorKind::Refused, message).with_hint(hint)))
}

/// The text of a root file with these environments, or the one that a repository has without any.
fn repository_text(environments: &[ImportedEnvironment], namespace: Option<&str>) -> Result<String, CliError> {
    let default = [ImportedEnvironment::named(DEFAULT_ENVIRONMENT)];
    let environments = if environments.is_empty() { &default[..] } else { environments };
    import::repository_yaml(environments, namespace).map_err(|error| CliError::input(error.to_string()))
}

/// What could not be carried, and how it went.
fn report_outcome(import: &ImportResult, written: WriteOutcome, output: &Output) {
    let listed: Vec<Finding> =
        import.findings.iter().filter(|finding| finding.is_error() || !output.is_quiet()).cloned().collect();
    if !listed.is_empty() {
        output.write_stderr(&findings::concise(&listed, &output.stderr_style));
    }
    if written == WriteOutcome::Refused {
        return;
    }
    let back = import.models.iter().filter(|model| model.round_trips).count();
    let lost = import.findings.iter().filter(|finding| finding.is_error()).count();
    output.note(&format!(
        "{} imported, {back} of them rendering back to their manifests; {} not imported.",
        pluralize(import.models.len(), "model", "models"),
        pluralize(lost, "thing", "things"),
    ));
}
