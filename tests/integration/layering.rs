//! The crates depend on each other only as `docs/architecture.md` says, the pure ones on nothing that does I/O, and all on
//! others as `docs/dependencies.md` says; and laws try as many cases as they are asked to.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What none of the pure crates may reach, not even through another crate.
const DOES_IO: [&str; 8] = ["tokio", "kube", "kube-client", "git2", "reqwest", "hyper", "notify", "fs-err"];

/// Of each package its name and the packages that it is built with: neither those of its tests nor those of its build script.
struct Packages {
    names: BTreeMap<String, String>,
    dependencies: BTreeMap<String, Vec<String>>,
}

/// The platform that this is compiled on, as rustc names it.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

impl Packages {
    fn of_this_workspace() -> Self {
        let output = Command::new(env!("CARGO"))
            // Of this platform alone: the crates of others are in no cache.
            .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host()])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::read(&serde_json::from_slice(&output.stdout).unwrap())
    }

    fn read(metadata: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let names = list(&metadata["packages"]).iter().map(|it| (text(&it["id"]), text(&it["name"]))).collect();
        let is_built_in = |edge: &Value| list(&edge["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let dependencies = list(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| {
                let edges =
                    list(&node["deps"]).into_iter().filter(is_built_in).map(|edge| text(&edge["pkg"])).collect();
                (text(&node["id"]), edges)
            })
            .collect();
        Self { names, dependencies }
    }

    fn id(&self, name: &str) -> &str {
        self.names.iter().find(|(_, it)| *it == name).map(|(id, _)| id.as_str()).unwrap()
    }

    /// The names of everything that a package is built with, whatever it comes through.
    fn reached_from(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.id(name)];
        while let Some(id) = open.pop() {
            for dependency in &self.dependencies[id] {
                if found.insert(dependency.as_str()) {
                    open.push(dependency);
                }
            }
        }
        found.into_iter().map(|id| self.names[id].as_str()).collect()
    }

    /// The workspace's own packages that a package names itself.
    fn own_of(&self, name: &str) -> BTreeSet<String> {
        let names = self.dependencies[self.id(name)].iter().map(|id| self.names[id].clone());
        names.filter(|it| it.starts_with("stator")).collect()
    }
}

/// The rows of the table of crates: name, whether it is pure, and what of the workspace it may depend on.
fn table(page: &str) -> Vec<(String, bool, BTreeSet<String>)> {
    let code = |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
            let [name, _, pure, imports] = cells.as_slice() else { return None };
            let name = code(name).into_iter().find(|it| it.starts_with("stator"))?;
            Some((name, *pure == "yes", code(imports)))
        })
        .collect()
}

#[test]
fn crates_depend_on_each_other_as_the_page_says() {
    let packages = Packages::of_this_workspace();
    let page = fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md")).unwrap();
    let rows = table(&page);
    let named: BTreeSet<&str> = rows.iter().map(|(name, _, _)| name.as_str()).collect();
    let own: BTreeSet<&str> =
        packages.names.values().map(String::as_str).filter(|it| it.starts_with("stator")).collect();
    assert_eq!(named, own, "the table and the workspace name other crates");
    for (name, pure, imports) in &rows {
        assert_eq!(
            packages.own_of(name),
            *imports,
            "{name} depends on other crates of the workspace than the page says"
        );
        let reached = packages.reached_from(name);
        let found: Vec<_> = DOES_IO.iter().filter(|it| reached.contains(**it)).collect();
        assert_eq!(*pure, found.is_empty(), "{name}: {found:?}");
    }
}

/// What cargo builds of these packages: each crate with its version and its features.
fn built_of(packages: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]"])
        .args(packages)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)").replace(" (proc-macro)", "")).collect()
}

/// Else `cargo test -p CRATE` would build again what `cargo test --workspace` has built, and that what `cargo run` has.
#[test]
fn a_crate_alone_is_built_with_the_features_of_all() {
    let tests = "--edges=normal,build,dev";
    let of_all = built_of(&["--workspace", tests]);
    let program = built_of(&["--package", "stator", "--edges=normal,build"]);
    let other: Vec<_> = program.difference(&of_all).collect();
    assert!(other.is_empty(), "tests want other features than the program has of {other:#?}");
    let packages = Packages::of_this_workspace();
    let own = packages.names.values().filter(|name| name.starts_with("stator") && *name != "stator-features");
    for name in own {
        let alone = built_of(&["--package", name, tests]);
        let other: Vec<_> = alone.difference(&of_all).collect();
        assert!(
            other.is_empty(),
            "crates/stator-features/Cargo.toml lacks features that all crates have of {other:#?}"
        );
    }
}

#[test]
fn every_dependency_has_a_reason_on_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs_err::read_to_string(root.join("Cargo.toml")).unwrap();
    let mut wanted = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if let Some((name, _)) = line.split_once('=').filter(|(name, _)| inside && !name.starts_with("stator-"))
        {
            wanted.insert(name.trim().to_owned());
        }
    }
    assert!(wanted.len() > 20, "{wanted:?}");
    let page = fs_err::read_to_string(root.join("docs/dependencies.md")).unwrap();
    let (reasons, _) = page.split_once("## How many").unwrap();
    let named: BTreeSet<String> = reasons
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, wanted, "docs/dependencies.md and Cargo.toml name different crates");
}

/// Crates, versions and features cost whoever builds stator: more of them is a decision, which the page records.
#[test]
fn crates_and_features_are_as_many_as_their_page_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs_err::read_to_string(root.join("docs/dependencies.md")).unwrap();
    let lock = fs_err::read_to_string(root.join("Cargo.lock")).unwrap();
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches([' ', '=', '"']).to_owned());
    let names = lock.lines().filter_map(|line| value(line, "name"));
    let crates: Vec<_> = names.zip(lock.lines().filter_map(|line| value(line, "version = \""))).collect();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, version) in &crates {
        versions.entry(name).or_default().push(version);
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root)
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut features = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap().iter().filter(|it| it["name"] != "stator-features") {
        for dependency in package["dependencies"].as_array().unwrap() {
            let named = dependency["features"].as_array().unwrap().iter();
            features.extend(named.map(|feature| (dependency["name"].to_string(), feature.to_string())));
        }
    }
    let rows = |head: &str| -> Vec<(String, String)> {
        let table = page.lines().skip_while(|line| !line.starts_with(head)).skip(2);
        let cells = table.take_while(|line| line.starts_with('|')).map(|line| line.split('|').map(str::trim).collect());
        cells.map(|cells: Vec<&str>| (cells[1].replace('`', ""), cells[2].to_owned())).collect()
    };
    let counted: Vec<String> = rows("| What | How many |").into_iter().map(|(_, number)| number).collect();
    assert_eq!(counted, [crates.len().to_string(), features.len().to_string()], "crates and features");
    let listed: Vec<(String, String)> = versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| (name.to_owned(), versions.join(", ")))
        .collect();
    assert_eq!(rows("| Crate in several versions |"), listed);
}

/// What a pure crate may not call itself is held by clippy, whose settings are one file in each of them.
#[test]
fn pure_crates_are_held_to_the_same_list_of_calls() {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("clippy.toml");
        fs_err::read_to_string(path).unwrap()
    };
    assert_eq!(read("stator-core"), read("stator-model"));
    assert_eq!(read("stator-core"), read("stator-view"));
    for call in ["std::fs::File::open", "std::env::var", "std::time::SystemTime::now", "jiff::Timestamp::now"] {
        assert!(read("stator-core").contains(call), "{call}");
    }
}

#[test]
fn what_is_reached_through_another_crate_is_found() {
    let kinds = |kind: Value| serde_json::json!([{ "kind": kind }]);
    let packages = Packages::read(&serde_json::json!({
        "packages": [{"id": "1", "name": "stator-core"}, {"id": "2", "name": "middle"}, {"id": "3", "name": "tokio"}, {"id": "4", "name": "git2"}],
        "resolve": {"nodes": [
            {"id": "1", "deps": [{"pkg": "2", "dep_kinds": kinds(Value::Null)}, {"pkg": "4", "dep_kinds": kinds("dev".into())}]},
            {"id": "2", "deps": [{"pkg": "3", "dep_kinds": kinds(Value::Null)}]},
            {"id": "3", "deps": []},
            {"id": "4", "deps": []},
        ]},
    }));
    assert_eq!(packages.reached_from("stator-core"), BTreeSet::from(["middle", "tokio"]));
}

/// A number of cases that stands in the code is one that `PROPTEST_CASES` does not move.
#[test]
fn laws_try_a_share_of_the_cases_that_are_asked_for() {
    let fixed = regex::Regex::new(r"(with_cases\(|\bcases: )[0-9]").unwrap();
    let mut wrong = Vec::new();
    let mut folders: Vec<_> =
        ["src", "crates", "tests"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && fixed.is_match(&fs_err::read_to_string(&path).unwrap())
            {
                wrong.push(path);
            }
        }
    }
    assert_eq!(
        wrong,
        Vec::<std::path::PathBuf>::new(),
        "write `ProptestConfig::default().cases / 4`, or another share"
    );
}
