//! Signing in at a real provider, a Gitea, for people without a token of the cluster.

use super::objects::{Stage, hosted, spec};
use super::pages::everything;
use super::told::Operator;
use crate::gitea::{self, Gitea};
use crate::testbed::{self, ReservedPort, until};
use crate::web::scene::{Answer, Pages};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use url::Url;

/// What the pages are called; nobody resolves it.
const PAGES: &str = "https://pages.example.com";

/// A browser at the provider: it keeps cookies and follows nothing.
struct Browser<'a> {
    gitea: &'a Gitea,
    client: reqwest::Client,
    runtime: &'a tokio::runtime::Runtime,
    cookies: BTreeMap<String, String>,
}

impl<'a> Browser<'a> {
    fn new(stage: &'a Stage<'_>, gitea: &'a Gitea) -> Self {
        let certificate = reqwest::Certificate::from_pem(&fs_err::read(gitea.certificate()).unwrap()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([certificate]).no_proxy();
        let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { gitea, client, runtime: &stage.runtime, cookies: BTreeMap::new() }
    }

    /// The status, where it leads and the text of an answer.
    fn send(&mut self, url: &str, form: Option<&[(&str, &str)]>) -> (u16, String, String) {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = match form {
            Some(form) => self.client.post(url).form(form).header("Origin", self.gitea.url()),
            None => self.client.get(url),
        };
        let request = request.header("Cookie", cookies.join("; "));
        let answer = self.runtime.block_on(request.send()).unwrap();
        for cookie in answer.headers().get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let status = answer.status().as_u16();
        let location = answer.headers().get("location").map(|to| to.to_str().unwrap().to_owned()).unwrap_or_default();
        (status, location, self.runtime.block_on(answer.text()).unwrap())
    }

    fn csrf(&self) -> String {
        self.cookies.get("_csrf").cloned().unwrap_or_default().replace("%3A", ":")
    }

    /// Signs in with a password.
    fn sign_in(&mut self, user: &str) {
        let login = format!("{}/user/login", self.gitea.url());
        self.send(&login, None);
        let (csrf, password) = (self.csrf(), self.gitea.password().to_owned());
        let form = [("_csrf", csrf.as_str()), ("user_name", user), ("password", &password)];
        let (status, location, text) = self.send(&login, Some(&form));
        assert_eq!((status, location.as_str()), (303, "/"), "{text}");
    }

    /// Lets the pages know who this is: where that sends the browser back to.
    fn consent(&mut self, address: &str) -> String {
        let (status, location, page) = self.send(address, None);
        if status != 200 {
            return location;
        }
        let own: Vec<(String, String)> = page
            .split("<input type=\"hidden\"")
            .skip(1)
            .filter_map(|input| {
                let input = input.split('>').next()?;
                let value = |name: &str| Some(input.split_once(&format!("{name}=\""))?.1.split('"').next()?.to_owned());
                Some((value("name")?, value("value")?.replace("&#43;", "+").replace("&amp;", "&")))
            })
            .collect();
        let mut form: Vec<(&str, &str)> = own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        form.push(("granted", "true"));
        let grant = format!("{}/login/oauth/grant", self.gitea.url());
        let (status, location, text) = self.send(&grant, Some(&form));
        assert!(matches!(status, 302 | 303), "{status} {text} {form:?}");
        location
    }
}

/// A cookie that an answer sets, as a browser sends it back.
fn cookie(answer: &Answer, name: &str) -> String {
    let pairs = answer.header("set-cookie").lines().filter_map(|line| line.split(';').next());
    pairs.into_iter().find(|pair| pair.starts_with(&format!("{name}="))).unwrap_or_default().to_owned()
}

fn path_of(location: &str) -> String {
    let url = Url::parse(location).unwrap();
    format!("{}?{}", url.path(), url.query().unwrap_or_default())
}

/// Gives a user of the cluster rights in a namespace.
fn grant(stage: &Stage<'_>, namespace: &str, subject: &Value) {
    let role: Role = serde_json::from_value(json!({"metadata": {"name": "person"}, "rules": everything()})).unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "person"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "person"},
        "subjects": [subject],
    }))
    .unwrap();
    stage.runtime.block_on(async {
        let roles: Api<Role> = Api::namespaced(stage.client.clone(), namespace);
        roles.create(&PostParams::default(), &role).await.unwrap();
        let bindings: Api<RoleBinding> = Api::namespaced(stage.client.clone(), namespace);
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    });
}

#[test]
fn people_without_a_token_sign_in_at_their_provider() {
    let (Some(plane), Some(gitea)) = (testbed::shared(), gitea::shared()) else { return };
    let stage = Stage::on(plane);
    let namespace = "pages-oidc";
    stage.namespace(namespace);
    let (bench, git) = hosted(1);
    stage.declare(namespace, "fleet", spec(&git, &json!({"targetNamespace": namespace})));
    let _operator = Operator::plays(&stage, namespace);
    gitea.user("dora");
    let redirect = format!("{PAGES}/sign-in/callback");
    let app = json!({"name": "stator", "redirect_uris": [redirect], "confidential_client": true});
    let app = gitea.call("POST", "/user/applications/oauth2", &app);
    let client = app["client_id"].as_str().unwrap();
    bench.write("client-secret", format!("{}\n", app["client_secret"].as_str().unwrap()));
    let (issuer, secret, ca) = (gitea.url(), bench.path("client-secret"), gitea.certificate());
    let (secret, ca) = (secret.to_str().unwrap().to_owned(), ca.to_str().unwrap().to_owned());
    // The address is said behind a proxy's, so that it has to be known.
    let port = ReservedPort::reserve().unwrap();
    let address = port.address().to_string();
    let more = [
        ["--watch-namespace", namespace],
        ["--lease-namespace", namespace],
        ["--web-listen", &address],
        ["--web-url", PAGES],
        ["--web-oidc-issuer", &issuer],
        ["--web-oidc-client", client],
        ["--web-oidc-secret-file", &secret],
        ["--web-oidc-ca-file", &ca],
        ["--web-oidc-username-claim", "preferred_username"],
        ["--web-oidc-username-prefix", "gitea:"],
    ];
    let kubeconfig = stage.plane.kubeconfig();
    let mut pages = Pages::start_behind_proxy(
        &mut stage.command((&kubeconfig, "admin"), &bench, "controller", "controller", more.as_flattened()),
        &address,
    );
    grant(&stage, namespace, &json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gitea:dora"}));

    // A deep link leads to the provider, and back to the same page.
    let deep = format!("/models/{namespace}/mock-0?a=b");
    let asked = pages.get(&deep);
    assert_eq!(asked.status, 401);
    let start =
        asked.body.split("href=\"/sign-in/start").nth(1).unwrap().split('"').next().unwrap().replace("&#38;", "&");
    let started = pages.get(&format!("/sign-in/start{start}"));
    assert_eq!(started.status, 303, "{started:?}");
    let address = started.header("location").to_owned();
    assert!(address.starts_with(&issuer) && address.contains("code_challenge_method=S256"), "{address}");
    let kept = cookie(&started, "__Host-stator-sign-in");
    let mut browser = Browser::new(&stage, gitea);
    browser.sign_in("dora");
    let back = browser.consent(&address);
    assert!(back.starts_with(&redirect), "{back}");
    let callback = |cookie: &str, path: &str| {
        let headers = [("Host", "pages.example.com"), ("Cookie", cookie)];
        pages.send_bare("GET", path, &headers)
    };
    // In another browser, with another state or without the cookie it is nobody's.
    let other = pages.get("/sign-in/start");
    let others = cookie(&other, "__Host-stator-sign-in");
    for cookie in [others.as_str(), "", "__Host-stator-sign-in=a.1.b"] {
        let refused = callback(cookie, &path_of(&back));
        assert!(refused.status == 401 && refused.body.contains("not started in this browser"), "{refused:?}");
    }
    let forged = callback(&kept, &path_of(&back).replace("state=", "state=x"));
    assert_eq!(forged.status, 401, "{forged:?}");
    let denied = callback(&kept, &format!("{}&error=access_denied&error_description=No+%3Cb%3E", path_of(&back)));
    assert!(denied.body.contains("The provider refused: No &#60;b&#62;."), "{denied:?}");
    let foreign = callback(&kept, &format!("{}&iss=https://evil.example.com", path_of(&back)));
    assert!(foreign.status == 401 && foreign.body.contains("evil.example.com"), "{foreign:?}");
    let entered = callback(&kept, &path_of(&back));
    assert_eq!((entered.status, entered.header("location")), (303, deep.as_str()), "{entered:?}");
    // A code is good for once.
    let replayed = callback(&kept, &path_of(&back));
    assert!(replayed.status == 401 && replayed.body.contains("The provider refused"), "{replayed:?}");

    assert_eq!(cookie(&entered, "__Host-stator-sign-in"), "__Host-stator-sign-in=");
    pages.cookie = cookie(&entered, "__Host-stator-session");
    let label = "gitea:dora";
    until("the model is shown", || pages.get(&deep).status == 200);
    assert!(pages.get("/").body.contains(label));
    assert_eq!(pages.get("/sources").status, 200);
    // Only what the API server lets that user do.
    let sources = pages.get("/api/v1/sources").json();
    assert_eq!(sources["items"].as_array().unwrap().len(), 1, "{sources}");
    let said = pages.said();
    assert!(said.contains("gitea:dora") && !said.contains(app["client_secret"].as_str().unwrap()), "{said}");
    // Signing out takes a POST.
    assert_eq!(pages.get("/sign-out").status, 405);
}
