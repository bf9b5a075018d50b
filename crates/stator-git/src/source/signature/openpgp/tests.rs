use super::super::object::SignedObject;
use super::certificate::CertificateError;
use super::packet::{PacketError, RawPacket};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

/// RFC 9580, A.1 and A.2: a key of Ed25519 in its older form, and its signature of `OpenPGP`.
const SAMPLE_V4_KEY: &str = "xjMEU/NfCxYJKwYBBAHaRw8BAQdAPwmJlL3ZFu1AUxl5NOSofIBzOhKA1i+AEJkuQ+47JAY=";
const SAMPLE_V4_SIGNATURE: &str = "iF4EABYIAAYFAlX5X5UACgkQjP3hIZeWWpr2IgD/VvkMypjiECY3vZg/2xbBMd/Sftgr9N3lYG4NdWrtM2YBANCcT6EVJ/A44PV/IgHYLy6iyQMyZfps60iehUuuYbQE";
/// RFC 9580, A.3: a certificate of version 6, with a key of Ed25519 and a subkey of X25519.
const SAMPLE_V6_CERTIFICATE: &str = "xioGY4d/4xsAAAAg+U2nu0jWCmHlZ3BqZYfQMxmZu52JGggkLq2EVD34laPCsQYfGwoAAABCBYJjh3/jAwsJBwUVCg4IDAIWAAKbAwIeCSIhBssYbE8GCaaX5NUt+mxyKwwfHifBilZwj2Ul7Ce62azJBScJAgcCAAAAAK0oIBA+LX0ifsDm185Ecds2v8lwgyU2kCcUmKfvBXbAf6rhRYWzuQOwEn7E/aLwIwRaLsdry0+VcallHhSu4RN6HWaEQsiPlR4zxP/TP7mhfVEe7XWPxtnMUMtf15OyA51YBM4qBmOHf+MZAAAAIIaTJINn+eUBXbki+PSAld2nhJh/LVmFsS+60WyvXkQ1wpsGGBsKAAAALAWCY4d/4wKbDCIhBssYbE8GCaaX5NUt+mxyKwwfHifBilZwj2Ul7Ce62azJAAAAAAQBIKbpGG2dWTX8j+VjFM21J0hqWlEg+bdiojWnKfA5AQpWUWtnNwDEM0g12vYxoWM8Y81W+bHBw805I8kWVkXU6vFOi+HWvv/ira7ofJu16NnoUkhclkUrk0mXubZvyl4GBg==";

/// Names of fixtures: of each there is a key, and a commit that it signed.
const SIGNED: [&str; 10] =
    ["rsa", "ed", "owner", "short", "nistp256", "nistp384", "nistp521", "secp256k1", "sub", "old"];

fn data(name: &str) -> Vec<u8> {
    fs_err::read(format!("{}/tests/data/signatures/{name}", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap()
}

fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

fn armored(name: &str) -> Vec<u8> {
    decode_armor(std::str::from_utf8(&data(name)).unwrap()).unwrap().bytes
}

fn keyring(name: &str) -> OpenPgpKeyring {
    let mut keyring = OpenPgpKeyring::default();
    assert_eq!(keyring.add(&data(name)), Vec::<ArmorFault>::new());
    keyring
}

fn commit(name: &str) -> SignedObject {
    SignedObject { id: "0".repeat(40), raw: data(name) }
}

/// What a commit signs, and the body of the packet that signs it.
fn signed(name: &str) -> (Vec<u8>, Vec<u8>) {
    let commit = commit(name);
    let parts = commit.parts().unwrap();
    let armour = parts.signature.clone().unwrap();
    let bytes = decode_armor(std::str::from_utf8(&armour).unwrap()).unwrap().bytes;
    let packets = split_packets(&bytes).unwrap();
    let [packet] = packets.as_slice() else { panic!("{name} has {} packets", packets.len()) };
    (parts.payload.to_vec(), packet.body.to_vec())
}

fn judged(name: &str, keys: &OpenPgpKeyring) -> Result<TrustedSigner, SignatureError> {
    let commit = commit(name);
    let parts = commit.parts().unwrap();
    let signature = parts.signature.clone().unwrap();
    keys.verify_signature(&parts, &signature, "2026-01-08T11:00:00Z".parse().unwrap())
}

/// Whether a key of the keyring made the signature of this payload.
fn is_signed(keys: &OpenPgpKeyring, body: &[u8], payload: &[u8]) -> bool {
    let Ok(packet) = SignaturePacket::parse(body, SignaturePlace::Packet) else { return false };
    let Ok(signature) = packet.known() else { return false };
    let mut components = keys.certificates.iter().flat_map(key_components);
    components.any(|component| signature.verify(component.key(), &[payload]).is_ok())
}

#[test]
fn the_standards_key_and_signature_of_version_4_match() {
    let (key, signature) = (decoded(SAMPLE_V4_KEY), decoded(SAMPLE_V4_SIGNATURE));
    let [key] = split_packets(&key).unwrap()[..] else { panic!() };
    let [signature] = split_packets(&signature).unwrap()[..] else { panic!() };
    let key = PublicKeyPacket::parse(key.body).unwrap();
    assert_eq!(hex::encode(key.fingerprint()), "c959bdbafa32a2f89a153b678cfde12197965a9a");
    let packet = SignaturePacket::parse(signature.body, SignaturePlace::Packet).unwrap();
    let signature = packet.known().unwrap();
    assert!(signature.may_be_by(&key));
    assert_eq!(issuer_name(signature), "8CFDE12197965A9A");
    assert_eq!(signature.verify(&key, &[b"OpenPGP"]), Ok(()));
    assert_eq!(signature.verify(&key, &[b"Open", b"PGP"]), Ok(()));
    assert_eq!(signature.verify(&key, &[b"OpenPGp"]), Err(VerifyFailure::Mismatched));
}

#[test]
fn the_standards_certificate_of_version_6_holds() {
    let certificates = parse_certificates(&decoded(SAMPLE_V6_CERTIFICATE)).unwrap();
    let [certificate] = certificates.as_slice() else { panic!("{certificates:?}") };
    assert_eq!(
        hex::encode(certificate.primary.fingerprint()),
        "cb186c4f0609a697e4d52dfa6c722b0c1f1e27c18a56708f6525ec27bad9acc9"
    );
    let [direct] = certificate.direct.as_slice() else { panic!("{certificate:?}") };
    assert_eq!(certificate.own_direct(direct).unwrap().allows_signing(), Some(true));
    let [subkey] = certificate.subkeys.as_slice() else { panic!("{certificate:?}") };
    let [binding] = subkey.signatures.as_slice() else { panic!("{certificate:?}") };
    assert_eq!(certificate.own_binding(&subkey.key, binding).unwrap().allows_signing(), Some(false));
    assert_eq!(subkey.key.unsupported_reason().unwrap(), "keys of the kind X25519 are not read");
    // A statement that was damaged anywhere is reported.
    let bytes = decoded(SAMPLE_V6_CERTIFICATE);
    let mut damaged = bytes.clone();
    *damaged.get_mut(60).unwrap() ^= 1;
    assert!(parse_certificates(&damaged).is_err());
}

#[test]
fn every_algorithm_that_is_read_is_verified() {
    for name in SIGNED {
        let keys = keyring(&format!("openpgp-{name}.asc"));
        assert!(judged(&format!("commit-openpgp-{name}"), &keys).is_ok(), "{name}");
    }
    let keys = keyring("openpgp-secp256k1.asc");
    assert!(judged("commit-openpgp-secp256k1-sha512", &keys).is_ok());
}

/// Only what is neither signed nor a number can differ: where to look for the key, and how a number is written.
#[test]
fn no_flipped_bit_passes() {
    for name in SIGNED {
        let keys = keyring(&format!("openpgp-{name}.asc"));
        let (payload, body) = signed(&format!("commit-openpgp-{name}"));
        assert!(is_signed(&keys, &body, &payload), "{name}");
        let SignaturePacket::Known(before) = SignaturePacket::parse(&body, SignaturePlace::Packet).unwrap() else {
            panic!("{name}")
        };
        for (at, bit) in (0..body.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = body.clone();
            *flipped.get_mut(at).unwrap() ^= 1 << bit;
            if is_signed(&keys, &flipped, &payload) {
                let SignaturePacket::Known(after) = SignaturePacket::parse(&flipped, SignaturePlace::Packet).unwrap()
                else {
                    panic!("{name}")
                };
                assert!(after.signs_as(&before), "{name}: bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn what_is_cut_off_is_told() {
    for name in SIGNED {
        let (_, body) = signed(&format!("commit-openpgp-{name}"));
        for length in 0..body.len() {
            let cut = body.get(..length).unwrap();
            assert!(SignaturePacket::parse(cut, SignaturePlace::Packet).is_err(), "{name}: {length} bytes");
        }
        let bytes = armored(&format!("openpgp-{name}.asc"));
        let whole = split_packets(&bytes).unwrap().len();
        for length in 0..bytes.len() {
            let cut = bytes.get(..length).unwrap();
            assert!(!split_packets(cut).is_ok_and(|packets| packets.len() >= whole), "{name}: {length} bytes");
            let _ = parse_certificates(cut);
        }
    }
}

#[test]
fn packets_are_read_by_both_forms_of_headers() {
    type Kinds = Result<Vec<(PacketKind, usize)>, PacketError>;
    let kinds = |bytes: &[u8]| -> Kinds {
        let kind_of = |packet: &RawPacket<'_>| (packet.kind, packet.body.len());
        Ok(split_packets(bytes)?.iter().map(kind_of).collect())
    };
    let user = |length: usize| -> Kinds { Ok(vec![(PacketKind::UserId, length)]) };
    assert_eq!(kinds(&[0xb4, 1, 0]), user(1));
    assert_eq!(kinds(&[0xb5, 0, 1, 0]), user(1));
    assert_eq!(kinds(&[0xb6, 0, 0, 0, 1, 0]), user(1));
    assert_eq!(kinds(&[0xcd, 1, 0]), user(1));
    assert_eq!(kinds(&[[0xcd, 192, 1].as_slice(), &[0; 193]].concat()), user(193));
    assert_eq!(kinds(&[0xcd, 255, 0, 0, 0, 1, 0]), user(1));
    assert_eq!(kinds(&[0xb7, 0]), Err(PacketError::OpenLength));
    assert_eq!(kinds(&[0xcd, 224, 0]), Err(PacketError::OpenLength));
    assert_eq!(kinds(&[0xcd, 255, 0xff, 0xff, 0xff, 0xff]), Err(PacketError::CutOff));
    assert_eq!(kinds(&[0x34, 0]), Err(PacketError::Begin(0x34)));
    // A marker, trust, padding, and what is unknown: critical, and not.
    assert_eq!(kinds(&[0xca, 0, 0xb0, 1, 6, 0xd5, 0, 0xe8, 0]), Ok(Vec::new()));
    assert_eq!(kinds(&[0xe7, 0]), Err(PacketError::UnknownPacket(39)));
}

#[test]
fn keys_that_nothing_is_verified_by_are_named() {
    let reason = |algorithm: u8, material: &[u8]| {
        let body = [[4, 0, 0, 0, 1, algorithm].as_slice(), material].concat();
        PublicKeyPacket::parse(&body).map(|key| key.unsupported_reason().unwrap_or_default())
    };
    let named = |name: &str| -> Result<String, PacketError> { Ok(format!("keys of the kind {name} are not read")) };
    assert_eq!(reason(17, &[0; 9]), named("DSA"));
    assert_eq!(reason(28, &[0; 57]), named("Ed448"));
    assert_eq!(reason(99, &[]), Ok("keys of the algorithm 99 are not read".to_owned()));
    assert_eq!(reason(19, &[1, 7, 0, 0]), named("ECDSA over an unknown curve"));
    assert_eq!(reason(1, &[0, 9, 1, 1, 0, 2, 3]), Ok("the RSA key has 9 bits; 2048 to 8192 are accepted".to_owned()));
    assert_eq!(reason(1, &[0, 0, 0, 2, 3]), Err(PacketError::KeyMaterial));
    assert_eq!(reason(1, &[0, 9, 1, 1, 0, 2, 3, 0]), Err(PacketError::Overlong));
    assert_eq!(reason(1, &[0xff, 0xff]), Err(PacketError::LongInteger(0xffff)));
    assert_eq!(reason(27, &[0; 31]), Err(PacketError::CutOff));
}

#[test]
fn a_keyring_is_of_public_keys_that_stand_in_order() {
    let key = armored("openpgp-lost.asc");
    let revocation = armored("revocation-alone.asc");
    let revocation = revocation.as_slice();
    let joined = |parts: &[&[u8]]| parse_certificates(&parts.concat()).map(|found| found.len());
    assert_eq!(joined(&[&key]), Ok(1));
    assert_eq!(joined(&[&key, &key]), Ok(2));
    assert_eq!(joined(&[]), Err(CertificateError::NoKey));
    assert_eq!(joined(&[&[0xcd, 0], &key]), Err(CertificateError::NoKey));
    assert_eq!(joined(&[revocation, &key]), Err(CertificateError::LoneRevocation));
    // Behind the user id it would be one of that.
    assert_eq!(joined(&[&key, revocation]), Err(CertificateError::MisplacedRevocation));
    assert_eq!(joined(&[&key, &[0xc5, 0]]), Err(CertificateError::PrivateKey));
    let other = armored("openpgp-ed.asc");
    let (primary, rest) = other.split_at(53);
    assert_eq!(joined(&[primary, revocation, rest]), Ok(1));
    // The signature of the user id, in the place of one of the key.
    let (_, certification) = rest.split_at(26);
    assert_eq!(joined(&[primary, certification]), Err(CertificateError::ForeignStatement));
    // What a keyring notes of its own trust does not come between a key and its revocation.
    let keys = parse_certificates(&[primary, &[0xcc, 2, 0, 6], revocation, rest].concat()).unwrap();
    assert!(keys.iter().all(|certificate| certificate.revocations.len() == 1));
}

#[test]
fn only_its_own_checksum_is_right() {
    let text = String::from_utf8(data("openpgp-ed.asc")).unwrap();
    assert_eq!(decode_armor(&text).unwrap().checksum, ArmorChecksum::Right);
    let at = text.rfind("\n=").unwrap();
    let (before, after) = text.split_at(at);
    let end = after.trim_start_matches('\n').split_once('\n').unwrap().1;
    assert_eq!(decode_armor(&format!("{before}\n{end}")).unwrap().checksum, ArmorChecksum::Absent);
    assert_eq!(decode_armor(&format!("{before}\n=AAAA\n{end}")).unwrap().checksum, ArmorChecksum::Wrong);
    assert!(decode_armor(before).is_err());
    assert!(decode_armor(&text.replace("-----END PGP PUBLIC", "-----END PGP PRIVATE")).is_err());
}

proptest! {
    /// No bytes at all bring it down, and nothing passes by those that are no packets.
    #[test]
    fn any_bytes_are_read(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        text in "(-----BEGIN PGP (PUBLIC KEY BLOCK|SIGNATURE)-----\n|Version: x\n|\n|[A-Za-z0-9+/]{0,64}={0,2}\n|=[A-Za-z0-9+/]{4}\n|-----END PGP SIGNATURE-----\n){0,8}",
        version in prop_oneof![Just(4_u8), Just(6_u8), any::<u8>()],
        kind in prop_oneof![Just(0_u8), Just(0x19_u8), any::<u8>()],
    ) {
        let _ = split_packets(&bytes);
        let _ = parse_certificates(&bytes);
        let _ = decode_armor(&text);
        let _ = OpenPgpKeyring::default().add(text.as_bytes());
        let body = [[version, kind].as_slice(), &bytes].concat();
        let _ = PublicKeyPacket::parse(&body);
        for place in [SignaturePlace::Packet, SignaturePlace::Embedded] {
            let _ = SignaturePacket::parse(&body, place);
        }
        prop_assert!(!is_signed(&keyring("openpgp-ed.asc"), &body, b"x"));
    }

    /// A certificate that was damaged is reported as one, or can be read.
    #[test]
    fn damaged_certificates_are_read(name in prop::sample::select(SIGNED.to_vec()), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = armored(&format!("openpgp-{name}.asc"));
        let at = at.index(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte = to;
        }
        let _ = parse_certificates(&bytes);
    }
}
