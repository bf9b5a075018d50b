//! What pages show of a source: how it stands, and how its models do, looked at whenever something changes. It reads, and
//! decides nothing: a reconciler without it does the same.

use super::attempt_cache::SharedPlanner;
use super::context::ReconcileContext;
use super::failure::AttemptFailure;
use super::gather::RenderedCommit;
use crate::controller::sources::registry::{SourcePhase, SourceState, TimestampedRevision};
use crate::observation::{DraftBasis, DraftSource, ObservationBoard, RecentEvents};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use stator_cluster::cluster::{Cluster as _, WatchEvent};
use stator_cluster::sync::{self, PlanParameters};
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_model::plan::PlanScope;
use stator_view::facts::{HeldFacts, ModelFacts, RevisionFacts, SourceFacts, model_facts};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Changes that come this close together are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// How often is looked all the same.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// A look is followed by so many times what it took without one: pages are no reason to be busy.
const REST_FACTOR: u32 = 4;

/// Changes of the namespace that the models are in.
struct WatchedNamespace {
    namespace: String,
    changes: mpsc::Receiver<WatchEvent>,
}

/// What was found of the models at one look.
struct LookedModels {
    namespace: String,
    models: Vec<ModelFacts>,
    basis: DraftBasis,
}

impl ReconcileContext {
    /// Puts on the board how the source and its models stand, for as long as it is not dropped.
    pub(in crate::controller) async fn observe_models(self, board: ObservationBoard) {
        let mut states = self.board.state.subscribe();
        let (mut watched, mut events): (Option<WatchedNamespace>, _) = (None, RecentEvents::default());
        loop {
            let state = states.borrow_and_update().clone();
            let key = &self.source.key;
            let known = board.source(&key.namespace, &key.name);
            let earlier = known.as_ref().map(|known| Arc::clone(&known.models)).unwrap_or_default();
            let began = Instant::now();
            let looked = self.look_at_models(&state, &earlier, &mut events).boxed().await;
            let mut facts = self.source_facts(&state);
            match looked {
                Some(Ok(LookedModels { namespace, models, basis })) => {
                    facts.models = models.into();
                    board.set_draft_basis(&key.namespace, &key.name, basis);
                    if watched.as_ref().is_none_or(|one| one.namespace != namespace) {
                        watched = self.watch_namespace(namespace).await;
                    }
                }
                Some(Err(failure)) => {
                    facts.models = earlier;
                    facts.unread = Some(failure.verdict.sentence());
                }
                None => facts.unread = Some("no commit was read yet".to_owned()),
            }
            board.set_source_while(facts, || !self.shutdown.is_cancelled());
            if self.shutdown.is_cancelled() {
                return;
            }
            tokio::time::sleep(DEBOUNCE.max(began.elapsed().saturating_mul(REST_FACTOR))).await;
            let is_open = match &mut watched {
                Some(watched) => {
                    let is_open = tokio::select! {
                        _ = states.changed() => true,
                        event = watched.changes.recv() => event.is_some(),
                        () = tokio::time::sleep(LOOK_INTERVAL) => true,
                    };
                    while watched.changes.try_recv().is_ok() {}
                    is_open
                }
                None => {
                    let _ = tokio::time::timeout(LOOK_INTERVAL, states.changed()).await;
                    true
                }
            };
            if !is_open {
                watched = None;
            }
        }
    }

    async fn watch_namespace(&self, namespace: String) -> Option<WatchedNamespace> {
        let watched: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
        let changes = self.target.cluster.watch(&watched, Some(&namespace)).await.ok()?;
        Some(WatchedNamespace { namespace, changes })
    }

    /// The models as the commit wants them that is synced, and as the cluster has them; `None` before there is a commit.
    async fn look_at_models(
        &self,
        state: &SourceState,
        earlier: &[ModelFacts],
        events: &mut RecentEvents,
    ) -> Option<Result<LookedModels, AttemptFailure>> {
        let commit = state.attempted.as_ref().or(state.applied.as_ref())?.commit.clone();
        Some(self.look_at_commit(&commit, earlier, events).boxed().await)
    }

    async fn look_at_commit(
        &self,
        commit: &str,
        earlier: &[ModelFacts],
        events: &mut RecentEvents,
    ) -> Result<LookedModels, AttemptFailure> {
        // What a reconciler remembers between its attempts is its own.
        let rendered = self.render_commit(commit, None, SharedPlanner::default()).await?;
        let RenderedCommit { mut desired, is_named, delta, policies, .. } = rendered;
        let label = SourceFacts {
            namespace: self.source.key.namespace.clone(),
            name: self.source.key.name.clone(),
            ..SourceFacts::default()
        }
        .label();
        let source = DraftSource::new(label, delta.tree, &desired, policies);
        let live = desired.gather_live(&self.target.cluster).boxed().await?;
        if !is_named {
            sync::refuse_lost_settings(&self.target.cluster, &mut desired, &live).boxed().await;
        }
        let namespace = desired.target.namespace.clone();
        let parameters = PlanParameters {
            revision: commit.to_owned(),
            folder: self.recorded_folder(is_named),
            rewound: None,
            allow: BTreeSet::new(),
            prune: self.source.spec.prune.unwrap_or(true),
            scope: PlanScope::All,
        };
        let mut input = desired.into_plan_input(live, parameters);
        let basis = DraftBasis::new(source, &mut input);
        let now = Timestamp::now();
        let status = sync::read_environment_status(&self.target.cluster, input, now).boxed().await;
        let events = events.of_models(self.target.cluster.cluster(), &namespace, &status.models).await;
        let models = model_facts(status.models, &status.plan, status.records, status.live, events, earlier, now);
        Ok(LookedModels { namespace, models, basis })
    }

    /// How the source itself stands, without its models.
    fn source_facts(&self, state: &SourceState) -> SourceFacts {
        let revision = |one: &Option<TimestampedRevision>| {
            one.as_ref().map(|one| RevisionFacts { commit: one.commit.clone(), at: Some(one.at) })
        };
        SourceFacts {
            namespace: self.source.key.namespace.clone(),
            name: self.source.key.name.clone(),
            origin: self.source.url.to_string(),
            environment: state.environment.clone(),
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
            }),
            next_window: state.next_window,
            command_options: Vec::new(),
            is_kubernetes: self.target.cluster.cluster().as_kubernetes().is_some(),
            unread: None,
            changed_in: 0,
            is_withheld: false,
            models: Arc::default(),
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
