//! What stands for a root file that is not there, and what can be read of one with faults.

use super::decode::decode;
use super::repository::{Environment, Repository, RepositoryKind, RepositoryMetadata, RepositorySpec};
use super::scalar::{DnsName, ModelName};
use super::yaml::YamlNode;
use std::collections::BTreeMap;

/// The name of the environment and namespace of a repository that declares none.
const DEFAULT_NAME: &str = "default";

fn parse_name<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The one environment of a repository that declares none.
pub(super) fn fallback_environments() -> BTreeMap<ModelName, Environment> {
    let environment = parse_name::<DnsName>(DEFAULT_NAME).map(|namespace| Environment {
        namespace,
        context: None,
        defaults: serde_json::Map::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        policy: Vec::new(),
        guards: None,
        platform: None,
    });
    parse_name(DEFAULT_NAME).into_iter().zip(environment).collect()
}

/// The settings of a repository without a root file.
#[expect(clippy::expect_used, reason = "a constant that a test covers")]
pub(super) fn fallback_repository() -> Repository {
    Repository {
        api_version: super::model::ApiVersion::V1Alpha1,
        kind: RepositoryKind::Repository,
        metadata: RepositoryMetadata { name: parse_name(DEFAULT_NAME).expect("`default` is a name") },
        spec: RepositorySpec::default(),
    }
}

/// What can still be read of a root file with faults: its name, and the environments that are whole.
pub(super) fn recover_repository(node: &YamlNode) -> Repository {
    let mut repository = fallback_repository();
    if let Some(name) = node.get("metadata").and_then(|metadata| metadata.get("name")).and_then(YamlNode::as_str)
        && let Some(name) = parse_name(name)
    {
        repository.metadata.name = name;
    }
    let environments = node.get("spec").and_then(|spec| spec.get("environments"));
    for entry in environments.map(YamlNode::entries).unwrap_or_default() {
        if let (Some(name), Ok(environment)) = (parse_name(&entry.key), decode(&entry.value)) {
            repository.spec.environments.insert(name, environment);
        }
    }
    repository
}
