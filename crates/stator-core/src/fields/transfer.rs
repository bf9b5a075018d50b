//! Moving ownership of fields from those who wrote them before to the manager that applies them from now on.
//!
//! Server-side apply never takes a field from another manager that has set the same value: both own it, and a field that
//! one gives up stays for the other. kubectl moves ownership the same way when it goes from client-side to server-side
//! apply (k8s.io/client-go/util/csaupgrade): it rewrites `metadata.managedFields`, with the resource version as
//! precondition.

use super::apply::NEVER_OWNED;
use super::field_set::FieldSet;
use super::managers::{FieldManager, ManagedFieldsError, ManagerOperation, read_managers, write_managers};
use super::schema::StructuralSchema;
use crate::object::{FieldPath, MalformedObjectError, Object, PathSegment};
use serde_json::Value;
use std::collections::BTreeSet;

/// The annotation in which client-side `kubectl apply` keeps the manifest that it applied last. While it is there, a later
/// `kubectl apply` removes what its manifest no longer has.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which fields pass to the manager that applies them, and from whom. Nothing but `metadata` of the object changes, so
/// that its generation stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnershipTransfer {
    /// The managers that give fields up, by name and operation; only what they own of the object itself, and nothing that
    /// they wrote through a subresource.
    pub from: BTreeSet<(String, ManagerOperation)>,
    /// The fields that they give up, and with a list item everything in it. What they own of the object at another version than
    /// the schema's cannot be compared field by field: of that they give up all of `spec`.
    pub fields: FieldSet,
    /// Labels that go.
    pub labels: BTreeSet<String>,
    /// Annotations that go.
    pub annotations: BTreeSet<String>,
}

/// Why ownership cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The live object's ownership records cannot be read.
    #[error(transparent)]
    MalformedManagedFields(#[from] ManagedFieldsError),
    /// What is left is no object.
    #[error(transparent)]
    MalformedObject(#[from] MalformedObjectError),
}

impl OwnershipTransfer {
    /// The live object after the transfer; `None` when it changes nothing. `receiver` owns the fields by
    /// [`ManagerOperation::Apply`] then. An object without any managers gets the receiver as its first: the first apply would
    /// otherwise give all of it to a manager `before-first-apply`.
    ///
    /// # Errors
    /// When the object's `managedFields` cannot be read.
    pub fn carry_out(
        &self,
        schema: &StructuralSchema,
        live: &Object,
        receiver: &str,
    ) -> Result<Option<Object>, TransferError> {
        let before = read_managers(live.value())?;
        let mut received = FieldSet::new();
        let mut after = Vec::with_capacity(before.len() + 1);
        if before.is_empty() {
            received = FieldSet::from_value(schema, live.value()).intersection(&self.fields);
        }
        for manager in &before {
            let mut manager = manager.clone();
            if self.concerns(&manager) {
                if manager.api_version == schema.api_version {
                    received = received.union(&manager.fields.intersection(&self.fields));
                    manager.fields = manager.fields.without(&self.fields).without_empty_containers_of(&self.fields);
                } else {
                    let spec = FieldSet::from_paths([FieldPath::from_fields(["spec"])]);
                    manager.fields = manager.fields.without(&spec).without(&self.fields);
                }
            }
            after.push(manager);
        }
        after.retain(|manager| !manager.fields.is_empty());
        received = received.difference(&NEVER_OWNED);
        if !received.is_empty() {
            let mut own = FieldManager {
                name: receiver.to_owned(),
                operation: ManagerOperation::Apply,
                subresource: None,
                api_version: schema.api_version.clone(),
                time: None,
                fields: FieldSet::new(),
            };
            if let Some(at) = after.iter().position(|manager| manager.identity() == own.identity()) {
                let known = after.remove(at);
                own.time = known.time;
                // What was applied at another version is named by the next apply.
                own.fields = if known.api_version == own.api_version { known.fields } else { FieldSet::new() };
            }
            own.fields = own.fields.union(&received);
            after.push(own);
        }
        let (mut value, gone) = self.without_marks(live);
        for manager in &mut after {
            manager.fields = manager.fields.without(&gone).without_empty_containers_of(&gone);
        }
        after.retain(|manager| !manager.fields.is_empty());
        if after == before && gone.is_empty() {
            return Ok(None);
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("managedFields".to_owned(), write_managers(after));
        }
        Ok(Some(Object::from_value(value)?))
    }

    /// The object without the labels and annotations that go, and the fields that are gone with them.
    fn without_marks(&self, live: &Object) -> (Value, FieldSet) {
        let mut value = live.value().clone();
        let mut gone = Vec::new();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for (field, names) in [("labels", &self.labels), ("annotations", &self.annotations)] {
                let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else { continue };
                for name in names {
                    if map.remove(name).is_some() {
                        gone.push(FieldPath::from_fields(["metadata", field, name.as_str()]));
                    }
                }
                if map.is_empty() {
                    metadata.remove(field);
                }
            }
        }
        (value, FieldSet::from_paths(gone))
    }

    fn concerns(&self, manager: &FieldManager) -> bool {
        manager.subresource.is_none() && self.from.contains(&(manager.name.clone(), manager.operation))
    }
}

/// Whether a manager owns nothing of an object's `spec` but replica counts, as autoscalers do.
pub fn owns_only_replicas(manager: &FieldManager) -> bool {
    let is_of_spec = |path: &FieldPath| path.0.first() == Some(&PathSegment::Field("spec".to_owned()));
    let mut fields = manager.fields.leaves().filter(is_of_spec).peekable();
    fields.peek().is_some() && fields.all(|path| path.last_field() == Some("replicas"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::bundled_schema;
    use serde_json::json;

    fn graph(env: Value) -> Value {
        json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama", "namespace": "prod", "labels": {"team": "search"}},
            "spec": {"components": [{"name": "worker", "type": "worker", "replicas": 2, "podTemplate": {"spec": {
                "containers": [{"name": "main", "image": "x:1", "env": env}]}}}]},
        })
    }

    fn schema() -> &'static StructuralSchema {
        bundled_schema("nvidia.com/v1beta1", "DynamoGraphDeployment").unwrap()
    }

    fn created(value: Value, manager: &str) -> Object {
        let tracked = crate::fields::update(schema(), &Value::Null, value, manager, false, "2026-01-01T00:00:00Z");
        Object::from_value(tracked).unwrap()
    }

    fn transfer(from: &str, operation: ManagerOperation, declared: &Value) -> OwnershipTransfer {
        OwnershipTransfer {
            from: BTreeSet::from([(from.to_owned(), operation)]),
            fields: FieldSet::from_value(schema(), declared),
            ..OwnershipTransfer::default()
        }
    }

    #[test]
    fn what_is_declared_passes_whole_and_the_rest_stays() {
        let env = json!([{"name": "A", "value": "1"}]);
        let live = created(graph(env.clone()), "kubectl-create");
        let mut declared = graph(env);
        declared["metadata"].as_object_mut().unwrap().remove("labels");
        let moved = transfer("kubectl-create", ManagerOperation::Update, &declared);
        let moved = moved.carry_out(schema(), &live, "stator").unwrap().unwrap();
        let managers = crate::fields::managers(&moved).unwrap();
        let rest = managers.iter().find(|one| one.name == "kubectl-create").unwrap();
        let left: Vec<String> = rest.fields.iter().map(|path| path.to_string()).collect();
        assert_eq!(left, ["metadata.labels", "metadata.labels.team"]);
        let own = crate::fields::applied_fields(&moved, "stator").unwrap();
        assert!(own.len() > 8, "{own:?}");
        assert_eq!(moved.spec(), live.spec());
    }

    /// Of an object whose managers somebody cleared, the first apply would give everything to `before-first-apply`.
    #[test]
    fn an_object_without_managers_gets_its_first_one() {
        let env = json!([{"name": "A", "value": "1"}]);
        let live = Object::from_value(graph(env.clone())).unwrap();
        let moved = transfer("nobody", ManagerOperation::Update, &graph(env));
        let moved = moved.carry_out(schema(), &live, "stator").unwrap().unwrap();
        let managers = crate::fields::managers(&moved).unwrap();
        let [only] = managers.as_slice() else { panic!("{managers:?}") };
        assert_eq!((only.name.as_str(), only.operation), ("stator", ManagerOperation::Apply));
        assert!(!only.fields.contains(&FieldPath::from_fields(["metadata", "name"])), "nobody owns a name");
    }
}
