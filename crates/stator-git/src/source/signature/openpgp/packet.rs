//! Bytes taken apart into packets (RFC 9580, 4), and a packet's body into its fields.

/// The longest number that is read, in bits: GnuPG's own limit.
const MAX_INTEGER_BITS: u16 = 16_384;

/// Why bytes cannot be read as packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PacketError {
    /// Every packet begins with a byte of which the highest bit is set.
    #[error("no packet begins with the byte {0:#04x}")]
    Begin(u8),
    /// A field or a packet is longer than what is there.
    #[error("a packet is cut off")]
    CutOff,
    /// Partial and indeterminate lengths are for messages only (RFC 9580, 4.2.1.4).
    #[error("a packet does not say how long it is")]
    OpenLength,
    /// Bytes follow the last field.
    #[error("a packet is longer than its content")]
    Overlong,
    /// Of a kind that must not be passed over (RFC 9580, 4.3).
    #[error("a packet is of the unknown kind {0}")]
    UnknownPacket(u8),
    /// A key of another version than 4 and 6.
    #[error("a key of version {0} is not read")]
    KeyVersion(u8),
    /// A number is longer than any key has.
    #[error("a number of {0} bits is not read")]
    LongInteger(u16),
    /// What a key consists of does not fit its algorithm.
    #[error("a key is not of its own kind")]
    KeyMaterial,
    /// A subkey of another version than the key it belongs to (RFC 9580, 10.1).
    #[error("a subkey is of another version than its owner's key")]
    SubkeyVersion,
    /// A part of a signature is not as long as its kind has it.
    #[error("a part of the kind {0} in a signature is invalid")]
    Subpacket(u8),
    /// The salt of a signature of version 6 must be as long as its hash algorithm says (RFC 9580, 5.2.3).
    #[error("the salt of a signature is not as long as its hash algorithm has it")]
    Salt,
}

/// What a packet is, as far as certificates and signatures go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    Signature,
    SecretKey,
    PublicKey,
    UserId,
    UserAttribute,
    PublicSubkey,
    /// Known, and not part of a certificate.
    Other,
}

/// A packet whose body has not been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawPacket<'a> {
    pub(super) kind: PacketKind,
    pub(super) body: &'a [u8],
}

/// All packets, without those that mean nothing to who does not know them.
pub(super) fn split_packets(bytes: &[u8]) -> Result<Vec<RawPacket<'_>>, PacketError> {
    let mut fields = PacketFields::new(bytes);
    let mut packets = Vec::new();
    while !fields.is_empty() {
        let (tag, length) = packet_header(&mut fields)?;
        let body = fields.take(length)?;
        if let Some(kind) = packet_kind(tag)? {
            packets.push(RawPacket { kind, body });
        }
    }
    Ok(packets)
}

/// The tag of the next packet and how long its body is.
fn packet_header(fields: &mut PacketFields<'_>) -> Result<(u8, usize), PacketError> {
    let first = fields.take_byte()?;
    if first & 0x80 == 0 {
        return Err(PacketError::Begin(first));
    }
    if first & 0x40 == 0 {
        let length = match first & 0x03 {
            0 => fields.take_byte()?.into(),
            1 => fields.take_u16()?.into(),
            2 => fields.take_length()?,
            _ => return Err(PacketError::OpenLength),
        };
        return Ok(((first >> 2) & 0x0f, length));
    }
    let length = match fields.take_byte()? {
        short @ 0..=191 => short.into(),
        high @ 192..=223 => two_byte_length(high, fields.take_byte()?),
        224..=254 => return Err(PacketError::OpenLength),
        255 => fields.take_length()?,
    };
    Ok((first & 0x3f, length))
}

/// Lengths from 192 on have a byte that says so, and one more.
pub(super) fn two_byte_length(high: u8, low: u8) -> usize {
    (usize::from(high.saturating_sub(192)) << 8).saturating_add(192).saturating_add(low.into())
}

/// `None` for what may be passed over: markers, what a keyring notes of its own trust, padding, and what is unknown and
/// not critical.
fn packet_kind(tag: u8) -> Result<Option<PacketKind>, PacketError> {
    match tag {
        2 => Ok(Some(PacketKind::Signature)),
        5 | 7 => Ok(Some(PacketKind::SecretKey)),
        6 => Ok(Some(PacketKind::PublicKey)),
        13 => Ok(Some(PacketKind::UserId)),
        14 => Ok(Some(PacketKind::PublicSubkey)),
        17 => Ok(Some(PacketKind::UserAttribute)),
        1 | 3 | 4 | 8 | 9 | 11 | 18..=20 => Ok(Some(PacketKind::Other)),
        10 | 12 | 21 | 40.. => Ok(None),
        0 | 15 | 16 | 22..=39 => Err(PacketError::UnknownPacket(tag)),
    }
}

/// What of a packet has not been read yet.
#[derive(Debug)]
pub(super) struct PacketFields<'a> {
    rest: &'a [u8],
}

impl<'a> PacketFields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(PacketError::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn take_array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(PacketError::CutOff)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn take_byte(&mut self) -> Result<u8, PacketError> {
        let [byte] = self.take_array::<1>()?;
        Ok(byte)
    }

    pub(super) fn take_u16(&mut self) -> Result<u16, PacketError> {
        Ok(u16::from_be_bytes(self.take_array()?))
    }

    pub(super) fn take_u32(&mut self) -> Result<u32, PacketError> {
        Ok(u32::from_be_bytes(self.take_array()?))
    }

    /// A length in four bytes.
    pub(super) fn take_length(&mut self) -> Result<usize, PacketError> {
        usize::try_from(self.take_u32()?).map_err(|_| PacketError::CutOff)
    }

    /// A number (RFC 9580, 3.2) without leading zeros. Some programs write those, and count them as bits; GnuPG reads it.
    pub(super) fn take_integer(&mut self) -> Result<&'a [u8], PacketError> {
        let bits = self.take_u16()?;
        if bits > MAX_INTEGER_BITS {
            return Err(PacketError::LongInteger(bits));
        }
        Ok(without_leading_zeros(self.take(usize::from(bits.div_ceil(8)))?))
    }

    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Makes sure that nothing is left.
    pub(super) fn finish(self) -> Result<(), PacketError> {
        if self.rest.is_empty() { Ok(()) } else { Err(PacketError::Overlong) }
    }
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}
