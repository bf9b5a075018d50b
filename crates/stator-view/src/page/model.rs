//! The page of one model.

use super::changes::ChangeSetText;
use super::frame::{PageFrame, PageSection};
use super::models::{RowText, health_class, model_address};
use super::source::source_address;
use super::text::{CommitText, ProseText, TimeText, amount_text, print, value_text};
use crate::form::FORM_FIELDS;
use crate::model::{CommandView, EventView, HistoryEntryView, ManifestView, ModelView, ObjectView, manifests};
use crate::models::{ModelQuery, ModelRow};
use crate::observation::FleetObservation;
use crate::problem::ProblemDetails;
use crate::way_out::{EndpointView, LinkView};
use crate::words::health_shape;
use askama::Template;
use jiff::Timestamp;
use stator_model::plan::{RecordCondition, abbreviate_revision};
use stator_model::present::status::format_age;
use std::collections::BTreeSet;

#[derive(Template)]
#[template(path = "model.html")]
struct ModelPage {
    frame: PageFrame,
    namespace_href: String,
    api_address: String,
    edit_address: String,
    source_address: Option<String>,
    row: RowText,
    sync: &'static str,
    facts: Vec<(&'static str, String)>,
    replicas: Vec<ReplicasText>,
    pending: Option<ChangeSetText>,
    pending_commit: Option<CommitText>,
    is_uncommitted: bool,
    drift: Vec<DriftText>,
    objects: Vec<ObjectLine>,
    history: Vec<HistoryText>,
    events: Vec<EventText>,
    conditions: Vec<ConditionText>,
    /// Whether a change can be proposed from here.
    is_edited: bool,
    tree_address: String,
    /// Where logs are; `None` where there are no pods.
    log_address: Option<String>,
    endpoints: Vec<EndpointView>,
    links: Vec<LinkView>,
    commands: Vec<CommandView>,
    manifests: Vec<ManifestView>,
    withheld: Vec<ProseText>,
}

struct ReplicasText {
    component: String,
    graph: String,
    ready: u64,
    wanted: u64,
    gpus: String,
    /// The field of the form with its replicas, where there is one.
    field: Option<String>,
}

struct DriftText {
    object: String,
    path: String,
    want: String,
    have: String,
    owner: String,
    since: Option<TimeText>,
}

struct ObjectLine {
    name: String,
    action: &'static str,
    health: &'static str,
    health_shape: &'static str,
    health_class: &'static str,
    created: Option<TimeText>,
    message: ProseText,
}

struct HistoryText {
    time: TimeText,
    result: String,
    /// Where the form starts from the file as it was then.
    revert: Option<String>,
    commit: CommitText,
    message: ProseText,
    changes: Vec<String>,
}

struct EventText {
    time: TimeText,
    class: &'static str,
    reason: String,
    object: String,
    message: String,
}

struct ConditionText {
    kind: String,
    status: String,
    reason: String,
    since: TimeText,
    message: ProseText,
}

/// The page of the model of a namespace and a name.
///
/// # Errors
/// Where there is none.
pub fn model_page(
    observation: &FleetObservation,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<String, ProblemDetails> {
    let found = observation.model(namespace, name)?;
    let view = ModelView::new(&found);
    let row = RowText::new(&view.row, now);
    let mut of_namespace = ModelQuery::default();
    of_namespace.filter.namespace = BTreeSet::from([namespace.to_owned()]);
    Ok(print(&ModelPage {
        frame: PageFrame::live(format!("{namespace}/{name}"), PageSection::Models, observation, now),
        namespace_href: of_namespace.address("/"),
        api_address: format!("/api/v1{}", model_address(namespace, name)),
        source_address: (!found.source.is_withheld).then(|| source_address(found.source)),
        edit_address: format!("{}/edit", model_address(namespace, name)),
        sync: view.row.sync.as_str(),
        facts: facts(&view, &row, now),
        replicas: view
            .status
            .replicas
            .iter()
            .map(|one| ReplicasText {
                component: one.component.clone(),
                graph: one.graph.clone(),
                ready: one.ready,
                wanted: one.wanted,
                field: replicas_field(&one.component).filter(|_| found.source.cluster.is_none()),
                gpus: if one.gpus == 0 { "0".to_owned() } else { format!("{} {}", one.gpus, one.gpu_sku) },
            })
            .collect(),
        pending: (!view.pending.changes.is_empty()).then(|| ChangeSetText::new(&view.pending, None)),
        pending_commit: view.pending_commit.as_ref().map(CommitText::new),
        is_uncommitted: view.uncommitted,
        drift: view
            .drift
            .iter()
            .map(|field| DriftText {
                object: field.object.clone(),
                path: if field.path.is_empty() { "the whole object".to_owned() } else { field.path.clone() },
                want: value_text(&field.want),
                have: value_text(&field.have),
                owner: match field.owner.as_str() {
                    "" if found.source.is_kubernetes => "not recorded".to_owned(),
                    "" => "an edit of its file".to_owned(),
                    owner => owner.to_owned(),
                },
                since: field.since.as_ref().map(|since| TimeText::ago(since, now)),
            })
            .collect(),
        objects: view.objects.iter().map(|object| object_text(object, now)).collect(),
        history: view
            .history
            .iter()
            .map(|entry| HistoryText {
                revert: revert_address(&view.row, &entry.sync.revision).filter(|_| found.source.cluster.is_none()),
                ..history_text(entry, now)
            })
            .collect(),
        events: view.events.iter().map(|event| event_text(event, now)).collect(),
        conditions: view.status.conditions.iter().map(|condition| condition_text(condition, now)).collect(),
        is_edited: found.source.cluster.is_none(),
        tree_address: format!("{}/tree", model_address(namespace, name)),
        log_address: found.source.is_kubernetes.then(|| format!("{}/logs", model_address(namespace, name))),
        endpoints: view.endpoints.clone(),
        links: view.links.clone(),
        commands: view.commands.clone(),
        manifests: manifests(&found),
        withheld: view.withheld.iter().map(|one| ProseText::new(one)).collect(),
        row,
    }))
}

fn facts(view: &ModelView, row: &RowText, now: Timestamp) -> Vec<(&'static str, String)> {
    let status = &view.status;
    let components = view.components().map(|count| format!("{} of {} ready", count.ready, count.total));
    let last = view.row.last_sync.as_ref().map(|last| match format_age(&last.time, now).as_str() {
        "" => last.result.clone(),
        age => format!("{} {age} ago", last.result),
    });
    let created = status.created.as_ref().map(|created| format!("{} ago ({created})", format_age(created, now)));
    let adapters: Vec<String> =
        view.adapters().into_iter().map(|one| format!("{} {}", one.name, one.health.as_str())).collect();
    let rows = [
        ("Components", components),
        ("GPUs", Some(row.gpus.clone())),
        ("Cost", view.row.cost.as_ref().map(|cost| amount_text(&cost.currency, cost.per_hour))),
        ("Adapters", (!adapters.is_empty()).then(|| adapters.join(", "))),
        ("Source", Some(view.row.source.clone())),
        ("Environment", status.environment.clone()),
        ("File", Some(status.file.clone())),
        ("Revision", Some(view.row.revision.clone())),
        ("Last sync", last),
        ("Created", created),
        ("Recorded for", status.recorded_for.clone()),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?))).collect()
}

fn object_text(object: &ObjectView, now: Timestamp) -> ObjectLine {
    ObjectLine {
        name: format!("{} {}", object.kind, object.name),
        action: object.action.as_str(),
        health: object.health.as_str(),
        health_shape: health_shape(object.health),
        health_class: health_class(object.health),
        created: object.created.as_ref().map(|created| TimeText::ago(created, now)),
        message: ProseText::new(&object.message),
    }
}

/// The replicas of a worker or a frontend in the model.
fn replicas_field(component: &str) -> Option<String> {
    let pointer = format!("/spec/serving/{component}/replicas");
    FORM_FIELDS.iter().any(|field| field.pointer == pointer).then_some(pointer)
}

fn history_text(
    HistoryEntryView { sync: entry, author, title, page }: &HistoryEntryView,
    now: Timestamp,
) -> HistoryText {
    let time = TimeText::ago(&entry.time, now);
    HistoryText {
        time: TimeText {
            text: if time.text.is_empty() { entry.time.clone() } else { format!("{} ago", time.text) },
            ..time
        },
        result: entry.result.clone(),
        revert: None,
        commit: CommitText {
            commit: abbreviate_revision(&entry.revision),
            page: page.clone(),
            title: title.clone().unwrap_or_default(),
            author: author.clone().unwrap_or_default(),
        },
        message: ProseText::new(&entry.message),
        // What disrupts nothing needs no word for it.
        changes: entry.changes.iter().map(|one| one.trim_end_matches(" (none)").to_owned()).collect(),
    }
}

/// The form with the file as a commit has it; `None` for the commit that holds now, and for what was never committed.
fn revert_address(row: &ModelRow, revision: &str) -> Option<String> {
    let is_commit = matches!(revision.len(), 40 | 64) && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    let edit = format!("{}/edit", model_address(&row.namespace, &row.name));
    (is_commit && revision != row.revision).then(|| format!("{edit}?revision={revision}"))
}

fn event_text(event: &EventView, now: Timestamp) -> EventText {
    let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
    EventText {
        time: TimeText::ago(&event.time, now),
        class: if event.warning { "mild" } else { "" },
        reason: if event.warning { format!("▲ {}", event.reason) } else { event.reason.clone() },
        object: event.object.clone(),
        message: format!("{}{times}", event.message),
    }
}

fn condition_text(condition: &RecordCondition, now: Timestamp) -> ConditionText {
    ConditionText {
        kind: condition.kind.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        since: TimeText::ago(&condition.last_transition_time, now),
        message: ProseText::new(&condition.message),
    }
}
