//! Commits and tags as git keeps them, taken apart into what is signed and what signs it.
//!
//! The ways of git itself (`parse_buffer_signed_by_header` and `parse_signature` in its sources), for one algorithm of
//! ids: a commit's signature is a header, a tag's stands at the end of its text.

use super::SignatureError;
use jiff::Timestamp;
use std::borrow::Cow;

/// A signature longer than this is none: the longest of those that people make have some kilobytes.
const MAX_SIGNATURE_BYTES: usize = 64 << 10;

/// A revision with all that a signature could be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRevision {
    /// The commit.
    pub commit: SignedObject,
    /// The annotated tag that was followed to it.
    pub tag: Option<SignedTag>,
    /// The commits between the last revision that passed and this one, by first parents, when those are to be signed
    /// too: else an unsigned one rides along below a signed one. Empty otherwise.
    pub ancestors: Vec<SignedObject>,
}

/// A commit, or an annotated tag, as the object database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedObject {
    /// Its full id, in lower case.
    pub id: String,
    /// Its bytes, without git's own header of kind and length.
    pub raw: Vec<u8>,
}

/// An annotated tag and the name it was fetched by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTag {
    /// Its name, without `refs/tags/`.
    pub name: String,
    /// The tag.
    pub object: SignedObject,
}

/// What is signed and what signs it.
pub(super) struct SignedParts<'a> {
    /// How it is called in errors.
    pub(super) name: String,
    /// What the signature is over.
    pub(super) payload: Cow<'a, [u8]>,
    /// The signature with its armour.
    pub(super) signature: Option<Vec<u8>>,
    /// When the committer or tagger says it was made.
    pub(super) at: Option<Timestamp>,
}

/// The kinds of signatures that git makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureFormat {
    OpenPgp,
    Ssh,
    X509,
}

impl SignatureFormat {
    /// By the first line.
    pub(super) fn detect(signature: &[u8]) -> Option<Self> {
        let begins = |armour: &str| signature.starts_with(armour.as_bytes());
        if begins("-----BEGIN PGP SIGNATURE-----") || begins("-----BEGIN PGP MESSAGE-----") {
            Some(Self::OpenPgp)
        } else if begins("-----BEGIN SSH SIGNATURE-----") {
            Some(Self::Ssh)
        } else if begins("-----BEGIN SIGNED MESSAGE-----") {
            Some(Self::X509)
        } else {
            None
        }
    }
}

impl SignedObject {
    /// A commit, taken apart.
    pub(super) fn parts(&self) -> Result<SignedParts<'_>, SignatureError> {
        let name = format!("commit {}", self.id.get(..12).unwrap_or(&self.id));
        let malformed = |reason: &str| SignatureError::Malformed { object: name.clone(), reason: reason.to_owned() };
        // A repository of one algorithm may carry the signature of the other form of the same commit.
        let ours: &[u8] = if self.id.len() > 40 { b"gpgsig-sha256 " } else { b"gpgsig " };
        let mut payload = Vec::with_capacity(self.raw.len());
        let mut signature: Option<Vec<u8>> = None;
        let mut at = None;
        // Which header a line that begins with a space goes on with.
        enum CommitSection {
            Payload,
            Signature,
            Other,
        }
        let mut inside = CommitSection::Payload;
        let mut rest = self.raw.as_slice();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at.saturating_add(1));
            let (line, after) = rest.split_at(end);
            if line == b"\n" {
                payload.extend_from_slice(rest);
                break;
            }
            rest = after;
            if let Some(more) = line.strip_prefix(b" ") {
                match inside {
                    CommitSection::Payload => payload.extend_from_slice(line),
                    CommitSection::Signature => signature.get_or_insert_default().extend_from_slice(more),
                    CommitSection::Other => {}
                }
            } else if let Some(first) = line.strip_prefix(ours) {
                if signature.is_some() {
                    return Err(malformed("the commit has more than one"));
                }
                signature = Some(first.to_vec());
                inside = CommitSection::Signature;
            } else if line.starts_with(b"gpgsig") {
                inside = CommitSection::Other;
            } else {
                if let Some(committer) = line.strip_prefix(b"committer ") {
                    at = at.or_else(|| parse_signature_time(committer));
                }
                payload.extend_from_slice(line);
                inside = CommitSection::Payload;
            }
            if signature.as_ref().is_some_and(|bytes| bytes.len() > MAX_SIGNATURE_BYTES) {
                return Err(malformed("it is longer than 64 KiB"));
            }
        }
        Ok(SignedParts { name, payload: Cow::Owned(payload), signature, at })
    }
}

impl SignedTag {
    /// A tag, taken apart, once it is sure that it is the tag of this name on this commit.
    pub(super) fn parts(&self, commit: &SignedObject) -> Result<SignedParts<'_>, SignatureError> {
        let raw = self.object.raw.as_slice();
        let shown: String = self.name.chars().flat_map(char::escape_debug).take(100).collect();
        let elsewhere = |reason: String| SignatureError::TagElsewhere { name: shown.clone(), reason };
        let mut header = (None, None, None, None);
        for line in raw.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                break;
            } else if let Some(value) = line.strip_prefix(b"object ") {
                header.0 = header.0.or(Some(value));
            } else if let Some(value) = line.strip_prefix(b"type ") {
                header.1 = header.1.or(Some(value));
            } else if let Some(value) = line.strip_prefix(b"tag ") {
                header.2 = header.2.or(Some(value));
            } else if let Some(value) = line.strip_prefix(b"tagger ") {
                header.3 = header.3.or_else(|| parse_signature_time(value));
            }
        }
        let (object, kind, name, at) = header;
        if kind != Some(b"commit") {
            return Err(elsewhere("it is on no commit".to_owned()));
        }
        if object != Some(commit.id.as_bytes()) {
            return Err(elsewhere("it is on another commit".to_owned()));
        }
        if name != Some(self.name.as_bytes()) {
            return Err(elsewhere("it was signed under another name".to_owned()));
        }
        // The last armour that begins a line, as git has it: a text may quote one.
        let mut begin = None;
        let mut at_byte = 0_usize;
        for line in raw.split_inclusive(|byte| *byte == b'\n') {
            if SignatureFormat::detect(line).is_some() {
                begin = Some(at_byte);
            }
            at_byte = at_byte.saturating_add(line.len());
        }
        let object = format!("tag {shown}");
        let (payload, signature) = match begin.map(|begin| raw.split_at(begin)) {
            Some((payload, signature)) => (payload, Some(signature.to_vec())),
            None => (raw, None),
        };
        if signature.as_ref().is_some_and(|bytes| bytes.len() > MAX_SIGNATURE_BYTES) {
            return Err(SignatureError::Malformed { object, reason: "it is longer than 64 KiB".to_owned() });
        }
        Ok(SignedParts { name: object, payload: Cow::Borrowed(payload), signature, at })
    }
}

/// The time of `Name <address> 1700000000 +0100`.
fn parse_signature_time(line: &[u8]) -> Option<Timestamp> {
    let text = line.rsplit(|byte| *byte == b'>').next()?;
    let seconds = std::str::from_utf8(text).ok()?.split_whitespace().next()?;
    Timestamp::from_second(seconds.parse().ok()?).ok()
}
