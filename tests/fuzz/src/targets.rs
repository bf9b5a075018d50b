//! What is fuzzed, and what must hold of it whatever the bytes are.

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::Value;
use stator_core::dynamo::admission::Platform;
use stator_core::object::Object;
use stator_git::forge::webhook;
use stator_git::source::credentials::GitCredentials;
use stator_git::source::model_source::{ForgeKind, VerifyMode};
use stator_git::source::secret::SecretValues;
use stator_git::source::signature::{SignedObject, SignedRevision, verify_revision};
use stator_git::source::transport::fuzzing;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};
use stator_model::intent::format::format_document;
use stator_model::intent::yaml::{parse_yaml, parse_yaml_documents};
use stator_model::intent::{SourceFile, SourceTree, Workspace};
use stator_model::plan::{Journal, Record};
use stator_model::present::TerminalOptions;
use stator_model::present::findings::{concise, github};
use stator_model::render::emit::object_yaml;
use stator_model::render::{RenderTarget, render};
use stator_view::changes::parse_changes_query;
use stator_view::models::ModelQuery;
use stator_view::pod_logs::LogQuery;
use stator_view::source_action::SourceActionRequest;
use std::sync::LazyLock;

/// One kind of bytes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzTarget {
    Webhook,
    Yaml,
    Model,
    Refs,
    Pack,
    KnownHosts,
    Commit,
    Keys,
    Object,
    Query,
}

use FuzzTarget as T;

impl FuzzTarget {
    pub const ALL: [(&'static str, Self); 10] = [
        ("webhook", T::Webhook),
        ("yaml", T::Yaml),
        ("model", T::Model),
        ("refs", T::Refs),
        ("pack", T::Pack),
        ("known-hosts", T::KnownHosts),
        ("commit", T::Commit),
        ("keys", T::Keys),
        ("object", T::Object),
        ("query", T::Query),
    ];

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, target)| target)
    }

    pub fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }

    pub fn run(self, bytes: &[u8]) {
        match self {
            T::Webhook => receive_webhook(bytes),
            T::Yaml => read_yaml(bytes),
            T::Model => render_repository(bytes),
            T::Refs => read_refs(bytes),
            T::Pack => inspect_pack(bytes),
            T::KnownHosts => read_known_hosts(bytes),
            T::Commit => verify_commit(bytes),
            T::Keys => read_keys(bytes),
            T::Object => read_object(bytes),
            T::Query => read_query(bytes),
        }
    }
}

/// The hosts, and the events that stator looks into.
pub const DELIVERIES: [(ForgeKind, &str, &str); 9] = [
    (ForgeKind::Github, "x-github-event", "push"),
    (ForgeKind::Github, "x-github-event", "pull_request"),
    (ForgeKind::Gitea, "x-gitea-event", "push"),
    (ForgeKind::Gitlab, "x-gitlab-event", "Push Hook"),
    (ForgeKind::Bitbucket, "x-event-key", "repo:push"),
    (ForgeKind::Bitbucket, "x-event-key", "repo:refs_changed"),
    (ForgeKind::Bitbucket, "x-event-key", "pullrequest:updated"),
    (ForgeKind::Bitbucket, "x-event-key", "pr:from_ref_updated"),
    (ForgeKind::Azure, "x-azure", ""),
];

/// Unsigned it is refused; read without that, it hints at branches, tags and numbers alone.
fn receive_webhook(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let (host, header, event) = DELIVERIES[usize::from(*first) % DELIVERIES.len()];
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static(header), HeaderValue::from_static(event));
    assert!(webhook::receive(host, &[SecretString::from("secret")], &headers, body, Timestamp::UNIX_EPOCH).is_err());
    if let Ok(value) = HeaderValue::from_bytes(body) {
        for name in [
            "x-hub-signature-256",
            "x-hub-signature",
            "x-gitea-signature",
            "x-gitlab-token",
            "authorization",
            "webhook-signature",
        ] {
            headers.insert(HeaderName::from_static(name), value.clone());
        }
        assert!(
            webhook::receive(host, &[SecretString::from("another")], &headers, b"{}", Timestamp::UNIX_EPOCH).is_err()
        );
    }
    if let Ok(delivery) = webhook::parse(host, &headers, body) {
        assert!(delivery.hints.is_sorted());
        for hint in delivery.hints {
            match hint {
                webhook::WebhookHint::Ref { name } => {
                    assert!(name.starts_with("refs/heads/") || name.starts_with("refs/tags/"))
                }
                webhook::WebhookHint::PullRequest { number: _ } => {}
            }
        }
    }
}

/// What is formatted is formatted for good.
fn read_yaml(bytes: &[u8]) {
    let parsed = parse_yaml(bytes, 0, "a.yaml");
    let shown = concise(&parsed.findings, &TerminalOptions::default());
    assert!(is_printable(&shown), "{shown:?}");
    parse_yaml_documents(bytes, 0, "a.yaml");
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(formatted) = format_document(text) {
        assert_eq!(format_document(&formatted).as_deref(), Ok(formatted.as_str()));
    }
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() && character != '\n')
}

/// Parts a repository into its files.
pub const FILE_MARK: &str = "%%% ";
const FILES: [&str; 6] = [
    "stator.yaml",
    "models/stator.yaml",
    "models/a/model.yaml",
    "models/a/model.prod.yaml",
    "models/a/model.lock.yaml",
    "models/a/objects.yaml",
];

/// Files that each begin with a line of the mark and the number of a path.
fn repository(bytes: &[u8]) -> SourceTree {
    let text = String::from_utf8_lossy(bytes);
    let mut files = Vec::new();
    for part in text.split(FILE_MARK).skip(1) {
        let (number, content) = part.split_once('\n').unwrap_or((part, ""));
        let path = FILES[number.trim().parse::<usize>().unwrap_or(2) % FILES.len()];
        files.push(SourceFile { path: path.to_owned(), content: Ok(content.as_bytes().into()) });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    SourceTree { files, ..SourceTree::default() }
}

/// Whatever is rendered is in the namespace that it was asked for, and is read as it was written.
fn render_repository(bytes: &[u8]) {
    let workspace = Workspace::parse(&repository(bytes));
    for name in workspace.environment_names().into_iter().map(Some).chain([None]).take(4) {
        let Ok(selection) = workspace.resolve_environment(name.as_deref()) else { continue };
        let shown = concise(&selection.findings, &TerminalOptions::default()) + &github(&selection.findings);
        assert!(is_printable(&shown), "{shown:?}");
        let target = RenderTarget {
            repository: "models".to_owned(),
            environment: "prod".to_owned(),
            namespace: "serving".to_owned(),
            platform: Platform::default(),
        };
        for stored in &selection.intents {
            let Ok(intent) = stored.load() else { continue };
            let rendered = render(&intent, &target);
            for desired in &rendered.objects {
                assert_eq!(desired.object.namespace(), "serving");
                let yaml = object_yaml(&desired.object).expect("YAML");
                let again: Value = serde_saphyr::from_str(&yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
                assert_eq!(&again, desired.object.value(), "{yaml}");
            }
        }
    }
}

/// A list of refs is read, or refused in a line.
fn read_refs(bytes: &[u8]) {
    if let Err(refusal) = fuzzing::read_refs(bytes) {
        assert!(is_printable(&refusal), "{refusal:?}");
    }
}

/// Whether an answer is refused does not depend on how it arrives; why it is may.
fn inspect_pack(bytes: &[u8]) {
    let whole = fuzzing::inspect_pack(bytes, bytes.len().max(1));
    for step in [1, 7, 4096] {
        let parted = fuzzing::inspect_pack(bytes, step);
        assert_eq!(parted.is_some(), whole.is_some(), "in steps of {step}: {parted:?}, whole: {whole:?}");
    }
}

/// A private key for `known_hosts` to stand beside.
const IDENTITY: &[u8] = include_bytes!("../../data/ssh/ed25519-key");

fn read_known_hosts(bytes: &[u8]) {
    static URL: LazyLock<RepositoryUrl> = LazyLock::new(|| {
        RepositoryUrl::parse("ssh://git@git.example.com:2222/models.git", AllowedSchemes::default()).expect("a URL")
    });
    let values = [("identity".to_owned(), IDENTITY.to_vec()), ("known_hosts".to_owned(), bytes.to_vec())];
    if let Err(error) = GitCredentials::read(Some(&SecretValues::new("git", values)), &URL) {
        let shown = error.to_string();
        assert!(shown.len() < 20_000 && !shown.contains("OPENSSH PRIVATE KEY"), "{shown}");
    }
}

/// What the repository's test data was signed with.
static SIGNING_KEYS: LazyLock<SecretValues> = LazyLock::new(|| {
    let files = crate::seeds::signatures(|name| name.ends_with(".asc") || name.ends_with(".sshpub"));
    SecretValues::new("keys", files.into_iter().filter(|(name, _)| !name.contains("revo")))
});
/// What was signed, without its signature.
static SIGNED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    crate::seeds::signatures(|name| name.starts_with("commit-")).iter().map(|(_, raw)| unsigned(raw)).collect()
});

fn head(raw: &[u8]) -> SignedRevision {
    let commit = SignedObject { id: "0".repeat(40), raw: raw.to_vec() };
    SignedRevision { commit, tag: None, ancestors: Vec::new() }
}

/// A commit without its header `gpgsig`.
fn unsigned(raw: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let (mut in_signature, mut in_header) = (false, true);
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        in_header = in_header && line != b"\n";
        in_signature = in_header && (line.starts_with(b"gpgsig ") || in_signature && line.starts_with(b" "));
        if !in_signature {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// Nothing passes but what was signed.
fn verify_commit(bytes: &[u8]) {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().expect("a time");
    match verify_revision(VerifyMode::Head, &head(bytes), &SIGNING_KEYS, now) {
        Ok(signers) => {
            assert_eq!(signers.len(), 1);
            assert!(SIGNED.contains(&unsigned(bytes)), "passes: {}", String::from_utf8_lossy(bytes));
        }
        Err(error) => assert!(is_printable(&error.to_string()), "{error}"),
    }
}

/// Keys are read, or refused whole.
fn read_keys(bytes: &[u8]) {
    let Some((first, keys)) = bytes.split_first() else { return };
    let name = ["a.asc", "a.sshpub", "allowed_signers", "revoked_keys"][usize::from(*first) % 4];
    let keys = SecretValues::new("keys", [(name.to_owned(), keys.to_vec())]);
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().expect("a time");
    static COMMIT: LazyLock<Vec<u8>> =
        LazyLock::new(|| crate::seeds::signatures(|name| name == "commit-unsigned")[0].1.clone());
    let error = verify_revision(VerifyMode::Head, &head(&COMMIT), &keys, now).expect_err("nobody signed it");
    assert!(error.to_string().len() < 50_000);
}

/// What is read as a record or a journal is written and read as the same.
fn read_object(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(object) = Object::from_value(value) else { return };
    if let Ok(record) = Record::from_object(&object) {
        let (written, status) = record.to_object().expect("an object");
        let mut whole = written.into_value();
        whole["status"] = status.value()["status"].clone();
        let again = Object::from_value(whole).expect("an object");
        let again = Record::from_object(&again).expect("a record");
        assert_eq!((&again.model, &again.inventory), (&record.model, &record.inventory));
    }
    if let Ok(journal) = Journal::from_object(&object) {
        let written = journal.to_object().expect("an object");
        assert_eq!(Journal::from_object(&written).expect("a journal").models, journal.models);
    }
}

/// Each kind of query, and the body of an action.
fn read_query(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for refusal in [
        ModelQuery::parse(&text).err(),
        parse_changes_query(&text).err(),
        LogQuery::parse(&text).err(),
        SourceActionRequest::parse(&text).err(),
    ] {
        if let Some(refusal) = refusal {
            assert!(serde_json::to_string(&refusal).expect("JSON").len() < 100_000);
        }
    }
}
