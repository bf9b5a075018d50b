//! Files that pods mount: what is named, what is read, and what is said of one that cannot be.

use super::report;
use crate::intent::{ResolvedEnvironment, SourceFile, SourceTree, Workspace, named_files};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROOT: &str = "apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: models}
spec:
  environments:
    staging: {namespace: staging}
    prod: {namespace: prod}
";

fn model(files: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {{name: chat}}
spec:
  model: m
  engine: trtllm
  runtime: 1.2.0
  cache: {{claim: weights}}
  files:
{files}  serving:
    prefill: {{gpus: 1}}
    decode: {{name: Decoder, gpus: 1}}
"
    )
}

/// A tree of documents, read as a source reads it: what is named is looked up among `there`.
fn tree(documents: &[(&str, &str)], there: &[(&str, &[u8])]) -> SourceTree {
    let file = |path: &str, bytes: &[u8]| SourceFile { path: path.to_owned(), content: Ok(bytes.into()) };
    let mut tree = SourceTree {
        files: documents.iter().map(|(path, text)| file(path, text.as_bytes())).collect(),
        ..SourceTree::default()
    };
    let there: BTreeMap<&str, &[u8]> = there.iter().copied().collect();
    for (folder, paths) in named_files(&tree) {
        let read = |path: String| match there.get(path.as_str()) {
            Some(bytes) => file(&path, bytes),
            None => SourceFile { path, content: Err("there is no such file".to_owned()) },
        };
        tree.mounted_files.insert(folder, paths.into_iter().map(read).collect());
    }
    tree
}

pub(super) fn resolve(documents: &[(&str, &str)], there: &[(&str, &[u8])], environment: &str) -> ResolvedEnvironment {
    Workspace::parse(&tree(documents, there)).resolve_environment(Some(environment)).unwrap()
}

#[test]
fn every_fault_of_a_file_is_said_at_its_line_with_a_fix() {
    let text = model(
        "    absolute: {from: /etc/passwd, mountPath: /e/a.yaml}
    above: {from: ../other/engine.yaml, mountPath: /e/b.yaml}
    unclean: {from: engine//decode.yaml, mountPath: /e/c.yaml}
    hidden: {from: .git/config, mountPath: /e/d.yaml}
    own: {from: model.prod.yaml, mountPath: /e/e.yaml}
    missing: {from: engine/missing.yaml, mountPath: /e/f.yaml}
    large: {from: large.bin, mountPath: /e/g.yaml}
    pointer: {from: pointer.bin, mountPath: /e/h.yaml}
    both: {from: engine.yaml, text: 'a: 1', mountPath: /e/i.yaml}
    neither: {mountPath: /e/j.yaml}
    nobody: {text: 'a: 1', mountPath: /e/k.yaml, components: [decodr]}
    twice: {text: 'a: 1', mountPath: /e/i.yaml/deep}
    weights: {text: 'a: 1', mountPath: /opt}
    dots: {text: 'a: 1', mountPath: /e/../m.yaml}
",
    );
    let large = vec![0; (1 << 20) + 1];
    let there: &[(&str, &[u8])] = &[
        ("chat/engine.yaml", b"a: 1"),
        ("chat/large.bin", &large),
        ("chat/pointer.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
    ];
    let resolved = resolve(&[("chat/model.yaml", &text), ("stator.yaml", ROOT)], there, "prod");
    assert_eq!(resolved.broken.len(), 1);
    insta::assert_snapshot!(report(&resolved.findings), @"
    chat/model.yaml:10:22 error model/file: `/etc/passwd` is an absolute path
      help: Write the path from the folder of `model.yaml`.
    chat/model.yaml:11:19 error model/file: `../other/engine.yaml` leads out of the model's folder
      help: Put the file into the model's folder, and write its path from there.
    chat/model.yaml:12:21 error model/file: `engine//decode.yaml` has an empty part, or one that is `.`
      help: Write the names alone: `engine/decode.yaml`.
    chat/model.yaml:13:20 error model/file: `.git/config` leads to a hidden file or folder, and those are not read
      help: Rename it, without the dot.
    chat/model.yaml:14:17 error model/file: `model.prod.yaml` is a file that stator reads as its own
      help: Name the file that the engine is to read.
    chat/model.yaml:15:21 error model/file: `chat/engine/missing.yaml` cannot be read: there is no such file
      help: Correct `from`, which is a path from the folder of `model.yaml`, or commit the file.
    chat/model.yaml:16:19 error model/file: `chat/large.bin` is larger than 1 MiB, the limit of a ConfigMap
      help: Make it smaller, or put it onto the volume of the weights.
    chat/model.yaml:17:21 error model/file: `chat/pointer.bin` cannot be read: it is a Git LFS pointer, and stator does not fetch from LFS
      help: Take it out of LFS: remove its pattern from `.gitattributes` and add the file again.
    chat/model.yaml:18:5 error model/file: file `both` has both `from` and `text`
      help: Keep one of them.
    chat/model.yaml:19:5 error model/file: file `neither` has no content
      help: Add `from`, the path of a file in the model's folder, or `text`.
    chat/model.yaml:20:63 error model/file-mount: the model has no component `decodr`; it has `frontend`, `prefill`, `Decoder`
      help: Did you mean `Decoder`?
    chat/model.yaml:21:38 error model/file-mount: `/e/i.yaml/deep` and the path of file `both` cannot both be mounted into one component
      help: Mount one of them elsewhere, or into other components.
    chat/model.yaml:22:40 error model/file-mount: `/opt` is where the volume of the weights is mounted
      help: Mount the file elsewhere.
    chat/model.yaml:23:37 error model/file-mount: `/e/../m.yaml` has a part that is `.` or begins with `..`
      help: Write the path without it.
    ");
}

#[test]
fn a_secret_in_a_file_is_a_warning_in_that_file_and_one_in_a_text_at_the_text() {
    let text = model(
        "    engine: {from: engine.yaml, mountPath: /e/engine.yaml}
    inline: {text: 'api_key: s3cr3t-Value', mountPath: /e/inline.yaml}
",
    );
    let there: &[(&str, &[u8])] = &[("chat/engine.yaml", b"max_num_tokens: 8192\nserver:\n  api_key: s3cr3t-Value\n")];
    let resolved = resolve(&[("chat/model.yaml", &text), ("stator.yaml", ROOT)], there, "prod");
    insta::assert_snapshot!(report(&resolved.findings), @"
    chat/engine.yaml:3:3 warning model/file-secret: this looks like a secret in plain text in git, and becomes part of a ConfigMap
      help: Put it into a Secret, and give it to the pods as a variable under `env`.
    chat/model.yaml:11:20 warning model/file-secret: this looks like a secret in plain text in git, and becomes part of a ConfigMap
      help: Put it into a Secret, and give it to the pods as a variable under `env`.
    ");
    assert_eq!(resolved.intents.len(), 1);
}

#[test]
fn a_layer_changes_one_file_of_those_below_it() {
    let defaults = "apiVersion: stator.dev/v1alpha1
kind: Defaults
spec:
  files:
    template: {from: chat.jinja, mountPath: /t/chat.jinja}
    engine: {from: engine/default.yaml, mountPath: /e/engine.yaml}
";
    let text = model("    engine: {from: engine/own.yaml}\n");
    let overlay = "apiVersion: stator.dev/v1alpha1
kind: Model
spec:
  files:
    engine: {text: 'a: 3'}
";
    let documents: &[(&str, &str)] = &[
        ("team/chat/model.prod.yaml", overlay),
        ("team/chat/model.yaml", &text),
        ("team/stator.yaml", defaults),
        ("stator.yaml", ROOT),
    ];
    // Whatever any layer names is read: it lies in the folder of the model, wherever it is named.
    let named = named_files(&tree(documents, &[]));
    assert_eq!(
        named.into_iter().map(|(folder, paths)| (folder, paths.into_iter().collect::<Vec<_>>())).collect::<Vec<_>>(),
        [(
            "team/chat".to_owned(),
            ["chat.jinja", "engine/default.yaml", "engine/own.yaml"].map(|path| format!("team/chat/{path}")).to_vec()
        )]
    );
    let there: &[(&str, &[u8])] =
        &[("team/chat/chat.jinja", b"{{ messages }}"), ("team/chat/engine/own.yaml", b"a: 2")];
    let contents = |environment: &str| {
        let resolved = resolve(documents, there, environment);
        assert_eq!(report(&resolved.findings), "");
        let intent = resolved.intents[0].load().unwrap();
        let files = intent.model.spec.files.iter();
        files
            .map(|(name, file)| {
                let read = intent.files.get(name.as_str()).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                format!("{name} at {}: {}", file.mount_path.as_ref().unwrap(), read.or(file.text.clone()).unwrap())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(contents("staging"), ["engine at /e/engine.yaml: a: 2", "template at /t/chat.jinja: {{ messages }}"]);
    assert_eq!(contents("prod"), ["engine at /e/engine.yaml: a: 3", "template at /t/chat.jinja: {{ messages }}"]);
}

/// A file that pods mount may be called nearly as one of stator's.
#[test]
fn a_mounted_file_is_not_taken_for_a_misnamed_model() {
    let text = model("    engine: {from: model_config.yaml, mountPath: /e/engine.yaml}\n");
    let documents = [("chat/model.yaml", text.as_str()), ("chat/model_config.yaml", "a: 1"), ("stator.yaml", ROOT)];
    let resolved = resolve(&documents, &[("chat/model_config.yaml", b"a: 1")], "prod");
    assert_eq!(report(&resolved.findings), "");
    assert_eq!((resolved.intents.len(), resolved.unread), (1, Vec::new()));
}

proptest! {
    /// Whatever is written, nothing is looked for outside the folder of the model, nor among hidden files.
    #[test]
    fn no_path_leads_out_of_the_models_folder(from in "(\\.{0,3}|[a-z]{1,3}|[.a-z]{1,3})(/(\\.{0,3}|[a-z]{1,3}|\\.[a-z]{1,3})){0,4}/?") {
        let text = model(&format!("    engine: {{from: '{from}', mountPath: /e/engine.yaml}}\n"));
        let named = named_files(&tree(&[("team/chat/model.yaml", &text), ("stator.yaml", ROOT)], &[]));
        for path in named.values().flatten() {
            let below = path.strip_prefix("team/chat/").unwrap();
            prop_assert_eq!(below, &from);
            prop_assert!(below.split('/').all(|part| !part.is_empty() && !part.starts_with('.')), "{}", below);
        }
    }
}
