//! Where the administrators' policies come from: a file or folder that they name, and objects of the cluster. No file of a
//! repository is one of them.

use crate::cluster::{AnyCluster, ClusterError};
use crate::sync::gather::with_retries;
use serde_json::{Value, json};
use stator_core::finding::{Finding, Location};
use stator_model::fleet_policy::{
    FleetPolicies, FleetPolicy, JudgedSource, SourcePolicies, read_policies, read_policy, rules,
};
use stator_model::intent::yaml::{MAX_BYTES, YamlEntry, YamlNode, YamlValue};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// How many faults of a policy of a cluster are reported.
const MAX_FAULTS: usize = 5;

/// Reads policies whenever they are asked for.
#[derive(Clone, Debug, Default)]
pub struct FleetPolicyReader {
    /// A file of policies, or a folder of such files.
    pub path: Option<PathBuf>,
    /// The cluster that has policies, as whoever may read them.
    pub cluster: Option<AnyCluster>,
}

/// Reads what one source is held to. By default, nothing.
#[derive(Clone, Debug, Default)]
pub struct SourcePolicyReader {
    /// Where policies come from.
    pub reader: FleetPolicyReader,
    /// The source.
    pub source: JudgedSource,
}

impl SourcePolicyReader {
    /// The policies as they are now. What cannot be read refuses everything.
    pub async fn read(&self) -> SourcePolicies {
        let unread = |error: ClusterError| FleetPolicies::new([], vec![format!("{error}; {}", error.help())]);
        SourcePolicies { policies: self.reader.read().await.unwrap_or_else(unread), source: self.source.clone() }
    }
}

impl FleetPolicyReader {
    /// All policies as they are now. A policy with a fault is among them, and refuses everything.
    ///
    /// # Errors
    /// When the cluster does not tell which it has. Whoever works on must not take that for none.
    pub async fn read(&self) -> Result<FleetPolicies, ClusterError> {
        let of_files = match self.path.clone() {
            Some(path) => {
                let read = tokio::task::spawn_blocking(move || read_policy_files(&path)).await;
                let read = read.unwrap_or_else(|_| Err(vec![unreadable(Path::new(""), "reading it failed")]));
                read.unwrap_or_else(|findings| FleetPolicies::new([], findings.iter().map(describe_finding).collect()))
            }
            None => FleetPolicies::default(),
        };
        let of_cluster = match &self.cluster {
            Some(cluster) => policies_of_cluster(cluster).await?,
            None => FleetPolicies::default(),
        };
        Ok(of_files.and(of_cluster))
    }
}

fn describe_finding(finding: &Finding) -> String {
    let Location { file, line, column, .. } = &finding.location;
    format!("{file}:{line}:{column}: {}", finding.message)
}

/// The policies of a file, or of every `.yaml` and `.yml` file of a folder.
///
/// # Errors
/// Every fault of every file.
pub fn read_policy_files(path: &Path) -> Result<FleetPolicies, Vec<Finding>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let listed: Result<Vec<_>, _> =
            fs_err::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        files = listed.map_err(|error| vec![unreadable(path, &error.to_string())])?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
        files.sort();
    }
    let (mut policies, mut findings) = (Vec::new(), Vec::new());
    for file in &files {
        let read = read_bytes(file).map_err(|error| vec![unreadable(file, &error.to_string())]);
        match read.and_then(|bytes| read_policies(&file.display().to_string(), &bytes)) {
            Ok(read) => policies.extend(read),
            Err(faults) => findings.extend(faults),
        }
    }
    if findings.is_empty() { Ok(FleetPolicies::new(policies, Vec::new())) } else { Err(findings) }
}

fn read_bytes(file: &Path) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    fs_err::File::open(file)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, reason: &str) -> Finding {
    let help = "Correct the path of the policies, or make the file readable.";
    Finding::error(rules::UNREADABLE, Location::file(path.display().to_string()), reason, help)
}

/// The policies that a cluster has, and what is known of those that cannot be read: nothing may be done against them.
async fn policies_of_cluster(cluster: &AnyCluster) -> Result<FleetPolicies, ClusterError> {
    // An API server puts off the first list of a kind that it has only just begun to store.
    let found = with_retries(|| cluster.fleet_policies()).await?;
    let (mut policies, mut faults) = (Vec::new(), Vec::new());
    for object in &found {
        match read_object(object) {
            Ok(policy) => policies.push(policy),
            Err(fault) => faults.push(fault),
        }
    }
    Ok(FleetPolicies::new(policies, faults))
}

/// Reads an object as a file is read, without what a cluster adds to it.
fn read_object(object: &Value) -> Result<FleetPolicy, String> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut plain = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": name},
    });
    if let Some(spec) = object.get("spec") {
        plain["spec"] = spec.clone();
    }
    read_policy(&to_node(&plain)).map_err(|faults| {
        let messages: Vec<String> = faults.into_iter().take(MAX_FAULTS).map(|fault| fault.message).collect();
        format!("FleetPolicy {name}: {}", messages.join("; "))
    })
}

/// The recursion is as deep as the object, which the API server bounds.
fn to_node(value: &Value) -> YamlNode<()> {
    let value = match value {
        Value::Null => YamlValue::Invalid,
        Value::Bool(flag) => YamlValue::Bool(*flag),
        Value::Number(number) => YamlValue::Number(number.clone()),
        Value::String(text) => YamlValue::Text(text.as_str().into()),
        Value::Array(items) => YamlValue::List(items.iter().map(to_node).collect()),
        Value::Object(fields) => {
            let entry = |(key, value): (&String, &Value)| YamlEntry {
                key: key.as_str().into(),
                key_span: (),
                value: to_node(value),
            };
            YamlValue::Map(fields.iter().map(entry).collect())
        }
    };
    YamlNode { value, span: () }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(policies: &FleetPolicies) -> String {
        let found = policies.bind(&JudgedSource::default(), "any").refusals();
        found.iter().map(|one| format!("{}\n", one.message)).collect()
    }

    #[tokio::test]
    async fn a_folder_has_the_policies_of_all_its_files_and_one_fault_refuses_everything() {
        let folder = tempfile::tempdir().unwrap();
        let policy = |name: &str, spec: &str| {
            format!("apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n")
        };
        fs_err::write(folder.path().join("a.yaml"), policy("a", "{destinations: [a]}")).unwrap();
        fs_err::write(folder.path().join("b.yml"), policy("b", "{destinations: [b]}")).unwrap();
        fs_err::write(folder.path().join("notes.txt"), "not a policy").unwrap();
        let reader = FleetPolicyReader { path: Some(folder.path().to_owned()), cluster: None };
        insta::assert_snapshot!(refusals(&reader.read().await.unwrap()), @r#"
        fleet policy `a`: objects would be written to namespace `any`; allowed: `a`
        fleet policy `b`: objects would be written to namespace `any`; allowed: `b`
        "#);
        fs_err::write(folder.path().join("c.yaml"), policy("c", "{destination: [a]}")).unwrap();
        let messages = refusals(&reader.read().await.unwrap()).replace(&folder.path().display().to_string(), "DIR");
        insta::assert_snapshot!(messages, @"the policies of the fleet cannot be read: DIR/c.yaml:4:8: unknown field `destination` in `spec`");
        let missing = FleetPolicyReader { path: Some(folder.path().join("no")), cluster: None };
        assert!(refusals(&missing.read().await.unwrap()).contains("cannot be read"));
    }

    #[test]
    fn an_object_of_a_cluster_is_read_without_what_the_cluster_adds() {
        let object = |spec: Value| {
            json!({
                "apiVersion": "stator.dev/v1alpha1", "kind": "FleetPolicy",
                "metadata": {"name": "a", "uid": "1", "managedFields": []}, "spec": spec,
            })
        };
        assert!(read_object(&object(json!({"pods": {"level": "restricted"}}))).is_ok());
        insta::assert_snapshot!(read_object(&object(json!({"pods": {"level": "x"}, "rules": [{"name": "a", "message": "b", "expression": "("}]}))).unwrap_err(), @r#"
        FleetPolicy a: `spec.pods.level` is `x`; expected one of `privileged`, `baseline`, `restricted`; not a CEL expression: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (column 2 of the expression)
        "#);
    }
}
