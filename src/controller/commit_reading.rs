//! A commit that is being read or planned.

use super::commit_trials::OpenTrial;
use super::planning_budget::PlanningRoom;

/// A commit that is being read or planned: the memory that it may take, and the mark of its trial. Both go when this is
/// dropped.
#[derive(Debug)]
pub struct CommitReading {
    pub(in crate::controller) room: Option<PlanningRoom>,
    _trial: OpenTrial,
}

impl CommitReading {
    pub(in crate::controller) fn new(trial: OpenTrial, room: Option<PlanningRoom>) -> Self {
        Self { room, _trial: trial }
    }
}
