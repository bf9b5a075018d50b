//! Repositories on Gitea, of many models, which somebody pushes to.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use super::gitea;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// A repository on the git host, and a clone of it.
pub(crate) struct HostedRepository<'a> {
    folder: tempfile::TempDir,
    git: git2::Repository,
    host: gitea::Repository<'a>,
}

/// One of many models in a namespace, where their source is, too.
pub(crate) struct ModelRepository<'a> {
    pub(crate) hosted: HostedRepository<'a>,
    namespace: String,
}

/// What a model is called.
pub(crate) fn name(number: usize) -> String {
    format!("model-{number:05}")
}

/// The names of these models.
pub(crate) fn all_names(numbers: Range<usize>) -> BTreeSet<String> {
    numbers.map(name).collect()
}

impl<'a> HostedRepository<'a> {
    pub(crate) fn empty(gitea: &'a gitea::Gitea, name: &str) -> Fallible<Self> {
        let folder = tempfile::tempdir()?;
        let mut options = git2::RepositoryInitOptions::new();
        let git = git2::Repository::init_opts(folder.path(), options.initial_head("main"))?;
        Ok(Self { folder, git, host: gitea.repository(name) })
    }

    /// The clone.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// As the git host has it.
    pub(crate) fn host(&self) -> &gitea::Repository<'a> {
        &self.host
    }

    /// The newest commit.
    pub(crate) fn head(&self) -> Fallible<String> {
        Ok(self.git.head()?.peel_to_commit()?.id().to_string())
    }

    /// Writes files and commits them: paths, and what is in them.
    pub(crate) fn commit(&self, files: &[(String, String)]) -> Fallible<()> {
        let mut index = self.git.index()?;
        for (path, text) in files {
            if let Some(folder) = self.path().join(path).parent() {
                fs_err::create_dir_all(folder)?;
            }
            fs_err::write(self.path().join(path), text)?;
            index.add_path(Path::new(path))?;
        }
        index.write()?;
        let tree = self.git.find_tree(index.write_tree()?)?;
        let who = git2::Signature::now("bench", "bench@example.com")?;
        let parent = self.git.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        self.git.commit(Some("HEAD"), &who, &who, "a push", &tree, &parents)?;
        Ok(())
    }

    /// Pushes the first commit, and waits until Gitea knows it everywhere.
    pub(crate) fn push_first(&self) {
        tokio::task::block_in_place(|| self.host.push(self.path(), "main"));
    }

    /// Pushes what is committed with the real git, and comes back when Gitea has answered it.
    pub(crate) fn push(&self) -> Fallible<()> {
        // The runtime's other tasks go on meanwhile.
        tokio::task::block_in_place(|| self.host.try_push(self.path(), &["HEAD:refs/heads/main"]))
            .map_err(|error| format!("Gitea refused the push: {error}").into())
    }
}

impl<'a> ModelRepository<'a> {
    /// With this many models, pushed.
    pub(crate) fn new(gitea: &'a gitea::Gitea, name: &str, namespace: &str, models: usize) -> Fallible<Self> {
        let files = (0..models).map(|number| (file(number), intent(number, 1)));
        Self::pushed(gitea, name, namespace, files.collect())
    }

    /// With a model that has no such engine.
    pub(crate) fn broken(gitea: &'a gitea::Gitea, number: usize, namespace: &str) -> Fallible<Self> {
        let text = intent(0, 1).replace("engine: vllm", "engine: steam");
        Self::pushed(gitea, &format!("broken-{number}"), namespace, vec![(file(0), text)])
    }

    fn pushed(
        gitea: &'a gitea::Gitea,
        name: &str,
        namespace: &str,
        mut files: Vec<(String, String)>,
    ) -> Fallible<Self> {
        let hosted = tokio::task::block_in_place(|| HostedRepository::empty(gitea, name))?;
        let root = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: {name}\nspec:\n  environments:\n    \
             prod:\n      namespace: {namespace}\n"
        );
        files.push(("stator.yaml".to_owned(), root));
        hosted.commit(&files)?;
        hosted.push_first();
        Ok(Self { hosted, namespace: namespace.to_owned() })
    }

    /// The namespace of its models, and of its source.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Commits other replicas of these models.
    pub(crate) fn commit_change(&self, models: Range<usize>, replicas: i64) -> Fallible<()> {
        let files: Vec<_> = models.map(|number| (file(number), intent(number, replicas))).collect();
        self.hosted.commit(&files)
    }
}

fn file(number: usize) -> String {
    format!("{}/model.yaml", name(number))
}

fn intent(number: usize, replicas: i64) -> String {
    let name = name(number);
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata:\n  name: {name}\nspec:\n  model: example/{name}\n  \
         takeOver: [somebody]\n  engine: vllm\n  runtime: 1.2.0\n  hardware:\n    gpu: h200_sxm\n    gpusPerNode: 8\n  serving:\n    frontend:\n      \
         router: kv\n    worker:\n      replicas: {replicas}\n      tensorParallel: 2\n  env:\n    LOG_LEVEL: info\n"
    )
}
