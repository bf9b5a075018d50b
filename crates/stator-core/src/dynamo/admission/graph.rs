//! DynamoGraphDeployment, in the operator's order: the graph as a whole, then component by component.

use super::{
    AdmissionCollector, Platform, endpoint_picker, gpu_memory, grove, name_segment, names, pod, rules, topology,
};
use crate::dynamo::registry::annotation;
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::{FieldPath, Object};
use std::collections::BTreeSet;

pub(super) fn check(object: &Object, platform: &Platform, faults: &mut AdmissionCollector<'_>) {
    // A spec that cannot be read has faults of form.
    let read = GraphSpec::from_value(object.spec());
    let has_no_components = read.as_ref().is_ok_and(|spec| spec.components.is_empty());
    let spec = read.unwrap_or_default();
    if has_no_components {
        faults.deny(
            rules::NO_COMPONENTS,
            FieldPath::from_fields(["spec", "components"]),
            "the graph has no components",
            "add `serving`, or at least one of `components`",
            "spec.services must have at least one service",
        );
    }
    faults.next_operator_check();
    check_annotations(object, faults);
    grove::check_annotations(object, faults);
    faults.next_operator_check();
    grove::check_graph(object, &spec, platform, faults);
    check_restart_on_create(&spec, faults);
    check_restart_order(&spec, faults);
    faults.next_operator_check();
    topology::check(object, &spec, platform, faults);
    faults.next_operator_check();
    gpu_memory::check_failover_discovery(object, &spec, faults);
    names::check(object, &spec, faults);
    names::check_grove_truncation(object, &spec, platform, faults);
    // The operator walks a map, in any order; here it is sorted.
    let mut components: Vec<&ComponentSpec> = spec.components.iter().collect();
    components.sort_by(|a, b| a.name.cmp(&b.name));
    for component in components {
        faults.next_operator_check();
        gpu_memory::check_inter_pod(object, &spec, component, faults);
        names::check_grove_name(object, &spec, component, faults);
        faults.next_operator_check();
        pod::check(&spec, component, platform, faults);
        faults.next_operator_check();
        endpoint_picker::check(component, faults);
        faults.next_operator_check();
        gpu_memory::check(&spec, component, faults);
        grove::check_component(object, &spec, component, faults);
    }
    endpoint_picker::check_single_picker(&spec, faults);
    check_frontends(&spec, faults);
}

fn check_annotations(object: &Object, faults: &mut AdmissionCollector<'_>) {
    let annotations = object.annotations();
    if let Some(value) = annotations.get(annotation::ORIGIN_VERSION)
        && !pod::is_version(value)
    {
        faults.deny(
            rules::ANNOTATION,
            FieldPath::from_fields(["metadata", "annotations", annotation::ORIGIN_VERSION]),
            format!("`{}` is `{value}`, which is not a semantic version", annotation::ORIGIN_VERSION),
            "remove the annotation: the operator writes it",
            format!("annotation {} has invalid value {value:?}: must be valid semver", annotation::ORIGIN_VERSION),
        );
    }
    for (name, [one, other], any_case) in
        [(annotation::VLLM_EXECUTOR, ["mp", "ray"], true), (annotation::DISCOVERY_MODE, ["pod", "container"], false)]
    {
        let Some(value) = annotations.get(name) else { continue };
        let fits = |word: &str| if any_case { value.eq_ignore_ascii_case(word) } else { *value == word };
        if !fits(one) && !fits(other) {
            faults.deny(
                rules::ANNOTATION,
                FieldPath::from_fields(["metadata", "annotations", name]),
                format!("`{name}` is `{value}`; allowed: `{one}` and `{other}`"),
                format!("write `{one}` or `{other}`, or remove the annotation"),
                format!("annotation {name} has invalid value {value:?}: must be {one:?} or {other:?}"),
            );
        }
    }
}

/// A graph is restarted once it runs, and not as it is made.
fn check_restart_on_create(spec: &GraphSpec, faults: &mut AdmissionCollector<'_>) {
    if spec.restart.is_some() && faults.has(Behaviour::RestartUnsetOnCreate) {
        faults.deny_by_schema(
            rules::RESTART_ON_CREATE,
            FieldPath::from_fields(["spec", "restart"]),
            "a new graph cannot have a `restart`",
            "omit it until the graph exists",
        );
    }
}

/// Judged on update as on create, whatever was there before.
pub(super) fn check_restart_order(spec: &GraphSpec, faults: &mut AdmissionCollector<'_>) {
    let Some(strategy) = spec.restart.as_ref().and_then(|restart| restart.strategy.as_ref()) else { return };
    let order = &strategy.order;
    if order.is_empty() {
        return;
    }
    let path = FieldPath::from_fields(["spec", "restart", "strategy", "order"]);
    let field = "spec.restart.strategy.order";
    let help = "name every component once, or omit `order`";
    if strategy.strategy_type.as_deref() == Some("Parallel") {
        let words = format!("{field} cannot be specified when strategy is parallel");
        faults.deny(rules::RESTART_ORDER, path, "a parallel restart has no order", "omit `order`", words);
        return;
    }
    let components: BTreeSet<&str> = spec.components.iter().map(|component| component.name.as_str()).collect();
    let mut named = BTreeSet::new();
    for name in order.iter().filter(|name| !named.insert(name.as_str())) {
        let words = format!("{field} must be unique");
        faults.deny(rules::RESTART_ORDER, path.clone(), format!("`{name}` is named twice"), help, words);
    }
    if named.len() != components.len() {
        let missing: Vec<&str> = components.difference(&named).copied().collect();
        let message = if missing.is_empty() {
            format!("{} names for {} components", named.len(), components.len())
        } else {
            format!("`{}` is not named", missing.join("`, `"))
        };
        let words = format!("{field} must have the same number of unique services as the deployment");
        faults.deny(rules::RESTART_ORDER, path.clone(), message, help, words);
    }
    let mut seen = BTreeSet::new();
    for name in order.iter().filter(|name| !components.contains(name.as_str()) && seen.insert(name.as_str())) {
        let words = format!("{field} contains unknown service: {name}");
        faults.deny(rules::RESTART_ORDER, path.clone(), format!("there is no component `{name}`"), help, words);
    }
}

/// A graph has at most one frontend that makes sense.
fn check_frontends(spec: &GraphSpec, faults: &mut AdmissionCollector<'_>) {
    let frontends = spec.components.iter().filter(|component| component.component_type.as_deref() == Some("frontend"));
    for second in frontends.skip(1) {
        faults.warn(
            rules::TWO_FRONTENDS,
            FieldPath::from_fields(["spec", "components"]).join(name_segment(&second.name)).field("type"),
            format!("`{}` is a second frontend; requests reach one or the other by chance", second.name),
            "keep one frontend and raise its `replicas`",
        );
    }
}
