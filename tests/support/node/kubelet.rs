//! The life of one pod.

use super::probe::{ContainerProbe, ProbeVerdict};
use super::spec::{self, TemplateValues, VolumeContent};
use super::{ContainerProcess, NodeState, program};
use crate::testbed::{self, PATIENCE, ReservedPort};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Container, ObjectReference, Pod, Secret, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What the node is called.
pub const NAME: &str = "testbed";

/// How often a pod's process is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often readiness is asked, at most.
const READINESS: Duration = Duration::from_millis(250);
/// How long a process that ended waits until it is started again, doubled each time.
const BACKOFF: Duration = Duration::from_millis(500);
/// And at most.
const LONGEST: Duration = Duration::from_secs(10);
/// A process that ran this long has its next end counted as its first.
const SETTLED: Duration = Duration::from_secs(20);

/// A pod's task, as the node sees it.
pub struct PodHandle {
    namespace: String,
    /// How many seconds a deleted pod may take to end.
    deleted: watch::Sender<Option<Duration>>,
}

impl PodHandle {
    /// Whether it is a pod of that namespace.
    pub fn is_of(&self, namespace: &str) -> bool {
        self.namespace == namespace
    }

    /// Takes what the API server says of the pod.
    pub fn seen(&self, pod: &Pod) {
        if pod.metadata.deletion_timestamp.is_some() {
            let grace = pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            self.end(Duration::from_secs(grace.unwrap_or(30)));
        }
    }

    /// The API server knows the pod no more.
    pub fn gone(&self) {
        self.end(Duration::ZERO);
    }

    fn end(&self, grace: Duration) {
        self.deleted.send_if_modified(|known| {
            let new = known.is_none_or(|known| grace < known);
            if new {
                *known = Some(grace);
            }
            new
        });
    }
}

/// Takes a pod.
pub fn start(shared: &Arc<NodeState>, client: Client, namespace: String, pod: Pod) -> PodHandle {
    let (sender, deleted) = watch::channel(None);
    let task = PodTask {
        shared: Arc::clone(shared),
        client,
        namespace: namespace.clone(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        pod,
        deleted,
        told: None,
    };
    tokio::spawn(task.live());
    PodHandle { namespace, deleted: sender }
}

struct PodTask {
    shared: Arc<NodeState>,
    client: Client,
    namespace: String,
    name: String,
    pod: Pod,
    deleted: watch::Receiver<Option<Duration>>,
    /// The status that was written last.
    told: Option<serde_json::Value>,
}

/// The probes of a pod.
struct PodProbes {
    startup: Option<ContainerProbe>,
    readiness: Option<ContainerProbe>,
    liveness: Option<ContainerProbe>,
}

impl PodTask {
    async fn live(mut self) {
        if !self.bind().await {
            return;
        }
        let mut wait = Duration::from_secs(1);
        // What is missing may come: a secret, a config map, a service account.
        let probes = loop {
            match self.prepare().await {
                Ok(probes) => break probes,
                Err(reason) => {
                    self.waiting("CreateContainerConfigError", &reason).await;
                    testbed::say(&format!("the pod {}/{} waits: {reason}", self.namespace, self.name));
                }
            }
            if tokio::time::timeout(wait, self.deleted.changed()).await.is_ok() {
                self.finish().await;
                return;
            }
            wait = (wait * 2).min(LONGEST);
        };
        self.run(probes).await;
        self.finish().await;
    }

    /// As a scheduler does; false when another node has it.
    async fn bind(&self) -> bool {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let target =
            ObjectReference { kind: Some("Node".to_owned()), name: Some(NAME.to_owned()), ..Default::default() };
        let binding = Binding { metadata, target };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let post = PostParams::default();
        pods.create_subresource::<Binding, serde_json::Value>("binding", &self.name, &post, &binding).await.is_ok()
    }

    /// Makes the pod's folders and says how it is run.
    async fn prepare(&self) -> Result<PodProbes, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let container = spec::container(&self.pod).ok_or("this node runs pods of one container")?;
        let folder =
            self.shared.supervisor.folder().join("pods").join(self.pod.metadata.uid.as_deref().unwrap_or_default());
        let root = folder.join("root");
        fs_err::create_dir_all(&root).map_err(|error| text(&error))?;
        let account = folder.join("account");
        self.account(&account).await?;
        let mut volumes = BTreeMap::new();
        for volume in self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let path = folder.join("volumes").join(&volume.name);
            fs_err::create_dir_all(&path).map_err(|error| text(&error))?;
            if let VolumeContent::Keys(kind, name, optional) = spec::content(volume)? {
                for (key, value) in self.keys(kind, &name, optional).await? {
                    fs_err::write(path.join(key), value).map_err(|error| text(&error))?;
                }
            }
            volumes.insert(volume.name.clone(), path);
        }
        let mut values = BTreeMap::new();
        for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            let named = [
                from.config_map_key_ref.as_ref().map(|own| ("ConfigMap", own.name.clone(), own.optional)),
                from.secret_key_ref.as_ref().map(|own| ("Secret", own.name.clone(), own.optional)),
            ];
            for (kind, name, optional) in named.into_iter().flatten() {
                for (key, value) in self.keys(kind, &name, optional == Some(true)).await? {
                    values.insert((kind, name.clone(), key), String::from_utf8_lossy(&value).into_owned());
                }
            }
        }
        let (names, ports) = self.ports(container);
        let ground = TemplateValues { pod: &self.pod, volumes: &volumes, ports: &ports, values: &values };
        let image = spec::image(&self.shared.setting, &self.pod).ok_or("this node has no such image")?;
        let always = self.always(&account, &folder, container, &volumes);
        let mut command = spec::command(container, &ground, image, always)?;
        if command.arguments.first().is_some_and(|verb| verb == "controller") {
            command.arguments.extend(self.shared.setting.controller_arguments.clone());
        }
        let script = script(&program(&self.namespace, &self.name), &root, &command);
        let file = format!("{}.run", program(&self.namespace, &self.name));
        fs_err::write(self.shared.supervisor.folder().join(file), script).map_err(|error| text(&error))?;
        let probing = |probe, period| ContainerProbe::of(probe, &names, &ports, period);
        Ok(PodProbes {
            startup: probing(container.startup_probe.as_ref(), Some(READINESS))?,
            readiness: probing(container.readiness_probe.as_ref(), Some(READINESS))?,
            liveness: probing(container.liveness_probe.as_ref(), None)?,
        })
    }

    /// The files of the pod's service account, with a token that is bound to the pod.
    async fn account(&self, folder: &Path) -> Result<(), String> {
        let spec = self.pod.spec.as_ref();
        if spec.and_then(|spec| spec.automount_service_account_token) == Some(false) {
            return Ok(());
        }
        fs_err::create_dir_all(folder).map_err(|error| error.to_string())?;
        let name = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(self.name.clone()),
            uid: self.pod.metadata.uid.clone(),
        };
        let request = TokenRequest {
            // What a kubelet asks for.
            spec: TokenRequestSpec {
                expiration_seconds: Some(3607),
                bound_object_ref: Some(bound),
                ..Default::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let token = answer.map_err(|error| format!("a token of {name}: {error}"))?.status.ok_or("no token")?.token;
        let authority = fs_err::read(&self.shared.authority).map_err(|error| error.to_string())?;
        let files =
            [("token", token.into_bytes()), ("ca.crt", authority), ("namespace", self.namespace.clone().into())];
        for (name, content) in files {
            fs_err::write(folder.join(name), content).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The keys of a config map or a secret.
    async fn keys(&self, kind: &str, name: &str, optional: bool) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let found = if kind == "Secret" {
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
            let keys = |secret: Secret| secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
            secrets.get_opt(name).await.map(|found| found.map(|secret| keys(secret).collect()))
        } else {
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
            let keys =
                |map: ConfigMap| map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
            maps.get_opt(name).await.map(|found| found.map(|map| keys(map).collect()))
        };
        match found.map_err(|error| error.to_string())? {
            Some(keys) => Ok(keys),
            None if optional => Ok(BTreeMap::new()),
            None => Err(format!("there is no {kind} {name}")),
        }
    }

    /// The names of the container's ports, and a free port of this machine for each.
    fn ports(&self, container: &Container) -> (BTreeMap<String, u16>, BTreeMap<u16, u16>) {
        let (mut names, mut ports) = (BTreeMap::new(), BTreeMap::new());
        for port in container.ports.iter().flatten() {
            let number = u16::try_from(port.container_port).unwrap_or_default();
            let reserved = ReservedPort::reserve().unwrap();
            names.extend(port.name.clone().map(|name| (name, number)));
            ports.insert(number, reserved.number());
            let key = (self.namespace.clone(), self.name.clone(), number);
            self.shared.ports.lock().unwrap().insert(key, reserved);
        }
        (names, ports)
    }

    /// What a process sees whatever its template says.
    fn always(
        &self,
        account: &Path,
        folder: &Path,
        container: &Container,
        volumes: &BTreeMap<String, PathBuf>,
    ) -> BTreeMap<String, String> {
        // Without a volume there `/tmp` is part of the read-only root.
        let mounts = container.volume_mounts.iter().flatten();
        let scratch = mounts.filter(|mount| mount.mount_path == "/tmp").find_map(|mount| volumes.get(&mount.name));
        let scratch = scratch.cloned().unwrap_or_else(|| folder.join("read-only"));
        let own = [
            ("KUBERNETES_SERVICE_HOST", self.shared.server.ip().to_string()),
            ("KUBERNETES_SERVICE_PORT", self.shared.server.port().to_string()),
            ("STATOR_SERVICE_ACCOUNT_DIR", account.display().to_string()),
            ("TMPDIR", scratch.display().to_string()),
            ("HOSTNAME", self.name.clone()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        own.chain(self.shared.setting.variables.clone()).collect()
    }

    /// Runs the process until the pod is deleted.
    async fn run(&mut self, mut probes: PodProbes) {
        let process = program(&self.namespace, &self.name);
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
        let (mut restarts, mut backoff) = (0, BACKOFF);
        loop {
            self.shared.supervisor.start_program(&process);
            let began = Instant::now();
            let (mut started, mut ready) = (probes.startup.is_none(), false);
            while !self.shared.supervisor.ended(&process) {
                if self.deleted.borrow().is_some() {
                    return;
                }
                self.note(&process, restarts, ready);
                self.tell(restarts, ready, started, None).await;
                let mut dead = false;
                if let (false, Some(probe)) = (started, &mut probes.startup) {
                    let verdict = probe.round(&http).await;
                    started = verdict == ProbeVerdict::Good;
                    dead = verdict == ProbeVerdict::Bad && began.elapsed() > PATIENCE;
                }
                if let (true, Some(probe)) = (started, &mut probes.readiness) {
                    ready = match probe.round(&http).await {
                        ProbeVerdict::Good => true,
                        ProbeVerdict::Bad => false,
                        ProbeVerdict::Unchanged => ready,
                    };
                } else {
                    ready = started;
                }
                if let (true, Some(probe)) = (started, &mut probes.liveness) {
                    dead |= probe.round(&http).await == ProbeVerdict::Bad;
                }
                if dead {
                    testbed::say(&format!(
                        "the pod {}/{} does not answer its probe and is killed",
                        self.namespace, self.name
                    ));
                    self.shared.supervisor.kill_program(&process);
                    self.until_ended(&process, PATIENCE).await;
                    break;
                }
                tokio::time::sleep(TICK).await;
            }
            let code = self.shared.supervisor.code(&process).unwrap_or(-1);
            restarts += 1;
            self.shared.running.lock().unwrap().remove(&(self.namespace.clone(), self.name.clone()));
            self.tell(restarts, false, false, Some(code)).await;
            backoff = if began.elapsed() > SETTLED { BACKOFF } else { (backoff * 2).min(LONGEST) };
            if tokio::time::timeout(backoff, self.deleted.changed()).await.is_ok() {
                return;
            }
        }
    }

    fn note(&self, process: &str, restarts: u32, ready: bool) {
        if let Some(id) = self.shared.supervisor.pid(process) {
            let key = (self.namespace.clone(), self.name.clone());
            self.shared.running.lock().unwrap().insert(key, ContainerProcess { id, restarts, ready });
        }
    }

    /// Ends the process within its grace, and lets the pod go.
    async fn finish(&mut self) {
        let process = program(&self.namespace, &self.name);
        let grace = (*self.deleted.borrow()).unwrap_or_default();
        if self.shared.supervisor.pid(&process).is_some() && !self.shared.supervisor.ended(&process) {
            self.shared.supervisor.ask_to_end(&process);
            self.until_ended(&process, grace).await;
            if !self.shared.supervisor.ended(&process) {
                self.shared.supervisor.kill_program(&process);
                self.until_ended(&process, PATIENCE).await;
            }
        }
        self.shared.running.lock().unwrap().remove(&(self.namespace.clone(), self.name.clone()));
        let preconditions = Preconditions { uid: self.pod.metadata.uid.clone(), resource_version: None };
        let now =
            DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..Default::default() };
        // Gone is gone, whoever did it.
        let _ = Api::<Pod>::namespaced(self.client.clone(), &self.namespace).delete(&self.name, &now).await;
    }

    async fn until_ended(&self, process: &str, limit: Duration) {
        let start = Instant::now();
        while !self.shared.supervisor.ended(process) && start.elapsed() < limit {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Writes the status of a container that cannot be made.
    async fn waiting(&mut self, reason: &str, message: &str) {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        self.write("Pending", false, false, 0, &state).await;
    }

    /// Writes how the process is; `code` once it is over.
    async fn tell(&mut self, restarts: u32, ready: bool, started: bool, code: Option<i32>) {
        let state = match code {
            None => json!({"running": {}}),
            Some(code) => json!({"waiting": {"reason": "CrashLoopBackOff", "message": format!("ended with {code}")}}),
        };
        self.write("Running", ready, started, restarts, &state).await;
    }

    async fn write(&mut self, phase: &str, ready: bool, started: bool, restarts: u32, state: &serde_json::Value) {
        let flag = |yes: bool| if yes { "True" } else { "False" };
        let condition = |name: &str, yes: bool| json!({"type": name, "status": flag(yes)});
        let image = spec::container(&self.pod).and_then(|container| container.image.clone());
        let container = spec::container(&self.pod).map(|container| container.name.clone());
        let status = json!({
            "phase": phase,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [
                condition("Initialized", true), condition("PodScheduled", true),
                condition("ContainersReady", ready), condition("Ready", ready),
            ],
            "containerStatuses": [{
                "name": container, "image": image, "imageID": "", "ready": ready, "started": started,
                "restartCount": restarts, "state": state,
            }],
        });
        if self.told.as_ref() == Some(&status) {
            return;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"status": status}));
        if pods.patch_status(&self.name, &PatchParams::default(), &patch).await.is_ok() {
            self.told = Some(status);
        }
    }
}

/// What the supervisor's shell reads to start the process.
fn script(name: &str, root: &Path, command: &spec::ContainerCommand) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let mut words = vec!["run".to_owned(), quote(name), "sh -c 'cd \"$1\" && shift && exec \"$@\"' sh".to_owned()];
    words.push(quote(&root.display().to_string()));
    words.push("env -i".to_owned());
    words.extend(command.variables.iter().map(|(name, value)| quote(&format!("{name}={value}"))));
    words.push(quote(&command.program.display().to_string()));
    words.extend(command.arguments.iter().map(|argument| quote(argument)));
    words.join(" ") + "\n"
}
