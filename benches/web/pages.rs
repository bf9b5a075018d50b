//! The built program with its pages, and whoever reads them.

use super::{Fallible, repository};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that runs, and the cookie of its link.
pub(crate) struct PagesProcess {
    child: Child,
    address: String,
    cookie: String,
    pub(crate) started: Instant,
}

impl Drop for PagesProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of changes.
pub(crate) struct Stream {
    lines: BufReader<TcpStream>,
}

impl PagesProcess {
    /// Starts it, and opens its link.
    pub(crate) fn start(folder: &Path, verb: &str) -> Fallible<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stator"));
        command.args([verb, "-e", "prod", "--cluster", "embedded", "--web-listen", "127.0.0.1:0"]);
        if verb == "sync" {
            command.arg("--yes");
        }
        command.current_dir(folder).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(link) = line.strip_prefix("Open http://") {
                    let _ = tell.send(link.split(' ').next().unwrap_or_default().to_owned());
                }
            }
        });
        let link = told.recv_timeout(Duration::from_secs(60))?;
        let (address, path) = link.split_once('/').ok_or("no path")?;
        let mut pages = Self { child, address: address.to_owned(), cookie: String::new(), started };
        let answer = pages.ask(&format!("/{path}"), "")?;
        let cookie = answer.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next());
        pages.cookie = cookie.ok_or("no cookie")?.to_owned();
        Ok(pages)
    }

    fn request(&self, path: &str, more: &str) -> Fallible<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        let (address, cookie) = (&self.address, &self.cookie);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n{more}\r\n");
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }

    fn ask(&self, path: &str, more: &str) -> Fallible<String> {
        let mut bytes = Vec::new();
        self.request(path, &format!("Connection: close\r\n{more}"))?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn models(&self, query: &str) -> Fallible<Value> {
        let answer = self.ask(&format!("/api/v1/models?{query}"), "")?;
        let body = answer.split_once("\r\n\r\n").ok_or("no body")?.1;
        // A body that came in pieces begins with the length of the first.
        let start = body.find('{').ok_or("no JSON")?;
        let end = body.rfind('}').ok_or("no JSON")?;
        Ok(serde_json::from_str(body.get(start..=end).unwrap_or_default())?)
    }

    /// The front page.
    pub(crate) fn page(&self) -> Fallible<String> {
        self.ask("/", "")
    }

    /// How many models are shown.
    pub(crate) fn total(&self) -> Fallible<usize> {
        let list = self.models("limit=1")?;
        Ok(usize::try_from(list["metadata"]["total"].as_u64().unwrap_or_default())?)
    }

    /// The row of a model.
    pub(crate) fn row(&self, model: usize) -> Fallible<Value> {
        let mut list = self.models(&format!("q={}", repository::name(model)))?;
        Ok(list["items"][0].take())
    }

    /// How long it takes from a request of the front page, on a new connection, to the first byte of the answer.
    pub(crate) fn first_byte(&self) -> Fallible<Duration> {
        let start = Instant::now();
        let mut stream = self.request("/", "Accept-Encoding: gzip\r\nConnection: close\r\n")?;
        let mut first = [0; 1];
        stream.read_exact(&mut first)?;
        let time = start.elapsed();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        let is_good = [first.as_slice(), &rest].concat().starts_with(b"HTTP/1.1 200");
        if is_good { Ok(time) } else { Err("the front page was not answered".into()) }
    }

    /// The front page's bytes as a browser gets them, without the head.
    pub(crate) fn compressed_bytes(&self) -> Fallible<usize> {
        let mut bytes = Vec::new();
        self.request("/", "Accept-Encoding: gzip\r\nConnection: close\r\n")?.read_to_end(&mut bytes)?;
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no body")?;
        Ok(bytes.len() - head - 4)
    }

    pub(crate) fn stream(&self) -> Fallible<Stream> {
        let mut lines = BufReader::new(self.request("/api/v1/stream", "")?);
        let mut status = String::new();
        lines.read_line(&mut status)?;
        if status.starts_with("HTTP/1.1 200") { Ok(Stream { lines }) } else { Err(status.into()) }
    }

    /// A line of `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, what: &str) -> Fallible<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with(&format!("{what}:"))).ok_or("no such line")?;
        Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
    }
}

impl Stream {
    /// Whether an event comes within this time.
    pub(crate) fn changed(&mut self, within: Duration) -> bool {
        let end = Instant::now() + within;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            let mut line = String::new();
            let _ = self.lines.get_ref().set_read_timeout(Some(left));
            match self.lines.read_line(&mut line) {
                Ok(1..) if line.starts_with("event: changed") => return true,
                Ok(1..) => {}
                Ok(0) | Err(_) => return false,
            }
        }
        false
    }
}
