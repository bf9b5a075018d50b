//! What a provider may say, and what may come back from it.

use super::*;
use serde_json::json;

fn provider() -> OidcProvider {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let settings = OidcSettings {
        issuer: "https://id.example.com/realms/a".parse().unwrap(),
        client: "stator".to_owned(),
        secret: None,
        roots: None,
        username_claim: "email".to_owned(),
        username_prefix: String::new(),
        groups_claim: Some("groups".to_owned()),
        groups_prefix: "oidc:".to_owned(),
        redirect: "https://stator.example.com/sign-in/callback".parse().unwrap(),
    };
    OidcProvider::new(settings).unwrap()
}

fn now() -> Timestamp {
    "2026-11-24T12:00:00Z".parse().unwrap()
}

fn claims(change: impl FnOnce(&mut Value)) -> Map<String, Value> {
    let mut claims = json!({
        "iss": "https://id.example.com/realms/a", "aud": "stator", "nonce": "n",
        "exp": now().as_second() + 300, "iat": now().as_second(),
        "email": "alice@example.com", "email_verified": true, "groups": ["search", "system:masters"],
    });
    change(&mut claims);
    claims.as_object().unwrap().clone()
}

#[test]
fn a_token_is_for_these_pages_this_sign_in_and_this_moment() {
    let provider = provider();
    let check = |change: fn(&mut Value)| provider.check_claims(&claims(change), "n", now());
    assert_eq!(check(|_| {}), Ok(()));
    assert!(check(|one| one["aud"] = json!(["stator", "other"])).is_err());
    assert_eq!(check(|one| (one["aud"], one["azp"]) = (json!(["stator", "other"]), json!("stator"))), Ok(()));
    let faults: Vec<String> = [
        check(|one| one["iss"] = json!("https://id.example.com/realms/b")),
        check(|one| one["aud"] = json!("grafana")),
        check(|one| one["azp"] = json!("grafana")),
        check(|one| one["exp"] = json!(now().as_second() - 61)),
        check(|one| one["iat"] = json!(now().as_second() + 61)),
        check(|one| one["nonce"] = json!("m")),
        check(|one| drop(one.as_object_mut().unwrap().remove("exp"))),
    ]
    .into_iter()
    .map(|one| one.unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(faults.join("\n"), @"
    The provider's ID token is not valid: `iss` is another provider.
    The provider's ID token is not valid: `aud` is not for these pages.
    The provider's ID token is not valid: `azp` is not these pages.
    The provider's ID token is not valid: `exp` is over.
    The provider's ID token is not valid: `iat` is in the future.
    The provider's ID token is not valid: `nonce` is of another sign-in.
    The provider's ID token is not valid: `exp` is over.
    ");
}

#[test]
fn nobody_becomes_a_user_that_kubernetes_keeps_for_itself() {
    let provider = provider();
    let alice = provider.identify(&claims(|_| {})).unwrap();
    let as_cluster = alice.impersonated();
    assert_eq!(
        (as_cluster.user.as_str(), as_cluster.groups),
        ("alice@example.com", vec!["oidc:search".to_owned(), "oidc:system:masters".to_owned()])
    );
    let plain = OidcProvider {
        settings: OidcSettings { groups_prefix: String::new(), ..provider.settings.clone() },
        ..self::provider()
    };
    assert_eq!(plain.identify(&claims(|_| {})).unwrap().impersonated().groups, ["search"]);
    let refused = |change: fn(&mut Value)| provider.identify(&claims(change)).unwrap_err().to_string();
    assert!(refused(|one| one["email"] = json!("system:admin")).contains("system:"));
    assert!(refused(|one| one["email_verified"] = json!(false)).contains("not verified"));
    assert!(refused(|one| one["email"] = json!(7)).contains("no claim `email`"));
}

#[test]
fn a_sign_in_is_bound_to_its_browser_for_ten_minutes() {
    let later = |seconds: i64| Timestamp::from_second(now().as_second() + seconds).unwrap();
    let one = SignInCookie::new("/models/prod/llama?a=b", now()).unwrap();
    let other = SignInCookie::new("/models/prod/llama?a=b", now()).unwrap();
    let back = SignInCookie::parse(&one.text, later(600)).unwrap();
    assert_eq!((back.to.as_str(), back.derived("state")), ("/models/prod/llama?a=b", one.derived("state")));
    assert_ne!(one.derived("state"), other.derived("state"));
    assert_ne!(one.derived("state"), one.derived("nonce"));
    assert!(
        SignInCookie::parse(&one.text, later(601)).is_none() && SignInCookie::parse(&one.text, later(-1)).is_none()
    );
    for odd in ["", "a.b", "a.1.%", "..", "a.99999999999999999999.AA"] {
        assert!(SignInCookie::parse(odd, now()).is_none(), "{odd}");
    }
}

#[test]
fn tokens_of_any_shape_are_read() {
    for odd in ["", "a", "a.b", "a.%.c", "a.W10.c"] {
        assert!(read_claims(odd).is_err(), "{odd}");
    }
    let own = format!("h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":"1"}"#));
    assert_eq!(read_claims(&own).unwrap()["sub"], "1");
}
