//! The first state of an attempt: a commit's files, read and rendered, and what is live of them; of all models, or of those
//! that may have changed.

use super::SourceLabels;
use super::attempt_cache::{AttemptCache, EnvironmentWatch, SharedPlanner};
use super::context::ReconcileContext;
use super::failure::{AttemptFailure, RetryPolicy};
use crate::controller::cache::NamespaceCacheGuard;
use crate::controller::commit_reading::CommitReading;
use crate::controller::metrics::SyncStage;
use crate::controller::report::commit_statuses::CommitStatuses;
use crate::controller::status_wording::CommitStage;
use futures_util::FutureExt as _;
use stator_cluster::sync::incremental::PlanDelta;
use stator_cluster::sync::{self, DesiredState, GatheredState};
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::object::{ObjectRef, ObjectText};
use stator_model::fleet_policy::SourcePolicies;
use stator_model::intent::{ResolvedEnvironment, Workspace};
use stator_model::render::RenderTarget;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long the cluster is read, page by page; each request has a shorter deadline of its own.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// How long the cluster is asked what is installed.
pub(super) const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The environment's name in statuses where neither the source nor the repository tells it.
pub(super) const UNNAMED_ENVIRONMENT: &str = "default";

/// A commit, rendered: all of it, or what is to be looked at.
pub(super) struct RenderedCommit {
    pub(super) desired: DesiredState,
    /// What of it is to be looked at.
    pub(super) delta: PlanDelta,
    /// What administrators allow the source.
    pub(super) policies: Arc<SourcePolicies>,
    pub(super) planner: SharedPlanner,
    /// Whether the repository has a name of its own.
    pub(super) is_named: bool,
    /// Kept until it is planned.
    pub(super) reading: CommitReading,
}

impl RenderedCommit {
    /// Whether policies of administrators refuse all of it.
    pub(super) fn is_refused(&self) -> bool {
        !self.policies.bind(&self.desired.target.namespace).refusals().is_empty()
    }
}

/// A commit, rendered, and what is live of it.
pub(super) struct Gathered {
    pub(super) rendered: RenderedCommit,
    pub(super) live: GatheredState,
}

impl ReconcileContext {
    /// The folder that records name, where the repository has no name of its own.
    pub(super) fn recorded_folder(&self, is_named: bool) -> Option<String> {
        (!is_named).then(|| format!("{}#{}", self.source.url, self.source.folder))
    }

    /// Reads a commit and what is live of it. `reporter` hears how far it is, and the environment's name.
    pub(super) async fn gather(
        &self,
        commit: &str,
        reporter: Option<&CommitStatuses>,
        planner: SharedPlanner,
        (watch, cache): (&mut EnvironmentWatch, &mut AttemptCache),
    ) -> Result<Gathered, AttemptFailure> {
        watch.detector.begin_look();
        // What is live is listed while the models are rendered.
        let mut cache_guard = None;
        let mut rendered = self.render_commit(commit, reporter, planner, Some(&mut cache_guard)).boxed().await?;
        if reporter.is_some() {
            self.board.report_stage(commit, CommitStage::Planning, |_| {});
        }
        let live = self.gather_live(&mut rendered, watch, cache).boxed().await?;
        Ok(Gathered { rendered, live })
    }

    /// What is live of an environment, with a watch on it from before it is read.
    async fn gather_live(
        &self,
        rendered: &mut RenderedCommit,
        watch: &mut EnvironmentWatch,
        cache: &mut AttemptCache,
    ) -> Result<GatheredState, AttemptFailure> {
        let target = &rendered.desired.target;
        if watch.namespace != target.namespace {
            watch.detector.close();
            watch.namespace = target.namespace.clone();
            watch.cache_guard = Some(self.target.cluster.cache_namespace(&watch.namespace));
        }
        let owner = rendered.desired.owner.as_ref();
        watch.labels = Some(SourceLabels {
            repository: target.repository.clone(),
            environment: target.environment.clone(),
            owner_id: owner.map(|claim| claim.identity.owner_id()),
        });
        watch.detector.open(&self.target.cluster, &watch.namespace).await;
        let live = self.read_live(rendered, &mut cache.strays).boxed().await?;
        if rendered.delta.lists.is_everything() {
            watch.detector.set_baseline(&live.live);
        } else {
            watch.detector.extend_baseline(&live.live);
        }
        Ok(live)
    }

    /// Reads what is live of an environment, of what is to be looked at. `strays` are those of the last look.
    pub(super) async fn read_live(
        &self,
        rendered: &mut RenderedCommit,
        strays: &mut Option<(RenderTarget, Vec<ObjectText>)>,
    ) -> Result<GatheredState, AttemptFailure> {
        let (cluster, RenderedCommit { desired, delta, .. }) = (&self.target.cluster, &*rendered);
        let read = async {
            // A record of somebody else in a model's place is never left out.
            let records: Vec<ObjectRef> = desired.record_refs().collect();
            let lists = delta.lists.clone().including(&records);
            let here = desired.gather_live_here(cluster, &lists).boxed().await?;
            let target = &desired.target;
            // Nothing of it changes by what changes here: it is looked for when all is looked at.
            let found = match strays.take() {
                Some((of, found)) if of == *target && !lists.is_everything() => found,
                Some(_) | None => {
                    sync::find_strays(cluster, target, desired.owner.as_ref(), &here.records).boxed().await
                }
            };
            *strays = Some((target.clone(), found.clone()));
            Ok::<_, sync::GatherError>(GatheredState { strays: found, ..here })
        };
        let late = || AttemptFailure::timeout("the cluster could not be read", READ_TIMEOUT);
        let read = self.board.measure_stage(SyncStage::Look, tokio::time::timeout(READ_TIMEOUT, read));
        let live = read.await.map_err(|_| late())??;
        if !rendered.is_named {
            let looking = sync::refuse_lost_settings(cluster, &mut rendered.desired, &live).boxed();
            tokio::time::timeout(READ_TIMEOUT, looking).await.map_err(|_| late())?;
        }
        Ok(live)
    }

    /// Reads a commit, and renders what of it is to be looked at, by what is known of an earlier one. `reporter` hears the
    /// environment's name; `cache_guard` keeps its namespace in the cache as soon as that is known.
    pub(super) async fn render_commit(
        &self,
        commit: &str,
        reporter: Option<&CommitStatuses>,
        planner: SharedPlanner,
        mut cache_guard: Option<&mut Option<NamespaceCacheGuard>>,
    ) -> Result<RenderedCommit, AttemptFailure> {
        let tree = self.repository.git.read_commit(commit, &self.source.folder);
        let (tree, mut reading) = self.board.measure_stage(SyncStage::Read, tree).boxed().await?;
        let environment = self.source.spec.environment.as_ref().map(ToString::to_string);
        let policies = self.read_policies(commit, Some(tree.size())).await?;
        // What models take together is known when all of them are looked at.
        let whole = if policies.has_quotas() { commit } else { "" };
        let made_from =
            format!("{environment:?}\n{:?}\n{}\n{whole}", self.source.spec.target_namespace, policies.digest());
        let shared = planner.clone();
        let snapshot = tokio::task::spawn_blocking(move || {
            shared.with(|planner| (Arc::new(planner.snapshot(tree, &made_from)), planner.target().cloned()))
        });
        let (snapshot, target) = snapshot.await.map_err(|_| AttemptFailure::panicked("reading the files"))?;
        let versions = match &target {
            Some(target) => {
                self.target.cluster.list_versions(&target.namespace, &sync::environment_labels(target)).await
            }
            None => None,
        };
        let namespace = target.map(|target| target.namespace).unwrap_or_default();
        let versions = Arc::new(versions);
        let mut also = BTreeSet::new();
        loop {
            let (snapshot, versions) = (Arc::clone(&snapshot), Arc::clone(&versions));
            let (cluster, namespace) = (self.target.cluster.clone(), namespace.clone());
            let (environment, more, shared) = (environment.clone(), also.clone(), planner.clone());
            let resolved = tokio::task::spawn_blocking(move || {
                let read = |kind: &ObjectKind, name: &str| cluster.get_cached(&namespace, kind, name);
                let delta = shared.with(|planner| planner.delta(&snapshot, versions.as_deref(), &more, &read));
                let workspace = Workspace::parse(&delta.tree);
                let resolved = workspace.resolve_environment(environment.as_deref());
                (delta, resolved, workspace.is_named(), workspace.findings)
            });
            let (delta, resolved, is_named, findings) =
                resolved.await.map_err(|_| AttemptFailure::panicked("reading the files"))?;
            let mut resolved = match resolved {
                Ok(resolved) => resolved,
                Err(error) => {
                    if let Some(reporter) = reporter {
                        reading.lend_memory(reporter.set_environment(UNNAMED_ENVIRONMENT)).await;
                    }
                    return Err(AttemptFailure::no_environment(&error, &findings));
                }
            };
            let name = resolved.name.clone();
            let telling = async {
                if let Some(reporter) = reporter {
                    // The first time it asks the git host what it shows.
                    reading.lend_memory(reporter.set_environment(&name)).boxed().await;
                    self.board.update_state(|state| state.environment = Some(name.clone()));
                }
            };
            if let Err(failure) = self.apply_source_spec(&mut resolved) {
                telling.await;
                return Err(failure);
            }
            if let Some(guard) = &mut cache_guard {
                **guard = Some(self.target.cluster.cache_namespace(resolved.environment.namespace.as_str()));
            }
            let discovery = sync::desired::detect_platform(&self.target.cluster, &mut resolved);
            let discovery = tokio::time::timeout(DISCOVERY_TIMEOUT, discovery);
            let ((), discovered) = tokio::join!(telling, discovery);
            discovered.map_err(|_| {
                AttemptFailure::timeout("the capabilities of the cluster could not be read", DISCOVERY_TIMEOUT)
            })?;
            let (shared, source, judges) = (planner.clone(), Arc::clone(&self.source), Arc::clone(&policies));
            let rendered = tokio::task::spawn_blocking(move || {
                let desired = DesiredState::render(resolved, &judges).owned_by(source.find_owner());
                let conflicts = shared.with(|planner| {
                    if planner.target().is_some_and(|target| *target != desired.target) {
                        planner.reset();
                        return None;
                    }
                    Some(planner.conflicting_folders(&delta, &desired))
                });
                (delta, desired, conflicts)
            });
            let rendered = self.board.measure_stage(SyncStage::Render, rendered).await;
            let (delta, desired, conflicts) = rendered.map_err(|_| AttemptFailure::panicked("rendering"))?;
            match conflicts {
                Some(conflicts) if conflicts.is_empty() => {
                    return Ok(RenderedCommit { desired, delta, policies, planner, is_named, reading });
                }
                // Who has a name or an object of what is looked at is looked at as well. Fewer are left each time.
                Some(conflicts) => also.extend(conflicts),
                // Everything is rendered another way: the cluster has something that it did not have before.
                None => {}
            }
        }
    }

    /// The environment as the root settings of a commit have it, where they can be read: nothing else is taken from there.
    pub(super) async fn settings_at(&self, commit: &str) -> Option<ResolvedEnvironment> {
        let read = self.repository.git.read_commit(commit, &self.source.folder).await;
        let environment = self.source.spec.environment.as_ref().map(ToString::to_string);
        let settings = tokio::task::spawn_blocking(move || {
            let (mut tree, _reading) = read.ok()?;
            tree.files.retain(|file| file.path == "stator.yaml");
            Workspace::parse(&tree).resolve_environment(environment.as_deref()).ok()
        });
        settings.await.ok().flatten()
    }

    /// What the source says goes over what the repository says.
    fn apply_source_spec(&self, resolved: &mut ResolvedEnvironment) -> Result<(), AttemptFailure> {
        let spec = &self.source.spec;
        if let (Some(asked), Some(implied)) = (&resolved.environment.context, &self.target.implied_cluster) {
            return Err(AttemptFailure::error(
                format!("the environment is for the context `{asked}`, but this controller uses {implied}"),
                "start the controller with --context, or with --cluster to confirm the cluster",
                RetryPolicy::OnChange,
            ));
        }
        if let Some(namespace) = &spec.target_namespace {
            resolved.environment.namespace = namespace.clone();
        }
        // Before anything of the cluster is read.
        self.source.access.check_namespace(resolved.environment.namespace.as_str())?;
        if let Some(guards) = &spec.guards {
            resolved.guards.max_deletions = guards.max_deletions.or(resolved.guards.max_deletions);
            resolved.guards.max_gpus = guards.max_gpus.or(resolved.guards.max_gpus);
        }
        Ok(())
    }
}
