//! `stator import`: from manifests to models, and what is said of what cannot be carried.

use crate::workbench::Workbench;
use insta::assert_snapshot;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

const GRAPH: &str = "\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: chat
  namespace: models
spec:
  components:
  - name: Frontend
    type: frontend
    podTemplate:
      spec:
        containers:
        - name: main
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
          env:
          - {name: DYN_ROUTER_MODE, value: kv}
  - name: VllmDecodeWorker
    type: worker
    replicas: 2
    podTemplate:
      spec:
        imagePullSecrets:
        - name: nvcr
        tolerations:
        - {key: nvidia.com/gpu, operator: Exists}
        containers:
        - name: main
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
          command: [/bin/sh, -c]
          args: ['exec python3 -m dynamo.vllm --model Qwen/Qwen3-32B --tensor-parallel-size 2 --enforce-eager']
          envFrom:
          - secretRef: {name: hf-token-secret}
          resources:
            limits: {nvidia.com/gpu: 2}
          volumeMounts:
          - {name: weights, mountPath: /models}
        volumes:
        - name: weights
          persistentVolumeClaim: {claimName: chat-weights}
";

const CLAIM: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: chat-weights
  namespace: models
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 100Gi}}
";

#[test]
fn a_graph_and_its_claim_become_the_model_that_a_person_would_have_written() {
    let bench = Workbench::with(&[("old/graph.yaml", &format!("{GRAPH}---\n{CLAIM}"))]);
    assert_snapshot!(bench.run(["import", "old", "--out", "new"]), @"
    exit 0
    ----- stdout -----
    new/stator.yaml
    new/chat/model.yaml
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    1 model imported, 1 of them rendering back to their manifests; 0 things not imported.
    ");
    assert_snapshot!(bench.read("new/chat/model.yaml"), @r#"
    # Imported by stator from old/graph.yaml, document 1.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata:
      name: chat
    spec:
      model: Qwen/Qwen3-32B
      engine: vllm
      backendFramework: detected
      runtime: "1.2.0"
      hardware: {tolerations: [{key: nvidia.com/gpu, operator: Exists}]}
      serving:
        frontend:
          name: Frontend
          router: kv
          secrets: {}
        worker:
          name: VllmDecodeWorker
          replicas: 2
          tensorParallel: 2
          shell: /bin/sh
          args: [exec python3 -m dynamo.vllm <--model> <--tensor-parallel-size> --enforce-eager]
      cache:
        claim: chat-weights
        size: 100Gi
        accessMode: ReadWriteOnce
        mountPath: /models
        volume: weights
        hfHome: false
      secrets: {huggingFace: hf-token-secret, imagePull: [nvcr]}
    "#);
    assert_snapshot!(bench.read("new/stator.yaml"), @r#"
    apiVersion: stator.dev/v1alpha1
    kind: Repository
    metadata:
      name: imported
    spec:
      environments:
        default:
          namespace: models
    "#);
    assert_snapshot!(bench.run(["validate", "new"]), @"
    exit 0
    ----- stdout -----
    All checks passed (1 model).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
}

#[test]
fn what_is_written_already_is_left_alone() {
    let bench = Workbench::with(&[("graph.yaml", GRAPH)]);
    bench.run(["import", "graph.yaml", "--out", "new"]).success();
    bench.replace("new/chat/model.yaml", "replicas: 2", "replicas: 3");
    assert_snapshot!(bench.run(["import", "graph.yaml", "--out", "new"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    error: new/chat/model.yaml exists and has other content
    hint: pass --force to overwrite it, or choose another folder with --out
    Nothing was written.
    ");
    assert!(bench.read("new/chat/model.yaml").contains("replicas: 3"));
    bench.run(["import", "graph.yaml", "--out", "new", "--force"]).success();
    assert!(bench.read("new/chat/model.yaml").contains("replicas: 2"));
}

#[test]
fn each_kind_of_bad_input_is_told_apart_and_the_rest_is_imported() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n";
    let future = "apiVersion: nvidia.com/v9\nkind: DynamoGraphDeployment\nmetadata: {name: later}\nspec: {}\n";
    let unknown = "apiVersion: nvidia.com/v1beta1\nkind: DynamoTeapot\nmetadata: {name: short}\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-x}\n";
    let other = GRAPH.replace("replicas: 2", "replicas: 5");
    let truncated = "apiVersion: v1\nkind: \"Conf";
    let all = [pod, future, unknown, template, GRAPH, &other, "just text\n", truncated].join("---\n");
    let bench = Workbench::with(&[("all.yaml", &all)]);
    assert_snapshot!(bench.run(["import", "all.yaml", "missing.yaml", "--out", "new"]), @"
    exit 2
    ----- stdout -----
    new/stator.yaml
    new/chat/model.yaml
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    all.yaml:1:1: error[import/not-carried] document 1: Pod `web` is not imported: a model cannot contain a Pod (keep it where it is applied today, or in a folder that another tool applies)
    all.yaml:5:1: error[import/unknown-kind] document 2: unknown version `nvidia.com/v9` of DynamoGraphDeployment (known: `nvidia.com/v1beta1` and `nvidia.com/v1alpha1`)
    all.yaml:10:1: error[import/unknown-kind] document 3: unknown kind DynamoTeapot of version `nvidia.com/v1beta1` (kinds that can be imported: DynamoGraphDeployment, DynamoGraphDeploymentRequest and DynamoModel)
    all.yaml:16:1: error[import/template] document 4 is a template, with `{{ … }}` that Helm fills in (run `helm template` and import what it prints)
    all.yaml:58:1: error[import/twice] document 6: DynamoGraphDeployment `chat` is defined twice with different content; the one in all.yaml:18 is imported (import them one at a time, each into its own folder)
    all.yaml:98:1: error[import/not-an-object] document 7 is not a Kubernetes object: it is a string, not a map (pass manifest files, such as `kubectl get dynamographdeployment NAME -o yaml` prints)
    all.yaml:101:7: error[import/unreadable] document 8 cannot be read: unclosed quote at line 3, column 7 (correct the document; the others of the file are imported)
    1 model imported, 1 of them rendering back to their manifests; 7 things not imported.
    error: failed to open file `missing.yaml`: No such file or directory (os error 2)
    ");
    bench.run(["validate", "new"]).success();
}

#[test]
fn files_that_nothing_can_be_read_of_are_an_error() {
    let bench = Workbench::with(&[("half.yaml", "apiVersion: \"v1"), ("chart.yaml", "a: {{ .x }}\n")]);
    assert_snapshot!(bench.run(["import", "half.yaml", "chart.yaml"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    chart.yaml:1:1: error[import/template] document 1 is a template, with `{{ … }}` that Helm fills in (run `helm template` and import what it prints)
    half.yaml:1:13: error[import/unreadable] document 1 cannot be read: unclosed quote at line 1, column 13 (correct the document; the others of the file are imported)
    0 models imported, 0 of them rendering back to their manifests; 2 things not imported.
    ");
    assert_snapshot!(bench.run(["import"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <FILE>...

    Usage: stator import --cluster <CLUSTER> <FILE>...

    For more information, try '--help'.
    ");
}

#[test]
fn many_documents_a_list_and_json_are_read_alike() {
    let many: Vec<String> = (0..50).map(|n| GRAPH.replace("name: chat\n", &format!("name: chat-{n}\n"))).collect();
    let bench = Workbench::with(&[("many.yaml", &many.join("---\n"))]);
    bench.run(["import", "many.yaml", "--out", "new"]).success();
    assert_eq!(bench.files("new").iter().filter(|path| path.ends_with("model.yaml")).count(), 50);
    let object: serde_json::Value = serde_saphyr::from_str(GRAPH).unwrap();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [object]});
    bench.write("list.json", list.to_string());
    bench.run(["import", "list.json", "--out", "listed"]).success();
    let body = |text: String| text.lines().skip(1).collect::<Vec<_>>().join("\n");
    bench.write("one.yaml", GRAPH);
    bench.run(["import", "one.yaml", "--out", "single"]).success();
    assert_eq!(body(bench.read("listed/chat/model.yaml")), body(bench.read("single/chat/model.yaml")));
}

#[test]
fn standard_input_is_read_like_a_file() {
    let bench = Workbench::empty();
    let mut command = bench.command();
    command.args(["import", "-", "--out", "new"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text = format!("{GRAPH}---\nkind: [\n---\n{CLAIM}");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    stdin:41:7: error[import/unreadable] document 2 cannot be read: unclosed bracket '[' at line 2, column 7 (correct the document; the others of the file are imported)
    1 model imported, 1 of them rendering back to their manifests; 1 thing not imported.
    ");
    let model = bench.read("new/chat/model.yaml");
    assert!(model.starts_with("# Imported by stator from stdin, document 1.\n"), "{model}");
    assert!(model.contains("size: 100Gi"), "{model}");
}

#[test]
fn a_file_of_ten_megabytes_is_imported_but_for_what_is_broken_in_it() {
    let padding = format!("# {}\n", "-".repeat(500_000));
    let graph = |n: usize| format!("---\n{padding}{}", GRAPH.replace("name: chat\n", &format!("name: chat-{n}\n")));
    let mut text: String = (0..20).map(graph).collect();
    text += "---\n{{ .Values.more }}\n---\napiVersion: v1\nkind: \"Conf";
    assert!(text.len() > 10_000_000);
    let bench = Workbench::with(&[("large.yaml", &text), ("binary.yaml", "")]);
    bench.write("binary.yaml", [b'k', 0xff, 0xfe, 0, b'\n']);
    let output = bench.run(["import", "large.yaml", "binary.yaml", "--out", "new"]).exits(1);
    assert_eq!(bench.files("new").iter().filter(|path| path.ends_with("model.yaml")).count(), 20);
    assert_snapshot!(output.stderr, @"
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    binary.yaml:1:1: error[import/unreadable] the file is not UTF-8 text (save it as UTF-8, or name another file)
    large.yaml:822:1: error[import/template] document 21 is a template, with `{{ … }}` that Helm fills in (run `helm template` and import what it prints)
    large.yaml:825:7: error[import/unreadable] document 22 cannot be read: unclosed quote at line 3, column 7 (correct the document; the others of the file are imported)
    20 models imported, 20 of them rendering back to their manifests; 3 things not imported.
    ");
}

#[test]
fn graphs_of_one_name_in_two_namespaces_become_one_model_of_two_environments() {
    let other = GRAPH.replace("namespace: models", "namespace: other").replace("replicas: 2", "replicas: 7");
    let bench = Workbench::with(&[("both.yaml", &format!("{GRAPH}---\n{other}"))]);
    assert_snapshot!(bench.run(["import", "both.yaml", "--out", "new", "--force"]), @"
    exit 0
    ----- stdout -----
    new/stator.yaml
    new/chat/model.yaml
    new/chat/model.models.yaml
    new/chat/model.other.yaml
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    2 models imported, 2 of them rendering back to their manifests; 0 things not imported.
    ");
    let shared = bench.read("new/chat/model.yaml");
    assert!(shared.contains("model: Qwen/Qwen3-32B") && !shared.contains("replicas"), "{shared}");
    let graph = |environment: &str| {
        let rendered = bench.run(["render", "new", "-e", environment]).success().result();
        (rendered.contains(&format!("namespace: {environment}")), rendered.contains("replicas: 7"))
    };
    assert_eq!((graph("models"), graph("other")), ((true, false), (true, true)));
    // One namespace has one of them, and so no variants.
    bench.run(["import", "both.yaml", "-n", "other", "--out", "second"]).success();
    assert!(bench.read("second/chat/model.yaml").contains("replicas: 7"));
}

/// The files below a folder of upstream's recipes.
fn recipe_files(folder: &Path, found: &mut Vec<(String, String)>, root: &Path) {
    for entry in fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            recipe_files(&entry, found, root);
        } else if entry.extension().is_some_and(|extension| extension == "yaml") {
            let path = entry.strip_prefix(root).unwrap().display().to_string();
            found.push((path, fs_err::read_to_string(&entry).unwrap()));
        }
    }
}

#[test]
fn a_models_folder_becomes_layers_variants_and_files_that_mean_what_the_manifests_do() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo/recipes");
    let mut files = Vec::new();
    recipe_files(&root.join("qwen3-235b-a22b-fp8"), &mut files, &root);
    let texts: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let bench = Workbench::with(&texts);
    let import = ["import", "qwen3-235b-a22b-fp8", "--dynamo", "1.2", "--out", "new"];
    let first = bench.run(import).success();
    assert_snapshot!(first.result(), @"
    new/stator.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/model.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/model.yaml
    new/qwen3-235b-a22b-fp8/stator.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/model.blackwell.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/blackwell/agg.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/model.hopper.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/hopper/agg.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/model.blackwell.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/blackwell/prefill.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/blackwell/decode.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/model.hopper.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/hopper/prefill.yaml
    new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/hopper/decode.yaml
    ");
    assert!(first.notes().contains("4 models imported, 4 of them rendering back"), "{}", first.notes());
    assert_snapshot!(bench.read("new/stator.yaml"), @"
    apiVersion: stator.dev/v1alpha1
    kind: Repository
    metadata:
      name: imported
    spec:
      environments:
        blackwell:
          namespace: default
          include: [qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/**, qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/**]
        hopper:
          namespace: default
          include: [qwen3-235b-a22b-fp8/qwen3-235b-a22b-agg/**, qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/**]
    ");
    assert_snapshot!(bench.read("new/qwen3-235b-a22b-fp8/qwen3-235b-a22b-disagg/model.hopper.yaml"), @"
    # Imported by stator from qwen3-235b-a22b-fp8/trtllm/disagg/hopper/deploy.yaml, document 3.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    spec:
      serving:
        prefill: {}
        decode: {}
      files: {decode: {from: hopper/decode.yaml}, prefill: {from: hopper/prefill.yaml}}
    ");
    let again = bench.run(import).success();
    assert!(again.result().is_empty() && again.notes().contains("-agg/model.yaml is up to date."), "{}", again.notes());
    for environment in ["blackwell", "hopper"] {
        let live = format!("embedded:live-{environment}");
        let to = ["-e", environment, "--dynamo", "1.2", "--cluster", live.as_str(), "new"];
        let sync = || bench.run(["sync", "--yes"].iter().chain(&to)).success().result();
        assert!(!sync().contains(" 0 writes") && sync().contains(" 0 writes"));
        // Weights come first: the graphs are all that is left.
        let plan = bench.run(["plan", "-o", "json"].iter().chain(&to)).json();
        assert_eq!((&plan["summary"]["create"], &plan["summary"]["update"]), (&2.into(), &0.into()), "{plan:#}");
        let own =
            bench.files(&format!("live-{environment}")).into_iter().filter(|file| file.contains("-config-")).count();
        assert_eq!(own, 3, "a ConfigMap of each file");
    }
}

#[test]
fn layers_never_change_models_that_are_there() {
    let second = GRAPH.replace("name: chat\n", "name: chat-two\n").replace("replicas: 2", "replicas: 3");
    let third = GRAPH.replace("name: chat\n", "name: chat-three\n");
    let bench = Workbench::with(&[("a/one.yaml", GRAPH), ("a/two.yaml", &second), ("three.yaml", &third)]);
    bench.run(["import", "a", "--out", "new"]).success();
    assert!(bench.read("new/qwen3-32b/stator.yaml").contains("model: Qwen/Qwen3-32B"));
    let mine = bench.read("new/qwen3-32b/chat/model.yaml");
    bench.write("a/two.yaml", third);
    assert_snapshot!(bench.run(["import", "a", "--out", "new", "--force"]), @"
    exit 1
    ----- stdout -----
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    error: new/qwen3-32b/stator.yaml would change new/qwen3-32b/chat-two/model.yaml, which is not of this import
    hint: import all of the folder's models together, or choose another folder with --out
    Nothing was written.
    ");
    assert_eq!(bench.read("new/qwen3-32b/chat/model.yaml"), mine);
}

#[test]
fn replicas_that_an_adapter_decides_are_left_to_it_and_those_of_another_manager_are_told() {
    let bench = Workbench::empty();
    let mut graph: serde_json::Value = serde_saphyr::from_str(GRAPH).unwrap();
    let components = graph["spec"]["components"].as_array_mut().unwrap();
    components[1]["scalingAdapter"] = serde_json::json!({});
    components[1]["replicas"] = 6.into();
    components[0]["replicas"] = 3.into();
    bench.write("graph.yaml", graph.to_string());
    bench.run(["import", "graph.yaml", "--out", "first"]).success();
    bench.run(["sync", "first", "--cluster", "embedded:live", "--yes"]).success();
    for file in bench.files("live").into_iter().filter(|file| file.ends_with(".yaml")) {
        let mut object: serde_json::Value = serde_saphyr::from_str(&bench.read(&file)).unwrap();
        if object["kind"] == "Model" {
            bench.remove(&file);
            continue;
        }
        object["metadata"].as_object_mut().unwrap().remove("labels");
        object["spec"]["components"][1]["replicas"] = 6.into();
        let name = "k:{\"name\":\"Frontend\"}";
        object["metadata"]["managedFields"] = serde_json::json!([
            {"manager": "kubectl", "operation": "Apply", "apiVersion": "nvidia.com/v1beta1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:components": {name: {".": {}, "f:name": {}, "f:podTemplate": {}}}}}},
            {"manager": "night-shift", "operation": "Update", "apiVersion": "nvidia.com/v1beta1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:components": {name: {"f:replicas": {}}}}}},
        ]);
        bench.write(&file, object.to_string());
    }
    let from_cluster = ["import", "--from-cluster", "--cluster", "embedded:live", "-n", "models", "--out", "second"];
    assert_snapshot!(bench.run(from_cluster), @r#"
    exit 0
    ----- stdout -----
    second/stator.yaml
    second/chat/model.yaml
    ----- stderr -----
    Using the embedded cluster in live.
    The replicas of `Frontend` of chat are set by night-shift, not by the writer of its other fields: the model keeps the current number, and to change it in git later, list the manager in `spec.takeOver`.
    1 model imported, 1 of them rendering back to their manifests; 0 things not imported.
    "#);
    let model = bench.read("second/chat/model.yaml");
    assert!(model.contains("scaling: external") && !model.contains("replicas: 6"), "{model}");
    assert!(model.contains("replicas: 3"), "{model}");
    let plan = bench.run(["plan", "second", "--cluster", "embedded:live", "--allow", "adopt"]).success();
    assert!(!plan.stdout.contains("replicas"), "{plan}");
    bench.run(["sync", "second", "--cluster", "embedded:live", "--allow", "adopt", "--yes"]).success();
    let live = bench
        .files("live")
        .into_iter()
        .map(|file| bench.read(&file))
        .find(|text| text.contains("kind: DynamoGraphDeployment"));
    assert!(live.unwrap().contains("replicas: 6"), "the adapter's count stays");
}

#[test]
fn a_graph_of_the_cluster_is_adopted_without_a_change() {
    let bench = Workbench::with(&[("graph.yaml", GRAPH)]);
    bench.run(["import", "graph.yaml", "--out", "first"]).success();
    // Somebody else applied it: the same object, under another manager and without stator's labels.
    bench.run(["sync", "first", "--cluster", "embedded:live", "--yes"]).success();
    let files = bench.files("live");
    for file in files.iter().filter(|file| file.ends_with(".yaml")) {
        let text = bench.read(file);
        if text.contains("kind: Model\n") {
            bench.remove(file);
        } else {
            let mut object: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.remove("labels");
            metadata.remove("managedFields");
            bench.write(file, object.to_string());
        }
    }
    assert_snapshot!(
        bench.run(["import", "--from-cluster", "--cluster", "embedded:live", "-n", "models", "--out", "second"]),
        @r#"
    exit 0
    ----- stdout -----
    second/stator.yaml
    second/chat/model.yaml
    ----- stderr -----
    Using the embedded cluster in live.
    1 model imported, 1 of them rendering back to their manifests; 0 things not imported.
    "#
    );
    // What needs an approval is shown as what it would be, with what approves it.
    assert_snapshot!(bench.run(["plan", "second", "--cluster", "embedded:live"]), @"
    exit 0
    ----- stdout -----
    imported / default against live

    chat  chat/model.yaml
      <= adopt DynamoGraphDeployment models/chat   held   GPUs 4
          + metadata.labels   {6 fields}
          · already exists and is not managed by stator or another tool: allow its adoption, or give the model another name
          · held back: `--allow adopt` takes it over

    held back[adopt]: already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment models/chat
      = help: allow it with --allow adopt, or give the model another name

    Plan: 0 to create, 0 to change, 0 to delete, 1 held, 0 unchanged.
    GPUs: 4 of unknown SKU

    Next:
    stator sync second -e default --cluster embedded:live --allow adopt
    ----- stderr -----
    Using the embedded cluster in live.
    ");
    let held = bench.run(["sync", "second", "--cluster", "embedded:live", "--yes"]).exits(1);
    assert!(held.stderr.contains("held back[adopt]"), "{held}");
    // The held sync has not made the graph stator's: it is held as before.
    let plan = bench.run(["plan", "second", "--cluster", "embedded:live", "-o", "json"]).json();
    let change = &plan["changes"][0];
    assert_eq!((change["action"].as_str(), change["heldBy"].as_str()), (Some("adopt"), Some("adopt")), "{plan:#}");
    assert_snapshot!(bench.run(["plan", "second", "--cluster", "embedded:live", "--allow", "adopt"]), @"
    exit 0
    ----- stdout -----
    imported / default against live

    chat  chat/model.yaml
      <= adopt DynamoGraphDeployment models/chat   GPUs 4
          + metadata.labels   {6 fields}
          · already exists and is not managed by stator or another tool: taken over, as allowed

    Plan: 0 to create, 0 to change, 1 to adopt, 0 to delete, 0 unchanged.
    GPUs: 4 of unknown SKU

    Next:
    stator sync second -e default --cluster embedded:live --allow adopt
    ----- stderr -----
    Using the embedded cluster in live.
    ");
}

#[test]
fn the_first_operators_kinds_become_models_as_far_as_they_go() {
    let deployment = "\
apiVersion: nvidia.com/v1alpha1
kind: DynamoDeployment
metadata: {name: disagg}
spec:
  dynamoNim: frontend:jh2o6dqzpsgfued4
  envs:
  - {name: GLOBAL, value: everywhere}
  services:
    Frontend: {replicas: 1, envs: [{name: HERE, value: only}]}
    Processor: {replicas: 1}
    VllmWorker: {replicas: 2}
";
    let component = "\
apiVersion: nvidia.com/v1alpha1
kind: DynamoNimDeployment
metadata: {name: search-41fa991-vllmworker}
spec:
  dynamoNamespace: search
  dynamoNim: frontend--jh2o6dqzpsgfued4
  serviceName: VllmWorker
  replicas: 3
  resources: {limits: {gpu: '1'}}
";
    let request = "\
apiVersion: nvidia.com/v1alpha1
kind: DynamoNimRequest
metadata: {name: frontend--jh2o6dqzpsgfued4}
spec: {bentoTag: 'frontend:jh2o6dqzpsgfued4'}
";
    let broken =
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoDeployment\nmetadata: {name: broken}\nspec: {services: 3}\n";
    let bench = Workbench::with(&[("old.yaml", &[deployment, component, request, broken, GRAPH].join("---\n"))]);
    assert_snapshot!(bench.run(["import", "old.yaml", "--out", "new"]), @"
    exit 1
    ----- stdout -----
    new/stator.yaml
    new/chat/model.yaml
    new/disagg/model.yaml
    new/search/model.yaml
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    old.yaml:1:1: error[import/no-model] document 1: the model is invalid (model.yaml:6): neither `runtime` nor `image` is set, and not every component has its own image (Add `runtime: 1.2.0` for NVIDIA's images of that version, or `image` for your own.)
    old.yaml:1:1: warning[import/note] document 1: no Dynamo engine was recognised on the command lines (see the comment in the model, and correct it)
    old.yaml:1:1: warning[import/note] document 1: no model was found in the manifest; nothing is rendered from this (see the comment in the model, and correct it)
    old.yaml:5:3: error[import/not-carried] document 1: DynamoDeployment `disagg`: `spec.dynamoNim` is not imported: a bundle of the build service, which no longer exists: the image and the command of each component must be given (handle it by hand: the model is written without it)
    old.yaml:10:5: error[import/not-carried] document 1: DynamoDeployment `disagg`: `spec.services.Processor` is not imported: the frontend does what the processor did (handle it by hand: the model is written without it)
    old.yaml:13:1: error[import/no-model] document 2: the model is invalid (model.yaml:6): neither `runtime` nor `image` is set, and not every component has its own image (Add `runtime: 1.2.0` for NVIDIA's images of that version, or `image` for your own.)
    old.yaml:13:1: warning[import/note] document 2: no Dynamo engine was recognised on the command lines (see the comment in the model, and correct it)
    old.yaml:13:1: warning[import/note] document 2: no model was found in the manifest; nothing is rendered from this (see the comment in the model, and correct it)
    old.yaml:17:3: warning[import/note] document 2: DynamoNimDeployment `search-41fa991-vllmworker`: `spec.dynamoNamespace` is not imported: the Dynamo namespace follows from the graph's namespace and name today (handle it by hand: the model is written without it)
    old.yaml:18:3: error[import/not-carried] document 2: DynamoNimDeployment `search-41fa991-vllmworker`: `spec.dynamoNim` is not imported: a bundle of the build service, which no longer exists: the image and the command of each component must be given (handle it by hand: the model is written without it)
    old.yaml:23:1: error[import/not-carried] document 3: DynamoNimRequest `frontend--jh2o6dqzpsgfued4` is not imported: it asked for an image to be built, which no operator supports any more: build the image in CI and set its name (handle it by hand: the model is written without it)
    old.yaml:31:8: error[import/not-an-object] document 4: DynamoDeployment `broken`: `spec.services`: expected map, found a number (correct the manifest: no API server accepts it)
    3 models imported, 1 of them rendering back to their manifests; 7 things not imported.
    ");
    assert_snapshot!(bench.read("new/disagg/model.yaml"), @"
    # Imported by stator from old.yaml, document 1.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata:
      name: disagg
    spec:
      # no model was found in the manifest; nothing is rendered from this
      model: disagg
      # no Dynamo engine was recognised on the command lines
      engine: custom
      serving:
        frontend:
          name: Frontend
          env: {GLOBAL: everywhere, HERE: only}
        worker:
          name: VllmWorker
          replicas: 2
          gpus: 0
          command: []
          env: {GLOBAL: everywhere}
    ");
    assert_snapshot!(bench.read("new/search/model.yaml"), @r#"
    # Imported by stator from old.yaml, document 2.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata:
      name: search
    spec:
      # no model was found in the manifest; nothing is rendered from this
      model: search
      # no Dynamo engine was recognised on the command lines
      engine: custom
      serving:
        worker:
          name: VllmWorker
          replicas: 3
          command: []
        headless: true
    "#);
    // What was left is what the models lack: with an image they are whole.
    for model in ["disagg", "search"] {
        let path = format!("new/{model}/model.yaml");
        bench.replace(&path, "  engine: custom\n", "  engine: vllm\n  runtime: 1.2.0\n");
    }
    assert_snapshot!(bench.run(["validate", "new"]), @"
    exit 0
    ----- stdout -----
    All checks passed (3 models).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
}

#[test]
fn a_request_of_the_first_version_becomes_a_model_too() {
    let request = "\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentRequest
metadata: {name: profile}
spec:
  model: Qwen/Qwen3-32B
  backend: vllm
  autoApply: true
  profilingConfig:
    profilerImage: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
    config:
      sla: {isl: 3000, osl: 150, ttft: 200, itl: 20}
      hardware: {numGpusPerNode: 8, gpuModel: h200_sxm}
  enableGpuDiscovery: true
";
    let bench = Workbench::with(&[("request.yaml", request)]);
    assert_snapshot!(bench.run(["import", "request.yaml", "--out", "new"]), @"
    exit 1
    ----- stdout -----
    new/profile/model.yaml
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    request.yaml:12:7: error[import/not-carried] document 1: DynamoGraphDeploymentRequest `profile`: `spec.profilingConfig.config.hardware` is not imported: v1beta1 has separate fields for the profiler's settings, but none for this one (v1beta1 has no field for it: write it in another way, or leave it out with --lossy)
    request.yaml:13:3: error[import/not-carried] document 1: DynamoGraphDeploymentRequest `profile`: `spec.enableGpuDiscovery` is not imported: deprecated; the operator discovers GPUs where it may, set `hardware` where it may not (v1beta1 has no field for it: write it in another way, or leave it out with --lossy)
    1 model imported, 0 of them rendering back to their manifests; 2 things not imported.
    ");
    assert_snapshot!(bench.read("new/profile/model.yaml"), @"
    # Imported by stator from request.yaml, document 1.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata:
      name: profile
    spec:
      model: Qwen/Qwen3-32B
      engine: vllm
      image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
      sla: {ttft: 200ms, itl: 20ms, workload: {isl: 3000, osl: 150}, autoApply: true}
    ");
    assert_snapshot!(bench.run(["validate", "new"]), @"
    exit 0
    ----- stdout -----
    All checks passed (1 model).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
}

/// Row A6 of the review: a placeholder was copied into `stator.yaml`, and the folder did not validate.
#[test]
fn a_placeholder_for_a_namespace_is_left_out_and_the_folder_validates() {
    let templated = GRAPH.replace("namespace: models", "namespace: <your-namespace>");
    assert_ne!(templated, GRAPH);
    let bench = Workbench::with(&[("graph.yaml", &templated)]);
    assert_snapshot!(bench.run(["import", "graph.yaml", "--out", "models"]), @"
    exit 0
    ----- stdout -----
    models/chat/model.yaml
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    graph.yaml:5:3: warning[import/placeholder] document 1: namespace `<your-namespace>` is a placeholder, and is left out (name the namespace with `-n NAMESPACE`, or in the environment of stator.yaml)
    1 model imported, 1 of them rendering back to their manifests; 0 things not imported.
    ");
    bench.run(["validate", "models"]).success();
    bench.run(["render", "models"]).success();
}
