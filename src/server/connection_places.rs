//! Who may be connected: so many in all, and so many of an address. Nobody is kept out for long: where there is no place, the
//! oldest connection of whoever has most of them gives way once it had time for what it came for, so that slow connections
//! starve neither probes nor deliveries. Some places are for those who have few, and are not waited for: whoever else opens
//! connections as fast as they are taken waits for himself.

use http::Extensions;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// For so long a connection keeps its place, whoever waits: a delivery is here and answered within it.
const UNDISTURBED: Duration = Duration::from_secs(1);

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In all.
    pub total: usize,
    /// Of one address, of those that are older than a moment; of one /64 network, of IPv6.
    pub per_address: usize,
}

impl ConnectionLimits {
    /// How many an address with so many connections finds taken before it has to wait.
    fn total_for(self, own: usize) -> usize {
        let has_few = own < (self.per_address / 16).max(1);
        if has_few { self.total } else { self.total - self.total / 8 }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 512, per_address: 128 }
    }
}

/// Whom a connection is counted to: an address, or a network of IPv6, as one of those has more addresses than there are
/// places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// Whoever is connected from an address.
    pub fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        })
    }

    /// Whoever sends a request: its listener says so. Where there is none, it is one peer that sends everything.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The places of one listener.
#[derive(Debug)]
pub(super) struct ConnectionPlaces {
    limits: ConnectionLimits,
    taken: Mutex<TakenPlaces>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    next: u64,
    /// In the order in which they came, as numbers go up.
    by_address: HashMap<Peer, BTreeMap<u64, OpenConnection>>,
    count: usize,
}

#[derive(Debug)]
struct OpenConnection {
    since: Instant,
    evicted: CancellationToken,
}

/// A connection's place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    places: Arc<ConnectionPlaces>,
    peer: Peer,
    number: u64,
    /// Set when the connection has to give way.
    pub(super) evicted: CancellationToken,
}

impl ConnectionPlaces {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a connection in, once there is a place. Whoever waits is in nobody's way.
    pub(super) async fn wait_for_place(self: &Arc<Self>, peer: Peer) -> ConnectionPlace {
        loop {
            let freed = self.freed.notified();
            match self.admit(peer, Instant::now()) {
                Ok(place) => return place,
                Err(until) => {
                    let _ = tokio::time::timeout_at(until, freed).await;
                }
            }
        }
    }

    /// Takes a connection in, and asks others to give way where that is needed. The error is when one may be asked to.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer, now: Instant) -> Result<ConnectionPlace, Instant> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let before = taken.count;
        while taken.by_address.get(&peer).is_some_and(|own| own.len() >= self.limits.per_address) {
            if taken.evict_oldest_of(peer, now).is_err() {
                break;
            }
        }
        let own = taken.by_address.get(&peer).map_or(0, BTreeMap::len);
        // Whoever made room of his own takes no more than he had.
        if taken.count == before && taken.count >= self.limits.total_for(own) {
            let most = taken.by_address.iter().max_by_key(|(address, own)| (own.len(), **address));
            if let Some(greediest) = most.map(|(address, _)| *address) {
                taken.evict_oldest_of(greediest, now)?;
            }
        }
        let (number, evicted) = (taken.next, CancellationToken::new());
        taken.next = taken.next.wrapping_add(1);
        taken.count += 1;
        let connection = OpenConnection { since: now, evicted: evicted.clone() };
        taken.by_address.entry(peer).or_default().insert(number, connection);
        Ok(ConnectionPlace { places: Arc::clone(self), peer, number, evicted })
    }
}

impl TakenPlaces {
    /// The error is when the oldest may be asked to give way.
    fn evict_oldest_of(&mut self, peer: Peer, now: Instant) -> Result<(), Instant> {
        let Some((number, oldest)) = self.by_address.get(&peer).and_then(|own| own.first_key_value()) else {
            return Ok(());
        };
        let (number, until) = (*number, oldest.since + UNDISTURBED);
        if until > now {
            return Err(until);
        }
        oldest.evicted.cancel();
        self.free(peer, number);
        Ok(())
    }

    fn free(&mut self, peer: Peer, number: u64) {
        let Some(own) = self.by_address.get_mut(&peer) else { return };
        if own.remove(&number).is_some() {
            self.count -= 1;
        }
        if own.is_empty() {
            self.by_address.remove(&peer);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.taken.lock().unwrap_or_else(PoisonError::into_inner).free(self.peer, self.number);
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u8) -> Peer {
        Peer::new(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let of = |text: &str| Peer::new(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), address(1));
    }

    proptest! {
        /// S3: whoever comes and goes, the limits hold; everybody new is taken in within a moment, and at once while he has few
        /// and others left places for such; nobody loses a connection before it had that moment, and only who has as many as
        /// anybody loses one to somebody else.
        #[test]
        fn nobody_is_kept_out_and_nobody_takes_the_places_of_others(
            steps in proptest::collection::vec((0_u8..6, any::<bool>(), 0_u64..700), 1..300),
        ) {
            let limits = ConnectionLimits { total: 16, per_address: 5 };
            let places = ConnectionPlaces::new(limits);
            let mut open: Vec<(Instant, ConnectionPlace)> = Vec::new();
            let mut now = Instant::now();
            for (number, leaves, millis) in steps {
                now += Duration::from_millis(millis);
                open.retain(|(_, place)| !place.evicted.is_cancelled());
                let of = address(number);
                if leaves {
                    if let Some(at) = open.iter().position(|(_, place)| place.peer == of) {
                        open.remove(at);
                    }
                    continue;
                }
                let held = |of: Peer| open.iter().filter(|(_, place)| place.peer == of).count();
                let before: Vec<usize> = (0..6).map(|one| held(address(one))).collect();
                let place = match places.admit(of, now) {
                    Ok(place) => place,
                    Err(until) => {
                        prop_assert!(until <= now + UNDISTURBED && open.len() >= limits.total_for(held(of)));
                        now = until;
                        places.admit(of, now).unwrap()
                    }
                };
                for (since, evicted) in open.iter().filter(|(_, place)| place.evicted.is_cancelled()) {
                    prop_assert!(now - *since >= UNDISTURBED);
                    let own = (0..6).find(|one| address(*one) == evicted.peer).map_or(0, |one| before[usize::from(one)]);
                    prop_assert!(Some(&own) == before.iter().max() || evicted.peer == of);
                }
                prop_assert!(!place.evicted.is_cancelled());
                open.push((now, place));
                let there = open.iter().filter(|(_, place)| !place.evicted.is_cancelled());
                prop_assert!(there.clone().count() <= limits.total);
                let own: Vec<Instant> = there.filter(|(_, place)| place.peer == of).map(|(since, _)| *since).collect();
                prop_assert!(own.len() <= limits.per_address || own.iter().all(|since| now - *since < UNDISTURBED));
            }
            drop(open);
            prop_assert_eq!(places.taken.lock().unwrap().count, 0);
        }
    }
}
