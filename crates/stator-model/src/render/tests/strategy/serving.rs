//! Models by component.

use super::leaves::{env, image, json_map, pod_settings, resources, rollout, scalar, scaling, size, template};
use super::secrets;
use crate::intent::model::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

prop_compose! {
    fn worker()(
        (replicas, scaling, rollout) in (option::of(0_u32..9), option::of(scaling()), option::of(rollout())),
        (tensor_parallel, pipeline_parallel, data_parallel, expert_parallel) in (size(), size(), size(), size()),
        (gpus, nodes) in (size(), size()),
        (dtype, max_sequences, max_length) in (option::of("[a-z0-9]{1,8}"), option::of(1_u32..9), option::of(1_u32..9)),
        (memory_fraction, block_size) in (option::of((1_u8..=100).prop_map(|share| f64::from(share) / 100.0)), size()),
        (shared_memory, image, runtime_version, min_available) in (option::of(scalar("[0-9]Gi|0")), option::of(image()), option::of(scalar("1\\.[0-9]\\.[0-9]")), option::of(Just(1))),
        (args, env) in (vec("\\PC{0,8}", 0..3), env()),
        ((command, shell, module), working_dir, own_secrets) in (program(), option::of("/[a-z]{1,4}"), option::of(secrets())),
        compilation_cache in option::of(compilation_cache()),
        (eager, trust_remote_code) in (option::of(any::<bool>()), option::of(any::<bool>())),
        (tool_call_parser, reasoning_parser, engine_config) in
            (option::of("[a-z0-9_]{1,8}"), option::of("[a-z0-9_]{1,8}"), option::of("/[a-z]{1,8}")),
        probes in option::of(probes()),
        component_type in option::of(prop_oneof![Just(ComponentType::Worker), Just(ComponentType::Decode)]),
        (resources, engine_options, template, pod, flags) in
            (option::of(resources()), option::of(json_map()), option::of(template()), option::of(pod_settings()), flags()),
    ) -> Worker {
        Worker {
            replicas, gpus, nodes, tensor_parallel, pipeline_parallel, data_parallel, expert_parallel, dtype,
            max_sequences, max_length, memory_fraction, block_size, eager, trust_remote_code, tool_call_parser,
            reasoning_parser, engine_config, flags, shared_memory, image, runtime_version, min_available, resources, args: with_script(args, &shell), shell, module, compilation_cache, engine_options, env, scaling, rollout, pod: pod.map(Box::new), template, command, working_dir, component_type, probes,
            secrets: own_secrets,
            name: None,
        }
    }
}

/// Flags that every program takes, whatever they are called there.
pub fn flags() -> BoxedStrategy<Map<String, Value>> {
    let value =
        prop_oneof![Just(json!(true)), (1..9_i32).prop_map(Value::from), Just(json!("a b")), Just(json!(["a", "b"]))];
    btree_map("own-[a-z]{1,5}", value, 0..3).prop_map(|flags| flags.into_iter().collect()).boxed()
}

/// `command`, `shell` and `module`.
type Program = (Option<Vec<String>>, Option<String>, Option<String>);

/// A program in one of its three forms, or none.
fn program() -> BoxedStrategy<Program> {
    prop_oneof![
        Just((None, None, None)),
        vec("[a-z]{1,4}", 0..2).prop_map(|command| (Some(command), None, None)),
        "/bin/[a-z]{1,3}sh".prop_map(|shell| (None, Some(shell), None)),
        "[a-z]{1,3}\\.[a-z]{1,3}".prop_map(|module| (None, None, Some(module))),
    ]
    .boxed()
}

/// A shell has something to run.
fn with_script(mut args: Vec<String>, shell: &Option<String>) -> Vec<String> {
    if shell.is_some() && args.is_empty() {
        args.push("true".to_owned());
    }
    args
}

fn compilation_cache() -> impl Strategy<Value = CompilationCache> {
    (scalar("[a-z]{1,5}"), option::of("/[a-z]{1,4}"))
        .prop_map(|(claim, mount_path)| CompilationCache { claim, mount_path })
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
            program(),
            option::of("/[a-z]{1,4}"),
            option::of(secrets()),
            option::of(scalar("Web[a-z]")),
            option::of(probes()),
        ),
        (flags(), option::of(scalar("[1-9]Gi"))),
    )
        .prop_map(
            |(
                (replicas, router, image),
                (resources, args, env, template, pod),
                ((command, shell, module), working_dir, secrets, name, probes),
                (flags, shared_memory),
            )| {
                Frontend {
                    runtime_version: None,
                    min_available: replicas.map(|_| 1),
                    flags,
                    shared_memory,
                    command,
                    args: with_script(args, &shell),
                    shell,
                    module,
                    working_dir,
                    secrets,
                    name,
                    probes,
                    replicas,
                    router,
                    image,
                    resources,
                    env,
                    pod: pod.map(Box::new),
                    template,
                }
            },
        )
        .boxed()
}

/// One worker, or both halves.
pub(super) fn serving() -> BoxedStrategy<Serving> {
    prop_oneof![
        (
            option::of(frontend().prop_map(Box::new)),
            worker().boxed(),
            option::of(scalar("Own[a-z]")),
            option::of(any::<bool>())
        )
            .prop_map(|(frontend, worker, name, headless)| Serving {
                frontend,
                worker: Some(Box::new(Worker { name, ..worker })),
                headless,
                ..Serving::default()
            }),
        (option::of(frontend().prop_map(Box::new)), worker().boxed(), worker().boxed(), option::of(scalar("Pre[a-z]")))
            .prop_map(|(frontend, prefill, decode, name)| Serving {
                frontend,
                prefill: Some(Box::new(Worker { name, ..prefill })),
                decode: Some(Box::new(decode)),
                ..Serving::default()
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
        (program(), vec("\\PC{0,6}", 0..2), env(), option::of(compilation_cache())),
        (option::of(scaling()), option::of(rollout()), option::of(template()), option::of(pod_settings())),
        (option::of("/[a-z]{1,4}"), option::of(secrets()), option::of(probes())),
    )
        .prop_map(
            |(
                (component_type, replicas, gpus, nodes),
                (config, shared_memory, image, resources),
                ((command, shell, module), args, env, compilation_cache),
                (scaling, rollout, template, pod),
                (working_dir, secrets, probes),
            )| Component {
                runtime_version: None,
                min_available: replicas.map(|_| 1),
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
                command: command.unwrap_or_default(),
                args: with_script(args, &shell),
                shell,
                module,
                compilation_cache,
                env,
                scaling,
                rollout,
                pod: pod.map(Box::new),
                template,
            },
        )
        .boxed()
}
