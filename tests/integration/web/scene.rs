//! A command with pages that runs, and somebody who reads them.

use crate::testbed::{PATIENCE, until};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// A process with pages.
pub struct Pages {
    child: Child,
    said: Arc<Mutex<String>>,
    pub address: String,
    pub cookie: String,
}

impl Drop for Pages {
    #[expect(clippy::print_stderr, reason = "what it said explains a test that failed")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("----- it said -----\n{}", self.said.lock().unwrap());
        }
    }
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Pages {
    /// Starts a command, and waits until it prints its link.
    pub fn start(command: &mut Command) -> Self {
        let mut pages = Self::run(command);
        until("a link", || !pages.links().is_empty());
        let link = pages.links().remove(0);
        pages.address = link.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        pages
    }

    /// Starts a command whose pages are for whoever has a token, and waits until it says where they are.
    pub fn start_for_tokens(command: &mut Command) -> Self {
        let mut pages = Self::run(command);
        until("an address", || pages.said().contains("sign in with a token of the cluster"));
        let said = pages.said();
        pages.address = said.split("Open http").nth(1).unwrap().split('/').nth(2).unwrap().to_owned();
        pages
    }

    /// The same, of pages that a proxy stands before: they listen at this address.
    pub fn start_behind_proxy(command: &mut Command, address: &str) -> Self {
        let mut pages = Self::run(command);
        until("an address", || pages.said().contains("sign in with a token of the cluster"));
        address.clone_into(&mut pages.address);
        pages
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let kept = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                kept.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, said, address: String::new(), cookie: String::new() }
    }

    /// The same, with the link opened.
    pub fn open(command: &mut Command) -> Self {
        let mut pages = Self::start(command);
        let link = pages.links().remove(0);
        pages.enter(&link);
        pages
    }

    /// The memory that the process has now.
    pub fn resident_bytes(&self) -> usize {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// All that it said so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The links that it printed so far.
    pub fn links(&self) -> Vec<String> {
        let said = self.said();
        let words =
            said.split([' ', '\n', ';']).filter(|word| word.starts_with("http://") && word.contains("/enter?token="));
        words.map(str::to_owned).collect()
    }

    /// Opens a link, and keeps the cookie.
    pub fn enter(&mut self, link: &str) -> Answer {
        let path = link.split_once(&self.address).unwrap().1;
        let answer = self.send("GET", path, &[]);
        if let Some((cookie, _)) = answer.header("set-cookie").split_once(';') {
            self.cookie = cookie.to_owned();
        }
        answer
    }

    /// The cookie that the link gave.
    pub fn enter_cookie(&self) -> String {
        self.cookie.clone()
    }

    /// Reads a path with the cookie.
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[])
    }

    /// Sends a request with the cookie, and with further headers.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let cookie = self.cookie.clone();
        let mut all = vec![("Host", self.address.as_str())];
        if !cookie.is_empty() {
            all.push(("Cookie", &cookie));
        }
        all.extend(headers);
        self.send_bare(method, path, &all)
    }

    /// Sends a request with these headers alone.
    pub fn send_bare(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = self.request(method, path, headers, "close");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        parse(&String::from_utf8_lossy(&text))
    }

    /// Sends a body, as these pages do.
    pub fn post(&self, path: &str, media_type: &str, body: &str) -> Answer {
        let (origin, cookie) = (format!("http://{}", self.address), self.cookie.clone());
        let own = [("Host", self.address.as_str()), ("Cookie", cookie.as_str()), ("Origin", origin.as_str())];
        self.post_bare(path, &[&own[..], &[("Content-Type", media_type)]].concat(), body)
    }

    /// Sends a body with these headers alone.
    pub fn post_bare(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.request_with("POST", path, headers, "close", body.len());
        // Whoever refuses does not read to the end.
        let _ = stream.write_all(body.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        parse(&String::from_utf8_lossy(&text))
    }

    /// Sends a form.
    pub fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        self.post(path, "application/x-www-form-urlencoded", &pairs.join("&"))
    }

    /// Opens the stream of changes.
    pub fn stream(&self, headers: &[(&str, &str)]) -> Stream {
        self.follow("/api/v1/stream", headers)
    }

    /// Reads what a path answers line by line, for as long as it comes.
    pub fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Stream {
        let cookie = self.cookie.clone();
        let own = [("Host", self.address.as_str()), ("Cookie", cookie.as_str())];
        let stream = self.request("GET", path, &[&own, headers].concat(), "keep-alive");
        Stream { lines: BufReader::new(stream) }
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], connection: &str) -> TcpStream {
        self.request_with(method, path, headers, connection, 0)
    }

    fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        connection: &str,
        length: usize,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{headers}Connection: {connection}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Waits until what a path answers is so.
    #[track_caller]
    pub fn shows(&self, path: &str, what: &str, so: impl Fn(&Answer) -> bool) -> Answer {
        until(&format!("{path} shows {what}"), || so(&self.get(path)));
        self.get(path)
    }

    /// Asks it to end, and waits for it.
    pub fn end(&mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        until("it ends", || self.child.try_wait().unwrap())
    }
}

/// A text in a form, with the ends of lines as browsers write them.
fn encode(text: &str) -> String {
    let text = text.replace('\n', "\r\n");
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_default();
    // A header that comes twice has a line for each.
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let known = headers.entry(name.to_ascii_lowercase()).or_default();
        *known = [known.as_str(), value].into_iter().filter(|one| !one.is_empty()).collect::<Vec<_>>().join("\n");
    }
    Answer { status, headers, body: body.to_owned() }
}

/// Events as they come.
pub struct Stream {
    lines: BufReader<TcpStream>,
}

impl Stream {
    /// The next line that begins like this.
    pub fn line(&mut self, start: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) if line.starts_with(start) => return Some(line.trim_end().to_owned()),
                Ok(_) => {}
            }
        }
    }
}
