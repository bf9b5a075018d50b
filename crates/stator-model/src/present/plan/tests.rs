use super::*;
use crate::intent::tests::{ROOT, loaded, workspace};
use crate::plan::{PlanInput, build_plan};
use crate::present::samples::hostile_plan;
use crate::present::{TerminalOptions, samples};
use crate::render::{RenderTarget, RenderedModel, render_all};
use proptest::prelude::*;
use serde_json::json;
use stator_core::dynamo::admission::Platform;

#[test]
fn a_person_reads_what_changes_what_it_costs_and_what_holds_it_back() {
    insta::assert_snapshot!(text(&samples::plan(), &TerminalOptions::default()), @"
    models / prod at 3f2a91c against live

    llama-3-70b  models/llama-3-70b/model.yaml
      ~ update DynamoGraphDeployment prod/llama-3-70b   managed-roll   GPUs 12 → 16 h200_sxm (+4, peak 22), autoscaled from 8 to 32   +$14.00/h
          ~ spec.components[name=decode].image      vllm-runtime:1.1.0 → vllm-runtime:1.1.1
          ~ spec.components[name=decode].replicas   2 → 3   (owned by kubectl-edit)
          · all 2 worker components roll (decode, prefill): the operator hashes them together

    qwen3-8b  models/qwen3-8b/model.yaml
      + create DynamoModel prod/qwen3-8b-sql-assist-v4   adapter-only

    old  models/old/model.yaml
      - delete DynamoGraphDeployment prod/old   GPUs 8 → 0 h100_sxm (-8)

    held back[mass-delete]: 1 of 4 objects would be deleted, 0 are let through
      = help: pass `--allow mass-delete` once you are sure

    warning[plan/capacity]: peak needs 22 H200, 20 are allowed
      --> models/llama-3-70b/model.yaml:9:5
      = help: set rollout {maxSurge: 0, maxUnavailable: 1}
      = rule: https://stator.dev/docs/rules#plan/capacity

    Plan: 1 to create, 1 to change, 1 to delete, 1 unchanged.
    GPUs: 8 → 0 h100_sxm (-8), 12 → 16 h200_sxm (+4, peak 22), 1 of unknown SKU
    Cost: ≈ +$10,220/mo ($42.00/h → $56.00/h; no price for l40s)
    ");
}

#[test]
fn what_is_deprecated_is_named_with_its_line_its_end_and_what_to_write_instead() {
    let model = "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: qwen}
spec:
  model: Qwen/Qwen3-8B
  engine: vllm
  runtime: 1.3.0
  serving:
    worker:
      args: [--max-num-seqs, '8', --is-decode-worker]
      env: {LOG_LEVEL: info, DYN_CONNECTOR: nixl}
  env:
    DYN_KVBM_CPU_CACHE_GB: '4'
";
    let selection =
        workspace(&[("stator.yaml", ROOT), ("qwen/model.yaml", model)]).resolve_environment(Some("prod")).unwrap();
    let (environment, namespace) = ("prod".to_owned(), "prod".to_owned());
    let platform = Platform::default();
    let target = RenderTarget { repository: "models".into(), environment, namespace, platform };
    let plan = build_plan(&PlanInput {
        repository: target.repository.clone(),
        environment: target.environment.clone(),
        namespace: target.namespace.clone(),
        rendered: render_all(&loaded(&selection), &target).into_iter().map(RenderedModel::into_text).collect(),
        ..PlanInput::default()
    });
    let shown = text(&plan, &TerminalOptions::default());
    let warnings: Vec<&str> = shown.split("\n\n").filter(|part| part.contains("[dynamo/deprecated]")).collect();
    insta::assert_snapshot!(warnings.join("\n\n"), @"
    warning[dynamo/deprecated]: the flag `--is-decode-worker` is deprecated since release 1.2; release 1.4 removes it
      --> qwen/model.yaml:10:35
      = help: Write `--disaggregation-mode decode`.
      = rule: https://stator.dev/docs/rules#dynamo/deprecated
    warning[dynamo/deprecated]: the variable `DYN_CONNECTOR` is deprecated since release 1.2; no release removes it yet
      --> qwen/model.yaml:11:45
      = help: Give `--kv-transfer-config` to the engine.
    warning[dynamo/deprecated]: the variable `DYN_KVBM_…` is deprecated since release 1.3; release 1.5 removes it
      --> qwen/model.yaml:13:28
      = help: Use the engine's own KV offloading.
    ");
}

#[test]
fn unchanged_objects_are_only_counted_unless_asked_for() {
    insta::assert_snapshot!(text(&samples::unchanged(), &TerminalOptions::default()), @"
    models / prod at 3f2a91c against live

    No changes: 2 objects of 2 models are in the desired state.
    ");
    insta::assert_snapshot!(text(&samples::unchanged(), &TerminalOptions { verbose: true, ..TerminalOptions::default() }), @"
    models / prod at 3f2a91c against live

    a  models/a/model.yaml
      = keep DynamoGraphDeployment prod/a

    b  models/b/model.yaml
      = keep DynamoGraphDeployment prod/b

    No changes: 2 objects of 2 models are in the desired state.
    ");
}

#[test]
fn colour_marks_actions() {
    let colored = text(&samples::plan(), &TerminalOptions { color: true, ..TerminalOptions::default() });
    assert!(colored.contains("\u{1b}[33m~\u{1b}[0m update"), "{colored:?}");
    assert!(colored.contains("\u{1b}[31m-\u{1b}[0m delete"), "{colored:?}");
}

#[test]
fn the_json_is_the_contract() {
    let shown: serde_json::Value = serde_json::from_str(&json(&samples::plan()).unwrap()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&shown["changes"][0]).unwrap(), @r#"
    {
      "action": "update",
      "cost": {
        "afterHour": 56.0,
        "beforeHour": 42.0,
        "currency": "$",
        "deltaHour": 14.0,
        "deltaMonth": 10220.0,
        "unpriced": []
      },
      "disruption": "managed-roll",
      "fields": [
        {
          "new": "vllm-runtime:1.1.1",
          "old": "vllm-runtime:1.1.0",
          "owner": "stator",
          "path": "spec.components[name=decode].image"
        },
        {
          "new": 3,
          "old": 2,
          "owner": "kubectl-edit",
          "path": "spec.components[name=decode].replicas"
        }
      ],
      "gpuRange": {
        "max": 32,
        "min": 8
      },
      "gpuSku": "h200_sxm",
      "gpus": {
        "after": 16,
        "before": 12,
        "peak": 22
      },
      "gpusBySku": {
        "h200_sxm": {
          "after": 16,
          "before": 12,
          "peak": 22
        }
      },
      "model": "llama-3-70b",
      "object": {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "name": "llama-3-70b",
        "namespace": "prod"
      },
      "reasons": [
        "all 2 worker components roll (decode, prefill): the operator hashes them together"
      ],
      "source": "models/llama-3-70b/model.yaml"
    }
    "#);
    assert_eq!(shown["summary"]["gpus"], json!({"before": 21, "after": 17, "peak": 31}));
}

#[test]
fn a_page_stands_alone() {
    let page = html(&samples::plan());
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="), "{page}");
    assert!(page.contains("<td class=\"delete\">- delete</td><td>old</td>"), "{page}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn terminal_text_has_no_controls(plan in hostile_plan()) {
        for verbose in [false, true] {
            let look = TerminalOptions { verbose, ..TerminalOptions::default() };
            for shown in [text(&plan, &look), crate::present::diff::unified(&plan, &look)] {
                prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'));
            }
        }
    }

    #[test]
    fn a_page_has_no_markup_of_others(plan in hostile_plan()) {
        let page = html(&plan);
        prop_assert!(!page.contains("<script"));
        prop_assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    }
}

/// Of arguments, which are many, those that differ are shown, with the flag before each.
#[test]
fn a_long_list_shows_what_differs_in_it() {
    let mut plan = samples::plan();
    let field = &mut plan.changes[0].fields[0];
    let flags = [
        "--model",
        "meta-llama/Llama-3.3-70B-Instruct",
        "--served-model-name",
        "llama-3-70b",
        "--tensor-parallel-size",
    ];
    let old = flags.iter().copied().chain(["1", "--max-model-len", "16384"]);
    let new = flags.iter().copied().chain(["2", "--max-model-len", "16384", "--enable-prefix-caching"]);
    (field.old, field.new) = (old.collect(), new.collect());
    let shown = text(&plan, &TerminalOptions::default());
    let lines: Vec<&str> = shown.lines().skip(4).take(8).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ~ spec.components[name=decode].image      [8 items] → [9 items]
          --tensor-parallel-size
        - "1"
        + "2"
          "16384"
        + --enable-prefix-caching
    ~ spec.components[name=decode].replicas   2 → 3   (owned by kubectl-edit)
    · all 2 worker components roll (decode, prefill): the operator hashes them together
    "#);
}
