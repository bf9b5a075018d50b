//! The findings that a plan makes.

stator_core::rules! {
    DUPLICATE_OBJECT = "plan/duplicate-object", "Two models must not render the same object, unless it is one volume that both render alike.";
    LEFTOVER = "plan/leftover", "What stator leaves behind is known: an object that git no longer has and that may not be stator's keeps its GPUs.";
    LOST_SETTINGS = "plan/lost-settings", "A repository that had a `stator.yaml` at its root keeps it: without it, its models would be synced once more, as `default` and without guards.";
    MID_ROLLOUT = "plan/mid-rollout", "Workers should not change again while they roll: going back half-way makes Dynamo delete the new pods immediately.";
    STILL_MANAGED = "plan/still-managed", "A tool that manages an object has to let go of it before stator takes it over: it would put its own fields back, or delete the object.";
    UNLISTED_KIND = "plan/unlisted-kind", "The kinds that models use are installed and may be listed: nothing is applied or pruned of a kind that cannot be.";
    UNREADABLE_OBJECT = "plan/damaged", "What the cluster holds must be readable: a damaged object is neither changed nor pruned.";
    UNREAD_SOURCE = "plan/unread-source", "A model is removed by removing its file, and not by putting something in its place that is not read.";
    TAKEN_OVER = "plan/taken-over", "Records that another source wrote, or an earlier stator, become those of this one: the plan says so once.";
}
