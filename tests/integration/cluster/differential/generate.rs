//! Random sequences. Names and values are few, so that managers meet.

use super::steps::{Meant, Sequence, Step, Subject, Which};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// A field: its name, how often it is there in a hundred, its value.
type Field = (&'static str, u32, BoxedStrategy<Value>);

pub fn sequence() -> impl Strategy<Value = Sequence> {
    let of = |subject: Subject, config: fn() -> BoxedStrategy<Value>, patch: fn() -> BoxedStrategy<Value>| {
        vec(step(config(), patch(), status(subject)), 2..9).prop_map(move |steps| Sequence { subject, steps })
    };
    prop_oneof![
        5 => of(Subject::Graph, graph, graph_patch),
        3 => of(Subject::Claim, claim, claim_patch),
        2 => of(Subject::Request, request, request_patch),
        1 => of(Subject::Record, record, record_patch),
    ]
}

fn step(
    config: BoxedStrategy<Value>,
    patch: BoxedStrategy<Value>,
    status: Option<BoxedStrategy<Value>>,
) -> BoxedStrategy<Step> {
    let manager = || select(vec!["stator", "stator", "helm", "kubectl-edit"]);
    let flag = |percent: u32| (0..100_u32).prop_map(move |roll| roll >= 100 - percent);
    let main = (manager(), config, flag(25), flag(10), meant()).prop_map(|(manager, config, force, dry_run, meant)| {
        Step::Apply { manager, config, force, dry_run, status: false, meant }
    });
    let updaters = || select(vec!["editor", "stator", "manager"]);
    let edit = (updaters(), patch).prop_map(|(manager, patch)| Step::Merge { manager, patch, status: false });
    let delete = meant().prop_map(|meant| Step::Delete { meant });
    let Some(status) = status else {
        return prop_oneof![10 => main, 3 => edit, 1 => delete].boxed();
    };
    let shown = (updaters(), status.clone()).prop_map(|(manager, status)| Step::Merge {
        manager,
        patch: json!({"status": status}),
        status: true,
    });
    let applied = (manager(), status, flag(25), meant()).prop_map(|(manager, status, force, meant)| Step::Apply {
        manager,
        config: json!({"status": status}),
        force,
        dry_run: false,
        status: true,
        meant,
    });
    prop_oneof![10 => main, 3 => edit, 1 => delete, 1 => shown, 2 => applied].boxed()
}

fn meant() -> impl Strategy<Value = Meant> {
    let which = || prop_oneof![12 => Just(Which::Any), 2 => Just(Which::Live), 1 => Just(Which::Other)];
    (which(), which()).prop_map(|(uid, version)| Meant { uid, version })
}

/// A map of fields that may be there.
fn map(fields: Vec<Field>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields
        .into_iter()
        .map(|(name, percent, value)| {
            let value = if percent == 100 {
                value.prop_map(Some).boxed()
            } else {
                option::weighted(f64::from(percent) / 100.0, value).boxed()
            };
            (name, value)
        })
        .unzip();
    values
        .prop_map(move |values| {
            let there = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(there.collect::<Map<String, Value>>())
        })
        .boxed()
}

/// Some of these items, in any order.
fn some_of(items: Vec<BoxedStrategy<Value>>) -> BoxedStrategy<Value> {
    let there: Vec<_> = items.into_iter().map(|item| option::weighted(0.6, item)).collect();
    there
        .prop_map(|items| items.into_iter().flatten().collect::<Vec<Value>>())
        .prop_shuffle()
        .prop_map(Value::Array)
        .boxed()
}

fn one_of(values: &[Value]) -> BoxedStrategy<Value> {
    select(values.to_vec()).boxed()
}

fn text(values: &[&str]) -> BoxedStrategy<Value> {
    select(values.iter().map(|value| json!(value)).collect::<Vec<Value>>()).boxed()
}

fn metadata() -> BoxedStrategy<Value> {
    let marks = || {
        map(vec![("team", 50, text(&["ads", "search"])), ("a.b/c", 30, text(&["x", "y"])), ("empty", 15, text(&[""]))])
    };
    let finalizers = some_of(vec![text(&["example.com/hold"]), text(&["example.com/more"])]);
    map(vec![("labels", 50, marks()), ("annotations", 30, marks()), ("finalizers", 12, finalizers)])
}

/// `metadata` and `spec`, now and then with a fault in it.
fn object(spec: BoxedStrategy<Value>, faults: &[(&'static str, Value)]) -> BoxedStrategy<Value> {
    let faults: Vec<(&'static str, Value)> = faults.to_vec();
    let whole = map(vec![("metadata", 60, metadata()), ("spec", 100, spec)]);
    (whole, option::weighted(0.12, select(faults)))
        .prop_map(|(mut value, fault)| {
            if let Some((field, fault)) = fault
                && let Some(spec) = value["spec"].as_object_mut()
            {
                spec.insert(field.to_owned(), fault);
            }
            value
        })
        .boxed()
}

fn env() -> BoxedStrategy<Value> {
    let variable = |name: &'static str| {
        let reference = json!({"secretKeyRef": {"name": "hf", "key": "token"}});
        prop_oneof![
            3 => text(&["info", "debug", ""]).prop_map(move |value| json!({"name": name, "value": value})),
            1 => Just(json!({"name": name, "valueFrom": reference})),
            1 => Just(json!({"name": name})),
        ]
        .boxed()
    };
    some_of(vec![variable("LOG_LEVEL"), variable("TOKEN")])
}

fn resources() -> BoxedStrategy<Value> {
    let amounts = || {
        map(vec![
            ("cpu", 50, one_of(&[json!("1"), json!(1), json!("1000m"), json!("500m")])),
            ("nvidia.com/gpu", 50, one_of(&[json!("1"), json!(1), json!("2")])),
        ])
    };
    map(vec![("limits", 70, amounts()), ("requests", 40, amounts())])
}

fn container(name: &'static str) -> BoxedStrategy<Value> {
    let port = |port: i64| {
        map(vec![
            ("containerPort", 100, Just(json!(port)).boxed()),
            ("protocol", 30, text(&["TCP", "UDP"])),
            ("name", 30, text(&["http", "grpc"])),
        ])
    };
    let args = vec(select(vec!["--model", "x"]), 0..3).prop_map(|args| json!(args)).boxed();
    map(vec![
        ("name", 100, Just(json!(name)).boxed()),
        ("image", 70, text(&["a:1", "a:2"])),
        ("args", 50, args),
        ("env", 40, env()),
        ("ports", 30, some_of(vec![port(80), port(81)])),
        ("resources", 40, resources()),
    ])
}

fn pod() -> BoxedStrategy<Value> {
    let selector = map(vec![("zone", 60, text(&["a", "b"])), ("disk", 40, text(&["ssd"]))]);
    let tolerations = vec(select(vec![json!({"operator": "Exists"}), json!({"key": "gpu"})]), 0..3);
    let spec = map(vec![
        ("containers", 100, some_of(vec![container("main"), container("sidecar")])),
        ("nodeSelector", 30, selector),
        ("tolerations", 30, tolerations.prop_map(|list| json!(list)).boxed()),
        (
            "imagePullSecrets",
            30,
            some_of(vec![Just(json!({"name": "nvcr"})).boxed(), Just(json!({"name": "hub"})).boxed()]),
        ),
        ("terminationGracePeriodSeconds", 20, one_of(&[json!(30), json!(60)])),
    ]);
    map(vec![
        ("metadata", 30, map(vec![("labels", 60, map(vec![("app", 80, text(&["x", "y"]))]))])),
        ("spec", 80, spec),
    ])
}

fn component(name: &'static str) -> BoxedStrategy<Value> {
    map(vec![
        ("name", 100, Just(json!(name)).boxed()),
        ("type", 50, text(&["frontend", "worker", "decode"])),
        ("replicas", 60, one_of(&[json!(0), json!(1), json!(2), json!(5)])),
        ("sharedMemorySize", 25, one_of(&[json!("1Gi"), json!("1024Mi"), json!(1)])),
        ("multinode", 15, map(vec![("nodeCount", 60, one_of(&[json!(2), json!(4)]))])),
        ("scalingAdapter", 15, Just(json!({})).boxed()),
        ("compilationCache", 15, map(vec![("pvcName", 100, text(&["cache"])), ("mountPath", 50, text(&["/a"]))])),
        ("podTemplate", 50, pod()),
    ])
}

fn components() -> BoxedStrategy<Value> {
    some_of(vec![component("frontend"), component("decode"), component("prefill")])
}

fn graph() -> BoxedStrategy<Value> {
    let restart = map(vec![
        ("id", 100, text(&["1", "2"])),
        (
            "strategy",
            50,
            map(vec![
                ("type", 50, text(&["Sequential", "Parallel"])),
                ("order", 50, vec(select(vec!["a", "b"]), 0..3).prop_map(|list| json!(list)).boxed()),
            ]),
        ),
    ]);
    let marks = map(vec![("x", 60, text(&["1", "2"])), ("y", 40, text(&["1"]))]);
    let spec = map(vec![
        ("backendFramework", 50, text(&["vllm", "sglang"])),
        ("components", 90, components()),
        ("env", 30, env()),
        ("labels", 25, marks.clone()),
        ("annotations", 15, marks),
        ("restart", 20, restart),
    ]);
    object(
        spec,
        &[
            ("backendFramework", json!("tgi")),
            ("backendFramework", json!(1)),
            ("backendFramework", Value::Null),
            ("components", Value::Null),
            ("components", json!({})),
            ("components", json!([{"name": "decode"}, {"name": "decode"}])),
            ("components", json!([{"name": "decode", "replica": 1}])),
            ("components", json!([{"name": "decode", "replicas": -1}])),
            ("components", json!([{"name": "decode", "replicas": "1"}])),
            ("components", json!([{"name": "decode", "replicas": null}])),
            ("components", json!([{"name": "-decode"}])),
            ("components", json!([{"name": "decode"}, {"name": "DECODE"}])),
            ("components", json!([{"replicas": 1}])),
            ("components", json!([{"name": "decode", "podTemplate": {"spec": {}}}])),
            ("components", json!([{"name": "decode", "podTemplate": {}}])),
            ("restart", json!({})),
            ("labels", json!({"x": 1})),
            ("labels", json!({"x": null})),
            ("replicas", json!(1)),
        ],
    )
}

fn graph_patch() -> BoxedStrategy<Value> {
    let marks =
        || map(vec![("team", 100, one_of(&[json!("ads"), json!("search"), Value::Null])), ("hand", 30, text(&["x"]))]);
    prop_oneof![
        2 => marks().prop_map(|labels| json!({"metadata": {"labels": labels}})),
        1 => one_of(&[json!("vllm"), json!("trtllm"), json!("tgi"), Value::Null])
            .prop_map(|value| json!({"spec": {"backendFramework": value}})),
        3 => components().prop_map(|list| json!({"spec": {"components": list}})),
        1 => some_of(vec![text(&["example.com/hold"])]).prop_map(|list| json!({"metadata": {"finalizers": list}})),
        1 => Just(json!({"metadata": {"finalizers": null}})),
        1 => env().prop_map(|list| json!({"spec": {"env": list}})),
    ]
    .boxed()
}

fn claim() -> BoxedStrategy<Value> {
    let size =
        || one_of(&[json!("1Gi"), json!("1024Mi"), json!("2Gi"), json!("2048Mi"), json!("1.5Gi"), json!("500Gi")]);
    let resources = map(vec![
        ("requests", 95, map(vec![("storage", 95, size())])),
        ("limits", 10, map(vec![("storage", 90, size())])),
    ]);
    let modes = prop_oneof![
        4 => Just(json!(["ReadWriteMany"])),
        1 => Just(json!(["ReadWriteOnce", "ReadOnlyMany"])),
        1 => Just(json!([])),
    ];
    let spec = map(vec![
        ("accessModes", 95, modes.boxed()),
        ("resources", 95, resources),
        ("storageClassName", 50, text(&["fast", "fast", "slow", ""])),
        ("volumeMode", 15, text(&["Filesystem", "Filesystem", "Block"])),
        ("volumeName", 8, text(&["pv-1"])),
        ("selector", 8, Just(json!({"matchLabels": {"a": "b"}})).boxed()),
    ]);
    object(
        spec,
        &[
            ("accessModes", json!(["Sometimes"])),
            ("accessModes", json!("ReadWriteOnce")),
            ("accessModes", Value::Null),
            ("resources", json!({})),
            ("resources", json!({"requests": {"storage": "much"}})),
            ("resources", json!({"requests": {"storage": "0"}})),
            ("resources", json!({"requests": {"storage": "-1Gi"}})),
            ("resources", json!({"requests": {"storage": 1_073_741_824}})),
            ("volumeMode", json!("Tape")),
            ("storageClass", json!("fast")),
        ],
    )
}

fn claim_patch() -> BoxedStrategy<Value> {
    prop_oneof![
        2 => one_of(&[json!("ads"), json!("x"), Value::Null]).prop_map(|team| json!({"metadata": {"labels": {"team": team}}})),
        2 => text(&["1Gi", "2Gi", "10Gi"])
            .prop_map(|size| json!({"spec": {"resources": {"requests": {"storage": size}}}})),
        1 => text(&["slow", "fast"]).prop_map(|class| json!({"spec": {"storageClassName": class}})),
    ]
    .boxed()
}

fn request() -> BoxedStrategy<Value> {
    let number = || one_of(&[json!(1), json!(1.0), json!(1.5), json!(200)]);
    let free = map(vec![
        ("enabled", 60, one_of(&[json!(true), json!(false)])),
        ("list", 40, vec(number(), 0..3).prop_map(Value::Array).boxed()),
        ("deep", 40, map(vec![("a", 60, number()), ("b", 40, Just(json!({})).boxed())])),
    ]);
    let features =
        map(vec![("planner", 60, free), ("mocker", 30, map(vec![("enabled", 60, Just(json!(true)).boxed())]))]);
    let graph = Just(
        json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "spec": {"x": [1, {"y": 2}]}}),
    );
    let spec = map(vec![
        ("model", 95, text(&["Qwen/Qwen3-0.6B", "other"])),
        ("image", 40, text(&["a:1"])),
        ("backend", 40, text(&["vllm", "auto"])),
        ("autoApply", 20, one_of(&[json!(true), json!(false)])),
        (
            "sla",
            50,
            map(vec![("ttft", 60, number()), ("itl", 60, number()), ("optimizationType", 20, text(&["latency"]))]),
        ),
        ("workload", 40, map(vec![("isl", 60, one_of(&[json!(4000), json!(10)])), ("concurrency", 30, number())])),
        ("modelCache", 30, map(vec![("pvcName", 70, text(&["cache"]))])),
        ("features", 40, features),
        ("overrides", 20, map(vec![("dgd", 80, graph.boxed())])),
    ]);
    object(
        spec,
        &[
            ("model", json!("")),
            ("model", Value::Null),
            ("backend", json!("tgi")),
            ("sla", json!({"ttft": "fast"})),
            ("sla", json!({"ttft": -1})),
            ("workload", json!({"isl": 1.5})),
            ("autoApply", Value::Null),
            ("features", json!({"planner": null})),
            ("nothing", json!({})),
        ],
    )
}

fn request_patch() -> BoxedStrategy<Value> {
    prop_oneof![
        text(&["vllm", "sglang"]).prop_map(|backend| json!({"spec": {"backend": backend}})),
        one_of(&[json!(2), json!(2.5), Value::Null]).prop_map(|ttft| json!({"spec": {"sla": {"ttft": ttft}}})),
        one_of(&[json!({"b": 1}), Value::Null])
            .prop_map(|deep| json!({"spec": {"features": {"planner": {"deep": deep}}}})),
    ]
    .boxed()
}

fn record() -> BoxedStrategy<Value> {
    let spec = map(vec![
        ("repository", 100, text(&["shop", "other"])),
        ("environment", 100, text(&["prod"])),
        ("source", 95, text(&["models/a/model.yaml", "models/b/model.yaml"])),
        ("folder", 20, text(&["/a"])),
    ]);
    object(spec, &[("nothing", json!(1)), ("source", Value::Null)])
}

fn record_patch() -> BoxedStrategy<Value> {
    text(&["models/a/model.yaml", "models/c/model.yaml"]).prop_map(|source| json!({"spec": {"source": source}})).boxed()
}

/// What the status subresource is given. A claim's is the volume controller's, which would write it too.
fn status(subject: Subject) -> Option<BoxedStrategy<Value>> {
    let condition = |kind: &'static str| {
        map(vec![
            ("type", 100, Just(json!(kind)).boxed()),
            ("status", 95, text(&["True", "False"])),
            ("reason", 95, text(&["Well", "Ill"])),
            ("message", 95, text(&["", "it is"])),
            ("lastTransitionTime", 95, text(&["2026-01-01T00:00:00Z"])),
        ])
    };
    let conditions = some_of(vec![condition("Ready"), condition("Scaled")]);
    match subject {
        Subject::Graph => Some(map(vec![
            ("state", 60, text(&["pending", "successful", "failed"])),
            ("observedGeneration", 50, one_of(&[json!(1), json!(2)])),
            ("conditions", 50, conditions),
        ])),
        Subject::Request => Some(map(vec![("phase", 60, text(&["Pending", "Ready"])), ("conditions", 50, conditions)])),
        Subject::Record => {
            let item = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n", "name": "x", "digest": "d", "prune": false});
            let list = vec(Just(item), 0..3).prop_map(Value::Array).boxed();
            Some(map(vec![
                ("revision", 90, text(&["r1", "r2"])),
                ("inventory", 90, list),
                ("history", 90, Just(json!([])).boxed()),
            ]))
        }
        Subject::Claim => None,
    }
}
