//! The kinds of Dynamo's first operator (2025, before DynamoGraphDeployment), read as the graphs they stand for.
//!
//! `DynamoDeployment` named a bundle that a build service made (`dynamoNim`, a Bento tag), with settings for each of its
//! services; the operator made a `DynamoNimDeployment` for each of them, and a `DynamoNimRequest` for the build. Settings
//! carry over: a service was a v1alpha1 service already, so what is read here goes through
//! [`stator_core::dynamo::conversion`]. The bundle does not: no image and no command can be derived from it, and
//! [`LegacyConversion::unmapped`] says so.
//!
//! Source: the operator's documentation of that time ("Dynamo Kubernetes Operator Documentation"). There is not an
//! operator left that could be asked, so the readings are judged by that page's own examples.

mod deployment;
#[cfg(test)]
mod tests;

use serde_json::Value;
use stator_core::dynamo::conversion::{ConversionError, MalformedFieldError, MalformedFieldReason};
use stator_core::object::FieldPath;

/// What documents of the first operator stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegacyConversion {
    /// A graph for each deployment, in the order of their names.
    pub graphs: Vec<LegacyGraph>,
    /// What could not be carried over, by document and path: nothing else is missing from the graphs.
    pub unmapped: Vec<UnmappedLegacyField>,
    /// Documents that could not be read, with every fault.
    pub errors: Vec<(usize, Vec<MalformedFieldError>)>,
}

/// One graph, as v1beta1 says it.
#[derive(Clone, Debug, PartialEq)]
pub struct LegacyGraph {
    /// A `DynamoGraphDeployment` at v1beta1. Its containers have no image where the old kinds had none.
    pub document: Value,
    /// PersistentVolumeClaims that the first operator would have made.
    pub claims: Vec<Value>,
    /// The documents that it was read from, by their place.
    pub document_indices: Vec<usize>,
}

/// A field that no graph says.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmappedLegacyField {
    /// Which document, by its place.
    pub document: usize,
    /// Which field; the root for a document as a whole.
    pub path: FieldPath,
    /// What it says.
    pub value: Value,
    /// Why it is left, and what to do instead.
    pub reason: String,
}

/// Whether a kind is one of the first operator's.
pub fn is_legacy(api_version: &str, kind: &str) -> bool {
    api_version.split('/').next() == Some("nvidia.com")
        && (matches!(kind, DEPLOYMENT | COMPONENT) || unmappable_reason(kind).is_some())
}

const DEPLOYMENT: &str = "DynamoDeployment";
const COMPONENT: &str = "DynamoNimDeployment";

/// Why a kind stands for no graph at all; `None` for one that does, and for kinds that are not the first operator's.
pub fn unmappable_reason(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "DynamoNim" | "DynamoComponent" => {
            "it names a bundle of the build service, which no longer exists: give a runtime image instead"
        }
        "DynamoNimRequest" | "DynamoComponentRequest" => {
            "it asked for an image to be built, which no operator supports any more: build the image in CI and set \
             its name"
        }
        _ => return None,
    })
}

/// Reads documents of the first operator together: components of one deployment become one graph.
///
/// Documents of other kinds are passed over; a document that cannot be read stops no other.
pub fn convert_documents(documents: &[Value]) -> LegacyConversion {
    let mut reading = LegacyConversion::default();
    let mut groups = deployment::LegacyGraphBuilders::default();
    for (place, document) in documents.iter().enumerate() {
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = text("kind");
        if !is_legacy(text("apiVersion"), kind) {
            continue;
        }
        if let Some(why) = unmappable_reason(kind) {
            let value = document.get("spec").cloned().unwrap_or_default();
            reading.unmapped.push(UnmappedLegacyField {
                document: place,
                path: FieldPath::root(),
                value,
                reason: why.to_owned(),
            });
        } else if let Err(faults) = groups.add_document(place, document) {
            reading.errors.push((place, faults));
        }
    }
    for group in groups.0.into_values() {
        let from = group.document_indices();
        let first = from.first().copied().unwrap_or_default();
        match deployment::build_graph(group, &mut reading.unmapped) {
            Ok(graph) => reading.graphs.push(graph),
            Err(ConversionError::Malformed(faults)) => reading.errors.push((first, faults)),
            Err(other @ (ConversionError::NotAnObject(_) | ConversionError::UnsupportedKind { .. })) => {
                let reason = MalformedFieldReason::Other(other.to_string());
                let fault = MalformedFieldError { path: FieldPath::root(), reason };
                reading.errors.push((first, vec![fault]));
            }
        }
    }
    reading.unmapped.sort_by(|a, b| (a.document, &a.path).cmp(&(b.document, &b.path)));
    reading
}
