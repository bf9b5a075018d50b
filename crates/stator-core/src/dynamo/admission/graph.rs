//! DynamoGraphDeployment, in the operator's order: the graph as a whole, then component by component.

use super::{Faults, Platform, memory, named, names, picker, pod, rules, topology};
use crate::dynamo::registry::annotation;
use crate::dynamo::v1beta1::{Component, GraphSpec};
use crate::object::{FieldPath, Object};
use std::collections::BTreeSet;

pub(super) fn check(object: &Object, platform: &Platform, faults: &mut Faults<'_>) {
    // A spec that cannot be read has faults of form.
    let spec = GraphSpec::read(object.spec()).unwrap_or_default();
    let readable = GraphSpec::read(object.spec()).is_ok();
    if readable && spec.components.is_empty() {
        faults.refused_as(
            rules::NO_COMPONENTS,
            FieldPath::of(["spec", "components"]),
            "the graph has no components",
            "add `serving`, or at least one of `components`",
            "spec.services must have at least one service",
        );
    }
    faults.section();
    annotations(object, faults);
    faults.section();
    restart(&spec, faults);
    faults.section();
    topology::check(object, &spec, platform, faults);
    faults.section();
    memory::discovery(object, &spec, faults);
    names::check(object, &spec, faults);
    names::cut(object, &spec, platform, faults);
    // The operator walks a map, in any order; here it is sorted.
    let mut components: Vec<&Component> = spec.components.iter().collect();
    components.sort_by(|a, b| a.name.cmp(&b.name));
    for component in components {
        faults.section();
        memory::between_pods(object, &spec, component, faults);
        names::grove(object, &spec, component, faults);
        faults.section();
        pod::check(&spec, component, platform, faults);
        faults.section();
        picker::check(component, faults);
        faults.section();
        memory::check(component, faults);
    }
    picker::one(&spec, faults);
    frontends(&spec, faults);
}

fn annotations(object: &Object, faults: &mut Faults<'_>) {
    let annotations = object.annotations();
    if let Some(value) = annotations.get(annotation::ORIGIN_VERSION)
        && !pod::is_version(value)
    {
        faults.refused_as(
            rules::ANNOTATION,
            FieldPath::of(["metadata", "annotations", annotation::ORIGIN_VERSION]),
            format!("`{}` is `{value}`, which is no semantic version", annotation::ORIGIN_VERSION),
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
            faults.refused_as(
                rules::ANNOTATION,
                FieldPath::of(["metadata", "annotations", name]),
                format!("`{name}` is `{value}`; allowed are `{one}` and `{other}`"),
                format!("write `{one}` or `{other}`, or remove the annotation"),
                format!("annotation {name} has invalid value {value:?}: must be {one:?} or {other:?}"),
            );
        }
    }
}

/// Judged on update as on create, whatever was there before.
pub(super) fn restart(spec: &GraphSpec, faults: &mut Faults<'_>) {
    let Some(strategy) = spec.restart.as_ref().and_then(|restart| restart.strategy.as_ref()) else { return };
    let order = &strategy.order;
    if order.is_empty() {
        return;
    }
    let path = FieldPath::of(["spec", "restart", "strategy", "order"]);
    let field = "spec.restart.strategy.order";
    let help = "name every component once, or leave `order` out";
    if strategy.strategy_type.as_deref() == Some("Parallel") {
        let words = format!("{field} cannot be specified when strategy is parallel");
        faults.refused_as(rules::RESTART_ORDER, path, "a parallel restart has no order", "leave `order` out", words);
        return;
    }
    let components: BTreeSet<&str> = spec.components.iter().map(|component| component.name.as_str()).collect();
    let mut named = BTreeSet::new();
    for name in order.iter().filter(|name| !named.insert(name.as_str())) {
        let words = format!("{field} must be unique");
        faults.refused_as(rules::RESTART_ORDER, path.clone(), format!("`{name}` is named twice"), help, words);
    }
    if named.len() != components.len() {
        let missing: Vec<&str> = components.difference(&named).copied().collect();
        let message = if missing.is_empty() {
            format!("{} names for {} components", named.len(), components.len())
        } else {
            format!("`{}` is not named", missing.join("`, `"))
        };
        let words = format!("{field} must have the same number of unique services as the deployment");
        faults.refused_as(rules::RESTART_ORDER, path.clone(), message, help, words);
    }
    let mut seen = BTreeSet::new();
    for name in order.iter().filter(|name| !components.contains(name.as_str()) && seen.insert(name.as_str())) {
        let words = format!("{field} contains unknown service: {name}");
        faults.refused_as(rules::RESTART_ORDER, path.clone(), format!("there is no component `{name}`"), help, words);
    }
}

/// A graph has at most one frontend that makes sense.
fn frontends(spec: &GraphSpec, faults: &mut Faults<'_>) {
    let frontends = spec.components.iter().filter(|component| component.component_type.as_deref() == Some("frontend"));
    for second in frontends.skip(1) {
        faults.would_fail(
            rules::TWO_FRONTENDS,
            FieldPath::of(["spec", "components"]).join(named(&second.name)).field("type"),
            format!("`{}` is a second frontend; requests reach one or the other by chance", second.name),
            "keep one frontend and raise its `replicas`",
        );
    }
}
