//! The part of a policy that an API server can hold by itself: an admission policy over Dynamo's kinds that become pods, in all
//! their versions, and over Jobs, for whoever writes them without stator. Its rules are made of the same table as stator's own.

use super::document::{FleetPolicy, PodException};
use super::pod_security::{
    AllowedValue, CONTROLS, ControlledItems, NAMING_FIELDS, PodControl, PodField, PodList, PodPlace, PodSecurityLevel,
    VOLUMES,
};
use serde_json::{Value, json};
use strum::VariantArray as _;

/// The containers of a pod `t` as they are written, and those whose rest the operator writes.
const CONTAINERS: &str = "(t.spec.?containers.orValue([]) + t.spec.?initContainers.orValue([]) + \
                          t.spec.?ephemeralContainers.orValue([]) + t.more + t.parts)";
/// Those alone that are written in full.
const WHOLE_CONTAINERS: &str = "(t.spec.?containers.orValue([]) + t.spec.?initContainers.orValue([]) + \
                                t.spec.?ephemeralContainers.orValue([]) + t.more)";

/// The parts of a graph that become pods, whatever its version calls them; of a component, itself.
const COMPONENTS: &str = "object.kind == 'DynamoGraphDeployment' ? \
     object.spec.?components.orValue([]).map(c, dyn(c)) + \
     (has(object.spec.services) ? object.spec.services.map(n, dyn(object.spec.services[n])) : []) : \
     object.kind == 'DynamoComponentDeployment' ? [dyn(object.spec)] : []";

/// The pods, in lists: `spec`, `more` containers beside those of the spec, `parts` of containers, `metadata`, which are several
/// maps, and whether it `needsMain`, a container that the operator adds where it is missing.
fn pods() -> String {
    let empty = "dyn({})";
    let template = |of: &str| {
        format!(
            "dyn({{'spec': dyn({of}.?spec.orValue({empty})), 'more': dyn([]), 'parts': dyn([]), 'needsMain': dyn(false), \
             'metadata': dyn([{of}.?metadata.orValue({empty})])}})"
        )
    };
    let probe = |name: &str| format!("(has(c.{name}) ? [dyn({{'{name}': dyn(c.{name})}})] : [])");
    let component = format!(
        "dyn({{'spec': dyn(c.?podTemplate.?spec.orValue(c.?extraPodSpec.orValue({empty}))), \
         'more': dyn(has(c.extraPodSpec) && has(c.extraPodSpec.mainContainer) ? [dyn(c.extraPodSpec.mainContainer)] : []), \
         'parts': dyn((has(c.frontendSidecar) && type(c.frontendSidecar) != string ? [dyn(c.frontendSidecar)] : []) + {} + {}), \
         'needsMain': dyn(true), \
         'metadata': dyn([c.?podTemplate.?metadata.orValue({empty}), c.?extraPodMetadata.orValue({empty}), c, dyn(object.spec)])}})",
        probe("livenessProbe"),
        probe("readinessProbe"),
    );
    let checkpoint =
        |job: &str| format!("(c{job}.?podTemplate.hasValue() ? [{}] : [])", template(&format!("c{job}.podTemplate")));
    let clients = |service: &str| {
        format!("c{service}.?extraClientPods.orValue([]).map(e, {})", template("dyn(e.?podTemplate.orValue({}))"))
    };
    let checkpoints = [".?experimental.?checkpoint.?job", ".?checkpoint.?job"].map(checkpoint).join(" + ");
    let clients_of_components = [".?experimental.?gpuMemoryService", ".?gpuMemoryService"].map(clients).join(" + ");
    format!(
        "object.kind == 'Job' ? [[{job}]] : object.kind == 'DynamoCheckpoint' ? [[{checkpoint}] + {clients}] : \
         variables.components.map(c, [{component}] + {checkpoints} + {clients_of_components})",
        job = template("object.spec.template"),
        checkpoint = template("object.spec.job.podTemplateSpec"),
        clients = clients(".?gpuMemoryService").replacen("c.", "dyn(object.spec).", 1),
    )
}

/// Whether Dynamo's operator wrote an object, for one that people wrote: it labels what it makes.
const IS_OPERATORS: &str = "(object.kind in ['DynamoComponentDeployment', 'DynamoCheckpoint'] || \
     object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.apiVersion.startsWith('nvidia.com/')))";

/// The labels that an API server itself gives the pods of a Job, before it asks its policies.
const JOB_LABELS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];

/// What one field of a pod may be: an expression over a pod `t`, and what is told to whom it refuses.
type FieldRule = (PodField, String, &'static str);

/// The admission policies of a policy, and their bindings: objects of `admissionregistration.k8s.io/v1`.
pub fn admission_policies(policy: &FleetPolicy) -> Vec<Value> {
    let name = format!("fleet-{}", policy.metadata.name);
    let worded = |message: &str| format!("fleet policy `{}`: {message}", policy.metadata.name);
    let of_pods = |expression: &str| format!("variables.pods.all(l, l.all(t, {expression}))");
    let mut validations: Vec<Value> = Vec::new();
    for (field, expression, refusal) in level_rules(policy) {
        let message = worded(&format!("{refusal} ({})", field.name()));
        validations.push(json!({"expression": of_pods(&expression), "message": message}));
    }
    for (expression, message) in list_rules(policy) {
        validations.push(json!({"expression": of_pods(&expression), "message": worded(&message)}));
    }
    if let Some(expression) = graph_priority_rule(policy) {
        let message = worded("a graph names a priority class that pods may not name");
        validations.push(json!({"expression": expression, "message": message}));
    }
    if validations.is_empty() {
        return Vec::new();
    }
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["nvidia.com"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
             "resources": ["dynamographdeployments", "dynamocomponentdeployments", "dynamocheckpoints"]},
            {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]},
        ]},
        "variables": [
            {"name": "components", "expression": COMPONENTS},
            {"name": "pods", "expression": pods()},
        ],
        "validations": validations,
    });
    // What is there already may still be deleted, which takes its finalizers away.
    let changes = "request.operation != 'UPDATE' || object.spec != oldObject.spec";
    let mut conditions = vec![json!({"name": "changes", "expression": changes})];
    conditions.extend(namespace_condition(policy).map(|one| json!({"name": "namespaces", "expression": one})));
    spec["matchConditions"] = Value::Array(conditions);
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
    if pattern == "*" {
        return ".*".to_owned();
    }
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
fn level_rules(policy: &FleetPolicy) -> Vec<FieldRule> {
    let exceptions = &policy.spec.pods.exceptions;
    let is_free = |field: PodField| exceptions.iter().any(|one| one.field == field && one.values.is_none());
    let baseline =
        || CONTROLS.iter().map(|control| (control.field, control_rule(control, exceptions), control.refusal)).collect();
    let mut rules: Vec<FieldRule> = match policy.spec.pods.level {
        PodSecurityLevel::Privileged => Vec::new(),
        PodSecurityLevel::Baseline => baseline(),
        PodSecurityLevel::Restricted => [baseline(), restricted_rules(exceptions)].concat(),
    };
    rules.retain(|(field, _, _)| !is_free(*field));
    rules
}

/// The values that exceptions add to a field, as an expression over a text; `false` for none.
fn excepted(exceptions: &[PodException], field: PodField, text: &str) -> String {
    let own = exceptions.iter().filter(|one| one.field == field);
    let patterns: Vec<&str> = own.flat_map(|one| one.values.iter().flatten()).map(String::as_str).collect();
    if patterns.is_empty() {
        return "false".to_owned();
    }
    format!("(!{text}.matches('(^|/)[.][.](/|$)') && {})", matches_any(text, &patterns, true))
}

/// One row of the table, as an expression over a pod `t`.
fn control_rule(control: &PodControl, exceptions: &[PodException]) -> String {
    let path: String = control.path.iter().map(|name| format!(".?{name}")).collect();
    let of = |owner: &str| {
        let found = format!("{owner}{path}");
        let condition = |value: &str| value_rule(control, exceptions, value);
        match control.items {
            ControlledItems::Whole => format!("(!{found}.hasValue() || {})", condition(&format!("{found}.value()"))),
            ControlledItems::Each => format!("{found}.orValue([]).all(i, {})", condition("i")),
            ControlledItems::FieldOfEach(field) => {
                format!("{found}.orValue([]).all(i, !has(i.{field}) || {})", condition(&format!("i.{field}")))
            }
            ControlledItems::Keys => format!("dyn({found}.orValue({{}})).all(i, {})", condition("i")),
            ControlledItems::ValuesBelow(prefix) => format!(
                "dyn({found}.orValue({{}})).all(i, !i.startsWith({}) || {})",
                cel_string(prefix),
                condition(&format!("{found}.value()[i]"))
            ),
        }
    };
    let rule = in_place(control.place, of);
    if control.field == PodField::SelectingLabels { format!("({IS_OPERATORS} || {rule})") } else { rule }
}

/// A condition of every value of a pod `t` that is a place.
fn in_place(place: PodPlace, of: impl Fn(&str) -> String) -> String {
    match place {
        PodPlace::Pod => of("t.spec"),
        PodPlace::Contexts => {
            format!("{} && {CONTAINERS}.all(c, {})", of("t.spec.?securityContext"), of("c.?securityContext"))
        }
        PodPlace::Containers => format!("{CONTAINERS}.all(c, {})", of("c")),
        PodPlace::Volumes => format!("t.spec.?volumes.orValue([]).all(v, {})", of("v")),
        PodPlace::Metadata => format!("t.metadata.all(m, {})", of("dyn(m)")),
    }
}

/// Whether a value is allowed, by the table or by an exception.
fn value_rule(control: &PodControl, exceptions: &[PodException], value: &str) -> String {
    let below = |prefixes: &[&str]| {
        let each = prefixes.iter().map(|prefix| format!("{value}.startsWith({})", cel_string(prefix)));
        format!("({})", each.collect::<Vec<_>>().join(" || "))
    };
    let (allowed, text) = match control.allowed {
        AllowedValue::False => (format!("{value} == false"), format!("string({value})")),
        AllowedValue::Zero => (format!("{value} == 0"), format!("string({value})")),
        AllowedValue::Nothing => ("false".to_owned(), value.to_owned()),
        AllowedValue::Word(words) => (format!("{value} in {}", cel_list(words)), value.to_owned()),
        AllowedValue::WordOrBelow(words, prefix) => {
            (format!("({value} in {} || {})", cel_list(words), below(&[prefix])), value.to_owned())
        }
        AllowedValue::NotBelow(prefixes, except) => {
            (format!("(!{} || {value} in {})", below(prefixes), cel_list(except)), value.to_owned())
        }
    };
    match excepted(exceptions, control.field, &text).as_str() {
        "false" => allowed,
        excepted => format!("({allowed} || {excepted})"),
    }
}

fn restricted_rules(exceptions: &[PodException]) -> Vec<FieldRule> {
    use PodField as F;
    let main = "(!t.needsMain || size(t.more) > 0 || t.spec.?containers.orValue([]).exists(c, c.name == 'main'))";
    let all = |condition: &str| format!("{main} && {WHOLE_CONTAINERS}.all(c, {condition})");
    let volumes = cel_list(&[&["name"], &VOLUMES[..]].concat());
    let kept = excepted(exceptions, F::Volumes, "key");
    vec![
        (
            F::Volumes,
            format!(
                "t.spec.?volumes.orValue([]).all(v, dyn(v).all(key, key in {volumes} || key == 'hostPath' || {kept}))"
            ),
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
                "t.spec.?securityContext.?runAsNonRoot.orValue(true) && {}",
                all("c.?securityContext.?runAsNonRoot.orValue(t.spec.?securityContext.?runAsNonRoot.orValue(false))")
            ),
            "a container must not run as root",
        ),
        (
            F::RunAsUser,
            format!(
                "t.spec.?securityContext.?runAsUser.orValue(1) != 0 && {CONTAINERS}.all(c, c.?securityContext.?runAsUser.orValue(1) != 0)"
            ),
            "a container must not run as user 0",
        ),
        (
            F::SeccompProfile,
            all("c.?securityContext.?seccompProfile.hasValue() || t.spec.?securityContext.?seccompProfile.hasValue()"),
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

/// What pods name, held to the policy's lists.
fn list_rules(policy: &FleetPolicy) -> Vec<(String, String)> {
    let mut rules = Vec::new();
    for list in PodList::VARIANTS.iter().copied() {
        let Some(patterns) = policy.spec.listed(list) else { continue };
        let matches = |text: &str| match list {
            PodList::Images => image_rule(text, &patterns),
            PodList::ServiceAccounts
            | PodList::Tolerations
            | PodList::PriorityClasses
            | PodList::RuntimeClasses
            | PodList::Schedulers
            | PodList::Volumes
            | PodList::Labels => matches_any(text, &patterns, false),
        };
        let allowed = if patterns.is_empty() { "none".to_owned() } else { patterns.join(", ") };
        let message = format!("pods name {} of {allowed}", list.describe_all());
        let expression = match list {
            PodList::Images => images(matches),
            PodList::Tolerations => {
                format!("t.spec.?tolerations.orValue([]).all(i, {})", matches("dyn(i).?key.orValue('')"))
            }
            PodList::Volumes => in_place(PodPlace::Volumes, |volume| {
                format!("dyn({volume}).all(key, key == 'name' || {})", matches("key"))
            }),
            PodList::Labels => in_place(PodPlace::Metadata, |metadata| {
                let of_jobs = format!("(object.kind == 'Job' && key in {})", cel_list(&JOB_LABELS));
                let allowed = format!("{IS_OPERATORS} || {of_jobs} || {}", matches("key"));
                format!("dyn({metadata}.?labels.orValue({{}})).all(key, {allowed})")
            }),
            PodList::ServiceAccounts | PodList::PriorityClasses | PodList::RuntimeClasses | PodList::Schedulers => {
                let fields = NAMING_FIELDS.iter().filter(|(of, _)| *of == list).map(|(_, field)| {
                    let value = format!("string(t.spec.?{field}.orValue(''))");
                    format!("({value} == '' || {})", matches(&value))
                });
                fields.collect::<Vec<_>>().join(" && ")
            }
        };
        rules.push((expression, message));
    }
    if policy.spec.images.as_ref().is_some_and(|images| images.require_digest) {
        let expression = images(|image| format!("{image}.matches('@sha256:[0-9a-f]{{64}}$')"));
        rules.push((expression, "images are named by their digest".to_owned()));
    }
    rules
}

/// A condition of every image of a pod `t`: those of containers, and those that are volumes.
fn images(condition: impl Fn(&str) -> String) -> String {
    let of_containers =
        in_place(PodPlace::Containers, |one| format!("(!has({one}.image) || {})", condition(&format!("{one}.image"))));
    let of_volumes = in_place(PodPlace::Volumes, |one| {
        format!("(!{one}.?image.?reference.hasValue() || {})", condition(&format!("{one}.image.reference")))
    });
    format!("{of_containers} && {of_volumes}")
}

/// An image without a registry is the default one's, and is written in full to be compared.
fn image_rule(image: &str, patterns: &[&str]) -> String {
    if patterns.is_empty() {
        return "false".to_owned();
    }
    let has_registry = format!("{image}.matches('^(localhost|[^/]*[.:][^/]*)/')");
    let full = format!(
        "({has_registry} ? {image} : {image}.contains('/') ? 'docker.io/' + {image} : 'docker.io/library/' + {image})"
    );
    let regex = patterns.iter().map(|one| to_regex(one, true)).collect::<Vec<_>>().join("|");
    format!("{full}.matches({})", cel_string(&format!("^({regex})(:[^/@]*)?(@.*)?$")))
}

/// Beside those of its pods, a graph names a priority class for all of them.
fn graph_priority_rule(policy: &FleetPolicy) -> Option<String> {
    let patterns = policy.spec.listed(PodList::PriorityClasses)?;
    let class = "dyn(object.spec).?priorityClassName.orValue('')";
    Some(format!("{class} == '' || {}", matches_any(class, &patterns, false)))
}
