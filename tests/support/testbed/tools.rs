//! Programs that check what is installed with them: helm, kubeconform, kubectl, promtool.
//!
//! Go builds the first two from the module `tests/testbed/tools`, and kubectl where there is none on the `PATH`. promtool
//! must be there; Debian has it in `prometheus`, which `.ci/run` fetches where it can. `None` means: skip the test, it has
//! been said loudly. Where `CI` is set a missing one fails the test.

use super::{GoModule, is_there, skipped};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A tool of the module `tests/testbed/tools`.
const fn tool(package: &'static str, what: &'static str) -> GoModule {
    GoModule { name: "tools", package, what, tags: "" }
}

/// The package manager that the chart is for.
pub fn helm() -> Option<&'static Path> {
    static HELM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    found(HELM.get_or_init(|| tool("helm.sh/helm/v4/cmd/helm", "helm").build()))
}

/// Checks manifests against schemas.
pub fn kubeconform() -> Option<&'static Path> {
    static KUBECONFORM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    found(KUBECONFORM.get_or_init(|| tool("github.com/yannh/kubeconform/cmd/kubeconform", "kubeconform").build()))
}

/// Kubernetes' own client, which also builds kustomizations.
pub fn kubectl() -> Option<&'static Path> {
    static KUBECTL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let look = || match is_there("kubectl", "--help") {
        true => Ok("kubectl".into()),
        false => tool("./kubectl", "kubectl").build(),
    };
    found(KUBECTL.get_or_init(look))
}

/// Checks rules and metrics as Prometheus reads them.
pub fn promtool() -> Option<&'static Path> {
    static PROMTOOL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let look = || match is_there("promtool", "--version") {
        true => Ok("promtool".into()),
        false => Err("there is no promtool on the PATH; Debian has it in its package `prometheus`".to_owned()),
    };
    found(PROMTOOL.get_or_init(look))
}

fn found(tool: &'static Result<PathBuf, String>) -> Option<&'static Path> {
    tool.as_deref().map_err(|reason| skipped(reason)).ok()
}
