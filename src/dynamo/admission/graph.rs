//! DynamoGraphDeployment: rules about the graph and between its components.

use super::{Faults, component_path, pod, rules};
use crate::dynamo::gpus;
use crate::dynamo::names::{MAX_GROVE, MAX_LABEL, grove_length};
use crate::dynamo::registry::annotation;
use crate::dynamo::v1beta1::{Component, GraphSpec};
use crate::object::{FieldPath, Object, Segment};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(object: &Object, faults: &mut Faults) {
    annotations(object, faults);
    let Ok(spec) = GraphSpec::read(object.spec()) else { return };
    if spec.components.is_empty() {
        faults.refused(
            rules::NO_COMPONENTS,
            FieldPath::of(["spec", "components"]),
            "the graph has no components",
            "add `serving`, or at least one of `components`",
        );
    }
    names(object, &spec, faults);
    restart(&spec, faults);
    topology(&spec, faults);
    for component in &spec.components {
        endpoint_picker(component, faults);
        experimental(object, component, faults);
        pod::check(&spec, component, faults);
    }
    one_of_a_kind(&spec, faults);
}

fn annotations(object: &Object, faults: &mut Faults) {
    let annotations = object.annotations();
    for (name, allowed) in
        [(annotation::VLLM_EXECUTOR, ["mp", "ray"]), (annotation::DISCOVERY_MODE, ["pod", "container"])]
    {
        if let Some(value) = annotations.get(name)
            && !allowed.contains(value)
        {
            faults.refused(
                rules::ANNOTATION,
                FieldPath::of(["metadata", "annotations", name]),
                format!("`{name}` is `{value}`; allowed are `{}` and `{}`", allowed[0], allowed[1]),
                format!("write `{}` or `{}`, or remove the annotation", allowed[0], allowed[1]),
            );
        }
    }
    if let Some(value) = annotations.get(annotation::ORIGIN_VERSION)
        && !pod::is_version(value)
    {
        faults.refused(
            rules::ANNOTATION,
            FieldPath::of(["metadata", "annotations", annotation::ORIGIN_VERSION]),
            format!("`{}` is `{value}`, which is no semantic version", annotation::ORIGIN_VERSION),
            "remove the annotation: the operator writes it",
        );
    }
}

fn names(object: &Object, spec: &GraphSpec, faults: &mut Faults) {
    let graph = object.name();
    if graph.len() > MAX_LABEL {
        faults.would_fail(
            rules::NAME_BUDGET,
            FieldPath::of(["metadata", "name"]),
            format!("the name has {} characters; it becomes a label, which holds {MAX_LABEL}", graph.len()),
            "shorten the model's name",
        );
    }
    let on_grove = object.annotations().get(annotation::ENABLE_GROVE) != Some(&"false");
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for component in &spec.components {
        let lower = component.name.to_lowercase();
        let path = component_path(&component.name).field("name");
        if let Some(first) = seen.get(&lower) {
            faults.refused(
                rules::COMPONENT_TWICE,
                path.clone(),
                format!("`{}` has the name of another component, `{first}`", component.name),
                "rename one of them",
            );
        }
        let service = graph.len() + 1 + lower.len();
        let grove = grove_length(graph, &lower, component.multinode.is_some());
        if graph.len() <= MAX_LABEL && service > MAX_LABEL {
            faults.would_fail(
                rules::NAME_BUDGET,
                path,
                format!("the service `{graph}-{lower}` has {service} characters; Kubernetes allows {MAX_LABEL}"),
                "shorten the model's name or the component's",
            );
        } else if on_grove && service <= MAX_LABEL && grove > MAX_GROVE {
            faults.would_fail(
                rules::NAME_BUDGET,
                path,
                format!("graph and component together need {grove} characters; clusters with Grove allow {MAX_GROVE}"),
                format!(
                    "shorten the model's name or the component's, or annotate `{}: \"false\"`",
                    annotation::ENABLE_GROVE
                ),
            );
        }
        seen.insert(lower, component.name.as_str());
    }
}

pub(super) fn restart(spec: &GraphSpec, faults: &mut Faults) {
    let Some(strategy) = spec.restart.as_ref().and_then(|restart| restart.strategy.as_ref()) else { return };
    if strategy.order.is_empty() {
        return;
    }
    let path = FieldPath::of(["spec", "restart", "strategy", "order"]);
    let help = "name every component once, or leave `order` out";
    if strategy.strategy_type.as_deref() == Some("Parallel") {
        faults.refused(rules::RESTART_ORDER, path, "a parallel restart has no order", "leave `order` out");
        return;
    }
    let components: BTreeSet<&str> = spec.components.iter().map(|component| component.name.as_str()).collect();
    let mut named = BTreeSet::new();
    for name in &strategy.order {
        if !named.insert(name.as_str()) {
            faults.refused(rules::RESTART_ORDER, path.clone(), format!("`{name}` is named twice"), help);
        }
        if !components.contains(name.as_str()) {
            faults.refused(rules::RESTART_ORDER, path.clone(), format!("there is no component `{name}`"), help);
        }
    }
    let missing: Vec<&str> = components.difference(&named).copied().collect();
    if !missing.is_empty() {
        faults.refused(rules::RESTART_ORDER, path, format!("`{}` is not named", missing.join("`, `")), help);
    }
}

fn topology(spec: &GraphSpec, faults: &mut Faults) {
    let constrained: Vec<&Component> =
        spec.components.iter().filter(|component| component.rest.contains_key("topologyConstraint")).collect();
    let Some(graph) = &spec.topology_constraint else {
        for component in constrained {
            faults.refused(
                rules::TOPOLOGY,
                component_path(&component.name).field("topologyConstraint"),
                "the component has a topology constraint and the graph has none",
                "give `spec.topologyConstraint.clusterTopologyName`",
            );
        }
        return;
    };
    if graph.get("packDomain").is_none() && constrained.len() < spec.components.len() {
        faults.refused(
            rules::TOPOLOGY,
            FieldPath::of(["spec", "topologyConstraint"]),
            "without a `packDomain` of the graph every component needs its own topology constraint",
            "give `spec.topologyConstraint.packDomain`, or a constraint to every component",
        );
    }
}

fn endpoint_picker(component: &Component, faults: &mut Faults) {
    let path = component_path(&component.name);
    if component.component_type.as_deref() != Some("epp") {
        if component.epp_config.is_some() {
            faults.refused(
                rules::ENDPOINT_PICKER,
                path.field("eppConfig"),
                "only a component of type `epp` has an `eppConfig`",
                "remove it, or set `type: epp`",
            );
        }
        return;
    }
    if component.multinode.is_some() {
        faults.refused(
            rules::ENDPOINT_PICKER,
            path.field("multinode"),
            "an endpoint picker runs on one node",
            "remove `nodes`",
        );
    }
    if component.replicas.is_some_and(|replicas| replicas != 1) {
        faults.refused(
            rules::ENDPOINT_PICKER,
            path.field("replicas"),
            "an endpoint picker has exactly one replica",
            "set `replicas: 1`, or leave it out",
        );
    }
    let sources = component.epp_config.as_ref().map_or(0, |config| {
        ["config", "configMapRef"].into_iter().filter(|source| config.contains_key(*source)).count()
    });
    if sources != 1 {
        faults.refused(
            rules::ENDPOINT_PICKER,
            path.field("eppConfig"),
            format!("an endpoint picker has exactly one source of settings, and this one has {sources}"),
            "give `config` with its plugins",
        );
    }
}

fn experimental(object: &Object, component: &Component, faults: &mut Faults) {
    let Some(experimental) = component.rest.get("experimental") else { return };
    let path = component_path(&component.name).field("experimental");
    let mode = |block: &Value| block.get("mode").and_then(Value::as_str).unwrap_or("IntraPod").to_owned();
    let service = experimental.get("gpuMemoryService").map(mode);
    if service.is_some() {
        let is_worker = matches!(component.component_type.as_deref(), Some("worker" | "prefill" | "decode"));
        if !is_worker || component.pod_template.as_ref().is_none_or(|pod| gpus::of_pod(pod) == 0) {
            faults.refused(
                rules::MEMORY_SERVICE,
                path.field("gpuMemoryService"),
                "a GPU memory service needs a worker with at least one GPU",
                "remove it, or give the component a worker's type and GPUs",
            );
        }
    }
    let Some(failover) = experimental.get("failover").map(mode) else { return };
    let path = path.field("failover");
    let discovery = object.annotations().get(annotation::DISCOVERY_MODE).copied();
    if failover == "IntraPod" && discovery != Some("container") {
        faults.refused(
            rules::FAILOVER,
            path.clone(),
            "failover inside a pod needs every container discovered for itself",
            format!("annotate the model with `{}: container`", annotation::DISCOVERY_MODE),
        );
    }
    if service.as_deref() != Some(failover.as_str()) {
        faults.refused(
            rules::FAILOVER,
            path,
            format!("failover of mode {failover} needs a GPU memory service of the same mode"),
            "give `experimental.gpuMemoryService` the same mode",
        );
    }
}

/// Components of which a graph has at most one.
fn one_of_a_kind(spec: &GraphSpec, faults: &mut Faults) {
    let of_type = |wanted: &'static str| {
        spec.components.iter().filter(move |component| component.component_type.as_deref() == Some(wanted)).skip(1)
    };
    let path = |component: &Component| component_path(&component.name).join(Segment::Field("type".to_owned()));
    for second in of_type("frontend") {
        faults.would_fail(
            rules::TWO_FRONTENDS,
            path(second),
            format!("`{}` is a second frontend; requests reach one or the other by chance", second.name),
            "keep one frontend and raise its `replicas`",
        );
    }
    for second in of_type("epp") {
        faults.refused(
            rules::ENDPOINT_PICKER,
            path(second),
            format!("`{}` is a second endpoint picker", second.name),
            "keep one of them",
        );
    }
}
