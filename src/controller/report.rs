//! What a unit says of its commits: into the ledger, and from there to the git host.

use super::budget::Budget;
use super::file::Source;
use super::poster::Poster;
use super::verdicts::{Contexts, Ledger, MOST_MODELS, ModelVerdict, Stage, Verdict};
use crate::forge::{AnyForge, Http};
use std::sync::Arc;
use std::time::Duration;

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
}

/// The statuses of one source's commits. Where the source names no forge, they are only kept.
pub(super) struct Report {
    source: Arc<Source>,
    host: Option<Host>,
    ledger: Option<Ledger>,
    /// Seen before the environment's name was known.
    early: Vec<String>,
}

impl Report {
    /// Of a source. A forge that cannot be connected to is told, and nothing is posted.
    pub(super) fn new(source: Arc<Source>, budget: Arc<Budget>, seed: u64) -> (Self, Option<String>) {
        let (forge, problem) = match connect(&source) {
            Ok(forge) => (forge.map(Arc::new), None),
            Err(problem) => (None, Some(problem)),
        };
        let host = forge.map(|forge| {
            let poster = Arc::new(Poster::start(Arc::clone(&forge), Arc::clone(&budget), seed));
            Host { forge, poster, budget }
        });
        let mut report = Self { source, host, ledger: None, early: Vec::new() };
        if let Some(environment) = report.source.spec.environment.clone() {
            report.named(environment.as_str());
        }
        (report, problem)
    }

    /// The git host, where the source names one that can be connected to.
    pub(super) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The environment's name is known now; the first time counts.
    pub(super) fn named(&mut self, environment: &str) {
        if self.ledger.is_some() {
            return;
        }
        let spec = &self.source.spec;
        let prefix = spec.forge.as_ref().and_then(|forge| forge.context.clone());
        let mut ledger = Ledger::new(Contexts {
            prefix: prefix.unwrap_or_else(|| PREFIX.to_owned()),
            environment: environment.to_owned(),
            per_model: spec.status_per_model,
            most_models: MOST_MODELS,
            target_url: None,
        });
        for commit in self.early.drain(..) {
            ledger.seen(&commit);
        }
        self.ledger = Some(ledger);
        self.post();
    }

    /// A commit is the newest now. `before` is what the source followed when it was last looked at, which may have been
    /// by an earlier process: what the host shows of both is read once.
    pub(super) async fn seen(&mut self, commit: &str, before: Option<&str>, first: bool) {
        match &mut self.ledger {
            Some(ledger) => ledger.seen(commit),
            None => self.early.push(commit.to_owned()),
        }
        if first {
            for commit in [Some(commit), before].into_iter().flatten() {
                self.recall(commit).await;
            }
        }
        self.post();
    }

    async fn recall(&mut self, commit: &str) {
        let (Some(Host { poster, .. }), Some(ledger)) = (&self.host, &mut self.ledger) else { return };
        let prefix = ledger.contexts().environment();
        match tokio::time::timeout(RECALL, poster.recall(commit, &prefix)).await {
            Ok(Ok(shown)) => ledger.recall(commit, &shown),
            Ok(Err(error)) => tracing::warn!(%error, commit, "what the git host shows of the commit is not known"),
            Err(_) => tracing::warn!(commit, "the git host did not say in time what it shows of the commit"),
        }
    }

    /// The newest commit has come this far.
    pub(super) fn progress(&mut self, commit: &str, stage: Stage) {
        self.change(|ledger| ledger.progress(commit, stage));
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
        if let Some(ledger) = &mut self.ledger {
            change(ledger);
            self.post();
        }
    }

    fn post(&self) {
        if let (Some(Host { poster, .. }), Some(ledger)) = (&self.host, &self.ledger) {
            poster.want(ledger.wanted());
        }
    }

    /// Waits until all that is wanted is posted, but not for long: what is not is posted after the next start.
    pub(super) async fn settled(&self, deadline: Duration) {
        if let Some(Host { poster, .. }) = &self.host
            && !poster.settled(deadline).await
        {
            tracing::warn!("not all statuses were posted in time; the next start posts the rest");
        }
    }
}

/// The source's forge, where it names one with a secret.
fn connect(source: &Source) -> Result<Option<AnyForge>, String> {
    let (Some(spec), Some(secret)) = (&source.spec.forge, &source.secrets.forge) else { return Ok(None) };
    let http = Http::trusting([Some(secret), source.secrets.git.as_ref()].into_iter().flatten())
        .map_err(|error| error.to_string())?;
    let told = |error: crate::forge::ForgeError| format!("{error}; {}", error.help());
    AnyForge::connect(spec, &source.url, secret, http).map(Some).map_err(told)
}
