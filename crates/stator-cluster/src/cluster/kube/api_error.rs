//! What an API server's refusal means. HTTP codes alone do not say: a 500 may be a misspelt field that will never be
//! taken or a webhook that is restarting, a 409 may be about a field, a version or a race.

use super::api_client::ApiResponse;
use super::field_paths;
use crate::cluster::{ClusterError, FieldConflict, InvalidField};
use ::kube::core::Status;
use ::kube::core::response::StatusCause;
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::fields::FieldManager;
use stator_core::object::{FieldPath, ObjectRef};
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiCall<'a> {
    /// What the request does, in the words of RBAC: `patch`, `delete`, `list`.
    pub(super) verb: &'static str,
    /// The kind.
    pub(super) kind: &'a ObjectKind,
    /// The namespace, `None` for all.
    pub(super) namespace: Option<&'a str>,
    /// The object, `None` for a list or a watch.
    pub(super) object: Option<&'a ObjectRef>,
    /// What is applied, for reading paths along it.
    pub(super) config: Option<&'a Value>,
    /// Whether a uid or a resource version was asked to be still true.
    pub(super) conditional: bool,
}

impl<'a> ApiCall<'a> {
    /// A list or a watch, in one namespace or in all.
    pub(super) fn on_kind(verb: &'static str, kind: &'a ObjectKind, namespace: Option<&'a str>) -> Self {
        Self { verb, kind, namespace, object: None, config: None, conditional: false }
    }

    /// A call about one object, which sends nothing of it and has no precondition.
    pub(super) fn on_object(verb: &'static str, kind: &'a ObjectKind, object: &'a ObjectRef) -> Self {
        Self { verb, kind, namespace: Some(&object.namespace), object: Some(object), config: None, conditional: false }
    }
}

/// The body of a refusal. What is no `Status` (a proxy's page, a router's line) is reported as text.
pub(super) fn parse_status(answer: &ApiResponse) -> Status {
    let parsed = serde_json::from_slice::<Status>(&answer.body).ok().filter(|status| !status.message.is_empty());
    let mut status = parsed.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&answer.body);
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
        Status { message: line, ..Status::default() }
    });
    status.code = answer.status.as_u16();
    status
}

/// Whether a 404 is about the object alone: the kind is served, and there is none of that name.
pub(super) fn is_absent(status: &Status, object: &ObjectRef) -> bool {
    let named =
        status.details.as_ref().is_some_and(|details| details.name == object.name && details.kind != "namespaces");
    status.code == 404 && named
}

/// How long the server asks to be left alone, in the header or in the body.
fn server_retry_after(answer: &ApiResponse, status: &Status) -> Option<Duration> {
    let stated = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    answer.retry_after.or_else(|| stated.map(|seconds| Duration::from_secs(seconds.min(120).into())))
}

/// What a refusal means. `managers` are those of the live object, read after a conflict.
pub(super) fn to_cluster_error(asked: &ApiCall<'_>, answer: &ApiResponse, managers: &[FieldManager]) -> ClusterError {
    let status = parse_status(answer);
    let transient =
        |message: String| ClusterError::Transient { message, retry_after: server_retry_after(answer, &status) };
    match status.code {
        401 => ClusterError::Refused {
            message: format!("the API server does not accept the credentials ({})", status_message(&status)),
            fix: "log in again: the token or the client certificate of the kubeconfig's user is expired or wrong"
                .to_owned(),
        },
        403 => forbidden_error(asked, &status),
        404 => not_found_error(asked, &status),
        409 => conflict_error(asked, &status, managers).unwrap_or_else(|| transient(status_message(&status))),
        400 | 405 | 406 | 413 | 415 | 422 => rejected_error(asked, &status),
        500 => internal_error(asked, &status).unwrap_or_else(|| transient(server_error_message(&status))),
        429 => transient(format!("the API server is overloaded ({})", status_message(&status))),
        code if code >= 500 => transient(server_error_message(&status)),
        code => ClusterError::Refused {
            message: format!(
                "the API server answered {} with {code}: {}",
                describe_call(asked),
                status_message(&status)
            ),
            fix: "check that the kubeconfig's server is a Kubernetes API server".to_owned(),
        },
    }
}

fn status_message(status: &Status) -> String {
    if status.message.is_empty() { format!("HTTP {}", status.code) } else { status.message.clone() }
}

fn describe_call(asked: &ApiCall<'_>) -> String {
    match (asked.object, asked.namespace) {
        (Some(object), _) => format!("{} of {object}", asked.verb),
        (None, Some(namespace)) => format!("{} of {} in {namespace}", asked.verb, asked.kind.plural),
        (None, None) => format!("{} of {}", asked.verb, asked.kind.plural),
    }
}

fn forbidden_error(asked: &ApiCall<'_>, status: &Status) -> ClusterError {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    if causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating") {
        return ClusterError::NamespaceUnavailable {
            namespace: asked.namespace.unwrap_or_default().to_owned(),
            terminating: true,
        };
    }
    // RBAC's own sentence, and no webhook's: those say so first.
    let by_rbac = !status.message.starts_with("admission webhook") && status.message.contains(" cannot ");
    match asked.object {
        Some(object) if !by_rbac => ClusterError::Denied { object: object.clone(), message: status.message.clone() },
        Some(_) | None => {
            // One apply asks for several rights; the sentence says which one is missing.
            let (verb, resource, group) =
                missing_right(&status.message).unwrap_or((asked.verb, asked.kind.plural, asked.kind.group));
            let resource = match (group, resource.split_once('/')) {
                ("", _) => resource.to_owned(),
                (group, None) => format!("{resource}.{group}"),
                (group, Some((resource, part))) => format!("{resource}.{group}/{part}"),
            };
            let place = match asked.namespace {
                Some(namespace) => format!("a Role in {namespace}"),
                None => "a ClusterRole".to_owned(),
            };
            let fix = if verb.starts_with("impersonate") {
                // `impersonate`, or `impersonate-on:serviceaccount:list` where the server tells them apart. It is not the
                // account acted as that lacks it.
                "let stator impersonate that account: add it to the chart's `rbac.impersonate`, or grant stator's own \
                 account the verb `impersonate` on it"
                    .to_owned()
            } else {
                format!("grant that user {place} with the verb `{verb}` on `{resource}`")
            };
            ClusterError::Forbidden { message: status_message(status), fix }
        }
    }
}

/// Verb, resource and API group of RBAC's sentence: `User "u" cannot patch resource "models/status" in API group "g"…`.
fn missing_right(message: &str) -> Option<(&str, &str, &str)> {
    let (verb, rest) = message.split_once(" cannot ")?.1.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    Some((verb, resource, rest.split_once('"')?.0))
}

fn not_found_error(asked: &ApiCall<'_>, status: &Status) -> ClusterError {
    let details = status.details.as_ref();
    if let Some(details) = details.filter(|details| details.kind == "namespaces") {
        return ClusterError::NamespaceUnavailable { namespace: details.name.clone(), terminating: false };
    }
    match asked.object {
        Some(object) if is_absent(status, object) => ClusterError::Precondition {
            object: object.clone(),
            message: "the object does not exist, so its status cannot be written".to_owned(),
        },
        Some(_) | None => {
            ClusterError::UnknownKind { api_version: asked.kind.api_version(), kind: asked.kind.kind.to_owned() }
        }
    }
}

/// A 409: fields of another manager, a precondition, or `None` for a race that the next try may win.
fn conflict_error(asked: &ApiCall<'_>, status: &Status, managers: &[FieldManager]) -> Option<ClusterError> {
    let object = asked.object?.clone();
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut conflicts: Vec<FieldConflict> = causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| {
            let manager = manager_of(&cause.message);
            let path = field_paths::resolve_owned_path(&cause.field, managers, &manager);
            FieldConflict { manager, path }
        })
        .collect();
    conflicts.sort();
    conflicts.dedup();
    if !conflicts.is_empty() {
        return Some(ClusterError::Conflict { object, conflicts });
    }
    // "Operation cannot be fulfilled on <resource> <name>: <what>".
    let message = status.message.split_once("\": ").map_or(status.message.as_str(), |(_, what)| what);
    asked.conditional.then(|| ClusterError::Precondition { object, message: message.to_owned() })
}

/// The name in `conflict with "kubectl-edit" using v1`, which Go quotes.
fn manager_of(message: &str) -> String {
    let quoted = message.strip_prefix("conflict with ").unwrap_or(message);
    let mut values = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
    match values.next() {
        Some(Ok(name)) => name,
        Some(Err(_)) | None => quoted.trim_matches('"').to_owned(),
    }
}

/// A rejected request: the fields, where they are reported.
fn rejected_error(asked: &ApiCall<'_>, status: &Status) -> ClusterError {
    let Some(object) = asked.object else {
        return ClusterError::Refused {
            message: format!("the API server rejects the {}: {}", describe_call(asked), status_message(status)),
            fix: "check that this release of stator supports this version of Kubernetes".to_owned(),
        };
    };
    let stated: Vec<&StatusCause> = status.details.iter().flat_map(|details| &details.causes).collect();
    if stated.iter().any(|cause| cause.field == "metadata.uid" && cause.message.contains("field is immutable")) {
        let meant = asked.config.and_then(|config| config.pointer("/metadata/uid")).and_then(Value::as_str);
        return ClusterError::Precondition {
            object: object.clone(),
            message: format!(
                "the UID in the precondition ({}) does not match the UID of the object",
                meant.unwrap_or_default()
            ),
        };
    }
    let config = asked.config.unwrap_or(&Value::Null);
    let mut causes: Vec<InvalidField> = stated
        .iter()
        // A remark that more may be wrong, where something is.
        .filter(|cause| cause.field != "<nil>" || stated.len() == 1)
        .map(|cause| InvalidField {
            path: if cause.field == "<nil>" {
                FieldPath::root()
            } else {
                field_paths::parse_validation_path(&cause.field, config)
            },
            message: cause.message.clone(),
        })
        .collect();
    if causes.is_empty() {
        causes = typing_faults(&status.message, config)
            .unwrap_or_else(|| vec![InvalidField { path: FieldPath::root(), message: status_message(status) }]);
    }
    causes.sort();
    causes.dedup();
    ClusterError::Invalid { object: object.clone(), causes }
}

/// A 500 that the object itself causes, recognised by its message because nothing else distinguishes it.
fn internal_error(asked: &ApiCall<'_>, status: &Status) -> Option<ClusterError> {
    let object = asked.object?.clone();
    let config = asked.config?;
    if let Some(causes) = typing_faults(&status.message, config) {
        return Some(ClusterError::Invalid { object, causes });
    }
    // The webhook was reached and could not convert this object; when it is not reached the words are of the way there.
    // A built-in kind is read into a type of its own: `unable to convert unstructured object to /v1, Kind=…: quantities
    // must match …`.
    let typed = status.message.contains("unable to convert unstructured object to");
    let converted = status.message.contains("conversion webhook for") && status.message.contains(" failed: ");
    if (typed || converted) && !is_webhook_unreachable(&status.message) {
        let causes = vec![InvalidField { path: FieldPath::root(), message: status.message.clone() }];
        return Some(ClusterError::Invalid { object, causes });
    }
    None
}

/// `failed to create typed patch object (…): .spec.a: …`, with one fault or a list of them. A live object that does not
/// fit its own schema any more reads much the same.
fn typing_faults(message: &str, config: &Value) -> Option<Vec<InvalidField>> {
    const TYPED: &[&str] = &["failed to create typed patch object", "failed to create typed live object"];
    if !TYPED.iter().any(|words| message.contains(words)) {
        return None;
    }
    let faults = message.split_once("): ").map_or(message, |(_, faults)| faults);
    let faults = faults.strip_prefix("errors:").unwrap_or(faults);
    let mut causes: Vec<InvalidField> = faults
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| match line.strip_prefix('.').and_then(|_| line.split_once(": ")) {
            Some((path, fault)) => {
                InvalidField { path: field_paths::parse_apply_path(path, config), message: fault.to_owned() }
            }
            None => InvalidField { path: FieldPath::root(), message: line.to_owned() },
        })
        .collect();
    causes.sort();
    causes.dedup();
    Some(causes)
}

/// Whether the words are about the way to a webhook and not about what it said.
fn is_webhook_unreachable(message: &str) -> bool {
    const WORDS: &[&str] = &[
        "failed calling webhook",
        "failed to call webhook",
        "connection refused",
        "no endpoints available",
        "connect: ",
        "dial tcp",
        "i/o timeout",
        "context deadline exceeded",
        "Client.Timeout",
        "EOF",
        "not found",
        "x509:",
        "tls:",
        "connection reset",
        "no such host",
    ];
    WORDS.iter().any(|words| message.contains(words))
}

/// A server's trouble in its own words, with a hint where a webhook is the cause.
fn server_error_message(status: &Status) -> String {
    let message = status_message(status);
    if message.contains("conversion webhook") {
        return format!("{message} (Dynamo's operator serves that conversion: is it running?)");
    }
    if message.contains("failed calling webhook") {
        return format!("{message} (the webhook does not answer: is its service running?)");
    }
    message
}
