//! Pull requests that people open from pages: a commit on a branch of its own, pushed to the git host of the source.

use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use stator_core::commit::short_commit;
use stator_git::forge::{AnyForge, BranchPusher, ForgeApi as _, ForgeError, NewPullRequest, PullRequest};
use stator_git::source::proposal::{ProposalAuthor, ProposalError, ProposedCommit, ProposedFile};
use stator_view::facts::ProposalAccess;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a pull request may take to be opened.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(45);
/// The longest part of a branch's name that tells of the model.
const MAX_NAME_CHARACTERS: usize = 60;

/// A change that somebody proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The model's name.
    pub model: String,
    /// The commit that it is made from, in full.
    pub base: String,
    /// The file.
    pub file: ProposedFile,
    /// The title of the pull request and of the commit, in a line.
    pub title: String,
    /// The text of the pull request, Markdown.
    pub body: String,
    /// The text of the commit's message below its title.
    pub message: String,
    /// Whoever signed in, where somebody did.
    pub person: Option<String>,
}

/// A pull request that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedProposal {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// Its branch.
    pub branch: String,
    /// False where the same change was proposed before.
    pub is_new: bool,
}

/// Why no pull request was opened.
#[derive(Debug, thiserror::Error)]
pub enum ProposalRefusal {
    /// No commit was made.
    #[error(transparent)]
    Commit(#[from] ProposalError),
    /// The git host refused.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// It took too long.
    #[error("the git host did not answer in {} seconds", PROPOSAL_TIMEOUT.as_secs())]
    OutOfTime,
}

impl ProposalRefusal {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Commit(ProposalError::Stale { .. }) => "reload the form: the file was changed, or is not committed",
            Self::Commit(ProposalError::NoCommit { .. }) => "commit the files first, or wait until the commit was read",
            Self::Commit(ProposalError::Git(_)) => "apply the patch in a clone of the repository",
            Self::Forge(error) => error.help(),
            Self::OutOfTime => "look at the host for a pull request before you try again",
        }
    }
}

/// The repository of a source, as far as proposals need it.
pub trait ProposalRepository: Send + Sync {
    /// Makes a commit with this file on top of `base`.
    fn commit(
        &self,
        base: String,
        file: ProposedFile,
        message: String,
        author: ProposalAuthor,
    ) -> BoxFuture<'_, Result<ProposedCommit, ProposalError>>;

    /// The files of a model's folder as a commit has them, by name.
    fn files_at(
        &self,
        commit: String,
        folder: String,
    ) -> BoxFuture<'_, Result<BTreeMap<String, Vec<u8>>, ProposalError>>;
}

/// Where pull requests of a source are opened. Clones are of the same.
#[derive(Clone)]
pub struct ProposalDesk {
    repository: Arc<dyn ProposalRepository>,
    /// The host, and the branch that pull requests go into; what is missing instead where there is none.
    host: Result<Arc<ProposalHost>, String>,
}

/// A git host that takes pull requests.
pub struct ProposalHost {
    /// Its API.
    pub forge: AnyForge,
    /// What pushes to it.
    pub pusher: BranchPusher,
    /// The branch that pull requests go into.
    pub base: String,
}

impl fmt::Debug for ProposalDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProposalDesk").field("access", &self.access()).finish_non_exhaustive()
    }
}

impl ProposalDesk {
    /// Of a repository and its host, or of why there is none.
    pub fn new(repository: Arc<dyn ProposalRepository>, host: Result<ProposalHost, String>) -> Self {
        Self { repository, host: host.map(Arc::new) }
    }

    /// Whether pull requests can be opened, as pages say it.
    pub fn access(&self) -> ProposalAccess {
        match &self.host {
            Ok(host) => ProposalAccess::Open { base: host.base.clone(), host: host.forge.describe() },
            Err(reason) => ProposalAccess::Closed { reason: reason.clone() },
        }
    }

    /// The files of a model's folder as a commit has them, by name.
    ///
    /// # Errors
    /// Where the repository does not have the commit.
    pub async fn files_at(&self, commit: &str, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, ProposalError> {
        self.repository.files_at(commit.to_owned(), folder.to_owned()).await
    }

    /// Opens a pull request, or finds the one that proposes the same already.
    ///
    /// # Errors
    /// Where there is no host, or one of the steps is refused. Nothing is left at the host then but a branch.
    pub async fn propose(&self, proposal: Proposal) -> Result<OpenedProposal, ProposalRefusal> {
        let host = match &self.host {
            Ok(host) => Arc::clone(host),
            Err(obstacle) => return Err(ProposalError::Git(obstacle.clone()).into()),
        };
        tokio::time::timeout(PROPOSAL_TIMEOUT, self.open(&host, proposal))
            .await
            .map_err(|_| ProposalRefusal::OutOfTime)?
    }

    async fn open(&self, host: &ProposalHost, proposal: Proposal) -> Result<OpenedProposal, ProposalRefusal> {
        let branch = branch_name(&proposal);
        if let Some(open) = find_open(host, &branch).await? {
            return Ok(opened(open, branch, false));
        }
        let message = commit_message(&proposal);
        let author = ProposalAuthor {
            name: proposal.person.clone().unwrap_or_else(|| "stator".to_owned()),
            email: "stator@localhost".to_owned(),
        };
        let commit = self.repository.commit(proposal.base, proposal.file, message, author).await?;
        let new = NewPullRequest {
            title: proposal.title,
            body: proposal.body,
            base: host.base.clone(),
            head: branch.clone(),
        };
        match host.pusher.push_branch(&commit, &branch).await {
            // Somebody proposes the same at this moment, or was interrupted.
            Ok(()) | Err(ForgeError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match host.forge.create_pull_request(&new).await {
            Ok(created) => Ok(opened(created, branch, true)),
            Err(ForgeError::Conflict { host: name, message }) => match find_open(host, &branch).await? {
                Some(open) => Ok(opened(open, branch, false)),
                None => Err(ForgeError::Conflict { host: name, message }.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

fn opened(found: PullRequest, branch: String, is_new: bool) -> OpenedProposal {
    OpenedProposal { number: found.number, url: found.url, branch, is_new }
}

async fn find_open(host: &ProposalHost, branch: &str) -> Result<Option<PullRequest>, ForgeError> {
    let open = host.forge.list_open_pull_requests(&host.base).await?;
    Ok(open.into_iter().find(|one| one.branch.as_deref() == Some(branch)))
}

/// The same change on top of the same commit has the same branch, so that it is proposed once.
fn branch_name(proposal: &Proposal) -> String {
    let name: String = proposal.model.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let name: String = name.trim_matches('-').chars().take(MAX_NAME_CHARACTERS).collect();
    let mut digest = Sha256::new();
    digest.update(&proposal.file.path);
    digest.update([0]);
    digest.update(&proposal.file.content);
    let digest: String = hex::encode(digest.finalize()).chars().take(10).collect();
    let name = if name.is_empty() { "model".to_owned() } else { name };
    format!("stator/{name}-{}-{digest}", short_commit(&proposal.base))
}

fn commit_message(proposal: &Proposal) -> String {
    let mut message = proposal.title.clone();
    if !proposal.message.is_empty() {
        message.push_str("\n\n");
        message.push_str(&proposal.message);
    }
    if let Some(person) = &proposal.person {
        message.push_str("\n\nProposed-by: ");
        message.push_str(person);
    }
    message.push('\n');
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        Proposal {
            model: "llama-3".into(),
            base: "0123456789".repeat(4),
            file: ProposedFile { path: "a/model.yaml".into(), content: b"x".to_vec(), stored: None },
            title: "Scale llama".into(),
            body: String::new(),
            message: "More traffic.".into(),
            person: Some("ada".into()),
        }
    }

    #[test]
    fn the_same_change_has_the_same_branch() {
        let one = proposal();
        assert!(branch_name(&one).starts_with("stator/llama-3-0123456-"), "{}", branch_name(&one));
        assert_eq!(branch_name(&one), branch_name(&Proposal { title: "Other words".into(), ..one.clone() }));
        let file = ProposedFile { content: b"y".to_vec(), ..one.file.clone() };
        let later = "1123456789".repeat(4);
        for other in [Proposal { file, ..one.clone() }, Proposal { base: later, ..one.clone() }] {
            assert_ne!(branch_name(&one), branch_name(&other));
        }
        let odd = branch_name(&Proposal { model: "../..\u{202e}".into(), ..one.clone() });
        assert!(odd.starts_with("stator/model-"), "{odd}");
        assert_eq!(commit_message(&one), "Scale llama\n\nMore traffic.\n\nProposed-by: ada\n");
    }
}
