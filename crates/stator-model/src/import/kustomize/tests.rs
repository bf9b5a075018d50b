//! Folders of kustomize: built as kustomize builds them, or said once to be left to it.

use crate::import::{ImportOptions, ImportResult, ManifestFile, import};
use stator_core::dynamo::release::Release;
use std::path::Path;

fn file(path: &str, content: &str) -> ManifestFile {
    ManifestFile { file: path.to_owned(), content: content.as_bytes().to_vec() }
}

const BASE: &str = "resources: [deploy.yaml]\n";
const OVERLAY: &str = "resources: [../../base]\npatches:\n- path: patches/patch.yaml\n";
const PATCH: &str = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: chat}\nspec: {components: \
    [{name: a, replicas: 2}, {name: b, $patch: delete}]}\n";
const GRAPH: &str = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: chat}\nspec: {components: \
    [{name: b}, {name: a, type: worker, podTemplate: {spec: {containers: [{name: main, image: a/b:1.2.0}]}}}]}\n";

fn faults(import: &ImportResult) -> Vec<String> {
    import.findings.iter().filter(|one| one.rule.id == "import/kustomize").map(|one| one.message.clone()).collect()
}

fn overlay(kustomization: &str) -> ImportResult {
    let files = [
        file("k/base/kustomization.yaml", BASE),
        file("k/base/deploy.yaml", GRAPH),
        file("k/overlays/a/kustomization.yaml", kustomization),
        file("k/overlays/a/patches/patch.yaml", PATCH),
    ];
    import(&files, ImportOptions::default())
}

/// The components of the one model, with their replicas.
fn replicas(import: &ImportResult) -> String {
    let [model] = import.models.as_slice() else { panic!("{:#?}", import.findings) };
    let lines = model.text.lines().filter(|line| line.contains("replicas:") || line.trim() == "b:");
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_overlay_is_imported_as_it_is_built_and_the_base_is_not() {
    // Without a schema the list of a custom kind is replaced: the item to delete is one of the new list.
    let bare = overlay(OVERLAY);
    assert_eq!(bare.models.len(), 1, "{:#?}", bare.findings);
    assert_eq!(bare.models[0].origin.0, "k/overlays/a/kustomization.yaml");
    let operations = "resources: [../../base]\npatches:\n- target: {kind: Dynamo.*}\n  patch: |\n    - {op: add, path: \
        /spec/components/1/replicas, value: 3}\n";
    assert_eq!(replicas(&overlay(operations)), "replicas: 3");
}

#[test]
fn what_is_not_data_is_said_once_and_stops_nothing_else() {
    for (kustomization, why) in [
        ("resources: [../../base]\nreplacements: []\n", "it uses `replacements`, which stator does not build"),
        ("resources: [../../../up]\n", "it names `up`, which is not among the files given"),
        ("resources: [.]\n", "it names too many folders or files, or itself"),
        (
            "resources: [../../base]\npatches: [{path: patches/patch.yaml, patch: x}]\n",
            "its patch has to be either `path` or `patch`",
        ),
        (
            "resources: [../../base]\npatches: [{target: {name: '('}, path: patches/patch.yaml}]\n",
            "its patch has a target that is no regular expression",
        ),
        (
            "resources: [../../base]\npatches: [{target: {kind: .*}, patch: '[{op: remove, path: /x}]'}]\n",
            "its patch cannot be applied",
        ),
        (
            "resources: [../../base]\npatches: [{patch: '{kind: Job, metadata: {name: x}}'}]\n",
            "its patch is for an object that is not there",
        ),
        (
            "resources: [../../base]\npatches: [{target: {kind: .*}, patch: '{spec: {$setElementOrder/x: []}}'}]\n",
            "has the directive `$setElementOrder/x`",
        ),
        ("- a\n", "it is not a map of fields"),
        ("a: 1\n---\nb: 2\n", "it holds 2 documents instead of one"),
        ("a: [\n", "cannot be read"),
    ] {
        let alone = overlay(kustomization);
        let said = faults(&alone);
        assert!(said.iter().any(|one| one.contains(why)), "{kustomization}: {said:?}");
        assert_eq!(said.len(), 1, "{said:?}");
        // The base of an overlay that cannot be built is not what runs.
        assert_eq!(alone.models.is_empty(), kustomization.contains("base"), "{kustomization}");
    }
    let beside = [
        file("k/kustomization.yaml", "helmCharts: []\n"),
        file("k/values.yaml", "a: 1\n"),
        file("k/templates/x.yaml", "kind: {\n"),
        file("deploy.yaml", GRAPH),
    ];
    let beside = import(&beside, ImportOptions::default());
    assert_eq!((beside.models.len(), faults(&beside).len()), (1, 1));
    let of_kustomize = beside.findings.iter().filter(|one| one.rule.id == "import/kustomize");
    assert!(of_kustomize.into_iter().all(|one| !one.is_error()), "{:#?}", beside.findings);
}

fn upstream(folder: &Path, found: &mut Vec<ManifestFile>) {
    for entry in fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let is_hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_read = entry.extension().is_some_and(|extension| extension == "yaml" || extension == "json");
        if entry.is_dir() {
            upstream(&entry, found);
        } else if is_read && !is_hidden {
            found.push(ManifestFile { file: entry.display().to_string(), content: fs_err::read(&entry).unwrap() });
        }
    }
}

/// Upstream has what kustomize makes of its overlays beside them.
#[test]
fn upstreams_overlays_are_built_to_what_kustomize_builds() {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/1.5/recipes"));
    let mut count = 0;
    for folder in ["qwen3-32b/vllm/cloud-providers", "qwen3-235b-a22b-fp8/trtllm/disagg/blackwell"] {
        let mut files = Vec::new();
        upstream(&data.join("kustomize"), &mut files);
        upstream(&data.join(folder), &mut files);
        let built = |file: &str| file.contains("/overlays/");
        let overlays = files.iter().filter(|one| built(&one.file) && one.file.ends_with("kustomization.yaml")).count();
        let import = import(&files, ImportOptions { release: Release::V1_5, ..ImportOptions::default() });
        assert_eq!(faults(&import), Vec::<String>::new());
        let copies: Vec<&str> = import
            .findings
            .iter()
            .filter(|one| {
                built(&one.location.file)
                    && one.message.contains("DynamoGraphDeployment")
                    && one.message.contains("duplicates")
            })
            .map(|one| one.location.file.as_str())
            .collect();
        assert_eq!(copies.len(), overlays, "{copies:#?}");
        assert!(import.models.iter().all(|model| !built(&model.origin.0) && model.round_trips));
        count += overlays;
    }
    assert_eq!(count, 9);
}
