//! Which component is what: the frontend, the workers by their roles, and the rest.

use super::component::{ComponentManifest, most_common};
use crate::import::command_line::FoundSetting;
use crate::intent::model::{ComponentType, Engine};
use crate::render::engine::{EngineTable, WorkerRole};
use serde_json::{Map, Value};
use stator_core::dynamo::registry::{SIDECAR_FRONTEND, env as names};

/// The components by what an intent calls them.
#[derive(Debug)]
pub struct ComponentRoles<'a> {
    /// `serving.frontend`.
    pub frontend: Option<ComponentManifest<'a>>,
    /// `serving.worker`, or `prefill` and `decode`.
    pub workers: Vec<(WorkerRole, ComponentManifest<'a>)>,
    /// `components`.
    pub extra: Vec<ComponentManifest<'a>>,
}

/// The type of a component, when v1beta1 has a word for it.
pub fn component_type(target: ComponentManifest<'_>) -> Option<ComponentType> {
    serde_json::from_value(target.component.get("type")?.clone()).ok()
}

/// The engine that most of the workers start; else what the graph says, else what the images are called.
pub fn detect_engine(targets: &[ComponentManifest<'_>], spec: &Map<String, Value>) -> Engine {
    let started: Vec<Engine> = targets.iter().filter_map(|target| super::engine_of(*target)).collect();
    if let Some(engine) = most_common(&started) {
        return engine;
    }
    let named = spec.get("backendFramework").and_then(Value::as_str);
    let of_images = || {
        let images: Vec<&str> = targets.iter().filter_map(|target| target.main_field("image")?.as_str()).collect();
        let has = |word: &str| images.iter().any(|image| image.contains(word));
        // Only workers of an engine's own image run it; a program of one's own may be in any.
        let workers = targets
            .iter()
            .any(|target| is_worker(*target) && target.command_line().is_some_and(|line| line.command.is_none()));
        [("vllm-runtime", Engine::Vllm), ("sglang-runtime", Engine::Sglang), ("tensorrtllm-runtime", Engine::Trtllm)]
            .into_iter()
            .find(|(word, _)| workers && has(word))
            .map(|(_, engine)| engine)
    };
    match named {
        Some("vllm") => Engine::Vllm,
        Some("sglang") => Engine::Sglang,
        Some("trtllm") => Engine::Trtllm,
        Some(_) | None => of_images().unwrap_or(Engine::Custom),
    }
}

fn is_worker(target: ComponentManifest<'_>) -> bool {
    component_type(target).is_some_and(ComponentType::is_worker)
}

/// The half that a worker says it is: by its flags, its type, its name.
fn detect_role(target: ComponentManifest<'_>) -> Option<WorkerRole> {
    let line = target.command_line().unwrap_or_default();
    let by_flag = line.program().and_then(|program| match program.value_of("--disaggregation-mode") {
        Some("prefill") => Some(WorkerRole::Prefill),
        Some("decode") => Some(WorkerRole::Decode),
        Some(_) | None if program.has_flag("--is-prefill-worker") => Some(WorkerRole::Prefill),
        Some(_) | None if program.has_flag("--is-decode-worker") => Some(WorkerRole::Decode),
        Some(_) | None => None,
    });
    let by_type = || match component_type(target) {
        Some(ComponentType::Prefill) => Some(WorkerRole::Prefill),
        Some(ComponentType::Decode) => Some(WorkerRole::Decode),
        Some(ComponentType::Frontend | ComponentType::Worker | ComponentType::Planner | ComponentType::Epp) | None => {
            None
        }
    };
    let by_name = || {
        let name = target.name().to_lowercase();
        match (name.contains("prefill"), name.contains("decode")) {
            (true, false) => Some(WorkerRole::Prefill),
            (false, true) => Some(WorkerRole::Decode),
            (true, true) | (false, false) => None,
        }
    };
    by_flag.or_else(by_type).or_else(by_name)
}

impl<'a> ComponentRoles<'a> {
    /// Sorts components. Whatever is not clear is a further component, which may be anything.
    pub fn of(targets: &[ComponentManifest<'a>], table: &EngineTable) -> Self {
        let started = |target: &ComponentManifest<'a>| {
            let line = target.command_line().unwrap_or_default();
            !table.module.is_empty() && line.program().is_some_and(|program| program.module == table.module)
        };
        let known = |target: &&ComponentManifest<'a>| component_type(**target).is_some();
        let candidates: Vec<ComponentManifest<'a>> = targets
            .iter()
            .filter(known)
            .filter(|target| is_worker(**target) || (started(target) && !is_entry_point(**target)))
            .copied()
            .collect();
        let picker = targets.iter().any(|target| component_type(*target) == Some(ComponentType::Epp));
        let beside_picker = |target: &ComponentManifest<'a>| target.text("frontendSidecar") == Some(SIDECAR_FRONTEND);
        let workers = if picker && !candidates.iter().all(beside_picker) {
            Vec::new()
        } else {
            match candidates.as_slice() {
                [one] => vec![(WorkerRole::Aggregated, *one)],
                [a, b] => match (detect_role(*a), detect_role(*b)) {
                    (Some(WorkerRole::Prefill), Some(WorkerRole::Decode)) => {
                        vec![(WorkerRole::Prefill, *a), (WorkerRole::Decode, *b)]
                    }
                    (Some(WorkerRole::Decode), Some(WorkerRole::Prefill)) => {
                        vec![(WorkerRole::Prefill, *b), (WorkerRole::Decode, *a)]
                    }
                    (_, _) => Vec::new(),
                },
                _ => Vec::new(),
            }
        };
        let is_frontend = |target: &&ComponentManifest<'a>| component_type(**target) == Some(ComponentType::Frontend);
        // Without workers nothing is served here, and every component is a further one.
        let frontend = targets.iter().find(is_frontend).copied().filter(|_| !workers.is_empty());
        let placed = |target: &ComponentManifest<'a>| {
            frontend.is_some_and(|frontend| frontend.name() == target.name())
                || workers.iter().any(|(_, worker)| worker.name() == target.name())
        };
        let extra = targets.iter().filter(|target| !placed(target)).copied().collect();
        Self { frontend, workers, extra }
    }

    /// Whether a further component takes requests, so that no frontend is implied.
    pub fn has_entry_point(&self, targets: &[ComponentManifest<'_>]) -> bool {
        targets.iter().any(|target| is_entry_point(*target))
    }
}

fn is_entry_point(target: ComponentManifest<'_>) -> bool {
    matches!(component_type(target), Some(ComponentType::Frontend | ComponentType::Epp | ComponentType::Planner))
        && component_type(target) != Some(ComponentType::Planner)
}

/// The settings on all workers' command lines.
pub fn worker_settings(shape: &ComponentRoles<'_>, table: &EngineTable) -> Vec<FoundSetting> {
    let all = shape.workers.iter().map(|(_, target)| target).chain(&shape.extra);
    let of = |target: &ComponentManifest<'_>| {
        let program = target.command_line()?.program().filter(|program| program.module == table.module)?;
        Some(program.settings(table, &target.literal_env()))
    };
    all.filter_map(of).flatten().collect()
}

/// A model's name that other components tell: the graph's model reference, a router's or a planner's arguments.
pub fn referenced_model(targets: &[ComponentManifest<'_>]) -> Option<String> {
    let reference =
        |target: &ComponentManifest<'_>| target.component.get("modelRef")?.get("name")?.as_str().map(str::to_owned);
    let variable = |target: &ComponentManifest<'_>| target.literal_env().get(names::MODEL_NAME).cloned();
    let argument = |target: &ComponentManifest<'_>| {
        let program = target.command_line()?.program()?;
        ["--model", "--model-path", "--model-name"].iter().find_map(|flag| program.value_of(flag)).map(str::to_owned)
    };
    // A program that is none of Dynamo's is likely to call it so, too.
    let of_any = |target: &ComponentManifest<'_>| {
        let line = target.command_line()?;
        ["--model", "--model-path", "--model-name"].iter().find_map(|flag| line.value_of(flag))
    };
    let first = |way: &dyn Fn(&ComponentManifest<'_>) -> Option<String>| targets.iter().find_map(way);
    let found = first(&reference).or_else(|| first(&argument)).or_else(|| first(&variable)).or_else(|| first(&of_any));
    // A variable of a shell is no name.
    found.filter(|name| !name.is_empty() && !name.contains('$'))
}
