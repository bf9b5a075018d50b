//! Weights that are downloaded to a volume.

use super::{AccessMode, EnvValue, Resources, WeightsSource, WeightsSourceFault};
use crate::intent::scalar::{
    DnsName, DownloadDeadline, EnvName, FilePattern, ImageReference, MountPath, Quantity, VolumeFolder, VolumeName,
    WeightsUri,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Weights on a volume: of a claim, a folder of the nodes, or an image. With `source`, a Job downloads them to the claim,
/// and the graph is applied once the download is complete; until then, a graph with another revision keeps serving.
/// Without `source`, the weights are there already.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Weights {
    /// The weights to download: `hf://ORG/NAME@REVISION` with the 40 hex digits of a commit, or with `load: model` also
    /// a branch or tag; `oci://REPOSITORY@sha256:DIGEST`, `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`. All but `hf://`
    /// need an `image`. A list downloads several of `hf://` to the volume, the model's own first.
    pub source: Option<WeightsSources>,
    /// The claim of the volume.
    pub claim: Option<WeightsClaim>,
    /// Instead of a claim: the folder of each node that has the weights.
    pub host_path: Option<MountPath>,
    /// Instead of a claim: the image that has the weights as its files (Kubernetes 1.33 and later mount one as a volume).
    pub volume_image: Option<ImageReference>,
    /// Where the volume is mounted. Defaults to `/opt/model-cache`.
    pub mount_path: Option<MountPath>,
    /// The volume's name in pods. Defaults to `model-weights`.
    pub volume: Option<VolumeName>,
    /// True for an existing graph whose pods have a mount but no volume of the claim: Dynamo's operator then mounts the
    /// claim of the mount's name. Defaults to false.
    pub implicit_volume: Option<bool>,
    /// What workers load: the folder of the download, or `model` as it is written. Defaults to `folder`, which differs
    /// for each revision.
    pub load: Option<WeightsLoad>,
    /// Whether the Hugging Face cache of workers is stored there (`HF_HOME`). Defaults to true.
    pub hf_home: Option<bool>,
    /// Whether the serving pods mount the volume read-only. Defaults to false; an image always is.
    pub read_only: Option<bool>,
    /// Patterns of the files to download. Defaults to all files. A list of sources has them with each source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<FilePattern>,
    /// Patterns of files to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<FilePattern>,
    /// The image of the download. Defaults to `python:3.10-slim` for `hf://`, which installs `huggingface_hub` unless
    /// the image has `hf`. For other schemes, set the image of your own downloader.
    pub image: Option<ImageReference>,
    /// The Secret with the Hugging Face token in key `HF_TOKEN`. Defaults to `secrets.huggingFace`.
    pub token_secret: Option<DnsName>,
    /// Environment variables of the download.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<EnvName, EnvValue>,
    /// CPU and memory of the download.
    pub resources: Option<Resources>,
    /// Taints that the download tolerates, as Kubernetes writes tolerations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Map<String, Value>>,
    /// Secrets to pull the download's image with. Defaults to `secrets.imagePull`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["imagePullSecrets"]))]
    pub image_pull: Vec<DnsName>,
    /// The security context of the download's container, as Kubernetes writes one.
    pub security_context: Option<Map<String, Value>>,
    /// How long the download may take, retries included. Defaults to `6h`.
    pub deadline: Option<DownloadDeadline>,
    /// How often a failed download is tried again. Defaults to 3.
    #[schemars(range(max = 100), extend("x-stator-synonyms" = ["backoffLimit"]))]
    pub retries: Option<u32>,
    /// A new number creates a new Job, which downloads the missing files. Defaults to 1.
    #[schemars(range(min = 1, max = 1000))]
    pub attempt: Option<u32>,
}

/// What is downloaded: one source, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WeightsSources {
    /// One.
    One(WeightsUri),
    /// Several, one after the other: the model's own first, then a draft model, a tokenizer, ….
    Several(Vec<WeightsPart>),
}

/// One of several sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WeightsPart {
    /// All its files, to the Hugging Face cache on the volume.
    Whole(WeightsUri),
    /// Some of its files, or to a folder of its own.
    Selected(Box<SelectedWeights>),
}

/// Some files of a source, or a source with a folder of its own.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectedWeights {
    /// The source: `hf://ORG/NAME@REVISION`.
    pub uri: WeightsUri,
    /// Patterns of the files to download. Defaults to all files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<FilePattern>,
    /// Patterns of files to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<FilePattern>,
    /// The folder of the volume to download to, such as `models/base`. Defaults to the Hugging Face cache at its root.
    pub folder: Option<VolumeFolder>,
}

/// One download of several.
#[derive(Clone, Debug)]
pub struct WeightsDownload<'a> {
    /// From where.
    pub source: WeightsSource,
    /// Patterns of the files; empty for all.
    pub include: &'a [FilePattern],
    /// Patterns of files to leave out.
    pub exclude: &'a [FilePattern],
    /// The folder of the volume, where it is not the Hugging Face cache.
    pub folder: Option<&'a VolumeFolder>,
}

/// What workers load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WeightsLoad {
    /// The folder that the weights are downloaded to.
    Folder,
    /// `model` as it is written: a name, which engines find in the cache of Hugging Face on the volume, or a path of it.
    Model,
}

/// The volume of the weights.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WeightsClaim {
    /// The PersistentVolumeClaim's name.
    pub name: DnsName,
    /// Its size. With it, stator renders the claim; without, the claim must exist.
    pub size: Option<Quantity>,
    /// Its storage class. Defaults to the cluster's.
    pub storage_class: Option<DnsName>,
    /// How it may be mounted. Defaults to `ReadWriteMany`.
    pub access_mode: Option<AccessMode>,
    /// Whether the claim is deleted with the model. Defaults to false: weights are kept.
    pub prune: Option<bool>,
}

impl Weights {
    /// Where the volume is mounted unless the intent says otherwise; as that of a cache.
    const DEFAULT_MOUNT_PATH: &str = "/opt/model-cache";
    /// The volume's name in pods; a constant, since a claim's name may hold dots and a volume's may not.
    pub const DEFAULT_VOLUME: &str = "model-weights";
    /// 700 GB at 50 MB a second take four hours.
    const DEFAULT_DEADLINE_SECONDS: u64 = 6 * 3600;

    /// Where the volume is mounted, without a slash at the end.
    pub fn mount_path(&self) -> &str {
        self.mount_path.as_ref().map_or(Self::DEFAULT_MOUNT_PATH, MountPath::as_str)
    }

    /// The volume's name in pods.
    pub fn volume(&self) -> &str {
        self.volume.as_ref().map_or(Self::DEFAULT_VOLUME, VolumeName::as_str)
    }

    /// How long the download may take.
    pub fn deadline_seconds(&self) -> u64 {
        self.deadline.as_ref().map_or(Self::DEFAULT_DEADLINE_SECONDS, DownloadDeadline::seconds)
    }

    /// The model's own weights: the first that is downloaded; `None` where the weights are there already.
    ///
    /// # Errors
    /// When a source is not pinned, or not one.
    pub fn parse_source(&self) -> Result<Option<WeightsSource>, WeightsSourceFault> {
        let first = self.downloads().into_iter().next();
        first.map(|(_, download)| download.map(|download| download.source)).transpose()
    }

    /// Everything that is downloaded, in its order, with the path of each source below `spec.weights`; else why it cannot
    /// be.
    pub fn downloads(&self) -> Vec<(String, Result<WeightsDownload<'_>, WeightsSourceFault>)> {
        match &self.source {
            None => Vec::new(),
            Some(WeightsSources::One(uri)) => {
                let files = (self.include.as_slice(), self.exclude.as_slice());
                vec![("source".to_owned(), self.download(uri, files, None, true))]
            }
            Some(WeightsSources::Several(parts)) => parts
                .iter()
                .enumerate()
                .map(|(index, part)| {
                    let (path, uri, part) = part.at(index);
                    let files = part.map_or((&[][..], &[][..]), |part| (&part.include[..], &part.exclude[..]));
                    let folder = part.and_then(|part| part.folder.as_ref());
                    (path, self.download(uri, files, folder, index == 0))
                })
                .collect(),
        }
    }

    fn download<'a>(
        &'a self,
        uri: &WeightsUri,
        (include, exclude): (&'a [FilePattern], &'a [FilePattern]),
        folder: Option<&'a VolumeFolder>,
        is_models: bool,
    ) -> Result<WeightsDownload<'a>, WeightsSourceFault> {
        let source = WeightsSource::parse(uri.as_str())?;
        // Of what may move, no folder is known before it is downloaded.
        let is_loaded_from_snapshot = is_models && folder.is_none() && self.load() == WeightsLoad::Folder;
        let source = if is_loaded_from_snapshot { source.pinned()? } else { source };
        Ok(WeightsDownload { source, include, exclude, folder })
    }

    /// The sources by their URIs, as annotations say them, with the folder where they have one of their own.
    pub fn uris(&self) -> Option<String> {
        let uri = |download: WeightsDownload<'_>| match download.folder {
            Some(folder) => format!("{}#{}", download.source.uri(), folder.as_str()),
            None => download.source.uri(),
        };
        let downloads = self.downloads().into_iter().map(|(_, download)| Some(uri(download.ok()?)));
        downloads.collect::<Option<Vec<String>>>().filter(|all| !all.is_empty()).map(|all| all.join(" "))
    }

    /// What workers load.
    pub fn load(&self) -> WeightsLoad {
        self.load.unwrap_or(WeightsLoad::Folder)
    }

    /// The folder that workers load, from the root of a container. `None` where that is not stator's to say.
    pub fn folder(&self) -> Option<String> {
        if self.load() == WeightsLoad::Model {
            return None;
        }
        let (_, first) = self.downloads().into_iter().next()?;
        let first = first.ok()?;
        let folder = first.folder.map_or_else(|| first.source.folder(), |folder| folder.as_str().to_owned());
        Some(format!("{}/{folder}", self.mount_path()))
    }

    /// The volume's source, as a pod writes it.
    pub fn volume_source(&self) -> Value {
        if let Some(claim) = &self.claim {
            json!({"persistentVolumeClaim": {"claimName": claim.name.as_str()}})
        } else if let Some(path) = &self.host_path {
            json!({"hostPath": {"path": path.as_str()}})
        } else if let Some(image) = &self.volume_image {
            json!({"image": {"reference": image.to_string()}})
        } else {
            json!({"emptyDir": {}})
        }
    }
}

impl WeightsPart {
    /// The path of the source below `spec.weights`, the source, and what is said of it.
    fn at(&self, index: usize) -> (String, &WeightsUri, Option<&SelectedWeights>) {
        match self {
            Self::Whole(uri) => (format!("source[{index}]"), uri, None),
            Self::Selected(part) => (format!("source[{index}].uri"), &part.uri, Some(part)),
        }
    }
}
