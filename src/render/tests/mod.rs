//! Tests of rendering: goldens against upstream-shaped manifests, scenarios, laws.

mod canonical;
mod emission;
mod laws;
mod scenarios;
pub(crate) mod strategy;

use super::{Rendered, Target, render};
use crate::intent::model::Model;
use crate::intent::{Intent, Origins};

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
    Intent { source, model, origins: Origins::default() }
}

/// Where tests render to.
pub(crate) fn target() -> Target {
    Target { repository: "models".into(), environment: "prod".into(), namespace: "serving".into() }
}

/// Renders an intent, which must have no errors.
pub(crate) fn rendered(name: &str, spec: &str) -> Rendered {
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
