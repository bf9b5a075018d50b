//! What the level `restricted` asks for beyond `baseline`.

use super::table::PROFILES;
use super::{PodField, PodJudge, SECURITY_CONTEXT, items, value_at};
use serde_json::Value;

/// The kinds of volumes.
pub(in crate::fleet_policy) const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];

const ALL_DROPPED: &str = "a list with `ALL`";
const PROFILE: &str = "`RuntimeDefault` or `Localhost`, of the container or of the pod";
const NON_ROOT: &str = "`true`, of the container or of the pod";

pub(super) fn judge(judge: &mut PodJudge<'_>) {
    volumes(judge);
    users(judge);
    if judge.pod.is_whole {
        required(judge);
    }
    capabilities(judge);
}

fn volumes(judge: &mut PodJudge<'_>) {
    for (path, volume) in judge.pod.listed_volumes() {
        for (kind, source) in volume.as_object().into_iter().flatten() {
            // Those of the node are `baseline`'s.
            let is_volume = kind != "name" && source.is_object();
            if is_volume && !VOLUMES.contains(&kind.as_str()) && kind != "hostPath" {
                let value = Value::from(kind.as_str());
                judge.forbid(PodField::Volumes, &path, &[kind], &value, "`emptyDir`, `persistentVolumeClaim`, `configMap`, `secret`, `csi`, `projected`, `downwardAPI`, `ephemeral`");
            }
        }
    }
}

fn users(judge: &mut PodJudge<'_>) {
    for (path, context) in judge.security_contexts() {
        if let Some(user) = value_at(context, &["runAsUser"]).filter(|user| user.as_u64() == Some(0)) {
            judge.forbid(PodField::RunAsUser, &path, &["runAsUser"], user, "any user but 0");
        }
        if let Some(value) = value_at(context, &["runAsNonRoot"]).filter(|value| **value != Value::Bool(true)) {
            judge.forbid(PodField::RunAsNonRoot, &path, &["runAsNonRoot"], value, NON_ROOT);
        }
        let escalation = value_at(context, &["allowPrivilegeEscalation"]);
        if let Some(value) = escalation.filter(|value| **value != Value::Bool(false)) {
            judge.forbid(PodField::AllowPrivilegeEscalation, &path, &["allowPrivilegeEscalation"], value, "`false`");
        }
    }
}

/// What must be there, of each container or of the pod for all of them.
fn required(judge: &mut PodJudge<'_>) {
    let of_pod = |below: &[&str]| value_at(judge.pod.spec, &[&[SECURITY_CONTEXT], below].concat());
    let pod_non_root = of_pod(&["runAsNonRoot"]) == Some(&Value::Bool(true));
    let pod_profile = of_pod(&["seccompProfile", "type"]).and_then(Value::as_str).is_some_and(is_profile);
    for container in &judge.pod.containers {
        let of = |below: &[&str]| value_at(container.value, &[&[SECURITY_CONTEXT], below].concat());
        let context = container.path.field(SECURITY_CONTEXT);
        if !pod_non_root && of(&["runAsNonRoot"]).is_none() {
            judge.require(PodField::RunAsNonRoot, &context, &["runAsNonRoot"], NON_ROOT);
        }
        if !pod_profile && of(&["seccompProfile", "type"]).is_none() {
            judge.require(PodField::SeccompProfile, &context, &["seccompProfile", "type"], PROFILE);
        }
        if of(&["allowPrivilegeEscalation"]).is_none() {
            judge.require(PodField::AllowPrivilegeEscalation, &context, &["allowPrivilegeEscalation"], "`false`");
        }
        if !drops_all(of(&["capabilities", "drop"])) {
            judge.require(PodField::Capabilities, &context, &["capabilities", "drop"], ALL_DROPPED);
        }
    }
}

fn drops_all(dropped: Option<&Value>) -> bool {
    items(dropped).any(|(_, name)| name == "ALL")
}

fn capabilities(judge: &mut PodJudge<'_>) {
    for container in &judge.pod.containers {
        let path = container.path.field(SECURITY_CONTEXT).field("capabilities").field("add");
        for (segment, name) in items(value_at(container.value, &[SECURITY_CONTEXT, "capabilities", "add"])) {
            let path = path.join(segment);
            let is_reported = judge.violations.iter().any(|one| one.path == path);
            if name != "NET_BIND_SERVICE" && !is_reported {
                judge.forbid(PodField::Capabilities, &path, &[], name, "`NET_BIND_SERVICE` alone");
            }
        }
    }
}

/// Whether it is a profile that a pod may choose.
fn is_profile(name: &str) -> bool {
    PROFILES.contains(&name)
}
