//! From a repository and a cluster to a plan.

use super::args::ChangeArgs;
use super::error::{CliError, ErrorKind};
use super::repository::{self, Desired, Opened};
use crate::cluster::Cluster;
use crate::object::ObjectRef;
use crate::plan::{self, Plan, PlanInput, Record, Scope};
use crate::sync::{self, GatherError, Gathered};
use rayon::prelude::*;

/// Looks at everything that a plan of these objects needs to know of a cluster.
pub async fn read<C: Cluster>(cluster: &C, desired: &Desired) -> Result<Gathered, CliError> {
    let models = desired.rendered.iter();
    let wanted: Vec<ObjectRef> =
        models.flat_map(|model| model.objects.iter().map(|object| object.object.reference())).collect();
    let target = &desired.target;
    Ok(sync::gather(cluster, &target.repository, &target.environment, &target.namespace, &wanted).await?)
}

impl From<GatherError> for CliError {
    fn from(error: GatherError) -> Self {
        let hints = Self::from(error.cause.clone());
        hints.hints().iter().fold(Self::new(ErrorKind::Cluster, error.to_string()), |all, hint| all.hint(hint))
    }
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
pub fn plan(opened: &Opened, desired: Desired, live: Gathered, arguments: &ChangeArgs) -> Planned {
    let input = input(opened, desired, live, arguments);
    let records = input
        .records
        .iter()
        .filter(|record| record.repository == input.repository && record.environment == input.environment)
        .cloned()
        .collect();
    let mut plan = plan::plan(&input);
    plan.findings = repository::in_scope(plan.findings, &opened.checkout.scope);
    // Ten thousand trees take a while to take down, too.
    input.live.into_par_iter().for_each(drop);
    Planned { plan, records }
}

/// What a plan of these is made of.
pub fn input(opened: &Opened, desired: Desired, live: Gathered, arguments: &ChangeArgs) -> PlanInput {
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
        folder: (!opened.workspace.is_named()).then(|| checkout.root.to_string_lossy().into_owned()),
        environment: target.environment,
        namespace: target.namespace,
        revision: checkout.revision.clone(),
        findings: selection.findings,
        rendered,
        broken: selection.broken,
        live: live.live,
        records: live.records,
        strays: live.strays,
        damaged: live.damaged,
        guards: selection.guards,
        prices: selection.prices,
        allow: arguments.allowed(),
        prune: arguments.prune,
        scope,
        empty_render: false,
    }
}
