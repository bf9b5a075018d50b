//! Laws of repairs, and a fight over one field.

use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn identity(number: usize) -> ObjectIdentity {
    let text = str::to_owned;
    ObjectIdentity {
        namespace: text("models"),
        group: text("nvidia.com"),
        kind: text("DynamoGraphDeployment"),
        name: format!("mock-{number}"),
    }
}

fn field(path: &str, writer: &str) -> DriftedField {
    DriftedField { path: path.to_owned(), writer: Some(writer.to_owned()) }
}

fn one(path: &str, writer: &str) -> BTreeSet<DriftedField> {
    BTreeSet::from([field(path, writer)])
}

/// What an attempt does that finds one object drifted.
fn attempt(repairs: &mut DriftRepairs, now: Duration, fields: &BTreeSet<DriftedField>) -> RepairDecision {
    let decision = repairs.limits(now).decide(&identity(0), fields);
    let findings = match decision {
        RepairDecision::Repair => {
            DriftFindings { repaired: BTreeMap::from([(identity(0), fields.clone())]), ..DriftFindings::default() }
        }
        RepairDecision::Wait => DriftFindings { waiting: BTreeSet::from([identity(0)]), ..DriftFindings::default() },
        RepairDecision::LeaveDisputed(_) => {
            DriftFindings { disputed: BTreeSet::from([identity(0)]), ..DriftFindings::default() }
        }
    };
    repairs.record_attempt(now, &findings);
    // What is left is looked at when it may be put back, and not before.
    match repairs.next_repair() {
        None => assert_eq!(decision, RepairDecision::Repair),
        Some(due) => assert!(due > now && repairs.limits(due).decide(&identity(0), fields) == RepairDecision::Repair),
    }
    decision
}

/// Row A5 of the review: a repair that does not stick is told by name after a third try, and not fought.
#[test]
fn a_field_that_one_writer_sets_again_at_once_three_times_is_left_and_tried_now_and_then() {
    let (mut repairs, mut now) = (DriftRepairs::new(7), Duration::ZERO);
    let fought = one("spec.replicas", "scaler");
    let mut written = Vec::new();
    for _ in 0..3_600 {
        match attempt(&mut repairs, now, &fought) {
            RepairDecision::Repair => written.push(now),
            RepairDecision::Wait => {}
            RepairDecision::LeaveDisputed(fields) => assert_eq!(fields, fought),
        }
        now += SECOND;
    }
    // Within an hour: three repairs in the first seconds, then a try after ten seconds at least and five minutes at most.
    let pauses: Vec<Duration> = written.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(written[2] < 10 * SECOND && pauses[2] >= 10 * SECOND, "{written:?}");
    assert!(pauses.iter().all(|pause| *pause <= 301 * SECOND) && pauses.last() >= Some(&(150 * SECOND)), "{pauses:?}");
}

/// Row N5 of the second review: a person who edits a field three times, or a tool that does each minute, is healed each time.
#[test]
fn whoever_sets_a_field_again_later_is_healed_each_time() {
    for seconds in [11, 60, 200] {
        let (mut repairs, mut now) = (DriftRepairs::new(7), Duration::ZERO);
        for edits in 0..10 {
            // An edit may fall into a pause, which ends in time.
            let due = repairs.objects.get(&identity(0)).map_or(Duration::ZERO, |object| object.not_before);
            assert!(edits > 3 || due <= now, "after {edits} edits");
            assert_ne!(
                attempt(&mut repairs, now.max(due), &one("spec.replicas", "kubectl-edit")),
                RepairDecision::LeaveDisputed(one("spec.replicas", "kubectl-edit")),
                "every {seconds} s"
            );
            now = now.max(due) + seconds * SECOND;
        }
    }
}

/// A dispute ends with the first repair that holds.
#[test]
fn what_held_once_is_no_longer_disputed() {
    let (mut repairs, mut now) = (DriftRepairs::new(7), Duration::ZERO);
    let fought = one("spec.replicas", "scaler");
    let mut made = 0;
    while made < 4 {
        made += usize::from(attempt(&mut repairs, now, &fought) == RepairDecision::Repair);
        now += SECOND;
    }
    now += 60 * SECOND;
    assert_eq!(attempt(&mut repairs, now, &fought), RepairDecision::Repair, "undone after a minute");
}

#[test]
fn another_field_or_another_writer_is_put_back_as_ever() {
    let (mut repairs, mut now) = (DriftRepairs::new(7), Duration::ZERO);
    for _ in 0..3 {
        assert_eq!(attempt(&mut repairs, now, &one("spec.replicas", "scaler")), RepairDecision::Repair);
        now += 8 * SECOND;
    }
    let fought = one("spec.replicas", "scaler");
    assert_eq!(attempt(&mut repairs, now, &fought), RepairDecision::LeaveDisputed(fought));
    // Whoever else sets it waits for the pause of the object, and for nothing more.
    repairs.record_repair(now, &identity(0), &one("spec.replicas", "scaler"));
    assert_eq!(attempt(&mut repairs, now, &one("spec.replicas", "editor")), RepairDecision::Wait);
    now += 10 * SECOND;
    assert_eq!(attempt(&mut repairs, now, &one("spec.replicas", "editor")), RepairDecision::Repair);
    now += 20 * SECOND;
    assert_eq!(attempt(&mut repairs, now, &one("spec.image", "scaler")), RepairDecision::Repair);
}

/// Whoever deletes an object is not named anywhere: it is made again, at growing pauses.
#[test]
fn what_is_deleted_again_and_again_is_never_disputed() {
    let (mut repairs, mut now) = (DriftRepairs::new(7), Duration::ZERO);
    let mut made = 0;
    for _ in 0..3600 {
        let decision = attempt(&mut repairs, now, &BTreeSet::new());
        assert!(!matches!(decision, RepairDecision::LeaveDisputed(_)));
        made += usize::from(decision == RepairDecision::Repair);
        now += SECOND;
    }
    assert!((8..30).contains(&made), "{made}");
}

#[test]
fn what_stayed_healed_is_forgotten() {
    let mut repairs = DriftRepairs::new(7);
    let fought = one("spec.replicas", "scaler");
    assert_eq!(attempt(&mut repairs, Duration::ZERO, &fought), RepairDecision::Repair);
    assert_eq!(attempt(&mut repairs, 5 * SECOND, &fought), RepairDecision::Repair);
    repairs.record_attempt(1000 * SECOND, &DriftFindings::default());
    assert!(repairs.objects.is_empty());
    assert_eq!(attempt(&mut repairs, 1000 * SECOND, &fought), RepairDecision::Repair);
}

/// What happens to one object.
#[derive(Clone, Copy, Debug)]
enum Touch {
    Look,
    Repair,
    Lose,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Row E3 of the review: pauses are per object, and what is remembered is bounded.
    #[test]
    fn an_object_waits_for_itself_alone_and_only_so_many_are_remembered(
        touches in prop::collection::vec(
            (0usize..1500, prop_oneof![Just(Touch::Look), Just(Touch::Repair), Just(Touch::Lose)], 0u64..3000), 0..300),
        crowd in prop::bool::weighted(0.1),
        seed: u64,
    ) {
        let (mut repairs, mut now) = (DriftRepairs::new(seed), Duration::ZERO);
        if crowd {
            for number in 2000..2000 + MAX_OBJECTS {
                repairs.look_at(now, &identity(number));
            }
        }
        for (number, touch, milliseconds) in touches {
            now += Duration::from_millis(milliseconds);
            let object = identity(number % 7);
            match touch {
                Touch::Look => {
                    let due = repairs.look_at(now, &object);
                    prop_assert!(due >= now && due <= now + LONGEST_PAUSE);
                }
                Touch::Repair => repairs.record_repair(now, &object, &one("spec.replicas", "scaler")),
                Touch::Lose => {
                    let due = repairs.record_loss(now, &object);
                    prop_assert!(due >= now && due <= now + LONGEST_PAUSE);
                }
            }
            prop_assert!(repairs.objects.len() <= MAX_OBJECTS);
            // One that nobody touched.
            let untouched = identity(9);
            prop_assert_eq!(repairs.limits(now).decide(&untouched, &BTreeSet::new()), RepairDecision::Repair);
            prop_assert_eq!(repairs.clone().look_at(now, &untouched), now);
        }
        repairs.record_attempt(now + QUIET + SECOND, &DriftFindings::default());
        prop_assert!(repairs.objects.is_empty());
    }
}
