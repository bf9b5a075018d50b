//! Upstream's manifests, imported and rendered, against what Dynamo's own operator makes of them.

use crate::import::{self, CoverageRow, ImportOptions, ImportResult, ImportedModel, ManifestFile, import};
use crate::intent::tests::loaded;
use crate::intent::{SourceFile, SourceTree, Workspace};
use crate::render::{RenderTarget, render};
use rayon::prelude::*;
use serde_json::Value;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(super) fn data() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/dynamo")
}

/// What the operator makes of each document of upstream's, by file.
pub(super) fn oracle() -> BTreeMap<String, Vec<Value>> {
    let read = |name: &str| fs_err::read_to_string(data().join("oracle").join(name)).unwrap();
    let text = read("manifests.jsonl") + &read("recipes.jsonl");
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        files.entry(row["file"].as_str().unwrap().to_owned()).or_default().push(row);
    }
    files
}

/// As the operator whose verdicts these are.
pub(super) const OLDEST: ImportOptions<'static> =
    ImportOptions { release: Release::V1_2, lossy: true, is_running: true, namespace: None };

/// Each file by itself, imported once for all tests.
static IMPORTED: LazyLock<BTreeMap<String, ImportResult>> = LazyLock::new(|| {
    let files: Vec<String> = oracle().into_keys().collect();
    let import_file = |file: &String| {
        let content = fs_err::read(data().join(file)).unwrap();
        (file.clone(), import(&[ManifestFile { file: file.clone(), content }], OLDEST))
    };
    files.par_iter().map(import_file).collect()
});

fn imported(file: &str) -> &'static ImportResult {
    &IMPORTED[file]
}

/// The objects that a model's text renders to, with the files beside it, as a user gets them.
pub(super) fn rendered(model: &ImportedModel, release: Release) -> Vec<Object> {
    let file = |path: &str, text: &str| SourceFile { path: path.into(), content: Ok(text.as_bytes().into()) };
    let beside = model.files.iter().map(|one| file(&one.path, &one.text)).collect();
    let tree = SourceTree {
        files: vec![file("model.yaml", &model.text)],
        mounted_files: [(String::new(), beside)].into(),
        ..SourceTree::default()
    };
    let selection = Workspace::parse(&tree).resolve_environment(None).unwrap();
    let intents = loaded(&selection);
    let [intent] = intents.as_slice() else { panic!("{:#?}\n{}", selection.findings, model.text) };
    let target = RenderTarget {
        repository: "r".into(),
        environment: "e".into(),
        namespace: "n".into(),
        platform: Platform { dynamo: Some(release), ..Platform::default() },
    };
    let rendered = render(intent, &target);
    rendered.objects.iter().map(crate::render::RenderedObject::with_initial_replicas).collect()
}

#[test]
fn every_graph_and_request_that_the_operator_admits_comes_back_as_the_operator_has_it() {
    let mut missing = Vec::new();
    let mut count = 0;
    for (file, rows) in oracle() {
        let import = imported(&file);
        for row in rows.iter().filter(|row| row["admitted"] == true && row["kind"] != "DynamoModel") {
            count += 1;
            let (kind, name) = (row["kind"].as_str().unwrap(), row["name"].as_str().unwrap());
            let model = import.models.iter().find(|model| model.name == name);
            let Some(model) = model else { panic!("{file}: no model `{name}`: {:#?}", import.findings) };
            let objects = rendered(model, OLDEST.release);
            let object = objects.iter().find(|object| object.kind() == kind).unwrap();
            for difference in stator_core::dynamo::equivalence::differences(&row["v1beta1"], object.value()) {
                missing.push(format!("{file} {name}: {difference:?}"));
            }
            // The oldest operator lays one list of mounts over the other.
            let is_cut = import.findings.iter().any(|finding| finding.message.contains("later releases mount both"));
            if model.round_trips == is_cut {
                missing.push(format!("{file} {name}: is not proven: {:#?}", import.findings));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(count, 136 + 36);
}

/// How many leaves of upstream's manifests have a field with a meaning of its own. It may only grow.
#[test]
fn as_many_leaves_as_ever_have_a_field_of_their_own() {
    let files: Vec<String> = oracle().into_keys().collect();
    let rows: Vec<CoverageRow> =
        files.iter().flat_map(|file| &imported(file).models).map(import::coverage_row).collect();
    let total = import::coverage_total(&rows);
    assert!(total.named() * 1000 > total.leaves * 900, "{total:?}");
}
