//! The built program, as a controller that follows the repository.

use super::Fallible;
use super::repository::Repository;
use super::testbed::ControlPlane;
use aws_lc_rs::hmac;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SECRET: &str = "a-secret-of-the-bench";
/// Ticks of `/proc/PID/stat` in a second, on every Linux there is.
const TICKS: u64 = 100;

/// A controller that runs.
pub(crate) struct ControllerProcess {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ControllerProcess {
    /// Starts it, with webhooks in place of an interval, and with the variable that `deploy/Dockerfile` sets.
    pub(crate) fn start(plane: &ControlPlane, repository: &Repository, with_pages: bool) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        let sources = folder.path().join("sources.yaml");
        let url = repository.path().canonicalize()?;
        fs_err::write(
            &sources,
            format!(
                "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: models}}\nspec:\n  url: {}\n  \
                 allowLocal: true\n  ref: {{branch: main}}\n  interval: 24h\n  forge: {{type: gitea}}\n  webhook: \
                 {{secretRef: {{name: hook}}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: hook}}\nstringData: \
                 {{token: {SECRET}}}\n",
                url.display()
            ),
        )?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_stator"));
        command
            .current_dir(folder.path())
            .args(["controller", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(plane.kubeconfig());
        command.arg("--source").arg(&sources).env("MIMALLOC_PURGE_DELAY", "0");
        if with_pages {
            command.arg("--web");
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(rest) = line.split("Listening on http://").nth(1) {
                    let end = rest.find(|c: char| c != '.' && c != ':' && !c.is_ascii_digit()).unwrap_or(rest.len());
                    let _ = tell.send(rest.get(..end).unwrap_or_default().to_owned());
                } else if !line.contains(" INFO ") {
                    super::testbed::say(&format!("controller: {line}"));
                }
            }
        });
        let address = told.recv_timeout(Duration::from_secs(60))?;
        Ok(Self { child, address, folder })
    }

    /// Has it follow sources that fail as well: these, in which a model is broken, and as many that lead nowhere.
    pub(crate) async fn beside_failing(&self, broken: &[Repository]) -> Fallible<()> {
        let sources = self.folder.path().join("sources.yaml");
        let mut text = fs_err::read_to_string(&sources)?;
        let nowhere = (0..broken.len()).map(|number| self.folder.path().join(format!("nowhere-{number}")));
        let broken = broken.iter().map(|repository| repository.path().to_owned());
        let failing: Vec<PathBuf> = nowhere.chain(broken).collect();
        let count = failing.len();
        for (number, url) in failing.iter().map(|path| path.display()).enumerate() {
            text.push_str(&format!(
                "---\napiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: failing-{number}}}\nspec:\n  \
                 url: {url}\n  allowLocal: true\n  ref: {{branch: main}}\n  interval: 1s\n"
            ));
        }
        fs_err::write(&sources, text)?;
        let start = Instant::now();
        loop {
            let metrics = self.ask("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
            let failing = |line: &&str| line.starts_with("stator_source_ready{") && line.ends_with(" 0");
            if metrics.lines().filter(failing).count() == count {
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err("not all of them fail".into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn ask(&self, request: &str) -> Fallible<String> {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// A webhook: somebody pushed.
    pub(crate) async fn hint(&self, id: u64) -> Fallible<()> {
        let body = r#"{"ref":"refs/heads/main"}"#;
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let signature = hex::encode(hmac::sign(&key, body.as_bytes()));
        let request = format!(
            "POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
             X-Gitea-Event: push\r\nX-Gitea-Delivery: {id}\r\nX-Gitea-Signature: {signature}\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        let answer = self.ask(&request).await?;
        if answer.contains("202") { Ok(()) } else { Err(format!("the webhook was refused: {answer}").into()) }
    }

    /// Waits until it does nothing any more: no processor time for a second.
    pub(crate) async fn settled(&mut self) -> Fallible<()> {
        let (mut quiet, mut last) = (Instant::now(), self.cpu()?);
        while quiet.elapsed() < Duration::from_millis(1000) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.cpu()?;
            if now > last + Duration::from_millis(10) {
                (quiet, last) = (Instant::now(), now);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the controller ended: {status}").into());
            }
        }
        Ok(())
    }

    /// The processor time that it took so far.
    pub(crate) fn cpu(&self) -> Fallible<Duration> {
        let stat = fs_err::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let rest = stat.rsplit_once(") ").ok_or("no such line")?.1;
        let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1000 / TICKS))
    }

    /// A line of `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, what: &str) -> Fallible<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with(&format!("{what}:"))).ok_or("no such line")?;
        Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
    }

    /// Asks it to end, and waits for it.
    pub(crate) async fn end(mut self) -> Fallible<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        tokio::task::spawn_blocking(move || self.child.wait()).await??;
        Ok(())
    }
}
