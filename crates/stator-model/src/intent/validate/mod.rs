//! What a schema cannot say: fields of a merged model that must fit each other.
//!
//! Much of it is what Dynamo's admission would refuse, known before anything is sent. Every rule runs, so that all
//! faults of a model are reported at once.

mod files;
mod graph;
mod reserved_names;
mod route;
mod serving_mode;
mod weights;
mod workers;

use super::FieldOrigins;
use super::model::{Component, Model, Serving, Worker};
use stator_core::finding::{Finding, Rule};

/// Every fault and warning of a merged model.
pub fn validate_model(model: &Model, origins: &FieldOrigins) -> Vec<Finding> {
    let mut judge = ModelValidator { model, origins, findings: Vec::new() };
    serving_mode::validate_serving_mode(&mut judge);
    workers::validate_workers(&mut judge);
    graph::validate_graph(&mut judge);
    files::validate_files(&mut judge);
    weights::validate_weights(&mut judge);
    route::validate_route(&mut judge);
    reserved_names::validate_reserved_names(&mut judge);
    judge.findings
}

/// A model under judgement.
struct ModelValidator<'a> {
    model: &'a Model,
    origins: &'a FieldOrigins,
    findings: Vec<Finding>,
}

impl ModelValidator<'_> {
    fn error(&mut self, rule: Rule, path: &str, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(Finding::error(rule, self.origins.locate(path), message, help));
    }

    fn warning(&mut self, rule: Rule, path: &str, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(Finding::warning(rule, self.origins.locate(path), message, help));
    }
}

/// The workers that `serving` gives, with name and path.
fn serving_workers(serving: Option<&Serving>) -> Vec<(&'static str, String, &Worker)> {
    let workers = serving.into_iter().flat_map(Serving::workers);
    workers.map(|(name, worker)| (name, format!("spec.serving.{name}"), worker)).collect()
}

/// The further components, with path.
fn further_components(model: &Model) -> impl Iterator<Item = (&str, String, &Component)> {
    model.spec.components.iter().map(|(name, component)| {
        let name = name.as_str();
        (name, format!("spec.components.{name}"), component)
    })
}

#[cfg(test)]
mod tests;
