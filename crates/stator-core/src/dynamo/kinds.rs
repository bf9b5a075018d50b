//! The kinds that stator reads or writes, and the labels and names that mark what is stator's.

/// A kind as stator uses it: one version, one plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKind {
    /// API group, empty for core.
    pub group: &'static str,
    /// The version that stator writes.
    pub version: &'static str,
    /// CamelCase singular.
    pub kind: &'static str,
    /// Lower-case plural, as in URLs.
    pub plural: &'static str,
    /// How people abbreviate it.
    pub short: &'static str,
}

impl ObjectKind {
    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// DynamoGraphDeployment, at the version that stator writes.
pub const GRAPH: ObjectKind = ObjectKind {
    group: "nvidia.com",
    version: "v1beta1",
    kind: "DynamoGraphDeployment",
    plural: "dynamographdeployments",
    short: "dgd",
};
/// DynamoGraphDeploymentRequest.
pub const REQUEST: ObjectKind = ObjectKind {
    group: "nvidia.com",
    version: "v1beta1",
    kind: "DynamoGraphDeploymentRequest",
    plural: "dynamographdeploymentrequests",
    short: "dgdr",
};
/// DynamoModel; v1alpha1 is its only version.
pub const ADAPTER: ObjectKind =
    ObjectKind { group: "nvidia.com", version: "v1alpha1", kind: "DynamoModel", plural: "dynamomodels", short: "dm" };
/// DynamoGraphDeploymentScalingAdapter, made by the operator.
pub const SCALING_ADAPTER: ObjectKind = ObjectKind {
    group: "nvidia.com",
    version: "v1beta1",
    kind: "DynamoGraphDeploymentScalingAdapter",
    plural: "dynamographdeploymentscalingadapters",
    short: "dgdsa",
};
/// PersistentVolumeClaim.
pub const CLAIM: ObjectKind = ObjectKind {
    group: "",
    version: "v1",
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    short: "pvc",
};
/// ConfigMap: the content of a file that pods mount.
pub const CONFIG_MAP: ObjectKind =
    ObjectKind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", short: "cm" };
/// stator's own record of one synced model.
pub const RECORD: ObjectKind =
    ObjectKind { group: "stator.dev", version: "v1alpha1", kind: "Model", plural: "models", short: "model" };
/// What one sync may create, stored before it does.
pub const JOURNAL: ObjectKind = ObjectKind {
    group: "stator.dev",
    version: "v1alpha1",
    kind: "SyncJournal",
    plural: "syncjournals",
    short: "syncjournal",
};

/// Pod: only ever read, to say why a graph is not healthy.
pub const POD: ObjectKind = ObjectKind { group: "", version: "v1", kind: "Pod", plural: "pods", short: "po" };

/// Every kind that stator writes or watches, in the order they are applied.
pub const ALL: &[ObjectKind] = &[JOURNAL, RECORD, CLAIM, CONFIG_MAP, GRAPH, REQUEST, ADAPTER, SCALING_ADAPTER];

/// The kinds that stator renders and prunes.
pub const MANAGED: &[ObjectKind] = &[CLAIM, CONFIG_MAP, GRAPH, REQUEST, ADAPTER];

/// Finds a kind by its name.
pub fn by_name(kind: &str) -> Option<&'static ObjectKind> {
    ALL.iter().find(|known| known.kind == kind)
}

/// The field manager of everything stator applies.
pub const FIELD_MANAGER: &str = "stator";
/// `app.kubernetes.io/managed-by`, always `stator`.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The model that an object belongs to.
pub const LABEL_MODEL: &str = "stator.dev/model";
/// The annotation of a graph that names its GPU, where node labels of its pods do not.
pub const ANNOTATION_GPU: &str = "stator.dev/gpu";
/// The file of the model that a ConfigMap holds, by its name in `spec.files`.
pub const LABEL_FILE: &str = "stator.dev/file";
/// The annotation of a ConfigMap that says where its file lies, from the folder of the `model.yaml`.
pub const ANNOTATION_FILE_SOURCE: &str = "stator.dev/file-source";
/// The repository that an object comes from.
pub const LABEL_REPOSITORY: &str = "stator.dev/repository";
/// The environment that an object was rendered for.
pub const LABEL_ENVIRONMENT: &str = "stator.dev/environment";
/// Where the repository that an object comes from is fetched from, as a digest: what no file of the repository can say.
pub const LABEL_OWNER_ID: &str = "stator.dev/owner-id";
/// The finalizer that Dynamo's operator puts on its objects.
pub const OPERATOR_FINALIZER: &str = "nvidia.com/finalizer";
