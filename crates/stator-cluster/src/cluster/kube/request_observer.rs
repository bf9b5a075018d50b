//! Who wants to know of every request that is sent to the API server, whoever sends it.

use ::kube::client::Body;
use http::{Method, Request, Response, header};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::{Layer, Service};

/// One request, once its answer began or it was known that none comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// What was asked, as Kubernetes calls it: `get`, `list`, `watch`, `create`, `update`, `apply`, `patch`, `delete`; `other`
    /// for what is no verb.
    pub verb: &'static str,
    /// The status; `None` where no answer came.
    pub code: Option<u16>,
    /// How long that took.
    pub duration: Duration,
}

/// Is called for every request. Must not block.
pub type RequestObserver = Arc<dyn Fn(ObservedRequest) + Send + Sync>;

/// The place of an observer, filled at most once. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct ObserverSlot(Arc<OnceLock<RequestObserver>>);

impl ObserverSlot {
    pub(super) fn set(&self, observer: RequestObserver) {
        // The first one stays.
        let _ = self.0.set(observer);
    }
}

impl fmt::Debug for ObserverSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observed").field(&self.0.get().is_some()).finish()
    }
}

impl<S> Layer<S> for ObserverSlot {
    type Service = ObservingService<S>;

    fn layer(&self, inner: S) -> ObservingService<S> {
        ObservingService { inner, observer: self.clone() }
    }
}

/// A client that tells of what passes.
#[derive(Clone, Debug)]
pub(super) struct ObservingService<S> {
    inner: S,
    observer: ObserverSlot,
}

impl<S, B> Service<Request<Body>> for ObservingService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = request_verb(&request);
        let (observed, began) = (self.observer.clone(), Instant::now());
        let work = self.inner.call(request);
        Box::pin(async move {
            let answer = work.await;
            if let Some(observer) = observed.0.get() {
                let code = answer.as_ref().ok().map(|response| response.status().as_u16());
                observer(ObservedRequest { verb, code, duration: began.elapsed() });
            }
            answer
        })
    }
}

fn request_verb<B>(request: &Request<B>) -> &'static str {
    match *request.method() {
        Method::GET => read_verb(request.uri().path(), request.uri().query().unwrap_or_default()),
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => {
            let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind.is_some_and(|kind| kind.starts_with("application/apply-patch")) { "apply" } else { "patch" }
        }
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Reads differ by how much of a resource's path there is.
fn read_verb(path: &str, query: &str) -> &'static str {
    if query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")) {
        return "watch";
    }
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    let resource = match steps.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => return "get",
    };
    match resource {
        // What an API serves.
        [] => "get",
        [_] | ["namespaces", _, _] => "list",
        _ => "get",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_called_as_kubernetes_calls_them() {
        let said = |method: &str, uri: &str| {
            let kind = if uri.contains("fieldManager") { "application/apply-patch+yaml" } else { "application/json" };
            request_verb(
                &Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, kind).body(()).unwrap(),
            )
        };
        let models = "/apis/stator.dev/v1alpha1/namespaces/prod/models";
        let described = [
            said("GET", "/version"),
            said("GET", "/apis/stator.dev/v1alpha1"),
            said("GET", "/api/v1/namespaces"),
            said("GET", "/api/v1/namespaces/prod"),
            said("GET", models),
            said("GET", &format!("{models}?labelSelector=a%3Db&watch=true")),
            said("GET", &format!("{models}/llama/status")),
            said("PATCH", &format!("{models}/llama?fieldManager=stator")),
            said("PATCH", &format!("{models}/llama")),
            said("POST", models),
            said("PUT", models),
            said("DELETE", models),
            said("OPTIONS", models),
        ];
        let expected = [
            "get", "get", "list", "get", "list", "watch", "get", "apply", "patch", "create", "update", "delete",
            "other",
        ];
        assert_eq!(described, expected);
    }

    #[tokio::test]
    async fn whoever_observes_hears_of_answers_and_of_none() {
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let observed = ObserverSlot::default();
        let service = tower::service_fn(|request: Request<Body>| async move {
            if request.uri().path() == "/version" { Ok(Response::new(())) } else { Err("broken off") }
        });
        let mut client = observed.layer(service);
        let get = |uri: &str| Request::get(uri).body(Body::empty()).unwrap();
        // Nobody observes yet.
        client.call(get("/version")).await.unwrap();
        let all = Arc::clone(&heard);
        observed.set(Arc::new(move |one| all.lock().unwrap().push((one.verb, one.code))));
        client.call(get("/version")).await.unwrap();
        client.call(get("/api/v1/pods")).await.unwrap_err();
        assert_eq!(*heard.lock().unwrap(), [("get", Some(200)), ("list", None)]);
    }
}
