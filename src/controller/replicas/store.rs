//! Leases as the API server has them.

use super::lease_names;
use super::machine::{LeaseOperation, LeaseRole, LeaseState, LeaseWrite, LeaseWriteError};
use crate::controller::sources::objects::CONTROLLER_FIELD_MANAGER;
use k8s_openapi::api::coordination::v1::Lease as ApiLease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use stator_core::text::error_chain;
use std::time::Duration;

/// Where leases are kept, and what is written into one beside its holder.
#[derive(Clone)]
pub(super) struct LeaseStore {
    pub api: Api<ApiLease>,
    pub identity: String,
    pub shards: u32,
    pub lease_duration: Duration,
    /// How long the server may take for an answer.
    pub request_timeout: Duration,
}

/// A lease as it is read; nothing where it was not created by stator.
pub(super) fn parse_lease(lease: &ApiLease) -> Option<LeaseState> {
    let metadata = &lease.metadata;
    let name = metadata.name.clone()?;
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let role = match (lease_names::parse_shard_number(&name), &holder) {
        (Some(shard), _) => LeaseRole::Shard(shard),
        (None, Some(holder)) if lease_names::is_member_lease_of(&name, holder) => LeaseRole::Member,
        (None, Some(_) | None) => return None,
    };
    let annotation = metadata.annotations.as_ref().and_then(|all| all.get(lease_names::SHARD_COUNT_ANNOTATION));
    Some(LeaseState {
        name,
        role,
        uid: metadata.uid.clone().unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        holder,
        lease_duration: Duration::from_secs(
            spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0),
        ),
        shards: annotation.and_then(|text| text.parse().ok()).unwrap_or(0),
        transitions: spec.lease_transitions.unwrap_or(0),
    })
}

impl LeaseStore {
    /// Carries a write out. No answer within the patience is a failure, whatever the server does with it.
    pub async fn write(&self, write: &LeaseWrite) -> Result<Option<LeaseState>, (LeaseWriteError, String)> {
        match tokio::time::timeout(self.request_timeout, self.send_write(write)).await {
            Ok(Ok(lease)) => Ok(lease.as_ref().and_then(parse_lease)),
            Ok(Err(error)) => Err((classify_write_error(&error), describe_kube_error(&error))),
            Err(_) => Err((LeaseWriteError::Other, self.describe_timeout(&write.name))),
        }
    }

    /// Reads a lease.
    pub async fn read(&self, name: &str) -> Result<Option<LeaseState>, String> {
        match tokio::time::timeout(self.request_timeout, self.api.get_opt(name)).await {
            Ok(Ok(lease)) => Ok(lease.as_ref().and_then(parse_lease)),
            Ok(Err(error)) => Err(describe_kube_error(&error)),
            Err(_) => Err(self.describe_timeout(name)),
        }
    }

    fn describe_timeout(&self, name: &str) -> String {
        format!("no response for {name} within {} s", self.request_timeout.as_secs_f32())
    }

    async fn send_write(&self, write: &LeaseWrite) -> Result<Option<ApiLease>, kube::Error> {
        let from = match &write.operation {
            LeaseOperation::Create => {
                let params =
                    PostParams { field_manager: Some(CONTROLLER_FIELD_MANAGER.to_owned()), ..PostParams::default() };
                let lease = serde_json::from_value(self.write_body(write, None)).map_err(kube::Error::SerdeError)?;
                return self.api.create(&params, &lease).await.map(Some);
            }
            LeaseOperation::Delete { from } => {
                let preconditions =
                    Preconditions { uid: Some(from.uid.clone()), resource_version: Some(from.version.clone()) };
                let params = DeleteParams::background().preconditions(preconditions);
                return self.api.delete(&from.name, &params).await.map(|_| None);
            }
            LeaseOperation::Take { from } | LeaseOperation::Renew { from } | LeaseOperation::Release { from } => from,
        };
        // With a resource version in it, a patch is refused when anybody wrote since; what others put there stays.
        let params = PatchParams { field_manager: Some(CONTROLLER_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.api.patch(&write.name, &params, &Patch::Merge(self.write_body(write, Some(from)))).await.map(Some)
    }

    fn write_body(&self, write: &LeaseWrite, from: Option<&LeaseState>) -> Value {
        let role = match write.role {
            LeaseRole::Member => "member",
            LeaseRole::Shard(_) => "shard",
        };
        // For people: nobody judges by the clock of another.
        let now = format!("{:.6}", jiff::Timestamp::now());
        let mut spec = json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.lease_duration.as_secs(),
            "renewTime": now,
        });
        match &write.operation {
            LeaseOperation::Create => {
                spec["acquireTime"] = json!(now);
                spec["leaseTransitions"] = json!(0);
            }
            LeaseOperation::Take { from } => {
                let moved = i32::from(from.holder.as_ref() != Some(&self.identity));
                spec["acquireTime"] = json!(now);
                spec["leaseTransitions"] = json!(from.transitions.saturating_add(moved));
            }
            LeaseOperation::Release { .. } => spec["holderIdentity"] = Value::Null,
            LeaseOperation::Renew { .. } | LeaseOperation::Delete { .. } => {}
        }
        let mut metadata = json!({
            "name": write.name,
            "labels": {lease_names::LEASE_LABEL: role, "app.kubernetes.io/managed-by": "stator"},
            "annotations": {lease_names::SHARD_COUNT_ANNOTATION: self.shards.to_string()},
        });
        if let Some(from) = from {
            metadata["uid"] = json!(from.uid);
            metadata["resourceVersion"] = json!(from.version);
        }
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    }
}

/// What the server's answer says of the state that a write went out from.
fn classify_write_error(error: &kube::Error) -> LeaseWriteError {
    // Somebody wrote or made it meanwhile; or it is gone.
    let is_conflict = matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409));
    if is_conflict { LeaseWriteError::Conflict } else { LeaseWriteError::Other }
}

/// What went wrong, in a sentence.
pub(super) fn describe_kube_error(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    error_chain(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(value: Value) -> Option<LeaseState> {
        parse_lease(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn whatever_a_hand_wrote_into_a_lease_is_read() {
        let written = |name: &str, spec: Value, annotations: Value| {
            lease(json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "7", "annotations": annotations},
                         "spec": spec}))
        };
        let plain = written("stator-shard-3", json!({"holderIdentity": "a-1", "leaseDurationSeconds": 15}), json!({}));
        insta::assert_compact_debug_snapshot!(plain, @r#"Some(LeaseState { name: "stator-shard-3", role: Shard(3), uid: "u", version: "7", holder: Some("a-1"), lease_duration: 15s, shards: 0, transitions: 0 })"#);
        let odd = json!({"holderIdentity": "", "leaseDurationSeconds": -4, "leaseTransitions": 2});
        let odd = written("stator-shard-0", odd, json!({"stator.dev/shards": "x"}));
        insta::assert_compact_debug_snapshot!(odd, @r#"Some(LeaseState { name: "stator-shard-0", role: Shard(0), uid: "u", version: "7", holder: None, lease_duration: 0ns, shards: 0, transitions: 2 })"#);
        let other = json!({"holderIdentity": "b-2"});
        assert_eq!(written("stator-member-a-1", other.clone(), json!({})), None, "of another than it is named after");
        assert_eq!(written("stator-namespace-scope", other, json!({})), None);
        assert!(lease(json!({"metadata": {"name": "stator-shard-1"}})).is_some());
    }
}
