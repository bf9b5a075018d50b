//! The pods of an object: wherever its kind's schema has a pod's spec, and wherever no schema says what there is.

use serde_json::Value;
use stator_core::dynamo::kinds;
use stator_core::dynamo::registry::MAIN_CONTAINER;
use stator_core::fields::{self, DeclaredValue};
use stator_core::object::{FieldPath, KeyValue, Object, PathSegment};
use std::collections::{BTreeMap, BTreeSet};

/// A pod as an object describes it, or what may become part of one.
#[derive(Clone, Debug)]
pub(super) struct Pod<'a> {
    /// Where its spec is.
    pub(super) path: FieldPath,
    /// Its spec; `null` where the object has none and the operator writes it.
    pub(super) spec: &'a Value,
    /// The metadata that its pods get, and where they are: beside the spec, and further up for all pods of an object.
    pub(super) metadata: Vec<(FieldPath, &'a Value)>,
    /// Its containers of all sorts, one that the operator adds included.
    pub(super) containers: Vec<Container<'a>>,
    /// False for a part of what may become a pod: of what it lacks, nothing can be said.
    pub(super) is_whole: bool,
}

/// A container of a pod.
#[derive(Clone, Debug)]
pub(super) struct Container<'a> {
    /// Where it is.
    pub(super) path: FieldPath,
    /// The container; `null` for one that the operator adds.
    pub(super) value: &'a Value,
}

static NULL: Value = Value::Null;

impl<'a> Pod<'a> {
    fn new(path: FieldPath, spec: &'a Value, is_whole: bool, is_of_graph: bool) -> Self {
        if !is_whole {
            // It may as well be a container itself; the maps below it are looked at by themselves.
            return Self {
                containers: vec![Container { path: path.clone(), value: spec }],
                path,
                spec,
                metadata: Vec::new(),
                is_whole,
            };
        }
        let mut containers = Vec::new();
        for (field, value) in spec.as_object().into_iter().flatten() {
            let list = path.field(field);
            if field.ends_with("ontainers") {
                let items = value.as_array().into_iter().flatten().enumerate();
                containers
                    .extend(items.map(|(index, value)| Container { path: list.join(named(value, index)), value }));
            } else if field.ends_with("ontainer") && value.is_object() {
                containers.push(Container { path: list, value });
            }
        }
        // Dynamo's operator adds the container that serves where a component has none.
        let has_main = containers.iter().any(|one| one.value.get("name").is_some_and(|name| name == MAIN_CONTAINER));
        if is_of_graph && !has_main {
            let keys = BTreeMap::from([("name".to_owned(), KeyValue::new(&Value::from(MAIN_CONTAINER)))]);
            containers.push(Container { path: path.field("containers").join(PathSegment::Key(keys)), value: &NULL });
        }
        Self { path, spec, metadata: Vec::new(), containers, is_whole }
    }

    /// The items of its list of volumes, with their places: of a part of a pod as well, where it has such a list.
    pub(super) fn listed_volumes(&self) -> Vec<(FieldPath, &'a Value)> {
        let list = self.path.field("volumes");
        let items = self.spec.get("volumes").and_then(Value::as_array).into_iter().flatten().enumerate();
        items.map(|(index, value)| (list.join(named(value, index)), value)).collect()
    }

    /// Its volumes, with their places. A part of a pod may be one itself.
    pub(super) fn volumes(&self) -> Vec<(FieldPath, &'a Value)> {
        if !self.is_whole {
            return vec![(self.path.clone(), self.spec)];
        }
        self.listed_volumes()
    }
}

/// How an item of a list that is keyed by names is named.
fn named(item: &Value, index: usize) -> PathSegment {
    match item.get("name") {
        Some(name @ Value::String(_)) => PathSegment::Key(BTreeMap::from([("name".to_owned(), KeyValue::new(name))])),
        Some(_) | None => PathSegment::Index(index),
    }
}

/// A pod's place, found while the object is walked.
struct FoundPod {
    path: Vec<PathSegment>,
    metadata: Option<Vec<PathSegment>>,
    is_whole: bool,
    /// Whether a schema says that it is a pod: of a graph, that of a component.
    is_declared: bool,
}

/// Every pod of an object. What no schema declares is taken for whatever it could be.
pub(super) fn find_pods(object: &Object) -> Vec<Pod<'_>> {
    let schema = fields::bundled_schema(object.api_version(), object.kind());
    let mut found: Vec<FoundPod> = Vec::new();
    fields::visit_values(schema, object.value(), &mut |value| note_pods(value, &mut found));
    let is_of_graph = object.kind() == kinds::GRAPH.kind;
    let pod = |place: FoundPod| {
        let spec = resolve(object.value(), &place.path).unwrap_or(&NULL);
        let metadata =
            metadata_places(&place).filter_map(|path| Some((FieldPath(path.clone()), resolve(object.value(), &path)?)));
        let metadata = metadata.filter(|(_, value)| value.is_object()).collect();
        Pod { metadata, ..Pod::new(FieldPath(place.path), spec, place.is_whole, is_of_graph && place.is_declared) }
    };
    found.into_iter().map(pod).collect()
}

/// Where the labels, annotations and the like of a pod are: beside its spec, and further up, where they are of all pods below.
/// What may become a part of a pod may as well be its metadata.
fn metadata_places(pod: &FoundPod) -> impl Iterator<Item = Vec<PathSegment>> {
    let above = (1..pod.path.len()).filter_map(|length| Some(pod.path.get(..length)?.to_vec()));
    let beside = pod.path.split_last().map(|(_, above)| {
        let beside = PathSegment::Field(POD_METADATA.to_owned());
        above.iter().cloned().chain([beside]).collect::<Vec<_>>()
    });
    let own = (!pod.is_whole).then(|| pod.path.clone());
    let places: BTreeSet<Vec<PathSegment>> = above.chain(beside).chain(own).chain(pod.metadata.clone()).collect();
    places.into_iter()
}

/// The metadata of a pod beside its spec, in version v1alpha1 of Dynamo's kinds.
const POD_METADATA: &str = "extraPodMetadata";

fn note_pods(value: &DeclaredValue<'_>, found: &mut Vec<FoundPod>) {
    let at = |names: &[&str]| {
        let names = names.iter().map(|name| PathSegment::Field((*name).to_owned()));
        value.path.iter().cloned().chain(names).collect::<Vec<_>>()
    };
    let declares_pod = |below: &[&str]| value.declares(&[below, &["containers"]].concat());
    if declares_pod(&["spec"]) {
        found.push(FoundPod {
            path: at(&["spec"]),
            metadata: Some(at(&["metadata"])),
            is_whole: true,
            is_declared: true,
        });
    } else if declares_pod(&[]) {
        if !found.iter().any(|pod| pod.path == value.path) {
            found.push(FoundPod { path: at(&[]), metadata: None, is_whole: true, is_declared: true });
        }
    } else if value.is_open() && value.value.is_object() && !is_part_of_pod(value.path, found) {
        let is_whole = value.value.get("containers").is_some_and(Value::is_array);
        found.push(FoundPod { path: at(&[]), metadata: Some(at(&["metadata"])), is_whole, is_declared: false });
    }
    // A template that is left out is the operator's to write.
    for absent in value.absent_fields(&["spec", "containers"]) {
        found.push(FoundPod { path: at(&[absent, "spec"]), metadata: None, is_whole: true, is_declared: true });
    }
}

/// Whether a map is a container or a volume of a pod that was found: it is judged with the pod.
fn is_part_of_pod(path: &[PathSegment], found: &[FoundPod]) -> bool {
    let Some((pod, [PathSegment::Field(list), ..])) =
        path.len().checked_sub(2).and_then(|at| path.split_at_checked(at))
    else {
        return false;
    };
    let is_list = list.ends_with("ontainers") || list == "volumes";
    is_list && found.iter().any(|one| one.is_whole && one.path == pod)
}

/// The value at a place that a walk went by.
fn resolve<'a>(value: &'a Value, path: &[PathSegment]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        PathSegment::Field(name) => value.get(name),
        PathSegment::Index(index) => value.get(index),
        PathSegment::Key(keys) => {
            let fits = |item: &&Value| keys.iter().all(|(key, wanted)| item.get(key) == Some(&wanted.value()));
            value.as_array()?.iter().find(fits)
        }
        PathSegment::Item(_) => None,
    })
}
