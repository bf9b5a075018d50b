//! Bringing commits in.

use super::{FetchOutcome, Mirror, MirrorError, ResolvedRef, history, reference};
use crate::source::transport::TransportError;
use git2::{ObjectType, Oid};

/// Tags that lead to tags: more than one is odd already.
const MAX_TAG_DEPTH: usize = 5;

impl Mirror {
    /// Brings in what a tip leads to, unless it is here, and says how it stands to what the same ref led to before.
    ///
    /// # Errors
    /// When it cannot be had. What was fetched before stays as it was.
    pub fn fetch(&mut self, tip: &ResolvedRef) -> Result<FetchOutcome, MirrorError> {
        let commit = reference::parse_full_commit(&tip.commit)?;
        let start = match &tip.tag {
            Some(tag) => reference::parse_full_commit(tag)?,
            None => commit,
        };
        let before = self.traffic().received;
        self.with_repair(&[start], |mirror| {
            mirror.fetch_objects(&[start], 1)?;
            mirror.check_leads_to(&tip.name, start, commit)
        })?;
        let name = if tip.name.is_empty() { "commit" } else { &tip.name };
        let previous = self.store.last_fetched(name);
        let forced = match previous {
            Some(previous) if previous != commit && !tip.name.is_empty() => {
                match self.is_ancestor(previous, commit, start) {
                    Ok(descends) => !descends,
                    // A history that is too long to look through cannot be shown to lead here.
                    Err(MirrorError::Transport(TransportError::TooMuch { .. }) | MirrorError::TooMany { .. }) => true,
                    Err(error) => return Err(error),
                }
            }
            Some(_) | None => false,
        };
        let parent = self.parents(commit)?.and_then(|parents| parents.first().map(Oid::to_string));
        self.store.record_tip(name, commit)?;
        self.compact_packs()?;
        self.shrink(name, start, commit)?;
        Ok(FetchOutcome {
            commit: commit.to_string(),
            previous: previous.map(|previous| previous.to_string()),
            parent,
            forced,
            bytes: self.traffic().received.saturating_sub(before),
        })
    }

    /// Brings in what a ref leads to at the moment, whatever it is called (`refs/pull/7/head`), and gives the commit.
    ///
    /// # Errors
    /// When there is no such ref, or it cannot be had.
    pub fn fetch_ref(&mut self, name: &str) -> Result<String, MirrorError> {
        let name = reference::full_ref_name("", name, "ref")?;
        let advert = self.list_refs()?;
        let tip = reference::find_ref(&name, &advert).ok_or(MirrorError::NoRef { name })?;
        Ok(self.fetch(&tip)?.commit)
    }

    /// Lets go of a ref that [`Mirror::fetch_ref`] brought in and nobody asks for any more.
    ///
    /// # Errors
    /// When the mirror's folder cannot be written.
    pub fn forget_ref(&mut self, name: &str) -> Result<(), MirrorError> {
        self.store.remove_tip(name)
    }

    /// Whether following the object that a ref names ends at that commit, with everything on the way here.
    fn check_leads_to(&self, name: &str, start: Oid, commit: Oid) -> Result<(), MirrorError> {
        let mut at = start;
        let not = |kind: &str| MirrorError::NotACommit { name: name.to_owned(), kind: kind.to_owned() };
        for _ in 0..MAX_TAG_DEPTH {
            let odb = self.odb()?;
            let (_, kind) = odb.read_header(at).map_err(|error| missing_object_error(at, &error))?;
            match kind {
                ObjectType::Commit if at == commit => {
                    let object = self.read_object(&at.to_string(), ObjectType::Commit)?;
                    let tree = history::tree_of(&object).ok_or_else(|| not("commit without a tree"))?;
                    return odb.read_header(tree).map(drop).map_err(|error| missing_object_error(tree, &error));
                }
                ObjectType::Commit => return Err(not("commit that the host did not name")),
                ObjectType::Tag => {
                    let object = self.read_object(&at.to_string(), ObjectType::Tag)?;
                    at = history::target_of(&object).ok_or_else(|| not("tag of nothing"))?.1;
                }
                ObjectType::Tree => return Err(not("tree")),
                ObjectType::Blob => return Err(not("file")),
                ObjectType::Any => return Err(not("object of no kind")),
            }
        }
        Err(not("chain of tags"))
    }
}

fn missing_object_error(oid: Oid, error: &git2::Error) -> MirrorError {
    MirrorError::Damaged { reason: format!("object {oid}: {}", error.message()) }
}
