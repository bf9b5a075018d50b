//! `--web`: pages beside a command that looks at models, for as long as it runs.

use super::error::{CliError, CliErrorKind};
use super::hub::HubCluster;
use super::oidc::OidcArgs;
use super::output::Output;
use super::repository_observer::RepositoryObserver;
use super::signals::wait_for_interrupt;
use crate::observation::ObservationBoard;
use crate::server::tls::CertificateFiles;
use crate::web::{TokenAccess, WebAccess, WebListenError, WebListener};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use stator_cluster::cluster::kube::KubeCluster;
use stator_view::link_template::LinkTemplate;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::{Position, Url};

/// What tokens that sign in have to be for, where nothing else is said.
const DEFAULT_AUDIENCE: &str = "stator";

/// Whether there are pages, and where.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Pages")]
pub struct WebArgs {
    /// Serve web pages of the models on a free local port until Ctrl-C, and print the link to them
    #[arg(long)]
    web: bool,
    /// Serve web pages of the models at this address (127.0.0.1:8090). Addresses that others can reach work only with sources of a cluster, which decides who may see them
    #[arg(long, value_name = "ADDRESS")]
    web_listen: Option<SocketAddr>,
    /// Link to another tool on every model's page; `{namespace}`, `{name}`, `{environment}` and `{source}` in the URL stand for the model's. Repeatable
    #[arg(long, value_name = "TITLE=URL", value_delimiter = '\n')]
    web_link: Vec<LinkTemplate>,
}

impl WebArgs {
    /// Pages on a free local port.
    pub fn on_free_port() -> Self {
        Self { web: true, ..Self::default() }
    }

    /// Whether pages are asked for.
    pub fn is_on(&self) -> bool {
        self.address().is_some()
    }

    fn address(&self) -> Option<SocketAddr> {
        self.web_listen.or_else(|| self.web.then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
    }

    /// For what goes without pages.
    ///
    /// # Errors
    /// Where they are asked for.
    pub fn refuse(&self, what: &str) -> Result<(), CliError> {
        if !self.is_on() {
            return Ok(());
        }
        Err(CliError::usage(format!("--web and --web-listen do not work with {what}")).with_hint("omit them"))
    }

    /// Starts to answer, where pages are asked for, and prints the link.
    ///
    /// # Errors
    /// When the address cannot be listened on, or others could reach it.
    pub async fn start(&self, output: &Output) -> Result<Option<RunningPages>, CliError> {
        let Some(address) = self.address() else { return Ok(None) };
        let listener = WebListener::bind(address, WebAccess::Link).await?;
        output.warn(&format!("Open {} to see the models; the link works once.", listener.link()));
        let output = *output;
        let note_link = move |link| output.note(&format!("The link was used; {link} is the new one."));
        Ok(Some(RunningPages::start(listener, &self.web_link, note_link)))
    }

    /// The same, for whoever has a token of a cluster.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the certificate cannot be used.
    pub async fn start_with_tokens(
        &self,
        sign_in: &SignInArgs,
        cluster: KubeCluster,
        output: &Output,
    ) -> Result<Option<RunningPages>, CliError> {
        let Some(address) = self.address() else {
            sign_in.refuse()?;
            return Ok(None);
        };
        let listener = WebListener::bind(address, WebAccess::Tokens(Box::new(sign_in.access(cluster)?))).await?;
        output.note(&format!("Open {} to see the models; sign in with a token of the cluster.", listener.link()));
        if !address.ip().is_loopback() && !sign_in.is_encrypted() {
            output.warn(
                "warning: tokens are sent without TLS; pass --web-tls-cert and --web-tls-key, or --web-url with the https \
                 address of the proxy in front",
            );
        }
        Ok(Some(RunningPages::start(listener, &self.web_link, |_| {})))
    }
}

/// How one signs in to the pages of a cluster's sources.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pages")]
pub struct SignInArgs {
    /// Public address of the pages, behind a proxy; commit statuses link to it
    #[arg(long, value_name = "URL", value_parser = web_url)]
    web_url: Option<Url>,
    /// Accepted audience of sign-in tokens, instead of `stator`; repeat it, or separate several with commas. The sign-in page shows the first
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    web_audience: Vec<String>,
    /// TLS certificate for --web-listen, in PEM; reloaded when it changes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "web_tls_key")]
    web_tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "web_tls_cert")]
    web_tls_key: Option<PathBuf>,
    #[command(flatten)]
    oidc: OidcArgs,
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
            ("--web-oidc-issuer", self.oidc.is_on()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(CliError::usage(format!("{flag} works only with pages of a cluster's sources"))
                .with_hint("pass --web-listen without --source-file, or omit it")),
            None => Ok(()),
        }
    }

    /// Where people open the pages, where that is reported.
    pub fn url(&self) -> Option<Url> {
        self.web_url.clone()
    }

    fn access(&self, cluster: KubeCluster) -> Result<TokenAccess, CliError> {
        let files = self.web_tls_cert.clone().zip(self.web_tls_key.clone());
        Ok(TokenAccess {
            oidc: self.oidc.settings(self.web_url.as_ref())?,
            cluster,
            audiences: match self.web_audience.as_slice() {
                [] => vec![DEFAULT_AUDIENCE.to_owned()],
                named => named.to_vec(),
            },
            url: self.web_url.clone(),
            certificate: files.map(|(certificate, key)| CertificateFiles { certificate, key }),
        })
    }

    fn is_encrypted(&self) -> bool {
        self.web_tls_cert.is_some() || self.web_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }
}

/// The address of pages: its path is theirs alone.
pub fn web_url(text: &str) -> Result<Url, String> {
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
            WebListenError::Provider(_) => {
                Self::input(message).with_hint("name a file of certificates with --web-oidc-ca-file")
            }
            WebListenError::NoRandomNumbers => Self::new(CliErrorKind::Bug, message),
        }
    }
}

/// Pages that are answered. They end when this is dropped.
#[derive(Debug)]
pub struct RunningPages {
    board: ObservationBoard,
    /// Opens them once.
    link: String,
    observers: Mutex<JoinSet<()>>,
    ending: DropGuard,
    serving: JoinHandle<()>,
}

impl RunningPages {
    fn start(listener: WebListener, links: &[LinkTemplate], report_link: impl Fn(String) + Send + 'static) -> Self {
        let (board, ending, link) = (ObservationBoard::default(), CancellationToken::new(), listener.link());
        board.set_links(links.to_vec());
        let serving = tokio::spawn(listener.serve(board.clone(), ending.clone(), report_link));
        Self { board, link, observers: Mutex::default(), ending: ending.drop_guard(), serving }
    }

    /// Where to say what is seen.
    pub fn board(&self) -> ObservationBoard {
        self.board.clone()
    }

    /// Has an environment looked at from now on.
    pub fn observe(&self, observer: RepositoryObserver) {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner).spawn(observer.observe(self.board()));
    }

    /// Has a cluster looked at from now on.
    pub fn observe_cluster(&self, cluster: HubCluster) {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner).spawn(cluster.observe(self.board()));
    }

    /// The link that opens a page, at a path without its `/`.
    pub fn link_to(&self, path: &str) -> String {
        format!("{}&to=/{path}", self.link)
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
