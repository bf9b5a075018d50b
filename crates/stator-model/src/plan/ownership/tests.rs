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
