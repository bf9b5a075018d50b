//! The administrators' policies of an embedded cluster: files of a folder beside its namespaces.

use super::EmbeddedCluster;
use crate::cluster::ClusterError;
use serde_json::Value;
use stator_core::dynamo::kinds::FLEET_POLICY;
use std::io;
use std::path::Path;

impl EmbeddedCluster {
    /// All `FleetPolicy` objects: `<folder>/fleetpolicies.stator.dev/<name>.yaml`. The folder's name is no namespace's.
    ///
    /// # Errors
    /// When one cannot be read.
    pub async fn fleet_policies(&self) -> Result<Vec<Value>, ClusterError> {
        let folder = self.folder().join(FLEET_POLICY.resource());
        let read = tokio::task::spawn_blocking(move || read_folder(&folder)).await;
        read.unwrap_or_else(|_| {
            Err(ClusterError::Damaged { path: FLEET_POLICY.resource(), message: "reading it failed".to_owned() })
        })
    }
}

fn read_folder(folder: &Path) -> Result<Vec<Value>, ClusterError> {
    let damaged = |path: &Path, message: String| ClusterError::Damaged { path: path.display().to_string(), message };
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(damaged(folder, error.to_string())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| damaged(folder, error.to_string()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs_err::read_to_string(&path).map_err(|error| damaged(&path, error.to_string()))?;
            found.push((
                path.clone(),
                serde_saphyr::from_str(&text).map_err(|error| damaged(&path, error.to_string()))?,
            ));
        }
    }
    found.sort_by(|(a, _): &(std::path::PathBuf, Value), (b, _)| a.cmp(b));
    Ok(found.into_iter().map(|(_, object)| object).collect())
}
