//! The keys that hosts may have, as OpenSSH's `known_hosts` lists them (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT").
//!
//! `@revoked` lines are kept to. `@cert-authority` lines are read past: hosts show their own keys here, and where such a
//! line is the only one of a host, the refusal says so.

use crate::source::pattern;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use russh::keys::ssh_key::known_hosts::Marker;
use russh::keys::ssh_key::{Algorithm, EcdsaCurve, HashAlg, PublicKey};

/// What stator takes for granted where a secret says nothing, for hosts that publish their keys:
/// <https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/githubs-ssh-key-fingerprints>,
/// <https://docs.gitlab.com/user/gitlab_com/#ssh-host-keys-fingerprints> and <https://bitbucket.org/site/ssh>.
/// Azure DevOps is not among them: it has an RSA key alone, which is not judged here.
const PUBLISHED_HOST_KEYS: &str = "\
github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl
github.com ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=
gitlab.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf
gitlab.com ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFSMqzJeV9rUzU4kWitGjeR4PWSa29SPqJ1fVkhtj3Hw9xjLVXVYrU9QlYWrOLXBpQ6KWjbjTDTdDkoohFzgbEY=
bitbucket.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIazEu89wgQZ4bqs3d63QSMzYVa0MuJ2e2gKTKqu+UUO
bitbucket.org ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBPIQmuzMBuKdWeF4+a2sjSSpBK0iqitSQ+5BM9KhpexuGt20JpTVM7u5BDZngncgrqDMbWdxMWWOGtZ9UgbqgZE=
";

/// The kinds of host keys that are judged, in the order they are asked for.
const HOST_KEY_ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
];

/// The keys that hosts may have.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    lines: Vec<KnownHostsLine>,
}

#[derive(Clone, Debug)]
struct KnownHostsLine {
    number: usize,
    marker: Option<Marker>,
    hosts: HostMatcher,
    key: PublicKey,
}

#[derive(Clone, Debug)]
enum HostMatcher {
    Patterns(Vec<String>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

/// Why a host's key is not trusted. Says what to do, as no other place knows both keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::source) enum HostKeyError {
    #[error(
        "`known_hosts` has no key of it, and it presents {shown}; compare that with the fingerprint that its owner \
         publishes, and only then add the line `{line}`"
    )]
    Unknown { shown: String, line: String },
    #[error(
        "its key differs: `known_hosts` has {known}, but it presents {shown}; this may be an attack. If its owner \
         confirms that the key was changed to this one, replace the old line with `{line}`"
    )]
    Changed { known: String, shown: String, line: String },
    #[error(
        "its key {shown} is revoked in line {number} of `known_hosts`; do not use it, and ask its owner for the new one"
    )]
    Revoked { shown: String, number: usize },
    #[error(
        "`known_hosts` has no key of it of a supported kind, only {only}; add its ed25519 or ecdsa key, or write the \
         `https://` address"
    )]
    NoneUsable { only: String },
}

impl KnownHosts {
    /// The lines of a file.
    ///
    /// # Errors
    /// Each line that cannot be read, with its number from 1 and the reason.
    pub(in crate::source) fn read(text: &str) -> Result<Self, Vec<(usize, String)>> {
        let (mut lines, mut faults) = (Vec::new(), Vec::new());
        for (at, text) in text.lines().enumerate() {
            let (number, text) = (at.saturating_add(1), text.trim());
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match parse_known_hosts_line(number, text) {
                Ok(line) => lines.push(line),
                Err(reason) => faults.push((number, reason)),
            }
        }
        if faults.is_empty() { Ok(Self { lines }) } else { Err(faults) }
    }

    /// What is built in for the host; `None` when nothing is.
    pub(in crate::source) fn published_for(host: &str, port: u16) -> Option<Self> {
        let known = Self::read(PUBLISHED_HOST_KEYS).ok()?;
        let of_host = |line: &KnownHostsLine| line.hosts.matches_name(&host_entry_name(host, port));
        known.lines.iter().any(of_host).then_some(known)
    }

    /// The kinds of keys to ask the host for: those that are known, so that no other one is shown; all when none is.
    pub(in crate::source) fn host_key_algorithms(&self, host: &str, port: u16) -> Result<Vec<Algorithm>, HostKeyError> {
        let name = host_entry_name(host, port);
        let lines =
            || self.lines.iter().filter(|line| line.hosts.matches_name(&name) && line.marker != Some(Marker::Revoked));
        let known: Vec<Algorithm> =
            lines().filter(|line| line.marker.is_none()).map(|line| line.key.algorithm()).collect();
        let usable: Vec<Algorithm> = HOST_KEY_ALGORITHMS.into_iter().filter(|kind| known.contains(kind)).collect();
        if !usable.is_empty() {
            return Ok(usable);
        }
        let mut only: Vec<String> = known.iter().map(ToString::to_string).collect();
        if lines().any(|line| line.marker == Some(Marker::CertAuthority)) {
            only.push("`@cert-authority`".to_owned());
        }
        only.sort();
        only.dedup();
        if only.is_empty() {
            Ok(HOST_KEY_ALGORITHMS.to_vec())
        } else {
            Err(HostKeyError::NoneUsable { only: only.join(" and ") })
        }
    }

    /// Whether the host may have this key.
    pub(in crate::source) fn verify_host_key(
        &self,
        host: &str,
        port: u16,
        key: &PublicKey,
    ) -> Result<(), HostKeyError> {
        let name = host_entry_name(host, port);
        let mut known = Vec::new();
        let shown = describe_key(key);
        let mut found = false;
        for line in self.lines.iter().filter(|line| line.hosts.matches_name(&name)) {
            let same = line.key.key_data() == key.key_data();
            match line.marker {
                Some(Marker::Revoked) if same => return Err(HostKeyError::Revoked { shown, number: line.number }),
                Some(Marker::Revoked | Marker::CertAuthority) => {}
                None if same => found = true,
                None => known.push(format!("{} in line {}", self::describe_key(&line.key), line.number)),
            }
        }
        if found {
            return Ok(());
        }
        let bare = PublicKey::new(key.key_data().clone(), "").to_openssh().unwrap_or_default();
        let line = format!("{name} {}", bare.trim());
        match known.is_empty() {
            true => Err(HostKeyError::Unknown { shown, line }),
            false => Err(HostKeyError::Changed { known: known.join(" and "), shown, line }),
        }
    }
}

impl HostMatcher {
    fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::Patterns(patterns) => pattern::matches_any(patterns, name),
            Self::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                hmac::verify(&key, name.as_bytes(), hash).is_ok()
            }
        }
    }
}

/// `[marker] hosts kind key [comment]`
fn parse_known_hosts_line(number: usize, text: &str) -> Result<KnownHostsLine, String> {
    let next = |text: &'_ str| -> Option<(String, String)> {
        let (word, rest) = text.split_once(char::is_whitespace)?;
        Some((word.to_owned(), rest.trim_start().to_owned()))
    };
    let short = || "does not have host, kind and key; copy the whole line from `ssh-keyscan`".to_owned();
    let (first, after) = next(text).ok_or_else(short)?;
    let (marker, hosts, rest) = match first.as_str() {
        "@revoked" | "@cert-authority" => {
            let (hosts, rest) = next(&after).ok_or_else(short)?;
            let marker = if first == "@revoked" { Marker::Revoked } else { Marker::CertAuthority };
            (Some(marker), hosts, rest)
        }
        other if other.starts_with('@') => {
            return Err("begins with an unknown marker; known: `@revoked` and `@cert-authority`".to_owned());
        }
        _ => (None, first, after),
    };
    let hosts = match hosts.strip_prefix("|1|") {
        Some(hashed) => {
            let (salt, hash) = hashed.split_once('|').ok_or("has a hashed host that is cut off")?;
            let decode =
                |text: &str| STANDARD.decode(text).map_err(|_| "has a hashed host that is not base64".to_owned());
            HostMatcher::Hashed { salt: decode(salt)?, hash: decode(hash)? }
        }
        None => HostMatcher::Patterns(hosts.split(',').filter(|one| !one.is_empty()).map(str::to_lowercase).collect()),
    };
    let key = PublicKey::from_openssh(&rest).map_err(|error| format!("has a key that cannot be read: {error}"))?;
    Ok(KnownHostsLine { number, marker, hosts, key })
}

/// A host as the file names it: bare at port 22, else `[host]:port`.
fn host_entry_name(host: &str, port: u16) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

fn describe_key(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ED: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf";

    fn judged(lines: &str, host: &str, port: u16) -> String {
        let known = KnownHosts::read(lines).unwrap();
        let kinds = known.host_key_algorithms(host, port).map(|_| ());
        match kinds.and_then(|()| known.verify_host_key(host, port, &PublicKey::from_openssh(ED).unwrap())) {
            Ok(()) => "trusted".to_owned(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn hosts_are_found_by_name_pattern_hash_and_port() {
        for (lines, host, port, trusted) in [
            (format!("git.example.com {ED}"), "git.example.com", 22, true),
            (format!("GIT.example.com,other {ED} a comment"), "git.example.com", 22, true),
            (format!("*.example.com {ED}"), "git.example.com", 22, true),
            (format!("*.example.com,!git.example.com {ED}"), "git.example.com", 22, false),
            (format!("git.example.com {ED}"), "git.example.com", 2222, false),
            (format!("[git.example.com]:2222 {ED}"), "git.example.com", 2222, true),
            (format!("[git.example.com]:2222 {ED}"), "git.example.com", 22, false),
            (format!("2001:db8::1 {ED}"), "[2001:db8::1]", 22, true),
            (format!("[2001:db8::1]:2222 {ED}"), "[2001:db8::1]", 2222, true),
            // Two keys, as while a host changes from one to the other.
            (format!("git.example.com {OTHER}\ngit.example.com {ED}"), "git.example.com", 22, true),
            (format!("other {ED}"), "git.example.com", 22, false),
            // By `ssh-keygen -H`.
            (
                format!("|1|JfKTdBh7rNbXkVAQCRp4OQoPfmI=|USECr3SWf1JUPsms5AqfD5QfxkM= {ED}"),
                "git.example.com",
                22,
                false,
            ),
        ] {
            assert_eq!(judged(&lines, host, port) == "trusted", trusted, "{lines} for {host}:{port}");
        }
        let salt = [7_u8; 20];
        let hash = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt), b"[git.example.com]:2222");
        let hashed = format!("|1|{}|{} {ED}", STANDARD.encode(salt), STANDARD.encode(hash));
        assert_eq!(judged(&hashed, "git.example.com", 2222), "trusted");
        assert_ne!(judged(&hashed, "git.example.com", 22), "trusted");
    }

    #[test]
    fn each_distrust_is_named_with_both_keys() {
        insta::assert_snapshot!(judged("", "git.example.com", 2222), @"`known_hosts` has no key of it, and it presents ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU; compare that with the fingerprint that its owner publishes, and only then add the line `[git.example.com]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl`");
        insta::assert_snapshot!(judged(&format!("# old\ngit.example.com {OTHER}"), "git.example.com", 22), @"its key differs: `known_hosts` has ssh-ed25519 SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8 in line 2, but it presents ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU; this may be an attack. If its owner confirms that the key was changed to this one, replace the old line with `git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl`");
        insta::assert_snapshot!(judged(&format!("git.example.com {ED}\n@revoked * {ED}"), "git.example.com", 22), @"its key ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU is revoked in line 2 of `known_hosts`; do not use it, and ask its owner for the new one");
        insta::assert_snapshot!(judged(&format!("@cert-authority *.example.com {OTHER}"), "git.example.com", 22), @"`known_hosts` has no key of it of a supported kind, only `@cert-authority`; add its ed25519 or ecdsa key, or write the `https://` address");
        let rsa = String::from_utf8(
            fs_err::read(format!(
                "{}/tests/data/signatures/ssh-rsa.sshpub",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
            ))
            .unwrap(),
        )
        .unwrap();
        insta::assert_snapshot!(judged(&format!("git.example.com {rsa}"), "git.example.com", 22), @"`known_hosts` has no key of it of a supported kind, only ssh-rsa; add its ed25519 or ecdsa key, or write the `https://` address");
    }

    #[test]
    fn lines_that_cannot_be_read_are_told_all_at_once() {
        let faults =
            KnownHosts::read("a\na ssh-ed25519\n@odd a b c\n|1|x b c\n|1|!|! b c\na ssh-ed25519 AAAA\n\n# fine")
                .unwrap_err();
        let described: Vec<String> = faults.iter().map(|(line, reason)| format!("{line}: {reason}")).collect();
        insta::assert_snapshot!(described.join("\n"), @r"
        1: does not have host, kind and key; copy the whole line from `ssh-keyscan`
        2: has a key that cannot be read: length invalid
        3: begins with an unknown marker; known: `@revoked` and `@cert-authority`
        4: has a hashed host that is cut off
        5: has a hashed host that is not base64
        6: has a key that cannot be read: length invalid
        ");
    }

    /// The keys that are built in have the fingerprints that their hosts publish beside them.
    #[test]
    fn what_is_built_in_is_what_was_published() {
        let known = KnownHosts::read(PUBLISHED_HOST_KEYS).unwrap();
        let prints: Vec<String> =
            known.lines.iter().map(|line| line.key.fingerprint(HashAlg::Sha256).to_string()).collect();
        assert_eq!(
            prints,
            [
                "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
                "SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
                "SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8",
                "SHA256:HbW3g8zUjNSksFbqTiUWPWg2Bq1x8xdGUrliXFzSnUw",
                "SHA256:ybgmFkzwOSotHTHLJgHO0QN8L0xErw6vd0VhFA9m3SM",
                "SHA256:FC73VB6C4OQLSCrjEayhMp9UMxS97caD/Yyi2bhW/J0",
            ]
        );
        assert!(KnownHosts::published_for("github.com", 22).is_some());
        assert!(KnownHosts::published_for("github.com", 2222).is_none());
        assert!(KnownHosts::published_for("git.example.com", 22).is_none());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(@revoked |@cert-authority |\\|1\\||\\||[a-z*?!.,\\[\\]:0-9]{1,9} |ssh-ed25519 |AAAAC3Nz|=|\n|#){0,20}|.{0,80}", host in "[a-z.:\\[\\]]{0,12}", port: u16) {
            if let Ok(known) = KnownHosts::read(&text) {
                let _ = known.host_key_algorithms(&host, port);
                let _ = known.verify_host_key(&host, port, &PublicKey::from_openssh(ED).unwrap());
            }
        }
    }
}
