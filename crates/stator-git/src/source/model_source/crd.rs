//! The custom resource definition of sources, generated from their Rust types.
//!
//! What types cannot say, rules in CEL say. They are those of a file of sources, as far as they can be checked from the
//! object alone: what is in a secret, whether a range of versions is one and a schedule ever comes, the controller says in
//! the status. Lists and texts are bounded, which is what the API server estimates the cost of a rule by.

use super::ModelSourceSpec;
use super::status::ModelSourceStatus;
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_model::intent::structural::{
    ResourceKind, add_validation_rule, printer_column, resource_definition, structural_schema,
};

/// `ModelSource`.
pub const MODEL_SOURCE: ObjectKind =
    ObjectKind { group: "stator.dev", version: "v1alpha1", kind: "ModelSource", plural: "modelsources", short: "msrc" };

/// The definition of `modelsources.stator.dev`, as `crds/stator.dev_modelsources.yaml` holds it.
pub fn custom_resource_definition() -> Value {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    resource_definition(ResourceKind {
        kind: MODEL_SOURCE,
        singular: MODEL_SOURCE.kind.to_lowercase(),
        short_name: Some(MODEL_SOURCE.short),
        scope: "Namespaced",
        description: "A repository to sync into the cluster.",
        columns: vec![
            printer_column("URL", "string", ".spec.url", true),
            printer_column("Ref", "string", ".spec.ref.*", false),
            printer_column("Environment", "string", ".status.environment", true),
            printer_column("Revision", "string", ".status.commit", false),
            printer_column("Models", "string", ".status.models.ready", false),
            printer_column("GPUs", "integer", ".status.plan.gpus.after", true),
            printer_column("Suspended", "boolean", ".spec.suspend", true),
            printer_column("Ready", "string", &condition("Ready", "status"), false),
            printer_column("Status", "string", &condition("Ready", "message"), false),
            printer_column("Age", "date", ".metadata.creationTimestamp", false),
        ],
        required: &["spec"],
        spec: spec_schema(),
        status: Some(structural_schema::<ModelSourceStatus>()),
    })
}

/// A rule: the field that it is about, the expression that must be true, and what to tell whoever breaks it.
struct ValidationRule {
    field: &'static str,
    expression: String,
    message: &'static str,
}

/// Addresses may have credentials in them by mistake, and an API server quotes a value that breaks a rule of its own: so
/// their rules stand at what they are in. The characters of a host, a port and a path are those that
/// [`crate::source::url::RepositoryUrl`] takes.
fn validation_rules() -> Vec<ValidationRule> {
    let mut rules = Vec::new();
    let mut rule = |field, expression: &str, message| {
        rules.push(ValidationRule { field, expression: expression.to_owned(), message })
    };
    rule(
        "",
        "!has(self.allowLocal) || !self.allowLocal",
        "`allowLocal` is only for a file of sources: in a cluster, a path would be on the controller's machine, next \
         to the mirrors of other tenants",
    );
    rule(
        "",
        "!self.url.startsWith('http://') || (has(self.allowInsecure) && self.allowInsecure)",
        "`url`: `http://` is not encrypted; write `https://`, or set `allowInsecure: true`",
    );
    rule(
        "",
        &format!(
            "(self.url.matches({}) || self.url.matches({})) && !self.url.matches({})",
            cel_string(&format!("^{SCHEME_PATTERN}")),
            cel_string("^([^/:]+@)?[^/:@]+:(/?[^:/]|$)"),
            cel_string("^(https?|ssh|git|file):($|[^/]|/[^/])"),
        ),
        "`url`: write `https://HOST/PATH`, `ssh://USER@HOST/PATH` or `USER@HOST:PATH`",
    );
    rule(
        "",
        &format!(
            "!self.url.matches({}) && !self.url.matches({})",
            cel_string("^https?://[^/]*@"),
            cel_string("^(ssh|git[+]ssh|ssh[+]git)://[^/@:]*:[^/@]*@"),
        ),
        "`url`: credentials do not belong in the address; put them into the secret that `secretRef` names",
    );
    rule(
        "",
        &format!(
            "self.url.matches({}) || self.url.matches({})",
            cel_string(&format!(
                "^{SCHEME_PATTERN}({USER_PATTERN}@)?({HOST_PATTERN}|\\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\\])(:{PORT_PATTERN})?/[^/]"
            )),
            cel_string(&format!("^({USER_PATTERN}@)?{HOST_PATTERN}:/?[^:/]")),
        ),
        "`url`: the address has no valid host; write it as in `https://git.example.com/team/models.git`",
    );
    rule(
        "",
        &format!(
            "self.url.matches({}) && !self.url.matches({})",
            cel_string("^[!-~]+$"),
            cel_string("[?#%\\\\]|[:/][.][.]?(/|$)|[^:/]//+[^/]|[:/]-"),
        ),
        "`url`: the address has no path to a repository, or one with a space, `..`, `?`, `#`, `%` or an empty part in it",
    );
    rule(
        "",
        &format!("self.url.matches({}) || has(self.secretRef)", cel_string("^https?://")),
        "an SSH address needs `secretRef` with a secret that has `identity` and `known_hosts`; for a public repository \
         write the `https://` address",
    );
    rule(
        "ref",
        "[has(self.branch), has(self.tag), has(self.commit), has(self.semver)].filter(one, one).size() == 1",
        "`ref` takes exactly one of `branch`, `tag`, `commit` and `semver`",
    );
    // What `git check-ref-format` takes, as far as a name below `refs/heads/` goes, and no option.
    let name = format!(
        "!self.matches({}) && !self.matches({})",
        cel_string("[\\x00-\\x20\\x7f~^:?*\\[\\\\]"),
        cel_string("[.][.]|@\\{|//|^[-/]|[/.]$|(^|/)[.]|[.]lock(/|$)"),
    );
    rule("ref.branch", &name, "it is not a valid branch name: write it as `git branch` does");
    rule("ref.tag", &name, "it is not a valid tag name: write it as `git tag` does");
    rule(
        "ref.commit",
        &format!("self.matches({})", cel_string("^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$")),
        "it is not a commit: write all 40 hexadecimal digits",
    );
    rule(
        "path",
        &format!("!self.matches({})", cel_string("^/|[\\p{Cc}\\\\]|(^|/)([.][.]|[.][gG][iI][tT])(/|$)")),
        "`path` leaves the repository, or points into `.git`; write a folder from its root, as `clusters/prod`",
    );
    for field in ["interval", "timeout", "windows[].duration"] {
        rule(
            field,
            &format!(
                "size(self) > 1 && self.matches({}) && duration(self) >= duration('1s') && duration(self) <= duration('8784h')",
                cel_string(super::DURATION_PATTERN)
            ),
            "write a duration from one second to a year, as `30s`, `5m` or `1h30m`",
        );
    }
    let fields = "[^\\s\\pZ?@]+([\\s\\pZ]+[^\\s\\pZ?]+){4}";
    let words = "@(hourly|daily|midnight|weekly|monthly|yearly|annually)";
    for field in ["schedule", "windows[].schedule"] {
        rule(
            field,
            &format!("self.matches({})", cel_string(&format!("^[\\s\\pZ]*({words}|{fields})[\\s\\pZ]*$"))),
            "a schedule has five fields: minute, hour, day of the month, month, day of the week; `*/5 * * * *` is every \
             five minutes",
        );
    }
    for field in ["timeZone", "windows[].timeZone"] {
        rule(
            field,
            &format!("self.matches({})", cel_string("^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$")),
            "it is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC`",
        );
    }
    rule(
        "",
        "!has(self.timeZone) || has(self.schedule)",
        "`timeZone` without a `schedule`; windows have their own time zone",
    );
    rule(
        "",
        "!has(self.webhook) || has(self.forge)",
        "`webhook` without `forge.type`: the host that signs the calls is unknown",
    );
    rule(
        "",
        "!has(self.previews) || !self.previews || (has(self.forge) && has(self.forge.secretRef))",
        "`previews` without `forge.secretRef`: comments need a token",
    );
    rule(
        "",
        "!has(self.previews) || !self.previews || has(self.ref.branch)",
        "`previews` without `ref.branch`: pull requests need a base branch",
    );
    let web = "[^/@?#\\s]+([/?#]|$)";
    rule(
        "",
        &format!(
            "!has(self.forge) || !has(self.forge.url) || self.forge.url.matches({}) || (has(self.allowInsecure) && \
             self.allowInsecure && self.forge.url.matches({}))",
            cel_string(&format!("^(?i)https://{web}")),
            cel_string(&format!("^(?i)http://{web}")),
        ),
        "`forge.url` is not an `https://` address, or contains credentials; `http://` needs `allowInsecure: true`",
    );
    rule(
        "forge",
        &format!("!has(self.targetUrl) || self.targetUrl.matches({})", cel_string(&format!("^(?i)https?://{web}"))),
        "`forge.targetUrl` is not an `https://` or `http://` address, or contains credentials",
    );
    rule(
        "",
        "!has(self.verify) || self.verify.mode in ['Head', 'HEAD'] || has(self.ref.tag) || has(self.ref.semver)",
        "`verify` requires a signed tag, but `ref` does not follow a tag: write `ref.tag` or `ref.semver`, or `mode: \
         Head`",
    );
    rules
}

const SCHEME_PATTERN: &str = "(https?|ssh|git[+]ssh|ssh[+]git)://";
const USER_PATTERN: &str = "[0-9A-Za-z._][0-9A-Za-z._-]*";
/// Labels of at most 63 characters, and a dot at the end for those who write one.
const HOST_PATTERN: &str =
    "[0-9A-Za-z_]([0-9A-Za-z_-]{0,61}[0-9A-Za-z_])?([.][0-9A-Za-z_]([0-9A-Za-z_-]{0,61}[0-9A-Za-z_])?)*[.]?";
/// 1 to 65535.
const PORT_PATTERN: &str = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";

/// A text of CEL, as it stands.
fn cel_string(pattern: &str) -> String {
    debug_assert!(!pattern.contains('\''), "{pattern}");
    format!("r'{pattern}'")
}

fn spec_schema() -> Value {
    let mut schema = structural_schema::<ModelSourceSpec>();
    for ValidationRule { field, expression, message } in validation_rules() {
        let placed = add_validation_rule(&mut schema, field, &expression, message);
        debug_assert!(placed, "{field}");
    }
    schema
}

/// Where the rules are that the definition should have, and what they tell.
#[cfg(test)]
pub(super) fn rule_messages() -> Vec<(&'static str, &'static str)> {
    validation_rules().into_iter().map(|rule| (rule.field, rule.message)).collect()
}
