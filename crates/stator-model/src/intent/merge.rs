//! Merging: maps by key, everything else replaced; each value keeps the place where it was written.
//! `spec.unset` takes away what a weaker layer set.

use super::schema_tree::{SchemaPlace, SchemaShape};
use super::yaml::{YamlEntry, YamlNode, YamlSpan, YamlValue};
use super::{list_edit, shape};
use std::collections::HashMap;

/// From this many keys on, keys are looked up by hash.
const HASHED_MAP_MIN_KEYS: usize = 24;

/// Merges `over` over `base`, which are both at a place of a model, or at one where no lists are known. Gives the items that
/// `remove` of a list names and the list has not.
///
/// Two exceptions to "maps merge by key, all else is replaced". The value of an environment variable is one value: were
/// `{secret, key}` and `{configMap, key}` merged, a default could never be replaced by the other form. And a map in place of a
/// list is an edit of it ([`list_edit`]).
pub fn merge(
    base: &mut YamlNode,
    over: &YamlNode,
    maps: MergedSpan,
    place: Option<SchemaPlace<'static>>,
) -> Vec<YamlSpan> {
    let mut merging = Merging { maps, unmatched: Vec::new() };
    merging.merge_values(base, over, ReplaceValues::No, place);
    merging.unmatched
}

/// Which place a map keeps that both sides give.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MergedSpan {
    /// The base's: an overlay changes an intent, which stays the place to point at for what is missing.
    Base,
    /// The other's: an intent stands over its defaults.
    Over,
}

/// Whether the values of a map are replaced whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplaceValues {
    Yes,
    No,
}

/// A merge on its way.
struct Merging {
    maps: MergedSpan,
    unmatched: Vec<YamlSpan>,
}

impl Merging {
    fn merge_values(
        &mut self,
        base: &mut YamlNode,
        over: &YamlNode,
        whole: ReplaceValues,
        place: Option<SchemaPlace<'static>>,
    ) {
        let (YamlValue::Map(entries), YamlValue::Map(changes)) = (&mut base.value, &over.value) else {
            *base = self.resolve(Some(base), over, place);
            return;
        };
        if self.maps == MergedSpan::Over {
            base.span = over.span;
        }
        let index: Option<HashMap<Box<str>, usize>> = (entries.len() > HASHED_MAP_MIN_KEYS)
            .then(|| entries.iter().enumerate().map(|(position, entry)| (entry.key.clone(), position)).collect());
        for change in changes {
            let position = match &index {
                Some(index) => index.get(&change.key).copied(),
                None => entries.iter().position(|entry| entry.key == change.key),
            };
            match position.and_then(|position| entries.get_mut(position)) {
                Some(entry) => self.merge_entry(entry, change, whole, place),
                None => {
                    let value = self.resolve(None, &change.value, field_below(place, &change.key));
                    entries.push(YamlEntry { key: change.key.clone(), key_span: change.key_span, value });
                }
            }
        }
    }

    fn merge_entry(
        &mut self,
        entry: &mut YamlEntry,
        change: &YamlEntry,
        whole: ReplaceValues,
        place: Option<SchemaPlace<'static>>,
    ) {
        let both_maps = matches!((&entry.value.value, &change.value.value), (YamlValue::Map(_), YamlValue::Map(_)));
        if !both_maps || self.maps == MergedSpan::Over {
            entry.key_span = change.key_span;
        }
        if whole == ReplaceValues::Yes {
            entry.value = change.value.clone();
        } else {
            let whole = if &*change.key == "env" { ReplaceValues::Yes } else { ReplaceValues::No };
            self.merge_values(&mut entry.value, &change.value, whole, field_below(place, &change.key));
        }
    }

    /// What a layer has at a place, its edits carried out.
    fn resolve(&mut self, base: Option<&YamlNode>, over: &YamlNode, place: Option<SchemaPlace<'static>>) -> YamlNode {
        let YamlValue::Map(entries) = &over.value else { return over.clone() };
        match place.map(SchemaPlace::shape) {
            Some(SchemaShape::List(_)) if list_edit::is_edit(entries) => {
                let (list, mut unmatched) = list_edit::apply_edit(base, over);
                self.unmatched.append(&mut unmatched);
                list
            }
            Some(SchemaShape::Map(_)) => {
                let resolved = |entry: &YamlEntry| YamlEntry {
                    key: entry.key.clone(),
                    key_span: entry.key_span,
                    value: self.resolve(None, &entry.value, field_below(place, &entry.key)),
                };
                YamlNode { value: YamlValue::Map(entries.iter().map(resolved).collect()), span: over.span }
            }
            Some(_) | None => over.clone(),
        }
    }
}

/// What may stand in a field. Nothing is known below one of several shapes, and what is unset is a list of the layer's own.
fn field_below(place: Option<SchemaPlace<'static>>, key: &str) -> Option<SchemaPlace<'static>> {
    let below = place.filter(|place| matches!(place.shape(), SchemaShape::Map(_)))?.field(key)?;
    (key != "unset" || !below.is_declared()).then_some(below)
}

/// A path of a layer's `unset` that no weaker layer set, and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct UnusedUnset {
    /// The path below `spec`.
    pub path: String,
    /// Where.
    pub span: YamlSpan,
}

/// Takes away from the merged weaker layers what a layer of `spec` unsets.
pub fn remove_unset(base: &mut YamlNode, over: &YamlNode) -> Vec<UnusedUnset> {
    let mut unused = Vec::new();
    let Some(YamlValue::List(paths)) = over.get("unset").map(|list| &list.value) else { return unused };
    for item in paths {
        if let Some(path) = item.as_str()
            && !(remove(base, path) | remove_of_workers(base, path))
        {
            unused.push(UnusedUnset { path: path.to_owned(), span: item.span });
        }
    }
    unused
}

/// What is unset of `workers` is unset of each worker, as weaker layers set it there.
fn remove_of_workers(base: &mut YamlNode, path: &str) -> bool {
    let Some(rest) = path.strip_prefix("workers.") else { return false };
    let each = shape::WORKERS.map(|field| remove(base, &format!("serving.{field}.{rest}")));
    each.contains(&true)
}

/// Takes `unset` itself out of a merged `spec`: it has had its effect.
pub fn forget_unset(spec: &mut YamlNode) {
    if let YamlValue::Map(entries) = &mut spec.value {
        entries.retain(|entry| &*entry.key != "unset");
    }
}

/// Removes a field by its dotted path, and says whether it was there. Keys may hold dots (`env` and `template` have such
/// keys), so a longer key goes before a shorter one.
fn remove(node: &mut YamlNode, path: &str) -> bool {
    let YamlValue::Map(entries) = &mut node.value else { return false };
    if let Some(at) = entries.iter().position(|entry| &*entry.key == path) {
        entries.remove(at);
        return true;
    }
    let below = |key: &str| path.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned);
    let mut nested: Vec<(usize, usize, String)> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| below(&entry.key).map(|rest| (entry.key.len(), at, rest)))
        .collect();
    nested.sort_by(|one, other| other.cmp(one));
    nested.iter().any(|(_, at, rest)| entries.get_mut(*at).is_some_and(|entry| remove(&mut entry.value, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::yaml::YamlSpan;
    use proptest::prelude::*;

    fn node(value: YamlValue) -> YamlNode {
        YamlNode { value, span: YamlSpan::default() }
    }

    /// Trees of few keys, so that they meet.
    fn trees() -> impl Strategy<Value = YamlNode> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(|flag| node(YamlValue::Bool(flag))),
            "[ab]{1,2}".prop_map(|text| node(YamlValue::Text(text.into()))),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(|items| node(YamlValue::List(items))),
                prop::collection::btree_map(prop_oneof!["[a-c]", Just("env".to_owned())], inner, 0..4).prop_map(map),
            ]
        })
    }

    fn map(fields: std::collections::BTreeMap<String, YamlNode>) -> YamlNode {
        let entry =
            |(key, value): (String, YamlNode)| YamlEntry { key: key.into(), key_span: YamlSpan::default(), value };
        node(YamlValue::Map(fields.into_iter().map(entry).collect()))
    }

    /// Layers are maps of maps all the way down; a leaf in the middle is what breaks associativity for any merge.
    fn layers() -> impl Strategy<Value = YamlNode> {
        prop::collection::btree_map("[a-c]", trees(), 0..4).prop_map(map)
    }

    fn merged(base: &YamlNode, over: &YamlNode) -> YamlNode {
        let mut base = base.clone();
        merge(&mut base, over, MergedSpan::Over, None);
        base
    }

    proptest! {
        #[test]
        fn an_empty_overlay_changes_nothing(base in layers()) {
            prop_assert_eq!(merged(&base, &node(YamlValue::Map(Vec::new()))).to_json(), base.to_json());
        }

        #[test]
        fn a_layer_over_itself_is_itself(base in layers()) {
            prop_assert_eq!(merged(&base, &base).to_json(), base.to_json());
        }

        #[test]
        fn the_stronger_layer_wins_every_leaf(base in layers(), over in layers()) {
            let result = merged(&base, &over);
            prop_assert_eq!(merged(&result, &over).to_json(), result.to_json());
        }

        #[test]
        fn layers_of_one_form_merge_in_any_grouping(a in same_form(), b in same_form(), c in same_form()) {
            prop_assert_eq!(
                merged(&merged(&a, &b), &c).to_json(),
                merged(&a, &merged(&b, &c)).to_json()
            );
        }
    }

    /// Layers that agree on which keys hold maps, as all layers of one schema do.
    fn same_form() -> impl Strategy<Value = YamlNode> {
        let leaf = || "[xyz]".prop_map(|text| node(YamlValue::Text(text.into())));
        let inner = prop::collection::btree_map("[k-n]", leaf(), 0..4).prop_map(map);
        let env = prop::collection::btree_map("[K-N]", prop_oneof![leaf(), inner.clone()], 0..3).prop_map(map);
        (prop::option::of(inner), prop::option::of(env), prop::option::of(leaf())).prop_map(|(inner, env, leaf)| {
            let fields = [("map", inner), ("env", env), ("leaf", leaf)];
            map(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
        })
    }
}
