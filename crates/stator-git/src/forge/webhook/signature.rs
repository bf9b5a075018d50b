//! Whether the git host sent a delivery: each host signs, or shows what it knows, in its own way.

use super::{Refusal, text};
use crate::source::model_source::ForgeKind;
use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

/// How far a signed time may be from ours, in seconds: what the Standard Webhooks specification recommends.
const TOLERANCE: i64 = 300;

pub(super) fn check(
    host: ForgeKind,
    secrets: &[SecretString],
    headers: &HeaderMap,
    body: &[u8],
    now: jiff::Timestamp,
) -> Result<(), Refusal> {
    let secrets: Vec<&str> =
        secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()).collect();
    if secrets.is_empty() {
        return Err(Refusal::NoSecret);
    }
    match host {
        // The older `X-Hub-Signature` of GitHub and Gitea is SHA-1, and is not looked at.
        ForgeKind::Github => signed(&secrets, text(headers, "x-hub-signature-256"), "sha256=", body),
        ForgeKind::Gitea => signed(&secrets, text(headers, "x-gitea-signature"), "", body),
        // Both Bitbuckets put SHA-256 into the header that elsewhere holds SHA-1.
        ForgeKind::Bitbucket => signed(&secrets, text(headers, "x-hub-signature"), "sha256=", body),
        ForgeKind::Gitlab => match text(headers, "webhook-signature") {
            Some(signatures) => standard(&secrets, signatures, headers, body, now),
            None => shown(&secrets, text(headers, "x-gitlab-token").map(str::as_bytes)),
        },
        ForgeKind::Azure => {
            let basic = text(headers, "authorization").and_then(|value| value.strip_prefix("Basic "));
            let pair = basic.and_then(|value| STANDARD.decode(value.trim()).ok());
            // `user:password`; Azure lets the user be anything, so the password alone is the secret.
            let password = pair
                .as_deref()
                .and_then(|pair| pair.iter().position(|byte| *byte == b':').and_then(|colon| pair.get(colon + 1..)));
            shown(&secrets, password)
        }
    }
}

/// HMAC-SHA256 of the body, in hex.
fn signed(secrets: &[&str], signature: Option<&str>, prefix: &str, body: &[u8]) -> Result<(), Refusal> {
    let signature = signature.and_then(|value| value.strip_prefix(prefix)).ok_or(Refusal::Unsigned)?;
    let signature = hex::decode(signature).map_err(|_| Refusal::Unsigned)?;
    any(secrets, |secret| verifies(secret.as_bytes(), body, &signature))
}

/// The Standard Webhooks scheme, which newer GitLab signs with: HMAC-SHA256 of `id.time.body`, in base64, one signature
/// for each key while keys change.
fn standard(
    secrets: &[&str],
    signatures: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: jiff::Timestamp,
) -> Result<(), Refusal> {
    let (Some(id), Some(time)) = (text(headers, "webhook-id"), text(headers, "webhook-timestamp")) else {
        return Err(Refusal::Unsigned);
    };
    let seconds: i64 = time.parse().map_err(|_| Refusal::Unsigned)?;
    let content = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    let given: Vec<Vec<u8>> =
        signatures.split(' ').filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok()).collect();
    any(secrets, |secret| {
        let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok());
        let key = key.as_deref().unwrap_or(secret.as_bytes());
        given.iter().any(|signature| verifies(key, &content, signature))
    })?;
    // Said only to who knows the key.
    if seconds.abs_diff(now.as_second()) > TOLERANCE.unsigned_abs() {
        return Err(Refusal::Stale);
    }
    Ok(())
}

/// The secret itself, sent along. Digests are compared, so that not even its length shows in the time taken.
fn shown(secrets: &[&str], given: Option<&[u8]>) -> Result<(), Refusal> {
    let given = digest::digest(&digest::SHA256, given.ok_or(Refusal::Unsigned)?);
    any(secrets, |secret| {
        let wanted = digest::digest(&digest::SHA256, secret.as_bytes());
        constant_time::verify_slices_are_equal(wanted.as_ref(), given.as_ref()).is_ok()
    })
}

fn verifies(key: &[u8], content: &[u8], signature: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), content, signature).is_ok()
}

fn any(secrets: &[&str], fits: impl Fn(&str) -> bool) -> Result<(), Refusal> {
    if secrets.iter().any(|secret| fits(secret)) { Ok(()) } else { Err(Refusal::Forged) }
}
