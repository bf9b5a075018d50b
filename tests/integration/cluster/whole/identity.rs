//! Whose models are: repositories of one name, ways to one repository, and moves from one to another.

use super::words::Shop;
use crate::cluster::place::{Place, on_every_cluster};
use stator_cluster::sync::{GatheredState, SyncReport};
use stator_core::dynamo::kinds::{LABEL_OWNER_ID, RECORD};
use stator_core::object::Object;
use stator_core::outcome::SyncOutcome;
use stator_model::plan::{
    Action, HoldKind, Plan, RepositoryAddress, RepositoryOrigin, SourceClaim, SourceIdentity, rules,
};

on_every_cluster! {
    repositories_of_one_name_leave_each_other_alone,
    a_move_takes_what_is_wanted_and_nothing_else,
    ways_to_one_repository_take_turns,
    a_name_is_not_what_a_repository_is,
    an_environment_or_a_folder_is_moved_when_allowed,
    a_model_of_another_name_is_another_model,
    a_record_that_somebody_makes_meanwhile_is_not_written_over,
    a_model_that_somebody_takes_meanwhile_is_told_and_kept,
}

/// A checkout, and what it was cloned from or who reads it.
struct Party<'a, P: Place> {
    shop: Shop<'a, P>,
    owner: SourceIdentity,
}

fn repository(url: &str, folder: &str) -> SourceIdentity {
    let address = RepositoryAddress::parse(url).unwrap();
    SourceIdentity::Repository { origin: RepositoryOrigin::at_address(address, folder) }
}

fn model_source(name: &str, uid: &str, of: &SourceIdentity) -> SourceIdentity {
    SourceIdentity::ModelSource {
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        origin: of.origin().clone(),
    }
}

const FLEET: &str = "https://git.example.com/team/fleet.git";
const FORK: &str = "https://git.example.com/me/fleet.git";

impl<'a, P: Place> Party<'a, P> {
    fn of(place: &'a P, url: &str, models: &[(&str, u32)]) -> Self {
        Self { shop: Shop::new(place, models), owner: repository(url, "") }
    }

    async fn plan(&self, allow: &[HoldKind]) -> (Plan, GatheredState) {
        let claim = SourceClaim::new(self.owner.clone());
        self.shop.site.try_plan_as(self.shop.cluster(), claim, allow).await.unwrap()
    }

    async fn sync(&self, allow: &[HoldKind]) -> SyncReport {
        self.shop.carry_out(self.shop.cluster(), self.plan(allow).await).await
    }

    /// Syncs, and all goes well; what is said of taking over.
    #[track_caller]
    fn synced(&self, allow: &[HoldKind]) -> impl Future<Output = Vec<String>> {
        let caller = std::panic::Location::caller();
        async move {
            let (plan, live) = self.plan(allow).await;
            let said = plan.findings.iter().filter(|finding| finding.rule == rules::TAKEN_OVER);
            let said = said.map(|finding| finding.message.clone()).collect();
            let report = self.shop.carry_out(self.shop.cluster(), (plan, live)).await;
            assert!(report.is_success(), "{caller}: {report:#?}");
            said
        }
    }

    /// The plan is empty, and a second sync writes nothing.
    #[track_caller]
    fn settled(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let (plan, live) = self.plan(&[]).await;
            let left: Vec<_> = plan.changes.iter().filter(|change| change.action != Action::Keep).collect();
            assert!(left.is_empty() && plan.retired.is_empty(), "{caller}: still to do: {left:#?}");
            assert!(plan.findings.is_empty(), "{caller}: {:?}", plan.findings);
            let before = self.shop.versions().await;
            let report = self.shop.carry_out(self.shop.cluster(), (plan, live)).await;
            assert_eq!(report.writes, 0, "{caller}: {report:#?}");
            assert_eq!(self.shop.versions().await, before, "{caller}");
        }
    }

    async fn record(&self, model: &str) -> Object {
        self.shop.live(&RECORD, model).await.unwrap()
    }

    async fn graphs(&self) -> Vec<String> {
        let objects = self.shop.objects().await.into_iter();
        objects.filter_map(|name| Some(name.strip_prefix("DynamoGraphDeployment prod/")?.to_owned())).collect()
    }
}

/// What tells that nobody restarted a graph.
fn marks(graph: &Object) -> (Option<String>, Option<i64>) {
    (graph.uid().map(str::to_owned), graph.generation())
}

/// Row B2 of the review: one `metadata.name`, environment and namespace, and two repositories: a fork, or a copied template.
async fn repositories_of_one_name_leave_each_other_alone(place: &impl Place) {
    let fleet = Party::of(place, FLEET, &[("a", 1), ("b", 1)]);
    let fork = Party::of(place, FORK, &[("b", 2), ("c", 1)]);
    fleet.synced(&[]).await;
    let record = fleet.record("b").await;
    let every = [HoldKind::MassDelete, HoldKind::Replace, HoldKind::Adopt, HoldKind::Delete];
    let report = fork.sync(&every).await;
    let results: Vec<_> = report.models.iter().map(|model| (model.name.as_str(), model.result)).collect();
    assert_eq!(results, [("b", SyncOutcome::Blocked), ("c", SyncOutcome::Synced)]);
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(&report.models[0].message), @"DynamoGraphDeployment prod/b: belongs to repository git.example.com/team/fleet, environment `prod`: rename it here, remove it there first, or take it over with `--allow move`");
    }
    assert_eq!(fleet.record("b").await, record, "not a byte of it is written");
    fleet.settled().await;
    assert_eq!(fleet.graphs().await, ["a", "b", "c"]);
    // Each prunes its own, and nothing else.
    fork.shop.site.remove("b");
    fork.settled().await;
    fleet.shop.site.remove("a");
    fleet.synced(&[]).await;
    assert_eq!(fleet.graphs().await, ["b", "c"]);
    fleet.settled().await;
    fork.settled().await;
}

async fn a_move_takes_what_is_wanted_and_nothing_else(place: &impl Place) {
    let fleet = Party::of(place, FLEET, &[("a", 1), ("b", 1)]);
    let fork = Party::of(place, FORK, &[("b", 1), ("c", 1)]);
    fleet.synced(&[]).await;
    let before = marks(&fleet.shop.graph("b").await);
    let said = fork.synced(&[HoldKind::Move, HoldKind::MassDelete]).await;
    assert_eq!(said, ["taking over model b from repository git.example.com/team/fleet, as allowed"]);
    assert_eq!(marks(&fleet.shop.graph("b").await), before, "nothing restarts");
    assert_eq!(fleet.graphs().await, ["a", "b", "c"]);
    fork.settled().await;
    // Who had it is told, and what else it has is as it was.
    let report = fleet.sync(&[]).await;
    let results: Vec<_> = report.models.iter().map(|model| (model.name.as_str(), model.result)).collect();
    assert_eq!(results, [("a", SyncOutcome::Unchanged), ("b", SyncOutcome::Blocked)]);
    fleet.shop.site.remove("b");
    fleet.settled().await;
    assert_eq!(fleet.graphs().await, ["a", "b", "c"]);
    fork.shop.site.remove("b");
    fork.synced(&[]).await;
    assert_eq!(fleet.graphs().await, ["a", "c"]);
    fork.settled().await;
}

/// The command line on a clone of what a ModelSource follows, by HTTPS and by SSH, and a ModelSource that was made again
/// in a restored cluster.
async fn ways_to_one_repository_take_turns(place: &impl Place) {
    let mut party = Party::of(place, FLEET, &[("a", 1), ("b", 1)]);
    party.synced(&[]).await;
    let graph = party.shop.graph("a").await;
    let same = party.owner.clone();
    party.owner = repository("git@git.example.com:team/fleet", "/");
    party.settled().await;
    party.owner = model_source("models", "u-1", &same);
    assert_eq!(
        party.synced(&[]).await,
        ["taking over models a, b, last synced from the same place by repository git.example.com/team/fleet"]
    );
    party.settled().await;
    party.owner = model_source("models", "u-2", &same);
    assert_eq!(
        party.synced(&[]).await,
        [
            "taking over models a, b: ModelSource team-a/models (repository git.example.com/team/fleet) was created again under the same name"
        ]
    );
    party.settled().await;
    // One beside it may follow another branch.
    party.owner = model_source("others", "u-3", &same);
    assert!(party.sync(&[]).await.models.iter().all(|model| model.result == SyncOutcome::Blocked));
    party.owner = same;
    assert_eq!(party.synced(&[]).await.len(), 1);
    party.settled().await;
    assert_eq!(party.shop.graph("a").await, graph, "no object is written for it");
    // What goes, goes whoever applied it.
    party.shop.site.remove("b");
    party.owner = model_source("models", "u-2", &party.owner.clone());
    party.synced(&[]).await;
    assert_eq!(party.graphs().await, ["a"]);
    party.settled().await;
}

fn settings(name: &str, environment: &str, namespace: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: {name}}}\nspec:\n  environments:\n    \
         {environment}: {{namespace: {namespace}}}\n"
    )
}

async fn a_name_is_not_what_a_repository_is(place: &impl Place) {
    let party = Party::of(place, FLEET, &[("a", 1), ("b", 1)]);
    party.synced(&[]).await;
    let before = marks(&party.shop.graph("a").await);
    party.shop.site.write("stator.yaml", &settings("mall", "prod", place.home()));
    party.shop.site.remove("b");
    let (plan, _) = party.plan(&[]).await;
    let fields: Vec<String> =
        plan.changes.iter().flat_map(|change| &change.fields).map(|one| one.path.to_string()).collect();
    assert_eq!(fields, ["metadata.labels[\"stator.dev/repository\"]"]);
    assert_eq!(party.synced(&[]).await, Vec::<String>::new());
    assert_eq!(marks(&party.shop.graph("a").await), before);
    assert_eq!(party.graphs().await, ["a"], "what git no longer has goes under the new name too");
    party.settled().await;
}

async fn an_environment_or_a_folder_is_moved_when_allowed(place: &impl Place) {
    let mut party = Party::of(place, FLEET, &[("a", 1)]);
    party.synced(&[]).await;
    let before = marks(&party.shop.graph("a").await);
    let blocked = async |party: &Party<'_, _>, by: &str| {
        let report = party.sync(&[]).await;
        assert_eq!(report.models[0].result, SyncOutcome::Blocked, "{report:#?}");
        assert!(report.models[0].message.contains(by), "{report:#?}");
        assert_eq!(report.writes, 0);
        party.synced(&[HoldKind::Move]).await;
        party.settled().await;
    };
    party.shop.site.write("stator.yaml", &settings("shop", "live", place.home()));
    blocked(&party, "belongs to repository git.example.com/team/fleet, environment `prod`").await;
    party.owner = repository(FLEET, "clusters/east");
    blocked(&party, "belongs to repository git.example.com/team/fleet, environment `live`").await;
    let (graph, record) = (party.shop.graph("a").await, party.record("a").await);
    assert_eq!(marks(&graph), before, "nothing restarts");
    assert_eq!(record.annotations().get("stator.dev/origin"), Some(&"git:git.example.com/team/fleet//clusters/east"));
    assert_eq!(record.labels().get(LABEL_OWNER_ID), graph.labels().get(LABEL_OWNER_ID));
}

async fn a_model_of_another_name_is_another_model(place: &impl Place) {
    let party = Party::of(place, FLEET, &[("a", 1), ("b", 1)]);
    party.synced(&[]).await;
    party.shop.site.remove("a");
    party.shop.model("z", 1, "");
    party.synced(&[]).await;
    party.shop.ready("z").await;
    party.synced(&[]).await;
    assert_eq!(party.graphs().await, ["b", "z"]);
    party.settled().await;
}

/// Row B4 of the review: what was planned where there was no record is not carried out over one.
async fn a_record_that_somebody_makes_meanwhile_is_not_written_over(place: &impl Place) {
    let fleet = Party::of(place, FLEET, &[("llama", 1)]);
    let fork = Party::of(place, FORK, &[("llama", 2)]);
    let planned = fork.plan(&[]).await;
    fleet.synced(&[]).await;
    let before = fleet.shop.versions().await;
    let report = fork.shop.carry_out(place.cluster(), planned).await;
    assert!(!report.is_success(), "{report:#?}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(place.said(&report.models[0].message), @"DynamoGraphDeployment prod/llama was created by another client after it was planned: sync again; the record could not be written: Model prod/llama: repository git.example.com/team/fleet wrote it after it was planned: sync again to see who owns the model");
    }
    assert_eq!(fleet.shop.versions().await, before, "nothing is written");
    fleet.settled().await;
}

/// Row B4 of the review: whoever removes a model that somebody took in the meantime is told, and deletes nothing.
async fn a_model_that_somebody_takes_meanwhile_is_told_and_kept(place: &impl Place) {
    let fleet = Party::of(place, FLEET, &[("llama", 1), ("qwen", 1)]);
    let fork = Party::of(place, FORK, &[("llama", 1)]);
    fleet.synced(&[]).await;
    fleet.shop.site.remove("llama");
    let planned = fleet.plan(&[]).await;
    fork.synced(&[HoldKind::Move]).await;
    let before = fork.shop.versions().await;
    let report = fleet.shop.carry_out(place.cluster(), planned).await;
    assert!(!report.is_success(), "{report:#?}");
    let told = report.models.iter().find(|model| model.name == "llama").unwrap();
    assert!(told.message.contains("is no longer labelled as this model's, so stator does not change it"), "{told:?}");
    assert_eq!(fork.shop.versions().await, before, "nothing is written");
    fork.settled().await;
    fleet.settled().await;
    // A change in place of a removal is told as well, and needs no more than to be taken again.
    fleet.shop.model("qwen", 3, "");
    let planned = fleet.plan(&[]).await;
    fork.shop.model("qwen", 1, "");
    fork.synced(&[HoldKind::Move]).await;
    let record = fork.record("qwen").await;
    let report = fleet.shop.carry_out(place.cluster(), planned).await;
    assert!(!report.is_success(), "{report:#?}");
    assert_eq!(fork.record("qwen").await, record, "the record is not written over");
    assert!(!fork.sync(&[]).await.is_success(), "who has it is told too");
    fork.synced(&[HoldKind::Move]).await;
    fork.settled().await;
}
