//! A repository for each fault of objects that `git fsck` has a name for (git's `Documentation/fsck-msgids.txt`), as a host
//! hands it out that checks nothing. Names of refs and packed refs are the host's own files, and are not handed out.

use super::*;
use git2::{ObjectType, Oid};
use std::fmt::Write as _;
use std::process::Command;

/// Makes a faulty repository, and gives the commit or the tag that leads to the fault.
type Fault = fn(&OriginRepository) -> Oid;

/// The identity of a sound commit.
const WHO: &str = "a <a@example.com> 1 +0000";

fn sound_tree(origin: &OriginRepository) -> Oid {
    let blob = origin.object(ObjectType::Blob, b"a: 1");
    origin.tree(&[("100644", b"model.yaml", blob)])
}

/// A commit whose text follows the line of its tree.
fn commit_with(origin: &OriginRepository, rest: &str) -> Oid {
    let text = format!("tree {}\n{rest}", sound_tree(origin));
    origin.object(ObjectType::Commit, text.as_bytes())
}

fn commit_by(origin: &OriginRepository, author: &str) -> Oid {
    commit_with(origin, &format!("author {author}\ncommitter {WHO}\n\nx\n"))
}

/// A commit of a tree with one entry beside a model.
fn with_entry(origin: &OriginRepository, mode: &str, name: &[u8], oid: Oid) -> Oid {
    let blob = origin.object(ObjectType::Blob, b"a: 1");
    origin.raw_commit(origin.tree(&[(mode, name, oid), ("100644", b"model.yaml", blob)]), None, 1, "x")
}

/// A commit of a tree with one file beside a model.
fn with_file(origin: &OriginRepository, name: &[u8], text: &[u8]) -> Oid {
    with_entry(origin, "100644", name, origin.object(ObjectType::Blob, text))
}

/// A commit of a tree with one link beside a model.
fn with_link(origin: &OriginRepository, name: &[u8]) -> Oid {
    with_entry(origin, "120000", name, origin.object(ObjectType::Blob, b"/etc/passwd"))
}

/// A commit of a tree with a folder of that name.
fn with_folder(origin: &OriginRepository, name: &[u8]) -> Oid {
    with_entry(origin, "40000", name, sound_tree(origin))
}

/// An object that is nowhere.
fn nowhere() -> Oid {
    Oid::from_str(&"2".repeat(40)).unwrap()
}

fn tag_with(origin: &OriginRepository, text: impl FnOnce(Oid) -> String) -> Oid {
    origin.object(ObjectType::Tag, text(origin.commit_onto(None, &[("model.yaml", "a: 1")])).as_bytes())
}

const FAULTS: [(&str, Fault); 58] = [
    ("missingTree", |origin| {
        origin.object(ObjectType::Commit, format!("author {WHO}\ncommitter {WHO}\n\nx\n").as_bytes())
    }),
    ("badTreeSha1", |origin| {
        origin.object(ObjectType::Commit, format!("tree xyz\nauthor {WHO}\ncommitter {WHO}\n\nx\n").as_bytes())
    }),
    ("badParentSha1", |origin| commit_with(origin, &format!("parent xyz\nauthor {WHO}\ncommitter {WHO}\n\nx\n"))),
    ("missingAuthor", |origin| commit_with(origin, &format!("committer {WHO}\n\nx\n"))),
    ("multipleAuthors", |origin| commit_with(origin, &format!("author {WHO}\nauthor {WHO}\ncommitter {WHO}\n\nx\n"))),
    ("missingCommitter", |origin| commit_with(origin, &format!("author {WHO}\n\nx\n"))),
    ("badName", |origin| commit_by(origin, "a> <a@example.com> 1 +0000")),
    ("missingNameBeforeEmail", |origin| commit_by(origin, "<a@example.com> 1 +0000")),
    ("missingEmail", |origin| commit_by(origin, "a 1 +0000")),
    ("badEmail", |origin| commit_by(origin, "a <a<b@example.com> 1 +0000")),
    ("missingSpaceBeforeEmail", |origin| commit_by(origin, "a<a@example.com> 1 +0000")),
    ("missingSpaceBeforeDate", |origin| commit_by(origin, "a <a@example.com>1 +0000")),
    ("badDate", |origin| commit_by(origin, "a <a@example.com> soon +0000")),
    ("badDateOverflow", |origin| commit_by(origin, "a <a@example.com> 18446744073709551616 +0000")),
    ("zeroPaddedDate", |origin| commit_by(origin, "a <a@example.com> 01 +0000")),
    ("badTimezone", |origin| commit_by(origin, "a <a@example.com> 1 +00:00")),
    ("nulInHeader", |origin| commit_by(origin, "a\0 <a@example.com> 1 +0000")),
    ("nulInCommit", |origin| commit_with(origin, &format!("author {WHO}\ncommitter {WHO}\n\nx\0y\n"))),
    ("unterminatedHeader", |origin| commit_with(origin, &format!("author {WHO}\ncommitter {WHO}"))),
    ("badGpgsig", |origin| commit_with(origin, &format!("author {WHO}\ncommitter {WHO}\ngpgsig\n\nx\n"))),
    ("nullSha1", |origin| with_entry(origin, "100644", b"a", Oid::ZERO_SHA1)),
    ("fullPathname", |origin| with_file(origin, b"../a/b", b"a: 1")),
    ("emptyName", |origin| with_file(origin, b"", b"a: 1")),
    ("hasDot", |origin| with_folder(origin, b".")),
    ("hasDotdot", |origin| with_folder(origin, b"..")),
    ("hasDotgit", |origin| with_folder(origin, b".git")),
    ("zeroPaddedFilemode", |origin| with_entry(origin, "0100644", b"a", origin.object(ObjectType::Blob, b"a: 1"))),
    ("badFilemode", |origin| with_entry(origin, "123456", b"a", origin.object(ObjectType::Blob, b"a: 1"))),
    ("duplicateEntries", |origin| with_file(origin, b"model.yaml", b"a: 22")),
    ("treeNotSorted", |origin| with_file(origin, b"z.yaml", b"a: 1")),
    ("largePathname", |origin| with_file(origin, &[b'a'; 5000], b"a: 1")),
    ("badTree", |origin| {
        let tree = origin.object(ObjectType::Tree, b"100644 model.yaml\0short");
        origin.raw_commit(tree, None, 1, "x")
    }),
    ("gitmodulesSymlink", |origin| with_link(origin, b".gitmodules")),
    ("gitattributesSymlink", |origin| with_link(origin, b".gitattributes")),
    ("gitignoreSymlink", |origin| with_link(origin, b".gitignore")),
    ("mailmapSymlink", |origin| with_link(origin, b".mailmap")),
    ("gitmodulesBlob", |origin| with_folder(origin, b".gitmodules")),
    ("gitattributesBlob", |origin| with_folder(origin, b".gitattributes")),
    ("gitmodulesMissing", |origin| with_entry(origin, "100644", b".gitmodules", nowhere())),
    ("gitattributesMissing", |origin| with_entry(origin, "100644", b".gitattributes", nowhere())),
    ("gitmodulesParse", |origin| with_file(origin, b".gitmodules", b"[submodule \"x\n")),
    ("gitmodulesName", |origin| {
        with_file(origin, b".gitmodules", b"[submodule \"../../x\"]\n\tpath = x\n\turl = https://example.com\n")
    }),
    ("gitmodulesUrl", |origin| {
        with_file(origin, b".gitmodules", b"[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch\n")
    }),
    ("gitmodulesPath", |origin| {
        with_file(origin, b".gitmodules", b"[submodule \"x\"]\n\tpath = -x\n\turl = https://example.com\n")
    }),
    ("gitmodulesUpdate", |origin| {
        with_file(
            origin,
            b".gitmodules",
            b"[submodule \"x\"]\n\tpath = x\n\tupdate = !touch x\n\turl = https://example.com\n",
        )
    }),
    ("gitattributesLineLength", |origin| with_file(origin, b".gitattributes", &[b'a'; 4000])),
    ("symlinkTargetLength", |origin| {
        with_entry(origin, "120000", b"link", origin.object(ObjectType::Blob, &[b'a'; 5000]))
    }),
    ("symlinkTargetBlob", |origin| with_entry(origin, "120000", b"link", sound_tree(origin))),
    ("symlinkTargetMissing", |origin| with_entry(origin, "120000", b"link", nowhere())),
    ("badObjectSha1", |origin| tag_with(origin, |_| format!("object xyz\ntype commit\ntag v1\ntagger {WHO}\n\nx\n"))),
    ("missingObject", |origin| tag_with(origin, |_| format!("type commit\ntag v1\ntagger {WHO}\n\nx\n"))),
    ("missingTypeEntry", |origin| tag_with(origin, |of| format!("object {of}\ntag v1\ntagger {WHO}\n\nx\n"))),
    ("missingType", |origin| tag_with(origin, |of| format!("object {of}\ntype commit"))),
    ("badType", |origin| tag_with(origin, |of| format!("object {of}\ntype nothing\ntag v1\ntagger {WHO}\n\nx\n"))),
    ("missingTagEntry", |origin| tag_with(origin, |of| format!("object {of}\ntype commit\ntagger {WHO}\n\nx\n"))),
    ("missingTag", |origin| tag_with(origin, |of| format!("object {of}\ntype commit\ntag v1"))),
    ("badTagName", |origin| tag_with(origin, |of| format!("object {of}\ntype commit\ntag ../v1\ntagger {WHO}\n\nx\n"))),
    ("missingTaggerEntry", |origin| tag_with(origin, |of| format!("object {of}\ntype commit\ntag v1\n\nx\n"))),
];

/// What git itself says of the faults of a repository. `None` where this git does not know that name.
fn found_by_git(place: &Place, id: &str) -> Option<String> {
    let known = format!("fsck.{id}=warn");
    let checked = Command::new("git")
        .args(["-c", &known, "-C"])
        .arg(place.folder.path().join("models.git"))
        .args(["fsck", "--no-progress", "--no-dangling", "--strict"])
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    (!text.contains("Unhandled message id"))
        .then(|| text.lines().filter(|line| !line.starts_with("notice: ")).collect::<Vec<_>>().join("; "))
}

/// What a look at `reference` gives: files, or why there are none.
fn read(place: &Place, reference: &Reference) -> String {
    let mut mirror = place.mirror();
    let tree = follow(&mut mirror, reference)
        .and_then(|fetched| mirror.tree(&fetched.commit, "").map(|_| files(&mut mirror, &fetched.commit)));
    tree.unwrap_or_else(|error| told(place, &error))
}

#[test]
fn each_fault_that_git_has_a_name_for_is_refused_or_does_no_harm() {
    let (mut page, mut unfound) = (String::new(), Vec::new());
    for (id, fault) in FAULTS {
        let place = Place::new();
        let made = fault(&place.origin);
        let is_tag = place.origin.0.odb().unwrap().read(made).unwrap().kind() == ObjectType::Tag;
        let (name, reference) = match is_tag {
            true => ("refs/tags/v1", Reference::Tag("v1".to_owned())),
            false => ("refs/heads/main", main()),
        };
        // libgit2 would look at what it points to.
        fs_err::create_dir_all(place.folder.path().join("models.git/refs/tags")).unwrap();
        fs_err::write(place.folder.path().join("models.git").join(name), format!("{made}\n")).unwrap();
        unfound.extend(found_by_git(&place, id).is_some_and(|found| found.is_empty()).then_some(id));
        let found = read(&place, &reference);
        for path in found.lines().filter(|line| line.ends_with(" bytes")) {
            let path = path.split(": ").next().unwrap();
            let is_safe = path.split('/').all(|step| !["", ".", "..", ".git"].contains(&step));
            assert!(is_safe && !path.contains(char::is_control), "{id}: {path}");
        }
        writeln!(page, "{id}: {}", found.replace('\n', "; ").replace(&made.to_string(), "COMMIT")).unwrap();
        // Whatever came of it: the next sound commit gets through.
        let next = place.origin.commit_onto(None, &[("model.yaml", "a: 333")]);
        fs_err::write(place.folder.path().join("models.git").join(name), format!("{next}\n")).unwrap();
        assert_eq!(read(&place, &reference), "model.yaml: 6 bytes", "{id}");
    }
    assert_eq!(unfound, Vec::<&str>::new(), "git finds no such fault");
    insta::assert_snapshot!(page, @r#"
    missingTree: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    badTreeSha1: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    badParentSha1: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    missingAuthor: model.yaml: 4 bytes
    multipleAuthors: model.yaml: 4 bytes
    missingCommitter: model.yaml: 4 bytes
    badName: model.yaml: 4 bytes
    missingNameBeforeEmail: model.yaml: 4 bytes
    missingEmail: model.yaml: 4 bytes
    badEmail: model.yaml: 4 bytes
    missingSpaceBeforeEmail: model.yaml: 4 bytes
    missingSpaceBeforeDate: model.yaml: 4 bytes
    badDate: model.yaml: 4 bytes
    badDateOverflow: model.yaml: 4 bytes
    zeroPaddedDate: model.yaml: 4 bytes
    badTimezone: model.yaml: 4 bytes
    nulInHeader: model.yaml: 4 bytes
    nulInCommit: model.yaml: 4 bytes
    unterminatedHeader: model.yaml: 4 bytes
    badGpgsig: model.yaml: 4 bytes
    nullSha1: HOST breaks git's protocol: could not read from remote repository; check the proxies between stator and the host: they may change responses
    fullPathname: model.yaml: 4 bytes
    emptyName: HOST breaks git's protocol: could not read from remote repository; check the proxies between stator and the host: they may change responses
    hasDot: model.yaml: 4 bytes
    hasDotdot: model.yaml: 4 bytes
    hasDotgit: model.yaml: 4 bytes
    zeroPaddedFilemode: model.yaml: 4 bytes
    badFilemode: model.yaml: 4 bytes
    duplicateEntries: model.yaml: the commit has two files of that path
    treeNotSorted: model.yaml: 4 bytes
    largePathname: model.yaml: 4 bytes
    badTree: HOST breaks git's protocol: could not read from remote repository; check the proxies between stator and the host: they may change responses
    gitmodulesSymlink: model.yaml: 4 bytes
    gitattributesSymlink: model.yaml: 4 bytes
    gitignoreSymlink: model.yaml: 4 bytes
    mailmapSymlink: model.yaml: 4 bytes
    gitmodulesBlob: model.yaml: 4 bytes
    gitattributesBlob: model.yaml: 4 bytes
    gitmodulesMissing: HOST breaks git's protocol: could not read from remote repository; check the proxies between stator and the host: they may change responses
    gitattributesMissing: HOST breaks git's protocol: could not read from remote repository; check the proxies between stator and the host: they may change responses
    gitmodulesParse: model.yaml: 4 bytes
    gitmodulesName: model.yaml: 4 bytes
    gitmodulesUrl: model.yaml: 4 bytes
    gitmodulesPath: model.yaml: 4 bytes
    gitmodulesUpdate: model.yaml: 4 bytes
    gitattributesLineLength: model.yaml: 4 bytes
    symlinkTargetLength: model.yaml: 4 bytes
    symlinkTargetBlob: model.yaml: 4 bytes
    symlinkTargetMissing: HOST breaks git's protocol: could not read from remote repository; check the proxies between stator and the host: they may change responses
    badObjectSha1: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    missingObject: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    missingTypeEntry: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    missingType: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    badType: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    missingTagEntry: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    missingTag: the host does not serve commit COMMIT; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    badTagName: model.yaml: 4 bytes
    missingTaggerEntry: model.yaml: 4 bytes
    "#);
}
