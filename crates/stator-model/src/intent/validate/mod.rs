//! What a schema cannot say: fields of a merged model that must fit each other.
//!
//! Much of it is what Dynamo's admission would refuse, known before anything is sent. Every rule runs, so that all
//! faults of a model are reported at once.

mod files;
mod graph;
mod reserved_names;
mod serving_mode;
mod weights;
mod workers;

use super::FieldOrigins;
use super::model::{Component, Model, Route, Serving, Worker};
use super::rules;
use stator_core::dynamo::release::Release;
use stator_core::finding::{Finding, Rule};
use std::collections::BTreeSet;

/// Every fault and warning of a merged model, for an operator of the release that its environment says.
pub fn validate_model(model: &Model, origins: &FieldOrigins, release: Release) -> Vec<Finding> {
    let mut judge = ModelValidator { model, origins, release, findings: Vec::new() };
    serving_mode::validate_serving_mode(&mut judge);
    workers::validate_workers(&mut judge);
    graph::validate_graph(&mut judge);
    files::validate_files(&mut judge);
    weights::validate_weights(&mut judge);
    validate_route(&mut judge);
    reserved_names::validate_reserved_names(&mut judge);
    judge.findings
}

/// A model under judgement.
struct ModelValidator<'a> {
    model: &'a Model,
    origins: &'a FieldOrigins,
    release: Release,
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

/// A route: hosts and a path that a gateway takes, and a canary that is another model.
fn validate_route(judge: &mut ModelValidator<'_>) {
    let Some(route) = &judge.model.spec.route else { return };
    check_hostnames(judge, route);
    let path = route.path();
    // The rules of the Gateway API for a prefix.
    let refused = ["//", "/./", "/../", "%2f", "%2F", "%5c", "%5C"].into_iter().find(|part| path.contains(part));
    let refused = refused.or_else(|| ["/.", "/.."].into_iter().find(|end| path.ends_with(end)));
    if let Some(part) = refused {
        judge.error(
            rules::MODEL_ROUTE,
            "spec.route.path",
            format!("`{path}` contains `{part}`, which no gateway accepts"),
            "Write the path as clients send it, without empty parts, `.` or `..`.",
        );
    }
    if let Some(canary) = route.canary.as_ref().filter(|canary| canary.model == judge.model.metadata.name) {
        judge.error(
            rules::MODEL_ROUTE,
            "spec.route.canary.model",
            format!("the canary of `{}` is the model itself", canary.model),
            "Name another model of the environment, or remove `canary`.",
        );
    }
}

fn check_hostnames(judge: &mut ModelValidator<'_>, route: &Route) {
    let mut seen = BTreeSet::new();
    for (index, hostname) in route.hostnames.iter().enumerate() {
        let path = format!("spec.route.hostnames[{index}]");
        if !seen.insert(hostname.as_str()) {
            let message = format!("`{hostname}` is listed twice");
            judge.error(rules::MODEL_ROUTE, &path, message, "Keep one of them.");
        }
        let is_address = hostname.as_str().split('.').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if is_address {
            let message = format!("`{hostname}` is an IP address; a route needs a host name");
            judge.error(rules::MODEL_ROUTE, &path, message, "Write the name that clients ask for.");
        }
    }
}

#[cfg(test)]
mod tests;
