//! What is fetched, how often the host is asked, and how history that is not here is told.

use super::*;

#[test]
fn a_look_at_a_branch_that_stands_still_is_one_request() {
    let place = Place::new();
    let commit = place.origin.commit("main", &[("models/a/model.yaml", "a: 1"), ("big.bin", &"x".repeat(100_000))]);
    let mut mirror = place.mirror();
    let fetched = follow(&mut mirror, &main()).unwrap();
    assert_eq!((fetched.commit.as_str(), fetched.previous, fetched.forced), (commit.as_str(), None, false));
    let methods: Vec<String> = place.server.asked().into_iter().map(|asked| asked.method).collect();
    assert_eq!(methods, ["GET", "POST", "POST"], "the refs; what is cut off; the objects");

    for _ in 0..3 {
        assert_eq!(follow(&mut mirror, &main()).unwrap().bytes, 0);
    }
    let asked = place.server.asked();
    assert_eq!(asked.iter().map(|asked| asked.method.as_str()).collect::<Vec<_>>(), ["GET"; 3]);
    assert!(asked.iter().all(|asked| asked.answered < 600), "{asked:?}");
    assert_eq!(files(&mut mirror, &commit), "models/a/model.yaml: 4 bytes");
}

#[test]
fn only_what_is_new_comes_over_the_wire() {
    let place = Place::new();
    let noise: String = (0..20_000_u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
    for round in 0..5 {
        place
            .origin
            .commit("main", &[("noise.txt", &format!("{noise}{round}")), ("model.yaml", &format!("a: {round}"))]);
    }
    let mut mirror = place.mirror();
    let first = follow(&mut mirror, &main()).unwrap();
    assert!(first.bytes > 50_000, "{first:?}");
    let next = place.origin.commit("main", &[("model.yaml", "a: 9")]);
    let second = follow(&mut mirror, &main()).unwrap();
    assert_eq!((second.commit.as_str(), second.previous, second.forced), (next.as_str(), Some(first.commit), false));
    assert!(second.bytes < 2_000, "{}", second.bytes);
    assert_eq!(files(&mut mirror, &next), "model.yaml: 4 bytes");
}

#[test]
fn many_commits_at_once_are_no_rewrite_and_a_rewrite_is_told() {
    let place = Place::new();
    place.origin.commit("main", &[("model.yaml", "a: 0")]);
    let mut mirror = place.mirror();
    follow(&mut mirror, &main()).unwrap();
    for round in 0..5 {
        place.origin.commit("main", &[("model.yaml", &format!("b: {round}"))]);
    }
    assert!(!follow(&mut mirror, &main()).unwrap().forced, "five commits on");
    for round in 0..150 {
        place.origin.commit("main", &[("model.yaml", &format!("c: {round}"))]);
    }
    let before = follow(&mut mirror, &main()).unwrap();
    assert!(!before.forced, "a hundred and fifty commits on");

    let root = place.origin.commit_onto(None, &[("model.yaml", "d: 1")]);
    place.origin.point("refs/heads/main", root);
    let after = follow(&mut mirror, &main()).unwrap();
    assert_eq!((after.forced, after.previous), (true, Some(before.commit.clone())));
    assert_eq!(mirror.changed_paths(&before.commit, &after.commit).unwrap(), ["model.yaml".to_owned()].into());
    // A second process knows as well.
    drop(mirror);
    let back = place.origin.commit_onto(Some(git2::Oid::from_str(&before.commit).unwrap()), &[("model.yaml", "e: 1")]);
    place.origin.point("refs/heads/main", back);
    let again = follow(&mut place.mirror(), &main()).unwrap();
    assert_eq!((again.forced, again.previous), (true, Some(after.commit)));
}

#[test]
fn the_line_of_a_branch_is_fetched_as_far_as_it_is_asked_for() {
    let place = Place::new();
    let commits: Vec<String> =
        (0..30).map(|round| place.origin.commit("main", &[("model.yaml", &format!("a: {round}"))])).collect();
    let newest = commits.last().unwrap();
    let mut mirror = place.mirror();
    follow(&mut mirror, &main()).unwrap();
    place.server.asked();
    let line = mirror.first_parent_history(newest, 20).unwrap();
    assert!(line.iter().eq(commits.iter().rev().take(20)), "{line:?}");
    assert!(!place.server.asked().is_empty(), "it had no history");
    assert_eq!(mirror.first_parent_history(newest, 20).unwrap(), line);
    assert!(place.server.asked().is_empty(), "it has it now");
    assert_eq!(mirror.first_parent_history(newest, 100).unwrap().len(), 30, "and ends where the branch begins");
}

#[test]
fn where_a_pull_request_parted_is_found_however_long_ago() {
    for (on_main, on_branch) in [(0, 1), (3, 2), (130, 1), (2, 130)] {
        let place = Place::new();
        let base = place.origin.commit("main", &[("model.yaml", "a: 1")]);
        let mut head = git2::Oid::from_str(&base).unwrap();
        for round in 0..on_branch {
            head = place.origin.commit_onto(Some(head), &[("b/model.yaml", &format!("b: {round}"))]);
        }
        place.origin.point("refs/pull/7/head", head);
        let mut tip = base.clone();
        for round in 0..on_main {
            tip = place.origin.commit("main", &[("model.yaml", &format!("m: {round}"))]);
        }
        let mut mirror = place.mirror();
        follow(&mut mirror, &main()).unwrap();
        let fetched = mirror.fetch_ref("refs/pull/7/head").unwrap();
        assert_eq!(fetched, head.to_string());
        assert_eq!(mirror.merge_base(&tip, &fetched).unwrap(), Some(base.clone()), "{on_main} {on_branch}");
        assert_eq!(mirror.changed_paths(&base, &fetched).unwrap(), ["b/model.yaml".to_owned()].into());
        mirror.forget_ref("refs/pull/7/head").unwrap();
    }
}

#[test]
fn histories_without_a_common_commit_have_no_base() {
    let place = Place::new();
    let tip = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    place.origin.point("refs/pull/1/head", place.origin.commit_onto(None, &[("model.yaml", "b: 1")]));
    let mut mirror = place.mirror();
    follow(&mut mirror, &main()).unwrap();
    let head = mirror.fetch_ref("refs/pull/1/head").unwrap();
    assert_eq!(mirror.merge_base(&tip, &head).unwrap(), None);
}

#[test]
fn tags_versions_and_commits_lead_to_the_same_place() {
    let place = Place::new();
    let old = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let id = git2::Oid::from_str(&old).unwrap();
    place.origin.commit("main", &[("model.yaml", "a: 2")]);
    place.origin.point("refs/tags/light", id);
    let annotated = place.origin.tag(id, "commit", "v1.2.0");
    place.origin.point("refs/tags/v1.2.0", annotated);
    place.origin.point("refs/tags/v2.0.0", place.origin.tag(annotated, "tag", "v2.0.0"));
    let mut mirror = place.mirror();
    for reference in [
        Reference::Tag("light".to_owned()),
        Reference::Tag("v1.2.0".to_owned()),
        Reference::Semver("^1".to_owned()),
        Reference::Semver("*".to_owned()),
        Reference::Commit(old.clone()),
    ] {
        let tip = mirror.poll(&reference).unwrap();
        assert_eq!(mirror.fetch(&tip).unwrap().commit, old, "{reference:?}");
        assert_eq!(files(&mut mirror, &old), "model.yaml: 4 bytes");
        let signed = mirror.signed_revision(&tip).unwrap();
        assert_eq!((signed.commit.id, signed.tag.is_some()), (tip.commit, tip.tag.is_some()));
    }
    place.server.asked();
    follow(&mut mirror, &Reference::Commit(old)).unwrap();
    assert!(place.server.asked().is_empty(), "a commit that is here is not asked for");
}

#[test]
fn a_branch_that_is_gone_is_told_and_what_was_there_stays() {
    let place = Place::new();
    let mut mirror = place.mirror();
    let mut all = vec![told(&place, &follow(&mut mirror, &main()).unwrap_err())];
    let commit = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    follow(&mut mirror, &main()).unwrap();
    place.origin.point("refs/heads/trunk", git2::Oid::from_str(&commit).unwrap());
    place.origin.0.set_head("refs/heads/trunk").unwrap();
    place.origin.remove("refs/heads/main");
    all.push(told(&place, &follow(&mut mirror, &main()).unwrap_err()));
    all.push(told(&place, &mirror.fetch_ref("refs/pull/7/head").unwrap_err()));
    let nowhere = Reference::Commit("1".repeat(40));
    all.push(told(&place, &follow(&mut mirror, &nowhere).unwrap_err()));
    assert_eq!(files(&mut mirror, &commit), "model.yaml: 4 bytes");
    insta::assert_snapshot!(all.join("\n"), @"
        the repository is empty; push a commit; until then nothing is synced and nothing is pruned
        there is no branch `main`; the repository's default branch is `trunk`; push the branch, or name another in `spec.ref.branch`; until then nothing is synced and nothing is pruned
        there is no ref `refs/pull/7/head`; no action needed: the host removes the refs of closed pull requests
        the host does not serve commit 1111111111111111111111111111111111111111; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
        ");
}

/// Every object of `tests/data/signatures`, which are one history, and its tags.
fn signatures(place: &Place) {
    let folder = format!("{}/tests/data/signatures", env!("CARGO_MANIFEST_DIR"));
    let odb = place.origin.0.odb().unwrap();
    // The commits are empty, and so is their tree.
    odb.write(git2::ObjectType::Tree, b"").unwrap();
    for entry in fs_err::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = match name.split('-').next() {
            Some("commit") => git2::ObjectType::Commit,
            Some("tag") => git2::ObjectType::Tag,
            _ => continue,
        };
        let id = odb.write(kind, &fs_err::read(&path).unwrap()).unwrap();
        let name = match name.as_str() {
            "tag-openpgp" => "refs/tags/v1.0.0".to_owned(),
            "tag-ssh" => "refs/tags/v1.1.0".to_owned(),
            "tag-unsigned" => "refs/tags/v1.2.0".to_owned(),
            _ if kind == git2::ObjectType::Tag => continue,
            commit => format!("refs/heads/{}", commit.trim_start_matches("commit-")),
        };
        place.origin.point(&name, id);
    }
}

#[test]
fn what_git_signed_is_judged_as_the_host_gave_it() {
    let place = Place::new();
    signatures(&place);
    // A signed tag, put on under another name.
    let ssh = place.origin.0.refname_to_id("refs/tags/v1.1.0").unwrap();
    place.origin.point("refs/tags/v9.0.0", ssh);
    let secret = |files: &[&str]| {
        let read = |name: &&str| {
            let path = format!("{}/tests/data/signatures/{name}", env!("CARGO_MANIFEST_DIR"));
            ((*name).to_owned(), fs_err::read(path).unwrap())
        };
        SecretValues::new("keys", files.iter().map(read))
    };
    let keys = secret(&["openpgp-ed.asc", "ssh-ed25519.sshpub", "ssh-ecdsa.sshpub"]);
    let now = "2026-01-08T11:00:00Z".parse().unwrap();
    let mut mirror = place.mirror();
    let mut told = Vec::new();
    let branch = |name: &str| Reference::Branch(name.to_owned());
    let tag = |name: &str| Reference::Tag(name.to_owned());
    for (mode, reference) in [
        (VerifyMode::Head, branch("openpgp-ed")),
        (VerifyMode::Head, branch("ssh-ed25519")),
        (VerifyMode::Head, branch("ssh-rsa")),
        (VerifyMode::Head, branch("openpgp-owner")),
        (VerifyMode::Head, branch("unsigned")),
        (VerifyMode::Tag, branch("ssh-ed25519")),
        (VerifyMode::Tag, tag("v1.0.0")),
        (VerifyMode::TagAndHead, tag("v1.1.0")),
        (VerifyMode::Tag, tag("v1.2.0")),
        (VerifyMode::Tag, tag("v9.0.0")),
        (VerifyMode::TagAndHead, Reference::Semver(">=1.0.0, <1.2.0".to_owned())),
    ] {
        let tip = mirror.poll(&reference).unwrap();
        mirror.fetch(&tip).unwrap();
        let one = match verify_revision(mode, &mirror.signed_revision(&tip).unwrap(), &keys, now) {
            Ok(signers) => {
                let names: Vec<String> = signers.iter().map(|one| format!("{} by {}", one.object, one.name)).collect();
                names.join(", ")
            }
            Err(error) => format!("refused: {error}"),
        };
        told.push(format!("{}: {one}", tip.name));
    }
    let told = regex::Regex::new("[0-9a-f]{12}").unwrap().replace_all(&told.join("\n"), "ID").into_owned();
    let told =
        regex::Regex::new("SHA256:[A-Za-z0-9+/]{43}|[0-9A-F]{16,40}").unwrap().replace_all(&told, "KEY").into_owned();
    insta::assert_snapshot!(told, @"
    refs/heads/openpgp-ed: commit ID by Ed25519 <ed@example.com>
    refs/heads/ssh-ed25519: commit ID by ed25519@example.com
    refs/heads/ssh-rsa: refused: commit ID is signed with the key KEY, which the secret does not have
    refs/heads/openpgp-owner: refused: commit ID is signed with the key KEY, which the secret does not have
    refs/heads/unsigned: refused: commit ID is not signed
    refs/heads/ssh-ed25519: refused: the source requires a signed tag, but the revision is not an annotated tag
    refs/tags/v1.0.0: tag v1.0.0 by Ed25519 <ed@example.com>
    refs/tags/v1.1.0: tag v1.1.0 by ed25519@example.com, commit ID by ecdsa@example.com
    refs/tags/v1.2.0: refused: tag v1.2.0 is not signed
    refs/tags/v9.0.0: refused: tag v9.0.0 is signed for something else: it was signed under another name
    refs/tags/v1.1.0: tag v1.1.0 by ed25519@example.com, commit ID by ecdsa@example.com
    ");
}

/// Row S6 of the review: what was fetched for pull requests stayed for ever.
#[test]
fn a_mirror_that_takes_too_much_disk_keeps_what_was_fetched_last() {
    let place = Place::new();
    let limits = FetchLimits { max_disk_bytes: 200_000, ..limits() };
    let mut mirror = place.mirror_of(RemoteRepository { limits, ..place.remote() });
    let mut seed = 1_u64;
    // What no compression makes smaller.
    let mut noise = || -> String {
        let next = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + u8::try_from(seed >> 57).unwrap() % 90)
        };
        (0..60_000).map(next).collect()
    };
    place.origin.commit("main", &[("model.yaml", "a: 1")]);
    follow(&mut mirror, &main()).unwrap();
    for number in 1..=12 {
        let head = place.origin.commit(&format!("pull-{number}"), &[("model.yaml", "a: 2"), ("big.bin", &noise())]);
        assert_eq!(mirror.fetch_ref(&format!("refs/heads/pull-{number}")).unwrap(), head);
        assert_eq!(files(&mut mirror, &head), "model.yaml: 4 bytes");
        assert!(mirror.disk_bytes() <= 200_000, "{number}: {}", mirror.disk_bytes());
    }
    // The branch goes on from what it was, and is no history written anew.
    let next = place.origin.commit("main", &[("model.yaml", "a: 33")]);
    let fetched = follow(&mut mirror, &main()).unwrap();
    assert_eq!((fetched.commit.as_str(), fetched.forced), (next.as_str(), false));
    assert_eq!(files(&mut mirror, &next), "model.yaml: 5 bytes");
}

/// Row S17 of the review: mirrors of private repositories were readable by every user of the machine.
#[test]
fn a_mirror_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let mode = || fs_err::metadata(place.folder.path().join("data")).unwrap().permissions().mode() & 0o777;
    drop(place.mirror());
    assert_eq!(mode(), 0o700);
    fs_err::set_permissions(place.folder.path().join("data"), std::fs::Permissions::from_mode(0o755)).unwrap();
    drop(place.mirror());
    assert_eq!(mode(), 0o700, "one that an earlier version left is closed as well");
}
