//! What is served at `/metrics` and `/readyz`, and what is built on it: alerts and the dashboard.

use super::process::ask;
use super::{Scene, fleet, head};
use crate::testbed::promtool;
use regex::Regex;
use serde_json::Value;
use stator::controller::metrics::{ALL, MetricKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/observability").join(file)
}

fn read(path: &Path) -> String {
    fs_err::read_to_string(path).unwrap()
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&read(&deployed(file))).unwrap()
}

/// Runs promtool; what it said when it did not like it.
fn checked(promtool: &Path, arguments: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new(promtool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.current_dir(deployed("")).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn what_is_served_is_what_prometheus_reads() {
    let mut scene = Scene::of(fleet(1));
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    let plain = scene.gets("/metrics").1;
    let open = scene.asks("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0", b"").1;
    assert!(open.ends_with("# EOF\n") && !plain.contains("# EOF"), "{open}");
    let models = |health: &str| scene.metric(&format!("stator_models{{source=\"models\",health=\"{health}\"}}"));
    assert_eq!((models("healthy"), models("failed")), (1.0, 0.0));
    for line in [
        "stator_ready 1\n",
        "stator_sources{state=\"running\"} 1\n",
        "stator_git_operations_total{namespace=\"default\",source=\"models\",operation=\"list\",result=\"success\"}",
        "stator_applies_total{kind=\"DynamoGraphDeployment\",result=\"applied\"} 1\n",
        "stator_stage_duration_seconds_count{stage=\"plan\"}",
        "process_open_fds ",
    ] {
        assert!(plain.contains(line), "{line} is not in\n{plain}");
    }
    let (status, verbose) = scene.gets("/readyz?verbose");
    assert_eq!((status, verbose.as_str()), (200, "[+] source default/models\n[+] process\nready\n"));
    if let Some(promtool) = promtool() {
        checked(promtool, &["check", "metrics"], &plain).unwrap();
    }
    assert_eq!(scene.end().code(), Some(0));
}

#[test]
fn metrics_may_have_a_listener_of_their_own() {
    let mut scene = Scene::of(fleet(1));
    scene.declare(&scene.source("models", ""));
    scene.start_with(&["--metrics-listen", "127.0.0.1:0"]);
    scene.hears("Metrics are at http://");
    let said = scene.said();
    let address = said.split("Metrics are at http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let asked = |head: &str| ask(address, head, b"");
    let served = asked("GET /metrics HTTP/1.1");
    assert!(served.0 == 200 && served.1.contains("stator_sources{"), "{served:?}");
    assert_eq!(scene.gets("/metrics").0, 404, "and nowhere else");
    // Whoever may scrape may not tell of pushes.
    let refused = asked("POST /webhooks/gitea/models HTTP/1.1");
    assert_eq!(refused, (404, r#"{"error":"known paths: /livez, /readyz and /metrics"}"#.to_owned()));
    let (_, refused) = scene.asks("POST /webhooks/gitea/models HTTP/1.1", b"");
    assert!(!refused.contains("there is"), "{refused}");
    assert_eq!([scene.gets("/livez").0, asked("GET /livez HTTP/1.1").0], [200, 200]);
    assert_eq!(scene.end().code(), Some(0));
}

#[test]
fn alerts_fire_when_they_should_and_not_else() {
    let Some(promtool) = promtool() else { return };
    checked(promtool, &["check", "rules", "alerts.yaml"], "").unwrap();
    checked(promtool, &["test", "rules", "alerts.test.yaml"], "").unwrap();
}

fn alerts() -> Vec<Value> {
    let groups = yaml("alerts.yaml")["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn every_alert_has_a_page_and_both_tests() {
    let page = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/when-it-pages.md"));
    let tests = yaml("alerts.test.yaml");
    let mut cases: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for test in tests["tests"].as_array().unwrap() {
        for case in test["alert_rule_test"].as_array().unwrap() {
            let fires = case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
            cases.entry(case["alertname"].as_str().unwrap().to_owned()).or_default().insert(fires);
        }
    }
    let names: Vec<String> = alerts().iter().map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect();
    assert!(names.len() > 15, "{names:?}");
    for (alert, name) in alerts().iter().zip(&names) {
        assert_eq!(cases.get(name).map(BTreeSet::len), Some(2), "{name} has to fire in one test, and not in another");
        let runbook = alert["annotations"]["runbook_url"].as_str().unwrap();
        assert!(runbook.ends_with(&format!("/when-it-pages#{}", name.to_lowercase())), "{runbook}");
        assert!(page.contains(&format!("\n## {name}\n\n**Means**: ")), "{name} has no section");
        for field in ["summary", "description"] {
            assert!(alert["annotations"][field].as_str().is_some_and(|text| !text.is_empty()), "{name}: {field}");
        }
        assert!(["critical", "warning", "info"].contains(&alert["labels"]["severity"].as_str().unwrap()));
    }
    let sections = page.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(sections.collect::<Vec<_>>(), names, "sections are those of the alerts, in their order");
}

/// Labels that a scrape adds.
const OF_TARGETS: [&str; 4] = ["job", "instance", "namespace", "le"];

/// Every metric and label of a query is one that is served.
fn known(query: &str) {
    let families: BTreeMap<&str, _> =
        ALL.iter().flat_map(|group| group.families).map(|family| (family.name, family)).collect();
    let selector = Regex::new(r"\b((?:stator|process)_[a-z_]+)(\{[^}]*\})?").unwrap();
    let mut labels: BTreeSet<&str> = OF_TARGETS.into();
    let mut found = 0;
    let matchers = Regex::new(r#"(\w+)\s*(?:=~|!~|!=|=)\s*""#).unwrap();
    for captures in selector.captures_iter(query) {
        let name = &captures[1];
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
            let family = families.get(name.strip_suffix(suffix)?)?;
            (family.kind == MetricKind::Histogram).then_some(*family)
        });
        let plain = families.get(name).copied().filter(|family| family.kind != MetricKind::Histogram);
        let family = of_histogram.or(plain).unwrap_or_else(|| panic!("{name} is not served: {query}"));
        let own: BTreeSet<&str> = family.labels.iter().map(|label| label.name).chain(OF_TARGETS).collect();
        let matched = captures.get(2).map_or("", |matched| matched.as_str());
        for label in matchers.captures_iter(matched) {
            let label = label.get(1).unwrap().as_str();
            assert!(own.contains(label), "{name} has no label {label}: {query}");
        }
        labels.extend(own);
        found += 1;
    }
    assert!(found > 0, "{query}");
    for grouped in Regex::new(r"\b(?:by|on)\s*\(([^)]*)\)").unwrap().captures_iter(query) {
        for label in grouped.get(1).unwrap().as_str().split(',').map(str::trim) {
            assert!(labels.contains(label), "nothing in it has the label {label}: {query}");
        }
    }
}

#[test]
fn alerts_and_dashboard_ask_for_what_is_served() {
    for alert in alerts() {
        known(alert["expr"].as_str().unwrap());
    }
    let text = read(&deployed("dashboard.json"));
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&dashboard["id"], &dashboard["uid"]), (&Value::Null, &"stator-overview".into()));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one id");
    let mut rules = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title} says nothing of itself");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        assert_eq!(panel["datasource"]["uid"], "${DS_PROMETHEUS}", "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            assert_eq!(target["datasource"]["uid"], "${DS_PROMETHEUS}", "{title}");
            assert!(!query.contains("rate(") || query.contains("[$__rate_interval]"), "{title}: {query}");
            known(query);
            // As Grafana would fill it in.
            let filled = query.replace("$__rate_interval", "5m").replace("$namespace", ".*").replace("$source", ".*");
            rules.push(serde_json::json!({"record": format!("panel:{}:query", rules.len()), "expr": filled}));
        }
    }
    assert!(rules.len() > 30, "{}", rules.len());
    if let Some(promtool) = promtool() {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        let groups = serde_json::json!({"groups": [{"name": "panels", "rules": rules}]});
        fs_err::write(file.path(), groups.to_string()).unwrap();
        checked(promtool, &["check", "rules", file.path().to_str().unwrap()], "").unwrap();
    }
}
