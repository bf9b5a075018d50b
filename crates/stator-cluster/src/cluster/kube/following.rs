//! Following all objects of a kind in a namespace: a list, page by page, and a watch from there on, for as long as
//! somebody wants to know. Where events are lost for certain, it lists again.

use super::refusal::Asked;
use super::request::Url;
use super::watching::{self, End, Heard, Place};
use super::{Inner, Kube, Leaf};
use crate::cluster::{ClusterError, WatchEvent};
use stator_core::dynamo::kinds::Kind;
use stator_core::object::Object;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is told of a kind. Versions are resource versions.
#[derive(Debug)]
pub enum Told {
    /// A list begins, as of that version: every object comes as [`Told::Listed`], until [`Told::Whole`]. A list that
    /// breaks off begins anew.
    Begins(String),
    /// One object of a list.
    Listed(Object),
    /// The list is whole: what it did not show is not there.
    Whole,
    /// A change, as the watch shows it.
    Event(WatchEvent, String),
    /// Nothing happened up to that version.
    Version(String),
    /// The watch is open: everything is told as it happens.
    Follows,
    /// The watch cannot be opened at the moment: there may be news that nobody has heard of.
    Behind(ClusterError),
    /// No list is to be had.
    Failed(ClusterError),
}

impl Told {
    /// The version that it is about, where it has one.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Begins(version) | Self::Event(_, version) | Self::Version(version) => Some(version),
            Self::Listed(object) => Some(object.resource_version().unwrap_or_default()),
            Self::Whole | Self::Follows | Self::Behind(_) | Self::Failed(_) => None,
        }
    }
}

/// Who is told.
pub type Listener<'a> = &'a (dyn Fn(Told) + Send + Sync);

/// How long after a list that failed for good, rights or a kind that is not served, another is tried unasked.
const SELDOM: Duration = Duration::from_secs(600);

impl Kube {
    /// Follows a kind in a namespace until it is dropped. What fails is tried again after a while, or at once when
    /// `nudge` is notified.
    pub async fn follow(&self, kind: &Kind, namespace: &str, nudge: &Notify, tell: Listener<'_>) {
        let mut failures = 0;
        loop {
            let inner = &self.inner;
            match fill(inner, kind, namespace, tell).await {
                Ok(resource_version) => {
                    let mut place = Place { kind: *kind, namespace: Some(namespace.to_owned()), resource_version };
                    // A list after every watch that told nothing would be a list without end.
                    failures = if watch(inner, &mut place, tell).await { 0 } else { failures + 1 };
                    tell(Told::Behind(ClusterError::transient(format!("events of {} were lost", kind.plural))));
                    if failures > 0 {
                        tokio::time::sleep(watching::jittered(failures)).await;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, kind = kind.kind, namespace, "nothing can be listed");
                    failures += 1;
                    let pause = match error.may_pass() {
                        Some(pause) => pause.max(watching::jittered(failures)),
                        None => SELDOM,
                    };
                    tell(Told::Failed(error));
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = nudge.notified() => {}
                    }
                }
            }
        }
    }
}

/// Lists everything, one page in memory at a time. Gives the version that it is of.
async fn fill(inner: &Inner, kind: &Kind, namespace: &str, tell: Listener<'_>) -> Result<String, ClusterError> {
    let asked =
        Asked { verb: "list", kind, namespace: Some(namespace), object: None, config: None, conditional: false };
    let url = Url::of_kind(kind, Some(namespace));
    let limit = inner.options.page.to_string();
    let end = Instant::now() + inner.options.deadlines.list;
    let mut next = url.clone().query("limit", &limit);
    let mut begun: Option<String> = None;
    loop {
        let Some(Leaf { objects, version, token }) = inner.leaf(&asked, &next, end, begun.is_some()).await? else {
            // The first page is too old to go on from: everything at once.
            (next, begun) = (url.clone(), None);
            continue;
        };
        if begun.is_none() {
            tell(Told::Begins(version.clone()));
            begun = Some(version);
        }
        for object in objects {
            inner.seen.object(&object);
            tell(Told::Listed(object));
        }
        match token {
            Some(token) => next = url.clone().query("limit", &limit).query("continue", &token),
            None => break,
        }
    }
    inner.seen.whole(kind.group, kind.kind, namespace);
    tell(Told::Whole);
    Ok(begun.unwrap_or_default())
}

/// Watches from there on. Returns when events are lost, and whether there were any before.
async fn watch(inner: &Inner, place: &mut Place, tell: Listener<'_>) -> bool {
    let heard = |heard: Heard, version: &str| {
        tell(match heard {
            Heard::Event(event) => Told::Event(event, version.to_owned()),
            Heard::Version => Told::Version(version.to_owned()),
        });
        true
    };
    let mut failures = 0;
    let from = place.resource_version.clone();
    loop {
        if failures > watching::ATTEMPTS {
            return place.resource_version != from;
        }
        if failures > 0 {
            tokio::time::sleep(watching::jittered(failures)).await;
        }
        match watching::open(inner, place).await {
            Ok(body) => {
                tell(Told::Follows);
                match watching::read(inner, place, body, &heard).await {
                    End::Lost => return place.resource_version != from,
                    End::Connection { heard: true } => failures = 0,
                    End::Connection { heard: false } => failures += 1,
                }
            }
            Err(error) => {
                let pause = error.may_pass();
                tell(Told::Behind(error));
                // 410 among what cannot pass: the version is too old to go on from.
                let Some(pause) = pause else { return place.resource_version != from };
                tokio::time::sleep(pause).await;
                failures += 1;
            }
        }
    }
}
