//! What Dynamo is giving up: versions, kinds, fields, values, labels, variables and flags, with what takes their place and
//! the release that removes them.
//!
//! Source: the CRDs and release notes from 1.2 to 1.5, and for the fields of v1alpha1 the proposal that formalised the API
//! ("DEP: Kubernetes API Formalization"), which gives the releases of notice.

use crate::object::{FieldPath, KeyValue, Segment};
use serde_json::Value;

/// What is deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A version of a kind.
    Version(&'static str, &'static str),
    /// A kind.
    Kind(&'static str),
    /// A field of a kind, with `*` for names and `[]` for items.
    Field(&'static str, &'static str),
    /// A value of such a field.
    Value(&'static str, &'static str, &'static str),
    /// A label.
    Label(&'static str),
    /// An annotation.
    Annotation(&'static str),
    /// An environment variable; one that ends with `_` stands for the family.
    Variable(&'static str),
    /// A flag of a Dynamo command.
    Flag(&'static str),
    /// A value of such a flag.
    FlagValue(&'static str, &'static str),
}

impl Subject {
    /// The kind whose field it is.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Self::Field(kind, _) | Self::Value(kind, ..) => Some(kind),
            Self::Version(..)
            | Self::Kind(_)
            | Self::Label(_)
            | Self::Annotation(_)
            | Self::Variable(_)
            | Self::Flag(_)
            | Self::FlagValue(..) => None,
        }
    }

    /// How a message names it.
    pub fn name(self) -> String {
        match self {
            Self::Version(kind, version) => format!("{kind} at {version}"),
            Self::Kind(kind) => format!("the kind {kind}"),
            Self::Field(_, path) => format!("`{path}`"),
            Self::Value(_, path, value) => format!("`{value}` of `{path}`"),
            Self::Label(name) => format!("the label `{name}`"),
            Self::Annotation(name) => format!("the annotation `{name}`"),
            Self::Variable(name) => format!("the variable `{name}{}`", if name.ends_with('_') { "…" } else { "" }),
            Self::Flag(name) => format!("the flag `{name}`"),
            Self::FlagValue(name, value) => format!("`{value}` of the flag `{name}`"),
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// What.
    pub subject: Subject,
    /// The release that deprecated it.
    pub since: &'static str,
    /// The release that removes it; `None` where none is announced.
    pub removed: Option<&'static str>,
    /// What to use instead, as a sentence.
    pub instead: &'static str,
}

impl Deprecation {
    /// What is the matter, in a sentence.
    pub fn message(&self) -> String {
        let end = self
            .removed
            .map_or_else(|| "no release removes it yet".to_owned(), |release| format!("release {release} removes it"));
        format!("{} is deprecated since release {}; {end}", self.subject.name(), self.since)
    }
}

const GRAPH: &str = "DynamoGraphDeployment";
const REQUEST: &str = "DynamoGraphDeploymentRequest";
const ADAPTER: &str = "DynamoGraphDeploymentScalingAdapter";
const COMPONENT: &str = "DynamoComponentDeployment";
const ALPHA: &str = "nvidia.com/v1alpha1";

const fn line(
    subject: Subject,
    since: &'static str,
    removed: Option<&'static str>,
    instead: &'static str,
) -> Deprecation {
    Deprecation { subject, since, removed, instead }
}

/// The table.
pub const ALL: &[Deprecation] = &[
    line(Subject::Version(GRAPH, ALPHA), "1.2", None, "Write nvidia.com/v1beta1; `stator import` converts."),
    line(Subject::Version(REQUEST, ALPHA), "1.0", None, "Write nvidia.com/v1beta1; `stator import` converts."),
    line(Subject::Version(ADAPTER, ALPHA), "1.2", None, "Read nvidia.com/v1beta1."),
    line(Subject::Version(COMPONENT, ALPHA), "1.2", None, "Read nvidia.com/v1beta1."),
    line(Subject::Kind("DynamoCheckpoint"), "1.3", Some("1.5"), "Use a PodSnapshot of the snapshot operator."),
    line(
        Subject::Field(GRAPH, "spec.services.*.autoscaling"),
        "0.7",
        Some("1.0"),
        "Switch a scaling adapter on (`scaling`) and scale that with an autoscaler or the planner.",
    ),
    line(
        Subject::Field(GRAPH, "spec.services.*.dynamoNamespace"),
        "0.8",
        Some("1.0"),
        "Leave it out: the Dynamo namespace follows from the graph's namespace and name.",
    ),
    line(
        Subject::Field(GRAPH, "spec.services.*.ingress"),
        "1.2",
        None,
        "Write an Ingress or an HTTPRoute to the graph's frontend service.",
    ),
    line(
        Subject::Field(GRAPH, "spec.pvcs"),
        "1.2",
        None,
        "Write a PersistentVolumeClaim beside the graph (`cache`), and name it in a volume.",
    ),
    line(
        Subject::Field(GRAPH, "spec.components[].eppConfig"),
        "1.4",
        Some("1.5"),
        "From runtime 1.5 on the endpoint picker is part of the frontend's image and takes no settings: leave `config` out.",
    ),
    line(
        Subject::Field(GRAPH, "spec.components[].experimental.checkpoint.identity"),
        "1.3",
        Some("1.5"),
        "Name a PodSnapshot in `checkpointRef`.",
    ),
    line(
        Subject::Field(REQUEST, "spec.enableGpuDiscovery"),
        "1.2",
        None,
        "Leave it out: the operator discovers GPUs where it may; elsewhere give `hardware`.",
    ),
    line(
        Subject::Value(REQUEST, "spec.hardware.gpuSku", "gb200_sxm"),
        "1.4",
        None,
        "Write `gb200`, on operators that know it.",
    ),
    line(
        Subject::Label("nvidia.com/dynamo-sub-component-type"),
        "1.2",
        None,
        "Select by `nvidia.com/dynamo-component-type`, which is `prefill` or `decode` at v1beta1.",
    ),
    line(
        Subject::Annotation("nvidia.com/dgdr-config-map-ref"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    line(
        Subject::Annotation("nvidia.com/dgdr-deployment-overrides"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    line(
        Subject::Annotation("nvidia.com/dgdr-output-pvc"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    line(
        Subject::Annotation("nvidia.com/dgdr-profiling-config"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    line(Subject::Variable("DYN_CONNECTOR"), "1.2", None, "Give `--kv-transfer-config` to the engine."),
    line(Subject::Variable("DYN_DEPLOYMENT_CONFIG"), "0.8", Some("1.0"), "Give arguments to the component's command."),
    line(
        Subject::Variable("DYN_ENFORCE_DISAGG"),
        "1.3",
        None,
        "Leave it out: the router waits for prefill workers by itself.",
    ),
    line(Subject::Variable("DYN_KVBM_"), "1.3", Some("1.5"), "Use the engine's own KV offloading."),
    line(Subject::Flag("--connector"), "1.2", None, "Give `--kv-transfer-config` to the engine."),
    line(
        Subject::Flag("--enforce-disagg"),
        "1.3",
        None,
        "Leave it out: the router waits for prefill workers by itself.",
    ),
    line(Subject::Flag("--is-decode-worker"), "1.2", Some("1.4"), "Write `--disaggregation-mode decode`."),
    line(Subject::Flag("--is-prefill-worker"), "1.2", Some("1.4"), "Write `--disaggregation-mode prefill`."),
    line(
        Subject::FlagValue("--disaggregation-mode", "prefill_and_decode"),
        "1.3",
        None,
        "Write `agg` (TensorRT-LLM) or `pd` (vLLM), or leave the flag out.",
    ),
];

/// The oldest release that stator writes for.
pub const OLDEST: (u32, u32) = (1, 2);

/// `1.4` and `1.4.0-rc1` are the release 1.4.
fn release(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The newest release among the tags of Dynamo's images.
fn newest_image(value: &Value, depth: usize) -> Option<(u32, u32)> {
    if depth > MAX_DEPTH {
        return None;
    }
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| match value.as_str() {
                Some(image) if name == "image" && image.contains("/ai-dynamo/") => {
                    release(image.rsplit_once(':').map_or("", |(_, tag)| tag))
                }
                Some(_) | None => newest_image(value, depth + 1),
            })
            .max(),
        Value::Array(items) => items.iter().filter_map(|item| newest_image(item, depth + 1)).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A place of a document that uses something deprecated.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// Where.
    pub path: FieldPath,
    /// What.
    pub deprecation: &'static Deprecation,
}

/// Everything deprecated that a document uses, in the order of the table and of its fields.
///
/// What a release after [`OLDEST`] deprecates counts only for a document whose images are of that release or a later one:
/// until then there may be nothing else to write.
pub fn uses(document: &Value) -> Vec<Use> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let running = newest_image(document, 0).unwrap_or(OLDEST).max(OLDEST);
    let mut found = Vec::new();
    for deprecation in ALL.iter().filter(|line| release(line.since).is_some_and(|since| since <= running)) {
        let mut add = |path: FieldPath| found.push(Use { path, deprecation });
        match deprecation.subject {
            Subject::Version(of, version) => {
                if of == kind && version == api_version {
                    add(FieldPath::of(["apiVersion"]));
                }
            }
            Subject::Kind(of) => {
                if of == kind {
                    add(FieldPath::of(["kind"]));
                }
            }
            Subject::Field(of, pattern) => {
                if of == kind {
                    at(document, pattern).into_iter().for_each(|(path, _)| add(path));
                }
            }
            Subject::Value(of, pattern, value) => {
                if of == kind {
                    let places = at(document, pattern).into_iter();
                    places.filter(|(_, found)| found.as_str() == Some(value)).for_each(|(path, _)| add(path));
                }
            }
            Subject::Label(_)
            | Subject::Annotation(_)
            | Subject::Variable(_)
            | Subject::Flag(_)
            | Subject::FlagValue(..) => {
                walk(document, &FieldPath::root(), deprecation.subject, &mut add);
            }
        }
    }
    found
}

/// The places of a document that a pattern names, with what is there.
fn at<'a>(document: &'a Value, pattern: &str) -> Vec<(FieldPath, &'a Value)> {
    let mut places = vec![(FieldPath::root(), document)];
    for step in pattern.split('.') {
        let (name, items) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
        let mut next = Vec::new();
        for (path, value) in places {
            let fields = value.as_object().into_iter().flatten();
            for (field, value) in fields.filter(|(field, value)| (name == "*" || *field == name) && !value.is_null()) {
                let path = path.field(field.clone());
                match value.as_array() {
                    Some(list) if items => {
                        next.extend(
                            list.iter().enumerate().map(|(index, item)| (path.join(item_step(index, item)), item)),
                        );
                    }
                    Some(_) | None if items => {}
                    Some(_) | None => next.push((path, value)),
                }
            }
        }
        places = next;
    }
    places
}

/// An item by its name, where it has one.
fn item_step(index: usize, item: &Value) -> Segment {
    match item.get("name") {
        Some(name) if name.is_string() => Segment::Key([("name".to_owned(), KeyValue::new(name))].into()),
        Some(_) | None => Segment::Index(index),
    }
}

/// Documents nest a few dozen levels; what is deeper is not looked at.
const MAX_DEPTH: usize = 64;

/// Looks for labels, annotations, variables and flags wherever a document can have them.
fn walk(value: &Value, path: &FieldPath, subject: Subject, add: &mut impl FnMut(FieldPath)) {
    if path.0.len() > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = path.field(name.clone());
                match (name.as_str(), subject) {
                    ("status" | "managedFields", _) => continue,
                    ("labels" | "matchLabels", Subject::Label(key)) | ("annotations", Subject::Annotation(key)) => {
                        if value.get(key).is_some() {
                            add(path.field(key));
                        }
                    }
                    ("env" | "envs", Subject::Variable(variable)) => {
                        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                            let family = variable.ends_with('_') && name.starts_with(variable);
                            if name == variable || family {
                                add(path.join(item_step(index, item)));
                            }
                        }
                    }
                    ("args" | "command", Subject::Flag(_) | Subject::FlagValue(..)) => {
                        arguments(value, &path, subject, add)
                    }
                    _ => walk(value, &path, subject, add),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &path.join(item_step(index, item)), subject, add);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Looks for a flag among arguments, and in the words of a shell's script.
fn arguments(value: &Value, path: &FieldPath, subject: Subject, add: &mut impl FnMut(FieldPath)) {
    let lines = value.as_array().into_iter().flatten().enumerate();
    let words: Vec<(usize, &str)> = lines
        .filter_map(|(index, line)| Some((index, line.as_str()?)))
        .flat_map(|(index, line)| line.split_whitespace().map(move |word| (index, word)))
        .collect();
    let mut before = "";
    for (index, word) in words {
        let (flag, inline) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        let hit = match subject {
            Subject::Flag(wanted) => flag == wanted,
            Subject::FlagValue(wanted, value) => {
                (flag == wanted && inline == Some(value)) || (before == wanted && word == value)
            }
            Subject::Version(..)
            | Subject::Kind(_)
            | Subject::Field(..)
            | Subject::Value(..)
            | Subject::Label(_)
            | Subject::Annotation(_)
            | Subject::Variable(_) => false,
        };
        if hit {
            add(path.join(Segment::Index(index)));
        }
        before = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let document: Value = serde_saphyr::from_str(text).unwrap();
        uses(&document)
            .into_iter()
            .map(|found| format!("{}: {}. {}\n", found.path, found.deprecation.message(), found.deprecation.instead))
            .collect()
    }

    #[test]
    fn a_graph_of_yesterday_is_told_what_to_write_today() {
        insta::assert_snapshot!(shown(
            r"
            apiVersion: nvidia.com/v1alpha1
            kind: DynamoGraphDeployment
            metadata: {name: q}
            spec:
              pvcs: [{name: cache}]
              services:
                Worker:
                  autoscaling: {enabled: true}
                  dynamoNamespace: q
                  envs: [{name: DYN_KVBM_CPU_CACHE_GB, value: '4'}, {name: FINE, value: DYN_CONNECTOR}]
                  extraPodSpec:
                    mainContainer:
                      command: [sh, -c]
                      args: ['exec python3 -m dynamo.vllm --is-prefill-worker --disaggregation-mode=prefill_and_decode']
            "
        ), @r#"
    apiVersion: DynamoGraphDeployment at nvidia.com/v1alpha1 is deprecated since release 1.2; no release removes it yet. Write nvidia.com/v1beta1; `stator import` converts.
    spec.services.Worker.autoscaling: `spec.services.*.autoscaling` is deprecated since release 0.7; release 1.0 removes it. Switch a scaling adapter on (`scaling`) and scale that with an autoscaler or the planner.
    spec.services.Worker.dynamoNamespace: `spec.services.*.dynamoNamespace` is deprecated since release 0.8; release 1.0 removes it. Leave it out: the Dynamo namespace follows from the graph's namespace and name.
    spec.pvcs: `spec.pvcs` is deprecated since release 1.2; no release removes it yet. Write a PersistentVolumeClaim beside the graph (`cache`), and name it in a volume.
    spec.services.Worker.extraPodSpec.mainContainer.args[0]: the flag `--is-prefill-worker` is deprecated since release 1.2; release 1.4 removes it. Write `--disaggregation-mode prefill`.
    "#);
    }

    #[test]
    fn a_graph_of_today_is_told_nothing() {
        for manifest in ["vllm-disagg", "sglang-disagg", "trtllm-disagg", "mocker-agg"] {
            let path = format!("{}/tests/data/dynamo/canonical/{manifest}.yaml", env!("CARGO_MANIFEST_DIR"));
            assert_eq!(shown(&fs_err::read_to_string(path).unwrap()), "", "{manifest}");
        }
    }

    #[test]
    fn what_a_later_release_deprecates_counts_from_that_release_on() {
        let graph = |version: &str| {
            format!(
                "{{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {{name: q}}, spec: {{components: [
                 {{name: epp, eppConfig: {{config: {{}}}}, podTemplate: {{spec: {{containers: [
                 {{name: main, image: 'nvcr.io/nvidia/ai-dynamo/epp-image:{version}'}}]}}}}}}]}}}}"
            )
        };
        assert_eq!(shown(&graph("1.2.0")), "");
        assert_eq!(shown(&graph("latest")), "");
        insta::assert_snapshot!(shown(&graph("1.4.0-rc1")), @"spec.components[name=epp].eppConfig: `spec.components[].eppConfig` is deprecated since release 1.4; release 1.5 removes it. From runtime 1.5 on the endpoint picker is part of the frontend's image and takes no settings: leave `config` out.");
    }

    #[test]
    fn the_table_has_no_line_twice() {
        let mut subjects: Vec<Subject> = ALL.iter().map(|line| line.subject).collect();
        subjects.sort();
        subjects.dedup();
        assert_eq!(subjects.len(), ALL.len());
    }
}
