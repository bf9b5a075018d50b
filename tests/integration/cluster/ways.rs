//! The ways to an API server: through proxies that a kubeconfig names, and from inside a pod.

use crate::testbed::{self, ControlPlane};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use stator_cluster::cluster::Cluster as _;
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster, ServiceAccount};
use stator_core::dynamo::kinds::GRAPH;
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A proxy that stands between, and where it was asked to go.
struct Proxy {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone, Copy)]
enum Speaks {
    /// `CONNECT host:port` (RFC 9110).
    Http,
    /// RFC 1928, without a password.
    Socks,
}

impl Proxy {
    async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let told = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let told = told.clone();
                // A connection that breaks is the client's to notice.
                tokio::spawn(async move { pass(stream, speaks, &told).await });
            }
        });
        Self { address, asked, task }
    }

    /// Where it was asked to go, each place once.
    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.dedup();
        asked
    }
}

async fn pass(mut client: TcpStream, speaks: Speaks, told: &Mutex<Vec<String>>) -> Result<()> {
    let target = match speaks {
        Speaks::Http => connect(&mut client).await?,
        Speaks::Socks => socks(&mut client).await?,
    };
    told.lock().unwrap().push(target.clone());
    let mut server = TcpStream::connect(&target).await?;
    let answer: &[u8] = match speaks {
        Speaks::Http => b"HTTP/1.1 200 Connection established\r\n\r\n",
        Speaks::Socks => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    };
    client.write_all(answer).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn connect(client: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split_whitespace();
    match (words.next(), words.next()) {
        (Some("CONNECT"), Some(target)) => Ok(target.to_owned()),
        _ => Err(Error::other(head)),
    }
}

async fn socks(client: &mut TcpStream) -> Result<String> {
    let [_version, methods] = [client.read_u8().await?, client.read_u8().await?];
    client.read_exact(&mut vec![0; usize::from(methods)]).await?;
    client.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = match request {
        [5, 1, 0, 1] => {
            let mut address = [0; 4];
            client.read_exact(&mut address).await?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        [5, 1, 0, 3] => {
            let mut name = vec![0; usize::from(client.read_u8().await?)];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Err(Error::other(format!("{request:?}"))),
    };
    Ok(format!("{host}:{}", client.read_u16().await?))
}

/// The testbed's kubeconfig, with a proxy in it.
fn through(plane: &ControlPlane, folder: &Path, proxy: &str) -> PathBuf {
    let text = fs_err::read_to_string(plane.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["clusters"][0]["cluster"]["proxy-url"] = json!(proxy);
    let path = folder.join("kubeconfig");
    fs_err::write(&path, kubeconfig.to_string()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_of_the_kubeconfig_is_used_for_everything() {
    let Some(plane) = testbed::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = plane.server().trim_start_matches("https://").to_owned();
    for (scheme, speaks) in [("http", Speaks::Http), ("socks5", Speaks::Socks)] {
        let proxy = Proxy::start(speaks).await;
        let kubeconfig = through(plane, folder.path(), &format!("{scheme}://{}", proxy.address));
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let kube = KubeCluster::connect(options).await.unwrap();
        assert_eq!(proxy.asked(), [""; 0], "nothing is sent yet");
        kube.list(&GRAPH, Some("default"), &BTreeMap::new()).await.unwrap();
        let _events = kube.watch(&[GRAPH], Some("default")).await.unwrap();
        assert_eq!(proxy.asked(), std::slice::from_ref(&server), "{scheme}");
    }
    // One that is not there is named as what it is: no way to the server.
    let nowhere = testbed::ReservedPort::reserve().unwrap();
    let kubeconfig = through(plane, folder.path(), &format!("http://{}", nowhere.address()));
    let kube = KubeCluster::connect(ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() })
        .await
        .unwrap();
    let error = kube.list(&GRAPH, Some("default"), &BTreeMap::new()).await.unwrap_err();
    assert!(error.retry_delay().is_some() && error.help().contains("proxy"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_connects_as_its_service_account() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("in-a-pod").await;
    let read = PolicyRule {
        api_groups: Some(vec![GRAPH.group.to_owned()]),
        resources: Some(vec![GRAPH.plural.to_owned()]),
        verbs: vec!["list".to_owned()],
        ..PolicyRule::default()
    };
    let kubeconfig = plane.account(&namespace, "pod", vec![read]).await;
    let kubeconfig: Value = serde_json::from_str(&fs_err::read_to_string(kubeconfig).unwrap()).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();

    // What Kubernetes mounts into every pod.
    let mounted = tempfile::tempdir().unwrap();
    let (host, port) = plane
        .server()
        .trim_start_matches("https://")
        .split_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let account = ServiceAccount { folder: mounted.path().to_owned(), host, port };
    let mut said = Vec::new();
    let mut refused = |account: &ServiceAccount| {
        let error = KubeCluster::as_pod(account, ConnectOptions::default()).unwrap_err().to_string();
        said.push(error.replace(&mounted.path().display().to_string(), "MOUNTED"));
    };
    refused(&account);
    fs_err::write(mounted.path().join("token"), token).unwrap();
    refused(&account);
    fs_err::copy(plane.authority(), mounted.path().join("ca.crt")).unwrap();
    refused(&ServiceAccount { port: "the usual".to_owned(), ..account.clone() });
    insta::assert_snapshot!(said.join("\n"), @r"
    cannot connect with the settings of the pod's service account: failed to open file `MOUNTED/token`: No such file or directory (os error 2)
    cannot connect with the settings of the pod's service account: failed to open file `MOUNTED/ca.crt`: No such file or directory (os error 2)
    cannot connect with the settings of the pod's service account: https://127.0.0.1:the usual is not a valid address: invalid uri character
    ");

    let kube = KubeCluster::as_pod(&account, ConnectOptions::default()).unwrap();
    assert_eq!(kube.list(&GRAPH, Some(&namespace), &BTreeMap::new()).await.unwrap(), []);
    let error = kube.list(&GRAPH, Some("default"), &BTreeMap::new()).await.unwrap_err();
    assert!(error.to_string().contains("system:serviceaccount:in-a-pod:pod"), "{error}");
}
