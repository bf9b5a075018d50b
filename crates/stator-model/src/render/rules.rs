//! The rules that rendering judges by; those of Dynamo's admission are in [`stator_core::dynamo::admission::rules::ALL`].

stator_core::rules! {
    BLOCK_SIZE = "render/block-size", "Prefill and decode use KV blocks of one size.";
    COMMAND_LINE = "render/command-line", "A setting that a command line names has a value.";
    NOT_WITH_SLA = "render/not-with-sla", "Fields of a graph cannot be combined with `sla`.";
    PARALLEL_SIZE = "render/parallel-size", "A parallel size that an engine only switches on has the size that follows from the others.";
    PLANNER_SCALING = "render/planner-scaling", "A worker that a planner scales has `scaling` bounds.";
    SETTING_IGNORED = "render/setting-ignored", "A setting is one that its engine or component accepts.";
}
