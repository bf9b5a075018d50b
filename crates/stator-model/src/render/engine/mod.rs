//! A worker's command line, from its engine's table ([`crate::engine_tables`]).

mod command_line;
pub mod flags;

use crate::engine_tables;
pub use crate::engine_tables::{EngineRow, EngineSetting, EngineTable, RowCondition};
use crate::intent::model::{Engine, Worker};
pub use command_line::{
    FRONTEND_MODULE, FlagName, FrontendValues, LineValues, UnknownNames, flag_names, names_flags, only_flag_names,
    placeholder_name, placeholder_settings, runs_script,
};
use serde_json::{Map, Value};

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

/// The table of an engine; none for `auto`, which only a request may carry.
pub fn table(engine: Engine) -> Option<&'static EngineTable> {
    match engine {
        Engine::Vllm => Some(&engine_tables::VLLM),
        Engine::Sglang => Some(&engine_tables::SGLANG),
        Engine::Trtllm => Some(&engine_tables::TRTLLM),
        Engine::Mocker => Some(&engine_tables::MOCKER),
        Engine::Custom => Some(&engine_tables::CUSTOM),
        Engine::Auto => None,
    }
}

/// The table of the engine that a Python module is.
pub fn engine_of_module(module: &str) -> Option<&'static EngineTable> {
    let engines = [Engine::Vllm, Engine::Sglang, Engine::Trtllm, Engine::Mocker];
    engines.into_iter().filter_map(table).find(|table| table.module == module)
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
            EngineSetting::Eager => worker.eager.map(Value::from),
            EngineSetting::TrustRemoteCode => worker.trust_remote_code.map(Value::from),
            EngineSetting::ToolCallParser => worker.tool_call_parser.as_deref().map(Value::from),
            EngineSetting::ReasoningParser => worker.reasoning_parser.as_deref().map(Value::from),
            EngineSetting::EngineConfig => worker.engine_config.as_deref().map(Value::from),
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

/// The arguments that rows of a table give.
fn row_args<'a>(rows: impl IntoIterator<Item = &'a EngineRow>, inputs: &WorkerInputs<'_>) -> Vec<String> {
    let mut args = Vec::new();
    for row in rows {
        match *row {
            EngineRow::Flag(setting, flag) => {
                if let Some(value) = inputs.setting_value(setting) {
                    args.extend([flag.to_owned(), format_argument(&value)]);
                }
            }
            EngineRow::Switch(setting, flag, _) => {
                if inputs.setting_value(setting).and_then(|value| value.as_u64()).is_some_and(|size| size > 1) {
                    args.push(flag.to_owned());
                }
            }
            EngineRow::Toggle(setting, flag) => {
                if inputs.setting_value(setting) == Some(Value::Bool(true)) {
                    args.push(flag.to_owned());
                }
            }
            EngineRow::Fixed(when, fixed) => {
                if inputs.matches_condition(when) {
                    args.extend(fixed.iter().map(|&argument| argument.to_owned()));
                }
            }
            EngineRow::OptionField(..) | EngineRow::FixedOptions(..) => {}
        }
    }
    args
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

    /// The arguments of a worker: table rows, then engine options, then what the intent appends. Arguments that name flags
    /// are all there are.
    pub fn args(&self, inputs: &WorkerInputs<'_>) -> Vec<String> {
        if names_flags(&inputs.worker.args) {
            return self.fill_args(inputs, &inputs.worker.args, &mut UnknownNames::default());
        }
        let mut args = row_args(self.rows, inputs);
        args.extend(self.options_flag.and_then(|flag| self.flag_words(flag, inputs)).into_iter().flatten());
        args.extend(flags::all_flag_words(flags::flag_table(self.module), &inputs.worker.flags));
        args.extend(inputs.worker.args.iter().cloned());
        args
    }

    /// The engine options of a worker: table rows, and what the intent merges over them.
    fn options(&self, inputs: &WorkerInputs<'_>) -> Map<String, Value> {
        let mut options = Map::new();
        for row in self.rows {
            match *row {
                EngineRow::OptionField(setting, field) => {
                    if let Some(value) = inputs.setting_value(setting) {
                        options.insert(field.to_owned(), value);
                    }
                }
                EngineRow::FixedOptions(when, json) => {
                    if inputs.matches_condition(when)
                        && let Ok(Value::Object(fixed)) = serde_json::from_str(json)
                    {
                        options.extend(fixed);
                    }
                }
                EngineRow::Flag(..) | EngineRow::Switch(..) | EngineRow::Toggle(..) | EngineRow::Fixed(..) => {}
            }
        }
        super::strategic_merge::merge_maps(&mut options, inputs.worker.engine_options.as_ref());
        options
    }

    /// What the intent says of a worker, and nothing that makes a worker one: for a command line that somebody else
    /// writes.
    pub fn override_args(&self, inputs: &WorkerInputs<'_>) -> Vec<String> {
        if names_flags(&inputs.worker.args) {
            return self.fill_args(inputs, &inputs.worker.args, &mut UnknownNames::default());
        }
        let is_setting = |row: &&EngineRow| match row {
            EngineRow::Flag(setting, _) => *setting != EngineSetting::Model,
            EngineRow::Toggle(..) => true,
            EngineRow::Switch(..) | EngineRow::OptionField(..) | EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => {
                false
            }
        };
        let mut args = row_args(self.rows.iter().filter(is_setting), inputs);
        args.extend(flags::all_flag_words(flags::flag_table(self.module), &inputs.worker.flags));
        args.extend(inputs.worker.args.iter().cloned());
        args
    }

    /// Settings given that [`Self::override_args`] cannot carry: they have no flag of their own.
    pub fn settings_without_flag(&self, inputs: &WorkerInputs<'_>) -> Vec<&'static str> {
        let flag = |wanted| {
            self.rows.iter().any(
                |row| matches!(row, EngineRow::Flag(setting, _) | EngineRow::Toggle(setting, _) if *setting == wanted),
            )
        };
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
        let mismatch = |(setting, _, factors): (EngineSetting, _, &[EngineSetting])| {
            let implied = factors.iter().map(|factor| size(*factor)).fold(1, u64::saturating_mul);
            let written = size(setting);
            let field = setting.worker_field()?;
            (written > 1 && written != implied).then_some((field, written, implied))
        };
        self.switches().filter_map(mismatch).collect()
    }

    /// Settings that the engine takes as a switch: setting, flag, and the settings that its size is the product of.
    pub fn switches(&self) -> impl Iterator<Item = (EngineSetting, &'static str, &'static [EngineSetting])> {
        self.rows.iter().filter_map(|row| {
            let EngineRow::Switch(setting, flag, factors) = *row else { return None };
            Some((setting, flag, factors))
        })
    }

    /// Settings that are true or false, and the flag that is there when they are true.
    pub fn toggles(&self) -> impl Iterator<Item = (EngineSetting, &'static str)> {
        self.rows.iter().filter_map(|row| {
            let EngineRow::Toggle(setting, flag) = *row else { return None };
            Some((setting, flag))
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
        let rows = self.rows.iter().filter_map(|row| {
            let EngineRow::Flag(setting, name) = *row else { return None };
            Some((setting, name))
        });
        rows.chain(self.aliases.iter().copied()).find(|(_, name)| *name == flag).map(|(setting, _)| setting)
    }

    /// The settings that are fields of the engine's options.
    fn option_fields(&self) -> impl Iterator<Item = (EngineSetting, &'static str)> {
        self.rows.iter().filter_map(|row| {
            let EngineRow::OptionField(setting, field) = *row else { return None };
            Some((setting, field))
        })
    }

    /// The setting that an engine option carries.
    pub fn setting_of_option(&self, option: &str) -> Option<EngineSetting> {
        self.option_fields().find(|(_, field)| *field == option).map(|(setting, _)| setting)
    }

    /// The engine option that carries a setting.
    fn option_of_setting(&self, wanted: EngineSetting) -> Option<&'static str> {
        self.option_fields().find(|(setting, _)| *setting == wanted).map(|(_, field)| field)
    }

    fn supports_setting(&self, wanted: EngineSetting) -> bool {
        self.rows.iter().any(|row| match row {
            EngineRow::Flag(setting, _)
            | EngineRow::Switch(setting, _, _)
            | EngineRow::Toggle(setting, _)
            | EngineRow::OptionField(setting, _) => *setting == wanted,
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
