//! What a process that runs for days says of itself while it runs: log lines and traces, and what a panic says. What it
//! counts is `controller::metrics`.

mod log;
pub mod traces;

pub use log::{LogEncoding, SPAN_TARGET};

use stator_core::mask;
use stator_model::present::escape;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// How the log is written.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings<'a> {
    /// In which form.
    pub format: LogEncoding,
    /// With colour, where the form has some.
    pub color: bool,
    /// With the time, where the form leaves a choice: what ends in a minute needs none.
    pub time: bool,
    /// What is written: a level, and levels of parts, as `STATOR_LOG` has them.
    pub filter: &'a str,
}

/// From now on writes the log to `out`. A second call in one process, as tests make it, keeps the first.
///
/// # Errors
/// What is wrong with the filter; nothing is written then.
pub fn init_log<W>(out: W, settings: LogSettings<'_>) -> Result<(), String>
where
    W: Fn() -> Box<dyn Write> + Send + Sync + 'static,
{
    let _ = tracing_subscriber::registry().with(log_layer(out, settings)?).try_init();
    Ok(())
}

fn log_layer<S, W>(out: W, settings: LogSettings<'_>) -> Result<impl tracing_subscriber::Layer<S>, String>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: Fn() -> Box<dyn Write> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(settings.filter).map_err(|error| error.to_string())?;
    // What a line is about is known whatever is written.
    let about = format!("{SPAN_TARGET}=error").parse().map_err(|_| "the log's own filter".to_owned())?;
    Ok(log::LogLayer::new(out, settings).with_filter(filter.add_directive(about)))
}

/// A panic in the words of the standard library, with tokens hidden as in everything else that is printed: a message may
/// quote what was read.
pub fn describe_panic(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = escape::lines(panic.payload_as_str().unwrap_or("Box<dyn Any>"));
    let backtrace = Backtrace::capture();
    let trace = if backtrace.status() == BacktraceStatus::Captured {
        format!("stack backtrace:\n{backtrace}")
    } else {
        "note: run with `RUST_BACKTRACE=1` in the environment to see a backtrace\n".to_owned()
    };
    let text = format!("thread '{thread}' panicked{place}:\n{message}\n{trace}");
    mask::redact_tokens(&text).into_owned()
}

#[cfg(test)]
mod tests;
