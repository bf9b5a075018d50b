//! Which cluster a command works on, said in one line.

use super::args::ClusterArgs;
use super::error::{CliError, ErrorKind};
use super::output::Output;
use crate::cluster::embedded::{Embedded, Options};
use std::future::Future;
use std::path::{Path, PathBuf};

/// Where the embedded cluster is, below the repository's root.
const FOLDER: &str = ".stator/cluster";

/// What a user is told who asks for a Kubernetes cluster.
const NOT_YET: &str = "this release works on the embedded cluster only; pass `--cluster embedded`, or apply the output of \
                       `stator render` with kubectl";

/// Why this cluster and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Asked,
    NoKubeconfig,
    KubeconfigUnsupported(PathBuf),
}

/// Opens the cluster that the options, the environment or the machine name, and says which on standard error.
pub fn open(
    arguments: &ClusterArgs,
    root: &Path,
    environment_context: Option<&str>,
    output: &Output,
) -> Result<Embedded, CliError> {
    let (folder, why) = choose(arguments, root, environment_context)?;
    let folder = shorten(&folder);
    let shown = folder.display();
    output.note(&match why {
        Why::Asked => format!("Using the embedded cluster in {shown}."),
        Why::NoKubeconfig => format!("Using the embedded cluster in {shown}, as there is no kubeconfig."),
        Why::KubeconfigUnsupported(kubeconfig) => format!(
            "Using the embedded cluster in {shown}: {} is passed over, as this release does not work on Kubernetes.",
            kubeconfig.display()
        ),
    });
    let cluster = Embedded::open(&folder, Options::default())?;
    if folder.ends_with(FOLDER) {
        keep_out_of_git(&folder);
    }
    Ok(cluster)
}

/// Live objects are no part of what git declares, and a commit of them would be applied by nobody.
fn keep_out_of_git(folder: &Path) {
    let Some(ignore) = folder.parent().map(|parent| parent.join(".gitignore")) else { return };
    if !ignore.exists() {
        // A folder that cannot be written to needs no telling git about it.
        let _ = fs_err::write(ignore, "*\n");
    }
}

fn choose(arguments: &ClusterArgs, root: &Path, environment_context: Option<&str>) -> Result<(PathBuf, Why), CliError> {
    if let Some(cluster) = &arguments.cluster {
        return match cluster.split_once(':') {
            None if cluster == "embedded" => Ok((root.join(FOLDER), Why::Asked)),
            Some(("embedded", folder)) if !folder.is_empty() => Ok((PathBuf::from(folder), Why::Asked)),
            Some(_) | None => Err(CliError::usage(format!("`{cluster}` is no cluster"))
                .hint("write `embedded`, or `embedded:DIR` for a folder of your own")),
        };
    }
    if arguments.context.is_some() || arguments.kubeconfig.is_some() {
        return Err(CliError::usage("a Kubernetes cluster was asked for with --context or --kubeconfig").hint(NOT_YET));
    }
    if let Some(context) = environment_context {
        return Err(
            CliError::usage(format!("the environment asks for the Kubernetes context `{context}`")).hint(NOT_YET)
        );
    }
    Ok((root.join(FOLDER), kubeconfig().map_or(Why::NoKubeconfig, Why::KubeconfigUnsupported)))
}

/// The kubeconfig that kubectl would read, when there is one.
fn kubeconfig() -> Option<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    let candidates: Vec<PathBuf> = match &listed {
        Some(list) => std::env::split_paths(list).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    };
    candidates.into_iter().find(|path| path.is_file())
}

/// A path as short as it can be said from here.
fn shorten(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(fs_err::canonicalize);
    match here {
        Ok(here) => path.strip_prefix(here).map_or_else(|_| path.to_owned(), Path::to_owned),
        Err(_) => path.to_owned(),
    }
}

/// Runs a command's work within `--timeout`.
pub async fn within<T>(
    arguments: &ClusterArgs,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let Some(limit) = arguments.timeout else { return work.await };
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => {
            Err(CliError::new(ErrorKind::Timeout, format!("not done after {limit:?}"))
                .hint("give it more with --timeout"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(cluster: &str) -> ClusterArgs {
        ClusterArgs { cluster: Some(cluster.into()), ..ClusterArgs::default() }
    }

    #[test]
    fn the_embedded_cluster_is_in_the_repository_or_where_one_says() {
        let root = Path::new("/repo");
        assert_eq!(choose(&arguments("embedded"), root, None).unwrap().0, root.join(".stator/cluster"));
        assert_eq!(choose(&arguments("embedded:x/y"), root, None).unwrap().0, PathBuf::from("x/y"));
        // What is asked for on the command line goes over the environment's context.
        assert!(choose(&arguments("embedded"), root, Some("prod")).is_ok());
    }

    #[test]
    fn a_kubernetes_cluster_is_refused_and_never_replaced_in_silence() {
        let root = Path::new("/repo");
        let context = ClusterArgs { context: Some("prod".into()), ..ClusterArgs::default() };
        let kubeconfig = ClusterArgs { kubeconfig: Some("k".into()), ..ClusterArgs::default() };
        for refused in [
            choose(&context, root, None),
            choose(&kubeconfig, root, None),
            choose(&ClusterArgs::default(), root, Some("prod")),
            choose(&arguments("embedded:"), root, None),
            choose(&arguments("kind"), root, None),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.exit(), super::super::error::Exit::Error);
            assert!(!error.hints().is_empty(), "{error}");
        }
    }
}
