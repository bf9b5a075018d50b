//! The schema of a document as a tree, for all that asks what may stand where: the check of files, `explain`, the language
//! server, the formatter and the merging of layers.
//!
//! Made from the types alone: names, rules and words come from the JSON Schema of the types, the order of fields from their
//! declaration.

mod compile;
mod field_index;
mod field_order;

use super::schema::{self, SchemaKind};
pub use field_index::{ANY_ITEM, ANY_KEY, FieldIndex, MeantFields};
use regex::Regex;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, OnceLock};

/// The documents that stator reads. An overlay has the fields of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum DocumentKind {
    /// A `model.yaml` or an overlay.
    Model,
    /// The root `stator.yaml`.
    Repository,
    /// A folder's `stator.yaml`.
    Defaults,
    /// A `model.lock.yaml`.
    #[strum(serialize = "ModelLock")]
    Lock,
}

impl DocumentKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Model, Self::Repository, Self::Defaults, Self::Lock];

    /// Its `kind`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The document of a `kind`.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|document| document.as_str() == kind)
    }

    /// The top of its schema: of a model with everything that it must have after merging.
    pub(super) fn schema(self) -> SchemaPlace<'static> {
        let tree = match self {
            Self::Model => SchemaTree::of_merged_model(),
            Self::Repository => SchemaTree::of_kind(SchemaKind::Repository),
            Self::Defaults => SchemaTree::of_kind(SchemaKind::Defaults),
            Self::Lock => SchemaTree::of_kind(SchemaKind::Lock),
        };
        tree.top()
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct SchemaTree {
    pub(super) root: ShapeId,
    nodes: Vec<SchemaNode>,
    index: OnceLock<FieldIndex>,
}

/// A shape by its number.
pub(super) type ShapeId = usize;

/// What a value may be, and what its type is for.
#[derive(Debug, Default)]
struct SchemaNode {
    shape: SchemaShape,
    description: String,
}

/// What a value may be.
#[derive(Debug, Default)]
pub(super) enum SchemaShape {
    #[default]
    Any,
    Map(MapShape),
    List(ShapeId),
    Text(TextShape),
    /// One of some words, in the order of declaration.
    Enum(Vec<AllowedValue>),
    Integer {
        min: i128,
        max: i128,
    },
    Number {
        min: f64,
        max: f64,
    },
    Bool,
    /// One of several shapes, and all of them in words.
    Choice(Vec<ShapeId>, Option<String>),
}

#[derive(Debug, Default)]
pub(super) struct MapShape {
    pub(super) fields: BTreeMap<String, SchemaField>,
    /// The fields in canonical order.
    order: Vec<String>,
    pub(super) required: Vec<String>,
    /// What a field may be called by mistake, normalized → the field.
    pub(super) synonyms: BTreeMap<String, String>,
    pub(super) extra_keys: ExtraKeys,
}

/// A field of a map.
#[derive(Debug)]
pub(super) struct SchemaField {
    pub(super) shape: ShapeId,
    /// What it is for; empty where only its type says that.
    description: String,
    /// Whether its values are names of other models of the environment.
    refers_to_model: bool,
}

/// What keys a map may have besides its fields.
#[derive(Debug, Default)]
pub(super) enum ExtraKeys {
    #[default]
    None,
    Any(ShapeId),
    /// Keys of a form, and that form in words.
    Pattern(Regex, String, ShapeId),
}

impl ExtraKeys {
    /// What such a key holds.
    pub(super) fn value(&self) -> Option<ShapeId> {
        match self {
            Self::None => None,
            Self::Any(value) | Self::Pattern(_, _, value) => Some(*value),
        }
    }
}

#[derive(Debug)]
pub(super) struct TextShape {
    pub(super) pattern: Option<Regex>,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) expected: Option<String>,
    /// A value that fits.
    pub(super) example: Option<String>,
}

/// One of the values that a field takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllowedValue {
    /// The value.
    pub value: String,
    /// What it means; empty when the name says it.
    pub description: String,
}

impl SchemaTree {
    /// Of a document as it stands in its file, before merging.
    pub(super) fn of_kind(kind: SchemaKind) -> &'static Self {
        const COUNT: usize = SchemaKind::ALL.len();
        static TREES: [OnceLock<SchemaTree>; COUNT] = [const { OnceLock::new() }; COUNT];
        TREES[kind as usize].get_or_init(|| Self::new(&schema::document_schema(kind)))
    }

    /// Of a merged model, where every required field must be there.
    pub(super) fn of_merged_model() -> &'static Self {
        static MERGED: LazyLock<SchemaTree> = LazyLock::new(|| SchemaTree::new(&schema::merged_model_schema()));
        &MERGED
    }

    /// Of a JSON Schema.
    pub fn new(schema: &Value) -> Self {
        compile::compile_schema(schema)
    }

    /// The top of the document.
    pub(super) fn top(&self) -> SchemaPlace<'_> {
        SchemaPlace { tree: self, shape: self.root, field: None }
    }

    /// Where each field of the document may stand. Made when it is first asked for: by a field that is not known.
    pub(super) fn field_index(&self, make: impl FnOnce(&Self) -> FieldIndex) -> &FieldIndex {
        self.index.get_or_init(|| make(self))
    }

    pub(super) fn get(&self, id: ShapeId) -> &SchemaShape {
        self.nodes.get(id).map_or(&SchemaShape::Any, |node| &node.shape)
    }
}

/// A place in a document, and what may stand there.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaPlace<'t> {
    pub(super) tree: &'t SchemaTree,
    shape: ShapeId,
    /// The field of a map that stands here. `None` for the top, for items of lists and for what free keys hold.
    field: Option<&'t SchemaField>,
}

impl<'t> SchemaPlace<'t> {
    fn of_shape(self, shape: ShapeId) -> Self {
        Self { tree: self.tree, shape, field: None }
    }

    /// What may stand here.
    pub(super) fn shape(self) -> &'t SchemaShape {
        self.tree.get(self.shape)
    }

    /// What may stand here, each of several alternatives by itself.
    pub(super) fn alternatives(self) -> Vec<Self> {
        match self.shape() {
            SchemaShape::Choice(options, _) => {
                options.iter().flat_map(|option| self.of_shape(*option).alternatives()).collect()
            }
            SchemaShape::Any
            | SchemaShape::Map(_)
            | SchemaShape::List(_)
            | SchemaShape::Text(_)
            | SchemaShape::Enum(_)
            | SchemaShape::Integer { .. }
            | SchemaShape::Number { .. }
            | SchemaShape::Bool => vec![self],
        }
    }

    /// The maps that may stand here.
    pub(super) fn maps(self) -> Vec<&'t MapShape> {
        let alternatives = self.alternatives().into_iter();
        alternatives.filter_map(|one| if let SchemaShape::Map(map) = one.shape() { Some(map) } else { None }).collect()
    }

    /// The first answer of the maps that may stand here.
    fn find_in_maps<T>(self, find: &impl Fn(&'t MapShape) -> Option<T>) -> Option<T> {
        if let SchemaShape::Map(map) = self.shape() {
            return find(map);
        }
        let SchemaShape::Choice(options, _) = self.shape() else { return None };
        options.iter().find_map(|option| self.of_shape(*option).find_in_maps(find))
    }

    /// The place of a field: a known one, or any key of a map. `None` where nothing is known of what it may be.
    pub(super) fn field(self, key: &str) -> Option<Self> {
        if let Some(field) = self.find_in_maps(&|map| map.fields.get(key)) {
            return Some(Self { tree: self.tree, shape: field.shape, field: Some(field) });
        }
        let value = self.of_shape(self.find_in_maps(&|map| map.extra_keys.value())?);
        (!matches!(value.shape(), SchemaShape::Any)).then_some(value)
    }

    /// The place of a list's items.
    pub(super) fn item(self) -> Option<Self> {
        let item = |one: Self| if let SchemaShape::List(item) = one.shape() { Some(*item) } else { None };
        self.alternatives().into_iter().find_map(item).map(|item| self.of_shape(item))
    }

    /// Names of the known fields in canonical order; none for a free map.
    pub(super) fn field_names(self) -> Vec<&'t str> {
        let mut seen = BTreeSet::new();
        let names = self.maps().into_iter().flat_map(|map| map.order.iter().map(String::as_str));
        // Two shapes may have a field of one name.
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// Whether a map that may stand here has fields of its own.
    pub(super) fn has_any_field(self) -> bool {
        self.maps().into_iter().any(|map| !map.fields.is_empty())
    }

    /// The fields that each of several shapes requires, where a map may have one of several.
    pub(super) fn required_by_shapes(self) -> Vec<&'t [String]> {
        let with_fields = self.maps().into_iter().filter(|map| !map.fields.is_empty());
        with_fields.map(|map| map.required.as_slice()).collect()
    }

    /// Whether a field of this place must be given: where a map may have one of several shapes, by each of them.
    pub(super) fn requires(self, key: &str) -> bool {
        let shapes = self.required_by_shapes();
        !shapes.is_empty() && shapes.iter().all(|required| required.iter().any(|field| field == key))
    }

    /// The field's own words, and its type's when it has none.
    pub(super) fn description(self) -> &'t str {
        let own = self.field.map(|field| field.description.as_str());
        let of_types = [self].into_iter().chain(self.alternatives());
        let of_types = of_types.filter_map(|one| self.tree.nodes.get(one.shape)).map(|node| node.description.as_str());
        own.into_iter().chain(of_types).find(|words| !words.is_empty()).unwrap_or_default()
    }

    /// Whether a declared field stands here, and not the value of a free key or the item of a list.
    pub(super) fn is_declared(self) -> bool {
        self.field.is_some()
    }

    /// Whether values here are names of other models of the environment.
    pub(super) fn refers_to_model(self) -> bool {
        self.field.is_some_and(|field| field.refers_to_model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_declaration() {
        assert_eq!(DocumentKind::Model.schema().field_names(), ["apiVersion", "kind", "metadata", "spec"]);
        let serving = DocumentKind::Model.schema().field("spec").unwrap().field("serving").unwrap();
        assert_eq!(serving.field_names(), ["frontend", "worker", "prefill", "decode", "headless"]);
    }

    #[test]
    fn defaults_have_the_fields_of_a_spec_and_require_none() {
        let defaults = DocumentKind::Repository.schema().field("spec").unwrap().field("defaults").unwrap();
        assert_eq!(defaults.field("engine").unwrap().alternatives().len(), 1);
        assert!(!defaults.requires("engine"));
        let spec = DocumentKind::Model.schema().field("spec").unwrap();
        assert!(spec.requires("engine"));
        assert!(spec.field("cache").unwrap().requires("claim"));
        assert!(!defaults.field("cache").unwrap().requires("claim"));
    }

    #[test]
    fn a_free_map_has_no_order() {
        let spec = DocumentKind::Model.schema().field("spec").unwrap();
        assert!(spec.field("env").unwrap().field_names().is_empty());
        let planner = spec.field("components").unwrap().field("planner").unwrap();
        assert_eq!(planner.field_names().first(), Some(&"type"));
        assert!(planner.field("config").unwrap().field_names().is_empty());
    }
}
