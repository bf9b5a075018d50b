//! What server-side apply makes of a schema: for a value, whether it is a leaf, a map or a list, and how the items of
//! the list are told apart.

use super::schema::{JsonType, ListType, Node};
use super::set::{MAX_DEPTH, key_value};
use crate::object::Segment;
use serde_json::Value;
use std::collections::BTreeMap;

/// The type of a value, as far as ownership goes.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    /// The schema says.
    Declared(&'a Node),
    /// Told from the value: maps field by field, lists as one.
    Deduced,
    /// Told from the value: everything as one.
    Whole,
}

/// The form that is taken of the forms a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    Scalar,
    List,
    /// The type allows all of them, and the value (absent or null) does not say which. Treated as a map.
    Unsaid,
}

/// A map: is it owned as one?
pub(super) struct MapOf {
    pub(super) atomic: bool,
}

impl<'a> Type<'a> {
    /// The form that a value has, among those that the type allows.
    pub(super) fn form(self, value: Option<&Value>) -> Form {
        let declared = match self {
            Self::Declared(node) => node.kind,
            Self::Deduced | Self::Whole => JsonType::Any,
        };
        match declared {
            JsonType::Object => Form::Map,
            JsonType::Array => Form::List,
            JsonType::String | JsonType::Integer | JsonType::Number | JsonType::Boolean => Form::Scalar,
            JsonType::Any => match value {
                None | Some(Value::Null) => Form::Unsaid,
                Some(Value::Object(_)) => Form::Map,
                Some(Value::Array(_)) => Form::List,
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Form::Scalar,
            },
        }
    }

    /// The map form.
    pub(super) fn map(self) -> MapOf {
        MapOf {
            atomic: match self {
                Self::Declared(node) => node.map_atomic,
                Self::Deduced => false,
                Self::Whole => true,
            },
        }
    }

    /// The list form: how items are told apart.
    pub(super) fn list(self) -> &'a ListType {
        match self {
            Self::Declared(node) => &node.list_type,
            Self::Deduced | Self::Whole => &ListType::Atomic,
        }
    }

    /// True when the field is declared by name.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::Declared(node) => node.properties.contains_key(name),
            Self::Deduced | Self::Whole => false,
        }
    }

    /// The type of a field; `None` when the schema has no room for it.
    pub(super) fn declared_field(self, name: &str) -> Option<Self> {
        match self {
            Self::Declared(node) => match node.properties.get(name).or(node.additional.as_deref()) {
                Some(field) => Some(Self::Declared(field)),
                None => node.open.then_some(Self::Deduced),
            },
            Self::Deduced => Some(Self::Deduced),
            Self::Whole => Some(Self::Whole),
        }
    }

    /// The type of a field. One that the schema does not know (only a damaged object has any) is told from its value.
    pub(super) fn field(self, name: &str) -> Self {
        self.declared_field(name).unwrap_or(Self::Deduced)
    }

    /// The type of the list's items.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Declared(node) => node.items.as_deref().map_or(Self::Whole, Self::Declared),
            Self::Deduced | Self::Whole => Self::Whole,
        }
    }

    /// The type of what a step leads to.
    pub(super) fn step(self, step: &Segment) -> Self {
        match step {
            Segment::Field(name) => self.field(name),
            Segment::Key(_) | Segment::Item(_) | Segment::Index(_) => self.item(),
        }
    }

    /// What tells this item of a list from the others, or why nothing does.
    pub(super) fn identify(self, item: &Value) -> Result<Segment, String> {
        match self.list() {
            ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListType::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Segment::Item(key_value(item))),
            },
            ListType::Map(keys) => {
                let map = match item {
                    Value::Object(map) => map,
                    Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
                    Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                        return Err("associative list with keys may not have non-map elements".to_owned());
                    }
                };
                let default = |key: &str| match self.item() {
                    Self::Declared(node) => node.properties.get(key).and_then(|field| field.default.as_ref()),
                    Self::Deduced | Self::Whole => None,
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
                Ok(Segment::Key(found))
            }
        }
    }

    /// What tells this item from the others; its position in a damaged list, which matches nothing that is applied.
    pub(super) fn identify_or_index(self, index: usize, item: &Value) -> Segment {
        self.identify(item).unwrap_or(Segment::Index(index))
    }
}

/// True when two values are the same, numbers by value and whole numbers exactly.
pub fn same(a: &Value, b: &Value) -> bool {
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
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| same(x, y)))
        }
        (
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
            _,
        ) => a == b,
    }
}

/// True when a value nests deeper than the room handles. Ends after that many levels whatever the value.
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
