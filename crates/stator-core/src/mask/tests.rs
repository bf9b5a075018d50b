use super::*;
use proptest::prelude::*;
use serde_json::json;

/// A graph's container with a value wherever people put secrets.
fn container(secret: &str) -> Value {
    json!({
        "args": ["--model", "Qwen/Qwen3-8B", "--api-key", secret, format!("--hf-token={secret}"), "--max-tokens", "4096"],
        "command": ["sh", "-c", format!("export API_KEY='{secret}' A=1; serve --admin-password {secret} --port 8000")],
        "env": [
            {"name": "HF_TOKEN", "value": secret},
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "TOKEN_PATH", "value": "/run/token"},
            {"name": "USE_TOKEN", "value": "true"},
            {"name": "DB", "value": format!("postgres://app:{secret}@db/app")},
            {"name": "WANDB_API_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "token"}}},
        ],
        "config": {"apiKey": secret, "nested": format!(r#"{{"password":"{secret}","port":3}}"#)},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    })
}

#[test]
fn a_secret_is_hidden_wherever_it_is_written_out_and_nothing_else_is() {
    let mut value = container("s3cr3t-Value");
    redact_value(&mut value);
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap(), @r#"
    {
      "args": [
        "--model",
        "Qwen/Qwen3-8B",
        "--api-key",
        "***",
        "--hf-token=***",
        "--max-tokens",
        "4096"
      ],
      "command": [
        "sh",
        "-c",
        "export API_KEY=*** A=1; serve --admin-password *** --port 8000"
      ],
      "config": {
        "apiKey": "***",
        "nested": "{\"password\":\"***\",\"port\":3}"
      },
      "env": [
        {
          "name": "HF_TOKEN",
          "value": "***"
        },
        {
          "name": "LOG_LEVEL",
          "value": "info"
        },
        {
          "name": "TOKEN_PATH",
          "value": "/run/token"
        },
        {
          "name": "USE_TOKEN",
          "value": "true"
        },
        {
          "name": "DB",
          "value": "postgres://app:***@db/app"
        },
        {
          "name": "WANDB_API_KEY",
          "valueFrom": {
            "secretKeyRef": {
              "key": "token",
              "name": "wandb"
            }
          }
        }
      ],
      "tolerations": [
        {
          "key": "nvidia.com/gpu",
          "operator": "Exists"
        }
      ]
    }
    "#);
}

#[test]
fn a_change_of_a_secret_shows_as_a_change_and_an_unchanged_one_does_not() {
    let variable = |value: &str| json!({"env": [{"name": "HF_TOKEN", "value": value}, {"name": "A", "value": "1"}]});
    let mut old = variable("one");
    let mut new = variable("two");
    redact_change(None, &mut old, &mut new);
    assert_eq!((old, new), (variable(HIDDEN_BEFORE), variable(HIDDEN_AFTER)));

    let mut old = variable("one");
    let mut new = json!({"env": [{"name": "NEW", "value": "1"}, {"name": "HF_TOKEN", "value": "one"}]});
    redact_change(None, &mut old, &mut new);
    assert_eq!(old, variable(HIDDEN));
    assert_eq!(new.pointer("/env/1/value"), Some(&json!(HIDDEN)));

    let mut old = json!(["--api-key=one"]);
    let mut new = json!(["--api-key=two"]);
    redact_change(None, &mut old, &mut new);
    assert_eq!((old, new), (json!(["--api-key=*** (before)"]), json!(["--api-key=*** (after)"])));

    let (mut old, mut new) = (Value::Null, json!("abc"));
    redact_change(Some("HF_TOKEN"), &mut old, &mut new);
    assert_eq!((old, new), (Value::Null, json!(HIDDEN_AFTER)));
}

/// The content of a ConfigMap is a file in one text.
#[test]
fn secrets_in_a_file_are_hidden_line_by_line() {
    let file = |key: &str| json!({"data": {"engine.yaml": format!("max_num_tokens: 8192\nserver:\n  api_key: {key}  # ours\n")}});
    let mut shown = file("one-secret");
    redact_value(&mut shown);
    assert_eq!(shown, file(HIDDEN));
    let (mut old, mut new) = (file("one-secret"), file("another-secret"));
    redact_change(None, &mut old, &mut new);
    assert_eq!((old, new), (file(HIDDEN_BEFORE), file(HIDDEN_AFTER)));
}

#[test]
fn names_of_secrets_are_told_from_names_about_them() {
    let told = |names: &[&str]| names.iter().map(|name| names_secret(name)).collect::<Vec<_>>();
    let secrets = ["HF_TOKEN", "apiKey", "--api-key", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HFTOKEN", "KEY_1"];
    assert_eq!(told(&secrets), [true; 7]);
    let others = [
        "MAX_TOKENS",
        "tokenizer",
        "TOKEN_PATH",
        "MONKEY",
        "LOG_LEVEL",
        "secretName",
        "KEY_FILE",
        "imagePullSecrets",
        "",
    ];
    assert_eq!(told(&others), [false; 9]);
}

#[test]
fn a_refusal_that_quotes_the_value_is_told_without_it() {
    let said = r#"env[0].value: Invalid value: "s3cr3t-Value": must be upper case"#;
    assert_eq!(
        redact_message(said, &container("s3cr3t-Value")),
        r#"env[0].value: Invalid value: "***": must be upper case"#
    );
}

#[test]
fn a_quoted_line_keeps_its_columns() {
    let shown = |line: &str| redact_source_line(line);
    assert_eq!(shown("    HF_TOKEN: hf_abc  # mine"), "    HF_TOKEN: ******  # mine");
    assert_eq!(shown(r#"  env: {API_TOKEN: "a, b", LOG: x}"#), r#"  env: {API_TOKEN: ******, LOG: x}"#);
    assert_eq!(shown("  env: {API_TOKEN: {secret: hf, key: token}}"), "  env: {API_TOKEN: {secret: hf, key: token}}");
    assert_eq!(shown("  PASSWORD: a, b"), "  PASSWORD: ****");
    assert_eq!(shown("  maxTokens: 3"), "  maxTokens: 3");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_secret_is_it_is_not_shown(old in "[A-Za-z0-9]{8,20}Z", new in "[A-Za-z0-9]{8,20}Z") {
        let (mut before, mut after) = (container(&old), container(&new));
        redact_change(None, &mut before, &mut after);
        let shown = format!("{before} {after}");
        prop_assert!(!shown.contains(&old) && !shown.contains(&new), "{shown}");
    }

    #[test]
    fn any_text_is_looked_at_without_a_panic(whole in any::<String>(), line in any::<String>()) {
        let _ = redact_text(&whole);
        prop_assert_eq!(redact_source_line(&line).chars().count(), line.chars().count());
    }
}

/// A file may have one line; a message that begins alike is no file.
#[test]
fn a_file_of_one_line_is_a_file_and_a_message_is_none() {
    let mut value = json!({"data": {"conf": "api_key: s3cr3t-Value", "note": "see token: none", "size": "max: 4"}});
    redact_value(&mut value);
    assert_eq!(value, json!({"data": {"conf": "api_key: ***", "note": "see token: none", "size": "max: 4"}}));
    assert_eq!(redact_message("secret: not found", &json!({})), "secret: not found");
}
