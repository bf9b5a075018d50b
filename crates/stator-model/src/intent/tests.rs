//! Repositories as a user writes them, and what stator makes of them.

mod files;
mod layers;
mod manifests;
mod routes;
mod shapes;
mod weights;

use super::*;
use stator_core::finding::Location;

/// A repository in memory: path and text of each file.
pub(crate) fn workspace(files: &[(&str, &str)]) -> Workspace {
    let mut files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile { path: (*path).to_owned(), content: Ok(text.as_bytes().into()) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Workspace::parse(&SourceTree { files, ..SourceTree::default() })
}

/// The intents of an environment.
pub(crate) fn loaded(selection: &ResolvedEnvironment) -> Vec<Intent> {
    selection.intents.iter().map(|intent| intent.load().unwrap()).collect()
}

/// Findings as `validate -o concise` would show them, with help.
pub(crate) fn report(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| {
            let at = &finding.location;
            format!(
                "{}:{}:{} {} {}: {}\n  help: {}\n",
                at.file, at.line, at.column, finding.severity, finding.rule.id, finding.message, finding.help
            )
        })
        .collect()
}

pub(crate) const ROOT: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: models}
spec:
  defaults:
    runtime: 1.2.0
    env: {LOG_LEVEL: info, REGION: eu}
  environments:
    staging: {namespace: staging, exclude: [models/big]}
    prod:
      namespace: prod
      defaults:
        env: {LOG_LEVEL: warn}
";

pub(super) const QWEN: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: qwen
spec:
  model: Qwen/Qwen3-0.6B
  engine: vllm
  serving:
    worker: {replicas: 1, gpus: 1, args: [--a, --b]}
";

#[test]
fn a_model_is_merged_from_root_folder_environment_intent_and_overlay() {
    let workspace = workspace(&[
        ("stator.yaml", ROOT),
        (
            "models/stator.yaml",
            "apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec:\n  env: {REGION: us}\n  hardware: {gpu: l40s}\n",
        ),
        ("models/small/model.yaml", QWEN),
        (
            "models/small/model.prod.yaml",
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nspec:\n  serving:\n    worker:\n      replicas: 3\n      args: [--c]\n",
        ),
    ]);
    assert_eq!(report(&workspace.findings), "");
    let prod = workspace.resolve_environment(Some("prod")).unwrap();
    assert_eq!(report(&prod.findings), "");
    let intent = &loaded(&prod)[0];
    insta::assert_snapshot!(serde_json::to_string_pretty(&intent.model.spec).unwrap(), @r#"
    {
      "model": "Qwen/Qwen3-0.6B",
      "engine": "vllm",
      "runtime": "1.2.0",
      "hardware": {
        "gpu": "l40s"
      },
      "serving": {
        "worker": {
          "replicas": 3,
          "gpus": 1,
          "args": [
            "--c"
          ]
        }
      },
      "env": {
        "LOG_LEVEL": "warn",
        "REGION": "us"
      }
    }
    "#);
    let place = |path: &str| {
        let Location { file, line, column, .. } = intent.origins.locate(path);
        format!("{path}: {file}:{line}:{column}\n")
    };
    let places: String = [
        "metadata.name",
        "spec.runtime",
        "spec.hardware.gpu",
        "spec.env.LOG_LEVEL",
        "spec.env.REGION",
        "spec.serving.worker",
        "spec.serving.worker.gpus",
        "spec.serving.worker.replicas",
        "spec.serving.worker.args[0]",
        "spec.serving.worker.tensorParallel",
        "spec.sla",
    ]
    .map(place)
    .concat();
    insta::assert_snapshot!(places, @r#"
    metadata.name: models/small/model.yaml:4:9
    spec.runtime: stator.yaml:6:14
    spec.hardware.gpu: models/stator.yaml:5:19
    spec.env.LOG_LEVEL: stator.yaml:13:26
    spec.env.REGION: models/stator.yaml:4:17
    spec.serving.worker: models/small/model.yaml:9:5
    spec.serving.worker.gpus: models/small/model.yaml:9:33
    spec.serving.worker.replicas: models/small/model.prod.yaml:6:17
    spec.serving.worker.args[0]: models/small/model.prod.yaml:7:14
    spec.serving.worker.tensorParallel: models/small/model.yaml:9:5
    spec.sla: models/small/model.yaml:5:1
    "#);
    let staging = workspace.resolve_environment(Some("staging")).unwrap();
    assert_eq!(loaded(&staging)[0].model.spec.serving.as_ref().unwrap().worker.as_ref().unwrap().replicas, Some(1));
}

#[test]
fn without_any_settings_there_is_one_environment() {
    let workspace = workspace(&[("model.yaml", QWEN)]);
    let selection = workspace.resolve_environment(None).unwrap();
    assert_eq!((selection.name.as_str(), selection.environment.namespace.as_str()), ("default", "default"));
    assert_eq!(selection.repository, "default");
    assert_eq!(workspace.environment_names(), ["default"]);
}

#[test]
fn an_environment_must_be_named_where_there_are_several() {
    let workspace = workspace(&[("stator.yaml", ROOT)]);
    insta::assert_snapshot!(workspace.resolve_environment(None).unwrap_err(), @"the repository has several environments: `prod`, `staging`; choose one with --environment");
    insta::assert_snapshot!(workspace.resolve_environment(Some("prdo")).unwrap_err(), @"unknown environment `prdo`; known: `prod`, `staging`; did you mean `prod`?");
}

#[test]
fn two_models_of_one_name_are_both_broken_and_name_each_other() {
    let workspace = workspace(&[("stator.yaml", ROOT), ("a/model.yaml", QWEN), ("b/model.yaml", QWEN)]);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    insta::assert_snapshot!(report(&selection.findings), @r#"
    a/model.yaml:4:9 error layout/duplicate-name: the name `qwen` is also used by `b/model.yaml`
      help: Rename one of them, or exclude one from the environment with `exclude`.
    b/model.yaml:4:9 error layout/duplicate-name: the name `qwen` is also used by `a/model.yaml`
      help: Rename one of them, or exclude one from the environment with `exclude`.
    "#);
    assert!(selection.intents.is_empty());
    let names: Vec<_> =
        selection.broken.iter().map(|broken| (broken.name.as_deref(), broken.source.as_str())).collect();
    assert_eq!(names, [(Some("qwen"), "a/model.yaml"), (Some("qwen"), "b/model.yaml")]);
}

#[test]
fn overlays_need_an_intent_and_an_environment() {
    let overlay = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: other}\n";
    let workspace = workspace(&[
        ("stator.yaml", ROOT),
        ("a/model.prod.yaml", overlay),
        ("b/model.yaml", QWEN),
        ("b/model.prdo.yaml", overlay),
        ("c/model.yaml", &QWEN.replace("qwen", "named")),
        ("c/model.prod.yaml", overlay),
    ]);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    insta::assert_snapshot!(report(&selection.findings), @r#"
    a/model.prod.yaml:0:0 error layout/overlay-orphan: an overlay without its intent: there is no `model.yaml` beside it
      help: Add the `model.yaml`, or remove the overlay with the model.
    b/model.prdo.yaml:0:0 error layout/overlay-environment: overlay for unknown environment `prdo`; known: `prod`, `staging`
      help: Did you mean `prod`? Rename the file to `b/model.prod.yaml`.
    c/model.prod.yaml:3:18 error layout/overlay-name: the overlay is named `other`, its intent `named`
      help: Remove the name from the overlay; a model has one name in all environments.
    "#);
    assert!(selection.intents.is_empty(), "which overlay was meant is unknown");
    let names: Vec<_> = selection.broken.iter().map(|broken| broken.name.as_deref()).collect();
    assert_eq!(names, [Some("named"), Some("other"), Some("qwen")]);
}

/// Row C8 of the review: what is nearly named right is not passed over in silence.
#[test]
fn names_and_patterns_that_are_nearly_right_are_said() {
    let root = ROOT.replace(
        "    prod:\n",
        "    prod:\n      include: [modles/**, models]\n      exclude: [model/old, later/**]\n",
    );
    assert_ne!(root, ROOT);
    let workspace = workspace(&[
        ("stator.yaml", &root),
        ("models/a/model.yaml", QWEN),
        ("models/a/model-prod.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Model\n"),
        ("models/b/Model.yaml", &QWEN.replace("qwen", "b")),
        ("models/c/stator.yml", "kind: Defaults\n"),
        ("weights/model-00001.yaml", "kind: Weights\n"),
    ]);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    insta::assert_snapshot!(report(&selection.findings), @"
    models/a/model-prod.yaml:0:0 warning layout/file-name: `model-prod.yaml` is not read; did you mean `model.prod.yaml`?
      help: Rename the file to `models/a/model.prod.yaml`, or to something else if it is not for stator.
    models/b/Model.yaml:0:0 warning layout/file-name: `Model.yaml` is not read; did you mean `model.yaml`?
      help: Rename the file to `models/b/model.yaml`, or to something else if it is not for stator.
    models/c/stator.yml:0:0 warning layout/file-name: `stator.yml` is not read; did you mean `stator.yaml`?
      help: Rename the file to `models/c/stator.yaml`, or to something else if it is not for stator.
    stator.yaml:11:17 warning layout/pattern-unmatched: the pattern `modles/**` of `include` matches no model; did you mean `models`?
      help: Correct it, or remove it. Patterns are matched against the paths of `model.yaml` files from the root.
    ");
    assert!(selection.findings.iter().all(|one| !one.is_error()));
    // Row B3: the plan knows where a recorded model may be.
    assert!(selection.unread.iter().any(|place| place.may_hold("b", "elsewhere/model.yaml")));
    assert!(selection.unread.iter().any(|place| place.may_hold("c", "models/b/model.yaml")));
    assert!(selection.broken.is_empty());
}

/// Rows B3 and E5: a root file under nearly the right name is no folder without settings.
#[test]
fn a_root_file_of_nearly_the_right_name_is_an_error() {
    let workspace = workspace(&[("stator.yml", ROOT), ("a/model.yaml", QWEN)]);
    assert!(workspace.is_named());
    insta::assert_snapshot!(report(&workspace.findings), @"
    stator.yml:0:0 error layout/file-name: `stator.yml` is not read; did you mean `stator.yaml`?
      help: Rename the file to `stator.yaml`, or to something else if it is not for stator.
    ");
    insta::assert_snapshot!(workspace.resolve_environment(None).unwrap_err(), @"the environments cannot be read from stator.yml, which has errors; `stator validate` lists them");
    // One that is somebody else's is left alone.
    let workspace = self::workspace(&[("stator.yml", "volume: 1\n"), ("a/model.yaml", QWEN)]);
    assert!(workspace.resolve_environment(None).is_ok());
}

/// Row B3 of the review: a pointer of Git LFS in place of a model says what it is, and protects.
#[test]
fn a_pointer_of_lfs_is_a_file_that_cannot_be_read() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let workspace = workspace(&[("stator.yaml", ROOT), ("a/model.yaml", pointer)]);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    insta::assert_snapshot!(report(&selection.findings), @"
    a/model.yaml:0:0 error file/unreadable: the file cannot be read: it is a Git LFS pointer, and stator does not fetch from LFS
      help: Take it out of LFS: remove its pattern from `.gitattributes` and add the file again.
    ");
    assert_eq!(selection.broken, [BrokenIntent { source: "a/model.yaml".into(), name: None }]);
}

#[test]
fn one_bad_file_never_stops_another() {
    let whole = format!("{QWEN}  runtime: 1.2.0\n");
    let mut files: Vec<SourceFile> = [("a/model.yaml", "spec: [\n"), ("b/model.yaml", whole.as_str())]
        .map(|(path, text)| SourceFile { path: path.to_owned(), content: Ok(text.as_bytes().into()) })
        .into();
    files.push(SourceFile { path: "c/model.yaml".to_owned(), content: Err("permission denied".to_owned()) });
    let selection = Workspace::parse(&SourceTree { files, ..SourceTree::default() }).resolve_environment(None).unwrap();
    insta::assert_snapshot!(report(&selection.findings), @r#"
    a/model.yaml:1:7 error yaml/syntax: not valid YAML: unclosed bracket '['
      help: Fix the syntax here or just above.
    c/model.yaml:0:0 error file/unreadable: the file cannot be read: permission denied
      help: Make it readable, or remove it.
    "#);
    assert_eq!(selection.intents.len(), 1);
    assert_eq!(selection.broken.iter().map(|broken| broken.name.clone()).collect::<Vec<_>>(), [None, None]);
}

/// Row B1 of the review: what hides behind a second name or document must not look removed.
#[test]
fn a_file_that_says_two_names_has_none() {
    let twice = QWEN.replace("  name: qwen\n", "  name: qwen\n  name: llama\n");
    let two = format!("{QWEN}---\n{}", QWEN.replace("qwen", "llama"));
    for text in [twice, two] {
        let workspace = workspace(&[("stator.yaml", ROOT), ("a/model.yaml", &text)]);
        let selection = workspace.resolve_environment(Some("prod")).unwrap();
        assert_eq!(selection.broken, [BrokenIntent { source: "a/model.yaml".into(), name: None }], "{text}");
    }
}

#[test]
fn broken_settings_break_everything_under_them() {
    let workspace = workspace(&[
        ("stator.yaml", ROOT),
        ("a/stator.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {engine: vlm}\n"),
        ("a/deep/model.yaml", QWEN),
        ("b/model.yaml", &QWEN.replace("qwen", "fine")),
    ]);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    assert_eq!(selection.intents.len(), 1);
    assert_eq!(selection.broken, [BrokenIntent { source: "a/deep/model.yaml".into(), name: Some("qwen".into()) }]);

    let root = ROOT.replace("runtime: 1.2.0", "runtim: 1.2.0");
    let workspace = self::workspace(&[("stator.yaml", &root), ("b/model.yaml", QWEN)]);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    assert_eq!(selection.environment.namespace.as_str(), "prod");
    let names: Vec<_> = selection.broken.iter().map(|broken| broken.name.as_deref()).collect();
    assert_eq!(names, [None, Some("qwen")], "a nameless one holds back all pruning");

    let workspace =
        self::workspace(&[("stator.yaml", "kind: Repository\nspec: {environments: 3}\n"), ("model.yaml", QWEN)]);
    insta::assert_snapshot!(workspace.resolve_environment(None).unwrap_err(), @"the environments cannot be read from stator.yaml, which has errors; `stator validate` lists them");
}

#[test]
fn the_example_repository_has_no_faults() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/repo-layout");
    let mut files = Vec::new();
    let mut open = vec![std::path::PathBuf::from(root)];
    while let Some(folder) = open.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push(SourceFile { path: name, content: Ok(fs_err::read(&path).unwrap().into()) });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let workspace = Workspace::parse(&SourceTree { files, ..SourceTree::default() });
    for name in workspace.environment_names() {
        let selection = workspace.resolve_environment(Some(&name)).unwrap();
        assert_eq!(report(&selection.findings), "");
        assert!(selection.intents.len() >= 5);
    }
}

proptest::proptest! {
    /// Whatever a slip of the hand does to good files, they end as intents or as findings, and no model is lost.
    #[test]
    fn no_edit_of_a_good_repository_makes_it_panic(
        file in 0_usize..3,
        at in 0_usize..400,
        cut in 0_usize..12,
        put in "[a-z0-9:{}\\[\\]*&!<,.'\" \n-]{0,8}",
    ) {
        let overlay = "apiVersion: stator.dev/v1alpha1\nkind: Model\nspec:\n  env: {A: {secret: s, key: k}}\n";
        let mut texts = [ROOT.to_owned(), QWEN.to_owned(), overlay.to_owned()];
        let text = &mut texts[file];
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &put);
        let workspace = workspace(&[
            ("stator.yaml", &texts[0]),
            ("m/model.yaml", &texts[1]),
            ("m/model.prod.yaml", &texts[2]),
        ]);
        match workspace.resolve_environment(Some("prod")) {
            Ok(selection) => {
                let models = selection.intents.len() + selection.broken.len();
                let left_out = !selection.environment.include.is_empty() || !selection.environment.exclude.is_empty();
                proptest::prop_assert!(models >= 1 || left_out);
                let stops = selection.findings.iter().any(Finding::is_error);
                proptest::prop_assert!(stops || selection.broken.is_empty(), "what is broken has a finding");
            }
            Err(error) => proptest::prop_assert!(error.to_string().len() > 10),
        }
    }
}

#[test]
fn include_and_exclude_name_folders_files_or_globs() {
    let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: r}\nspec:\n  defaults: {runtime: 1.2.0}\n  environments:\n    a: {namespace: a, include: [chat, 'code/*/model.yaml']}\n    b: {namespace: b, exclude: [chat/]}\n    c: {namespace: c, include: ['[']}\n";
    let model = |name: &str| QWEN.replace("qwen", name);
    let files = |root: &str| {
        workspace(&[
            ("stator.yaml", root),
            ("chat/big/model.yaml", &model("big")),
            ("chat/small/model.yaml", &model("small")),
            ("code/x/model.yaml", &model("x")),
            ("code/x/y/model.yaml", &model("y")),
        ])
    };
    insta::assert_snapshot!(report(&files(root).findings), @r#"
    stator.yaml:9:33 error layout/glob: not a glob: unclosed character class; missing ']'
      help: Correct it: `*` matches within a folder, `**` over folders.
    "#);
    let workspace = files(&root.replace("'['", "'*'"));
    let names = |environment: &str| {
        let selection = workspace.resolve_environment(Some(environment)).unwrap();
        selection.intents.iter().map(|intent| intent.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("a"), ["big", "small", "x"]);
    assert_eq!(names("b"), ["x", "y"]);
}

/// A model that would only not be there is pruned.
#[test]
fn an_intent_that_cannot_be_read_again_is_a_broken_one() {
    let workspace = workspace(&[("stator.yaml", ROOT), ("models/qwen/model.yaml", QWEN)]);
    let stored = workspace.resolve_environment(Some("prod")).unwrap().intents.remove(0);
    assert_eq!(stored.load().unwrap().model.metadata.name, stored.name);
    let damaged = yaml::YamlNode { value: yaml::YamlValue::Invalid, span: yaml::YamlSpan::default() };
    let stored = StoredIntent { merged: PackedNode::of(&damaged), ..stored };
    let broken = BrokenIntent { source: "models/qwen/model.yaml".into(), name: Some("qwen".into()) };
    assert_eq!(stored.load().unwrap_err(), broken);
}
