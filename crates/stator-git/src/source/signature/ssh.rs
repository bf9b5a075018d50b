//! SSH signatures, as OpenSSH's `PROTOCOL.sshsig` and git's `gpg.format=ssh` have them.

use super::object::SignedParts;
use super::{MAX_CLOCK_SKEW_SECONDS, SignatureError, TrustedSigner};
use crate::source::pattern;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents};
use jiff::{Timestamp, civil, tz::TimeZone};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};
use stator_core::text::{TextLimit, one_line};

/// What git signs objects under, so that no signature of another purpose passes for one.
const GIT_NAMESPACE: &str = "git";
/// How much of why a signature cannot be read is told.
const MAX_REASON: TextLimit = TextLimit::Characters(200);

/// The keys that may sign, and those that may not.
#[derive(Default)]
pub(super) struct AllowedSigners {
    allowed: Vec<AllowedSigner>,
    revoked: Vec<KeyData>,
}

struct AllowedSigner {
    key: KeyData,
    name: String,
    /// Patterns, any of which must match; `None` for every namespace.
    namespaces: Option<Vec<String>>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

/// What is wrong with a line, and which.
type SignerLineFault = (usize, String);

impl AllowedSigners {
    pub(super) fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    /// Adds the lines of an `authorized_keys` file, which have no options.
    pub(super) fn add_keys(&mut self, bytes: &[u8]) -> Vec<SignerLineFault> {
        let (keys, faults) = parse_keys(bytes);
        self.allowed.extend(keys.into_iter().map(|key| AllowedSigner {
            name: key.comment().to_string(),
            key: key.key_data().clone(),
            namespaces: None,
            after: None,
            before: None,
        }));
        faults
    }

    /// Adds the lines of keys that were revoked.
    pub(super) fn add_revoked(&mut self, bytes: &[u8]) -> Vec<SignerLineFault> {
        if bytes.starts_with(b"SSHKRL") {
            return vec![(0, "a binary revocation list is not read; write the public keys, a line each".to_owned())];
        }
        let (keys, faults) = parse_keys(bytes);
        self.revoked.extend(keys.into_iter().map(|key| key.key_data().clone()));
        faults
    }

    /// Adds the lines of an `allowed_signers` file.
    pub(super) fn add_allowed(&mut self, bytes: &[u8]) -> Vec<SignerLineFault> {
        let mut faults = Vec::new();
        for (number, line) in numbered_lines(bytes, &mut faults) {
            match parse_allowed_signer(line) {
                Ok(allowed) => self.allowed.push(allowed),
                Err(reason) => faults.push((number, reason)),
            }
        }
        faults
    }

    pub(super) fn verify_signature(
        &self,
        parts: &SignedParts<'_>,
        signature: &[u8],
        now: Timestamp,
    ) -> Result<TrustedSigner, SignatureError> {
        let object = parts.name.clone();
        let signature = match SshSig::from_pem(signature.trim_ascii_end()) {
            Ok(signature) => signature,
            Err(error) => {
                // It repeats what stands in the signature.
                let reason = one_line(&error.to_string(), MAX_REASON);
                return Err(SignatureError::Malformed { object, reason });
            }
        };
        let signed_by = signature.public_key();
        let key = signed_by.fingerprint(HashAlg::Sha256).to_string();
        if signature.namespace() != GIT_NAMESPACE {
            let found: String = signature.namespace().chars().flat_map(char::escape_debug).take(60).collect();
            let reason = format!("signed it as `{found}` and not as `{GIT_NAMESPACE}`");
            return Err(SignatureError::NotForThis { object, key, reason });
        }
        if self.revoked.contains(signed_by) {
            return Err(SignatureError::Revoked { object, key, reason: String::new() });
        }
        let mut entries = self.allowed.iter().filter(|allowed| allowed.key == *signed_by).peekable();
        if entries.peek().is_none() {
            return Err(SignatureError::Unknown { object, key });
        }
        match is_signature_sound(&signature, &parts.payload) {
            Ok(true) => {}
            Ok(false) => return Err(SignatureError::Mismatched { object, key }),
            Err(what) => return Err(SignatureError::Unsupported { object, what }),
        }
        // A key may stand there more than once, as when its time was extended: any entry will do.
        let mut refused = SignatureError::Unknown { object: object.clone(), key: key.clone() };
        for entry in entries {
            match entry.check_constraints(&object, &key, parts.at, now) {
                Ok(()) => return Ok(TrustedSigner { object, key, name: entry.name.clone() }),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl AllowedSigner {
    fn check_constraints(
        &self,
        object: &str,
        key: &str,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), SignatureError> {
        let (object, key) = (object.to_owned(), key.to_owned());
        if self.namespaces.as_ref().is_some_and(|patterns| !pattern::matches_any(patterns, GIT_NAMESPACE)) {
            let reason = format!("may not sign in the namespace `{GIT_NAMESPACE}`");
            return Err(SignatureError::NotForThis { object, key, reason });
        }
        // What an object says of its own time is the signer's word: the key must hold now as well.
        if let Some(before) = self.before.filter(|before| now >= *before) {
            return Err(SignatureError::KeyExpired { object, key, at: before });
        }
        let Some(at) = at else {
            return if self.after.is_none() && self.before.is_none() {
                Ok(())
            } else {
                Err(SignatureError::Malformed { object, reason: "the object has no creation time".to_owned() })
            };
        };
        if at.as_second() > now.as_second().saturating_add(MAX_CLOCK_SKEW_SECONDS) {
            return Err(SignatureError::Time {
                object,
                key,
                at,
                reason: "by this machine's clock this is in the future",
            });
        }
        if self.after.is_some_and(|after| at < after || now < after) {
            return Err(SignatureError::Time { object, key, at, reason: "the key was not valid yet" });
        }
        if let Some(before) = self.before.filter(|before| at >= *before) {
            return Err(SignatureError::KeyExpired { object, key, at: before });
        }
        Ok(())
    }
}

/// Whether the signature is one of these bytes.
fn is_signature_sound(signature: &SshSig, payload: &[u8]) -> Result<bool, String> {
    let raw = signature.signature();
    match signature.public_key() {
        KeyData::Rsa(key) => {
            let algorithm = raw.algorithm();
            let parameters = if algorithm == (Algorithm::Rsa { hash: Some(HashAlg::Sha256) }) {
                &RSA_PKCS1_2048_8192_SHA256
            } else if algorithm == (Algorithm::Rsa { hash: Some(HashAlg::Sha512) }) {
                &RSA_PKCS1_2048_8192_SHA512
            } else {
                return Err("the key is RSA and the signature is by SHA-1, or by another key".to_owned());
            };
            let (Some(n), Some(e)) = (key.n().as_positive_bytes(), key.e().as_positive_bytes()) else {
                return Err("the RSA key has a number in it that is not positive".to_owned());
            };
            if key.key_size() < 2048 || key.key_size() > 8192 {
                return Err(format!("the RSA key has {} bits; 2048 to 8192 are accepted", key.key_size()));
            }
            let Ok(data) = SshSig::signed_data(GIT_NAMESPACE, signature.hash_alg(), payload) else { return Ok(false) };
            Ok(RsaPublicKeyComponents { n, e }.verify(parameters, &data, raw.as_bytes()).is_ok())
        }
        KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => {
            // Behind the signature: one byte of flags, of which the first says that somebody touched the key; a counter.
            let flags = raw.as_bytes().iter().rev().nth(4).copied().unwrap_or_default();
            if flags & 1 == 0 {
                return Err("the security key was not touched for it".to_owned());
            }
            Ok(PublicKey::from(signature.public_key().clone()).verify(GIT_NAMESPACE, payload, signature).is_ok())
        }
        KeyData::Ed25519(_) | KeyData::Ecdsa(_) => {
            Ok(PublicKey::from(signature.public_key().clone()).verify(GIT_NAMESPACE, payload, signature).is_ok())
        }
        KeyData::Dsa(_) | KeyData::Certificate(_) | KeyData::Other(_) | _ => {
            Err(format!("keys of the kind {} are not read", signature.public_key().algorithm()))
        }
    }
}

/// Public keys, a line each.
fn parse_keys(bytes: &[u8]) -> (Vec<PublicKey>, Vec<SignerLineFault>) {
    let (mut keys, mut faults) = (Vec::new(), Vec::new());
    for (number, line) in numbered_lines(bytes, &mut faults) {
        match parse_key(line) {
            Ok(key) => keys.push(key),
            Err(reason) => faults.push((number, reason)),
        }
    }
    (keys, faults)
}

fn parse_key(line: &str) -> Result<PublicKey, String> {
    if !line.split_whitespace().next().is_some_and(is_key_kind) {
        return Err(
            "is not a public key; write `ssh-ed25519 AAAA… COMMENT`, and options into `allowed_signers`".to_owned()
        );
    }
    PublicKey::from_openssh(line).map_err(|error| format!("is not a public key: {error}"))
}

/// The lines that say something, numbered from 1.
fn numbered_lines<'a>(bytes: &'a [u8], faults: &mut Vec<SignerLineFault>) -> Vec<(usize, &'a str)> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        faults.push((0, "is not text (not UTF-8)".to_owned()));
        return Vec::new();
    };
    let numbered = text.lines().enumerate().map(|(at, line)| (at.saturating_add(1), line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

fn is_key_kind(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"].iter().any(|kind| word.starts_with(kind))
}

/// `principal[,…] [option[,…]] kind key [comment]`
fn parse_allowed_signer(line: &str) -> Result<AllowedSigner, String> {
    let (principals, rest) = next_word(line)?;
    let (second, after) = next_word(rest)?;
    let (options, rest) = if is_key_kind(second) { ("", rest) } else { (second, after) };
    if rest.is_empty() {
        return Err("has no key; write `PRINCIPAL ssh-ed25519 AAAA…`".to_owned());
    }
    let mut allowed = AllowedSigner {
        key: parse_key(rest)?.key_data().clone(),
        name: principals.trim_matches('"').to_owned(),
        namespaces: None,
        after: None,
        before: None,
    };
    for option in split_options(options) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "namespaces" => allowed.namespaces = Some(value.split(',').map(str::to_owned).collect()),
            "valid-after" => allowed.after = Some(parse_signer_time(value)?),
            "valid-before" => allowed.before = Some(parse_signer_time(value)?),
            "cert-authority" => {
                return Err("`cert-authority` is not supported; list the public keys of the signers".to_owned());
            }
            _ => {
                let shown: String = name.chars().flat_map(char::escape_debug).take(40).collect();
                return Err(format!(
                    "`{shown}` is not an option; known: `namespaces`, `valid-after` and `valid-before`"
                ));
            }
        }
    }
    if let (Some(after), Some(before)) = (allowed.after, allowed.before)
        && after >= before
    {
        return Err("`valid-before` is not after `valid-after`".to_owned());
    }
    Ok(allowed)
}

/// The first word, in which quotes may hold spaces, and what follows it.
fn next_word(text: &str) -> Result<(&str, &str), String> {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                let (word, rest) = text.split_at(at);
                return Ok((word, rest.trim_start()));
            }
            _ => {}
        }
    }
    if quoted { Err("has a quote that does not end".to_owned()) } else { Ok((text, "")) }
}

/// Options by commas, but for those within quotes.
fn split_options(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        if c == '"' {
            quoted = !quoted;
        }
        c == ',' && !quoted
    })
    .filter(|option| !option.is_empty())
}

/// `YYYYMMDD` or `YYYYMMDDHHMM[SS]`, with or without `Z`: always UTC, so that it means the same wherever it is read.
fn parse_signer_time(text: &str) -> Result<Timestamp, String> {
    let wrong = || "has an invalid time; write `YYYYMMDD` or `YYYYMMDDHHMMSS`, in UTC".to_owned();
    let digits = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let format = match digits.len() {
        8 => "%Y%m%d",
        12 => "%Y%m%d%H%M",
        14 => "%Y%m%d%H%M%S",
        _ => return Err(wrong()),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let parsed = jiff::fmt::strtime::parse(format, digits).map_err(|_| wrong())?;
    let date = parsed.to_date().map_err(|_| wrong())?;
    let clock = parsed.to_time().unwrap_or(civil::Time::midnight());
    date.to_datetime(clock).to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| wrong())
}
