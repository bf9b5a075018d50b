//! The second name that the graph of a model may have, and what changes with a graph's name.

use sha2::{Digest, Sha256};
use stator_core::dynamo::addresses::{self, GraphAddress};
use stator_core::object::{Object, ObjectRef};

/// Characters of the digest in an alternate name.
const DIGEST_LENGTH: usize = 5;
/// Up to so many characters an alternate name may be longer than the model's, which leaves room for the names that the
/// operator derives from it. Beyond that it is as long as the model's, which has that room.
const FREE_LENGTH: usize = 24;

/// The name of a model's graph while the graph that is called after the model is replaced, and afterwards. It follows from
/// the model's name alone, so that a graph of that name is known again whatever git says by then.
pub fn alternate_graph_name(model: &str) -> String {
    let digest = hex::encode(Sha256::digest(model.as_bytes()));
    let room = model.chars().count().max(FREE_LENGTH).saturating_sub(DIGEST_LENGTH + 1);
    let stem: String = model.chars().take(room).collect();
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
