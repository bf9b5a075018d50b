//! A model's objects, and what controllers made of them, as a tree: who owns what, and what of it is not ready.

use super::status::format_age;
use super::table::{TableCell, TextTable};
use super::{TerminalOptions, Tone, escape};
use crate::plan::{ModelStatus, ObjectStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use stator_core::dynamo::health::pods;
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// How deep a tree is shown.
const MAX_DEPTH: usize = 16;

/// An object of a namespace, with whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedObject {
    /// The object.
    pub object: ObjectRef,
    /// Its resource as rights name it: `pods`, `podcliques.grove.io`.
    pub resource: String,
    /// Its uid.
    pub uid: String,
    /// The uids of its owners (`metadata.ownerReferences`).
    pub owners: Vec<String>,
    /// When it was created, RFC 3339; empty where nobody says.
    pub created: String,
    /// Whether it is ready, in a word, as its own status says; empty where that says nothing of the kind.
    pub state: String,
    /// Why not, in a sentence.
    pub message: String,
}

impl OwnedObject {
    /// An object of a resource as a cluster shows it, whole or its metadata alone.
    pub fn of(object: &Object, resource: String) -> Self {
        let owners = object.value().pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owners = owners.into_iter().flatten().filter_map(|owner| owner.get("uid").and_then(Value::as_str));
        let (state, message) = readiness(object);
        Self {
            object: object.reference(),
            resource,
            uid: object.uid().unwrap_or_default().to_owned(),
            owners: owners.map(str::to_owned).collect(),
            created: object.str_at("/metadata/creationTimestamp").unwrap_or_default().to_owned(),
            state,
            message,
        }
    }
}

/// Whether an object is ready, in a word, and why not. Kubernetes' own kinds and those of most controllers say it by a
/// condition of one of these types.
fn readiness(object: &Object) -> (String, String) {
    if object.is_deleting() {
        return ("Terminating".to_owned(), String::new());
    }
    let conditions = object.status().get("conditions").and_then(Value::as_array);
    let text =
        |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let find = |kind: &str| conditions?.iter().find(|condition| text(condition, "type") == kind);
    let state = ["Failed", "Complete", "Ready", "Available"].iter().find_map(|kind| {
        let condition = find(kind)?;
        let holds = text(condition, "status") == "True";
        // That it has not failed, or is not complete, says nothing of how it is.
        let is_end = matches!(*kind, "Failed" | "Complete");
        match (holds, is_end) {
            (true, _) => {
                Some(((*kind).to_owned(), if *kind == "Failed" { text(condition, "message") } else { String::new() }))
            }
            (false, true) => None,
            (false, false) => Some((format!("Not{kind}"), text(condition, "message"))),
        }
    });
    let phase = object
        .str_at("/status/phase")
        .filter(|phase| *phase != "Running")
        .map(|phase| (phase.to_owned(), String::new()));
    let (state, message) =
        state.filter(|_| phase.as_ref().is_none_or(|(phase, _)| phase != "Succeeded")).or(phase).unwrap_or_default();
    (state, pods::describe_pod_problem(object).unwrap_or(message))
}

/// Kinds that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlistedResource {
    /// As RBAC names it: `pods`, `deployments.apps`.
    pub resource: String,
    /// Why not, in the server's words.
    pub message: String,
}

/// Models with everything that is theirs. Serializes to `tree -o json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectForest {
    /// The models, in the order that they were asked for.
    pub models: Vec<ModelTree>,
    /// Kinds that could not be looked at, sorted: objects of them may be missing here.
    pub unlisted: Vec<UnlistedResource>,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelTree {
    /// The model's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether the cluster matches git.
    pub sync: String,
    /// Its health.
    pub health: String,
    /// Details of its state.
    pub message: String,
    /// Its objects, in apply order.
    pub objects: Vec<ObjectNode>,
}

/// One object, and those that it owns.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectNode {
    /// `group/version`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The health of an object of the model; of what controllers made the word of its own status.
    pub state: String,
    /// Why it is not well.
    pub message: String,
    /// When it was created, RFC 3339.
    pub created: Option<String>,
    /// What it owns, sorted by kind and name.
    pub children: Vec<ObjectNode>,
}

/// Puts objects below those that own them. `live` are the models' own objects, `owned` everything else that may be below
/// one. An object with several owners is shown once a model, so that a tree is never larger than what there is.
pub fn build_forest(
    models: &[ModelStatus],
    live: &[OwnedObject],
    owned: &[OwnedObject],
    mut unlisted: Vec<UnlistedResource>,
) -> ObjectForest {
    unlisted.sort();
    let live: BTreeMap<ObjectIdentity, &OwnedObject> = live.iter().map(|one| (one.object.identity(), one)).collect();
    let mut below = BTreeMap::<&str, Vec<&OwnedObject>>::new();
    for one in owned {
        for owner in &one.owners {
            below.entry(owner).or_default().push(one);
        }
    }
    for children in below.values_mut() {
        children.sort_by_key(|one| (&one.object.kind, &one.object.name));
    }
    let models = models.iter().map(|model| {
        let own = model.objects.iter().map(|status| (status, live.get(&status.object.identity()).copied()));
        let own: Vec<(&ObjectStatus, Option<&OwnedObject>)> = own.collect();
        // What is the model's own has a line of its own.
        let mut shown: BTreeSet<&str> =
            own.iter().filter_map(|(_, found)| Some(found.as_ref()?.uid.as_str())).collect();
        let objects = own.iter().map(|(status, found)| {
            let children = found.map(|found| children_of(&found.uid, &below, &mut shown, 1)).unwrap_or_default();
            let created = found.map(|found| found.created.clone()).filter(|created| !created.is_empty());
            let ObjectRef { api_version, kind, namespace, name } = status.object.clone();
            let (state, message) = (status.health.as_str().to_owned(), status.message.clone());
            ObjectNode { api_version, kind, namespace, name, state, message, created, children }
        });
        ModelTree {
            objects: objects.collect(),
            name: model.name.clone(),
            namespace: model.namespace.clone(),
            sync: model.sync.as_str().to_owned(),
            health: model.health.as_str().to_owned(),
            message: model.message.clone(),
        }
    });
    ObjectForest { models: models.collect(), unlisted }
}

fn children_of<'a>(
    uid: &str,
    below: &BTreeMap<&str, Vec<&'a OwnedObject>>,
    shown: &mut BTreeSet<&'a str>,
    depth: usize,
) -> Vec<ObjectNode> {
    let mut nodes = Vec::new();
    for one in below.get(uid).filter(|_| depth < MAX_DEPTH && !uid.is_empty()).into_iter().flatten() {
        if !shown.insert(&one.uid) {
            continue;
        }
        let ObjectRef { api_version, kind, namespace, name } = one.object.clone();
        nodes.push(ObjectNode {
            api_version,
            kind,
            namespace,
            name,
            state: one.state.clone(),
            message: one.message.clone(),
            created: Some(one.created.clone()).filter(|created| !created.is_empty()),
            children: children_of(&one.uid, below, shown, depth + 1),
        });
    }
    nodes
}

/// The objects of models that are there.
pub fn live_objects(models: &[ModelStatus], live: &[ObjectText]) -> Vec<OwnedObject> {
    let live: BTreeMap<_, &ObjectText> = live.iter().map(|one| (one.reference().identity(), one)).collect();
    let shown = models.iter().flat_map(|model| &model.objects);
    let found = shown.filter_map(|one| live.get(&one.object.identity()));
    found.map(|text| OwnedObject::of(&text.parse(), String::new())).collect()
}

/// The objects that may be seen. What is below one that may not is below that one's owners instead, so that pods are found
/// without the right to see everything between a graph and its pods.
pub fn keep_visible(owned: Vec<OwnedObject>, is_visible: impl Fn(&OwnedObject) -> bool) -> Vec<OwnedObject> {
    let (mut visible, hidden): (Vec<_>, Vec<_>) = owned.into_iter().partition(is_visible);
    let owners_of: BTreeMap<&str, &[String]> =
        hidden.iter().map(|one| (one.uid.as_str(), one.owners.as_slice())).collect();
    for one in &mut visible {
        for _ in 0..MAX_DEPTH {
            if !one.owners.iter().any(|owner| owners_of.contains_key(owner.as_str())) {
                break;
            }
            let owners = std::mem::take(&mut one.owners);
            // Each once: whoever makes objects says who owns them.
            let above: BTreeSet<String> = owners
                .into_iter()
                .flat_map(|owner| owners_of.get(owner.as_str()).map_or_else(|| vec![owner], |above| above.to_vec()))
                .collect();
            one.owners = above.into_iter().collect();
        }
    }
    visible
}

/// The uids below which something is looked for: those of the models' own objects, and of what is below them already.
pub fn uids_below(roots: &BTreeSet<String>, owned: &[OwnedObject]) -> BTreeSet<String> {
    let mut inside = roots.clone();
    for _ in 0..MAX_DEPTH {
        let before = inside.len();
        let below = owned.iter().filter(|one| one.owners.iter().any(|owner| inside.contains(owner)));
        let below: Vec<String> = below.map(|one| one.uid.clone()).collect();
        inside.extend(below);
        if inside.len() == before {
            break;
        }
    }
    inside
}

/// The forest as lines of a table, each object below its owner.
pub fn forest_table(forest: &ObjectForest, now: jiff::Timestamp, look: &TerminalOptions) -> String {
    if forest.models.is_empty() && !look.rows_only {
        return "No models.\n".to_owned();
    }
    let mut table = TextTable::new(&["OBJECT", "STATE", "AGE", "MESSAGE"]).least_important(&["AGE"]);
    for model in &forest.models {
        let message =
            if model.message.is_empty() { model.sync.clone() } else { format!("{}: {}", model.sync, model.message) };
        table.row([
            TableCell::new(Tone::Strong, &format!("model/{}", model.name)),
            TableCell::new(state_tone(&model.health), &model.health),
            TableCell::plain(""),
            TableCell::plain(&message),
        ]);
        add_rows(&mut table, &model.objects, "", now);
    }
    let mut out = table.render(look);
    if !forest.unlisted.is_empty() && !look.rows_only {
        let names: Vec<String> = forest.unlisted.iter().map(|one| escape::line(&one.resource)).collect();
        let first = forest.unlisted.first().map(|one| escape::line(&one.message)).unwrap_or_default();
        let line = format!("could not be listed, so objects may be missing: {} ({first})", names.join(", "));
        out.push_str(&format!("{}\n", look.paint(Tone::Caution, &line)));
    }
    out
}

fn add_rows(table: &mut TextTable, nodes: &[ObjectNode], indent: &str, now: jiff::Timestamp) {
    for (index, node) in nodes.iter().enumerate() {
        let is_last = index + 1 == nodes.len();
        let (branch, below) = if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let age = node.created.as_deref().map(|created| format_age(created, now)).unwrap_or_default();
        table.row([
            TableCell::plain(&format!("{indent}{branch}{}/{}", node.kind, node.name)),
            TableCell::new(state_tone(&node.state), &node.state),
            TableCell::plain(&age),
            TableCell::plain(&node.message),
        ]);
        add_rows(table, &node.children, &format!("{indent}{below}"), now);
    }
}

fn state_tone(state: &str) -> Tone {
    match state {
        "Healthy" | "Ready" | "Available" | "Complete" | "Succeeded" | "Bound" | "Active" => Tone::Good,
        "Degraded" | "Failed" | "Lost" => Tone::Bad,
        "" => Tone::Plain,
        _ => Tone::Caution,
    }
}

/// `KIND/NAMESPACE/NAME` of every object, one a line, parents first.
pub fn forest_names(forest: &ObjectForest) -> String {
    fn add(out: &mut String, nodes: &[ObjectNode]) {
        for node in nodes {
            let parts = [&node.kind.to_lowercase(), &node.namespace, &node.name].map(|part| escape::line(part));
            out.push_str(&format!("{}\n", parts.join("/")));
            add(out, &node.children);
        }
    }
    let mut out = String::new();
    for model in &forest.models {
        add(&mut out, &model.objects);
    }
    out
}

#[cfg(test)]
mod tests;
