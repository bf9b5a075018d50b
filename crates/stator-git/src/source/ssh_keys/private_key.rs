//! Private keys for SSH: every form that `ssh-keygen` writes and git hosts take.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigUint;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData, RsaKeypair};
use russh::keys::ssh_key::public::{KeyData, RsaPublicKey};
use russh::keys::ssh_key::{Algorithm, HashAlg, LineEnding, Mpint, PrivateKey, PublicKey};
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;
use std::sync::Arc;

/// A private key, ready to sign. Its `Debug` shows the public half's fingerprint.
#[derive(Clone)]
pub struct SshPrivateKey {
    pub(in crate::source) public: PublicKey,
    pub(in crate::source) key: SshSigningKey,
}

/// The private half.
#[derive(Clone)]
pub(in crate::source) enum SshSigningKey {
    /// Signed with by the library.
    Plain(Arc<PrivateKey>),
    /// Signed with by AWS-LC, as the library's own way has an open advisory.
    Rsa(Arc<RsaKeyPair>),
}

/// Why a private key cannot be used. Holds nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(in crate::source) enum SshKeyError {
    #[error("a private key")]
    NotPrivateKey,
    #[error("a private key but the public half")]
    PublicHalf,
    #[error("complete, or not a key at all")]
    Damaged,
    #[error("readable without the passphrase that it is encrypted with")]
    Encrypted,
    #[error("encrypted with the passphrase that `password` has")]
    WrongPassphrase,
    #[error("in a supported format")]
    UnsupportedFormat,
    #[error("a key of a supported kind")]
    UnsupportedKind,
}

impl SshKeyError {
    /// What to do about it.
    pub(in crate::source) fn fix(self) -> &'static str {
        match self {
            Self::NotPrivateKey => {
                "it begins with `-----BEGIN OPENSSH PRIVATE KEY-----` or the like; copy the whole file"
            }
            Self::PublicHalf => "take the file without `.pub`",
            Self::Damaged => "copy the whole file again, with all of its lines and the last line break",
            Self::Encrypted => "put the passphrase into the key `password`, or remove it with `ssh-keygen -p -f FILE`",
            Self::WrongPassphrase => "correct `password`; `ssh-keygen -y -f FILE` shows whether it is right",
            Self::UnsupportedFormat => "convert it to OpenSSH's format with `ssh-keygen -p -f FILE`",
            Self::UnsupportedKind => {
                "make one with `ssh-keygen -t ed25519`; RSA of 2048 to 8192 bits and ECDSA are supported too"
            }
        }
    }
}

/// A new Ed25519 key for reading a repository: the private half in OpenSSH's form, and the public half. `None` where the system
/// has no random numbers.
pub fn new_deploy_key(comment: &str) -> Option<(SecretString, String)> {
    let mut seed = [0; 32];
    aws_lc_rs::rand::fill(&mut seed).ok()?;
    let mut key = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
    key.set_comment(comment);
    let private = key.to_openssh(LineEnding::LF).ok()?;
    Some((SecretString::from(private.to_string()), key.public_key().to_openssh().ok()?))
}

impl SshPrivateKey {
    /// Reads a private key in OpenSSH's form, PKCS#8, PKCS#1 or SEC1.
    pub(in crate::source) fn read(text: &SecretString, passphrase: Option<&SecretString>) -> Result<Self, SshKeyError> {
        let text = text.expose_secret().trim();
        let begin = text.lines().map(str::trim).find(|line| line.starts_with("-----BEGIN "));
        let der = || pem_section(text).ok_or(SshKeyError::Damaged);
        match begin {
            None if text.starts_with("ssh-") || text.starts_with("ecdsa-") => Err(SshKeyError::PublicHalf),
            None if text.starts_with("PuTTY-") => Err(SshKeyError::UnsupportedFormat),
            None => Err(SshKeyError::NotPrivateKey),
            Some("-----BEGIN OPENSSH PRIVATE KEY-----") => {
                let key = PrivateKey::from_openssh(text).map_err(|_| SshKeyError::Damaged)?;
                if !key.is_encrypted() {
                    return Self::from_private_key(key);
                }
                let passphrase = passphrase.ok_or(SshKeyError::Encrypted)?;
                let key = key.decrypt(passphrase.expose_secret()).map_err(|_| SshKeyError::WrongPassphrase)?;
                Self::from_private_key(key)
            }
            Some("-----BEGIN PRIVATE KEY-----") => {
                let der = der()?;
                match RsaKeyPair::from_pkcs8(&der) {
                    Ok(pair) => Self::from_rsa_pair(pair),
                    Err(_) => Self::from_private_key(
                        russh::keys::pkcs8::decode_pkcs8(&der, None).map_err(|_| SshKeyError::Damaged)?,
                    ),
                }
            }
            Some("-----BEGIN EC PRIVATE KEY-----") if text.contains("ENCRYPTED") => Err(SshKeyError::UnsupportedFormat),
            Some("-----BEGIN EC PRIVATE KEY-----") => Self::from_private_key(
                russh::keys::pkcs8::decode_pkcs8(&der()?, None).map_err(|_| SshKeyError::Damaged)?,
            ),
            Some("-----BEGIN ENCRYPTED PRIVATE KEY-----") => {
                let passphrase = passphrase.ok_or(SshKeyError::Encrypted)?.expose_secret().as_bytes();
                match russh::keys::pkcs8::decode_pkcs8(&der()?, Some(passphrase)) {
                    Ok(key) => Self::from_private_key(key),
                    // RSA: decrypted, and then not read by the library.
                    Err(russh::keys::Error::UnknownAlgorithm(_)) => Err(SshKeyError::UnsupportedFormat),
                    Err(_) => Err(SshKeyError::WrongPassphrase),
                }
            }
            Some("-----BEGIN RSA PRIVATE KEY-----") if text.contains("ENCRYPTED") => {
                Err(SshKeyError::UnsupportedFormat)
            }
            Some("-----BEGIN RSA PRIVATE KEY-----") => {
                Self::from_rsa_pair(RsaKeyPair::from_der(&der()?).map_err(|_| SshKeyError::Damaged)?)
            }
            Some(line) if line.contains("PUBLIC KEY") => Err(SshKeyError::PublicHalf),
            Some(_) => Err(SshKeyError::NotPrivateKey),
        }
    }

    fn from_private_key(key: PrivateKey) -> Result<Self, SshKeyError> {
        if let KeypairData::Rsa(pair) = key.key_data() {
            let der = encode_pkcs1(pair).ok_or(SshKeyError::Damaged)?;
            return Self::from_rsa_pair(RsaKeyPair::from_der(&der).map_err(|_| SshKeyError::UnsupportedKind)?);
        }
        match key.algorithm() {
            Algorithm::Ed25519 | Algorithm::Ecdsa { .. } => {
                Ok(Self { public: key.public_key().clone(), key: SshSigningKey::Plain(Arc::new(key)) })
            }
            Algorithm::Dsa
            | Algorithm::Rsa { .. }
            | Algorithm::SkEcdsaSha2NistP256
            | Algorithm::SkEd25519
            | Algorithm::Other(_)
            | _ => Err(SshKeyError::UnsupportedKind),
        }
    }

    fn from_rsa_pair(pair: RsaKeyPair) -> Result<Self, SshKeyError> {
        let (n, e) = rsa_public_numbers(pair.public_key().as_ref()).ok_or(SshKeyError::Damaged)?;
        let (e, n) = (Mpint::from_positive_bytes(e), Mpint::from_positive_bytes(n));
        let public = RsaPublicKey::new(e, n).map_err(|_| SshKeyError::Damaged)?;
        Ok(Self { public: PublicKey::from(KeyData::Rsa(public)), key: SshSigningKey::Rsa(Arc::new(pair)) })
    }

    /// The public half, for messages.
    pub(in crate::source) fn fingerprint(&self) -> String {
        self.public.fingerprint(HashAlg::Sha256).to_string()
    }
}

impl fmt::Debug for SshPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

/// Signs logins with an RSA key.
pub(in crate::source) struct RsaSigner(pub(in crate::source) Arc<RsaKeyPair>);

/// Why no signature came of it.
#[derive(Debug, thiserror::Error)]
pub(in crate::source) enum RsaSignError {
    /// The connection is gone.
    #[error("the connection ended")]
    Gone(#[from] russh::SendError),
    /// The key cannot sign.
    #[error("the key cannot sign")]
    Key,
}

impl russh::Signer for RsaSigner {
    type Error = RsaSignError;

    async fn auth_sign(
        &mut self,
        _: &russh::keys::agent::AgentIdentity,
        hash: Option<HashAlg>,
        mut data: Vec<u8>,
    ) -> Result<Vec<u8>, RsaSignError> {
        let (name, padding): (&str, &'static dyn RsaEncoding) = match hash {
            Some(HashAlg::Sha256) => ("rsa-sha2-256", &RSA_PKCS1_SHA256),
            _ => ("rsa-sha2-512", &RSA_PKCS1_SHA512),
        };
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0.sign(padding, &SystemRandom::new(), &data, &mut signature).map_err(|_| RsaSignError::Key)?;
        // string(string(name) string(signature)), RFC 8332 section 3.
        let mut blob = Vec::new();
        for part in [name.as_bytes(), &signature] {
            blob.extend_from_slice(&u32::try_from(part.len()).map_err(|_| RsaSignError::Key)?.to_be_bytes());
            blob.extend_from_slice(part);
        }
        data.extend_from_slice(&u32::try_from(blob.len()).map_err(|_| RsaSignError::Key)?.to_be_bytes());
        data.extend_from_slice(&blob);
        Ok(data)
    }
}

/// The bytes of the first block of a PEM text, whatever its label.
fn pem_section(text: &str) -> Option<Vec<u8>> {
    let lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("-----BEGIN "));
    let body: SecretString = lines.skip(1).take_while(|line| !line.starts_with("-----END ")).collect::<String>().into();
    STANDARD.decode(body.expose_secret()).ok()
}

/// OpenSSH keeps of an RSA key what the others follow from; PKCS#1 (RFC 8017, A.1.2) wants them all.
fn encode_pkcs1(pair: &RsaKeypair) -> Option<Vec<u8>> {
    let number = |part: &Mpint| part.as_positive_bytes().map(BigUint::from_bytes_be);
    let (n, e) = (number(pair.public().n())?, number(pair.public().e())?);
    let (d, p) = (number(pair.private().d())?, number(pair.private().p())?);
    let (q, inverse) = (number(pair.private().q())?, number(pair.private().iqmp())?);
    let one = BigUint::from(1_u8);
    if p <= one || q <= one {
        return None;
    }
    let (dp, dq) = (&d % (&p - &one), &d % (&q - &one));
    let mut inside = Vec::new();
    for value in [BigUint::from(0_u8), n, e, d, p, q, dp, dq, inverse] {
        let mut bytes = value.to_bytes_be();
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            bytes.insert(0, 0);
        }
        encode_der(2, &bytes, &mut inside)?;
    }
    let mut der = Vec::new();
    encode_der(0x30, &inside, &mut der)?;
    Some(der)
}

fn encode_der(tag: u8, content: &[u8], to: &mut Vec<u8>) -> Option<()> {
    to.push(tag);
    // Lengths are as short as they can be, or the whole is refused.
    match u8::try_from(content.len()) {
        Ok(short) if short < 128 => to.push(short),
        Ok(short) => to.extend_from_slice(&[0x81, short]),
        Err(_) => {
            to.push(0x82);
            to.extend_from_slice(&u16::try_from(content.len()).ok()?.to_be_bytes());
        }
    }
    to.extend_from_slice(content);
    Some(())
}

/// Modulus and exponent of a PKCS#1 public key.
fn rsa_public_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
        let (first, rest) = der.split_first()?;
        let (length, rest) = rest.split_first()?;
        if *first != tag {
            return None;
        }
        let (length, rest) = if *length < 0x80 {
            (usize::from(*length), rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))?, rest)
        };
        rest.split_at_checked(length)
    }
    let (inside, _) = element(der, 0x30)?;
    let (n, rest) = element(inside, 2)?;
    let (e, _) = element(rest, 2)?;
    Some((n, e))
}
