//! What did not change is not done again, and the plan is the same: over random histories of git and of the cluster, the
//! plan of what is looked at is the plan of everything, without the lines of what is left out.

mod steps;

use self::steps::{Step, healthy, reference, root, steps, take};
use super::pipeline::{Site, mocker};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use stator_cluster::cluster::embedded::EmbeddedCluster;
use stator_cluster::cluster::{ApplyRequest, Cluster, Preconditions};
use stator_cluster::sync::incremental::{IncrementalPlanner, ObjectVersion, PLANNED_KINDS, PlanDelta};
use stator_cluster::sync::{DesiredState, ListScope, PlanParameters, SyncOptions, run_sync};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use stator_git::source;
use stator_model::intent::{SourceTree, Workspace};
use stator_model::plan::{
    HoldKind, Journal, JournalModel, JournalObject, Plan, PlanInput, SyncBookkeeping, UnchangedTotals, build_plan,
    own_bookkeeping,
};
use stator_model::render::count_deprecated;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What one look gave.
struct Look {
    plan: Plan,
    bookkeeping: SyncBookkeeping,
    /// How often all models use what is deprecated.
    deprecated: BTreeMap<Option<&'static str>, usize>,
    /// How many models were not looked at.
    beside: usize,
    lists: ListScope,
}

impl Look {
    /// What a sync of the plan lists.
    fn lists(&self) -> ListScope {
        self.lists.clone().including(self.plan.changes.iter().map(|change| &change.object))
    }
}

fn aim() -> PlanParameters {
    let allow = BTreeSet::from([HoldKind::Replace, HoldKind::MassDelete]);
    PlanParameters { revision: "abc".to_owned(), folder: None, allow, prune: true, ..PlanParameters::default() }
}

async fn everything(site: &Site, tree: &SourceTree) -> PlanInput {
    let desired = DesiredState::render(Workspace::parse(tree).resolve_environment(None).unwrap(), &Default::default());
    let live = desired.gather_live_here(&site.cluster, &ListScope::default()).await.unwrap();
    desired.into_plan_input(live, aim())
}

/// Everything there is in the namespace.
async fn survey(cluster: &EmbeddedCluster) -> (Vec<ObjectVersion>, HashMap<(&'static str, String), Object>) {
    let (mut lines, mut objects) = (Vec::new(), HashMap::new());
    for kind in PLANNED_KINDS {
        for object in cluster.list(kind, Some("prod"), &BTreeMap::new()).await.unwrap() {
            let labels = object.labels();
            let is_labelled = labels.get(kinds::LABEL_REPOSITORY) == Some(&"shop")
                && labels.get(kinds::LABEL_ENVIRONMENT) == Some(&"prod")
                && labels.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::FIELD_MANAGER);
            let version = object.resource_version().unwrap().parse().unwrap();
            lines.push(ObjectVersion { kind: *kind, name: object.name().into(), version, is_labelled });
            objects.insert((kind.kind, object.name().to_owned()), object);
        }
    }
    (lines, objects)
}

async fn look(site: &Site, steady: &mut IncrementalPlanner, tree: &SourceTree) -> (Look, PlanDelta) {
    let cut = steady.snapshot(tree.clone(), "prod");
    let (lines, objects) = survey(&site.cluster).await;
    let lines = steady.target().is_some().then_some(lines);
    let read = |kind: &kinds::ObjectKind, name: &str| objects.get(&(kind.kind, name.to_owned())).cloned();
    let mut also = BTreeSet::new();
    let (portion, desired) = loop {
        let portion = steady.delta(&cut, lines.as_deref(), &also, &read);
        let desired = DesiredState::render(
            Workspace::parse(&portion.tree).resolve_environment(None).unwrap(),
            &Default::default(),
        );
        let clashes = steady.conflicting_folders(&portion, &desired);
        if clashes.is_empty() {
            break (portion, desired);
        }
        also.extend(clashes);
    };
    let records: Vec<ObjectRef> = desired.record_refs().collect();
    let lists = portion.lists.clone().including(&records);
    let live = desired.gather_live_here(&site.cluster, &lists).await.unwrap();
    let target = desired.target.clone();
    let input = PlanInput { unchanged: portion.unchanged.clone(), ..desired.into_plan_input(live, aim()) };
    let planned = build_plan(&input);
    steady.remember_plan(&portion, &target, &input, &planned);
    let look = Look {
        plan: planned,
        bookkeeping: own_bookkeeping(&input),
        deprecated: count_all_deprecated(&input),
        beside: portion.unchanged.models,
        lists: portion.lists.clone(),
    };
    (look, portion)
}

fn count_all_deprecated(input: &PlanInput) -> BTreeMap<Option<&'static str>, usize> {
    let mut totals = UnchangedTotals { deprecated: count_deprecated(&input.rendered), ..UnchangedTotals::default() };
    totals.add(&input.unchanged.totals);
    totals.deprecated
}

/// The plan of everything, without the lines of what was left out.
fn without(plan: Plan, portion: &PlanDelta) -> Plan {
    let mut plan = plan;
    let left_out: BTreeSet<String> = plan
        .changes
        .iter()
        .filter(|change| portion.excludes(&change.source))
        .map(|change| change.model.clone())
        .collect();
    plan.changes.retain(|change| !left_out.contains(&change.model));
    plan.intents.retain(|model, _| !left_out.contains(model));
    plan
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Looks in both ways, and compares; then syncs by the part, when asked to.
async fn compared(site: &Site, steady: &mut IncrementalPlanner, sync: bool) -> usize {
    let tree = source::open(&site.path("")).unwrap().tree;
    let whole = everything(site, &tree).await;
    let (part, portion) = look(site, steady, &tree).await;
    assert_eq!(without(build_plan(&whole), &portion), part.plan);
    assert_eq!(count_all_deprecated(&whole), part.deprecated);
    if !sync {
        return part.beside;
    }
    let options = SyncOptions { lists: part.lists(), ..SyncOptions::new(jiff::Timestamp::UNIX_EPOCH, 7) };
    let (_keep, cancel) = tokio::sync::watch::channel(None);
    run_sync(&site.cluster, part.plan, part.bookkeeping, options, &|_| {}, cancel).await;
    for graph in site.cluster.list(&kinds::GRAPH, Some("prod"), &BTreeMap::new()).await.unwrap() {
        healthy(&site.cluster, &graph.reference(), true).await;
    }
    // What it waits for is there: a second one writes down how it is.
    let (part, _) = look(site, steady, &tree).await;
    let (_keep, cancel) = tokio::sync::watch::channel(None);
    let options = SyncOptions {
        lists: part.lists(),
        wait: true,
        timeout: Some(std::time::Duration::from_millis(100)),
        ..SyncOptions::new(jiff::Timestamp::UNIX_EPOCH, 7)
    };
    run_sync(&site.cluster, part.plan, part.bookkeeping, options, &|_| {}, cancel).await;
    part.beside
}

/// Goes through a history, and compares after each step. How many models were left out, over all of them.
fn walk(history: &[Step]) -> usize {
    let site = Site::of("prod");
    root(&site, 0, 1);
    for model in 0..6 {
        runtime().block_on(take(&site, &Step::Write { model, replicas: 1 }));
    }
    let work = async {
        let mut steady = IncrementalPlanner::default();
        let mut sum = compared(&site, &mut steady, true).await;
        for step in history {
            take(&site, step).await;
            sum += compared(&site, &mut steady, matches!(step, Step::Sync)).await;
        }
        sum
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime().block_on(work)));
    done.unwrap_or_else(|_| panic!("the plans differ in this history: {history:?}"))
}

#[test]
fn the_plan_of_what_is_looked_at_is_the_plan_of_everything() {
    let mut runner = TestRunner::new(Config::default());
    let mut left_out = 0;
    for _ in 0..Config::default().cases / 16 {
        left_out += walk(&steps().new_tree(&mut runner).unwrap().current());
    }
    assert!(left_out > 0, "nothing was ever left out");
}

/// A kind that is listed where something names one is listed though only another source's record does, or a model that is
/// left out: both are news once, and name it for as long as they are there.
#[test]
fn a_kind_that_only_what_is_left_out_names_is_listed() {
    let relabelled = [
        Step::Mount { model: 1 },
        Step::EditFile { model: 1, content: 1 },
        Step::Sync,
        Step::Remove { model: 1 },
        Step::Damage { model: 1 },
        Step::Write { model: 0, replicas: 2 },
        Step::Sync,
        Step::Write { model: 2, replicas: 2 },
    ];
    assert!(walk(&relabelled) > 0);
    let steady = [
        Step::Mount { model: 1 },
        Step::EditFile { model: 1, content: 1 },
        Step::Mount { model: 2 },
        Step::EditFile { model: 2, content: 2 },
        Step::Sync,
        Step::Sync,
        Step::DeleteRecord { model: 1 },
        Step::Remove { model: 1 },
        Step::Sync,
        Step::Write { model: 3, replicas: 2 },
        Step::Sync,
    ];
    assert!(walk(&steady) > 0);
    let found_at_random = [
        Step::Annotate { model: 4 },
        Step::Write { model: 5, replicas: 3 },
        Step::EditFile { model: 1, content: 1 },
        Step::Mount { model: 1 },
        Step::Write { model: 2, replicas: 1 },
        Step::EditFile { model: 2, content: 2 },
        Step::Write { model: 5, replicas: 2 },
        Step::Sync,
        Step::DeleteRecord { model: 2 },
        Step::Sync,
        Step::Write { model: 2, replicas: 1 },
        Step::Write { model: 5, replicas: 3 },
        Step::Damage { model: 1 },
        Step::Delete { model: 3 },
        Step::Remove { model: 1 },
        Step::Sync,
        Step::Damage { model: 4 },
    ];
    assert!(walk(&found_at_random) > 0);
}

/// How many of twenty models are left out once all of them are well: a sync waits a moment for that, and a busy machine takes
/// longer.
async fn well(site: &Site, steady: &mut IncrementalPlanner) -> usize {
    for _ in 0..100 {
        if compared(site, steady, true).await == 20 {
            break;
        }
    }
    compared(site, steady, false).await
}

#[tokio::test]
async fn one_of_many_is_looked_at_when_one_changed() {
    let names: Vec<String> = (0..20).map(|number| format!("m-{number:02}")).collect();
    let site = Site::new(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
    let mut steady = IncrementalPlanner::default();
    compared(&site, &mut steady, true).await;
    assert_eq!(well(&site, &mut steady).await, 20, "all is well: nothing is looked at");
    site.model("m-07", 3);
    assert_eq!(compared(&site, &mut steady, true).await, 19);
    assert_eq!(well(&site, &mut steady).await, 20);
    site.cluster.delete(&reference(kinds::GRAPH, "m-03"), &Preconditions::default()).await.unwrap();
    assert_eq!(compared(&site, &mut steady, false).await, 19, "only what drifted is looked at");
    site.write("stator.yaml", &fs_err::read_to_string(site.path("stator.yaml")).unwrap().replace("shop", "shop "));
    assert_eq!(compared(&site, &mut steady, false).await, 0, "whatever the settings say now may be about every model");
}

/// What is said of a model is said again though nobody looked at it again.
#[tokio::test]
async fn a_warning_is_no_reason_to_look_again() {
    let names: Vec<String> = (0..20).map(|number| format!("m-{number:02}")).collect();
    let site = Site::new(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
    let root = fs_err::read_to_string(site.path("stator.yaml")).unwrap();
    site.write("stator.yaml", &format!("{root}  defaults: {{env: {{DYN_CONNECTOR: kvbm}}}}\n"));
    let doubtful = format!("{}  unset: [cache]\n  env: {{DYN_KVBM_POOL: \"1\"}}\n", mocker("m-03", 1));
    site.write("models/m-03/model.yaml", &doubtful);
    let tree = source::open(&site.path("")).unwrap().tree;
    let found = build_plan(&everything(&site, &tree).await).findings;
    let places: BTreeSet<String> = found.into_iter().map(|one| one.location.file).collect();
    assert_eq!(places, ["models/m-03/model.yaml", "stator.yaml"].map(str::to_owned).into());
    let mut steady = IncrementalPlanner::default();
    assert_eq!(well(&site, &mut steady).await, 20);
    site.model("m-07", 3);
    assert_eq!(compared(&site, &mut steady, true).await, 19);
    site.write("models/m-03/model.yaml", &mocker("m-03", 1));
    assert_eq!(well(&site, &mut steady).await, 20, "what was corrected is not said any more");
}

/// A journal may stand in for any record, so one that comes is a reason to look at everything; one that is found to be
/// another source's, which may stay for long, is none from then on.
#[tokio::test]
async fn the_journal_of_another_source_is_looked_at_once() {
    let site = Site::new(&[("llama", 1), ("qwen", 1)]);
    let mut steady = IncrementalPlanner::default();
    for _ in 0..100 {
        if compared(&site, &mut steady, true).await == 2 {
            break;
        }
    }
    let object = JournalObject { object: reference(kinds::GRAPH, "theirs"), prune: true };
    let theirs = JournalModel { model: "theirs".to_owned(), source: "theirs".to_owned(), objects: vec![object] };
    let journal = Journal {
        name: "sync-theirs".to_owned(),
        namespace: "prod".to_owned(),
        repository: "theirs".to_owned(),
        environment: "prod".to_owned(),
        models: vec![theirs],
        ..Journal::default()
    };
    site.cluster.apply(&ApplyRequest::new(journal.to_object().unwrap(), "stator")).await.unwrap();
    assert_eq!(compared(&site, &mut steady, false).await, 0, "whose it is was not known");
    assert_eq!(compared(&site, &mut steady, false).await, 2, "it is looked at again");
}
