//! Verdicts of a real API server against [`super::check`].

use super::{Weight, check};
use crate::object::Object;
use serde_json::Value;

const CREATES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dynamo/oracle/creates.jsonl"));

struct Verdict {
    name: String,
    denied: Option<String>,
    object: Object,
}

fn verdicts() -> Vec<Verdict> {
    CREATES
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            Verdict {
                name: row["name"].as_str().unwrap().to_owned(),
                denied: row["denied"].as_str().map(str::to_owned),
                object: Object::from_value(row["object"].clone()).unwrap(),
            }
        })
        .collect()
}

fn refused(object: &Object) -> Vec<&'static str> {
    let mut rules: Vec<&str> = check(object)
        .into_iter()
        .filter(|refusal| refusal.weight == Weight::Refused)
        .map(|refusal| refusal.rule.id)
        .collect();
    rules.dedup();
    rules
}

/// Denials that depend on the cluster: what is installed, and how the operator is configured.
const OF_THE_CLUSTER: &[(&str, &str)] = &[
    ("cannot deploy EPP component: InferencePool API group", "the inference gateway may be installed elsewhere"),
    ("requires the Grove pathway, but Grove is disabled", "Grove may be enabled elsewhere"),
];

#[test]
fn what_the_webhooks_deny_is_refused_offline_unless_the_cluster_decides() {
    let mut by_cluster = 0;
    let mut checked = 0;
    for verdict in verdicts() {
        let Some(denied) = verdict.denied.filter(|message| message.starts_with("admission webhook")) else { continue };
        if OF_THE_CLUSTER.iter().any(|(message, _)| denied.contains(message)) {
            by_cluster += 1;
            continue;
        }
        checked += 1;
        assert!(!refused(&verdict.object).is_empty(), "{} is let through, and denied: {denied}", verdict.name);
    }
    assert!(checked >= 25, "{checked} denials were compared");
    assert!(by_cluster > 0, "the exceptions are no longer needed");
}

#[test]
fn what_the_api_server_admits_is_not_refused() {
    let mut admitted = 0;
    for verdict in verdicts().into_iter().filter(|verdict| verdict.denied.is_none()) {
        admitted += 1;
        assert_eq!(refused(&verdict.object), Vec::<&str>::new(), "{} is admitted", verdict.name);
    }
    assert!(admitted > 100, "{admitted} objects were compared");
}

#[test]
fn what_is_admitted_and_cannot_work_is_named() {
    let named = |part: &str| -> String {
        let verdict = verdicts().into_iter().find(|verdict| verdict.name.contains(part)).unwrap();
        check(&verdict.object)
            .iter()
            .map(|refusal| format!("{} at {}: {}", refusal.rule.id, refusal.path, refusal.message))
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(named("name of 64 characters (vllm-agg"), @"dynamo/name-budget at metadata.name: the name has 64 characters; it becomes a label, which holds 63");
    insta::assert_snapshot!(named("component name of 63 characters (vllm-agg"), @"dynamo/name-budget at spec.components[name=ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc].name: the service `q-vllm-ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc` has 70 characters; Kubernetes allows 63");
    insta::assert_snapshot!(named("two frontends (vllm-agg"), @"dynamo/two-frontends at spec.components[name=front2].type: `front2` is a second frontend; requests reach one or the other by chance");
    insta::assert_snapshot!(named("image missing (vllm-agg"), @"dynamo/image-missing at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `worker` has no image; Dynamo takes it and no pod can start");
    insta::assert_snapshot!(named("image without tag (vllm-agg"), @"dynamo/image-version at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `nvcr.io/x/vllm-runtime`: there is no tag; Dynamo 1.4 and later read the runtime's version from it and refuse others");
    insta::assert_snapshot!(named("image by digest (vllm-agg"), @"dynamo/image-version at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `nvcr.io/x/vllm@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`: there is no tag; Dynamo 1.4 and later read the runtime's version from it and refuse others");
    insta::assert_snapshot!(named("image tag not semver (vllm-agg"), @"dynamo/image-version at spec.components[name=worker].podTemplate.spec.containers[name=main].image: `nvcr.io/x/vllm-runtime:my-tag`: tag `my-tag` is no version; Dynamo 1.4 and later read the runtime's version from it and refuse others");
    insta::assert_snapshot!(named("shared memory -1Gi (vllm-agg"), @"dynamo/shared-memory at spec.components[name=worker].sharedMemorySize: the size of shared memory is negative");
    insta::assert_snapshot!(named("frontend sidecar is main (vllm-agg"), @"dynamo/frontend-sidecar at spec.components[name=worker].frontendSidecar: `main` is not the name of a second container of the pod");
    insta::assert_snapshot!(named("failover alone (vllm-agg"), @r#"
        dynamo/failover at spec.components[name=worker].experimental.failover: failover inside a pod needs every container discovered for itself
        dynamo/failover at spec.components[name=worker].experimental.failover: failover of mode IntraPod needs a GPU memory service of the same mode
        "#);
}

#[test]
fn an_object_of_any_shape_is_judged_without_a_panic() {
    for spec in ["null", "[]", "3", r#"{"components": 3}"#, r#"{"components": [null, [], {"name": 3}]}"#] {
        for kind in ["DynamoGraphDeployment", "DynamoGraphDeploymentRequest", "DynamoModel", "Other"] {
            let text = format!(
                r#"{{"apiVersion":"nvidia.com/v1beta1","kind":"{kind}","metadata":{{"name":"a","namespace":"b"}},"spec":{spec}}}"#
            );
            let _ = check(&Object::from_value(serde_json::from_str(&text).unwrap()).unwrap());
        }
    }
}
