use super::*;
use crate::source::model_source::VerifyMode;
use crate::source::secret::SecretValues;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use git2::{ObjectType, Oid};
use jiff::Timestamp;
use proptest::prelude::*;

/// The bytes of a file of `tests/data/signatures`.
fn data(name: &str) -> Vec<u8> {
    fs_err::read(format!("{}/tests/data/signatures/{name}", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap()
}

fn commit(raw: Vec<u8>) -> SignedObject {
    SignedObject { id: Oid::hash_object(ObjectType::Commit, &raw).unwrap().to_string(), raw }
}

fn tag(name: &str, raw: Vec<u8>) -> SignedTag {
    let id = Oid::hash_object(ObjectType::Tag, &raw).unwrap().to_string();
    SignedTag { name: name.to_owned(), object: SignedObject { id, raw } }
}

fn head(raw: Vec<u8>) -> SignedRevision {
    SignedRevision { commit: commit(raw), tag: None, ancestors: Vec::new() }
}

fn keys(files: &[&str]) -> SecretValues {
    SecretValues::new("keys", files.iter().map(|name| ((*name).to_owned(), data(name))))
}

fn written(key: &str, text: &str) -> SecretValues {
    SecretValues::new("keys", [(key.to_owned(), text.as_bytes().to_vec())])
}

fn line(file: &str) -> String {
    String::from_utf8(data(file)).unwrap().trim().to_owned()
}

/// A week after the fixtures were signed.
fn later() -> Timestamp {
    "2026-01-08T11:00:00Z".parse().unwrap()
}

/// What comes of it, without what differs between two makings of the fixtures.
fn described(result: Result<Vec<TrustedSigner>, SignatureError>) -> String {
    let text = match result {
        Ok(signers) => {
            let one = |signer: &TrustedSigner| format!("{} by {} ({})", signer.object, signer.key, signer.name);
            signers.iter().map(one).collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    };
    masked(&text)
}

fn masked(text: &str) -> String {
    let text = regex::Regex::new("SHA256:[A-Za-z0-9+/]{43}").unwrap().replace_all(text, "SHA256:…");
    let text = regex::Regex::new("[0-9A-F]{40}").unwrap().replace_all(&text, "PRINT");
    regex::Regex::new("[0-9a-f]{12}").unwrap().replace_all(&text, "ID").into_owned()
}

fn judged(file: &str, secret: &SecretValues, now: Timestamp) -> String {
    described(verify_revision(VerifyMode::Head, &head(data(file)), secret, now))
}

#[test]
fn what_git_signs_passes() {
    let all = keys(&[
        "openpgp-ed.asc",
        "openpgp-rsa.asc",
        "openpgp-owner.asc",
        "openpgp-short.asc",
        "ssh-ed25519.sshpub",
        "ssh-rsa.sshpub",
        "ssh-ecdsa.sshpub",
    ]);
    let shown: Vec<String> = [
        "commit-openpgp-ed",
        "commit-openpgp-rsa",
        "commit-openpgp-owner",
        "commit-openpgp-short",
        "commit-openpgp-week",
        "commit-ssh-ed25519",
        "commit-ssh-rsa",
        "commit-ssh-ecdsa",
    ]
    .iter()
    .map(|file| judged(file, &all, later()))
    .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    commit ID by PRINT (Ed25519 <ed@example.com>)
    commit ID by PRINT (RSA <rsa@example.com>)
    commit ID by PRINT (Owner <owner@example.com>)
    commit ID by PRINT (Short <short@example.com>)
    commit ID by PRINT (Ed25519 <ed@example.com>)
    commit ID by SHA256:… (ed25519@example.com)
    commit ID by SHA256:… (rsa@example.com)
    commit ID by SHA256:… (ecdsa@example.com)
    ");
}

#[test]
fn each_reason_not_to_pass_is_named() {
    let ed = keys(&["openpgp-ed.asc"]);
    insta::assert_snapshot!(judged("commit-unsigned", &ed, later()), @"commit ID is not signed");
    insta::assert_snapshot!(judged("commit-openpgp-rsa", &ed, later()), @"commit ID is signed with the key PRINT, which the secret does not have");
    insta::assert_snapshot!(judged("commit-ssh-rsa", &ed, later()), @"commit ID is signed with the key SHA256:…, which the secret does not have");
    insta::assert_snapshot!(judged("commit-openpgp-short", &keys(&["openpgp-short.asc"]), "2026-02-01T00:00:00Z".parse().unwrap()), @"commit ID is signed with the key PRINT, which expired on 2026-01-31T12:00:00Z");
    insta::assert_snapshot!(judged("commit-openpgp-week", &ed, "2026-01-09T00:00:00Z".parse().unwrap()), @"commit ID has a signature by PRINT that expired on 2026-01-08T12:00:00Z");
    insta::assert_snapshot!(judged("commit-openpgp-lost", &keys(&["openpgp-lost.asc"]), later()), @"commit ID by PRINT (Lost <lost@example.com>)");
    insta::assert_snapshot!(judged("commit-openpgp-lost", &keys(&["openpgp-lost-revoked.asc"]), later()), @"commit ID is signed with the key PRINT, which was revoked");
    insta::assert_snapshot!(judged("commit-openpgp-lost", &keys(&["openpgp-lost.asc", "openpgp-lost-revoked.asc"]), later()), @"commit ID is signed with the key PRINT, which was revoked");
    insta::assert_snapshot!(judged("commit-openpgp-sha1", &keys(&["openpgp-rsa.asc"]), later()), @"commit ID has a signature that is not accepted: it is by SHA1, which is no longer secure");
    insta::assert_snapshot!(judged("commit-openpgp-early", &ed, later()), @"commit ID is signed with the key PRINT at 2025-12-31T12:00:00Z, when the key did not exist yet");
    insta::assert_snapshot!(judged("commit-openpgp-ed", &ed, "2026-01-01T10:00:00Z".parse().unwrap()), @"commit ID is signed with the key PRINT at 2026-01-01T12:00:00Z, when by this machine's clock this is in the future");
    insta::assert_snapshot!(judged("commit-openpgp-ed", &written("token", "x"), later()), @"secret `keys` has no public key to verify signatures with");
}

#[test]
fn what_was_changed_or_copied_does_not_pass() {
    let all = keys(&["openpgp-ed.asc", "ssh-ed25519.sshpub"]);
    let changed = |file: &str, from: &str, to: &str| {
        let text = String::from_utf8(data(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        described(verify_revision(VerifyMode::Head, &head(text.replace(from, to).into_bytes()), &all, later()))
    };
    insta::assert_snapshot!(changed("commit-openpgp-ed", "author Ada", "author Eve"), @"commit ID does not match its signature by PRINT");
    insta::assert_snapshot!(changed("commit-ssh-ed25519", "author Ada", "author Eve"), @"commit ID does not match its signature by SHA256:…");
    // A second signature, of which git would read both into one.
    insta::assert_snapshot!(changed("commit-ssh-ed25519", "\n\nssh", "\ngpgsig -----BEGIN SSH SIGNATURE-----\n\nssh"), @"commit ID has a signature that cannot be read: the commit has more than one");
    insta::assert_snapshot!(changed("commit-ssh-ed25519", "BEGIN SSH SIGNATURE", "BEGIN SIGNED MESSAGE"), @"commit ID has a signature that is not accepted: it is of the kind X.509");
    insta::assert_snapshot!(changed("commit-ssh-ed25519", "BEGIN SSH SIGNATURE", "BEGIN NOTHING"), @"commit ID has a signature that cannot be read: git does not know its format");
    insta::assert_snapshot!(changed("commit-ssh-ed25519", "gpgsig ", "gpgsig-sha256 "), @"commit ID is not signed");
    // One of a file, with the same key, put into a commit.
    let of_file = String::from_utf8(data("signature-of-file")).unwrap();
    let mut text = String::from_utf8(data("commit-unsigned")).unwrap();
    text = text.replacen("\n\n", &format!("\ngpgsig {}\n\n", of_file.trim().replace('\n', "\n ")), 1);
    insta::assert_snapshot!(described(verify_revision(VerifyMode::Head, &head(text.into_bytes()), &all, later())), @"commit ID is signed with the key SHA256:…, which signed it as `file` and not as `git`");
}

/// Found by the fuzz target `commit`.
#[test]
fn what_an_ssh_signature_says_of_itself_is_told_in_one_line() {
    let text = String::from_utf8(data("commit-ssh-ed25519")).unwrap();
    let (before, rest) = text.split_once("-----BEGIN SSH SIGNATURE-----\n").unwrap();
    let (armored, after) = rest.split_once(" -----END SSH SIGNATURE-----").unwrap();
    let mut bytes = BASE64.decode(armored.split_whitespace().collect::<String>()).unwrap();
    let hash = bytes.windows(6).position(|window| window == b"sha512").unwrap();
    bytes[hash..hash + 6].copy_from_slice(b"sha\x1b[2");
    let lines = BASE64.encode(bytes).into_bytes();
    let lines = lines.chunks(70).map(|line| format!(" {}\n", str::from_utf8(line).unwrap())).collect::<String>();
    let text = format!("{before}-----BEGIN SSH SIGNATURE-----\n{lines} -----END SSH SIGNATURE-----{after}");
    let refused = verify_revision(VerifyMode::Head, &head(text.into_bytes()), &keys(&["ssh-ed25519.sshpub"]), later());
    insta::assert_snapshot!(described(refused), @"commit ID has a signature that cannot be read: invalid label: 'sha [2'");
}

#[test]
fn tags_pass_for_their_own_name_and_commit_only() {
    let all = keys(&["openpgp-ed.asc", "ssh-ed25519.sshpub", "ssh-ecdsa.sshpub"]);
    let mut signed = head(data("commit-ssh-ecdsa"));
    let mut judged = |mode: VerifyMode, found: Option<SignedTag>| {
        signed.tag = found;
        described(verify_revision(mode, &signed, &all, later()))
    };
    insta::assert_snapshot!(judged(VerifyMode::Tag, Some(tag("v1.0.0", data("tag-openpgp")))), @"tag v1.0.0 by PRINT (Ed25519 <ed@example.com>)");
    insta::assert_snapshot!(judged(VerifyMode::TagAndHead, Some(tag("v1.1.0", data("tag-ssh")))), @r"
    tag v1.1.0 by SHA256:… (ed25519@example.com)
    commit ID by SHA256:… (ecdsa@example.com)
    ");
    insta::assert_snapshot!(judged(VerifyMode::Tag, Some(tag("v1.2.0", data("tag-unsigned")))), @"tag v1.2.0 is not signed");
    insta::assert_snapshot!(judged(VerifyMode::Tag, None), @"the source requires a signed tag, but the revision is not an annotated tag");
    insta::assert_snapshot!(judged(VerifyMode::Tag, Some(tag("v2.0.0", data("tag-ssh")))), @"tag v2.0.0 is signed for something else: it was signed under another name");
    let tree = String::from_utf8(data("tag-ssh")).unwrap().replace("type commit", "type tree");
    insta::assert_snapshot!(judged(VerifyMode::Tag, Some(tag("v1.1.0", tree.into_bytes()))), @"tag v1.1.0 is signed for something else: it is on no commit");
    let changed = String::from_utf8(data("tag-ssh")).unwrap().replace("A release", "B release");
    insta::assert_snapshot!(judged(VerifyMode::Tag, Some(tag("v1.1.0", changed.into_bytes()))), @"tag v1.1.0 does not match its signature by SHA256:…");
    signed.commit = commit(data("commit-ssh-rsa"));
    signed.tag = Some(tag("v1.1.0", data("tag-ssh")));
    insta::assert_snapshot!(described(verify_revision(VerifyMode::Tag, &signed, &all, later())), @"tag v1.1.0 is signed for something else: it is on another commit");
}

/// A policy has its keys inline, in any of their forms.
#[test]
fn keys_of_a_policy_are_read_by_their_form() {
    let (ssh, ring) = (line("ssh-ed25519.sshpub"), String::from_utf8(data("openpgp-ed.asc")).unwrap());
    let judged = |file: &str, keys: &[String]| match verify_with_policy_keys(keys, &head(data(file)), later()) {
        Ok(signers) => described(Ok(signers)),
        Err(reason) => masked(&reason),
    };
    let all = [ring, format!("ada@example.com namespaces=\"git\" {ssh}"), line("ssh-rsa.sshpub")];
    for file in ["commit-openpgp-ed", "commit-ssh-ed25519", "commit-ssh-rsa"] {
        assert!(judged(file, &all).starts_with("commit ID by"), "{file}: {}", judged(file, &all));
        assert!(judged(file, std::slice::from_ref(&ssh)).contains("commit ID by") == (file == "commit-ssh-ed25519"));
    }
    let refused = [
        judged("commit-unsigned", &all),
        judged("commit-ssh-ecdsa", &all),
        judged("commit-ssh-ed25519", &[]),
        judged(
            "commit-ssh-ed25519",
            &[
                ssh.clone(),
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nAAAA\n-----END PGP PRIVATE KEY BLOCK-----".to_owned(),
            ],
        ),
        judged("commit-ssh-ed25519", &[ssh, "no key".to_owned(), " ".to_owned()]),
    ];
    insta::assert_snapshot!(refused.join("\n"), @r#"
    commit ID is not signed
    commit ID is signed with the key SHA256:…, which the policy does not name
    the policy has no keys
    the keys of the policy cannot be read: key 2.asc, line 1, is a private key; remove it from the secret and put the public one there
    the keys of the policy cannot be read: allowed_signers, line 1, has no key; write `PRINCIPAL ssh-ed25519 AAAA…`
    "#);
}

#[test]
fn an_unsigned_ancestor_does_not_ride_along() {
    let mut signed = head(data("commit-ssh-ed25519"));
    let secret = keys(&["ssh-ed25519.sshpub", "openpgp-ed.asc"]);
    signed.ancestors = vec![commit(data("commit-openpgp-ed"))];
    assert_eq!(verify_revision(VerifyMode::Head, &signed, &secret, later()).unwrap().len(), 2);
    signed.ancestors.push(commit(data("commit-unsigned")));
    insta::assert_snapshot!(described(verify_revision(VerifyMode::Head, &signed, &secret, later())), @"commit ID is not signed");
}

#[test]
fn allowed_signers_say_who_may_sign_and_when() {
    let key = line("ssh-ed25519.sshpub");
    let judged = |prefix: &str, now: &str| {
        let secret = written("allowed_signers", &format!("# who may\n\n{prefix} {key}\n"));
        judged("commit-ssh-ed25519", &secret, now.parse().unwrap())
    };
    let (january, june) = ("2026-01-08T00:00:00Z", "2026-06-01T00:00:00Z");
    insta::assert_snapshot!(judged("ada@example.com,*@team.example.com", january), @"commit ID by SHA256:… (ada@example.com,*@team.example.com)");
    insta::assert_snapshot!(judged("\"ada b\" namespaces=\"file,g*\",valid-after=\"20260101\",valid-before=\"20260601Z\"", january), @"commit ID by SHA256:… (ada b)");
    insta::assert_snapshot!(judged("ada namespaces=\"file,email\"", january), @"commit ID is signed with the key SHA256:…, which may not sign in the namespace `git`");
    insta::assert_snapshot!(judged("ada namespaces=\"*,!git\"", january), @"commit ID is signed with the key SHA256:…, which may not sign in the namespace `git`");
    insta::assert_snapshot!(judged("ada valid-before=\"20260601\"", june), @"commit ID is signed with the key SHA256:…, which expired on 2026-06-01T00:00:00Z");
    insta::assert_snapshot!(judged("ada valid-after=\"20260102\"", january), @"commit ID is signed with the key SHA256:… at 2026-01-01T12:00:00Z, when the key was not valid yet");
    let twice = format!("ada valid-before=\"20251231\" {key}\nada valid-before=\"20270101\" {key}");
    insta::assert_snapshot!(super::tests::judged("commit-ssh-ed25519", &written("allowed_signers", &twice), later()), @"commit ID by SHA256:… (ada)");
}

#[test]
fn a_revoked_ssh_key_signs_nothing() {
    let key = line("ssh-ed25519.sshpub");
    let of = |revoked: &[u8]| {
        SecretValues::new(
            "keys",
            [("ada.sshpub".to_owned(), key.clone().into_bytes()), ("revoked_keys".to_owned(), revoked.to_vec())],
        )
    };
    insta::assert_snapshot!(judged("commit-ssh-ed25519", &of(key.as_bytes()), later()), @"commit ID is signed with the key SHA256:…, which was revoked");
    insta::assert_snapshot!(judged("commit-ssh-ed25519", &of(b"SSHKRL\n\0..."), later()), @r"
    secret `keys` has public keys that cannot be read
      revoked_keys: a binary revocation list is not read; write the public keys, a line each
    ");
}

#[test]
fn keys_that_cannot_be_read_are_told_with_their_line() {
    let key = line("ssh-ed25519.sshpub");
    let allowed = format!(
        "ada cert-authority {key}\nada valid-before=\"soon\" {key}\nada touch=\"no\" {key}\nada\n\"ada {key}\nada valid-after=\"20260102\",valid-before=\"20260101\" {key}\nada ssh-ed25519 AAAA\n"
    );
    let mut rings = data("openpgp-ed.asc");
    rings.extend_from_slice(&data("revocation-alone.asc"));
    rings.extend_from_slice(b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nAAAA\n-----END PGP PRIVATE KEY BLOCK-----\n");
    rings.extend_from_slice(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let secret = SecretValues::new(
        "keys",
        [
            ("allowed_signers".to_owned(), allowed.into_bytes()),
            ("a.asc".to_owned(), rings),
            ("b.asc".to_owned(), b"nothing".to_vec()),
            ("c.asc".to_owned(), vec![0xff; 40]),
            ("d.sshpub".to_owned(), format!("restrict {key}").into_bytes()),
            ("e.sshpub".to_owned(), vec![0xff; 4]),
        ],
    );
    insta::assert_snapshot!(judged("commit-ssh-ed25519", &secret, later()), @"
    secret `keys` has public keys that cannot be read
      a.asc, line 10: is a revocation by itself; import it with GnuPG and export the key with it
      a.asc, line 18: is a private key; remove it from the secret and put the public one there
      a.asc, line 22: is not an OpenPGP public key; export it with `gpg --armor --export KEY`
      allowed_signers, line 1: `cert-authority` is not supported; list the public keys of the signers
      allowed_signers, line 2: has an invalid time; write `YYYYMMDD` or `YYYYMMDDHHMMSS`, in UTC
      allowed_signers, line 3: `touch` is not an option; known: `namespaces`, `valid-after` and `valid-before`
      allowed_signers, line 4: has no key; write `PRINCIPAL ssh-ed25519 AAAA…`
      allowed_signers, line 5: has a quote that does not end
      allowed_signers, line 6: `valid-before` is not after `valid-after`
      allowed_signers, line 7: is not a public key: length invalid
      b.asc: is damaged or not a key; export it with `gpg --armor --export KEY` (no packet begins with the byte 0x6e)
      c.asc: is damaged or not a key; export it with `gpg --armor --export KEY` (a packet is cut off)
      d.sshpub, line 1: is not a public key; write `ssh-ed25519 AAAA… COMMENT`, and options into `allowed_signers`
      e.sshpub: is not text (not UTF-8)
    ");
}

#[test]
fn rings_of_many_keys_are_read_whole() {
    let mut both = data("openpgp-rsa.asc");
    both.extend_from_slice(&data("openpgp-ed.asc"));
    let secret = SecretValues::new("keys", [("all.asc".to_owned(), both)]);
    for file in ["commit-openpgp-rsa", "commit-openpgp-ed"] {
        assert!(verify_revision(VerifyMode::Head, &head(data(file)), &secret, later()).is_ok(), "{file}");
    }
}

/// Every error says what to do.
#[test]
fn help_is_given() {
    let error = verify_revision(VerifyMode::Tag, &head(data("commit-unsigned")), &keys(&["openpgp-ed.asc"]), later())
        .unwrap_err();
    assert!(error.help().contains("git tag -s"));
}

proptest! {
    /// A byte of what is signed cannot be another.
    #[test]
    fn no_changed_byte_passes(file in prop_oneof![Just("commit-openpgp-ed"), Just("commit-ssh-ed25519"), Just("commit-ssh-rsa"), Just("commit-openpgp-owner")], at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let secret = keys(&["openpgp-ed.asc", "openpgp-owner.asc", "ssh-ed25519.sshpub", "ssh-rsa.sshpub"]);
        let mut signed = head(data(file));
        let before = signed.commit.parts().unwrap().payload.into_owned();
        let at = at.index(signed.commit.raw.len());
        if let Some(byte) = signed.commit.raw.get_mut(at) {
            *byte ^= 1 << bit;
        }
        let same = signed.commit.parts().is_ok_and(|parts| *parts.payload == *before);
        prop_assert!(same || verify_revision(VerifyMode::Head, &signed, &secret, later()).is_err());
    }

    /// No bytes at all bring it down.
    #[test]
    fn any_bytes_are_judged(
        raw in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..400),
            "(tree x\n|committer A <a> 1 \\+0\n|gpgsig -----BEGIN (PGP|SSH) SIGNATURE-----\n| [A-Za-z0-9+/=]{0,60}\n| \n|gpgsig-x y\n|mergetag z\n| -----END (PGP|SSH) SIGNATURE-----\n|\n){0,12}".prop_map(String::into_bytes),
        ],
        body in prop::collection::vec(any::<u8>(), 0..200),
        ring in prop::collection::vec(any::<u8>(), 0..200),
        text in "(ada |\\*|\"|namespaces=|valid-after=\"[0-9]{6,15}\"|,|ssh-ed25519 |AAAAC3Nza|\n|#){0,12}",
    ) {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(&body);
        let armoured = |kind: &str| format!("tree x\ngpgsig -----BEGIN {kind} SIGNATURE-----\n \n {encoded}\n -----END {kind} SIGNATURE-----\n\nx").into_bytes();
        let known = keys(&["openpgp-ed.asc", "ssh-ed25519.sshpub"]);
        for raw in [raw, armoured("PGP"), armoured("SSH")] {
            let signed = SignedRevision { commit: commit(raw.clone()), tag: Some(tag("v1", raw)), ancestors: Vec::new() };
            for mode in [VerifyMode::Head, VerifyMode::Tag, VerifyMode::TagAndHead] {
                prop_assert!(verify_revision(mode, &signed, &known, later()).is_err());
            }
        }
        let mine = SecretValues::new("keys", [("a.asc".to_owned(), ring), ("allowed_signers".to_owned(), text.into_bytes())]);
        let _ = verify_revision(VerifyMode::Head, &head(data("commit-openpgp-ed")), &mine, later());
    }

    /// A signature that was damaged anywhere is reported as one, or is still the same signature.
    #[test]
    fn damaged_keys_and_signatures_do_no_harm(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        for file in ["openpgp-owner.asc", "openpgp-lost-revoked.asc", "ssh-rsa.sshpub"] {
            let mut bytes = data(file);
            let at = at.index(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            let secret = SecretValues::new("keys", [(file.to_owned(), bytes)]);
            let _ = verify_revision(VerifyMode::Head, &head(data("commit-openpgp-owner")), &secret, later());
            prop_assert!(verify_revision(VerifyMode::Head, &head(data("commit-openpgp-lost")), &secret, later()).is_err());
        }
    }
}
