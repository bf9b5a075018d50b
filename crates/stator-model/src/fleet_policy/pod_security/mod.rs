//! Kubernetes' Pod Security Standards, held against pods before they are made.
//!
//! Each control is judged as <https://kubernetes.io/docs/concepts/security/pod-security-standards/> defines it at its
//! newest version, and as strictly for Windows and for pods with a user namespace as for all others.

mod baseline;
mod restricted;
mod table;
#[cfg(test)]
mod tests;

use super::pods::Pod;
pub(super) use restricted::VOLUMES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stator_core::object::{FieldPath, PathSegment};
pub(super) use table::{AllowedValue, CONTROLS, ControlledItems, NAMING_FIELDS, PodControl, PodList, PodPlace};

/// A level of the Pod Security Standards.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum PodSecurityLevel {
    /// Everything is allowed.
    Privileged,
    /// What is known to lead out of a container is not.
    #[default]
    Baseline,
    /// Pods are hardened by all that is known.
    Restricted,
}

/// A field that a level says something of. The name is the field's, or what all fields of one control have in common.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum PodField {
    /// `windowsOptions.hostProcess` of a security context.
    HostProcess,
    /// `hostNetwork` of a pod.
    HostNetwork,
    /// `hostPID` of a pod.
    #[serde(rename = "hostPID")]
    #[strum(serialize = "hostPID")]
    HostPid,
    /// `hostIPC` of a pod.
    #[serde(rename = "hostIPC")]
    #[strum(serialize = "hostIPC")]
    HostIpc,
    /// `hostUsers` of a pod.
    HostUsers,
    /// `nodeName` of a pod.
    NodeName,
    /// `privileged` of a container.
    Privileged,
    /// `capabilities` of a container: what is added, and what is not dropped.
    Capabilities,
    /// A volume of the node's file system.
    HostPath,
    /// `hostPort` of a container's port.
    HostPort,
    /// `host` of a probe or a lifecycle hook.
    ProbeHost,
    /// `appArmorProfile`, and the annotation that was before it.
    AppArmorProfile,
    /// `seLinuxOptions` of a security context.
    SeLinuxOptions,
    /// `procMount` of a container.
    ProcMount,
    /// `seccompProfile` of a security context.
    SeccompProfile,
    /// `sysctls` of a pod.
    Sysctls,
    /// `finalizers` of a pod.
    Finalizers,
    /// `ownerReferences` of a pod.
    OwnerReferences,
    /// Labels by which Dynamo or stator selects pods and objects.
    SelectingLabels,
    /// The kinds of volumes.
    Volumes,
    /// `allowPrivilegeEscalation` of a container.
    AllowPrivilegeEscalation,
    /// `runAsNonRoot` of a security context.
    RunAsNonRoot,
    /// `runAsUser` of a security context.
    RunAsUser,
}

impl PodField {
    /// Its name, as exceptions have it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One field of a pod that a level does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodViolation {
    /// Which.
    pub field: PodField,
    /// Where in the object. It may be that of a field that is missing.
    pub path: FieldPath,
    /// The values that are not allowed, as exceptions name them; none where the field is missing.
    pub values: Vec<String>,
    /// What is there, for a person.
    pub found: String,
    /// What is allowed, for a person.
    pub allowed: &'static str,
}

/// Everything of a pod that a level does not allow.
pub(super) fn judge_pod(pod: &Pod<'_>, level: PodSecurityLevel) -> Vec<PodViolation> {
    let mut judge = PodJudge { pod, violations: Vec::new() };
    match level {
        PodSecurityLevel::Privileged => {}
        PodSecurityLevel::Baseline => baseline::judge(&mut judge),
        PodSecurityLevel::Restricted => {
            baseline::judge(&mut judge);
            restricted::judge(&mut judge);
        }
    }
    judge.violations
}

/// A pod, and what was found of it.
struct PodJudge<'a> {
    pod: &'a Pod<'a>,
    violations: Vec<PodViolation>,
}

impl<'a> PodJudge<'a> {
    /// Tells of a value that is not allowed. `below` leads to it from `base`.
    fn forbid(&mut self, field: PodField, base: &FieldPath, below: &[&str], value: &Value, allowed: &'static str) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        let path = below.iter().fold(base.clone(), |path, name| path.field(*name));
        self.violations.push(PodViolation { field, path, found: format!("`{text}`"), values: vec![text], allowed });
    }

    /// Tells of a value that is missing from a pod or a container.
    fn require(&mut self, field: PodField, base: &FieldPath, below: &[&str], allowed: &'static str) {
        let path = below.iter().fold(base.clone(), |path, name| path.field(*name));
        self.violations.push(PodViolation { field, path, found: "not set".to_owned(), values: Vec::new(), allowed });
    }

    /// The security contexts of the pod and of its containers, with what each belongs to.
    fn security_contexts(&self) -> Vec<(FieldPath, &'a Value)> {
        // A part of a pod is looked at once, as a pod and as a container.
        let pod = self.pod.is_whole.then(|| (self.pod.path.clone(), self.pod.spec));
        let containers = self.pod.containers.iter().map(|one| (one.path.clone(), one.value));
        pod.into_iter()
            .chain(containers)
            .filter_map(|(path, owner)| Some((path.field(SECURITY_CONTEXT), present(owner.get(SECURITY_CONTEXT))?)))
            .collect()
    }
}

/// The field that most controls are about.
const SECURITY_CONTEXT: &str = "securityContext";

/// A value that is set: `null` is none.
fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// A value below another one, where it is set.
fn value_at<'a>(value: &'a Value, below: &[&str]) -> Option<&'a Value> {
    present(below.iter().try_fold(value, |value, name| value.get(name)))
}

/// The items of a list, with the segment that names each.
fn items(value: Option<&Value>) -> impl Iterator<Item = (PathSegment, &Value)> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.enumerate().map(|(index, item)| (PathSegment::Index(index), item))
}
