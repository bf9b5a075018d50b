//! Traces: from a delivery to healthy models, as spans for an OpenTelemetry collector.
//!
//! Off unless `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` says where to. The variables of
//! OpenTelemetry's SDK hold: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and its argument,
//! `OTEL_EXPORTER_OTLP_HEADERS`, `..._TIMEOUT`, `..._CERTIFICATE`, `OTEL_BSP_*`, `OTEL_SDK_DISABLED`. Spans wait in a bounded
//! queue, from which a thread of its own sends them: nobody waits for a collector, and what finds no space is lost.

mod client;

use client::OtlpHttpClient;
use opentelemetry::trace::{Span as _, SpanContext, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use stator_core::mask;
use stator_git::source::transport::http::{HttpClient, HttpSettings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Whether anybody takes spans.
static EXPORT_ENABLED: AtomicBool = AtomicBool::new(false);
/// Batches that were sent, and that were not.
static SENT_BATCHES: AtomicU64 = AtomicU64::new(0);
static FAILED_BATCHES: AtomicU64 = AtomicU64::new(0);

/// Batches of spans since the process started, where there is a collector: those that were taken, and those that were not.
pub fn export_counts() -> Option<(u64, u64)> {
    EXPORT_ENABLED
        .load(Ordering::Relaxed)
        .then(|| (SENT_BATCHES.load(Ordering::Relaxed), FAILED_BATCHES.load(Ordering::Relaxed)))
}

/// Traces that run. To be [ended](TracePipeline::shutdown), or what waits is lost.
#[derive(Debug)]
pub struct TracePipeline {
    provider: SdkTracerProvider,
}

impl TracePipeline {
    /// Starts, where the variables say where to. Must be called inside a runtime.
    ///
    /// # Errors
    /// What is wrong with the variables. No value of theirs is in it.
    pub fn start() -> Result<Option<Self>, String> {
        Self::from_variables(&|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let of_traces = |name: &str| {
            variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value != "otlp");
        if off || of_traces("ENDPOINT").is_none() {
            return Ok(None);
        }
        if let Some(protocol) = of_traces("PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
            let known = matches!(protocol.as_str(), "grpc" | "http/json");
            let named = if known { protocol } else { "something else".to_owned() };
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is {named}, but stator supports only http/protobuf: set that, with the collector's HTTP port (4318)"
            ));
        }
        let roots = match of_traces("CERTIFICATE") {
            Some(path) => fs_err::read(path).map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {error}"))?,
            None => Vec::new(),
        };
        let settings = HttpSettings { roots, total_timeout: Some(client::EXPORT_TIMEOUT), ..HttpSettings::default() };
        let http = HttpClient::new("the collector", &settings).map_err(|error| error.to_string())?;
        let client = OtlpHttpClient::new(http, tokio::runtime::Handle::current());
        // What is wrong with an address or a header may be quoted, and both may be secret.
        let unusable = |_| {
            "OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_HEADERS cannot be used: write the collector's URL, and headers as `name=value,name=value`".to_owned()
        };
        let exporter = SpanExporter::builder().with_http().with_http_client(client);
        let exporter = exporter.with_protocol(opentelemetry_otlp::Protocol::HttpBinary).build().map_err(unusable)?;
        let named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="));
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        if !named {
            resource = resource.with_service_name("stator");
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        global::set_tracer_provider(provider.clone());
        EXPORT_ENABLED.store(true, Ordering::Relaxed);
        Ok(Some(Self { provider }))
    }

    /// Sends what waits, but not for long.
    pub async fn shutdown(self, deadline: Duration) {
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(deadline));
        // What the collector did not take by then is lost, which the last line of the exporter has said.
        let _ = tokio::time::timeout(deadline + Duration::from_secs(1), ended).await;
    }
}

/// Where a span stands among others: what is begun below it carries on its trace. Without a collector it is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext(Option<SpanContext>);

impl TraceContext {
    /// The trace's name in hexadecimal digits, where there is one: for lines of the log.
    pub fn trace_id(&self) -> Option<String> {
        self.0.as_ref().filter(|context| context.is_sampled()).map(|context| context.trace_id().to_string())
    }
}

/// A span: from when it was begun to when it is dropped.
#[derive(Debug)]
pub struct TraceSpan(Option<global::BoxedSpan>);

impl TraceSpan {
    /// Begins below another one, or a trace of its own where that is nothing.
    pub fn start(name: &'static str, origin: &TraceContext) -> Self {
        Self::start_at(name, origin, SystemTime::now())
    }

    /// The same, for what began a while ago.
    pub fn start_at(name: &'static str, origin: &TraceContext, at: SystemTime) -> Self {
        if !EXPORT_ENABLED.load(Ordering::Relaxed) {
            return Self(None);
        }
        let tracer = global::tracer("stator");
        let parent =
            origin.0.clone().map_or_else(Context::new, |context| Context::new().with_remote_span_context(context));
        Self(Some(tracer.build_with_context(tracer.span_builder(name).with_start_time(at), &parent)))
    }

    /// With what it is about.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.set_attribute(name, value);
        self
    }

    /// Adds what it is about.
    pub fn set_attribute(&mut self, name: &'static str, value: impl ToString) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(name, mask::redact_tokens(&value.to_string()).into_owned()));
        }
    }

    /// It ended badly, for a reason without a secret.
    pub fn set_error(&mut self, why: &str) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::error(mask::redact_tokens(why).into_owned()));
        }
    }

    /// For what is begun below it.
    pub fn trace_context(&self) -> TraceContext {
        TraceContext(self.0.as_ref().map(|span| span.span_context().clone()))
    }
}
