//! What pages show of an environment of a repository of this machine: looked at whenever its files or the cluster change. A
//! change of a few models' objects is looked at with these alone.

use super::args::{ClusterArgs, EnvironmentArgs, PolicyArgs};
use super::error::CliError;
use super::output::Output;
use super::repository::OpenedRepository;
use super::rollback::pull_request::{ForgeTypeArgs, proposal_host};
use super::selected_part;
use super::targets::{NamedModel, TargetArgs, TargetedModels};
use super::{connect, live_plan, repository};
use crate::controller::sources::folder_watch::FolderWatch;
use crate::observation::{
    DraftBasis, DraftSource, ObservationBoard, ProposalDesk, ProposalRepository, RecentEvents, commit_question,
    with_commits,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use stator_cluster::cluster::{AnyCluster, Cluster as _, WatchEvent, WatchReceiver};
use stator_cluster::sync;
use stator_core::dynamo::kinds::{self, LABEL_MODEL, ObjectKind};
use stator_git::forge::commit_page;
use stator_git::source::RepositoryScope;
use stator_git::source::commit_log::read_commit_log;
use stator_git::source::proposal::{self, ProposalAuthor, ProposalError, ProposedCommit, ProposedFile};
use stator_git::source::restore::PushRemote;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::ModelStatus;
use stator_view::facts::{ModelFacts, RevisionFacts, SourceFacts, model_facts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Changes that come this close together are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How often is looked all the same.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// As many models are looked at by themselves; more are looked at with all others.
const MAX_FEW: usize = 50;

/// An environment of a repository, as options name it.
#[derive(Clone, Debug)]
pub struct EnvironmentPlace {
    /// The root of the repository.
    pub root: PathBuf,
    /// Its models.
    pub targets: TargetArgs,
    /// The policies that they are held to.
    pub policies: PolicyArgs,
    /// The environment.
    pub environment: EnvironmentArgs,
    /// Its cluster.
    pub cluster: ClusterArgs,
    /// The git host of the repository.
    pub forge: ForgeTypeArgs,
}

impl EnvironmentPlace {
    /// The options with which commands of one model find it again.
    fn command_options(&self, environment: &str) -> Vec<String> {
        let ClusterArgs { cluster, context, kubeconfig, impersonate, timeout: _ } = &self.cluster;
        let path = self.targets.paths().first_path();
        let path = (path != Path::new(".")).then(|| path.display().to_string());
        let options = [
            ("--path", path),
            ("-e", Some(environment.to_owned())),
            ("-n", self.environment.namespace.clone()),
            ("--cluster", cluster.clone()),
            ("--context", context.clone()),
            ("--kubeconfig", kubeconfig.as_ref().map(|file| file.display().to_string())),
            ("--as", impersonate.clone()),
        ];
        options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
    }
}

/// A repository of this machine, as far as pull requests need it.
struct CheckoutProposals {
    root: PathBuf,
}

impl ProposalRepository for CheckoutProposals {
    fn commit(
        &self,
        base: String,
        file: ProposedFile,
        message: String,
        author: ProposalAuthor,
    ) -> BoxFuture<'_, Result<ProposedCommit, ProposalError>> {
        let root = self.root.clone();
        in_git(move || proposal::commit_in_checkout(&root, &base, &file, &message, &author))
    }

    fn files_at(
        &self,
        commit: String,
        folder: String,
    ) -> BoxFuture<'_, Result<BTreeMap<String, Vec<u8>>, ProposalError>> {
        let root = self.root.clone();
        in_git(move || proposal::read_files_at(&root, &commit, &folder))
    }
}

/// Works with git on a thread of its own.
fn in_git<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProposalError> + Send + 'static,
) -> BoxFuture<'static, Result<T, ProposalError>> {
    let stopped = |_| Err(ProposalError::Git("reading the repository was stopped".to_owned()));
    tokio::task::spawn_blocking(work).map(move |done| done.unwrap_or_else(stopped)).boxed()
}

/// A repository as it was read last.
#[derive(Debug)]
struct ReadRepository {
    opened: OpenedRepository,
    selection: ResolvedEnvironment,
    /// Whether administrators limit its models, which takes all of them to tell.
    has_policies: bool,
    /// Models that were different a moment ago: their Events come later.
    lately: BTreeSet<String>,
    /// Where the next turn of models begins that are not well.
    next_unsettled: usize,
}

impl ReadRepository {
    /// Selects these models alone.
    fn select(&mut self, names: impl IntoIterator<Item = String>) {
        let names = names.into_iter().map(|name| NamedModel::new(&name)).collect();
        self.opened.models = TargetedModels::of_names(RepositoryScope::default(), names);
        self.opened.checkout.scope = self.opened.models.scope_in(&[&self.selection]);
    }
}

/// What was heard since the last look.
#[derive(Debug, Default)]
struct HeardChanges {
    /// Models that something happened to in the cluster.
    models: BTreeSet<String>,
    /// Whether files may be different.
    has_files: bool,
    /// Whether it is time to look at what nobody tells of.
    is_due: bool,
    /// Whether something happened that names no model.
    may_have_missed: bool,
}

impl HeardChanges {
    fn take_in(&mut self, event: Option<WatchEvent>) {
        let object = match event {
            Some(WatchEvent::Applied(object) | WatchEvent::Deleted(object)) => Some(object),
            Some(WatchEvent::Resync) | None => None,
        };
        let name = object.as_ref().and_then(|object| match object.kind() {
            kind if kind == kinds::RECORD.kind => Some(object.name().to_owned()),
            _ => object.labels().get(LABEL_MODEL).map(|model| (*model).to_owned()),
        });
        match name {
            Some(name) => drop(self.models.insert(name)),
            None => self.may_have_missed = true,
        }
    }
}

/// Looks at an environment of a repository of this machine whenever its files or the cluster change.
#[derive(Debug)]
pub struct RepositoryObserver {
    place: EnvironmentPlace,
    repository: String,
    environment: String,
    namespace: String,
    cluster: AnyCluster,
    output: Output,
    /// What was read already.
    read: Option<(OpenedRepository, ResolvedEnvironment)>,
    /// Hears what the first look saw.
    first_look: Option<oneshot::Sender<Vec<ModelStatus>>>,
}

impl RepositoryObserver {
    /// Of an environment that was read once.
    pub fn new(place: EnvironmentPlace, read: &ResolvedEnvironment, cluster: AnyCluster, output: &Output) -> Self {
        Self {
            place,
            repository: read.repository.clone(),
            environment: read.name.clone(),
            namespace: read.environment.namespace.to_string(),
            cluster,
            output: output.without_notes(),
            read: None,
            first_look: None,
        }
    }

    /// Looks at what was read already, and tells what it sees then: two that look at the same take twice as long. It tells
    /// nothing where that fails.
    pub fn look_first(
        &mut self,
        opened: OpenedRepository,
        selection: ResolvedEnvironment,
    ) -> oneshot::Receiver<Vec<ModelStatus>> {
        let (tell, told) = oneshot::channel();
        (self.read, self.first_look) = (Some((opened, selection)), Some(tell));
        told
    }

    /// Puts on the board what it sees, for as long as it is not dropped.
    pub async fn observe(mut self, board: ObservationBoard) {
        let root = self.place.root.clone();
        let files = FolderWatch::new(&self.place.root, true, move |path| {
            // The embedded cluster and git keep their files in hidden folders; of git's, one says what is checked out.
            let mut parts = path.strip_prefix(&root).unwrap_or(path).components();
            let is_hidden = parts.any(|part| part.as_os_str().as_encoded_bytes().first() == Some(&b'.'));
            !is_hidden || path.ends_with(".git/HEAD") || path.ends_with(".git/logs/HEAD")
        });
        let repository = Arc::new(CheckoutProposals { root: self.place.root.clone() });
        let desk = ProposalDesk::new(repository, proposal_host(&self.place.root, self.place.forge));
        let proposals = desk.access();
        board.set_desks("", &self.repository, |desks| {
            desks.proposals = Some(desk);
            (desks.cluster, desks.target) = (Some(self.cluster.clone()), Some(self.cluster.clone()));
        });
        board.set_source(SourceFacts { unread: Some("they are being read".to_owned()), ..self.empty_facts() });
        let mut drafts = board.draft_changes();
        let (mut changes, mut events, mut read) = (None, RecentEvents::default(), None::<ReadRepository>);
        let (mut heard, mut rested) = (HeardChanges::default(), Instant::now());
        let mut due = rested + LOOK_INTERVAL;
        loop {
            if changes.is_none() {
                changes = self.watch().await;
                heard.may_have_missed = true;
            }
            drafts.mark_unchanged();
            let known = board.source("", &self.repository);
            let few = match (&mut read, &known) {
                (Some(read), Some(known))
                    if !heard.may_have_missed && !board.lacks_draft_basis("", &self.repository) =>
                {
                    self.look_at_changed(read, &heard, known, &mut events).await
                }
                _ => None,
            };
            if heard.is_due || few.is_none() {
                due = Instant::now() + LOOK_INTERVAL;
            }
            heard = HeardChanges::default();
            let facts = match few {
                Some(facts) => {
                    if known.is_none_or(|known| !Arc::ptr_eq(&known.models, &facts.models)) {
                        // Drafts are judged against all of what is there now.
                        board.set_draft_basis("", &self.repository, None);
                    }
                    facts
                }
                None => {
                    // Looking at everything takes half of the time at most.
                    tokio::time::sleep_until(rested).await;
                    let began = Instant::now();
                    let is_drafted = board.is_drafted("", &self.repository);
                    let opened = self.read.take();
                    let looked = self.look(opened, known.as_deref(), (&mut events, is_drafted, &board)).await;
                    rested = Instant::now() + began.elapsed();
                    match looked {
                        Ok((facts, basis, now)) => {
                            read = Some(now);
                            board.set_draft_basis("", &self.repository, basis);
                            facts
                        }
                        Err(error) => {
                            read = None;
                            let known = known.map(|known| (*known).clone());
                            let facts = known.unwrap_or_else(|| self.empty_facts());
                            SourceFacts { unread: Some(error.to_string()), ..facts }
                        }
                    }
                }
            };
            board.set_source(SourceFacts { proposals: proposals.clone(), ..facts });
            if let Some(tell) = self.first_look.take()
                && read.is_some()
            {
                let seen = board.source("", &self.repository);
                let _ =
                    tell.send(seen.iter().flat_map(|seen| &*seen.models).map(|model| model.status.clone()).collect());
            }
            tokio::time::sleep(DEBOUNCE).await;
            let drafting = async {
                while !board.lacks_draft_basis("", &self.repository) || read.is_none() {
                    let _ = drafts.changed().await;
                }
            };
            let change = async {
                match &mut changes {
                    Some(receiver) => receiver.recv().await.map(Some),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = change => match event {
                    Some(event) => heard.take_in(event),
                    None => changes = None,
                },
                () = files.changed() => heard.has_files = true,
                () = drafting => heard.may_have_missed = true,
                () = tokio::time::sleep_until(due) => (heard.has_files, heard.is_due) = (true, true),
            }
            while let Some(Ok(event)) = changes.as_mut().map(WatchReceiver::try_recv) {
                heard.take_in(Some(event));
            }
        }
    }

    /// Looks at what may be different, and at nothing where nothing is. `None` where everything has to be looked at.
    async fn look_at_changed(
        &self,
        read: &mut ReadRepository,
        heard: &HeardChanges,
        known: &SourceFacts,
        events: &mut RecentEvents,
    ) -> Option<SourceFacts> {
        let mut models = heard.models.clone();
        if heard.is_due {
            let mut platform = read.selection.environment.platform.clone().unwrap_or_default();
            sync::desired::read_gpus(&self.cluster, &mut platform).await;
            let has_policies = !self.place.policies.read(&self.cluster).await.ok()?.is_empty();
            if has_policies || read.has_policies || platform.gpus.as_ref() != known.allocatable.as_deref() {
                return None;
            }
            // Nobody tells of pods, Events and the clock; the embedded cluster has the clock alone.
            let most = if self.cluster.as_kubernetes().is_some() { usize::MAX } else { MAX_FEW };
            let unsettled: Vec<&String> =
                known.models.iter().filter(|one| !one.is_well()).map(|one| &one.status.name).collect();
            // A few at a time, in turns.
            let turn = unsettled.iter().cycle().skip(read.next_unsettled).take(most.min(unsettled.len()));
            models.extend(turn.map(|name| (*name).clone()));
            read.next_unsettled = (read.next_unsettled + most.min(unsettled.len())) % unsettled.len().max(1);
            models.append(&mut read.lately);
        } else {
            read.lately.extend(models.iter().cloned());
        }
        if heard.has_files {
            models.extend(self.read_again(read, known).await?);
        }
        // What happens to other models of git than those that are shown is not shown.
        let shown: BTreeSet<&str> = known.models.iter().map(|one| one.status.name.as_str()).collect();
        let in_git: BTreeSet<&str> = read.selection.intents.iter().map(|one| one.name.as_str()).collect();
        models.retain(|name| shown.contains(name.as_str()) || !in_git.contains(name.as_str()));
        let commit = read.opened.checkout.revision.clone();
        let seen = (!commit.is_empty()).then_some(RevisionFacts { commit, at: None });
        let known = SourceFacts { seen, ..known.clone() };
        if models.is_empty() {
            return Some(self.ask_git(known.clone(), Some(&known)).await);
        }
        self.look_at_few(read, &models, &known, events).await
    }

    /// Reads the files again, and says whose are different; `None` where other models may be concerned as well.
    async fn read_again(&self, read: &mut ReadRepository, known: &SourceFacts) -> Option<BTreeSet<String>> {
        let (opened, selection) = self.open().await.ok()?;
        let changed = selected_part::changed_models(
            (&read.opened.checkout.tree, &read.selection),
            (&opened.checkout.tree, &selection),
        )?;
        let shown: BTreeSet<&str> = known.models.iter().map(|model| model.status.name.as_str()).collect();
        // A label may make a model a target, or no longer.
        if changed.iter().any(|(name, source)| shown.contains(&**name) != opened.checkout.scope.contains(source)) {
            return None;
        }
        // What a model shared with others as it was is different for them, too.
        let related = match changed.is_empty() {
            true => BTreeSet::new(),
            false => {
                read.select(changed.into_keys());
                live_plan::related_models(&read.opened, &read.selection)?
            }
        };
        let related = related.into_iter().filter(|name| shown.contains(&**name)).collect();
        (read.opened, read.selection) = (opened, selection);
        read.opened.workspace.forget_models();
        Some(related)
    }

    /// Looks at a few models of a repository whose files are as they were. `None` where others may be concerned as well.
    async fn look_at_few(
        &self,
        read: &mut ReadRepository,
        models: &BTreeSet<String>,
        known: &SourceFacts,
        events: &mut RecentEvents,
    ) -> Option<SourceFacts> {
        if models.is_empty() || models.len() > MAX_FEW || read.has_policies {
            return None;
        }
        read.select(models.iter().cloned());
        let mut input = live_plan::input_of_few(&read.opened, &read.selection, &self.cluster).await?;
        input.platform.gpus = known.allocatable.as_deref().cloned();
        let now = jiff::Timestamp::now();
        let status = sync::read_environment_status(&self.cluster, &mut input, now).await;
        if !selected_part::is_self_contained(&status.plan) {
            return None;
        }
        let events = events.of_models(&self.cluster, &self.namespace, &status.models).await;
        let looked = model_facts(status.models, &status.plan, status.records, status.live, events, &known.models, now);
        let names: BTreeSet<&str> = looked.iter().map(|model| model.status.name.as_str()).collect();
        let is_other = |model: &&ModelFacts| !names.contains(model.status.name.as_str());
        let mut all: Vec<ModelFacts> = known.models.iter().filter(is_other).cloned().collect();
        all.extend(looked);
        all.sort_by(|a, b| a.status.name.cmp(&b.status.name));
        let facts = SourceFacts { models: all.into(), ..known.clone() };
        Some(self.ask_git(facts, Some(known)).await)
    }

    async fn open(&self) -> Result<(OpenedRepository, ResolvedEnvironment), CliError> {
        let mut opened = repository::open_targets(&self.place.targets, &self.output)?;
        let mut selection = opened.select(&self.place.environment, &self.output)?;
        connect::detect_platform(&self.cluster, &mut selection).await;
        Ok((opened, selection))
    }

    async fn watch(&self) -> Option<WatchReceiver> {
        let watched: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
        self.cluster.watch(&watched, Some(&self.namespace)).await.ok()
    }

    async fn look(
        &self,
        opened: Option<(OpenedRepository, ResolvedEnvironment)>,
        known: Option<&SourceFacts>,
        (events, is_drafted, board): (&mut RecentEvents, bool, &ObservationBoard),
    ) -> Result<(SourceFacts, Option<DraftBasis>, ReadRepository), CliError> {
        let (mut opened, selection) = match opened {
            Some(opened) => opened,
            None => self.open().await?,
        };
        let revision = opened.checkout.revision.clone();
        let origin = opened.checkout.root.display().to_string();
        let policies = self.place.policies.read(&self.cluster).await?;
        if known.is_none_or(|known| known.models.is_empty()) {
            let (read, all) = (selection.intents.len(), selection.intents.len() + selection.broken.len());
            let unread = format!("loading: {read} of {all} models are read, and the cluster is being read");
            board.set_source(SourceFacts { unread: Some(unread), ..self.empty_facts() });
        }
        let (read, has_policies) = (selection.clone(), !policies.is_empty());
        opened.workspace.forget_models();
        let desired = opened.render_selection(selection, policies.clone());
        let label = self.empty_facts().label();
        let policies = Arc::new(opened.held_to(policies));
        let source = is_drafted.then(|| DraftSource::new(label, opened.checkout.tree.clone(), &desired, policies));
        let mut input = live_plan::status_input(&opened, desired, &self.cluster).await?;
        sync::desired::read_gpus(&self.cluster, &mut input.platform).await;
        let allocatable = input.platform.gpus.clone().map(Arc::new);
        let basis = source.map(|source| DraftBasis::new(source, &mut input));
        let now = jiff::Timestamp::now();
        let status = sync::read_environment_status(&self.cluster, &mut input, now).await;
        // Ten thousand models take a while to be let go, which nobody has to wait for.
        tokio::task::spawn_blocking(move || drop(input));
        let earlier = known.map(|known| &*known.models).unwrap_or_default();
        let events = events.of_models(&self.cluster, &self.namespace, &status.models).await;
        let facts = SourceFacts {
            origin,
            models_namespace: Some(self.namespace.clone()),
            allocatable,
            seen: (!revision.is_empty()).then_some(RevisionFacts { commit: revision, at: None }),
            models: model_facts(status.models, &status.plan, status.records, status.live, events, earlier, now).into(),
            ..self.empty_facts()
        };
        let lately = BTreeSet::new();
        let read = ReadRepository { opened, selection: read, has_policies, lately, next_unsettled: 0 };
        Ok((self.ask_git(facts, known).await, basis, read))
    }

    /// The source with what git tells of the commits that it names.
    async fn ask_git(&self, source: SourceFacts, known: Option<&SourceFacts>) -> SourceFacts {
        let known = known.map(|known| Arc::clone(&known.commits)).unwrap_or_default();
        let head = source.seen.as_ref().map(|seen| seen.commit.clone()).unwrap_or_default();
        let question = commit_question(&source, &known, &head).unwrap_or_default();
        let root = self.place.root.clone();
        let asking = move || (read_commit_log(&root, &question), PushRemote::of(&root));
        let (answer, remote) = tokio::task::spawn_blocking(asking).await.unwrap_or_default();
        let schemes = AllowedSchemes { insecure: true, local: true };
        let url = remote.and_then(|remote| RepositoryUrl::parse(&remote.url, schemes).ok());
        with_commits(source, &known, answer, |commit| commit_page(None, url.as_ref()?, commit))
    }

    fn empty_facts(&self) -> SourceFacts {
        SourceFacts {
            name: self.repository.clone(),
            origin: self.place.root.display().to_string(),
            environment: Some(self.environment.clone()),
            phase: "Files of this machine".to_owned(),
            command_options: self.place.command_options(&self.environment),
            is_kubernetes: self.cluster.as_kubernetes().is_some(),
            ..SourceFacts::default()
        }
    }
}
