//! What a Job downloads, as the `weights` that a model has in its place.
//!
//! Read with certainty or not at all: a script that does anything but install the downloader and run it once is left to a
//! person.

use super::shell::{self, ShellWord};
use crate::intent::model::{Cache, WeightsSource};
use crate::intent::model::{
    EnvValue, Model, Override, OverrideKind, OverrideTarget, Weights, WeightsClaim, WeightsLoad,
};
use crate::intent::scalar::{DnsName, EnvName};
use crate::render::HUGGING_FACE_IMAGE;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What stands for the default branch, which `hf download` takes where nothing is said.
const DEFAULT_BRANCH: &str = "main";
/// Programs that a script may run beside the download, as nothing of them stays on the volume.
const HARMLESS: [&str; 8] = ["set", "echo", "pip", "pip3", "command", "true", ":", "date"];
/// The variable that a token is given by.
const TOKEN: &str = "HF_TOKEN";
/// Variables that `weights` sets by itself.
const OWN_ENV: [(&str, &str); 1] = [("HF_XET_HIGH_PERFORMANCE", "1")];
/// Fields of a Job's container that `weights` says.
const OF_CONTAINER: [&str; 8] =
    ["name", "image", "command", "args", "env", "envFrom", "volumeMounts", "terminationMessagePolicy"];
/// Fields of a Job's pod that `weights` says.
const OF_POD: [&str; 3] = ["containers", "volumes", "restartPolicy"];
/// Fields of a Job that `weights` says, or that mean nothing for one that is made when it is needed. A Job that removes itself
/// would be made again.
const OF_JOB: [&str; 6] =
    ["template", "completions", "parallelism", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend"];
/// How often stator's own Job is tried again.
const BACKOFF_LIMIT: u64 = 3;

/// One download from Hugging Face to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadJob {
    repository: String,
    revision: String,
    include: Vec<String>,
    exclude: Vec<String>,
    claim: DnsName,
    mount_path: String,
    image: Option<String>,
    token_secret: Option<DnsName>,
    env: BTreeMap<EnvName, EnvValue>,
    deadline_seconds: Option<u64>,
    /// What else is said of the Job.
    rest: Map<String, Value>,
}

/// Why a Job is no download that `weights` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadFault {
    /// It downloads nothing from Hugging Face.
    None,
    /// It does, and something else as well, or in a way of its own.
    Other(&'static str),
}

impl DownloadJob {
    /// Reads a Job.
    ///
    /// # Errors
    /// When it downloads nothing, or does what `weights` cannot say.
    pub fn of(job: &Value) -> Result<Self, DownloadFault> {
        let pod = job.pointer("/spec/template/spec").unwrap_or(&Value::Null);
        let containers: Vec<&Value> = list(pod, "containers").collect();
        let is_download = |container: &&Value| !download_lines(&Script::of(container)).is_empty();
        let found = containers.iter().copied().find(is_download).ok_or(DownloadFault::None)?;
        if containers.len() > 1 || list(pod, "initContainers").next().is_some() {
            return Err(DownloadFault::Other("its pod has further containers"));
        }
        let script = Script::of(found);
        let env = JobEnvironment::of(found)?;
        let mut lines = download_lines(&script);
        let (Some(line), None) = (lines.pop(), lines.pop()) else {
            return Err(DownloadFault::Other("it downloads more than one repository"));
        };
        if script.runs_more() {
            return Err(DownloadFault::Other("its script does more than download"));
        }
        let request = DownloadRequest::of(&line, &script, &env)?;
        let mounts: Vec<&Value> = list(found, "volumeMounts").collect();
        let volumes: Vec<&Value> = list(pod, "volumes").collect();
        let ([mount], [volume]) = (mounts.as_slice(), volumes.as_slice()) else {
            return Err(DownloadFault::Other("its pod has more volumes than the one it downloads to"));
        };
        let (claim, path) = mounted_claim(mount, volume).ok_or(DownloadFault::Other("it downloads to no claim"))?;
        if env.texts.get("HF_HOME").map(|home| home.trim_end_matches('/')) != Some(path.trim_end_matches('/')) {
            return Err(DownloadFault::Other("`HF_HOME` is not the root of the volume"));
        }
        let used = script.variables();
        let is_said = |name: &EnvName, value: &EnvValue| {
            let own = OWN_ENV.iter().any(|(own, text)| {
                name.as_str() == *own && matches!(value, EnvValue::Literal(literal) if literal == text)
            });
            own || name.as_str() == "HF_HOME" || name.as_str() == TOKEN || used.iter().any(|used| used == name.as_str())
        };
        let spec = job.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Self {
            repository: request.repository,
            revision: request.revision.unwrap_or_else(|| DEFAULT_BRANCH.to_owned()),
            include: request.include,
            exclude: request.exclude,
            claim,
            mount_path: path,
            image: found.get("image").and_then(Value::as_str).map(str::to_owned),
            token_secret: env.token_secret,
            env: env.values.into_iter().filter(|(name, value)| !is_said(name, value)).collect(),
            deadline_seconds: spec.get("activeDeadlineSeconds").and_then(Value::as_u64),
            rest: rest_of_job(&spec, pod, found),
        })
    }

    /// What it downloads.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The claim that it downloads to.
    pub fn claim(&self) -> &DnsName {
        &self.claim
    }

    /// The model with this download in place of its cache, loaded as the model is now: by its name, by a path, or from the folder
    /// of the revision. None where it has no such cache, or is another model.
    pub fn weights_of(&self, model: &Model) -> Option<Model> {
        let cache = model.spec.cache.as_ref().filter(|cache| cache.claim == self.claim)?;
        let mut changed = model.clone();
        let mut weights = self.weights(cache)?;
        weights.load = None;
        let folder = weights.folder();
        if folder.is_some_and(|folder| folder == model.spec.model) {
            changed.spec.model.clone_from(&self.repository);
            if changed.spec.served_name.as_ref() == Some(&self.repository) {
                changed.spec.served_name = None;
            }
        } else if model.spec.model == self.repository || model.spec.model.starts_with('/') {
            weights.load = Some(WeightsLoad::Model);
        } else {
            return None;
        }
        let of_model = model.spec.secrets.as_ref().and_then(|secrets| secrets.hugging_face.as_ref());
        weights.token_secret = self.token_secret.clone().filter(|secret| Some(secret) != of_model);
        changed.spec.cache = None;
        changed.spec.weights = Some(weights);
        let rest = self.rest_beside(model);
        if !rest.is_empty() {
            changed.spec.overrides.push(Override {
                target: OverrideTarget { kind: OverrideKind::Job, name: None },
                merge: Map::from_iter([("spec".to_owned(), Value::Object(rest))]),
                remove: Vec::new(),
            });
        }
        Some(changed)
    }

    /// What else is said of the Job, without the secrets that the model pulls all its images with.
    fn rest_beside(&self, model: &Model) -> Map<String, Value> {
        let mut rest = self.rest.clone();
        let of_model = model.spec.secrets.iter().flat_map(|secrets| &secrets.image_pull);
        let known: Vec<Value> = of_model.map(|name| json!({"name": name.as_str()})).collect();
        let pod = rest.get_mut("template").and_then(|template| template.get_mut("spec")).and_then(Value::as_object_mut);
        let Some(pod) = pod else { return rest };
        if let Some(pulls) = pod.get_mut("imagePullSecrets").and_then(Value::as_array_mut) {
            pulls.retain(|name| !known.contains(name));
            if pulls.is_empty() {
                pod.remove("imagePullSecrets");
            }
        }
        if pod.is_empty() {
            rest.remove("template");
        }
        rest
    }

    /// The same as a person would write it, for a message.
    pub fn block(&self) -> String {
        let source = format!("hf://{}@{}", self.repository, self.revision);
        let mut block = format!(
            "weights: {{source: {source}, claim: {{name: {}}}, mountPath: {}, load: model",
            self.claim, self.mount_path
        );
        for (field, patterns) in [("include", &self.include), ("exclude", &self.exclude)] {
            if !patterns.is_empty() {
                let quoted: Vec<String> = patterns.iter().map(|pattern| format!("{pattern:?}")).collect();
                block.push_str(&format!(", {field}: [{}]", quoted.join(", ")));
            }
        }
        block.push('}');
        block
    }

    fn weights(&self, cache: &Cache) -> Option<Weights> {
        let patterns = |texts: &[String]| texts.iter().map(|text| text.parse().ok()).collect::<Option<Vec<_>>>();
        let uri = format!("hf://{}@{}", self.repository, self.revision);
        WeightsSource::parse(&uri).ok()?;
        let deadline = match self.deadline_seconds {
            Some(seconds) if seconds % 60 == 0 => Some(format!("{}m", seconds / 60).parse().ok()?),
            Some(_) => return None,
            None => None,
        };
        let default_path = cache.mount_path() == DEFAULT_MOUNT_PATH;
        let volume = match (&cache.volume, cache.implicit_volume) {
            (Some(volume), _) => Some(volume.clone()),
            (None, Some(true)) => None,
            (None, Some(false) | None) => Some(CACHE_VOLUME.parse().ok()?),
        };
        Some(Weights {
            source: Some(uri.parse().ok()?),
            claim: WeightsClaim {
                name: cache.claim.clone(),
                size: cache.size.clone(),
                storage_class: cache.storage_class.clone(),
                access_mode: cache.access_mode,
                prune: cache.prune,
            },
            mount_path: if default_path { None } else { Some(cache.mount_path().parse().ok()?) },
            volume: volume.filter(|volume| volume.as_str() != DEFAULT_VOLUME),
            implicit_volume: cache.implicit_volume,
            load: Some(WeightsLoad::Model),
            hf_home: cache.hf_home,
            include: patterns(&self.include)?,
            exclude: patterns(&self.exclude)?,
            image: match self.image.as_deref().filter(|image| *image != HUGGING_FACE_IMAGE) {
                Some(image) => Some(image.parse().ok()?),
                None => None,
            },
            token_secret: None,
            env: self.env.clone(),
            deadline: deadline.filter(|_| self.deadline_seconds != Some(DEFAULT_DEADLINE_SECONDS)),
            attempt: None,
        })
    }
}

/// Where caches and weights are mounted unless a model says otherwise.
const DEFAULT_MOUNT_PATH: &str = "/opt/model-cache";
/// What stator calls the volume of a cache, and that of weights.
const CACHE_VOLUME: &str = "model-cache";
const DEFAULT_VOLUME: &str = "model-weights";
/// The deadline of a download that names none.
const DEFAULT_DEADLINE_SECONDS: u64 = 6 * 3600;

/// What a line asks `hf download` for.
struct DownloadRequest {
    repository: String,
    revision: Option<String>,
    include: Vec<String>,
    exclude: Vec<String>,
}

impl DownloadRequest {
    fn of(line: &[ShellWord], script: &Script, env: &JobEnvironment) -> Result<Self, DownloadFault> {
        let mut texts = Vec::new();
        for word in line {
            if word.text == "$@" {
                texts.extend(script.positional.iter().cloned());
            } else {
                texts
                    .push(env.resolve(word).ok_or(DownloadFault::Other("a word of its command cannot be determined"))?);
            }
        }
        let (mut revision, mut include, mut exclude) = (None, Vec::new(), Vec::new());
        let mut repositories = Vec::new();
        let mut rest = texts.into_iter().peekable();
        while let Some(text) = rest.next() {
            let (flag, joined) = match text.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
                Some(_) | None => (text, None),
            };
            let mut value = || joined.clone().or_else(|| rest.next());
            match flag.as_str() {
                "--revision" => revision = value(),
                "--include" => include.extend(value()),
                "--exclude" => exclude.extend(value()),
                // `hf` takes them all, and stator's own Job has none of them.
                "--quiet" | "--resume-download" => {}
                "--repo-type" if value().is_some_and(|kind| kind == "model") => {}
                "--max-workers" => {
                    value();
                }
                flag if flag.starts_with('-') => {
                    return Err(DownloadFault::Other("it downloads in a way that `weights` does not"));
                }
                repository => repositories.push(repository.to_owned()),
            }
        }
        match <[String; 1]>::try_from(repositories) {
            Ok([repository]) if repository.contains('/') => Ok(Self { repository, revision, include, exclude }),
            Ok(_) | Err(_) => Err(DownloadFault::Other("it downloads single files, or its files cannot be determined")),
        }
    }
}

/// What a container runs: the words of a script, and its arguments.
struct Script {
    words: Vec<ShellWord>,
    positional: Vec<String>,
}

impl Script {
    fn of(container: &Value) -> Self {
        let items: Vec<&str> = ["command", "args"]
            .into_iter()
            .flat_map(|field| list(container, field))
            .filter_map(Value::as_str)
            .collect();
        let is_shell = items.first().is_some_and(|program| {
            ["sh", "bash", "ash", "dash"].contains(&program.rsplit('/').next().unwrap_or_default())
        });
        if let (true, Some(at)) = (is_shell, items.iter().position(|item| item.starts_with('-') && item.ends_with('c')))
            && let Some(text) = items.get(at.saturating_add(1))
        {
            // The word after the script is what the shell calls itself.
            let positional = items.iter().skip(at.saturating_add(3)).map(|item| (*item).to_owned()).collect();
            return Self { words: shell::split_words(text), positional };
        }
        let words = items.iter().map(|item| ShellWord {
            range: 0..item.len(),
            text: (*item).to_owned(),
            plain: true,
            operator: false,
        });
        Self { words: words.collect(), positional: Vec::new() }
    }

    /// Its commands: words between operators.
    fn commands(&self) -> impl Iterator<Item = &[ShellWord]> {
        self.words.split(|word| word.operator).filter(|words| !words.is_empty())
    }

    /// Whether a command of it is neither the download nor without effect on the volume.
    fn runs_more(&self) -> bool {
        self.commands().any(|words| {
            download_of(words).is_none()
                && !words.first().is_some_and(|word| HARMLESS.contains(&word.text.as_str()) || is_path_of_null(word))
        })
    }

    /// The variables that are named anywhere in it.
    fn variables(&self) -> Vec<String> {
        let names = self.words.iter().filter_map(|word| variable_name(&word.text));
        names.map(str::to_owned).collect()
    }
}

/// A word after a redirection, which is split from its command.
fn is_path_of_null(word: &ShellWord) -> bool {
    word.text == "/dev/null" || word.text == "1" || word.text == "2"
}

/// The arguments of `hf download`, where a command is one.
fn download_of(words: &[ShellWord]) -> Option<&[ShellWord]> {
    let words = if words.first().is_some_and(|word| word.text == "exec") { words.get(1..)? } else { words };
    let [program, verb, rest @ ..] = words else { return None };
    let is_downloader = matches!(program.text.rsplit('/').next(), Some("hf" | "huggingface-cli"));
    (is_downloader && verb.text == "download").then_some(rest)
}

fn download_lines(script: &Script) -> Vec<Vec<ShellWord>> {
    script.commands().filter_map(download_of).map(<[ShellWord]>::to_vec).collect()
}

/// The variables of a container.
struct JobEnvironment {
    texts: BTreeMap<String, String>,
    values: BTreeMap<EnvName, EnvValue>,
    token_secret: Option<DnsName>,
}

impl JobEnvironment {
    fn of(container: &Value) -> Result<Self, DownloadFault> {
        let mut env = Self { texts: BTreeMap::new(), values: BTreeMap::new(), token_secret: None };
        for item in list(container, "env") {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
            let key = item.pointer("/valueFrom/secretKeyRef/key").and_then(Value::as_str);
            let secret = item.pointer("/valueFrom/secretKeyRef/name").and_then(Value::as_str);
            if let (TOKEN, Some(TOKEN), Some(secret)) = (name, key, secret) {
                env.token_secret = secret.parse().ok();
                continue;
            }
            let value = item
                .as_object()
                .and_then(super::guess::env_value)
                .ok_or(DownloadFault::Other("a variable is from elsewhere"))?;
            if let EnvValue::Literal(text) = &value {
                env.texts.insert(name.to_owned(), text.clone());
            }
            let name = name.parse().map_err(|_| DownloadFault::Other("a variable has no valid name"))?;
            env.values.insert(name, value);
        }
        for source in list(container, "envFrom") {
            let secret = source.pointer("/secretRef/name").and_then(Value::as_str);
            match secret.filter(|_| source.get("prefix").is_none() && env.token_secret.is_none()) {
                // Of all its keys, the download reads this one.
                Some(secret) => env.token_secret = secret.parse().ok(),
                None => return Err(DownloadFault::Other("its variables are from elsewhere")),
            }
        }
        Ok(env)
    }

    /// A word that is text or one variable, as its text.
    fn resolve(&self, word: &ShellWord) -> Option<String> {
        match variable_name(&word.text) {
            Some(name) => self.texts.get(name).cloned(),
            None if word.text.contains(['$', '`']) => None,
            None => Some(word.text.clone()),
        }
    }
}

/// The name of the variable that a word is.
fn variable_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(name)
}

fn mounted_claim(mount: &Value, volume: &Value) -> Option<(DnsName, String)> {
    let name = mount.get("name").filter(|name| Some(*name) == volume.get("name"))?;
    let path = mount.get("mountPath")?.as_str()?;
    let claim = volume.pointer("/persistentVolumeClaim/claimName")?.as_str()?;
    let is_plain = *mount == json!({"name": name, "mountPath": path})
        && *volume == json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
    is_plain.then(|| Some((claim.parse().ok()?, path.to_owned())))?
}

/// What a Job says that `weights` has no field for, as a partial `spec`.
fn rest_of_job(spec: &Map<String, Value>, pod: &Value, container: &Value) -> Map<String, Value> {
    let without = |value: &Value, said: &[&str]| -> Map<String, Value> {
        let map = value.as_object().cloned().unwrap_or_default();
        map.into_iter().filter(|(field, value)| !said.contains(&field.as_str()) && !is_empty(value)).collect()
    };
    let mut main = without(container, &OF_CONTAINER);
    let mut rest = without(&Value::Object(spec.clone()), &OF_JOB);
    if rest.get("backoffLimit").and_then(Value::as_u64) == Some(BACKOFF_LIMIT) {
        rest.remove("backoffLimit");
    }
    let mut pod = without(pod, &OF_POD);
    if !main.is_empty() {
        main.insert("name".to_owned(), "download".into());
        pod.insert("containers".to_owned(), json!([main]));
    }
    if !pod.is_empty() {
        rest.insert("template".to_owned(), json!({"spec": pod}));
    }
    rest
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}
