//! From a repository and a cluster to a plan.

use super::args::ChangeArgs;
use super::error::{CliError, CliErrorKind};
use super::repository::{self, DesiredState, OpenedRepository};
use super::selected_part::{self, SelectedPart};
use stator_cluster::cluster::{AnyCluster, Cluster};
use stator_cluster::sync::{self, EnvironmentStatus, GatherError, GatheredState, PlanParameters};
use stator_core::dynamo::kinds;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::{self, Plan, PlanInput, PlanScope, Record, SyncBookkeeping};
use std::collections::BTreeSet;

/// More records than these of models that git no longer has are read with all others.
const MAX_REMOVED: usize = 16;

/// Looks at everything that a plan of these objects needs to know of a cluster. Nothing is left of what is desired when
/// that says that the repository lost its settings.
pub async fn gather_live_state<C: Cluster>(
    cluster: &C,
    opened: &OpenedRepository,
    desired: &mut DesiredState,
) -> Result<GatheredState, CliError> {
    let live = desired.gather_live(cluster).await?;
    if !opened.workspace.is_named() {
        sync::refuse_lost_settings(cluster, desired, &live).await;
    }
    let rendered = desired.rendered.iter().map(|model| model.model.as_str());
    let broken = desired.selection.broken.iter().filter_map(|broken| broken.name.as_deref());
    // A model that git no longer has is known by its record.
    let recorded = live.records.iter().map(|record| record.model.as_str());
    opened.models.check_names(rendered.chain(broken).chain(recorded))?;
    Ok(live)
}

impl From<GatherError> for CliError {
    fn from(error: GatherError) -> Self {
        let hints = Self::from(error.cause.clone());
        hints.hints().iter().fold(Self::new(CliErrorKind::Cluster, error.to_string()), |all, hint| all.with_hint(hint))
    }
}

/// A plan, and what it was made from.
#[derive(Debug)]
pub struct PlanWithBookkeeping {
    /// The plan.
    pub plan: Plan,
    /// The environment's records, and what is left of journals.
    pub bookkeeping: SyncBookkeeping,
}

/// Plans an environment against what the cluster holds.
pub async fn plan_changes<C: Cluster>(
    cluster: &C,
    opened: &OpenedRepository,
    desired: DesiredState,
    live: GatheredState,
    arguments: &ChangeArgs,
) -> PlanWithBookkeeping {
    let mut input = plan_input(opened, desired, live, arguments);
    let bookkeeping = plan::own_bookkeeping(&input);
    let mut plan = sync::build_explained_plan(cluster, &mut input).await;
    plan.findings = repository::findings_in_scope(plan.findings, &opened.checkout.scope);
    PlanWithBookkeeping { plan, bookkeeping }
}

/// The plan of the selected models by what they are alone; `None` where a look at everything may say something else.
pub async fn plan_selected(
    cluster: &AnyCluster,
    opened: &OpenedRepository,
    selection: &ResolvedEnvironment,
    policies: &FleetPolicies,
    arguments: &ChangeArgs,
) -> Option<Plan> {
    let mut input = input_of_selected(cluster, opened, selection, policies, arguments).await?;
    let mut plan = sync::build_explained_plan(cluster, &mut input).await;
    plan.findings = repository::findings_in_scope(plan.findings, &opened.checkout.scope);
    selected_part::is_self_contained(&plan).then_some(plan)
}

/// The selected models and those that may share an object with them, rendered; `None` where that may be everything.
fn render_part<'a>(
    opened: &'a OpenedRepository,
    selection: &'a ResolvedEnvironment,
    policies: &FleetPolicies,
) -> Option<(SelectedPart<'a>, DesiredState)> {
    let mut part = SelectedPart::of_selected(opened, selection, policies)?;
    let mut desired = opened.render_selection(part.to_environment(), policies.clone());
    while part.take_in_related(&desired.rendered)? {
        desired = opened.render_selection(part.to_environment(), policies.clone());
    }
    Some((part, desired))
}

/// The names of the selected models and of those that may share an object with them; `None` where that may be everything.
pub fn related_models(opened: &OpenedRepository, selection: &ResolvedEnvironment) -> Option<BTreeSet<String>> {
    let (part, _) = render_part(opened, selection, &FleetPolicies::default())?;
    Some(part.names())
}

/// What a plan of the selected models is made of, without the models that have nothing to do with them. `None` where
/// everything has to be looked at, or a look failed: the one at everything says why.
async fn input_of_selected(
    cluster: &AnyCluster,
    opened: &OpenedRepository,
    selection: &ResolvedEnvironment,
    policies: &FleetPolicies,
    arguments: &ChangeArgs,
) -> Option<PlanInput> {
    let (part, desired) = render_part(opened, selection, policies)?;
    let members = part.names();
    let removed = part.removed_models(cluster.names(&kinds::RECORD, &desired.target.namespace).await.ok()?);
    if removed.len() > MAX_REMOVED {
        return None;
    }
    let mut models: BTreeSet<String> = members.union(&removed).cloned().collect();
    models.extend(opened.models.names().iter().cloned());
    let live = desired.gather_live_of(cluster, &models).await.ok()?;
    let is_recorded = |name: &String| live.records.iter().any(|record| record.model == *name);
    let is_removed =
        |record: &Record| removed.contains(&record.model) && opened.checkout.scope.contains(&record.source);
    // The look at everything tells who names a model that is nowhere, what git lost, and whose record somebody deleted.
    let tells_more = !opened.models.names().iter().all(|name| is_recorded(name) || members.contains(name))
        || !members.iter().all(is_recorded)
        || !opened.workspace.is_named()
        || live.records.iter().any(is_removed);
    if tells_more {
        return None;
    }
    Some(plan_input(opened, desired, live, arguments))
}

/// What the status of the selected models is made of, where they can be looked at without the others.
pub async fn input_of_few(
    opened: &OpenedRepository,
    selection: &ResolvedEnvironment,
    cluster: &AnyCluster,
) -> Option<PlanInput> {
    input_of_selected(cluster, opened, selection, &FleetPolicies::default(), &ChangeArgs::for_status()).await
}

/// Every selected model's status, and what it was read from.
pub async fn read_statuses(
    opened: &OpenedRepository,
    selection: ResolvedEnvironment,
    cluster: &AnyCluster,
) -> Result<EnvironmentStatus, CliError> {
    let (policies, arguments) = (FleetPolicies::default(), ChangeArgs::for_status());
    if let Some(mut input) = input_of_selected(cluster, opened, &selection, &policies, &arguments).await {
        let status = sync::read_environment_status(cluster, &mut input, jiff::Timestamp::now()).await;
        if selected_part::is_self_contained(&status.plan) {
            return Ok(status);
        }
    }
    let mut input = status_input(opened, opened.render_selection(selection, policies), cluster).await?;
    Ok(sync::read_environment_status(cluster, &mut input, jiff::Timestamp::now()).await)
}

/// What statuses are made of.
pub async fn status_input(
    opened: &OpenedRepository,
    mut desired: DesiredState,
    cluster: &AnyCluster,
) -> Result<PlanInput, CliError> {
    let found = gather_live_state(cluster, opened, &mut desired).await?;
    Ok(plan_input(opened, desired, found, &ChangeArgs::for_status()))
}

/// What a plan of these is made of.
pub fn plan_input(
    opened: &OpenedRepository,
    desired: DesiredState,
    live: GatheredState,
    arguments: &ChangeArgs,
) -> PlanInput {
    let checkout = &opened.checkout;
    let scope = if checkout.scope.is_everything() {
        PlanScope::All
    } else {
        // A model that is gone from the folder is known by its record.
        let here = |source: &str| checkout.scope.contains(source);
        let models = desired.rendered.iter().filter(|model| here(&model.source));
        let mut names: BTreeSet<String> = models.map(|model| model.model.clone()).collect();
        let broken = desired.selection.broken.iter().filter(|broken| here(&broken.source));
        names.extend(broken.filter_map(|broken| broken.name.clone()));
        let wanted = |record: &&Record| here(&record.source) || opened.models.names().contains(&record.model);
        names.extend(live.records.iter().filter(wanted).map(|record| record.model.clone()));
        PlanScope::Models(names)
    };
    let aim = PlanParameters {
        revision: checkout.revision.clone(),
        folder: (!opened.workspace.is_named()).then(|| checkout.root.to_string_lossy().into_owned()),
        rewound: None,
        allow: arguments.allowed_holds(),
        prune: arguments.prune,
        scope,
    };
    desired.into_plan_input(live, aim)
}
