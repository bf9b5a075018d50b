//! The command lines of a graph's components: the engine's own, or one that is written, with what it names filled in.

use super::engine::{self, WorkerInputs};
use super::engine_arguments::check_flags;
use super::graph_context::GraphContext;
use super::{RenderContext, rules};
use crate::intent::model;

/// The frontend's command and arguments. Given arguments replace the operator's command line, whose program they need:
/// `python3 -m dynamo.frontend`. Flags, and arguments that name them, are for that program.
pub(super) fn frontend_command_line(
    context: &mut RenderContext<'_>,
    written: &model::Frontend,
) -> (Vec<String>, Vec<String>) {
    const PATH: &str = "spec.serving.frontend";
    let own = written.own_command();
    let is_script = engine::runs_script(own.as_deref());
    let has_names = engine::names_flags(&written.args);
    let mut unknown = engine::UnknownNames::default();
    let values = engine::FrontendValues(&written.flags);
    let mut args = values.args(&written.args, is_script, &mut unknown);
    let own_names = own.as_ref().is_some_and(|own| own.iter().any(|item| !engine::flag_names(item).is_empty()));
    let own = own.map(|own| engine::LineValues::fill(&values, &own, &mut unknown));
    if is_script && !own_names && !written.args.iter().any(|item| !engine::flag_names(item).is_empty()) {
        for name in written.flags.keys() {
            context.warning(
                rules::SETTING_IGNORED,
                &format!("{PATH}.flags.{name}"),
                format!("`{name}` has no effect: the frontend's own script does not name it"),
                format!("write `<--{name}>` in the script, or remove `{name}`"),
            );
        }
    }
    report_unknown_flags(context, PATH, unknown.flags);
    check_flags(context, engine::FRONTEND_MODULE, PATH, &written.flags);
    let is_flags_own = own.is_none() && (has_names || !written.flags.is_empty());
    if is_flags_own && written.args.first().is_none_or(|first| first != "-m") {
        args.splice(0..0, ["-m", engine::FRONTEND_MODULE].map(str::to_owned));
    }
    let command = match own {
        Some(command) => command,
        None if args.is_empty() => Vec::new(),
        None => vec!["python3".to_owned()],
    };
    (command, args)
}

fn report_unknown_flags(context: &mut RenderContext<'_>, path: &str, flags: Vec<String>) {
    for flag in flags {
        context.error(
            rules::COMMAND_LINE,
            &format!("{path}.args"),
            format!("the arguments name `<{flag}>`, and no field gives `{flag}`"),
            format!("give the field that `{flag}` carries, or write `{flag}` and its value instead of `<{flag}>`"),
        );
    }
}

/// The engine's command line, or the worker's own with the settings that it names filled in.
pub(super) fn worker_command_line(
    context: &mut RenderContext<'_>,
    graph: &GraphContext<'_>,
    path: &str,
    inputs: &WorkerInputs<'_>,
) -> (Vec<String>, Vec<String>) {
    let worker = inputs.worker;
    let table = graph.table;
    let own = ["python3", "-m", table.module].map(str::to_owned).to_vec();
    let written = worker.own_command();
    if written.is_none() {
        check_engine_settings(context, table, path, inputs);
        if !engine::names_flags(&worker.args) {
            return (own, table.args(inputs));
        }
    }
    let command = written.as_ref().unwrap_or(&own);
    let whole: Vec<&String> = command.iter().chain(&worker.args).collect();
    for setting in engine::placeholder_settings() {
        let Some(field) = setting.worker_field() else { continue };
        // Parallel sizes say how many GPUs a replica has, even where the command line leaves them out.
        if inputs.setting_text(setting).is_some() && !inputs.names(table, setting, &whole) && !setting.counts_gpus() {
            context.warning(
                rules::SETTING_IGNORED,
                &format!("{path}.{field}"),
                format!("`{field}` has no effect: the worker's own command line does not name it"),
                format!("write `<{field}>` where its value belongs, or remove `{field}`"),
            );
        }
    }
    let names = |word: &&&String| engine::flag_names(word).iter().any(|one| Some(one.flag) == table.options_flag);
    let names_options = whole.iter().any(|word| names(&word));
    for (name, _) in table.unnamed_flags(worker).iter().filter(|_| engine::runs_script(Some(command))) {
        context.warning(
            rules::SETTING_IGNORED,
            &format!("{path}.flags.{name}"),
            format!("`{name}` has no effect: the worker's own script does not name it"),
            format!("write `<--{name}>` in the script, or remove `{name}`"),
        );
    }
    if worker.engine_options.is_some() && !names_options {
        context.warning(
            rules::SETTING_IGNORED,
            &format!("{path}.engineOptions"),
            "`engineOptions` has no effect: the worker has its own command line",
            "write the engine's own flag under `args`",
        );
    }
    let mut unknown = engine::UnknownNames::default();
    let filled = table.fill_names(inputs, command, &mut unknown);
    let line = (filled, table.fill_args(inputs, &worker.args, &mut unknown));
    unknown.fields.sort_unstable();
    unknown.fields.dedup();
    for word in unknown.fields {
        context.error(
            rules::COMMAND_LINE,
            &format!("{path}.command"),
            format!("the command line names `<{word}>`, and `{word}` has no value"),
            format!("give `{word}`, or write its value instead of `<{word}>`"),
        );
    }
    report_unknown_flags(context, path, unknown.flags);
    line
}

/// Warns of settings that the engine has no way to take.
fn check_engine_settings(
    context: &mut RenderContext<'_>,
    table: &engine::EngineTable,
    path: &str,
    inputs: &WorkerInputs<'_>,
) {
    if table.module.is_empty() {
        context.error(
            crate::intent::rules::MODEL_ENGINE,
            path,
            "engine `custom` has no default command line, and the worker sets none",
            "write the program under `command`, and its arguments under `args`",
        );
    }
    for field in table.unsupported_settings(inputs) {
        context.warning(
            rules::SETTING_IGNORED,
            &format!("{path}.{field}"),
            format!("`{field}` has no effect: the engine has no such setting"),
            "remove it, or write the engine's own flag under `args`",
        );
    }
    for (field, written, implied) in table.mismatched_switches(inputs) {
        context.warning(
            rules::PARALLEL_SIZE,
            &format!("{path}.{field}"),
            format!("`{field}` is {written}, and this engine can only switch it on: its size will be {implied}"),
            format!("write {implied}, or change the parallel sizes that it follows from"),
        );
    }
}
