//! What a pull request would change, from the files of three commits and nothing else: no cluster, no secret.
//!
//! What is *wished* comes from the pull request: models, overlays, locks, defaults, and what `stator.yaml` says of
//! environments. What *judges* comes from the base branch as it is now: policy, guards and prices. So nobody lets himself
//! through, and yet a change of defaults shows what it does.
//!
//! Only models whose files, or settings above them, differ are parsed and rendered. Of all others a line is kept, by the
//! content of their files: whose names and objects they are, and how many GPUs. Sums, guards and clashes of names are
//! therefore those of the whole environment.

use stator_cluster::sync::Desired;
use stator_core::finding::Finding;
use stator_core::object::ObjectIdentity;
use stator_model::intent::scalar::DnsName;
use stator_model::intent::{EnvironmentError, Selection, SourceFile, SourceTree, Workspace};
use stator_model::plan::{self, Comparison, Plan, Rest};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::Arc;

/// The name of settings, at the root and below.
const SETTINGS: &str = "stator.yaml";
/// Lines of models that are kept. A repository has at most some ten thousand models, and two sides of each.
const MOST_FACTS: usize = 50_000;

/// The commits that a preview is made of.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// The base branch as it is now.
    pub tip: SourceTree,
    /// Its commit, in full.
    pub tip_commit: String,
    /// Where the pull request left the base branch.
    pub base: SourceTree,
    /// Its commit, in full.
    pub base_commit: String,
    /// What the pull request brings.
    pub head: SourceTree,
    /// Its commit, in full.
    pub head_commit: String,
}

/// What would change.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan. Models that are the same on both sides are in its sums alone.
    pub plan: Plan,
    /// How many models the environment has.
    pub models: usize,
    /// What a reader has to know, a sentence each.
    pub notes: Vec<String>,
}

/// Why there is no plan: the environment cannot be told from the repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unplanned {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub help: String,
    /// Whether the pull request is at fault, and not the base branch.
    pub by_head: bool,
}

/// What is kept of a model that did not change.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// The names and objects that it takes; empty for one that the environment does not have.
    names: BTreeSet<String>,
    objects: Vec<ObjectIdentity>,
    rest: Rest,
    counts: bool,
}

/// Plans pull requests of one source.
#[derive(Debug)]
pub struct Planner {
    environment: Option<String>,
    namespace: Option<DnsName>,
    hash: RandomState,
    facts: HashMap<u64, Arc<Facts>>,
    /// What the facts were judged by.
    judged: u64,
}

/// One side, cut into settings and models.
struct Side<'a> {
    settings: Vec<&'a SourceFile>,
    /// Folder → its files, and a digest of all that the model is made from.
    models: BTreeMap<&'a str, (Vec<&'a SourceFile>, u64)>,
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Planner {
    /// For an environment, or the only one there is; in its own namespace, or in this one.
    pub fn new(environment: Option<String>, namespace: Option<DnsName>) -> Self {
        Self { environment, namespace, hash: RandomState::new(), facts: HashMap::new(), judged: 0 }
    }

    /// What the pull request would change.
    ///
    /// # Errors
    /// When the environment cannot be told from the repository.
    pub fn plan(&mut self, sides: &Sides) -> Result<Planned, Unplanned> {
        let judge = self.judge(&sides.tip)?;
        let judged = self.digest(sides.tip.files.iter().filter(|file| file.path == SETTINGS));
        if std::mem::replace(&mut self.judged, judged) != judged {
            self.facts.clear();
        }
        let (base, head) = (self.cut(&sides.base), self.cut(&sides.head));
        let digest = |side: &Side<'_>, folder: &str| side.models.get(folder).map(|(_, digest)| *digest);
        let folders: BTreeSet<&str> = base.models.keys().chain(head.models.keys()).copied().collect();
        let (mut affected, same): (BTreeSet<&str>, BTreeSet<&str>) =
            folders.into_iter().partition(|folder| digest(&base, folder) != digest(&head, folder));
        let facts = self.facts_of(&head, &same, &judge)?;

        let mut pair = self.render(&base, &head, &affected, &judge)?;
        // Who has the name or an object of one that changes is looked at as well: which of both counts is for the plan.
        let taken = names_of(&pair.0).chain(names_of(&pair.1)).collect::<BTreeSet<String>>();
        let objects: BTreeSet<ObjectIdentity> = objects_of(&pair.0).chain(objects_of(&pair.1)).collect();
        let clashes = |facts: &Facts| {
            !facts.names.is_disjoint(&taken) || facts.objects.iter().any(|object| objects.contains(object))
        };
        let more: Vec<&str> = facts.iter().filter(|(_, facts)| clashes(facts)).map(|(folder, _)| *folder).collect();
        if !more.is_empty() {
            affected.extend(more);
            pair = self.render(&base, &head, &affected, &judge)?;
        }
        let (base_desired, head_desired) = pair;

        let mut rest = Rest::default();
        let mut models = head_desired.rendered.len() + head_desired.selection.broken.len();
        for (_, facts) in facts.iter().filter(|(folder, _)| !affected.contains(*folder)) {
            rest.add(&facts.rest);
            models += usize::from(facts.counts);
        }
        // What was there before and lies in files that stay as they are is no news of this pull request.
        let changed = differing(&sides.base, &sides.head);
        let known: BTreeSet<(String, String)> =
            base_desired.findings.iter().map(|one| (one.location.file.clone(), one.message.clone())).collect();
        let news = |one: &Finding| {
            changed.contains(one.location.file.as_str())
                || !known.contains(&(one.location.file.clone(), one.message.clone()))
        };
        let findings: Vec<Finding> = head_desired.findings.iter().filter(|one| news(one)).cloned().collect();
        let quiet = |mut desired: Desired| {
            desired.rendered.iter_mut().for_each(|one| one.findings.retain(Finding::is_error));
            desired
        };
        let (base_desired, head_desired) = (quiet(base_desired), quiet(head_desired));
        let mut plan = plan::compare(&Comparison {
            repository: &head_desired.target.repository,
            environment: &head_desired.target.environment,
            base: &base_desired.rendered,
            base_revision: &sides.base_commit,
            base_broken: &base_desired.selection.broken,
            head: &head_desired.rendered,
            head_revision: &sides.head_commit,
            broken: &head_desired.selection.broken,
            findings: &findings,
            prices: judge.prices.as_ref(),
            guards: judge.guards.clone(),
            rest,
        });
        plan.findings.retain(news);
        Ok(Planned { plan, models, notes: notes(&changed) })
    }

    /// Policy, guards and prices as the base branch has them now, without its models.
    fn judge(&self, tip: &SourceTree) -> Result<Selection, Unplanned> {
        let root = tip.files.iter().filter(|file| file.path == SETTINGS).cloned().collect();
        let workspace = Workspace::parse(&SourceTree { files: root });
        workspace.environment(self.environment.as_deref()).map_err(|error| unplanned(&error, false))
    }

    fn cut<'a>(&self, tree: &'a SourceTree) -> Side<'a> {
        let mut side = Side { settings: Vec::new(), models: BTreeMap::new() };
        for file in &tree.files {
            match split(&file.path) {
                (_, SETTINGS) => side.settings.push(file),
                (folder, _) => side.models.entry(folder).or_insert_with(|| (Vec::new(), 0)).0.push(file),
            }
        }
        let chains: BTreeMap<&str, u64> =
            side.settings.iter().map(|file| (split(&file.path).0, self.digest([*file]))).collect();
        for (folder, (files, digest)) in &mut side.models {
            let mut hasher = self.hash.build_hasher();
            for above in ancestors(folder) {
                hasher.write_u64(chains.get(above).copied().unwrap_or_default());
            }
            hasher.write_u64(self.digest(files.iter().copied()));
            *digest = hasher.finish();
        }
        side
    }

    fn digest<'a>(&self, files: impl IntoIterator<Item = &'a SourceFile>) -> u64 {
        let mut hasher = self.hash.build_hasher();
        for file in files {
            hasher.write(file.path.as_bytes());
            hasher.write_u8(0xff);
            match &file.content {
                Ok(content) => hasher.write(content),
                Err(reason) => hasher.write(reason.as_bytes()),
            }
            hasher.write_u8(0xff);
        }
        hasher.finish()
    }

    /// A line for each of these models; what is not known yet is rendered, all at once.
    fn facts_of<'a>(
        &mut self,
        side: &Side<'a>,
        folders: &BTreeSet<&'a str>,
        judge: &Selection,
    ) -> Result<Vec<(&'a str, Arc<Facts>)>, Unplanned> {
        let digest = |folder: &str| side.models.get(folder).map_or(0, |(_, digest)| *digest);
        let missing: BTreeSet<&str> =
            folders.iter().copied().filter(|folder| !self.facts.contains_key(&digest(folder))).collect();
        if self.facts.len() + missing.len() > MOST_FACTS {
            self.facts.clear();
            return if missing.len() < folders.len() { self.facts_of(side, folders, judge) } else { Ok(Vec::new()) };
        }
        if !missing.is_empty() {
            let mut found: HashMap<&str, Facts> = HashMap::new();
            let desired = self.desired(side, &missing, judge)?;
            for rendered in &desired.rendered {
                let facts = found.entry(split(&rendered.source).0).or_default();
                facts.counts = true;
                facts.names.insert(rendered.model.clone());
                facts.objects.extend(rendered.objects.iter().map(|one| one.object.reference().identity()));
                facts.rest.objects += rendered.objects.len();
            }
            for broken in &desired.selection.broken {
                let facts = found.entry(split(&broken.source).0).or_default();
                facts.counts = true;
                facts.names.extend(broken.name.clone());
            }
            let alone = plan::compare(&Comparison {
                base: &desired.rendered,
                head: &desired.rendered,
                ..Comparison::default()
            });
            for change in &alone.changes {
                let Some(facts) = found.get_mut(split(&change.source).0) else { continue };
                facts.rest.gpus.add(change.gpus);
                for (sku, totals) in &change.gpus_by_sku {
                    facts.rest.gpus_by_sku.entry(sku.clone()).or_default().add(*totals);
                }
            }
            for folder in missing {
                let facts = found.remove(folder).unwrap_or_default();
                self.facts.insert(digest(folder), Arc::new(facts));
            }
        }
        let line = |folder: &&'a str| Some((*folder, Arc::clone(self.facts.get(&digest(folder))?)));
        Ok(folders.iter().filter_map(line).collect())
    }

    fn render(
        &self,
        base: &Side<'_>,
        head: &Side<'_>,
        folders: &BTreeSet<&str>,
        judge: &Selection,
    ) -> Result<(Desired, Desired), Unplanned> {
        let head = self.desired(head, folders, judge)?;
        let base = match self.desired(base, folders, judge) {
            Ok(base) => base,
            // The base has no such environment, or could not be read: then all of it is new.
            Err(_) => Desired::of(Selection {
                intents: Vec::new(),
                broken: Vec::new(),
                findings: Vec::new(),
                ..judge.clone()
            }),
        };
        Ok((base, head))
    }

    /// These models of a side, rendered, and judged as the base branch judges.
    fn desired(&self, side: &Side<'_>, folders: &BTreeSet<&str>, judge: &Selection) -> Result<Desired, Unplanned> {
        let models = side.models.iter().filter(|(folder, _)| folders.contains(*folder));
        let files = side.settings.iter().chain(models.flat_map(|(_, (files, _))| files));
        let mut files: Vec<SourceFile> = files.map(|file| (*file).clone()).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let workspace = Workspace::parse(&SourceTree { files });
        let mut selection = workspace.environment(Some(&judge.name)).map_err(|error| unplanned(&error, true))?;
        selection.policy.clone_from(&judge.policy);
        selection.guards = judge.guards.clone();
        selection.prices.clone_from(&judge.prices);
        if let Some(namespace) = &self.namespace {
            selection.environment.namespace = namespace.clone();
        }
        Ok(Desired::of(selection))
    }
}

/// A folder's ancestors, from the root down to itself.
fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    std::iter::once("").chain(ends.filter(|end| *end > 0).filter_map(|end| folder.get(..end)))
}

fn names_of(desired: &Desired) -> impl Iterator<Item = String> {
    let broken = desired.selection.broken.iter().filter_map(|one| one.name.clone());
    desired.rendered.iter().map(|one| one.model.clone()).chain(broken)
}

fn objects_of(desired: &Desired) -> impl Iterator<Item = ObjectIdentity> {
    desired.rendered.iter().flat_map(|one| one.objects.iter().map(|object| object.object.reference().identity()))
}

/// The files that are not the same on both sides.
fn differing<'a>(base: &'a SourceTree, head: &'a SourceTree) -> BTreeSet<&'a str> {
    let by_path = |tree: &'a SourceTree| -> BTreeMap<&'a str, &'a SourceFile> {
        tree.files.iter().map(|file| (file.path.as_str(), file)).collect()
    };
    let (base, head) = (by_path(base), by_path(head));
    let paths: BTreeSet<&str> = base.keys().chain(head.keys()).copied().collect();
    paths
        .into_iter()
        .filter(|path| base.get(path).map(|one| &one.content) != head.get(path).map(|one| &one.content))
        .collect()
}

fn notes(changed: &BTreeSet<&str>) -> Vec<String> {
    if changed.contains(SETTINGS) {
        return vec![
            "This changes the repository's `stator.yaml`. Its policy, guards and prices are not in force before it is \
             merged: what is shown was judged by those of the base branch."
                .to_owned(),
        ];
    }
    Vec::new()
}

fn unplanned(error: &EnvironmentError, by_head: bool) -> Unplanned {
    let whose = if by_head { "as the pull request has it" } else { "of the base branch" };
    let help = match error {
        EnvironmentError::Unknown { .. } => {
            format!("name the environment in the root stator.yaml {whose}, or in the source's `spec.environment`")
        }
        EnvironmentError::Ambiguous { .. } => "name one in the source's `spec.environment`".to_owned(),
        EnvironmentError::Unreadable { .. } => {
            format!("mend the root stator.yaml {whose}; `stator validate` says what is wrong")
        }
    };
    let reason = match error {
        EnvironmentError::Ambiguous { known } => {
            format!("the repository has several environments: {}", known.join(", "))
        }
        EnvironmentError::Unknown { .. } | EnvironmentError::Unreadable { .. } => error.to_string(),
    };
    Unplanned { reason, help, by_head }
}

#[cfg(test)]
mod tests;
