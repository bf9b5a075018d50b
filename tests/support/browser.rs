//! A real browser: Debian's Chromium, driven by its WebDriver over JSON.
//!
//! `.ci/run` fetches both packages and the checker of accessibility where it can. `None` means: skip the test, it has been
//! said loudly. Where `CI` is set a missing one fails the test.

use crate::testbed::{PATIENCE, ReservedPort, skipped};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The key of an element in WebDriver's JSON (W3C WebDriver, 12.2).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window.
pub struct Browser {
    driver: Child,
    client: reqwest::blocking::Client,
    session: String,
    _profile: tempfile::TempDir,
    _port: ReservedPort,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.client.delete(&self.session).send();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The text of axe-core, which checks a page's accessibility; `None` without it.
pub fn axe() -> Option<String> {
    let path = std::env::var_os("STATOR_AXE").unwrap_or_else(|| "axe.min.js".into());
    let text = fs_err::read_to_string(&path).map_err(|_| {
        skipped("there is no axe-core: set STATOR_AXE to its axe.min.js; `.ci/run` fetches it from the npm registry");
    });
    text.ok()
}

impl Browser {
    /// Starts one.
    pub fn start() -> Option<Self> {
        // Asked for any port, chromedriver picks one that is free for IPv6, and ends if another program has it for IPv4.
        let port = ReservedPort::reserve().unwrap();
        let argument = format!("--port={}", port.number());
        let driver = Command::new("chromedriver").arg(argument).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut driver) = driver else {
            skipped("there is no chromedriver on the PATH; Debian has it in its package `chromium-driver`");
            return None;
        };
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let is_started =
            lines.by_ref().inspect(|line| said.push(line.clone())).any(|line| line.contains("started successfully"));
        assert!(is_started, "chromedriver ended: {said:?}");
        // Whoever does not read stops whoever writes.
        std::thread::spawn(move || lines.for_each(drop));
        let root = format!("http://{}/session", port.address());
        let profile = tempfile::tempdir().unwrap();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            // Nothing leaves this machine.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            &folder,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let client = reqwest::blocking::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let answer: Value = client.post(&root).json(&wanted).send().unwrap().json().unwrap();
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}"));
        Some(Self { driver, client, session: format!("{root}/{id}"), _profile: profile, _port: port })
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.answer(path, body);
        assert!(answer.get("error").is_none(), "{path}: {}", answer["message"]);
        answer
    }

    fn answer(&self, path: &str, body: &Value) -> Value {
        let sent = self.client.post(format!("{}/{path}", self.session)).json(body).send().unwrap();
        sent.json::<Value>().unwrap()["value"].clone()
    }

    /// Opens an address.
    #[track_caller]
    pub fn open(&self, address: &str) {
        self.post("url", &json!({"url": address}));
    }

    /// Opens a tab before the others.
    #[track_caller]
    pub fn open_tab(&self) {
        let tab = self.post("window/new", &json!({"type": "tab"}));
        self.post("window", &json!({"handle": tab["handle"]}));
    }

    /// Goes back.
    #[track_caller]
    pub fn go_back(&self) {
        self.post("back", &json!({}));
    }

    /// Runs a script in the page, and gives what it returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script that calls its first argument once it is through.
    #[track_caller]
    pub fn wait_for_script(&self, script: &str) -> Value {
        self.post("execute/async", &json!({"script": format!("const done = arguments[0]; {script}"), "args": []}))
    }

    /// How large the window is.
    pub fn resize(&self, width: u32, height: u32) {
        self.post("window/rect", &json!({"width": width, "height": height}));
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Whether the system's theme is dark.
    pub fn darken(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": value}]}),
        );
    }

    /// Whether pages reach the network.
    pub fn connect(&self, is_connected: bool) {
        self.devtools("Network.enable", &json!({}));
        let offline = json!({"offline": !is_connected, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", &offline);
    }

    #[track_caller]
    fn devtools(&self, command: &str, parameters: &Value) {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": parameters}));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// What the window shows, as a PNG.
    #[track_caller]
    pub fn screenshot(&self) -> Vec<u8> {
        let answer: Value = self.client.get(format!("{}/screenshot", self.session)).send().unwrap().json().unwrap();
        BASE64_STANDARD.decode(answer["value"].as_str().unwrap()).unwrap()
    }

    /// The page as it is printed, as a PDF.
    #[track_caller]
    pub fn print(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(self.post("print", &json!({})).as_str().unwrap()).unwrap()
    }

    /// Whether pages run scripts, from the next one on.
    pub fn allow_scripts(&self, is_allowed: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": !is_allowed}));
    }

    /// The bytes of the page's own memory, after what is not used any more is gone.
    #[track_caller]
    pub fn memory(&self) -> u64 {
        self.devtools("HeapProfiler.collectGarbage", &json!({}));
        let used = self.post("goog/cdp/execute", &json!({"cmd": "Runtime.getHeapUsage", "params": {}}));
        used["usedSize"].as_f64().map(|bytes| bytes as u64).unwrap()
    }

    /// Forgets who signed in.
    pub fn forget_cookies(&self) {
        self.devtools("Network.clearBrowserCookies", &json!({}));
    }

    /// Clicks on what a CSS selector finds first. A page that changes as it comes may have put another in its place by then.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        loop {
            let answer = self.answer(&format!("element/{}/click", self.element(selector)), &json!({}));
            match answer.get("error").and_then(Value::as_str) {
                None => return,
                Some("stale element reference") => {}
                Some(_) => panic!("{selector}: {}", answer["message"]),
            }
        }
    }

    /// Types into a field, over what is there.
    #[track_caller]
    pub fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("element/{element}/clear"), &json!({}));
        self.post(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys wherever the focus is.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.post("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    /// The text of what a CSS selector finds first, as a person sees it.
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({})?.innerText ?? \"\"", json!(selector));
        self.run(&script).as_str().unwrap().to_owned()
    }

    /// Waits until a script returns something true.
    #[track_caller]
    pub fn until(&self, what: &str, script: &str) {
        let end = Instant::now() + PATIENCE;
        while self.run(&format!("return Boolean({script})")) != Value::Bool(true) {
            assert!(Instant::now() < end, "{what}\n{}", self.text("body"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the console holds of warnings and errors since it was asked last.
    pub fn complaints(&self) -> Vec<String> {
        let found = self.post("se/log", &json!({"type": "browser"}));
        let entries = found.as_array().cloned().unwrap_or_default().into_iter();
        let worse = entries.filter(|entry| entry["level"] != "INFO" && entry["level"] != "DEBUG");
        worse.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}
