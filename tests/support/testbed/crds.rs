//! Dynamo's CRDs and stator's own on the API server.

use super::PATIENCE;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Which definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdSet {
    /// Every one below `crds/`.
    All,
    /// Dynamo's.
    Dynamos,
}

/// The release of Dynamo whose definitions are installed, as its folder is called.
pub type DynamoFolder = &'static str;

/// The oldest release that stator works with: what most tests run against.
pub const OLDEST: DynamoFolder = "1.2";
/// The newest.
pub const NEWEST: DynamoFolder = "1.5";

/// Installs definitions and waits until each is served.
pub async fn install(client: &kube::Client, whose: CrdSet, release: DynamoFolder) -> Result<(), String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut paths = Vec::new();
    for file in files(whose, release)? {
        let crd = read(&file)?;
        let kind: Option<CustomResourceDefinition> =
            serde_json::from_value(crd.clone()).map(Some).map_err(|error| format!("{}: {error}", file.display()))?;
        let Some(crd) = kind else { continue };
        api.create(&PostParams::default(), &crd).await.map_err(|error| format!("{}: {error}", file.display()))?;
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            paths.push(format!("/apis/{}/{}/{}", crd.spec.group, version.name, crd.spec.names.plural));
        }
    }
    if whose == CrdSet::All {
        install_policy_readers(client).await?;
    }
    let start = Instant::now();
    for path in paths {
        // A list tells more than the condition `Established`, which comes before the kind is served.
        while let Err(error) = list(client, &path).await {
            if start.elapsed() > PATIENCE {
                return Err(format!("{path} is not served after {} s: {error}", PATIENCE.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Replaces those of Dynamo's definitions that are installed by those of another release, as an upgrade of its chart does.
pub async fn upgrade(client: &kube::Client, release: DynamoFolder) -> Result<(), String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for file in files(CrdSet::Dynamos, release)? {
        let faulty = |error: String| format!("{}: {error}", file.display());
        let mut definition = read(&file)?;
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let Some(known) = api.get_opt(&name).await.map_err(|error| faulty(error.to_string()))? else { continue };
        definition["metadata"]["resourceVersion"] = json!(known.metadata.resource_version);
        definition["spec"]["conversion"] =
            serde_json::to_value(known.spec.conversion).map_err(|error| faulty(error.to_string()))?;
        let definition = serde_json::from_value(definition).map_err(|error| faulty(error.to_string()))?;
        api.replace(&name, &PostParams::default(), &definition).await.map_err(|error| faulty(error.to_string()))?;
    }
    Ok(())
}

/// Everybody may read the administrators' policies, as with the chart.
async fn install_policy_readers(client: &kube::Client) -> Result<(), String> {
    let name = "stator-fleet-policy-reader";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["stator.dev"], "resources": ["fleetpolicies"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
    });
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{resource}");
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).map_err(|error| error.to_string())?;
        let _made: Value = client.request(request).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn list(client: &kube::Client, path: &str) -> Result<Value, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request(request).await.map_err(|error| error.to_string())
}

/// The CRDs of the repository; `crds/core` describes kinds that every API server has.
fn files(whose: CrdSet, release: DynamoFolder) -> Result<Vec<PathBuf>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let mut found = Vec::new();
    let neighbours = ["gateway-api", "dra-driver"].map(|name| root.join(name));
    let own = (whose == CrdSet::All).then(|| [root.clone()].into_iter().chain(neighbours));
    for folder in own.into_iter().flatten().chain([root.join("dynamo").join(release)]) {
        for entry in fs_err::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A CRD, one of Dynamo's stored at v1beta1 where it has that version. Until 1.5 Dynamo stores its graphs as v1alpha1 and converts
/// by a webhook in its operator; without that an API server drops what v1alpha1 does not know.
fn read(file: &Path) -> Result<Value, String> {
    let text = fs_err::read_to_string(file).map_err(|error| error.to_string())?;
    let mut crd: Value = serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let is_dynamos = crd["spec"]["group"] == "nvidia.com";
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let versions = versions.ok_or_else(|| format!("{}: no versions", file.display()))?;
    if is_dynamos && versions.iter().any(|version| version["name"] == "v1beta1") {
        for version in versions {
            version["storage"] = json!(version["name"] == "v1beta1");
        }
    }
    Ok(crd)
}
