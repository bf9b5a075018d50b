//! Programs under a supervisor, which ends them with the process that holds its pipe: see `supervise.sh`.

use super::tail;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// The supervisor's input.
pub type Pipe = Box<dyn Write + Send>;

/// A supervisor and the folder that its programs run in.
pub struct Supervisor {
    folder: PathBuf,
    child: Child,
    /// It ends when the last copy of this pipe does.
    pipe: Mutex<Option<Pipe>>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Starts a supervisor whose pipe this process holds.
    pub fn piped(command: &mut Command) -> std::io::Result<(Child, Pipe)> {
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
        Ok((child, Box::new(pipe)))
    }

    /// Starts a supervisor in a folder of its own, which `prepare` fills. `script` says how each program is run, with
    /// these variables; `spawn` gives the supervisor its input.
    pub fn start(
        script: &str,
        prepare: impl FnOnce(&Path) -> Result<Vec<(&'static str, OsString)>, String>,
        spawn: impl FnOnce(&mut Command) -> std::io::Result<(Child, Pipe)>,
    ) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let guard = tempfile::Builder::new().prefix("stator-testbed-").tempdir().map_err(text)?;
        let folder = guard.path().canonicalize().map_err(text)?;
        let variables = prepare(&folder)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{script}\n{}", include_str!("supervise.sh")), "supervise"])
            .current_dir(&folder)
            .envs(variables)
            // An interrupt from the terminal is for the tests; their end is what this waits for.
            .process_group(0)
            // Who reads the tests' output to its end must not wait for the supervisor.
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (child, pipe) = spawn(&mut command).map_err(text)?;
        // From here on the supervisor removes the folder.
        let _ = guard.keep();
        Ok(Self { folder, child, pipe: Mutex::new(Some(pipe)) })
    }

    /// Starts one more program, or one again that is over.
    pub fn start_program(&self, name: &str) {
        // What an earlier one left must not be taken for this one's.
        let _ = fs_err::remove_file(self.folder.join(format!("{name}.exit")));
        self.say(&format!("start {name}"));
    }

    /// Kills a program.
    pub fn kill_program(&self, name: &str) {
        self.say(&format!("kill {name}"));
    }

    /// Asks a program to end, as a service manager does.
    pub fn ask_to_end(&self, name: &str) {
        self.say(&format!("ask {name}"));
    }

    fn say(&self, line: &str) {
        if let Ok(mut pipe) = self.pipe.lock()
            && let Some(pipe) = pipe.as_mut()
        {
            // A supervisor that is gone shows as a program that never gets ready.
            let _ = writeln!(pipe, "{line}").and_then(|()| pipe.flush());
        }
    }

    /// Where everything lies; removed at the end.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process of a program, once it is started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        fs_err::read_to_string(self.folder.join(format!("{name}.pid"))).ok()?.trim().parse().ok()
    }

    /// Whether a program was started and is over.
    pub fn ended(&self, name: &str) -> bool {
        self.folder.join(format!("{name}.exit")).exists()
    }

    /// How a program ended: its code, or 128 and the signal. `None` while it runs.
    pub fn code(&self, name: &str) -> Option<i32> {
        fs_err::read_to_string(self.folder.join(format!("{name}.exit"))).ok()?.trim().parse().ok()
    }

    /// Resident memory of a program, where `/proc` tells.
    pub fn memory(&self, name: &str) -> Option<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.pid(name)?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// The end of what each program wrote.
    pub fn logs(&self, names: &[&str]) -> String {
        let mut text = String::new();
        for name in names {
            if let Ok(log) = fs_err::read_to_string(self.folder.join(format!("{name}.log"))) {
                text.push_str(&format!("--- {name}\n{}\n", tail(&log, 20)));
            }
        }
        text
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Ok(pipe) = self.pipe.get_mut() {
            pipe.take();
        }
        let _ = self.child.wait();
    }
}
