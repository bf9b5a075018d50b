//! Which release of Dynamo models are judged by, and what each makes of the same file.

use super::{MOCK, ROOT};
use crate::cluster::place;
use crate::testbed;
use crate::workbench::Workbench;
use insta::assert_snapshot;
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::kinds::GRAPH;
use std::collections::BTreeMap;

const DIGEST: &str =
    "image: registry.example/dynamo@sha256:c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";

fn bench_of(model: &str) -> Workbench {
    Workbench::with(&[("stator.yaml", ROOT), ("models/mock/model.yaml", model)])
}

/// A model with a field of Dynamo 1.3.
fn with_min_available() -> String {
    MOCK.replace("      replicas: 2\n", "      replicas: 2\n      minAvailable: 2\n")
}

#[test]
fn an_image_without_a_version_needs_one_beside_it_from_the_release_that_asks_for_it() {
    let bench = bench_of(&MOCK.replace("runtime: 1.2.0", DIGEST));
    let validate = |release: &str| bench.run(["validate", "-o", "concise", "--dynamo", release]);
    assert_snapshot!(validate("1.2"), @"
    exit 0
    ----- stdout -----
    models/mock/model.yaml:8:10: warning[dynamo/image-version] `registry.example/dynamo@sha256:[DIGEST]`: there is a digest and no tag; Dynamo 1.4 and later read the runtime's version from it and refuse others (use a tag such as `1.2.0`; or give `runtimeVersion` beside the image)
    Found 1 warning (1 model checked).
    ----- stderr -----
    ");
    assert_snapshot!(validate("1.4"), @"
    exit 1
    ----- stdout -----
    models/mock/model.yaml:8:10: error[dynamo/image-version] `registry.example/dynamo@sha256:[DIGEST]`: there is a digest and no tag, and Dynamo 1.4 and later refuse an image without one (give `runtimeVersion: 1.4.0` beside the image, with the version of Dynamo that is in it; or use a tag such as `1.4.0`)
    Found 1 error (1 model checked).
    ----- stderr -----
    ");
    bench
        .write("models/mock/model.yaml", MOCK.replace("runtime: 1.2.0", &format!("{DIGEST}\n  runtimeVersion: 1.4.0")));
    let rendered = |release: &str| {
        let output = bench.run(["render", "-e", "prod", "--dynamo", release]).success();
        output.stdout.matches("runtimeVersionOverride: \"1.4.0\"").count()
    };
    // For the frontend and the worker, where Dynamo has the field.
    assert_eq!(["1.2", "1.3", "1.4", "1.5", "2.0"].map(rendered), [0, 0, 2, 2, 2]);
}

#[test]
fn a_field_of_a_later_release_is_named_with_it() {
    let bench = bench_of(&with_min_available());
    assert_snapshot!(bench.run(["validate", "-o", "concise", "--dynamo", "1.2"]), @"
    exit 1
    ----- stdout -----
    models/mock/model.yaml:14:21: error[dynamo/schema] `spec.components[name=worker].minAvailable` is a field of Dynamo 1.3 and later; this is checked against 1.2 (remove the field, or upgrade Dynamo; after an upgrade, set `--dynamo`, or `dynamo` under the environment's `platform` in stator.yaml)
    Found 1 error (1 model checked).
    ----- stderr -----
    ");
    assert_snapshot!(bench.run(["validate", "-o", "concise", "--dynamo", "1.3"]), @"
    exit 0
    ----- stdout -----
    models/mock/model.yaml:14:21: warning[dynamo/needs-grove] depends on the cluster: `minAvailable`, the smallest gang that serves, needs an operator that runs on Grove (remove the field, or enable Grove and set `grove: true` under the environment's `platform` in stator.yaml)
    Found 1 warning (1 model checked).
    ----- stderr -----
    ");
    assert_snapshot!(bench.run(["validate", "-o", "concise", "--dynamo", "1.0"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '1.0' for '--dynamo <RELEASE>': Dynamo 1.0 is not supported; the oldest release that stator works with is 1.2

    For more information, try '--help'.
    ");
    // What the environment says holds without the flag, and then nothing is assumed.
    bench.write(
        "stator.yaml",
        ROOT.replace("namespace: models\n", "namespace: models\n      platform: {dynamo: \"1.2\"}\n"),
    );
    assert_snapshot!(bench.run(["validate", "-o", "concise", "-e", "prod"]), @"
    exit 1
    ----- stdout -----
    models/mock/model.yaml:14:21: error[dynamo/schema] `spec.components[name=worker].minAvailable` is a field of Dynamo 1.3 and later; this is checked against 1.2 (remove the field, or upgrade Dynamo; after an upgrade, set `--dynamo`, or `dynamo` under the environment's `platform` in stator.yaml)
    Found 1 error (1 model checked).
    ----- stderr -----
    ");
}

const NEW_GRAPH: &str = r#"apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: fresh, annotations: {nvidia.com/workload-provider: grove}}
spec:
  backendFramework: vllm
  priorityClassName: high
  experimental: {kvTransferPolicy: {labelKey: topology.kubernetes.io/zone, domain: zone, enforcement: required}}
  components:
    - name: frontend
      type: frontend
      replicas: 1
      minAvailable: 1
      runtimeVersionOverride: 1.5.0
      podTemplate: {spec: {containers: [{name: main, image: "registry.example/vllm:nightly"}]}}
    - name: worker
      type: worker
      replicas: 2
      minAvailable: 2
      runtimeVersionOverride: 1.5.0
      experimental: {checkpoint: {enabled: true, mode: Auto}}
      podTemplate: {spec: {containers: [{name: main, image: "registry.example/vllm:nightly",
        command: [python3, -m, dynamo.vllm], args: [--model, Qwen/Qwen3-0.6B]}]}}
"#;

#[test]
fn a_graph_of_the_newest_release_is_imported_whole() {
    let bench = Workbench::with(&[("graph.yaml", NEW_GRAPH)]);
    let imported = bench.run(["import", "graph.yaml", "--dynamo", "1.5", "--out", "new"]).success();
    assert!(imported.stderr.contains("1 of them rendering back"), "{imported}");
    assert_snapshot!(bench.read("new/fresh/model.yaml"), @r#"
    # Imported by stator from graph.yaml, document 1.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata:
      name: fresh
    spec:
      model: Qwen/Qwen3-0.6B
      engine: vllm
      image: registry.example/vllm:nightly
      runtimeVersion: "1.5.0"
      serving:
        frontend: {}
        worker:
          replicas: 2
          minAvailable: 2
          gpus: 0
      priorityClassName: high
      # Copied from the manifest: stator has no field for this.
      overrides:
        - target: {kind: DynamoGraphDeployment}
          merge:
            spec:
              components: [{experimental: {checkpoint: {enabled: true, mode: Auto}}, name: worker}]
              experimental:
                kvTransferPolicy: {domain: zone, enforcement: required, labelKey: topology.kubernetes.io/zone}
    "#);
}

/// A service with mounts in two places: release 1.2 keeps one of them.
const TWO_LISTS: &str = r#"apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: mounts}
spec:
  pvcs: [{name: weights, create: false}]
  services:
    Worker:
      componentType: worker
      replicas: 1
      volumeMounts: [{name: weights, mountPoint: /models}]
      extraPodSpec:
        volumes: [{name: config, configMap: {name: config}}]
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-0.6B]
          volumeMounts: [{name: config, mountPath: /config}]
"#;

#[test]
fn what_the_conversion_of_a_release_drops_is_an_error_unless_that_is_wanted() {
    let bench = Workbench::with(&[("graph.yaml", TWO_LISTS)]);
    let import = |more: &[&str]| bench.run([&["import", "graph.yaml", "--force", "--out", "new"], more].concat());
    assert_snapshot!(import(&["--dynamo", "1.2"]), @"
    exit 1
    ----- stdout -----
    new/mounts/model.yaml
    ----- stderr -----
    graph.yaml:5:10: warning[import/note] document 1: DynamoGraphDeployment `mounts`: `spec.pvcs[0]` is not imported: v1beta1 has no equivalent; in a model use `cache: {claim: NAME, mountPath: PATH}`, otherwise a PersistentVolumeClaim that a volume names (nothing is lost: v1beta1 has no field for it)
    graph.yaml:10:7: error[import/not-carried] document 1: DynamoGraphDeployment `mounts`: `spec.services.Worker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place (v1beta1 has no field for it: write it in another way, or leave it out with --lossy)
    1 model imported, 0 of them rendering back to their manifests; 1 thing not imported.
    ");
    assert_snapshot!(import(&["--dynamo", "1.2", "--lossy"]), @"
    exit 0
    ----- stdout -----
    ----- stderr -----
    new/mounts/model.yaml is up to date.
    graph.yaml:5:10: warning[import/note] document 1: DynamoGraphDeployment `mounts`: `spec.pvcs[0]` is not imported: v1beta1 has no equivalent; in a model use `cache: {claim: NAME, mountPath: PATH}`, otherwise a PersistentVolumeClaim that a volume names (nothing is lost: v1beta1 has no field for it)
    graph.yaml:10:7: warning[import/not-carried] document 1: DynamoGraphDeployment `mounts`: `spec.services.Worker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place (it is left out, as --lossy asks)
    1 model imported, 0 of them rendering back to their manifests; 0 things not imported.
    ");
    assert_snapshot!(import(&["--dynamo", "1.3"]), @"
    exit 0
    ----- stdout -----
    new/mounts/model.yaml
    ----- stderr -----
    graph.yaml:5:10: warning[import/note] document 1: DynamoGraphDeployment `mounts`: `spec.pvcs[0]` is not imported: v1beta1 has no equivalent; in a model use `cache: {claim: NAME, mountPath: PATH}`, otherwise a PersistentVolumeClaim that a volume names (nothing is lost: v1beta1 has no field for it)
    1 model imported, 1 of them rendering back to their manifests; 0 things not imported.
    ");
    let model = bench.read("new/mounts/model.yaml");
    assert!(model.contains("/models") && model.contains("/config"), "{model}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_serves_another_release_than_its_environment_says_is_warned_about() {
    let Some(plane) = testbed::newest() else { return };
    let namespace = plane.namespace("another-release").await;
    let bench = bench_of(&with_min_available());
    let stated = format!("namespace: {namespace}\n      platform: {{dynamo: \"1.2\", grove: true}}\n");
    bench.write("stator.yaml", ROOT.replace("namespace: models\n", &stated));
    let kubeconfig = plane.kubeconfig();
    let run = |args: &[&str]| {
        let mut command = bench.command();
        command
            .args(args)
            .args(["-e", "prod", "--context", "admin"])
            .env_remove("STATOR_CLUSTER")
            .env("KUBECONFIG", &kubeconfig);
        bench.finish(&mut command).success()
    };
    let planned = run(&["plan"]);
    let warned = "environment prod declares Dynamo 1.2, but its cluster serves the definitions of 1.5";
    assert!(planned.to_string().contains(warned), "{planned}");
    // The cluster decides: the field is one of its own.
    run(&["sync", "--yes"]);
    let cluster = place::admin(plane).await;
    let graphs = cluster.list(&GRAPH, Some(&namespace), &BTreeMap::new()).await.unwrap();
    assert_eq!(graphs[0].spec()["components"][1]["minAvailable"], 2);
    assert!(run(&["sync", "--yes"]).stdout.contains("0 writes"));
}

#[test]
fn an_upgrade_is_foreseen_corrected_and_then_nothing_is_left_of_it() {
    let bench = bench_of(&MOCK.replace("runtime: 1.2.0", DIGEST));
    let files = |arguments: &[&str]| {
        let mut command = bench.command();
        bench.finish(command.env_remove("STATOR_CLUSTER").args(["check", "-e", "prod", "--dynamo"]).args(arguments))
    };
    assert_snapshot!(files(&["1.5"]), @r#"
    exit 1
    ----- stdout -----
    Dynamo 1.2 → 1.5 for 1 model of prod: 1 model is refused, and the patch corrects that; the operator restarts nothing by itself.

    mock  models/mock/model.yaml
      refused     models/mock/model.yaml:8:10: [dynamo/image-version] `registry.example/dynamo@sha256:[DIGEST]`: there is a digest and no tag, and Dynamo 1.4 and later refuse an image without one
                  in the patch: `runtimeVersion: 1.2.0`, as that release runs it today; correct it if the image has another version

    In this order
      1. While Dynamo 1.2 runs: merge the patch, which `--write` writes, and sync: that writes nothing.
      2. For 1.4: install the Grove that goes with the release, where graphs run on Grove; and set `global.nats.install` in the chart's values to what you have now: its default changed, and another value restarts every pod of every graph.
      3. For 1.5: install the Snapshot operator first, where graphs have checkpoints.
      4. Upgrade Dynamo's definitions and operator to 1.5, by way of 1.3 and 1.4 as Dynamo asks for: it restarts nothing by itself.
      5. Once it runs: set `platform: {dynamo: "1.5"}` of the environment in stator.yaml, merge, and sync: that writes 1 object and restarts nothing.

    Patch
    diff --git a/models/mock/model.yaml b/models/mock/model.yaml
    --- a/models/mock/model.yaml
    +++ b/models/mock/model.yaml
    @@ -6,6 +6,7 @@
       model: Qwen/Qwen3-0.6B
       engine: mocker
       image: registry.example/dynamo@sha256:[DIGEST]
    +  runtimeVersion: 1.2.0
       serving:
         frontend:
           replicas: 1
    ----- stderr -----
    note: which release of Dynamo runs is not known; 1.2 is assumed. Name yours with `platform: {dynamo: …}` under the environment in stator.yaml, or name the cluster with --context
    "#);
    assert_snapshot!(files(&["1.5", "--write"]), @r#"
    exit 0
    ----- stdout -----
    Dynamo 1.2 → 1.5 for 1 model of prod: 1 model is refused, and the patch corrects that; the operator restarts nothing by itself.

    mock  models/mock/model.yaml
      refused     models/mock/model.yaml:8:10: [dynamo/image-version] `registry.example/dynamo@sha256:[DIGEST]`: there is a digest and no tag, and Dynamo 1.4 and later refuse an image without one
                  written: `runtimeVersion: 1.2.0`, as that release runs it today; correct it if the image has another version

    In this order
      1. While Dynamo 1.2 runs: merge the patch, which `--write` writes, and sync: that writes nothing.
      2. For 1.4: install the Grove that goes with the release, where graphs run on Grove; and set `global.nats.install` in the chart's values to what you have now: its default changed, and another value restarts every pod of every graph.
      3. For 1.5: install the Snapshot operator first, where graphs have checkpoints.
      4. Upgrade Dynamo's definitions and operator to 1.5, by way of 1.3 and 1.4 as Dynamo asks for: it restarts nothing by itself.
      5. Once it runs: set `platform: {dynamo: "1.5"}` of the environment in stator.yaml, merge, and sync: that writes 1 object and restarts nothing.
    ----- stderr -----
    note: which release of Dynamo runs is not known; 1.2 is assumed. Name yours with `platform: {dynamo: …}` under the environment in stator.yaml, or name the cluster with --context
    wrote 1 file
    "#);
    assert_snapshot!(files(&["1.5"]), @r#"
    exit 0
    ----- stdout -----
    Dynamo 1.2 → 1.5 for 1 model of prod: nothing is refused; the operator restarts nothing by itself.

    In this order
      1. For 1.4: install the Grove that goes with the release, where graphs run on Grove; and set `global.nats.install` in the chart's values to what you have now: its default changed, and another value restarts every pod of every graph.
      2. For 1.5: install the Snapshot operator first, where graphs have checkpoints.
      3. Upgrade Dynamo's definitions and operator to 1.5, by way of 1.3 and 1.4 as Dynamo asks for: it restarts nothing by itself.
      4. Once it runs: set `platform: {dynamo: "1.5"}` of the environment in stator.yaml, merge, and sync: that writes 1 object and restarts nothing.
    ----- stderr -----
    note: which release of Dynamo runs is not known; 1.2 is assumed. Name yours with `platform: {dynamo: …}` under the environment in stator.yaml, or name the cluster with --context
    "#);
    // The environment says which release runs; and a cluster, if an option names it.
    bench.replace("stator.yaml", "namespace: models\n", "namespace: models\n      platform: {dynamo: \"1.4\"}\n");
    assert_snapshot!(files(&["1.2", "-o", "json"]).success().json()["from"], @r#""1.4""#);
    bench.run(["sync", "-e", "prod", "--yes"]).success();
    let live = bench.run(["check", "--dynamo", "1.5", "-e", "prod"]).success();
    assert!(live.stdout.starts_with("Dynamo 1.4 → 1.5 for 1 model of prod: nothing is refused"), "{live}");
}

#[test]
fn an_upgrade_is_asked_of_models_and_a_check_of_a_cluster_is_not() {
    let bench = bench_of(MOCK);
    assert_snapshot!(bench.run(["check", "models"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: models of a repository are checked only with --dynamo
    hint: `stator check --dynamo 1.5` checks an upgrade; `stator validate` checks models as they are
    ");
    assert_snapshot!(bench.run(["check", "--write"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      --dynamo <RELEASE>

    Usage: stator check --dynamo <RELEASE> --write --cluster <CLUSTER> [PATH|MODEL]...

    For more information, try '--help'.
    ");
    assert_snapshot!(bench.run(["check", "--dynamo", "1.0"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '1.0' for '--dynamo <RELEASE>': Dynamo 1.0 is not supported; the oldest release that stator works with is 1.2

    For more information, try '--help'.
    ");
    assert_snapshot!(bench.run(["check", "-e", "prod", "--dynamo", "9.9"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: nothing is known of releases of Dynamo after 1.5
    hint: check 1.5, or use a newer stator
    ");
    bench.write("elsewhere/README.md", "");
    let empty = bench.run(["check", "-e", "prod", "--dynamo", "1.5", "elsewhere"]).success();
    assert!(
        empty.stdout.contains("for 0 models of prod") && empty.stderr.contains("note: no model.yaml in"),
        "{empty}"
    );
    assert_snapshot!(bench.run(["check", "-e", "prod", "--dynamo", "1.5", "nothing-here"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `nothing-here` is neither a path nor a model of the environment
    hint: check the spelling; `stator status` lists the models of the environment
    ");
}

/// A pull request that names another release is told what that does, in every form of a plan.
#[test]
fn a_revision_that_names_another_release_is_told_what_it_does() {
    let bench = bench_of(&MOCK.replace("runtime: 1.2.0", DIGEST));
    let stated = |release: &str| {
        ROOT.replace("namespace: models\n", &format!("namespace: models\n      platform: {{dynamo: \"{release}\"}}\n"))
    };
    bench.write("stator.yaml", stated("1.2"));
    bench.commit("one");
    bench.write("stator.yaml", stated("1.5"));
    let plan = |format: &str| bench.run(["plan", "-e", "prod", "--from", "HEAD", "-o", format]).exits(1).stdout;
    let headline = "Dynamo 1.2 → 1.5 for 1 model of prod: 1 model is refused, and the patch corrects that";
    for format in ["text", "markdown", "html"] {
        assert!(plan(format).contains(headline), "{}", plan(format));
    }
    let json: serde_json::Value = serde_json::from_str(&plan("json")).unwrap();
    assert_eq!(json["upgrade"]["summary"]["refused"], 1);
    bench.commit("two");
    assert!(!bench.run(["plan", "-e", "prod", "--from", "HEAD"]).stdout.contains("Dynamo 1.2 →"));
}

/// Row "adapter dropped together with replicas" of what 1.5 refuses: the operator plays along, and both writes come through.
#[test]
fn an_adapter_that_goes_with_another_count_takes_two_writes() {
    let scaled = MOCK.replace("      replicas: 2\n", "      replicas: 2\n      scaling: external\n");
    let bench = bench_of(&scaled);
    let sync = || bench.run(["sync", "-e", "prod", "--dynamo", "1.5", "--yes", "--simulate-operator", "--wait"]);
    sync().success();
    bench.write("models/mock/model.yaml", MOCK.replace("replicas: 2", "replicas: 3"));
    let plan = bench.run(["plan", "-e", "prod", "--dynamo", "1.5"]).success();
    assert!(plan.stdout.contains("takes two writes: first the scaling adapter of worker goes"), "{plan}");
    sync().success();
    let again = bench.run(["plan", "-e", "prod", "--dynamo", "1.5"]).success();
    assert!(again.stdout.contains("No changes: 1 object of 1 model"), "{again}");
}
