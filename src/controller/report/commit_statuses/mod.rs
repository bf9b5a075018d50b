//! What is reported of a source's commits: a [ledger] decides what the git host is to show, a [poster] compares that with what
//! it shows and sends the difference, and `recovery` brings to an end what an earlier process began to report.

pub mod ledger;
pub mod poster;
mod recovery;
pub mod write_budget;

pub(in crate::controller) use recovery::HistoryError;

use crate::controller::metrics::{Metrics, QueueKind};
use crate::controller::report::queued_forge::{ForgeTurns, QueuedForge};
use crate::controller::sources::file::ResolvedSource;
use crate::controller::status_wording::{CommitVerdict, ModelVerdict};
use ledger::{CommitLedger, MAX_MODEL_STATUSES, StatusContexts};
use poster::StatusPoster;
use stator_cluster::cluster::Fence;
use stator_git::forge::{AnyForge, CommitStatus, ForgeApi as _, ForgeError, ForgeHttp, RetryAdvice, StatusState};
use stator_view::models::ModelQuery;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use url::Url;
use write_budget::{ForgeWriteBudget, ForgeWriteBudgets};

/// How long a host is asked what it shows, after a start.
const RECALL_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest address that git hosts take for a status: GitLab's limit.
const MAX_TARGET_URL_BYTES: usize = 255;

/// What contexts begin with.
pub(in crate::controller) const DEFAULT_CONTEXT_PREFIX: &str = "stator";

/// The source's git host, and what all that speak to it share.
#[derive(Clone)]
pub(in crate::controller) struct SourceForge {
    pub(in crate::controller) forge: Arc<QueuedForge>,
    pub(in crate::controller) poster: Arc<StatusPoster<QueuedForge>>,
    pub(in crate::controller) budget: ForgeWriteBudget,
    /// What everything that is written there asks.
    pub(in crate::controller) fence: Option<Fence>,
    pub(in crate::controller) metrics: Arc<Metrics>,
}

impl fmt::Debug for SourceForge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceForge").field(&self.forge.describe()).finish()
    }
}

/// The statuses of one source's commits. Where the source names no forge, they are only kept. Clones are of the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct CommitStatuses {
    host: Option<SourceForge>,
    /// Where there is more to read; the contexts of the source's statuses come with the environment's name.
    naming: Arc<StatusNaming>,
    reported: Arc<Mutex<ReportedCommits>>,
    /// What the host showed of the commit that was the newest at the start; nothing before it was asked.
    start: Arc<watch::Sender<Option<InitialStatus>>>,
}

/// What contexts and addresses of statuses are made of.
#[derive(Debug)]
struct StatusNaming {
    prefix: String,
    per_model: bool,
    target_url: Option<String>,
}

/// What is known of commits.
#[derive(Debug, Default)]
struct ReportedCommits {
    /// Once the environment has a name.
    ledger: Option<CommitLedger>,
    /// Seen before that.
    unnamed: Vec<String>,
    /// The newest commit and those before it that an earlier process may have reported something of, where nobody has asked
    /// the host for them.
    unrecalled: Option<(String, Vec<String>)>,
    /// To be taken up again, as soon as its statuses have a name.
    reopened: Option<String>,
}

/// What was found at the git host before anything was posted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum InitialStatus {
    /// The newest commit had its end: whoever posted that had posted the ends of those before it.
    Concluded,
    /// It had none, or the host did not answer: an earlier process may have left older ones without an end, too.
    Unconcluded,
}

impl CommitStatuses {
    /// Of a source, whose statuses lead to its models on `pages` where it names no page of its own. A forge that cannot be
    /// connected to is reported, and nothing is posted.
    pub(in crate::controller) fn new(
        source: &ResolvedSource,
        (turns, budgets): (ForgeTurns, &ForgeWriteBudgets),
        fence: Option<Fence>,
        seed: u64,
        metrics: &Arc<Metrics>,
        pages: Option<&Url>,
    ) -> (Self, Option<String>) {
        let (forge, problem) = match connect_forge(source, metrics) {
            Ok(forge) => (forge.map(|forge| Arc::new(QueuedForge::new(forge, source, turns))), None),
            Err(problem) => (None, Some(problem)),
        };
        let host = forge.map(|forge| {
            let budget = budgets.budget(forge.host(), forge.limits().writes, &source.key.namespace);
            let poster = Arc::new(StatusPoster::start(Arc::clone(&forge), budget.clone(), fence.clone(), seed));
            let state = poster.state();
            // The sender is gone with the poster.
            metrics.add_queue_probe(QueueKind::Statuses, move || {
                state.has_changed().is_ok().then(|| state.borrow().pending)
            });
            SourceForge { forge, poster, budget, fence, metrics: Arc::clone(metrics) }
        });
        let forge = source.spec.forge.as_ref();
        let naming = StatusNaming {
            prefix: forge.and_then(|forge| forge.context.clone()).unwrap_or_else(|| DEFAULT_CONTEXT_PREFIX.to_owned()),
            per_model: source.spec.status_per_model,
            target_url: forge.and_then(|forge| forge.target_url.clone()).or_else(|| models_page(source, pages)),
        };
        let statuses =
            Self { host, naming: Arc::new(naming), reported: Arc::default(), start: Arc::new(watch::channel(None).0) };
        if let Some(environment) = &source.spec.environment {
            statuses.open_ledger(environment.as_str());
        }
        (statuses, problem)
    }

    fn lock(&self) -> MutexGuard<'_, ReportedCommits> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The git host, where the source names one that can be connected to.
    pub(in crate::controller) fn host(&self) -> Option<&SourceForge> {
        self.host.as_ref()
    }

    /// What the host shows of a commit as a whole: what is wanted, once it was posted.
    pub(in crate::controller) fn posted_status(&self, commit: &str) -> Option<CommitStatus> {
        let wanted = self.lock().ledger.as_ref().and_then(|ledger| ledger.desired_status(commit))?;
        self.host.as_ref()?.poster.posted_status(commit, &wanted.context)
    }

    /// Hands it all to the poster, again too: what a full queue left out is taken later.
    pub(in crate::controller) fn post_all(&self) {
        let Some(host) = &self.host else { return };
        let wanted = self.lock().ledger.as_ref().map(CommitLedger::desired_statuses);
        if let Some(wanted) = wanted {
            host.poster.request_statuses(wanted);
        }
    }

    /// Waits until the commits have a context to be reported under and the host was asked for the newest one.
    pub(in crate::controller) async fn wait_for_initial(&self) -> Option<InitialStatus> {
        self.start.subscribe().wait_for(Option::is_some).await.ok().and_then(|start| *start)
    }

    /// What the host showed of the newest commit, where it was asked already.
    pub(in crate::controller) fn initial_status(&self) -> Option<InitialStatus> {
        *self.start.borrow()
    }

    /// Whether the environment's name is known.
    pub(in crate::controller) fn has_environment(&self) -> bool {
        self.lock().ledger.is_some()
    }

    /// The environment's name is known now; the first time counts.
    pub(in crate::controller) async fn set_environment(&self, environment: &str) {
        if self.has_environment() {
            return;
        }
        self.open_ledger(environment);
        let unrecalled = self.lock().unrecalled.take();
        if let Some((commit, before)) = unrecalled {
            self.recall_newest(&commit, &before).await;
        }
        let reopened = self.lock().reopened.take();
        if let Some(commit) = reopened {
            self.change_ledger(|ledger| ledger.reopen_commit(&commit));
        }
        self.post_all();
    }

    fn open_ledger(&self, environment: &str) {
        let StatusNaming { prefix, per_model, target_url } = &*self.naming;
        let mut ledger = CommitLedger::new(StatusContexts {
            prefix: prefix.clone(),
            environment: environment.to_owned(),
            per_model: *per_model,
            most_models: MAX_MODEL_STATUSES,
            target_url: target_url.clone(),
        });
        let mut reported = self.lock();
        for commit in reported.unnamed.drain(..) {
            ledger.record_commit(&commit);
        }
        if let Some((newest, _)) = &reported.unrecalled {
            ledger.await_statuses(newest);
        }
        reported.ledger = Some(ledger);
    }

    /// A commit is the newest now. `before` is what the source may have followed when it was last looked at, by an earlier
    /// process or another replica perhaps: what the host shows of them all is read once.
    pub(in crate::controller) async fn report_commit(&self, commit: &str, before: &BTreeSet<String>, first: bool) {
        let before: Vec<String> = before.iter().cloned().collect();
        let is_named = {
            let mut reported = self.lock();
            match &mut reported.ledger {
                Some(ledger) => {
                    ledger.record_commit(commit);
                    if first {
                        ledger.await_statuses(commit);
                    }
                    true
                }
                None => {
                    reported.unnamed.push(commit.to_owned());
                    if first {
                        reported.unrecalled = Some((commit.to_owned(), before.clone()));
                    }
                    false
                }
            }
        };
        if first && is_named {
            self.recall_newest(commit, &before).await;
        }
        self.post_all();
    }

    /// The newest commit is taken up again, since somebody changed something for it.
    pub(in crate::controller) fn reopen_commit(&self, commit: &str) {
        if self.has_environment() {
            self.update_ledger(|ledger| ledger.reopen_commit(commit));
        } else {
            self.lock().reopened = Some(commit.to_owned());
        }
    }

    /// Reads what the host shows of a commit, so that what is reported of it there comes to an end. Returns whether it had one.
    /// An error is in the host's words, or that there was no answer; of a host that will give none, nothing is shown.
    pub(in crate::controller) async fn recall_statuses(&self, commit: &str) -> Result<bool, String> {
        let context = self.lock().ledger.as_ref().map(|ledger| ledger.contexts().environment());
        let (Some(SourceForge { poster, .. }), Some(context)) = (&self.host, context) else {
            self.change_ledger(|ledger| ledger.restore_statuses(commit, &[]));
            return Ok(false);
        };
        let answer = tokio::time::timeout(RECALL_TIMEOUT, poster.load_posted_statuses(commit, &context)).await;
        let shown = match answer.map_err(|_| "no answer in time".to_owned())? {
            Ok(shown) => shown,
            Err(error) if is_refusal(&error) => {
                tracing::warn!(
                    commit,
                    "what the git host shows of the commit cannot be read: {error}; {}",
                    error.help()
                );
                Vec::new()
            }
            Err(error) => return Err(error.to_string()),
        };
        self.change_ledger(|ledger| ledger.restore_statuses(commit, &shown));
        Ok(shown.iter().any(|status| status.context == context && status.state != StatusState::Pending))
    }

    /// Reads what the host shows of the newest commit and of those `before` it. What it does not answer now is asked again
    /// by whoever looks back.
    async fn recall_newest(&self, newest: &str, before: &[String]) {
        // Where there is no host, nothing was posted.
        let mut start = if self.host.is_some() { InitialStatus::Unconcluded } else { InitialStatus::Concluded };
        for commit in std::iter::once(newest).chain(before.iter().map(String::as_str)) {
            match self.recall_statuses(commit).await {
                Ok(ended) if ended && commit == newest => start = InitialStatus::Concluded,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error, commit, "the commit's statuses on the git host are not known yet");
                    start = InitialStatus::Unconcluded;
                }
            }
        }
        self.start.send_replace(Some(start));
    }

    /// The newest commit has ended.
    pub(in crate::controller) fn report_verdict(&self, commit: &str, verdict: CommitVerdict) {
        self.update_ledger(|ledger| ledger.record_verdict(commit, verdict));
    }

    /// How models of the newest commit ended.
    pub(in crate::controller) fn report_models(&self, commit: &str, models: Vec<(String, ModelVerdict)>) {
        self.update_ledger(|ledger| {
            for (model, verdict) in models {
                ledger.record_model(commit, &model, Some(verdict));
            }
        });
    }

    fn change_ledger(&self, change: impl FnOnce(&mut CommitLedger)) {
        if let Some(ledger) = &mut self.lock().ledger {
            change(ledger);
        }
    }

    /// Changes what is reported of the commits, and posts what the git host does not show yet.
    pub(in crate::controller) fn update_ledger(&self, change: impl FnOnce(&mut CommitLedger)) {
        self.change_ledger(change);
        self.post_all();
    }

    /// Waits until all that is wanted is posted, but not for long: what is not is posted after the next start.
    pub(in crate::controller) async fn wait_until_posted(&self, deadline: Duration) {
        if let Some(SourceForge { poster, .. }) = &self.host
            && !poster.wait_until_posted(deadline).await
        {
            tracing::warn!("not all statuses were posted in time; the next start posts the rest");
        }
    }
}

/// The page of the source's models.
fn models_page(source: &ResolvedSource, pages: Option<&Url>) -> Option<String> {
    let key = &source.key;
    let mut models = ModelQuery::default();
    models.filter.source = BTreeSet::from([format!("{}/{}", key.namespace, key.name)]);
    let page = pages?.join(&models.address("/")).ok()?.to_string();
    (page.len() <= MAX_TARGET_URL_BYTES).then_some(page)
}

/// Whether asking again would bring the same answer before somebody changes something.
fn is_refusal(error: &ForgeError) -> bool {
    let is_of_token = matches!(error, ForgeError::Unauthorized { .. } | ForgeError::Forbidden { .. });
    is_of_token || error.retry_advice() == RetryAdvice::Never
}

/// The source's forge, where it names one with a secret.
fn connect_forge(source: &ResolvedSource, metrics: &Arc<Metrics>) -> Result<Option<AnyForge>, String> {
    let (Some(spec), Some(secret)) = (&source.spec.forge, &source.secrets.forge) else { return Ok(None) };
    let describe = |error: stator_git::forge::ForgeError| format!("{error}; {}", error.help());
    let credentials = source.git_credentials().map_err(|error| error.to_string())?;
    let http = ForgeHttp::for_repository(&credentials, Some(secret))
        .map_err(|error| error.to_string())?
        .with_observer(metrics.forge_observer());
    AnyForge::connect(spec, &source.url, secret, http).map(Some).map_err(describe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::status_wording::CommitStage;

    fn report(more: &str) -> CommitStatuses {
        let text = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: a}}\nspec: {{url: 'https://h/a/b.git', ref: {{branch: main}}{more}}}\n"
        );
        let source = crate::controller::sources::file::parse_file("s.yaml", text.as_bytes()).sources.remove(0);
        let pages = Url::parse("https://stator.example.com").ok();
        CommitStatuses::new(
            &source,
            (Default::default(), &Default::default()),
            None,
            7,
            &Arc::default(),
            pages.as_ref(),
        )
        .0
    }

    fn shown(report: &CommitStatuses) -> String {
        let wanted = report.lock().ledger.as_ref().map(CommitLedger::desired_statuses).unwrap_or_default();
        let lines = wanted
            .into_iter()
            .map(|(commit, status)| format!("{commit} {} {:?}: {}", status.context, status.state, status.description));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[tokio::test]
    async fn what_is_told_before_the_environment_has_a_name_is_not_lost() {
        let report = report("");
        report.report_commit("aaaaaaa", &BTreeSet::new(), true).await;
        report.report_commit("bbbbbbb", &BTreeSet::from(["aaaaaaa".to_owned()]), false).await;
        report.reopen_commit("bbbbbbb");
        report.update_ledger(|ledger| ledger.record_progress("bbbbbbb", CommitStage::Reading));
        assert_eq!(shown(&report), "");
        report.set_environment("prod").await;
        // The first name counts.
        report.set_environment("other").await;
        insta::assert_snapshot!(shown(&report), @r"
        aaaaaaa stator/prod Success: superseded by bbbbbbb
        bbbbbbb stator/prod Pending: queued
        ");
    }

    #[tokio::test]
    async fn a_status_leads_where_its_source_says() {
        let report =
            report(", environment: prod, forge: {type: gitea, targetUrl: 'https://grafana.example.com/d/models'}");
        report.report_commit("aaaaaaa", &BTreeSet::new(), true).await;
        let wanted = report.lock().ledger.as_ref().map(CommitLedger::desired_statuses).unwrap_or_default();
        let leads: Vec<_> = wanted.iter().map(|(_, status)| status.target_url.as_deref()).collect();
        assert_eq!(leads, [Some("https://grafana.example.com/d/models")]);
        // Else to its models, where this controller has pages.
        let report = self::report(", environment: prod");
        report.report_commit("aaaaaaa", &BTreeSet::new(), true).await;
        let wanted = report.lock().ledger.as_ref().map(CommitLedger::desired_statuses).unwrap_or_default();
        let leads: Vec<_> = wanted.iter().map(|(_, status)| status.target_url.as_deref()).collect();
        assert_eq!(leads, [Some("https://stator.example.com/?source=default%2Fa")]);
    }

    #[tokio::test]
    async fn a_commit_that_is_taken_up_again_is_pending_once_more_unless_it_went_well() {
        let report = report(", environment: prod");
        report.report_commit("aaaaaaa", &BTreeSet::new(), true).await;
        report.report_verdict("aaaaaaa", CommitVerdict::Unsigned { message: "no signature".to_owned() });
        let ended = shown(&report);
        report.reopen_commit("aaaaaaa");
        insta::assert_snapshot!(ended + "\n" + &shown(&report), @r"
        aaaaaaa stator/prod Failure: signature refused: no signature
        aaaaaaa stator/prod Pending: queued
        ");
    }
}
