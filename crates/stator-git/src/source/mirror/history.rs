//! Who descends from whom.
//!
//! A mirror begins with one commit and no history. What is asked here is answered from the commits that are there, and
//! when those do not say, with the next hundred, and then with all. Parents are read out of the commits themselves and
//! not out of git's list of cut histories: a commit is known to have parents although they are not here.

use super::{Mirror, MirrorError};
use crate::source::commit_log::{self, CommitAnswer, CommitQuestion};
use crate::source::proposal::{self, ProposalAuthor, ProposalError, ProposedCommit, ProposedFile};
use crate::source::transport::TransportError;
use git2::{ObjectType, Oid};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// How far histories are fetched when what is there does not answer: the last is all.
const FETCH_DEPTHS: [i32; 2] = [100, i32::MAX];
/// Commits that are looked at for one answer.
const MAX_COMMITS: usize = 1_000_000;

/// What the commits at hand say.
enum HistoryLookup<T> {
    /// This, whatever else there is.
    Found(T),
    /// History that is not here decides.
    Truncated,
}

impl Mirror {
    /// What commits that are here say of themselves; `folder` is the one that the question's folders are relative to.
    pub fn commit_log(&self, folder: &str, question: &CommitQuestion) -> CommitAnswer {
        commit_log::answer_question(self.store.repository(), folder, question)
    }

    /// A commit on top of one that is here, kept in memory.
    ///
    /// # Errors
    /// Where the file is not what it was, or git refuses.
    pub fn propose(
        &self,
        base: &str,
        file: &ProposedFile,
        message: &str,
        author: &ProposalAuthor,
    ) -> Result<ProposedCommit, ProposalError> {
        proposal::commit_in_memory(self.store.repository().path(), base, file, message, author)
    }

    /// The files of a folder, from the repository's root, as a commit has them.
    ///
    /// # Errors
    /// Where the commit cannot be had.
    pub fn files_at(&mut self, commit: &str, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, ProposalError> {
        let failed = |error: MirrorError| ProposalError::Git(error.to_string());
        let oid = super::reference::parse_full_commit(commit).map_err(failed)?;
        let read = |mirror: &Self| proposal::files_of_folder(mirror.store.repository(), commit, folder);
        match read(self) {
            Err(_) => {
                self.fetch_objects(&[oid], 1).map_err(failed)?;
                read(self)
            }
            found => found,
        }
    }

    /// When a commit that is here was committed, in seconds since 1970, by its own account. Anybody may write anything there.
    pub fn commit_time(&self, commit: &str) -> Option<i64> {
        let commit = self.read_object(commit, ObjectType::Commit).ok()?;
        parse_commit_time(&commit)
    }

    /// The newest commit that both descend from: what a pull request is compared with. `None` when they share none, and when
    /// the remote is a shallow clone whose history ends before. Of several, the one whose name sorts first.
    ///
    /// # Errors
    /// When a commit is not in the mirror, or its history cannot be fetched.
    pub fn merge_base(&mut self, a: &str, b: &str) -> Result<Option<String>, MirrorError> {
        let (a, b) = (super::reference::parse_full_commit(a)?, super::reference::parse_full_commit(b)?);
        for commit in [a, b] {
            self.read_object(&commit.to_string(), ObjectType::Commit)?;
        }
        let base = self.with_deepening(&[a, b], |mirror| mirror.local_merge_base(a, b))?;
        Ok(base.flatten().map(|base| base.to_string()))
    }

    /// The commit, the one that it was made on top of, and so on: of a merge, what it was merged into. At most `most`,
    /// and less where the history begins.
    ///
    /// # Errors
    /// When the commit is not in the mirror, or its history cannot be fetched.
    pub fn first_parent_history(&mut self, commit: &str, most: u16) -> Result<Vec<String>, MirrorError> {
        let start = super::reference::parse_full_commit(commit)?;
        self.read_object(commit, ObjectType::Commit)?;
        let mut known = self.local_first_parents(start, most)?;
        if let HistoryLookup::Truncated = known.1 {
            self.fetch_objects(&[start], i32::from(most))?;
            known = self.local_first_parents(start, most)?;
        }
        Ok(known.0.iter().map(Oid::to_string).collect())
    }

    fn local_first_parents(&self, start: Oid, most: u16) -> Result<(Vec<Oid>, HistoryLookup<()>), MirrorError> {
        let (mut line, mut next) = (Vec::new(), Some(start));
        while let Some(commit) = next.filter(|_| line.len() < usize::from(most)) {
            let Some(parents) = self.parents(commit)? else { return Ok((line, HistoryLookup::Truncated)) };
            line.push(commit);
            next = parents.first().copied();
        }
        Ok((line, HistoryLookup::Found(())))
    }

    /// Whether a commit is another one or follows it, as far as the remote knows. A history that is too long to look through
    /// cannot be shown to lead there.
    ///
    /// # Errors
    /// When the later commit is not in the mirror, or its history cannot be fetched.
    pub fn follows(&mut self, later: &str, earlier: &str) -> Result<bool, MirrorError> {
        let [later, earlier] = [later, earlier].map(super::reference::parse_full_commit);
        let (later, earlier) = (later?, earlier?);
        match self.is_ancestor(earlier, later, later) {
            Err(MirrorError::Transport(TransportError::TooMuch { .. }) | MirrorError::TooMany { .. }) => Ok(false),
            known => known,
        }
    }

    /// Keeps which commit of a ref was applied, for whoever opens the mirror next.
    ///
    /// # Errors
    /// When the commit is not here, or the mirror's folder cannot be written.
    pub fn record_applied(&mut self, name: &str, commit: &str) -> Result<(), MirrorError> {
        self.store.record_tip(&applied_tip_name(name), super::reference::parse_full_commit(commit)?)
    }

    /// The commit of a ref that was last applied, by this or an earlier process.
    pub fn last_applied(&self, name: &str) -> Option<String> {
        self.store.last_fetched(&applied_tip_name(name)).map(|commit| commit.to_string())
    }

    /// Whether one commit is an ancestor of another, or the same, as far as the remote knows: a shallow clone does not know
    /// where its history leads.
    /// `start` is what the host gives out for `new`: the commit, or a tag of it.
    pub(super) fn is_ancestor(&mut self, old: Oid, new: Oid, start: Oid) -> Result<bool, MirrorError> {
        let descends = self.with_deepening(&[start], |mirror| mirror.is_local_ancestor(old, new))?;
        Ok(descends.unwrap_or(false))
    }

    /// Asks again with more history, until that does. `None` when all of it is here and it has holes.
    fn with_deepening<T>(
        &mut self,
        tips: &[Oid],
        ask: impl Fn(&Self) -> Result<HistoryLookup<T>, MirrorError>,
    ) -> Result<Option<T>, MirrorError> {
        if let HistoryLookup::Found(answer) = ask(self)? {
            return Ok(Some(answer));
        }
        for depth in FETCH_DEPTHS {
            self.fetch_objects(tips, depth)?;
            if let HistoryLookup::Found(answer) = ask(self)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn is_local_ancestor(&self, old: Oid, new: Oid) -> Result<HistoryLookup<bool>, MirrorError> {
        let (mut seen, mut open, mut cut) = (HashSet::from([new]), VecDeque::from([new]), false);
        while let Some(commit) = open.pop_front() {
            if commit == old {
                return Ok(HistoryLookup::Found(true));
            }
            check_commit_count(new, seen.len())?;
            match self.parents(commit)? {
                Some(parents) => open.extend(parents.into_iter().filter(|parent| seen.insert(*parent))),
                None => cut = true,
            }
        }
        Ok(if cut { HistoryLookup::Truncated } else { HistoryLookup::Found(false) })
    }

    fn local_merge_base(&self, a: Oid, b: Oid) -> Result<HistoryLookup<Option<Oid>>, MirrorError> {
        let (ancestors, a_cut) = self.ancestors(a)?;
        // From `b` down to where its history meets that of `a`.
        let (mut seen, mut open) = (HashSet::from([b]), VecDeque::from([b]));
        let (mut meets, mut ends) = (BTreeSet::new(), false);
        while let Some(commit) = open.pop_front() {
            if ancestors.contains(&commit) {
                meets.insert(commit);
                continue;
            }
            check_commit_count(b, seen.len())?;
            match self.parents(commit)? {
                Some(parents) if parents.is_empty() => ends = true,
                Some(parents) => open.extend(parents.into_iter().filter(|parent| seen.insert(*parent))),
                None => return Ok(HistoryLookup::Truncated),
            }
        }
        // A line of `b` that ends in a first commit without meeting `a` may yet meet it in what is not here.
        if ends && a_cut {
            return Ok(HistoryLookup::Truncated);
        }
        // Of those that meet, one that another descends from is not the newest.
        let mut below = HashSet::new();
        let mut open = Vec::new();
        for commit in &meets {
            open.extend(self.parents(*commit)?.unwrap_or_default());
        }
        while let Some(commit) = open.pop() {
            check_commit_count(b, below.len())?;
            if below.insert(commit) {
                open.extend(self.parents(commit)?.unwrap_or_default());
            }
        }
        Ok(HistoryLookup::Found(meets.into_iter().find(|commit| !below.contains(commit))))
    }

    /// All ancestors that are here, the commit included, and whether any are not. A commit that is not here is an
    /// ancestor as well, by its name.
    fn ancestors(&self, commit: Oid) -> Result<(HashSet<Oid>, bool), MirrorError> {
        let (mut seen, mut open, mut cut) = (HashSet::from([commit]), VecDeque::from([commit]), false);
        while let Some(next) = open.pop_front() {
            check_commit_count(commit, seen.len())?;
            match self.parents(next)? {
                Some(parents) => open.extend(parents.into_iter().filter(|parent| seen.insert(*parent))),
                None => cut = true,
            }
        }
        Ok((seen, cut))
    }

    /// The parents of a commit, or `None` when it is not here.
    pub(super) fn parents(&self, commit: Oid) -> Result<Option<Vec<Oid>>, MirrorError> {
        let odb = self.odb()?;
        if !odb.exists(commit) {
            return Ok(None);
        }
        Ok(Some(parents_of(&self.read_object(&commit.to_string(), ObjectType::Commit)?)))
    }
}

/// No ref has a space in its name.
fn applied_tip_name(name: &str) -> String {
    format!("applied {name}")
}

fn check_commit_count(commit: Oid, count: usize) -> Result<(), MirrorError> {
    if count > MAX_COMMITS {
        return Err(MirrorError::TooMany {
            commit: commit.to_string(),
            limit: MAX_COMMITS,
            what: "commits of history",
        });
    }
    Ok(())
}

/// The header lines of a commit or tag that begin with a word, in order.
fn header_values<'a>(object: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    object
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty())
        .filter_map(move |line| line.strip_prefix(word)?.strip_prefix(b" "))
}

fn parse_oid(text: &[u8]) -> Option<Oid> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 40)?;
    Oid::from_str(text).ok()
}

fn parents_of(commit: &[u8]) -> Vec<Oid> {
    header_values(commit, b"parent").filter_map(parse_oid).collect()
}

/// The tree that a commit names.
pub(super) fn tree_of(commit: &[u8]) -> Option<Oid> {
    header_values(commit, b"tree").next().and_then(parse_oid)
}

/// When a commit was committed: `committer NAME <MAIL> SECONDS ZONE`, where anything may be in the name.
fn parse_commit_time(commit: &[u8]) -> Option<i64> {
    let committer = header_values(commit, b"committer").next()?;
    let seconds = committer.rsplit(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(seconds).ok()?.parse().ok()
}

/// What a tag object leads to: its kind and its name.
pub(super) fn target_of(tag: &[u8]) -> Option<(String, Oid)> {
    let target = header_values(tag, b"object").next().and_then(parse_oid)?;
    let kind = header_values(tag, b"type").next()?;
    Some((crate::source::transport::http::sanitize_text(kind, 20), target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_end_at_the_first_empty_line() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let commit = format!("tree {a}\nparent {b}\nparent x\nparents {a}\nencoding x\n\nparent {a}\n");
        assert_eq!(tree_of(commit.as_bytes()).unwrap().to_string(), a);
        assert_eq!(parents_of(commit.as_bytes()).iter().map(Oid::to_string).collect::<Vec<_>>(), [b]);
    }

    #[test]
    fn when_a_commit_was_made_is_read_behind_any_name() {
        let at = |line: &str| {
            parse_commit_time(format!("author A <a@b> 1 +0000\n{line}\n\ncommitter x 5 +0000\n").as_bytes())
        };
        assert_eq!(at("committer A > 7 <a@b> 1700000000 +0100"), Some(1_700_000_000));
        assert_eq!([at("committer"), at("committer A <a@b> soon +0000"), at("")], [None; 3]);
    }

    proptest! {
        #[test]
        fn any_object_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "(tree |parent |object |type |[0-9a-f]{40}|\n){0,12}") {
            for object in [bytes.as_slice(), text.as_bytes()] {
                tree_of(object);
                parents_of(object);
                target_of(object);
                parse_commit_time(object);
            }
        }
    }
}
