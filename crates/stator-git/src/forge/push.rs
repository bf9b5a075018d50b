//! Pushing a new branch over HTTP, for a rollback.
//!
//! Everything else only fetches, so this is the one place that writes into a repository, and it can do one thing: make a
//! branch that is not there. See git's `gitprotocol-http` and `gitprotocol-pack`.

use super::auth::ForgeAuth;
use super::client::ForgeClient;
use super::endpoint::ForgeBackend;
use super::github_app::GithubTokenScope;
use super::{ForgeError, ForgeHttp, connect};
use crate::source::model_source;
use crate::source::proposal::{ProposedCommit, ProposedObjects};
use crate::source::secret::SecretValues;
use crate::source::transport::TransportError;
use crate::source::transport::git_stream::read_packet_line;
use crate::source::transport::ref_advertisement::read_ref_list;
use crate::source::url::{RepositoryUrl, UrlScheme};
use ::http::Method;
use git2::{Buf, Oid, Repository};
use std::path::{Path, PathBuf};
use url::Url;

/// An object that is none: what a branch was before it was made.
const ZERO_OID: &str = "0000000000000000000000000000000000000000";
/// The most refs of a host that are looked at.
const MAX_REFS: usize = 1_000_000;

/// Pushes branches to one repository.
pub struct BranchPusher {
    client: ForgeClient,
    display_url: String,
}

impl BranchPusher {
    /// For a repository that is reached over HTTP, with the token that the forge's API takes.
    ///
    /// # Errors
    /// [`ForgeError::Misconfigured`] with the field at fault; an address of SSH is one.
    pub fn connect(
        spec: &model_source::Forge,
        url: &RepositoryUrl,
        secret: &SecretValues,
        http: &ForgeHttp,
    ) -> Result<Self, ForgeError> {
        let misplaced = |message: &str| ForgeError::Misconfigured {
            field: "spec.url",
            message: message.to_owned(),
            fix: "push the branch with git, and run the command again for the pull request",
        };
        match url.scheme() {
            UrlScheme::Https | UrlScheme::Http => {}
            UrlScheme::Ssh | UrlScheme::Local => {
                return Err(misplaced("cannot be pushed to, because stator pushes only over HTTPS"));
            }
        }
        let (place, login) = connect::resolve_endpoint_and_auth(spec, url, secret, http, GithubTokenScope::Propose)?;
        let make = place.backend;
        let login = login.for_git_push(make, secret)?;
        let mut text = url.to_string();
        if make == ForgeBackend::Gitlab && !text.ends_with(".git") {
            text.push_str(".git");
        }
        let root = Url::parse(&text).map_err(|_| misplaced("is not a valid URL"))?;
        Ok(Self { client: ForgeClient::new(http.clone(), root, login), display_url: url.to_string() })
    }

    /// Pushes a commit as a new branch. A branch of that name that points to the commit already is as good.
    ///
    /// # Errors
    /// When the host refuses, or has another branch of that name.
    pub async fn push_branch(&self, proposed: &ProposedCommit, branch: &str) -> Result<(), ForgeError> {
        let commit = proposed.commit.as_str();
        let name = format!("refs/heads/{branch}");
        // git takes an App's token as a password, and the API as it is.
        let client = self.client.as_user("x-access-token").await?;
        let request = client.get(["info", "refs"]).query("service", "git-receive-pack");
        let request = request.raw_body("application/x-git-receive-pack-advertisement", "", Vec::new());
        let answer = request.resource(format!("repository {}", self.display_url)).send().await?;
        let refs = self.parse_refs(&answer.body)?;
        match refs.iter().find(|(known, _)| *known == name.as_bytes()) {
            Some((_, there)) if there.to_string() == commit => return Ok(()),
            Some(_) => {
                let message = format!("it has another branch `{branch}`");
                return Err(ForgeError::Conflict { host: answer.host.name, message });
            }
            None => {}
        }
        let packed = match &proposed.objects {
            ProposedObjects::Packed(packed) => packed.clone(),
            ProposedObjects::Repository(folder) => self.pack_commit(folder, commit, refs).await?,
        };
        let command = format!("{ZERO_OID} {commit} {name}\0report-status agent=stator");
        let mut body = format!("{:04x}{command}0000", command.len() + 4).into_bytes();
        body.extend_from_slice(&packed);
        let request = client.request(Method::POST, ["git-receive-pack"]);
        let request =
            request.raw_body("application/x-git-receive-pack-result", "application/x-git-receive-pack-request", body);
        let answer = request.resource(format!("repository {}", self.display_url)).send().await?;
        self.check_push_report(&answer.body, &name, &answer.host.name)
    }

    /// What the host lacks of a commit of a repository here.
    async fn pack_commit(&self, folder: &Path, commit: &str, refs: Vec<(Vec<u8>, Oid)>) -> Result<Vec<u8>, ForgeError> {
        let (folder, wanted) = (folder.to_owned(), commit.to_owned());
        let haves: Vec<Oid> = refs.into_iter().map(|(_, oid)| oid).collect();
        match tokio::task::spawn_blocking(move || build_pack(&folder, &wanted, &haves)).await {
            Ok(Ok(packed)) => Ok(packed),
            Ok(Err(error)) => Err(self.client.unreadable_error(format!("nothing can be packed: {}", error.message()))),
            Err(_) => Err(self.client.unreadable_error("packing was stopped")),
        }
    }

    /// The refs that a host advertises, with what they point to.
    fn parse_refs(&self, mut body: &[u8]) -> Result<Vec<(Vec<u8>, Oid)>, ForgeError> {
        let host = self.client.answering_host();
        let redact = |text: &[u8]| host.redact_text(&String::from_utf8_lossy(text));
        match read_ref_list(&mut body, &host.name, MAX_REFS, redact) {
            Ok(list) => Ok(list.refs),
            Err(TransportError::TooMuch { .. }) => Err(host.too_many_error(MAX_REFS, "refs")),
            Err(error) => Err(host.unreadable_error(format!("its list of refs is not valid in git: {error}"))),
        }
    }

    /// What became of the push: `unpack ok`, and `ok` or `ng` with a reason for the branch.
    fn check_push_report(&self, body: &[u8], name: &str, host: &str) -> Result<(), ForgeError> {
        let mut rest = body;
        let mut unpacked = false;
        while let Ok(Some(line)) = read_packet_line(&mut rest) {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            let message = |text: &str| self.client.answering_host().redact_text(text);
            if let Some(result) = text.strip_prefix("unpack ") {
                unpacked = result == "ok";
                if !unpacked {
                    return Err(ForgeError::Invalid { host: host.to_owned(), message: message(result) });
                }
            } else if text.strip_prefix("ok ") == Some(name) && unpacked {
                return Ok(());
            } else if let Some(refused) = text.strip_prefix("ng ") {
                let reason = refused.strip_prefix(name).unwrap_or(refused).trim();
                return Err(ForgeError::Forbidden { host: host.to_owned(), message: message(reason) });
            }
        }
        Err(self.client.unreadable_error("it does not report the result of the push"))
    }
}

/// What the host lacks of a commit.
fn build_pack(folder: &PathBuf, commit: &str, haves: &[Oid]) -> Result<Vec<u8>, git2::Error> {
    let repository = Repository::open(folder)?;
    let odb = repository.odb()?;
    let mut walk = repository.revwalk()?;
    walk.push(Oid::from_str(commit)?)?;
    for have in haves {
        // What it has and this clone does not, says nothing here.
        if odb.exists(*have) && repository.find_commit(*have).is_ok() {
            walk.hide(*have)?;
        }
    }
    let mut builder = repository.packbuilder()?;
    builder.insert_walk(&mut walk)?;
    let mut packed = Buf::new();
    builder.write_buf(&mut packed)?;
    Ok(packed.to_vec())
}

impl ForgeAuth {
    /// The same token as git takes it. Hosts differ in which user goes with it.
    fn for_git_push(self, make: ForgeBackend, secret: &SecretValues) -> Result<Self, ForgeError> {
        let Self::Header(_, _, secrets) = &self else { return Ok(self) };
        let Some(token) = secrets.first() else { return Ok(self) };
        let user = match make {
            ForgeBackend::Github => "x-access-token",
            ForgeBackend::Gitlab | ForgeBackend::Gitea => "oauth2",
            ForgeBackend::BitbucketCloud if secret.get("username").is_some() => "x-bitbucket-api-token-auth",
            ForgeBackend::BitbucketCloud => "x-token-auth",
            // As for the API.
            ForgeBackend::BitbucketDataCenter | ForgeBackend::Azure => return Ok(self),
        };
        Self::basic(user, token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    fn pusher() -> BranchPusher {
        let login = ForgeAuth::basic("git", &SecretString::from("canary")).unwrap();
        let root = Url::parse("https://git.example.com/team/models.git").unwrap();
        let client = ForgeClient::new(ForgeHttp::new().unwrap(), root, login);
        BranchPusher { client, display_url: "https://git.example.com/team/models".to_owned() }
    }

    fn line(text: &str) -> String {
        format!("{:04x}{text}", text.len() + 4)
    }

    #[test]
    fn the_refs_of_a_host_are_read_as_it_answers_a_push() {
        let one = "1".repeat(40);
        let service = format!("{}0000", line("# service=git-receive-pack\n"));
        let refs =
            format!("{}{}", line(&format!("{one} refs/heads/main\0report-status\n")), line(&format!("{one} .have\n")));
        let read = pusher().parse_refs(format!("{service}{refs}0000").as_bytes()).unwrap();
        let names: Vec<_> = read.iter().map(|(name, oid)| format!("{oid} {}", String::from_utf8_lossy(name))).collect();
        assert_eq!(names, [format!("{one} refs/heads/main"), format!("{one} .have")]);
        let empty = line(&format!("{} capabilities^{{}}\0report-status\n", "0".repeat(40)));
        assert_eq!(pusher().parse_refs(format!("{service}{empty}0000").as_bytes()).unwrap(), []);
        let refused = line("ERR canary may not push");
        for broken in [format!("{service}{refs}"), format!("{service}{}0000", line("x")), format!("{service}{refused}")]
        {
            let error = pusher().parse_refs(broken.as_bytes()).unwrap_err();
            assert!(matches!(error, ForgeError::Unreadable { .. }) && !error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn what_became_of_a_push_is_read_from_its_report() {
        let read = |lines: &[&str]| {
            let report: String = lines.iter().map(|text| line(text)).collect();
            pusher().check_push_report(format!("{report}0000").as_bytes(), "refs/heads/a", "git.example.com")
        };
        let host = || "git.example.com".to_owned();
        assert_eq!(read(&["unpack ok\n", "ok refs/heads/a\n"]), Ok(()));
        let broken = ForgeError::Invalid { host: host(), message: "index-pack failed".to_owned() };
        assert_eq!(read(&["unpack index-pack failed\n"]), Err(broken));
        let declined = ForgeError::Forbidden { host: host(), message: "hook declined".to_owned() };
        assert_eq!(read(&["unpack ok\n", "ng refs/heads/a hook declined\n"]), Err(declined));
        let other_branch = read(&["unpack ok\n", "ok refs/heads/b\n"]);
        assert!(matches!(other_branch, Err(ForgeError::Unreadable { .. })), "{other_branch:?}");
    }
}
