//! What a person reads on a pull request, and that no plan breaks out of it.

use super::*;
use crate::plan::{Action, Change};
use crate::present::samples::{self, hostile, hostile_plan};
use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::json;
use stator_core::finding::{Finding, Location};

fn preview<'a>(plan: &'a Plan) -> PreviewComment<'a> {
    PreviewComment {
        scope: "gpu-west/default/models/prod",
        environment: &plan.environment,
        head: &plan.revision,
        content: PreviewContent::Plan(plan),
        models: Some(14),
        notes: &[],
        link: None,
    }
}

#[test]
fn a_comment_on_a_pull_request() {
    insta::assert_snapshot!(render_comment(&preview(&samples::plan()), CommentLimits::default()), @r"
    <!-- stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=9c16f10a3c1b -->
    ### stator · prod · 3 of 14 models change · 1 warning
    **8 → 0 h100\_sxm (-8), 12 → 16 h200\_sxm (+4, peak 22), 1 of unknown SKU · ≈ +\$&#8203;10,220/mo (\$&#8203;42.00/h → \$&#8203;56.00/h; no price for l40s) · disruption: delete**

    > [!CAUTION]
    > **Held back: mass-delete.** 1 of 4 objects would be deleted, 0 are let through
    > pass \`--allow mass-delete\` once you are sure

    | | Model | What changes | GPUs | Peak | Disruption |
    |--|--|--|--:|--:|--|
    | `-` | old | delete `DynamoGraphDeployment old` | -8 h100\_sxm | 8 | delete |
    | `~` | llama-3-70b | update `DynamoGraphDeployment llama-3-70b`<br>`spec.components[name=decode].image: vllm-runtime:1.1.0 → vllm-runtime:1.1.1`<br>`spec.components[name=decode].replicas: 2 → 3`<br>all 2 worker components roll (decode, prefill): the operator hashes them together | +4 h200\_sxm<br>scaled 8–32<br>+\$&#8203;14.00/h | 22 | managed-roll |
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

    <sub>`3f2a91c` · `against live` · `stator plan -e prod`</sub>
    ");
}

#[test]
fn a_host_without_html_reads_the_same_in_plain_markdown() {
    insta::assert_snapshot!(render_comment(&preview(&samples::plan()), CommentLimits { html: false, ..CommentLimits::default() }), @"
    [//]: # (stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=c0a182f1f0f5)

    ### stator · `prod` · 3 of 14 models change · 1 warning
    **`8 → 0 h100_sxm (-8), 12 → 16 h200_sxm (+4, peak 22), 1 of unknown SKU` · `≈ +$10,220/mo ($42.00/h → $56.00/h; no price for l40s)` · disruption: delete**

    > **Held back: mass-delete.** `1 of 4 objects would be deleted, 0 are let through`
    > ``pass `--allow mass-delete` once you are sure``

    | | Model | What changes | GPUs | Peak | Disruption |
    |--|--|--|--:|--:|--|
    | `-` | `old` | delete `DynamoGraphDeployment old` | -8 `h100_sxm` | 8 | delete |
    | `~` | `llama-3-70b` | update `DynamoGraphDeployment llama-3-70b`; `spec.components[name=decode].image: vllm-runtime:1.1.0 → vllm-runtime:1.1.1`; `spec.components[name=decode].replicas: 2 → 3`; `all 2 worker components roll (decode, prefill): the operator hashes them together` | +4 `h200_sxm`; scaled 8–32; `+$14.00/h` | 22 | managed-roll |
    | `+` | `qwen3-8b` | create `DynamoModel qwen3-8b-sql-assist-v4` | – | – | adapter-only |

    > **warning: plan/capacity** `models/llama-3-70b/model.yaml:9:5` — `peak needs 22 H200, 20 are allowed`
    > Fix: `set rollout {maxSurge: 0, maxUnavailable: 1}`

    `- DynamoGraphDeployment prod/old`

    ```diff
    @@ -1 +0,0 @@
    -spec: {}
    ```

    `~ DynamoGraphDeployment prod/llama-3-70b — 2 fields`

    ```diff
    @@ -1,4 +1,4 @@
     spec:
       components:
       - name: decode
    -    replicas: 2
    +    replicas: 3
    ```

    `+ DynamoModel prod/qwen3-8b-sql-assist-v4`

    ```diff
    @@ -0,0 +1,2 @@
    +spec:
    +  baseModelName: Qwen/Qwen3-8B
    ```

    `3f2a91c` · `against live` · `stator plan -e prod`
    ");
}

#[test]
fn a_comment_without_changes_is_short() {
    insta::assert_snapshot!(ci_comment(&samples::unchanged()), @r#"
    <!-- stator:preview v1 scope=ci/models/prod head=3f2a91c0000000000000000000000000000000ab digest=9e4635ee61e8 -->
    ### stator · prod · no changes

    <sub>`3f2a91c` · `against live` · `stator plan -e prod`</sub>
    "#);
}

#[test]
fn models_with_errors_are_named_with_their_lines() {
    let mut plan = samples::unchanged();
    plan.base = "71be0aa000000000000000000000000000000000".into();
    for (file, line) in [("a/model.yaml", 3), ("a/model.prod.yaml", 7), ("b/model.yaml", 1), ("stator.yaml", 2)] {
        let location = Location { file: file.into(), line, column: 5, length: 1 };
        plan.findings.push(Finding::error(samples::CAPACITY, location, "`vlm` is no engine", "Write `vllm`."));
    }
    insta::assert_snapshot!(ci_comment(&plan), @r#"
    <!-- stator:preview v1 scope=ci/models/prod head=3f2a91c0000000000000000000000000000000ab digest=54cbf3825490 -->
    ### stator · prod · no changes · 2 models with errors · 1 error

    > [!CAUTION]
    > **plan/capacity** `a/model.yaml:3:5` — \`vlm\` is no engine
    > Fix: Write \`vllm\`.

    > [!CAUTION]
    > **plan/capacity** `a/model.prod.yaml:7:5` — \`vlm\` is no engine
    > Fix: Write \`vllm\`.

    > [!CAUTION]
    > **plan/capacity** `b/model.yaml:1:5` — \`vlm\` is no engine
    > Fix: Write \`vllm\`.

    > [!CAUTION]
    > **plan/capacity** `stator.yaml:2:5` — \`vlm\` is no engine
    > Fix: Write \`vllm\`.

    <sub>`3f2a91c` · `against 71be0aa` · `stator plan -e prod --from 71be0aa --to 3f2a91c`</sub>
    "#);
}

#[test]
fn what_is_not_planned_is_said_in_a_sentence() {
    let plan = samples::unchanged();
    let mut described = String::new();
    for shown in [
        PreviewContent::Failed {
            reason: "the environment `prod` is not in stator.yaml",
            help: "name it under `spec.environments`",
        },
        PreviewContent::Merged,
        PreviewContent::Closed,
        PreviewContent::Superseded,
    ] {
        let preview = PreviewComment { content: shown, ..preview(&plan) };
        described += &render_comment(&preview, CommentLimits::default());
        described += "--\n";
    }
    insta::assert_snapshot!(described, @r#"
    <!-- stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=272cf58e9416 -->
    ### stator · prod · could not be planned

    > [!CAUTION]
    > the environment \`prod\` is not in stator.yaml
    > Next: name it under \`spec.environments\`

    <sub>`3f2a91c`</sub>
    --
    <!-- stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=12383666194c -->
    ### stator · prod · merged

    This preview has ended. The commit statuses of the base branch show the result.

    <sub>`3f2a91c`</sub>
    --
    <!-- stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=5e70a5e3e8aa -->
    ### stator · prod · closed without merging

    This preview has ended; nothing was synced.

    <sub>`3f2a91c`</sub>
    --
    <!-- stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=6c4a33bf9ff5 -->
    ### stator · prod · moved

    This is a duplicate. An older comment on this page is kept up to date.
    --
    "#);
}

#[test]
fn notes_and_a_link_stand_where_they_are_looked_for() {
    let notes = ["`stator.yaml` is changed here: its policy is judged by the base branch's".to_owned()];
    let plan = samples::unchanged();
    let preview = PreviewComment { notes: &notes, link: Some("https://stator.example.com/plans/7"), ..preview(&plan) };
    insta::assert_snapshot!(render_comment(&preview, CommentLimits::default()), @r#"
    <!-- stator:preview v1 scope=gpu-west/default/models/prod head=3f2a91c0000000000000000000000000000000ab digest=e090918db495 -->
    ### stator · prod · no changes

    > [!NOTE]
    > \`stator.yaml\` is changed here: its policy is judged by the base branch's

    <sub>`3f2a91c` · `against live` · `stator plan -e prod` · <a href="https://stator.example.com/plans/7">show all</a></sub>
    "#);
}

#[test]
fn a_secret_that_somebody_wrote_out_is_hidden() {
    let mut plan = samples::unchanged();
    let location = Location::file("a/model.yaml");
    let message = "`--api-key=canary-1` is no argument, nor is https://u:canary-2@example.com";
    plan.findings.push(Finding::error(samples::CAPACITY, location, message, "Drop `HF_TOKEN=canary-3`."));
    for html in [true, false] {
        assert!(
            !render_comment(&preview(&plan), CommentLimits { html, ..CommentLimits::default() }).contains("canary")
        );
    }
}

#[test]
fn a_marker_is_read_back_and_nothing_ends_it_early() {
    let plan = samples::unchanged();
    for html in [true, false] {
        let scope = CommentMarker::scope(["gpu west -->", "default", "models)", "prod\n"]);
        let preview = PreviewComment { scope: &scope, head: "3f2a91c", ..preview(&plan) };
        let text = render_comment(&preview, CommentLimits { html, ..CommentLimits::default() });
        let marker = CommentMarker::parse(&text).unwrap();
        assert_eq!((marker.scope.as_str(), marker.head.as_str()), ("gpu-west-/default/models-/prod-", "3f2a91c"));
        assert_eq!(marker.digest.len(), DIGEST_LENGTH);
        assert_eq!(CommentMarker::parse(&format!("> {text}")), None, "quoted by somebody");
    }
}

/// A plan of many updates with long diffs, some deletions, and a warning.
fn crowd(updates: usize, deletions: usize) -> Plan {
    let mut changes: Vec<Change> = (0..updates)
        .map(|number| {
            let mut change =
                samples::change(&format!("model-{number:05}"), "DynamoGraphDeployment", "g", Action::Update);
            change.before =
                Some(json!({"lines": (0..40).map(|line| format!("old {line}")).collect::<Vec<_>>()}).into());
            change.after = Some(json!({"lines": (0..40).map(|line| format!("new {line}")).collect::<Vec<_>>()}).into());
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
        let comment = ci_comment(&crowd(updates, deletions));
        assert!(comment.len() <= CommentLimits::default().bytes);
        assert_eq!(comment.matches("| delete `DynamoGraphDeployment gone-").count(), deletions, "{updates} updates");
        assert!(comment.contains("plan/capacity"));
    }
    let crowded = ci_comment(&crowd(10_000, 100));
    assert!(
        crowded.contains("9950 more, none of which replaces or deletes anything."),
        "{}",
        &crowded[crowded.len() - 500..]
    );
}

#[test]
fn more_deletions_than_fit_are_counted() {
    let comment = ci_comment(&crowd(0, 10_000));
    assert!(comment.len() <= CommentLimits::default().bytes);
    assert!(comment.contains("lines more did not fit into a comment"), "{}", &comment[comment.len() - 300..]);
}

/// What is wrong with a comment as a reader of CommonMark and GitHub's tables sees it.
fn faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut in_code = false;
    let mut words = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match &event {
            Event::Html(html) | Event::InlineHtml(html) => tags(html, &mut open, &mut faults),
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => faults.push(format!("a link: {event:?}")),
            Event::Start(Tag::Heading { level, .. }) if *level as usize != 3 => faults.push(format!("{event:?}")),
            Event::Start(Tag::CodeBlock(kind)) => {
                in_code = true;
                if *kind != CodeBlockKind::Fenced("diff".into()) {
                    faults.push(format!("not our block: {event:?}"));
                }
            }
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(text) if !in_code => words.push_str(text),
            Event::Start(_)
            | Event::End(_)
            | Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_) => words.push('\n'),
        }
    }
    if !open.is_empty() {
        faults.push(format!("left open: {open:?}"));
    }
    for sign in ['@', '#'] {
        let active = |part: &str| part.starts_with(|next: char| next.is_alphanumeric());
        if words.split(sign).skip(1).any(active) {
            faults.push(format!("a mention or a reference by `{sign}` in {words:?}"));
        }
    }
    if words.contains("://") || words.contains("www.") {
        faults.push(format!("an address in {words:?}"));
    }
    faults
}

/// Follows the tags of a piece of HTML; only our own may be there.
fn tags(html: &str, open: &mut Vec<String>, faults: &mut Vec<String>) {
    if html.trim_start().starts_with("<!-- stator:preview v1 scope=") && html.trim_end().ends_with("-->") {
        return;
    }
    for part in html.split('<').skip(1) {
        let tag = part.split('>').next().unwrap_or_default();
        match tag {
            "br" => {}
            "details" | "summary" | "sub" => open.push(tag.to_owned()),
            _ if tag.strip_prefix('/') == open.last().map(String::as_str) => {
                open.pop();
            }
            _ => faults.push(format!("a tag of somebody: <{tag}> in {html:?}")),
        }
    }
}

/// Where the fences of our own blocks are: each that opens is closed before the text ends.
fn fences_balance(text: &str) -> bool {
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let ticks = line.chars().take_while(|c| *c == '`').count();
        let rest = line.trim_start_matches('`');
        match open {
            Some(length) if ticks >= length && rest.trim().is_empty() => open = None,
            None if ticks >= 3 && !rest.contains('`') => open = Some(ticks),
            Some(_) | None => {}
        }
    }
    open.is_none()
}

fn budget() -> impl Strategy<Value = CommentLimits> {
    let bytes = prop_oneof![0usize..400, 400usize..8_000, Just(32_768), Just(60_000), Just(1_000_000)];
    (bytes, any::<bool>()).prop_map(|(bytes, html)| CommentLimits { bytes, html })
}

fn check(text: &str, budget: CommentLimits) -> Result<(), TestCaseError> {
    prop_assert!(text.len() <= budget.bytes, "{} bytes of {}", text.len(), budget.bytes);
    prop_assert!(text.encode_utf16().count() <= budget.bytes);
    prop_assert!(text.is_empty() || CommentMarker::parse(text).is_some(), "{text}");
    prop_assert!(fences_balance(text), "{text}");
    prop_assert_eq!(faults(text), Vec::<String>::new(), "{}", text);
    prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    prop_assert!(budget.html || !text.contains("&#8203;"), "{text}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_comment_fits_is_whole_and_holds_no_markup_of_others(plan in hostile_plan(), budget in budget(), note in hostile()) {
        let notes = [note];
        let preview = PreviewComment { notes: &notes, ..preview(&plan) };
        check(&render_comment(&preview, budget), budget)?;
    }

    #[test]
    fn words_of_others_are_harmless_in_every_comment(reason in hostile(), help in hostile(), name in hostile(), budget in budget()) {
        let plan = samples::unchanged();
        for content in [PreviewContent::Failed { reason: &reason, help: &help }, PreviewContent::Merged, PreviewContent::Closed, PreviewContent::Superseded] {
            let preview = PreviewComment { content, environment: &name, head: &help, scope: &reason, ..preview(&plan) };
            check(&render_comment(&preview, budget), budget)?;
        }
    }

    #[test]
    fn the_same_plan_has_the_same_digest_and_another_one_another(plan in hostile_plan()) {
        let digest = |plan: &Plan| CommentMarker::parse(&render_comment(&preview(plan), CommentLimits::default())).unwrap().digest;
        prop_assert_eq!(digest(&plan), digest(&plan.clone()));
        prop_assert_ne!(digest(&plan), digest(&samples::plan()));
    }
}
