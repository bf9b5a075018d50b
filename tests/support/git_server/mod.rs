//! A git host for tests: git's own `http-backend` behind a small server that remembers what it was asked, and that can be
//! told to answer badly.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by several tests, of which none uses all; a test that cannot go on must stop"
)]

mod origin;
pub mod tls;

pub use origin::{OriginRepository, packet};
pub use tls::{TlsProxy, pem};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct GitRequest {
    /// The method.
    pub method: String,
    /// Path and query, and for a proxy the whole address.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// Bytes of the answer's body, where git gave it.
    pub answered: usize,
}

/// What to answer.
pub enum GitReply {
    /// What git says.
    Git,
    /// This.
    This(Response),
    /// Nothing, ever.
    Never,
}

type GitResponder = dyn Fn(&GitRequest) -> GitReply + Send + Sync;

/// A running server; ends when dropped.
pub struct GitServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<GitRequest>>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl GitServer {
    /// Serves the repositories below a folder.
    pub fn start(root: &Path) -> Self {
        Self::answering(root, |_| GitReply::Git)
    }

    /// Serves the repositories below a folder, where the function does not say something else.
    pub fn answering(root: &Path, answers: impl Fn(&GitRequest) -> GitReply + Send + Sync + 'static) -> Self {
        Self::bound("127.0.0.1:0", root, answers)
    }

    /// Serves the repositories below a folder at an address of this machine, which others must leave free.
    pub fn at(address: &str, root: &Path) -> Self {
        Self::bound(address, root, |_| GitReply::Git)
    }

    fn bound(address: &str, root: &Path, answers: impl Fn(&GitRequest) -> GitReply + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (root, answers): (PathBuf, Arc<GitResponder>) = (root.to_owned(), Arc::new(answers));
        let remembered = Arc::clone(&asked);
        let router = axum::Router::new().fallback(move |request: Request| {
            answer(root.clone(), Arc::clone(&answers), Arc::clone(&remembered), request)
        });
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, asked, runtime: Some(runtime) }
    }

    /// The address of a repository below the folder.
    pub fn url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was asked since it was last asked this.
    pub fn asked(&self) -> Vec<GitRequest> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Answers that never come would be waited for otherwise.
            runtime.shutdown_background();
        }
    }
}

async fn answer(
    root: PathBuf,
    answers: Arc<GitResponder>,
    log: Arc<Mutex<Vec<GitRequest>>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let mut asked = GitRequest {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        headers: parts.headers.clone(),
        answered: 0,
    };
    let reply = answers(&asked);
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let response = match reply {
        GitReply::This(response) => response,
        GitReply::Never => {
            log.lock().unwrap().push(asked);
            return std::future::pending().await;
        }
        GitReply::Git => {
            let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
            let (method, headers) = (asked.method.clone(), parts.headers);
            let (response, length) =
                tokio::task::spawn_blocking(move || backend(&root, &method, &path, &query, &headers, &body))
                    .await
                    .unwrap();
            asked.answered = length;
            response
        }
    };
    log.lock().unwrap().push(asked);
    response
}

fn backend(root: &Path, method: &str, path: &str, query: &str, headers: &HeaderMap, body: &Bytes) -> (Response, usize) {
    let content_type = headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap());
    let mut git = Command::new("git")
        .arg("http-backend")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", root)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", content_type)
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tests of mirrors need git");
    git.stdin.take().unwrap().write_all(body).unwrap();
    let output = git.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().unwrap()),
            _ => response.header(name, value),
        };
    }
    let body = output[end + 4..].to_vec();
    let length = body.len();
    (response.body(Body::from(body)).unwrap(), length)
}

/// An answer with a status, headers and a body.
pub fn says(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> GitReply {
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    GitReply::This(response.body(body.into()).unwrap())
}

/// A list of refs, as git would send it.
pub fn refs(body: impl Into<Body>) -> GitReply {
    says(200, &[("content-type", "application/x-git-upload-pack-advertisement")], body)
}

/// The answer to a fetch, as git would send it.
pub fn pack(body: impl Into<Body>) -> GitReply {
    says(200, &[("content-type", "application/x-git-upload-pack-result")], body)
}
