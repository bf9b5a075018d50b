//! The cluster as a plan looks at it: objects by identity, records by model, and whose an object is.

use super::{ForeignOwner, InventoryEntry, KeptBy, PlanInput, Record, applyset};
use serde_json::Value;
use stator_core::deployment_tools::{self, ToolTracking};
use stator_core::dynamo::kinds::{
    FIELD_MANAGER, GRAPH, LABEL_ENVIRONMENT, LABEL_MODEL, LABEL_REPOSITORY, RECORD, REQUEST,
};
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The cluster's side of a plan, indexed. The maps are only ever asked, never walked, so their order cannot show.
pub(super) struct PlanContext<'a> {
    pub(super) input: &'a PlanInput,
    live: HashMap<ObjectIdentity, &'a Object>,
    inventory: HashMap<ObjectIdentity, (&'a Record, &'a InventoryEntry)>,
    unreadable: HashMap<ObjectIdentity, &'a str>,
    records: BTreeMap<&'a str, &'a Record>,
    rendered: HashSet<&'a str>,
}

/// Whose a live object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LiveOwnership {
    /// stator's, for this repository and environment.
    Ours,
    /// Nobody's that says so, or another tool's, which may let go of it.
    Unowned(Option<ToolTracking>),
    /// Somebody else's.
    Foreign(ForeignOwner),
}

impl<'a> PlanContext<'a> {
    pub(super) fn new(input: &'a PlanInput) -> Self {
        let ours = |record: &&Record| record.repository == input.repository && record.environment == input.environment;
        let records: BTreeMap<&str, &Record> =
            input.records.iter().filter(ours).map(|record| (record.model.as_str(), record)).collect();
        let inventory = records
            .values()
            .flat_map(|record| record.inventory.iter().map(|entry| (entry.object.identity(), (*record, entry))))
            .collect();
        Self {
            input,
            live: input.live.iter().map(|object| (object.reference().identity(), object)).collect(),
            inventory,
            unreadable: input.unreadable.iter().map(|one| (one.object.identity(), one.message.as_str())).collect(),
            records,
            rendered: input.rendered.iter().map(|one| one.model.as_str()).collect(),
        }
    }

    pub(super) fn live(&self, object: &ObjectRef) -> Option<&'a Object> {
        self.live.get(&object.identity()).copied()
    }

    /// What a dry run made of the live object, where the cluster was asked about this very version of it.
    pub(super) fn dry_run_of(&self, live: &Object) -> Option<&'a Object> {
        let result = self.input.dry_runs.get(&live.reference().identity())?;
        (result.uid() == live.uid() && result.resource_version() == live.resource_version()).then_some(result)
    }

    /// The graph that a live request made, where it is there and says so itself.
    pub(super) fn graph_made_by(&self, request: &Object) -> Option<&'a Object> {
        let graph = self.live(&graph_made_by(request)?)?;
        (graph.labels().get(LABEL_REQUEST_NAME) == Some(&request.name())).then_some(graph)
    }

    /// Why a live object cannot be read, when it is there and cannot.
    pub(super) fn unreadable_reason(&self, object: &ObjectRef) -> Option<&'a str> {
        self.unreadable.get(&object.identity()).copied()
    }

    /// True when a record of this model is there and cannot be read.
    pub(super) fn is_record_unreadable(&self, model: &str) -> bool {
        self.input.unreadable.iter().any(|one| one.object.kind == RECORD.kind && one.object.name == model)
    }

    /// Why a model has no record that stator may write, when another tool holds it.
    pub(super) fn foreign_record_reason(&self, model: &str) -> Option<&'a str> {
        let mut records = self.input.unreadable.iter().filter(|one| one.is_foreign && one.object.kind == RECORD.kind);
        records.find(|one| one.object.name == model).map(|one| one.message.as_str())
    }

    /// This repository's and environment's records, by model.
    pub(super) fn records(&self) -> &BTreeMap<&'a str, &'a Record> {
        &self.records
    }

    /// True when git has a model of this name that can be rendered.
    pub(super) fn renders(&self, model: &str) -> bool {
        self.rendered.contains(model)
    }

    /// Models of another folder: see [`Self::other_folder_reason`]. Sorted.
    pub(super) fn other_folder_models(&self) -> impl Iterator<Item = &'a str> {
        self.records.keys().copied().filter(|model| self.other_folder_reason(model).is_some())
    }

    /// Why a model is another folder's, when it is: folders that no `stator.yaml` names share one name, so that only
    /// the record tells them apart. What this folder has is its own, wherever it was synced from before.
    pub(super) fn other_folder_reason(&self, model: &str) -> Option<KeptBy> {
        let here = self.input.folder.as_deref()?;
        let record = self.records.get(model).filter(|record| record.folder.as_deref() != Some(here))?;
        if self.renders(model) || self.input.broken.iter().any(|one| one.name.as_deref() == Some(model)) {
            return None;
        }
        Some(KeptBy::OtherFolder { folder: record.folder.clone(), repository: self.input.repository.clone() })
    }

    /// What the records say of an object.
    pub(super) fn inventory_entry(&self, object: &ObjectRef) -> Option<(&'a Record, &'a InventoryEntry)> {
        self.inventory.get(&object.identity()).copied()
    }

    /// Whose a live object is. Labels can be copied with a manifest, so they count only with the field manager, and a
    /// recorded uid counts by itself.
    pub(super) fn ownership_of(&self, object: &Object) -> LiveOwnership {
        if let Some(foreign) = foreign_owner(object) {
            return LiveOwnership::Foreign(foreign);
        }
        let labels = object.labels();
        let (repository, environment) = (labels.get(LABEL_REPOSITORY), labels.get(LABEL_ENVIRONMENT));
        if let Some(repository) = repository {
            let same = *repository == self.input.repository
                && environment.is_none_or(|environment| *environment == self.input.environment);
            if !same {
                return LiveOwnership::Foreign(ForeignOwner::Repository {
                    repository: (*repository).to_owned(),
                    environment: environment.copied().unwrap_or_default().to_owned(),
                });
            }
        }
        let own = model_of(object).map(|model| applyset::id_of(model, object.namespace()));
        if labels.get(applyset::PART_OF).is_some_and(|set| Some(*set) != own.as_deref()) {
            return LiveOwnership::Foreign(ForeignOwner::ApplySet);
        }
        if let Some(tracking) = deployment_tools::tracking_of(object) {
            return LiveOwnership::Unowned(Some(tracking));
        }
        let recorded = self.inventory_entry(&object.reference()).and_then(|(_, entry)| entry.uid.as_deref());
        let known = recorded.is_some() && recorded == object.uid();
        if known || (self.has_source_labels(object) && is_applied_by_stator(object)) {
            LiveOwnership::Ours
        } else {
            LiveOwnership::Unowned(None)
        }
    }

    /// True when the labels say that the object is this repository's, for this environment.
    pub(super) fn has_source_labels(&self, object: &Object) -> bool {
        let labels = object.labels();
        labels.get(LABEL_REPOSITORY) == Some(&self.input.repository.as_str())
            && labels.get(LABEL_ENVIRONMENT) == Some(&self.input.environment.as_str())
    }
}

/// The label by which a graph names the request that made it.
const LABEL_REQUEST_NAME: &str = "dgdr.nvidia.com/name";

/// The graph that a request says it made (`status.dgdName`); none for other kinds.
pub fn graph_made_by(request: &Object) -> Option<ObjectRef> {
    if request.kind() != REQUEST.kind {
        return None;
    }
    Some(ObjectRef {
        api_version: GRAPH.api_version(),
        kind: GRAPH.kind.to_owned(),
        namespace: request.namespace().to_owned(),
        name: request.str_at("/status/dgdName").filter(|name| !name.is_empty())?.to_owned(),
    })
}

/// The model that an object's label names.
pub(super) fn model_of(object: &Object) -> Option<&str> {
    object.labels().get(LABEL_MODEL).copied()
}

/// True when stator has applied the object: it has an entry among the field managers.
pub(super) fn is_applied_by_stator(object: &Object) -> bool {
    object.value().pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(|entries| {
        entries.iter().any(|entry| {
            entry.get("manager").and_then(Value::as_str) == Some(FIELD_MANAGER)
                && entry.get("operation").and_then(Value::as_str) == Some("Apply")
        })
    })
}

/// The other object that an object belongs to, whatever stator's labels say.
fn foreign_owner(object: &Object) -> Option<ForeignOwner> {
    let labels = object.labels();
    if let Some(request) = labels.get(LABEL_REQUEST_NAME) {
        return Some(ForeignOwner::Request { request: (*request).to_owned() });
    }
    let owner = object.value().pointer("/metadata/ownerReferences/0")?;
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or("?").to_owned();
    Some(ForeignOwner::Owner { kind: text("kind"), name: text("name") })
}
