//! `stator create source`: a source with the secrets that it names, and what it needs at the git host.

mod followed;
mod planned;

use self::followed::Followed;
use super::{CLI_FIELD_MANAGER, SourceClient};
use crate::cli::args::{ClusterArgs, ReportFormat, to_yaml};
use crate::cli::connect;
use crate::cli::error::{CliError, CliErrorKind, ExitStatus};
use crate::cli::output::Output;
use crate::cli::rollback::pull_request::ForgeTypeArgs;
use crate::controller::sources::objects::model_source_api;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueHint};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde::Serialize;
use serde_json::{Map, Value, json};
use stator_git::forge::{AnyForge, Registration};
use std::path::PathBuf;
use url::Url;

/// Of which source a secret is, so that a second attempt knows its own.
const SOURCE_LABEL: &str = "stator.dev/source";

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
        let namespace = namespace.or_else(|| context_namespace(&arguments.cluster));
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
    // What the API server refuses is found before anything is written.
    new.write_secrets(&kube, true, &mut report).await?;
    new.write_source(&kube, true, &mut report).await?;
    report.created.clear();
    let written = async {
        new.write_secrets(&kube, false, &mut report).await?;
        for registration in &new.registrations {
            match new.register(registration).await {
                Ok(told) => report.created.push(told),
                Err(missing) => report.missing.push(missing),
            }
        }
        // Last, so that its controller finds the secrets.
        new.write_source(&kube, false, &mut report).await
    };
    if let Err(error) = written.await {
        report.created.iter().for_each(|made| output.warn(&format!("{made} created")));
        report.missing.iter().for_each(|left| output.warn(&format!("left to do: {left}")));
        return Err(error.with_hint("run the same command again: it replaces these secrets"));
    }
    let text = || {
        let lines = report.created.iter().map(|line| format!("{line} created\n"));
        let left = report.missing.iter().map(|line| format!("\nleft to do: {line}\n"));
        let next = format!("\nNext:\nstator get sources {} -n {} --watch\n", new.name, new.namespace);
        lines.chain(left).chain([next]).collect()
    };
    output.write_result(&arguments.output.encode(&report)?.unwrap_or_else(text))?;
    Ok(if report.missing.is_empty() { ExitStatus::Success } else { ExitStatus::Negative })
}

impl NewSource {
    async fn write_secrets(&self, kube: &Client, dry: bool, report: &mut CreatedReport) -> Result<(), CliError> {
        let api: Api<Secret> = Api::namespaced(kube.clone(), &self.namespace);
        for secret in &self.secrets {
            let name = secret.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let title = format!("secret/{}/{name}", self.namespace);
            let known = api.get_opt(name).await.map_err(|error| refused(&title, &error))?;
            let is_own = |known: &Secret| {
                known.metadata.labels.as_ref().and_then(|all| all.get(SOURCE_LABEL)) == Some(&self.name)
            };
            if known.is_some_and(|known| !is_own(&known)) {
                return Err(CliError::input(format!("{title} is there already, and not from this command"))
                    .with_hint("pass another NAME, or delete the secret"));
            }
            // As bytes, so that keys of an attempt before are not left beside these.
            let mut secret = secret.clone();
            let texts = secret.as_object_mut().and_then(|secret| secret.remove("stringData"));
            let encode = |(key, text): (&String, &Value)| {
                (key.clone(), json!(STANDARD.encode(text.as_str().unwrap_or_default())))
            };
            secret["data"] = texts.iter().filter_map(Value::as_object).flatten().map(encode).collect();
            let params = PatchParams { dry_run: dry, ..PatchParams::apply(CLI_FIELD_MANAGER).force() };
            let written = api.patch(name, &params, &Patch::Apply(secret)).await;
            written.map_err(|error| refused(&title, &error))?;
            report.created.push(title);
        }
        Ok(())
    }

    async fn write_source(&self, kube: &Client, dry: bool, report: &mut CreatedReport) -> Result<(), CliError> {
        let title = format!("modelsource/{}/{}", self.namespace, self.name);
        let object: DynamicObject = serde_json::from_value(self.source.clone())?;
        let params = PostParams { dry_run: dry, field_manager: Some(CLI_FIELD_MANAGER.to_owned()) };
        let made = model_source_api(kube.clone(), &self.namespace).create(&params, &object).await;
        made.map_err(|error| refused(&title, &error))?;
        report.created.push(title);
        Ok(())
    }
}

/// Prints the objects for git.
fn show(new: &NewSource, arguments: &CreateSourceArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut objects: Vec<Value> = new.secrets.iter().chain([&new.source]).cloned().collect();
    if !arguments.show_secrets {
        let texts = objects.iter_mut().filter_map(|object| object.get_mut("stringData")?.as_object_mut());
        texts.flat_map(Map::values_mut).for_each(|text| *text = json!("***"));
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

/// The namespace of the context, without asking its cluster.
fn context_namespace(cluster: &ClusterArgs) -> Option<String> {
    let config = match &cluster.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let config = config.ok()?;
    let name = cluster.context.clone().or(config.current_context)?;
    config.contexts.into_iter().find(|context| context.name == name)?.context?.namespace
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
            "create a webhook of the repository: {url}, content type JSON, events push and pull request, with the value \
             of `token` in the secret as its secret (Azure DevOps: as the password of Basic authentication)"
        ),
        Registration::DeployKey { public, .. } => {
            format!("add this deploy key to the repository, without the right to write: {public}")
        }
    }
}
