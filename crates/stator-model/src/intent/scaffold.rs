//! `stator init`: a small repository that validates, renders and syncs as it stands, on a laptop without GPUs.

use super::schema::{SchemaKind, editor_schema};

/// The longest name of a repository.
const MAX_NAME_LENGTH: usize = 63;

/// The files of a new repository, by path from its root, sorted.
///
/// `name` is what the user called the folder. What a repository's name cannot hold is replaced by dashes.
pub fn repository_files(name: &str) -> Vec<(String, String)> {
    let name = repository_name(name);
    let mut files = vec![
        ("stator.yaml".to_owned(), STATOR_YAML.replace("NAME", &name)),
        ("models/mock/model.yaml".to_owned(), MOCK_MODEL.to_owned()),
        ("models/qwen3-8b/model.yaml".to_owned(), QWEN_MODEL.to_owned()),
        ("models/qwen3-8b/model.staging.yaml".to_owned(), QWEN_STAGING_OVERLAY.to_owned()),
        (".gitignore".to_owned(), GITIGNORE.to_owned()),
        (".vscode/settings.json".to_owned(), VSCODE_SETTINGS.to_owned()),
    ];
    files.extend(SchemaKind::ALL.into_iter().map(|kind| {
        // A JSON value always prints, so the alternate form of Display cannot fail.
        (format!(".schemas/{}.json", kind.name()), format!("{:#}\n", editor_schema(kind)))
    }));
    files.sort();
    files
}

/// A name that a repository can have: lower-case letters, digits and dashes, starting with a letter.
fn repository_name(wish: &str) -> String {
    let plain: String =
        wish.chars().map(|c| c.to_ascii_lowercase()).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name: String =
        plain.trim_start_matches(|c: char| !c.is_ascii_lowercase()).chars().take(MAX_NAME_LENGTH).collect::<String>();
    let name = name.trim_end_matches('-');
    if name.is_empty() { "models".to_owned() } else { name.to_owned() }
}

const STATOR_YAML: &str = "\
# yaml-language-server: $schema=.schemas/repository.json
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata:
  name: NAME
spec:
  environments:
    # One environment needs no `-e`. Add `prod` beside it when there is one, with its own namespace.
    staging:
      namespace: models-staging
  # Defaults for every model.
  defaults:
    runtime: 1.2.0
    secrets:
      huggingFace: hf-token-secret
  policy:
    - name: gpu-budget
      expression: gpus <= 16
      message: ask the platform team before one model takes more than 16 GPUs
";

const MOCK_MODEL: &str = "\
# yaml-language-server: $schema=../../.schemas/intent.json
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: mock
spec:
  # Answers like an engine and needs no GPU: for trying things out.
  model: Qwen/Qwen3-0.6B
  engine: mocker
  serving:
    frontend:
      replicas: 1
    worker:
      replicas: 2
      args: [--speedup-ratio, \"10\"]
";

const QWEN_MODEL: &str = "\
# yaml-language-server: $schema=../../.schemas/intent.json
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: qwen3-8b
spec:
  model: Qwen/Qwen3-8B
  servedName: qwen3-8b
  engine: vllm
  hardware:
    gpu: l40s
    gpusPerNode: 4
  serving:
    frontend:
      # Send a prompt to the worker that still holds its beginning.
      router: kv
    worker:
      replicas: 2
      tensorParallel: 1
      maxLength: 16384
  cache:
    claim: qwen3-8b-weights
    size: 50Gi
";

const QWEN_STAGING_OVERLAY: &str = "\
# yaml-language-server: $schema=../../.schemas/overlay.json
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: qwen3-8b
spec:
  # Merged over model.yaml in staging only.
  serving:
    worker:
      replicas: 1
";

const GITIGNORE: &str = "\
# The embedded cluster, when stator runs without a real one.
.stator/
";

const VSCODE_SETTINGS: &str = r#"{
  "yaml.schemas": {
    ".schemas/intent.json": "**/model.yaml",
    ".schemas/overlay.json": ["**/model.*.yaml", "!**/*.lock.yaml"],
    ".schemas/lock.json": ["**/model.lock.yaml", "**/model.*.lock.yaml"],
    ".schemas/repository.json": "/stator.yaml",
    ".schemas/defaults.json": "/*/**/stator.yaml"
  }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::format::format_document;
    use crate::intent::{SourceFile, SourceTree, Workspace};

    fn workspace(name: &str) -> Workspace {
        let files = repository_files(name)
            .into_iter()
            .filter(|(path, _)| path.ends_with(".yaml"))
            .map(|(path, text)| SourceFile { path, content: Ok(text.into_bytes().into()) })
            .collect();
        Workspace::parse(&SourceTree { files, ..SourceTree::default() })
    }

    #[test]
    fn a_new_repository_is_without_findings_and_has_two_models() {
        let workspace = workspace("demo");
        let staging = workspace.resolve_environment(None).unwrap();
        assert_eq!(staging.findings, Vec::new());
        let names: Vec<&str> = staging.intents.iter().map(|intent| intent.name.as_str()).collect();
        assert_eq!(names, ["mock", "qwen3-8b"]);
        let worker = staging.intents[1].load().unwrap().model.spec.serving.clone().unwrap().worker.unwrap();
        assert_eq!(worker.replicas, Some(1), "the overlay holds");
    }

    #[test]
    fn any_folder_name_gives_a_repository_that_validates() {
        for (wish, name) in [
            ("demo", "demo"),
            ("My Models!", "my-models"),
            ("2024_fleet", "fleet"),
            ("", "models"),
            ("模型", "models"),
            (".", "models"),
            ("a\"\nkind: x", "a--kind--x"),
        ] {
            assert_eq!(repository_name(wish), name);
        }
        let long = workspace(&"x-".repeat(200));
        assert_eq!(long.resolve_environment(None).unwrap().findings, Vec::new());
    }

    #[test]
    fn what_is_written_is_already_formatted_and_its_modelines_lead_to_schemas() {
        let files = repository_files("demo");
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".yaml")) {
            assert_eq!(format_document(text).as_ref(), Ok(text), "{path}");
            let depth = path.matches('/').count();
            let schema = text.lines().next().and_then(|line| line.split("$schema=").nth(1)).unwrap();
            let expected = schema.strip_prefix(&"../".repeat(depth)).unwrap();
            assert!(files.iter().any(|(path, _)| path == expected), "{path}: {schema}");
        }
    }

    #[test]
    fn json_files_are_json() {
        for (path, text) in repository_files("demo").iter().filter(|(path, _)| path.ends_with(".json")) {
            serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}
