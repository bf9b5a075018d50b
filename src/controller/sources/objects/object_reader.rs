//! One `ModelSource` object → a source, by the rules that a file of sources is read by; faults name fields in place of
//! lines.

use crate::controller::sources::resolved_source::ResolvedSource;
use crate::controller::sources::spec::{self, SourceSecretLookup};
use crate::controller::sources::tenancy::{ForeignNamespaceError, TenancyPolicy, TenantAccess};
use serde_json::Value;
use stator_core::finding::Finding;
use stator_core::object::Object;
use stator_git::source::model_source::{ModelSourceSpec, SecretRef};
use stator_git::source::secret::SecretValues;
use stator_git::source::url::UrlScheme;
use stator_model::intent::yaml::{YamlEntry, YamlNode, YamlValue};
use stator_model::present::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most errors that are reported of one object, and the most bytes that they may take: they go into a condition.
const MAX_FINDINGS: usize = 20;
const MAX_MESSAGE_BYTES: usize = 4096;

/// Why an object is no source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceReadError {
    /// Its spec cannot be worked by: every fault, by field.
    Spec(String),
    /// It asks for a namespace that it may not touch.
    Foreign(ForeignNamespaceError),
    /// A secret has not what it is read for: every fault, by field.
    Secret(String),
}

/// Reads an object without its secrets. Whatever is in it, this returns.
pub(super) fn read_without_secrets(
    object: &Object,
    tenancy: &TenancyPolicy,
) -> Result<ResolvedSource, SourceReadError> {
    let mut source = read_guarded(object, SourceSecretLookup::Unread).map_err(SourceReadError::Spec)?;
    if source.spec.allow_local || source.url.scheme() == UrlScheme::Local {
        let message = "spec.allowLocal: a source in a cluster must not read a path of the controller's machine. Write the https:// or ssh:// address of a repository.";
        return Err(SourceReadError::Spec(message.to_owned()));
    }
    if source.spec.allow_insecure && !tenancy.insecure {
        let message = "spec.allowInsecure: this controller allows no connections that are not encrypted. Write https:// addresses, or ask an administrator to start it with --allow-insecure.";
        return Err(SourceReadError::Spec(message.to_owned()));
    }
    let account = source.spec.service_account_name.as_ref().map(|name| name.as_str());
    source.access = tenancy.access_for(&source.key.namespace, account);
    if let Some(target) = &source.spec.target_namespace {
        source.access.check_namespace(target.as_str()).map_err(SourceReadError::Foreign)?;
    }
    Ok(source)
}

/// Reads an object that [`read_source`] found sound, with its secrets.
pub(super) fn read_with_secrets(
    object: &Object,
    access: &TenantAccess,
    secrets: &BTreeMap<String, SecretValues>,
) -> Result<ResolvedSource, SourceReadError> {
    let mut source = read_guarded(object, SourceSecretLookup::Cluster(secrets)).map_err(SourceReadError::Secret)?;
    source.access = access.clone();
    Ok(source)
}

/// The secrets that a source names, all of the same namespace as itself.
pub(super) fn secret_names(spec: &ModelSourceSpec) -> BTreeSet<String> {
    let forge = spec.forge.as_ref().and_then(|forge| forge.secret_ref.as_ref());
    let own = [
        spec.secret_ref.as_ref(),
        forge,
        spec.webhook.as_ref().map(|hook| &hook.secret_ref),
        spec.verify.as_ref().map(|verify| &verify.secret_ref),
    ];
    let receivers = spec.notifications.iter().map(|one| &one.secret_ref);
    own.into_iter().flatten().chain(receivers).map(|SecretRef { name }| name.to_string()).collect()
}

/// The secret that deliveries to a source are signed with.
pub(super) fn webhook_secret(spec: &ModelSourceSpec) -> Option<String> {
    spec.forge.as_ref()?;
    spec.webhook.as_ref().map(|hook| hook.secret_ref.name.to_string())
}

/// Reads an object; what is wrong with it in words, by field. The reader is held to never panic; should a hostile object
/// make it, that is this object's fault alone.
fn read_guarded(object: &Object, secrets: SourceSecretLookup<'_>) -> Result<ResolvedSource, String> {
    let reading = AssertUnwindSafe(|| {
        let mut fields = SourceFieldPaths::default();
        let node = fields.document_node(object);
        let read = spec::read_source(&node, secrets).map_err(|findings| format_findings(findings, &fields))?;
        Ok(ResolvedSource { uid: object.uid().map(str::to_owned), ..read })
    });
    catch_unwind(reading)
        .unwrap_or_else(|_| Err("spec: reading it ended unexpectedly. Report it, with the object.".to_owned()))
}

/// `spec.url: what is wrong. What to do.`, each fault once, in the order of the fields.
fn format_findings(mut findings: Vec<Finding<FieldNumber>>, fields: &SourceFieldPaths) -> String {
    findings.sort_by_key(|finding| finding.location);
    let mut seen = BTreeSet::new();
    let mut faults: Vec<String> = Vec::new();
    for finding in findings {
        let field = fields.path(finding.location);
        let stop = if finding.message.ends_with('.') { "" } else { "." };
        let fault = escape::line(&format!("{field}: {}{stop} {}", finding.message, finding.help));
        if seen.insert(fault.clone()) {
            faults.push(fault);
        }
    }
    let all = faults.len();
    let mut text = String::new();
    for (shown, fault) in faults.into_iter().enumerate() {
        if shown == MAX_FINDINGS || text.len() + fault.len() > MAX_MESSAGE_BYTES {
            let left = all - shown;
            text.push_str(&format!(" And {left} more."));
            break;
        }
        if shown > 0 {
            text.push(' ');
        }
        text.push_str(&fault);
    }
    // One fault alone may be longer than the limit.
    if text.len() > 2 * MAX_MESSAGE_BYTES {
        let end = (0..=2 * MAX_MESSAGE_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A field of an object, by its number in [`SourceFieldPaths`]: what an object, which has no lines, has for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FieldNumber(usize);

/// The paths of an object's fields, in the order of reading.
#[derive(Debug, Default)]
struct SourceFieldPaths {
    names: Vec<String>,
}

impl SourceFieldPaths {
    /// What a source is read from: of the metadata, only what a file has too.
    fn document_node(&mut self, object: &Object) -> YamlNode<FieldNumber> {
        let text = |text: &str| Value::String(text.to_owned());
        let metadata = [("name", object.name()), ("namespace", object.namespace())];
        let mut document = serde_json::Map::new();
        document.insert("apiVersion".to_owned(), text(object.api_version()));
        document.insert("kind".to_owned(), text(object.kind()));
        let metadata = metadata.map(|(key, value)| (key.to_owned(), text(value))).into_iter().collect();
        document.insert("metadata".to_owned(), Value::Object(metadata));
        if let Some(spec) = object.value().get("spec") {
            document.insert("spec".to_owned(), spec.clone());
        }
        self.node(&Value::Object(document), "")
    }

    fn add_field(&mut self, name: &str) -> FieldNumber {
        let number = FieldNumber(self.names.len());
        self.names.push(name.to_owned());
        number
    }

    /// The reader of JSON bounds its depth.
    fn node(&mut self, value: &Value, name: &str) -> YamlNode<FieldNumber> {
        let span = self.add_field(name);
        let content = match value {
            Value::Null => YamlValue::Invalid,
            Value::Bool(flag) => YamlValue::Bool(*flag),
            Value::Number(number) => YamlValue::Number(number.clone()),
            Value::String(text) => YamlValue::Text(text.as_str().into()),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                YamlValue::List(items.map(|(at, item)| self.node(item, &format!("{name}[{at}]"))).collect())
            }
            Value::Object(map) => {
                // A field that is null is one that is not there, as everywhere in Kubernetes.
                let entries = map.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    let value = self.node(value, &name);
                    YamlEntry { key: key.as_str().into(), key_span: value.span, value }
                });
                YamlValue::Map(entries.collect())
            }
        };
        YamlNode { value: content, span }
    }

    /// The path of a field, for a message. The whole document goes by its `spec`, which is what a person edits.
    fn path(&self, FieldNumber(number): FieldNumber) -> String {
        let name = self.names.get(number).map(String::as_str).filter(|name| !name.is_empty());
        escape::line(name.unwrap_or("spec")).chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use stator_git::source::addresses::AddressPolicy;

    fn object(spec: Value) -> Object {
        let metadata = json!({
            "name": "models", "namespace": "team-a", "uid": "1", "resourceVersion": "7", "generation": 2,
            "annotations": {"stator.dev/requestedAt": "now"}, "labels": {"team": "a"},
        });
        let value = json!({
            "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": metadata, "spec": spec,
            "status": {"observedGeneration": 1},
        });
        Object::from_value(value).unwrap()
    }

    fn reading_of(spec: Value) -> String {
        match read_without_secrets(&object(spec), &TenancyPolicy::default()) {
            Ok(source) => format!("fine: {}", source.url),
            Err(SourceReadError::Spec(text) | SourceReadError::Secret(text)) => text,
            Err(SourceReadError::Foreign(foreign)) => format!("{foreign}; {}", foreign.help()),
        }
    }

    #[test]
    fn an_object_is_read_as_a_document_of_a_file_is() {
        let spec = json!({
            "url": "https://git.example.com/team/models.git", "ref": {"branch": "main"}, "path": "./prod/",
            "environment": "prod", "interval": "5m", "secretRef": {"name": "git"}, "suspend": null,
            "forge": {"type": "gitea", "secretRef": {"name": "forge"}}, "webhook": {"secretRef": {"name": "hook"}},
            "notifications": [{"type": "slack", "secretRef": {"name": "slack"}}],
        });
        let source = read_without_secrets(&object(spec.clone()), &TenancyPolicy::default()).unwrap();
        assert_eq!((source.key.to_string().as_str(), source.folder.as_str()), ("team-a/models", "prod"));
        assert_eq!(source.access.only_namespace.as_deref(), Some("team-a"));
        let names: Vec<String> = secret_names(&source.spec).into_iter().collect();
        assert_eq!(names, ["forge", "git", "hook", "slack"]);
        assert_eq!(webhook_secret(&source.spec).as_deref(), Some("hook"));
        let secret = |name: &str, key: &str| {
            let value = if key == "url" { "https://hooks.example.com/canary" } else { "canary" };
            (name.to_owned(), SecretValues::new(name, [(key.to_owned(), value.into())]))
        };
        let mut secrets = BTreeMap::from([
            secret("git", "bearerToken"),
            secret("forge", "token"),
            secret("hook", "tocken"),
            secret("slack", "url"),
        ]);
        let Err(SourceReadError::Secret(message)) = read_with_secrets(&object(spec.clone()), &source.access, &secrets)
        else {
            panic!()
        };
        insta::assert_snapshot!(message, @"spec.webhook.secretRef.name: the secret `hook` has no `token`, or an empty one. Add `token` under its `stringData`.");
        secrets.extend([secret("hook", "token")]);
        let whole = read_with_secrets(&object(spec), &source.access, &secrets).unwrap();
        assert!(whole.secrets.webhook.is_some() && whole.access == source.access);
    }

    /// S11: a secret that names its host is sent to no other, neither by git nor by the host's API.
    #[test]
    fn a_secret_of_one_host_is_sent_to_no_other() {
        let spec = |url: &str, forge: Value| {
            let mut forge = forge;
            forge["type"] = json!("gitea");
            forge["secretRef"] = json!({"name": "api"});
            json!({"url": url, "ref": {"branch": "main"}, "secretRef": {"name": "git"}, "forge": forge})
        };
        let secret = |name: &str, key: &str| {
            let values = SecretValues::new(name, [(key.to_owned(), b"canary".to_vec())]);
            (name.to_owned(), values.with_host(Some("git.example.com".to_owned())))
        };
        let secrets = BTreeMap::from([secret("git", "bearerToken"), secret("api", "token")]);
        let read = |spec: Value| match read_with_secrets(&object(spec), &TenantAccess::default(), &secrets) {
            Ok(source) => format!("fine: {}", source.url),
            Err(SourceReadError::Spec(text) | SourceReadError::Secret(text)) => text,
            Err(SourceReadError::Foreign(foreign)) => foreign.to_string(),
        };
        let good = "https://git.example.com/team/models.git";
        assert_eq!(read(spec(good, json!({}))), format!("fine: {good}"));
        insta::assert_snapshot!(read(spec("https://evil.example.net/team/models.git", json!({}))).replace(". s", ".\ns"), @r"
        spec.forge.secretRef: the secret `api` is for git.example.com, and would be sent to evil.example.net. Correct the address, or name another secret.
        spec.secretRef: the secret `git` is for git.example.com, and would be sent to evil.example.net. Correct the address, or name another secret.
        ");
        insta::assert_snapshot!(read(spec(good, json!({"url": "https://evil.example.net/api"}))), @"spec.forge.secretRef: the secret `api` is for git.example.com, and would be sent to evil.example.net. Correct the address, or name another secret.");
    }

    #[test]
    fn every_fault_is_told_by_its_field() {
        insta::assert_snapshot!(reading_of(json!({
            "url": "https://me:canary@git.example.com/models.git", "ref": {"branch": "-x"}, "interval": "soon",
            "windows": [{"kind": "deny", "schedule": "0 0 30 2 *", "duration": "1h"}], "later": {"field": 1}, "prune": "yes",
        })).replace(". ", ".\n"), @r#"
        spec.interval: `interval` is `soon`; expected a duration from one second to a year.
        Write it as `30s`, `5m` or `1h30m`.
        spec.later: unknown field `later` in `spec`; allowed: `allowInsecure`, `allowLocal`, `environment`, `forge`, `guards`, `interval`, `notifications`, `path`, `previewForks`, `previewLimit`, `previews`, `prune`, `ref`, `schedule`, `secretRef`, `selfHeal`, `serviceAccountName`, `statusPerModel`, `suspend`, `targetNamespace`, `timeZone`, `timeout`, `url`, `verify`, `webhook`, `windows`.
        Remove it, or move it to where it belongs: check the indentation.
        spec.prune: `spec.prune` is the string `yes`; expected `true` or `false`.
        Write `true` or `false`; YAML 1.2 reads `yes`, `no`, `on`, `off` as strings.
        spec.ref.branch: `-x` is not a valid branch name: write it as `git branch` does.
        Correct the name.
        spec.url: credentials do not belong in the address; put them into the secret that `secretRef` names.
        Name a secret with `username` and `password` under `secretRef`.
        spec.windows[0].schedule: `0 0 30 2 *` never matches: no year has such a day.
        Correct it: `*/5 * * * *` means every five minutes.
        "#);
    }

    #[test]
    fn what_is_no_spec_at_all_is_told() {
        insta::assert_snapshot!(reading_of(json!("all of it")), @"spec: `spec` is the string `all of it`; expected a map. Write a map: `{name: value}`, or one field per line, indented.");
        insta::assert_snapshot!(reading_of(Value::Null), @"spec: the document is missing the required field `spec`. Add `spec`: a map.");
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        assert!(reading_of(deep).contains("unknown field"));
        let wide = Value::Object((0..5000).map(|at| (format!("field-{at}"), json!("x".repeat(50)))).collect());
        let text = reading_of(wide);
        assert!(text.len() < 3 * MAX_MESSAGE_BYTES && text.ends_with("more."), "{}", text.len());
    }

    #[test]
    fn the_files_of_the_controller_are_nobody_s_repository() {
        insta::assert_snapshot!(reading_of(json!({"url": "/etc", "allowLocal": true, "ref": {"branch": "main"}})), @"spec.allowLocal: a source in a cluster must not read a path of the controller's machine. Write the https:// or ssh:// address of a repository.");
        assert!(reading_of(json!({"url": "file:///etc", "ref": {"branch": "main"}})).starts_with("spec.url: "));
    }

    #[test]
    fn another_namespace_needs_an_account_of_the_source() {
        let spec = |account: Option<&str>| json!({"url": "https://h/a/b.git", "ref": {"branch": "main"}, "targetNamespace": "team-b", "serviceAccountName": account});
        insta::assert_snapshot!(reading_of(spec(None)), @"it is for namespace `team-b`, but this source may use only its own, `team-a`; set `spec.serviceAccountName` to an account that has rights there, or `spec.targetNamespace` to the source's own namespace");
        assert_eq!(reading_of(spec(Some("deployer"))), "fine: https://h/a/b.git");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
        ];
        let names = prop_oneof![
            Just("url"),
            Just("ref"),
            Just("branch"),
            Just("secretRef"),
            Just("name"),
            Just("windows"),
            Just("forge"),
            Just("schedule"),
            Just("interval"),
            Just("path"),
            Just("webhook"),
            Just("guards"),
            Just("verify"),
            Just("x\ny")
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            let map = proptest::collection::btree_map(names.clone().prop_map(str::to_owned), inner.clone(), 0..6);
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::from),
                map.prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_in_a_spec_is_told_in_one_bounded_line(spec in any_json()) {
            match read_without_secrets(&object(spec), &TenancyPolicy::default()) {
                Ok(_) | Err(SourceReadError::Foreign(_)) => {}
                Err(SourceReadError::Spec(text) | SourceReadError::Secret(text)) => {
                    prop_assert!(!text.is_empty() && text.len() < 3 * MAX_MESSAGE_BYTES && !text.contains('\n'), "{}", text);
                }
            }
        }
    }

    /// Row S12 of the review: whether connections are encrypted was the tenant's own choice.
    #[test]
    fn a_source_is_read_without_encryption_only_where_an_administrator_allows_it() {
        let spec = json!({"url": "http://git.example.com/a/b.git", "allowInsecure": true, "ref": {"branch": "main"}});
        let Err(SourceReadError::Spec(refused)) =
            read_without_secrets(&object(spec.clone()), &TenancyPolicy::default())
        else {
            panic!("it was read");
        };
        assert!(refused.contains("--allow-insecure"), "{refused}");
        let allowed = TenancyPolicy { insecure: true, ..TenancyPolicy::default() };
        let source = read_without_secrets(&object(spec), &allowed).unwrap();
        assert_eq!(source.git_credentials().unwrap().addresses, AddressPolicy::NoLocal);
    }
}
