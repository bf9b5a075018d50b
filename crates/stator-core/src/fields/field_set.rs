//! Field sets: which fields of an object somebody owns, and their form in `metadata.managedFields` (`FieldsV1`).

use crate::object::{FieldPath, KeyValue, PathSegment};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A set of fields: members at this level, and sets below it. A container may be a member itself, beside what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldSet {
    pub(super) members: BTreeSet<PathSegment>,
    pub(super) children: BTreeMap<PathSegment, FieldSet>,
}

/// Why a `fieldsV1` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsV1Error {
    /// A key is not one that `FieldsV1` knows (`f:`, `k:`, `v:`, `i:`), or what follows cannot be read.
    #[error("`{0}` is not a field of a `fieldsV1`")]
    Key(String),
    /// Something else than a map.
    #[error("a `fieldsV1` holds nothing but maps")]
    NotAMap,
    /// Deeper than any object may be.
    #[error("a `fieldsV1` is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

/// How deep an object, and so a field set, may be nested.
pub(super) const MAX_DEPTH: usize = 128;

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these paths. The root is never a member.
    pub fn from_paths(paths: impl IntoIterator<Item = FieldPath>) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }

    /// Adds one field.
    pub(super) fn insert(&mut self, path: &[PathSegment]) {
        let Some((last, above)) = path.split_last() else { return };
        let mut set = self;
        for step in above {
            if !set.children.contains_key(step) {
                set.children.insert(step.clone(), Self::new());
            }
            let Some(below) = set.children.get_mut(step) else { return };
            set = below;
        }
        set.members.insert(last.clone());
    }

    /// True when nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// How many fields are in it.
    pub fn len(&self) -> usize {
        self.members.len() + self.children.values().map(Self::len).sum::<usize>()
    }

    /// True when this very field is a member. Owning a container's parts is not owning the container.
    pub fn contains(&self, path: &FieldPath) -> bool {
        let Some((last, above)) = path.0.split_last() else { return false };
        let mut set = self;
        for step in above {
            let Some(below) = set.children.get(step) else { return false };
            set = below;
        }
        set.members.contains(last)
    }

    /// True when the field, a part of it, or a container owned as one around it is in the set.
    pub fn overlaps(&self, path: &FieldPath) -> bool {
        let mut set = self;
        for (position, step) in path.0.iter().enumerate() {
            let below = set.children.get(step);
            let whole = position + 1 == path.0.len();
            if set.members.contains(step) && (whole || below.is_none()) {
                return true;
            }
            match below {
                Some(below) if whole => return !below.is_empty(),
                Some(below) => set = below,
                None => return false,
            }
        }
        !set.is_empty()
    }

    /// Every field in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other);
        all
    }

    fn extend(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (step, below) in &other.children {
            match self.children.get_mut(step) {
                Some(mine) => mine.extend(below),
                None => {
                    self.children.insert(step.clone(), below.clone());
                }
            }
        }
    }

    /// Every field in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: self
                .keep_children(|step, below| other.children.get(step).map(|theirs| below.intersection(theirs))),
        }
    }

    /// Every field in this one that is not in the other. Taking a container away leaves its parts.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.keep_children(|step, below| {
                Some(other.children.get(step).map_or_else(|| below.clone(), |theirs| below.difference(theirs)))
            }),
        }
    }

    /// Like [`FieldSet::difference`], but taking a container away takes its parts as well.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.keep_children(|step, below| {
                if other.members.contains(step) {
                    return None;
                }
                Some(other.children.get(step).map_or_else(|| below.clone(), |theirs| below.without(theirs)))
            }),
        }
    }

    /// The set without the containers that it has as one, with nothing in them (`labels: {}`), and that `other` has fields in.
    #[must_use]
    pub(super) fn without_empty_containers_of(&self, other: &Self) -> Self {
        let children = self.keep_children(|step, below| {
            Some(match other.children.get(step) {
                Some(theirs) => below.without_empty_containers_of(theirs),
                None => below.clone(),
            })
        });
        let is_filled = |step: &PathSegment| other.children.get(step).is_some_and(|below| !below.is_empty());
        let members = self.members.iter().filter(|step| children.contains_key(step) || !is_filled(step));
        Self { members: members.cloned().collect(), children }
    }

    fn keep_children(&self, keep: impl Fn(&PathSegment, &Self) -> Option<Self>) -> BTreeMap<PathSegment, Self> {
        let kept = self.children.iter().filter_map(|(step, below)| Some((step.clone(), keep(step, below)?)));
        kept.filter(|(_, below)| !below.is_empty()).collect()
    }

    /// Every field, a container before its parts.
    pub fn iter(&self) -> impl Iterator<Item = FieldPath> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths, &|_| true);
        paths.into_iter()
    }

    /// Every field that has no other field of the set below it: what a person would call the owned fields.
    pub fn leaves(&self) -> impl Iterator<Item = FieldPath> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths, &|below| below.is_none_or(Self::is_empty));
        paths.into_iter()
    }

    fn collect(
        &self,
        above: &mut Vec<PathSegment>,
        paths: &mut Vec<FieldPath>,
        wanted: &dyn Fn(Option<&Self>) -> bool,
    ) {
        let steps: BTreeSet<&PathSegment> = self.members.iter().chain(self.children.keys()).collect();
        for step in steps {
            let below = self.children.get(step);
            above.push(step.clone());
            if self.members.contains(step) && wanted(below) {
                paths.push(FieldPath(above.clone()));
            }
            if let Some(below) = below {
                below.collect(above, paths, wanted);
            }
            above.pop();
        }
    }

    /// The set as a `fieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, itself: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if itself {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for step in &self.members {
            map.insert(step_to_key(step), Value::Object(Map::new()));
        }
        for (step, below) in self.children.iter().filter(|(_, below)| !below.is_empty()) {
            map.insert(step_to_key(step), Value::Object(below.to_map(self.members.contains(step))));
        }
        map
    }

    /// Reads a `fieldsV1`. Keys of a kind that is not known are ignored, as an API server ignores them.
    pub fn from_fields_v1(value: &Value) -> Result<Self, FieldsV1Error> {
        Ok(Self::read(value, 0)?.0.unwrap_or_default())
    }

    /// The set below, if any, and whether the container itself is a member.
    fn read(value: &Value, depth: usize) -> Result<(Option<Self>, bool), FieldsV1Error> {
        let map = value.as_object().ok_or(FieldsV1Error::NotAMap)?;
        if depth > MAX_DEPTH {
            return Err(FieldsV1Error::TooDeep);
        }
        let mut itself = false;
        let mut set: Option<Self> = None;
        for (key, value) in map {
            if key == "." {
                itself = true;
                continue;
            }
            let Some(step) = key_to_step(key)? else { continue };
            let (below, member) = Self::read(value, depth + 1)?;
            let set = set.get_or_insert_default();
            if member {
                set.members.insert(step.clone());
            }
            if let Some(below) = below {
                set.children.insert(step, below);
            }
        }
        let itself = itself || set.is_none();
        Ok((set, itself))
    }
}

/// A scalar as a key, numbers by value: `1.0` is `1`.
pub(super) fn key_value(value: &Value) -> KeyValue {
    #[expect(clippy::cast_possible_truncation, reason = "guarded: the float is whole and within the range of i64")]
    if let Value::Number(number) = value
        && !number.is_i64()
        && !number.is_u64()
        && let Some(float) = number.as_f64()
        && float.fract() == 0.0
        && float.abs() < 9_007_199_254_740_992.0
    {
        return KeyValue::new(&Value::from(float as i64));
    }
    KeyValue::new(value)
}

/// A step as a key of a `fieldsV1`.
pub(super) fn step_to_key(step: &PathSegment) -> String {
    match step {
        PathSegment::Field(name) => format!("f:{name}"),
        PathSegment::Key(keys) => {
            let map: Map<String, Value> = keys.iter().map(|(name, value)| (name.clone(), value.value())).collect();
            format!("k:{}", Value::Object(map))
        }
        PathSegment::Item(value) => format!("v:{}", value.value()),
        PathSegment::Index(index) => format!("i:{index}"),
    }
}

fn key_to_step(key: &str) -> Result<Option<PathSegment>, FieldsV1Error> {
    let bad = || FieldsV1Error::Key(key.to_owned());
    let (kind, rest) = key.split_once(':').ok_or_else(bad)?;
    Ok(match kind {
        "f" => Some(PathSegment::Field(rest.to_owned())),
        "k" => {
            let map: Map<String, Value> = serde_json::from_str(rest).map_err(|_| bad())?;
            Some(PathSegment::Key(map.iter().map(|(name, value)| (name.clone(), key_value(value))).collect()))
        }
        "v" => Some(PathSegment::Item(key_value(&serde_json::from_str(rest).map_err(|_| bad())?))),
        "i" => Some(PathSegment::Index(rest.parse().map_err(|_| bad())?)),
        _ if kind.len() == 1 => None,
        _ => return Err(bad()),
    })
}
