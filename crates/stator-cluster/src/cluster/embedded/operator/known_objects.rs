//! The objects that the simulated operator knows, and which of them depend on which: when one changes, only it and its
//! dependents are looked at again.

use super::{other_controllers, request_script, scaling};
use crate::cluster::embedded::base_model;
use serde_json::Value;
use stator_core::dynamo::graph_components;
use stator_core::dynamo::kinds::{ADAPTER, GRAPH, HTTP_ROUTE, REQUEST, SCALING_ADAPTER};
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// The objects of the kinds that the operator has to do with.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    objects: BTreeMap<ObjectRef, KnownObject>,
    /// Who is worked out from what.
    dependents: BTreeMap<Dependency, BTreeSet<ObjectRef>>,
    /// The graphs with workers of a base model.
    servers: BTreeMap<BaseModel, BTreeSet<ObjectRef>>,
    /// What has to be worked out again.
    changed: BTreeSet<ObjectRef>,
}

/// One object, with what it was last worked out from.
#[derive(Debug)]
struct KnownObject {
    text: ObjectText,
    dependencies: Vec<Dependency>,
    /// Of a graph: the base models of its workers.
    serves: BTreeSet<BaseModel>,
    /// Of a graph: a scaling adapter owns replicas of it.
    is_scaled: bool,
}

/// What an object is worked out from, beside itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dependency {
    Object(ObjectRef),
    /// Every graph with workers of it.
    BaseModel(BaseModel),
}

/// The name of a base model, in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BaseModel {
    namespace: String,
    name: String,
}

impl KnownObjects {
    /// Whether something has to be worked out again.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What has to be worked out again since the last call: what changed, was created or went, and what is worked out from
    /// it.
    pub(super) fn take_changed(&mut self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.changed)
    }

    /// The object as it was heard of last.
    pub(super) fn get(&self, object: &ObjectRef) -> Option<Object> {
        self.objects.get(object).map(|known| known.text.parse())
    }

    /// Takes in an object as it is now.
    pub(super) fn insert(&mut self, object: Object) {
        let reference = object.reference();
        let version = object.resource_version();
        if version.is_some()
            && self.objects.get(&reference).is_some_and(|known| known.text.resource_version() == version)
        {
            return;
        }
        let known = KnownObject::of(&object);
        self.remove(&reference);
        for dependency in &known.dependencies {
            self.dependents.entry(dependency.clone()).or_default().insert(reference.clone());
        }
        for base in &known.serves {
            self.servers.entry(base.clone()).or_default().insert(reference.clone());
        }
        self.mark_changed(&reference, &known);
        self.objects.insert(reference, known);
    }

    /// The graphs whose workers have the base model of an adapter.
    pub(super) fn graphs_that_serve(&self, adapter: &Object) -> Vec<Object> {
        let graphs = base_model_of(adapter).and_then(|base| self.servers.get(&base));
        graphs.into_iter().flatten().filter_map(|graph| self.get(graph)).collect()
    }

    /// The scaling adapters that name a graph.
    pub(super) fn scaling_adapters_of(&self, graph: &ObjectRef) -> Vec<Object> {
        let dependents = self.dependents.get(&Dependency::Object(graph.clone()));
        let adapters = dependents.into_iter().flatten().filter(|own| own.kind == SCALING_ADAPTER.kind);
        adapters.filter_map(|own| self.get(own)).collect()
    }

    /// Whether a component of a graph is to have a scaling adapter.
    pub(super) fn is_scaled(&self, graph: &ObjectRef) -> bool {
        self.objects.get(graph).is_some_and(|known| known.is_scaled)
    }

    /// Takes an object out, and marks what was worked out from it.
    pub(super) fn remove(&mut self, reference: &ObjectRef) {
        let Some(known) = self.objects.remove(reference) else { return };
        for dependency in &known.dependencies {
            remove_from(&mut self.dependents, dependency, reference);
        }
        for base in &known.serves {
            remove_from(&mut self.servers, base, reference);
        }
        self.mark_changed(reference, &known);
    }

    /// Marks an object that changed or went, and all that is worked out from it.
    fn mark_changed(&mut self, reference: &ObjectRef, known: &KnownObject) {
        self.changed.insert(reference.clone());
        let bases = known.serves.iter().cloned().map(Dependency::BaseModel);
        for provided in bases.chain([Dependency::Object(reference.clone())]) {
            self.changed.extend(self.dependents.get(&provided).into_iter().flatten().cloned());
        }
        if reference.kind == SCALING_ADAPTER.kind {
            // A graph and its scaling adapters are brought together.
            let graphs = known.dependencies.iter().filter_map(|dependency| match dependency {
                Dependency::Object(graph) => Some(graph.clone()),
                Dependency::BaseModel(_) => None,
            });
            self.changed.extend(graphs);
        }
    }
}

impl KnownObject {
    fn of(object: &Object) -> Self {
        let is_graph = object.kind() == GRAPH.kind;
        let components = || graph_components::components(object.spec()).filter(|_| is_graph);
        let base = |component: &Value| {
            Some(BaseModel { namespace: object.namespace().to_owned(), name: base_model(component)? })
        };
        Self {
            text: ObjectText::from(object),
            dependencies: dependencies_of(object),
            serves: components().filter_map(base).collect(),
            is_scaled: components().any(|component| component.get("scalingAdapter").is_some()),
        }
    }
}

/// What an object is worked out from, beside itself.
fn dependencies_of(object: &Object) -> Vec<Dependency> {
    if object.kind() == REQUEST.kind {
        vec![Dependency::Object(request_script::graph_of(object))]
    } else if object.kind() == SCALING_ADAPTER.kind {
        scaling::graph_of(object).map(Dependency::Object).into_iter().collect()
    } else if object.kind() == ADAPTER.kind {
        base_model_of(object).map(Dependency::BaseModel).into_iter().collect()
    } else if object.kind() == HTTP_ROUTE.kind {
        other_controllers::possible_backends(object).map(Dependency::Object).collect()
    } else {
        Vec::new()
    }
}

/// The base model that an adapter is loaded into.
fn base_model_of(adapter: &Object) -> Option<BaseModel> {
    let name = adapter.str_at("/spec/baseModelName")?.to_owned();
    Some(BaseModel { namespace: adapter.namespace().to_owned(), name })
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectRef>>, key: &K, object: &ObjectRef) {
    if let Some(objects) = index.get_mut(key) {
        objects.remove(object);
        if objects.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::embedded::operator::OperatorDriver;
    use crate::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
    use proptest::prelude::*;
    use serde_json::json;
    use stator_core::dynamo::kinds::SERVICE;

    /// Objects of one namespace that are worked out from each other, by a number for what they name.
    fn related(kind: u8, name: u8, names: u8) -> Object {
        let (name, names) = (format!("o{name}"), format!("o{names}"));
        let (kind, spec) = match kind {
            0 => {
                let worker = json!({"name": "worker", "type": "worker", "replicas": 1, "modelRef": {"name": names}});
                (GRAPH, json!({"components": [worker]}))
            }
            1 => (ADAPTER, json!({"baseModelName": names, "modelName": "m", "modelType": "lora"})),
            2 => (REQUEST, json!({"overrides": {"dgd": {"metadata": {"name": names}}}})),
            3 => (
                HTTP_ROUTE,
                json!({"rules": [{"backendRefs": [{"name": names}, {"name": format!("{names}-worker")}]}]}),
            ),
            _ => (SERVICE, json!({})),
        };
        let status = match kind {
            kind if kind == GRAPH => {
                json!({"state": "successful", "components": {"worker": {"replicas": 1, "readyReplicas": 1}}})
            }
            kind if kind == REQUEST => json!({"phase": "Deployed"}),
            _ => json!({}),
        };
        Object::from_value(json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"namespace": "models", "name": name}, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    proptest! {
        /// Whatever happens, an object of which the cause is another than before is looked at, so that no script is forgotten.
        #[test]
        fn every_object_whose_cause_changes_is_looked_at(
            steps in prop::collection::vec((0..5u8, 0..3u8, prop::option::weighted(0.8, 0..3u8)), 1..40),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let cluster = EmbeddedCluster::open(folder.path(), EmbeddedOptions::default()).unwrap();
            let mut driver = OperatorDriver::new(cluster, 1.0);
            let mut there = BTreeSet::new();
            let mut causes = BTreeMap::new();
            for (kind, name, names) in steps {
                let object = related(kind, name, names.unwrap_or_default());
                let reference = object.reference();
                if names.is_some() {
                    driver.objects.insert(object);
                    there.insert(reference);
                } else {
                    driver.objects.remove(&reference);
                    there.remove(&reference);
                }
                let changed = driver.objects.take_changed();
                let now: BTreeMap<ObjectRef, _> = there
                    .iter()
                    .filter_map(|one| Some((one.clone(), driver.script_cause(&driver.objects.get(one)?))))
                    .collect();
                for (one, cause) in &now {
                    prop_assert!(causes.get(one) == Some(cause) || changed.contains(one), "{one} is forgotten");
                }
                causes = now;
            }
        }
    }
}
