//! What an environment is to look like: its models, rendered and held to its policy; and from there to a plan's input.

use super::gather::{find_strays, gather_models, gather_namespace};
use super::list_scope::ListScope;
use super::{GatherError, GatheredState};
use crate::cluster::{AnyCluster, Cluster};
use rayon::prelude::*;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::{gpus, kinds};
use stator_core::finding::limit::{MAX_FILE_FINDINGS, MAX_FINDINGS, limit_findings};
use stator_core::finding::{self, Finding, Location};
use stator_core::object::ObjectRef;
use stator_model::fleet_policy::{BoundPolicies, SourcePolicies};
use stator_model::intent::model::ReplacementOrder;
use stator_model::intent::policy::{CompiledPolicy, JudgedModel};
use stator_model::intent::{BrokenIntent, Intent, ResolvedEnvironment, StoredIntent, rules};
use stator_model::plan::{
    self, HoldKind, PlanInput, PlanScope, RewoundBranch, ServerAnswers, SourceClaim, UnchangedSummary,
    alternate_graph_name,
};
use stator_model::render::{self, RenderTarget, RenderedModel, RenderedText};
use std::collections::BTreeSet;

/// How many models are trees at a time, and of how many packed bytes, or one that has more.
const RENDERED_AT_ONCE: usize = 1024;
const BYTES_RENDERED_AT_ONCE: usize = 8 << 20;

/// One environment, rendered.
#[derive(Debug)]
pub struct DesiredState {
    /// The environment and what is said of it; its intents are rendered and gone.
    pub selection: ResolvedEnvironment,
    /// Where they go.
    pub target: RenderTarget,
    /// What they render to, the models without errors only.
    pub rendered: Vec<RenderedText>,
    /// Findings of files, models, policy and rendering, sorted.
    pub findings: Vec<Finding>,
    /// See [`PlanInput::owner`].
    pub owner: Option<SourceClaim>,
}

/// What a plan is to be about, besides what is desired and what is live.
#[derive(Clone, Debug, Default)]
pub struct PlanParameters {
    /// The commit; see [`PlanInput::revision`].
    pub revision: String,
    /// See [`PlanInput::folder`].
    pub folder: Option<String>,
    /// See [`PlanInput::rewound`].
    pub rewound: Option<RewoundBranch>,
    /// What was allowed.
    pub allow: BTreeSet<HoldKind>,
    /// Whether to delete objects that are no longer in git.
    pub prune: bool,
    /// Which models.
    pub scope: PlanScope,
}

impl DesiredState {
    /// Renders an environment, held to what the administrators allow its source.
    pub fn render(mut selection: ResolvedEnvironment, policies: &SourcePolicies) -> Self {
        let target = target_of(&selection);
        let bound = policies.bind(&target.namespace);
        refuse_source(&mut selection, &bound);
        let (mut rendered, mut judged) = (Vec::with_capacity(selection.intents.len()), Vec::new());
        let mut policy = EnvironmentPolicy::of(&selection);
        // Models are judged as trees and kept as texts, some at a time: there may be a hundred thousand of them.
        let mut stored = std::mem::take(&mut selection.intents).into_iter();
        while stored.len() > 0 {
            let some = next_batch(&mut stored);
            let loaded: Vec<Result<Intent, BrokenIntent>> = some.par_iter().map(StoredIntent::load).collect();
            let mut intents = Vec::with_capacity(loaded.len());
            for one in loaded {
                match one {
                    Ok(intent) => intents.push(intent),
                    Err(broken) => {
                        let (place, help) = (Location::file(&broken.source), "Report this with the file.");
                        let message = "the model cannot be read again";
                        selection.findings.push(Finding::error(rules::SCHEMA_REFUSED, place, message, help));
                        selection.broken.push(broken);
                    }
                }
            }
            let mut models = render::render_all(&intents, &target);
            // Both look at everything that a model renders to, before either takes it away.
            let of_fleet = intents.par_iter().zip(&models).map(|(one, model)| bound.judge(&selection.name, one, model));
            judged.par_extend(of_fleet);
            policy.apply(&intents, &mut models);
            rendered.par_extend(models.into_par_iter().map(RenderedModel::into_text));
        }
        refuse_models(&mut rendered, bound.judge_together(judged));
        let mut findings = selection.findings.clone();
        findings.extend(rendered.iter().flat_map(|model| model.findings.iter().cloned()));
        findings.extend(plan::duplicate_findings(&rendered));
        finding::sort_and_dedup(&mut findings);
        limit_findings(&mut findings, MAX_FINDINGS, &Location::default());
        Self { selection, target, rendered, findings, owner: None }
    }

    /// The same, with the source that it belongs to.
    #[must_use]
    pub fn owned_by(self, owner: SourceClaim) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// The models that cannot be synced, since they or what they render to have errors; of those whose `model.yaml` is
    /// asked for.
    pub fn failed_models(&self, asked_for: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let broken = self.selection.broken.iter();
        // A broken intent may lack even a name; its path then stands for it.
        let broken = broken.map(|one| (one.name.as_deref().unwrap_or(&one.source), &one.source));
        let refused = self.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
        let refused = refused.map(|one| (one.model.as_str(), &one.source));
        broken.chain(refused).filter(|(_, source)| asked_for(source)).map(|(name, _)| name.to_owned()).collect()
    }

    /// Looks at everything that a plan of these objects needs to know of a cluster.
    ///
    /// # Errors
    /// As for [`super::gather()`]: a part of the view is no view.
    pub async fn gather_live<C: Cluster>(&self, cluster: &C) -> Result<GatheredState, GatherError> {
        let here = self.gather_live_here(cluster, &ListScope::default()).await?;
        let strays = find_strays(cluster, &self.target, self.owner.as_ref(), &here.records).await;
        Ok(GatheredState { strays, ..here })
    }

    /// The same, without what is left behind elsewhere: see [`super::find_strays`]. `lists` says what lists show.
    ///
    /// # Errors
    /// As for [`DesiredState::gather_live`].
    pub async fn gather_live_here<C: Cluster>(
        &self,
        cluster: &C,
        lists: &ListScope,
    ) -> Result<GatheredState, GatherError> {
        let wanted = self.object_refs();
        gather_namespace(cluster, &self.target, self.owner.as_ref(), &wanted, lists).await
    }

    /// The same of these models alone, for a plan of them that deletes nothing.
    ///
    /// # Errors
    /// As for [`DesiredState::gather_live`].
    pub async fn gather_live_of<C: Cluster>(
        &self,
        cluster: &C,
        models: &BTreeSet<String>,
    ) -> Result<GatheredState, GatherError> {
        gather_models(cluster, &self.target, self.owner.as_ref(), &self.object_refs(), models).await
    }

    /// The records of its models, where there are any, whosever they are.
    pub fn record_refs(&self) -> impl Iterator<Item = ObjectRef> {
        let broken = self.selection.broken.iter().filter_map(|one| one.name.as_deref());
        self.rendered
            .iter()
            .map(|one| one.model.as_str())
            .chain(broken)
            .map(|model| kinds::RECORD.reference(&self.target.namespace, model))
    }

    /// What it is made of, and the second name of graphs that are replaced new-first: something else may have it.
    fn object_refs(&self) -> Vec<ObjectRef> {
        let refs = |model: &RenderedText| -> Vec<ObjectRef> {
            let own: Vec<ObjectRef> = model.objects.iter().map(|object| object.object.reference().clone()).collect();
            let is_doubled = |object: &&ObjectRef| {
                object.kind == kinds::GRAPH.kind && model.replacement == ReplacementOrder::NewFirst
            };
            let second: Vec<ObjectRef> = own
                .iter()
                .filter(is_doubled)
                .map(|object| ObjectRef { name: alternate_graph_name(&object.name), ..object.clone() })
                .collect();
            own.into_iter().chain(second).collect()
        };
        self.rendered.iter().flat_map(refs).collect()
    }

    /// What a plan of these is made of.
    pub fn into_plan_input(self, live: GatheredState, aim: PlanParameters) -> PlanInput {
        let Self { selection, target, rendered, findings: _, owner } = self;
        PlanInput {
            repository: target.repository,
            folder: aim.folder,
            owner,
            environment: target.environment,
            namespace: target.namespace,
            platform: target.platform,
            revision: aim.revision,
            findings: selection.findings,
            model_findings: selection.model_findings,
            rendered,
            broken: selection.broken,
            unread: selection.unread,
            live: live.live,
            users: live.users,
            records: live.records,
            journals: live.journals,
            strays: live.strays,
            places: selection.places,
            unreadable: live.damaged,
            unlisted: live.unlisted,
            guards: selection.guards,
            rewound: aim.rewound,
            prices: selection.prices,
            allow: aim.allow,
            prune: aim.prune,
            scope: aim.scope,
            empty_render: false,
            answers: ServerAnswers::default(),
            unchanged: UnchangedSummary::default(),
        }
    }
}

/// The next models that are rendered together.
fn next_batch(stored: &mut std::vec::IntoIter<StoredIntent>) -> Vec<StoredIntent> {
    let mut bytes = 0_usize;
    let fits = |one: &&StoredIntent| {
        bytes = bytes.saturating_add(one.packed_bytes());
        bytes <= BYTES_RENDERED_AT_ONCE
    };
    let count = stored.as_slice().iter().take(RENDERED_AT_ONCE).take_while(fits).count();
    stored.take(count.max(1)).collect()
}

/// Where the objects of an environment go.
pub fn target_of(selection: &ResolvedEnvironment) -> RenderTarget {
    RenderTarget {
        repository: selection.repository.clone(),
        environment: selection.name.clone(),
        namespace: selection.environment.namespace.to_string(),
        platform: selection.environment.platform.clone().unwrap_or_default(),
    }
}

/// Adds the GPUs of the cluster's nodes to what is known of it, where they may be listed.
pub async fn read_gpus(cluster: &AnyCluster, platform: &mut Platform) {
    let Some(kube) = cluster.as_kubernetes() else { return };
    match kube.allocatable_gpus().await {
        Ok(gpus) => platform.gpus = Some(gpus),
        Err(error) => tracing::debug!(%error, "the GPUs of the nodes are not known"),
    }
}

/// Adds what the cluster runs and has to what the environment says of it. What is installed beside Dynamo the environment
/// knows best, and the cluster which definitions it serves. A cluster that does not tell leaves it at that: models that need
/// more get their warning.
pub async fn detect_platform<C: Cluster>(cluster: &C, selection: &mut ResolvedEnvironment) {
    let stated = selection.environment.platform.take().unwrap_or_default();
    let found = cluster.platform(&stated).await;
    let platform = match &found {
        Ok(found) => stated.or(found),
        Err(_) => stated,
    };
    if let Some((stated, served)) = platform.release_mismatch() {
        let finding = Finding::warning(
            rules::DYNAMO_RELEASE,
            Location::file("stator.yaml"),
            format!(
                "environment {} declares Dynamo {stated}, but its cluster serves the definitions of {served}",
                selection.name
            ),
            format!(
                "stator uses the cluster's release; set `platform: {{dynamo: \"{served}\"}}` under the environment, or \
                 omit it"
            ),
        );
        if !selection.findings.contains(&finding) {
            selection.findings.push(finding);
        }
    }
    selection.environment.platform = Some(platform);
    if let Err(error) = found {
        tracing::info!(%error, "what the cluster runs could not be read");
    }
}

/// Where a policy refuses a source as a whole, no model of it is rendered, and nothing of it is pruned.
fn refuse_source(selection: &mut ResolvedEnvironment, policies: &BoundPolicies) {
    let refusals = policies.refusals();
    let Some((first, others)) = refusals.split_first() else { return };
    let models = std::mem::take(&mut selection.intents);
    let models = models.into_iter().map(|intent| (intent.name.to_string(), intent.source));
    selection.break_all(models, first);
    selection.findings.extend_from_slice(others);
}

/// Adds what the administrators' policies say of each model. One that breaks a policy is not applied.
fn refuse_models(rendered: &mut [RenderedText], found: Vec<Vec<Finding>>) {
    for (model, found) in rendered.iter_mut().zip(found).filter(|(_, found)| !found.is_empty()) {
        if found.iter().any(Finding::is_error) {
            model.objects.clear();
        }
        model.findings.extend(found);
        limit_findings(&mut model.findings, MAX_FILE_FINDINGS, &Location::file(&model.source));
    }
}

/// The environment's own policy, over all of its models.
struct EnvironmentPolicy {
    rules: CompiledPolicy,
    environment: String,
    /// Steps of the models so far.
    spent: u64,
    /// Findings of the models so far.
    reported: usize,
}

impl EnvironmentPolicy {
    fn of(selection: &ResolvedEnvironment) -> Self {
        let rules = CompiledPolicy::new(&selection.policy);
        Self { rules, environment: selection.name.clone(), spent: 0, reported: 0 }
    }

    /// Adds what the policy says of the next models. A model that breaks a rule is not applied.
    fn apply(&mut self, intents: &[Intent], rendered: &mut [RenderedModel]) {
        let gpus = |rendered: &RenderedModel| {
            let used = rendered.objects.iter().map(|desired| gpus::gpu_use(&desired.object).total());
            used.fold(0, u64::saturating_add)
        };
        // Rendering keeps the order of the intents.
        let judged_models = intents.iter().zip(rendered.iter()).map(|(intent, model)| JudgedModel {
            intent,
            gpus: gpus(model),
            objects: model.objects.iter().map(|desired| desired.object.value()).collect(),
        });
        let models: Vec<_> = judged_models.collect();
        let judged = self.rules.judge(&models, &self.environment, &mut self.spent);
        for (rendered, found) in rendered.iter_mut().zip(judged) {
            if found.iter().any(Finding::is_error) {
                rendered.objects.clear();
            }
            rendered.findings.extend(found);
            let most = if self.reported < MAX_FINDINGS { MAX_FILE_FINDINGS } else { 1 };
            limit_findings(&mut rendered.findings, most, &Location::file(&rendered.source));
            self.reported = self.reported.saturating_add(rendered.findings.len());
        }
    }
}
