//! Workers: GPUs and parallel sizes, scaling, rollouts, arguments.

use super::{ModelValidator, further_components, serving_workers};
use crate::intent::model::{
    ComponentType, CountOrPercent, Engine, ModelRollout, ReplicaSize, Rollout, RolloutStrategy, Scaling, ScalingBounds,
    Worker,
};
use crate::intent::rules;
use crate::intent::scalar::Quantity;
use serde_json::Value;
use stator_core::object::Quantity as Amount;

pub(super) fn validate_workers(judge: &mut ModelValidator<'_>) {
    let model = judge.model;
    let hardware = model.spec.hardware.as_ref();
    for (_, path, worker) in serving_workers(model.spec.serving.as_ref()) {
        check_parallel_sizes(judge, &path, worker);
        check_node_spread(judge, &path, ReplicaSize::for_worker(worker, model.spec.engine, hardware), worker.nodes);
        check_scaling(judge, &path, worker.scaling, worker.replicas);
        check_least_available(judge, &path, worker.scaling, worker.min_available);
        check_rollout(judge, &format!("{path}.rollout"), worker.rollout.as_ref());
        check_args(judge, &path, &worker.args);
        check_shared_memory(judge, &path, worker.shared_memory.as_ref());
        let given = [worker.command.is_some(), worker.shell.is_some(), worker.module.is_some()];
        check_program(judge, &path, given, &worker.args);
        if model.spec.engine == Engine::Mocker && worker.gpus.is_some_and(|gpus| gpus > 0) {
            judge.warning(
                rules::MODEL_GPUS,
                &format!("{path}.gpus"),
                "the mocker runs on CPU; its GPUs would be idle",
                "Remove `gpus`.",
            );
        }
    }
    for (_, path, component) in further_components(model) {
        check_node_spread(judge, &path, ReplicaSize::for_component(component, hardware), component.nodes);
        check_scaling(judge, &path, component.scaling, component.replicas);
        check_least_available(judge, &path, component.scaling, component.min_available);
        check_rollout(judge, &format!("{path}.rollout"), component.rollout.as_ref());
        check_args(judge, &path, &component.args);
        check_shared_memory(judge, &path, component.shared_memory.as_ref());
        let given = [!component.command.is_empty(), component.shell.is_some(), component.module.is_some()];
        check_program(judge, &path, given, &component.args);
    }
    if let Some(frontend) = model.spec.serving.as_ref().and_then(|serving| serving.frontend.as_ref()) {
        let given = [frontend.command.is_some(), frontend.shell.is_some(), frontend.module.is_some()];
        check_program(judge, "spec.serving.frontend", given, &frontend.args);
        check_shared_memory(judge, "spec.serving.frontend", frontend.shared_memory.as_ref());
    }
    check_rollout(judge, "spec.rollout", model.spec.rollout.as_ref().map(ModelRollout::pods).as_ref());
    check_planner_floor(judge);
}

/// No program that shares memory at all gets by with less: a smaller size lacks its unit.
const LEAST_SHARED_MEMORY: &str = "1Mi";

fn check_shared_memory(judge: &mut ModelValidator<'_>, path: &str, size: Option<&Quantity>) {
    let Some(size) = size else { return };
    let amount = Amount::parse(size.as_str());
    let is_none = amount == Amount::parse("0");
    if !is_none && amount < Amount::parse(LEAST_SHARED_MEMORY) {
        judge.error(
            rules::MODEL_MEMORY,
            &format!("{path}.sharedMemory"),
            format!("`{size}` is less than {LEAST_SHARED_MEMORY}, too little for any program"),
            format!(
                "Write a size with its unit, such as `80Gi`; or `\"0\"` for no shared memory. `{size}` is in bytes."
            ),
        );
    }
}

/// Flags of the parallel sizes, in every engine's spelling. The operator reads them from the arguments of a worker on
/// several nodes, flag and value as separate items.
const PARALLEL_FLAGS: [&str; 10] = [
    "--tensor-parallel-size",
    "--tp-size",
    "--tp",
    "--pipeline-parallel-size",
    "--pp-size",
    "--pp",
    "--data-parallel-size",
    "--dp-size",
    "--dp",
    "--ep-size",
];

/// What a program may be said by, in this order.
const PROGRAM_FIELDS: [&str; 3] = ["command", "shell", "module"];

/// A program is said once, and a shell has a script.
fn check_program(judge: &mut ModelValidator<'_>, path: &str, given: [bool; 3], args: &[String]) {
    let fields: Vec<&str> =
        PROGRAM_FIELDS.into_iter().zip(given).filter_map(|(field, is_given)| is_given.then_some(field)).collect();
    if let [first, .., last] = fields.as_slice() {
        judge.error(
            rules::MODEL_PROGRAM,
            &format!("{path}.{last}"),
            format!("`{first}` and `{last}` both set the program"),
            format!(
                "Keep one of them; `unset: [{}.{first}]` removes a value of a weaker layer.",
                path.trim_start_matches("spec.")
            ),
        );
    }
    let [_, has_shell, _] = given;
    if has_shell && args.is_empty() {
        judge.error(
            rules::MODEL_PROGRAM,
            &format!("{path}.shell"),
            "the shell has no script",
            "Write the script as the first of `args`, or remove `shell`.",
        );
    }
}

fn flag_name(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(flag, _)| flag)
}

fn check_args(judge: &mut ModelValidator<'_>, path: &str, args: &[String]) {
    for (index, argument) in args.iter().enumerate() {
        if let Some((flag, value)) = argument.split_once('=')
            && PARALLEL_FLAGS.contains(&flag)
        {
            judge.warning(
                rules::MODEL_ARGS,
                &format!("{path}.args[{index}]"),
                format!("`{argument}` is one item; Dynamo's operator reads flag and value as two"),
                format!("Write two items: `{flag}`, `\"{value}\"`; or use the field for it, such as `tensorParallel`."),
            );
        }
    }
}

fn check_parallel_sizes(judge: &mut ModelValidator<'_>, path: &str, worker: &Worker) {
    // Sizes given as raw arguments are the writer's own business.
    if worker.args.iter().any(|argument| PARALLEL_FLAGS.contains(&flag_name(argument))) {
        return;
    }
    let given = [worker.tensor_parallel, worker.pipeline_parallel, worker.data_parallel];
    if given.iter().all(Option::is_none) {
        return;
    }
    let all = worker.parallel_size(judge.model.spec.engine);
    // Data parallel attention shares the tensor parallel GPUs, and SGLang knows both kinds: either count is right.
    let data = worker.data_parallel.unwrap_or(1).max(1);
    let right = [all, all.saturating_mul(data), all / data];
    if let Some(gpus) = worker.gpus
        && !right.contains(&gpus)
    {
        let sizes: Vec<String> = [
            ("tensorParallel", worker.tensor_parallel),
            ("pipelineParallel", worker.pipeline_parallel),
            ("dataParallel", worker.data_parallel),
        ]
        .into_iter()
        .filter_map(|(name, size)| size.map(|size| format!("{name} {size}")))
        .collect();
        judge.error(
            rules::MODEL_GPUS,
            &format!("{path}.gpus"),
            format!("{gpus} GPUs, but {} need {all}", sizes.join(" × ")),
            format!("Set `gpus: {all}`, remove `gpus`, or change the parallel sizes."),
        );
    }
    if let Some(experts) = worker.expert_parallel
        && !all.is_multiple_of(experts.max(1))
    {
        judge.error(
            rules::MODEL_GPUS,
            &format!("{path}.expertParallel"),
            format!("expertParallel {experts} does not divide the {all} GPUs of the other parallel sizes"),
            format!("Choose a divisor of {all}."),
        );
    }
}

fn check_node_spread(judge: &mut ModelValidator<'_>, path: &str, replica: ReplicaSize, written: Option<u32>) {
    let ReplicaSize { gpus, nodes } = replica;
    let per_node = judge.model.spec.hardware.as_ref().and_then(|hardware| hardware.gpus_per_node);
    let place = format!("{path}.{}", if written.is_some() { "nodes" } else { "gpus" });
    if !replica.is_even() {
        judge.error(
            rules::MODEL_GPUS,
            &place,
            format!("{gpus} GPUs cannot be spread evenly over {nodes} nodes"),
            format!("Every node of a replica has the same number of GPUs: choose a multiple of {nodes}."),
        );
    } else if let Some(per_node) = per_node.filter(|per_node| replica.gpus_per_pod() > *per_node) {
        judge.error(
            rules::MODEL_GPUS,
            &place,
            format!("{gpus} GPUs on {nodes} nodes are {} a node; a node has {per_node}", replica.gpus_per_pod()),
            format!("Use at least {} nodes, or correct `hardware.gpusPerNode`.", gpus.div_ceil(per_node.max(1))),
        );
    }
}

fn check_scaling(judge: &mut ModelValidator<'_>, path: &str, scaling: Option<Scaling>, replicas: Option<u32>) {
    let Some(Scaling::Bounds(ScalingBounds { min, max })) = scaling else { return };
    if min > max {
        judge.error(
            rules::MODEL_SCALING,
            &format!("{path}.scaling.min"),
            format!("min {min} is above max {max}"),
            "Swap them, or correct one.",
        );
    } else if let Some(replicas) = replicas.filter(|replicas| !(min..=max).contains(replicas)) {
        judge.warning(
            rules::MODEL_SCALING,
            &format!("{path}.replicas"),
            format!("{replicas} replicas to start with are outside {min} to {max}"),
            "Start within the bounds, or leave `replicas` out.",
        );
    }
}

/// Whoever scales, Dynamo takes no count between zero and the least that serves.
fn check_least_available(judge: &mut ModelValidator<'_>, path: &str, scaling: Option<Scaling>, least: Option<u32>) {
    let Some(Scaling::Bounds(ScalingBounds { min, .. })) = scaling else { return };
    if let Some(least) = least.filter(|least| (1..*least).contains(&min)) {
        judge.warning(
            rules::MODEL_SCALING,
            &format!("{path}.scaling.min"),
            format!("it may be scaled down to {min}, and Dynamo refuses fewer replicas than `minAvailable: {least}`"),
            format!("Set `min: {least}`, or 0 to allow only none."),
        );
    }
}

/// A planner's own floor must fit the bounds of the workers it scales.
fn check_planner_floor(judge: &mut ModelValidator<'_>) {
    let model = judge.model;
    let planners = further_components(model).filter(|(_, _, c)| c.component_type == Some(ComponentType::Planner));
    for (_, path, planner) in planners {
        let floor = planner.config.as_ref().and_then(|config| config.get("min_endpoint")).and_then(Value::as_u64);
        let Some(floor) = floor else { continue };
        for (name, _, worker) in serving_workers(model.spec.serving.as_ref()) {
            let Some(Scaling::Bounds(ScalingBounds { min, max })) = worker.scaling else { continue };
            let place = format!("{path}.config.min_endpoint");
            if floor > u64::from(max) {
                judge.error(
                    rules::MODEL_SCALING,
                    &place,
                    format!("the planner keeps at least {floor} replicas; `{name}` may have at most {max}"),
                    format!("Lower `min_endpoint` to at most {max}, or raise `scaling.max`."),
                );
            } else if floor < u64::from(min) {
                judge.warning(
                    rules::MODEL_SCALING,
                    &place,
                    format!("the planner may go down to {floor} replicas; `{name}` asks for at least {min}"),
                    format!("Set `min_endpoint: {min}`."),
                );
            }
        }
    }
}

fn check_rollout(judge: &mut ModelValidator<'_>, path: &str, rollout: Option<&Rollout>) {
    let Some(rollout) = rollout else { return };
    let none =
        |value: Option<CountOrPercent>| matches!(value, Some(CountOrPercent::Count(0) | CountOrPercent::Percent(0)));
    let recreate = rollout.strategy == Some(RolloutStrategy::Recreate);
    if recreate && (rollout.max_surge.is_some() || rollout.max_unavailable.is_some()) {
        let field = if rollout.max_surge.is_some() { "maxSurge" } else { "maxUnavailable" };
        judge.warning(
            rules::MODEL_IGNORED,
            &format!("{path}.{field}"),
            format!("`{field}` has no effect with strategy `recreate`, which stops all pods first"),
            "Remove it, or use strategy `rolling`.",
        );
    } else if none(rollout.max_surge) && none(rollout.max_unavailable) {
        judge.error(
            rules::MODEL_ROLLOUT,
            &format!("{path}.maxUnavailable"),
            "maxSurge 0 and maxUnavailable 0: no pod may start before one stops, and none may stop",
            "Allow one of them; without spare GPUs, `maxUnavailable: 1`.",
        );
    }
}
