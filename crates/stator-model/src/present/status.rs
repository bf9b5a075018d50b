//! The status of models as tables and data.

use super::plan::short_revision;
use super::table::{TableCell, TextTable};
use super::{TerminalOptions, Tone, escape};
use crate::plan::{FieldDrift, ModelStatus, SyncState};
use serde::Serialize;
use serde_json::Value;
use stator_core::dynamo::health::Health;

/// What `status -o json` prints.
#[derive(Debug, Serialize)]
pub struct ModelStatusReport<'a> {
    /// The models, sorted by name.
    pub models: &'a [ModelStatus],
}

/// One line a model, and a line for each drifted field. `wide` adds namespace, kind and source.
pub fn status_table(models: &[ModelStatus], wide: bool, now: jiff::Timestamp, look: &TerminalOptions) -> String {
    if models.is_empty() {
        return "No models.\n".to_owned();
    }
    let mut headings = vec!["NAME", "SYNC", "HEALTH", "GPUS", "REVISION", "AGE"];
    if wide {
        headings.extend(["NAMESPACE", "KIND", "SOURCE", "LAST SYNC"]);
    }
    headings.push("MESSAGE");
    let mut table = TextTable::new(&headings).least_important(&[
        "SOURCE",
        "LAST SYNC",
        "KIND",
        "NAMESPACE",
        "AGE",
        "REVISION",
        "GPUS",
    ]);
    for model in models {
        let mut row = vec![
            TableCell::plain(&model.name),
            TableCell::new(sync_tone(model.sync), model.sync.as_str()),
            TableCell::new(health_tone(model.health), model.health.as_str()),
            TableCell::plain(&gpus_text(model)),
            TableCell::plain(&short_revision(&model.revision)),
            TableCell::plain(&model.created.as_deref().map(|created| format_age(created, now)).unwrap_or_default()),
        ];
        if wide {
            row.extend([
                TableCell::plain(&model.namespace),
                TableCell::plain(&model.kind),
                TableCell::plain(&model.source),
                TableCell::plain(&last_sync_text(model, now)),
            ]);
        }
        row.push(TableCell::plain(&model.message));
        table.row(row);
    }
    let mut out = table.render(look);
    for model in models.iter().filter(|_| !look.rows_only) {
        out.push_str(&drift_lines(model, look));
    }
    out
}

/// `model/NAMESPACE/NAME`, one a line: what other commands take.
pub fn names(models: &[ModelStatus]) -> String {
    models
        .iter()
        .map(|model| format!("model/{}/{}\n", escape::line(&model.namespace), escape::line(&model.name)))
        .collect()
}

/// Everything of one model: its objects, their health, and what drifted.
pub fn status_details(model: &ModelStatus, now: jiff::Timestamp, look: &TerminalOptions) -> String {
    let created =
        model.created.as_deref().map(|created| format!("{} ago ({})", format_age(created, now), escape::line(created)));
    let mut out = String::new();
    for (name, value) in [
        ("Name", model.name.clone()),
        ("Namespace", model.namespace.clone()),
        ("Source", model.source.clone()),
        ("Revision", short_revision(&model.revision)),
        ("Sync", model.sync.as_str().to_owned()),
        ("Health", model.health.as_str().to_owned()),
        ("GPUs", gpus_text(model)),
        ("Created", created.unwrap_or_default()),
        ("Last sync", last_sync_text(model, now)),
        ("Message", model.message.clone()),
    ] {
        let value = if value.is_empty() { "-".to_owned() } else { escape::line(&value) };
        out.push_str(&format!("{}{value}\n", look.paint(Tone::Strong, &format!("{:<11}", format!("{name}:")))));
    }
    let mut table = TextTable::new(&["OBJECT", "ACTION", "HEALTH", "MESSAGE"]).least_important(&["ACTION"]);
    for object in &model.objects {
        table.row([
            TableCell::plain(&object.object.to_string()),
            TableCell::plain(object.action.as_str()),
            TableCell::new(health_tone(object.health), object.health.as_str()),
            TableCell::plain(&object.message),
        ]);
    }
    if !model.objects.is_empty() {
        out.push('\n');
        out.push_str(&table.render(look));
    }
    out + &drift_lines(model, look)
}

fn drift_lines(model: &ModelStatus, look: &TerminalOptions) -> String {
    model.drift.iter().map(|drift| format!("{}: {}\n", look.paint(Tone::Caution, "drift"), drift_line(drift))).collect()
}

fn drift_line(drift: &FieldDrift) -> String {
    let object = escape::line(&drift.object);
    if drift.path.is_empty() {
        return format!("{object} no longer exists in the cluster");
    }
    let say = |value: &Value| escape::line(&escape::truncate(&value.to_string(), 80));
    let owner =
        if drift.owner.is_empty() { String::new() } else { format!(" (owned by {})", escape::line(&drift.owner)) };
    let path = escape::line(&drift.path);
    format!("{object} {path}: git has {}, the cluster has {}{owner}", say(&drift.want), say(&drift.have))
}

/// `Succeeded 3d ago`.
fn last_sync_text(model: &ModelStatus, now: jiff::Timestamp) -> String {
    let Some(last) = &model.last_sync else { return String::new() };
    match format_age(&last.time, now).as_str() {
        "" => last.result.clone(),
        age => format!("{} {age} ago", last.result),
    }
}

fn gpus_text(model: &ModelStatus) -> String {
    match (&model.gpu_sku, model.gpus) {
        (_, 0) => "0".to_owned(),
        (Some(sku), gpus) => format!("{gpus} {sku}"),
        (None, gpus) => gpus.to_string(),
    }
}

/// How long ago, in its largest unit: `45s`, `12m`, `5h`, `3d`. Empty for what is no time.
pub fn format_age(then: &str, now: jiff::Timestamp) -> String {
    let Ok(then) = then.parse::<jiff::Timestamp>() else { return String::new() };
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn sync_tone(sync: SyncState) -> Tone {
    match sync {
        SyncState::Synced => Tone::Good,
        SyncState::OutOfSync | SyncState::Unknown => Tone::Caution,
        SyncState::Blocked => Tone::Bad,
    }
}

fn health_tone(health: Health) -> Tone {
    match health {
        Health::Healthy => Tone::Good,
        Health::Progressing | Health::Suspended | Health::Unknown => Tone::Caution,
        Health::Degraded | Health::Failed => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LastSync;
    use serde_json::json;

    fn llama() -> ModelStatus {
        ModelStatus {
            name: "llama-3-70b".into(),
            namespace: "prod".into(),
            source: "models/llama-3-70b/model.yaml".into(),
            sync: SyncState::OutOfSync,
            health: Health::Progressing,
            is_lost: false,
            revision: "3f2a91c0000000000000000000000000000000ab".into(),
            gpus: 12,
            gpu_sku: Some("h200_sxm".into()),
            kind: "DynamoGraphDeployment".into(),
            created: Some("2026-01-01T00:00:00Z".into()),
            drift: vec![FieldDrift {
                object: "DynamoGraphDeployment prod/llama-3-70b".into(),
                path: "spec.components[name=decode].replicas".into(),
                want: json!(3),
                have: json!(2),
                owner: "kubectl-edit".into(),
            }],
            message: "decode has 2 of 3 replicas\u{1b}[2J".into(),
            last_sync: Some(LastSync {
                time: "2026-01-04T00:50:00Z".into(),
                result: "Succeeded".into(),
                message: String::new(),
            }),
            objects: Vec::new(),
        }
    }

    fn now() -> jiff::Timestamp {
        "2026-01-04T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn drift_is_named_below_the_table() {
        insta::assert_snapshot!(status_table(&[llama()], false, now(), &TerminalOptions::default()), @r"
        NAME         SYNC       HEALTH       GPUS         REVISION  AGE  MESSAGE
        llama-3-70b  OutOfSync  Progressing  12 h200_sxm  3f2a91c   3d   decode has 2 of 3 replicas\u{1b}[2J
        drift: DynamoGraphDeployment prod/llama-3-70b spec.components[name=decode].replicas: git has 3, the cluster has 2 (owned by kubectl-edit)
        ");
        insta::assert_snapshot!(status_table(&[llama()], true, now(), &TerminalOptions::default()), @r"
        NAME         SYNC       HEALTH       GPUS         REVISION  AGE  NAMESPACE  KIND                   SOURCE                         LAST SYNC          MESSAGE
        llama-3-70b  OutOfSync  Progressing  12 h200_sxm  3f2a91c   3d   prod       DynamoGraphDeployment  models/llama-3-70b/model.yaml  Succeeded 10m ago  decode has 2 of 3 replicas\u{1b}[2J
        drift: DynamoGraphDeployment prod/llama-3-70b spec.components[name=decode].replicas: git has 3, the cluster has 2 (owned by kubectl-edit)
        ");
        insta::assert_snapshot!(names(&[llama()]), @"model/prod/llama-3-70b");
        insta::assert_snapshot!(status_details(&llama(), now(), &TerminalOptions::default()), @r"
        Name:      llama-3-70b
        Namespace: prod
        Source:    models/llama-3-70b/model.yaml
        Revision:  3f2a91c
        Sync:      OutOfSync
        Health:    Progressing
        GPUs:      12 h200_sxm
        Created:   3d ago (2026-01-01T00:00:00Z)
        Last sync: Succeeded 10m ago
        Message:   decode has 2 of 3 replicas\u{1b}[2J
        drift: DynamoGraphDeployment prod/llama-3-70b spec.components[name=decode].replicas: git has 3, the cluster has 2 (owned by kubectl-edit)
        ");
    }

    #[test]
    fn ages_are_in_their_largest_unit() {
        let ages: Vec<String> =
            ["2026-01-04T00:59:30Z", "2026-01-04T00:30:00Z", "2026-01-03T20:00:00Z", "2026-02-01T00:00:00Z", "soon"]
                .iter()
                .map(|then| format_age(then, now()))
                .collect();
        assert_eq!(ages, ["30s", "30m", "5h", "0s", ""]);
    }
}
