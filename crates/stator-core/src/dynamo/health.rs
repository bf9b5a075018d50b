//! Whether an object serves, from its own status: what Dynamo's operator writes, read with its traps in mind.
//!
//! The operator writes `observedGeneration` only when a reconcile ended without error, leaves `successful` standing
//! while a newer generation waits, and never gives up on a broken image. So nothing here is Healthy at an old
//! generation, during a roll, or while it goes; and a wait needs a deadline of its own.

mod download;
mod exposure;
mod graph;
mod other_kinds;
pub mod pods;

pub use download::download_deadline;
pub use other_kinds::{AdapterEndpoints, ready_workers};

use crate::object::Object;
use serde::Serialize;
use serde_json::Value;

/// How what was applied does. Ordered from best to worst, so that the worst of several is their maximum.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::Display, strum::IntoStaticStr,
)]
pub enum Health {
    /// It serves, at the generation applied, with no rollout under way.
    Healthy,
    /// It is at zero replicas on purpose.
    Suspended,
    /// It is on its way.
    Progressing,
    /// Nothing can be said.
    #[default]
    Unknown,
    /// It served, or serves in part.
    Degraded,
    /// It failed.
    Failed,
}

impl Health {
    /// The word for it, in JSON and wherever people read it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// True where there is nothing to wait for or to explain. At zero replicas on purpose is as good as it gets.
    pub fn is_good(self) -> bool {
        match self {
            Self::Healthy | Self::Suspended => true,
            Self::Progressing | Self::Unknown | Self::Degraded | Self::Failed => false,
        }
    }

    /// The health of a word; `Unknown` for any other, so that what a later stator wrote can be read.
    pub fn from_name(word: &str) -> Self {
        let all = [Self::Healthy, Self::Suspended, Self::Progressing, Self::Degraded, Self::Failed];
        all.into_iter().find(|one| one.as_str() == word).unwrap_or_default()
    }
}

/// A judgement with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthVerdict {
    /// The health.
    pub health: Health,
    /// One sentence, which names the component and the cause.
    pub message: String,
    /// True when waiting cannot help: the operator has given up for good (a failed request), or is done.
    /// A Failed graph is retried by the operator for ever, so only a deadline ends that wait.
    pub terminal: bool,
}

impl HealthVerdict {
    fn new(health: Health, message: impl Into<String>) -> Self {
        let terminal = matches!(health, Health::Healthy | Health::Suspended);
        Self { health, message: message.into(), terminal }
    }

    fn progressing(message: impl Into<String>) -> Self {
        Self::new(Health::Progressing, message)
    }

    fn into_terminal(mut self) -> Self {
        self.terminal = true;
        self
    }
}

/// What the one who asks knows beside the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthContext {
    /// The generation that the last apply gave: a cache that still shows an older one says nothing about what was applied.
    pub applied_generation: Option<i64>,
    /// The last generation at which the object was Healthy. What is not ready at a generation that once was is Degraded,
    /// not Progressing.
    pub healthy_at: Option<i64>,
    /// The time. With it, an object that cannot be deleted is found out.
    pub now: Option<jiff::Timestamp>,
}

/// How long an object may take to go before it counts as stuck: a graph waits for its pods, which have two minutes.
const STUCK_DELETION_TIMEOUT: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// Judges one live object at the generation that the last apply gave, where one is known.
pub fn assess_health(object: &Object, applied_generation: Option<i64>) -> HealthVerdict {
    assess_health_in_context(object, HealthContext { applied_generation, ..HealthContext::default() })
}

/// As [`assess_health`], for a caller who knows more.
pub fn assess_health_in_context(object: &Object, known: HealthContext) -> HealthVerdict {
    let HealthContext { applied_generation, healthy_at, now } = known;
    if let Some(since) = object.str_at("/metadata/deletionTimestamp") {
        return deletion_verdict(object, since, now);
    }
    if let (Some(applied), Some(generation)) = (applied_generation, object.generation())
        && generation < applied
    {
        return HealthVerdict::progressing(format!(
            "waiting for generation {applied} in the cluster (found {generation})"
        ));
    }
    match object.kind() {
        "DynamoGraphDeployment" => graph::graph_health(object, healthy_at),
        "DynamoGraphDeploymentRequest" => other_kinds::request_health(object),
        "DynamoModel" => other_kinds::adapter_health(object),
        "DynamoGraphDeploymentScalingAdapter" => other_kinds::scaling_adapter_health(object),
        "PersistentVolumeClaim" => other_kinds::claim_health(object),
        "Job" => download::download_health(object),
        "Service" => exposure::service_health(object),
        "HTTPRoute" => exposure::route_health(object),
        // Nobody works on it: it is what pods mount or claim from the moment that it is there. A ComputeDomain is Ready once
        // its pods run, and so the graph says it.
        "ConfigMap" | "ResourceClaimTemplate" | "ComputeDomain" => HealthVerdict::new(Health::Healthy, "exists"),
        kind => HealthVerdict::new(Health::Unknown, format!("no health rule for {kind}")),
    }
}

/// As [`assess_health_in_context`], for a request whose graph is known, with the verdict on that: the worse of the two, with the graph's name where it is the graph.
pub fn assess_request_health(
    request: &Object,
    known: HealthContext,
    graph: &Object,
    made: HealthVerdict,
) -> HealthVerdict {
    other_kinds::combine_with_graph(assess_health_in_context(request, known), graph, made)
}

/// An object on its way out. Only who owns a finalizer may take it off, so all that can be done is to name it.
fn deletion_verdict(object: &Object, since: &str, now: Option<jiff::Timestamp>) -> HealthVerdict {
    let finalizers = object.finalizers();
    let began = since.parse::<jiff::Timestamp>().ok();
    let is_stuck = now.zip(began).is_some_and(|(now, began)| now.duration_since(began) > STUCK_DELETION_TIMEOUT);
    let waits = match finalizers.as_slice() {
        [] => String::new(),
        [one] => format!(", waiting for finalizer {one}"),
        several => format!(", waiting for finalizers {}", several.join(", ")),
    };
    if !is_stuck {
        return HealthVerdict::progressing(format!("is being deleted{waits}"));
    }
    let help = if finalizers.is_empty() { "" } else { ": check that its controller is running" };
    HealthVerdict::new(Health::Degraded, format!("is stuck in deletion since {since}{waits}{help}"))
}

/// The verdict on a generation that the operator has not come to, `None` when it has. An object that the operator has
/// never reported on may be new, or nobody's: nothing can be said of it, whatever the rest of its status says.
fn stale_generation_verdict(object: &Object) -> Option<HealthVerdict> {
    let generation = object.generation().unwrap_or(0);
    match object.status().get("observedGeneration").and_then(Value::as_i64) {
        Some(observed) if observed >= generation => None,
        Some(observed) => Some(HealthVerdict::progressing(format!(
            "waiting for the operator to observe generation {generation} (observed {observed})"
        ))),
        None => Some(unobserved_verdict()),
    }
}

fn unobserved_verdict() -> HealthVerdict {
    HealthVerdict::new(Health::Unknown, "the operator has not observed it yet")
}

/// A condition of a status by its type.
struct StatusCondition<'a> {
    status: &'a str,
    reason: &'a str,
    message: &'a str,
    observed_generation: Option<i64>,
}

fn find_condition<'a>(object: &'a Object, wanted: &str) -> Option<StatusCondition<'a>> {
    let text = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    object.status().get("conditions")?.as_array()?.iter().find(|one| text(one, "type") == wanted).map(|one| {
        StatusCondition {
            status: text(one, "status"),
            reason: text(one, "reason"),
            message: text(one, "message"),
            observed_generation: one.get("observedGeneration").and_then(Value::as_i64),
        }
    })
}

#[cfg(test)]
mod tests;
