use super::*;
use crate::intent::tests::loaded;
use crate::intent::{SourceFile, Workspace};
use crate::present::{TerminalOptions, upgrade as present};
use crate::render::{RenderTarget, RenderedModel, render_all};
use stator_core::finding::Location;
use std::sync::Arc;

const ROOT: &str = "apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: models}
spec:
  environments:
    prod: {namespace: prod, include: [models/**]}
";

fn tree(files: &[(&str, &str)]) -> SourceTree {
    let mut files: Vec<SourceFile> = files
        .iter()
        .chain(&[("stator.yaml", ROOT)])
        .map(|(path, text)| SourceFile { path: (*path).to_owned(), content: Ok(Arc::from(text.as_bytes())) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    SourceTree { files, ..SourceTree::default() }
}

fn render(tree: &SourceTree, release: Release, platform: &Platform) -> RenderedSide {
    let selection = Workspace::parse(tree).resolve_environment(Some("prod")).unwrap();
    let target = RenderTarget {
        repository: "models".into(),
        environment: "prod".into(),
        namespace: "prod".into(),
        platform: Platform { dynamo: Some(release), ..platform.clone() },
    };
    let models = render_all(&loaded(&selection), &target).into_iter().map(RenderedModel::into_text);
    RenderedSide { models: models.collect(), broken: selection.broken }
}

fn foreseen_on(files: &[(&str, &str)], from: Release, to: Release, platform: &Platform) -> UpgradeForesight {
    foresee(&UpgradeQuestion {
        environment: "prod",
        from,
        to,
        platform,
        tree: &tree(files),
        is_asked: &|_| true,
        live: &BTreeMap::new(),
        render: &|tree, release| render(tree, release, platform),
    })
}

fn shown(foresight: &UpgradeForesight) -> String {
    present::text(foresight, false, &TerminalOptions::default())
}

fn model(name: &str, spec: &str) -> String {
    format!("apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: org/m\n{spec}")
}

#[test]
fn a_repository_of_many_habits_is_told_all_of_it_once_with_a_patch_and_an_order() {
    let chat = model(
        "chat",
        "  engine: vllm\n  # Ours, with a patch.\n  image: host:5000/vllm:1.2.0_ours  # never latest\n  serving:\n    prefill: {gpus: 2, replicas: 2}\n    decode: {gpus: 2, replicas: 2}\n",
    );
    let new = model("new", "  engine: vllm\n  runtime: 1.5.0\n  serving: {worker: {gpus: 4, replicas: 2}}\n");
    let bad = model("bad", "  engine: vllm\n  runtime: 1.2.0\n  serving: {worker: {gpus: 1, image: ''}}\n");
    let limited = model(
        "limited",
        "  engine: vllm\n  runtime: 1.2.0\n  serving:\n    worker:\n      gpus: 1\n      args: [--connector, nixl]\n      template: {metadata: {annotations: {dynamo.nvidia.com/gpu-power-limit: none}}}\n",
    );
    let files = [
        ("models/chat/model.yaml", chat.as_str()),
        ("models/new/model.yaml", &new),
        ("models/bad/model.yaml", &bad),
        ("models/limited/model.yaml", &limited),
    ];
    let foresight = foreseen_on(&files, Release::V1_2, Release::V1_5, &Platform::default());
    assert!(foresight.is_refused());
    insta::assert_snapshot!(shown(&foresight), @r#"
    Dynamo 1.2 → 1.5 for 4 models of prod: 2 models are refused, and the patch corrects that; the operator restarts 1 model by itself (8 of 17 GPUs, at most 21 meanwhile); 1 model has fields that can no longer change; 1 model uses what is deprecated; 1 model has errors and is not judged.

    chat  models/chat/model.yaml
      refused     models/chat/model.yaml:8:10: [dynamo/image-version] `host:5000/vllm:1.2.0_ours`: tag `1.2.0_ours` is not a version, and Dynamo 1.4 and later refuse an image without one
                  in the patch: `runtimeVersion: 1.2.0`, as the tag `1.2.0_ours` says

    limited  models/limited/model.yaml
      refused     models/limited/model.yaml:12:78: [dynamo/annotation-value] `dynamo.nvidia.com/gpu-power-limit` is `none`, which is not a whole number of watts
                  in the patch: remove `spec.serving.worker.template.metadata.annotations.dynamo.nvidia.com/gpu-power-limit`
      frozen      spec.components[name=worker].podTemplate of DynamoGraphDeployment prod/limited: Dynamo forbids changing the GPUs of `worker` in place, as it has a power limit
      frozen      spec.components[name=worker].podTemplate.metadata.annotations["dynamo.nvidia.com/gpu-power-limit"] of DynamoGraphDeployment prod/limited: Dynamo forbids changing the power limit of `worker` in place
      deprecated  models/limited/model.yaml:11:14: the flag `--connector` is deprecated since release 1.2; no release removes it yet (Give `--kv-transfer-config` to the engine.)

    new  models/new/model.yaml
      restarts    worker of DynamoGraphDeployment prod/new (managed-roll, since 1.5): The runtime's version is part of the workers' hash from 1.5.0 on
      GPUs        8 of 8 restart, at most 12 meanwhile

    In this order
      1. Correct 1 model that cannot be judged: `stator validate` lists the errors.
      2. While Dynamo 1.2 runs: merge the patch, which `--write` writes, and sync: that writes 1 object and restarts `limited` (managed-roll), with at most 18 GPUs meanwhile.
      3. For 1.4: install the Grove that goes with the release, where graphs run on Grove; and set `global.nats.install` in the chart's values to what you have now: its default changed, and another value restarts every pod of every graph.
      4. For 1.5: install the Snapshot operator first, where graphs have checkpoints.
      5. Upgrade Dynamo's definitions and operator to 1.5, by way of 1.3 and 1.4 as Dynamo asks for: it restarts pods of `new` by itself.
      6. Once it runs: set `platform: {dynamo: "1.5"}` of the environment in stator.yaml, merge, and sync: that writes 1 object and restarts nothing.

    Patch
    diff --git a/models/chat/model.yaml b/models/chat/model.yaml
    --- a/models/chat/model.yaml
    +++ b/models/chat/model.yaml
    @@ -6,6 +6,7 @@
       engine: vllm
       # Ours, with a patch.
       image: host:5000/vllm:1.2.0_ours  # never latest
    +  runtimeVersion: 1.2.0
       serving:
         prefill: {gpus: 2, replicas: 2}
         decode: {gpus: 2, replicas: 2}
    diff --git a/models/limited/model.yaml b/models/limited/model.yaml
    --- a/models/limited/model.yaml
    +++ b/models/limited/model.yaml
    @@ -9,4 +9,4 @@
         worker:
           gpus: 1
           args: [--connector, nixl]
    -      template: {metadata: {annotations: {dynamo.nvidia.com/gpu-power-limit: none}}}
    +      template: {metadata: {annotations: {}}}
    "#);
}

#[test]
fn a_shared_file_is_corrected_where_it_says_it_and_for_all_at_once() {
    let root = ROOT.replace("  environments:", "  defaults:\n    image: host/vllm:nightly  # for all\n  environments:");
    let one = model("one", "  engine: vllm\n  serving: {worker: {gpus: 1}}\n");
    let two = model("two", "  engine: vllm\n  serving: {worker: {gpus: 1}}\n");
    let files = [("stator.yaml", root.as_str()), ("models/one/model.yaml", &one), ("models/two/model.yaml", &two)];
    let foresight = foreseen_on(&files, Release::V1_3, Release::V1_4, &Platform::default());
    let patches: Vec<&str> = foresight.corrections.iter().map(|one| one.patch.as_str()).collect();
    assert_eq!((foresight.summary.refused, foresight.summary.corrected), (2, 2));
    insta::assert_snapshot!(patches.concat(), @"
    diff --git a/stator.yaml b/stator.yaml
    --- a/stator.yaml
    +++ b/stator.yaml
    @@ -4,5 +4,6 @@
     spec:
       defaults:
         image: host/vllm:nightly  # for all
    +    runtimeVersion: 1.3.0
       environments:
         prod: {namespace: prod, include: [models/**]}
    ");
}

/// Who asks about one model gets no edit of a shared file by which another one is refused.
#[test]
fn a_shared_file_is_not_corrected_at_the_cost_of_a_model_that_nobody_asked_about() {
    let root =
        ROOT.replace("  environments:", "  defaults: {priorityClassName: high, runtime: 1.4.0}\n  environments:");
    let one = model("one", "  engine: vllm\n  serving: {worker: {gpus: 1}}\n");
    let two = model("two", "  engine: vllm\n  serving: {worker: {gpus: 1}}\n");
    // A policy of administrators wants the class of the second model.
    let render = |tree: &SourceTree, release: Release| {
        let mut side = render(tree, release, &Platform::default());
        for two in side.models.iter_mut().filter(|one| one.model == "two" && !one.intent.to_text().contains("high")) {
            two.findings.push(Finding::error(rules::SCHEMA, Location::file("stator.yaml"), "no class", "give one"));
        }
        side
    };
    let files = [("stator.yaml", root.as_str()), ("models/one/model.yaml", &one), ("models/two/model.yaml", &two)];
    let platform = Platform::default();
    let foresight = foresee(&UpgradeQuestion {
        environment: "prod",
        from: Release::V1_5,
        to: Release::V1_2,
        platform: &platform,
        tree: &tree(&files),
        is_asked: &|source| source.starts_with("models/one/"),
        live: &BTreeMap::new(),
        render: &render,
    });
    assert_eq!((foresight.summary.refused, foresight.summary.corrected), (1, 0));
    assert!(foresight.corrections.is_empty() && foresight.later_corrections.is_empty(), "{foresight:#?}");
}

#[test]
fn on_the_way_back_what_the_older_release_has_no_word_for_is_taken_away() {
    let gang = model(
        "gang",
        "  engine: vllm\n  runtime: 1.4.0\n  priorityClassName: high\n  serving: {worker: {gpus: 1, replicas: 2, minAvailable: 2}}\n",
    );
    let files = [("models/gang/model.yaml", gang.as_str())];
    let foresight = foreseen_on(&files, Release::V1_5, Release::V1_2, &Platform::from_api_groups(["grove.io"]));
    insta::assert_snapshot!(shown(&foresight), @r#"
    Dynamo 1.5 → 1.2 for 1 model of prod: 1 model is refused, and the patch corrects that; the operator restarts 1 model by itself (2 of 2 GPUs).

    gang  models/gang/model.yaml
      refused     models/gang/model.yaml:8:22: [dynamo/schema] `spec.priorityClassName` is a field of Dynamo 1.3 and later; this is checked against 1.2
                  in the patch: remove `spec.priorityClassName`
      refused     models/gang/model.yaml:9:58: [dynamo/schema] `spec.components[name=worker].minAvailable` is a field of Dynamo 1.3 and later; this is checked against 1.2
                  in the patch for then: remove `spec.serving.worker.minAvailable`
      restarts    worker of DynamoGraphDeployment prod/gang (likely, native-roll, since 1.5): On Grove, a change of one worker replaces every worker of the graph
      GPUs        2 of 2 restart, at most 2 meanwhile

    In this order
      1. While Dynamo 1.5 runs: merge the patch, which `--write` writes, and sync: that writes 1 object and restarts nothing.
      2. Return Dynamo's definitions and operator to 1.2, by way of 1.4 and 1.3 as Dynamo asks for: it is likely to restart pods of `gang`.
      3. Once it runs: set `platform: {dynamo: "1.2"}` of the environment in stator.yaml, write the rest with `stator check --dynamo 1.2 --write`, merge, and sync: that writes nothing.

    Patch
    diff --git a/models/gang/model.yaml b/models/gang/model.yaml
    --- a/models/gang/model.yaml
    +++ b/models/gang/model.yaml
    @@ -5,5 +5,4 @@
       model: org/m
       engine: vllm
       runtime: 1.4.0
    -  priorityClassName: high
       serving: {worker: {gpus: 1, replicas: 2, minAvailable: 2}}

    Patch once Dynamo 1.2 runs
    diff --git a/models/gang/model.yaml b/models/gang/model.yaml
    --- a/models/gang/model.yaml
    +++ b/models/gang/model.yaml
    @@ -5,4 +5,4 @@
       model: org/m
       engine: vllm
       runtime: 1.4.0
    -  serving: {worker: {gpus: 1, replicas: 2, minAvailable: 2}}
    +  serving: {worker: {gpus: 1, replicas: 2}}
    "#);
}

/// What both releases refuse is somebody's mistake, and nothing that an upgrade could take away.
#[test]
fn a_mistake_of_today_is_left_to_people() {
    let typo = model(
        "typo",
        "  engine: vllm\n  runtime: 1.4.0\n  serving: {worker: {gpus: 1}}\n  overrides:\n    - target: {kind: DynamoGraphDeployment}\n      merge: {spec: {prioritiClassName: high}}\n",
    );
    let files = [("models/typo/model.yaml", typo.as_str())];
    let foresight = foreseen_on(&files, Release::V1_4, Release::V1_5, &Platform::default());
    assert_eq!((foresight.summary.refused, foresight.summary.corrected), (1, 0));
    assert!(foresight.models[0].refused[0].already && foresight.corrections.is_empty(), "{foresight:#?}");
}

/// Nothing is told where nothing differs, and correcting what was corrected changes nothing.
#[test]
fn a_corrected_repository_has_nothing_left_to_correct() {
    let chat = model("chat", "  engine: vllm\n  image: host/vllm:mine\n  serving: {worker: {gpus: 1}}\n");
    let files = [("models/chat/model.yaml", chat.as_str())];
    let first = foreseen_on(&files, Release::V1_2, Release::V1_5, &Platform::default());
    let corrected = [("models/chat/model.yaml", first.corrections[0].text.as_str())];
    let second = foreseen_on(&corrected, Release::V1_2, Release::V1_5, &Platform::default());
    assert!(!second.is_refused() && second.corrections.is_empty() && second.models.is_empty(), "{second:#?}");
    let same = foreseen_on(&corrected, Release::V1_5, Release::V1_5, &Platform::default());
    assert!(same.models.is_empty() && same.steps.is_empty(), "{same:#?}");
}
