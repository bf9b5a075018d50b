//! A small schema that has every way of merging once.

use crate::fields::StructuralSchema;
use serde_json::json;
use std::sync::LazyLock;

/// The schema; kind `Thing`, version `v1`.
pub(super) static SMALL: LazyLock<StructuralSchema> = LazyLock::new(|| {
    let number = json!({"type": "number"});
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let pair = json!({"type": "object", "properties": {"a": number, "b": number}});
    let port = json!({
        "type": "object",
        "required": ["port"],
        "properties": {"port": number, "protocol": {"type": "string", "default": "TCP"}, "hint": text},
    });
    let item = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": text,
            "value": number,
            "nested": pair,
            "ports": {
                "type": "array",
                "items": port,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "replicas": number,
            "text": text,
            "list": {"type": "array", "items": text},
            "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "items": {
                "type": "array",
                "items": item,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "labels": texts,
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": number, "y": number}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
        },
    });
    StructuralSchema::new("v1", "Thing", &json!({"type": "object", "properties": {"spec": spec}}), false)
});
