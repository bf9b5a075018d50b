//! The health of requests, adapters, scaling adapters and claims.

use super::{Health, HealthVerdict, find_condition, stale_generation_verdict, unobserved_verdict};
use crate::dynamo::graph_components::named_components;
use crate::dynamo::kinds::{ADAPTER, GRAPH};
use crate::dynamo::served_models::{FrontendAnswer, MODELS_PATH};
use crate::object::Object;
use serde_json::Value;
use std::collections::BTreeMap;

fn status_str<'a>(object: &'a Object, pointer: &str) -> &'a str {
    object.status().pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A request runs once. `Failed` is for ever, and an edit after its end is ignored for ever.
pub(super) fn request_health(object: &Object) -> HealthVerdict {
    let phase = status_str(object, "/phase");
    if phase == "Failed" {
        return HealthVerdict::new(Health::Failed, failure_message(object)).into_terminal();
    }
    let auto_apply = object.spec().get("autoApply").and_then(Value::as_bool).unwrap_or(true);
    if let Some(verdict) = stale_generation_verdict(object) {
        // From 1.4 on a request that is Ready goes on once it is to apply what it found.
        let goes_on = phase == "Ready" && auto_apply;
        if !goes_on && verdict.health == Health::Progressing && matches!(phase, "Ready" | "Deployed") {
            return HealthVerdict::new(
                Health::Degraded,
                "was edited after it completed, which Dynamo ignores: delete it, and the next sync creates it again",
            )
            .into_terminal();
        }
        return verdict;
    }
    match phase {
        "Deployed" => HealthVerdict::new(Health::Healthy, format!("deployed as {}", status_str(object, "/dgdName"))),
        "Ready" if !auto_apply => {
            HealthVerdict::new(Health::Healthy, "a recommendation is available: `stator lock` keeps it in git")
        }
        "Ready" => HealthVerdict::progressing("profiled; the graph does not exist yet"),
        "Deploying" => match find_condition(object, "DeploymentReady") {
            Some(one) if one.status == "False" && one.reason == "DeploymentDegraded" => {
                HealthVerdict::new(Health::Degraded, one.message)
            }
            Some(_) | None => {
                HealthVerdict::progressing(format!("deploying {}", status_str(object, "/dgdName")).trim_end())
            }
        },
        "Profiling" => {
            let step = status_str(object, "/profilingPhase");
            HealthVerdict::progressing(if step.is_empty() {
                "profiling".to_owned()
            } else {
                format!("profiling: {step}")
            })
        }
        "" | "Pending" => HealthVerdict::progressing("waiting to be profiled"),
        other => HealthVerdict::new(Health::Unknown, format!("unknown phase {other}")),
    }
}

/// Where a request failed, why, and what to do: Dynamo never tries it again.
fn failure_message(object: &Object) -> String {
    let steps = [
        ("Validation", "while it was validated"),
        ("Profiling", "while profiling"),
        ("SpecGenerated", "while its graph was written"),
        ("DeploymentReady", "while deploying"),
        ("Succeeded", ""),
    ];
    let failed = steps.iter().find_map(|(name, step)| {
        let one = find_condition(object, name).filter(|one| one.status == "False" && !one.message.is_empty())?;
        Some((*step, one))
    });
    let Some((step, one)) = failed else {
        return "the request failed without a reason; increase `sla.attempt` by one to try again".to_owned();
    };
    let step = if step.is_empty() { String::new() } else { format!(" {step}") };
    let reason = if one.reason.is_empty() { String::new() } else { format!(" ({})", one.reason) };
    let message = one.message.trim_end_matches('.');
    let next = match one.reason {
        "DeploymentDeleted" => "increase `sla.attempt` by one to create it again",
        _ => "change the targets in `sla`, or increase `sla.attempt` by one to try again",
    };
    format!("the request failed{step}{reason}: {message}; {next}")
}

/// A request together with the graph that it made, as far as there is one: the graph shows what the request's phase
/// only says later.
pub(super) fn combine_with_graph(request: HealthVerdict, graph: &Object, judged: HealthVerdict) -> HealthVerdict {
    let name = graph.name();
    if request.health == Health::Failed || graph.is_deleting() {
        return request;
    }
    match judged.health {
        Health::Healthy => request,
        Health::Suspended if request.health == Health::Healthy => {
            HealthVerdict { message: format!("graph {name}: {}", judged.message), ..judged }
        }
        Health::Suspended => request,
        Health::Progressing | Health::Unknown | Health::Degraded | Health::Failed => {
            let message = format!("graph {name}: {}", judged.message);
            // The operator tries a graph again for ever, so its failure is no end of the request.
            HealthVerdict { health: request.health.max(judged.health), message, terminal: false }
        }
    }
}

/// An adapter is loaded on each endpoint of its base model. A base model only needs endpoints.
pub(super) fn adapter_health(object: &Object) -> HealthVerdict {
    let generation = object.generation().unwrap_or(0);
    let Some(ready) = find_condition(object, "EndpointsReady") else {
        return unobserved_verdict();
    };
    // The generation is in the conditions, as the object has none of its own.
    match ready.observed_generation {
        None => return unobserved_verdict(),
        Some(observed) if observed < generation => {
            return HealthVerdict::progressing("the operator has not observed the change yet");
        }
        Some(_) => {}
    }
    if let Some(services) = find_condition(object, "ServicesFound")
        && services.status == "False"
    {
        return HealthVerdict::new(Health::Failed, services.message);
    }
    let count = |name: &str| object.status().get(name).and_then(Value::as_u64).unwrap_or(0);
    let (loaded, total) = (count("readyEndpoints"), count("totalEndpoints"));
    let kind = object.spec().get("modelType").and_then(Value::as_str).unwrap_or("base");
    if kind == "base" {
        return if ready.status == "True" {
            HealthVerdict::new(Health::Healthy, format!("{total} endpoints"))
        } else {
            HealthVerdict::progressing(format!("no endpoints yet: {}", ready.message))
        };
    }
    match (loaded, total) {
        (_, 0) => HealthVerdict::progressing("the base model has no endpoints yet"),
        (loaded, total) if loaded >= total => {
            HealthVerdict::new(Health::Healthy, format!("loaded on {total} of {total} endpoints"))
        }
        // From 1.4 on the operator calls endpoints ready that another one covers, and does not load the adapter there.
        (loaded, total) if ready.status == "True" => {
            let covered = if total.saturating_sub(loaded) == 1 { "the other" } else { "the others" };
            HealthVerdict::new(Health::Healthy, format!("loaded on {loaded} of {total} endpoints, {covered} covered"))
        }
        (0, total) => HealthVerdict::progressing(format!("loaded on 0 of {total} endpoints: {}", ready.message)),
        (loaded, total) => {
            HealthVerdict::new(Health::Degraded, format!("loaded on {loaded} of {total} endpoints: {}", ready.message))
        }
    }
}

/// How many endpoints the operator knows for an adapter, and of which base model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterEndpoints {
    /// What clients ask for.
    pub served_name: String,
    /// The base model.
    pub base_model: String,
    /// How many there are by the adapter's own status.
    pub total: u64,
}

impl AdapterEndpoints {
    /// Those of an adapter; `None` for any other object.
    pub fn from_adapter(adapter: &Object) -> Option<Self> {
        let kind = adapter.spec().get("modelType").and_then(Value::as_str).unwrap_or("base");
        let base = adapter.str_at("/spec/baseModelName")?;
        (adapter.kind() == ADAPTER.kind && kind != "base").then(|| Self {
            served_name: adapter.str_at("/spec/modelName").unwrap_or_default().to_owned(),
            base_model: base.to_owned(),
            total: adapter.status().get("totalEndpoints").and_then(Value::as_u64).unwrap_or(0),
        })
    }

    /// The verdict on the adapter, held against the workers that are ready in its graph. The operator looks at an
    /// adapter some time after its workers were replaced; until then its status counts those that were there before.
    pub fn check_against_workers(&self, verdict: HealthVerdict, workers: u64) -> HealthVerdict {
        let Self { served_name: _, base_model: _, total } = self;
        if verdict.health != Health::Healthy || *total >= workers {
            return verdict;
        }
        HealthVerdict::progressing(format!("loaded on {total} endpoints, and {workers} workers are ready"))
    }

    /// The verdict on the adapter, held against what the frontend of its graph serves: workers that have loaded an adapter
    /// serve nobody before the frontend knows of it. Where that cannot be found out, the operator's word stands.
    pub fn check_against_frontend(&self, verdict: HealthVerdict, answer: &FrontendAnswer) -> HealthVerdict {
        if verdict.health != Health::Healthy {
            return verdict;
        }
        let (name, loaded) = (&self.served_name, &verdict.message);
        match answer {
            FrontendAnswer::NotAsked => verdict,
            FrontendAnswer::Serves(names) if names.contains(name) => {
                HealthVerdict::new(Health::Healthy, format!("{loaded}, served"))
            }
            FrontendAnswer::Serves(_) => HealthVerdict::progressing(format!(
                "{loaded}, not served yet: {MODELS_PATH} of the frontend does not list `{name}`"
            )),
            FrontendAnswer::Unknown { why, may_pass: _ } => {
                HealthVerdict::new(Health::Healthy, format!("{loaded}; unknown whether it is served: {why}"))
            }
        }
    }
}

/// How many workers of a graph are ready for the adapters of each base model. A component whose status does not count
/// those that are ready counts for none.
pub fn ready_workers(graph: &Object) -> BTreeMap<String, u64> {
    let mut workers = BTreeMap::new();
    for (name, component) in named_components(graph.spec()).filter(|_| graph.kind() == GRAPH.kind) {
        let Some(base) = component.pointer("/modelRef/name").and_then(Value::as_str) else { continue };
        let counted = graph.status().get("components").and_then(|all| all.get(name));
        let ready = counted.and_then(|one| one.get("readyReplicas")).and_then(Value::as_u64).unwrap_or(0);
        let sum: &mut u64 = workers.entry(base.to_owned()).or_default();
        *sum = sum.saturating_add(ready);
    }
    workers
}

/// Scaling adapters report no generation: the selector shows that the operator took it up.
pub(super) fn scaling_adapter_health(object: &Object) -> HealthVerdict {
    let count = |value: &Value| value.get("replicas").and_then(Value::as_u64).unwrap_or(0);
    let (want, have) = (count(object.spec()), count(object.status()));
    if status_str(object, "/selector").is_empty() {
        return HealthVerdict::progressing("the operator has not processed it yet");
    }
    match (have, want) {
        (0, 0) => HealthVerdict::new(Health::Suspended, "at 0 replicas"),
        (have, want) if have == want => HealthVerdict::new(Health::Healthy, format!("{have} replicas")),
        (have, want) => HealthVerdict::progressing(format!("{have} of {want} replicas")),
    }
}

/// The API server fills in the default storage class where there is one.
fn describe_pending_claim(claim: &Object) -> String {
    let text = |field: &str| claim.spec().get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    match text("storageClassName") {
        Some(class) => format!("waiting for a volume of storage class `{class}`"),
        None if status_str(claim, "/phase").is_empty() || text("volumeName").is_some() => {
            "waiting for a volume".to_owned()
        }
        None => {
            "waiting for a volume; it names no storage class, and the cluster has no default one: set one in git, or \
                 create a volume for it"
                .to_owned()
        }
    }
}

pub(super) fn claim_health(object: &Object) -> HealthVerdict {
    match status_str(object, "/phase") {
        "Bound" => HealthVerdict::new(Health::Healthy, "bound"),
        "Lost" => HealthVerdict::new(Health::Failed, "its volume is lost").into_terminal(),
        "" | "Pending" => HealthVerdict::progressing(describe_pending_claim(object)),
        other => HealthVerdict::new(Health::Unknown, format!("unknown phase {other}")),
    }
}
