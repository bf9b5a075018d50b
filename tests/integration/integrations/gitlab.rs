//! GitLab's component: its jobs, their scripts run by `sh` with the variables that GitLab sets for a merge request.

use super::{at, checkout, said, shell};
use crate::workbench::Workbench;
use regex::{Captures, Regex};
use serde_json::Value;

/// The jobs of the component with these inputs, and else its defaults.
fn jobs(inputs: &[(&str, &str)]) -> Value {
    let text = fs_err::read_to_string(at("integrations/gitlab-component/templates/stator.yml")).unwrap();
    let (head, body) = text.split_once("\n---\n").unwrap();
    let head: Value = serde_saphyr::from_str(head).unwrap();
    let interpolation = Regex::new(r"\$\[\[ inputs\.([a-z0-9-]+) \]\]").unwrap();
    let value = |found: &Captures<'_>| {
        let input = &head["spec"]["inputs"][&found[1]];
        assert!(input["description"].is_string(), "there is no input `{}`", &found[1]);
        let given = inputs.iter().find(|(name, _)| *name == &found[1]);
        let text = given.map_or_else(|| input["default"].as_str().unwrap(), |(_, value)| value);
        // GitLab puts the text in as it is, and YAML reads it after that.
        if text.is_empty() { "''".to_owned() } else { text.to_owned() }
    };
    let body = interpolation.replace_all(body, value).into_owned();
    assert!(!body.contains("$[["), "{body}");
    serde_saphyr::from_str(&body).unwrap()
}

/// What a job says, and how it ends.
fn run(bench: &Workbench, jobs: &Value, name: &str, variables: &[(&str, &str)]) -> String {
    let (base, job) = (&jobs[".stator"], &jobs[name]);
    assert_eq!(job["extends"], ".stator");
    let lines = [&base["before_script"], &job["script"]].into_iter().flat_map(|part| part.as_array().unwrap());
    let script: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    let mut command = shell(bench, "sh", &script.join("\n"));
    for (name, value) in base["variables"].as_object().unwrap() {
        command.env(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    command.env("CI_PROJECT_DIR", bench.root()).envs(variables.iter().copied());
    said(&command.output().unwrap())
}

#[test]
fn findings_are_in_the_log_and_in_both_reports() {
    let bench = checkout("fleet");
    bench.commit("The example");
    bench.replace("fleet/chat/llama-3-70b/model.yaml", "engine: vllm", "engine: vlm");
    let jobs = jobs(&[("path", "fleet")]);
    insta::assert_snapshot!(run(&bench, &jobs, "stator-validate", &[]), @"
    stator 0.1.0
    error[schema/unknown-word]: `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`
      --> chat/llama-3-70b/model.yaml:11:11
       |
    11 |   engine: vlm
       |           ^^^
       |
       = help: Did you mean `vllm`?
       = rule: https://stator.dev/docs/rules#schema/unknown-word

    Found 1 error (13 models checked).
    0 files would change, 20 are formatted already
    ? 1
    ");
    let reports = &jobs["stator-validate"]["artifacts"]["reports"];
    let quality: Value = serde_json::from_str(&bench.read(reports["codequality"].as_str().unwrap())).unwrap();
    assert_eq!(quality[0]["location"]["path"], "fleet/chat/llama-3-70b/model.yaml");
    assert_eq!(quality[0]["location"]["lines"]["begin"], 11);
    assert!(bench.read(reports["junit"].as_str().unwrap()).contains("schema/unknown-word"));
}

#[test]
fn a_sound_repository_passes_with_empty_reports() {
    let bench = checkout("");
    let jobs = jobs(&[]);
    assert!(run(&bench, &jobs, "stator-validate", &[]).ends_with("? 0"));
    assert_eq!(bench.read("gl-code-quality-report.json").trim(), "[]");
}

#[test]
fn a_merge_request_is_planned_into_a_page() {
    let bench = checkout("");
    let base = bench.commit("The example");
    bench.replace("chat/llama-3-70b/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("More");
    let jobs = jobs(&[("environment", "staging")]);
    assert_eq!(jobs["stator-plan"]["rules"][0]["if"], "$CI_PIPELINE_SOURCE == \"merge_request_event\"");
    let said = run(&bench, &jobs, "stator-plan", &[("CI_MERGE_REQUEST_DIFF_BASE_SHA", &base)]);
    assert!(said.contains("replicas   2 → 3") && said.ends_with("? 0"), "{said}");
    let page = bench.read(jobs["stator-plan"]["artifacts"]["paths"][0].as_str().unwrap());
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("llama-3-70b"), "{page}");
}
