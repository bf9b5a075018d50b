//! The admission policy of the chart: to configure a source, to ask for a sync, to suspend it, to approve and to leave a
//! hint are rights of their own. Held against a real API server, by accounts that have one of them each.

use super::rendered;
use crate::testbed::{self, ControlPlane, eventually};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

const NAMESPACE: &str = "source-rights";

/// What somebody may try, and the verb that it takes beside `patch`.
fn attempts() -> Vec<(&'static str, &'static str, Value)> {
    let annotate = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let approval = format!("replace@$NOW:{}", "d".repeat(64));
    vec![
        ("an approval", "approve", annotate(json!({"stator.dev/allow": approval, "stator.dev/allowed-by": "$ME"}))),
        ("a window exception", "approve", annotate(json!({"stator.dev/outside-windows": "$NOW"}))),
        ("a request", "sync", annotate(json!({"stator.dev/requestedAt": "$NOW"}))),
        ("a request as Flux has it", "sync", annotate(json!({"reconcile.fluxcd.io/requestedAt": "$NOW"}))),
        ("a suspension", "suspend", json!({"spec": {"suspend": "$FLIP"}})),
        ("another repository", "configure", json!({"spec": {"url": "https://evil.example.net/$NOW.git"}})),
        ("another account", "configure", json!({"spec": {"serviceAccountName": "admin-$NOW"}})),
        ("a label", "configure", json!({"metadata": {"labels": {"team": "$NOW"}}})),
        ("a finalizer", "configure", json!({"metadata": {"finalizers": ["example.com/x-$NOW"]}})),
        ("another annotation", "configure", annotate(json!({"example.com/note": "$NOW"}))),
        ("a hint", "hint", annotate(json!({"stator.dev/hints": "$NOW"}))),
    ]
}

struct Tried<'a> {
    plane: &'a ControlPlane,
    number: std::cell::Cell<u32>,
}

impl Tried<'_> {
    async fn sources(&self, client: kube::Client) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("stator.dev", "v1alpha1", "ModelSource"));
        Api::namespaced_with(client, NAMESPACE, &kind)
    }

    /// What the API server says to a change by an account: `Ok`, or its message.
    async fn tries(&self, as_whom: &Api<DynamicObject>, me: &str, patch: &Value) -> Result<(), String> {
        self.number.set(self.number.get() + 1);
        let admin = self.sources(self.plane.admin().await).await;
        let suspended = admin.get("models").await.unwrap().data["spec"]["suspend"] == true;
        let text = patch.to_string().replace("$NOW", &self.number.get().to_string());
        let text = text.replace("$SECONDS", &(60 + self.number.get()).to_string()).replace("$ME", me);
        let text = text.replace("\"$FLIP\"", &(!suspended).to_string());
        let patch: Value = serde_json::from_str(&text).unwrap();
        let done = as_whom.patch("models", &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map(drop).map_err(|error| error.to_string())
    }
}

/// S14, S9: who may write a source may not configure it, approve, request, suspend or leave hints without the verb for that;
/// and nobody approves in somebody else's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_lets_do_one_thing_and_no_other() {
    let Some(plane) = testbed::shared() else { return };
    let Some(chart) = rendered(&["--show-only", "templates/admission.yaml"]) else { return };
    plane.namespace(NAMESPACE).await;
    let admin = plane.admin().await;
    for document in chart.split("\n---\n").filter(|text| text.contains("kind:")) {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        let kind = object["kind"].as_str().unwrap().to_owned();
        if kind == "ValidatingAdmissionPolicyBinding" {
            // Others use this API server as well.
            object["spec"]["matchResources"] =
                json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}});
        }
        let of = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", &kind);
        let plural =
            if kind.ends_with("Binding") { "validatingadmissionpolicybindings" } else { "validatingadmissionpolicies" };
        let api: Api<DynamicObject> = Api::all_with(admin.clone(), &ApiResource::from_gvk_with_plural(&of, plural));
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    }
    let tried = Tried { plane, number: std::cell::Cell::new(0) };
    let sources = tried.sources(admin.clone()).await;
    let source = json!({
        "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": {"name": "models", "namespace": NAMESPACE},
        "spec": {"url": "https://git.example.com/team/models.git", "ref": {"branch": "main"}, "suspend": true},
    });
    sources.patch("models", &PatchParams::apply("test").force(), &Patch::Apply(source)).await.unwrap();
    let verbs = ["approve", "sync", "suspend", "configure", "hint"];
    let mut accounts = Vec::new();
    for verb in verbs.into_iter().chain(["nothing"]) {
        let rule = PolicyRule {
            api_groups: Some(vec!["stator.dev".to_owned()]),
            resources: Some(vec!["modelsources".to_owned()]),
            verbs: ["get", "patch", verb].map(str::to_owned).to_vec(),
            ..PolicyRule::default()
        };
        let kubeconfig = plane.account(NAMESPACE, verb, vec![rule]).await;
        let config = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
        let options = kube::config::KubeConfigOptions { context: Some(verb.to_owned()), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        accounts.push((verb, tried.sources(kube::Client::try_from(config).unwrap()).await));
    }
    // The policy is taken up a moment after it is made.
    let (_, nobody) = accounts.last().unwrap();
    let forbidden = json!({"metadata": {"labels": {"team": "$NOW"}}});
    eventually("the policy is taken up", async || tried.tries(nobody, "x", &forbidden).await.is_err()).await;
    for (what, needed, patch) in attempts() {
        for (verb, account) in &accounts {
            let me = format!("system:serviceaccount:{NAMESPACE}:{verb}");
            let done = tried.tries(account, &me, &patch).await;
            match done {
                Ok(()) => assert_eq!(*verb, needed, "{what} was let through"),
                Err(message) => {
                    assert!(message.contains(&format!("`{needed}`")), "{what} as {verb}: {message}");
                    assert_ne!(*verb, needed, "{what}: {message}");
                }
            }
        }
    }
    // Under cover of what it may.
    let suspender = &accounts.iter().find(|(verb, _)| *verb == "suspend").unwrap().1;
    let more = json!({"spec": {"suspend": "$FLIP", "timeout": "$SECONDSs"}});
    let refused = tried.tries(suspender, "", &more).await.unwrap_err();
    assert!(refused.contains("`configure`"), "{refused}");
    // In somebody else's name, and in nobody's.
    let approver = &accounts.iter().find(|(verb, _)| *verb == "approve").unwrap().1;
    for by in [json!("system:admin"), Value::Null] {
        let allow = format!("delete@{}:{}", "b".repeat(40), "e".repeat(64));
        let patch = json!({"metadata": {"annotations": {"stator.dev/allow": allow, "stator.dev/allowed-by": by}}});
        let refused = tried.tries(approver, "", &patch).await.unwrap_err();
        assert!(refused.contains("whoever approves is named by the annotation"), "{refused}");
    }
    // Four eyes: one more name behind another's is one's own, of who has not approved yet, and for the same plan.
    let person = |verb: &str| format!("system:serviceaccount:{NAMESPACE}:{verb}");
    let account = |name: &'static str| {
        let rule = PolicyRule {
            api_groups: Some(vec!["stator.dev".to_owned()]),
            resources: Some(vec!["modelsources".to_owned()]),
            verbs: ["get", "patch", "approve"].map(str::to_owned).to_vec(),
            ..PolicyRule::default()
        };
        let tried = &tried;
        async move {
            let config = kube::config::Kubeconfig::read_from(plane.account(NAMESPACE, name, vec![rule]).await).unwrap();
            let options = kube::config::KubeConfigOptions { context: Some(name.to_owned()), ..Default::default() };
            let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
            tried.sources(kube::Client::try_from(config).unwrap()).await
        }
    };
    let second = &account("second").await;
    let (mine, theirs) = (person("approve"), person("second"));
    let allow = |plan: &str| format!("delete@{}:{}", "b".repeat(40), plan.repeat(64));
    let says = |allow: &str, by: &str| json!({"metadata": {"annotations": {"stator.dev/allow": allow, "stator.dev/allowed-by": by}}});
    tried.tries(approver, "", &says(&allow("e"), &mine)).await.unwrap();
    for forged in [format!("{mine},bob"), format!("{mine},{mine}"), format!("bob,{mine}"), format!("{mine}, {mine}")] {
        let refused = tried.tries(approver, "", &says(&allow("e"), &forged)).await.unwrap_err();
        assert!(refused.contains("whoever approves is named by the annotation"), "{forged}: {refused}");
    }
    let both = format!("{mine},{theirs}");
    tried.tries(second, "", &says(&allow("f"), &both)).await.expect_err("another plan takes the first's name along");
    tried.tries(second, "", &says(&allow("e"), &both)).await.unwrap();
    // What was approved may be taken back by whoever may approve, and hints stay what they are meanwhile.
    let back = json!({"metadata": {"annotations": {"stator.dev/allow": null, "stator.dev/allowed-by": null}}});
    tried.tries(approver, "", &back).await.unwrap();
}
