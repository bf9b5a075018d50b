//! What is read of the process when somebody asks: what every Prometheus client says of it, from `/proc`, and what it counts
//! itself. Elsewhere than on Linux, and where `/proc` cannot be read, the first is left out.

use super::definitions::{self, MetricDefinition, MetricKind};
use crate::telemetry::traces;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks of the processor's clock in a second, as Linux shows them to programs on every architecture that it runs on.
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;

/// Panics of this process. The hook that sees them belongs to the process too.
static PANIC_COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts a panic: for the process' panic hook.
pub fn count_panic() {
    PANIC_COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Reads what is counted of the process as a whole (panics, and batches of spans where there is a collector), and `/proc`.
#[derive(Debug)]
pub(super) struct ProcessCollector;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProcessUsage {
    cpu: Option<f64>,
    started: Option<f64>,
    resident: Option<f64>,
    size: Option<f64>,
    open: Option<f64>,
    most: Option<f64>,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        ConstCounter::new(PANIC_COUNT.load(Ordering::Relaxed)).encode(describe(&mut encoder, &definitions::PANICS)?)?;
        if let Some((sent, lost)) = traces::export_counts() {
            let mut family = describe(&mut encoder, &definitions::TRACES)?;
            for (result, number) in [("success", sent), ("failure", lost)] {
                ConstCounter::new(number).encode(family.encode_family(&[("result", result)])?)?;
            }
        }
        let now = read_process_usage();
        let said: [(&MetricDefinition, Option<f64>); 6] = [
            (&definitions::CPU, now.cpu),
            (&definitions::MEMORY, now.resident),
            (&definitions::VIRTUAL, now.size),
            (&definitions::FDS, now.open),
            (&definitions::MOST_FDS, now.most),
            (&definitions::START, now.started),
        ];
        for (described, value) in said {
            let Some(value) = value else { continue };
            let encoder = describe(&mut encoder, described)?;
            match described.kind {
                MetricKind::Counter => ConstCounter::new(value).encode(encoder)?,
                MetricKind::Gauge | MetricKind::Histogram => ConstGauge::new(value).encode(encoder)?,
            }
        }
        Ok(())
    }
}

/// Begins a family as the registry does with its own: a full stop, and no suffix.
fn describe<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    of: &MetricDefinition,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(of.registered_name(), &format!("{}.", of.meaning), None, of.kind.metric_type())
}

fn read_process_usage() -> ProcessUsage {
    let text = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
    let mut usage = parse_process_usage(
        &text("/proc/self/stat"),
        &text("/proc/self/status"),
        &text("/proc/self/limits"),
        &text("/proc/stat"),
    );
    usage.open = fs_err::read_dir("/proc/self/fd").ok().map(|all| all.count()).and_then(|open| {
        // The folder that is read is open itself.
        u32::try_from(open.saturating_sub(1)).ok().map(f64::from)
    });
    usage
}

fn parse_process_usage(stat: &str, status: &str, limits: &str, system: &str) -> ProcessUsage {
    // The program's name stands in parentheses, and may hold any character.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |at: usize| {
        fields.get(at).and_then(|text| text.parse::<f64>().ok()).map(|ticks| ticks / CLOCK_TICKS_PER_SECOND)
    };
    let line = |text: &str, name: &str, column: usize| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().nth(column)?.parse::<f64>().ok()
    };
    let booted = line(system, "btime", 0);
    ProcessUsage {
        cpu: ticks(11).zip(ticks(12)).map(|(user, system)| user + system),
        started: booted.zip(ticks(19)).map(|(booted, after)| booted + after),
        resident: line(status, "VmRSS:", 0).map(|kilobytes| kilobytes * 1024.0),
        size: line(status, "VmSize:", 0).map(|kilobytes| kilobytes * 1024.0),
        open: None,
        most: line(limits, "Max open files", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let stat = "42 (a) name) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 1000 1 2 3";
        let status = "Name:\tstator\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 524288               files\n";
        let usage = parse_process_usage(stat, status, limits, "cpu 1 2\nbtime 1700000000\n");
        let expected = ProcessUsage {
            cpu: Some(3.0),
            started: Some(1_700_000_010.0),
            resident: Some(1_048_576.0),
            size: Some(2_097_152.0),
            open: None,
            most: Some(1024.0),
        };
        assert_eq!(usage, expected);
        assert_eq!(
            parse_process_usage("", "", "Max open files unlimited unlimited files", "()"),
            ProcessUsage::default()
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_read() {
        let usage = read_process_usage();
        assert!(usage.resident.is_some_and(|bytes| bytes > 1e6), "{usage:?}");
        assert!(usage.open.is_some_and(|open| open >= 3.0) && usage.started.is_some(), "{usage:?}");
    }
}
