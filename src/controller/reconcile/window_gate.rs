//! Asks the source's sync windows.

use super::context::ReconcileContext;
use super::machine::GateDecision;
use crate::controller::sources::sync_windows::{self, SyncWindowState};
use std::sync::Arc;
use std::time::Duration;

impl ReconcileContext {
    /// What the windows say now. Windows that open every minute take a while to look through, and nobody else waits for
    /// that.
    pub(super) async fn check_gate(&self) -> GateDecision {
        if self.source.windows.is_empty() {
            return GateDecision::Open;
        }
        let (source, now) = (Arc::clone(&self.source), self.window_clock.now());
        let state = tokio::task::spawn_blocking(move || sync_windows::evaluate_windows(&source.windows, now)).await;
        match state {
            Ok(SyncWindowState::Open) => GateDecision::Open,
            Ok(SyncWindowState::Closed(opens)) => {
                let opens_in = opens.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
                GateDecision::Closed { opens, opens_in }
            }
            // In doubt nothing is let in; the next look tells.
            Err(_) => GateDecision::Closed { opens: None, opens_in: None },
        }
    }
}
