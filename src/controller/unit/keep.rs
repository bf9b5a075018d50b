//! Keeping what runs as the last good commit says, while the newest one may not be synced, or not all of it.
//!
//! The newest commit wins; but one that is refused, broken or held back has nothing to put in the place of what drifts.
//! What it cannot speak for goes on as the last commit says that was synced well, as long as that one is known. Nothing is
//! pruned by it, nothing of what the newest commit did is undone, and no status is posted for it.

use super::attempt::{Memory, Stop, overtaken};
use super::ready::{Planned, planned};
use super::wait::Ears;
use super::{Head, Unit};
use crate::controller::report::commit_ledger::commit_label;
use futures_util::FutureExt as _;
use stator_cluster::sync::incremental::IncrementalPlanner;
use stator_cluster::sync::{self, CancelReason, PlanParameters, SyncOptions};
use stator_model::plan::{self, PlanScope};
use stator_model::present::pluralize;
use std::collections::BTreeSet;
use tokio::sync::watch;

/// What the newest commit does not speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unspoken {
    /// Nothing of it may be synced.
    All,
    /// Some models have errors, or all that would happen to them is held back.
    Models {
        /// By name, where that is known.
        names: BTreeSet<String>,
        /// By their `model.yaml`: one that cannot be read has no name.
        sources: BTreeSet<String>,
    },
}

impl Unit {
    /// Puts back what drifted of what the newest commit does not speak for, from the last commit that was synced well.
    pub(super) async fn keep(&self, head: &Head, ears: &Ears, memory: &mut Memory) {
        let Some(unspoken) = memory.unspoken.clone() else { return };
        let Some(good) = self.good(head) else { return };
        if let Err(stop) = self.put_back(&good, unspoken, head, ears, memory).boxed().await {
            let why = stop.verdict.sentence();
            tracing::warn!(source = %self.source.key, revision = commit_label(&good), "what runs cannot be kept as it was: {why}");
        }
    }

    async fn put_back(
        &self,
        good: &str,
        unspoken: Unspoken,
        head: &Head,
        ears: &Ears,
        memory: &mut Memory,
    ) -> Result<(), Stop> {
        let mut heads = ears.heads.clone();
        let prepared = async {
            let ready = self.ready(good, None, IncrementalPlanner::default()).await?;
            let live = self.live(&ready, memory).await?;
            Ok::<_, Stop>((ready, live))
        };
        let (ready, live) = tokio::select! {
            prepared = prepared.boxed() => prepared?,
            () = overtaken(head, &mut heads) => return Ok(()),
            () = self.ending.cancelled() => return Ok(()),
        };
        let aim = PlanParameters {
            revision: good.to_owned(),
            folder: self.folder(ready.named),
            prune: false,
            scope: match unspoken {
                Unspoken::All => PlanScope::All,
                Unspoken::Models { mut names, sources } => {
                    let there = ready.desired.rendered.iter().filter(|one| sources.contains(&one.source));
                    names.extend(there.map(|one| one.model.clone()));
                    PlanScope::Models(names)
                }
            },
            ..PlanParameters::default()
        };
        let Planned { mut plan, records, .. } = planned(ready, live, aim, false).await?;
        let drifted: BTreeSet<String> = plan::drifted_models(&plan, &records).into_keys().collect();
        memory.kept_drifted = if self.heals() { 0 } else { drifted.len() };
        self.stand(|standing| standing.counts.drifted = drifted.len());
        // Whatever else differs is not drift, and is the newest commit's matter.
        let others = plan.changes.iter().map(|change| change.model.clone()).filter(|model| !drifted.contains(model));
        let others: BTreeSet<String> = others.chain(plan.retired.iter().cloned()).collect();
        plan.exclude_models(&others);
        if drifted.is_empty() || !self.heals() {
            return Ok(());
        }
        let mut options = SyncOptions::new(jiff::Timestamp::now(), super::seed());
        options.prune = false;
        let (cancel, cancelled) = watch::channel(None::<CancelReason>);
        let sink = |_| {};
        let work = sync::run_sync(&self.cluster, plan, records, options, &sink, cancelled).boxed();
        let stop = async {
            tokio::select! {
                () = overtaken(head, &mut heads) => {}
                () = self.ending.cancelled() => {}
            }
            let _ = cancel.send(Some(CancelReason::Interrupted));
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = stop => return Ok(()),
        };
        if outcome.writes == 0 {
            return Ok(());
        }
        self.metrics.record_drift_repair(&self.source.key);
        tracing::info!(
            source = %self.source.key, revision = commit_label(good), writes = outcome.writes,
            "live objects of {} are put back as the last good commit says", pluralize(drifted.len(), "model", "models")
        );
        self.stand(|standing| standing.counts.drifted = 0);
        Ok(())
    }

    /// The last commit that was synced well, where that is known and not this one.
    pub(super) fn good(&self, head: &Head) -> Option<String> {
        let standing = self.standing.borrow();
        let recalled = standing.previous.as_ref().and_then(|recalled| recalled.applied.clone());
        let applied = standing.applied.as_ref().map(|applied| applied.commit.clone()).or(recalled);
        applied.filter(|good| *good != head.commit)
    }

    /// Says which commit live objects are kept at, where the newest one does not speak for all of them.
    pub(super) fn keeping(&self, head: &Head, memory: &Memory) {
        let good = memory.unspoken.as_ref().and_then(|_| self.good(head));
        self.stand(|standing| standing.last_known_good = good);
    }

    /// Whether drift is put back by itself.
    pub(super) fn heals(&self) -> bool {
        self.source.spec.self_heal.unwrap_or(true)
    }
}
