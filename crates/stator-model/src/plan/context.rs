//! The cluster as a plan looks at it: objects by identity, records by model, and whose an object is.

use super::names::Rename;
use super::ownership::{OwnershipJudge, RecordFacts, RecordOwnership, TakeoverCause};
use super::{
    ForeignOwner, HoldKind, InventoryEntry, KeptBy, LeftoverJournal, OwnerRelation, PlanInput, Record, SourceClaim,
    SourceIdentity, SyncBookkeeping, UnlistedKind, applyset,
};
use crate::render::RenderedText;
use serde_json::Value;
use stator_core::deployment_tools::{self, ToolTracking};
use stator_core::dynamo::kinds::{
    FIELD_MANAGER, GRAPH, JOURNAL, LABEL_ENVIRONMENT, LABEL_MODEL, LABEL_OWNER_ID, LABEL_REPOSITORY, RECORD, REQUEST,
};
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The cluster's side of a plan, indexed. The maps are only ever asked, never walked, so their order cannot show.
pub(super) struct PlanContext<'a> {
    pub(super) input: &'a PlanInput,
    live: HashMap<ObjectIdentity, &'a ObjectText>,
    inventory: HashMap<ObjectIdentity, (&'a Record, &'a InventoryEntry)>,
    unreadable: HashMap<ObjectIdentity, &'a str>,
    records: BTreeMap<&'a str, &'a Record>,
    takeovers: BTreeMap<&'a str, TakeoverCause>,
    elsewhere: BTreeSet<&'a str>,
    foreign_records: BTreeMap<&'a str, &'a Record>,
    /// What those name, by uid.
    foreign_objects: HashMap<&'a str, &'a Record>,
    rendered: HashSet<&'a str>,
    /// What git wants, each graph under the name that it has.
    models: Vec<Cow<'a, RenderedText>>,
    /// Graphs that are replaced while both run: what takes the place of each.
    replaced: HashMap<ObjectIdentity, ObjectRef>,
    /// Models that git no longer has, with what takes the place of each.
    renames: BTreeMap<String, Rename>,
    /// The label of what the source applies.
    owner_id: Option<String>,
}

/// The labels that say whose an object is.
struct OwnerMarks<'a> {
    owner_id: Option<&'a str>,
    repository: &'a str,
    environment: &'a str,
}

impl OwnerMarks<'_> {
    /// Whether labels are these. What has no owner's label is from before there was one, and is known by its names.
    fn are_on(&self, labels: &BTreeMap<&str, &str>) -> bool {
        let is_owner = match labels.get(LABEL_OWNER_ID) {
            Some(id) => self.owner_id == Some(*id),
            None => labels.get(LABEL_REPOSITORY) == Some(&self.repository),
        };
        is_owner && labels.get(LABEL_ENVIRONMENT) == Some(&self.environment)
    }
}

/// What of a live object says which source's it is.
pub(super) struct SourceMarks<'a> {
    reference: Cow<'a, ObjectRef>,
    uid: Option<&'a str>,
    labels: BTreeMap<&'a str, &'a str>,
}

impl<'a> SourceMarks<'a> {
    pub(super) fn of(object: &'a Object) -> Self {
        Self { reference: Cow::Owned(object.reference()), uid: object.uid(), labels: object.labels() }
    }

    pub(super) fn of_text(object: &'a ObjectText) -> Self {
        Self { reference: Cow::Borrowed(object.reference()), uid: object.uid(), labels: object.labels() }
    }
}

/// Whose a live object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LiveOwnership {
    /// stator's, for this repository and environment.
    Ours,
    /// Nobody's that says so, or another tool's, which may let go of it.
    Unowned(Option<ToolTracking>),
    /// Somebody else's.
    Foreign(ForeignOwner),
}

impl<'a> PlanContext<'a> {
    pub(super) fn new(input: &'a PlanInput) -> Self {
        let judge = judge_for(input);
        let (mut records, mut foreign_records) = (BTreeMap::new(), BTreeMap::new());
        let (mut takeovers, mut elsewhere) = (BTreeMap::new(), BTreeSet::new());
        for record in &input.records {
            let model = record.model.as_str();
            match judge.judge(&facts_of(record)) {
                RecordOwnership::Own => {}
                RecordOwnership::TakenOver(cause) => drop(takeovers.insert(model, cause)),
                RecordOwnership::Elsewhere => drop(elsewhere.insert(model)),
                RecordOwnership::Foreign => {
                    foreign_records.insert(model, record);
                    continue;
                }
            }
            records.insert(model, record);
        }
        let foreign_entries = foreign_records.values().flat_map(|record: &&Record| {
            record.inventory.iter().filter_map(|entry| Some((entry.uid.as_deref()?, *record)))
        });
        let foreign_objects = foreign_entries.collect();
        let inventory = records
            .values()
            .flat_map(|record: &&Record| {
                record.inventory.iter().map(|entry| (entry.object.identity(), (*record, entry)))
            })
            .collect();
        Self {
            input,
            live: input.strays.iter().chain(&input.live).map(|text| (text.reference().identity(), text)).collect(),
            inventory,
            unreadable: input.unreadable.iter().map(|one| (one.object.identity(), one.message.as_str())).collect(),
            records,
            takeovers,
            elsewhere,
            foreign_records,
            foreign_objects,
            rendered: input.rendered.iter().map(|one| one.model.as_str()).collect(),
            models: input.rendered.iter().map(Cow::Borrowed).collect(),
            replaced: HashMap::new(),
            renames: BTreeMap::new(),
            owner_id: input.owner.as_ref().map(|claim| claim.identity.owner_id()),
        }
    }

    /// The same with every graph that git wants under the name that it has, and with what takes the place of what.
    pub(super) fn with_placed_graphs(
        self,
        models: Vec<Cow<'a, RenderedText>>,
        replaced: Vec<(ObjectRef, ObjectRef)>,
    ) -> Self {
        let replaced = replaced.into_iter().map(|(old, new)| (old.identity(), new)).collect();
        Self { models, replaced, ..self }
    }

    /// The same with what takes the place of models that git no longer has.
    pub(super) fn with_renames(self, renames: BTreeMap<String, Rename>) -> Self {
        Self { renames, ..self }
    }

    /// Models that git no longer has, with what takes the place of each.
    pub(super) fn renames(&self) -> &BTreeMap<String, Rename> {
        &self.renames
    }

    /// What takes the place of a model that git no longer has.
    pub(super) fn rename_of(&self, model: &str) -> Option<&Rename> {
        self.renames.get(model)
    }

    /// What git wants, each graph under the name that it has.
    pub(super) fn models(&self) -> impl Iterator<Item = &RenderedText> {
        self.models.iter().map(Cow::as_ref)
    }

    /// The graph that takes the place of a graph, while both run.
    pub(super) fn successor_of(&self, graph: &ObjectRef) -> Option<&ObjectRef> {
        self.replaced.get(&graph.identity())
    }

    /// The graph whose place a graph takes, while both run.
    pub(super) fn outgoing_graph_of(&self, graph: &ObjectRef) -> Option<Object> {
        let (old, _) = self.replaced.iter().find(|(_, new)| *new == graph)?;
        self.live.get(old).map(|text| text.parse())
    }

    /// The live object, parsed: whoever looks at it more than once keeps it.
    pub(super) fn live(&self, object: &ObjectRef) -> Option<Object> {
        self.live_text(object).map(ObjectText::parse)
    }

    /// The live object as text.
    pub(super) fn live_text(&self, object: &ObjectRef) -> Option<&'a ObjectText> {
        self.live.get(&object.identity()).copied()
    }

    /// What a dry run made of the live object, where the cluster was asked about this very version of it.
    pub(super) fn dry_run_of(&self, live: &Object) -> Option<&'a Object> {
        let result = self.input.answers.dry_runs.get(&live.reference().identity())?;
        (result.uid() == live.uid() && result.resource_version() == live.resource_version()).then_some(result)
    }

    /// The graph that a live request made, where it is there and says so itself.
    pub(super) fn graph_made_by(&self, request: &Object) -> Option<Object> {
        let graph = self.live(&graph_made_by(request)?)?;
        (graph.labels().get(LABEL_REQUEST_NAME) == Some(&request.name())).then_some(graph)
    }

    /// Why a live object cannot be read, when it is there and cannot.
    pub(super) fn unreadable_reason(&self, object: &ObjectRef) -> Option<&'a str> {
        self.unreadable.get(&object.identity()).copied()
    }

    /// Why objects of a kind cannot be listed, when something needs them and they cannot.
    pub(super) fn unlisted_kind(&self, kind: &str) -> Option<&'a UnlistedKind> {
        self.input.unlisted.iter().find(|one| one.kind.kind == kind)
    }

    /// True when a record of this model is there and cannot be read.
    pub(super) fn is_record_unreadable(&self, model: &str) -> bool {
        self.input.unreadable.iter().any(|one| one.object.kind == RECORD.kind && one.object.name == model)
    }

    /// Why a model has no record that stator may write, when another tool holds it.
    pub(super) fn foreign_record_reason(&self, model: &str) -> Option<&'a str> {
        let mut records = self.input.unreadable.iter().filter(|one| one.is_foreign && one.object.kind == RECORD.kind);
        records.find(|one| one.object.name == model).map(|one| one.message.as_str())
    }

    /// This repository's and environment's records, by model.
    pub(super) fn records(&self) -> &BTreeMap<&'a str, &'a Record> {
        &self.records
    }

    /// True when git has a model of this name that can be rendered.
    pub(super) fn renders(&self, model: &str) -> bool {
        self.rendered.contains(model)
    }

    /// Why the record of a model becomes this source's, when it said another owner or none; and that record.
    pub(super) fn takeovers(&self) -> impl Iterator<Item = (TakeoverCause, &'a Record)> {
        self.takeovers.iter().filter_map(|(model, cause)| Some((*cause, *self.records.get(model)?)))
    }

    /// Whose a model was that is moved here because somebody allowed it.
    pub(super) fn moved_from(&self, model: &str) -> Option<ForeignOwner> {
        let record = self.records.get(model)?;
        (self.takeovers.get(model) == Some(&TakeoverCause::Moved)).then(|| owner_of_record(record))
    }

    /// Models whose record is somebody else's. Sorted.
    pub(super) fn foreign_models(&self) -> impl Iterator<Item = &'a str> {
        self.foreign_records.keys().copied()
    }

    /// Whose the record of a model is, when it is somebody else's.
    pub(super) fn foreign_record_owner(&self, model: &str) -> Option<ForeignOwner> {
        self.foreign_records.get(model).map(|record| owner_of_record(record))
    }

    /// Models of another folder: see [`Self::other_folder_reason`]. Sorted.
    pub(super) fn other_folder_models(&self) -> impl Iterator<Item = &'a str> {
        self.elsewhere.iter().copied()
    }

    /// Why a model is another folder's, when it is: folders that no `stator.yaml` names share one name, so that only
    /// the record tells them apart. What this folder has is its own, wherever it was synced from before.
    pub(super) fn other_folder_reason(&self, model: &str) -> Option<KeptBy> {
        let record = self.records.get(self.elsewhere.get(model)?)?;
        Some(KeptBy::OtherFolder { folder: record.folder.clone(), repository: self.input.repository.clone() })
    }

    /// A journal that is there and cannot be read: what it names may be anything.
    pub(super) fn unread_journal(&self) -> Option<&'a ObjectRef> {
        self.input.unreadable.iter().map(|one| &one.object).find(|object| object.kind == JOURNAL.kind)
    }

    /// What the records say of an object.
    pub(super) fn inventory_entry(&self, object: &ObjectRef) -> Option<(&'a Record, &'a InventoryEntry)> {
        self.inventory.get(&object.identity()).copied()
    }

    /// Whose a live object is. Labels can be copied with a manifest, so they count only with the field manager, and a
    /// recorded uid counts by itself.
    pub(super) fn ownership_of(&self, object: &Object) -> LiveOwnership {
        if let Some(foreign) = foreign_owner(object) {
            return LiveOwnership::Foreign(foreign);
        }
        let other = self.other_source(&SourceMarks::of(object));
        let is_moved = other.is_some() && self.is_to_move(object);
        if let Some(other) = other.filter(|_| !is_moved) {
            return LiveOwnership::Foreign(other);
        }
        let labels = object.labels();
        let own = model_of(object).map(|model| applyset::id_of(model, object.namespace()));
        if labels.get(applyset::PART_OF).is_some_and(|set| Some(*set) != own.as_deref()) {
            return LiveOwnership::Foreign(ForeignOwner::ApplySet);
        }
        if let Some(tracking) = deployment_tools::tracking_of(object) {
            return LiveOwnership::Unowned(Some(tracking));
        }
        let recorded = self.inventory_entry(&object.reference()).and_then(|(_, entry)| entry.uid.as_deref());
        let known = recorded.is_some() && recorded == object.uid();
        if known || ((self.has_source_labels(&SourceMarks::of(object)) || is_moved) && is_applied_by_stator(object)) {
            LiveOwnership::Ours
        } else {
            LiveOwnership::Unowned(None)
        }
    }

    /// True when the labels say that the object is this source's, for this environment; or whose it was, where its record
    /// is taken over.
    pub(super) fn has_source_labels(&self, object: &SourceMarks<'_>) -> bool {
        let labels = &object.labels;
        let own = OwnerMarks {
            owner_id: self.owner_id.as_deref(),
            repository: &self.input.repository,
            environment: &self.input.environment,
        };
        own.are_on(labels)
            || self.inventory_entry(&object.reference).is_some_and(|(record, _)| {
                let owner_id = record.owner.as_ref().map(SourceIdentity::owner_id);
                let (repository, environment) = (&record.repository, &record.environment);
                OwnerMarks { owner_id: owner_id.as_deref(), repository, environment }.are_on(labels)
            })
    }

    /// Which other source an object belongs to, as its labels or somebody else's record say.
    pub(super) fn other_source(&self, object: &SourceMarks<'_>) -> Option<ForeignOwner> {
        if let Some(record) = object.uid.and_then(|uid| self.foreign_objects.get(uid)) {
            return Some(owner_of_record(record));
        }
        let labels = &object.labels;
        let (owner_id, repository) = (labels.get(LABEL_OWNER_ID), labels.get(LABEL_REPOSITORY));
        let environment = labels.get(LABEL_ENVIRONMENT).copied();
        let has_owner = match (owner_id, repository) {
            (Some(id), _) => self.owner_id.as_deref() == Some(*id),
            (None, Some(repository)) => *repository == self.input.repository,
            (None, None) => return None,
        };
        let is_ours = has_owner && environment.is_none_or(|environment| environment == self.input.environment);
        if is_ours || self.has_source_labels(object) {
            return None;
        }
        let is_named_here = repository.is_none_or(|repository| *repository == self.input.repository)
            && environment.is_none_or(|environment| environment == self.input.environment);
        if let Some(id) = owner_id.filter(|_| is_named_here) {
            // Its names are this source's, so that they tell nothing.
            return Some(ForeignOwner::OwnerLabel { id: (*id).to_owned() });
        }
        let repository = repository.copied().unwrap_or_default().to_owned();
        let environment = environment.unwrap_or_default().to_owned();
        Some(ForeignOwner::Repository { repository, environment })
    }

    /// Whether somebody allowed to take an object over from another source. Only what git wants is: nothing is ever
    /// pruned that way.
    fn is_to_move(&self, object: &Object) -> bool {
        self.input.allow.contains(&HoldKind::Move) && model_of(object).is_some_and(|model| self.renders(model))
    }
}

/// What judges the records of a plan's input.
fn judge_for(input: &PlanInput) -> OwnershipJudge<'_> {
    let rendered = input.rendered.iter().map(|one| (Some(one.model.as_str()), one.source.as_str()));
    let git: Vec<_> =
        rendered.chain(input.broken.iter().map(|one| (one.name.as_deref(), one.source.as_str()))).collect();
    let wanted: HashSet<&str> = git.iter().filter_map(|(model, _)| *model).collect();
    let claim = input.owner.as_ref();
    let is_other = |claim: &&SourceClaim| {
        input.records.iter().any(|record| record.owner.as_ref().is_some_and(|owner| *owner != claim.identity))
    };
    // Nearly every time nobody asks for them.
    let asked = claim.filter(is_other);
    let files = asked.iter().flat_map(|claim| git.iter().flat_map(|(_, source)| claim.files(source))).collect();
    let allows = input.allow.contains(&HoldKind::Move);
    let movable = wanted.iter().copied().filter(|model| allows && input.scope.covers(model)).collect();
    OwnershipJudge {
        claim,
        repository: &input.repository,
        environment: &input.environment,
        folder: input.folder.as_deref(),
        wanted,
        files,
        movable,
    }
}

fn facts_of(record: &Record) -> RecordFacts<'_> {
    RecordFacts {
        model: &record.model,
        repository: &record.repository,
        environment: &record.environment,
        source: &record.source,
        folder: record.folder.as_deref(),
        owner: record.owner.as_ref(),
    }
}

/// The records that are the source's, or become it with the next sync, and those of other folders of its name, which are
/// shown beside them. Not those of another owner.
pub(super) fn own_records(input: &PlanInput) -> Vec<&Record> {
    let judge = judge_for(input);
    let is_own = |record: &&Record| match judge.judge(&facts_of(record)) {
        RecordOwnership::Own | RecordOwnership::TakenOver(_) | RecordOwnership::Elsewhere => true,
        RecordOwnership::Foreign => false,
    };
    input.records.iter().filter(is_own).collect()
}

/// What the cluster remembers of the source: its records, those of other folders of its name that are shown beside them,
/// and what its syncs left of their journals. Not what another owner has.
pub fn own_bookkeeping(input: &PlanInput) -> SyncBookkeeping {
    let records: Vec<Record> = own_records(input).into_iter().cloned().collect();
    let is_own = |left: &&LeftoverJournal| {
        let LeftoverJournal { journal, open_models } = left;
        let is_same_source = match (&input.owner, &journal.owner) {
            (Some(claim), Some(owner)) => claim.identity.relation_to(owner) != OwnerRelation::Foreign,
            (Some(_) | None, None) | (None, Some(_)) => journal.repository == input.repository,
        };
        // What is taken over with its record may be of another one.
        (is_same_source && journal.environment == input.environment)
            || records.iter().any(|record| record.is_stale && open_models.contains(&record.model))
    };
    let journals = input.journals.iter().filter(is_own).cloned().collect();
    SyncBookkeeping { records, journals }
}

/// Whose a record is.
fn owner_of_record(record: &Record) -> ForeignOwner {
    let environment = record.environment.clone();
    match &record.owner {
        Some(owner) => ForeignOwner::Source { owner: owner.describe(), environment },
        None => ForeignOwner::Repository { repository: record.repository.clone(), environment },
    }
}

/// The label by which a graph names the request that made it.
const LABEL_REQUEST_NAME: &str = "dgdr.nvidia.com/name";

/// The graph that a request says it made (`status.dgdName`); none for other kinds.
pub fn graph_made_by(request: &Object) -> Option<ObjectRef> {
    if request.kind() != REQUEST.kind {
        return None;
    }
    Some(GRAPH.reference(request.namespace(), request.str_at("/status/dgdName").filter(|name| !name.is_empty())?))
}

/// The request that made a graph, as its label says.
pub(super) fn request_of(graph: &Object) -> Option<&str> {
    graph.labels().get(LABEL_REQUEST_NAME).copied()
}

/// The model that an object's label names.
pub(super) fn model_of(object: &Object) -> Option<&str> {
    object.labels().get(LABEL_MODEL).copied()
}

/// True when stator has applied the object: it has an entry among the field managers.
pub(super) fn is_applied_by_stator(object: &Object) -> bool {
    object.value().pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(|entries| {
        entries.iter().any(|entry| {
            entry.get("manager").and_then(Value::as_str) == Some(FIELD_MANAGER)
                && entry.get("operation").and_then(Value::as_str) == Some("Apply")
        })
    })
}

/// The other object that an object belongs to, whatever stator's labels say.
fn foreign_owner(object: &Object) -> Option<ForeignOwner> {
    let labels = object.labels();
    if let Some(request) = labels.get(LABEL_REQUEST_NAME) {
        return Some(ForeignOwner::Request { request: (*request).to_owned() });
    }
    let owner = object.value().pointer("/metadata/ownerReferences/0")?;
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or("?").to_owned();
    Some(ForeignOwner::Owner { kind: text("kind"), name: text("name") })
}
