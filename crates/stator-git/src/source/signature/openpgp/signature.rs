//! Signatures as packets (RFC 9580, 5.2), and what they are computed over.

use super::hash::HashKind;
use super::key::{KeyVersion, PublicKeyPacket, SignatureValue, VerifyFailure};
use super::packet::{PacketError, PacketFields};
use super::subpacket::{Subpacket, SubpacketContent, parse_subpackets};
use aws_lc_rs::digest::{Context, Digest};

/// What a signature is about (RFC 9580, 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureKind {
    /// Bytes as they are.
    Binary,
    /// A user id of a key, by whatever care it was checked.
    Certification,
    SubkeyBinding,
    /// A subkey's own word that it belongs to its owner's key.
    PrimaryBinding,
    DirectKey,
    KeyRevocation,
    SubkeyRevocation,
    CertificationRevocation,
    Other,
}

/// A signature about data or about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignaturePacket {
    Known(Box<KnownSignature>),
    /// Of a version that is not read. What versions 2 and 3 are about is known all the same: it may be a revocation.
    OtherVersion {
        version: u8,
        kind: Option<SignatureKind>,
    },
}

/// A signature of version 4 or 6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownSignature {
    version: KeyVersion,
    kind: SignatureKind,
    key_algorithm: u8,
    hash: HashKind,
    salt: Vec<u8>,
    /// From the version to the last part that is signed, as it was written.
    hashed: Vec<u8>,
    signed_parts: Vec<Subpacket>,
    unsigned_parts: Vec<Subpacket>,
    /// The signature in it: of those that it holds the first, signed ones before others.
    embedded: Option<SignaturePacket>,
    digest_prefix: [u8; 2],
    value: SignatureValue,
}

/// Whether a signature stands in a packet of its own, or within another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignaturePlace {
    Packet,
    Embedded,
}

impl SignatureKind {
    fn of_number(number: u8) -> Self {
        match number {
            0x00 => Self::Binary,
            0x10..=0x13 => Self::Certification,
            0x18 => Self::SubkeyBinding,
            0x19 => Self::PrimaryBinding,
            0x1f => Self::DirectKey,
            0x20 => Self::KeyRevocation,
            0x28 => Self::SubkeyRevocation,
            0x30 => Self::CertificationRevocation,
            _ => Self::Other,
        }
    }
}

impl SignaturePacket {
    pub(super) fn parse(body: &[u8], place: SignaturePlace) -> Result<Self, PacketError> {
        let mut fields = PacketFields::new(body);
        let version = match fields.take_byte()? {
            4 => KeyVersion::V4,
            6 => KeyVersion::V6,
            version @ (2 | 3) => {
                // What follows is the length of what is hashed.
                let [_, kind] = fields.take_array::<2>()?;
                return Ok(Self::OtherVersion { version, kind: Some(SignatureKind::of_number(kind)) });
            }
            version => return Ok(Self::OtherVersion { version, kind: None }),
        };
        let [kind, key_algorithm, hash] = fields.take_array::<3>()?;
        let (kind, hash) = (SignatureKind::of_number(kind), HashKind::of_number(hash));
        // Nothing else is ever put into another signature, and none of those holds a further one.
        if place == SignaturePlace::Embedded && kind != SignatureKind::PrimaryBinding {
            return Err(PacketError::Subpacket(SubpacketContent::EMBEDDED));
        }
        let signed_parts = parse_subpackets(take_area(&mut fields, version)?)?;
        let hashed = body.get(..body.len().saturating_sub(fields.remaining())).unwrap_or_default().to_vec();
        let unsigned_parts = parse_subpackets(take_area(&mut fields, version)?)?;
        let embedded = parse_embedded(signed_parts.iter().chain(&unsigned_parts), place)?;
        let digest_prefix = fields.take_array()?;
        let salt = match version {
            KeyVersion::V4 => Vec::new(),
            KeyVersion::V6 => {
                let length = usize::from(fields.take_byte()?);
                if hash.salt_length() != Some(length) {
                    return Err(PacketError::Salt);
                }
                fields.take(length)?.to_vec()
            }
        };
        let value = SignatureValue::parse(key_algorithm, fields)?;
        Ok(Self::Known(Box::new(KnownSignature {
            version,
            kind,
            key_algorithm,
            hash,
            salt,
            hashed,
            signed_parts,
            unsigned_parts,
            embedded,
            digest_prefix,
            value,
        })))
    }

    /// The signature, if it is of a version that can be judged.
    pub(super) fn known(&self) -> Result<&KnownSignature, VerifyFailure> {
        match self {
            Self::Known(known) => Ok(known),
            Self::OtherVersion { version, .. } => {
                Err(VerifyFailure::Unsupported(format!("it is of version {version}; 4 and 6 are read")))
            }
        }
    }

    pub(super) fn kind(&self) -> Option<SignatureKind> {
        match self {
            Self::Known(known) => Some(known.kind),
            Self::OtherVersion { kind, .. } => *kind,
        }
    }

    /// Why an owner revoked a key, as far as it is reported.
    pub(super) fn revocation_reason(&self) -> &[u8] {
        let parts = self.known().map(|known| known.signed_parts.as_slice()).unwrap_or_default();
        parts.iter().find_map(Subpacket::revocation_reason).unwrap_or_default()
    }
}

/// The first of the signatures that stand in parts, each of which must be sound.
fn parse_embedded<'a>(
    parts: impl Iterator<Item = &'a Subpacket>,
    place: SignaturePlace,
) -> Result<Option<SignaturePacket>, PacketError> {
    let mut first = None;
    for part in parts {
        let SubpacketContent::Embedded(body) = &part.content else { continue };
        let signature = match place {
            SignaturePlace::Packet => SignaturePacket::parse(body, SignaturePlace::Embedded)?,
            SignaturePlace::Embedded => return Err(PacketError::Subpacket(SubpacketContent::EMBEDDED)),
        };
        first.get_or_insert(signature);
    }
    Ok(first)
}

/// The area of parts that comes next. Its length has two bytes in version 4, and four in version 6.
fn take_area<'a>(fields: &mut PacketFields<'a>, version: KeyVersion) -> Result<&'a [u8], PacketError> {
    let length = match version {
        KeyVersion::V4 => fields.take_u16()?.into(),
        KeyVersion::V6 => fields.take_length()?,
    };
    fields.take(length)
}

impl KnownSignature {
    pub(super) fn kind(&self) -> SignatureKind {
        self.kind
    }

    pub(super) fn hash(&self) -> HashKind {
        self.hash
    }

    /// In seconds since 1970.
    pub(super) fn created(&self) -> Option<u32> {
        self.signed_content(
            |content| if let SubpacketContent::Created(seconds) = content { Some(*seconds) } else { None },
        )
    }

    /// How many seconds after its creation the signature ends; 0 for never.
    pub(super) fn lifetime(&self) -> u32 {
        let found = self.signed_content(|content| {
            if let SubpacketContent::SignatureLifetime(seconds) = content { Some(*seconds) } else { None }
        });
        found.unwrap_or_default()
    }

    /// How many seconds after its creation the key ends that this is about; 0 for never.
    pub(super) fn key_lifetime(&self) -> u32 {
        let found = self.signed_content(|content| {
            if let SubpacketContent::KeyLifetime(seconds) = content { Some(*seconds) } else { None }
        });
        found.unwrap_or_default()
    }

    /// Whether the key that this is about was made for signing, where it is said what it was made for.
    pub(super) fn allows_signing(&self) -> Option<bool> {
        self.signed_content(
            |content| if let SubpacketContent::KeyFlags { signing } = content { Some(*signing) } else { None },
        )
    }

    /// The signature within this one. It proves itself: also where it is not signed it cannot be another.
    pub(super) fn embedded(&self) -> Option<&SignaturePacket> {
        self.embedded.as_ref()
    }

    /// The fingerprints and the ids of the keys that are said to have made it. They say only where to look.
    pub(super) fn issuer_fingerprints(&self) -> impl Iterator<Item = &[u8]> {
        self.all_parts().filter_map(|part| {
            if let SubpacketContent::IssuerFingerprint { fingerprint, .. } = &part.content {
                Some(fingerprint.as_slice())
            } else {
                None
            }
        })
    }

    pub(super) fn issuer_ids(&self) -> impl Iterator<Item = &[u8]> {
        self.all_parts().filter_map(|part| {
            if let SubpacketContent::IssuerId(id) = &part.content { Some(id.as_slice()) } else { None }
        })
    }

    /// Whether the signature says that this key made it, or does not say which did.
    pub(super) fn may_be_by(&self, key: &PublicKeyPacket) -> bool {
        let unnamed = self.issuer_fingerprints().next().is_none() && self.issuer_ids().next().is_none();
        unnamed
            || self.issuer_ids().any(|id| id == key.key_id())
            || self.issuer_fingerprints().any(|print| print == key.fingerprint())
    }

    /// What the signature marks as not to be passed over, and is not understood here (RFC 9580, 5.2.3.7).
    pub(super) fn unknown_critical_part(&self) -> Option<String> {
        let unknown = |part: &&Subpacket| part.critical && part.content == SubpacketContent::Unknown;
        let found = self.signed_parts.iter().find(unknown);
        found.map(|part| format!("it has a critical part of the unknown kind {}", part.kind))
    }

    pub(super) fn has_critical_note(&self) -> bool {
        self.signed_parts.iter().any(|part| part.critical && part.content == SubpacketContent::Notation)
    }

    /// Whether two signatures differ in nothing that is signed or verified.
    #[cfg(test)]
    pub(super) fn signs_as(&self, other: &Self) -> bool {
        self.hashed == other.hashed && self.digest_prefix == other.digest_prefix && self.value == other.value
    }

    /// Whether the key signed what stands here, in this order.
    pub(super) fn verify(&self, key: &PublicKeyPacket, signed: &[&[u8]]) -> Result<(), VerifyFailure> {
        if self.version != key.version() || !key.makes_signatures_of(self.key_algorithm) || self.names_other_version() {
            return Err(VerifyFailure::Mismatched);
        }
        if let Some(what) = key.unsupported_reason().or_else(|| self.unknown_critical_part()) {
            return Err(VerifyFailure::Unsupported(what));
        }
        let digest = self.digest_of(signed)?;
        // Only a hint in version 4, but nobody writes another; in version 6 it must be checked (RFC 9580, 5.2.3).
        if digest.as_ref().first_chunk::<2>() != Some(&self.digest_prefix) {
            return Err(VerifyFailure::Mismatched);
        }
        key.verify_digest(self.hash, &digest, &self.value)
    }

    /// What the key signs (RFC 9580, 5.2.4).
    fn digest_of(&self, signed: &[&[u8]]) -> Result<Digest, VerifyFailure> {
        let unsupported = || VerifyFailure::Unsupported(format!("it is by {}, which is not read", self.hash));
        let mut context = Context::new(self.hash.algorithm().ok_or_else(unsupported)?);
        context.update(&self.salt);
        for bytes in signed {
            context.update(bytes);
        }
        context.update(&self.hashed);
        context.update(&[self.version.number(), 0xff]);
        let length = u32::try_from(self.hashed.len()).map_err(|_| VerifyFailure::Mismatched)?;
        context.update(&length.to_be_bytes());
        Ok(context.finish())
    }

    /// A fingerprint of another version than the signature's makes it invalid (RFC 9580, 5.2.3.35).
    fn names_other_version(&self) -> bool {
        let ours = self.version.number();
        self.signed_parts.iter().any(
            |part| matches!(&part.content, SubpacketContent::IssuerFingerprint { version, .. } if *version != ours),
        )
    }

    /// What the first part of a kind says, of those that are signed.
    fn signed_content<T>(&self, of: impl Fn(&SubpacketContent) -> Option<T>) -> Option<T> {
        self.signed_parts.iter().find_map(|part| of(&part.content))
    }

    fn all_parts(&self) -> impl Iterator<Item = &Subpacket> {
        self.signed_parts.iter().chain(&self.unsigned_parts)
    }
}
