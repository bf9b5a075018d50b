//! A stator that runs for long, and what it says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use crate::testbed::{PATIENCE, until};

/// A process that listens.
pub struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
    name: &'static str,
    address: String,
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "what it said explains a test that failed")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("----- {} said -----\n{}", self.name, self.said.lock().unwrap());
        }
    }
}

impl Process {
    /// Starts it and waits until it says where it listens.
    pub fn start(name: &'static str, command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let (kept, (sender, address)) = (Arc::clone(&said), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                if let Some(rest) = line.strip_prefix("Listening on http://") {
                    let _ = sender.send(rest.split(',').next().unwrap().to_owned());
                }
                kept.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let address =
            address.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never listened:\n{}", said.lock().unwrap()));
        Self { child, said, name, address }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All that it said so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// How many of its lines hold all of these.
    pub fn times(&self, words: &[&str]) -> usize {
        self.said().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// Waits until one of its lines holds all of these.
    #[track_caller]
    pub fn hears(&self, words: &[&str]) {
        until(&words.join(" … "), || self.times(words) > 0);
    }

    /// Asks it to end, and waits for it.
    pub fn end(&mut self) -> ExitStatus {
        self.signal("-TERM");
        self.ended()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        until("it ends", || self.child.try_wait().unwrap())
    }

    /// Ends it as a machine that is gone does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The status code and body of a request.
    pub fn asks(&self, head: &str, body: &[u8]) -> (u16, String) {
        ask(&self.address, head, body)
    }

    pub fn gets(&self, path: &str) -> (u16, String) {
        self.asks(&format!("GET {path} HTTP/1.1"), b"")
    }
}

/// The status code and body of a request to whoever listens there.
pub fn ask(address: &str, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length =
        if head.contains("Content-Length") { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{head}\r\nHost: x\r\nConnection: close\r\n{length}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(body);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
