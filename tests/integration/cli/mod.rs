//! What a user of the command line sees.

mod catalogue;
mod costs;
mod first_hour;
mod guesses;
mod identity;
mod import;
mod kubernetes;
mod locked;
pub(crate) mod logs;
mod lsp;
mod odd;
mod offline;
mod policies;
mod releases;
mod rollback;
mod secrets;
mod selected;
mod sources;
mod sync;
mod targets;
mod terminals;
mod tree;
mod usage;
mod wait;

use crate::workbench::Workbench;

/// A model that runs anywhere, in the smallest form.
pub const MOCK: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: mock
spec:
  model: Qwen/Qwen3-0.6B
  engine: mocker
  runtime: 1.2.0
  serving:
    frontend:
      replicas: 1
    worker:
      replicas: 2
";

/// A root file with two environments.
pub const ROOT: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata:
  name: fleet
spec:
  environments:
    prod:
      namespace: models
    staging:
      namespace: models-staging
";

/// Two environments, and one model.
pub fn fleet() -> Workbench {
    Workbench::with(&[("stator.yaml", ROOT), ("models/mock/model.yaml", MOCK)])
}

/// So many models of the same kind, `mock-0` and on.
pub fn crowd(number: usize) -> Workbench {
    let bench = Workbench::empty();
    for index in 0..number {
        let name = format!("mock-{index}");
        bench.write(&format!("models/{name}/model.yaml"), MOCK.replace("name: mock", &format!("name: {name}")));
    }
    bench
}
