//! Merging: maps by key, everything else replaced; each value keeps the place where it was written.

use super::yaml::{Content, Entry, Node};
use std::collections::HashMap;

/// From this many keys on, keys are looked up by hash.
const LONG_MAP: usize = 24;

/// Merges `over` over `base`.
///
/// One exception to "maps merge by key": the value of an environment variable is one value. Were `{secret, key}` and
/// `{configMap, key}` merged, a default could never be replaced by the other form.
pub fn merge(base: &mut Node, over: &Node, maps: MapPlace) {
    merge_values(base, over, Whole::No, maps);
}

/// Which place a map keeps that both sides give.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MapPlace {
    /// The base's: an overlay changes an intent, which stays the place to point at for what is missing.
    Base,
    /// The other's: an intent stands over its defaults.
    Over,
}

/// Whether the values of a map are replaced whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Yes,
    No,
}

fn merge_values(base: &mut Node, over: &Node, whole: Whole, maps: MapPlace) {
    let (Content::Map(entries), Content::Map(changes)) = (&mut base.value, &over.value) else {
        *base = over.clone();
        return;
    };
    if maps == MapPlace::Over {
        base.span = over.span;
    }
    let index: Option<HashMap<Box<str>, usize>> = (entries.len() > LONG_MAP)
        .then(|| entries.iter().enumerate().map(|(position, entry)| (entry.key.clone(), position)).collect());
    for change in changes {
        let position = match &index {
            Some(index) => index.get(&change.key).copied(),
            None => entries.iter().position(|entry| entry.key == change.key),
        };
        match position.and_then(|position| entries.get_mut(position)) {
            Some(entry) => merge_entry(entry, change, whole, maps),
            None => entries.push(change.clone()),
        }
    }
}

fn merge_entry(entry: &mut Entry, change: &Entry, whole: Whole, maps: MapPlace) {
    let both_maps = matches!((&entry.value.value, &change.value.value), (Content::Map(_), Content::Map(_)));
    if !both_maps || maps == MapPlace::Over {
        entry.key_span = change.key_span;
    }
    if whole == Whole::Yes {
        entry.value = change.value.clone();
    } else {
        let whole = if &*change.key == "env" { Whole::Yes } else { Whole::No };
        merge_values(&mut entry.value, &change.value, whole, maps);
    }
}
