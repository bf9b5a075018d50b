//! `stator check`: whether a cluster has what stator needs, and whether whoever asks may do what a sync does. With
//! `--dynamo`, what another release of Dynamo does to a repository ([`super::upgrade_check`]).

use super::args::{ClusterArgs, DynamoArgs, EmptyArgs, EnvironmentArgs, ReportFormat};
use super::connect::ClusterAccess;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::sources::SourceClient;
use super::targets::TargetArgs;
use super::upgrade_check::{self, UpgradeCheck};
use super::{connect, signals};
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use serde::Serialize;
use stator_cluster::cluster::kube::{AccessRight, KubeCluster, PreflightSubject};
use stator_cluster::cluster::{AnyCluster, Cluster as _};
use stator_core::dynamo::kinds;
use stator_core::dynamo::release::Release;
use stator_model::present::table::{TableCell, TextTable};
use stator_model::present::{TerminalOptions, Tone, pluralize};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// What a sync does with objects of each of its kinds.
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// Questions to the API server at a time.
const MAX_CONCURRENT_QUESTIONS: usize = 16;
/// The time limit where none is given.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Check that a cluster is ready for stator, and your rights
///
/// With --dynamo, check what another release of Dynamo would do to the models of a repository: what it refuses, restarts,
/// freezes and gives up, with the fixes as a patch, and what to do in which order. A cluster is asked only if an option names
/// it: for its release and its objects. Writes nothing without --write.
#[derive(Debug, Args)]
#[command(
    after_help = "Rights are checked for the user of the context, or for --as: `--as system:serviceaccount:NAMESPACE:NAME` checks the rights of a source.\n\nExit codes: 0 nothing failed, and with --dynamo nothing would be refused; 1 a check failed, or something would be refused, or with --write still is; 2 bad usage, or the cluster cannot be reached; 124 --timeout; 130 interrupted.\n\nExamples:\n  stator check --context prod\n  stator check --dynamo 1.5 -e prod\n  stator check --dynamo 1.5 -e prod --write"
)]
pub struct CheckArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// Release of Dynamo to upgrade to, or to return to, such as 1.5
    #[arg(long, value_name = "RELEASE")]
    dynamo: Option<Release>,
    /// With --dynamo: write the fixes to the files that can be fixed before the upgrade
    #[arg(long, requires = "dynamo")]
    write: bool,
    /// With --dynamo: environment of the repository; optional if there is only one
    #[arg(short, long, env = "STATOR_ENVIRONMENT", value_name = "NAME")]
    environment: Option<String>,
    /// Check before you install stator: do not require stator's own definitions
    #[arg(long)]
    pre: bool,
    /// Namespace to sync models to; by default the context's
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    empty: EmptyArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Report format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum CheckOutcome {
    /// All is there.
    Passed,
    /// Only some models, or only some of what stator says, need it.
    Warning,
    /// stator cannot work without it.
    Failed,
}

impl CheckOutcome {
    fn cell(self) -> TableCell {
        match self {
            Self::Passed => TableCell::new(Tone::Good, "Passed"),
            Self::Warning => TableCell::new(Tone::Caution, "Warning"),
            Self::Failed => TableCell::new(Tone::Bad, "Failed"),
        }
    }
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    check: &'static str,
    result: CheckOutcome,
    message: String,
    /// What to do where it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl CheckResult {
    fn passed(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, result: CheckOutcome::Passed, message: message.into(), fix: None }
    }

    fn missing(check: &'static str, is_needed: bool, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let result = if is_needed { CheckOutcome::Failed } else { CheckOutcome::Warning };
        Self { check, result, message: message.into(), fix: Some(fix.into()) }
    }
}

/// What `check -o json` prints.
#[derive(Debug, Serialize)]
struct CheckReport<'a> {
    cluster: String,
    namespace: String,
    passed: bool,
    checks: &'a [CheckResult],
    /// What to do next.
    next: String,
}

/// Looks, and says what was found.
///
/// # Errors
/// When the cluster cannot be reached, or the options name none.
pub async fn run(arguments: &CheckArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if let Some(to) = arguments.dynamo {
        let check = UpgradeCheck {
            to,
            targets: &arguments.targets,
            environment: EnvironmentArgs {
                environment: arguments.environment.clone(),
                namespace: arguments.namespace.clone(),
                dynamo: DynamoArgs::default(),
            },
            cluster: &arguments.cluster,
            empty: arguments.empty,
            write: arguments.write,
            output: arguments.output,
        };
        return upgrade_check::run(check, output).await;
    }
    if !arguments.targets.words().is_empty() {
        return Err(CliError::usage("models of a repository are checked only with --dynamo")
            .with_hint("`stator check --dynamo 1.5` checks an upgrade; `stator validate` checks models as they are"));
    }
    let limits = arguments.cluster.with_default_timeout(DEFAULT_TIMEOUT);
    let look = async {
        let cluster = connect::open(&arguments.cluster, ClusterAccess::Read, Path::new("."), None, output).await?;
        check_cluster(cluster, arguments.namespace.as_deref(), arguments.pre).await
    };
    let (cluster, namespace, checks) = tokio::select! {
        found = connect::with_timeout(&limits, look) => found?,
        () = signals::wait_for_interrupt() => return Ok(ExitStatus::Interrupted),
    };
    let passed = checks.iter().all(|check| check.result != CheckOutcome::Failed);
    let next = next_step(&checks, arguments.pre);
    let text = || format!("{}\nNext: {next}\n", format_text(&checks, &output.stdout_style));
    let report = CheckReport { cluster, namespace, passed, checks: &checks, next: next.clone() };
    output.write_result(&arguments.output.encode(&report)?.unwrap_or_else(text))?;
    Ok(if passed { ExitStatus::Success } else { ExitStatus::Negative })
}

/// The cluster, the namespace, and what was found of them; `is_before` where stator's own definitions are not there yet.
///
/// # Errors
/// When the cluster cannot be reached.
pub async fn check_cluster(
    cluster: AnyCluster,
    namespace: Option<&str>,
    is_before: bool,
) -> Result<(String, String, Vec<CheckResult>), CliError> {
    let described = cluster.describe();
    let Some(kube) = cluster.as_kubernetes() else {
        let namespace = namespace.unwrap_or("default").to_owned();
        let message = "the embedded cluster has every definition and requires no rights";
        return Ok((described, namespace, vec![CheckResult::passed("cluster", message)]));
    };
    let namespace = namespace.map_or_else(|| kube.client().default_namespace().to_owned(), str::to_owned);
    // Before all else: a server that does not answer is an error and no list of twenty.
    let definitions = check_definitions(kube, is_before).await?;
    let mut checks = vec![check_version(kube).await];
    checks.extend(definitions);
    checks.push(check_namespace(kube, &namespace).await);
    checks.extend(check_rights(kube, &namespace).await?);
    checks.extend(check_neighbours(kube).await?);
    if !is_before {
        checks.extend(check_sources(kube, &namespace).await);
    }
    Ok((described, namespace, checks))
}

async fn check_version(kube: &KubeCluster) -> CheckResult {
    match kube.client().apiserver_version().await {
        Ok(version) => CheckResult::passed("cluster", format!("Kubernetes {}", version.git_version)),
        // Some gateways hide it.
        Err(_) => CheckResult::passed("cluster", "the API server answers, but does not report its version"),
    }
}

async fn check_definitions(kube: &KubeCluster, is_before: bool) -> Result<Vec<CheckResult>, CliError> {
    let found = kube.preflight().await?;
    let result = |problem: &stator_cluster::cluster::kube::PreflightProblem| {
        let (check, is_own) = match problem.subject {
            PreflightSubject::Dynamo => ("dynamo", false),
            PreflightSubject::Stator => ("stator", true),
        };
        CheckResult::missing(check, problem.blocks && !(is_own && is_before), &problem.message, &problem.fix)
    };
    let mut checks: Vec<CheckResult> = found.problems.iter().map(result).collect();
    if !checks.iter().any(|check| check.check == "stator") {
        checks.insert(0, CheckResult::passed("stator", "the definitions of records and journals are installed"));
    }
    if !checks.iter().any(|check| check.check == "dynamo") {
        let operator = found.operator_version.map(|version| format!(", installed by operator {version}"));
        let message = match found.release {
            Some(release) => format!("the definitions are those of release {release}{}", operator.unwrap_or_default()),
            None => "v1beta1 is served; the release is unknown, because the definitions cannot be read".to_owned(),
        };
        checks.insert(0, CheckResult::passed("dynamo", message));
    }
    Ok(checks)
}

async fn check_namespace(kube: &KubeCluster, namespace: &str) -> CheckResult {
    let namespaces: Api<Namespace> = Api::all(kube.client());
    match namespaces.get_opt(namespace).await {
        Ok(Some(_)) => CheckResult::passed("namespace", format!("{namespace} exists")),
        Ok(None) => CheckResult::missing(
            "namespace",
            true,
            format!("there is no namespace {namespace}"),
            format!("create it: `kubectl create namespace {namespace}`"),
        ),
        // Who may work in a namespace need not be allowed to look at it.
        Err(_) => CheckResult::passed("namespace", format!("{namespace} cannot be read; no sync needs that")),
    }
}

/// What a right is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RightNeed {
    /// Every sync.
    Every,
    /// Models that have objects of the kind.
    SomeModels,
    /// Saying why a graph or a download waits.
    Causes,
    /// Asking a graph's frontend which adapters it serves.
    Adapters,
}

impl RightNeed {
    /// What is missing without it, as the end of a sentence.
    fn consequence(self) -> &'static str {
        match self {
            Self::Every => "",
            Self::SomeModels => ", which only some models need",
            Self::Causes => "; without it, stator cannot say why a pod does not start",
            Self::Adapters => "; without it, `--ask-frontends` does not work",
        }
    }
}

/// The rights that a sync uses, each with whether nothing goes without it.
fn needed_rights() -> Vec<(AccessRight, RightNeed)> {
    let all = kinds::MANAGED.iter().chain([&kinds::RECORD, &kinds::JOURNAL]);
    let objects = all.flat_map(|kind| {
        let need = if kind.is_required() { RightNeed::Every } else { RightNeed::SomeModels };
        VERBS.iter().map(move |verb| (AccessRight { kind: *kind, subresource: None, verb }, need))
    });
    let status = AccessRight { kind: kinds::RECORD, subresource: Some("status"), verb: "patch" };
    let pods = AccessRight { kind: kinds::POD, subresource: None, verb: "list" };
    let proxy = AccessRight { kind: kinds::SERVICE, subresource: Some("proxy"), verb: "get" };
    objects.chain([(status, RightNeed::Every), (pods, RightNeed::Causes), (proxy, RightNeed::Adapters)]).collect()
}

async fn check_rights(kube: &KubeCluster, namespace: &str) -> Result<Vec<CheckResult>, CliError> {
    let rights = needed_rights();
    let questions: Vec<_> = rights.iter().map(|(right, _)| kube.has_right(right, namespace)).collect();
    let answers: Vec<bool> = stream::iter(questions).buffered(MAX_CONCURRENT_QUESTIONS).try_collect().await?;
    let mut lacking: Vec<(String, RightNeed, Vec<&str>)> = Vec::new();
    for ((right, need), _) in rights.iter().zip(&answers).filter(|(_, allowed)| !**allowed) {
        let resource = resource_name(right);
        match lacking.iter_mut().find(|(known, _, _)| *known == resource) {
            Some((_, _, verbs)) => verbs.push(right.verb),
            None => lacking.push((resource, *need, vec![right.verb])),
        }
    }
    if lacking.is_empty() {
        return Ok(vec![CheckResult::passed("rights", format!("every right that a sync needs in {namespace}"))]);
    }
    let result = |(resource, need, verbs): (String, RightNeed, Vec<&str>)| {
        let message = format!("no right to {} {resource} in {namespace}{}", verbs.join(", "), need.consequence());
        CheckResult::missing(
            "rights",
            need == RightNeed::Every,
            message,
            "grant it with a Role: docs/how-to/grant-rights.md has one",
        )
    };
    Ok(lacking.into_iter().map(result).collect())
}

/// `dynamographdeployments.nvidia.com`, `models.stator.dev/status`, `pods`.
fn resource_name(right: &AccessRight) -> String {
    let resource = right.kind.resource();
    right.subresource.map_or_else(|| resource.clone(), |part| format!("{resource}/{part}"))
}

/// Kinds that a model may have and the cluster does not serve.
async fn check_neighbours(kube: &KubeCluster) -> Result<Vec<CheckResult>, CliError> {
    let mut checks = Vec::new();
    for kind in kinds::ON_DEMAND.iter().filter(|kind| !kind.is_built_in()) {
        if !kube.served_versions(kind).await?.contains(kind.version) {
            let message = format!("{} is not served at {}, which only some models need", kind.kind, kind.api_version());
            checks.push(CheckResult::missing("neighbours", false, message, kinds::installation_advice(kind)));
        }
    }
    if checks.is_empty() {
        checks.push(CheckResult::passed("neighbours", "gateway routes and device claims are served"));
    }
    Ok(checks)
}

/// The sources of the cluster, where it has some and whoever asks may see them.
async fn check_sources(kube: &KubeCluster, namespace: &str) -> Vec<CheckResult> {
    let fix = "install the chart to run a controller; `stator sync` works without it";
    let served = kube.served_versions(&crate::controller::sources::objects::MODEL_SOURCE).await;
    if served.is_ok_and(|versions: BTreeSet<String>| versions.is_empty()) {
        return vec![CheckResult::missing("sources", false, "the definition of ModelSources is not installed", fix)];
    }
    let client = SourceClient::of(kube.clone(), namespace);
    let listed = match client.list(true).await {
        Ok(listed) => Ok(listed),
        Err(_) => client.list(false).await,
    };
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => {
            let fix = "grant `list` on modelsources.stator.dev, to check the sources";
            return vec![CheckResult::missing("sources", false, error.to_string(), fix)];
        }
    };
    let is_unwell = |one: &&super::sources::ListedSource| !one.is_ready() && !one.is_suspended();
    let unwell: Vec<CheckResult> = listed
        .iter()
        .filter(is_unwell)
        .map(|one| {
            let message = format!("source {}: {}", one.full_name(), one.message());
            CheckResult::missing("sources", true, message, "see `stator get sources -A`, and the controller's logs")
        })
        .collect();
    if listed.is_empty() {
        return vec![CheckResult::passed("sources", NO_SOURCES)];
    }
    if unwell.is_empty() {
        let message = format!("{}, each ready or suspended", pluralize(listed.len(), "source", "sources"));
        return vec![CheckResult::passed("sources", message)];
    }
    unwell
}

/// What a cluster says of its sources before there is one.
const NO_SOURCES: &str = "no source yet";

/// What somebody does next who sets stator up.
fn next_step(checks: &[CheckResult], is_before: bool) -> String {
    let missing = |result| checks.iter().find(|check| check.result == result).and_then(|check| check.fix.clone());
    if let Some(fix) = missing(CheckOutcome::Failed) {
        return fix;
    }
    if is_before {
        return "install stator's definitions: `kubectl apply --server-side -f crds/`, or the chart".to_owned();
    }
    match checks.iter().find(|check| check.check == "sources") {
        None => "`stator sync --wait`".to_owned(),
        Some(check) if check.result == CheckOutcome::Warning => check.fix.clone().unwrap_or_default(),
        Some(check) if check.message == NO_SOURCES => {
            "`stator create source` lets a controller follow a repository, and `stator sync` syncs from here".to_owned()
        }
        Some(_) => "`stator get sources -A` shows what the sources do".to_owned(),
    }
}

fn format_text(checks: &[CheckResult], look: &TerminalOptions) -> String {
    let mut table = TextTable::new(&["CHECK", "RESULT", "MESSAGE"]);
    for check in checks {
        let fix = check.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        table.row([
            TableCell::plain(check.check),
            check.result.cell(),
            TableCell::plain(&format!("{}{fix}", check.message)),
        ]);
    }
    let count = |result| checks.iter().filter(|check| check.result == result).count();
    let (failed, warned) = (count(CheckOutcome::Failed), count(CheckOutcome::Warning));
    let verdict = if failed == 0 { "the cluster is ready for stator" } else { "the cluster is not ready for stator" };
    format!("{}{verdict}: {failed} failed, {}.\n", table.render(look), pluralize(warned, "warning", "warnings"))
}
