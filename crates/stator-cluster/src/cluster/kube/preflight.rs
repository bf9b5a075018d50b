//! Whether a cluster is one that stator can work on: which Dynamo's definitions are there, and whether what is written
//! to them is kept.
//!
//! stator writes v1beta1, which is served since Dynamo 1.2. Up to 1.4 it is stored as v1alpha1 and converted by a webhook
//! of Dynamo's operator; a definition without that webhook prunes the spec of every v1beta1 write (dynamo#10419).

use super::api_client::{ACCEPT_JSON, ACCEPT_METADATA, ApiUrl};
use super::connection::KubeConnection;
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use serde_json::Value;
use stator_core::dynamo::kinds::{self, GRAPH, JOURNAL, ObjectKind, RECORD};
use stator_core::dynamo::release::{Definitions, Release};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// The definition of records as this stator needs it.
const MODEL_CRD: &str = include_str!("../../../../../crds/stator.dev_models.yaml");

/// Whose definitions something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreflightSubject {
    /// Dynamo's.
    Dynamo,
    /// stator's own.
    Stator,
}

/// Something that stands in the way, or soon will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightProblem {
    /// Whose it is.
    pub subject: PreflightSubject,
    /// Whether nothing can be read or written until it is gone.
    pub blocks: bool,
    /// What it is.
    pub message: String,
    /// What to do.
    pub fix: String,
}

/// What a look at the cluster finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreflightReport {
    /// The release that the graph's definition is from, as far as known.
    pub release: Option<Release>,
    /// What the installer of the definitions says it is, where it says so.
    pub operator_version: Option<String>,
    /// What stands in the way.
    pub problems: Vec<PreflightProblem>,
}

/// What is known of the definition of graphs.
#[derive(Clone, Debug, Default)]
struct PreflightFacts {
    /// The versions served.
    graph_versions: BTreeSet<String>,
    /// Whether stator's own records are served.
    serves_records: bool,
    /// Whether stator's journals are served.
    serves_journals: bool,
    /// The definition itself; `None` when it may not be read.
    graph_definition: Option<Value>,
    /// The definition of records; `None` when it may not be read.
    record_definition: Option<Value>,
    /// Whether a pod answers for the conversion webhook; `None` when that is unknown.
    webhook_ready: Option<bool>,
}

impl KubeCluster {
    /// Looks whether the cluster has what stator needs. What the user may not read is left out.
    ///
    /// # Errors
    /// When the server does not answer at all.
    pub async fn preflight(&self) -> Result<PreflightReport, ClusterError> {
        let inner = &self.inner;
        let mut facts = PreflightFacts {
            graph_versions: self.served_versions(&GRAPH).await?,
            serves_records: self.served_versions(&RECORD).await?.contains(RECORD.version),
            serves_journals: self.served_versions(&JOURNAL).await?.contains(JOURNAL.version),
            ..PreflightFacts::default()
        };
        let name = format!("{}.{}", GRAPH.plural, GRAPH.group);
        let url = ApiUrl::of_kind(&CRD_KIND, None).join(&name);
        facts.graph_definition = none_if_forbidden(inner.get_document("get", &CRD_KIND, &url, ACCEPT_JSON).await)?;
        let url = ApiUrl::of_kind(&CRD_KIND, None).join(&format!("{}.{}", RECORD.plural, RECORD.group));
        facts.record_definition = none_if_forbidden(inner.get_document("get", &CRD_KIND, &url, ACCEPT_JSON).await)?;
        if let Some(service) = facts.graph_definition.as_ref().and_then(conversion_service) {
            facts.webhook_ready = has_ready_endpoint(inner, &service).await?;
        }
        Ok(evaluate_facts(&facts))
    }
}

/// What a user may not read is not known, and no error.
fn none_if_forbidden<T>(answer: Result<Option<T>, ClusterError>) -> Result<Option<T>, ClusterError> {
    match answer {
        Err(ClusterError::Forbidden { .. }) => Ok(None),
        other => other,
    }
}

/// The service of a definition's conversion webhook, and its namespace.
struct WebhookService {
    namespace: String,
    name: String,
}

fn conversion_service(definition: &Value) -> Option<WebhookService> {
    let service = definition.pointer("/spec/conversion/webhook/clientConfig/service")?;
    let text = |name: &str| service.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(WebhookService { namespace: text("namespace")?, name: text("name")? })
}

/// Whether a pod stands behind the service.
async fn has_ready_endpoint(inner: &KubeConnection, service: &WebhookService) -> Result<Option<bool>, ClusterError> {
    const SLICES: ObjectKind = ObjectKind {
        group: "discovery.k8s.io",
        version: "v1",
        kind: "EndpointSlice",
        plural: "endpointslices",
        short: "endpointslice",
    };
    let url = ApiUrl::of_kind(&SLICES, Some(&service.namespace))
        .query("labelSelector", &format!("kubernetes.io/service-name={}", service.name));
    let Some(slices) = none_if_forbidden(inner.get_document::<Value>("list", &SLICES, &url, ACCEPT_JSON).await)? else {
        return Ok(None);
    };
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let endpoints = list(&slices, "items").into_iter().flat_map(|slice| list(&slice, "endpoints"));
    // An endpoint that says nothing of being ready is.
    let ready = |endpoint: &Value| endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true);
    Ok(Some(endpoints.into_iter().any(|endpoint| ready(&endpoint))))
}

fn evaluate_facts(facts: &PreflightFacts) -> PreflightReport {
    let definition = facts.graph_definition.as_ref();
    let served = definition.and_then(|definition| Definitions::from_served(std::slice::from_ref(definition)).ok());
    let release = served.map(|served| served.release());
    let mut found = PreflightReport { release, ..PreflightReport::default() };
    let annotations = definition.and_then(|definition| definition.pointer("/metadata/annotations"));
    found.operator_version = annotations
        .and_then(|annotations| annotations.get("dynamo.nvidia.com/operator-version"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let mut block = |subject: PreflightSubject, message: String, fix: &str| {
        found.problems.push(PreflightProblem { subject, blocks: true, message, fix: fix.to_owned() });
    };
    if facts.graph_versions.is_empty() {
        block(
            PreflightSubject::Dynamo,
            "Dynamo is not installed in the cluster: it does not serve DynamoGraphDeployment".to_owned(),
            "install the Helm chart `dynamo-platform`, 1.2 or later, which includes the definitions and the operator",
        );
    } else if !facts.graph_versions.contains(GRAPH.version) {
        let versions: Vec<&str> = facts.graph_versions.iter().map(String::as_str).collect();
        block(
            PreflightSubject::Dynamo,
            format!(
                "the cluster's Dynamo is older than 1.2: it serves DynamoGraphDeployment at {} only, and stator writes {}",
                versions.join(", "),
                GRAPH.version
            ),
            "upgrade the Helm chart `dynamo-platform` to 1.2 or later, its definitions included",
        );
    }
    if !facts.serves_records {
        block(
            PreflightSubject::Stator,
            "the definition of stator's records is not installed: the cluster does not serve models.stator.dev"
                .to_owned(),
            "install it: `kubectl apply --server-side -f crds/stator.dev_models.yaml`",
        );
    }
    if !facts.serves_journals {
        block(
            PreflightSubject::Stator,
            "the definition of stator's journals is not installed: the cluster does not serve syncjournals.stator.dev"
                .to_owned(),
            "install it: `kubectl apply --server-side -f crds/stator.dev_syncjournals.yaml`",
        );
    }
    let missing = facts
        .record_definition
        .as_ref()
        .filter(|_| facts.serves_records)
        .map(missing_status_fields)
        .unwrap_or_default();
    if !missing.is_empty() {
        block(
            PreflightSubject::Stator,
            format!(
                "the cluster's definition of stator's records, models.stator.dev, is older than this stator: its status has no {}",
                missing.join(", ")
            ),
            "apply the definition of this release: `kubectl apply --server-side --force-conflicts -f crds/stator.dev_models.yaml`",
        );
    }
    let converts = definition.and_then(|definition| definition.pointer("/spec/conversion/strategy"));
    let converts = converts.and_then(Value::as_str) == Some("Webhook");
    let stored = definition.and_then(storage_version);
    if facts.graph_versions.contains(GRAPH.version) && stored.is_some_and(|stored| stored != GRAPH.version) && !converts
    {
        block(
            PreflightSubject::Dynamo,
            format!(
                "the cluster stores DynamoGraphDeployment as {} and has no conversion to it: the spec of a {} object would be lost",
                stored.unwrap_or_default(),
                GRAPH.version
            ),
            "install the definitions with the Helm chart `dynamo-platform` (upgradeCRD), which adds the conversion webhook; plain files of the definitions lack it",
        );
    }
    if converts && facts.webhook_ready == Some(false) {
        let WebhookService { namespace, name } = definition
            .and_then(conversion_service)
            .unwrap_or(WebhookService { namespace: String::new(), name: String::new() });
        found.problems.push(PreflightProblem {
            subject: PreflightSubject::Dynamo,
            blocks: false,
            message: format!(
                "no pod answers for the conversion webhook of Dynamo's objects (service {namespace}/{name}): they can be neither read nor written"
            ),
            fix: format!("start Dynamo's operator: `kubectl -n {namespace} get pods` shows its state"),
        });
    }
    found
}

/// The fields of a record's status that a definition does not declare: an apply with one of them is refused. Sorted.
fn missing_status_fields(definition: &Value) -> Vec<String> {
    let fields = |definition: &Value| -> BTreeSet<String> {
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let own = |version: &&Value| version.get("name").and_then(Value::as_str) == Some(RECORD.version);
        let status = versions.filter(own).find_map(|version| version.pointer(STATUS).and_then(Value::as_object));
        status.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    };
    const STATUS: &str = "/schema/openAPIV3Schema/properties/status/properties";
    // The file is one of ours: that it can be read is a test.
    let wanted = serde_saphyr::from_str(MODEL_CRD).map(|own: Value| fields(&own)).unwrap_or_default();
    wanted.difference(&fields(definition)).cloned().collect()
}

/// The version that objects are stored at.
fn storage_version(definition: &Value) -> Option<&str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array)?;
    let version = versions.iter().find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))?;
    version.get("name").and_then(Value::as_str)
}

/// Where kinds are defined.
pub(super) const CRD_KIND: ObjectKind = ObjectKind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    short: "crd",
};

impl KubeConnection {
    /// The definitions of Dynamo's kinds, `None` where that of graphs may not be read. They are read once, and again when one
    /// of them has another resource version.
    pub(super) async fn definitions(&self) -> Result<Option<Definitions>, ClusterError> {
        let known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            let heads = self.read_definitions(ACCEPT_METADATA).await?;
            if known.are_of(&heads) {
                return Ok(Some(known));
            }
        }
        let served = match Definitions::from_served(&self.read_definitions(ACCEPT_JSON).await?) {
            Ok(served) => Some(served),
            Err(error) => {
                tracing::info!(%error, "the definitions of the cluster are not those of a known Dynamo");
                None
            }
        };
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&served);
        Ok(served)
    }

    async fn read_definitions(&self, accept: &str) -> Result<Vec<Value>, ClusterError> {
        let mut found = Vec::new();
        for kind in kinds::MANAGED.iter().filter(|kind| kind.group == GRAPH.group) {
            // What may not be read is as if it were not there: the release's own stands in.
            let url = ApiUrl::of_kind(&CRD_KIND, None).join(&format!("{}.{}", kind.plural, kind.group));
            match self.get_document("get", &CRD_KIND, &url, accept).await {
                Ok(definition) => found.extend(definition),
                Err(ClusterError::Forbidden { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(versions: &[&str], stored: &str, conversion: Value, component: Value) -> PreflightFacts {
        let version = |name: &&str| {
            json!({"name": name, "served": true, "storage": *name == stored, "schema": {"openAPIV3Schema": {
                "properties": {"spec": {"properties": {"components": {"items": {"properties": component}}}}}}}})
        };
        let definition = json!({
            "metadata": {"annotations": {"dynamo.nvidia.com/operator-version": "1.3.0"}},
            "spec": {"group": "nvidia.com", "names": {"kind": "DynamoGraphDeployment"}, "conversion": conversion, "versions": versions.iter().map(version).collect::<Vec<_>>()},
        });
        PreflightFacts {
            graph_versions: versions.iter().map(|version| (*version).to_owned()).collect(),
            serves_records: true,
            serves_journals: true,
            graph_definition: Some(definition),
            record_definition: None,
            webhook_ready: None,
        }
    }

    #[test]
    fn a_definition_of_records_from_an_older_stator_is_told_before_anything_is_written() {
        let own: Value = serde_saphyr::from_str(MODEL_CRD).unwrap();
        let current =
            PreflightFacts { record_definition: Some(own.clone()), ..facts(BOTH, "v1beta1", json!({}), json!({})) };
        insta::assert_snapshot!(said(&current), @"1.2");
        let mut older = own;
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let fields = older.pointer_mut(status).unwrap().as_object_mut().unwrap();
        fields.retain(|name, _| !["gpuSku", "conditions"].contains(&name.as_str()));
        let older = PreflightFacts { record_definition: Some(older), ..current };
        insta::assert_snapshot!(said(&older), @"
        1.2
        error: the cluster's definition of stator's records, models.stator.dev, is older than this stator: its status has no conditions, gpuSku
          apply the definition of this release: `kubectl apply --server-side --force-conflicts -f crds/stator.dev_models.yaml`
        ");
    }

    fn said(facts: &PreflightFacts) -> String {
        let found = evaluate_facts(facts);
        let mut lines = vec![found.release.map_or("no release".to_owned(), |release| release.to_string())];
        lines.extend(
            found
                .problems
                .iter()
                .map(|one| format!("{}: {}\n  {}", if one.blocks { "error" } else { "warning" }, one.message, one.fix)),
        );
        lines.join("\n")
    }

    fn hook() -> Value {
        json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "dynamo", "name": "operator"}}}})
    }

    const BOTH: &[&str] = &["v1alpha1", "v1beta1"];

    #[test]
    fn the_release_is_that_of_the_definition() {
        let newer = json!({"runtimeVersionOverride": {"type": "string"}});
        let none = json!({"strategy": "None"});
        for (facts, release) in [
            (facts(&["v1alpha1"], "v1alpha1", none.clone(), json!({})), None),
            (facts(BOTH, "v1alpha1", hook(), json!({})), Some(Release::V1_2)),
            (facts(BOTH, "v1beta1", none, newer), Some(Release::V1_4)),
        ] {
            assert_eq!(evaluate_facts(&facts).release, release);
        }
        // A definition that may not be read says nothing, and nothing is made up.
        let unread = PreflightFacts { graph_definition: None, ..facts(BOTH, "v1beta1", hook(), json!({})) };
        assert_eq!(evaluate_facts(&unread), PreflightReport::default());
    }

    #[test]
    fn what_stands_in_the_way_is_said_with_what_to_do() {
        insta::assert_snapshot!(said(&PreflightFacts::default()), @"
        no release
        error: Dynamo is not installed in the cluster: it does not serve DynamoGraphDeployment
          install the Helm chart `dynamo-platform`, 1.2 or later, which includes the definitions and the operator
        error: the definition of stator's records is not installed: the cluster does not serve models.stator.dev
          install it: `kubectl apply --server-side -f crds/stator.dev_models.yaml`
        error: the definition of stator's journals is not installed: the cluster does not serve syncjournals.stator.dev
          install it: `kubectl apply --server-side -f crds/stator.dev_syncjournals.yaml`
        ");
        insta::assert_snapshot!(said(&facts(&["v1alpha1"], "v1alpha1", Value::Null, json!({}))), @"
        no release
        error: the cluster's Dynamo is older than 1.2: it serves DynamoGraphDeployment at v1alpha1 only, and stator writes v1beta1
          upgrade the Helm chart `dynamo-platform` to 1.2 or later, its definitions included
        ");
        insta::assert_snapshot!(said(&facts(BOTH, "v1alpha1", json!({"strategy": "None"}), json!({}))), @"
        1.2
        error: the cluster stores DynamoGraphDeployment as v1alpha1 and has no conversion to it: the spec of a v1beta1 object would be lost
          install the definitions with the Helm chart `dynamo-platform` (upgradeCRD), which adds the conversion webhook; plain files of the definitions lack it
        ");
        let down = PreflightFacts { webhook_ready: Some(false), ..facts(BOTH, "v1alpha1", hook(), json!({})) };
        insta::assert_snapshot!(said(&down), @"
        1.2
        warning: no pod answers for the conversion webhook of Dynamo's objects (service dynamo/operator): they can be neither read nor written
          start Dynamo's operator: `kubectl -n dynamo get pods` shows its state
        ");
        let up = PreflightFacts { webhook_ready: Some(true), ..down };
        insta::assert_snapshot!(said(&up), @"1.2");
        assert_eq!(evaluate_facts(&up).operator_version.as_deref(), Some("1.3.0"));
    }
}
