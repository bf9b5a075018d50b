//! A bare repository that tests write commits into, sound ones and others.

use git2::{ObjectType, Oid, Repository, RepositoryInitOptions};
use std::path::Path;

/// A repository to fetch from.
pub struct OriginRepository(pub Repository);

impl OriginRepository {
    /// An empty one, whose default branch is `main`.
    pub fn new(path: &Path) -> Self {
        let mut options = RepositoryInitOptions::new();
        options.bare(true).initial_head("main").external_template(false);
        let origin = Self(Repository::init_opts(path, &options).unwrap());
        origin.set("uploadpack.hideRefs", "refs/hidden");
        origin
    }

    /// Sets a value of its configuration.
    pub fn set(&self, key: &str, value: &str) {
        self.0.config().unwrap().set_str(key, value).unwrap();
    }

    /// A commit with these files on a branch, on top of what is there.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let name = format!("refs/heads/{branch}");
        let parent = self.0.find_reference(&name).ok().and_then(|reference| reference.target());
        let id = self.commit_onto(parent, files);
        self.point(&name, id);
        id.to_string()
    }

    /// A commit with these files on top of another, with no branch.
    pub fn commit_onto(&self, parent: Option<Oid>, files: &[(&str, &str)]) -> Oid {
        let mut changes = git2::build::TreeUpdateBuilder::new();
        for (path, text) in files {
            changes.upsert(*path, self.0.blob(text.as_bytes()).unwrap(), git2::FileMode::Blob);
        }
        let empty = self.0.treebuilder(None).unwrap().write().unwrap();
        let base = parent.map_or(empty, |parent| self.0.find_commit(parent).unwrap().tree_id());
        let tree = changes.create_updated(&self.0, &self.0.find_tree(base).unwrap()).unwrap();
        self.raw_commit(tree, parent, 1_700_000_000, "message")
    }

    /// A commit with a tree as it is.
    pub fn raw_commit(&self, tree: Oid, parent: Option<Oid>, time: u64, message: &str) -> Oid {
        let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
        let who = format!("a <a@example.com> {time} +0000");
        self.object(
            ObjectType::Commit,
            format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\n{message}\n").as_bytes(),
        )
    }

    /// An object with any bytes.
    pub fn object(&self, kind: ObjectType, bytes: &[u8]) -> Oid {
        self.0.odb().unwrap().write(kind, bytes).unwrap()
    }

    /// A tree with any entries, in any order.
    pub fn tree(&self, entries: &[(&str, &[u8], Oid)]) -> Oid {
        let mut bytes = Vec::new();
        for (mode, name, oid) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(oid.as_bytes());
        }
        self.object(ObjectType::Tree, &bytes)
    }

    /// An annotated tag object of anything.
    pub fn tag(&self, of: Oid, kind: &str, name: &str) -> Oid {
        let text = format!("object {of}\ntype {kind}\ntag {name}\ntagger a <a@example.com> 1700000000 +0000\n\ntag\n");
        self.object(ObjectType::Tag, text.as_bytes())
    }

    /// Moves a ref, wherever it was.
    pub fn point(&self, name: &str, to: Oid) {
        self.0.reference(name, to, true, "").unwrap();
    }

    /// Removes a ref.
    pub fn remove(&self, name: &str) {
        self.0.find_reference(name).unwrap().delete().unwrap();
    }
}

/// A line of git's protocol.
pub fn packet(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut line = format!("{:04x}", text.as_ref().len() + 4).into_bytes();
    line.extend_from_slice(text.as_ref());
    line
}
