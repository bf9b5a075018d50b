//! Which objects the pods of a graph, a request or a Job name: volumes, files, and what devices are claimed by.
//!
//! Dynamo and Kubernetes name them in many fields, and the next release will add some. So a name counts by what its field is
//! called, wherever it stands: `claimName`, `pvcName` and `pvcs` name volumes, `configMap`, `configMapRef` and
//! `configMapKeyRef` files, `resourceClaimTemplateName` templates of device claims.

use super::kinds::{CLAIM, COMPUTE_DOMAIN, CONFIG_MAP, ObjectKind, RESOURCE_CLAIM_TEMPLATE};
use crate::object::{Object, ObjectText};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The kinds that pods name, and whose objects they cannot start without.
pub const NAMED_BY_PODS: [ObjectKind; 4] = [CLAIM, CONFIG_MAP, RESOURCE_CLAIM_TEMPLATE, COMPUTE_DOMAIN];

/// The names by which pods reach an object. It is its own but for a ComputeDomain, which pods reach by the templates that it
/// makes.
pub fn names_of(object: &Object) -> BTreeMap<&'static str, BTreeSet<String>> {
    let own = BTreeSet::from([object.name().to_owned()]);
    match NAMED_BY_PODS.into_iter().find(|kind| kind.kind == object.kind()) {
        Some(kind) if kind == COMPUTE_DOMAIN => {
            let made = names_used_by(object).remove(RESOURCE_CLAIM_TEMPLATE.kind).unwrap_or_default();
            BTreeMap::from([(COMPUTE_DOMAIN.kind, own), (RESOURCE_CLAIM_TEMPLATE.kind, made)])
        }
        Some(kind) => BTreeMap::from([(kind.kind, own)]),
        None => BTreeMap::new(),
    }
}

/// The names that an object's `spec` has for objects that pods need, by kind. Those that it is itself called by are no use of
/// it: a ComputeDomain names the templates that it makes.
pub fn names_used_by(object: &Object) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut names = BTreeMap::new();
    collect(object.spec(), &mut names);
    names
}

/// Whether an object names one of these. Most do not have the name in them, and are not parsed.
pub fn is_named_by(names: &BTreeMap<&'static str, BTreeSet<String>>, user: &ObjectText) -> bool {
    let text = user.to_json();
    if !names.values().flatten().any(|name| text.contains(name.as_str())) {
        return false;
    }
    let used = names_used_by(&user.parse());
    names.iter().any(|(kind, names)| used.get(kind).is_some_and(|used| !used.is_disjoint(names)))
}

/// The kind that a field's value names.
fn kind_of_field(field: &str) -> Option<&'static str> {
    let field = field.to_ascii_lowercase();
    if field.starts_with("resourceclaimtemplate") {
        Some(RESOURCE_CLAIM_TEMPLATE.kind)
    } else if field.starts_with("configmap") {
        Some(CONFIG_MAP.kind)
    } else if field.starts_with("computedomain") {
        Some(COMPUTE_DOMAIN.kind)
    } else if field.contains("pvc") || field == "claimname" || field.starts_with("persistentvolumeclaim") {
        Some(CLAIM.kind)
    } else {
        None
    }
}

fn collect(value: &Value, names: &mut BTreeMap<&'static str, BTreeSet<String>>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                if let Some(kind) = kind_of_field(field) {
                    names.entry(kind).or_default().extend(named_values(value).map(str::to_owned));
                }
                collect(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names in the value of such a field: itself, its `name`, or those of its items.
fn named_values(value: &Value) -> impl Iterator<Item = &str> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            std::slice::from_ref(value)
        }
    };
    items.iter().filter_map(|item| item.as_str().or_else(|| item.get("name")?.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, spec: Value) -> Object {
        let value =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "b"}, "spec": spec});
        Object::from_value(value).unwrap()
    }

    #[test]
    fn names_are_found_wherever_they_stand() {
        let graph = object(
            "DynamoGraphDeployment",
            json!({
                "pvcs": [{"name": "declared", "create": false}],
                "modelCache": {"pvcName": "cached", "pvcMountPath": "/models"},
                "components": [{"name": "decode", "podTemplate": {"spec": {
                    "volumes": [
                        {"name": "weights", "persistentVolumeClaim": {"claimName": "mounted"}},
                        {"name": "file", "configMap": {"name": "file"}},
                        {"name": "both", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
                    ],
                    "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "template"}],
                    "containers": [{"name": "main",
                        "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "x"}}}],
                        "envFrom": [{"configMapRef": {"name": "all"}}]}],
                }}}],
            }),
        );
        insta::assert_debug_snapshot!(names_used_by(&graph), @r#"
        {
            "ConfigMap": {
                "all",
                "file",
                "key",
                "projected",
            },
            "PersistentVolumeClaim": {
                "/models",
                "cached",
                "declared",
                "mounted",
            },
            "ResourceClaimTemplate": {
                "template",
            },
        }
        "#);
        let claim = |name: &str| {
            names_of(
                &object("PersistentVolumeClaim", json!({}))
                    .map(|mut value| {
                        value["metadata"]["name"] = json!(name);
                        value
                    })
                    .unwrap(),
            )
        };
        assert!(is_named_by(&claim("mounted"), &ObjectText::from(&graph)));
        assert!(!is_named_by(&claim("weights"), &ObjectText::from(&graph)), "the volume's name in the pod");
    }

    #[test]
    fn a_compute_domain_is_used_by_whoever_claims_by_its_template() {
        let domain = object("ComputeDomain", json!({"channel": {"resourceClaimTemplate": {"name": "channel"}}}));
        let claims = json!({"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "channel"}]});
        assert!(is_named_by(&names_of(&domain), &ObjectText::from(&object("DynamoGraphDeployment", claims))));
        assert!(!is_named_by(&names_of(&domain), &ObjectText::from(&object("DynamoGraphDeployment", json!({})))));
    }
}
