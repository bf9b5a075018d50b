//! Form and text say the same, and a touched field is all that changes.

use super::*;
use crate::draft::tests::MODEL;
use crate::query_string::encode;
use proptest::prelude::*;

/// What a browser would send of a text that somebody opened, before anything is touched.
fn opened(text: &str) -> FormSubmission {
    let reading = FormReading::read(text).unwrap();
    FormSubmission {
        base: text.to_owned(),
        yaml: text.to_owned(),
        mode: Some(reading.mode),
        layout: Some(reading.layout),
        values: reading.values,
        ..FormSubmission::default()
    }
}

/// The text after these fields were touched.
fn touched(text: &str, fields: &[(&str, &str)]) -> FormDraft {
    let mut sent = opened(text);
    sent.values.extend(fields.iter().map(|(pointer, value)| ((*pointer).to_owned(), (*value).to_owned())));
    apply_submission(&sent)
}

fn diff(before: &str, draft: &FormDraft) -> String {
    assert_eq!(draft.faults, Vec::new());
    stator_model::present::patch::file_patch("m", Some(before), &draft.text)
        .lines()
        .skip(3)
        .filter(|line| line.starts_with(['+', '-']))
        .collect::<Vec<_>>()
        .join("\n")
}

const RICH: &str = "\
# ours
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: llama, labels: {team: a}}
spec:
  model: \"meta/llama\" # hub
  engine: sglang
  hardware: {gpu: h200_sxm}
  serving:
    decode: {replicas: 2, args: [--a, \"b c\"]}
    prefill:
      replicas: 1
      # for one node
      template: {spec: {hostIPC: true}}
  env:
    PLAIN: \"1\"
    HIDDEN: {secret: a, key: b}
";

#[test]
fn the_form_shows_what_the_text_says() {
    let reading = FormReading::read(RICH).unwrap();
    let shown: Vec<String> = reading
        .values
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(at, value)| format!("{at} {value:?}"))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    /metadata/labels "team=a"
    /metadata/name "llama"
    /spec/engine "sglang"
    /spec/env "PLAIN=1"
    /spec/hardware/gpu "h200_sxm"
    /spec/model "meta/llama"
    /spec/serving/decode/args "--a\nb c"
    /spec/serving/decode/replicas "2"
    /spec/serving/prefill/replicas "1"
    "#);
    insta::assert_snapshot!(reading.only_in_yaml.join("\n"), @"
    /spec/serving/prefill/template/spec/hostIPC
    /spec/env/HIDDEN
    ");
    assert_eq!((reading.mode, reading.layout), (ServingMode::Direct, ServingLayout::Disaggregated));
    assert_eq!(FormReading::read("just text"), None);
}

#[test]
fn a_touched_field_changes_alone() {
    insta::assert_snapshot!(diff(RICH, &touched(RICH, &[("/spec/serving/decode/replicas", "4")])), @r#"
        -    decode: {replicas: 2, args: [--a, "b c"]}
        +    decode: {replicas: 4, args: [--a, "b c"]}
    "#);
    insta::assert_snapshot!(diff(RICH, &touched(RICH, &[("/spec/hardware/gpu", ""), ("/spec/env", "PLAIN=2\nMORE=true")])), @r#"
        -  hardware: {gpu: h200_sxm}
        -    PLAIN: "1"
        +    PLAIN: "2"
        +    MORE: "true"
    "#);
    insta::assert_snapshot!(diff(RICH, &touched(RICH, &[("/spec/serving/prefill/scaling/max", "4"), ("/spec/serving/prefill/scaling/min", "1")])), @"
        +      scaling:
        +        min: 1
        +        max: 4
    ");
    // What is no number is written as it is, for the model's own check to refuse.
    insta::assert_snapshot!(diff(RICH, &touched(RICH, &[("/spec/serving/prefill/gpus", "many")])), @"
        +      gpus: many
    ");
    // A field of another kind of serving says nothing.
    assert_eq!(touched(RICH, &[("/spec/serving/worker/replicas", "4"), ("/spec/sla/ttft", "1s")]).text, RICH);
    let hidden = touched(RICH, &[("/spec/env", "PLAIN=1\nHIDDEN=x")]);
    assert_eq!((hidden.faults.len(), hidden.text.as_str()), (1, RICH));
    assert_eq!(touched(RICH, &[("/spec/env", "is not a variable")]).faults[0].pointer, "#/spec/env");
}

#[test]
fn another_kind_of_serving_keeps_what_workers_say() {
    let mut sent = opened(RICH);
    sent.layout = Some(ServingLayout::Aggregated);
    insta::assert_snapshot!(diff(RICH, &apply_submission(&sent)), @r#"
        -    decode: {replicas: 2, args: [--a, "b c"]}
        -    prefill:
        -      replicas: 1
        -      # for one node
        -      template: {spec: {hostIPC: true}}
        +    worker: {replicas: 2, args: [--a, "b c"]}
    "#);
    let mut sent = opened(MODEL);
    sent.layout = Some(ServingLayout::Disaggregated);
    insta::assert_snapshot!(diff(MODEL, &apply_submission(&sent)), @"
        -    worker:
        +    prefill:
        +      replicas: 1
        +    decode:
    ");
    let mut sent = opened(MODEL);
    sent.mode = Some(ServingMode::Target);
    insta::assert_snapshot!(diff(MODEL, &apply_submission(&sent)), @"
        -  serving:
        -    worker:
        -      replicas: 2
        -      scaling: {min: 1, max: 4}
        +  sla:
        +    autoApply: false
    ");
    sent.values.insert("/spec/sla/ttft".to_owned(), "300ms".to_owned());
    let target = apply_submission(&sent);
    insta::assert_snapshot!(diff(MODEL, &target), @"
        -  serving:
        -    worker:
        -      replicas: 2
        -      scaling: {min: 1, max: 4}
        +  sla:
        +    ttft: 300ms
    ");
    // Whoever comes back finds what they had, also what they typed last.
    let mut back = opened(&target.text);
    (back.mode, back.kept) = (Some(ServingMode::Direct), target.kept.clone());
    back.values.insert("/spec/sla/itl".to_owned(), "20ms".to_owned());
    let direct = apply_submission(&back);
    insta::assert_snapshot!(diff(&target.text, &direct), @"
    -  sla:
    -    ttft: 300ms
    +  serving:
    +    worker:
    +      replicas: 2
    +      scaling: {min: 1, max: 4}
    ");
    let mut again = opened(&direct.text);
    (again.mode, again.kept) = (Some(ServingMode::Target), direct.kept.clone());
    let again = apply_submission(&again);
    assert!(again.text.contains("ttft: 300ms") && again.text.contains("itl: 20ms"), "{}", again.text);
    // Without anything kept, what is needed at least.
    let mut fresh = opened(&target.text);
    fresh.mode = Some(ServingMode::Direct);
    assert!(apply_submission(&fresh).text.contains("replicas: 1"));
}

/// There and back is nothing: comments, order and style are as they were.
#[test]
fn another_kind_of_serving_and_back_changes_nothing() {
    for text in [RICH, MODEL] {
        let mut there = opened(text);
        there.mode = Some(ServingMode::Target);
        let there = apply_submission(&there);
        let mut back = opened(&there.text);
        (back.mode, back.kept) = (Some(ServingMode::Direct), there.kept.clone());
        assert_eq!(apply_submission(&back).text, text);
        // Also where the target was filled in meanwhile.
        let mut filled = opened(&there.text);
        filled.kept = there.kept.clone();
        filled.values.insert("/spec/sla/ttft".to_owned(), "1s".to_owned());
        let filled = apply_submission(&filled);
        let mut back = opened(&filled.text);
        (back.mode, back.kept) = (Some(ServingMode::Direct), filled.kept.clone());
        let back = apply_submission(&back);
        assert_eq!(back.text, text);
        let mut again = opened(&back.text);
        (again.mode, again.kept) = (Some(ServingMode::Target), back.kept.clone());
        assert!(apply_submission(&again).text.contains("ttft: 1s"));
    }
    let mut joined = opened(RICH);
    joined.layout = Some(ServingLayout::Aggregated);
    let joined = apply_submission(&joined);
    let mut back = opened(&joined.text);
    (back.layout, back.kept) = (Some(ServingLayout::Disaggregated), joined.kept.clone());
    assert_eq!(apply_submission(&back).text, RICH);
}

/// What cannot be written is said, and said to be kept in its field.
#[test]
fn what_cannot_be_written_stays_in_its_field() {
    let bad = touched(MODEL, &[("/metadata/labels", "team=a\nfoo"), ("/spec/serving/worker/replicas", "7")]);
    assert_eq!((bad.is_unwritten, bad.text.as_str(), bad.faults.len()), (true, MODEL, 1));
    let twice = touched(MODEL, &[("/metadata/labels", "team=a\nteam=b")]);
    assert_eq!(twice.faults.iter().map(|one| one.detail.as_str()).collect::<Vec<_>>(), ["`team` is there twice"]);
    let anchored = format!("{MODEL}  env: &e\n    A: b\n");
    let anchored = touched(&anchored, &[("/spec/servedName", "typed")]);
    assert!(anchored.is_unwritten && !anchored.text.contains("typed"), "{anchored:?}");
}

#[test]
fn prefill_workers_come_back_with_both_kinds() {
    let mut sent = opened(RICH);
    sent.layout = Some(ServingLayout::Aggregated);
    let joined = apply_submission(&sent);
    let mut back = opened(&joined.text);
    (back.layout, back.kept) = (Some(ServingLayout::Disaggregated), joined.kept.clone());
    assert!(apply_submission(&back).text.contains("hostIPC: true"), "{joined:?}");
    let mut target = opened(RICH);
    target.mode = Some(ServingMode::Target);
    let target = apply_submission(&target);
    let mut back = opened(&target.text);
    (back.mode, back.layout, back.kept) =
        (Some(ServingMode::Direct), Some(ServingLayout::Aggregated), target.kept.clone());
    let text = apply_submission(&back).text;
    assert!(text.contains("prefill:") && !text.contains("worker:"), "what was put back says how workers serve: {text}");
}

/// Somebody may type in the text and in a field before anything is sent.
#[test]
fn text_and_fields_are_changed_together() {
    let mut sent = opened(RICH);
    sent.yaml = RICH.replace("# ours", "# ours, and theirs").replace("engine: sglang", "engine: vllm");
    sent.values.insert("/spec/runtime".to_owned(), "1.2.0".to_owned());
    insta::assert_snapshot!(diff(RICH, &apply_submission(&sent)), @"
        -# ours
        +# ours, and theirs
        -  engine: sglang
        +  engine: vllm
        +  runtime: 1.2.0
    ");
    sent.yaml = "a: [".to_owned();
    let stuck = FormDraft { text: "a: [".to_owned(), is_unwritten: true, ..FormDraft::default() };
    assert_eq!(apply_submission(&sent), stuck);
}

#[test]
fn what_a_browser_sends_is_read() {
    let body = "base=a%0D%0Ab&yaml=x+y&mode=target&layout=odd&action=patch&%2Fspec%2Fmodel=a%26b&%2Fspec%2Fevil=1&file=+f+&seen=1";
    let sent = FormSubmission::parse(body);
    assert_eq!((sent.base.as_str(), sent.yaml.as_str(), sent.file.as_str()), ("a\nb", "x y", "f"));
    assert_eq!((sent.mode, sent.layout, sent.action), (Some(ServingMode::Target), None, FormAction::Patch));
    assert_eq!(sent.values.into_iter().collect::<Vec<_>>(), [("/spec/model".to_owned(), "a&b".to_owned())]);
}

#[test]
fn fields_are_those_of_the_model() {
    for field in FORM_FIELDS.iter().filter(|field| !field.pointer.starts_with("/spec/sla/planner/")) {
        let explained = stator_model::intent::explain::explain(&field.path().join(".")).unwrap();
        assert_eq!(field.kind == FieldKind::Choice, !explained.values.is_empty(), "{}", field.pointer);
        assert_eq!(field.kind == FieldKind::Flag, explained.type_name == "boolean", "{}", field.pointer);
        let is_number = ["integer", "number"].contains(&explained.type_name.as_str());
        assert_eq!(field.kind == FieldKind::Number, is_number, "{}: {}", field.pointer, explained.type_name);
    }
    let reading = FormReading::read(NEW_MODEL).unwrap();
    assert_eq!(reading.only_in_yaml, Vec::<String>::new());
}

/// Any text of a model: its fields, in any style, with fields and comments that no form knows.
fn any_text() -> impl Strategy<Value = String> {
    let worker = "(\\{replicas: [0-9]{1,3}, args: \\[a, \"b c\", 3\\]\\}|\\{scaling: external\\}|\n      # why\n      replicas: 2\n      tensorParallel: x # y\n      future: [1, 2]|\n      args:\n        - --a\n        # about b\n        - b=1)";
    let scalar = "(a|\"a b\"|'it''s'|1|1e3|true|0x10|\\[a\\]|\\{a: 1\\}|\"\"|\"t\\\\tb\"|>-\n      folded\n      text|\\|\n      several\n      lines)";
    let rest = "(|  hardware: \\{gpu: [a-z0-9_]{1,6}, gpusPerNode: 8\\}\n|  env:\n    A: \"1\" # one\n    B: \\{secret: s, key: k\\}\n|  # end\n|  secrets:\n    imagePull: [x, y]\n)";
    let target = "(|  sla: \\{ttft: 1s, workload: \\{isl: 4000\\}, planner: \\{min_endpoint: 1, other: x\\}\\}\n)";
    (scalar, scalar, worker, rest, target).prop_map(|(name, engine, worker, rest, target)| {
        format!("# top\nkind: Model\nmetadata:\n  name: {name}\nspec:\n  engine: {engine} \n  serving:\n    worker: {worker}\n{rest}{target}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    /// A form that was opened and sent untouched gives the text back, byte by byte, whatever the text.
    #[test]
    fn an_untouched_form_gives_the_text_back(text in any_text()) {
        let Some(reading) = FormReading::read(&text) else { return Ok(()) };
        prop_assert_eq!(&apply_submission(&opened(&text)).text, &text);
        // The same as a browser sends it.
        let pairs = reading.values.iter().map(|(at, value)| format!("{}={}", encode(at), encode(&value.replace('\n', "\r\n"))));
        let text_pairs = ["base", "yaml"].map(|name| format!("{name}={}", encode(&text.replace('\n', "\r\n"))));
        let body = pairs.chain(text_pairs).collect::<Vec<_>>().join("&");
        prop_assert_eq!(&apply_submission(&FormSubmission::parse(&body)).text, &text);
    }

    /// What is written into a field is what the field shows afterwards, and nothing else shows another value.
    #[test]
    fn a_field_shows_what_was_written(
        text in any_text(),
        at in prop::sample::select(FORM_FIELDS.iter().collect::<Vec<_>>()),
        value in "[ -~]{0,8}",
    ) {
        let Some(before) = FormReading::read(&text) else { return Ok(()) };
        prop_assume!(at.kind != FieldKind::Variables && at.kind != FieldKind::Number && at.group.applies(before.mode, before.layout));
        let draft = touched(&text, &[(&at.pointer, &value)]);
        prop_assume!(draft.faults.is_empty() && before.values.contains_key(&at.pointer));
        let after = FormReading::read(&draft.text).unwrap();
        prop_assert_eq!(after.values.get(&at.pointer).map(|shown| shown.trim()), Some(value.trim()));
        for (pointer, shown) in before.values.iter().filter(|(pointer, _)| **pointer != at.pointer) {
            prop_assert_eq!(after.values.get(pointer), Some(shown), "{}", pointer);
        }
    }
}
