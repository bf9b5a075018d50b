//! What is said of a draft.

use super::*;
use crate::problem::ProblemKind;
use crate::samples::{fleet, llama, model, source};
use stator_core::dynamo::health::Health;
use stator_core::finding::{Finding, Severity};
use stator_model::intent::{Intent, SourceFile, SourceTree, Workspace};
use stator_model::plan::SyncState;
use std::sync::Arc;

pub(crate) const MODEL: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: llama
spec:
  model: meta/llama   # as the hub has it
  engine: vllm
  runtime: 1.2.0
  serving:
    worker:
      replicas: 2
      scaling: {min: 1, max: 4}
";

/// A draft, judged without a cluster: its text alone.
pub(crate) fn judged(text: &str, stored: Option<&str>) -> JudgedDraft {
    let file = "models/llama/model.yaml".to_owned();
    let resolve = |text: &str| -> (Vec<Finding>, Option<Intent>) {
        let content = Ok(Arc::from(text.as_bytes()));
        let tree = SourceTree { files: vec![SourceFile { path: file.clone(), content }], ..SourceTree::default() };
        let resolved = Workspace::parse(&tree).resolve_environment(None).unwrap();
        (resolved.findings, resolved.intents.first().and_then(|one| one.load().ok()))
    };
    let (findings, intent) = resolve(text);
    JudgedDraft {
        source: "team/fleet".into(),
        environment: "prod".into(),
        namespace: "prod".into(),
        stored: stored.map(str::to_owned),
        model: Some("llama".into()),
        findings,
        is_left_out: false,
        objects: Vec::new(),
        plan: None,
        merged: intent.map(|intent| MergedModel { model: intent.model, origins: intent.origins }),
        stored_model: stored.and_then(|text| resolve(text).1).map(|intent| intent.model),
        draft: ModelDraft { file: file.clone(), text: text.to_owned() },
        refused: None,
    }
}

#[test]
fn every_error_names_its_field() {
    let text = MODEL.replace("vllm", "vlm").replace("worker:", "wroker:");
    let problem = judged(&text, None).check().unwrap_err();
    insta::assert_json_snapshot!(problem, @r##"
    {
      "type": "/problems/invalid-model",
      "title": "The model has errors",
      "status": 422,
      "detail": "2 errors",
      "errors": [
        {
          "pointer": "#/spec/engine",
          "detail": "`spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`",
          "code": "schema/unknown-word",
          "file": "models/llama/model.yaml",
          "line": 7,
          "column": 11,
          "found": "vlm",
          "allowed": [
            "vllm",
            "sglang",
            "trtllm",
            "mocker",
            "custom",
            "auto"
          ],
          "help": "Did you mean `vllm`?"
        },
        {
          "pointer": "#/spec/serving/wroker",
          "detail": "unknown field `wroker` in `spec.serving`",
          "code": "schema/unknown-field",
          "file": "models/llama/model.yaml",
          "line": 10,
          "column": 5,
          "found": "wroker",
          "allowed": [
            "frontend",
            "worker",
            "prefill",
            "decode",
            "headless"
          ],
          "help": "Did you mean `worker`?"
        }
      ]
    }
    "##);
    assert_eq!(judged(MODEL, None).check(), Ok(()));
    let broken = judged("a: [", None).check().unwrap_err();
    assert_eq!((broken.errors[0].pointer.as_str(), broken.errors[0].line), ("#", Some(1)), "{broken:?}");
}

#[test]
fn replicas_that_somebody_else_decides_on_are_refused() {
    let more = MODEL.replace("replicas: 2", "replicas: 3");
    let refused = judged(&more, Some(MODEL)).check_change().unwrap_err();
    assert_eq!(refused.of, ProblemKind::ReplicasNotOwned);
    insta::assert_json_snapshot!(refused.errors, @r##"
    [
      {
        "pointer": "#/spec/serving/worker/replicas",
        "detail": "`scaling` of worker is set, so a planner or a scaling adapter sets the replicas; changing them from 2 to 3 has no effect",
        "file": "models/llama/model.yaml",
        "line": 11,
        "column": 17,
        "found": "3",
        "help": "change `scaling.min` and `scaling.max`, or remove `scaling`"
      }
    ]
    "##);
    // A new model starts with as many as it says, bounds are git's, and so are replicas that nobody scales.
    assert_eq!(judged(&more, None).check_change(), Ok(()));
    assert_eq!(judged(&MODEL.replace("max: 4", "max: 8"), Some(MODEL)).check_change(), Ok(()));
    let unscaled = |text: &str| text.replace("      scaling: {min: 1, max: 4}\n", "");
    assert_eq!(judged(&unscaled(&more), Some(MODEL)).check_change(), Ok(()));
    assert_eq!(judged(&unscaled(&more), Some(&unscaled(MODEL))).check_change(), Ok(()));
}

#[test]
fn a_draft_says_what_it_is_for() {
    let known = ["source", "file", "dryRun"];
    let target = DraftTarget::parse("source=team/fleet&file=a/model.yaml&dryRun=client", &known).unwrap();
    assert_eq!(target.find_source(&fleet()).unwrap().name, "fleet");
    assert_eq!(target.find_file(&source(Vec::new()), MODEL).as_deref(), Ok("a/model.yaml"));
    let refused = DraftTarget::parse("dryRun=sever&fiel=x", &known).unwrap_err();
    assert_eq!(refused.errors.len(), 2);
    assert_eq!(refused.errors[0].help.as_deref(), Some("did you mean `server`?"));
    assert_eq!(target.check, DraftCheck::Client);
    assert_eq!(refused.errors[1].help.as_deref(), Some("did you mean `file`?"));
    assert!(DraftTarget::parse("dryRun=client", &known[..2]).is_err());
    let of = |source: Option<&str>| {
        DraftTarget { source: source.map(str::to_owned), ..DraftTarget::default() }
            .find_source(&fleet())
            .map(|one| one.label())
    };
    assert_eq!(of(None), Ok("team/fleet".to_owned()));
    assert_eq!(of(Some("team/flet")).unwrap_err().errors[0].help.as_deref(), Some("did you mean `team/fleet`?"));
    // A model that is known keeps its file; others lie beside most of them.
    let file = |name: &str| {
        DraftTarget::default()
            .find_file(
                &source(vec![llama(), model("a", Health::Healthy, SyncState::Synced)]),
                &MODEL.replace("llama", name),
            )
            .unwrap()
    };
    assert_eq!(
        (file("a").as_str(), file("new").as_str(), file("../x").as_str()),
        ("models/a/model.yaml", "models/new/model.yaml", "models/new-model/model.yaml")
    );
    for file in [
        "/etc/model.yaml",
        "../model.yaml",
        "a//model.yaml",
        ".git/model.yaml",
        "a/Model.yaml",
        "a/model.prod.yaml",
        "a\\model.yaml",
        "model.yaml/",
    ] {
        let target = DraftTarget { file: Some(file.to_owned()), ..DraftTarget::default() };
        assert!(target.find_file(&source(Vec::new()), MODEL).is_err(), "{file}");
    }
}

#[test]
fn warnings_do_not_stop_a_draft() {
    let text = MODEL.replace("replicas: 2", "replicas: 9");
    let judged = judged(&text, None);
    assert_eq!(judged.check(), Ok(()));
    let warnings = judged.faults(Severity::Warning);
    assert_eq!(warnings[0].pointer, "#/spec/serving/worker/replicas", "{warnings:?}");
    assert_eq!(judged.rendered().warnings, warnings);
}
