//! A repository of many models, as it was synced to an embedded cluster.

use super::Fallible;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The namespace of the models.
const NAMESPACE: &str = "web";

/// A repository in a folder, with its cluster.
pub(crate) struct ModelFolder {
    folder: tempfile::TempDir,
    pub(crate) models: usize,
}

pub(crate) fn name(number: usize) -> String {
    format!("model-{number:05}")
}

impl ModelFolder {
    /// With so many models, committed and synced. No operator is simulated: none has seen the graphs.
    pub(crate) fn synced(models: usize) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        let root = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: bench\nspec:\n  environments:\n    \
             prod:\n      namespace: {NAMESPACE}\n"
        );
        fs_err::write(folder.path().join("stator.yaml"), root)?;
        fs_err::write(folder.path().join(".gitignore"), ".stator/\n")?;
        let mut options = git2::RepositoryInitOptions::new();
        let git = git2::Repository::init_opts(folder.path(), options.initial_head("main"))?;
        let mut index = git.index()?;
        for path in ["stator.yaml", ".gitignore"] {
            index.add_path(Path::new(path))?;
        }
        let this = Self { folder, models };
        for number in 0..models {
            let file = this.file(number);
            fs_err::create_dir_all(file.parent().ok_or("no folder")?)?;
            fs_err::write(&file, intent(number))?;
            index.add_path(file.strip_prefix(this.path())?)?;
        }
        index.write()?;
        let tree = git.find_tree(index.write_tree()?)?;
        let who = git2::Signature::now("bench", "bench@example.com")?;
        git.commit(Some("HEAD"), &who, &who, "models", &tree, &[])?;
        let mut sync = Command::new(env!("CARGO_BIN_EXE_stator"));
        sync.args(["sync", "-e", "prod", "--cluster", "embedded", "--yes"]).current_dir(this.path());
        let output = sync.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(format!("stator sync: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(this)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, number: usize) -> PathBuf {
        self.path().join(format!("models-{:02}/{}/model.yaml", number / 100, name(number)))
    }

    /// Edits a graph in the cluster by hand.
    pub(crate) fn change_object(&self, number: usize) -> Fallible<()> {
        let graph = format!(".stator/cluster/{NAMESPACE}/dynamographdeployments/{}.yaml", name(number));
        replace(&self.path().join(graph), "replicas: 2", "replicas: 5")
    }

    /// Edits the file of a model.
    pub(crate) fn change_file(&self, number: usize) -> Fallible<()> {
        replace(&self.file(number), "replicas: 2", "replicas: 3")
    }
}

fn replace(path: &Path, from: &str, to: &str) -> Fallible<()> {
    let text = fs_err::read_to_string(path)?;
    if !text.contains(from) {
        return Err(format!("{} does not have `{from}`", path.display()).into());
    }
    Ok(fs_err::write(path, text.replace(from, to))?)
}

fn intent(number: usize) -> String {
    let name = name(number);
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata:\n  name: {name}\nspec:\n  model: example/{name}\n  \
         engine: vllm\n  runtime: 1.2.0\n  hardware:\n    gpu: h200_sxm\n    gpusPerNode: 8\n  serving:\n    frontend:\n      \
         router: kv\n    worker:\n      replicas: 2\n      tensorParallel: 2\n  env:\n    LOG_LEVEL: info\n"
    )
}
