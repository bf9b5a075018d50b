//! What pages show of a source: how it stands, and how its models do, looked at whenever something changes. It reads, and
//! decides nothing: a reconciler without it does the same. As an attempt does, it looks at those models alone that may be
//! different, and at rest at none.

use super::attempt_cache::{AttemptCache, SharedPlanner};
use super::context::ReconcileContext;
use super::failure::AttemptFailure;
use super::gather::RenderedCommit;
use crate::controller::metrics::MirrorOperation;
use crate::controller::sources::registry::{SourcePhase, SourceState, TimestampedRevision};
use crate::controller::waiting::sleep_until_some;
use crate::observation::{DraftBasis, DraftSource, ObservationBoard, RecentEvents, commit_question, with_commits};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use stator_cluster::cluster::{AnyCluster, Cluster as _, WatchReceiver};
use stator_cluster::sync::{self, PlanParameters};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_git::forge::commit_page;
use stator_git::source::commit_log::CommitAnswer;
use stator_model::plan::{PlanInput, PlanScope};
use stator_view::facts::{
    CommitFacts, HeldFacts, ModelFacts, ProposalAccess, RevisionFacts, SourceControl, SourceFacts, model_facts,
    whole_second,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Changes that come this close together are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// How often is looked again at models that are not well, or were different a moment ago: Events and pods of the cluster are
/// not watched.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// How long the GPUs of the nodes are known before a look reads them again. Of a source at rest nobody asks for them.
const NODES_LIFETIME: Duration = Duration::from_secs(60);
/// A look is followed by so many times what it took without one: pages are no reason to be busy.
const REST_FACTOR: u32 = 4;

/// Changes of the namespace that the models are in.
struct WatchedNamespace {
    namespace: String,
    changes: WatchReceiver,
}

/// What was found of the models at one look.
struct LookedModels {
    commit: String,
    namespace: String,
    models: Arc<[ModelFacts]>,
}

/// What one look leaves to the next.
#[derive(Default)]
struct ObserverMemory {
    cache: AttemptCache,
    events: RecentEvents,
    models: Arc<[ModelFacts]>,
    /// What git told of commits.
    commits: Arc<BTreeMap<String, CommitFacts>>,
    /// GPUs that the environment's settings say.
    stated_gpus: Option<BTreeMap<String, u64>>,
    /// GPUs of the cluster's nodes.
    nodes: NodeGpus,
    /// Of the last look.
    commit: Option<String>,
    namespace: Option<String>,
    failure: Option<String>,
}

/// GPUs of the cluster's nodes, as they were read last; nodes are not watched.
#[derive(Default)]
struct NodeGpus {
    gpus: Option<BTreeMap<String, u64>>,
    read: Option<Instant>,
}

impl NodeGpus {
    async fn refresh(&mut self, cluster: &AnyCluster) {
        if self.read.is_some_and(|read| read.elapsed() < NODES_LIFETIME) {
            return;
        }
        let mut platform = Platform::default();
        sync::desired::read_gpus(cluster, &mut platform).await;
        (self.gpus, self.read) = (platform.gpus, Some(Instant::now()));
    }
}

impl ObserverMemory {
    /// Takes in what a look found, and says whether it is to be looked again although nothing is heard.
    fn take_in(&mut self, looked: Result<LookedModels, AttemptFailure>) -> bool {
        match looked {
            Ok(LookedModels { commit, namespace, models }) => {
                let is_settled = models == self.models && models.iter().all(ModelFacts::is_well);
                (self.commit, self.namespace, self.models) = (Some(commit), Some(namespace), models);
                self.failure = None;
                !is_settled
            }
            Err(failure) => {
                self.failure = Some(failure.verdict.sentence());
                true
            }
        }
    }
}

impl ReconcileContext {
    /// Puts on the board how the source and its models stand, for as long as it is not dropped.
    pub(in crate::controller) async fn observe_models(self, board: ObservationBoard) {
        let (namespace, name) = (self.source.key.namespace.as_str(), self.source.key.name.as_str());
        let desk = self.proposal_desk();
        let proposals = desk.access();
        board.set_desks(namespace, name, |desks| {
            (desks.proposals, desks.target) = (Some(desk), Some(self.target.cluster.cluster().clone()));
        });
        let mut previews = self.board.previews.subscribe();
        let (mut states, mut drafts) = (self.board.state.subscribe(), board.draft_changes());
        let (mut watched, mut memory): (Option<WatchedNamespace>, _) = (None, ObserverMemory::default());
        let mut look_at: Option<Instant> = None;
        loop {
            let state = states.borrow_and_update().clone();
            drafts.mark_unchanged();
            let commit = state.attempted.as_ref().or(state.applied.as_ref()).map(|revision| revision.commit.clone());
            let is_due = commit != memory.commit
                || look_at.is_some_and(|at| at <= Instant::now())
                || board.lacks_draft_basis(namespace, name);
            let began = Instant::now();
            let mut drafts_against = None;
            if let Some(commit) = commit.filter(|_| is_due) {
                memory.nodes.refresh(self.target.cluster.cluster()).await;
                let is_drafted = board.is_drafted(namespace, name);
                let looked = self.look_at_commit(&commit, is_drafted, &mut memory).boxed().await;
                let looked = looked.map(|(looked, basis)| {
                    drafts_against = Some(basis);
                    looked
                });
                look_at = memory.take_in(looked).then(|| Instant::now() + LOOK_INTERVAL);
            }
            let facts = SourceFacts { proposals: proposals.clone(), ..self.source_facts(&state, &memory) };
            let (facts, is_answered) = self.ask_git(facts, &mut memory).await;
            board.set_source_while(facts, || !self.shutdown.is_cancelled());
            if self.shutdown.is_cancelled() {
                return;
            }
            if let Some(basis) = drafts_against {
                board.set_draft_basis(namespace, name, basis);
            }
            if memory.namespace.as_ref() != watched.as_ref().map(|watched| &watched.namespace) {
                watched = self.watch_namespace(memory.namespace.clone()).await;
                // What happened before it was watched was not heard.
                look_at = Some(Instant::now() + if watched.is_some() { DEBOUNCE } else { LOOK_INTERVAL });
            }
            tokio::time::sleep(DEBOUNCE.max(began.elapsed().saturating_mul(REST_FACTOR))).await;
            // A draft of what cannot be read is refused at once.
            let can_draft = memory.commit.is_some() && memory.failure.is_none();
            let drafting = async {
                while !(can_draft && board.lacks_draft_basis(namespace, name)) {
                    let _ = drafts.changed().await;
                }
            };
            let change = async {
                match &mut watched {
                    Some(watched) => {
                        let event = watched.changes.recv().await;
                        while watched.changes.try_recv().is_ok() {}
                        event.is_some()
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = states.changed() => {}
                _ = previews.changed() => {}
                () = drafting => {}
                is_open = change => {
                    look_at = Some(Instant::now());
                    if !is_open {
                        watched = None;
                    }
                }
                () = sleep_until_some(look_at) => {}
                () = tokio::time::sleep(LOOK_INTERVAL), if !is_answered => {}
            }
        }
    }

    async fn watch_namespace(&self, namespace: Option<String>) -> Option<WatchedNamespace> {
        let namespace = namespace?;
        let watched: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
        let changes = self.target.cluster.watch(&watched, Some(&namespace)).await.ok()?;
        Some(WatchedNamespace { namespace, changes })
    }

    /// The models as the commit wants them, and as the cluster has them: those looked at now, and the others as they were.
    /// Where models are drafted, all of them.
    async fn look_at_commit(
        &self,
        commit: &str,
        is_drafted: bool,
        ObserverMemory { cache, events, models: known, stated_gpus, nodes, .. }: &mut ObserverMemory,
    ) -> Result<(LookedModels, Option<DraftBasis>), AttemptFailure> {
        if is_drafted {
            cache.planner = SharedPlanner::default();
        }
        let mut rendered = self.render_commit(commit, None, cache.planner.clone(), None).await?;
        let live = self.read_live(&mut rendered, &mut cache.strays).boxed().await?;
        let RenderedCommit { desired, delta, policies, planner, is_named, reading: _reading } = rendered;
        let source = is_drafted.then(|| DraftSource::new(self.label(), delta.tree.clone(), &desired, policies));
        let target = desired.target.clone();
        let parameters = PlanParameters {
            revision: commit.to_owned(),
            folder: self.recorded_folder(is_named),
            rewound: None,
            allow: BTreeSet::new(),
            prune: self.source.spec.prune.unwrap_or(true),
            scope: PlanScope::All,
        };
        let mut input = PlanInput { unchanged: delta.unchanged.clone(), ..desired.into_plan_input(live, parameters) };
        *stated_gpus = input.platform.gpus.clone();
        if let Some(gpus) = &nodes.gpus {
            input.platform.gpus = Some(gpus.clone());
        }
        let basis = source.map(|source| DraftBasis::new(source, &mut input));
        let now = Timestamp::now();
        let status = sync::read_environment_status(&self.target.cluster, &mut input, now).boxed().await;
        let events = events.of_models(self.target.cluster.cluster(), &target.namespace, &status.models).await;
        let looked = model_facts(status.models, &status.plan, status.records, status.live, events, known, now);
        let left_out = known.iter().filter(|one| delta.unchanged_models.contains(&one.status.name)).cloned();
        let mut models: Vec<ModelFacts> = left_out.chain(looked).collect();
        models.sort_by(|a, b| a.status.name.cmp(&b.status.name));
        let namespace = target.namespace.clone();
        if self.target.cluster.is_cached(&namespace) {
            let plan = status.plan;
            let remembering = tokio::task::spawn_blocking(move || {
                planner.with(|planner| planner.remember_plan(&delta, &target, &input, &plan));
            });
            remembering.await.map_err(|_| AttemptFailure::panicked("looking at the models"))?;
        }
        Ok((LookedModels { commit: commit.to_owned(), namespace, models: models.into() }, basis))
    }

    /// What pages call the source.
    fn label(&self) -> String {
        let (namespace, name) = (self.source.key.namespace.clone(), self.source.key.name.clone());
        SourceFacts { namespace, name, ..SourceFacts::default() }.label()
    }

    /// The source with what git tells of the commits that it names, and whether git answered. What git does not tell is not
    /// shown.
    async fn ask_git(&self, source: SourceFacts, memory: &mut ObserverMemory) -> (SourceFacts, bool) {
        let head = memory.commit.clone().unwrap_or_default();
        let answer = match commit_question(&source, &memory.commits, &head) {
            Some(question) => {
                let folder = self.source.folder.clone();
                let asking = self
                    .repository
                    .git
                    .with(MirrorOperation::Read, move |mirror| Ok(mirror.commit_log(&folder, &question)));
                asking.await.ok()
            }
            None => Some(CommitAnswer::default()),
        };
        let is_answered = answer.is_some();
        let page = |commit: &str| commit_page(self.source.spec.forge.as_ref(), &self.source.url, commit);
        let source = with_commits(source, &memory.commits, answer.unwrap_or_default(), page);
        memory.commits = Arc::clone(&source.commits);
        (source, is_answered)
    }

    /// How the source stands, with its models as they were looked at last.
    fn source_facts(&self, state: &SourceState, memory: &ObserverMemory) -> SourceFacts {
        let revision = |one: &Option<TimestampedRevision>| {
            one.as_ref().map(|one| RevisionFacts { commit: one.commit.clone(), at: Some(whole_second(one.at)) })
        };
        SourceFacts {
            namespace: self.source.key.namespace.clone(),
            name: self.source.key.name.clone(),
            origin: self.source.url.to_string(),
            environment: state.environment.clone(),
            cluster: None,
            models_namespace: memory.namespace.clone(),
            phase: phase_word(state.phase).to_owned(),
            seen: revision(&state.seen),
            attempted: revision(&state.attempted),
            applied: revision(&state.applied),
            problems: state.problems.values().map(ToString::to_string).collect(),
            held: state.hold.as_ref().map(|hold| HeldFacts {
                reasons: hold
                    .guards
                    .iter()
                    .map(|(guard, reason)| format!("held back ({}): {reason}", guard.as_str()))
                    .collect(),
                commit: hold.revision.clone(),
                plan: hold.plan.clone(),
            }),
            next_window: state.next_window,
            command_options: Vec::new(),
            is_kubernetes: self.target.cluster.cluster().as_kubernetes().is_some(),
            unread: memory
                .failure
                .clone()
                .or_else(|| memory.commit.is_none().then(|| "no commit was read yet".to_owned())),
            changed_in: 0,
            is_withheld: false,
            is_suspended: state.phase == SourcePhase::Suspended || self.source.spec.suspend,
            control: if self.board.in_cluster { SourceControl::Object } else { SourceControl::File },
            allocatable: memory.nodes.gpus.clone().or_else(|| memory.stated_gpus.clone()).map(Arc::new),
            previews: Arc::new(self.board.previews.borrow().clone()),
            proposals: ProposalAccess::default(),
            commits: Arc::clone(&memory.commits),
            models: Arc::clone(&memory.models),
        }
    }
}

/// What a source is at, in a word or a few.
fn phase_word(phase: SourcePhase) -> &'static str {
    match phase {
        SourcePhase::Idle => "Idle",
        SourcePhase::Reading => "Reading",
        SourcePhase::Syncing => "Syncing",
        SourcePhase::Retrying => "Retrying",
        SourcePhase::WindowClosed => "Window closed",
        SourcePhase::Suspended => "Suspended",
    }
}
