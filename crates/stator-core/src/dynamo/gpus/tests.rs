use super::*;
use crate::dynamo::disruption::Disruption;
use crate::dynamo::gpu_change::{GpuChange, gpu_change, unchanged_gpus};
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
    assert_eq!(gpu_use(&graph).total(), 16);
    assert_eq!(gpu_use(&graph).sku.as_deref(), Some("h200_sxm"));
    let peak = |class| gpu_change(Some(&graph), Some(&graph), class).totals.peak;
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
        gpu_change(Some(&graph), Some(&graph), Disruption::ManagedRoll).totals.peak
    };
    assert_eq!(with("0"), 32);
    assert_eq!(with("2"), 48);
    assert_eq!(with("50%"), 48);
    assert_eq!(with("many"), 40);
}

#[test]
fn a_roll_that_also_scales_down_starts_from_the_old_count() {
    let (old, new) = (graph(json!([worker("decode", 4, 2)])), graph(json!([worker("decode", 1, 2)])));
    assert_eq!(gpu_change(Some(&old), Some(&new), Disruption::ManagedRoll).totals.peak, 8);
}

#[test]
fn components_that_scale_apart_may_meet_at_their_larger_counts() {
    let old = graph(json!([worker("prefill", 4, 1), worker("decode", 1, 1)]));
    let new = graph(json!([worker("prefill", 1, 1), worker("decode", 4, 1)]));
    assert_eq!(gpu_change(Some(&old), Some(&new), Disruption::Scale).totals.peak, 8);
}

#[test]
fn nodes_multiply() {
    let mut decode = worker("decode", 2, 8);
    decode["multinode"] = json!({"nodeCount": 4});
    assert_eq!(gpu_use(&graph(json!([decode.clone()]))).total(), 64);
    decode["multinode"] = json!({});
    assert_eq!(gpu_use(&graph(json!([decode]))).total(), 32);
}

#[test]
fn only_whole_devices_count() {
    let count = |key: &str, quantity: Value| {
        gpu_use(&graph(json!([{"name": "w", "podTemplate": {"spec": {"containers": [{"resources": {"limits": {key: quantity}}}]}}}]))).total()
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
        gpu_use(&graph(json!([decode]))).sku.unwrap()
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
        let most = gpu_use(&old).total().max(gpu_use(&new).total());
        let found = gpu_change(Some(&old), Some(&new), class);
        prop_assert!(found.totals.peak >= most);
        let sum = |of: fn(&GpuTotals) -> u64| found.by_sku.values().fold(0_u64, |sum, one| sum.saturating_add(of(one)));
        prop_assert_eq!(sum(|one| one.before), found.totals.before);
        prop_assert_eq!(sum(|one| one.after), found.totals.after);
        prop_assert!(sum(|one| one.peak) >= found.totals.peak);
    }

    /// A pod of every component on another kind of GPU: each kind is counted apart.
    #[test]
    fn kinds_of_gpus_are_counted_apart(counts in proptest::collection::vec((0_u64..9, 0_u64..9, 0_usize..3), 1..5)) {
        let skus = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-L40S"];
        let components: Vec<Value> = counts.iter().enumerate().map(|(index, (replicas, gpus, sku))| {
            let mut one = worker(&format!("w{index}"), *replicas, *gpus);
            one["podTemplate"]["spec"]["nodeSelector"]["nvidia.com/gpu.product"] = json!(skus[*sku]);
            one
        }).collect();
        let graph = graph(json!(components));
        for (index, name) in ["h100_sxm", "h200_sxm", "l40s"].into_iter().enumerate() {
            let wanted: u64 = counts.iter().filter(|(_, _, sku)| *sku == index).map(|(a, b, _)| a * b).sum();
            prop_assert_eq!(gpu_use(&graph).by_sku().get(name).copied().unwrap_or_default(), wanted);
        }
    }
}

fn on(product: &str, mut component: Value) -> Value {
    component["podTemplate"]["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.product": product});
    component
}

fn shown(change: &GpuChange) -> String {
    let line = |name: &str, one: &GpuTotals| format!("{name}: {} → {}, peak {}", one.before, one.after, one.peak);
    let kinds = change.by_sku.iter().map(|(sku, totals)| line(sku, totals));
    std::iter::once(line("all", &change.totals)).chain(kinds).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_graph_on_two_kinds_of_gpus_is_counted_by_kind() {
    let of = |decode: u64| {
        let prefill = on("NVIDIA-H100-80GB-HBM3", worker("prefill", 2, 2));
        graph(json!([prefill, on("NVIDIA-H200", worker("decode", decode, 4))]))
    };
    insta::assert_snapshot!(shown(&gpu_change(Some(&of(2)), Some(&of(3)), Disruption::Scale)), @r#"
    all: 12 → 16, peak 16
    h100_sxm: 4 → 4, peak 4
    h200_sxm: 8 → 12, peak 12
    "#);
}

#[test]
fn moving_to_other_gpus_holds_both_kinds_for_a_while() {
    let of = |product: &str| graph(json!([on(product, worker("decode", 4, 2))]));
    let (old, new) = (of("NVIDIA-H100-80GB-HBM3"), of("NVIDIA-H200"));
    insta::assert_snapshot!(shown(&gpu_change(Some(&old), Some(&new), Disruption::ManagedRoll)), @r#"
    all: 8 → 8, peak 10
    h100_sxm: 8 → 0, peak 8
    h200_sxm: 0 → 8, peak 8
    "#);
    insta::assert_snapshot!(shown(&gpu_change(Some(&old), Some(&new), Disruption::Recreate)), @r#"
    all: 8 → 8, peak 8
    h100_sxm: 8 → 0, peak 8
    h200_sxm: 0 → 8, peak 8
    "#);
}

#[test]
fn what_does_not_say_where_it_runs_runs_where_all_others_do() {
    let mut silent = worker("prefill", 1, 2);
    silent["podTemplate"]["spec"]["nodeSelector"] = json!({});
    let one = graph(json!([silent.clone(), worker("decode", 1, 4)]));
    insta::assert_snapshot!(shown(&unchanged_gpus(&one)), @r#"
    all: 6 → 6, peak 6
    h200_sxm: 6 → 6, peak 6
    "#);
    let two = graph(json!([silent, worker("decode", 1, 4), on("NVIDIA-L40S", worker("more", 1, 1))]));
    insta::assert_snapshot!(shown(&unchanged_gpus(&two)), @r#"
    all: 7 → 7, peak 7
    h200_sxm: 4 → 4, peak 4
    l40s: 1 → 1, peak 1
    unknown: 2 → 2, peak 2
    "#);
}

#[test]
fn a_component_with_gpus_that_is_no_worker_rolls_as_a_deployment() {
    let of = |image: &str| {
        let mut encoder = worker("encoder", 4, 1);
        encoder.as_object_mut().unwrap().remove("type");
        encoder["podTemplate"]["spec"]["containers"][0]["image"] = json!(image);
        graph(json!([encoder, worker("decode", 2, 4)]))
    };
    insta::assert_snapshot!(shown(&gpu_change(Some(&of("a")), Some(&of("b")), Disruption::FrontendRoll)), @r#"
    all: 12 → 12, peak 13
    h200_sxm: 12 → 12, peak 13
    "#);
    insta::assert_snapshot!(shown(&gpu_change(Some(&of("a")), Some(&of("a")), Disruption::ManagedRoll)), @r#"
    all: 12 → 12, peak 16
    h200_sxm: 12 → 12, peak 16
    "#);
}

#[test]
fn a_request_holds_gpus_while_it_measures_and_for_what_it_deploys() {
    let request = |spec: Value| {
        Object::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"name": "llama", "namespace": "prod"}, "spec": spec,
        }))
        .unwrap()
    };
    let shown = |spec: Value| shown(&gpu_change(None, Some(&request(spec)), Disruption::None));
    let hardware = json!({"gpuSku": "h200_sxm", "totalGpus": 16});
    insta::assert_snapshot!(shown(json!({"searchStrategy": "rapid", "autoApply": false, "hardware": hardware})), @"all: 0 → 0, peak 0");
    insta::assert_snapshot!(shown(json!({"searchStrategy": "thorough", "autoApply": false, "hardware": hardware})), @r#"
    all: 0 → 0, peak 16
    h200_sxm: 0 → 0, peak 16
    "#);
    insta::assert_snapshot!(shown(json!({"hardware": hardware})), @r#"
    all: 0 → 0, peak 16
    h200_sxm: 0 → 0, peak 16
    "#);
    insta::assert_snapshot!(shown(json!({"searchStrategy": "thorough"})), @r#"
    all: 0 → 0, peak 32
    unknown: 0 → 0, peak 32
    "#);
    insta::assert_snapshot!(shown(json!({"searchStrategy": "thorough", "features": {"mocker": {"enabled": true}}})), @"all: 0 → 0, peak 0");
}
