//! `spec.unset`: a layer takes away what the weaker ones set.

use super::shape;
use super::yaml::{YamlNode, YamlSpan, YamlValue};

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
