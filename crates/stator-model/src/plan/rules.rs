//! The findings that a plan makes.

use stator_core::finding::Rule;

/// Two models render one object.
pub const DUPLICATE_OBJECT: Rule = Rule {
    id: "plan/duplicate-object",
    summary: "Two models must not render the same object, unless it is one volume that both render alike.",
};
/// A change while a rollout is under way.
pub const MID_ROLLOUT: Rule = Rule {
    id: "plan/mid-rollout",
    summary: "Workers should not change again while they roll: going back half-way makes Dynamo delete the new pods immediately.",
};
/// A record or live object that cannot be read.
pub const UNREADABLE_OBJECT: Rule = Rule {
    id: "plan/damaged",
    summary: "What the cluster holds must be readable: a damaged object is neither changed nor pruned.",
};

/// Models of the environment where its namespace was before.
pub const MOVED_NAMESPACE: Rule = Rule {
    id: "plan/other-namespace",
    summary: "An environment that moves to another namespace leaves nothing behind: objects in the old namespace keep their GPUs.",
};

/// Every rule of this room.
pub const ALL: &[Rule] = &[DUPLICATE_OBJECT, MID_ROLLOUT, UNREADABLE_OBJECT, MOVED_NAMESPACE];
