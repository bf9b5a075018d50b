use super::*;
use crate::finding::{Finding, Location};
use crate::object::FieldPath;
use crate::plan::{FieldChange, Hold, HoldKind};
use crate::present::{Look, samples};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn a_person_reads_what_changes_what_it_costs_and_what_holds_it_back() {
    insta::assert_snapshot!(text(&samples::plan(), &Look::default()), @r#"
    models / prod at 3f2a91c against live

    llama-3-70b  models/llama-3-70b/model.yaml
      ~ update DynamoGraphDeployment prod/llama-3-70b   managed-roll   GPUs +4 h200_sxm (12 → 16, peak 22), scaled from 8 to 32   +$14.00/h
          ~ spec.components[name=decode].image      vllm-runtime:1.1.0 → vllm-runtime:1.1.1
          ~ spec.components[name=decode].replicas   2 → 3   (owned by kubectl-edit)
          · all 2 worker components roll: the operator hashes them together

    qwen3-8b  models/qwen3-8b/model.yaml
      + create DynamoModel prod/qwen3-8b-sql-assist-v4   adapter-only

    old  models/old/model.yaml
      - delete DynamoGraphDeployment prod/old   GPUs -8 h100_sxm (8 → 0)

    held back[mass-delete]: 1 of 4 objects would be deleted, 0 are let through
      = help: pass `--allow mass-delete` once you are sure

    warning[plan/capacity]: peak needs 22 H200, 20 are allowed
      --> models/llama-3-70b/model.yaml:9:5
      = help: set rollout {maxSurge: 0, maxUnavailable: 1}

    Plan: 1 to create, 1 to change, 1 to delete, 1 unchanged.
    GPUs: -8 h100_sxm (8 → 0), +4 h200_sxm (12 → 16, peak 22), 1 of unknown SKU
    Cost: ≈ +$10,220/mo ($42.00/h → $56.00/h; no price for l40s)
    "#);
}

#[test]
fn unchanged_objects_are_only_counted_unless_asked_for() {
    insta::assert_snapshot!(text(&samples::unchanged(), &Look::default()), @"
    models / prod at 3f2a91c against live

    No changes: 2 objects of 2 models are as declared.
    ");
    insta::assert_snapshot!(text(&samples::unchanged(), &Look { verbose: true, ..Look::default() }), @"
    models / prod at 3f2a91c against live

    a  models/a/model.yaml
      = keep DynamoGraphDeployment prod/a

    b  models/b/model.yaml
      = keep DynamoGraphDeployment prod/b

    No changes: 2 objects of 2 models are as declared.
    ");
}

#[test]
fn colour_marks_actions() {
    let colored = text(&samples::plan(), &Look { color: true, ..Look::default() });
    assert!(colored.contains("\u{1b}[33m~\u{1b}[0m update"), "{colored:?}");
    assert!(colored.contains("\u{1b}[31m-\u{1b}[0m delete"), "{colored:?}");
}

#[test]
fn a_comment_on_a_pull_request() {
    insta::assert_snapshot!(markdown(&samples::plan()), @r#"
    ### stator · prod · 3 of 4 models change · 1 warning
    **-8 h100\_sxm (8 → 0), +4 h200\_sxm (12 → 16, peak 22), 1 of unknown SKU · ≈ +\$10,220/mo (\$42.00/h → \$56.00/h; no price for l40s) · disruption: delete**

    > [!CAUTION]
    > **Held back: mass-delete.** 1 of 4 objects would be deleted, 0 are let through
    > pass \`--allow mass-delete\` once you are sure

    | | Model | What changes | GPUs | Peak | Disruption |
    |--|--|--|--:|--:|--|
    | `-` | old | delete `DynamoGraphDeployment old` | -8 h100\_sxm | 8 | delete |
    | `~` | llama-3-70b | update `DynamoGraphDeployment llama-3-70b`<br>`spec.components[name=decode].image: vllm-runtime:1.1.0 → vllm-runtime:1.1.1`<br>`spec.components[name=decode].replicas: 2 → 3`<br>all 2 worker components roll: the operator hashes them together | +4 h200\_sxm<br>scaled 8–32<br>+\$14.00/h | 22 | managed-roll |
    | `+` | qwen3-8b | create `DynamoModel qwen3-8b-sql-assist-v4` | – | – | adapter-only |

    > [!WARNING]
    > **plan/capacity** `models/llama-3-70b/model.yaml:9:5` — peak needs 22 H200, 20 are allowed
    > Fix: set rollout \{maxSurge: 0, maxUnavailable: 1\}

    <details><summary>- DynamoGraphDeployment prod/old</summary>

    ```diff
    @@ -1 +0,0 @@
    -spec: {}
    ```

    </details>

    <details><summary>~ DynamoGraphDeployment prod/llama-3-70b — 2 fields</summary>

    ```diff
    @@ -1,4 +1,4 @@
     spec:
       components:
       - name: decode
    -    replicas: 2
    +    replicas: 3
    ```

    </details>

    <details><summary>+ DynamoModel prod/qwen3-8b-sql-assist-v4</summary>

    ```diff
    @@ -0,0 +1,2 @@
    +spec:
    +  baseModelName: Qwen/Qwen3-8B
    ```

    </details>

    <sub>3f2a91c against live · digest 9b1e44aa0011 · <code>stator plan -e prod</code></sub>
    "#);
}

#[test]
fn a_comment_without_changes_is_short() {
    insta::assert_snapshot!(markdown(&samples::unchanged()), @"
    ### stator · prod · no changes

    <sub>3f2a91c against live · digest 9b1e44aa0011 · <code>stator plan -e prod</code></sub>
    ");
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
        "all 2 worker components roll: the operator hashes them together"
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

/// A plan of many updates with long diffs, some deletions, and a warning.
fn crowd(updates: usize, deletions: usize) -> Plan {
    let mut changes: Vec<Change> = (0..updates)
        .map(|number| {
            let mut change =
                samples::change(&format!("model-{number:05}"), "DynamoGraphDeployment", "g", Action::Update);
            change.before = Some(json!({"lines": (0..40).map(|line| format!("old {line}")).collect::<Vec<_>>()}));
            change.after = Some(json!({"lines": (0..40).map(|line| format!("new {line}")).collect::<Vec<_>>()}));
            change
        })
        .collect();
    changes.extend((0..deletions).map(|number| {
        samples::change(
            &format!("gone-{number:05}"),
            "DynamoGraphDeployment",
            &format!("gone-{number:05}"),
            Action::Delete,
        )
    }));
    let mut plan = samples::of(changes);
    plan.findings = samples::plan().findings;
    plan
}

#[test]
fn a_long_plan_becomes_shorter_but_keeps_deletions_and_warnings() {
    for (updates, deletions) in [(3, 1), (60, 3), (600, 10), (10_000, 100)] {
        let comment = markdown(&crowd(updates, deletions));
        assert!(comment.chars().count() <= LIMIT);
        assert_eq!(comment.matches("| delete `DynamoGraphDeployment gone-").count(), deletions, "{updates} updates");
        assert!(comment.contains("plan/capacity"));
    }
    let crowded = markdown(&crowd(10_000, 100));
    assert!(crowded.contains("9950 more that replace or delete nothing."), "{}", &crowded[crowded.len() - 500..]);
}

#[test]
fn more_deletions_than_fit_are_counted() {
    let comment = markdown(&crowd(0, 10_000));
    assert!(comment.chars().count() <= LIMIT);
    assert!(comment.contains("lines more did not fit into a comment"), "{}", &comment[comment.len() - 300..]);
}

/// The lines of Markdown that are in no fence, where markup counts.
fn outside_fences(text: &str) -> String {
    let mut open: Option<usize> = None;
    let mut out = String::new();
    for line in text.lines() {
        let ticks = line.chars().take_while(|c| *c == '`').count();
        let bare = line.trim_start_matches('`');
        match open {
            Some(length) if ticks >= length && bare.is_empty() => open = None,
            None if ticks >= 3 && !bare.contains('`') => open = Some(ticks),
            Some(_) => {}
            None => out.push_str(&without_code_spans(line)),
        }
    }
    out
}

/// A line without its code spans: a run of backticks up to the next run of the same length, as CommonMark reads it.
fn without_code_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, run) = rest.split_at(start);
        out.push_str(before);
        let length = run.chars().take_while(|c| *c == '`').count();
        let escaped = before.ends_with('\\');
        let after = &run[length..];
        let close = (0..after.len()).find(|at| {
            after.is_char_boundary(*at)
                && !after[..*at].ends_with('`')
                && after[*at..].chars().take_while(|c| *c == '`').count() == length
        });
        rest = match close {
            Some(at) if !escaped => &after[at + length..],
            Some(_) | None => after,
        };
    }
    out + rest + "\n"
}

/// Every fence that opens is closed by a line of its own length, as CommonMark reads it.
fn fences_balance(text: &str) -> bool {
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let ticks = line.trim_start_matches(' ').chars().take_while(|c| *c == '`').count();
        let rest = line.trim_start_matches(' ').trim_start_matches('`');
        match open {
            Some(length) if indent < 4 && ticks >= length && rest.trim().is_empty() => open = None,
            None if indent < 4 && ticks >= 3 && !rest.contains('`') => open = Some(ticks),
            Some(_) | None => {}
        }
    }
    open.is_none()
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[`\n|<>@ ]{0,40}",
        Just("\n```\n</details><script>".to_owned()),
        Just("````\n\u{1b}[2J\r\n".to_owned()),
        (1usize..20_000).prop_map(|length| "`x@\n".repeat(length / 4)),
    ]
}

fn hostile_plan() -> impl Strategy<Value = Plan> {
    let texts = proptest::collection::vec(hostile(), 10);
    let action = prop_oneof![Just(Action::Update), Just(Action::Delete), Just(Action::Create), Just(Action::Blocked)];
    (texts, action, 1usize..6).prop_map(|(texts, action, copies)| {
        let mut change = samples::change(&texts[0], &texts[1], &texts[2], action);
        change.source = texts[3].clone();
        change.reasons = vec![texts[4].clone()];
        change.fields = vec![FieldChange {
            path: FieldPath::of([texts[5].clone()]),
            old: json!(texts[6]),
            new: json!({texts[7].clone(): texts[8].clone()}),
            owner: texts[9].clone(),
        }];
        change.gpu_sku = Some(texts[1].clone());
        change.before = Some(json!({"a": texts[6], texts[5].clone(): 1}));
        change.after = Some(json!({"a": texts[8]}));
        let mut plan = samples::of(vec![change; copies]);
        plan.environment = texts[2].clone();
        plan.repository = texts[1].clone();
        plan.base = texts[3].clone();
        plan.revision = texts[4].clone();
        plan.holds.push(Hold {
            kind: HoldKind::Replace,
            message: texts[0].clone(),
            help: texts[9].clone(),
            allowed: false,
        });
        plan.findings = vec![Finding::error(
            samples::CAPACITY,
            Location::file(texts[3].clone()),
            texts[7].clone(),
            texts[8].clone(),
        )];
        plan
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_comment_fits_and_its_fences_balance(plan in hostile_plan()) {
        let comment = markdown(&plan);
        prop_assert!(comment.chars().count() <= LIMIT);
        prop_assert!(fences_balance(&comment), "{comment}");
        let comment = outside_fences(&comment);
        prop_assert!(!comment.contains("<script"));
        prop_assert_eq!(comment.matches("</details>").count(), comment.matches("<details>").count());
    }

    #[test]
    fn terminal_text_has_no_controls(plan in hostile_plan()) {
        for verbose in [false, true] {
            let look = Look { verbose, ..Look::default() };
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
