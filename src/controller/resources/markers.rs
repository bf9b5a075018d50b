//! Who answers for a namespace, where a controller of the whole cluster and controllers of single namespaces are side by
//! side: a lease of a fixed name in each namespace that a controller of its own answers for, as Dynamo's operator has it.

use super::FIELD_MANAGER;
use crate::controller::backoff::Backoff;
use crate::controller::schedule::jittered;
use ::kube::Api;
use ::kube::api::{Patch, PatchParams};
use ::kube::runtime::watcher::{self, Event, watcher};
use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use stator_cluster::cluster::kube::Kube;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The name of the lease.
pub const MARKER: &str = "stator-namespace-scope";
/// How long a marker holds after it was last seen to change, in seconds, where it does not say so itself.
const LASTS: u64 = 30;
/// How often it is renewed.
const RENEWED: Duration = Duration::from_secs(10);
/// A marker of another replica that did not change for so long is taken over.
const STALE: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_secs(8);
/// A watch without a word for so long may be dead, and is opened anew: the server ends each sooner than that.
const SILENCE: Duration = Duration::from_secs(330);
/// Pauses between tries.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// What is known of markers. Judged by when a change was seen here, so that no clock but this machine's counts.
#[derive(Debug, Default)]
pub(super) struct Markers {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    version: String,
    until: Instant,
}

impl Markers {
    /// A marker as it is now.
    pub(super) fn set(&mut self, namespace: &str, version: &str, lasts: Option<i32>, now: Instant) {
        if self.seen.get(namespace).is_some_and(|seen| seen.version == version) {
            return;
        }
        // What a tenant writes into his own marker must not keep it for ever when he is gone.
        let lasts = lasts.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(LASTS).clamp(5, 300);
        let until = now + Duration::from_secs(lasts);
        self.seen.insert(namespace.to_owned(), Seen { version: version.to_owned(), until });
    }

    /// A marker is gone.
    pub(super) fn remove(&mut self, namespace: &str) {
        self.seen.remove(namespace);
    }

    fn keep(&mut self, there: &BTreeSet<String>) {
        self.seen.retain(|namespace, _| there.contains(namespace));
    }

    /// The namespaces that others answer for.
    pub(super) fn live(&self, now: Instant) -> BTreeSet<String> {
        self.seen.iter().filter(|(_, seen)| seen.until > now).map(|(namespace, _)| namespace.clone()).collect()
    }

    /// When the next of them runs out.
    fn expiry(&self, now: Instant) -> Option<Instant> {
        self.seen.values().map(|seen| seen.until).filter(|until| *until > now).min()
    }
}

/// Which namespaces this process may answer for, as far as markers say; `None` before that is known.
pub(super) type Marks = watch::Receiver<Option<BTreeSet<String>>>;

/// Follows the markers of all namespaces: those that others answer for.
pub(super) async fn follow(
    kube: Kube,
    told: watch::Sender<Option<BTreeSet<String>>>,
    trouble: impl Fn(Option<String>),
) {
    let mut markers = Markers::default();
    let mut backoff = Backoff::new(FIRST, LONGEST);
    loop {
        let api: Api<Lease> = Api::all(kube.client());
        let config = watcher::Config::default().fields(&format!("metadata.name={MARKER}"));
        let mut events = watcher(api, config).boxed();
        let mut there = BTreeSet::new();
        loop {
            let now = Instant::now();
            let event = tokio::select! {
                event = tokio::time::timeout(SILENCE, events.next()) => event,
                () = until(markers.expiry(now)) => {
                    tell(&told, &markers);
                    continue;
                }
                () = told.closed() => return,
            };
            match event {
                Ok(Some(Ok(Event::Init))) => there.clear(),
                Ok(Some(Ok(Event::InitApply(lease)))) => {
                    let lease = read(&lease);
                    there.insert(lease.namespace.clone());
                    markers.set(&lease.namespace, &lease.version, lease.lasts, Instant::now());
                }
                Ok(Some(Ok(Event::InitDone))) => {
                    markers.keep(&there);
                    backoff.reset();
                    trouble(None);
                    tell(&told, &markers);
                }
                Ok(Some(Ok(Event::Apply(lease)))) => {
                    let lease = read(&lease);
                    markers.set(&lease.namespace, &lease.version, lease.lasts, Instant::now());
                    tell(&told, &markers);
                }
                Ok(Some(Ok(Event::Delete(lease)))) => {
                    markers.remove(&read(&lease).namespace);
                    tell(&told, &markers);
                }
                Ok(Some(Err(error))) => {
                    tracing::warn!("markers of namespaces are not watched: {error}");
                    if told.borrow().is_none() {
                        let allow = "let the controller's service account list and watch leases.coordination.k8s.io";
                        trouble(Some(format!("the leases {MARKER} cannot be watched: {error}; {allow}")));
                    }
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.pause()) => {}
            () = told.closed() => return,
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn tell(told: &watch::Sender<Option<BTreeSet<String>>>, markers: &Markers) {
    let live = Some(markers.live(Instant::now()));
    told.send_if_modified(|known| {
        let news = *known != live;
        *known = live;
        news
    });
}

/// What counts of a marker.
struct Read {
    namespace: String,
    version: String,
    lasts: Option<i32>,
    holder: Option<String>,
}

fn read(lease: &Lease) -> Read {
    let spec = lease.spec.as_ref();
    Read {
        namespace: lease.metadata.namespace.clone().unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        lasts: spec.and_then(|spec| spec.lease_duration_seconds),
        holder: spec.and_then(|spec| spec.holder_identity.clone()),
    }
}

/// Keeps the marker of a namespace alive, and says once that it is there. Of several replicas one renews it; the next one
/// does when it stops changing. It is left to run out when the process ends: whoever comes in its place within that time
/// finds the namespace as it was.
pub(super) async fn keep(kube: Kube, namespace: String, identity: String, trouble: impl Fn(Option<String>)) {
    let mut backoff = Backoff::new(FIRST, RENEWED);
    let mut last: Option<(String, Instant)> = None;
    loop {
        let kept = tokio::time::timeout(DEADLINE, renew(&kube, &namespace, &identity, &mut last)).await;
        let kept = kept.unwrap_or_else(|_| Err("the API server did not answer in time".to_owned()));
        let pause = match kept {
            Ok(()) => {
                trouble(None);
                backoff.reset();
                jittered(RENEWED)
            }
            Err(error) => {
                tracing::warn!(namespace, "the marker of the namespace is not renewed: {error}");
                let allow =
                    "let the controller's service account get, create and patch leases.coordination.k8s.io there";
                trouble(Some(format!("the lease {namespace}/{MARKER} cannot be written: {error}; {allow}")));
                backoff.pause()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn renew(
    kube: &Kube,
    namespace: &str,
    identity: &str,
    last: &mut Option<(String, Instant)>,
) -> Result<(), String> {
    let api: Api<Lease> = Api::namespaced(kube.client(), namespace);
    let found = api.get_opt(MARKER).await.map_err(|error| error.to_string())?;
    if let Some(lease) = &found {
        let lease = read(lease);
        let another = lease.holder.as_deref().is_some_and(|holder| !holder.is_empty() && holder != identity);
        let since = match last {
            Some((version, since)) if *version == lease.version => *since,
            Some(_) | None => Instant::now(),
        };
        *last = Some((lease.version, since));
        if another && since.elapsed() < STALE {
            return Ok(());
        }
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": MARKER, "namespace": namespace},
        "spec": {
            "holderIdentity": identity, "leaseDurationSeconds": LASTS,
            "renewTime": format!("{:.6}", jiff::Timestamp::now()),
        },
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let written = api.patch(MARKER, &params, &Patch::Apply(lease)).await.map_err(|error| error.to_string())?;
    *last = Some((read(&written).version, Instant::now()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_holds_while_it_changes_and_runs_out_when_it_does_not() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut markers = Markers::default();
        let live = |markers: &Markers, seconds| markers.live(at(seconds)).into_iter().collect::<Vec<_>>().join(" ");
        markers.set("canary", "1", None, at(0));
        markers.set("team-a", "1", Some(60), at(0));
        assert_eq!(live(&markers, 29), "canary team-a");
        // A list that shows it as it was renews nothing.
        markers.set("canary", "1", None, at(29));
        assert_eq!(live(&markers, 31), "team-a");
        assert_eq!(markers.expiry(at(31)), Some(at(60)));
        // Renewed, whatever its writer's clock says.
        markers.set("canary", "2", None, at(40));
        assert_eq!(live(&markers, 69), "canary");
        // One that claims to hold for a year holds for five minutes.
        markers.set("greedy", "1", Some(i32::MAX), at(100));
        markers.set("odd", "1", Some(-7), at(100));
        assert_eq!((live(&markers, 129).as_str(), live(&markers, 399).as_str()), ("greedy odd", "greedy"));
        assert_eq!(live(&markers, 401), "");
        markers.set("canary", "3", None, at(500));
        markers.remove("canary");
        assert_eq!((live(&markers, 500).as_str(), markers.expiry(at(500))), ("", None));
    }
}
