//! Public keys (RFC 9580, 5.5.2), and what is signed by them.

use super::hash::HashKind;
use super::packet::{PacketError, PacketFields};
use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256K1_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    EcdsaVerificationAlgorithm, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// The prefix that says of a point of Ed25519 in a number that it is as the curve itself has it (RFC 9580, 11.2).
const NATIVE_POINT: u8 = 0x40;

/// The versions of keys and signatures that are read. A key makes signatures of its own version only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyVersion {
    V4,
    V6,
}

/// The numbers of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignatureValue {
    /// Of RSA.
    Integer(Vec<u8>),
    /// Of ECDSA, and of Ed25519 in its older form.
    Pair(Vec<u8>, Vec<u8>),
    /// Of Ed25519.
    Native([u8; 64]),
    /// Of an algorithm that nothing is verified by.
    Opaque,
}

/// A public key, of a certificate or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicKeyPacket {
    version: KeyVersion,
    created: u32,
    algorithm: u8,
    material: KeyMaterial,
    /// What of the key is hashed into its fingerprint and into signatures about it.
    hashed: Vec<u8>,
    fingerprint: Vec<u8>,
}

/// What signatures are verified by.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    Ecdsa {
        curve: EcdsaCurve,
        point: Vec<u8>,
    },
    Ed25519([u8; 32]),
    /// A key that nothing is verified by, by its name: it encrypts, or is not known here. Its certificate is read all
    /// the same, because other keys of it may sign.
    Opaque(&'static str),
    /// The same, and the algorithm has no name here.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EcdsaCurve {
    P256,
    P384,
    P521,
    Secp256k1,
}

/// Why a signature does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VerifyFailure {
    /// It is not of these bytes and this key.
    Mismatched,
    /// Nobody here can judge it.
    Unsupported(String),
}

impl KeyVersion {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }
}

impl SignatureValue {
    pub(super) fn parse(algorithm: u8, mut fields: PacketFields<'_>) -> Result<Self, PacketError> {
        let value = match algorithm {
            1 | 3 => Self::Integer(fields.take_integer()?.to_vec()),
            19 | 22 => Self::Pair(fields.take_integer()?.to_vec(), fields.take_integer()?.to_vec()),
            27 => Self::Native(fields.take_array()?),
            _ => return Ok(Self::Opaque),
        };
        fields.finish()?;
        Ok(value)
    }
}

impl PublicKeyPacket {
    pub(super) fn parse(body: &[u8]) -> Result<Self, PacketError> {
        let mut fields = PacketFields::new(body);
        let version = match fields.take_byte()? {
            4 => KeyVersion::V4,
            6 => KeyVersion::V6,
            other => return Err(PacketError::KeyVersion(other)),
        };
        let created = fields.take_u32()?;
        let algorithm = fields.take_byte()?;
        let material = match version {
            KeyVersion::V4 => fields.take_rest(),
            KeyVersion::V6 => {
                let length = fields.take_length()?;
                fields.take(length)?
            }
        };
        fields.finish()?;
        let mut hashed = Vec::with_capacity(body.len().saturating_add(5));
        match version {
            KeyVersion::V4 => {
                hashed.push(0x99);
                hashed.extend(u16::try_from(body.len()).map_err(|_| PacketError::KeyMaterial)?.to_be_bytes());
            }
            KeyVersion::V6 => {
                hashed.push(0x9b);
                hashed.extend(u32::try_from(body.len()).map_err(|_| PacketError::KeyMaterial)?.to_be_bytes());
            }
        }
        hashed.extend_from_slice(body);
        let fingerprint = match version {
            KeyVersion::V4 => digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &hashed),
            KeyVersion::V6 => digest::digest(&digest::SHA256, &hashed),
        };
        let fingerprint = fingerprint.as_ref().to_vec();
        Ok(Self {
            version,
            created,
            algorithm,
            material: KeyMaterial::parse(algorithm, material)?,
            hashed,
            fingerprint,
        })
    }

    pub(super) fn version(&self) -> KeyVersion {
        self.version
    }

    /// In seconds since 1970.
    pub(super) fn created(&self) -> u32 {
        self.created
    }

    /// What signatures about the key hash of it.
    pub(super) fn hashed(&self) -> &[u8] {
        &self.hashed
    }

    pub(super) fn fingerprint(&self) -> &[u8] {
        &self.fingerprint
    }

    /// Eight bytes of the fingerprint, by which old signatures name their key.
    pub(super) fn key_id(&self) -> &[u8] {
        let id = match self.version {
            KeyVersion::V4 => self.fingerprint.last_chunk::<8>(),
            KeyVersion::V6 => self.fingerprint.first_chunk::<8>(),
        };
        id.map(<[u8; 8]>::as_slice).unwrap_or_default()
    }

    /// Whether signatures of the algorithm can be by a key of this one's. RSA has two numbers for the same.
    pub(super) fn makes_signatures_of(&self, algorithm: u8) -> bool {
        self.algorithm == algorithm || (matches!(self.algorithm, 1 | 3) && matches!(algorithm, 1 | 3))
    }

    /// Why nothing can be verified by the key.
    pub(super) fn unsupported_reason(&self) -> Option<String> {
        match &self.material {
            KeyMaterial::Opaque(name) => Some(format!("keys of the kind {name} are not read")),
            KeyMaterial::Unknown => Some(format!("keys of the algorithm {} are not read", self.algorithm)),
            KeyMaterial::Rsa { modulus, .. } => {
                let unused = modulus.first().map_or(0, |byte| byte.leading_zeros());
                let bits = modulus.len().saturating_mul(8).saturating_sub(unused as usize);
                (!(2048..=8192).contains(&bits))
                    .then(|| format!("the RSA key has {bits} bits; 2048 to 8192 are accepted"))
            }
            KeyMaterial::Ecdsa { .. } | KeyMaterial::Ed25519(_) => None,
        }
    }

    /// Whether the value is this key's signature of the digest.
    pub(super) fn verify_digest(
        &self,
        hash: HashKind,
        digest: &Digest,
        value: &SignatureValue,
    ) -> Result<(), VerifyFailure> {
        match (&self.material, value) {
            (KeyMaterial::Rsa { modulus, exponent }, SignatureValue::Integer(number)) => {
                let parameters = hash.rsa_parameters().ok_or_else(|| {
                    VerifyFailure::Unsupported(format!("it is by RSA with {hash}, which is not read"))
                })?;
                let padded = padded_to(number, modulus.len()).ok_or(VerifyFailure::Mismatched)?;
                let key = RsaPublicKeyComponents { n: modulus, e: exponent }.to_parsed_public_key(parameters);
                let verified = key.map_err(|_| VerifyFailure::Mismatched)?.verify_digest_sig(digest, &padded);
                verified.map_err(|_| VerifyFailure::Mismatched)
            }
            (KeyMaterial::Ecdsa { curve, point }, SignatureValue::Pair(first, second)) => {
                curve.verify_digest(point, hash, digest, first, second)
            }
            (KeyMaterial::Ed25519(point), SignatureValue::Pair(first, second)) => {
                let value = padded_pair(first, second, 32).ok_or(VerifyFailure::Mismatched)?;
                verify_ed25519(point, hash, digest, &value)
            }
            (KeyMaterial::Ed25519(point), SignatureValue::Native(value)) => verify_ed25519(point, hash, digest, value),
            (KeyMaterial::Opaque(_) | KeyMaterial::Unknown, _) => {
                Err(VerifyFailure::Unsupported(self.unsupported_reason().unwrap_or_default()))
            }
            (KeyMaterial::Rsa { .. } | KeyMaterial::Ecdsa { .. } | KeyMaterial::Ed25519(_), _) => {
                Err(VerifyFailure::Mismatched)
            }
        }
    }
}

impl KeyMaterial {
    fn parse(algorithm: u8, bytes: &[u8]) -> Result<Self, PacketError> {
        let mut fields = PacketFields::new(bytes);
        let material = match algorithm {
            1 | 3 => {
                let (modulus, exponent) = (fields.take_integer()?.to_vec(), fields.take_integer()?.to_vec());
                if modulus.is_empty() || exponent.is_empty() {
                    return Err(PacketError::KeyMaterial);
                }
                Self::Rsa { modulus, exponent }
            }
            19 => {
                let curve = match curve_identifier(&mut fields)? {
                    [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07] => EcdsaCurve::P256,
                    [0x2b, 0x81, 0x04, 0x00, 0x22] => EcdsaCurve::P384,
                    [0x2b, 0x81, 0x04, 0x00, 0x23] => EcdsaCurve::P521,
                    [0x2b, 0x81, 0x04, 0x00, 0x0a] => EcdsaCurve::Secp256k1,
                    [0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, _] => {
                        return Ok(Self::Opaque("ECDSA over a curve of Brainpool"));
                    }
                    _ => return Ok(Self::Opaque("ECDSA over an unknown curve")),
                };
                let point = fields.take_integer()?.to_vec();
                if point.first() != Some(&0x04) || point.len() != curve.point_length() {
                    return Err(PacketError::KeyMaterial);
                }
                Self::Ecdsa { curve, point }
            }
            22 => {
                let [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01] = curve_identifier(&mut fields)? else {
                    return Ok(Self::Opaque("EdDSA over an unknown curve"));
                };
                let point = fields.take_integer()?.strip_prefix(&[NATIVE_POINT]).ok_or(PacketError::KeyMaterial)?;
                Self::Ed25519(point.try_into().map_err(|_| PacketError::KeyMaterial)?)
            }
            27 => Self::Ed25519(fields.take_array()?),
            2 => return Ok(Self::Opaque("RSA for encryption")),
            16 | 20 => return Ok(Self::Opaque("Elgamal")),
            17 => return Ok(Self::Opaque("DSA")),
            18 => return Ok(Self::Opaque("ECDH")),
            25 => return Ok(Self::Opaque("X25519")),
            26 => return Ok(Self::Opaque("X448")),
            28 => return Ok(Self::Opaque("Ed448")),
            _ => return Ok(Self::Unknown),
        };
        fields.finish()?;
        Ok(material)
    }
}

/// The object identifier of a curve. The lengths 0 and 255 are reserved (RFC 9580, 9.2).
fn curve_identifier<'a>(fields: &mut PacketFields<'a>) -> Result<&'a [u8], PacketError> {
    match fields.take_byte()? {
        0 | 255 => Err(PacketError::KeyMaterial),
        length => fields.take(length.into()),
    }
}

impl EcdsaCurve {
    /// How many bytes a coordinate has, and each number of a signature.
    fn field_length(self) -> usize {
        match self {
            Self::P256 | Self::Secp256k1 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// How many bytes a point has that is not compressed.
    fn point_length(self) -> usize {
        self.field_length().saturating_mul(2).saturating_add(1)
    }

    /// The algorithm with the digest that is as long as a signature by the curve takes.
    fn verification(self) -> (&'static EcdsaVerificationAlgorithm, &'static digest::Algorithm) {
        match self {
            Self::P256 => (&ECDSA_P256_SHA256_FIXED, &digest::SHA256),
            Self::P384 => (&ECDSA_P384_SHA384_FIXED, &digest::SHA384),
            Self::P521 => (&ECDSA_P521_SHA512_FIXED, &digest::SHA512),
            Self::Secp256k1 => (&ECDSA_P256K1_SHA256_FIXED, &digest::SHA256),
        }
    }

    fn verify_digest(
        self,
        point: &[u8],
        hash: HashKind,
        digest: &Digest,
        first: &[u8],
        second: &[u8],
    ) -> Result<(), VerifyFailure> {
        let (algorithm, natural) = self.verification();
        // A signature by a shorter digest is none (RFC 9580, 5.2.3.2). Of a longer one ECDSA takes the left part, and
        // knows nothing of the algorithm: which one it was by is part of what was hashed.
        let Some(left) = digest.as_ref().get(..natural.output_len()) else {
            return Err(VerifyFailure::Unsupported(format!("it is by {hash}, which is too short for its key")));
        };
        let digest = Digest::import_less_safe(left, natural).map_err(|_| VerifyFailure::Mismatched)?;
        let value = padded_pair(first, second, self.field_length()).ok_or(VerifyFailure::Mismatched)?;
        let key = UnparsedPublicKey::new(algorithm, point);
        key.verify_digest(&digest, &value).map_err(|_| VerifyFailure::Mismatched)
    }
}

/// The digest is what Ed25519 signs, and must have 256 bits at least (RFC 9580, 5.2.3.3).
fn verify_ed25519(point: &[u8; 32], hash: HashKind, digest: &Digest, value: &[u8]) -> Result<(), VerifyFailure> {
    if digest.as_ref().len() < 32 {
        return Err(VerifyFailure::Unsupported(format!("it is by {hash}, which is too short for its key")));
    }
    let key = UnparsedPublicKey::new(&ED25519, point);
    key.verify(digest.as_ref(), value).map_err(|_| VerifyFailure::Mismatched)
}

/// The number with zeros before it, which it is written without. `None` where it is longer.
fn padded_to(number: &[u8], length: usize) -> Option<Vec<u8>> {
    let zeros = length.checked_sub(number.len())?;
    let mut padded = vec![0; zeros];
    padded.extend_from_slice(number);
    Some(padded)
}

fn padded_pair(first: &[u8], second: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut both = padded_to(first, length)?;
    both.extend(padded_to(second, length)?);
    Some(both)
}
