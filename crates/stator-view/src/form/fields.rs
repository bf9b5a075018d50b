//! Every field of the form, and what it is in the model.

use std::sync::LazyLock;

/// Who decides how a model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServingMode {
    /// Dynamo's profiler, by a target: a request.
    Target,
    /// Git: a graph.
    #[default]
    Direct,
}

impl ServingMode {
    /// The one that is not this one.
    pub fn other(self) -> Self {
        match self {
            Self::Target => Self::Direct,
            Self::Direct => Self::Target,
        }
    }
}

/// Whether one kind of worker serves, or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServingLayout {
    /// Workers that prefill and decode.
    #[default]
    Aggregated,
    /// Workers that prefill, and others that decode.
    Disaggregated,
}

/// How a field is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// One of the values that the model's schema lists.
    Choice,
    /// Yes or no.
    Flag,
    /// A list of texts, one on each line.
    Lines,
    /// Names and values, `NAME=VALUE` on each line. Others than plain values are left to the YAML.
    Variables,
}

/// What a field is about, and with which kind of serving it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldGroup {
    /// What is served.
    Model,
    /// On which GPUs.
    Hardware,
    /// By which target.
    Target,
    /// The frontend.
    Frontend,
    /// Workers that prefill and decode.
    Worker,
    /// Workers that prefill.
    Prefill,
    /// Workers that decode.
    Decode,
    /// Secrets and variables.
    Surroundings,
}

impl FieldGroup {
    /// All of them, in the order of the form.
    pub const ALL: [Self; 8] = [
        Self::Model,
        Self::Hardware,
        Self::Target,
        Self::Frontend,
        Self::Worker,
        Self::Prefill,
        Self::Decode,
        Self::Surroundings,
    ];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Model => "Model",
            Self::Hardware => "Hardware",
            Self::Target => "Target",
            Self::Frontend => "Frontend",
            Self::Worker => "Workers",
            Self::Prefill => "Prefill workers",
            Self::Decode => "Decode workers",
            Self::Surroundings => "Secrets and variables",
        }
    }

    /// Its word in the page's markup.
    pub fn class(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Hardware => "hardware",
            Self::Target => "target",
            Self::Frontend => "frontend",
            Self::Worker => "worker",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Surroundings => "surroundings",
        }
    }

    /// Whether it means anything for a model that is served so.
    pub fn applies(self, mode: ServingMode, layout: ServingLayout) -> bool {
        match self {
            Self::Model | Self::Hardware | Self::Surroundings => true,
            Self::Target => mode == ServingMode::Target,
            Self::Frontend => mode == ServingMode::Direct,
            Self::Worker => mode == ServingMode::Direct && layout == ServingLayout::Aggregated,
            Self::Prefill | Self::Decode => mode == ServingMode::Direct && layout == ServingLayout::Disaggregated,
        }
    }
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    /// Where it stands in the model, as a JSON pointer.
    pub pointer: String,
    /// What it is called.
    pub label: &'static str,
    /// How it is filled in.
    pub kind: FieldKind,
    /// What it is about.
    pub group: FieldGroup,
}

impl FormField {
    /// The names that lead to it.
    pub fn path(&self) -> Vec<String> {
        path_of(&self.pointer)
    }
}

/// The names of a JSON pointer of this form; none of them has a character that would be escaped.
pub(super) fn path_of(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(str::to_owned).collect()
}

/// All fields, in the order of the form.
pub static FORM_FIELDS: LazyLock<Vec<FormField>> = LazyLock::new(|| {
    use FieldGroup::{Decode, Frontend, Hardware, Model, Prefill, Surroundings, Target, Worker};
    use FieldKind::{Choice, Flag, Lines, Number, Text, Variables};
    let mut fields = Vec::new();
    let mut add = |group: FieldGroup, above: &str, list: &[(&str, &'static str, FieldKind)]| {
        fields.extend(list.iter().map(|(name, label, kind)| FormField {
            pointer: format!("{above}/{name}"),
            label,
            kind: *kind,
            group,
        }));
    };
    add(Model, "/metadata", &[("name", "Name", Text), ("labels", "Labels", Variables)]);
    add(
        Model,
        "/spec",
        &[
            ("model", "Model", Text),
            ("servedName", "Served name", Text),
            ("engine", "Engine", Choice),
            ("runtime", "Runtime version", Text),
            ("image", "Image", Text),
        ],
    );
    add(
        Hardware,
        "/spec/hardware",
        &[("gpu", "GPU", Choice), ("gpusPerNode", "GPUs per node", Number), ("totalGpus", "GPUs to plan with", Number)],
    );
    add(
        Target,
        "/spec/sla",
        &[
            ("ttft", "TTFT (time to first token)", Text),
            ("itl", "ITL (inter-token latency)", Text),
            ("e2e", "E2E latency (whole answer)", Text),
            ("optimize", "Prefer", Choice),
            ("workload/isl", "ISL (input tokens)", Number),
            ("workload/osl", "OSL (output tokens)", Number),
            ("workload/concurrency", "Concurrency (requests at once)", Number),
            ("workload/requestRate", "Request rate (a second)", Number),
            ("search", "Search", Choice),
            ("autoApply", "Deploy the result", Flag),
            ("router", "Router", Choice),
            ("planner/min_endpoint", "Fewest replicas (planner)", Number),
            ("planner/max_gpu_budget", "Most GPUs (planner)", Number),
            ("worker/tensorParallel", "Tensor parallel (TP)", Number),
            ("worker/pipelineParallel", "Pipeline parallel (PP)", Number),
            ("worker/dtype", "Data type (dtype)", Text),
            ("worker/maxSequences", "Max sequences in a batch", Number),
            ("worker/maxLength", "Max context length (KV cache)", Number),
            ("worker/args", "Arguments", Lines),
        ],
    );
    add(Frontend, "/spec/serving/frontend", &[("replicas", "Frontend replicas", Number), ("router", "Router", Choice)]);
    for (group, above) in
        [(Worker, "/spec/serving/worker"), (Prefill, "/spec/serving/prefill"), (Decode, "/spec/serving/decode")]
    {
        add(
            group,
            above,
            &[
                ("replicas", "Replicas", Number),
                ("scaling/min", "Fewest replicas", Number),
                ("scaling/max", "Most replicas", Number),
                ("gpus", "GPUs per replica", Number),
                ("nodes", "Nodes per replica", Number),
                ("tensorParallel", "Tensor parallel (TP)", Number),
                ("pipelineParallel", "Pipeline parallel (PP)", Number),
                ("dtype", "Data type (dtype)", Text),
                ("maxSequences", "Max sequences in a batch", Number),
                ("maxLength", "Max context length (KV cache)", Number),
                ("args", "Arguments", Lines),
            ],
        );
    }
    add(
        Surroundings,
        "/spec",
        &[
            ("secrets/huggingFace", "Hugging Face token (secret)", Text),
            ("secrets/imagePull", "Image pull secrets", Lines),
            ("env", "Environment variables", Variables),
        ],
    );
    fields
});
