//! The kinds that stator reads or writes, and the labels and names that mark what is stator's.

use crate::object::ObjectRef;

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

    /// The object of a name.
    pub fn reference(&self, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// What people and role rules call it: `configmaps`, or `plural.group`.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether an API server has it of its own, without a definition.
    pub fn is_built_in(&self) -> bool {
        matches!(self.group, "" | "batch" | "resource.k8s.io")
    }

    /// Whether nothing can be planned where it may not be listed: Dynamo's kinds and stator's own. Of any other kind, a
    /// namespace may well have no object that stator is about.
    pub fn is_required(&self) -> bool {
        self.group == GRAPH.group || self.group == RECORD.group
    }

    /// Whether stator lists it only where a model, a record or a journal names an object of it, and keeps in memory what
    /// carries stator's label alone: of such a kind a namespace may hold thousands of objects of others.
    pub fn is_on_demand(&self) -> bool {
        ON_DEMAND.contains(self)
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
/// Job: the download of a model's weights.
pub const JOB: ObjectKind = ObjectKind { group: "batch", version: "v1", kind: "Job", plural: "jobs", short: "job" };
/// Service: an address of a model that somebody wrote beside it.
pub const SERVICE: ObjectKind =
    ObjectKind { group: "", version: "v1", kind: "Service", plural: "services", short: "svc" };
/// ResourceClaimTemplate: the devices that pods claim.
pub const RESOURCE_CLAIM_TEMPLATE: ObjectKind = ObjectKind {
    group: "resource.k8s.io",
    version: "v1",
    kind: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    short: "resourceclaimtemplate",
};
/// ComputeDomain of NVIDIA's DRA driver: NVLink between the nodes of one worker.
pub const COMPUTE_DOMAIN: ObjectKind = ObjectKind {
    group: "resource.nvidia.com",
    version: "v1beta1",
    kind: "ComputeDomain",
    plural: "computedomains",
    short: "computedomain",
};
/// HTTPRoute of the Gateway API: which requests of a gateway go to a model.
pub const HTTP_ROUTE: ObjectKind = ObjectKind {
    group: "gateway.networking.k8s.io",
    version: "v1",
    kind: "HTTPRoute",
    plural: "httproutes",
    short: "httproute",
};
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

/// What administrators allow the sources of tenants: cluster-scoped, and only ever read.
pub const FLEET_POLICY: ObjectKind = ObjectKind {
    group: "stator.dev",
    version: "v1alpha1",
    kind: "FleetPolicy",
    plural: "fleetpolicies",
    short: "fpol",
};

/// Pod: only ever read, to say why a graph is not healthy.
pub const POD: ObjectKind = ObjectKind { group: "", version: "v1", kind: "Pod", plural: "pods", short: "po" };

/// Every kind that stator writes or watches, in the order they are applied.
pub const ALL: &[ObjectKind] = &[
    JOURNAL,
    RECORD,
    CLAIM,
    CONFIG_MAP,
    RESOURCE_CLAIM_TEMPLATE,
    COMPUTE_DOMAIN,
    JOB,
    GRAPH,
    REQUEST,
    ADAPTER,
    SCALING_ADAPTER,
    SERVICE,
    HTTP_ROUTE,
];

/// The kinds that stator renders and prunes.
pub const MANAGED: &[ObjectKind] =
    &[CLAIM, CONFIG_MAP, RESOURCE_CLAIM_TEMPLATE, COMPUTE_DOMAIN, JOB, GRAPH, REQUEST, ADAPTER, SERVICE, HTTP_ROUTE];

/// The kinds that a model may have beside what stator renders itself (`spec.manifests`).
pub const IN_MANIFESTS: &[ObjectKind] =
    &[CONFIG_MAP, CLAIM, JOB, SERVICE, HTTP_ROUTE, RESOURCE_CLAIM_TEMPLATE, COMPUTE_DOMAIN];

/// The kinds of [`MANAGED`] that are listed only where one is named: see [`ObjectKind::is_on_demand`].
pub const ON_DEMAND: &[ObjectKind] = &[CONFIG_MAP, RESOURCE_CLAIM_TEMPLATE, COMPUTE_DOMAIN, JOB, SERVICE, HTTP_ROUTE];

/// What to install where a cluster does not serve a kind, as a sentence's end.
pub fn installation_advice(kind: &ObjectKind) -> String {
    if kind.is_built_in() {
        return format!("the cluster is too old: it has to serve {} at `{}`", kind.kind, kind.api_version());
    }
    format!("install the definitions of `{}`, or remove the object from the model", kind.group)
}

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
/// The annotation that names weights by their source: of the Job that downloads them, and of the graph that serves them.
pub const ANNOTATION_WEIGHTS: &str = "stator.dev/weights";
/// The annotation of a route that names the model which gets a share of the requests.
pub const ANNOTATION_CANARY: &str = "stator.dev/canary";
/// The `spec.restart.id` that git had when a graph was created, which Dynamo does not let it be created with: it counts as
/// carried out.
pub const ANNOTATION_CREATED_WITH_RESTART: &str = "stator.dev/created-with-restart";
/// The repository that an object comes from.
pub const LABEL_REPOSITORY: &str = "stator.dev/repository";
/// The environment that an object was rendered for.
pub const LABEL_ENVIRONMENT: &str = "stator.dev/environment";
/// Where the repository that an object comes from is fetched from, as a digest: what no file of the repository can say.
pub const LABEL_OWNER_ID: &str = "stator.dev/owner-id";
/// The finalizer that Dynamo's operator puts on its objects.
pub const OPERATOR_FINALIZER: &str = "nvidia.com/finalizer";
