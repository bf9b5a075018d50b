//! A cluster and a git host, with what a user sets up: namespaces, secrets, sources, webhooks.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use super::bare_loop::objects_of;
use super::counts::RequestCounter;
use super::gitea::{self, Gitea};
use super::graphs::Graphs;
use super::hooks::Hooks;
use super::repository::{HostedRepository, ModelRepository};
use super::testbed::ControlPlane;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_core::dynamo::kinds::ObjectKind;
use stator_git::source::model_source::crd::MODEL_SOURCE;

pub(crate) const SECRET: ObjectKind =
    ObjectKind { group: "", version: "v1", kind: "Secret", plural: "secrets", short: "secret" };

/// What Gitea signs webhooks with.
pub(crate) const WEBHOOK_TOKEN: &str = "a-token-of-the-bench";

/// The commit status of the environment.
pub(crate) const CONTEXT: &str = "stator/prod";

/// What everything runs against.
pub(crate) struct Scene<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) gitea: &'a Gitea,
    pub(crate) client: kube::Client,
    pub(crate) kube: KubeCluster,
    pub(crate) counts: RequestCounter,
    pub(crate) hooks: Hooks,
    pub(crate) graphs: Graphs,
}

impl<'a> Scene<'a> {
    pub(crate) async fn set(plane: &'a ControlPlane, gitea: &'a Gitea) -> Fallible<Self> {
        let options = ConnectOptions { kubeconfig: Some(plane.kubeconfig()), ..ConnectOptions::default() };
        let kube = KubeCluster::connect(options).await?;
        let client = plane.admin().await;
        let counts = RequestCounter::of(client.clone());
        let graphs = Graphs::watch(&kube, client.clone()).await?;
        Ok(Self { plane, gitea, kube, counts, hooks: Hooks::receive().await?, graphs, client })
    }

    /// A namespace in which the operator finds every graph healthy.
    pub(crate) async fn operated_namespace(&self, name: &str) -> Fallible<()> {
        self.plane.namespace(name).await;
        self.graphs.operate_in(name)
    }

    /// Makes the source of a repository, with credentials for git and for the API in secrets, and has Gitea deliver pushes and
    /// the statuses that are posted.
    pub(crate) async fn follow(&self, repository: &ModelRepository<'_>) -> Fallible<()> {
        let namespace = repository.namespace();
        let authority = fs_err::read_to_string(self.gitea.certificate())?;
        let token = self.gitea.bot_token();
        self.credentials(namespace).await?;
        self.secret(namespace, "forge", json!({"token": token, "ca.crt": authority})).await?;
        self.secret(namespace, "hook", json!({"token": WEBHOOK_TOKEN})).await?;
        let spec = json!({
            "url": repository.hosted.host().url(), "ref": {"branch": "main"}, "interval": "24h",
            "secretRef": {"name": "git"},
            "forge": {"type": "gitea", "secretRef": {"name": "forge"}},
            "webhook": {"secretRef": {"name": "hook"}},
        });
        self.source(namespace, "models", spec).await?;
        self.have_delivered(&repository.hosted);
        Ok(())
    }

    /// Has Gitea deliver pushes, and the statuses that are posted.
    pub(crate) fn have_delivered(&self, repository: &HostedRepository<'_>) {
        for (event, address) in [("push", self.hooks.pushes()), ("status", self.hooks.statuses())] {
            let hook = json!({
                "type": "gitea", "active": true, "events": [event],
                "config": {"url": address, "content_type": "json", "secret": WEBHOOK_TOKEN},
            });
            tokio::task::block_in_place(|| repository.host().call("POST", "/hooks", &hook));
        }
    }

    /// The secret `git`, which fetches need.
    pub(crate) async fn credentials(&self, namespace: &str) -> Fallible<()> {
        let authority = fs_err::read_to_string(self.gitea.certificate())?;
        let git = json!({"username": gitea::BOT, "password": self.gitea.bot_token(), "ca.crt": authority});
        self.secret(namespace, "git", git).await
    }

    pub(crate) async fn secret(&self, namespace: &str, name: &str, data: Value) -> Fallible<()> {
        let secret = json!({
            "metadata": {"name": name, "labels": {"stator.dev/credential": "true"}}, "stringData": data,
        });
        self.make(&SECRET, namespace, secret).await
    }

    pub(crate) async fn source(&self, namespace: &str, name: &str, spec: Value) -> Fallible<()> {
        self.make(&MODEL_SOURCE, namespace, json!({"metadata": {"name": name}, "spec": spec})).await
    }

    pub(crate) async fn make(&self, kind: &ObjectKind, namespace: &str, mut object: Value) -> Fallible<()> {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let params = PatchParams::apply("bench").force();
        objects_of(&self.client, kind, namespace).patch(&name, &params, &Patch::Apply(&object)).await?;
        Ok(())
    }
}
