//! A real git host for tests: Gitea, with its API over https, its own SSH server, and webhooks that it really delivers.
//!
//! A test asks for [`shared`]: one Gitea for each test process, started at the first call on free ports with its data in a
//! temporary folder, and ended with the process, as the control plane is. Each test makes a repository of its own. A test
//! that kills Gitea takes one of its own with [`Gitea::start`].
//!
//! Go builds the program, with a C compiler (see [`GoModule`]); Gitea itself runs `git`. Where one of them is missing
//! the test is skipped and says so, unless `CI` is set.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by several test targets, of which none uses all; a test that cannot go on must stop"
)]

mod api;
mod repository;
mod wire;

pub use repository::{GiteaComment, GiteaStatus, Repository};
pub use wire::{DeliveryFate, RelayedDelivery, WebhookRelay, with_header};

use crate::testbed::{self, GoModule, PATIENCE, Pipe, ReservedPort, Supervisor};
use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::Ed25519Keypair;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The module that is built.
const MODULE: GoModule = GoModule { name: "gitea", package: ".", what: "Gitea", tags: "sqlite sqlite_unlock_notify" };

/// The account that owns the repositories and may do everything.
pub const OWNER: &str = "team";

/// The account that stator uses: it may write to repositories that it is let into, and to pull requests.
pub const BOT: &str = "stator";

/// A running Gitea.
#[derive(Debug)]
pub struct Gitea {
    supervisor: Supervisor,
    port: ReservedPort,
    ssh: ReservedPort,
    password: String,
    tokens: [String; 2],
    http: OnceLock<reqwest::blocking::Client>,
}

/// The Gitea of this test process. `None` means: skip the test, it has been said loudly.
pub fn shared() -> Option<&'static Gitea> {
    static SHARED: OnceLock<Result<Gitea, String>> = OnceLock::new();
    let started = SHARED.get_or_init(Gitea::start).as_ref();
    started.map_err(|reason| testbed::skipped(&format!("no Gitea to test against: {reason}"))).ok()
}

impl Gitea {
    /// Starts one, and waits until it answers.
    pub fn start() -> Result<Self, String> {
        let mut last = String::new();
        // Not every system lets a port be held for a server; a second attempt takes others.
        for _ in 0..3 {
            let mut gitea = Self::launch(Supervisor::piped)?;
            match gitea.setup().and_then(|()| gitea.wait_until_ready()) {
                Ok(()) => return Ok(gitea),
                Err(error) => last = format!("{error}\n{}", gitea.logs()),
            }
        }
        Err(last)
    }

    /// Has a supervisor, whose input `spawn` gives, without starting anything.
    pub fn launch(spawn: impl FnOnce(&mut Command) -> std::io::Result<(Child, Pipe)>) -> Result<Self, String> {
        if !testbed::is_there("git", "--version") {
            return Err("there is no git, which Gitea runs".to_owned());
        }
        let binary = MODULE.build()?;
        let module = MODULE.dependency("code.gitea.io/gitea")?;
        let reserve = || ReservedPort::reserve().map_err(|error| error.to_string());
        let (port, ssh) = (reserve()?, reserve()?);
        let password = uuid::Uuid::new_v4().to_string();
        let prepare = |folder: &Path| {
            let settings = include_str!("app.ini")
                .replace("{folder}", &folder.display().to_string())
                .replace("{module}", &module.display().to_string())
                .replace("{port}", &port.number().to_string())
                .replace("{ssh}", &ssh.number().to_string())
                .replace("{secret}", &uuid::Uuid::new_v4().to_string());
            fs_err::write(folder.join("app.ini"), settings).map_err(|error| error.to_string())?;
            host_key(folder)?;
            Ok(vec![("BINARY", binary.into_os_string()), ("PASSWORD", OsString::from(&password))])
        };
        let supervisor = Supervisor::start(include_str!("gitea.sh"), prepare, spawn)?;
        let tokens = [String::new(), String::new()];
        Ok(Self { supervisor, port, ssh, password, tokens, http: OnceLock::new() })
    }

    /// Makes the database and the accounts.
    pub fn setup(&mut self) -> Result<(), String> {
        self.supervisor.start_program("setup");
        self.until("it is set up", || self.supervisor.ended("setup"))?;
        for (at, account) in [OWNER, BOT].into_iter().enumerate() {
            let printed = fs_err::read_to_string(self.folder().join(format!("{account}.token"))).unwrap_or_default();
            // Among lines of its log.
            let is_token = |line: &&str| line.len() == 40 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
            let token = printed.lines().map(str::trim).find(is_token);
            let token = token.ok_or_else(|| format!("no token for {account}: {printed}\n{}", self.logs()))?;
            self.tokens[at] = token.to_owned();
        }
        self.supervisor.start_program("gitea");
        Ok(())
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        self.until("it answers", || self.supervisor.ended("gitea") || self.answers())?;
        if self.supervisor.ended("gitea") { Err("gitea ended".to_owned()) } else { Ok(()) }
    }

    fn answers(&self) -> bool {
        self.try_call("", "GET", "/version", None).is_ok_and(|(code, _)| code == 200)
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !done() {
            if start.elapsed() > PATIENCE {
                return Err(format!("not after {} s: {what}\n{}", PATIENCE.as_secs(), self.logs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&self) {
        self.supervisor.kill_program("gitea");
        self.until("it is gone", || self.supervisor.ended("gitea")).unwrap();
    }

    /// Starts it again after [`Self::kill`], on the same ports with the same data.
    pub fn restart(&self) {
        self.supervisor.start_program("gitea");
        self.until("it answers again", || self.answers()).unwrap();
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.port.address())
    }

    /// The port of the SSH server, on 127.0.0.1.
    pub fn ssh_port(&self) -> u16 {
        self.ssh.number()
    }

    /// The file of its certificate, which only it vouches for.
    pub fn certificate(&self) -> PathBuf {
        self.folder().join("cert.pem")
    }

    /// The lines of `known_hosts` for its SSH server.
    pub fn known_hosts(&self) -> String {
        let key = fs_err::read_to_string(self.folder().join("host.pub")).unwrap();
        format!("[127.0.0.1]:{} {key}\n", self.ssh.number())
    }

    /// The token of [`OWNER`], which may do everything.
    pub fn owner_token(&self) -> &str {
        &self.tokens[0]
    }

    /// The token of [`BOT`], with the scopes that stator asks for.
    pub fn bot_token(&self) -> &str {
        &self.tokens[1]
    }

    /// The password of every account.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Where everything lies; removed at the end.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// The process.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid("gitea")
    }

    /// The end of what it wrote.
    pub fn logs(&self) -> String {
        self.supervisor.logs(&["setup", "gitea"])
    }
}

/// Makes the key of the SSH server: an Ed25519 one, since the one that Gitea makes itself is RSA, which stator does not
/// take as a host's.
fn host_key(folder: &Path) -> Result<(), String> {
    let key = new_key();
    let public = key.public_key().to_openssh().map_err(|error| error.to_string())?;
    fs_err::write(folder.join("host.pub"), public).map_err(|error| error.to_string())?;
    key.write_openssh_file(folder.join("host"), LineEnding::LF).map_err(|error| error.to_string())
}

/// A new SSH key.
pub fn new_key() -> PrivateKey {
    let seed = [*uuid::Uuid::new_v4().as_bytes(), *uuid::Uuid::new_v4().as_bytes()].concat();
    PrivateKey::from(Ed25519Keypair::from_seed(&seed.try_into().unwrap()))
}
