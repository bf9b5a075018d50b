//! Recipes: a graph with what is applied beside it.

use super::rendered;
use crate::import::{ImportResult, ManifestFile, import, rules};
use serde_json::{Value, json};
use stator_core::dynamo::kinds;
use stator_core::finding::Finding;
use std::path::Path;

fn import_all(documents: &[Value]) -> ImportResult {
    let text: Vec<String> = documents.iter().map(ToString::to_string).collect();
    import(&[ManifestFile { file: "recipe.yaml".into(), content: text.join("\n---\n").into() }])
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
    assert_eq!(messages(&import), Vec::<String>::new());
    let objects = rendered(&import.models[0].text);
    let map = objects.iter().find(|object| object.kind() == "ConfigMap").unwrap();
    assert_eq!(map.name(), "llm-config");
    assert_eq!(map.value()["data"], config_map("llm-config")["data"], "{}", import.models[0].text);
}

#[test]
fn a_claim_beside_the_cache_is_the_models_and_the_cache_stays_one() {
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let import =
        import_all(&[claim("compiled"), claim("weights"), graph("chat", &[volume("weights"), volume("compiled")])]);
    assert_eq!(messages(&import), Vec::<String>::new());
    let text = &import.models[0].text;
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
    assert!(import.models[0].text.contains("name: shared") && !import.models[1].text.contains("kind: ConfigMap"));
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

#[test]
fn a_job_that_downloads_weights_is_shown_as_the_weights_of_a_model() {
    let job = |revision: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "model-download"}, "spec": {"template": {"spec": {
            "containers": [{"name": "d", "image": "python:3.10-slim", "command": ["sh", "-c"],
                "env": [{"name": "MODEL_NAME", "value": "openai/gpt-oss-120b"}, {"name": "REVISION", "value": revision}],
                "args": ["set -eux\npip install huggingface_hub\nhf download \"$MODEL_NAME\" --revision ${REVISION} --exclude \"original/*\"\n"],
                "volumeMounts": [{"name": "cache", "mountPath": "/model-store"}]}],
            "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "model-cache"}}]}}}})
    };
    let help = |revision: &str| import_all(&[job(revision)]).findings.remove(0).help;
    let commit = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a";
    assert_eq!(
        help(commit),
        format!(
            "write `weights: {{source: hf://openai/gpt-oss-120b@{commit}, claim: {{name: model-cache}}, mountPath: /model-store, \
             exclude: [\"original/*\"]}}` under `spec` of the model, and remove its `cache`"
        )
    );
    let unpinned = help("main");
    assert!(unpinned.contains("@COMMIT") && unpinned.contains("commit of openai/gpt-oss-120b"), "{unpinned}");
    assert_eq!(
        messages(&import_all(&[job(commit)])),
        [
            "import/not-carried: document 1: Job `model-download` is not imported: stator makes the Job that downloads weights itself, of `spec.weights`"
        ]
    );
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
    for line in ["tensorParallel: 2", "maxLength: 4096", "- <-tp>", "- <--model>", "- <--max-model-len>", "- fp8"] {
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
        let import = import(&files);
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
