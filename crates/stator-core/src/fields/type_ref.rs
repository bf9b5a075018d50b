//! What server-side apply makes of a schema: for a value, whether it is a leaf, a map or a list, and how the items of
//! the list are distinguished.

use super::field_set::{MAX_DEPTH, key_value};
use super::schema::{JsonType, ListType, SchemaNode};
use crate::object::PathSegment;
use serde_json::Value;
use std::collections::BTreeMap;

/// The type of a value, as far as ownership goes.
#[derive(Clone, Copy)]
pub(super) enum TypeRef<'a> {
    /// The schema says.
    Declared(&'a SchemaNode),
    /// Told from the value: maps field by field, lists as one.
    Deduced,
    /// Told from the value: everything as one.
    Atomic,
}

/// The form that is taken of the forms a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    Map,
    Scalar,
    List,
    /// The type allows all of them, and the value (absent or null) does not say which. Treated as a map.
    Ambiguous,
}

/// A map: is it owned as one?
pub(super) struct MapType {
    pub(super) atomic: bool,
}

impl<'a> TypeRef<'a> {
    /// The form that a value has, among those that the type allows.
    pub(super) fn form(self, value: Option<&Value>) -> ValueForm {
        let declared = match self {
            Self::Declared(node) => node.kind,
            Self::Deduced | Self::Atomic => JsonType::Any,
        };
        match declared {
            JsonType::Object => ValueForm::Map,
            JsonType::Array => ValueForm::List,
            JsonType::String | JsonType::Integer | JsonType::Number | JsonType::Boolean => ValueForm::Scalar,
            JsonType::Any => match value {
                None | Some(Value::Null) => ValueForm::Ambiguous,
                Some(Value::Object(_)) => ValueForm::Map,
                Some(Value::Array(_)) => ValueForm::List,
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => ValueForm::Scalar,
            },
        }
    }

    /// The map form.
    pub(super) fn map_type(self) -> MapType {
        MapType {
            atomic: match self {
                Self::Declared(node) => node.map_atomic,
                Self::Deduced => false,
                Self::Atomic => true,
            },
        }
    }

    /// The list form: how items are distinguished.
    pub(super) fn list_type(self) -> &'a ListType {
        match self {
            Self::Declared(node) => &node.list_type,
            Self::Deduced | Self::Atomic => &ListType::Atomic,
        }
    }

    /// True when the field is declared by name.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::Declared(node) => node.properties.contains_key(name),
            Self::Deduced | Self::Atomic => false,
        }
    }

    /// The type of a field; `None` when the schema has no space for it.
    pub(super) fn declared_field_type(self, name: &str) -> Option<Self> {
        match self {
            Self::Declared(node) => match node.properties.get(name).or(node.additional.as_deref()) {
                Some(field) => Some(Self::Declared(field)),
                None => node.open.then_some(Self::Deduced),
            },
            Self::Deduced => Some(Self::Deduced),
            Self::Atomic => Some(Self::Atomic),
        }
    }

    /// The type of a field. One that the schema does not know (only a damaged object has any) is derived from its
    /// value.
    pub(super) fn field_type(self, name: &str) -> Self {
        self.declared_field_type(name).unwrap_or(Self::Deduced)
    }

    /// The type of the list's items.
    pub(super) fn item_type(self) -> Self {
        match self {
            Self::Declared(node) => node.items.as_deref().map_or(Self::Atomic, Self::Declared),
            Self::Deduced | Self::Atomic => Self::Atomic,
        }
    }

    /// The type of what a step leads to.
    pub(super) fn step_type(self, step: &PathSegment) -> Self {
        match step {
            PathSegment::Field(name) => self.field_type(name),
            PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_) => self.item_type(),
        }
    }

    /// What tells this item of a list from the others, or why nothing does.
    pub(super) fn identify(self, item: &Value) -> Result<PathSegment, String> {
        match self.list_type() {
            ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListType::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(PathSegment::Item(key_value(item))),
            },
            ListType::Map(keys) => {
                let map = match item {
                    Value::Object(map) => map,
                    Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
                    Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                        return Err("associative list with keys may not have non-map elements".to_owned());
                    }
                };
                let default = |key: &str| match self.item_type() {
                    Self::Declared(node) => node.properties.get(key).and_then(|field| field.default.as_ref()),
                    Self::Deduced | Self::Atomic => None,
                };
                let found: BTreeMap<String, _> = keys
                    .iter()
                    .filter_map(|key| Some((key.clone(), key_value(map.get(key).or_else(|| default(key))?))))
                    .collect();
                if found.is_empty() {
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields {keys:?} (and doesn't \
                         have default values for any key fields)"
                    ));
                }
                Ok(PathSegment::Key(found))
            }
        }
    }

    /// What tells this item from the others; its position in a damaged list, which matches nothing that is applied.
    pub(super) fn identify_or_index(self, index: usize, item: &Value) -> PathSegment {
        self.identify(item).unwrap_or(PathSegment::Index(index))
    }
}

/// True when two values are the same, numbers by value and whole numbers exactly.
pub fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            if let (Some(x), Some(y)) = (x.as_i64(), y.as_i64()) {
                x == y
            } else if let (Some(x), Some(y)) = (x.as_u64(), y.as_u64()) {
                x == y
            } else {
                (x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64()
            }
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| values_equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| values_equal(x, y)))
        }
        (
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
            _,
        ) => a == b,
    }
}

/// True when a value nests deeper than this module handles. Ends after that many levels whatever the value.
pub(super) fn too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| deeper(item, left - 1)),
            Value::Object(map) => left == 0 || map.values().any(|item| deeper(item, left - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    deeper(value, MAX_DEPTH)
}
