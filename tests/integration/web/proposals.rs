//! Pull requests from the pages, on a real Gitea.

use super::form::{filled, value, with};
use super::scene::Pages;
use crate::browser::Browser;
use crate::cli::MOCK;
use crate::gitea::{self, BOT, Gitea, Repository};
use crate::testbed::until;
use crate::workbench::Workbench;
use std::path::Path;

const EDIT: &str = "/models/models/chat/edit";
const FILE: &str = "fleet/models/chat/model.yaml";
const REPLICAS: &str = "/spec/serving/worker/replicas";

fn source(gitea: &Gitea, repository: &Repository<'_>, forge: &str) -> String {
    let token = gitea.bot_token();
    let certificate: String =
        fs_err::read_to_string(gitea.certificate()).unwrap().lines().map(|line| format!("\n    {line}")).collect();
    let url = repository.url();
    format!(
        "\
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {{name: fleet}}
spec:
  url: {url}
  path: fleet
  ref: {{branch: main}}
  interval: 1s
  environment: staging
  secretRef: {{name: git}}
{forge}
---
apiVersion: v1
kind: Secret
metadata: {{name: git}}
stringData:
  username: {BOT}
  password: {token}
  caFile: |{certificate}
---
apiVersion: v1
kind: Secret
metadata: {{name: forge}}
stringData:
  token: {token}
  caFile: |{certificate}
"
    )
}

/// A forge whose pull requests are planned.
fn with_previews(url: &str) -> String {
    format!("  forge: {{type: gitea, url: {url}, secretRef: {{name: forge}}}}\n  previews: true")
}

/// A repository whose models are in a folder, and a controller with pages that follows it.
fn follow(
    gitea: &'static Gitea,
    name: &str,
    forge: impl Fn(&str) -> String,
    folder: &Path,
) -> (Workbench, Repository<'static>, Pages) {
    let repository = gitea.repository(name);
    let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: fleet}\nspec: {environments: {staging: {namespace: models}}}\n";
    let bench = Workbench::with(&[("fleet/stator.yaml", root), (FILE, &MOCK.replace("name: mock", "name: chat"))]);
    bench.commit("Serve chat");
    repository.push(&bench.root(), "main");
    bench.switch("main");
    fs_err::write(folder.join("sources.yaml"), source(gitea, &repository, &forge(&gitea.url()))).unwrap();
    let mut command = bench.command();
    command.current_dir(folder).args([
        "controller",
        "--source-file",
        "sources.yaml",
        "--listen",
        "127.0.0.1:0",
        "--web",
    ]);
    command.args(["--cluster", "embedded:cluster", "--simulate-operator", "--simulate-speed", "1000"]);
    let pages = Pages::open(&mut command);
    serves(&pages, 2);
    (bench, repository, pages)
}

/// Waits until the model is healthy with so many workers.
fn serves(pages: &Pages, workers: u64) {
    pages.shows("/api/v1/models/models/chat", "the model as git has it", |answer| {
        let model = answer.json();
        let is_there = |one: &serde_json::Value| {
            one["component"] == "worker" && one["ready"] == workers && one["wanted"] == workers
        };
        let replicas = model["replicas"].as_array().is_some_and(|all| all.iter().any(is_there));
        model["health"] == "Healthy" && model["sync"] == "Synced" && replicas
    });
}

#[test]
fn a_change_becomes_one_pull_request_and_then_a_healthy_model() {
    let Some(gitea) = gitea::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_bench, repository, pages) = follow(gitea, "pages-propose", with_previews, folder.path());

    // From the row of the model: a number and a button.
    let opened = pages.get(&format!("{EDIT}?field={}&value=3", REPLICAS.replace('/', "%2F")));
    assert_eq!(opened.status, 200, "{opened:?}");
    let fields = filled(&opened);
    assert_eq!(value(&fields, REPLICAS), "3");
    assert!(
        opened.body.contains("Open a pull request") && opened.body.contains("1 object would change."),
        "{opened:?}"
    );
    let words = [("title", "Scale chat to <three>"), ("description", "More *traffic*."), ("action", "propose")];
    let proposed = pages.submit(EDIT, &with(&fields, &words));
    assert_eq!(proposed.status, 201, "{proposed:?}");
    assert!(proposed.body.contains("Pull request 1 is open") && proposed.body.contains("/pulls/1\""), "{proposed:?}");
    let pull = repository.call("GET", "/pulls/1", &serde_json::Value::Null);
    assert_eq!((pull["title"].as_str(), pull["base"]["ref"].as_str()), (Some("Scale chat to <three>"), Some("main")));
    let body = pull["body"].as_str().unwrap();
    assert!(body.starts_with("More *traffic*.") && body.contains("replicas"), "{body}");
    let head = pull["head"]["sha"].as_str().unwrap();
    let commit = repository.call("GET", &format!("/git/commits/{head}"), &serde_json::Value::Null);
    assert_eq!(commit["commit"]["message"].as_str(), Some("Scale chat to <three>\n\nMore *traffic*.\n"));
    let files = commit["files"].as_array().unwrap();
    assert_eq!((files.len(), files[0]["filename"].as_str()), (1, Some(FILE)));
    serves(&pages, 2);

    // Whoever submits twice has one pull request.
    let again = pages.submit(EDIT, &with(&fields, &words));
    assert_eq!(again.status, 200, "{again:?}");
    assert!(again.body.contains("Pull request 1 was open already"), "{again:?}");
    until("the plan is a comment", || {
        repository.comments(1).iter().any(|comment| comment.account == BOT && comment.body.contains("replicas"))
    });
    repository.merge(1);
    serves(&pages, 3);
    // The page says whose commit it was.
    pages.shows("/models/models/chat", "the commit's title", |answer| answer.body.contains("Serve chat"));

    // A file that moved on is merged by fields, and shown before it goes anywhere.
    let fields = filled(&pages.get(EDIT));
    let text = value(&fields, "yaml").replace("engine: mocker", "servedName: talk\n  engine: mocker");
    let stored = pages.get("/api/v1/sources").json()["items"][0]["seen"]["commit"].as_str().unwrap().to_owned();
    repository.call(
        "PUT",
        &format!("/contents/{FILE}"),
        &serde_json::json!({
            "branch": "main",
            "message": "Call it talk",
            "content": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text),
            "sha": repository.call("GET", &format!("/contents/{FILE}?ref=main"), &serde_json::Value::Null)["sha"],
        }),
    );
    pages.shows("/api/v1/sources", "the newer commit", |answer| {
        answer.json()["items"][0]["applied"]["commit"].as_str().is_some_and(|commit| commit != stored)
    });
    let change = [(REPLICAS, "4"), ("action", "propose")];
    let merged = pages.submit(EDIT, &with(&fields, &change));
    assert_eq!(merged.status, 409, "{merged:?}");
    assert!(merged.body.contains("was changed meanwhile"), "{merged:?}");
    let now = filled(&merged);
    assert!(value(&now, "yaml").contains("servedName: talk") && value(&now, "yaml").contains("replicas: 4"), "{now:?}");
    let proposed = pages.submit(EDIT, &with(&now, &[("action", "propose")]));
    assert_eq!(proposed.status, 201, "{proposed:?}");

    // Back to how it was, from the history.
    let history = pages.get("/api/v1/models/models/chat/history").json();
    let first = history["items"].as_array().unwrap().last().unwrap()["revision"].as_str().unwrap().to_owned();
    assert!(pages.get("/models/models/chat").body.contains(&format!("{EDIT}?revision={first}")));
    let revert = pages.get(&format!("{EDIT}?revision={first}"));
    let back = filled(&revert);
    assert_eq!((value(&back, REPLICAS), value(&back, "yaml").contains("talk")), ("2", false), "{revert:?}");
    assert_eq!(pages.get(&format!("{EDIT}?revision={}", "0".repeat(40))).status, 404);
    assert_eq!(pages.get(&format!("{EDIT}?revision=main")).status, 400);

    // Programs do the same.
    let yaml = value(&now, "yaml").replace("replicas: 4", "replicas: 5");
    let answer = pages.post("/api/v1/proposals?source=default%2Ffleet&title=Five", "application/yaml", &yaml);
    assert_eq!((answer.status, answer.json()["isNew"].as_bool()), (201, Some(true)), "{answer:?}");
    let answer = pages.post("/api/v1/proposals?source=default%2Ffleet&title=Five", "application/yaml", &yaml);
    assert_eq!((answer.status, answer.json()["isNew"].as_bool()), (200, Some(false)), "{answer:?}");
    let broken = pages.post("/api/v1/proposals?source=default%2Ffleet", "application/yaml", "kind: Model\n");
    assert_eq!(broken.status, 422, "{broken:?}");
}

#[test]
fn without_a_host_there_is_the_patch() {
    let Some(gitea) = gitea::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_bench, _repository, pages) = follow(gitea, "pages-no-host", |_| String::new(), folder.path());
    let opened = pages.get(EDIT);
    assert!(
        opened.body.contains("names no git host with a token") && !opened.body.contains("value=\"propose\""),
        "{opened:?}"
    );
    let fields = filled(&opened);
    // Whoever asks all the same keeps what was typed.
    let refused = pages.submit(EDIT, &with(&fields, &[(REPLICAS, "4"), ("action", "propose")]));
    assert_eq!((refused.status, value(&filled(&refused), REPLICAS)), (409, "4"), "{refused:?}");
    let patch = pages.submit(EDIT, &with(&fields, &[(REPLICAS, "4"), ("action", "patch")]));
    assert!(patch.status == 200 && patch.body.contains("+      replicas: 4"), "{patch:?}");
}

/// All that a new user does, in a browser; only the merge is the git host's.
#[test]
fn a_person_changes_a_model_without_leaving_the_browser() {
    let (Some(gitea), Some(browser)) = (gitea::shared(), Browser::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_bench, repository, pages) = follow(gitea, "pages-walk", with_previews, folder.path());
    until("another link", || pages.links().len() == 2);
    browser.open(&pages.links()[1]);
    browser.until("the row", "document.querySelector('#rows th')?.innerText.includes('chat')");
    browser.click("#rows th a");
    browser.until("the model", "location.pathname === '/models/models/chat'");
    browser.click("a[href$='/edit']");
    browser.until("the form", "document.getElementById('f-spec-serving-worker-replicas')");
    browser.fill("#f-spec-serving-worker-replicas", "3");
    browser.until("the plan", "document.getElementById('plan').innerText.includes('1 object would change')");
    browser.click("button[value=propose]");
    browser.until("a pull request", "document.querySelector('h1').innerText.includes('Pull request 1 is open')");
    browser.click("a[href='/previews']");
    browser.until("its preview, as it comes", "document.querySelector('main').innerText.includes('2 → 3')");
    repository.merge(1);
    browser.click("a[href='/']");
    browser.until("the row", "document.querySelector('#rows th')?.innerText.includes('chat')");
    browser.click("#rows th a");
    let healthy = "document.querySelector('#status').innerText.includes('Healthy and Synced') && \
                   document.querySelector('#replicas').innerText.includes('3 of 3 ready')";
    browser.until("it is healthy, as it comes", healthy);
    // What was merged is in its history.
    browser.until("both syncs", "document.querySelectorAll('#history tbody tr').length === 2");
}
