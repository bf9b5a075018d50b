//! The shards that this replica holds, and which shard a source belongs to.

use crate::controller::sources::resolved_source::SourceKey;
use sha2::{Digest as _, Sha256};
use stator_cluster::cluster::Fence;
use std::collections::BTreeMap;

/// The shards whose sources this replica works on, each with the fence that its writes ask.
#[derive(Clone, Debug)]
pub struct OwnedShards(Option<OwnedShardSet>);

#[derive(Clone, Debug)]
struct OwnedShardSet {
    generation: u64,
    shard_count: u32,
    fences: BTreeMap<u32, Fence>,
}

impl OwnedShards {
    /// Everything, and no lease: this works alone.
    pub fn all() -> Self {
        Self(None)
    }

    /// Some of so many shards, as they are held at a turn: the next change is of the next turn.
    pub fn shards(turn: u64, of: u32, fences: BTreeMap<u32, Fence>) -> Self {
        Self(Some(OwnedShardSet { generation: turn, shard_count: of, fences }))
    }

    pub(in crate::controller) fn generation(&self) -> u64 {
        self.0.as_ref().map_or(0, |shards| shards.generation)
    }

    pub(in crate::controller) fn fences(&self) -> impl Iterator<Item = &Fence> {
        self.0.iter().flat_map(|shards| shards.fences.values())
    }

    /// Whether a source is this replica's to work on.
    pub fn owns(&self, source: &SourceKey) -> bool {
        self.0.is_none() || self.fence(source).is_some()
    }

    /// What the writes of a source ask; nothing where this works alone, or where the source is not this replica's.
    pub fn fence(&self, source: &SourceKey) -> Option<&Fence> {
        let shards = self.0.as_ref()?;
        shards.fences.get(&shard_of(source, shards.shard_count))
    }

    /// Whether a source that began under one of these may go on under the other: it is held by the same tenure.
    pub fn continues_from(&self, before: &Self, source: &SourceKey) -> bool {
        match (before.fence(source), self.fence(source)) {
            (Some(before), Some(now)) => before.is_same_as(now),
            (None, None) => self.owns(source) && before.owns(source),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// The shard that a source belongs to, from 0.
pub fn shard_of(source: &SourceKey, shards: u32) -> u32 {
    let place = stable_hash(&[&source.namespace, &source.name]) % u64::from(shards.max(1));
    u32::try_from(place).unwrap_or_default()
}

/// The first eight bytes of a hash that every version of stator and every machine computes alike.
pub(in crate::controller) fn stable_hash(parts: &[&str]) -> u64 {
    let mut digest = Sha256::new();
    for part in parts {
        // A length before each part, so that no two lists of parts run together.
        digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let bytes = digest.finalize();
    bytes.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_stays_in_its_shard_for_ever() {
        let shards: Vec<u32> =
            ["models", "llama", "mistral", "qwen"].map(|name| shard_of(&SourceKey::new("team-a", name), 8)).to_vec();
        insta::assert_compact_debug_snapshot!(shards, @"[1, 5, 1, 4]");
        assert_ne!(stable_hash(&["ab", "c"]), stable_hash(&["a", "bc"]));
    }
}
