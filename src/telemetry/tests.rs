use super::*;
use std::sync::{Arc, Mutex};

/// A place that lines are written to.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged while something is done.
fn logged(format: LogEncoding, filter: &str, act: impl FnOnce()) -> String {
    let written = LogBuffer::default();
    let out = written.clone();
    let settings = LogSettings { format, color: false, time: false, filter };
    let layer = log_layer(move || Box::new(out.clone()), settings).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn an_attempt() {
    let source = tracing::error_span!(target: SPAN_TARGET, "source", source = "team/models");
    let _source = source.enter();
    tracing::info!("looking");
    let attempt =
        tracing::error_span!(target: SPAN_TARGET, "attempt", revision = "3f2c1ab99d", model = tracing::field::Empty);
    let _attempt = attempt.enter();
    tracing::info!(revision = "3f2c1ab", writes = 3, took = 0.5, "synced");
    // A line of a library, with names of its own.
    tracing::warn!(target: "hyper::client", level = 7, ts = "now", "a\nb \u{1b}[31m");
    attempt.record("model", "llama");
    tracing::debug!("not written");
    tracing::error!(why = "no \"room\"", empty = "", "gone");
}

#[test]
fn every_line_says_what_it_is_about_and_is_one_line() {
    insta::assert_snapshot!(logged(LogEncoding::Text, "info", an_attempt), @r#"
     INFO stator::telemetry::tests: looking source=team/models
     INFO stator::telemetry::tests: synced source=team/models revision=3f2c1ab took=0.5 writes=3
     WARN hyper::client: a\nb \u{1b}[31m source=team/models revision=3f2c1ab level=7 ts=now
    ERROR stator::telemetry::tests: gone source=team/models revision=3f2c1ab model=llama empty="" why="no \"room\""
    "#);
}

#[test]
fn a_line_of_json_has_all_of_it_as_fields_of_its_own() {
    let text = logged(LogEncoding::Json, "info", an_attempt);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["ts"].as_str().is_some_and(|ts| ts.ends_with('Z') && ts.len() == 24)));
    let without_time = lines.into_iter().map(|mut line| {
        line.as_object_mut().unwrap().remove("ts");
        line.to_string()
    });
    insta::assert_snapshot!(without_time.collect::<Vec<_>>().join("\n"), @r#"
    {"level":"info","msg":"looking","source":"team/models","target":"stator::telemetry::tests"}
    {"level":"info","msg":"synced","revision":"3f2c1ab99d","source":"team/models","target":"stator::telemetry::tests","took":0.5,"writes":3}
    {"level":"warn","level_":7,"msg":"a\nb \u001b[31m","revision":"3f2c1ab99d","source":"team/models","target":"hyper::client","ts_":"now"}
    {"empty":"","level":"error","model":"llama","msg":"gone","revision":"3f2c1ab99d","source":"team/models","target":"stator::telemetry::tests","why":"no \"room\""}
    "#);
}

#[test]
fn what_a_line_is_about_does_not_hang_from_what_is_written() {
    let text = logged(LogEncoding::Text, "hyper=warn", an_attempt);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("source=team/models revision=3f2c1ab"), "{text}");
    let settings = LogSettings { format: LogEncoding::Text, color: false, time: false, filter: "a=b=c" };
    assert!(init_log(|| Box::new(std::io::sink()), settings).is_err());
}

#[test]
fn a_panic_says_where_it_was_and_no_token() {
    const THREAD: &str = "a-thread-that-panics";
    let said = Arc::new(Mutex::new(String::new()));
    let (kept, usual) = (Arc::clone(&said), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| match std::thread::current().name() {
        Some(THREAD) => *kept.lock().unwrap() = describe_panic(panic),
        Some(_) | None => usual(panic),
    }));
    let token = ["gh", "p_9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
    let work = move || panic!("cannot read {token}\u{1b}[31m");
    assert!(std::thread::Builder::new().name(THREAD.to_owned()).spawn(work).unwrap().join().is_err());
    let said = said.lock().unwrap().clone();
    let start = format!("thread '{THREAD}' panicked at {}:", file!());
    assert!(said.starts_with(&start) && said.contains(":\ncannot read ***\\u{1b}[31m\n"), "{said}");
}
