//! What a sync does for one change: nothing, a write, or a write that a guard holds back.

use super::HoldKind;
use crate::render::{ApplyStage, RenderedObject};
use serde::{Serialize as _, Serializer};
use stator_core::dynamo::graph_components::with_replicas;
use stator_core::fields::OwnershipTransfer;
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::BTreeMap;

/// What the executor does for a change: everything is decided here.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanStep {
    /// There is nothing to write: the object is as it should be, or must not be touched.
    NoWrite,
    /// There is nothing to write: the deletion was asked for, and it is waited until the object is gone.
    AwaitGone {
        /// The object's uid.
        uid: String,
    },
    /// The write is carried out.
    Write(PlannedWrite),
    /// The write waits until `--allow` releases the guard, and until then nothing of the object is touched.
    Held {
        /// The guard; the first one where several would hold it.
        by: HoldKind,
        /// What is written once the guard is released.
        would: PlannedWrite,
    },
}

/// A write of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedWrite {
    /// Server-side apply.
    Apply(ApplyStep),
    /// Delete, wait until it is gone, apply; the other way round where the delete says after what ([`DeleteStep::after`]).
    Replace {
        /// Which object must be there to be deleted.
        delete: DeleteStep,
        /// What is applied in its place.
        apply: ApplyStep,
    },
    /// Delete.
    Delete(DeleteStep),
}

impl PlanStep {
    /// The same, to be changed.
    pub(super) fn any_write_mut(&mut self) -> Option<&mut PlannedWrite> {
        match self {
            Self::Write(write) | Self::Held { by: _, would: write } => Some(write),
            Self::NoWrite | Self::AwaitGone { .. } => None,
        }
    }

    /// What a sync writes, now or once a guard is released.
    pub(super) fn any_write(&self) -> Option<&PlannedWrite> {
        match self {
            Self::Write(write) | Self::Held { by: _, would: write } => Some(write),
            Self::NoWrite | Self::AwaitGone { .. } => None,
        }
    }

    /// What a sync writes now; `None` for a step that is held back.
    pub fn write(&self) -> Option<&PlannedWrite> {
        match self {
            Self::Write(write) => Some(write),
            Self::NoWrite | Self::AwaitGone { .. } | Self::Held { .. } => None,
        }
    }

    /// The guard that holds the step back.
    pub fn held_by(&self) -> Option<HoldKind> {
        match self {
            Self::Held { by, would: _ } => Some(*by),
            Self::NoWrite | Self::AwaitGone { .. } | Self::Write(_) => None,
        }
    }

    /// Holds a write back. A step without a write stays what it is, and one that is held already keeps its guard.
    pub fn hold_back(&mut self, guard: HoldKind) {
        *self = match std::mem::replace(self, Self::NoWrite) {
            Self::Write(would) => Self::Held { by: guard, would },
            unheld @ (Self::NoWrite | Self::AwaitGone { .. } | Self::Held { .. }) => unheld,
        };
    }

    pub(super) fn is_not_held(&self) -> bool {
        self.held_by().is_none()
    }
}

/// Writes the guard that holds a step back.
pub(super) fn serialize_guard<S: Serializer>(step: &PlanStep, serializer: S) -> Result<S::Ok, S::Error> {
    step.held_by().serialize(serializer)
}

/// A server-side apply that the plan decided on.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyStep {
    /// What is applied in a write of its own before, where Dynamo refuses both changes in one.
    pub first: Option<ObjectText>,
    /// The object, complete with the uid that it must have when it exists.
    pub object: ObjectText,
    /// When.
    pub stage: ApplyStage,
    /// Whether disputed fields are taken: only those of managers that the intent named.
    pub force: bool,
    /// The resource version that was planned against; `None` when the object was absent.
    pub planned_resource_version: Option<String>,
    /// Replicas to seed under a second manager, then give up: components whose count belongs to a scaling adapter
    /// (`stator-initial-replicas`). Empty in the steady state.
    pub seed_replicas: BTreeMap<String, u64>,
    /// Ownership that passes to stator before the apply, so that what git gives up later goes, and what git changes is no
    /// conflict; `None` where nobody else owns what the apply is about.
    pub transfer: Option<OwnershipTransfer>,
    /// The Job that downloads the weights which the object is to serve: it is applied only once that is complete.
    pub after: Option<Box<ObjectRef>>,
    /// The graphs that a route newly leads to: it is applied only once these are Healthy.
    pub after_graphs: Vec<ObjectRef>,
}

impl ApplyStep {
    /// Of an object that is made anew.
    pub(super) fn create(desired: &RenderedObject) -> Self {
        Self {
            first: None,
            object: (&desired.object).into(),
            stage: desired.stage,
            force: false,
            planned_resource_version: None,
            seed_replicas: desired.replicas.seeds(),
            transfer: None,
            after: None,
            after_graphs: Vec::new(),
        }
    }

    /// What stator applies first: what goes before, or the object, with the counts that are seeded.
    pub fn leading_object(&self) -> Object {
        with_replicas(&self.first.as_ref().unwrap_or(&self.object).parse(), &self.seed_replicas)
    }
}

/// A delete that the plan decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteStep {
    /// Which object.
    pub object: ObjectRef,
    /// When, in reverse order.
    pub stage: ApplyStage,
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// The graph or request that takes its place, or the graph that no longer mounts it: it is deleted only once that one is
    /// Healthy, and the model's adapters with it.
    pub after: Option<Box<ObjectRef>>,
    /// What stays although it goes, with its uid: the graph that a request made. The model's record names it from then on.
    pub leaves: Option<Box<(ObjectRef, String)>>,
}

impl DeleteStep {
    /// Of a live object, as it is.
    pub(super) fn of(live: &Object, stage: ApplyStage) -> Self {
        Self {
            object: live.reference(),
            stage,
            uid: live.uid().unwrap_or_default().to_owned(),
            resource_version: live.resource_version().unwrap_or_default().to_owned(),
            after: None,
            leaves: None,
        }
    }
}
