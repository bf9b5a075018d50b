//! A route: hosts and a path that a gateway takes, and a canary that is another model.

use super::ModelValidator;
use crate::intent::model::Route;
use crate::intent::rules;
use std::collections::BTreeSet;

pub(super) fn validate_route(judge: &mut ModelValidator<'_>) {
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
