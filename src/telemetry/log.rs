//! Lines of the log: one line each, whatever is in them, and each with what it is about.
//!
//! `source` (`namespace/name`), `revision` (the commit) and `model` are said by the spans that a line is in, so that lines
//! of libraries carry them as well. In JSON they are fields of the object itself, beside `ts`, `level`, `msg` and `target`
//! and whatever else the line has.

use super::LogSettings;
use serde_json::{Map, Value};
use stator_core::mask;
use stator_model::present::escape;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Write;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The target of spans that say what lines are about.
pub const SPAN_TARGET: &str = "stator::reconcile";

/// What a line is about, in the order in which it is said.
const CONTEXT_FIELDS: [&str; 4] = ["source", "revision", "model", "trace_id"];
/// What is said of every line.
const RESERVED_FIELDS: [&str; 4] = ["ts", "level", "msg", "target"];
/// Digits of a commit in lines for people.
const SHORT_COMMIT_LENGTH: usize = 7;

/// In which form lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEncoding {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Writes lines.
pub(super) struct LogLayer<W> {
    out: W,
    format: LogEncoding,
    color: bool,
    time: bool,
}

/// The fields of a span or of an event.
#[derive(Clone, Debug, Default)]
struct LogFields(BTreeMap<&'static str, Value>);

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), Value::from(value));
    }
}

impl<W> LogLayer<W> {
    pub(super) fn new(out: W, settings: LogSettings<'_>) -> Self {
        Self { out, format: settings.format, color: settings.color, time: settings.time }
    }
}

impl<S, W> Layer<S> for LogLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn() -> Box<dyn Write> + Send + Sync + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        // Spans of libraries have fields of their own kinds, which say nothing that a line needs.
        if let Some(span) = context.span(id).filter(|span| span.metadata().target() == SPAN_TARGET) {
            let mut fields = LogFields::default();
            attributes.record(&mut fields);
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LogFields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(known) = span.extensions().get::<LogFields>() {
                // The span knows the whole commit where the line may have said its first digits.
                fields.0.extend(known.0.iter().map(|(name, value)| (*name, value.clone())));
            }
        }
        let level = *event.metadata().level();
        let now = jiff::Timestamp::now();
        let line = match self.format {
            LogEncoding::Json => format_json(level, event.metadata().target(), now, fields),
            LogEncoding::Text => self.format_text(level, event.metadata().target(), now, fields),
        };
        // A log that cannot be written is no reason to stop, and there is nowhere to say so.
        let _ = (self.out)().write_all(mask::redact_tokens(&line).as_bytes());
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn take_message(fields: &mut LogFields) -> String {
    match fields.0.remove("message") {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn format_json(level: Level, target: &str, now: jiff::Timestamp, mut fields: LogFields) -> String {
    let mut object = Map::new();
    object.insert("ts".to_owned(), Value::from(format!("{now:.3}")));
    object.insert("level".to_owned(), Value::from(level_name(level)));
    object.insert("msg".to_owned(), Value::from(take_message(&mut fields)));
    object.insert("target".to_owned(), Value::from(target));
    for (name, value) in fields.0 {
        // What a library calls like one of ours is called otherwise.
        let name = if RESERVED_FIELDS.contains(&name) { format!("{name}_") } else { name.to_owned() };
        object.insert(name, value);
    }
    Value::Object(object).to_string() + "\n"
}

impl<W> LogLayer<W> {
    fn format_text(&self, level: Level, target: &str, now: jiff::Timestamp, mut fields: LogFields) -> String {
        let mut line = String::new();
        let (dim, color, plain) = match (self.color, level) {
            (false, _) => ("", "", ""),
            (true, Level::ERROR) => ("\u{1b}[2m", "\u{1b}[31m", "\u{1b}[0m"),
            (true, Level::WARN) => ("\u{1b}[2m", "\u{1b}[33m", "\u{1b}[0m"),
            (true, _) => ("\u{1b}[2m", "\u{1b}[32m", "\u{1b}[0m"),
        };
        let message = take_message(&mut fields);
        // Writing to text does not fail.
        if self.time {
            let _ = write!(line, "{dim}{now:.3}{plain} ");
        }
        let level = level_name(level).to_ascii_uppercase();
        let _ = write!(line, "{color}{level:>5}{plain} {dim}{target}:{plain} {}", escape::line(&message));
        let about = CONTEXT_FIELDS.iter().filter_map(|name| Some((*name, fields.0.get(name)?)));
        let rest =
            fields.0.iter().filter(|(name, _)| !CONTEXT_FIELDS.contains(name)).map(|(name, value)| (*name, value));
        for (name, value) in about.chain(rest) {
            let value = match value {
                Value::String(text) if name == "revision" => text.get(..SHORT_COMMIT_LENGTH).unwrap_or(text).to_owned(),
                Value::String(text) if needs_no_quotes(text) => text.clone(),
                Value::String(text) => format!("{text:?}"),
                other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    other.to_string()
                }
            };
            let _ = write!(line, " {dim}{name}={plain}{}", escape::line(&value));
        }
        line.push('\n');
        line
    }
}

/// Whether a value reads well without quotes.
fn needs_no_quotes(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"' || c == '=' || c.is_control())
}
