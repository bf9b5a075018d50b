//! One field changes, and nothing else does.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const TEXT: &str = "\
# Whose it is: the assistant team.
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: llama, labels: {team: assistant}}
spec:
  model: \"meta/llama\"   # as the hub has it
  engine: vllm

  # Two of them, since March.
  serving:
    decode:
      replicas: 2 # never one
      args:
        # For the long ones.
        - --max-model-len
        - \"8192\"
        - --seed=1
      future: {field: 1}
    prefill: {replicas: 1, gpus: 4}
  env:
    TEXT: |
      several
      lines
  # The end.
";

fn path(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

fn set(at: &str, value: Value) -> DocumentEdit {
    DocumentEdit::Set { path: path(at), value }
}

fn remove(at: &str) -> DocumentEdit {
    DocumentEdit::Remove { path: path(at) }
}

/// What a change changes, as a diff without context.
#[track_caller]
fn diff_of(edits: &[DocumentEdit]) -> String {
    let edited = edit_document(TEXT, edits).unwrap();
    let diff = similar::TextDiff::from_lines(TEXT, &edited).unified_diff().context_radius(0).to_string();
    diff.lines().filter(|line| !line.starts_with("@@")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_value_is_replaced_where_it_stands() {
    insta::assert_snapshot!(diff_of(&[set("spec.serving.decode.replicas", json!(4))]), @"
    -      replicas: 2 # never one
    +      replicas: 4 # never one
    ");
    insta::assert_snapshot!(diff_of(&[set("spec.model", json!("Qwen/Qwen3-0.6B"))]), @r#"
    -  model: "meta/llama"   # as the hub has it
    +  model: Qwen/Qwen3-0.6B   # as the hub has it
    "#);
    insta::assert_snapshot!(diff_of(&[set("metadata.name", json!("true"))]), @r#"
    -metadata: {name: llama, labels: {team: assistant}}
    +metadata: {name: "true", labels: {team: assistant}}
    "#);
    insta::assert_snapshot!(diff_of(&[set("spec.env.TEXT", json!("one: line"))]), @r#"
    -    TEXT: |
    -      several
    -      lines
    +    TEXT: "one: line"
    "#);
    insta::assert_snapshot!(diff_of(&[set("spec.serving.prefill.gpus", json!(8))]), @"
    -    prefill: {replicas: 1, gpus: 4}
    +    prefill: {replicas: 1, gpus: 8}
    ");
}

#[test]
fn a_field_that_is_new_stands_where_it_belongs() {
    insta::assert_snapshot!(diff_of(&[set("spec.serving.decode.gpus", json!(8))]), @"
    +      gpus: 8
    ");
    insta::assert_snapshot!(diff_of(&[set("spec.hardware.gpu", json!("h200_sxm"))]), @"
    +  hardware:
    +    gpu: h200_sxm
    ");
    insta::assert_snapshot!(diff_of(&[set("spec.serving.prefill.nodes", json!(2))]), @"
    -    prefill: {replicas: 1, gpus: 4}
    +    prefill: {replicas: 1, gpus: 4, nodes: 2}
    ");
    let edited =
        edit_document(TEXT, &[set("spec.hardware.gpu", json!("l4")), set("spec.runtime", json!("1.2.0"))]).unwrap();
    assert!(edited.contains("  engine: vllm\n  runtime: 1.2.0\n  hardware:\n    gpu: l4\n"), "{edited}");
}

#[test]
fn a_field_goes_alone() {
    insta::assert_snapshot!(diff_of(&[remove("spec.serving.decode.replicas")]), @"
    -      replicas: 2 # never one
    ");
    insta::assert_snapshot!(diff_of(&[remove("spec.serving.prefill.gpus")]), @"
    -    prefill: {replicas: 1, gpus: 4}
    +    prefill: {replicas: 1}
    ");
    insta::assert_snapshot!(diff_of(&[remove("spec.serving.prefill.replicas")]), @"
    -    prefill: {replicas: 1, gpus: 4}
    +    prefill: {gpus: 4}
    ");
    insta::assert_snapshot!(diff_of(&[remove("metadata.labels.team")]), @"
    -metadata: {name: llama, labels: {team: assistant}}
    +metadata: {name: llama, labels: {}}
    ");
    insta::assert_snapshot!(diff_of(&[remove("spec.env.TEXT")]), @"
    -  env:
    -    TEXT: |
    -      several
    -      lines
    +  env: {}
    ");
    assert_eq!(diff_of(&[remove("spec.nothing.there")]), "");
}

#[test]
fn a_list_keeps_the_items_that_stay() {
    insta::assert_snapshot!(diff_of(&[set("spec.serving.decode.args", json!(["--max-model-len", "4096", "--seed=1"]))]), @r#"
    -        - "8192"
    +        - "4096"
    "#);
    insta::assert_snapshot!(diff_of(&[set("spec.serving.decode.args", json!(["--max-model-len", "8192", "--seed=1", "--x"]))]), @"
    +        - --x
    ");
    insta::assert_snapshot!(diff_of(&[set("spec.serving.decode.args", json!(["--seed=1"]))]), @r#"
    -        - --max-model-len
    -        - "8192"
    "#);
}

#[test]
fn a_renamed_field_keeps_what_stands_in_it() {
    let rename = DocumentEdit::Rename { path: path("spec.serving.decode"), to: "worker".to_owned() };
    insta::assert_snapshot!(diff_of(&[remove("spec.serving.prefill"), rename.clone()]), @"
    -    decode:
    +    worker:
    -    prefill: {replicas: 1, gpus: 4}
    ");
    let taken = DocumentEdit::Rename { path: path("spec.serving.decode"), to: "prefill".to_owned() };
    insta::assert_snapshot!(edit_document(TEXT, &[taken]).unwrap_err(), @"`spec.serving.prefill` already exists; remove one of the two in the YAML");
}

#[test]
fn what_cannot_be_edited_says_so() {
    let within = edit_document(TEXT, &[set("spec.engine.name", json!(1))]).unwrap_err();
    insta::assert_snapshot!(within, @"`spec.engine` is not a map, so no field can be set in it; correct it in the YAML");
    assert!(matches!(edit_document("a: [", &[set("a", json!(1))]), Err(EditError::Format(FormatError::Syntax { .. }))));
    assert!(edit_document("", &[set("a", json!(1))]).is_err());
}

#[test]
fn a_skeleton_grows_to_a_document() {
    let skeleton = "kind: Model\nmetadata:\nspec: {}\n";
    let edits = [
        set("metadata.name", json!("a")),
        set("spec.serving.worker.replicas", json!(2)),
        set("spec.engine", json!("vllm")),
    ];
    insta::assert_snapshot!(edit_document(skeleton, &edits).unwrap(), @"
    kind: Model
    metadata:
      name: a
    spec:
      engine: vllm
      serving:
        worker:
          replicas: 2
    ");
    let windows = "kind: Model\r\nspec:\r\n  engine: vllm\r\n";
    assert_eq!(
        edit_document(windows, &[set("spec.runtime", json!("1.2.0")), set("spec.engine", json!("auto"))]).unwrap(),
        "kind: Model\r\nspec:\r\n  engine: auto\r\n  runtime: 1.2.0\r\n"
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        any::<u32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        "[ -~äß\u{7f}]{0,12}".prop_map(Value::from),
        "(true|~|null|1e3|0x1|- a|a: b|# c|---|yes|\\*a|&a|!a|%a|@a|a:)".prop_map(Value::from),
    ];
    scalar.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

const PATHS: [&str; 12] = [
    "metadata.name",
    "metadata.labels.team",
    "spec.model",
    "spec.engine",
    "spec.runtime",
    "spec.hardware.gpu",
    "spec.serving.decode.replicas",
    "spec.serving.decode.args",
    "spec.serving.prefill.gpus",
    "spec.serving.worker.replicas",
    "spec.env.TEXT",
    "spec.serving.decode.future.field",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever fields are set and removed, the text says just that (`edit_document` refuses all else), and no comment that
    /// stands outside of what goes is lost.
    #[test]
    fn fields_are_set_and_removed_alone(
        edits in prop::collection::vec((prop::sample::select(PATHS.to_vec()), prop::option::of(any_value())), 1..6)
    ) {
        let mut text = TEXT.to_owned();
        for (at, value) in edits {
            let edit = match value {
                Some(value) => set(at, value),
                None => remove(at),
            };
            match edit_document(&text, std::slice::from_ref(&edit)) {
                Ok(edited) => text = edited,
                Err(EditError::NotAMap { .. }) => {}
                Err(error) => prop_assert!(false, "{edit:?}: {error}\n{text}"),
            }
        }
        for comment in ["# Whose it is", "# Two of them", "# The end."] {
            prop_assert!(text.contains(comment), "{comment} is lost:\n{text}");
        }
    }
}

#[test]
fn a_field_in_an_item_of_a_list_is_changed_alone() {
    let text = "\
spec:
  overrides:
    # Why.
    - target: {kind: DynamoGraphDeployment}
      merge:
        spec:
          components:
            - name: worker # the one
              experimental: {checkpoint: {mode: Auto}}
              old: 1
            - name: other
";
    let at = |rest: &str| path(&format!("spec.overrides.0.merge.spec.components.{rest}"));
    let edits = [
        DocumentEdit::Set { path: at("0.experimental.checkpoint.enabled"), value: json!(true) },
        DocumentEdit::Set { path: at("1.replicas"), value: json!(2) },
        DocumentEdit::Remove { path: at("0.old") },
        DocumentEdit::Remove { path: at("7.old") },
    ];
    insta::assert_snapshot!(edit_document(text, &edits).unwrap(), @"
    spec:
      overrides:
        # Why.
        - target: {kind: DynamoGraphDeployment}
          merge:
            spec:
              components:
                - name: worker # the one
                  experimental: {checkpoint: {mode: Auto, enabled: true}}
                - name: other
                  replicas: 2
    ");
    let missing = DocumentEdit::Set { path: at("7.replicas"), value: json!(2) };
    assert!(matches!(edit_document(text, &[missing]), Err(EditError::NotAMap { .. })));
}
