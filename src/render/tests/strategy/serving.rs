//! Models by component.

use super::leaves::{env, image, json_map, resources, rollout, scalar, scaling, size, template};
use crate::intent::model::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

prop_compose! {
    fn worker()(
        (replicas, scaling, rollout) in (option::of(0_u32..9), option::of(scaling()), option::of(rollout())),
        (tensor_parallel, pipeline_parallel, data_parallel, expert_parallel) in (size(), size(), size(), size()),
        (gpus, nodes) in (size(), size()),
        (dtype, max_sequences, max_length) in (option::of("[a-z0-9]{1,8}"), option::of(1_u32..9), option::of(1_u32..9)),
        (memory_fraction, block_size) in (option::of((1_u8..=100).prop_map(|share| f64::from(share) / 100.0)), size()),
        (shared_memory, image) in (option::of(scalar("[0-9]Gi|0")), option::of(image())),
        (args, env) in (vec("\\PC{0,8}", 0..3), env()),
        (resources, engine_options, template) in
            (option::of(resources()), option::of(json_map()), option::of(template())),
    ) -> Worker {
        Worker {
            replicas, gpus, nodes, tensor_parallel, pipeline_parallel, data_parallel, expert_parallel, dtype,
            max_sequences, max_length, memory_fraction, block_size, shared_memory, image, resources, args,
            engine_options, env, scaling, rollout, template,
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

fn frontend() -> BoxedStrategy<Frontend> {
    (
        (option::of(0_u32..4), option::of(router()), option::of(image())),
        (option::of(resources()), vec("-[a-z]{1,4}", 0..2), env(), option::of(template())),
    )
        .prop_map(|((replicas, router, image), (resources, args, env, template))| Frontend {
            replicas,
            router,
            image,
            resources,
            args,
            env,
            template,
        })
        .boxed()
}

/// One worker, or both halves.
pub(super) fn serving() -> BoxedStrategy<Serving> {
    prop_oneof![
        (option::of(frontend()), worker().boxed()).prop_map(|(frontend, worker)| Serving {
            frontend,
            worker: Some(worker),
            ..Serving::default()
        }),
        (option::of(frontend()), worker().boxed(), worker().boxed()).prop_map(|(frontend, prefill, decode)| {
            Serving { frontend, prefill: Some(prefill), decode: Some(decode), ..Serving::default() }
        }),
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
        (option::of(scaling()), option::of(rollout()), option::of(template())),
    )
        .prop_map(
            |(
                (component_type, replicas, gpus, nodes),
                (config, shared_memory, image, resources),
                (command, args, env),
                (scaling, rollout, template),
            )| Component {
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
                template,
            },
        )
        .boxed()
}
