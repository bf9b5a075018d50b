//! Workers: parallel sizes and lengths off the command line, GPUs off the limits.

use super::component::ComponentManifest;
use crate::import::command_line::{CommandLine, FoundSetting};
use crate::intent::model::{Engine, Worker};
use crate::render::engine::{EngineSetting, EngineTable};
use std::collections::BTreeMap;

/// What the whole graph has said, against which a worker's own words are read.
#[derive(Clone, Copy, Debug)]
pub struct GraphSettings<'a> {
    /// The engine.
    pub engine: Engine,
    /// Its table.
    pub table: &'static EngineTable,
    /// `spec.model`.
    pub model: &'a str,
    /// `spec.servedName`.
    pub served_name: Option<&'a str>,
}

/// The resource that GPUs are counted by where no SKU says otherwise.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// A worker with everything but its command line, and the settings that its command line gives.
pub fn base_worker(target: ComponentManifest<'_>, common: GraphSettings<'_>) -> (Worker, Vec<FoundSetting>) {
    let mut worker = Worker {
        replicas: target.replicas(),
        min_available: target.min_available(),
        nodes: target.nodes(),
        shared_memory: target.shared_memory(),
        resources: target.resources(target.gpus(GPU_RESOURCE).map(|_| GPU_RESOURCE)),
        env: target.env(),
        probes: target.probes(),
        compilation_cache: target.compilation_cache(),
        ..Worker::default()
    };
    let found = apply_settings(target, common, &mut worker);
    (worker, found)
}

/// Takes over the settings that can be named; a name must stand for exactly what the command line says.
fn apply_settings(target: ComponentManifest<'_>, common: GraphSettings<'_>, worker: &mut Worker) -> Vec<FoundSetting> {
    let line = target.command_line().unwrap_or_default();
    let program = line.program().filter(|program| program.module == common.table.module);
    let all = program.map(|program| program.settings(common.table, &target.literal_env())).unwrap_or_default();
    let mut once: BTreeMap<EngineSetting, Option<FoundSetting>> = BTreeMap::new();
    for found in all {
        // The engine takes the last of a flag that is given twice; which one was meant is not for us to say.
        once.entry(found.setting).and_modify(|seen| *seen = None).or_insert(Some(found));
    }
    let mut named: Vec<FoundSetting> =
        once.into_values().flatten().filter(|found| apply_setting(found, common, worker)).collect();
    infer_gpus(target, common.engine, worker, &mut named);
    named
}

fn set_text(field: &mut Option<String>, text: &str) -> bool {
    *field = Some(text.to_owned()).filter(|text| !text.is_empty());
    field.is_some()
}

/// Sets the field, when its text would be rendered as it stands.
fn apply_setting(found: &FoundSetting, common: GraphSettings<'_>, worker: &mut Worker) -> bool {
    let text = found.value.as_str();
    let whole = || text.parse::<u32>().ok().filter(|number| *number > 0 && number.to_string() == text);
    let size = || whole().filter(|size| *size <= 1024);
    if !found.literal && !found.setting.counts_gpus() && found.setting.worker_field().is_some() {
        // A variable stays on the command line, and the field would say its value a second time, to nobody.
        return false;
    }
    let (field, value) = match found.setting {
        EngineSetting::Model => return text == common.model,
        EngineSetting::ServedName => return Some(text) == common.served_name,
        EngineSetting::DisaggregationMode | EngineSetting::AdapterRank => return false,
        EngineSetting::Dtype => return set_text(&mut worker.dtype, text),
        EngineSetting::Eager | EngineSetting::TrustRemoteCode => return false,
        EngineSetting::ToolCallParser => return set_text(&mut worker.tool_call_parser, text),
        EngineSetting::ReasoningParser => return set_text(&mut worker.reasoning_parser, text),
        EngineSetting::EngineConfig => return set_text(&mut worker.engine_config, text),
        EngineSetting::MemoryFraction => {
            let share = text.parse::<f64>().ok().filter(|share| (0.01..=1.0).contains(share));
            worker.memory_fraction =
                share.filter(|share| crate::render::engine::format_argument(&(*share).into()) == text);
            return worker.memory_fraction.is_some();
        }
        EngineSetting::TensorParallel => (&mut worker.tensor_parallel, size()),
        EngineSetting::PipelineParallel => (&mut worker.pipeline_parallel, size()),
        EngineSetting::DataParallel => (&mut worker.data_parallel, size()),
        EngineSetting::ExpertParallel => (&mut worker.expert_parallel, size()),
        EngineSetting::MaxSequences => (&mut worker.max_sequences, whole()),
        EngineSetting::MaxLength => (&mut worker.max_length, whole()),
        EngineSetting::BlockSize => (&mut worker.block_size, whole()),
    };
    *field = value;
    value.is_some()
}

/// The most GPUs that an intent gives one replica.
pub const MAX_GPUS_PER_REPLICA: u32 = 1024;

/// GPUs of one replica, where they do not follow from the parallel sizes. Sizes that contradict the limits are left on
/// the command line: they are the writer's own business.
fn infer_gpus(target: ComponentManifest<'_>, engine: Engine, worker: &mut Worker, named: &mut Vec<FoundSetting>) {
    let pod = target.gpus(GPU_RESOURCE).unwrap_or(0);
    let all = pod.saturating_mul(worker.nodes.unwrap_or(1));
    let size = worker.parallel_size(engine);
    let data = worker.data_parallel.unwrap_or(1).max(1);
    let sized = worker.tensor_parallel.or(worker.pipeline_parallel).or(worker.data_parallel).is_some();
    let agrees = [size, size.saturating_mul(data), size / data].contains(&all);
    let experts = worker.expert_parallel.is_none_or(|experts| size.is_multiple_of(experts));
    if sized && !(agrees && experts) {
        (worker.tensor_parallel, worker.pipeline_parallel) = (None, None);
        (worker.data_parallel, worker.expert_parallel) = (None, None);
        named.retain(|found| !found.setting.counts_gpus() && found.setting != EngineSetting::ExpertParallel);
    }
    let follows = if engine.runs_on_gpus() { worker.parallel_size(engine) } else { 0 };
    if all > MAX_GPUS_PER_REPLICA {
        // More than a field takes: both halves of the product stay as the manifest has them.
        (worker.gpus, worker.nodes) = (None, None);
    } else {
        worker.gpus = (all != follows).then_some(all);
    }
}

/// The worker with a command line of its own, in which names stand for the settings that were found.
pub fn with_own_command_line(
    mut worker: Worker,
    line: &CommandLine,
    (named, table): (&[FoundSetting], &EngineTable),
    working_dir: Option<String>,
) -> Worker {
    worker.working_dir = working_dir;
    if line.has_placeholders() {
        // Filled in it would be another line. In a template nothing is filled in.
        (worker.command, worker.args) = (Some(Vec::new()), Vec::new());
        (worker.dtype, worker.memory_fraction, worker.expert_parallel) = (None, None, None);
        (worker.max_sequences, worker.max_length, worker.block_size) = (None, None, None);
        (worker.tool_call_parser, worker.reasoning_parser, worker.engine_config) = (None, None, None);
        return worker;
    }
    let scripted = line.program().filter(|program| program.in_shell && program.module == table.module);
    let flags = scripted.map(|program| program.script_flags(line, table, named)).unwrap_or_default();
    let is_covered = |found: &&FoundSetting| !flags.iter().any(|flag| flag.covers(found));
    worker.flags = flags.iter().filter_map(|flag| Some((flag.name.to_owned(), flag.value.clone()?))).collect();
    let values: Vec<&FoundSetting> = named.iter().filter(is_covered).collect();
    let line = line.with_names(&values, &flags);
    worker.command = Some(line.command.unwrap_or_default());
    worker.args = line.args;
    worker
}
