//! Rights that a controller lacks when it starts, and that somebody grants while it runs.

use super::objects::{Stage, hosted, spec};
use super::process::Process;
use crate::git_server::GitServer;
use crate::testbed::{self, until};
use crate::workbench::Workbench;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// The controller's account.
const ACCOUNT: &str = "late";

const EVERYTHING: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// Everything of stator's own, and this besides.
fn rules(more: Option<PolicyRule>) -> Vec<PolicyRule> {
    let own = ["", "stator.dev", "coordination.k8s.io", "events.k8s.io"].map(|group| rule(group, "*", EVERYTHING));
    own.into_iter().chain(more).collect()
}

/// A controller in a namespace, of one source that nobody asks to sync and whose polls find nothing new.
struct Refused {
    stage: Stage<'static>,
    namespace: &'static str,
    bench: Workbench,
    git: GitServer,
}

impl Refused {
    fn of(namespace: &'static str) -> Option<Self> {
        let stage = Stage::on(testbed::shared()?);
        stage.namespace(namespace);
        let (bench, git) = hosted(1);
        Some(Self { stage, namespace, bench, git })
    }

    /// Declares the source, and starts a controller that may do nothing with Dynamo's kinds.
    fn start(&self, more: &Value) -> Process {
        let account = self.stage.plane.account(self.namespace, ACCOUNT, rules(None));
        let kubeconfig = self.stage.runtime.block_on(account);
        let mut spec = spec(&self.git, &json!({"targetNamespace": self.namespace, "interval": "24h"}));
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.stage.declare(self.namespace, "models", spec);
        let arguments = ["--watch-namespace", self.namespace, "--lease-namespace", self.namespace];
        self.stage.run_as((&kubeconfig, ACCOUNT), &self.bench, "controller", "controller", &arguments)
    }

    /// Grants this besides what it has from the start.
    fn grant(&self, more: PolicyRule) {
        let roles: Api<Role> = Api::namespaced(self.stage.client.clone(), self.namespace);
        let patch = Patch::Merge(json!({"rules": rules(Some(more))}));
        self.stage.runtime.block_on(roles.patch(ACCOUNT, &PatchParams::default(), &patch)).unwrap();
    }

    /// What the source says of its readiness.
    fn readiness(&self) -> String {
        let objects = self.stage.objects(self.namespace, "ModelSource");
        let source = self.stage.runtime.block_on(objects.get("models")).unwrap();
        let conditions = source.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready").unwrap_or_default();
        format!("{} {} {}", ready["status"], ready["reason"], ready["message"].as_str().unwrap_or_default())
    }

    fn graphs(&self) -> Vec<String> {
        self.stage.graphs(self.namespace)
    }

    /// Waits until something that was just granted is noticed, by the grant: a timer would get there in the end, too.
    #[track_caller]
    fn notices(&self, controller: &Process, what: &str, so: impl Fn() -> bool) {
        let by_grant = || controller.times(&["missing rights were granted"]) > 0;
        until(what, || (by_grant() && so()).then_some(()).ok_or(|| self.readiness()));
    }
}

/// Row D1 of the review: rights that were granted four seconds after the first refusal were never noticed.
#[test]
fn rights_that_are_granted_later_are_noticed_without_a_restart_and_without_a_commit() {
    let Some(scene) = Refused::of("rights-later") else { return };
    let mut controller = scene.start(&json!({}));
    // It may not read: nothing is planned, and it says which right is missing.
    until("the refusal is told", || scene.readiness().contains("with the verb `list` on `"));
    assert!(scene.graphs().is_empty());
    scene.grant(rule("nvidia.com", "*", &["get", "list", "watch"]));
    // It may read, and not write.
    scene.notices(&controller, "a right to read is noticed", || scene.readiness().contains("mock-0: "));
    assert!(scene.graphs().is_empty());
    scene.grant(rule("nvidia.com", "*", EVERYTHING));
    scene.notices(&controller, "a right to write is noticed", || scene.graphs() == ["mock-0"]);
    assert_eq!(controller.times(&["a new commit"]), 1, "{}", controller.said());
    assert_eq!(controller.end().code(), Some(0));
}

#[test]
fn a_controller_that_may_not_act_as_an_account_says_what_to_set_and_notices_when_it_is() {
    let Some(scene) = Refused::of("rights-as") else { return };
    let deployer =
        scene.stage.plane.account(scene.namespace, "deployer", rules(Some(rule("nvidia.com", "*", EVERYTHING))));
    scene.stage.runtime.block_on(deployer);
    let mut controller = scene.start(&json!({"serviceAccountName": "deployer"}));
    until("the refusal is told", || scene.readiness().contains("impersonate"));
    let told = scene.readiness();
    assert!(told.contains("`rbac.impersonate`"), "{told}");
    scene.grant(rule("", "serviceaccounts", &["impersonate"]));
    scene.notices(&controller, "the right to act as somebody is noticed", || scene.graphs() == ["mock-0"]);
    assert_eq!(controller.end().code(), Some(0));
}
