//! What stands behind the Service of a graph's frontend: a server on this machine that lists models.

use axum::{Json, Router, routing::get};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

/// What a frontend lists; clones are of the same one.
#[derive(Clone, Debug, Default)]
pub struct ListedModels(Arc<Mutex<Vec<String>>>);

impl ListedModels {
    pub fn set(&self, names: &[&str]) {
        *self.0.lock().unwrap() = names.iter().map(|name| (*name).to_owned()).collect();
    }

    fn answer(&self) -> Value {
        let names = self.0.lock().unwrap().clone();
        let models: Vec<Value> = names.into_iter().map(|id| json!({"id": id, "object": "model"})).collect();
        json!({"object": "list", "data": models})
    }
}

/// An address of this machine that is no loopback address, which Kubernetes takes for none of a Service. Nothing is sent to
/// find it.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Starts a frontend, for as long as the process lives, and makes the Service that leads to it. `None` where this machine has
/// no address for it, which is said.
pub async fn start(client: kube::Client, namespace: &str, service: &str) -> Option<ListedModels> {
    let Some(address) = own_address() else {
        crate::testbed::say("skipped: this machine has no address but loopback");
        return None;
    };
    let listed = ListedModels::default();
    let listener = TcpListener::bind(SocketAddr::from((address, 0))).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = listed.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let router = Router::new().route("/v1/models", get(move || async move { Json(own.answer()) }));
        runtime.block_on(async {
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
    });
    let (metadata, post) = (json!({"name": service}), PostParams::default());
    let ports = json!([{"name": "http", "port": 8000, "targetPort": port}]);
    let made: Service = serde_json::from_value(json!({"metadata": metadata, "spec": {"ports": ports}})).unwrap();
    Api::<Service>::namespaced(client.clone(), namespace).create(&post, &made).await.unwrap();
    // The API server connects to nothing but pods.
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "frontend:1"}]}});
    pods.create(&post, &serde_json::from_value(pod).unwrap()).await.unwrap();
    let status = Patch::Merge(json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}}));
    pods.patch_status(service, &PatchParams::default(), &status).await.unwrap();
    let target = json!({"kind": "Pod", "namespace": namespace, "name": service});
    let endpoints = json!({"metadata": metadata, "subsets": [{
        "addresses": [{"ip": address, "targetRef": target}], "ports": [{"name": "http", "port": port}],
    }]});
    let endpoints: Endpoints = serde_json::from_value(endpoints).unwrap();
    Api::<Endpoints>::namespaced(client, namespace).create(&post, &endpoints).await.unwrap();
    Some(listed)
}
