//! A repository of many models that somebody pushes to.

use super::Fallible;
use std::ops::Range;
use std::path::Path;

/// A repository in a folder.
pub(crate) struct Repository {
    folder: tempfile::TempDir,
    git: git2::Repository,
}

pub(crate) fn name(number: usize) -> String {
    format!("model-{number:05}")
}

impl Repository {
    /// With so many models, committed.
    pub(crate) fn new(namespace: &str, models: usize) -> Fallible<Self> {
        let repository = Self::empty("bench", namespace)?;
        repository.change(0..models, 1)?;
        Ok(repository)
    }

    /// With a model that has no such engine.
    pub(crate) fn broken(namespace: &str) -> Fallible<Self> {
        let repository = Self::empty("broken", namespace)?;
        fs_err::create_dir_all(repository.path().join(name(0)))?;
        let text = intent(0, 1).replace("engine: vllm", "engine: steam");
        fs_err::write(repository.path().join("model-00000/model.yaml"), text)?;
        repository.commit(&["model-00000/model.yaml".to_owned()])?;
        Ok(repository)
    }

    fn empty(name: &str, namespace: &str) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        let mut options = git2::RepositoryInitOptions::new();
        let git = git2::Repository::init_opts(folder.path(), options.initial_head("main"))?;
        let repository = Self { folder, git };
        let root = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: {name}\nspec:\n  environments:\n    \
             prod:\n      namespace: {namespace}\n"
        );
        fs_err::write(repository.path().join("stator.yaml"), root)?;
        Ok(repository)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Commits other replicas of these models.
    pub(crate) fn change(&self, models: Range<usize>, replicas: i64) -> Fallible<()> {
        let mut paths = Vec::new();
        for number in models {
            let path = format!("model-{number:05}/model.yaml");
            fs_err::create_dir_all(self.path().join(name(number)))?;
            fs_err::write(self.path().join(&path), intent(number, replicas))?;
            paths.push(path);
        }
        self.commit(&paths)
    }

    fn commit(&self, paths: &[String]) -> Fallible<()> {
        let mut index = self.git.index()?;
        for path in paths {
            index.add_path(Path::new(path))?;
        }
        index.add_path(Path::new("stator.yaml"))?;
        index.write()?;
        let tree = self.git.find_tree(index.write_tree()?)?;
        let who = git2::Signature::now("bench", "bench@example.com")?;
        let parent = self.git.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        self.git.commit(Some("HEAD"), &who, &who, "a push", &tree, &parents)?;
        Ok(())
    }
}

fn intent(number: usize, replicas: i64) -> String {
    let name = name(number);
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata:\n  name: {name}\nspec:\n  model: example/{name}\n  \
         takeOver: [somebody]\n  engine: vllm\n  runtime: 1.2.0\n  hardware:\n    gpu: h200_sxm\n    gpusPerNode: 8\n  serving:\n    frontend:\n      \
         router: kv\n    worker:\n      replicas: {replicas}\n      tensorParallel: 2\n  env:\n    LOG_LEVEL: info\n"
    )
}
