//! The parts of a signature (RFC 9580, 5.2.3.7), as far as anything is judged by them.

use super::packet::{PacketError, PacketFields, two_byte_length};

/// One part of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subpacket {
    pub(super) kind: u8,
    /// Whether who does not understand it must not accept the signature.
    pub(super) critical: bool,
    pub(super) content: SubpacketContent,
}

/// What a part says. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SubpacketContent {
    Created(u32),
    SignatureLifetime(u32),
    KeyLifetime(u32),
    IssuerId([u8; 8]),
    IssuerFingerprint {
        version: u8,
        fingerprint: Vec<u8>,
    },
    KeyFlags {
        signing: bool,
    },
    RevocationReason(Vec<u8>),
    /// The body of a signature.
    Embedded(Vec<u8>),
    Notation,
    /// Understood, and nothing is judged by it.
    Irrelevant,
    Unknown,
}

impl SubpacketContent {
    /// The kind of a part that is a signature.
    pub(super) const EMBEDDED: u8 = 32;

    /// A key of this flag may sign data.
    const SIGNING: u8 = 0x02;

    fn parse(kind: u8, mut fields: PacketFields<'_>) -> Result<Self, PacketError> {
        let content = match kind {
            2 => Self::Created(fields.take_u32()?),
            3 => Self::SignatureLifetime(fields.take_u32()?),
            9 => Self::KeyLifetime(fields.take_u32()?),
            16 => Self::IssuerId(fields.take_array()?),
            20 => {
                fields.take_rest();
                Self::Notation
            }
            27 => {
                Self::KeyFlags { signing: fields.take_rest().first().is_some_and(|first| first & Self::SIGNING != 0) }
            }
            29 => {
                // A code, which says less than the text that follows.
                fields.take_byte()?;
                Self::RevocationReason(fields.take_rest().to_vec())
            }
            Self::EMBEDDED => Self::Embedded(fields.take_rest().to_vec()),
            33 => {
                let version = fields.take_byte()?;
                let length = match version {
                    4 => 20,
                    5 | 6 => 32,
                    _ => return Err(PacketError::Subpacket(kind)),
                };
                Self::IssuerFingerprint { version, fingerprint: fields.take(length)?.to_vec() }
            }
            4..=7 | 11 | 12 | 21..=26 | 28 | 30 | 31 | 34 | 35 | 39 => {
                fields.take_rest();
                Self::Irrelevant
            }
            _ => {
                fields.take_rest();
                Self::Unknown
            }
        };
        fields.finish()?;
        Ok(content)
    }
}

impl Subpacket {
    pub(super) fn revocation_reason(&self) -> Option<&[u8]> {
        if let SubpacketContent::RevocationReason(reason) = &self.content { Some(reason) } else { None }
    }
}

/// All parts of an area.
pub(super) fn parse_subpackets(area: &[u8]) -> Result<Vec<Subpacket>, PacketError> {
    let mut fields = PacketFields::new(area);
    let mut parts = Vec::new();
    while !fields.is_empty() {
        let length = match fields.take_byte()? {
            short @ 0..=191 => short.into(),
            high @ 192..=254 => two_byte_length(high, fields.take_byte()?),
            255 => fields.take_length()?,
        };
        let mut part = PacketFields::new(fields.take(length)?);
        let first = part.take_byte()?;
        let (kind, critical) = (first & 0x7f, first & 0x80 != 0);
        parts.push(Subpacket { kind, critical, content: SubpacketContent::parse(kind, part)? });
    }
    Ok(parts)
}
