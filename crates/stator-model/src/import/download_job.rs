//! What a Job downloads, as the `weights` that a model would have in its place.

use super::shell::{self, ShellWord};
use serde_json::Value;
use std::collections::BTreeMap;

/// What stands in place of a commit that the Job does not name.
const UNKNOWN_COMMIT: &str = "COMMIT";
/// How long a commit of Hugging Face is, in hex digits.
const COMMIT_LENGTH: usize = 40;

/// Weights as a person would write them.
#[derive(Debug, PartialEq, Eq)]
pub struct DownloadedWeights {
    /// A block of `weights` in one line.
    pub block: String,
    /// The repository whose commit is to be looked up, where the Job takes whatever is newest.
    pub unpinned: Option<String>,
}

/// The first download from Hugging Face that a Job's scripts run; none where it runs none to a claim.
pub fn downloaded_weights(job: &Value) -> Option<DownloadedWeights> {
    let pod = job.pointer("/spec/template/spec")?;
    let containers = pod.get("containers")?.as_array()?;
    containers.iter().find_map(|container| weights_of_container(pod, container))
}

fn weights_of_container(pod: &Value, container: &Value) -> Option<DownloadedWeights> {
    let env: BTreeMap<&str, &str> = list(container, "env")
        .filter_map(|item| Some((item.get("name")?.as_str()?, item.get("value")?.as_str()?)))
        .collect();
    let items: Vec<&str> =
        ["command", "args"].into_iter().flat_map(|field| list(container, field)).filter_map(Value::as_str).collect();
    let words: Vec<ShellWord> = items.iter().flat_map(|item| shell::split_words(item)).collect();
    let start = words.windows(2).position(|pair| match pair {
        [program, verb] => matches!(program.text.as_str(), "hf" | "huggingface-cli") && verb.text == "download",
        _ => false,
    })?;
    let line = words.iter().skip(start.saturating_add(2)).take_while(|word| !word.operator);
    let texts: Vec<String> = line.map(|word| resolve(&word.text, &env)).collect();
    let (mut repository, mut revision, mut include, mut exclude) = (None, None, Vec::new(), Vec::new());
    let mut rest = texts.iter();
    while let Some(text) = rest.next() {
        match text.as_str() {
            "--revision" => revision = rest.next().cloned(),
            "--include" => include.extend(rest.next().cloned()),
            "--exclude" => exclude.extend(rest.next().cloned()),
            flag if flag.starts_with('-') => {
                rest.next();
            }
            _ => repository = repository.or_else(|| Some(text.clone())),
        }
    }
    let repository = repository.filter(|name| name.contains('/') && !name.contains('$'))?;
    let (volume, claim) = list(pod, "volumes").find_map(|volume| {
        Some((volume.get("name")?, volume.pointer("/persistentVolumeClaim/claimName")?.as_str()?))
    })?;
    let mount = list(container, "volumeMounts").find(|mount| mount.get("name") == Some(volume));
    let path = mount.and_then(|mount| mount.get("mountPath")?.as_str())?;
    let is_commit = |text: &String| text.len() == COMMIT_LENGTH && text.chars().all(|c| c.is_ascii_hexdigit());
    let pinned = revision.filter(is_commit);
    let commit = pinned.as_deref().unwrap_or(UNKNOWN_COMMIT);
    let mut block =
        format!("weights: {{source: hf://{repository}@{commit}, claim: {{name: {claim}}}, mountPath: {path}");
    for (field, patterns) in [("include", include), ("exclude", exclude)] {
        if !patterns.is_empty() {
            let quoted: Vec<String> = patterns.iter().map(|pattern| format!("{pattern:?}")).collect();
            block.push_str(&format!(", {field}: [{}]", quoted.join(", ")));
        }
    }
    block.push('}');
    Some(DownloadedWeights { block, unpinned: pinned.is_none().then_some(repository) })
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// A word that is a variable of the container, as its text; any other as it is.
fn resolve(word: &str, env: &BTreeMap<&str, &str>) -> String {
    let name = word.strip_prefix('$').map(|name| name.trim_start_matches('{').trim_end_matches('}'));
    name.and_then(|name| env.get(name)).map_or_else(|| word.to_owned(), |text| (*text).to_owned())
}
