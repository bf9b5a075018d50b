//! How often drift of one object is put back. Values only: no clock, and what is random comes from a seed.
//!
//! Every object has pauses of its own. The first change of an object is looked at, and put back, at once, whatever happened to
//! others; when it changes again soon after, there is a pause that grows each time. Fields that the same writer set again at
//! once, three times in a row, are disputed: they are left as they are and reported, and one repair is tried from time to
//! time. Whoever sets them later is no machine that fights, and is healed each time. Only objects that changed lately are remembered, until they were quiet for a while, and never more than [`MAX_OBJECTS`].

use stator_core::object::ObjectIdentity;
use stator_core::retry::{JitterSource, backoff_delay};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Objects that are remembered at most. Beyond that, the one that was quiet for longest is forgotten, and its next change is
/// a first one.
pub(super) const MAX_OBJECTS: usize = 1000;
/// The pause between two repairs of one object, and between two looks at it: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Changes that are nothing to put back, such as an operator's annotations, wait for no longer than this.
const LONGEST_LOOK_PAUSE: Duration = Duration::from_secs(60);
/// After this long without a change, the next is looked at and put back at once again.
const QUIET: Duration = Duration::from_secs(600);
/// A repair that is seen undone within this time was undone at once.
const AT_ONCE: Duration = Duration::from_secs(10);
/// After so many repairs of the same field that the same writer undid at once, in a row, it is disputed.
const REPAIRS_BEFORE_DISPUTE: u32 = 3;
/// How long a disputed field is left alone before one repair is tried, half of it being chance: the first time, and the
/// longest.
const FIRST_TRY: Duration = Duration::from_secs(20);
const LONGEST_TRY: Duration = Duration::from_secs(300);

/// A field that differs from what was applied, and who made it so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DriftedField {
    /// Its path, as plans write it.
    pub(super) path: String,
    /// The field manager that wrote it; `None` where `managedFields` names nobody, as for a mutating webhook.
    pub(super) writer: Option<String>,
}

/// What was repaired lately.
#[derive(Clone, Debug)]
pub(super) struct DriftRepairs {
    objects: BTreeMap<ObjectIdentity, ChangedObject>,
    /// What the last attempt found, for what it left.
    left: DriftFindings,
    jitter: JitterSource,
}

/// One object that changed lately. Times are those of the caller's clock.
#[derive(Clone, Debug, Default)]
struct ChangedObject {
    /// When it was last looked at because it had changed, or put back.
    touched_at: Duration,
    repairs: u32,
    /// When it was last put back, and when it was first seen to differ again since.
    repaired_at: Duration,
    undone_at: Option<Duration>,
    /// Not before then is it repaired again.
    not_before: Duration,
    /// How often each field was put back, each time after it was undone at once.
    fields: BTreeMap<DriftedField, u32>,
    /// When one repair of disputed fields is tried, and how many were.
    try_at: Duration,
    tries: u32,
    /// Not before then does a change of it start a look, and how many did.
    look_not_before: Duration,
    looks: u32,
}

/// What one attempt may not repair. An object that is in neither is repaired at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RepairLimits {
    /// Objects that changed lately.
    changed_lately: BTreeSet<ObjectIdentity>,
    /// Objects whose pause is not over.
    waiting: BTreeSet<ObjectIdentity>,
    /// Fields that are disputed.
    disputed: BTreeMap<ObjectIdentity, BTreeSet<DriftedField>>,
}

/// What is done about one object that drifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RepairDecision {
    /// It is put back now.
    Repair,
    /// It is put back when its pause is over.
    Wait,
    /// It is left as it is, because of these fields.
    LeaveDisputed(BTreeSet<DriftedField>),
}

/// What an attempt found of drift, and did about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DriftFindings {
    /// Objects that it put back, with the fields that differed; none for one that was deleted.
    pub(super) repaired: BTreeMap<ObjectIdentity, BTreeSet<DriftedField>>,
    /// Objects that it left as they are since their pause is not over.
    pub(super) waiting: BTreeSet<ObjectIdentity>,
    /// Objects that it left as they are since they are disputed.
    pub(super) disputed: BTreeSet<ObjectIdentity>,
    /// What somebody changed or deleted meanwhile, so that it was not brought to its end.
    pub(super) interrupted_by: Option<ObjectIdentity>,
}

impl RepairLimits {
    /// Whether a change of this object is a reason to begin a sync anew that is under way: one that changes often would keep
    /// it from its end.
    pub(super) fn lets_interrupt(&self, object: &ObjectIdentity) -> bool {
        !self.changed_lately.contains(object)
    }

    /// What is done about an object of which these fields differ; none where it was deleted.
    pub(super) fn decide(&self, object: &ObjectIdentity, fields: &BTreeSet<DriftedField>) -> RepairDecision {
        let disputed = self.disputed.get(object).map(|disputed| disputed & fields).unwrap_or_default();
        if !disputed.is_empty() {
            RepairDecision::LeaveDisputed(disputed)
        } else if self.waiting.contains(object) {
            RepairDecision::Wait
        } else {
            RepairDecision::Repair
        }
    }
}

impl ChangedObject {
    /// Whether the last repair was undone at once, by what is seen until now.
    fn was_undone_at_once(&self, now: Duration) -> bool {
        self.undone_at.unwrap_or(now).saturating_sub(self.repaired_at) <= AT_ONCE
    }

    fn disputed_fields(&self) -> BTreeSet<DriftedField> {
        let disputed = self.fields.iter().filter(|(_, repairs)| **repairs >= REPAIRS_BEFORE_DISPUTE);
        disputed.map(|(field, _)| field.clone()).collect()
    }

    fn is_disputed(&self, now: Duration) -> bool {
        self.was_undone_at_once(now) && self.fields.values().any(|repairs| *repairs >= REPAIRS_BEFORE_DISPUTE)
    }
}

impl DriftRepairs {
    /// Nothing was repaired yet.
    pub(super) fn new(seed: u64) -> Self {
        Self { objects: BTreeMap::new(), left: DriftFindings::default(), jitter: JitterSource::new(seed) }
    }

    /// Forgets everything: a new commit, or a person, asks for all of it to be put back.
    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.left = DriftFindings::default();
    }

    /// What an attempt that begins now may not repair.
    pub(super) fn limits(&self, now: Duration) -> RepairLimits {
        let mut limits = RepairLimits::default();
        for (identity, object) in &self.objects {
            limits.changed_lately.insert(identity.clone());
            if now < object.not_before {
                limits.waiting.insert(identity.clone());
            }
            if object.is_disputed(now) && now < object.try_at {
                limits.disputed.insert(identity.clone(), object.disputed_fields());
            }
        }
        limits
    }

    /// Takes in what an attempt did.
    pub(super) fn record_attempt(&mut self, now: Duration, findings: &DriftFindings) {
        self.left = DriftFindings { repaired: BTreeMap::new(), ..findings.clone() };
        for identity in findings.waiting.iter().chain(&findings.disputed) {
            if let Some(object) = self.objects.get_mut(identity) {
                object.undone_at.get_or_insert(now);
            }
        }
        for (identity, fields) in &findings.repaired {
            self.record_repair(now, identity, fields);
        }
        self.forget_quiet(now);
    }

    /// Takes in what was put back beside an attempt, which says nothing of other objects.
    pub(super) fn record_repair(&mut self, now: Duration, identity: &ObjectIdentity, fields: &BTreeSet<DriftedField>) {
        let random = [self.jitter.next_u64(), self.jitter.next_u64()];
        let object = self.objects.entry(identity.clone()).or_default();
        object.not_before = now + backoff_delay(FIRST_PAUSE, LONGEST_PAUSE, object.repairs, random[0]);
        object.repairs = object.repairs.saturating_add(1);
        object.touched_at = now;
        if !object.was_undone_at_once(now) {
            object.fields.clear();
            object.tries = 0;
        }
        (object.repaired_at, object.undone_at) = (now, None);
        // What differs no longer is no longer disputed.
        object.fields.retain(|field, _| fields.contains(field));
        for field in fields {
            let repairs = object.fields.entry(field.clone()).or_default();
            *repairs = repairs.saturating_add(1);
        }
        if object.is_disputed(now) {
            object.try_at = now + backoff_delay(FIRST_TRY, LONGEST_TRY, object.tries, random[1]);
            object.tries = object.tries.saturating_add(1);
        }
        self.forget_surplus();
    }

    /// Takes in that an object went while a sync waited for it, and says until when there is a pause: the first time it is
    /// made again at once.
    pub(super) fn record_loss(&mut self, now: Duration, identity: &ObjectIdentity) -> Duration {
        let repairs = self.objects.get(identity).map_or(0, |object| object.repairs);
        self.record_repair(now, identity, &BTreeSet::new());
        let Some(object) = self.objects.get_mut(identity) else { return now };
        if repairs == 0 {
            object.not_before = now;
        }
        object.not_before
    }

    /// When an object that changed just now is worth a look: `now`, or when its pause is over.
    pub(super) fn look_at(&mut self, now: Duration, identity: &ObjectIdentity) -> Duration {
        let random = self.jitter.next_u64();
        let object = self.objects.entry(identity.clone()).or_default();
        // Of what is disputed the next try may be far, and another change of it is worth a look before.
        let not_before = if object.is_disputed(now) { Duration::ZERO } else { object.not_before };
        let due = now.max(object.look_not_before).max(not_before);
        if due == now {
            if now.saturating_sub(object.touched_at) > QUIET {
                object.looks = 0;
            }
            object.look_not_before = now + backoff_delay(FIRST_PAUSE, LONGEST_LOOK_PAUSE, object.looks, random);
            object.looks = object.looks.saturating_add(1);
        }
        object.touched_at = now;
        self.forget_surplus();
        due
    }

    /// When the first of what an attempt left may be put back; nothing where it left nothing.
    pub(super) fn repair_due(&self, findings: &DriftFindings) -> Option<Duration> {
        // What was forgotten is held by nothing.
        let due = |identity: &ObjectIdentity, is_disputed: bool| match self.objects.get(identity) {
            Some(object) if is_disputed => object.try_at.max(object.not_before),
            Some(object) => object.not_before,
            None => Duration::ZERO,
        };
        let waiting = findings.waiting.iter().map(|identity| due(identity, false));
        waiting.chain(findings.disputed.iter().map(|identity| due(identity, true))).min()
    }

    /// When something that the last attempt left drifted may be put back.
    pub(super) fn next_repair(&self) -> Option<Duration> {
        self.repair_due(&self.left)
    }

    fn forget_quiet(&mut self, now: Duration) {
        let left = &self.left;
        self.objects.retain(|identity, object| {
            let is_left = left.waiting.contains(identity) || left.disputed.contains(identity);
            is_left || now.saturating_sub(object.touched_at) <= QUIET
        });
    }

    fn forget_surplus(&mut self) {
        while self.objects.len() > MAX_OBJECTS {
            let oldest = self.objects.iter().min_by_key(|(_, object)| object.touched_at);
            let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) else { return };
            self.objects.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
