//! What several models have in common, as the defaults of the folders that they are in.

use super::common_parts::{shared_part, without};
use super::round_trip::join_path;
use super::variants::ModelVariants;
use super::{ImportedFile, families, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The file of a folder's defaults.
pub const DEFAULTS_FILE: &str = "stator.yaml";
/// Fields of a model that name files of its folder: a reader looks for those beside the model.
const FILE_FIELDS: [&str; 2] = ["files", "manifests"];
/// The fields of `serving` that hold workers.
const WORKERS: [&str; 3] = ["worker", "prefill", "decode"];
/// Fields of a worker that are its role's, even where all have the same.
const ROLE_FIELDS: [&str; 3] = ["name", "type", "replicas"];

/// What tells the deployments of a family apart.
#[derive(Clone, Copy)]
enum FamilySplit {
    /// The model that is served.
    Model,
    /// The engine.
    Engine,
    /// Whether prefill and decode are apart.
    Shape,
}

impl FamilySplit {
    const ALL: [Self; 3] = [Self::Model, Self::Engine, Self::Shape];

    /// Some models by kind, under the name of a folder; none where all are of one kind.
    fn groups(self, members: &[ModelVariants], of: &[usize]) -> BTreeMap<String, Vec<usize>> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in of {
            let mut kinds =
                members.get(*at).into_iter().flat_map(|one| &one.documents).map(|one| self.kind_of(&one["spec"]));
            if let Some(kind) = kinds.next().flatten().filter(|kind| kinds.all(|other| other.as_ref() == Some(kind))) {
                groups.entry(kind).or_default().push(*at);
            }
        }
        groups.retain(|_, own| own.len() > 1 && own.len() < of.len());
        groups
    }

    fn kind_of(self, spec: &Value) -> Option<String> {
        match self {
            Self::Model => spec["model"].as_str().and_then(families::folder_name),
            Self::Engine => spec["engine"].as_str().map(str::to_owned),
            Self::Shape => shape_of(spec).map(|shape| match shape {
                WorkerShape::Together => "agg".to_owned(),
                WorkerShape::Apart => "disagg".to_owned(),
            }),
        }
    }
}

/// The documents of models, variant by variant, by the place of each model.
pub type Documents = BTreeMap<usize, Vec<Value>>;

/// The defaults of a folder, and of folders in it.
pub struct DefaultLayers {
    defaults: Option<Value>,
    members: Vec<usize>,
    below: Vec<(String, Self)>,
}

impl DefaultLayers {
    /// Moves what models share out of their documents, into as many folders as make them short.
    pub fn of(members: &[ModelVariants], documents: &mut Documents, splits: usize) -> Self {
        let of: Vec<usize> = documents.keys().copied().collect();
        let variants = documents.values_mut().flatten();
        let mut specs: Vec<&mut Value> = variants.filter_map(|document| document.get_mut("spec")).collect();
        let defaults = take_defaults(&mut specs);
        let (mut least, mut shortest) = (usize::MAX, (Documents::new(), Vec::new()));
        for split in FamilySplit::ALL.into_iter().filter(|_| splits > 0) {
            let mut total = documents.values().flatten().map(count_nodes).sum::<usize>();
            let mut changed = BTreeMap::new();
            let mut below = Vec::new();
            for (name, group) in split.groups(members, &of) {
                let of_group = |at: usize| Some((at, documents.get(&at)?.clone()));
                let mut own: Documents = group.into_iter().filter_map(of_group).collect();
                let before: usize = own.values().flatten().map(count_nodes).sum();
                let layers = Self::of(members, &mut own, splits.saturating_sub(1));
                let after: usize = own.values().flatten().map(count_nodes).sum::<usize>().saturating_add(layers.cost());
                if after < before {
                    total = total.saturating_sub(before.saturating_sub(after));
                    changed.append(&mut own);
                    below.push((name, layers));
                }
            }
            if !below.is_empty() && total < least {
                (least, shortest) = (total, (changed, below));
            }
        }
        let (mut changed, below) = shortest;
        documents.append(&mut changed);
        Self { defaults, members: of, below }
    }

    /// About how many lines its files have.
    fn cost(&self) -> usize {
        let own = self.defaults.as_ref().map_or(0, |defaults| FILE_COST.saturating_add(count_nodes(defaults)));
        own.saturating_add(self.below.iter().map(|(_, layers)| layers.cost()).sum())
    }

    /// The files of the folders, and of each model its folder.
    pub fn write(
        &self,
        members: &[ModelVariants],
        folder: &str,
        folders: &mut [String],
        files: &mut Vec<ImportedFile>,
    ) {
        for at in &self.members {
            if let (Some(own), Some(one)) = (folders.get_mut(*at), members.get(*at)) {
                *own = join_path(folder, one.name());
            }
        }
        if let Some(defaults) = &self.defaults {
            let document = json!({"apiVersion": "stator.dev/v1alpha1", "kind": "Defaults", "spec": defaults});
            let head = "Imported by stator: what the deployments in this folder have in common.";
            // What cannot be written is missing when the models are read back.
            let text = write::document_yaml(&document, head, &[]).unwrap_or_default();
            files.push(ImportedFile { path: join_path(folder, DEFAULTS_FILE), text });
        }
        for (name, layers) in &self.below {
            layers.write(members, &join_path(folder, name), folders, files);
        }
    }
}

/// About how many lines a file of defaults has for itself, and how much a folder more is worth.
const FILE_COST: usize = 10;

/// How many lines a document has, each scalar and each line of a text on its own.
fn count_nodes(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(count_nodes).sum::<usize>().saturating_add(1),
        Value::Array(items) => items.iter().map(count_nodes).sum::<usize>().saturating_add(1),
        Value::String(text) => text.lines().count().max(1),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// The shape of a model's workers, which defaults adapt to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkerShape {
    /// One kind of workers does all.
    Together,
    /// Prefill and decode are apart.
    Apart,
}

fn shape_of(spec: &Value) -> Option<WorkerShape> {
    let serving = spec.get("serving")?;
    let has = |field: &str| serving.get(field).is_some();
    match (has("worker"), has("prefill") && has("decode")) {
        (true, false) => Some(WorkerShape::Together),
        (false, true) => Some(WorkerShape::Apart),
        (true, true) | (false, false) => None,
    }
}

/// Takes what all specs have in common out of them; what only those of one shape have stands where the others do not read it.
fn take_defaults(specs: &mut [&mut Value]) -> Option<Value> {
    let is_general = |field: &str| !FILE_FIELDS.contains(&field) && field != "workers";
    let mut general: Vec<Value> = specs.iter().map(|spec| (**spec).clone()).collect();
    for spec in general.iter_mut().filter_map(Value::as_object_mut) {
        spec.retain(|field, _| is_general(field));
        if let Some(serving) = spec.get_mut("serving").and_then(Value::as_object_mut) {
            serving.retain(|field, _| !WORKERS.contains(&field.as_str()));
            if serving.is_empty() {
                spec.remove("serving");
            }
        }
    }
    let mut defaults = shared_part(&general.iter().collect::<Vec<_>>()).unwrap_or_else(|| json!({}));
    for spec in specs.iter_mut() {
        without(spec, &defaults);
    }
    let shapes: Vec<Option<WorkerShape>> = specs.iter().map(|spec| shape_of(spec)).collect();
    if shapes.iter().all(Option::is_some) {
        take_worker_defaults(specs, &shapes, &mut defaults);
    }
    defaults.as_object().is_some_and(|map| !map.is_empty()).then_some(defaults)
}

/// Takes what workers have in common out of specs: of every model's whatever their shape, then of those of one shape.
fn take_worker_defaults(specs: &mut [&mut Value], shapes: &[Option<WorkerShape>], defaults: &mut Value) {
    let of = |shape: WorkerShape, pointer: &'static str| -> Vec<(usize, &'static str)> {
        shapes.iter().enumerate().filter(|(_, one)| **one == Some(shape)).map(|(at, _)| (at, pointer)).collect()
    };
    let together = of(WorkerShape::Together, "/serving/worker");
    let apart = of(WorkerShape::Apart, "/workers");
    let is_mixed = !together.is_empty() && !apart.is_empty();
    if is_mixed && let Some(part) = take_shared(specs, &[together.as_slice(), &apart].concat(), &ROLE_FIELDS) {
        add(defaults, &["workers"], part);
    }
    if let Some(part) = take_shared(specs, &together, &[]) {
        add(defaults, &["serving", "worker"], part);
    }
    for (role, pointer) in [("prefill", "/serving/prefill"), ("decode", "/serving/decode")] {
        if let Some(part) = take_shared(specs, &of(WorkerShape::Apart, pointer), &[]) {
            add(defaults, &["serving", role], part);
        }
    }
    match take_shared(specs, &apart, &[]) {
        // In `workers` it would be for those that have one kind of workers, too.
        Some(part) if is_mixed => {
            for role in ["prefill", "decode"] {
                add(defaults, &["serving", role], part.clone());
            }
        }
        Some(part) => add(defaults, &["workers"], part),
        None => {}
    }
}

/// Takes what several places of specs have in common out of each; the place itself stays, as it says how a model is served.
fn take_shared(specs: &mut [&mut Value], places: &[(usize, &str)], left_out: &[&str]) -> Option<Value> {
    if places.len() < 2 {
        return None;
    }
    let at = |(at, pointer): &(usize, &str)| specs.get(*at)?.pointer(pointer);
    let mut values: Vec<Value> = places.iter().map(at).map(|value| value.cloned()).collect::<Option<_>>()?;
    for map in values.iter_mut().filter_map(Value::as_object_mut) {
        map.retain(|field, _| !left_out.contains(&field.as_str()));
    }
    let part = shared_part(&values.iter().collect::<Vec<_>>()).filter(|part| part != &json!({}))?;
    for (at, pointer) in places {
        if let Some(own) = specs.get_mut(*at).and_then(|spec| spec.pointer_mut(pointer)) {
            without(own, &part);
        }
    }
    Some(part)
}

/// Adds a part to a document at a path.
fn add(document: &mut Value, path: &[&str], part: Value) {
    let Some(map) = document.as_object_mut() else { return };
    match (path, part) {
        ([], Value::Object(fields)) => {
            for (field, value) in fields {
                match map.get_mut(&field) {
                    Some(known) => add(known, &[], value),
                    None => {
                        map.insert(field, value);
                    }
                }
            }
        }
        ([], _) => {}
        ([field, rest @ ..], part) => add(map.entry(*field).or_insert_with(|| json!({})), rest, part),
    }
}
