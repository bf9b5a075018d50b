//! One `ModelSource` document → a [`ResolvedSource`], or every fault of it.

pub mod rules;

use super::resolved_source::{ResolvedSource, SourceKey, SourceSecrets};
use crate::controller::sources::notification_target::{self, NotificationTargetError};
use crate::controller::sources::tenancy::TenantAccess;
use stator_core::finding::{Finding, Rule};
use stator_git::source::credentials::{GitCredentials, GithubApp};
use stator_git::source::mirror::version_range_error;
use stator_git::source::model_source::{ModelSource, WindowKind};
use stator_git::source::secret::SecretValues;
use stator_git::source::signature::{self, KeyFault, SignatureError};
use stator_git::source::url::{AllowedSchemes, RepositoryUrl, UrlError, UrlScheme};
use stator_model::intent::SchemaTree;
use stator_model::intent::check::check_against;
use stator_model::intent::rules::SCHEMA_UNKNOWN_FIELD;
use stator_model::intent::yaml::{YamlEntry, YamlNode, YamlValue};
use stator_model::present::escape;
use stator_model::windows::{self, CronSchedule, ScheduleError, SyncWindow};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

/// How often a source is looked at that says nothing of it.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Most windows of one source.
const MAX_WINDOWS: usize = 100;

/// A secret's namespace and name.
pub(in crate::controller) type SecretKey = (String, String);

/// Where the secrets are that a source names.
#[derive(Clone, Copy, Debug)]
pub(in crate::controller) enum SourceSecretLookup<'a> {
    /// In the file that the source is in.
    File(&'a BTreeMap<SecretKey, SecretValues>),
    /// In the source's namespace of a cluster: those that were found.
    Cluster(&'a BTreeMap<String, SecretValues>),
    /// Not read yet: nothing is said of them, and the source has none.
    Unread,
}

static SPEC_SCHEMA: LazyLock<SchemaTree> =
    LazyLock::new(|| SchemaTree::new(&stator_model::intent::schema::strict_schema::<ModelSource>()));

/// Reads one document.
///
/// `P` is what a place in the document is: a span of a file, or a field of an object.
///
/// # Errors
/// Everything that is wrong with it, each at its place; never empty.
pub(in crate::controller) fn read_source<P: Copy + PartialEq>(
    node: &YamlNode<P>,
    known: SourceSecretLookup<'_>,
) -> Result<ResolvedSource, Vec<Finding<P>>> {
    let mut reader =
        SourceSpecReader { known, namespace: namespace_of(node), findings: check_against(&SPEC_SCHEMA, node) };
    let nothing = YamlNode { value: YamlValue::Map(Vec::new()), span: node.span };
    let spec = node.get("spec").unwrap_or(&nothing);
    let url = reader.read_url(spec);
    reader.check_reference(spec);
    let folder = reader.read_folder(spec);
    let (interval, schedule) = reader.read_cadence(spec);
    let timeout = reader.read_duration(spec.entry("timeout"));
    let windows = reader.read_windows(spec);
    reader.check_signature_mode(spec);
    let secrets = reader.read_secrets(spec, url.as_ref());
    reader.check_forge(spec, url.as_ref());
    if !reader.findings.is_empty() {
        return Err(reader.findings);
    }
    let fault = |rule, message: String, help: &str| Err(vec![Finding::error(rule, node.span, message, help)]);
    let document: ModelSource = match serde_json::from_value(node.to_json()) {
        Ok(document) => document,
        Err(error) => {
            return fault(rules::DOCUMENT, error.to_string(), "Compare the document with `stator schema source`.");
        }
    };
    // A document without a readable address was refused above, for the address or by the schema.
    let Some(url) = url else { return fault(rules::URL, "`spec.url` is missing".to_owned(), "Add the address.") };
    let namespace = document.metadata.namespace.map_or_else(|| "default".to_owned(), |name| name.to_string());
    // Whoever writes the file is the one tenant of it.
    let account = document.spec.service_account_name.as_ref().map(ToString::to_string);
    Ok(ResolvedSource {
        access: TenantAccess { service_account: account, ..TenantAccess::default() },
        key: SourceKey::new(namespace, document.metadata.name.to_string()),
        uid: None,
        position: 0,
        spec: document.spec,
        url,
        folder: folder.unwrap_or_default(),
        interval,
        schedule,
        timeout,
        windows,
        secrets,
    })
}

fn namespace_of<P>(node: &YamlNode<P>) -> String {
    let given = node.get("metadata").and_then(|metadata| metadata.get("namespace")).and_then(YamlNode::as_str);
    given.unwrap_or("default").to_owned()
}

struct SourceSpecReader<'a, P> {
    known: SourceSecretLookup<'a>,
    namespace: String,
    findings: Vec<Finding<P>>,
}

impl<P: Copy + PartialEq> SourceSpecReader<'_, P> {
    fn push_error(&mut self, rule: Rule, place: P, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(Finding::error(rule, place, message, help));
    }

    fn read_url(&mut self, spec: &YamlNode<P>) -> Option<RepositoryUrl> {
        let node = spec.get("url")?;
        let text = node.as_str()?;
        let allowed = AllowedSchemes { insecure: is_set(spec, "allowInsecure"), local: is_set(spec, "allowLocal") };
        match RepositoryUrl::parse(text, allowed) {
            Ok(url) => Some(url),
            Err(error) => {
                let help = match &error {
                    UrlError::Credentials => "Name a secret with `username` and `password` under `secretRef`.",
                    UrlError::Insecure => "Write `https://`.",
                    UrlError::Local => "Also set `allowLocal: true`, if this is on your own machine.",
                    UrlError::Scheme { .. }
                    | UrlError::Host
                    | UrlError::Port { .. }
                    | UrlError::Path
                    | UrlError::Character { .. }
                    | UrlError::Length => "Correct the address.",
                };
                self.push_error(rules::URL, node.span, error.to_string(), help);
                None
            }
        }
    }

    fn check_reference(&mut self, spec: &YamlNode<P>) {
        let Some(entry) = spec.entry("ref") else { return };
        let entries = entry.value.entries();
        let place = entry.place();
        if entries.len() != 1 && matches!(entry.value.value, YamlValue::Map(_)) {
            let names: Vec<String> = entries.iter().map(|entry| format!("`{}`", entry.key)).collect();
            let found = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
            let message = format!("`ref` takes exactly one of `branch`, `tag`, `commit` and `semver`; found {found}");
            // The second of two is no unknown field: it is one too many, as is said here.
            let known = entries.iter().filter(|entry| matches!(&*entry.key, "branch" | "tag" | "commit" | "semver"));
            let places: Vec<P> = known.map(|entry| entry.key_span).collect();
            self.findings.retain(|one| one.rule != SCHEMA_UNKNOWN_FIELD || !places.contains(&one.location));
            self.push_error(rules::REF, place, message, "Keep the one that the source should follow.");
        }
        for entry in entries {
            let Some(text) = entry.value.as_str() else { continue };
            let fault = match &*entry.key {
                "branch" if !is_valid_ref("refs/heads/", text) => {
                    "is not a valid branch name: write it as `git branch` does"
                }
                "tag" if !is_valid_ref("refs/tags/", text) => "is not a valid tag name: write it as `git tag` does",
                "commit" if !is_full_commit(text) => "is not a commit: write all 40 hexadecimal digits",
                "semver" => {
                    if let Some(reason) = version_range_error(text) {
                        let range = escape::line(text);
                        let message = format!("`{range}` is not a valid version range: {reason}");
                        let help = "Write it as in `>=1.0.0 <2.0.0`, `1.x`, `^1.2` or `~1.2.3`.";
                        self.push_error(rules::REF, entry.value.span, message, help);
                    }
                    continue;
                }
                _ => continue,
            };
            let message = format!("`{}` {fault}", escape::line(text));
            self.push_error(rules::REF, entry.value.span, message, "Correct the name.");
        }
    }

    fn check_signature_mode(&mut self, spec: &YamlNode<P>) {
        let Some(mode) = spec.get("verify").and_then(|verify| verify.get("mode")) else { return };
        let follows = |word: &str| spec.get("ref").is_some_and(|reference| reference.get(word).is_some());
        if matches!(mode.as_str(), Some("Tag" | "TagAndHead" | "TagAndHEAD")) && !follows("tag") && !follows("semver") {
            let message = "`verify` requires a signed tag, but `ref` does not follow a tag";
            self.push_error(rules::REF, mode.span, message, "Write `ref.tag` or `ref.semver`, or `mode: Head`.");
        }
    }

    fn read_folder(&mut self, spec: &YamlNode<P>) -> Option<String> {
        let node = spec.get("path")?;
        let text = node.as_str()?;
        let odd = |part: &str| part == ".." || part.eq_ignore_ascii_case(".git") || part.contains('\\');
        let outside = text.starts_with('/') || text.chars().any(char::is_control) || text.split('/').any(odd);
        if outside {
            let message = "`path` leaves the repository, or points into `.git`";
            self.push_error(
                rules::PATH,
                node.span,
                message,
                "Write a folder from the repository's root, as `clusters/prod`.",
            );
            return None;
        }
        Some(text.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/"))
    }

    fn read_cadence(&mut self, spec: &YamlNode<P>) -> (Option<Duration>, Option<CronSchedule>) {
        let interval = self.read_duration(spec.entry("interval"));
        let schedule = self.read_schedule(spec.get("schedule"), spec.get("timeZone"));
        if let (None, Some(zone)) = (spec.get("schedule"), spec.entry("timeZone")) {
            let place = zone.place();
            self.push_error(
                rules::SCHEDULE,
                place,
                "`timeZone` without a `schedule`",
                "Add the schedule, or remove the time zone.",
            );
        }
        // A source must not be forgotten because it says nothing.
        let interval = interval.or_else(|| (spec.get("schedule").is_none()).then_some(DEFAULT_INTERVAL));
        (interval, schedule)
    }

    fn read_schedule(&mut self, text: Option<&YamlNode<P>>, zone: Option<&YamlNode<P>>) -> Option<CronSchedule> {
        let node = text?;
        match CronSchedule::parse(node.as_str()?, zone.and_then(YamlNode::as_str)) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let place = match (&error, zone) {
                    (ScheduleError::Zone { .. }, Some(zone)) => zone.span,
                    (_, _) => node.span,
                };
                self.push_error(
                    rules::SCHEDULE,
                    place,
                    error.to_string(),
                    "Correct it: `*/5 * * * *` means every five minutes.",
                );
                None
            }
        }
    }

    fn read_duration(&mut self, entry: Option<&YamlEntry<P>>) -> Option<Duration> {
        let entry = entry?;
        let text = entry.value.as_str()?;
        match windows::parse_duration(text) {
            Some(duration) => Some(duration),
            None => {
                let message = format!(
                    "`{}` is `{}`; expected a duration from one second to a year",
                    entry.key,
                    escape::line(text)
                );
                self.push_error(rules::DURATION, entry.value.span, message, "Write it as `30s`, `5m` or `1h30m`.");
                None
            }
        }
    }

    fn read_windows(&mut self, spec: &YamlNode<P>) -> Vec<SyncWindow> {
        let nodes = YamlNode::items_of(spec.get("windows"));
        if let Some(node) = nodes.get(MAX_WINDOWS) {
            let message = format!("there are {} windows; at most {MAX_WINDOWS} are allowed", nodes.len());
            self.push_error(rules::SCHEDULE, node.span, message, "Put several times into one schedule.");
        }
        let mut windows = Vec::new();
        for node in nodes.iter().take(MAX_WINDOWS) {
            let schedule = self.read_schedule(node.get("schedule"), node.get("timeZone"));
            let duration = self.read_duration(node.entry("duration"));
            let kind = match node.get("kind").and_then(YamlNode::as_str) {
                Some("deny") => WindowKind::Deny,
                Some(_) | None => WindowKind::Allow,
            };
            windows.extend(schedule.zip(duration).map(|(opens, duration)| SyncWindow { kind, opens, duration }));
        }
        windows
    }

    fn read_secrets(&mut self, spec: &YamlNode<P>, url: Option<&RepositoryUrl>) -> SourceSecrets {
        let secret_of = |part: &str| spec.get(part).and_then(|part| part.entry("secretRef"));
        let (forge_entry, verify_entry) = (secret_of("forge"), secret_of("verify"));
        let git = self.find_secret(spec.entry("secretRef"), &[]);
        let forge = self.find_secret(forge_entry, &[]);
        let webhook = self.find_secret(secret_of("webhook"), &["token"]);
        let verify = self.find_secret(verify_entry, &[]);
        let notifications = self.read_notifications(spec);
        self.check_host(git.as_ref(), spec.entry("secretRef"), url.map(RepositoryUrl::host));
        let forge_url = spec.get("forge").and_then(|forge| forge.get("url")).and_then(YamlNode::as_str);
        let forge_url = forge_url.and_then(|text| url::Url::parse(text).ok());
        let forge_host = forge_url.as_ref().and_then(url::Url::host_str).or(url.map(RepositoryUrl::host));
        self.check_host(forge.as_ref(), forge_entry, forge_host);
        let named = spec.get("secretRef").is_some();
        if let Some(url) = url
            // A missing secret was already reported.
            && (git.is_some() || !named)
            && let Err(error) = GitCredentials::read(git.as_ref(), url)
        {
            let place = spec.entry(if named { "secretRef" } else { "url" }).map_or(spec.span, YamlEntry::place);
            for fault in error.faults {
                let message = match &error.secret {
                    Some(secret) => format!("secret `{secret}`: {fault}"),
                    None => fault.to_string(),
                };
                self.push_error(rules::SECRET, place, message, "Correct the secret, or the address.");
            }
        }
        if let Some(secret) = &forge
            && secret.get("token").is_none_or(<[u8]>::is_empty)
            && !matches!(GithubApp::read(secret), Ok(Some(_)))
            && let Some(entry) = forge_entry
        {
            let message = format!("the secret `{}` has neither `token` nor the keys of a GitHub App", secret.name());
            let help = "Add `token` under its `stringData`.";
            self.push_error(rules::SECRET, entry.place(), message, help);
        }
        if let Some(Err(error)) = verify.as_ref().map(signature::check_keys)
            && let Some(entry) = verify_entry
        {
            let place = entry.place();
            let escaped = |text: &str| escape::line(text);
            let messages = if let SignatureError::Keys { secret, faults } = &error {
                let one = |KeyFault { key, line, reason }: &KeyFault| {
                    let line = if *line == 0 { String::new() } else { format!(" line {line}") };
                    escaped(&format!("secret `{secret}`: `{key}`{line} {reason}"))
                };
                faults.iter().map(one).collect()
            } else {
                vec![escaped(&error.to_string())]
            };
            for message in messages {
                self.push_error(rules::SECRET, place, message, error.help());
            }
        }
        SourceSecrets { git, forge, webhook, verify, notifications }
    }

    /// A secret that says which host it is for is sent to no other.
    fn check_host(&mut self, secret: Option<&SecretValues>, entry: Option<&YamlEntry<P>>, host: Option<&str>) {
        let (Some(secret), Some(entry), Some(host)) = (secret, entry, host) else { return };
        let Some(permitted) = secret.host().filter(|permitted| !permitted.eq_ignore_ascii_case(host)) else { return };
        let escaped = |text: &str| escape::line(text);
        let message = format!(
            "the secret `{}` is for {}, and would be sent to {}",
            escaped(secret.name()),
            escaped(permitted),
            escaped(host)
        );
        self.push_error(rules::SECRET, entry.place(), message, "Correct the address, or name another secret.");
    }

    fn read_notifications(&mut self, spec: &YamlNode<P>) -> Vec<SecretValues> {
        let insecure = is_set(spec, "allowInsecure");
        let mut secrets = Vec::new();
        for one in YamlNode::items_of(spec.get("notifications")) {
            let Some(secret) = self.find_secret(one.entry("secretRef"), &["url"]) else { continue };
            match notification_target::target_url(&secret, insecure) {
                // That it is missing was already reported.
                Ok(_) | Err(NotificationTargetError::Missing) => {}
                Err(fault) => {
                    let place = one.entry("secretRef").map_or(one.span, YamlEntry::place);
                    let message = format!("the secret `{}` {fault}", escape::line(secret.name()));
                    self.push_error(rules::SECRET, place, message, fault.help());
                }
            }
            secrets.push(secret);
        }
        secrets
    }

    fn find_secret(&mut self, entry: Option<&YamlEntry<P>>, needed: &[&str]) -> Option<SecretValues> {
        let entry = entry?;
        let name = entry.value.get("name")?;
        let text = name.as_str()?;
        let key = (self.namespace.clone(), text.to_owned());
        let found = match self.known {
            SourceSecretLookup::File(known) => known.get(&key),
            SourceSecretLookup::Cluster(known) => known.get(text),
            SourceSecretLookup::Unread => return None,
        };
        let Some(values) = found else {
            let named = escape::line(text);
            let (message, help) = match self.known {
                SourceSecretLookup::File(known) => {
                    let help = match known.keys().find(|(_, known)| known == text) {
                        Some((namespace, _)) => format!(
                            "There is one in namespace `{namespace}`, but a source reads only secrets of its own \
                             namespace: `{}`.",
                            self.namespace
                        ),
                        None => "Add the `Secret` document to this file, or correct the name.".to_owned(),
                    };
                    (format!("there is no secret `{named}` in the file"), help)
                }
                SourceSecretLookup::Cluster(_) | SourceSecretLookup::Unread => (
                    format!("there is no secret `{named}` in namespace `{}`", self.namespace),
                    "Create it there, or correct the name.".to_owned(),
                ),
            };
            self.push_error(rules::SECRET, name.span, message, help);
            return None;
        };
        for needed in needed {
            if values.get(needed).is_none_or(<[u8]>::is_empty) {
                let message = format!("the secret `{text}` has no `{needed}`, or an empty one");
                self.push_error(rules::SECRET, name.span, message, format!("Add `{needed}` under its `stringData`."));
            }
        }
        Some(values.clone())
    }

    fn check_forge(&mut self, spec: &YamlNode<P>, url: Option<&RepositoryUrl>) {
        if let (None, Some(hook)) = (spec.get("forge"), spec.entry("webhook")) {
            let message = "`webhook` without `forge.type`: the host that signs the calls is unknown";
            let help = "Add `forge: {type: …}`.";
            self.push_error(rules::FORGE, hook.place(), message, help);
        }
        let Some(forge) = spec.entry("forge") else {
            if let Some(previews) = spec.entry("previews").filter(|_| is_set(spec, "previews")) {
                let message = "`previews` without `forge`: there is no git host to comment on";
                self.push_error(rules::FORGE, previews.place(), message, "Add `forge`, or remove `previews`.");
            }
            return;
        };
        let place = forge.place();
        if let Some(previews) = spec.entry("previews").filter(|_| is_set(spec, "previews")) {
            let at = previews.place();
            if forge.value.get("secretRef").is_none() {
                let message = "`previews` without `forge.secretRef`: comments need a token";
                self.push_error(rules::FORGE, at, message, "Add `forge.secretRef`, or remove `previews`.");
            }
            if spec.get("ref").is_some_and(|reference| reference.get("branch").is_none()) {
                let message = "`previews` without `ref.branch`: pull requests need a base branch";
                self.push_error(rules::FORGE, at, message, "Follow a branch, or remove `previews`.");
            }
        }
        if let Some(address) = forge.value.get("targetUrl") {
            if !is_web_address(address, true) {
                let message = "`forge.targetUrl` is not an `https://` or `http://` address, or contains credentials";
                self.push_error(rules::FORGE, address.span, message, "Write the whole address of a page.");
            } else if address.as_str().is_some_and(|text| text.len() > 255) {
                // GitLab's limit; the others take more.
                let message = "`forge.targetUrl` is longer than the 255 characters that git hosts accept";
                self.push_error(rules::FORGE, address.span, message, "Write a shorter address.");
            }
        }
        if let Some(address) = forge.value.get("url") {
            if !is_web_address(address, is_set(spec, "allowInsecure")) {
                let message = "`forge.url` is not an `https://` address, or contains credentials";
                let help = "Write the API's address; `http://` needs `allowInsecure: true`.";
                self.push_error(rules::FORGE, address.span, message, help);
            }
        } else if url.is_some_and(|url| url.scheme() == UrlScheme::Local) && forge.value.get("secretRef").is_some() {
            let message = "the repository is a local path, so the address of the host's API is unknown";
            self.push_error(rules::FORGE, place, message, "Add `forge.url`.");
        }
    }
}

/// Whether a field of the spec is `true`.
fn is_set<P: PartialEq>(spec: &YamlNode<P>, key: &str) -> bool {
    spec.get(key).is_some_and(|node| node.value == YamlValue::Bool(true))
}

/// Whether it is an address of the web without credentials; `insecure` says whether it may be one that is not encrypted.
fn is_web_address<P>(address: &YamlNode<P>, insecure: bool) -> bool {
    address.as_str().and_then(|text| url::Url::parse(text).ok()).is_some_and(|url| {
        let is_web = url.scheme() == "https" || (url.scheme() == "http" && insecure);
        is_web && url.has_host() && url.username().is_empty() && url.password().is_none()
    })
}

fn is_valid_ref(prefix: &str, name: &str) -> bool {
    !name.starts_with('-') && git2::Reference::is_valid_name(&format!("{prefix}{name}"))
}

fn is_full_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.chars().all(|c| c.is_ascii_hexdigit())
}
