//! What the next sync does: the objects that it changes, with fields, disruption, GPUs and cost. The same for a model, for
//! all models of a source or a commit, and for a draft.

use crate::models::{ModelListMetadata, ModelQuery, ModelRow};
use crate::observation::{FleetObservation, FoundModel};
use crate::problem::{ProblemDetails, ProblemKind};
use crate::sources::RevisionView;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_model::plan::{Action, Change, Cost, Disruption, FieldChange, GpuTotals, HoldKind, is_uncommitted};
use std::collections::BTreeMap;

/// Models of a page where nobody says how many: each has a table of its own.
const DEFAULT_CHANGED: usize = 25;

/// Changes, and what they come to together.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSet {
    /// Each object, what would happen to it, and why.
    pub changes: Vec<ObjectChange>,
    /// The model's GPUs: now, after the change, and at most during the rollout.
    pub gpus: GpuTotals,
    /// The same by SKU; `unknown` where no SKU is given.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
    /// What the model's GPUs cost an hour, where the repository has prices.
    pub cost: Option<Cost>,
    /// The worst disruption of running pods.
    pub disruption: Disruption,
}

/// One object that changes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// The object: kind, namespace and name.
    pub object: String,
    /// What happens to it.
    pub action: Action,
    /// What that disrupts.
    pub disruption: Disruption,
    /// Changed fields, sorted by path.
    pub fields: Vec<FieldChange>,
    /// Its GPUs.
    pub gpus: GpuTotals,
    /// Why: one sentence each.
    pub reasons: Vec<String>,
    /// The guard that would hold it back.
    pub held_by: Option<HoldKind>,
}

/// The pending changes of one model.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PendingChanges")]
pub struct PendingView {
    /// The model, as lists show it.
    pub model: ModelRow,
    /// The newest commit that changed its files; absent where nothing changes, or git does not tell.
    pub commit: Option<RevisionView>,
    /// Whether the files of the source are not all committed, and no commit made this change.
    pub uncommitted: bool,
    /// What the next sync does with its objects.
    #[serde(flatten)]
    pub changes: ChangeSet,
}

/// One page of the models that the next sync changes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ChangeList")]
pub struct ChangeListView {
    /// The models of the page.
    pub items: Vec<PendingView>,
    /// Where the page is in the list.
    pub metadata: ModelListMetadata,
    /// Notices about the list: sources whose models are unknown, or whose current state is. Empty if all is known.
    pub notices: Vec<String>,
}

impl ChangeSet {
    /// Of changes of one model.
    pub fn new(changes: &[Change]) -> Self {
        let (mut gpus, mut gpus_by_sku) = (GpuTotals::default(), BTreeMap::new());
        for change in changes {
            gpus.add(change.gpus);
            GpuTotals::add_by_sku(&mut gpus_by_sku, &change.gpus_by_sku);
        }
        Self {
            changes: changes.iter().map(object_change).collect(),
            gpus,
            gpus_by_sku,
            cost: total_cost(changes),
            disruption: changes.iter().map(|one| one.disruption).max().unwrap_or(Disruption::None),
        }
    }

    /// The same, for those who may not see the objects.
    pub fn without_fields(changes: &[Change]) -> Self {
        let mut set = Self::new(changes);
        set.changes.iter_mut().for_each(|change| change.fields.clear());
        set
    }

    /// How many objects change.
    pub fn changed_objects(&self) -> usize {
        self.changes.iter().filter(|one| one.action != Action::Keep).count()
    }
}

fn object_change(change: &Change) -> ObjectChange {
    ObjectChange {
        object: change.object.to_string(),
        action: change.action,
        disruption: change.disruption,
        fields: change.fields.clone(),
        gpus: change.gpus,
        reasons: change.reasons.iter().map(ToString::to_string).collect(),
        held_by: change.step.held_by(),
    }
}

/// The sum over objects.
fn total_cost(changes: &[Change]) -> Option<Cost> {
    let mut costs = changes.iter().filter_map(|change| change.cost.clone());
    let first = costs.next()?;
    Some(costs.fold(first, |mut sum, more| {
        sum.before_hour += more.before_hour;
        sum.after_hour += more.after_hour;
        sum.delta_hour += more.delta_hour;
        sum.delta_month += more.delta_month;
        sum.unpriced.extend(more.unpriced);
        sum.unpriced.sort();
        sum.unpriced.dedup();
        sum
    }))
}

impl PendingView {
    /// Of a model. Whoever may not see its live objects sees no fields of them.
    pub fn new(found: &FoundModel<'_>) -> Self {
        let changes = match found.details.objects {
            true => ChangeSet::new(&found.model.pending),
            false => ChangeSet::without_fields(&found.model.pending),
        };
        let commit = found.model.changed_by.as_ref().map(|commit| RevisionView::new(found.source, commit, None));
        let is_dirty = found.source.seen.as_ref().is_some_and(|seen| is_uncommitted(&seen.commit));
        let uncommitted = is_dirty && commit.is_none() && !found.model.pending.is_empty();
        Self { model: found.row.clone(), commit, uncommitted, changes }
    }
}

/// What an address asks of the list of changes: as of the list of models, and only those with changes.
///
/// # Errors
/// As for the list of models.
pub fn parse_changes_query(text: &str) -> Result<ModelQuery, ProblemDetails> {
    let mut query = ModelQuery::parse(text)?;
    query.filter.pending = Some(true);
    query.limit.get_or_insert(DEFAULT_CHANGED);
    Ok(query)
}

/// One page of the models that the next sync changes.
///
/// # Errors
/// Where the page is of another list.
pub fn pending_changes(all: &FleetObservation, query: &ModelQuery) -> Result<ChangeListView, ProblemDetails> {
    let page = all.models(query)?;
    let found = page.rows.iter().map(|row| all.model(&row.namespace, &row.name));
    let items = found.map(|found| found.map(|found| PendingView::new(&found))).collect::<Result<_, _>>();
    // Rows and models are of the same observation.
    let items = items.map_err(|_: ProblemDetails| ProblemDetails::new(ProblemKind::NotFound))?;
    Ok(ChangeListView { items, metadata: page.metadata, notices: all.notices() })
}
