//! Options that several verbs share. A verb takes a group only where every option of it does something.

use super::error::{CliError, CliErrorKind};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use serde::Serialize;
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::embedded::EmbeddedCluster;
use stator_cluster::cluster::embedded::operator::{OperatorHandle, SimulatedOperator};
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::fleet_policies::{FleetPolicyReader, read_policy_files};
use stator_cluster::sync::GatherError;
use stator_core::dynamo::release::Release;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::HoldKind;
use stator_model::present;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Options of every verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more; twice for debug, three times for trace
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// When to use colour; NO_COLOR and CLICOLOR_FORCE are respected too
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = false)]
    pub color: ColorWhen,
}

impl GlobalArgs {
    /// For what says nothing.
    pub fn quiet() -> Self {
        Self { quiet: true, verbose: 0, color: ColorWhen::Never }
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text
    #[value(alias = "table")]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl ReportFormat {
    /// A report as data; `None` where it is to be text.
    ///
    /// # Errors
    /// Never, unless stator is at fault.
    pub fn encode(self, report: &impl Serialize) -> Result<Option<String>, CliError> {
        Ok(match self {
            Self::Text => None,
            Self::Json => Some(stator_model::present::json(report)?),
            Self::Yaml => Some(to_yaml(report)?),
        })
    }
}

/// A report or list as YAML.
///
/// # Errors
/// Never, unless stator is at fault.
pub fn to_yaml(list: &impl Serialize) -> Result<String, CliError> {
    serde_saphyr::to_string(list)
        .map_err(|error| CliError::new(CliErrorKind::Bug, format!("the list cannot be written as YAML: {error}")))
}

/// Which environment.
#[derive(Clone, Debug, Default, Args)]
pub struct EnvironmentArgs {
    /// Environment of the repository; optional if there is only one
    #[arg(short, long, env = "STATOR_ENVIRONMENT", value_name = "NAME")]
    pub environment: Option<String>,
    /// Namespace to use instead of the environment's own
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub dynamo: DynamoArgs,
}

/// Which Dynamo.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct DynamoArgs {
    /// Release of Dynamo to check against, such as 1.4, instead of the environment's own; a cluster is checked against the
    /// definitions that it serves
    #[arg(long = "dynamo", env = "STATOR_DYNAMO", value_name = "RELEASE")]
    pub release: Option<Release>,
}

impl DynamoArgs {
    /// Puts the release in place of the one that an environment says.
    pub fn apply(self, selection: &mut ResolvedEnvironment) {
        if self.release.is_some() {
            selection.environment.platform.get_or_insert_default().dynamo = self.release;
        }
    }
}

/// What administrators allow, beside what the cluster says of it.
#[derive(Clone, Debug, Default, Args)]
pub struct PolicyArgs {
    /// File of FleetPolicy documents, or a folder of such files, to check models against
    #[arg(long, env = "STATOR_POLICIES", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub policies: Option<PathBuf>,
}

impl PolicyArgs {
    /// The policies of the files.
    ///
    /// # Errors
    /// When one of them has a fault: nothing is held to half of them.
    pub fn read_files(&self) -> Result<FleetPolicies, CliError> {
        let Some(path) = &self.policies else { return Ok(FleetPolicies::default()) };
        read_policy_files(path).map_err(|faults| {
            let messages = present::findings::concise(&faults, &present::TerminalOptions::default());
            CliError::input(format!("the policies have errors\n{}", messages.trim_end()))
                .with_hint("correct the files that --policies names")
        })
    }

    /// The policies of the files and of the cluster.
    ///
    /// # Errors
    /// As for [`PolicyArgs::read_files`], and when the cluster does not show which it has: nothing is done then.
    pub async fn read(&self, cluster: &AnyCluster) -> Result<FleetPolicies, CliError> {
        let of_files = self.read_files()?;
        let of_cluster = FleetPolicyReader { path: None, cluster: Some(cluster.clone()) }.read().await;
        let of_cluster =
            of_cluster.map_err(|cause| GatherError { what: "the policies of the fleet".to_owned(), cause })?;
        Ok(of_files.and(of_cluster))
    }
}

/// Which cluster.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster options")]
pub struct ClusterArgs {
    /// `embedded`, or `embedded:DIR`: live objects as files in a folder, .stator/cluster by default; `in-cluster`: the cluster that this pod runs in
    #[arg(long, env = "STATOR_CLUSTER", value_name = "CLUSTER", conflicts_with_all = ["context", "kubeconfig"])]
    pub cluster: Option<String>,
    /// Context of the kubeconfig; by default the environment's, else the current one
    #[arg(long, env = "STATOR_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Path of the kubeconfig, instead of $KUBECONFIG and ~/.kube/config
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Act as this user on a Kubernetes cluster; a service account is system:serviceaccount:NAMESPACE:NAME
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,
    /// Time limit for the command: 90s, 5m, 1h30m
    #[arg(long, env = "STATOR_TIMEOUT", value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

impl ClusterArgs {
    /// The same, with a time limit where none is given.
    #[must_use]
    pub fn with_default_timeout(&self, limit: Duration) -> Self {
        Self { timeout: self.timeout.or(Some(limit)), ..self.clone() }
    }

    /// Whether the options say which cluster, so that nothing else has to decide it.
    pub fn names_cluster(&self) -> bool {
        self.cluster.is_some() || self.context.is_some() || self.kubeconfig.is_some()
    }
}

/// Whether a repository of nothing will do.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct EmptyArgs {
    /// Succeed also where there is neither a stator.yaml nor a model.yaml; without it, that counts as a wrong path
    #[arg(long)]
    pub allow_empty: bool,
}

/// Whether frontends are asked.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Cluster options")]
pub struct FrontendArgs {
    /// Count an adapter as healthy only when its graph's frontend lists it. stator asks the frontend through the API
    /// server, which needs `get` on `services/proxy`. Default: only in a pod of the cluster
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    ask_frontends: Option<bool>,
}

impl FrontendArgs {
    /// The cluster, with its frontends asked or not.
    pub fn apply(self, cluster: &AnyCluster) -> AnyCluster {
        let is_pods_own = || cluster.as_kubernetes().is_some_and(KubeCluster::is_service_account);
        cluster.with_frontends_asked(self.ask_frontends.unwrap_or_else(is_pods_own))
    }
}

/// The operator's part, played by stator.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster options")]
pub struct SimulateArgs {
    /// Simulate the Dynamo operator on the embedded cluster, so that models become healthy; with `status`, while it
    /// watches. The environment or `--dynamo` sets its release
    #[arg(long)]
    pub simulate_operator: bool,
    /// Speed of the simulated operator, as a multiple of real time
    #[arg(long, value_name = "FACTOR", default_value = "10", value_parser = speed)]
    pub simulate_speed: f64,
}

impl SimulateArgs {
    /// Starts playing, where that is asked for; it goes on until the handle is dropped.
    ///
    /// # Errors
    /// On a Kubernetes cluster, where Dynamo's own operator plays it.
    pub fn start_operator(&self, cluster: &AnyCluster) -> Result<Option<OperatorHandle>, CliError> {
        Ok(self
            .embedded_cluster(cluster)?
            .map(|cluster| SimulatedOperator::start(cluster.clone(), self.simulate_speed)))
    }

    /// The cluster to play on, where playing is asked for.
    ///
    /// # Errors
    /// On a Kubernetes cluster, where Dynamo's own operator plays that part.
    pub fn embedded_cluster<'a>(&self, cluster: &'a AnyCluster) -> Result<Option<&'a EmbeddedCluster>, CliError> {
        match cluster {
            _ if !self.simulate_operator => Ok(None),
            AnyCluster::Embedded(cluster) => Ok(Some(cluster)),
            AnyCluster::Kubernetes(_) => Err(CliError::usage(
                "--simulate-operator works only on the embedded cluster, and this is a Kubernetes cluster",
            )
            .with_hint("omit it, because Dynamo's own operator runs there; or pass `--cluster embedded`")),
        }
    }
}

/// What a plan may contain.
#[derive(Clone, Debug, Args)]
pub struct ChangeArgs {
    /// Whether to delete objects that are no longer in git
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub prune: bool,
    /// Override a guard
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub allow: Vec<AllowArg>,
}

impl ChangeArgs {
    /// Pruning, and nothing released: what a status is measured against.
    pub fn for_status() -> Self {
        Self { prune: true, allow: Vec::new() }
    }

    /// The guards that are released.
    pub fn allowed_holds(&self) -> BTreeSet<HoldKind> {
        self.allow.iter().map(|allow| allow.hold_kind()).collect()
    }
}

/// What can be let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AllowArg {
    /// Delete and re-create an object, or replace a graph at a new address, where Dynamo forbids the change in place
    Replace,
    /// Delete objects
    Delete,
    /// Take over existing objects that stator does not manage
    Adopt,
    /// Take over records and objects of another repository, folder, environment or ModelSource
    Move,
    /// Delete more objects than the guard allows
    MassDelete,
    /// Use more GPUs than the environment's limit
    MaxGpus,
    /// Sync a commit that does not descend from the applied commit, such as after a force push
    Rollback,
}

impl AllowArg {
    fn hold_kind(self) -> HoldKind {
        match self {
            Self::Replace => HoldKind::Replace,
            Self::Delete => HoldKind::Delete,
            Self::Adopt => HoldKind::Adopt,
            Self::Move => HoldKind::Move,
            Self::MassDelete => HoldKind::MassDelete,
            Self::MaxGpus => HoldKind::MaxGpus,
            Self::Rollback => HoldKind::Rollback,
        }
    }
}

/// Reads a duration as people write it: `90s`, `5m`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let help = || format!("`{text}` is not a valid duration; use 90s, 5m or 1h30m");
    let friendly: jiff::SignedDuration = text.parse().map_err(|_| help())?;
    let duration = Duration::try_from(friendly).map_err(|_| help())?;
    if duration.is_zero() { Err(format!("`{text}` is zero; use 90s, 5m or 1h30m")) } else { Ok(duration) }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 && factor <= 1e6 => Ok(factor),
        Ok(_) | Err(_) => Err("must be a number above 0 and at most 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "5", "-5m", "0s", "tomorrow", "99999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
