//! Everything of one model.

use crate::changes::{ChangeSet, PendingView};
use crate::models::{ComponentCount, ModelRow};
use crate::observation::FoundModel;
use crate::problem::{ProblemDetails, ProblemKind};
use crate::reader::EVENTS_RIGHT;
use crate::sources::RevisionView;
use crate::way_out::{EndpointView, LinkView, endpoints, links};
use crate::words::health_schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use stator_core::dynamo::component_readiness::component_readiness;
use stator_core::dynamo::gpus;
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{self, ADAPTER, ObjectKind};
use stator_core::mask;
use stator_core::object::{Object, ObjectRef, ObjectText};
use stator_model::plan::{Action, FieldDrift, Record, RecordCondition, SyncHistoryEntry};
use std::collections::{BTreeMap, BTreeSet};

/// All details of one model.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Model")]
pub struct ModelView {
    /// As lists show it.
    #[serde(flatten)]
    pub row: ModelRow,
    /// Its status.
    #[serde(flatten)]
    pub status: ModelStatusView,
    /// Fields that were changed in the cluster although git did not change.
    pub drift: Vec<DriftView>,
    /// Its objects.
    pub objects: Vec<ObjectView>,
    /// The newest commit that changed its files; absent where no change is pending, or git does not tell.
    pub pending_commit: Option<RevisionView>,
    /// Whether its change is not committed.
    pub uncommitted: bool,
    /// What the next sync does.
    pub pending: ChangeSet,
    /// The last syncs, newest first.
    pub history: Vec<HistoryEntryView>,
    /// Its recent Kubernetes Events, newest first.
    pub events: Vec<EventView>,
    /// Where clients reach it, as its live objects tell.
    pub endpoints: Vec<EndpointView>,
    /// Other tools that show it.
    pub links: Vec<LinkView>,
    /// Commands that show more of it.
    pub commands: Vec<CommandView>,
    /// The parts left out, because the viewer may not see them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub withheld: Vec<String>,
}

/// The status of one model.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelStatus")]
pub struct ModelStatusView {
    /// Path of its `model.yaml`, or where it was.
    pub file: String,
    /// Its environment, once that is known.
    pub environment: Option<String>,
    /// The main kind: a graph or a request; empty when nothing of it is left.
    pub kind: String,
    /// When its main object was created, RFC 3339; absent when it is not there.
    pub created: Option<String>,
    /// Each component of its graphs.
    pub replicas: Vec<ReplicasView>,
    /// Its status when its record was last written.
    pub conditions: Vec<RecordCondition>,
    /// The repository and the environment that its record names; absent before the first sync.
    pub recorded_for: Option<String>,
}

/// The status of one model, without its details.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelStatusReport")]
pub struct ModelStanding {
    /// As lists show it.
    #[serde(flatten)]
    pub row: ModelRow,
    /// Its status.
    #[serde(flatten)]
    pub status: ModelStatusView,
}

/// The replicas of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Replicas")]
pub struct ReplicasView {
    /// The graph.
    pub graph: String,
    /// The component.
    pub component: String,
    /// Replicas that are ready.
    pub ready: u64,
    /// Replicas that the graph asks for.
    pub wanted: u64,
    /// GPUs of all its replicas.
    pub gpus: u64,
    /// Their SKU; `unknown` where nothing names it.
    pub gpu_sku: String,
}

/// One drifted field.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Drift")]
pub struct DriftView {
    /// Which object: `DynamoGraphDeployment prod/llama`.
    pub object: String,
    /// Which field; empty where the object is gone.
    pub path: String,
    /// The value in git; `null` when there is none.
    pub want: Value,
    /// The value in the cluster; `null` when there is none.
    pub have: Value,
    /// The field manager that owns it there; empty if nobody recorded who changed it, as when a file of the embedded
    /// cluster is edited.
    pub owner: String,
    /// When that field manager last wrote the object, or when the change was seen, RFC 3339; absent if unknown.
    pub since: Option<String>,
}

/// One object of a model.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelObject")]
pub struct ObjectView {
    /// `group/version`, or `v1` for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// What a sync would do with it.
    pub action: Action,
    /// Its health.
    #[schemars(schema_with = "health_schema")]
    pub health: Health,
    /// Why, in a sentence.
    pub message: String,
    /// When it was created, RFC 3339; absent where it is not there.
    pub created: Option<String>,
    /// Its uid; absent where it is not there.
    pub uid: Option<String>,
}

/// One sync, with what git tells of its commit.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HistoryEntry")]
pub struct HistoryEntryView {
    /// What was recorded.
    #[serde(flatten)]
    pub sync: SyncHistoryEntry,
    /// The name of the commit's author; absent where the repository does not tell.
    pub author: Option<String>,
    /// The first line of the commit's message.
    pub title: Option<String>,
    /// The commit's page at the git host.
    pub page: Option<String>,
}

/// An Event of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Event")]
pub struct EventView {
    /// When it last happened, RFC 3339 in UTC.
    pub time: String,
    /// The object: its kind and its name.
    pub object: String,
    /// Whether it is a warning.
    pub warning: bool,
    /// Why, in a word.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// A live object, with secrets hidden.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Manifest")]
pub struct ManifestView {
    /// The object: `DynamoGraphDeployment prod/llama`.
    pub object: String,
    /// The same as YAML, without `metadata.managedFields`; what looks like a secret is hidden.
    pub yaml: String,
}

/// A command to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Command")]
pub struct CommandView {
    /// What it shows.
    pub purpose: String,
    /// The command, quoted for a shell.
    pub command: String,
}

/// Many of one kind, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ListOf{T}")]
pub struct ItemList<T> {
    /// All of them.
    pub items: Vec<T>,
}

impl ModelView {
    /// Of a model.
    pub fn new(found: &FoundModel<'_>) -> Self {
        let pending = PendingView::new(found);
        Self {
            row: found.row.clone(),
            status: ModelStatusView::new(found),
            drift: drift(found),
            objects: objects(found),
            pending_commit: pending.commit,
            uncommitted: pending.uncommitted,
            pending: pending.changes,
            history: history(found),
            events: events(found),
            endpoints: endpoints(found),
            links: links(found),
            commands: commands(found),
            withheld: withheld(found),
        }
    }

    /// Its components, where it has a graph.
    pub fn components(&self) -> Option<ComponentCount> {
        self.row.components
    }

    /// Its LoRA adapters.
    pub fn adapters(&self) -> Vec<&ObjectView> {
        self.objects.iter().filter(|object| object.kind == ADAPTER.kind).collect()
    }
}

impl ModelStatusView {
    fn new(found: &FoundModel<'_>) -> Self {
        let FoundModel { source, model, row: _, details, links: _ } = found;
        let record = model.record.as_ref();
        Self {
            file: model.status.source.clone(),
            environment: source.environment.clone(),
            kind: model.status.kind.clone(),
            created: model.status.created.clone(),
            replicas: model.graphs().filter(|_| details.objects).flat_map(|graph| replicas(&graph)).collect(),
            conditions: record
                .and_then(|record| record.state.as_ref())
                .map(|state| state.conditions.clone())
                .unwrap_or_default(),
            recorded_for: record.map(recorded_for),
        }
    }
}

impl ModelStanding {
    /// Of a model.
    pub fn new(found: &FoundModel<'_>) -> Self {
        Self { row: found.row.clone(), status: ModelStatusView::new(found) }
    }
}

fn recorded_for(record: &Record) -> String {
    format!("{} / {}", record.repository, record.environment)
}

fn replicas(graph: &Object) -> Vec<ReplicasView> {
    let gpus: BTreeMap<String, gpus::ComponentGpus> =
        gpus::gpu_use(graph).components.into_iter().map(|one| (one.name.clone(), one)).collect();
    component_readiness(graph)
        .into_iter()
        .map(|one| {
            let own = gpus.get(&one.name);
            ReplicasView {
                graph: graph.name().to_owned(),
                ready: one.ready,
                wanted: one.wanted,
                gpus: own.map_or(0, gpus::ComponentGpus::total),
                gpu_sku: own.map_or(gpus::UNKNOWN_SKU, |own| own.sku()).to_owned(),
                component: one.name,
            }
        })
        .collect()
}

/// The drifted fields of a model.
pub fn drift(found: &FoundModel<'_>) -> Vec<DriftView> {
    let since = |field: &FieldDrift| {
        let mut objects = found.model.live.iter().filter(|object| object.reference().to_string() == field.object);
        let recorded = last_write(&objects.next()?.parse(), &field.owner);
        // What nobody recorded was seen to happen, or is as old as this process.
        let seen = || found.model.since.filter(|since| !since.at_least).map(|since| since.time.to_string());
        if field.owner.is_empty() { seen() } else { recorded }
    };
    let fields = found.model.status.drift.iter().filter(|_| found.details.objects).cloned();
    fields
        .map(|field| DriftView {
            since: since(&field),
            object: field.object,
            path: field.path,
            want: field.want,
            have: field.have,
            owner: field.owner,
        })
        .collect()
}

/// When a field manager last wrote an object.
fn last_write(object: &Object, manager: &str) -> Option<String> {
    let entries = object.value().pointer("/metadata/managedFields")?.as_array()?;
    let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    let own = entries.iter().filter(|entry| text(entry, "manager").as_deref() == Some(manager));
    // RFC 3339 in UTC sorts as text.
    own.filter_map(|entry| text(entry, "time")).max()
}

/// The objects of a model.
pub fn objects(found: &FoundModel<'_>) -> Vec<ObjectView> {
    let live = |wanted: &ObjectRef| {
        let identity = wanted.identity();
        found.model.live.iter().find(|object| object.reference().identity() == identity).map(ObjectText::parse)
    };
    let objects = found.model.status.objects.iter().filter(|_| found.details.objects);
    objects
        .map(|status| {
            let live = live(&status.object);
            let ObjectRef { api_version, kind, namespace, name } = status.object.clone();
            ObjectView {
                api_version,
                kind,
                namespace,
                name,
                action: status.action,
                health: status.health,
                message: status.message.clone(),
                created: live.as_ref().and_then(|live| live.str_at("/metadata/creationTimestamp")).map(str::to_owned),
                uid: live.as_ref().and_then(Object::uid).map(str::to_owned),
            }
        })
        .collect()
}

/// The last syncs of a model, newest first.
pub fn history(found: &FoundModel<'_>) -> Vec<HistoryEntryView> {
    let entries = found.model.record.as_ref().map(|record| record.history.clone()).unwrap_or_default();
    let view = |sync: SyncHistoryEntry| {
        let RevisionView { author, title, page, .. } = RevisionView::new(found.source, &sync.revision, None);
        HistoryEntryView { sync, author, title, page }
    };
    entries.into_iter().map(view).collect()
}

/// What the cluster's controllers said of a model lately, newest first.
pub fn events(found: &FoundModel<'_>) -> Vec<EventView> {
    let newest_first = found.model.events.iter().rev().filter(|_| found.details.events);
    newest_first
        .map(|event| EventView {
            time: event.time.clone(),
            object: event.object.clone(),
            warning: event.warning,
            reason: event.reason.clone(),
            message: event.message.clone(),
            count: event.count,
        })
        .collect()
}

/// The live objects of a model as YAML.
pub fn manifests(found: &FoundModel<'_>) -> Vec<ManifestView> {
    let manifest = |object: &ObjectText| {
        let mut value = object.parse().into_value();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        mask::redact_value(&mut value);
        // What was read as JSON always has a YAML form.
        let yaml = serde_saphyr::to_string(&value).unwrap_or_default();
        ManifestView { object: object.reference().to_string(), yaml }
    };
    found.model.live.iter().filter(|_| found.details.objects).map(manifest).collect()
}

/// What is left out of a model's views, and the right that it takes.
fn withheld(found: &FoundModel<'_>) -> Vec<String> {
    [check_objects(found), check_events(found)].into_iter().filter_map(|one| one.err()?.detail).collect()
}

/// That whoever looks may see the live objects.
///
/// # Errors
/// Where they may not.
pub fn check_objects(found: &FoundModel<'_>) -> Result<(), ProblemDetails> {
    let is_allowed = found.details.objects;
    check(found, is_allowed, "Live objects, their components and drift are", "get` each kind of them")
}

/// That whoever looks may see what is said of its objects.
///
/// # Errors
/// Where they may not.
pub fn check_events(found: &FoundModel<'_>) -> Result<(), ProblemDetails> {
    let right = format!("{} {}`", EVENTS_RIGHT.verb, EVENTS_RIGHT.resource);
    check(found, found.details.events, "Events are", &right)
}

fn check(found: &FoundModel<'_>, is_allowed: bool, what: &str, right: &str) -> Result<(), ProblemDetails> {
    if is_allowed {
        return Ok(());
    }
    let namespace = &found.model.status.namespace;
    let detail = format!("{what} visible only with the right to `{right} in namespace {namespace}.");
    Err(ProblemDetails::new(ProblemKind::Forbidden).with_detail(detail))
}

/// The kinds of a model's objects, all of which one has to be allowed to `get` to see them; `None` where one is not known.
pub fn object_kinds(found: &FoundModel<'_>) -> Option<BTreeSet<ObjectKind>> {
    let live = found.model.live.iter().map(ObjectText::kind);
    let named = found.model.status.objects.iter().map(|one| one.object.kind.as_str());
    let kinds = live.chain(named).map(|kind| kinds::by_name(kind).copied());
    kinds.chain([Some(kinds::GRAPH)]).collect()
}

/// Commands that show more of a model.
pub fn commands(found: &FoundModel<'_>) -> Vec<CommandView> {
    let FoundModel { source, model, row: _, details: _, links: _ } = found;
    let name = model.status.name.as_str();
    let mut commands = Vec::new();
    let mut add = |purpose: &str, words: Vec<&str>| {
        // A name with a null byte cannot be quoted, and is no name.
        if let Ok(command) = shlex::try_join(words) {
            commands.push(CommandView { purpose: purpose.to_owned(), command });
        }
    };
    let options = source.command_options.iter().map(String::as_str);
    if !source.command_options.is_empty() {
        add("All details of the model", ["stator", "describe", name].into_iter().chain(options.clone()).collect());
        add("The results of the last syncs", ["stator", "history", name].into_iter().chain(options).collect());
    }
    if source.is_kubernetes {
        let namespace = model.status.namespace.as_str();
        let context: Vec<&str> = source.cluster.iter().flat_map(|context| ["--context", context]).collect();
        let words = vec!["kubectl", "get", "models.stator.dev", name, "-n", namespace, "-o", "yaml"];
        add("Its record", words.into_iter().chain(context.clone()).collect());
        for object in &model.status.objects {
            let reference = &object.object;
            let Some(kind) = kinds::by_name(&reference.kind) else { continue };
            let plural =
                if kind.group.is_empty() { kind.plural.to_owned() } else { format!("{}.{}", kind.plural, kind.group) };
            let words = vec!["kubectl", "describe", &plural, &reference.name, "-n", &reference.namespace];
            add(&reference.to_string(), words.into_iter().chain(context.clone()).collect());
        }
    }
    commands
}
