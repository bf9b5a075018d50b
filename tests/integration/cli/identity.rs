//! Whose a model is: known by where the repository comes from, and by nothing that its files say.

use super::MOCK;
use crate::workbench::{Output, Workbench};
use git2::Repository;

/// Folders of checkouts side by side, and one cluster for all of them.
struct Neighbours {
    bench: Workbench,
}

const CLUSTER: &str = "embedded:cluster";

/// The settings of a repository of that name with one environment.
fn settings(name: &str, environment: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: {name}}}\nspec:\n  environments:\n    \
         {environment}: {{namespace: models}}\n"
    )
}

impl Neighbours {
    fn new() -> Self {
        Self { bench: Workbench::empty() }
    }

    /// A checkout of a repository that calls itself so, with these models; `remote` is where it was cloned from.
    fn checkout(&self, folder: &str, name: &str, remote: Option<&str>, models: &[&str]) {
        self.bench.write(&format!("{folder}/stator.yaml"), settings(name, "prod"));
        for model in models {
            self.model(folder, model);
        }
        let repository = Repository::init(self.bench.path(folder)).unwrap();
        if let Some(remote) = remote {
            repository.remote("origin", remote).unwrap();
        }
    }

    fn model(&self, folder: &str, name: &str) {
        let text = MOCK.replace("name: mock", &format!("name: {name}"));
        self.bench.write(&format!("{folder}/models/{name}/model.yaml"), text);
    }

    fn run(&self, verb: &str, folder: &str, more: &[&str]) -> Output {
        let mut args = vec![verb, folder, "--cluster", CLUSTER];
        if verb == "sync" {
            args.push("--yes");
        }
        self.bench.run(args.iter().chain(more))
    }

    fn sync(&self, folder: &str, more: &[&str]) -> Output {
        self.run("sync", folder, more)
    }

    /// The names of the graphs that the cluster has.
    fn graphs(&self) -> Vec<String> {
        let files = self.bench.files("cluster/models/dynamographdeployments").into_iter();
        files.map(|file| file.rsplit('/').next().unwrap().trim_end_matches(".yaml").to_owned()).collect()
    }

    fn record(&self, model: &str) -> String {
        self.bench.read(&format!("cluster/models/models/{model}.yaml"))
    }

    /// The plan is empty, and a sync writes nothing.
    #[track_caller]
    fn settled(&self, folder: &str) {
        self.run("plan", folder, &["--exit-code"]).success();
        let again = self.sync(folder, &[]).success();
        assert!(again.stdout.contains(", 0 writes."), "{again}");
    }
}

/// Row B2 of the review: two repositories with one `metadata.name`, environment and namespace (a template that was
/// copied, a fork) leave each other's models alone, whatever the guards say.
#[test]
fn repositories_of_one_name_leave_each_other_alone() {
    let here = Neighbours::new();
    here.checkout("fleet", "fleet", Some("https://git.example.com/team/fleet.git"), &["a", "b"]);
    here.checkout("copy", "fleet", Some("https://git.example.com/other/fleet.git"), &["c"]);
    here.sync("fleet", &[]).success();
    here.sync("copy", &["--allow", "mass-delete"]).success();
    assert_eq!(here.graphs(), ["a", "b", "c"]);
    here.sync("fleet", &["--allow", "mass-delete"]).success();
    assert_eq!(here.graphs(), ["a", "b", "c"]);
    here.settled("fleet");
    here.settled("copy");
    // What each removes goes, and nothing else.
    here.bench.remove("fleet/models/b");
    here.sync("fleet", &[]).success();
    assert_eq!(here.graphs(), ["a", "c"]);
    here.settled("copy");
}

/// Row B4 of the review: a record of another repository is not written over, and whoever removes the model loses nothing
/// of it: neither the record by which it is pruned, nor the word that somebody else wanted it.
#[test]
fn a_record_of_another_repository_is_not_written_over() {
    let here = Neighbours::new();
    here.checkout("fleet", "fleet", Some("https://git.example.com/team/fleet.git"), &["llama", "mock"]);
    here.checkout("other", "other", Some("https://git.example.com/team/other.git"), &["llama"]);
    // What is its own could be applied, and would be recorded over what the other has.
    let text = here.bench.read("other/models/llama/model.yaml") + "  cache: {claim: weights, size: 1Gi}\n";
    here.bench.write("other/models/llama/model.yaml", text);
    here.sync("fleet", &[]).success();
    let record = here.record("llama");
    let refused = here.sync("other", &[]).exits(1);
    assert!(refused.stdout.contains("belongs to repository"), "{refused}");
    assert_eq!(here.record("llama"), record, "not a byte of it is written");
    here.bench.remove("fleet/models/llama");
    here.sync("fleet", &[]).success();
    assert_eq!(here.graphs(), ["mock"], "the one who has it removes it");
    here.settled("fleet");
    here.sync("other", &[]).success();
    assert_eq!(here.graphs(), ["llama", "mock"]);
    here.settled("other");
    here.settled("fleet");
}

/// Another clone of the repository is the repository, however it was cloned; a fork and a copy of the folder are not, until
/// somebody says that the models were moved.
#[test]
fn clones_are_the_same_and_copies_are_not() {
    let here = Neighbours::new();
    here.checkout("fleet", "fleet", Some("https://git.example.com/team/fleet.git"), &["a", "b"]);
    here.checkout("clone", "fleet", Some("git@git.example.com:team/fleet"), &["a", "b"]);
    here.checkout("fork", "fleet", Some("git@git.example.com:me/fleet.git"), &["a", "b"]);
    here.checkout("copy", "fleet", None, &["a", "b"]);
    here.sync("fleet", &[]).success();
    here.settled("clone");
    for (stranger, before) in
        [("fork", "repository git.example.com/team/fleet"), ("copy", "repository git.example.com/me/fleet")]
    {
        let refused = here.sync(stranger, &["--allow", "adopt,replace,delete,mass-delete"]).exits(1);
        assert!(refused.stdout.contains(&format!("belongs to {before}, environment `prod`")), "{refused}");
        assert!(refused.stderr.contains("held back[move]"), "{refused}");
        assert!(refused.stdout.contains(", 0 writes."), "{refused}");
        let moved = here.sync(stranger, &["--allow", "move"]).success();
        assert!(moved.stderr.contains("taking over models a, b from "), "{moved}");
        here.settled(stranger);
    }
    here.run("plan", "fleet", &["--exit-code"]).exits(1);
    assert_eq!(here.graphs(), ["a", "b"]);
}

/// A folder that gets a repository, and a repository that gets a remote, are what they were: the files are the same.
#[test]
fn a_folder_grows_into_a_repository() {
    let here = Neighbours::new();
    here.bench.write("fleet/stator.yaml", settings("fleet", "prod"));
    for model in ["a", "b"] {
        here.model("fleet", model);
    }
    here.sync("fleet", &[]).success();
    let goes_on = |from: &str| {
        let said = here.sync("fleet", &[]).success();
        let line = format!("taking over models a, b: same files, last synced from {from}");
        assert!(said.stderr.contains(&line), "{said}");
        here.settled("fleet");
    };
    let repository = Repository::init(here.bench.path("fleet")).unwrap();
    here.settled("fleet");
    let who = git2::Signature::new("a", "a@example.com", &git2::Time::new(1_700_000_000, 0)).unwrap();
    let tree = repository.find_tree(repository.index().unwrap().write_tree().unwrap()).unwrap();
    let root = repository.commit(Some("HEAD"), &who, &who, "begin", &tree, &[]).unwrap();
    goes_on("folder /");
    repository.remote("origin", "https://git.example.com/team/fleet.git").unwrap();
    goes_on(&format!("the repository that began with commit {}", &root.to_string()[..7]));
    here.bench.remove("fleet/models/b");
    here.sync("fleet", &[]).success();
    assert_eq!(here.graphs(), ["a"]);
}

/// A name, an environment and the folder in the repository, as a person moves them.
#[test]
fn what_is_moved_within_a_repository_is_moved_when_allowed() {
    let here = Neighbours::new();
    here.checkout("fleet", "fleet", Some("https://git.example.com/team/fleet.git"), &["a"]);
    here.sync("fleet", &[]).success();
    here.bench.write("fleet/stator.yaml", settings("navy", "prod"));
    let renamed = here.sync("fleet", &[]).success();
    assert!(renamed.stderr.contains("adds ownership labels; no restart"), "{renamed}");
    here.settled("fleet");
    let moved = |folder: &str, owner: &str| {
        let refused = here.sync(folder, &[]).exits(1);
        assert!(refused.stdout.contains(owner), "{refused}");
        here.sync(folder, &["--allow", "move"]).success();
        here.settled(folder);
    };
    here.bench.write("fleet/stator.yaml", settings("navy", "live"));
    moved("fleet", "belongs to repository git.example.com/team/fleet, environment `prod`");
    fs_err::create_dir_all(here.bench.path("fleet/east")).unwrap();
    for path in ["stator.yaml", "models"] {
        fs_err::rename(here.bench.path("fleet").join(path), here.bench.path("fleet/east").join(path)).unwrap();
    }
    moved("fleet/east", "belongs to repository git.example.com/team/fleet, environment `live`");
    assert!(
        here.record("a").contains("stator.dev/origin: git:git.example.com/team/fleet//east"),
        "{}",
        here.record("a")
    );
}
