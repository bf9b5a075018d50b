//! What of a Job's pod a download says, beside what it runs.

use super::DownloadFault;
use crate::import::guess;
use crate::intent::model::{EnvValue, Resources};
use crate::intent::scalar::{DnsName, EnvName};
use serde_json::{Map, Value, json};
use stator_core::dynamo::equivalence;
use std::collections::BTreeMap;

/// The variable that a token is given by.
pub const TOKEN: &str = "HF_TOKEN";
/// Fields of a Job's container that `weights` says.
const OF_CONTAINER: [&str; 10] = [
    "name",
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "volumeMounts",
    "terminationMessagePolicy",
    "resources",
    "securityContext",
];
/// Fields of a Job's pod that `weights` says.
const OF_POD: [&str; 5] = ["containers", "volumes", "restartPolicy", "tolerations", "imagePullSecrets"];
/// Fields of a Job that `weights` says, or that mean nothing for one that is made when it is needed. A Job that removes itself
/// would be made again.
const OF_JOB: [&str; 7] = [
    "template",
    "completions",
    "parallelism",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "suspend",
    "backoffLimit",
];

/// CPU and memory of a container, where all of it are quantities.
pub fn read_resources(container: &Value) -> Option<Resources> {
    let value = container.get("resources").filter(|value| !is_empty(value))?;
    let mut text = value.clone();
    for part in ["requests", "limits"] {
        for amount in text.get_mut(part).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if amount.is_number() {
                *amount = amount.to_string().into();
            }
        }
    }
    serde_json::from_value(text).ok()
}

/// The variables of a container.
pub struct JobEnvironment {
    pub texts: BTreeMap<String, String>,
    pub values: BTreeMap<EnvName, EnvValue>,
    pub token_secret: Option<DnsName>,
}

impl JobEnvironment {
    pub fn of(container: &Value) -> Result<Self, DownloadFault> {
        let mut env = Self { texts: BTreeMap::new(), values: BTreeMap::new(), token_secret: None };
        for item in list(container, "env") {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
            let key = item.pointer("/valueFrom/secretKeyRef/key").and_then(Value::as_str);
            let secret = item.pointer("/valueFrom/secretKeyRef/name").and_then(Value::as_str);
            if let (TOKEN, Some(TOKEN), Some(secret)) = (name, key, secret) {
                env.token_secret = secret.parse().ok();
                continue;
            }
            if name == TOKEN {
                return Err(DownloadFault::Other("its token is not in a Secret under `HF_TOKEN`"));
            }
            let value = item
                .as_object()
                .and_then(guess::env_value)
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
}

pub fn mounted_claim(mount: &Value, volume: &Value) -> Option<(DnsName, String)> {
    let name = mount.get("name").filter(|name| Some(*name) == volume.get("name"))?;
    let path = mount.get("mountPath")?.as_str()?;
    let claim = volume.pointer("/persistentVolumeClaim/claimName")?.as_str()?;
    let is_plain = *mount == json!({"name": name, "mountPath": path})
        && *volume == json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
    is_plain.then(|| Some((claim.parse().ok()?, path.to_owned())))?
}

/// Whether a variable is read by the downloader or by what it is made of.
pub fn reads_by_itself(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let parts =
        ["HF_", "HUGGING", "HTTP", "NO_PROXY", "ALL_PROXY", "SSL_", "REQUESTS_", "CURL_", "PIP_", "XDG_", "TMP"];
    name != "HF_HOME" && parts.iter().any(|part| name.starts_with(part))
}

/// Labels and annotations of a Job or its pods that something in a cluster may go by: a queue, a service mesh. What only
/// names the Job is not kept.
fn rest_of_metadata(metadata: Option<&Value>) -> Map<String, Value> {
    let names_it =
        |key: &str| key == "app" || key.starts_with("app.kubernetes.io/") || equivalence::is_reserved_key(key);
    let fields = ["labels", "annotations"].into_iter().filter_map(|field| {
        let own = metadata?.get(field)?.as_object()?.iter().filter(|(key, _)| !names_it(key));
        let own: Map<String, Value> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        (!own.is_empty()).then(|| (field.to_owned(), Value::Object(own)))
    });
    fields.collect()
}

/// What a Job says that `weights` has no field for, as a partial Job.
pub fn rest_of_job(job: &Value, spec: &Map<String, Value>, pod: &Value, container: &Value) -> Map<String, Value> {
    let without = |value: &Value, said: &[&str]| -> Map<String, Value> {
        let map = value.as_object().cloned().unwrap_or_default();
        map.into_iter().filter(|(field, value)| !said.contains(&field.as_str()) && !is_empty(value)).collect()
    };
    let mut main = without(container, &OF_CONTAINER);
    let mut rest = without(&Value::Object(spec.clone()), &OF_JOB);
    // What a cluster fills in for an image with a tag.
    if main.get("imagePullPolicy").is_some_and(|policy| policy == "IfNotPresent") {
        main.remove("imagePullPolicy");
    }
    let mut pod = without(pod, &OF_POD);
    if !main.is_empty() {
        main.insert("name".to_owned(), "download".into());
        pod.insert("containers".to_owned(), json!([main]));
    }
    let mut template = Map::new();
    if !pod.is_empty() {
        template.insert("spec".to_owned(), Value::Object(pod));
    }
    let of_pods = rest_of_metadata(job.pointer("/spec/template/metadata"));
    if !of_pods.is_empty() {
        template.insert("metadata".to_owned(), Value::Object(of_pods));
    }
    if !template.is_empty() {
        rest.insert("template".to_owned(), Value::Object(template));
    }
    let parts = [("metadata", rest_of_metadata(job.get("metadata"))), ("spec", rest)];
    let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
    parts.map(|(field, part)| (field.to_owned(), Value::Object(part))).collect()
}

pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

pub fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}
