//! Whether the git host sent a delivery: each host signs, or shows what it knows, in its own way.
//!
//! The headers are read first, alone. Whoever shows nothing that could be a signature is told so before anything of the
//! body was asked for.

use super::delivery::{WebhookError, header_text};
use crate::source::model_source::ForgeKind;
use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

/// How far a signed time may be from ours, in seconds: what the Standard Webhooks specification recommends.
const TIMESTAMP_TOLERANCE_SECONDS: i64 = 300;
/// Signatures of one delivery; a host sends one for each key while keys change.
const MAX_SIGNATURES: usize = 8;
/// The longest name of a delivery that is signed along.
const MAX_SIGNED_ID_LENGTH: usize = 256;

/// A SHA-256, of a secret or keyed by one.
type Sha256Bytes = [u8; digest::SHA256_OUTPUT_LEN];

/// What the headers of a delivery show for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryProof(ProofScheme);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ProofScheme {
    /// HMAC-SHA256 of the body.
    BodyHmac(Sha256Bytes),
    /// The Standard Webhooks scheme, which newer GitLab signs with: HMAC-SHA256 of `id.time.body`, one signature for each key
    /// while keys change.
    StandardWebhook { before_body: String, seconds: i64, signatures: Vec<Sha256Bytes> },
    /// The digest of a secret that was sent along. Digests are compared, so that not even its length shows in the time taken.
    SentSecret(Sha256Bytes),
}

impl DeliveryProof {
    /// What the headers show, by the rules of one host.
    ///
    /// # Errors
    /// [`WebhookError::Unsigned`] where they show nothing, or nothing that the host could have written.
    pub fn from_headers(host: ForgeKind, headers: &HeaderMap) -> Result<Self, WebhookError> {
        let scheme = match host {
            // The older `X-Hub-Signature` of GitHub and Gitea is SHA-1, and is not looked at.
            ForgeKind::Github => body_hmac(header_text(headers, "x-hub-signature-256"), "sha256="),
            ForgeKind::Gitea => body_hmac(header_text(headers, "x-gitea-signature"), ""),
            // Both Bitbuckets put SHA-256 into the header that elsewhere holds SHA-1.
            ForgeKind::Bitbucket => body_hmac(header_text(headers, "x-hub-signature"), "sha256="),
            ForgeKind::Gitlab => match header_text(headers, "webhook-signature") {
                Some(signatures) => standard_webhook(signatures, headers),
                None => header_text(headers, "x-gitlab-token").map(|token| sent_secret(token.as_bytes())),
            },
            ForgeKind::Azure => basic_password(headers).map(|password| sent_secret(&password)),
        };
        scheme.map(Self).ok_or(WebhookError::Unsigned)
    }

    /// Whether it is about the body too. What is not can be checked before the body is here.
    pub fn covers_body(&self) -> bool {
        match self.0 {
            ProofScheme::BodyHmac(_) | ProofScheme::StandardWebhook { .. } => true,
            ProofScheme::SentSecret(_) => false,
        }
    }

    /// Holds it against a secret, over the raw body.
    ///
    /// # Errors
    /// See [`WebhookError`]: there is no secret, it is another one, or the signature is too old.
    pub fn verify(&self, secret: &SecretString, body: &[u8], now: jiff::Timestamp) -> Result<(), WebhookError> {
        let secret = secret.expose_secret();
        if secret.is_empty() {
            return Err(WebhookError::NoSecret);
        }
        let fits = match &self.0 {
            ProofScheme::BodyHmac(signature) => is_same(&keyed_digest(secret.as_bytes(), &[body]), signature),
            ProofScheme::StandardWebhook { before_body, signatures, .. } => {
                let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok());
                let key = key.as_deref().unwrap_or(secret.as_bytes());
                let wanted = keyed_digest(key, &[before_body.as_bytes(), body]);
                signatures.iter().any(|signature| is_same(&wanted, signature))
            }
            ProofScheme::SentSecret(given) => {
                is_same(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref(), given)
            }
        };
        if !fits {
            return Err(WebhookError::Forged);
        }
        match self.0 {
            // Said only to who knows the key.
            ProofScheme::StandardWebhook { seconds, .. }
                if seconds.abs_diff(now.as_second()) > TIMESTAMP_TOLERANCE_SECONDS.unsigned_abs() =>
            {
                Err(WebhookError::Stale)
            }
            ProofScheme::StandardWebhook { .. } | ProofScheme::BodyHmac(_) | ProofScheme::SentSecret(_) => Ok(()),
        }
    }
}

fn body_hmac(signature: Option<&str>, prefix: &str) -> Option<ProofScheme> {
    sha256_bytes(&hex::decode(signature?.strip_prefix(prefix)?).ok()?).map(ProofScheme::BodyHmac)
}

fn standard_webhook(signatures: &str, headers: &HeaderMap) -> Option<ProofScheme> {
    let (id, time) = (header_text(headers, "webhook-id")?, header_text(headers, "webhook-timestamp")?);
    let seconds = time.parse().ok()?;
    let decoded = |signature: &str| sha256_bytes(&STANDARD.decode(signature.strip_prefix("v1,")?).ok()?);
    let given: Vec<Sha256Bytes> = signatures.split(' ').take(MAX_SIGNATURES).filter_map(decoded).collect();
    let is_bounded = !given.is_empty() && id.len() <= MAX_SIGNED_ID_LENGTH;
    is_bounded.then(|| ProofScheme::StandardWebhook {
        before_body: format!("{id}.{time}."),
        seconds,
        signatures: given,
    })
}

/// The password of basic authentication. Azure lets the user be anything, so the password alone is the secret.
fn basic_password(headers: &HeaderMap) -> Option<Vec<u8>> {
    let pair = STANDARD.decode(header_text(headers, "authorization")?.strip_prefix("Basic ")?.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

fn sent_secret(secret: &[u8]) -> ProofScheme {
    let mut bytes = Sha256Bytes::default();
    bytes.copy_from_slice(digest::digest(&digest::SHA256, secret).as_ref());
    ProofScheme::SentSecret(bytes)
}

fn sha256_bytes(bytes: &[u8]) -> Option<Sha256Bytes> {
    bytes.try_into().ok()
}

fn keyed_digest(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign().as_ref().to_vec()
}

fn is_same(wanted: &[u8], given: &Sha256Bytes) -> bool {
    constant_time::verify_slices_are_equal(wanted, given).is_ok()
}
