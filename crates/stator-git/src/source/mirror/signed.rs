//! What the signatures of a revision are judged on.

use super::{Mirror, MirrorError, ResolvedRef};
use crate::source::signature::{SignedObject, SignedRevision, SignedTag};
use git2::ObjectType;

impl Mirror {
    /// A commit as it is, without any tag that may lead to it.
    ///
    /// # Errors
    /// When the mirror does not hold it.
    pub fn signed_commit(&self, commit: &str) -> Result<SignedRevision, MirrorError> {
        let raw = self.read_object(commit, ObjectType::Commit)?;
        let commit = SignedObject { id: commit.to_owned(), raw };
        Ok(SignedRevision { commit, tag: None, ancestors: Vec::new() })
    }

    /// The commit of a fetched tip and the annotated tag that led to it, as they are, for
    /// [`verify_revision`](crate::source::signature::verify_revision).
    ///
    /// # Errors
    /// When the mirror does not hold the commit or the tag.
    pub fn signed_revision(&self, tip: &ResolvedRef) -> Result<SignedRevision, MirrorError> {
        let object = |id: &str, kind: ObjectType| {
            Ok::<_, MirrorError>(SignedObject { id: id.to_owned(), raw: self.read_object(id, kind)? })
        };
        let tag = match &tip.tag {
            Some(id) => {
                // What the tag is called inside is compared with this: a tag that was signed as another is none.
                let name = tip.name.strip_prefix("refs/tags/").unwrap_or(&tip.name).to_owned();
                Some(SignedTag { name, object: object(id, ObjectType::Tag)? })
            }
            None => None,
        };
        Ok(SignedRevision { commit: object(&tip.commit, ObjectType::Commit)?, tag, ancestors: Vec::new() })
    }
}
