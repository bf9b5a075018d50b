//! A source as it would be created: its object, its secrets, and what it needs at the git host.

use super::followed::Followed;
use super::{CreateSourceArgs, NewSource, SOURCE_LABEL, by_hand};
use crate::cli::args::to_yaml;
use crate::cli::error::{CliError, CliErrorKind};
use crate::cli::rollback::pull_request::TOKEN_VARIABLE;
use crate::controller::sources::file::parse_file;
use crate::controller::sources::objects::{CREDENTIAL_LABEL, MODEL_SOURCE};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use stator_git::forge::{AnyForge, ForgeHttp, Registered, Registration};
use stator_git::source::model_source::{Forge, ForgeKind, SecretRef};
use stator_git::source::new_deploy_key;
use stator_git::source::secret::SecretValues;
use stator_git::source::url::{RepositoryUrl, UrlScheme};
use stator_model::intent::scalar::DnsName;
use stator_model::present::findings;
use std::net::IpAddr;
use std::str::FromStr as _;
use url::Url;

impl NewSource {
    /// Everything that is created, by the rules that a controller reads sources by.
    pub(super) fn plan(arguments: &CreateSourceArgs, followed: Followed, namespace: &str) -> Result<Self, CliError> {
        let Followed { url, address, branch, folder, environment, namespace: _ } = followed;
        let name = arguments.name.clone().unwrap_or_else(|| source_name(&address));
        let mut new = Self {
            source: Value::Null,
            secrets: Vec::new(),
            registrations: Vec::new(),
            forge: None,
            namespace: namespace.to_owned(),
            name,
        };
        let mut spec = Map::from_iter([("url".to_owned(), json!(url))]);
        if address.scheme() == UrlScheme::Http {
            spec.insert("allowInsecure".to_owned(), json!(true));
        }
        spec.insert("ref".to_owned(), json!({"branch": branch}));
        let optional = [
            ("path", folder),
            ("environment", environment),
            ("targetNamespace", arguments.target_namespace.clone()),
            ("serviceAccountName", arguments.service_account.clone()),
        ];
        spec.extend(optional.into_iter().filter_map(|(field, value)| Some((field.to_owned(), json!(value?)))));
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()).map(SecretString::from);
        let is_read_on_the_way =
            |host: &str| host.parse::<IpAddr>().map_or(host != "localhost", |address| !address.is_loopback());
        let plain_forge = arguments.forge_url.as_ref().filter(|url| url.scheme() == "http").and_then(Url::host_str);
        let plain_git = (address.scheme() == UrlScheme::Http).then(|| address.host());
        if token.is_some() && plain_git.into_iter().chain(plain_forge).any(is_read_on_the_way) {
            return Err(CliError::usage("the token of the git host would be sent without encryption")
                .with_hint(format!("pass an https:// address, or unset {TOKEN_VARIABLE}")));
        }
        let kind = arguments.forge.kind().or_else(|| ForgeKind::of_host(address.host()));
        new.add_login(&mut spec, &address, kind, token.as_ref(), arguments)?;
        new.add_forge(&mut spec, &address, kind, token.as_ref(), arguments)?;
        new.add_webhook(&mut spec, kind, arguments)?;
        new.source = json!({
            "apiVersion": MODEL_SOURCE.api_version(), "kind": MODEL_SOURCE.kind,
            "metadata": {"name": new.name, "namespace": namespace}, "spec": spec,
        });
        new.check()?;
        Ok(new)
    }

    /// A secret beside the source; gives what names it.
    fn add_secret(&mut self, suffix: &str, host: &str, values: Value) -> Value {
        let name = format!("{}-{suffix}", self.name);
        // The secret goes to this host alone, where a label can say so.
        let label = if host.contains('.') && host.len() < 64 && !host.contains(':') { host } else { "true" };
        self.secrets.push(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {CREDENTIAL_LABEL: label, SOURCE_LABEL: self.name}},
            "stringData": values,
        }));
        json!({"name": name})
    }

    fn add_login(
        &mut self,
        spec: &mut Map<String, Value>,
        address: &RepositoryUrl,
        kind: Option<ForgeKind>,
        token: Option<&SecretString>,
        arguments: &CreateSourceArgs,
    ) -> Result<(), CliError> {
        let values = match (address.scheme(), token) {
            (UrlScheme::Ssh, _) => {
                let comment = format!("stator {}/{}", self.namespace, self.name);
                let (private, public) = new_deploy_key(&comment)
                    .ok_or_else(|| CliError::new(CliErrorKind::Bug, "the system provides no random numbers"))?;
                // Sources of this name in other clusters have keys of their own.
                let mark = public.split_whitespace().nth(1).map_or("", |key| &key[key.len().saturating_sub(8)..]);
                let title = format!("{comment} {mark}");
                self.registrations.push(Registration::DeployKey { title, public });
                let mut values = json!({"identity": private.expose_secret()});
                if let Some(path) = &arguments.known_hosts {
                    values["known_hosts"] = json!(fs_err::read_to_string(path)?);
                }
                values
            }
            (UrlScheme::Https | UrlScheme::Http | UrlScheme::Local, Some(token)) => {
                // Other hosts take any name beside a token.
                let user = if kind == Some(ForgeKind::Bitbucket) { "x-token-auth" } else { "git" };
                json!({"username": user, "password": token.expose_secret()})
            }
            (UrlScheme::Https | UrlScheme::Http | UrlScheme::Local, None) => return Ok(()),
        };
        let reference = self.add_secret("git", address.host(), values);
        spec.insert("secretRef".to_owned(), reference);
        Ok(())
    }

    fn add_forge(
        &mut self,
        spec: &mut Map<String, Value>,
        address: &RepositoryUrl,
        kind: Option<ForgeKind>,
        token: Option<&SecretString>,
        arguments: &CreateSourceArgs,
    ) -> Result<(), CliError> {
        if token.is_none() && arguments.previews {
            return Err(CliError::usage("--previews needs a token of the git host")
                .with_hint(format!("set {TOKEN_VARIABLE} to one")));
        }
        if token.is_none() && arguments.webhook_url.is_none() {
            return Ok(());
        }
        let kind = kind.ok_or_else(|| unknown_forge(address.host()))?;
        let Some(token) = token else {
            // Only so that the host that signs the calls is known.
            spec.insert("forge".to_owned(), json!({"type": kind.as_str()}));
            return Ok(());
        };
        let values = json!({"token": token.expose_secret()});
        let host = arguments.forge_url.as_ref().and_then(Url::host_str).unwrap_or(address.host()).to_owned();
        let reference = self.add_secret("forge", &host, values);
        let secret_ref = serde_json::from_value::<SecretRef>(reference).ok();
        let url = arguments.forge_url.as_ref().map(ToString::to_string);
        let forge = Forge { kind, url, secret_ref, context: None, target_url: None };
        let values = [("token".to_owned(), token.expose_secret().as_bytes().to_vec())];
        let secret = SecretValues::new(TOKEN_VARIABLE, values);
        let refused = |error: stator_git::forge::ForgeError| CliError::input(error.to_string()).with_hint(error.help());
        let http = ForgeHttp::new().map_err(refused)?;
        self.forge = Some(AnyForge::connect(&forge, address, &secret, http).map_err(refused)?);
        spec.insert("forge".to_owned(), serde_json::to_value(&forge)?);
        if arguments.previews {
            spec.insert("previews".to_owned(), json!(true));
        }
        Ok(())
    }

    fn add_webhook(
        &mut self,
        spec: &mut Map<String, Value>,
        kind: Option<ForgeKind>,
        arguments: &CreateSourceArgs,
    ) -> Result<(), CliError> {
        let Some(base) = &arguments.webhook_url else { return Ok(()) };
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() || base.fragment().is_some() {
            return Err(CliError::usage("--webhook-url is an http:// or https:// address without a query"));
        }
        let kind = kind.ok_or_else(|| unknown_forge(base.host_str().unwrap_or_default()))?;
        let secret = crate::web::random_token()
            .ok_or_else(|| CliError::new(CliErrorKind::Bug, "the system provides no random numbers"))?;
        let base = base.as_str().trim_end_matches('/');
        let url = format!("{base}/webhooks/{}/{}/{}", kind.as_str(), self.namespace, self.name);
        let reference = self.add_secret("webhook", "", json!({"token": secret}));
        spec.insert("webhook".to_owned(), json!({"secretRef": reference}));
        self.registrations.push(Registration::Webhook { url, secret: SecretString::from(secret) });
        Ok(())
    }

    /// Reads what was planned as a controller would.
    fn check(&self) -> Result<(), CliError> {
        DnsName::from_str(&self.name)
            .map_err(|error| CliError::usage(format!("`{}`: {error}", self.name)).with_hint("pass another NAME"))?;
        let documents: Vec<String> =
            self.secrets.iter().chain([&self.source]).map(to_yaml).collect::<Result<_, _>>()?;
        let found = parse_file("the new source", documents.join("---\n").as_bytes()).findings;
        if found.is_empty() {
            return Ok(());
        }
        let told = findings::concise(&found, &stator_model::present::TerminalOptions::default());
        Err(CliError::input(format!("a controller would not accept this source\n{}", told.trim_end()))
            .with_hint("correct the options that these fields come from"))
    }

    pub(super) fn describe(&self) -> String {
        let secrets = self.secrets.iter().map(|secret| {
            let name = secret.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let keys = secret.get("stringData").and_then(Value::as_object).into_iter().flat_map(Map::keys);
            format!("secret/{}/{name} with {}\n", self.namespace, keys.cloned().collect::<Vec<_>>().join(", "))
        });
        let spec = self.source.get("spec").and_then(Value::as_object).into_iter().flatten();
        let fields = spec.map(|(field, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("  {field}: {value}\n")
        });
        let registrations = self.registrations.iter().map(|registration| match registration {
            Registration::Webhook { url, .. } => format!("webhook {url}\n"),
            Registration::DeployKey { title, .. } => format!("deploy key `{title}`, to read the repository\n"),
        });
        let title = [format!("modelsource/{}/{}\n", self.namespace, self.name)];
        secrets.chain(registrations).chain(title).chain(fields).collect()
    }

    /// Registers something at the git host: what was done, or what is left to do.
    pub(super) async fn register(&self, registration: &Registration) -> Result<String, String> {
        let done = match &self.forge {
            Some(forge) => forge.register(registration).await.map_err(|error| error.to_string()),
            None => Ok(Registered::Unsupported),
        };
        match done {
            Ok(Registered::Done) => Ok(match registration {
                Registration::Webhook { url, .. } => format!("webhook {url}"),
                Registration::DeployKey { title, .. } => format!("deploy key `{title}`"),
            }),
            Ok(Registered::Unsupported) => Err(by_hand(registration)),
            Err(error) => Err(format!("{} ({error})", by_hand(registration))),
        }
    }
}

fn unknown_forge(host: &str) -> CliError {
    CliError::usage(format!("unknown type of git host at {host}"))
        .with_hint("set it with --forge: github, gitlab, gitea, bitbucket or azure")
}

/// The last part of the repository's path, as a name of Kubernetes.
fn source_name(address: &RepositoryUrl) -> String {
    let last = address.repository().map_or("", |(_, name)| name).trim_end_matches(".git").to_lowercase();
    let name: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    name.trim_matches('-').to_owned()
}
