//! `Model` → desired objects. Pure and deterministic to the byte; v1beta1 only.

use crate::finding::Finding;
use crate::object::Object;
use serde::Serialize;
use std::collections::BTreeMap;

/// When an object is applied; pruning goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Volumes first: pods wait for them.
    Cache,
    /// The graph or the request.
    Graph,
    /// Adapters, once the graph is Ready: an earlier load fails (`ai-runway#84`).
    Adapter,
}

/// One rendered object.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The object, with labels, namespace, and without anything that a cluster fills in.
    pub object: Object,
    /// When it is applied.
    pub stage: Stage,
    /// False for objects that are kept when the model goes (weights).
    pub prune: bool,
    /// How many replicas to start with, by component, where a scaling adapter or a planner decides later. They are not
    /// in `object`: a new graph is seeded with them under a second field manager, which then lets go.
    pub initial_replicas: BTreeMap<String, u64>,
}

/// What one model renders to.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The model's name.
    pub model: String,
    /// Path of its `model.yaml` from the root.
    pub source: String,
    /// Its objects in apply order.
    pub objects: Vec<Desired>,
    /// Errors (nothing may be applied) and warnings.
    pub findings: Vec<Finding>,
    /// Managers that may be overruled (`spec.takeOver`).
    pub take_over: Vec<String>,
}

/// Where a model is rendered to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The repository's name, for the label `stator.dev/repository`.
    pub repository: String,
    /// The environment's name, for the label `stator.dev/environment`.
    pub environment: String,
    /// The namespace.
    pub namespace: String,
}
