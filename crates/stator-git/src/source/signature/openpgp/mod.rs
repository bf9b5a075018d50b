//! OpenPGP signatures (RFC 9580), by certificates as GnuPG exports them.
//!
//! Packets are read here, as much of them as signatures of data need; what is computed is computed by `aws-lc-rs`.
//! Nothing is repaired: what is not as the standard has it is reported, and nothing passes by it.

mod armor;
mod certificate;
mod hash;
mod key;
mod packet;
mod signature;
mod subpacket;
#[cfg(test)]
mod tests;

use super::object::SignedParts;
use super::{MAX_CLOCK_SKEW_SECONDS, SignatureError, TrustedSigner};
use armor::{ArmorChecksum, ArmorLabel, armor_label, armored_blocks, decode_armor};
use certificate::{BoundSubkey, OpenPgpCertificate, parse_certificates};
use hash::HashKind;
use jiff::Timestamp;
use key::{PublicKeyPacket, VerifyFailure};
use packet::{PacketKind, split_packets};
use signature::{KnownSignature, SignatureKind, SignaturePacket, SignaturePlace};

/// The certificates of a secret.
#[derive(Default)]
pub(super) struct OpenPgpKeyring {
    certificates: Vec<OpenPgpCertificate>,
}

/// What is wrong, and in which line the block begins.
type ArmorFault = (usize, String);

impl OpenPgpKeyring {
    pub(super) fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Adds every certificate of a file: of each block in armour, or of the bytes as they are.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Vec<ArmorFault> {
        let parse = |bytes: &[u8]| parse_certificates(bytes).map_err(|error| error.to_string());
        let read: Vec<(usize, Result<Vec<OpenPgpCertificate>, String>)> = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN ") => armored_blocks(text)
                .into_iter()
                .map(|(line, block)| (line, decode_key_armor(block).and_then(|bytes| parse(&bytes))))
                .collect(),
            Ok(_) | Err(_) => vec![(0, parse(bytes))],
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
        let unsupported = |what: String| SignatureError::Unsupported { object: object.clone(), what };
        let packet =
            parse_detached(armour).map_err(|reason| SignatureError::Malformed { object: object.clone(), reason })?;
        let signature = packet.known().map_err(|failure| match failure {
            VerifyFailure::Unsupported(what) => unsupported(what),
            VerifyFailure::Mismatched => unsupported("it is of an unknown version".to_owned()),
        })?;
        if let Some(what) = unacceptable_form(signature) {
            return Err(unsupported(what));
        }
        let candidates: Vec<(&OpenPgpCertificate, KeyComponent<'_>)> = self
            .certificates
            .iter()
            .flat_map(|certificate| key_components(certificate).map(move |component| (certificate, component)))
            .filter(|(_, component)| signature.may_be_by(component.key()))
            .collect();
        if candidates.is_empty() {
            return Err(SignatureError::Unknown { object, key: issuer_name(signature) });
        }
        let mut judged: Vec<Result<TrustedSigner, SignatureError>> = candidates
            .into_iter()
            .map(|(certificate, component)| {
                verify_with_certificate(&object, parts, signature, certificate, &component, now)
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
        if at < judged.len() {
            judged.swap_remove(at)
        } else {
            Err(SignatureError::Malformed { object, reason: "it has no signer".to_owned() })
        }
    }
}

/// The primary key of a certificate or one of its subkeys.
enum KeyComponent<'a> {
    Primary(&'a PublicKeyPacket),
    Sub(&'a BoundSubkey),
}

impl KeyComponent<'_> {
    fn key(&self) -> &PublicKeyPacket {
        match self {
            Self::Primary(key) => key,
            Self::Sub(subkey) => &subkey.key,
        }
    }
}

/// The keys of a certificate. A subkey that nothing at all is said of is none of its.
fn key_components(certificate: &OpenPgpCertificate) -> impl Iterator<Item = KeyComponent<'_>> {
    let subkeys = certificate.subkeys.iter().filter(|subkey| !subkey.signatures.is_empty());
    std::iter::once(KeyComponent::Primary(&certificate.primary)).chain(subkeys.map(KeyComponent::Sub))
}

/// Why a signature of data is not accepted, whoever made it.
fn unacceptable_form(signature: &KnownSignature) -> Option<String> {
    if signature.kind() != SignatureKind::Binary {
        return Some("it is not one over bytes".to_owned());
    }
    let hash = signature.hash();
    if hash == HashKind::Unknown {
        return Some("it is by an unknown hash algorithm".to_owned());
    }
    if !hash.is_secure() {
        return Some(format!("it is by {hash}, which is no longer secure"));
    }
    let note = || signature.has_critical_note().then(|| "it has a critical note".to_owned());
    signature.unknown_critical_part().or_else(note)
}

fn verify_with_certificate(
    object: &str,
    parts: &SignedParts<'_>,
    signature: &KnownSignature,
    certificate: &OpenPgpCertificate,
    component: &KeyComponent<'_>,
    now: Timestamp,
) -> Result<TrustedSigner, SignatureError> {
    let (object, key) = (object.to_owned(), hex::encode_upper(component.key().fingerprint()));
    match signature.verify(component.key(), &[&*parts.payload]) {
        Ok(()) => {}
        Err(VerifyFailure::Mismatched) => return Err(SignatureError::Mismatched { object, key }),
        Err(VerifyFailure::Unsupported(what)) => return Err(SignatureError::Unsupported { object, what }),
    }
    // Revocations count whoever they are from and whatever they are by: nobody adds one to a secret for nothing.
    let revoked = match component {
        KeyComponent::Primary(_) => None,
        KeyComponent::Sub(subkey) => {
            subkey.signatures.iter().find(|one| one.kind() == Some(SignatureKind::SubkeyRevocation))
        }
    };
    if let Some(revocation) = certificate.revocations.iter().chain(revoked).next() {
        let why = printable_text(revocation.revocation_reason(), 120);
        let reason = if why.is_empty() { String::new() } else { format!(": {why}") };
        return Err(SignatureError::Revoked { object, key, reason });
    }
    if let Some(what) = certificate.primary.unsupported_reason() {
        return Err(SignatureError::Unsupported { object, what });
    }
    let not_for_this = |reason: &str| SignatureError::NotForThis {
        object: object.clone(),
        key: key.clone(),
        reason: reason.to_owned(),
    };
    // What the owner says of the key: the newest statement that holds.
    let own = certificate.users.iter().flat_map(|user| {
        user.signatures.iter().filter_map(move |one| certificate.own_certification(&user.id, one).ok())
    });
    let direct = certificate.direct.iter().filter_map(|one| certificate.own_direct(one).ok());
    let own = newest_signature(own.chain(direct))
        .ok_or_else(|| not_for_this("nothing certifies that it belongs to its owner"))?;
    let statement = match component {
        KeyComponent::Primary(_) => own,
        KeyComponent::Sub(subkey) => {
            let bindings = subkey.signatures.iter().filter_map(|one| certificate.own_binding(&subkey.key, one).ok());
            newest_signature(bindings).ok_or_else(|| not_for_this("is not bound to its owner's key"))?
        }
    };
    for (days, expiring) in [(own, &certificate.primary), (statement, component.key())] {
        if let Some(at) = expiry_time(expiring.created(), days.key_lifetime())
            && now >= at
        {
            return Err(SignatureError::KeyExpired { object, key, at });
        }
    }
    if statement.allows_signing() == Some(false) {
        return Err(not_for_this("its owner did not create for signing"));
    }
    if let KeyComponent::Sub(subkey) = component
        && !certificate.is_claimed_by(&subkey.key, statement)
    {
        return Err(not_for_this("does not say itself that it belongs to its owner's key"));
    }
    let Some(made) = signature.created() else {
        return Err(SignatureError::Malformed { object, reason: "it has no creation time".to_owned() });
    };
    let at = timestamp_after(made, 0);
    if made < component.key().created() {
        return Err(SignatureError::Time { object, key, at, reason: "the key did not exist yet" });
    }
    if at.as_second() > now.as_second().saturating_add(MAX_CLOCK_SKEW_SECONDS) {
        return Err(SignatureError::Time { object, key, at, reason: "by this machine's clock this is in the future" });
    }
    if let Some(at) = expiry_time(made, signature.lifetime())
        && now >= at
    {
        return Err(SignatureError::SignatureExpired { object, key, at });
    }
    let name = certificate.users.first().map(|user| printable_text(&user.id, 200)).unwrap_or_default();
    Ok(TrustedSigner { object, key, name })
}

fn newest_signature<'a>(signatures: impl Iterator<Item = &'a KnownSignature>) -> Option<&'a KnownSignature> {
    signatures.max_by_key(|one| one.created())
}

/// When something ends; a lifetime of 0 is none.
fn expiry_time(created: u32, lifetime: u32) -> Option<Timestamp> {
    (lifetime > 0).then(|| timestamp_after(created, lifetime))
}

fn timestamp_after(from: u32, seconds: u32) -> Timestamp {
    Timestamp::from_second(i64::from(from).saturating_add(seconds.into())).unwrap_or(Timestamp::MAX)
}

fn issuer_name(signature: &KnownSignature) -> String {
    let named = signature.issuer_fingerprints().next().or_else(|| signature.issuer_ids().next());
    named.map_or_else(|| "that it does not name".to_owned(), hex::encode_upper)
}

/// A text of somebody else's, for a message in one line.
fn printable_text(bytes: &[u8], length: usize) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).take(length).collect()
}

/// The one signature that is in the armour. Its checksum is not looked at (RFC 9580, 6.1): a damaged signature does not
/// match.
fn parse_detached(armour: &[u8]) -> Result<SignaturePacket, String> {
    let text = std::str::from_utf8(armour).map_err(|_| "its armour is not text".to_owned())?;
    let block = decode_armor(text).map_err(|error| error.to_string())?;
    if block.label != ArmorLabel::Signature {
        return Err("its armour is not that of a signature".to_owned());
    }
    let packets = split_packets(&block.bytes).map_err(|error| error.to_string())?;
    match packets.as_slice() {
        [] => Err("it is empty".to_owned()),
        [one] if one.kind == PacketKind::Signature => {
            SignaturePacket::parse(one.body, SignaturePlace::Packet).map_err(|error| error.to_string())
        }
        [_] => Err("it is not a signature".to_owned()),
        [_, _, ..] => Err("there is more than one".to_owned()),
    }
}

/// The bytes of a block that holds public keys.
fn decode_key_armor(block: &str) -> Result<Vec<u8>, String> {
    let wrong = "is not an OpenPGP public key; export it with `gpg --armor --export KEY`";
    match armor_label(block) {
        Ok(ArmorLabel::PublicKey) => {}
        Ok(ArmorLabel::PrivateKey) => {
            return Err("is a private key; remove it from the secret and put the public one there".to_owned());
        }
        Ok(ArmorLabel::Signature | ArmorLabel::Other) | Err(_) => return Err(wrong.to_owned()),
    }
    let block = decode_armor(block).map_err(|error| format!("is damaged: {error}"))?;
    // Where there is a checksum, a damaged revocation is seen to be damaged.
    match block.checksum {
        ArmorChecksum::Absent | ArmorChecksum::Right => Ok(block.bytes),
        ArmorChecksum::Wrong => Err("is damaged: its checksum does not match; copy it again".to_owned()),
    }
}
