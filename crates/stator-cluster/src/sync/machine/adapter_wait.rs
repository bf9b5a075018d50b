//! Waiting for adapters: loaded into every worker that is ready, and served by the frontend.

use super::health_wait::{WatchedObject, is_good_verdict};
use super::model_sync::ModelSync;
use super::tasks::SyncTask;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{ObjectIdentity, ObjectRef};
use std::collections::BTreeMap;
use std::time::Duration;

impl ModelSync {
    /// Adapters are judged by what is seen now of their workers, and not by which event came first.
    pub(super) fn limit_adapters(&mut self) {
        if !self.watched.values().any(WatchedObject::is_adapter) {
            return;
        }
        let mut workers: BTreeMap<String, u64> = BTreeMap::new();
        for (base, ready) in self.watched.values().chain(self.outgoing.values()).flat_map(WatchedObject::workers) {
            let sum = workers.entry(base.clone()).or_default();
            *sum = sum.saturating_add(*ready);
        }
        self.watched.values_mut().for_each(|watched| watched.limit_adapter(&workers));
        self.stays_healthy &= self.watched.values().all(|watched| watched.verdict.as_ref().is_none_or(is_good_verdict));
    }

    /// The frontend to ask next what it serves, and when: one that adapters are loaded behind which it does not list, as
    /// far as known.
    pub(super) fn next_question(&self) -> Option<(Duration, FrontendService)> {
        if self.stays_healthy && self.report.applied() == 0 {
            return None;
        }
        let unserved = self.watched.values().filter_map(WatchedObject::unserved_adapter);
        let open = unserved.filter_map(|(base, was_asked)| {
            let frontend = self.watched.values().find_map(|watched| watched.frontend_of(base))?;
            // What was loaded since it was asked is asked about at once.
            let at = if was_asked { self.questions.next_question(frontend) } else { Duration::ZERO };
            Some((at, frontend.clone()))
        });
        open.min()
    }

    /// A frontend was asked what it serves.
    pub(super) fn settle_frontend(&mut self, now: Duration, frontend: &FrontendService, answer: FrontendAnswer) {
        let is_silent = matches!(answer, FrontendAnswer::Unknown { may_pass: true, .. });
        let goes_on = self.questions.note_answer(now, frontend, is_silent);
        let answer = match answer {
            FrontendAnswer::Unknown { why, may_pass } => FrontendAnswer::Unknown { why, may_pass: may_pass && goes_on },
            FrontendAnswer::Serves(_) | FrontendAnswer::NotAsked => answer,
        };
        let is_behind = |base: &str| self.watched.values().find_map(|one| one.frontend_of(base)) == Some(frontend);
        let adapters =
            self.watched.iter().filter(|(_, one)| one.unserved_adapter().is_some_and(|(base, _)| is_behind(base)));
        let adapters: Vec<ObjectIdentity> = adapters.map(|(identity, _)| identity.clone()).collect();
        for identity in adapters {
            if let Some(watched) = self.watched.get_mut(&identity) {
                watched.set_answer(answer.clone());
            }
        }
    }

    /// Adapters and routes that were to follow a graph are left for a later sync.
    pub(super) fn drop_followers(&mut self, why: &str) {
        let followers: Vec<ObjectRef> = self
            .tasks
            .iter()
            .filter_map(|task| {
                let SyncTask::Apply(task) = task else { return None };
                (!task.after_graphs.is_empty()).then(|| task.object.reference().clone())
            })
            .collect();
        for follower in followers {
            self.report.add_note(format!("{follower} is skipped for now: {why}"));
            self.skip_object(&follower.identity());
        }
    }
}
