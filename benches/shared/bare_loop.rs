//! The lower bound that stator is compared with: the rendered objects of a repository, each applied once by `kube`, so many
//! at a time, and nothing else.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use stator_cluster::sync::SyncOptions;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::Object;
use stator_model::intent::{Intent, ResolvedEnvironment, Workspace};
use stator_model::render::{RenderTarget, RenderedModel, render_all};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How many calls a sync has in flight, and so a bare loop.
pub(crate) fn concurrency() -> usize {
    SyncOptions::new(jiff::Timestamp::UNIX_EPOCH, 0).concurrency
}

/// A repository of one environment, rendered.
pub(crate) struct RenderedRepository {
    pub(crate) target: RenderTarget,
    pub(crate) models: Vec<RenderedModel>,
    pub(crate) environment: ResolvedEnvironment,
    pub(crate) revision: String,
}

impl RenderedRepository {
    pub(crate) fn of(folder: &Path) -> Fallible<Self> {
        let checkout = stator_git::source::open(folder)?;
        let environment = Workspace::parse(&checkout.tree).resolve_environment(None)?;
        let target = RenderTarget {
            repository: environment.repository.clone(),
            environment: environment.name.clone(),
            namespace: environment.environment.namespace.to_string(),
            platform: environment.environment.platform.clone().unwrap_or_default(),
        };
        let intents: Vec<Intent> = environment.intents.iter().filter_map(|intent| intent.load().ok()).collect();
        let models = render_all(&intents, &target);
        Ok(Self { target, models, environment, revision: checkout.revision })
    }

    /// The objects as they are for a namespace.
    pub(crate) fn objects(&self, namespace: &str) -> Fallible<Vec<Object>> {
        let all = self.models.iter().flat_map(|one| &one.objects);
        all.map(|one| {
            let mut value = one.object.value().clone();
            value["metadata"]["namespace"] = namespace.into();
            Ok(Object::from_value(value)?)
        })
        .collect()
    }
}

/// Applies the objects, which are in one namespace and of one kind, and says how long that took.
pub(crate) async fn bare_loop(client: &kube::Client, objects: Vec<Object>) -> Fallible<Duration> {
    let objects: Arc<Mutex<VecDeque<Object>>> = Arc::new(Mutex::new(objects.into()));
    let start = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..concurrency() {
        let (objects, client) = (objects.clone(), client.clone());
        workers.spawn(async move {
            let params = PatchParams::apply(kinds::FIELD_MANAGER);
            loop {
                let next = objects.lock().map_err(|error| error.to_string())?.pop_front();
                let Some(object) = next else { return Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) };
                let namespace = object.reference().namespace;
                let api = objects_of(&client, &kinds::GRAPH, &namespace);
                api.patch(object.name(), &params, &Patch::Apply(object.value())).await?;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(start.elapsed())
}

/// The objects of a kind in a namespace.
pub(crate) fn objects_of(client: &kube::Client, kind: &ObjectKind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource(kind))
}

/// A kind, as `kube` has it.
pub(crate) fn resource(kind: &ObjectKind) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}
