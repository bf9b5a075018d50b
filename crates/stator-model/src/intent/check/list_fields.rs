//! Where a model has lists: the fields that a layer may add to and take from.

use super::compile::{self, ExtraKeys, SchemaShape, ShapeId, ShapeTable};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A place in a model, as merging knows it.
#[derive(Debug)]
pub(in crate::intent) enum MergeShape {
    /// A list, which a layer may edit.
    List,
    /// A map of fields, and of what all other keys hold.
    Map { fields: BTreeMap<String, MergeShape>, others: Option<Box<MergeShape>> },
    /// Anything else. In maps of Kubernetes' own fields, too, nothing is known.
    Leaf,
}

static MODEL: LazyLock<MergeShape> = LazyLock::new(|| {
    let shapes = compile::merged_model_shapes();
    tree_of(shapes, shapes.root)
});

impl MergeShape {
    /// A whole model.
    pub(in crate::intent) fn model() -> &'static Self {
        &MODEL
    }

    /// A field below, or the value of a key.
    pub(in crate::intent) fn below(&self, key: &str) -> &Self {
        match self {
            Self::Map { fields, others } => fields.get(key).or(others.as_deref()).unwrap_or(&Self::Leaf),
            Self::List | Self::Leaf => &Self::Leaf,
        }
    }
}

fn tree_of(shapes: &ShapeTable, id: ShapeId) -> MergeShape {
    match shapes.get(id) {
        SchemaShape::List(_) => MergeShape::List,
        SchemaShape::Map(map) => MergeShape::Map {
            // What is unset is a list of the layer's own.
            fields: map
                .fields
                .iter()
                .filter(|(name, _)| *name != "unset")
                .map(|(name, id)| (name.clone(), tree_of(shapes, *id)))
                .collect(),
            others: match &map.extra_keys {
                ExtraKeys::None => None,
                ExtraKeys::Any(id) | ExtraKeys::Pattern(_, _, id) => Some(Box::new(tree_of(shapes, *id))),
            },
        },
        SchemaShape::Any
        | SchemaShape::Text(_)
        | SchemaShape::Enum(_)
        | SchemaShape::Integer { .. }
        | SchemaShape::Number { .. }
        | SchemaShape::Bool
        | SchemaShape::Choice(..) => MergeShape::Leaf,
    }
}
