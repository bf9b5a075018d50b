//! What a plan is made of.

use super::{HoldKind, LeftoverJournal, Record, SourceClaim, UnchangedTotals};
use crate::intent::repository::{Guards, Prices};
use crate::intent::{BrokenIntent, UnreadPlace};
use crate::render::RenderedText;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::finding::Finding;
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// Which models a plan is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlanScope {
    /// All of the environment: what git no longer has is pruned.
    #[default]
    All,
    /// These and no others, by name (`sync models/llama/model.yaml`): other models are neither shown nor pruned.
    Models(BTreeSet<String>),
}

impl PlanScope {
    /// True when the plan is about this model.
    pub fn covers(&self, model: &str) -> bool {
        match self {
            Self::All => true,
            Self::Models(names) => names.contains(model),
        }
    }
}

/// Something in the cluster that is there and cannot be read: a file that a hand has damaged, a record that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableObject {
    /// Which object, as far as its place tells.
    pub object: ObjectRef,
    /// What is wrong with it.
    pub message: String,
    /// True for a record that another tool holds: its model is not synced, as the record must not be written over.
    pub is_foreign: bool,
}

/// A branch that no longer leads on from the commit that was applied of it: somebody moved it back, or wrote its history anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewoundBranch {
    /// The commit that was applied, in full.
    pub from: String,
    /// The commit that the branch leads to now, in full.
    pub to: String,
    /// Whether it is held although nothing would change. Who can release it by a sync by hand alone leaves nothing to change.
    pub holds_unchanged: bool,
}

/// A kind of which a model or a record names objects, and whose objects cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlistedKind {
    /// Which kind.
    pub kind: ObjectKind,
    /// Why not.
    pub cause: UnlistedCause,
}

/// Why the objects of a kind cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnlistedCause {
    /// Whoever asks may not.
    Forbidden {
        /// In the API server's words.
        message: String,
        /// The rule that would allow it.
        fix: String,
    },
    /// The cluster does not serve the kind.
    NotServed,
}

/// Everything that a plan is made of. No clock, no cluster: the same input gives the same plan.
#[derive(Clone, Debug, Default)]
pub struct PlanInput {
    /// The repository's name.
    pub repository: String,
    /// Where the repository lies, when no `stator.yaml` gives it a name: all such folders are called `default`, and
    /// none of them may prune what another one synced. The folder's real path, so that two of one name are
    /// distinguished.
    pub folder: Option<String>,
    /// Whose the records and objects are to be. `None` where nobody says: then names alone tell them apart.
    pub owner: Option<SourceClaim>,
    /// The environment's name.
    pub environment: String,
    /// The environment's namespace.
    pub namespace: String,
    /// What the cluster runs: by its definitions objects merge, and by its release changes are judged.
    pub platform: Platform,
    /// The commit, with `-dirty` when the work tree differs; empty outside git.
    pub revision: String,
    /// What the models render to: all of the environment's, also where the scope is smaller.
    pub rendered: Vec<RenderedText>,
    /// Models that cannot be used; their objects are left alone.
    pub broken: Vec<BrokenIntent>,
    /// What may hold models and is not read; models that were recorded there are left alone.
    pub unread: Vec<UnreadPlace>,
    /// Live objects of the kinds that stator renders, in the environment's namespace. A plan looks into few at a time.
    pub live: Vec<ObjectText>,
    /// Graphs and requests of others that name what a plan might delete of these; see [`stator_core::dynamo::references`].
    pub users: Vec<ObjectText>,
    /// The records of the namespace. Those of somebody else are neither written nor pruned by.
    pub records: Vec<Record>,
    /// What syncs left of their journals in the namespace, whosever they are.
    pub journals: Vec<LeftoverJournal>,
    /// What has the labels of the source, or of what it was before, in any namespace: records and objects.
    pub strays: Vec<ObjectText>,
    /// The environments of the repository, each with its namespace.
    pub places: BTreeSet<(String, String)>,
    /// Live objects and records that cannot be read.
    pub unreadable: Vec<UnreadableObject>,
    /// Kinds that cannot be listed, of those that something names. Nothing of them is created, changed or pruned.
    pub unlisted: Vec<UnlistedKind>,
    /// Guards that limit a sync.
    pub guards: Guards,
    /// What became of the branch, where it does not lead on from what was applied.
    pub rewound: Option<RewoundBranch>,
    /// What GPUs cost.
    pub prices: Option<Prices>,
    /// What was allowed (`--allow`).
    pub allow: BTreeSet<HoldKind>,
    /// Whether to delete objects that are no longer in git.
    pub prune: bool,
    /// Which models the plan is about.
    pub scope: PlanScope,
    /// Findings of the intents; those of the rendered models are added by the plan.
    pub findings: Vec<Finding>,
    /// Those of them that were found in one of the `rendered` models alone, by its `model.yaml`.
    pub model_findings: BTreeMap<String, Vec<Finding>>,
    /// True when the render is empty although it should not be trusted to be: a path that is not there, a fetch that
    /// failed. Nothing is pruned then. An environment without a single model counts as one too.
    pub empty_render: bool,
    /// What the cluster answered about a plan of this.
    pub answers: ServerAnswers,
    /// What is not here, since nothing of it changes: see `plan::unchanged`.
    pub unchanged: UnchangedSummary,
}

/// What a cluster answered about writes of a plan, by the object that is written. Nothing where nothing was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerAnswers {
    /// What it makes of [`super::Plan::unexplained_applies`]. An answer counts for the live object of its resource version alone.
    pub dry_runs: BTreeMap<ObjectIdentity, Object>,
    /// Why it refuses to create what is to take the place of an object ([`super::Plan::replacements`]), in its words.
    pub refused_replacements: BTreeMap<ObjectIdentity, String>,
    /// What it was not asked about, or gave no answer to, and why: the plan says so of each.
    pub untried: BTreeMap<ObjectIdentity, UntriedCause>,
}

impl ServerAnswers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.dry_runs.is_empty() && self.refused_replacements.is_empty() && self.untried.is_empty()
    }

    /// Whether one of them is about this object.
    pub(super) fn is_about(&self, object: &ObjectRef) -> bool {
        let identity = object.identity();
        self.dry_runs.contains_key(&identity)
            || self.refused_replacements.contains_key(&identity)
            || self.untried.contains_key(&identity)
    }
}

/// Why nobody knows what the cluster makes of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UntriedCause {
    /// Too many updates were to be tried.
    TooMany,
    /// The trial failed, in the cluster's words.
    Failed(String),
}

/// Models that are left out of everything else here: they are in git, nothing of them changes, and all that a plan says
/// of them is their share of sums and guards, and what was found in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnchangedSummary {
    /// How many.
    pub models: usize,
    /// Their objects, each with a record, and their GPUs.
    pub totals: UnchangedTotals,
    /// What was found in them.
    pub findings: Vec<Finding>,
}

impl PlanInput {
    /// True when nothing was rendered: then nothing is ever pruned, nor is a part of it.
    pub fn is_empty_render(&self) -> bool {
        self.empty_render || (self.rendered.is_empty() && self.broken.is_empty() && self.unchanged.models == 0)
    }
}
