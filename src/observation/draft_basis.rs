//! What a draft is held against: the files of a source as they were last read, and the cluster as it was then. A draft is read,
//! rendered and planned as a commit's models are, by the same functions; nothing is written, and the cluster is not asked.

use rayon::prelude::*;
use stator_cluster::sync::{DesiredState, PlanParameters};
use stator_core::dynamo::gpus;
use stator_core::dynamo::kinds::{LABEL_ENVIRONMENT, LABEL_MODEL, LABEL_REPOSITORY};
use stator_core::finding::Finding;
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use stator_model::fleet_policy::SourcePolicies;
use stator_model::intent::repository::{Environment, Guards};
use stator_model::intent::yaml::parse_yaml;
use stator_model::intent::{FileRole, Intent, ResolvedEnvironment, SourceFile, SourceTree, Workspace};
use stator_model::plan::{
    self, GpuTotals, Plan, PlanInput, PlanScope, UnchangedSummary, UnchangedTotals, alternate_graph_name, rules,
};
use stator_view::draft::{JudgedDraft, MergedModel, ModelDraft};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The files of a source, and what its environment is besides what they say.
#[derive(Clone, Debug)]
pub struct DraftSource {
    label: String,
    tree: SourceTree,
    name: String,
    environment: Environment,
    guards: Guards,
    /// What administrators allowed when the files were rendered.
    policies: Arc<SourcePolicies>,
}

impl DraftSource {
    /// Of a source of that label, whose files were read and rendered.
    pub fn new(label: String, tree: SourceTree, desired: &DesiredState, policies: Arc<SourcePolicies>) -> Self {
        let selection = &desired.selection;
        Self {
            label,
            tree,
            name: selection.name.clone(),
            environment: selection.environment.clone(),
            guards: selection.guards.clone(),
            policies,
        }
    }
}

/// What drafts of one source are held against.
#[derive(Debug)]
pub struct DraftBasis {
    source: DraftSource,
    /// Names of models, and the files of each.
    models: BTreeMap<String, BTreeSet<String>>,
    /// What a plan is made of, without models and live objects.
    input: PlanInput,
    live: Vec<LiveObject>,
}

/// A live object, and the GPUs that it holds: each draft asks for those of all the others.
#[derive(Debug)]
struct LiveObject {
    text: ObjectText,
    gpus: BTreeMap<String, u64>,
}

fn gpus_of(text: &ObjectText) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::<String, u64>::new();
    for component in gpus::gpu_use(&text.parse()).components {
        *sums.entry(component.sku().to_owned()).or_default() += component.total();
    }
    sums.retain(|_, count| *count > 0);
    sums
}

/// What was made of a model's file.
struct ReadDraft {
    desired: DesiredState,
    intent: Option<Intent>,
}

impl DraftBasis {
    /// Of a source, and of what a plan of it is made of.
    pub fn new(source: DraftSource, input: &mut PlanInput) -> Self {
        let (rendered, live) = (std::mem::take(&mut input.rendered), std::mem::take(&mut input.live));
        let mut models = BTreeMap::<String, BTreeSet<String>>::new();
        let broken = input.broken.iter().filter_map(|one| Some((one.name.as_ref()?, &one.source)));
        for (name, file) in rendered.iter().map(|one| (&one.model, &one.source)).chain(broken) {
            models.entry(name.clone()).or_default().insert(file.clone());
        }
        let input_of_drafts = input.clone();
        let live_objects = live.par_iter().map(|text| LiveObject { text: text.clone(), gpus: gpus_of(text) });
        let basis = Self { source, models, input: input_of_drafts, live: live_objects.collect() };
        (input.rendered, input.live) = (rendered, live);
        basis
    }

    /// The text of a file; `None` where there is none of that path, or where it is no text.
    pub fn stored_text(&self, file: &str) -> Option<String> {
        let files = &self.source.tree.files;
        let found = files.binary_search_by(|known| known.path.as_str().cmp(file)).ok().and_then(|at| files.get(at))?;
        String::from_utf8(found.content.as_ref().ok()?.to_vec()).ok()
    }

    /// Reads, renders and plans a draft.
    pub fn judge(&self, draft: ModelDraft) -> JudgedDraft {
        let stored = self.stored_text(&draft.file);
        let name = model_name(&draft.text);
        let stored_name = stored.as_deref().and_then(model_name);
        let stored_model = stored.as_ref().and_then(|text| self.read(&draft.file, text)?.intent).map(|one| one.model);
        let mut judged = JudgedDraft {
            source: self.source.label.clone(),
            environment: self.source.name.clone(),
            namespace: self.source.environment.namespace.to_string(),
            stored,
            model: name.clone(),
            findings: Vec::new(),
            is_left_out: false,
            objects: Vec::new(),
            plan: None,
            merged: None,
            stored_model,
            refused: None,
            draft,
        };
        let Some(ReadDraft { desired, intent }) = self.read(&judged.draft.file, &judged.draft.text) else {
            // The settings of the repository lost the environment meanwhile.
            judged.is_left_out = true;
            return judged;
        };
        let file = judged.draft.file.clone();
        let is_about = |finding: &Finding| is_about(&finding.location.file, &file);
        judged.findings = desired.findings.iter().filter(|finding| is_about(finding)).cloned().collect();
        let rendered = desired.rendered.iter().find(|one| one.source == file);
        let is_broken = desired.selection.broken.iter().any(|one| one.source == file);
        judged.is_left_out = rendered.is_none() && !is_broken;
        if judged.findings.iter().any(Finding::is_error) || rendered.is_none() {
            return judged;
        }
        judged.objects = rendered.iter().flat_map(|one| &one.objects).map(|one| one.object.parse()).collect();
        judged.merged = intent.map(|Intent { model, origins, .. }| MergedModel { model, origins });
        let plan = self.plan(desired, name.into_iter().chain(stored_name).collect());
        // What does not fit is said of no file.
        let is_said = |finding: &&Finding| is_about(finding) || finding.rule.id == rules::CAPACITY.id;
        let said = plan.findings.iter().filter(is_said).filter(|finding| !judged.findings.contains(finding));
        let said: Vec<Finding> = said.cloned().collect();
        judged.findings.extend(said);
        judged.plan = Some(plan);
        judged
    }

    /// A model's file, with the settings that hold for it and the files beside it, and whatever has its name.
    fn read(&self, file: &str, text: &str) -> Option<ReadDraft> {
        let workspace = Workspace::parse(&self.tree_with(file, text));
        let mut selection: ResolvedEnvironment = workspace.resolve_environment(Some(&self.source.name)).ok()?;
        // What the source says, and what was found of the cluster, go over what the files say.
        selection.environment.namespace = self.source.environment.namespace.clone();
        selection.environment.platform.clone_from(&self.source.environment.platform);
        selection.guards = self.source.guards.clone();
        let intent = selection.intents.iter().find(|one| one.source == file).and_then(|one| one.load().ok());
        let desired = DesiredState::render(selection, &self.source.policies);
        let desired = match &self.input.owner {
            Some(owner) => desired.owned_by(owner.clone()),
            None => desired,
        };
        Some(ReadDraft { desired, intent })
    }

    fn tree_with(&self, file: &str, text: &str) -> SourceTree {
        let tree = &self.source.tree;
        let same_name = model_name(text).and_then(|name| self.models.get(&name));
        let folders: BTreeSet<&str> =
            same_name.into_iter().flatten().map(|path| folder_of(path)).chain([folder_of(file)]).collect();
        let is_kept = |path: &str| match FileRole::of_name(path.rsplit('/').next().unwrap_or_default()) {
            FileRole::Settings => true,
            FileRole::Intent
            | FileRole::Overlay(_)
            | FileRole::Lock(_)
            | FileRole::Misnamed { .. }
            | FileRole::Other => folders.contains(folder_of(path)),
        };
        let mut files: Vec<SourceFile> =
            tree.files.iter().filter(|one| one.path != file && is_kept(&one.path)).cloned().collect();
        files.push(SourceFile { path: file.to_owned(), content: Ok(Arc::from(text.as_bytes())) });
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let others = self.models.values().flatten().map(|path| folder_of(path)).filter(|one| !folders.contains(one));
        let mounted = tree.mounted_files.iter().filter(|(folder, _)| folders.contains(folder.as_str()));
        SourceTree {
            files,
            mounted_files: mounted.map(|(folder, files)| (folder.clone(), files.clone())).collect(),
            unread: tree.unread.clone(),
            omitted_folders: others.map(str::to_owned).chain(tree.omitted_folders.iter().cloned()).collect(),
        }
    }

    /// What the draft's model would change, under its name and under the one that it had.
    fn plan(&self, desired: DesiredState, names: BTreeSet<String>) -> Plan {
        let mut own: BTreeSet<ObjectIdentity> = BTreeSet::new();
        for reference in desired.rendered.iter().flat_map(|one| &one.objects).map(|one| one.object.reference()) {
            let second = alternate_graph_name(&reference.name);
            own.insert(ObjectRef { name: second, ..reference.clone() }.identity());
            own.insert(reference.identity());
        }
        let recorded = self.input.records.iter().filter(|record| names.contains(&record.model));
        own.extend(recorded.flat_map(|record| &record.inventory).map(|entry| entry.object.identity()));
        let is_own = |object: &LiveObject| {
            let model = object.text.label(LABEL_MODEL);
            own.contains(&object.text.reference().identity()) || model.is_some_and(|model| names.contains(model))
        };
        let (near, far): (Vec<&LiveObject>, Vec<&LiveObject>) = self.live.iter().partition(|object| is_own(object));
        // Requests lead to the graphs that they made.
        let made: BTreeSet<ObjectIdentity> = near
            .iter()
            .filter_map(|object| plan::graph_made_by(&object.text.parse()))
            .map(|graph| graph.identity())
            .collect();
        let (made, far): (Vec<&LiveObject>, Vec<&LiveObject>) =
            far.into_iter().partition(|object| made.contains(&object.text.reference().identity()));
        let parameters = PlanParameters {
            revision: self.input.revision.clone(),
            folder: self.input.folder.clone(),
            prune: self.input.prune,
            scope: PlanScope::Models(names),
            ..PlanParameters::default()
        };
        let others = self.models.len();
        let totals = self.totals_of(&far);
        let input = PlanInput {
            live: near.into_iter().chain(made).map(|object| object.text.clone()).collect(),
            records: self.input.records.clone(),
            journals: self.input.journals.clone(),
            strays: self.input.strays.clone(),
            unreadable: self.input.unreadable.clone(),
            unlisted: self.input.unlisted.clone(),
            platform: self.input.platform.clone(),
            unchanged: UnchangedSummary { models: others, totals, findings: Vec::new() },
            ..desired.into_plan_input(stator_cluster::sync::GatheredState::default(), parameters)
        };
        plan::build_plan(&input)
    }

    /// What the environment's other objects hold.
    fn totals_of(&self, objects: &[&LiveObject]) -> UnchangedTotals {
        let mut totals = UnchangedTotals::default();
        let is_here = |object: &&&LiveObject| {
            let is = |label: &str, own: &str| object.text.label(label).is_none_or(|other| other == own);
            is(LABEL_REPOSITORY, &self.input.repository) && is(LABEL_ENVIRONMENT, &self.input.environment)
        };
        for object in objects.iter().filter(is_here) {
            for (sku, count) in &object.gpus {
                let same = GpuTotals { before: *count, after: *count, peak: *count };
                totals.gpus.add(same);
                totals.gpus_by_sku.entry(sku.clone()).or_default().add(same);
            }
            totals.objects += 1;
        }
        totals
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether a finding of a file is about the model of another: it stands beside it, or its settings hold for it.
fn is_about(found: &str, file: &str) -> bool {
    let (folder, name) = found.rsplit_once('/').unwrap_or(("", found));
    let own = folder_of(file);
    match FileRole::of_name(name) {
        FileRole::Settings => folder.is_empty() || own == folder || own.starts_with(&format!("{folder}/")),
        FileRole::Intent | FileRole::Overlay(_) | FileRole::Lock(_) | FileRole::Misnamed { .. } | FileRole::Other => {
            !found.is_empty() && folder == own
        }
    }
}

/// The name that a text gives its model.
fn model_name(text: &str) -> Option<String> {
    let root = parse_yaml(text.as_bytes(), 0, "").root?;
    root.get("metadata")?.get("name")?.as_str().map(str::to_owned)
}
