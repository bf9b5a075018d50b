//! The definitions of Dynamo's kinds: those of a release, or those that a cluster serves.

use super::table::{CHANGES, Change, stands_for};
use super::{Release, ReleaseChange};
use crate::dynamo::kinds;
use crate::fields::{self, SchemaDocument, StructuralSchema};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

/// What the definitions of one release, or of one cluster, accept. Clones share it.
#[derive(Clone)]
pub struct Definitions(Arc<Inner>);

struct Inner {
    release: Release,
    /// Of served definitions: `uid/resourceVersion` of each.
    versions: Option<BTreeSet<String>>,
    /// By version and kind, those that are bundled read on first use.
    schemas: BTreeMap<(String, String), OnceLock<Option<StructuralSchema>>>,
}

/// Why an object is no definition of Dynamo's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionsError {
    /// It lacks what every definition has.
    #[error("the definition of {0} has no group, kind or versions")]
    Malformed(String),
    /// Graphs are not served at the version that stator writes.
    #[error("the cluster does not serve DynamoGraphDeployment at {}: it runs a Dynamo before 1.2", kinds::GRAPH.version)]
    NoGraphs,
}

impl Definitions {
    /// Those of a release: of 1.2 and 1.5 as Dynamo ships them, of those between as the table says. A release that is
    /// newer than the known ones is taken for the newest of them.
    pub fn of_release(release: Release) -> &'static Self {
        static KNOWN: LazyLock<BTreeMap<Release, Definitions>> = LazyLock::new(|| {
            Release::KNOWN.into_iter().map(|release| (release, Definitions::bundled(release))).collect()
        });
        static NEWER: LazyLock<Definitions> = LazyLock::new(|| Definitions::bundled(Release::Newer));
        KNOWN.get(&release).unwrap_or(&NEWER)
    }

    fn bundled(release: Release) -> Self {
        let kinds = fields::bundled_kinds().filter(|(api_version, _)| is_dynamos(api_version));
        let schemas = kinds.map(|(api_version, kind)| ((api_version.to_owned(), kind.to_owned()), OnceLock::new()));
        Self(Arc::new(Inner { release, versions: None, schemas: schemas.collect() }))
    }

    /// Those that a cluster serves, from its CustomResourceDefinitions, at the versions that stator writes. Of kinds that are
    /// not among them the release's own stand in.
    ///
    /// # Errors
    /// When one of them is no definition, or none serves graphs at the version that stator writes.
    pub fn from_served(definitions: &[Value]) -> Result<Self, DefinitionsError> {
        let (mut served, mut versions, mut release) = (BTreeMap::new(), BTreeSet::new(), None);
        for definition in definitions {
            let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
            let all = definition.pointer("/spec/versions").and_then(Value::as_array);
            let (false, false, Some(all)) = (group.is_empty(), kind.is_empty(), all) else {
                return Err(DefinitionsError::Malformed(text("/metadata/name").to_owned()));
            };
            versions.insert(version_of(definition));
            let known = kinds::MANAGED.iter().find(|known| known.group == group && known.kind == kind);
            let Some(known) = known else { continue };
            let ours = |version: &&Value| version["served"] == true && version["name"] == known.version;
            let Some(version) = all.iter().find(ours) else { continue };
            let openapi = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
            if *known == kinds::GRAPH {
                release = Some(detect_release(openapi));
            }
            let status = version.pointer("/subresources/status").is_some();
            let schema = StructuralSchema::new(&known.api_version(), kind, openapi, status);
            served.insert((known.api_version(), kind.to_owned()), OnceLock::from(Some(schema)));
        }
        let release = release.ok_or(DefinitionsError::NoGraphs)?;
        for (api_version, kind) in fields::bundled_kinds().filter(|(api_version, _)| is_dynamos(api_version)) {
            served.entry((api_version.to_owned(), kind.to_owned())).or_default();
        }
        Ok(Self(Arc::new(Inner { release, versions: Some(versions), schemas: served })))
    }

    /// The release that they are from: of served ones, recognised by the fields of graphs.
    pub fn release(&self) -> Release {
        self.0.release
    }

    /// Whether a cluster serves them.
    pub fn are_served(&self) -> bool {
        self.0.versions.is_some()
    }

    /// Whether they were read from exactly these CustomResourceDefinitions, or their metadata.
    pub fn are_of(&self, definitions: &[Value]) -> bool {
        let versions: BTreeSet<String> = definitions.iter().map(version_of).collect();
        self.0.versions.as_ref() == Some(&versions)
    }

    /// The schema of a kind at a version: of Dynamo's kinds as these definitions have it, of others the bundled one. `None`
    /// where there is none.
    pub fn schema(&self, api_version: &str, kind: &str) -> Option<&StructuralSchema> {
        if !is_dynamos(api_version) {
            return fields::bundled_schema(api_version, kind);
        }
        let schema = self.0.schemas.get(&(api_version.to_owned(), kind.to_owned()))?;
        let release = self.0.release.nearest_known();
        schema.get_or_init(|| document_of(release, api_version, kind)?.parse(api_version, kind)).as_ref()
    }
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions")
            .field("release", &self.0.release)
            .field("versions", &self.0.versions)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Definitions {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.release == other.0.release && self.0.versions == other.0.versions)
    }
}

impl Eq for Definitions {}

fn version_of(definition: &Value) -> String {
    let text = |name: &str| definition["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("uid"), text("resourceVersion"))
}

fn is_dynamos(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group == kinds::GRAPH.group)
}

/// What the definition of a kind says in a known release.
pub(super) fn document_of(release: Release, api_version: &str, kind: &str) -> Option<SchemaDocument> {
    let shipped = fields::bundled_document(release.as_str(), api_version, kind);
    shipped.or_else(|| {
        let mut newest = fields::bundled_document(Release::V1_5.as_str(), api_version, kind)?;
        take_back(&mut newest.openapi, release, kind);
        Some(newest)
    })
}

/// Takes back from a definition of the newest known release what came after another one.
pub(super) fn take_back(openapi: &mut Value, release: Release, kind: &str) {
    let later: Vec<&ReleaseChange> = CHANGES.iter().filter(|row| row.since > release).collect();
    walk(openapi, &mut Vec::new(), kind, &later);
}

fn walk(schema: &mut Value, place: &mut Vec<String>, kind: &str, later: &[&ReleaseChange]) {
    let Value::Object(node) = schema else { return };
    let names: Vec<&str> = place.iter().map(String::as_str).collect();
    // The items of a list stand at its place.
    let is_map = node.contains_key("properties");
    for row in later {
        match row.change {
            Change::Field(of, path) if of == "*" || of == kind => {
                let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
                let parent = if above.is_empty() { true } else { stands_for(above, &names) };
                if parent && let Some(Value::Object(properties)) = node.get_mut("properties") {
                    properties.remove(name);
                }
            }
            Change::Rule(message) => remove_rule(node, message),
            Change::Required(path, name) if is_map && stands_for(path, &names) => {
                remove_from_list(node, "required", name)
            }
            Change::Optional(path, name) if is_map && stands_for(path, &names) => {
                if let Value::Array(required) = node.entry("required").or_insert_with(|| Value::Array(Vec::new()))
                    && !required.iter().any(|known| known == name)
                {
                    required.push(name.into());
                    required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                }
            }
            Change::Value(path, value) if stands_for(path, &names) => {
                remove_from_list(node, "enum", value);
                if let Some(Value::Array(all)) = node.get_mut("allOf") {
                    all.iter_mut()
                        .filter_map(Value::as_object_mut)
                        .for_each(|one| remove_from_list(one, "enum", value));
                }
            }
            Change::MaxLength(path) if stands_for(path, &names) => {
                node.get_mut("additionalProperties")
                    .and_then(Value::as_object_mut)
                    .map(|node| node.remove("maxLength"));
            }
            Change::DefaultRemoved(path, value) if stands_for(path, &names) => {
                node.insert("default".to_owned(), value.into());
            }
            Change::Field(..)
            | Change::RuleRemoved(_)
            | Change::Required(..)
            | Change::Optional(..)
            | Change::Value(..)
            | Change::MaxLength(_)
            | Change::DefaultRemoved(..) => {}
        }
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        for (name, property) in properties {
            place.push(name.clone());
            walk(property, place, kind, later);
            place.pop();
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = node.get_mut(below) {
            walk(below, place, kind, later);
        }
    }
}

fn remove_rule(node: &mut Map<String, Value>, message: &str) {
    let Some(Value::Array(rules)) = node.get_mut("x-kubernetes-validations") else { return };
    rules.retain(|rule| rule["message"] != message);
    if rules.is_empty() {
        node.remove("x-kubernetes-validations");
    }
}

fn remove_from_list(node: &mut Map<String, Value>, list: &str, value: &str) {
    let Some(Value::Array(items)) = node.get_mut(list) else { return };
    items.retain(|item| item != value);
    if items.is_empty() {
        node.remove(list);
    }
}

/// The release of a graph's definition, by the newest field of the table that it declares. A definition with a field that
/// no known release has, at the top of a graph or a component, is of a newer one.
fn detect_release(openapi: &Value) -> Release {
    let known = document_of(Release::V1_5, &kinds::GRAPH.api_version(), kinds::GRAPH.kind);
    let declared = declared_fields(openapi);
    let known = known.map(|known| declared_fields(&known.openapi)).unwrap_or_default();
    if declared.difference(&known).next().is_some() {
        return Release::Newer;
    }
    let is_declared = |path: &str| known.contains(path) && declared.contains(path);
    let added = CHANGES.iter().filter(|row| row.change.field_of(kinds::GRAPH.kind).is_some_and(is_declared));
    added.map(|row| row.since).max().unwrap_or(Release::V1_2)
}

/// The fields of a graph's spec (`spec.name`) and of its components (`name`).
fn declared_fields(openapi: &Value) -> BTreeSet<String> {
    let names = |pointer: &str, prefix: &str| -> Vec<String> {
        let properties = openapi.pointer(pointer).and_then(Value::as_object);
        properties.into_iter().flatten().map(|(name, _)| format!("{prefix}{name}")).collect()
    };
    let spec = names("/properties/spec/properties", "spec.");
    spec.into_iter().chain(names("/properties/spec/properties/components/items/properties", "")).collect()
}
