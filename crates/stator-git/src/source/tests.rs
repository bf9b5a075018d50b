//! Repositories on disk and in git, good and hostile.

use super::*;
use std::collections::BTreeMap;

const ROOT: &str = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: shop}\n";

/// A folder with files in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.path().join(path);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, text).unwrap();
    }

    fn open(&self, below: &str) -> Checkout {
        open(&self.path().join(below)).unwrap()
    }

    /// Commits everything below the folder, hidden files but git's own included.
    fn commit(&self) -> String {
        let repository =
            git2::Repository::open(self.path()).unwrap_or_else(|_| git2::Repository::init(self.path()).unwrap());
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::FORCE, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        self.commit_tree(&repository, index.write_tree().unwrap())
    }

    fn commit_tree(&self, repository: &git2::Repository, tree: git2::Oid) -> String {
        let tree = repository.find_tree(tree).unwrap();
        let who = git2::Signature::now("Ada", "ada@example.com").unwrap();
        let parent = repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, "a change", &tree, &parents).unwrap().to_string()
    }
}

/// What a tree holds, one line a file.
fn lines(tree: &SourceTree) -> String {
    tree.files
        .iter()
        .map(|file| match &file.content {
            Ok(bytes) => format!("{} ({} bytes)\n", file.path, bytes.len()),
            Err(reason) => format!("{}: {reason}\n", file.path),
        })
        .collect()
}

#[test]
fn only_files_that_stator_understands_are_read() {
    let folder = Folder::new(&[
        ("stator.yaml", ROOT),
        ("models/llama/model.yaml", "a"),
        ("models/llama/model.prod.yaml", "b"),
        ("models/llama/values.yaml", "c"),
        ("models/stator.yaml", "kind: Defaults"),
        ("models/llama/model..yaml", "no environment"),
        (".stator/cluster/model.yaml", "live objects are no intents"),
        (".git2/model.yaml", "hidden"),
        ("README.md", "d"),
    ]);
    insta::assert_snapshot!(lines(&folder.open("").tree), @"
    models/llama/model.prod.yaml (1 bytes)
    models/llama/model.yaml (1 bytes)
    models/stator.yaml (14 bytes)
    stator.yaml (72 bytes)
    ");
}

#[test]
fn a_path_inside_a_repository_narrows_the_scope_and_never_the_tree() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("models/a/model.yaml", ""), ("other/model.yaml", "")]);
    let everything = folder.open("");
    assert!(everything.scope.is_everything());
    for (below, scope) in [
        ("models", folder_scope("models")),
        ("models/a", folder_scope("models/a")),
        ("models/a/model.yaml", RepositoryScope::intent("models/a/model.yaml")),
    ] {
        let checkout = folder.open(below);
        assert_eq!(checkout.scope, scope);
        assert_eq!(checkout.root, folder.path());
        assert_eq!(lines(&checkout.tree), lines(&everything.tree));
        assert!(checkout.scope.contains("models/a/model.yaml"));
        assert!(!checkout.scope.contains("other/model.yaml"));
    }
    assert!(!folder_scope("models").contains("models-old/model.yaml"));
}

fn folder_scope(folder: &str) -> RepositoryScope {
    RepositoryScope::of([ScopePart::Folder(folder.to_owned())])
}

#[test]
fn several_paths_of_one_repository_are_one_scope() {
    let folder =
        Folder::new(&[("stator.yaml", ROOT), ("a/model.yaml", ""), ("b/model.yaml", ""), ("c/model.yaml", "")]);
    let checkout = open_parts(&folder.path().join("a"), &[folder.path().join("b/model.yaml")]).unwrap();
    assert_eq!(checkout.root, folder.path());
    let contained = ["a/model.yaml", "b/model.yaml", "c/model.yaml"].map(|source| checkout.scope.contains(source));
    assert_eq!(contained, [true, true, false]);
    assert!(!checkout.scope.is_everything() && !RepositoryScope::default().is_everything());
    let other = Folder::new(&[("stator.yaml", ROOT)]);
    let error = open_parts(&folder.path().join("a"), &[other.path()]).unwrap_err();
    assert!(matches!(error, SourceError::SeveralRepositories { .. }), "{error}");
}

#[test]
fn without_a_root_file_the_folder_is_the_repository() {
    let folder = Folder::new(&[("a/model.yaml", ""), ("b/model.yaml", "")]);
    let checkout = folder.open("a");
    assert_eq!(checkout.root, folder.path().join("a"));
    assert!(checkout.scope.is_everything());
    let single = folder.open("a/model.yaml");
    assert_eq!((single.root, single.scope), (folder.path().join("a"), RepositoryScope::intent("model.yaml")));
}

#[test]
fn the_root_is_found_by_its_kind_even_when_the_file_has_faults() {
    let root = |text: &str, below: &str| {
        let folder = Folder::new(&[("stator.yaml", text), ("models/stator.yaml", below), ("models/a/model.yaml", "")]);
        let root = folder.open("models/a").root;
        root.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned()
    };
    let defaults = "apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {}\n";
    assert_eq!(root(ROOT, defaults), "");
    assert_eq!(root("kind: 'Repository' # ours\nbroken: [\n", defaults), "", "a fault does not move the root");
    assert_eq!(root("{\"kind\": \"Repository\"}", defaults), "", "JSON is YAML");
    assert_eq!(root(defaults, ROOT), "models", "the nearest one that says Repository");
    assert_eq!(root("spec:\n  kind: Repository\n", defaults), "", "none says so: the outermost stator.yaml");
}

#[test]
fn a_missing_path_is_an_error_and_never_an_empty_repository() {
    let folder = Folder::new(&[("values.yaml", "")]);
    let missing = open(&folder.path().join("nowhere")).unwrap_err();
    assert!(matches!(missing, SourceError::Missing { .. }), "{missing:?}");
    let file = open(&folder.path().join("values.yaml")).unwrap_err();
    assert!(matches!(file, SourceError::NotAnIntent { .. }), "{file:?}");
}

#[test]
fn what_cannot_be_read_stays_in_the_tree_with_its_reason() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("secret", "root:x:0:0"), ("b/model.yaml/x", "")]);
    let link = |target: &str, path: &str| {
        let path = folder.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    link("../secret", "a/model.yaml");
    link("nowhere", "a/model.prod.yaml");
    link("model.yaml", "d/model.yaml");
    fs_err::create_dir_all(folder.path().join("c")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("c/model.yaml")).unwrap();
    folder.write("e\u{1b}[2J/model.yaml", "");
    folder.write("long/model.yaml", &"#".repeat(3 << 20));
    insta::assert_snapshot!(lines(&folder.open("").tree), @"
    a/model.prod.yaml: it is a symbolic link, and links are not followed
    a/model.yaml: it is a symbolic link, and links are not followed
    b/model.yaml: it is a folder
    c/model.yaml: it is a pipe, a socket or a device
    d/model.yaml: it is a symbolic link, and links are not followed
    e\\u{1b}[2J/model.yaml: its path is not UTF-8 or holds control characters
    long/model.yaml (1048577 bytes)
    stator.yaml (72 bytes)
    ");
}

#[test]
fn a_name_that_is_not_utf_8_is_reported() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new(&[("stator.yaml", ROOT)]);
    let bad = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs_err::create_dir_all(&bad).unwrap();
    fs_err::write(bad.join("model.yaml"), "").unwrap();
    insta::assert_snapshot!(lines(&folder.open("").tree), @"
    caf�/model.yaml: its path is not UTF-8 or holds control characters
    stator.yaml (72 bytes)
    ");
}

#[test]
fn linked_folders_and_near_misses_are_noted() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("a/model.yml", ""), ("b/x", "")]);
    std::os::unix::fs::symlink("/etc", folder.path().join("outside")).unwrap();
    let opened = folder.open("");
    assert_eq!(opened.notes, ["outside is a symbolic link to a folder and is not followed"]);
    assert_eq!(lines(&opened.tree), "a/model.yml (0 bytes)\nstator.yaml (72 bytes)\n");
    assert_eq!(unread(&opened.tree), ["SymbolicLink outside"]);
}

fn unread(tree: &SourceTree) -> Vec<String> {
    tree.unread.iter().map(|place| format!("{:?} {}", place.cause, place.path)).collect()
}

/// Row B3 of the review: what may have been a model's folder and is not looked into is known, on disk and in a commit.
#[test]
fn submodules_and_links_are_places_that_are_not_read() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("a/model.yaml", "one"), ("sub/b/model.yaml", "two")]);
    let first = folder.commit();
    let repository = git2::Repository::open(folder.path()).unwrap();
    fs_err::remove_dir_all(folder.path().join("sub/b")).unwrap();
    fs_err::remove_dir_all(folder.path().join("a")).unwrap();
    fs_err::create_dir_all(folder.path().join("sub/b")).unwrap();
    std::os::unix::fs::symlink("elsewhere", folder.path().join("a")).unwrap();
    fs_err::write(
        folder.path().join(".gitmodules"),
        "[submodule \"b\"]\n\tpath = sub/b\n\turl = https://git.example.com/b.git\n",
    )
    .unwrap();
    let mut index = repository.index().unwrap();
    index.remove_all(["*"], None).unwrap();
    index.add_all(["stator.yaml", ".gitmodules", "a"], git2::IndexAddOption::DEFAULT, None).unwrap();
    index.write().unwrap();
    let base = repository.find_tree(index.write_tree().unwrap()).unwrap();
    let mut changes = git2::build::TreeUpdateBuilder::new();
    changes.upsert("sub/b", first.parse().unwrap(), git2::FileMode::Commit);
    let tree = repository.find_tree(changes.create_updated(&repository, &base).unwrap()).unwrap();
    let author = git2::Signature::now("a", "a@example.com").unwrap();
    let parent = repository.head().unwrap().peel_to_commit().unwrap();
    repository.commit(Some("HEAD"), &author, &author, "replace", &tree, &[&parent]).unwrap();
    let expected = ["SymbolicLink a", "Submodule sub/b"];
    let (committed, _) = read_tree_at(&folder.path(), "HEAD").unwrap();
    assert_eq!(unread(&committed), expected);
    assert_eq!(unread(&folder.open("").tree), expected);
    assert_eq!(lines(&committed), "stator.yaml (72 bytes)\n");
}

#[test]
fn a_repository_of_ten_thousand_models_is_read_whole() {
    let folder = Folder::new(&[("stator.yaml", ROOT)]);
    for index in 0..10_000 {
        folder.write(&format!("models/{}/{index}/model.yaml", index % 100), "kind: Model\n");
    }
    assert_eq!(folder.open("").tree.files.len(), 10_001);
}

#[test]
fn the_revision_is_the_commit_and_says_when_files_differ() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("a/model.yaml", "one"), ("notes.txt", "")]);
    assert_eq!(folder.open("").revision, "");
    let commit = folder.commit();
    assert_eq!(folder.open("a").revision, commit);
    folder.write("notes.txt", "not an intent");
    assert_eq!(folder.open("").revision, commit);
    folder.write("a/model.yaml", "two");
    assert_eq!(folder.open("").revision, format!("{commit}-dirty"));
    folder.write("a/model.yaml", "one");
    assert_eq!(folder.open("").revision, commit, "saved again with the same bytes");
    folder.write("b/model.yaml", "untracked");
    assert_eq!(folder.open("").revision, format!("{commit}-dirty"));
    let next = folder.commit();
    assert_eq!(folder.open("").revision, next);
    fs_err::remove_file(folder.path().join("b/model.yaml")).unwrap();
    assert_eq!(folder.open("").revision, format!("{next}-dirty"), "a removed file differs too");
}

#[test]
fn a_repository_in_a_folder_of_a_larger_one_is_read_from_there() {
    let folder = Folder::new(&[("deploy/stator.yaml", ROOT), ("deploy/a/model.yaml", "one"), ("src/model.yaml", "no")]);
    let commit = folder.commit();
    let checkout = folder.open("deploy");
    assert_eq!(checkout.revision, commit);
    let (tree, full) = read_tree_at(&checkout.root, "HEAD").unwrap();
    assert_eq!(full, commit);
    assert_eq!(lines(&tree), lines(&checkout.tree));
}

#[test]
fn a_broken_git_repository_costs_the_revision_and_nothing_else() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("a/model.yaml", "one")]);
    folder.commit();
    fs_err::write(folder.path().join(".git/HEAD"), "garbage").unwrap();
    let checkout = folder.open("");
    assert_eq!(checkout.revision, "");
    assert_eq!(checkout.tree.files.len(), 2);
    assert!(read_tree_at(&folder.path(), "HEAD").is_err());

    let lost = Folder::new(&[("stator.yaml", ROOT)]);
    let commit = lost.commit();
    fs_err::remove_dir_all(lost.path().join(".git/objects")).unwrap();
    fs_err::create_dir_all(lost.path().join(".git/objects")).unwrap();
    let checkout = lost.open("");
    assert_eq!((checkout.revision.as_str(), checkout.notes.len()), ("", 1), "{:?}", checkout.notes);
    assert!(read_tree_at(&lost.path(), &commit).is_err());
}

#[test]
fn a_commit_is_read_without_touching_the_work_tree() {
    let folder = Folder::new(&[("stator.yaml", ROOT), ("a/model.yaml", "one"), (".hidden/model.yaml", "")]);
    let first = folder.commit();
    folder.write("a/model.yaml", "second");
    folder.write("b/model.yaml", "new");
    let second = folder.commit();
    let repository = git2::Repository::open(folder.path()).unwrap();
    repository.tag_lightweight("v1", &repository.revparse_single(&first).unwrap(), false).unwrap();
    folder.write("a/model.yaml", "not committed");

    let at = |revision: &str| read_tree_at(&folder.path(), revision).unwrap();
    assert_eq!(lines(&at("v1").0), "a/model.yaml (3 bytes)\nstator.yaml (72 bytes)\n");
    assert_eq!(at("HEAD~1").1, first);
    assert_eq!(at(&first[..8]).1, first);
    assert_eq!(at("HEAD").1, second);
    assert_eq!(lines(&at("HEAD").0), "a/model.yaml (6 bytes)\nb/model.yaml (3 bytes)\nstator.yaml (72 bytes)\n");
    for unknown in
        ["nope", "HEAD~9", "", "HEAD:a/model.yaml", "--upload-pack=x", "0000000000000000000000000000000000000000"]
    {
        let error = read_tree_at(&folder.path(), unknown).unwrap_err();
        assert!(matches!(error, SourceError::UnknownRevision { .. }), "{unknown}: {error:?}");
    }
}

#[test]
fn links_and_submodules_in_a_commit_are_unreadable_entries() {
    let folder = Folder::new(&[("stator.yaml", ROOT)]);
    folder.commit();
    let repository = git2::Repository::open(folder.path()).unwrap();
    let blob = repository.blob(b"../../etc/passwd").unwrap();
    let head = repository.head().unwrap().target().unwrap();
    let tree_of = |entries: &[(&str, git2::Oid, i32)]| {
        let mut builder = repository.treebuilder(None).unwrap();
        for (name, oid, mode) in entries {
            builder.insert(name, *oid, *mode).unwrap();
        }
        builder.write().unwrap()
    };
    let huge = repository.blob(&vec![b'#'; 3 << 20]).unwrap();
    let inner = tree_of(&[
        ("model.yaml", blob, 0o120_000),
        ("model.prod.yaml", head, 0o160_000),
        ("model.a.yaml", huge, 0o100_644),
    ]);
    let top = tree_of(&[("a", inner, 0o040_000), ("model.yaml", inner, 0o040_000), ("vendor", head, 0o160_000)]);
    folder.commit_tree(&repository, top);
    insta::assert_snapshot!(lines(&read_tree_at(&folder.path(), "HEAD").unwrap().0), @"
    a/model.a.yaml (1048577 bytes)
    a/model.prod.yaml: it is a submodule
    a/model.yaml: it is a symbolic link, and links are not followed
    model.yaml: it is a folder
    ");
}

#[test]
fn a_tree_that_spells_out_billions_of_paths_ends() {
    let folder = Folder::new(&[("stator.yaml", ROOT)]);
    folder.commit();
    let repository = git2::Repository::open(folder.path()).unwrap();
    let mut tree = repository.treebuilder(None).unwrap().write().unwrap();
    for _ in 0..12 {
        let mut builder = repository.treebuilder(None).unwrap();
        for name in 0..40 {
            builder.insert(format!("d{name}"), tree, 0o040_000).unwrap();
        }
        tree = builder.write().unwrap();
    }
    folder.commit_tree(&repository, tree);
    let error = read_tree_at(&folder.path(), "HEAD").unwrap_err();
    assert!(matches!(error, SourceError::TooMany { .. }), "{error:?}");
}

#[test]
fn a_bare_repository_has_no_folders() {
    let bare = tempfile::tempdir().unwrap();
    git2::Repository::init_bare(bare.path()).unwrap();
    fs_err::create_dir_all(bare.path().join("x")).unwrap();
    let error = read_tree_at(&bare.path().join("x"), "HEAD").unwrap_err();
    assert!(matches!(error, SourceError::NoGit { .. }), "{error:?}");
    assert_eq!(open(bare.path()).unwrap().revision, "");
}

#[test]
fn every_error_has_a_next_step() {
    let path = || PathBuf::from("models");
    let errors = [
        SourceError::Missing { path: path() },
        SourceError::NotAnIntent { path: path() },
        SourceError::Unreadable { path: path(), reason: "permission denied".to_owned() },
        SourceError::TooMany { path: path(), limit: 1, what: "folders" },
        SourceError::NoGit { path: path() },
        SourceError::NotOwned { path: path() },
        SourceError::UnknownRevision { revision: "x".to_owned(), path: path(), reason: "not found".to_owned() },
        SourceError::NoSuchFolder { commit: "abc".to_owned(), folder: "models".to_owned() },
        SourceError::Git { path: path(), reason: "corrupt".to_owned() },
    ];
    let helps: BTreeMap<String, String> = errors.iter().map(|error| (error.to_string(), error.help())).collect();
    assert_eq!(helps.len(), errors.len());
    assert!(helps.values().all(|help| help.len() > 10));
}

/// What a model mounts, a line a file.
fn mounted(tree: &SourceTree) -> String {
    let files = tree.mounted_files.values().flatten();
    files
        .map(|file| match &file.content {
            Ok(bytes) => format!("{} ({} bytes)\n", file.path, bytes.len()),
            Err(reason) => format!("{}: {reason}\n", file.path),
        })
        .collect()
}

const MOUNTS: &str = "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: chat}
spec:
  files:
    a: {from: engine/decode.yaml, mountPath: /e/a.yaml}
    b: {from: engine/decod.yaml, mountPath: /e/b.yaml}
    c: {from: engine, mountPath: /e/c.yaml}
    d: {from: link.yaml, mountPath: /e/d.yaml}
    e: {from: linked/decode.yaml, mountPath: /e/e.yaml}
    f: {from: engine/decode.yaml/deep, mountPath: /e/f.yaml}
    g: {from: ../secret.yaml, mountPath: /e/g.yaml}
    h: {from: .git/config, mountPath: /e/h.yaml}
    i: {from: large.bin, mountPath: /e/i.yaml}
";

#[test]
fn files_that_a_model_mounts_are_read_and_nothing_beside_them() {
    let folder = Folder::new(&[
        ("stator.yaml", ROOT),
        ("secret.yaml", "token: x"),
        ("chat/model.yaml", MOUNTS),
        ("chat/engine/decode.yaml", "a: 1"),
        ("chat/engine/other.yaml", "not named"),
        ("chat/large.bin", &"x".repeat(MAX_FILE_BYTES + 10)),
    ]);
    std::os::unix::fs::symlink("../secret.yaml", folder.path().join("chat/link.yaml")).unwrap();
    std::os::unix::fs::symlink("engine", folder.path().join("chat/linked")).unwrap();
    folder.commit();
    let checkout = folder.open("");
    insta::assert_snapshot!(mounted(&checkout.tree), @"
    chat/engine: it is a folder; name each file of it
    chat/engine/decod.yaml: there is no such file; did you mean `decode.yaml`?
    chat/engine/decode.yaml (4 bytes)
    chat/engine/decode.yaml/deep: there is no such file
    chat/large.bin (1048577 bytes)
    chat/link.yaml: it is a symbolic link, or in one, and links are not followed
    chat/linked/decode.yaml: it is a symbolic link, or in one, and links are not followed
    ");
    assert!(!checkout.revision.ends_with("-dirty"), "{}", checkout.revision);
    // A commit gives the same, but for what is cut short.
    let (committed, _) = read_tree_at(&folder.path(), "HEAD").unwrap();
    assert_eq!(mounted(&committed), mounted(&checkout.tree));

    folder.write("chat/engine/decode.yaml", "a: 2");
    assert!(folder.open("").revision.ends_with("-dirty"), "what a model mounts is a part of the revision");
    let (committed, _) = read_tree_at(&folder.path(), "HEAD").unwrap();
    assert_eq!(committed.mounted_files["chat"][2].content.as_deref(), Ok(&b"a: 1"[..]));
}
