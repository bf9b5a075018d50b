//! The findings that a plan makes.

stator_core::rules! {
    DUPLICATE_OBJECT = "plan/duplicate-object", "Two models must not render the same object, unless it is one volume that both render alike.";
    MID_ROLLOUT = "plan/mid-rollout", "Workers should not change again while they roll: going back half-way makes Dynamo delete the new pods immediately.";
    STILL_MANAGED = "plan/still-managed", "A tool that manages an object has to let go of it before stator takes it over: it would put its own fields back, or delete the object.";
    UNREADABLE_OBJECT = "plan/damaged", "What the cluster holds must be readable: a damaged object is neither changed nor pruned.";
    MOVED_NAMESPACE = "plan/other-namespace", "An environment that moves to another namespace leaves nothing behind: objects in the old namespace keep their GPUs.";
}
