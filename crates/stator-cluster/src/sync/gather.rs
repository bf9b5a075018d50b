//! What a plan needs to know of a cluster: live objects and records, all or nothing.

use super::list_scope::ListScope;
use super::live_lists::{GatherError, ListedKind, LiveLists, ReadBookkeeping};
use crate::cluster::{Cluster, ClusterError};
use crate::random::random_bits;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::references::{self, NAMED_BY_PODS};
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use stator_core::retry::Backoff;
use stator_model::plan::{self, LeftoverJournal, Record, SourceClaim, SourceIdentity, SyncBookkeeping};
use stator_model::plan::{UnlistedKind, UnreadableObject};
use stator_model::render::RenderTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

/// What a cluster holds of one environment.
#[derive(Clone, Debug, Default)]
pub struct GatheredState {
    /// Objects of the kinds that stator renders: those that carry the environment's labels and no other source's, and
    /// those of the wanted names whoever made them. Sorted by reference.
    pub live: Vec<ObjectText>,
    /// Graphs and requests of others that name an object of these that no model wants. Sorted by reference.
    pub users: Vec<ObjectText>,
    /// The records of the namespace, whosever they are, with what journals add to them. Sorted by model.
    pub records: Vec<Record>,
    /// What syncs left of their journals.
    pub journals: Vec<LeftoverJournal>,
    /// See [`find_strays`]. Sorted by reference.
    pub strays: Vec<ObjectText>,
    /// Records and journals that cannot be read: models of such a record are neither synced nor pruned, and beside such a
    /// journal nothing is pruned.
    pub damaged: Vec<UnreadableObject>,
    /// Kinds that a model or a record names and that cannot be listed: nothing is known of their objects.
    pub unlisted: Vec<UnlistedKind>,
}

impl GatheredState {
    /// What syncs remembered of the namespace, whosever they were.
    pub fn bookkeeping(&self) -> SyncBookkeeping {
        SyncBookkeeping { records: self.records.clone(), journals: self.journals.clone() }
    }
}

/// What repositories without a `stator.yaml` are called.
const NAMELESS_REPOSITORY: &str = "default";
/// Look-ups at a time.
const MAX_CONCURRENT_READS: usize = 16;
/// From so many missing objects of a kind on, everything of the kind is listed in place of looking at each.
const LIST_THRESHOLD: usize = 100;
/// How often a read that failed in a way that may pass is tried again.
const MAX_RETRIES: u32 = 2;
/// The most that is waited before the first of these, beside what the server asks for.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(400);
/// The longest delay that a server is granted; whoever waits for a plan would rather hear that it is busy.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Reads live objects and records of one environment. Each kind is listed once, by label, at the same time; those that
/// are listed on demand follow, where something names one ([`ObjectKind::is_on_demand`]). Wanted objects that no list
/// showed are looked up, because what somebody else made carries no label of ours.
///
/// # Errors
/// When any list or look-up fails: nobody may prune on a partial view. A kind that the cluster does not serve is a
/// failure too, unless nothing wanted is of that kind. A kind that is not required and may not be listed, or is not
/// served, is no failure: what is needed of it is in [`GatheredState::unlisted`].
pub async fn gather<C: Cluster>(
    cluster: &C,
    repository: &str,
    environment: &str,
    namespace: &str,
    wanted: &[ObjectRef],
) -> Result<GatheredState, GatherError> {
    let target = RenderTarget {
        repository: repository.to_owned(),
        environment: environment.to_owned(),
        namespace: namespace.to_owned(),
        platform: Platform::default(),
    };
    let here = gather_namespace(cluster, &target, None, wanted, &ListScope::default()).await?;
    let strays = find_strays(cluster, &target, None, &here.records).await;
    Ok(GatheredState { strays, ..here })
}

/// The labels of everything that stator applies for an environment.
pub fn environment_labels(target: &RenderTarget) -> BTreeMap<String, String> {
    BTreeMap::from([
        (kinds::LABEL_MANAGED_BY.to_owned(), kinds::FIELD_MANAGER.to_owned()),
        (kinds::LABEL_REPOSITORY.to_owned(), target.repository.clone()),
        (kinds::LABEL_ENVIRONMENT.to_owned(), target.environment.clone()),
    ])
}

/// As [`gather()`], in the environment's own namespace alone. Of objects with these labels that `owner` does not own, only
/// wanted and recorded ones are given: another repository may call itself the same. `lists` says what
/// lists show.
pub(super) async fn gather_namespace<C: Cluster>(
    cluster: &C,
    target: &RenderTarget,
    owner: Option<&SourceClaim>,
    wanted: &[ObjectRef],
    lists: &ListScope,
) -> Result<GatheredState, GatherError> {
    let namespace = &target.namespace;
    let labels = environment_labels(target);
    let nothing = BTreeMap::new();
    let (on_demand, usual): (Vec<&ObjectKind>, Vec<&ObjectKind>) =
        kinds::MANAGED.iter().partition(|kind| kind.is_on_demand());
    let (mut answers, listed, journals) = tokio::join!(
        list_labelled((cluster, lists), usual, namespace, &labels),
        list_kind((cluster, lists), &kinds::RECORD, namespace, &nothing),
        list_kind((cluster, lists), &kinds::JOURNAL, namespace, &nothing),
    );
    let listed = listed.map_err(|cause| GatherError { what: "stator's records".to_owned(), cause })?;
    let unread_journals = |cause: ClusterError| GatherError { what: "stator's journals".to_owned(), cause };
    let mut listed_models: BTreeSet<String> = listed.iter().map(|object| object.name().to_owned()).collect();
    let mut bookkeeping = ReadBookkeeping::default();
    bookkeeping.read_records(listed);
    bookkeeping.read_journals(journals.map_err(unread_journals)?);
    let mut named = bookkeeping.named_kinds(wanted);
    named.extend(lists.named_kinds().map(str::to_owned));
    let needed = on_demand.into_iter().filter(|kind| named.contains(kind.kind) || bookkeeping.is_damaged());
    answers.extend(list_labelled((cluster, lists), needed.collect(), namespace, &labels).await);
    let is_wanted = |kind: &ObjectKind| wanted.iter().any(|object| object.kind == kind.kind);
    let LiveLists { live, unserved, unlisted } =
        LiveLists::of(answers, is_wanted, |kind| named.contains(kind.kind)).map_err(|error| *error)?;
    let unrecorded = record_refs_of_labels(namespace, &live, &listed_models);
    if !unrecorded.is_empty() {
        // Somebody may be at work: what is created is named by a journal until its record is there, so that one of the two
        // is seen by whoever looks for the journal first.
        let journals =
            list_kind((cluster, lists), &kinds::JOURNAL, namespace, &nothing).await.map_err(unread_journals)?;
        bookkeeping.read_journals(journals);
        let missing: MissingObjects<'_> = unrecorded.iter().map(|record| (record.identity(), record)).collect();
        let found: Vec<ObjectText> =
            read_missing(cluster, namespace, missing, LIST_THRESHOLD).await?.into_values().collect();
        listed_models.extend(found.iter().map(|object| object.name().to_owned()));
        bookkeeping.read_records(found);
    }
    let listed = LiveLists { live, unserved, unlisted };
    complete(cluster, target, owner, wanted, (listed, bookkeeping), LIST_THRESHOLD).await
}

/// As [`gather_namespace`], of these models alone: their records, and one by one what these and `wanted` name. An object
/// that only its labels give to a model is not seen, and who else uses what nobody wants is not looked for among the others:
/// this is enough for whoever deletes nothing.
pub(super) async fn gather_models<C: Cluster>(
    cluster: &C,
    target: &RenderTarget,
    owner: Option<&SourceClaim>,
    wanted: &[ObjectRef],
    models: &BTreeSet<String>,
) -> Result<GatheredState, GatherError> {
    let namespace = &target.namespace;
    let everything = ListScope::default();
    let journals = list_kind((cluster, &everything), &kinds::JOURNAL, namespace, &BTreeMap::new()).await;
    let refs: Vec<ObjectRef> = models.iter().map(|model| kinds::RECORD.reference(namespace, model)).collect();
    let missing: MissingObjects<'_> = refs.iter().map(|record| (record.identity(), record)).collect();
    let mut bookkeeping = ReadBookkeeping::default();
    bookkeeping.read_records(read_one_by_one(cluster, &missing).await?);
    let unread = |cause: ClusterError| GatherError { what: "stator's journals".to_owned(), cause };
    bookkeeping.read_journals(journals.map_err(unread)?);
    complete(cluster, target, owner, wanted, (LiveLists::default(), bookkeeping), usize::MAX).await
}

/// Looks up what the lists did not show of what is wanted or recorded.
async fn complete<C: Cluster>(
    cluster: &C,
    target: &RenderTarget,
    owner: Option<&SourceClaim>,
    wanted: &[ObjectRef],
    (lists, bookkeeping): (LiveLists, ReadBookkeeping),
    list_threshold: usize,
) -> Result<GatheredState, GatherError> {
    let namespace = &target.namespace;
    let LiveLists { mut live, unserved, unlisted } = lists;
    let (records, journals, damaged) = bookkeeping.merge();
    // What a record names and no list showed is gone, or somebody took our labels off it: worth a look either way.
    // Of others' records only those that name what is wanted here: it may be moved.
    let wanted_names: BTreeSet<ObjectIdentity> = wanted.iter().map(ObjectRef::identity).collect();
    let is_of_interest = |record: &&Record| {
        let has_names = record.repository == target.repository && record.environment == target.environment;
        let origins = (owner.map(|claim| claim.identity.origin()), record.owner.as_ref().map(SourceIdentity::origin));
        let is_own = match origins {
            (Some(own), Some(recorded)) => own == recorded,
            (Some(_) | None, None) | (None, Some(_)) => has_names,
        };
        // All folders without a name have this one, and show each other's models.
        is_own
            || (has_names && target.repository == NAMELESS_REPOSITORY)
            || record.inventory.iter().any(|entry| wanted_names.contains(&entry.object.identity()))
    };
    let recorded = records.iter().filter(is_of_interest).flat_map(|record| &record.inventory);
    let recorded: Vec<&ObjectRef> = recorded.map(|entry| &entry.object).collect();
    if let Some(owner_id) = owner.map(|claim| claim.identity.owner_id()) {
        let known: BTreeSet<ObjectIdentity> = recorded.iter().map(|object| object.identity()).collect();
        live.retain(|identity, object| {
            let label = object.label(kinds::LABEL_OWNER_ID);
            label.is_none_or(|label| label == owner_id) || wanted_names.contains(identity) || known.contains(identity)
        });
    }
    let missing: MissingObjects<'_> = wanted
        .iter()
        .chain(recorded.iter().copied())
        .map(|object| (object.identity(), object))
        .filter(|(identity, object)| !live.contains_key(identity) && !unserved.contains(object.kind.as_str()))
        .filter(|(_, object)| !unlisted.iter().any(|one| one.kind.kind == object.kind))
        .collect();
    live.extend(read_missing(cluster, namespace, missing, list_threshold).await?);
    // What a request made is the model's too, though it carries no label of ours and no record names it.
    let requests = live.values().filter(|object| object.kind() == kinds::REQUEST.kind);
    let made: Vec<ObjectRef> = requests.filter_map(|request| plan::graph_made_by(&request.parse())).collect();
    let made: MissingObjects<'_> = made
        .iter()
        .map(|object| (object.identity(), object))
        .filter(|(identity, _)| !live.contains_key(identity))
        .collect();
    let found = read_missing(cluster, namespace, made, list_threshold).await?;
    live.extend(found);
    let users = find_users(cluster, namespace, &live, &wanted_names).await?;
    let mut live: Vec<ObjectText> = live.into_values().collect();
    live.sort_by(|one, other| one.reference().cmp(other.reference()));
    Ok(GatheredState { live, users, records, journals, strays: Vec::new(), damaged, unlisted })
}

/// Whoever names an object that no model wants, whatever its labels are: pods of any graph may need it. Nearly always there
/// is no such object, and nothing is listed.
async fn find_users<C: Cluster>(
    cluster: &C,
    namespace: &str,
    live: &BTreeMap<ObjectIdentity, ObjectText>,
    wanted: &BTreeSet<ObjectIdentity>,
) -> Result<Vec<ObjectText>, GatherError> {
    let is_named = |object: &ObjectText| NAMED_BY_PODS.iter().any(|kind| kind.kind == object.kind());
    let unwanted = live.iter().filter(|(identity, object)| !wanted.contains(identity) && is_named(object));
    let mut names = BTreeMap::<&'static str, BTreeSet<String>>::new();
    for (kind, own) in unwanted.flat_map(|(_, object)| references::names_of(&object.parse())) {
        names.entry(kind).or_default().extend(own);
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut users = Vec::new();
    for (kind, answer) in list_labelled(
        (cluster, &ListScope::default()),
        vec![&kinds::GRAPH, &kinds::REQUEST],
        namespace,
        &BTreeMap::new(),
    )
    .await
    {
        let everybody = answer.map_err(|cause| GatherError { what: format!("{}s", kind.kind), cause })?;
        let others = everybody.into_iter().filter(|object| !live.contains_key(&object.reference().identity()));
        users.extend(others.filter(|object| references::is_named_by(&names, object)));
    }
    users.sort_by(|one, other| one.reference().cmp(other.reference()));
    Ok(users)
}

/// The records of the models that live objects name, where the list did not show them: whose such an object is they say.
fn record_refs_of_labels(
    namespace: &str,
    live: &BTreeMap<ObjectIdentity, ObjectText>,
    listed_models: &BTreeSet<String>,
) -> Vec<ObjectRef> {
    let models = live.values().filter_map(|object| object.label(kinds::LABEL_MODEL));
    let unknown: BTreeSet<&str> = models.filter(|model| !listed_models.contains(*model)).collect();
    unknown.into_iter().map(|model| kinds::RECORD.reference(namespace, model)).collect()
}

/// Looks objects up; those that are there.
async fn read_missing<C: Cluster>(
    cluster: &C,
    namespace: &str,
    missing: MissingObjects<'_>,
    list_threshold: usize,
) -> Result<BTreeMap<ObjectIdentity, ObjectText>, GatherError> {
    let (missing, mut found) = list_missing(cluster, namespace, missing, list_threshold).await?;
    let one_by_one = read_one_by_one(cluster, &missing).await?;
    found.extend(one_by_one.into_iter().map(|object| (object.reference().identity(), object)));
    Ok(found)
}

/// Looks objects up, each by itself; those that are there.
async fn read_one_by_one<C: Cluster>(
    cluster: &C,
    missing: &MissingObjects<'_>,
) -> Result<Vec<ObjectText>, GatherError> {
    // Made first and driven then: a stream that makes them as it goes cannot be sent to another thread.
    let looks: Vec<_> = missing.values().map(|object| read_one(cluster, object)).collect();
    let found: Vec<Option<ObjectText>> = stream::iter(looks).buffered(MAX_CONCURRENT_READS).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Where many objects of a kind are missing, one list of everything costs less than a look at each. What is still
/// missing, and what was found.
async fn list_missing<'a, C: Cluster>(
    cluster: &C,
    namespace: &str,
    mut missing: MissingObjects<'a>,
    list_threshold: usize,
) -> Result<(MissingObjects<'a>, BTreeMap<ObjectIdentity, ObjectText>), GatherError> {
    let mut found = BTreeMap::new();
    let is_of = |object: &ObjectRef, kind: &ObjectKind| object.kind == kind.kind && object.namespace == namespace;
    for kind in kinds::MANAGED {
        if missing.values().filter(|object| is_of(object, kind)).count() < list_threshold {
            continue;
        }
        let everything = list_kind((cluster, &ListScope::default()), kind, namespace, &BTreeMap::new())
            .await
            .map_err(|cause| GatherError { what: format!("{}s", kind.kind), cause })?;
        for object in everything {
            let identity = object.reference().identity();
            if missing.contains_key(&identity) {
                found.insert(identity, object);
            }
        }
        missing.retain(|_, object| !is_of(object, kind));
    }
    Ok((missing, found))
}

/// Objects that no list by label showed.
type MissingObjects<'a> = BTreeMap<ObjectIdentity, &'a ObjectRef>;

/// The answers to a handful of questions, in their order.
async fn join_buffered<T>(questions: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(questions).buffered(MAX_CONCURRENT_READS).collect().await
}

/// Lists kinds at the same time.
async fn list_labelled<C: Cluster>(
    (cluster, lists): (&C, &ListScope),
    kinds: Vec<&'static ObjectKind>,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Vec<ListedKind> {
    let answers = kinds.iter().map(|kind| list_kind((cluster, lists), kind, namespace, labels)).collect();
    let answers = join_buffered(answers).await;
    kinds.into_iter().zip(answers).collect()
}

async fn list_kind<C: Cluster>(
    (cluster, lists): (&C, &ListScope),
    kind: &ObjectKind,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<ObjectText>, ClusterError> {
    with_retries(|| lists.list(cluster, kind, namespace, labels)).await
}

async fn read_one<C: Cluster>(cluster: &C, object: &ObjectRef) -> Result<Option<ObjectText>, GatherError> {
    let found = with_retries(|| cluster.get(object)).await;
    let found = found.map_err(|cause| GatherError { what: object.to_string(), cause })?;
    Ok(found.map(ObjectText::from))
}

/// Asks again where the server may answer in a moment. One that is not reached at all is said at once.
pub(crate) async fn with_retries<T, F>(ask: impl Fn() -> F) -> Result<T, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    let mut backoff = Backoff::new(FIRST_RETRY_DELAY, MAX_RETRY_DELAY, random_bits());
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let asked = error.retry_delay().filter(|asked| *asked <= MAX_RETRY_DELAY);
        match (&error, asked) {
            (ClusterError::Transient { .. }, Some(asked)) if backoff.attempts() < MAX_RETRIES => {
                tokio::time::sleep(asked + backoff.next_delay()).await;
            }
            _ => return Err(error),
        }
    }
}

/// What has the labels of a source, or of what it was before: records in any namespace, and where there are some, or in the
/// target's own namespace, objects of the kinds that are listed at every look. Only lists of what is left behind hang from
/// them, so a cluster that does not let us look into other namespaces, or holds something unreadable there, is no reason to
/// plan nothing.
pub async fn find_strays<C: Cluster>(
    cluster: &C,
    target: &RenderTarget,
    owner: Option<&SourceClaim>,
    records: &[Record],
) -> Vec<ObjectText> {
    let managed = (kinds::LABEL_MANAGED_BY.to_owned(), kinds::FIELD_MANAGER.to_owned());
    let mut marks: Vec<(String, String)> = plan::known_origins(owner, records)
        .iter()
        .map(|origin| (kinds::LABEL_OWNER_ID.to_owned(), origin.digest()))
        .collect();
    if marks.is_empty() {
        marks.push((kinds::LABEL_REPOSITORY.to_owned(), target.repository.clone()));
    }
    let marks: Vec<BTreeMap<String, String>> =
        marks.into_iter().map(|mark| BTreeMap::from([managed.clone(), mark])).collect();
    let everywhere = marks.iter().map(|labels| list_some(cluster, &kinds::RECORD, None, labels));
    let mut strays: Vec<ObjectText> = join_buffered(everywhere.collect()).await.into_iter().flatten().collect();
    let mut namespaces: BTreeSet<String> = strays.iter().map(|record| record.reference().namespace.clone()).collect();
    namespaces.insert(target.namespace.clone());
    let usual: Vec<&ObjectKind> = kinds::MANAGED.iter().filter(|kind| !kind.is_on_demand()).collect();
    let mut questions = Vec::new();
    for namespace in &namespaces {
        for labels in &marks {
            questions.extend(usual.iter().map(|kind| list_some(cluster, kind, Some(namespace), labels)));
        }
    }
    strays.extend(join_buffered(questions).await.into_iter().flatten());
    // Most of them are what the source has here, and every plan names that.
    let owner_id = owner.map(|claim| claim.identity.owner_id());
    strays.retain(|object| {
        let is = |label: &str, own: Option<&str>| own.is_none_or(|own| object.label(label) == Some(own));
        let is_here = object.reference().namespace == target.namespace
            && is(kinds::LABEL_ENVIRONMENT, Some(&target.environment))
            && is(kinds::LABEL_OWNER_ID, owner_id.as_deref());
        !is_here
    });
    strays.sort_by(|one, other| one.reference().cmp(other.reference()));
    strays
}

/// Lists a kind, as far as that is allowed.
async fn list_some<C: Cluster>(
    cluster: &C,
    kind: &ObjectKind,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Vec<ObjectText> {
    cluster.list_texts(kind, namespace, labels).await.unwrap_or_else(|error| {
        tracing::info!(%error, kind = kind.kind, "objects left behind are not listed");
        Vec::new()
    })
}
