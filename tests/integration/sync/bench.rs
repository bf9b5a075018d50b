//! The binary at work on a repository and an embedded cluster, and what every scenario ends with.

use crate::workbench::{Output, Workbench};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::SystemTime;

/// The settings of a repository with one environment.
pub const SHOP: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: shop}
spec:
  environments:
    prod: {namespace: prod}
";

/// A model of the mocker engine with this `serving`, and more lines of its `spec`.
pub fn model(name: &str, serving: &str, more: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  \
         engine: mocker\n  runtime: 1.2.0\n  serving: {serving}\n{more}"
    )
}

/// The smallest model there is.
pub fn small(name: &str) -> String {
    model(name, "{worker: {replicas: 1}}", "")
}

/// A repository `shop` of these small models.
pub fn shop(names: &[&str]) -> Workbench {
    let bench = Workbench::with(&[("stator.yaml", SHOP)]);
    for name in names {
        bench.write(&format!("models/{name}/model.yaml"), small(name));
    }
    bench
}

/// How a scenario syncs, waits and looks.
pub trait Syncing {
    /// `stator sync --yes` with the operator at work, waiting for health.
    fn sync(&self, more: &[&str]) -> Output;
    /// `stator sync --yes` as it is.
    fn push(&self, more: &[&str]) -> Output;
    /// `stator plan -o json`.
    fn plan(&self, more: &[&str]) -> serde_json::Value;
    /// Action and object of each change, as `create DynamoGraphDeployment prod/a`, without what is kept.
    fn pending(&self, more: &[&str]) -> Vec<String>;
    /// The file of an object.
    fn live(&self, plural: &str, name: &str) -> String;
    /// Whether an object is there.
    fn has(&self, plural: &str, name: &str) -> bool;
    /// Every object of the cluster by its file, with a digest of its bytes and the time of its change.
    fn cluster(&self) -> BTreeMap<String, (u64, SystemTime)>;
    /// The uid of an object.
    fn uid(&self, plural: &str, name: &str) -> String;
    /// The names of all objects.
    fn objects(&self) -> Vec<String>;
    /// The plan is all `keep`, and one more sync writes nothing at all.
    #[track_caller]
    fn settled(&self) {
        self.settled_with(&[]);
    }
    /// The same with further arguments.
    fn settled_with(&self, more: &[&str]);
}

impl Syncing for Workbench {
    fn sync(&self, more: &[&str]) -> Output {
        let waiting = ["--wait", "--simulate-operator", "--simulate-speed", "100000", "--timeout", "15m"];
        self.push(&[&waiting, more].concat())
    }

    fn push(&self, more: &[&str]) -> Output {
        self.run([&["sync", "--yes"], more].concat())
    }

    fn plan(&self, more: &[&str]) -> serde_json::Value {
        let output = self.run([&["plan", "-o", "json"], more].concat());
        assert!(matches!(output.code, Some(0 | 1)), "{output}");
        output.json()
    }

    fn pending(&self, more: &[&str]) -> Vec<String> {
        let plan = self.plan(more);
        let changes = plan["changes"].as_array().unwrap().iter();
        changes
            .filter(|change| change["action"] != "keep" && change["action"] != "left-behind")
            .map(|change| {
                let text = |pointer: &str| change.pointer(pointer).unwrap().as_str().unwrap();
                let object = format!("{} {}/{}", text("/object/kind"), text("/object/namespace"), text("/object/name"));
                format!("{} {object}", text("/action"))
            })
            .collect()
    }

    fn live(&self, plural: &str, name: &str) -> String {
        format!(".stator/cluster/prod/{plural}/{name}.yaml")
    }

    fn has(&self, plural: &str, name: &str) -> bool {
        self.path(&self.live(plural, name)).exists()
    }

    #[track_caller]
    fn uid(&self, plural: &str, name: &str) -> String {
        let text = self.read(&self.live(plural, name));
        text.lines().find_map(|line| line.strip_prefix("  uid: ")).unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    fn cluster(&self) -> BTreeMap<String, (u64, SystemTime)> {
        let files = self.files(".stator/cluster").into_iter().filter(|file| is_object(file));
        files
            .map(|file| {
                let path = self.path(&file);
                let changed = fs_err::metadata(&path).unwrap().modified().unwrap();
                let mut digest = DefaultHasher::new();
                fs_err::read(path).unwrap().hash(&mut digest);
                (file, (digest.finish(), changed))
            })
            .collect()
    }

    fn objects(&self) -> Vec<String> {
        let files = self.files(".stator/cluster").into_iter().filter(|file| is_object(file));
        files.map(|file| file.trim_start_matches(".stator/cluster/").trim_end_matches(".yaml").to_owned()).collect()
    }

    #[track_caller]
    fn settled_with(&self, more: &[&str]) {
        assert_eq!(self.pending(more), Vec::<String>::new(), "something is still to do");
        let plan = self.plan(more);
        for change in plan["changes"].as_array().unwrap() {
            assert_eq!(change["fields"].as_array().map(Vec::len), Some(0), "{change:#}");
        }
        let before = self.cluster();
        assert!(!before.is_empty(), "a cluster without objects is settled by mistake");
        let again = self.push(more).success();
        assert!(again.stdout.ends_with("synced, 0 writes.\n"), "{again}");
        let after = self.cluster();
        let changed: Vec<&String> = after
            .iter()
            .filter(|(file, content)| before.get(*file) != Some(content))
            .map(|(file, _)| file)
            .chain(before.keys().filter(|file| !after.contains_key(*file)))
            .collect();
        assert!(changed.is_empty(), "a second sync touched {changed:?}");
    }
}

fn is_object(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "yaml")
}
