//! Every fetch leaves a pack behind; many small ones make every look-up slow. Now and then they become one.

use super::object_cache::GitObjectCache;
use super::{Mirror, MirrorError};
use crate::source::url::UrlScheme;
use git2::Oid;
use std::path::PathBuf;

impl Mirror {
    /// Bytes of all packs.
    pub fn disk_bytes(&self) -> u64 {
        let packs = pack_files(&self.pack_folder()).unwrap_or_default();
        packs.iter().filter_map(|pack| Some(fs_err::metadata(pack).ok()?.len())).sum()
    }

    /// Makes the mirror anew with the commit that was just fetched, when it takes more disk than it may: whatever else is
    /// in it was of pull requests that are closed, or of commits that nobody asks for.
    pub(super) fn shrink(&mut self, name: &str, start: Oid, commit: Oid) -> Result<(), MirrorError> {
        let bytes = self.disk_bytes();
        if self.remote.url.scheme() == UrlScheme::Local || bytes <= self.remote.limits.max_disk_bytes {
            return Ok(());
        }
        tracing::info!(url = %self.remote.url, bytes, "the mirror takes too much disk and is created again");
        self.cache = GitObjectCache::default();
        self.store.rebuild()?;
        self.fetch_objects(&[start], 1)?;
        self.store.record_tip(name, commit)
    }

    fn pack_folder(&self) -> PathBuf {
        self.store.repository().path().join("objects").join("pack")
    }

    /// Puts all packs into one when there are more than the limit. Objects that nothing leads to any more stay.
    pub(super) fn compact_packs(&self) -> Result<(), MirrorError> {
        if self.remote.url.scheme() == UrlScheme::Local {
            return Ok(());
        }
        let folder = self.pack_folder();
        let old = pack_files(&folder).map_err(|error| self.store.write_error(&error.to_string()))?;
        if old.len() <= self.remote.limits.max_packs {
            return Ok(());
        }
        let failed = |error: git2::Error| MirrorError::Damaged { reason: error.message().to_owned() };
        let repository = self.store.repository();
        let odb = repository.odb().map_err(failed)?;
        let mut builder = repository.packbuilder().map_err(failed)?;
        let mut all = Vec::new();
        odb.foreach(|oid| {
            all.push(*oid);
            true
        })
        .map_err(failed)?;
        for oid in all {
            builder.insert_object(oid, None).map_err(failed)?;
        }
        // Written in full and renamed before an old one goes: whoever is killed in between leaves both.
        builder.write(&folder, 0o444).map_err(failed)?;
        let kept = builder.name().map_err(failed)?.map(|name| format!("pack-{name}"));
        for pack in old {
            if pack.file_stem().and_then(|stem| stem.to_str()) == kept.as_deref() {
                continue;
            }
            for extension in ["idx", "pack"] {
                fs_err::remove_file(pack.with_extension(extension))
                    .map_err(|error| self.store.write_error(&error.to_string()))?;
            }
        }
        odb.refresh().map_err(failed)
    }
}

fn pack_files(folder: &std::path::Path) -> std::io::Result<Vec<PathBuf>> {
    let mut packs = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            packs.push(path);
        }
    }
    Ok(packs)
}
