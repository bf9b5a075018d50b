//! What keeps an object that git no longer has, and what one is that nothing in git is about.

use super::ForeignOwner;
use crate::intent::UnreadPlace;
use crate::plan::UnlistedKind;
use stator_core::object::ObjectRef;

/// Why nothing in git is about an object any more that the source synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftBehindCause {
    /// `stator.yaml` has no such environment.
    NoEnvironment {
        /// The environment.
        environment: String,
    },
    /// The environment has another namespace now.
    FormerNamespace {
        /// The environment.
        environment: String,
    },
    /// It belongs to what the source was before, and git no longer has its model.
    FormerOwner {
        /// That, for a person, where a record says.
        owner: Option<String>,
    },
}

/// What keeps an object that git no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptBy {
    /// Its model was synced from another folder, and no `stator.yaml` names either.
    OtherFolder {
        /// That folder, where the record says.
        folder: Option<String>,
        /// The repository's name, which both share.
        repository: String,
    },
    /// Its model's files have errors.
    ModelErrors,
    /// A file with errors may be its model's: it says no name, or one that another folder claims.
    UnreadableSource {
        /// The file.
        source: String,
    },
    /// Its model's file is now somewhere that is not read.
    UnreadPlace(UnreadPlace),
    /// A journal that cannot be read may name objects of any model.
    UnreadJournal {
        /// That journal.
        journal: ObjectRef,
    },
    /// Nothing was rendered at all, which looks like a mistake.
    EmptyRender,
    /// It holds data.
    Data,
    /// Something speaks against its being stator's.
    Doubt(OwnershipDoubt),
    /// A request made it that is gone, and nobody manages it.
    MadeByRequest {
        /// That request's name.
        request: String,
        /// It.
        graph: ObjectRef,
    },
    /// The graph of the request that follows it is not Ready.
    NextRequestGraph {
        /// That request's name.
        request: String,
    },
    /// The result of the request that follows it is not locked.
    UnlockedResult {
        /// That request's name.
        request: String,
    },
    /// The graph that takes its place is not made what git wants.
    UnfinishedGraph {
        /// That graph.
        graph: ObjectRef,
        /// A guard holds that back; else it cannot be done.
        is_held: bool,
    },
    /// It goes once a graph is made what git wants, and that is not.
    GraphUnchanged {
        /// That graph.
        graph: ObjectRef,
        /// A guard holds that back; else it cannot be done.
        is_held: bool,
    },
    /// Somebody names it, and goes on doing so.
    StillUsed {
        /// A graph, a request or a Job.
        by: ObjectRef,
        /// It would no longer, or would go, but a guard holds that back.
        is_held: bool,
    },
    /// What takes its model's place has errors.
    SuccessorFaulty {
        /// That model.
        model: String,
    },
    /// What cannot be read may name it.
    PerhapsUsed {
        /// A file with errors, or a damaged object.
        source: String,
    },
    /// Objects of its kind cannot be listed, so that nobody knows whether it is there still.
    KindUnlisted(UnlistedKind),
    /// Pruning is off.
    PruningOff,
}

/// What speaks against an object's being stator's to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipDoubt {
    /// It belongs to somebody else.
    Foreign(ForeignOwner),
    /// Its labels do not name this repository and environment.
    LabelsLost,
    /// stator is not among its field managers.
    NotFieldManager,
    /// The model's record cannot be read.
    RecordDamaged,
    /// No record names it.
    NoRecord,
    /// A record names another object of this name.
    OtherUid,
}

impl KeptBy {
    /// Whether it goes by itself once something else has changed: until then a record has to name it, its model's or not.
    pub(in crate::plan) fn is_for_now(&self) -> bool {
        match self {
            Self::MadeByRequest { .. }
            | Self::NextRequestGraph { .. }
            | Self::UnlockedResult { .. }
            | Self::UnfinishedGraph { .. }
            | Self::GraphUnchanged { .. }
            | Self::StillUsed { .. }
            | Self::SuccessorFaulty { .. }
            | Self::PerhapsUsed { .. } => true,
            Self::OtherFolder { .. }
            | Self::ModelErrors
            | Self::UnreadableSource { .. }
            | Self::UnreadPlace(_)
            | Self::UnreadJournal { .. }
            | Self::EmptyRender
            | Self::Data
            | Self::Doubt(_)
            | Self::KindUnlisted(_)
            | Self::PruningOff => false,
        }
    }
}
