//! Flux, as far as it syncs a repository of manifests: its source-controller and its kustomize-controller.

use super::Fallible;
use super::bare_loop::objects_of;
use super::repository::HostedRepository;
use super::scene::Scene;
use super::testbed::{ControlPlane, ReservedPort};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::ObjectKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long its kinds may take until they are served.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where Flux itself lives.
const SYSTEM: &str = "flux-system";

const DEFINITION: ObjectKind = ObjectKind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    short: "definition",
};
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

/// The given programs, with the folder of the definitions of their kinds.
pub(crate) struct FluxPrograms<'a> {
    pub(crate) source: &'a str,
    pub(crate) kustomize: &'a str,
    pub(crate) definitions: &'a str,
}

/// Both controllers, while they run.
pub(crate) struct Flux {
    children: Vec<Child>,
    /// When the first of them was started.
    pub(crate) started: Instant,
    _storage: ReservedPort,
    _folder: tempfile::TempDir,
}

impl Drop for Flux {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Flux {
    /// Starts both with their own defaults, but for addresses and a log that says only errors.
    pub(crate) fn start(plane: &ControlPlane, programs: &FluxPrograms<'_>) -> Fallible<Self> {
        let (folder, storage) = (tempfile::tempdir()?, ReservedPort::reserve()?);
        let address = storage.address().to_string();
        fs_err::create_dir_all(folder.path().join("storage"))?;
        let path = folder.path().join("storage").display().to_string();
        let started = Instant::now();
        let mut flux = Self { children: Vec::new(), started, _storage: storage, _folder: folder };
        let serves = ["--storage-path", &path, "--storage-addr", &address, "--storage-adv-addr", &address];
        for (program, arguments) in [(programs.source, &serves[..]), (programs.kustomize, &[])] {
            let mut command = Command::new(Path::new(program).canonicalize()?);
            command
                .current_dir(flux._folder.path())
                .args([
                    "--metrics-addr",
                    "0",
                    "--health-addr",
                    "127.0.0.1:0",
                    "--events-addr",
                    "",
                    "--log-level",
                    "error",
                ])
                .args(arguments)
                .env("KUBECONFIG", plane.kubeconfig())
                .env("RUNTIME_NAMESPACE", SYSTEM)
                .env("TMPDIR", flux._folder.path());
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
            flux.children.push(child.map_err(|error| format!("{program}: {error}"))?);
        }
        Ok(flux)
    }

    /// Comes back with an error when one of them ends.
    pub(crate) async fn until_ended<T>(&mut self) -> Fallible<T> {
        loop {
            for child in &mut self.children {
                if let Some(status) = child.try_wait()? {
                    return Err(format!("a controller of Flux ended: {status}; its lines are above").into());
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The most memory that they ever held together, in MiB.
    pub(crate) fn peak_mib(&self) -> Fallible<u64> {
        let mut sum = 0;
        for child in &self.children {
            let status = fs_err::read_to_string(format!("/proc/{}/status", child.id()))?;
            let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
            sum += line.split_whitespace().nth(1).ok_or("no number after VmHWM")?.parse::<u64>()? / 1024;
        }
        Ok(sum)
    }
}

/// Installs the kinds of Flux, and waits until they are served.
pub(crate) async fn install(scene: &Scene<'_>, folder: &str) -> Fallible<()> {
    scene.plane.namespace(SYSTEM).await;
    let (params, mut kinds) = (PatchParams::apply("bench").force(), Vec::new());
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let definition: Value = serde_saphyr::from_str(&fs_err::read_to_string(&path)?)?;
        let name = definition["metadata"]["name"].as_str().ok_or("a definition without a name")?.to_owned();
        let api: Api<DynamicObject> = Api::all_with(scene.client.clone(), &super::bare_loop::resource(&DEFINITION));
        api.patch(&name, &params, &Patch::Apply(&definition)).await?;
        kinds.push(name);
    }
    for kind in [&REPOSITORY, &KUSTOMIZATION] {
        let start = Instant::now();
        let api = objects_of(&scene.client, kind, SYSTEM);
        while let Err(error) = api.list(&ListParams::default()).await {
            if start.elapsed() > PATIENCE {
                let found = kinds.join(", ");
                return Err(format!("{folder} has no {} ({found}): {error}", kind.kind).into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Has Flux sync a repository into a namespace.
pub(crate) async fn follow(scene: &Scene<'_>, repository: &HostedRepository<'_>, namespace: &str) -> Fallible<()> {
    scene.credentials(namespace).await?;
    let spec = json!({
        "url": repository.host().url(), "ref": {"branch": "main"}, "interval": "24h", "secretRef": {"name": "git"},
    });
    scene.make(&REPOSITORY, namespace, json!({"metadata": {"name": "models"}, "spec": spec})).await?;
    let spec = json!({
        "sourceRef": {"kind": "GitRepository", "name": "models"}, "path": "./", "interval": "24h", "prune": true,
        "targetNamespace": namespace,
    });
    scene.make(&KUSTOMIZATION, namespace, json!({"metadata": {"name": "models"}, "spec": spec})).await?;
    scene.have_delivered(repository);
    Ok(())
}

/// Does what its notification-controller does with a push that was delivered: asks for the repository to be looked at.
pub(crate) async fn notify(scene: &Scene<'_>, namespace: &str) -> Fallible<()> {
    let now = jiff::Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": now}}});
    let api = objects_of(&scene.client, &REPOSITORY, namespace);
    api.patch("models", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}
