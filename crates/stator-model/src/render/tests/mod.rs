//! Tests of rendering: goldens against upstream-shaped manifests, scenarios, laws.

mod canonical;
mod contradictions;
mod edges;
mod emission;
mod files;
mod hostile;
mod laws;
mod locked;
mod routes;
mod scenarios;
mod schema;
pub(crate) mod strategy;
mod targets;
mod weights;

use super::{RenderTarget, RenderedModel, render};
use crate::intent::model::Model;
use crate::intent::{FieldOrigins, Intent, SourceFile, read_manifests};
use serde_json::Value;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds;

/// An intent from the YAML of its `spec`, named `name`.
pub(crate) fn intent(name: &str, spec: &str) -> Intent {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!("apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n{indented}");
    let model: Model = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    of_model(model)
}

/// An intent around a model, with nothing known of lines.
pub(crate) fn of_model(model: Model) -> Intent {
    let source = format!("{}/model.yaml", model.metadata.name);
    let from_folder = model.spec.files.iter().filter_map(|(name, file)| Some((name, file.from.as_ref()?)));
    let files =
        from_folder.map(|(name, from)| (name.to_string(), format!("content of {from}").into_bytes().into())).collect();
    let origins = FieldOrigins::default();
    let manifests = read_manifests(&model, &origins, "", &[manifest_file("")], &mut Vec::new());
    Intent { source, model, origins, files, manifests, lock: None }
}

/// The file of other objects that generated models name.
pub(crate) fn manifest_file(folder: &str) -> SourceFile {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other.object.file}\n";
    SourceFile { path: format!("{folder}{}", strategy::MANIFEST_FILE), content: Ok(text.as_bytes().into()) }
}

/// Where tests render to.
pub(crate) fn target() -> RenderTarget {
    RenderTarget {
        repository: "models".into(),
        environment: "prod".into(),
        namespace: "serving".into(),
        platform: Platform::default(),
    }
}

/// Renders an intent, which must have no errors.
pub(crate) fn rendered(name: &str, spec: &str) -> RenderedModel {
    let rendered = render(&intent(name, spec), &target());
    assert!(rendered.findings.iter().all(|finding| !finding.is_error()), "{:#?}", rendered.findings);
    rendered
}

/// The findings of an intent as a user reads them: rule, severity, message, help.
pub(crate) fn findings(name: &str, spec: &str) -> String {
    let lines: Vec<String> = render(&intent(name, spec), &target())
        .findings
        .iter()
        .map(|finding| format!("{} {}: {}; {}", finding.severity, finding.rule.id, finding.message, finding.help))
        .collect();
    lines.join("\n")
}

/// The graph of a rendered model.
pub(crate) fn graph(rendered: &RenderedModel) -> &Value {
    let desired = rendered.objects.iter().find(|desired| desired.object.kind() == kinds::GRAPH.kind).unwrap();
    desired.object.value()
}

/// A component of the graph.
pub(crate) fn component<'a>(rendered: &'a RenderedModel, name: &str) -> &'a Value {
    graph(rendered)["spec"]["components"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

/// `main` of a component.
pub(crate) fn main<'a>(rendered: &'a RenderedModel, name: &str) -> &'a Value {
    &component(rendered, name)["podTemplate"]["spec"]["containers"][0]
}

/// A container's arguments in one line.
pub(crate) fn args(rendered: &RenderedModel, name: &str) -> String {
    let list = main(rendered, name)["args"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}
