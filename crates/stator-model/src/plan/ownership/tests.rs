//! Whose a record is, for every pair of a source and an owner that a record names.

use super::super::RepositoryOrigin;
use super::*;

fn repository(path: &str) -> SourceIdentity {
    SourceIdentity::Repository { origin: RepositoryOrigin::at_path(path) }
}

fn model_source(name: &str, uid: &str) -> SourceIdentity {
    SourceIdentity::ModelSource {
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        origin: RepositoryOrigin::at_path("/srv/fleet"),
    }
}

/// How the record of `chat`, of this owner and from this environment, is judged by the source `models` of the folder
/// `/srv/fleet`; where `moves`, somebody released the guard.
fn judge(owner: Option<&SourceIdentity>, environment: &str, moves: bool) -> RecordOwnership {
    let claim = SourceClaim::new(model_source("models", "u1"));
    let source = "chat/model.yaml";
    let judge = OwnershipJudge {
        claim: Some(&claim),
        repository: "fleet",
        environment: "prod",
        folder: None,
        wanted: HashSet::from(["chat"]),
        files: claim.files(source).collect(),
        movable: if moves { HashSet::from(["chat"]) } else { HashSet::new() },
    };
    judge.judge(&RecordFacts { model: "chat", repository: "fleet", environment, source, folder: None, owner })
}

#[test]
fn a_record_is_taken_over_only_from_who_is_the_same_in_another_way() {
    use RecordOwnership::{Foreign, Own, TakenOver};
    use TakeoverCause::{Moved, NoOwner, Recreated, SameOrigin};
    let owners = [
        (Some(model_source("models", "u1")), Own),
        (Some(model_source("models", "u2")), TakenOver(Recreated)),
        (Some(repository("/srv/fleet")), TakenOver(SameOrigin)),
        (None, TakenOver(NoOwner)),
        // It follows the same repository, and reads the same file: perhaps of another branch.
        (Some(model_source("others", "u3")), Foreign),
        (Some(repository("/srv/fork")), Foreign),
    ];
    for (owner, expected) in &owners {
        assert_eq!(judge(owner.as_ref(), "prod", false), *expected, "{owner:?}");
        // Another environment's is nobody's to take, whoever it belongs to.
        assert_eq!(judge(owner.as_ref(), "staging", false), Foreign, "{owner:?}");
        let moved = if *expected == Foreign { TakenOver(Moved) } else { *expected };
        assert_eq!(judge(owner.as_ref(), "prod", true), moved, "{owner:?}, released");
    }
}

/// What a source asks of a record, each with what is most usual.
#[derive(Clone, Copy)]
struct JudgedRecord<'a> {
    claim: Option<&'a SourceClaim>,
    owner: Option<&'a SourceIdentity>,
    /// The folder that the source reads, and the one that the record names, where neither has a name.
    folders: (Option<&'a str>, Option<&'a str>),
    repository: &'a str,
    source: &'a str,
    /// Whether git has a model of the name.
    is_wanted: bool,
    moves: bool,
}

impl JudgedRecord<'_> {
    fn judge(&self) -> RecordOwnership {
        let set = |is_in: bool| if is_in { HashSet::from(["chat"]) } else { HashSet::new() };
        let judge = OwnershipJudge {
            claim: self.claim,
            repository: "fleet",
            environment: "prod",
            folder: self.folders.0,
            wanted: set(self.is_wanted),
            files: self.claim.into_iter().flat_map(|claim| claim.files("chat/model.yaml")).collect(),
            movable: set(self.moves),
        };
        judge.judge(&RecordFacts {
            model: "chat",
            repository: self.repository,
            environment: "prod",
            source: self.source,
            folder: self.folders.1,
            owner: self.owner,
        })
    }
}

/// Two folders without a name share the names that they have: what is read of the other folder is not this one's to delete.
#[test]
fn another_folder_without_a_name_is_left_alone() {
    use RecordOwnership::{Elsewhere, Own, TakenOver};
    let claim = SourceClaim::new(repository("/srv/one"));
    let other = repository("/srv/two");
    let usual = JudgedRecord {
        claim: None,
        owner: None,
        folders: (Some("/srv/one"), Some("/srv/two")),
        repository: "fleet",
        source: "chat/model.yaml",
        is_wanted: false,
        moves: false,
    };
    for owner in [None, Some(&other)] {
        assert_eq!(JudgedRecord { owner, ..usual }.judge(), Elsewhere, "{owner:?}");
        // The same folder, one with a name, and a model that this folder has, too.
        assert_eq!(JudgedRecord { owner, folders: (Some("/srv/one"), Some("/srv/one")), ..usual }.judge(), Own);
        assert_eq!(JudgedRecord { owner, folders: (None, Some("/srv/two")), ..usual }.judge(), Own);
        assert_eq!(JudgedRecord { owner, is_wanted: true, ..usual }.judge(), Own);
        // A release is of what is wanted, and not of what happens to lie beside it.
        assert_eq!(JudgedRecord { owner, moves: true, ..usual }.judge(), Elsewhere);
    }
    let claimed = JudgedRecord { claim: Some(&claim), ..usual };
    assert_eq!(claimed.judge(), Elsewhere);
    assert_eq!(JudgedRecord { is_wanted: true, ..claimed }.judge(), TakenOver(TakeoverCause::NoOwner));
}

/// Without a claim names decide, and all of them.
#[test]
fn a_record_of_another_name_is_somebody_elses() {
    use RecordOwnership::{Foreign, TakenOver};
    let claim = SourceClaim::new(repository("/srv/one"));
    let owner = repository("/srv/two");
    for claim in [None, Some(&claim)] {
        for owner in [None, Some(&owner)] {
            let other = JudgedRecord {
                claim,
                owner,
                folders: (Some("/srv/one"), Some("/srv/two")),
                repository: "other",
                source: "elsewhere/model.yaml",
                is_wanted: false,
                moves: false,
            };
            assert_eq!(other.judge(), Foreign, "{claim:?} {owner:?}");
            assert_eq!(JudgedRecord { moves: true, ..other }.judge(), TakenOver(TakeoverCause::Moved));
        }
    }
}

/// A root above or below reads the same file; another file of that folder is not this model's.
#[test]
fn the_same_file_read_from_another_root_is_the_same_model() {
    use RecordOwnership::{Foreign, TakenOver};
    let claim = SourceClaim::new(repository("/srv/fleet"));
    let above = repository("/srv");
    let judged = |source: &str| {
        JudgedRecord {
            claim: Some(&claim),
            owner: Some(&above),
            folders: (None, None),
            repository: "fleet",
            source,
            is_wanted: true,
            moves: false,
        }
        .judge()
    };
    assert_eq!(judged("fleet/chat/model.yaml"), TakenOver(TakeoverCause::SameFile));
    assert_eq!(judged("fork/chat/model.yaml"), Foreign);
}
