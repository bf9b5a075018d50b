//! Where a folder's content comes from, as git knows it: the remote that it was cloned from, or the commit that its
//! history begins with. Nothing here reads a file of the work tree.

use super::git::discover;
use git2::{Oid, Repository, Sort};
use stator_model::plan::{RepositoryAddress, RepositoryOrigin, SourceClaim, SourceIdentity};
use std::path::{Path, PathBuf};

/// How many clones of clones on this machine are followed to a host.
const MAX_LOCAL_REMOTES: usize = 8;
/// The longest history that is walked for what a repository was called before it had a remote.
const MAX_FORMER_COMMITS: usize = 10_000;

/// Whose a folder on disk is: of the repository around it, by the remote of its branch's upstream, `origin`, or the only
/// one that there is; without a remote by the oldest commit of its history; outside git by its real path. A remote that
/// is a path of this machine leads on to that repository's.
pub fn find_claim(root: &Path) -> SourceClaim {
    let path = RepositoryOrigin::at_path(&root.to_string_lossy());
    match discover(root) {
        Ok((repository, folder)) => claim_of(&repository, &folder, path),
        Err(_) => SourceClaim::new(SourceIdentity::Repository { origin: path }),
    }
}

/// The same of a folder in a repository of this machine, which may have no work tree.
pub fn find_claim_in(repository: &Path, folder: &str) -> SourceClaim {
    let path = RepositoryOrigin::at_path(&repository.join(folder).to_string_lossy());
    match Repository::open(repository) {
        Ok(repository) => claim_of(&repository, folder, path),
        Err(_) => SourceClaim::new(SourceIdentity::Repository { origin: path }),
    }
}

fn claim_of(repository: &Repository, folder: &str, path: RepositoryOrigin) -> SourceClaim {
    let address = remote_address(repository, MAX_LOCAL_REMOTES);
    let limit = address.as_ref().map(|_| MAX_FORMER_COMMITS);
    let commit = oldest_root(repository, limit).map(|root| RepositoryOrigin::at_root_commit(&root.to_string(), folder));
    let address = address.map(|address| RepositoryOrigin::at_address(address, folder));
    // The strongest of these is what it is, the weaker ones are what it was before it had that.
    let mut origins = [address, commit, Some(path)].into_iter().flatten();
    let origin = origins.next().unwrap_or_else(|| RepositoryOrigin::at_path("/"));
    SourceClaim { identity: SourceIdentity::Repository { origin }, former_origins: origins.collect() }
}

/// The host that a repository comes from, through clones on this machine.
fn remote_address(repository: &Repository, hops: usize) -> Option<RepositoryAddress> {
    let url = remote_url(repository)?;
    if let Some(address) = RepositoryAddress::parse(&url) {
        return Some(address);
    }
    let path = PathBuf::from(url.strip_prefix("file://").unwrap_or(&url));
    let here = repository.workdir().unwrap_or_else(|| repository.path());
    let next = Repository::open(here.join(path)).ok()?;
    remote_address(&next, hops.checked_sub(1)?)
}

fn remote_url(repository: &Repository) -> Option<String> {
    let url_of = |name: &str| Some(repository.find_remote(name).ok()?.url().ok()?.to_owned());
    let upstream = || {
        let head = repository.find_reference("HEAD").ok()?;
        let remote = repository.branch_upstream_remote(head.symbolic_target().ok()??).ok()?;
        url_of(remote.as_str().ok()?)
    };
    let only = || {
        let remotes = repository.remotes().ok()?;
        if remotes.len() == 1 { url_of(remotes.get(0).ok()??) } else { None }
    };
    upstream().or_else(|| url_of("origin")).or_else(only)
}

/// The oldest commit without parents that `HEAD` leads to; of several of one age, the one whose id comes first. `None`
/// without a commit, in a clone that lacks history, and when there are more commits than the limit.
fn oldest_root(repository: &Repository, limit: Option<usize>) -> Option<Oid> {
    if repository.is_shallow() {
        return None;
    }
    let mut walk = repository.revwalk().ok()?;
    walk.set_sorting(Sort::NONE).ok()?;
    walk.push_head().ok()?;
    let mut roots = Vec::new();
    for (number, found) in walk.enumerate() {
        if limit.is_some_and(|limit| number >= limit) {
            return None;
        }
        let commit = repository.find_commit(found.ok()?).ok()?;
        if commit.parent_count() == 0 {
            roots.push((commit.time().seconds(), commit.id()));
        }
    }
    roots.into_iter().min().map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::{Signature, Time};

    struct Clones {
        folder: tempfile::TempDir,
    }

    impl Clones {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn made(&self, name: &str) -> Repository {
            fs_err::create_dir_all(self.path(name)).unwrap();
            Repository::init(self.path(name)).unwrap()
        }

        fn origin(&self, path: &str) -> String {
            let path = self.path(path);
            let origin = find_claim(&path).identity.origin().to_string();
            origin.replace(self.folder.path().canonicalize().unwrap().to_str().unwrap(), "/place")
        }
    }

    /// Commits nothing at a time, after some commits.
    fn commit(repository: &Repository, at: i64, parents: &[Oid]) -> Oid {
        let who = Signature::new("a", "a@example.com", &Time::new(at, 0)).unwrap();
        let tree = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let parents: Vec<_> = parents.iter().map(|id| repository.find_commit(*id).unwrap()).collect();
        let parents: Vec<_> = parents.iter().collect();
        repository.commit(None, &who, &who, "x", &tree, &parents).unwrap()
    }

    fn set_branch(repository: &Repository, to: Oid) {
        repository.reference("refs/heads/main", to, true, "").unwrap();
        repository.set_head("refs/heads/main").unwrap();
    }

    #[test]
    fn a_folder_is_what_its_upstream_is() {
        let clones = Clones::new();
        let repository = clones.made("fleet");
        fs_err::create_dir_all(clones.path("fleet/prod")).unwrap();
        assert_eq!(clones.origin("fleet/prod"), "path:/place/fleet/prod", "nothing is committed");
        let root = commit(&repository, 1, &[]);
        set_branch(&repository, root);
        assert_eq!(clones.origin("fleet/prod"), format!("commit:{root}//prod"));
        repository.remote("company", "git@git.example.com:team/fleet.git").unwrap();
        assert_eq!(clones.origin("fleet/prod"), "git:git.example.com/team/fleet//prod", "the only one");
        repository.remote("origin", "https://git.example.com/me/fleet").unwrap();
        assert_eq!(clones.origin("fleet"), "git:git.example.com/me/fleet");
        repository.config().unwrap().set_str("branch.main.remote", "company").unwrap();
        assert_eq!(clones.origin("fleet"), "git:git.example.com/team/fleet", "the branch's own");
        let former = find_claim(&clones.path("fleet")).former_origins;
        assert_eq!(former.len(), 2, "{former:?}");
    }

    #[test]
    fn a_clone_on_this_machine_is_what_it_was_cloned_from() {
        let clones = Clones::new();
        let first = clones.made("first");
        let root = commit(&first, 1, &[]);
        set_branch(&first, root);
        for (from, to) in [("first", "second"), ("second", "third")] {
            Repository::clone(clones.path(from).to_str().unwrap(), clones.path(to)).unwrap();
        }
        assert_eq!(clones.origin("third"), format!("commit:{root}"));
        first.remote("origin", "https://git.example.com/team/fleet").unwrap();
        assert_eq!(clones.origin("third"), "git:git.example.com/team/fleet");
        let bare = find_claim_in(&clones.path("second/.git"), "");
        assert_eq!(bare.identity, find_claim(&clones.path("third")).identity);
        // A circle of remotes leads to no host.
        first.remote_set_url("origin", clones.path("third").to_str().unwrap()).unwrap();
        assert_eq!(clones.origin("third"), format!("commit:{root}"));
    }

    #[test]
    fn of_several_beginnings_the_oldest_counts() {
        let clones = Clones::new();
        let repository = clones.made("fleet");
        let (old, new) = (commit(&repository, 5, &[]), commit(&repository, 9, &[]));
        let merged = commit(&repository, 10, &[new, old]);
        set_branch(&repository, merged);
        assert_eq!(clones.origin("fleet"), format!("commit:{old}"));
    }
}
