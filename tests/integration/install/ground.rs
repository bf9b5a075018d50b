//! A cluster without stator, with a node for its pods, and an API server that writes down who asked for what. All tests of
//! an installation share it; each has namespaces of its own.

use super::helm;
use crate::node::{Node, NodeSettings};
use crate::testbed::{self, Audit, ControlPlane, Programs};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the image is said to be.
pub const IMAGE: &str = "registry.example.com/stator";

pub struct Ground {
    pub plane: ControlPlane,
    pub node: Node,
}

impl Ground {
    /// One of a test's own: a cluster has one release that holds the definitions. `None`: skip the test, it has been said.
    pub async fn new() -> Option<Self> {
        Self::of_images(vec![(IMAGE.to_owned(), PathBuf::from(env!("CARGO_BIN_EXE_stator")))]).await
    }

    /// The same with other images, each with its program.
    pub async fn of_images(images: Vec<(String, PathBuf)>) -> Option<Self> {
        // Started aside: it has a runtime of its own.
        tokio::task::spawn_blocking(move || Self::start(images)).await.unwrap()
    }

    fn start(images: Vec<(String, PathBuf)>) -> Option<Self> {
        // Says why not, and fails where nothing may be skipped.
        testbed::shared()?;
        testbed::helm()?;
        testbed::kubectl()?;
        let plane = ControlPlane::bare(&Programs::find().unwrap(), Audit::On).unwrap();
        let names = ["lifecycle", "packaged", "rights", "rights-scoped"];
        let setting = NodeSettings {
            namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            images,
            // The tests' git host is on this machine, and speaks no TLS.
            controller_arguments: vec!["--allow-local-addresses".to_owned(), "--allow-insecure".to_owned()],
            ..NodeSettings::default()
        };
        let node = Node::start(&plane, setting)?;
        Some(Self { plane, node })
    }

    /// A namespace whose pods must keep to the strictest of Kubernetes' standards.
    pub async fn namespace(&self, name: &str) -> String {
        let name = self.plane.namespace(name).await;
        self.kubectl(&["label", "namespace", &name, "pod-security.kubernetes.io/enforce=restricted"]);
        name
    }

    /// Runs helm as the cluster's admin.
    pub fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        let output = helm(testbed::helm().unwrap(), Some(&self.plane.kubeconfig()), arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Runs kubectl as the cluster's admin.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(testbed::kubectl().unwrap());
        command.args(arguments).env("KUBECONFIG", self.plane.kubeconfig());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Installs or upgrades a release, and waits until its pods are ready.
    pub fn release(&self, namespace: &str, name: &str, verb: &[&str], more: &[&str]) {
        self.release_of(&super::chart(), namespace, name, verb, more);
    }

    /// The same of another chart.
    pub fn release_of(&self, chart: &Path, namespace: &str, name: &str, verb: &[&str], more: &[&str]) {
        let image = format!("image.repository={IMAGE}");
        let fixed = [name, chart.to_str().unwrap(), "-n", namespace, "--set", &image, "--wait", "--timeout", "15m"];
        let arguments: Vec<&str> = verb.iter().copied().chain(fixed).chain(more.iter().copied()).collect();
        if let Err(error) = self.helm(&arguments) {
            let pods = self.kubectl(&["get", "pods,events", "-n", namespace, "-o", "wide"]);
            panic!("helm {verb:?}: {error}\n{pods}\n{}", self.node.logs());
        }
    }

    /// Objects of a kind of stator's.
    pub async fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("stator.dev", "v1alpha1", kind));
        Api::namespaced_with(self.plane.admin().await, namespace, &kind)
    }

    /// Everything in the cluster that bears the labels of a release, sorted: `Kind namespace/name`.
    pub async fn of_release(&self, namespace: &str, name: &str) -> Vec<String> {
        let client = self.plane.admin().await;
        let discovery = kube::discovery::Discovery::new(client.clone()).run().await.unwrap();
        let selector = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
        let mut found = Vec::new();
        for group in discovery.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                if !capabilities.supports_operation("list") {
                    continue;
                }
                // What Kubernetes makes of a Deployment comes and goes with it.
                if ["Pod", "ReplicaSet", "Event"].contains(&resource.kind.as_str()) {
                    continue;
                }
                let Ok(list) = Api::<DynamicObject>::all_with(client.clone(), &resource).list(&selector).await else {
                    continue;
                };
                for object in list.items {
                    let own = object.metadata.namespace.clone().unwrap_or_default();
                    assert!(own.is_empty() || own == namespace, "{object:?}");
                    found.push(format!("{} {own}/{}", resource.kind, object.metadata.name.unwrap_or_default()));
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }
}
