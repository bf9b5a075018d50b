//! The programs under their supervisor: started, waited for, and ended with the process that holds the pipe.

use super::supervisor::{Pipe, Supervisor};
use super::{PATIENCE, Programs, ReservedPort, runtime, until};
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Whether an API server writes down who asked for what. It costs every request a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// It does not.
    Off,
    /// It does for service accounts.
    On,
}

/// Requests of service accounts, without what they send: once they are answered, and watches when they begin.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
  {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]}"#;

/// The programs, in a folder of their own.
#[derive(Debug)]
pub struct Launch {
    port: ReservedPort,
    /// Of its etcd, which comes back there after a restart.
    store_port: ReservedPort,
    manager: bool,
    supervisor: Supervisor,
}

impl Launch {
    /// Starts etcd and the API server, and waits until it is ready.
    pub fn ready(programs: &Programs) -> Result<Self, String> {
        Self::ready_with(programs, Audit::Off)
    }

    /// The same, of an API server that may keep an audit log.
    pub fn ready_with(programs: &Programs, audit: Audit) -> Result<Self, String> {
        let mut last = String::new();
        // Not every system lets a port be held for a server; a second attempt takes others.
        for _ in 0..3 {
            let launch = Self::start(programs, audit, Supervisor::piped)?;
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
        audit: Audit,
        spawn: impl FnOnce(&mut Command) -> std::io::Result<(Child, Pipe)>,
    ) -> Result<Self, String> {
        let reserve = || ReservedPort::reserve().map_err(|error| error.to_string());
        let (store_port, port) = (reserve()?, reserve()?);
        let prepare = |folder: &Path| {
            write_files(folder, port.number())?;
            let (ours, theirs) = match programs {
                Programs::Built(binary) => (binary.as_os_str().to_owned(), OsString::new()),
                Programs::Assets { folder, .. } => (OsString::new(), folder.as_os_str().to_owned()),
            };
            let store = OsString::from(format!("http://{}", store_port.address()));
            let port = OsString::from(port.number().to_string());
            let flags = match audit {
                Audit::Off => "",
                Audit::On => "--audit-policy-file audit.json --audit-log-path audit.log",
            };
            Ok(vec![
                ("STORE_URL", store),
                ("PORT", port),
                ("BINARY", ours),
                ("ASSETS", theirs),
                ("AUDIT", flags.into()),
            ])
        };
        let supervisor = Supervisor::start(include_str!("control-plane.sh"), prepare, spawn)?;
        let launch = Self { port, store_port, manager: programs.has_manager(), supervisor };
        launch.start_program("etcd");
        launch.start_program("kube-apiserver");
        Ok(launch)
    }

    /// Has the supervisor start one more program.
    pub fn start_program(&self, name: &str) {
        self.supervisor.start_program(name);
    }

    /// Kills one of its programs, starts it again, and waits until the API server answers.
    pub fn restart(&self, name: &str) {
        self.supervisor.kill_program(name);
        until(&format!("{name} is gone"), || self.supervisor.ended(name));
        self.supervisor.start_program(name);
        until(&format!("{name} is there again"), || !self.supervisor.ended(name));
        self.wait_until_ready().unwrap();
    }

    /// Kills all programs.
    pub fn end(&self) {
        for name in ["kube-controller-manager", "kube-apiserver", "etcd"] {
            self.supervisor.kill_program(name);
        }
    }

    /// Makes etcd forget every revision but the newest.
    pub fn compact(&self) {
        let ask = |path: &str, body: serde_json::Value| {
            let url = format!("http://{}/v3/kv/{path}", self.store_port.address());
            let answer = reqwest::blocking::Client::new().post(url).body(body.to_string()).send().unwrap();
            assert!(answer.status().is_success(), "{path}: {}", answer.status());
            answer.json::<serde_json::Value>().unwrap()
        };
        // A revision is a text, as JSON has no integer of 64 bits.
        let newest = ask("range", serde_json::json!({"key": "AA=="}))["header"]["revision"].take();
        ask("compaction", serde_json::json!({"revision": newest, "physical": true}));
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            for name in ["etcd", "kube-apiserver"] {
                if self.supervisor.ended(name) {
                    return Err(format!("{name} ended"));
                }
            }
            if self.answers() {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("the API server is not ready after {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether `/readyz` says yes.
    fn answers(&self) -> bool {
        let ask = async {
            let client = super::client(&self.kubeconfig(), "admin").await?;
            let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
            let answer = tokio::time::timeout(Duration::from_secs(60), client.request_text(request)).await;
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
        format!("https://{}", self.port.address())
    }

    /// The file of the certificate authority.
    pub fn authority(&self) -> PathBuf {
        self.folder().join("ca.pem")
    }

    /// Gives the API server another certificate of the same authority, and starts it again.
    pub fn renew_certificate(&self) {
        write_certificate(self.folder(), "api-server-renewed").unwrap();
        self.restart("kube-apiserver");
    }

    /// The kubeconfig of `admin` and `nobody`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// Where everything lies; removed at the end.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// Whether there is a controller manager.
    pub fn has_manager(&self) -> bool {
        self.manager
    }

    /// The process of a program, once it is started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.supervisor.pid(name)
    }

    /// Resident memory of a program, where `/proc` tells.
    pub fn memory(&self, name: &str) -> Option<u64> {
        self.supervisor.memory(name)
    }

    /// The end of what each program wrote.
    pub fn logs(&self) -> String {
        self.supervisor.logs(&["etcd", "kube-apiserver", "kube-controller-manager"])
    }
}

/// One of the certificates in `tests/data/tls`, where the API server looks for its own.
fn write_certificate(folder: &Path, name: &str) -> Result<(), String> {
    for extension in ["pem", "key"] {
        let from = format!("{}/tests/data/tls/{name}.{extension}", env!("CARGO_MANIFEST_DIR"));
        fs_err::copy(from, folder.join(format!("serving.{extension}"))).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What the programs read: certificates, the key of service accounts, the users, and who may connect how.
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
    let kubeconfig = kubeconfig(&format!("https://127.0.0.1:{port}"), &folder.join("ca.pem"), &users);
    write_certificate(folder, "api-server")?;
    let files = [
        ("ca.pem", include_str!("../../data/tls/api-ca.pem").to_owned()),
        ("account.key", private),
        ("account.pub", public),
        ("tokens.csv", tokens),
        ("kubeconfig", kubeconfig),
        ("audit.json", AUDIT_POLICY.to_owned()),
    ];
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
