//! Names of a graph and its components, and what the operator and Grove derive from them.

use super::{AdmissionCollector, Platform, PlatformRequirement, component_path, rules};
use crate::dynamo::names::{GroveNameLength, MAX_GROVE, MAX_LABEL, workload_length};
use crate::dynamo::registry::annotation;
use crate::dynamo::v1beta1::{ComponentSpec, GraphSpec};
use crate::object::{FieldPath, Object};
use std::collections::BTreeMap;

/// Names that clash, or are too long for the objects that the operator makes on any cluster.
pub(super) fn check(object: &Object, spec: &GraphSpec, faults: &mut AdmissionCollector<'_>) {
    let graph = object.name();
    if graph.len() > MAX_LABEL {
        faults.warn(
            rules::NAME_BUDGET,
            FieldPath::from_fields(["metadata", "name"]),
            format!("the name has {} characters; it becomes a label value, which may have {MAX_LABEL}", graph.len()),
            "shorten the model's name",
        );
    }
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for component in &spec.components {
        let lower = component.name.to_lowercase();
        let path = component_path(&component.name).field("name");
        // One and the same name twice is a fault of form: such a list cannot even be read.
        if let Some(first) = seen.get(&lower).filter(|first| **first != component.name) {
            faults.deny_by_schema(
                rules::COMPONENT_TWICE,
                path.clone(),
                format!("`{}` has the name of another component, `{first}`", component.name),
                "rename one of them",
            );
        }
        let length = workload_length(graph, &lower, component.is_worker());
        if graph.len() <= MAX_LABEL && length > MAX_LABEL {
            let hash = if component.is_worker() { "-<8 characters>" } else { "" };
            faults.warn(
                rules::NAME_BUDGET,
                path,
                format!(
                    "the operator names the workload of `{}` `{graph}-{lower}{hash}`, which has {length} characters; \
                     Kubernetes allows {MAX_LABEL} in a label",
                    component.name
                ),
                "shorten the model's name or the component's",
            );
        }
        seen.insert(lower, component.name.as_str());
    }
}

/// What Grove leaves of one component's name. From release 1.2 on the operator cuts a graph's name that is too long, so
/// only a component's can be refused. Source: `dynamo.PCSNameForDGD` and the DGD webhook's `validateServiceNameLength`.
pub(super) fn check_grove_name(
    object: &Object,
    spec: &GraphSpec,
    component: &ComponentSpec,
    faults: &mut AdmissionCollector<'_>,
) {
    if opts_out_of_grove(object) {
        return;
    }
    let graph = object.name();
    let names = GroveNameLength::for_graph(graph, spec.components.iter().map(naming_inputs));
    let own = GroveNameLength::component_share(
        &component.name,
        component.multinode.map(|nodes| nodes.node_count),
        component.shares_gpus_between_pods(),
    );
    let length = names.length + own;
    if length > MAX_GROVE {
        let name = &component.name;
        faults.deny_unless_met(
            PlatformRequirement::GroveNames,
            component_path(name).field("name"),
            format!(
                "Grove allows {MAX_GROVE} characters for names from graph and component; `{name}` alone takes {own}, \
                 and the graph's name {}",
                names.length
            ),
            format!(
                "shorten the component's name, or annotate `{}: \"false\"`; where the operator's chart has Grove off \
                 (`global.grove.enabled: false`, even in a cluster that serves Grove), set `platform: {{grove: \
                 false}}` under \
                 the environment in stator.yaml",
                annotation::ENABLE_GROVE
            ),
            format!(
                "spec.services[{name}]: combined resource name length {length} exceeds {MAX_GROVE}-character limit required \
                 for pod naming"
            ),
        );
    }
}

/// A graph's name that Grove leaves no space for: releases before 1.2 refuse it there, later ones cut it.
pub(super) fn check_grove_truncation(
    object: &Object,
    spec: &GraphSpec,
    platform: &Platform,
    faults: &mut AdmissionCollector<'_>,
) {
    let graph = object.name();
    let names = GroveNameLength::for_graph(graph, spec.components.iter().map(naming_inputs));
    let too_long = faults.findings.iter().any(|fault| fault.rule == rules::NAME_BUDGET);
    if !names.truncated || platform.grove.is_some() || opts_out_of_grove(object) || too_long {
        return;
    }
    faults.warn(
        rules::GROVE_NAMES,
        FieldPath::from_fields(["metadata", "name"]),
        format!(
            "depends on the cluster: on Grove, the name of a graph with these components may have {} characters, and \
             this one has {}; the operator truncates it and adds a hash, and refused it before release 1.2",
            names.length,
            graph.len()
        ),
        "shorten the model's name; or, where the operator's chart has Grove off (`global.grove.enabled: false`, even in a \
         cluster that serves Grove), set `platform: {grove: false}` under the environment in stator.yaml",
    );
}

/// What [`GroveNameLength`] needs to know of a component.
fn naming_inputs(component: &ComponentSpec) -> (&str, Option<i64>, bool) {
    (&component.name, component.multinode.map(|nodes| nodes.node_count), component.shares_gpus_between_pods())
}

/// True when the graph says that it does not run on Grove.
pub(super) fn opts_out_of_grove(object: &Object) -> bool {
    value_opts_out_of_grove(object.value())
}

/// As [`opts_out_of_grove`], of a graph that is not read as an object yet.
pub(super) fn value_opts_out_of_grove(object: &serde_json::Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let value = |name: &str| annotations.and_then(|all| all.get(name)).and_then(serde_json::Value::as_str);
    // Where the operator has pinned what runs the graph, the wish is not looked at any more.
    value(annotation::WORKLOAD_PROVIDER) != Some("grove")
        && value(annotation::ENABLE_GROVE).is_some_and(|value| value.eq_ignore_ascii_case("false"))
}
