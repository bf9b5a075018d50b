//! Pages of a cluster's sources: who signs in, and that each sees what the API server lets them list. The real program on a
//! real API server.

use super::objects::{Stage, hosted, spec};
use super::told::Operator;
use crate::testbed::{self, until};
use crate::web::doors::{knock, request};
use crate::web::scene::{Answer, Pages};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stator::server::Caller;

pub(super) fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> PolicyRule {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        verbs: texts(verbs),
        api_groups: Some(texts(&[group])),
        resources: Some(texts(resources)),
        ..PolicyRule::default()
    }
}

/// A token of an account that may do this much in its namespace.
pub(super) fn token(stage: &Stage<'_>, namespace: &str, name: &str, rules: Vec<PolicyRule>, audience: &str) -> String {
    stage.runtime.block_on(stage.plane.account(namespace, name, rules));
    token_for(stage, namespace, name, audience)
}

fn token_for(stage: &Stage<'_>, namespace: &str, name: &str, audience: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client.clone(), namespace);
    let spec = TokenRequestSpec {
        audiences: vec![audience.to_owned()],
        expiration_seconds: Some(3600),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = stage.runtime.block_on(accounts.create_token_request(name, &PostParams::default(), &request));
    answer.unwrap().status.unwrap().token
}

/// What a program reads with a token.
pub(super) fn read(pages: &Pages, token: &str, path: &str) -> Answer {
    let login = format!("Bearer {token}");
    pages.send_bare("GET", path, &[("Host", pages.address.as_str()), ("Authorization", &login)])
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|one| format!("{}/{}", one["namespace"].as_str().unwrap(), one["name"].as_str().unwrap()))
        .collect()
}

/// Two teams with a source each, whose models are healthy; pages for both.
pub(super) struct Fleet<'a> {
    stage: &'a Stage<'a>,
    pub(super) pages: Pages,
    pub(super) blue: String,
    pub(super) green: String,
    _operators: [Operator; 2],
    _git: crate::git_server::GitServer,
    bench: crate::workbench::Workbench,
}

impl<'a> Fleet<'a> {
    pub(super) fn start(stage: &'a Stage<'a>, name: &str) -> Self {
        let (blue, green) = (format!("pages-{name}-blue"), format!("pages-{name}-green"));
        let (bench, git) = hosted(2);
        for namespace in [&blue, &green] {
            stage.namespace(namespace);
            stage.declare(namespace, "fleet", spec(&git, &json!({"targetNamespace": namespace})));
        }
        let operators = [Operator::plays(stage, &blue), Operator::plays(stage, &green)];
        let watched = format!("{blue},{green}");
        let more = ["--watch-namespace", &watched, "--lease-namespace", &blue, "--web-listen", "127.0.0.1:0"];
        let kubeconfig = stage.plane.kubeconfig();
        let pages = Pages::start_for_tokens(&mut stage.command(
            (&kubeconfig, "admin"),
            &bench,
            "controller",
            "controller",
            &more,
        ));
        Self { stage, pages, blue, green, _operators: operators, _git: git, bench }
    }

    /// Waits until a reader sees so many models that are healthy.
    pub(super) fn settled(&self, token: &str, number: usize) {
        until(&format!("{number} healthy models"), || {
            let answer = read(&self.pages, token, "/api/v1/models?health=Healthy&sync=Synced");
            answer.status == 200 && answer.json()["metadata"]["total"] == number
        });
    }
}

pub(super) fn everything() -> Vec<PolicyRule> {
    vec![
        rule(&["list", "propose", "sync", "suspend", "resume", "approve"], "stator.dev", &["models", "modelsources"]),
        rule(&["get"], "nvidia.com", &["*"]),
        rule(&["list"], "", &["events"]),
    ]
}

#[test]
fn each_sees_what_the_api_server_lets_them_list() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let fleet = Fleet::start(&stage, "rights");
    let Fleet { pages, blue, green, .. } = &fleet;
    let alice = token(&stage, blue, "alice", everything(), "stator");
    let bob = token(&stage, green, "bob", vec![rule(&["list"], "stator.dev", &["models"])], "stator");
    let nobody = token(&stage, green, "nobody", Vec::new(), "stator");
    fleet.settled(&alice, 2);
    fleet.settled(&bob, 2);

    // Rows, counts, filters, sources and GPUs are those of one's own namespaces.
    let list = read(pages, &alice, "/api/v1/models").json();
    assert_eq!(names(&list), [format!("{blue}/mock-0"), format!("{blue}/mock-1")]);
    assert_eq!(list["counts"]["all"], 2, "{list}");
    assert_eq!(names(&read(pages, &alice, "/api/v1/sources").json()), [format!("{blue}/fleet")]);
    for path in ["/", "/sources", "/capacity", "/api/v1/capacity", "/?q=mock", "/api/v1/models?q=green"] {
        let answer = read(pages, &alice, path);
        assert!(answer.status == 200 && !answer.body.contains(green.as_str()), "{path}: {answer:?}");
    }
    assert!(read(pages, &alice, "/").body.contains(&format!("system:serviceaccount:{blue}:alice")));
    let own = read(pages, &alice, &format!("/models/{blue}/mock-0")).body;
    assert!(own.contains("kind: DynamoGraphDeployment") && !own.contains("Events are visible only with"), "{own}");
    // What is out of sight is answered by the same bytes as what is not there.
    for path in ["", "/drift", "/objects", "/manifest", "/events", "/history", "/status"] {
        let hidden = read(pages, &alice, &format!("/api/v1/models/{green}/mock-0{path}"));
        let absent = read(pages, &alice, &format!("/api/v1/models/{green}/nothing{path}"));
        assert_eq!((hidden.status, &hidden.body), (404, &absent.body), "{path}");
    }
    assert_eq!(read(pages, &alice, &format!("/models/{green}/mock-0")).status, 404);

    // Who may list models alone sees neither their objects nor their source, nor what is in git.
    let page = read(pages, &bob, &format!("/models/{green}/mock-0"));
    assert_eq!(page.status, 200, "{page:?}");
    assert!(!page.body.contains("kind: DynamoGraphDeployment"), "{page:?}");
    for told in ["Live objects, their components and drift are visible only with", "Events are visible only with"] {
        assert!(page.body.contains(told), "{told}: {page:?}");
    }
    for path in ["objects", "drift", "manifest", "events"] {
        let refused = read(pages, &bob, &format!("/api/v1/models/{green}/mock-0/{path}"));
        assert_eq!((refused.status, refused.json()["type"].as_str()), (403, Some("/problems/forbidden")), "{path}");
    }
    assert_eq!(read(pages, &bob, "/api/v1/sources").json()["items"], json!([]));
    for (path, status) in [
        ("/new".to_owned(), 404),
        (format!("/new?source={green}/fleet"), 400),
        (format!("/models/{green}/mock-0/edit"), 403),
    ] {
        let refused = read(pages, &bob, &path);
        assert_eq!(refused.status, status, "{path}: {refused:?}");
        assert!(!refused.body.contains("engine: mocker"), "{path}: {refused:?}");
    }
    let empty = read(pages, &nobody, "/");
    assert!(empty.body.contains("there are no sources or models that you may list"), "{empty:?}");

    // Writing in the form takes a verb of its own.
    let edit = read(pages, &alice, &format!("/models/{blue}/mock-0/edit"));
    assert!(edit.status == 200 && edit.body.contains("engine: mocker"), "{edit:?}");
    let plan = |token: &str, source: &str| {
        let login = format!("Bearer {token}");
        let headers =
            [("Host", pages.address.as_str()), ("Authorization", login.as_str()), ("Content-Type", "application/yaml")];
        let text = crate::cli::MOCK.replace("name: mock", "name: mock-0");
        pages.post_bare(&format!("/api/v1/plan?source={source}"), &headers, &text)
    };
    let planned = plan(&alice, &format!("{blue}/fleet"));
    assert_eq!(planned.status, 200, "{planned:?}");
    assert_eq!(plan(&alice, &format!("{green}/fleet")).json()["type"], "/problems/invalid-parameter");
    assert_eq!(plan(&bob, &format!("{green}/fleet")).json()["type"], "/problems/invalid-parameter");
}

/// The pages look at those models alone that may be different, and show all.
#[test]
fn what_changes_is_shown_beside_what_does_not() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let fleet = Fleet::start(&stage, "changes");
    let Fleet { pages, blue, bench, .. } = &fleet;
    let alice = token(&stage, blue, "alice", everything(), "stator");
    fleet.settled(&alice, 2);
    // Name, health, and whether it is as git wants it, of each.
    let shows = |what: &str, wanted: &[&str]| {
        until(what, || {
            let list = read(pages, &alice, "/api/v1/models").json();
            let words = |one: &Value| ["name", "health", "sync"].map(|field| one[field].as_str().unwrap().to_owned());
            let found = list["items"].as_array().unwrap().iter().map(|one| words(one).join(" ")).collect::<Vec<_>>();
            found == wanted
        });
    };
    let graphs = stage.objects(blue, "DynamoGraphDeployment");
    let set_ready = |status: &str, state: &str| {
        let ready = json!({"type": "Ready", "status": status, "reason": state, "message": "",
            "lastTransitionTime": "2026-05-01T00:00:00Z"});
        let status = json!({"status": {"state": state, "conditions": [ready]}});
        let manager = PatchParams { field_manager: Some("manager".to_owned()), ..PatchParams::default() };
        stage.runtime.block_on(graphs.patch_status("mock-0", &manager, &Patch::Merge(&status))).unwrap();
    };
    set_ready("False", "failed");
    shows("one that failed", &["mock-0 Failed Synced", "mock-1 Healthy Synced"]);
    set_ready("True", "successful");
    shows("both well again", &["mock-0 Healthy Synced", "mock-1 Healthy Synced"]);

    (2..5).for_each(|number| super::add(bench, number));
    bench.commit("three more");
    let all = [0, 1, 2, 3, 4].map(|number| format!("mock-{number} Healthy Synced"));
    shows("five models", &all.each_ref().map(String::as_str));

    // What a draft is held against is read when somebody drafts, and again when something changed.
    let draft = |replicas: u32| {
        let headers = [
            ("Host", pages.address.clone()),
            ("Authorization", format!("Bearer {alice}")),
            ("Content-Type", "application/yaml".to_owned()),
        ];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let text = bench.read("models/mock-1/model.yaml");
        let at = text.rfind("replicas:").unwrap();
        let path = format!("/api/v1/plan?source={blue}/fleet");
        let answer = pages.post_bare(&path, &headers, &format!("{}replicas: {replicas}\n", &text[..at]));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["changes"][0]["action"].as_str().unwrap().to_owned()
    };
    assert_eq!(draft(3), "update");
    super::scale(bench, 1, 3);
    until("the draft to be what git has", || draft(3) == "keep");

    bench.remove("models/mock-3/model.yaml");
    bench.commit("one less");
    let rest = [0, 1, 2, 4].map(|number| format!("mock-{number} Healthy Synced"));
    shows("four models", &rest.each_ref().map(String::as_str));
}

#[test]
fn a_token_signs_in_and_is_asked_about_again() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let mut fleet = Fleet::start(&stage, "sessions");
    let alice = token(&stage, &fleet.blue, "alice", everything(), "stator");
    fleet.settled(&alice, 2);
    let elsewhere = token_for(&stage, &fleet.blue, "alice", "https://kubernetes.default.svc");
    let pages = &mut fleet.pages;
    let host = pages.address.clone();
    let own = ("Host", host.as_str());

    // Without a token there is the page where one signs in, which leads back; programs get a problem.
    let deep = format!("/models/{}/mock-0?x=%3Cscript%3E", fleet.blue);
    let page = pages.get(&deep);
    assert_eq!((page.status, page.header("www-authenticate")), (401, "Bearer"), "{page:?}");
    assert!(page.body.contains("kubectl create token NAME") && page.body.contains("mock-0?x=%3Cscript%3E"), "{page:?}");
    let problem = pages.get("/api/v1/models");
    assert_eq!((problem.status, problem.json()["type"].as_str()), (401, Some("/problems/token-required")));
    assert_eq!(pages.get("/api/v1/nothing").body, problem.body);
    for wrong in ["made-up", "", elsewhere.as_str()] {
        let refused = read(pages, wrong, "/api/v1/models");
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(wrong.is_empty() || !refused.body.contains(wrong), "a token is never told: {refused:?}");
    }
    let basic = pages.send_bare("GET", "/api/v1/models", &[own, ("Authorization", "Basic YTpi")]);
    assert_eq!(basic.status, 401, "{basic:?}");
    assert_eq!(pages.get("/enter?token=x").status, 401, "there is no link");

    // Another site neither signs anybody in nor out.
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let body = format!("token={alice}&to=%2Fsources");
    for origin in [None, Some("http://evil.example.com"), Some("null")] {
        let headers: Vec<(&str, &str)> =
            [Some(own), Some(form), origin.map(|one| ("Origin", one))].into_iter().flatten().collect();
        assert_eq!(pages.post_bare("/sign-in", &headers, &body).status, 403, "{origin:?}");
        assert_eq!(pages.post_bare("/sign-out", &headers, "").status, 403, "{origin:?}");
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(pages.send(method, "/sign-in", &[]).status, 401, "{method}");
    }
    let refused = pages.submit("/sign-in", &[("token", "made-up"), ("to", "/sources")]);
    assert!(refused.status == 401 && refused.body.contains("does not know this token"), "{refused:?}");
    assert_eq!(refused.header("set-cookie"), "");
    let far = pages.submit("/sign-in", &[("token", &alice), ("to", "//evil.example.com/")]);
    assert_eq!((far.status, far.header("location")), (303, "/"));

    let entered = pages.submit("/sign-in", &[("token", &alice), ("to", &deep)]);
    assert_eq!((entered.status, entered.header("location")), (303, deep.as_str()));
    let cookie = entered.header("set-cookie").to_owned();
    for word in ["stator-session=", "HttpOnly", "SameSite=Lax", "Max-Age=28800", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains(&alice), "the cookie says nothing");
    cookie.split(';').next().unwrap().clone_into(&mut pages.cookie);
    assert_eq!(pages.get("/sources").status, 200);
    // A cookie goes along with what other sites send; what has a body has to say where it comes from.
    let cookie = pages.cookie.clone();
    let yaml = [own, ("Cookie", cookie.as_str()), ("Content-Type", "application/yaml")];
    assert_eq!(pages.post_bare("/api/v1/render", &yaml, crate::cli::MOCK).status, 403);
    assert_eq!(pages.post("/api/v1/render", "application/yaml", crate::cli::MOCK).status, 200);

    let out = pages.post("/sign-out", "application/x-www-form-urlencoded", "");
    assert_eq!((out.status, out.header("location")), (303, "/sign-in"));
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(pages.get("/sources").status, 401, "the cookie opens nothing any more");

    // A session ends with its token, and a stream with it.
    let entered = pages.submit("/sign-in", &[("token", &alice)]);
    entered.header("set-cookie").split(';').next().unwrap().clone_into(&mut pages.cookie);
    let mut stream = pages.stream(&[]);
    assert!(stream.line("HTTP/1.1 200").is_some());
    let accounts: Api<ServiceAccount> = Api::namespaced(fleet.stage.client.clone(), &fleet.blue);
    fleet.stage.runtime.block_on(accounts.delete("alice", &DeleteParams::default())).unwrap();
    until("the session ended", || fleet.pages.get("/sources").status == 401);
    assert!(stream.line("nothing that is ever sent").is_none(), "the stream ended");
    assert_eq!(fleet.pages.end().code(), Some(0));
    assert!(!fleet.pages.said().contains(&alice), "{}", fleet.pages.said());
}

#[test]
fn over_tls_a_cookie_goes_nowhere_else() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let namespace = "pages-tls";
    stage.namespace(namespace);
    let (bench, _git) = hosted(1);
    let alice = token(&stage, namespace, "alice", everything(), "pages.example.com");
    let data = |name: &str| format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key, kubeconfig) = (data("server.pem"), data("server.key"), stage.plane.kubeconfig());
    let command = |key: &str| {
        let more = [
            ["--watch-namespace", namespace],
            ["--lease-namespace", namespace],
            ["--web-listen", "127.0.0.1:0"],
            ["--web-audience", "pages.example.com"],
            ["--web-tls-cert", &certificate],
            ["--web-tls-key", key],
        ];
        stage.command((&kubeconfig, "admin"), &bench, "controller", "controller", more.as_flattened())
    };
    let unusable = bench.finish(&mut command(&certificate)).to_string();
    assert!(unusable.starts_with("exit 2") && unusable.contains("server.pem cannot be used"), "{unusable}");
    assert!(
        unusable.contains("hint: name a certificate and its key with --web-tls-cert and --web-tls-key"),
        "{unusable}"
    );

    let mut pages = Pages::start_for_tokens(&mut command(&key));
    let port = pages.address.rsplit(':').next().unwrap().to_owned();
    let own = format!("https://localhost:{port}");
    let authority = reqwest::Certificate::from_pem(&fs_err::read(data("ca.pem")).unwrap()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([authority]).no_proxy();
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let sign_in = |origin: &str| {
        let form = client.post(format!("{own}/sign-in")).header("Origin", origin);
        let form = form.header("Content-Type", "application/x-www-form-urlencoded").body(format!("token={alice}"));
        stage.runtime.block_on(form.send()).unwrap()
    };
    assert_eq!(sign_in(&format!("http://localhost:{port}")).status(), 403, "the same host without TLS is another site");
    let entered = sign_in(&own);
    assert_eq!(entered.status(), 303);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-stator-session=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"),
        "{cookie}"
    );
    let read = client.get(format!("{own}/")).header("Cookie", cookie.split(';').next().unwrap());
    assert_eq!(stage.runtime.block_on(read.send()).unwrap().status(), 200);
    let page =
        stage.runtime.block_on(async { client.get(format!("{own}/")).send().await.unwrap().text().await.unwrap() });
    assert!(page.contains("--audience pages.example.com"), "{page}");
    assert_eq!(pages.end().code(), Some(0));
}

/// Whoever asks something of a source does so in their own name: the rights of the controller, which may do all, are of no
/// use to them.
#[test]
fn actions_are_the_persons_own() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let fleet = Fleet::start(&stage, "actions");
    let Fleet { pages, blue, .. } = &fleet;
    let verbs = ["list", "sync", "suspend", "resume", "approve"];
    let with = |more: &[&str]| vec![rule(&[&verbs[..], more].concat(), "stator.dev", &["models", "modelsources"])];
    let alice = token(&stage, blue, "alice", with(&["get", "patch"]), "stator");
    let carol = token(&stage, blue, "carol", with(&["get"]), "stator");
    let bob = token(&stage, blue, "bob", vec![rule(&["list"], "stator.dev", &["models", "modelsources"])], "stator");
    fleet.settled(&alice, 2);
    let path = format!("/sources/{blue}/fleet");
    let ask = |token: &str, action: &str, body: &str| {
        let login = format!("Bearer {token}");
        let headers =
            [("Host", pages.address.as_str()), ("Authorization", login.as_str()), ("Content-Type", "application/json")];
        pages.post_bare(&format!("/api/v1{path}/{action}"), &headers, body)
    };
    // A button that may not be pressed is not there.
    let page = read(pages, &bob, &path).body;
    assert!(!page.contains("Sync now") && !page.contains("Suspend"), "{page}");
    let page = read(pages, &alice, &path).body;
    assert!(page.contains("Sync now") && page.contains("Suspend") && !page.contains("Resume"), "{page}");
    for action in ["sync", "suspend", "approve"] {
        let refused = ask(&bob, action, "");
        assert_eq!(
            (refused.status, refused.json()["type"].as_str()),
            (403, Some("/problems/forbidden")),
            "{refused:?}"
        );
        assert_eq!(read(pages, &bob, &format!("{path}/{action}")).status, 403);
    }
    // The verb alone changes nothing: the API server knows who asks.
    let refused = ask(&carol, "suspend", "");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("carol"), "{refused:?}");

    let suspended = |wanted: bool| {
        until("the source says so", || read(pages, &alice, &format!("/api/v1{path}")).json()["suspended"] == wanted);
    };
    assert_eq!(ask(&alice, "suspend", "").status, 202);
    suspended(true);
    assert_eq!(ask(&alice, "suspend", "").status, 409);
    assert_eq!(ask(&alice, "resume", "{}").status, 202);
    suspended(false);
    assert_eq!(ask(&alice, "sync", "").status, 202);
    let object = stage.runtime.block_on(stage.objects(blue, "ModelSource").get("fleet")).unwrap();
    let object = serde_json::to_value(object).unwrap();
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["manager"] == "stator-pages"), "{object}");
    assert!(object["metadata"]["annotations"]["stator.dev/requestedAt"].is_string(), "{object}");
}

/// Rights come before bodies: whoever may not is told so while the body has still to come.
#[test]
fn nothing_is_read_of_who_may_not_and_wrong_tokens_are_soon_refused() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let fleet = Fleet::start(&stage, "doors");
    let Fleet { pages, blue, .. } = &fleet;
    let alice = token(&stage, blue, "alice", everything(), "stator");
    let lists = vec![rule(&["list"], "stator.dev", &["models", "modelsources"]), rule(&["get"], "nvidia.com", &["*"])];
    let bob = token(&stage, blue, "bob", lists, "stator");
    let nobody = token(&stage, blue, "nobody", Vec::new(), "stator");
    fleet.settled(&alice, 2);
    fleet.settled(&bob, 2);
    let address = pages.address.as_str();
    let begin = |login: &str, path: &str, (length, sent): (usize, usize)| {
        let kind = if path.starts_with("/api") { "application/yaml" } else { "application/x-www-form-urlencoded" };
        let headers = [("Host", address), ("Authorization", login), ("Content-Type", kind)];
        knock(address, &request("POST", path, &headers, length, sent))
    };
    let login = |token: &str| format!("Bearer {token}");
    let (alice, bob, nobody) = (login(&alice), login(&bob), login(&nobody));
    let (begin, alice) = (&begin, alice.as_str());
    std::thread::scope(|scope| {
        for rule in stator::web::route_rules() {
            let name = match rule.caller {
                Caller::Proposer => "mock-0",
                Caller::Actor => "fleet",
                Caller::Anybody | Caller::Signer | Caller::MetricsReader | Caller::LinkHolder | Caller::Reader => {
                    continue;
                }
            };
            let path = rule.path.replace("{namespace}", blue).replace("{name}", name).replace("{action}", "sync");
            assert_eq!(begin("Bearer made-up", &path, (1000, 1)), Some(401), "{path}");
            for login in [&bob, &nobody] {
                let status = begin(login, &path, (1000, 1));
                assert!(matches!(status, Some(403 | 404)), "{path}: {status:?}");
            }
            let much = rule.most_bytes + 1;
            assert_eq!(begin(alice, &path, (much, much)), Some(413), "{path}");
            scope.spawn(move || assert_eq!(begin(alice, &path, (1000, 1)), Some(408), "a body that never comes"));
        }
        // Signing in is for everybody: so much of it is read, and no more.
        let origin = format!("http://{address}");
        let form = [("Host", address), ("Origin", &origin), ("Content-Type", "application/x-www-form-urlencoded")];
        let is_sent =
            |rule: &stator::server::RouteRule| rule.path.starts_with("/sign-") && rule.methods.contains("POST");
        for rule in stator::web::route_rules().into_iter().filter(is_sent) {
            let much = rule.most_bytes + 1;
            let status = knock(address, &request("POST", rule.path, &form, much, much));
            assert_eq!(status, Some(if rule.most_bytes == 0 { 303 } else { 413 }), "{}", rule.path);
            assert_eq!(knock(address, &request("POST", rule.path, &form[..1], 1000, 1)), Some(403), "{}", rule.path);
            if rule.most_bytes > 0 {
                let slow = request("POST", rule.path, &form, 1000, 1);
                scope.spawn(move || assert_eq!(knock(address, &slow), Some(408), "a body that never comes"));
            }
        }
    });
    // Wrong tokens cost the API server little, and whoever signed in goes on.
    let statuses: Vec<u16> =
        (0..60).map(|number| read(pages, &format!("made-up-{number}"), "/api/v1/models").status).collect();
    assert!(statuses.contains(&401) && statuses.last() == Some(&429), "{statuses:?}");
    let models =
        knock(address, &request("GET", "/api/v1/models", &[("Host", address), ("Authorization", alice)], 0, 0));
    assert_eq!(models, Some(200));
}
