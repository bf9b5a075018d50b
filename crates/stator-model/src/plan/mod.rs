//! The plan: desired against live, as a value that carries its reasons. The executor makes no choices.

mod build;
mod compare;
mod context;
mod decide;
mod guard;
mod input;
mod masking;
mod names;
mod ownership;
mod reason;
mod record;
mod revisions;
pub mod rules;
mod schema;
mod status;
mod step;
mod totals;
mod upgrade;

pub use build::{PlanDraft, build_plan, duplicate_findings};
pub use compare::adoption::SEED_MANAGER;
pub use compare::drift::{drifted_models, drifted_objects};
pub use compare::dry_run::replicas_only;
pub use compare::unchanged::{UnchangedModel, unchanged_models};
pub use context::{graph_made_by, own_bookkeeping};
pub use decide::left_behind::known_origins;
pub use guard::held_changes::HeldChanges;
pub use guard::lost_settings_finding;
pub use input::{
    PlanInput, PlanScope, RewoundBranch, ServerAnswers, UnchangedSummary, UnlistedCause, UnlistedKind,
    UnreadableObject, UntriedCause,
};
pub use names::{AddressMove, NewGraphObstacle, alternate_graph_name};
pub use ownership::PlanOwnership;
pub use ownership::repository_address::RepositoryAddress;
pub use ownership::source_identity::{OwnerRelation, OwnerTextError, RepositoryOrigin, SourceClaim, SourceIdentity};
pub use reason::{
    ChangeReason, DeletionSequel, ForeignOwner, ImmutableAdvice, KeptBy, LeftBehindCause, MountedChange,
    OwnershipDoubt, join_reasons,
};
pub use record::journal::{
    Journal, JournalError, JournalModel, JournalObject, LeftoverJournal, MAX_JOURNAL_BYTES, SyncBookkeeping,
    journal_definition, merge_journals,
};

pub use record::{
    InventoryEntry, ObservedModelState, Record, RecordCondition, RecordError, RecordState, SyncHistoryEntry, SyncState,
    abbreviate_revision, applyset, commit_of_revision, custom_resource_definition, is_uncommitted,
};
pub use revisions::{RevisionComparison, compare_revisions};
pub use schema::schema;
pub use status::{
    FieldDrift, LastSync, ModelStatus, ModelStatusContext, ObjectStatus, frontends_of_adapters, model_statuses,
};
pub use step::{ApplyStep, DeleteStep, PlanStep, PlannedWrite};
pub use totals::UnchangedTotals;
pub use upgrade::{
    FileCorrection, ForeseenDeprecation, ForeseenFreeze, ForeseenRestart, ModelForesight, RefusedUse, UpgradeForesight,
    UpgradeSummary,
};

use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
pub use stator_core::dynamo::disruption::Disruption;
pub use stator_core::dynamo::gpus::{GpuTotals, RequestGpuBudget};
pub use stator_core::dynamo::graph_components::with_replicas;
use stator_core::dynamo::health::Health;
use stator_core::finding::Finding;
use stator_core::object::{FieldPath, JsonText, ObjectRef};
use std::collections::BTreeMap;

/// What would change in one environment, and what that costs. Serializes to `plan -o json`.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// `stator.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Plan`.
    pub kind: &'static str,
    /// The repository's name.
    pub repository: String,
    /// The environment's name.
    pub environment: String,
    /// The commit that was planned, with `-dirty` when the work tree differs; empty outside git.
    pub revision: String,
    /// What it was compared with: `live`, or a commit.
    pub base: String,
    /// SHA-256 over everything that a sync of this plan would do: `sync --plan` refuses when it differs.
    pub digest: String,
    /// Counts.
    pub summary: Summary,
    /// One line an object, sorted by model, then apply order; deletions last.
    pub changes: Vec<Change>,
    /// Holds of guards, until they are allowed.
    pub holds: Vec<Hold>,
    /// The changes that wait for approval.
    #[serde(skip)]
    pub held: HeldChanges,
    /// Models that have a record and are no longer in git: their records go last, also when none of their objects is
    /// left (a crash between the last delete and the record's). Never a model that is broken or out of scope. Sorted.
    #[serde(skip)]
    pub retired: Vec<String>,
    /// Models that git has renamed, with their new names.
    #[serde(skip)]
    pub renames: BTreeMap<String, String>,
    /// Models of another folder without a name: neither they nor their records are touched. Sorted.
    #[serde(skip)]
    pub elsewhere: Vec<String>,
    /// The folder that the records are to name; see [`PlanInput::folder`].
    #[serde(skip)]
    pub folder: Option<String>,
    /// Whose the records are and are to be.
    #[serde(skip)]
    pub ownership: PlanOwnership,
    /// What the records are to keep as each model's intent, by model. What looks like a secret is hidden in it.
    #[serde(skip)]
    pub intents: BTreeMap<String, JsonText>,
    /// Findings of the intents and of the plan.
    #[schemars(with = "Vec<schema::FindingShape>")]
    pub findings: Vec<Finding>,
    /// What another release of Dynamo does, of a revision that names another one than the revision before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Box<UpgradeForesight>>,
}

/// Counts over all changes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Objects to create.
    pub create: usize,
    /// Objects to update in place.
    pub update: usize,
    /// Objects to replace, as they cannot be changed in place.
    pub replace: usize,
    /// Objects to delete.
    pub delete: usize,
    /// Objects that are being deleted.
    pub deleting: usize,
    /// Existing objects to take over.
    pub adopt: usize,
    /// Objects that stay as they are.
    pub keep: usize,
    /// Objects that cannot be changed.
    pub blocked: usize,
    /// Objects whose change waits for an approval, whatever the change is. They count nowhere else.
    pub held: usize,
    /// Objects that the source synced once and that nothing in git is about any more. Their GPUs are among the sums.
    pub left_behind: usize,
    /// GPUs of all models, the unchanged ones included. What is held back stays as it is.
    pub gpus: GpuTotals,
    /// GPUs by SKU; `unknown` where no SKU is given.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
    /// Cost an hour, where prices are given.
    pub cost: Option<Cost>,
    /// What approvals would change of the GPUs and the cost, where they would: the sums over the held changes.
    pub if_approved: Option<ModelTotals>,
    /// The models of which something changes and that have GPUs, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelTotals>,
}

/// A share of a plan: of one model, or of what is held back.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelTotals {
    /// GPUs of its objects.
    pub gpus: GpuTotals,
    /// The same by SKU.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
    /// Cost an hour, where prices are given.
    pub cost: Option<Cost>,
}

/// What the GPUs cost an hour by the repository's prices.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// As the repository writes it.
    pub currency: String,
    /// Now.
    pub before_hour: f64,
    /// When the change is through.
    pub after_hour: f64,
    /// Added cost an hour; negative if the change saves.
    pub delta_hour: f64,
    /// The same in a month of 730 hours.
    pub delta_month: f64,
    /// SKUs without a price: their GPUs are not in the sums.
    pub unpriced: Vec<String>,
}

/// One object's line in a plan.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The model's name.
    pub model: String,
    /// Path of its `model.yaml`, or where it was when it is gone.
    pub source: String,
    /// The object.
    #[schemars(with = "schema::ObjectShape")]
    pub object: ObjectRef,
    /// What happens to it.
    pub action: Action,
    /// What that disrupts.
    pub disruption: Disruption,
    /// Changed fields, sorted by path.
    pub fields: Vec<FieldChange>,
    /// Its GPUs.
    pub gpus: GpuTotals,
    /// The SKU of those GPUs, where the graph says; the first, where it has several.
    pub gpu_sku: Option<String>,
    /// Its GPUs by SKU; `unknown` where no SKU is given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
    /// The range of GPUs in which an autoscaler or planner may scale it, if the intent sets bounds.
    pub gpu_range: Option<GpuRange>,
    /// What it costs an hour, where prices are given and it has GPUs.
    pub cost: Option<Cost>,
    /// Why: one sentence each.
    #[schemars(with = "Vec<String>")]
    pub reasons: Vec<ChangeReason>,
    /// What the executor does. Of it the contract's JSON has only the guard that holds it back.
    #[serde(
        rename = "heldBy",
        skip_serializing_if = "PlanStep::is_not_held",
        serialize_with = "step::serialize_guard"
    )]
    #[schemars(with = "Option<HoldKind>")]
    pub step: PlanStep,
    /// What the model's record has to say of the object once this change is through, with the uid and generation that
    /// it has now; `None` for an object that is not desired (deleted, blocked as another's, or kept of a retired
    /// model). The executor repairs a record that says otherwise, so that an interrupted sync loses nothing.
    #[serde(skip)]
    pub inventory: Option<InventoryEntry>,
    /// The health of the object as it is; `None` when it is not there, or is not the model's.
    #[serde(skip)]
    pub health: Option<Health>,
    /// The object as it is, restricted to what stator compares; `None` when absent. For unified diffs.
    #[serde(skip)]
    pub before: Option<JsonText>,
    /// The object as it becomes, restricted alike; `None` when it goes.
    #[serde(skip)]
    pub after: Option<JsonText>,
}

impl Change {
    /// The objects that carrying it out is about: the line's own, and one that comes up beside it.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        let beside = self.inventory.as_ref().map(|entry| &entry.object).filter(|object| **object != self.object);
        std::iter::once(&self.object).chain(beside)
    }

    /// A line that keeps an object as it is, with nothing said of it yet.
    pub fn new(model: &str, source: &str, object: ObjectRef) -> Self {
        Self {
            model: model.to_owned(),
            source: source.to_owned(),
            object,
            action: Action::Keep,
            disruption: Disruption::None,
            fields: Vec::new(),
            gpus: GpuTotals::default(),
            gpu_sku: None,
            gpus_by_sku: BTreeMap::new(),
            gpu_range: None,
            cost: None,
            reasons: Vec::new(),
            step: PlanStep::NoWrite,
            inventory: None,
            health: None,
            before: None,
            after: None,
        }
    }
}

/// The range of GPUs in which an autoscaler or planner may scale a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct GpuRange {
    /// With every scaled component at its fewest replicas.
    pub min: u64,
    /// With every scaled component at its most.
    pub max: u64,
}

/// What happens to an object.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed in place.
    Update,
    /// It is replaced, as Dynamo forbids the change in place: deleted and made again, or deleted once a new graph is up.
    Replace,
    /// It is deleted: its model is gone, or no longer has it.
    Delete,
    /// Its deletion was asked for, and it is not gone yet.
    Deleting,
    /// It exists and stator does not manage it: stator takes it over.
    Adopt,
    /// It is as it should be, or is left alone on purpose (a reason says so).
    Keep,
    /// It cannot be touched; a reason says why and what to do.
    Blocked,
    /// The source synced it once, and nothing in git is about it any more: it is left alone, and a reason says why.
    #[serde(rename = "left-behind")]
    #[strum(serialize = "left-behind")]
    LeftBehind,
}

impl Action {
    /// The word for it, in JSON and wherever people read it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One changed field.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Where.
    #[schemars(with = "String")]
    pub path: FieldPath,
    /// What the cluster (or base) holds; `null` when absent.
    pub old: Value,
    /// What it becomes; `null` when removed.
    pub new: Value,
    /// Which field manager owns it now; `stator` for fields that nobody owns yet.
    pub owner: String,
}

/// Guards that limit a sync.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Which.
    pub kind: HoldKind,
    /// Why, in a sentence, with the numbers.
    pub message: String,
    /// How to release it.
    pub help: String,
    /// Whether `--allow` released it.
    pub allowed: bool,
}

/// The guards (rule 11 of the design), and the opt-ins of rule 6. `--allow` takes these words.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum HoldKind {
    /// Something would be deleted and made again, or replaced at another address.
    Replace,
    /// Something would be deleted. Holds nothing back by itself; `--prune=false` leaves deletions out.
    Delete,
    /// Something that exists and that stator does not manage would be taken over.
    Adopt,
    /// What belongs to another repository, folder, environment or `ModelSource` would be taken over. Without approval it
    /// is blocked.
    Move,
    /// More would be deleted than the guard lets through.
    MassDelete,
    /// More GPUs would be needed than the environment may have.
    MaxGpus,
    /// The branch of a source was moved back, or away from what was applied of it.
    Rollback,
}

impl HoldKind {
    /// The word for it, in JSON and for `--allow`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests;
