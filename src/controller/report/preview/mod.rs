//! Previews: every open pull request onto the branch that a source follows is planned, commented on and given a status.
//!
//! One task a source and one pull request at a time, so no two writers meet. What is reported is derived from the host's own
//! state each time: hints only say where to look, and after a restart everything is looked at once.

mod comment_upsert;
mod coverage;
mod host_pauses;
pub mod planner;
mod pull_request_queue;
pub mod trees;

pub use coverage::DEFAULT_PREVIEW_LIMIT;

use super::commit_statuses::poster::StatusPoster;
use super::commit_statuses::write_budget::ForgeWriteBudget;
use crate::controller::metrics::{Metrics, PreviewOutcome};
use crate::controller::report::commit_statuses::ledger::StatusContexts;
use crate::controller::sources::hints::SourceHints;
use crate::controller::status_wording::{FirstFinding, commit_label};
use crate::controller::waiting::jittered;
use coverage::{LeftOutReason, PreviewCoverage};
use host_pauses::{backoff_pause, is_refusal, is_refusal_of_one, pause_after_error, refusal_pause};
use planner::{PullRequestPlan, PullRequestPlanError, PullRequestPlanner};
use pull_request_queue::PullRequestQueue;
use stator_cluster::cluster::{AnyCluster, Cluster as _, Fence};
use stator_cluster::fleet_policies::SourcePolicyReader;
use stator_core::dynamo::admission::Platform;
use stator_git::forge::{CommitStatus, ForgeApi, ForgeError, PullRequest, PullRequestState, StatusState};
use stator_model::intent::scalar::DnsName;
use stator_model::present::preview::{self, PreviewComment, PreviewContent};
use stator_view::facts::PreviewFacts;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trees::{PullRequestReadError, PullRequestReader, PullRequestRefs};

/// How long a base branch that moved is left to move on before all open pull requests are planned again.
const BASE_SETTLE_DELAY: Duration = Duration::from_secs(10);
/// How long after one preview of a pull request the next may come: pushes come in bursts.
const PREVIEW_DEBOUNCE: Duration = Duration::from_secs(5);
/// Open pull requests of which it is reported that they are left out.
const MAX_LEFT_OUT_STATUSES: usize = 100;

/// What previews are of.
#[derive(Clone, Debug)]
pub struct PreviewSettings {
    /// Who keeps the comments: see [`CommentMarker::scope`](preview::CommentMarker::scope).
    pub scope: String,
    /// The branch that pull requests are to go into.
    pub branch: String,
    /// The folder of the repository that holds its root `stator.yaml`.
    pub folder: String,
    /// The environment, where the source names one.
    pub environment: Option<String>,
    /// A namespace to use instead of the environment's.
    pub namespace: Option<DnsName>,
    /// What statuses begin with: `stator`.
    pub prefix: String,
    /// Whether pull requests from other repositories are previewed.
    pub forks: bool,
    /// How many open pull requests are previewed, the newest.
    pub limit: usize,
    /// How often all open pull requests are looked at, hints or not.
    pub poll_interval: Duration,
    /// What every comment asks before it is written; nothing where this works alone.
    pub fence: Option<Fence>,
    /// What administrators allow the source.
    pub policies: SourcePolicyReader,
}

/// What is remembered of an open pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KnownPullRequest {
    /// The commit that was planned last.
    head: String,
    /// The base branch's commit at that time.
    tip: Option<String>,
    comment: Option<stator_git::forge::PullRequestComment>,
    failures: u32,
    /// The host refuses what is to be done about it: the next list of open pull requests does not name it before then.
    refused_until: Option<Instant>,
}

/// Keeps the previews of one source.
pub struct PreviewRunner<F, C> {
    forge: Arc<F>,
    commits: C,
    poster: Arc<StatusPoster<F>>,
    budget: ForgeWriteBudget,
    settings: PreviewSettings,
    planner: Arc<Mutex<PullRequestPlanner>>,
    known: BTreeMap<u64, KnownPullRequest>,
    queue: PullRequestQueue,
    coverage: PreviewCoverage,
    /// Those that are left out, with the commit that it was reported of.
    left_out: BTreeMap<u64, String>,
    /// The environment's name, once a plan has determined it.
    environment_name: Option<String>,
    /// How the last one ended, until it is counted.
    last_outcome: Option<PreviewOutcome>,
    metrics: Arc<Metrics>,
    /// Where pages read what was planned.
    shown: watch::Sender<BTreeMap<u64, PreviewFacts>>,
    /// Set when the process ends: nothing is waited for any more.
    shutdown: CancellationToken,
}

/// Why a preview was not finished.
enum PreviewRunError {
    Forge(ForgeError),
    Git(String),
}

impl From<ForgeError> for PreviewRunError {
    fn from(error: ForgeError) -> Self {
        Self::Forge(error)
    }
}

impl<F: ForgeApi + 'static, C: PullRequestReader> PreviewRunner<F, C> {
    /// Nothing is asked yet. `budget` is what the source's namespace may write to the host.
    pub fn new(
        forge: Arc<F>,
        commits: C,
        poster: Arc<StatusPoster<F>>,
        budget: ForgeWriteBudget,
        settings: PreviewSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let planner = PullRequestPlanner::new(settings.environment.clone(), settings.namespace.clone());
        let planner = Arc::new(Mutex::new(planner));
        Self {
            forge,
            commits,
            poster,
            budget,
            planner,
            known: BTreeMap::new(),
            queue: PullRequestQueue::default(),
            coverage: PreviewCoverage::new(settings.forks, settings.limit),
            left_out: BTreeMap::new(),
            settings,
            environment_name: None,
            last_outcome: None,
            metrics,
            shown: watch::Sender::default(),
            shutdown: CancellationToken::new(),
        }
    }

    /// The same, and pages show what it plans.
    #[must_use]
    pub fn publish_to(self, shown: watch::Sender<BTreeMap<u64, PreviewFacts>>) -> Self {
        Self { shown, ..self }
    }

    /// Runs until it is asked to stop: on hints, when the base branch moves (`tip` is its newest commit), and every few
    /// minutes anyway.
    pub async fn run(
        mut self,
        hints: Arc<SourceHints>,
        mut tip: watch::Receiver<Option<String>>,
        ending: CancellationToken,
    ) {
        self.shutdown = ending.clone();
        let mut look = Instant::now();
        let mut backoff = 0_u32;
        loop {
            let due = self.queue.next_due().map_or(look, |due| due.min(look));
            tokio::select! {
                () = ending.cancelled() => return,
                hinted = hints.pulls.next() => {
                    let now = Instant::now();
                    if hinted.everything {
                        look = now;
                    }
                    hinted.items.into_iter().for_each(|number| self.queue.schedule(number, now));
                    continue;
                }
                moved = tip.changed() => {
                    if moved.is_err() {
                        return;
                    }
                    tip.mark_unchanged();
                    look = look.min(Instant::now() + BASE_SETTLE_DELAY);
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
            }
            let newest = tip.borrow().clone();
            let now = Instant::now();
            let looked = look <= now;
            let done = if looked {
                look = now + jittered(self.settings.poll_interval);
                self.poll_pull_requests(newest.as_deref()).await.map_err(PreviewRunError::Forge)
            } else if let Some(number) = self.queue.take_due(now) {
                let done = self.update_preview(number, newest).await;
                let ended = if done.is_err() { Some(PreviewOutcome::Failed) } else { self.last_outcome.take() };
                if let Some(ended) = ended {
                    self.metrics.record_preview(ended, now.elapsed());
                }
                self.queue.finish(number, Instant::now() + PREVIEW_DEBOUNCE);
                if let Err(error) = &done {
                    self.retry_later(number, error);
                }
                done
            } else {
                continue;
            };
            match done {
                Ok(()) => backoff = 0,
                Err(PreviewRunError::Git(error)) => {
                    tracing::warn!(scope = self.settings.scope, error, "a pull request could not be read");
                }
                // Of one pull request alone: the others go on.
                Err(PreviewRunError::Forge(error)) if !looked && is_refusal_of_one(&error) => {}
                Err(PreviewRunError::Forge(error)) => {
                    if backoff == 0 && is_refusal(&error) {
                        // The host's own words may quote what was sent.
                        tracing::warn!(
                            scope = self.settings.scope,
                            "the git host refuses previews; stator retries within the hour: {}",
                            error.help()
                        );
                    }
                    let wait = pause_after_error(&error, &mut backoff);
                    let again = Instant::now() + wait;
                    self.queue.hold_until(again);
                    look = if looked { again.max(Instant::now() + backoff_pause(backoff)) } else { look.max(again) };
                }
            }
        }
    }

    /// Another try at a pull request that failed. A refusal lasts until somebody changes something, so there is more time.
    fn retry_later(&mut self, number: u64, error: &PreviewRunError) {
        let known = self.known.entry(number).or_default();
        known.failures = known.failures.saturating_add(1);
        let now = Instant::now();
        let again = match error {
            PreviewRunError::Forge(error) if is_refusal_of_one(error) => {
                if known.refused_until.is_none() {
                    tracing::warn!(
                        scope = self.settings.scope,
                        number,
                        "the git host refuses the preview of a pull request; stator retries within the hour: {}",
                        error.help()
                    );
                }
                let again = now + refusal_pause(known.failures);
                known.refused_until = Some(again);
                again
            }
            PreviewRunError::Forge(_) | PreviewRunError::Git(_) => now + backoff_pause(known.failures),
        };
        self.queue.schedule(number, again);
    }

    /// Lists the open pull requests: those that are new or moved are to be planned, those that are gone are closed out.
    async fn poll_pull_requests(&mut self, tip: Option<&str>) -> Result<(), ForgeError> {
        let mut open = self.forge.list_open_pull_requests(&self.settings.branch).await?;
        let now = Instant::now();
        let left_out = self.coverage.take_stock(&open);
        self.left_out.retain(|number, _| left_out.contains_key(number));
        if !left_out.is_empty() {
            tracing::info!(scope = self.settings.scope, count = left_out.len(), "open pull requests are not previewed");
        }
        // Of those that are named last the first is looked at first: the newest.
        open.sort_unstable_by_key(|pull| pull.number);
        let reported = open.iter().rev().filter_map(|pull| Some((pull, *left_out.get(&pull.number)?)));
        reported.take(MAX_LEFT_OUT_STATUSES).for_each(|(pull, reason)| self.report_left_out(pull, reason));
        for pull in open.iter().filter(|pull| !left_out.contains_key(&pull.number)) {
            let stale = self.known.get(&pull.number).is_none_or(|known| {
                let is_refused = known.refused_until.is_some_and(|until| until > now);
                !is_refused && (!same_commit(&known.head, &pull.head) || known.tip.as_deref() != tip)
            });
            if stale {
                self.queue.schedule(pull.number, now);
            }
        }
        let gone: Vec<u64> =
            self.known.keys().filter(|number| !open.iter().any(|pull| pull.number == **number)).copied().collect();
        gone.into_iter().for_each(|number| self.queue.schedule(number, now));
        Ok(())
    }

    /// What the cluster runs and has, where it is one that Dynamo runs in. What it does not answer is not known.
    async fn served_platform(&self) -> Platform {
        let cluster = self.settings.policies.reader.cluster.as_ref().and_then(AnyCluster::as_kubernetes);
        match cluster {
            Some(cluster) => {
                let platform = cluster.platform(&Platform::default()).await.unwrap_or_default();
                let gpus = cluster.allocatable_gpus().await.ok();
                Platform { gpus, ..platform }
            }
            None => Platform::default(),
        }
    }

    /// Brings one pull request's comment and status up to date.
    async fn update_preview(&mut self, number: u64, tip: Option<String>) -> Result<(), PreviewRunError> {
        let pull = match self.forge.pull_request(number).await {
            Ok(pull) => pull,
            Err(ForgeError::NotFound { .. }) => {
                self.known.remove(&number);
                self.shown.send_modify(|shown| drop(shown.remove(&number)));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if pull.state != PullRequestState::Open || pull.base != self.settings.branch {
            self.coverage.forget(number);
            return self.close_out(&pull).await;
        }
        if let Some(reason) = self.coverage.judge(&pull) {
            self.report_left_out(&pull, reason);
            return Ok(());
        }
        let Some(wanted) = PullRequestRefs::from_pull_request(&pull, tip.clone(), &self.settings.folder) else {
            let unplanned = PullRequestPlanError {
                reason: "its commits are in another repository, and this host has no ref to fetch them".to_owned(),
                help: "push the branch to this repository".to_owned(),
                is_head_at_fault: true,
            };
            return self.publish_preview(&pull, &pull.head, tip, Err(unplanned)).await;
        };
        let sides = match self.commits.read_trees(wanted).await {
            Ok(sides) => sides,
            Err(PullRequestReadError::Faulty { reason, help }) => {
                let unplanned = PullRequestPlanError { reason, help, is_head_at_fault: true };
                return self.publish_preview(&pull, &pull.head, tip, Err(unplanned)).await;
            }
            Err(PullRequestReadError::Git(error)) => {
                let description = "could not be planned: the repository could not be read".to_owned();
                self.post_status(&pull.head, self.environment(), StatusState::Error, description);
                return Err(PreviewRunError::Git(error));
            }
        };
        if !same_commit(&pull.head, &sides.head_commit) {
            // Somebody pushed in between: what the host says now is what counts, and the next look finds it.
            self.queue.schedule(number, Instant::now() + PREVIEW_DEBOUNCE);
        }
        let head = sides.head_commit.clone();
        let planner = Arc::clone(&self.planner);
        let policies = self.settings.policies.read().await;
        let platform = self.served_platform().await;
        let planned = tokio::task::spawn_blocking(move || {
            let mut planner = planner.lock().unwrap_or_else(PoisonError::into_inner);
            planner.hold_to(policies);
            planner.judge_for(platform);
            planner.plan(&sides)
        });
        let planned = planned.await.unwrap_or_else(|_| {
            Err(PullRequestPlanError {
                reason: "stator failed on these files".to_owned(),
                help: "report it, with the files".to_owned(),
                is_head_at_fault: true,
            })
        });
        self.publish_preview(&pull, &head, tip, planned).await
    }

    /// Reports once of each commit that it is not previewed. That is no success: whoever requires the status to merge would let
    /// through what nobody has seen the plan of.
    fn report_left_out(&mut self, pull: &PullRequest, reason: LeftOutReason) {
        let before = self.left_out.insert(pull.number, pull.head.clone());
        if before.as_ref() != Some(&pull.head) {
            self.metrics.record_preview(PreviewOutcome::LeftOut, Duration::ZERO);
            self.post_status(&pull.head, self.environment(), StatusState::Error, reason.sentence());
        }
    }

    /// Writes the comment and wants the status.
    async fn publish_preview(
        &mut self,
        pull: &PullRequest,
        head: &str,
        tip: Option<String>,
        planned: Result<PullRequestPlan, PullRequestPlanError>,
    ) -> Result<(), PreviewRunError> {
        self.last_outcome = Some(match &planned {
            Ok(_) => PreviewOutcome::Planned,
            Err(error) if error.is_head_at_fault => PreviewOutcome::Faulty,
            Err(_) => PreviewOutcome::Failed,
        });
        if let Ok(planned) = &planned {
            self.environment_name = Some(planned.plan.environment.clone());
        }
        let environment = self.environment();
        let no_notes = Vec::new();
        let (shown, models, notes) = match &planned {
            Ok(planned) => (PreviewContent::Plan(&planned.plan), Some(planned.models), &planned.notes),
            Err(error) => (PreviewContent::Failed { reason: &error.reason, help: &error.help }, None, &no_notes),
        };
        let preview = PreviewComment {
            scope: &self.settings.scope,
            environment: &environment,
            head,
            content: shown,
            models,
            notes,
            link: None,
        };
        let body = preview::render_comment(&preview, self.comment_budget());
        let (state, description) = preview_status(&planned);
        let facts = planner::shown_facts(pull, head, planned.as_ref().ok(), &description);
        self.shown.send_modify(|shown| drop(shown.insert(pull.number, facts)));
        // The status first: it costs the host less, and a comment that fails is reported by the next poll.
        self.post_status(head, environment, state, description);
        // Where nothing changes and nothing was ever reported, nothing is.
        let silent = planned.as_ref().is_ok_and(|one| {
            one.plan.findings.is_empty()
                && one.notes.is_empty()
                && one.plan.changes.iter().all(stator_model::present::plan::is_unchanged)
        });
        self.upsert_comment(pull.number, &body, !silent).await?;
        let known = self.known.entry(pull.number).or_default();
        (known.head, known.tip, known.failures, known.refused_until) = (head.to_owned(), tip, 0, None);
        Ok(())
    }

    /// Says in the comment, where there is one, that nothing is previewed any more.
    async fn close_out(&mut self, pull: &PullRequest) -> Result<(), PreviewRunError> {
        let shown = match pull.state {
            PullRequestState::Merged => PreviewContent::Merged,
            // Open onto another branch is gone from this one.
            PullRequestState::Closed | PullRequestState::Open => PreviewContent::Closed,
        };
        let body = self.closing_comment(&pull.head, shown);
        self.upsert_comment(pull.number, &body, false).await?;
        if let Some(fetch) = &pull.fetch {
            self.commits.forget_ref(fetch.clone()).await;
        }
        self.shown.send_modify(|shown| drop(shown.remove(&pull.number)));
        self.known.remove(&pull.number);
        Ok(())
    }

    fn environment(&self) -> String {
        let known = self.environment_name.as_ref().or(self.settings.environment.as_ref());
        known.cloned().unwrap_or_else(|| "default".to_owned())
    }

    fn comment_budget(&self) -> preview::CommentLimits {
        let limits = self.forge.limits();
        let bytes = limits.comment.min(preview::CommentLimits::default().bytes);
        preview::CommentLimits { bytes, html: limits.html }
    }

    fn post_status(&self, commit: &str, environment: String, state: StatusState, description: String) {
        let contexts = StatusContexts {
            prefix: self.settings.prefix.clone(),
            environment,
            per_model: false,
            most_models: 0,
            target_url: None,
        };
        let status =
            CommitStatus { context: contexts.preview(), state, description, target_url: contexts.target_url.clone() };
        self.poster.request_statuses([(commit.to_owned(), status)]);
    }
}

/// The status of a preview. A plan that a guard will hold back is no fault of the commit's: it says so, and is green.
fn preview_status(planned: &Result<PullRequestPlan, PullRequestPlanError>) -> (StatusState, String) {
    match planned {
        Ok(planned) => match FirstFinding::from_findings(&planned.plan.findings) {
            Some(first) => (StatusState::Failure, first.sentence()),
            None => match planned.plan.upgrade.as_deref().filter(|upgrade| upgrade.is_refused()) {
                Some(upgrade) => (StatusState::Failure, stator_model::present::upgrade::headline(upgrade)),
                None => (StatusState::Success, preview::status_description(&planned.plan, planned.models)),
            },
        },
        Err(error) if error.is_head_at_fault => {
            (StatusState::Failure, format!("could not be planned: {}", error.reason))
        }
        Err(error) => (StatusState::Error, format!("could not be planned: {}", error.reason)),
    }
}

/// Hosts that give twelve characters of a commit mean the same.
fn same_commit(one: &str, other: &str) -> bool {
    let length = one.len().min(other.len());
    length >= commit_label(one).len().max(1) && one.get(..length) == other.get(..length)
}

#[cfg(test)]
mod tests;
