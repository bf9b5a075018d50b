//! What did not change is not done again: which models of a commit need to be looked at, by what was made of the others.
//!
//! A model is made of the files of its folder, those that it mounts included, and of the settings above it, and what is planned for it of its objects and its
//! record. Where all of these are what they were when the last plan had nothing to say of the model, it is left out: its
//! files are not parsed, its objects not read, and the plan only knows its share of sums and guards. The plan is the same
//! one as that of everything, without those models' lines; a law over random histories holds the two together.
//!
//! Whatever a model that is looked at shares with one that is not (a name, an object, a record's entry) brings that one in
//! too. In doubt everything is looked at.

mod idle;

use super::{DesiredState, ListScope};
use rayon::prelude::*;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::finding::Finding;
use stator_core::object::{Object, ObjectRef};
use stator_model::intent::{SourceFile, SourceTree};
use stator_model::plan::{self, Plan, PlanInput, Record, SourceIdentity, UnchangedSummary, UnchangedTotals};
use stator_model::render::RenderTarget;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher as _, RandomState};

/// The name of settings, at the root and below.
const SETTINGS_FILE: &str = "stator.yaml";

/// The kinds that a look at an environment is made of.
pub const PLANNED_KINDS: &[ObjectKind] = &[
    kinds::RECORD,
    kinds::JOURNAL,
    kinds::CLAIM,
    kinds::CONFIG_MAP,
    kinds::RESOURCE_CLAIM_TEMPLATE,
    kinds::COMPUTE_DOMAIN,
    kinds::JOB,
    kinds::GRAPH,
    kinds::REQUEST,
    kinds::ADAPTER,
    kinds::SERVICE,
    kinds::HTTP_ROUTE,
];

/// One object of the environment's namespace, without what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: Box<str>,
    /// Its resource version.
    pub version: u64,
    /// Whether it has the labels of the environment, or may have them.
    pub is_labelled: bool,
}

/// Kind and name of an object, in the namespace.
type ObjectKey = (&'static str, Box<str>);

/// What is remembered of one environment.
#[derive(Debug, Default)]
pub struct IncrementalPlanner {
    hash: RandomState,
    context_digest: u64,
    target: Option<RenderTarget>,
    /// Whose the last plan was.
    owner: Option<SourceIdentity>,
    /// Folder → what was found there, of those that may be left out.
    unchanged: BTreeMap<String, UnchangedFolder>,
    /// Records of other environments, by name.
    foreign_records: HashMap<Box<str>, ForeignRecord>,
    /// Journals that the last plan had nothing to do with, by name, which it saw whole: nobody writes one a second time.
    foreign_journals: BTreeSet<String>,
}

/// What is known of another environment's record, which is not shown again while it is the same.
#[derive(Clone, Debug)]
struct ForeignRecord {
    version: u64,
    /// The kinds of its objects that are listed only where something names them.
    kinds: BTreeSet<&'static str>,
}

/// What is known of a folder that may be left out.
#[derive(Clone, Debug)]
struct UnchangedFolder {
    /// Of its files, and of the settings above it.
    digest: u64,
    /// The model, where the environment has it.
    model: Option<Box<str>>,
    /// Its objects and its record, with their versions.
    object_versions: Box<[(ObjectKey, u64)]>,
    totals: UnchangedTotals,
    /// What was found in the model.
    findings: Box<[Finding]>,
}

/// A commit's files, cut into folders.
#[derive(Debug)]
pub struct TreeSnapshot {
    tree: SourceTree,
    digests: BTreeMap<String, u64>,
}

/// What is to be looked at.
#[derive(Debug)]
pub struct PlanDelta {
    /// The files, settings included.
    pub tree: SourceTree,
    /// What is left out.
    pub unchanged: UnchangedSummary,
    /// What lists are to show.
    pub lists: ListScope,
    /// The models that are left out.
    pub unchanged_models: BTreeSet<String>,
    /// The folders that are left out.
    unchanged_folders: BTreeSet<String>,
    digests: BTreeMap<String, u64>,
}

fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn object_key(object: &ObjectRef) -> Option<ObjectKey> {
    let kind = PLANNED_KINDS.iter().find(|kind| kind.kind == object.kind)?;
    Some((kind.kind, object.name.as_str().into()))
}

fn record_key(model: &str) -> ObjectKey {
    (kinds::RECORD.kind, model.into())
}

impl PlanDelta {
    /// Whether the model of that `model.yaml` is left out.
    pub fn excludes(&self, source: &str) -> bool {
        self.unchanged_folders.contains(split_path(source).0)
    }
}

impl IncrementalPlanner {
    /// Where the last look went, where there was one.
    pub fn target(&self) -> Option<&RenderTarget> {
        self.target.as_ref()
    }

    /// Cuts a commit's files. `ground` is all that a model is made from beside them: the environment, the platform.
    pub fn snapshot(&mut self, tree: SourceTree, ground: &str) -> TreeSnapshot {
        let mut hasher = self.hash.build_hasher();
        hasher.write(ground.as_bytes());
        let root = tree.files.iter().filter(|file| file.path == SETTINGS_FILE);
        root.for_each(|file| self.hash_file(&mut hasher, file));
        let ground = hasher.finish();
        if std::mem::replace(&mut self.context_digest, ground) != ground {
            self.reset();
        }
        let mut chains: BTreeMap<&str, u64> = BTreeMap::new();
        let mut digests: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
        for file in &tree.files {
            match split_path(&file.path) {
                (folder, SETTINGS_FILE) => {
                    let mut hasher = self.hash.build_hasher();
                    self.hash_file(&mut hasher, file);
                    chains.insert(folder, hasher.finish());
                }
                (folder, _) => digests.entry(folder).or_default().push(file),
            }
        }
        for (folder, files) in &tree.mounted_files {
            digests.entry(folder).or_default().extend(files);
        }
        let digest = |(folder, files): (&str, Vec<&SourceFile>)| {
            let mut hasher = self.hash.build_hasher();
            for above in ancestors(folder) {
                hasher.write_u64(chains.get(above).copied().unwrap_or_default());
            }
            files.into_iter().for_each(|file| self.hash_file(&mut hasher, file));
            (folder.to_owned(), hasher.finish())
        };
        let digests = digests.into_iter().map(digest).collect();
        TreeSnapshot { tree, digests }
    }

    fn hash_file(&self, hasher: &mut impl std::hash::Hasher, file: &SourceFile) {
        let (marker, bytes) = match &file.content {
            Ok(content) => (0, &**content),
            Err(reason) => (1, reason.as_bytes()),
        };
        for part in [file.path.as_bytes(), &[marker], bytes] {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
    }

    /// Forgets everything: the next look is at everything.
    pub fn reset(&mut self) {
        self.target = None;
        self.unchanged.clear();
        self.foreign_records.clear();
        self.foreign_journals.clear();
    }

    /// What is to be looked at of a commit, while the namespace holds these objects; `also` are folders that must be looked
    /// at. Without a survey, everything is. `read` gives an object.
    pub fn delta(
        &mut self,
        cut: &TreeSnapshot,
        survey: Option<&[ObjectVersion]>,
        also: &BTreeSet<String>,
        read: &(dyn Fn(&ObjectKind, &str) -> Option<Object> + Sync),
    ) -> PlanDelta {
        let (Some(survey), Some(target)) = (survey, self.target.clone()) else { return full_delta(cut) };
        // It may stand in for the record of any model.
        let is_news =
            |line: &ObjectVersion| line.kind == kinds::JOURNAL && !self.foreign_journals.contains(&*line.name);
        if survey.iter().any(is_news) {
            return full_delta(cut);
        }
        let versions: HashMap<(&str, &str), u64> =
            survey.iter().map(|line| ((line.kind.kind, &*line.name), line.version)).collect();
        let is_same = |(folder, known): &(&String, &UnchangedFolder)| {
            cut.digests.get(*folder) == Some(&known.digest)
                && !also.contains(*folder)
                && known
                    .object_versions
                    .iter()
                    .all(|((kind, name), version)| versions.get(&(*kind, &**name)) == Some(version))
        };
        let mut clean: BTreeMap<&String, &UnchangedFolder> = self.unchanged.iter().filter(is_same).collect();
        let mut read_before: HashMap<ObjectKey, Option<ObjectOwnership>> = HashMap::new();
        let (mut foreign, mut shown);
        let owner = self.owner.clone();
        let owner = owner.as_ref();
        loop {
            let claimed: HashMap<&ObjectKey, &String> = clean
                .iter()
                .flat_map(|(folder, known)| known.object_versions.iter().map(|(key, _)| (key, *folder)))
                .collect();
            let models: HashMap<&str, &String> =
                clean.iter().filter_map(|(folder, known)| Some((known.model.as_deref()?, *folder))).collect();
            let key = |line: &ObjectVersion| (line.kind.kind, line.name.clone());
            let is_open = |line: &&ObjectVersion| {
                let is_record = line.kind == kinds::RECORD;
                let key = key(line);
                (is_record || line.is_labelled)
                    && !claimed.contains_key(&key)
                    && !(is_record
                        && self.foreign_records.get(&line.name).is_some_and(|one| one.version == line.version))
            };
            let open: Vec<&ObjectVersion> = survey.iter().filter(is_open).collect();
            let news: Vec<&ObjectVersion> =
                open.iter().copied().filter(|line| !read_before.contains_key(&key(line))).collect();
            let found: Vec<(ObjectKey, Option<ObjectOwnership>)> = news
                .par_iter()
                .map(|line| {
                    let object = read(&line.kind, &line.name);
                    (key(line), object.map(|object| ObjectOwnership::of(&object, &target, owner)))
                })
                .collect();
            read_before.extend(found);
            let mut stirred: BTreeSet<String> = BTreeSet::new();
            foreign = HashMap::new();
            shown = BTreeSet::new();
            for line in open {
                let key = key(line);
                let (model, objects) = match read_before.get(&key) {
                    Some(Some(ObjectOwnership::Own { model, objects })) => (model, objects),
                    Some(Some(ObjectOwnership::Foreign { kinds })) => {
                        foreign
                            .insert(line.name.clone(), ForeignRecord { version: line.version, kinds: kinds.clone() });
                        continue;
                    }
                    Some(None) | None => continue,
                };
                shown.insert((line.kind, line.name.to_string()));
                stirred.extend(models.get(model.as_str()).map(|folder| (*folder).clone()));
                stirred.extend(objects.iter().filter_map(|key| claimed.get(key)).map(|folder| (*folder).clone()));
            }
            if stirred.is_empty() {
                break;
            }
            clean.retain(|folder, _| !stirred.contains(*folder));
        }
        let mut unchanged_models = BTreeSet::new();
        let mut beside = UnchangedSummary::default();
        for known in clean.values() {
            let Some(model) = &known.model else { continue };
            unchanged_models.insert(model.to_string());
            beside.models += 1;
            beside.totals.add(&known.totals);
            beside.findings.extend_from_slice(&known.findings);
        }
        self.foreign_records.extend(foreign);
        self.foreign_records.retain(|name, one| versions.get(&(kinds::RECORD.kind, &**name)) == Some(&one.version));
        let mut named_kinds: BTreeSet<&'static str> =
            self.foreign_records.values().flat_map(|one| &one.kinds).copied().collect();
        let left_out = clean.values().flat_map(|known| &known.object_versions).map(|((kind, _), _)| *kind);
        named_kinds.extend(left_out.filter(|kind| is_listed_on_demand(kind)));
        let clean: BTreeSet<String> = clean.into_keys().cloned().collect();
        if clean.is_empty() {
            return full_delta(cut);
        }
        let is_open = |file: &&SourceFile| {
            let (folder, name) = split_path(&file.path);
            name == SETTINGS_FILE || !clean.contains(folder)
        };
        let files = cut.tree.files.iter().filter(is_open).cloned().collect();
        let mounted = cut.tree.mounted_files.iter().filter(|(folder, _)| !clean.contains(*folder));
        let mounted_files = mounted.map(|(folder, files)| (folder.clone(), files.clone())).collect();
        let (unread, omitted_folders) = (cut.tree.unread.clone(), clean.clone());
        PlanDelta {
            tree: SourceTree { files, mounted_files, unread, omitted_folders },
            unchanged: beside,
            lists: ListScope::part(&target.namespace, shown, named_kinds),
            unchanged_models,
            unchanged_folders: clean,
            digests: cut.digests.clone(),
        }
    }

    /// Folders that are left out and have a name or an object of what is looked at: they must be looked at as well.
    pub fn conflicting_folders(&self, part: &PlanDelta, desired: &DesiredState) -> BTreeSet<String> {
        if part.unchanged_folders.is_empty() {
            return BTreeSet::new();
        }
        let broken = desired.selection.broken.iter().filter_map(|one| one.name.as_deref());
        let names: HashSet<&str> = desired.rendered.iter().map(|one| one.model.as_str()).chain(broken).collect();
        let objects = desired.rendered.iter().flat_map(|one| &one.objects);
        let objects: HashSet<ObjectKey> = objects.filter_map(|one| object_key(one.object.reference())).collect();
        let clashes = |known: &UnchangedFolder| {
            known.model.as_deref().is_some_and(|model| names.contains(model))
                || known.object_versions.iter().any(|(key, _)| objects.contains(key))
        };
        let known = part.unchanged_folders.iter().filter_map(|folder| Some((folder, self.unchanged.get(folder)?)));
        known.filter(|(_, known)| clashes(known)).map(|(folder, _)| folder.clone()).collect()
    }

    /// Remembers what a plan had nothing to say of.
    pub fn remember_plan(&mut self, part: &PlanDelta, target: &RenderTarget, input: &PlanInput, plan: &Plan) {
        self.target = Some(target.clone());
        self.owner = input.owner.as_ref().map(|claim| claim.identity.clone());
        let own: BTreeSet<String> =
            plan::own_bookkeeping(input).journals.into_iter().map(|left| left.journal.name).collect();
        let journals = input.journals.iter().map(|left| &left.journal.name);
        self.foreign_journals = journals.filter(|name| !own.contains(*name)).cloned().collect();
        self.unchanged.retain(|folder, _| part.unchanged_folders.contains(folder));
        // What was found in one model is remembered with it, and what is found in settings alone is found again.
        let of_models: HashSet<&Finding> = input.model_findings.values().flatten().collect();
        let found_beside = input.findings.iter().filter(|one| !of_models.contains(one));
        let mut loud: HashSet<&str> = found_beside.map(|one| split_path(&one.location.file).0).collect();
        loud.extend(input.broken.iter().map(|one| split_path(&one.source).0));
        let mut taken: HashSet<&str> = HashSet::new();
        let candidates = plan::unchanged_models(input, plan);
        let known: Vec<(&str, UnchangedFolder)> = candidates
            .par_iter()
            .filter_map(|settled| {
                let folder = split_path(&settled.rendered.source).0;
                let digest = *part.digests.get(folder)?;
                if loud.contains(folder) || !idle::is_idle(plan, settled) {
                    return None;
                }
                let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
                let record = (record_key(&settled.record.model), number(settled.record.resource_version.as_deref())?);
                let objects = settled.live.iter();
                let objects = objects.map(|one| Some((object_key(one.reference())?, number(one.resource_version())?)));
                let touches: Option<Vec<(ObjectKey, u64)>> = objects.chain([Some(record)]).collect();
                let model = Some(settled.rendered.model.as_str().into());
                let known = UnchangedFolder {
                    digest,
                    model,
                    object_versions: touches?.into(),
                    totals: settled.totals.clone(),
                    findings: settled.findings.as_slice().into(),
                };
                Some((folder, known))
            })
            .collect();
        taken.extend(input.rendered.iter().map(|one| split_path(&one.source).0));
        // What the environment leaves out, it leaves out again.
        let nothing = |digest: u64| UnchangedFolder {
            digest,
            model: None,
            object_versions: Box::default(),
            totals: UnchangedTotals::default(),
            findings: Box::default(),
        };
        for (folder, digest) in &part.digests {
            if !part.unchanged_folders.contains(folder)
                && !loud.contains(folder.as_str())
                && !taken.contains(folder.as_str())
            {
                self.unchanged.insert(folder.clone(), nothing(*digest));
            }
        }
        self.unchanged.extend(known.into_iter().map(|(folder, known)| (folder.to_owned(), known)));
    }
}

/// Everything.
fn full_delta(cut: &TreeSnapshot) -> PlanDelta {
    PlanDelta {
        tree: cut.tree.clone(),
        unchanged: UnchangedSummary::default(),
        lists: ListScope::default(),
        unchanged_models: BTreeSet::new(),
        unchanged_folders: BTreeSet::new(),
        digests: cut.digests.clone(),
    }
}

/// What ties an object to models.
enum ObjectOwnership {
    /// The model that it is of, and what its record names.
    Own { model: String, objects: Vec<ObjectKey> },
    /// A record of another environment or origin.
    Foreign { kinds: BTreeSet<&'static str> },
}

impl ObjectOwnership {
    /// What cannot be read ties to its name.
    fn of(object: &Object, target: &RenderTarget, owner: Option<&SourceIdentity>) -> Self {
        if object.kind() != kinds::RECORD.kind {
            let label = object.labels().get(kinds::LABEL_MODEL).map(|model| (*model).to_owned());
            return Self::Own { model: label.unwrap_or_default(), objects: Vec::new() };
        }
        let Ok(record) = Record::from_object(object) else {
            return Self::Own { model: object.name().to_owned(), objects: Vec::new() };
        };
        let objects = record.inventory.iter().filter_map(|entry| object_key(&entry.object));
        if is_own(&record, target, owner) {
            let objects = objects.collect();
            return Self::Own { model: record.model, objects };
        }
        let kinds = objects.map(|(kind, _)| kind).filter(|kind| is_listed_on_demand(kind)).collect();
        Self::Foreign { kinds }
    }
}

/// Whether a kind is listed only where something names it.
fn is_listed_on_demand(kind: &str) -> bool {
    kinds::by_name(kind).is_some_and(ObjectKind::is_on_demand)
}

/// Whether a record is of that origin; one that says none, whether it has the names.
fn is_own(record: &Record, target: &RenderTarget, owner: Option<&SourceIdentity>) -> bool {
    let is_same = match (owner, &record.owner) {
        (Some(owner), Some(recorded)) => owner.origin() == recorded.origin(),
        (Some(_) | None, None) | (None, Some(_)) => record.repository == target.repository,
    };
    is_same && record.environment == target.environment
}

/// A folder's ancestors, from the root down to itself.
fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    std::iter::once("").chain(ends.filter(|end| *end > 0).filter_map(|end| folder.get(..end)))
}
