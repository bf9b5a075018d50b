//! Topology constraints: where the pods of a graph must lie together.

use super::{AdmissionCollector, Platform, PlatformRequirement, component_path, names, rules};
use crate::dynamo::release::Behaviour;
use crate::dynamo::v1beta1::GraphSpec;
use crate::object::{FieldPath, Object};
use serde_json::Value;

/// Source: the DGD webhook's `validateTopologyConstraints`; its domains are checked where graphs run on Grove.
pub(super) fn check(object: &Object, spec: &GraphSpec, platform: &Platform, faults: &mut AdmissionCollector<'_>) {
    let domain = |constraint: &Value| {
        constraint.get("packDomain").and_then(Value::as_str).filter(|domain| !domain.is_empty()).map(str::to_owned)
    };
    let mut constrained: Vec<(&str, &Value)> = spec
        .components
        .iter()
        .filter_map(|component| Some((component.name.as_str(), component.topology_constraint()?)))
        .collect();
    constrained.sort_by_key(|(name, _)| *name);
    if spec.topology_constraint.is_none() && constrained.is_empty() {
        return;
    }
    let before = faults.findings.len();
    for (name, constraint) in &constrained {
        if domain(constraint).is_none() {
            faults.deny(
                rules::TOPOLOGY,
                component_path(name).field("topologyConstraint").field("packDomain"),
                format!("the topology constraint of `{name}` has no domain"),
                "give `packDomain`, such as `rack`",
                format!("spec.services[{name}].topologyConstraint.packDomain is required"),
            );
        }
    }
    let Some(graph) = &spec.topology_constraint else {
        let words = "spec.topologyConstraint with topologyProfile is required when any topology constraint is set (at \
                     spec or service level)";
        for (name, _) in &constrained {
            faults.deny(
                rules::TOPOLOGY,
                component_path(name).field("topologyConstraint"),
                format!("`{name}` has a topology constraint, but the graph has none"),
                "give `spec.topologyConstraint.clusterTopologyName`",
                words,
            );
        }
        return;
    };
    let topology = graph.get("clusterTopologyName").and_then(Value::as_str).unwrap_or_default();
    let path = FieldPath::from_fields(["spec", "topologyConstraint"]);
    let of_graph = domain(graph);
    if of_graph.is_none() && faults.has(Behaviour::GraphTopologyOptional) {
        if constrained.is_empty() {
            faults.deny(
                rules::TOPOLOGY,
                path.field("packDomain"),
                "neither the graph nor one of its components names a domain",
                "give `packDomain`, such as `rack`, to the graph or to a component",
                "spec.topologyConstraint.packDomain: Required value: is required when no component topologyConstraint is set",
            );
        }
    } else if of_graph.is_none() {
        let mut without: Vec<&str> = spec
            .components
            .iter()
            .filter(|component| component.topology_constraint().is_none())
            .map(|component| component.name.as_str())
            .collect();
        without.sort_unstable();
        for name in without {
            faults.deny(
                rules::TOPOLOGY,
                path.clone(),
                format!("without a `packDomain` of the graph, `{name}` needs its own topology constraint"),
                "give `spec.topologyConstraint.packDomain`, or a constraint to every component",
                format!(
                    "spec.services[{name}].topologyConstraint is required because spec.topologyConstraint.packDomain is \
                     not set; either set a spec-level packDomain or provide a topologyConstraint for every service"
                ),
            );
        }
    }
    if faults.findings.len() > before
        || platform.grove == Some(false)
        || names::opts_out_of_grove(object)
        || topology.is_empty()
    {
        return;
    }
    let mut wanted: Vec<(FieldPath, String, Option<&str>)> = Vec::new();
    if let Some(domain) = &of_graph {
        wanted.push((path.field("packDomain"), domain.clone(), None));
    }
    for (name, constraint) in &constrained {
        if let Some(domain) = domain(constraint) {
            let path = component_path(name).field("topologyConstraint").field("packDomain");
            wanted.push((path, domain, Some(name)));
        }
    }
    match platform.topologies.as_ref().map(|known| known.get(topology)) {
        None => report_unknown_topology(topology, &path, &wanted, faults),
        Some(None) => faults.deny_unless_met(
            PlatformRequirement::Topology,
            path.field("clusterTopologyName"),
            format!("there is no cluster topology `{topology}`"),
            "create it, or name an existing one",
            format!(
                "topology-aware scheduling requires a ClusterTopology resource \"{topology}\" but it was not found; ensure \
                 the cluster topology is configured per the framework documentation"
            ),
        ),
        Some(Some(levels)) => check_domains(topology, levels, of_graph.as_deref(), &wanted, faults),
    }
}

fn report_unknown_topology(
    topology: &str,
    path: &FieldPath,
    wanted: &[(FieldPath, String, Option<&str>)],
    faults: &mut AdmissionCollector<'_>,
) {
    let domains: Vec<&str> = wanted.iter().map(|(_, domain, _)| domain.as_str()).collect();
    faults.deny_unless_met(
        PlatformRequirement::Topology,
        path.field("clusterTopologyName"),
        format!(
            "where graphs run on Grove it must have the topology `{topology}` with the domains `{}`",
            domains.join("`, `")
        ),
        format!(
            "declare it under the environment's `platform` in stator.yaml: `topologies: {{{topology}: [{}]}}`, the \
             broadest first; or `grove: false`, where the operator's chart has Grove off (`global.grove.enabled: false`)",
            domains.join(", ")
        ),
        format!("failed to read ClusterTopology \"{topology}\" for topology validation"),
    );
}

/// Every domain is one of the topology's, and a component's is not broader than the graph's.
fn check_domains(
    topology: &str,
    levels: &[String],
    of_graph: Option<&str>,
    wanted: &[(FieldPath, String, Option<&str>)],
    faults: &mut AdmissionCollector<'_>,
) {
    let level = |domain: &str| levels.iter().position(|level| level == domain);
    for (path, domain, component) in wanted {
        let Some(own) = level(domain) else {
            faults.deny_unless_met(
                PlatformRequirement::Topology,
                path.clone(),
                format!("the topology `{topology}` has no domain `{domain}`; it has `{}`", levels.join("`, `")),
                "name one of its domains",
                format!("{path}: domain \"{domain}\" does not exist in ClusterTopology \"{topology}\""),
            );
            continue;
        };
        if let (Some(name), Some(graph)) = (component, of_graph)
            && level(graph).is_some_and(|graph| own < graph)
        {
            faults.deny_unless_met(
                PlatformRequirement::Topology,
                path.clone(),
                format!("`{domain}` of `{name}` is broader than the graph's `{graph}`"),
                "name the graph's domain or a narrower one",
                format!(
                    "spec.services[{name}]: topologyConstraint.packDomain \"{domain}\" is broader than spec-level \
                     \"{graph}\"; service constraints must be equal to or narrower than the deployment-level constraint"
                ),
            );
        }
    }
}
