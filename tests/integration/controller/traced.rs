//! Traces and the log, as a collector and a person get them.

use super::{HOOK, SECRET, Scene, deliver, fleet, head, scale};
use crate::testbed::ReservedPort;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A collector of its own: takes OTLP over HTTP, and keeps what it was sent.
#[derive(Clone)]
struct Collector {
    url: String,
    taken: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { url, taken: Arc::default() };
        let taken = Arc::clone(&collector.taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), taken) = (stream, Arc::clone(&taken)) else { return };
                std::thread::spawn(move || while take(&mut stream, &taken).is_some() {});
            }
        });
        collector
    }

    fn spans(&self) -> Vec<Span> {
        let taken = self.taken.lock().unwrap();
        let resources = taken.iter().flat_map(|(_, request)| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }
}

/// One request: its head and its spans.
fn take(stream: &mut std::net::TcpStream, taken: &Mutex<Vec<(String, ExportTraceServiceRequest)>>) -> Option<()> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    let (head, length) = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            break (head, end + 4 + length.unwrap_or_default());
        }
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    };
    while bytes.len() < length {
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    }
    let body = &bytes[bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4..];
    taken.lock().unwrap().push((head, ExportTraceServiceRequest::decode(body).unwrap()));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n").ok()
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|pair| pair.key == name)?.value.clone()?;
    let value = value.value?;
    if let opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(text) = value {
        return Some(text);
    }
    Some(format!("{value:?}"))
}

#[test]
fn a_commit_is_one_trace_from_the_delivery_to_healthy_models() {
    let collector = Collector::start();
    let mut scene = Scene::of(fleet(1));
    scene.variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.clone()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary-otlp".to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
    ];
    scene.declare(&(scene.source("models", &format!("  interval: 24h\n{HOOK}")) + SECRET));
    scene.start_with(&["--log-format", "json"]);
    let first = head(&scene.bench);
    scene.synced("models", &first);
    let second = scale(&scene.bench, 0, 3);
    assert_eq!(deliver(&scene, "1", "canary-hook").0, 202);
    scene.synced("models", &second);
    scene.is_settled();
    let said = scene.said();
    assert_eq!(scene.end().code(), Some(0));

    let spans = collector.spans();
    let webhook = spans.iter().find(|span| span.name == "webhook").unwrap();
    let trace: Vec<&Span> = spans.iter().filter(|span| span.trace_id == webhook.trace_id).collect();
    let path = |span: &Span| {
        let mut names = vec![span.name.clone()];
        let mut parent = span.parent_span_id.clone();
        while let Some(above) = trace.iter().find(|one| one.span_id == parent) {
            names.insert(0, above.name.clone());
            parent.clone_from(&above.parent_span_id);
        }
        names.join(" > ")
    };
    let mut paths: Vec<String> = trace.iter().map(|span| path(span)).collect();
    paths.sort();
    paths.dedup();
    for expected in [
        "webhook",
        "webhook > look",
        "webhook > look > attempt",
        "webhook > look > attempt > apply",
        "webhook > look > attempt > look at cluster",
        "webhook > look > attempt > plan",
        "webhook > look > attempt > read",
        "webhook > look > attempt > render",
        "webhook > look > attempt > sync",
        "webhook > look > fetch",
    ] {
        assert!(paths.iter().any(|path| path == expected), "{expected} is not among {paths:#?}");
    }
    // The first sync waits for its model, whoever began it.
    assert!(spans.iter().any(|span| span.name == "wait" && attribute(span, "model").as_deref() == Some("mock-0")));
    let attempt = trace.iter().find(|span| span.name == "attempt").unwrap();
    assert_eq!(attribute(attempt, "source").as_deref(), Some("default/models"));
    assert_eq!(attribute(attempt, "revision").as_deref(), Some(second.as_str()));

    let (heads, resource) = {
        let taken = collector.taken.lock().unwrap();
        let resource = taken[0].1.resource_spans[0].resource.clone().unwrap();
        (taken.iter().map(|(head, _)| head.clone()).collect::<String>(), resource)
    };
    assert!(heads.contains("post /v1/traces") && heads.contains("authorization: bearer canary-otlp"), "{heads}");
    let named: Vec<&str> = resource.attributes.iter().map(|pair| pair.key.as_str()).collect();
    assert!(named.contains(&"service.name") && named.contains(&"deployment.environment"), "{named:?}");

    // The log of the same: an object a line, each with what it is about.
    assert!(!said.contains("canary"), "{said}");
    let lines: Vec<serde_json::Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_units =
        lines.iter().filter(|line| line["target"].as_str().unwrap().starts_with("stator::controller::reconcile"));
    let of_units: Vec<_> = of_units.collect();
    assert!(of_units.iter().all(|line| line["source"] == "default/models"), "{of_units:#?}");
    let applied =
        of_units.iter().find(|line| line["msg"].as_str().unwrap().starts_with("applied") && line["revision"] == second);
    let applied = applied.expect("a line for what was applied");
    assert_eq!((&applied["model"], &applied["level"]), (&"mock-0".into(), &"info".into()));
    let id: String = webhook.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(applied["trace_id"], id);
}

#[test]
fn a_collector_that_is_down_holds_up_nothing_and_costs_one_line() {
    let gone = ReservedPort::reserve().unwrap();
    let mut scene = Scene::of(fleet(1));
    scene.variables = vec![
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{}/v1/traces", gone.address())),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
    ];
    scene.declare(&scene.source("models", ""));
    scene.start();
    scene.synced("models", &head(&scene.bench));
    let second = scale(&scene.bench, 0, 3);
    scene.synced("models", &second);
    scene.until("batches are lost", || scene.metric("stator_trace_exports_total{result=\"failure\"}") >= 2.0);
    assert_eq!(scene.times("traces are lost"), 1, "{}", scene.said());
    assert_eq!(scene.end().code(), Some(0));
}
