//! DynamoDeployment and DynamoNimDeployment: services gathered into one graph.

use super::{DEPLOYMENT, LegacyGraph, UnmappedLegacyField};
use serde_json::{Map, Value, json};
use stator_core::dynamo::conversion::{self, ConversionError, MalformedFieldError, MalformedFieldReason};
use stator_core::dynamo::release::Release;
use stator_core::dynamo::{kinds, registry};
use stator_core::fields::ExpectedType;
use stator_core::object::{FieldPath, JsonValueKind, PathSegment};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that belongs to one graph.
#[derive(Debug, Default)]
pub(super) struct LegacyGraphBuilder {
    name: String,
    namespace: Option<String>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    envs: Vec<Value>,
    services: BTreeMap<String, LegacyService>,
    unmapped: Vec<UnmappedLegacyField>,
    documents: BTreeSet<usize>,
}

/// A service in v1alpha1's form, and where it was written.
#[derive(Debug, Default)]
struct LegacyService {
    fields: Map<String, Value>,
    document: usize,
    /// The path of the service in its document.
    path: FieldPath,
    claim: Option<(Value, FieldPath)>,
}

/// Groups by namespace and name of the graph.
#[derive(Debug, Default)]
pub(super) struct LegacyGraphBuilders(pub(super) BTreeMap<(String, String), LegacyGraphBuilder>);

const BUNDLE_REASON: &str =
    "a bundle of the build service, which no longer exists: the image and the command of each component must be given";
const DYNAMO_NAMESPACE_REASON: &str = "the Dynamo namespace follows from the graph's namespace and name today";
const BUNDLE_TAG_REASON: &str =
    "the class of a bundle; today each component has a command (`python3 -m dynamo.vllm`), which must be given";
const EXTERNAL_SERVICES_REASON: &str = "components find each other by themselves today";
const DEPLOYMENT_CONFIG_REASON: &str =
    "the first SDK read its configuration from this variable; today it is arguments of the command";
const PROCESSOR_REASON: &str = "the frontend does what the processor did";
const ROUTER_REASON: &str =
    "the frontend routes today: `DYN_ROUTER_MODE=kv` is set there for a router that had replicas";
const UNKNOWN_FIELD_REASON: &str = "the first operator had no such field";

impl LegacyGraphBuilder {
    pub(super) fn document_indices(&self) -> Vec<usize> {
        self.documents.iter().copied().collect()
    }

    fn record_unmapped(&mut self, document: usize, path: FieldPath, value: Value, why: impl Into<String>) {
        self.unmapped.push(UnmappedLegacyField { document, path, value, reason: why.into() });
    }
}

impl LegacyGraphBuilders {
    /// Takes a document in; every fault of its form when it cannot be read.
    pub(super) fn add_document(&mut self, place: usize, document: &Value) -> Result<(), Vec<MalformedFieldError>> {
        let mut faults = Vec::new();
        let empty = Map::new();
        let path = FieldPath::from_fields(["spec"]);
        let spec = expect_map(document.get("spec"), &path, &mut faults).unwrap_or(&empty);
        let metadata =
            expect_map(document.get("metadata"), &FieldPath::from_fields(["metadata"]), &mut faults).unwrap_or(&empty);
        let text = |fields: &Map<String, Value>, name: &str| {
            fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let Some(own) = text(metadata, "name") else {
            let path = FieldPath::from_fields(["metadata", "name"]);
            faults.push(MalformedFieldError {
                path,
                reason: MalformedFieldReason::Other("a name is missing".to_owned()),
            });
            return Err(faults);
        };
        let is_deployment = document.get("kind").and_then(Value::as_str) == Some(DEPLOYMENT);
        // A component belongs to the deployment that owns it, or else to the others of its Dynamo namespace.
        let owner = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let owner = owner.filter_map(Value::as_object).find(|owner| text(owner, "kind").as_deref() == Some(DEPLOYMENT));
        let graph = match owner.and_then(|owner| text(owner, "name")) {
            _ if is_deployment => own.clone(),
            Some(owner) => owner,
            None => text(spec, "dynamoNamespace").unwrap_or_else(|| own.clone()),
        };
        let namespace = text(metadata, "namespace");
        let mut services = Vec::new();
        if is_deployment {
            let below = path.field("services");
            for (name, service) in expect_map(spec.get("services"), &below, &mut faults).unwrap_or(&empty) {
                let path = below.field(name.clone());
                let fields = expect_map(Some(service), &path, &mut faults).cloned().unwrap_or_default();
                services.push((name.clone(), LegacyService { fields, document: place, path, claim: None }));
            }
        } else {
            let name = text(spec, "serviceName").unwrap_or_else(|| own.clone());
            let fields = spec.clone();
            services.push((name, LegacyService { fields, document: place, path: path.clone(), claim: None }));
        }
        if !faults.is_empty() {
            return Err(faults);
        }

        let group = self.0.entry((namespace.clone().unwrap_or_default(), graph.clone())).or_default();
        group.name = graph;
        group.namespace = namespace;
        group.documents.insert(place);
        if is_deployment {
            for (kind, own) in [("labels", &mut group.labels), ("annotations", &mut group.annotations)] {
                let given = metadata.get(kind).and_then(Value::as_object).into_iter().flatten();
                own.extend(given.map(|(key, value)| (key.clone(), value.clone())));
            }
            for (name, value) in spec {
                match name.as_str() {
                    "services" => {}
                    "envs" => {
                        for variable in value.as_array().into_iter().flatten() {
                            if is_config(variable) {
                                group.record_unmapped(
                                    place,
                                    path.field("envs"),
                                    variable.clone(),
                                    DEPLOYMENT_CONFIG_REASON,
                                );
                            } else {
                                group.envs.push(variable.clone());
                            }
                        }
                    }
                    "dynamoNim" => group.record_unmapped(place, path.field("dynamoNim"), value.clone(), BUNDLE_REASON),
                    _ => group.record_unmapped(place, path.field(name.clone()), value.clone(), UNKNOWN_FIELD_REASON),
                }
            }
        }
        for (name, service) in services {
            group.add_service(name, service, is_deployment);
        }
        Ok(())
    }
}

impl LegacyGraphBuilder {
    /// Adds a service. What the deployment says of it goes over what its component's object says.
    fn add_service(&mut self, name: String, mut service: LegacyService, from_deployment: bool) {
        let place = service.document;
        for (field, why) in [
            ("dynamoNim", BUNDLE_REASON),
            ("dynamoTag", BUNDLE_TAG_REASON),
            ("dynamoNamespace", DYNAMO_NAMESPACE_REASON),
            ("externalServices", EXTERNAL_SERVICES_REASON),
        ] {
            if let Some(value) = service.fields.remove(field) {
                self.record_unmapped(place, service.path.field(field), value, why);
            }
        }
        service.fields.remove("serviceName");
        if let Some(claim) = service.fields.remove("pvc").filter(|claim| !claim.is_null()) {
            service.claim = Some((claim, service.path.field("pvc")));
        }
        if let Some(Value::Array(variables)) = service.fields.get_mut("envs") {
            let configs: Vec<Value> = variables.iter().filter(|variable| is_config(variable)).cloned().collect();
            variables.retain(|variable| !is_config(variable));
            let path = service.path.field("envs");
            for variable in configs {
                self.record_unmapped(place, path.clone(), variable, DEPLOYMENT_CONFIG_REASON);
            }
        }
        match self.services.get_mut(&name) {
            None => {
                self.services.insert(name, service);
            }
            Some(known) => {
                let (mut under, over) =
                    if from_deployment { (std::mem::take(known), service) } else { (service, std::mem::take(known)) };
                let mut replaced = Vec::new();
                for (field, value) in over.fields {
                    if let Some(old) = under.fields.insert(field.clone(), value.clone())
                        && old != value
                    {
                        replaced.push((field, old));
                    }
                }
                let (document, path) = (under.document, under.path.clone());
                *known = LegacyService {
                    fields: under.fields,
                    document: over.document,
                    path: over.path,
                    claim: over.claim.or(under.claim),
                };
                for (field, old) in replaced {
                    self.record_unmapped(
                        document,
                        path.field(field),
                        old,
                        "the deployment sets another value for this service",
                    );
                }
            }
        }
    }

    /// Leaves the services that have no component today, and routes at the frontend for a router that ran.
    fn remove_obsolete_services(&mut self) {
        let gone: Vec<(String, &str)> = self
            .services
            .keys()
            .filter_map(|name| match name.to_lowercase().as_str() {
                "processor" => Some((name.clone(), PROCESSOR_REASON)),
                "router" | "kvrouter" => Some((name.clone(), ROUTER_REASON)),
                _ => None,
            })
            .collect();
        for (name, why) in gone {
            let Some(service) = self.services.remove(&name) else { continue };
            let ran = service.fields.get("replicas").and_then(Value::as_i64) != Some(0);
            let frontend =
                self.services.iter_mut().find(|(name, _)| infer_component_type(name, false) == Some("frontend"));
            if let (ROUTER_REASON, true, Some((_, frontend))) = (why, ran, frontend) {
                let variables = frontend.fields.entry("envs").or_insert_with(|| json!([]));
                if let Value::Array(variables) = variables {
                    let mode = registry::env::ROUTER_MODE;
                    if !variables.iter().any(|variable| variable.get("name").and_then(Value::as_str) == Some(mode)) {
                        variables.push(json!({"name": mode, "value": "kv"}));
                    }
                }
            }
            self.record_unmapped(service.document, service.path, Value::Object(service.fields), why);
        }
    }
}

/// Whether a variable is the one that the first SDK read its configuration from.
fn is_config(variable: &Value) -> bool {
    variable.get("name").and_then(Value::as_str) == Some("DYN_DEPLOYMENT_CONFIG")
}

/// Gives a service the deployment's variables, which its own go before, as the first operator did.
fn add_shared_variables(fields: &mut Map<String, Value>, variables: &[Value]) {
    if variables.is_empty() {
        return;
    }
    let Value::Array(own) = fields.entry("envs").or_insert_with(|| json!([])) else { return };
    let name = |variable: &Value| variable.get("name").cloned();
    let missing: Vec<Value> =
        variables.iter().filter(|one| !own.iter().any(|other| name(other) == name(one))).cloned().collect();
    own.splice(0..0, missing);
}

/// The type of a component, derived from the name of its service: the first SDK named services after what they did.
fn infer_component_type(name: &str, has_prefill: bool) -> Option<&'static str> {
    let name = name.to_lowercase();
    let has = |word: &str| name.contains(word);
    Some(match () {
        () if has("frontend") => "frontend",
        () if has("planner") => "planner",
        () if has("prefill") => "prefill",
        () if has("decode") => "decode",
        // Beside prefill workers the others decode.
        () if has("worker") && has_prefill => "decode",
        () if has("worker") => "worker",
        () => return None,
    })
}

/// The graph of a group, and what its services say that it cannot.
pub(super) fn build_graph(
    mut group: LegacyGraphBuilder,
    left: &mut Vec<UnmappedLegacyField>,
) -> Result<LegacyGraph, ConversionError> {
    group.remove_obsolete_services();
    let has_prefill = group.services.keys().any(|name| infer_component_type(name, false) == Some("prefill"));
    let mut claims = Vec::new();
    let mut services = Map::new();
    let mut places = BTreeMap::new();
    for (name, mut service) in std::mem::take(&mut group.services) {
        if let Some((claim, path)) = service.claim.take() {
            mount_claim(&mut service.fields, &claim);
            match claim_object(&claim, group.namespace.as_deref()) {
                Some(object) if !claims.contains(&object) => claims.push(object),
                Some(_) | None => {}
            }
            for (path, value, why) in unmapped_claim_fields(&claim, &path) {
                group.record_unmapped(service.document, path, value, why);
            }
        }
        match infer_component_type(&name, has_prefill) {
            Some(kind @ ("prefill" | "decode")) => {
                service.fields.insert("componentType".to_owned(), "worker".into());
                service.fields.insert("subComponentType".to_owned(), kind.into());
            }
            Some(kind) => {
                service.fields.insert("componentType".to_owned(), kind.into());
            }
            None => group.unmapped.push(UnmappedLegacyField {
                document: service.document,
                path: service.path.clone(),
                value: name.clone().into(),
                reason: "the name does not say what the component is: give its type, if it has one".to_owned(),
            }),
        }
        add_shared_variables(&mut service.fields, &group.envs);
        places.insert(name.clone(), (service.document, service.path));
        services.insert(name, Value::Object(service.fields));
    }

    let mut metadata = Map::from_iter([("name".to_owned(), group.name.clone().into())]);
    if let Some(namespace) = &group.namespace {
        metadata.insert("namespace".to_owned(), namespace.clone().into());
    }
    for (name, map) in [("labels", &group.labels), ("annotations", &group.annotations)] {
        if !map.is_empty() {
            metadata.insert(name.to_owned(), Value::Object(map.clone()));
        }
    }
    let spec = json!({"services": services});
    let alpha =
        json!({"apiVersion": "nvidia.com/v1alpha1", "kind": kinds::GRAPH.kind, "metadata": metadata, "spec": spec});
    let converted = conversion::convert(&alpha, Release::STABLE)?;
    for aside in converted.unmapped {
        // `spec.services.NAME.…` stands in the document of the service, below the service's own path there.
        let Some(PathSegment::Field(name)) = aside.path.0.get(2) else { continue };
        let Some((document, path)) = places.get(name) else { continue };
        let below = aside.path.0.get(3..).unwrap_or_default();
        let path = FieldPath(path.0.iter().chain(below).cloned().collect());
        group.unmapped.push(UnmappedLegacyField {
            document: *document,
            path,
            value: aside.value,
            reason: aside.reason.to_owned(),
        });
    }
    left.append(&mut group.unmapped);
    let mut document = converted.document;
    // What the conversion keeps for the operator is of no use here: nothing was ever stored at v1alpha1.
    if let Some(Value::Object(metadata)) = document.get_mut("metadata") {
        let empty = match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) => {
                annotations.retain(|key, _| !registry::is_operator_key(key));
                annotations.is_empty()
            }
            Some(_) | None => false,
        };
        if empty {
            metadata.remove("annotations");
        }
    }
    Ok(LegacyGraph { document, claims, document_indices: group.documents.into_iter().collect() })
}

/// Mounts a claim into the main container, as the first operator did.
fn mount_claim(service: &mut Map<String, Value>, claim: &Value) {
    let text = |name: &str| claim.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(name), Some(path)) = (text("name"), text("mountPoint")) else { return };
    let pod = service.entry("extraPodSpec").or_insert_with(|| json!({}));
    let Value::Object(pod) = pod else { return };
    let push = |place: &mut Value, item: Value| {
        if let Value::Array(items) = place {
            items.push(item);
        }
    };
    let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
    push(volumes, json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let main = pod.entry("mainContainer").or_insert_with(|| json!({}));
    if let Value::Object(main) = main {
        let mounts = main.entry("volumeMounts").or_insert_with(|| json!([]));
        push(mounts, json!({"name": name, "mountPath": path}));
    }
}

/// What a claim says that no volume and no object can.
fn unmapped_claim_fields(claim: &Value, path: &FieldPath) -> Vec<(FieldPath, Value, &'static str)> {
    const KNOWN: &[&str] = &["create", "mountPoint", "name", "size", "storageClass", "volumeAccessMode"];
    let has = |name: &str| claim.get(name).is_some_and(|value| value.as_str().is_some_and(|text| !text.is_empty()));
    let mut found = Vec::new();
    if !has("name") || !has("mountPoint") {
        found.push((path.clone(), claim.clone(), "a claim without a name and a mount point cannot be mounted"));
    } else if claim.get("create") == Some(&Value::Bool(true)) && !has("size") {
        found.push((path.clone(), claim.clone(), "a claim that is to be created needs a size"));
    }
    for (name, value) in claim.as_object().into_iter().flatten() {
        if !KNOWN.contains(&name.as_str()) {
            found.push((path.field(name.clone()), value.clone(), UNKNOWN_FIELD_REASON));
        }
    }
    found
}

/// The PersistentVolumeClaim that the first operator made.
fn claim_object(claim: &Value, namespace: Option<&str>) -> Option<Value> {
    let text = |name: &str| claim.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if claim.get("create") != Some(&Value::Bool(true)) {
        return None;
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": kinds::CLAIM.kind,
        "metadata": {"name": text("name")?},
        "spec": {
            "accessModes": [text("volumeAccessMode").unwrap_or("ReadWriteOnce")],
            "resources": {"requests": {"storage": text("size")?}},
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    if let Some(class) = text("storageClass") {
        object["spec"]["storageClassName"] = class.into();
    }
    Some(object)
}

fn expect_map<'a>(
    value: Option<&'a Value>,
    path: &FieldPath,
    faults: &mut Vec<MalformedFieldError>,
) -> Option<&'a Map<String, Value>> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::Object(map)) => Some(map),
        Some(other) => {
            let reason =
                MalformedFieldReason::WrongType { expected: ExpectedType::Map, found: Some(JsonValueKind::of(other)) };
            faults.push(MalformedFieldError { path: path.clone(), reason });
            None
        }
    }
}
