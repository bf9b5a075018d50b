//! What the listener answers, and to whom.

mod attacks;

use super::*;
use crate::controller::sources::hints::SourceHints;
use crate::controller::sources::registry::webhook_directory::source_digest;
use crate::controller::sources::registry::{ProblemReason, ProblemScope, RegisteredSource, SourceProblem, SourceState};
use crate::controller::sources::resolved_source::SourceKey;
use aws_lc_rs::hmac;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use secrecy::SecretString;
use stator_git::source::model_source::ForgeKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tower::ServiceExt as _;

const PUSH: &str = r#"{"ref":"refs/heads/main","after":"1111111111111111111111111111111111111111"}"#;

/// A server of some sources, without a socket.
struct WebhookTestServer {
    board: Arc<SourceRegistry>,
    ending: CancellationToken,
    routes: Router,
    hints: Vec<Arc<SourceHints>>,
    standings: Vec<watch::Sender<SourceState>>,
}

impl WebhookTestServer {
    /// Sources as `(name, host, secret)`.
    fn new(sources: &[(&str, ForgeKind, &str)]) -> Self {
        let (board, ending) = (Arc::new(SourceRegistry::default()), CancellationToken::new());
        let (mut hints, mut standings) = (Vec::new(), Vec::new());
        for (name, forge, secret) in sources {
            let (sender, standing) = watch::channel(SourceState::default());
            let queue = Arc::new(SourceHints::default());
            board.register(RegisteredSource {
                key: SourceKey::new("default", *name),
                forge: Some(*forge),
                webhook: (!secret.is_empty()).then(|| SecretString::from(*secret)),
                hints: Arc::clone(&queue),
                state: standing,
                fence: None,
            });
            hints.push(queue);
            standings.push(sender);
        }
        let routes = routes(Arc::clone(&board), Arc::default(), ending.clone());
        Self { board, ending, routes, hints, standings }
    }

    async fn answer(&self, request: Request<Body>) -> (u16, String) {
        let response = self.routes.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn answer_text(&self, request: Request<Body>) -> String {
        let (status, body) = self.answer(request).await;
        format!("{status} {}", body.trim_end())
    }

    async fn get_text(&self, path: &str) -> String {
        self.answer_text(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// What the source of that number was hinted at, if anything.
    async fn hinted(&self, source: usize) -> Option<String> {
        let taken = tokio::time::timeout(Duration::ZERO, self.hints[source].refs.next()).await.ok()?;
        Some(taken.items.into_iter().collect::<Vec<_>>().join(" "))
    }
}

fn signed(path: &str, secret: &str, id: &str, body: impl Into<Vec<u8>>) -> Request<Body> {
    let body = body.into();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    Request::post(path)
        .header("content-type", "application/json")
        .header("x-gitea-event", "push")
        .header("x-gitea-delivery", id)
        .header("x-gitea-signature", hex::encode(hmac::sign(&key, &body)))
        .body(Body::from(body))
        .unwrap()
}

#[tokio::test]
async fn a_push_is_a_hint_for_its_source_and_for_no_other() {
    let scene = WebhookTestServer::new(&[
        ("models", ForgeKind::Gitea, "hook"),
        ("others", ForgeKind::Gitea, "else"),
        ("hub", ForgeKind::Github, "hook"),
    ]);
    assert_eq!(scene.answer_text(signed("/webhooks/gitea", "hook", "1", PUSH)).await, r#"202 {"status":"accepted"}"#);
    assert_eq!(scene.hinted(0).await.as_deref(), Some("refs/heads/main"));
    assert_eq!((scene.hinted(1).await, scene.hinted(2).await), (None, None));
    // By the source's own path the other secret does not do.
    assert_eq!(
        scene.answer_text(signed("/webhooks/gitea/others", "hook", "2", PUSH)).await,
        r#"401 {"error":"not authorized"}"#
    );
    assert_eq!(
        scene.answer_text(signed("/webhooks/gitea/others", "else", "2", PUSH)).await,
        r#"202 {"status":"accepted"}"#
    );
    assert_eq!(scene.hinted(1).await.as_deref(), Some("refs/heads/main"));
    // Signed as Gitea signs, sent to where GitHub would.
    assert_eq!(
        scene.answer_text(signed("/webhooks/github", "hook", "3", PUSH)).await,
        r#"401 {"error":"not authorized"}"#
    );
}

#[tokio::test]
async fn sources_that_share_a_secret_are_all_told() {
    let scene = WebhookTestServer::new(&[("prod", ForgeKind::Gitea, "hook"), ("staging", ForgeKind::Gitea, "hook")]);
    assert_eq!(scene.answer(signed("/webhooks/gitea", "hook", "1", PUSH)).await.0, 202);
    assert!(scene.hinted(0).await.is_some() && scene.hinted(1).await.is_some());
}

#[tokio::test]
async fn a_delivery_is_taken_once() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    assert_eq!(scene.answer_text(signed("/webhooks/gitea", "hook", "1", PUSH)).await, r#"202 {"status":"accepted"}"#);
    assert!(scene.hinted(0).await.is_some());
    assert_eq!(
        scene.answer_text(signed("/webhooks/gitea", "hook", "1", PUSH)).await,
        r#"202 {"status":"already received"}"#
    );
    assert_eq!(scene.hinted(0).await, None);
    // What was refused was not taken: the same delivery is welcome once the secret is right.
    assert_eq!(scene.answer(signed("/webhooks/gitea", "wrong", "2", PUSH)).await.0, 401);
    assert_eq!(scene.answer_text(signed("/webhooks/gitea", "hook", "2", PUSH)).await, r#"202 {"status":"accepted"}"#);
}

#[tokio::test]
async fn what_is_no_delivery_is_turned_away_without_a_hint() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook"), ("none", ForgeKind::Gitlab, "")]);
    let plain = |path: &str| Request::post(path).header("content-type", "application/json");
    let mut form = signed("/webhooks/gitea", "hook", "1", PUSH);
    form.headers_mut().insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded"));
    let described = [
        ("unsigned", scene.answer_text(plain("/webhooks/gitea").body(Body::from(PUSH)).unwrap()).await),
        ("forged", scene.answer_text(signed("/webhooks/gitea", "other", "1", PUSH)).await),
        ("a form", scene.answer_text(form).await),
        ("no JSON", scene.answer_text(signed("/webhooks/gitea", "hook", "2", "ref=main")).await),
        ("another host", scene.answer_text(signed("/webhooks/svn", "hook", "3", PUSH)).await),
        ("no secret", scene.answer_text(signed("/webhooks/gitlab", "hook", "4", PUSH)).await),
        ("no source", scene.answer_text(signed("/webhooks/gitea/nobody", "hook", "5", PUSH)).await),
        ("GET", scene.get_text("/webhooks/gitea").await),
        ("elsewhere", scene.get_text("/admin").await),
        ("a ping", scene.answer_text(signed("/webhooks/gitea", "hook", "6", "{}")).await),
    ];
    let described: Vec<String> = described.iter().map(|(what, said)| format!("{what}: {said}")).collect();
    insta::assert_snapshot!(described.join("\n"), @r#"
        unsigned: 401 {"error":"not authorized"}
        forged: 401 {"error":"not authorized"}
        a form: 415 {"error":"set the webhook's content type to application/json"}
        no JSON: 400 {"error":"the body does not have this host's format"}
        another host: 404 {"error":"unknown host; known: github, gitlab, gitea, bitbucket and azure"}
        no secret: 401 {"error":"not authorized"}
        no source: 401 {"error":"not authorized"}
        GET: 405 {"error":"use POST for webhooks and GET for everything else"}
        elsewhere: 404 {"error":"known paths: /webhooks/<host>, /webhooks/<host>/<source>, /livez, /readyz and /metrics"}
        a ping: 400 {"error":"the body does not have this host's format"}
        "#);
    assert_eq!(scene.hinted(0).await, None);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    let mut announced = signed("/webhooks/gitea", "hook", "1", PUSH);
    announced.headers_mut().insert("content-length", HeaderValue::from_static("99999999999"));
    assert_eq!(scene.answer(announced).await.0, 413);
    // Without a length it is cut off where the limit is: the stream behind it never ends.
    let chunk: Result<_, std::io::Error> = Ok(bytes::Bytes::from(vec![b' '; 1 << 20]));
    let endless = futures_util::stream::repeat_with(move || {
        chunk.as_ref().map(Clone::clone).map_err(|_| std::io::Error::other("no"))
    });
    let mut streamed = signed("/webhooks/gitea", "hook", "2", PUSH);
    *streamed.body_mut() = Body::from_stream(endless);
    assert_eq!(scene.answer(streamed).await.0, 413);
    assert_eq!(scene.hinted(0).await, None);
}

/// S3: what one request may cost has a bound; by its own path, a source's delivery is held against one secret.
#[tokio::test]
async fn one_request_never_costs_as_much_as_all_sources_together() {
    let names: Vec<String> = (0..100).map(|number| format!("source-{number}")).collect();
    let sources: Vec<(&str, ForgeKind, &str)> =
        names.iter().map(|name| (name.as_str(), ForgeKind::Gitea, name.as_str())).collect();
    let scene = WebhookTestServer::new(&sources);
    let large = format!("{PUSH}{}", " ".repeat(2 << 20));
    assert_eq!(scene.answer(signed("/webhooks/gitea", "source-7", "1", large.clone())).await.0, 401);
    let digest = source_digest(&SourceKey::new("default", "source-7"));
    for (delivery, path) in [
        ("1", "/webhooks/gitea/source-7".to_owned()),
        ("2", "/webhooks/gitea/default/source-7".to_owned()),
        ("3", format!("/webhooks/source/{digest}")),
    ] {
        assert_eq!(scene.answer(signed(&path, "source-7", delivery, large.clone())).await.0, 202, "{path}");
        assert!(scene.hinted(7).await.is_some(), "{path}");
        assert_eq!(scene.answer(signed(&path, "source-8", delivery, PUSH)).await.0, 401, "{path}");
    }
    assert_eq!(scene.answer(signed("/webhooks/gitea", "source-99", "2", PUSH)).await.0, 202);
    assert!(scene.hinted(99).await.is_some());
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook"), ("others", ForgeKind::Gitea, "")]);
    assert_eq!(scene.get_text("/livez").await, "200 ok");
    scene.standings[0].send_modify(|standing| standing.was_polled = true);
    assert_eq!(
        scene.get_text("/readyz").await,
        r#"503 {"missing":["source default/others has not been polled yet"],"ready":false}"#
    );
    // A source that fails is looked at all the same.
    scene.standings[1].send_modify(|standing| {
        standing.was_polled = true;
        let problem = SourceProblem::transient(ProblemReason::GitOperationFailed, "the host is down", "");
        standing.set_problem(ProblemScope::Repository, Some(problem));
    });
    assert_eq!(scene.get_text("/readyz").await, r#"200 {"missing":[],"ready":true}"#);
    scene.ending.cancel();
    assert_eq!(scene.get_text("/readyz").await, r#"503 {"missing":["the process is ending"],"ready":false}"#);
    assert_eq!(scene.get_text("/livez").await, "200 ok");
}

#[tokio::test]
async fn metrics_count_deliveries_and_forget_sources() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    scene.answer(signed("/webhooks/gitea", "hook", "1", PUSH)).await;
    scene.answer(signed("/webhooks/gitea", "else", "2", PUSH)).await;
    let text = scene.get_text("/metrics").await;
    for line in [
        r#"stator_webhook_deliveries_total{forge="gitea",result="accepted"} 1"#,
        r#"stator_webhook_deliveries_total{forge="gitea",result="refused"} 1"#,
        r#"stator_source_ready{namespace="default",source="models"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(scene.board.webhook_directory().of_host(ForgeKind::Gitea).len() == 1);
    scene.board.unregister(&SourceKey::new("default", "models"));
    assert!(scene.board.webhook_directory().of_host(ForgeKind::Gitea).is_empty());
}

/// Over a real socket: while every worker of a sync's pool is busy, deliveries are answered, all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_are_answered_whatever_else_goes_on() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("http://{}/webhooks/gitea", listener.address());
    let serving = tokio::spawn(listener.serve(scene.routes.clone(), scene.ending.clone()));
    // A sync that holds a thread for as long as the test lasts.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let sync = tokio::task::spawn_blocking(move || held.recv());
    let client = reqwest::Client::new();
    let mut posts = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (client, url) = (client.clone(), url.clone());
        posts.spawn(async move {
            let body = format!(r#"{{"ref":"refs/heads/branch-{}"}}"#, number % 20);
            let key = hmac::Key::new(hmac::HMAC_SHA256, b"hook");
            let signature = hex::encode(hmac::sign(&key, body.as_bytes()));
            let post = client.post(url).header("content-type", "application/json").header("x-gitea-event", "push");
            let post = post.header("x-gitea-delivery", number.to_string()).header("x-gitea-signature", signature);
            post.body(body).send().await.unwrap().status().as_u16()
        });
    }
    let statuses = posts.join_all().await;
    assert!(statuses.iter().all(|status| *status == 202), "{statuses:?}");
    assert!(!sync.is_finished(), "the answers did not wait for the sync");
    // Two hundred deliveries are twenty hints, and one look.
    assert_eq!(scene.hints[0].refs.next().await.items.len(), 20);
    drop(release);
    scene.ending.cancel();
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dawdles_is_let_go() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    for beginning in [
        "GET /livez HTTP/1.1\r\nHost: x\r\n",
        "",
        &format!(
            "POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Gitea-Signature: {}\r\nContent-Length: 100\r\n\r\n{{",
            "0".repeat(64)
        ),
    ] {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let answering = tokio::spawn(listener::serve_connection(
            server,
            scene.routes.clone(),
            listener::MAX_CONNECTION_AGE,
            scene.ending.clone(),
        ));
        client.write_all(beginning.as_bytes()).await.unwrap();
        // Ends by the server's deadline alone; the clock of the test runs ahead while all wait.
        let mut rest = String::new();
        let _ = client.read_to_string(&mut rest).await;
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
        answering.await.unwrap();
    }
}

#[tokio::test]
async fn the_end_waits_for_what_is_under_way_only() {
    let scene = WebhookTestServer::new(&[]);
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address();
    let again = HttpListener::bind(address).await.unwrap_err();
    assert!(again.to_string().starts_with(&format!("cannot listen on {address}")), "{again}");
    let serving = tokio::spawn(listener.serve(scene.routes.clone(), scene.ending.clone()));
    let mut idle = tokio::net::TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = [0_u8; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    scene.ending.cancel();
    serving.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases))]

    /// Whatever is sent, to whatever path, with whatever headers: an answer, and no hint without the secret.
    #[test]
    fn no_request_is_taken_that_is_not_signed(
        path in prop_oneof![Just("/webhooks/gitea".to_owned()), Just("/webhooks/gitlab".to_owned()), "/[a-z/%0-9.]{0,30}"],
        headers in proptest::collection::vec(
            (prop::sample::select(vec!["x-gitea-signature", "x-hub-signature-256", "x-gitlab-token", "x-gitea-event", "x-gitea-delivery", "webhook-signature", "authorization", "content-length"]), proptest::collection::vec(32_u8..127, 0..40)),
            0..6,
        ),
        json in any::<bool>(),
        body in prop_oneof![Just(PUSH.as_bytes().to_vec()), proptest::collection::vec(any::<u8>(), 0..300)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scene = WebhookTestServer::new(&[("a", ForgeKind::Gitea, "hook"), ("b", ForgeKind::Gitlab, "other-hook")]);
            let Ok(mut request) = Request::post(&path).body(Body::from(body)) else { return Ok(()) };
            for (name, value) in headers {
                request.headers_mut().insert(name, HeaderValue::from_bytes(&value).unwrap());
            }
            if json {
                request.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
            }
            let (status, said) = scene.answer(request).await;
            prop_assert!([400, 401, 404, 405, 413, 415].contains(&status), "{} {}", status, said);
            prop_assert!(serde_json::from_str::<serde_json::Value>(&said).is_ok());
            prop_assert_eq!((scene.hinted(0).await, scene.hinted(1).await), (None, None));
            Ok(())
        })?;
    }
}
