//! A commit made ready: its files read, rendered, held against what is live, and planned; of all models, or of those that
//! may have changed.

use super::attempt::{Memory, Stop, panicked, too_slow, without_environment};
use super::{UNNAMED, Unit};
use crate::controller::metrics::{Operation, Stage};
use crate::controller::report::commit_reporter::CommitReporter;
use futures_util::FutureExt as _;
use stator_cluster::sync::incremental::{FilteredCluster, IncrementalPlanner, PlanDelta};
use stator_cluster::sync::{self, DesiredState, GatheredState, PlanParameters};
use stator_core::dynamo::kinds::ObjectKind;
use stator_model::intent::{ResolvedEnvironment, Workspace};
use stator_model::plan::{self, Plan, PlanInput, Record};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long the cluster is read, page by page; each request has a shorter deadline of its own.
const LOOK: Duration = Duration::from_secs(300);
/// How long the cluster is asked what is installed.
const LEARN: Duration = Duration::from_secs(60);

/// A commit, rendered: all of it, or what is to be looked at.
pub(super) struct Ready {
    pub(super) desired: DesiredState,
    /// What of it is to be looked at.
    portion: PlanDelta,
    steady: IncrementalPlanner,
    /// Whether the repository has a name of its own.
    pub(super) named: bool,
}

impl Unit {
    /// The folder that records name, where the repository has no name of its own.
    pub(super) fn folder(&self, named: bool) -> Option<String> {
        (!named).then(|| format!("{}#{}", self.source.url, self.source.folder))
    }

    /// What is live of an environment, with a watch on it from before the look.
    pub(super) async fn live(&self, ready: &Ready, memory: &mut Memory) -> Result<GatheredState, Stop> {
        let target = &ready.desired.target;
        if memory.namespace != target.namespace {
            memory.sentinel.close();
            memory.namespace = target.namespace.clone();
            memory.held = Some(self.cluster.cache_namespace(&memory.namespace));
        }
        memory.labels = Some((target.repository.clone(), target.environment.clone()));
        let look = async {
            memory.sentinel.open(&self.cluster, &memory.namespace).await;
            let strays = match memory.strays.take() {
                Some((of, strays)) if of == *target => strays,
                Some(_) | None => sync::find_orphaned_records(&self.cluster, target).boxed().await,
            };
            memory.strays = Some((target.clone(), strays.clone()));
            let shown = FilteredCluster::new(&self.cluster, &memory.namespace, ready.portion.listed_objects.as_ref());
            ready.desired.gather_live_with_orphans(&shown, strays).boxed().await
        };
        let look = self.staged(Stage::Look, tokio::time::timeout(LOOK, look));
        let live = look.await.map_err(|_| too_slow("the cluster was not read", LOOK))??;
        match ready.portion.listed_objects {
            None => memory.sentinel.set_baseline(&live.live),
            Some(_) => memory.sentinel.extend_baseline(&live.live),
        }
        Ok(live)
    }

    /// Reads a commit, and renders what of it is to be looked at, by what is known of an earlier one. `report` hears the
    /// environment's name.
    pub(super) async fn ready(
        &self,
        commit: &str,
        mut report: Option<&mut CommitReporter>,
        mut steady: IncrementalPlanner,
    ) -> Result<Ready, Stop> {
        let (commit, folder) = (commit.to_owned(), self.source.folder.clone());
        let tree = self.git.with(Operation::Read, move |mirror| mirror.tree(&commit, &folder));
        let tree = self.staged(Stage::Read, tree).boxed().await?;
        let environment = self.source.spec.environment.as_ref().map(ToString::to_string);
        let ground = format!("{environment:?}\n{:?}", self.source.spec.target_namespace);
        let cut = tokio::task::spawn_blocking(move || {
            let cut = steady.snapshot(tree, &ground);
            (steady, Arc::new(cut))
        });
        let (mut steady, cut) = cut.await.map_err(|_| panicked("reading the files"))?;
        let survey = match steady.target() {
            Some(target) => self.cluster.list_versions(&target.namespace, &sync::environment_labels(target)).await,
            None => None,
        };
        let namespace = steady.target().map(|target| target.namespace.clone()).unwrap_or_default();
        let survey = Arc::new(survey);
        let mut also = BTreeSet::new();
        loop {
            let (cut, survey, namespace) = (Arc::clone(&cut), Arc::clone(&survey), namespace.clone());
            let (cluster, environment, more) = (self.cluster.clone(), environment.clone(), also.clone());
            let selected = tokio::task::spawn_blocking(move || {
                let read = |kind: &ObjectKind, name: &str| cluster.get_cached(&namespace, kind, name);
                let portion = steady.delta(&cut, survey.as_deref(), &more, &read);
                let workspace = Workspace::parse(&portion.tree);
                let selection = workspace.resolve_environment(environment.as_deref());
                (steady, portion, selection, workspace.is_named(), workspace.findings)
            });
            let (known, portion, selection, named, findings) =
                selected.await.map_err(|_| panicked("reading the files"))?;
            let mut selection = match selection {
                Ok(selection) => selection,
                Err(error) => {
                    if let Some(report) = report {
                        report.set_environment(UNNAMED).await;
                    }
                    return Err(without_environment(&error, &findings));
                }
            };
            if let Some(report) = &mut report {
                report.set_environment(&selection.name).boxed().await;
                self.stand(|standing| standing.environment = Some(selection.name.clone()));
            }
            self.settle(&mut selection)?;
            let learn = sync::desired::detect_platform(&self.cluster, &mut selection);
            let learned = tokio::time::timeout(LEARN, learn).await;
            learned.map_err(|_| too_slow("the cluster did not say what it has", LEARN))?;
            let rendered = tokio::task::spawn_blocking(move || {
                let desired = DesiredState::render(selection);
                let clashes = known.conflicting_folders(&portion, &desired);
                (known, portion, desired, clashes)
            });
            let (mut known, portion, desired, clashes) =
                self.staged(Stage::Render, rendered).await.map_err(|_| panicked("rendering"))?;
            if known.target().is_some_and(|target| *target != desired.target) {
                // Everything is rendered another way: the cluster has something that it did not have before.
                known.reset();
                steady = known;
                continue;
            }
            if clashes.is_empty() {
                return Ok(Ready { desired, portion, steady: known, named });
            }
            // Who has a name or an object of what is looked at is looked at as well. Fewer are left each time.
            also.extend(clashes);
            steady = known;
        }
    }

    /// What the source says goes over what the repository says.
    fn settle(&self, selection: &mut ResolvedEnvironment) -> Result<(), Stop> {
        let spec = &self.source.spec;
        if let (Some(asked), Some(refusal)) = (&selection.environment.context, &self.implied) {
            return Err(Stop::fault(
                format!("the environment is for the context `{asked}`, and this controller works on {refusal}"),
                "start the controller with --context, or with --cluster to say that it is meant",
                false,
            ));
        }
        if let Some(namespace) = &spec.target_namespace {
            selection.environment.namespace = namespace.clone();
        }
        // Before anything of the cluster is read.
        self.source.access.check_namespace(selection.environment.namespace.as_str())?;
        if let Some(guards) = &spec.guards {
            selection.guards.max_deletions = guards.max_deletions.or(selection.guards.max_deletions);
            selection.guards.max_gpus = guards.max_gpus.or(selection.guards.max_gpus);
        }
        Ok(())
    }
}

/// What came of planning.
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// The records that a sync starts from.
    pub(super) records: Vec<Record>,
    pub(super) portion: PlanDelta,
    pub(super) steady: IncrementalPlanner,
}

/// Plans on a thread that may take its time. `learns` says whether what needs no second look is noted.
pub(super) async fn planned(
    ready: Ready,
    live: GatheredState,
    aim: PlanParameters,
    learns: bool,
) -> Result<Planned, Stop> {
    let planned = tokio::task::spawn_blocking(move || {
        let Ready { desired, portion, mut steady, named: _ } = ready;
        let target = desired.target.clone();
        let input = PlanInput { unchanged: portion.unchanged.clone(), ..desired.into_plan_input(live, aim) };
        let plan = plan::build_plan(&input);
        if learns {
            steady.remember_plan(&portion, &target, &input, &plan);
        }
        let own = |record: &Record| record.repository == input.repository && record.environment == input.environment;
        let records = input.records.into_iter().filter(|record| own(record)).collect();
        Planned { plan, records, portion, steady }
    });
    planned.await.map_err(|_| panicked("planning"))
}
