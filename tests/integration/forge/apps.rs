//! GitHub Apps: tokens of an hour, minted when they are needed, for one repository and a few rights.

use super::status;
use crate::forge_fake::{FakeForgeHost, ForgeFlavor, ForgeReply, PullRequestOrigin, app_key, http, sha};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use stator_git::forge::github_app::BlockingTokenProvider;
use stator_git::forge::{AnyForge, ForgeApi as _, ForgeError, StatusState};
use stator_git::source::credentials::{AppInstallation, GithubApp, TokenProvider as _};

fn app(fake: &FakeForgeHost) -> AnyForge {
    let secret = [("githubAppID", "4711"), ("githubAppInstallationID", "5"), ("githubAppPrivateKey", app_key())];
    fake.client_with(&secret).unwrap()
}

fn minted(fake: &FakeForgeHost) -> Vec<Value> {
    let log = fake.log().into_iter().filter(|seen| seen.place().ends_with("access_tokens"));
    log.map(|seen| seen.body.unwrap()).collect()
}

#[tokio::test]
async fn one_token_serves_for_everything_and_may_do_little() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let client = app(&fake);
    let wanted = status("stator/prod", StatusState::Success, "fine");
    let commits: Vec<String> = (1..10).map(sha).collect();
    let all = commits.iter().map(|commit| client.set_status(commit, &wanted));
    for done in futures_util::future::join_all(all).await {
        done.unwrap();
    }
    let permissions = json!({"contents": "read", "statuses": "write", "pull_requests": "write"});
    assert_eq!(minted(&fake), [json!({"repositories": ["models"], "permissions": permissions})]);
    fake.assert_no_faults();
}

#[tokio::test]
async fn a_token_is_replaced_some_minutes_before_it_ends_and_when_it_is_revoked() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let client = app(&fake);
    let wanted = status("stator/prod", StatusState::Success, "fine");
    // Less than five minutes: as good as over.
    fake.state().holds = 299;
    client.set_status(&sha(1), &wanted).await.unwrap();
    fake.state().holds = 3600;
    client.set_status(&sha(2), &wanted).await.unwrap();
    client.set_status(&sha(3), &wanted).await.unwrap();
    assert_eq!(minted(&fake).len(), 2);
    fake.state().installed.iter_mut().for_each(|(_, good)| *good = false);
    client.set_status(&sha(4), &wanted).await.unwrap();
    assert_eq!(minted(&fake).len(), 3);
    // A new one that is not known either is nothing that a third would mend.
    fake.next(ForgeReply::message(401, "Bad credentials"));
    let before = fake.log().len();
    fake.state().installed.iter_mut().for_each(|(_, good)| *good = false);
    client.set_status(&sha(5), &wanted).await.unwrap();
    assert_eq!(fake.log().len() - before, 3, "refused, minted, asked again");
    fake.assert_no_faults();
}

#[tokio::test]
async fn clocks_that_are_hours_apart_still_make_a_claim() {
    for ahead in [-3 * 3600, 3 * 3600, 400 * 86_400] {
        let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
        fake.state().ahead = ahead;
        let client = app(&fake);
        let wanted = status("stator/prod", StatusState::Success, "fine");
        client.set_status(&sha(1), &wanted).await.unwrap();
        client.set_status(&sha(2), &wanted).await.unwrap();
        // The token's hour is counted from when it came.
        let times = fake.log().iter().filter(|seen| seen.place().ends_with("access_tokens")).count();
        assert_eq!(times, 2, "{ahead}: one refused by the clock, one taken");
        fake.assert_no_faults();
    }
}

#[tokio::test]
async fn an_app_is_found_by_who_installed_it_and_comments_by_its_name() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let secret = [("githubAppID", "4711"), ("githubAppInstallationOwner", "ada"), ("githubAppPrivateKey", app_key())];
    let client = fake.client_with(&secret).unwrap();
    fake.state().open(7, "Bigger", PullRequestOrigin::Here);
    let comment = client.create_comment(7, "one").await.unwrap();
    fake.state().notes[0].author = "Stator-Bot[bot]".to_owned();
    fake.state().said(7, "stator-bot", "a person of the same name");
    assert_eq!(client.list_own_comments(7).await.unwrap(), [comment]);
    fake.assert_no_faults();
}

#[tokio::test]
async fn an_app_that_github_does_not_know_is_said_so_without_its_claim() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let secret = [("githubAppID", "1"), ("githubAppInstallationID", "5"), ("githubAppPrivateKey", app_key())];
    let client = fake.client_with(&secret).unwrap();
    let wanted = status("stator/prod", StatusState::Success, "fine");
    let refused = client.set_status(&sha(1), &wanted).await.unwrap_err();
    assert!(matches!(refused, ForgeError::Unauthorized { .. }), "{refused:?}");
    assert_eq!(fake.log().len(), 1);
}

#[tokio::test]
async fn wrong_keys_name_their_field() {
    let fake = FakeForgeHost::start(ForgeFlavor::Github).await;
    let gitea = FakeForgeHost::start(ForgeFlavor::Gitea).await;
    let whole = [("githubAppID", "4711"), ("githubAppInstallationID", "5"), ("githubAppPrivateKey", app_key())];
    let mut all = Vec::new();
    for (fake, secret) in [
        (&fake, vec![]),
        (&fake, vec![("token", "")]),
        (&fake, vec![("token", "two\nlines")]),
        (
            &fake,
            vec![
                ("githubAppID", "4711"),
                ("githubAppInstallationID", "5"),
                ("githubAppPrivateKey", "-----BEGIN X-----"),
            ],
        ),
        (&fake, vec![("token", "t"), whole[0], whole[1], whole[2]]),
        (&gitea, whole.to_vec()),
    ] {
        let Err(refused) = fake.client_with(&secret) else { panic!("{:?} is taken", secret.len()) };
        all.push(format!("{refused}; {}", refused.help()));
    }
    insta::assert_snapshot!(all.join("\n"), @"
    `token` is not in the secret `forge`; put the token of an account at the git host there
    `token` is not in the secret `forge`; put the token of an account at the git host there
    `token` of the secret that `spec.forge.secretRef` names contains an invalid character, such as a line break; put only the token there, as the git host showed it
    `spec.forge.secretRef` secret `forge`: `githubAppPrivateKey` is not a private key in PEM without a passphrase; it begins with `-----BEGIN PRIVATE KEY-----` or `-----BEGIN RSA PRIVATE KEY-----`; copy the whole file; put all keys of the App there, or a `token` instead
    `token` is set together with the keys of a GitHub App; keep one of the two in the secret
    `githubAppID` is only for GitHub, but `spec.forge.type` is another host; put a `token` of this host there
    ");
}

/// The same tokens, for the thread that fetches.
#[test]
fn a_fetch_may_read_and_nothing_else() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeForgeHost::start(ForgeFlavor::Github));
    let app = GithubApp {
        id: "4711".to_owned(),
        installation: AppInstallation::Id(5),
        key: SecretString::from(app_key()),
        api: Some(fake.api()),
    };
    let tokens =
        BlockingTokenProvider::for_fetching(&app, &fake.repository(), &http(), runtime.handle().clone()).unwrap();
    let first = tokens.token().unwrap();
    assert_eq!(first.expose_secret(), tokens.token().unwrap().expose_secret());
    assert_eq!(minted(&fake), [json!({"repositories": ["models"], "permissions": {"contents": "read"}})]);
    fake.assert_no_faults();
}
