//! What each phase does. The first ones call the rooms, the later ones the command line, as a user would.

use super::Fallible;
use rayon::prelude::*;
use serde_json::Value;
use stator_cluster::sync::DesiredState;
use stator_core::object::{Object, ObjectText};
use stator_model::fleet_policy::SourcePolicies;
use stator_model::intent::{ResolvedEnvironment, Workspace};
use stator_model::render::{RenderedText, emit};
use std::path::Path;
use std::time::Duration;

/// Runs a phase and says in a few words what it did.
pub(crate) fn run(phase: &str, folder: &Path) -> Fallible<String> {
    match phase {
        "parse" => parse(folder),
        "load" => {
            let selection = load(folder)?;
            Ok(format!("{} intents parsed, merged and checked", selection.intents.len()))
        }
        "render" => {
            let rendered = rendered(folder)?;
            Ok(format!("the same, and {} objects rendered", objects(&rendered).count()))
        }
        "render-yaml" => {
            let rendered = rendered(folder)?;
            let bytes = rendered
                .par_iter()
                .map(|model| {
                    let objects: Vec<Object> = objects(std::slice::from_ref(model)).map(ObjectText::parse).collect();
                    emit::yaml_documents(&objects.iter().collect::<Vec<_>>()).map(|text| text.len())
                })
                .try_reduce(|| 0, |a, b| Ok(a + b))?;
            Ok(format!("the same, and {} MiB of YAML written", bytes >> 20))
        }
        other => Err(format!("no phase {other}").into()),
    }
}

/// The lower bound: read the files and have serde-saphyr make values of them, on all cores.
fn parse(folder: &Path) -> Fallible<String> {
    let checkout = stator_git::source::open(folder)?;
    let parsed = checkout
        .tree
        .files
        .par_iter()
        .map(|file| -> Result<usize, String> {
            let bytes = file.content.as_ref().map_err(Clone::clone)?;
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
            Ok(usize::from(value.is_object()))
        })
        .try_reduce(|| 0, |a, b| Ok(a + b))?;
    Ok(format!("{parsed} files read and parsed by serde-saphyr, nothing else"))
}

fn load(folder: &Path) -> Fallible<ResolvedEnvironment> {
    let checkout = stator_git::source::open(folder)?;
    let selection = Workspace::parse(&checkout.tree).resolve_environment(Some("prod"))?;
    match selection.findings.first() {
        Some(finding) => Err(format!("the run's own intents have a finding: {finding:?}").into()),
        None => Ok(selection),
    }
}

/// As every command renders: models are trees for a moment, and texts from then on.
fn rendered(folder: &Path) -> Fallible<Vec<RenderedText>> {
    Ok(DesiredState::render(load(folder)?, &SourcePolicies::default()).rendered)
}

fn objects(rendered: &[RenderedText]) -> impl Iterator<Item = &ObjectText> {
    rendered.iter().flat_map(|model| &model.objects).map(|desired| &desired.object)
}

/// What a whole command did, and the most memory it held.
pub(crate) struct CommandOutcome {
    /// In a few words.
    pub(crate) did: String,
    /// Peak resident memory.
    pub(crate) peak_kib: u64,
}

/// Runs a phase that is a whole command, as a user would run it.
pub(crate) fn command(phase: &str, folder: &Path) -> Fallible<CommandOutcome> {
    let arguments: &[&str] =
        if phase.starts_with("plan") { &["plan", "-o", "json"] } else { &["sync", "--yes", "-o", "json"] };
    let target = if phase == "plan-one-folder" { folder.join("group-00") } else { folder.to_owned() };
    let (output, peak_kib) = stator(folder, &target, arguments)?;
    let did = if phase.starts_with("plan") {
        format!("{} kept, {} to update", output["summary"]["keep"], output["summary"]["update"])
    } else {
        format!("{} writes for {} models", output["writes"], output["models"].as_array().map_or(0, Vec::len))
    };
    if phase == "sync-unchanged" && output["writes"] != 0 {
        return Err(format!("an unchanged sync wrote: {did}").into());
    }
    Ok(CommandOutcome { did, peak_kib })
}

/// Runs the built binary, and watches how much memory it takes.
pub(crate) fn stator(folder: &Path, target: &Path, arguments: &[&str]) -> Fallible<(Value, u64)> {
    let cluster = format!("embedded:{}", folder.join(".stator/cluster").display());
    let output = tempfile::NamedTempFile::new()?;
    let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_stator"))
        .args(arguments)
        .arg(target)
        .args(["--quiet", "--environment", "prod", "--cluster", &cluster])
        .stdout(output.reopen()?)
        .spawn()?;
    let mut peak_kib = 0;
    let exit = loop {
        // The kernel keeps the high-water mark, so only what comes in the last moment is missed.
        peak_kib = super::peak_kib(process.id()).unwrap_or(peak_kib).max(peak_kib);
        if let Some(exit) = process.try_wait()? {
            break exit;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = fs_err::read_to_string(output.path())?;
    if !exit.success() {
        return Err(format!("{arguments:?}: {exit}").into());
    }
    let value = serde_json::from_str(&text).map_err(|error| format!("{arguments:?}: {exit} and no JSON: {error}"))?;
    Ok((value, peak_kib))
}
