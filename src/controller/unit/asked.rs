//! What people ask of a source: taken up, answered, and said where it cannot be done.

use super::{Head, Unit};
use crate::controller::board::Phase;
use crate::controller::requests::Requests;
use crate::controller::verdicts::short;
use std::collections::BTreeSet;
use tokio::sync::watch;

impl Unit {
    /// The request that is not answered yet.
    pub(super) fn pending(&self, asked: &Requests) -> Option<String> {
        asked.at.clone().filter(|at| self.standing.borrow().handled.as_ref() != Some(at))
    }

    /// Waits until the repository was looked at after a request came: what is synced then is what it holds by then. Every
    /// look has its deadline, so this has one. False when something else is asked for meanwhile.
    pub(super) async fn looked_after(
        &self,
        at: &str,
        looked: &mut watch::Receiver<Option<String>>,
        requests: &mut watch::Receiver<Requests>,
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
    pub(super) fn answer(&self, at: Option<&String>, asked: &Requests, head: Option<&Head>) {
        self.stand(|standing| {
            let mut unheard = BTreeSet::new();
            if let Some(head) = head {
                let newest = short(&head.commit);
                if let (Some(approval), Some(_)) = (&asked.allow, &standing.held)
                    && !head.commit.starts_with(&approval.revision)
                {
                    unheard.insert(format!(
                        "the approval `{}` is of another commit, and lets nothing of {newest} go",
                        approval.text()
                    ));
                }
                if let (Some(outside), Phase::Window) = (&asked.outside_windows, standing.phase)
                    && !head.commit.starts_with(outside)
                {
                    unheard.insert(format!(
                        "a sync outside the windows was asked for of {}, and the newest commit is {newest}",
                        short(outside)
                    ));
                }
            }
            if at.is_some() {
                match standing.phase {
                    Phase::Suspended => drop(unheard.insert(
                        "a sync was asked for, and the source is suspended: set `spec.suspend` to false".to_owned(),
                    )),
                    Phase::Window => drop(unheard.insert(format!(
                        "a sync was asked for, and no sync window is open: annotate the source with {}=<commit> to sync that commit all the same",
                        crate::controller::requests::OUTSIDE_WINDOWS
                    ))),
                    Phase::Idle | Phase::Reading | Phase::Syncing | Phase::Retrying => {}
                }
            } else {
                // What was said of the last request stays said for as long as it is so.
                let of_request = |text: &&String| text.starts_with("a sync was asked for");
                let stays = matches!(standing.phase, Phase::Suspended | Phase::Window);
                unheard.extend(standing.unheard.iter().filter(|_| stays).filter(of_request).cloned());
            }
            for news in unheard.difference(&standing.unheard) {
                tracing::warn!(source = %self.source.key, "{news}");
            }
            standing.unheard = unheard;
            if let Some(at) = at {
                standing.handled = Some(at.clone());
            }
        });
    }
}
