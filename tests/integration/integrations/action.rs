//! The action, its steps run one after the other as a runner does.

use super::{at, checkout, said, shell};
use crate::workbench::Workbench;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// What a runner gives the action.
pub struct ActionRun<'a> {
    pub bench: &'a Workbench,
    /// What the workflow says `with`.
    pub inputs: &'a [(&'a str, &'a str)],
    /// Variables of the runner.
    pub variables: Vec<(String, String)>,
    pub token: &'a str,
}

/// What became of the action.
pub struct ActionResult {
    /// The steps that ran, by name, and what each said and ended with.
    pub steps: BTreeMap<String, String>,
    /// The job's summary.
    pub summary: String,
}

impl ActionRun<'_> {
    /// Runs the steps until one fails, as a runner does.
    pub fn run(&self) -> ActionResult {
        let text = fs_err::read_to_string(at("integrations/github-action/action.yml")).unwrap();
        let action: Value = serde_saphyr::from_str(&text).unwrap();
        let runner = self.bench.root().with_file_name("runner");
        let _ = fs_err::remove_dir_all(&runner);
        fs_err::create_dir_all(&runner).unwrap();
        let (path, summary) = (runner.join("path"), runner.join("summary"));
        fs_err::write(&path, "").unwrap();
        fs_err::write(&summary, "").unwrap();
        let (mut steps, mut failed) = (BTreeMap::new(), false);
        for step in action["runs"]["steps"].as_array().unwrap() {
            let name = step["name"].as_str().unwrap();
            if !self.is_due(&step["if"], failed, steps.contains_key("Plan")) {
                continue;
            }
            assert_eq!(step["shell"], "bash", "{name}");
            let script = step["run"].as_str().unwrap();
            assert!(!script.contains("${{"), "{name}: what somebody else chose is no part of a script");
            let mut command = shell(self.bench, "bash", &format!("set -o pipefail\n{script}"));
            command.envs(self.variables.iter().cloned());
            for (variable, value) in step["env"].as_object().unwrap() {
                command.env(variable, self.value_of(&action, value.as_str().unwrap()));
            }
            let more = fs_err::read_to_string(&path).unwrap().lines().collect::<Vec<_>>().join(":");
            if !more.is_empty() {
                command.env("PATH", format!("{more}:{}", std::env::var("PATH").unwrap_or_default()));
            }
            command.env("GITHUB_PATH", &path).env("GITHUB_STEP_SUMMARY", &summary).env("RUNNER_TEMP", &runner);
            let output = command.env("GITHUB_WORKSPACE", self.bench.root()).output().unwrap();
            failed |= !output.status.success();
            steps.insert(name.to_owned(), said(&output));
        }
        ActionResult { steps, summary: fs_err::read_to_string(summary).unwrap() }
    }

    /// The conditions that the action has, and no other.
    fn is_due(&self, condition: &Value, failed: bool, planned: bool) -> bool {
        match condition.as_str() {
            None => !failed,
            Some("${{ inputs.comment == 'true' && steps.plan.outcome != 'skipped' && !cancelled() }}") => {
                planned && self.inputs.iter().all(|(name, value)| *name != "comment" || *value == "true")
            }
            Some(other) => panic!("the test has to learn what `{other}` means"),
        }
    }

    fn value_of(&self, action: &Value, text: &str) -> String {
        let Some(inner) = text.strip_prefix("${{ ").and_then(|rest| rest.strip_suffix(" }}")) else {
            assert!(!text.contains("${{"), "{text}");
            return text.to_owned();
        };
        if let Some(name) = inner.strip_prefix("inputs.") {
            let input = &action["inputs"][name];
            assert!(input["description"].is_string(), "there is no input `{name}`");
            let given = self.inputs.iter().find(|(known, _)| *known == name);
            return given.map_or_else(
                || self.value_of(action, input["default"].as_str().unwrap()),
                |(_, value)| (*value).to_owned(),
            );
        }
        match inner {
            "github.action_path" => at("integrations/github-action").to_str().unwrap().to_owned(),
            "github.token" => self.token.to_owned(),
            other => panic!("the test has to learn what `{other}` is"),
        }
    }
}

fn run(bench: &Workbench, inputs: &[(&str, &str)]) -> ActionResult {
    ActionRun { bench, inputs, variables: Vec::new(), token: "" }.run()
}

#[test]
fn findings_annotate_the_lines_of_the_checkout() {
    let bench = checkout("fleet");
    bench.commit("The example");
    bench.replace("fleet/chat/llama-3-70b/model.yaml", "engine: vllm", "engine: vlm");
    let result = run(&bench, &[("path", "fleet"), ("sarif-file", "findings.sarif")]);
    assert_eq!(
        result.steps.keys().collect::<Vec<_>>(),
        ["Install stator", "Validate"],
        "nothing is planned of what has errors"
    );
    insta::assert_snapshot!(result.steps["Validate"], @"
    ::error file=fleet/chat/llama-3-70b/model.yaml,line=11,col=11,title=schema/unknown-word::`spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`%0ADid you mean `vllm`?
    0 files would change, 20 are formatted already
    ? 1
    ");
    assert!(result.summary.contains("error[schema/unknown-word]"), "{}", result.summary);
    let sarif: Value = serde_json::from_str(&bench.read("findings.sarif")).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "fleet/chat/llama-3-70b/model.yaml");
    assert_eq!(place["region"]["startLine"], 11);
}

#[test]
fn a_sound_repository_passes_and_is_planned_only_for_a_change() {
    let bench = checkout("");
    let result = run(&bench, &[("sarif-file", "findings.sarif")]);
    insta::assert_snapshot!(result.steps["Validate"], @"
    0 files would change, 20 are formatted already
    ? 0
    ");
    insta::assert_snapshot!(result.steps["Plan"], @"
    This is not a pull request and `from` is not set, so there is nothing to plan against.
    ? 0
    ");
    assert_eq!(result.summary, "");
    let sarif: Value = serde_json::from_str(&bench.read("findings.sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn a_file_out_of_form_fails_unless_that_is_not_asked() {
    let bench = checkout("");
    bench.replace("chat/qwen3-32b/model.yaml", "kind: Model\n", "kind:   Model\n");
    insta::assert_snapshot!(run(&bench, &[]).steps["Validate"], @"
    chat/qwen3-32b/model.yaml
    1 file would change, 19 are formatted already
    ::error title=stator fmt::files are not in canonical form: run `stator fmt` and commit what it changed
    ? 1
    ");
    assert!(run(&bench, &[("check-format", "false")]).steps["Validate"].ends_with("? 0"));
}

/// A plan is in the summary, also where its class of change fails the job.
#[test]
fn a_change_is_planned_into_the_summary() {
    let bench = checkout("fleet");
    let base = bench.commit("The example");
    bench.replace("fleet/chat/llama-3-70b/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("More");
    let inputs = [("path", "fleet"), ("environment", "staging"), ("from", base.as_str()), ("comment", "false")];
    let result = run(&bench, &inputs);
    assert!(result.steps["Plan"].ends_with("? 0"), "{}", result.steps["Plan"]);
    assert!(result.summary.contains("replicas: 2 → 3"), "{}", result.summary);
    assert!(!result.steps.contains_key("Comment"));
    let failing: Vec<(&str, &str)> = inputs.into_iter().chain([("fail-on", "scale")]).collect();
    let result = run(&bench, &failing);
    assert!(result.steps["Plan"].ends_with("? 1"), "{}", result.steps["Plan"]);
    assert!(result.summary.contains("replicas: 2 → 3"), "{}", result.summary);
    // A checkout of one commit has nothing to compare with.
    let shallow = [("path", "fleet"), ("environment", "staging"), ("from", "origin/main...")];
    let result = run(&bench, &shallow);
    assert!(result.steps["Plan"].contains("let actions/checkout have `fetch-depth: 0`"), "{}", result.steps["Plan"]);
}

/// A release's archive is installed only if it is the one that was asked for.
#[test]
fn an_archive_is_installed_if_its_digest_is_right() {
    let bench = checkout("");
    bench.write("release/stator-0.0.0/stator", "#!/bin/sh\necho stator 0.0.0 \"$@\"\n");
    let pack = "chmod +x release/stator-0.0.0/stator && tar -czf release/archive -C release stator-0.0.0 && rm -r release/stator-0.0.0";
    assert!(shell(&bench, "bash", pack).status().unwrap().success());
    let digest = hex::encode(Sha256::digest(fs_err::read(bench.path("release/archive")).unwrap()));
    let url = format!("file://{}", bench.path("release/archive").display());
    let result = run(&bench, &[("archive", &url), ("sha256", &digest), ("check-format", "false")]);
    assert_eq!(result.steps["Install stator"], "stator 0.0.0 --version\n? 0");
    assert_eq!(result.steps["Validate"], "stator 0.0.0 validate . --output github\n? 0", "the installed one is run");
    for wrong in ["0".repeat(64), String::new(), "main".to_owned()] {
        let result = run(&bench, &[("archive", &url), ("sha256", &wrong)]);
        assert!(result.steps["Install stator"].ends_with("? 2"), "{}", result.steps["Install stator"]);
        assert_eq!(result.steps.len(), 1);
    }
}
