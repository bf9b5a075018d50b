//! A service's connections, as a load balancer passes them on.

use super::NodeState;
use crate::testbed;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, ListParams};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Listens for a service's port, on a thread of its own until the node ends.
pub fn expose(shared: &Arc<NodeState>, namespace: &str, service: &str, port: &str) -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (shared, namespace) = (Arc::clone(shared), namespace.to_owned());
    let (service, port) = (service.to_owned(), port.to_owned());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ending = shared.ending.clone();
            let listener = TcpListener::from_std(listener).unwrap();
            let mut next = 0_usize;
            let serve = async {
                loop {
                    let Ok((mut from, _)) = listener.accept().await else { continue };
                    next = next.wrapping_add(1);
                    let (shared, which) =
                        (Arc::clone(&shared), (namespace.clone(), service.clone(), port.clone(), next));
                    tokio::spawn(async move {
                        // Nobody ready: the connection ends, as with a service that has no endpoint.
                        let Some(to) = endpoint(&shared, &which).await else { return };
                        let Ok(mut to) = TcpStream::connect(to).await else { return };
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    });
                }
            };
            tokio::select! {
                () = serve => {}
                () = ending.cancelled() => {}
            }
        });
    });
    address
}

/// Where one of the ready pods of a service listens.
async fn endpoint(shared: &NodeState, which: &(String, String, String, usize)) -> Option<SocketAddr> {
    let (namespace, service, port, number) = which;
    let client = testbed::client(&shared.kubeconfig, "admin").await.ok()?;
    let service = Api::<Service>::namespaced(client.clone(), namespace).get(service).await.ok()?.spec?;
    let port = service.ports?.into_iter().find(|own| own.name.as_deref() == Some(port))?;
    let selector: Vec<String> = service.selector?.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let pods = Api::<Pod>::namespaced(client, namespace);
    let pods = pods.list(&ListParams::default().labels(&selector.join(","))).await.ok()?.items;
    let mut found = Vec::new();
    for pod in pods {
        let name = pod.metadata.name.clone()?;
        let ready = shared.running.lock().unwrap().get(&(namespace.clone(), name.clone())).is_some_and(|it| it.ready);
        if !ready || pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let ports = pod.spec.into_iter().flat_map(|spec| spec.containers).flat_map(|one| one.ports.unwrap_or_default());
        let target = match port.target_port.clone().unwrap_or(IntOrString::Int(port.port)) {
            IntOrString::Int(number) => u16::try_from(number).ok(),
            IntOrString::String(wanted) => ports
                .filter(|own| own.name.as_ref() == Some(&wanted))
                .find_map(|own| u16::try_from(own.container_port).ok()),
        };
        found.extend(target.and_then(|target| shared.address(namespace, &name, target)));
    }
    (!found.is_empty()).then(|| found[number % found.len()])
}
