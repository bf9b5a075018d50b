//! How a worker's command line is written: left to the engine, arranged, or as it is.

use super::component::ComponentManifest;
use super::{worker, worker_field};
use crate::import::command_line::FoundSetting;
use crate::intent::model::{ComponentType, Model, RouterMode, Worker};
use crate::render::engine::flags;
use crate::render::engine::{self, EngineSetting, WorkerRole};
use serde_json::{Map, Value};

/// The rank that is rendered where no adapter says more.
const DEFAULT_ADAPTER_RANK: u32 = 64;

/// The workers of a guess with their targets: which field of `serving` they are in, and what their lines gave.
pub struct PlacedWorker<'a> {
    /// Its field.
    pub role: WorkerRole,
    /// What it is to render to.
    pub target: ComponentManifest<'a>,
    /// The settings of its command line that have become fields.
    pub named: Vec<FoundSetting>,
}

/// Leaves the command line to the engine where it renders to exactly the target's; elsewhere the worker keeps its own.
pub fn assign_command_lines(model: &mut Model, placed: &[PlacedWorker<'_>], table: &engine::EngineTable) {
    let mut open: Vec<&PlacedWorker<'_>> = Vec::new();
    let mut done: Vec<WorkerRole> = Vec::new();
    for one in placed {
        let line = one.target.command_line().unwrap_or_default();
        let usual = ["python3", "-m", table.module].map(str::to_owned);
        let directory = one.target.working_dir();
        let names = |argument: &String| !engine::flag_names(argument).is_empty();
        let fits = line.command.as_deref() == Some(usual.as_slice()) && !table.module.is_empty();
        if fits && !line.args.iter().any(names) && (directory.is_some() || table.working_dir.is_none()) {
            open.push(one);
            let own = directory.filter(|directory| Some(directory.as_str()) != table.working_dir);
            update_worker(model, one.role, |worker| worker.working_dir = own);
        }
    }
    for with_switches in [true, false] {
        for one in &open {
            update_worker(model, one.role, |worker| set_engine_options(worker, one, table, with_switches));
        }
        let rendered = crate::import::completion::rendered_args(model);
        open.retain(|one| {
            let Some(start) = rendered.get(one.target.name()) else { return true };
            let args = one.target.command_line().unwrap_or_default().args;
            let rest = args.strip_prefix(start.as_slice());
            // A setting further back would be there twice, or not be named.
            let named = |rest: &[String]| one.named.iter().any(|found| found.args_index(3) >= args.len() - rest.len());
            match rest.filter(|rest| !named(rest)) {
                Some(rest) => {
                    update_worker(model, one.role, |worker| worker.args = rest.to_vec());
                    done.push(one.role);
                    false
                }
                None => true,
            }
        });
    }
    for one in placed.iter().filter(|one| done.contains(&one.role)) {
        let mut serving = model.spec.serving.clone().unwrap_or_default();
        let has_rest = worker_field(&mut serving, one.role).as_ref().is_some_and(|worker| !worker.args.is_empty());
        // What is left are flags without a field of their own: by name where all of them are, else where they stand.
        if has_rest && !move_rest_to_flags(model, one, table) {
            arrange(model, one, table);
        }
    }
    for one in placed.iter().filter(|one| !done.contains(&one.role)) {
        if !arrange(model, one, table) {
            let line = one.target.command_line().unwrap_or_default();
            update_worker(model, one.role, |worker| {
                set_engine_options(worker, one, table, false);
                worker.engine_options = None;
                let own = worker.clone();
                *worker = worker::with_own_command_line(own, &line, (&one.named, table), one.target.working_dir());
            });
        }
    }
}

/// Says by `flags` what the arguments of a worker append; false, with nothing changed, where that is not the same line.
fn move_rest_to_flags(model: &mut Model, one: &PlacedWorker<'_>, table: &engine::EngineTable) -> bool {
    let before = model.clone();
    update_worker(model, one.role, |worker| {
        worker.flags = read_flags(&worker.args, table);
        worker.args = Vec::new();
    });
    let args = one.target.command_line().unwrap_or_default().args;
    let is_same = crate::import::completion::rendered_args(model).get(one.target.name()) == Some(&args);
    if !is_same {
        *model = before;
    }
    is_same
}

/// The flags of arguments that have no field of their own, each that is there once.
fn read_flags(args: &[String], table: &engine::EngineTable) -> Map<String, Value> {
    let Some(flag_table) = flags::flag_table(table.module) else { return Map::new() };
    let has_field = |spelled: &str| {
        table.setting_of_flag(spelled).is_some()
            || table.toggles().any(|(_, name)| name == spelled)
            || table.switches().any(|(_, name, _)| name == spelled)
            || table.options_flag == Some(spelled)
    };
    let mut found = Map::new();
    let mut again = Vec::new();
    for (flag, words) in flags::split_flags(flag_table, args).into_iter().filter(|(flag, _)| !has_field(flag.spelled)) {
        let value = flag_table.value_of_words(flag.flag, &words);
        let is_new = value.is_some_and(|value| found.insert(flag.flag.name.to_owned(), value).is_none());
        if !is_new {
            again.push(flag.flag.name);
        }
    }
    found.retain(|name, _| !again.contains(&name.as_str()));
    found
}

/// The flags of a frontend's arguments, and what is left to say of their order: nothing where it is the usual one.
pub fn frontend_flags(args: &[String]) -> (Map<String, Value>, Vec<String>) {
    let own = ["-m", engine::FRONTEND_MODULE].map(str::to_owned);
    let written = args.strip_prefix(own.as_slice()).unwrap_or(args);
    let Some(table) = flags::flag_table(engine::FRONTEND_MODULE) else { return (Map::new(), args.to_vec()) };
    let mut found = Map::new();
    let mut again = Vec::new();
    for (flag, words) in flags::split_flags(table, written) {
        let value = table.value_of_words(flag.flag, &words);
        if value.is_none_or(|value| found.insert(flag.flag.name.to_owned(), value).is_some()) {
            again.push(flag.flag.name);
        }
    }
    found.retain(|name, _| !again.contains(&name.as_str()));
    let fill = |args: &[String]| engine::FrontendValues(&found).args(args, false, &mut engine::UnknownNames::default());
    if written.iter().any(|argument| !engine::flag_names(argument).is_empty()) || found.is_empty() {
        return (Map::new(), args.to_vec());
    }
    if fill(&[]) == written {
        return (found, Vec::new());
    }
    let values = engine::FrontendValues(&found);
    let arranged = join_names(arrange_by(written, |name| {
        let mut unknown = engine::UnknownNames::default();
        let words = engine::LineValues::fill(&values, &[name], &mut unknown);
        unknown.flags.is_empty().then_some(words)
    }));
    if engine::names_flags(&arranged) && fill(&arranged) == written {
        (found, arranged)
    } else {
        (Map::new(), args.to_vec())
    }
}

/// Arguments with names in place of all flags that are filled in as they stand there.
fn arrange_by(args: &[String], fill: impl Fn(String) -> Option<Vec<String>>) -> Vec<String> {
    let (mut arranged, mut rest) = (Vec::new(), args);
    while let [first, after @ ..] = rest {
        let (spelled, is_joined) =
            first.split_once('=').map_or((first.as_str(), false), |(spelled, _)| (spelled, true));
        let name = if is_joined { format!("<{spelled}=>") } else { format!("<{spelled}>") };
        let words = if spelled.starts_with('-') { fill(name.clone()) } else { None };
        match words.and_then(|words| rest.strip_prefix(words.as_slice())) {
            Some(behind) => {
                arranged.push(name);
                rest = behind;
            }
            None => {
                arranged.push(first.clone());
                rest = after;
            }
        }
    }
    arranged
}

/// The widest line of names of flags.
const MAX_NAMES_WIDTH: usize = 100;

/// Names of flags that follow each other, several in one item.
pub fn join_names(args: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for argument in args {
        let is_names = |text: &str| engine::only_flag_names(text).is_some();
        match joined.last_mut() {
            Some(last) if is_names(last) && is_names(&argument) && last.len() + argument.len() < MAX_NAMES_WIDTH => {
                last.push(' ');
                last.push_str(&argument);
            }
            Some(_) | None => joined.push(argument),
        }
    }
    joined
}

/// Writes the arguments in their own order, with the names of flags in place of those that a field or the role gives. False,
/// with nothing changed, where that does not render to exactly the target's.
fn arrange(model: &mut Model, one: &PlacedWorker<'_>, table: &engine::EngineTable) -> bool {
    let line = one.target.command_line().unwrap_or_default();
    let starts_engine = line.program().is_some_and(|program| !program.in_shell && program.module == table.module);
    if !starts_engine || line.has_placeholders() {
        return false;
    }
    let usual = ["python3", "-m", table.module].map(str::to_owned);
    let before = model.clone();
    for with_switches in [true, false] {
        update_worker(model, one.role, |worker| {
            set_engine_options(worker, one, table, with_switches);
            worker.flags = read_flags(&line.args, table);
            worker.command = line.command.clone().filter(|command| command.as_slice() != usual.as_slice());
            worker.working_dir = one.target.working_dir();
        });
        let args = arranged_args(model, one.role, &line.args, table);
        if engine::names_flags(&args) {
            let names = args.iter().flat_map(|argument| engine::flag_names(argument));
            let named: Vec<String> = names.map(|one| one.flag.to_owned()).collect();
            let keeps_options = table.options_flag.is_some_and(|flag| named.iter().any(|name| name == flag));
            update_worker(model, one.role, |worker| {
                worker.args = join_names(args);
                worker.engine_options = worker.engine_options.take().filter(|_| keeps_options);
            });
            if crate::import::completion::rendered_args(model).get(one.target.name()) == Some(&line.args) {
                return true;
            }
        }
        *model = before.clone();
    }
    false
}

/// Arguments with names in place of all flags that a worker's fields and role give as they stand there.
fn arranged_args(model: &Model, role: WorkerRole, args: &[String], table: &engine::EngineTable) -> Vec<String> {
    let spec = &model.spec;
    let mut serving = spec.serving.clone().unwrap_or_default();
    let follows_events = serving.frontend.as_ref().and_then(|frontend| frontend.router) == Some(RouterMode::Kv)
        || spec.components.values().any(|component| component.component_type == Some(ComponentType::Epp));
    let Some(worker) = worker_field(&mut serving, role) else { return args.to_vec() };
    let inputs = engine::WorkerInputs {
        model: &spec.model,
        served_name: spec.served_name.as_deref(),
        worker,
        role,
        kv_events: follows_events,
        adapter_rank: spec.adapters.iter().map(|adapter| adapter.max_rank.unwrap_or(DEFAULT_ADAPTER_RANK)).max(),
    };
    arrange_by(args, |name| {
        let mut unknown = engine::UnknownNames::default();
        let words = table.fill_names(&inputs, &[name], &mut unknown);
        unknown.flags.is_empty().then_some(words)
    })
}

fn update_worker(model: &mut Model, role: WorkerRole, how: impl FnOnce(&mut Worker)) {
    if let Some(worker) = model.spec.serving.as_mut().and_then(|serving| worker_field(serving, role).as_mut()) {
        how(worker);
    }
}

/// What an engine takes as a switch, or as options in JSON.
fn set_engine_options(worker: &mut Worker, one: &PlacedWorker<'_>, table: &engine::EngineTable, with_switches: bool) {
    let line = one.target.command_line().unwrap_or_default();
    let Some(program) = line.program() else { return };
    for (setting, flag, factors) in table.switches() {
        let sizes = factors.iter().filter_map(|factor| *worker.parallel_size_mut(*factor)?);
        let implied = sizes.fold(1_u32, u32::saturating_mul);
        let value = (with_switches && program.has_flag(flag) && implied > 1).then_some(implied);
        if setting == EngineSetting::ExpertParallel {
            worker.expert_parallel = value;
        } else if setting == EngineSetting::DataParallel {
            worker.data_parallel = value;
        }
    }
    for (setting, flag) in table.toggles() {
        let value = (with_switches && program.has_flag(flag)).then_some(true);
        if setting == EngineSetting::Eager {
            worker.eager = value;
        } else if setting == EngineSetting::TrustRemoteCode {
            worker.trust_remote_code = value;
        }
    }
    let written = table.options_flag.and_then(|flag| program.value_of(flag));
    if let Some(Value::Object(written)) = written.and_then(|text| serde_json::from_str(text).ok()) {
        let fixed = table.fixed_options(one.role);
        let own: Map<String, Value> =
            written.into_iter().filter(|(name, value)| fixed.get(name) != Some(value)).collect();
        worker.engine_options = (!own.is_empty()).then_some(own);
    }
}
