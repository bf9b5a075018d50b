//! The folder that a mirror lives in.
//!
//! | In the folder | Is |
//! |-|-|
//! | `lock` | held while a process uses the mirror |
//! | `origin` | the address that the objects came from |
//! | `seen` | the commit that each ref led to when it was fetched last; outlives a mirror that has to be made anew |
//! | `mirror.git/` | the bare repository |
//!
//! All of it can be had again from the host, so whatever is damaged is thrown away.

use super::MirrorError;
use crate::source::url::{RepositoryUrl, UrlScheme};
use fs_err::{File, OpenOptions};
use git2::{Oid, Repository, RepositoryInitOptions};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The mirror's whole configuration. What a fetched repository says about itself never gets here.
const GIT_CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n\tsymlinks = false\n[gc]\n\tauto = 0\n";
/// A branch that nothing ever writes.
const UNUSED_HEAD: &str = "ref: refs/heads/none\n";
/// Where the mirror's own refs are, each by the hash of the name that it has on the host: such names can be longer than a
/// file may be called, and one can be a folder of another.
const TIP_REF_PREFIX: &str = "refs/stator/";

pub(super) struct MirrorStore {
    folder: PathBuf,
    tips: BTreeMap<String, Oid>,
    repository: Repository,
    /// A repository on this machine, which is read in place.
    local: Option<PathBuf>,
    lock: File,
}

impl MirrorStore {
    /// Opens the mirror of a repository, anew when it is damaged or of another repository.
    pub(super) fn open(folder: &Path, url: &RepositoryUrl) -> Result<Self, MirrorError> {
        let failed = |error: std::io::Error| folder_error(folder, &error);
        fs_err::create_dir_all(folder).map_err(failed)?;
        // What is in a private repository is nobody else's on this machine.
        fs_err::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(failed)?;
        match lock.file().try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(MirrorError::Busy { path: folder.to_owned() }),
            Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let local = match url.scheme() {
            UrlScheme::Local => Some(objects_folder(Path::new(url.path()))?),
            UrlScheme::Https | UrlScheme::Http | UrlScheme::Ssh => None,
        };
        let address = format!("{url}\n");
        let same = fs_err::read_to_string(folder.join("origin")).is_ok_and(|origin| origin == address);
        let bare = folder.join("mirror.git");
        let kept = if same && bare.is_dir() { open_existing(&bare, local.as_deref()).ok() } else { None };
        let repository = match kept {
            Some(repository) => repository,
            None => {
                let message = match (same, folder.join("origin").is_file()) {
                    (true, _) => "the mirror is damaged: starting a new one",
                    (false, true) => "the mirror is of another repository: starting a new one",
                    (false, false) => "starting a new mirror",
                };
                tracing::info!(folder = %folder.display(), "{message}");
                if !same {
                    remove_path(&folder.join("seen")).map_err(failed)?;
                }
                let repository = create_bare(&bare).map_err(|error| repository_error(folder, &error))?;
                fs_err::write(folder.join("origin"), address).map_err(failed)?;
                attach_alternates(&repository, local.as_deref()).map_err(|error| repository_error(folder, &error))?;
                repository
            }
        };
        let seen = load_tips(&folder.join("seen"));
        Ok(Self { folder: folder.to_owned(), tips: seen, repository, local, lock })
    }

    pub(super) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Throws all objects away and starts anew. What was seen stays.
    pub(super) fn rebuild(&mut self) -> Result<(), MirrorError> {
        self.repository =
            create_bare(&self.folder.join("mirror.git")).map_err(|error| repository_error(&self.folder, &error))?;
        attach_alternates(&self.repository, self.local.as_deref())
            .map_err(|error| repository_error(&self.folder, &error))
    }

    /// That the folder could not be written, in the words of who tried.
    pub(super) fn write_error(&self, reason: &str) -> MirrorError {
        MirrorError::Folder { path: self.folder.clone(), reason: reason.to_owned() }
    }

    /// The commit that a ref led to when it was fetched last.
    pub(super) fn last_fetched(&self, name: &str) -> Option<Oid> {
        self.tips.get(name).copied()
    }

    /// Keeps where a ref leads. The objects below are what a later fetch builds on.
    pub(super) fn record_tip(&mut self, name: &str, commit: Oid) -> Result<(), MirrorError> {
        let reference = self.repository.reference(&tip_ref_name(name), commit, true, "");
        reference.map(drop).map_err(|error| repository_error(&self.folder, &error))?;
        if self.tips.insert(name.to_owned(), commit) == Some(commit) {
            return Ok(());
        }
        self.save_tips()
    }

    /// Lets go of a ref that nobody asks for any more.
    pub(super) fn remove_tip(&mut self, name: &str) -> Result<(), MirrorError> {
        if let Ok(mut reference) = self.repository.find_reference(&tip_ref_name(name)) {
            reference.delete().map_err(|error| repository_error(&self.folder, &error))?;
        }
        if self.tips.remove(name).is_some() { self.save_tips() } else { Ok(()) }
    }

    fn save_tips(&self) -> Result<(), MirrorError> {
        let lines: String = self.tips.iter().map(|(name, commit)| format!("{commit} {name}\n")).collect();
        let new = self.folder.join("seen.new");
        fs_err::write(&new, lines)
            .and_then(|()| fs_err::rename(&new, self.folder.join("seen")))
            .map_err(|error| folder_error(&self.folder, &error))
    }
}

impl Drop for MirrorStore {
    fn drop(&mut self) {
        // Closing is not enough: a program that is just being started elsewhere in this process holds the file as well.
        if let Err(error) = self.lock.file().unlock() {
            tracing::debug!(%error, "the lock of a mirror was not released");
        }
    }
}

/// What is kept under the ref's name: a ref of the mirror, whose name is the hash of the other.
fn tip_ref_name(name: &str) -> String {
    match Oid::hash_object(git2::ObjectType::Blob, name.as_bytes()) {
        Ok(hash) => format!("{TIP_REF_PREFIX}{hash}"),
        // Hashing fails for want of memory alone.
        Err(_) => format!("{TIP_REF_PREFIX}other"),
    }
}

/// What an earlier process saw; a line that cannot be read counts as not seen.
fn load_tips(path: &Path) -> BTreeMap<String, Oid> {
    let text = fs_err::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (commit, name) = line.split_once(' ')?;
        Some((name.to_owned(), Oid::from_str(commit).ok().filter(|_| commit.len() == 40)?))
    };
    text.lines().filter_map(line).collect()
}

/// Removes a file or a folder with all that is in it, if there is one.
fn remove_path(path: &Path) -> std::io::Result<()> {
    match fs_err::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs_err::remove_dir_all(path),
        Ok(_) => fs_err::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A new bare repository in the place of whatever is there.
fn create_bare(bare: &Path) -> Result<Repository, git2::Error> {
    let io = |error: std::io::Error| git2::Error::from_str(&error.to_string());
    remove_path(bare).map_err(io)?;
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false).no_reinit(true).mkpath(true).initial_head("none");
    drop(Repository::init_opts(bare, &options)?);
    fs_err::write(bare.join("config"), GIT_CONFIG).map_err(io)?;
    fs_err::write(bare.join("HEAD"), UNUSED_HEAD).map_err(io)?;
    Repository::open_bare(bare)
}

/// A mirror that an earlier process left, or why it cannot be used.
fn open_existing(bare: &Path, local: Option<&Path>) -> Result<Repository, String> {
    let io = |error: std::io::Error| error.to_string();
    let git = |error: git2::Error| error.message().to_owned();
    for (file, text) in [("config", GIT_CONFIG), ("HEAD", UNUSED_HEAD)] {
        if fs_err::read(bare.join(file)).map_err(io)? != text.as_bytes() {
            return Err(format!("{file} was changed"));
        }
    }
    // The lock is held, so whoever left these is gone.
    remove_leftovers(bare).map_err(io)?;
    for name in ["objects/info/alternates", "commondir"] {
        if bare.join(name).exists() {
            return Err(format!("{name} was not created by stator"));
        }
    }
    if let Ok(shallow) = fs_err::read(bare.join("shallow"))
        && !shallow.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() == 41 && is_hex(line.trim_ascii_end()))
    {
        return Err("the list of cut histories is damaged".to_owned());
    }
    check_packs(&bare.join("objects/pack")).map_err(io)?;
    let repository = Repository::open_bare(bare).map_err(git)?;
    attach_alternates(&repository, local).map_err(git)?;
    {
        let odb = repository.odb().map_err(git)?;
        for reference in repository.references().map_err(git)? {
            let target = reference.map_err(git)?.target().ok_or("a ref points to nothing")?;
            odb.read_header(target).map_err(git)?;
        }
    }
    Ok(repository)
}

/// Removes what a killed process leaves: locks and half-written packs.
fn remove_leftovers(bare: &Path) -> std::io::Result<()> {
    let mut open = vec![bare.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else if name.ends_with(".lock") || name.starts_with("pack_git2_") || name.starts_with("tmp_") {
                fs_err::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Whether every pack is as long as its index says: the index ends in the pack's checksum, which the pack ends in too.
/// A flipped bit inside shows when the object is read, whose name is its hash.
fn check_packs(folder: &Path) -> std::io::Result<()> {
    let damaged = |path: &Path| std::io::Error::other(format!("{} is truncated", path.display()));
    for entry in fs_err::read_dir(folder)? {
        let pack = entry?.path();
        match pack.extension().and_then(|extension| extension.to_str()) {
            Some("pack") => {}
            Some("idx") if !pack.with_extension("pack").exists() => return Err(damaged(&pack)),
            _ => continue,
        }
        let last = |path: &Path, back: i64| -> std::io::Result<[u8; 20]> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::End(-back))?;
            let mut bytes = [0; 20];
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        };
        if last(&pack, 20)? != last(&pack.with_extension("idx"), 40)? {
            return Err(damaged(&pack));
        }
    }
    Ok(())
}

fn is_hex(text: &[u8]) -> bool {
    text.len() == 40 && text.iter().all(u8::is_ascii_hexdigit)
}

/// Reads a repository of this machine in place: nothing of it is copied.
fn attach_alternates(repository: &Repository, local: Option<&Path>) -> Result<(), git2::Error> {
    let Some(objects) = local else { return Ok(()) };
    let path = objects.to_str().ok_or_else(|| git2::Error::from_str("its path is not UTF-8"))?;
    repository.odb()?.add_disk_alternate(path)
}

/// The repository at a local path.
pub(super) fn open_local(path: &Path) -> Result<Repository, MirrorError> {
    Repository::open(path).map_err(|error| MirrorError::NoRepository {
        path: path.to_owned(),
        reason: if error.code() == git2::ErrorCode::Owner {
            "it belongs to another user, and git accepts it only if `safe.directory` lists it".to_owned()
        } else {
            error.message().to_owned()
        },
    })
}

fn objects_folder(path: &Path) -> Result<PathBuf, MirrorError> {
    let objects = open_local(path)?.commondir().join("objects");
    fs_err::canonicalize(&objects)
        .map_err(|error| MirrorError::NoRepository { path: path.to_owned(), reason: error.to_string() })
}

fn folder_error(folder: &Path, error: &std::io::Error) -> MirrorError {
    MirrorError::Folder { path: folder.to_owned(), reason: error.to_string() }
}

fn repository_error(folder: &Path, error: &git2::Error) -> MirrorError {
    MirrorError::Folder { path: folder.to_owned(), reason: error.message().to_owned() }
}
