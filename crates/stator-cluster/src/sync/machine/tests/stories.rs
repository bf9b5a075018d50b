//! What a sync does, told one case at a time.

use super::drive::{Drive, settings, settled, sync, sync_plan};
use super::world::{Fault, Git, World, git, journals_identity, model_record, reference};
use crate::sync::machine::MachineSettings;
use crate::sync::{SyncProgress, SyncReport};
use serde_json::json;
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, GRAPH, ObjectKind};
use stator_core::object::Object;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{Action, ChangeReason, HoldKind, PlanStep, PlannedWrite};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A report as the lines that a user would read.
pub(super) fn described(report: &SyncReport) -> String {
    let models = report.models.iter().map(|model| {
        let counts = format!("{} applied, {} pruned", model.applied, model.pruned);
        format!("{}: {} ({counts}) {}", model.name, model.result, model.message).trim_end().to_owned() + "\n"
    });
    let end = format!(
        "{} writes{}{}\n",
        report.writes,
        if report.timed_out { ", timed out" } else { "" },
        if report.cancelled { ", cancelled" } else { "" }
    );
    models.chain([end]).collect()
}

pub(super) fn run(world: &mut World, git: &Git) -> String {
    described(&sync(world, git, &Drive::default()).report.unwrap())
}

fn fault(world: &mut World, kind: usize, name: &str, faults: &[Fault]) {
    world.faults.insert(reference(kind, name).identity(), faults.iter().copied().collect());
}

const LLAMA: &[(ObjectKind, &str, u64)] = &[(ADAPTER, "sql", 1), (CLAIM, "weights", 1), (GRAPH, "llama", 1)];

/// `LLAMA`, synced.
fn llama() -> (World, Git) {
    let mut world = World::operated();
    let git = git(&[("llama", LLAMA)]);
    assert!(sync(&mut world, &git, &Drive::default()).report.unwrap().is_success());
    world.writes.clear();
    (world, git)
}

#[test]
fn volumes_then_graphs_then_adapters_and_the_record_around_them() {
    let mut world = World::operated();
    let git = git(&[("llama", LLAMA)]);
    let report = run(&mut world, &git);
    insta::assert_snapshot!(world.writes.join("\n"), @"
    journal
    apply PersistentVolumeClaim prod/weights as stator
    apply DynamoGraphDeployment prod/llama as stator
    record llama
    end of the journal
    apply DynamoModel prod/sql as stator
    record llama
    ");
    insta::assert_snapshot!(report, @"
    llama: Healthy (3 applied, 0 pruned)
    7 writes
    ");
    let history = &world.records["llama"].history;
    assert_eq!(history.len(), 1, "one sync is one line: {history:#?}");
    assert_eq!(history[0].result, "Healthy");
    insta::assert_snapshot!(history[0].changes.join("\n"), @"
    create PersistentVolumeClaim prod/weights (none)
    create DynamoGraphDeployment prod/llama (none)
    create DynamoModel prod/sql (none)
    ");
    settled(&mut world, &git);
}

#[test]
fn without_wait_adapters_of_a_graph_that_is_not_ready_are_left_for_later() {
    let mut world = World::default();
    let git = git(&[("llama", LLAMA)]);
    let drive = Drive { settings: settings(false), ..Drive::default() };
    insta::assert_snapshot!(described(&sync(&mut world, &git, &drive).report.unwrap()), @"
    llama: Deferred (2 applied, 0 pruned) DynamoModel sql is waiting for its graph to be Ready (DynamoGraphDeployment prod/llama: the operator has not observed it yet); run `stator sync --wait`
    5 writes
    ");
    assert_eq!(described(&sync(&mut world, &git, &drive).report.unwrap()).lines().last(), Some("0 writes"));
    world.operator = true;
    world.operate();
    insta::assert_snapshot!(described(&sync(&mut world, &git, &drive).report.unwrap()), @"
    llama: Synced (1 applied, 0 pruned)
    4 writes
    ");
    // Nobody has waited so far: the first sync that does writes down what came of it.
    world.operate();
    assert_eq!(world.records["llama"].state.as_ref().unwrap().health, Health::Unknown);
    assert_eq!(run(&mut world, &git).lines().last(), Some("1 writes"));
    assert_eq!(world.records["llama"].state.as_ref().unwrap().health, Health::Healthy);
    settled(&mut world, &git);
}

#[test]
fn a_wait_in_vain_says_what_the_pods_say_and_a_good_one_asks_no_pod() {
    let mut world = World::operated();
    let git = git(&[("llama", LLAMA)]);
    run(&mut world, &git);
    assert_eq!(world.looks, [] as [&str; 0]);
    let mut world = World::default();
    world.pods = vec![
        Object::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "llama-worker-x", "namespace": "prod", "labels": {
                "nvidia.com/dynamo-graph-deployment-name": "llama", "nvidia.com/dynamo-component": "worker"}},
            "status": {"containerStatuses": [{"name": "main", "ready": false, "state": {"waiting": {
                "reason": "ImagePullBackOff", "message": "Back-off pulling image \"vllm:9\""}}}]},
        }))
        .unwrap(),
    ];
    let ran = sync(&mut world, &git, &Drive::default());
    insta::assert_snapshot!(described(&ran.report.unwrap()), @r#"
    llama: Failed (2 applied, 0 pruned) no progress for 30m: DynamoGraphDeployment prod/llama: the operator has not observed it yet; worker: ImagePullBackOff in container main (pod llama-worker-x): Back-off pulling image "vllm:9"; DynamoModel prod/sql is skipped for now: its graph is not ready
    7 writes
    "#);
    let waits: Vec<String> =
        ran.progress
            .into_iter()
            .filter_map(|progress| {
                if let SyncProgress::Waiting { reason, .. } = progress { Some(reason.to_string()) } else { None }
            })
            .collect();
    insta::assert_snapshot!(waits.join("\n"), @r#"
    DynamoGraphDeployment prod/llama: the operator has not observed it yet
    DynamoGraphDeployment prod/llama: the operator has not observed it yet; worker: ImagePullBackOff in container main (pod llama-worker-x): Back-off pulling image "vllm:9"
    "#);
    // At 15 seconds, then at doubled intervals of at most five minutes, and at the end of half an hour.
    assert_eq!(world.looks.len(), 10, "{:?}", world.looks);
    let conditions = &world.records["llama"].state.as_ref().unwrap().conditions;
    insta::assert_snapshot!(conditions.iter().map(|one| format!("{}={} {}", one.kind, one.status, one.message)).collect::<Vec<_>>().join("\n"), @r#"
    Ready=False no progress for 30m: DynamoGraphDeployment prod/llama: the operator has not observed it yet; worker: ImagePullBackOff in container main (pod llama-worker-x): Back-off pulling image "vllm:9"; DynamoModel prod/sql is skipped for now: its graph is not ready
    Reconciling=False 
    Stalled=True no progress for 30m: DynamoGraphDeployment prod/llama: the operator has not observed it yet; worker: ImagePullBackOff in container main (pod llama-worker-x): Back-off pulling image "vllm:9"; DynamoModel prod/sql is skipped for now: its graph is not ready
    "#);
}

/// The conditions of a model's record.
fn conditions(world: &World, model: &str) -> String {
    let conditions = &world.records[model].state.as_ref().unwrap().conditions;
    let line = |one: &stator_model::plan::RecordCondition| format!("{}={} {}", one.kind, one.status, one.message);
    conditions.iter().map(|one| line(one).trim_end().to_owned()).collect::<Vec<_>>().join("; ")
}

/// Row C4 of the review: a model whose file broke was rewritten Ready=False while it ran well.
#[test]
fn the_fault_of_a_file_is_a_condition_of_its_own_and_health_stays_health() {
    let (mut world, git) = llama();
    assert_eq!(conditions(&world, "llama"), "Ready=True 1 endpoints; Reconciling=False; Stalled=False");
    let broken = |world: &World| {
        let (mut plan, records) = world.plan(&git);
        for change in &mut plan.changes {
            (change.action, change.step, change.inventory) = (Action::Blocked, PlanStep::NoWrite, None);
            change.reasons = vec![ChangeReason::ModelFaulty];
        }
        (plan, records)
    };
    for _ in 0..2 {
        let (plan, records) = broken(&world);
        sync_plan(&mut world, plan, records, &Drive::default());
        assert_eq!(
            conditions(&world, "llama"),
            "FilesInvalid=True the model has errors, so none of its objects are applied; Ready=True 1 endpoints; \
             Reconciling=False; Stalled=False"
        );
    }
    assert_eq!(world.writes, ["record llama"], "it is said once");
    // The last good commit says nothing of the files of today.
    let restored =
        Drive { settings: MachineSettings { keeps_file_faults: true, ..settings(true) }, ..Drive::default() };
    sync(&mut world, &git, &restored);
    assert!(conditions(&world, "llama").starts_with("FilesInvalid=True"));
    sync(&mut world, &git, &Drive::default());
    assert_eq!(conditions(&world, "llama"), "Ready=True 1 endpoints; Reconciling=False; Stalled=False");
    settled(&mut world, &git);
}

#[test]
fn a_model_that_is_gone_is_pruned_in_reverse_its_volume_kept_and_its_record_last() {
    let (mut world, _) = llama();
    let rest = git(&[("other", &[(GRAPH, "other", 1)])]);
    insta::assert_snapshot!(run(&mut world, &rest), @"
    llama: Deleted (0 applied, 2 pruned)
    other: Healthy (1 applied, 0 pruned)
    8 writes
    ");
    let applied = world.writes.iter().position(|write| write.starts_with("apply")).unwrap();
    let of_llama: Vec<&str> =
        world.writes[applied..].iter().map(String::as_str).filter(|write| !write.contains("other")).collect();
    insta::assert_snapshot!(of_llama.join("\n"), @"
    delete DynamoModel prod/sql
    delete DynamoGraphDeployment prod/llama
    end of the journal
    retire llama
    ");
    settled(&mut world, &rest);
}

/// Row E2 of the review: a failed apply of one model holds back what goes of that model, and of no other.
#[test]
fn a_model_is_pruned_although_another_could_not_be_applied() {
    let (mut world, _) = llama();
    let both = git(&[("llama", LLAMA), ("bad", &[(ADAPTER, "extra", 1), (GRAPH, "bad", 1)])]);
    run(&mut world, &both);
    let next = git(&[("bad", &[(GRAPH, "bad", 2)]), ("good", &[(GRAPH, "good", 1)])]);
    fault(&mut world, 1, "bad", &[Fault::Invalid]);
    insta::assert_snapshot!(run(&mut world, &next), @"
    bad: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/bad is invalid: ; 1 deletion is held back, because not everything of the model could be applied
    good: Healthy (1 applied, 0 pruned)
    llama: Deleted (0 applied, 2 pruned)
    9 writes
    ");
    assert!(world.live.contains_key(&reference(2, "extra").identity()), "an adapter of the model that failed stays");
    run(&mut world, &next);
    settled(&mut world, &next);
}

/// Row E2: what takes a model's place is what its deletion depends on.
#[test]
fn a_model_that_was_renamed_goes_when_its_new_name_is_applied() {
    for what in [Fault::Invalid, Fault::Conflict] {
        let (mut world, _) = llama();
        world.sources = ["llama", "lama"].map(|name| (name.to_owned(), "chat/model.yaml".to_owned())).into();
        let next = git(&[("lama", &[(GRAPH, "lama", 1)]), ("other", &[(GRAPH, "other", 1)])]);
        fault(&mut world, 1, "lama", &[what]);
        let said = run(&mut world, &next);
        assert!(
            said.contains("2 deletions are held back, because model lama, which takes its place, could not be applied"),
            "{said}"
        );
        assert_eq!(world.deletes(), 0, "{:?}", world.writes);
        run(&mut world, &next);
        assert_eq!(world.deletes(), 2);
        settled(&mut world, &next);
    }
}

/// Row D3 of the review: an object that does not go although it is to be made again holds its own model alone.
#[test]
fn what_does_not_go_holds_its_own_model_only() {
    let mut world = World::operated();
    let first = git(&[("stuck", &[(GRAPH, "stuck", 1)]), ("goes", &[(ADAPTER, "sql", 1), (GRAPH, "goes", 1)])]);
    run(&mut world, &first);
    world.finalizers.insert(GRAPH.kind.to_owned());
    // From another hundred: to be deleted and made again.
    let next = git(&[("stuck", &[(GRAPH, "stuck", 200)])]);
    insta::assert_snapshot!(run(&mut world, &next), @"
    goes: Deleted (0 applied, 2 pruned)
    stuck: Healthy (1 applied, 0 pruned)
    7 writes
    ");
    let order = |what: &str| world.writes.iter().rposition(|write| write == what).unwrap();
    assert!(order("delete DynamoGraphDeployment prod/stuck") < order("delete DynamoModel prod/sql"));
    assert!(
        order("delete DynamoGraphDeployment prod/goes") < order("apply DynamoGraphDeployment prod/stuck as stator")
    );
}

#[test]
fn a_conflict_names_manager_and_path_and_stops_its_model_only() {
    let (mut world, _) = llama();
    let next = git(&[
        ("llama", &[(ADAPTER, "sql", 2), (CLAIM, "weights", 1), (GRAPH, "llama", 2)]),
        ("other", &[(GRAPH, "other", 1)]),
    ]);
    fault(&mut world, 1, "llama", &[Fault::Conflict]);
    let report = sync(&mut world, &next, &Drive::default()).report.unwrap();
    assert!(report.models[0].message.contains("owned by kubectl-edit"), "{}", report.models[0].message);
    assert!(report.models[0].message.contains("spec.takeOver"), "{}", report.models[0].message);
    let results: Vec<String> = report.models.iter().map(|model| format!("{} {}", model.name, model.result)).collect();
    assert_eq!(results, ["llama Blocked", "other Healthy"]);
    assert!(!world.writes.iter().any(|write| write.contains("sql")), "adapters wait for what their graph became");
    run(&mut world, &next);
    settled(&mut world, &next);
}

#[test]
fn calls_that_fail_for_a_moment_are_tried_again_and_not_for_ever() {
    let mut world = World::operated();
    let wanted = git(&[("llama", &[(GRAPH, "llama", 1)])]);
    fault(&mut world, 1, "llama", &[Fault::Before, Fault::After, Fault::Before]);
    let ran = sync(&mut world, &wanted, &Drive::default());
    let retries = ran.progress.iter().filter(|progress| matches!(progress, SyncProgress::Retrying { .. })).count();
    assert_eq!(retries, 3);
    assert!(ran.report.unwrap().is_success());
    settled(&mut world, &wanted);

    let mut world = World::operated();
    fault(&mut world, 1, "llama", &[Fault::Before; 9]);
    insta::assert_snapshot!(run(&mut world, &wanted), @"
    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama: the API server does not answer
    4 writes
    ");
}

#[test]
fn a_journal_that_cannot_be_written_stops_its_models_before_their_first_write() {
    let mut world = World::operated();
    let wanted = git(&[("a", &[(GRAPH, "a", 1)]), ("b", &[(GRAPH, "b", 1)])]);
    assert!(sync(&mut world, &git(&[("b", &[(GRAPH, "b", 2)])]), &Drive::default()).report.unwrap().is_success());
    world.faults.insert(journals_identity(), VecDeque::from([Fault::Full]));
    insta::assert_snapshot!(run(&mut world, &wanted), @"
    a: Failed (0 applied, 0 pruned) the journal could not be written: no space left on device; check the permissions and the free space of that folder
    b: Healthy (1 applied, 0 pruned)
    3 writes
    ");
    assert!(!world.writes.iter().any(|write| write.contains("prod/a")));
    run(&mut world, &wanted);
    settled(&mut world, &wanted);
}

/// The object is there, and a journal says so until a record does.
#[test]
fn a_record_that_cannot_be_written_leaves_the_journal_to_the_next_sync() {
    let mut world = World::operated();
    let wanted = git(&[("a", &[(GRAPH, "a", 1)]), ("b", &[(GRAPH, "b", 1)])]);
    world.faults.insert(model_record("a"), VecDeque::from([Fault::Full]));
    insta::assert_snapshot!(run(&mut world, &wanted), @"
    a: Failed (1 applied, 0 pruned) the record could not be written: no space left on device
    b: Healthy (1 applied, 0 pruned)
    5 writes
    ");
    assert_eq!(world.journals.len(), 1);
    // git gives it up: it is deleted, since the journal names it, and the journal goes.
    let rest = git(&[("b", &[(GRAPH, "b", 1)])]);
    insta::assert_snapshot!(run(&mut world, &rest), @"
    a: Deleted (0 applied, 1 pruned)
    b: Healthy (0 applied, 0 pruned)
    2 writes
    ");
    assert!(!world.live.contains_key(&reference(1, "a").identity()));
    settled(&mut world, &rest);
}

/// What somebody else creates between the plan and its apply is not taken over; what a lost answer created is.
#[test]
fn what_was_created_since_the_plan_is_applied_over_only_where_it_is_the_models_own() {
    let mut world = World::operated();
    let wanted = git(&[("llama", &[(GRAPH, "llama", 1)])]);
    let (plan, bookkeeping) = world.plan(&wanted);
    let theirs = json!({
        "apiVersion": GRAPH.api_version(), "kind": GRAPH.kind,
        "metadata": {"name": "llama", "namespace": "prod", "uid": "theirs", "generation": 1, "resourceVersion": "1"},
        "spec": {"payload": 7},
    });
    world.live.insert(reference(1, "llama").identity(), Object::from_value(theirs).unwrap());
    let report = sync_plan(&mut world, plan, bookkeeping, &Drive::default()).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama was created by another client after it was planned: sync again
    4 writes
    ");
    assert_eq!(world.live[&reference(1, "llama").identity()].spec()["payload"], json!(7));

    let mut world = World::operated();
    fault(&mut world, 1, "llama", &[Fault::After]);
    insta::assert_snapshot!(run(&mut world, &wanted), @"
    llama: Healthy (0 applied, 0 pruned)
    4 writes
    ");
    settled(&mut world, &wanted);
}

#[test]
fn a_replace_waits_until_the_old_object_is_really_gone() {
    let (mut world, _) = llama();
    world.finalizers = BTreeSet::from([GRAPH.kind.to_owned()]);
    let next = git(&[("llama", &[(ADAPTER, "sql", 1), (CLAIM, "weights", 1), (GRAPH, "llama", 101)])]);
    insta::assert_snapshot!(run(&mut world, &next), @"
    llama: Healthy (1 applied, 0 pruned)
    4 writes
    ");
    insta::assert_snapshot!(world.writes.join("\n"), @"
    delete DynamoGraphDeployment prod/llama
    apply DynamoGraphDeployment prod/llama as stator
    record llama
    record llama
    ");
    settled(&mut world, &next);
}

#[test]
fn an_object_whose_status_moved_is_still_deleted_and_a_namesake_is_not() {
    let rest = git(&[("other", &[(GRAPH, "other", 1)])]);
    let graph = reference(1, "llama").identity();
    let (mut world, _) = llama();
    let (plan, records) = world.plan(&rest);
    world.touch(&graph);
    sync_plan(&mut world, plan, records, &Drive::default());
    assert!(!world.live.contains_key(&graph));
    settled(&mut world, &rest);

    let (mut world, _) = llama();
    let (plan, records) = world.plan(&rest);
    world.remake(&graph);
    let report = sync_plan(&mut world, plan, records, &Drive::default()).report.unwrap();
    assert!(world.live.contains_key(&graph), "{}", described(&report));
    settled(&mut world, &rest);
}

#[test]
fn an_object_that_changed_hands_after_the_plan_is_not_taken() {
    let (mut world, _) = llama();
    let next = git(&[("llama", &[(ADAPTER, "sql", 1), (CLAIM, "weights", 1), (GRAPH, "llama", 2)])]);
    let (plan, records) = world.plan(&next);
    world.remake(&reference(1, "llama").identity());
    let report = sync_plan(&mut world, plan, records, &Drive::default()).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Failed (0 applied, 0 pruned) DynamoGraphDeployment prod/llama: uid mismatch; it changed after it was planned: sync again
    1 writes
    ");
}

#[test]
fn a_graph_that_shows_no_progress_runs_into_its_deadline_and_holds_nobody_up() {
    let mut world = World::default();
    let wanted = git(&[("llama", LLAMA), ("plain", &[(CLAIM, "disk", 1)])]);
    let ran = sync(&mut world, &wanted, &Drive::default());
    insta::assert_snapshot!(described(&ran.report.unwrap()), @"
    llama: Failed (2 applied, 0 pruned) no progress for 30m: DynamoGraphDeployment prod/llama: the operator has not observed it yet; DynamoModel prod/sql is skipped for now: its graph is not ready
    plain: Healthy (1 applied, 0 pruned)
    10 writes
    ");
    assert_eq!(ran.elapsed, Duration::from_secs(1800));
    assert_eq!(world.records["llama"].history[0].result, "Failed");
}

#[test]
fn the_overall_timeout_says_what_was_waited_for() {
    let mut world = World::default();
    let wanted = git(&[("llama", &[(GRAPH, "llama", 1)])]);
    let mut drive = Drive::default();
    drive.settings.timeout = Some(Duration::from_secs(300));
    let report = sync(&mut world, &wanted, &drive).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Failed (1 applied, 0 pruned) timed out after 5m; DynamoGraphDeployment prod/llama: the operator has not observed it yet
    6 writes, timed out
    ");
    // Another sync would write nothing, so its commit is unhealthy, and no error.
    assert_eq!(report.models[0].result, SyncOutcome::Unhealthy);
}

/// A sync that waits in vain says in the record what it saw, also where the record says how an earlier one ended.
#[test]
fn what_was_seen_until_the_timeout_is_recorded() {
    let mut world = World::default();
    let wanted = git(&[("llama", &[(GRAPH, "llama", 1)])]);
    let mut drive = Drive::default();
    drive.settings.timeout = Some(Duration::from_secs(300));
    assert!(sync(&mut world, &wanted, &drive).report.unwrap().timed_out);
    let health = |world: &World| world.records["llama"].state.as_ref().map(|state| state.health);
    assert_ne!(health(&world), Some(Health::Degraded));

    let graph = world.live.get_mut(&reference(1, "llama").identity()).unwrap();
    let levels = json!({"type": "TopologyLevelsAvailable", "status": "False", "reason": "TopologyLevelsUnavailable",
        "message": "no rack"});
    let mut value = graph.value().clone();
    value["status"] = json!({"observedGeneration": 1, "state": "successful", "conditions": [levels]});
    *graph = Object::from_value(value).unwrap();
    let report = sync(&mut world, &wanted, &drive).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Failed (0 applied, 0 pruned) timed out after 5m; DynamoGraphDeployment prod/llama: topology: no rack
    1 writes, timed out
    ");
    assert_eq!(health(&world), Some(Health::Degraded));
    // The next one has nothing to add.
    let writes = sync(&mut world, &wanted, &drive).report.unwrap().writes;
    assert_eq!(writes, 0);
}

#[test]
fn a_cancelled_sync_says_so_and_the_next_one_goes_on() {
    let wanted = git(&[("a", LLAMA), ("b", &[(GRAPH, "b", 1)])]);
    for cancel_at in 0..30 {
        let mut world = World::operated();
        let drive = Drive { cancel_at: Some(cancel_at), ..Drive::default() };
        let report = sync(&mut world, &wanted, &drive).report.unwrap();
        if !report.cancelled {
            assert!(cancel_at > 5 && report.is_success(), "{}", described(&report));
        }
        for record in world.records.values() {
            for entry in record.inventory.iter().filter(|entry| entry.uid.is_some()) {
                assert_eq!(world.live[&entry.object.identity()].uid(), entry.uid.as_deref());
            }
        }
        assert!(sync(&mut world, &wanted, &Drive::default()).report.unwrap().is_success());
        settled(&mut world, &wanted);
    }
}

#[test]
fn what_is_held_is_not_done() {
    let (mut world, _) = llama();
    let rest = git(&[("other", &[(GRAPH, "other", 1)])]);
    let (mut plan, records) = world.plan(&rest);
    for change in plan.changes.iter_mut().filter(|change| change.action == Action::Delete) {
        change.step.hold_back(HoldKind::MassDelete);
    }
    let report = sync_plan(&mut world, plan, records, &Drive::default()).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Held (0 applied, 0 pruned) DynamoGraphDeployment prod/llama: held back by the guard mass-delete; DynamoModel prod/sql: held back by the guard mass-delete
    other: Healthy (1 applied, 0 pruned)
    6 writes
    ");
    assert!(world.records.contains_key("llama"), "its record stays with its objects");

    let (mut world, _) = llama();
    let next = git(&[("llama", &[(ADAPTER, "sql", 1), (CLAIM, "weights", 1), (GRAPH, "llama", 101)])]);
    let (mut plan, records) = world.plan(&next);
    for change in plan.changes.iter_mut().filter(|change| change.action == Action::Replace) {
        change.step.hold_back(HoldKind::Replace);
    }
    let report = sync_plan(&mut world, plan, records, &Drive::default()).report.unwrap();
    insta::assert_snapshot!(described(&report), @"
    llama: Held (0 applied, 0 pruned) DynamoGraphDeployment prod/llama: held back until `--allow replace`
    0 writes
    ");
}

#[test]
fn pruning_can_be_left_out() {
    let (mut world, _) = llama();
    let rest = git(&[("other", &[(GRAPH, "other", 1)])]);
    let mut drive = Drive::default();
    drive.settings.prune = false;
    sync(&mut world, &rest, &drive);
    assert_eq!(world.deletes(), 0);
    assert_eq!(world.records["llama"].inventory.len(), 2, "what may still be pruned stays known");
}

#[test]
fn seeded_replicas_pass_through_a_second_manager_and_are_given_up() {
    let mut world = World::operated();
    let wanted = git(&[("llama", &[(GRAPH, "llama", 1)])]);
    let (mut plan, records) = world.plan(&wanted);
    if let PlanStep::Write(PlannedWrite::Apply(apply)) = &mut plan.changes[0].step {
        apply.seed_replicas = BTreeMap::from([("decode".to_owned(), 3)]);
    }
    sync_plan(&mut world, plan, records, &Drive::default());
    insta::assert_snapshot!(world.writes.join("\n"), @"
    journal
    apply DynamoGraphDeployment prod/llama as stator
    apply DynamoGraphDeployment prod/llama as stator-initial-replicas
    apply DynamoGraphDeployment prod/llama as stator
    record llama
    end of the journal
    record llama
    ");
}

#[test]
fn what_dynamo_refuses_in_one_write_is_two() {
    let mut world = World::operated();
    let wanted = git(&[("llama", &[(GRAPH, "llama", 1)])]);
    let (mut plan, records) = world.plan(&wanted);
    if let PlanStep::Write(PlannedWrite::Apply(apply)) = &mut plan.changes[0].step {
        apply.first = Some(apply.object.clone());
    }
    sync_plan(&mut world, plan, records, &Drive::default());
    insta::assert_snapshot!(world.writes.join("\n"), @"
    journal
    apply DynamoGraphDeployment prod/llama as stator
    record llama
    end of the journal
    record llama
    ");
}

#[test]
fn a_thousand_unchanged_models_make_no_write() {
    let names: Vec<String> = (0..1_000).map(|index| format!("m{index}")).collect();
    let wanted: Git = names.iter().map(|name| (name.clone(), BTreeMap::from([((1, name.clone()), 1)]))).collect();
    let mut world = World::operated();
    for (name, graph) in names.iter().map(|name| (name, reference(1, name))) {
        let object = json!({
            "apiVersion": graph.api_version, "kind": graph.kind,
            "metadata": {
                "name": name, "namespace": "prod", "uid": format!("uid-{name}"), "generation": 1,
                "resourceVersion": "1", "labels": {"app.kubernetes.io/managed-by": "stator", "stator.dev/model": name},
            },
            "spec": {"payload": 1},
        });
        world.live.insert(graph.identity(), stator_core::object::Object::from_value(object).unwrap());
    }
    let drive = Drive { settings: settings(false), ..Drive::default() };
    let first = sync(&mut world, &wanted, &drive).report.unwrap();
    assert_eq!(first.writes, 1_000, "records that were lost are written again, and nothing else");
    let second = sync(&mut world, &wanted, &drive).report.unwrap();
    assert_eq!((second.writes, second.models.len()), (0, 1_000));
}
