//! Probes, as a kubelet makes them.

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an answer may take, at least.
const LATE: Duration = Duration::from_secs(60);

/// A probe of one container, and how it went so far.
#[derive(Debug)]
pub struct ContainerProbe {
    url: String,
    timeout: Duration,
    period: Duration,
    tolerated: u32,
    failed: u32,
    next: Instant,
}

/// What a round of a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// It is not time yet, or it failed and may.
    Unchanged,
    /// It succeeded.
    Good,
    /// It failed as often as it may in a row.
    Bad,
}

impl ContainerProbe {
    /// A probe over HTTP; every other kind is an error. `ports` are the real ones, `names` the container's port names.
    pub fn of(
        probe: Option<&Probe>,
        names: &BTreeMap<String, u16>,
        ports: &BTreeMap<u16, u16>,
        period: Option<Duration>,
    ) -> Result<Option<Self>, String> {
        let Some(probe) = probe else { return Ok(None) };
        let get = probe.http_get.as_ref().ok_or("this node knows no probe but httpGet")?;
        let port = match &get.port {
            IntOrString::Int(port) => u16::try_from(*port).ok(),
            IntOrString::String(name) => names.get(name).copied(),
        };
        let real = port.and_then(|port| ports.get(&port)).ok_or("a probe's port is none of the container's")?;
        let seconds = |given: Option<i32>, default: u64| {
            Duration::from_secs(given.and_then(|given| u64::try_from(given).ok()).unwrap_or(default))
        };
        let own = seconds(probe.period_seconds, 10);
        Ok(Some(Self {
            url: format!("http://127.0.0.1:{real}{}", get.path.as_deref().unwrap_or("/")),
            // Under load a program answers late, and is not dead.
            timeout: seconds(probe.timeout_seconds, 1).max(LATE),
            period: period.unwrap_or(own).min(own),
            tolerated: probe.failure_threshold.and_then(|given| u32::try_from(given).ok()).unwrap_or(3),
            failed: 0,
            next: Instant::now(),
        }))
    }

    /// Asks, when it is time to.
    pub async fn round(&mut self, http: &reqwest::Client) -> ProbeVerdict {
        if Instant::now() < self.next {
            return ProbeVerdict::Unchanged;
        }
        self.next = Instant::now() + self.period;
        let answer = http.get(&self.url).timeout(self.timeout).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success() || answer.status().is_redirection()) {
            self.failed = 0;
            return ProbeVerdict::Good;
        }
        self.failed += 1;
        if self.failed >= self.tolerated { ProbeVerdict::Bad } else { ProbeVerdict::Unchanged }
    }
}
