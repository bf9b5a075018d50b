//! Who answers for a namespace, where a controller of the whole cluster and controllers of single namespaces are side by
//! side: a lease of a fixed name in each namespace that a controller of its own answers for, as Dynamo's operator has it.

use super::CONTROLLER_FIELD_MANAGER;
use crate::controller::lease_watch::{LeaseWatchEvent, watch_leases};
use crate::controller::waiting::{jittered, send_if_new, sleep_until_some};
use ::kube::Api;
use ::kube::api::{Patch, PatchParams};
use ::kube::runtime::watcher;
use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The name of the lease.
pub const CLAIM_LEASE_NAME: &str = "stator-namespace-scope";
/// How long a marker holds after it was last seen to change, in seconds, where it does not say so itself.
const DEFAULT_CLAIM_SECONDS: u64 = 30;
/// How often it is renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// A marker of another replica that did not change for so long is taken over.
const TAKEOVER_AFTER: Duration = Duration::from_secs(20);
const WRITE_TIMEOUT: Duration = Duration::from_secs(8);
/// A watch without a word for so long may be dead, and is opened anew: the server ends each sooner than that.
const WATCH_TIMEOUT: Duration = Duration::from_secs(330);
/// Pauses between tries.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// What is known of markers. Judged by when a change was seen here, so that no clock but this machine's counts.
#[derive(Debug, Default)]
pub(super) struct NamespaceClaims {
    claims: BTreeMap<String, ObservedClaim>,
}

#[derive(Debug)]
struct ObservedClaim {
    version: String,
    until: Instant,
}

impl NamespaceClaims {
    /// A marker as it is now.
    pub(super) fn observe_claim(&mut self, namespace: &str, version: &str, lasts: Option<i32>, now: Instant) {
        if self.claims.get(namespace).is_some_and(|seen| seen.version == version) {
            return;
        }
        // What a tenant writes into his own marker must not keep it for ever when he is gone.
        let lasts =
            lasts.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(DEFAULT_CLAIM_SECONDS).clamp(5, 300);
        let until = now + Duration::from_secs(lasts);
        self.claims.insert(namespace.to_owned(), ObservedClaim { version: version.to_owned(), until });
    }

    /// A marker is gone.
    pub(super) fn remove_claim(&mut self, namespace: &str) {
        self.claims.remove(namespace);
    }

    fn retain_listed(&mut self, there: &BTreeSet<String>) {
        self.claims.retain(|namespace, _| there.contains(namespace));
    }

    /// The namespaces that others answer for.
    pub(super) fn claimed_namespaces(&self, now: Instant) -> BTreeSet<String> {
        self.claims.iter().filter(|(_, seen)| seen.until > now).map(|(namespace, _)| namespace.clone()).collect()
    }

    /// When the next of them runs out.
    fn next_expiry(&self, now: Instant) -> Option<Instant> {
        self.claims.values().map(|seen| seen.until).filter(|until| *until > now).min()
    }
}

/// Which namespaces this process may answer for, as far as markers say; `None` before that is known.
pub(super) type ClaimedNamespaces = watch::Receiver<Option<BTreeSet<String>>>;

/// Follows the markers of all namespaces: those that others answer for.
pub(super) async fn watch_claims(
    kube: KubeCluster,
    claimed: watch::Sender<Option<BTreeSet<String>>>,
    trouble: impl Fn(Option<String>),
) {
    let mut markers = NamespaceClaims::default();
    let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF, random_bits());
    loop {
        let api: Api<Lease> = Api::all(kube.client());
        let config = watcher::Config::default().fields(&format!("metadata.name={CLAIM_LEASE_NAME}"));
        let mut events = watch_leases(api, config).boxed();
        loop {
            let now = Instant::now();
            let event = tokio::select! {
                event = tokio::time::timeout(WATCH_TIMEOUT, events.next()) => event,
                () = sleep_until_some(markers.next_expiry(now)) => {
                    publish_claims(&claimed, &markers);
                    continue;
                }
                () = claimed.closed() => return,
            };
            match event {
                Ok(Some(Ok(LeaseWatchEvent::Listed(leases)))) => {
                    let claims: Vec<_> = leases.iter().map(parse_claim).collect();
                    for claim in &claims {
                        markers.observe_claim(&claim.namespace, &claim.version, claim.lasts, Instant::now());
                    }
                    markers.retain_listed(&claims.into_iter().map(|claim| claim.namespace).collect());
                    backoff.reset();
                    trouble(None);
                    publish_claims(&claimed, &markers);
                }
                Ok(Some(Ok(LeaseWatchEvent::Set(lease)))) => {
                    let lease = parse_claim(&lease);
                    markers.observe_claim(&lease.namespace, &lease.version, lease.lasts, Instant::now());
                    publish_claims(&claimed, &markers);
                }
                Ok(Some(Ok(LeaseWatchEvent::Deleted(lease)))) => {
                    markers.remove_claim(&parse_claim(&lease).namespace);
                    publish_claims(&claimed, &markers);
                }
                Ok(Some(Err(error))) => {
                    tracing::warn!("namespace claims are not watched: {error}");
                    if claimed.borrow().is_none() {
                        let allow = "let the controller's service account list and watch leases.coordination.k8s.io";
                        trouble(Some(format!("the leases {CLAIM_LEASE_NAME} cannot be watched: {error}; {allow}")));
                    }
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = claimed.closed() => return,
        }
    }
}

fn publish_claims(claimed: &watch::Sender<Option<BTreeSet<String>>>, markers: &NamespaceClaims) {
    send_if_new(claimed, Some(markers.claimed_namespaces(Instant::now())));
}

/// What counts of a marker.
struct ClaimLease {
    namespace: String,
    version: String,
    lasts: Option<i32>,
    holder: Option<String>,
}

fn parse_claim(lease: &Lease) -> ClaimLease {
    let spec = lease.spec.as_ref();
    ClaimLease {
        namespace: lease.metadata.namespace.clone().unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        lasts: spec.and_then(|spec| spec.lease_duration_seconds),
        holder: spec.and_then(|spec| spec.holder_identity.clone()),
    }
}

/// Keeps the marker of a namespace alive, and says once that it is there. Of several replicas one renews it; the next one
/// does when it stops changing. It is left to run out when the process ends: whoever comes in its place within that time
/// finds the namespace as it was.
pub(super) async fn hold_claim(
    kube: KubeCluster,
    namespace: String,
    identity: String,
    trouble: impl Fn(Option<String>),
) {
    let mut backoff = Backoff::new(INITIAL_BACKOFF, RENEW_INTERVAL, random_bits());
    let mut last: Option<(String, Instant)> = None;
    loop {
        let kept = tokio::time::timeout(WRITE_TIMEOUT, renew_claim(&kube, &namespace, &identity, &mut last)).await;
        let kept = kept.unwrap_or_else(|_| Err("the API server did not answer in time".to_owned()));
        let pause = match kept {
            Ok(()) => {
                trouble(None);
                backoff.reset();
                jittered(RENEW_INTERVAL)
            }
            Err(error) => {
                tracing::warn!(namespace, "the namespace claim is not renewed: {error}");
                let allow =
                    "let the controller's service account get, create and patch leases.coordination.k8s.io there";
                trouble(Some(format!("the lease {namespace}/{CLAIM_LEASE_NAME} cannot be written: {error}; {allow}")));
                backoff.next_delay()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn renew_claim(
    kube: &KubeCluster,
    namespace: &str,
    identity: &str,
    last: &mut Option<(String, Instant)>,
) -> Result<(), String> {
    let api: Api<Lease> = Api::namespaced(kube.client(), namespace);
    let found = api.get_opt(CLAIM_LEASE_NAME).await.map_err(|error| error.to_string())?;
    if let Some(lease) = &found {
        let lease = parse_claim(lease);
        let another = lease.holder.as_deref().is_some_and(|holder| !holder.is_empty() && holder != identity);
        let since = match last {
            Some((version, since)) if *version == lease.version => *since,
            Some(_) | None => Instant::now(),
        };
        *last = Some((lease.version, since));
        if another && since.elapsed() < TAKEOVER_AFTER {
            return Ok(());
        }
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": CLAIM_LEASE_NAME, "namespace": namespace},
        "spec": {
            "holderIdentity": identity, "leaseDurationSeconds": DEFAULT_CLAIM_SECONDS,
            "renewTime": format!("{:.6}", jiff::Timestamp::now()),
        },
    });
    let params = PatchParams::apply(CONTROLLER_FIELD_MANAGER).force();
    let written =
        api.patch(CLAIM_LEASE_NAME, &params, &Patch::Apply(lease)).await.map_err(|error| error.to_string())?;
    *last = Some((parse_claim(&written).version, Instant::now()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_holds_while_it_changes_and_runs_out_when_it_does_not() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut markers = NamespaceClaims::default();
        let live = |markers: &NamespaceClaims, seconds| {
            markers.claimed_namespaces(at(seconds)).into_iter().collect::<Vec<_>>().join(" ")
        };
        markers.observe_claim("canary", "1", None, at(0));
        markers.observe_claim("team-a", "1", Some(60), at(0));
        assert_eq!(live(&markers, 29), "canary team-a");
        // A list that shows it as it was renews nothing.
        markers.observe_claim("canary", "1", None, at(29));
        assert_eq!(live(&markers, 31), "team-a");
        assert_eq!(markers.next_expiry(at(31)), Some(at(60)));
        // Renewed, whatever its writer's clock says.
        markers.observe_claim("canary", "2", None, at(40));
        assert_eq!(live(&markers, 69), "canary");
        // One that claims to hold for a year holds for five minutes.
        markers.observe_claim("greedy", "1", Some(i32::MAX), at(100));
        markers.observe_claim("odd", "1", Some(-7), at(100));
        assert_eq!((live(&markers, 129).as_str(), live(&markers, 399).as_str()), ("greedy odd", "greedy"));
        assert_eq!(live(&markers, 401), "");
        markers.observe_claim("canary", "3", None, at(500));
        markers.remove_claim("canary");
        assert_eq!((live(&markers, 500).as_str(), markers.next_expiry(at(500))), ("", None));
    }
}
