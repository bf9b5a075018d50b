//! Flux, as far as it syncs a repository of manifests: its source-controller and its kustomize-controller.

use super::Fallible;
use super::bare_loop::objects_of;
use super::peer::{self, Peer, Processes};
use super::report::Flags;
use super::repository::HostedRepository;
use super::scene::Scene;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stator_core::dynamo::kinds::ObjectKind;

/// Where Flux itself lives.
const SYSTEM: &str = "flux-system";

const REPOSITORY: ObjectKind = ObjectKind {
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    kind: "GitRepository",
    plural: "gitrepositories",
    short: "repository",
};
const KUSTOMIZATION: ObjectKind = ObjectKind {
    group: "kustomize.toolkit.fluxcd.io",
    version: "v1",
    kind: "Kustomization",
    plural: "kustomizations",
    short: "kustomization",
};

/// Its programs, with the folder of the definitions of their kinds.
pub(crate) struct Flux<'a> {
    source: &'a str,
    kustomize: &'a str,
    definitions: &'a str,
}

impl<'a> Peer<'a> for Flux<'a> {
    const NAME: &'static str = "Flux";
    const FLAGS: &'static str = "--flux-source and --flux-kustomize, its programs, and --flux-definitions, a folder with \
                                 the definitions of their kinds";
    const NAMESPACE: &'static str = "by-flux";

    fn given(flags: &'a Flags) -> Option<Self> {
        Some(Self {
            source: flags.text("--flux-source")?,
            kustomize: flags.text("--flux-kustomize")?,
            definitions: flags.text("--flux-definitions")?,
        })
    }

    async fn install(&self, scene: &Scene<'_>) -> Fallible<()> {
        peer::install(scene, SYSTEM, self.definitions, &[REPOSITORY, KUSTOMIZATION]).await
    }

    async fn follow(scene: &Scene<'_>, repository: &HostedRepository<'_>) -> Fallible<()> {
        scene.credentials(Self::NAMESPACE).await?;
        let spec = json!({
            "url": repository.host().url(), "ref": {"branch": "main"}, "interval": "24h", "secretRef": {"name": "git"},
        });
        let source = json!({"metadata": {"name": "models"}, "spec": spec});
        scene.make(&REPOSITORY, Self::NAMESPACE, source).await?;
        let spec = json!({
            "sourceRef": {"kind": "GitRepository", "name": "models"}, "path": "./", "interval": "24h", "prune": true,
            "targetNamespace": Self::NAMESPACE,
        });
        scene.make(&KUSTOMIZATION, Self::NAMESPACE, json!({"metadata": {"name": "models"}, "spec": spec})).await
    }

    /// Both run with their own defaults, but for addresses and a log that says only errors.
    async fn start(&self, scene: &Scene<'_>) -> Fallible<Processes> {
        let mut processes = Processes::none()?;
        let address = processes.address()?.to_string();
        let storage = processes.folder().join("storage");
        fs_err::create_dir_all(&storage)?;
        let path = storage.display().to_string();
        let serves = ["--storage-path", &path, "--storage-addr", &address, "--storage-adv-addr", &address];
        for (program, arguments) in [(self.source, &serves[..]), (self.kustomize, &[])] {
            processes.run(program, |command| {
                command
                    .args(["--metrics-addr", "0", "--health-addr", "127.0.0.1:0", "--events-addr", ""])
                    .args(["--log-level", "error"])
                    .args(arguments)
                    .env("KUBECONFIG", scene.plane.kubeconfig())
                    .env("RUNTIME_NAMESPACE", SYSTEM);
            })?;
        }
        Ok(processes)
    }

    /// As its notification-controller asks for the repository to be looked at.
    async fn notify(scene: &Scene<'_>) -> Fallible<()> {
        let now = jiff::Timestamp::now().to_string();
        let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": now}}});
        let api = objects_of(&scene.client, &REPOSITORY, Self::NAMESPACE);
        api.patch("models", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }
}
