//! What refs a repository has.

use super::MirrorError;
use crate::source::transport::RefAdvertisement;
use git2::{ObjectType, Oid, Reference, Repository};
use std::collections::BTreeMap;

/// The refs of a repository at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemoteRefs {
    /// Where each leads: a commit, or a tag object.
    pub(super) refs: BTreeMap<String, Oid>,
    /// For annotated tags, what is at the end of them.
    pub(super) peeled: BTreeMap<String, Oid>,
    /// The branch that `HEAD` names.
    pub(super) head: Option<String>,
}

impl RemoteRefs {
    /// The refs of a repository of this machine. Names that git does not allow are left out.
    pub(super) fn from_repository(repository: &Repository, limit: usize) -> Result<Self, MirrorError> {
        let mut advert = Self::default();
        let damaged = |error: git2::Error| MirrorError::Damaged { reason: error.message().to_owned() };
        for reference in repository.references().map_err(damaged)? {
            let Ok(reference) = reference else { continue };
            let Some((name, target)) = std::str::from_utf8(reference.name_bytes())
                .ok()
                .zip(reference.resolve().ok().and_then(|reference| reference.target()))
            else {
                continue;
            };
            if advert.refs.len() >= limit {
                return Err(MirrorError::TooMany { commit: "HEAD".to_owned(), limit, what: "refs" });
            }
            if let Ok(object) = repository.find_object(target, Some(ObjectType::Tag))
                && let Ok(end) = object.peel(ObjectType::Any)
            {
                advert.peeled.insert(name.to_owned(), end.id());
            }
            advert.insert_ref(name, target);
        }
        advert.head = repository
            .find_reference("HEAD")
            .ok()
            .and_then(|head| head.symbolic_target_bytes().map(|name| String::from_utf8_lossy(name).into_owned()));
        Ok(advert)
    }

    /// The refs that a host says it has. Names that git does not allow are left out: nothing can be called so that a
    /// source would follow.
    pub(super) fn from_host(advertised: &RefAdvertisement) -> Self {
        let mut advert = Self::default();
        for (name, target) in &advertised.refs {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            match name.strip_suffix("^{}") {
                Some(tag) if is_valid_ref_name(tag) => drop(advert.peeled.insert(tag.to_owned(), *target)),
                Some(_) => {}
                None if name.starts_with("refs/") => advert.insert_ref(name, *target),
                None => {}
            }
        }
        advert.head = advertised
            .capabilities
            .split(' ')
            .find_map(|capability| capability.strip_prefix("symref=HEAD:"))
            .map(str::to_owned);
        advert
    }

    /// Adds a ref when its name is one that git allows.
    pub(super) fn insert_ref(&mut self, name: &str, target: Oid) {
        if is_valid_ref_name(name) {
            self.refs.insert(name.to_owned(), target);
        }
    }

    /// The name of the default branch, where `HEAD` says it.
    pub(super) fn default_branch(&self) -> Option<String> {
        self.head
            .as_deref()?
            .strip_prefix("refs/heads/")
            .filter(|name| is_valid_ref_name(&format!("refs/heads/{name}")))
            .map(str::to_owned)
    }
}

/// Whether a ref may be called so: what git allows, without a part that reads as an option, in at most 1,024 bytes.
pub(super) fn is_valid_ref_name(name: &str) -> bool {
    name.len() <= 1024
        && Reference::is_valid_name(name)
        && name.split('/').all(|part| !part.starts_with('-'))
        && !name.chars().any(char::is_control)
}
