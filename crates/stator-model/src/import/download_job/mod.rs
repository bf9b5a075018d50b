//! What a Job downloads, as the `weights` that a model has in its place.
//!
//! Read with certainty or not at all: a script that does anything but install the downloader, run it and look at what came
//! of it stays a Job.

mod container;
mod python;
mod script;

use crate::intent::model::{
    Cache, EnvValue, Model, Override, OverrideKind, OverrideTarget, Resources, SelectedWeights, Weights, WeightsClaim,
    WeightsLoad, WeightsPart, WeightsSource, WeightsSources,
};
use crate::intent::scalar::{DnsName, EnvName};
use crate::render::HUGGING_FACE_IMAGE;
use container::{JobEnvironment, TOKEN, is_empty, list, mounted_claim, read_resources, reads_by_itself, rest_of_job};
use script::{DownloadScript, RequestedDownload};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What stands for the default branch, which `hf download` takes where nothing is said.
const DEFAULT_BRANCH: &str = "main";
/// Variables that `weights` sets by itself.
const OWN_ENV: [(&str, &str); 1] = [("HF_XET_HIGH_PERFORMANCE", "1")];
/// How often stator's own Job is tried again.
const BACKOFF_LIMIT: u32 = 3;

/// Downloads from Hugging Face to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadJob {
    downloads: Vec<RequestedDownload>,
    claim: DnsName,
    mount_path: String,
    image: Option<String>,
    token_secret: Option<DnsName>,
    env: BTreeMap<EnvName, EnvValue>,
    deadline_seconds: Option<u64>,
    retries: Option<u32>,
    resources: Option<Resources>,
    tolerations: Vec<Map<String, Value>>,
    image_pull: Vec<DnsName>,
    security_context: Option<Map<String, Value>>,
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
        let [found] = containers.as_slice() else { return Err(DownloadFault::Other("its pod has further containers")) };
        if list(pod, "initContainers").next().is_some() {
            return Err(DownloadFault::Other("its pod has further containers"));
        }
        let env = JobEnvironment::of(found);
        let script = DownloadScript::of(found, &env.as_ref().map(|env| env.texts.clone()).unwrap_or_default())?;
        let env = env?;
        let mounts: Vec<&Value> = list(found, "volumeMounts").collect();
        let volumes: Vec<&Value> = list(pod, "volumes").collect();
        let ([mount], [volume]) = (mounts.as_slice(), volumes.as_slice()) else {
            return Err(DownloadFault::Other("its pod has more volumes than the one it downloads to"));
        };
        let (claim, path) = mounted_claim(mount, volume).ok_or(DownloadFault::Other("it downloads to no claim"))?;
        let root = path.trim_end_matches('/').to_owned();
        let home = script.environment.get("HF_HOME").map(|home| home.trim_end_matches('/'));
        let to_home = script.downloads.iter().any(|one| one.folder.is_none());
        if (to_home || home.is_some()) && home != Some(root.as_str()) {
            return Err(DownloadFault::Other("`HF_HOME` is not the root of the volume"));
        }
        let mut downloads = script.downloads.clone();
        for folder in downloads.iter_mut().filter_map(|one| one.folder.as_mut()) {
            let below = folder.strip_prefix(&root).and_then(|rest| rest.strip_prefix('/'));
            let below = below.map(|below| below.trim_end_matches('/')).filter(|below| !below.is_empty());
            *folder = below.ok_or(DownloadFault::Other("it downloads to a folder outside of its volume"))?.to_owned();
        }
        let is_said = |name: &EnvName, value: &EnvValue| {
            let own = OWN_ENV.iter().any(|(own, text)| {
                name.as_str() == *own && matches!(value, EnvValue::Literal(literal) if literal == text)
            });
            // What the downloader reads by itself counts, whether the script names it or not.
            let is_read = reads_by_itself(name.as_str());
            let is_named = !is_read && script.variables.iter().any(|used| used == name.as_str());
            own || name.as_str() == "HF_HOME" || name.as_str() == TOKEN || is_named
        };
        let spec = job.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        let field = |value: &Value, name: &str| value.get(name).filter(|value| !is_empty(value)).cloned();
        let unread = |_: serde_json::Error| DownloadFault::Other("a field of its pod is malformed");
        let read = |value: Option<Value>| value.map(serde_json::from_value).transpose().map_err(unread);
        let names = list(pod, "imagePullSecrets").map(|one| one.get("name")?.as_str()?.parse().ok());
        Ok(Self {
            downloads,
            claim,
            mount_path: path,
            image: found.get("image").and_then(Value::as_str).map(str::to_owned),
            token_secret: env.token_secret,
            env: env.values.into_iter().filter(|(name, value)| !is_said(name, value)).collect(),
            deadline_seconds: spec.get("activeDeadlineSeconds").and_then(Value::as_u64),
            retries: spec
                .get("backoffLimit")
                .and_then(Value::as_u64)
                .and_then(|count| u32::try_from(count).ok())
                .filter(|count| *count != BACKOFF_LIMIT),
            resources: read_resources(found),
            tolerations: field(pod, "tolerations")
                .map(serde_json::from_value)
                .transpose()
                .map_err(unread)?
                .unwrap_or_default(),
            image_pull: names.collect::<Option<_>>().ok_or(DownloadFault::Other("a field of its pod is malformed"))?,
            security_context: read(field(found, "securityContext"))?,
            rest: rest_of_job(job, &spec, pod, found),
        })
    }

    /// What it downloads, for a message.
    pub fn repositories(&self) -> String {
        self.downloads.iter().map(|one| format!("`{}`", one.repository)).collect::<Vec<_>>().join(", ")
    }

    /// The claim that it downloads to.
    pub fn claim(&self) -> &DnsName {
        &self.claim
    }

    /// Whether a graph is served from something that it downloads: it names a repository, or the folder of one.
    pub fn serves(&self, texts: &str) -> bool {
        let folder =
            |one: &RequestedDownload| one.folder.as_ref().is_some_and(|folder| texts.contains(folder.as_str()));
        self.downloads.iter().any(|one| texts.contains(&one.repository) || folder(one))
    }

    /// The models with this download in place of their cache, or beside another download to the same claim, those first that
    /// say more: loaded from the folder of the download, or as the model is now, by its name or by a path.
    pub fn weights_of(&self, model: &Model) -> Vec<Model> {
        let loads = [WeightsLoad::Folder, WeightsLoad::Model];
        loads.into_iter().filter_map(|load| self.loaded(model, load)).collect()
    }

    fn loaded(&self, model: &Model, load: WeightsLoad) -> Option<Model> {
        let mut weights = match (&model.spec.cache, &model.spec.weights) {
            (Some(cache), _) if cache.claim == self.claim => self.weights(cache, model)?,
            (_, Some(others)) if others.claim.as_ref().is_some_and(|claim| claim.name == self.claim) => {
                self.beside(others, model)?
            }
            (_, _) => return None,
        };
        weights.load = (load == WeightsLoad::Model).then_some(load);
        let mut changed = model.clone();
        match load {
            WeightsLoad::Folder => {
                let folder = weights.folder().filter(|folder| *folder == model.spec.model)?;
                debug_assert!(folder.starts_with('/'), "a folder on a volume");
                let WeightsSource::HuggingFace { repository, .. } = weights.parse_source().ok()?? else { return None };
                if changed.spec.served_name.as_ref() == Some(&repository) {
                    changed.spec.served_name = None;
                }
                changed.spec.model = repository;
            }
            WeightsLoad::Model => {
                let first = weights.parse_source().ok()??;
                let is_named =
                    matches!(&first, WeightsSource::HuggingFace { repository, .. } if *repository == model.spec.model);
                if !is_named && !model.spec.model.starts_with('/') {
                    return None;
                }
            }
        }
        changed.spec.cache = None;
        changed.spec.weights = Some(weights);
        if !self.rest.is_empty() {
            changed.spec.overrides.push(Override {
                target: OverrideTarget { kind: OverrideKind::Job, name: None },
                merge: self.rest.clone(),
                remove: Vec::new(),
            });
        }
        Some(changed)
    }

    /// This download and another's, where both say the same of their Jobs.
    fn beside(&self, others: &Weights, model: &Model) -> Option<Weights> {
        let claim = others.claim.clone()?;
        let cache = Cache {
            claim: claim.name,
            size: claim.size,
            storage_class: claim.storage_class,
            access_mode: claim.access_mode,
            mount_path: others.mount_path.as_ref().map(ToString::to_string),
            implicit_volume: others.implicit_volume,
            volume: Some(others.volume().parse().ok()?),
            hf_home: others.hf_home,
            read_only: others.read_only,
            model_path: None,
            prune: claim.prune,
        };
        let mut mine = self.weights(&cache, model)?;
        let sources = mine.source.take()?;
        let same = Weights { source: None, load: None, include: Vec::new(), exclude: Vec::new(), ..others.clone() };
        mine.volume.clone_from(&others.volume);
        let plain = Weights { include: Vec::new(), exclude: Vec::new(), load: None, ..mine };
        if plain != same || !self.rest.is_empty() {
            return None;
        }
        let part_of = |weights: &Weights, sources: &WeightsSources| match sources {
            WeightsSources::One(uri) => {
                vec![part(uri.clone(), weights.include.clone(), weights.exclude.clone(), None)]
            }
            WeightsSources::Several(parts) => parts.clone(),
        };
        let mut parts = part_of(others, others.source.as_ref()?);
        let included = Weights { source: None, ..self.weights(&cache, model)? };
        parts.extend(part_of(&included, &sources));
        Some(Weights { source: Some(WeightsSources::Several(ordered(parts, &model.spec.model))), ..same })
    }

    /// The same as a person would write it, for a message.
    pub fn block(&self) -> String {
        let parts: Vec<String> = self
            .downloads
            .iter()
            .map(|one| format!("hf://{}@{}", one.repository, one.revision.as_deref().unwrap_or(DEFAULT_BRANCH)))
            .collect();
        let source = if let [one] = parts.as_slice() { one.clone() } else { format!("[{}]", parts.join(", ")) };
        format!(
            "weights: {{source: {source}, claim: {{name: {}}}, mountPath: {}, load: model}}",
            self.claim, self.mount_path
        )
    }

    fn sources(&self, model: &str) -> Option<(WeightsSources, Vec<String>, Vec<String>)> {
        let mut parts = Vec::new();
        for one in &self.downloads {
            let uri = format!("hf://{}@{}", one.repository, one.revision.as_deref().unwrap_or(DEFAULT_BRANCH));
            WeightsSource::parse(&uri).ok()?;
            let patterns = |texts: &[String]| texts.iter().map(|text| text.parse().ok()).collect::<Option<Vec<_>>>();
            let folder = match &one.folder {
                Some(folder) => Some(folder.parse().ok()?),
                None => None,
            };
            parts.push(part(uri.parse().ok()?, patterns(&one.include)?, patterns(&one.exclude)?, folder));
        }
        match (self.downloads.as_slice(), parts.as_slice()) {
            ([one], [WeightsPart::Whole(uri)]) => {
                Some((WeightsSources::One(uri.clone()), one.include.clone(), one.exclude.clone()))
            }
            ([one], [WeightsPart::Selected(part)]) if part.folder.is_none() => {
                Some((WeightsSources::One(part.uri.clone()), one.include.clone(), one.exclude.clone()))
            }
            _ => Some((WeightsSources::Several(ordered(parts, model)), Vec::new(), Vec::new())),
        }
    }

    fn weights(&self, cache: &Cache, model: &Model) -> Option<Weights> {
        let patterns = |texts: &[String]| texts.iter().map(|text| text.parse().ok()).collect::<Option<Vec<_>>>();
        let (source, include, exclude) = self.sources(&model.spec.model)?;
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
        let secrets = model.spec.secrets.as_ref();
        let of_model = secrets.and_then(|secrets| secrets.hugging_face.as_ref());
        let pulls = secrets.map(|secrets| secrets.image_pull.as_slice()).unwrap_or_default();
        Some(Weights {
            source: Some(source),
            claim: Some(WeightsClaim {
                name: cache.claim.clone(),
                size: cache.size.clone(),
                storage_class: cache.storage_class.clone(),
                access_mode: cache.access_mode,
                prune: cache.prune,
            }),
            host_path: None,
            volume_image: None,
            mount_path: if default_path { None } else { Some(cache.mount_path().parse().ok()?) },
            volume: volume.filter(|volume| volume.as_str() != DEFAULT_VOLUME),
            implicit_volume: cache.implicit_volume,
            load: None,
            hf_home: cache.hf_home,
            read_only: cache.read_only,
            include: patterns(&include)?,
            exclude: patterns(&exclude)?,
            image: match self.image.as_deref().filter(|image| *image != HUGGING_FACE_IMAGE) {
                Some(image) => Some(image.parse().ok()?),
                None => None,
            },
            token_secret: self.token_secret.clone().filter(|secret| Some(secret) != of_model),
            env: self.env.clone(),
            resources: self.resources.clone(),
            tolerations: self.tolerations.clone(),
            image_pull: if self.image_pull == pulls { Vec::new() } else { self.image_pull.clone() },
            security_context: self.security_context.clone(),
            deadline: deadline.filter(|_| self.deadline_seconds != Some(DEFAULT_DEADLINE_SECONDS)),
            retries: self.retries,
            attempt: None,
        })
    }
}

/// One of several sources, as short as it can be said.
fn part(
    uri: crate::intent::scalar::WeightsUri,
    include: Vec<crate::intent::scalar::FilePattern>,
    exclude: Vec<crate::intent::scalar::FilePattern>,
    folder: Option<crate::intent::scalar::VolumeFolder>,
) -> WeightsPart {
    if include.is_empty() && exclude.is_empty() && folder.is_none() {
        WeightsPart::Whole(uri)
    } else {
        WeightsPart::Selected(Box::new(SelectedWeights { uri, include, exclude, folder }))
    }
}

/// The model's own first.
fn ordered(mut parts: Vec<WeightsPart>, model: &str) -> Vec<WeightsPart> {
    let is_other = |part: &WeightsPart| {
        let (uri, folder) = match part {
            WeightsPart::Whole(uri) => (uri, None),
            WeightsPart::Selected(part) => (&part.uri, part.folder.as_ref()),
        };
        let is_named = matches!(WeightsSource::parse(uri.as_str()), Ok(WeightsSource::HuggingFace { repository, .. }) if repository == model);
        let is_folder = folder.is_some_and(|folder| model.ends_with(&format!("/{}", folder.as_str())));
        !is_named && !is_folder
    };
    parts.sort_by_key(is_other);
    parts
}

/// Where caches and weights are mounted unless a model says otherwise.
const DEFAULT_MOUNT_PATH: &str = "/opt/model-cache";
/// What stator calls the volume of a cache, and that of weights.
const CACHE_VOLUME: &str = "model-cache";
const DEFAULT_VOLUME: &str = "model-weights";
/// The deadline of a download that names none.
const DEFAULT_DEADLINE_SECONDS: u64 = 6 * 3600;
