//! The hooks of pre-commit, and Renovate's preset.

use super::{at, checkout, said, shell};
use regex::Regex;
use serde_json::Value;

fn hooks() -> Vec<Value> {
    let text = fs_err::read_to_string(at(".pre-commit-hooks.yaml")).unwrap();
    let hooks: Value = serde_saphyr::from_str(&text).unwrap();
    hooks.as_array().unwrap().clone()
}

/// pre-commit runs a hook's `entry`, and takes a file that the hook changed for a failure.
#[test]
fn hooks_find_what_is_wrong_and_mend_what_they_can() {
    let bench = checkout("");
    let run = |id: &str| {
        let hook = hooks().into_iter().find(|hook| hook["id"] == id).unwrap();
        assert_eq!(hook["pass_filenames"], false, "a repository is checked as a whole");
        said(&shell(&bench, "sh", hook["entry"].as_str().unwrap()).output().unwrap())
    };
    insta::assert_snapshot!(run("stator-validate"), @"
    All checks passed (13 models).
    ? 0
    ");
    bench.replace("chat/llama-3-70b/model.yaml", "engine: vllm", "engine: vlm");
    assert!(run("stator-validate").ends_with("? 1"));
    bench.replace("chat/llama-3-70b/model.yaml", "engine: vlm", "engine:    vllm");
    let before = bench.read("chat/llama-3-70b/model.yaml");
    insta::assert_snapshot!(run("stator-fmt"), @"
    chat/llama-3-70b/model.yaml
    1 file changed, 19 are formatted already
    ? 0
    ");
    let after = bench.read("chat/llama-3-70b/model.yaml");
    assert!(after != before && after.contains("engine: vllm\n"), "{after}");
    assert_eq!(hooks().len(), 2, "each is tried here");
}

/// What an expression of the preset finds in a text, by the names of its groups.
fn found(manager: &Value, text: &str) -> Vec<String> {
    let expression = Regex::new(manager["matchStrings"][0].as_str().unwrap()).unwrap();
    let mut all = Vec::new();
    for found in expression.captures_iter(text) {
        let part = |name: &str| found.name(name).map_or("-", |part| part.as_str()).to_owned();
        all.push(format!("{} {} {}", part("depName"), part("currentValue"), part("currentDigest")));
    }
    all
}

#[test]
fn renovate_finds_every_runtime_and_image() {
    let text = fs_err::read_to_string(at("integrations/renovate/default.json")).unwrap();
    let preset: Value = serde_json::from_str(&text).unwrap();
    let managers = preset["customManagers"].as_array().unwrap();
    let [runtimes, images] = &managers[..] else { panic!("{preset}") };
    let bench = checkout("");
    let mut all = Vec::new();
    for file in bench.files("") {
        let pattern = Regex::new(runtimes["managerFilePatterns"][0].as_str().unwrap().trim_matches('/')).unwrap();
        let runtime = found(runtimes, &bench.read(&file));
        // Every line that names a runtime is in a file that Renovate looks at.
        assert_eq!(
            runtime.len(),
            bench.read(&file).matches(" runtime: ").count() * usize::from(pattern.is_match(&file)),
            "{file}"
        );
        all.extend(runtime.into_iter().map(|found| format!("{file}: {found}")));
    }
    insta::assert_snapshot!(all.join("\n"), @"
    code/starcoder2-7b/model.yaml: - 1.1.1 -
    stator.yaml: - 1.2.0 -
    ");
    let digest = "a".repeat(64);
    let text = format!(
        "spec:\n  image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0\n  serving:\n    worker:\n      image: \"registry.example.com:5000/team/engine:2.1@sha256:{digest}\" # ours\n  weights: {{source: x}}\n  # no image: here:not\n  imagePull: [a:b]\n"
    );
    insta::assert_snapshot!(found(images, &text).join("\n").replace(&digest, "DIGEST"), @"
    nvcr.io/nvidia/ai-dynamo/vllm-runtime 1.2.0 -
    registry.example.com:5000/team/engine 2.1 sha256:DIGEST
    ");
}

/// The image of stator is renewed as those of models are.
#[test]
fn renovate_renews_the_base_images_and_their_digests() {
    let read = |path: &str| -> Value { serde_json::from_str(&fs_err::read_to_string(at(path)).unwrap()).unwrap() };
    let extends = |config: &Value| -> Vec<String> {
        config["extends"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let (own, preset) = (read(".github/renovate.json"), read("integrations/renovate/default.json"));
    assert!(extends(&own).iter().any(|one| one.ends_with("//integrations/renovate/default")), "{own}");
    assert!(extends(&preset).contains(&"docker:pinDigests".to_owned()), "{preset}");
    // The manager of Dockerfiles is one of its own, and is on where nobody turns it off.
    for config in [&own, &preset] {
        assert!(config["enabledManagers"].is_null() && config["dockerfile"].is_null(), "{config}");
    }
}
