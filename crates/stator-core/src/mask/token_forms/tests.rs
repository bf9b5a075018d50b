use super::*;

/// Every example with the name of its form.
fn examples() -> impl Iterator<Item = (&'static str, String)> {
    EXAMPLES.iter().flat_map(|(id, examples)| examples.iter().map(|pieces| (*id, pieces.concat())))
}

#[test]
fn every_form_compiles_and_has_an_example_and_a_name_of_its_own() {
    assert!(TOKEN_FORMS.len() <= 128, "a form is a bit of 128");
    let mut ids: Vec<&str> = EXAMPLES.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TOKEN_FORMS.len());
    for (form, (id, examples)) in TOKEN_FORMS.iter().zip(&EXAMPLES) {
        let compiled = Regex::new(form.form).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert!(compiled.captures_len() <= 2, "{id}: one group at most is the secret");
        assert!(!examples.is_empty(), "{id}");
        assert!(!form.keywords.is_empty() && form.keywords.iter().all(|keyword| keyword.len() > 1), "{id}");
        for pieces in *examples {
            let example = pieces.concat();
            assert!(form.keywords.iter().any(|keyword| example.contains(keyword)), "{id}: {example}");
        }
    }
}

#[test]
fn an_example_of_every_form_is_found_in_any_surroundings() {
    for (index, (id, examples)) in EXAMPLES.iter().enumerate() {
        for example in examples.iter().map(|pieces| pieces.concat()) {
            for (before, after) in [
                ("", ""),
                ("use ", " here"),
                ("--flag=", ""),
                ("\"", "\""),
                ("{\"a\":\"", "\"}"),
                ("line\\n", "\\n"),
                ("x\n  ", "\nlast: line"),
                ("https://user@host/?a=", "&b=c"),
                ("(", ")"),
                ("`", "`, and"),
            ] {
                let text = format!("{before}{example}{after}");
                assert!(suspected_forms(text.as_bytes()) >> index & 1 == 1, "{id}: {text}");
                let found = find_tokens(&text);
                assert!(found.iter().any(|token| token.what == TOKEN_FORMS[index].what), "{id}: {text} {found:?}");
                let hidden = redact_tokens(&text);
                assert!(!hidden.contains(&example), "{id}: {hidden}");
                assert!(hidden.starts_with(before) && hidden.ends_with(after), "{id}: {hidden}");
                assert_eq!(redact_tokens(&hidden), hidden, "{id}");
                let starred = star_tokens(&text);
                assert_eq!(starred.chars().count(), text.chars().count(), "{id}");
                assert_eq!(starred.lines().count(), text.lines().count(), "{id}");
            }
        }
    }
}

/// The secret in an example, without what stands before it.
fn secret_of(example: &str) -> &str {
    let found = find_tokens(example);
    &example[found[0].range.clone()]
}

#[test]
fn a_cut_or_filled_in_token_is_none() {
    for (id, example) in examples().filter(|(id, _)| *id != "private-key") {
        let secret = secret_of(&example);
        let start = example.find(secret).unwrap();
        let cut = &example[..start + 6.min(secret.len() / 2)];
        assert_eq!(find_tokens(cut), [], "{id}: {cut}");
        for filling in ["x", "0", "*", "-", "."] {
            let prefix =
                TOKEN_FORMS.iter().flat_map(|form| form.keywords).filter(|keyword| example.starts_with(**keyword));
            let prefix = prefix.max_by_key(|keyword| keyword.len()).copied().unwrap_or(&example[..start]);
            let filled = format!("{prefix}{}", filling.repeat(example.len() - prefix.len()));
            assert_eq!(find_tokens(&filled), [], "{id}: {filled}");
        }
    }
}

#[test]
fn what_only_resembles_a_token_is_shown() {
    let digest = "3f1c9a7e5b2d8064fa1c3e5d7b9080a2c4e6f8d13f1c9a7e5b2d8064fa1c3e5d";
    for text in [
        "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0@sha256:3f1c9a7e5b2d8064fa1c3e5d7b9080a2c4e6f8d13f1c9a7e5b2d8064fa1c3e5d",
        digest,
        "3f1c9a7e5b2d8064fa1c3e5d7b9080a2c4e6f8d1",
        "01234567-89ab-4cde-8f01-23456789abcd",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5-FP8-and-a-long-suffix-1234567890",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        "hf_transfer_and_many_other_words_0123456789",
        "hf_home: true",
        "task-scheduler-with-a-long-name-0123456789-abcdefghij-klmnop",
        "disk-9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo",
        "sk-learn",
        "it begins with `-----BEGIN PRIVATE KEY-----` or `-----BEGIN RSA PRIVATE KEY-----`; copy the whole file",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n-----END PUBLIC KEY-----",
        "-H 'Authorization: Bearer NOT USED'",
        "`Authorization` must be `Bearer TOKEN`.",
        "Authorization: Bearer $(cat /run/token-of-the-account)",
        "Authorization: Bearer ${STATOR_TOKEN_OF_THE_READER}",
        "Authorization: Bearer <token-of-the-reader>",
        "bearer authentication-of-every-request",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "hf_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "sk-proj-your-api-key-goes-in-this-place-1",
        "eyJzcGVjIjp7InJlcGxpY2FzIjoyLCJpbWFnZSI6ImEvYjpjIn19",
        "key-value-store-of-the-frontends-router-1",
        "npm_config_registry_of_the_whole_company_1",
        "the secret_access_key is in the Secret",
        "max_num_tokens: 8192, free_gpu_memory_fraction: 0.85",
        "limits: {nvidia.com/gpu: \"8\", memory: 1288490188800m}",
    ] {
        assert_eq!(find_tokens(text), [], "{text}");
    }
}

#[test]
fn a_text_keeps_what_is_around_its_tokens() {
    let token = EXAMPLES.iter().find(|(id, _)| *id == "github").map(|(_, examples)| examples[0].concat()).unwrap();
    assert_eq!(redact_tokens(&format!("clone {token}: refused, and {token}.")), "clone ***: refused, and ***.");
    assert!(matches!(redact_tokens("nothing of the kind is here"), Cow::Borrowed(_)));
}

/// What the repository itself ships and shows: no form takes any of it for a secret.
#[test]
fn no_example_of_the_repository_is_hidden() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = ["examples", "docs", "deploy", "crds", "tests/data/dynamo", "tests/data/formats"]
        .map(|folder| root.join(folder))
        .to_vec();
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs_err::read_to_string(&path) {
                files += 1;
                let shown: Vec<&str> = find_tokens(&text).into_iter().map(|token| &text[token.range]).collect();
                assert_eq!(shown, Vec::<&str>::new(), "{}", path.display());
            }
        }
    }
    assert!(files > 100, "{files}");
}
