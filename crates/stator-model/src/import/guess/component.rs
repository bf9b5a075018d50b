//! What every component's guess is made of: environment, secrets, resources, images.

use crate::import::command_line::CommandLine;
use crate::intent::model::{
    CompilationCache, EnvFromConfigMap, EnvFromField, EnvFromResource, EnvFromSecret, EnvValue, GraphVariable, Probes,
    Resources, Secrets,
};
use crate::intent::scalar::{DynamoVersion, EnvName, ImageReference, ImageRegistry, Quantity, RuntimeVersion};
use serde_json::{Map, Value};
use stator_core::dynamo::list_order::is_env_order_significant;
use stator_core::dynamo::registry::{self, MAIN_CONTAINER, env};
use std::collections::BTreeMap;

/// A component of the target, read.
#[derive(Clone, Copy, Debug)]
pub struct ComponentManifest<'a> {
    /// The component.
    pub component: &'a Map<String, Value>,
    /// The variables of its graph.
    pub graph_env: Option<&'a Value>,
}

impl<'a> ComponentManifest<'a> {
    /// A text field of the component.
    pub fn text(self, field: &str) -> Option<&'a str> {
        self.component.get(field).and_then(Value::as_str)
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        self.text("name").unwrap_or_default()
    }

    /// `podTemplate.spec`.
    pub fn pod_spec(self) -> Option<&'a Map<String, Value>> {
        self.component.get("podTemplate")?.get("spec")?.as_object()
    }

    /// The container `main`.
    pub fn main_container(self) -> Option<&'a Map<String, Value>> {
        let containers = self.pod_spec()?.get("containers")?.as_array()?;
        let mut maps = containers.iter().filter_map(Value::as_object);
        maps.find(|container| container.get("name").is_some_and(|name| name == MAIN_CONTAINER))
    }

    /// A field of the container `main`.
    pub fn main_field(self, field: &str) -> Option<&'a Value> {
        self.main_container()?.get(field)
    }

    /// `command` and `args` of `main`; none when an item is no text.
    pub fn command_line(self) -> Option<CommandLine> {
        let list = |field: &str| match self.main_field(field) {
            None => Some(None),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>().map(Some)
            }
            Some(_) => None,
        };
        let command = list("command")?.filter(|command| !command.is_empty());
        Some(CommandLine { command, args: list("args")?.unwrap_or_default() })
    }

    /// `replicas`, when it is not the default.
    pub fn replicas(self) -> Option<u32> {
        let count = self.component.get("replicas").and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        count.filter(|count| *count != 1 && *count <= 10_000)
    }

    /// Nodes of one replica, when it is more than one.
    pub fn nodes(self) -> Option<u32> {
        let nodes = self.component.get("multinode")?.get("nodeCount").map_or(Some(2), Value::as_u64)?;
        u32::try_from(nodes).ok().filter(|nodes| (2..=128).contains(nodes))
    }

    /// The image of `main`, when an intent can hold it.
    pub fn image(self) -> Option<ImageReference> {
        self.main_field("image")?.as_str()?.parse().ok()
    }

    /// `workingDir` of `main`.
    pub fn working_dir(self) -> Option<String> {
        self.main_field("workingDir").and_then(Value::as_str).filter(|path| !path.is_empty()).map(str::to_owned)
    }

    /// The probes of `main`.
    pub fn probes(self) -> Option<Probes> {
        let probe = |field: &str| self.main_field(field).and_then(Value::as_object).cloned();
        let probes = Probes {
            startup: probe("startupProbe"),
            liveness: probe("livenessProbe"),
            readiness: probe("readinessProbe"),
        };
        (probes != Probes::default()).then_some(probes)
    }

    /// `minAvailable`.
    pub fn min_available(self) -> Option<u32> {
        let least =
            self.component.get("minAvailable").and_then(Value::as_u64).and_then(|least| u32::try_from(least).ok());
        least.filter(|least| (1..=10_000).contains(least))
    }

    /// `runtimeVersionOverride`.
    pub fn runtime_version(self) -> Option<DynamoVersion> {
        self.text("runtimeVersionOverride")?.parse().ok()
    }

    /// `sharedMemorySize`.
    pub fn shared_memory(self) -> Option<Quantity> {
        self.text("sharedMemorySize")?.parse().ok()
    }

    /// Environment variables of `main` that an intent has words for. stator renders an intent's variables sorted by name:
    /// where their order counts and is another one, there are none, and the list is kept as it stands.
    pub fn env(self) -> BTreeMap<EnvName, EnvValue> {
        let list = self.main_field("env");
        let variables = readable_env(list);
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_rendered_alike = variables.len() == items.len()
            && variables.keys().map(EnvName::as_str).eq(items.iter().filter_map(|item| item.get("name")?.as_str()));
        if is_env_order_significant(items) && !is_rendered_alike { BTreeMap::new() } else { variables }
    }

    /// `compilationCache`, where an intent has words for all of it.
    pub fn compilation_cache(self) -> Option<CompilationCache> {
        let written = self.component.get("compilationCache")?.as_object()?;
        let text = |field: &str| written.get(field).and_then(Value::as_str);
        let claim = text("pvcName")?.parse().ok()?;
        let mount_path = match written.get("mountPath") {
            None => None,
            Some(_) => Some(text("mountPath").filter(|path| path.starts_with('/'))?.to_owned()),
        };
        Some(CompilationCache { claim, mount_path })
    }

    /// The texts of environment variables, as far as they are written out.
    pub fn literal_env(self) -> BTreeMap<String, String> {
        let literal = |(name, value): (EnvName, EnvValue)| match value {
            EnvValue::Literal(text) => Some((name.to_string(), text)),
            EnvValue::Secret(_) | EnvValue::ConfigMap(_) | EnvValue::Field(_) | EnvValue::Resource(_) => None,
        };
        // A pod's own are stronger than the graph's.
        let lists = [self.graph_env, self.main_field("env")];
        lists.into_iter().flat_map(|list| readable_env(list).into_iter().filter_map(literal)).collect()
    }

    /// The text of one of its own environment variables.
    pub fn own_env_text(self, wanted: &str) -> Option<String> {
        let own = Self { graph_env: None, ..self };
        own.literal_env().remove(wanted)
    }

    /// The secrets that the container takes its environment from and that its image is pulled with; none when there
    /// is something that an intent has no words for.
    pub fn secrets(self) -> Option<Secrets> {
        let names = |list: Option<&Value>, name: &dyn Fn(&Value) -> Option<String>| -> Option<Vec<_>> {
            let items = list.and_then(Value::as_array);
            items.into_iter().flatten().map(|item| name(item)?.parse().ok()).collect::<Option<Vec<_>>>()
        };
        let only_name = |item: &Value| -> Option<String> {
            let map = item.as_object().filter(|map| map.len() == 1)?;
            Some(map.get("name")?.as_str()?.to_owned())
        };
        let from_secret = |item: &Value| {
            let map = item.as_object().filter(|map| map.len() == 1)?;
            only_name(map.get("secretRef")?)
        };
        let mut env: Vec<crate::intent::scalar::DnsName> = names(self.main_field("envFrom"), &from_secret)?;
        let image_pull = names(self.pod_spec().and_then(|pod| pod.get("imagePullSecrets")), &only_name)?;
        // The token's variable is not to be seen from outside a Secret: its usual names tell.
        let is_token = |name: &str| name.split(['-', '.']).any(|part| part == "hf" || part.starts_with("hugging"));
        let first_is_token = env.first().is_some_and(|name| is_token(name.as_str()));
        let hugging_face = if first_is_token { Some(env.remove(0)) } else { None };
        Some(Secrets { hugging_face, image_pull, env })
    }

    /// `resources` of `main` besides its GPUs.
    pub fn resources(self, without_limit: Option<&str>) -> Option<Resources> {
        let list = |field: &str| -> BTreeMap<String, Quantity> {
            let map = self.main_field("resources").and_then(|all| all.get(field)).and_then(Value::as_object);
            let quantity = |(name, value): (&String, &Value)| {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
                };
                Some((name.clone(), text.parse().ok()?))
            };
            map.into_iter().flatten().filter_map(quantity).collect()
        };
        let (requests, mut limits) = (list("requests"), list("limits"));
        if let Some(gpus) = without_limit {
            limits.remove(gpus);
        }
        let resources = Resources { requests, limits };
        (resources != Resources::default()).then_some(resources)
    }

    /// GPUs of one pod, as a whole number under `limits`.
    pub fn gpus(self, resource: &str) -> Option<u32> {
        match self.main_field("resources")?.get("limits")?.get(resource)? {
            Value::String(text) => text.parse().ok().filter(|count: &u32| count.to_string() == *text),
            Value::Number(number) => number.as_u64().and_then(|count| u32::try_from(count).ok()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
        .filter(|count| (1..=1024).contains(count))
    }
}

/// The graph's own variables, where an intent has words for all of them.
pub fn read_graph_env(list: Option<&Value>) -> Vec<GraphVariable> {
    let read = |item: &Value| {
        let item = item.as_object()?;
        let name =
            item.get("name")?.as_str().filter(|name| !env::is_identity(name) || is_of_pod(item))?.parse().ok()?;
        Some(GraphVariable { name, value: env_value(item)? })
    };
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.map(read).collect::<Option<_>>().unwrap_or_default()
}

/// Whether a variable is taken from a field of its pod.
fn is_of_pod(item: &Map<String, Value>) -> bool {
    item.get("valueFrom").is_some_and(|from| from.get("fieldRef").is_some())
}

/// Environment variables that an intent has words for, whatever their order.
fn readable_env(list: Option<&Value>) -> BTreeMap<EnvName, EnvValue> {
    let items = list.and_then(Value::as_array);
    // Of a name that is there twice, neither: the list is kept as it stands.
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in items.into_iter().flatten().filter_map(|item| item.get("name")?.as_str()) {
        let count = counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }
    let read = |item: &Value| {
        let item = item.as_object()?;
        let name = item.get("name")?.as_str()?;
        if (env::is_identity(name) && !is_of_pod(item)) || counts.get(name) != Some(&1) {
            return None;
        }
        Some((name.parse().ok()?, env_value(item)?))
    };
    items.into_iter().flatten().filter_map(read).collect()
}

pub fn env_value(item: &Map<String, Value>) -> Option<EnvValue> {
    let Some(from) = item.get("valueFrom") else {
        let value = item.get("value").map_or(Some(""), Value::as_str)?;
        return Some(EnvValue::Literal(value.to_owned()));
    };
    let from = from.as_object().filter(|from| from.len() == 1)?;
    let (kind, key) = from.iter().next()?;
    let only = |field: &str| -> Option<String> {
        let text = key.as_object().filter(|key| key.len() == 1)?.get(field)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    match kind.as_str() {
        "fieldRef" => return Some(EnvValue::Field(EnvFromField { field: only("fieldPath")? })),
        "resourceFieldRef" => return Some(EnvValue::Resource(EnvFromResource { resource: only("resource")? })),
        _ => {}
    }
    let reference = key.as_object().filter(|key| key.len() == 2)?;
    let text = |field: &str| reference.get(field).and_then(Value::as_str);
    let (name, key) = (text("name")?.parse().ok()?, text("key").filter(|key| !key.is_empty())?.to_owned());
    match kind.as_str() {
        "secretKeyRef" => Some(EnvValue::Secret(EnvFromSecret { secret: name, key })),
        "configMapKeyRef" => Some(EnvValue::ConfigMap(EnvFromConfigMap { config_map: name, key })),
        _ => None,
    }
}

/// The value that most of them have; of equals, the first.
pub fn most_common<T: PartialEq + Clone>(values: &[T]) -> Option<T> {
    let count = |value: &T| values.iter().filter(|other| *other == value).count();
    let best = values.iter().map(count).max()?;
    values.iter().find(|value| count(value) == best).cloned()
}

/// The runtime version of NVIDIA's image of a name, and the registry that it is taken from where that is not NVIDIA's.
pub fn runtime_of_image(image: &ImageReference, name: &str) -> Option<(RuntimeVersion, Option<ImageRegistry>)> {
    let (repository, tag) = image.as_str().rsplit_once(':')?;
    let (registry, last) = repository.rsplit_once('/')?;
    if name.is_empty() || last != name {
        return None;
    }
    let own = if registry == registry::IMAGE_REGISTRY { None } else { Some(registry.parse().ok()?) };
    Some((tag.parse().ok()?, own))
}
