//! A change that was made from a file as it was, carried over to the file as it is now, field by field.

use crate::problem::RequestFault;
use serde_json::Value;
use stator_model::intent::field_at::escape_pointer;
use stator_model::intent::format::{DocumentEdit, edit_document};
use stator_model::intent::yaml::parse_yaml;
use stator_model::present::escape;
use std::collections::BTreeMap;

/// The longest value that a conflict shows.
const MAX_VALUE_COLUMNS: usize = 80;

/// What came of carrying a change over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedText {
    /// The newer text with the change. Of a field that both changed, it has what the person wants.
    pub text: String,
    /// Fields that both changed, and what could not be carried over.
    pub conflicts: Vec<RequestFault>,
}

type Fields = BTreeMap<Vec<String>, Value>;

/// Carries the change from `origin` to `ours` over to `theirs`. `None` where one of them cannot be read.
pub fn merge_fields(origin: &str, ours: &str, theirs: &str) -> Option<MergedText> {
    let [before, wanted, now] = [origin, ours, theirs].map(fields_of);
    let (before, wanted, now) = (before?, wanted?, now?);
    let (own, other) = (changes(&before, &wanted), changes(&before, &now));
    let (mut text, mut conflicts) = (theirs.to_owned(), Vec::new());
    for (path, value) in &own {
        let near = other.iter().find(|(at, _)| at.starts_with(path) || path.starts_with(at));
        if let Some((at, theirs)) = near.filter(|(at, theirs)| *at != path || *theirs != value) {
            let what = |value: Option<&Value>| match value {
                Some(value) => format!("`{}`", escape::truncate(&value.to_string(), MAX_VALUE_COLUMNS)),
                None => "removed".to_owned(),
            };
            conflicts.push(RequestFault {
                pointer: pointer_of(path),
                detail: format!(
                    "{} was changed by both: it is {} in git now, and {} here",
                    at.join("."),
                    what(theirs.as_ref()),
                    what(value.as_ref())
                ),
                help: Some("keep what stands here, or write git's value".to_owned()),
                ..RequestFault::default()
            });
        }
        let edit = match value {
            Some(value) => DocumentEdit::Set { path: path.clone(), value: value.clone() },
            None => DocumentEdit::Remove { path: path.clone() },
        };
        match edit_document(&text, &[edit]) {
            Ok(edited) => text = edited,
            Err(error) => conflicts.push(RequestFault {
                pointer: pointer_of(path),
                detail: format!(
                    "the change of {} to {} was not carried over: {error}",
                    path.join("."),
                    value.as_ref().map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"))
                ),
                ..RequestFault::default()
            }),
        }
    }
    if comments(origin) != comments(ours) {
        conflicts.push(RequestFault {
            pointer: "#".to_owned(),
            detail: "changes of comments were not carried over".to_owned(),
            help: Some("write them again".to_owned()),
            ..RequestFault::default()
        });
    }
    Some(MergedText { text, conflicts })
}

fn pointer_of(path: &[String]) -> String {
    path.iter().fold("#".to_owned(), |pointer, name| format!("{pointer}/{}", escape_pointer(name)))
}

fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.find('#').and_then(|at| line.get(at..))).map(str::trim).collect()
}

/// The lowest fields of a text; a list is one.
fn fields_of(text: &str) -> Option<Fields> {
    let root = parse_yaml(text.as_bytes(), 0, "").root.filter(|root| !root.entries().is_empty())?;
    let mut fields = Fields::new();
    collect(&root.to_json(), &mut Vec::new(), &mut fields);
    Some(fields)
}

fn collect(value: &Value, path: &mut Vec<String>, fields: &mut Fields) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            for (name, value) in map {
                path.push(name.clone());
                collect(value, path, fields);
                path.pop();
            }
        }
        None => drop(fields.insert(path.clone(), value.clone())),
    }
}

/// What is other or new, and what is gone.
fn changes(before: &Fields, after: &Fields) -> BTreeMap<Vec<String>, Option<Value>> {
    let set = after.iter().filter(|(path, value)| before.get(*path) != Some(value));
    let set = set.map(|(path, value)| (path.clone(), Some(value.clone())));
    let gone = before.keys().filter(|path| !after.contains_key(*path)).map(|path| (path.clone(), None));
    // What is gone first: a map may stand where a value stood.
    gone.chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORIGIN: &str = "# a model\nspec:\n  engine: vllm   # as tested\n  worker:\n    replicas: 1\n    gpus: 2\n";

    #[test]
    fn changes_of_different_fields_go_together() {
        let ours = ORIGIN.replace("replicas: 1", "replicas: 3");
        let theirs = ORIGIN.replace("gpus: 2", "gpus: 4").replace("# a model", "# the model");
        let merged = merge_fields(ORIGIN, &ours, &theirs).unwrap();
        assert_eq!(merged, MergedText { text: theirs.replace("replicas: 1", "replicas: 3"), conflicts: Vec::new() });
        let same = merge_fields(ORIGIN, &ours, &ours).unwrap();
        assert_eq!(same, MergedText { text: ours.clone(), conflicts: Vec::new() }, "both want the same");
    }

    #[test]
    fn what_both_changed_is_shown() {
        let ours = ORIGIN.replace("replicas: 1", "replicas: 3").replace("# as tested", "# as tried");
        let theirs = ORIGIN.replace("replicas: 1", "replicas: 2");
        let merged = merge_fields(ORIGIN, &ours, &theirs).unwrap();
        let said: Vec<String> = merged.conflicts.iter().map(|one| format!("{} {}", one.pointer, one.detail)).collect();
        insta::assert_snapshot!(said.join("\n"), @"
        #/spec/worker/replicas spec.worker.replicas was changed by both: it is `2` in git now, and `3` here
        # changes of comments were not carried over
        ");
        assert_eq!(merged.text, ORIGIN.replace("replicas: 1", "replicas: 3"));
        let removed = ORIGIN.replace("  worker:\n    replicas: 1\n    gpus: 2\n", "");
        let merged = merge_fields(ORIGIN, &ours, &removed).unwrap();
        assert!(merged.conflicts.iter().any(|one| one.pointer == "#/spec/worker/replicas"), "{merged:?}");
        assert_eq!(merge_fields("[", &ours, ORIGIN), None);
    }

    proptest! {
        #[test]
        fn nothing_of_either_is_lost(ours in prop::collection::btree_map("[a-d]", 0_u8..3, 1..4), theirs in prop::collection::btree_map("[a-d]", 0_u8..3, 1..4)) {
            let text = |map: &BTreeMap<String, u8>| map.iter().map(|(key, value)| format!("{key}: {value}\n")).collect::<String>();
            let origin = "a: 0\nb: 0\n";
            let merged = merge_fields(origin, &text(&ours), &text(&theirs)).unwrap();
            let (before, wanted, now) = (fields_of(origin).unwrap(), fields_of(&text(&ours)).unwrap(), fields_of(&text(&theirs)).unwrap());
            // The last field of a text cannot go, which is said.
            prop_assume!(merged.conflicts.iter().all(|one| !one.detail.contains("not carried over")));
            let found = fields_of(&merged.text).unwrap_or_default();
            let own = changes(&before, &wanted);
            for (path, value) in &own {
                prop_assert_eq!(found.get(path), value.as_ref());
            }
            for (path, value) in changes(&before, &now).iter().filter(|(path, _)| !own.contains_key(*path)) {
                prop_assert_eq!(found.get(path), value.as_ref());
            }
        }
    }
}
