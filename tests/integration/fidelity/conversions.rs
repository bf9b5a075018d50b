//! Conversions: upstream's manifests at v1alpha1 against what the operator made of them.

use super::{JUDGED, source, table, verdicts};
use serde_json::Value;
use stator_core::dynamo::release::Release;
use stator_core::dynamo::{conversion, equivalence};
use std::collections::BTreeMap;

pub fn section() -> String {
    let mut counts: BTreeMap<(Release, String, String), (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut left = 0;
    for (release, row) in
        JUDGED.into_iter().flat_map(|release| verdicts(release, "manifests").into_iter().map(move |row| (release, row)))
    {
        if !row["v1beta1"].is_object() {
            continue;
        }
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let converted = conversion::convert(&source(release, &row), release).unwrap();
        let differences = equivalence::differences(&converted.document, &row["v1beta1"]);
        let count = counts.entry((release, text("kind"), text("version"))).or_default();
        count.0 += 1;
        count.1 += usize::from(differences.is_empty());
        left += usize::from(!converted.unmapped.is_empty());
        let (ours, operators) = (orders(&converted.document["spec"]), orders(&row["v1beta1"]["spec"]));
        let misplaced = ours.iter().filter(|(place, order)| operators.get(*place) != Some(order));
        wrong.extend(misplaced.map(|(place, order)| format!("{}: {place}: {order:?}", row["file"])));
        wrong.extend(differences.iter().map(|difference| format!("{}: {difference:?}", row["file"])));
    }
    assert_eq!(wrong, Vec::<String>::new());
    let rows: Vec<Vec<String>> = counts
        .into_iter()
        .map(|((release, kind, version), (all, equal))| {
            vec![release.to_string(), kind, version, all.to_string(), equal.to_string()]
        })
        .collect();
    format!(
        "## Conversion\n\nUpstream's manifests at v1beta1, as the operator's own conversion gives them, against stator's, \
         lists in the same order. {left} of them hold fields that v1beta1 has no place for: they are named, and kept in the operator's \
         annotation.\n\n{}",
        table(&["Release", "Kind", "Written at", "Manifests", "alike"], &rows)
    )
}

/// The order of every list, by its place: items by what tells them apart. The operator's encoder writes an empty name
/// where an item has none, which tells nothing.
fn orders(value: &Value) -> BTreeMap<String, Vec<String>> {
    fn walk(value: &Value, at: &str, found: &mut BTreeMap<String, Vec<String>>) {
        let key = |item: &Value| {
            let keys = ["name", "mountPath", "containerPort", "type"];
            let named = keys.into_iter().filter_map(|key| item.get(key)).find(|value| *value != "");
            named.map_or_else(|| item.to_string(), ToString::to_string)
        };
        match value {
            Value::Object(map) => map.iter().for_each(|(name, below)| walk(below, &format!("{at}/{name}"), found)),
            Value::Array(items) => {
                found.insert(at.to_owned(), items.iter().map(key).collect());
                items.iter().for_each(|item| walk(item, &format!("{at}/{}", key(item)), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeMap::new();
    walk(value, "", &mut found);
    found
}
