//! Findings as faults of single fields, and what a draft may not change.

use super::judged::JudgedDraft;
use crate::form::{FORM_FIELDS, FormField};
use crate::problem::{ProblemDetails, ProblemKind, RequestFault};
use stator_core::finding::{Finding, Location, Severity};
use stator_model::intent::field_at::field_at;
use stator_model::intent::model::{Model, Scaling};
use std::collections::BTreeMap;

impl JudgedDraft {
    /// What was found, of a severity.
    pub fn faults(&self, severity: Severity) -> Vec<RequestFault> {
        self.findings.iter().filter(|one| one.severity == severity).map(|one| self.fault(one)).collect()
    }

    fn fault(&self, finding: &Finding) -> RequestFault {
        let Location { file, line, column, length: _ } = &finding.location;
        let is_here = *file == self.draft.file;
        let field = is_here.then(|| field_at(self.draft.text.as_bytes(), *line, *column)).flatten();
        let counted = |number: u32| (number > 0).then_some(number);
        RequestFault {
            pointer: named_field(&finding.help)
                .or_else(|| field.as_ref().map(|field| field.pointer.clone()))
                .map_or_else(|| "#".to_owned(), |pointer| format!("#{pointer}")),
            detail: finding.message.clone(),
            code: Some(finding.rule.id.to_owned()),
            file: (!file.is_empty()).then(|| file.clone()),
            line: counted(*line),
            column: counted(*column),
            found: field.as_ref().and_then(|field| field.found.clone()),
            allowed: field.map(|field| field.allowed).unwrap_or_default(),
            help: (!finding.help.is_empty()).then(|| finding.help.clone()),
        }
    }

    /// That the draft can be rendered.
    ///
    /// # Errors
    /// With every error of its fields.
    pub fn check(&self) -> Result<(), ProblemDetails> {
        let errors = self.faults(Severity::Error);
        if errors.is_empty() && self.is_left_out {
            let detail = format!(
                "The environment {} has no models at {}: see `include` and `exclude` in the root stator.yaml.",
                self.environment, self.draft.file
            );
            return Err(ProblemDetails::new(ProblemKind::InvalidModel).with_detail(detail));
        }
        if errors.is_empty() {
            return Ok(());
        }
        let warnings = self.findings.len() - errors.len();
        let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let detail = match warnings {
            0 => count(errors.len(), "error"),
            _ => format!("{}, {}", count(errors.len(), "error"), count(warnings, "warning")),
        };
        Err(ProblemDetails::new(ProblemKind::InvalidModel).with_detail(detail).with_errors(errors))
    }

    /// The same, and that it changes nothing that git does not decide.
    ///
    /// # Errors
    /// With every error of its fields.
    pub fn check_change(&self) -> Result<(), ProblemDetails> {
        self.check()?;
        let errors = self.unowned_replicas();
        if errors.is_empty() {
            return Ok(());
        }
        Err(ProblemDetails::new(ProblemKind::ReplicasNotOwned).with_errors(errors))
    }

    /// Replicas that the draft changes although a planner or a scaling adapter decides on them, before and after.
    pub fn unowned_replicas(&self) -> Vec<RequestFault> {
        let (Some(before), Some(merged)) = (&self.stored_model, &self.merged) else { return Vec::new() };
        let (before, after) = (scaled(before), scaled(&merged.model));
        let changed = after.into_iter().filter_map(|(path, (is_scaled, replicas))| {
            let (was_scaled, had) = before.get(&path).copied()?;
            (is_scaled && was_scaled && replicas != had).then_some((path, replicas, had))
        });
        changed
            .map(|(path, replicas, had)| {
                let place = merged.origins.locate(&format!("{}.replicas", path.join(".")));
                let written =
                    |count: Option<u32>| count.map_or_else(|| "nothing".to_owned(), |count| count.to_string());
                RequestFault {
                    pointer: format!("#/{}/replicas", path.join("/")),
                    detail: format!(
                        "`scaling` of {} is set, so a planner or a scaling adapter sets the replicas; changing them \
                         from {} to {} has no effect",
                        path.last().copied().unwrap_or_default(),
                        written(had),
                        written(replicas)
                    ),
                    file: (!place.file.is_empty()).then_some(place.file),
                    line: (place.line > 0).then_some(place.line),
                    column: (place.column > 0).then_some(place.column),
                    found: replicas.map(|count| count.to_string()),
                    help: Some("change `scaling.min` and `scaling.max`, or remove `scaling`".to_owned()),
                    ..RequestFault::default()
                }
            })
            .collect()
    }
}

/// The field of the form that a policy's expression is about: it may not be there yet, and then nothing else tells where.
fn named_field(help: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let words = help.split(|c: char| !is_part(c)).filter_map(|word| word.strip_prefix("model."));
    words.map(|word| format!("/{}", word.replace('.', "/"))).find_map(|pointer| {
        let holds = |field: &&FormField| format!("{pointer}/").starts_with(&format!("{}/", field.pointer));
        FORM_FIELDS.iter().find(holds).map(|field| field.pointer.clone())
    })
}

/// Each component's path, whether somebody else decides on its replicas, and how many are written.
fn scaled(model: &Model) -> BTreeMap<Vec<&str>, (bool, Option<u32>)> {
    let is_scaled = |scaling: &Option<Scaling>| scaling.is_some();
    let workers = model.spec.serving.iter().flat_map(|serving| serving.workers());
    let workers =
        workers.map(|(field, worker)| (vec!["spec", "serving", field], (is_scaled(&worker.scaling), worker.replicas)));
    let components = model.spec.components.iter();
    let components = components.map(|(name, component)| {
        (vec!["spec", "components", name.as_str()], (is_scaled(&component.scaling), component.replicas))
    });
    workers.chain(components).collect()
}
