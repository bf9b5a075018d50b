//! From a repository and a cluster to a plan.

use super::args::ChangeArgs;
use super::error::{CliError, ErrorKind};
use super::repository::{self, Desired, Opened};
use rayon::prelude::*;
use stator_cluster::cluster::Cluster;
use stator_cluster::sync::{Aim, GatherError, Gathered};
use stator_model::plan::{self, Plan, PlanInput, Record, Scope};

/// Looks at everything that a plan of these objects needs to know of a cluster.
pub async fn read<C: Cluster>(cluster: &C, desired: &Desired) -> Result<Gathered, CliError> {
    Ok(desired.look(cluster).await?)
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
    let checkout = &opened.checkout;
    let scope = if checkout.scope.is_everything() {
        Scope::All
    } else {
        // A model that is gone from the folder is known by its record.
        let here = |source: &str| checkout.scope.contains(source);
        let models = desired.rendered.iter().filter(|model| here(&model.source));
        let mut names: std::collections::BTreeSet<String> = models.map(|model| model.model.clone()).collect();
        let broken = desired.selection.broken.iter().filter(|broken| here(&broken.source));
        names.extend(broken.filter_map(|broken| broken.name.clone()));
        names.extend(live.records.iter().filter(|record| here(&record.source)).map(|record| record.model.clone()));
        Scope::Models(names)
    };
    let aim = Aim {
        revision: checkout.revision.clone(),
        folder: (!opened.workspace.is_named()).then(|| checkout.root.to_string_lossy().into_owned()),
        allow: arguments.allowed(),
        prune: arguments.prune,
        scope,
    };
    desired.input(live, aim)
}
