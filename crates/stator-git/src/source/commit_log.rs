//! What commits of a repository say of themselves, for people: author, title, time, and which of them changed a folder.

use super::git;
use git2::{Commit, Oid, Repository, StatusOptions};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most characters of a title or a name that are shown.
const MAX_LINE: usize = 200;
/// How many commits back a folder's newest change is looked for.
const MAX_STEPS: usize = 500;
/// The file whose settings are part of every model below it.
const SETTINGS_FILE: &str = "stator.yaml";

/// What a commit says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitHeader {
    /// Its author's name, on one line; their address is left out.
    pub author: String,
    /// The first line of its message.
    pub title: String,
    /// When it was committed.
    pub time: Timestamp,
}

/// What is asked of a repository's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitQuestion {
    /// Commits, in full.
    pub commits: BTreeSet<String>,
    /// Folders of models, from the repository's root, of which the newest change is asked.
    pub folders: BTreeSet<String>,
    /// The commit from which on, backwards; in full.
    pub head: String,
}

/// The answer; what the repository does not have, or not so far back, is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitAnswer {
    /// By commit.
    pub headers: BTreeMap<String, CommitHeader>,
    /// By folder: the newest commit that changed it, or settings of a folder above.
    pub changes: BTreeMap<String, String>,
}

/// Asks the repository that a folder of this machine is in. `question.folders` are then relative to `root`.
/// Nothing is known of a folder outside git.
pub fn read_commit_log(root: &Path, question: &CommitQuestion) -> CommitAnswer {
    let root = fs_err::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let Ok((repository, top)) = git::discover(&root) else { return CommitAnswer::default() };
    let mut answer = answer_question(&repository, &top, question);
    // What differs from the commit is nobody's commit.
    answer.changes.retain(|folder, _| !differs_from_head(&repository, &top, folder));
    answer
}

/// Whether a model's files, or settings above them, are not as they were committed.
fn differs_from_head(repository: &Repository, top: &str, folder: &str) -> bool {
    let whole = format!("{top}/{folder}");
    let whole = whole.trim_matches('/');
    let mut options = StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true).disable_pathspec_match(true).pathspec(whole);
    let ends = whole.match_indices('/').map(|(end, _)| end);
    for above in std::iter::once(0).chain(ends) {
        let above = whole.get(..above).unwrap_or_default();
        options.pathspec(format!("{above}/{SETTINGS_FILE}").trim_start_matches('/'));
    }
    repository.statuses(Some(&mut options)).is_ok_and(|found| !found.is_empty())
}

/// Asks a repository; `top` is the folder that `question.folders` are relative to.
pub(super) fn answer_question(repository: &Repository, top: &str, question: &CommitQuestion) -> CommitAnswer {
    let changes = newest_changes(repository, top, question);
    let commits = question.commits.iter().chain(changes.values());
    let headers = commits.filter_map(|commit| Some((commit.clone(), header_of(&find(repository, commit)?)))).collect();
    CommitAnswer { headers, changes }
}

fn find<'a>(repository: &'a Repository, commit: &str) -> Option<Commit<'a>> {
    let is_full = commit.len() == 40;
    Oid::from_str(commit).ok().filter(|_| is_full).and_then(|oid| repository.find_commit(oid).ok())
}

fn header_of(commit: &Commit<'_>) -> CommitHeader {
    let line = |bytes: &[u8]| -> String {
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        git::printable(first.trim_ascii_end()).chars().take(MAX_LINE).collect()
    };
    CommitHeader {
        author: line(commit.author().name_bytes()),
        title: line(commit.message_bytes()),
        time: Timestamp::from_second(commit.time().seconds()).unwrap_or_default(),
    }
}

fn newest_changes(repository: &Repository, top: &str, question: &CommitQuestion) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = question.folders.clone();
    let mut next = find(repository, &question.head);
    for _ in 0..MAX_STEPS {
        let Some(commit) = next.filter(|_| !open.is_empty()) else { break };
        let parent = commit.parent(0).ok();
        if parent.is_none() && commit.parent_count() > 0 {
            // The history is cut here.
            break;
        }
        let (here, before) =
            (Snapshot::of(repository, &commit), parent.as_ref().map(|one| Snapshot::of(repository, one)));
        let (Some(here), Some(before)) = (here, before.unwrap_or_else(|| Some(Snapshot::empty(repository)))) else {
            break;
        };
        open.retain(|folder| {
            let is_changed = here.parts(top, folder) != before.parts(top, folder);
            if is_changed {
                found.insert(folder.clone(), commit.id().to_string());
            }
            !is_changed
        });
        next = parent;
    }
    found
}

/// The files of a commit; none where there was none before it.
struct Snapshot<'a> {
    repository: &'a Repository,
    root: Option<git2::Tree<'a>>,
}

impl<'a> Snapshot<'a> {
    fn of(repository: &'a Repository, commit: &Commit<'a>) -> Option<Self> {
        Some(Self { repository, root: Some(commit.tree().ok()?) })
    }

    fn empty(repository: &'a Repository) -> Self {
        Self { repository, root: None }
    }

    /// What a model's objects are made of: its folder, and the settings of every folder above it.
    fn parts(&self, top: &str, folder: &str) -> Vec<Option<Oid>> {
        let path = format!("{top}/{folder}");
        let names: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (mut parts, mut tree) = (Vec::new(), self.root.clone());
        for (at, name) in names.iter().enumerate() {
            parts.push(tree.as_ref().and_then(|tree| Some(tree.get_name(SETTINGS_FILE)?.id())));
            let entry = tree.as_ref().and_then(|tree| Some(tree.get_name(name)?.id()));
            if at + 1 == names.len() {
                parts.push(entry);
            }
            tree = entry.and_then(|oid| self.repository.find_tree(oid).ok());
        }
        if names.is_empty() {
            parts.push(self.root.as_ref().map(git2::Tree::id));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs_err as fs;

    fn commit(repository: &Repository, author: &str, message: &str) -> String {
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = git2::Signature::new(author, "a@example.com", &git2::Time::new(1_700_000_000, 0)).unwrap();
        let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<&Commit<'_>> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, message, &tree, &parents).unwrap().to_string()
    }

    #[test]
    fn a_commit_says_who_what_and_when() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        let file = |path: &str, text: &str| {
            let path = folder.path().join("fleet").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("models/a/model.yaml", "a1");
        file("models/b/model.yaml", "b1");
        let first = commit(&repository, "Ada\u{1b}[2J Lovelace", "Add both\n\nwith care\n");
        file("models/a/model.yaml", "a2");
        let second = commit(&repository, "Grace", "Scale a");
        file("other/note", "nothing of a model");
        let third = commit(&repository, "Grace", "Write a note");
        let mut question = CommitQuestion {
            commits: [first.clone(), "0".repeat(40), "short".to_owned()].into(),
            folders: ["models/a", "models/b", "models/none"].map(str::to_owned).into(),
            head: third,
        };
        let answer = read_commit_log(&folder.path().join("fleet"), &question);
        let changed = |folder: &str| answer.changes.get(folder).cloned();
        assert_eq!(
            [changed("models/a"), changed("models/b"), changed("models/none")],
            [Some(second.clone()), Some(first.clone()), None]
        );
        let header = &answer.headers[&first];
        assert_eq!((header.title.as_str(), header.time.as_second()), ("Add both", 1_700_000_000));
        assert!(header.author.starts_with("Ada") && !header.author.contains('\u{1b}'), "{header:?}");
        assert_eq!(answer.headers.len(), 2);
        // What was not committed is of no commit.
        file("models/b/model.yaml", "b2");
        let dirty = read_commit_log(&folder.path().join("fleet"), &question).changes;
        assert_eq!((dirty.contains_key("models/a"), dirty.contains_key("models/b")), (true, false));
        file("models/b/model.yaml", "b1");
        file("models/ab/model.yaml", "not a");
        assert_eq!(read_commit_log(&folder.path().join("fleet"), &question).changes.len(), 2);

        file("stator.yaml", "defaults: {}");
        question.head = commit(&repository, "Grace", "Set defaults");
        let answer = read_commit_log(&folder.path().join("fleet"), &question);
        assert_eq!(answer.changes["models/a"], question.head, "settings above are part of every model");
        assert_eq!(read_commit_log(Path::new("/proc"), &question), CommitAnswer::default());
    }
}
