//! What routes of several models have to do with each other: canaries that are there, and requests that two models want.

use super::model::{Route, RouteGateway};
use super::rules;
use super::scalar::Hostname;
use super::{Intent, StoredIntent};
use stator_core::finding::Finding;
use std::collections::BTreeMap;

/// Warnings about routes, where all models of an environment are known.
pub(super) fn check_routes(stored: &[StoredIntent], broken: &[&str]) -> Vec<Finding> {
    let routed: Vec<Intent> = stored.iter().filter(|one| one.has_route).filter_map(|one| one.load().ok()).collect();
    let mut findings = Vec::new();
    let mut takers: BTreeMap<RouteMatch<'_>, &Intent> = BTreeMap::new();
    for intent in &routed {
        let Some(route) = &intent.model.spec.route else { continue };
        findings.extend(check_canary(intent, route, stored, broken));
        for (wanted, path) in matches_of(route) {
            if let Some(first) = takers.get(&wanted) {
                findings.push(rivals_finding(intent, first, &wanted, &path));
            } else {
                takers.insert(wanted, intent);
            }
        }
    }
    findings
}

/// Which requests a route takes: gateway, listener, host and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RouteMatch<'a> {
    gateway: (&'a str, Option<&'a str>, Option<&'a str>),
    hostname: Option<&'a str>,
    prefix: &'a str,
}

/// Each with the field that says so.
fn matches_of(route: &Route) -> Vec<(RouteMatch<'_>, String)> {
    let RouteGateway { name, namespace, section_name } = &route.gateway;
    let gateway = (
        name.as_str(),
        namespace.as_ref().map(|namespace| namespace.as_str()),
        section_name.as_ref().map(|section| section.as_str()),
    );
    let prefix = route.path();
    if route.hostnames.is_empty() {
        return vec![(RouteMatch { gateway, hostname: None, prefix }, "spec.route".to_owned())];
    }
    let hosts = route.hostnames.iter().map(Hostname::as_str).map(Some).enumerate();
    hosts
        .map(|(index, hostname)| (RouteMatch { gateway, hostname, prefix }, format!("spec.route.hostnames[{index}]")))
        .collect()
}

fn rivals_finding(intent: &Intent, first: &Intent, wanted: &RouteMatch<'_>, path: &str) -> Finding {
    let what = match wanted.hostname {
        Some(host) => format!("`{host}{}`", wanted.prefix),
        None => format!("every host and `{}`", wanted.prefix),
    };
    Finding::warning(
        rules::MODEL_ROUTE,
        intent.origins.locate(path),
        format!(
            "requests to {what} also match the route of model `{}` ({}) at the same gateway",
            first.model.metadata.name, first.source
        ),
        "Give the models different hosts or paths: a gateway sends the requests only to the older route.",
    )
}

/// A canary that is not there, or that clients' requests do not fit.
fn check_canary(intent: &Intent, route: &Route, stored: &[StoredIntent], broken: &[&str]) -> Option<Finding> {
    let canary = route.canary.as_ref()?;
    let warn = |field: &str, message: String, help: String| {
        let location = intent.origins.locate(&format!("spec.route.canary.{field}"));
        Some(Finding::warning(rules::MODEL_ROUTE, location, message, help))
    };
    // They are sorted by name.
    let found = stored.binary_search_by(|one| one.name.as_str().cmp(canary.model.as_str())).ok();
    let Some(other) = found.and_then(|at| stored.get(at)?.load().ok()) else {
        if broken.contains(&canary.model.as_str()) {
            return None;
        }
        let message = format!("the environment has no model `{}`", canary.model);
        let help = "Name a model of the environment, or remove `canary`: its share of the requests would be lost.";
        return warn("model", message, help.to_owned());
    };
    let named = other.model.spec.serving.as_ref().and_then(|serving| serving.frontend.as_ref()?.name.as_ref());
    if let Some(name) = named.filter(|name| !name.as_str().eq_ignore_ascii_case("frontend")) {
        let message =
            format!("the frontend of `{}` is called `{name}`, but a canary needs one called `frontend`", canary.model);
        return warn("model", message, "Write an HTTPRoute in `manifests` instead of `route`.".to_owned());
    }
    let served = |intent: &Intent| {
        let spec = &intent.model.spec;
        spec.served_name.clone().unwrap_or_else(|| spec.model.clone())
    };
    let (own, theirs) = (served(intent), served(&other));
    if own == theirs {
        return None;
    }
    let message = format!("clients ask for `{own}`, but `{}` serves `{theirs}`", canary.model);
    warn("model", message, format!("Set `servedName: {own}` in `{}`: it refuses other names.", other.source))
}
