//! Which documents become models, which belong to a model, and which have no place in one.

use super::documents::ManifestDocument;
use super::download_job::DownloadJob;
use super::legacy;
use super::{ImportOptions, rules};
use crate::intent::scalar::DnsName;
use serde_json::{Value, json};
use stator_core::dynamo::conversion::{self, ConversionError, MalformedFieldReason, UnmappedField};
use stator_core::dynamo::equivalence;
use stator_core::dynamo::graph_components::components_mut;
use stator_core::dynamo::kinds::{self, LABEL_FILE};
use stator_core::dynamo::registry::annotation;
use stator_core::fields::ExpectedType;
use stator_core::finding::Finding;
use stator_core::object::JsonValueKind;
use std::collections::BTreeMap;

/// The documents by what they are to a model.
#[derive(Debug, Default)]
pub struct ClassifiedManifests {
    /// Graphs and requests, at the version that stator writes.
    pub roots: Vec<ManifestDocument>,
    /// Adapters.
    pub adapters: Vec<ManifestDocument>,
    /// Claims.
    pub claims: Vec<ManifestDocument>,
    /// Jobs that download weights.
    pub downloads: Vec<(ManifestDocument, DownloadJob)>,
    /// ConfigMaps that stator rendered of files that pods mount.
    pub mounted_files: Vec<ManifestDocument>,
    /// Other objects that a model may have.
    pub others: Vec<ManifestDocument>,
    /// Objects that no model has.
    pub left_out: Vec<Value>,
}

/// The kind of a document.
pub fn kind_of(value: &Value) -> &str {
    value.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// The name of a document's object.
pub fn name_of(value: &Value) -> &str {
    value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// The namespace that a document's object names.
pub fn namespace_of(value: &Value) -> Option<&str> {
    value.pointer("/metadata/namespace").and_then(Value::as_str).filter(|namespace| !namespace.is_empty())
}

/// The namespace that a manifest names, unless that is a placeholder.
pub fn named_namespace(manifest: &Value) -> Option<&str> {
    namespace_of(manifest).filter(|text| is_namespace(text))
}

/// Whether a text is the name of a namespace.
pub fn is_namespace(text: &str) -> bool {
    text.parse::<DnsName>().is_ok_and(|name| !name.as_str().contains('.'))
}

/// Kinds of Dynamo's that a person does not write, and why.
const GENERATED_KINDS: [(&str, &str); 5] = [
    (
        "DynamoComponentDeployment",
        "Dynamo's operator creates it from a graph: import the DynamoGraphDeployment that owns it",
    ),
    (
        "DynamoGraphDeploymentScalingAdapter",
        "Dynamo's operator creates it from a component's `scalingAdapter`: import the graph",
    ),
    ("DynamoWorkerMetadata", "Dynamo's pods write it while they run"),
    ("DynamoCheckpoint", "it is a snapshot of one worker, which no model declares"),
    ("DynamoGraphDeploymentRun", "Dynamo creates it from a request: import the DynamoGraphDeploymentRequest"),
];

/// The group and kind of Jobs.
const JOB: (&str, &str) = (kinds::JOB.group, kinds::JOB.kind);

fn download_of(document: &ManifestDocument) -> Option<DownloadJob> {
    DownloadJob::of(&document.value).ok()
}

/// Sorts, with a finding for everything that has no place.
pub fn classify_documents(
    documents: Vec<ManifestDocument>,
    options: ImportOptions<'_>,
    findings: &mut Vec<Finding>,
) -> ClassifiedManifests {
    let documents = convert_legacy(documents, options, findings);
    let mut sorted = ClassifiedManifests::default();
    let mut seen: BTreeMap<(String, String, String), Vec<(ManifestDocument, Value)>> = BTreeMap::new();
    let mut copies: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    for document in documents {
        let Some((api_version, kind)) = type_meta(&document, findings) else { continue };
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let (name, namespace) = (name_of(&document.value), namespace_of(&document.value).unwrap_or_default());
        if name.is_empty() {
            findings.push(Finding::error(
                rules::NOT_AN_OBJECT,
                document.location(),
                format!("document {}: the {kind} has no `metadata.name`", document.number),
                "give it the name that it has in the cluster",
            ));
            continue;
        }
        if let Some(job) = Some(&document).filter(|_| (group, kind.as_str()) == JOB).and_then(download_of) {
            // stator names its Jobs itself, so that two of one name are no fault.
            if !sorted.downloads.iter().any(|(_, known)| *known == job) {
                sorted.downloads.push((document, job));
            }
            continue;
        }
        let key = (format!("{group}/{kind}"), namespace.to_owned(), name.to_owned());
        let known = seen.entry(key).or_default();
        // Graphs that are alike may be of different places by what lies beside them.
        let is_kept = |one: &ManifestDocument| kind == kinds::GRAPH.kind && one.file != document.file;
        let normal = equivalence::normalize_document(&document.value);
        let alike = known.iter().position(|(one, known)| !is_kept(one) && *known == normal);
        // What belongs to a model is kept apart by files, as several models may call their own the same; and a graph may be
        // written once for each place that it runs in.
        let clashes = |one: &ManifestDocument| one.file == document.file || kind == kinds::REQUEST.kind;
        let twin = alike
            .or_else(|| known.iter().position(|(one, _)| clashes(one)))
            .and_then(|at| known.get(at))
            .map(|(one, _)| one);
        if let Some(first) = twin {
            let (place, number) = (format!("{}:{}", first.file, first.line), document.number);
            if alike.is_some() {
                copies.entry(place_of(first)).or_default().push(document.file.clone());
                findings.push(Finding::warning(
                    rules::DIFFERENCE_NOTE,
                    document.location(),
                    format!("document {number}: {kind} `{name}` duplicates that of {place}"),
                    "nothing is lost: it is imported once",
                ));
            } else {
                findings.push(Finding::error(
                    rules::DUPLICATE_NAME,
                    document.location(),
                    format!("document {number}: {kind} `{name}` is defined twice with different content; the one in {place} is imported"),
                    "import them one at a time, each into its own folder",
                ));
            }
            continue;
        }
        known.push((document.clone(), normal));
        match (group, kind.as_str()) {
            ("nvidia.com", "DynamoGraphDeployment" | "DynamoGraphDeploymentRequest") => {
                add_root(document, (&api_version, &kind), options, &mut sorted, findings);
            }
            ("nvidia.com", "DynamoModel") => sorted.adapters.push(document),
            ("", "PersistentVolumeClaim") => sorted.claims.push(document),
            ("batch", "Job") | ("", "Pod") if calls_frontend(&document.value) => {
                findings.push(client_finding(&document, &kind));
                sorted.left_out.push(document.value);
            }
            ("", "ConfigMap") if is_mounted_file(&document.value) => sorted.mounted_files.push(document),
            _ if is_carried_kind(group, &kind) => sorted.others.push(document),
            _ => {
                findings.push(unsupported_kind_finding(&document, group, &api_version, &kind));
                sorted.left_out.push(document.value);
            }
        }
    }
    let all =
        [&mut sorted.roots, &mut sorted.adapters, &mut sorted.claims, &mut sorted.mounted_files, &mut sorted.others];
    for document in all.into_iter().flatten() {
        document.copies = copies.remove(&place_of(document)).unwrap_or_default();
    }
    sorted
}

fn place_of(document: &ManifestDocument) -> (String, String, String) {
    (document.file.clone(), kind_of(&document.value).to_owned(), name_of(&document.value).to_owned())
}

/// Puts what the first operator's kinds stand for in the place of those kinds.
fn convert_legacy(
    documents: Vec<ManifestDocument>,
    options: ImportOptions<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<ManifestDocument> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_old = |document: &ManifestDocument| {
        legacy::is_legacy(&text(&document.value, "apiVersion"), &text(&document.value, "kind"))
    };
    let (old, mut rest): (Vec<ManifestDocument>, Vec<ManifestDocument>) = documents.into_iter().partition(is_old);
    let values: Vec<Value> = old.iter().map(|document| document.value.clone()).collect();
    let reading = legacy::convert_documents(&values);
    for graph in reading.graphs {
        let Some(first) = graph.document_indices.first().and_then(|place| old.get(*place)) else { continue };
        let made = std::iter::once(with_containers(graph.document)).chain(graph.claims);
        rest.extend(made.map(|value| first.with_value(value)));
    }
    for left in reading.unmapped {
        let Some(document) = old.get(left.document) else { continue };
        let (kind, name) = (kind_of(&document.value), name_of(&document.value));
        let path = if left.path.0.is_empty() { String::new() } else { format!(": `{}`", left.path) };
        let message = format!("document {}: {kind} `{name}`{path} is not imported: {}", document.number, left.reason);
        let help = "handle it by hand: the model is written without it";
        // Components find each other by themselves today: nothing is lost with these.
        let matters = !matches!(left.path.last_field(), Some("dynamoNamespace" | "externalServices"));
        findings.push(if matters && !options.lossy {
            Finding::error(rules::NOT_CARRIED, document.at(&left.path), message, help)
        } else {
            Finding::warning(rules::DIFFERENCE_NOTE, document.at(&left.path), message, help)
        });
    }
    for (place, faults) in reading.errors {
        let Some(document) = old.get(place) else { continue };
        let (kind, name) = (kind_of(&document.value), name_of(&document.value));
        for fault in faults {
            findings.push(Finding::error(
                rules::NOT_AN_OBJECT,
                document.at(&fault.path),
                format!("document {}: {kind} `{name}`: `{}`: {}", document.number, fault.path, fault.reason),
                correction_help(&fault.reason),
            ));
        }
    }
    rest
}

/// Gives each component the container that the first operator started for it, said or not: an image is to be put there.
fn with_containers(mut graph: Value) -> Value {
    for component in components_mut(&mut graph) {
        let pod = || json!({"spec": {"containers": [{"name": "main"}]}});
        component.entry("podTemplate").or_insert_with(pod);
    }
    graph
}

fn type_meta(document: &ManifestDocument, findings: &mut Vec<Finding>) -> Option<(String, String)> {
    let text = |field: &str| document.value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("apiVersion"), text("kind")) {
        (Some(api_version), Some(kind)) => Some((api_version.to_owned(), kind.to_owned())),
        (api_version, _) => {
            let lacking = if document.value.is_object() {
                format!("has no `{}`", if api_version.is_none() { "apiVersion" } else { "kind" })
            } else {
                format!("is {}, not a map", stator_core::object::json_type(&document.value))
            };
            findings.push(Finding::error(
                rules::NOT_AN_OBJECT,
                document.location(),
                format!("document {} is not a Kubernetes object: it {lacking}", document.number),
                "pass manifest files, such as `kubectl get dynamographdeployment NAME -o yaml` prints",
            ));
            None
        }
    }
}

/// Brings a graph or a request to the version that stator writes, and tells what has no field there.
fn add_root(
    mut document: ManifestDocument,
    (api_version, kind): (&str, &str),
    options: ImportOptions<'_>,
    sorted: &mut ClassifiedManifests,
    findings: &mut Vec<Finding>,
) {
    let (name, number) = (name_of(&document.value).to_owned(), document.number);
    match conversion::convert(&document.value, options.release) {
        Ok(converted) => {
            for left in &converted.unmapped {
                let message =
                    format!("document {number}: {kind} `{name}`: `{}` is not imported: {}", left.path, left.reason);
                let at = document.at(&left.path);
                findings.push(if !is_significant(left) {
                    let help = "nothing is lost: v1beta1 has no field for it";
                    Finding::warning(rules::DIFFERENCE_NOTE, at, message, help)
                } else if options.lossy {
                    Finding::warning(rules::NOT_CARRIED, at, message, "it is left out, as --lossy asks")
                } else {
                    let help = "v1beta1 has no field for it: write it in another way, or leave it out with --lossy";
                    Finding::error(rules::NOT_CARRIED, at, message, help)
                });
            }
            document.is_cut = converted.unmapped.iter().any(is_significant);
            document.value = converted.document;
            drop_filled_in(&mut document.value);
            sorted.roots.push(document);
        }
        Err(ConversionError::Malformed(faults)) => {
            for fault in faults {
                findings.push(Finding::error(
                    rules::NOT_AN_OBJECT,
                    document.at(&fault.path),
                    format!("document {number}: {kind} `{name}`: `{}`: {}", fault.path, fault.reason),
                    correction_help(&fault.reason),
                ));
            }
        }
        Err(ConversionError::UnsupportedKind { .. } | ConversionError::NotAnObject(_)) => {
            findings.push(Finding::error(
                rules::UNKNOWN_KIND,
                document.at_text("apiVersion"),
                format!("document {number}: unknown version `{api_version}` of {kind}"),
                "known: `nvidia.com/v1beta1` and `nvidia.com/v1alpha1`",
            ))
        }
    }
}

/// Takes out of a live graph what Dynamo's webhook put in, beside what it is told by.
fn drop_filled_in(graph: &mut Value) {
    let annotations = graph.pointer("/metadata/annotations");
    let on_grove = annotations.and_then(|all| all.get(annotation::WORKLOAD_PROVIDER)).is_some_and(|one| one == "grove");
    for component in components_mut(graph).filter(|_| on_grove) {
        if component.get("minAvailable").is_some_and(|least| *least == 1) {
            component.remove("minAvailable");
        }
    }
}

/// The fix of a field that cannot be read.
fn correction_help(reason: &MalformedFieldReason) -> &'static str {
    match reason {
        MalformedFieldReason::WrongType { expected: ExpectedType::String, found: Some(JsonValueKind::Boolean) } => {
            "put it in quotes: kubectl reads `y`, `no`, `on` and their like as true or false"
        }
        MalformedFieldReason::WrongType { expected: ExpectedType::String, found: Some(JsonValueKind::Number) } => {
            "put it in quotes: without them it is a number"
        }
        MalformedFieldReason::WrongType { .. } | MalformedFieldReason::Other(_) => {
            "correct the manifest: no API server accepts it"
        }
    }
}

/// Whether something is lost without a field: what a person switched off, or only named, is not, and neither is what the
/// operator passes over.
fn is_significant(left: &UnmappedField) -> bool {
    match &left.value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && left.path.last_field() != Some("dynamoNamespace"),
        Value::Array(items) => items.iter().any(|item| item.get("create").is_none_or(|create| create == true)),
        Value::Object(map) => {
            let off = |field: &str| map.get(field) == Some(&Value::Bool(false));
            !map.is_empty() && !off("enabled") && !off("create")
        }
    }
}

/// Whether a ConfigMap is one that stator rendered of a file.
fn is_mounted_file(value: &Value) -> bool {
    value.pointer("/metadata/labels").and_then(|labels| labels.get(LABEL_FILE)).is_some()
}

/// Whether a model may have objects of a kind beside what stator renders itself.
fn is_carried_kind(group: &str, kind: &str) -> bool {
    kinds::IN_MANIFESTS.iter().any(|known| known.group == group && known.kind == kind)
}

/// An object that a model may have, where there is no model.
pub fn lonely_object_finding(document: &ManifestDocument) -> Finding {
    let (kind, name) = (kind_of(&document.value), name_of(&document.value));
    Finding::error(
        rules::NOT_CARRIED,
        document.location(),
        format!(
            "document {}: {kind} `{name}` is not imported: no graph or request is imported beside it",
            document.number
        ),
        "import it together with the graph that uses it",
    )
}

/// Why an object has no place in a model.
fn unsupported_kind_finding(document: &ManifestDocument, group: &str, api_version: &str, kind: &str) -> Finding {
    let (name, number) = (name_of(&document.value), document.number);
    let error = |rule, message: String, help: &str| Finding::error(rule, document.location(), message, help);
    if group == "stator.dev" {
        return error(
            rules::UNKNOWN_KIND,
            format!("document {number}: {kind} `{name}` is already managed by stator"),
            "copy the file into the repository unchanged",
        );
    }
    if group == "nvidia.com" {
        if let Some((_, why)) = GENERATED_KINDS.iter().find(|(known, _)| *known == kind) {
            let message = format!("document {number}: {kind} `{name}` is not imported: {why}");
            return error(rules::NOT_CARRIED, message, "leave it out");
        }
        return error(
            rules::UNKNOWN_KIND,
            format!("document {number}: unknown kind {kind} of version `{api_version}`"),
            "kinds that can be imported: DynamoGraphDeployment, DynamoGraphDeploymentRequest and DynamoModel",
        );
    }
    let help = if (group, kind) == ("", "Secret") {
        "keep it out of git and create it in the cluster; the model refers to it by name"
    } else {
        "keep it where it is applied today, or in a folder that another tool applies"
    };
    error(
        rules::NOT_CARRIED,
        format!("document {number}: {kind} `{name}` is not imported: a model cannot contain a {kind}"),
        help,
    )
}

/// What a download of other weights than those of the graphs is told by.
pub fn unused_download_finding(document: &ManifestDocument, job: &DownloadJob) -> Finding {
    let (name, number) = (name_of(&document.value), document.number);
    let message = format!(
        "document {number}: Job `{name}` is left out: it downloads {} to the claim `{}`, and no graph beside it names that",
        job.repositories(),
        job.claim()
    );
    let help =
        format!("nothing, if the models do not need it; else write `{}` under `spec`, instead of `cache`", job.block());
    Finding::warning(rules::DIFFERENCE_NOTE, document.location(), message, help)
}

/// Whether something calls the frontend of a graph by its Service: a benchmark or a test, which needs the graph to serve.
fn calls_frontend(value: &Value) -> bool {
    match value {
        Value::String(text) => text.match_indices(FRONTEND_SERVICE).any(|(at, _)| {
            text.get(..at).is_some_and(|before| before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '}'))
        }),
        // What an image is called says nothing of what its program calls.
        Value::Object(map) => map.iter().any(|(field, below)| field != "image" && calls_frontend(below)),
        Value::Array(items) => items.iter().any(calls_frontend),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// How Dynamo's operator ends the name of a frontend's Service.
const FRONTEND_SERVICE: &str = "-frontend";

/// What a Job is told by that has nothing in common with the graphs: it may as well need one to serve.
pub fn unrelated_job_finding(document: &ManifestDocument) -> Finding {
    let (name, number) = (name_of(&document.value), document.number);
    let message =
        format!("document {number}: Job `{name}` is left out: it mounts no claim that a graph beside it mounts");
    let help = "if the graph needs it first, write it under `manifests` of the model; else run it with `kubectl apply`";
    Finding::warning(rules::DIFFERENCE_NOTE, document.location(), message, help)
}

/// What a benchmark is told by.
fn client_finding(document: &ManifestDocument, kind: &str) -> Finding {
    let (name, number) = (name_of(&document.value), document.number);
    let message = format!(
        "document {number}: {kind} `{name}` is left out: it calls the frontend of a graph, and so is no part of the deployment"
    );
    let help = "run it with `kubectl apply` once the model serves";
    Finding::warning(rules::DIFFERENCE_NOTE, document.location(), message, help)
}
