//! The sentence of every reason: the one place that words them, for terminals, pages, JSON and records alike.

use super::{
    ChangeReason, DeletionSequel, ForeignOwner, ImmutableAdvice, KeptBy, LeftBehindCause, MountedChange, OwnershipDoubt,
};
use crate::intent::{UnreadCause, UnreadPlace};
use crate::plan::{
    AddressMove, HoldKind, NewGraphObstacle, RequestGpuBudget, UnlistedCause, UnlistedKind, UntriedCause,
};
use stator_core::dynamo::addresses::GraphAddress;
use stator_core::dynamo::disruption::DisruptionNote;
use stator_core::dynamo::kinds::GRAPH;
use stator_core::object::ObjectRef;
use std::fmt;

impl fmt::Display for ChangeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInCluster => f.write_str("is not in the cluster yet"),
            Self::NewInRevision => f.write_str("is new"),
            Self::ChangedInGit => f.write_str("changed in git"),
            Self::Drifted => f.write_str("drifted: changed in the cluster, not in git"),
            Self::RecordMissing => f.write_str("its record is missing; stator writes it again"),
            Self::RecordIncomplete => f.write_str("its record is incomplete; stator completes it"),
            Self::MovedFrom { model } => write!(f, "moves here from model {model}"),
            Self::LabelMissing => f.write_str("adds the label by which other tools find the model's objects"),
            Self::OwnerLabels => f.write_str("adds ownership labels; no restart"),
            Self::Moved { from } => match from {
                ForeignOwner::Source { owner, environment } => {
                    write!(f, "is taken over from {owner}, environment `{environment}`, as allowed")
                }
                ForeignOwner::Repository { repository, environment } => {
                    write!(f, "is taken over from repository `{repository}`, environment `{environment}`, as allowed")
                }
                ForeignOwner::Tool { .. }
                | ForeignOwner::Request { .. }
                | ForeignOwner::Owner { .. }
                | ForeignOwner::OwnerLabel { .. }
                | ForeignOwner::ApplySet => write!(f, "is taken over as allowed; it {from}"),
            },
            Self::OwnershipLost => f.write_str("stator lost its field ownership and takes it back"),
            Self::ReplicasReleased { components } => {
                write!(f, "does not set the replica count of {}, which is scaled elsewhere", components.join(", "))
            }
            Self::TwoWrites { components } => write!(
                f,
                "takes two writes: first the scaling adapter of {} goes, then the replica count changes; Dynamo refuses both \
                 in one",
                components.join(", ")
            ),
            Self::FieldsTaken { managers } => write!(f, "takes fields back from {}", managers.join(", ")),
            Self::Adopted => {
                f.write_str("already exists and is not managed by stator or another tool: taken over, as allowed")
            }
            Self::Unmanaged => f.write_str(
                "already exists and is not managed by stator or another tool: allow its adoption, or give the model \
                 another name",
            ),
            Self::AdoptedFrom { tool } => {
                write!(f, "already exists and is managed by {}: taken over, as allowed", tool.name())
            }
            Self::ManagedByTool { tool, mark } => write!(
                f,
                "already exists and is managed by {} (`{mark}`): allow its adoption once {} no longer manages it, or \
                 give the model another name",
                tool.name(),
                tool.name()
            ),
            Self::OwnershipMoves { managers } => {
                write!(f, "field ownership moves to stator from {}", managers.join(", "))
            }
            Self::Disrupts(note) => write_disruption(f, note),
            Self::MidRollout { object } => write!(
                f,
                "{object} is in the middle of a rolling update; changing its workers again may delete the new pods \
                 immediately"
            ),
            Self::Held(guard) => f.write_str(match guard {
                HoldKind::Replace => "held back: `--allow replace` deletes it and creates it again",
                HoldKind::Delete => "held back: `--allow delete` deletes it",
                HoldKind::Adopt => "held back: `--allow adopt` takes it over",
                HoldKind::Move => "held back: `--allow move` takes it over",
                HoldKind::MassDelete => "held back: too many deletions at once",
                HoldKind::MaxGpus => "held back: the environment would exceed its GPU limit",
                HoldKind::Rollback => "held back: the branch does not descend from the applied commit",
            }),
            Self::NewGraphFirst { graph, moves } => write_new_graph(f, graph.as_ref(), moves),
            Self::AddressHeld => f.write_str(
                "held back: `--allow replace` creates the new graph and deletes this one once the new one is Healthy",
            ),
            Self::NoNewGraph(obstacle) => write_obstacle(f, obstacle),
            Self::ServedMeanwhile { graph, moves } => {
                write!(f, "{graph} keeps serving meanwhile")?;
                write_address_move(f, moves)
            }
            Self::FileContent { file, source } => {
                write!(f, "holds the new content of {}", FileWords(file, source.as_deref()))
            }
            Self::FileSuperseded { by } => {
                write!(f, "{by} holds the file's new content; deleted once no pod mounts the old one")
            }
            Self::FilesChanged { files } => write_files_changed(f, files),
            Self::ReplacedBy { graph, moves } => {
                write!(f, "{graph} takes its place; this one keeps serving until that graph is Healthy")?;
                write_address_move(f, moves)
            }
            Self::ReplacementRefused { message } => write!(
                f,
                "is not deleted, because the cluster would refuse to re-create it: {message}; fix that, then sync again"
            ),
            Self::WaitsForWorkload { workload } => {
                let noun = if workload.kind == GRAPH.kind { "graph" } else { "request" };
                write!(f, "applied once {noun} {} is Ready", workload.name)
            }
            Self::DownloadsWeights { source } => {
                write!(f, "downloads {source}; the graph is applied once the download is complete")
            }
            Self::WaitsForDownload { job, serves_old } => {
                write!(f, "applied once {job} is complete")?;
                f.write_str(if *serves_old { "; until then it keeps serving unchanged" } else { "" })
            }
            Self::DownloadSuperseded { graph } => {
                write!(f, "deleted once {graph} is Healthy; the downloaded files stay on the volume")
            }
            Self::GpuSearch(budget) => write_gpu_search(f, *budget),
            Self::RequestFailed { message } | Self::RecordForeign { message } | Self::ApplyRefused { message } => {
                f.write_str(message)
            }
            Self::ModelFaulty => f.write_str("the model has errors, so none of its objects are applied"),
            Self::ModelWasFaulty => {
                f.write_str("the model had errors before, so the change is unknown: everything is shown")
            }
            Self::FateUnknown => f.write_str("the model has errors, so its changes are unknown"),
            Self::Unreadable { message } => write!(f, "cannot be read from the cluster: {message}"),
            Self::KindUnlisted(unlisted) => write_unlisted(f, unlisted),
            Self::Needs { object } => write!(f, "waits for {object}, which cannot be applied"),
            Self::Foreign(owner) => owner.fmt(f),
            Self::UnknownVersion { api_version } => {
                write!(f, "the cluster serves it as {api_version}, which stator does not support")
            }
            Self::FieldOwnersDamaged { message } => {
                write!(f, "its record of field owners is damaged: {message}; remove `metadata.managedFields`")
            }
            Self::NameLost => f.write_str("the merged object would lose its name"),
            Self::FieldConflict { manager, paths, is_named } => {
                let list = paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                if *is_named {
                    write!(f, "{list}: owned by {manager}, which `takeOver` names, but it does not name all owners")
                } else {
                    write!(
                        f,
                        "{list}: owned by {manager}; write its value into the intent, or name {manager} in \
                         `spec.takeOver` to take it back"
                    )
                }
            }
            Self::RepairUndone { paths, writer } => {
                let list = paths.join(", ");
                match writer {
                    Some(writer) => write!(
                        f,
                        "{list}: {writer} reverts every repair, so stator stopped repairing it; stop {writer}, or \
                         write its value into git, then sync"
                    ),
                    None => write!(
                        f,
                        "{list}: every repair is reverted, and managedFields names no writer (a webhook?), so stator \
                         stopped repairing it; stop the writer, then sync"
                    ),
                }
            }
            Self::DeletedAgain => f.write_str(
                "deleted again soon after stator re-created it; stator waits before it creates it once more; find out \
                 what deletes it",
            ),
            Self::Immutable { message, advice } => match advice {
                ImmutableAdvice::InMessage => f.write_str(message),
                ImmutableAdvice::Wait => write!(f, "{message}: wait until that is complete, then sync"),
                ImmutableAdvice::NotOurs => write!(f, "{message}: stator creates only its own objects again"),
                ImmutableAdvice::NeverDeleted => {
                    write!(f, "{message}, and it is never deleted automatically: delete it by hand")
                }
            },
            Self::Deleting { since, finalizers, then } => {
                f.write_str("is being deleted")?;
                if !since.is_empty() {
                    write!(f, " since {since}")?;
                }
                if !finalizers.is_empty() {
                    write!(f, " (waiting for finalizer {})", finalizers.join(", "))?;
                }
                f.write_str(match then {
                    DeletionSequel::Nothing => "",
                    DeletionSequel::Wait => ": wait until it is gone",
                    DeletionSequel::Recreate => ": created again once it is gone",
                })
            }
            Self::NotTried(UntriedCause::TooMany) => {
                f.write_str("no server-side dry run, because too many objects change: plan its model alone")
            }
            Self::NotTried(UntriedCause::Failed(message)) => {
                write!(f, "the server-side dry run failed, so the cluster's result may differ: {message}")
            }
            Self::FollowedBy { request } => write!(f, "deleted once request {request} has succeeded"),
            Self::RenamedTo { model, waits, moves } => {
                write!(f, "model {model} takes its place")?;
                f.write_str(if *waits { "; this one stays until that is Healthy" } else { ", once this is gone" })?;
                write_address_move(f, moves)
            }
            Self::RenamedFrom { model } => write!(f, "takes the place of model {model}"),
            Self::UsedUntil { by } => write!(f, "deleted once {by}, which uses it until then, is Healthy"),
            Self::SharedObject { owner } => write!(f, "shared: model {owner} renders the same object and applies it"),
            Self::Disputed { others } => {
                write!(f, "is rendered by {} as well: give one of them another name", others.join(", "))
            }
            Self::NoLongerInGit => f.write_str("is no longer in git"),
            Self::NoLongerInModel => f.write_str("the model no longer has it"),
            Self::ModelGone { model } => write!(f, "model {model} is no longer in git"),
            Self::GraphStays { graph } => write!(
                f,
                "the graph that it created, {0}, is not managed by stator and keeps serving: run `kubectl delete \
                 dynamographdeployment {0} -n {1}` when it is no longer used",
                graph.name, graph.namespace
            ),
            Self::LeftBehind { cause, delete } => {
                match cause {
                    LeftBehindCause::NoEnvironment { environment } => {
                        write!(f, "was synced for environment `{environment}`, which `stator.yaml` no longer has")?;
                    }
                    LeftBehindCause::FormerNamespace { environment } => {
                        write!(f, "was synced for environment `{environment}`, which has another namespace now")?;
                    }
                    LeftBehindCause::FormerOwner { owner: Some(owner) } => {
                        write!(f, "was synced by {owner}, this source's former identity, and git no longer has it")?;
                    }
                    LeftBehindCause::FormerOwner { owner: None } => {
                        f.write_str("was synced before this source had its address, and git no longer has it")?;
                    }
                }
                write!(
                    f,
                    ": if no other source has it, run `{delete}`, or declare it again and take it over with `--allow move`"
                )
            }
            Self::Kept(cause) => cause.fmt(f),
        }
    }
}

impl fmt::Display for KeptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFolder { folder, repository } => {
                match folder {
                    Some(folder) => write!(f, "was synced from another folder, {folder}, and neither has a name")?,
                    None => f.write_str("was not synced from this folder, which has no name")?,
                }
                write!(
                    f,
                    ": kept; to make them one repository, add a stator.yaml with `metadata.name: {repository}` to the \
                     folder that holds all models"
                )
            }
            Self::ModelErrors => {
                f.write_str("git no longer has it, and its model has errors: kept until they are fixed")
            }
            Self::UnreadableSource { source } => {
                write!(f, "git no longer has it, but {source} has errors, and it may belong to that model")
            }
            Self::UnreadPlace(place) => {
                write!(f, "git no longer has its model, and {}: kept until that is fixed", describe_unread(place))
            }
            Self::UnreadJournal { journal } => {
                write!(f, "git no longer has it; it is kept until {journal} is readable or deleted")
            }
            Self::EmptyRender => {
                f.write_str("nothing was rendered, so nothing is pruned: delete it by hand if that is intended")
            }
            Self::Data => f.write_str("git no longer has it; it is kept because it holds data: delete it by hand"),
            Self::Doubt(doubt) => {
                f.write_str("git no longer has it, but ")?;
                match doubt {
                    OwnershipDoubt::Foreign(owner) => write!(f, "it {owner}")?,
                    OwnershipDoubt::LabelsLost => f.write_str("its labels no longer mark it as managed by stator")?,
                    OwnershipDoubt::NotFieldManager => f.write_str("stator is not among its field managers")?,
                    OwnershipDoubt::RecordDamaged => f.write_str("the model's record is damaged")?,
                    OwnershipDoubt::NoRecord => f.write_str("no record shows that stator created it")?,
                    OwnershipDoubt::OtherUid => {
                        f.write_str("it is not the object that stator created: its uid differs")?;
                    }
                }
                f.write_str(": delete it by hand")
            }
            Self::MadeByRequest { request, graph } => write!(
                f,
                "was created by request {request}, which is gone; nothing manages it, and it keeps serving: run \
                 `kubectl delete dynamographdeployment {} -n {}` when it is no longer used",
                graph.name, graph.namespace
            ),
            Self::NextRequestGraph { request } => {
                write!(f, "keeps serving until the graph of request {request} is Ready")
            }
            Self::UnlockedResult { request } => write!(
                f,
                "keeps serving, and is changed in place once the result of request {request} is locked (`stator lock`)"
            ),
            Self::UnfinishedGraph { graph, is_held } => {
                let state = if *is_held { "held back" } else { "blocked" };
                write!(f, "keeps serving, because its replacement {graph} is {state}")
            }
            Self::GraphUnchanged { graph, is_held } => {
                let state = if *is_held { "held back" } else { "blocked" };
                write!(f, "git no longer has it; it stays until {graph} is changed, which is {state}")
            }
            Self::StillUsed { by, is_held } => {
                write!(f, "git no longer has it; it stays, because {by} uses it")?;
                f.write_str(if *is_held { ", whose change is held back" } else { "" })
            }
            Self::SuccessorFaulty { model } => {
                write!(f, "git no longer has it; it stays, because its replacement, model {model}, has errors")
            }
            Self::PerhapsUsed { source } => {
                write!(f, "git no longer has it; it stays, because {source} has errors and may use it")
            }
            Self::KindUnlisted(unlisted) => {
                f.write_str("git no longer has it; it is kept, if it still exists: ")?;
                write_unlisted(f, unlisted)
            }
            Self::PruningOff => f.write_str("git no longer has it; it is kept because pruning is off"),
        }
    }
}

impl fmt::Display for ForeignOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { tool, mark } => {
                let tool = tool.name();
                write!(f, "is managed by {tool} (`{mark}`): remove it from {tool} first, or two tools would fight")
            }
            Self::Request { request } => write!(
                f,
                "was created by request `{request}`: give the model another name, or delete the graph and its request"
            ),
            Self::Owner { kind, name } => write!(f, "belongs to {kind} {name}, which would revert it"),
            Self::Repository { repository, environment } => write!(
                f,
                "belongs to repository `{repository}`, environment `{environment}`: rename it here, remove it there \
                 first, or take it over with `--allow move`"
            ),
            Self::Source { owner, environment } => write!(
                f,
                "belongs to {owner}, environment `{environment}`: rename it here, remove it there first, or take it \
                 over with `--allow move`"
            ),
            Self::OwnerLabel { id } => write!(
                f,
                "has the label `stator.dev/owner-id={id}`, which is not this source's: if the label was edited, or was \
                 this source's before, take it over with `--allow move`"
            ),
            Self::ApplySet => f.write_str(
                "belongs to another ApplySet (`applyset.kubernetes.io/part-of`): remove it from that one first",
            ),
        }
    }
}

fn write_unlisted(f: &mut fmt::Formatter<'_>, unlisted: &UnlistedKind) -> fmt::Result {
    match &unlisted.cause {
        UnlistedCause::Forbidden { message, fix: _ } => {
            write!(f, "{}s cannot be listed: {message}", unlisted.kind.kind)
        }
        UnlistedCause::NotServed => {
            write!(f, "the cluster does not serve {} {}", unlisted.kind.api_version(), unlisted.kind.kind)
        }
    }
}

/// What is where a model's file was, as a part of a sentence.
pub(in crate::plan) fn describe_unread(place: &UnreadPlace) -> String {
    let path = &place.path;
    match &place.cause {
        UnreadCause::Submodule => format!("{path} is a submodule, which is not read"),
        UnreadCause::SymbolicLink => format!("{path} is a symbolic link, which is not followed"),
        UnreadCause::Misnamed { meant, model: _ } => format!("{path} is not read, because its name is not `{meant}`"),
    }
}

/// A file by its name, and where it lies.
struct FileWords<'a>(&'a str, Option<&'a str>);

impl fmt::Display for FileWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(source) => write!(f, "file `{}` ({source})", self.0),
            None => write!(f, "file `{}`", self.0),
        }
    }
}

fn write_files_changed(f: &mut fmt::Formatter<'_>, files: &[MountedChange]) -> fmt::Result {
    for (index, MountedChange { file, source, components }) in files.iter().enumerate() {
        let (join, verb) = (if index == 0 { "" } else { "; " }, if components.len() == 1 { "mounts" } else { "mount" });
        let words = FileWords(file, source.as_deref());
        write!(f, "{join}{} {verb} the new content of {words}", components.join(" and "))?;
    }
    Ok(())
}

fn write_new_graph(f: &mut fmt::Formatter<'_>, graph: Option<&ObjectRef>, moves: &AddressMove) -> fmt::Result {
    match graph {
        Some(graph) => write!(f, "{graph} is created beside it; this one is deleted once the new one is Healthy")?,
        None => f.write_str("a new graph is created beside it; this one is deleted once the new one is Healthy")?,
    }
    write_address_move(f, moves)
}

fn write_address_move(f: &mut fmt::Formatter<'_>, moves: &AddressMove) -> fmt::Result {
    let list = |some: &[GraphAddress]| some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let AddressMove { from, to } = moves;
    match (from.as_slice(), to.as_slice()) {
        (_, []) => Ok(()),
        ([], to) => write!(f, "; clients find it at {}", list(to)),
        (from, to) => write!(f, "; the address moves from {} to {}", list(from), list(to)),
    }
}

fn write_obstacle(f: &mut fmt::Formatter<'_>, obstacle: &NewGraphObstacle) -> fmt::Result {
    match obstacle {
        NewGraphObstacle::NameTaken { graph } => write!(
            f,
            "cannot be replaced new-first, because {graph} is another object: rename or delete it, or set \
             `rollout.replace: old-first`"
        ),
        NewGraphObstacle::NotGone { graph } => write!(
            f,
            "cannot be replaced new-first yet, because {graph}, which it replaced, is still being deleted: sync again \
             once it is gone"
        ),
        NewGraphObstacle::SharedNamespace { component } => write!(
            f,
            "cannot be replaced new-first, because component `{component}` has `globalDynamoNamespace: true` and both \
             graphs would find each other's workers: set `rollout.replace: old-first`"
        ),
    }
}

fn write_disruption(f: &mut fmt::Formatter<'_>, note: &DisruptionNote) -> fmt::Result {
    match note {
        DisruptionNote::RestartId { is_parallel } => {
            let order = if *is_parallel { "all at once" } else { "one after the other" };
            write!(f, "a new restart id restarts every component in place, {order}, workers included")
        }
        DisruptionNote::WorkersRoll { components } => write!(
            f,
            "all {} worker components roll ({}): the operator hashes them together",
            components.len(),
            components.join(", ")
        ),
    }
}

fn write_gpu_search(f: &mut fmt::Formatter<'_>, budget: RequestGpuBudget) -> fmt::Result {
    let count = |number: u64| {
        if budget.bounded {
            format!("up to {number} GPUs")
        } else {
            format!("as many GPUs as the operator finds, up to {number}")
        }
    };
    match (budget.profiling, budget.graph) {
        (0, 0) => f.write_str("profiling is simulated and uses no GPUs; the result is stored, not deployed"),
        (profiling, 0) => {
            write!(f, "profiling uses {}; the result is stored, not deployed", count(profiling))
        }
        (0, graph) => {
            write!(f, "profiling is simulated and uses no GPUs; the graph that it creates uses {}", count(graph))
        }
        (profiling, _) => {
            write!(f, "profiling uses {}, and the graph that it creates may use as many", count(profiling))
        }
    }
}
