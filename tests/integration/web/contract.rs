//! What holds for every answer: headers, methods, and that the API is as it describes itself.

use super::scene::{Answer, Pages};
use super::schema::faults;
use super::{bench, settled, sync};
use serde_json::Value;
use stator_view::api::{ApiAnswer, ENDPOINTS};
use stator_view::page::ASSETS;

/// Pages that something can be sent to.
const FORMS: [&str; 2] = ["/new", "/models/models/alpha/edit"];

/// Every path that is read, with a model that there is.
fn paths() -> Vec<String> {
    let api = ENDPOINTS.iter().filter(|one| !one.answer.takes_body()).map(|endpoint| filled(endpoint.path));
    let pages = [
        "/",
        "/models/models/alpha",
        "/sources",
        "/sources/-/fleet",
        "/changes",
        "/capacity",
        "/api",
        "/problems/not-found",
    ];
    let pages = pages.into_iter().chain(FORMS).map(str::to_owned);
    let assets = ASSETS.iter().map(|asset| asset.path.clone());
    pages.into_iter().chain(api).chain(assets).collect()
}

fn filled(path: &str) -> String {
    // The source of a folder has no namespace.
    let (namespace, name) = if path.contains("/sources/") { ("-", "fleet") } else { ("models", "alpha") };
    path.replace("{namespace}", namespace).replace("{name}", name)
}

#[track_caller]
fn is_closed(answer: &Answer, what: &str) {
    let policy = answer.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; "), "{what}: {answer:?}");
    for word in ["frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(word), "{what}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{what}: {policy}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{what}");
    assert_eq!(answer.header("referrer-policy"), "same-origin", "{what}");
    assert_eq!(answer.header("x-frame-options"), "DENY", "{what}");
    assert_ne!(answer.header("cache-control"), "", "{what}");
}

#[test]
fn every_answer_closes_the_doors_and_only_reading_is_possible() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let gone =
        ["/nothing", "/api/v1/nothing", "/models/models/nobody", "/api/v1/models/models/nobody", "/sources/-/nobody"];
    for path in paths().iter().map(String::as_str).filter(|path| *path != "/api/v1/stream").chain(gone) {
        let answer = pages.get(path);
        is_closed(&answer, path);
        // The embedded cluster runs no pods.
        let expected = if path.ends_with("/logs") { 409 } else { 200 };
        assert_eq!(answer.status, if gone.contains(&path) { 404 } else { expected }, "{path}: {answer:?}");
        let head = pages.send("HEAD", path, &[]);
        is_closed(&head, path);
        assert_eq!((head.status, head.body.as_str()), (answer.status, ""), "{path}");
        assert_eq!(head.header("content-length"), answer.body.len().to_string(), "{path}: {head:?}");
        let is_form = FORMS.contains(&path);
        let allowed = if is_form { "GET, HEAD, POST" } else { "GET, HEAD" };
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"].into_iter().filter(|one| !is_form || *one != "POST")
        {
            let refused = pages.send(method, path, &[]);
            is_closed(&refused, path);
            if path.ends_with("/nothing") {
                assert_eq!(refused.status, 404, "{method} {path}: {refused:?}");
                continue;
            }
            assert_eq!((refused.status, refused.header("allow")), (405, allowed), "{method} {path}: {refused:?}");
            // Where to change it, for whoever tried to.
            let model = path.strip_prefix("/api/v1/models/models/").and_then(|rest| rest.split('/').next());
            let edit = model.map(|name| format!("</models/models/{name}/edit>; rel=\"edit\"")).unwrap_or_default();
            assert_eq!(refused.header("link"), edit, "{method} {path}: {refused:?}");
            if path.starts_with("/api/v1/") {
                assert_eq!(refused.header("content-type"), "application/problem+json", "{path}");
                assert_eq!(refused.json()["type"], "/problems/method-not-allowed");
            }
        }
        let closed = pages.send_bare("GET", path, &[("Host", &pages.address)]);
        is_closed(&closed, path);
        assert!(path.starts_with("/assets/") || closed.status == 401, "{path}: {closed:?}");
        is_closed(&pages.send_bare("GET", path, &[("Host", "evil.example.com")]), path);
    }
    is_closed(&pages.send("HEAD", "/api/v1/stream", &[]), "the stream");
    for path in ["/api/v1/render", "/api/v1/plan", "/api/v1/proposals", "/api/v1/sources/-/fleet/sync"] {
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            let refused = pages.send(method, path, &[]);
            is_closed(&refused, path);
            assert_eq!((refused.status, refused.header("allow")), (405, "POST"), "{method} {path}: {refused:?}");
        }
    }
    // What is not there is answered by the same bytes, whatever it is called.
    let bodies: Vec<String> = ["/api/v1/nothing", "/api/v1/models/models/nobody", "/api/v1/models/models/nobody/drift"]
        .map(|path| pages.get(path).body)
        .into();
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{bodies:?}");
}

#[test]
fn a_page_names_only_what_is_here() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    for path in [
        "/",
        "/models/models/gamma",
        "/sources",
        "/sources/-/fleet",
        "/changes",
        "/capacity",
        "/api",
        "/?q=x",
        "/nothing",
        "/new",
        "/models/models/gamma/edit",
    ] {
        let page = pages.get(path).body;
        for part in page.split(['"', ' ']).filter(|part| part.contains("//")) {
            assert!(!part.starts_with("http") && !part.starts_with("//"), "{path} names {part}");
        }
        assert_eq!(page.matches("<h1>").count(), 1, "{path}");
        for word in ["<html lang=", "class=\"skip\" href=\"#main\"", "<main id=\"main\"", "<title>"] {
            assert!(page.contains(word), "{path}: {word}");
        }
        for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            if !link.starts_with('/') {
                continue;
            }
            let status = pages.get(&link.replace("&#38;", "&").replace("&amp;", "&")).status;
            assert!(status == 200 || path == "/nothing", "{path} leads to {link}: {status}");
        }
        // No inline style, no inline script.
        assert!(!page.contains("style=") && !page.contains("<style") && page.matches("<script").count() <= 2, "{path}");
    }
}

#[test]
fn the_api_is_as_it_describes_itself() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let document = pages.get("/api/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let described: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(described.len(), ENDPOINTS.len());
    for endpoint in ENDPOINTS {
        let responses = &document["paths"][endpoint.path]["get"]["responses"];
        if !matches!(endpoint.answer, ApiAnswer::Json { .. }) {
            continue;
        }
        let answer = pages.get(&filled(endpoint.path));
        let schema = &responses["200"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{}", endpoint.path);
        assert_eq!(faults(&document, schema, &answer.json(), endpoint.path), Vec::<String>::new());
        // Each problem that it may answer with is described, and is as described.
        let bad = pages.get(&format!("{}?nothing=1", filled(endpoint.path)));
        let problem = |answer: &Answer| {
            let schema = &responses[answer.status.to_string()]["content"]["application/problem+json"]["schema"];
            assert!(schema.is_object(), "{}: {answer:?}", endpoint.path);
            assert_eq!(faults(&document, schema, &answer.json(), endpoint.path), Vec::<String>::new());
            let page = answer.json()["type"].as_str().unwrap().to_owned();
            assert_eq!(pages.get(&page).status, 200, "{page}");
        };
        assert_eq!(bad.status, 400, "{}", endpoint.path);
        problem(&bad);
        problem(&pages.send_bare("GET", &filled(endpoint.path), &[("Host", &pages.address)]));
        problem(&pages.send_bare("GET", &filled(endpoint.path), &[("Host", "evil.example.com")]));
        if endpoint.path.contains("{name}") {
            problem(&pages.get(&endpoint.path.replace("{namespace}", "models").replace("{name}", "nobody")));
        }
    }
    let list = &document["paths"]["/api/v1/models"]["get"]["parameters"];
    let health = list.as_array().unwrap().iter().find(|one| one["name"] == "health").unwrap();
    for word in health["schema"]["items"]["enum"].as_array().unwrap().iter().filter_map(Value::as_str) {
        assert_eq!(pages.get(&format!("/api/v1/models?health={word}")).status, 200, "{word}");
    }
}
