use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

#[path = "../../../../../tests/support/mutations.rs"]
mod mutations;

const SECRET: &str = "It's a Secret to Everybody";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

fn secrets(secrets: &[&str]) -> Vec<SecretString> {
    secrets.iter().map(|secret| SecretString::from(*secret)).collect()
}

fn noon() -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_614_265_330).unwrap()
}

/// A body as the host signs and sends it.
fn sent(host: ForgeKind, event: &str, body: &serde_json::Value) -> Result<WebhookDelivery, WebhookError> {
    let body = serde_json::to_vec(body).unwrap();
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let hex = hex::encode(aws_lc_rs::hmac::sign(&key, &body));
    let prefixed = format!("sha256={hex}");
    let sent = match host {
        ForgeKind::Github => {
            headers(&[("x-github-event", event), ("x-github-delivery", "one"), ("x-hub-signature-256", &prefixed)])
        }
        ForgeKind::Gitea => headers(&[
            ("x-gitea-event", event),
            // What Gitea sends along for receivers that know GitHub only.
            ("x-github-event", event),
            ("x-gitea-delivery", "one"),
            ("x-gitea-signature", &hex),
        ]),
        ForgeKind::Gitlab => headers(&[("x-gitlab-token", SECRET), ("idempotency-key", "one")]),
        ForgeKind::Bitbucket => {
            headers(&[("x-event-key", event), ("x-request-uuid", "one"), ("x-hub-signature", &prefixed)])
        }
        // `stator:It's a Secret to Everybody`
        ForgeKind::Azure => headers(&[("authorization", "Basic c3RhdG9yOkl0J3MgYSBTZWNyZXQgdG8gRXZlcnlib2R5")]),
    };
    receive(host, &secrets(&[SECRET]), &sent, &body, noon())
}

fn described(host: ForgeKind, event: &str, body: &serde_json::Value) -> String {
    let delivery = sent(host, event, body).unwrap();
    assert_eq!(delivery.id.as_deref(), Some("one"));
    let hints = delivery.hints.iter().map(|hint| match hint {
        WebhookHint::Ref { name } => name.clone(),
        WebhookHint::PullRequest { number } => format!("#{number}"),
    });
    hints.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_host_tells_of_pushes_and_pull_requests() {
    let push = json!({"ref": "refs/heads/main", "after": "0000", "repository": {"clone_url": "https://evil.example"}});
    let pull = json!({"action": "synchronize", "number": 7, "pull_request": {"head": {"repo": null}}});
    for host in [ForgeKind::Github, ForgeKind::Gitea] {
        assert_eq!(described(host, "push", &push), "refs/heads/main");
        assert_eq!(described(host, "pull_request", &pull), "#7");
    }
    assert_eq!(described(ForgeKind::Gitea, "pull_request_sync", &pull), "#7");

    let push = json!({"object_kind": "tag_push", "ref": "refs/tags/v1", "commits": []});
    let merge = json!({"object_kind": "merge_request", "object_attributes": {"iid": 3, "action": "update"}});
    assert_eq!(described(ForgeKind::Gitlab, "", &push), "refs/tags/v1");
    assert_eq!(described(ForgeKind::Gitlab, "", &merge), "#3");

    let branch = |name: &str| json!({"type": "branch", "name": name, "target": {"hash": "0000"}});
    let push = json!({"push": {"changes": [
        {"old": branch("old"), "new": null}, {"old": null, "new": branch("new")},
        {"new": {"type": "tag", "name": "v1"}}, {"old": null, "new": null},
    ]}});
    let pull = json!({"pullrequest": {"id": 4, "source": {"commit": {"hash": "315f27602bd8"}}}});
    assert_eq!(described(ForgeKind::Bitbucket, "repo:push", &push), "refs/heads/new refs/heads/old refs/tags/v1");
    assert_eq!(described(ForgeKind::Bitbucket, "pullrequest:updated", &pull), "#4");
    let push = json!({"changes": [{"refId": "refs/heads/main", "type": "DELETE"}, {"refId": "refs/heads/b"}]});
    let pull = json!({"eventKey": "pr:from_ref_updated", "pullRequest": {"id": 5, "version": 2}});
    assert_eq!(described(ForgeKind::Bitbucket, "repo:refs_changed", &push), "refs/heads/b refs/heads/main");
    assert_eq!(described(ForgeKind::Bitbucket, "pr:from_ref_updated", &pull), "#5");

    let push = json!({"id": "one", "eventType": "git.push", "resource": {"refUpdates": [{"name": "refs/heads/main"}]}});
    let pull = json!({"id": "one", "eventType": "git.pullrequest.updated", "resource": {"pullRequestId": 6}});
    assert_eq!(described(ForgeKind::Azure, "", &push), "refs/heads/main");
    assert_eq!(described(ForgeKind::Azure, "", &pull), "#6");
}

#[test]
fn pings_and_events_of_no_interest_are_genuine_and_say_nothing() {
    assert_eq!(described(ForgeKind::Github, "ping", &json!({"zen": "Keep it logically awesome.", "hook_id": 1})), "");
    assert_eq!(described(ForgeKind::Gitea, "issues", &json!({})), "");
    assert_eq!(described(ForgeKind::Gitlab, "", &json!({"object_kind": "note"})), "");
    assert_eq!(described(ForgeKind::Bitbucket, "diagnostics:ping", &json!({"test": true})), "");
    assert_eq!(
        described(ForgeKind::Azure, "", &json!({"id": "one", "eventType": "build.complete", "resource": null})),
        ""
    );
    // Not a branch, not a tag.
    assert_eq!(described(ForgeKind::Github, "push", &json!({"ref": "refs/pull/7/head"})), "");
    assert_eq!(described(ForgeKind::Github, "push", &json!({"ref": "--upload-pack=touch /tmp/x"})), "");
}

/// GitHub's own example: docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation".
#[test]
fn the_signature_is_what_github_documents() {
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let given = headers(&[("x-github-event", "ping"), ("x-hub-signature-256", signature)]);
    let verdict = |body: &[u8]| receive(ForgeKind::Github, &secrets(&[SECRET]), &given, body, noon());
    assert_eq!(verdict(b"Hello, World!").unwrap().hints, []);
    assert_eq!(verdict(b"Hello, World?"), Err(WebhookError::Forged));
}

/// The example of the Standard Webhooks specification, which GitLab's signing tokens follow.
#[test]
fn the_signed_time_counts_where_there_is_one() {
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = br#"{"test": 2432232314}"#;
    let given = |signature: &str| {
        headers(&[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", signature),
            // A plain token beside a signature is not looked at.
            ("x-gitlab-token", key),
        ])
    };
    let good = given("v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let at = |seconds: i64| {
        let now = noon() + jiff::SignedDuration::from_secs(seconds);
        receive(ForgeKind::Gitlab, &secrets(&["other", key]), &good, body, now).map(|delivery| delivery.id)
    };
    assert_eq!(at(0), Ok(Some("msg_p5jXN8AQM9LWM0D4loKWxJek".into())));
    assert_eq!((at(299).is_ok(), at(301), at(-301)), (true, Err(WebhookError::Stale), Err(WebhookError::Stale)));
    let forged = given("v1,h0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(receive(ForgeKind::Gitlab, &secrets(&[key]), &forged, body, noon()), Err(WebhookError::Forged));
}

#[test]
fn without_a_secret_nothing_is_believed() {
    let signed = headers(&[("x-gitea-event", "push"), ("x-gitea-signature", ""), ("x-gitlab-token", "")]);
    for host in [ForgeKind::Github, ForgeKind::Gitlab, ForgeKind::Gitea, ForgeKind::Bitbucket, ForgeKind::Azure] {
        for none in [secrets(&[]), secrets(&["", ""])] {
            assert_eq!(receive(host, &none, &signed, b"{}", noon()), Err(WebhookError::NoSecret), "{host:?}");
        }
        assert_eq!(receive(host, &secrets(&["s"]), &signed, b"{}", noon()), Err(WebhookError::Unsigned), "{host:?}");
    }
}

#[test]
fn another_hosts_signature_is_none() {
    let body = b"{}";
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let hex = hex::encode(aws_lc_rs::hmac::sign(&key, body));
    // Whoever knows that a plain token would be compared for GitLab gains nothing from sending one to GitHub.
    let given = headers(&[("x-gitlab-token", SECRET), ("x-gitea-signature", &hex), ("x-hub-signature", &hex)]);
    assert_eq!(receive(ForgeKind::Github, &secrets(&[SECRET]), &given, body, noon()), Err(WebhookError::Unsigned));
    assert_eq!(receive(ForgeKind::Bitbucket, &secrets(&[SECRET]), &given, body, noon()), Err(WebhookError::Unsigned));
}

#[test]
fn what_is_genuine_and_broken_is_told_apart_from_what_is_forged() {
    let faulty = [
        (ForgeKind::Github, "push", json!({"ref": 7})),
        (ForgeKind::Github, "pull_request", json!({"number": -1})),
        (ForgeKind::Gitea, "push", json!([])),
        (ForgeKind::Gitlab, "", json!({"object_kind": "push"})),
        (ForgeKind::Bitbucket, "repo:push", json!({"push": null})),
        (ForgeKind::Azure, "", json!({"eventType": "git.pullrequest.created", "resource": {}})),
        (ForgeKind::Azure, "", json!({"eventType": "git.push", "resource": {"refUpdates": [null]}})),
    ];
    for (host, event, body) in faulty {
        assert_eq!(sent(host, event, &body), Err(WebhookError::Unreadable), "{host:?} {body}");
    }
    let large = vec![b' '; MAX_BODY_BYTES + 1];
    let verdict = receive(ForgeKind::Github, &secrets(&[SECRET]), &HeaderMap::new(), &large, noon());
    assert_eq!(verdict, Err(WebhookError::TooLarge));
}

fn any_host() -> impl Strategy<Value = ForgeKind> {
    prop::sample::select(vec![
        ForgeKind::Github,
        ForgeKind::Gitlab,
        ForgeKind::Gitea,
        ForgeKind::Bitbucket,
        ForgeKind::Azure,
    ])
}

/// Words that steer the readers, so that random bodies get past the first fork.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let words = vec![
        "ref",
        "number",
        "object_kind",
        "push",
        "merge_request",
        "object_attributes",
        "iid",
        "changes",
        "new",
        "old",
        "type",
        "branch",
        "name",
        "refId",
        "pullRequest",
        "pullrequest",
        "id",
        "eventType",
        "git.push",
        "resource",
        "refUpdates",
        "git.pullrequest.updated",
        "pullRequestId",
        "refs/heads/main",
        "refs/tags/",
    ];
    let word = prop::sample::select(words);
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<i64>().prop_map(|n| json!(n)),
        word.clone().prop_map(|w| json!(w)),
        ".{0,8}".prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn no_body_is_too_strange(host in any_host(), event in "[a-z:_]{0,12}|push|pull_request|repo:push|pr:x", body in any_json()) {
        match sent(host, &event, &body) {
            Ok(delivery) => prop_assert!(delivery.hints.is_sorted()),
            Err(refusal) => prop_assert_eq!(refusal, WebhookError::Unreadable),
        }
    }

    #[test]
    fn no_signature_but_the_right_one_fits(host in any_host(), name in "[a-z0-9-]{1,20}", value in "[ -~]{0,80}", body: Vec<u8>) {
        let mut given = HeaderMap::new();
        for header in ["x-hub-signature-256", "x-hub-signature", "x-gitea-signature", "x-gitlab-token", "authorization",
                       "webhook-signature", "webhook-id", "webhook-timestamp", name.as_str()] {
            let (name, value) = (HeaderName::from_bytes(header.as_bytes()), HeaderValue::from_str(&value));
            given.insert(name.unwrap(), value.unwrap());
        }
        let verdict = receive(host, &secrets(&[SECRET]), &given, &body, noon());
        prop_assert!(matches!(verdict, Err(WebhookError::Unsigned | WebhookError::Forged)), "{:?}", verdict);
    }
}

/// A delivery as a host documents it: all kinds of events.
#[derive(serde::Deserialize)]
struct DocumentedDelivery {
    event: String,
    payload: serde_json::Value,
}

fn documented_deliveries(file: &str) -> Vec<DocumentedDelivery> {
    let path = format!("{}/../../tests/data/forge/{file}", env!("CARGO_MANIFEST_DIR"));
    let deliveries = flate2::read::GzDecoder::new(fs_err::File::open(path).unwrap());
    serde_json::from_reader(std::io::BufReader::new(deliveries)).unwrap()
}

/// Signs a body as GitHub does.
fn sign_for_github(body: &[u8]) -> String {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("sha256={}", hex::encode(aws_lc_rs::hmac::sign(&key, body)))
}

/// A signing token, and what it signs with.
const SIGNING_TOKEN: &str = "whsec_SXQncyBhIFNlY3JldCB0byBFdmVyeWJvZHk=";

/// Signs a body as GitLab does with a signing token.
fn sign_for_gitlab(body: &[u8]) -> String {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [b"one.1614265330.", body].concat();
    format!("v1,{}", BASE64.encode(aws_lc_rs::hmac::sign(&key, &signed)))
}

#[test]
fn every_documented_delivery_is_taken_and_no_mutation_of_it() {
    let github = hold_against_mutations(ForgeKind::Github, "github-webhooks.json.gz", SECRET, sign_for_github);
    insta::assert_debug_snapshot!(github, @r#"
    {
        "nothing": 146,
        "pull_request": 14,
        "push": 7,
    }
    "#);
    let gitlab = hold_against_mutations(ForgeKind::Gitlab, "gitlab-webhooks.json.gz", SIGNING_TOKEN, sign_for_gitlab);
    insta::assert_debug_snapshot!(gitlab, @r#"
    {
        "merge_request": 2,
        "nothing": 16,
        "push": 1,
        "tag_push": 1,
    }
    "#);
}

/// Every delivery is taken, and no mutation of it. Gives how many tell of what.
fn hold_against_mutations(
    host: ForgeKind,
    file: &str,
    secret: &str,
    sign: fn(&[u8]) -> String,
) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::<String, usize>::new();
    for DocumentedDelivery { event, payload } in documented_deliveries(file) {
        let body = serde_json::to_vec(&payload).unwrap();
        let given = |signature: &str| match host {
            ForgeKind::Gitlab => {
                headers(&[("webhook-id", "one"), ("webhook-timestamp", "1614265330"), ("webhook-signature", signature)])
            }
            ForgeKind::Github | ForgeKind::Gitea | ForgeKind::Bitbucket | ForgeKind::Azure => {
                headers(&[("x-github-event", &event), ("x-github-delivery", "one"), ("x-hub-signature-256", signature)])
            }
        };
        let verdict = |headers: &HeaderMap, body: &[u8]| receive(host, &secrets(&[secret]), headers, body, noon());
        let sound = given(&sign(&body));
        let hints = verdict(&sound, &body).unwrap_or_else(|error| panic!("{event}: {error}")).hints;
        let expected = match event.as_str() {
            "push" | "tag_push" => vec![WebhookHint::Ref { name: payload["ref"].as_str().unwrap().to_owned() }],
            "pull_request" => {
                vec![WebhookHint::PullRequest { number: payload["pull_request"]["number"].as_u64().unwrap() }]
            }
            "merge_request" => {
                vec![WebhookHint::PullRequest { number: payload["object_attributes"]["iid"].as_u64().unwrap() }]
            }
            _ => Vec::new(),
        };
        assert_eq!(hints, expected, "{event}");
        *told.entry(if hints.is_empty() { "nothing".to_owned() } else { event.clone() }).or_default() += 1;

        for (what, changed) in mutations::mutated_bodies(&body) {
            assert_eq!(verdict(&sound, &changed), Err(WebhookError::Forged), "{event}: {what}");
        }
        let prefix = if host == ForgeKind::Gitlab { "v1," } else { "sha256=" };
        for (what, changed) in mutations::mutated_signatures(prefix, &sign(&body), &sign(b"{}")) {
            let refusal = verdict(&given(&changed), &body);
            assert!(
                matches!(refusal, Err(WebhookError::Forged | WebhookError::Unsigned)),
                "{event}: signature {what}: {refusal:?}"
            );
        }
        // What is signed and cut short is refused, and stops nothing.
        for end in (0..body.len()).step_by(body.len() / 10 + 1) {
            let cut = &body[..end];
            let read = verdict(&given(&sign(cut)), cut);
            let says_nothing = expected.is_empty() && host == ForgeKind::Github;
            assert!(read == Err(WebhookError::Unreadable) || says_nothing, "{event} until {end}: {read:?}");
        }
    }
    told
}
