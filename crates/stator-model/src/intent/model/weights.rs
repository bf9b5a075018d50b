//! Weights that are downloaded to a volume.

use super::{AccessMode, EnvValue, WeightsSource, WeightsSourceFault};
use crate::intent::scalar::{
    DnsName, DownloadDeadline, EnvName, FilePattern, ImageReference, MountPath, Quantity, VolumeName, WeightsUri,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Weights on a volume. With `source`, a Job downloads them, and the graph is applied once the download is complete;
/// until then, a graph with another revision keeps serving. Without `source`, fill the volume yourself.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Weights {
    /// The weights to download: `hf://ORG/NAME@REVISION` with the 40 hex digits of a commit, or with `load: model` also
    /// a branch or tag; `oci://REPOSITORY@sha256:DIGEST`, `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`. All but `hf://`
    /// need an `image`.
    pub source: Option<WeightsUri>,
    /// The volume.
    pub claim: WeightsClaim,
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
    /// Patterns of the files to download. Defaults to all files.
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
    /// How long the download may take, retries included. Defaults to `6h`.
    pub deadline: Option<DownloadDeadline>,
    /// A new number creates a new Job, which downloads the missing files. Defaults to 1.
    #[schemars(range(min = 1, max = 1000))]
    pub attempt: Option<u32>,
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
    const DEFAULT_VOLUME: &str = "model-weights";
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

    /// What is downloaded; `None` where somebody else fills the volume.
    ///
    /// # Errors
    /// When the source is not pinned, or not one.
    pub fn parse_source(&self) -> Result<Option<WeightsSource>, WeightsSourceFault> {
        let source = self.source.as_ref().map(|source| WeightsSource::parse(source.as_str())).transpose();
        // Of what may move, no folder is known before it is downloaded.
        let is_loaded_from_folder = self.load() == WeightsLoad::Folder;
        source?.map(|source| if is_loaded_from_folder { source.pinned() } else { Ok(source) }).transpose()
    }

    /// What workers load.
    pub fn load(&self) -> WeightsLoad {
        self.load.unwrap_or(WeightsLoad::Folder)
    }

    /// The folder that workers load, from the root of a container. `None` where that is not stator's to say.
    pub fn folder(&self) -> Option<String> {
        let source = self.parse_source().ok().flatten().filter(|_| self.load() == WeightsLoad::Folder)?;
        Some(format!("{}/{}", self.mount_path(), source.folder()))
    }
}
