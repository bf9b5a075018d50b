//! The pages of what the cluster has below a model, and of what its containers write.

use super::frame::{PageFrame, PageSection};
use super::models::model_address;
use super::text::{ProseText, TimeText, print};
use crate::observation::{FleetObservation, FoundModel};
use crate::pod_logs::{LogQuery, PodLogView};
use askama::Template;
use jiff::Timestamp;
use stator_core::dynamo::kinds::POD;
use stator_model::present::tree::{ObjectForest, ObjectNode, UnlistedResource};

#[derive(Template)]
#[template(path = "tree.html")]
struct TreePage {
    frame: PageFrame,
    place: ModelPlace,
    read: TimeText,
    rows: Vec<TreeRow>,
    unlisted: Vec<UnlistedResource>,
}

#[derive(Template)]
#[template(path = "log.html")]
struct LogPage {
    frame: PageFrame,
    place: ModelPlace,
    script: &'static str,
    follow: String,
    containers: Vec<ContainerRow>,
    title: String,
    is_previous: bool,
    lines: String,
    note: Option<ProseText>,
}

/// The model that a page is about.
struct ModelPlace {
    namespace: String,
    name: String,
    href: String,
}

struct TreeRow {
    /// How deep it is, as spaces before its name.
    depth: usize,
    kind: String,
    name: String,
    state: String,
    created: Option<TimeText>,
    message: ProseText,
    log: Option<String>,
}

struct ContainerRow {
    href: String,
    is_here: bool,
    pod: String,
    name: String,
    state: String,
    restarts: u64,
    /// Its log before the last restart, where there was one.
    previous: Option<String>,
}

impl ModelPlace {
    fn of(found: &FoundModel<'_>) -> Self {
        let (namespace, name) = (found.row.namespace.clone(), found.row.name.clone());
        Self { href: model_address(&namespace, &name), namespace, name }
    }
}

/// A page that is read once: nobody reads the cluster again while it is open.
fn frame(observation: &FleetObservation, title: String) -> PageFrame {
    PageFrame { reader: observation.reader.name.clone(), ..PageFrame::fixed(title, Some(PageSection::Models)) }
}

/// The page of everything below a model, down to its pods.
pub fn tree_page(
    observation: &FleetObservation,
    found: &FoundModel<'_>,
    forest: &ObjectForest,
    now: Timestamp,
) -> String {
    let place = ModelPlace::of(found);
    let mut rows = Vec::new();
    for model in &forest.models {
        add_rows(&mut rows, &model.objects, 0, &place.href, now);
    }
    print(&TreePage {
        frame: frame(observation, format!("Objects of {}", place.name)),
        place,
        read: TimeText { datetime: now.to_string(), text: "0s ago".to_owned() },
        rows,
        unlisted: forest.unlisted.clone(),
    })
}

fn add_rows(rows: &mut Vec<TreeRow>, nodes: &[ObjectNode], depth: usize, model: &str, now: Timestamp) {
    for node in nodes {
        let log = || LogQuery { pod: Some(node.name.clone()), ..LogQuery::default() }.address(&format!("{model}/logs"));
        rows.push(TreeRow {
            depth,
            kind: node.kind.clone(),
            name: node.name.clone(),
            state: node.state.clone(),
            created: node.created.as_ref().map(|created| TimeText::ago(created, now)),
            message: ProseText::new(&node.message),
            log: (node.kind == POD.kind).then(log),
        });
        add_rows(rows, &node.children, depth + 1, model, now);
    }
}

/// The page of the last lines of a container.
pub fn log_page(observation: &FleetObservation, found: &FoundModel<'_>, log: &PodLogView) -> String {
    let place = ModelPlace::of(found);
    let (page, api) = (format!("{}/logs", place.href), format!("/api/v1{}/logs", place.href));
    let of = |pod: &str, container: &str, previous: bool| LogQuery {
        pod: Some(pod.to_owned()),
        container: Some(container.to_owned()),
        previous,
        lines: log.query.lines,
        ..LogQuery::default()
    };
    let here = (log.query.pod.as_deref().unwrap_or_default(), log.query.container.as_deref().unwrap_or_default());
    let containers = log.containers.iter().map(|one| ContainerRow {
        href: of(&one.pod, &one.name, false).address(&page),
        is_here: (one.pod.as_str(), one.name.as_str()) == here,
        pod: one.pod.clone(),
        name: one.name.clone(),
        state: one.state.clone(),
        restarts: one.restarts,
        previous: (one.restarts > 0).then(|| of(&one.pod, &one.name, true).address(&page)),
    });
    let follow = LogQuery { timestamps: true, follow: true, ..log.query.clone() };
    print(&LogPage {
        frame: frame(observation, format!("Logs of {}", place.name)),
        script: &super::frame::LOG_SCRIPT.path,
        follow: follow.address(&api),
        containers: containers.collect(),
        title: [here.0, here.1].into_iter().filter(|one| !one.is_empty()).collect::<Vec<_>>().join(" / "),
        is_previous: log.query.previous,
        lines: log.lines.join("\n"),
        note: log.note.as_deref().map(ProseText::new),
        place,
    })
}
