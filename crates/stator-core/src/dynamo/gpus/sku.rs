//! Which GPU a graph runs on, read from its node selectors.

use crate::object::Object;
use serde_json::Value;

/// Node labels that name a GPU, the most telling first.
const GPU_LABELS: &[&str] = &[
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/model",
    "amd.com/gpu.product-name",
];

/// Parts of a product name, lower-case without punctuation, and the SKU they mean. The first that fits wins, so the
/// more telling ones come first.
const SKU_BY_PRODUCT: &[(&[&str], &str)] = &[
    (&["gb200"], "gb200_sxm"),
    (&["gb10"], "gb10"),
    (&["b200"], "b200_sxm"),
    (&["h200"], "h200_sxm"),
    (&["h100", "pcie"], "h100_pcie"),
    (&["h100"], "h100_sxm"),
    (&["a100", "pcie"], "a100_pcie"),
    (&["a100"], "a100_sxm"),
    (&["a30"], "a30"),
    (&["l40s"], "l40s"),
    (&["l40"], "l40"),
    (&["v100", "pcie"], "v100_pcie"),
    (&["v100"], "v100_sxm"),
    (&["mi200"], "mi200"),
    (&["mi210"], "mi200"),
    (&["mi250"], "mi200"),
    (&["mi300"], "mi300"),
];

/// Whether a name is an SKU as Dynamo spells it, and not what a node's label says.
pub fn is_known_sku(name: &str) -> bool {
    ["t4", "l4"].contains(&name) || SKU_BY_PRODUCT.iter().any(|(_, sku)| *sku == name)
}

/// The SKU of a node's GPUs, by its labels.
pub(super) fn label_sku(labels: &Value) -> Option<String> {
    GPU_LABELS.iter().find_map(|label| labels.get(label).and_then(Value::as_str)).map(sku_name)
}

/// The SKU of a request: it says so itself.
pub(super) fn request_sku(object: &Object) -> Option<String> {
    object.spec().pointer("/hardware/gpuSku").and_then(Value::as_str).map(str::to_owned)
}

/// The SKU of a component that selects nodes by a label that names a GPU, or requires one of several.
pub(super) fn component_sku(component: &Value) -> Option<String> {
    let pod = component.pointer("/podTemplate/spec")?;
    GPU_LABELS.iter().find_map(|label| selected_label_value(pod, label)).map(sku_name)
}

/// The value that a pod wants of a node label: by selector, or as the first of those that its affinity allows.
fn selected_label_value<'a>(pod: &'a Value, label: &str) -> Option<&'a str> {
    let by_selector = pod.get("nodeSelector").and_then(|selector| selector.get(label)).and_then(Value::as_str);
    by_selector.or_else(|| {
        let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let terms = pod.pointer(required)?.as_array()?;
        terms.iter().filter_map(|term| term.get("matchExpressions")?.as_array()).flatten().find_map(|expression| {
            let text = |field: &str| expression.get(field).and_then(Value::as_str);
            let matches = text("key") == Some(label) && text("operator") == Some("In");
            matches.then(|| expression.get("values")?.as_array()?.first()?.as_str()).flatten()
        })
    })
}

/// `NVIDIA-H100-80GB-HBM3` → `h100_sxm`; a product that the table lacks keeps its own name.
fn sku_name(product: &str) -> String {
    let plain: String = product.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    SKU_BY_PRODUCT
        .iter()
        .find(|(parts, _)| parts.iter().all(|part| plain.contains(part)))
        .map(|(_, sku)| *sku)
        .or_else(|| plain.ends_with("t4").then_some("t4"))
        .or_else(|| plain.ends_with("l4").then_some("l4"))
        .map_or_else(|| product.to_owned(), str::to_owned)
}
