//! Engines as tables: which flag carries which setting. No engine has a branch in the code; a difference is a row.
//!
//! Source: each backend's argument parser in Dynamo 1.2 and upstream's examples.

mod command_line;
mod custom;
mod mocker;
mod sglang;
mod trtllm;
mod vllm;

use crate::intent::model::{Engine, Worker};
pub use command_line::{placeholder_name, placeholder_settings};
use serde_json::{Map, Value};

/// A setting of the intent that some engine takes as a flag or an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EngineSetting {
    /// `spec.model`.
    Model,
    /// `spec.servedName`.
    ServedName,
    /// `tensorParallel`.
    TensorParallel,
    /// `pipelineParallel`.
    PipelineParallel,
    /// `dataParallel`.
    DataParallel,
    /// `expertParallel`.
    ExpertParallel,
    /// `dtype`.
    Dtype,
    /// `maxSequences`.
    MaxSequences,
    /// `maxLength`.
    MaxLength,
    /// `memoryFraction`.
    MemoryFraction,
    /// `blockSize`.
    BlockSize,
    /// `prefill` or `decode`, only where the two are apart.
    DisaggregationMode,
    /// The largest `maxRank` of the adapters, only where there are any.
    AdapterRank,
}

impl EngineSetting {
    /// The intent's word for settings of a worker; none for those that every engine has.
    pub fn worker_field(self) -> Option<&'static str> {
        match self {
            Self::TensorParallel => Some("tensorParallel"),
            Self::PipelineParallel => Some("pipelineParallel"),
            Self::DataParallel => Some("dataParallel"),
            Self::ExpertParallel => Some("expertParallel"),
            Self::Dtype => Some("dtype"),
            Self::MaxSequences => Some("maxSequences"),
            Self::MaxLength => Some("maxLength"),
            Self::MemoryFraction => Some("memoryFraction"),
            Self::BlockSize => Some("blockSize"),
            Self::Model | Self::ServedName | Self::DisaggregationMode | Self::AdapterRank => None,
        }
    }

    /// Whether it multiplies the GPUs of a replica.
    pub fn counts_gpus(self) -> bool {
        match self {
            Self::TensorParallel | Self::PipelineParallel | Self::DataParallel => true,
            Self::Model
            | Self::ServedName
            | Self::ExpertParallel
            | Self::Dtype
            | Self::MaxSequences
            | Self::MaxLength
            | Self::MemoryFraction
            | Self::BlockSize
            | Self::DisaggregationMode
            | Self::AdapterRank => false,
        }
    }

    /// Every setting that a worker may carry.
    const WORKER_SETTINGS: &'static [Self] = &[
        Self::TensorParallel,
        Self::PipelineParallel,
        Self::DataParallel,
        Self::ExpertParallel,
        Self::Dtype,
        Self::MaxSequences,
        Self::MaxLength,
        Self::MemoryFraction,
        Self::BlockSize,
    ];
}

/// What a worker does in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerRole {
    /// Prefill and decode together.
    Aggregated,
    /// The prefill half.
    Prefill,
    /// The decode half.
    Decode,
}

/// When a fixed row of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCondition {
    /// For every worker.
    Always,
    /// For the prefill half.
    Prefill,
    /// For both halves.
    Disaggregated,
    /// Where a router follows KV events: aggregated and prefill workers behind router `kv` or an endpoint picker.
    KvEvents,
    /// Where the model has adapters.
    Adapters,
}

/// One row of an engine's table. Rows are rendered in the table's order.
#[derive(Clone, Copy, Debug)]
pub enum EngineRow {
    /// A setting as a flag and its value: two list items, since the operator reads parallel sizes from separate items.
    Flag(EngineSetting, &'static str),
    /// A setting as a switch that is on when the setting is above 1. Its size is then the product of other settings.
    Switch(EngineSetting, &'static str, &'static [EngineSetting]),
    /// A setting as an engine option, a field of the options' JSON.
    OptionField(EngineSetting, &'static str),
    /// Fixed arguments.
    Fixed(RowCondition, &'static [&'static str]),
    /// Fixed engine options, as a JSON map.
    FixedOptions(RowCondition, &'static str),
}

/// All that stator knows of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineTable {
    /// `spec.backendFramework`, where Dynamo has a word for it.
    pub framework: Option<&'static str>,
    /// The Python module that `python3 -m` runs.
    pub module: &'static str,
    /// NVIDIA's image, without registry and tag.
    pub image: &'static str,
    /// The directory that upstream's manifests start it in, where relative paths matter.
    pub working_dir: Option<&'static str>,
    /// The component type of an aggregated worker.
    pub aggregated_type: &'static str,
    /// Environment variables where the model has adapters; empty when the engine loads none.
    pub adapter_env: &'static [(&'static str, &'static str)],
    /// What the profiler calls the workers of a graph that it makes, over its releases; none for what it cannot make.
    pub generated_workers: &'static [&'static str],
    /// The flag that takes engine options as one JSON map.
    pub options_flag: Option<&'static str>,
    /// Other spellings that the engine takes for a setting's flag. They are read, never rendered.
    pub aliases: &'static [(EngineSetting, &'static str)],
    /// The rows.
    pub rows: &'static [EngineRow],
}

/// The table of an engine; none for `auto`, which only a request may carry.
pub fn table(engine: Engine) -> Option<&'static EngineTable> {
    match engine {
        Engine::Vllm => Some(&vllm::TABLE),
        Engine::Sglang => Some(&sglang::TABLE),
        Engine::Trtllm => Some(&trtllm::TABLE),
        Engine::Mocker => Some(&mocker::TABLE),
        Engine::Custom => Some(&custom::TABLE),
        Engine::Auto => None,
    }
}

/// What a worker's arguments are made of.
#[derive(Clone, Copy, Debug)]
pub struct WorkerInputs<'a> {
    /// `spec.model`.
    pub model: &'a str,
    /// `spec.servedName`.
    pub served_name: Option<&'a str>,
    /// The worker.
    pub worker: &'a Worker,
    /// Its role.
    pub role: WorkerRole,
    /// Whether a router follows its KV events.
    pub kv_events: bool,
    /// The largest rank of the adapters, when there are any.
    pub adapter_rank: Option<u32>,
}

impl WorkerInputs<'_> {
    fn setting_value(&self, setting: EngineSetting) -> Option<Value> {
        let worker = self.worker;
        match setting {
            EngineSetting::Model => Some(self.model.into()),
            EngineSetting::ServedName => self.served_name.map(Value::from),
            EngineSetting::TensorParallel => worker.tensor_parallel.map(Value::from),
            EngineSetting::PipelineParallel => worker.pipeline_parallel.map(Value::from),
            EngineSetting::DataParallel => worker.data_parallel.map(Value::from),
            EngineSetting::ExpertParallel => worker.expert_parallel.map(Value::from),
            EngineSetting::Dtype => worker.dtype.as_deref().map(Value::from),
            EngineSetting::MaxSequences => worker.max_sequences.map(Value::from),
            EngineSetting::MaxLength => worker.max_length.map(Value::from),
            EngineSetting::MemoryFraction => worker.memory_fraction.map(Value::from),
            EngineSetting::BlockSize => worker.block_size.map(Value::from),
            EngineSetting::DisaggregationMode => match self.role {
                WorkerRole::Aggregated => None,
                WorkerRole::Prefill => Some("prefill".into()),
                WorkerRole::Decode => Some("decode".into()),
            },
            EngineSetting::AdapterRank => self.adapter_rank.map(Value::from),
        }
    }

    fn matches_condition(&self, when: RowCondition) -> bool {
        match when {
            RowCondition::Always => true,
            RowCondition::Prefill => self.role == WorkerRole::Prefill,
            RowCondition::Disaggregated => self.role != WorkerRole::Aggregated,
            RowCondition::KvEvents => self.kv_events && self.role != WorkerRole::Decode,
            RowCondition::Adapters => self.adapter_rank.is_some(),
        }
    }
}

impl EngineTable {
    /// The component type of a role.
    pub fn component_type(&self, role: WorkerRole) -> &'static str {
        match role {
            WorkerRole::Aggregated => self.aggregated_type,
            WorkerRole::Prefill => "prefill",
            WorkerRole::Decode => "decode",
        }
    }

    /// The arguments of a worker: table rows, then engine options, then what the intent appends.
    pub fn args(&self, inputs: &WorkerInputs<'_>) -> Vec<String> {
        let mut args = Vec::new();
        let mut options = Map::new();
        for row in self.rows {
            match *row {
                EngineRow::Flag(setting, flag) => {
                    if let Some(value) = inputs.setting_value(setting) {
                        args.push(flag.to_owned());
                        args.push(format_argument(&value));
                    }
                }
                EngineRow::Switch(setting, flag, _) => {
                    if inputs.setting_value(setting).and_then(|value| value.as_u64()).is_some_and(|size| size > 1) {
                        args.push(flag.to_owned());
                    }
                }
                EngineRow::OptionField(setting, field) => {
                    if let Some(value) = inputs.setting_value(setting) {
                        options.insert(field.to_owned(), value);
                    }
                }
                EngineRow::Fixed(when, fixed) => {
                    if inputs.matches_condition(when) {
                        args.extend(fixed.iter().map(|&argument| argument.to_owned()));
                    }
                }
                EngineRow::FixedOptions(when, json) => {
                    if inputs.matches_condition(when)
                        && let Ok(Value::Object(fixed)) = serde_json::from_str(json)
                    {
                        options.extend(fixed);
                    }
                }
            }
        }
        if let Some(flag) = self.options_flag {
            super::strategic_merge::merge_maps(&mut options, inputs.worker.engine_options.as_ref());
            if !options.is_empty() {
                args.push(flag.to_owned());
                args.push(Value::Object(options).to_string());
            }
        }
        args.extend(inputs.worker.args.iter().cloned());
        args
    }

    /// What the intent says of a worker, and nothing that makes a worker one: for a command line that somebody else
    /// writes.
    pub fn override_args(&self, inputs: &WorkerInputs<'_>) -> Vec<String> {
        let mut args = Vec::new();
        for row in self.rows {
            match *row {
                EngineRow::Flag(setting, flag) if setting != EngineSetting::Model => {
                    if let Some(value) = inputs.setting_value(setting) {
                        args.extend([flag.to_owned(), format_argument(&value)]);
                    }
                }
                EngineRow::Flag(..)
                | EngineRow::Switch(..)
                | EngineRow::OptionField(..)
                | EngineRow::Fixed(..)
                | EngineRow::FixedOptions(..) => {}
            }
        }
        args.extend(inputs.worker.args.iter().cloned());
        args
    }

    /// Settings given that [`Self::override_args`] cannot carry: they have no flag of their own.
    pub fn settings_without_flag(&self, inputs: &WorkerInputs<'_>) -> Vec<&'static str> {
        let flag =
            |wanted| self.rows.iter().any(|row| matches!(row, EngineRow::Flag(setting, _) if *setting == wanted));
        let of_workers =
            EngineSetting::WORKER_SETTINGS.iter().filter(|setting| inputs.setting_value(**setting).is_some());
        of_workers.filter(|setting| !flag(**setting)).filter_map(|setting| setting.worker_field()).collect()
    }

    /// Settings of a worker that this engine has no way to take.
    pub fn unsupported_settings(&self, inputs: &WorkerInputs<'_>) -> Vec<&'static str> {
        let mut ignored: Vec<&'static str> = EngineSetting::WORKER_SETTINGS
            .iter()
            .filter(|&&setting| inputs.setting_value(setting).is_some() && !self.supports_setting(setting))
            .filter_map(|setting| setting.worker_field())
            .collect();
        if self.options_flag.is_none() && inputs.worker.engine_options.is_some() {
            ignored.push("engineOptions");
        }
        ignored
    }

    /// Settings that this engine takes as a switch, and whose size is not the one that the switch stands for: the
    /// field, the size written, the size it will have.
    pub fn mismatched_switches(&self, inputs: &WorkerInputs<'_>) -> Vec<(&'static str, u64, u64)> {
        let size = |setting| inputs.setting_value(setting).and_then(|value| value.as_u64()).unwrap_or(1);
        self.rows
            .iter()
            .filter_map(|row| match row {
                EngineRow::Switch(setting, _, factors) => {
                    let implied = factors.iter().map(|factor| size(*factor)).fold(1, u64::saturating_mul);
                    let written = size(*setting);
                    let field = setting.worker_field()?;
                    (written > 1 && written != implied).then_some((field, written, implied))
                }
                EngineRow::Flag(..)
                | EngineRow::OptionField(..)
                | EngineRow::Fixed(..)
                | EngineRow::FixedOptions(..) => None,
            })
            .collect()
    }

    /// Settings that the engine takes as a switch: setting, flag, and the settings that its size is the product of.
    pub fn switches(&self) -> impl Iterator<Item = (EngineSetting, &'static str, &'static [EngineSetting])> {
        self.rows.iter().filter_map(|row| match *row {
            EngineRow::Switch(setting, flag, factors) => Some((setting, flag, factors)),
            EngineRow::Flag(..) | EngineRow::OptionField(..) | EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => {
                None
            }
        })
    }

    /// The engine options that a worker of a role has whatever the intent says.
    pub fn fixed_options(&self, role: WorkerRole) -> Map<String, Value> {
        let holds = |when| match when {
            RowCondition::Always => true,
            RowCondition::Prefill => role == WorkerRole::Prefill,
            RowCondition::Disaggregated => role != WorkerRole::Aggregated,
            RowCondition::KvEvents | RowCondition::Adapters => false,
        };
        let mut options = Map::new();
        for row in self.rows {
            if let EngineRow::FixedOptions(when, json) = *row
                && holds(when)
                && let Ok(Value::Object(fixed)) = serde_json::from_str(json)
            {
                options.extend(fixed);
            }
        }
        options
    }

    /// The setting that a flag carries, in any of the engine's spellings.
    pub fn setting_of_flag(&self, flag: &str) -> Option<EngineSetting> {
        let rows = self.rows.iter().filter_map(|row| match *row {
            EngineRow::Flag(setting, name) => Some((setting, name)),
            EngineRow::Switch(..) | EngineRow::OptionField(..) | EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => {
                None
            }
        });
        rows.chain(self.aliases.iter().copied()).find(|(_, name)| *name == flag).map(|(setting, _)| setting)
    }

    /// The setting that an engine option carries.
    pub fn setting_of_option(&self, option: &str) -> Option<EngineSetting> {
        self.rows.iter().find_map(|row| match *row {
            EngineRow::OptionField(setting, field) => (field == option).then_some(setting),
            EngineRow::Flag(..) | EngineRow::Switch(..) | EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => None,
        })
    }

    fn supports_setting(&self, wanted: EngineSetting) -> bool {
        self.rows.iter().any(|row| match row {
            EngineRow::Flag(setting, _) | EngineRow::Switch(setting, _, _) | EngineRow::OptionField(setting, _) => {
                *setting == wanted
            }
            EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => false,
        })
    }
}

/// A value as a command-line argument: text as it is, numbers as JSON writes them.
pub fn format_argument(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
