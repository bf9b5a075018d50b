//! What a plan says of records that become its source's.

use crate::plan::ownership::TakeoverCause;
use crate::plan::{SourceIdentity, rules};
use stator_core::finding::{Finding, Location};
use std::collections::BTreeMap;

/// The names of models that one line has room for.
const MAX_NAMES: usize = 5;

/// One line for each owner that records had before, of models with the owner that their record names.
pub(in crate::plan) fn takeover_findings<'a>(
    models: impl Iterator<Item = (TakeoverCause, Option<&'a SourceIdentity>, &'a str)>,
) -> Vec<Finding> {
    let mut by_owner: BTreeMap<(TakeoverCause, String), Vec<&str>> = BTreeMap::new();
    for (cause, owner, model) in models {
        let owner = owner.map(SourceIdentity::describe).unwrap_or_default();
        by_owner.entry((cause, owner)).or_default().push(model);
    }
    let finding = |((cause, owner), models): ((TakeoverCause, String), Vec<&str>)| {
        let noun = if models.len() == 1 { "model" } else { "models" };
        let names = list_names(&models);
        let what = match cause {
            TakeoverCause::NoOwner => format!(
                "taking over {noun} {names}: an earlier stator synced these names without recording their source"
            ),
            TakeoverCause::SameOrigin => {
                format!("taking over {noun} {names}, last synced from the same place by {owner}")
            }
            TakeoverCause::Recreated => {
                format!("taking over {noun} {names}: {owner} was created again under the same name")
            }
            TakeoverCause::SameFile => format!("taking over {noun} {names}: same files, last synced from {owner}"),
            TakeoverCause::Moved => format!("taking over {noun} {names} from {owner}, as allowed"),
        };
        let help = "no restart: stator writes only records and labels; see docs/reference/record.md";
        Finding::warning(rules::TAKEN_OVER, Location::default(), what, help)
    };
    by_owner.into_iter().map(finding).collect()
}

fn list_names(models: &[&str]) -> String {
    let shown = models.get(..MAX_NAMES.min(models.len())).unwrap_or_default().join(", ");
    match models.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        left => format!("{shown} and {left} more"),
    }
}
