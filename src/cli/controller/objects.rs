//! `stator controller` without a file: the sources are `ModelSource` objects of a Kubernetes cluster.

use super::{ControllerArgs, controller_options, print_addresses, run_daemon};
use crate::cli::connect::{self, KubernetesPurpose};
use crate::cli::error::{CliError, ExitStatus};
use crate::cli::output::Output;
use crate::cli::web::RunningPages;
use crate::controller::replicas::{LeaseSettings, LeaseTerms, unique_identity};
use crate::controller::sources::objects::{ControllerRole, FeedSettings};
use crate::controller::sources::tenancy::TenancyPolicy;
use crate::controller::supervisor::ControllerOptions;
use crate::daemon::{
    ObjectController, ObjectControllerOptions, default_identity, default_lease_namespace, is_object_name,
};
use clap::Args;
use stator_cluster::cluster::AnyCluster;
use std::collections::BTreeSet;
use std::path::Path;

/// Whose sources, and what they may do.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sources of a cluster")]
pub struct SourceObjectArgs {
    /// Follow only the sources of this namespace; repeat it, or separate several with commas. By default, all namespaces that have no controller of their own
    #[arg(long = "watch-namespace", value_name = "NAME", value_delimiter = ',', value_parser = label, conflicts_with = "source_file")]
    namespaces: Vec<String>,
    /// Service account, in each source's own namespace, for sources that name none
    #[arg(long, value_name = "NAME", value_parser = label, conflicts_with = "source_file")]
    default_service_account: Option<String>,
    /// Allow sources without a service account to write to other namespaces
    #[arg(long)]
    allow_cross_namespace: bool,
    /// Allow sources to use `http://` with `allowInsecure`
    #[arg(long)]
    allow_insecure: bool,
    /// Allow source hosts with loopback, link-local, multicast or cloud metadata addresses
    #[arg(long)]
    allow_local_addresses: bool,
    /// Number of shards to divide the sources into among replicas; with 1, one replica is active and the others stand
    /// by
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
    /// Namespace of the leases that coordinate replicas; by default the pod's, else stator-system. Each installation needs its own
    #[arg(long, value_name = "NAME", value_parser = label)]
    lease_namespace: Option<String>,
    /// Name of this process in the leases; by default the name of the pod
    #[arg(long, value_name = "NAME", value_parser = label)]
    identity: Option<String>,
}

impl SourceObjectArgs {
    fn feed_settings(&self, webhooks: bool) -> FeedSettings {
        FeedSettings {
            role: ControllerRole::Controller,
            namespaces: self.namespaces.iter().cloned().collect(),
            tenancy: TenancyPolicy {
                default_account: self.default_service_account.clone(),
                cross_namespace: self.allow_cross_namespace,
                insecure: self.allow_insecure,
                local_addresses: self.allow_local_addresses,
            },
            identity: self.identity.clone().unwrap_or_else(default_identity),
            webhooks,
        }
    }

    fn lease_settings(&self, identity: &str) -> LeaseSettings {
        LeaseSettings {
            namespace: self.lease_namespace.clone().unwrap_or_else(default_lease_namespace),
            identity: unique_identity(identity),
            shards: self.shards,
            terms: LeaseTerms::default(),
        }
    }
}

/// A name of Kubernetes: of a namespace, a service account, a pod.
pub(in crate::cli) fn label(text: &str) -> Result<String, String> {
    match is_object_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name has lower-case letters, digits, `-` and `.`".to_owned()),
    }
}

pub(super) async fn run(arguments: &ControllerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.once {
        return Err(CliError::usage("--once works only with a file of sources").with_hint(
            "pass one with --source-file, or omit --once: the controller follows the objects of a cluster until it stops",
        ));
    }
    let kube = connect::open_kubernetes(&arguments.cluster, KubernetesPurpose::FollowSources, output).await?;
    let cluster = AnyCluster::from(kube.clone());
    arguments.simulate.embedded_cluster(&cluster)?;
    connect::preflight(&cluster, output).await?;
    let pages = arguments.web.start_with_tokens(&arguments.sign_in, kube.clone(), output).await?;
    let feed = arguments.objects.feed_settings(arguments.webhooks);
    let purpose = format!("following {}, as {}", describe_namespaces(&feed.namespaces), feed.identity);
    let options = ObjectControllerOptions {
        kube,
        controller: ControllerOptions {
            observations: pages.as_ref().map(RunningPages::board),
            pages: arguments.sign_in.url(),
            ..controller_options(arguments, cluster, Path::new(""))
        },
        listen: arguments.listen.options(arguments.webhooks),
        authorize_metrics: arguments.listen.authorize_metrics,
        leases: arguments.objects.lease_settings(&feed.identity),
        feed,
    };
    let daemon = ObjectController::start(options).await?;
    print_addresses(daemon.addresses(), &purpose, output);
    let exit = run_daemon(daemon, arguments.cluster.timeout, output).await;
    if let Some(pages) = pages {
        pages.end().await;
    }
    exit
}

/// Which sources are followed, in words.
pub(in crate::cli) fn describe_namespaces(namespaces: &BTreeSet<String>) -> String {
    if namespaces.is_empty() {
        return "the ModelSource objects of all namespaces".to_owned();
    }
    let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    format!("the ModelSource objects of {}", names.join(" and "))
}
