//! Other objects of a model (`spec.manifests`): read from the model or from files of its folder, and held to what a model
//! may have.

use super::git_secrets::{secret_finding, secrets_of_file};
use super::model::{Manifest, Model};
use super::mounted_files::{MAX_MANIFESTS, check_path, find_file, join_path};
use super::yaml::{YamlNode, parse_yaml_documents};
use super::{FieldOrigins, SourceFile, rules};
use serde_json::{Map, Value};
use stator_core::deployment_tools;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::registry;
use stator_core::fields::{self, TypingError, TypingErrorKind};
use stator_core::finding::{Finding, Location};
use stator_core::mask;
use stator_core::object::Object;
use std::collections::BTreeMap;

/// The fields that an object may have.
const OBJECT_FIELDS: [&str; 7] = ["apiVersion", "kind", "metadata", "spec", "data", "binaryData", "immutable"];
/// The fields that its metadata may have.
const METADATA_FIELDS: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// An object of `spec.manifests`, which a model may have.
#[derive(Clone, Debug)]
pub struct ManifestObject {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// All of it, as it was written.
    pub value: Map<String, Value>,
    origin: ManifestOrigin,
}

/// Where an object was written.
#[derive(Clone, Debug)]
enum ManifestOrigin {
    /// In the model: the path of the list's item.
    Model(String),
    /// In a file of its own.
    File(Box<FieldOrigins>),
}

impl ManifestOrigin {
    fn locate(&self, model: &FieldOrigins, path: &str) -> Location {
        match self {
            Self::Model(item) if path.is_empty() => model.locate(item),
            Self::Model(item) => model.locate(&format!("{item}.{path}")),
            Self::File(origins) => origins.locate(path),
        }
    }
}

impl ManifestObject {
    /// Where a field of it was written, or the nearest one above it.
    pub fn locate(&self, model: &FieldOrigins, path: &str) -> Location {
        self.origin.locate(model, path)
    }

    /// What people call it: `ConfigMap chat-api`.
    pub fn describe(&self) -> String {
        format!("{} {}", self.kind.kind, self.name)
    }
}

/// The objects of a model, with a finding for everything that is wrong with them.
pub(crate) fn read_manifests(
    model: &Model,
    origins: &FieldOrigins,
    folder: &str,
    there: &[SourceFile],
    findings: &mut Vec<Finding>,
) -> Vec<ManifestObject> {
    let mut written = Vec::new();
    for (index, manifest) in model.spec.manifests.iter().enumerate() {
        let item = format!("spec.manifests[{index}]");
        match &manifest.from {
            None => written.push((manifest.to_object(), ManifestOrigin::Model(item))),
            Some(from) if *manifest == (Manifest { from: Some(from.clone()), ..Manifest::default() }) => {
                let place = origins.locate(&format!("{item}.from"));
                written.extend(read_file(from, place, folder, there, findings));
            }
            Some(_) => findings.push(Finding::error(
                rules::MODEL_MANIFEST,
                origins.locate(&item),
                "an item has both `from` and an object",
                "Make them two items, or keep one of them.",
            )),
        }
    }
    if written.len() > MAX_MANIFESTS {
        findings.push(Finding::error(
            rules::MODEL_MANIFEST,
            origins.locate("spec.manifests"),
            format!("{} objects; a model has at most {MAX_MANIFESTS}", written.len()),
            "Apply some of them yourself, or make several models of it.",
        ));
        written.truncate(MAX_MANIFESTS);
    }
    let mut objects: Vec<ManifestObject> = Vec::new();
    for (value, origin) in written {
        let mut judge = ManifestJudge { model: origins, origin: &origin, value: &value, findings };
        let Some((kind, name)) = judge.check() else { continue };
        if objects.iter().any(|other| other.kind == kind && other.name == name) {
            judge.error("metadata.name", format!("{} {name} is defined twice", kind.kind), "Keep one of them.");
            continue;
        }
        // Of a file the line is known, see `read_file`.
        if matches!(origin, ManifestOrigin::Model(_)) {
            judge.warn_of_secrets();
        }
        objects.push(ManifestObject { kind, name, value, origin });
    }
    objects
}

/// The documents of a file.
fn read_file(
    from: &str,
    place: Location,
    folder: &str,
    there: &[SourceFile],
    findings: &mut Vec<Finding>,
) -> Vec<(Map<String, Value>, ManifestOrigin)> {
    if let Err(fault) = check_path(from) {
        let (what, help) = fault.describe();
        findings.push(Finding::error(rules::MODEL_MANIFEST, place, format!("`{from}` {what}"), help));
        return Vec::new();
    }
    let path = join_path(folder, from);
    let bytes = match find_file(there, &path) {
        Ok(bytes) => bytes,
        Err((message, help)) => {
            findings.push(Finding::error(rules::MODEL_MANIFEST, place, message, help));
            return Vec::new();
        }
    };
    let mut objects = Vec::new();
    let parsed = parse_yaml_documents(bytes, 0, &path);
    findings.extend(parsed.findings);
    for root in parsed.roots {
        match root.to_json() {
            Value::Object(value) => {
                let origins = FieldOrigins::new([Box::from(path.as_str())].into(), root);
                objects.push((value, ManifestOrigin::File(Box::new(origins))));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                findings.push(not_an_object(&root, &path));
            }
        }
    }
    findings.extend(secrets_of_file(&path, bytes));
    objects
}

fn not_an_object(root: &YamlNode, path: &str) -> Finding {
    Finding::error(
        rules::MODEL_MANIFEST,
        root.span.location(path),
        "a document is not an object",
        "Write one object per document, with `apiVersion`, `kind` and `metadata`, and `---` between documents.",
    )
}

/// An object under judgement.
struct ManifestJudge<'a> {
    model: &'a FieldOrigins,
    origin: &'a ManifestOrigin,
    value: &'a Map<String, Value>,
    findings: &'a mut Vec<Finding>,
}

impl<'a> ManifestJudge<'a> {
    fn error(&mut self, path: &str, message: impl Into<String>, help: impl Into<String>) {
        let location = self.origin.locate(self.model, path);
        self.findings.push(Finding::error(rules::MODEL_MANIFEST, location, message, help));
    }

    /// What it is, where it is something that a model may have. Says everything that is wrong with it.
    fn check(&mut self) -> Option<(ObjectKind, String)> {
        let before = self.findings.len();
        let kind = self.check_kind()?;
        let unknown: Vec<&String> = self.value.keys().filter(|key| !OBJECT_FIELDS.contains(&key.as_str())).collect();
        for field in unknown {
            let help = if field == "status" { "Remove it: the cluster writes it." } else { "Remove it." };
            self.error(field, format!("`{field}` is not allowed in an object of `spec.manifests`"), help);
        }
        let name = self.check_metadata();
        let removes_itself =
            |spec: &Map<String, Value>| spec.get("ttlSecondsAfterFinished").is_some_and(|ttl| !ttl.is_null());
        if kind == kinds::JOB && self.value.get("spec").and_then(Value::as_object).is_some_and(removes_itself) {
            self.error(
                "spec.ttlSecondsAfterFinished",
                "a Job that removes itself would run again at every sync",
                "Remove `ttlSecondsAfterFinished`: the Job goes with the model, or when it is to run something else.",
            );
        }
        if self.findings.len() == before {
            self.check_schema(kind);
        }
        name.filter(|_| self.findings.len() == before).map(|name| (kind, name))
    }

    fn text(&self, field: &str) -> Option<&'a str> {
        let value: &'a Map<String, Value> = self.value;
        value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn check_kind(&mut self) -> Option<ObjectKind> {
        let (Some(api_version), Some(kind)) = (self.text("apiVersion"), self.text("kind")) else {
            let missing = if self.text("kind").is_none() { "kind" } else { "apiVersion" };
            self.error(
                missing,
                format!("the object has no `{missing}`"),
                "Add it, as in `apiVersion: v1` and `kind: ConfigMap`; or name a file with `from`.",
            );
            return None;
        };
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let Some(known) = kinds::IN_MANIFESTS.iter().find(|known| known.kind == kind && known.group == group) else {
            let allowed: Vec<String> =
                kinds::IN_MANIFESTS.iter().map(|kind| format!("{} ({})", kind.kind, kind.api_version())).collect();
            let message = format!("{kind} ({api_version}) is not allowed in `spec.manifests`");
            let help = format!("Allowed are {}. Apply anything else yourself.", allowed.join(", "));
            self.error("kind", message, help);
            return None;
        };
        if known.api_version() != api_version {
            let message = format!("{kind} is written as {}, not as {api_version}", known.api_version());
            self.error("apiVersion", message, format!("Write `apiVersion: {}`.", known.api_version()));
            return None;
        }
        Some(*known)
    }

    fn check_metadata(&mut self) -> Option<String> {
        let value: &'a Map<String, Value> = self.value;
        let Some(metadata) = value.get("metadata").and_then(Value::as_object) else {
            self.error("metadata", "the object has no `metadata`", "Add `metadata: {name: NAME}`.");
            return None;
        };
        for field in metadata.keys().filter(|key| !METADATA_FIELDS.contains(&key.as_str())) {
            let help = match field.as_str() {
                "generateName" => "Write `name`: stator finds its objects by their names.",
                _ => "Remove it: the cluster and its controllers write it.",
            };
            self.error(&format!("metadata.{field}"), format!("`metadata.{field}` is not allowed"), help);
        }
        for (field, what) in [("labels", "label"), ("annotations", "annotation")] {
            for (key, value) in metadata.get(field).and_then(Value::as_object).into_iter().flatten() {
                self.check_key(field, what, key, value);
            }
        }
        self.check_deployment_tool();
        let name = metadata.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        if name.is_none() {
            self.error("metadata.name", "the object has no name", "Add `metadata.name`.");
        }
        name.map(str::to_owned)
    }

    fn check_key(&mut self, field: &str, what: &str, key: &str, value: &Value) {
        let path = format!("metadata.{field}.{key}");
        if !value.is_string() {
            self.error(&path, format!("the value of {what} `{key}` is not a string"), "Write it in quotes.");
        } else if is_reserved(key) {
            let message = format!("{what} `{key}` is reserved: stator writes it");
            self.error(&path, message, "Remove it.");
        } else if registry::is_operator_key(key) {
            self.error(&path, format!("{what} `{key}` is written by Dynamo's operator"), "Remove it.");
        }
    }

    /// What another tool manages it would put back, or delete.
    fn check_deployment_tool(&mut self) {
        let Ok(object) = Object::from_value(Value::Object(self.value.clone())) else { return };
        let Some(tracking) = deployment_tools::tracking_of(&object) else { return };
        let field = if tracking.labels.contains(&tracking.mark) { "labels" } else { "annotations" };
        let path = format!("metadata.{field}.{}", tracking.mark);
        let message = format!("`{}` marks the object as one of {}", tracking.mark, tracking.tool.name());
        self.error(&path, message, "Remove it: stator manages the object.");
    }

    /// What of `data` looks like a secret. A token of a known form is reported where it stands in its file.
    fn warn_of_secrets(&mut self) {
        let Some(data) = self.value.get("data").and_then(Value::as_object) else { return };
        let without_tokens = |text: &Value| text.as_str().map(|text| Value::from(mask::redact_tokens(text)));
        let data: Map<String, Value> = data
            .iter()
            .map(|(key, text)| (key.clone(), without_tokens(text).unwrap_or_else(|| text.clone())))
            .collect();
        let mut hidden = Value::Object(data.clone());
        mask::redact_value(&mut hidden);
        for (key, _) in data.iter().filter(|(key, text)| hidden.get(key.as_str()) != Some(*text)) {
            self.findings.push(secret_finding(self.origin.locate(self.model, &format!("data.{key}"))));
        }
    }

    /// What no API server would take of it, as far as its schema tells.
    fn check_schema(&mut self, kind: ObjectKind) {
        let Some(schema) = fields::bundled_schema(&kind.api_version(), kind.kind) else { return };
        let value = Value::Object(self.value.clone());
        let typing = fields::typing_errors(schema, &value).into_iter();
        let mut faults: BTreeMap<String, String> =
            typing.map(|fault| (fault.path.to_string(), wording_of(&fault))).collect();
        if faults.is_empty() {
            let mut whole = value;
            fields::apply_defaults(schema, &mut whole);
            let violations = fields::violations(schema, &whole, None).into_iter();
            faults.extend(violations.map(|fault| (fault.path.to_string(), fault.message)));
        }
        for (path, message) in faults {
            let message = if path.is_empty() { message } else { format!("`{path}`: {message}") };
            let help = format!("Correct it: the cluster would refuse this {}.", kind.kind);
            self.error(&path, message, help);
        }
    }
}

/// What is wrong, without the API server's way of showing a value.
fn wording_of(fault: &TypingError) -> String {
    match fault.kind {
        TypingErrorKind::Type { expected } => format!("expected {expected}"),
        TypingErrorKind::Undeclared
        | TypingErrorKind::Duplicate
        | TypingErrorKind::ItemKey
        | TypingErrorKind::Unsupported => fault.message.clone(),
    }
}

/// Whether stator writes a label or annotation of its objects itself.
fn is_reserved(key: &str) -> bool {
    key.starts_with("stator.dev/") || key.starts_with("applyset.kubernetes.io/") || key == kinds::LABEL_MANAGED_BY
}
