//! The programs under their supervisor: started, waited for, and ended with the process that holds the pipe.

use super::{Programs, runtime, tail};
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long an API server may take until it is ready: seconds on an idle machine, longer beside a build.
const READY: Duration = Duration::from_secs(180);

/// The programs, in a folder of their own.
pub struct Launch {
    folder: PathBuf,
    port: u16,
    manager: bool,
    supervisor: Child,
    /// The supervisor ends when the last copy of this pipe does.
    pipe: Mutex<Option<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch").field("folder", &self.folder).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Launch {
    /// Starts etcd and the API server, and waits until it is ready.
    pub fn ready(programs: &Programs) -> Result<Self, String> {
        let mut last = String::new();
        // A free port may be taken before it is used; a second attempt takes others.
        for _ in 0..3 {
            let launch = Self::start(programs, |supervisor| {
                let mut child = supervisor.stdin(Stdio::piped()).spawn()?;
                let pipe = child.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
                Ok((child, Box::new(pipe)))
            })?;
            match launch.wait_until_ready() {
                Ok(()) => return Ok(launch),
                Err(error) => last = format!("{error}\n{}", launch.logs()),
            }
        }
        Err(last)
    }

    /// Starts etcd and the API server without waiting. `spawn` gives the supervisor its input.
    pub fn start(
        programs: &Programs,
        spawn: impl FnOnce(&mut Command) -> std::io::Result<(Child, Box<dyn Write + Send>)>,
    ) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let folder = tempfile::Builder::new().prefix("stator-testbed-").tempdir().map_err(text)?;
        let [etcd, port] = free_ports().map_err(text)?;
        let folder = folder.path().canonicalize().map(|path| (folder, path)).map_err(text)?;
        let (guard, folder) = folder;
        write_files(&folder, port)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", include_str!("supervise.sh"), "supervise"])
            .current_dir(&folder)
            .env("STORE_URL", format!("http://127.0.0.1:{etcd}"))
            .env("PORT", port.to_string())
            // An interrupt from the terminal is for the tests; their end is what this waits for.
            .process_group(0)
            // Who reads the tests' output to its end must not wait for the supervisor.
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match programs {
            Programs::Built(binary) => command.env("BINARY", binary).env_remove("ASSETS"),
            Programs::Assets { folder, .. } => command.env("ASSETS", folder).env_remove("BINARY"),
        };
        let (supervisor, pipe) = spawn(&mut command).map_err(text)?;
        // From here on the supervisor removes the folder.
        let _ = guard.keep();
        let manager = programs.has_manager();
        let launch = Self { folder, port, manager, supervisor, pipe: Mutex::new(Some(pipe)) };
        launch.start_program("etcd");
        launch.start_program("kube-apiserver");
        Ok(launch)
    }

    /// Has the supervisor start one more program.
    pub fn start_program(&self, name: &str) {
        if let Ok(mut pipe) = self.pipe.lock()
            && let Some(pipe) = pipe.as_mut()
        {
            // A supervisor that is gone shows as an API server that never gets ready.
            let _ = writeln!(pipe, "start {name}").and_then(|()| pipe.flush());
        }
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            for name in ["etcd", "kube-apiserver"] {
                if self.folder.join(format!("{name}.exit")).exists() {
                    return Err(format!("{name} ended"));
                }
            }
            // The certificate is there a moment after the start.
            if self.authority().exists() && self.answers() {
                return Ok(());
            }
            if start.elapsed() > READY {
                return Err(format!("the API server is not ready after {} s", READY.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether `/readyz` says yes.
    fn answers(&self) -> bool {
        let ask = async {
            let client = super::client(&self.kubeconfig(), "admin").await?;
            let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
            let answer = tokio::time::timeout(Duration::from_secs(10), client.request_text(request)).await;
            answer.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        };
        // A thread of its own, since the caller may be inside a runtime already.
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| runtime()?.block_on(ask)).join().map_err(|_| "a panic".to_owned())?
        });
        answer.is_ok_and(|text| text == "ok")
    }

    /// `https://127.0.0.1:PORT`.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The file of the certificate authority: the API server makes one for itself.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("certificates/apiserver.crt")
    }

    /// The kubeconfig of `admin` and `nobody`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Where everything lies; removed at the end.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there is a controller manager.
    pub fn has_manager(&self) -> bool {
        self.manager
    }

    /// The process of a program, once it is started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        fs_err::read_to_string(self.folder.join(format!("{name}.pid"))).ok()?.trim().parse().ok()
    }

    /// Resident memory of a program, where `/proc` tells.
    pub fn memory(&self, name: &str) -> Option<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.pid(name)?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// The end of what each program wrote.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
            if let Ok(log) = fs_err::read_to_string(self.folder.join(format!("{name}.log"))) {
                text.push_str(&format!("--- {name}\n{}\n", tail(&log, 20)));
            }
        }
        text
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if let Ok(pipe) = self.pipe.get_mut() {
            pipe.take();
        }
        let _ = self.supervisor.wait();
    }
}

/// What the programs read: the key of service accounts, the users, and who may connect how.
fn write_files(folder: &Path, port: u16) -> Result<(), String> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(|error| error.to_string())?;
    let private = pair.to_pkcs8v1().map_err(|error| error.to_string())?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|error| error.to_string())?;
    let private = pem::encode(&pem::Pem::new("PRIVATE KEY", private.as_ref()));
    let public = pem::encode(&pem::Pem::new("PUBLIC KEY", public.as_ref()));
    let (admin, nobody) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let tokens = format!("{admin},admin,admin,\"system:masters\"\n{nobody},nobody,nobody\n");
    let user = |name: &str, token: &str| (name.to_owned(), token.to_owned());
    let users = [user("admin", &admin.to_string()), user("nobody", &nobody.to_string())];
    let kubeconfig =
        kubeconfig(&format!("https://127.0.0.1:{port}"), &folder.join("certificates/apiserver.crt"), &users);
    let files = [("account.key", private), ("account.pub", public), ("tokens.csv", tokens), ("kubeconfig", kubeconfig)];
    for (name, content) in files {
        fs_err::write(folder.join(name), content).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A kubeconfig with a context for each user, named like the user; the first is current.
pub fn kubeconfig(server: &str, authority: &Path, users: &[(String, String)]) -> String {
    let named = |name: &str, key: &str, value: serde_json::Value| serde_json::json!({"name": name, key: value});
    let cluster = serde_json::json!({"server": server, "certificate-authority": authority});
    let contexts =
        users.iter().map(|(user, _)| named(user, "context", serde_json::json!({"cluster": "testbed", "user": user})));
    let tokens = users.iter().map(|(user, token)| named(user, "user", serde_json::json!({"token": token})));
    // JSON is YAML.
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [named("testbed", "cluster", cluster)],
        "contexts": contexts.collect::<Vec<_>>(),
        "users": tokens.collect::<Vec<_>>(),
        "current-context": users.first().map(|(user, _)| user),
    })
    .to_string()
}

/// Two different ports that nobody listens on.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let (one, two) = (TcpListener::bind(("127.0.0.1", 0))?, TcpListener::bind(("127.0.0.1", 0))?);
    Ok([one.local_addr()?.port(), two.local_addr()?.port()])
}
