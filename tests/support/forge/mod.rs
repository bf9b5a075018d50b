//! A git host for tests that behaves as one of the six makes: it keeps what is posted, has the limits and oddities that
//! the host has, and refuses requests that do not fit the host's description.
//!
//! GitHub's and Gitea's requests and answers are held against the descriptions in `tests/data/forge/`. There is none at
//! hand for GitLab, Bitbucket and Azure DevOps; their fakes take exactly the fields that the hosts document.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "shared by tests of which none uses all; a test that cannot go on must stop"
)]

mod azure;
mod bitbucket_cloud;
mod bitbucket_server;
mod description;
mod gitea;
mod github;
mod gitlab;
mod state;

pub use github::app_key;
pub use state::{FakeForgeState, PostedStatusRow, PullRequestOrigin};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use description::ApiDescription;
use secrecy::SecretString;
use serde_json::{Value, json};
use stator_git::forge::{AnyForge, ForgeError, ForgeHttp};
use stator_git::source::model_source::{Forge as Spec, ForgeKind};
use stator_git::source::secret::SecretValues;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// The token of every test: what must never come out again.
pub const CANARY: &str = "canary-7f3a9c51e2d84b06";

/// A commit, whole, that begins with a digit.
pub fn sha(digit: u8) -> String {
    char::from(b'0' + digit % 10).to_string().repeat(40)
}

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgeFlavor {
    Github,
    Gitlab,
    Gitea,
    BitbucketCloud,
    BitbucketDataCenter,
    Azure,
}

pub const ALL: [ForgeFlavor; 6] = [
    ForgeFlavor::Github,
    ForgeFlavor::Gitlab,
    ForgeFlavor::Gitea,
    ForgeFlavor::BitbucketCloud,
    ForgeFlavor::BitbucketDataCenter,
    ForgeFlavor::Azure,
];

/// A request as it came.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    /// The parts of the path below the API, unescaped.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Option<Value>,
}

impl RecordedRequest {
    pub fn place(&self) -> String {
        self.path.join("/")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// A number of the query.
    pub fn number(&self, name: &str, otherwise: usize) -> usize {
        self.query.get(name).map_or(otherwise, |text| text.parse().unwrap())
    }

    /// A text of the body; empty where there is none.
    pub fn text(&self, name: &str) -> String {
        self.body.as_ref().and_then(|body| body[name].as_str()).unwrap_or_default().to_owned()
    }

    /// The body's fields, for hosts without a description: no other than these.
    pub fn only(&self, names: &[&str]) -> Result<(), ForgeReply> {
        let fields = self.body.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        match fields.keys().find(|field| !names.contains(&field.as_str())) {
            Some(field) => Err(ForgeReply::message(400, &format!("the field {field} is not documented"))),
            None => Ok(()),
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct ForgeReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ForgeReply {
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes() }
    }

    pub fn message(status: u16, message: &str) -> Self {
        Self::json(status, &json!({ "message": message }))
    }

    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn page(status: u16, html: &str) -> Self {
        let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        Self { status, headers, body: html.as_bytes().to_vec() }
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }
}

/// A fake host with one repository, `team/models`.
pub struct FakeForgeHost {
    pub make: ForgeFlavor,
    address: SocketAddr,
    inner: Arc<FakeForgeHostInner>,
    _server: ForgeServerTask,
}

struct ForgeServerTask(tokio::task::JoinHandle<()>);

impl Drop for ForgeServerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct FakeForgeHostInner {
    make: ForgeFlavor,
    address: Mutex<Option<SocketAddr>>,
    description: Option<ApiDescription>,
    state: Mutex<FakeForgeState>,
    log: Mutex<Vec<RecordedRequest>>,
    /// Answers in the place of the next requests'.
    scripted: Mutex<VecDeque<ForgeReply>>,
    /// What was wrong with requests or answers: a test ends with none.
    faults: Mutex<Vec<String>>,
}

impl FakeForgeHost {
    pub async fn start(make: ForgeFlavor) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let description = match make {
            ForgeFlavor::Github => Some(ApiDescription::github()),
            ForgeFlavor::Gitea => Some(ApiDescription::forgejo()),
            ForgeFlavor::Gitlab
            | ForgeFlavor::BitbucketCloud
            | ForgeFlavor::BitbucketDataCenter
            | ForgeFlavor::Azure => None,
        };
        let inner = Arc::new(FakeForgeHostInner {
            make,
            address: Mutex::new(Some(address)),
            description,
            state: Mutex::default(),
            log: Mutex::default(),
            scripted: Mutex::default(),
            faults: Mutex::default(),
        });
        let handler = inner.clone();
        let app = axum::Router::new().fallback(move |request: Request| {
            let inner = handler.clone();
            async move { inner.serve(request).await }
        });
        let server = ForgeServerTask(tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }));
        Self { make, address, inner, _server: server }
    }

    pub fn state(&self) -> MutexGuard<'_, FakeForgeState> {
        self.inner.state.lock().unwrap()
    }

    /// The requests so far.
    pub fn log(&self) -> Vec<RecordedRequest> {
        self.inner.log.lock().unwrap().clone()
    }

    /// Gives this answer to the next request, whatever it is.
    pub fn next(&self, reply: ForgeReply) {
        self.inner.scripted.lock().unwrap().push_back(reply);
    }

    /// Where it listens.
    pub fn root(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The API's address, as a source names it.
    pub fn api(&self) -> String {
        let below = match self.make {
            ForgeFlavor::Github => "api/v3",
            ForgeFlavor::Gitlab => "api/v4",
            ForgeFlavor::Gitea => "api/v1",
            ForgeFlavor::BitbucketCloud => "2.0",
            ForgeFlavor::BitbucketDataCenter => "rest/api/latest",
            ForgeFlavor::Azure => "org",
        };
        format!("{}/{below}", self.root())
    }

    pub fn spec(&self) -> Spec {
        let kind = match self.make {
            ForgeFlavor::Github => ForgeKind::Github,
            ForgeFlavor::Gitlab => ForgeKind::Gitlab,
            ForgeFlavor::Gitea => ForgeKind::Gitea,
            ForgeFlavor::BitbucketCloud | ForgeFlavor::BitbucketDataCenter => ForgeKind::Bitbucket,
            ForgeFlavor::Azure => ForgeKind::Azure,
        };
        Spec { kind, url: Some(self.api()), secret_ref: None, context: None, target_url: None }
    }

    pub fn repository(&self) -> RepositoryUrl {
        let text = match self.make {
            ForgeFlavor::Github => "https://github.com/team/models.git",
            ForgeFlavor::Gitlab => "https://gitlab.com/team/sub/models.git",
            ForgeFlavor::Gitea => "https://gitea.example.com/team/models.git",
            ForgeFlavor::BitbucketCloud => "https://bitbucket.org/team/models.git",
            ForgeFlavor::BitbucketDataCenter => "https://bitbucket.example.com/scm/TEAM/models.git",
            ForgeFlavor::Azure => "https://dev.azure.com/org/team/_git/models",
        };
        RepositoryUrl::parse(text, AllowedSchemes::default()).unwrap()
    }

    /// A client of stator's.
    pub fn client(&self) -> AnyForge {
        self.client_with(&[("token", CANARY)]).unwrap()
    }

    pub fn client_with(&self, secret: &[(&str, &str)]) -> Result<AnyForge, ForgeError> {
        let values = secret.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        let secret = SecretValues::new("forge", values);
        AnyForge::connect(&self.spec(), &self.repository(), &secret, http())
    }

    /// Fails when a request did not fit the host, or an answer of the fake did not fit its description.
    pub fn assert_no_faults(&self) {
        let faults = self.inner.faults.lock().unwrap();
        assert!(faults.is_empty(), "{:?}: {}", self.make, faults.join("\n"));
    }
}

pub fn http() -> ForgeHttp {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    ForgeHttp::new().unwrap()
}

pub fn token() -> SecretString {
    SecretString::from(CANARY)
}

impl FakeForgeHostInner {
    async fn serve(&self, request: Request) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body: Bytes = axum::body::to_bytes(body, 4 << 20).await.unwrap();
        let whole = parts.uri.path().trim_matches('/').to_owned();
        let unescape = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8().unwrap().into_owned();
        let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let mut seen = RecordedRequest {
            method: parts.method.to_string(),
            path: whole.split('/').map(unescape).collect(),
            query: query.into_owned().collect(),
            headers: parts.headers,
            body: (!body.is_empty()).then(|| serde_json::from_slice(&body).unwrap_or(Value::Null)),
        };
        let reply = match self.scripted.lock().unwrap().pop_front() {
            Some(reply) => {
                self.log.lock().unwrap().push(seen);
                reply
            }
            None => {
                let below = match self.make {
                    ForgeFlavor::Github => Some(2),
                    ForgeFlavor::Gitlab | ForgeFlavor::Gitea => Some(2),
                    ForgeFlavor::BitbucketCloud => Some(1),
                    // Has two APIs side by side.
                    ForgeFlavor::BitbucketDataCenter => Some(1),
                    ForgeFlavor::Azure => Some(1),
                };
                seen.path.drain(..below.unwrap().min(seen.path.len()));
                self.log.lock().unwrap().push(seen.clone());
                self.answer(&seen)
            }
        };
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response.body(Body::from(reply.body)).unwrap()
    }

    fn answer(&self, seen: &RecordedRequest) -> ForgeReply {
        let operation = match &self.description {
            Some(description) => match description.check_request(seen) {
                Ok(operation) => Some((description, operation)),
                Err(fault) => {
                    self.faults.lock().unwrap().push(fault.clone());
                    return ForgeReply::message(422, &format!("Validation Failed: {fault}"));
                }
            },
            None => None,
        };
        let mut state = self.state.lock().unwrap();
        let root = format!("http://{}", self.address.lock().unwrap().unwrap());
        let answer = match self.make {
            ForgeFlavor::Github => github::answer(&mut state, seen, self.description.as_ref().unwrap()),
            ForgeFlavor::Gitea => gitea::answer(&mut state, seen),
            ForgeFlavor::Gitlab => gitlab::answer(&mut state, seen),
            ForgeFlavor::BitbucketCloud => bitbucket_cloud::answer(&mut state, seen, &root),
            ForgeFlavor::BitbucketDataCenter => bitbucket_server::answer(&mut state, seen),
            ForgeFlavor::Azure => azure::answer(&mut state, seen),
        };
        let reply = answer.unwrap_or_else(|refusal| refusal);
        if let Some((description, operation)) = operation {
            let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
            if let Err(fault) = description.check_answer(operation, reply.status, &body) {
                self.faults.lock().unwrap().push(format!("the fake itself: {fault}"));
            }
        }
        if reply.status == 400 && String::from_utf8_lossy(&reply.body).contains("is not documented") {
            self.faults.lock().unwrap().push(String::from_utf8_lossy(&reply.body).into_owned());
        }
        reply
    }
}
