//! The part of a policy that an API server can hold by itself: an admission policy over graphs and Jobs, for whoever writes
//! them without stator.

use super::document::{FleetPolicy, PodException};
use super::pod_security::{PodField, PodSecurityLevel};
use serde_json::{Value, json};

/// The containers of a pod `p`.
const CONTAINERS: &str =
    "(p.?containers.orValue([]) + p.?initContainers.orValue([]) + p.?ephemeralContainers.orValue([]))";
/// The pods of a graph, with those that the operator writes, or of a Job.
const PODS: &str = "object.kind == 'Job' ? [dyn(object.spec.template.spec)] : \
                    object.spec.?components.orValue([]).map(c, dyn(c.?podTemplate.?spec.orValue({})))";

/// What one field of a pod may be: an expression over a pod `p`, and what is told to whom it refuses.
struct PodRule {
    field: PodField,
    expression: String,
    message: &'static str,
}

/// The admission policies of a policy, and their bindings: objects of `admissionregistration.k8s.io/v1`.
pub fn admission_policies(policy: &FleetPolicy) -> Vec<Value> {
    let name = format!("fleet-{}", policy.metadata.name);
    let mut validations: Vec<Value> = Vec::new();
    for rule in pod_rules(policy) {
        let message = format!("fleet policy `{}`: {} ({})", policy.metadata.name, rule.message, rule.field.name());
        validations
            .push(json!({"expression": format!("variables.pods.all(p, {})", rule.expression), "message": message}));
    }
    for (expression, message) in reference_rules(policy) {
        let message = format!("fleet policy `{}`: {message}", policy.metadata.name);
        validations.push(json!({"expression": format!("variables.pods.all(p, {expression})"), "message": message}));
    }
    if validations.is_empty() {
        return Vec::new();
    }
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["nvidia.com"], "apiVersions": ["v1beta1"], "operations": ["CREATE", "UPDATE"],
             "resources": ["dynamographdeployments"]},
            {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]},
        ]},
        "variables": [{"name": "pods", "expression": PODS}],
        "validations": validations,
    });
    if let Some(condition) = namespace_condition(policy) {
        spec["matchConditions"] = json!([{"name": "namespaces", "expression": condition}]);
    }
    let head =
        |kind: &str| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let (mut own, mut binding) = (head("ValidatingAdmissionPolicy"), head("ValidatingAdmissionPolicyBinding"));
    own["spec"] = spec;
    binding["spec"] = json!({"policyName": name, "validationActions": ["Deny"]});
    vec![own, binding]
}

/// The namespaces that a policy binds; nothing for one that binds all. Those of `sources` are bound as a whole, as an API
/// server does not know which source an object is of.
fn namespace_condition(policy: &FleetPolicy) -> Option<String> {
    let scope = policy.spec.applies_to.as_ref()?;
    let of_sources = scope.sources.iter().filter_map(|source| source.as_str().split('/').next());
    let patterns: Vec<&str> = scope.namespaces.iter().map(|one| one.as_str()).chain(of_sources).collect();
    Some(matches_any("request.namespace", &patterns, false))
}

/// Whether a text matches one of the patterns.
fn matches_any(text: &str, patterns: &[&str], below: bool) -> String {
    if patterns.is_empty() {
        return "false".to_owned();
    }
    let one = |pattern: &&str| to_regex(pattern, below);
    let regex = patterns.iter().map(one).collect::<Vec<_>>().join("|");
    format!("{text}.matches({})", cel_string(&format!("^({regex})$")))
}

/// A pattern as a regular expression, with what `*` and `**` mean in it.
fn to_regex(pattern: &str, below: bool) -> String {
    let mut regex = String::new();
    let mut rest = pattern.trim_end_matches('/');
    while let Some(first) = rest.chars().next() {
        if let Some(more) = rest.strip_prefix("**") {
            regex.push_str(".*");
            rest = more;
            continue;
        }
        match first {
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            other => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    if below {
        regex.push_str("(/.*)?");
    }
    regex
}

/// A text as CEL writes it.
fn cel_string(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn cel_list(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| cel_string(word)).collect();
    format!("[{}]", words.join(", "))
}

/// The rules of a level, without what exceptions allow, and with the values that they add.
fn pod_rules(policy: &FleetPolicy) -> Vec<PodRule> {
    let exceptions = &policy.spec.pods.exceptions;
    let is_free = |field: PodField| exceptions.iter().any(|one| one.field == field && one.values.is_none());
    let level = policy.spec.pods.level;
    let mut rules = match level {
        PodSecurityLevel::Privileged => Vec::new(),
        PodSecurityLevel::Baseline => baseline_rules(exceptions),
        PodSecurityLevel::Restricted => [baseline_rules(exceptions), restricted_rules(exceptions)].concat(),
    };
    rules.retain(|(field, _, _)| !is_free(*field));
    rules.into_iter().map(|(field, expression, message)| PodRule { field, expression, message }).collect()
}

type FieldRule = (PodField, String, &'static str);

/// The values that exceptions add to a field, as an expression over `v`; `false` for none.
fn excepted(exceptions: &[PodException], field: PodField, text: &str) -> String {
    let own = exceptions.iter().filter(|one| one.field == field);
    let patterns: Vec<&str> = own.flat_map(|one| one.values.iter().flatten()).map(String::as_str).collect();
    if patterns.is_empty() {
        return "false".to_owned();
    }
    format!("(!{text}.matches('(^|/)[.][.](/|$)') && {})", matches_any(text, &patterns, true))
}

fn baseline_rules(exceptions: &[PodException]) -> Vec<FieldRule> {
    use PodField as F;
    let all = |condition: &str| format!("{CONTAINERS}.all(c, {condition})");
    // Of the pod and of each of its containers.
    let contexts = |condition: &str| {
        let of_pod = condition.replace("$C", "p.?securityContext");
        let of_container = condition.replace("$C", "c.?securityContext");
        format!("{of_pod} && {}", all(&of_container))
    };
    let except = |field: F, text: &str| excepted(exceptions, field, text);
    let capabilities = cel_list(&super::pod_security::CAPABILITIES);
    let sysctls = cel_list(&super::pod_security::SYSCTLS);
    let selinux = cel_list(&super::pod_security::SELINUX_TYPES);
    let profiles = "in ['RuntimeDefault', 'Localhost']";
    let probe = |probe: &str| {
        format!("c.{probe}.?httpGet.?host.orValue('') == '' && c.{probe}.?tcpSocket.?host.orValue('') == ''")
    };
    let probes = ["?livenessProbe", "?readinessProbe", "?startupProbe", "?lifecycle.?postStart", "?lifecycle.?preStop"];
    let probes = probes.map(probe).join(" && ");
    vec![
        (F::HostNetwork, "!p.?hostNetwork.orValue(false)".to_owned(), "a pod may not use the node's network"),
        (F::HostPid, "!p.?hostPID.orValue(false)".to_owned(), "a pod may not see the node's processes"),
        (F::HostIpc, "!p.?hostIPC.orValue(false)".to_owned(), "a pod may not share the node's memory"),
        (
            F::HostPath,
            format!("p.?volumes.orValue([]).all(v, !has(v.hostPath) || {})", except(F::HostPath, "v.hostPath.path")),
            "a pod may not mount the node's files",
        ),
        (
            F::HostProcess,
            contexts("!$C.?windowsOptions.?hostProcess.orValue(false)"),
            "a container may not run as a process of the node",
        ),
        (F::Privileged, all("!c.?securityContext.?privileged.orValue(false)"), "a container may not be privileged"),
        (
            F::Capabilities,
            all(&format!(
                "c.?securityContext.?capabilities.?add.orValue([]).all(v, v in {capabilities} || {})",
                except(F::Capabilities, "v")
            )),
            "a container may not add other capabilities",
        ),
        (
            F::HostPort,
            all(&format!(
                "c.?ports.orValue([]).all(v, v.?hostPort.orValue(0) == 0 || {})",
                except(F::HostPort, "string(v.hostPort)")
            )),
            "a container may not use the node's ports",
        ),
        (F::ProbeHost, all(&probes), "a probe or hook may not name another host than its pod"),
        (
            F::AppArmorProfile,
            contexts(&format!("$C.?appArmorProfile.?type.orValue('RuntimeDefault') {profiles}")),
            "a container may not run without an AppArmor profile",
        ),
        (
            F::SeLinuxOptions,
            contexts(&format!(
                "($C.?seLinuxOptions.?type.orValue('') in {selinux} && $C.?seLinuxOptions.?user.orValue('') == '' && \
                 $C.?seLinuxOptions.?role.orValue('') == '')"
            )),
            "a container may not choose its SELinux user, role, or a type that is not for containers",
        ),
        (
            F::ProcMount,
            all("c.?securityContext.?procMount.orValue('Default') == 'Default'"),
            "a container may not see all of /proc",
        ),
        (
            F::SeccompProfile,
            contexts(&format!("$C.?seccompProfile.?type.orValue('RuntimeDefault') {profiles}")),
            "a container may not run without a seccomp profile",
        ),
        (
            F::Sysctls,
            format!(
                "p.?securityContext.?sysctls.orValue([]).all(v, v.name in {sysctls} || {})",
                except(F::Sysctls, "v.name")
            ),
            "a pod may not set parameters of the node's kernel",
        ),
    ]
}

fn restricted_rules(exceptions: &[PodException]) -> Vec<FieldRule> {
    use PodField as F;
    // The operator adds `main` where a component has none.
    let main = "(object.kind == 'Job' || p.?containers.orValue([]).exists(c, c.name == 'main'))";
    let all = |condition: &str| format!("{main} && {CONTAINERS}.all(c, {condition})");
    let volumes = cel_list(&[&["name"], &super::pod_security::VOLUMES[..]].concat());
    let kept = except_volumes(exceptions);
    vec![
        (
            F::Volumes,
            format!("p.?volumes.orValue([]).all(v, dyn(v).all(key, key in {volumes} || key == 'hostPath' || {kept}))"),
            "a pod may not have volumes of other kinds",
        ),
        (
            F::AllowPrivilegeEscalation,
            all("!c.?securityContext.?allowPrivilegeEscalation.orValue(true)"),
            "a container must not allow privilege escalation",
        ),
        (
            F::RunAsNonRoot,
            format!(
                "p.?securityContext.?runAsNonRoot.orValue(true) && {}",
                all("c.?securityContext.?runAsNonRoot.orValue(p.?securityContext.?runAsNonRoot.orValue(false))")
            ),
            "a container must not run as root",
        ),
        (
            F::RunAsUser,
            format!(
                "p.?securityContext.?runAsUser.orValue(1) != 0 && {CONTAINERS}.all(c, c.?securityContext.?runAsUser.orValue(1) != 0)"
            ),
            "a container must not run as user 0",
        ),
        (
            F::SeccompProfile,
            all("c.?securityContext.?seccompProfile.hasValue() || p.?securityContext.?seccompProfile.hasValue()"),
            "a container must have a seccomp profile",
        ),
        (
            F::Capabilities,
            all(&format!(
                "c.?securityContext.?capabilities.?drop.orValue([]).exists(v, v == 'ALL') && \
                 c.?securityContext.?capabilities.?add.orValue([]).all(v, v == 'NET_BIND_SERVICE' || {})",
                excepted(exceptions, F::Capabilities, "v")
            )),
            "a container must drop all capabilities",
        ),
    ]
}

fn except_volumes(exceptions: &[PodException]) -> String {
    excepted(exceptions, PodField::Volumes, "key")
}

/// What pods may name.
fn reference_rules(policy: &FleetPolicy) -> Vec<(String, String)> {
    let mut rules = Vec::new();
    if let Some(images) = &policy.spec.images {
        if let Some(registries) = &images.registries {
            let patterns: Vec<&str> = registries.iter().map(|one| one.as_str()).collect();
            // An image without a registry is the default one's, and is written in full to be compared.
            let has_registry = "c.image.matches('^(localhost|[^/]*[.:][^/]*)/')";
            let full = format!(
                "({has_registry} ? c.image : c.image.contains('/') ? 'docker.io/' + c.image : 'docker.io/library/' + c.image)"
            );
            let regex = patterns.iter().map(|one| to_regex(one, true)).collect::<Vec<_>>().join("|");
            let is_allowed = if patterns.is_empty() {
                "false".to_owned()
            } else {
                format!("{full}.matches({})", cel_string(&format!("^({regex})(:[^/@]*)?(@.*)?$")))
            };
            let expression = format!("{CONTAINERS}.all(c, !has(c.image) || {is_allowed})");
            rules.push((expression, format!("images come from {}", patterns.join(", "))));
        }
        if images.require_digest {
            let expression =
                format!("{CONTAINERS}.all(c, !has(c.image) || c.image.matches('@sha256:[0-9a-f]{{64}}$'))");
            rules.push((expression, "images are named by their digest".to_owned()));
        }
    }
    if let Some(accounts) = &policy.spec.service_accounts {
        let patterns: Vec<&str> = accounts.iter().map(|one| one.as_str()).collect();
        let account = "p.?serviceAccountName.orValue('')";
        let expression = format!("{account} == '' || {}", matches_any(account, &patterns, false));
        rules.push((expression, format!("pods name service accounts of {}", patterns.join(", "))));
    }
    rules
}
