//! The client of Gitea's API against the real one.

use crate::gitea::{self, BOT, Gitea, Repository};
use crate::workbench::Workbench;
use serde_json::json;
use stator_git::forge::{
    AnyForge, CommitStatus, ForgeApi as _, ForgeError, ForgeHttp, NewPullRequest, PullRequestState, StatusState,
};
use stator_git::source::credentials::GitCredentials;
use stator_git::source::model_source;
use stator_git::source::secret::SecretValues;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};

/// A client with a token.
fn connect(gitea: &Gitea, repository: &Repository<'_>, token: &str) -> AnyForge {
    let spec: model_source::Forge = serde_json::from_value(json!({"type": "gitea"})).unwrap();
    let url = RepositoryUrl::parse(&repository.url(), AllowedSchemes::default()).unwrap();
    let certificate = fs_err::read(gitea.certificate()).unwrap();
    let values = [("token".to_owned(), token.as_bytes().to_vec()), ("caFile".to_owned(), certificate)];
    let secret = SecretValues::new("forge", values);
    let http = ForgeHttp::for_repository(&GitCredentials::read(None, &url).unwrap(), Some(&secret)).unwrap();
    AnyForge::connect(&spec, &url, &secret, http).unwrap()
}

fn status(context: &str, state: StatusState, description: &str) -> CommitStatus {
    CommitStatus { context: context.to_owned(), state, description: description.to_owned(), target_url: None }
}

#[tokio::test]
async fn statuses_are_set_and_read_back_newest_first() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("forge-statuses");
    let bench = Workbench::with(&[("stator.yaml", "one")]);
    let commit = bench.commit("one");
    repository.push(&bench.root(), "main");
    let forge = connect(gitea, &repository, gitea.bot_token());

    assert_eq!(forge.list_statuses(&commit, "stator/").await.unwrap(), []);
    // More than a page of contexts, and one of somebody else's.
    repository.call("POST", &format!("/statuses/{commit}"), &json!({"context": "ci", "state": "failure"}));
    let mut wanted = Vec::new();
    for index in 0..60 {
        let one = status(&format!("stator/staging/model-{index:02}"), StatusState::Success, "Healthy");
        forge.set_status(&commit, &one).await.unwrap();
        wanted.push(one);
    }
    let long = format!("chat/model.yaml:3: \u{1F680} {}", "x".repeat(2_000));
    let whole = CommitStatus {
        target_url: Some("https://stator.example.com/sources/models?commit=1&x=%20".to_owned()),
        ..status("stator/staging", StatusState::Failure, &long)
    };
    for state in [StatusState::Pending, StatusState::Error, StatusState::Failure] {
        forge.set_status(&commit, &CommitStatus { state, ..whole.clone() }).await.unwrap();
    }
    wanted.insert(0, forge.normalize_status(&commit, &whole));
    assert_eq!(forge.list_statuses(&commit, "stator/").await.unwrap(), wanted);
    // What the host is said to show is what it does show.
    let shown = repository.status(&commit, "stator/staging").unwrap();
    assert_eq!(shown.description, wanted[0].description);
    assert_eq!((shown.account.as_str(), Some(&shown.target)), (BOT, wanted[0].target_url.as_ref()));
}

#[tokio::test]
async fn pull_requests_are_listed_whatever_their_number() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("forge-pulls");
    let bench = Workbench::with(&[("stator.yaml", "one")]);
    let base = bench.commit("one");
    repository.push(&bench.root(), "main");
    repository.push(&bench.root(), "release");
    let mut heads = Vec::new();
    for index in 0..15 {
        bench.reset(&base);
        bench.write("change", index.to_string());
        let head = bench.commit(&format!("change {index}"));
        bench.branch(&format!("change-{index}"), &head);
        heads.push(head);
    }
    repository.try_push(&bench.root(), &["refs/heads/change-*:refs/heads/change-*"]).unwrap();
    repository.wait_for_tip("change-14", &heads[14]);
    let mut numbers: Vec<u64> =
        (0..13).map(|index| repository.open_pull_request(&format!("change-{index}"), "main", "A \"change\"")).collect();
    let elsewhere = repository.open_pull_request("change-13", "release", "Elsewhere");
    let closed = repository.open_pull_request("change-14", "main", "Closed");
    repository.edit_pull_request(closed, &json!({"state": "closed"}));
    repository.merge(numbers.remove(0));

    let forge = connect(gitea, &repository, gitea.bot_token());
    let open = forge.list_open_pull_requests("main").await.unwrap();
    assert_eq!(open.iter().map(|one| one.number).collect::<Vec<_>>(), numbers);
    let one = &open[3];
    assert_eq!((one.head.as_str(), one.title.as_str()), (heads[4].as_str(), "A \"change\""));
    assert_eq!((one.branch.as_deref(), one.fork), (Some("change-4"), false));
    assert_eq!(one.fetch.as_deref(), Some(format!("refs/pull/{}/head", one.number).as_str()));
    assert_eq!(one.url, format!("{}/{}/pulls/{}", gitea.url(), repository.path(), one.number));
    let states = [numbers[0], numbers[0] - 1, closed].map(|number| forge.pull_request(number));
    let mut found = Vec::new();
    for state in states {
        found.push(state.await.unwrap().state);
    }
    assert_eq!(found, [PullRequestState::Open, PullRequestState::Merged, PullRequestState::Closed]);
    assert_eq!(forge.list_open_pull_requests("release").await.unwrap()[0].number, elsewhere);
}

#[tokio::test]
async fn a_pull_request_from_a_fork_is_one_also_when_the_fork_is_gone() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("forge-fork");
    let bench = Workbench::with(&[("stator.yaml", "one")]);
    bench.commit("one");
    repository.push(&bench.root(), "main");
    let token = gitea.user("guest");
    repository.let_in("guest", "read");
    let as_guest = |method: &str, path: &str, body: serde_json::Value| {
        let (code, answer) = gitea.try_call(&token, method, path, (!body.is_null()).then_some(&body)).unwrap();
        assert!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        answer
    };
    as_guest("POST", &format!("/repos/{}/forks", repository.path()), json!({}));
    as_guest(
        "POST",
        "/repos/guest/forge-fork/contents/new.yaml",
        json!({"content": "bmV3", "message": "new", "branch": "main", "new_branch": "new"}),
    );
    let new = json!({"title": "From a fork", "head": "guest:new", "base": "main"});
    let number = as_guest("POST", &format!("/repos/{}/pulls", repository.path()), new)["number"].as_u64().unwrap();

    let forge = connect(gitea, &repository, gitea.bot_token());
    let there = forge.pull_request(number).await.unwrap();
    assert_eq!((there.fork, there.branch.as_deref()), (true, None));
    as_guest("DELETE", "/repos/guest/forge-fork", serde_json::Value::Null);
    let gone = forge.pull_request(number).await.unwrap();
    assert_eq!((gone.fork, gone.branch, gone.head), (true, None, there.head));
}

#[tokio::test]
async fn comments_are_told_from_those_of_others_and_edited_in_place() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("forge-comments");
    let bench = Workbench::with(&[("stator.yaml", "one")]);
    bench.commit("one");
    repository.push(&bench.root(), "main");
    let forge = connect(gitea, &repository, gitea.bot_token());
    bench.switch("change");
    bench.write("stator.yaml", "two");
    bench.commit("two");
    repository.push(&bench.root(), "change");
    let new = NewPullRequest {
        title: "Two".to_owned(),
        body: "In place of *one*.".to_owned(),
        base: "main".to_owned(),
        head: "change".to_owned(),
    };
    let number = forge.create_pull_request(&new).await.unwrap().number;

    let body = format!("<!-- stator -->\n**{}** <details>\n\n```diff\n- \"é\u{1F680}\"\n```\n", "x".repeat(60_000));
    repository.call("POST", &format!("/issues/{number}/comments"), &json!({"body": body}));
    let comment = forge.create_comment(number, &body).await.unwrap();
    let other = forge.create_comment(number, "Later").await.unwrap();
    let own = forge.list_own_comments(number).await.unwrap();
    assert_eq!(own, [comment.clone(), other]);
    assert_eq!(own[0].body, body);
    forge.update_comment(number, &comment, "Edited").await.unwrap();
    // The same again is no fault.
    forge.update_comment(number, &comment, "Edited").await.unwrap();
    let own = forge.list_own_comments(number).await.unwrap();
    assert_eq!(own.iter().map(|one| one.body.as_str()).collect::<Vec<_>>(), ["Edited", "Later"]);
}

#[tokio::test]
async fn refusals_are_told_apart_and_show_no_token() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("forge-refusals");
    let bench = Workbench::with(&[("stator.yaml", "one")]);
    let commit = bench.commit("one");
    repository.push(&bench.root(), "main");
    let one = status("stator/staging", StatusState::Pending, "queued");
    let wrong = "0123456789abcdef0123456789abcdef01234567";
    let reading = gitea.token(BOT, &["read:repository"]);
    let nowhere = Repository::new(gitea, "team", "no-such-repository");
    let bot = connect(gitea, &repository, gitea.bot_token());
    let missing = "1".repeat(40);
    bench.switch("change");
    bench.write("stator.yaml", "two");
    bench.commit("two");
    repository.push(&bench.root(), "change");
    let number = repository.open_pull_request("change", "main", "Two");

    let mut said = Vec::new();
    let mut say = |what: &str, result: Result<(), ForgeError>| {
        let Err(error) = result else { panic!("{what} was taken") };
        let text = format!("{error} {error:?}");
        assert!(![gitea.bot_token(), wrong, &reading].iter().any(|token| text.contains(token)), "{text}");
        let text =
            error.to_string().replace(&gitea.url(), "GITEA").replace(gitea.url().split_once("//").unwrap().1, "GITEA");
        said.push(format!("{what}: {text}\n  {:?}; {}", error.retry_advice(), error.help()));
    };
    say("a wrong token", connect(gitea, &repository, wrong).set_status(&commit, &one).await);
    say("a token that may only read", connect(gitea, &repository, &reading).set_status(&commit, &one).await);
    say("another repository", connect(gitea, &nowhere, gitea.bot_token()).set_status(&commit, &one).await);
    say("no such commit", bot.set_status(&missing, &one).await);
    say("no such pull request", bot.pull_request(999).await.map(|_| ()));
    repository.call("PATCH", "", &json!({"archived": true}));
    say("an archived repository", bot.create_comment(number, "Hello").await.map(|_| ()));
    insta::assert_snapshot!(said.join("\n"), @r#"
        a wrong token: GITEA does not accept the token: invalid username, password or token
          Never; put a valid token into the secret that `spec.forge.secretRef` names, key `token`
        a token that may only read: GITEA forbids it: token does not have at least one of required scope(s), required=[write:repository], token scope=read:repository
          Never; give the token the right to write commit statuses and comments of this repository
        another repository: GITEA has no commit 3af6df5a55dd, or the token may not see it
          Soon; compare `spec.url` and `spec.forge.url` with the repository, and let the token read it
        no such commit: GITEA cannot be reached: status 500
          Soon; compare `spec.forge.url` with the host's address; stator retries
        no such pull request: GITEA has no pull request 999, or the token may not see it
          Soon; compare `spec.url` and `spec.forge.url` with the repository, and let the token read it
        an archived repository: GITEA accepts no writes: team/forge-refusals is archived
          Never; unarchive or unlock it, or suspend the source
        "#);
}
