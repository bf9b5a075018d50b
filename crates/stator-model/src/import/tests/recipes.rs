//! Recipes: a graph with what is applied beside it.

use super::rendered;
use crate::import::{ImportOptions, ImportResult, ImportedModel, ManifestFile, import, rules};
use serde_json::{Value, json};
use stator_core::dynamo::kinds;
use stator_core::dynamo::release::Release;
use stator_core::finding::Finding;
use std::path::Path;

fn import_all(documents: &[Value]) -> ImportResult {
    let text: Vec<String> = documents.iter().map(ToString::to_string).collect();
    import(
        &[ManifestFile { file: "recipe.yaml".into(), content: text.join("\n---\n").into() }],
        ImportOptions::default(),
    )
}

fn messages(import: &ImportResult) -> Vec<String> {
    import.findings.iter().map(|finding: &Finding| format!("{}: {}", finding.rule.id, finding.message)).collect()
}

/// A graph of one worker that mounts these volumes.
fn graph(name: &str, volumes: &[Value]) -> Value {
    let mounts: Vec<Value> = volumes
        .iter()
        .map(
            |volume| json!({"name": volume["name"], "mountPath": format!("/mnt/{}", volume["name"].as_str().unwrap())}),
        )
        .collect();
    let main = json!({"name": "main", "image": "a/b:1.2.0", "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", "m/n"], "volumeMounts": mounts});
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": name, "labels": {"team": "chat"}},
        "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [{"name": "main", "image": "a/b:1.2.0"}]}}},
            {"name": "Worker", "type": "worker", "podTemplate": {"spec": {"containers": [main], "volumes": volumes}}}]}})
}

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "nfs"}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"agg.yaml": "backend: pytorch\nx: [1,\n 2]\n"}})
}

#[test]
fn a_config_map_that_a_graph_mounts_is_the_models() {
    let volume = json!({"name": "config", "configMap": {"name": "llm-config"}});
    let import = import_all(&[config_map("llm-config"), graph("chat", &[volume])]);
    assert_eq!(
        messages(&import),
        [
            "import/note: document 2: ConfigMap `llm-config` becomes files, and its name gets a digest of them: a graph that runs \
             with it restarts once"
        ]
    );
    let [model] = import.models.as_slice() else { panic!("{:#?}", import.models) };
    let [file] = model.files.as_slice() else { panic!("{:#?}", model.files) };
    assert_eq!((file.path.as_str(), file.text.as_str()), ("agg.yaml", "backend: pytorch\nx: [1,\n 2]\n"));
    assert!(model.text.contains("files: {agg: {from: agg.yaml, configMap: llm-config}}"), "{}", model.text);
    let objects = rendered(model, Release::V1_2);
    let map = objects.iter().find(|object| object.kind() == "ConfigMap").unwrap();
    assert_eq!(map.value()["data"], config_map("llm-config")["data"]);
    let graph = objects.iter().find(|object| object.kind() == "DynamoGraphDeployment").unwrap().value().to_string();
    assert!(map.name().starts_with("llm-config-") && graph.contains(map.name()), "{graph}");
}

#[test]
fn a_config_map_of_a_graph_that_runs_keeps_its_name() {
    let volume = json!({"name": "config", "configMap": {"name": "llm-config"}});
    let documents = [config_map("llm-config"), graph("chat", &[volume])].map(|one| one.to_string()).join("\n---\n");
    let files = [ManifestFile { file: "cluster".into(), content: documents.into() }];
    let import = import(&files, ImportOptions { is_running: true, ..ImportOptions::default() });
    assert_eq!(messages(&import), Vec::<String>::new());
    let objects = rendered(&import.models[0], Release::V1_2);
    assert!(objects.iter().any(|object| object.kind() == "ConfigMap" && object.name() == "llm-config"));
}

#[test]
fn a_claim_beside_the_cache_is_the_models_and_the_cache_stays_one() {
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let import =
        import_all(&[claim("compiled"), claim("weights"), graph("chat", &[volume("weights"), volume("compiled")])]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &whole_text(&import.models[0]);
    assert!(import.models[0].round_trips && text.contains("claim: weights"), "{text}");
    assert!(text.contains("size: 1Gi") && text.contains("kind: PersistentVolumeClaim"), "{text}");
}

#[test]
fn what_several_graphs_use_is_the_firsts_by_name_and_what_none_names_too() {
    let volume = json!({"name": "config", "configMap": {"name": "shared"}});
    let volumes = [volume];
    let both = [graph("b", &volumes), graph("a", &volumes), config_map("shared"), claim("perf")];
    let import = import_all(&both);
    assert_eq!(
        messages(&import),
        [
            "import/note: document 2: ConfigMap `shared` is kept with this model, and used by `b` too",
            "import/note: document 2: PersistentVolumeClaim `perf` is kept with this model: none of the graphs names it",
        ]
    );
    let texts: Vec<String> = import.models.iter().map(whole_text).collect();
    assert!(texts[0].contains("name: shared") && !texts[1].contains("kind: ConfigMap"));
}

#[test]
fn an_object_that_no_cluster_takes_is_left_behind_with_the_reason() {
    let mut broken = config_map("broken");
    broken["data"] = json!({"a": 1});
    let import = import_all(&[broken, graph("chat", &[])]);
    assert_eq!(import.models.len(), 1);
    assert!(import.models[0].round_trips, "{:?}", messages(&import));
    let [message] = messages(&import).try_into().unwrap();
    assert!(message.starts_with("import/not-carried: document 1: ConfigMap `broken` is not imported: "), "{message}");
}

/// All that is written of a model.
fn whole_text(model: &ImportedModel) -> String {
    model.files.iter().fold(model.text.clone(), |text, file| text + &file.text)
}

const COMMIT: &str = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a";

/// A Job as upstream's recipes have it, that runs a line.
fn job(name: &str, line: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "backoffLimit": 3, "completions": 1, "parallelism": 1, "template": {"metadata": {"labels": {"app": name}}, "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "d", "image": "python:3.10-slim", "command": ["sh", "-c"],
                "envFrom": [{"secretRef": {"name": "hf-token-secret"}}],
                "env": [{"name": "MODEL_NAME", "value": "m/n"}, {"name": "REVISION", "value": COMMIT},
                    {"name": "HF_HOME", "value": "/model-store"}, {"name": "HF_XET_HIGH_PERFORMANCE", "value": "1"}],
                "args": [format!("set -eux\npip install --no-cache-dir huggingface_hub==1.11.0 2>&1 >/dev/null\n{line}\n")],
                "volumeMounts": [{"name": "cache", "mountPath": "/model-store"}]}],
            "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "model-cache"}}]}}}})
}

/// A graph whose workers have a claim at the place of Hugging Face's cache.
fn served_from(name: &str, claim: &str) -> Value {
    let mut graph = graph(name, &[json!({"name": "models", "persistentVolumeClaim": {"claimName": claim}})]);
    let main = &mut graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0];
    main["env"] = json!([{"name": "HF_HOME", "value": "/mnt/models"}]);
    graph
}

/// A model's `spec.weights`, as its text has them.
fn weights_of(text: &str) -> Value {
    let model: crate::intent::model::Model = serde_saphyr::from_str(text).unwrap();
    json!(model.spec.weights)
}

const LINE: &str = "hf download $MODEL_NAME --revision ${REVISION} --exclude \"original/*\" --exclude \"metal/*\"";

#[test]
fn a_job_that_downloads_to_the_claim_of_the_workers_is_the_models_weights() {
    let import = import_all(&[claim("model-cache"), job("model-download", LINE), served_from("chat", "model-cache")]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &import.models[0].text;
    assert!(import.models[0].round_trips, "{text}");
    assert_eq!(
        weights_of(text),
        json!({"source": format!("hf://m/n@{COMMIT}"), "claim": {"name": "model-cache", "size": "1Gi", "storageClass": "nfs"},
            "mountPath": "/mnt/models", "volume": "models", "load": "model", "exclude": ["original/*", "metal/*"],
            "tokenSecret": "hf-token-secret"})
    );
    // Claim, download, graph: the order that a person had to keep by hand.
    let kinds: Vec<String> =
        rendered(&import.models[0], Release::V1_2).iter().map(|object| object.kind().to_owned()).collect();
    assert_eq!(kinds, ["PersistentVolumeClaim", "Job", "DynamoGraphDeployment"]);
}

#[test]
fn a_download_of_whatever_is_newest_says_so() {
    let import = import_all(&[job("model-download", "hf download $MODEL_NAME"), served_from("chat", "model-cache")]);
    assert_eq!(weights_of(&import.models[0].text)["source"], "hf://m/n@main");
    let [message] = messages(&import).try_into().unwrap();
    assert!(message.contains("`main` may move"), "{message}");
}

#[test]
fn what_else_the_job_says_is_said_of_the_job() {
    let mut job = job("model-download", LINE);
    let spec = &mut job["spec"];
    (spec["activeDeadlineSeconds"], spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) =
        (json!(7200), json!(9), json!(60));
    let pod = &mut spec["template"]["spec"];
    pod["tolerations"] = json!([{"operator": "Exists"}]);
    pod["containers"][0]["resources"] = json!({"requests": {"memory": "8Gi"}});
    pod["containers"][0]["image"] = json!("registry.example.com/hf:1.2");
    pod["containers"][0]["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "HTTPS_PROXY", "value": "http://proxy:3128"}));
    let import = import_all(&[job, served_from("chat", "model-cache")]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &import.models[0].text;
    let weights = weights_of(text);
    assert_eq!(
        (&weights["image"], &weights["deadline"], &weights["env"]),
        (&json!("registry.example.com/hf:1.2"), &json!("120m"), &json!({"HTTPS_PROXY": "http://proxy:3128"}))
    );
    let objects = rendered(&import.models[0], Release::V1_2);
    let job = objects.iter().find(|object| object.kind() == "Job").unwrap().spec().clone();
    assert_eq!((&job["backoffLimit"], &job["activeDeadlineSeconds"]), (&json!(9), &json!(7200)));
    assert_eq!(job.get("ttlSecondsAfterFinished"), None, "it would be made again");
    let pod = &job["template"]["spec"];
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["containers"][0]["resources"], json!({"requests": {"memory": "8Gi"}}));
}

#[test]
fn models_that_share_a_claim_share_the_download() {
    let both = [
        job("model-download", LINE),
        served_from("a", "model-cache"),
        served_from("b", "model-cache"),
        claim("model-cache"),
    ];
    let import = import_all(&both);
    let jobs: Vec<String> = import
        .models
        .iter()
        .flat_map(|model| rendered(model, Release::V1_2))
        .filter(|object| object.kind() == "Job")
        .map(|object| object.name().to_owned())
        .collect();
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0], jobs[1]);
}

#[test]
fn what_a_script_downloads_is_weights_and_what_else_it_does_keeps_it_a_job() {
    let outcome = |job: Value| {
        let import = import_all(&[job, served_from("chat", "model-cache")]);
        assert!(import.findings.iter().all(|finding| !finding.is_error()), "{:#?}", messages(&import));
        let model = &import.models[0];
        assert!(model.round_trips, "{}", model.text);
        let weights = weights_of(&model.text);
        if !weights.is_null() {
            weights["source"].to_string()
        } else if whole_text(model).contains("kind: Job") {
            "a Job".to_owned()
        } else {
            "left out".to_owned()
        }
    };
    let of = |line: &str| outcome(job("model-download", line));
    let mut elsewhere = job("model-download", LINE);
    elsewhere["spec"]["template"]["spec"]["containers"][0]["env"][2]["value"] = json!("/tmp/hf");
    let mut other_claim = job("model-download", LINE);
    other_claim["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!("other");
    let mut of_a_field = job("model-download", LINE);
    of_a_field["spec"]["template"]["spec"]["containers"][0]["env"][0] =
        json!({"name": "MODEL_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let mut with_init = job("model-download", LINE);
    with_init["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "init", "image": "busybox"}]);
    let mut that_goes = job("check", "test -r /model-store/x && rm /model-store/x");
    that_goes["spec"]["ttlSecondsAfterFinished"] = json!(60);
    let lines = [
        "hf download other/name",
        "hf download m/n --local-dir /model-store/m",
        "hf download m/n --local-dir /tmp/m",
        "hf download m/n && hf download m/draft --exclude 'x/*'",
        "hf download m/draft\nhuggingface-cli download m/n --revision v1",
        "hf download m/n\nls -la /model-store | head; du -sh /model-store 2>&1; date; mkdir -p /model-store/logs",
        "export REPO=m/n\nhf download \"${REPO}\" --revision ${REV:-v2}",
        "python3 -c \"from huggingface_hub import snapshot_download as s; \\\n s('m/n', ignore_patterns=['a/*', 'b/*']); s('m/d')\"",
        "hf download m/n\nrm -rf /model-store/old",
        "hf download m/n > /model-store/log",
        "echo \"$(rm -rf /model-store)\"\nhf download m/n",
        "HF_HOME=/tmp hf download m/n",
        "hf download m/$(cat name)",
        "hf download m/n config.json",
        "python3 -c 'import shutil; shutil.rmtree(1)'; hf download m/n",
        "python3 <<PY\nfrom huggingface_hub import snapshot_download\nsnapshot_download('$X')\nPY",
        "hf download m/n\ncommand rm -rf /model-store/old",
        "hf download m/n\n> /model-store/READY",
        "pip install --target /model-store/libs x\nhf download m/n",
        "hf download m/d || true\nhf download m/n",
        "set -- --exclude 'x/*'\nhf download m/n \"$@\"",
        "export HF_ENDPOINT=https://mirror.example.com\nhf download m/n",
        "python3 bench.py",
    ];
    let mut with_queue = job("model-download", LINE);
    with_queue["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "downloads"});
    with_queue["spec"]["template"]["metadata"]["annotations"] = json!({"sidecar.istio.io/inject": "false"});
    let mut unrelated = job("smoke", "curl http://gateway/v1/models");
    unrelated["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!("results");
    let jobs = [with_queue, unrelated, elsewhere, other_claim, of_a_field, with_init, that_goes];
    let all: Vec<String> = lines.into_iter().map(of).chain(jobs.into_iter().map(outcome)).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    left out
    [{"folder":"m","uri":"hf://m/n@main"}]
    a Job
    ["hf://m/n@main",{"exclude":["x/*"],"uri":"hf://m/draft@main"}]
    ["hf://m/n@v1","hf://m/draft@main"]
    "hf://m/n@main"
    "hf://m/n@v2"
    [{"exclude":["a/*","b/*"],"uri":"hf://m/n@main"},"hf://m/d@main"]
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    a Job
    "hf://m/n@b5c939de8f754692c1647ca79fbf85e8c1e70f8a"
    left out
    a Job
    a Job
    a Job
    a Job
    a Job
    "#);
}

#[test]
fn downloads_of_one_name_are_told_apart_by_what_they_download() {
    let jobs = [job("model-download", "hf download x/other"), job("model-download", LINE), job("again", LINE)];
    let import = import_all(&[jobs[0].clone(), jobs[1].clone(), jobs[2].clone(), served_from("chat", "model-cache")]);
    assert_eq!(weights_of(&import.models[0].text)["source"], format!("hf://m/n@{COMMIT}"));
    let [message] = messages(&import).try_into().unwrap();
    assert!(message.contains("document 1: Job `model-download` is left out: it downloads `x/other`"), "{message}");
}

/// A mount without a volume is the claim of its name: so upstream's v1alpha1 recipes come out of the conversion.
#[test]
fn a_claim_that_is_mounted_by_its_name_alone_is_the_cache() {
    let mut graph = served_from("chat", "model-cache");
    let pod = &mut graph["spec"]["components"][1]["podTemplate"]["spec"];
    pod.as_object_mut().unwrap().remove("volumes");
    pod["containers"][0]["volumeMounts"] = json!([
        {"name": "compiled", "mountPath": "/root/.cache"}, {"name": "model-cache", "mountPath": "/mnt/models"}]);
    let import = import_all(&[graph.clone(), claim("model-cache")]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &import.models[0].text;
    assert!(import.models[0].round_trips, "{text}");
    assert!(text.contains("implicitVolume: true") && text.contains("size: 1Gi"), "{text}");
    let import = import_all(&[graph, job("model-download", LINE)]);
    assert!(import.models[0].round_trips);
    assert_eq!(weights_of(&import.models[0].text)["implicitVolume"], true);
}

/// The arguments of a graph's worker.
fn with_args(command: &[&str], args: &[&str]) -> Value {
    let mut graph = graph("chat", &[]);
    let main = &mut graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0];
    (main["command"], main["args"]) = (json!(command), json!(args));
    graph
}

#[test]
fn a_command_line_in_another_order_is_written_by_its_fields() {
    let command = ["python3", "-m", "dynamo.vllm"];
    let args = ["--enforce-eager", "-tp", "2", "--model", "m/n", "--max-model-len", "4096", "--kv-cache-dtype", "fp8"];
    let mut graph = with_args(&command, &args);
    let main = &mut graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0];
    main["resources"] = json!({"limits": {"nvidia.com/gpu": "2"}});
    let import = import_all(&[graph]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &import.models[0].text;
    assert!(import.models[0].round_trips && !text.contains("command:"), "{text}");
    for line in
        ["tensorParallel: 2", "maxLength: 4096", "flags: {kv-cache-dtype: fp8}", "<-tp> <--model> <--max-model-len>"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn arguments_that_look_like_the_name_of_a_flag_stay_as_they_are() {
    for args in [["--model", "m/n", "<--model>"], ["<--tp>", "--model", "m/n"]] {
        let import = import_all(&[with_args(&["python3", "-m", "dynamo.vllm"], &args)]);
        assert!(import.models[0].round_trips, "{:?}\n{}", messages(&import), import.models[0].text);
    }
}

#[test]
fn fields_of_pods_are_fields_of_pod() {
    let mut graph = graph("chat", &[json!({"name": "scratch", "emptyDir": {}})]);
    let template = &mut graph["spec"]["components"][1]["podTemplate"];
    template["metadata"] = json!({"annotations": {"prometheus.io/scrape": "true"}});
    let pod = &mut template["spec"];
    pod["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}});
    pod["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    pod["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}], "limits": {"nvidia.com/gpu": "1"}});
    pod["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    pod["containers"][0]["securityContext"] = json!({"runAsUser": 0});
    let import = import_all(&[graph]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &import.models[0].text;
    assert!(import.models[0].round_trips && !text.contains("template:") && !text.contains("overrides"), "{text}");
    assert!(text.contains("containerSecurityContext") && text.contains("volumeMounts"), "{text}");
}

/// The manifests of a folder of upstream's recipes and of those below it.
fn folder(path: &Path) -> Vec<ManifestFile> {
    let mut files = Vec::new();
    let mut entries: Vec<_> = fs_err::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            files.extend(folder(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "yaml") {
            files.push(ManifestFile { file: entry.display().to_string(), content: fs_err::read(&entry).unwrap() });
        }
    }
    files
}

/// Each graph of upstream's recipes, with the files beside it and the volumes and downloads of its model.
fn deployments() -> Vec<(String, Vec<ManifestFile>)> {
    let recipes = super::data().join("recipes");
    let graphs = super::oracle().into_keys().filter(|file| file.starts_with("recipes/"));
    let of_graph = |file: String| {
        let own = super::data().join(&file);
        let mut files = vec![ManifestFile { content: fs_err::read(&own).unwrap(), file: file.clone() }];
        let beside = fs_err::read_dir(own.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let routes = beside.filter(|path| path.file_name().is_some_and(|name| name == "http-route.yaml"));
        files.extend(
            routes.map(|path| ManifestFile { file: path.display().to_string(), content: fs_err::read(&path).unwrap() }),
        );
        let volumes = own.ancestors().take_while(|above| **above != recipes).map(|above| above.join("model-cache"));
        files.extend(volumes.filter(|path| path.is_dir()).flat_map(|path| folder(&path)));
        (file, files)
    };
    graphs.map(of_graph).collect()
}

#[test]
fn of_upstreams_recipes_only_jobs_and_what_no_model_may_have_are_left_behind() {
    let may_have =
        |message: &str| kinds::IN_MANIFESTS.iter().any(|kind| message.contains(&format!(": {} `", kind.kind)));
    let mut count = 0;
    for (file, files) in deployments() {
        let import = import(&files, ImportOptions::default());
        let [model] = import.models.as_slice() else { panic!("{file}: {:#?}", messages(&import)) };
        assert!(model.round_trips, "{file}: {:#?}", messages(&import));
        let left = import.findings.iter().filter(|finding| finding.rule == rules::NOT_CARRIED);
        let carried: Vec<&str> =
            left.map(|finding| finding.message.as_str()).filter(|message| may_have(message)).collect();
        assert_eq!(carried, Vec::<&str>::new(), "{file}");
        let is_graphs = |finding: &&Finding| finding.is_error() && finding.message.contains(kinds::GRAPH.kind);
        assert_eq!(import.findings.iter().filter(is_graphs).count(), 0, "{file}: {:#?}", messages(&import));
        count += 1;
    }
    assert_eq!(count, 36);
}

#[test]
fn an_image_of_another_registry_is_a_runtime_and_where_it_is_taken_from() {
    let mut graph = graph("chat", &[]);
    for component in graph["spec"]["components"].as_array_mut().unwrap() {
        component["podTemplate"]["spec"]["containers"][0]["image"] =
            json!("mirror.example.com:5000/dynamo/vllm-runtime:1.2.0");
    }
    let import = import_all(&[graph]);
    let text = &import.models[0].text;
    assert!(import.models[0].round_trips, "{:?}", messages(&import));
    assert!(text.contains("runtime: \"1.2.0\"\n  imageRegistry: mirror.example.com:5000/dynamo\n"), "{text}");
    assert!(!text.contains("image: "), "{text}");
}

#[test]
fn a_script_that_downloads_by_python_into_a_folder_is_the_models_weights() {
    let mut job = job("model-download", "");
    let script = "set -Eeuo pipefail\npython3 -m pip install -U huggingface_hub\nexport HF_HOME=/mnt/models\n\
        python3 - <<'PY'\nimport os\nfrom huggingface_hub import snapshot_download\n\nrepo = \"m/n\"\n\
        path = \"/mnt/models/patched/n\"\nos.makedirs(path, exist_ok=True)\nsnapshot_download(\n    repo_id=repo,\n    \
        revision=os.environ.get(\"REV\", \"main\"),\n    local_dir=path,\n)\nprint(f\"done {path}\")\nPY\n\
        MODEL_PATH=\"/mnt/models/patched/n\"\ntest -r \"${MODEL_PATH}/config.json\"\nls -la /mnt/models | head\necho done\n";
    let main = &mut job["spec"]["template"]["spec"]["containers"][0];
    (main["args"], main["env"]) = (json!([script]), json!([]));
    main["volumeMounts"][0]["mountPath"] = json!("/mnt/models");
    let mut graph = served_from("chat", "model-cache");
    let main = &mut graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0];
    main["args"] = json!(["--model", "/mnt/models/patched/n", "--served-model-name", "m/n"]);
    main["command"] = json!(["python3", "-m", "dynamo.vllm"]);
    let import = import_all(&[job, graph]);
    let weights = weights_of(&import.models[0].text);
    assert_eq!(weights["source"], json!([{"uri": "hf://m/n@main", "folder": "patched/n"}]), "{:#?}", messages(&import));
    assert!(import.models[0].round_trips, "{}", import.models[0].text);
}
