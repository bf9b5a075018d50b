//! What of a commit or tag is signed, and with what.

use super::{Mirror, MirrorError, Tip};
use crate::source::signature;
use git2::ObjectType;

/// What a revision's signatures are checked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The commit.
    pub commit: SignedObject,
    /// The annotated tag, where the reference is one.
    pub tag: Option<SignedObject>,
}

/// A git object, taken apart into what is signed and the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedObject {
    /// Its full name.
    pub id: String,
    /// The bytes that the signature is over.
    pub payload: Vec<u8>,
    /// The signature in its armour; `None` where there is none.
    pub signature: Option<Vec<u8>>,
}

/// What the armour of the signatures that git knows begins with: OpenPGP, SSH, X.509.
const ARMOURS: [&[u8]; 4] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
];

impl Mirror {
    /// What the signatures of a fetched tip are over.
    ///
    /// # Errors
    /// When the mirror does not hold the commit or the tag.
    pub fn signed(&self, tip: &Tip) -> Result<Signed, MirrorError> {
        let commit = self.object(&tip.commit, ObjectType::Commit)?;
        let (payload, signature) = split_commit(&commit);
        let commit = SignedObject { id: tip.commit.clone(), payload, signature };
        let tag = match &tip.tag {
            Some(id) => {
                let (payload, signature) = split_tag(&self.object(id, ObjectType::Tag)?);
                Some(SignedObject { id: id.clone(), payload, signature })
            }
            None => None,
        };
        Ok(Signed { commit, tag })
    }
}

impl Mirror {
    /// A fetched tip's objects as they are, for [`signature::verify`], which takes them
    /// apart itself.
    ///
    /// # Errors
    /// When the mirror does not hold the commit or the tag.
    pub fn raw(&self, tip: &Tip) -> Result<signature::Signed, MirrorError> {
        let object = |id: &str, kind: ObjectType| {
            let raw = self.object(id, kind)?;
            Ok::<_, MirrorError>(signature::SignedObject { id: id.to_owned(), raw })
        };
        let tag = match &tip.tag {
            Some(id) => {
                let name = tip.name.strip_prefix("refs/tags/").unwrap_or(&tip.name).to_owned();
                Some(signature::SignedTag { name, object: object(id, ObjectType::Tag)? })
            }
            None => None,
        };
        Ok(signature::Signed { commit: object(&tip.commit, ObjectType::Commit)?, tag, ancestors: Vec::new() })
    }
}

/// A commit without its `gpgsig` header, and the header's text. A second such header stays in the payload, so that no
/// signature is over less than what is read.
fn split_commit(commit: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut payload, mut signature) = (Vec::with_capacity(commit.len()), None);
    let (mut in_header, mut in_signature) = (true, false);
    for line in commit.split_inclusive(|byte| *byte == b'\n') {
        if in_header && in_signature {
            if let (Some(more), Some(text)) = (line.strip_prefix(b" "), signature.as_mut()) {
                let text: &mut Vec<u8> = text;
                text.extend_from_slice(more);
                continue;
            }
            in_signature = false;
        }
        match line.strip_prefix(b"gpgsig ") {
            Some(first) if in_header && signature.is_none() => {
                signature = Some(first.to_vec());
                in_signature = true;
            }
            _ => {
                in_header = in_header && line != b"\n";
                payload.extend_from_slice(line);
            }
        }
    }
    (payload, signature)
}

/// A tag without the signature at its end, and that signature. As git does it, the last line that begins an armour
/// counts.
fn split_tag(tag: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut at, mut start) = (0, None);
    for line in tag.split_inclusive(|byte| *byte == b'\n') {
        if ARMOURS.iter().any(|armour| line.starts_with(armour)) {
            start = Some(at);
        }
        at += line.len();
    }
    match start {
        Some(start) => {
            let (payload, signature) = tag.split_at(start);
            (payload.to_vec(), Some(signature.to_vec()))
        }
        None => (tag.to_vec(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn the_header_with_the_signature_is_not_part_of_what_is_signed() {
        let commit = b"tree 1\nauthor a\ngpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n \n -----END SSH SIGNATURE-----\ncommitter c\n\nbody\ngpgsig x\n y\n";
        let (payload, signature) = split_commit(commit);
        insta::assert_snapshot!(text(&payload), @"
        tree 1
        author a
        committer c

        body
        gpgsig x
         y
        ");
        insta::assert_snapshot!(text(&signature.unwrap()), @"
        -----BEGIN SSH SIGNATURE-----
        AAAA

        -----END SSH SIGNATURE-----
        ");
        assert_eq!(split_commit(b"tree 1\n\ngpgsig x\n").1, None, "a message is no header");
    }

    #[test]
    fn a_second_signature_is_part_of_what_is_signed() {
        let (payload, signature) = split_commit(b"tree 1\ngpgsig a\ngpgsig b\n\n");
        assert_eq!(text(&payload), "tree 1\ngpgsig b\n\n");
        assert_eq!(text(&signature.unwrap()), "a\n");
    }

    #[test]
    fn a_tag_ends_in_its_signature() {
        let (payload, signature) =
            split_tag(b"object 1\ntag v1\n\nsaying -----BEGIN PGP SIGNATURE-----\n-----BEGIN PGP SIGNATURE-----\nAA\n");
        assert_eq!(text(&payload), "object 1\ntag v1\n\nsaying -----BEGIN PGP SIGNATURE-----\n");
        assert_eq!(text(&signature.unwrap()), "-----BEGIN PGP SIGNATURE-----\nAA\n");
        assert_eq!(split_tag(b"object 1\n").1, None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_lost_but_those_that_mark_the_signature(bytes in "(tree 1\n|gpgsig |a|\n| |-----BEGIN PGP SIGNATURE-----){0,20}") {
            let (payload, signature) = split_tag(bytes.as_bytes());
            let whole: Vec<u8> = payload.into_iter().chain(signature.unwrap_or_default()).collect();
            prop_assert_eq!(whole, bytes.as_bytes());
            let (payload, signature) = split_commit(bytes.as_bytes());
            if signature.is_none() {
                prop_assert_eq!(payload, bytes.as_bytes());
            }
        }
    }
}
