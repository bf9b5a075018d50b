//! What is answered without a process around it: how much, and how often.

use super::access::AccessGate;
use super::link_gate::LinkGate;
use super::routes::routes;
use super::state::{MAX_STREAMS, WebState};
use crate::observation::ObservationBoard;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use stator_core::dynamo::health::Health;
use stator_model::plan::{ModelStatus, SyncState};
use stator_view::facts::{ModelFacts, SourceFacts};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

const HOST: &str = "127.0.0.1:8090";

/// Pages of a board, and somebody who has the cookie.
struct Reader {
    routes: axum::Router,
    board: ObservationBoard,
    cookie: String,
}

impl Reader {
    fn new() -> Self {
        let address: SocketAddr = HOST.parse().unwrap();
        let gate = LinkGate::new(address).unwrap();
        let link = gate.link(address);
        let cookie = gate.redeem(link.rsplit('=').next().unwrap()).unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let board = ObservationBoard::default();
        let state = WebState::new(
            Arc::new(AccessGate::Link(gate)),
            board.clone(),
            mpsc::channel(1).0,
            CancellationToken::new(),
        );
        Self { routes: routes(state), board, cookie }
    }

    async fn get(&self, path: &str) -> http::Response<Body> {
        let request = Request::get(path).header("Host", HOST).header("Cookie", &self.cookie);
        self.routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn text(&self, path: &str) -> String {
        let body = self.get(path).await.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }
}

fn crowd(number: usize) -> SourceFacts {
    let model = |at: usize| {
        let health = if at.is_multiple_of(1000) { Health::Degraded } else { Health::Healthy };
        let status = ModelStatus {
            name: format!("model-{at:05}"),
            namespace: format!("team-{}", at % 20),
            source: String::new(),
            sync: SyncState::Synced,
            health,
            is_lost: false,
            revision: String::new(),
            gpus: 8,
            gpu_sku: None,
            kind: "DynamoGraphDeployment".to_owned(),
            created: None,
            drift: Vec::new(),
            message: "all components are ready".to_owned(),
            last_sync: None,
            objects: Vec::new(),
        };
        let gpus = BTreeMap::from([("h200_sxm".to_owned(), 8)]);
        ModelFacts {
            status,
            gpus,
            cost: None,
            record: None,
            live: Vec::new(),
            events: Vec::new(),
            since: None,
            pending: Arc::default(),
            changed_by: None,
        }
    };
    SourceFacts { name: "fleet".to_owned(), models: (0..number).map(model).collect(), ..SourceFacts::default() }
}

/// Ten thousand models are a page of a hundred rows, and all of them are a few pages.
#[tokio::test]
async fn ten_thousand_models_are_answered_from_memory_a_page_at_a_time() {
    let reader = Reader::new();
    reader.board.set_source(crowd(10_000));
    let page = reader.text("/").await;
    assert_eq!(page.matches("<tr id=").count(), 100);
    assert!(page.contains("1–100 of 10,000") && page.len() < 72 << 10, "{}", page.len());
    assert!(page.find("model-00000") < page.find("model-00001"), "the worst come first");
    let zipped =
        Request::get("/").header("Host", HOST).header("Cookie", &reader.cookie).header("Accept-Encoding", "gzip");
    let zipped = reader.routes.clone().oneshot(zipped.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let bytes = zipped.into_body().collect().await.unwrap().to_bytes().len();
    assert!(bytes < 8 << 10, "{bytes}");
    let mut path = "/api/v1/models?sort=-gpus,name&limit=500".to_owned();
    let (mut seen, mut pages) = (0, 0);
    loop {
        let list: Value = serde_json::from_str(&reader.text(&path).await).unwrap();
        seen += list["items"].as_array().unwrap().len();
        pages += 1;
        let Some(next) = list["metadata"]["continue"].as_str() else { break };
        path = format!("/api/v1/models?sort=-gpus,name&limit=500&continue={next}");
    }
    assert_eq!((seen, pages), (10_000, 20));
    let found: Value = serde_json::from_str(&reader.text("/api/v1/models?q=model-04711").await).unwrap();
    assert_eq!((found["metadata"]["total"].as_u64(), found["counts"]["all"].as_u64()), (Some(1), Some(10_000)));
}

/// What is not known yet is not counted: zeros would say that all is well.
#[tokio::test]
async fn nothing_is_counted_while_models_are_loaded() {
    let reader = Reader::new();
    let unread = Some("10000 models were read; the cluster is being read".to_owned());
    reader.board.set_source(SourceFacts { name: "fleet".to_owned(), unread, ..SourceFacts::default() });
    let page = reader.text("/").await;
    assert!(page.contains("Models are being loaded.") && page.contains("10000 models were read"), "{page}");
    assert!(!page.contains("Healthy") && !page.contains("GPUs now"), "{page}");
    reader.board.set_source(crowd(3));
    assert!(reader.text("/").await.contains("1–3 of 3"));
    reader.board.set_source(SourceFacts { name: "fleet".to_owned(), ..SourceFacts::default() });
    assert!(reader.text("/").await.contains("There are no models."));
}

#[tokio::test]
async fn streams_are_bounded_and_a_closed_one_makes_room() {
    // As many as the pages of a large fleet are open.
    const { assert!(MAX_STREAMS >= 200) };
    let reader = Reader::new();
    let mut open = Vec::new();
    for _ in 0..MAX_STREAMS {
        let answer = reader.get("/api/v1/stream").await;
        assert_eq!(answer.status(), StatusCode::OK);
        open.push(answer);
    }
    let refused = reader.get("/api/v1/stream").await;
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "5"));
    // Lists are answered all the same.
    assert_eq!(reader.get("/api/v1/models").await.status(), StatusCode::OK);
    open.pop();
    assert_eq!(reader.get("/api/v1/stream").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_few_events() {
    let reader = Reader::new();
    let mut body = reader.get("/api/v1/stream").await.into_body();
    let change = |number: usize| {
        let phase = format!("{number}");
        reader.board.set_source(SourceFacts { name: "fleet".to_owned(), phase, ..SourceFacts::default() });
    };
    let mut next = async || {
        let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
        String::from_utf8(event.to_vec()).unwrap()
    };
    (0..1000).for_each(change);
    let event = next().await;
    assert!(
        event.contains("event: changed") && event.contains("id: 1000\n") && event.contains("retry: 3000"),
        "{event}"
    );
    // The next one is of the next change: there is none in between.
    change(1000);
    let event = next().await;
    assert!(event.contains("event: changed") && event.contains("id: 1001\n"), "{event}");
}
