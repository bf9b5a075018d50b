//! Whether the git host sent a delivery: each host signs, or shows what it knows, in its own way.

use super::delivery::{WebhookError, header_text};
use crate::source::model_source::ForgeKind;
use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

/// How far a signed time may be from ours, in seconds: what the Standard Webhooks specification recommends.
const TIMESTAMP_TOLERANCE_SECONDS: i64 = 300;

pub(super) fn verify_delivery(
    host: ForgeKind,
    secrets: &[SecretString],
    headers: &HeaderMap,
    body: &[u8],
    now: jiff::Timestamp,
) -> Result<(), WebhookError> {
    let secrets: Vec<&str> =
        secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()).collect();
    if secrets.is_empty() {
        return Err(WebhookError::NoSecret);
    }
    match host {
        // The older `X-Hub-Signature` of GitHub and Gitea is SHA-1, and is not looked at.
        ForgeKind::Github => check_hmac(&secrets, header_text(headers, "x-hub-signature-256"), "sha256=", body),
        ForgeKind::Gitea => check_hmac(&secrets, header_text(headers, "x-gitea-signature"), "", body),
        // Both Bitbuckets put SHA-256 into the header that elsewhere holds SHA-1.
        ForgeKind::Bitbucket => check_hmac(&secrets, header_text(headers, "x-hub-signature"), "sha256=", body),
        ForgeKind::Gitlab => match header_text(headers, "webhook-signature") {
            Some(signatures) => check_standard_webhook(&secrets, signatures, headers, body, now),
            None => check_shared_secret(&secrets, header_text(headers, "x-gitlab-token").map(str::as_bytes)),
        },
        ForgeKind::Azure => {
            let basic = header_text(headers, "authorization").and_then(|value| value.strip_prefix("Basic "));
            let pair = basic.and_then(|value| STANDARD.decode(value.trim()).ok());
            // `user:password`; Azure lets the user be anything, so the password alone is the secret.
            let password = pair
                .as_deref()
                .and_then(|pair| pair.iter().position(|byte| *byte == b':').and_then(|colon| pair.get(colon + 1..)));
            check_shared_secret(&secrets, password)
        }
    }
}

/// HMAC-SHA256 of the body, in hex.
fn check_hmac(secrets: &[&str], signature: Option<&str>, prefix: &str, body: &[u8]) -> Result<(), WebhookError> {
    let signature = signature.and_then(|value| value.strip_prefix(prefix)).ok_or(WebhookError::Unsigned)?;
    let signature = hex::decode(signature).map_err(|_| WebhookError::Unsigned)?;
    any_secret_fits(secrets, |secret| verify_hmac(secret.as_bytes(), body, &signature))
}

/// The Standard Webhooks scheme, which newer GitLab signs with: HMAC-SHA256 of `id.time.body`, in base64, one signature
/// for each key while keys change.
fn check_standard_webhook(
    secrets: &[&str],
    signatures: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: jiff::Timestamp,
) -> Result<(), WebhookError> {
    let (Some(id), Some(time)) = (header_text(headers, "webhook-id"), header_text(headers, "webhook-timestamp")) else {
        return Err(WebhookError::Unsigned);
    };
    let seconds: i64 = time.parse().map_err(|_| WebhookError::Unsigned)?;
    let content = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    let given: Vec<Vec<u8>> =
        signatures.split(' ').filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok()).collect();
    any_secret_fits(secrets, |secret| {
        let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok());
        let key = key.as_deref().unwrap_or(secret.as_bytes());
        given.iter().any(|signature| verify_hmac(key, &content, signature))
    })?;
    // Said only to who knows the key.
    if seconds.abs_diff(now.as_second()) > TIMESTAMP_TOLERANCE_SECONDS.unsigned_abs() {
        return Err(WebhookError::Stale);
    }
    Ok(())
}

/// The secret itself, sent along. Digests are compared, so that not even its length shows in the time taken.
fn check_shared_secret(secrets: &[&str], given: Option<&[u8]>) -> Result<(), WebhookError> {
    let given = digest::digest(&digest::SHA256, given.ok_or(WebhookError::Unsigned)?);
    any_secret_fits(secrets, |secret| {
        let wanted = digest::digest(&digest::SHA256, secret.as_bytes());
        constant_time::verify_slices_are_equal(wanted.as_ref(), given.as_ref()).is_ok()
    })
}

fn verify_hmac(key: &[u8], content: &[u8], signature: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), content, signature).is_ok()
}

fn any_secret_fits(secrets: &[&str], fits: impl Fn(&str) -> bool) -> Result<(), WebhookError> {
    if secrets.iter().any(|secret| fits(secret)) { Ok(()) } else { Err(WebhookError::Forged) }
}
