//! The folder of a controller that followed a repository, with its mirrors, and the file of its sources.

use super::{BEFORE, FOLDER, HOST, Marks, Place, copy, marks, untouched};
use std::path::Path;

/// A controller takes up the mirrors of an earlier version as they are: it asks the git host for its refs and for nothing
/// else, and makes no mirror anew. It writes once whose the objects are, to the cluster, and what was applied, beside the mirrors.
#[test]
fn mirrors_are_taken_up_as_they_are() {
    let place = Place::of(&BEFORE);
    let cluster = place.cluster();
    let (host, here) = (place.host(), place.beside("").to_str().unwrap().trim_end_matches('/').to_owned());
    let words = [(HOST, host.as_str()), (FOLDER, here.as_str())];
    copy(&BEFORE.kept("controller"), &place.beside("controller"), &words);
    let data = place.beside("controller/data");
    let kept_mirrors = data.join("mirrors");
    for folder in fs_err::read_to_string(BEFORE.kept("controller/empty-folders")).unwrap().lines() {
        fs_err::create_dir_all(data.join(folder)).unwrap();
    }
    let of_git = || -> Marks {
        let is_note = |path: &Path| path.ends_with("seen") || path.iter().any(|part| part == "refs");
        marks(&kept_mirrors).into_iter().filter(|(path, _)| !is_note(path)).collect()
    };
    let mirrors = of_git();
    let run = || {
        let mut command = place.bench.command();
        command.arg("controller").arg("--source-file").arg(place.beside("controller/sources.yaml"));
        command.arg("--data").arg(&data).args(["--cluster", &cluster, "--once"]);
        place.bench.finish(&mut command).success()
    };
    let told = run();
    assert!(!told.stderr.contains("created again"), "{told}");
    assert_eq!(told.stderr.matches("an earlier stator synced").count(), 2, "{told}");
    let asked: Vec<String> =
        place.git.asked().into_iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect();
    insta::assert_snapshot!(asked.join("\n"), @"GET /team/models.git/info/refs?service=git-upload-pack");
    assert!(of_git() == mirrors, "a mirror was written to");
    let mirrors = marks(&kept_mirrors);
    let objects = marks(&place.beside("cluster"));
    let told = run();
    assert_eq!(told.stderr.matches("nothing to change").count(), 2, "{told}");
    untouched(&kept_mirrors, &mirrors);
    untouched(&place.beside("cluster"), &objects);
}
