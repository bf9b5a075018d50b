//! What a plan needs to know of a cluster: live objects and records, all or nothing.

use crate::cluster::{Cluster, ClusterError};
use crate::dynamo::kinds;
use crate::object::{Object, ObjectIdentity, ObjectRef};
use crate::plan::{self, Damaged, Record};
use std::collections::{BTreeMap, BTreeSet};

/// What a cluster holds of one environment.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Objects of the kinds that stator renders: those that carry the environment's labels, and those of the wanted
    /// names whoever made them. Sorted by reference.
    pub live: Vec<Object>,
    /// The records of the environment, sorted by model.
    pub records: Vec<Record>,
    /// Records of the environment in other namespaces, sorted by namespace and model: what it left behind when it moved.
    pub strays: Vec<Record>,
    /// Records that cannot be read: their models are neither synced nor pruned.
    pub damaged: Vec<Damaged>,
}

/// Why a cluster could not be looked at.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{what} cannot be read from the cluster, so nothing is planned (a partial view would look like removals): {cause}"
)]
pub struct GatherError {
    /// What was asked for.
    pub what: String,
    /// The cluster's answer.
    #[source]
    pub cause: ClusterError,
}

/// Reads live objects and records of one environment. Each kind is listed once, by label; wanted objects that no list
/// showed are looked up one by one, because what somebody else made carries no label of ours.
///
/// # Errors
/// When any list or look-up fails: nobody may prune on a partial view. A kind that the cluster does not serve is a
/// failure too, unless nothing wanted is of that kind.
pub async fn gather<C: Cluster>(
    cluster: &C,
    repository: &str,
    environment: &str,
    namespace: &str,
    wanted: &[ObjectRef],
) -> Result<Gathered, GatherError> {
    let labels = BTreeMap::from([
        (kinds::LABEL_MANAGED_BY.to_owned(), kinds::MANAGER.to_owned()),
        (kinds::LABEL_REPOSITORY.to_owned(), repository.to_owned()),
        (kinds::LABEL_ENVIRONMENT.to_owned(), environment.to_owned()),
    ]);
    let mut live: BTreeMap<ObjectIdentity, Object> = BTreeMap::new();
    let mut unserved = BTreeSet::new();
    for kind in kinds::MANAGED {
        match cluster.list(kind, Some(namespace), &labels).await {
            Ok(objects) => live.extend(objects.into_iter().map(|object| (object.reference().identity(), object))),
            Err(ClusterError::UnknownKind { .. }) if !wanted.iter().any(|object| object.kind == kind.kind) => {
                unserved.insert(kind.kind);
            }
            Err(cause) => return Err(GatherError { what: format!("{}s", kind.kind), cause }),
        }
    }
    let listed = cluster
        .list(&kinds::RECORD, Some(namespace), &BTreeMap::new())
        .await
        .map_err(|cause| GatherError { what: "stator's records".to_owned(), cause })?;
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for object in listed {
        match Record::from_object(&object) {
            Ok(record) if record.repository == repository && record.environment == environment => records.push(record),
            Ok(_) => {}
            Err(fault) => damaged.push(Damaged {
                object: object.reference(),
                message: fault.to_string(),
                is_foreign: fault.is_foreign(),
            }),
        }
    }
    records.sort_by(|a: &Record, b| a.model.cmp(&b.model));
    // What a record names and no list showed is gone, or somebody took our labels off it: worth a look either way.
    let recorded = records.iter().flat_map(|record| &record.inventory).map(|entry| &entry.object);
    for object in wanted.iter().chain(recorded) {
        let identity = object.identity();
        if live.contains_key(&identity) || unserved.contains(object.kind.as_str()) {
            continue;
        }
        match cluster.get(object).await {
            Ok(Some(found)) => {
                live.insert(identity, found);
            }
            Ok(None) => {}
            Err(cause) => return Err(GatherError { what: object.to_string(), cause }),
        }
    }
    // What a request made is the model's too, though it carries no label of ours and no record names it.
    let made: Vec<ObjectRef> = live.values().filter_map(plan::made_by).collect();
    for object in made {
        let identity = object.identity();
        if live.contains_key(&identity) {
            continue;
        }
        match cluster.get(&object).await {
            Ok(Some(found)) => {
                live.insert(identity, found);
            }
            Ok(None) => {}
            Err(cause) => return Err(GatherError { what: object.to_string(), cause }),
        }
    }
    let mut live: Vec<Object> = live.into_values().collect();
    live.sort_by_cached_key(Object::reference);
    let strays = strays(cluster, &labels, namespace).await;
    Ok(Gathered { live, records, strays, damaged })
}

/// The environment's records outside its namespace. Only a warning hangs from them, so a cluster that does not let us
/// look into other namespaces, or holds something unreadable there, is no reason to plan nothing.
async fn strays<C: Cluster>(cluster: &C, labels: &BTreeMap<String, String>, namespace: &str) -> Vec<Record> {
    let everywhere = match cluster.list(&kinds::RECORD, None, labels).await {
        Ok(records) => records,
        Err(error) => {
            tracing::info!(%error, "records in other namespaces are not looked at");
            return Vec::new();
        }
    };
    let elsewhere = everywhere.iter().filter(|record| record.namespace() != namespace);
    elsewhere.filter_map(|record| Record::from_object(record).ok()).collect()
}
