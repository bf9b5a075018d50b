//! An environment of many models, and the whole way from its files to the cluster.

use super::Fallible;
use super::bare_loop::RenderedRepository;
use super::testbed::ControlPlane;
use stator_cluster::cluster::Cluster;
use stator_cluster::sync::{SyncOptions, SyncProgress, SyncReport, gather, run_sync};
use stator_core::object::{Object, ObjectRef};
use stator_model::plan::{PlanInput, build_plan};
use stator_model::render::RenderedModel;
use std::fmt::Write as _;

/// A repository in a folder, and a namespace.
pub(crate) struct Environment {
    folder: tempfile::TempDir,
    namespace: String,
}

impl Environment {
    /// Writes the intents, and makes the namespace.
    pub(crate) async fn new(plane: &ControlPlane, namespace: &str, models: usize) -> Fallible<Self> {
        plane.namespace(namespace).await;
        let folder = tempfile::tempdir()?;
        let root = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: bench\nspec:\n  environments:\n    \
             prod:\n      namespace: {namespace}\n"
        );
        fs_err::write(folder.path().join("stator.yaml"), root)?;
        for number in 0..models {
            let directory = folder.path().join(format!("model-{number:05}"));
            fs_err::create_dir_all(&directory)?;
            fs_err::write(directory.join("model.yaml"), intent(number, 1))?;
        }
        Ok(Self { folder, namespace: namespace.to_owned() })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// One more replica in one model.
    pub(crate) fn change_one(&self) -> Fallible<()> {
        Ok(fs_err::write(self.folder.path().join("model-00000/model.yaml"), intent(0, 2))?)
    }

    /// What the bare loop applies.
    pub(crate) fn objects(&self) -> Fallible<Vec<Object>> {
        RenderedRepository::of(self.folder.path())?.objects(&self.namespace)
    }

    /// The whole way: files, plan, applies, records. `on_applied` is called at each graph that is applied.
    pub(crate) async fn sync(
        &self,
        cluster: &impl Cluster,
        on_applied: &(dyn Fn() + Send + Sync),
    ) -> Fallible<SyncReport> {
        let RenderedRepository { target, models: rendered, environment: selection, revision } =
            RenderedRepository::of(self.folder.path())?;
        let wanted: Vec<ObjectRef> =
            rendered.iter().flat_map(|one| &one.objects).map(|one| one.object.reference()).collect();
        let gathered = gather(cluster, &target.repository, &target.environment, &target.namespace, &wanted).await?;
        let bookkeeping = gathered.bookkeeping();
        let input = PlanInput {
            repository: target.repository,
            environment: target.environment,
            namespace: target.namespace,
            revision,
            rendered: rendered.into_iter().map(RenderedModel::into_text).collect(),
            broken: selection.broken,
            live: gathered.live,
            records: gathered.records,
            journals: gathered.journals,
            unreadable: gathered.damaged,
            guards: selection.guards,
            prices: selection.prices,
            prune: true,
            findings: selection.findings,
            ..PlanInput::default()
        };
        let plan = build_plan(&input);
        let options = SyncOptions::new(jiff::Timestamp::now(), 7);
        let (_keep, cancel) = tokio::sync::watch::channel(None);
        let progress = |event: SyncProgress| {
            if let SyncProgress::Applied { .. } = event {
                on_applied();
            }
        };
        let report = run_sync(cluster, plan, bookkeeping, options, &progress, cancel).await;
        if report.is_success() {
            Ok(report)
        } else {
            Err(format!("{:?}", report.models.iter().find(|one| !one.result.is_success())).into())
        }
    }
}

/// An aggregated or a disaggregated model, in turn.
fn intent(number: usize, replicas: u32) -> String {
    let serving = if number.is_multiple_of(2) {
        format!("    worker:\n      replicas: {replicas}\n      tensorParallel: 2\n")
    } else {
        "    prefill:\n      replicas: 2\n      tensorParallel: 2\n    decode:\n      replicas: 3\n      tensorParallel: 4\n"
            .to_owned()
    };
    let mut text = String::from("apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata:\n");
    let _ = write!(
        text,
        "  name: model-{number:05}\nspec:\n  model: example/model-{number:05}\n  engine: vllm\n  runtime: 1.2.0\n  \
         hardware:\n    gpu: h200_sxm\n    gpusPerNode: 8\n  serving:\n    frontend:\n      router: kv\n{serving}  \
         env:\n    LOG_LEVEL: info\n"
    );
    text
}

/// Starts the high-water mark of this process's memory anew.
pub(crate) fn forget_peak() -> Fallible<()> {
    Ok(fs_err::write("/proc/self/clear_refs", "5")?)
}

/// The most memory that this process held since, from Linux's `VmHWM`.
pub(crate) fn peak_mib() -> Fallible<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number after VmHWM")?.parse::<u64>()? / 1024)
}
