//! Git's list of refs as it comes over the wire (`gitprotocol-pack(5)`, versions 0 and 1).

use super::git_stream::{PacketLineError, read_packet_line};
use super::{GitSession, TransportError};
use git2::Oid;
use std::io::Read;

/// Bytes of a whole list: 50,000 refs of ordinary names are a tenth of it.
const MAX_ADVERTISEMENT_BYTES: usize = 32 << 20;

/// What a host says that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefAdvertisement {
    /// Names and what they lead to, in the host's order, unchecked. Tags have a second line with `^{}`.
    pub(crate) refs: Vec<(Vec<u8>, Oid)>,
    /// What the host's git can do.
    pub(crate) capabilities: String,
}

impl RefAdvertisement {
    /// The value of `what=value`.
    pub(in crate::source) fn capability_value(&self, what: &str) -> Option<&str> {
        self.capabilities.split(' ').find_map(|capability| capability.strip_prefix(what)?.strip_prefix('='))
    }
}

/// Reads a list of refs. Why it breaks off is the stream's to say, where the stream broke.
pub(in crate::source) fn read_advertisement(
    stream: &mut dyn Read,
    session: &GitSession,
) -> Result<RefAdvertisement, TransportError> {
    let redact = |text: &[u8]| session.redacted_text(text);
    let list = read_ref_list(stream, &session.host(), session.limits().max_refs, redact);
    list.map_err(|error| session.take_failure().unwrap_or(error))
}

/// Reads a list of at most `limit` refs. `redact` makes a message of what the host says in place of one.
pub(crate) fn read_ref_list(
    stream: &mut dyn Read,
    host: &str,
    limit: usize,
    redact: impl Fn(&[u8]) -> String,
) -> Result<RefAdvertisement, TransportError> {
    let host = || host.to_owned();
    let broken = |reason: &str| TransportError::Protocol { host: host(), reason: reason.to_owned() };
    let mut advertised = RefAdvertisement::default();
    let (mut bytes, mut first, mut announced) = (0_usize, true, false);
    loop {
        let line = match read_packet_line(stream) {
            Ok(line) => line,
            Err(PacketLineError::Ended) => return Err(TransportError::CutShort { host: host() }),
            Err(PacketLineError::Length) => return Err(broken("a line has no length")),
        };
        let Some(line) = line else {
            // Over HTTP a line that names the service stands before the list, and ends of its own.
            if announced {
                announced = false;
                continue;
            }
            return Ok(advertised);
        };
        bytes += line.len();
        if bytes > MAX_ADVERTISEMENT_BYTES {
            return Err(TransportError::TooMuch {
                host: host(),
                limit: MAX_ADVERTISEMENT_BYTES as u64,
                what: "bytes of refs",
            });
        }
        if let Some(message) = line.strip_prefix(b"ERR ") {
            return Err(TransportError::Remote { host: host(), message: redact(message) });
        }
        if first && line.starts_with(b"# service=") {
            announced = true;
            continue;
        }
        if first && line.trim_ascii_end() == b"version 1" {
            continue;
        }
        if line.starts_with(b"shallow ") {
            continue;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = match line.iter().position(|byte| *byte == 0) {
            Some(at) if first => {
                let (before, after) = line.split_at(at);
                let capabilities = after.get(1..).unwrap_or_default();
                advertised.capabilities = String::from_utf8_lossy(capabilities).trim().to_owned();
                before
            }
            Some(_) | None => line,
        };
        first = false;
        if advertised.capability_value("object-format").is_some_and(|format| format != "sha1") {
            return Ok(advertised);
        }
        let (oid, rest) = line.split_at_checked(40).ok_or_else(|| broken("a line of the list of refs is too short"))?;
        let oid = std::str::from_utf8(oid).ok().and_then(|oid| Oid::from_str(oid).ok());
        let oid = oid.ok_or_else(|| broken("a ref points to something that is not an object name"))?;
        let name = rest.strip_prefix(b" ").ok_or_else(|| broken("a ref has no name"))?;
        // How a host says what it can do when it has no refs.
        if name == b"capabilities^{}" {
            continue;
        }
        advertised.refs.push((name.to_vec(), oid));
        if advertised.refs.len() > limit {
            return Err(TransportError::TooMuch { host: host(), limit: limit as u64, what: "refs" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::credentials::GitCredentials;
    use crate::source::remote::{FetchLimits, RemoteRepository};
    use crate::source::url::{AllowedSchemes, RepositoryUrl};
    use proptest::prelude::*;

    fn read_all(mut bytes: &[u8]) -> Result<RefAdvertisement, TransportError> {
        let url = RepositoryUrl::parse("https://git.example.com/team/models", AllowedSchemes::default()).unwrap();
        let remote = RemoteRepository::new(url.clone(), GitCredentials::read(None, &url).unwrap());
        let limits = FetchLimits { max_refs: 3, ..FetchLimits::default() };
        read_advertisement(&mut bytes, &GitSession::new(RemoteRepository { limits, ..remote }, None, None))
    }

    fn line(text: &str) -> String {
        format!("{:04x}{text}", text.len() + 4)
    }

    fn described(text: &str) -> String {
        match read_all(text.as_bytes()) {
            Ok(advertised) => {
                let name = |(name, _): &(Vec<u8>, Oid)| String::from_utf8_lossy(name).into_owned();
                format!("{:?} {:?}", advertised.refs.iter().map(name).collect::<Vec<_>>(), advertised.capabilities)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_list_of_refs_is_read_as_each_version_of_git_writes_it() {
        let one = "1".repeat(40);
        let first = line(&format!("{one} HEAD\0symref=HEAD:refs/heads/main agent=git/2\n"));
        let second = line(&format!("{one} refs/heads/main\n"));
        let all = [
            format!("{}0000{first}{second}0000", line("# service=git-upload-pack\n")),
            format!("{}{first}{}0000", line("version 1\n"), line(&format!("shallow {one}\n"))),
            format!("{}0000", line(&format!("{} capabilities^{{}}\0shallow\n", "0".repeat(40)))),
            "0000".to_owned(),
            format!("{}0000", line(&format!("{} refs/heads/main\0object-format=sha256\n", "1".repeat(64)))),
        ];
        insta::assert_snapshot!(all.map(|text| described(&text)).join("\n"), @r#"
        ["HEAD", "refs/heads/main"] "symref=HEAD:refs/heads/main agent=git/2"
        ["HEAD"] "symref=HEAD:refs/heads/main agent=git/2"
        [] "shallow"
        [] ""
        [] "object-format=sha256"
        "#);
    }

    #[test]
    fn what_is_no_list_of_refs_is_told() {
        let one = "1".repeat(40);
        let many = line(&format!("{one} refs/heads/a\n")).repeat(5);
        let all = [
            String::new(),
            "00".to_owned(),
            "zzzz".to_owned(),
            "+00a".to_owned(),
            "0001".to_owned(),
            "fff0abc".to_owned(),
            line("x"),
            line(&format!("{one}refs/heads/a")),
            line(&format!("{} refs/heads/a", "g".repeat(40))),
            line("ERR no such\n\u{1b}[31mrepository"),
            format!("{many}0000"),
        ];
        insta::assert_snapshot!(all.map(|text| described(&text)).join("\n"), @"
        git.example.com closed the connection in the middle of a response
        git.example.com closed the connection in the middle of a response
        git.example.com breaks git's protocol: a line has no length
        git.example.com breaks git's protocol: a line has no length
        git.example.com breaks git's protocol: a line has no length
        git.example.com closed the connection in the middle of a response
        git.example.com breaks git's protocol: a line of the list of refs is too short
        git.example.com breaks git's protocol: a ref has no name
        git.example.com breaks git's protocol: a ref points to something that is not an object name
        git on git.example.com says: no such [31mrepository
        git.example.com sends more than 3 refs
        ");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "(0000|0008ERR |003f|1{40} |refs/heads/a\0|\n){0,10}") {
            let _ = read_all(&bytes);
            let _ = read_all(text.as_bytes());
        }
    }
}
