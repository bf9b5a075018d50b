//! A real API server that writes graphs as Dynamo has them written, a real Gitea, two replicas, and everything of it that can
//! break.

use super::controller::Controller;
use super::end;
use super::gate::Gate;
use super::operator::Operator;
use super::site::{Hands, Site};
use crate::cluster::converting;
use crate::gitea::Gitea;
use crate::testbed::{self, ControlPlane, Programs, until};
use stator_core::dynamo::release::Release;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A replica of the controller is killed, and another process takes its place.
    ControllerKilled,
    /// A replica is stopped where it stands for longer than its leases last, and goes on.
    ControllerPaused,
    /// The wall clock of a replica is an hour ahead, and is set back.
    ClockStepped,
    /// The disk of a replica is full.
    DiskFull,
    /// Every pack of all mirrors is overwritten.
    MirrorsDamaged,
    /// The API server is killed and comes back.
    ApiServerRestarted,
    /// etcd forgets all but the newest revision, and the API server begins anew: watches from older ones are answered with 410.
    EtcdCompacted,
    /// etcd answers nothing for some seconds.
    EtcdPaused,
    /// Every connection to the API server is cut, again and again.
    ConnectionsCut,
    /// The webhook that converts graphs cannot be reached.
    ConversionAway,
    /// The API server comes back with another certificate.
    CertificateRenewed,
    /// The git host is killed and comes back.
    ForgeRestarted,
    /// The git host is away for an hour.
    ForgeAway,
}

impl Fault {
    pub const ALL: [Self; 13] = [
        Self::ControllerKilled,
        Self::ControllerPaused,
        Self::ClockStepped,
        Self::DiskFull,
        Self::MirrorsDamaged,
        Self::ApiServerRestarted,
        Self::EtcdCompacted,
        Self::EtcdPaused,
        Self::ConnectionsCut,
        Self::ConversionAway,
        Self::CertificateRenewed,
        Self::ForgeRestarted,
        Self::ForgeAway,
    ];

    /// Whether two break the same thing, which cannot be broken twice at a time: an API server ends that starts while its etcd
    /// does not answer, and no kubelet is there to start it again.
    pub fn breaks_the_same_as(self, other: Self) -> bool {
        self.broken() == other.broken()
    }

    fn broken(self) -> Broken {
        match self {
            Self::ControllerKilled
            | Self::ControllerPaused
            | Self::ClockStepped
            | Self::DiskFull
            | Self::MirrorsDamaged => Broken::OneReplica(self),
            Self::ApiServerRestarted | Self::EtcdCompacted | Self::EtcdPaused | Self::CertificateRenewed => {
                Broken::ApiServer
            }
            Self::ConnectionsCut => Broken::WayToApiServer,
            Self::ConversionAway => Broken::Conversion,
            Self::ForgeRestarted | Self::ForgeAway => Broken::GitHost,
        }
    }
}

/// What a fault is in.
#[derive(PartialEq, Eq)]
enum Broken {
    /// There are two of them: the other one may have another fault.
    OneReplica(Fault),
    ApiServer,
    WayToApiServer,
    Conversion,
    GitHost,
}

/// Everything that can break. It ends with the value.
pub struct World {
    pub plane: &'static ControlPlane,
    pub gitea: &'static Gitea,
    /// Before the hands, whose folder the disks are mounted in.
    pub controllers: Vec<Controller>,
    pub hands: Hands,
    pub sites: Vec<Site>,
    pub killed: usize,
    tenants: Vec<String>,
    /// What the controllers reach the API server by.
    kubeconfig: PathBuf,
    api_server: Gate,
    conversion: Gate,
    _operator: Operator,
}

impl Drop for World {
    fn drop(&mut self) {
        self.gitea.kill();
        self.plane.end();
    }
}

impl World {
    /// Starts everything, with two replicas and so many sources of each tenant, and waits until all are synced.
    pub fn found(tenants: &[&str], sources: usize) -> Self {
        Self::found_with(tenants, sources, 2, &[])
    }

    /// The same with other replicas, which have further flags.
    pub fn found_with(tenants: &[&str], sources: usize, replicas: usize, flags: &'static [&'static str]) -> Self {
        let plane: &'static ControlPlane =
            Box::leak(Box::new(ControlPlane::start(&Programs::find().unwrap()).unwrap()));
        let gitea: &'static Gitea = Box::leak(Box::new(Gitea::start().unwrap()));
        let hands = Hands::of(plane);
        hands.block_on(converting::write_as_upstream(plane, Release::V1_2));
        let conversion = hands.block_on(gate_before_conversion(plane));
        for namespace in tenants.iter().chain(&["chaos-system"]) {
            hands.namespace(plane, namespace);
        }
        let server = plane.server();
        let api_server = Gate::before(server.trim_start_matches("https://").parse().unwrap());
        let kubeconfig = hands.folder.path().join("kubeconfig");
        let direct = fs_err::read_to_string(plane.kubeconfig()).unwrap();
        let gated = direct.replace(&server, &format!("https://127.0.0.1:{}", api_server.port()));
        fs_err::write(&kubeconfig, gated).unwrap();
        let operator = Operator::start(plane, tenants);
        let mut sites: Vec<Site> = Vec::new();
        for tenant in tenants {
            hands.tenant(gitea, tenant);
            for number in 0..sources {
                sites.push(Site::found(&hands, gitea, tenant, number));
            }
        }
        let start = |number| Controller::start(&hands, &kubeconfig, number, flags);
        let controllers = (0..replicas).map(start).collect();
        let tenants = tenants.iter().map(|name| (*name).to_owned()).collect();
        let world = Self {
            plane,
            gitea,
            controllers,
            hands,
            sites,
            killed: 0,
            tenants,
            kubeconfig,
            api_server,
            conversion,
            _operator: operator,
        };
        for site in &world.sites {
            until(&format!("{} is synced for the first time", site.name), || site.is_done(&world.hands));
        }
        world
    }

    /// Breaks something; of the replicas this one.
    pub fn begin(&mut self, fault: Fault, which: usize) {
        let controller = &mut self.controllers[which];
        match fault {
            Fault::ControllerKilled => controller.process.kill(),
            Fault::ControllerPaused => controller.process.signal("-STOP"),
            Fault::ClockStepped => controller.clock.step(3600),
            Fault::DiskFull => controller.fill_disk(true),
            // A replica may have no source just now.
            Fault::MirrorsDamaged => {
                let damaged: usize = self.controllers.iter().map(Controller::damage_mirrors).sum();
                assert!(damaged > 0, "there are no mirrors");
            }
            Fault::ApiServerRestarted => self.plane.restart("kube-apiserver"),
            Fault::EtcdCompacted => {
                self.plane.compact();
                self.plane.restart("kube-apiserver");
            }
            Fault::EtcdPaused => self.plane.signal("etcd", "-STOP"),
            Fault::ConnectionsCut => {
                for _ in 0..5 {
                    self.api_server.cut();
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
            Fault::ConversionAway => self.conversion.close(true),
            Fault::CertificateRenewed => self.plane.renew_certificate(),
            Fault::ForgeRestarted | Fault::ForgeAway => self.gitea.kill(),
        }
    }

    /// Mends it.
    pub fn end(&mut self, fault: Fault, which: usize) {
        let controller = &mut self.controllers[which];
        match fault {
            Fault::ControllerKilled => {
                self.killed += 1;
                controller.restart(&self.hands, &self.kubeconfig);
            }
            Fault::ControllerPaused => controller.process.signal("-CONT"),
            Fault::ClockStepped => controller.clock.step(-3600),
            Fault::DiskFull => controller.fill_disk(false),
            Fault::EtcdPaused => self.plane.signal("etcd", "-CONT"),
            Fault::ConnectionsCut => self.api_server.cut(),
            Fault::ConversionAway => self.conversion.close(false),
            Fault::ForgeRestarted => self.gitea.restart(),
            Fault::ForgeAway => {
                for _ in 0..60 {
                    self.controllers.iter_mut().for_each(|controller| controller.clock.pass(60));
                    std::thread::sleep(Duration::from_millis(100));
                }
                self.controllers.iter_mut().for_each(|controller| controller.clock.step(-3600));
                self.gitea.restart();
            }
            Fault::MirrorsDamaged | Fault::ApiServerRestarted | Fault::EtcdCompacted | Fault::CertificateRenewed => {}
        }
    }

    /// The uid of each graph that is never removed.
    pub fn uids(&self) -> BTreeMap<String, String> {
        self.tenants.iter().flat_map(|tenant| self.hands.uids(tenant)).collect()
    }

    /// Pushes what was committed while the git host was away, and waits until everything is as the last commits say and every
    /// commit has its verdict.
    pub fn await_verdicts(&mut self) {
        for site in &mut self.sites {
            site.push_what_is_left();
        }
        self.sites.iter().for_each(|site| self.await_end_of(site));
        self.sites.iter().for_each(Site::await_verdicts);
    }

    /// Waits until a source's last commit has its success, and the cluster is as it says.
    pub fn await_end_of(&self, site: &Site) {
        until(&format!("{} is as its last commit says", site.name), || {
            site.is_done(&self.hands).map_err(|seen| || format!("{}\n{}", seen(), self.said_of(site)))
        });
    }

    /// Every plan is empty.
    pub fn is_settled(&self) {
        for site in &self.sites {
            site.is_settled(&self.hands);
        }
    }

    /// How many lines of trouble the controllers wrote so far.
    pub fn complaints(&self) -> usize {
        let lines = |one: &Controller| one.process.times(&[" WARN "]) + one.process.times(&[" ERROR "]);
        self.controllers.iter().map(lines).sum()
    }

    /// What is wrong with what the git host shows of all commits.
    pub fn wrong_verdicts(&self) -> Vec<String> {
        self.sites.iter().flat_map(end::wrong_verdicts).collect()
    }

    /// Nothing is written where nothing is to do.
    pub fn is_at_rest(&self) {
        let before = self.hands.versions(&self.tenants);
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(self.hands.versions(&self.tenants), before, "something is written at rest");
    }

    /// The last lines that the controllers wrote of a source.
    fn said_of(&self, site: &Site) -> String {
        let said = self.controllers.iter().map(|one| one.process.said()).collect::<Vec<_>>().join("\n");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&site.name)).collect();
        testbed::tail(&lines.join("\n"), 20)
    }
}

/// Puts a gate between the API server and the webhook that converts graphs.
async fn gate_before_conversion(plane: &ControlPlane) -> Gate {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::{Api, Patch, PatchParams};
    use stator_core::dynamo::kinds::GRAPH;
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin().await);
    let name = format!("{}.{}", GRAPH.plural, GRAPH.group);
    let definition = serde_json::to_value(definitions.get(&name).await.unwrap()).unwrap();
    let url = definition.pointer("/spec/conversion/webhook/clientConfig/url").unwrap().as_str().unwrap();
    let mut url: url::Url = url.parse().unwrap();
    let gate = Gate::before(([127, 0, 0, 1], url.port().unwrap()).into());
    url.set_port(Some(gate.port())).unwrap();
    let patch = serde_json::json!({"spec": {"conversion": {"webhook": {"clientConfig": {"url": url.as_str()}}}}});
    definitions.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    gate
}
