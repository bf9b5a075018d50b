//! Pod templates: what a component's container and pod are made of.
//! What the intent says of pods (`pod`) is a partial template over it.

use super::hardware;
use crate::intent::model::{
    Cache, EnvValue, Hardware, PodSettings, Probes, Resources, Rollout, RolloutStrategy, Secrets, Weights,
};
use crate::intent::scalar::{EnvName, VolumeName};
use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use stator_core::dynamo::registry::{MAIN_CONTAINER, annotation, env as names, label};
use stator_core::dynamo::v1beta1::to_value;
use std::collections::BTreeMap;

/// The volume that holds the weights. A constant, since a claim's name may hold dots and a volume's may not.
const CACHE_VOLUME: &str = "model-cache";

/// A core/v1 PodTemplateSpec, as far as stator fills it in.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PodTemplate {
    #[serde(skip_serializing_if = "PodMetadata::is_empty")]
    pub(super) metadata: PodMetadata,
    pub(super) spec: PodSpec,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PodMetadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<&'static str, String>,
}

impl PodMetadata {
    fn is_empty(&self) -> bool {
        self.annotations.is_empty()
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) containers: Vec<PodContainer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volumes: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) image_pull_secrets: Vec<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) affinity: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tolerations: Vec<Value>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodContainer {
    pub(super) name: &'static str,
    pub(super) image: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) args: Vec<String>,
    pub(super) working_dir: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env_from: Vec<Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) resources: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volume_mounts: Vec<Value>,
    pub(super) startup_probe: Option<Map<String, Value>>,
    pub(super) liveness_probe: Option<Map<String, Value>>,
    pub(super) readiness_probe: Option<Map<String, Value>>,
}

impl PodTemplate {
    /// A pod of one container, `main`.
    pub(super) fn with_main_container(container: PodContainer) -> Self {
        let main = PodContainer { name: MAIN_CONTAINER, ..container };
        Self { spec: PodSpec { containers: vec![main], ..PodSpec::default() }, ..Self::default() }
    }

    /// As JSON, with what the intent says of pods merged over it, the weakest first, and its own template last.
    pub(super) fn to_json_with(&self, pods: [Option<&PodSettings>; 2], template: Option<&Map<String, Value>>) -> Value {
        let mut value = to_value(self);
        if let Value::Object(map) = &mut value {
            for settings in pods.into_iter().flatten() {
                super::strategic_merge::merge_maps(map, Some(&partial_template(settings)));
            }
            super::strategic_merge::merge_maps(map, template);
        }
        value
    }

    /// Mounts the cache into `main` and adds its volume.
    pub(super) fn mount_cache(&mut self, cache: &Cache) {
        let name = cache.volume.as_ref().map_or(CACHE_VOLUME, VolumeName::as_str);
        let volume = (cache.implicit_volume != Some(true)).then_some(name);
        let source = json!({"persistentVolumeClaim": {"claimName": cache.claim.as_str()}});
        let mounted = volume.unwrap_or(cache.claim.as_str());
        self.mount_volume(source, volume, (mounted, cache.mount_path(), cache.read_only));
    }

    /// Mounts the volume of downloaded weights into `main`.
    pub(super) fn mount_weights(&mut self, weights: &Weights) {
        let volume = (weights.implicit_volume != Some(true)).then_some(weights.volume());
        let claim = weights.claim.as_ref().map_or(weights.volume(), |claim| claim.name.as_str());
        let mounted = volume.unwrap_or(claim);
        self.mount_volume(weights.volume_source(), volume, (mounted, weights.mount_path(), weights.read_only));
    }

    /// Mounts a claim into `main`, by a volume of that name. Without one the mount has the claim's own name, by which Dynamo's
    /// operator finds it.
    /// Adds a volume, unless Dynamo's operator does, and mounts it by a name, at a path, read-only or not.
    fn mount_volume(&mut self, source: Value, volume: Option<&str>, mount: (&str, &str, Option<bool>)) {
        if let (Some(name), Value::Object(mut volume)) = (volume, source) {
            volume.insert("name".to_owned(), name.into());
            self.spec.volumes.push(Value::Object(volume));
        }
        let (name, path, read_only) = mount;
        let mut mount = json!({"name": name, "mountPath": path});
        if read_only == Some(true) {
            mount["readOnly"] = true.into();
        }
        if let Some(main) = self.spec.containers.first_mut() {
            main.volume_mounts.push(mount);
        }
    }

    /// Probes of `main`.
    pub(super) fn set_probes(&mut self, probes: Option<&Probes>) {
        if let (Some(probes), Some(main)) = (probes, self.spec.containers.first_mut()) {
            main.startup_probe.clone_from(&probes.startup);
            main.liveness_probe.clone_from(&probes.liveness);
            main.readiness_probe.clone_from(&probes.readiness);
        }
    }

    /// Names the secrets that images are pulled with.
    pub(super) fn set_image_pull_secrets(&mut self, secrets: Option<&Secrets>) {
        let names = secrets.map(|secrets| secrets.image_pull.as_slice()).unwrap_or_default();
        self.spec.image_pull_secrets = names.iter().map(|name| json!({"name": name.as_str()})).collect();
    }

    /// Picks nodes: by the labels that the intent names, else, for pods with GPUs, by the product label of the SKU.
    pub(super) fn set_node_placement(&mut self, hardware: Option<&Hardware>, has_gpus: bool) {
        let Some(hardware) = hardware else { return };
        self.spec.tolerations = hardware.tolerations.iter().cloned().map(Value::Object).collect();
        if let Some(selector) = &hardware.node_selector {
            self.spec.node_selector.clone_from(selector);
            return;
        }
        let Some(sku) = hardware.gpu.filter(|_| has_gpus) else { return };
        match hardware::gpu_products(sku) {
            [] => {}
            [product] => {
                self.spec.node_selector.insert(label::GPU_PRODUCT.to_owned(), (*product).to_owned());
            }
            // A selector takes one value; several memory sizes of one SKU need an affinity.
            products => {
                self.spec.affinity = Some(json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": label::GPU_PRODUCT, "operator": "In", "values": products}
                    ]}]}
                }}));
            }
        }
    }

    /// Says how pods are replaced, by the annotations that the operator reads from the pod template.
    pub(super) fn set_rollout(&mut self, rollout: Option<&Rollout>) {
        let Some(rollout) = rollout else { return };
        let annotations = &mut self.metadata.annotations;
        match rollout.strategy {
            // All pods stop first: surge and unavailability have no meaning.
            Some(RolloutStrategy::Recreate) => {
                annotations.insert(annotation::STRATEGY, "Recreate".to_owned());
            }
            Some(RolloutStrategy::Rolling) | None => {
                let amounts = [
                    (annotation::MAX_SURGE, rollout.max_surge),
                    (annotation::MAX_UNAVAILABLE, rollout.max_unavailable),
                ];
                annotations.extend(amounts.into_iter().filter_map(|(name, amount)| Some((name, amount?.to_string()))));
            }
        }
    }
}

/// Environment variables, later layers over earlier ones, sorted by name. Rendered into `main.env`, which is keyed by
/// name, and never into `spec.env`, which one manager owns whole.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvVars(BTreeMap<String, Value>);

impl EnvVars {
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), json!({"name": name, "value": value.into()}));
    }

    /// A key of a Secret, under the key's own name.
    pub(super) fn set_from_secret(&mut self, key: &str, secret: &str) {
        let item = json!({"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}});
        self.0.insert(key.to_owned(), item);
    }

    pub(super) fn add_layer(&mut self, values: &BTreeMap<EnvName, EnvValue>) {
        for (name, value) in values {
            self.0.insert(name.to_string(), env_item(name.as_str(), value));
        }
    }

    /// Points Hugging Face libraries at the cache, or else at downloaded weights.
    pub(super) fn set_hf_home(&mut self, cache: Option<&Cache>, weights: Option<&Weights>) {
        if let Some(cache) = cache.filter(|cache| cache.hf_home.unwrap_or(true)) {
            self.set(names::HF_HOME, cache.mount_path());
        } else if let Some(weights) = weights.filter(|weights| weights.hf_home.unwrap_or(true)) {
            self.set(names::HF_HOME, weights.mount_path());
        }
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        self.0.into_values().collect()
    }
}

/// `envFrom`: the Hugging Face token, then further secrets, in the intent's order.
pub(super) fn env_from(secrets: Option<&Secrets>) -> Vec<Value> {
    let Some(secrets) = secrets else { return Vec::new() };
    secrets.hugging_face.iter().chain(&secrets.env).map(|name| json!({"secretRef": {"name": name.as_str()}})).collect()
}

/// A container's `resources`: the intent's, and the GPUs under `limits` alone, which is where Kubernetes reads an
/// extended resource from.
pub(super) fn resources(written: Option<&Resources>, gpus: u32, gpu_resource: &str) -> Map<String, Value> {
    let quantities = |map: &BTreeMap<String, crate::intent::scalar::Quantity>| -> Map<String, Value> {
        map.iter().map(|(name, quantity)| (name.clone(), Value::from(quantity.as_str()))).collect()
    };
    let mut limits = written.map(|resources| quantities(&resources.limits)).unwrap_or_default();
    let requests = written.map(|resources| quantities(&resources.requests)).unwrap_or_default();
    if gpus > 0 {
        limits.insert(gpu_resource.to_owned(), gpus.to_string().into());
    }
    let mut all = Map::new();
    for (field, map) in [("limits", limits), ("requests", requests)] {
        if !map.is_empty() {
            all.insert(field.to_owned(), Value::Object(map));
        }
    }
    all
}

/// A variable as Kubernetes writes one.
pub(super) fn env_item(name: &str, value: &EnvValue) -> Value {
    match value {
        EnvValue::Literal(text) => json!({"name": name, "value": text}),
        EnvValue::Secret(from) => {
            json!({"name": name, "valueFrom": {"secretKeyRef": {"name": from.secret.as_str(), "key": from.key}}})
        }
        EnvValue::ConfigMap(from) => json!({
            "name": name,
            "valueFrom": {"configMapKeyRef": {"name": from.config_map.as_str(), "key": from.key}}
        }),
        EnvValue::Field(from) => json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": from.field}}}),
        EnvValue::Resource(from) => {
            json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": from.resource}}})
        }
    }
}

/// The fields of `pod` that are the container's, with their names there.
const OF_CONTAINER: [(&str, &str); 3] = [
    ("containerSecurityContext", "securityContext"),
    ("imagePullPolicy", "imagePullPolicy"),
    ("volumeMounts", "volumeMounts"),
];
/// The fields of `pod` that are metadata.
const OF_METADATA: [&str; 2] = ["annotations", "labels"];

/// The partial pod template that the fields stand for.
pub(super) fn partial_template(settings: &PodSettings) -> Map<String, Value> {
    let (mut metadata, mut spec, mut main) = (Map::new(), Map::new(), Map::new());
    // A struct of ours is a map.
    for (field, value) in to_value(settings).as_object().cloned().unwrap_or_default() {
        if let Some((_, name)) = OF_CONTAINER.iter().find(|(own, _)| *own == field) {
            main.insert((*name).to_owned(), value);
        } else if OF_METADATA.contains(&field.as_str()) {
            metadata.insert(field, value);
        } else {
            spec.insert(field, value);
        }
    }
    let claims: Vec<Value> =
        settings.resource_claims.iter().filter_map(|claim| Some(json!({"name": claim.get("name")?}))).collect();
    if !claims.is_empty() {
        main.insert("resources".to_owned(), json!({"claims": claims}));
    }
    if !main.is_empty() {
        main.insert("name".to_owned(), MAIN_CONTAINER.into());
        spec.insert("containers".to_owned(), json!([main]));
    }
    let mut template = Map::new();
    for (field, map) in [("metadata", metadata), ("spec", spec)] {
        if !map.is_empty() {
            template.insert(field.to_owned(), Value::Object(map));
        }
    }
    template
}
