//! Stories of pull requests, and that looking at a part says what looking at all of it says.

use super::*;
use crate::controller::report::preview::tests::model;
use proptest::prelude::*;
use stator_core::dynamo::release::Release;
use stator_model::plan::Action;
use stator_model::present::preview as body;
use std::fmt::Write as _;

const ROOT: &str = "apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: models}
spec:
  environments: {prod: {namespace: prod}}
";

fn tree(files: &[(&str, &str)]) -> SourceTree {
    let mut files: Vec<SourceFile> = files
        .iter()
        .map(|(path, content)| SourceFile { path: (*path).into(), content: Ok(content.as_bytes().into()) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    SourceTree { files, ..SourceTree::default() }
}

fn sides(tip: SourceTree, base: SourceTree, head: SourceTree) -> PullRequestTrees {
    let commit = |letter: &str| letter.repeat(40);
    PullRequestTrees {
        tip,
        base,
        head,
        tip_commit: commit("a"),
        base_commit: commit("b"),
        head_commit: commit("c"),
        reading: None,
    }
}

fn planner() -> PullRequestPlanner {
    PullRequestPlanner::new(Some("prod".into()), None)
}

fn summary(planned: &PullRequestPlan) -> String {
    let mut out = format!("{}\n", body::status_description(&planned.plan, planned.models));
    for change in &planned.plan.changes {
        writeln!(out, "{} {} {}", change.action.as_str(), change.object, change.disruption.as_str()).unwrap();
    }
    for finding in &planned.plan.findings {
        writeln!(out, "{}:{} {}", finding.location.file, finding.location.line, finding.message).unwrap();
    }
    for hold in &planned.plan.holds {
        writeln!(out, "held: {}", hold.message).unwrap();
    }
    planned.notes.iter().for_each(|note| writeln!(out, "note: {note}").unwrap());
    out
}

#[test]
fn one_model_of_three_changes() {
    let (a, b, c) = (model("a", 1), model("b", 1), model("c", 1));
    let base = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &b), ("c/model.yaml", &c)]);
    let more = model("b", 3);
    let head = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &more), ("c/model.yaml", &c)]);
    let planned = planner().plan(&sides(base.clone(), base, head)).unwrap();
    insta::assert_snapshot!(summary(&planned), @"
    1 of 3 models changes: 6 → 10 h200_sxm (+4)
    update DynamoGraphDeployment prod/b scale
    ");
}

/// The cluster serves one release and the pull request names another: the report is of the way between them.
#[test]
fn a_pull_request_that_names_another_release_is_told_what_that_does() {
    let side = |release: &str, image: &str| {
        let root = ROOT.replace("namespace: prod", &format!("namespace: prod, platform: {{dynamo: '{release}'}}"));
        let text = model("a", 1).replace("runtime: 1.2.0", image);
        tree(&[("stator.yaml", &root), ("a/model.yaml", &text)])
    };
    let told = |planner: &mut PullRequestPlanner, base: SourceTree, head: SourceTree| {
        let planned = planner.plan(&sides(base.clone(), base, head)).unwrap();
        let comment = body::ci_comment(&planned.plan);
        (planned.plan.upgrade.map(|upgrade| stator_model::present::upgrade::headline(&upgrade)), comment)
    };
    let image = "image: registry.example/vllm:nightly";
    let (headline, comment) = told(&mut planner(), side("1.2", image), side("1.5", image));
    insta::assert_snapshot!(headline.unwrap(), @"Dynamo 1.2 → 1.5 for 1 model of prod: 1 model is refused, and the patch corrects that; the operator restarts nothing by itself.");
    assert!(comment.contains("Dynamo 1.2 → 1.5 for 1 model of prod"), "{comment}");
    assert!(comment.contains("Step 1: While Dynamo 1.2 runs"), "{comment}");
    let mut served = planner();
    served.judge_for(Platform { served: Some(Definitions::of_release(Release::V1_3).clone()), ..Platform::default() });
    let (headline, _) = told(&mut served, side("1.2", image), side("1.5", image));
    assert!(headline.unwrap().starts_with("Dynamo 1.3 → 1.5"));
    assert_eq!(told(&mut planner(), side("1.5", image), side("1.5", "runtime: 1.5.0")).0, None);
}

#[test]
fn a_pull_request_that_begins_to_use_what_is_deprecated_is_told_what_to_write_instead() {
    let of = |name: &str, env: &str| {
        model(name, 1)
            .replace("runtime: 1.2.0", "runtime: 1.3.0")
            .replace("gpus: 2", &format!("gpus: 2, env: {{{env}}}"))
    };
    // What `b` used before is not of this pull request.
    let (plain, old) = (of("a", "LOG_LEVEL: info"), of("b", "DYN_CONNECTOR: x"));
    let begins = of("a", "LOG_LEVEL: info, DYN_KVBM_CPU_CACHE_GB: '4'");
    let side = |a: &str| tree(&[("stator.yaml", ROOT), ("a/model.yaml", a), ("b/model.yaml", &old)]);
    let comment = |base: &str, head: &str| {
        let planned = planner().plan(&sides(side(base), side(base), side(head))).unwrap();
        body::ci_comment(&planned.plan).lines().filter(|line| line.starts_with('>')).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(comment(&plain, &begins), @r#"
    > [!WARNING]
    > **dynamo/deprecated** `a/model.yaml:9:115` — the variable \`DYN\_KVBM\_…\` is deprecated since release 1.3; release 1.5 removes it
    > Fix: Use the engine's own KV offloading.
    "#);
    assert_eq!(comment(&begins, &plain), "");
}

#[test]
fn policy_guards_and_prices_are_those_of_the_base_branch() {
    let strict = ROOT.replace(
        "{namespace: prod}",
        "{namespace: prod, guards: {maxGpus: 5}, policy: [{name: small, expression: 'gpus <= 4', message: too large}]}",
    );
    let (one, five) = (model("a", 1), model("a", 5));
    let base = tree(&[("stator.yaml", &strict), ("a/model.yaml", &one)]);
    // It lifts the policy and breaks it, in one.
    let head = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &five)]);
    let planned = planner().plan(&sides(base.clone(), base, head)).unwrap();
    insta::assert_snapshot!(summary(&planned), @r#"
    1 of 1 model changes: 2 h200_sxm
    blocked DynamoGraphDeployment prod/a none
    a/model.yaml:3 policy `small`: too large
    note: This changes the repository's `stator.yaml`. Its policy, guards and prices apply only after the merge; this preview uses those of the base branch.
    "#);
}

#[test]
fn a_preview_is_held_to_what_administrators_allow() {
    let policy = "apiVersion: stator.dev/v1alpha1
kind: FleetPolicy
metadata: {name: tenants}
spec: {quotas: {models: 2}}
";
    let policies = stator_model::fleet_policy::read_policies("p.yaml", policy.as_bytes()).unwrap();
    let policies = SourcePolicies {
        policies: stator_model::fleet_policy::FleetPolicies::new(policies, Vec::new()),
        source: stator_model::fleet_policy::JudgedSource::default(),
    };
    let (a, b, c) = (model("a", 1), model("b", 1), model("c", 1));
    let base = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &b)]);
    let more = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &b), ("c/model.yaml", &c)]);
    let node = model("b", 1).replace("gpus: 2", "gpus: 2, template: {spec: {hostPID: true}}");
    let attack = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &node)]);
    for (head, expected) in [(more, "the source has 3 models; allowed: at most 2"), (attack, "hostPID` is `true`")] {
        let mut planner = planner();
        planner.plan(&sides(base.clone(), base.clone(), head.clone())).unwrap();
        planner.hold_to(policies.clone());
        let planned = planner.plan(&sides(base.clone(), base.clone(), head)).unwrap();
        assert!(summary(&planned).contains(expected), "{}", summary(&planned));
        assert!(planned.plan.findings.iter().any(Finding::is_error));
    }
}

/// The base is within the quota, and the head is not.
#[test]
fn a_commit_that_is_too_large_is_refused_in_its_preview() {
    let policy = "apiVersion: stator.dev/v1alpha1
kind: FleetPolicy
metadata: {name: tenants}
spec: {quotas: {files: 2}}
";
    let policies = stator_model::fleet_policy::read_policies("p.yaml", policy.as_bytes()).unwrap();
    let policies = SourcePolicies {
        policies: stator_model::fleet_policy::FleetPolicies::new(policies, Vec::new()),
        source: stator_model::fleet_policy::JudgedSource::default(),
    };
    let (a, b) = (model("a", 1), model("b", 1));
    let base = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a)]);
    let head = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &b)]);
    let mut planner = planner();
    planner.hold_to(policies.clone());
    let planned = planner.plan(&sides(base.clone(), base.clone(), head)).unwrap();
    assert!(summary(&planned).contains("the commit has 3 files to read; allowed: at most 2"), "{}", summary(&planned));
    // The next one is of a size that is allowed.
    planner.hold_to(policies);
    let smaller = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &model("a", 2))]);
    let planned = planner.plan(&sides(base.clone(), base, smaller)).unwrap();
    assert!(!planned.plan.findings.iter().any(Finding::is_error), "{}", summary(&planned));
}

#[test]
fn the_policy_of_today_judges_and_not_that_of_the_day_of_the_branch() {
    let strict = ROOT.replace(
        "{namespace: prod}",
        "{namespace: prod, policy: [{name: small, expression: 'gpus <= 4', message: too large}]}",
    );
    let (one, five) = (model("a", 1), model("a", 5));
    let tip = tree(&[("stator.yaml", &strict), ("a/model.yaml", &one)]);
    let base = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &one)]);
    let head = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &five)]);
    let planned = planner().plan(&sides(tip, base, head)).unwrap();
    insta::assert_snapshot!(summary(&planned), @r#"
    1 of 1 model changes: 2 h200_sxm
    blocked DynamoGraphDeployment prod/a none
    a/model.yaml:3 policy `small`: too large
    "#);
}

#[test]
fn a_change_of_defaults_shows_what_it_does_to_all_models_below() {
    let defaults = |level: &str| {
        format!("apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {{env: {{LOG_LEVEL: {level}}}}}\n")
    };
    let (a, b, c) = (model("a", 1), model("b", 1), model("c", 1));
    let files = |level: &str| {
        let defaults = defaults(level);
        tree(&[
            ("stator.yaml", ROOT),
            ("chat/stator.yaml", &defaults),
            ("chat/a/model.yaml", &a),
            ("chat/b/model.yaml", &b),
            ("c/model.yaml", &c),
        ])
    };
    let planned = planner().plan(&sides(files("info"), files("info"), files("debug"))).unwrap();
    insta::assert_snapshot!(summary(&planned), @"
    2 of 3 models change: 6 h200_sxm (peak 10)
    update DynamoGraphDeployment prod/a managed-roll
    update DynamoGraphDeployment prod/b managed-roll
    ");
}

#[test]
fn a_name_that_an_untouched_model_has_is_a_clash() {
    let a = model("a", 1);
    let base = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a)]);
    let head = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a), ("b/model.yaml", &a)]);
    let planned = planner().plan(&sides(base.clone(), base, head)).unwrap();
    insta::assert_snapshot!(summary(&planned), @r#"
    1 of 2 models changes: 2 h200_sxm
    blocked DynamoGraphDeployment prod/a none
    a/model.yaml:3 the name `a` is also used by `b/model.yaml`
    b/model.yaml:3 the name `a` is also used by `a/model.yaml`
    "#);
}

#[test]
fn faults_are_shown_where_they_are_new() {
    let (bad, a) = (model("bad", 1).replace("vllm", "vlm"), model("a", 1));
    let worse = model("a", 1).replace("engine: vllm", "engine: vlm");
    let base = tree(&[("stator.yaml", ROOT), ("bad/model.yaml", &bad), ("a/model.yaml", &a)]);
    let head = tree(&[("stator.yaml", ROOT), ("bad/model.yaml", &bad), ("a/model.yaml", &worse)]);
    let planned = planner().plan(&sides(base.clone(), base, head)).unwrap();
    insta::assert_snapshot!(summary(&planned), @r#"
    1 of 2 models changes: 2 h200_sxm
    blocked DynamoGraphDeployment prod/a none
    a/model.yaml:6 `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`
    "#);
}

#[test]
fn deletions_are_a_share_of_the_whole_environment() {
    let models: Vec<(String, String)> =
        (0..40).map(|number| (format!("m{number}/model.yaml"), model(&format!("m{number}"), 1))).collect();
    let of = |from: usize| {
        let files: Vec<(&str, &str)> = std::iter::once(("stator.yaml", ROOT))
            .chain(models[from..].iter().map(|(path, text)| (path.as_str(), text.as_str())))
            .collect();
        tree(&files)
    };
    let held = |gone: usize| planner().plan(&sides(of(0), of(0), of(gone))).unwrap().plan.holds;
    assert_eq!(held(8), [], "a fifth goes");
    insta::assert_snapshot!(held(9)[0].message, @"9 of 40 objects would be deleted; the limit without approval is 8");
}

#[test]
fn an_environment_that_cannot_be_told_is_said_to_whom_it_concerns() {
    let a = model("a", 1);
    let good = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &a)]);
    let other = ROOT.replace("prod:", "staging:");
    let other = tree(&[("stator.yaml", &other), ("a/model.yaml", &a)]);
    let of_head = planner().plan(&sides(good.clone(), good.clone(), other.clone())).unwrap_err();
    let of_base = planner().plan(&sides(other.clone(), other, good)).unwrap_err();
    insta::assert_snapshot!(format!("{of_head}\n{}\n{of_base}\n{}", of_head.help, of_base.help), @"
    unknown environment `prod`; known: `staging`
    name the environment in the root stator.yaml of the pull request, or in the source's `spec.environment`
    unknown environment `prod`; known: `staging`
    name the environment in the root stator.yaml of the base branch, or in the source's `spec.environment`
    ");
    assert!(of_head.is_head_at_fault && !of_base.is_head_at_fault);
}

#[test]
fn what_did_not_change_is_rendered_once() {
    let models: Vec<(String, String)> =
        (0..30).map(|number| (format!("m{number}/model.yaml"), model(&format!("m{number}"), 1))).collect();
    let with = |replicas: u32| {
        let first = model("m0", replicas);
        let files: Vec<(&str, &str)> = [("stator.yaml", ROOT), ("m0/model.yaml", &first)]
            .into_iter()
            .chain(models[1..].iter().map(|(path, text)| (path.as_str(), text.as_str())))
            .collect();
        tree(&files)
    };
    let mut planner = planner();
    planner.plan(&sides(with(1), with(1), with(2))).unwrap();
    let known = planner.facts.len();
    let planned = planner.plan(&sides(with(1), with(1), with(3))).unwrap();
    assert_eq!((known, planner.facts.len()), (29, 29));
    assert_eq!(planned.plan.changes.len(), 1);
    assert_eq!((planned.models, planned.plan.summary.gpus.after), (30, 64));
}

/// One of a few folders, with one of a few contents: names that clash, faults, and nothing at all are among them.
fn files() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::btree_map(0u8..6, 0u8..7, 0..6).prop_map(|files| files.into_iter().collect())
}

fn tree_of(files: &[(u8, u8)], root: bool) -> SourceTree {
    let root = if root { ROOT.replace("spec:\n", "spec:\n  defaults: {env: {A: b}}\n") } else { ROOT.to_owned() };
    let mut all = vec![("stator.yaml".to_owned(), root)];
    for (folder, content) in files {
        let text = match content {
            0 => model("same", 1),
            1 => model(&format!("m{folder}"), 1).replace("engine: vllm", "engine: vlm"),
            2 => "kind: [".to_owned(),
            replicas => model(&format!("m{folder}"), u32::from(*replicas)),
        };
        all.push((format!("f{folder}/model.yaml"), text));
    }
    let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    tree(&all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    /// A planner that knows nothing, one that has seen other pull requests, and a comparison of everything agree.
    #[test]
    fn a_part_says_what_the_whole_says(base in files(), heads in proptest::collection::vec((files(), any::<bool>()), 1..3)) {
        let mut warm = planner();
        for (head, root) in &heads {
            let sides = sides(tree_of(&base, false), tree_of(&base, false), tree_of(head, *root));
            let (Ok(seen), Ok(cold)) = (warm.plan(&sides), planner().plan(&sides)) else {
                prop_assert!(false, "the environment is there");
                return Ok(());
            };
            prop_assert_eq!(&seen.plan, &cold.plan);
            prop_assert_eq!(seen.models, cold.models);

            let whole = |tree: &SourceTree| DesiredState::render(Workspace::parse(tree).resolve_environment(Some("prod")).unwrap(), &Default::default());
            let (base, head) = (whole(&sides.base), whole(&sides.head));
            let whole = plan::compare_revisions(&RevisionComparison {
                repository: "models",
                environment: "prod",
                base: &base.rendered,
                base_broken: &base.selection.broken,
                head: &head.rendered,
                broken: &head.selection.broken,
                ..RevisionComparison::default()
            });
            let moving = |plan: &Plan| -> Vec<_> { plan.changes.iter().filter(|one| one.action != Action::Keep).cloned().collect() };
            prop_assert_eq!(moving(&seen.plan), moving(&whole));
            prop_assert_eq!(&seen.plan.summary.gpus, &whole.summary.gpus);
            prop_assert_eq!(&seen.plan.summary.gpus_by_sku, &whole.summary.gpus_by_sku);
            prop_assert_eq!(&seen.plan.holds, &whole.holds);
        }
    }
}

/// A file that a model mounts is a part of the model.
#[test]
fn a_change_of_an_engine_file_alone_is_planned() {
    let mounting = format!("{}  files: {{engine: {{from: engine/a.yaml, mountPath: /e/a.yaml}}}}\n", model("a", 1));
    let side = |content: &str| {
        let mut tree = tree(&[("stator.yaml", ROOT), ("a/model.yaml", &mounting), ("b/model.yaml", &model("b", 1))]);
        let file = SourceFile { path: "a/engine/a.yaml".into(), content: Ok(content.as_bytes().into()) };
        tree.mounted_files.insert("a".into(), vec![file]);
        tree
    };
    let planned = planner().plan(&sides(side("a: 1"), side("a: 1"), side("api_key: s3cr3t-Value"))).unwrap();
    insta::assert_snapshot!(summary(&planned), @"
    1 of 2 models changes: 4 h200_sxm (peak 6)
    create ConfigMap prod/a-engine-5265805260 none
    update DynamoGraphDeployment prod/a managed-roll
    delete ConfigMap prod/a-engine-0eaaef07a8 none
    a/engine/a.yaml:1 this looks like a secret in plain text in git, and becomes part of a ConfigMap
    ");
    let planned = planner().plan(&sides(side("a: 1"), side("a: 1"), side("a: 1"))).unwrap();
    insta::assert_snapshot!(summary(&planned), @"no changes");
}
