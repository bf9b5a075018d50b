//! The proof: the text is read as an intent, rendered, and held against the manifests.

use super::documents::ManifestDocument;
use super::{ImportedFile, completion, config_maps, rules};
use crate::intent::{Intent, SourceFile, SourceTree, StoredIntent, Workspace, named_files};
use crate::render;
use serde_json::Value;
use stator_core::dynamo::equivalence::{self, DocumentDifference};
use stator_core::dynamo::release::Release;
use stator_core::dynamo::{admission, kinds};
use stator_core::finding::Finding;
use stator_core::mask;
use stator_core::object::{FieldPath, Object};
use std::collections::{BTreeMap, BTreeSet};

/// A model that was written, and what it must render to.
#[derive(Clone, Copy, Debug)]
pub struct WrittenModel<'a> {
    /// The environment that it is of; the one that a folder without any has, where none is named.
    pub environment: Option<&'a str>,
    /// The folder of its `model.yaml`.
    pub folder: &'a str,
    /// The graph or request.
    pub root: &'a ManifestDocument,
    /// All its manifests.
    pub targets: &'a [Value],
}

/// Files as they would be read from a repository: those of stator, and those that models name.
pub fn source_tree(files: &[(String, &str)], beside: &[(String, &[ImportedFile])]) -> SourceTree {
    let file = |path: String, text: &str| SourceFile { path, content: Ok(text.as_bytes().into()) };
    let mut mounted: BTreeMap<String, Vec<SourceFile>> = BTreeMap::new();
    for (folder, own) in beside {
        let files = mounted.entry(folder.clone()).or_default();
        files.extend(own.iter().map(|one| file(join_path(folder, &one.path), &one.text)));
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
    }
    let mut tree = SourceTree {
        files: files.iter().map(|(path, text)| file(path.clone(), text)).collect(),
        ..SourceTree::default()
    };
    // As a repository is read: what no model names is not, and what is more than it may name.
    let named = named_files(&tree);
    for (folder, files) in &mut mounted {
        files.retain(|file| named.get(folder).is_some_and(|named| named.contains(&file.path)));
    }
    tree.mounted_files = mounted;
    tree
}

/// A path below a folder.
pub fn join_path(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// What differs between the manifests and what each model renders to; no error where nothing does.
pub fn verify_models(tree: &SourceTree, models: &[WrittenModel<'_>], release: Release) -> Vec<Vec<Finding>> {
    let workspace = Workspace::parse(tree);
    let mut faults: Vec<Vec<Finding>> = models.iter().map(|_| Vec::new()).collect();
    let environments: BTreeSet<Option<&str>> = models.iter().map(|model| model.environment).collect();
    for environment in environments {
        let resolved = workspace.resolve_environment(environment);
        let here = models.iter().zip(&mut faults).filter(|(model, _)| model.environment == environment);
        let selection = match &resolved {
            Ok(selection) => selection,
            Err(error) => {
                let message = error.to_string();
                here.for_each(|(model, faults)| faults.push(model.refused(&message, "report this with the manifest")));
                continue;
            }
        };
        let intents: BTreeMap<&str, &StoredIntent> =
            selection.intents.iter().map(|intent| (intent.source.as_str(), intent)).collect();
        let folders: BTreeSet<&str> = models.iter().map(|model| model.folder).collect();
        let folder_of = |file: &str| file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let mut by_folder: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
        for finding in &selection.findings {
            by_folder.entry(folder_of(&finding.location.file)).or_default().push(finding);
        }
        // What is wrong with a file that several models share is reported once, of the first of them.
        let mut first_below: BTreeMap<&str, &str> = BTreeMap::new();
        for model in models.iter().filter(|model| model.environment == environment).rev() {
            let ends = model.folder.match_indices('/').map(|(end, _)| end);
            let above = ends.filter_map(|end| model.folder.get(..end)).chain([""]);
            first_below.extend(above.map(|above| (above, model.folder)));
        }
        let mut shared: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for (folder, found) in by_folder.iter().filter(|(folder, _)| !folders.contains(folder.as_str())) {
            if let Some(model) = first_below.get(folder.as_str()) {
                shared.entry(model).or_default().extend(found);
            }
        }
        for (model, faults) in here {
            let own = by_folder.get(model.folder).into_iter().flatten().copied();
            let shared = shared.remove(model.folder).unwrap_or_default();
            faults.extend(own.chain(shared).map(|finding| model.reported(finding)));
            match intents.get(join_path(model.folder, "model.yaml").as_str()).and_then(|intent| intent.load().ok()) {
                Some(intent) => faults.append(&mut model.differences(&intent, release)),
                None if faults.iter().any(Finding::is_error) => {}
                None => faults.push(model.refused("the model is not read back", "report this with the manifest")),
            }
        }
    }
    faults
}

impl WrittenModel<'_> {
    fn refused(&self, message: &str, help: &str) -> Finding {
        let message = format!("document {}: {message}", self.root.number);
        Finding::error(rules::NO_MODEL, self.root.location(), message, help)
    }

    /// A finding of the model, as one of the manifest.
    fn reported(&self, finding: &Finding) -> Finding {
        let file = finding.location.file.as_str();
        let file = file.strip_prefix(self.folder).map_or(file, |rest| rest.trim_start_matches('/'));
        let place = format!("{file}:{}", finding.location.line);
        // What Dynamo refuses of an image it refuses of the manifest as well: the model is what that says.
        if finding.is_error() && finding.rule != admission::rules::IMAGE_VERSION {
            self.refused(&format!("the model is invalid ({place}): {}", finding.message), &finding.help)
        } else {
            let message = format!("document {}: {} ({place})", self.root.number, finding.message);
            Finding::warning(finding.rule, self.root.location(), message, finding.help.clone())
        }
    }

    fn differences(&self, intent: &Intent, release: Release) -> Vec<Finding> {
        let rendered = render::render_unchecked(intent, &completion::place(release));
        let mut faults: Vec<Finding> = rendered.findings.iter().map(|finding| self.reported(finding)).collect();
        let (root, number) = (self.root, self.root.number);
        let labels = FieldPath::from_fields(["metadata", "labels"]);
        let renamed = config_maps::rendered_names(&intent.model, &rendered.objects);
        for target in self.targets {
            let text = |pointer: &str| target.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let named = text("/kind") != kinds::REQUEST.kind;
            let is_named = |object: &Object| match text("/metadata/name") {
                // What a Job runs is part of its name.
                name if text("/kind") == kinds::JOB.kind => render::is_job_of(object.name(), name),
                name if text("/kind") == kinds::CONFIG_MAP.kind && renamed.contains_key(name) => {
                    renamed.get(name).is_some_and(|real| real == object.name())
                }
                name => object.name() == name,
            };
            let object = rendered
                .objects
                .iter()
                .map(crate::render::RenderedObject::with_initial_replicas)
                .find(|object| object.kind() == text("/kind") && (!named || is_named(object)));
            let Some(object) = object else {
                let message =
                    format!("document {number}: {} `{}` is not rendered", text("/kind"), text("/metadata/name"));
                faults.push(Finding::error(
                    rules::NOT_CARRIED,
                    root.location(),
                    message,
                    "report this with the manifest",
                ));
                continue;
            };
            // Labels of the model are on its other objects too, and ConfigMaps of files are immutable.
            let is_own = |difference: &DocumentDifference| {
                difference.left.is_none()
                    && (difference.path.starts_with(&labels)
                        || difference.path == FieldPath::from_fields(["immutable"]))
                    && kinds::IN_MANIFESTS.iter().any(|kind| kind.kind == text("/kind"))
            };
            let mut target = target.clone();
            if object.kind() == kinds::GRAPH.kind {
                render::rename_config_maps(&mut target, &renamed, &mut BTreeSet::new());
            }
            if object.kind() == kinds::CONFIG_MAP.kind {
                target["metadata"]["name"] = object.name().into();
            }
            if object.kind() == kinds::JOB.kind {
                target["metadata"]["name"] = object.name().into();
                if let Some(spec) = target.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("ttlSecondsAfterFinished");
                }
            }
            if let Some(template) =
                target.as_object_mut().filter(|_| object.kind() == kinds::RESOURCE_CLAIM_TEMPLATE.kind)
            {
                render::complete_requests(template);
            }
            let mut rendered = object.value().clone();
            if object.kind() == kinds::HTTP_ROUTE.kind {
                [&mut target, &mut rendered].into_iter().for_each(completion::fill_defaults);
            }
            for difference in equivalence::differences(&target, &rendered).into_iter().filter(|one| !is_own(one)) {
                let shown = |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), ToString::to_string);
                faults.push(Finding::error(
                    rules::NOT_CARRIED,
                    root.at(&difference.path),
                    format!(
                        "document {number}: {} `{}`: `{}` is {}, but the model renders {}",
                        text("/kind"),
                        text("/metadata/name"),
                        difference.path,
                        shorten(&shown(&difference.left)),
                        shorten(&shown(&difference.right))
                    ),
                    "correct the model by hand, under `overrides` if need be",
                ));
            }
        }
        faults
    }
}

fn shorten(text: &str) -> String {
    const MAX_CHARACTERS: usize = 120;
    // Before the cut: a part of a token looks like none.
    let text = &*mask::redact_tokens(text);
    if text.chars().count() <= MAX_CHARACTERS {
        text.to_owned()
    } else {
        text.chars().take(MAX_CHARACTERS).chain(['…']).collect()
    }
}
