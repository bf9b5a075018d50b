//! Answers that nobody hopes for: what they are taken to mean, and how long to wait.

use super::status;
use crate::forge_fake::{ALL, FakeForgeHost, ForgeFlavor, ForgeReply, sha};
use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::json;
use stator_git::forge::{ForgeApi as _, ForgeError, StatusState};

/// What stator makes of an answer, the host's port left out.
async fn meaning(fake: &FakeForgeHost, reply: ForgeReply) -> String {
    fake.next(reply);
    let wanted = status("stator/prod", StatusState::Success, "fine");
    let refused = fake.client().set_status(&sha(1), &wanted).await.unwrap_err();
    let host = fake.root().replace("http://", "");
    format!("{} [{:?}]", refused.to_string().replace(&host, "HOST"), refused.retry_advice())
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let errors = json!({"message": "Validation Failed", "errors": [{"resource": "Status", "code": "custom", "field": "description", "message": "is too long"}]});
    let wall = json!({"message": "Validation Failed", "errors": [{"message": "This SHA and context has reached the maximum number of statuses."}]});
    let mut all = Vec::new();
    for reply in [
        ForgeReply::message(401, "Bad credentials"),
        ForgeReply::message(403, "Resource not accessible by integration"),
        ForgeReply::message(403, "Repository was archived so is read-only."),
        ForgeReply::message(404, "Not Found"),
        ForgeReply::message(409, "Conflict"),
        ForgeReply::message(410, "Issues are disabled for this repo"),
        ForgeReply::json(422, &errors),
        ForgeReply::json(422, &wall),
        ForgeReply::message(423, "Repository is archived"),
        ForgeReply::message(400, "Problems parsing JSON"),
        ForgeReply::message(418, "I'm a teapot"),
        ForgeReply::message(500, "Server Error"),
        ForgeReply::message(503, "Unavailable").with("retry-after", 20),
        ForgeReply::empty(502),
        ForgeReply::page(404, "<html>no such page</html>"),
        ForgeReply::page(502, "<html>bad gateway</html>"),
        ForgeReply::message(304, "Not Modified"),
    ] {
        all.push(meaning(&fake, reply).await);
    }
    assert_snapshot!(all.join("\n"), @"
    HOST does not accept the token: Bad credentials [Never]
    HOST forbids it: Resource not accessible by integration [Never]
    HOST accepts no writes: Repository was archived so is read-only. [Never]
    HOST has no commit 111111111111, or the token may not see it [Soon]
    HOST reports a conflicting change: Conflict [Soon]
    HOST accepts no writes: Issues are disabled for this repo [Never]
    HOST refuses the request: Validation Failed; is too long [Never]
    HOST accepts no more statuses of this context on this commit [Never]
    HOST accepts no writes: Repository is archived [Never]
    HOST refuses the request: Problems parsing JSON [Never]
    HOST refuses the request: I'm a teapot [Never]
    HOST cannot be reached: Server Error [Soon]
    HOST cannot be reached: Unavailable [After(20s)]
    HOST cannot be reached: status 502 [Soon]
    HOST sent a response that stator does not understand: with a web page where its API should be [Never]
    HOST cannot be reached: a web page [Soon]
    HOST sent a response that stator does not understand: with status 304 [Never]
    ");
}

#[tokio::test]
async fn a_limit_is_no_matter_of_rights_and_says_how_long_to_wait() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let now = Timestamp::now().as_second();
    // The host's own clock counts, whatever ours shows.
    let date = "Tue, 15 Nov 1994 08:12:31 GMT";
    let then = 784_887_151;
    let spent = |reset: i64| {
        ForgeReply::message(403, "API rate limit exceeded for user ID 1.")
            .with("x-ratelimit-remaining", 0)
            .with("x-ratelimit-reset", reset)
    };
    let mut all = Vec::new();
    for reply in [
        ForgeReply::message(429, "slow down").with("retry-after", 7),
        ForgeReply::message(403, "slow down").with("retry-after", 7),
        ForgeReply::message(429, "slow down").with("retry-after", "Tue, 15 Nov 1994 08:13:31 GMT").with("date", date),
        spent(then + 90).with("date", date),
        // In the past, a year ahead, and no number at all.
        spent(then - 90).with("date", date),
        spent(now + 366 * 86_400),
        spent(i64::MAX),
        ForgeReply::message(429, "slow down").with("retry-after", u64::MAX),
        ForgeReply::message(429, "slow down").with("retry-after", 0),
        ForgeReply::message(429, "slow down").with("retry-after", "soon"),
        // The secondary limit comes with the numbers of the primary one, which has calls left.
        ForgeReply::message(
            403,
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        )
        .with("x-ratelimit-remaining", 4000)
        .with("x-ratelimit-reset", now + 3000),
    ] {
        all.push(meaning(&fake, reply).await);
    }
    assert_snapshot!(all.join("\n"), @"
    HOST limits the rate of calls [After(7s)]
    HOST limits the rate of calls [After(7s)]
    HOST limits the rate of calls [After(60s)]
    HOST limits the rate of calls [After(90s)]
    HOST limits the rate of calls [After(60s)]
    HOST limits the rate of calls [After(3600s)]
    HOST limits the rate of calls [After(60s)]
    HOST limits the rate of calls [After(3600s)]
    HOST limits the rate of calls [After(1s)]
    HOST limits the rate of calls [After(60s)]
    HOST limits the rate of calls [After(60s)]
    ");
}

#[tokio::test]
async fn every_host_has_its_own_place_for_what_it_says() {
    let mut all = Vec::new();
    for (make, body) in [
        (ForgeFlavor::Gitlab, json!({"message": {"description": ["is too long (maximum is 255 characters)"]}})),
        (ForgeFlavor::Gitlab, json!({"error": "state does not have a valid value"})),
        (ForgeFlavor::Gitlab, json!({"message": ["one", "two"]})),
        (
            ForgeFlavor::BitbucketCloud,
            json!({"type": "error", "error": {"message": "Bad request", "fields": {"key": ["too long"]}}}),
        ),
        (
            ForgeFlavor::BitbucketDataCenter,
            json!({"errors": [{"context": "url", "message": "must be absolute", "exceptionName": null}]}),
        ),
        (
            ForgeFlavor::Azure,
            json!({"$id": "1", "message": "TF400813: not authorized", "typeKey": "Unauthorized", "errorCode": 0}),
        ),
        (ForgeFlavor::Gitea, json!({"message": "invalid state", "url": "https://gitea.example.com/api/swagger"})),
        (ForgeFlavor::Gitea, json!({"message": "a\u{1b}[31m red\nline"})),
        (ForgeFlavor::Gitea, json!({"message": "x".repeat(5000)})),
        (ForgeFlavor::Gitea, json!([[[[[[[[[["deep"]]]]]]]]]])),
        (ForgeFlavor::Gitea, json!(null)),
    ] {
        let fake = FakeForgeHost::start(make).await;
        all.push(meaning(&fake, ForgeReply::json(400, &body)).await);
    }
    assert_snapshot!(all.join("\n"), @"
    HOST refuses the request: description: is too long (maximum is 255 characters) [Never]
    HOST refuses the request: state does not have a valid value [Never]
    HOST refuses the request: one; two [Never]
    HOST refuses the request: Bad request [Never]
    HOST refuses the request: must be absolute [Never]
    HOST refuses the request: TF400813: not authorized [Never]
    HOST refuses the request: invalid state [Never]
    HOST refuses the request: a [31m red line [Never]
    HOST refuses the request: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… [Never]
    HOST refuses the request: status 400 [Never]
    HOST refuses the request: status 400 [Never]
    ");
}

#[tokio::test]
async fn an_answer_that_is_no_answer_is_said_to_be_none() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let mut all = Vec::new();
    let endless = vec![b' '; 33 << 20];
    for reply in [
        ForgeReply::page(200, "<!doctype html><title>Welcome</title>"),
        ForgeReply { status: 200, headers: Vec::new(), body: b"{\"number\": 7".to_vec() },
        ForgeReply { status: 200, headers: Vec::new(), body: b"\xff\xfe\x00".to_vec() },
        ForgeReply { status: 200, headers: Vec::new(), body: endless },
        ForgeReply::json(200, &json!({"number": -1})),
        ForgeReply::json(200, &json!(null)),
        ForgeReply::empty(204),
    ] {
        fake.next(reply);
        let refused = fake.client().pull_request(7).await.unwrap_err();
        assert!(matches!(refused, ForgeError::Unreadable { .. }), "{refused:?}");
        all.push(refused.to_string().replace(&fake.root().replace("http://", ""), "HOST"));
    }
    // What it is called matters less than what it is.
    fake.state().open(7, "Bigger", crate::forge_fake::PullRequestOrigin::Here);
    let full = fake.client().pull_request(7).await.unwrap();
    assert_eq!(full.number, 7);
    assert_snapshot!(all.join("\n"), @"
    HOST sent a response that stator does not understand: with a web page instead of JSON
    HOST sent a response that stator does not understand: pull request 7: EOF while parsing an object at line 1 column 12
    HOST sent a response that stator does not understand: pull request 7: expected value at line 1 column 1
    HOST sent a response that stator does not understand: its answer is longer than 32 MiB
    HOST sent a response that stator does not understand: pull request 7: invalid value: integer `-1`, expected u64 at line 1 column 12
    HOST sent a response that stator does not understand: pull request 7: invalid type: null, expected a pull request at line 1 column 4
    HOST sent a response that stator does not understand: pull request 7: EOF while parsing a value at line 1 column 0
    ");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_unavailable() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        drop(fake);
        let wanted = status("stator/prod", StatusState::Success, "fine");
        // The server's end and its port's are two things; by the second call both are over.
        let _ = client.set_status(&sha(1), &wanted).await;
        let refused = client.set_status(&sha(1), &wanted).await.unwrap_err();
        assert!(matches!(refused, ForgeError::Unavailable { after: None, .. }), "{make:?}: {refused:?}");
    }
}

#[tokio::test]
async fn github_takes_a_thousand_statuses_of_a_context_and_then_no_more() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let client = fake.client();
    fake.state().wall = 3;
    let wanted = status("stator/prod", StatusState::Pending, "rendering");
    for _ in 0..3 {
        client.set_status(&sha(1), &wanted).await.unwrap();
    }
    let refused = client.set_status(&sha(1), &wanted).await.unwrap_err();
    assert!(matches!(refused, ForgeError::Full { .. }), "{refused:?}");
    // Another context of the commit, and the context on another commit, go on.
    client.set_status(&sha(1), &status("stator/staging", StatusState::Pending, "rendering")).await.unwrap();
    client.set_status(&sha(2), &wanted).await.unwrap();
    fake.assert_no_faults();
}

#[tokio::test]
async fn a_repository_that_was_renamed_is_followed_within_its_host_alone() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let client = fake.client();
    let wanted = status("stator/prod", StatusState::Success, "fine");
    for (code, to) in [(301, "/api/v3/repos/team/models/statuses/"), (307, "../statuses/")] {
        fake.next(ForgeReply::message(code, "Moved Permanently").with("location", format!("{to}{}", sha(1))));
        client.set_status(&sha(1), &wanted).await.unwrap();
    }
    // The body went along.
    assert_eq!(fake.state().statuses.len(), 2);
    fake.assert_no_faults();
    // For ever round, it is not followed.
    for _ in 0..5 {
        fake.next(ForgeReply::empty(302).with("location", "/again"));
    }
    let refused = client.set_status(&sha(1), &wanted).await.unwrap_err();
    assert!(refused.to_string().ends_with("it redirects too many times"), "{refused}");
}

#[tokio::test]
async fn no_redirect_takes_the_token_to_another_host() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let elsewhere = FakeForgeHost::start(make).await;
        let client = fake.client();
        let port = elsewhere.root();
        for to in [format!("{port}/steal"), port.replace("http://", "//"), port.replace("127.0.0.1", "localhost")] {
            for code in [301, 302, 307, 308] {
                fake.next(ForgeReply::empty(code).with("location", &to));
                let refused = client.pull_request(7).await.unwrap_err();
                assert!(refused.to_string().contains("where the token is not sent"), "{make:?}: {refused}");
            }
        }
        assert!(elsewhere.log().is_empty(), "{make:?} went elsewhere");
        // A page for people to sign in is about the token, wherever it is.
        for to in ["/users/sign_in", "https://spsprodweu1.vssps.visualstudio.com/_signin?realm=dev.azure.com"] {
            fake.next(ForgeReply::empty(302).with("location", to));
            let refused = client.pull_request(7).await.unwrap_err();
            assert!(matches!(refused, ForgeError::Unauthorized { .. }), "{make:?}: {refused}");
        }
    }
}

#[tokio::test]
async fn the_next_page_is_not_looked_for_at_another_host() {
    let fake = FakeForgeHost::start(ForgeFlavor::BitbucketCloud).await;
    let elsewhere = FakeForgeHost::start(ForgeFlavor::BitbucketCloud).await;
    let page = json!({"values": [{"key": "k", "state": "FAILED"}], "next": format!("{}/2.0/more", elsewhere.root())});
    fake.next(ForgeReply::json(200, &page));
    let refused = fake.client().list_statuses(&sha(1), "").await.unwrap_err();
    assert!(refused.to_string().ends_with("the next page is at another host"), "{refused}");
    assert!(elsewhere.log().is_empty());
}

#[tokio::test]
async fn azure_shows_a_page_to_whom_it_does_not_know() {
    let fake = FakeForgeHost::start(ForgeFlavor::Azure).await;
    let client = fake.client_with(&[("token", "another")]).unwrap();
    let refused = client.list_open_pull_requests("main").await.unwrap_err();
    assert!(matches!(refused, ForgeError::Unauthorized { .. }), "{refused:?}");
}

#[tokio::test]
async fn bitbuckets_api_tokens_go_with_their_accounts_address() {
    let fake = FakeForgeHost::start(ForgeFlavor::BitbucketCloud).await;
    let token = crate::forge_fake::CANARY;
    let client = fake.client_with(&[("username", "ada@example.com\n"), ("token", &format!("{token}\n"))]).unwrap();
    assert_eq!(client.list_open_pull_requests("main").await.unwrap(), []);
    fake.assert_no_faults();
}
