//! What a pull request would change, from the files of three commits and the definitions that the cluster serves: no object
//! of it, no secret.
//!
//! What is *wished* comes from the pull request: models, overlays, locks, defaults, and what `stator.yaml` says of
//! environments. What *judges* comes from the base branch as it is now: policy, guards and prices. So nobody lets himself
//! through, and yet a change of defaults shows what it does.
//!
//! Only models whose files, or settings above them, differ are parsed and rendered. Of all others a line is kept, by the
//! content of their files: whose names and objects they are, and how many GPUs. Sums, guards and clashes of names are
//! therefore those of the whole environment.

use crate::controller::commit_reading::CommitReading;
use stator_cluster::sync::{DesiredState, UpgradedEnvironment};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Definitions;
use stator_core::finding::Finding;
use stator_core::mask::star_tokens;
use stator_core::object::ObjectIdentity;
use stator_git::forge::PullRequest;
use stator_model::fleet_policy::SourcePolicies;
use stator_model::intent::scalar::DnsName;
use stator_model::intent::{
    EnvironmentError, ResolvedEnvironment, SourceFile, SourceTree, TreeSize, UnreadPlace, Workspace,
};
use stator_model::plan::UpgradeForesight;
use stator_model::plan::{self, Action, Change, Plan, RevisionComparison, UnchangedTotals};
use stator_view::facts::PreviewFacts;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::Arc;

/// The most changes of one pull request that pages show.
const MAX_SHOWN_CHANGES: usize = 500;
/// The name of settings, at the root and below.
const SETTINGS_FILE: &str = "stator.yaml";
/// Lines of models that are kept: more than the files that a commit may have, so that those of one side are always known.
const MAX_MODEL_FACTS: usize = 250_000;

/// The commits that a preview is made of.
#[derive(Clone, Debug, Default)]
pub struct PullRequestTrees {
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
    /// The memory that they may take, until they are planned.
    pub reading: Option<Arc<CommitReading>>,
}

/// What would change.
#[derive(Clone, Debug)]
pub struct PullRequestPlan {
    /// The plan. Models that are the same on both sides are in its sums alone.
    pub plan: Plan,
    /// How many models the environment has.
    pub models: usize,
    /// What a reader has to know, a sentence each.
    pub notes: Vec<String>,
}

/// Why there is no plan: the repository does not determine the environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PullRequestPlanError {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub help: String,
    /// Whether the pull request is at fault, and not the base branch.
    pub is_head_at_fault: bool,
}

/// What is kept of a model that did not change.
#[derive(Clone, Debug, Default)]
struct PreviewModelFacts {
    /// The names and objects that it takes; empty for one that the environment does not have.
    names: BTreeSet<String>,
    objects: Vec<ObjectIdentity>,
    rest: UnchangedTotals,
    counts: bool,
    /// It has errors that hide its name, so that it may be any model that is gone.
    is_nameless: bool,
}

/// Plans pull requests of one source.
#[derive(Debug, Default)]
pub struct PullRequestPlanner {
    environment: Option<String>,
    namespace: Option<DnsName>,
    hash: RandomState,
    facts: HashMap<u64, Arc<PreviewModelFacts>>,
    policies: SourcePolicies,
    /// What the cluster runs and has, as far as it was asked.
    platform: Platform,
    /// What the facts were judged by.
    policy_digest: u64,
}

/// One side, cut into settings and models.
struct PreviewSide<'a> {
    settings: Vec<&'a SourceFile>,
    /// Folder → its files, and a digest of all that the model is made from.
    models: BTreeMap<&'a str, (Vec<&'a SourceFile>, u64)>,
    /// Folder → the files that its model mounts.
    mounted: &'a BTreeMap<String, Vec<SourceFile>>,
    /// What is not looked into.
    unread: &'a [UnreadPlace],
    /// How much there is to read.
    size: TreeSize,
}

fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl PullRequestPlanner {
    /// For an environment, or the only one there is; in its own namespace, or in this one.
    pub fn new(environment: Option<String>, namespace: Option<DnsName>) -> Self {
        Self { environment, namespace, ..Self::default() }
    }

    /// Judges by these policies of the administrators from now on.
    pub fn hold_to(&mut self, policies: SourcePolicies) {
        if policies.digest() != self.policies.digest() {
            self.facts.clear();
        }
        self.policies = policies;
    }

    /// Judges by what this cluster runs from now on.
    pub fn judge_for(&mut self, platform: Platform) {
        if platform != self.platform {
            self.facts.clear();
        }
        self.platform = platform;
    }

    /// What the pull request would change.
    ///
    /// # Errors
    /// When the repository does not determine the environment.
    pub fn plan(&mut self, sides: &PullRequestTrees) -> Result<PullRequestPlan, PullRequestPlanError> {
        let settings = self.base_policy(&sides.tip)?;
        let judged = self.digest_files(sides.tip.files.iter().filter(|file| file.path == SETTINGS_FILE));
        if std::mem::replace(&mut self.policy_digest, judged) != judged {
            self.facts.clear();
        }
        let (base, head) = (self.split_side(&sides.base), self.split_side(&sides.head));
        let digest = |side: &PreviewSide<'_>, folder: &str| side.models.get(folder).map(|(_, digest)| *digest);
        let folders: BTreeSet<&str> = base.models.keys().chain(head.models.keys()).copied().collect();
        let (mut affected, same): (BTreeSet<&str>, BTreeSet<&str>) =
            // What models take together is known when all of them are looked at.
            folders.into_iter().partition(|folder| {
                self.policies.has_quotas() || digest(&base, folder) != digest(&head, folder)
            });
        let facts = self.model_facts(&head, &same, &settings)?;

        let mut pair = self.render_sides(&base, &head, &affected, &settings)?;
        // Who has the name or an object of one that changes is looked at as well: which of both counts is for the plan.
        let taken = names_of(&pair.0).chain(names_of(&pair.1)).collect::<BTreeSet<String>>();
        let objects: BTreeSet<ObjectIdentity> = objects_of(&pair.0).chain(objects_of(&pair.1)).collect();
        let clashes = |facts: &PreviewModelFacts| {
            facts.is_nameless
                || !facts.names.is_disjoint(&taken)
                || facts.objects.iter().any(|object| objects.contains(object))
        };
        let more: Vec<&str> = facts.iter().filter(|(_, facts)| clashes(facts)).map(|(folder, _)| *folder).collect();
        if !more.is_empty() {
            affected.extend(more);
            pair = self.render_sides(&base, &head, &affected, &settings)?;
        }
        let (base_desired, head_desired) = pair;

        let mut rest = UnchangedTotals::default();
        let mut models = head_desired.rendered.len() + head_desired.selection.broken.len();
        for (_, facts) in facts.iter().filter(|(folder, _)| !affected.contains(*folder)) {
            rest.add(&facts.rest);
            models += usize::from(facts.counts);
        }
        // What was there before and lies in files that stay as they are is not of this pull request.
        let changed = changed_files(&sides.base, &sides.head);
        let known: BTreeSet<(String, String)> =
            base_desired.findings.iter().map(|one| (one.location.file.clone(), one.message.clone())).collect();
        let is_new = |one: &Finding| {
            changed.contains(one.location.file.as_str())
                || !known.contains(&(one.location.file.clone(), one.message.clone()))
        };
        let findings: Vec<Finding> = head_desired.findings.iter().filter(|one| is_new(one)).cloned().collect();
        let quiet = |mut desired: DesiredState| {
            desired.rendered.iter_mut().for_each(|one| one.findings.retain(Finding::is_error));
            desired
        };
        let (base_desired, head_desired) = (quiet(base_desired), quiet(head_desired));
        let mut plan = plan::compare_revisions(&RevisionComparison {
            repository: &head_desired.target.repository,
            environment: &head_desired.target.environment,
            base: &base_desired.rendered,
            base_revision: &sides.base_commit,
            base_broken: &base_desired.selection.broken,
            head: &head_desired.rendered,
            head_revision: &sides.head_commit,
            broken: &head_desired.selection.broken,
            unread: &head_desired.selection.unread,
            findings: &findings,
            prices: settings.prices.as_ref(),
            guards: settings.guards.clone(),
            unchanged: rest,
            platform: head_desired.target.platform.clone(),
        });
        plan.findings.retain(is_new);
        plan.upgrade = self.foresee_upgrade(sides, &settings).map(Box::new);
        Ok(PullRequestPlan { plan, models, notes: settings_notes(&changed) })
    }

    /// What the release of Dynamo does that the pull request names, where the base names another one.
    fn foresee_upgrade(&self, sides: &PullRequestTrees, settings: &ResolvedEnvironment) -> Option<UpgradeForesight> {
        let select = |workspace: &Workspace| {
            let mut selection = workspace.resolve_environment(Some(&settings.name)).ok()?;
            selection.policy.clone_from(&settings.policy);
            if let Some(namespace) = &self.namespace {
                selection.environment.namespace = namespace.clone();
            }
            Some(selection)
        };
        let of_root = |tree: &SourceTree| {
            let root = tree.files.iter().filter(|file| file.path == SETTINGS_FILE).cloned().collect();
            select(&Workspace::parse(&SourceTree { files: root, ..SourceTree::default() }))?.environment.platform
        };
        let stated = of_root(&sides.head)?;
        let had = of_root(&sides.base).and_then(|platform| platform.dynamo);
        let to = stated.dynamo.filter(|to| Some(*to) != had)?;
        let platform = stated.or(&self.platform);
        let from = self.platform.served.as_ref().map(Definitions::release).or(had).filter(|from| *from != to)?;
        let upgraded = UpgradedEnvironment {
            name: &settings.name,
            tree: &sides.head,
            select: &select,
            policies: &self.policies,
            platform: &platform,
            is_asked: &|_| true,
            live: &BTreeMap::new(),
        };
        Some(upgraded.foresee(from, to))
    }

    /// Policy, guards and prices as the base branch has them now, without its models.
    fn base_policy(&self, tip: &SourceTree) -> Result<ResolvedEnvironment, PullRequestPlanError> {
        let root = tip.files.iter().filter(|file| file.path == SETTINGS_FILE).cloned().collect();
        let workspace = Workspace::parse(&SourceTree { files: root, ..SourceTree::default() });
        workspace.resolve_environment(self.environment.as_deref()).map_err(|error| plan_error(&error, false))
    }

    fn split_side<'a>(&self, tree: &'a SourceTree) -> PreviewSide<'a> {
        let mut side = PreviewSide {
            settings: Vec::new(),
            models: BTreeMap::new(),
            mounted: &tree.mounted_files,
            unread: &tree.unread,
            size: tree.size(),
        };
        for file in &tree.files {
            match split_path(&file.path) {
                (_, SETTINGS_FILE) => side.settings.push(file),
                (folder, _) => side.models.entry(folder).or_insert_with(|| (Vec::new(), 0)).0.push(file),
            }
        }
        let chains: BTreeMap<&str, u64> =
            side.settings.iter().map(|file| (split_path(&file.path).0, self.digest_files([*file]))).collect();
        for (folder, (files, digest)) in &mut side.models {
            let mut hasher = self.hash.build_hasher();
            for above in ancestors(folder) {
                hasher.write_u64(chains.get(above).copied().unwrap_or_default());
            }
            hasher.write_u64(self.digest_files(files.iter().copied()));
            hasher.write_u64(self.digest_files(side.mounted.get(*folder).into_iter().flatten()));
            *digest = hasher.finish();
        }
        side
    }

    fn digest_files<'a>(&self, files: impl IntoIterator<Item = &'a SourceFile>) -> u64 {
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
    fn model_facts<'a>(
        &mut self,
        side: &PreviewSide<'a>,
        folders: &BTreeSet<&'a str>,
        settings: &ResolvedEnvironment,
    ) -> Result<Vec<(&'a str, Arc<PreviewModelFacts>)>, PullRequestPlanError> {
        let digest = |folder: &str| side.models.get(folder).map_or(0, |(_, digest)| *digest);
        let missing: BTreeSet<&str> =
            folders.iter().copied().filter(|folder| !self.facts.contains_key(&digest(folder))).collect();
        if self.facts.len() + missing.len() > MAX_MODEL_FACTS {
            self.facts.clear();
            return if missing.len() < folders.len() {
                self.model_facts(side, folders, settings)
            } else {
                Ok(Vec::new())
            };
        }
        if !missing.is_empty() {
            let mut found: HashMap<&str, PreviewModelFacts> = HashMap::new();
            // A side that is too large says nothing of its models.
            let desired = self.render_side(side, &missing, settings, &self.policies)?;
            for rendered in &desired.rendered {
                let facts = found.entry(split_path(&rendered.source).0).or_default();
                facts.counts = true;
                facts.names.insert(rendered.model.clone());
                facts.objects.extend(rendered.objects.iter().map(|one| one.object.reference().identity()));
                facts.rest.objects += rendered.objects.len();
            }
            for broken in &desired.selection.broken {
                let facts = found.entry(split_path(&broken.source).0).or_default();
                facts.counts = true;
                facts.names.extend(broken.name.clone());
                facts.is_nameless |= broken.name.is_none();
            }
            let alone = plan::compare_revisions(&RevisionComparison {
                base: &desired.rendered,
                head: &desired.rendered,
                ..RevisionComparison::default()
            });
            for change in &alone.changes {
                let Some(facts) = found.get_mut(split_path(&change.source).0) else { continue };
                facts.rest.gpus.add(change.gpus);
                plan::GpuTotals::add_by_sku(&mut facts.rest.gpus_by_sku, &change.gpus_by_sku);
            }
            for folder in missing {
                let facts = found.remove(folder).unwrap_or_default();
                self.facts.insert(digest(folder), Arc::new(facts));
            }
        }
        let line = |folder: &&'a str| Some((*folder, Arc::clone(self.facts.get(&digest(folder))?)));
        Ok(folders.iter().filter_map(line).collect())
    }

    fn render_sides(
        &self,
        base: &PreviewSide<'_>,
        head: &PreviewSide<'_>,
        folders: &BTreeSet<&str>,
        settings: &ResolvedEnvironment,
    ) -> Result<(DesiredState, DesiredState), PullRequestPlanError> {
        let head = self.render_side(head, folders, settings, &self.policies.of_size(head.size))?;
        let base = match self.render_side(base, folders, settings, &self.policies.of_size(base.size)) {
            Ok(base) => base,
            // The base has no such environment, or could not be read: then all of it is new.
            Err(_) => {
                let nothing = ResolvedEnvironment {
                    intents: Vec::new(),
                    broken: Vec::new(),
                    findings: Vec::new(),
                    ..settings.clone()
                };
                DesiredState::render(nothing, &SourcePolicies::default())
            }
        };
        Ok((base, head))
    }

    /// These models of a side, rendered, and judged as the base branch judges.
    fn render_side(
        &self,
        side: &PreviewSide<'_>,
        folders: &BTreeSet<&str>,
        settings: &ResolvedEnvironment,
        policies: &SourcePolicies,
    ) -> Result<DesiredState, PullRequestPlanError> {
        let models = side.models.iter().filter(|(folder, _)| folders.contains(*folder));
        let files = side.settings.iter().chain(models.flat_map(|(_, (files, _))| files));
        let mut files: Vec<SourceFile> = files.map(|file| (*file).clone()).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let left_out = side.models.keys().filter(|folder| !folders.contains(*folder));
        let omitted_folders = left_out.map(|folder| (*folder).to_owned()).collect();
        let mounted = side.mounted.iter().filter(|(folder, _)| folders.contains(folder.as_str()));
        let mounted_files = mounted.map(|(folder, files)| (folder.clone(), files.clone())).collect();
        let unread = side.unread.to_vec();
        let workspace = Workspace::parse(&SourceTree { files, mounted_files, unread, omitted_folders });
        let mut selection =
            workspace.resolve_environment(Some(&settings.name)).map_err(|error| plan_error(&error, true))?;
        selection.policy.clone_from(&settings.policy);
        selection.guards = settings.guards.clone();
        selection.prices.clone_from(&settings.prices);
        if let Some(namespace) = &self.namespace {
            selection.environment.namespace = namespace.clone();
        }
        let stated = selection.environment.platform.take().unwrap_or_default();
        selection.environment.platform = Some(stated.or(&self.platform));
        Ok(DesiredState::render(selection, policies))
    }
}

/// A folder's ancestors, from the root down to itself.
fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    std::iter::once("").chain(ends.filter(|end| *end > 0).filter_map(|end| folder.get(..end)))
}

fn names_of(desired: &DesiredState) -> impl Iterator<Item = String> {
    let broken = desired.selection.broken.iter().filter_map(|one| one.name.clone());
    desired.rendered.iter().map(|one| one.model.clone()).chain(broken)
}

fn objects_of(desired: &DesiredState) -> impl Iterator<Item = ObjectIdentity> {
    desired.rendered.iter().flat_map(|one| one.objects.iter().map(|object| object.object.reference().identity()))
}

/// The files that are not the same on both sides.
fn changed_files<'a>(base: &'a SourceTree, head: &'a SourceTree) -> BTreeSet<&'a str> {
    let by_path = |tree: &'a SourceTree| -> BTreeMap<&'a str, &'a SourceFile> {
        let mounted = tree.mounted_files.values().flatten();
        tree.files.iter().chain(mounted).map(|file| (file.path.as_str(), file)).collect()
    };
    let (base, head) = (by_path(base), by_path(head));
    let paths: BTreeSet<&str> = base.keys().chain(head.keys()).copied().collect();
    paths
        .into_iter()
        .filter(|path| base.get(path).map(|one| &one.content) != head.get(path).map(|one| &one.content))
        .collect()
}

fn settings_notes(changed: &BTreeSet<&str>) -> Vec<String> {
    if changed.contains(SETTINGS_FILE) {
        return vec![
            "This changes the repository's `stator.yaml`. Its policy, guards and prices apply only after the merge; \
             this preview uses those of the base branch."
                .to_owned(),
        ];
    }
    Vec::new()
}

fn plan_error(error: &EnvironmentError, by_head: bool) -> PullRequestPlanError {
    let whose = if by_head { "of the pull request" } else { "of the base branch" };
    let help = match error {
        EnvironmentError::Unknown { .. } => {
            format!("name the environment in the root stator.yaml {whose}, or in the source's `spec.environment`")
        }
        EnvironmentError::Ambiguous { .. } => "name one in the source's `spec.environment`".to_owned(),
        EnvironmentError::Unreadable { .. } => {
            format!("fix the root stator.yaml {whose}; `stator validate` shows the errors")
        }
    };
    let reason = match error {
        EnvironmentError::Ambiguous { known } => {
            format!("the repository has several environments: {}", known.join(", "))
        }
        EnvironmentError::Unknown { .. } | EnvironmentError::Unreadable { .. } => error.to_string(),
    };
    PullRequestPlanError { reason, help, is_head_at_fault: by_head }
}

/// What pages show of a pull request: of very many changes, the first.
pub fn shown_facts(pull: &PullRequest, head: &str, planned: Option<&PullRequestPlan>, summary: &str) -> PreviewFacts {
    let changes = planned.into_iter().flat_map(|planned| &planned.plan.changes);
    let changes = changes.filter(|one| one.action != Action::Keep).take(MAX_SHOWN_CHANGES);
    PreviewFacts {
        title: star_tokens(&pull.title).into_owned(),
        url: pull.url.clone(),
        head: head.to_owned(),
        summary: summary.to_owned(),
        changes: changes.map(|change| Change { before: None, after: None, ..change.clone() }).collect(),
        gpus_by_sku: planned.map(|planned| planned.plan.summary.gpus_by_sku.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
