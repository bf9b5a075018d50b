//! Certificates (RFC 9580, 10.1): a key with what its owner says of it.

use super::key::{PublicKeyPacket, VerifyFailure};
use super::packet::{PacketError, PacketKind, RawPacket, split_packets};
use super::signature::{KnownSignature, SignatureKind, SignaturePacket, SignaturePlace};

/// A key, its subkeys, and all signatures about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenPgpCertificate {
    pub(super) primary: PublicKeyPacket,
    pub(super) revocations: Vec<SignaturePacket>,
    pub(super) direct: Vec<SignaturePacket>,
    pub(super) users: Vec<CertifiedUser>,
    pub(super) subkeys: Vec<BoundSubkey>,
}

/// A user id and what certifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertifiedUser {
    pub(super) id: Vec<u8>,
    pub(super) signatures: Vec<SignaturePacket>,
}

/// A subkey and what binds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BoundSubkey {
    pub(super) key: PublicKeyPacket,
    pub(super) signatures: Vec<SignaturePacket>,
}

/// Why bytes are no certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("is damaged or not a key; export it with `gpg --armor --export KEY` ({0})")]
    Damaged(#[from] PacketError),
    #[error("is a private key; remove it from the secret and put the public one there")]
    PrivateKey,
    #[error("is a revocation by itself; import it with GnuPG and export the key with it")]
    LoneRevocation,
    #[error("holds no public key; export it with `gpg --armor --export KEY`")]
    NoKey,
    #[error("has a revocation out of place; import it with GnuPG and export the key again")]
    MisplacedRevocation,
    #[error("has a statement on its key that is not its owner's, or is damaged; export the key again")]
    ForeignStatement,
}

/// A packet of a certificate, read.
enum CertificatePacket {
    Signature(SignaturePacket),
    PrimaryKey(PublicKeyPacket),
    Subkey(PublicKeyPacket),
    UserId(Vec<u8>),
    UserAttribute,
    Other,
}

/// What the next signature of a certificate is about. Packets of a kind stand together, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CertificateSection {
    Primary,
    User,
    Attribute,
    Subkey,
    /// What stands out of this order belongs to nothing, up to the next key.
    Elsewhere,
}

/// All certificates of a keyring.
pub(super) fn parse_certificates(bytes: &[u8]) -> Result<Vec<OpenPgpCertificate>, CertificateError> {
    let raw = split_packets(bytes)?;
    // Also where it follows a public key: nobody wants it in a secret that is read to verify.
    if raw.iter().any(|packet| packet.kind == PacketKind::SecretKey) {
        return Err(CertificateError::PrivateKey);
    }
    let packets = raw.iter().map(CertificatePacket::parse).collect::<Result<Vec<_>, _>>()?;
    match packets.first() {
        Some(CertificatePacket::PrimaryKey(_)) => {}
        Some(CertificatePacket::Signature(_)) => return Err(CertificateError::LoneRevocation),
        Some(
            CertificatePacket::Subkey(_)
            | CertificatePacket::UserId(_)
            | CertificatePacket::UserAttribute
            | CertificatePacket::Other,
        )
        | None => return Err(CertificateError::NoKey),
    }
    let certificates = join_packets(packets)?;
    for certificate in &certificates {
        certificate.check_subkeys()?;
        certificate.check_statements()?;
    }
    Ok(certificates)
}

impl CertificatePacket {
    fn parse(raw: &RawPacket<'_>) -> Result<Self, PacketError> {
        Ok(match raw.kind {
            PacketKind::Signature => Self::Signature(SignaturePacket::parse(raw.body, SignaturePlace::Packet)?),
            PacketKind::PublicKey => Self::PrimaryKey(PublicKeyPacket::parse(raw.body)?),
            PacketKind::PublicSubkey => Self::Subkey(PublicKeyPacket::parse(raw.body)?),
            PacketKind::UserId => Self::UserId(raw.body.to_vec()),
            PacketKind::UserAttribute => Self::UserAttribute,
            PacketKind::SecretKey | PacketKind::Other => Self::Other,
        })
    }
}

/// Puts each signature to what it stands behind. No revocation is left out: what it was made against would pass.
fn join_packets(packets: Vec<CertificatePacket>) -> Result<Vec<OpenPgpCertificate>, CertificateError> {
    let mut certificates: Vec<OpenPgpCertificate> = Vec::new();
    let mut section = CertificateSection::Elsewhere;
    for packet in packets {
        section = match &packet {
            CertificatePacket::Signature(_) => section,
            CertificatePacket::PrimaryKey(_) => CertificateSection::Primary,
            CertificatePacket::UserId(_) if section <= CertificateSection::Attribute => CertificateSection::User,
            CertificatePacket::UserAttribute if section <= CertificateSection::Attribute => {
                CertificateSection::Attribute
            }
            CertificatePacket::Subkey(_) if section <= CertificateSection::Subkey => CertificateSection::Subkey,
            CertificatePacket::UserId(_)
            | CertificatePacket::UserAttribute
            | CertificatePacket::Subkey(_)
            | CertificatePacket::Other => CertificateSection::Elsewhere,
        };
        match packet {
            CertificatePacket::PrimaryKey(primary) => certificates.push(OpenPgpCertificate {
                primary,
                revocations: Vec::new(),
                direct: Vec::new(),
                users: Vec::new(),
                subkeys: Vec::new(),
            }),
            CertificatePacket::Signature(signature) => place_signature(certificates.last_mut(), section, signature)?,
            CertificatePacket::UserId(id) => {
                if let (CertificateSection::User, Some(certificate)) = (section, certificates.last_mut()) {
                    certificate.users.push(CertifiedUser { id, signatures: Vec::new() });
                }
            }
            CertificatePacket::Subkey(key) => {
                if let (CertificateSection::Subkey, Some(certificate)) = (section, certificates.last_mut()) {
                    certificate.subkeys.push(BoundSubkey { key, signatures: Vec::new() });
                }
            }
            CertificatePacket::UserAttribute | CertificatePacket::Other => {}
        }
    }
    Ok(certificates)
}

fn place_signature(
    certificate: Option<&mut OpenPgpCertificate>,
    section: CertificateSection,
    signature: SignaturePacket,
) -> Result<(), CertificateError> {
    let expected = match signature.kind() {
        Some(SignatureKind::KeyRevocation) => Some(CertificateSection::Primary),
        Some(SignatureKind::SubkeyRevocation) => Some(CertificateSection::Subkey),
        Some(
            SignatureKind::Binary
            | SignatureKind::Certification
            | SignatureKind::SubkeyBinding
            | SignatureKind::PrimaryBinding
            | SignatureKind::DirectKey
            | SignatureKind::CertificationRevocation
            | SignatureKind::Other,
        )
        | None => None,
    };
    if expected.is_some_and(|expected| expected != section) {
        return Err(CertificateError::MisplacedRevocation);
    }
    let Some(certificate) = certificate else { return Ok(()) };
    let place = match section {
        CertificateSection::Primary if expected.is_some() => Some(&mut certificate.revocations),
        CertificateSection::Primary => Some(&mut certificate.direct),
        CertificateSection::User => certificate.users.last_mut().map(|user| &mut user.signatures),
        CertificateSection::Subkey => certificate.subkeys.last_mut().map(|subkey| &mut subkey.signatures),
        CertificateSection::Attribute | CertificateSection::Elsewhere => None,
    };
    if let Some(place) = place {
        place.push(signature);
    }
    Ok(())
}

impl OpenPgpCertificate {
    fn check_subkeys(&self) -> Result<(), PacketError> {
        let same = self.subkeys.iter().all(|subkey| subkey.key.version() == self.primary.version());
        if same { Ok(()) } else { Err(PacketError::SubkeyVersion) }
    }

    /// What stands directly behind a key must be its owner's: else it may be a revocation that was damaged. Of a key
    /// that nothing is verified by this cannot be told, and no signature passes by it anyway.
    fn check_statements(&self) -> Result<(), CertificateError> {
        let own = self.direct.iter().all(|signature| self.own_direct(signature).is_ok());
        if own || self.primary.unsupported_reason().is_some() {
            Ok(())
        } else {
            Err(CertificateError::ForeignStatement)
        }
    }

    /// What the owner says of the key, if that is what the signature is.
    pub(super) fn own_direct<'a>(&self, signature: &'a SignaturePacket) -> Result<&'a KnownSignature, VerifyFailure> {
        let known = of_kind(signature, SignatureKind::DirectKey)?;
        self.check_issuer(known)?;
        known.verify(&self.primary, &[self.primary.hashed()])?;
        Ok(known)
    }

    /// What the owner says of a user id.
    pub(super) fn own_certification<'a>(
        &self,
        user: &[u8],
        signature: &'a SignaturePacket,
    ) -> Result<&'a KnownSignature, VerifyFailure> {
        let known = of_kind(signature, SignatureKind::Certification)?;
        self.check_issuer(known)?;
        let length = u32::try_from(user.len()).map_err(|_| VerifyFailure::Mismatched)?.to_be_bytes();
        known.verify(&self.primary, &[self.primary.hashed(), &[0xb4], &length, user])?;
        Ok(known)
    }

    /// What binds a subkey to its owner's key.
    pub(super) fn own_binding<'a>(
        &self,
        subkey: &PublicKeyPacket,
        signature: &'a SignaturePacket,
    ) -> Result<&'a KnownSignature, VerifyFailure> {
        let known = of_kind(signature, SignatureKind::SubkeyBinding)?;
        known.verify(&self.primary, &[self.primary.hashed(), subkey.hashed()])?;
        Ok(known)
    }

    /// Whether the subkey says itself that it belongs to its owner's key. Else a key of somebody else's could be
    /// claimed by binding it to one's own.
    pub(super) fn is_claimed_by(&self, subkey: &PublicKeyPacket, binding: &KnownSignature) -> bool {
        let back = binding.embedded().and_then(|back| of_kind(back, SignatureKind::PrimaryBinding).ok());
        back.is_some_and(|back| back.verify(subkey, &[self.primary.hashed(), subkey.hashed()]).is_ok())
    }

    /// Others certify keys too. To know that saves to compute it.
    fn check_issuer(&self, signature: &KnownSignature) -> Result<(), VerifyFailure> {
        if signature.may_be_by(&self.primary) { Ok(()) } else { Err(VerifyFailure::Mismatched) }
    }
}

fn of_kind(signature: &SignaturePacket, kind: SignatureKind) -> Result<&KnownSignature, VerifyFailure> {
    let known = signature.known()?;
    if known.kind() == kind { Ok(known) } else { Err(VerifyFailure::Mismatched) }
}
