//! Argo CD, as far as it syncs a repository of manifests: its repo-server and its application-controller, with a Redis.

use super::Fallible;
use super::bare_loop::objects_of;
use super::gitea;
use super::peer::{self, Peer, Processes};
use super::report::Flags;
use super::repository::HostedRepository;
use super::scene::{SECRET, Scene};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::ObjectKind;

/// Where Argo CD itself lives.
const SYSTEM: &str = "argocd";

const CONFIGURATION: ObjectKind =
    ObjectKind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", short: "configuration" };
const PROJECT: ObjectKind = ObjectKind {
    group: "argoproj.io",
    version: "v1alpha1",
    kind: "AppProject",
    plural: "appprojects",
    short: "project",
};
const APPLICATION: ObjectKind = ObjectKind {
    group: "argoproj.io",
    version: "v1alpha1",
    kind: "Application",
    plural: "applications",
    short: "application",
};

/// Its programs, with the folder of the definitions of their kinds.
pub(crate) struct Argo<'a> {
    /// `argocd`, which is all of Argo CD.
    program: &'a str,
    redis: &'a str,
    definitions: &'a str,
}

impl<'a> Peer<'a> for Argo<'a> {
    const NAME: &'static str = "Argo CD";
    const FLAGS: &'static str = "--argo and --argo-redis, the programs argocd and redis-server, and --argo-definitions, a \
                                 folder with the definitions of its kinds";
    const NAMESPACE: &'static str = "by-argo";

    fn given(flags: &'a Flags) -> Option<Self> {
        Some(Self {
            program: flags.text("--argo")?,
            redis: flags.text("--argo-redis")?,
            definitions: flags.text("--argo-definitions")?,
        })
    }

    /// Makes what its own manifests and its argocd-server make.
    async fn install(&self, scene: &Scene<'_>) -> Fallible<()> {
        peer::install(scene, SYSTEM, self.definitions, &[PROJECT, APPLICATION]).await?;
        // Of the settings in its manifests the one that matters here: who writes a status starts no comparison.
        let data = json!({"resource.customizations.ignoreResourceUpdates.all": "jsonPointers:\n- /status\n"});
        scene.make(&CONFIGURATION, SYSTEM, json!({"metadata": part("argocd-cm"), "data": data})).await?;
        let data = json!({"server.secretkey": "a-key-of-the-bench"});
        scene.make(&SECRET, SYSTEM, json!({"metadata": part("argocd-secret"), "stringData": data})).await?;
        let spec = json!({
            "sourceRepos": ["*"], "destinations": [{"namespace": "*", "server": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        });
        scene.make(&PROJECT, SYSTEM, json!({"metadata": {"name": "default"}, "spec": spec})).await
    }

    async fn follow(scene: &Scene<'_>, repository: &HostedRepository<'_>) -> Fallible<()> {
        let url = repository.host().url();
        let metadata = json!({"name": "models", "labels": {"argocd.argoproj.io/secret-type": "repository"}});
        let data = json!({"type": "git", "url": url, "username": gitea::BOT, "password": scene.gitea.bot_token()});
        scene.make(&SECRET, SYSTEM, json!({"metadata": metadata, "stringData": data})).await?;
        let spec = json!({
            "project": "default",
            "source": {"repoURL": url, "targetRevision": "main", "path": ".", "directory": {"recurse": false}},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": Self::NAMESPACE},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}, "syncOptions": ["ServerSideApply=true"]},
        });
        scene.make(&APPLICATION, SYSTEM, json!({"metadata": {"name": "models"}, "spec": spec})).await
    }

    /// All run with their own defaults, but for addresses, connections without TLS, a Redis that stores nothing, as in Argo
    /// CD's manifests, and a log that says only errors. Each starts when the one that it needs listens, so that none waits
    /// for another attempt.
    async fn start(&self, scene: &Scene<'_>) -> Fallible<Processes> {
        let mut processes = Processes::none()?;
        let (redis, repositories) = (processes.address()?, processes.address()?);
        let (programs, authorities) = (processes.folder().join("bin"), processes.folder().join("tls"));
        fs_err::create_dir_all(&programs)?;
        // Its git asks `argocd` for passwords.
        fs_err::os::unix::fs::symlink(std::path::absolute(self.program)?, programs.join("argocd"))?;
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        // As the pod has the ConfigMap argocd-tls-certs-cm: a file for each host.
        fs_err::create_dir_all(&authorities)?;
        fs_err::copy(scene.gitea.certificate(), authorities.join("127.0.0.1"))?;
        let password_socket = processes.folder().join("ask-pass.sock");

        processes.run(self.redis, |command| {
            let address = ["--bind", "127.0.0.1", "--port", &redis.port().to_string()];
            command.args(address).args(["--save", "", "--appendonly", "no"]);
        })?;
        processes.until_listening(redis).await?;
        let redis = redis.to_string();
        let common = ["--redis", &redis, "--loglevel", "error", "--metrics-port", "0"];
        // The flag is for some of its lines.
        let (level, error) = ("ARGOCD_LOG_LEVEL", "error");
        processes.run(self.program, |command| {
            command
                .env("ARGOCD_BINARY_NAME", "argocd-repo-server")
                .env(level, error)
                .env("PATH", path)
                .env("ARGOCD_GPG_ENABLED", "false")
                .env("ARGOCD_TLS_DATA_PATH", authorities)
                .env("ARGOCD_ASK_PASS_SOCK", password_socket)
                .args(common)
                .args(["--metrics-address", "127.0.0.1", "--address", "127.0.0.1"])
                .args(["--port", &repositories.port().to_string(), "--disable-tls"]);
        })?;
        processes.until_listening(repositories).await?;
        processes.run(self.program, |command| {
            command
                .env("ARGOCD_BINARY_NAME", "argocd-application-controller")
                .env(level, error)
                // Its destination is the cluster of this file, too, as if it ran there.
                .env("ARGOCD_FAKE_IN_CLUSTER", "true")
                .env("KUBECONFIG", scene.plane.kubeconfig())
                .args(common)
                .args(["--namespace", SYSTEM, "--repo-server", &repositories.to_string(), "--repo-server-plaintext"]);
        })?;
        Ok(processes)
    }

    /// As its argocd-server asks for the application to be looked at.
    async fn notify(scene: &Scene<'_>) -> Fallible<()> {
        let patch = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
        let api = objects_of(&scene.client, &APPLICATION, SYSTEM);
        api.patch("models", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }
}

/// The metadata of a part of Argo CD, which it finds by the label.
fn part(name: &str) -> Value {
    json!({"name": name, "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"}})
}
