//! A real Kubernetes API server for tests and benches: etcd, kube-apiserver and kube-controller-manager, with Dynamo's
//! CRDs and stator's own.
//!
//! A test asks for [`shared`]: one control plane for each test process, started at the first call, on free ports, with
//! its data in a temporary folder. It ends with the process, whatever ends that: see `supervise.sh`. Each test works in
//! a namespace of its own.
//!
//! The programs come from the folder `KUBEBUILDER_ASSETS`, or Go builds them: see [`GoModule`]. Where neither is
//! possible the test is skipped and says so, unless `CI` is set: there a missing API server fails the test.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by several test targets, of which none uses all; a test that cannot go on must stop"
)]

mod accounts;
mod audit;
pub mod crds;
mod launch;
mod module;
mod patience;
mod player;
mod port;
mod programs;
mod supervisor;
mod tools;

pub use audit::AuditedRequest;
pub use launch::{Audit, Launch};
pub use module::{GoModule, is_there};
pub use patience::{PATIENCE, eventually, until};
pub use player::{ObjectRecording, RecordedVersion, RecordingPlayer};
pub use port::ReservedPort;
pub use programs::Programs;
pub use supervisor::{Pipe, Supervisor};
pub use tools::{helm, kubeconform, kubectl, promtool};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    launch: Launch,
}

/// Has this thread, and what it starts, get the processor time that others leave.
pub fn give_way() -> std::io::Result<()> {
    let thread = fs_err::read_link("/proc/thread-self")?;
    let number = thread.file_name().unwrap_or_default();
    let done = std::process::Command::new("renice").args(["-n", "10", "-p"]).arg(number).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(std::io::Error::other(said)) }
}

/// The control plane of this test process. `None` means: skip the test, it has been said loudly.
pub fn shared() -> Option<&'static ControlPlane> {
    static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| ControlPlane::start(&Programs::find()?));
    started.as_ref().map_err(|reason| skip(reason)).ok()
}

/// The same with the definitions of the newest Dynamo.
pub fn newest() -> Option<&'static ControlPlane> {
    static NEWEST: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
    let started = NEWEST.get_or_init(|| ControlPlane::newest(&Programs::find()?));
    started.as_ref().map_err(|reason| skip(reason)).ok()
}

/// A control plane of its own with every definition, for tests that change those. `None` as for [`shared`].
pub fn another() -> Option<ControlPlane> {
    Programs::find().and_then(|programs| ControlPlane::start(&programs)).map_err(|reason| skip(&reason)).ok()
}

/// The same with the definitions of the newest Dynamo.
pub fn another_of_newest() -> Option<ControlPlane> {
    Programs::find().and_then(|programs| ControlPlane::newest(&programs)).map_err(|reason| skip(&reason)).ok()
}

fn skip(reason: &str) {
    skipped(&format!("no API server to test against: {reason}"));
}

/// Says that this test ends without having looked at everything, why, and how many did so far: the last such line has the
/// number of all. Fails the test where none may be skipped.
pub fn skipped(reason: &str) {
    static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    assert!(!required(), "{reason}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let count = SKIPPED.lock().map_or(0, |mut tests| {
        tests.insert(test.clone());
        tests.len()
    });
    say(&format!("SKIPPED {test} ({count} so far): {reason}"));
}

/// Whether a test may not be skipped.
pub fn required() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

impl ControlPlane {
    /// Starts one and waits until it serves every kind that the tests use.
    pub fn start(programs: &Programs) -> Result<Self, String> {
        Self::of(programs, Launch::ready(programs)?, crds::CrdSet::All, crds::OLDEST)
    }

    /// Starts one with the definitions of the newest Dynamo.
    pub fn newest(programs: &Programs) -> Result<Self, String> {
        Self::of(programs, Launch::ready(programs)?, crds::CrdSet::All, crds::NEWEST)
    }

    /// Starts one of a test's own as a cluster is before stator is installed: with Dynamo's definitions alone. Its API
    /// server may write down what service accounts ask for: see [`Self::requests`].
    pub fn bare(programs: &Programs, audit: Audit) -> Result<Self, String> {
        Self::of(programs, Launch::ready_with(programs, audit)?, crds::CrdSet::Dynamos, crds::OLDEST)
    }

    fn of(
        programs: &Programs,
        launch: Launch,
        whose: crds::CrdSet,
        release: crds::DynamoFolder,
    ) -> Result<Self, String> {
        // A thread of its own, since the caller may be inside a runtime already.
        let installed = std::thread::scope(|scope| {
            let install = async { crds::install(&client(&launch.kubeconfig(), "admin").await?, whose, release).await };
            let work = scope.spawn(|| runtime()?.block_on(install));
            work.join().map_err(|_| "installing the CRDs panicked".to_owned())?
        });
        installed.map_err(|error| format!("{error}\n{}", launch.logs()))?;
        // It looks at what is served when it starts, and only every 30 seconds later.
        if programs.has_manager() {
            launch.start_program("kube-controller-manager");
        } else {
            say("KUBEBUILDER_ASSETS has no kube-controller-manager: tests of garbage collection will be skipped");
        }
        Ok(Self { launch })
    }

    /// A kubeconfig file with the contexts `admin`, who may do everything, and `nobody`, who may do nothing.
    pub fn kubeconfig(&self) -> PathBuf {
        self.launch.kubeconfig()
    }

    /// `https://127.0.0.1:PORT`.
    pub fn server(&self) -> String {
        self.launch.server()
    }

    /// The file of the API server's certificate authority.
    pub fn authority(&self) -> PathBuf {
        self.launch.authority()
    }

    /// Stops the API server where it stands, so that it takes connections and answers nothing, or lets it go on.
    pub fn freeze(&self, frozen: bool) {
        self.signal("kube-apiserver", if frozen { "-STOP" } else { "-CONT" });
    }

    /// Kills a program and starts it again, on the same port with the same data, and waits until the API server answers.
    pub fn restart(&self, program: &str) {
        self.launch.restart(program);
    }

    /// Kills it whole. It ends with its value, too; one that lives as long as the process is ended so.
    pub fn end(&self) {
        self.launch.end();
    }

    /// Gives the API server another certificate of the same authority, and starts it again.
    pub fn renew_certificate(&self) {
        self.launch.renew_certificate();
    }

    /// Makes etcd forget every revision but the newest, as it does by itself after some minutes: what is watched from an
    /// older one on is answered with 410.
    pub fn compact(&self) {
        self.launch.compact();
    }

    /// Sends a program a signal: `-STOP`, `-CONT`.
    pub fn signal(&self, program: &str, signal: &str) {
        let id = self.launch.pid(program).expect("a program that runs").to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Whether objects are garbage collected and namespaces end. Says so where they do not and the test is skipped.
    pub fn collects_garbage(&self) -> bool {
        let there = self.launch.has_manager();
        if !there {
            skipped("KUBEBUILDER_ASSETS has no kube-controller-manager");
        }
        there
    }

    /// The resident memory of the API server, in bytes; `None` where the system does not tell.
    pub fn api_server_memory(&self) -> Option<u64> {
        self.launch.memory("kube-apiserver")
    }

    /// A client that may do everything. It belongs to the runtime it was made in.
    pub async fn admin(&self) -> kube::Client {
        client(&self.kubeconfig(), "admin").await.unwrap()
    }

    /// Makes a namespace for one test. The name is taken as it is, so that what a user sees is the same in each run.
    pub async fn namespace(&self, name: &str) -> String {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let made = Api::<Namespace>::all(self.admin().await).create(&PostParams::default(), &namespace).await;
        made.unwrap_or_else(|error| panic!("namespace {name}, which no other test may use: {error}"));
        name.to_owned()
    }
}

/// A client from a context of a kubeconfig.
pub async fn client(kubeconfig: &Path, context: &str) -> Result<kube::Client, String> {
    kube::Client::try_from(config(kubeconfig, context).await?).map_err(|error| error.to_string())
}

/// A configuration from a context of a kubeconfig.
pub async fn config(kubeconfig: &Path, context: &str) -> Result<kube::Config, String> {
    provider();
    let file = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|error| error.to_string())
}

/// Installs the TLS provider, as `main` does in the program.
pub fn provider() {
    // A second call finds one installed, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// A line on the real standard error: what a test prints is only shown when it fails.
pub fn say(line: &str) {
    // Nobody reads it where standard error is closed.
    let _ = writeln!(std::io::stderr(), "testbed: {line}");
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
