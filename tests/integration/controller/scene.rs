//! A controller that runs, the repository that it follows, and the cluster that it works on.

use super::process::Process;
use crate::testbed;
use crate::workbench::Workbench;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// A place with a repository, a file of sources and an embedded cluster.
pub struct Scene {
    pub bench: Workbench,
    pub folder: tempfile::TempDir,
    controller: Option<Process>,
    pub speed: &'static str,
    /// Further variables of the controller's environment.
    pub variables: Vec<(&'static str, String)>,
}

impl Scene {
    /// A repository, committed, that no controller follows yet.
    pub fn of(bench: Workbench) -> Self {
        bench.commit("first");
        let folder = tempfile::Builder::new().prefix("stator-controller-").tempdir().unwrap();
        Self { bench, folder, controller: None, speed: "1000", variables: Vec::new() }
    }

    /// A `ModelSource` of the repository; `more` are further lines of its `spec`.
    pub fn source(&self, name: &str, more: &str) -> String {
        let url = self.bench.root().canonicalize().unwrap();
        let reference = if more.contains("ref:") { String::new() } else { "  ref: {branch: master}\n".to_owned() };
        let interval = if more.contains("interval:") { String::new() } else { "  interval: 1s\n".to_owned() };
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {}\n  allowLocal: true\n{reference}{interval}{more}---\n",
            url.display()
        )
    }

    /// Writes the file of sources.
    pub fn declare(&self, text: &str) {
        // In one step, as nobody should read half a file.
        let new = self.folder.path().join("sources.new");
        fs_err::write(&new, text).unwrap();
        fs_err::rename(new, self.file()).unwrap();
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("sources.yaml")
    }

    /// Where the cluster is, as `--cluster` takes it.
    pub fn cluster(&self) -> String {
        format!("embedded:{}", self.folder.path().join("cluster").display())
    }

    pub fn command(&self) -> Command {
        let mut command = self.bench.command();
        command.current_dir(self.folder.path()).arg("controller").arg("--source-file").arg(self.file());
        command.args(["--cluster", &self.cluster(), "--simulate-operator", "--simulate-speed", self.speed]);
        command
    }

    /// Starts the controller and waits until it says where it listens.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    pub fn start_with(&mut self, arguments: &[&str]) {
        let mut command = self.command();
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.controller = Some(Process::start("the controller", &mut command));
    }

    fn controller(&self) -> &Process {
        self.controller.as_ref().expect("a controller that runs")
    }

    /// All that the controller said so far.
    pub fn said(&self) -> String {
        self.controller().said()
    }

    /// How often it said that.
    pub fn times(&self, text: &str) -> usize {
        self.said().matches(text).count()
    }

    /// Waits until it says so.
    #[track_caller]
    pub fn hears(&self, text: &str) {
        self.until(text, || self.said().contains(text));
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until(&self, what: &str, so: impl Fn() -> bool) {
        testbed::until(what, so);
    }

    /// Asks it to end, and waits for it.
    pub fn end(&mut self) -> ExitStatus {
        self.signal("-TERM");
        self.ended()
    }

    pub fn signal(&self, signal: &str) {
        self.controller().signal(signal);
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        self.controller.take().expect("a controller that runs").ended()
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.controller().address().to_owned()
    }

    /// The status code and body of a request.
    pub fn asks(&self, head: &str, body: &[u8]) -> (u16, String) {
        self.controller().asks(head, body)
    }

    pub fn gets(&self, path: &str) -> (u16, String) {
        self.asks(&format!("GET {path} HTTP/1.1"), b"")
    }

    /// A counter or gauge of `/metrics`; 0 when it is not there.
    pub fn metric(&self, series: &str) -> f64 {
        let series = &series.replace("{source=", "{namespace=\"default\",source=");
        let text = self.gets("/metrics").1;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
        line.and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Waits until the newest commit of a source is synced and healthy.
    #[track_caller]
    pub fn synced(&self, source: &str, commit: &str) {
        let short = &commit[..7];
        self.until(&format!("{source} is synced at {short}"), || {
            self.metric(&format!("stator_source_ready{{source=\"{source}\"}}")) == 1.0
                && self.said().lines().any(|line| line.contains(short) && line.contains("healthy"))
        });
    }

    /// The graphs of a namespace of the cluster, sorted.
    pub fn graphs(&self, namespace: &str) -> Vec<String> {
        let folder = self.folder.path().join("cluster").join(namespace).join("dynamographdeployments");
        let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    /// A graph, as the cluster holds it.
    pub fn graph(&self, namespace: &str, name: &str) -> String {
        let folder = self.folder.path().join("cluster").join(namespace).join("dynamographdeployments");
        fs_err::read_to_string(folder.join(format!("{name}.yaml"))).unwrap_or_default()
    }

    /// Asserts that nothing is left to do.
    #[track_caller]
    pub fn is_settled(&self) {
        let cluster = self.cluster();
        self.bench.run(["plan", "--exit-code", "--cluster", &cluster]).success();
    }
}
