//! Mirrors that something has damaged: each is made anew from the host, and nobody has to do anything.

use super::*;
use std::path::{Path, PathBuf};

fn bare(place: &Place) -> PathBuf {
    place.folder.path().join("data/mirror.git")
}

/// The pack, or its index.
fn packs(bare: &Path, extension: &str) -> Vec<PathBuf> {
    let all = fs_err::read_dir(bare.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|given| given == extension)).collect()
}

fn change(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs_err::read(path).unwrap_or_default();
    edit(&mut bytes);
    if path.exists() {
        fs_err::remove_file(path).unwrap();
    }
    fs_err::write(path, bytes).unwrap();
}

type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 14] = [
    ("a pack cut short", |bare| packs(bare, "pack").iter().for_each(|pack| change(pack, |bytes| bytes.truncate(40)))),
    ("an empty pack", |bare| packs(bare, "pack").iter().for_each(|pack| change(pack, Vec::clear))),
    ("a pack that is gone", |bare| packs(bare, "pack").iter().for_each(|pack| fs_err::remove_file(pack).unwrap())),
    ("an index that is gone", |bare| packs(bare, "idx").iter().for_each(|pack| fs_err::remove_file(pack).unwrap())),
    ("garbage in a pack", |bare| {
        for pack in packs(bare, "pack") {
            change(&pack, |bytes| {
                let end = bytes.len() - 20;
                bytes[12..end].fill(0xa5);
            });
        }
    }),
    ("garbage in the configuration", |bare| change(&bare.join("config"), |bytes| bytes.extend(b"[core\n\xff"))),
    ("another configuration", |bare| {
        change(&bare.join("config"), |bytes| bytes.extend(b"[core]\n\tfsmonitor = touch /tmp/x\n"))
    }),
    ("garbage in HEAD", |bare| change(&bare.join("HEAD"), |bytes| *bytes = vec![0; 100])),
    ("no HEAD", |bare| fs_err::remove_file(bare.join("HEAD")).unwrap()),
    ("no objects", |bare| fs_err::remove_dir_all(bare.join("objects")).unwrap()),
    ("a list of cut histories that is none", |bare| change(&bare.join("shallow"), |bytes| *bytes = b"x\n".to_vec())),
    ("a ref to nothing", |bare| {
        fs_err::create_dir_all(bare.join("refs/stator")).unwrap();
        fs_err::write(bare.join("refs/stator/x"), "1".repeat(40)).unwrap();
    }),
    ("a file in the mirror's place", |bare| {
        fs_err::remove_dir_all(bare).unwrap();
        fs_err::write(bare, "x").unwrap();
    }),
    ("what a killed process leaves", |bare| {
        for name in ["HEAD.lock", "config.lock", "shallow.lock", "refs/stator/y.lock", "objects/pack/pack_git2_0a1b2c"]
        {
            fs_err::create_dir_all(bare.join(name).parent().unwrap()).unwrap();
            fs_err::write(bare.join(name), "x").unwrap();
        }
    }),
];

#[test]
fn a_damaged_mirror_is_made_anew() {
    for (what, damage) in DAMAGES {
        let place = Place::new();
        let first = place.origin.commit("main", &[("model.yaml", "a: 1"), ("other.txt", &"x".repeat(3000))]);
        follow(&mut place.mirror(), &main()).unwrap();
        damage(&bare(&place));
        let mut mirror = place.mirror();
        follow(&mut mirror, &main()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(files(&mut mirror, &first), "model.yaml: 4 bytes", "{what}");
        let next = place.origin.commit("main", &[("model.yaml", "a: 22")]);
        let fetched = follow(&mut mirror, &main()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((fetched.previous, fetched.forced), (Some(first), false), "{what}");
        assert_eq!(files(&mut mirror, &next), "model.yaml: 5 bytes", "{what}");
    }
}

#[test]
fn damage_while_the_mirror_is_open_is_mended_by_whoever_meets_it() {
    let place = Place::new();
    let commit = place.origin.commit("main", &[("a/model.yaml", "a: 1")]);
    let mut mirror = place.mirror();
    follow(&mut mirror, &main()).unwrap();
    fs_err::remove_dir_all(bare(&place).join("objects")).unwrap();
    assert_eq!(files(&mut mirror, &commit), "a/model.yaml: 4 bytes");
}

#[test]
fn a_host_that_cannot_mend_it_is_not_asked_again_and_again() {
    let place = Place::new();
    let commit = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let missing = git2::Oid::from_str(&"1".repeat(40)).unwrap();
    let tree = place.origin.tree(&[("100644", b"model.yaml", missing)]);
    place.origin.point("refs/heads/main", place.origin.raw_commit(tree, None, 0, "a blob that does not exist"));
    let mut mirror = place.mirror();
    let error = follow(&mut mirror, &main()).unwrap_err();
    assert!(place.server.asked().len() <= 8, "it gives up");
    let shown = told(&place, &error);
    assert!(shown.contains("HOST") || shown.contains("fresh fetch"), "{shown}");
    place.origin.point("refs/heads/main", git2::Oid::from_str(&commit).unwrap());
    follow(&mut mirror, &main()).unwrap();
    assert_eq!(files(&mut mirror, &commit), "model.yaml: 4 bytes");
}

#[test]
fn a_mirror_of_another_repository_is_not_built_on() {
    let place = Place::new();
    let commit = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    follow(&mut place.mirror(), &main()).unwrap();
    let other = OriginRepository::new(&place.folder.path().join("other.git"));
    let theirs = other.commit("main", &[("model.yaml", "b: 22")]);
    let mut mirror = place.mirror_of(remote(&place.server.url("other.git")));
    let fetched = follow(&mut mirror, &main()).unwrap();
    assert_eq!((fetched.commit, fetched.previous, fetched.forced), (theirs, None, false));
    assert!(mirror.tree(&commit, "").is_err(), "nothing of the first repository is left");
}

#[test]
fn many_fetches_do_not_make_many_packs() {
    let place = Place::new();
    let few = RemoteRepository { limits: FetchLimits { max_packs: 3, ..limits() }, ..place.remote() };
    let mut mirror = place.mirror_of(few);
    let mut all = Vec::new();
    for round in 0..8 {
        all.push(place.origin.commit("main", &[(&format!("m{round}/model.yaml"), "a: 1")]));
        assert!(!follow(&mut mirror, &main()).unwrap().forced);
        assert!(packs(&bare(&place), "pack").len() <= 4, "{round}");
    }
    let seen: Vec<usize> = all.iter().map(|commit| files(&mut mirror, commit).lines().count()).collect();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
    drop(mirror);
    assert_eq!(files(&mut place.mirror(), &all[7]).lines().count(), 8);
}
