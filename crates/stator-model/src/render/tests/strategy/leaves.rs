//! Values that many fields share: scalars, environment, resources, pod templates.

use crate::intent::model::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Text that a scalar type accepts, as that type.
pub(super) fn scalar<T: FromStr<Err = String> + std::fmt::Debug>(pattern: &'static str) -> impl Strategy<Value = T> {
    pattern.prop_map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// A JSON map without nulls, as `config` and `engineOptions` hold them.
pub(super) fn json_map() -> BoxedStrategy<Map<String, Value>> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-z_]{1,6}", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    // Boxed, here and below: unboxed, one model's strategy outgrows a test thread's stack.
    btree_map("[a-zA-Z_]{1,8}", value, 0..4).prop_map(|map| map.into_iter().collect()).boxed()
}

fn map_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// A partial pod template with lists that merge by key.
pub(super) fn template() -> BoxedStrategy<Map<String, Value>> {
    prop_oneof![
        Just(json!({"spec": {"priorityClassName": "high", "tolerations": [{"operator": "Exists"}]}})),
        Just(json!({"spec": {"containers": [
            {"name": "main", "workingDir": "/srv", "env": [{"name": "A", "value": "z"}]},
            {"name": "side", "image": "side:1.0.0"}
        ]}})),
        Just(json!({"metadata": {"annotations": {"a/b": "c"}}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})),
        Just(json!({"spec": {"containers": [{
            "name": "main",
            "startupProbe": {"httpGet": {"path": "/live", "port": "system"}, "failureThreshold": 720},
            "ports": [{"name": "system", "containerPort": 9090}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}
        }], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}})),
        Just(json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
        }}}, "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ], "terminationGracePeriodSeconds": 60}})),
        ("[a-z]{1,5}", "[a-z]{1,5}").prop_map(|(key, value)| json!({"metadata": {"labels": {key: value}}})),
    ]
    .prop_map(map_of)
    .boxed()
}

/// Environment variables, with names that nobody else sets.
pub(super) fn env() -> BoxedStrategy<BTreeMap<crate::intent::scalar::EnvName, EnvValue>> {
    btree_map(scalar("[A-Z]{1,3}(_[A-Z]{1,3})?"), env_value(), 0..3).boxed()
}

/// Variables of a graph.
pub(super) fn graph_env() -> BoxedStrategy<Vec<GraphVariable>> {
    let variable = (scalar("[A-Z]{1,3}"), env_value()).prop_map(|(name, value)| GraphVariable { name, value });
    proptest::collection::vec(variable, 0..3).boxed()
}

fn env_value() -> impl Strategy<Value = EnvValue> {
    prop_oneof![
        "\\PC{0,12}".prop_map(EnvValue::Literal),
        (scalar("[a-z]{1,8}"), "[a-zA-Z_.-]{1,8}")
            .prop_map(|(secret, key)| EnvValue::Secret(EnvFromSecret { secret, key })),
        (scalar("[a-z]{1,8}"), "[a-zA-Z_.-]{1,8}")
            .prop_map(|(config_map, key)| EnvValue::ConfigMap(EnvFromConfigMap { config_map, key })),
        "[a-z.]{1,8}".prop_map(|field| EnvValue::Field(EnvFromField { field })),
        "[a-z.]{1,8}".prop_map(|resource| EnvValue::Resource(EnvFromResource { resource })),
    ]
}

/// A count that parallel sizes are made of.
pub(super) fn size() -> impl Strategy<Value = Option<u32>> {
    option::of(prop_oneof![Just(1_u32), Just(2), Just(4), Just(8), Just(16)])
}

/// Who scales a component.
pub(super) fn scaling() -> impl Strategy<Value = Scaling> {
    prop_oneof![
        Just(Scaling::External(ExternalScaling::External)),
        (0_u32..3, 3_u32..9).prop_map(|(min, max)| Scaling::Bounds(ScalingBounds { min, max })),
    ]
}

/// How pods are replaced.
pub(super) fn rollout() -> impl Strategy<Value = Rollout> {
    let amount = || {
        option::of(prop_oneof![
            (0_u32..4).prop_map(CountOrPercent::Count),
            (0_u32..=100).prop_map(CountOrPercent::Percent)
        ])
    };
    (option::of(prop_oneof![Just(RolloutStrategy::Rolling), Just(RolloutStrategy::Recreate)]), amount(), amount())
        .prop_map(|(strategy, max_surge, max_unavailable)| Rollout { strategy, max_surge, max_unavailable })
}

/// How pods are replaced, and the graph.
pub(super) fn model_rollout() -> impl Strategy<Value = ModelRollout> {
    let replace = prop_oneof![Just(ReplacementOrder::OldFirst), Just(ReplacementOrder::NewFirst)];
    (option::of(replace), rollout()).prop_map(|(replace, pods)| {
        let Rollout { strategy, max_surge, max_unavailable } = pods;
        ModelRollout { replace, strategy, max_surge, max_unavailable }
    })
}

/// CPU, memory and what a device plugin offers.
pub(super) fn resources() -> BoxedStrategy<Resources> {
    let quantities = || {
        let names = prop_oneof![
            Just("cpu".to_owned()),
            Just("memory".to_owned()),
            Just("ephemeral-storage".to_owned()),
            Just("rdma/ib".to_owned()),
        ];
        btree_map(names, scalar("[1-9][0-9]?(\\.[0-9])?(Gi|Mi|m|k)?|[1-9]e[1-3]"), 0..3)
    };
    (quantities(), quantities()).prop_map(|(requests, limits)| Resources { requests, limits }).boxed()
}

/// An image with a tag.
pub(super) fn image() -> impl Strategy<Value = crate::intent::scalar::ImageReference> {
    scalar("([a-z]{1,6}\\.io/)?[a-z]{1,8}:1\\.[0-9]\\.0|[a-z]{1,6}/[a-z]{1,8}@sha256:[0-9a-f]{64}")
}

/// Fields of a component's pods.
pub(super) fn pod_settings() -> BoxedStrategy<PodSettings> {
    let map = |value: Value| value.as_object().cloned().unwrap_or_default();
    let maps = move |value: Value| {
        option::of(Just(value)).prop_map(move |value| value.into_iter().map(map).collect::<Vec<_>>())
    };
    let policy =
        prop_oneof![Just(ImagePullPolicy::Always), Just(ImagePullPolicy::IfNotPresent), Just(ImagePullPolicy::Never)];
    let texts = || btree_map("[a-z]{1,5}", "[a-z]{1,5}", 0..2);
    (
        (texts(), texts(), texts(), maps(json!({"operator": "Exists"}))),
        (
            option::of(Just(map(json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}]}})))),
            maps(json!({"maxSkew": 2, "topologyKey": "node", "whenUnsatisfiable": "DoNotSchedule"})),
            (option::of("[a-z]{1,5}"), option::of("[a-z]{1,5}"), option::of("[a-z]{1,5}")),
        ),
        (
            option::of(Just(map(json!({"fsGroup": 2000})))),
            option::of(Just(map(json!({"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}})))),
            option::of(policy),
            maps(json!({"name": "gpu", "resourceClaimTemplateName": "one"})),
        ),
        (option::of(0_u32..900), option::of(any::<bool>())),
        (maps(json!({"name": "p", "emptyDir": {"sizeLimit": "1Gi"}})), any::<bool>()),
    )
        .prop_map(
            move |(
                (annotations, labels, node_selector, tolerations),
                (affinity, topology_spread_constraints, (priority_class_name, scheduler_name, runtime_class_name)),
                (security_context, container_security_context, image_pull_policy, resource_claims),
                (termination_grace_period_seconds, host_network),
                (volumes, mounts),
            )| {
                let volume_mounts: Vec<Map<String, Value>> =
                    volumes.iter().filter(|_| mounts).map(|_| map(json!({"name": "p", "mountPath": "/p"}))).collect();
                PodSettings {
                    annotations,
                    labels,
                    node_selector,
                    tolerations,
                    affinity,
                    topology_spread_constraints,
                    priority_class_name,
                    scheduler_name,
                    runtime_class_name,
                    security_context,
                    container_security_context,
                    image_pull_policy,
                    resource_claims,
                    termination_grace_period_seconds,
                    host_network,
                    volumes,
                    volume_mounts,
                }
            },
        )
        .boxed()
}
