//! How many GPUs an object asks for.
//!
//! All sums saturate: a hostile number gives a huge count, never a wrong small one.

mod sku;

pub use sku::is_known_sku;

use super::graph_components::components;
use super::kinds::ANNOTATION_GPU;
use crate::object::Object;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// GPUs whose kind nothing names.
pub const UNKNOWN_SKU: &str = "unknown";

/// GPUs before, after, and at most during a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct GpuTotals {
    /// Now.
    pub before: u64,
    /// When the change is through.
    pub after: u64,
    /// The most at any moment of the rollout (upper bound).
    pub peak: u64,
}

impl GpuTotals {
    /// Both together.
    pub fn add(&mut self, more: Self) {
        self.before = self.before.saturating_add(more.before);
        self.after = self.after.saturating_add(more.after);
        self.peak = self.peak.saturating_add(more.peak);
    }

    /// The same GPUs where nothing is changed.
    #[must_use]
    pub fn unchanged(self) -> Self {
        Self { after: self.before, peak: self.before, ..self }
    }

    /// Adds to sums by SKU.
    pub fn add_by_sku(sums: &mut BTreeMap<String, Self>, more: &BTreeMap<String, Self>) {
        for (sku, totals) in more {
            sums.entry(sku.clone()).or_default().add(*totals);
        }
    }
}

/// The GPUs of one component of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentGpus {
    /// The component's name.
    pub name: String,
    /// How many groups of pods: `replicas`, 1 when left out.
    pub replicas: u64,
    /// GPUs of one replica, over all its nodes.
    pub per_replica: u64,
    /// Their SKU, where the component's node selector says, or all others of the graph say the same.
    pub sku: Option<String>,
}

impl ComponentGpus {
    /// GPUs of all replicas.
    pub fn total(&self) -> u64 {
        self.replicas.saturating_mul(self.per_replica)
    }

    /// The SKU, or [`UNKNOWN_SKU`].
    pub fn sku(&self) -> &str {
        self.sku.as_deref().unwrap_or(UNKNOWN_SKU)
    }
}

/// The GPUs of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuUse {
    /// By component, in the object's order.
    pub components: Vec<ComponentGpus>,
    /// The SKU, as Dynamo spells it where the node label is known, else the label's value.
    pub sku: Option<String>,
}

impl GpuUse {
    /// All GPUs.
    pub fn total(&self) -> u64 {
        self.components.iter().fold(0, |sum, component| sum.saturating_add(component.total()))
    }

    /// By SKU; [`UNKNOWN_SKU`] where nothing names it.
    pub fn by_sku(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::<String, u64>::new();
        for component in self.components.iter().filter(|component| component.total() > 0) {
            let sum = sums.entry(component.sku().to_owned()).or_default();
            *sum = sum.saturating_add(component.total());
        }
        sums
    }
}

/// The GPUs that an object holds when it runs as written. A request holds none: its profiling job comes and goes, and
/// what it deploys is a graph of its own.
pub fn gpu_use(object: &Object) -> GpuUse {
    match object.kind() {
        "DynamoGraphDeployment" => graph_gpu_use(object),
        "DynamoGraphDeploymentRequest" => GpuUse { components: Vec::new(), sku: sku::request_sku(object) },
        _ => GpuUse::default(),
    }
}

/// The GPUs of a node that pods can be given: their SKU and their number. `None` for a node that has none, or is not ready.
pub fn node_gpus(node: &Value) -> Option<(String, u64)> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let is_unready =
        |one: &Value| one.get("type") == Some(&Value::from("Ready")) && one.get("status") != Some(&Value::from("True"));
    if conditions.into_iter().flatten().any(is_unready) {
        return None;
    }
    let count = node.pointer("/status/allocatable").and_then(Value::as_object).map_or(0, gpu_sum);
    let sku = node.pointer("/metadata/labels").and_then(sku::label_sku);
    (count > 0).then(|| (sku.unwrap_or_else(|| UNKNOWN_SKU.to_owned()), count))
}

fn graph_gpu_use(object: &Object) -> GpuUse {
    let mut components: Vec<ComponentGpus> = components(object.spec()).map(component_gpus).collect();
    if let Some(declared) = object.annotations().get(ANNOTATION_GPU) {
        for component in components.iter_mut().filter(|component| component.per_replica > 0) {
            component.sku.get_or_insert_with(|| (*declared).to_owned());
        }
    }
    let sku = components.iter().find_map(|component| component.sku.clone());
    // What does not say where it runs runs where all others do.
    let one =
        components.iter().filter_map(|component| component.sku.as_deref()).all(|other| Some(other) == sku.as_deref());
    if one {
        for component in &mut components {
            component.sku.clone_from(&sku);
        }
    }
    GpuUse { components, sku }
}

/// What a request does with GPUs beside the graph that it ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestGpuBudget {
    /// GPUs that profiling holds while it runs: a thorough search measures on real ones, a rapid one simulates.
    pub profiling: u64,
    /// The most GPUs of the graph that the request makes by itself; 0 where its result is only kept (`autoApply: false`).
    pub graph: u64,
    /// True when the request says how many GPUs there are; the operator takes those that it finds, 32 at most.
    pub bounded: bool,
}

/// The most GPUs that the operator plans with when a request does not say (`totalGpus` is capped when it is derived).
const MAX_DISCOVERED_GPUS: u64 = 32;

/// What a request does with GPUs: `None` for any other object.
pub fn request_gpu_budget(object: &Object) -> Option<RequestGpuBudget> {
    if object.kind() != "DynamoGraphDeploymentRequest" {
        return None;
    }
    let spec = object.spec();
    let total = spec.pointer("/hardware/totalGpus").and_then(Value::as_u64);
    let budget = total.unwrap_or(MAX_DISCOVERED_GPUS);
    let mocked = spec.pointer("/features/mocker/enabled").and_then(Value::as_bool) == Some(true);
    let thorough = spec.get("searchStrategy").and_then(Value::as_str) == Some("thorough") && !mocked;
    let applies = spec.get("autoApply").and_then(Value::as_bool).unwrap_or(true) && !mocked;
    Some(RequestGpuBudget {
        profiling: if thorough { budget } else { 0 },
        graph: if applies { budget } else { 0 },
        bounded: total.is_some(),
    })
}

/// The components of a graph's spec.
fn component_gpus(component: &Value) -> ComponentGpus {
    ComponentGpus {
        name: component.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        replicas: replicas(component),
        per_replica: component.get("podTemplate").map_or(0, pod_gpus).saturating_mul(node_count(component)),
        sku: sku::component_sku(component),
    }
}

/// `replicas`; the operator's webhook makes 1 of none.
pub(super) fn replicas(component: &Value) -> u64 {
    component.get("replicas").and_then(Value::as_u64).unwrap_or(1)
}

/// Nodes of one replica: 1, or `multinode.nodeCount`, which defaults to 2.
fn node_count(component: &Value) -> u64 {
    match component.get("multinode") {
        Some(Value::Object(multinode)) => multinode.get("nodeCount").and_then(Value::as_u64).unwrap_or(2),
        Some(_) | None => 1,
    }
}

/// GPUs of one pod as the scheduler counts them: containers and sidecars together, or the largest init container.
pub fn pod_gpus(template: &Value) -> u64 {
    let list = |name: &str| template.get("spec").and_then(|spec| spec.get(name)).and_then(Value::as_array).into_iter();
    let mut running = list("containers").flatten().fold(0_u64, |sum, one| sum.saturating_add(container_gpus(one)));
    let mut starting = 0;
    for container in list("initContainers").flatten() {
        let count = container_gpus(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            running = running.saturating_add(count);
        } else {
            starting = starting.max(count);
        }
    }
    running.max(starting)
}

fn container_gpus(container: &Value) -> u64 {
    let sum = |field: &str| {
        container
            .pointer("/resources")
            .and_then(|resources| resources.get(field))
            .and_then(Value::as_object)
            .map_or(0, gpu_sum)
    };
    // Limits and requests of an extended resource must be equal; whichever is written counts.
    sum("limits").max(sum("requests"))
}

fn gpu_sum(resources: &Map<String, Value>) -> u64 {
    resources
        .iter()
        .filter(|(key, _)| is_gpu(key))
        .fold(0, |sum, (_, quantity)| sum.saturating_add(device_count(quantity)))
}

/// `nvidia.com/gpu`, `amd.com/gpu`, `gpu.intel.com/xe`, `nvidia.com/gpu.shared`: whole devices. Slices
/// (`nvidia.com/mig-…`) and shares of memory (`nvidia.com/gpumem`) are not counted.
fn is_gpu(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => {
            name == "gpu" || name.starts_with("gpu.") || (domain.starts_with("gpu.") && !name.contains("memory"))
        }
        None => false,
    }
}

/// A quantity of whole devices. Anything that is none counts as 0: the API server refuses it.
fn device_count(quantity: &Value) -> u64 {
    match quantity {
        Value::Number(number) => number.as_u64().unwrap_or(0),
        Value::String(text) => {
            let text = text.trim();
            let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            let factor = match text.strip_prefix(digits).unwrap_or_default() {
                "" => 1,
                "k" => 1_000,
                "M" => 1_000_000,
                _ => return 0,
            };
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return 0;
            }
            digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(factor)
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => 0,
    }
}

#[cfg(test)]
mod tests;
