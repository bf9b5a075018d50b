//! `stator open`.

use super::args::{ClusterArgs, EnvironmentArgs, FrontendArgs, PolicyArgs};
use super::connect::{self, ClusterAccess};
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::repository;
use super::repository_observer::{EnvironmentPlace, RepositoryObserver};
use super::rollback::pull_request::ForgeTypeArgs;
use super::status::open_cluster;
use super::targets::{PathArgs, TargetArgs};
use super::web::{WebArgs, web_url};
use clap::Args;
use url::Url;

/// Open the pages in the browser
///
/// With --web-url, pages that run already; else pages of this environment, which are served until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 opened; 2 the repository or the cluster cannot be read; 130 interrupted.")]
pub struct OpenArgs {
    #[command(flatten)]
    paths: PathArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    frontends: FrontendArgs,
    #[command(flatten)]
    forge: ForgeTypeArgs,
    /// Open pages that run already, at this address (https://stator.example.com)
    #[arg(long, value_name = "URL", value_parser = web_url)]
    web_url: Option<Url>,
    /// Print the address and open no browser
    #[arg(long)]
    no_browser: bool,
}

pub async fn run(arguments: &OpenArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_interrupt(&arguments.cluster, open(arguments, output)).await
}

async fn open(arguments: &OpenArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut opened = repository::open_targets(&TargetArgs::of_paths(arguments.paths.clone()), output)?;
    let selection = opened.select(&arguments.environment, output)?;
    let known = selection.intents.iter().map(|intent| intent.name.as_str());
    opened.models.check_names(known.chain(selection.broken.iter().filter_map(|one| one.name.as_deref())))?;
    let names: Vec<&String> = opened.models.names().iter().collect();
    let path = match names.as_slice() {
        [] => String::new(),
        [model] => format!("models/{}/{model}", selection.environment.namespace),
        _ => {
            return Err(
                CliError::usage("more than one model is named").with_hint("name one model, or none for the list")
            );
        }
    };
    if let Some(url) = &arguments.web_url {
        let url = format!("{url}{path}");
        output.write_result(&format!("{url}\n"))?;
        arguments.show(&url, output);
        return Ok(ExitStatus::Success);
    }
    let cluster = open_cluster(&opened, &selection, &arguments.cluster, ClusterAccess::Read, output).await?;
    let cluster = arguments.frontends.apply(&cluster);
    connect::preflight(&cluster, output).await?;
    let place = EnvironmentPlace {
        root: opened.checkout.root.clone(),
        targets: TargetArgs::of_paths(arguments.paths.without_names()),
        policies: PolicyArgs::default(),
        environment: arguments.environment.clone(),
        cluster: arguments.cluster.clone(),
        forge: arguments.forge,
    };
    let pages = WebArgs::on_free_port().start(output).await?;
    if let Some(pages) = pages {
        pages.observe(RepositoryObserver::new(place, &selection, cluster, output));
        arguments.show(&pages.link_to(&path), output);
        pages.serve_until_interrupted(output).await;
    }
    Ok(ExitStatus::Success)
}

impl OpenArgs {
    /// Shows an address in the browser; it is printed already, for where there is none.
    fn show(&self, address: &str, output: &Output) {
        if self.no_browser {
            return;
        }
        if let Err(error) = open::that_detached(address) {
            output.warn(&format!("no browser was opened: {error}"));
        }
    }
}
