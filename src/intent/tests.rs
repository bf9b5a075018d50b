//! Repositories as a user writes them, and what stator makes of them.

use super::*;
use crate::finding::Location;

/// A repository in memory: path and text of each file.
pub(super) fn workspace(files: &[(&str, &str)]) -> Workspace {
    let mut files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile { path: (*path).to_owned(), content: Ok(text.as_bytes().to_vec()) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Workspace::parse(&SourceTree { files })
}

/// Findings as `validate --format concise` would show them, with help.
pub(super) fn report(findings: &[Finding]) -> String {
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

pub(super) const ROOT: &str = "\
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
    let prod = workspace.environment(Some("prod")).unwrap();
    assert_eq!(report(&prod.findings), "");
    let intent = &prod.intents[0];
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
    let staging = workspace.environment(Some("staging")).unwrap();
    assert_eq!(staging.intents[0].model.spec.serving.as_ref().unwrap().worker.as_ref().unwrap().replicas, Some(1));
}

#[test]
fn without_any_settings_there_is_one_environment() {
    let workspace = workspace(&[("model.yaml", QWEN)]);
    let selection = workspace.environment(None).unwrap();
    assert_eq!((selection.name.as_str(), selection.environment.namespace.as_str()), ("default", "default"));
    assert_eq!(selection.repository, "default");
    assert_eq!(workspace.environments(), ["default"]);
}

#[test]
fn an_environment_must_be_named_where_there_are_several() {
    let workspace = workspace(&[("stator.yaml", ROOT)]);
    insta::assert_snapshot!(workspace.environment(None).unwrap_err(), @"the repository has several environments: `prod`, `staging`; choose one with --environment");
    insta::assert_snapshot!(workspace.environment(Some("prdo")).unwrap_err(), @"unknown environment `prdo`; there are `prod`, `staging`; did you mean `prod`?");
}
