//! Where Gitea delivers its webhooks: pushes are noted and passed on to the controller as they are, and statuses that were
//! posted are noted. So both are known to the millisecond, and nobody has to ask for them.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a delivery is waited for.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The receiver. It ends with the runtime.
pub(crate) struct Hooks {
    address: String,
    noted: Arc<NotedDeliveries>,
}

struct NotedDeliveries {
    /// Commits, and when their push was delivered.
    pushes: watch::Sender<HashMap<String, Instant>>,
    /// Commits and contexts, with the last state and since when.
    statuses: watch::Sender<HashMap<(String, String), (String, Instant)>>,
    controller: watch::Sender<Option<String>>,
    http: reqwest::Client,
}

impl Hooks {
    pub(crate) async fn receive() -> Fallible<Self> {
        let noted = Arc::new(NotedDeliveries {
            pushes: watch::Sender::default(),
            statuses: watch::Sender::default(),
            controller: watch::Sender::default(),
            http: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?,
        });
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let router = axum::Router::new()
            .route("/pushes", post(pass_push_on))
            .route("/statuses", post(note_status))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&noted));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, noted })
    }

    /// Where Gitea delivers pushes.
    pub(crate) fn pushes(&self) -> String {
        format!("{}/pushes", self.address)
    }

    /// Where Gitea delivers statuses.
    pub(crate) fn statuses(&self) -> String {
        format!("{}/statuses", self.address)
    }

    /// Passes pushes on to this address from here on.
    pub(crate) fn lead_to(&self, controller: &str) {
        self.noted.controller.send_replace(Some(format!("http://{controller}/webhooks/gitea")));
    }

    /// Passes pushes on to nobody from here on.
    pub(crate) fn lead_nowhere(&self) {
        self.noted.controller.send_replace(None);
    }

    /// When Gitea delivered the push of a commit.
    pub(crate) async fn delivered(&self, commit: &str) -> Fallible<Instant> {
        let mut pushes = self.noted.pushes.subscribe();
        let wait = pushes.wait_for(|all| all.contains_key(commit));
        let all = tokio::time::timeout(PATIENCE, wait).await.map_err(|_| "Gitea delivered no push")??;
        all.get(commit).copied().ok_or_else(|| "the delivery is gone".into())
    }

    /// When a commit was said to be healthy. Another final state is an error.
    pub(crate) async fn success(&self, commit: &str, context: &str) -> Fallible<Instant> {
        let key = (commit.to_owned(), context.to_owned());
        let mut statuses = self.noted.statuses.subscribe();
        let wait = statuses.wait_for(|all| all.get(&key).is_some_and(|(state, _)| state != "pending"));
        let all = tokio::time::timeout(PATIENCE, wait).await.map_err(|_| "no verdict was posted")??;
        match all.get(&key) {
            Some((state, since)) if state == "success" => Ok(*since),
            other => Err(format!("the verdict on {commit} is {:?}", other.map(|(state, _)| state)).into()),
        }
    }
}

async fn pass_push_on(State(noted): State<Arc<NotedDeliveries>>, mut headers: HeaderMap, body: Bytes) -> StatusCode {
    let now = Instant::now();
    let push: Value = serde_json::from_slice(&body).unwrap_or_default();
    let commit = push["after"].as_str().unwrap_or_default().to_owned();
    let target = noted.controller.borrow().clone();
    let code = match target {
        // Nobody runs yet: the controller looks for itself when it starts.
        None => StatusCode::ACCEPTED,
        Some(target) => {
            for name in ["host", "content-length", "transfer-encoding", "connection", "accept-encoding"] {
                headers.remove(name);
            }
            let answer = noted.http.post(target).headers(headers).body(body).send().await;
            answer.map_or(StatusCode::BAD_GATEWAY, |answer| answer.status())
        }
    };
    if code == StatusCode::ACCEPTED {
        noted.pushes.send_modify(|all| {
            all.insert(commit, now);
        });
    } else {
        super::testbed::say(&format!("the controller answered a webhook with {code}"));
    }
    code
}

async fn note_status(State(noted): State<Arc<NotedDeliveries>>, body: Bytes) -> StatusCode {
    let now = Instant::now();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    noted.statuses.send_modify(|all| {
        all.insert((text("sha"), text("context")), (text("state"), now));
    });
    StatusCode::OK
}
