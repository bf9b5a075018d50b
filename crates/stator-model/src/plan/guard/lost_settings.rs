//! Whether a folder without settings is a repository that had them.

use crate::plan::{Record, rules};
use crate::render::RenderedModel;
use stator_core::finding::{Finding, Location};
use std::collections::HashMap;

/// How many models a message names.
const MAX_NAMES: usize = 3;

/// What speaks against syncing a folder that no `stator.yaml` names: records of a repository with a name, for the same
/// models from the same files. `records` are those of all repositories.
pub fn lost_settings_finding<'a>(
    rendered: &[RenderedModel],
    records: impl IntoIterator<Item = &'a Record>,
) -> Option<Finding> {
    let sources: HashMap<&str, &str> = rendered.iter().map(|one| (one.model.as_str(), one.source.as_str())).collect();
    let mut same: Vec<&Record> = records
        .into_iter()
        .filter(|record| record.folder.is_none())
        .filter(|record| sources.get(record.model.as_str()) == Some(&record.source.as_str()))
        .collect();
    same.sort_by_key(|record| (&record.repository, &record.environment, &record.namespace, &record.model));
    let first = *same.first()?;
    let of_first = same.iter().filter(|one| {
        (&one.repository, &one.environment, &one.namespace) == (&first.repository, &first.environment, &first.namespace)
    });
    let names: Vec<&str> = of_first.map(|one| one.model.as_str()).collect();
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown = if more > 0 { format!("{shown} and {more} more") } else { shown };
    let Record { repository, environment, namespace, .. } = first;
    Some(Finding::error(
        rules::LOST_SETTINGS,
        Location::file("stator.yaml"),
        format!(
            "there is no stator.yaml here, but repository `{repository}`, environment `{environment}`, has synced {shown} \
             from the same files to namespace {namespace}"
        ),
        "restore the root stator.yaml, or give this folder one with another `metadata.name` if it is another repository",
    ))
}
