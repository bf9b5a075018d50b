//! The second name that the graph of a model may have, what changes with a graph's name, and what takes the place of a
//! model that git no longer has under its name.

use crate::intent::model::ReplacementOrder;
use crate::render::{ApplyStage, RenderedText};
use serde_json::Value;
use sha2::{Digest, Sha256};
use stator_core::dynamo::addresses::{self, GraphAddress};
use stator_core::finding::Finding;
use stator_core::object::{Object, ObjectRef};

/// Characters of the digest in an alternate name.
const DIGEST_LENGTH: usize = 5;
/// Up to so many characters an alternate name may be longer than the model's, which leaves space for the names that the
/// operator derives from it. Beyond that it is as long as the model's, which has that space.
const FREE_LENGTH: usize = 24;

/// The name of a model's graph while the graph that is called after the model is replaced, and afterwards. It follows from
/// the model's name alone, so that a graph of that name is known again whatever git says by then.
pub fn alternate_graph_name(model: &str) -> String {
    let digest = hex::encode(Sha256::digest(model.as_bytes()));
    let available = model.chars().count().max(FREE_LENGTH).saturating_sub(DIGEST_LENGTH + 1);
    let stem: String = model.chars().take(available).collect();
    let digest: String = digest.chars().take(DIGEST_LENGTH).collect();
    format!("{}-{digest}", stem.trim_end_matches('-'))
}

/// The addresses that change with a graph's name. Both lists are empty for a graph without a frontend or picker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMove {
    /// Where clients find the graph now.
    pub from: Vec<GraphAddress>,
    /// Where they find what replaces it.
    pub to: Vec<GraphAddress>,
}

impl AddressMove {
    pub(super) fn between(old: &Object, new: &Object) -> Self {
        Self { from: addresses::graph_addresses(old), to: addresses::graph_addresses(new) }
    }
}

/// Why a graph cannot come up beside the one that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewGraphObstacle {
    /// Something else has its name.
    NameTaken {
        /// What it would be.
        graph: ObjectRef,
    },
    /// The graph that had its name is not gone yet.
    NotGone {
        /// That graph.
        graph: ObjectRef,
    },
    /// Both graphs would find each other's workers.
    SharedNamespace {
        /// The component that says so.
        component: String,
    },
}

/// What takes the place of a model that git no longer has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rename {
    /// The model's new name.
    pub(super) model: String,
    /// Its graph, or the request that makes one; `None` where it has errors, and renders to nothing.
    pub(super) workload: Option<ObjectRef>,
    /// What comes first. Where the intent does not say, the old one stays until the new one serves: unlike a replacement under
    /// one name, this costs no more than GPUs.
    pub(super) order: ReplacementOrder,
}

impl Rename {
    /// That of a model that appears.
    pub(super) fn to(rendered: &RenderedText) -> Self {
        let is_faulty = rendered.findings.iter().any(Finding::is_error);
        let workload = rendered.objects.iter().find(|one| one.stage == ApplyStage::Graph && !is_faulty);
        let stated = rendered.intent.parse().pointer("/rollout/replace").and_then(Value::as_str).map(str::to_owned);
        Self {
            model: rendered.model.clone(),
            workload: workload.map(|one| one.object.reference().clone()),
            order: if stated.as_deref() == Some("old-first") {
                ReplacementOrder::OldFirst
            } else {
                ReplacementOrder::NewFirst
            },
        }
    }
}
