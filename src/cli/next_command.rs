//! The command that carries a plan out as it was shown: with the same path, cluster and options, and with what its held steps
//! wait for.

use super::args::{ChangeArgs, ClusterArgs, EnvironmentArgs, PolicyArgs};
use super::targets::TargetArgs;
use stator_model::plan::{HoldKind, Plan};
use std::collections::BTreeSet;

/// A line for a shell, such as `stator sync models -e prod --allow adopt`. Whoever runs it is still asked before anything is
/// written.
pub fn sync_command(
    plan: &Plan,
    targets: &TargetArgs,
    environment: &EnvironmentArgs,
    cluster: &ClusterArgs,
    (changes, PolicyArgs { policies }): (&ChangeArgs, &PolicyArgs),
) -> String {
    let mut words = vec!["stator".to_owned(), "sync".to_owned()];
    words.extend(targets.words().iter().map(|word| quote(word)));
    words.extend(["-e".to_owned(), quote(&plan.environment)]);
    let ClusterArgs { cluster: name, context, kubeconfig, impersonate, timeout: _ } = cluster;
    let kubeconfig = kubeconfig.as_ref().map(|file| file.display().to_string());
    let options = [
        ("-n", environment.namespace.clone()),
        ("--cluster", name.clone()),
        ("--context", context.clone()),
        ("--kubeconfig", kubeconfig),
        ("--as", impersonate.clone()),
        ("--policies", policies.as_ref().map(|path| path.display().to_string())),
    ];
    for (option, value) in options {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), quote(&value)]));
    }
    if !changes.prune {
        words.push("--prune=false".to_owned());
    }
    let mut holds: BTreeSet<HoldKind> = changes.allowed_holds();
    let kinds = plan.changes.iter().filter_map(|change| change.step.held_by());
    let kinds = kinds.chain(plan.holds.iter().filter(|hold| !hold.allowed).map(|hold| hold.kind));
    // Right after an accident, the way to complete it is not what comes next.
    holds.extend(kinds.filter(|kind| *kind != HoldKind::MassDelete));
    if !holds.is_empty() {
        let names: Vec<&str> = holds.into_iter().map(HoldKind::as_str).collect();
        words.extend(["--allow".to_owned(), names.join(",")]);
    }
    words.join(" ")
}

/// A value as a shell reads it back. One with a zero byte, which no command line can have, stays as it is.
fn quote(value: &str) -> String {
    shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned())
}
