//! Laws that hold for every manifest, and the manifests that once broke one.

use super::{inputs, rendered};
use crate::import::{ImportOptions, ImportResult, ManifestFile, import};
use crate::intent::model::OverrideKind;
use crate::render::tests::{of_model, strategy, target};
use crate::render::{RenderedObject, emit, render};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use stator_core::dynamo::admission::{self, AdmissionOutcome, Platform};
use stator_core::dynamo::release::Release;
use stator_core::dynamo::{equivalence, kinds};
use stator_core::object::Object;

fn manifest(text: impl Into<Vec<u8>>) -> ManifestFile {
    ManifestFile { file: "manifest.yaml".into(), content: text.into() }
}

/// The graph, request or other object of a kind that has the name of another; requests are named after what they ask for.
fn like<'a>(objects: &'a [Object], wanted: &Object) -> Option<&'a Object> {
    let named = wanted.kind() != kinds::REQUEST.kind;
    objects.iter().find(|object| object.kind() == wanted.kind() && (!named || object.name() == wanted.name()))
}

/// One way in which another person's manifest differs from an example.
#[derive(Clone, Debug)]
enum ManifestChange {
    RenameComponent(Index, String),
    ReverseComponents,
    Image(Index, String),
    Variable(Index, String, String),
    Volume(Index, String),
    Sidecar(Index, String),
    Label(String, String),
    Replicas(Index, u32),
    Argument(Index, String),
    PodField(Index, &'static str, Value),
    MainField(Index, &'static str, Value),
    ComponentField(Index, &'static str, Value),
    Drop(Index, Index),
    Shell(Index),
}

fn change() -> impl Strategy<Value = ManifestChange> {
    let word = || "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?";
    let field = select(vec![
        ("dnsPolicy", json!("Default")),
        ("hostNetwork", json!(true)),
        ("nodeName", json!("node-7")),
        ("runtimeClassName", json!("nvidia")),
        ("schedulerName", json!("kai")),
        ("securityContext", json!({"fsGroup": 2000, "seccompProfile": {"type": "RuntimeDefault"}})),
        (
            "topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
        ),
        ("hostAliases", json!([{"ip": "10.0.0.1", "hostnames": ["a", "b"]}])),
        (
            "affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]}]}}}),
        ),
    ]);
    let of_main = select(vec![
        (
            "resources",
            json!({"limits": {"nvidia.com/gpu": 3, "cpu": 2.5}, "requests": {"memory": "1e3", "cpu": "1500m"}}),
        ),
        ("resources", json!({"limits": {"amd.com/gpu": "1"}})),
        ("resources", json!({"claims": [{"name": "gpu"}], "limits": {"nvidia.com/gpu": "0"}})),
        ("envFrom", json!([{"configMapRef": {"name": "tuning"}}, {"secretRef": {"name": "hf"}}])),
        ("envFrom", json!([{"prefix": "A_", "secretRef": {"name": "hf-token", "optional": true}}])),
        ("env", json!([{"name": "A", "value": "$(B)"}, {"name": "B", "value": "x"}, {"name": "A", "value": "y"}])),
        ("env", json!([{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "E"}])),
        ("env", json!([{"name": "HF_HOME", "value": "/w"}, {"name": "DYN_ROUTER_MODE", "value": "kv"}])),
        ("env", json!([{"name": "B", "value": "$(A)"}, {"name": "A", "value": "z"}])),
        ("env", json!([{"name": "Z", "value": "$(HF_HOME)/z"}, {"name": "HF_HOME", "value": "/w"}])),
        (
            "volumeMounts",
            json!([{"name": "cache", "mountPath": "/a"}, {"name": "cache", "mountPath": "/b", "readOnly": true}]),
        ),
        ("ports", json!([{"containerPort": 9090, "name": "system"}, {"containerPort": 9090, "protocol": "UDP"}])),
        ("workingDir", json!("/srv")),
        ("imagePullPolicy", json!("Always")),
        ("securityContext", json!({"privileged": false, "capabilities": {"add": ["IPC_LOCK"]}})),
        ("livenessProbe", json!({"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 0})),
        ("command", json!(["python3", "-m", "dynamo.sglang"])),
        ("command", json!([])),
        ("args", json!(["--model", "a", "--model", "b", "--tensor-parallel-size=4", "--tp", "2"])),
        ("args", json!(["--model", "<model>", "--served-model-name", "$(NAME)", "<tensorParallel>"])),
        ("args", json!(["--model-path", "s3://a/b c", "--max-model-len", "08", "--dtype", "", "--max-num-seqs"])),
        ("args", json!(["--tensor-parallel-size", "4294967296", "--gpu-memory-utilization", "1.50"])),
    ]);
    let of_component = select(vec![
        ("multinode", json!({"nodeCount": 2})),
        ("multinode", json!({})),
        ("scalingAdapter", json!({})),
        ("sharedMemorySize", json!("0")),
        ("sharedMemorySize", json!("1024Mi")),
        ("modelRef", json!({"name": "a/b", "revision": "main"})),
        ("type", json!("prefill")),
        ("type", json!("decode")),
        ("type", json!("worker")),
        ("type", json!("frontend")),
        ("globalDynamoNamespace", json!(true)),
        ("compilationCache", json!({"pvcName": "c"})),
        ("podTemplate", json!({})),
        ("podTemplate", json!({"metadata": {"labels": {"a.b/c": "d"}, "annotations": {"e": ""}}})),
        ("podTemplate", json!({"spec": {"containers": [{"name": "other", "image": "a/b:1"}]}})),
    ]);
    prop_oneof![
        (any::<Index>(), of_main).prop_map(|(at, (name, value))| ManifestChange::MainField(at, name, value)),
        (any::<Index>(), of_component).prop_map(|(at, (name, value))| ManifestChange::ComponentField(at, name, value)),
        (any::<Index>(), any::<Index>()).prop_map(|(at, field)| ManifestChange::Drop(at, field)),
        any::<Index>().prop_map(ManifestChange::Shell),
        (any::<Index>(), "[A-Za-z0-9]([-A-Za-z0-9]{0,10}[A-Za-z0-9])?")
            .prop_map(|(at, name)| ManifestChange::RenameComponent(at, name)),
        Just(ManifestChange::ReverseComponents),
        (any::<Index>(), "registry\\.example/[a-z]{1,6}:[a-z0-9]{1,6}")
            .prop_map(|(at, image)| ManifestChange::Image(at, image)),
        (any::<Index>(), "[A-Z][A-Z_]{0,8}", "\\PC{0,9}")
            .prop_map(|(at, name, value)| ManifestChange::Variable(at, name, value)),
        (any::<Index>(), word()).prop_map(|(at, name)| ManifestChange::Volume(at, name)),
        (any::<Index>(), word()).prop_map(|(at, name)| ManifestChange::Sidecar(at, name)),
        (word(), word()).prop_map(|(key, value)| ManifestChange::Label(key, value)),
        (any::<Index>(), 0_u32..9).prop_map(|(at, replicas)| ManifestChange::Replicas(at, replicas)),
        (any::<Index>(), "(--)?[-a-z0-9=$(){} ']{1,12}")
            .prop_map(|(at, argument)| ManifestChange::Argument(at, argument)),
        (any::<Index>(), field).prop_map(|(at, (name, value))| ManifestChange::PodField(at, name, value)),
    ]
}

/// Makes a change; one that the manifest has no place for is none.
fn make(graph: &mut Value, change: &ManifestChange) {
    let components = graph["spec"]["components"].as_array_mut().unwrap();
    let names: Vec<Value> = components.iter().map(|component| component["name"].clone()).collect();
    match change {
        ManifestChange::ReverseComponents => components.reverse(),
        ManifestChange::Label(key, value) => graph["metadata"]["labels"][key] = value.as_str().into(),
        ManifestChange::RenameComponent(at, name) => {
            let taken = names.iter().any(|taken| taken.as_str().unwrap().eq_ignore_ascii_case(name));
            if !taken {
                at.get_mut(components)["name"] = name.as_str().into();
            }
        }
        ManifestChange::Replicas(at, replicas) => at.get_mut(components)["replicas"] = (*replicas).into(),
        ManifestChange::PodField(at, name, value) => {
            at.get_mut(components)["podTemplate"]["spec"][name] = value.clone()
        }
        ManifestChange::MainField(at, name, value) => main(pod(at.get_mut(components)))[name] = value.clone(),
        ManifestChange::ComponentField(at, name, value) => at.get_mut(components)[name] = value.clone(),
        ManifestChange::Drop(at, field) => {
            let component = at.get_mut(components).as_object_mut().unwrap();
            let names: Vec<String> = component.keys().filter(|name| *name != "name").cloned().collect();
            if !names.is_empty() {
                component.remove(field.get(&names));
            }
        }
        ManifestChange::Shell(at) => {
            let main = main(pod(at.get_mut(components)));
            let words = |field: &str| main.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
            let line: Vec<String> = words("command")
                .into_iter()
                .chain(words("args"))
                .map(|word| word.as_str().unwrap().to_owned())
                .collect();
            main["command"] = json!(["bash", "-ec"]);
            main["args"] = json!([format!("export X=1 && exec {} \\\n  --x 'y'", line.join(" "))]);
        }
        ManifestChange::Volume(at, name) => {
            let pod = pod(at.get_mut(components));
            if add(pod, "volumes", json!({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})) {
                let mount = json!({"name": name, "mountPath": format!("/mnt/{name}"), "subPath": "a"});
                add(main(pod), "volumeMounts", mount);
            }
        }
        ManifestChange::Sidecar(at, name) => {
            let pod = pod(at.get_mut(components));
            main(pod);
            add(pod, "containers", json!({"name": name, "image": "registry.example/sidecar:1", "args": ["--x", "y"]}));
        }
        ManifestChange::Image(at, image) => main(pod(at.get_mut(components)))["image"] = image.as_str().into(),
        ManifestChange::Variable(at, name, value) => {
            add(main(pod(at.get_mut(components))), "env", json!({"name": name, "value": value}));
        }
        ManifestChange::Argument(at, argument) => {
            let main = main(pod(at.get_mut(components)));
            if let Some(args) = main.get_mut("args").and_then(Value::as_array_mut) {
                args.push(argument.as_str().into());
            }
        }
    }
}

fn pod(component: &mut Value) -> &mut Value {
    &mut component["podTemplate"]["spec"]
}

fn main(pod: &mut Value) -> &mut Value {
    add(pod, "containers", json!({"name": "main"}));
    let containers = pod["containers"].as_array_mut().unwrap();
    containers.iter_mut().find(|container| container["name"] == "main").unwrap()
}

/// Adds an item with a name to a list, unless the list has one of that name.
fn add(place: &mut Value, list: &str, item: Value) -> bool {
    if place[list].is_null() {
        place[list] = json!([]);
    }
    let items = place[list].as_array_mut().unwrap();
    let new = items.iter().all(|other| other["name"] != item["name"]);
    if new {
        items.push(item);
    }
    new
}

/// What was not carried, for a person who reads a failure.
fn errors(import: &ImportResult) -> String {
    let errors = import.findings.iter().filter(|finding| finding.is_error());
    errors.map(|finding| format!("{}\n", finding.message)).collect()
}

/// What a Job downloads, wherever it has the volume mounted and whatever it calls it: on the volume it is the same. Secrets that
/// images are pulled with are those of the model, which are taken from most of its workers.
fn download_anywhere(job: &Object) -> Value {
    let mut spec = job.spec().clone();
    let pod = &mut spec["template"]["spec"];
    let volume = pod["volumes"][0].clone();
    let path = pod["containers"][0]["volumeMounts"][0]["mountPath"].clone();
    pod["volumes"][0]["name"] = json!("volume");
    pod.as_object_mut().unwrap().remove("imagePullSecrets");
    pod["containers"][0]["volumeMounts"][0] = json!({"name": "volume", "mountPath": "/volume"});
    assert!(volume["persistentVolumeClaim"].is_object());
    for variable in pod["containers"][0]["env"].as_array_mut().unwrap() {
        if variable["name"] == "HF_HOME" {
            assert_eq!(variable["value"], path);
            variable["value"] = json!("/volume");
        }
    }
    spec
}

/// Whether a graph can work: one that the operator refuses, such as an endpoint picker of two replicas, makes no model,
/// and neither does one with a worker without an image.
fn works(graph: &Value) -> bool {
    let mut graph = graph.clone();
    graph["metadata"]["namespace"] = json!("default");
    let object = Object::from_value(graph).unwrap();
    admission::check_object(&object, &Platform::default())
        .iter()
        .all(|refusal| refusal.outcome != AdmissionOutcome::Denied && refusal.rule != admission::rules::IMAGE_MISSING)
}

/// Upstream's graphs as its operator has them.
fn graphs() -> Vec<Value> {
    let rows = super::round_trip::oracle().into_values().flatten();
    let rows: Vec<Value> = rows.collect();
    let graphs = rows.iter().filter(|row| row["admitted"] == true && row["kind"] == kinds::GRAPH.kind);
    // What the operator keeps of v1alpha1 in annotations is not what a person writes.
    let plain = |row: &Value| {
        let mut graph = row["v1beta1"].clone();
        if let Some(annotations) = graph.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.starts_with("nvidia.com/dgd-"));
        }
        graph
    };
    graphs.map(plain).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_rendered_is_imported_and_rendered_the_same(mut model in strategy::valid()) {
        // What else a Job says may stand anywhere in it.
        model.spec.overrides.retain(|change| change.target.kind != OverrideKind::Job);
        let objects: Vec<Object> = render(&of_model(model), &target()).objects.iter().map(RenderedObject::with_initial_replicas).collect();
        let text: Vec<String> = objects.iter().map(|object| emit::object_yaml(object).unwrap()).collect();
        let import = import(&[manifest(text.join("---\n"))], ImportOptions::default());
        let errors = errors(&import);
        let of_jobs = errors.lines().filter(|line| line.contains("Job `weights-") && line.contains("is not imported")).count();
        prop_assert!(errors.lines().count() == of_jobs, "{errors}\n{}\n{:#?}", text.join("---\n"), import.models);
        prop_assume!(!objects.is_empty());
        let again = rendered(&import.models[0], Release::STABLE);
        // A Job that may do anything, or whose graph cannot be told to serve from it, is left behind, and nothing else is.
        let is_left = |object: &&Object| of_jobs == 0 || object.kind() != kinds::JOB.kind;
        for object in objects.iter().filter(is_left) {
            // The number of an attempt is in the name of a Job alone.
            let is_job = object.kind() == kinds::JOB.kind;
            let of_kind = || again.iter().find(|one| one.kind() == object.kind());
            let other = if is_job { of_kind() } else { like(&again, object) };
            prop_assert!(other.is_some(), "{} is not rendered again", object.name());
            if is_job {
                prop_assert_eq!(download_anywhere(other.unwrap()), download_anywhere(object));
                continue;
            }
            let differences = equivalence::differences(object.value(), other.unwrap().value());
            prop_assert!(differences.is_empty(), "{differences:#?}");
        }
    }

    #[test]
    fn another_persons_graph_comes_back_as_it_is(
        mut graph in select(graphs()),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        for change in &changes {
            make(&mut graph, change);
        }
        prop_assume!(works(&graph));
        let import = import(&[manifest(graph.to_string())], ImportOptions::default());
        prop_assert!(import.models[0].round_trips, "{}\n{graph}\n{}", errors(&import), import.models[0].text);
        let differing: Vec<_> = rendered(&import.models[0], Release::V1_2)
            .iter()
            .filter(|object| object.kind() == kinds::GRAPH.kind)
            .flat_map(|object| equivalence::differences(&graph, object.value()))
            .collect();
        prop_assert!(differing.is_empty(), "{differing:#?}");
    }

    #[test]
    fn no_bytes_stop_it(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[-a-z:{}\\[\\]\"'|>&*!#%@ \n\t]{0,80}") {
        import(&[manifest(bytes), manifest(text)], ImportOptions::default());
    }

    #[test]
    fn a_file_cut_short_or_with_a_byte_changed_stops_nothing(
        (file, at, byte) in (select(inputs()), any::<Index>(), any::<u8>()),
    ) {
        let at = at.index(file.content.len());
        import(&[manifest(&file.content[..at])], ImportOptions::default());
        let mut changed = file.content.clone();
        changed[at] = byte;
        import(&[manifest(changed)], ImportOptions::default());
    }

    #[test]
    fn a_leaf_of_another_type_stops_nothing(
        mut graph in select(graphs()),
        at in any::<Index>(),
        value in select(vec![json!(null), json!(-1), json!(1.5), json!(""), json!([]), json!({}), json!(true), json!([{"name": 1}])]),
    ) {
        let mut places = Vec::new();
        pointers(&graph["spec"], "/spec".to_owned(), &mut places);
        *graph.pointer_mut(at.get::<String>(&places).as_str()).unwrap() = value;
        import(&[manifest(graph.to_string())], ImportOptions::default());
    }
}

/// The place of everything below a value.
fn pointers(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                pointers(below, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, below) in items.iter().enumerate() {
                pointers(below, format!("{at}/{index}"), places);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    places.push(at);
}

#[test]
fn more_gpus_than_a_field_takes_stay_as_the_manifest_has_them() {
    let mut graph = graphs().remove(0);
    for component in graph["spec"]["components"].as_array_mut().unwrap() {
        component["multinode"] = json!({"nodeCount": 128});
        main(pod(component))["resources"] = json!({"limits": {"nvidia.com/gpu": "16"}});
    }
    let import = import(&[manifest(graph.to_string())], ImportOptions::default());
    assert!(import.models[0].round_trips, "{:#?}\n{}", import.findings, import.models[0].text);
}

#[test]
fn a_claim_that_only_some_workers_mount_is_the_caches_all_the_same() {
    let mut graph = graphs().into_iter().find(|graph| graph["metadata"]["name"] == "vllm-disagg").unwrap();
    let claim = json!({"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}});
    let component = graph["spec"]["components"].as_array_mut().unwrap().last_mut().unwrap();
    add(main(pod(component)), "volumeMounts", json!({"name": "weights", "mountPath": "/w"}));
    add(pod(component), "volumes", claim);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}});
    let import = import(&[manifest(format!("{graph}\n---\n{claim}"))], ImportOptions::default());
    assert!(import.models[0].round_trips, "{:#?}\n{}", import.findings, import.models[0].text);
    assert!(import.findings.iter().all(|finding| !finding.is_error()), "{:#?}", import.findings);
}

/// A graph of one vLLM worker with this command line.
fn with_line(command: &[&str], args: &[&str]) -> Value {
    let mut graph = graphs().into_iter().find(|graph| graph["metadata"]["name"] == "vllm-agg").unwrap();
    for component in graph["spec"]["components"].as_array_mut().unwrap() {
        if component["type"] == "worker" {
            let main = main(pod(component));
            (main["command"], main["args"]) = (json!(command), json!(args));
        }
    }
    graph
}

#[test]
fn a_text_that_looks_like_the_name_of_a_setting_stays_a_text() {
    let graph = with_line(&["python3", "-m", "dynamo.vllm"], &["--model", "<model>", "--note", "<tensorParallel>"]);
    let import = import(&[manifest(graph.to_string())], ImportOptions::default());
    assert!(import.models[0].round_trips, "{}\n{}", errors(&import), import.models[0].text);
}

#[test]
fn a_value_in_quotes_is_named_and_one_of_a_variable_stays_one() {
    let line = "python3 -m dynamo.vllm --model 'a/b' --max-model-len \"4096\" --max-num-seqs $SEQS --dtype=\"bf$X\" --served-model-name $NAME";
    let graph = with_line(&["bash", "-c"], &[line]);
    let import = import(&[manifest(graph.to_string())], ImportOptions::default());
    assert!(import.models[0].round_trips, "{}\n{}", errors(&import), import.models[0].text);
    let text = &import.models[0].text;
    let line = "--model '<model>' --max-model-len \"<maxLength>\" --max-num-seqs $SEQS --dtype=\"bf$X\" --served-model-name $NAME";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("model: a/b") && text.contains("maxLength: 4096"), "{text}");
    assert!(!text.contains("maxSequences") && !text.contains("dtype:") && !text.contains("servedName"), "{text}");
}

#[test]
fn labels_of_the_graph_are_not_the_claims_and_the_adapters() {
    let mut graph = with_line(&["python3", "-m", "dynamo.vllm"], &["--model", "a/b"]);
    graph["metadata"]["labels"] = json!({"team": "search", "example.com/cost-center": "42"});
    let worker = graph["spec"]["components"].as_array_mut().unwrap().last_mut().unwrap();
    add(main(pod(worker)), "volumeMounts", json!({"name": "w", "mountPath": "/w"}));
    add(pod(worker), "volumes", json!({"name": "w", "persistentVolumeClaim": {"claimName": "w"}}));
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "w", "labels": {"team": "storage"}},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}});
    let adapter = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": {"name": "sql"},
        "spec": {"modelName": "sql", "baseModelName": "a/b", "modelType": "lora", "source": {"uri": "s3://x/sql"}}});
    let import = import(&[manifest(format!("{graph}\n---\n{claim}\n---\n{adapter}"))], ImportOptions::default());
    assert!(import.models[0].round_trips, "{}\n{}", errors(&import), import.models[0].text);
    assert_eq!(errors(&import), "");
}

#[test]
fn a_field_that_an_api_server_fills_in_is_not_taken_out() {
    let mut graph = with_line(&["python3", "-m", "dynamo.vllm"], &["--model", "a/b"]);
    for component in graph["spec"]["components"].as_array_mut().unwrap() {
        component.as_object_mut().unwrap().remove("replicas");
        pod(component)["priorityClassName"] = json!("high");
    }
    let import = import(&[manifest(graph.to_string())], ImportOptions::default());
    assert!(import.models[0].round_trips, "{}\n{}", errors(&import), import.models[0].text);
    assert!(!import.models[0].text.contains("overrides"), "{}", import.models[0].text);
}

#[test]
fn a_program_that_is_none_of_dynamos_may_name_its_model_all_the_same() {
    let graph = with_line(&["python", "serve.py"], &["--model=BAAI/bge-m3"]);
    let import = import(&[manifest(graph.to_string())], ImportOptions::default());
    assert!(
        import.models[0].round_trips && import.models[0].text.contains("model: BAAI/bge-m3"),
        "{}",
        import.models[0].text
    );
}

/// A graph of one vLLM worker with these variables.
fn with_env(env: &Value) -> Value {
    let mut graph = with_line(&["python3", "-m", "dynamo.vllm"], &["--model", "a/b"]);
    main(pod(worker_of(&mut graph)))["env"] = env.clone();
    graph
}

fn worker_of(graph: &mut Value) -> &mut Value {
    let components = graph["spec"]["components"].as_array_mut().unwrap();
    components.iter_mut().find(|component| component["type"] == "worker").unwrap()
}

#[test]
fn variables_that_refer_to_others_keep_their_order() {
    for env in [
        json!([{"name": "B", "value": "$(A)"}, {"name": "A", "value": "z"}]),
        json!([{"name": "B", "value": "y"}, {"name": "A", "value": "$(B)"}]),
        json!([{"name": "Z", "value": "$(HF_HOME)"}, {"name": "HF_HOME", "value": "/w"}, {"name": "A", "value": "x"}]),
        json!([{"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "A", "value": "$(P)"}]),
    ] {
        let import = import(&[manifest(with_env(&env).to_string())], ImportOptions::default());
        assert!(import.models[0].round_trips, "{env}: {}\n{}", errors(&import), import.models[0].text);
        let again = rendered(&import.models[0], Release::V1_2);
        let mut again = again.iter().find(|object| object.kind() == kinds::GRAPH.kind).unwrap().value().clone();
        assert_eq!(main(pod(worker_of(&mut again)))["env"], env, "{}", import.models[0].text);
    }
}

/// A counterexample that chance once found: `$(` without an end refers to nothing, so that the order does not count.
#[test]
fn variables_that_refer_to_nothing_may_come_back_sorted() {
    for env in [
        json!([{"name": "B", "value": "$("}, {"name": "A", "value": "z"}]),
        json!([{"name": "B", "value": "$$(A)"}, {"name": "A", "value": "z"}]),
        json!([{"name": "B", "value": "$(OTHER)"}, {"name": "A", "value": "z"}]),
    ] {
        let import = import(&[manifest(with_env(&env).to_string())], ImportOptions::default());
        assert!(import.models[0].round_trips, "{env}: {}\n{}", errors(&import), import.models[0].text);
        assert!(!import.models[0].text.contains("overrides"), "{}", import.models[0].text);
    }
}
