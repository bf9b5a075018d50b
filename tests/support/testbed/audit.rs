//! What the API server wrote down of the requests of service accounts.

use super::ControlPlane;
use serde_json::Value;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditedRequest {
    /// Who asked: `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
    /// As whom, where somebody else was impersonated.
    pub acting_as: Option<String>,
    /// `get`, `list`, `watch`, `create`, `patch`, `delete`.
    pub verb: String,
    /// The API group; empty for the core's.
    pub group: String,
    /// The resource, with its subresource: `models/status`. Empty where a path was asked for that is none.
    pub resource: String,
    /// Where; empty for everywhere.
    pub namespace: String,
    /// Which object; empty for all.
    pub name: String,
    /// What it was answered with.
    pub code: u64,
    /// The path, with its query.
    pub path: String,
}

impl ControlPlane {
    /// All requests of service accounts so far, in the order of their answers. Empty unless it is [`Self::audited`].
    pub fn requests(&self) -> Vec<AuditedRequest> {
        let log = fs_err::read_to_string(self.launch.folder().join("audit.log")).unwrap_or_default();
        // The last line may be half written.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| serde_json::from_str(line).ok()).map(|event: Value| request(&event)).collect()
    }
}

fn request(event: &Value) -> AuditedRequest {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let resource = match text("/objectRef/subresource") {
        part if part.is_empty() => text("/objectRef/resource"),
        part => format!("{}/{part}", text("/objectRef/resource")),
    };
    AuditedRequest {
        user: text("/user/username"),
        acting_as: event.pointer("/impersonatedUser/username").and_then(Value::as_str).map(str::to_owned),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource,
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        path: text("/requestURI"),
    }
}
