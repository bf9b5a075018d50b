use super::document::custom_resource_definition;
use super::*;
use crate::intent::ResolvedEnvironment;
use crate::intent::tests::{ROOT, loaded, report, workspace};
use crate::render::{RenderTarget, RenderedModel, render_all};
use stator_core::dynamo::admission::Platform;
use stator_core::finding::Finding;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/stator.dev_fleetpolicies.yaml");

/// The file is what the types say. `STATOR_BLESS=1 cargo test` writes it anew.
#[test]
fn the_definition_is_up_to_date() {
    let mut text = "# Generated from the Rust types: STATOR_BLESS=1 cargo test\n".to_owned();
    text.push_str(&serde_saphyr::to_string(&custom_resource_definition()).unwrap());
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(FILE, &text).unwrap();
    }
    assert!(fs_err::read_to_string(FILE).unwrap_or_default() == text, "{FILE} is old: STATOR_BLESS=1 cargo test");
}

fn policy(spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {{name: tenants}}\nspec:\n{spec}")
}

fn policies(spec: &str) -> FleetPolicies {
    let read = read_policies("policies.yaml", policy(spec).as_bytes());
    FleetPolicies::new(read.unwrap_or_else(|findings| panic!("{}", report(&findings))), Vec::new())
}

/// Models of an environment, rendered: each by its name and the lines of its `spec`.
fn rendered(models: &[(&str, &str)]) -> (ResolvedEnvironment, Vec<RenderedModel>) {
    let mut files = vec![("stator.yaml".to_owned(), ROOT.to_owned())];
    for (name, spec) in models {
        let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
        let text = format!("apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n{spec}");
        files.push((format!("{name}/model.yaml"), text));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let selection = workspace(&files).resolve_environment(Some("prod")).unwrap();
    assert!(!selection.findings.iter().any(Finding::is_error), "{}", report(&selection.findings));
    let target = RenderTarget {
        repository: "models".into(),
        environment: "prod".into(),
        namespace: "team-a".into(),
        platform: Platform::default(),
    };
    let intents = loaded(&selection);
    let rendered = render_all(&intents, &target);
    for model in &rendered {
        assert!(!model.findings.iter().any(Finding::is_error), "{}", report(&model.findings));
    }
    (selection, rendered)
}

fn judged(spec: &str, models: &[(&str, &str)]) -> String {
    let (selection, rendered) = rendered(models);
    let bound = policies(spec).bind(&JudgedSource::default(), "team-a");
    let intents = loaded(&selection);
    let judged = intents.iter().zip(&rendered).map(|(intent, model)| bound.judge("prod", intent, model)).collect();
    let found = bound.judge_together(judged);
    report(&found.into_iter().flatten().collect::<Vec<_>>())
}

/// A model with a worker, and something more of its `spec`.
const MODEL: &str = "model: Qwen/Qwen3-0.6B
engine: vllm
runtime: 1.2.0
hardware: {gpu: h200_sxm}
";

fn with(more: &str) -> String {
    format!("{MODEL}{more}")
}

#[test]
fn pods_are_told_of_at_the_line_that_asks_for_it() {
    let model = with(
        "serving:
  worker:
    gpus: 1
    template:
      spec:
        hostNetwork: true
        containers:
          - name: main
            securityContext: {capabilities: {add: [IPC_LOCK, SYS_ADMIN]}}
overrides:
  - target: {kind: DynamoGraphDeployment}
    merge:
      spec:
        components:
          - name: frontend
            podTemplate: {spec: {hostPID: true}}
",
    );
    insta::assert_snapshot!(judged("pods: {exceptions: [{field: capabilities, values: [IPC_LOCK]}]}", &[("chat", &model)]), @r#"
    chat/model.yaml:14:24 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.hostNetwork` is `true`; allowed at level `baseline`: `false`, or nothing
      help: Change `hostNetwork` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.
    chat/model.yaml:17:64 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.containers[name=main].securityContext.capabilities.add[1]` is `SYS_ADMIN`; allowed at level `baseline`: what containers have by default, such as `CHOWN`
      help: Change `capabilities` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.
    chat/model.yaml:24:45 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=frontend].podTemplate.spec.hostPID` is `true`; allowed at level `baseline`: `false`, or nothing
      help: Change `hostPID` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.
    "#);
}

#[test]
fn what_a_model_names_is_held_to_what_is_allowed() {
    let model = with(
        "serving: {worker: {gpus: 1, template: {spec: {serviceAccountName: admin}}}}
secrets: {huggingFace: hf-token, imagePull: [nvcr]}
cache: {claim: models, size: 2Ti, mountPath: /models}
",
    );
    let spec = "secrets: [hf-*]
serviceAccounts: []
images: {registries: [registry.example.com/team-a], requireDigest: true}
kinds: [ConfigMap]
quotas: {claimSize: 1Ti}
";
    insta::assert_snapshot!(judged(spec, &[("chat", &model)]), @r#"
    chat/model.yaml:7:12 error fleet/image: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=frontend].podTemplate.spec.containers[name=main].image` is `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`, without a digest; allowed: `IMAGE@sha256:…`
      help: Add the digest that the registry shows for the tag.
    chat/model.yaml:7:12 error fleet/image: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=frontend].podTemplate.spec.containers[name=main].image` is `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`; allowed: `registry.example.com/team-a`
      help: Take an image from there, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:7:12 error fleet/image: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.containers[name=main].image` is `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`, without a digest; allowed: `IMAGE@sha256:…`
      help: Add the digest that the registry shows for the tag.
    chat/model.yaml:7:12 error fleet/image: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.containers[name=main].image` is `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`; allowed: `registry.example.com/team-a`
      help: Take an image from there, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:9:3 error fleet/secret: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=frontend].podTemplate.spec.imagePullSecrets[0].name` names the Secret `nvcr`; allowed: `hf-*`
      help: Name another Secret, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:9:31 error fleet/secret: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.imagePullSecrets[0].name` names the Secret `nvcr`; allowed: `hf-*`
      help: Name another Secret, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:9:69 error fleet/service-account: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.serviceAccountName` names the service account `admin`; allowed: none
      help: Name another service account, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:11:32 error fleet/claim-size: fleet policy `tenants`: PersistentVolumeClaim models: `spec.resources.requests.storage` is 2Ti; allowed: at most 1Ti
      help: Ask for less, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:11:32 error fleet/kind: fleet policy `tenants`: PersistentVolumeClaim models is of a kind that is not allowed; allowed beside Dynamo's: `ConfigMap`
      help: Remove it from the model, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    "#);
}

#[test]
fn what_all_models_take_together_is_held_to_quotas() {
    let model = |gpus: &str| with(&format!("serving: {{worker: {{gpus: {gpus}, replicas: 2}}}}\n"));
    let models: &[(&str, &str)] = &[("chat", &model("4")), ("code", &model("4"))];
    assert_eq!(judged("quotas: {gpus: {h200_sxm: 16}, models: 2}", models), "");
    insta::assert_snapshot!(judged("quotas: {gpus: {h200_sxm: 15}, models: 1}", models), @r#"
    chat/model.yaml:3:18 error fleet/quota: fleet policy `tenants`: the models of the source take up to 16 GPUs of `h200_sxm`; allowed: at most 15; `chat` takes 8
      help: Take less, remove a model, or ask an administrator for more.
    chat/model.yaml:3:18 error fleet/quota: fleet policy `tenants`: the source has 2 models; allowed: at most 1; `chat` takes one of them
      help: Take less, remove a model, or ask an administrator for more.
    code/model.yaml:3:18 error fleet/quota: fleet policy `tenants`: the models of the source take up to 16 GPUs of `h200_sxm`; allowed: at most 15; `code` takes 8
      help: Take less, remove a model, or ask an administrator for more.
    code/model.yaml:3:18 error fleet/quota: fleet policy `tenants`: the source has 2 models; allowed: at most 1; `code` takes one of them
      help: Take less, remove a model, or ask an administrator for more.
    "#);
    insta::assert_snapshot!(judged("quotas: {gpus: {h100_sxm: 64}}", &models[..1]), @r#"
    chat/model.yaml:3:18 error fleet/quota: fleet policy `tenants`: the models of the source take up to 8 GPUs of `h200_sxm`; allowed: at most 0; `chat` takes 8
      help: Take less, remove a model, or ask an administrator for more.
    "#);
    assert_eq!(judged("quotas: {gpus: {'*': 64}}", models), "");
    // Bounds of a planner or an autoscaler count in full.
    let scaled = with("serving: {worker: {gpus: 4, scaling: {min: 1, max: 8}}}\n");
    insta::assert_snapshot!(judged("quotas: {gpus: {h200_sxm: 16}}", &[("chat", &scaled)]), @r#"
    chat/model.yaml:3:18 error fleet/quota: fleet policy `tenants`: the models of the source take up to 32 GPUs of `h200_sxm`; allowed: at most 16; `chat` takes 32
      help: Take less, remove a model, or ask an administrator for more.
    "#);
}

/// N5: a policy's expressions saw the intent alone, and not what is rendered of it.
#[test]
fn rules_in_cel_see_rendered_objects() {
    let aliases =
        with("serving: {worker: {gpus: 4, template: {spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]}}}}\n");
    let plain = with("serving: {worker: {gpus: 4}}\n");
    let rule = "rules:
  - name: names
    message: Pods may not change names.
    expression: >-
      objects.all(o, o.kind != 'DynamoGraphDeployment' ||
      o.spec.components.all(c, !has(c.podTemplate.spec.hostAliases)))
";
    assert_eq!(judged(rule, &[("chat", &plain)]), "");
    insta::assert_snapshot!(judged(rule, &[("chat", &aliases)]), @"
    chat/model.yaml:3:18 error fleet/expression: fleet policy `tenants`, rule `names`: Pods may not change names.
      help: Change the model so that this is true: objects.all(o, o.kind != 'DynamoGraphDeployment' || o.spec.components.all(c, !has(c.podTemplate.spec.hostAliases)))
    ");
}

/// N5: with every list set, all of this was allowed.
#[test]
fn what_asks_the_scheduler_for_more_is_held_to_lists() {
    let model = with(
        "serving:
  worker:
    gpus: 1
    template:
      metadata: {labels: {kai.scheduler/queue: of-others}}
      spec:
        nodeName: control-plane-1
        tolerations: [{operator: Exists}, {key: nvidia.com/gpu, operator: Exists}]
        priorityClassName: system-node-critical
        hostUsers: true
        runtimeClassName: other
        schedulerName: mine
        volumes: [{name: n, nfs: {server: a, path: /}}]
",
    );
    let spec = "pods:
  tolerations: [nvidia.com/gpu]
  priorityClasses: [batch-*]
  runtimeClasses: []
  schedulers: [default-scheduler]
  volumes: [emptyDir]
  labels: [app.kubernetes.io/*]
";
    insta::assert_snapshot!(judged(spec, &[("chat", &model)]), @r#"
    chat/model.yaml:13:50 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.metadata.labels["kai.scheduler/queue"]` names the label `kai.scheduler/queue`; allowed: `app.kubernetes.io/*`
      help: Name another label, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:15:21 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.nodeName` is `control-plane-1`; allowed at level `baseline`: nothing: the scheduler chooses
      help: Change `nodeName` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.
    chat/model.yaml:16:25 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.tolerations[0]` names every taint; allowed: `nvidia.com/gpu`
      help: Name another taint, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:17:30 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.priorityClassName` names the priority class `system-node-critical`; allowed: `batch-*`
      help: Name another priority class, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:18:22 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.hostUsers` is `true`; allowed at level `baseline`: `false`, or nothing
      help: Change `hostUsers` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.
    chat/model.yaml:19:29 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.runtimeClassName` names the runtime class `other`; allowed: none
      help: Name another runtime class, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:20:26 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.schedulerName` names the scheduler `mine`; allowed: `default-scheduler`
      help: Name another scheduler, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    chat/model.yaml:21:31 error fleet/pod: fleet policy `tenants`: DynamoGraphDeployment chat: `spec.components[name=worker].podTemplate.spec.volumes[name=n].nfs` names the kind of volume `nfs`; allowed: `emptyDir`
      help: Name another kind of volume, or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows.
    "#);
    let any = "pods: {level: privileged, tolerations: ['*'], labels: ['*'], priorityClasses: ['*']}";
    assert_eq!(judged(any, &[("chat", &model)]), "");
}

#[test]
fn rules_in_cel_are_the_policys_own() {
    let model = with("serving: {worker: {gpus: 4}}\n");
    let rule =
        |expression: &str| format!("rules: [{{name: small, message: Too large., expression: '{expression}'}}]\n");
    assert_eq!(judged(&rule("gpus <= 4"), &[("chat", &model)]), "");
    insta::assert_snapshot!(judged(&rule("gpus < 4"), &[("chat", &model)]), @r#"
    chat/model.yaml:3:18 error fleet/expression: fleet policy `tenants`, rule `small`: Too large.
      help: Change the model so that this is true: gpus < 4
    "#);
    insta::assert_snapshot!(judged(&rule("model.spec.sla.ttft == 1"), &[("chat", &model)]), @r#"
    chat/model.yaml:3:18 error fleet/expression: fleet policy `tenants`, rule `small` cannot be evaluated for this model: No such key: sla
      help: Ask an administrator to correct the expression; test for fields that may be missing with `has(…)`.
    "#);
}

#[test]
fn a_source_is_refused_as_a_whole() {
    let spec = "destinations: [team-a, team-a-*]
repositories: [git.example.com/team-a]
";
    let described = |destination: &str, repository: Option<&str>| {
        let source = JudgedSource { repository: repository.map(str::to_owned), ..JudgedSource::default() };
        report(&policies(spec).bind(&source, destination).refusals())
    };
    assert_eq!(described("team-a-dev", Some("git.example.com/team-a/models")), "");
    insta::assert_snapshot!(described("team-b", Some("git.example.com/team-abc/models")), @r#"
    stator.yaml:0:0 error fleet/destination: fleet policy `tenants`: objects would be written to namespace `team-b`; allowed: `team-a`, `team-a-*`
      help: Correct `namespace` of the environment in the root stator.yaml, or `targetNamespace` of the source.
    stator.yaml:0:0 error fleet/repository: fleet policy `tenants`: the repository is `git.example.com/team-abc/models`; allowed: `git.example.com/team-a`
      help: Follow a repository that the policy allows.
    "#);
    insta::assert_snapshot!(described("team-a", None), @"
    stator.yaml:0:0 error fleet/repository: fleet policy `tenants`: the repository is a local folder; allowed: `git.example.com/team-a`
      help: Follow a repository that the policy allows.
    ");
}

#[test]
fn a_policy_that_cannot_be_read_refuses_everything() {
    let policies = FleetPolicies::new([], vec!["forbidden".to_owned()]);
    let refusals = policies.bind(&JudgedSource::default(), "team-a").refusals();
    insta::assert_snapshot!(report(&refusals), @r#"
    stator.yaml:0:0 error fleet/unreadable: the policies of the fleet cannot be read: forbidden
      help: Ask an administrator to correct the policies; until then, nothing is written.
    "#);
}

#[test]
fn a_policy_binds_whom_it_names() {
    let source = |namespace: &str, name: Option<&str>| JudgedSource {
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
        ..JudgedSource::default()
    };
    for (scope, namespace, name, destination, binds) in [
        ("{}", "team-a", Some("models"), "team-a", false),
        ("{namespaces: [team-*]}", "team-a", Some("models"), "team-a", true),
        ("{namespaces: [team-*]}", "other", Some("models"), "team-a", true),
        ("{namespaces: [team-*]}", "team-a", Some("models"), "other", true),
        ("{namespaces: [team-*]}", "other", Some("models"), "other", false),
        ("{sources: [team-a/*]}", "team-a", Some("models"), "other", true),
        ("{sources: [team-a/models]}", "team-a", Some("others"), "team-a", false),
        // A name that is not known may be that one.
        ("{sources: [team-a/models]}", "team-a", None, "team-a", true),
        ("{sources: [team-a/models]}", "team-b", None, "team-b", false),
    ] {
        let bound = policies(&format!("appliesTo: {scope}")).bind(&source(namespace, name), destination);
        assert_eq!(!bound.is_empty(), binds, "{scope} {namespace} {name:?} {destination}");
    }
    assert!(!policies("destinations: [a]").bind(&source("any", None), "any").is_empty());
}

#[test]
fn an_exception_holds_for_its_values_alone() {
    let model = |path: &str| {
        with(&format!(
            "serving: {{worker: {{gpus: 1, template: {{spec: {{volumes: [{{name: n, hostPath: {{path: {path}}}}}]}}}}}}}}\n"
        ))
    };
    let spec = "pods: {exceptions: [{field: hostPath, values: [/var/lib/models]}]}";
    for (path, is_allowed) in [
        ("/var/lib/models", true),
        ("/var/lib/models/one", true),
        ("/var/lib", false),
        ("/var/lib/models-of-others", false),
        ("/var/lib/models/../../..", false),
    ] {
        assert_eq!(judged(spec, &[("chat", &model(path))]).is_empty(), is_allowed, "{path}");
    }
    assert_eq!(judged("pods: {level: privileged}", &[("chat", &model("/"))]), "");
}

#[test]
fn faults_of_a_file_are_all_told_with_their_places() {
    let text = "apiVersion: stator.dev/v1alpha1
kind: FleetPolicy
metadata: {name: one}
spec:
  pods: {level: strict, exceptions: [{field: hostNetworks}]}
  destination: [a]
  images: {registries: ['https://x']}
  quotas: {gpus: {'h200 sxm': 1}, claimSize: big}
  rules: [{name: a, message: b, expression: 'gpus <'}]
";
    insta::assert_snapshot!(report(&read_policies("p.yaml", text.as_bytes()).unwrap_err()), @"
    p.yaml:5:17 error schema/unknown-word: `spec.pods.level` is `strict`; expected one of `privileged`, `baseline`, `restricted`
      help: Use one of these values.
    p.yaml:5:46 error schema/unknown-word: `spec.pods.exceptions[0].field` is `hostNetworks`; expected one of `hostProcess`, `hostNetwork`, `hostPID`, `hostIPC`, `hostUsers`, `nodeName`, `privileged`, `capabilities`, `hostPath`, `hostPort`, `probeHost`, `appArmorProfile`, `seLinuxOptions`, `procMount`, `seccompProfile`, `sysctls`, `finalizers`, `ownerReferences`, `selectingLabels`, `volumes`, `allowPrivilegeEscalation`, `runAsNonRoot`, `runAsUser`
      help: Did you mean `hostNetwork`?
    p.yaml:6:3 error schema/unknown-field: unknown field `destination` in `spec`
      help: Did you mean `destinations`?
    p.yaml:8:19 error schema/format: `h200 sxm` is not a name for `spec.quotas.gpus`: expected a string that matches `^([A-Za-z0-9][-A-Za-z0-9._]*|[*])$`
      help: Rename it, for example to `h200-sxm`.
    p.yaml:8:46 error schema/format: `spec.quotas.claimSize` is `big`; expected a quantity such as `500Gi`, `2` or `500m`
      help: Write it like `500Gi`.
    p.yaml:9:45 error policy/compile: not a CEL expression: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (column 7 of the expression)
      help: Correct it; `stator explain policy` shows the variables of an expression.
    ");
    let twice = "apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {name: one}\n---\n".repeat(2);
    insta::assert_snapshot!(report(&read_policies("p.yaml", twice.as_bytes()).unwrap_err()), @r#"
    p.yaml:7:18 error fleet/document: a second policy `one`
      help: Rename one of them.
    "#);
    insta::assert_snapshot!(report(&read_policies("p.yaml", b"").unwrap_err()), @r#"
    p.yaml:0:0 error yaml/empty: the file is empty
      help: Write a document, or remove the file.
    "#);
}
