//! Where each limit is, to the last object and the last GPU.

use super::*;
use stator_core::object::ObjectRef;

fn change(number: usize, action: Action) -> Change {
    let object = ObjectRef {
        api_version: "nvidia.com/v1beta1".to_owned(),
        kind: "DynamoGraphDeployment".to_owned(),
        namespace: "prod".to_owned(),
        name: format!("graph-{number}"),
    };
    Change { action, ..Change::new("chat", "chat/model.yaml", object) }
}

/// The guards that find something.
fn found(limits: &GuardLimits<'_>, changes: &[Change]) -> Vec<HoldKind> {
    limits.find_holds(changes, |one| one.action != Action::Keep).into_iter().map(|hold| hold.kind).collect()
}

#[test]
fn a_fifth_of_many_objects_and_five_of_few_may_be_deleted() {
    let allow = BTreeSet::new();
    for (max_deletions, present, most) in
        [(None, 0, 5), (None, 29, 5), (None, 43, 8), (None, 100, 20), (Some(2), 100, 2)]
    {
        let limits = GuardLimits { max_deletions, max_gpus: None, present, other_gpus: 0, allow: &allow };
        let deletions = |count: usize| (0..count).map(|number| change(number, Action::Delete)).collect::<Vec<_>>();
        assert_eq!(found(&limits, &deletions(most)), [], "{most} of {present}");
        assert_eq!(found(&limits, &deletions(most + 1)), [HoldKind::MassDelete], "{} of {present}", most + 1);
    }
}

#[test]
fn gpus_are_held_from_the_first_one_above_the_limit_and_only_for_who_needs_more() {
    let allow = BTreeSet::new();
    let limits = GuardLimits { max_deletions: None, max_gpus: Some(16), present: 9, other_gpus: 4, allow: &allow };
    let using = |action: Action, before: u64, peak: u64| {
        let mut one = change(0, action);
        (one.gpus.before, one.gpus.after, one.gpus.peak) = (before, peak, peak);
        vec![one]
    };
    assert_eq!(found(&limits, &using(Action::Update, 8, 12)), [], "the limit is reached, and not exceeded");
    assert_eq!(found(&limits, &using(Action::Update, 8, 13)), [HoldKind::MaxGpus]);
    assert_eq!(found(&limits, &using(Action::Update, 13, 13)), [], "it has as many already");
    assert_eq!(found(&limits, &using(Action::Keep, 8, 13)), [], "nothing of it is written");
}
