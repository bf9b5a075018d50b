//! From a repository and a cluster to a plan.

use super::args::ChangeArgs;
use super::error::CliError;
use super::repository::{self, Desired, Opened};
use crate::cluster::{Cluster, ClusterError};
use crate::dynamo::kinds;
use crate::object::Object;
use crate::plan::{self, Damaged, Plan, PlanInput, Record, Scope};
use std::collections::BTreeMap;

/// What a cluster holds in one namespace.
#[derive(Debug, Default)]
pub struct Live {
    /// Objects of the kinds that stator renders, whoever made them.
    pub objects: Vec<Object>,
    /// stator's records of all repositories and environments.
    pub records: Vec<Record>,
    /// Records that cannot be read.
    pub damaged: Vec<Damaged>,
}

/// Reads a namespace whole. A list that fails fails everything: a partial view would look like removals.
pub async fn read<C: Cluster>(cluster: &C, namespace: &str) -> Result<Live, CliError> {
    let all = BTreeMap::new();
    let mut live = Live::default();
    for kind in kinds::MANAGED {
        match cluster.list(kind, Some(namespace), &all).await {
            Ok(objects) => live.objects.extend(objects),
            // A cluster without Dynamo's kinds holds none of them; applying one says so.
            Err(ClusterError::UnknownKind { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for object in cluster.list(&kinds::RECORD, Some(namespace), &all).await? {
        match Record::from_object(&object) {
            Ok(record) => live.records.push(record),
            Err(error) => live.damaged.push(Damaged { object: object.reference(), message: error.to_string() }),
        }
    }
    live.records.sort_by(|a, b| a.model.cmp(&b.model));
    Ok(live)
}

/// A plan, and the records that it was made from.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The environment's records.
    pub records: Vec<Record>,
}

/// Plans an environment against what the cluster holds.
pub fn plan(opened: &Opened, desired: Desired, live: Live, arguments: &ChangeArgs) -> Planned {
    let input = input(opened, desired, live, arguments);
    let records = input
        .records
        .iter()
        .filter(|record| record.repository == input.repository && record.environment == input.environment)
        .cloned()
        .collect();
    let mut plan = plan::plan(&input);
    plan.findings = repository::in_scope(plan.findings, &opened.checkout.scope);
    Planned { plan, records }
}

/// What a plan of these is made of.
pub fn input(opened: &Opened, desired: Desired, live: Live, arguments: &ChangeArgs) -> PlanInput {
    let Desired { selection, target, rendered, findings: _ } = desired;
    let checkout = &opened.checkout;
    let scope = if checkout.scope.is_everything() {
        Scope::All
    } else {
        // A model that is gone from the folder is known by its record.
        let here = |source: &str| checkout.scope.contains(source);
        let mut names: std::collections::BTreeSet<String> =
            rendered.iter().filter(|model| here(&model.source)).map(|model| model.model.clone()).collect();
        names.extend(
            selection.broken.iter().filter(|broken| here(&broken.source)).filter_map(|broken| broken.name.clone()),
        );
        names.extend(live.records.iter().filter(|record| here(&record.source)).map(|record| record.model.clone()));
        Scope::Models(names)
    };
    PlanInput {
        repository: target.repository,
        environment: target.environment,
        namespace: target.namespace,
        revision: checkout.revision.clone(),
        findings: selection.findings,
        rendered,
        broken: selection.broken,
        live: live.objects,
        records: live.records,
        damaged: live.damaged,
        guards: selection.guards,
        prices: selection.prices,
        allow: arguments.allowed(),
        prune: arguments.prune,
        scope,
        empty_render: false,
    }
}
