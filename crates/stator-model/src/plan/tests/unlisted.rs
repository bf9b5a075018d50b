//! Kinds that cannot be listed.

use super::world::{PlanScenario, show};
use crate::plan::{UnlistedCause, UnlistedKind};
use crate::render::RenderedModel;
use crate::render::tests::{of_model, target};
use crate::render::{RenderTarget, render};
use stator_core::dynamo::kinds::CONFIG_MAP;
use stator_core::object::Object;

fn model(name: &str, more: &str) -> RenderedModel {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: m\n  engine: vllm\n  \
         runtime: 1.2.0\n{more}  serving: {{worker: {{gpus: 1}}}}\n"
    );
    let intent = of_model(serde_saphyr::from_str(&text).unwrap());
    render(&intent, &RenderTarget { namespace: "prod".to_owned(), ..target() })
}

const FILE: &str = "  files: {banner: {text: hello, mountPath: /etc/banner}}\n";

fn forbidden() -> UnlistedKind {
    let (message, fix) = ("configmaps is forbidden".to_owned(), "grant `list` on `configmaps`".to_owned());
    UnlistedKind { kind: CONFIG_MAP, cause: UnlistedCause::Forbidden { message, fix } }
}

/// The plan, and what it finds.
fn seen(story: &PlanScenario) -> String {
    let plan = story.plan();
    let findings = plan.findings.iter().map(|one| format!("{}: {} ({})\n", one.rule.id, one.message, one.help));
    format!("{}\n{}", show(&plan), findings.collect::<String>())
}

#[test]
fn a_model_that_needs_such_a_kind_is_held_and_the_others_go_on() {
    let mut story = PlanScenario::of([model("mounts", FILE), model("plain", "")]);
    story.unlisted = vec![forbidden()];
    insta::assert_snapshot!(seen(&story), @"
    Blocked mounts ConfigMap prod/mounts-banner-1c6409d72d none 0->0 peak 0
      - ConfigMaps cannot be listed: configmaps is forbidden
    Blocked mounts DynamoGraphDeployment prod/mounts none 0->0 peak 0
      - waits for ConfigMap prod/mounts-banner-1c6409d72d, which cannot be applied
    Create plain DynamoGraphDeployment prod/plain none 0->1 peak 1 [apply]
      - is not in the cluster yet
    error[plan/unlisted-kind] mounts/model.yaml: ConfigMap prod/mounts-banner-1c6409d72d stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden
    plan/unlisted-kind: ConfigMap prod/mounts-banner-1c6409d72d stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden (grant `list` on `configmaps`)
    ");
    story.sync();
    assert_eq!(story.live.len(), 1, "the graph of the other model");
    // Once it may be listed, everything is made.
    story.unlisted.clear();
    story.sync();
    assert_eq!(story.live.len(), 3);
}

#[test]
fn what_a_record_names_stays_and_the_record_goes_on_naming_it() {
    let mut story = PlanScenario::synced([model("mounts", FILE), model("plain", "")]);
    story.ready("mounts");
    let config_maps = |story: &PlanScenario| -> Vec<Object> {
        story.live.values().filter(|one| one.kind() == "ConfigMap").cloned().collect()
    };
    let hidden = config_maps(&story);
    story.live.retain(|_, object| object.kind() != "ConfigMap");
    story.unlisted = vec![forbidden()];
    // git drops the file, and then the model.
    story.rendered = vec![model("mounts", ""), model("plain", "")];
    insta::assert_snapshot!(seen(&story), @r#"
    Blocked mounts ConfigMap prod/mounts-banner-1c6409d72d none 0->0 peak 0
      - git no longer has it; it is kept, if it still exists: ConfigMaps cannot be listed: configmaps is forbidden
    Update mounts DynamoGraphDeployment prod/mounts managed-roll 1->1 peak 2 [apply]
      spec.components[name=worker].podTemplate.spec.containers[name=main].volumeMounts: [{"mountPath":"/etc/banner","name":"file-banner","readOnly":true,"subPath":"banner"}] -> null (stator)
      spec.components[name=worker].podTemplate.spec.volumes: [{"configMap":{"name":"mounts-banner-1c6409d72d"},"name":"file-banner"}] -> null (stator)
      - changed in git
    Keep plain DynamoGraphDeployment prod/plain none 1->1 peak 1
    error[plan/unlisted-kind] mounts/model.yaml: ConfigMap prod/mounts-banner-1c6409d72d stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden
    plan/unlisted-kind: ConfigMap prod/mounts-banner-1c6409d72d stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden (grant `list` on `configmaps`)
    "#);
    story.rendered = vec![model("plain", "")];
    insta::assert_snapshot!(seen(&story), @"
    Blocked mounts ConfigMap prod/mounts-banner-1c6409d72d none 0->0 peak 0
      - git no longer has it; it is kept, if it still exists: ConfigMaps cannot be listed: configmaps is forbidden
    Keep plain DynamoGraphDeployment prod/plain none 1->1 peak 1
    Delete mounts DynamoGraphDeployment prod/mounts delete 1->0 peak 1 [delete]
      - model mounts is no longer in git
    error[plan/unlisted-kind] mounts/model.yaml: ConfigMap prod/mounts-banner-1c6409d72d stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden
    plan/unlisted-kind: ConfigMap prod/mounts-banner-1c6409d72d stays unchanged, because ConfigMaps cannot be listed: configmaps is forbidden (grant `list` on `configmaps`)
    ");
    story.sync();
    assert!(story.records.contains_key("mounts"), "{:?}", story.records);
    // Seen again, it is pruned by what the record says of it.
    story.live.extend(hidden.into_iter().map(|one| (one.reference().identity(), one)));
    story.unlisted.clear();
    story.sync();
    assert_eq!((config_maps(&story).len(), story.records.contains_key("mounts")), (0, false));
}

#[test]
fn nothing_is_left_of_a_kind_that_the_cluster_no_longer_serves() {
    let mut story = PlanScenario::synced([model("mounts", FILE), model("plain", "")]);
    story.live.retain(|_, object| object.kind() != "ConfigMap");
    story.unlisted = vec![UnlistedKind { kind: CONFIG_MAP, cause: UnlistedCause::NotServed }];
    insta::assert_snapshot!(seen(&story), @"
    Blocked mounts ConfigMap prod/mounts-banner-1c6409d72d none 0->0 peak 0
      - the cluster does not serve v1 ConfigMap
    Keep mounts DynamoGraphDeployment prod/mounts none 1->1 peak 1
    Keep plain DynamoGraphDeployment prod/plain none 1->1 peak 1
    error[plan/unlisted-kind] mounts/model.yaml: ConfigMap prod/mounts-banner-1c6409d72d is not applied: the cluster does not serve v1 ConfigMap
    plan/unlisted-kind: ConfigMap prod/mounts-banner-1c6409d72d is not applied: the cluster does not serve v1 ConfigMap (the cluster is too old: it has to serve ConfigMap at `v1`)
    ");
    story.rendered = vec![model("mounts", ""), model("plain", "")];
    story.sync();
    assert!(story.plan().findings.is_empty(), "{}", seen(&story));
}
