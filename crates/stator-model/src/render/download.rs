//! The Job that downloads weights (`spec.weights`), as upstream's recipes have it: an image with `hf`, and a volume.
//!
//! Its name ends in a digest of its spec, as what a Job runs cannot be changed: other weights, another volume or another
//! attempt is another Job, and models that share weights and a volume share the Job. What is downloaded stays on the volume
//! beside what was there, so a Job that runs again fetches only what is missing.

use super::pod::{EnvVars, PodContainer};
use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::model::{OverrideKind, Weights, WeightsDownload, WeightsSource};
use crate::intent::scalar::FilePattern;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::kinds;
use stator_core::dynamo::registry::env as names;
use stator_core::dynamo::v1beta1::to_value;

/// How many hex digits of the spec's digest are part of the name.
const DIGEST_LENGTH: usize = 10;
/// The longest part of a Job's name that is the weights' own: a Job's name has at most 63 characters.
const MAX_SHORT_NAME_LENGTH: usize = 40;
/// As in upstream's recipes.
const BACKOFF_LIMIT: u64 = 3;
/// The image of a download from Hugging Face that names none.
pub const HUGGING_FACE_IMAGE: &str = "python:3.10-slim";
const CONTAINER: &str = "download";
/// Where a downloader finds what to download, and where to put it.
const SOURCE_ENV: &str = "WEIGHTS_SOURCE";
const FOLDER_ENV: &str = "WEIGHTS_FOLDER";
const INCLUDE_ENV: &str = "WEIGHTS_INCLUDE";
const EXCLUDE_ENV: &str = "WEIGHTS_EXCLUDE";
const REPOSITORY_ENV: &str = "WEIGHTS_REPOSITORY";
const REVISION_ENV: &str = "WEIGHTS_REVISION";
/// What runs for `hf://`. It is the same for all: what to download are variables and arguments, which no shell reads as
/// its own words.
const HUGGING_FACE_SCRIPT: &str = "\
set -eu
command -v hf >/dev/null || pip install --no-cache-dir huggingface_hub==1.11.0
exec hf download \"$WEIGHTS_REPOSITORY\" --revision \"$WEIGHTS_REVISION\" \"$@\"
";

/// How several are downloaded, before the line of each.
const SEVERAL_SCRIPT: &str = "\
set -eu
command -v hf >/dev/null || pip install --no-cache-dir huggingface_hub==1.11.0
";

/// The Job of a model's weights; `None` where somebody else fills the volume. A source with a fault has been reported.
pub(super) fn draft_job(context: &RenderContext<'_>) -> Option<ObjectDraft> {
    let weights = context.intent.model.spec.weights.as_ref()?;
    let source = weights.parse_source().ok().flatten()?;
    let pod = pod_spec(context, weights, &source)?;
    let spec = json!({
        "activeDeadlineSeconds": weights.deadline_seconds(),
        "backoffLimit": weights.retries.map_or(BACKOFF_LIMIT, u64::from),
        "completions": 1,
        "parallelism": 1,
        "template": {"spec": pod},
    });
    let name = job_name(context, &source, &spec, weights.attempt.unwrap_or(1));
    let mut value = object_metadata::new_object(context, kinds::JOB, &name, spec, false);
    if let Some(metadata) = value.get_mut("metadata") {
        metadata["annotations"] = json!({kinds::ANNOTATION_WEIGHTS: weights.uris()?});
    }
    Some(ObjectDraft {
        kind: kinds::JOB,
        value,
        path: "spec.weights".to_owned(),
        stage: ApplyStage::Download,
        prune: true,
    })
}

/// `weights-gpt-oss-120b-0a1b2c3d4e`.
fn job_name(context: &RenderContext<'_>, source: &WeightsSource, spec: &Value, attempt: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(spec.to_string().as_bytes());
    // They are merged later, and make another Job as well.
    for change in context.intent.model.spec.overrides.iter().filter(|one| one.target.kind == OverrideKind::Job) {
        hash.update(serde_json::to_string(change).unwrap_or_default().as_bytes());
    }
    hash.update(attempt.to_be_bytes());
    let mut digest = hex::encode(hash.finalize());
    digest.truncate(DIGEST_LENGTH);
    let letters = source.short_name().chars().map(|letter| letter.to_ascii_lowercase());
    let slug: String = letters.map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let slug: String = slug.trim_matches('-').chars().take(MAX_SHORT_NAME_LENGTH).collect();
    match slug.trim_end_matches('-') {
        "" => format!("weights-{digest}"),
        slug => format!("weights-{slug}-{digest}"),
    }
}

/// What `hf download` is told of files.
fn pattern_args(include: &[FilePattern], exclude: &[FilePattern]) -> Vec<String> {
    let of = |flag: &'static str, patterns: &[FilePattern]| {
        patterns.iter().flat_map(|pattern| [flag.to_owned(), pattern.as_str().to_owned()]).collect::<Vec<_>>()
    };
    [of("--include", include), of("--exclude", exclude)].concat()
}

/// The line of one of several downloads. No word of it holds a quote: sources, patterns and folders are checked when they
/// are read.
fn download_line(weights: &Weights, download: &WeightsDownload<'_>) -> Option<String> {
    let WeightsSource::HuggingFace { repository, revision } = &download.source else { return None };
    let mut words = vec![repository.clone(), "--revision".to_owned(), revision.as_str().to_owned()];
    words.extend(pattern_args(download.include, download.exclude));
    if let Some(folder) = download.folder {
        words.extend(["--local-dir".to_owned(), format!("{}/{}", weights.mount_path(), folder.as_str())]);
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    Some(format!("hf download {}\n", quoted.join(" ")))
}

/// The pod of the download. `None` for a source without an image, which has been reported.
fn pod_spec(context: &RenderContext<'_>, weights: &Weights, source: &WeightsSource) -> Option<Value> {
    let spec = &context.intent.model.spec;
    let mut env = EnvVars::default();
    env.set("HF_XET_HIGH_PERFORMANCE", "1");
    env.add_layer(&weights.env);
    let own_image = weights.image.as_ref().map(ToString::to_string);
    let mut args = Vec::new();
    let (image, command) = match source {
        WeightsSource::HuggingFace { repository, revision } => {
            let downloads = weights.downloads();
            let first = downloads.first().and_then(|(_, one)| one.as_ref().ok())?;
            let several = downloads.len() > 1 || first.folder.is_some();
            if !several {
                env.set(REPOSITORY_ENV, repository.as_str());
                env.set(REVISION_ENV, revision.as_str());
            }
            env.set(names::HF_HOME, weights.mount_path());
            let of_model = || spec.secrets.as_ref().and_then(|secrets| secrets.hugging_face.as_ref());
            if let Some(secret) = weights.token_secret.as_ref().or_else(of_model) {
                env.set_from_secret("HF_TOKEN", secret.as_str());
            }
            let command = if several {
                let lines = downloads.iter().map(|(_, one)| download_line(weights, one.as_ref().ok()?));
                let lines = lines.collect::<Option<String>>()?;
                vec!["sh".to_owned(), "-c".to_owned(), format!("{SEVERAL_SCRIPT}{lines}")]
            } else {
                args = pattern_args(first.include, first.exclude);
                // The word after the script is what the shell calls itself.
                ["sh", "-c", HUGGING_FACE_SCRIPT, CONTAINER].map(str::to_owned).to_vec()
            };
            (own_image.unwrap_or_else(|| HUGGING_FACE_IMAGE.to_owned()), command)
        }
        WeightsSource::Other { uri } => {
            env.set(SOURCE_ENV, uri.as_str());
            env.set(FOLDER_ENV, format!("{}/{}", weights.mount_path(), source.folder()));
            for (name, patterns) in [(INCLUDE_ENV, &weights.include), (EXCLUDE_ENV, &weights.exclude)] {
                if !patterns.is_empty() {
                    let lines: Vec<&str> = patterns.iter().map(|pattern| pattern.as_str()).collect();
                    env.set(name, lines.join("\n"));
                }
            }
            (own_image?, Vec::new())
        }
    };
    let container = PodContainer {
        name: CONTAINER,
        image: Some(image),
        command,
        args,
        env: env.into_values(),
        resources: super::pod::resources(weights.resources.as_ref(), 0, ""),
        volume_mounts: vec![json!({"name": Weights::DEFAULT_VOLUME, "mountPath": weights.mount_path()})],
        ..PodContainer::default()
    };
    let mut container = to_value(&container);
    // So that the pod's status has the last words of a download that failed.
    container["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
    if let Some(context) = weights.security_context.as_ref().filter(|context| !context.is_empty()) {
        container["securityContext"] = Value::Object(context.clone());
    }
    let claim = json!({"claimName": weights.claim.as_ref()?.name.as_str()});
    let mut pod = json!({
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": Weights::DEFAULT_VOLUME, "persistentVolumeClaim": claim}],
    });
    if !weights.tolerations.is_empty() {
        pod["tolerations"] = json!(weights.tolerations);
    }
    let of_model = || spec.secrets.as_ref().map(|secrets| secrets.image_pull.as_slice()).unwrap_or_default();
    let pull = if weights.image_pull.is_empty() { of_model() } else { weights.image_pull.as_slice() };
    if !pull.is_empty() {
        pod["imagePullSecrets"] = pull.iter().map(|name| json!({"name": name.as_str()})).collect();
    }
    Some(pod)
}
