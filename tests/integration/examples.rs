//! The example repository is what the README and the docs run on: it must be without fault, and show everything.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::workbench::Workbench;
use stator_core::finding::Finding;
use stator_model::intent::model::{ComponentType, Engine, ModelSpec, Scaling};
use stator_model::intent::{Intent, ResolvedEnvironment, Workspace, format};
use std::collections::BTreeSet;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/repo-layout"))
}

fn workspace() -> Workspace {
    Workspace::parse(&stator_git::source::open(root()).unwrap().tree)
}

fn environment(name: &str) -> ResolvedEnvironment {
    workspace().resolve_environment(Some(name)).unwrap()
}

fn intents(name: &str) -> Vec<Intent> {
    environment(name).intents.iter().map(|intent| intent.load().unwrap()).collect()
}

#[test]
fn both_environments_are_without_findings() {
    assert_eq!(workspace().environment_names(), ["prod", "staging"]);
    for name in ["staging", "prod"] {
        let environment = environment(name);
        assert_eq!(environment.findings, Vec::<Finding>::new(), "{name}");
        assert!(environment.broken.is_empty(), "{name}");
        assert!(environment.intents.len() >= 12, "{name}: {}", environment.intents.len());
    }
}

#[test]
fn every_engine_and_every_shape_is_there() {
    let staging = intents("staging");
    let engines: BTreeSet<Engine> = staging.iter().map(|intent| intent.model.spec.engine).collect();
    assert_eq!(
        engines.into_iter().collect::<Vec<_>>(),
        [Engine::Vllm, Engine::Sglang, Engine::Trtllm, Engine::Mocker, Engine::Auto]
    );
    let shown = |what: &str, test: &dyn Fn(&ModelSpec) -> bool| {
        assert!(staging.iter().any(|intent| test(&intent.model.spec)), "no model shows {what}");
    };
    for engine in [Engine::Vllm, Engine::Sglang, Engine::Trtllm] {
        let aggregated = |spec: &ModelSpec| spec.serving.as_ref().is_some_and(|serving| serving.worker.is_some());
        let disaggregated = |spec: &ModelSpec| {
            spec.serving.as_ref().is_some_and(|serving| serving.prefill.is_some() && serving.decode.is_some())
        };
        shown("an aggregated graph of each engine", &|spec| spec.engine == engine && aggregated(spec));
        shown("a disaggregated graph of each engine", &|spec| spec.engine == engine && disaggregated(spec));
    }
    let worker = |spec: &ModelSpec| {
        let serving = spec.serving.clone().unwrap_or_default();
        serving.worker.or(serving.decode).unwrap_or_default()
    };
    let component = |spec: &ModelSpec, kind| spec.components.values().any(|it| it.component_type == Some(kind));
    shown("a model over several nodes", &|spec| worker(spec).nodes.is_some_and(|nodes| nodes > 1));
    shown("a model by SLA", &|spec| spec.sla.is_some());
    shown("two adapters", &|spec| spec.adapters.len() == 2);
    shown("a planner", &|spec| component(spec, ComponentType::Planner));
    shown("an endpoint picker", &|spec| component(spec, ComponentType::Epp));
    shown("bounds of scaling", &|spec| matches!(worker(spec).scaling, Some(Scaling::Bounds(_))));
    shown("scaling from outside", &|spec| matches!(worker(spec).scaling, Some(Scaling::External(_))));
    shown("a pod template", &|spec| worker(spec).template.is_some());
    shown("overrides", &|spec| !spec.overrides.is_empty());
    shown("a volume of its own", &|spec| spec.cache.as_ref().is_some_and(|cache| cache.size.is_some()));
}

#[test]
fn prod_is_larger_than_staging_by_its_overlays_alone() {
    let decode = |environment: &str| {
        let intent = intents(environment).into_iter().find(|one| one.model.metadata.name.as_str() == "llama-3-70b");
        intent.unwrap().model.spec.serving.clone().unwrap().decode.unwrap().replicas
    };
    assert_eq!((decode("staging"), decode("prod")), (Some(1), Some(3)));
    assert!(intents("prod").iter().all(|intent| intent.model.spec.engine != Engine::Mocker));
}

#[test]
fn the_files_are_formatted_and_say_which_schema_they_follow() {
    let mut files = 0;
    for file in stator_git::source::open(root()).unwrap().tree.files {
        let text = String::from_utf8(file.content.unwrap().to_vec()).unwrap();
        assert_eq!(format::format_document(&text).as_deref(), Ok(text.as_str()), "{}", file.path);
        let schema =
            text.lines().next().and_then(|line| line.strip_prefix("# yaml-language-server: $schema=")).unwrap();
        let folder = root().join(&file.path);
        let schema = folder.parent().unwrap().join(schema);
        assert!(schema.exists(), "{}: {} does not exist", file.path, schema.display());
        files += 1;
    }
    assert!(files >= 20, "{files}");
}

/// A recipe of upstream's as one file: what is applied by hand there, and waited for, is a sync here.
#[test]
fn a_recipe_is_one_file_and_comes_up_in_order() {
    let recipe = |file: &str| {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recipes")).join(file);
        fs_err::read_to_string(path).unwrap()
    };
    let files = ["stator.yaml", "gpt-oss-120b-trtllm/model.yaml", "gpt-oss-120b-trtllm/engine.yaml"];
    let texts = files.map(|file| (file, recipe(file)));
    let model = &texts[1].1;
    assert!(model.lines().count() < 30, "{}", model.lines().count());
    assert_eq!(format::format_document(model).as_deref(), Ok(model.as_str()));
    let bench = Workbench::with(&texts.each_ref().map(|(file, text)| (*file, text.as_str())));
    bench.run(["validate"]).success();
    let fast = ["sync", "--yes", "-v", "--wait", "--simulate-operator", "--simulate-speed", "200", "--timeout", "15m"];
    let synced = bench.run(fast).success();
    let applied: Vec<&str> = synced.stderr.lines().filter(|line| line.starts_with("applied ")).collect();
    insta::assert_snapshot!(applied.join("\n"), @"
    applied ConfigMap models/gpt-oss-120b-engine-05ca0f4115
    applied PersistentVolumeClaim models/model-cache
    applied Job models/weights-gpt-oss-120b-b48bcb93a2
    applied DynamoGraphDeployment models/gpt-oss-120b
    applied HTTPRoute models/gpt-oss-120b
    ");
    insta::assert_snapshot!(synced.result(), @"
    MODEL         RESULT   APPLIED  PRUNED  MESSAGE
    gpt-oss-120b  Healthy  5        0       -
    1 of 1 model synced, 9 writes.
    ");
    // Nothing is left to do, and the gateway has the route.
    bench.run(["plan", "--exit-code"]).success();
    let status = bench.run(["status", "gpt-oss-120b", "-o", "json"]).success().json();
    assert_eq!(status["models"][0]["health"], "Healthy", "{status:#}");
}

/// The recipes are of different shapes, each short enough to be read at once, and come up together.
#[test]
fn every_recipe_is_short_and_comes_up() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/recipes"));
    let tree = stator_git::source::open(folder).unwrap().tree;
    let mut texts: Vec<(String, String)> = Vec::new();
    for file in tree.files.iter().chain(tree.mounted_files.values().flatten()) {
        let text = String::from_utf8(file.content.as_ref().unwrap().to_vec()).unwrap();
        if file.path.ends_with("model.yaml") {
            let lines = text.lines().count();
            assert!((15..=30).contains(&lines), "{}: {lines}", file.path);
            assert_eq!(format::format_document(&text).as_deref(), Ok(text.as_str()), "{}", file.path);
        }
        texts.push((file.path.clone(), text));
    }
    let bench = Workbench::with(&texts.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect::<Vec<_>>());
    let fast = ["sync", "--yes", "--wait", "--simulate-operator", "--simulate-speed", "200", "--timeout", "15m"];
    let synced = bench.run(fast).success();
    // How often a record is written while its model comes up is the operator's to say.
    let result = synced.result();
    let table: Vec<&str> = result.lines().filter(|line| !line.ends_with("writes.")).collect();
    insta::assert_snapshot!(table.join("\n"), @"
    MODEL              RESULT   APPLIED  PRUNED  MESSAGE
    deepseek-r1        Healthy  2        0       -
    gpt-oss-120b       Healthy  5        0       -
    llama-3-70b        Healthy  3        0       -
    qwen3-32b          Healthy  3        0       -
    qwen3-32b-targets  Healthy  1        0       -
    qwen3-8b           Healthy  3        0       -
    ");
    bench.run(["plan", "--exit-code"]).success();
}
