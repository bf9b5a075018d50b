//! The kinds of Dynamo's first operator (2025, before DynamoGraphDeployment), read as the graphs they stand for.
//!
//! `DynamoDeployment` named a bundle that a build service made (`dynamoNim`, a Bento tag), with settings for each of its
//! services; the operator made a `DynamoNimDeployment` for each of them, and a `DynamoNimRequest` for the build. Settings
//! carry over: a service was a v1alpha1 service already, so what is read here goes through [`super::conversion`]. The bundle
//! does not: no image and no command can be told from it, and [`Reading::left`] says so.
//!
//! Source: the operator's documentation of that time ("Dynamo Kubernetes Operator Documentation"). There is no
//! operator left that could be asked, so the readings are judged by that page's own examples.

mod deployment;
#[cfg(test)]
mod tests;

use super::conversion::{Fault, Unconvertible};
use crate::object::FieldPath;
use serde_json::Value;

/// What documents of the first operator stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// A graph for each deployment, in the order of their names.
    pub graphs: Vec<Graph>,
    /// What could not be carried over, by document and path: nothing else is missing from the graphs.
    pub left: Vec<Left>,
    /// Documents that could not be read, with every fault.
    pub faults: Vec<(usize, Vec<Fault>)>,
}

/// One graph, as v1beta1 says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// A `DynamoGraphDeployment` at v1beta1. Its containers have no image where the old kinds had none.
    pub document: Value,
    /// PersistentVolumeClaims that the first operator would have made.
    pub claims: Vec<Value>,
    /// The documents that it was read from, by their place.
    pub from: Vec<usize>,
}

/// A field that no graph says.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Which document, by its place.
    pub document: usize,
    /// Which field; the root for a document as a whole.
    pub path: FieldPath,
    /// What it says.
    pub value: Value,
    /// Why it is left, and what to do instead.
    pub why: String,
}

/// Whether a kind is one of the first operator's.
pub fn is_legacy(api_version: &str, kind: &str) -> bool {
    api_version.split('/').next() == Some("nvidia.com")
        && (matches!(kind, DEPLOYMENT | COMPONENT) || unmappable(kind).is_some())
}

const DEPLOYMENT: &str = "DynamoDeployment";
const COMPONENT: &str = "DynamoNimDeployment";

/// Why a kind stands for no graph at all; `None` for one that does, and for kinds that are not the first operator's.
pub fn unmappable(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "DynamoNim" | "DynamoComponent" => {
            "it names a bundle of the build service, which no longer exists: give a runtime image instead"
        }
        "DynamoNimRequest" | "DynamoComponentRequest" => {
            "it asked for an image to be built, which no operator does any more: build the image in CI and name it"
        }
        _ => return None,
    })
}

/// Reads documents of the first operator together: components of one deployment become one graph.
///
/// Documents of other kinds are passed over; a document that cannot be read stops no other.
pub fn read(documents: &[Value]) -> Reading {
    let mut reading = Reading::default();
    let mut groups = deployment::Groups::default();
    for (place, document) in documents.iter().enumerate() {
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = text("kind");
        if !is_legacy(text("apiVersion"), kind) {
            continue;
        }
        if let Some(why) = unmappable(kind) {
            let value = document.get("spec").cloned().unwrap_or_default();
            reading.left.push(Left { document: place, path: FieldPath::root(), value, why: why.to_owned() });
        } else if let Err(faults) = groups.add(place, document) {
            reading.faults.push((place, faults));
        }
    }
    for group in groups.0.into_values() {
        let from = group.from();
        let first = from.first().copied().unwrap_or_default();
        match deployment::graph(group, &mut reading.left) {
            Ok(graph) => reading.graphs.push(graph),
            Err(Unconvertible::Malformed(faults)) => reading.faults.push((first, faults)),
            Err(other @ (Unconvertible::NoObject(_) | Unconvertible::Kind { .. })) => {
                let fault = Fault { path: FieldPath::root(), message: other.to_string() };
                reading.faults.push((first, vec![fault]));
            }
        }
    }
    reading.left.sort_by(|a, b| (a.document, &a.path).cmp(&(b.document, &b.path)));
    reading
}
