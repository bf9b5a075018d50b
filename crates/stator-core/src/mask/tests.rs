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
    let described = |names: &[&str]| names.iter().map(|name| names_secret(name)).collect::<Vec<_>>();
    let secrets = ["HF_TOKEN", "apiKey", "--api-key", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HFTOKEN", "KEY_1"];
    assert_eq!(described(&secrets), [true; 7]);
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
    assert_eq!(described(&others), [false; 9]);
}

#[test]
fn the_other_usual_names_are_names_of_secrets_and_words_that_hold_them_are_not() {
    for name in [
        "GITHUB_PAT",
        "DB_PWD",
        "DB_PASS",
        "dbPass",
        "DB_PASS_2",
        "AUTHORIZATION",
        "COOKIE",
        "session-cookie",
        "GIT_CREDS",
        "ADMIN_JWT",
        "BEARER",
    ] {
        assert!(names_secret(name), "{name}");
    }
    for name in [
        "BYPASS",
        "PATH",
        "COMPASS",
        "PWD",
        "OLDPWD",
        "PATTERN",
        "PASS_THROUGH",
        "passthrough",
        "COOKIE_NAME",
        "AUTHORIZATION_MODE",
        "PASSENGER",
        "SPAT",
    ] {
        assert!(!names_secret(name), "{name}");
    }
    let mut value = json!({"env": [{"name": "AUTHORIZATION", "value": "Bearer abc"}, {"name": "DSN", "value": "app:s3cr3t@tcp(db:3306)/app"}]});
    redact_value(&mut value);
    let hidden = json!({"env": [{"name": "AUTHORIZATION", "value": "***"}, {"name": "DSN", "value": "app:***@tcp(db:3306)/app"}]});
    assert_eq!(value, hidden);
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

/// Everything that a value is the secret of, under names that say nothing.
fn neutral(name: &str, token: &str) -> Value {
    json!({
        "metadata": {"annotations": {"example.com/note": format!("see {token}, please")}},
        "args": ["--model", "Qwen/Qwen3-8B", token, format!("--{name}={token}"), format!("--{name} {token} --port 8000")],
        "env": [{"name": name, "value": token}, {"name": "LOG_LEVEL", "value": "info"}],
        "config": {
            name: token,
            "json": json!({name: token, "deep": [{"a": [token]}]}).to_string(),
            "list": json!([token, 1]).to_string(),
            "file": format!("# a file\n{name}: {token}\nport: 8000\n"),
        },
    })
}

/// The secret of an example, without a name before it.
fn secret_of(example: &str) -> String {
    let found = find_tokens(example);
    found.first().and_then(|token| example.get(token.range.clone())).unwrap_or_default().to_owned()
}

/// Each line of a secret: a JSON text has other characters in place of the breaks between.
fn shows(text: &str, secret: &str) -> bool {
    secret.lines().filter(|line| line.len() > 7 && !line.contains("-----")).any(|line| text.contains(line))
}

/// The examples of all forms.
fn examples() -> Vec<String> {
    token_forms::EXAMPLES.iter().flat_map(|(_, all)| all.iter().map(|pieces| pieces.concat())).collect()
}

/// An example of a token is hidden under a name and between texts that say nothing, and once.
fn check_hidden(name: &str, before: &str, example: &str, after: &str) -> Result<(), TestCaseError> {
    let secret = secret_of(example);
    prop_assert!(!secret.is_empty(), "{}", example);

    let mut alone = neutral(name, example);
    redact_value(&mut alone);
    prop_assert!(!shows(&alone.to_string(), &secret), "{alone}");
    let mut again = alone.clone();
    redact_value(&mut again);
    prop_assert_eq!(&again, &alone);

    let (mut old, mut new) = (neutral(name, "nothing"), neutral(name, example));
    redact_change(None, &mut old, &mut new);
    prop_assert!(!shows(&new.to_string(), &secret), "{new}");
    let (mut old, mut new) = (neutral(name, example), neutral(name, example));
    redact_change(Some(name), &mut old, &mut new);
    prop_assert!(!shows(&format!("{old}{new}"), &secret), "{old} {new}");

    let text = format!("{before}{example}{after}");
    let hidden = redact_tokens(&text).into_owned();
    prop_assert!(!shows(&hidden, &secret), "{hidden}");
    prop_assert_eq!(redact_tokens(&hidden), hidden.as_str());
    let message = redact_message(&format!("{text:?}"), &json!({}));
    prop_assert!(!shows(&message, &secret), "{message}");
    let starred = star_tokens(&text).lines().map(redact_source_line).collect::<Vec<_>>().join("\n");
    prop_assert!(!shows(&starred, &secret), "{starred}");
    if !example.contains('\n') {
        let line = redact_source_line(&text);
        prop_assert!(!shows(&line, &secret), "{line}");
        prop_assert_eq!(redact_source_line(&line), line);
    }
    Ok(())
}

#[test]
fn a_token_of_every_form_is_hidden_under_a_name_that_says_nothing() {
    for example in examples() {
        check_hidden("note", "see ", &example, ", please").unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    // A part of the examples in each case: the law is for the texts around them, and all of them would take long.
    #[test]
    fn a_token_is_hidden_whatever_it_stands_under(name in "[a-z]{1,8}(_[a-z]{1,5})?", before in "[ a-z.:/-]{0,12} ", after in "([ ,;)\"'][ a-z]{0,12})?", first in 0..8_usize) {
        for example in examples().iter().skip(first).step_by(8) {
            check_hidden(&name, &before, example, &after)?;
        }
    }

    #[test]
    fn what_is_hidden_by_form_is_hidden_once(text in "[ -~\n]{0,80}", index in any::<prop::sample::Index>()) {
        let text = format!("{text} {} {text}", index.get(&examples()));
        let hidden = redact_tokens(&text).into_owned();
        prop_assert_eq!(redact_tokens(&hidden), hidden.as_str());
    }
}

#[test]
fn a_change_of_a_token_in_the_middle_of_a_text_keeps_the_rest_and_marks_both_sides() {
    let tokens = examples();
    let note = |token: &str| json!({"note": format!("with {token} inside")});
    let (mut old, mut new) = (note(&tokens[0]), note(&tokens[1]));
    redact_change(None, &mut old, &mut new);
    assert_eq!((old, new), (note(HIDDEN_BEFORE), note(HIDDEN_AFTER)));
    let (mut old, mut new) = (note(&tokens[0]), note(&tokens[0]));
    redact_change(None, &mut old, &mut new);
    assert_eq!((old, new), (note(HIDDEN), note(HIDDEN)));
}

/// A file may have one line; a message that begins alike is no file.
#[test]
fn a_file_of_one_line_is_a_file_and_a_message_is_none() {
    let mut value = json!({"data": {"conf": "api_key: s3cr3t-Value", "note": "see token: none", "size": "max: 4"}});
    redact_value(&mut value);
    assert_eq!(value, json!({"data": {"conf": "api_key: ***", "note": "see token: none", "size": "max: 4"}}));
    assert_eq!(redact_message("secret: not found", &json!({})), "secret: not found");
}
