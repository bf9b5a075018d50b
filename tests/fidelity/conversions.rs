//! Conversions: upstream's manifests at v1alpha1 against what the operator made of them.

use super::{source, table, verdicts};
use stator::dynamo::{conversion, equivalence};
use std::collections::BTreeMap;

pub fn section() -> String {
    let mut counts: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut left = 0;
    for row in verdicts("manifests").iter().filter(|row| row["v1beta1"].is_object()) {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let converted = conversion::convert(&source(row)).unwrap();
        let differences = equivalence::differences(&converted.document, &row["v1beta1"]);
        let count = counts.entry((text("kind"), text("version"))).or_default();
        count.0 += 1;
        count.1 += usize::from(differences.is_empty());
        left += usize::from(!converted.left.is_empty());
        wrong.extend(differences.iter().map(|difference| format!("{}: {difference:?}", row["file"])));
    }
    assert_eq!(wrong, Vec::<String>::new());
    let rows: Vec<Vec<String>> = counts
        .into_iter()
        .map(|((kind, version), (all, equal))| vec![kind, version, all.to_string(), equal.to_string()])
        .collect();
    format!(
        "## Conversion\n\nUpstream's manifests at v1beta1, as the operator's own conversion gives them, against stator's. \
         {left} of them hold fields that v1beta1 has no place for: they are named, and kept in the operator's \
         annotation.\n\n{}",
        table(&["Kind", "Written at", "Manifests", "alike"], &rows)
    )
}
