//! The rules that rendering judges by.

use crate::finding::Rule;

/// `engine: auto` needs `sla`.
pub const ENGINE_AUTO: Rule =
    Rule { id: "render/engine-auto", summary: "`engine: auto` is possible with `sla` alone." };
/// One of `serving` and `sla`.
pub const SERVING_OR_SLA: Rule =
    Rule { id: "render/serving-or-sla", summary: "A model has exactly one of `serving` and `sla`." };
/// Every container needs an image.
pub const NO_IMAGE: Rule =
    Rule { id: "render/no-image", summary: "Every component has an image, from `runtime` or an `image`." };
/// GPUs divide over nodes.
pub const GPUS_PER_NODE: Rule =
    Rule { id: "render/gpus-per-node", summary: "The GPUs of a replica divide evenly over its nodes." };
/// Prefill and decode share a block size.
pub const BLOCK_SIZE: Rule = Rule { id: "render/block-size", summary: "Prefill and decode use KV blocks of one size." };
/// A setting that the engine does not have.
pub const SETTING_IGNORED: Rule =
    Rule { id: "render/setting-ignored", summary: "A setting is one that its engine or component takes." };
/// A switch has the size that the engine gives it.
pub const PARALLEL_SIZE: Rule = Rule {
    id: "render/parallel-size",
    summary: "A parallel size that an engine only switches on has the size that follows from the others.",
};
/// Adapters need `serving`.
pub const ADAPTERS_SERVING: Rule =
    Rule { id: "render/adapters-serving", summary: "Adapters need `serving`, whose workers they load into." };
/// Adapter names are unique.
pub const ADAPTER_TWICE: Rule =
    Rule { id: "render/adapter-twice", summary: "Each adapter of a model has a name of its own." };
/// A planner needs bounds.
pub const PLANNER_SCALING: Rule =
    Rule { id: "render/planner-scaling", summary: "A worker that a planner scales has `scaling` bounds." };
/// Fields that a request cannot carry.
pub const NOT_WITH_SLA: Rule =
    Rule { id: "render/not-with-sla", summary: "Fields of a graph have no place beside `sla`." };
/// The mocker is no profiler's engine.
pub const MOCKER_SLA: Rule = Rule { id: "render/mocker-sla", summary: "`sla` needs a real engine or `auto`." };
/// Overrides hit an object and leave its identity alone.
pub const OVERRIDE: Rule =
    Rule { id: "render/override", summary: "An override hits a rendered object and leaves its identity alone." };

/// Every rule of this room; those of Dynamo's admission are in [`crate::dynamo::admission::rules::ALL`].
pub const ALL: &[Rule] = &[
    ADAPTERS_SERVING,
    ADAPTER_TWICE,
    BLOCK_SIZE,
    ENGINE_AUTO,
    GPUS_PER_NODE,
    MOCKER_SLA,
    NOT_WITH_SLA,
    NO_IMAGE,
    OVERRIDE,
    PARALLEL_SIZE,
    PLANNER_SCALING,
    SERVING_OR_SLA,
    SETTING_IGNORED,
];
