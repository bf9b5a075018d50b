//! From a kubeconfig, or a pod's service account, to a client.

use super::connection_gate::{ConnectionExecutor, ConnectionGate};
use super::request_observer::ObserverSlot;
use ::kube::client::ClientBuilder;
use ::kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use ::kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use stator_core::text::error_chain;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Which cluster, as whom, and with how much patience.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// A kubeconfig in place of `$KUBECONFIG` and `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it in place of its current one.
    pub context: Option<String>,
    /// Connects as a pod's service account; a kubeconfig is not read then.
    pub service_account: Option<ServiceAccount>,
    /// Acts as somebody else, as `kubectl --as` does. Whoever connects needs the right to impersonate.
    pub impersonate: Option<ImpersonatedUser>,
    /// How long each kind of request may take.
    pub deadlines: RequestDeadlines,
    /// Objects of one page of a list.
    pub page_size: u32,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            service_account: None,
            impersonate: None,
            deadlines: RequestDeadlines::default(),
            page_size: 500,
        }
    }
}

/// Whom to act as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImpersonatedUser {
    /// The user; a service account is `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
    /// The groups, beside those that the server gives every service account and user.
    pub groups: Vec<String>,
}

impl ImpersonatedUser {
    /// A service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self { user: format!("system:serviceaccount:{namespace}:{name}"), groups: Vec::new() }
    }
}

/// How long a request may take, connecting included, before it counts as failed in a way that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDeadlines {
    /// An apply or a delete. An API server itself gives a patch up after 34 s.
    pub write: Duration,
    /// One object.
    pub get: Duration,
    /// All pages of a list.
    pub list: Duration,
    /// How long the server keeps one watch open; it is opened again where it ended.
    pub watch: Duration,
}

impl Default for RequestDeadlines {
    fn default() -> Self {
        Self {
            write: Duration::from_secs(30),
            get: Duration::from_secs(10),
            list: Duration::from_secs(60),
            watch: Duration::from_secs(290),
        }
    }
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Neither `$KUBECONFIG` nor `~/.kube/config` names a file that exists.
    #[error("no kubeconfig found: {looked}")]
    NoKubeconfig {
        /// Where it was looked for.
        looked: String,
    },
    /// The kubeconfig cannot be read.
    #[error("{}: {message}", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The kubeconfig has no such context.
    #[error("the kubeconfig has no context `{name}`; it has {}", list(.known))]
    NoContext {
        /// The name that was asked for.
        name: String,
        /// Those there are, sorted.
        known: Vec<String>,
    },
    /// The kubeconfig names no current context, and none was asked for.
    #[error("the kubeconfig has no current context; it has {}", list(.known))]
    NoCurrentContext {
        /// Those there are, sorted.
        known: Vec<String>,
    },
    /// The context says something that no client can be made of: a certificate, a key, a proxy, a plugin.
    #[error("cannot connect with the settings of {what}: {message}")]
    Unusable {
        /// The context, or the pod's service account.
        what: String,
        /// What is wrong with it.
        message: String,
    },
}

impl ConnectError {
    /// What a user can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoKubeconfig { .. } => "name one with --kubeconfig or $KUBECONFIG",
            Self::Unreadable { .. } => "`kubectl config view` reads the same file",
            Self::NoContext { .. } => "choose one of these with --context",
            Self::NoCurrentContext { .. } => "choose one with --context, or `kubectl config use-context`",
            Self::Unusable { .. } => {
                "fix the context's cluster and user entries: `kubectl --context … version` must work too"
            }
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The files that a kubeconfig is made of, as kubectl finds them: the one that was named, else those of `$KUBECONFIG`
/// that exist, else `~/.kube/config`. Empty when there is none.
pub fn kubeconfig_files(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_owned()];
    }
    let candidates: Vec<PathBuf> = match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    };
    candidates.into_iter().filter(|path| path.is_file()).collect()
}

/// The contexts of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeconfigContexts {
    /// All, sorted.
    pub names: Vec<String>,
    /// The one that kubectl would use.
    pub current: Option<String>,
}

/// The contexts that these files name.
///
/// # Errors
/// When a file cannot be read.
pub fn kubeconfig_contexts(files: &[PathBuf]) -> Result<KubeconfigContexts, ConnectError> {
    Ok(contexts_of(&read_kubeconfig(files)?))
}

fn contexts_of(kubeconfig: &Kubeconfig) -> KubeconfigContexts {
    let mut names: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    names.sort();
    KubeconfigContexts { names, current: kubeconfig.current_context.clone().filter(|name| !name.is_empty()) }
}

fn read_kubeconfig(files: &[PathBuf]) -> Result<Kubeconfig, ConnectError> {
    let mut merged = Kubeconfig::default();
    for path in files {
        let unreadable = |error: KubeconfigError| ConnectError::Unreadable {
            path: path.clone(),
            // The path is said already.
            message: if let KubeconfigError::ReadConfig(cause, _) = &error {
                cause.to_string()
            } else {
                error_chain(&error)
            },
        };
        let next = Kubeconfig::read_from(path).map_err(unreadable)?;
        merged = merged.merge(next).map_err(unreadable)?;
    }
    Ok(merged)
}

/// Reads the kubeconfig that the options mean. Gives the configuration, and the name of the context.
pub(super) async fn load_config(options: &ConnectOptions) -> Result<(Config, String), ConnectError> {
    let files = kubeconfig_files(options.kubeconfig.as_deref());
    if files.is_empty() {
        let looked = match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
            Some(list) => format!("$KUBECONFIG is {}, which does not exist", list.display()),
            None => "~/.kube/config does not exist and $KUBECONFIG is not set".to_owned(),
        };
        return Err(ConnectError::NoKubeconfig { looked });
    }
    let kubeconfig = read_kubeconfig(&files)?;
    let KubeconfigContexts { names: known, current } = contexts_of(&kubeconfig);
    let Some(name) = options.context.clone().or(current) else {
        return Err(ConnectError::NoCurrentContext { known });
    };
    if !known.contains(&name) {
        return Err(ConnectError::NoContext { name, known });
    }
    let wanted = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &wanted)
        .await
        .map_err(|error| ConnectError::Unusable { what: format!("context `{name}`"), message: error_chain(&error) })?;
    Ok((config, name))
}

/// What Kubernetes gives every pod: where the API server is, and a folder with a token and a certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// The folder of `token` and `ca.crt`. The token is read again from time to time, as Kubernetes replaces it.
    pub folder: PathBuf,
    /// `$KUBERNETES_SERVICE_HOST`: a name or an address.
    pub host: String,
    /// `$KUBERNETES_SERVICE_PORT`.
    pub port: String,
}

impl ServiceAccount {
    /// Where Kubernetes puts the files, unless a pod asks for something else.
    const DEFAULT_FOLDER: &'static str = "/var/run/secrets/kubernetes.io/serviceaccount";

    /// The variable that names another folder: a token that is projected with a lifetime or an audience of its own is
    /// mounted elsewhere.
    pub const FOLDER_VARIABLE: &'static str = "STATOR_SERVICE_ACCOUNT_DIR";

    /// That of the pod that this runs in.
    ///
    /// # Errors
    /// When this is no pod.
    pub fn from_pod_env() -> Result<Self, ConnectError> {
        let variable = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| not_in_pod(&format!("${name} is not set")))
        };
        let folder =
            variable(ServiceAccount::FOLDER_VARIABLE).unwrap_or_else(|_| ServiceAccount::DEFAULT_FOLDER.to_owned());
        Ok(Self {
            folder: PathBuf::from(folder),
            host: variable("KUBERNETES_SERVICE_HOST")?,
            port: variable("KUBERNETES_SERVICE_PORT")?,
        })
    }

    /// The pod's own namespace: from beside the token, or where Kubernetes puts it, as a folder of one's own need not have it.
    pub fn namespace(&self) -> Option<String> {
        let read = |folder: &Path| fs_err::read_to_string(folder.join("namespace")).ok();
        let text = read(&self.folder).or_else(|| read(Path::new(Self::DEFAULT_FOLDER)))?;
        Some(text.trim().to_owned())
    }

    pub(super) fn client_config(&self) -> Result<Config, ConnectError> {
        let Self { folder, host, port } = self;
        let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
        let address = if is_v6 { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") };
        let url = address.parse().map_err(|error| not_in_pod(&format!("{address} is not a valid address: {error}")))?;
        let (token, authority) = (folder.join("token"), folder.join("ca.crt"));
        let read = |path: &Path| fs_err::read(path).map_err(|error| not_in_pod(&error.to_string()));
        read(&token)?;
        let certificates = CertificateDer::pem_slice_iter(&read(&authority)?)
            .map(|one| one.map(|certificate| certificate.to_vec()))
            .collect::<Result<Vec<Vec<u8>>, _>>()
            .map_err(|error| not_in_pod(&format!("{}: {error}", authority.display())))?;
        let mut config = Config::new(url);
        config.root_cert = Some(certificates);
        config.auth_info.token_file = Some(token.display().to_string());
        Ok(config)
    }
}

fn not_in_pod(message: &str) -> ConnectError {
    ConnectError::Unusable { what: "the pod's service account".to_owned(), message: message.to_owned() }
}

/// How long a plugin that gives credentials may take: somebody may have to log in with a browser.
const EXEC_PLUGIN_TIMEOUT: Duration = Duration::from_secs(180);

/// A client, made on a thread of its own: a kubeconfig's `exec` command is waited for there, and one that never ends
/// holds up neither this nor the end of the process.
pub(super) async fn client_on_thread(
    config: Config,
    options: &ConnectOptions,
    observed: &ObserverSlot,
    gate: &Arc<ConnectionGate>,
    what: &str,
) -> Result<Client, ConnectError> {
    let (result_sender, finished) = tokio::sync::oneshot::channel();
    let (runtime, own, name) = (tokio::runtime::Handle::current(), options.clone(), what.to_owned());
    let (observed, gate) = (observed.clone(), Arc::clone(gate));
    let unusable = |message: &str| ConnectError::Unusable { what: what.to_owned(), message: message.to_owned() };
    std::thread::Builder::new()
        .name("stator-connect".to_owned())
        .spawn(move || {
            let _guard = runtime.enter();
            // Nobody waits any more after the time is over.
            let _ = result_sender.send(build_client(config, &own, &observed, &gate, &name));
        })
        .map_err(|error| unusable(&error.to_string()))?;
    match tokio::time::timeout(EXEC_PLUGIN_TIMEOUT, finished).await {
        Ok(Ok(client)) => client,
        Ok(Err(_)) => Err(unusable("the connection was not established")),
        Err(_) => Err(unusable("the user's `exec` command gave no credentials within three minutes")),
    }
}

/// A client that tries nothing twice: what is worth another try is decided where it is known what for.
pub(super) fn build_client(
    mut config: Config,
    options: &ConnectOptions,
    observed: &ObserverSlot,
    gate: &Arc<ConnectionGate>,
    what: &str,
) -> Result<Client, ConnectError> {
    config.default_retry = false;
    // The deadline of each request is around it; a watch has one between two of its lines.
    config.read_timeout = None;
    config.connect_timeout = Some(options.deadlines.get);
    if let Some(somebody) = &options.impersonate {
        config.auth_info.impersonate = Some(somebody.user.clone());
        config.auth_info.impersonate_groups = Some(somebody.groups.clone()).filter(|groups| !groups.is_empty());
    }
    let builder = ClientBuilder::try_from((config, ConnectionExecutor(Arc::clone(gate))))
        .map_err(|error| ConnectError::Unusable { what: what.to_owned(), message: error_chain(&error) })?;
    Ok(builder.with_layer(observed).build())
}
