//! Lists whose items have keys, and whose order may count all the same.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a list may be applied in the order that it has live, in place of the one in which it is rendered: pods come out
/// the same. Init containers run in their order, and a variable is made of those before it (`$(NAME)`).
pub fn may_take_live_order(field: &str, wanted: &[Value], live_order: &[Value]) -> bool {
    field != "initContainers" && (field != "env" || resolved_references(wanted) == resolved_references(live_order))
}

/// The references between variables that Kubernetes resolves: to variables that stand before the one that refers.
fn resolved_references(items: &[Value]) -> BTreeSet<(&str, &str)> {
    let places: BTreeMap<&str, usize> =
        items.iter().enumerate().filter_map(|(place, item)| Some((name_of(item)?, place))).collect();
    let mut resolved = BTreeSet::new();
    for (place, item) in items.iter().enumerate() {
        let (Some(name), Some(value)) = (name_of(item), item.get("value").and_then(Value::as_str)) else { continue };
        let earlier =
            variable_references(value).into_iter().filter(|one| places.get(one).is_some_and(|at| *at < place));
        resolved.extend(earlier.map(|reference| (name, reference)));
    }
    resolved
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Whether the order of a list counts although its items have keys.
pub fn is_order_significant(field: &str, items: &[Value]) -> bool {
    field == "initContainers" || (field == "env" && is_env_order_significant(items))
}

/// Whether the order of a container's variables counts: one of them is made of another (`$(NAME)`). Kubernetes resolves
/// such a reference from the variables before it in the list, and from no later one.
pub fn is_env_order_significant(items: &[Value]) -> bool {
    let names: BTreeSet<&str> = items.iter().filter_map(name_of).collect();
    let values = items.iter().filter_map(|item| item.get("value")?.as_str());
    values.flat_map(variable_references).any(|reference| names.contains(reference))
}

/// The names that a variable's value refers to as `$(NAME)`, as Kubernetes reads it: `$$` is a dollar sign, so that
/// `$$(NAME)` refers to nothing, and neither does a parenthesis that is never closed.
fn variable_references(value: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('$') {
        if let Some(after) = after.strip_prefix('$') {
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            names.push(name);
            rest = after;
        } else {
            rest = after;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_variables_counts_where_one_is_made_of_another() {
        let is_significant = |value: &str| {
            is_env_order_significant(&[json!({"name": "B", "value": value}), json!({"name": "A", "value": "z"})])
        };
        for value in ["$(A)", "x$(A)y", "$$$(A)", "$(X)$(A)"] {
            assert!(is_significant(value), "{value}");
        }
        for value in ["", "$", "$(", "$(A", "$$(A)", "$A", "$()", "(A)", "$(X)"] {
            assert!(!is_significant(value), "{value}");
        }
        assert!(!is_env_order_significant(&[json!({"value": "$(A)"}), json!(1)]));
    }

    #[test]
    fn a_live_order_is_taken_where_every_variable_resolves_as_before() {
        let list = |names: &[(&str, &str)]| -> Vec<Value> {
            names.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
        };
        let wanted = list(&[("A", "1"), ("B", "$(A)"), ("C", "3")]);
        assert!(may_take_live_order("env", &wanted, &list(&[("C", "3"), ("A", "1"), ("B", "$(A)")])));
        assert!(!may_take_live_order("env", &wanted, &list(&[("B", "$(A)"), ("A", "1"), ("C", "3")])));
        assert!(!may_take_live_order("initContainers", &wanted, &wanted));
        assert!(may_take_live_order("volumes", &wanted, &list(&[("B", "$(A)"), ("A", "1"), ("C", "3")])));
    }
}
