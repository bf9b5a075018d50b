//! Repositories that somebody made by hand: git's own server hands them out, as it checks nothing.

use super::*;
use crate::git_server::{packet, refs};
use git2::{ObjectType, Oid};

/// A commit's text, from the tree that it is to name.
type Text = fn(Oid) -> String;

/// Fetches `main` and reads its files.
fn read(place: &Place) -> String {
    let mut mirror = place.mirror();
    match follow(&mut mirror, &main()) {
        Ok(fetched) => match mirror.tree(&fetched.commit, "") {
            Ok(_) => files(&mut mirror, &fetched.commit),
            Err(error) => told(place, &error).replace(&fetched.commit, "COMMIT"),
        },
        Err(error) => told(place, &error),
    }
}

/// What becomes of a commit with that tree.
fn tree(build: impl Fn(&OriginRepository) -> Oid) -> String {
    let place = Place::new();
    let commit = place.origin.raw_commit(build(&place.origin), None, 1, "x");
    place.origin.point("refs/heads/main", commit);
    read(&place)
}

/// A folder with one model in it.
fn model(origin: &OriginRepository, text: &str) -> Oid {
    let blob = origin.object(ObjectType::Blob, text.as_bytes());
    origin.tree(&[("100644", b"model.yaml", blob)])
}

#[test]
fn names_that_lead_elsewhere_are_not_followed() {
    let folder_called = |name: &'static [u8]| {
        let shown = tree(move |origin| origin.tree(&[("40000", name, model(origin, "a: 1"))]));
        format!("{}: {shown}", String::from_utf8_lossy(name).escape_debug())
    };
    let names: [&[u8]; 11] = [
        b".git",
        b"..",
        b".",
        b"a/../../b",
        b"/etc",
        b"a\x1b[31m",
        b"a\nb",
        b"\xff\xfe",
        b"a\xe2\x80\xae",
        b"-x",
        b".GIT ",
    ];
    insta::assert_snapshot!(names.map(folder_called).join("\n"), @r"
        .git: 
        ..: 
        .: 
        a/../../b: a/../../b/model.yaml: its path is not UTF-8 or holds control characters
        /etc: /etc/model.yaml: its path is not UTF-8 or holds control characters
        a\u{1b}[31m: a\u{1b}[31m/model.yaml: its path is not UTF-8 or holds control characters
        a\nb: a\nb/model.yaml: its path is not UTF-8 or holds control characters
        ��: ��/model.yaml: its path is not UTF-8 or holds control characters
        a\u{202e}: a\u{202e}/model.yaml: its path is not UTF-8 or holds control characters
        -x: -x/model.yaml: 4 bytes
        .GIT :
        ");
}

#[test]
fn files_that_are_none_are_named_with_why() {
    let as_mode = |mode: &'static str| {
        let shown = tree(move |origin| {
            let target = origin.object(ObjectType::Blob, b"/etc/passwd");
            let commit = Oid::from_str(&"2".repeat(40)).unwrap();
            origin.tree(&[(mode, b"model.yaml", if mode == "160000" { commit } else { target })])
        });
        format!("{mode}: {shown}")
    };
    let mut all: Vec<String> = ["120000", "160000", "100644", "100755", "100664", "0"].map(as_mode).into();
    all.push(format!("a folder: {}", tree(|origin| origin.tree(&[("40000", b"model.yaml", model(origin, "a: 1"))]))));
    all.push(format!(
        "twice: {}",
        tree(|origin| {
            let (one, two) = (origin.object(ObjectType::Blob, b"a: 1"), origin.object(ObjectType::Blob, b"a: 22"));
            origin.tree(&[("100644", b"model.yaml", one), ("100644", b"model.yaml", two)])
        })
    ));
    all.push(format!(
        "two folders of a name: {}",
        tree(|origin| origin.tree(&[("40000", b"a", model(origin, "a: 1")), ("40000", b"a", model(origin, "a: 22"))]))
    ));
    all.push(format!(
        "filters: {}",
        tree(|origin| {
            let attributes =
                origin.object(ObjectType::Blob, b"* filter=lfs text eol=crlf ident working-tree-encoding=UTF-16\n");
            let modules = origin
                .object(ObjectType::Blob, b"[submodule \"x\"]\n\tpath = x\n\turl = ext::sh\n\tupdate = !touch x\n");
            let text = origin.object(ObjectType::Blob, b"version https://git-lfs.github.com/spec/v1\n$Id$\n");
            origin.tree(&[
                ("100644", b".gitattributes", attributes),
                ("100644", b".gitmodules", modules),
                ("100644", b"model.yaml", text),
            ])
        })
    ));
    all.push(format!(
        "huge: {}",
        tree(|origin| {
            let blob = origin.object(ObjectType::Blob, &vec![b' '; 40 << 20]);
            origin.tree(&[("100644", b"model.yaml", blob)])
        })
    ));
    all.push(format!(
        "a tree in a blob's place: {}",
        tree(|origin| {
            let tree = model(origin, "a: 1");
            origin.tree(&[("100644", b"model.yaml", tree)])
        })
    ));
    insta::assert_snapshot!(all.join("\n"), @"
        120000: model.yaml: it is a symbolic link, and links are not followed
        160000: model.yaml: it is a submodule
        100644: model.yaml: 11 bytes
        100755: model.yaml: 11 bytes
        100664: model.yaml: 11 bytes
        0: model.yaml: it is of a kind that git does not know
        a folder: model.yaml: it is a folder
        twice: model.yaml: the commit has two files of that path
        two folders of a name: a/model.yaml: the commit has two files of that path
        filters: model.yaml: 48 bytes
        huge: model.yaml: it has 41943040 bytes; an intent has at most 1 MiB
        a tree in a blob's place: model.yaml: the git object is not a file
        ");
}

/// Row S1 of the review: limits of a commit were above what the process has.
#[test]
fn trees_that_spell_out_billions_of_paths_end_at_a_limit() {
    let tower = |leaf: fn(&OriginRepository) -> Oid| {
        tree(move |origin| {
            let names: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
            (0..12).fold(leaf(origin), |below, _| {
                let entries: Vec<(&str, &[u8], Oid)> =
                    names.iter().map(|name| ("40000", name.as_bytes(), below)).collect();
                origin.tree(&entries)
            })
        })
    };
    let deep = tree(|origin| (0..3_000).fold(model(origin, "a: 1"), |below, _| origin.tree(&[("40000", b"d", below)])));
    let one_blob = tree(|origin| {
        let folder = model(origin, &"x".repeat(1 << 20));
        let names: Vec<String> = (0..600).map(|n| format!("d{n:03}")).collect();
        let entries: Vec<(&str, &[u8], Oid)> = names.iter().map(|name| ("40000", name.as_bytes(), folder)).collect();
        origin.tree(&entries)
    });
    let values = tree(|origin| {
        let folder = model(origin, &"- ".repeat(90_000));
        let names: Vec<String> = (0..120).map(|n| format!("d{n:03}")).collect();
        let entries: Vec<(&str, &[u8], Oid)> = names.iter().map(|name| ("40000", name.as_bytes(), folder)).collect();
        origin.tree(&entries)
    });
    // A path of four kilobytes, and at its end as many folders as a tree holds: their paths took gigabytes.
    let wide = tree(|origin| {
        let empty = origin.tree(&[]);
        let names: Vec<String> = (0..400_000).map(|n| format!("{n:06}")).collect();
        let entries: Vec<(&str, &[u8], Oid)> = names.iter().map(|name| ("40000", name.as_bytes(), empty)).collect();
        (0..40).fold(origin.tree(&entries), |below, _| origin.tree(&[("40000", &[b'd'; 100], below)]))
    });
    // Folders of a model and ten overlays.
    let full = |origin: &OriginRepository| {
        let blob = origin.object(ObjectType::Blob, b"a: 1");
        let names: Vec<String> = (0..10).map(|n| format!("model.e{n}.yaml")).collect();
        let overlays = names.iter().map(|name| ("100644", name.as_bytes(), blob));
        origin.tree(&overlays.chain([("100644", b"model.yaml".as_slice(), blob)]).collect::<Vec<_>>())
    };
    let all = [tower(full), tower(|origin| origin.tree(&[])), deep, one_blob, values, wide];
    insta::assert_snapshot!(all.join("\n"), @"
        commit COMMIT holds more than 200000 files to read; move the intents into a repository or folder of their own and name it in `spec.path`
        commit COMMIT holds more than 500000 entries; move the intents into a repository or folder of their own and name it in `spec.path`
        commit COMMIT holds more than 4096 bytes in one path; move the intents into a repository or folder of their own and name it in `spec.path`
        commit COMMIT holds more than 100663296 bytes of files to read; move the intents into a repository or folder of their own and name it in `spec.path`
        commit COMMIT holds more than 10000000 values in the files to read; move the intents into a repository or folder of their own and name it in `spec.path`
        commit COMMIT holds more than 500000 entries; move the intents into a repository or folder of their own and name it in `spec.path`
        ");
}

#[test]
fn tags_must_lead_to_commits() {
    let tagged = |build: fn(&OriginRepository) -> Oid| {
        let place = Place::new();
        place.origin.commit("main", &[("model.yaml", "a: 1")]);
        place.origin.point("refs/tags/v1", build(&place.origin));
        let mut mirror = place.mirror();
        let error = follow(&mut mirror, &Reference::Tag("v1".to_owned())).unwrap_err();
        told(&place, &error)
    };
    let all = [
        tagged(|origin| origin.object(ObjectType::Blob, b"a: 1")),
        tagged(|origin| origin.tree(&[])),
        tagged(|origin| origin.tag(origin.object(ObjectType::Blob, b"a: 1"), "blob", "v1")),
        tagged(|origin| {
            let commit = origin.commit_onto(None, &[("model.yaml", "a: 1")]);
            let first = origin.tag(commit, "commit", "v1");
            (0..20).fold(first, |inner, _| origin.tag(inner, "tag", "v1"))
        }),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
        `refs/tags/v1` points to a file, not to a commit; point the tag at a commit
        `refs/tags/v1` points to a tree, not to a commit; point the tag at a commit
        `refs/tags/v1` points to a file, not to a commit; point the tag at a commit
        `refs/tags/v1` points to a chain of tags, not to a commit; point the tag at a commit
        ");
}

#[test]
fn a_commit_with_a_book_for_a_message_is_refused() {
    let place = Place::new();
    let tree = model(&place.origin, "a: 1");
    let commit = place.origin.raw_commit(tree, None, 1, &"blah ".repeat(4 << 20));
    place.origin.point("refs/heads/main", commit);
    insta::assert_snapshot!(read(&place).replace(&commit.to_string(), "COMMIT"), @"commit COMMIT holds more than 8388608 bytes of its own; move the intents into a repository or folder of their own and name it in `spec.path`");
}

#[test]
fn commits_with_broken_headers_are_read_or_refused_and_never_stop_the_next() {
    let headers: [(&str, Text); 8] = [
        ("the year 292 billion", |tree| {
            format!(
                "tree {tree}\nauthor a <a> 9223372036854775807 +0000\ncommitter a <a> 9223372036854775807 +9999\n\nx\n"
            )
        }),
        ("before all time", |tree| {
            format!("tree {tree}\nauthor a <a> -9223372036854775808 +0000\ncommitter a <a> -1 -9999\n\nx\n")
        }),
        ("no author", |tree| format!("tree {tree}\n\nx\n")),
        ("odd people", |tree| format!("tree {tree}\nauthor\ncommitter <<>>>\u{1b} 1 x\n\nx\n")),
        ("a parent that is none", |tree| {
            format!("tree {tree}\nparent xyz\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n")
        }),
        ("no tree", |_| "author a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n".to_owned()),
        ("two trees", |tree| format!("tree {tree}\ntree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n")),
        ("no end", |tree| format!("tree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000")),
    ];
    let mut all = Vec::new();
    for (what, text) in headers {
        let place = Place::new();
        let tree = model(&place.origin, "a: 1");
        let commit = place.origin.object(ObjectType::Commit, text(tree).as_bytes());
        place.origin.point("refs/heads/main", commit);
        all.push(format!("{what}: {}", read(&place)));
        // Whatever came of it: the next sound commit gets through.
        let next = place.origin.commit_onto(None, &[("model.yaml", "a: 22")]);
        place.origin.point("refs/heads/main", next);
        assert_eq!(read(&place), "model.yaml: 5 bytes", "{what}");
    }
    insta::assert_snapshot!(all.join("\n"), @"
        the year 292 billion: model.yaml: 4 bytes
        before all time: model.yaml: 4 bytes
        no author: model.yaml: 4 bytes
        odd people: model.yaml: 4 bytes
        a parent that is none: the host does not serve commit 75b3ce98d4c87226f1f90723a11d291c93c7e534; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
        no tree: the host does not serve commit cf4ac5605afa17fb82517ca1d9903ca3de592ac6; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
        two trees: model.yaml: 4 bytes
        no end: model.yaml: 4 bytes
        ");
}

#[test]
fn refs_with_names_that_attack_lead_nowhere() {
    let names: [&[u8]; 10] = [
        b"refs/heads/../../x",
        b"refs/heads/-x",
        b"refs/heads/a@{1}",
        b"refs/heads/a b",
        b"refs/heads/\xff",
        b"refs/heads/a\x1b[31m",
        b"refs/heads/x.lock",
        b"../../etc/passwd",
        b"refs/heads//x",
        b"HEAD",
    ];
    let place = Place::answering(move |_| {
        let mut list = [packet("# service=git-upload-pack\n"), b"0000".to_vec()].concat();
        for (number, name) in names.iter().enumerate() {
            let mut line = format!("{} ", "1".repeat(40)).into_bytes();
            line.extend_from_slice(name);
            line.extend_from_slice(if number == 0 {
                b"\0symref=HEAD:refs/heads/../x\x1b[31m shallow\n"
            } else {
                b"\n"
            });
            list.extend(packet(line));
        }
        list.extend_from_slice(b"0000");
        refs(list)
    });
    let mut mirror = place.mirror();
    let mut all = Vec::new();
    for branch in ["../../x", "-x", "a@{1}", "x", "main"] {
        all.push(told(&place, &mirror.poll(&Reference::Branch(branch.to_owned())).unwrap_err()));
    }
    insta::assert_snapshot!(all.join("\n"), @"
        `../../x` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
        `-x` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
        `a@{1}` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
        the repository is empty; push a commit; until then nothing is synced and nothing is pruned
        the repository is empty; push a commit; until then nothing is synced and nothing is pruned
        ");
}

/// Row S7 of the review: libgit2 unpacks whatever a pack asks for. The limits are small here, and the packs git's own.
#[test]
fn packs_that_unpack_to_too_much_never_reach_libgit2() {
    let fetched = |limits: FetchLimits, blobs: &[Vec<u8>]| {
        let place = Place::new();
        let names: Vec<String> = (0..blobs.len()).map(|n| format!("f{n:02}")).collect();
        let ids: Vec<Oid> = blobs.iter().map(|bytes| place.origin.object(ObjectType::Blob, bytes)).collect();
        let entries: Vec<(&str, &[u8], Oid)> =
            names.iter().zip(&ids).map(|(name, id)| ("100644", name.as_bytes(), *id)).collect();
        let commit = place.origin.raw_commit(place.origin.tree(&entries), None, 1, "x");
        place.origin.point("refs/heads/main", commit);
        let mut mirror = place.mirror_of(RemoteRepository { limits, ..place.remote() });
        match follow(&mut mirror, &main()) {
            Ok(_) => "fetched".to_owned(),
            Err(error) => told(&place, &error),
        }
    };
    let zeros = |count: usize| vec![0_u8; count];
    // Each a little different from the one before, so that git sends deltas: a few bytes that make a megabyte.
    let alike: Vec<Vec<u8>> = (0..20).map(|n| [zeros(1 << 20), vec![n; 9]].concat()).collect();
    let all = [
        fetched(FetchLimits { max_object_bytes: 1 << 20, ..limits() }, &[zeros(8 << 20)]),
        fetched(FetchLimits { max_unpacked_bytes: 4 << 20, ..limits() }, &alike),
        fetched(FetchLimits { max_objects: 10, ..limits() }, &(0..20).map(|n| vec![n]).collect::<Vec<_>>()),
        fetched(limits(), &alike),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
        HOST sends more than 1048576 bytes in one object, unpacked; move the intents into a repository of their own, or delete unused refs
        HOST sends more than 4194304 bytes, unpacked; move the intents into a repository of their own, or delete unused refs
        HOST sends more than 10 objects; move the intents into a repository of their own, or delete unused refs
        fetched
        ");
}
