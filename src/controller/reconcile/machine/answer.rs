//! What people requested, and what is said to it.

use super::SourceReconciler;
use super::effect::{ReconcileEffect, RejectedRequest};
use super::event::WindowOwner;
use crate::controller::sources::manual_requests::HoldApproval;
use std::collections::BTreeSet;

/// Where a round ended whose requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerContext {
    /// No commit is known.
    NoCommit,
    /// The source is suspended.
    Suspended,
    /// No window of this owner is open.
    OutsideWindow(WindowOwner),
    /// Anywhere else: the request was carried out, well or not.
    Elsewhere,
}

impl SourceReconciler {
    /// What is approved of a commit, by as many as have to.
    pub(super) fn approval_of(&self, commit: &str) -> Option<&HoldApproval> {
        self.approval_begun_of(commit).filter(|approval| approval.approvers().len() >= self.rules.approvers)
    }

    /// What somebody approved of a commit, whether others have to or not.
    fn approval_begun_of(&self, commit: &str) -> Option<&HoldApproval> {
        self.requests.taken.allow.as_ref().filter(|approval| approval.revision == commit)
    }

    /// Whether what is held back of a commit is what somebody approved.
    pub(super) fn is_hold_approved(&self, commit: &str) -> bool {
        let held = self.commits.held.as_ref().filter(|held| held.revision == commit);
        held.zip(self.approval_of(commit)).is_some_and(|(held, approval)| held.plan.digest == approval.plan)
    }

    /// Says that a sync request was carried out, well or not, and what of all that is requested could not be done.
    pub(super) fn answer(&mut self, context: AnswerContext, effects: &mut Vec<ReconcileEffect>) {
        if context == AnswerContext::NoCommit && self.requests.answering.is_none() {
            return;
        }
        let mut rejected = BTreeSet::new();
        let newest = self.commits.current_name().cloned();
        if let Some(newest) = newest.filter(|_| context != AnswerContext::NoCommit) {
            let is_stale = |revision: &str| newest != revision;
            if let Some(approval) = self.requests.taken.allow.as_ref().filter(|one| is_stale(&one.revision))
                && self.commits.held.is_some()
            {
                let approval = approval.to_annotation();
                rejected.insert(RejectedRequest::StaleApproval { approval, newest: newest.clone() });
            }
            if let (Some(approval), Some(held)) = (self.approval_begun_of(&newest), &self.commits.held)
                && held.revision == newest
            {
                let given = approval.approvers().len();
                if held.plan.digest == approval.plan && given < self.rules.approvers {
                    let (approval, needed) = (approval.to_annotation(), self.rules.approvers);
                    rejected.insert(RejectedRequest::TooFewApprovers { approval, given, needed });
                } else if held.plan.digest != approval.plan && !held.plan.guards.is_disjoint(&approval.kinds) {
                    rejected.insert(RejectedRequest::StalePlanApproval { approval: approval.to_annotation() });
                }
            }
            if let Some(revision) = self.requests.taken.outside_windows.as_ref().filter(|one| is_stale(one))
                && context == AnswerContext::OutsideWindow(WindowOwner::Source)
            {
                rejected.insert(RejectedRequest::StaleWindowOverride { revision: revision.clone(), newest });
            }
        }
        let is_answer = self.requests.answering.is_some();
        match context {
            AnswerContext::Suspended if is_answer => {
                self.requests.rejected_sync = Some(RejectedRequest::SyncWhileSuspended)
            }
            AnswerContext::OutsideWindow(owner) if is_answer => {
                self.requests.rejected_sync = Some(match owner {
                    WindowOwner::Source => RejectedRequest::SyncWithoutWindow,
                    WindowOwner::Policy => RejectedRequest::SyncWithoutPolicyWindow,
                });
            }
            // What was said of the last request stays said for as long as it is so.
            AnswerContext::Suspended | AnswerContext::OutsideWindow(_) => {}
            AnswerContext::NoCommit | AnswerContext::Elsewhere => self.requests.rejected_sync = None,
        }
        rejected.extend(self.requests.rejected_sync.clone());
        let handled = self.requests.answering.take();
        if handled.is_some() {
            self.requests.handled.clone_from(&handled);
        }
        effects.push(ReconcileEffect::AnswerRequests { handled, rejected });
    }
}
