//! What a pod's template says, as a process of this machine.

use super::NodeSettings;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Pod, Volume};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The program that a pod's image stands for; `None` when this node has no such image.
pub fn image(setting: &NodeSettings, pod: &Pod) -> Option<PathBuf> {
    let image = container(pod)?.image.clone()?;
    let repository = image.split('@').next()?;
    // A colon before a slash is a registry's port.
    let repository = match repository.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        Some(_) | None => repository,
    };
    setting.images.iter().find(|(known, _)| known == repository).map(|(_, program)| program.clone())
}

/// The only container of a pod.
pub fn container(pod: &Pod) -> Option<&Container> {
    let spec = pod.spec.as_ref()?;
    match (spec.containers.as_slice(), spec.init_containers.as_deref().unwrap_or_default()) {
        ([one], []) => Some(one),
        _ => None,
    }
}

/// How a container is run here.
#[derive(Debug)]
pub struct ContainerCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// All the variables that it sees.
    pub variables: BTreeMap<String, String>,
}

/// What a template's words stand for here.
#[derive(Debug)]
pub struct TemplateValues<'a> {
    pub pod: &'a Pod,
    /// The folder of each volume.
    pub volumes: &'a BTreeMap<String, PathBuf>,
    /// The real port for each of the pod's.
    pub ports: &'a BTreeMap<u16, u16>,
    /// Secrets and config maps that variables are taken from: by kind, name and key.
    pub values: &'a BTreeMap<(&'static str, String, String), String>,
}

/// A container's command line and variables. `always` is what every pod gets: where the API server is.
pub fn command(
    container: &Container,
    ground: &TemplateValues<'_>,
    program: PathBuf,
    always: BTreeMap<String, String>,
) -> Result<ContainerCommand, String> {
    let mut variables = always;
    if container.env_from.as_ref().is_some_and(|all| !all.is_empty()) {
        return Err("this node reads no envFrom".to_owned());
    }
    for variable in container.env.iter().flatten() {
        let value = value(variable, ground, &variables)?;
        variables.insert(variable.name.clone(), value);
    }
    let words = container.command.iter().flatten().skip(1).chain(container.args.iter().flatten());
    let arguments = words.map(|word| ground.here(container, &expand(word, &variables))).collect();
    let here = |(name, value): (String, String)| (name, ground.here(container, &value));
    let variables = variables.into_iter().map(here).collect();
    Ok(ContainerCommand { program, arguments, variables })
}

fn value(variable: &EnvVar, ground: &TemplateValues<'_>, before: &BTreeMap<String, String>) -> Result<String, String> {
    if let Some(value) = &variable.value {
        return Ok(expand(value, before));
    }
    let Some(from) = &variable.value_from else { return Ok(String::new()) };
    let EnvVarSource { config_map_key_ref, field_ref, secret_key_ref, .. } = from;
    if let Some(field) = field_ref {
        return field_of(ground.pod, &field.field_path);
    }
    let (kind, name, key, optional) = match (config_map_key_ref, secret_key_ref) {
        (Some(map), _) => ("ConfigMap", &map.name, &map.key, map.optional),
        (None, Some(secret)) => ("Secret", &secret.name, &secret.key, secret.optional),
        (None, None) => return Err(format!("this node does not know where {} is from", variable.name)),
    };
    match ground.values.get(&(kind, name.clone(), key.clone())) {
        Some(value) => Ok(value.clone()),
        None if optional == Some(true) => Ok(String::new()),
        None => Err(format!("there is no key {key} in the {kind} {name}")),
    }
}

fn field_of(pod: &Pod, path: &str) -> Result<String, String> {
    let spec = pod.spec.as_ref();
    let found = match path {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "spec.nodeName" => Some(super::kubelet::NAME.to_owned()),
        "status.podIP" | "status.hostIP" => Some("127.0.0.1".to_owned()),
        _ => return Err(format!("this node does not know the field {path}")),
    };
    found.ok_or_else(|| format!("the pod has no {path}"))
}

/// Puts variables in for `$(NAME)`; `$$(NAME)` stays, and so does a name that is not known.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(escaped) = rest.strip_prefix("$$") {
            expanded.push('$');
            rest = escaped;
            continue;
        }
        let known = rest.strip_prefix("$(").and_then(|inner| {
            let (name, after) = inner.split_once(')')?;
            Some((variables.get(name)?, after))
        });
        match known {
            Some((value, after)) => {
                expanded.push_str(value);
                rest = after;
            }
            None => {
                expanded.push('$');
                rest = &rest[1..];
            }
        }
    }
    expanded + rest
}

impl TemplateValues<'_> {
    /// A word with the folders of volumes and the real ports in it.
    fn here(&self, container: &Container, word: &str) -> String {
        let (start, word) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (format!("{flag}="), value),
            Some(_) | None => (String::new(), word),
        };
        let mounts = container.volume_mounts.iter().flatten();
        // The innermost mount that holds it.
        let mount = mounts
            .filter(|mount| Path::new(word).starts_with(&mount.mount_path))
            .max_by_key(|mount| mount.mount_path.len());
        if let Some(mount) = mount
            && let Some(folder) = self.volumes.get(&mount.name)
            && let Ok(inside) = Path::new(word).strip_prefix(&mount.mount_path)
        {
            let inside = Path::new(mount.sub_path.as_deref().unwrap_or_default()).join(inside);
            let path = if inside.as_os_str().is_empty() { folder.clone() } else { folder.join(inside) };
            return format!("{start}{}", path.display());
        }
        for (port, real) in self.ports {
            if [format!("0.0.0.0:{port}"), format!("[::]:{port}")].iter().any(|wildcard| wildcard == word) {
                return format!("{start}127.0.0.1:{real}");
            }
        }
        start + word
    }
}

/// Where the folder of a volume's files comes from.
pub enum VolumeContent {
    /// An empty folder.
    Empty,
    /// The keys of a config map or a secret.
    Keys(&'static str, String, bool),
}

/// What a volume holds.
pub fn content(volume: &Volume) -> Result<VolumeContent, String> {
    if volume.empty_dir.is_some() {
        return Ok(VolumeContent::Empty);
    }
    if let Some(map) = &volume.config_map {
        return Ok(VolumeContent::Keys("ConfigMap", map.name.clone(), map.optional == Some(true)));
    }
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.clone().unwrap_or_default();
        return Ok(VolumeContent::Keys("Secret", name, secret.optional == Some(true)));
    }
    Err(format!("this node cannot make the volume {}", volume.name))
}
