//! What is known of `ModelSource` objects and their secrets, and what follows from it: which sources run here, which are
//! held back and why, and which secrets are to be read. No I/O, and no clock but the one that is handed in.

use super::hint_annotation::{HintAnnotation, HintBatch};
use super::object_reader::{self, SourceReadError};
use super::object_store::ModelSourceObject;
use super::target_conflicts::{TargetConflict, find_target_conflicts};
use crate::controller::sources::manual_requests::{self, ManualRequests};
use crate::controller::sources::registry::{RejectedSource, RejectionReason};
use crate::controller::sources::resolved_source::{ResolvedSource, SourceKey};
use crate::controller::sources::tenancy::TenancyPolicy;
use crate::controller::waiting::jittered;
use secrecy::SecretString;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use stator_git::source::model_source::ForgeKind;
use stator_git::source::secret::SecretValues;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often at most the secrets of one source are read again that may have been fixed, less some jitter.
const SECRET_RETRY_INTERVAL: Duration = Duration::from_secs(75);
/// Changes of a source that come faster read its secrets no oftener than this.
const MIN_READ_INTERVAL: Duration = Duration::from_secs(1);
/// Pauses after a read that the API server did not answer.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// What a process does with sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerRole {
    /// Runs them.
    Controller,
    /// Takes their webhooks, and hands what they say to whoever runs them.
    Server,
}

/// What became of reading a secret.
#[derive(Clone, Debug)]
pub(super) enum SecretReadResult {
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
pub(super) struct SecretReadRequest {
    pub(super) key: SourceKey,
    pub(super) version: SecretsVersion,
}

/// For what secrets are read: another one means reading them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretsVersion {
    uid: String,
    generation: i64,
    requested: Option<String>,
    pub(super) names: BTreeSet<String>,
}

/// Which sources this process answers for, and which of them it runs.
pub(super) trait SourceScope {
    /// Whether sources of that namespace are this process's matter at all.
    fn covers_namespace(&self, namespace: &str) -> bool;
    /// Whether a source of such a namespace runs here.
    fn runs_source(&self, key: &SourceKey) -> bool;
}

/// What follows from all that is known.
#[derive(Debug, Default)]
pub struct DesiredSources {
    /// The sources that run here, sorted.
    pub sources: Vec<ResolvedSource>,
    /// Those that would run here and cannot, and why.
    pub rejected: BTreeMap<SourceKey, RejectedSource>,
    /// What is to be said of sources beside how they stand.
    pub remarks: BTreeMap<SourceKey, Vec<String>>,
    /// What people ask of sources that run here.
    pub requests: BTreeMap<SourceKey, ManualRequests>,
    /// The objects of all sources that are this process's to answer for, and would run here.
    pub resources: BTreeMap<SourceKey, Arc<ModelSourceObject>>,
    /// Those that others run and whose webhooks are taken here.
    pub relayed: Vec<RelayedSource>,
    /// All objects, whoever runs them, with the namespaces that they sync to, where they say so: the oldest first.
    pub order: Vec<(SourceKey, Option<String>)>,
}

/// A source that others run and whose webhooks are taken here.
#[derive(Clone, Debug)]
pub struct RelayedSource {
    /// Its namespace and name.
    pub key: SourceKey,
    /// The host that its deliveries come from.
    pub forge: ForgeKind,
    /// What they are signed with.
    pub secret: SecretString,
}

#[derive(Debug)]
struct IndexedSource {
    resource: Arc<ModelSourceObject>,
    draft: Result<ResolvedSource, SourceReadError>,
    hint_annotation: HintAnnotation,
}

/// The secrets of one source.
#[derive(Debug)]
struct SourceSecretStates {
    /// What they are being read for.
    reading: Option<SecretsVersion>,
    /// What they were last read for.
    read_for: Option<SecretsVersion>,
    states: BTreeMap<String, SecretReadResult>,
    /// When they were last read.
    read_at: Option<Instant>,
    /// When they are to be read again although nothing changed.
    due: Option<Instant>,
    backoff: Backoff,
    /// The source that they make, of which generation.
    resolved: Option<(i64, Result<ResolvedSource, SourceReadError>)>,
}

impl Default for SourceSecretStates {
    fn default() -> Self {
        let backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF, random_bits());
        Self {
            reading: None,
            read_for: None,
            states: BTreeMap::new(),
            read_at: None,
            due: None,
            backoff,
            resolved: None,
        }
    }
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct SourceIndex {
    role: ControllerRole,
    tenancy: TenancyPolicy,
    /// Whether webhooks are taken here for sources that others run.
    webhooks: bool,
    known: BTreeMap<SourceKey, IndexedSource>,
    keys: BTreeMap<SourceKey, SourceSecretStates>,
    /// What ran when last was settled: goes on while the secrets of a newer version are read.
    last_sources: BTreeMap<SourceKey, ResolvedSource>,
}

impl SourceIndex {
    pub(super) fn new(role: ControllerRole, tenancy: TenancyPolicy, webhooks: bool) -> Self {
        Self { role, tenancy, webhooks, known: BTreeMap::new(), keys: BTreeMap::new(), last_sources: BTreeMap::new() }
    }

    /// An object as it is now. Gives the hints that it brings along: none the first time, as a source is looked at when it
    /// starts.
    pub(super) fn apply_object(&mut self, resource: ModelSourceObject) -> Vec<HintBatch> {
        let key = resource.key.clone();
        let note = HintAnnotation::parse(
            resource.annotations.get(manual_requests::HINTS_ANNOTATION).map(String::as_str).unwrap_or_default(),
        );
        if self.known.get(&key).is_some_and(|known| known.resource.uid != resource.uid) {
            // Of the object of that name which was deleted, nothing goes on.
            self.keys.remove(&key);
            self.last_sources.remove(&key);
        }
        let known = self.known.get(&key);
        let news = known.map(|known| note.batches_since(&known.hint_annotation).cloned().collect()).unwrap_or_default();
        // Written anew without a change of the spec, as every status is: nothing is to be read again.
        let draft = match known {
            Some(known) if known.resource.generation == resource.generation => known.draft.clone(),
            Some(_) | None => object_reader::read_without_secrets(&resource.object, &self.tenancy),
        };
        self.known.insert(key, IndexedSource { resource: Arc::new(resource), draft, hint_annotation: note });
        news
    }

    /// An object is gone; unless there is a newer one of its name already.
    pub(super) fn remove_object(&mut self, key: &SourceKey, uid: &str) {
        if self.known.get(key).is_some_and(|known| known.resource.uid == uid) {
            self.known.remove(key);
            self.keys.remove(key);
            self.last_sources.remove(key);
        }
    }

    /// All objects of a namespace, or of all of them.
    pub(super) fn replace_all(
        &mut self,
        namespace: Option<&str>,
        resources: Vec<ModelSourceObject>,
    ) -> Vec<(SourceKey, HintBatch)> {
        let there: BTreeSet<SourceKey> = resources.iter().map(|resource| resource.key.clone()).collect();
        let stays = |key: &SourceKey| there.contains(key) || namespace.is_some_and(|own| own != key.namespace);
        self.known.retain(|key, _| stays(key));
        self.keys.retain(|key, _| stays(key));
        let mut news = Vec::new();
        for resource in resources {
            let key = resource.key.clone();
            news.extend(self.apply_object(resource).into_iter().map(|batch| (key.clone(), batch)));
        }
        news
    }

    fn secret_names_to_read(&self, source: &ResolvedSource, runs: bool) -> BTreeSet<String> {
        match (self.role, runs) {
            (ControllerRole::Controller, true) => object_reader::secret_names(&source.spec),
            (ControllerRole::Controller, false) | (ControllerRole::Server, _) if !self.webhooks => BTreeSet::new(),
            (ControllerRole::Controller, false) | (ControllerRole::Server, _) => {
                object_reader::webhook_secret(&source.spec).into_iter().collect()
            }
        }
    }

    fn secrets_version(&self, known: &IndexedSource, source: &ResolvedSource, runs: bool) -> SecretsVersion {
        let (requests, _) = ManualRequests::from_annotations(&known.resource.annotations);
        SecretsVersion {
            uid: known.resource.uid.clone(),
            generation: known.resource.generation,
            requested: requests.requested_at,
            names: self.secret_names_to_read(source, runs),
        }
    }

    /// The secrets that are to be read now; they count as being read from here on. And when to ask again, where that is
    /// known.
    pub(super) fn take_due_reads(
        &mut self,
        ours: &dyn SourceScope,
        now: Instant,
    ) -> (Vec<SecretReadRequest>, Option<Instant>) {
        let mut needs = Vec::new();
        let mut next: Option<Instant> = None;
        let mut soonest = |at: Instant| next = Some(next.map_or(at, |known| known.min(at)));
        let mut keys = std::mem::take(&mut self.keys);
        for (key, known) in &self.known {
            let Ok(source) = &known.draft else { continue };
            if !ours.covers_namespace(&key.namespace) {
                continue;
            }
            let version = self.secrets_version(known, source, ours.runs_source(key));
            if version.names.is_empty() {
                continue;
            }
            let own = keys.entry(key.clone()).or_default();
            if own.reading.is_some() {
                continue;
            }
            let due = if own.read_for.as_ref() == Some(&version) {
                own.due
            } else {
                Some(own.read_at.map_or(now, |at| at + MIN_READ_INTERVAL))
            };
            match due {
                Some(due) if due <= now => {
                    own.reading = Some(version.clone());
                    needs.push(SecretReadRequest { key: key.clone(), version });
                }
                Some(due) => soonest(due),
                None => {}
            }
        }
        self.keys = keys;
        (needs, next)
    }

    /// Secrets were read.
    pub(super) fn record_read(
        &mut self,
        need: &SecretReadRequest,
        mut found: BTreeMap<String, SecretReadResult>,
        now: Instant,
    ) {
        // Gone, or another one of its name.
        let Some(known) = self.known.get(&need.key) else { return };
        let Some(own) = self.keys.get_mut(&need.key) else { return };
        own.reading = None;
        if known.resource.uid != need.version.uid {
            return;
        }
        let unanswered = found.values().any(|found| matches!(found, SecretReadResult::Unanswered(_)));
        if unanswered {
            own.due = Some(now + own.backoff.next_delay());
            // What was read before holds until something else is known.
            for (name, state) in &mut found {
                if let (SecretReadResult::Unanswered(_), Some(before @ SecretReadResult::Values(_))) =
                    (&state, own.states.get(name))
                {
                    *state = before.clone();
                }
            }
        } else {
            own.backoff.reset();
            let mends = |found: &SecretReadResult| match found {
                SecretReadResult::Values(_) | SecretReadResult::Unanswered(_) => false,
                SecretReadResult::Missing | SecretReadResult::Unusable(_) | SecretReadResult::Refused(_) => true,
            };
            own.due = found.values().any(mends).then(|| now + jittered(SECRET_RETRY_INTERVAL));
        }
        own.states = found;
        own.read_for = Some(need.version.clone());
        own.read_at = Some(now);
        own.resolved = None;
    }

    /// These sources failed in a way that other secrets could mend.
    pub(super) fn schedule_rereads(&mut self, keys: &[SourceKey], now: Instant) {
        for key in keys {
            if let Some(own) = self.keys.get_mut(key)
                && own.due.is_none()
            {
                own.due = Some(own.read_at.map_or(now, |at| at + jittered(SECRET_RETRY_INTERVAL)));
            }
        }
    }

    /// What follows from all that is known.
    pub(super) fn resolve_sources(&mut self, ours: &dyn SourceScope) -> DesiredSources {
        let mut wanted = DesiredSources::default();
        let mut before = std::mem::take(&mut self.last_sources);
        let mut keys = std::mem::take(&mut self.keys);
        let answered = || self.known.iter().filter(|(key, _)| ours.covers_namespace(&key.namespace));
        let sound = answered().filter_map(|(_, known)| Some((&*known.resource, known.draft.as_ref().ok()?)));
        let rivals = find_target_conflicts(sound);
        let mut order: Vec<_> = answered().collect();
        // One without a time is taken for new.
        order.sort_by_key(|(key, known)| (known.resource.created.is_none(), known.resource.created, *key));
        let destination = |known: &IndexedSource| known.draft.as_ref().ok().and_then(ResolvedSource::named_destination);
        wanted.order = order.into_iter().map(|(key, known)| (key.clone(), destination(known))).collect();
        for (key, known) in answered() {
            let own = keys.get_mut(key);
            if self.role == ControllerRole::Server || !ours.runs_source(key) {
                wanted
                    .relayed
                    .extend(known.draft.as_ref().ok().and_then(|source| relayed_source(source, own.as_deref())));
                continue;
            }
            wanted.resources.insert(key.clone(), Arc::clone(&known.resource));
            let (requests, faults) = ManualRequests::from_annotations(&known.resource.annotations);
            let mut remarks: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let made = match &known.draft {
                Err(unreadable) => SourceResolution::Rejected(reject_unreadable(unreadable)),
                Ok(source) => match rivals.get(key) {
                    Some(TargetConflict::Loses(message)) => SourceResolution::Rejected(RejectedSource {
                        reason: RejectionReason::Duplicate,
                        message: message.clone(),
                    }),
                    Some(TargetConflict::Wins(message)) => {
                        remarks.push(message.clone());
                        resolve_source(known, source, own, &self.secrets_version(known, source, true))
                    }
                    None => resolve_source(known, source, own, &self.secrets_version(known, source, true)),
                },
            };
            if !remarks.is_empty() {
                wanted.remarks.insert(key.clone(), remarks);
            }
            let (source, held) = match made {
                SourceResolution::Source(source) => (Some(*source), None),
                SourceResolution::Rejected(held) => (None, Some(held)),
                SourceResolution::Pending(held) => match before.remove(key) {
                    Some(source) => (Some(source), None),
                    None => (None, held),
                },
            };
            wanted.rejected.extend(held.map(|held| (key.clone(), held)));
            if let Some(source) = source {
                wanted.requests.insert(key.clone(), requests);
                wanted.sources.push(source);
            }
        }
        self.keys = keys;
        self.last_sources = wanted.sources.iter().map(|source| (source.key.clone(), source.clone())).collect();
        wanted
    }
}

enum SourceResolution {
    Source(Box<ResolvedSource>),
    Rejected(RejectedSource),
    /// What ran before goes on, and where nothing did this is to be said.
    Pending(Option<RejectedSource>),
}

fn reject_unreadable(unreadable: &SourceReadError) -> RejectedSource {
    let (reason, message) = match unreadable {
        SourceReadError::Spec(message) => (RejectionReason::InvalidSpec, message.clone()),
        SourceReadError::Secret(message) => (RejectionReason::SecretInvalid, message.clone()),
        SourceReadError::Foreign(foreign) => (RejectionReason::AccessDenied, format!("{foreign}; {}", foreign.help())),
    };
    RejectedSource { reason, message }
}

fn resolve_source(
    known: &IndexedSource,
    draft: &ResolvedSource,
    own: Option<&mut SourceSecretStates>,
    version: &SecretsVersion,
) -> SourceResolution {
    if version.names.is_empty() {
        return SourceResolution::Source(Box::new(draft.clone()));
    }
    let Some(own) = own.filter(|own| own.read_for.as_ref() == Some(version)) else {
        return SourceResolution::Pending(None);
    };
    let namespace = &known.resource.key.namespace;
    let mut worst: Option<(u8, SourceResolution)> = None;
    for (name, found) in &own.states {
        let hold = |reason, message: String| RejectedSource { reason, message };
        let (rank, made) = match found {
            SecretReadResult::Values(_) => continue,
            SecretReadResult::Missing => {
                let message =
                    format!("there is no secret `{name}` in namespace `{namespace}`; create it, or correct the name");
                (2, SourceResolution::Rejected(hold(RejectionReason::SecretMissing, message)))
            }
            SecretReadResult::Unusable(why) => {
                (3, SourceResolution::Rejected(hold(RejectionReason::SecretInvalid, why.clone())))
            }
            SecretReadResult::Refused(why) => {
                (2, SourceResolution::Rejected(hold(RejectionReason::SecretNotRead, why.clone())))
            }
            SecretReadResult::Unanswered(why) => {
                (1, SourceResolution::Pending(Some(hold(RejectionReason::SecretNotRead, why.clone()))))
            }
        };
        if worst.as_ref().is_none_or(|(known, _)| *known < rank) {
            worst = Some((rank, made));
        }
    }
    if let Some((_, made)) = worst {
        return made;
    }
    let generation = known.resource.generation;
    if own.resolved.as_ref().is_none_or(|(of, _)| *of != generation) {
        let values = own.states.iter().filter_map(|(name, found)| match found {
            SecretReadResult::Values(values) => Some((name.clone(), values.clone())),
            SecretReadResult::Missing
            | SecretReadResult::Unusable(_)
            | SecretReadResult::Refused(_)
            | SecretReadResult::Unanswered(_) => None,
        });
        let made = object_reader::read_with_secrets(&known.resource.object, &draft.access, &values.collect());
        if made.is_err() && own.due.is_none() {
            // Somebody may put right what is in the secret.
            own.due = own.read_at.map(|at| at + jittered(SECRET_RETRY_INTERVAL));
        }
        own.resolved = Some((generation, made));
    }
    match own.resolved.as_ref().map(|(_, made)| made) {
        Some(Ok(source)) => SourceResolution::Source(Box::new(source.clone())),
        Some(Err(unreadable)) => SourceResolution::Rejected(reject_unreadable(unreadable)),
        None => SourceResolution::Pending(None),
    }
}

/// Where deliveries for a source go that others run.
fn relayed_source(source: &ResolvedSource, own: Option<&SourceSecretStates>) -> Option<RelayedSource> {
    let name = object_reader::webhook_secret(&source.spec)?;
    let SecretReadResult::Values(values) = own?.states.get(&name)? else { return None };
    let forge = source.spec.forge.as_ref()?.kind;
    values.get("token").filter(|token| !token.is_empty())?;
    Some(RelayedSource { key: source.key.clone(), forge, secret: values.text("token")? })
}

#[cfg(test)]
mod tests;
