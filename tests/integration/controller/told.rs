//! What is said of sources in the cluster itself: their status and their events, and what people ask by annotations. The
//! real program on a real API server; Dynamo's operator is played.

use super::head;
use super::objects::{Stage, hosted, spec};
use crate::testbed::{self, until};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes every graph of a namespace ready, until it is dropped.
pub(super) struct Operator {
    ending: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

impl Operator {
    pub(super) fn plays(stage: &Stage<'_>, namespace: &str) -> Self {
        let (ending, graphs) = (Arc::new(AtomicBool::new(false)), stage.objects(namespace, "DynamoGraphDeployment"));
        let (over, handle) = (Arc::clone(&ending), stage.runtime.handle().clone());
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                handle.block_on(async {
                    for graph in graphs.list(&ListParams::default()).await.unwrap() {
                        let generation = graph.metadata.generation;
                        if graph.data.pointer("/status/observedGeneration").and_then(Value::as_i64) == generation {
                            continue;
                        }
                        let ready = json!({"type": "Ready", "status": "True", "reason": "all_resources_are_ready",
                            "message": "", "lastTransitionTime": "2026-05-01T00:00:00Z"});
                        let status = json!({"status": {
                            "observedGeneration": generation, "state": "successful", "conditions": [ready],
                        }});
                        let manager =
                            PatchParams { field_manager: Some("manager".to_owned()), ..PatchParams::default() };
                        let name = graph.metadata.name.unwrap();
                        // It may be gone by now.
                        let _ = graphs.patch_status(&name, &manager, &Patch::Merge(&status)).await;
                    }
                });
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        });
        Self { ending, thread: Some(thread) }
    }
}

/// The source `models` of a namespace, as people see it.
struct Seen<'a> {
    stage: &'a Stage<'a>,
    namespace: &'static str,
}

impl Seen<'_> {
    fn source(&self) -> kube::api::DynamicObject {
        let objects = self.stage.objects(self.namespace, "ModelSource");
        self.stage.runtime.block_on(objects.get("models")).unwrap()
    }

    fn status(&self) -> Value {
        self.source().data["status"].clone()
    }

    fn version(&self) -> String {
        self.source().metadata.resource_version.unwrap()
    }

    /// Status, reason and message of `Ready`.
    fn ready(&self) -> (String, String, String) {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready").unwrap_or_default();
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    fn is(&self, status: &str, reason: &str, commit: &str) -> bool {
        let (now, why, _) = self.ready();
        now == status && why == reason && self.status()["revision"]["seen"] == commit
    }

    fn synced(&self, commit: &str) {
        until(&format!("{commit} is synced"), || {
            let status = self.status();
            let rests = status["phase"] == "Idle" && status["revision"]["applied"] == commit;
            self.is("True", "ReconciliationSucceeded", commit) && rests
        });
    }

    fn annotate(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
        let objects = self.stage.objects(self.namespace, "ModelSource");
        self.stage.runtime.block_on(objects.patch("models", &PatchParams::default(), &patch)).unwrap();
    }

    /// Reasons and notes of the source's events, in the order in which they were written.
    fn events(&self, kind: &str) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.stage.client.clone(), self.namespace);
        let mut events = self.stage.runtime.block_on(events.list(&ListParams::default())).unwrap().items;
        events.retain(|event| event.regarding.as_ref().and_then(|one| one.kind.as_deref()) == Some(kind));
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        events.into_iter().map(|event| (event.reason.unwrap(), event.note.unwrap_or_default())).collect()
    }

    fn hears(&self, reason: &str, note: &str) {
        until(&format!("an event {reason}: {note}"), || {
            self.events("ModelSource").iter().any(|(of, text)| of == reason && text.contains(note))
        });
    }
}

#[test]
fn a_source_says_how_it_stands_and_is_answered_by_annotations() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let namespace = "told-story";
    stage.namespace(namespace);
    let _operator = Operator::plays(&stage, namespace);
    let (bench, git) = hosted(7);
    let first = head(&bench);
    stage.declare(namespace, "models", spec(&git, &json!({"targetNamespace": namespace})));
    let scoped = ["--watch-namespace", namespace, "--lease-namespace", namespace];
    let mut controller = stage.run(&bench, "controller", "controller", &scoped);
    let seen = Seen { stage: &stage, namespace };
    seen.synced(&first);
    seen.hears("Synced", "7 models healthy, 7 changed");
    let status = seen.status();
    assert_eq!((&status["observedGeneration"], &status["models"]["ready"]), (&json!(1), &json!("7/7")));
    until("models tell, too", || seen.events("Model").iter().filter(|(reason, _)| reason == "Synced").count() == 7);

    // At rest nothing is written, however often is looked.
    let at_rest = seen.version();
    git.asked();
    let looks = Cell::new(0);
    until("three more looks", || looks.replace(looks.get() + git.asked().len()) >= 3);
    assert_eq!(seen.version(), at_rest);

    // What a guard holds back is let go for its commit, and for no other.
    (1..7).for_each(|number| bench.remove(&format!("models/mock-{number}")));
    let second = bench.commit("remove most");
    until("it is held", || seen.is("False", "Held", &second));
    let held = seen.status()["held"].clone();
    assert_eq!(held["command"], format!("stator sync --source models -n {namespace} --allow mass-delete"));
    let plan = held["plan"].as_str().unwrap();
    let other_plan = "0".repeat(64);
    seen.hears("Held", &format!("stator.dev/allow=mass-delete@{second}:{plan}"));
    seen.annotate("stator.dev/allow", &format!("mass-delete@{first}:{plan}"));
    seen.hears("RequestNotMet", "is for another commit");
    seen.annotate("stator.dev/allow", &format!("mass-delete@{second}:{other_plan}"));
    seen.hears("RequestNotMet", "is for another plan");
    // A commit without a plan, or less than a commit, is no approval.
    for short in [format!("mass-delete@{second}"), format!("mass-delete@{}:{plan}", &second[..7])] {
        seen.annotate("stator.dev/allow", &short);
        until("it is told", || seen.ready().2.contains("names no commit and plan in full"));
    }
    assert_eq!(stage.graphs(namespace).len(), 7);
    seen.annotate("stator.dev/allowed-by", "alice");
    seen.annotate("stator.dev/allow", &format!("mass-delete@{second}:{plan}"));
    seen.synced(&second);
    seen.hears("Approved", &format!("mass-delete of {} was approved by alice", &second[..7]));
    let approval = json!({"revision": second, "plan": plan, "guards": "mass-delete", "by": "alice"});
    assert_eq!(seen.status()["approval"], approval);
    assert_eq!((stage.graphs(namespace), &seen.status()["held"]), (vec!["mock-0".to_owned()], &Value::Null));
    assert_eq!(controller.end().code(), Some(0));
}
