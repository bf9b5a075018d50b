//! What is shown beside models: what git tells of commits, asked once of each and of what is pending each time, and what the
//! cluster's controllers said lately.

use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::kube::{KubeEvent, events_of_models};
use stator_core::mask::star_tokens;
use stator_git::source::commit_log::{CommitAnswer, CommitQuestion};
use stator_model::plan::ModelStatus;
use stator_model::present::history::ClusterEvent;
use stator_view::facts::{CommitFacts, ModelFacts, SourceFacts};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long what was read is new enough.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The Events of a namespace, as they were read last.
#[derive(Debug, Default)]
pub struct RecentEvents {
    read: Option<Instant>,
    events: Vec<KubeEvent>,
}

impl RecentEvents {
    /// Those that are about these models, oldest first. None on a cluster that has no Events, or where they may not be read:
    /// everything else is known all the same.
    pub async fn of_models(
        &mut self,
        cluster: &AnyCluster,
        namespace: &str,
        models: &[ModelStatus],
    ) -> Vec<ClusterEvent> {
        let Some(kube) = cluster.as_kubernetes() else { return Vec::new() };
        if self.read.is_none_or(|read| read.elapsed() > MAX_AGE) {
            self.events = kube.list_events(namespace).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "events of the cluster are not shown");
                Vec::new()
            });
            self.read = Some(Instant::now());
        }
        events_of_models(models, self.events.clone())
    }
}

/// What is to be asked of a source's repository beside what is known already; `None` where it is nothing. `head` is the
/// commit that its models are wanted as of.
pub fn commit_question(
    source: &SourceFacts,
    known: &BTreeMap<String, CommitFacts>,
    head: &str,
) -> Option<CommitQuestion> {
    let commits = source.named_commits().into_iter().filter(|commit| !commit.is_empty() && !known.contains_key(commit));
    let question = CommitQuestion {
        commits: commits.collect(),
        folders: source.pending_folders(),
        head: stator_model::plan::commit_of_revision(head).to_owned(),
    };
    (!question.commits.is_empty() || !question.folders.is_empty()).then_some(question)
}

/// The source with what was answered. `page` is where a commit is shown. Commits that nobody names any more are forgotten.
pub fn with_commits(
    mut source: SourceFacts,
    known: &BTreeMap<String, CommitFacts>,
    answer: CommitAnswer,
    page: impl Fn(&str) -> Option<String>,
) -> SourceFacts {
    let CommitAnswer { headers, changes } = answer;
    let mut commits: BTreeMap<String, CommitFacts> = known.clone();
    commits.extend(headers.into_iter().map(|(commit, header)| {
        let page = page(&commit);
        // People write tokens into messages, too.
        let [author, title] = [header.author, header.title].map(|text| star_tokens(&text).into_owned());
        (commit, CommitFacts { author, title, time: header.time, page })
    }));
    if !changes.is_empty() {
        let changed = |model: &ModelFacts| {
            let changed_by = (!model.pending.is_empty()).then(|| changes.get(model.folder()).cloned()).flatten();
            ModelFacts { changed_by, ..model.clone() }
        };
        source.models = source.models.iter().map(changed).collect();
    }
    let mut named = source.named_commits();
    named.extend(changes.into_values());
    commits.retain(|commit, _| named.contains(commit));
    SourceFacts { commits: Arc::new(commits), ..source }
}
