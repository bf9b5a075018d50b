//! What an object names beside itself: images, service accounts, Secrets, and how large claims are; wherever it stands.

use super::pod_security::{NAMING_FIELDS, PodList};
use serde_json::Value;
use stator_core::dynamo::kinds;
use stator_core::fields;
use stator_core::object::{FieldPath, Object, PathSegment, Quantity};

/// What an object names, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    pub(super) images: Vec<(FieldPath, String)>,
    /// What pods name of what policies have lists of, but images.
    pub(super) named: Vec<(PodList, FieldPath, String)>,
    pub(super) secrets: Vec<(FieldPath, String)>,
    /// The sizes that claims ask for. One that is no quantity is the API server's to refuse.
    pub(super) claims: Vec<(FieldPath, Quantity)>,
}

impl References {
    /// Of an object. A field is known by its name, whatever it is in: it may be in what no schema declares.
    pub(super) fn of(object: &Object) -> Self {
        let mut found = Self::default();
        if object.kind() == kinds::CONFIG_MAP.kind {
            return found;
        }
        let schema = fields::bundled_schema(object.api_version(), object.kind());
        fields::visit_values(schema, object.value(), &mut |value| {
            let Some(PathSegment::Field(name)) = value.path.last() else { return };
            if is_in_free_map(value.path) {
                return;
            }
            found.note(name, value.path, value.value);
        });
        found
    }

    fn note(&mut self, name: &str, path: &[PathSegment], value: &Value) {
        let path = || FieldPath(path.to_vec());
        if let Some((list, _)) = NAMING_FIELDS.iter().find(|(_, field)| *field == name) {
            let text = value.as_str().filter(|text| !text.is_empty());
            self.named.extend(text.map(|text| (*list, path(), text.to_owned())));
            return;
        }
        match name {
            "image" => match value {
                Value::String(image) => self.images.push((path(), image.clone())),
                // A volume with the files of an image.
                Value::Object(source) => {
                    let reference = source.get("reference").and_then(Value::as_str);
                    self.images.extend(reference.map(|image| (path().field("reference"), image.to_owned())));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
            },
            "tolerations" => {
                for (index, toleration) in value.as_array().into_iter().flatten().enumerate() {
                    // Without a key it tolerates every taint.
                    let key = toleration.get("key").and_then(Value::as_str);
                    let own = path().join(PathSegment::Index(index));
                    let path = if key.is_some() { own.field("key") } else { own };
                    self.named.push((PodList::Tolerations, path, key.unwrap_or_default().to_owned()));
                }
            }
            "requests" => {
                let size = value.get("storage").and_then(Quantity::from_value);
                self.claims.extend(size.map(|size| (path().field("storage"), size)));
            }
            name if name.to_ascii_lowercase().contains("secret") => self.note_secrets(path(), value),
            _ => {}
        }
    }

    /// The names in a field that is about a Secret: text, a reference, or a list of either.
    fn note_secrets(&mut self, path: FieldPath, value: &Value) {
        match value {
            Value::String(name) => self.secrets.push((path, name.clone())),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.note_secrets(path.join(PathSegment::Index(index)), item);
                }
            }
            // Fields of it whose names tell that they are about a Secret are come by on their own.
            Value::Object(map) => {
                if let Some(name) = map.get("name").and_then(Value::as_str) {
                    self.secrets.push((path.field("name"), name.to_owned()));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Whether a field is a key that somebody chose: of labels, annotations, or a selector.
fn is_in_free_map(path: &[PathSegment]) -> bool {
    let maps = ["labels", "annotations", "matchLabels", "nodeSelector"];
    path.iter()
        .rev()
        .skip(1)
        .any(|segment| matches!(segment, PathSegment::Field(name) if maps.contains(&name.as_str())))
}

/// Where an image comes from: `docker.io/library/nginx`, without tag and digest.
pub(super) fn image_repository(image: &str) -> String {
    let (name, _) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = name.get(last..).and_then(|part| part.find(':')).map_or(name.len(), |colon| last + colon);
    let name = name.get(..end).unwrap_or(name);
    match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    }
}

/// A size as people write it: with the largest suffix of bytes that it is a whole number of.
pub(super) fn describe_size(size: Quantity) -> String {
    let Some(mut whole) = size.to_integer().filter(|whole| *whole != 0) else { return size.to_string() };
    let mut chosen = "";
    for suffix in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if whole % 1024 != 0 {
            break;
        }
        (whole, chosen) = (whole / 1024, suffix);
    }
    if chosen.is_empty() { size.to_string() } else { format!("{whole}{chosen}") }
}

/// Whether an image is named by what it holds.
pub(super) fn has_digest(image: &str) -> bool {
    image.rsplit_once("@sha256:").is_some_and(|(_, digest)| {
        digest.len() == 64 && digest.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_image_without_a_registry_is_of_the_default_one() {
        for (image, repository) in [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1", "docker.io/library/nginx"),
            ("team/x@sha256:0", "docker.io/team/x"),
            ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0", "nvcr.io/nvidia/ai-dynamo/vllm-runtime"),
            ("localhost/x", "localhost/x"),
            ("registry:5000/x/y:1@sha256:0", "registry:5000/x/y"),
            ("", "docker.io/library/"),
        ] {
            assert_eq!(image_repository(image), repository, "{image}");
        }
        assert!(has_digest(&format!("a@sha256:{}", "0f".repeat(32))));
        assert!(!has_digest("a@sha256:0f") && !has_digest("a:1") && !has_digest("a@sha256:"));
    }

    #[test]
    fn what_an_object_names_is_found_wherever_it_stands() {
        let object = Object::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"name": "a", "namespace": "b", "annotations": {"secretRef": "no"}},
            "spec": {
                "image": "one",
                "overrides": {
                    "dgd": {"spec": {"services": {"x": {"envFromSecret": "two", "extraPodSpec": {
                        "serviceAccountName": "three",
                        "mainContainer": {"image": "four", "envFrom": [{"secretRef": {"name": "five"}}]},
                    }}}}},
                    "profilingJob": {"template": {"spec": {
                        "imagePullSecrets": [{"name": "six"}],
                        "containers": [{"name": "main", "env": [
                            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "seven", "key": "k"}}},
                        ]}],
                        "volumes": [
                            {"name": "v", "secret": {"secretName": "eight"}},
                            {"name": "w", "projected": {"sources": [{"secret": {"name": "nine"}}]}},
                            {"name": "x", "image": {"reference": "ten"}},
                            {"name": "y", "ephemeral": {"volumeClaimTemplate": {"spec": {
                                "resources": {"requests": {"storage": "1Ti"}},
                            }}}},
                        ],
                    }}},
                },
            },
        }))
        .unwrap();
        let found = References::of(&object);
        let names =
            |list: &[(FieldPath, String)]| list.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&found.images), "one four ten");
        assert_eq!(found.named.iter().map(|(_, _, name)| name.as_str()).collect::<Vec<_>>(), ["three"]);
        let mut secrets: Vec<_> = found.secrets.iter().map(|(_, name)| name.as_str()).collect();
        secrets.sort_unstable();
        assert_eq!(secrets, ["eight", "five", "nine", "seven", "six", "two"]);
        assert_eq!(found.claims.len(), 1);
    }
}
