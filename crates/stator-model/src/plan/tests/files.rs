//! Files that pods mount, from one content to the next.

use super::world::{PlanScenario, show, texts};
use crate::plan::{Action, HoldKind, RevisionComparison, compare_revisions};
use crate::render::RenderedModel;
use crate::render::tests::{of_model, target};
use crate::render::{RenderTarget, render};
use serde_json::json;

/// A model whose decode worker mounts a file, with this content of it.
fn model(content: Option<&str>, more: &str) -> RenderedModel {
    let files = content.map_or(String::new(), |content| {
        let file = json!({"from": "engine/decode.yaml", "mountPath": "/e/decode.yaml", "components": ["decode"]});
        let _ = content;
        format!("  files: {{engine: {file}}}\n")
    });
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: chat}}\nspec:\n  model: m\n  engine: trtllm\n  \
         runtime: 1.2.0\n{files}{more}  serving:\n    prefill: {{gpus: 1}}\n    decode: {{gpus: 1}}\n"
    );
    let mut intent = of_model(serde_saphyr::from_str(&text).unwrap());
    if let Some(content) = content {
        intent.files.insert("engine".to_owned(), content.as_bytes().into());
    }
    render(&intent, &RenderTarget { namespace: "prod".to_owned(), ..target() })
}

fn serving(content: &str) -> PlanScenario {
    let mut story = PlanScenario::synced([model(Some(content), "")]);
    story.ready("chat");
    story
}

fn config_maps(story: &PlanScenario) -> usize {
    story.live.values().filter(|one| one.kind() == "ConfigMap").count()
}

const ONE: &str = "tensor_parallel_size: 1\nmax_num_tokens: 8192\napi_key: s3cr3t-Value\n";
const TWO: &str = "tensor_parallel_size: 1\nmax_num_tokens: 4096\napi_key: s3cr3t-Value\n";

#[test]
fn new_content_is_another_config_map_and_the_old_one_goes_once_the_graph_is_healthy() {
    let mut story = serving(ONE);
    assert_eq!(config_maps(&story), 1);
    story.rendered = vec![model(Some(TWO), "")];
    insta::assert_snapshot!(story.show(), @r#"
    Create chat ConfigMap prod/chat-engine-1364839a22 none 0->0 peak 0 [apply]
      - holds the new content of file `engine` (engine/decode.yaml)
    Update chat DynamoGraphDeployment prod/chat managed-roll 2->2 peak 4 [apply]
      spec.components[name=decode].podTemplate.spec.volumes[name=file-engine].configMap: {"name":"chat-engine-5a689bd519"} -> {"name":"chat-engine-1364839a22"} (stator)
      - changed in git
      - all 2 worker components roll (decode, prefill): the operator hashes them together
      - decode mounts the new content of file `engine` (engine/decode.yaml)
    Delete chat ConfigMap prod/chat-engine-5a689bd519 none 0->0 peak 0 [delete]
      - ConfigMap prod/chat-engine-1364839a22 holds the file's new content; deleted once no pod mounts the old one
    "#);
    let plan = story.plan();
    // Both sides of the file are one line's, and what looks like a secret is hidden in them.
    let [created] = &plan.changes.iter().filter(|one| one.action == Action::Create).collect::<Vec<_>>()[..] else {
        panic!("{}", show(&plan))
    };
    let content =
        |side: &Option<stator_core::object::JsonText>| side.as_ref().unwrap().parse()["data"]["decode.yaml"].clone();
    insta::assert_snapshot!(format!("{}\n{}", content(&created.before), content(&created.after)), @r#"
    "tensor_parallel_size: 1\nmax_num_tokens: 8192\napi_key: ***\n"
    "tensor_parallel_size: 1\nmax_num_tokens: 4096\napi_key: ***\n"
    "#);
    story.carry_out(&plan);
    assert_eq!(config_maps(&story), 2, "the graph is not Healthy yet");
    let waiting = story.plan();
    assert!(waiting.changes.iter().any(|one| one.action == Action::Delete), "{}", show(&waiting));
    story.ready("chat");
    story.sync();
    assert_eq!(config_maps(&story), 1);
}

#[test]
fn what_is_compared_by_revision_says_the_same() {
    let (base, head) = ([model(Some(ONE), "")], [model(Some(TWO), "")]);
    let comparison = RevisionComparison { base: &texts(&base), head: &texts(&head), ..RevisionComparison::default() };
    insta::assert_snapshot!(show(&compare_revisions(&comparison)), @r#"
    Create chat ConfigMap prod/chat-engine-1364839a22 none 0->0 peak 0
      - holds the new content of file `engine` (engine/decode.yaml)
    Update chat DynamoGraphDeployment prod/chat managed-roll 2->2 peak 4
      spec.components[name=decode].podTemplate.spec.volumes[name=file-engine].configMap: {"name":"chat-engine-5a689bd519"} -> {"name":"chat-engine-1364839a22"} (stator)
      - all 2 worker components roll (decode, prefill): the operator hashes them together
      - decode mounts the new content of file `engine` (engine/decode.yaml)
    Delete chat ConfigMap prod/chat-engine-5a689bd519 none 0->0 peak 0
      - ConfigMap prod/chat-engine-1364839a22 holds the file's new content; deleted once no pod mounts the old one
    "#);
}

/// A guard holds the graph back: its pods mount the old content, and may start again at any time.
#[test]
fn the_old_content_stays_while_the_graph_is_held_back() {
    let mut story = serving(ONE);
    // Another number of nodes is another graph.
    let text = "  overrides:\n  - target: {kind: DynamoGraphDeployment}\n    merge: {spec: {backendFramework: vllm}}\n";
    story.rendered = vec![model(Some(TWO), text)];
    let plan = story.plan();
    insta::assert_snapshot!(show(&plan).lines().filter(|line| !line.starts_with("  spec")).collect::<Vec<_>>().join("\n"), @"
    Create chat ConfigMap prod/chat-engine-1364839a22 none 0->0 peak 0 [apply]
      - holds the new content of file `engine` (engine/decode.yaml)
    Replace chat DynamoGraphDeployment prod/chat recreate 2->2 peak 2
      - changed in git
      - all 2 worker components roll (decode, prefill): the operator hashes them together
      - Dynamo forbids changing the backend of a graph in place
      - held back: `--allow replace` deletes it and creates it again
      - decode mounts the new content of file `engine` (engine/decode.yaml)
    Delete chat ConfigMap prod/chat-engine-5a689bd519 none 0->0 peak 0
      - ConfigMap prod/chat-engine-1364839a22 holds the file's new content; deleted once no pod mounts the old one
      - git no longer has it; it stays, because DynamoGraphDeployment prod/chat uses it, whose change is held back
    hold Replace allowed=false: Dynamo forbids these changes in place; to be deleted and created again: DynamoGraphDeployment prod/chat
    warning[dynamo/backend-mismatch] : the graph's framework is vllm and `decode` runs dynamo.trtllm
    warning[dynamo/backend-mismatch] : the graph's framework is vllm and `prefill` runs dynamo.trtllm
    ");
    story.carry_out(&plan);
    assert_eq!(config_maps(&story), 2);
    story.allow = vec![HoldKind::Replace];
    let plan = story.plan();
    story.carry_out(&plan);
    story.ready("chat");
    story.sync();
    assert_eq!(config_maps(&story), 1);
}

#[test]
fn a_file_that_git_no_longer_has_goes_after_the_graph_that_mounted_it() {
    let mut story = serving(ONE);
    story.rendered = vec![model(None, "")];
    insta::assert_snapshot!(story.show(), @r#"
    Update chat DynamoGraphDeployment prod/chat managed-roll 2->2 peak 4 [apply]
      spec.components[name=decode].podTemplate.spec.containers[name=main].volumeMounts: [{"mountPath":"/e/decode.yaml","name":"file-engine","readOnly":true,"subPath":"decode.yaml"}] -> null (stator)
      spec.components[name=decode].podTemplate.spec.volumes: [{"configMap":{"name":"chat-engine-5a689bd519"},"name":"file-engine"}] -> null (stator)
      - changed in git
      - all 2 worker components roll (decode, prefill): the operator hashes them together
    Delete chat ConfigMap prod/chat-engine-5a689bd519 none 0->0 peak 0 [delete]
      - the model no longer has it
    "#);
    let plan = story.plan();
    story.carry_out(&plan);
    assert_eq!(config_maps(&story), 1);
    story.ready("chat");
    story.sync();
    assert_eq!(config_maps(&story), 0);
}

/// Labels that are gone keep the graph, and the graph keeps what its pods mount.
#[test]
fn a_graph_that_is_kept_keeps_its_files() {
    let mut story = serving(ONE);
    let other = super::world::small("other");
    story.rendered.push(other.clone());
    story.sync();
    story
        .edit("kubectl-edit", "DynamoGraphDeployment", "chat", |value| value["metadata"]["labels"] = json!({"a": "b"}));
    story.rendered = vec![other];
    let plan = story.plan();
    insta::assert_snapshot!(show(&plan), @"
    Blocked chat DynamoGraphDeployment prod/chat none 2->2 peak 2
      - git no longer has it, but its labels no longer mark it as managed by stator: delete it by hand
    Keep other DynamoGraphDeployment prod/other none 1->1 peak 1
    Keep chat ConfigMap prod/chat-engine-5a689bd519 none 0->0 peak 0
      - git no longer has it; it stays, because DynamoGraphDeployment prod/chat uses it
    warning[plan/leftover] chat/model.yaml: DynamoGraphDeployment prod/chat stays and holds 2 GPUs: git no longer has it, but its labels no longer mark it as managed by stator: delete it by hand
    ");
    story.carry_out(&plan);
    assert_eq!(config_maps(&story), 1);
}

/// A model goes with all that it mounts; many files are no mass deletion.
#[test]
fn files_are_not_counted_among_deletions() {
    let files: Vec<String> = (0..7).map(|number| format!("f{number}: {{text: x, mountPath: /f/{number}}}")).collect();
    let many = model(None, &format!("  files: {{{}}}\n", files.join(", ")));
    let other = super::world::small("other");
    let mut story = PlanScenario::synced([many, other.clone()]);
    assert_eq!(config_maps(&story), 7);
    story.rendered = vec![other];
    assert_eq!(story.plan().holds, []);
    story.sync();
    assert_eq!(config_maps(&story), 0);
}
