//! The level `baseline`.

use super::{PodField, PodJudge, SECURITY_CONTEXT, items, present, value_at};
use serde_json::Value;
use stator_core::object::{FieldPath, PathSegment};

/// Capabilities that may be added.
pub(in crate::fleet_policy) const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Types of SELinux that a container may have.
pub(in crate::fleet_policy) const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
/// Kernel parameters that are a pod's own.
pub(in crate::fleet_policy) const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
/// Profiles that a pod may choose.
const PROFILES: [&str; 2] = ["RuntimeDefault", "Localhost"];
/// How annotations begin that set an AppArmor profile for a container.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The fields of a container that make the kubelet connect to somewhere.
const PROBES: [&str; 4] = ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

const FALSE: &str = "`false`, or nothing";

pub(super) fn judge(judge: &mut PodJudge<'_>) {
    host_namespaces(judge);
    host_paths(judge);
    sysctls(judge);
    app_armor_annotations(judge);
    security_contexts(judge);
    containers(judge);
}

fn host_namespaces(judge: &mut PodJudge<'_>) {
    let pod = judge.pod;
    for field in [PodField::HostNetwork, PodField::HostPid, PodField::HostIpc] {
        forbid_true(judge, field, &pod.path, pod.spec, &[field.name()]);
    }
}

/// Whatever is not plainly `false` is taken for `true`.
fn forbid_true(judge: &mut PodJudge<'_>, field: PodField, path: &FieldPath, owner: &Value, below: &[&str]) {
    if let Some(value) = value_at(owner, below).filter(|value| **value != Value::Bool(false)) {
        judge.forbid(field, path, below, value, FALSE);
    }
}

fn host_paths(judge: &mut PodJudge<'_>) {
    for (path, volume) in judge.pod.volumes() {
        let Some(source) = present(volume.get("hostPath")) else { continue };
        let value = source.get("path").unwrap_or(source);
        judge.forbid(PodField::HostPath, &path, &["hostPath"], value, "volumes of other kinds");
    }
}

fn sysctls(judge: &mut PodJudge<'_>) {
    let pod = judge.pod;
    let path = pod.path.field(SECURITY_CONTEXT).field("sysctls");
    for (segment, sysctl) in items(value_at(pod.spec, &[SECURITY_CONTEXT, "sysctls"])) {
        let name = sysctl.get("name").unwrap_or(sysctl);
        if !name.as_str().is_some_and(|name| SYSCTLS.contains(&name)) {
            let allowed = "parameters that are the pod's own, such as `net.ipv4.tcp_syncookies`";
            judge.forbid(PodField::Sysctls, &path.join(segment), &["name"], name, allowed);
        }
    }
}

fn app_armor_annotations(judge: &mut PodJudge<'_>) {
    let Some((path, annotations)) = &judge.pod.annotations else { return };
    for (name, value) in annotations.as_object().into_iter().flatten() {
        let profile = value.as_str().unwrap_or_default();
        let is_fine = profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
        if name.starts_with(APP_ARMOR_ANNOTATION) && !is_fine {
            let allowed = "`runtime/default` or `localhost/…`";
            judge.forbid(PodField::AppArmorProfile, path, &[name], value, allowed);
        }
    }
}

/// What a pod and each of its containers may say alike.
fn security_contexts(judge: &mut PodJudge<'_>) {
    for (path, context) in judge.security_contexts() {
        forbid_true(judge, PodField::HostProcess, &path, context, &["windowsOptions", "hostProcess"]);
        for (field, name) in
            [(PodField::AppArmorProfile, "appArmorProfile"), (PodField::SeccompProfile, "seccompProfile")]
        {
            let profile = value_at(context, &[name, "type"]);
            if let Some(profile) = profile.filter(|profile| !profile.as_str().is_some_and(is_profile)) {
                judge.forbid(field, &path, &[name, "type"], profile, "`RuntimeDefault` or `Localhost`, or nothing");
            }
        }
        for (name, allowed_words, allowed) in [
            (
                "type",
                &SELINUX_TYPES[..],
                "`container_t`, `container_init_t`, `container_kvm_t` or `container_engine_t`",
            ),
            ("user", &[""][..], "nothing"),
            ("role", &[""][..], "nothing"),
        ] {
            let found = value_at(context, &["seLinuxOptions", name]);
            let is_fine = |value: &&Value| value.as_str().is_some_and(|text| allowed_words.contains(&text));
            if let Some(value) = found.filter(|value| !is_fine(value)) {
                judge.forbid(PodField::SeLinuxOptions, &path, &["seLinuxOptions", name], value, allowed);
            }
        }
    }
}

/// Whether it is a profile that a pod may choose.
pub(super) fn is_profile(name: &str) -> bool {
    PROFILES.contains(&name)
}

fn containers(judge: &mut PodJudge<'_>) {
    for container in &judge.pod.containers {
        let (path, value) = (&container.path, container.value);
        let context = path.field(SECURITY_CONTEXT);
        forbid_true(judge, PodField::Privileged, path, value, &[SECURITY_CONTEXT, "privileged"]);
        let added = value_at(value, &[SECURITY_CONTEXT, "capabilities", "add"]);
        for (segment, name) in items(added) {
            if !name.as_str().is_some_and(|name| CAPABILITIES.contains(&name)) {
                let path = context.field("capabilities").field("add").join(segment);
                judge.forbid(
                    PodField::Capabilities,
                    &path,
                    &[],
                    name,
                    "what containers have by default, such as `CHOWN`",
                );
            }
        }
        let mount = value_at(value, &[SECURITY_CONTEXT, "procMount"]);
        if let Some(mount) = mount.filter(|mount| *mount != "Default") {
            judge.forbid(PodField::ProcMount, &context, &["procMount"], mount, "`Default`, or nothing");
        }
        for (segment, port) in items(value.get("ports")) {
            if let Some(number) = present(port.get("hostPort")).filter(|number| number.as_u64() != Some(0)) {
                let path = path.field("ports").join(port_segment(port, segment));
                judge.forbid(PodField::HostPort, &path, &["hostPort"], number, "ports of the pod only");
            }
        }
        for probe in PROBES {
            if let Some(found) = value.get(probe) {
                hosts_below(judge, &path.field(probe), found);
            }
        }
    }
}

/// Ports are keyed by number and protocol.
fn port_segment(port: &Value, position: PathSegment) -> PathSegment {
    use stator_core::object::KeyValue;
    let keys = ["containerPort", "protocol"].into_iter();
    let keyed = keys.map(|key| Some((key.to_owned(), KeyValue::new(port.get(key)?))));
    keyed.collect::<Option<_>>().map_or(position, PathSegment::Key)
}

/// Probes and hooks of every form that name another host than the pod.
fn hosts_below(judge: &mut PodJudge<'_>, path: &FieldPath, value: &Value) {
    for (name, below) in value.as_object().into_iter().flatten() {
        if name == "host" && !below.is_null() && below != "" {
            judge.forbid(PodField::ProbeHost, path, &["host"], below, "nothing: the pod itself");
        }
        hosts_below(judge, &path.field(name), below);
    }
}
