//! What happened to models, from their records.

use super::plan::short_revision;
use super::table::{TableCell, TextTable};
use super::{TerminalOptions, Tone, escape};
use crate::plan::{Record, SyncHistoryEntry};
use serde::Serialize;

/// One thing that happened, with the model that it happened to.
#[derive(Clone, Debug, Serialize)]
pub struct RecordEvent<'a> {
    /// The model.
    pub model: &'a str,
    /// What happened.
    #[serde(flatten)]
    pub outcome: &'a SyncHistoryEntry,
}

/// Everything that the records tell, oldest first.
pub fn record_events<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<RecordEvent<'a>> {
    let mut events: Vec<RecordEvent<'a>> = records
        .into_iter()
        .flat_map(|record| record.history.iter().map(|outcome| RecordEvent { model: &record.model, outcome }))
        .collect();
    // RFC 3339 in UTC sorts as text.
    events.sort_by(|a, b| (&a.outcome.time, a.model).cmp(&(&b.outcome.time, b.model)));
    events
}

/// What the cluster's own controllers said of a model's objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEvent {
    /// When it last happened, RFC 3339.
    pub time: String,
    /// The model.
    pub model: String,
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

/// Events as a table, those of the cluster among those of the records by their time.
pub fn events_table(events: &[RecordEvent<'_>], cluster: &[ClusterEvent], look: &TerminalOptions) -> String {
    if events.is_empty() && cluster.is_empty() {
        return "No events yet.\n".to_owned();
    }
    let mut table = TextTable::new(&["TIME", "MODEL", "RESULT", "REVISION", "MESSAGE"]).least_important(&["REVISION"]);
    let mut said = cluster.iter().peekable();
    let mut until = |table: &mut TextTable, time: Option<&str>| {
        while let Some(event) = said.next_if(|event| time.is_none_or(|time| event.time.as_str() < time)) {
            let tone = if event.warning { Tone::Caution } else { Tone::Plain };
            let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
            table.row([
                TableCell::plain(&event.time),
                TableCell::plain(&event.model),
                TableCell::new(tone, &event.reason),
                TableCell::plain(""),
                TableCell::plain(&format!("{}: {}{times}", event.object, event.message)),
            ]);
        }
    };
    for event in events {
        until(&mut table, Some(&event.outcome.time));
        table.row([
            TableCell::plain(&event.outcome.time),
            TableCell::plain(event.model),
            TableCell::new(result_tone(&event.outcome.result), &event.outcome.result),
            TableCell::plain(&short_revision(&event.outcome.revision)),
            TableCell::plain(&event.outcome.message),
        ]);
    }
    until(&mut table, None);
    table.render(look)
}

/// One model's outcomes, newest first, each with what was done.
pub fn sync_history(record: &Record, look: &TerminalOptions) -> String {
    if record.history.is_empty() {
        return "No events yet.\n".to_owned();
    }
    let mut out = String::new();
    for outcome in &record.history {
        let revision = short_revision(&outcome.revision);
        let revision = if revision.is_empty() { String::new() } else { format!("  {revision}") };
        let message =
            if outcome.message.is_empty() { String::new() } else { format!("  {}", escape::line(&outcome.message)) };
        out.push_str(&format!(
            "{}  {}{revision}{message}\n",
            escape::line(&outcome.time),
            look.paint(result_tone(&outcome.result), &escape::line(&outcome.result)),
        ));
        for change in &outcome.changes {
            out.push_str(&format!("  {}\n", escape::line(change)));
        }
    }
    out
}

/// How the model stood when its record was last written, as a table; empty when no sync came to an end.
pub fn conditions_table(record: &Record, look: &TerminalOptions) -> String {
    let Some(state) = &record.state else { return String::new() };
    let mut table =
        TextTable::new(&["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]).least_important(&["SINCE", "REASON"]);
    for condition in &state.conditions {
        let wanted = if condition.kind == "Ready" { "True" } else { "False" };
        table.row([
            TableCell::plain(&condition.kind),
            TableCell::new(if condition.status == wanted { Tone::Good } else { Tone::Caution }, &condition.status),
            TableCell::plain(&condition.reason),
            TableCell::plain(&condition.last_transition_time),
            TableCell::plain(&condition.message),
        ]);
    }
    table.render(look)
}

/// What stator applied for a model, as a table.
pub fn inventory_table(record: &Record, look: &TerminalOptions) -> String {
    let mut table =
        TextTable::new(&["APPLIED OBJECT", "GENERATION", "ON REMOVAL", "UID"]).least_important(&["UID", "GENERATION"]);
    for entry in &record.inventory {
        table.row([
            TableCell::plain(&entry.object.to_string()),
            TableCell::plain(&entry.generation.map(|generation| generation.to_string()).unwrap_or_default()),
            TableCell::plain(if entry.prune { "deleted" } else { "kept" }),
            TableCell::plain(entry.uid.as_deref().unwrap_or_default()),
        ]);
    }
    table.render(look)
}

fn result_tone(result: &str) -> Tone {
    match result {
        // `Succeeded` is in records of versions before 0.1.
        "Synced" | "Unchanged" | "Healthy" | "Deleted" | "Succeeded" => Tone::Good,
        "Failed" | "Blocked" | "Invalid" | "Unsigned" => Tone::Bad,
        _ => Tone::Caution,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::InventoryEntry;
    use stator_core::object::ObjectRef;

    fn record() -> Record {
        let outcome = |time: &str, result: &str| SyncHistoryEntry {
            time: time.into(),
            revision: "3f2a91c0000000000000000000000000000000ab".into(),
            result: result.into(),
            message: "all objects are applied".into(),
            changes: vec!["create DynamoGraphDeployment prod/llama (none)".into()],
        };
        Record {
            model: "llama".into(),
            namespace: "prod".into(),
            repository: "models".into(),
            environment: "prod".into(),
            source: "models/llama/model.yaml".into(),
            inventory: vec![InventoryEntry {
                object: ObjectRef {
                    api_version: "nvidia.com/v1beta1".into(),
                    kind: "DynamoGraphDeployment".into(),
                    namespace: "prod".into(),
                    name: "llama".into(),
                },
                uid: None,
                generation: Some(3),
                digest: "00".into(),
                prune: true,
            }],
            history: vec![outcome("2026-01-02T00:00:00Z", "Succeeded"), outcome("2026-01-01T00:00:00Z", "Failed")],
            ..Record::default()
        }
    }

    #[test]
    fn a_models_past_is_told() {
        let look = TerminalOptions::default();
        insta::assert_snapshot!(sync_history(&record(), &look), @"
        2026-01-02T00:00:00Z  Succeeded  3f2a91c  all objects are applied
          create DynamoGraphDeployment prod/llama (none)
        2026-01-01T00:00:00Z  Failed  3f2a91c  all objects are applied
          create DynamoGraphDeployment prod/llama (none)
        ");
        let said = |time: &str, count: u64| ClusterEvent {
            time: time.into(),
            model: "llama".into(),
            object: "Pod llama-worker-0".into(),
            warning: true,
            reason: "BackOff".into(),
            message: "Back-off pulling image".into(),
            count,
        };
        let of_the_cluster = [said("2026-01-01T12:00:00Z", 7), said("2026-01-03T00:00:00Z", 1)];
        insta::assert_snapshot!(events_table(&record_events([&record()]), &of_the_cluster, &look), @"
        TIME                  MODEL  RESULT     REVISION  MESSAGE
        2026-01-01T00:00:00Z  llama  Failed     3f2a91c   all objects are applied
        2026-01-01T12:00:00Z  llama  BackOff    -         Pod llama-worker-0: Back-off pulling image (7 times)
        2026-01-02T00:00:00Z  llama  Succeeded  3f2a91c   all objects are applied
        2026-01-03T00:00:00Z  llama  BackOff    -         Pod llama-worker-0: Back-off pulling image
        ");
        insta::assert_snapshot!(events_table(&record_events([&record()]), &[], &look), @"
        TIME                  MODEL  RESULT     REVISION  MESSAGE
        2026-01-01T00:00:00Z  llama  Failed     3f2a91c   all objects are applied
        2026-01-02T00:00:00Z  llama  Succeeded  3f2a91c   all objects are applied
        ");
        insta::assert_snapshot!(inventory_table(&record(), &look), @"
        APPLIED OBJECT                    GENERATION  ON REMOVAL  UID
        DynamoGraphDeployment prod/llama  3           deleted     -
        ");
    }
}
