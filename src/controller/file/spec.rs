//! One `ModelSource` document → a [`Source`], or every fault of it.

use super::rules;
use super::{SecretKey, Secrets, Source, SourceKey, Window};
use crate::controller::access::Access;
use crate::controller::notify::target::{self, TargetFault};
use crate::controller::schedule::{Schedule, ScheduleError};
use stator_core::finding::{Finding, Location, Rule};
use stator_git::source::credentials::{Credentials, GithubApp};
use stator_git::source::mirror::fault_of_range;
use stator_git::source::model_source::{DURATION, ModelSource, WindowKind};
use stator_git::source::secret::SecretValues;
use stator_git::source::signature::{self, KeyFault, SignatureError};
use stator_git::source::url::{Allowed, RepositoryUrl, Scheme, UrlError};
use stator_model::intent::check::Form;
use stator_model::intent::yaml::{Content, Entry, Node};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

/// How often a source is looked at that says nothing of it.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// What an interval, a window or a timeout may be.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// Most windows of one source.
const WINDOWS: usize = 100;

/// Where the secrets are that a source names.
#[derive(Clone, Copy, Debug)]
pub(in crate::controller) enum Shelf<'a> {
    /// In the file that the source is in.
    File(&'a BTreeMap<SecretKey, SecretValues>),
    /// In the source's namespace of a cluster: those that were found.
    Cluster(&'a BTreeMap<String, SecretValues>),
    /// Not read yet: nothing is said of them, and the source has none.
    Unread,
}

static FORM: LazyLock<Form> = LazyLock::new(|| Form::new(&stator_model::intent::schema::strict::<ModelSource>()));

/// How a duration is written.
static GRAMMAR: LazyLock<Option<regex::Regex>> = LazyLock::new(|| regex::Regex::new(DURATION).ok());

/// Reads one document. What is wrong with it goes to `findings`; `None` when anything is.
pub(in crate::controller) fn read(
    node: &Node,
    path: &str,
    known: Shelf<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Source> {
    let mut found = Vec::new();
    FORM.check(node, path, &mut found);
    let mut reader = Reader { path, known, namespace: namespace(node), findings: &mut found };
    let nothing = Node { value: Content::Map(Vec::new()), span: node.span };
    let spec = node.get("spec").unwrap_or(&nothing);
    let url = reader.url(spec);
    reader.reference(spec);
    let folder = reader.folder(spec);
    let (interval, schedule) = reader.cadence(spec);
    let timeout = reader.duration(spec.entry("timeout"));
    let windows = reader.windows(spec);
    reader.signatures(spec);
    let secrets = reader.secrets(spec, url.as_ref());
    reader.forge(spec, url.as_ref());
    let broken = !found.is_empty();
    findings.append(&mut found);
    if broken {
        return None;
    }
    let document: ModelSource = match serde_json::from_value(node.to_json()) {
        Ok(document) => document,
        Err(error) => {
            let help = "Compare the document with `stator schema source`.";
            findings.push(Finding::error(rules::DOCUMENT, node.span.location(path), error.to_string(), help));
            return None;
        }
    };
    let namespace = document.metadata.namespace.map_or_else(|| "default".to_owned(), |name| name.to_string());
    // Whoever writes the file is the one tenant of it.
    let account = document.spec.service_account_name.as_ref().map(ToString::to_string);
    Some(Source {
        access: Access { account, only: None },
        key: SourceKey::new(namespace, document.metadata.name.to_string()),
        spec: document.spec,
        url: url?,
        folder: folder.unwrap_or_default(),
        interval,
        schedule,
        timeout,
        windows,
        secrets,
        place: node.span.location(path),
    })
}

fn namespace(node: &Node) -> String {
    let given = node.get("metadata").and_then(|metadata| metadata.get("namespace")).and_then(Node::as_str);
    given.unwrap_or("default").to_owned()
}

fn items(node: Option<&Node>) -> &[Node] {
    match node.map(|node| &node.value) {
        Some(Content::List(items)) => items,
        Some(Content::Refused | Content::Bool(_) | Content::Number(_) | Content::Text(_) | Content::Map(_)) | None => {
            &[]
        }
    }
}

struct Reader<'a> {
    path: &'a str,
    known: Shelf<'a>,
    namespace: String,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_> {
    fn error(&mut self, rule: Rule, place: Location, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(Finding::error(rule, place, message, help));
    }

    fn at(&self, node: &Node) -> Location {
        node.span.location(self.path)
    }

    fn url(&mut self, spec: &Node) -> Option<RepositoryUrl> {
        let node = spec.get("url")?;
        let text = node.as_str()?;
        let says = |key: &str| spec.get(key).is_some_and(|node| node.value == Content::Bool(true));
        let allowed = Allowed { insecure: says("allowInsecure"), local: says("allowLocal") };
        match RepositoryUrl::parse(text, allowed) {
            Ok(url) => Some(url),
            Err(error) => {
                let help = match &error {
                    UrlError::Credentials => "Name a secret with `username` and `password` under `secretRef`.",
                    UrlError::Insecure => "Write `https://`.",
                    UrlError::Local => "Set `allowLocal: true` beside it, if this is for a machine of your own.",
                    UrlError::Scheme { .. }
                    | UrlError::Host
                    | UrlError::Port { .. }
                    | UrlError::Path
                    | UrlError::Character { .. }
                    | UrlError::Length => "Correct the address.",
                };
                self.error(rules::URL, self.at(node), error.to_string(), help);
                None
            }
        }
    }

    fn reference(&mut self, spec: &Node) {
        let Some(entry) = spec.entry("ref") else { return };
        let entries = entry.value.entries();
        let place = entry.place().location(self.path);
        if entries.len() != 1 && matches!(entry.value.value, Content::Map(_)) {
            let names: Vec<String> = entries.iter().map(|entry| format!("`{}`", entry.key)).collect();
            let found = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
            let message = format!("`ref` takes exactly one of `branch`, `tag`, `commit` and `semver`; here is {found}");
            // The second of two is no unknown field: it is one too many, as is said here.
            let doubled = |one: &Finding| {
                ["branch", "tag", "commit", "semver"]
                    .iter()
                    .any(|name| one.message.starts_with(&format!("unknown field `{name}` in `spec.ref`;")))
            };
            self.findings.retain(|one| !doubled(one));
            self.error(rules::REF, place, message, "Keep the one that the source is to follow.");
        }
        for entry in entries {
            let Some(text) = entry.value.as_str() else { continue };
            let fault = match &*entry.key {
                "branch" if !is_ref("refs/heads/", text) => "is no name of a branch: write it as `git branch` does",
                "tag" if !is_ref("refs/tags/", text) => "is no name of a tag: write it as `git tag` does",
                "commit" if !is_commit(text) => "is no commit: write all 40 hexadecimal digits",
                "semver" => {
                    if let Some(reason) = fault_of_range(text) {
                        let range = stator_model::present::escape::line(text);
                        let message = format!("`{range}` is not a range of versions: {reason}");
                        let help = "Write it as in `>=1.0.0 <2.0.0`, `1.x`, `^1.2` or `~1.2.3`.";
                        self.error(rules::REF, self.at(&entry.value), message, help);
                    }
                    continue;
                }
                _ => continue,
            };
            let message = format!("`{}` {fault}", stator_model::present::escape::line(text));
            self.error(rules::REF, self.at(&entry.value), message, "Correct the name.");
        }
    }

    fn signatures(&mut self, spec: &Node) {
        let Some(mode) = spec.get("verify").and_then(|verify| verify.get("mode")) else { return };
        let follows = |word: &str| spec.get("ref").is_some_and(|reference| reference.get(word).is_some());
        if matches!(mode.as_str(), Some("Tag" | "TagAndHead" | "TagAndHEAD")) && !follows("tag") && !follows("semver") {
            let message = "`verify` asks for a signed tag, and `ref` follows none";
            self.error(rules::REF, self.at(mode), message, "Write `ref.tag` or `ref.semver`, or `mode: Head`.");
        }
    }

    fn folder(&mut self, spec: &Node) -> Option<String> {
        let node = spec.get("path")?;
        let text = node.as_str()?;
        let odd = |part: &str| part == ".." || part.eq_ignore_ascii_case(".git") || part.contains('\\');
        let outside = text.starts_with('/') || text.chars().any(char::is_control) || text.split('/').any(odd);
        if outside {
            let message = "`path` leads out of the repository, or where git keeps its own";
            self.error(
                rules::PATH,
                self.at(node),
                message,
                "Write a folder from the repository's root, as `clusters/prod`.",
            );
            return None;
        }
        Some(text.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/"))
    }

    fn cadence(&mut self, spec: &Node) -> (Option<Duration>, Option<Schedule>) {
        let interval = self.duration(spec.entry("interval"));
        let schedule = self.schedule(spec.get("schedule"), spec.get("timeZone"));
        if let (None, Some(zone)) = (spec.get("schedule"), spec.entry("timeZone")) {
            let place = zone.place().location(self.path);
            self.error(
                rules::SCHEDULE,
                place,
                "`timeZone` without a `schedule`",
                "Add the schedule, or remove the time zone.",
            );
        }
        // A source must not be forgotten because it says nothing.
        let interval = interval.or_else(|| (spec.get("schedule").is_none()).then_some(INTERVAL));
        (interval, schedule)
    }

    fn schedule(&mut self, text: Option<&Node>, zone: Option<&Node>) -> Option<Schedule> {
        let node = text?;
        match Schedule::parse(node.as_str()?, zone.and_then(Node::as_str)) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let place = match (&error, zone) {
                    (ScheduleError::Zone { .. }, Some(zone)) => self.at(zone),
                    (_, _) => self.at(node),
                };
                self.error(
                    rules::SCHEDULE,
                    place,
                    error.to_string(),
                    "Correct it: `*/5 * * * *` is every five minutes.",
                );
                None
            }
        }
    }

    fn duration(&mut self, entry: Option<&Entry>) -> Option<Duration> {
        let entry = entry?;
        let text = entry.value.as_str()?;
        // jiff takes more: words for units, and signs. What a file may say, an object in a cluster may too, and the reverse.
        let form = GRAMMAR.as_ref().is_some_and(|form| form.is_match(text));
        let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
        let parsed = parsed.filter(|_| form);
        match parsed {
            Some(duration) if (SHORTEST..=LONGEST).contains(&duration) => Some(duration),
            Some(_) | None => {
                let message = format!(
                    "`{}` is `{}`; expected a duration from one second to a year",
                    entry.key,
                    stator_model::present::escape::line(text)
                );
                self.error(rules::DURATION, self.at(&entry.value), message, "Write it as `30s`, `5m` or `1h30m`.");
                None
            }
        }
    }

    fn windows(&mut self, spec: &Node) -> Vec<Window> {
        let nodes = items(spec.get("windows"));
        if let Some(node) = nodes.get(WINDOWS) {
            let message = format!("there are {} windows; at most {WINDOWS} are allowed", nodes.len());
            self.error(rules::SCHEDULE, self.at(node), message, "Put several times into one schedule.");
        }
        let mut windows = Vec::new();
        for node in nodes.iter().take(WINDOWS) {
            let schedule = self.schedule(node.get("schedule"), node.get("timeZone"));
            let duration = self.duration(node.entry("duration"));
            let kind = match node.get("kind").and_then(Node::as_str) {
                Some("deny") => WindowKind::Deny,
                Some(_) | None => WindowKind::Allow,
            };
            windows.extend(schedule.zip(duration).map(|(opens, duration)| Window { kind, opens, duration }));
        }
        windows
    }

    fn secrets(&mut self, spec: &Node, url: Option<&RepositoryUrl>) -> Secrets {
        let git = self.secret(spec.entry("secretRef"), &[]);
        let forge = self.secret(spec.get("forge").and_then(|forge| forge.entry("secretRef")), &[]);
        let webhook = self.secret(spec.get("webhook").and_then(|hook| hook.entry("secretRef")), &["token"]);
        let verify = self.secret(spec.get("verify").and_then(|verify| verify.entry("secretRef")), &[]);
        let notifications = self.notifications(spec);
        let named = spec.get("secretRef").is_some();
        if let Some(url) = url
            // A secret that is named and not there was told.
            && (git.is_some() || !named)
            && let Err(error) = Credentials::read(git.as_ref(), url)
        {
            let place = spec.entry(if named { "secretRef" } else { "url" }).map(Entry::place).unwrap_or_default();
            for fault in error.faults {
                let message = match &error.secret {
                    Some(secret) => format!("secret `{secret}`: {fault}"),
                    None => fault.to_string(),
                };
                self.error(rules::SECRET, place.location(self.path), message, "Correct the secret, or the address.");
            }
        }
        if let Some(secret) = &forge
            && secret.get("token").is_none_or(<[u8]>::is_empty)
            && !matches!(GithubApp::read(secret), Ok(Some(_)))
            && let Some(entry) = spec.get("forge").and_then(|forge| forge.entry("secretRef"))
        {
            let message = format!("the secret `{}` has neither `token` nor the keys of a GitHub App", secret.name());
            let help = "Add `token` under its `stringData`.";
            self.error(rules::SECRET, entry.place().location(self.path), message, help);
        }
        if let Some(Err(error)) = verify.as_ref().map(signature::check)
            && let Some(entry) = spec.get("verify").and_then(|verify| verify.entry("secretRef"))
        {
            let place = entry.place().location(self.path);
            let escaped = |text: &str| stator_model::present::escape::line(text);
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
                self.error(rules::SECRET, place.clone(), message, error.help());
            }
        }
        Secrets { git, forge, webhook, verify, notifications }
    }

    fn notifications(&mut self, spec: &Node) -> Vec<SecretValues> {
        let insecure = spec.get("allowInsecure").is_some_and(|node| node.value == Content::Bool(true));
        let mut secrets = Vec::new();
        for one in items(spec.get("notifications")) {
            let Some(secret) = self.secret(one.entry("secretRef"), &["url"]) else { continue };
            match target::address(&secret, insecure) {
                // That it is missing was told.
                Ok(_) | Err(TargetFault::Missing) => {}
                Err(fault) => {
                    let place = one.entry("secretRef").map(Entry::place).unwrap_or_default();
                    let message =
                        format!("the secret `{}` {fault}", stator_model::present::escape::line(secret.name()));
                    self.error(rules::SECRET, place.location(self.path), message, fault.help());
                }
            }
            secrets.push(secret);
        }
        secrets
    }

    fn secret(&mut self, entry: Option<&Entry>, needed: &[&str]) -> Option<SecretValues> {
        let entry = entry?;
        let name = entry.value.get("name")?;
        let text = name.as_str()?;
        let key = (self.namespace.clone(), text.to_owned());
        let found = match self.known {
            Shelf::File(known) => known.get(&key),
            Shelf::Cluster(known) => known.get(text),
            Shelf::Unread => return None,
        };
        let Some(values) = found else {
            let named = stator_model::present::escape::line(text);
            let (message, help) = match self.known {
                Shelf::File(known) => {
                    let help = match known.keys().find(|(_, known)| known == text) {
                        Some((namespace, _)) => format!(
                            "There is one in namespace `{namespace}`, and a source reads those of its own: `{}`.",
                            self.namespace
                        ),
                        None => "Add the `Secret` document to this file, or correct the name.".to_owned(),
                    };
                    (format!("there is no secret `{named}` in the file"), help)
                }
                Shelf::Cluster(_) | Shelf::Unread => (
                    format!("there is no secret `{named}` in namespace `{}`", self.namespace),
                    "Create it there, or correct the name.".to_owned(),
                ),
            };
            self.error(rules::SECRET, self.at(name), message, help);
            return None;
        };
        for needed in needed {
            if values.get(needed).is_none_or(<[u8]>::is_empty) {
                let message = format!("the secret `{text}` has no `{needed}`, or an empty one");
                self.error(rules::SECRET, self.at(name), message, format!("Add `{needed}` under its `stringData`."));
            }
        }
        Some(values.clone())
    }

    fn forge(&mut self, spec: &Node, url: Option<&RepositoryUrl>) {
        if let (None, Some(hook)) = (spec.get("forge"), spec.entry("webhook")) {
            let message = "`webhook` without `forge.type`: which host signs the calls is not known";
            let help = "Add `forge: {type: …}`.";
            self.error(rules::FORGE, hook.place().location(self.path), message, help);
        }
        let Some(forge) = spec.entry("forge") else {
            if let Some(previews) = spec.entry("previews").filter(|entry| entry.value.value == Content::Bool(true)) {
                let message = "`previews` without `forge`: there is nobody to comment to";
                self.error(
                    rules::FORGE,
                    previews.place().location(self.path),
                    message,
                    "Add `forge`, or remove `previews`.",
                );
            }
            return;
        };
        let place = forge.place().location(self.path);
        if let Some(previews) = spec.entry("previews").filter(|entry| entry.value.value == Content::Bool(true)) {
            let at = previews.place().location(self.path);
            if forge.value.get("secretRef").is_none() {
                let message = "`previews` without `forge.secretRef`: nobody may comment without a token";
                self.error(rules::FORGE, at.clone(), message, "Add `forge.secretRef`, or remove `previews`.");
            }
            if spec.get("ref").is_some_and(|reference| reference.get("branch").is_none()) {
                let message = "`previews` without `ref.branch`: pull requests go into branches";
                self.error(rules::FORGE, at, message, "Follow a branch, or remove `previews`.");
            }
        }
        if let Some(address) = forge.value.get("targetUrl") {
            let fine = address.as_str().and_then(|text| url::Url::parse(text).ok()).is_some_and(|url| {
                let web = matches!(url.scheme(), "https" | "http");
                web && url.has_host() && url.username().is_empty() && url.password().is_none()
            });
            if !fine {
                let message = "`forge.targetUrl` is no `https://` or `http://` address, or has credentials in it";
                self.error(rules::FORGE, self.at(address), message, "Write the whole address of a page.");
            } else if address.as_str().is_some_and(|text| text.len() > 255) {
                // GitLab's limit; the others take more.
                let message = "`forge.targetUrl` is longer than the 255 characters that git hosts take";
                self.error(rules::FORGE, self.at(address), message, "Write a shorter address.");
            }
        }
        if let Some(address) = forge.value.get("url") {
            let insecure = spec.get("allowInsecure").is_some_and(|node| node.value == Content::Bool(true));
            let fine = address.as_str().and_then(|text| url::Url::parse(text).ok()).is_some_and(|url| {
                let scheme = url.scheme() == "https" || (url.scheme() == "http" && insecure);
                scheme && url.has_host() && url.username().is_empty() && url.password().is_none()
            });
            if !fine {
                let message = "`forge.url` is no `https://` address, or has credentials in it";
                let help = "Write the API's address; `http://` needs `allowInsecure: true`.";
                self.error(rules::FORGE, self.at(address), message, help);
            }
        } else if url.is_some_and(|url| url.scheme() == Scheme::Local) && forge.value.get("secretRef").is_some() {
            let message = "the repository is a path of this machine, so where the host's API is cannot be told";
            self.error(rules::FORGE, place, message, "Add `forge.url`.");
        }
    }
}

fn is_ref(prefix: &str, name: &str) -> bool {
    !name.starts_with('-') && git2::Reference::is_valid_name(&format!("{prefix}{name}"))
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.chars().all(|c| c.is_ascii_hexdigit())
}
