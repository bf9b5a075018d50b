//! The health of what clients reach a model by: Services, and routes of the Gateway API.

use super::{Health, HealthVerdict};
use crate::object::Object;
use serde_json::Value;

/// A Service is there at once, but for the address of a load balancer.
pub(super) fn service_health(service: &Object) -> HealthVerdict {
    let wants_address = service.str_at("/spec/type") == Some("LoadBalancer");
    let addresses = service.status().pointer("/loadBalancer/ingress").and_then(Value::as_array);
    if wants_address && addresses.is_none_or(Vec::is_empty) {
        return HealthVerdict::progressing("waiting for the load balancer's address");
    }
    HealthVerdict::new(Health::Healthy, "exists")
}

/// A route is Healthy once every gateway that it names has accepted it, as it is, and found what it leads to.
pub(super) fn route_health(route: &Object) -> HealthVerdict {
    let generation = route.generation().unwrap_or(0);
    let wanted = route.spec().get("parentRefs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if wanted.is_empty() {
        return HealthVerdict::new(Health::Healthy, "belongs to no gateway");
    }
    let answers = route.status().get("parents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let verdicts = wanted.iter().map(|parent| judge_parent(route, parent, answers, generation));
    let worst = verdicts.max_by_key(|verdict| verdict.health);
    worst.unwrap_or_else(|| HealthVerdict::new(Health::Healthy, "accepted"))
}

/// What the gateway says of a route. Several controllers may answer for it, and one is enough.
fn judge_parent(route: &Object, parent: &Value, answers: &[Value], generation: i64) -> HealthVerdict {
    let name = describe_parent(parent);
    let is_same = |answer: &&Value| {
        let given = answer.get("parentRef").unwrap_or(&Value::Null);
        ["name", "sectionName", "port"].iter().all(|field| given.get(*field) == parent.get(*field))
            && namespace_of(given, route) == namespace_of(parent, route)
    };
    let judged = answers.iter().filter(is_same).map(|answer| judge_answer(&name, answer, generation));
    judged.min_by_key(|verdict| verdict.health).unwrap_or_else(|| {
        HealthVerdict::progressing(format!(
            "waiting for {name} to accept the route: check that the gateway exists and its controller is running"
        ))
    })
}

fn judge_answer(gateway: &str, answer: &Value, generation: i64) -> HealthVerdict {
    let conditions = answer.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for kind in ["Accepted", "ResolvedRefs"] {
        let Some(condition) = conditions.iter().find(|one| one.get("type").is_some_and(|text| text == kind)) else {
            return HealthVerdict::progressing(format!("waiting for {gateway} to report whether the route is {kind}"));
        };
        let text = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
        let observed = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or(generation);
        if observed < generation {
            return HealthVerdict::progressing(format!("waiting for {gateway} to process the change of the route"));
        }
        if text("status") != "True" {
            let said = if text("message").is_empty() { String::new() } else { format!(": {}", text("message")) };
            let reason = text("reason");
            let message = match kind {
                "Accepted" => format!("route not accepted by {gateway}: {reason}{said}"),
                _ => format!("route has no valid backend, reports {gateway}: {reason}{said}"),
            };
            return HealthVerdict::new(Health::Degraded, message);
        }
    }
    HealthVerdict::new(Health::Healthy, format!("accepted by {gateway}"))
}

/// `gateway infra/public (https)`.
fn describe_parent(parent: &Value) -> String {
    let text = |name: &str| parent.get(name).and_then(Value::as_str);
    let kind = text("kind").unwrap_or("Gateway").to_ascii_lowercase();
    let namespace = text("namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let section = text("sectionName").map(|section| format!(" ({section})")).unwrap_or_default();
    format!("{kind} {namespace}{}{section}", text("name").unwrap_or_default())
}

/// Where a reference leaves the namespace out, it is the route's.
fn namespace_of<'a>(parent: &'a Value, route: &'a Object) -> &'a str {
    parent.get("namespace").and_then(Value::as_str).unwrap_or_else(|| route.namespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn route(parents: &Value, answers: &Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "chat", "namespace": "prod", "generation": 2},
            "spec": {"parentRefs": parents}, "status": {"parents": answers},
        }))
        .unwrap()
    }

    fn answer(parent: &Value, accepted: (&str, &str, &str), resolved: (&str, &str), observed: i64) -> Value {
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": observed});
        json!({"parentRef": parent, "controllerName": "example.com/gateway", "conditions": [
            condition("Accepted", accepted.0, accepted.1, accepted.2),
            condition("ResolvedRefs", resolved.0, resolved.1, ""),
        ]})
    }

    #[test]
    fn a_route_is_healthy_once_every_gateway_has_accepted_it() {
        let public = json!({"name": "public", "namespace": "infra", "sectionName": "https"});
        let own = json!({"name": "own"});
        let own_in_full =
            json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "own", "namespace": "prod"});
        let (yes, found) = (("True", "Accepted", ""), ("True", "ResolvedRefs"));
        let refused = ("False", "NoMatchingListenerHostname", "no listener serves chat.example.com");
        let routes = [
            (json!([public]), json!([])),
            (json!([public]), json!([answer(&public, yes, found, 1)])),
            (json!([public]), json!([answer(&public, yes, found, 2)])),
            (json!([public]), json!([answer(&public, refused, found, 2)])),
            (json!([public]), json!([answer(&public, yes, ("False", "BackendNotFound"), 2)])),
            (json!([public, own]), json!([answer(&public, yes, found, 2)])),
            (json!([public, own]), json!([answer(&own_in_full, yes, found, 2), answer(&public, yes, found, 2)])),
            (json!([own]), json!([{"parentRef": own, "controllerName": "a", "conditions": []}])),
            (json!([own]), json!([answer(&own, refused, found, 2), answer(&own, yes, found, 2)])),
            (json!([]), json!([])),
        ];
        let described = routes.iter().map(|(parents, answers)| {
            let verdict = route_health(&route(parents, answers));
            format!("{}: {}", verdict.health, verdict.message)
        });
        insta::assert_snapshot!(described.collect::<Vec<_>>().join("\n"), @"
        Progressing: waiting for gateway infra/public (https) to accept the route: check that the gateway exists and its controller is running
        Progressing: waiting for gateway infra/public (https) to process the change of the route
        Healthy: accepted by gateway infra/public (https)
        Degraded: route not accepted by gateway infra/public (https): NoMatchingListenerHostname: no listener serves chat.example.com
        Degraded: route has no valid backend, reports gateway infra/public (https): BackendNotFound
        Progressing: waiting for gateway own to accept the route: check that the gateway exists and its controller is running
        Healthy: accepted by gateway own
        Progressing: waiting for gateway own to report whether the route is Accepted
        Healthy: accepted by gateway own
        Healthy: belongs to no gateway
        ");
    }

    #[test]
    fn a_service_waits_for_the_address_of_its_load_balancer_alone() {
        let service = |kind: &str, status: Value| {
            let value = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat", "namespace": "prod"},
                "spec": {"type": kind}, "status": status});
            service_health(&Object::from_value(value).unwrap()).health
        };
        assert_eq!(service("ClusterIP", json!({"loadBalancer": {}})), Health::Healthy);
        assert_eq!(service("LoadBalancer", json!({"loadBalancer": {}})), Health::Progressing);
        assert_eq!(
            service("LoadBalancer", json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})),
            Health::Healthy
        );
    }
}
