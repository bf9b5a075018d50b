//! `stator create source`: a source with the secrets that it names, and what it needs at the git host.

use super::{CLI_FIELD_MANAGER, SourceClient};
use crate::cli::args::{ClusterArgs, ReportFormat, to_yaml};
use crate::cli::connect;
use crate::cli::error::{CliError, CliErrorKind, ExitStatus};
use crate::cli::output::Output;
use crate::cli::repository::{self, OpenedRepository};
use crate::cli::rollback::pull_request::{ForgeTypeArgs, TOKEN_VARIABLE};
use crate::controller::sources::file::parse_file;
use crate::controller::sources::objects::{CREDENTIAL_LABEL, MODEL_SOURCE, model_source_api};
use clap::{Args, Subcommand, ValueHint};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde_json::{Map, Value, json};
use stator_core::mask;
use stator_git::forge::{AnyForge, ForgeHttp, Registered, Registration};
use stator_git::source::model_source::{Forge, ForgeKind, SecretRef};
use stator_git::source::restore::PushRemote;
use stator_git::source::secret::SecretValues;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl, UrlScheme};
use stator_git::source::{new_deploy_key, path_in_work_tree};
use stator_model::intent::scalar::DnsName;
use stator_model::present::findings;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use url::Url;

/// Create a source: ModelSource, secrets, webhook, deploy key
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct CreateArgs {
    #[command(subcommand)]
    what: CreateCommand,
}

#[derive(Debug, Subcommand)]
enum CreateCommand {
    Source(Box<CreateSourceArgs>),
}

/// Create a source: ModelSource, secrets, webhook, deploy key
///
/// In a clone, stator takes address, branch, folder and environment from it. With a token of the git host in
/// $STATOR_FORGE_TOKEN, commits get statuses: the token is stored in a secret of the namespace, so use one of a robot
/// account. For an SSH address, stator makes a key, and registers it as a deploy key that can only read. What the token may
/// not register, stator tells you to do.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 created, or shown with --dry-run; 1 created, but something is left to do at the git host; 2 bad usage, or the cluster refuses it.\n\nExamples:\n  stator create source -e prod\n  stator create source fleet --url ssh://git@github.com/team/fleet.git --webhook-url https://stator.example.com\n  stator create source -e prod --dry-run -o yaml --show-secrets | kubeseal -o yaml > source.yaml"
)]
struct CreateSourceArgs {
    /// Name of the source; by default the name of the repository
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Address of the repository (https:// or ssh://); by default that of the remote of the current folder
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Branch to follow; by default the one that is checked out, or `main` with --url
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Folder of the repository that holds its stator.yaml
    #[arg(long, value_name = "DIR")]
    folder: Option<String>,
    /// Environment of the repository; optional if there is only one
    #[arg(short, long, env = "STATOR_ENVIRONMENT", value_name = "NAME")]
    environment: Option<String>,
    /// Namespace of the source; by default the environment's in a clone, else the context's
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Namespace to sync into, in place of the environment's; one that is not the source's own needs --service-account, or
    /// a controller that allows it
    #[arg(long, value_name = "NAME")]
    target_namespace: Option<String>,
    /// Service account of the source's namespace to act as
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Plan pull requests, and comment on them
    #[arg(long)]
    previews: bool,
    /// Public address of the controller's webhooks: registers a webhook
    #[arg(long, value_name = "URL")]
    webhook_url: Option<Url>,
    /// File with the SSH keys of the host, as ssh-keyscan prints them; not for github.com, gitlab.com and bitbucket.org
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    known_hosts: Option<PathBuf>,
    #[command(flatten)]
    forge: ForgeTypeArgs,
    /// Address of the git host, if it is not that of the repository; for hosts of your own with SSH
    #[arg(long, value_name = "URL")]
    forge_url: Option<Url>,
    /// Show the objects, and create nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: show the values of secrets
    #[arg(long, requires = "dry_run")]
    show_secrets: bool,
    /// Skip the confirmation
    #[arg(short, long, overrides_with = "yes")]
    yes: bool,
    /// Never ask: fail if a confirmation would be needed
    #[arg(long)]
    no_input: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(arguments: &CreateArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let CreateCommand::Source(arguments) = &arguments.what;
    connect::with_interrupt(&arguments.cluster, create(arguments, output)).await
}

/// What is created, before anything is.
struct NewSource {
    name: String,
    namespace: String,
    source: Value,
    secrets: Vec<Value>,
    registrations: Vec<Registration>,
    /// The host to register at, where there is a token.
    forge: Option<AnyForge>,
}

/// What `create source -o json` prints.
#[derive(Debug, Serialize)]
struct CreatedReport {
    created: Vec<String>,
    /// What is left to do at the git host.
    missing: Vec<String>,
}

async fn create(arguments: &CreateSourceArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let followed = Followed::of(arguments, output)?;
    let namespace = arguments.namespace.clone().or_else(|| followed.namespace.clone());
    if arguments.dry_run {
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        return show(&NewSource::plan(arguments, followed, &namespace)?, arguments, output);
    }
    let client = SourceClient::open(&arguments.cluster, namespace.as_deref(), output).await?;
    let new = NewSource::plan(arguments, followed, client.namespace())?;
    if client.list(false).await?.iter().any(|known| known.name() == new.name) {
        let message = format!("there is a source {}/{} already", new.namespace, new.name);
        return Err(CliError::input(message).with_hint("pass another NAME, or change it with kubectl"));
    }
    output.write_stderr(&new.describe());
    let question = format!("Create them in namespace {}?", new.namespace);
    output.confirm(arguments.yes, arguments.no_input, &question)?;
    let mut report = CreatedReport { created: Vec::new(), missing: Vec::new() };
    let kube = client.kube.client();
    let secrets: Api<Secret> = Api::namespaced(kube.clone(), &new.namespace);
    for secret in &new.secrets {
        let name = secret.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let applied = secrets.patch(name, &PatchParams::apply(CLI_FIELD_MANAGER), &Patch::Apply(secret)).await;
        // A conflict means a secret of somebody else, whose values are not replaced.
        applied.map_err(|error| refused(&format!("secret {}/{name}", new.namespace), &error))?;
        report.created.push(format!("secret/{}/{name}", new.namespace));
    }
    for registration in &new.registrations {
        match new.register(registration).await {
            Ok(told) => report.created.push(told),
            Err(missing) => report.missing.push(missing),
        }
    }
    // Last, so that its controller finds the secrets.
    let title = format!("modelsource/{}/{}", new.namespace, new.name);
    let object: DynamicObject = serde_json::from_value(new.source.clone())?;
    let params = PostParams { field_manager: Some(CLI_FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let made = model_source_api(kube, &new.namespace).create(&params, &object).await;
    made.map_err(|error| refused(&title, &error))?;
    report.created.push(title);
    let text = || {
        let lines = report.created.iter().map(|line| format!("{line} created\n"));
        let left = report.missing.iter().map(|line| format!("\nleft to do: {line}\n"));
        let next = format!("\nNext:\nstator get sources {} -n {} --watch\n", new.name, new.namespace);
        lines.chain(left).chain([next]).collect()
    };
    output.write_result(&arguments.output.encode(&report)?.unwrap_or_else(text))?;
    Ok(if report.missing.is_empty() { ExitStatus::Success } else { ExitStatus::Negative })
}

/// Prints the objects for git.
fn show(new: &NewSource, arguments: &CreateSourceArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut objects: Vec<Value> = new.secrets.iter().chain([&new.source]).cloned().collect();
    if !arguments.show_secrets {
        objects.iter_mut().for_each(mask::redact_value);
    }
    let text = match arguments.output {
        ReportFormat::Text => new.describe(),
        ReportFormat::Yaml => objects.iter().map(to_yaml).collect::<Result<Vec<_>, _>>()?.join("---\n"),
        ReportFormat::Json => {
            stator_model::present::json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))?
        }
    };
    match arguments.show_secrets {
        true => output.write_verbatim(&text)?,
        false => output.write_result(&text)?,
    }
    for registration in &new.registrations {
        output.note(&format!("left to do: {}", by_hand(registration)));
    }
    if !arguments.show_secrets && !new.secrets.is_empty() && arguments.output != ReportFormat::Text {
        output.note("Values of secrets are hidden; --show-secrets shows them. Each run makes new keys.");
    }
    Ok(ExitStatus::Success)
}

fn refused(what: &str, error: &kube::Error) -> CliError {
    let kube::Error::Api(status) = error else {
        return CliError::new(CliErrorKind::Cluster, format!("{what} cannot be created: {error}"));
    };
    let hint = match status.code {
        403 => "`stator check` shows which rights you have",
        404 => "install stator there first, and create the namespace; `stator check` tells what is missing",
        409 => "it is there, and not from this command: pass another NAME, or delete it",
        _ => "`stator check` tells whether the cluster is ready",
    };
    CliError::new(CliErrorKind::Cluster, format!("{what} cannot be created: {}", status.message)).with_hint(hint)
}

/// What a person does in place of the token.
fn by_hand(registration: &Registration) -> String {
    match registration {
        Registration::Webhook { url, .. } => format!(
            "create a webhook of the repository: {url}, content type JSON, events push and pull request, signed with the \
             value of `token` in the secret"
        ),
        Registration::DeployKey { public, .. } => {
            format!("add this deploy key to the repository, without the right to write: {public}")
        }
    }
}

/// What a source is to follow: as the options say, or the clone in the current folder.
struct Followed {
    url: String,
    address: RepositoryUrl,
    branch: String,
    folder: Option<String>,
    environment: Option<String>,
    /// The environment's.
    namespace: Option<String>,
}

impl Followed {
    fn of(arguments: &CreateSourceArgs, output: &Output) -> Result<Self, CliError> {
        let opened = repository::open(Path::new("."), &output.without_notes()).ok();
        let remote = opened.as_ref().and_then(|opened| PushRemote::of(&opened.checkout.root));
        let origin = remote.as_ref().map(|remote| remote.url.clone());
        // Another repository than this clone's is not described by it.
        let is_elsewhere = arguments.url.is_some() && arguments.url != origin;
        let (opened, remote) = if is_elsewhere { (None, None) } else { (opened, remote) };
        let url = match arguments.url.clone().or(origin) {
            Some(url) => url,
            None => output.ask(arguments.no_input, "Address of the repository", "pass it with --url")?,
        };
        let schemes = AllowedSchemes { insecure: true, local: true };
        let address = RepositoryUrl::parse(&url, schemes).map_err(|error| {
            CliError::input(format!("`{}`: {error}", mask::redact_tokens(&url)))
                .with_hint("pass its address with --url")
        })?;
        if address.scheme() == UrlScheme::Local {
            return Err(CliError::input("a source in a cluster cannot follow a folder of this machine")
                .with_hint("pass the https:// or ssh:// address of the repository with --url"));
        }
        let known = opened.as_ref().map(|opened| opened.workspace.environment_names()).unwrap_or_default();
        let environment = match (&arguments.environment, known.as_slice()) {
            (Some(name), _) => Some(name.clone()),
            (None, []) => None,
            (None, [only]) => Some(only.clone()),
            (None, several) => {
                let question = format!("Environment ({})", several.join(", "));
                Some(output.ask(arguments.no_input, &question, "pass one with --environment")?)
            }
        };
        let resolve = |opened: &OpenedRepository| opened.workspace.resolve_environment(environment.as_deref());
        let resolved = opened.as_ref().map(resolve).transpose()?;
        let folder = opened.map(|opened| path_in_work_tree(&opened.checkout.root)).filter(|folder| !folder.is_empty());
        Ok(Self {
            branch: arguments
                .branch
                .clone()
                .or(remote.map(|remote| remote.branch))
                .unwrap_or_else(|| "main".to_owned()),
            folder: arguments.folder.clone().or(folder),
            namespace: resolved.map(|resolved| resolved.environment.namespace.to_string()),
            url,
            address,
            environment,
        })
    }
}

impl NewSource {
    /// Everything that is created, by the rules that a controller reads sources by.
    fn plan(arguments: &CreateSourceArgs, followed: Followed, namespace: &str) -> Result<Self, CliError> {
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
            "metadata": {"name": name, "namespace": self.namespace, "labels": {CREDENTIAL_LABEL: label}},
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
                let title = format!("stator {}/{}", self.namespace, self.name);
                let (private, public) = new_deploy_key(&title)
                    .ok_or_else(|| CliError::new(CliErrorKind::Bug, "the system provides no random numbers"))?;
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
        let reference = self.add_secret("forge", address.host(), values);
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

    fn describe(&self) -> String {
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
    async fn register(&self, registration: &Registration) -> Result<String, String> {
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
