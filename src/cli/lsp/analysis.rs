//! Looking at the repositories of what is open, beside the editor's questions.

use super::buffers::{Buffer, OpenBuffers, uri_of};
use super::plan_lens::PlanLenses;
use super::{MessageSink, positions};
use crate::cli::args::DynamoArgs;
use crate::cli::output::Output;
use crate::cli::repository::{self, OpenedRepository};
use crate::cli::validate::collect_findings;
use lsp_server::{Message, Notification};
use lsp_types::notification::{LogMessage, Notification as _, PublishDiagnostics};
use lsp_types::{
    CodeLens, Diagnostic, DiagnosticSeverity, LogMessageParams, MessageType, NumberOrString, PublishDiagnosticsParams,
    Uri,
};
use stator_core::finding::{Finding, Severity};
use stator_git::source;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::FileRole;
use stator_model::intent::field_at::scalar_text;
use stator_model::intent::yaml::{YamlNode, parse_yaml};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long nothing has to be typed before files are looked at.
const QUIET_TIME: Duration = Duration::from_millis(150);
/// However much is typed, they are looked at after so long.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The most files whose values are proposed for other models.
const MAX_READ_FILES: usize = 1_000;
/// The most values that are proposed for one field.
const MAX_VALUES: usize = 50;
/// What diagnostics say they are from.
pub const DIAGNOSTIC_SOURCE: &str = "stator";

/// What other models of the repositories say, to be proposed.
#[derive(Debug, Default)]
pub struct KnownValues {
    /// The values of fields, by the fields' names; the most frequent first.
    pub by_field: BTreeMap<String, Vec<String>>,
    /// The names of models.
    pub models: BTreeSet<String>,
}

/// What the last look found, beside findings.
#[derive(Debug, Default)]
struct LastLook {
    known: Arc<KnownValues>,
    lenses: BTreeMap<String, Vec<CodeLens>>,
}

/// Looks at files on a thread of its own, and keeps what it found.
pub struct Analyst {
    jobs: Sender<OpenBuffers>,
    last: Arc<Mutex<LastLook>>,
}

impl Analyst {
    /// Starts. The thread ends with this.
    pub fn start(policies: FleetPolicies, sink: MessageSink, output: Output) -> Self {
        let (jobs, queue) = channel();
        let last = Arc::<Mutex<LastLook>>::default();
        let worker = AnalysisWorker {
            policies,
            sink,
            output,
            last: Arc::clone(&last),
            published: BTreeSet::new(),
            lenses: PlanLenses::default(),
        };
        std::thread::spawn(move || worker.work(&queue));
        Self { jobs, last }
    }

    /// Files have changed: they are looked at in a moment.
    pub fn look_again(&self, buffers: OpenBuffers) {
        // The thread ends only with this.
        let _ = self.jobs.send(buffers);
    }

    /// What other models say.
    pub fn known_values(&self) -> Arc<KnownValues> {
        Arc::clone(&self.last.lock().unwrap_or_else(PoisonError::into_inner).known)
    }

    /// What is said above the first line of a file.
    pub fn lenses(&self, uri: &Uri) -> Vec<CodeLens> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.lenses.get(uri.as_str()).cloned().unwrap_or_default()
    }
}

struct AnalysisWorker {
    policies: FleetPolicies,
    sink: MessageSink,
    output: Output,
    last: Arc<Mutex<LastLook>>,
    /// Files with findings in the editor.
    published: BTreeSet<String>,
    lenses: PlanLenses,
}

impl AnalysisWorker {
    fn work(mut self, queue: &Receiver<OpenBuffers>) {
        while let Ok(mut buffers) = queue.recv() {
            let end = Instant::now() + LONGEST_WAIT;
            loop {
                let rest = end.saturating_duration_since(Instant::now());
                match queue.recv_timeout(QUIET_TIME.min(rest)) {
                    Ok(newer) => buffers = newer,
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            self.look(&buffers);
        }
    }

    fn look(&mut self, buffers: &OpenBuffers) {
        let mut published: BTreeMap<String, PublishDiagnosticsParams> = BTreeMap::new();
        let mut lenses = BTreeMap::new();
        let mut known = KnownValuesCounter::default();
        let roots: BTreeSet<PathBuf> = buffers.iter().filter_map(|(path, _)| self.root_of(path)).collect();
        for root in roots {
            let edited = buffers.iter().map(|(path, buffer)| (path.as_path(), Arc::from(buffer.text.as_bytes())));
            let opened = match repository::open_edited(&root, edited, &self.output) {
                Ok(opened) => opened,
                Err(error) => {
                    self.log(&error.to_string());
                    continue;
                }
            };
            match collect_findings(&opened, None, DynamoArgs::default(), self.policies.clone(), &self.output) {
                Ok((found, _)) => collect_diagnostics(&opened, found, buffers, &mut published),
                Err(error) => self.log(&error.to_string()),
            }
            known.count(&opened);
            for (path, buffer) in buffers.iter() {
                let Some(file) = file_in(&opened, path) else { continue };
                if FileRole::of_name(&file_name(path)) == FileRole::Intent {
                    let own = self.lenses.of_model(&opened, &file, self.policies.clone());
                    lenses.insert(buffer.uri.as_str().to_owned(), own);
                }
            }
        }
        // What was wrong with a file and is no more is taken back.
        for uri in std::mem::take(&mut self.published) {
            if !published.contains_key(&uri)
                && let Ok(parsed) = uri.parse()
            {
                published.insert(uri, PublishDiagnosticsParams { uri: parsed, diagnostics: Vec::new(), version: None });
            }
        }
        self.published = published
            .iter()
            .filter(|(_, of_file)| !of_file.diagnostics.is_empty())
            .map(|(uri, _)| uri.clone())
            .collect();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            LastLook { known: Arc::new(known.most_frequent()), lenses };
        for of_file in published.into_values() {
            (self.sink)(Message::Notification(Notification::new(PublishDiagnostics::METHOD.to_owned(), of_file)));
        }
    }

    /// The repository that a file lies in; `None` for one that is nothing to stator.
    fn root_of(&self, path: &Path) -> Option<PathBuf> {
        if FileRole::of_name(&file_name(path)) == FileRole::Other {
            return None;
        }
        match source::find_repository(path.parent()?) {
            Ok(root) => Some(root),
            Err(error) => {
                self.log(&error.to_string());
                None
            }
        }
    }

    fn log(&self, message: &str) {
        let said = LogMessageParams { typ: MessageType::ERROR, message: message.to_owned() };
        (self.sink)(Message::Notification(Notification::new(LogMessage::METHOD.to_owned(), said)));
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The path of a file from the repository's root.
fn file_in(opened: &OpenedRepository, path: &Path) -> Option<String> {
    Some(path.strip_prefix(&opened.checkout.root).ok()?.to_str()?.replace('\\', "/"))
}

fn collect_diagnostics(
    opened: &OpenedRepository,
    found: Vec<Finding>,
    buffers: &OpenBuffers,
    published: &mut BTreeMap<String, PublishDiagnosticsParams>,
) {
    let root = &opened.checkout.root;
    // Each open file is published, so that what was mended goes.
    for (path, buffer) in buffers.iter().filter(|(path, _)| path.starts_with(root)) {
        let _ = path;
        published.insert(buffer.uri.as_str().to_owned(), diagnostics_of(buffer));
    }
    for finding in found {
        // What is said of no file is said of the settings.
        let file = if finding.location.file.is_empty() { "stator.yaml" } else { &finding.location.file };
        let path = root.join(file);
        let buffer = buffers.at(&path);
        let Some(uri) = buffer.map(|buffer| buffer.uri.clone()).or_else(|| uri_of(&path)) else { continue };
        let text = opened.file_text(file).unwrap_or_default();
        let of_file = published.entry(uri.as_str().to_owned()).or_insert_with(|| PublishDiagnosticsParams {
            uri,
            diagnostics: Vec::new(),
            version: buffer.map(|buffer| buffer.version),
        });
        of_file.diagnostics.push(diagnostic_of(&finding, &text));
    }
}

fn diagnostics_of(buffer: &Buffer) -> PublishDiagnosticsParams {
    PublishDiagnosticsParams { uri: buffer.uri.clone(), diagnostics: Vec::new(), version: Some(buffer.version) }
}

fn diagnostic_of(finding: &Finding, text: &str) -> Diagnostic {
    let help = if finding.help.is_empty() { String::new() } else { format!("\nfix: {}", finding.help) };
    Diagnostic {
        range: positions::range_of(text, &finding.location),
        severity: Some(match finding.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(finding.rule.id.to_owned())),
        source: Some(DIAGNOSTIC_SOURCE.to_owned()),
        message: format!("{}{help}", finding.message),
        ..Diagnostic::default()
    }
}

/// How often models say what.
#[derive(Debug, Default)]
struct KnownValuesCounter {
    by_field: BTreeMap<String, BTreeMap<String, usize>>,
    models: BTreeSet<String>,
}

impl KnownValuesCounter {
    fn count(&mut self, opened: &OpenedRepository) {
        for environment in opened.workspace.environment_names() {
            if let Ok(selection) = opened.workspace.resolve_environment(Some(&environment)) {
                self.models.extend(crate::cli::targets::model_names(&selection).map(str::to_owned));
            }
        }
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let files = opened.checkout.tree.files.iter();
        let files = files
            .filter(|file| matches!(FileRole::of_name(&name(&file.path)), FileRole::Intent | FileRole::Overlay(_)));
        for file in files.take(MAX_READ_FILES) {
            let Ok(content) = &file.content else { continue };
            if let Some(spec) = parse_yaml(content, 0, &file.path).root.as_ref().and_then(|root| root.get("spec")) {
                self.count_below(spec);
            }
        }
    }

    fn count_below(&mut self, node: &YamlNode) {
        for entry in node.entries() {
            if let Some(value) = scalar_text(&entry.value).filter(|value| !value.is_empty() && !value.contains('\n')) {
                let of_field = self.by_field.entry(entry.key.to_string()).or_default();
                *of_field.entry(value).or_default() += 1;
            }
            self.count_below(&entry.value);
        }
        node.items().iter().for_each(|item| self.count_below(item));
    }

    fn most_frequent(self) -> KnownValues {
        let sorted = |values: BTreeMap<String, usize>| {
            let mut values: Vec<(String, usize)> = values.into_iter().collect();
            values.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
            values.into_iter().take(MAX_VALUES).map(|(value, _)| value).collect()
        };
        let by_field = self.by_field.into_iter().map(|(field, values)| (field, sorted(values))).collect();
        KnownValues { by_field, models: self.models }
    }
}
