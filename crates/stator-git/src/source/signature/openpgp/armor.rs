//! Armour: packets written as text (RFC 9580, 6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a block in armour says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArmorLabel {
    PublicKey,
    PrivateKey,
    Signature,
    Other,
}

/// A block in armour, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArmorBlock {
    pub(super) label: ArmorLabel,
    pub(super) bytes: Vec<u8>,
    /// What the checksum says of the bytes. It need not be there (RFC 9580, 6.1).
    pub(super) checksum: ArmorChecksum,
}

/// Whether the bytes of a block are those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArmorChecksum {
    Absent,
    Right,
    Wrong,
}

/// Why a text is no block in armour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArmorError {
    #[error("it does not begin as an armour does")]
    Begin,
    #[error("there is no empty line after the headers of its armour")]
    Headers,
    #[error("its armour has no end, or that of another")]
    End,
    #[error("its armour is not Base64")]
    Base64,
}

/// The blocks in armour of a text, with the line each begins in.
pub(super) fn armored_blocks(text: &str) -> Vec<(usize, &str)> {
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

/// What a block says it is, by its first line.
pub(super) fn armor_label(block: &str) -> Result<ArmorLabel, ArmorError> {
    let first = block.lines().next().unwrap_or_default();
    Ok(match label_within(first, "-----BEGIN ").ok_or(ArmorError::Begin)? {
        "PGP PUBLIC KEY BLOCK" => ArmorLabel::PublicKey,
        "PGP PRIVATE KEY BLOCK" => ArmorLabel::PrivateKey,
        "PGP SIGNATURE" => ArmorLabel::Signature,
        _ => ArmorLabel::Other,
    })
}

/// The block that the text begins with. What follows its end is not looked at.
pub(super) fn decode_armor(block: &str) -> Result<ArmorBlock, ArmorError> {
    let label = armor_label(block)?;
    let mut lines = block.lines().map(str::trim_end);
    let begin = lines.next().and_then(|line| label_within(line, "-----BEGIN ")).ok_or(ArmorError::Begin)?;
    loop {
        match lines.next() {
            Some("") => break,
            Some(header) if header.contains(": ") || header.ends_with(':') => {}
            Some(_) | None => return Err(ArmorError::Headers),
        }
    }
    let (mut encoded, mut written) = (String::new(), None);
    loop {
        let line = lines.next().ok_or(ArmorError::End)?;
        if line.starts_with('-') {
            if label_within(line, "-----END ") != Some(begin) {
                return Err(ArmorError::End);
            }
            break;
        }
        if written.is_some() && !line.is_empty() {
            return Err(ArmorError::Base64);
        }
        // No line of data begins with padding and goes on.
        match line.strip_prefix('=') {
            Some(checksum) if checksum.len() == 4 => written = Some(checksum),
            Some(_) | None => encoded.push_str(line),
        }
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| ArmorError::Base64)?;
    let checksum = match written {
        None => ArmorChecksum::Absent,
        Some(written) => match STANDARD.decode(written).map_err(|_| ArmorError::Base64)?.as_slice() {
            [high, middle, low] if u32::from_be_bytes([0, *high, *middle, *low]) == crc24(&bytes) => {
                ArmorChecksum::Right
            }
            _ => ArmorChecksum::Wrong,
        },
    };
    Ok(ArmorBlock { label, bytes, checksum })
}

fn label_within<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    line.trim_end().strip_prefix(before)?.strip_suffix("-----")
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
