//! Mirrors of a repository on this machine: what needs no host.

use super::*;
use crate::source::credentials::GitCredentials;
use crate::source::url::{AllowedSchemes, RepositoryUrl};
use git2::{Repository, Signature};
use proptest::prelude::*;
use std::path::PathBuf;

/// A repository to mirror, and where the mirror goes.
struct Place {
    folder: tempfile::TempDir,
    origin: Repository,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).initial_head("main").external_template(false);
        let origin = Repository::init_opts(folder.path().join("origin.git"), &options).unwrap();
        Self { folder, origin }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn open(&self) -> Result<Mirror, MirrorError> {
        let allowed = AllowedSchemes { local: true, insecure: false };
        let path = self.folder.path().join("origin.git");
        let url = RepositoryUrl::parse(path.to_str().unwrap(), allowed).unwrap();
        let remote = RemoteRepository::new(url.clone(), GitCredentials::read(None, &url).unwrap());
        Mirror::open(&self.data(), remote)
    }

    /// A commit with these files on a branch, on top of what is there.
    fn commit(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let name = format!("refs/heads/{branch}");
        let parent = self.origin.find_reference(&name).ok().map(|reference| reference.peel_to_commit().unwrap());
        self.commit_on(&name, parent.as_ref(), files)
    }

    fn commit_on(&self, name: &str, parent: Option<&git2::Commit<'_>>, files: &[(&str, &str)]) -> String {
        let mut changes = git2::build::TreeUpdateBuilder::new();
        for (path, text) in files {
            changes.upsert(*path, self.origin.blob(text.as_bytes()).unwrap(), git2::FileMode::Blob);
        }
        let empty = self.origin.treebuilder(None).unwrap().write().unwrap();
        let base = self.origin.find_tree(parent.map_or(empty, git2::Commit::tree_id)).unwrap();
        let tree = self.origin.find_tree(changes.create_updated(&self.origin, &base).unwrap()).unwrap();
        let who = Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
        let parents: Vec<&git2::Commit<'_>> = parent.into_iter().collect();
        let id = self.origin.commit(None, &who, &who, "message", &tree, &parents).unwrap();
        self.origin.reference(name, id, true, "").unwrap();
        id.to_string()
    }
}

fn branch(name: &str) -> Reference {
    Reference::Branch(name.to_owned())
}

fn described(error: &MirrorError) -> String {
    format!("{error}; {}", error.help())
}

/// Row D8 of the review: a shallow clone on this machine could fail for good, as its history ends before the question does.
#[test]
fn a_branch_of_a_shallow_clone_is_followed_and_told_as_rewritten() {
    let place = Place::new();
    let first = place.commit("main", &[("a/model.yaml", "a: 1")]);
    let mut mirror = place.open().unwrap();
    let tip = mirror.poll(&branch("main")).unwrap();
    mirror.fetch(&tip).unwrap();
    let second = place.commit("main", &[("a/model.yaml", "a: 2")]);
    let third = place.commit("main", &[("a/model.yaml", "a: 3")]);
    // What `git clone --depth 1` leaves.
    let origin = place.folder.path().join("origin.git");
    fs_err::write(origin.join("shallow"), format!("{third}\n")).unwrap();
    fs_err::remove_file(origin.join("objects").join(&second[..2]).join(&second[2..])).unwrap();
    let mut described = Vec::new();
    for _ in 0..2 {
        let tip = mirror.poll(&branch("main")).unwrap();
        let fetched = mirror.fetch(&tip).unwrap();
        described.push((fetched.commit == third, fetched.previous.unwrap() == first, fetched.forced));
    }
    assert_eq!(described, [(true, true, true), (true, false, false)]);
    assert_eq!(mirror.merge_base(&third, &third).unwrap(), Some(third.clone()));
    // What was made on top of an unknown history shares none with what was there before.
    assert_eq!(mirror.merge_base(&first, &third).unwrap(), None);
}

#[test]
fn a_branch_is_followed_and_a_rewritten_one_is_told() {
    let place = Place::new();
    let first = place.commit("main", &[("a/model.yaml", "a: 1"), ("README.md", "x")]);
    let mut mirror = place.open().unwrap();
    let tip = mirror.poll(&branch("main")).unwrap();
    assert_eq!(tip, ResolvedRef { name: "refs/heads/main".to_owned(), commit: first.clone(), tag: None });
    let fetched = mirror.fetch(&tip).unwrap();
    assert_eq!((fetched.previous, fetched.forced), (None, false));
    let tree = mirror.tree(&first, ".").unwrap();
    assert_eq!(tree.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a/model.yaml"]);

    place.commit("main", &[("a/model.yaml", "a: 2")]);
    let third = place.commit("main", &[("b/model.yaml", "b: 1")]);
    let tip = mirror.poll(&branch("main")).unwrap();
    let fetched = mirror.fetch(&tip).unwrap();
    assert_eq!((fetched.previous, fetched.forced), (Some(first.clone()), false));
    assert_eq!(
        mirror.changed_paths(&first, &third).unwrap(),
        ["a/model.yaml", "b/model.yaml"].map(str::to_owned).into()
    );

    let rewritten = place.commit_on("refs/heads/main", None, &[("a/model.yaml", "a: 3")]);
    let tip = mirror.poll(&branch("main")).unwrap();
    let fetched = mirror.fetch(&tip).unwrap();
    assert_eq!((fetched.previous, fetched.forced), (Some(third.clone()), true));
    assert_eq!(mirror.merge_base(&first, &third).unwrap(), Some(first));
    assert_eq!(mirror.merge_base(&rewritten, &third).unwrap(), None);
}

#[test]
fn what_is_not_there_is_told_with_a_way_on() {
    let place = Place::new();
    let mut mirror = place.open().unwrap();
    let mut all = vec![described(&mirror.poll(&branch("main")).unwrap_err())];
    let commit = place.commit("main", &[("model.yaml", "a: 1")]);
    let origin = place.origin.find_commit(git2::Oid::from_str(&commit).unwrap()).unwrap();
    place.origin.tag_lightweight("v1.0.0", origin.as_object(), false).unwrap();
    let references = [
        branch("gone"),
        branch("../../x"),
        branch("-x"),
        branch("a@{1}"),
        branch("a b"),
        branch(""),
        branch("a\u{1b}[31m"),
        Reference::Tag("v2".to_owned()),
        Reference::Semver(">=2".to_owned()),
        Reference::Semver("main".to_owned()),
        Reference::Commit("abc1234".to_owned()),
        Reference::Commit("0".repeat(40)),
    ];
    all.extend(references.iter().map(|reference| described(&mirror.poll(reference).unwrap_err())));
    let unknown = mirror.poll(&Reference::Commit("a".repeat(40))).unwrap();
    all.push(described(&mirror.fetch(&unknown).unwrap_err()));
    all.push(described(&mirror.fetch_ref("refs/pull/7/head").unwrap_err()));
    all.push(described(&mirror.tree(&commit, "models").unwrap_err()).replace(&commit, "HASH"));
    all.push(described(&place.open().err().unwrap()).replace(place.folder.path().to_str().unwrap(), "/tmp"));
    insta::assert_snapshot!(all.join("\n"), @r"
    the repository is empty; push a commit; until then nothing is synced and nothing is pruned
    there is no branch `gone`; the repository's default branch is `main`; push the branch, or name another in `spec.ref.branch`; until then nothing is synced and nothing is pruned
    `../../x` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    `-x` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    `a@{1}` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    `a b` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    `` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    `a\u{1b}[31m` cannot be the name of a branch; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    there is no tag `v2`; push the tag, or name another in `spec.ref.tag`; until then nothing is synced and nothing is pruned
    none of 1 tags is a version in `>=2`; the highest is v1.0.0; push a tag in the range (`v1.2.3`), or widen `spec.ref.semver`; prereleases count only where the range names one: `>=1.0.0-0`
    `main` is not a valid version range: `main` is not a version; write `spec.ref.semver` as in `>=1.0.0 <2.0.0`, `1.x`, `^1.2` or `~1.2.3`
    `abc1234` cannot be the name of a commit; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    `0000000000000000000000000000000000000000` cannot be the name of a commit; correct `spec.ref`: a branch or tag as `git branch` and `git tag` show it, or all 40 digits of a commit
    the host does not serve commit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; compare `spec.ref.commit` with `git log`; some hosts serve only commits that a branch or tag contains
    there is no ref `refs/pull/7/head`; no action needed: the host removes the refs of closed pull requests
    commit HASH has no folder `models`; compare `spec.path` with the repository; until then nothing is synced and nothing is pruned
    another process is using the mirror at /tmp/data; stop the other process, or give this one another `--data` folder
    ");
}

#[test]
fn the_highest_version_in_a_range_is_taken() {
    let place = Place::new();
    let first = place.commit("main", &[("model.yaml", "a: 1")]);
    let commit = place.origin.find_commit(git2::Oid::from_str(&first).unwrap()).unwrap();
    for tag in ["1.0.0", "v1.0.0", "v1.2.0", "v1.10.0", "v2.0.0-rc.1", "v3", "nightly"] {
        place.origin.tag_lightweight(tag, commit.as_object(), false).unwrap();
    }
    let who = Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
    let tag = place.origin.tag("v2.0.0", commit.as_object(), &who, "two", false).unwrap();
    let mut mirror = place.open().unwrap();
    let mut at = |range: &str| mirror.poll(&Reference::Semver(range.to_owned())).unwrap();
    assert_eq!(at("1.x").name, "refs/tags/v1.10.0");
    assert_eq!(at("1.0.0").name, "refs/tags/v1.0.0");
    assert_eq!(at("<2.0.0-0").name, "refs/tags/v1.10.0");
    let annotated = at("*");
    assert_eq!((annotated.commit.as_str(), annotated.tag.as_deref()), (first.as_str(), Some(tag.to_string().as_str())));
    assert_eq!(mirror.fetch(&annotated).unwrap().commit, first);
    assert_eq!(mirror.signed_revision(&annotated).unwrap().tag.unwrap().name, "v2.0.0");
}

#[test]
fn only_what_changed_is_read_again() {
    let place = Place::new();
    let names: Vec<String> = (0..300).map(|n| format!("team-{}/model-{n}/model.yaml", n % 10)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let first = place.commit("main", &files);
    let mut mirror = place.open().unwrap();
    mirror.tree(&first, "").unwrap();
    let after_first = mirror.objects_read();
    assert_eq!(after_first, 1 + 10 + 300 + 300);
    let second = place.commit("main", &[("team-3/model-3/model.yaml", "changed")]);
    let tree = mirror.tree(&second, "").unwrap();
    assert_eq!(tree.files.len(), 300);
    assert_eq!(mirror.objects_read() - after_first, 4, "the root, two folders and the file");
}

#[test]
fn a_mirror_may_move_between_threads() {
    fn moves<T: Send>() {}
    moves::<Mirror>();
    moves::<MirrorError>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// What git itself says of the same history.
    #[test]
    fn histories_are_told_as_git_tells_them(shape in prop::collection::vec((any::<u16>(), any::<u16>(), 0_u8..10), 2..14)) {
        let place = Place::new();
        let tree = place.origin.treebuilder(None).unwrap().write().unwrap();
        let tree = place.origin.find_tree(tree).unwrap();
        let mut all: Vec<git2::Oid> = Vec::new();
        for (number, (first, second, kind)) in shape.into_iter().enumerate() {
            let mut parents = Vec::new();
            for (wanted, pick) in [(kind > 0, first), (kind > 5, second)] {
                if wanted && !all.is_empty() {
                    parents.push(all[usize::from(pick) % all.len()]);
                }
            }
            parents.dedup();
            let parents: Vec<_> = parents.iter().map(|id| place.origin.find_commit(*id).unwrap()).collect();
            let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
            // Clocks that run backwards are no news.
            let who = Signature::new("a", "a", &git2::Time::new(1_000 - i64::from(kind), 0)).unwrap();
            all.push(place.origin.commit(None, &who, &who, &number.to_string(), &tree, &parents).unwrap());
        }
        let mut mirror = place.open().unwrap();
        for a in &all {
            for b in &all {
                let bases: Vec<String> = place
                    .origin
                    .merge_bases(*a, *b)
                    .map(|bases| bases.iter().map(git2::Oid::to_string).collect())
                    .unwrap_or_default();
                match mirror.merge_base(&a.to_string(), &b.to_string()).unwrap() {
                    Some(base) => prop_assert!(bases.contains(&base), "{base} {bases:?}"),
                    None => prop_assert!(bases.is_empty(), "{bases:?}"),
                }
                let below = a == b || place.origin.graph_descendant_of(*b, *a).unwrap();
                prop_assert_eq!(mirror.is_ancestor(*a, *b, *b).unwrap(), below);
            }
        }
    }
}

/// Nothing is read twice of what did not change, and a file that a model mounts is no exception.
#[test]
fn of_the_files_that_models_mount_only_what_changed_is_read() {
    let place = Place::new();
    let model = |name: &str| {
        format!(
            "kind: Model\nmetadata: {{name: {name}}}\nspec: {{files: {{a: {{from: engine/a.yaml, mountPath: /a}}}}}}\n"
        )
    };
    let (one, two) = (model("one"), model("two"));
    let files = [
        ("one/model.yaml", one.as_str()),
        ("one/engine/a.yaml", "a: 1"),
        ("one/engine/other.yaml", "b: 1"),
        ("two/model.yaml", two.as_str()),
        ("two/engine/a.yaml", "a: 1"),
    ];
    place.commit("main", &files);
    let mut mirror = place.open().unwrap();
    let read = |mirror: &mut Mirror| {
        let tip = mirror.poll(&branch("main")).unwrap();
        let commit = mirror.fetch(&tip).unwrap().commit;
        let before = mirror.objects_read();
        let tree = mirror.tree(&commit, "").unwrap();
        let content = |folder: &str| tree.mounted_files[folder][0].content.clone();
        (content("one").unwrap(), content("two").unwrap(), mirror.objects_read() - before)
    };
    let (first, second, _) = read(&mut mirror);
    assert_eq!((&first[..], &second[..]), (&b"a: 1"[..], &b"a: 1"[..]));
    assert_eq!(read(&mut mirror).2, 0, "the same commit is read again");

    place.commit("main", &[("one/engine/a.yaml", "a: 2")]);
    let (first, second, objects) = read(&mut mirror);
    assert_eq!((&first[..], &second[..]), (&b"a: 2"[..], &b"a: 1"[..]));
    // The root, the folder of the model, the folder in it, where the file is, and the file.
    assert_eq!(objects, 5);
}

/// S15: where a branch was applied is known to whoever opens the mirror next, and what follows it.
#[test]
fn what_was_applied_is_kept_and_what_follows_it_is_known() {
    let place = Place::new();
    let first = place.commit("main", &[("a/model.yaml", "a: 1")]);
    let second = place.commit("main", &[("a/model.yaml", "a: 2")]);
    let mut mirror = place.open().unwrap();
    let tip = mirror.poll(&branch("main")).unwrap();
    mirror.fetch(&tip).unwrap();
    assert_eq!(mirror.last_applied("refs/heads/main"), None);
    mirror.record_applied("refs/heads/main", &second).unwrap();
    drop(mirror);
    let mut mirror = place.open().unwrap();
    assert_eq!(mirror.last_applied("refs/heads/main"), Some(second.clone()));
    assert_eq!(mirror.last_applied("refs/heads/other"), None);
    let rewritten = place.commit_on("refs/heads/main", None, &[("a/model.yaml", "a: 3")]);
    let tip = mirror.poll(&branch("main")).unwrap();
    mirror.fetch(&tip).unwrap();
    let follows = |mirror: &mut Mirror, later: &str, earlier: &str| mirror.follows(later, earlier).unwrap();
    assert!(follows(&mut mirror, &second, &first) && follows(&mut mirror, &second, &second));
    assert!(!follows(&mut mirror, &first, &second));
    assert!(!follows(&mut mirror, &rewritten, &second));
}
