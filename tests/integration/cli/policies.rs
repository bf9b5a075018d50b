//! What administrators allow: held by every verb that renders, from files and from the cluster, and by no file of the
//! repository.

use super::{MOCK, fleet};
use crate::workbench::Workbench;
use insta::assert_snapshot;

const SYNC: &[&str] = &["sync", "-e", "prod", "--yes"];
const OBJECT: &str = ".stator/cluster/models/dynamographdeployments/mock.yaml";

fn policy(spec: &str) -> String {
    format!("apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {{name: tenants}}\nspec: {spec}\n")
}

/// Writes a policy of the cluster.
fn of_cluster(bench: &Workbench, spec: &str) {
    bench.write(".stator/cluster/fleetpolicies.stator.dev/tenants.yaml", policy(spec));
}

/// Two models, synced; then one of them asks for what a policy forbids, and the other for another replica.
fn changed_fleet() -> Workbench {
    let bench = fleet();
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    bench.run(SYNC).success();
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 2\n      template: {spec: {hostNetwork: true}}");
    bench.replace("models/other/model.yaml", "replicas: 2", "replicas: 3");
    bench
}

#[test]
fn a_denied_model_is_not_written_and_the_others_are() {
    let bench = changed_fleet();
    let before = bench.read(OBJECT);
    of_cluster(&bench, "{}");
    assert_snapshot!(bench.run(SYNC), @"
    exit 1
    ----- stdout -----
    MODEL  RESULT  APPLIED  PRUNED  MESSAGE
    other  Synced  1        0       -
    1 of 2 models synced, 4 writes.
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    fleet / prod against live

    other  models/other/model.yaml
      ~ update DynamoGraphDeployment models/other   scale
          ~ spec.components[name=worker].replicas   2 → 3
          · changed in git

    error[fleet/pod]: fleet policy `tenants`: DynamoGraphDeployment mock: `spec.components[name=worker].podTemplate.spec.hostNetwork` is `true`; allowed at level `baseline`: `false`, or nothing
      --> models/mock/model.yaml:14:38
      = help: Change `hostNetwork` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.
      = rule: https://stator.dev/docs/rules#fleet/pod

    Plan: 0 to create, 1 to change, 0 to delete, 1 unchanged.
    1 error in intents, so their models were not changed; run `stator validate`
    ");
    assert_eq!(bench.read(OBJECT), before);
    assert!(bench.read(&OBJECT.replace("mock", "other")).contains("replicas: 3"));
    // Without a policy, it is what the repository says.
    bench.remove(".stator/cluster/fleetpolicies.stator.dev");
    bench.run(SYNC).success();
    assert!(bench.read(OBJECT).contains("hostNetwork: true"));
}

#[test]
fn every_verb_judges_alike() {
    let bench = changed_fleet();
    bench.write("../policies/a.yaml", policy("{}"));
    for verb in [
        &["validate"][..],
        &["render", "-e", "prod"],
        &["plan", "-e", "prod"],
        &["plan", "-o", "diff", "--exit-code", "-e", "prod"],
        &["sync", "-e", "prod", "--yes"],
        &["sync", "-e", "prod", "--yes", "--dry-run=server"],
    ] {
        let done = bench.run([verb, &["--policies", "../policies"][..]].concat()).exits(1);
        assert!(format!("{done}").contains("fleet policy `tenants`"), "{verb:?}: {done}");
    }
    assert_snapshot!(bench.run(["validate", "--policies", "../policies", "-o", "concise"]), @"
    exit 1
    ----- stdout -----
    models/mock/model.yaml:14:38: error[fleet/pod] fleet policy `tenants`: DynamoGraphDeployment mock: `spec.components[name=worker].podTemplate.spec.hostNetwork` is `true`; allowed at level `baseline`: `false`, or nothing (Change `hostNetwork` of the pod, or ask an administrator for an exception for it; `stator explain policy` shows what is allowed.)
    Found 1 error (2 models checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    assert_snapshot!(bench.run(["explain", "policy", "--policies", "../policies", "-n", "models"]), @"
    exit 0
    ----- stdout -----
    apiVersion: stator.dev/v1alpha1
    kind: FleetPolicy
    metadata:
      name: tenants
    spec:
      pods:
        level: baseline
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
}

/// A model that goes is pruned, but not where its source may not write; and what cannot be read forbids everything.
#[test]
fn nothing_is_pruned_of_a_source_that_is_refused() {
    let bench = fleet();
    bench.write("models/other/model.yaml", MOCK.replace("name: mock", "name: other"));
    bench.run(SYNC).success();
    bench.remove("models/other");
    for spec in ["{destinations: [elsewhere]}", "{repositories: [git.example.com]}", "{destination: [models]}"] {
        of_cluster(&bench, spec);
        let done = bench.run(SYNC).exits(1);
        assert!(format!("{done}").contains("fleet/") || format!("{done}").contains("polic"), "{spec}: {done}");
        assert!(!bench.read(&OBJECT.replace("mock", "other")).is_empty());
    }
    of_cluster(&bench, "{destinations: [models]}");
    bench.run(SYNC).success();
    assert!(!bench.path(&OBJECT.replace("mock", "other")).exists());
}

#[test]
fn policies_with_faults_are_told_and_nothing_is_done() {
    let bench = fleet();
    bench.write("../policies.yaml", policy("{pods: {level: strict}}"));
    assert_snapshot!(bench.run(["sync", "-e", "prod", "--yes", "--policies", "../policies.yaml"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: the policies have errors
    ../policies.yaml:4:22: error[schema/unknown-word] `spec.pods.level` is `strict`; expected one of `privileged`, `baseline`, `restricted` (Use one of these values.)
    hint: correct the files that --policies names
    ");
    assert!(bench.files(".stator/cluster/models").is_empty());
}

/// Without a flag it is the cluster that every other command uses.
#[test]
fn a_tenant_sees_the_policies_of_the_cluster_that_is_used() {
    let bench = fleet();
    of_cluster(&bench, "{destinations: [models]}");
    assert_snapshot!(bench.run(["explain", "policy", "-n", "models"]), @"
    exit 0
    ----- stdout -----
    apiVersion: stator.dev/v1alpha1
    kind: FleetPolicy
    metadata:
      name: tenants
    spec:
      destinations:
      - models
      pods:
        level: baseline
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    ");
}

/// Outside of the windows of a policy nothing is written, and what only reads goes on.
#[test]
fn nothing_is_written_outside_of_the_windows_of_a_policy() {
    let bench = fleet();
    bench.commit("first");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("scale");
    let closed = "{windows: [{kind: deny, schedule: '* * * * *', duration: 1h}]}";
    bench.write("../policies.yaml", policy(closed));
    let held = |verb: &[&str]| bench.run([verb, &["--policies", "../policies.yaml"]].concat());
    assert_snapshot!(held(SYNC).exits(1), @r#"
    exit 1
    ----- stdout -----
    0 of 2 models synced, 0 writes.
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    fleet / prod at 4f0110d against live

    error[fleet/window]: fleet policy `tenants`: no sync window of the policy is open; none will open
      --> stator.yaml
      = help: Ask an administrator to correct `windows` of the policy.
      = rule: https://stator.dev/docs/rules#fleet/window

    No plan: the selected models have errors.
    1 error in intents, so their models were not changed; run `stator validate`
    "#);
    assert_snapshot!(held(&["rollback", "mock", "-e", "prod"]).exits(1), @r#"
    exit 1
    ----- stdout -----
    mock: 4f0110d -> a50aeb0
    Undoes:
      4f0110d scale

    fleet / prod at a50aeb0 against 4f0110d

    mock  models/mock/model.yaml
      ~ update DynamoGraphDeployment models/mock   scale
          ~ spec.components[name=worker].replicas   3 → 2

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.
    ----- stderr -----
    error[fleet/window]: fleet policy `tenants`: no sync window of the policy is open; none will open
      --> stator.yaml
      = help: Ask an administrator to correct `windows` of the policy.
      = rule: https://stator.dev/docs/rules#fleet/window
    error: no sync window is open, so nothing is rolled back
    "#);
    assert!(bench.files(".stator/cluster/models").is_empty());
    for verb in [&["validate"][..], &["plan", "-e", "prod"], &["render", "-e", "prod"]] {
        held(verb).success();
    }
    // Those of the cluster hold as well, and an open one lets all through.
    of_cluster(&bench, closed);
    bench.run(SYNC).exits(1);
    of_cluster(&bench, "{windows: [{kind: allow, schedule: '* * * * *', duration: 1h}]}");
    bench.run(SYNC).success();
}

/// No commit can satisfy a policy that requires signatures and names no keys: that is told wherever it is read.
#[test]
fn a_policy_that_requires_signatures_without_keys_is_told() {
    let bench = fleet();
    bench.write("../policies.yaml", policy("{signatures: {required: true}}"));
    assert_snapshot!(bench.run(["validate", "--policies", "../policies.yaml"]).exits(1), @r#"
    exit 1
    ----- stdout -----
    error[fleet/signature]: fleet policy `tenants`: signatures are required, but the policy names no keys
      --> stator.yaml
      = help: Ask an administrator to add the public keys that may sign to `signatures.keys` of the policy; keys that a source names for itself do not count.
      = rule: https://stator.dev/docs/rules#fleet/signature

    Found 1 error (1 model checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    "#);
}
