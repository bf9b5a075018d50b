//! Mirrors against git's own server over HTTP: what is asked, what comes, and what does not get in.

mod answers;
mod attacks;
mod damage;
mod fetching;
mod fsck;
mod scale;

use crate::git_server::{GitReply, GitRequest, GitServer, OriginRepository};
use crate::testbed::PATIENCE;
use secrecy::SecretString;
use stator_git::source::credentials::{GitCredentials, GitLogin};
use stator_git::source::mirror::{FetchLimits, FetchOutcome, Mirror, MirrorError, RemoteRepository, ResolvedRef};
use stator_git::source::model_source::{Reference, VerifyMode};
use stator_git::source::secret::SecretValues;
use stator_git::source::signature::verify_revision;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};
use tempfile::TempDir;

/// What every credential of these tests holds, and no message may.
const CANARY: &str = "canary-7f3a9b";

/// A repository on a server, and room for mirrors of it.
struct Place {
    folder: TempDir,
    origin: OriginRepository,
    server: GitServer,
}

impl Place {
    fn new() -> Self {
        Self::answering(|_| GitReply::Git)
    }

    fn answering(answers: impl Fn(&GitRequest) -> GitReply + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let origin = OriginRepository::new(&folder.path().join("models.git"));
        let server = GitServer::answering(folder.path(), answers);
        Self { folder, origin, server }
    }

    fn remote(&self) -> RemoteRepository {
        remote(&self.server.url("models.git"))
    }

    fn mirror(&self) -> Mirror {
        self.mirror_of(self.remote())
    }

    fn mirror_of(&self, remote: RemoteRepository) -> Mirror {
        Mirror::open(&self.folder.path().join("data"), remote).unwrap()
    }

    /// What comes of looking at `main` once.
    fn poll(&self) -> Result<ResolvedRef, MirrorError> {
        self.mirror().poll(&main())
    }
}

fn remote(url: &str) -> RemoteRepository {
    let url = RepositoryUrl::parse(url, AllowedSchemes { insecure: true, local: false }).unwrap();
    let credentials = GitCredentials::read(None, &url).unwrap();
    RemoteRepository { limits: limits(), ..RemoteRepository::new(url, credentials) }
}

/// As usual, but with an end that only a test which hangs comes to.
fn limits() -> FetchLimits {
    let [connect_timeout, total_timeout, rate_window] = [PATIENCE; 3];
    FetchLimits { connect_timeout, total_timeout, rate_window, ..FetchLimits::default() }
}

fn basic() -> GitLogin {
    GitLogin::Basic { username: SecretString::from("git"), password: SecretString::from(CANARY) }
}

fn main() -> Reference {
    Reference::Branch("main".to_owned())
}

/// Looks, and fetches what is there.
fn follow(mirror: &mut Mirror, reference: &Reference) -> Result<FetchOutcome, MirrorError> {
    let tip = mirror.poll(reference)?;
    mirror.fetch(&tip)
}

/// The files of a commit: a line each, with content or why there is none.
fn files(mirror: &mut Mirror, commit: &str) -> String {
    let tree = mirror.tree(commit, "").unwrap();
    let line = |file: stator_model::intent::SourceFile| match file.content {
        Ok(bytes) => format!("{}: {} bytes", file.path, bytes.len()),
        Err(reason) => format!("{}: {reason}", file.path),
    };
    tree.files.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// An error as a user gets it, with what differs from run to run left out.
fn told(place: &Place, error: &MirrorError) -> String {
    assert!(!format!("{error:?} {error} {}", error.help()).contains(CANARY), "{error:?}");
    format!("{error}; {}", error.help())
        .replace(&place.server.address().to_string(), "HOST")
        .replace(place.folder.path().to_str().unwrap(), "FOLDER")
}
