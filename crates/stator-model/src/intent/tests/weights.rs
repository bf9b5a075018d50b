//! Weights that are downloaded: what is said of a source, a claim and settings that do not fit.

use super::report;
use crate::intent::{SourceFile, SourceTree, Workspace};

fn faults(spec: &str) -> String {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: chat}}\nspec:\n  model: openai/gpt-oss-120b\n  \
         engine: vllm\n  runtime: 1.2.0\n  serving: {{worker: {{gpus: 1}}}}\n{spec}"
    );
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), content: Ok(text.as_bytes().into()) };
    let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: models}\nspec:\n  environments:\n    prod: {namespace: prod}\n";
    let tree =
        SourceTree { files: vec![file("stator.yaml", root), file("chat/model.yaml", &text)], ..SourceTree::default() };
    report(&Workspace::parse(&tree).resolve_environment(Some("prod")).unwrap().findings)
}

#[test]
fn a_branch_is_not_pinned_and_the_rest_is_said_at_once() {
    insta::assert_snapshot!(faults("  weights:
    source: hf://openai/gpt-oss-20b@main
    claim: {name: Model_Cache, size: 200 GB, accessMode: ReadOnlyMany}
    include: ['$(id)']
    deadline: 2d
    tokenSecret: hf-token-secret
    token: hf_abc
"), @"
    chat/model.yaml:11:19 error schema/format: `spec.weights.claim.name` is `Model_Cache`; expected lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters
      help: Use `model-cache`.
    chat/model.yaml:11:38 error schema/format: `spec.weights.claim.size` is `200 GB`; expected a quantity such as `500Gi`, `2` or `500m`
      help: Use `200G` (decimal) or `200Gi` (binary).
    chat/model.yaml:12:15 error schema/format: `spec.weights.include[0]` is `$(id)`; expected a pattern of letters, digits, `*`, `?`, `[`, `]`, `-`, `_`, `.` and `/`, such as `*.safetensors`
      help: Write it like `*.safetensors`.
    chat/model.yaml:13:15 error schema/format: `spec.weights.deadline` is `2d`; expected whole minutes or hours, such as `90m` or `2h`
      help: Write it like `2h`.
    chat/model.yaml:15:5 error schema/unknown-field: unknown field `token` in `spec.weights`
      help: Did you mean `tokenSecret`?
    ");
    insta::assert_snapshot!(faults("  weights:
    source: hf://openai/gpt-oss-20b@main
    claim: {name: model-cache, accessMode: ReadOnlyMany}
    env: {API_KEY: abcdefghijkl}
  cache: {claim: model-cache}
"), @"
    chat/model.yaml:9:3 error model/weights: the weights are mounted at `/opt/model-cache`, and `cache` at `/opt/model-cache`
      help: Remove `cache`: `weights` mounts its volume as well. Or give one of them another `mountPath`.
    chat/model.yaml:10:13 error model/weights: `main` is not the 40 hex digits of a commit: a branch or a tag may move
      help: Write `hf://openai/gpt-oss-20b@COMMIT`, or `load: model` for workers that find it by its name. `git ls-remote https://huggingface.co/openai/gpt-oss-20b HEAD` prints the newest commit; the page of the repository lists all of them under `Files and versions`.
    chat/model.yaml:11:19 error model/weights: `cache` uses claim `model-cache` too
      help: Remove `cache`: `weights` mounts its volume as well.
    chat/model.yaml:11:44 error model/weights: the volume is read-only, so nothing can be downloaded to it
      help: Use `ReadWriteMany`; or omit `source`, and fill the claim yourself.
    chat/model.yaml:12:20 warning model/env-secret: `API_KEY` looks like a secret in plain text in git
      help: Put it into a Secret, and write `API_KEY: {secret: NAME, key: KEY}`.
    ");
}

#[test]
fn what_is_about_a_download_needs_one() {
    insta::assert_snapshot!(faults("  weights:
    claim: {name: model-cache}
    include: ['*.json']
    tokenSecret: hf-token-secret
    deadline: 2h
"), @"
    chat/model.yaml:11:5 error model/weights: `include` has no effect: without `source`, nothing is downloaded
      help: Add `source`, or remove `include`.
    chat/model.yaml:12:18 error model/weights: `tokenSecret` has no effect: without `source`, nothing is downloaded
      help: Add `source`, or remove `tokenSecret`.
    chat/model.yaml:13:15 error model/weights: `deadline` has no effect: without `source`, nothing is downloaded
      help: Add `source`, or remove `deadline`.
    ");
}

#[test]
fn other_schemes_need_an_image() {
    insta::assert_snapshot!(faults("  weights: {source: 's3://weights/gpt', claim: {name: model-cache}, tokenSecret: a}\n"), @"
    chat/model.yaml:9:21 error model/weights: only `hf://` is downloaded without an `image`
      help: Name the image of a downloader: it is given `WEIGHTS_SOURCE` and `WEIGHTS_FOLDER`.
    chat/model.yaml:9:82 error model/weights: `tokenSecret` is a Hugging Face token, but the source is not Hugging Face
      help: Give the downloader its credentials by `env`: `NAME: {secret: NAME, key: KEY}`.
    ");
    insta::assert_snapshot!(faults("  weights: {source: 'oci://example.com/gpt:latest', claim: {name: model-cache}, image: 'fetch:1.0.0'}\n"), @"
    chat/model.yaml:9:21 error model/weights: the image has no digest: a tag may move
      help: Write `oci://REPOSITORY@sha256:DIGEST`, with the digest that the registry shows for the tag.
    ");
    insta::assert_snapshot!(faults("  weights: {source: 'ftp://example.com', claim: {name: model-cache}}\n"), @"
    chat/model.yaml:9:21 error model/weights: `ftp://` is not a source of weights
      help: Use `hf://`, `s3://`, `gs://` or `oci://`; or leave `source` out, and fill the claim yourself.
    ");
    insta::assert_snapshot!(faults("  weights: {source: 'hf://openai/gpt-oss-20b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a', claim: {name: model-cache}, mountPath: /a/../b}\n"), @"
    chat/model.yaml:9:21 error model/weights: the source is `openai/gpt-oss-20b`, and `model` is `openai/gpt-oss-120b`
      help: Write `model: openai/gpt-oss-20b`; `servedName` is the name that clients ask for.
    chat/model.yaml:9:128 error model/weights: `/a/../b` has a part that is `.` or `..`
      help: Write the path without it.
    ");
}

#[test]
fn a_branch_is_for_workers_that_find_it_by_its_name() {
    insta::assert_snapshot!(faults("  weights: {source: 'hf://openai/gpt-oss-120b@main', claim: {name: model-cache}, load: model}\n"), @"
    chat/model.yaml:9:21 warning model/weights: `main` may move: the model serves the commit that it pointed to when the Job ran
      help: Pin it: `git ls-remote https://huggingface.co/openai/gpt-oss-120b main` prints the commit.
    ");
    insta::assert_snapshot!(faults("  weights: {source: 'hf://openai/gpt-oss-120b@a b', claim: {name: model-cache}, load: model}\n"), @"
    chat/model.yaml:9:21 error schema/format: `spec.weights.source` is `hf://openai/gpt-oss-120b@a b`; expected `hf://ORG/NAME@REVISION`, `s3://…`, `gs://…` or `oci://…`
      help: Write it like `hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a`.
    ");
    insta::assert_snapshot!(faults("  weights: {source: 'hf://openai/gpt-oss-120b@$(id)', claim: {name: model-cache}, load: model}\n"), @"
    chat/model.yaml:9:21 error model/weights: the source is malformed; expected a revision of letters, digits, `-`, `_`, `.` and `/`
      help: Correct it.
    ");
    insta::assert_snapshot!(faults("  weights: {claim: {name: model-cache}, volume: v, implicitVolume: true, load: model}\n"), @"
    chat/model.yaml:9:49 error model/weights: `volume` with `implicitVolume`: there is no volume to name
      help: Remove one of them.
    chat/model.yaml:9:80 error model/weights: `load` has no effect: without `source`, nothing is downloaded
      help: Add `source`, or remove `load`.
    ");
}
