//! Verdicts of a real API server and of the operator against [`super::check_object`].

use super::{AdmissionOutcome, Platform, PlatformRequirement, check_object, check_update};
use crate::dynamo::release::Release;
use crate::object::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CREATES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/creates.jsonl"));

fn objects() -> impl Iterator<Item = (String, Object)> {
    CREATES.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        (row["name"].as_str().unwrap().to_owned(), Object::from_value(row["object"].clone()).unwrap())
    })
}

#[test]
fn what_is_admitted_and_cannot_work_is_named() {
    let named = |part: &str| -> String {
        let (_, object) = objects().find(|(name, _)| name.contains(part)).unwrap();
        check_object(&object, &Platform { dynamo: Some(Release::V1_2), ..Platform::default() })
            .iter()
            .map(|refusal| format!("{} at {}: {}", refusal.rule.id, refusal.path, refusal.message))
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(named("name of 64 characters (vllm-agg"), @"dynamo/name-budget at metadata.name: the name has 64 characters; it becomes a label value, which may have 63");
    insta::assert_snapshot!(named("name of 58 characters (vllm-agg"), @"
    dynamo/name-budget at spec.components[name=frontend].name: the operator names the workload of `frontend` `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-frontend`, which has 67 characters; Kubernetes allows 63 in a label
    dynamo/name-budget at spec.components[name=worker].name: the operator names the workload of `worker` `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-worker-<8 characters>`, which has 74 characters; Kubernetes allows 63 in a label
    ");
    insta::assert_snapshot!(named("component name of 45 characters (vllm-agg"), @"dynamo/grove-names at spec.components[name=ccccccccccccccccccccccccccccccccccccccccccccc].name: depends on the cluster: Grove allows 45 characters for names from graph and component; `ccccccccccccccccccccccccccccccccccccccccccccc` alone takes 45, and the graph's name 6");
    insta::assert_snapshot!(named("component name of 63 characters (vllm-agg"), @"
    dynamo/name-budget at spec.components[name=ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc].name: the operator names the workload of `ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` `q-vllm-ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc-<8 characters>`, which has 79 characters; Kubernetes allows 63 in a label
    dynamo/grove-names at spec.components[name=ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc].name: depends on the cluster: Grove allows 45 characters for names from graph and component; `ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` alone takes 63, and the graph's name 6
    ");
    insta::assert_snapshot!(named("two frontends (vllm-agg"), @"dynamo/two-frontends at spec.components[name=front2].type: `front2` is a second frontend; requests reach one or the other by chance");
    insta::assert_snapshot!(named("image missing (vllm-agg"), @"dynamo/image-missing at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `worker` has no image; Dynamo accepts it, but no pod can start");
    insta::assert_snapshot!(named("image without tag (vllm-agg"), @"dynamo/image-version at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `nvcr.io/x/vllm-runtime`: there is no tag; Dynamo 1.4 and later read the runtime's version from it and refuse others");
    insta::assert_snapshot!(named("image by digest (vllm-agg"), @"dynamo/image-version at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `nvcr.io/x/vllm@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`: there is a digest and no tag; Dynamo 1.4 and later read the runtime's version from it and refuse others");
    insta::assert_snapshot!(named("image tag not semver (vllm-agg"), @"dynamo/image-version at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `nvcr.io/x/vllm-runtime:my-tag`: tag `my-tag` is not a version; Dynamo 1.4 and later read the runtime's version from it and refuse others");
    insta::assert_snapshot!(named("shared memory -1Gi (vllm-agg"), @"dynamo/shared-memory at spec.components[name=worker].sharedMemorySize: the size of shared memory is negative");
    insta::assert_snapshot!(named("frontend sidecar is main (vllm-agg"), @"dynamo/frontend-sidecar at spec.components[name=worker].frontendSidecar: `main` is not the name of a second container of the pod");
    insta::assert_snapshot!(named("failover alone (vllm-agg"), @r#"
    dynamo/failover at spec.components[name=worker].experimental.failover: failover inside the pods of `worker` needs discovery per container
    dynamo/failover at spec.components[name=worker].experimental.failover: failover of mode IntraPod needs a GPU memory service of the same mode on `worker`
    "#);
    insta::assert_snapshot!(named("component name with underscore (vllm-agg"), @r#"dynamo/schema at spec.components[name=a_b].name: `spec.components[name=a_b].name`: Invalid value: "a_b": should match '^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$'"#);
    insta::assert_snapshot!(named("unknown field in container"), @"dynamo/schema at spec.components[name=decode].podTemplate.spec.containers[name=main].imag: `spec.components[name=decode].podTemplate.spec.containers[name=main].imag`: field not declared in schema");
    insta::assert_snapshot!(named("component names differ in case only"), @"dynamo/component-twice at spec.components[name=FRONTEND].name: `FRONTEND` has the name of another component, `frontend`");
}

fn graph(spec: Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"}, "spec": spec,
    }))
    .unwrap()
}

fn worker(extra: Value) -> Value {
    let mut value = json!({"name": "worker", "type": "worker", "podTemplate": {"spec": {"containers": [
        {"name": "main", "image": "r/vllm-runtime:1.2.0", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}});
    for (key, field) in extra.as_object().unwrap() {
        value[key] = field.clone();
    }
    value
}

/// What is said of a graph on a cluster, a line each.
fn said(object: &Object, platform: &Platform) -> String {
    let line = |refusal: super::AdmissionFinding| {
        let weight = match refusal.outcome {
            AdmissionOutcome::Denied => "refused",
            AdmissionOutcome::DependsOnCluster(_) => "depends",
            AdmissionOutcome::WouldFail => "would fail",
        };
        format!("{weight} {} at {}: {}", refusal.rule.id, refusal.path, refusal.message)
    };
    check_object(object, platform).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_depends_on_the_cluster_is_settled_by_what_is_known_of_it() {
    let picker = graph(json!({"components": [
        {"name": "picker", "type": "epp", "eppConfig": {"config": {"plugins": [], "schedulingProfiles": []}}, "podTemplate": worker(json!({}))["podTemplate"]},
    ]}));
    let topology = graph(json!({
        "topologyConstraint": {"clusterTopologyName": "rails", "packDomain": "rack"},
        "components": [worker(json!({"topologyConstraint": {"packDomain": "zone"}}))],
    }));
    let shared = graph(json!({
        "backendFramework": "vllm",
        "components": [worker(json!({"experimental": {"gpuMemoryService": {"mode": "InterPod"}}}))],
    }));
    let wide =
        graph(json!({"components": [worker(json!({"name": "a-rather-long-name-2", "multinode": {"nodeCount": 2}}))]}));
    let unknown = Platform::default();
    insta::assert_snapshot!(said(&picker, &unknown), @"depends dynamo/needs-inference-gateway at spec.components[name=picker].type: depends on the cluster: the endpoint picker `picker` needs the Gateway API Inference Extension (inference.networking.k8s.io)");
    insta::assert_snapshot!(said(&topology, &unknown), @"depends dynamo/needs-topology at spec.topologyConstraint.clusterTopologyName: depends on the cluster: where graphs run on Grove it must have the topology `rails` with the domains `rack`, `zone`");
    insta::assert_snapshot!(said(&shared, &unknown), @"depends dynamo/needs-grove at spec.components[name=worker].experimental.gpuMemoryService.mode: depends on the cluster: GPU memory between pods of `worker` needs an operator that runs on Grove");
    insta::assert_snapshot!(said(&wide, &unknown), @"depends dynamo/grove-names at spec.components[name=a-rather-long-name-2].name: depends on the cluster: Grove allows 45 characters for names from graph and component; `a-rather-long-name-2` alone takes 44, and the graph's name 5");

    let full = Platform {
        topologies: Some(BTreeMap::from([("rails".to_owned(), ["zone", "rack", "host"].map(str::to_owned).to_vec())])),
        ..Platform::from_api_groups(["grove.io", "inference.networking.k8s.io", "leaderworkerset.x-k8s.io"])
    };
    assert_eq!(said(&picker, &full), "");
    assert_eq!(said(&shared, &full), "");
    insta::assert_snapshot!(said(&topology, &full), @"refused dynamo/needs-topology at spec.components[name=worker].topologyConstraint.packDomain: `zone` of `worker` is broader than the graph's `rack`");
    insta::assert_snapshot!(said(&wide, &full), @"refused dynamo/grove-names at spec.components[name=a-rather-long-name-2].name: Grove allows 45 characters for names from graph and component; `a-rather-long-name-2` alone takes 44, and the graph's name 5");

    let bare = Platform::from_api_groups(["apps"]);
    insta::assert_snapshot!(said(&picker, &bare), @"refused dynamo/needs-inference-gateway at spec.components[name=picker].type: the endpoint picker `picker` needs the Gateway API Inference Extension (inference.networking.k8s.io)");
    insta::assert_snapshot!(said(&shared, &bare), @"refused dynamo/needs-grove at spec.components[name=worker].experimental.gpuMemoryService.mode: GPU memory between pods of `worker` needs an operator that runs on Grove");
    insta::assert_snapshot!(said(&wide, &bare), @"would fail dynamo/needs-multinode at spec.components[name=a-rather-long-name-2].multinode: `a-rather-long-name-2` spans nodes, and this cluster has neither Grove nor LeaderWorkerSet to run it");
    assert_eq!(said(&topology, &bare), "", "without Grove a topology is not looked at");
}

#[test]
fn a_request_without_hardware_needs_an_operator_that_finds_gpus() {
    let request = Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "llama", "namespace": "prod"}, "spec": {"model": "m", "backend": "vllm"},
    }))
    .unwrap();
    assert_eq!(said(&request, &Platform::default()), "");
    let blind = Platform { gpu_discovery: Some(false), ..Platform::default() };
    insta::assert_snapshot!(said(&request, &blind), @"refused dynamo/needs-gpu-discovery at spec.hardware: the operator of this cluster does not discover GPUs, and the request does not name them");
}

#[test]
fn every_need_has_a_rule_and_a_field_of_its_own_to_be_answered_by() {
    let fields = serde_json::to_value(schemars::schema_for!(Platform)).unwrap();
    for need in PlatformRequirement::ALL {
        assert!(fields["properties"].get(need.field_name()).is_some(), "{need:?}");
        assert!(super::rules::ALL.contains(&need.rule()), "{need:?}");
    }
}

#[test]
fn an_object_of_any_shape_is_judged_without_a_panic() {
    let specs = [
        "null",
        "[]",
        "3",
        r#"{"components": 3}"#,
        r#"{"components": [null, [], {"name": 3}]}"#,
        r#"{"services": [1], "pvcs": {"a": 1}}"#,
        r#"{"services": {"a": null, "b": {"volumeMounts": [3, null]}}}"#,
        r#"{"restart": {"strategy": {"order": [1]}}, "topologyConstraint": 3}"#,
        r#"{"components": [{"name": "é", "experimental": 3, "multinode": {"nodeCount": -9223372036854775808}}]}"#,
    ];
    for spec in specs {
        for version in ["nvidia.com/v1beta1", "nvidia.com/v1alpha1", "v1"] {
            for kind in ["DynamoGraphDeployment", "DynamoGraphDeploymentRequest", "DynamoModel", "Other"] {
                let text = format!(
                    r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"a","namespace":"b"}},"spec":{spec}}}"#
                );
                let object = Object::from_value(serde_json::from_str(&text).unwrap()).unwrap();
                let _ = check_object(&object, &Platform::default());
                let _ = check_update(&object, &object, super::UpdateAuthor::User, Release::V1_5);
            }
        }
    }
}

#[test]
fn fields_that_only_v1alpha1_has_are_judged_too() {
    let object = Object::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"},
        "spec": {
            "pvcs": [{"create": true, "name": "cache", "size": "10Gi"}],
            "services": {"Worker": {
                "annotations": {"nvidia.com/vllm-distributed-executor-backend": "mpi"},
                "ingress": {"enabled": true},
                "volumeMounts": [{"name": "cache"}],
                "sharedMemory": {"disabled": false},
                "frontendSidecar": {"image": "x"},
                "extraPodSpec": {"containers": [{"name": "sidecar-frontend", "image": "x"}]},
            }},
        },
    }))
    .unwrap();
    insta::assert_snapshot!(said(&object, &Platform::default()), @r#"
    refused dynamo/v1alpha1 at spec.pvcs[0].storageClass: a volume that is to be created needs `storageClass`
    refused dynamo/v1alpha1 at spec.pvcs[0].volumeAccessMode: a volume that is to be created needs `volumeAccessMode`
    refused dynamo/v1alpha1 at spec.services.Worker.ingress.host: the ingress of `Worker` has no host
    refused dynamo/v1alpha1 at spec.services.Worker.volumeMounts[0].mountPoint: a volume of `Worker` is mounted nowhere
    refused dynamo/v1alpha1 at spec.services.Worker.sharedMemory.size: the shared memory of `Worker` has no size
    refused dynamo/v1alpha1 at spec.services.Worker.extraPodSpec.containers: `Worker` has a container `sidecar-frontend` already, which is the name of the frontend sidecar
    refused dynamo/annotation-value at spec.services.Worker.annotations["nvidia.com/vllm-distributed-executor-backend"]: `nvidia.com/vllm-distributed-executor-backend` is `mpi`; allowed: `mp` and `ray`
    refused dynamo/image-missing at spec.services.Worker: `Worker` has no image
    refused dynamo/schema at spec.pvcs[name=cache]: `spec.pvcs[name=cache]`: Invalid value: When create is true, size, storageClass, and volumeAccessMode are required
    refused dynamo/schema at spec.services.Worker.sharedMemory: `spec.services.Worker.sharedMemory`: Invalid value: size is required when disabled is false
    "#);
}

/// Graphs on a cluster with Grove, whose one topology is `t`, without checkpoints.
#[test]
fn graphs_on_grove_are_judged_as_the_newest_operator_judges_them() {
    let platform = Platform {
        dynamo: Some(Release::V1_5),
        checkpoints: Some(false),
        topologies: Some(BTreeMap::from([("t".to_owned(), ["zone", "rack", "host"].map(str::to_owned).to_vec())])),
        ..Platform::from_api_groups(["grove.io"])
    };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/1.5/oracle/creates-grove.jsonl");
    let text = fs_err::read_to_string(file).unwrap();
    let wrong: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let found = check_object(&Object::from_value(row["object"].clone()).unwrap(), &platform);
            let refused = found.iter().find(|finding| finding.outcome == AdmissionOutcome::Denied);
            (row["admitted"] == refused.is_some()).then(|| format!("{}: {} {refused:?}", row["name"], row["denied"]))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(text.lines().count(), 90);
}

#[test]
fn a_field_of_a_later_release_is_said_to_be_one() {
    let newer = graph(json!({
        "priorityClassName": "high",
        "components": [{
            "name": "worker", "type": "worker", "minAvailable": 1, "runtimeVersionOverride": "1.4.0", "mystery": 1,
            "experimental": {"grove": {"forceScalingGroup": true}},
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": "x/vllm@sha256:00"}]}},
        }],
    }));
    let by = |release| said(&newer, &Platform { dynamo: Some(release), grove: Some(true), ..Platform::default() });
    insta::assert_snapshot!(by(Release::V1_2), @"
    refused dynamo/schema at spec.components[name=worker].experimental.grove: `spec.components[name=worker].experimental.grove` is a field of Dynamo 1.5 and later; this is checked against 1.2
    refused dynamo/schema at spec.components[name=worker].minAvailable: `spec.components[name=worker].minAvailable` is a field of Dynamo 1.3 and later; this is checked against 1.2
    refused dynamo/schema at spec.components[name=worker].mystery: `spec.components[name=worker].mystery`: field not declared in schema
    refused dynamo/schema at spec.components[name=worker].runtimeVersionOverride: `spec.components[name=worker].runtimeVersionOverride` is a field of Dynamo 1.4 and later; this is checked against 1.2
    refused dynamo/schema at spec.priorityClassName: `spec.priorityClassName` is a field of Dynamo 1.3 and later; this is checked against 1.2
    ");
    insta::assert_snapshot!(by(Release::V1_4), @"
    refused dynamo/schema at spec.components[name=worker].experimental.grove: `spec.components[name=worker].experimental.grove` is a field of Dynamo 1.5 and later; this is checked against 1.4
    refused dynamo/schema at spec.components[name=worker].mystery: `spec.components[name=worker].mystery`: field not declared in schema
    ");
    insta::assert_snapshot!(by(Release::Newer), @"would fail dynamo/schema at spec.components[name=worker].mystery: Dynamo 1.5 refuses: `spec.components[name=worker].mystery`: field not declared in schema");
}

#[test]
fn without_a_cluster_and_a_word_about_it_the_stable_release_judges() {
    assert_eq!(Platform::default().release(), Release::STABLE);
    let stated = Platform { dynamo: Some(Release::V1_2), ..Platform::default() };
    assert_eq!((stated.release(), stated.release_mismatch()), (Release::V1_2, None));
}
