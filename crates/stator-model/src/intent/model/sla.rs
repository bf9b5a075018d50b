//! What to reach, for a model served by target.

use super::RouterMode;
use crate::intent::scalar::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// Targets for Dynamo's profiler.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sla {
    /// Maximum time to first token (`300ms`).
    pub ttft: Option<Millis>,
    /// Maximum time between tokens (`20ms`).
    pub itl: Option<Millis>,
    /// The longest time for a whole answer (`10s`).
    pub e2e: Option<Millis>,
    /// What to prefer when there is a choice.
    pub optimize: Option<Optimize>,
    /// The traffic to expect.
    pub workload: Option<Workload>,
    /// How hard the profiler searches. `thorough` needs a named engine. Defaults to `rapid`.
    pub search: Option<Search>,
    /// Whether Dynamo deploys its result by itself. Defaults to false: the result is a recommendation.
    pub auto_apply: Option<bool>,
    /// Settings for a planner in the graph that Dynamo creates; setting it turns the planner on.
    pub planner: Option<Map<String, Value>>,
    /// How the graph that Dynamo creates spreads requests over its workers. Defaults to what the profiler chooses.
    #[schemars(extend("x-stator-synonyms" = ["routerMode"]))]
    pub router: Option<RouterMode>,
    /// Settings for every worker of the graph that Dynamo creates, regardless of what the profiler finds. Needs a named engine.
    pub worker: Option<SlaWorker>,
    /// The number of the attempt. Dynamo never retries a request: increase the number to replace a failed request with
    /// a new one. Defaults to 1.
    #[schemars(range(min = 1, max = 1000))]
    pub attempt: Option<u32>,
    /// Whether to profile with the mocker, without GPUs.
    pub mocker: Option<bool>,
}

/// What to favour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Optimize {
    /// Short answer times.
    Latency,
    /// Many answers.
    Throughput,
}

/// The traffic to expect.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// Input sequence length in tokens. Dynamo's default is 4000.
    #[schemars(range(min = 1))]
    pub isl: Option<u32>,
    /// Output sequence length in tokens. Dynamo's default is 1000.
    #[schemars(range(min = 1))]
    pub osl: Option<u32>,
    /// Requests under way at once. Not together with `requestRate`.
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
    /// Requests a second. Not together with `concurrency`.
    #[schemars(range(min = 0.001))]
    pub request_rate: Option<f64>,
}

/// How hard the profiler searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// Minutes, by model.
    Rapid,
    /// Hours, on real GPUs.
    Thorough,
}

/// Settings for every worker of the graph that Dynamo creates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlaWorker {
    /// Tensor parallel size. With it, or `pipelineParallel`, a replica gets tensorParallel × pipelineParallel GPUs.
    #[schemars(range(min = 1, max = 1024))]
    pub tensor_parallel: Option<u32>,
    /// Pipeline parallel size.
    #[schemars(range(min = 1, max = 1024))]
    pub pipeline_parallel: Option<u32>,
    /// Number type of weights and activations (`bfloat16`, `float16`, `auto`, …).
    #[schemars(length(min = 1))]
    pub dtype: Option<String>,
    /// Maximum sequences in one batch.
    #[schemars(range(min = 1))]
    pub max_sequences: Option<u32>,
    /// Maximum length of a sequence, prompt and answer together, in tokens.
    #[schemars(range(min = 1))]
    pub max_length: Option<u32>,
    /// Arguments appended to the engine's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}
