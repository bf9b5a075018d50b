//! The rights that the chart gives, by what is done with them: two releases work on a real API server under exactly the
//! accounts and roles that they bring, through everything that a controller does. What was refused is a right that is
//! missing. What nothing would have been refused without is a right too many.

mod rules;
mod stage;

use crate::testbed::AuditedRequest;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams, Patch, PatchParams};
use rules::{elsewhere, granted, idle, refused, used, user};
use serde_json::json;
use stage::{ACTING, OWN, PLAIN, SCOPED, Stage, TENANTS, WIDE};

/// Whom the chart gives rights.
const WIDE_CONTROLLER: (&str, &str) = (WIDE.0, "stator-controller");
const WIDE_SERVER: (&str, &str) = (WIDE.0, "stator-server");
const SCOPED_CONTROLLER: (&str, &str) = (SCOPED.0, "own-stator-controller");
/// And whom `docs/how-to/grant-rights.md` does.
const DEPLOYER: (&str, &str) = (ACTING, "deployer");

/// What is asked for all the same, and done without where it is refused.
const DONE_WITHOUT: [&str; 8] = [
    // A Role gives nothing of the whole cluster: definitions are looked over as far as that goes.
    "system:serviceaccount:rights-scoped:own-stator-controller may not get customresourcedefinitions.apiextensions.k8s.io/dynamographdeployments.nvidia.com in every namespace",
    "system:serviceaccount:rights-scoped:own-stator-controller may not get customresourcedefinitions.apiextensions.k8s.io/dynamographdeploymentrequests.nvidia.com in every namespace",
    "system:serviceaccount:rights-scoped:own-stator-controller may not get customresourcedefinitions.apiextensions.k8s.io/dynamomodels.nvidia.com in every namespace",
    "system:serviceaccount:rights-scoped:own-stator-controller may not get customresourcedefinitions.apiextensions.k8s.io/models.stator.dev in every namespace",
    // Neither does that page: which release of Dynamo there is, the environment then says.
    "system:serviceaccount:tenant-acting:deployer may not get customresourcedefinitions.apiextensions.k8s.io/dynamographdeploymentrequests.nvidia.com in every namespace",
    "system:serviceaccount:tenant-acting:deployer may not get customresourcedefinitions.apiextensions.k8s.io/dynamographdeployments.nvidia.com in every namespace",
    "system:serviceaccount:tenant-acting:deployer may not get customresourcedefinitions.apiextensions.k8s.io/dynamomodels.nvidia.com in every namespace",
    // The page says what this is for.
    "system:serviceaccount:tenant-acting:deployer may not list models.stator.dev in every namespace",
];

#[test]
fn every_right_is_used_and_none_is_missing() {
    let Some(mut stage) = Stage::new() else { return };
    stage.convert();
    stage.populate();
    stage.install();
    stage.declare();
    a_sync_waits(&mut stage);
    a_record_is_refused(&mut stage);
    objects_drift(&stage);
    sources_are_suspended_twice(&stage);
    models_go(&mut stage);
    nothing_is_asked_at_rest(&stage);
    webhooks_come(&stage);
    leases_are_fought_over(&stage);
    replicas_end(&stage);

    let (accounts, requests) = (accounts(), stage.requests());
    let rights = stage.runtime.block_on(granted(&stage.client, &accounts));
    let used = used(&requests, &accounts);
    let idle = idle(&rights, &used);
    let missing = stage.missing();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "rights that are missing:\n{missing:#?}\nrights that nothing needs:\n{idle:#?}"
    );
    let elsewhere = elsewhere(&rights, &used);
    assert!(elsewhere.is_empty(), "rights that are not the roles':\n{elsewhere:#?}");
    let refused = refused(&requests, &accounts);
    let never: Vec<&&str> = DONE_WITHOUT.iter().filter(|one| !refused.iter().any(|refused| refused == **one)).collect();
    assert!(never.is_empty(), "nobody asks for this any more:\n{never:#?}");
}

/// All whose rights are looked at, as API servers call them.
fn accounts() -> Vec<String> {
    [WIDE_CONTROLLER, WIDE_SERVER, SCOPED_CONTROLLER, DEPLOYER].map(user).to_vec()
}

/// What an account asked for in a namespace.
fn by<'a>(
    requests: &'a [AuditedRequest],
    account: (&str, &str),
    namespace: &str,
    what: (&str, &str),
) -> Vec<&'a AuditedRequest> {
    let account = user(account);
    let own = |request: &&AuditedRequest| {
        *request.acting_as.as_ref().unwrap_or(&request.user) == account
            && request.namespace == namespace
            && (request.verb.as_str(), request.resource.as_str()) == what
    };
    requests.iter().filter(own).collect()
}

/// Waits until an account asks for that in a namespace.
#[track_caller]
fn asked(stage: &Stage, account: (&str, &str), namespace: &str, what: (&str, &str)) {
    stage.until(&format!("{account:?} asks to {} {} in {namespace}", what.0, what.1), || {
        !by(&stage.requests(), account, namespace, what).is_empty()
    });
}

/// Who syncs what is in each tenant's namespace.
const SYNCED_BY: [((&str, &str), &str); 3] = [(WIDE_CONTROLLER, PLAIN), (DEPLOYER, ACTING), (SCOPED_CONTROLLER, OWN)];

/// Models that take their time: their pods are looked at for a cause. Then they are ready, and what waits for that is made.
fn a_sync_waits(stage: &mut Stage) {
    for (account, namespace) in SYNCED_BY {
        asked(stage, account, namespace, ("list", "pods"));
    }
    stage.operate();
    stage.synced();
    // The adapter is loaded by then: whether it is served only its frontend tells.
    for (account, namespace) in SYNCED_BY {
        asked(stage, account, namespace, ("get", "services/proxy"));
    }
}

/// A policy refuses to have a record written, and journals. What is there is in doubt then, and read again once the policy is
/// gone.
fn a_record_is_refused(stage: &mut Stage) {
    stage.freeze_records();
    let another = stage.bench.read("models/small/model.yaml").replace("name: small", "name: another");
    stage.bench.write("models/another/model.yaml", another);
    stage.bench.replace("models/small/model.yaml", "replicas: 1", "replicas: 2");
    stage.commit("change one");
    for (account, namespace) in SYNCED_BY {
        stage.until("a record is refused", || {
            let requests = stage.requests();
            let refused = |resource: &str| {
                by(&requests, account, namespace, ("patch", resource)).iter().any(|request| request.code == 422)
            };
            refused("models") && refused("syncjournals")
        });
    }
    stage.thaw_records();
    stage.synced();
}

/// Hands take a graph away, and it is made again.
fn objects_drift(stage: &Stage) {
    let before = TENANTS.map(|namespace| stage.graphs(namespace)["small"].clone());
    for namespace in TENANTS {
        stage.ground.kubectl(&["delete", "dynamographdeployment", "small", "-n", namespace]);
    }
    for (namespace, before) in TENANTS.iter().zip(before) {
        stage.until("it is made again", || stage.graphs(namespace).get("small").is_some_and(|uid| *uid != before));
    }
    stage.synced();
}

/// What happens a second time counts on in the event of the first.
fn sources_are_suspended_twice(stage: &Stage) {
    for _ in 0..2 {
        for suspended in [true, false] {
            for namespace in [PLAIN, OWN] {
                stage.suspend(namespace, suspended);
            }
            for namespace in [PLAIN, OWN] {
                stage.until("it says so", || stage.is_suspended(namespace) == suspended);
            }
        }
    }
    for (account, namespace) in [(WIDE_CONTROLLER, PLAIN), (SCOPED_CONTROLLER, OWN)] {
        asked(stage, account, namespace, ("patch", "events"));
    }
}

/// One of every kind is pruned.
fn models_go(stage: &mut Stage) {
    stage.bench.remove("models/loaded");
    stage.bench.remove("models/wanted");
    stage.bench.remove("models/another");
    stage.commit("remove three");
    stage.synced();
}

/// How many renewals of leases are looked at: one replica writes two or more in five seconds.
const RENEWALS: usize = 16;

/// Once everything is synced, leases are renewed and watches stay open, and nothing else is asked of the API server.
fn nothing_is_asked_at_rest(stage: &Stage) {
    let others = |requests: &[AuditedRequest]| -> Vec<String> {
        let is_at_rest = |request: &AuditedRequest| request.resource == "leases" || request.verb == "watch";
        let others = requests.iter().filter(|request| !is_at_rest(request));
        others.map(|request| format!("{} {} {}", request.user, request.verb, request.path)).collect()
    };
    let newest = |requests: &[AuditedRequest]| requests.len().saturating_sub(RENEWALS);
    stage.until("what is under way is through", || {
        let requests = stage.requests();
        others(&requests[newest(&requests)..]).is_empty()
    });
    let before = stage.requests().len();
    stage.until("leases are renewed", || stage.requests().len() >= before + RENEWALS);
    let asked = others(&stage.requests()[before..]);
    assert!(asked.is_empty(), "asked at rest:\n{asked:#?}");
}

/// A push is told to whoever takes webhooks: a server, or a replica that has to hand it on.
fn webhooks_come(stage: &Stage) {
    for server in stage.pods(WIDE.0, "server") {
        stage.until("the server takes it", || stage.deliver(server, PLAIN) == 202);
    }
    for controller in stage.pods(SCOPED.0, "controller") {
        stage.until("the controller takes it", || stage.deliver(controller, OWN) == 202);
    }
    for (account, namespace) in [(WIDE_SERVER, PLAIN), (SCOPED_CONTROLLER, OWN)] {
        asked(stage, account, namespace, ("patch", "modelsources"));
    }
}

/// Somebody writes into leases at the very moment when their holders do.
fn leases_are_fought_over(stage: &Stage) {
    for account in [WIDE_CONTROLLER, SCOPED_CONTROLLER] {
        let leases: Api<Lease> = Api::namespaced(stage.client.clone(), account.0);
        stage.until("a replica reads a lease that it lost a write to", || {
            stage.runtime.block_on(async {
                for lease in leases.list(&ListParams::default()).await.unwrap().items {
                    let name = lease.metadata.name.unwrap();
                    for count in 0..100 {
                        let patch = json!({"metadata": {"annotations": {"test": count.to_string()}}});
                        // It may be gone meanwhile.
                        let _ = leases.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                    }
                }
            });
            !by(&stage.requests(), account, account.0, ("get", "leases")).is_empty()
        });
    }
}

/// A replica that is asked to end takes its lease away.
fn replicas_end(stage: &Stage) {
    for (namespace, _) in [WIDE, SCOPED] {
        let pods = stage.ground.node.pods(namespace);
        let (name, _) = pods.iter().find(|(name, _)| name.contains("controller")).unwrap();
        stage.ground.kubectl(&["delete", "pod", name, "-n", namespace, "--wait=false"]);
    }
    for account in [WIDE_CONTROLLER, SCOPED_CONTROLLER] {
        asked(stage, account, account.0, ("delete", "leases"));
    }
}
