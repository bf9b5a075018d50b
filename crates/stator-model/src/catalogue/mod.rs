//! Recipes that come with stator: models with sizes that fit a kind of GPU, for `stator init --recipe`. What a list says
//! of a recipe is computed from its `model.yaml`, as a plan computes it.

mod prices;

pub use prices::{ESTIMATES, PriceEstimate};

use crate::intent::model::{Engine, GpuSku, Model, Worker};
use crate::intent::{SourceFile, SourceTree, Workspace, scaffold};
use crate::plan::{self, RevisionComparison};
use crate::render::{self, RenderTarget};
use serde::Serialize;
use stator_core::dynamo::admission::Platform;
use stator_core::finding::Finding;
use std::collections::BTreeMap;

/// One model on one kind of GPU.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Its name, which is the model's too.
    pub name: &'static str,
    /// The GPU that its sizes are for.
    pub gpu: GpuSku,
    /// The text of its `model.yaml`.
    pub model: &'static str,
    /// The text of its `engine.yaml`, where the engine needs one.
    pub engine_file: Option<&'static str>,
}

/// What a list says of a recipe.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecipeSummary {
    /// Its name.
    pub name: &'static str,
    /// The GPU's short name: `H200`.
    pub hardware: String,
    /// The engine, as a model spells it.
    pub engine: String,
    /// The weights that it serves.
    pub model: String,
    /// Aggregated or disaggregated, and the parallel sizes of each kind of worker.
    pub serving: String,
    /// GPUs of all workers.
    pub gpus: u64,
    /// What they cost an hour, in dollars, by the estimates.
    pub estimated_price_per_hour: Option<f64>,
    /// Where the sizes come from.
    pub basis: &'static str,
}

/// A line of a recipe that depends on the cluster or the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeEdit {
    /// The line of `model.yaml`, from one.
    pub line: usize,
    /// The field.
    pub field: &'static str,
    /// What belongs there.
    pub advice: &'static str,
}

/// The fields to look at before the first sync.
const EDITS: [(&str, &str); 4] = [
    ("replicas", "as many workers as your load needs"),
    ("storageClass", "a class whose volumes many nodes can mount: `kubectl get storageclass`"),
    ("tokenSecret", "the Secret with your Hugging Face token under the key HF_TOKEN"),
    ("hostnames", "remove the `#` and set names, if a gateway serves the model"),
];

/// Recipes by name: the GPU, the file of the model, and the file of the engine where it needs one.
macro_rules! recipes {
    ($($name:literal: $($gpu:ident $file:literal $($engine:literal)?),+;)+) => {
        vec![$($(Recipe {
            name: $name,
            gpu: GpuSku::$gpu,
            model: include_str!(concat!($name, "/", $file)),
            engine_file: recipes!(@engine $name $($engine)?),
        }),+),+]
    };
    (@engine $name:literal) => { None };
    (@engine $name:literal $engine:literal) => { Some(include_str!(concat!($name, "/", $engine))) };
}

/// Every recipe, sorted by name, then from the smallest GPU to the largest.
pub fn recipes() -> Vec<Recipe> {
    recipes! {
        "deepseek-v4-flash": H200Sxm "h200.yaml", B200Sxm "b200.yaml", Gb200Sxm "gb200.yaml";
        "deepseek-v4-pro": H200Sxm "h200.yaml", B200Sxm "b200.yaml";
        "glm-5-2": H200Sxm "h200.yaml", B200Sxm "b200.yaml";
        "gpt-oss-120b": H100Sxm "h100.yaml", H200Sxm "h200.yaml", B200Sxm "b200.yaml", Gb200Sxm "gb200.yaml" "engine.yaml";
        "kimi-k2-6": H200Sxm "h200.yaml", B200Sxm "b200.yaml";
        "llama-3-3-70b": H100Sxm "h100.yaml", H200Sxm "h200.yaml", B200Sxm "b200.yaml";
        "nemotron-3-super": H100Sxm "h100.yaml", H200Sxm "h200.yaml", B200Sxm "b200.yaml";
        "qwen3-235b": H100Sxm "h100.yaml" "engine-hopper.yaml", H200Sxm "h200.yaml" "engine-hopper.yaml",
            B200Sxm "b200.yaml" "engine-blackwell.yaml", Gb200Sxm "gb200.yaml" "engine-blackwell.yaml";
        "qwen3-32b": H100Sxm "h100.yaml", H200Sxm "h200.yaml", B200Sxm "b200.yaml";
        "qwen3-5-122b": H200Sxm "h200.yaml", B200Sxm "b200.yaml";
    }
}

/// The short name of a GPU: `H200` for `h200_sxm`.
pub fn hardware_name(gpu: GpuSku) -> String {
    gpu.name().split('_').next().unwrap_or_default().to_ascii_uppercase()
}

/// The `stator.yaml` of a new repository for a model on this GPU: one environment, and what the GPU costs by the estimates.
/// `folder` is what the user called the folder.
pub fn repository_file(folder: &str, gpu: GpuSku) -> String {
    let scaffold = scaffold::repository_files(folder);
    let name = scaffold.iter().find(|(path, _)| path == "stator.yaml").and_then(|(_, text)| {
        // What a folder's name becomes is decided there.
        text.lines().find_map(|line| line.strip_prefix("  name: "))
    });
    let name = name.unwrap_or("models");
    let price = ESTIMATES.iter().find(|one| one.gpu == gpu).map(|one| {
        let PriceEstimate { dollars, date, provider, .. } = one;
        let gpu = gpu.name();
        format!("  # Estimate: {provider}, {date}. Write what you pay.\n  prices:\n    gpuHour:\n      {gpu}: {dollars:.2}\n")
    });
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: {name}\nspec:\n  environments:\n    \
         default:\n      namespace: models\n{}",
        price.unwrap_or_default()
    )
}

impl Recipe {
    /// Whether this is the GPU that somebody means: `H200`, `h200` or `h200_sxm`.
    pub fn is_for(&self, hardware: &str) -> bool {
        hardware.eq_ignore_ascii_case(self.gpu.name()) || hardware.eq_ignore_ascii_case(&hardware_name(self.gpu))
    }

    /// Its files, by path from the model's folder.
    pub fn files(&self) -> Vec<(&'static str, &'static str)> {
        let engine_file = self.engine_file.map(|text| ("engine.yaml", text));
        std::iter::once(("model.yaml", self.model)).chain(engine_file).collect()
    }

    /// The lines to look at before the first sync, at most four.
    pub fn edits(&self) -> Vec<RecipeEdit> {
        let find = |(field, advice): (&'static str, &'static str)| {
            let is_there = |line: &str| line.contains(&format!("{field}: ")) && !line.contains("frontend:");
            let line = self.model.lines().position(is_there)? + 1;
            Some(RecipeEdit { line, field, advice })
        };
        EDITS.into_iter().filter_map(find).collect()
    }

    /// What a list says of it: GPUs and price as a plan of it alone has them.
    ///
    /// # Errors
    /// The findings, if it is not valid or does not render.
    pub fn summarize(&self) -> Result<RecipeSummary, Vec<Finding>> {
        let tree = self.tree();
        let selection = Workspace::parse(&tree).resolve_environment(None).map_err(|_| Vec::new())?;
        let intent = selection.intents.first().and_then(|intent| intent.load().ok());
        let Some(intent) = &intent else { return Err(selection.findings) };
        let target = RenderTarget {
            repository: selection.repository.clone(),
            environment: selection.name.clone(),
            namespace: selection.environment.namespace.to_string(),
            platform: Platform::default(),
        };
        let rendered = [render::render(intent, &target).into_text()];
        if rendered.iter().flat_map(|one| &one.findings).any(Finding::is_error) {
            return Err(rendered.into_iter().flat_map(|one| one.findings).collect());
        }
        let prices = prices::prices();
        let plan = plan::compare_revisions(&RevisionComparison {
            head: &rendered,
            prices: Some(&prices),
            ..RevisionComparison::default()
        });
        let cost = plan.summary.cost.filter(|cost| cost.unpriced.is_empty());
        Ok(RecipeSummary {
            name: self.name,
            hardware: hardware_name(self.gpu),
            engine: engine_word(intent.model.spec.engine),
            model: intent.model.spec.model.clone(),
            serving: describe_serving(&intent.model),
            gpus: plan.summary.gpus.after,
            estimated_price_per_hour: cost.map(|cost| cost.after_hour),
            basis: self.model.lines().next().unwrap_or_default().trim_start_matches("# "),
        })
    }

    /// A repository of this model alone.
    fn tree(&self) -> SourceTree {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), content: Ok(text.as_bytes().into()) };
        let mounted = self
            .engine_file
            .map(|text| (self.name.to_owned(), vec![file(&format!("{}/engine.yaml", self.name), text)]));
        SourceTree {
            files: vec![file(&format!("{}/model.yaml", self.name), self.model)],
            mounted_files: mounted.into_iter().collect::<BTreeMap<_, _>>(),
            ..SourceTree::default()
        }
    }
}

/// An engine as `spec.engine` spells it.
fn engine_word(engine: Engine) -> String {
    serde_json::to_value(engine).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// `aggregated: 8 × TP1`, or `disaggregated: 6 × TP2 + 2 × TP2`, prefill first.
fn describe_serving(model: &Model) -> String {
    let Some(serving) = &model.spec.serving else { return String::new() };
    let kind = if serving.prefill.is_some() { "disaggregated" } else { "aggregated" };
    let sizes: Vec<String> = serving.workers().map(|(_, worker)| describe_worker(worker)).collect();
    format!("{kind}: {}", sizes.join(" + "))
}

fn describe_worker(worker: &Worker) -> String {
    let sizes = [("TP", worker.tensor_parallel), ("DP", worker.data_parallel), ("EP", worker.expert_parallel)];
    let sizes: Vec<String> =
        sizes.into_iter().filter_map(|(name, size)| size.map(|size| format!("{name}{size}"))).collect();
    format!("{} × {}", worker.replicas.unwrap_or(1), sizes.join(" "))
}

#[cfg(test)]
mod tests;
