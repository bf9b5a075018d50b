use super::super::pods::find_pods;
use super::*;
use proptest::prelude::*;
use serde_json::{Map, json};
use stator_core::object::Object;
use std::collections::BTreeSet;
use strum::VariantArray;

fn graph(pod: Value) -> Object {
    graph_with_template(json!({"spec": pod}))
}

fn graph_with_template(template: Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "chat", "namespace": "serving"},
        "spec": {"components": [{"name": "decode", "type": "decode", "podTemplate": template}]},
    }))
    .unwrap()
}

/// A request with a profiling job, and with what a schema does not declare.
fn request(job_pod: &Value, untyped: &Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "chat", "namespace": "serving"},
        "spec": {"overrides": {"profilingJob": {"template": {"spec": job_pod}}, "dgd": untyped}},
    }))
    .unwrap()
}

fn job(pod: &Value) -> Object {
    Object::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "chat", "namespace": "serving"},
        "spec": {"template": {"spec": pod}},
    }))
    .unwrap()
}

fn judged(object: &Object, level: PodSecurityLevel) -> Vec<PodViolation> {
    find_pods(object).iter().flat_map(|pod| judge_pod(pod, level)).collect()
}

fn fields_of(violations: &[PodViolation]) -> BTreeSet<PodField> {
    violations.iter().map(|one| one.field).collect()
}

/// A pod that keeps every level.
fn hardened() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [hardened_container("main")],
        "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}, {"name": "tmp", "emptyDir": {}}],
    })
}

fn hardened_container(name: &str) -> Value {
    json!({
        "name": name,
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    })
}

/// Merges maps; all else is replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => into.clone_from(from),
    }
}

fn hardened_with(change: &Value) -> Value {
    let mut pod = hardened();
    merge(&mut pod, change);
    pod
}

/// What a pod may say that `baseline` forbids, by control.
fn pod_attacks() -> Vec<(PodField, Value)> {
    use PodField as F;
    vec![
        (F::HostNetwork, json!({"hostNetwork": true})),
        (F::HostPid, json!({"hostPID": true})),
        (F::HostIpc, json!({"hostIPC": true})),
        (F::HostUsers, json!({"hostUsers": true})),
        (F::NodeName, json!({"nodeName": "control-plane-1"})),
        (F::HostPath, json!({"volumes": [{"name": "n", "hostPath": {"path": "/"}}]})),
        (F::HostProcess, json!({"securityContext": {"windowsOptions": {"hostProcess": true}}})),
        (F::AppArmorProfile, json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}})),
        (F::SeLinuxOptions, json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}})),
        (F::SeLinuxOptions, json!({"securityContext": {"seLinuxOptions": {"user": "system_u"}}})),
        (F::SeLinuxOptions, json!({"securityContext": {"seLinuxOptions": {"role": "system_r"}}})),
        (F::SeccompProfile, json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}})),
        (F::Sysctls, json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}})),
    ]
}

/// What a container may say that `baseline` forbids, by control.
fn container_attacks() -> Vec<(PodField, Value)> {
    use PodField as F;
    let context = |context: Value| json!({"securityContext": context});
    let mut attacks = vec![
        (F::Privileged, context(json!({"privileged": true}))),
        (F::Capabilities, context(json!({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}))),
        (F::Capabilities, context(json!({"capabilities": {"add": ["ALL"]}}))),
        (F::Capabilities, context(json!({"capabilities": {"add": ["CAP_CHOWN"]}}))),
        (F::ProcMount, context(json!({"procMount": "Unmasked"}))),
        (F::HostProcess, context(json!({"windowsOptions": {"hostProcess": true}}))),
        (F::AppArmorProfile, context(json!({"appArmorProfile": {"type": "Unconfined"}}))),
        (F::SeLinuxOptions, context(json!({"seLinuxOptions": {"type": "spc_t"}}))),
        (F::SeccompProfile, context(json!({"seccompProfile": {"type": "Unconfined"}}))),
        (F::HostPort, json!({"ports": [{"containerPort": 80, "hostPort": 80}]})),
        (F::HostPort, json!({"ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]})),
    ];
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        attacks.push((F::ProbeHost, json!({probe: {"httpGet": {"host": "169.254.169.254", "port": 80}}})));
        attacks.push((F::ProbeHost, json!({probe: {"tcpSocket": {"host": "10.0.0.1", "port": 80}}})));
    }
    for hook in ["postStart", "preStop"] {
        attacks.push((F::ProbeHost, json!({"lifecycle": {hook: {"httpGet": {"host": "127.0.0.1", "port": 80}}}})));
    }
    attacks
}

/// What the metadata beside a pod's spec may say that `baseline` forbids, by control.
fn metadata_attacks() -> Vec<(PodField, Value)> {
    use PodField as F;
    vec![
        (
            F::AppArmorProfile,
            json!({"annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}}),
        ),
        (F::Finalizers, json!({"finalizers": ["example.com/never"]})),
        (
            F::OwnerReferences,
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}),
        ),
        (F::SelectingLabels, json!({"labels": {"nvidia.com/dynamo-graph-deployment-name": "of-somebody-else"}})),
        (F::SelectingLabels, json!({"labels": {"stator.dev/owner": "x"}})),
    ]
}

/// What `restricted` forbids beyond that.
fn restricted_attacks() -> Vec<(PodField, Value)> {
    use PodField as F;
    let main = |context: Value| {
        let mut container = hardened_container("main");
        merge(&mut container, &json!({"securityContext": context}));
        json!({"containers": [container]})
    };
    vec![
        (F::Volumes, json!({"volumes": [{"name": "n", "nfs": {"server": "a", "path": "/"}}]})),
        (F::Volumes, json!({"volumes": [{"name": "n", "iscsi": {"iqn": "a"}}]})),
        (F::AllowPrivilegeEscalation, main(json!({"allowPrivilegeEscalation": true}))),
        (F::AllowPrivilegeEscalation, main(json!({"allowPrivilegeEscalation": null}))),
        (F::RunAsNonRoot, json!({"securityContext": {"runAsNonRoot": false}})),
        (F::RunAsNonRoot, json!({"securityContext": {"runAsNonRoot": null}})),
        (F::RunAsNonRoot, main(json!({"runAsNonRoot": false}))),
        (F::RunAsUser, json!({"securityContext": {"runAsUser": 0}})),
        (F::RunAsUser, main(json!({"runAsUser": 0}))),
        (F::SeccompProfile, json!({"securityContext": {"seccompProfile": null}})),
        (F::Capabilities, main(json!({"capabilities": {"drop": ["CHOWN"]}}))),
        (F::Capabilities, main(json!({"capabilities": {"add": ["CHOWN"]}}))),
        // The operator adds `main` where it is missing, with none of what is asked for.
        (F::AllowPrivilegeEscalation, json!({"containers": [hardened_container("sidecar")]})),
        (F::Capabilities, json!({"containers": null})),
    ]
}

#[test]
fn a_hardened_pod_keeps_every_level() {
    for object in [graph(hardened()), job(&hardened())] {
        for level in [PodSecurityLevel::Privileged, PodSecurityLevel::Baseline, PodSecurityLevel::Restricted] {
            assert_eq!(judged(&object, level), [], "{level}");
        }
    }
}

#[test]
fn every_control_of_a_pod_is_attacked() {
    for (field, attack) in pod_attacks() {
        let pod = hardened_with(&attack);
        for object in [graph(pod.clone()), job(&pod), request(&pod, &json!({})), request(&hardened(), &pod)] {
            for level in [PodSecurityLevel::Baseline, PodSecurityLevel::Restricted] {
                let found = judged(&object, level);
                let own: Vec<_> = found.iter().filter(|one| one.field == field).collect();
                // Where a profile counts for nothing, `restricted` tells beside it that containers have none.
                let expected = if level == PodSecurityLevel::Baseline { 1..=1 } else { 1..=3 };
                assert!(expected.contains(&own.len()), "{level} {attack} in {}: {found:#?}", object.kind());
            }
            assert_eq!(judged(&object, PodSecurityLevel::Privileged), [], "{attack}");
        }
        assert_eq!(fields_of(&judged(&graph(pod), PodSecurityLevel::Baseline)), BTreeSet::from([field]));
    }
}

#[test]
fn every_control_of_a_container_is_attacked_in_every_list() {
    for (field, attack) in container_attacks() {
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            let mut container = hardened_container("attacker");
            merge(&mut container, &attack);
            let mut pod = hardened();
            let items = pod.as_object_mut().unwrap().entry(list).or_insert_with(|| json!([]));
            items.as_array_mut().unwrap().push(container);
            for object in [graph(pod.clone()), job(&pod), request(&pod, &json!({})), request(&hardened(), &pod)] {
                let found = judged(&object, PodSecurityLevel::Baseline);
                assert_eq!(fields_of(&found), BTreeSet::from([field]), "{list} {attack}: {found:#?}");
                assert_eq!(found.len(), 1, "{list} {attack}: {found:#?}");
                assert!(fields_of(&judged(&object, PodSecurityLevel::Restricted)).contains(&field), "{list} {attack}");
            }
        }
    }
}

#[test]
fn every_control_of_the_level_restricted_is_attacked() {
    for (field, attack) in restricted_attacks() {
        let object = graph(hardened_with(&attack));
        assert_eq!(judged(&object, PodSecurityLevel::Baseline), [], "{attack}");
        let found = judged(&object, PodSecurityLevel::Restricted);
        assert!(fields_of(&found).contains(&field), "{attack}: {found:#?}");
    }
}

/// A control without an attack is one that nothing tests.
#[test]
fn no_control_is_left_out() {
    let attacks = [pod_attacks(), container_attacks(), metadata_attacks(), restricted_attacks()].concat();
    let attacked: BTreeSet<PodField> = attacks.iter().map(|(field, _)| *field).collect();
    assert_eq!(attacked, PodField::VARIANTS.iter().copied().collect());
    // What a user writes is what serde reads.
    for field in PodField::VARIANTS {
        assert_eq!(serde_json::to_value(field).unwrap(), field.name());
    }
}

/// Wherever the metadata of pods stand: beside the spec, in a version of old, or further up for all pods of a graph.
#[test]
fn metadata_of_pods_are_judged_wherever_they_stand() {
    let graph_of = |version: &str, spec: Value| {
        Object::from_value(json!({
            "apiVersion": format!("nvidia.com/{version}"), "kind": "DynamoGraphDeployment",
            "metadata": {"name": "chat", "namespace": "serving"}, "spec": spec,
        }))
        .unwrap()
    };
    let services = |service: Value| graph_of("v1alpha1", json!({"services": {"decode": service}}));
    for (field, metadata) in metadata_attacks() {
        let mut job = job(&hardened()).into_value();
        job["spec"]["template"]["metadata"] = metadata.clone();
        for object in [
            graph_with_template(json!({"metadata": metadata, "spec": hardened()})),
            Object::from_value(job).unwrap(),
            services(json!({"extraPodMetadata": metadata, "extraPodSpec": hardened()})),
            request(&hardened(), &json!({"spec": {"services": {"x": {"extraPodMetadata": metadata}}}})),
        ] {
            let found = judged(&object, PodSecurityLevel::Baseline);
            assert_eq!(fields_of(&found), BTreeSet::from([field]), "{}", object.value());
            assert_eq!(judged(&object, PodSecurityLevel::Privileged), []);
        }
    }
    let labels = json!({"nvidia.com/dynamo-namespace": "other"});
    for object in [
        graph_of("v1beta1", json!({"labels": labels, "components": [{"name": "x", "podTemplate": {"spec": {}}}]})),
        graph_of("v1alpha1", json!({"labels": labels, "services": {"x": {"extraPodSpec": {}}}})),
        services(json!({"labels": labels, "extraPodSpec": {}})),
    ] {
        let found = fields_of(&judged(&object, PodSecurityLevel::Baseline));
        assert_eq!(found, BTreeSet::from([PodField::SelectingLabels]), "{}", object.value());
    }
    let name = "container.apparmor.security.beta.kubernetes.io/main";
    let fine = json!({"annotations": {name: "localhost/x"}, "labels": {"app.kubernetes.io/name": "chat"}});
    assert_eq!(
        judged(&graph_with_template(json!({"metadata": fine, "spec": hardened()})), PodSecurityLevel::Baseline),
        []
    );
}

/// What the operator labels is the operator's, and what it leaves to its users is theirs.
#[test]
fn labels_belong_to_whom_dynamo_says() {
    use stator_core::dynamo::registry::{LABELS, MetadataWriter};
    let is_refused = |key: &str| {
        let template = json!({"metadata": {"labels": {key: "x"}}, "spec": hardened()});
        !judged(&graph_with_template(template), PodSecurityLevel::Baseline).is_empty()
    };
    // These are on graphs and on snapshots; no service or operator selects a component's pod by them.
    let of_others = ["nvidia.com/managed-by", "nvidia.com/snapshot-owner"];
    for key in LABELS.iter().filter(|key| !of_others.contains(&key.name)) {
        match key.writer {
            MetadataWriter::Operator => assert!(is_refused(key.name), "{}", key.name),
            MetadataWriter::User | MetadataWriter::Cluster => assert!(!is_refused(key.name), "{}", key.name),
        }
    }
    assert!(is_refused("nvidia.com/dynamo-of-a-later-release") && is_refused("stator.dev/owner"));
    assert!(!is_refused("app.kubernetes.io/name"));
}

/// Where no schema says what there is, a list of volumes is one, with containers beside it or without.
#[test]
fn volumes_of_a_part_of_a_pod_are_judged() {
    let part = json!({"spec": {"components": [{"name": "x", "podTemplate": {"spec": {"volumes": [
        {"name": "n", "nfs": {"server": "a", "path": "/"}},
    ]}}}]}});
    let found = judged(&request(&hardened(), &part), PodSecurityLevel::Restricted);
    assert!(fields_of(&found).contains(&PodField::Volumes), "{found:#?}");
}

/// What of a pod gives nobody power over others, and why; everything else has to be in the table. A field that Kubernetes adds
/// is in neither, and fails this test.
#[test]
fn every_field_of_a_pod_is_in_the_table_or_harmless() {
    let of_container = "what runs in the container itself, with its image's rights";
    let harmless: &[(&str, &[&str], &str)] = &[
        (
            "",
            &[
                "activeDeadlineSeconds",
                "terminationGracePeriodSeconds",
                "restartPolicy",
                "readinessGates",
                "schedulingGates",
            ],
            "when the pod itself begins and ends",
        ),
        (
            "",
            &["affinity", "nodeSelector", "topologySpreadConstraints", "os", "preemptionPolicy", "schedulingGroup"],
            "wishes to the scheduler, which holds taints, quotas and priorities whatever they are",
        ),
        (
            "",
            &[
                "dnsConfig",
                "dnsPolicy",
                "hostAliases",
                "hostname",
                "hostnameOverride",
                "setHostnameAsFQDN",
                "subdomain",
            ],
            "names that the pod itself has and knows",
        ),
        ("", &["enableServiceLinks", "shareProcessNamespace"], "what the pod's own containers see of each other"),
        (
            "",
            &["overhead", "priority"],
            "set by the runtime class and the priority class, and refused by the API server where it differs",
        ),
        ("", &["resources", "resourceClaims"], "quotas of the namespace and of the policy count them"),
        ("", &["automountServiceAccountToken"], "the account is one of the policy's list"),
        ("", &["imagePullSecrets"], "Secrets are held to the policy's list wherever they are named"),
        (
            "containers",
            &[
                "args",
                "command",
                "name",
                "resizePolicy",
                "resources",
                "restartPolicy",
                "restartPolicyRules",
                "stdin",
                "stdinOnce",
                "terminationMessagePath",
                "terminationMessagePolicy",
                "tty",
                "workingDir",
                "imagePullPolicy",
            ],
            of_container,
        ),
        ("containers", &["env", "envFrom"], "Secrets are held to the policy's list wherever they are named"),
        ("containers", &["volumeDevices", "volumeMounts"], "what is mounted is a volume, which the table has"),
        ("containers.securityContext", &["readOnlyRootFilesystem", "runAsGroup"], of_container),
        (
            "securityContext",
            &[
                "fsGroup",
                "fsGroupChangePolicy",
                "runAsGroup",
                "seLinuxChangePolicy",
                "supplementalGroups",
                "supplementalGroupsPolicy",
            ],
            "groups of the pod's own processes and volumes",
        ),
        (
            "metadata",
            &["name", "namespace", "annotations"],
            "the controller that makes pods sets names; annotations by prefix are in the table",
        ),
    ];
    // What `restricted` looks at beside the table.
    let restricted = [
        ("containers.securityContext", "allowPrivilegeEscalation"),
        ("containers.securityContext", "runAsNonRoot"),
        ("containers.securityContext", "runAsUser"),
        ("securityContext", "runAsNonRoot"),
        ("securityContext", "runAsUser"),
    ];
    // Lists, and what is looked into.
    let inner = ["containers", "initContainers", "ephemeralContainers", "securityContext", "volumes", "tolerations"];
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    let mut add = |place: &str, field: &str| known.insert((place.to_owned(), field.to_owned()));
    for (place, fields, _) in harmless {
        fields.iter().for_each(|field| {
            add(place, field);
        });
    }
    restricted.iter().for_each(|(place, field)| {
        add(place, field);
    });
    inner.iter().for_each(|field| {
        add("", field);
    });
    add("containers", "securityContext");
    add("containers", "image");
    super::table::NAMING_FIELDS.iter().for_each(|(_, field)| {
        add("", field);
    });
    for control in super::table::CONTROLS {
        let (first, second) = (control.path[0], control.path.get(1).copied().unwrap_or_default());
        match (control.place, first) {
            (super::table::PodPlace::Pod, "securityContext") => add("securityContext", second),
            (super::table::PodPlace::Pod, _) => add("", first),
            (super::table::PodPlace::Contexts, _) => {
                add("securityContext", first);
                add("containers.securityContext", first)
            }
            (super::table::PodPlace::Containers, "securityContext") => add("containers.securityContext", second),
            (super::table::PodPlace::Containers, _) => add("containers", first),
            (super::table::PodPlace::Volumes, _) => add("volumes", first),
            (super::table::PodPlace::Metadata, _) => add("metadata", first),
        };
    }
    let text = include_str!("../../../../../crds/dynamo/1.5/nvidia.com_dynamographdeployments.yaml");
    let definition: Value = serde_saphyr::from_str(text).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let schema = &versions.iter().find(|one| one["name"] == "v1beta1").unwrap()["schema"]["openAPIV3Schema"];
    let declared = |below: &[&str]| -> BTreeSet<String> {
        let found = below.iter().fold(schema, |schema, name| {
            let field = &schema["properties"][name];
            if field["items"].is_object() { &field["items"] } else { field }
        });
        found["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let pod = ["spec", "components", "podTemplate", "spec"];
    let mut unknown = Vec::new();
    for place in
        ["", "containers", "initContainers", "ephemeralContainers", "containers.securityContext", "securityContext"]
    {
        let path: Vec<&str> = pod.iter().copied().chain(place.split('.').filter(|part| !part.is_empty())).collect();
        let fields = declared(&path);
        assert!(fields.len() > 8, "{path:?} {fields:?}");
        let place = if place.ends_with("Containers") { "containers" } else { place };
        let extra = ["targetContainerName"];
        unknown.extend(
            fields.into_iter().filter(|field| {
                !known.contains(&(place.to_owned(), field.clone())) && !extra.contains(&field.as_str())
            }),
        );
    }
    let metadata = declared(&["spec", "components", "podTemplate", "metadata"]);
    unknown.extend(metadata.into_iter().filter(|field| !known.contains(&("metadata".to_owned(), field.clone()))));
    assert_eq!(unknown, Vec::<String>::new(), "decide what these give, and add them to the table");
}

/// What the operator writes has none of what `restricted` asks for, whichever part of the template is left to it.
#[test]
fn what_is_left_to_the_operator_is_judged_by_its_defaults() {
    let mut none = graph(hardened()).into_value();
    none["spec"]["components"][0].as_object_mut().unwrap().remove("podTemplate");
    let none = Object::from_value(none).unwrap();
    for object in [graph(json!({})), graph_with_template(json!({})), none] {
        assert_eq!(judged(&object, PodSecurityLevel::Baseline), []);
        let found = fields_of(&judged(&object, PodSecurityLevel::Restricted));
        use PodField as F;
        assert_eq!(
            found,
            BTreeSet::from([F::Capabilities, F::SeccompProfile, F::AllowPrivilegeEscalation, F::RunAsNonRoot])
        );
    }
}

/// Where no schema says what there is, parts of pods are known by what they say, in whatever they are.
#[test]
fn attacks_in_what_no_schema_declares_are_found() {
    for untyped in [
        json!({"spec": {"services": {"x": {"extraPodSpec": {"hostNetwork": true}}}}}),
        json!({"spec": {"services": {"x": {"extraPodSpec": {"mainContainer": {"securityContext": {"privileged": true}}}}}}}),
        json!({"spec": {"components": [{"name": "x", "podTemplate": {"spec": {"hostPID": true}}}]}}),
        json!({"a": [[{"volumes": [{"name": "n", "hostPath": {"path": "/"}}]}]]}),
        // A list of containers further up hides nothing.
        json!({"containers": [], "spec": {"a": {"hostIPC": true}}}),
    ] {
        let found = judged(&request(&hardened(), &untyped), PodSecurityLevel::Baseline);
        assert_eq!(found.len(), 1, "{untyped}: {found:#?}");
    }
}

fn any_pod() -> impl Strategy<Value = Value> {
    let attacks: Vec<Value> =
        [pod_attacks(), restricted_attacks()].concat().into_iter().map(|(_, attack)| attack).collect();
    let in_containers: Vec<Value> = container_attacks().into_iter().map(|(_, attack)| attack).collect();
    let some = proptest::sample::subsequence(attacks, 0..4);
    let inside = proptest::sample::subsequence(in_containers, 0..3);
    (some, inside, any::<bool>()).prop_map(|(attacks, inside, hard)| {
        let mut pod = if hard { hardened() } else { json!({}) };
        attacks.iter().for_each(|attack| merge(&mut pod, attack));
        let containers = pod.as_object_mut().unwrap().entry("initContainers").or_insert_with(|| json!([]));
        for attack in inside {
            let mut container = Value::Object(Map::new());
            merge(&mut container, &attack);
            container["name"] = json!("one");
            containers.as_array_mut().unwrap().push(container);
        }
        pod
    })
}

proptest! {
    /// What keeps `restricted` keeps `baseline`, and what keeps `baseline` keeps `privileged`.
    #[test]
    fn a_stricter_level_allows_no_more(pod in any_pod()) {
        for object in [graph(pod.clone()), job(&pod), request(&pod, &pod)] {
            let mut allowed = BTreeSet::new();
            for level in [PodSecurityLevel::Restricted, PodSecurityLevel::Baseline, PodSecurityLevel::Privileged] {
                let found: BTreeSet<String> =
                    judged(&object, level).iter().map(|one| format!("{:?} {}", one.field, one.path)).collect();
                prop_assert!(allowed.is_empty() || found.is_subset(&allowed), "{level}: {found:?} beside {allowed:?}");
                if level != PodSecurityLevel::Restricted && allowed.is_empty() {
                    prop_assert!(found.is_empty(), "{level}: {found:?}");
                }
                allowed = found;
            }
        }
    }

    /// Whatever an object holds, judging it ends, and quietly.
    #[test]
    fn no_object_makes_it_panic(text in "[a-zA-Z{}\\[\\]:,\"0-9]{0,80}") {
        let untyped: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({text.clone(): [text]}));
        let object = request(&untyped, &untyped);
        let _ = judged(&object, PodSecurityLevel::Restricted);
    }
}
