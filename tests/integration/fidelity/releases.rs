//! What each release changed, by the table, and how much of the newest objects each takes.

use super::{table, verdicts};
use stator_core::dynamo::admission::{self, AdmissionOutcome, Platform};
use stator_core::dynamo::release::{Behaviour, CHANGES, Change, Release};
use stator_core::object::Object;

pub fn section() -> String {
    let names: Vec<String> = Release::KNOWN.iter().map(ToString::to_string).collect();
    let head: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    let mut rows: Vec<Vec<String>> = vec![
        counted("fields and values added", |release| {
            CHANGES
                .iter()
                .filter(|row| row.since == release && matches!(row.change, Change::Field(..) | Change::Value(..)))
                .count()
        }),
        counted("rules of form added or removed", |release| {
            let is_rule = |change: &Change| !matches!(change, Change::Field(..) | Change::Value(..));
            CHANGES.iter().filter(|row| row.since == release && is_rule(&row.change)).count()
        }),
        counted("changes of the operator", |release| {
            Behaviour::ALL.iter().filter(|behaviour| behaviour.since() == release).count()
        }),
    ];
    let newest = verdicts(Release::V1_5, "creates");
    rows.push(counted(&format!("refused by stator, of the {} objects of 1.5 below", newest.len()), |release| {
        let platform = Platform { dynamo: Some(release), checkpoints: Some(false), ..Platform::from_api_groups([]) };
        let is_refused = |row: &&serde_json::Value| {
            let object = Object::from_value(row["object"].clone()).unwrap();
            let found = admission::check_object(&object, &platform);
            found.iter().any(|finding| finding.outcome == AdmissionOutcome::Denied)
        };
        newest.iter().filter(is_refused).count()
    }));
    let since = |release: Release| {
        Release::KNOWN.iter().map(|known| if *known >= release { "yes" } else { "" }.to_owned()).collect::<Vec<_>>()
    };
    let changes: Vec<Vec<String>> = Behaviour::ALL
        .iter()
        .map(|behaviour| {
            std::iter::once(behaviour.sentence().trim_end_matches('.').to_owned())
                .chain(since(behaviour.since()))
                .collect()
        })
        .collect();
    let fields = CHANGES.iter().filter_map(|row| match row.change {
        Change::Field(kind, path) => {
            let of = if kind == "*" { String::new() } else { format!(" of {kind}") };
            Some(std::iter::once(format!("`{path}`{of}")).chain(since(row.since)).collect())
        }
        Change::Value(path, value) => {
            Some(std::iter::once(format!("`{value}` of `{path}`")).chain(since(row.since)).collect())
        }
        Change::Rule(_)
        | Change::RuleRemoved(_)
        | Change::Required(..)
        | Change::Optional(..)
        | Change::MaxLength(_)
        | Change::DefaultRemoved(..) => None,
    });
    let fields: Vec<Vec<String>> = fields.collect();
    format!(
        "## Releases, one by one\n\n{}\nWhat the operator does since when:\n\n{}\nFields and values that a release knows:\n\n{}",
        table(&head, &rows),
        table(&head, &changes),
        table(&head, &fields)
    )
}

fn counted(what: &str, number: impl Fn(Release) -> usize) -> Vec<String> {
    std::iter::once(what.to_owned()).chain(Release::KNOWN.iter().map(|release| number(*release).to_string())).collect()
}
