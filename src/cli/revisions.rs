//! `plan --from REV`: one revision against another, no cluster.

use super::args::EnvironmentArgs;
use super::error::CliError;
use super::repository::{self, OpenedRepository};
use super::targets::{TargetedModels, model_names};
use stator_cluster::sync::{DesiredState, UpgradedEnvironment};
use stator_git::source;
use stator_model::fleet_policy::{FleetPolicies, SourcePolicies};
use stator_model::intent::{EnvironmentError, SourceTree, Workspace};
use stator_model::plan::UpgradeForesight;
use stator_model::plan::{self, Plan, RevisionComparison};
use stator_model::render::RenderedText;
use std::collections::{BTreeMap, BTreeSet};

/// Plans what turns `from` into `to`, or into the files as they are.
pub fn compare_revisions(
    opened: &OpenedRepository,
    from: &str,
    to: Option<&str>,
    environment: &EnvironmentArgs,
    policies: FleetPolicies,
) -> Result<Plan, CliError> {
    let policies = opened.held_to(policies);
    let checkout = &opened.checkout;
    let (base_tree, base_revision) = source::read_tree_at(&checkout.root, from)?;
    let there;
    let (head_tree, head_revision) = match to {
        Some(revision) => {
            let (tree, commit) = source::read_tree_at(&checkout.root, revision)?;
            there = tree;
            (&there, commit)
        }
        None => (&checkout.tree, checkout.revision.clone()),
    };
    let (base, head) = (Workspace::parse(&base_tree), Workspace::parse(head_tree));
    let mut plan =
        plan_between(&opened.models, (&base, &base_revision), (&head, &head_revision), environment, &policies)?;
    plan.upgrade = foresee_upgrade(&base, (&head, head_tree), &opened.models, environment, &policies).map(Box::new);
    Ok(plan)
}

/// What the release of Dynamo does that the head names, where the base names another one.
fn foresee_upgrade(
    base: &Workspace,
    (head, head_tree): (&Workspace, &SourceTree),
    models: &TargetedModels,
    environment: &EnvironmentArgs,
    policies: &SourcePolicies,
) -> Option<UpgradeForesight> {
    let selected = repository::select_environment(head, environment).ok()?;
    let platform = selected.environment.platform.clone()?;
    let named = EnvironmentArgs { environment: Some(selected.name.clone()), ..environment.clone() };
    let from = repository::select_environment(base, &named).ok()?.environment.platform?.dynamo?;
    let to = platform.dynamo.filter(|to| *to != from)?;
    let scope = models.scope_in(&[&selected]);
    let upgraded = UpgradedEnvironment {
        name: &selected.name,
        tree: head_tree,
        select: &|workspace| repository::select_environment(workspace, &named).ok(),
        policies,
        platform: &platform,
        is_asked: &|source| scope.contains(source),
        live: &BTreeMap::new(),
    };
    Some(upgraded.foresee(from, to))
}

/// Plans what turns one state of a repository into another, each with the revision that it is.
pub fn plan_between(
    models: &TargetedModels,
    (base, base_revision): (&Workspace, &str),
    (head, head_revision): (&Workspace, &str),
    environment: &EnvironmentArgs,
    policies: &SourcePolicies,
) -> Result<Plan, CliError> {
    let (base_policies, head_policies) = (policies.of_size(base.size), policies.of_size(head.size));
    let head = repository::select_environment(head, environment)?;
    let mut scope = models.scope_in(&[&head]);
    let mut names: BTreeSet<String> = model_names(&head).map(str::to_owned).collect();
    let head = DesiredState::render(head, &head_policies);
    // Which environment is meant is the head's to say; the base may lack it, and then all of it is new.
    let named = EnvironmentArgs { environment: Some(head.target.environment.clone()), ..environment.clone() };
    let (base, base_broken) = match base.resolve_environment(named.environment.as_deref()) {
        Ok(_) => {
            let base = repository::select_environment(base, &named)?;
            // What a name or a label selects in either of them is compared.
            models.scope_in(&[&base]).parts().for_each(|part| scope.add(part.clone()));
            names.extend(model_names(&base).map(str::to_owned));
            let desired = DesiredState::render(base, &base_policies);
            (desired.rendered, desired.selection.broken)
        }
        Err(EnvironmentError::Unknown { .. }) => (Vec::new(), Vec::new()),
        Err(error @ (EnvironmentError::Ambiguous { .. } | EnvironmentError::Unreadable { .. })) => {
            return Err(error.into());
        }
    };
    models.check_names(names.iter().map(String::as_str))?;
    let here = |models: Vec<RenderedText>| -> Vec<RenderedText> {
        models.into_iter().filter(|model| scope.contains(&model.source)).collect()
    };
    let (base, rendered) = (here(base), here(head.rendered));
    let findings = repository::findings_in_scope(head.findings, &scope);
    Ok(plan::compare_revisions(&RevisionComparison {
        repository: &head.target.repository,
        environment: &head.target.environment,
        base: &base,
        base_revision,
        base_broken: &base_broken,
        head: &rendered,
        head_revision,
        broken: &head.selection.broken,
        unread: &head.selection.unread,
        findings: &findings,
        prices: head.selection.prices.as_ref(),
        guards: head.selection.guards,
        unchanged: plan::UnchangedTotals::default(),
        platform: head.target.platform.clone(),
    }))
}
