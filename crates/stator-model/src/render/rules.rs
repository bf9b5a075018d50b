//! The rules that rendering judges by.

use stator_core::finding::Rule;

/// Prefill and decode share a block size.
pub const BLOCK_SIZE: Rule = Rule { id: "render/block-size", summary: "Prefill and decode use KV blocks of one size." };
/// A setting that the engine does not have.
pub const SETTING_IGNORED: Rule =
    Rule { id: "render/setting-ignored", summary: "A setting is one that its engine or component accepts." };
/// A command line names settings that have values.
pub const COMMAND_LINE: Rule =
    Rule { id: "render/command-line", summary: "A setting that a command line names has a value." };
/// A switch has the size that the engine gives it.
pub const PARALLEL_SIZE: Rule = Rule {
    id: "render/parallel-size",
    summary: "A parallel size that an engine only switches on has the size that follows from the others.",
};
/// A planner needs bounds.
pub const PLANNER_SCALING: Rule =
    Rule { id: "render/planner-scaling", summary: "A worker that a planner scales has `scaling` bounds." };
/// Fields that a request cannot carry.
pub const NOT_WITH_SLA: Rule =
    Rule { id: "render/not-with-sla", summary: "Fields of a graph cannot be combined with `sla`." };

/// Every rule of this room; those of Dynamo's admission are in [`stator_core::dynamo::admission::rules::ALL`].
pub const ALL: &[Rule] = &[BLOCK_SIZE, COMMAND_LINE, NOT_WITH_SLA, PARALLEL_SIZE, PLANNER_SCALING, SETTING_IGNORED];
