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
use crate::source::url::{RepositoryUrl, Scheme};
use fs_err::{File, OpenOptions};
use git2::{Oid, Repository, RepositoryInitOptions};
use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The mirror's whole configuration. What a fetched repository says about itself never gets here.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n\tsymlinks = false\n[gc]\n\tauto = 0\n";
/// A branch that nothing ever writes.
const HEAD: &str = "ref: refs/heads/none\n";
/// Where the mirror's own refs are, each by the hash of the name that it has on the host: such names can be longer than a
/// file may be called, and one can be a folder of another.
const TIPS: &str = "refs/stator/";

pub(super) struct Store {
    folder: PathBuf,
    seen: BTreeMap<String, Oid>,
    repository: Repository,
    /// A repository on this machine, which is read in place.
    local: Option<PathBuf>,
    lock: File,
}

impl Store {
    /// Opens the mirror of a repository, anew when it is damaged or of another repository.
    pub(super) fn open(folder: &Path, url: &RepositoryUrl) -> Result<Self, MirrorError> {
        let failed = |error: std::io::Error| unkept(folder, &error);
        fs_err::create_dir_all(folder).map_err(failed)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(failed)?;
        match lock.file().try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(MirrorError::Busy { path: folder.to_owned() }),
            Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let local = match url.scheme() {
            Scheme::Local => Some(objects_of(Path::new(url.path()))?),
            Scheme::Https | Scheme::Http | Scheme::Ssh => None,
        };
        let address = format!("{url}\n");
        let same = fs_err::read_to_string(folder.join("origin")).is_ok_and(|origin| origin == address);
        let bare = folder.join("mirror.git");
        let kept = if same && bare.is_dir() { reopen(&bare, local.as_deref()).ok() } else { None };
        let repository = match kept {
            Some(repository) => repository,
            None => {
                tracing::info!(folder = %folder.display(), "the mirror is new, of another repository or damaged: it is made anew");
                if !same {
                    remove(&folder.join("seen")).map_err(failed)?;
                }
                let repository = make(&bare).map_err(|error| lost(folder, &error))?;
                fs_err::write(folder.join("origin"), address).map_err(failed)?;
                attach(&repository, local.as_deref()).map_err(|error| lost(folder, &error))?;
                repository
            }
        };
        let seen = read_seen(&folder.join("seen"));
        Ok(Self { folder: folder.to_owned(), seen, repository, local, lock })
    }

    pub(super) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Throws all objects away and starts anew. What was seen stays.
    pub(super) fn rebuild(&mut self) -> Result<(), MirrorError> {
        self.repository = make(&self.folder.join("mirror.git")).map_err(|error| lost(&self.folder, &error))?;
        attach(&self.repository, self.local.as_deref()).map_err(|error| lost(&self.folder, &error))
    }

    /// That the folder could not be written, in the words of who tried.
    pub(super) fn failed(&self, reason: &str) -> MirrorError {
        MirrorError::Folder { path: self.folder.clone(), reason: reason.to_owned() }
    }

    /// The commit that a ref led to when it was fetched last.
    pub(super) fn seen(&self, name: &str) -> Option<Oid> {
        self.seen.get(name).copied()
    }

    /// Keeps where a ref leads. The objects below are what a later fetch builds on.
    pub(super) fn remember(&mut self, name: &str, commit: Oid) -> Result<(), MirrorError> {
        let reference = self.repository.reference(&tip_of(name), commit, true, "");
        reference.map(drop).map_err(|error| lost(&self.folder, &error))?;
        if self.seen.insert(name.to_owned(), commit) == Some(commit) {
            return Ok(());
        }
        self.write_seen()
    }

    /// Lets go of a ref that nobody asks for any more.
    pub(super) fn forget(&mut self, name: &str) -> Result<(), MirrorError> {
        if let Ok(mut reference) = self.repository.find_reference(&tip_of(name)) {
            reference.delete().map_err(|error| lost(&self.folder, &error))?;
        }
        if self.seen.remove(name).is_some() { self.write_seen() } else { Ok(()) }
    }

    fn write_seen(&self) -> Result<(), MirrorError> {
        let lines: String = self.seen.iter().map(|(name, commit)| format!("{commit} {name}\n")).collect();
        let new = self.folder.join("seen.new");
        fs_err::write(&new, lines)
            .and_then(|()| fs_err::rename(&new, self.folder.join("seen")))
            .map_err(|error| unkept(&self.folder, &error))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Closing is not enough: a program that is just being started elsewhere in this process holds the file as well.
        if let Err(error) = self.lock.file().unlock() {
            tracing::debug!(%error, "the lock of a mirror was not let go");
        }
    }
}

/// What is kept under the ref's name: a ref of the mirror, whose name is the hash of the other.
fn tip_of(name: &str) -> String {
    match Oid::hash_object(git2::ObjectType::Blob, name.as_bytes()) {
        Ok(hash) => format!("{TIPS}{hash}"),
        // Hashing fails for want of memory alone.
        Err(_) => format!("{TIPS}other"),
    }
}

/// What an earlier process saw; a line that cannot be read counts as not seen.
fn read_seen(path: &Path) -> BTreeMap<String, Oid> {
    let text = fs_err::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (commit, name) = line.split_once(' ')?;
        Some((name.to_owned(), Oid::from_str(commit).ok().filter(|_| commit.len() == 40)?))
    };
    text.lines().filter_map(line).collect()
}

/// Removes a file or a folder with all that is in it, if there is one.
fn remove(path: &Path) -> std::io::Result<()> {
    match fs_err::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs_err::remove_dir_all(path),
        Ok(_) => fs_err::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A new bare repository in the place of whatever is there.
fn make(bare: &Path) -> Result<Repository, git2::Error> {
    let io = |error: std::io::Error| git2::Error::from_str(&error.to_string());
    remove(bare).map_err(io)?;
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false).no_reinit(true).mkpath(true).initial_head("none");
    drop(Repository::init_opts(bare, &options)?);
    fs_err::write(bare.join("config"), CONFIG).map_err(io)?;
    fs_err::write(bare.join("HEAD"), HEAD).map_err(io)?;
    Repository::open_bare(bare)
}

/// A mirror that an earlier process left, or why it cannot be used.
fn reopen(bare: &Path, local: Option<&Path>) -> Result<Repository, String> {
    let io = |error: std::io::Error| error.to_string();
    let git = |error: git2::Error| error.message().to_owned();
    for (file, text) in [("config", CONFIG), ("HEAD", HEAD)] {
        if fs_err::read(bare.join(file)).map_err(io)? != text.as_bytes() {
            return Err(format!("{file} is not as it was written"));
        }
    }
    // The lock is held, so whoever left these is gone.
    sweep(bare).map_err(io)?;
    for name in ["objects/info/alternates", "commondir"] {
        if bare.join(name).exists() {
            return Err(format!("{name} is none of stator's"));
        }
    }
    if let Ok(shallow) = fs_err::read(bare.join("shallow"))
        && !shallow.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() == 41 && is_hex(line.trim_ascii_end()))
    {
        return Err("the list of cut histories is damaged".to_owned());
    }
    packs_are_whole(&bare.join("objects/pack")).map_err(io)?;
    let repository = Repository::open_bare(bare).map_err(git)?;
    attach(&repository, local).map_err(git)?;
    {
        let odb = repository.odb().map_err(git)?;
        for reference in repository.references().map_err(git)? {
            let target = reference.map_err(git)?.target().ok_or("a ref leads nowhere")?;
            odb.read_header(target).map_err(git)?;
        }
    }
    Ok(repository)
}

/// Removes what a killed process leaves: locks and half-written packs.
fn sweep(bare: &Path) -> std::io::Result<()> {
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
fn packs_are_whole(folder: &Path) -> std::io::Result<()> {
    let damaged = |path: &Path| std::io::Error::other(format!("{} is cut short", path.display()));
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
fn attach(repository: &Repository, local: Option<&Path>) -> Result<(), git2::Error> {
    let Some(objects) = local else { return Ok(()) };
    let path = objects.to_str().ok_or_else(|| git2::Error::from_str("its path is not UTF-8"))?;
    repository.odb()?.add_disk_alternate(path)
}

/// The repository at a local path.
pub(super) fn local(path: &Path) -> Result<Repository, MirrorError> {
    Repository::open(path).map_err(|error| MirrorError::NoRepository {
        path: path.to_owned(),
        reason: if error.code() == git2::ErrorCode::Owner {
            "it belongs to another user, and git takes such a one only when `safe.directory` names it".to_owned()
        } else {
            error.message().to_owned()
        },
    })
}

fn objects_of(path: &Path) -> Result<PathBuf, MirrorError> {
    let objects = local(path)?.commondir().join("objects");
    fs_err::canonicalize(&objects)
        .map_err(|error| MirrorError::NoRepository { path: path.to_owned(), reason: error.to_string() })
}

fn unkept(folder: &Path, error: &std::io::Error) -> MirrorError {
    MirrorError::Folder { path: folder.to_owned(), reason: error.to_string() }
}

fn lost(folder: &Path, error: &git2::Error) -> MirrorError {
    MirrorError::Folder { path: folder.to_owned(), reason: error.message().to_owned() }
}
