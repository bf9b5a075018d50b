//! What people ask of a source: taken up, answered, and said where it cannot be done.

use super::{Head, Unit};
use crate::controller::report::commit_ledger::commit_label;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::registry::SourcePhase;
use std::collections::BTreeSet;
use tokio::sync::watch;

impl Unit {
    /// The request that is not answered yet.
    pub(super) fn pending(&self, asked: &ManualRequests) -> Option<String> {
        asked.requested_at.clone().filter(|at| self.standing.borrow().handled_request.as_ref() != Some(at))
    }

    /// Waits until the repository was looked at after a request came: what is synced then is what it holds by then. Every
    /// look has its deadline, so this has one. False when something else is asked for meanwhile.
    pub(super) async fn looked_after(
        &self,
        at: &str,
        looked: &mut watch::Receiver<Option<String>>,
        requests: &mut watch::Receiver<ManualRequests>,
    ) -> bool {
        tokio::select! {
            biased;
            () = self.ending.cancelled() => true,
            Ok(()) = requests.changed() => false,
            // Where nobody looks any more, what is known is all that there is.
            _ = looked.wait_for(|after| after.as_deref() == Some(at)) => true,
        }
    }

    /// Says that a request was carried out, well or not, and what of all that is asked for could not be done.
    pub(super) fn answer(&self, at: Option<&String>, asked: &ManualRequests, head: Option<&Head>) {
        self.stand(|standing| {
            let mut unheard = BTreeSet::new();
            if let Some(head) = head {
                let newest = commit_label(&head.commit);
                if let (Some(approval), Some(_)) = (&asked.allow, &standing.hold)
                    && !head.commit.starts_with(&approval.revision)
                {
                    unheard.insert(format!(
                        "the approval `{}` is of another commit, and lets nothing of {newest} go",
                        approval.to_annotation()
                    ));
                }
                if let (Some(outside), SourcePhase::WindowClosed) = (&asked.outside_windows, standing.phase)
                    && !head.commit.starts_with(outside)
                {
                    unheard.insert(format!(
                        "a sync outside the windows was asked for of {}, and the newest commit is {newest}",
                        commit_label(outside)
                    ));
                }
            }
            if at.is_some() {
                match standing.phase {
                    SourcePhase::Suspended => drop(unheard.insert(
                        "a sync was asked for, and the source is suspended: set `spec.suspend` to false".to_owned(),
                    )),
                    SourcePhase::WindowClosed => drop(unheard.insert(format!(
                        "a sync was asked for, and no sync window is open: annotate the source with {}=<commit> to sync that commit all the same",
                        crate::controller::sources::manual_requests::OUTSIDE_WINDOWS_ANNOTATION
                    ))),
                    SourcePhase::Idle | SourcePhase::Reading | SourcePhase::Syncing | SourcePhase::Retrying => {}
                }
            } else {
                // What was said of the last request stays said for as long as it is so.
                let of_request = |text: &&String| text.starts_with("a sync was asked for");
                let stays = matches!(standing.phase, SourcePhase::Suspended | SourcePhase::WindowClosed);
                unheard.extend(standing.rejected_requests.iter().filter(|_| stays).filter(of_request).cloned());
            }
            for news in unheard.difference(&standing.rejected_requests) {
                tracing::warn!(source = %self.source.key, "{news}");
            }
            standing.rejected_requests = unheard;
            if let Some(at) = at {
                standing.handled_request = Some(at.clone());
            }
        });
    }
}
