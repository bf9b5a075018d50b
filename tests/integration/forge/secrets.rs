//! The token is in no message, no log and no debugging output, whatever a host does.

use super::status;
use crate::forge_fake::{ALL, CANARY, FakeForgeHost, ForgeFlavor, ForgeReply, app_key, sha};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stator_git::forge::{ForgeApi as _, StatusState};
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn assert_hidden(text: &str, what: &str) {
    let halves = [CANARY, &STANDARD.encode(format!(":{CANARY}")), &STANDARD.encode(format!("ada:{CANARY}"))];
    for secret in halves {
        assert!(!text.contains(secret), "the token is in {what}: {text}");
    }
}

/// In a process of its own: what a thread logs depends on who else listens in the same process.
#[test]
fn a_host_that_repeats_the_token_does_not_get_it_into_a_message() {
    const ALONE: &str = "STATOR_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(repeat_the_token());
        return;
    }
    let name = "forge::secrets::a_host_that_repeats_the_token_does_not_get_it_into_a_message";
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&alone.stderr));
}

async fn repeat_the_token() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let guard = tracing::subscriber::set_default(subscriber.finish());
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let mut clients = vec![(fake.client(), CANARY)];
        if matches!(make, ForgeFlavor::BitbucketCloud | ForgeFlavor::BitbucketDataCenter) {
            clients.push((fake.client_with(&[("username", "ada"), ("token", CANARY)]).unwrap(), CANARY));
        }
        if make == ForgeFlavor::Github {
            let secret =
                [("githubAppID", "4711"), ("githubAppInstallationID", "5"), ("githubAppPrivateKey", app_key())];
            let app = fake.client_with(&secret).unwrap();
            // So that there is a token to repeat.
            app.set_status(&sha(1), &status("stator/prod", StatusState::Success, "fine")).await.unwrap();
            // It never knew the other token; its own end in the same.
            clients.push((app, ""));
        }
        for (client, token) in &clients {
            for code in [400, 401, 403, 404, 409, 410, 422, 423, 429, 500, 503, 200, 302] {
                // Once, so that what it was asked with is this client's.
                let _ = client.pull_request(7).await;
                let said = fake.log().last().map(|seen| seen.header("authorization").to_owned()).unwrap_or_default();
                let minted = fake.state().installed.last().map(|(token, _)| token.clone()).unwrap_or_default();
                let known = if token.is_empty() { minted.clone() } else { (*token).to_owned() };
                let said = format!("Bad: {token} {said} {minted}");
                for reply in [
                    ForgeReply::message(code, &said),
                    ForgeReply::page(code, &said),
                    ForgeReply { status: code, headers: Vec::new(), body: said.clone().into_bytes() },
                    ForgeReply::empty(code).with("location", format!("https://{known}.example.com/{known}")),
                ] {
                    fake.next(reply);
                    if let Err(refused) = client.pull_request(7).await {
                        assert_hidden(&format!("{refused} {refused:?} {}", refused.help()), "an error");
                    }
                }
            }
            assert_hidden(&client.describe(), "the description");
        }
        // Nor is it in an address, where proxies would keep it.
        for seen in fake.log() {
            assert_hidden(&format!("{} {:?} {:?}", seen.place(), seen.query, seen.body), "a request's address or body");
        }
    }
    drop(guard);
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(!logged.is_empty(), "nothing was logged, so nothing was looked at");
    assert_hidden(&logged, "the log");
}
