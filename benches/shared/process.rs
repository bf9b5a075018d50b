//! The built program, as the controller of a cluster.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use super::counting;
use super::testbed::{self, ControlPlane};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Ticks of `/proc/PID/stat` in a second, on every Linux there is.
const TICKS: u64 = 100;
/// How long the program may take until it listens, and until it rests.
const PATIENCE: Duration = Duration::from_secs(600);

/// Which program a controller is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The one that was built.
    Built,
    /// The bench itself, which counts allocations.
    Counting,
}

/// How a controller is run.
pub(crate) struct ControllerRun<'a> {
    pub(crate) program: Program,
    /// The namespace of its leases.
    pub(crate) leases: &'a str,
    /// The namespace of its sources; without one it follows those of all.
    pub(crate) sources: Option<&'a str>,
    /// Further flags.
    pub(crate) flags: &'a [&'a str],
}

/// A controller that runs.
pub(crate) struct ControllerProcess {
    child: Child,
    /// When it was started.
    pub(crate) started: Instant,
    address: String,
    listening: mpsc::Receiver<String>,
    pages: mpsc::Receiver<String>,
    decided: mpsc::Receiver<Instant>,
    data: tempfile::TempDir,
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ControllerProcess {
    /// Starts it as the chart does: with leases and an empty folder for its copies of repositories, and with the variable that
    /// `deploy/Dockerfile` sets.
    pub(crate) fn start(plane: &ControlPlane, run: &ControllerRun<'_>) -> Fallible<Self> {
        Self::start_on(tempfile::tempdir()?, plane, run)
    }

    /// The same with a folder that an earlier one left.
    pub(crate) fn start_on(data: tempfile::TempDir, plane: &ControlPlane, run: &ControllerRun<'_>) -> Fallible<Self> {
        let mut command = match run.program {
            Program::Built => Command::new(env!("CARGO_BIN_EXE_stator")),
            Program::Counting => counting::command()?,
        };
        command
            .current_dir(data.path())
            .args(["controller", "--listen", "127.0.0.1:0", "--context", "admin", "--kubeconfig"])
            .arg(plane.kubeconfig())
            .args(["--lease-namespace", run.leases, "--identity", "bench", "--shards", "1", "--data", "mirrors"])
            // The git host is on this machine.
            .arg("--allow-local-addresses")
            .envs([("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_ALLOW_THP", "0")]);
        command.args(run.flags);
        if let Some(namespace) = run.sources {
            command.args(["--watch-namespace", namespace]);
        }
        let started = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let (tell, listening) = mpsc::channel();
        let (tell_pages, pages) = mpsc::channel();
        let (tell_decision, decided) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(rest) = line.split("Listening on http://").nth(1) {
                    let end = rest.find(|c: char| c != '.' && c != ':' && !c.is_ascii_digit()).unwrap_or(rest.len());
                    let _ = tell.send(rest.get(..end).unwrap_or_default().to_owned());
                } else if let Some(rest) = line.split("Open http://").nth(1) {
                    let _ = tell_pages.send(rest.split('/').next().unwrap_or_default().to_owned());
                } else if line.contains("changing=") {
                    let _ = tell_decision.send(Instant::now());
                } else if !line.contains(" INFO ") {
                    testbed::say(&format!("controller: {line}"));
                }
            }
        });
        Ok(Self { child, started, address: String::new(), listening, pages, decided, data })
    }

    /// Where it listens, once it does.
    pub(crate) fn address(&mut self) -> Fallible<&str> {
        if self.address.is_empty() {
            let wait = || self.listening.recv_timeout(PATIENCE);
            self.address =
                tokio::task::block_in_place(wait).map_err(|_| "the controller never listened: its lines are above")?;
        }
        Ok(&self.address)
    }

    /// Where its pages are, once they are.
    pub(crate) fn pages(&self) -> Fallible<String> {
        let wait = || self.pages.recv_timeout(PATIENCE);
        tokio::task::block_in_place(wait).map_err(|_| "the controller never said where its pages are".into())
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How long after its start it first knew what a sync changes.
    pub(crate) fn first_decision(&self) -> Fallible<Duration> {
        let wait = || self.decided.recv_timeout(PATIENCE);
        let at = tokio::task::block_in_place(wait).map_err(|_| "the controller never said what a sync changes")?;
        Ok(at.duration_since(self.started))
    }

    /// Waits until this many sources say that they are not ready.
    pub(crate) async fn until_sources_fail(&self, count: usize) -> Fallible<()> {
        let start = Instant::now();
        loop {
            let metrics = self.ask("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
            let failing = |line: &&str| line.starts_with("stator_source_ready{") && line.ends_with(" 0");
            if metrics.lines().filter(failing).count() == count {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("fewer than {count} sources fail, as /metrics of the controller says").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn ask(&self, request: &str) -> Fallible<String> {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await??;
        Ok(answer)
    }

    /// Waits until it does nothing any more.
    pub(crate) async fn settled(&mut self) -> Fallible<()> {
        until_rest(&[self.child.id()]).await?;
        match self.child.try_wait()? {
            Some(status) => Err(format!("the controller ended: {status}").into()),
            None => Ok(()),
        }
    }

    /// The processor time that it took so far.
    pub(crate) fn cpu(&self) -> Fallible<Duration> {
        cpu_of(self.child.id())
    }

    /// A line of `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, what: &str) -> Fallible<u64> {
        memory_of(&self.child, what)
    }

    /// How often it allocated so far; of [`Program::Counting`] alone.
    pub(crate) fn allocations(&mut self) -> Fallible<u64> {
        let (input, output) = (self.child.stdin.as_mut(), self.child.stdout.as_mut());
        let (input, output) = input.zip(output).ok_or("no pipes to the controller")?;
        counting::ask(input, output)
    }

    /// Asks it to end, and waits for it. What it leaves is for the next one.
    pub(crate) async fn end(mut self) -> Fallible<tempfile::TempDir> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE {
                return Err("the controller does not end when it is asked to".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(std::mem::replace(&mut self.data, tempfile::tempdir()?))
    }
}

/// Waits until processes do nothing any more: no processor time for a second.
pub(crate) async fn until_rest(processes: &[u32]) -> Fallible<()> {
    let cpu = || processes.iter().map(|process| cpu_of(*process)).sum::<Fallible<Duration>>();
    let start = Instant::now();
    let (mut quiet, mut last) = (start, cpu()?);
    while quiet.elapsed() < Duration::from_millis(1000) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = cpu()?;
        if now > last + Duration::from_millis(10) {
            (quiet, last) = (Instant::now(), now);
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("a program never rests for {} s", PATIENCE.as_secs()).into());
        }
    }
    Ok(())
}

/// The processor time that a process took so far.
fn cpu_of(process: u32) -> Fallible<Duration> {
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat"))?;
    let rest = stat.rsplit_once(") ").ok_or("no such line")?.1;
    let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// A line of `/proc/PID/status`, in MiB.
pub(crate) fn memory_of(child: &Child, what: &str) -> Fallible<u64> {
    let status = fs_err::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find(|line| line.starts_with(&format!("{what}:"))).ok_or("no such line")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
}
