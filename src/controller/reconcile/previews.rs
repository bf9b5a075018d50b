//! The previews of a source, beside its syncs: whatever becomes of them, the syncs go on.

use super::commit::PolledCommit;
use super::context::ReconcileContext;
use crate::controller::report::commit_statuses::{DEFAULT_CONTEXT_PREFIX, SourceForge};
use crate::controller::report::preview::{DEFAULT_PREVIEW_LIMIT, PreviewRunner, PreviewSettings};
use crate::controller::waiting::send_if_new;
use stator_cluster::fleet_policies::SourcePolicyReader;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use stator_git::source::model_source::Reference;
use stator_model::present::preview::CommentMarker;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument as _;

/// Pauses before previews that panicked are started anew.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How often all open pull requests are looked at where the source has no interval: a webhook may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(300);

/// Previews that run. They end when this is dropped.
#[derive(Debug)]
pub(super) struct PreviewTasks {
    tasks: JoinSet<()>,
}

impl PreviewTasks {
    /// Waits until they have ended, but not for long: a comment that was not written is written after the next start.
    pub(super) async fn wait_until_ended(mut self, deadline: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(deadline, all).await.is_err() {
            tracing::warn!("a preview was not finished in time; the next start continues it");
        }
    }
}

impl ReconcileContext {
    /// Starts the source's previews, where it asks for them and its git host can be talked to. They know of each commit
    /// that `commits` reports.
    pub(super) fn start_previews(&self, commits: watch::Receiver<Option<PolledCommit>>) -> PreviewTasks {
        let mut tasks = JoinSet::new();
        if let Some((host, settings)) = self.preview_settings() {
            let (tips, tip) = watch::channel(None);
            tasks.spawn(pass_on_commits(commits, tips));
            tasks.spawn(run_previews(self.clone(), host, settings, tip).in_current_span());
        }
        PreviewTasks { tasks }
    }

    fn preview_settings(&self) -> Option<(SourceForge, PreviewSettings)> {
        let spec = &self.source.spec;
        let (true, Reference::Branch(branch), Some(host)) =
            (spec.previews, &spec.reference, self.board.statuses.host())
        else {
            return None;
        };
        // Whoever previews another environment of the repository, from another cluster perhaps, has a comment of his own.
        let environment = spec.environment.as_ref().map(|name| name.as_str());
        let scope = [self.source.key.namespace.as_str(), self.source.key.name.as_str()].into_iter().chain(environment);
        let settings = PreviewSettings {
            scope: CommentMarker::scope(scope),
            branch: branch.clone(),
            folder: self.source.folder.clone(),
            environment: spec.environment.as_ref().map(ToString::to_string),
            namespace: spec.target_namespace.clone(),
            prefix: spec
                .forge
                .as_ref()
                .and_then(|forge| forge.context.clone())
                .unwrap_or_else(|| DEFAULT_CONTEXT_PREFIX.to_owned()),
            forks: spec.preview_forks,
            limit: spec.preview_limit.map_or(DEFAULT_PREVIEW_LIMIT, usize::from),
            poll_interval: self.source.interval.unwrap_or(POLL_INTERVAL),
            fence: host.fence.clone(),
            policies: SourcePolicyReader { reader: self.rules.policies.clone(), source: self.source.policy_facts() },
        };
        Some((host.clone(), settings))
    }
}

/// Passes on which commit is the newest.
async fn pass_on_commits(mut commits: watch::Receiver<Option<PolledCommit>>, tips: watch::Sender<Option<String>>) {
    loop {
        send_if_new(&tips, commits.borrow_and_update().as_ref().map(|found| found.commit.clone()));
        let ended = tokio::select! {
            // The sender outlives the previews, so their end is what ends this.
            () = tips.closed() => true,
            changed = commits.changed() => changed.is_err(),
        };
        if ended {
            // A receiver stops when asked to, and not because nothing is new.
            tips.closed().await;
            return;
        }
    }
}

/// Runs the previews, and starts them anew when they panic: a pull request is anybody's, and may be hostile.
async fn run_previews(
    context: ReconcileContext,
    host: SourceForge,
    settings: PreviewSettings,
    tip: watch::Receiver<Option<String>>,
) {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, random_bits());
    loop {
        let SourceForge { forge, poster, budget, fence: _, metrics } = host.clone();
        let git = context.repository.git.clone();
        let previews = PreviewRunner::new(forge, git, poster, budget, settings.clone(), metrics)
            .publish_to(context.board.previews.clone());
        let mut task = JoinSet::new();
        task.spawn(
            previews
                .run(Arc::clone(&context.repository.hints), tip.clone(), context.shutdown.clone())
                .in_current_span(),
        );
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(source = %context.source.key, "previews ended unexpectedly and are restarted");
            }
            Some(Ok(()) | Err(_)) | None => return,
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = context.shutdown.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_passes_commits_on_ends_with_the_previews() {
        // The source still holds its end of the channel while it waits for the previews to end.
        let (_heads, newest) = watch::channel(None);
        let (tips, tip) = watch::channel(None);
        let mut beside = PreviewTasks { tasks: JoinSet::new() };
        beside.tasks.spawn(pass_on_commits(newest, tips));
        tokio::task::yield_now().await;
        drop(tip);
        let began = tokio::time::Instant::now();
        beside.wait_until_ended(Duration::from_secs(10)).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
