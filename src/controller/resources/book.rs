//! What is known of `ModelSource` objects and their secrets, and what follows from it: which sources run here, which are
//! held back and why, and which secrets are to be read. No I/O, and no clock but the one that is handed in.

use super::note::{Batch, Note};
use super::reading::{self, Unreadable};
use super::resource::Resource;
use crate::controller::access::Tenancy;
use crate::controller::backoff::Backoff;
use crate::controller::board::{Held, HeldReason};
use crate::controller::requests::{self, Requests};
use crate::controller::schedule::jittered;
use crate::controller::sources::{Source, SourceKey};
use secrecy::SecretString;
use stator_git::source::model_source::ForgeKind;
use stator_git::source::secret::SecretValues;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often at most the secrets of one source are read again that may have been mended, less some chance.
const AGAIN: Duration = Duration::from_secs(75);
/// Changes of a source that come faster read its secrets no oftener than this.
const SPACING: Duration = Duration::from_secs(1);
/// Pauses after a read that the API server did not answer.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// What a process does with sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs them.
    Controller,
    /// Takes their webhooks, and hands what they say to whoever runs them.
    Server,
}

/// What became of reading a secret.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// It is there.
    Values(SecretValues),
    /// There is none of that name.
    Missing,
    /// It cannot be used, whatever is read for: why.
    Unusable(String),
    /// The controller may not read it: why, with what to do.
    Refused(String),
    /// The API server did not answer, or not in time.
    Unanswered(String),
}

/// Secrets that are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) key: SourceKey,
    pub(super) version: Version,
}

/// For what secrets are read: another one means reading them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    uid: String,
    generation: i64,
    requested: Option<String>,
    pub(super) names: BTreeSet<String>,
}

/// Which sources this process answers for, and which of them it runs.
pub(super) trait Ours {
    /// Whether sources of that namespace are this process's matter at all.
    fn answers_for(&self, namespace: &str) -> bool;
    /// Whether a source of such a namespace runs here.
    fn runs(&self, key: &SourceKey) -> bool;
}

/// What follows from all that is known.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The sources that run here, sorted.
    pub sources: Vec<Source>,
    /// Those that would run here and cannot, and why.
    pub held: BTreeMap<SourceKey, Held>,
    /// What is to be said of sources beside how they stand.
    pub remarks: BTreeMap<SourceKey, Vec<String>>,
    /// What people ask of sources that run here.
    pub requests: BTreeMap<SourceKey, Requests>,
    /// The objects of all sources that are this process's to answer for, and would run here.
    pub resources: BTreeMap<SourceKey, Arc<Resource>>,
    /// Those that others run and whose webhooks are taken here.
    pub relayed: Vec<Relayed>,
}

/// A source that others run and whose webhooks are taken here.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The host that its deliveries come from.
    pub forge: ForgeKind,
    /// What they are signed with.
    pub secret: SecretString,
}

#[derive(Debug)]
struct Known {
    resource: Arc<Resource>,
    draft: Result<Source, Unreadable>,
    note: Note,
}

/// The secrets of one source.
#[derive(Debug)]
struct Keys {
    /// What they are being read for.
    reading: Option<Version>,
    /// What they were last read for.
    of: Option<Version>,
    states: BTreeMap<String, Found>,
    /// When they were last read.
    at: Option<Instant>,
    /// When they are to be read again although nothing changed.
    due: Option<Instant>,
    backoff: Backoff,
    /// The source that they make, of which generation.
    made: Option<(i64, Result<Source, Unreadable>)>,
}

impl Default for Keys {
    fn default() -> Self {
        let backoff = Backoff::new(FIRST, LONGEST);
        Self { reading: None, of: None, states: BTreeMap::new(), at: None, due: None, backoff, made: None }
    }
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Book {
    role: Role,
    tenancy: Tenancy,
    /// Whether webhooks are taken here for sources that others run.
    webhooks: bool,
    known: BTreeMap<SourceKey, Known>,
    keys: BTreeMap<SourceKey, Keys>,
    /// What ran when last was settled: goes on while the secrets of a newer version are read.
    before: BTreeMap<SourceKey, Source>,
}

impl Book {
    pub(super) fn new(role: Role, tenancy: Tenancy, webhooks: bool) -> Self {
        Self { role, tenancy, webhooks, known: BTreeMap::new(), keys: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// An object as it is now. Gives the hints that it brings along: none the first time, as a source is looked at when it
    /// starts.
    pub(super) fn set(&mut self, resource: Resource) -> Vec<Batch> {
        let key = resource.key.clone();
        let note = Note::read(resource.annotations.get(requests::HINTS).map(String::as_str).unwrap_or_default());
        if self.known.get(&key).is_some_and(|known| known.resource.uid != resource.uid) {
            // Of the object of that name which was deleted, nothing goes on.
            self.keys.remove(&key);
            self.before.remove(&key);
        }
        let known = self.known.get(&key);
        let news = known.map(|known| note.news(&known.note).cloned().collect()).unwrap_or_default();
        // Written anew without a change of the spec, as every status is: nothing is to be read again.
        let draft = match known {
            Some(known) if known.resource.generation == resource.generation => known.draft.clone(),
            Some(_) | None => reading::read(&resource.object, &self.tenancy),
        };
        self.known.insert(key, Known { resource: Arc::new(resource), draft, note });
        news
    }

    /// An object is gone; unless there is a newer one of its name already.
    pub(super) fn remove(&mut self, key: &SourceKey, uid: &str) {
        if self.known.get(key).is_some_and(|known| known.resource.uid == uid) {
            self.known.remove(key);
            self.keys.remove(key);
            self.before.remove(key);
        }
    }

    /// All objects of a namespace, or of all of them.
    pub(super) fn replace(&mut self, namespace: Option<&str>, resources: Vec<Resource>) -> Vec<(SourceKey, Batch)> {
        let there: BTreeSet<SourceKey> = resources.iter().map(|resource| resource.key.clone()).collect();
        let stays = |key: &SourceKey| there.contains(key) || namespace.is_some_and(|own| own != key.namespace);
        self.known.retain(|key, _| stays(key));
        self.keys.retain(|key, _| stays(key));
        let mut news = Vec::new();
        for resource in resources {
            let key = resource.key.clone();
            news.extend(self.set(resource).into_iter().map(|batch| (key.clone(), batch)));
        }
        news
    }

    fn names(&self, source: &Source, runs: bool) -> BTreeSet<String> {
        match (self.role, runs) {
            (Role::Controller, true) => reading::secret_names(&source.spec),
            (Role::Controller, false) | (Role::Server, _) if !self.webhooks => BTreeSet::new(),
            (Role::Controller, false) | (Role::Server, _) => {
                reading::webhook_secret(&source.spec).into_iter().collect()
            }
        }
    }

    fn version(&self, known: &Known, source: &Source, runs: bool) -> Version {
        let (requests, _) = Requests::read(&known.resource.annotations);
        Version {
            uid: known.resource.uid.clone(),
            generation: known.resource.generation,
            requested: requests.at,
            names: self.names(source, runs),
        }
    }

    /// The secrets that are to be read now; they count as being read from here on. And when to ask again, where that is
    /// known.
    pub(super) fn needs(&mut self, ours: &dyn Ours, now: Instant) -> (Vec<Need>, Option<Instant>) {
        let mut needs = Vec::new();
        let mut next: Option<Instant> = None;
        let mut soonest = |at: Instant| next = Some(next.map_or(at, |known| known.min(at)));
        let mut keys = std::mem::take(&mut self.keys);
        for (key, known) in &self.known {
            let Ok(source) = &known.draft else { continue };
            if !ours.answers_for(&key.namespace) {
                continue;
            }
            let version = self.version(known, source, ours.runs(key));
            if version.names.is_empty() {
                continue;
            }
            let own = keys.entry(key.clone()).or_default();
            if own.reading.is_some() {
                continue;
            }
            let due =
                if own.of.as_ref() == Some(&version) { own.due } else { Some(own.at.map_or(now, |at| at + SPACING)) };
            match due {
                Some(due) if due <= now => {
                    own.reading = Some(version.clone());
                    needs.push(Need { key: key.clone(), version });
                }
                Some(due) => soonest(due),
                None => {}
            }
        }
        self.keys = keys;
        (needs, next)
    }

    /// Secrets were read.
    pub(super) fn read(&mut self, need: &Need, mut found: BTreeMap<String, Found>, now: Instant) {
        // Gone, or another one of its name.
        let Some(known) = self.known.get(&need.key) else { return };
        let Some(own) = self.keys.get_mut(&need.key) else { return };
        own.reading = None;
        if known.resource.uid != need.version.uid {
            return;
        }
        let unanswered = found.values().any(|found| matches!(found, Found::Unanswered(_)));
        if unanswered {
            own.due = Some(now + own.backoff.pause());
            // What was read before holds until something else is known.
            for (name, state) in &mut found {
                if let (Found::Unanswered(_), Some(before @ Found::Values(_))) = (&state, own.states.get(name)) {
                    *state = before.clone();
                }
            }
        } else {
            own.backoff.reset();
            let mends = |found: &Found| match found {
                Found::Values(_) | Found::Unanswered(_) => false,
                Found::Missing | Found::Unusable(_) | Found::Refused(_) => true,
            };
            own.due = found.values().any(mends).then(|| now + jittered(AGAIN));
        }
        own.states = found;
        own.of = Some(need.version.clone());
        own.at = Some(now);
        own.made = None;
    }

    /// These sources failed in a way that other secrets could mend.
    pub(super) fn mend(&mut self, keys: &[SourceKey], now: Instant) {
        for key in keys {
            if let Some(own) = self.keys.get_mut(key)
                && own.due.is_none()
            {
                own.due = Some(own.at.map_or(now, |at| at + jittered(AGAIN)));
            }
        }
    }

    /// What follows from all that is known.
    pub(super) fn settle(&mut self, ours: &dyn Ours) -> Wanted {
        let mut wanted = Wanted::default();
        let mut before = std::mem::take(&mut self.before);
        let mut keys = std::mem::take(&mut self.keys);
        let answered = || self.known.iter().filter(|(key, _)| ours.answers_for(&key.namespace));
        let sound = answered().filter_map(|(_, known)| Some((&*known.resource, known.draft.as_ref().ok()?)));
        let rivals = rivals(sound);
        for (key, known) in answered() {
            let own = keys.get_mut(key);
            if self.role == Role::Server || !ours.runs(key) {
                wanted.relayed.extend(known.draft.as_ref().ok().and_then(|source| relayed(source, own.as_deref())));
                continue;
            }
            wanted.resources.insert(key.clone(), Arc::clone(&known.resource));
            let (requests, faults) = Requests::read(&known.resource.annotations);
            let mut remarks: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let made = match &known.draft {
                Err(unreadable) => Made::Held(held(unreadable)),
                Ok(source) => match rivals.get(key) {
                    Some(Rivalry::Loses(message)) => {
                        Made::Held(Held { reason: HeldReason::Duplicate, message: message.clone() })
                    }
                    Some(Rivalry::Wins(message)) => {
                        remarks.push(message.clone());
                        make(known, source, own, &self.version(known, source, true))
                    }
                    None => make(known, source, own, &self.version(known, source, true)),
                },
            };
            if !remarks.is_empty() {
                wanted.remarks.insert(key.clone(), remarks);
            }
            let source = match made {
                Made::Source(source) => Some(*source),
                Made::Held(held) => {
                    wanted.held.insert(key.clone(), held);
                    None
                }
                Made::Pending(held) => match (before.remove(key), held) {
                    (Some(source), _) => Some(source),
                    (None, Some(held)) => {
                        wanted.held.insert(key.clone(), held);
                        None
                    }
                    (None, None) => None,
                },
            };
            if let Some(source) = source {
                wanted.requests.insert(key.clone(), requests);
                wanted.sources.push(source);
            }
        }
        self.keys = keys;
        self.before = wanted.sources.iter().map(|source| (source.key.clone(), source.clone())).collect();
        wanted
    }
}

enum Made {
    Source(Box<Source>),
    Held(Held),
    /// What ran before goes on, and where nothing did this is to be said.
    Pending(Option<Held>),
}

fn held(unreadable: &Unreadable) -> Held {
    match unreadable {
        Unreadable::Spec(message) => Held { reason: HeldReason::InvalidSpec, message: message.clone() },
        Unreadable::Secret(message) => Held { reason: HeldReason::SecretInvalid, message: message.clone() },
        Unreadable::Foreign(foreign) => {
            Held { reason: HeldReason::AccessDenied, message: format!("{foreign}; {}", foreign.help()) }
        }
    }
}

fn make(known: &Known, draft: &Source, own: Option<&mut Keys>, version: &Version) -> Made {
    if version.names.is_empty() {
        return Made::Source(Box::new(draft.clone()));
    }
    let Some(own) = own.filter(|own| own.of.as_ref() == Some(version)) else { return Made::Pending(None) };
    let namespace = &known.resource.key.namespace;
    let mut worst: Option<(u8, Made)> = None;
    for (name, found) in &own.states {
        let hold = |reason, message: String| Held { reason, message };
        let (rank, made) = match found {
            Found::Values(_) => continue,
            Found::Missing => {
                let message =
                    format!("there is no secret `{name}` in namespace `{namespace}`; create it, or correct the name");
                (2, Made::Held(hold(HeldReason::SecretMissing, message)))
            }
            Found::Unusable(why) => (3, Made::Held(hold(HeldReason::SecretInvalid, why.clone()))),
            Found::Refused(why) => (2, Made::Held(hold(HeldReason::SecretUnread, why.clone()))),
            Found::Unanswered(why) => (1, Made::Pending(Some(hold(HeldReason::SecretUnread, why.clone())))),
        };
        if worst.as_ref().is_none_or(|(known, _)| *known < rank) {
            worst = Some((rank, made));
        }
    }
    if let Some((_, made)) = worst {
        return made;
    }
    let generation = known.resource.generation;
    if own.made.as_ref().is_none_or(|(of, _)| *of != generation) {
        let values = own.states.iter().filter_map(|(name, found)| match found {
            Found::Values(values) => Some((name.clone(), values.clone())),
            Found::Missing | Found::Unusable(_) | Found::Refused(_) | Found::Unanswered(_) => None,
        });
        let made = reading::with_secrets(&known.resource.object, &draft.access, &values.collect());
        if made.is_err() && own.due.is_none() {
            // Somebody may put right what is in the secret.
            own.due = own.at.map(|at| at + jittered(AGAIN));
        }
        own.made = Some((generation, made));
    }
    match own.made.as_ref().map(|(_, made)| made) {
        Some(Ok(source)) => Made::Source(Box::new(source.clone())),
        Some(Err(unreadable)) => Made::Held(held(unreadable)),
        None => Made::Pending(None),
    }
}

/// Where deliveries for a source go that others run.
fn relayed(source: &Source, own: Option<&Keys>) -> Option<Relayed> {
    let name = reading::webhook_secret(&source.spec)?;
    let Found::Values(values) = own?.states.get(&name)? else { return None };
    let forge = source.spec.forge.as_ref()?.kind;
    values.get("token").filter(|token| !token.is_empty())?;
    Some(Relayed { key: source.key.clone(), forge, secret: values.text("token")? })
}

/// What is to be said of two sources that sync the same.
enum Rivalry {
    Loses(String),
    Wins(String),
}

/// Repository, folder, environment, and the namespace that it goes to. Where that is not known before the repository is
/// read, sources of one namespace are compared and others not: nobody may keep another tenant's source from running by
/// naming the same repository.
type Target<'a> = (String, &'a str, Option<&'a str>, Into<'a>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Into<'a> {
    /// That namespace.
    Known(&'a str),
    /// What the repository says; the source is of this namespace.
    Told(&'a str),
}

fn target(source: &Source) -> Target<'_> {
    let named = source.spec.target_namespace.as_ref().map(|name| name.as_str());
    let into = match named.or(source.access.only.as_deref()) {
        Some(namespace) => Into::Known(namespace),
        None => Into::Told(&source.key.namespace),
    };
    let environment = source.spec.environment.as_ref().map(|name| name.as_str());
    (source.url.to_string(), &source.folder, environment, into)
}

/// Two sources that sync one environment into one namespace would take turns at undoing each other: the one works that
/// lives in that namespace, and of several the oldest.
fn rivals<'a>(sound: impl Iterator<Item = (&'a Resource, &'a Source)>) -> BTreeMap<SourceKey, Rivalry> {
    let mut targets: BTreeMap<Target<'_>, Vec<(&Resource, &Source)>> = BTreeMap::new();
    for (resource, source) in sound {
        targets.entry(target(source)).or_default().push((resource, source));
    }
    let mut rivals = BTreeMap::new();
    for ((_, _, _, into), mut all) in targets {
        if all.len() < 2 {
            continue;
        }
        let (Into::Known(namespace) | Into::Told(namespace)) = into;
        all.sort_by_key(|(resource, _)| (resource.key.namespace != namespace, resource.created, &resource.uid));
        let Some(((first, _), rest)) = all.split_first() else { continue };
        let mut losers = Vec::new();
        for (loser, _) in rest {
            // Of other tenants' sources no more is said than that there is one.
            let message = if loser.key.namespace == first.key.namespace {
                losers.push(format!("`{}`", loser.key.name));
                format!(
                    "`{}` syncs the same environment of the same repository into the same namespace, and is older; keep one of them, as each would undo what the other does",
                    first.key.name
                )
            } else {
                format!(
                    "another source syncs the same environment of the same repository into namespace `{namespace}`; each would undo what the other does"
                )
            };
            rivals.insert(loser.key.clone(), Rivalry::Loses(message));
        }
        if !losers.is_empty() {
            let message = format!("{} of the same target is held back, as this one is older", losers.join(", "));
            rivals.insert(first.key.clone(), Rivalry::Wins(message));
        }
    }
    rivals
}

#[cfg(test)]
mod tests;
