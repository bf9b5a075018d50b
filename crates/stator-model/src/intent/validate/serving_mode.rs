//! How a model is served: by components or by target, with which engine and image.

use super::{ModelValidator, further_components, graph, serving_workers};
use crate::engine_tables::{SGLANG, TRTLLM, VLLM};
use crate::intent::model::{ComponentType, Engine, Search, Sla, template_has_image};
use crate::intent::rules;
use crate::intent::scalar::ImageReference;
use serde_json::{Map, Value};

pub(super) fn validate_serving_mode(judge: &mut ModelValidator<'_>) {
    check_serving_or_sla(judge);
    check_disaggregation(judge);
    if let Some(sla) = &judge.model.spec.sla {
        check_sla(judge, sla);
    } else {
        check_serving(judge);
    }
    check_images(judge);
    check_image_engines(judge);
}

fn check_serving_or_sla(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    match (&spec.serving, &spec.sla) {
        (Some(_), Some(_)) => judge.error(
            rules::MODEL_SHAPE,
            "spec.sla",
            "both `serving` and `sla` are set; a model has only one of them",
            "Keep `serving` to define how the model runs, or `sla` to let Dynamo's profiler choose. Check the defaults \
             too.",
        ),
        (None, None) => judge.error(
            rules::MODEL_SHAPE,
            "spec",
            "neither `serving` nor `sla` is set",
            "Add `serving` with a `worker`, or with `prefill` and `decode`; or `sla` with a target such as `ttft: 300ms`.",
        ),
        (Some(_), None) | (None, Some(_)) => {}
    }
}

/// One worker, or both halves. Further components of a worker's type can stand in for what is missing.
fn check_disaggregation(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    let Some(serving) = &spec.serving else { return };
    let has = |wanted: ComponentType| spec.components.values().any(|c| c.component_type == Some(wanted));
    let stand_in = |half: ComponentType| has(half) || has(ComponentType::Worker);
    match (&serving.worker, &serving.prefill, &serving.decode) {
        (Some(_), None, None) | (None, Some(_), Some(_)) => {}
        (Some(_), prefill, _) => {
            let half = if prefill.is_some() { "prefill" } else { "decode" };
            judge.error(
                rules::MODEL_SHAPE,
                &format!("spec.serving.{half}"),
                format!("`worker` and `{half}` are both set; a worker does both halves"),
                "Keep `worker`, or `prefill` with `decode`. Check the defaults too.",
            );
        }
        (None, Some(_), None) if !stand_in(ComponentType::Decode) => judge.error(
            rules::MODEL_SHAPE,
            "spec.serving.prefill",
            "`prefill` is set without `decode`",
            "Add `serving.decode`, or rename `prefill` to `worker`.",
        ),
        (None, None, Some(_)) if !stand_in(ComponentType::Prefill) => judge.error(
            rules::MODEL_SHAPE,
            "spec.serving.decode",
            "`decode` is set without `prefill`",
            "Add `serving.prefill`, or rename `decode` to `worker`.",
        ),
        (None, None, None) if spec.components.is_empty() => judge.error(
            rules::MODEL_SHAPE,
            "spec.serving",
            "`serving` has no workers",
            "Add `worker`, or `prefill` and `decode`.",
        ),
        (None, _, _) => {}
    }
}

fn check_sla(judge: &mut ModelValidator<'_>, sla: &Sla) {
    match (judge.model.spec.engine, sla.search) {
        // Dynamo's admission: searchStrategy "thorough" is incompatible with backend "auto".
        (Engine::Auto, Some(Search::Thorough)) => judge.error(
            rules::MODEL_ENGINE,
            "spec.sla.search",
            "a thorough search needs a named engine; the engine is `auto`",
            "Name the engine: `vllm`, `sglang` or `trtllm`; or use `search: rapid`.",
        ),
        (Engine::Mocker, _) => judge.error(
            rules::MODEL_ENGINE,
            "spec.engine",
            "engine `mocker` has no profile; with `sla` the engine is `vllm`, `sglang`, `trtllm` or `auto`",
            "Name the engine to profile, and set `sla.mocker: true` to profile it without GPUs.",
        ),
        (Engine::Custom, _) => judge.error(
            rules::MODEL_ENGINE,
            "spec.engine",
            "engine `custom` is your own program, which Dynamo cannot profile",
            "Name the engine: `vllm`, `sglang`, `trtllm` or `auto`; or use `serving`.",
        ),
        (Engine::Auto | Engine::Vllm | Engine::Sglang | Engine::Trtllm, _) => {}
    }
    if let Some(workload) = &sla.workload
        && workload.concurrency.is_some()
        && workload.request_rate.is_some()
    {
        judge.error(
            rules::MODEL_WORKLOAD,
            "spec.sla.workload.requestRate",
            "both `concurrency` and `requestRate` are set; one follows from the other",
            "Keep one of them.",
        );
    }
}

fn check_serving(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    if spec.engine == Engine::Auto && spec.serving.is_some() {
        judge.error(
            rules::MODEL_ENGINE,
            "spec.engine",
            "engine `auto` works only with `sla`, where the profiler chooses the engine",
            "Name the engine: `vllm`, `sglang`, `trtllm` or `mocker`.",
        );
    }
    if let Some(hardware) = &spec.hardware {
        let profiled = [
            ("totalGpus", hardware.total_gpus.is_some()),
            ("vramMib", hardware.vram_mib.is_some()),
            ("interconnect", hardware.interconnect.is_some()),
            ("rdma", hardware.rdma.is_some()),
        ];
        for (field, _) in profiled.into_iter().filter(|(_, given)| *given) {
            judge.warning(
                rules::MODEL_IGNORED,
                &format!("spec.hardware.{field}"),
                format!("`hardware.{field}` is only for the profiler, which `serving` does not use"),
                "Remove it, or use `sla`.",
            );
        }
    }
}

fn check_images(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    let mut images: Vec<(String, Option<&ImageReference>)> = Vec::new();
    // A component whose template names the image needs no other.
    let mut bare = Vec::new();
    let mut add = |path: String, image, template: Option<&Map<String, Value>>| {
        bare.push(template.is_some_and(template_has_image));
        images.push((path, image));
    };
    let frontend = spec.serving.as_ref().and_then(|serving| serving.frontend.as_ref());
    if graph::has_frontend(judge) {
        let template = frontend.and_then(|frontend| frontend.template.as_ref());
        add("spec.serving.frontend".to_owned(), frontend.and_then(|frontend| frontend.image.as_ref()), template);
    }
    for (_, path, worker) in serving_workers(spec.serving.as_ref()) {
        add(path, worker.image.as_ref(), worker.template.as_ref());
    }
    for (_, path, component) in further_components(judge.model) {
        add(path, component.image.as_ref(), component.template.as_ref());
    }
    let lacking = images.iter().zip(&bare).any(|((_, image), templated)| image.is_none() && !templated);
    match (&spec.runtime, &spec.image) {
        (Some(_), Some(_)) => judge.error(
            rules::MODEL_IMAGE,
            "spec.image",
            "both `runtime` and `image` are set; `image` replaces `runtime`",
            "Keep one of them.",
        ),
        // A request's image is filled in by Dynamo.
        (None, None) if spec.sla.is_none() && lacking => judge.error(
            rules::MODEL_IMAGE,
            "spec",
            "neither `runtime` nor `image` is set, and not every component has its own image",
            "Add `runtime: 1.2.0` for NVIDIA's images of that version, or `image` for your own.",
        ),
        (Some(_), None) | (None, Some(_) | None) => {}
    }
    if spec.runtime_version.is_some() && spec.image.is_none() {
        judge.warning(
            rules::MODEL_IMAGE,
            "spec.runtimeVersion",
            "`runtimeVersion` has no effect: it is the version in `image`, and `image` is not set",
            "Remove it, or put it beside the component's own `image`.",
        );
    }
    images.push(("spec".to_owned(), spec.image.as_ref()));
    for (path, image) in images {
        if image.is_some_and(|image| image.as_str().ends_with(":latest")) {
            judge.warning(
                rules::MODEL_IMAGE_LATEST,
                &format!("{path}.image"),
                "tag `latest` can change under a running graph, and Dynamo 1.4 refuses it without a runtime version",
                "Use a version or a digest.",
            );
        }
    }
}

/// Whether workers that run the engine's own command line have an image of that engine. One with a program of its own may
/// run whatever its image has.
fn check_image_engines(judge: &mut ModelValidator<'_>) {
    let spec = &judge.model.spec;
    let Some(own) = published_image(spec.engine).filter(|_| spec.sla.is_none()) else { return };
    let mut images: Vec<(String, &ImageReference)> = Vec::new();
    for (_, path, worker) in serving_workers(spec.serving.as_ref()) {
        if worker.own_command().is_some() {
            continue;
        }
        match (&worker.image, &spec.image) {
            (Some(image), _) => images.push((format!("{path}.image"), image)),
            (None, Some(image)) => images.push(("spec.image".to_owned(), image)),
            (None, None) => {}
        }
    }
    images.dedup();
    for (path, image) in images {
        let name = image_name(image);
        let others = [Engine::Vllm, Engine::Sglang, Engine::Trtllm].into_iter().filter_map(published_image);
        if let Some(other) = others.filter(|other| *other != own).find(|other| name == *other) {
            judge.warning(
                rules::MODEL_IMAGE_ENGINE,
                &path,
                format!("`{image}` has the name of NVIDIA's `{other}`, but the model's engine needs `{own}`"),
                "Correct the image or the engine. In defaults, `runtime` and `imageRegistry` give each engine its own image.",
            );
        }
    }
}

/// The name of the image that NVIDIA publishes for an engine; none for one that runs in more than one.
fn published_image(engine: Engine) -> Option<&'static str> {
    match engine {
        Engine::Vllm => Some(VLLM.image),
        Engine::Sglang => Some(SGLANG.image),
        Engine::Trtllm => Some(TRTLLM.image),
        Engine::Mocker | Engine::Custom | Engine::Auto => None,
    }
}

/// The last part of an image's name, without its tag and digest.
fn image_name(image: &ImageReference) -> &str {
    let text = image.as_str();
    let text = text.split_once('@').map_or(text, |(before, _)| before);
    let last = text.rsplit('/').next().unwrap_or(text);
    last.split_once(':').map_or(last, |(name, _)| name)
}
