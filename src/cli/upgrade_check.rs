//! `stator check --dynamo`: what another release of Dynamo does to the models of a repository.

use super::args::{ClusterArgs, EmptyArgs, EnvironmentArgs, ReportFormat};
use super::connect::ClusterAccess;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::repository::{self, OpenedRepository};
use super::targets::{TargetArgs, model_names};
use super::trusted_contexts::EnvironmentContext;
use super::{connect, files, live_plan};
use stator_cluster::sync::UpgradedEnvironment;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Release;
use stator_core::object::{Object, ObjectIdentity};
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::UpgradeForesight;
use stator_model::present::{pluralize, upgrade as present};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is asked.
pub struct UpgradeCheck<'a> {
    /// The release that would run.
    pub to: Release,
    /// Which models.
    pub targets: &'a TargetArgs,
    /// Of which environment.
    pub environment: EnvironmentArgs,
    /// Which cluster has them, where that is said.
    pub cluster: &'a ClusterArgs,
    /// Whether a repository of nothing will do.
    pub empty: EmptyArgs,
    /// Whether to write the corrections.
    pub write: bool,
    /// Report format.
    pub output: ReportFormat,
}

/// Foresees the upgrade, shows it, and writes the corrections where that is asked for.
///
/// # Errors
/// When the repository or the environment cannot be read, the cluster cannot be reached, or a file cannot be written.
pub async fn run(check: UpgradeCheck<'_>, output: &Output) -> Result<ExitStatus, CliError> {
    if check.to == Release::Newer {
        let newest = check.to.nearest_known();
        return Err(CliError::usage(format!("nothing is known of releases of Dynamo after {newest}"))
            .with_hint(format!("check {newest}, or use a newer stator")));
    }
    let opened = repository::open_targets(check.targets, output)?;
    opened.refuse_when_empty(check.empty, output)?;
    let (root, foresight) = connect::with_timeout(check.cluster, foresee_upgrade(&check, opened, output)).await?;
    if check.write {
        for file in &foresight.corrections {
            files::write_atomically(&root.join(&file.file), file.text.as_bytes())?;
        }
    }
    let text = || present::text(&foresight, check.write, &output.stdout_style);
    output.write_result(&check.output.encode(&foresight)?.unwrap_or_else(text))?;
    if check.write {
        output.note(&format!("wrote {}", pluralize(foresight.corrections.len(), "file", "files")));
    }
    let is_refused = if check.write { foresight.is_refused_when_corrected() } else { foresight.is_refused() };
    Ok(if is_refused { ExitStatus::Negative } else { ExitStatus::Success })
}

async fn foresee_upgrade(
    check: &UpgradeCheck<'_>,
    mut opened: OpenedRepository,
    output: &Output,
) -> Result<(PathBuf, UpgradeForesight), CliError> {
    let mut selection = opened.select(&check.environment, output)?;
    repository::note_when_environment_empty(&opened, &selection, output);
    opened.models.check_names(model_names(&selection))?;
    let mut live = BTreeMap::new();
    if check.cluster.names_cluster() {
        live = read_live_objects(check, &opened, &mut selection, output).await?;
    }
    let platform = selection.environment.platform.clone().unwrap_or_default();
    let from = release_of(&platform, check.to, output);
    let policies = opened.held_to(FleetPolicies::default());
    let scope = opened.checkout.scope.clone();
    let environment = UpgradedEnvironment {
        name: &selection.name,
        tree: &opened.checkout.tree,
        // It could be selected before, and a correction that hinders that is none.
        select: &|workspace| repository::select_environment(workspace, &check.environment).ok(),
        policies: &policies,
        platform: &platform,
        is_asked: &|source| scope.contains(source),
        live: &live,
    };
    let foresight = environment.foresee(from, check.to);
    Ok((opened.checkout.root, foresight))
}

/// What the cluster runs and has.
async fn read_live_objects(
    check: &UpgradeCheck<'_>,
    opened: &OpenedRepository,
    selection: &mut ResolvedEnvironment,
    output: &Output,
) -> Result<BTreeMap<ObjectIdentity, Object>, CliError> {
    let context = EnvironmentContext::of(selection.environment.context.as_ref());
    let cluster = connect::open(check.cluster, ClusterAccess::Read, &opened.checkout.root, context, output).await?;
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, selection).await;
    let mut desired = opened.render_selection(selection.clone(), FleetPolicies::default());
    let found = live_plan::gather_live_state(&cluster, opened, &mut desired).await?;
    Ok(found.live.iter().map(|one| (one.reference().identity(), one.parse())).collect())
}

/// The release that runs: the cluster's, or else the environment's. Where neither is known, the one at the other end of what
/// stator knows, as most is foretold from there.
fn release_of(platform: &Platform, to: Release, output: &Output) -> Release {
    if platform.served.is_some() || platform.dynamo.is_some() {
        return platform.release();
    }
    let assumed = if to > Release::V1_2 { Release::V1_2 } else { Release::V1_5 };
    output.note(&format!(
        "note: which release of Dynamo runs is not known; {assumed} is assumed. Name yours with `platform: {{dynamo: …}}` \
         under the environment in stator.yaml, or name the cluster with --context"
    ));
    assumed
}
