//! Routes: what is said of hosts, paths, shares and canaries.

use super::report;
use crate::intent::{SourceFile, SourceTree, Workspace};

fn model(name: &str, more: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: openai/gpt-oss-120b\n  \
         engine: vllm\n  runtime: 1.2.0\n  serving: {{worker: {{gpus: 1}}}}\n{more}"
    )
}

fn faults(models: &[(&str, &str)]) -> String {
    let file = |path: String, text: &str| SourceFile { path, content: Ok(text.as_bytes().into()) };
    let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: models}\nspec:\n  environments:\n    prod: {namespace: prod}\n";
    let mut files = vec![file("stator.yaml".to_owned(), root)];
    files.extend(models.iter().map(|(name, more)| file(format!("{name}/model.yaml"), &model(name, more))));
    let tree = SourceTree { files, ..SourceTree::default() };
    report(&Workspace::parse(&tree).resolve_environment(Some("prod")).unwrap().findings)
}

#[test]
fn hosts_paths_and_shares_that_no_gateway_takes_are_findings() {
    let scalars = "  route:
    gateway: {name: Public, sectionname: https}
    hostnames: ['https://chat.example.com', 'chat.example.com:443', Chat.example.com]
    path: v1
    timeout: 5 minutes
    canary: {model: other, weight: 110}
";
    insta::assert_snapshot!(faults(&[("chat", scalars)]), @"
    chat/model.yaml:10:21 error schema/format: `spec.route.gateway.name` is `Public`; expected lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters
      help: Use `public`.
    chat/model.yaml:10:29 error schema/unknown-field: unknown field `sectionname` in `spec.route.gateway`
      help: Did you mean `sectionName`?
    chat/model.yaml:11:17 error schema/format: `spec.route.hostnames[0]` is `https://chat.example.com`; expected a host name in lower-case letters, or `*.` and one, without scheme and port, at most 253 characters
      help: Use `chat.example.com`.
    chat/model.yaml:11:45 error schema/format: `spec.route.hostnames[1]` is `chat.example.com:443`; expected a host name in lower-case letters, or `*.` and one, without scheme and port, at most 253 characters
      help: Use `chat.example.com`.
    chat/model.yaml:11:69 error schema/format: `spec.route.hostnames[2]` is `Chat.example.com`; expected a host name in lower-case letters, or `*.` and one, without scheme and port, at most 253 characters
      help: Use `chat.example.com`.
    chat/model.yaml:12:11 error schema/format: `spec.route.path` is `v1`; expected a path that begins with `/`, without `?` and `#`, at most 1024 characters
      help: Use `/v1`.
    chat/model.yaml:13:14 error schema/format: `spec.route.timeout` is `5 minutes`; expected a duration such as `300s` or `1h30m`
      help: Write it like `300s`.
    chat/model.yaml:14:36 error schema/range: `spec.route.canary.weight` is 110; expected a whole number from 0 to 100
      help: Choose a number in this range.
    ");
    let meaning = "  route:
    gateway: {name: public}
    hostnames: [chat.example.com, chat.example.com, 192.0.2.1]
    path: /v1/../admin
    canary: {model: chat, weight: 10}
";
    insta::assert_snapshot!(faults(&[("chat", meaning)]), @"
    chat/model.yaml:11:35 error model/route: `chat.example.com` is listed twice
      help: Keep one of them.
    chat/model.yaml:11:53 error model/route: `192.0.2.1` is an IP address; a route needs a host name
      help: Write the name that clients ask for.
    chat/model.yaml:12:11 error model/route: `/v1/../admin` contains `/../`, which no gateway accepts
      help: Write the path as clients send it, without empty parts, `.` or `..`.
    chat/model.yaml:13:21 error model/route: the canary of `chat` is the model itself
      help: Name another model of the environment, or remove `canary`.
    ");
}

#[test]
fn a_canary_is_a_model_of_the_environment_that_serves_the_same_name() {
    let canary =
        "  route: {gateway: {name: public}, hostnames: [chat.example.com], canary: {model: next, weight: 10}}\n";
    insta::assert_snapshot!(faults(&[("chat", canary)]), @r"
    chat/model.yaml:9:83 warning model/route: the environment has no model `next`
      help: Name a model of the environment, or remove `canary`: its share of the requests would be lost.
    ");
    insta::assert_snapshot!(faults(&[("chat", canary), ("next", "  servedName: gpt-oss\n")]), @"
    chat/model.yaml:9:83 warning model/route: clients ask for `openai/gpt-oss-120b`, but `next` serves `gpt-oss`
      help: Set `servedName: openai/gpt-oss-120b` in `next/model.yaml`: it refuses other names.
    ");
    assert_eq!(faults(&[("chat", canary), ("next", "")]), "");
    // One that is broken says so itself.
    assert!(!faults(&[("chat", canary), ("next", "  colour: red\n")]).contains("has no model"));
}

#[test]
fn two_models_do_not_want_the_same_requests() {
    let route =
        |path: &str| format!("  route: {{gateway: {{name: public}}, hostnames: [api.example.com], path: {path}}}\n");
    insta::assert_snapshot!(faults(&[("one", &route("/v1")), ("two", &route("/v1"))]), @"
    two/model.yaml:9:48 warning model/route: requests to `api.example.com/v1` also match the route of model `one` (one/model.yaml) at the same gateway
      help: Give the models different hosts or paths: a gateway sends the requests only to the older route.
    ");
    assert_eq!(faults(&[("one", &route("/one")), ("two", &route("/two"))]), "");
}
