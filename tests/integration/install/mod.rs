//! What is in `deploy/`: the chart, the kustomizations, the Dockerfile, the scripts of a release, and what they make.

mod chart;
mod conform;
mod dockerfile;
mod fleet_policy;
mod from_packages;
mod ground;
mod kustomize;
mod lifecycle;
mod packages;
mod release;
mod rights;
mod source_rights;
mod values_doc;

use crate::testbed;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A path of the repository.
pub fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The chart.
pub fn chart() -> PathBuf {
    at("deploy/helm/stator")
}

/// A file of values that the chart is tested with.
pub fn values(name: &str) -> PathBuf {
    chart().join(format!("ci/{name}-values.yaml"))
}

/// Runs helm in a home of its own, without a cluster unless `kubeconfig` names one.
pub fn helm<I, S>(helm: &Path, kubeconfig: Option<&Path>, arguments: I) -> Output
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(helm);
    command
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/no/such/file")));
    command.output().unwrap()
}

/// What the chart renders to, as a release `stator` in `stator-system`. `None`: skip the test, there is no helm.
pub fn rendered(arguments: &[&str]) -> Option<String> {
    let program = testbed::helm()?;
    let chart = chart();
    let fixed = ["template", "stator", chart.to_str().unwrap(), "--namespace", "stator-system"];
    let output = helm(program, None, fixed.iter().chain(arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The objects of a text of YAML documents.
pub fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---").map(|document| document.trim_start_matches("---"));
    let parsed = documents.map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    parsed.filter(|object| object.is_object()).collect()
}

/// What an object is called: `Kind namespace/name`.
pub fn called(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}
