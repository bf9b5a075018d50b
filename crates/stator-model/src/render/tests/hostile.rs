//! Every field of a model with every hostile value, from the file to the printed page: what cannot be used is a finding, what
//! can stays in its namespace, and other models see nothing of it.
//!
//! Of each field a few of the values are tried; `STATOR_HOSTILE_VALUES=all` tries all of them.

use super::strategy::{self, MANIFEST_FILE};
use super::{manifest_file, target};
use crate::intent::schema::{SchemaKind, document_schema};
use crate::intent::{SourceFile, SourceTree, Workspace};
use crate::present::findings::{concise, github, gitlab, junit, sarif};
use crate::present::{TerminalOptions, json};
use crate::render::emit::object_yaml;
use crate::render::render;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use stator_core::dynamo::kinds;
use stator_core::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

#[path = "../../../../../tests/support/hostile_values.rs"]
mod hostile_values;

/// Stands where the value is to be.
const HERE: &str = "@HERE@";
/// What only the other model has.
const CANARY: &str = "canary-of-another-model";
/// How long one finding may be in any format, in bytes.
const LONGEST: usize = 20_000;

const ROOT: &str = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: models}\nspec:\n  environments:\n    prod: {namespace: serving}\n";
const OTHER: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: canary}\nspec:\n  model: Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  env: {CANARY: canary-of-another-model}\n  serving: {worker: {replicas: 1}}\n";

/// A field by names and positions from the top of a document.
type Path = Vec<PathPart>;

#[derive(Clone, Debug)]
enum PathPart {
    Name(String),
    Position(usize),
}

/// Every place of a value, each with its field: the words of the schema that lead there. Items and names that a model chooses
/// are `*`.
fn places(value: &Value, words: &BTreeSet<String>, path: &Path, field: &str, found: &mut Vec<(String, Path)>) {
    let below = value.as_object().into_iter().flatten().map(|(name, below)| (PathPart::Name(name.clone()), below));
    let items = value.as_array().into_iter().flatten().enumerate();
    for (part, below) in below.chain(items.map(|(index, item)| (PathPart::Position(index), item))) {
        let field = match &part {
            PathPart::Name(name) if words.contains(name) => format!("{field}.{name}"),
            PathPart::Name(_) | PathPart::Position(_) => format!("{field}.*"),
        };
        let path: Path = path.iter().cloned().chain([part]).collect();
        places(below, words, &path, &field, found);
        found.push((field, path));
    }
}

/// The names of all fields of the schema.
fn schema_words() -> BTreeSet<String> {
    let schema = document_schema(SchemaKind::Intent);
    let shapes = schema["definitions"].as_object().unwrap().values();
    let fields = shapes.filter_map(|shape| shape["properties"].as_object());
    fields.flat_map(|fields| fields.keys().cloned()).chain(["metadata".to_owned(), "spec".to_owned()]).collect()
}

/// A model for each field that generated models have, with that field to be replaced: the first that has it.
fn models() -> Vec<Value> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = strategy::valid();
    let words = schema_words();
    let mut chosen: BTreeMap<String, Value> = BTreeMap::new();
    for _ in 0..700 {
        let model = strategy.new_tree(&mut runner).unwrap().current();
        let value = serde_json::to_value(&model).unwrap();
        let mut found = Vec::new();
        places(&value, &words, &Path::new(), "", &mut found);
        for (field, path) in found {
            chosen.entry(field).or_insert_with(|| with_placeholder(&value, &path));
        }
    }
    chosen.into_values().collect()
}

fn with_placeholder(value: &Value, path: &Path) -> Value {
    let mut whole = value.clone();
    let place = path.iter().fold(&mut whole, |place, part| match part {
        PathPart::Name(name) => &mut place[name.as_str()],
        PathPart::Position(position) => &mut place[*position],
    });
    *place = Value::from(HERE);
    whole
}

/// A repository of the other model and this one.
fn repository(model: &Value, value: &str) -> SourceTree {
    let text = serde_json::to_string(model).unwrap().replace(&format!("\"{HERE}\""), value);
    let file = |path: &str, content: &[u8]| SourceFile { path: path.to_owned(), content: Ok(content.into()) };
    let mut files = vec![
        file("stator.yaml", ROOT.as_bytes()),
        file("models/canary/model.yaml", OTHER.as_bytes()),
        file("models/hostile/model.yaml", text.as_bytes()),
        SourceFile { path: format!("models/hostile/{MANIFEST_FILE}"), ..manifest_file("") },
    ];
    for from in model["spec"]["files"].as_object().into_iter().flatten().filter_map(|(_, file)| file["from"].as_str()) {
        files.push(file(&format!("models/hostile/{from}"), b"content"));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    SourceTree { files, ..SourceTree::default() }
}

/// What is wrong with a text that is shown.
fn fault_of_text(text: &str, findings: usize) -> Option<&'static str> {
    if text.chars().any(|character| character.is_control() && character != '\n') {
        Some("has control characters")
    } else if text.len() > LONGEST * findings.max(1) {
        Some("is too long")
    } else if text.contains(CANARY) {
        Some("tells of another model")
    } else {
        None
    }
}

/// What is wrong with how findings are shown.
fn fault_of_findings(findings: &[Finding]) -> Option<String> {
    let faces = [
        ("concise", concise(findings, &TerminalOptions::default())),
        ("github", github(findings)),
        ("gitlab", gitlab(findings).unwrap()),
        ("junit", junit(findings, 2)),
        ("sarif", sarif(findings, "0").unwrap()),
        ("json", json(&findings).unwrap()),
    ];
    faces.into_iter().find_map(|(face, text)| Some(format!("{face} {}", fault_of_text(&text, findings.len())?)))
}

/// An object as the embedded cluster reads its own files: nested as deep as a model may nest it, and some levels more.
fn read_as_stored(yaml: &str) -> Option<Value> {
    serde_saphyr::from_str_with_options(yaml, serde_saphyr::options! { budget: None }).ok()
}

/// What is wrong with what becomes of a repository.
fn fault_of(model: &Value, value: &str) -> Option<String> {
    let selection = Workspace::parse(&repository(model, value)).resolve_environment(Some("prod")).unwrap();
    let mut fault = fault_of_findings(&selection.findings);
    let mut others = 0;
    for stored in &selection.intents {
        let intent = stored.load().unwrap();
        let rendered = render(&intent, &target());
        if intent.source.starts_with("models/canary/") {
            others += 1;
            fault = fault.or((rendered.objects.len() != 1).then(|| "another model is not rendered".to_owned()));
            continue;
        }
        fault = fault.or_else(|| fault_of_findings(&rendered.findings));
        for object in rendered.objects.iter().map(|desired| &desired.object) {
            let yaml = object_yaml(object).unwrap();
            let labels = object.labels();
            let is_own = labels.get(kinds::LABEL_MODEL) == Some(&intent.model.metadata.name.as_str())
                && labels.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::FIELD_MANAGER);
            let is_named = !object.name().is_empty()
                && object.name().len() <= 253
                && object
                    .name()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
            let wrong = if object.namespace() != "serving" {
                Some("is in another namespace")
            } else if !is_own {
                Some("has not the labels of its model")
            } else if !is_named {
                Some("has no name that Kubernetes takes")
            } else if yaml.contains(CANARY) {
                Some("has what another model says")
            } else if read_as_stored(&yaml).as_ref() != Some(object.value()) {
                Some("is not read as it was written")
            } else {
                None
            };
            fault = fault.or_else(|| Some(format!("{} {} {}", object.kind(), object.name(), wrong?)));
        }
    }
    // A name that both claim breaks both.
    let is_claimed = selection.broken.iter().any(|broken| broken.source.starts_with("models/canary/"));
    fault.or((others != 1 && !is_claimed).then(|| "another model was lost".to_owned()))
}

#[test]
fn a_field_takes_a_hostile_value_or_refuses_it_and_nothing_else_happens() {
    let (models, values) = (models(), hostile_values::hostile_values());
    assert!(models.len() > 600 && values.len() > 100, "{} fields, {} values", models.len(), values.len());
    let step = if std::env::var_os("STATOR_HOSTILE_VALUES").is_some() { 1 } else { 37 };
    let half = |worker: usize| {
        let mut faults = Vec::new();
        for (field, model) in models.iter().enumerate().filter(|(field, _)| field % 2 == worker) {
            for value in values.iter().skip(field % step).step_by(step) {
                if let Some(fault) = fault_of(model, value) {
                    let shown: String = value.chars().take(60).collect();
                    faults.push(format!("{fault}: {shown:?} in {}", serde_json::to_string(model).unwrap()));
                }
            }
        }
        faults
    };
    let faults: Vec<String> = std::thread::scope(|scope| {
        let workers = [0, 1].map(|worker| scope.spawn(move || half(worker)));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
}
