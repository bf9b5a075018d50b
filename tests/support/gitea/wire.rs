//! What stands between Gitea and the receiver of its webhooks: it keeps what was really delivered, and can lose it, double
//! it and send it again.

use crate::testbed;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryFate {
    /// It arrives.
    Pass,
    /// It arrives twice.
    Double,
    /// It is taken and goes nowhere.
    Lose,
}

/// One delivery as Gitea sent it.
#[derive(Clone, Debug)]
pub struct RelayedDelivery {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, to the byte.
    pub body: Bytes,
    /// What the receiver answered; empty when it was lost.
    pub answers: Vec<u16>,
}

impl RelayedDelivery {
    /// A header's text; empty without it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug)]
struct RelayState {
    target: Mutex<Option<String>>,
    way: Mutex<DeliveryFate>,
    seen: Mutex<Vec<RelayedDelivery>>,
    http: reqwest::Client,
}

/// The relay. It ends with the value.
#[derive(Debug)]
pub struct WebhookRelay {
    inside: Arc<RelayState>,
    port: u16,
    runtime: Option<tokio::runtime::Runtime>,
}

impl WebhookRelay {
    /// Starts one that leads nowhere yet: what comes is kept and answered with 202.
    pub fn start() -> Self {
        crate::testbed::provider();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap();
        let inside = Arc::new(RelayState {
            target: Mutex::new(None),
            way: Mutex::new(DeliveryFate::Pass),
            seen: Mutex::new(Vec::new()),
            http,
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = axum::Router::new()
            .fallback(take)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(inside.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await
        });
        Self { inside, port, runtime: Some(runtime) }
    }

    /// Where Gitea is to deliver.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/webhooks/gitea", self.port)
    }

    /// Where deliveries go from here on.
    pub fn leads_to(&self, target: &str) {
        *self.inside.target.lock().unwrap() = Some(target.to_owned());
    }

    /// What becomes of deliveries from here on.
    pub fn goes(&self, way: DeliveryFate) {
        *self.inside.way.lock().unwrap() = way;
    }

    /// What was delivered so far.
    pub fn seen(&self) -> Vec<RelayedDelivery> {
        self.inside.seen.lock().unwrap().clone()
    }

    /// Waits until there was a delivery like this, and gives it.
    pub fn wait_for(&self, what: &str, like: impl Fn(&RelayedDelivery) -> bool) -> RelayedDelivery {
        testbed::until(&format!("a delivery of {what}"), || {
            let seen = self.seen();
            let found = seen.iter().find(|delivery| like(delivery)).cloned();
            found.ok_or(move || {
                format!("seen: {:?}", seen.iter().map(|one| one.header("x-gitea-event")).collect::<Vec<_>>())
            })
        })
    }

    /// Waits for the push of a commit.
    pub fn wait_for_push(&self, commit: &str) -> RelayedDelivery {
        self.wait_for(commit, |delivery| {
            delivery.header("x-gitea-event") == "push" && delivery.json()["after"] == commit
        })
    }

    /// Sends something to where deliveries go, and gives the answer's code.
    pub fn send(&self, headers: &HeaderMap, body: impl Into<Bytes>) -> u16 {
        let (inside, headers, body) = (self.inside.clone(), headers.clone(), body.into());
        let runtime = self.runtime.as_ref().unwrap();
        // Whoever is refused before its body is read may see a broken connection in place of the answer, and tries again.
        let sent = async move {
            let mut code = forward(&inside, &headers, &body).await;
            for _ in 0..4 {
                if code != 502 {
                    break;
                }
                code = forward(&inside, &headers, &body).await;
            }
            code
        };
        std::thread::scope(|scope| scope.spawn(|| runtime.block_on(sent)).join().unwrap())
    }

    /// Sends a delivery again as it was.
    pub fn replay(&self, delivery: &RelayedDelivery) -> u16 {
        self.send(&delivery.headers, delivery.body.clone())
    }
}

impl Drop for WebhookRelay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Headers of a delivery with another value for one of them.
pub fn with_header(headers: &HeaderMap, name: &'static str, value: &str) -> HeaderMap {
    let mut headers = headers.clone();
    headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    headers
}

async fn take(State(inside): State<Arc<RelayState>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let way = *inside.way.lock().unwrap();
    let times = match way {
        DeliveryFate::Pass => 1,
        DeliveryFate::Double => 2,
        DeliveryFate::Lose => 0,
    };
    let mut answers = Vec::new();
    for _ in 0..times {
        answers.push(forward(&inside, &headers, &body).await);
    }
    let code = answers.last().copied().and_then(|code| StatusCode::from_u16(code).ok());
    inside.seen.lock().unwrap().push(RelayedDelivery { headers, body, answers });
    code.unwrap_or(StatusCode::ACCEPTED)
}

/// The code that the receiver answers: 202 where there is none, 502 where it cannot be reached.
async fn forward(inside: &RelayState, headers: &HeaderMap, body: &Bytes) -> u16 {
    let Some(target) = inside.target.lock().unwrap().clone() else { return 202 };
    let mut headers = headers.clone();
    for name in ["host", "content-length", "transfer-encoding", "connection", "accept-encoding"] {
        headers.remove(name);
    }
    let answer = inside.http.post(target).headers(headers).body(body.clone()).send().await;
    answer.map_or(502, |answer| answer.status().as_u16())
}
