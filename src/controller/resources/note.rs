//! Hints on their way from whoever took a webhook to the controller that has the source: an annotation of the source.
//!
//! It holds what came in the last minute, in batches with names, so that a controller that missed one version of it finds
//! what was in it in the next, and takes nothing twice. It is bounded: more than it keeps apart becomes "look at
//! everything".

use crate::controller::hints::{Hints, Taken};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stator_git::forge::webhook::Hint;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a batch stays in the annotation.
const KEPT: Duration = Duration::from_secs(60);
/// Most batches of one annotation, and most of what one keeps apart.
const BATCHES: usize = 8;
const REFS: usize = 32;
const PULLS: usize = 128;
/// The longest name of a ref.
const NAME: usize = 512;
/// The longest annotation that is written or read.
const BYTES: usize = 32 << 10;

/// What the annotation holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    batches: Vec<Batch>,
}

/// What came in about a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Batch {
    /// Its name.
    pub id: String,
    /// When it was written, by the writer's clock.
    pub at: Timestamp,
    /// Refs that may have moved, by their whole names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refs: BTreeSet<String>,
    /// Pull requests that something happened to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pulls: BTreeSet<u64>,
    /// Any ref may have moved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_refs: bool,
    /// Something may have happened to any pull request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_pulls: bool,
}

impl Batch {
    /// Of what was taken off a source's hints; `None` where that is nothing.
    pub(super) fn new(id: String, at: Timestamp, refs: Taken<String>, pulls: Taken<u64>) -> Option<Self> {
        let all_refs = refs.everything || refs.items.len() > REFS || refs.items.iter().any(|name| name.len() > NAME);
        let all_pulls = pulls.everything || pulls.items.len() > PULLS;
        let batch = Self {
            id,
            at,
            refs: if all_refs { BTreeSet::new() } else { refs.items },
            pulls: if all_pulls { BTreeSet::new() } else { pulls.items },
            all_refs,
            all_pulls,
        };
        (all_refs || all_pulls || !batch.refs.is_empty() || !batch.pulls.is_empty()).then_some(batch)
    }

    fn everything(id: String, at: Timestamp) -> Self {
        Self { id, at, refs: BTreeSet::new(), pulls: BTreeSet::new(), all_refs: true, all_pulls: true }
    }

    /// Hands it to a source's unit.
    pub(super) fn give(&self, hints: &Hints) {
        for name in &self.refs {
            hints.add(Hint::Ref { name: name.clone() });
        }
        for number in &self.pulls {
            hints.add(Hint::PullRequest { number: *number });
        }
        if self.all_refs {
            hints.refs.add_everything();
        }
        if self.all_pulls {
            hints.pulls.add_everything();
        }
    }
}

impl Note {
    /// Reads an annotation. What cannot be read is a reason to look at everything, once.
    pub(super) fn read(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        let note = (text.len() <= BYTES).then(|| serde_json::from_str::<Self>(text).ok()).flatten();
        match note {
            Some(note) if note.batches.len() <= 2 * BATCHES => note,
            Some(_) | None => {
                let id = hex::encode(Sha256::digest(text.as_bytes()));
                Self { batches: vec![Batch::everything(id, Timestamp::UNIX_EPOCH)] }
            }
        }
    }

    /// What is in this and was not in the one before.
    pub(super) fn news<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Batch> {
        self.batches.iter().filter(|batch| !before.batches.iter().any(|known| known.id == batch.id))
    }

    /// The annotation with one more batch, and without those that are old.
    pub(super) fn with(mut self, batch: Batch) -> String {
        let (now, id) = (batch.at, batch.id.clone());
        let fresh = |one: &Batch| {
            let age = Duration::try_from(now.duration_since(one.at).abs()).unwrap_or(Duration::MAX);
            age < KEPT && one.id != id
        };
        self.batches.retain(fresh);
        self.batches.push(batch);
        let text = serde_json::to_string(&self).unwrap_or_default();
        if self.batches.len() <= BATCHES && !text.is_empty() && text.len() <= BYTES {
            return text;
        }
        let all = Self { batches: vec![Batch::everything(id, now)] };
        serde_json::to_string(&all).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch(id: usize, refs: &[&str], pulls: &[u64]) -> Batch {
        let taken = |items| Taken { items, everything: false };
        let refs = refs.iter().map(|name| (*name).to_owned()).collect();
        let at = Timestamp::from_second(1_700_000_000 + i64::try_from(id).unwrap()).unwrap();
        Batch::new(id.to_string(), at, taken(refs), Taken { items: pulls.iter().copied().collect(), everything: false })
            .unwrap()
    }

    #[test]
    fn whoever_missed_a_version_finds_it_in_the_next_and_takes_nothing_twice() {
        let first = Note::default().with(batch(1, &["refs/heads/main"], &[]));
        insta::assert_snapshot!(first, @r#"{"batches":[{"id":"1","at":"2023-11-14T22:13:21Z","refs":["refs/heads/main"]}]}"#);
        let second = Note::read(&first).with(batch(2, &[], &[7]));
        let third = Note::read(&second).with(batch(3, &[], &[9]));
        let news = |text: &str, before: &str| {
            let (note, before) = (Note::read(text), Note::read(before));
            note.news(&before).map(|batch| batch.id.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(news(&third, &first), "2 3");
        assert_eq!(news(&third, &third), "");
        // A minute later they are gone.
        let later = Note::read(&third).with(batch(70, &["refs/heads/x"], &[]));
        assert_eq!(Note::read(&later).batches.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_looked_at_once() {
        for text in ["hostile", "{}", r#"{"batches":[{"id":1}]}"#, &"x".repeat(100_000)] {
            let note = Note::read(text);
            assert!(note.news(&Note::default()).all(|batch| batch.all_refs && batch.all_pulls));
            assert_eq!(note.news(&Note::default()).count(), 1, "{text:.20}");
            assert_eq!(note.news(&Note::read(text)).count(), 0);
        }
    }

    proptest! {
        /// Whatever is hinted at, the annotation stays small and covers it.
        #[test]
        fn the_annotation_is_bounded(batches in proptest::collection::vec((proptest::collection::btree_set("\\PC{1,80}", 0..60), proptest::collection::btree_set(any::<u64>(), 1..200)), 1..20)) {
            let mut text = String::new();
            for (number, (refs, pulls)) in batches.into_iter().enumerate() {
                let (refs, pulls) = (Taken { items: refs, everything: false }, Taken { items: pulls, everything: false });
                let one = Batch::new(number.to_string(), Timestamp::UNIX_EPOCH, refs.clone(), pulls.clone()).unwrap();
                text = Note::read(&text).with(one);
                prop_assert!(text.len() <= BYTES, "{}", text.len());
                let note = Note::read(&text);
                let last = note.batches.iter().find(|batch| batch.id == number.to_string()).unwrap();
                prop_assert!(last.all_refs || last.refs == refs.items);
                prop_assert!(last.all_pulls || last.pulls == pulls.items);
            }
        }
    }
}
