//! Tokens of every known form, for tests that look for them in what stator says.

use crate::workbench::Workbench;
use serde::Deserialize;
use stator_core::mask::find_tokens;

/// The table of known forms, as far as tests need it.
#[derive(Deserialize)]
struct TokenForm {
    id: String,
    examples: Vec<Vec<String>>,
}

/// Tokens of every known form, each with what must stand before it. In the table they are in pieces.
pub fn canaries() -> Vec<String> {
    let table = include_str!("../../crates/stator-core/src/mask/token_forms.yaml");
    let forms: Vec<TokenForm> = serde_saphyr::from_str(table).unwrap();
    assert!(forms.iter().all(|form| !form.examples.is_empty() && !form.id.is_empty()));
    forms.iter().flat_map(|form| form.examples.iter().map(|pieces| pieces.concat())).collect()
}

/// The lines of the secret in a canary: a text may be printed with other characters in place of line breaks, and one of a
/// key in a variable is often the two characters `\n`.
pub fn secret_lines(canary: &str) -> Vec<&str> {
    let secrets = find_tokens(canary).into_iter().filter_map(|token| canary.get(token.range));
    let lines: Vec<&str> = secrets
        .flat_map(str::lines)
        .flat_map(|line| line.split("\\n"))
        .filter(|line| line.len() > 7 && !line.contains("-----") && !line.contains(' '))
        .collect();
    assert!(!lines.is_empty(), "{canary}");
    lines
}

/// Asserts that no canary is in what was said.
#[track_caller]
pub fn assert_no_canary(said: &str, what: &str) {
    for line in canaries().iter().flat_map(|canary| secret_lines(canary)) {
        if let Some(at) = said.find(line) {
            let around: String = said.chars().skip(said[..at].chars().count().saturating_sub(300)).take(600).collect();
            panic!("{line} is in {what}:\n{around}");
        }
    }
}

/// Makes a model of that folder hold every canary wherever a model has text, under names that say nothing: annotations,
/// variables, arguments, a mounted file and overrides. `plain` is the text of a mocker without any of these; `turn` moves
/// the canaries by so many places.
pub fn write_canaries(bench: &Workbench, folder: &str, plain: &str, turn: usize) {
    let mut all = canaries();
    all.rotate_left(turn);
    let quoted: Vec<String> = all.iter().map(|canary| serde_json::to_string(canary).unwrap()).collect();
    let lines = |indent: &str, form: &dyn Fn(usize, &str) -> String| -> String {
        quoted.iter().enumerate().map(|(index, text)| format!("{indent}{}\n", form(index, text))).collect()
    };
    let env = lines("        ", &|index, text| format!("NOTE_{index}: {text}"));
    let args = lines("        ", &|_, text| format!("- {text}"));
    let annotations = lines("    ", &|index, text| format!("example.com/note-{index}: {text}"));
    let merged = lines("                    ", &|index, text| format!("example.com/more-{index}: {text}"));
    let worker =
        format!("    worker:\n      env:\n{env}      args:\n        - --model-path\n        - Qwen/Qwen3-0.6B\n{args}");
    assert!(plain.contains("\nspec:\n") && plain.contains("    worker:\n"), "{plain}");
    let model = plain
        .replace("\nspec:\n", &format!("\n  annotations:\n{annotations}spec:\n"))
        .replace("    worker:\n", &worker);
    let rest = format!(
        "  files:\n    notes:\n      from: notes.txt\n      mountPath: /notes/notes.txt\n  overrides:\n    - target: {{kind: DynamoGraphDeployment}}\n      merge:\n        spec:\n          components:\n            - name: frontend\n              podTemplate:\n                metadata:\n                  annotations:\n{merged}"
    );
    bench.write(&format!("{folder}/model.yaml"), model + &rest);
    bench.write(
        &format!("{folder}/notes.txt"),
        all.iter().map(|canary| format!("note {canary}\n\n")).collect::<String>(),
    );
}

/// Makes models that are refused, with messages that quote a canary: as a value that is none of the possible ones, as a text
/// where a number belongs, as a role and as a field that nobody knows. `plain` is the text of a mocker.
pub fn write_refused_canaries(bench: &Workbench, folder: &str, plain: &str) {
    for (index, canary) in canaries().iter().enumerate() {
        let text = serde_json::to_string(canary).unwrap();
        let refused = plain.replace("name: mock\n", &format!("name: refused-{index}\n"));
        let refused = match index % 4 {
            0 => refused.replace("engine: mocker", &format!("engine: {text}")),
            1 => refused.replace("replicas: 2", &format!("replicas: {text}")),
            2 => refused.replace("    worker:\n", &format!("    worker:\n      {text}: 1\n")),
            _ => refused.replace("runtime: 1.2.0", &format!("runtime: {text}")),
        };
        assert!(refused.contains(&text), "{refused}");
        bench.write(&format!("{folder}-{index}/model.yaml"), refused);
    }
}
