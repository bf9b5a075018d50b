//! What in a pod gives power: one table, which stator judges rendered pods by and from which `export` makes the rules of the
//! API server. `tests/integration/install/fleet_policy.rs` attacks each row of it in both.

use super::PodField;

/// Where a control looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet_policy) enum PodPlace {
    /// The pod's spec.
    Pod,
    /// The security contexts of the pod and of each of its containers.
    Contexts,
    /// The containers of every sort.
    Containers,
    /// The volumes.
    Volumes,
    /// The metadata beside the spec.
    Metadata,
}

/// Which values at its path a control is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet_policy) enum ControlledItems {
    /// The value itself.
    Whole,
    /// Each item of a list.
    Each,
    /// A field of each item of a list.
    FieldOfEach(&'static str),
    /// The keys of a map.
    Keys,
    /// The values of a map whose keys begin so.
    ValuesBelow(&'static str),
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet_policy) enum AllowedValue {
    /// `false`, or not there.
    False,
    /// 0, or not there.
    Zero,
    /// Not there.
    Nothing,
    /// One of these words, or not there.
    Word(&'static [&'static str]),
    /// One of these words, or one that begins with the other.
    WordOrBelow(&'static [&'static str], &'static str),
    /// A text that begins with none of the first, but for those of the second.
    NotBelow(&'static [&'static str], &'static [&'static str]),
}

/// One row: a field of pods, and what it may be from level `baseline` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet_policy) struct PodControl {
    /// As which exceptions name it.
    pub(in crate::fleet_policy) field: PodField,
    pub(in crate::fleet_policy) place: PodPlace,
    /// The fields that lead to it from its place.
    pub(in crate::fleet_policy) path: &'static [&'static str],
    pub(in crate::fleet_policy) items: ControlledItems,
    pub(in crate::fleet_policy) allowed: AllowedValue,
    /// What is allowed, for a person.
    pub(in crate::fleet_policy) expected: &'static str,
    /// What the API server tells whom it refuses.
    pub(in crate::fleet_policy) refusal: &'static str,
}

/// What pods name, and policies have lists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::VariantArray)]
pub(in crate::fleet_policy) enum PodList {
    ServiceAccounts,
    Images,
    Tolerations,
    PriorityClasses,
    RuntimeClasses,
    Schedulers,
    Volumes,
    Labels,
}

/// Capabilities that may be added.
pub(super) const CAPABILITIES: [&str; 13] = [
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
const SELINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
/// Kernel parameters that are a pod's own.
const SYSCTLS: [&str; 12] = [
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
pub(super) const PROFILES: [&str; 2] = ["RuntimeDefault", "Localhost"];
/// How annotations begin that set an AppArmor profile for a container.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// How labels begin by which Dynamo's services and operator select pods, and stator objects.
const SELECTING_LABELS: [&str; 6] = [
    "nvidia.com/dynamo-",
    "nvidia.com/selector",
    "dgdr.nvidia.com/",
    "stator.dev/",
    "grove.io/",
    "leaderworkerset.sigs.k8s.io/",
];
/// Of those, the ones that Dynamo leaves to its users.
pub(super) const USER_LABELS: [&str; 3] = [
    "nvidia.com/dynamo-discovery-backend",
    "nvidia.com/dynamo-discovery-enabled",
    "nvidia.com/dynamo-sub-component-type",
];

const FALSE: &str = "`false`, or nothing";
const POD: &str = "nothing: the pod itself";
const PROFILE: &str = "`RuntimeDefault` or `Localhost`, or nothing";

const fn row(
    field: PodField,
    (place, path): (PodPlace, &'static [&'static str]),
    allowed: AllowedValue,
    (expected, refusal): (&'static str, &'static str),
) -> PodControl {
    PodControl { field, place, path, items: ControlledItems::Whole, allowed, expected, refusal }
}

/// A probe or hook of one form, which makes the kubelet connect to somewhere.
const fn probe(path: &'static [&'static str]) -> PodControl {
    let refusal = "a probe or hook may not name another host than its pod";
    row(PodField::ProbeHost, (PodPlace::Containers, path), AllowedValue::Word(&[""]), (POD, refusal))
}

/// The rows.
pub(in crate::fleet_policy) const CONTROLS: &[PodControl] = {
    use AllowedValue as A;
    use ControlledItems as I;
    use PodField as F;
    use PodPlace as P;
    &[
        row(F::HostNetwork, (P::Pod, &["hostNetwork"]), A::False, (FALSE, "a pod may not use the node's network")),
        row(F::HostPid, (P::Pod, &["hostPID"]), A::False, (FALSE, "a pod may not see the node's processes")),
        row(F::HostIpc, (P::Pod, &["hostIPC"]), A::False, (FALSE, "a pod may not share the node's memory")),
        row(F::HostUsers, (P::Pod, &["hostUsers"]), A::False, (FALSE, "a pod may not ask for the node's users")),
        row(
            F::NodeName,
            (P::Pod, &["nodeName"]),
            A::Word(&[""]),
            ("nothing: the scheduler chooses", "a pod may not name its node"),
        ),
        row(
            F::HostPath,
            (P::Volumes, &["hostPath", "path"]),
            A::Nothing,
            ("volumes of other kinds", "a pod may not mount the node's files"),
        ),
        PodControl {
            items: I::FieldOfEach("name"),
            ..row(
                F::Sysctls,
                (P::Pod, &["securityContext", "sysctls"]),
                A::Word(&SYSCTLS),
                (
                    "parameters that are the pod's own, such as `net.ipv4.tcp_syncookies`",
                    "a pod may not set parameters of the node's kernel",
                ),
            )
        },
        row(
            F::HostProcess,
            (P::Contexts, &["windowsOptions", "hostProcess"]),
            A::False,
            (FALSE, "a container may not run as a process of the node"),
        ),
        row(
            F::AppArmorProfile,
            (P::Contexts, &["appArmorProfile", "type"]),
            A::Word(&PROFILES),
            (PROFILE, "a container may not run without an AppArmor profile"),
        ),
        PodControl {
            items: I::ValuesBelow(APP_ARMOR_ANNOTATION),
            ..row(
                F::AppArmorProfile,
                (P::Metadata, &["annotations"]),
                A::WordOrBelow(&["", "runtime/default"], "localhost/"),
                ("`runtime/default` or `localhost/…`", "a container may not run without an AppArmor profile"),
            )
        },
        row(
            F::SeccompProfile,
            (P::Contexts, &["seccompProfile", "type"]),
            A::Word(&PROFILES),
            (PROFILE, "a container may not run without a seccomp profile"),
        ),
        row(
            F::SeLinuxOptions,
            (P::Contexts, &["seLinuxOptions", "type"]),
            A::Word(&SELINUX_TYPES),
            (
                "`container_t`, `container_init_t`, `container_kvm_t` or `container_engine_t`",
                "a container may not choose an SELinux type that is not for containers",
            ),
        ),
        row(
            F::SeLinuxOptions,
            (P::Contexts, &["seLinuxOptions", "user"]),
            A::Word(&[""]),
            ("nothing", "a container may not choose its SELinux user"),
        ),
        row(
            F::SeLinuxOptions,
            (P::Contexts, &["seLinuxOptions", "role"]),
            A::Word(&[""]),
            ("nothing", "a container may not choose its SELinux role"),
        ),
        row(
            F::Privileged,
            (P::Containers, &["securityContext", "privileged"]),
            A::False,
            (FALSE, "a container may not be privileged"),
        ),
        PodControl {
            items: I::Each,
            ..row(
                F::Capabilities,
                (P::Containers, &["securityContext", "capabilities", "add"]),
                A::Word(&CAPABILITIES),
                ("what containers have by default, such as `CHOWN`", "a container may not add other capabilities"),
            )
        },
        row(
            F::ProcMount,
            (P::Containers, &["securityContext", "procMount"]),
            A::Word(&["Default"]),
            ("`Default`, or nothing", "a container may not see all of /proc"),
        ),
        PodControl {
            items: I::FieldOfEach("hostPort"),
            ..row(
                F::HostPort,
                (P::Containers, &["ports"]),
                A::Zero,
                ("ports of the pod only", "a container may not use the node's ports"),
            )
        },
        probe(&["livenessProbe", "httpGet", "host"]),
        probe(&["livenessProbe", "tcpSocket", "host"]),
        probe(&["readinessProbe", "httpGet", "host"]),
        probe(&["readinessProbe", "tcpSocket", "host"]),
        probe(&["startupProbe", "httpGet", "host"]),
        probe(&["startupProbe", "tcpSocket", "host"]),
        probe(&["lifecycle", "postStart", "httpGet", "host"]),
        probe(&["lifecycle", "postStart", "tcpSocket", "host"]),
        probe(&["lifecycle", "preStop", "httpGet", "host"]),
        probe(&["lifecycle", "preStop", "tcpSocket", "host"]),
        PodControl {
            items: I::Each,
            ..row(
                F::Finalizers,
                (P::Metadata, &["finalizers"]),
                A::Nothing,
                ("nothing", "a pod may not have finalizers: nobody could end it"),
            )
        },
        PodControl {
            items: I::FieldOfEach("name"),
            ..row(
                F::OwnerReferences,
                (P::Metadata, &["ownerReferences"]),
                A::Nothing,
                ("nothing: its controller owns it", "a pod may not name its owner"),
            )
        },
        PodControl {
            items: I::Keys,
            ..row(
                F::SelectingLabels,
                (P::Metadata, &["labels"]),
                A::NotBelow(&SELECTING_LABELS, &USER_LABELS),
                (
                    "labels that neither Dynamo nor stator selects by",
                    "a pod may not have labels that Dynamo or stator selects by",
                ),
            )
        },
    ]
};

/// The fields of pods that name something, and which list holds what they may name. stator looks for them wherever they
/// stand in an object, as they may stand in what no schema declares.
pub(in crate::fleet_policy) const NAMING_FIELDS: [(PodList, &str); 5] = [
    (PodList::ServiceAccounts, "serviceAccountName"),
    // Its former name, which Kubernetes honours where the other one is empty.
    (PodList::ServiceAccounts, "serviceAccount"),
    (PodList::PriorityClasses, "priorityClassName"),
    (PodList::RuntimeClasses, "runtimeClassName"),
    (PodList::Schedulers, "schedulerName"),
];

impl PodList {
    /// What is named, for a person.
    pub(in crate::fleet_policy) fn describe(self) -> &'static str {
        match self {
            Self::ServiceAccounts => "service account",
            Self::Images => "image",
            Self::Tolerations => "taint",
            Self::PriorityClasses => "priority class",
            Self::RuntimeClasses => "runtime class",
            Self::Schedulers => "scheduler",
            Self::Volumes => "kind of volume",
            Self::Labels => "label",
        }
    }

    /// The same for several.
    pub(in crate::fleet_policy) fn describe_all(self) -> &'static str {
        match self {
            Self::ServiceAccounts => "service accounts",
            Self::Images => "images",
            Self::Tolerations => "taints",
            Self::PriorityClasses => "priority classes",
            Self::RuntimeClasses => "runtime classes",
            Self::Schedulers => "schedulers",
            Self::Volumes => "kinds of volumes",
            Self::Labels => "labels",
        }
    }
}
