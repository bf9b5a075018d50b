//! Hints on their way from whoever took a webhook to the controller that has the source: an annotation of the source.
//!
//! It holds what came in the last minute, in batches with names, so that a controller that missed one version of it finds
//! what was in it in the next, and takes nothing twice. It is bounded: more than it keeps apart becomes "look at
//! everything".

use crate::controller::sources::hints::{DrainedHints, SourceHints};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stator_git::forge::webhook::WebhookHint;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a batch stays in the annotation.
const BATCH_TTL: Duration = Duration::from_secs(60);
/// Most batches of one annotation, and most of what one keeps apart.
const MAX_BATCHES: usize = 8;
const MAX_REFS: usize = 32;
const MAX_PULLS: usize = 128;
/// The longest name of a ref.
const MAX_REF_LENGTH: usize = 512;
/// The longest annotation that is written or read.
const MAX_ANNOTATION_BYTES: usize = 32 << 10;

/// What the annotation holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HintAnnotation {
    batches: Vec<HintBatch>,
}

/// What came in about a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HintBatch {
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

impl HintBatch {
    /// Of what was taken off a source's hints; `None` where that is nothing.
    pub(super) fn new(id: String, at: Timestamp, refs: DrainedHints<String>, pulls: DrainedHints<u64>) -> Option<Self> {
        let all_refs =
            refs.everything || refs.items.len() > MAX_REFS || refs.items.iter().any(|name| name.len() > MAX_REF_LENGTH);
        let all_pulls = pulls.everything || pulls.items.len() > MAX_PULLS;
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

    /// Hands it to a source's reconciler.
    pub(super) fn add_to_hints(&self, hints: &SourceHints) {
        for name in &self.refs {
            hints.add(WebhookHint::Ref { name: name.clone() });
        }
        for number in &self.pulls {
            hints.add(WebhookHint::PullRequest { number: *number });
        }
        if self.all_refs {
            hints.refs.add_everything();
        }
        if self.all_pulls {
            hints.pulls.add_everything();
        }
    }
}

impl HintAnnotation {
    /// Reads an annotation. What cannot be read is a reason to look at everything, once.
    pub(super) fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        let note = (text.len() <= MAX_ANNOTATION_BYTES).then(|| serde_json::from_str::<Self>(text).ok()).flatten();
        match note {
            Some(note) if note.batches.len() <= 2 * MAX_BATCHES => note,
            Some(_) | None => {
                let id = hex::encode(Sha256::digest(text.as_bytes()));
                Self { batches: vec![HintBatch::everything(id, Timestamp::UNIX_EPOCH)] }
            }
        }
    }

    /// What is in this and was not in the one before.
    pub(super) fn batches_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a HintBatch> {
        self.batches.iter().filter(|batch| !before.batches.iter().any(|known| known.id == batch.id))
    }

    /// The annotation with one more batch, and without those that are old.
    pub(super) fn append_batch(mut self, batch: HintBatch) -> String {
        let (now, id) = (batch.at, batch.id.clone());
        let fresh = |one: &HintBatch| {
            let age = Duration::try_from(now.duration_since(one.at).abs()).unwrap_or(Duration::MAX);
            age < BATCH_TTL && one.id != id
        };
        self.batches.retain(fresh);
        self.batches.push(batch);
        let text = serde_json::to_string(&self).unwrap_or_default();
        if self.batches.len() <= MAX_BATCHES && !text.is_empty() && text.len() <= MAX_ANNOTATION_BYTES {
            return text;
        }
        let all = Self { batches: vec![HintBatch::everything(id, now)] };
        serde_json::to_string(&all).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch(id: usize, refs: &[&str], pulls: &[u64]) -> HintBatch {
        let taken = |items| DrainedHints { items, everything: false };
        let refs = refs.iter().map(|name| (*name).to_owned()).collect();
        let at = Timestamp::from_second(1_700_000_000 + i64::try_from(id).unwrap()).unwrap();
        HintBatch::new(
            id.to_string(),
            at,
            taken(refs),
            DrainedHints { items: pulls.iter().copied().collect(), everything: false },
        )
        .unwrap()
    }

    #[test]
    fn whoever_missed_a_version_finds_it_in_the_next_and_takes_nothing_twice() {
        let first = HintAnnotation::default().append_batch(batch(1, &["refs/heads/main"], &[]));
        insta::assert_snapshot!(first, @r#"{"batches":[{"id":"1","at":"2023-11-14T22:13:21Z","refs":["refs/heads/main"]}]}"#);
        let second = HintAnnotation::parse(&first).append_batch(batch(2, &[], &[7]));
        let third = HintAnnotation::parse(&second).append_batch(batch(3, &[], &[9]));
        let news = |text: &str, before: &str| {
            let (note, before) = (HintAnnotation::parse(text), HintAnnotation::parse(before));
            note.batches_since(&before).map(|batch| batch.id.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(news(&third, &first), "2 3");
        assert_eq!(news(&third, &third), "");
        // A minute later they are gone.
        let later = HintAnnotation::parse(&third).append_batch(batch(70, &["refs/heads/x"], &[]));
        assert_eq!(HintAnnotation::parse(&later).batches.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_looked_at_once() {
        for text in ["hostile", "{}", r#"{"batches":[{"id":1}]}"#, &"x".repeat(100_000)] {
            let note = HintAnnotation::parse(text);
            assert!(note.batches_since(&HintAnnotation::default()).all(|batch| batch.all_refs && batch.all_pulls));
            assert_eq!(note.batches_since(&HintAnnotation::default()).count(), 1, "{text:.20}");
            assert_eq!(note.batches_since(&HintAnnotation::parse(text)).count(), 0);
        }
    }

    proptest! {
        /// Whatever is hinted at, the annotation stays small and covers it.
        #[test]
        fn the_annotation_is_bounded(batches in proptest::collection::vec((proptest::collection::btree_set("\\PC{1,80}", 0..60), proptest::collection::btree_set(any::<u64>(), 1..200)), 1..20)) {
            let mut text = String::new();
            for (number, (refs, pulls)) in batches.into_iter().enumerate() {
                let (refs, pulls) = (DrainedHints { items: refs, everything: false }, DrainedHints { items: pulls, everything: false });
                let one = HintBatch::new(number.to_string(), Timestamp::UNIX_EPOCH, refs.clone(), pulls.clone()).unwrap();
                text = HintAnnotation::parse(&text).append_batch(one);
                prop_assert!(text.len() <= MAX_ANNOTATION_BYTES, "{}", text.len());
                let note = HintAnnotation::parse(&text);
                let last = note.batches.iter().find(|batch| batch.id == number.to_string()).unwrap();
                prop_assert!(last.all_refs || last.refs == refs.items);
                prop_assert!(last.all_pulls || last.pulls == pulls.items);
            }
        }
    }
}
