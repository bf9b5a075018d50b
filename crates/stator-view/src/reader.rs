//! Who looks, and what of the fleet they may see.

use crate::facts::{FleetFacts, ModelFacts, SourceFacts};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Namespaces of which something may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceSet {
    /// Every one, those that come later too.
    All,
    /// These.
    These(BTreeSet<String>),
}

impl NamespaceSet {
    /// Whether a namespace is among them.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(namespace),
        }
    }
}

/// Whom an observation is shown to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetReader {
    /// Their name, where they signed in; whoever opened the link of a process has none.
    pub name: Option<String>,
    /// Namespaces whose sources they may list.
    pub sources: NamespaceSet,
    /// Namespaces whose models they may list.
    pub models: NamespaceSet,
    /// Whether they may list nodes, and so know how many GPUs there are.
    pub nodes: bool,
    /// What they may see of the one model that is asked for.
    pub details: ModelDetails,
}

impl FleetReader {
    /// Whoever sees the terminal of the process: what it sees is theirs.
    pub const EVERYTHING: Self = Self {
        name: None,
        sources: NamespaceSet::All,
        models: NamespaceSet::All,
        nodes: true,
        details: ModelDetails { objects: true, events: true },
    };
}

/// A right of Kubernetes that something here takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequiredRight {
    /// What is done.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource, in the plural; its subresource follows a `/`.
    pub resource: &'static str,
}

/// What it takes to see models of a namespace.
pub const MODELS_RIGHT: RequiredRight = RequiredRight { verb: "list", group: "stator.dev", resource: "models" };
/// What it takes to see sources of a namespace.
pub const SOURCES_RIGHT: RequiredRight = RequiredRight { verb: "list", group: "stator.dev", resource: "modelsources" };
/// What it takes to know how many GPUs the cluster has.
pub const NODES_RIGHT: RequiredRight = RequiredRight { verb: "list", group: "", resource: "nodes" };
/// What it takes to see events of a model.
pub const EVENTS_RIGHT: RequiredRight = RequiredRight { verb: "list", group: "", resource: "events" };
/// What it takes to read what the containers of a model write.
pub const LOGS_RIGHT: RequiredRight = RequiredRight { verb: "get", group: "", resource: "pods/log" };
/// What it takes to write a model of a source in the form, and to have it planned: a verb of its own, as the form shows what
/// is in git.
pub const PROPOSE_RIGHT: RequiredRight =
    RequiredRight { verb: "propose", group: "stator.dev", resource: "modelsources" };

/// What of a model may be seen, beside what its record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelDetails {
    /// Its live objects, and what is only known from them: components, drift. It takes the right to `get` each kind of them.
    pub objects: bool,
    /// What the cluster's controllers say of them.
    pub events: bool,
}

/// The facts that a reader may see. What they may not see is as if it were not there.
pub(crate) fn visible_facts(facts: &FleetFacts, reader: &FleetReader) -> FleetFacts {
    let sources = facts.sources.iter().filter_map(|source| visible_source(source, reader)).collect();
    FleetFacts { sources, ..facts.clone() }
}

fn visible_source(source: &Arc<SourceFacts>, reader: &FleetReader) -> Option<Arc<SourceFacts>> {
    let is_visible = |model: &&ModelFacts| reader.models.contains(&model.status.namespace);
    let is_listed = reader.sources.contains(&source.namespace);
    let count = source.models.iter().filter(is_visible).count();
    // Pull requests show objects of models that are there, and of others.
    let sees_previews = source.models_namespace.as_ref().is_none_or(|namespace| reader.models.contains(namespace));
    if is_listed && count == source.models.len() && (sees_previews || source.previews.is_empty()) {
        return Some(Arc::clone(source));
    }
    if !is_listed && count == 0 {
        return None;
    }
    let models = source.models.iter().filter(is_visible).cloned().collect();
    if is_listed {
        let previews = if sees_previews { Arc::clone(&source.previews) } else { Arc::default() };
        return Some(Arc::new(SourceFacts { models, previews, ..(**source).clone() }));
    }
    // What models say of their source in their own records.
    Some(Arc::new(SourceFacts {
        namespace: source.namespace.clone(),
        name: source.name.clone(),
        environment: source.environment.clone(),
        models_namespace: source.models_namespace.clone(),
        is_kubernetes: source.is_kubernetes,
        changed_in: source.changed_in,
        is_withheld: true,
        models,
        ..SourceFacts::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::FleetObservation;
    use crate::samples;
    use stator_core::dynamo::health::Health;
    use stator_model::plan::SyncState;

    fn these(names: &[&str]) -> NamespaceSet {
        NamespaceSet::These(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Sources of two teams, and one of a third that writes to the namespace of the first.
    fn fleet() -> FleetObservation {
        let source = |namespace: &str, changed_in: u64, models: &[(&str, &str)]| {
            let models = models.iter().map(|(namespace, name)| {
                let mut model = samples::model(name, Health::Failed, SyncState::Synced);
                (*namespace).clone_into(&mut model.status.namespace);
                model
            });
            Arc::new(SourceFacts {
                namespace: namespace.to_owned(),
                name: "fleet".to_owned(),
                origin: format!("https://git.example.com/{namespace}"),
                unread: Some(format!("{namespace} is away")),
                changed_in,
                models: models.collect(),
                ..SourceFacts::default()
            })
        };
        let sources = vec![
            source("blue", 7, &[("blue", "llama"), ("blue", "qwen")]),
            source("green", 9, &[("green", "phi")]),
            source("platform", 8, &[("blue", "shared"), ("platform", "own")]),
        ];
        FleetObservation::new(9, samples::now(), FleetFacts { sources, removed_in: 3, ..FleetFacts::default() })
    }

    fn described(reader: FleetReader) -> String {
        let seen = fleet().shown_to(reader);
        let sources: Vec<String> = crate::sources::sources(&seen)
            .into_iter()
            .map(|one| format!("{} of {}, {} models", one.label, one.origin, one.models.all))
            .collect();
        let models: Vec<String> =
            seen.rows().map(|row| format!("{}/{} of {}", row.namespace, row.name, row.source)).collect();
        format!(
            "version {}\nsources: {}\nmodels: {}\nnotices: {}",
            seen.version,
            sources.join("; "),
            models.join("; "),
            seen.notices().join("; ")
        )
    }

    fn reader(sources: NamespaceSet, models: NamespaceSet) -> FleetReader {
        FleetReader { sources, models, ..FleetReader::EVERYTHING }
    }

    #[test]
    fn what_may_not_be_listed_is_not_there() {
        insta::assert_snapshot!(described(reader(these(&["blue"]), these(&["blue"]))), @"
        version 8
        sources: blue/fleet of https://git.example.com/blue, 2 models
        models: blue/llama of blue/fleet; blue/qwen of blue/fleet; blue/shared of platform/fleet
        notices: blue/fleet: models are shown as last seen: blue is away
        ");
        insta::assert_snapshot!(described(reader(these(&[]), these(&["green"]))), @"
        version 9
        sources: 
        models: green/phi of green/fleet
        notices:
        ");
        insta::assert_snapshot!(described(reader(NamespaceSet::All, these(&[]))), @"
        version 9
        sources: blue/fleet of https://git.example.com/blue, 0 models; green/fleet of https://git.example.com/green, 0 models; platform/fleet of https://git.example.com/platform, 0 models
        models: 
        notices: blue/fleet: its models are unknown: blue is away; green/fleet: its models are unknown: green is away; platform/fleet: its models are unknown: platform is away
        ");
        insta::assert_snapshot!(described(reader(these(&[]), these(&[]))), @"
        version 3
        sources: 
        models: 
        notices: there are no sources or models that you may list
        ");
        let everything = fleet().shown_to(FleetReader { name: Some("ops".to_owned()), ..FleetReader::EVERYTHING });
        assert_eq!((everything.rows().count(), everything.version), (5, 9));
    }

    #[test]
    fn a_model_out_of_sight_is_answered_like_one_that_is_not_there() {
        let seen = fleet().shown_to(reader(these(&["blue"]), these(&["blue"])));
        assert_eq!(seen.model("green", "phi").unwrap_err(), seen.model("green", "nothing").unwrap_err());
        assert_eq!(seen.model("blue", "shared").unwrap().source.origin, "");
    }
}
