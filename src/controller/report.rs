//! What a unit says of its commits: into the ledger, and from there to the git host.

use super::budget::Budget;
use super::file::Source;
use super::metrics::{Metrics, Queue};
use super::poster::Poster;
use super::verdicts::{Contexts, Ledger, MOST_MODELS, ModelVerdict, Stage, Verdict};
use stator_cluster::cluster::kube::Fence;
use stator_git::forge::{AnyForge, CommitStatus, Http, StatusState};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long a host is asked what it shows, after a start.
const RECALL: Duration = Duration::from_secs(20);

/// What contexts begin with.
pub(super) const PREFIX: &str = "stator";

/// The source's git host, and what all that speak to it share.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) forge: Arc<AnyForge>,
    pub(super) poster: Arc<Poster<AnyForge>>,
    pub(super) budget: Arc<Budget>,
    /// What everything that is written there asks.
    pub(super) fence: Option<Fence>,
    pub(super) metrics: Arc<Metrics>,
}

/// The statuses of one source's commits. Where the source names no forge, they are only kept.
pub(super) struct Report {
    source: Arc<Source>,
    wanted: Wanted,
    /// Seen before the environment's name was known.
    early: Vec<String>,
    /// The newest commit and those before it that an earlier process may have said something of, where nobody has asked
    /// the host for them.
    unasked: Option<(String, Vec<String>)>,
    /// To be taken up again, as soon as its statuses have a name.
    reopened: Option<String>,
}

/// What the host is to show. Clones are of the same.
#[derive(Clone)]
pub(super) struct Wanted {
    host: Option<Host>,
    ledger: Arc<Mutex<Option<Ledger>>>,
    /// What the host showed of the commit that was the newest at the start; nothing before it was asked.
    start: Arc<watch::Sender<Option<Start>>>,
}

/// What was found at the git host before anything was said there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The newest commit had its end: whoever posted that had posted the ends of those before it.
    Told,
    /// It had none, or the host did not answer: an earlier process may have left older ones without an end, too.
    Open,
}

impl Wanted {
    fn ledger(&self) -> MutexGuard<'_, Option<Ledger>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the host shows of a commit as a whole: what is wanted, once it was posted.
    pub(super) fn shown(&self, commit: &str) -> Option<CommitStatus> {
        let wanted = self.ledger().as_ref().and_then(|ledger| ledger.wanted_of(commit))?;
        self.host.as_ref()?.poster.shown(commit, &wanted.context)
    }

    /// Hands it all to the poster, again too: what found no room there finds it later.
    pub(super) fn post(&self) {
        let Some(host) = &self.host else { return };
        let wanted = self.ledger().as_ref().map(Ledger::wanted);
        if let Some(wanted) = wanted {
            host.poster.want(wanted);
        }
    }

    /// Waits until the commits have a context to be told under and the host was asked for the newest one.
    pub(super) async fn started(&self) -> Option<Start> {
        self.start.subscribe().wait_for(Option::is_some).await.ok().and_then(|start| *start)
    }

    /// What the host showed of the newest commit, where it was asked already.
    pub(super) fn start(&self) -> Option<Start> {
        *self.start.borrow()
    }

    /// Reads what the host shows of a commit, so that what is said of it there comes to an end. Says whether it had one.
    /// An error is in the host's words, or that there was no answer.
    pub(super) async fn recall(&self, commit: &str) -> Result<bool, String> {
        let context = self.ledger().as_ref().map(|ledger| ledger.contexts().environment());
        let (Some(Host { poster, .. }), Some(context)) = (&self.host, context) else { return Ok(false) };
        let answer = tokio::time::timeout(RECALL, poster.recall(commit, &context)).await;
        let shown = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        if let Some(ledger) = &mut *self.ledger() {
            ledger.recall(commit, &shown);
        }
        Ok(shown.iter().any(|status| status.context == context && status.state != StatusState::Pending))
    }
}

impl Report {
    /// Of a source. A forge that cannot be connected to is told, and nothing is posted.
    pub(super) fn new(
        source: Arc<Source>,
        budget: Arc<Budget>,
        fence: Option<Fence>,
        seed: u64,
        metrics: &Arc<Metrics>,
    ) -> (Self, Option<String>) {
        let (forge, problem) = match connect(&source, metrics) {
            Ok(forge) => (forge.map(Arc::new), None),
            Err(problem) => (None, Some(problem)),
        };
        let host = forge.map(|forge| {
            let poster = Arc::new(Poster::start(Arc::clone(&forge), Arc::clone(&budget), fence.clone(), seed));
            let state = poster.state();
            // The sender is gone with the poster.
            metrics.sample(Queue::Statuses, move || state.has_changed().is_ok().then(|| state.borrow().open));
            Host { forge, poster, budget, fence, metrics: Arc::clone(metrics) }
        });
        let wanted = Wanted { host, ledger: Arc::default(), start: Arc::new(watch::channel(None).0) };
        let environment = source.spec.environment.clone();
        let mut report = Self { source, wanted, early: Vec::new(), unasked: None, reopened: None };
        if let Some(environment) = environment {
            report.open(environment.as_str());
        }
        (report, problem)
    }

    /// The git host, where the source names one that can be connected to.
    pub(super) fn host(&self) -> Option<&Host> {
        self.wanted.host.as_ref()
    }

    /// What the host is to show, for whoever looks at the repository.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.clone()
    }

    /// Whether the environment's name is known.
    pub(super) fn is_named(&self) -> bool {
        self.wanted.ledger().is_some()
    }

    /// The environment's name is known now; the first time counts.
    pub(super) async fn named(&mut self, environment: &str) {
        if self.is_named() {
            return;
        }
        self.open(environment);
        if let Some((commit, before)) = self.unasked.take() {
            self.recall(&commit, &before).await;
        }
        if let Some(commit) = self.reopened.take() {
            self.reopened(&commit);
        }
        self.wanted.post();
    }

    fn open(&mut self, environment: &str) {
        let spec = &self.source.spec;
        let prefix = spec.forge.as_ref().and_then(|forge| forge.context.clone());
        let mut ledger = Ledger::new(Contexts {
            prefix: prefix.unwrap_or_else(|| PREFIX.to_owned()),
            environment: environment.to_owned(),
            per_model: spec.status_per_model,
            most_models: MOST_MODELS,
            target_url: spec.forge.as_ref().and_then(|forge| forge.target_url.clone()),
        });
        for commit in self.early.drain(..) {
            ledger.seen(&commit);
        }
        *self.wanted.ledger() = Some(ledger);
    }

    /// A commit is the newest now. `before` is what the source may have followed when it was last looked at, by an earlier
    /// process or another replica perhaps: what the host shows of them all is read once.
    pub(super) async fn seen(&mut self, commit: &str, before: &BTreeSet<String>, first: bool) {
        let named = match &mut *self.wanted.ledger() {
            Some(ledger) => {
                ledger.seen(commit);
                true
            }
            None => {
                self.early.push(commit.to_owned());
                false
            }
        };
        let before: Vec<String> = before.iter().cloned().collect();
        match first {
            true if named => self.recall(commit, &before).await,
            true => self.unasked = Some((commit.to_owned(), before)),
            false => {}
        }
        self.wanted.post();
    }

    /// The newest commit is taken up again, since somebody changed something for it.
    pub(super) fn reopened(&mut self, commit: &str) {
        if self.is_named() {
            self.change(|ledger| ledger.reopened(commit));
        } else {
            self.reopened = Some(commit.to_owned());
        }
    }

    /// Reads what the host shows of the newest commit and of those `before` it. What it does not answer now is asked again
    /// by whoever looks back.
    async fn recall(&self, newest: &str, before: &[String]) {
        // Where there is no host, nothing was said.
        let mut start = if self.wanted.host.is_some() { Start::Open } else { Start::Told };
        for commit in std::iter::once(newest).chain(before.iter().map(String::as_str)) {
            match self.wanted.recall(commit).await {
                Ok(ended) if ended && commit == newest => start = Start::Told,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error, commit, "what the git host shows of the commit is not known yet");
                    start = Start::Open;
                }
            }
        }
        self.wanted.start.send_replace(Some(start));
    }

    /// The newest commit has come this far.
    pub(super) fn progress(&mut self, commit: &str, stage: Stage) {
        self.change(|ledger| ledger.progress(commit, stage));
    }

    /// The newest commit is synced although no window is open, as somebody asked for it.
    pub(super) fn outside(&mut self, commit: &str) {
        self.change(|ledger| ledger.outside(commit));
    }

    /// The newest commit has ended.
    pub(super) fn ended(&mut self, commit: &str, verdict: Verdict) {
        self.change(|ledger| ledger.ended(commit, verdict));
    }

    /// How models of the newest commit ended.
    pub(super) fn models(&mut self, commit: &str, models: Vec<(String, ModelVerdict)>) {
        self.change(|ledger| {
            for (model, verdict) in models {
                ledger.model(commit, &model, Some(verdict));
            }
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Ledger)) {
        if let Some(ledger) = &mut *self.wanted.ledger() {
            change(ledger);
        }
        self.wanted.post();
    }

    /// Waits until all that is wanted is posted, but not for long: what is not is posted after the next start.
    pub(super) async fn settled(&self, deadline: Duration) {
        if let Some(Host { poster, .. }) = &self.wanted.host
            && !poster.settled(deadline).await
        {
            tracing::warn!("not all statuses were posted in time; the next start posts the rest");
        }
    }
}

/// The source's forge, where it names one with a secret.
fn connect(source: &Source, metrics: &Arc<Metrics>) -> Result<Option<AnyForge>, String> {
    let (Some(spec), Some(secret)) = (&source.spec.forge, &source.secrets.forge) else { return Ok(None) };
    let http = Http::trusting([Some(secret), source.secrets.git.as_ref()].into_iter().flatten())
        .map_err(|error| error.to_string())?
        .observed(metrics.of_forges());
    let told = |error: stator_git::forge::ForgeError| format!("{error}; {}", error.help());
    AnyForge::connect(spec, &source.url, secret, http).map(Some).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(more: &str) -> Report {
        let text = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: a}}\nspec: {{url: 'https://h/a/b.git', ref: {{branch: main}}{more}}}\n"
        );
        let source = super::super::file::read("s.yaml", text.as_bytes()).sources.remove(0);
        Report::new(Arc::new(source), Arc::default(), None, 7, &Arc::default()).0
    }

    fn shown(report: &Report) -> String {
        let wanted = report.wanted.ledger().as_ref().map(Ledger::wanted).unwrap_or_default();
        let lines = wanted
            .into_iter()
            .map(|(commit, status)| format!("{commit} {} {:?}: {}", status.context, status.state, status.description));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[tokio::test]
    async fn what_is_told_before_the_environment_has_a_name_is_not_lost() {
        let mut report = report("");
        report.seen("aaaaaaa", &BTreeSet::new(), true).await;
        report.seen("bbbbbbb", &BTreeSet::from(["aaaaaaa".to_owned()]), false).await;
        report.reopened("bbbbbbb");
        report.progress("bbbbbbb", Stage::Reading);
        assert_eq!(shown(&report), "");
        report.named("prod").await;
        // The first name counts.
        report.named("other").await;
        insta::assert_snapshot!(shown(&report), @r"
        aaaaaaa stator/prod Success: superseded by bbbbbbb
        bbbbbbb stator/prod Pending: queued
        ");
    }

    #[tokio::test]
    async fn a_status_leads_where_its_source_says() {
        let mut report =
            report(", environment: prod, forge: {type: gitea, targetUrl: 'https://grafana.example.com/d/models'}");
        report.seen("aaaaaaa", &BTreeSet::new(), true).await;
        let wanted = report.wanted.ledger().as_ref().map(Ledger::wanted).unwrap_or_default();
        let leads: Vec<_> = wanted.iter().map(|(_, status)| status.target_url.as_deref()).collect();
        assert_eq!(leads, [Some("https://grafana.example.com/d/models")]);
    }

    #[tokio::test]
    async fn a_commit_that_is_taken_up_again_is_pending_once_more_unless_it_went_well() {
        let mut report = report(", environment: prod");
        report.seen("aaaaaaa", &BTreeSet::new(), true).await;
        report.ended("aaaaaaa", Verdict::Unsigned { message: "no signature".to_owned() });
        let ended = shown(&report);
        report.reopened("aaaaaaa");
        insta::assert_snapshot!(ended + "\n" + &shown(&report), @r"
        aaaaaaa stator/prod Failure: signature refused: no signature
        aaaaaaa stator/prod Pending: queued
        ");
    }
}
