//! Merging partial maps over rendered ones.
//!
//! A list whose items have a key merges by that key, as Kubernetes merges it under server-side apply: `containers`,
//! `volumes` and `env` by `name`, `ports` by `containerPort` and `protocol`, `volumeMounts` by `mountPath`, and so on.
//! Every other list is replaced. An item of `env` or `volumes` is replaced whole, because its fields exclude each
//! other (`value` and `valueFrom`, two kinds of volume).

use serde_json::{Map, Value};

/// How the items of one list are distinguished.
struct ListKeys {
    /// The list's field.
    field: &'static str,
    /// The fields of an item that together are its key, with the value that stands for an absent one.
    keys: &'static [(&'static str, &'static str)],
    /// Whether an item of the same key is replaced rather than merged.
    replace_items: bool,
}

/// Lists with keys in a pod template and in Dynamo's own kinds (`x-kubernetes-list-map-keys` of the bundled CRDs).
const KEYED_LISTS: &[ListKeys] = &[
    ListKeys { field: "components", keys: &[("name", "")], replace_items: false },
    ListKeys { field: "containers", keys: &[("name", "")], replace_items: false },
    ListKeys { field: "initContainers", keys: &[("name", "")], replace_items: false },
    ListKeys { field: "ephemeralContainers", keys: &[("name", "")], replace_items: false },
    ListKeys { field: "env", keys: &[("name", "")], replace_items: true },
    ListKeys { field: "volumes", keys: &[("name", "")], replace_items: true },
    ListKeys { field: "volumeMounts", keys: &[("mountPath", "")], replace_items: false },
    ListKeys { field: "volumeDevices", keys: &[("devicePath", "")], replace_items: false },
    ListKeys { field: "imagePullSecrets", keys: &[("name", "")], replace_items: false },
    ListKeys { field: "ports", keys: &[("containerPort", ""), ("protocol", "TCP")], replace_items: false },
    ListKeys { field: "hostAliases", keys: &[("ip", "")], replace_items: true },
    ListKeys { field: "resourceClaims", keys: &[("name", "")], replace_items: true },
    ListKeys { field: "claims", keys: &[("name", "")], replace_items: false },
    ListKeys { field: "schedulingGates", keys: &[("name", "")], replace_items: false },
    ListKeys {
        field: "topologySpreadConstraints",
        keys: &[("topologyKey", ""), ("whenUnsatisfiable", "")],
        replace_items: false,
    },
];

/// The keys of a field's list items, each with the value that stands for an absent one; none for a list without keys.
pub fn list_keys(field: &str) -> Option<&'static [(&'static str, &'static str)]> {
    KEYED_LISTS.iter().find(|list| list.field == field).map(|list| list.keys)
}

/// Whether an item of a field's list is replaced by one of the same key rather than merged with it.
pub fn replaces_items(field: &str) -> bool {
    KEYED_LISTS.iter().any(|list| list.field == field && list.replace_items)
}

/// Merges `over` over `base`, maps by key and lists as the module says.
pub fn merge_maps(base: &mut Map<String, Value>, over: Option<&Map<String, Value>>) {
    for (field, value) in over.into_iter().flatten() {
        match (base.get_mut(field), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_maps(below, Some(above)),
            (Some(Value::Array(below)), Value::Array(above)) => {
                match KEYED_LISTS.iter().find(|list| list.field == field) {
                    Some(list) => merge_items(below, above, list),
                    None => below.clone_from(above),
                }
            }
            (Some(below), _) => below.clone_from(value),
            (None, _) => {
                base.insert(field.clone(), value.clone());
            }
        }
    }
}

fn merge_items(base: &mut Vec<Value>, over: &[Value], list: &ListKeys) {
    for item in over {
        let key = item_key(item, list);
        let below = base.iter_mut().find(|candidate| key.is_some() && item_key(candidate, list) == key);
        match (below, item) {
            (Some(Value::Object(below)), Value::Object(above)) if !list.replace_items => merge_maps(below, Some(above)),
            (Some(below), _) => below.clone_from(item),
            (None, _) => base.push(item.clone()),
        }
    }
}

/// The key of an item, `None` when it lacks a part that has no default.
fn item_key(item: &Value, list: &ListKeys) -> Option<Vec<String>> {
    list.keys
        .iter()
        .map(|(field, default)| match item.get(field) {
            Some(value) => Some(value.to_string()),
            None if default.is_empty() => None,
            None => Some(Value::from(*default).to_string()),
        })
        .collect()
}
