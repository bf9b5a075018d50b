//! `stator create source` at a real git host and a real API server, to the first synced model.

use super::fleet;
use super::objects::Stage;
use super::process::Process;
use crate::gitea;
use crate::testbed::{self, until};
use crate::workbench::{Output, Workbench};
use insta::assert_snapshot;
use regex::Regex;
use serde_json::Value;

const NAMESPACE: &str = "created";

/// What is different in each run stands for itself.
fn told(text: &str, known: &[(String, &str)]) -> String {
    let text = known.iter().fold(text.to_owned(), |text, (value, name)| text.replace(value, name));
    let keys = Regex::new("(ssh-ed25519|`?stator created/models) [A-Za-z0-9+/=]+").unwrap();
    let text = keys.replace_all(&text, "$1 KEY");
    let lines = text.lines().filter(|line| !line.starts_with("Using the Kubernetes cluster of context"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn a_source_is_created_with_all_that_it_needs() {
    let Some(plane) = testbed::shared() else { return };
    let Some(gitea) = gitea::shared() else { return };
    let stage = Stage::on(plane);
    stage.namespace(NAMESPACE);
    let bench = fleet(1);
    bench.commit("first");
    let repository = gitea.repository("created");
    repository.push(&bench.root(), "main");
    bench.write("../known_hosts", gitea.known_hosts());
    let hook = "https://stator.example.com";
    let (ssh, web) = (repository.ssh_url(), gitea.url());
    let run = |token: Option<&str>, more: &[&str]| -> Output {
        let mut command = bench.command();
        command.env_remove("STATOR_CLUSTER").env("SSL_CERT_FILE", gitea.certificate());
        command.envs(token.map(|token| ("STATOR_FORGE_TOKEN", token)));
        command.args(["create", "source", "models", "-e", "staging", "--url", &ssh, "--branch", "main"]);
        command.args(["--known-hosts", "../known_hosts", "--forge", "gitea", "--forge-url", &web]);
        command.args(["--webhook-url", hook, "-n", NAMESPACE, "--target-namespace", NAMESPACE, "--context", "admin"]);
        bench.finish(command.arg("--kubeconfig").arg(plane.kubeconfig()).args(more))
    };
    let known = [(ssh.clone(), "SSH"), (web.clone(), "WEB"), (gitea.owner_token().to_owned(), "TOKEN")];

    // Without a token, somebody has to register it.
    let shown = run(None, &["--dry-run"]).success();
    assert_snapshot!(told(&shown.stdout, &known), @r#"
    secret/created/models-git with identity, known_hosts
    secret/created/models-webhook with token
    deploy key `stator created/models KEY`, to read the repository
    webhook https://stator.example.com/webhooks/gitea/created/models
    modelsource/created/models
      environment: staging
      forge: {"type":"gitea"}
      ref: {"branch":"main"}
      secretRef: {"name":"models-git"}
      targetNamespace: created
      url: SSH
      webhook: {"secretRef":{"name":"models-webhook"}}
    "#);
    assert_snapshot!(told(&shown.notes(), &known), @"
    left to do: add this deploy key to the repository, without the right to write: ssh-ed25519 KEY stator created/models
    left to do: create a webhook of the repository: https://stator.example.com/webhooks/gitea/created/models, content type JSON, events push and pull request, with the value of `token` in the secret as its secret (Azure DevOps: as the password of Basic authentication)
    ");
    // A dry run shows no value of a secret, and creates nothing.
    let yaml = run(Some(gitea.owner_token()), &["--dry-run", "-o", "yaml"]).success();
    assert!(!yaml.stdout.contains("PRIVATE KEY") && !yaml.stdout.contains(gitea.owner_token()), "{yaml}");
    let whole = run(Some(gitea.owner_token()), &["--dry-run", "-o", "yaml", "--show-secrets"]).success();
    assert!(whole.stdout.contains("PRIVATE KEY") && whole.stdout.contains(gitea.owner_token()), "no secrets");
    assert!(stage.there(NAMESPACE, "ModelSource").is_empty());
    // Nobody confirms without a terminal.
    run(Some(gitea.owner_token()), &[]).exits(2);

    // A token that may not administer the repository: all is created, and what is left is told.
    let token = gitea.token(gitea::BOT, &["write:repository"]);
    repository.let_in(gitea::BOT, "read");
    let weak = run(Some(&token), &["--yes"]).exits(1);
    let lines: Vec<&str> = weak.stdout.lines().filter(|line| line.starts_with("left to do")).collect();
    assert_eq!(lines.len(), 2, "{weak}");
    assert!(lines[0].contains("add this deploy key") && lines[1].contains("create a webhook"), "{weak}");
    assert_snapshot!(told(&run(Some(&token), &["--yes"]).exits(2).notes(), &known), @"
    error: there is a source created/models already
    hint: pass another NAME, or change it with kubectl
    ");
    stage.forget(NAMESPACE, "models");

    // A secret of somebody else is left alone, and nothing is registered or written beside it.
    stage.delete_secret(NAMESPACE, "models-forge");
    stage.secret(NAMESPACE, "models-forge", &[("token", "theirs")]);
    let refused = run(Some(gitea.owner_token()), &["--yes", "-q"]).exits(2);
    assert!(refused.notes().contains("secret/created/models-forge is there already"), "{refused}");
    assert!(stage.there(NAMESPACE, "ModelSource").is_empty());
    stage.delete_secret(NAMESPACE, "models-forge");

    // One that may: the secrets of before are replaced, and so are what is registered under the same names.
    run(Some(gitea.owner_token()), &["--yes", "-q"]).success();
    stage.forget(NAMESPACE, "models");
    let made = run(Some(gitea.owner_token()), &["--yes"]).success();
    assert_snapshot!(told(&made.stdout, &known), @"
    secret/created/models-git created
    secret/created/models-forge created
    secret/created/models-webhook created
    deploy key `stator created/models KEY` created
    webhook https://stator.example.com/webhooks/gitea/created/models created
    modelsource/created/models created

    Next:
    stator get sources models -n created --watch
    ");
    let hooks = repository.call("GET", "/hooks", &Value::Null);
    assert_eq!(hooks.as_array().unwrap().len(), 1, "{hooks}");
    assert_eq!(hooks[0]["config"]["url"], format!("{hook}/webhooks/gitea/{NAMESPACE}/models"));
    let keys = repository.call("GET", "/keys", &Value::Null);
    let keys = keys.as_array().unwrap();
    assert!(keys.len() > 1 && keys.iter().all(|key| key["read_only"] == true), "each attempt has its key: {keys:?}");

    // A controller follows it with that key, and the commit gets its status.
    let scoped = ["--watch-namespace", NAMESPACE, "--lease-namespace", NAMESPACE];
    let mut command = stage.command((&plane.kubeconfig(), "admin"), &bench, "controller", "controller", &scoped);
    let controller = Process::start("controller", command.env("SSL_CERT_FILE", gitea.certificate()));
    let source = || stage.runtime.block_on(stage.objects(NAMESPACE, "ModelSource").get("models")).unwrap();
    let reason = || source().data["status"]["conditions"][0]["reason"].as_str().unwrap_or_default().to_owned();
    let is_over = || !stage.graphs(NAMESPACE).is_empty() || !matches!(&*reason(), "" | "Progressing");
    until("the model is synced, or the controller says why not", is_over);
    assert_eq!(stage.graphs(NAMESPACE), ["mock-0"], "{:#}\n{}", source().data["status"], controller.said());
}

/// The completion script, and what a shell is told by it.
#[test]
fn shells_complete_models_environments_contexts_and_fields() {
    let bench = fleet(3);
    let kubeconfig = "apiVersion: v1\nkind: Config\ncontexts: [{name: gpu-east, context: {cluster: a, user: a}}, {name: gpu-west, context: {cluster: a, user: a}}]\n";
    bench.write("../kubeconfig", kubeconfig);
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "source <(stator completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; _clap_complete_stator stator '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output = bash(&bench, &script);
        output.stdout.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("stator plan mock-"), ["mock-0", "mock-1", "mock-2"]);
    assert_eq!(complete("stator describe mock-1"), ["mock-1"]);
    assert_eq!(complete("stator status -e s"), ["staging"]);
    assert_eq!(complete("stator sync --context gpu-"), ["gpu-east", "gpu-west"]);
    assert_eq!(
        complete("stator explain serving.frontend.re"),
        ["serving.frontend.replicas", "serving.frontend.resources"]
    );
    assert_eq!(complete("stator explain yaml/nul"), ["yaml/null"]);
    assert!(complete("stator sus").contains(&"suspend".to_owned()));
    // A file whose name is a command is not put on a line that a shell runs.
    bench.write("models/$(touch pwned)/model.yaml", "");
    assert_eq!(complete("stator plan models/"), ["models/mock-0/", "models/mock-1/", "models/mock-2/"]);
    for shell in ["zsh", "fish"] {
        assert!(bench.run(["completions", shell]).success().stdout.contains("_STATOR_COMPLETE="), "{shell}");
    }
}

/// Runs a script where `stator` is the built program.
fn bash(bench: &Workbench, script: &str) -> Output {
    let given = bench.command();
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script]).current_dir(bench.root()).env_clear();
    command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?)))).env_remove("STATOR_CLUSTER");
    let folder = std::path::Path::new(given.get_program()).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    bench.finish(command.env("PATH", path).env("KUBECONFIG", bench.path("../kubeconfig")))
}

#[test]
fn a_bundle_for_support_has_no_secrets() {
    let bench = fleet(1);
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    bench.replace("models/mock-0/model.yaml", "spec:\n", &format!("spec:\n  env: {{API_TOKEN: {secret}}}\n"));
    bench.run(["sync", "--yes", "-q"]).exits(0);
    let shown = bench.run(["support", "bundle"]).exits(2);
    assert!(shown.stdout.contains("stator:") && shown.notes().contains("standard input is not a terminal"), "{shown}");
    bench.run(["support", "bundle", "--yes"]).success();
    let bundle = fs_err::read_to_string(bench.path("stator-support.yaml")).unwrap();
    assert_eq!(bundle, shown.stdout, "what is shown is what is written");
    assert!(!bundle.contains(secret) && !bundle.contains("intent:"), "{bundle}");
    let parts: Vec<&str> = bundle.lines().filter(|line| !line.starts_with([' ', '-'])).collect();
    assert_eq!(parts, ["cluster:", "environment:", "repository:", "sources:", "stator:"]);
    // A folder of nothing, without a cluster, is a report too.
    let empty = Workbench::empty();
    let command = &mut empty.command();
    let nothing = empty.finish(command.env_remove("STATOR_CLUSTER").args(["support", "bundle", "-"])).success();
    assert!(nothing.stdout.contains("no kubeconfig found"), "{nothing}");
}
