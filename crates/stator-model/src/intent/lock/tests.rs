use super::*;
use crate::intent::{SourceFile, SourceTree, Workspace};
use proptest::prelude::*;

/// A lock beside an intent that it may or may not fit.
fn with_lock(bytes: &[u8]) -> Vec<Finding> {
    let intent =
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: a}\nspec: {model: m, engine: vllm, sla: {}}\n";
    let file = |path: &str, bytes: &[u8]| SourceFile { path: path.into(), content: Ok(bytes.into()) };
    let files = vec![file("model.lock.yaml", bytes), file("model.yaml", intent.as_bytes())];
    let workspace = Workspace::parse(&SourceTree { files, ..SourceTree::default() });
    workspace.resolve_environment(None).map(|selection| selection.findings).unwrap_or_default()
}

proptest! {
    #[test]
    fn no_bytes_are_a_lock_by_chance(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(!with_lock(&bytes).is_empty());
    }

    #[test]
    fn fields_of_any_form_are_told(name in "\\PC{0,8}", digest in "[0-9a-f]{60,66}", graph in "\\PC{0,12}") {
        let value = json!({
            "apiVersion": "stator.dev/v1alpha1", "kind": "ModelLock", "metadata": {"name": name},
            "spec": {"request": "a-1", "targetDigest": digest, "target": {}, "graphDigest": digest, "graph": {"x": graph}},
        });
        let findings = with_lock(value.to_string().as_bytes());
        prop_assert!(findings.iter().any(Finding::is_error), "{:?}", findings);
    }
}
