//! The field that was meant by a name that no field here has: another's word for it, a slip of the pen, or its right name
//! in the wrong place.

use crate::intent::field_words::{normalize, words};
use crate::intent::schema_tree::{
    ANY_ITEM, ANY_KEY, FieldIndex, MapShape, MeantFields, SchemaShape, SchemaTree, ShapeId,
};
use stator_core::finding::closest_match;
use std::collections::BTreeSet;

/// How deep fields are looked for, and how many places are remembered: what a schema may cost.
const MAX_DEPTH: usize = 8;
const MAX_PLACES: usize = 20_000;

/// What may have been meant by a key that a map has not. `from` leads to the map from the document's top: names of fields, and
/// `[3]` for items. `None` where nothing comes near.
pub fn meant_fields(shapes: &SchemaTree, map: &MapShape, key: &str, from: &[String]) -> Option<MeantFields> {
    let here = |field: &str| Some(MeantFields::Here(vec![field.to_owned()]));
    let wanted = normalize(key);
    if let Some(field) = map.synonyms.get(&wanted) {
        return here(field);
    }
    let nearest = shapes.field_index(index_fields).nearest(&wanted, from);
    if let Some(MeantFields::Below(_)) = nearest {
        return nearest;
    }
    if let Some(field) = closest_match(key, map.fields.keys().map(String::as_str)) {
        return here(field);
    }
    if let Some(field) =
        map.fields.keys().find(|field| !bare_words(key).is_empty() && bare_words(key) == bare_words(field))
    {
        return here(field);
    }
    let written = words(key);
    let mut longer = map.fields.keys().filter(|field| !written.is_empty() && written.is_subset(&words(field)));
    if let (Some(field), None) = (longer.next(), longer.next()) {
        return here(field);
    }
    nearest
}

/// Words that say of a number what it is: `gpuCount` and `numGpus` are `gpus`.
const COUNTING_WORDS: [&str; 6] = ["count", "num", "number", "total", "amount", "of"];

/// The words of a name without those of counting, each as of one thing.
fn bare_words(name: &str) -> BTreeSet<String> {
    let kept = words(name).into_iter().filter(|word| !COUNTING_WORDS.contains(&word.as_str()));
    kept.map(|word| word.strip_suffix('s').map_or_else(|| word.clone(), str::to_owned)).collect()
}

/// Where each field of a document may stand.
fn index_fields(shapes: &SchemaTree) -> FieldIndex {
    let mut index = FieldIndex::default();
    let mut level: Vec<(ShapeId, Vec<String>)> = vec![(shapes.root, Vec::new())];
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for (id, path) in level {
            add_fields(&mut index, shapes, id, &path, &mut below);
        }
        level = below;
    }
    index
}

/// Adds what may stand at a place, and what is below it to the next level.
fn add_fields(
    index: &mut FieldIndex,
    shapes: &SchemaTree,
    id: ShapeId,
    path: &[String],
    below: &mut Vec<(ShapeId, Vec<String>)>,
) {
    let with = |name: &str| path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect::<Vec<_>>();
    match shapes.get(id) {
        SchemaShape::Map(map) => {
            for (word, field) in map.synonyms.iter().take(MAX_PLACES.saturating_sub(index.len())) {
                index.add(word, with(field));
            }
            // What all workers share is written for each of them, where it is of one model.
            let leads = map.fields.iter().filter(|(name, _)| *name != "workers");
            below.extend(leads.map(|(name, field)| (field.shape, with(name))));
            below.extend(map.extra_keys.value().map(|value| (value, with(ANY_KEY))));
        }
        SchemaShape::List(item) => below.push((*item, with(ANY_ITEM))),
        SchemaShape::Choice(options, _) => {
            for option in options.iter().filter(|option| !matches!(shapes.get(**option), SchemaShape::Choice(..))) {
                add_fields(index, shapes, *option, path, below);
            }
        }
        SchemaShape::Any
        | SchemaShape::Text(_)
        | SchemaShape::Enum(_)
        | SchemaShape::Integer { .. }
        | SchemaShape::Number { .. }
        | SchemaShape::Bool => {}
    }
}
