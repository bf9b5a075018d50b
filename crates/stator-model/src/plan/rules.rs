//! The findings that a plan makes.

stator_core::rules! {
    CAPACITY = "plan/capacity", "The cluster has as many GPUs as a plan needs at once.";
    DUPLICATE_OBJECT = "plan/duplicate-object", "Two models must not render the same object, unless it is one volume that both render alike.";
    LEFTOVER = "plan/leftover", "stator reports the objects that it leaves in place: one that git no longer has and that may not be stator's keeps its GPUs.";
    LOST_SETTINGS = "plan/lost-settings", "A repository that had a `stator.yaml` at its root keeps it: without it, its models would be synced once more, as `default` and without guards.";
    MID_ROLLOUT = "plan/mid-rollout", "Workers should not change again while they roll: going back half-way makes Dynamo delete the new pods immediately.";
    STILL_MANAGED = "plan/still-managed", "A tool must stop managing an object before stator takes it over: otherwise it reverts stator's changes or deletes the object.";
    UNLISTED_KIND = "plan/unlisted-kind", "The kinds that models use are installed and may be listed: nothing is applied or pruned of a kind that cannot be.";
    UNREADABLE_OBJECT = "plan/damaged", "Objects in the cluster must be readable: a damaged one is neither changed nor pruned.";
    UNREAD_SOURCE = "plan/unread-source", "To remove a model, remove its file: do not put something in its place that stator does not read.";
    TAKEN_OVER = "plan/taken-over", "A source takes over records of another source or of an earlier stator: the plan says so once.";
}
