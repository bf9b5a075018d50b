//! A bare copy of a repository in a folder of stator's own: what the controller reads commits out of.
//!
//! Nothing is ever checked out, so there is nothing for hooks, filters, submodules or links to work on. The copy's
//! configuration is written by stator alone. What is fetched is what one commit needs; history comes only when somebody
//! asks about it.
//!
//! Everything here blocks: call it on a thread that may wait.

mod compact;
mod error;
mod fetch;
mod history;
mod network;
mod object_cache;
mod range;
mod reference;
mod remote_refs;
mod store;
mod trees;

#[cfg(test)]
mod tests;

pub use crate::source::remote::{CommitSize, FetchLimits, RemoteRepository};
pub use error::MirrorError;
pub use reference::ResolvedRef;

use super::signature::{SignedObject, SignedRevision, SignedTag};
use super::transport::http::HttpClient;
use crate::source::model_source::Reference;
use git2::{ObjectType, Oid};
use object_cache::GitObjectCache;
use remote_refs::RemoteRefs;
use std::path::Path;
use store::MirrorStore;

/// Why a range of versions, as `spec.ref.semver` has it, is none. `None` when it is one.
pub fn version_range_error(text: &str) -> Option<String> {
    range::VersionRange::parse(text).err()
}

/// Bytes of a commit or a tag, message and signatures included.
const MAX_OBJECT_BYTES: usize = 8 << 20;

/// A bare copy of a repository. One a source; no two processes share one.
pub struct Mirror {
    store: MirrorStore,
    remote: RemoteRepository,
    cache: GitObjectCache,
    host: RemoteHost,
}

/// What a fetch brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOutcome {
    /// The commit, in full.
    pub commit: String,
    /// The commit that the same ref led to when it was fetched before; `None` the first time.
    pub previous: Option<String>,
    /// The commit that it was made on top of; of a merge, where it was merged into.
    pub parent: Option<String>,
    /// Whether `previous` is no ancestor of `commit`: somebody wrote history anew.
    pub forced: bool,
    /// Bytes that came over the network for it.
    pub bytes: u64,
}

impl Mirror {
    /// Opens the mirror in a folder, making it where there is none. One that is damaged, or is of another repository, is
    /// made anew.
    ///
    /// # Errors
    /// When the folder cannot be written or another process uses it, or a local path leads to no repository.
    pub fn open(folder: &Path, remote: RemoteRepository) -> Result<Self, MirrorError> {
        let store = MirrorStore::open(folder, &remote.url)?;
        Ok(Self { store, remote, cache: GitObjectCache::default(), host: RemoteHost::default() })
    }

    /// Where a reference leads at the moment. Asks the host once; for a commit that is here already, not at all.
    ///
    /// # Errors
    /// When the host cannot be asked, or the reference leads nowhere. That is never a reason to prune.
    pub fn poll(&mut self, reference: &Reference) -> Result<ResolvedRef, MirrorError> {
        if let Reference::Commit(_) = reference {
            return reference::resolve_reference(reference, &RemoteRefs::default());
        }
        let advert = self.list_refs()?;
        reference::resolve_reference(reference, &advert)
    }

    /// How many git objects were read since the mirror was opened: what a second look at the same files does not raise.
    pub fn objects_read(&self) -> u64 {
        self.cache.objects_read()
    }

    /// Does something with what is here. When that turns out to be damaged, the mirror is made anew, once, with the given
    /// commits; when one of those is not here, it is asked for, once.
    fn with_repair<T>(
        &mut self,
        commits: &[Oid],
        work: impl Fn(&mut Self) -> Result<T, MirrorError>,
    ) -> Result<T, MirrorError> {
        let reason = match work(self) {
            Err(MirrorError::Damaged { reason }) => reason,
            Err(MirrorError::NoCommit { commit }) => match self.fetch_objects(commits, 1) {
                Ok(()) => return work(self),
                Err(MirrorError::Folder { reason, .. } | MirrorError::Damaged { reason }) => reason,
                Err(MirrorError::Transport(error)) => return Err(error.into()),
                Err(_) => return Err(MirrorError::NoCommit { commit }),
            },
            done => return done,
        };
        tracing::warn!(url = %self.remote.url, reason, "the mirror is damaged and is created again");
        self.cache = GitObjectCache::default();
        self.store.rebuild()?;
        self.fetch_objects(commits, 1)?;
        work(self)
    }

    fn odb(&self) -> Result<git2::Odb<'_>, MirrorError> {
        self.store.repository().odb().map_err(|error| MirrorError::Damaged { reason: error.message().to_owned() })
    }

    /// The bytes of an object that is here.
    fn read_object(&self, id: &str, kind: ObjectType) -> Result<Vec<u8>, MirrorError> {
        let oid = reference::parse_full_commit(id)?;
        let odb = self.odb()?;
        let failed = |error: git2::Error| {
            if error.code() == git2::ErrorCode::NotFound {
                MirrorError::NoCommit { commit: id.to_owned() }
            } else {
                MirrorError::Damaged { reason: format!("object {id}: {}", error.message()) }
            }
        };
        if odb.read_header(oid).map_err(failed)?.0 > MAX_OBJECT_BYTES {
            let commit = id.to_owned();
            return Err(MirrorError::TooMany { commit, limit: MAX_OBJECT_BYTES, what: "bytes of its own" });
        }
        let object = odb.read(oid).map_err(failed)?;
        if object.kind() != kind {
            return Err(MirrorError::NotACommit { name: id.to_owned(), kind: object.kind().str().to_owned() });
        }
        Ok(object.data().to_vec())
    }
}

/// How often a mirror has asked its host, and how much came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorTraffic {
    /// Requests sent.
    pub requests: u64,
    /// Bytes received, headers not counted.
    pub received: u64,
}

/// What a mirror knows of its host from one call to the next.
#[derive(Default)]
struct RemoteHost {
    /// Kept for its connections.
    http: Option<HttpClient>,
    /// What the host's git can do, from its last list of refs.
    capabilities: Option<String>,
    /// Where the host's list of refs was found when it had moved.
    base: Option<url::Url>,
    traffic: MirrorTraffic,
}

impl Mirror {
    /// A commit as it is, without any tag that may lead to it.
    ///
    /// # Errors
    /// When the mirror does not hold it.
    pub fn signed_commit(&self, commit: &str) -> Result<SignedRevision, MirrorError> {
        let raw = self.read_object(commit, ObjectType::Commit)?;
        let commit = SignedObject { id: commit.to_owned(), raw };
        Ok(SignedRevision { commit, tag: None, ancestors: Vec::new() })
    }

    /// The commit of a fetched tip and the annotated tag that led to it, as they are, for
    /// [`verify_revision`](crate::source::signature::verify_revision).
    ///
    /// # Errors
    /// When the mirror does not hold the commit or the tag.
    pub fn signed_revision(&self, tip: &ResolvedRef) -> Result<SignedRevision, MirrorError> {
        let object = |id: &str, kind: ObjectType| {
            Ok::<_, MirrorError>(SignedObject { id: id.to_owned(), raw: self.read_object(id, kind)? })
        };
        let tag = match &tip.tag {
            Some(id) => {
                // What the tag is called inside is compared with this: a tag that was signed as another is none.
                let name = tip.name.strip_prefix("refs/tags/").unwrap_or(&tip.name).to_owned();
                Some(SignedTag { name, object: object(id, ObjectType::Tag)? })
            }
            None => None,
        };
        Ok(SignedRevision { commit: object(&tip.commit, ObjectType::Commit)?, tag, ancestors: Vec::new() })
    }
}
