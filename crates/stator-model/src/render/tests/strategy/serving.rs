//! Models by component.

use super::leaves::{env, image, json_map, pod_settings, resources, rollout, scalar, scaling, size, template};
use super::secrets;
use crate::intent::model::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

prop_compose! {
    fn worker()(
        (replicas, scaling, rollout) in (option::of(0_u32..9), option::of(scaling()), option::of(rollout())),
        (tensor_parallel, pipeline_parallel, data_parallel, expert_parallel) in (size(), size(), size(), size()),
        (gpus, nodes) in (size(), size()),
        (dtype, max_sequences, max_length) in (option::of("[a-z0-9]{1,8}"), option::of(1_u32..9), option::of(1_u32..9)),
        (memory_fraction, block_size) in (option::of((1_u8..=100).prop_map(|share| f64::from(share) / 100.0)), size()),
        (shared_memory, image) in (option::of(scalar("[0-9]Gi|0")), option::of(image())),
        (args, env) in (vec("\\PC{0,8}", 0..3), env()),
        (command, working_dir, own_secrets) in (option::of(vec("[a-z]{1,4}", 0..2)), option::of("/[a-z]{1,4}"), option::of(secrets())),
        probes in option::of(probes()),
        component_type in option::of(prop_oneof![Just(ComponentType::Worker), Just(ComponentType::Decode)]),
        (resources, engine_options, template, pod) in
            (option::of(resources()), option::of(json_map()), option::of(template()), option::of(pod_settings())),
    ) -> Worker {
        Worker {
            replicas, gpus, nodes, tensor_parallel, pipeline_parallel, data_parallel, expert_parallel, dtype,
            max_sequences, max_length, memory_fraction, block_size, shared_memory, image, resources, args,
            engine_options, env, scaling, rollout, pod, template, command, working_dir, component_type, probes,
            secrets: own_secrets,
            name: None,
        }
    }
}

/// How requests are spread.
pub(super) fn router() -> impl Strategy<Value = RouterMode> {
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

fn probes() -> BoxedStrategy<Probes> {
    let probe = || {
        let probe = (1_u32..9000, 1_u32..60).prop_map(|(port, seconds)| {
            let probe = json!({"httpGet": {"path": "/live", "port": port}, "periodSeconds": seconds});
            probe.as_object().cloned().unwrap_or_default()
        });
        option::of(probe)
    };
    (probe(), probe(), probe())
        .prop_map(|(startup, liveness, readiness)| Probes { startup, liveness, readiness })
        .boxed()
}

fn frontend() -> BoxedStrategy<Frontend> {
    (
        (option::of(0_u32..4), option::of(router()), option::of(image())),
        (option::of(resources()), vec("-[a-z]{1,4}", 0..2), env(), option::of(template()), option::of(pod_settings())),
        (
            option::of(vec("[a-z]{1,4}", 0..2)),
            option::of("/[a-z]{1,4}"),
            option::of(secrets()),
            option::of(scalar("Web[a-z]")),
            option::of(probes()),
        ),
    )
        .prop_map(
            |(
                (replicas, router, image),
                (resources, args, env, template, pod),
                (command, working_dir, secrets, name, probes),
            )| {
                Frontend {
                    command,
                    working_dir,
                    secrets,
                    name,
                    probes,
                    replicas,
                    router,
                    image,
                    resources,
                    args,
                    env,
                    pod,
                    template,
                }
            },
        )
        .boxed()
}

/// One worker, or both halves.
pub(super) fn serving() -> BoxedStrategy<Serving> {
    prop_oneof![
        (option::of(frontend()), worker().boxed(), option::of(scalar("Own[a-z]")), option::of(any::<bool>())).prop_map(
            |(frontend, worker, name, headless)| Serving {
                frontend,
                worker: Some(Worker { name, ..worker }),
                headless,
                ..Serving::default()
            }
        ),
        (option::of(frontend()), worker().boxed(), worker().boxed(), option::of(scalar("Pre[a-z]"))).prop_map(
            |(frontend, prefill, decode, name)| Serving {
                frontend,
                prefill: Some(Worker { name, ..prefill }),
                decode: Some(decode),
                ..Serving::default()
            }
        ),
    ]
    .boxed()
}

/// A further component.
pub(super) fn component() -> BoxedStrategy<Component> {
    let component_type = option::of(prop_oneof![
        Just(ComponentType::Planner),
        Just(ComponentType::Epp),
        Just(ComponentType::Frontend),
        Just(ComponentType::Worker),
        Just(ComponentType::Prefill),
        Just(ComponentType::Decode),
    ]);
    (
        (component_type, option::of(0_u32..4), size(), size()),
        (option::of(json_map()), option::of(scalar("[1-9]Gi")), option::of(image()), option::of(resources())),
        (vec("[a-z]{1,4}", 0..2), vec("\\PC{0,6}", 0..2), env()),
        (option::of(scaling()), option::of(rollout()), option::of(template()), option::of(pod_settings())),
        (option::of("/[a-z]{1,4}"), option::of(secrets()), option::of(probes())),
    )
        .prop_map(
            |(
                (component_type, replicas, gpus, nodes),
                (config, shared_memory, image, resources),
                (command, args, env),
                (scaling, rollout, template, pod),
                (working_dir, secrets, probes),
            )| Component {
                probes,
                working_dir,
                secrets,
                component_type,
                replicas,
                gpus,
                nodes,
                config,
                shared_memory,
                image,
                resources,
                command,
                args,
                env,
                scaling,
                rollout,
                pod,
                template,
            },
        )
        .boxed()
}
