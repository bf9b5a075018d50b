//! What is true of Dynamo: its kinds, its admission rules, how it shows health, and what a change disrupts.
//!
//! Pure. Facts carry their source; most come from the releases 1.2 and 1.5 and the recordings under `tests/data/dynamo/`.
//! What differs between releases is in [`release`].

pub mod addresses;
pub mod admission;
pub mod component_readiness;
pub mod conversion;
pub mod deprecations;
pub mod disruption;
pub mod equivalence;
pub mod gpu_change;
pub mod gpus;
pub mod graph_components;
pub mod health;
pub mod kinds;
pub mod list_order;
pub mod names;
pub mod pod_containers;
pub mod references;
pub mod registry;
pub mod release;
pub mod replica_intent;
pub mod served_models;
pub mod upgrade;
pub mod v1alpha1;
pub mod v1beta1;
