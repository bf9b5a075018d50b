//! What a plan says of records that become its source's.

use super::ownership::TakeoverCause;
use super::{SourceIdentity, rules};
use stator_core::finding::{Finding, Location};
use std::collections::BTreeMap;

/// The names of models that one line has room for.
const MAX_NAMES: usize = 5;

/// One line for each owner that records had before, of models with the owner that their record names.
pub(super) fn takeover_findings<'a>(
    models: impl Iterator<Item = (TakeoverCause, Option<&'a SourceIdentity>, &'a str)>,
) -> Vec<Finding> {
    let mut by_owner: BTreeMap<(TakeoverCause, String), Vec<&str>> = BTreeMap::new();
    for (cause, owner, model) in models {
        let owner = owner.map(SourceIdentity::describe).unwrap_or_default();
        by_owner.entry((cause, owner)).or_default().push(model);
    }
    let finding = |((cause, owner), models): ((TakeoverCause, String), Vec<&str>)| {
        let (noun, verb) = if models.len() == 1 { ("model", "becomes") } else { ("models", "become") };
        let names = list_names(&models);
        let what = match cause {
            TakeoverCause::NoOwner => format!(
                "{noun} {names} {verb} this source's: an earlier stator synced what has these names, and did not record \
                 where it comes from"
            ),
            TakeoverCause::SameOrigin => {
                format!("{noun} {names} {verb} this source's: synced last from the same place by {owner}")
            }
            TakeoverCause::Recreated => {
                format!("{noun} {names} {verb} this source's: {owner} was created again under its name")
            }
            TakeoverCause::SameFile => format!("{noun} {names} {verb} this source's: the same files as of {owner}"),
            TakeoverCause::Moved => format!("{noun} {names} {verb} this source's, as allowed; from {owner}"),
        };
        let help = "nothing restarts: only records and labels are written; see docs/reference/record.md";
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
