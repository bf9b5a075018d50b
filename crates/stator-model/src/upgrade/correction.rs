//! Corrections of files: for a fault that has an obvious one, the edit is made, the model is judged again for both
//! releases, and the edit stays only where the fault is gone and nothing new is wrong.

use super::{RenderedSide, UpgradeQuestion, compare_sides};
use crate::intent::field_at::field_at;
use crate::intent::format::{DocumentEdit, edit_document};
use crate::intent::yaml::parse_yaml;
use crate::intent::{SourceFile, SourceTree};
use crate::plan::FileCorrection;
use crate::present::patch::file_patch;
use crate::render::RenderedText;
use regex::Regex;
use serde_json::Value;
use stator_core::dynamo::admission::{is_runtime_version, rules, version_in_tag};
use stator_core::dynamo::deprecations::{DeprecatedItem, Deprecation};
use stator_core::dynamo::disruption::Disruption;
use stator_core::dynamo::release::Release;
use stator_core::finding::Finding;
use stator_core::mask;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// The files with what could be corrected.
pub(super) struct CorrectedFiles {
    /// While the release runs that runs now.
    pub(super) now: SourceTree,
    /// Once the other one does.
    pub(super) then: SourceTree,
    /// By the model's file, none where it is in a file of several models; by rule and message.
    made: BTreeMap<(String, &'static str, String), MadeCorrection>,
    /// What is left of each model once all of it is corrected.
    left: BTreeMap<String, Faults>,
}

/// A correction that helped.
pub(super) struct MadeCorrection {
    /// What was changed, in words.
    pub(super) words: String,
    /// Whether it waits until the other release runs.
    pub(super) later: bool,
}

impl CorrectedFiles {
    /// The correction of a fault of a model, its own or a shared one. Nothing where the fault is still there.
    pub(super) fn of(&self, source: &str, finding: &Finding) -> Option<&MadeCorrection> {
        let key = (finding.rule.id, finding.message.clone());
        if self.left.get(source).is_none_or(|left| left.contains_key(&key)) {
            return None;
        }
        let (rule, message) = key;
        let shared = (String::new(), rule, message.clone());
        self.made.get(&(source.to_owned(), rule, message)).or_else(|| self.made.get(&shared))
    }
}

/// A change of files that may help.
struct Candidate {
    edits: Vec<(String, DocumentEdit)>,
    words: String,
}

/// How often one model is corrected: each time takes one of its faults away.
const MAX_CORRECTIONS: usize = 64;

/// Corrects what can be corrected, model by model.
pub(super) fn correct(question: &UpgradeQuestion<'_>, after: &RenderedSide) -> CorrectedFiles {
    let mut files = CorrectedFiles {
        now: question.tree.clone(),
        then: question.tree.clone(),
        made: BTreeMap::new(),
        left: BTreeMap::new(),
    };
    // A shared file is also about models that nobody asked about.
    let today = faults_by_model(&(question.render)(question.tree, question.from), question.to);
    for model in after.models.iter().filter(|one| faults_of(one, question.to).next().is_some()) {
        files.correct_model(question, &today, &model.source);
    }
    files.left = faults_by_model(&question.asked(&files.then, question.to), question.to);
    files
}

/// What of a model asks for a correction: what is refused, what would be switched off without a word, and what of the API
/// the release no longer has.
fn faults_of(model: &RenderedText, to: Release) -> impl Iterator<Item = &Finding> {
    let is_removed = move |finding: &Finding| {
        finding.rule == rules::DEPRECATED
            && model.deprecated.iter().any(|(location, line)| {
                *location == finding.location && line.message() == finding.message && is_removed_by(line, to)
            })
    };
    model.findings.iter().filter(move |one| one.is_error() || one.rule == rules::CHECKPOINT_SWITCH || is_removed(one))
}

/// Whether a release has a part of the API no more. What is the images' goes when they do.
fn is_removed_by(line: &Deprecation, to: Release) -> bool {
    let is_gone =
        line.removed_in.is_some_and(|removed| removed.parse::<Release>().map_or(true, |removed| removed <= to));
    match line.subject {
        DeprecatedItem::Field(..) | DeprecatedItem::Label(_) | DeprecatedItem::Annotation(_) => is_gone,
        DeprecatedItem::Version(..)
        | DeprecatedItem::Variable(_)
        | DeprecatedItem::Flag(_)
        | DeprecatedItem::FlagValue(..) => false,
    }
}

/// Faults, and how many of each there are.
type Faults = BTreeMap<(&'static str, String), usize>;

fn faults_by_model(side: &RenderedSide, to: Release) -> BTreeMap<String, Faults> {
    let count = |model: &RenderedText| {
        let mut faults = Faults::new();
        for finding in faults_of(model, to) {
            *faults.entry((finding.rule.id, finding.message.clone())).or_default() += 1;
        }
        faults
    };
    side.models.iter().map(|one| (one.source.clone(), count(one))).collect()
}

/// Whether all faults are among those that there were.
fn adds_nothing(faults: &BTreeMap<String, Faults>, before: &BTreeMap<String, Faults>) -> bool {
    faults.iter().all(|(model, faults)| {
        let known = before.get(model);
        faults.iter().all(|(fault, count)| known.and_then(|known| known.get(fault)).is_some_and(|known| count <= known))
    })
}

impl CorrectedFiles {
    fn correct_model(&mut self, question: &UpgradeQuestion<'_>, today: &BTreeMap<String, Faults>, model: &str) {
        let mut tried = BTreeSet::new();
        for _ in 0..MAX_CORRECTIONS {
            let side = question.asked(&part_of(&self.then, folder_of(model)), question.to);
            let Some(own) = side.models.iter().find(|one| one.source == model) else { return };
            let is_new = |one: &&Finding| tried.insert((one.rule.id, one.message.clone()));
            let Some(fault) = faults_of(own, question.to).find(is_new) else { return };
            let today_side = question.asked(&part_of(&self.then, folder_of(model)), question.from);
            let is_todays =
                today_side.models.iter().flat_map(|one| &one.findings).any(|one| super::is_same(one, fault));
            let candidates = candidates(fault, is_todays, model, &self.then, question);
            if candidates.into_iter().any(|one| self.keep_if_better(question, today, model, fault, one)) {
                // The same fault may be there once more.
                tried.remove(&(fault.rule.id, fault.message.clone()));
            }
        }
    }

    /// Keeps a candidate where it helps.
    fn keep_if_better(
        &mut self,
        question: &UpgradeQuestion<'_>,
        today: &BTreeMap<String, Faults>,
        model: &str,
        fault: &Finding,
        candidate: Candidate,
    ) -> bool {
        let own_folder = |file: &String| folder_of(file) == folder_of(model) && !is_settings(file);
        // A shared file is about every model.
        let is_own = candidate.edits.iter().all(|(file, _)| own_folder(file));
        let scope = |tree: &SourceTree| if is_own { part_of(tree, folder_of(model)) } else { tree.clone() };
        let (then, now) = (scope(&self.then), scope(&self.now));
        let Some(then_edited) = edited(&then, &candidate.edits) else { return false };
        let (before, after) = ((question.render)(&then, question.to), (question.render)(&then_edited, question.to));
        let (known, left) = (faults_by_model(&before, question.to), faults_by_model(&after, question.to));
        let key = (fault.rule.id, fault.message.clone());
        let count =
            |faults: &BTreeMap<String, Faults>| faults.get(model).map(|all| all.get(&key).copied().unwrap_or(0));
        let is_better = count(&left).is_some_and(|count_left| Some(count_left) < count(&known));
        if !is_better || !adds_nothing(&left, &known) || after.broken.len() > before.broken.len() {
            return false;
        }
        let now_edited = edited(&now, &candidate.edits).filter(|edited| {
            let side = (question.render)(edited, question.from);
            let is_taken = adds_nothing(&faults_by_model(&side, question.to), today);
            // What restarts pods now and would not then, waits.
            let had = (question.render)(&now, question.from);
            let worst = |head: &[RenderedText], release| {
                let plan = compare_sides(question, (&had.models, question.from), (head, release));
                plan.changes.iter().map(|change| change.disruption).max().unwrap_or(Disruption::None)
            };
            let is_as_quiet = || worst(&side.models, question.from) <= worst(&after.models, question.to);
            is_taken && side.broken.len() <= before.broken.len() && is_as_quiet()
        });
        let source = if is_own { model.to_owned() } else { String::new() };
        let (rule, message) = key;
        let made = MadeCorrection { words: candidate.words, later: now_edited.is_none() };
        self.made.insert((source, rule, message), made);
        put_back(&mut self.then, then_edited);
        if let Some(edited) = now_edited {
            put_back(&mut self.now, edited);
        }
        true
    }
}

/// The files of one model, with the settings that hold for it.
fn part_of(tree: &SourceTree, folder: &str) -> SourceTree {
    let above = folder.match_indices('/').map(|(end, _)| folder.get(..end).unwrap_or_default());
    let above = std::iter::once("").chain(above).filter(|above| *above != folder);
    let settings = above.filter_map(|above| {
        find_file(tree, &if above.is_empty() { SETTINGS.to_owned() } else { format!("{above}/{SETTINGS}") })
    });
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let first = tree.files.partition_point(|file| file.path < prefix);
    let below = tree.files.iter().skip(first).take_while(|file| file.path.starts_with(&prefix));
    let mut files: Vec<SourceFile> =
        settings.chain(below.filter(|file| folder_of(&file.path) == folder)).cloned().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mounted = tree.mounted_files.get(folder).map(|files| (folder.to_owned(), files.clone()));
    SourceTree { files, mounted_files: mounted.into_iter().collect(), ..SourceTree::default() }
}

/// Puts files into the tree that they are of.
fn put_back(tree: &mut SourceTree, part: SourceTree) {
    for file in part.files {
        if let Ok(at) = tree.files.binary_search_by(|one| one.path.cmp(&file.path))
            && let Some(place) = tree.files.get_mut(at)
        {
            *place = file;
        }
    }
}

fn find_file<'a>(tree: &'a SourceTree, path: &str) -> Option<&'a SourceFile> {
    let at = tree.files.binary_search_by(|one| one.path.as_str().cmp(path)).ok()?;
    tree.files.get(at)
}

/// The name of files of settings.
const SETTINGS: &str = "stator.yaml";

fn is_settings(file: &str) -> bool {
    file.rsplit('/').next() == Some(SETTINGS)
}

fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The files with these edits; `None` where one cannot be made.
fn edited(tree: &SourceTree, edits: &[(String, DocumentEdit)]) -> Option<SourceTree> {
    let mut files = tree.files.clone();
    for (path, edit) in edits {
        let file = files.iter_mut().find(|one| one.path == *path)?;
        let text = std::str::from_utf8(file.content.as_deref().ok()?).ok()?;
        let changed = edit_document(text, std::slice::from_ref(edit)).ok()?;
        file.content = Ok(Arc::from(changed.into_bytes()));
    }
    Some(SourceTree { files, ..tree.clone() })
}

/// The files that differ, each as a patch.
pub(super) fn file_corrections(before: &SourceTree, after: &SourceTree) -> Vec<FileCorrection> {
    let text = |file: &SourceFile| String::from_utf8_lossy(file.content.as_deref().unwrap_or_default()).into_owned();
    let known: BTreeMap<&str, &SourceFile> = before.files.iter().map(|one| (one.path.as_str(), one)).collect();
    let differs = |file: &&SourceFile| known.get(file.path.as_str()).is_none_or(|old| old.content != file.content);
    after
        .files
        .iter()
        .filter(differs)
        .map(|file| {
            let old = known.get(file.path.as_str()).map(|old| text(old));
            let text = text(file);
            let patch = file_patch(&file.path, old.as_deref().map(shown).as_deref(), &shown(&text));
            FileCorrection { file: file.path.clone(), patch, text }
        })
        .collect()
}

/// A file with its secrets starred out: lines beside a change are shown as well.
fn shown(text: &str) -> String {
    let lines: Vec<String> = mask::star_tokens(text).split('\n').map(mask::redact_source_line).collect();
    lines.join("\n")
}

/// What may correct a fault, the likeliest first. A field that the release that runs refuses as well is nothing to remove: it
/// is somebody's mistake.
fn candidates(
    fault: &Finding,
    is_todays: bool,
    source: &str,
    tree: &SourceTree,
    question: &UpgradeQuestion<'_>,
) -> Vec<Candidate> {
    let file = fault.location.file.as_str();
    let Some(content) = content_of(tree, file) else { return Vec::new() };
    let Some(place) = field_at(content, fault.location.line, fault.location.column) else { return Vec::new() };
    let names = names_of(&place.pointer);
    if fault.rule == rules::IMAGE_VERSION {
        return version_candidates(&names, place.found.as_deref(), file, source, tree, question);
    }
    if fault.rule == rules::CHECKPOINT_SWITCH {
        let path = [names.as_slice(), &["enabled".to_owned()]].concat();
        let words = format!("`{}: true`, so that the checkpoint stays on", path.join("."));
        let edit = DocumentEdit::Set { path, value: Value::Bool(true) };
        return vec![Candidate { edits: vec![(file.to_owned(), edit)], words }];
    }
    // What the other release has no word for, or no use: without it, it judges the model as it is meant to be judged.
    let is_leaf = matches!(names.first().map(String::as_str), Some("spec" | "metadata")) && names.len() > 1;
    let is_removable = is_leaf
        && (fault.rule == rules::DEPRECATED
            || (!is_todays && [rules::SCHEMA, rules::ANNOTATION, rules::SHARED_MEMORY].contains(&fault.rule)));
    let words = format!("remove `{}`", names.join("."));
    let edit = is_removable.then_some(DocumentEdit::Remove { path: names });
    edit.map(|edit| Candidate { edits: vec![(file.to_owned(), edit)], words }).into_iter().collect()
}

/// The version of the runtime beside the image, or in the components that run it.
fn version_candidates(
    names: &[String],
    found: Option<&str>,
    file: &str,
    source: &str,
    tree: &SourceTree,
    question: &UpgradeQuestion<'_>,
) -> Vec<Candidate> {
    let (version, why) = runtime_version(found.unwrap_or_default(), question.from, question.to);
    let set = |file: &str, above: &[String]| {
        let path = [above, &["runtimeVersion".to_owned()]].concat();
        (file.to_owned(), DocumentEdit::Set { path, value: Value::from(version.as_str()) })
    };
    let words = |places: usize| {
        let places = if places > 1 { format!(" in {places} places") } else { String::new() };
        format!("`runtimeVersion: {version}`{places}, {why}")
    };
    let mut found = Vec::new();
    if let Some((last, above)) = names.split_last()
        && last == "image"
    {
        // In a template, the component that has it is above it.
        let cut = above.iter().position(|name| name == "template").unwrap_or(above.len());
        if let Some(above) = above.get(..cut).filter(|above| !above.iter().any(|name| name == "overrides")) {
            found.push(Candidate { edits: vec![set(file, above)], words: words(1) });
        }
    }
    // Where the image is `runtime`'s, or an override's: what runs it, as the model's own file has it.
    let components: Vec<Vec<String>> = content_of(tree, source).map(components_of).unwrap_or_default();
    let all: Vec<(String, DocumentEdit)> = components.iter().map(|above| set(source, above)).collect();
    let count = all.len();
    found.extend(components.iter().map(|above| Candidate { edits: vec![set(source, above)], words: words(1) }));
    if count > 1 {
        found.push(Candidate { edits: all, words: words(count) });
    }
    found
}

/// The places of a model's file that are components.
fn components_of(content: &[u8]) -> Vec<Vec<String>> {
    let document = parse_yaml(content, 0, "").root.map_or(Value::Null, |root| root.to_json());
    let below = |list: &str| -> Vec<Vec<String>> {
        let fields = document.pointer(&format!("/spec/{list}")).and_then(Value::as_object).into_iter().flatten();
        let maps = fields.filter(|(_, value)| value.is_object() || value.is_null());
        maps.map(|(name, _)| vec!["spec".to_owned(), list.to_owned(), name.clone()]).collect()
    };
    [below("serving"), below("components")].concat()
}

/// The version of Dynamo in an image by its tag, and where that is from. A tag that names no release of Dynamo is taken to be of
/// the release that runs it: versions before 1.5.0 replace no pods.
fn runtime_version(image: &str, from: Release, to: Release) -> (String, String) {
    static NUMBERS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?").ok());
    let tag = image.rsplit_once(':').map_or(image, |(_, tag)| tag);
    let named = image.rsplit(['/', '@']).next().is_some_and(|last| last.contains(':')) || !image.contains('/');
    let parsed = NUMBERS.as_ref().filter(|_| named).and_then(|numbers| numbers.captures(tag)).and_then(|found| {
        let number = |at: usize| found.get(at).map_or(Ok(0), |text| text.as_str().parse::<u16>()).ok();
        let version = format!("{}.{}.{}", number(1)?, number(2)?, number(3)?);
        let release: Release = format!("{}.{}", number(1)?, number(2)?).parse().ok()?;
        let is_dynamos = release != Release::Newer && release <= from.max(to);
        (is_dynamos && is_runtime_version(&version) && version_in_tag(image).is_none()).then_some(version)
    });
    match parsed {
        Some(version) => (version, format!("as the tag `{tag}` says")),
        None => (
            format!("{}.0", from.nearest_known()),
            "as that release runs it today; correct it if the image has another version".to_owned(),
        ),
    }
}

fn content_of<'a>(tree: &'a SourceTree, path: &str) -> Option<&'a [u8]> {
    find_file(tree, path)?.content.as_deref().ok()
}

/// The names of a JSON pointer.
fn names_of(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
}
