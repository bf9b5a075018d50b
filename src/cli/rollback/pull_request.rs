//! The branch at the git host, and the pull request for it.

use super::{Rollback, RollbackArgs};
use crate::cli::error::{CliError, CliErrorKind};
use crate::cli::output::Output;
use crate::controller::sources::file;
use crate::observation::ProposalHost;
use clap::{Args, ValueEnum};
use stator_git::forge::{AnyForge, BranchPusher, ForgeApi as _, ForgeError, ForgeHttp, NewPullRequest};
use stator_git::source::model_source::{Forge, ForgeKind};
use stator_git::source::proposal::{ProposedCommit, ProposedObjects};
use stator_git::source::restore::{PushRemote, RollbackRepository};
use stator_git::source::secret::SecretValues;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl, UrlScheme};
use stator_model::present::{escape, findings};
use std::path::Path;

/// Where the token is, where no file of sources names it.
pub const TOKEN_VARIABLE: &str = "STATOR_FORGE_TOKEN";
/// The types of git hosts, as `spec.forge.type` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ForgeArg {
    /// GitHub, also on premises
    Github,
    /// GitLab
    Gitlab,
    /// Gitea or Forgejo
    Gitea,
    /// Bitbucket, cloud or data center
    Bitbucket,
    /// Azure DevOps
    Azure,
}

impl From<ForgeArg> for ForgeKind {
    fn from(argument: ForgeArg) -> Self {
        match argument {
            ForgeArg::Github => Self::Github,
            ForgeArg::Gitlab => Self::Gitlab,
            ForgeArg::Gitea => Self::Gitea,
            ForgeArg::Bitbucket => Self::Bitbucket,
            ForgeArg::Azure => Self::Azure,
        }
    }
}

/// Which git host `origin` is.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ForgeTypeArgs {
    /// Type of the git host, if stator cannot tell it from the host name
    #[arg(long, value_name = "TYPE")]
    forge: Option<ForgeArg>,
}

impl ForgeTypeArgs {
    /// The type that was given.
    pub fn kind(self) -> Option<ForgeKind> {
        self.forge.map(ForgeKind::from)
    }
}

/// A git host that a pull request can be opened at.
pub(super) struct RollbackForge {
    forge: AnyForge,
    /// `None` where the repository is reached over SSH: then the user pushes.
    push: Option<BranchPusher>,
}

/// The git host of the repository, where one is configured.
pub(super) fn connect_forge(
    arguments: &RollbackArgs,
    restorer: &RollbackRepository,
    output: &Output,
) -> Result<Option<RollbackForge>, CliError> {
    let remote = restorer.remote();
    let here = remote.as_ref().map(|remote| {
        RepositoryUrl::parse(&remote.url, AllowedSchemes { insecure: true, local: true }).map_err(|error| {
            CliError::input(format!("the address of the remote `{}`: {error}", remote.name))
                .with_hint("pass a file with a ModelSource with --source-file: it has its own address")
        })
    });
    let (spec, url, secret, http) = match &arguments.source_file {
        Some(path) => match forge_of_file(path, here.and_then(Result::ok).as_ref(), output)? {
            Some(found) => found,
            None => return Ok(None),
        },
        None => match forge_by_token(|| here.transpose(), arguments.forge.kind())? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let forge = AnyForge::connect_to_propose(&spec, &url, &secret, http.clone()).map_err(forge_error)?;
    let push = match url.scheme() {
        UrlScheme::Https | UrlScheme::Http => {
            Some(BranchPusher::connect(&spec, &url, &secret, &http).map_err(forge_error)?)
        }
        UrlScheme::Ssh | UrlScheme::Local => None,
    };
    Ok(Some(RollbackForge { forge, push }))
}

/// The git host of a remote's address, with the token of the environment; `None` where there is no token.
fn forge_by_token(
    remote: impl FnOnce() -> Result<Option<RepositoryUrl>, CliError>,
    kind: Option<ForgeKind>,
) -> Result<Option<ForgeAccess>, CliError> {
    let Some(token) = std::env::var_os(TOKEN_VARIABLE).and_then(|token| token.into_string().ok()) else {
        return Ok(None);
    };
    let Some(url) = remote()? else {
        return Err(CliError::input("no remote to open a pull request on")
            .with_hint("run `git remote add origin ADDRESS`, or create only the branch with --no-pull-request"));
    };
    let kind = kind.or_else(|| ForgeKind::of_host(url.host())).ok_or_else(|| {
        CliError::usage(format!("unknown type of git host at {}", url.host()))
            .with_hint("set it with --forge: github, gitlab, gitea, bitbucket or azure")
    })?;
    let secret = SecretValues::new(TOKEN_VARIABLE, [("token".to_owned(), token.into_bytes())]);
    let spec = Forge { kind, url: None, secret_ref: None, context: None, target_url: None };
    Ok(Some((spec, url, secret, ForgeHttp::new().map_err(forge_error)?)))
}

/// The git host of the repository that a folder is in, for pull requests from pages; why there is none.
pub fn proposal_host(root: &Path, forge: ForgeTypeArgs) -> Result<ProposalHost, String> {
    let remote = PushRemote::of(root).ok_or_else(|| "the folder is on no branch of git with a remote".to_owned())?;
    let schemes = AllowedSchemes { insecure: true, local: true };
    let url =
        RepositoryUrl::parse(&remote.url, schemes).map_err(|error| format!("the remote `{}`: {error}", remote.name))?;
    let explain = |error: CliError| error.to_string();
    let access = forge_by_token(|| Ok(Some(url)), forge.kind()).map_err(explain)?;
    let (spec, url, secret, http) = access.ok_or_else(|| {
        format!("set {TOKEN_VARIABLE} to a token of the git host, and pass --forge with its type if it is your own")
    })?;
    let explain = |error: ForgeError| format!("{error}; {}", error.help());
    let pusher = BranchPusher::connect(&spec, &url, &secret, &http).map_err(explain)?;
    let forge = AnyForge::connect_to_propose(&spec, &url, &secret, http).map_err(explain)?;
    Ok(ProposalHost { forge, pusher, base: remote.branch })
}

type ForgeAccess = (Forge, RepositoryUrl, SecretValues, ForgeHttp);

/// The git host of a file's source: that of this repository, or the only one.
fn forge_of_file(path: &Path, here: Option<&RepositoryUrl>, output: &Output) -> Result<Option<ForgeAccess>, CliError> {
    let read = file::read_file(path).map_err(CliError::from)?;
    if !read.findings.is_empty() {
        let shown = |_: &str| Some(read.redacted_text.clone());
        output.write_stderr(&findings::with_snippets(&read.findings, &shown, &output.stderr_style));
    }
    if read.findings.iter().any(stator_core::finding::Finding::is_error) {
        return Err(CliError::input(format!("{} has errors", path.display())).with_hint("fix them first"));
    }
    let same = |url: &RepositoryUrl| {
        here.is_some_and(|here| here.host() == url.host() && here.repository() == url.repository())
    };
    let mut all = read.sources;
    let at = all.iter().position(|source| same(&source.url)).or((all.len() == 1).then_some(0));
    let Some(at) = at else {
        return Err(CliError::input(format!("{} has no source of this repository", path.display()))
            .with_hint("compare `spec.url` with `git remote -v`"));
    };
    let source = all.swap_remove(at);
    let credentials = source.git_credentials().map_err(|error| CliError::input(error.to_string()))?;
    let Some(spec) = source.spec.forge else {
        output.note(&format!("{} has no git host (`spec.forge`), so no pull request is opened.", source.key.name));
        return Ok(None);
    };
    let Some(secret) = source.secrets.forge else {
        return Err(CliError::input(format!("{}: the git host has no secret", source.key.name))
            .with_hint("name one with the key `token` in `spec.forge.secretRef`"));
    };
    let http = ForgeHttp::for_repository(&credentials, Some(&secret)).map_err(forge_error)?;
    Ok(Some((spec, source.url, secret, http)))
}

/// Pushes the branch where stator can, and opens the pull request.
pub(super) async fn open_pull_request(
    host: &RollbackForge,
    restorer: &RollbackRepository,
    rollback: &Rollback,
    branch: &str,
    commit: &str,
    output: &Output,
) -> Result<(), CliError> {
    let again = |error: ForgeError| {
        forge_error(error)
            .with_hint(format!("the branch `{branch}` exists locally; run the command again, or push it with git"))
    };
    match &host.push {
        Some(push) => {
            let objects = ProposedObjects::Repository(restorer.git_folder().to_owned());
            let proposed = ProposedCommit { commit: commit.to_owned(), objects };
            push.push_branch(&proposed, branch).await.map_err(again)?;
        }
        None => {
            output.note("stator pushes only over HTTPS, and this repository uses SSH.");
        }
    }
    let base = restorer.remote().map_or_else(|| restorer.branch().to_owned(), |remote| remote.branch);
    let new = NewPullRequest {
        title: rollback.title.clone(),
        body: escape_body(&rollback.body),
        base,
        head: branch.to_owned(),
    };
    match host.forge.create_pull_request(&new).await {
        Ok(opened) => output.write_result(&format!("Pull request {}: {}\n", opened.number, opened.url)),
        Err(ForgeError::Conflict { .. }) => {
            output.note(&format!("A pull request for `{branch}` already exists."));
            Ok(())
        }
        // The branch is not there yet, and the user is to bring it.
        Err(ForgeError::Invalid { .. } | ForgeError::NotFound { .. }) if host.push.is_none() => {
            print_next_step(restorer, branch, output);
            output.note("then run the same command again to open the pull request.");
            Ok(())
        }
        Err(error) => Err(again(error)),
    }
}

/// What is left to do by hand.
pub(super) fn print_next_step(restorer: &RollbackRepository, branch: &str, output: &Output) {
    match restorer.remote() {
        Some(remote) => output.note(&format!("Next: git push {} {branch}", remote.name)),
        None => output.note(&format!("Next: git merge {branch}")),
    }
}

/// The body as Markdown that is nothing but text: the first lines of others' commits are in it.
fn escape_body(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("- ") {
        Some(item) => format!("- {}\n", escape::markdown(item)),
        None => format!("{}\n", escape::markdown(line)),
    };
    text.lines().map(line).collect()
}

fn forge_error(error: ForgeError) -> CliError {
    // What passes by itself is a matter of the controller's patience; here a person runs the command again.
    let passes = matches!(error, ForgeError::Unavailable { .. } | ForgeError::RateLimited { .. });
    CliError::new(CliErrorKind::Cluster, error.to_string()).with_hint(if passes { "" } else { error.help() })
}
