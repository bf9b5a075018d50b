use super::*;
use crate::dynamo::disruption::Disruption;
use proptest::prelude::*;
use serde_json::json;

fn graph(components: Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"},
        "spec": {"components": components},
    }))
    .unwrap()
}

fn worker(name: &str, replicas: u64, gpus: u64) -> Value {
    json!({"name": name, "type": name, "replicas": replicas, "podTemplate": {"spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"},
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus.to_string(), "memory": "40Gi"}}}]}}})
}

#[test]
fn a_rolling_update_needs_its_surge() {
    // 2 × 2 and 3 × 4 GPUs; a quarter of each count, rounded up, comes on top: 16 + 2 + 4.
    let graph =
        graph(json!([{"name": "frontend", "type": "frontend"}, worker("prefill", 2, 2), worker("decode", 3, 4)]));
    assert_eq!(of(&graph).total(), 16);
    assert_eq!(of(&graph).sku.as_deref(), Some("h200_sxm"));
    let peak = |class| peak(Some(&graph), Some(&graph), class);
    assert_eq!(peak(Disruption::ManagedRoll), 22);
    assert_eq!(peak(Disruption::NativeRoll), 16);
    assert_eq!(peak(Disruption::Recreate), 16);
}

#[test]
fn annotations_set_the_surge() {
    let with = |surge: &str| {
        let mut decode = worker("decode", 4, 8);
        decode["podTemplate"]["metadata"] =
            json!({"annotations": {"nvidia.com/deployment-rolling-update-max-surge": surge}});
        let graph = graph(json!([decode]));
        peak(Some(&graph), Some(&graph), Disruption::ManagedRoll)
    };
    assert_eq!(with("0"), 32);
    assert_eq!(with("2"), 48);
    assert_eq!(with("50%"), 48);
    assert_eq!(with("many"), 40);
}

#[test]
fn a_roll_that_also_scales_down_starts_from_the_old_count() {
    let (old, new) = (graph(json!([worker("decode", 4, 2)])), graph(json!([worker("decode", 1, 2)])));
    assert_eq!(peak(Some(&old), Some(&new), Disruption::ManagedRoll), 8);
}

#[test]
fn components_that_scale_apart_may_meet_at_their_larger_counts() {
    let old = graph(json!([worker("prefill", 4, 1), worker("decode", 1, 1)]));
    let new = graph(json!([worker("prefill", 1, 1), worker("decode", 4, 1)]));
    assert_eq!(peak(Some(&old), Some(&new), Disruption::Scale), 8);
}

#[test]
fn nodes_multiply() {
    let mut decode = worker("decode", 2, 8);
    decode["multinode"] = json!({"nodeCount": 4});
    assert_eq!(of(&graph(json!([decode.clone()]))).total(), 64);
    decode["multinode"] = json!({});
    assert_eq!(of(&graph(json!([decode]))).total(), 32);
}

#[test]
fn only_whole_devices_count() {
    let count = |key: &str, quantity: Value| {
        of(&graph(json!([{"name": "w", "podTemplate": {"spec": {"containers": [{"resources": {"limits": {key: quantity}}}]}}}]))).total()
    };
    assert_eq!(count("amd.com/gpu", json!("4")), 4);
    assert_eq!(count("gpu.intel.com/xe", json!(2)), 2);
    assert_eq!(count("nvidia.com/gpumem", json!("4")), 0);
    assert_eq!(count("nvidia.com/mig-1g.5gb", json!("4")), 0);
    assert_eq!(count("nvidia.com/gpu", json!("1k")), 1000);
    assert_eq!(count("nvidia.com/gpu", json!("é")), 0);
    assert_eq!(count("nvidia.com/gpu", json!(-3)), 0);
}

#[test]
fn products_become_the_words_that_dynamo_uses() {
    let sku = |product: &str| {
        let mut decode = worker("decode", 1, 1);
        decode["podTemplate"]["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.product": product});
        of(&graph(json!([decode]))).sku.unwrap()
    };
    assert_eq!(sku("NVIDIA-H100-80GB-HBM3"), "h100_sxm");
    assert_eq!(sku("NVIDIA-H100-PCIe"), "h100_pcie");
    assert_eq!(sku("NVIDIA-GB200"), "gb200_sxm");
    assert_eq!(sku("NVIDIA-L40S"), "l40s");
    assert_eq!(sku("Tesla-T4"), "t4");
    assert_eq!(sku("NVIDIA-L4"), "l4");
    assert_eq!(sku("NVIDIA-Thor"), "NVIDIA-Thor");
}

proptest! {
    /// Hostile counts saturate; the peak is never below what stands before or after.
    #[test]
    fn the_peak_is_an_upper_bound(
        (a, b, c, d) in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()),
        class in proptest::sample::select(Disruption::ALL.to_vec()),
    ) {
        let (old, new) = (graph(json!([worker("decode", a, b)])), graph(json!([worker("decode", c, d)])));
        let most = of(&old).total().max(of(&new).total());
        prop_assert!(peak(Some(&old), Some(&new), class) >= most);
    }
}
