//! Asks the sync windows: those of the source, and those of the administrators' policies.

use super::context::ReconcileContext;
use super::machine::{GateDecision, WindowOwner};
use jiff::Timestamp;
use stator_model::windows::{self, SyncWindowState};
use std::sync::Arc;
use std::time::Duration;

impl ReconcileContext {
    /// What the windows say of a commit now. Those of policies are asked first: nobody's permission opens them. Windows that
    /// open every minute take a while to look through, and nobody else waits for that.
    pub(super) async fn check_gate(&self, commit: &str) -> GateDecision {
        let closed = self.closed_policy_windows(commit).await;
        let policy = closed.as_ref().map(|(closed, _)| closed.policy.clone());
        self.board.update_state(|state| state.window_policy = policy);
        if let Some((closed, now)) = closed {
            return closed_until(closed.opens, now, WindowOwner::Policy);
        }
        if self.source.windows.is_empty() {
            return GateDecision::Open;
        }
        let (source, now) = (Arc::clone(&self.source), self.rules.window_clock.now());
        let state = tokio::task::spawn_blocking(move || windows::evaluate_windows(&source.windows, now)).await;
        match state {
            Ok(SyncWindowState::Open) => GateDecision::Open,
            Ok(SyncWindowState::Closed(opens)) => closed_until(opens, now, WindowOwner::Source),
            // In doubt nothing is let in; the next look tells.
            Err(_) => closed_until(None, now, WindowOwner::Source),
        }
    }
}

/// `now` is when the windows were asked: counted from a later moment, one that has opened since then would never open.
fn closed_until(opens: Option<Timestamp>, now: Timestamp, owner: WindowOwner) -> GateDecision {
    let opens_in = opens.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    GateDecision::Closed { opens, opens_in, owner }
}
