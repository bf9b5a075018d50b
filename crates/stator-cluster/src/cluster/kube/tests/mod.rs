//! What a real server cannot be made to say on demand: recorded answers, served in the process.

mod frontends;
mod paths;
mod refusals;
mod served;
mod watches;

use super::{ConnectOptions, KubeCluster};
use ::kube::client::Body;
use http::{Request, Response};
use serde_json::{Value, json};
use stator_core::object::Object;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A server that gives these answers in this order, and after them nothing but refusals.
#[derive(Clone)]
struct Server {
    answers: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// One answer.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Reply {
    fn json(status: u16, body: &Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string().into_bytes() }
    }

    fn text(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
    }

    /// Events of a watch, each a line; after them the connection ends.
    fn events(events: &[Value]) -> Self {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        Self::text(200, &lines)
    }

    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl Server {
    fn new(answers: impl IntoIterator<Item = Reply>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), asked: Arc::default() }
    }

    fn cluster(&self) -> KubeCluster {
        self.cluster_with(ConnectOptions::default())
    }

    fn cluster_with(&self, options: ConnectOptions) -> KubeCluster {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let reply = server.answer(&request);
            async move { Ok::<_, tower::BoxError>(reply) }
        });
        KubeCluster::of(
            ::kube::Client::new(service, "default"),
            "https://test".to_owned(),
            options,
            Default::default(),
            "a test".to_owned(),
        )
    }

    fn answer(&self, request: &Request<Body>) -> Response<Body> {
        let line = format!("{} {}", request.method(), request.uri());
        self.asked.lock().unwrap().push(line);
        let reply = self.answers.lock().unwrap().pop_front();
        let reply = reply.unwrap_or_else(|| Reply::text(418, "the story has no more answers"));
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response.body(Body::from(reply.body)).unwrap()
    }

    /// What was asked so far.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A refusal as an API server words it.
fn status(code: u16, reason: &str, message: &str, details: Value) -> Reply {
    Reply::json(
        code,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "details": details, "code": code,
        }),
    )
}

fn graph(name: &str) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": name, "namespace": "prod", "labels": {"example.com/team": "search"}},
        "spec": {"components": [{"name": "worker", "replicas": 2}]},
    }))
    .unwrap()
}

/// The object as a server gives it back.
fn live(name: &str, resource_version: &str, applied: &str) -> Value {
    let mut value = graph(name).into_value();
    value["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000001");
    value["metadata"]["resourceVersion"] = json!(resource_version);
    value["metadata"]["managedFields"] = json!([{
        "apiVersion": "nvidia.com/v1beta1", "fieldsType": "FieldsV1", "manager": "stator", "operation": "Apply",
        "time": applied,
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:example.com/team": {}}},
            "f:spec": {"f:components": {"k:{\"name\":\"worker\"}": {".": {}, "f:name": {}, "f:replicas": {}}}},
        },
    }]);
    value
}
