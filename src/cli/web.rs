//! `--web`: pages beside a command that looks at models, for as long as it runs.

use super::args::{ClusterArgs, EnvironmentArgs, PolicyArgs};
use super::error::{CliError, CliErrorKind};
use super::output::Output;
use super::rollback::pull_request::proposal_host;
use super::signals::wait_for_interrupt;
use super::targets::TargetArgs;
use super::{connect, live_plan, repository};
use crate::controller::sources::folder_watch::FolderWatch;
use crate::observation::{
    DraftBasis, DraftSource, ObservationBoard, ProposalDesk, ProposalRepository, RecentEvents, commit_question,
    with_commits,
};
use crate::server::tls::CertificateFiles;
use crate::web::{TokenAccess, WebAccess, WebListenError, WebListener};
use clap::builder::{FalseyValueParser, NonEmptyStringValueParser};
use clap::{ArgAction, Args, ValueHint};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::cluster::{AnyCluster, Cluster as _, WatchEvent};
use stator_cluster::sync;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_git::forge::commit_page;
use stator_git::source::commit_log::read_commit_log;
use stator_git::source::proposal::{self, ProposalAuthor, ProposalError, ProposedCommit, ProposedFile};
use stator_git::source::restore::PushRemote;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};
use stator_model::intent::ResolvedEnvironment;
use stator_view::facts::{RevisionFacts, SourceFacts, model_facts};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::{Position, Url};

/// What tokens that sign in have to be for, where nothing else is said.
const DEFAULT_AUDIENCE: &str = "stator";
/// Changes that come this close together are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How often is looked all the same.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Whether there are pages, and where.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Pages")]
pub struct WebArgs {
    /// Serve web pages of the models on a free local port until Ctrl-C, and print the link to them
    #[arg(long, env = "STATOR_WEB", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    web: bool,
    /// Serve web pages of the models at this address (127.0.0.1:8090). Addresses that others can reach work only with sources of a cluster, which decides who may see them
    #[arg(long, env = "STATOR_WEB_LISTEN", value_name = "ADDRESS")]
    web_listen: Option<SocketAddr>,
}

impl WebArgs {
    /// Whether pages are asked for.
    pub fn is_on(self) -> bool {
        self.address().is_some()
    }

    fn address(self) -> Option<SocketAddr> {
        self.web_listen.or_else(|| self.web.then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
    }

    /// For what goes without pages.
    ///
    /// # Errors
    /// Where they are asked for.
    pub fn refuse(self, what: &str) -> Result<(), CliError> {
        if !self.is_on() {
            return Ok(());
        }
        Err(CliError::usage(format!("--web and --web-listen do not work with {what}")).with_hint("omit them"))
    }

    /// Starts to answer, where pages are asked for, and prints the link.
    ///
    /// # Errors
    /// When the address cannot be listened on, or others could reach it.
    pub async fn start(self, output: &Output) -> Result<Option<RunningPages>, CliError> {
        let Some(address) = self.address() else { return Ok(None) };
        let listener = WebListener::bind(address, WebAccess::Link).await?;
        output.warn(&format!("Open {} to see the models; the link works once.", listener.link()));
        let output = *output;
        let note_link = move |link| output.note(&format!("The link was used; {link} is the new one."));
        Ok(Some(RunningPages::start(listener, note_link)))
    }

    /// The same, for whoever has a token of a cluster.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the certificate cannot be used.
    pub async fn start_with_tokens(
        self,
        sign_in: &SignInArgs,
        cluster: KubeCluster,
        output: &Output,
    ) -> Result<Option<RunningPages>, CliError> {
        let Some(address) = self.address() else {
            sign_in.refuse()?;
            return Ok(None);
        };
        let listener = WebListener::bind(address, WebAccess::Tokens(Box::new(sign_in.access(cluster)))).await?;
        output.note(&format!("Open {} to see the models; sign in with a token of the cluster.", listener.link()));
        if !address.ip().is_loopback() && !sign_in.is_encrypted() {
            output.warn(
                "warning: tokens are sent without TLS; pass --web-tls-cert and --web-tls-key, or --web-url with the https \
                 address of the proxy in front",
            );
        }
        Ok(Some(RunningPages::start(listener, |_| {})))
    }
}

/// How one signs in to the pages of a cluster's sources.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pages")]
pub struct SignInArgs {
    /// Public address of the pages, behind a proxy; commit statuses link to it
    #[arg(long, env = "STATOR_WEB_URL", value_name = "URL", value_parser = web_url)]
    web_url: Option<Url>,
    /// Accepted audience of sign-in tokens, instead of `stator`; repeat it, or separate several with commas. The sign-in page shows the first
    #[arg(long, env = "STATOR_WEB_AUDIENCE", value_name = "AUDIENCE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    web_audience: Vec<String>,
    /// TLS certificate for --web-listen, in PEM; reloaded when it changes
    #[arg(long, env = "STATOR_WEB_TLS_CERT", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "web_tls_key")]
    web_tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, env = "STATOR_WEB_TLS_KEY", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "web_tls_cert")]
    web_tls_key: Option<PathBuf>,
}

impl SignInArgs {
    /// For what has no pages, or none where one signs in.
    ///
    /// # Errors
    /// Where anything is said of signing in.
    pub fn refuse(&self) -> Result<(), CliError> {
        let given = [
            ("--web-url", self.web_url.is_some()),
            ("--web-audience", !self.web_audience.is_empty()),
            ("--web-tls-cert", self.web_tls_cert.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(CliError::usage(format!("{flag} works only with pages of a cluster's sources"))
                .with_hint("pass --web-listen without --source, or omit it")),
            None => Ok(()),
        }
    }

    /// Where people open the pages, where that is reported.
    pub fn url(&self) -> Option<Url> {
        self.web_url.clone()
    }

    fn access(&self, cluster: KubeCluster) -> TokenAccess {
        let files = self.web_tls_cert.clone().zip(self.web_tls_key.clone());
        TokenAccess {
            cluster,
            audiences: match self.web_audience.as_slice() {
                [] => vec![DEFAULT_AUDIENCE.to_owned()],
                named => named.to_vec(),
            },
            url: self.web_url.clone(),
            certificate: files.map(|(certificate, key)| CertificateFiles { certificate, key }),
        }
    }

    fn is_encrypted(&self) -> bool {
        self.web_tls_cert.is_some() || self.web_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }
}

/// The address of pages: its path is theirs alone.
fn web_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    match url.scheme() {
        "https" | "http"
            if url[Position::BeforeUsername..Position::BeforeHost].is_empty()
                && url[Position::BeforePath..] == *"/" =>
        {
            Ok(url)
        }
        "https" | "http" => Err("write a scheme and a host only, such as https://stator.example.com".to_owned()),
        _ => Err("it must begin with https:// or http://".to_owned()),
    }
}

impl From<WebListenError> for CliError {
    fn from(error: WebListenError) -> Self {
        let message = error.to_string();
        match error {
            WebListenError::NotLoopback(address) => Self::usage(message).with_hint(format!(
                "use --web-listen 127.0.0.1:{}, and reach it from elsewhere through `ssh -L`",
                address.port()
            )),
            WebListenError::Certificate(_) => {
                Self::input(message).with_hint("name a certificate and its key with --web-tls-cert and --web-tls-key")
            }
            WebListenError::Listen(_) => Self::input(message).with_hint("name another address with --web-listen"),
            WebListenError::NoRandomNumbers => Self::new(CliErrorKind::Bug, message),
        }
    }
}

/// Pages that are answered. They end when this is dropped.
#[derive(Debug)]
pub struct RunningPages {
    board: ObservationBoard,
    observers: Mutex<JoinSet<()>>,
    ending: DropGuard,
    serving: JoinHandle<()>,
}

impl RunningPages {
    fn start(listener: WebListener, report_link: impl Fn(String) + Send + 'static) -> Self {
        let (board, ending) = (ObservationBoard::default(), CancellationToken::new());
        let serving = tokio::spawn(listener.serve(board.clone(), ending.clone(), report_link));
        Self { board, observers: Mutex::default(), ending: ending.drop_guard(), serving }
    }

    /// Where to say what is seen.
    pub fn board(&self) -> ObservationBoard {
        self.board.clone()
    }

    /// Has an environment looked at from now on.
    pub fn observe(&self, observer: RepositoryObserver) {
        let board = self.board();
        self.observers.lock().unwrap_or_else(PoisonError::into_inner).spawn(observer.observe(board));
    }

    /// Goes on until Ctrl-C.
    pub async fn serve_until_interrupted(&self, output: &Output) {
        output.note("Serving the pages until Ctrl-C.");
        wait_for_interrupt().await;
    }

    /// Answers what is under way, and ends.
    pub async fn end(self) {
        let Self { ending, serving, .. } = self;
        drop(ending);
        let _ = serving.await;
    }
}

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

/// Looks at an environment of a repository of this machine whenever its files or the cluster change.
#[derive(Debug)]
pub struct RepositoryObserver {
    place: EnvironmentPlace,
    repository: String,
    environment: String,
    namespace: String,
    cluster: AnyCluster,
    output: Output,
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
        }
    }

    /// Puts on the board what it sees, for as long as it is not dropped.
    async fn observe(self, board: ObservationBoard) {
        let files = FolderWatch::new(&self.place.root, true, |path| {
            // The embedded cluster and git keep their files in hidden folders.
            !path.components().any(|part| part.as_os_str().as_encoded_bytes().first() == Some(&b'.'))
        });
        let (mut changes, mut events) = (None, RecentEvents::default());
        let desk = ProposalDesk::new(
            Arc::new(CheckoutProposals { root: self.place.root.clone() }),
            proposal_host(&self.place.root),
        );
        let proposals = desk.access();
        board.set_proposal_desk("", &self.repository, desk);
        board.set_source(SourceFacts { unread: Some("they are being read".to_owned()), ..self.empty_facts() });
        loop {
            if changes.is_none() {
                changes = self.watch().await;
            }
            let began = Instant::now();
            let known = board.source("", &self.repository);
            let facts = match self.look(known.as_deref(), &mut events).await {
                Ok((facts, basis)) => {
                    board.set_draft_basis("", &self.repository, Some(basis));
                    facts
                }
                Err(error) => {
                    let known = known.map(|known| (*known).clone());
                    SourceFacts { unread: Some(error.to_string()), ..known.unwrap_or_else(|| self.empty_facts()) }
                }
            };
            board.set_source(SourceFacts { proposals: proposals.clone(), ..facts });
            // Looking takes half of the time at most.
            tokio::time::sleep(DEBOUNCE.max(began.elapsed())).await;
            match &mut changes {
                Some(receiver) => {
                    let is_open = tokio::select! {
                        event = receiver.recv() => event.is_some(),
                        () = files.changed() => true,
                        () = tokio::time::sleep(LOOK_INTERVAL) => true,
                    };
                    while receiver.try_recv().is_ok() {}
                    if !is_open {
                        changes = None;
                    }
                }
                None => {
                    tokio::select! {
                        () = files.changed() => {}
                        () = tokio::time::sleep(LOOK_INTERVAL) => {}
                    }
                }
            }
        }
    }

    async fn watch(&self) -> Option<mpsc::Receiver<WatchEvent>> {
        let watched: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
        self.cluster.watch(&watched, Some(&self.namespace)).await.ok()
    }

    async fn look(
        &self,
        known: Option<&SourceFacts>,
        events: &mut RecentEvents,
    ) -> Result<(SourceFacts, DraftBasis), CliError> {
        let mut opened = repository::open_targets(&self.place.targets, &self.output)?;
        let mut selection = opened.select(&self.place.environment, &self.output)?;
        connect::detect_platform(&self.cluster, &mut selection).await;
        let revision = opened.checkout.revision.clone();
        let origin = opened.checkout.root.display().to_string();
        let policies = self.place.policies.read(&self.cluster).await?;
        let desired = opened.render_selection(selection, policies.clone());
        let label = self.empty_facts().label();
        let policies = Arc::new(opened.held_to(policies));
        let source = DraftSource::new(label, opened.checkout.tree.clone(), &desired, policies);
        let mut input = live_plan::status_input(&opened, desired, &self.cluster).await?;
        sync::desired::read_gpus(&self.cluster, &mut input.platform).await;
        let allocatable = input.platform.gpus.clone().map(Arc::new);
        let basis = DraftBasis::new(source, &mut input);
        let now = jiff::Timestamp::now();
        let status = sync::read_environment_status(&self.cluster, &mut input, now).await;
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
        Ok((self.ask_git(facts, known).await, basis))
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
