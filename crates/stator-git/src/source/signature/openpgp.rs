//! OpenPGP signatures (RFC 9580), by certificates as GnuPG exports them.

use super::object::SignedParts;
use super::{MAX_CLOCK_SKEW_SECONDS, SignatureError, TrustedSigner};
use jiff::Timestamp;
use pgp::armor::{BlockType, Dearmor};
use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Packet, PacketParser, Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, Tag};
use std::io::Read as _;

/// The certificates of a secret.
#[derive(Default)]
pub(super) struct OpenPgpKeyring {
    certificates: Vec<SignedPublicKey>,
}

/// What is wrong, and in which line the block begins.
type ArmorFault = (usize, String);

impl OpenPgpKeyring {
    pub(super) fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Adds every certificate of a file: of each block in armour, or of the bytes as they are.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Vec<ArmorFault> {
        let read: Vec<(usize, Result<Vec<SignedPublicKey>, String>)> = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN ") => armored_blocks(text)
                .into_iter()
                .map(|(line, block)| (line, decode_armor(block).and_then(|bytes| parse_certificates(&bytes))))
                .collect(),
            Ok(_) | Err(_) => vec![(0, parse_certificates(bytes))],
        };
        let mut faults = Vec::new();
        for (line, found) in read {
            match found {
                Ok(found) => self.certificates.extend(found),
                Err(reason) => faults.push((line, reason)),
            }
        }
        faults
    }

    pub(super) fn verify_signature(
        &self,
        parts: &SignedParts<'_>,
        armour: &[u8],
        now: Timestamp,
    ) -> Result<TrustedSigner, SignatureError> {
        let object = parts.name.clone();
        let malformed = |reason: String| SignatureError::Malformed { object: object.clone(), reason };
        let unsupported = |what: String| SignatureError::Unsupported { object: object.clone(), what };
        let (mut found, _) =
            DetachedSignature::from_armor_many_buf(armour).map_err(|error| malformed(first_line(&error)))?;
        let signature = match (found.next(), found.next()) {
            (Some(Ok(one)), None) => one.signature,
            (Some(Err(error)), _) => return Err(malformed(first_line(&error))),
            (Some(Ok(_)), Some(_)) => return Err(malformed("there is more than one".to_owned())),
            (None, _) => return Err(malformed("it is empty".to_owned())),
        };
        if signature.typ() != Some(SignatureType::Binary) {
            return Err(unsupported("it is not one over bytes".to_owned()));
        }
        match signature.hash_alg() {
            Some(
                HashAlgorithm::Sha256
                | HashAlgorithm::Sha384
                | HashAlgorithm::Sha512
                | HashAlgorithm::Sha3_256
                | HashAlgorithm::Sha3_512,
            ) => {}
            Some(other) => return Err(unsupported(format!("it is by {other}, which is no longer secure"))),
            None => return Err(unsupported("it is of an unknown version".to_owned())),
        }
        if let Some(what) = unknown_critical_subpacket(&signature) {
            return Err(unsupported(what));
        }
        let candidates: Vec<(&SignedPublicKey, KeyComponent<'_>)> = self
            .certificates
            .iter()
            .flat_map(|certificate| key_components(certificate).map(move |component| (certificate, component)))
            .filter(|(_, component)| component.is_issuer_of(&signature))
            .collect();
        if candidates.is_empty() {
            return Err(SignatureError::Unknown { object, key: issuer_name(&signature) });
        }
        let mut judged: Vec<Result<TrustedSigner, SignatureError>> = candidates
            .into_iter()
            .map(|(certificate, component)| {
                verify_with_certificate(&object, parts, &signature, certificate, &component, now)
            })
            .collect();
        // One certificate may be there twice, once without its revocation: the one that knows more is right. Without an
        // issuer every key is tried, and one that matches is enough.
        if let Some(at) = judged.iter().position(|one| matches!(one, Err(SignatureError::Revoked { .. }))) {
            return judged.swap_remove(at);
        }
        if let Some(at) = judged.iter().position(Result::is_ok) {
            return judged.swap_remove(at);
        }
        let mismatched =
            |one: &Result<TrustedSigner, SignatureError>| matches!(one, Err(SignatureError::Mismatched { .. }));
        let at = judged.iter().position(|one| !mismatched(one)).unwrap_or_default();
        if at < judged.len() { judged.swap_remove(at) } else { Err(malformed("it has no signer".to_owned())) }
    }
}

/// The primary key of a certificate or one of its subkeys.
enum KeyComponent<'a> {
    Primary(&'a SignedPublicKey),
    Sub(&'a SignedPublicSubKey),
}

impl KeyComponent<'_> {
    fn details(&self) -> &dyn KeyDetails {
        match self {
            Self::Primary(key) => &key.primary_key,
            Self::Sub(key) => &key.key,
        }
    }

    fn fingerprint(&self) -> String {
        self.details().fingerprint().to_string().to_uppercase()
    }

    /// Whether the signature says that this key made it, or does not say which did.
    fn is_issuer_of(&self, signature: &Signature) -> bool {
        let (ids, prints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
        let (id, print) = (self.details().legacy_key_id(), self.details().fingerprint());
        (ids.is_empty() && prints.is_empty()) || ids.contains(&&id) || prints.contains(&&print)
    }

    fn verifies(&self, signature: &Signature, payload: &[u8]) -> bool {
        match self {
            Self::Primary(key) => signature.verify(&key.primary_key, payload),
            Self::Sub(key) => signature.verify(&key.key, payload),
        }
        .is_ok()
    }
}

fn key_components(certificate: &SignedPublicKey) -> impl Iterator<Item = KeyComponent<'_>> {
    std::iter::once(KeyComponent::Primary(certificate)).chain(certificate.public_subkeys.iter().map(KeyComponent::Sub))
}

fn verify_with_certificate(
    object: &str,
    parts: &SignedParts<'_>,
    signature: &Signature,
    certificate: &SignedPublicKey,
    component: &KeyComponent<'_>,
    now: Timestamp,
) -> Result<TrustedSigner, SignatureError> {
    let (object, key) = (object.to_owned(), component.fingerprint());
    if !component.verifies(signature, &parts.payload) {
        return Err(SignatureError::Mismatched { object, key });
    }
    let primary = &certificate.primary_key;
    // Revocations count whoever they are from and whatever they are by: nobody adds one to a secret for nothing.
    let revocations = certificate.details.revocation_signatures.iter();
    let revoked = match component {
        KeyComponent::Primary(_) => None,
        KeyComponent::Sub(sub) => sub.signatures.iter().find(|one| one.typ() == Some(SignatureType::SubkeyRevocation)),
    };
    if let Some(revocation) = revocations.chain(revoked).next() {
        let why = revocation.revocation_reason_string().map(|text| String::from_utf8_lossy(text).into_owned());
        let why: String = why.unwrap_or_default().chars().filter(|c| !c.is_control()).take(120).collect();
        let reason = if why.is_empty() { String::new() } else { format!(": {why}") };
        return Err(SignatureError::Revoked { object, key, reason });
    }
    let not_for_this = |reason: &str| SignatureError::NotForThis {
        object: object.clone(),
        key: key.clone(),
        reason: reason.to_owned(),
    };
    // What the owner says of the key: the newest statement that holds.
    let users = certificate.details.users.iter();
    let own = users.flat_map(|user| {
        user.signatures
            .iter()
            .filter(|one| one.typ() != Some(SignatureType::CertRevocation))
            .filter(|one| one.verify_certification(primary, Tag::UserId, &user.id).is_ok())
    });
    let direct = certificate.details.direct_signatures.iter().filter(|one| one.verify_key(primary).is_ok());
    let own = newest_signature(own.chain(direct))
        .ok_or_else(|| not_for_this("nothing certifies that it belongs to its owner"))?;
    let statement = match component {
        KeyComponent::Primary(_) => own,
        KeyComponent::Sub(sub) => {
            let bindings = sub.signatures.iter().filter(|one| {
                one.typ() == Some(SignatureType::SubkeyBinding) && one.verify_subkey_binding(primary, &sub.key).is_ok()
            });
            newest_signature(bindings).ok_or_else(|| not_for_this("is not bound to its owner's key"))?
        }
    };
    for (days, expiring) in [(own, primary as &dyn KeyDetails), (statement, component.details())] {
        let seconds = days.key_expiration_time().map_or(0, pgp::types::Duration::as_secs);
        if seconds > 0 {
            let at = timestamp_after(expiring.created_at().as_secs().into(), seconds.into());
            if now >= at {
                return Err(SignatureError::KeyExpired { object, key, at });
            }
        }
    }
    if !statement.key_flags().sign() && statement_has_flags(statement) {
        return Err(not_for_this("its owner did not create for signing"));
    }
    if let KeyComponent::Sub(sub) = component {
        // Else a key of somebody else's could be claimed by binding it to one's own.
        let back = statement.embedded_signature();
        let agreed = back.is_some_and(|back| {
            back.typ() == Some(SignatureType::KeyBinding) && back.verify_primary_key_binding(&sub.key, primary).is_ok()
        });
        if !agreed {
            return Err(not_for_this("does not say itself that it belongs to its owner's key"));
        }
    }
    let Some(made) = signature.created() else {
        return Err(SignatureError::Malformed { object, reason: "it has no creation time".to_owned() });
    };
    let at = timestamp_after(made.as_secs().into(), 0);
    if made < component.details().created_at() {
        return Err(SignatureError::Time { object, key, at, reason: "the key did not exist yet" });
    }
    if at.as_second() > now.as_second().saturating_add(MAX_CLOCK_SKEW_SECONDS) {
        return Err(SignatureError::Time { object, key, at, reason: "by this machine's clock this is in the future" });
    }
    let seconds = signature.signature_expiration_time().map_or(0, pgp::types::Duration::as_secs);
    if seconds > 0 {
        let at = timestamp_after(made.as_secs().into(), seconds.into());
        if now >= at {
            return Err(SignatureError::SignatureExpired { object, key, at });
        }
    }
    let name = certificate.details.users.first().map(|user| String::from_utf8_lossy(user.id.id()).into_owned());
    let name = name.unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
    Ok(TrustedSigner { object, key, name })
}

fn newest_signature<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|one| one.created())
}

fn statement_has_flags(statement: &Signature) -> bool {
    let flags = |data: &SubpacketData| matches!(data, SubpacketData::KeyFlags(_));
    statement.config().is_some_and(|config| config.hashed_subpackets().any(|packet| flags(&packet.data)))
}

fn timestamp_after(from: i64, seconds: i64) -> Timestamp {
    Timestamp::from_second(from.saturating_add(seconds)).unwrap_or(Timestamp::MAX)
}

/// What a signature marks as not to be passed over, and is not understood here (RFC 9580, 5.2.3.7).
fn unknown_critical_subpacket(signature: &Signature) -> Option<String> {
    let config = signature.config()?;
    config.hashed_subpackets().filter(|packet| packet.is_critical).find_map(|packet| {
        if let SubpacketData::Experimental(kind, _) | SubpacketData::Other(kind, _) = &packet.data {
            return Some(format!("it has a critical part of the unknown kind {kind}"));
        }
        matches!(&packet.data, SubpacketData::Notation(_)).then(|| "it has a critical note".to_owned())
    })
}

fn issuer_name(signature: &Signature) -> String {
    let print = signature.issuer_fingerprint().first().map(|print| print.to_string());
    let id = signature.issuer_key_id().first().map(|id| id.to_string());
    print.or(id).map_or_else(|| "that it does not name".to_owned(), |key| key.to_uppercase())
}

/// The blocks in armour of a text, with the line each begins in.
fn armored_blocks(text: &str) -> Vec<(usize, &str)> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    let mut at = 0_usize;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let end = at.saturating_add(line.len());
        if line.starts_with("-----BEGIN ") {
            begin = Some((number.saturating_add(1), at));
        } else if line.starts_with("-----END ")
            && let Some((number, from)) = begin.take()
            && let Some(block) = text.get(from..end)
        {
            found.push((number, block));
        }
        at = end;
    }
    if let Some((number, from)) = begin
        && let Some(block) = text.get(from..)
    {
        found.push((number, block));
    }
    found
}

fn decode_armor(block: &str) -> Result<Vec<u8>, String> {
    let mut reader = Dearmor::new(block.as_bytes());
    let wrong = || "is not an OpenPGP public key; export it with `gpg --armor --export KEY`".to_owned();
    reader.read_header().map_err(|_| wrong())?;
    match reader.typ {
        Some(BlockType::PublicKey) => {}
        Some(BlockType::PrivateKey) => {
            return Err("is a private key; remove it from the secret and put the public one there".to_owned());
        }
        _ => return Err(wrong()),
    }
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| format!("is damaged: {}", first_line(&error)))?;
    // The checksum need not be there (RFC 9580, 6.1); where it is, a damaged revocation is seen to be damaged. The
    // library's own check of it takes every armour for damaged.
    if reader.checksum.is_some_and(|checksum| checksum != u64::from(crc24(&bytes))) {
        return Err("is damaged: its checksum does not match; copy it again".to_owned());
    }
    Ok(bytes)
}

/// The checksum of an armour (RFC 9580, 6.1.1).
fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x00b7_04ce_u32, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << 16), |crc, _| {
            let next = crc << 1;
            if next & 0x0100_0000 == 0 { next } else { next ^ 0x0186_4cfb }
        })
    })
}

fn parse_certificates(bytes: &[u8]) -> Result<Vec<SignedPublicKey>, String> {
    let damaged = |error: &pgp::errors::Error| {
        format!("is damaged, or no key; export it with `gpg --armor --export KEY` ({})", first_line(error))
    };
    let packets: Result<Vec<Packet>, _> = PacketParser::new(bytes).collect();
    let packets = packets.map_err(|error| damaged(&error))?;
    match packets.first() {
        Some(Packet::PublicKey(_)) => {}
        Some(Packet::SecretKey(_)) => {
            return Err("is a private key; remove it from the secret and put the public one there".to_owned());
        }
        Some(Packet::Signature(_)) => {
            return Err("is a revocation by itself; import it with GnuPG and export the key with it".to_owned());
        }
        _ => return Err("holds no public key; export it with `gpg --armor --export KEY`".to_owned()),
    }
    // The library leaves out what stands where it does not expect it. Of a revocation that must not happen.
    let count = |kind: SignatureType| {
        let of_kind = |packet: &&Packet| matches!(packet, Packet::Signature(one) if one.typ() == Some(kind));
        packets.iter().filter(of_kind).count()
    };
    let expected = (count(SignatureType::KeyRevocation), count(SignatureType::SubkeyRevocation));
    let packets = packets.into_iter().map(Ok).collect::<Vec<_>>().into_iter().peekable();
    let read: Result<Vec<SignedPublicKey>, String> =
        SignedPublicKey::from_packets(packets).map(|read| read.map_err(|error| damaged(&error))).collect();
    let read = read?;
    let subkeys = read.iter().flat_map(|certificate| &certificate.public_subkeys).flat_map(|sub| &sub.signatures);
    let found = (
        read.iter().map(|certificate| certificate.details.revocation_signatures.len()).sum(),
        subkeys.filter(|one| one.typ() == Some(SignatureType::SubkeyRevocation)).count(),
    );
    if found != expected {
        return Err("has a revocation out of place; import it with GnuPG and export the key again".to_owned());
    }
    let own = |certificate: &SignedPublicKey| {
        let mut direct = certificate.details.direct_signatures.iter();
        direct.all(|one| one.verify_key(&certificate.primary_key).is_ok())
    };
    if !read.iter().all(own) {
        return Err(
            "has a statement on its key that is not its owner's, or is damaged; export the key again".to_owned()
        );
    }
    Ok(read)
}

/// Errors of the library can run over many lines.
fn first_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(160).collect()
}
