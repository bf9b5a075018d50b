//! Other tools that deploy from git or from charts: how they mark what they manage, and what they do to an object that
//! leaves them.
//!
//! Sources: Argo CD "Resource Tracking" (annotation `argocd.argoproj.io/tracking-id`, or the label
//! `app.kubernetes.io/instance`), Flux kustomize-controller and helm-controller (owner labels), Helm 3 (release
//! annotations), Carvel kapp "Apply/delete annotations", kluctl (labels and annotations of `DeploymentItem`), Config Sync
//! "Managing objects" and the `cli-utils` that it and kpt apply with (annotation `config.k8s.io/owning-inventory`), Rancher
//! Fleet, whose agent installs Helm releases and adds marks of its own.

use crate::fields;
use crate::object::Object;
use serde_json::Value;
use std::collections::BTreeSet;

/// A tool that deploys objects and may put them back, or delete them. One that others deploy through comes after them: where
/// an object carries the marks of both, the other one decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeploymentTool {
    /// Argo CD.
    ArgoCd,
    /// Flux, by a Kustomization or a HelmRelease.
    Flux,
    /// Carvel kapp.
    Kapp,
    /// kluctl.
    Kluctl,
    /// Google's Config Sync.
    ConfigSync,
    /// Rancher's Fleet.
    Fleet,
    /// Helm, by a release.
    Helm,
    /// kpt, by `kpt live apply`.
    Kpt,
}

/// Prefixes of labels and annotations that only the tool writes.
const MARKS: &[(&str, DeploymentTool)] = &[
    ("argocd.argoproj.io/", DeploymentTool::ArgoCd),
    ("kustomize.toolkit.fluxcd.io/", DeploymentTool::Flux),
    ("helm.toolkit.fluxcd.io/", DeploymentTool::Flux),
    ("meta.helm.sh/", DeploymentTool::Helm),
    ("kapp.k14s.io/", DeploymentTool::Kapp),
    ("kluctl.io/", DeploymentTool::Kluctl),
    ("configsync.gke.io/", DeploymentTool::ConfigSync),
    ("configmanagement.gke.io/", DeploymentTool::ConfigSync),
    ("objectset.rio.cattle.io/", DeploymentTool::Fleet),
    ("config.k8s.io/owning-inventory", DeploymentTool::Kpt),
];

/// The label by which Argo CD tracks where it is not set to annotations. Charts write it, too: it is a mark only where Argo CD
/// owns it.
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// What says that a tool manages an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTracking {
    /// The tool.
    pub tool: DeploymentTool,
    /// The label or annotation by which it is known; the first one where there are several.
    pub mark: String,
    /// All its labels of the object.
    pub labels: BTreeSet<String>,
    /// All its annotations of the object.
    pub annotations: BTreeSet<String>,
}

impl DeploymentTool {
    /// The tool's own name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArgoCd => "Argo CD",
            Self::Flux => "Flux",
            Self::Helm => "Helm",
            Self::Kapp => "kapp",
            Self::Kluctl => "kluctl",
            Self::ConfigSync => "Config Sync",
            Self::Fleet => "Fleet",
            Self::Kpt => "kpt",
        }
    }

    /// What the tool does to an object that it still manages, and how it lets go of one without deleting it.
    pub fn release_advice(self) -> &'static str {
        match self {
            Self::ArgoCd => {
                "while its Application has the object, Argo CD puts its own fields back, and deletes it with the \
                 Application: turn off automated sync and prune, or delete the Application with `argocd app delete APP \
                 --cascade=false`"
            }
            Self::Flux => {
                "while its Kustomization or HelmRelease has the object, Flux puts its own fields back every interval: \
                 run `flux suspend kustomization NAME`, and set `spec.prune: false` before the object leaves its \
                 repository"
            }
            Self::Helm => {
                "the next `helm upgrade` puts its own fields back, and `helm uninstall` deletes the object: annotate it \
                 `helm.sh/resource-policy: keep` in the chart and upgrade once, or delete the release's Secret \
                 (`owner=helm,name=RELEASE`) instead of uninstalling"
            }
            Self::Kapp => {
                "the next `kapp deploy` puts its own fields back, and deletes the object once it is not in the app: \
                 annotate it `kapp.k14s.io/delete-strategy: orphan` in the app, deploy once, and remove it from the app \
                 then"
            }
            Self::Kluctl => {
                "the next `kluctl deploy` puts its own fields back, and `kluctl prune` deletes the object as long as it \
                 has the label `kluctl.io/discriminator`: remove it from the deployment, and do not prune before the \
                 adoption"
            }
            Self::ConfigSync => {
                "Config Sync puts its own fields back within a minute: set `configmanagement.gke.io/managed: disabled` \
                 in its repository first"
            }
            Self::Fleet => {
                "Fleet deletes the object with its bundle: set `spec.keepResources: true` on the GitRepo before it is \
                 removed"
            }
            Self::Kpt => {
                "the next `kpt live apply` puts its own fields back, and deletes the object once it is not in the \
                 package: annotate it `client.lifecycle.config.k8s.io/deletion: detach` in the package, apply once, and \
                 remove it from the package then"
            }
        }
    }
}

/// Whether a label or annotation is a mark of such a tool.
pub fn is_tool_mark(key: &str) -> bool {
    tool_of_key(key).is_some()
}

fn tool_of_key(key: &str) -> Option<DeploymentTool> {
    MARKS.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, tool)| *tool)
}

/// The tool that manages an object, by its marks. Where there are several, the first in the order of [`DeploymentTool`];
/// the marks of all of them are given.
pub fn tracking_of(object: &Object) -> Option<ToolTracking> {
    let marked = |keys: Vec<&str>| -> BTreeSet<String> {
        keys.into_iter().filter(|key| is_tool_mark(key)).map(str::to_owned).collect()
    };
    let mut labels = marked(object.labels().into_keys().collect());
    let annotations = marked(object.annotations().into_keys().collect());
    let tools = annotations.iter().chain(&labels).filter_map(|key| Some((tool_of_key(key)?, key.clone())));
    let by_key = tools.min();
    let is_instance_owned = object.labels().contains_key(INSTANCE_LABEL) && is_label_owned_by_argo_cd(object);
    if is_instance_owned {
        labels.insert(INSTANCE_LABEL.to_owned());
    }
    let by_label = is_instance_owned.then(|| (DeploymentTool::ArgoCd, INSTANCE_LABEL.to_owned()));
    let (tool, mark) = by_key.or(by_label)?;
    Some(ToolTracking { tool, mark, labels, annotations })
}

/// Argo CD's field managers are called `argocd-controller` (server-side apply) and `argocd-application-controller`.
fn is_label_owned_by_argo_cd(object: &Object) -> bool {
    let entries = object.value().pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().any(|entry| {
        let owns = |fields: &Value| {
            let labels = fields.get("f:metadata").and_then(|metadata| metadata.get("f:labels"));
            labels.is_some_and(|labels| labels.get(format!("f:{INSTANCE_LABEL}")).is_some())
        };
        entry.get("manager").and_then(Value::as_str).is_some_and(|name| name.starts_with("argocd"))
            && fields::fields_v1(entry).is_some_and(|fields| owns(&fields))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn graph(metadata: Value) -> Object {
        let mut value =
            json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": metadata});
        value["metadata"]["name"] = json!("llama");
        value["metadata"]["namespace"] = json!("prod");
        Object::from_value(value).unwrap()
    }

    #[test]
    fn a_tool_is_known_by_its_marks_and_all_of_them_are_found() {
        let of_flux = graph(json!({
            "labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
                       "team": "search"},
            "annotations": {"note": "x"},
        }));
        let found = tracking_of(&of_flux).unwrap();
        assert_eq!((found.tool, found.mark.as_str()), (DeploymentTool::Flux, "kustomize.toolkit.fluxcd.io/name"));
        assert_eq!(found.labels.len(), 2);
        assert_eq!(tracking_of(&graph(json!({"labels": {"team": "search"}}))), None);
    }

    /// Flux and Fleet install Helm releases: it is they who put an object back, and not whoever runs `helm`.
    #[test]
    fn who_deploys_through_another_tool_is_named_and_not_that_one() {
        let release = |labels: Value, more: (&str, &str)| {
            let annotations = json!({"meta.helm.sh/release-name": "ml", (more.0): more.1});
            tracking_of(&graph(json!({"labels": labels, "annotations": annotations}))).unwrap()
        };
        let fleet =
            release(json!({"objectset.rio.cattle.io/hash": "e852"}), ("objectset.rio.cattle.io/id", "default-ml"));
        assert_eq!((fleet.tool, fleet.mark.as_str()), (DeploymentTool::Fleet, "objectset.rio.cattle.io/hash"));
        assert_eq!((fleet.labels.len(), fleet.annotations.len()), (1, 2), "the marks of both go");
        let flux = release(json!({"helm.toolkit.fluxcd.io/name": "ml"}), ("note", "x"));
        assert_eq!(flux.tool, DeploymentTool::Flux);
        let kpt = graph(json!({"annotations": {"config.k8s.io/owning-inventory": "ns_main"}}));
        assert_eq!(tracking_of(&kpt).unwrap().tool, DeploymentTool::Kpt);
    }

    /// Charts write `app.kubernetes.io/instance` as well, so that it says something only where Argo CD wrote it.
    #[test]
    fn an_instance_label_is_argo_cds_only_where_argo_cd_owns_it() {
        let owned_by = |manager: &str| {
            graph(json!({
                "labels": {INSTANCE_LABEL: "llama"},
                "managedFields": [{"manager": manager, "operation": "Update", "apiVersion": "nvidia.com/v1beta1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{INSTANCE_LABEL}"): {}}}}}],
            }))
        };
        assert_eq!(tracking_of(&owned_by("helm")), None);
        let found = tracking_of(&owned_by("argocd-controller")).unwrap();
        assert_eq!((found.tool, found.labels.len()), (DeploymentTool::ArgoCd, 1));
    }
}
