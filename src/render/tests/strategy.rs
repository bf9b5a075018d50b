//! Any valid model.

use crate::intent::model::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// Text that a scalar type accepts, as that type.
fn scalar<T: FromStr<Err = String> + std::fmt::Debug>(pattern: &'static str) -> impl Strategy<Value = T> {
    pattern.prop_map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// A JSON map without nulls, as `template` and `engineOptions` hold them.
fn json_map() -> BoxedStrategy<Map<String, Value>> {
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

/// A partial pod template with lists that merge by key.
fn template() -> impl Strategy<Value = Map<String, Value>> {
    prop_oneof![
        Just(json!({"spec": {"priorityClassName": "high", "tolerations": [{"operator": "Exists"}]}})),
        Just(json!({"spec": {"containers": [
            {"name": "main", "workingDir": "/srv", "env": [{"name": "A", "value": "z"}]},
            {"name": "side", "image": "side:1.0.0"}
        ]}})),
        Just(json!({"metadata": {"annotations": {"a/b": "c"}}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})),
    ]
    .prop_map(|value| value.as_object().cloned().unwrap_or_default())
}

fn env_value() -> impl Strategy<Value = EnvValue> {
    prop_oneof![
        "\\PC{0,12}".prop_map(EnvValue::Literal),
        scalar("[a-z]{1,8}").prop_map(|secret| EnvValue::Secret(EnvFromSecret { secret, key: "key".into() })),
        scalar("[a-z]{1,8}")
            .prop_map(|config_map| EnvValue::ConfigMap(EnvFromConfigMap { config_map, key: "key".into() })),
    ]
}

fn size() -> impl Strategy<Value = Option<u32>> {
    option::of(prop_oneof![Just(1_u32), Just(2), Just(4), Just(8), Just(16)])
}

fn scaling() -> impl Strategy<Value = Scaling> {
    prop_oneof![
        Just(Scaling::External(ExternalScaling::External)),
        (0_u32..3, 3_u32..9).prop_map(|(min, max)| Scaling::Bounds(ScalingBounds { min, max })),
    ]
}

fn rollout() -> impl Strategy<Value = Rollout> {
    let amount = || {
        option::of(prop_oneof![
            (0_u32..4).prop_map(CountOrPercent::Count),
            (0_u32..=100).prop_map(CountOrPercent::Percent)
        ])
    };
    (option::of(prop_oneof![Just(RolloutStrategy::Rolling), Just(RolloutStrategy::Recreate)]), amount(), amount())
        .prop_map(|(strategy, max_surge, max_unavailable)| Rollout { strategy, max_surge, max_unavailable })
}

fn resources() -> impl Strategy<Value = Resources> {
    let quantities =
        || btree_map(prop_oneof![Just("cpu".to_owned()), Just("memory".to_owned())], scalar("[1-9]Gi"), 0..2);
    (quantities(), quantities()).prop_map(|(requests, limits)| Resources { requests, limits })
}

prop_compose! {
    fn worker()(
        (replicas, scaling, rollout) in (option::of(0_u32..9), option::of(scaling()), option::of(rollout())),
        (tensor_parallel, pipeline_parallel, data_parallel, expert_parallel) in (size(), size(), size(), size()),
        (gpus, nodes) in (size(), size()),
        (dtype, max_sequences, max_length) in (option::of("[a-z0-9]{1,8}"), option::of(1_u32..9), option::of(1_u32..9)),
        (memory_fraction, block_size) in (option::of((1_u8..=100).prop_map(|share| f64::from(share) / 100.0)), size()),
        (shared_memory, image) in (option::of(scalar("[0-9]Gi")), option::of(scalar("[a-z]{1,8}:1\\.[0-9]\\.0"))),
        (args, env) in (vec("\\PC{0,8}", 0..3), btree_map(scalar("[A-Z]{1,4}"), env_value().boxed(), 0..3)),
        (resources, engine_options, template) in
            (option::of(resources().boxed()), option::of(json_map()), option::of(template().boxed())),
    ) -> Worker {
        Worker {
            replicas, gpus, nodes, tensor_parallel, pipeline_parallel, data_parallel, expert_parallel, dtype,
            max_sequences, max_length, memory_fraction, block_size, shared_memory, image, resources, args,
            engine_options, env, scaling, rollout, template,
        }
    }
}

fn router() -> impl Strategy<Value = RouterMode> {
    prop_oneof![
        Just(RouterMode::RoundRobin),
        Just(RouterMode::Random),
        Just(RouterMode::PowerOfTwo),
        Just(RouterMode::Kv),
        Just(RouterMode::Direct),
        Just(RouterMode::LeastLoaded),
        Just(RouterMode::DeviceAwareWeighted),
    ]
}

fn frontend() -> impl Strategy<Value = Frontend> {
    (option::of(1_u32..4), option::of(router()), vec("-[a-z]{1,4}", 0..2), option::of(template())).prop_map(
        |(replicas, router, args, template)| Frontend { replicas, router, args, template, ..Frontend::default() },
    )
}

fn serving() -> impl Strategy<Value = Serving> {
    prop_oneof![
        (option::of(frontend().boxed()), worker()).prop_map(|(frontend, worker)| Serving {
            frontend,
            worker: Some(worker),
            ..Serving::default()
        }),
        (option::of(frontend().boxed()), worker().boxed(), worker().boxed()).prop_map(|(frontend, prefill, decode)| {
            Serving { frontend, prefill: Some(prefill), decode: Some(decode), ..Serving::default() }
        }),
    ]
}

fn sla() -> impl Strategy<Value = Sla> {
    let millis = || option::of((1_u64..10_000).prop_map(crate::intent::scalar::Millis));
    (
        (millis(), millis(), millis()),
        option::of(prop_oneof![Just(Optimize::Latency), Just(Optimize::Throughput)]),
        option::of(prop_oneof![Just(Search::Rapid), Just(Search::Thorough)]),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(json_map()),
        option::of((size(), size()).prop_map(|(isl, osl)| Workload { isl, osl, ..Workload::default() })),
        (option::of(router()), option::of(sla_worker())),
    )
        .prop_map(
            |((ttft, itl, e2e), optimize, search, auto_apply, mocker, planner, workload, (router, worker))| Sla {
                ttft,
                itl,
                e2e,
                optimize,
                workload,
                search,
                auto_apply,
                planner,
                router,
                worker,
                mocker,
            },
        )
}

fn sla_worker() -> impl Strategy<Value = SlaWorker> {
    (size(), size(), size(), size(), vec("-[a-z]{1,4}", 0..2)).prop_map(
        |(tensor_parallel, pipeline_parallel, max_sequences, max_length, args)| SlaWorker {
            tensor_parallel,
            pipeline_parallel,
            dtype: None,
            max_sequences,
            max_length,
            args,
        },
    )
}

fn component() -> impl Strategy<Value = Component> {
    let component_type = option::of(prop_oneof![
        Just(ComponentType::Planner),
        Just(ComponentType::Epp),
        Just(ComponentType::Frontend),
        Just(ComponentType::Decode),
    ]);
    (
        component_type,
        option::of(json_map()),
        size(),
        vec("[a-z]{1,4}", 0..2),
        option::of(scaling()),
        option::of(template()),
    )
        .prop_map(|(component_type, config, gpus, command, scaling, template)| Component {
            component_type,
            config,
            gpus,
            command,
            scaling,
            template,
            ..Component::default()
        })
}

fn hardware() -> impl Strategy<Value = Hardware> {
    let gpu = prop_oneof![Just(GpuSku::H200Sxm), Just(GpuSku::A100Sxm), Just(GpuSku::Mi300), Just(GpuSku::L4)];
    (option::of(gpu), size(), option::of(btree_map("[a-z]{1,6}", "[a-z]{1,6}", 1..3))).prop_map(
        |(gpu, gpus_per_node, node_selector)| Hardware { gpu, gpus_per_node, node_selector, ..Hardware::default() },
    )
}

fn cache() -> impl Strategy<Value = Cache> {
    (scalar("[a-z]{1,8}"), option::of(scalar("[1-9]Gi")), option::of("/[a-z]{1,8}"), option::of(any::<bool>()))
        .prop_map(|(claim, size, mount_path, prune)| Cache {
            claim,
            size,
            mount_path,
            prune,
            storage_class: None,
            access_mode: None,
            model_path: None,
        })
}

fn adapter() -> impl Strategy<Value = Adapter> {
    (
        scalar("[a-z]([-a-z0-9]{0,20}[a-z0-9])?"),
        scalar("(s3|hf)://[a-z/]{1,9}"),
        option::of("[a-z]{1,6}"),
        option::of(1_u32..256),
    )
        .prop_map(|(name, source, served_name, max_rank)| Adapter { name, source, served_name, max_rank })
}

fn secrets() -> impl Strategy<Value = Secrets> {
    (option::of(scalar("[a-z]{1,8}")), vec(scalar("[a-z]{1,8}"), 0..2), vec(scalar("[a-z]{1,8}"), 0..2))
        .prop_map(|(hugging_face, image_pull, env)| Secrets { hugging_face, image_pull, env })
}

/// How a model is run: `serving` with a named engine, or `sla` with any that can be profiled.
fn shape() -> impl Strategy<Value = (Engine, Option<Serving>, Option<Sla>)> {
    let served = prop_oneof![Just(Engine::Vllm), Just(Engine::Sglang), Just(Engine::Trtllm), Just(Engine::Mocker)];
    let profiled = prop_oneof![Just(Engine::Vllm), Just(Engine::Sglang), Just(Engine::Trtllm), Just(Engine::Auto)];
    prop_oneof![
        3 => (served, serving().boxed()).prop_map(|(engine, serving)| (engine, Some(serving), None)),
        1 => (profiled, sla().boxed()).prop_map(|(engine, sla)| (engine, None, Some(sla))),
    ]
}

prop_compose! {
    /// Any model that the intent's own rules let through.
    pub(crate) fn model()(
        (engine, serving, sla) in shape().boxed(),
        name in scalar("[a-z]([-a-z0-9]{0,40}[a-z0-9])?"),
        labels in btree_map("[a-z]{1,6}", scalar("[a-z]{0,6}"), 0..2),
        annotations in btree_map("example\\.com/[a-z]{1,6}", "\\PC{0,6}", 0..2),
        (model, served_name) in ("[A-Za-z0-9./-]{1,20}", option::of("[A-Za-z0-9./-]{1,12}")),
        (hardware, cache, secrets) in (option::of(hardware().boxed()), option::of(cache().boxed()), option::of(secrets().boxed())),
        (adapters, env) in (vec(adapter().boxed(), 0..3), btree_map(scalar("[A-Z]{1,4}"), env_value().boxed(), 0..3)),
        (rollout, restart) in (option::of(rollout()), option::of("[a-z0-9]{1,6}")),
        components in btree_map(scalar("[a-z]{1,6}"), component().boxed(), 0..3),
    ) -> Model {
        Model {
            api_version: ApiVersion::default(),
            kind: ModelKind::default(),
            metadata: Metadata { name, labels, annotations },
            spec: ModelSpec {
                model, served_name, engine, runtime: "1.2.0".parse().ok(), image: None, hardware, serving, sla,
                adapters, cache, secrets, env, rollout, restart, components, take_over: vec![], overrides: vec![],
            },
        }
    }
}
