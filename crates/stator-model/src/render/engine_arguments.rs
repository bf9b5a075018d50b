//! Arguments that say something else than the fields of the intent. An engine takes the last of two flags, so the field
//! would be a lie: in the file, in the count of GPUs, in the price.

use super::RenderContext;
use super::engine::flags::FlagType;
use super::engine::{EngineSetting, EngineTable, WorkerInputs, WorkerRole, runs_script};
use crate::intent::model::{Engine, ReplicaSize, Worker};
use crate::intent::rules;
use crate::intent::yaml::parse_yaml;
use serde_json::{Map, Value};
use stator_core::dynamo::registry::MAIN_CONTAINER;

/// A setting that an argument gives.
struct GivenSetting {
    setting: EngineSetting,
    value: String,
    /// As written: `--tensor-parallel-size 4`.
    text: String,
    /// The file of the model that it stands in; `None` for arguments.
    file: Option<String>,
    /// Where in the intent.
    path: String,
}

/// Compares what a worker's arguments give with its fields; `path` is the worker's.
pub(super) fn check_arguments(
    context: &mut RenderContext<'_>,
    table: &EngineTable,
    path: &str,
    inputs: &WorkerInputs<'_>,
) {
    let mut given = given_settings(table, path, inputs.worker);
    given.extend(settings_of_files(context, table, path, inputs.worker));
    let mut contradicts = false;
    for one in &given {
        let Some(wanted) = inputs.setting_text(one.setting) else { continue };
        // A command line of its own may well name the model by a path.
        let is_name = matches!(one.setting, EngineSetting::Model | EngineSetting::ServedName);
        if is_same(&wanted, &one.value) || (is_name && inputs.worker.own_command().is_some()) {
            continue;
        }
        let (field, field_path) = field_of(one.setting, path, inputs.role);
        let place = context.intent.origins.locate(&field_path);
        let at = if place.line > 0 { format!(" ({}:{})", place.file, place.line) } else { String::new() };
        let (of, what) = match &one.file {
            Some(file) => (format!(" of {file}"), "it from the file"),
            None => (String::new(), "the argument"),
        };
        let message = format!("`{}`{of} contradicts `{field}: {wanted}`{at}", one.text);
        let help = format!("Keep one of them: remove {what}, or write `{field}: {}`.", one.value);
        contradicts |= one.setting.counts_gpus();
        // Of a script it is not certain which program an argument is for; and workers of one graph may serve two models.
        let is_certain = !is_name && !runs_script(inputs.worker.own_command().as_deref());
        if one.setting.counts_gpus() || is_certain {
            context.error(rules::MODEL_ARGS_CONTRADICT, &one.path, message, help);
        } else {
            context.warning(rules::MODEL_ARGS_CONTRADICT, &one.path, message, help);
        }
    }
    if !contradicts {
        check_gpu_count(context, path, inputs.worker, &given);
    }
}

/// Holds `flags` against what the program's argument parser takes, as far as that is known, and against the fields.
pub(super) fn check_flags(context: &mut RenderContext<'_>, module: &str, path: &str, flags: &Map<String, Value>) {
    let engine_table = super::engine::engine_of_module(module);
    let flag_table = super::engine::flags::flag_table(module);
    for (name, value) in flags {
        let place = format!("{path}.flags.{name}");
        let spelled = format!("--{name}");
        let setting = engine_table.and_then(|table| {
            let toggle = || table.toggles().find(|(_, flag)| *flag == spelled).map(|(setting, _)| setting);
            table.setting_of_flag(&spelled).or_else(toggle)
        });
        if let Some(field) = setting.and_then(EngineSetting::field) {
            let (message, help) = (
                format!("`{name}` has a field of its own"),
                format!("Write `{field}: {}` instead.", super::engine::format_argument(value)),
            );
            context.error(rules::MODEL_ARGS_CONTRADICT, &place, message, help);
            continue;
        }
        let Some(table) = flag_table else { continue };
        let Some(found) = table.find(&spelled).filter(|found| !found.negated && found.name == name) else {
            let others = table.find(&spelled).map(|found| found.name.to_owned());
            let near = others.or_else(|| stator_core::finding::closest_match(name, table.names()).map(str::to_owned));
            let message = format!("`{name}` is no flag of `{module}` up to {}", table.newest_sources());
            let help = match near {
                Some(near) => format!("Did you mean `{near}`? Write an own flag of another version under `args`."),
                None => "Check its spelling; or write it under `args`, if another version has it.".to_owned(),
            };
            context.warning(rules::MODEL_ARGS, &place, message, help);
            continue;
        };
        if let Some(expected) = table.expected(found.name, value) {
            let shown = super::engine::format_argument(value);
            let message = format!("`{name}` is {expected}, and `{shown}` is not");
            if found.takes == FlagType::Choice {
                // A newer version may know more words.
                context.warning(rules::MODEL_ARGS_CONTRADICT, &place, message, "Check the value.");
            } else {
                context.error(rules::MODEL_ARGS_CONTRADICT, &place, message, "Correct the value.");
            }
        }
    }
}

/// Parallel sizes that only arguments give must fit the GPUs that the replica has.
fn check_gpu_count(context: &mut RenderContext<'_>, path: &str, worker: &Worker, given: &[GivenSetting]) {
    let spec = &context.intent.model.spec;
    let engine = spec.engine;
    let mut meant = worker.clone();
    let mut last = None;
    for one in given.iter().filter(|one| one.setting.counts_gpus()) {
        let Ok(size) = one.value.parse::<u32>() else { return };
        if let Some(written) = meant.parallel_size_mut(one.setting) {
            *written = Some(size);
        }
        last = Some(one);
    }
    let Some(last) = last.filter(|_| engine.runs_on_gpus() && engine != Engine::Custom) else { return };
    let has = ReplicaSize::for_worker(worker, engine, spec.hardware.as_ref()).gpus;
    let all = meant.parallel_size(engine);
    // Data parallel attention shares the tensor parallel GPUs, and SGLang knows both kinds: either count is right.
    let data = meant.data_parallel.unwrap_or(1).max(1);
    if ![all, all.saturating_mul(data), all / data].contains(&has) {
        let (of, who) = match &last.file {
            Some(file) => (format!(" of {file}"), "its sizes"),
            None => (String::new(), "the arguments"),
        };
        let message = format!("`{}`{of}: {who} need {all} GPUs, and a replica has {has}", last.text);
        let help = format!("Write the sizes as fields, such as `tensorParallel`, or `gpus: {all}` under `{path}`.");
        context.warning(rules::MODEL_GPUS, &last.path, message, help);
    }
}

/// Every setting that the worker's own arguments give, wherever they are written.
fn given_settings(table: &EngineTable, path: &str, worker: &Worker) -> Vec<GivenSetting> {
    let mut found = Vec::new();
    let command = worker.own_command().unwrap_or_default();
    let (command, args) = without_script_parameters(&command, &worker.args);
    for (field, list) in [("command", command), ("args", args)] {
        collect_from_list(table, list, &|index| format!("{path}.{field}[{index}]"), &mut found);
    }
    let containers = worker.template.as_ref().and_then(|template| template.get("spec")?.get("containers")?.as_array());
    for container in containers.into_iter().flatten() {
        if container.get("name").and_then(Value::as_str) != Some(MAIN_CONTAINER) {
            continue;
        }
        let words = |field: &str| -> Vec<String> {
            let list = container.get(field).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let (command, args) = (words("command"), words("args"));
        let (command, args) = without_script_parameters(&command, &args);
        for list in [command, args] {
            collect_from_list(table, list, &|_| format!("{path}.template"), &mut found);
        }
    }
    if let (Some(options), Some(_)) = (&worker.engine_options, table.options_flag) {
        collect_from_options(table, options, &format!("{path}.engineOptions"), &mut found);
    }
    found
}

/// Sizes that TensorRT-LLM reads from a file, by their names there: what the file says wins over flags.
const SIZES_OF_FILES: [&str; 3] = ["tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size"];
/// The switch for data parallel attention, which needs no GPUs of its own.
const ATTENTION_SWITCH: &str = "enable_attention_dp";

/// Every setting that a file gives which the worker mounts, of an engine that reads options from a file.
fn settings_of_files(
    context: &RenderContext<'_>,
    table: &EngineTable,
    path: &str,
    worker: &Worker,
) -> Vec<GivenSetting> {
    let mut found = Vec::new();
    if table.options_flag.is_none() {
        return found;
    }
    let field = path.rsplit('.').next().unwrap_or_default();
    let name = worker.name.as_ref().map_or(field, |name| name.as_str());
    for file in context.files.iter().filter(|file| file.is_mounted_by(&[name, field], true)) {
        let Some(Value::Object(mut options)) = parse_yaml(file.content(), 0, "").root.map(|root| root.to_json()) else {
            continue;
        };
        let before = found.len();
        let place = file.content_path();
        if options.get(ATTENTION_SWITCH) == Some(&Value::Bool(false)) {
            let (setting, text) = (EngineSetting::DataParallel, format!("{ATTENTION_SWITCH}: false"));
            found.push(GivenSetting { setting, value: "1".to_owned(), text, file: None, path: place.clone() });
        }
        options.retain(|name, value| SIZES_OF_FILES.contains(&name.as_str()) && value.is_u64());
        collect_from_options(table, &options, &place, &mut found);
        for one in found.iter_mut().skip(before) {
            one.file = Some(file.origin());
        }
    }
    found
}

/// Command and arguments without what follows the script of `sh -c`: these are the script's parameters, and no engine sees
/// them unless the script passes them on.
fn without_script_parameters<'a>(command: &'a [String], args: &'a [String]) -> (&'a [String], &'a [String]) {
    let is_shell =
        command.first().and_then(|program| program.rsplit('/').next()).is_some_and(|name| name.ends_with("sh"));
    let is_script_flag = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let Some(flag) = command.iter().skip(1).position(is_script_flag).filter(|_| is_shell) else {
        return (command, args);
    };
    // The shell, its flags, and the script.
    let end = flag + 3;
    let in_args = end.saturating_sub(command.len()).min(args.len());
    (command.get(..end).unwrap_or(command), args.get(..in_args).unwrap_or_default())
}

/// Settings in a list of arguments: `--flag value`, `--flag=value`, and the same inside a script for `sh -c`.
fn collect_from_list(
    table: &EngineTable,
    list: &[String],
    path: &dyn Fn(usize) -> String,
    found: &mut Vec<GivenSetting>,
) {
    let mut items: Vec<(usize, String)> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        if item.contains(char::is_whitespace) && !item.trim_start().starts_with(['{', '[']) {
            items.extend(shell_words(item).into_iter().map(|word| (index, word)));
        } else {
            items.push((index, item.clone()));
        }
    }
    let before = found.len();
    let mut rest = items.iter().peekable();
    while let Some((index, item)) = rest.next() {
        if !item.starts_with('-') {
            continue;
        }
        let (flag, value) = match item.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (item.as_str(), rest.peek().map(|(_, next)| next.as_str()).filter(|next| !is_flag(next))),
        };
        // vLLM's parser takes underscores for dashes.
        let flag = flag.replace('_', "-");
        if let Some((setting, _)) = table.toggles().find(|(_, name)| *name == flag) {
            let value = item.split_once('=').map_or("true", |(_, value)| value).to_owned();
            found.push(GivenSetting { setting, value, text: item.clone(), file: None, path: path(*index) });
            continue;
        }
        let Some(value) = value else { continue };
        if table.options_flag == Some(flag.as_str()) {
            if let Ok(Value::Object(options)) = serde_json::from_str(value) {
                collect_from_options(table, &options, &path(*index), found);
            }
            continue;
        }
        // A variable of the shell, or a name that is filled in from the field itself.
        if value.contains(['$', '<']) {
            continue;
        }
        if let Some(setting) = table.setting_of_flag(&flag) {
            let text = if item.contains('=') { item.clone() } else { format!("{item} {value}") };
            // The last of two flags is what the engine takes.
            if let Some(at) = found.iter().skip(before).position(|one| one.setting == setting) {
                found.remove(before + at);
            }
            found.push(GivenSetting { setting, value: value.to_owned(), text, file: None, path: path(*index) });
        }
    }
}

/// Settings among engine options, which are called like flags with underscores.
fn collect_from_options(table: &EngineTable, options: &Map<String, Value>, path: &str, found: &mut Vec<GivenSetting>) {
    for (name, value) in options {
        let by_flag = || table.setting_of_flag(&format!("--{}", name.replace('_', "-")));
        let Some(setting) = table.setting_of_option(name).or_else(by_flag) else { continue };
        let value = super::engine::format_argument(value);
        let text = format!("{name}: {value}");
        found.push(GivenSetting { setting, value, text, file: None, path: path.to_owned() });
    }
}

/// Whether a word is the next flag and not a value; a negative number is a value.
fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word.parse::<f64>().is_err()
}

/// A script's words, quotes taken off. What a shell would expand stays as it is written.
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_open) = (Vec::new(), String::new(), None, false);
    for c in text.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => (quote, is_open) = (Some(c), true),
            None if c.is_whitespace() || matches!(c, ';' | '&' | '|') => {
                if is_open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            None => word.push(c),
        }
    }
    if is_open || !word.is_empty() {
        words.push(word);
    }
    // A line that goes on: `\` alone before the end of the line.
    words.retain(|word| word != "\\");
    words
}

/// Equal as numbers or as text: `0.90` is `0.9`, and `32K` is 32768 to the parsers that take a letter for thousands.
fn is_same(field: &str, argument: &str) -> bool {
    if let (Ok(field), Some(argument)) = (field.parse::<u64>(), with_suffix(argument)) {
        return field == argument;
    }
    match (field.parse::<f64>(), argument.parse::<f64>()) {
        (Ok(field), Ok(argument)) => (field - argument).abs() < f64::EPSILON,
        _ => field == argument,
    }
}

/// `32k` is 32000 and `32K` is 32768 (vLLM's `human_readable_int`).
fn with_suffix(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor: u64 = match unit {
        "k" => 1000,
        "K" => 1 << 10,
        "m" => 1_000_000,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// What the intent calls a setting, and where it stands.
fn field_of(setting: EngineSetting, path: &str, role: WorkerRole) -> (&'static str, String) {
    if let Some(field) = setting.worker_field() {
        return (field, format!("{path}.{field}"));
    }
    match setting.field() {
        Some(_) if setting == EngineSetting::AdapterRank => ("adapters[].maxRank", "spec.adapters".to_owned()),
        Some(field) => (field, format!("spec.{field}")),
        None => match role {
            WorkerRole::Aggregated => ("worker", path.to_owned()),
            WorkerRole::Prefill => ("prefill", path.to_owned()),
            WorkerRole::Decode => ("decode", path.to_owned()),
        },
    }
}
