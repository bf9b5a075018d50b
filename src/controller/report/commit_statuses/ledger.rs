//! The deciding half of commit statuses: which commits were seen, and what is to be reported of each.
//!
//! Nothing is sent from here. [`CommitLedger::desired_statuses`] is the whole of what the git host should show, to be compared with
//! what it shows; so a post that was lost, or a restart, is repaired by asking again. The rules:
//!
//! - A commit is `pending` until it ends, and ends once: `success`, `failure`, `error`, or `success` as superseded.
//! - `success` is final. `failure` and `error` may still become `success` while the commit is the newest, by a sync
//!   that goes well.
//! - The newest commit is the one that was seen last. All before it that have not ended are superseded by it, and what
//!   is reported of a commit that was overtaken never changes again.

use crate::controller::status_wording::{CommitStage, CommitVerdict, ModelVerdict, OUTSIDE_WINDOWS};
use stator_git::forge::{CommitStatus, StatusState};
use std::collections::{BTreeMap, BTreeSet};

/// Commits that are remembered. Older ones have long ended; what the host shows of them stays.
const MAX_COMMITS: usize = 1_000;

/// Models of one commit that have a status of their own, unless configured otherwise.
pub const MAX_MODEL_STATUSES: usize = 100;

/// How long a description is good for on every host; GitHub refuses longer ones.
const MAX_DESCRIPTION_CHARS: usize = 140;

/// What statuses are called, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusContexts {
    /// What contexts begin with: `stator`.
    pub prefix: String,
    /// The environment's name.
    pub environment: String,
    /// Whether models have statuses of their own.
    pub per_model: bool,
    /// For how many models of a commit at most.
    pub most_models: usize,
    /// Where there is more: absolute, `http` or `https`.
    pub target_url: Option<String>,
}

impl StatusContexts {
    /// `stator/prod`. In small letters: GitHub does not distinguish contexts by case, and Gitea does.
    pub fn environment(&self) -> String {
        format!("{}/{}", self.prefix, self.environment).to_lowercase()
    }

    /// `stator/prod/llama-3-70b`.
    pub fn model(&self, model: &str) -> String {
        format!("{}/{model}", self.environment()).to_lowercase()
    }

    /// `stator/preview/prod`.
    pub fn preview(&self) -> String {
        format!("{}/preview/{}", self.prefix, self.environment).to_lowercase()
    }
}

/// What is known of one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CommitEntry {
    commit: String,
    stage: CommitStage,
    verdict: Option<CommitVerdict>,
    /// A verdict that the host holds from before a restart, as it was worded then.
    recalled: Option<CommitStatus>,
    models: BTreeMap<String, Option<ModelVerdict>>,
    /// Statuses of models from before a restart, by context.
    recalled_models: BTreeMap<String, CommitStatus>,
    /// The models beyond those that have statuses.
    beyond: BTreeSet<String>,
    /// Whether it is synced outside the sync windows, as requested.
    is_outside_windows: bool,
    /// Whether the host did not answer yet what it shows: it may be the end that an earlier process posted.
    is_unread: bool,
}

impl CommitEntry {
    fn new(commit: &str) -> Self {
        Self { commit: commit.to_owned(), ..Self::default() }
    }

    /// The same commit from its beginning. The models that have a status keep one, or it would stay at the host as it
    /// was.
    fn restarted(mut self) -> Self {
        self.models.values_mut().for_each(|verdict| *verdict = None);
        for status in self.recalled_models.values_mut() {
            (status.state, status.description) = (StatusState::Pending, CommitStage::Queued.sentence());
        }
        Self { stage: CommitStage::Queued, verdict: None, recalled: None, ..self }
    }

    fn has_ended(&self) -> bool {
        self.verdict.is_some() || self.recalled.is_some()
    }

    fn has_succeeded(&self) -> bool {
        match (&self.verdict, &self.recalled) {
            (Some(verdict), _) => verdict.is_success(),
            (None, Some(status)) => status.state == StatusState::Success,
            (None, None) => false,
        }
    }
}

/// The commits of one source that were seen, and what is to be reported of them.
#[derive(Clone, Debug)]
pub struct CommitLedger {
    contexts: StatusContexts,
    /// In the order in which they were seen; the newest is the last.
    entries: Vec<CommitEntry>,
}

impl CommitLedger {
    /// Nothing seen yet.
    pub fn new(contexts: StatusContexts) -> Self {
        Self { contexts, entries: Vec::new() }
    }

    /// The names of statuses.
    pub fn contexts(&self) -> &StatusContexts {
        &self.contexts
    }

    /// The newest commit.
    pub fn newest(&self) -> Option<&str> {
        self.entries.last().map(|entry| entry.commit.as_str())
    }

    /// A commit is what the source follows now. It becomes the newest; those before it that have not ended never will,
    /// and are superseded. A commit that is seen again after another one (a branch that was set back) begins anew.
    pub fn record_commit(&mut self, commit: &str) {
        if self.newest() == Some(commit) {
            return;
        }
        let again = self.entries.iter().position(|entry| entry.commit == commit).map(|at| self.entries.remove(at));
        for entry in self.entries.iter_mut().filter(|entry| !entry.has_ended()) {
            entry.verdict = Some(CommitVerdict::Superseded { by: commit.to_owned() });
        }
        self.entries.push(again.map_or_else(|| CommitEntry::new(commit), CommitEntry::restarted));
        let surplus = self.entries.len().saturating_sub(MAX_COMMITS);
        self.entries.drain(..surplus);
    }

    /// The newest commit has come this far. What is reported of a commit that was overtaken, or that has ended, stays.
    pub fn record_progress(&mut self, commit: &str, stage: CommitStage) {
        if let Some(entry) = self.newest_mut(commit) {
            entry.stage = stage;
        }
    }

    /// The newest commit has ended. A success is final; anything else may be replaced by a later result. The end of a
    /// commit
    /// that was overtaken comes too late.
    pub fn record_verdict(&mut self, commit: &str, verdict: CommitVerdict) {
        if let Some(entry) = self.newest_mut(commit).filter(|entry| !entry.has_succeeded()) {
            entry.recalled = None;
            entry.verdict = Some(verdict);
        }
    }

    /// The newest commit is taken up again, since somebody changed something for it: a release, a key, a window. It is
    /// pending once more. A success stays.
    pub fn reopen_commit(&mut self, commit: &str) {
        if let Some(entry) = self.newest_mut(commit).filter(|entry| !entry.has_succeeded()) {
            *entry = std::mem::replace(entry, CommitEntry::new(commit)).restarted();
        }
    }

    /// The newest commit is synced outside the sync windows, as requested. Its statuses say so from here
    /// on; a verdict that it has already stays as it is.
    pub fn mark_outside_windows(&mut self, commit: &str) {
        if let Some(entry) = self.newest_mut(commit).filter(|entry| !entry.has_succeeded()) {
            entry.is_outside_windows = true;
        }
    }

    /// What is wanted of a commit as a whole.
    pub fn desired_status(&self, commit: &str) -> Option<CommitStatus> {
        let entry = self.entries.iter().rev().find(|entry| entry.commit == commit && !entry.is_unread)?;
        self.statuses_of(entry).into_iter().next().map(|(_, status)| status)
    }

    /// How one model of the newest commit stands: `None` while it is under way. Report those that the commit changes,
    /// and of those that are not well; each has a status of its own then, where the source asks for that.
    pub fn record_model(&mut self, commit: &str, model: &str, verdict: Option<ModelVerdict>) {
        let (per_model, most) = (self.contexts.per_model, self.contexts.most_models);
        let Some(entry) = self.newest_mut(commit).filter(|_| per_model) else { return };
        let known = entry.models.len();
        match entry.models.get_mut(model) {
            Some(Some(known)) if known.state() == StatusState::Success => {}
            Some(slot) => *slot = verdict.or(slot.take()),
            None if known < most => {
                entry.models.insert(model.to_owned(), verdict);
            }
            None => {
                entry.beyond.insert(model.to_owned());
            }
        }
    }

    /// Nothing is reported of a commit before [`CommitLedger::restore_statuses`] has what the host shows of it.
    pub fn await_statuses(&mut self, commit: &str) {
        if let Some(entry) = self.newest_mut(commit) {
            entry.is_unread = true;
        }
    }

    /// What the host shows of a commit, read after a restart. Call it after [`CommitLedger::record_commit`] for the newest commit and
    /// for older ones alike: an older one that is still pending there is superseded, one that has ended stays as it is.
    /// What was decided since the restart stays, except of a commit that waited for this and that the host shows as a success:
    /// a success is final, however late it is read.
    pub fn restore_statuses(&mut self, commit: &str, statuses: &[CommitStatus]) {
        let entry = self.entries.iter_mut().find(|entry| entry.commit == commit);
        let was_unread = entry.is_some_and(|entry| std::mem::take(&mut entry.is_unread));
        let own = self.contexts.environment();
        let below = format!("{own}/");
        let ours: Vec<&CommitStatus> =
            statuses.iter().filter(|one| one.context == own || one.context.starts_with(&below)).collect();
        if ours.is_empty() {
            return;
        }
        let newest = self.newest().map(str::to_owned);
        let position = match self.entries.iter().position(|entry| entry.commit == commit) {
            Some(position) => position,
            None => {
                // Older than all that were seen since the restart.
                let mut entry = CommitEntry::new(commit);
                entry.verdict = newest.map(|by| CommitVerdict::Superseded { by });
                self.entries.insert(0, entry);
                0
            }
        };
        let is_newest = position + 1 == self.entries.len();
        let Some(entry) = self.entries.get_mut(position) else { return };
        for status in ours {
            let ended = status.state != StatusState::Pending;
            let is_final = was_unread && status.state == StatusState::Success;
            if status.context != own {
                entry.recalled_models.insert(status.context.clone(), status.clone());
            } else if ended && (!is_newest || entry.verdict.is_none() || is_final) {
                entry.verdict = None;
                entry.recalled = Some(status.clone());
            }
        }
    }

    /// All that the host should show, oldest commit first, the environment before its models. What is here and shown
    /// already needs no post.
    pub fn desired_statuses(&self) -> Vec<(String, CommitStatus)> {
        self.entries.iter().filter(|entry| !entry.is_unread).flat_map(|entry| self.statuses_of(entry)).collect()
    }

    fn newest_mut(&mut self, commit: &str) -> Option<&mut CommitEntry> {
        self.entries.last_mut().filter(|entry| entry.commit == commit)
    }

    fn statuses_of(&self, entry: &CommitEntry) -> Vec<(String, CommitStatus)> {
        let status = |context: String, state: StatusState, description: String| {
            (
                entry.commit.clone(),
                CommitStatus { context, state, description, target_url: self.contexts.target_url.clone() },
            )
        };
        let whole = match (&entry.verdict, &entry.recalled) {
            (Some(verdict), _) => (verdict.state(), verdict.sentence()),
            (None, Some(recalled)) => (recalled.state, recalled.description.clone()),
            (None, None) => (StatusState::Pending, entry.stage.sentence()),
        };
        let is_overtaken = matches!(entry.verdict, Some(CommitVerdict::Superseded { .. }));
        let is_outside_windows = entry.is_outside_windows && !is_overtaken;
        let description = if is_outside_windows { format!("{OUTSIDE_WINDOWS}: {}", whole.1) } else { whole.1.clone() };
        let mut statuses = vec![match &entry.recalled {
            Some(recalled) if entry.verdict.is_none() => (entry.commit.clone(), recalled.clone()),
            Some(_) | None => {
                status(self.contexts.environment(), whole.0, describe_omitted_models(&description, entry))
            }
        }];
        let mut models: BTreeMap<String, CommitStatus> = BTreeMap::new();
        for (context, recalled) in &entry.recalled_models {
            let stays = recalled.state != StatusState::Pending || !entry.has_ended();
            let recalled = if stays { recalled.clone() } else { status(context.clone(), whole.0, whole.1.clone()).1 };
            models.insert(context.clone(), recalled);
        }
        for (model, verdict) in &entry.models {
            let context = self.contexts.model(model);
            let (state, sentence) = match verdict {
                Some(verdict) => (verdict.state(), verdict.sentence()),
                // A model that was still under way when its commit ended shares the commit's end.
                None => whole.clone(),
            };
            models.insert(context.clone(), status(context, state, sentence).1);
        }
        statuses.extend(models.into_values().map(|status| (entry.commit.clone(), status)));
        statuses
    }
}

/// A description that says how many models have no status of their own, when that is so.
fn describe_omitted_models(sentence: &str, entry: &CommitEntry) -> String {
    if entry.beyond.is_empty() {
        return sentence.to_owned();
    }
    let shown = entry.models.len();
    let note = format!("; only {shown} models have their own status");
    let remaining = MAX_DESCRIPTION_CHARS.saturating_sub(note.chars().count());
    match sentence.char_indices().nth(remaining) {
        Some(_) => {
            let kept: String = sentence.chars().take(remaining.saturating_sub(1)).collect();
            format!("{kept}…{note}")
        }
        None => format!("{sentence}{note}"),
    }
}

#[cfg(test)]
mod tests;
