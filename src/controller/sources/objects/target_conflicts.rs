//! Sources of a cluster that would undo each other's work, and which of them runs.

use super::object_store::ModelSourceObject;
use crate::controller::sources::resolved_source::{ResolvedSource, SourceKey, SyncTarget, TargetNamespace};
use std::collections::BTreeMap;

/// The messages for two sources that sync the same environment into the same namespace.
pub(super) enum TargetConflict {
    /// It does not run, and this is why.
    Loses(String),
    /// It runs, and this is what it keeps from running.
    Wins(String),
}

/// Two sources that sync one environment into one namespace would take turns at undoing each other: the one works that
/// lives in that namespace, and of several the oldest.
pub(super) fn find_target_conflicts<'a>(
    sound: impl Iterator<Item = (&'a ModelSourceObject, &'a ResolvedSource)>,
) -> BTreeMap<SourceKey, TargetConflict> {
    let mut targets: BTreeMap<SyncTarget<'_>, Vec<(&ModelSourceObject, &ResolvedSource)>> = BTreeMap::new();
    for (resource, source) in sound {
        // Nobody may keep another tenant's source from running by naming the same repository.
        targets.entry(source.sync_target(&source.key.namespace)).or_default().push((resource, source));
    }
    let mut rivals = BTreeMap::new();
    for (target, mut all) in targets {
        if all.len() < 2 {
            continue;
        }
        let (TargetNamespace::Named(namespace) | TargetNamespace::FromRepository(namespace)) = target.namespace;
        all.sort_by_key(|(resource, _)| (resource.key.namespace != namespace, resource.created, &resource.uid));
        let Some(((first, _), rest)) = all.split_first() else { continue };
        let mut losers = Vec::new();
        for (loser, _) in rest {
            // Of other tenants' sources no more is said than that there is one.
            let message = if loser.key.namespace == first.key.namespace {
                losers.push(format!("`{}`", loser.key.name));
                format!(
                    "`{}` syncs the same environment of the same repository into the same namespace, and is older; keep one of them, because each would undo the changes of the other",
                    first.key.name
                )
            } else {
                format!(
                    "another source syncs the same environment of the same repository into namespace `{namespace}`; each would undo the changes of the other"
                )
            };
            rivals.insert(loser.key.clone(), TargetConflict::Loses(message));
        }
        if !losers.is_empty() {
            let message = format!("{} of the same target is rejected, because this one is older", losers.join(", "));
            rivals.insert(first.key.clone(), TargetConflict::Wins(message));
        }
    }
    rivals
}
