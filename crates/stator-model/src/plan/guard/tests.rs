//! Where each limit is, to the last object and the last GPU.

use super::*;
use crate::plan::HeldChanges;
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
        let limits =
            GuardLimits { max_deletions, max_gpus: None, present, other_gpus: 0, rewound: None, allow: &allow };
        let deletions = |count: usize| (0..count).map(|number| change(number, Action::Delete)).collect::<Vec<_>>();
        assert_eq!(found(&limits, &deletions(most)), [], "{most} of {present}");
        assert_eq!(found(&limits, &deletions(most + 1)), [HoldKind::MassDelete], "{} of {present}", most + 1);
    }
}

#[test]
fn gpus_are_held_from_the_first_one_above_the_limit_and_only_for_who_needs_more() {
    let allow = BTreeSet::new();
    let limits = GuardLimits {
        max_deletions: None,
        max_gpus: Some(16),
        present: 9,
        other_gpus: 4,
        rewound: None,
        allow: &allow,
    };
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

#[test]
fn what_a_branch_that_went_back_would_change_is_held_and_the_move_itself() {
    let (allow, allowed) = (BTreeSet::new(), BTreeSet::from([HoldKind::Rollback]));
    let rewound = RewoundBranch { from: "a".repeat(40), to: "b".repeat(40), holds_unchanged: true };
    let limits = |rewound, allow| GuardLimits {
        max_deletions: None,
        max_gpus: None,
        present: 9,
        other_gpus: 0,
        rewound: Some(rewound),
        allow,
    };
    let holds = limits(&rewound, &allow).find_holds(&[], |_| true);
    insta::assert_snapshot!(holds[0].message, @"the branch points to bbbbbbb, which does not descend from the applied commit aaaaaaa");
    assert!(limits(&rewound, &allowed).find_holds(&[], |_| true)[0].allowed);
    let digest = |rewound: &RewoundBranch| HeldChanges::of(&[], Some(rewound.clone())).digest().to_owned();
    let other = RewoundBranch { from: "c".repeat(40), ..rewound.clone() };
    assert_ne!(digest(&rewound), digest(&other), "an approval is for one way back");
    assert!(HeldChanges::default().is_part_of(&HeldChanges::of(&[], Some(rewound.clone()))));
    assert!(!HeldChanges::of(&[], Some(rewound.clone())).is_part_of(&HeldChanges::of(&[], Some(other))));
    // Whoever can only sync by hand leaves nothing to do, and that is that.
    let rewound = RewoundBranch { holds_unchanged: false, ..rewound.clone() };
    assert_eq!(found(&limits(&rewound, &allow), &[change(0, Action::Keep)]), []);
    assert_eq!(found(&limits(&rewound, &allow), &[change(0, Action::Update)]), [HoldKind::Rollback]);
}

/// What takes its place is there already, or it comes with what it belongs to: nothing is lost with it.
#[test]
fn what_another_object_follows_is_no_deletion_to_be_approved() {
    let allow = BTreeSet::new();
    let limits =
        GuardLimits { max_deletions: Some(0), max_gpus: None, present: 9, other_gpus: 0, rewound: None, allow: &allow };
    let deleted = |kind: &str| {
        let mut one = change(0, Action::Delete);
        one.object.kind = kind.to_owned();
        one
    };
    let successor = change(1, Action::Keep).object;
    let mut outgoing = deleted("DynamoGraphDeployment");
    outgoing.step = PlanStep::Write(PlannedWrite::Delete(crate::plan::DeleteStep {
        object: outgoing.object.clone(),
        stage: crate::render::ApplyStage::Graph,
        uid: "uid".to_owned(),
        resource_version: "1".to_owned(),
        after: Some(Box::new(successor.clone())),
        leaves: None,
    }));
    let mut superseded = deleted("ConfigMap");
    superseded.reasons = vec![ChangeReason::FileSuperseded { by: successor }];
    let mut file = deleted("ConfigMap");
    file.before = Some(JsonText::from(serde_json::json!({"metadata": {"labels": {LABEL_FILE: "engine"}}})));
    let mut other = deleted("ConfigMap");
    other.before = Some(JsonText::from(serde_json::json!({"metadata": {"labels": {}}})));
    for (one, expected) in [
        (outgoing, vec![]),
        (superseded, vec![]),
        (file, vec![]),
        (deleted("Job"), vec![]),
        (other, vec![HoldKind::MassDelete]),
        (deleted("DynamoModel"), vec![HoldKind::MassDelete]),
    ] {
        assert_eq!(found(&limits, std::slice::from_ref(&one)), expected, "{} {:?}", one.object.kind, one.reasons);
    }
}
