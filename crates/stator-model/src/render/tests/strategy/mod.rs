//! Any model: every field of the schema, in every form. [`model`] may break the rules that only a merged model can be
//! judged by; [`valid`] keeps them.

mod coverage;
mod leaves;
mod serving;
mod settle;
mod sla;

use crate::intent::model::*;
use crate::intent::scalar::{ImageReference, MountPath};
use leaves::{env, graph_env, image, json_map, model_rollout, resources, scalar, size};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const GPUS: [GpuSku; 17] = [
    GpuSku::Gb200Sxm,
    GpuSku::Gb10,
    GpuSku::B200Sxm,
    GpuSku::H200Sxm,
    GpuSku::H100Sxm,
    GpuSku::H100Pcie,
    GpuSku::A100Sxm,
    GpuSku::A100Pcie,
    GpuSku::A30,
    GpuSku::L40s,
    GpuSku::L40,
    GpuSku::L4,
    GpuSku::V100Sxm,
    GpuSku::V100Pcie,
    GpuSku::T4,
    GpuSku::Mi200,
    GpuSku::Mi300,
];

fn hardware() -> BoxedStrategy<Hardware> {
    (
        (option::of(select(GPUS.to_vec())), size(), option::of(1_u32..99), option::of(1_u32..99_000)),
        (option::of("nvlink|pcie"), option::of(any::<bool>())),
        option::of(btree_map("[a-z]{1,6}", "[a-z]{1,6}", 0..3)),
        any::<bool>(),
    )
        .prop_map(|((gpu, gpus_per_node, total_gpus, vram_mib), (interconnect, rdma), node_selector, tolerates)| {
            Hardware {
                tolerations: json!({"key": "nvidia.com/gpu", "operator": "Exists"})
                    .as_object()
                    .filter(|_| tolerates)
                    .cloned()
                    .into_iter()
                    .collect(),
                gpu,
                gpus_per_node,
                total_gpus,
                vram_mib,
                interconnect,
                rdma,
                node_selector,
            }
        })
        .boxed()
}

fn cache() -> BoxedStrategy<Cache> {
    let access_modes = vec![
        AccessMode::ReadWriteOnce,
        AccessMode::ReadWriteMany,
        AccessMode::ReadOnlyMany,
        AccessMode::ReadWriteOncePod,
    ];
    (
        (scalar("[a-z]{1,8}"), option::of(scalar("[1-9]Gi")), option::of(scalar("[a-z]{1,8}"))),
        option::of(select(access_modes)),
        (option::of("/[a-z]{1,8}"), option::of("[a-z]{1,5}/[a-z]{1,5}"), option::of(any::<bool>())),
        (option::of(any::<bool>()), option::of(scalar("[a-z]{1,5}")), option::weighted(0.3, any::<bool>())),
        option::of(any::<bool>()),
    )
        .prop_map(
            |(
                (claim, size, storage_class),
                access_mode,
                (mount_path, model_path, prune),
                (hf_home, volume, implicit_volume),
                read_only,
            )| {
                Cache {
                    read_only,
                    hf_home,
                    volume,
                    implicit_volume,
                    claim,
                    size,
                    storage_class,
                    access_mode,
                    mount_path,
                    model_path,
                    prune,
                }
            },
        )
        .boxed()
}

/// Weights of Hugging Face or of a bucket, or a claim that others fill. What each may have, `settle` sees to.
fn weights() -> BoxedStrategy<Weights> {
    let one = select(vec![
        "hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a",
        "hf://openai/gpt-oss-20b@main",
        "s3://weights/gpt-oss-120b",
    ]);
    let uri = |uri: &str| uri.parse().unwrap_or_else(|error| panic!("{uri}: {error}"));
    let part = (
        vec(scalar("\\*\\.[a-z]{1,6}"), 0..2),
        vec(scalar("[a-z]{1,6}/\\*"), 0..2),
        option::of(scalar("[a-z]{1,6}/base")),
    );
    let several = (vec(part, 1..3), any::<bool>()).prop_map(move |(parts, whole)| {
        let name = |index: usize| uri(&format!("hf://org/part-{index}@b5c939de8f754692c1647ca79fbf85e8c1e70f8a"));
        let selected = parts.into_iter().enumerate().map(|(index, (include, exclude, folder))| {
            WeightsPart::Selected(Box::new(SelectedWeights { uri: name(index), include, exclude, folder }))
        });
        let whole = whole.then(|| WeightsPart::Whole(name(9)));
        WeightsSources::Several(selected.chain(whole).collect())
    });
    let source = prop_oneof![3 => one.prop_map(move |one| WeightsSources::One(uri(one))), 1 => several];
    let claim = (
        (scalar("w-[a-z]{1,8}"), option::of(scalar("[1-9]Gi")), option::of(scalar("[a-z]{1,8}"))),
        option::of(Just(AccessMode::ReadWriteMany)),
        option::of(any::<bool>()),
    );
    (
        option::weighted(0.8, source),
        claim,
        (
            option::of(scalar("/W[a-z]{1,8}")),
            option::of(scalar("w[a-z]{1,5}")),
            option::weighted(0.3, any::<bool>()),
            option::of(any::<bool>()),
        ),
        (vec(scalar("\\*\\.[a-z]{1,6}"), 0..2), vec(scalar("[a-z]{1,6}/\\*"), 0..2)),
        (option::of(image()), option::of(scalar("[a-z]{1,8}")), env()),
        (
            option::of(scalar("[1-9][mh]")),
            option::of(1_u32..9),
            option::of(select(vec![WeightsLoad::Folder, WeightsLoad::Model])),
            option::of(1_u32..9),
            option::of(any::<bool>()),
        ),
        (option::of(resources()), option::of(json_map()), vec(scalar("[a-z]{1,8}"), 0..2), vec(json_map(), 0..2)),
        select(vec!["claim", "hostPath", "volumeImage"]),
    )
        .prop_map(
            |(
                source,
                claim,
                (mount_path, volume, implicit_volume, hf_home),
                (include, exclude),
                (image, token_secret, env),
                (deadline, attempt, load, retries, read_only),
                (resources, security_context, image_pull, tolerations),
                place,
            )| {
                let ((name, size, storage_class), access_mode, prune) = claim;
                let claim = WeightsClaim { name, size, storage_class, access_mode, prune };
                let is_there = source.is_none();
                let claim = (!is_there || place == "claim").then_some(claim);
                let host_path = (is_there && place == "hostPath").then(|| path_of("/models/one"));
                let volume_image = (is_there && place == "volumeImage").then(|| image_of("models:1.2.0"));
                Weights {
                    host_path,
                    volume_image,
                    resources,
                    security_context,
                    image_pull,
                    tolerations,
                    retries,
                    read_only,
                    source,
                    claim,
                    mount_path,
                    volume,
                    implicit_volume,
                    load,
                    hf_home,
                    include,
                    exclude,
                    image,
                    token_secret,
                    env,
                    deadline,
                    attempt,
                }
            },
        )
        .boxed()
}

fn path_of(text: &str) -> MountPath {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn image_of(text: &str) -> ImageReference {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A route of a gateway, with a canary or without. What leads nowhere `settle` takes away.
fn route() -> BoxedStrategy<Route> {
    let gateway = (scalar("[a-z]{1,8}"), option::of(scalar("[a-z]{1,8}")), option::of(scalar("[a-z]{1,8}")))
        .prop_map(|(name, namespace, section_name)| RouteGateway { name, namespace, section_name });
    let canary = (scalar("other-[a-z]{1,8}"), 0_u32..=100).prop_map(|(model, weight)| RouteCanary { model, weight });
    (
        gateway,
        btree_set("(\\*\\.)?[a-z]{1,8}\\.example\\.com", 0..3),
        option::of(scalar("(/[a-z0-9]{1,8}){1,3}")),
        option::of(scalar("[1-9][0-9]{0,2}(s|m)")),
        option::of(canary),
    )
        .prop_map(|(gateway, hostnames, path, timeout, canary)| {
            let hostnames =
                hostnames.iter().map(|host| host.parse().unwrap_or_else(|error| panic!("{host}: {error}"))).collect();
            let name = path.as_ref().map(|_| "other-route".parse().unwrap_or_else(|error| panic!("{error}")));
            Route { name, gateway, hostnames, path, timeout, canary }
        })
        .boxed()
}

fn adapter() -> BoxedStrategy<Adapter> {
    (
        scalar("[a-z]([-a-z0-9]{0,20}[a-z0-9])?"),
        scalar("(s3|hf)://[a-z/]{1,9}"),
        option::of("[a-z]{1,6}"),
        option::of(1_u32..256),
        option::of(scalar("[a-z]{9,12}")),
    )
        .prop_map(|(name, source, served_name, max_rank, object_name)| Adapter {
            name,
            source,
            served_name,
            max_rank,
            object_name,
        })
        .boxed()
}

/// A file for the workers, or for the frontend alone, where it is mounted no other is; or a key of a ConfigMap that pods name.
fn mounted_file() -> BoxedStrategy<MountedFile> {
    let content = prop_oneof![
        "[a-z]{1,6}\\.yaml".prop_map(|from| (Some(from), None)),
        "\\PC{0,20}".prop_map(|text| (None, Some(text))),
    ];
    let mounted = (scalar("/[a-z]{1,6}/[a-z]{1,12}\\.yaml"), option::of(Just(vec![component_name("frontend")])))
        .prop_map(|(path, components)| (Some(path), None, components));
    let named = scalar("own-[ab]").prop_map(|name| (None, Some(name), None));
    let labels = btree_map("[a-z]{1,4}", scalar("[a-z]{1,4}"), 0..2);
    (content, prop_oneof![3 => mounted.boxed(), 1 => named.boxed()], labels)
        .prop_map(|((from, text), (mount_path, config_map, components), labels)| MountedFile {
            from,
            text,
            mount_path,
            config_map,
            labels,
            components,
        })
        .boxed()
}

/// Other objects: of each kind, in the model and in a file of its folder ([`MANIFEST_FILE`]).
fn manifest(index: usize) -> BoxedStrategy<Manifest> {
    let map = |value: Value| value.as_object().cloned();
    let object = move |kind: &str, labels: Option<String>| {
        let mut metadata = json!({"name": format!("other.object.{index}")});
        if let Some(team) = labels {
            metadata["labels"] = json!({"team": team});
        }
        let (api_version, kind) = (Some("v1".to_owned()), Some(kind.to_owned()));
        Manifest { api_version, kind, metadata: map(metadata), ..Manifest::default() }
    };
    let spec = json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}});
    let other = move |api_version: &str, kind: &str, spec: Value| {
        Just(Manifest { api_version: Some(api_version.to_owned()), spec: map(spec), ..object(kind, None) })
    };
    let claims = json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}});
    prop_oneof![
        other("v1", "Service", json!({"ports": [{"port": 80}]})),
        other("gateway.networking.k8s.io/v1", "HTTPRoute", json!({"hostnames": ["chat.example.com"]})),
        other("resource.k8s.io/v1", "ResourceClaimTemplate", json!({"spec": claims})),
        other(
            "resource.nvidia.com/v1beta1",
            "ComputeDomain",
            json!({"channel": {"resourceClaimTemplate": {"name": "channel"}}})
        ),
        (option::of("[a-z]{1,6}"), "[a-z]{0,9}", option::of(any::<bool>())).prop_map(
            move |(labels, text, immutable)| {
                let data = map(json!({"a.txt": text}));
                Manifest { data, immutable, ..object("ConfigMap", labels) }
            }
        ),
        Just(Manifest { binary_data: map(json!({"a.bin": "AP8="})), ..object("ConfigMap", None) }),
        Just(Manifest { spec: map(spec), ..object("PersistentVolumeClaim", None) }),
        Just(Manifest { from: (index == 0).then(|| MANIFEST_FILE.to_owned()), ..object_of_file(index, &object) }),
    ]
    .boxed()
}

/// The file of other objects that models name.
pub(crate) const MANIFEST_FILE: &str = "objects.yaml";

/// Nothing beside the path of the one file; for any other item, an object.
fn object_of_file(index: usize, object: &impl Fn(&str, Option<String>) -> Manifest) -> Manifest {
    if index == 0 { Manifest::default() } else { object("ConfigMap", None) }
}

fn component_name(text: &str) -> crate::intent::scalar::ComponentName {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn secrets() -> BoxedStrategy<Secrets> {
    (option::of(scalar("[a-z]{1,8}")), vec(scalar("[a-z]{1,8}"), 0..2), vec(scalar("[a-z]{1,8}"), 0..2))
        .prop_map(|(hugging_face, image_pull, env)| Secrets { hugging_face, image_pull, env })
        .boxed()
}

fn scalar_of(text: &str) -> crate::intent::scalar::RemovedPath {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// An override, and whether it names its target; which name that is depends on the model.
fn override_of() -> BoxedStrategy<(Override, bool)> {
    let change = prop_oneof![
        Just((OverrideKind::DynamoGraphDeployment, json!({"spec": {"labels": {"team": "search"}}}))),
        Just((OverrideKind::DynamoGraphDeployment, json!({"metadata": {"annotations": {"example.com/a": "b"}}}))),
        Just((OverrideKind::DynamoGraphDeploymentRequest, json!({"spec": {"hardware": {"totalGpus": 16}}}))),
        Just((OverrideKind::DynamoModel, json!({"metadata": {"annotations": {"example.com/a": "b"}}}))),
        Just((OverrideKind::PersistentVolumeClaim, json!({"spec": {"volumeMode": "Filesystem"}}))),
        Just((
            OverrideKind::Job,
            json!({"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}], "containers": [
                {"name": "download", "resources": {"requests": {"cpu": "4"}}}]}}}})
        )),
    ];
    (change, any::<bool>())
        .prop_map(|((kind, merge), named)| {
            // Something that `merge` does not give: nothing needs to be there to be removed.
            let remove = if named { vec![scalar_of("spec.labels")] } else { Vec::new() };
            let merge = merge.as_object().cloned().unwrap_or_else(Map::<String, Value>::new);
            (Override { target: OverrideTarget { kind, name: None }, merge, remove }, named)
        })
        .boxed()
}

/// How a model is run: `serving` with a named engine, or `sla` with any that can be profiled.
fn shape() -> impl Strategy<Value = (Engine, Option<Serving>, Option<Sla>)> {
    let served = prop_oneof![
        Just(Engine::Vllm),
        Just(Engine::Sglang),
        Just(Engine::Trtllm),
        Just(Engine::Mocker),
        Just(Engine::Custom)
    ];
    let profiled = prop_oneof![Just(Engine::Vllm), Just(Engine::Sglang), Just(Engine::Trtllm), Just(Engine::Auto)];
    prop_oneof![
        3 => (served, serving::serving()).prop_map(|(engine, serving)| (engine, Some(serving), None)),
        1 => (profiled, sla::sla()).prop_map(|(engine, sla)| (engine, None, Some(sla))),
    ]
}

/// What a model may say of all its workers. Their fields are generated for each of them.
fn shared_workers() -> BoxedStrategy<Box<Worker>> {
    scalar("[0-9]Gi").prop_map(|size| Box::new(Worker { shared_memory: Some(size), ..Worker::default() })).boxed()
}

prop_compose! {
    /// Any model whose fields are well formed each by itself.
    pub(crate) fn model()(
        (engine, serving, sla) in shape().boxed(),
        name in scalar("[a-z]([-a-z0-9]{0,40}[a-z0-9])?"),
        labels in btree_map("[a-z]{1,6}", scalar("[a-z]{0,6}"), 0..2),
        annotations in btree_map("example\\.com/[a-z]{1,6}", "\\PC{0,6}", 0..2),
        (model, served_name) in ("[A-Za-z0-9./-]{1,20}", option::of("[A-Za-z0-9./-]{1,12}")),
        (runtime_version, priority_class_name) in (option::of(scalar("1\\.[0-9]\\.[0-9]")), option::of(scalar("[a-z]{1,6}"))),
        (runtime, own_image, image_registry) in (option::weighted(0.8, scalar("1\\.[0-9]\\.[0-9]")), option::of(image()), option::weighted(0.3, scalar("r\\.example/[a-z]{1,4}"))),
        (hardware, cache, secrets) in (option::of(hardware().boxed()), option::of(cache().boxed()), option::of(secrets().boxed())),
        (weights, route) in (option::weighted(0.3, weights().boxed()), option::weighted(0.3, route().boxed())),
        (adapters, env, (graph_env, pod), files) in (vec(adapter().boxed(), 0..3), env(), (graph_env(), option::weighted(0.3, leaves::pod_settings().prop_map(Box::new).boxed())), btree_map(scalar("[a-z]{1,6}"), mounted_file().boxed(), 0..3)),
        backend_framework in option::of(prop_oneof![Just(BackendFramework::Declared), Just(BackendFramework::Detected)]),
        (rollout, restart, shared_workers) in (option::of(model_rollout().boxed()), option::of("[a-z0-9]{1,6}"), option::weighted(0.2, shared_workers())),
        components in btree_map(scalar("[a-z]{1,6}"), serving::component().boxed(), 0..3),
        (take_over, overrides) in (vec("[a-z-]{1,9}", 0..2), vec(override_of().boxed(), 0..2)),
        (manifests, has_manifests, unset) in ((manifest(0).boxed(), manifest(1).boxed()), 0..3_usize, vec(scalar("[a-z]{1,6}(\\.[a-z]{1,6}){0,2}"), 0..2)),
    ) -> Model {
        // `image` stands in place of `runtime`.
        let image = own_image.filter(|_| runtime.is_none());
        let mut model = Model {
            api_version: ApiVersion::default(),
            kind: ModelKind::default(),
            metadata: Metadata { name, labels, annotations },
            spec: ModelSpec {
                model, served_name, engine, backend_framework, runtime, image, runtime_version, image_registry, hardware, serving, workers: None, sla, adapters, cache, weights, files, route, secrets, env, graph_env, pod,
                rollout, priority_class_name, restart, components, take_over, manifests: [manifests.0, manifests.1].into_iter().take(has_manifests).collect(), overrides: vec![], unset,
            },
        };
        // Where there are workers of its own, a merged model has these in them.
        model.spec.workers = shared_workers.filter(|_| model.spec.sla.is_some());
        settle::aim(&mut model, overrides);
        model
    }
}

/// Any valid model: the intent's own rules let it through.
pub(crate) fn valid() -> impl Strategy<Value = Model> {
    model().prop_map(settle::settle)
}
