//! What every program beside stator needs here: definitions, a repository of manifests, and processes that are watched.

use super::Fallible;
use super::bare_loop::{RenderedRepository, objects_of, resource};
use super::process::memory_of;
use super::report::Flags;
use super::repository::{HostedRepository, name};
use super::scene::Scene;
use super::testbed::ReservedPort;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::object::Object;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long kinds may take until they are served, and a process until it listens.
const PATIENCE: Duration = Duration::from_secs(120);

const DEFINITION: ObjectKind = ObjectKind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    short: "definition",
};

/// A program that syncs a repository of manifests to a namespace.
pub(crate) trait Peer<'a>: Sized {
    /// What it is called.
    const NAME: &'static str;
    /// The flags that name its programs.
    const FLAGS: &'static str;
    /// Where its graphs are. Its repository has the same name.
    const NAMESPACE: &'static str;

    /// `None` where a flag is missing.
    fn given(flags: &'a Flags) -> Option<Self>;

    /// Installs its kinds, and what it needs before it starts.
    async fn install(&self, scene: &Scene<'_>) -> Fallible<()>;

    /// Has it sync a repository to [`Self::NAMESPACE`].
    async fn follow(scene: &Scene<'_>, repository: &HostedRepository<'_>) -> Fallible<()>;

    /// Starts it.
    async fn start(&self, scene: &Scene<'_>) -> Fallible<Processes>;

    /// Does what it does itself with a push that was delivered, in a part that does not run here.
    async fn notify(scene: &Scene<'_>) -> Fallible<()>;
}

/// The processes of a program, while they run.
pub(crate) struct Processes {
    children: Vec<Child>,
    /// When the first of them was started.
    pub(crate) started: Instant,
    ports: Vec<ReservedPort>,
    folder: tempfile::TempDir,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    /// None yet.
    pub(crate) fn none() -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self { children: Vec::new(), started: Instant::now(), ports: Vec::new(), folder })
    }

    /// Where they run, and have their files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// An address for one of them to listen on.
    pub(crate) fn address(&mut self) -> Fallible<SocketAddr> {
        let port = ReservedPort::reserve()?;
        let address = port.address();
        self.ports.push(port);
        Ok(address)
    }

    /// Starts one more.
    pub(crate) fn run(&mut self, program: &str, prepare: impl FnOnce(&mut Command)) -> Fallible<()> {
        // Links stay: a program may go by the name that it is called by.
        let mut command = Command::new(std::path::absolute(program)?);
        command.current_dir(self.folder()).env("TMPDIR", self.folder());
        prepare(&mut command);
        if self.children.is_empty() {
            self.started = Instant::now();
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
        self.children.push(child.map_err(|error| format!("{program}: {error}"))?);
        Ok(())
    }

    /// Waits until one of them listens.
    pub(crate) async fn until_listening(&mut self, address: SocketAddr) -> Fallible<()> {
        let listening = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            answer = tokio::time::timeout(PATIENCE, listening) => {
                answer.map_err(|_| format!("nothing listens on {address}").into())
            }
            ended = self.until_ended() => ended,
        }
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Comes back with an error when one of them ends.
    pub(crate) async fn until_ended<T>(&mut self) -> Fallible<T> {
        loop {
            for child in &mut self.children {
                if let Some(status) = child.try_wait()? {
                    return Err(format!("a process ended: {status}; its lines are above").into());
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The sum of the most memory that each of them ever held, in MiB.
    pub(crate) fn peak_mib(&self) -> Fallible<u64> {
        self.children.iter().map(|child| memory_of(child, "VmHWM")).sum()
    }
}

/// Makes the namespace of a program, installs the definitions in a folder, and waits until these kinds are served.
pub(crate) async fn install(scene: &Scene<'_>, system: &str, folder: &str, kinds: &[ObjectKind]) -> Fallible<()> {
    scene.plane.namespace(system).await;
    let params = PatchParams::apply("bench").force();
    let definitions: Api<DynamicObject> = Api::all_with(scene.client.clone(), &resource(&DEFINITION));
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let definition: Value = serde_saphyr::from_str(&fs_err::read_to_string(&path)?)?;
        // Beside them is what puts them together.
        if definition["kind"] == DEFINITION.kind {
            let name = definition["metadata"]["name"].as_str().ok_or("a definition without a name")?;
            definitions.patch(name, &params, &Patch::Apply(&definition)).await?;
        }
    }
    for kind in kinds {
        let start = Instant::now();
        let api = objects_of(&scene.client, kind, system);
        while let Err(error) = api.list(&ListParams::default()).await {
            if start.elapsed() > PATIENCE {
                return Err(format!("{folder} has no {}: {error}", kind.kind).into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// A repository of manifests: rendered graphs, one file for each model.
pub(crate) struct ManifestRepository<'a> {
    pub(crate) hosted: HostedRepository<'a>,
    objects: Vec<Object>,
}

impl<'a> ManifestRepository<'a> {
    /// With the graphs as they are for a namespace, whose name it has, pushed.
    pub(crate) fn new(scene: &Scene<'a>, rendered: &RenderedRepository, namespace: &str) -> Fallible<Self> {
        let hosted = tokio::task::block_in_place(|| HostedRepository::empty(scene.gitea, namespace))?;
        let objects = rendered.objects(namespace)?;
        let files = objects.iter().enumerate().map(|(number, object)| manifest(number, object.value()));
        hosted.commit(&files.collect::<Vec<_>>())?;
        hosted.push_first();
        Ok(Self { hosted, objects })
    }

    /// Commits other replicas of one model.
    pub(crate) fn commit_change(&self, number: usize, replicas: i64) -> Fallible<()> {
        let mut object = self.objects.get(number).ok_or("no such object")?.value().clone();
        super::graphs::set_replicas(&mut object, replicas);
        self.hosted.commit(&[manifest(number, &object)])
    }
}

fn manifest(number: usize, object: &Value) -> (String, String) {
    (format!("{}.yaml", name(number)), object.to_string())
}
