//! The chart by itself: it lints, its values are checked, and its copies of other files are those files.

use super::{at, called, chart, helm, objects, rendered, values};
use crate::testbed;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn it_lints_with_every_file_of_values() {
    let Some(program) = testbed::helm() else { return };
    let chart = chart();
    for name in ["", "ha", "namespaced", "everything"] {
        let file = values(name);
        let mut arguments = vec!["lint", "--strict", "--quiet", chart.to_str().unwrap()];
        if !name.is_empty() {
            arguments.extend(["--values", file.to_str().unwrap()]);
        }
        let output = helm(program, None, arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("[WARNING]"), "{name}: {said}");
    }
}

#[test]
fn it_makes_what_is_asked_for() {
    let Some(text) = rendered(&[]) else { return };
    let list = |text: &str| {
        let mut names: Vec<String> = objects(text).iter().map(called).collect();
        names.sort();
        names.join("\n")
    };
    insta::assert_snapshot!(list(&text), @"
    ClusterRole /stator-controller
    ClusterRole /stator-fleet-policy-reader
    ClusterRoleBinding /stator-controller
    ClusterRoleBinding /stator-fleet-policy-reader
    CustomResourceDefinition /fleetpolicies.stator.dev
    CustomResourceDefinition /models.stator.dev
    CustomResourceDefinition /modelsources.stator.dev
    CustomResourceDefinition /syncjournals.stator.dev
    Deployment stator-system/stator-controller
    NetworkPolicy stator-system/stator-controller
    Role stator-system/stator-controller-leases
    RoleBinding stator-system/stator-controller-leases
    Service stator-system/stator-controller
    ServiceAccount stator-system/stator-controller
    ValidatingAdmissionPolicy /stator-source-rights
    ValidatingAdmissionPolicyBinding /stator-source-rights
    ");
    let file = values("namespaced");
    insta::assert_snapshot!(list(&rendered(&["--values", file.to_str().unwrap()]).unwrap()), @r"
    Deployment stator-system/stator-controller
    NetworkPolicy stator-system/stator-controller
    Role models/stator-controller
    Role stator-system/stator-controller-leases
    RoleBinding models/stator-controller
    RoleBinding stator-system/stator-controller-leases
    Service stator-system/stator-controller
    ServiceAccount stator-system/stator-controller
    ");
    let file = values("everything");
    insta::assert_snapshot!(list(&rendered(&["--values", file.to_str().unwrap()]).unwrap()), @r"
    ClusterRole /stator-fleet-policy-reader
    ClusterRole /stator-system-fleet-controller-reviews
    ClusterRole /stator-system-fleet-server-reviews
    ClusterRoleBinding /stator-fleet-policy-reader
    ClusterRoleBinding /stator-system-fleet-controller-reviews
    ClusterRoleBinding /stator-system-fleet-server-reviews
    ConfigMap /stator-extra
    CustomResourceDefinition /fleetpolicies.stator.dev
    CustomResourceDefinition /models.stator.dev
    CustomResourceDefinition /modelsources.stator.dev
    CustomResourceDefinition /syncjournals.stator.dev
    Deployment stator-system/fleet-controller
    Deployment stator-system/fleet-server
    HTTPRoute stator-system/fleet
    Ingress stator-system/fleet
    NetworkPolicy stator-system/fleet-controller
    NetworkPolicy stator-system/fleet-server
    PodDisruptionBudget stator-system/fleet-controller
    PodDisruptionBudget stator-system/fleet-server
    Role stator-system/fleet-controller-leases
    Role team-a/fleet-controller
    Role team-a/fleet-server
    Role team-b/fleet-controller
    Role team-b/fleet-server
    RoleBinding stator-system/fleet-controller-leases
    RoleBinding team-a/fleet-controller
    RoleBinding team-a/fleet-server
    RoleBinding team-b/fleet-controller
    RoleBinding team-b/fleet-server
    Service stator-system/fleet-controller
    Service stator-system/fleet-server
    ServiceAccount stator-system/listener
    ServiceAccount stator-system/writer
    ServiceMonitor stator-system/fleet
    ");
}

/// What is wrong in somebody's values is said before anything is made.
#[test]
fn wrong_values_are_refused() {
    let Some(program) = testbed::helm() else { return };
    let chart = chart();
    let wrong = [
        "controller.replica=2",
        "controller.replicas=0",
        "controller.shards=none",
        "controller.dataSize=much",
        "controller.extraEnv[0].nam=X",
        "image.tag=a b",
        "image.digest=md5:0",
        "listen=127.0.0.1",
        "log.format=xml",
        "watchNamespaces[0]=Team_A",
        "rbac.impersonate[0]=*",
        "service.type=ExternalName",
        "webhooks.ingress.enabled=true",
        "webhooks.httpRoute.enabled=true",
        "networkPolicy.egressPorts[0]=0",
        "unheardOf=1",
    ];
    let mut said = Vec::new();
    for set in wrong {
        let arguments = ["template", "stator", chart.to_str().unwrap(), "--set", set];
        let output = helm(program, None, arguments);
        assert!(!output.status.success(), "{set} is let through");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = error.lines().find(|line| line.starts_with("- at")).unwrap_or_else(|| panic!("{set}: {error}"));
        said.push(format!("{set}: {line}"));
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    controller.replica=2: - at '/controller': additional properties 'replica' not allowed
    controller.replicas=0: - at '/controller/replicas': minimum: got 0, want 1
    controller.shards=none: - at '/controller/shards': got string, want integer
    controller.dataSize=much: - at '/controller/dataSize': 'much' does not match pattern '^[0-9]+([.][0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$'
    controller.extraEnv[0].nam=X: - at '/controller/extraEnv/0': missing property 'name'
    image.tag=a b: - at '/image/tag': 'a b' does not match pattern '^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$'
    image.digest=md5:0: - at '/image/digest': 'md5:0' does not match pattern '^(sha256:[0-9a-f]{64})?$'
    listen=127.0.0.1: - at '/listen': value must be one of '0.0.0.0', '[::]'
    log.format=xml: - at '/log/format': value must be one of 'json', 'text'
    watchNamespaces[0]=Team_A: - at '/watchNamespaces/0': 'Team_A' does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
    rbac.impersonate[0]=*: - at '/rbac/impersonate/0': '*' does not match pattern '^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$'
    service.type=ExternalName: - at '/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'
    webhooks.ingress.enabled=true: - at '/webhooks/ingress/host': minLength: got 0, want 1
    webhooks.httpRoute.enabled=true: - at '/webhooks/httpRoute/parentRefs': minItems: got 0, want 1
    networkPolicy.egressPorts[0]=0: - at '/networkPolicy/egressPorts/0': minimum: got 0, want 1
    unheardOf=1: - at '': additional properties 'unheardOf' not allowed
    ");
}

/// Pages are one port more, of the controller alone, and the right to ask whose a token is.
#[test]
fn pages_take_a_port_and_the_right_to_ask_about_tokens() {
    let more = [
        "--set",
        "web.enabled=true,web.url=https://stator.example.com,web.tlsSecret=pages",
        "--set",
        "server.enabled=true",
    ];
    let Some(text) = rendered(&more) else { return };
    let all = objects(&text);
    let find = |kind: &str, name: &str| {
        all.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == name).cloned().unwrap_or_default()
    };
    let container = |name: &str| find("Deployment", name)["spec"]["template"]["spec"]["containers"][0].clone();
    let web = |value: &Value| value.to_string().matches("web").count();
    let arguments = container("stator-controller")["args"].clone();
    let own: Vec<&str> =
        arguments.as_array().unwrap().iter().filter_map(|one| one.as_str()?.strip_prefix("--web-")).collect();
    insta::assert_snapshot!(own.join("\n"), @"
    listen=0.0.0.0:8090
    audience=stator
    url=https://stator.example.com
    tls-cert=/etc/stator/web-tls/tls.crt
    tls-key=/etc/stator/web-tls/tls.key
    ");
    assert_eq!((web(&container("stator-server")), web(&find("Service", "stator-server"))), (0, 0));
    assert_eq!(find("Service", "stator-controller")["spec"]["ports"][1]["port"], 8090);
    let policy = find("NetworkPolicy", "stator-controller");
    assert!(web(&policy) == 1 && policy.to_string().contains(r#""namespaceSelector":{}"#), "{policy}");
    let role = find("ClusterRole", "stator-system-stator-controller-reviews");
    assert!(role.to_string().contains("tokenreviews") && role.to_string().contains("subjectaccessreviews"), "{role}");
    assert_eq!(find("ClusterRole", "stator-system-stator-server-reviews"), Value::Null);
    let rules = find("ClusterRole", "stator-controller")["rules"].to_string();
    assert!(rules.contains(r#"{"apiGroups":[""],"resources":["events"],"verbs":["list"]}"#), "{rules}");
    assert!(!rules.contains("pods/log"), "{rules}");
    assert_eq!(rendered(&[]).unwrap().matches("8090").count(), 0, "without pages there is none of it");

    // Logs are a right more, links and a provider are options, and its secret is a file.
    let more = [
        "--set",
        "web.enabled=true,web.url=https://stator.example.com,web.logs=true,web.oidc.issuer=https://id.example.com",
        "--set",
        "web.oidc.clientId=stator,web.oidc.secret=oidc,web.oidc.groupsClaim=groups,web.oidc.groupsPrefix=oidc:",
        "--set-json",
        r#"web.links=["Grafana=https://grafana.example.com/d/1?var-model={name}"]"#,
    ];
    let text = rendered(&more).unwrap();
    let own = objects(&text);
    let deployment = own.iter().find(|one| one["kind"] == "Deployment").unwrap().to_string();
    for argument in [
        "--web-link=Grafana=https://grafana.example.com/d/1?var-model={name}",
        "--web-oidc-issuer=https://id.example.com",
        "--web-oidc-client=stator",
        "--web-oidc-secret-file=/etc/stator/web-oidc/client-secret",
        "--web-oidc-groups-prefix=oidc:",
        r#""secretName":"oidc""#,
    ] {
        assert!(deployment.contains(argument), "{argument}: {deployment}");
    }
    assert!(text.contains("pods/log"), "{text}");

    let Some(program) = testbed::helm() else { return };
    let chart = chart();
    let output = helm(
        program,
        None,
        ["template", "stator", chart.to_str().unwrap(), "--set", "web.enabled=true,controller.replicas=2"],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("web.enabled takes controller.replicas=1"), "{said}");
}

/// S9: who takes the token of `stator server` reads the secrets of webhooks, and none of git logins or keys.
#[test]
fn a_server_reads_the_secrets_of_webhooks_alone() {
    let wide = ["--set", "server.enabled=true"];
    let logins = ["--set", "rbac.secrets={git,forge}"];
    let hooks = ["--set", "rbac.webhookSecrets={hook}"];
    let apart = ["--set", "watchNamespaces={team-a}"];
    let mut said = Vec::new();
    for (what, more) in [
        ("nothing named", Vec::new()),
        ("all together", logins.to_vec()),
        ("webhooks' alone", hooks.to_vec()),
        ("both", [logins, hooks].concat()),
        ("both, in a namespace", [logins, hooks, apart].concat()),
    ] {
        let arguments: Vec<&str> = wide.iter().chain(&more).copied().collect();
        let Some(text) = rendered(&arguments) else { return };
        for role in objects(&text).iter().filter(|one| one["kind"] == "ClusterRole" || one["kind"] == "Role") {
            for rule in role["rules"].as_array().unwrap().iter().filter(|rule| rule["resources"][0] == "secrets") {
                let names = rule.get("resourceNames").map_or_else(|| "any".to_owned(), Value::to_string);
                said.push(format!("{what}: {} {} {names}", called(role), rule["verbs"]));
            }
        }
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    nothing named: ClusterRole /stator-controller ["get"] any
    nothing named: ClusterRole /stator-server ["get"] any
    all together: ClusterRole /stator-controller ["get"] ["git","forge"]
    all together: ClusterRole /stator-server ["get"] ["git","forge"]
    webhooks' alone: ClusterRole /stator-controller ["get"] any
    webhooks' alone: ClusterRole /stator-server ["get"] ["hook"]
    both: ClusterRole /stator-controller ["get"] ["git","forge","hook"]
    both: ClusterRole /stator-server ["get"] ["hook"]
    both, in a namespace: Role team-a/stator-controller ["get"] ["git","forge","hook"]
    both, in a namespace: Role team-a/stator-server ["get"] ["hook"]
    "#);
}

/// Everything that the values file has is in the schema, with the same default being valid, and the other way round.
#[test]
fn the_schema_and_the_values_name_the_same() {
    let text = fs_err::read_to_string(chart().join("values.yaml")).unwrap();
    let defaults: Value = serde_saphyr::from_str(&text).unwrap();
    let schema = fs_err::read_to_string(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    fn of_values(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value.as_object().filter(|map| !map.is_empty()) {
            Some(map) => map.iter().for_each(|(key, value)| of_values(value, &format!("{path}.{key}"), found)),
            None => _ = found.insert(path.to_owned()),
        }
    }
    fn of_schema(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        match schema["properties"].as_object() {
            Some(map) => map.iter().for_each(|(key, value)| of_schema(value, &format!("{path}.{key}"), found)),
            None => _ = found.insert(path.to_owned()),
        }
    }
    let (mut given, mut known) = (BTreeSet::new(), BTreeSet::new());
    of_values(&defaults, "", &mut given);
    of_schema(&schema, "", &mut known);
    // Quantities that nobody has to give, the labels of one default, and what Helm itself adds.
    known.retain(|path| path != ".global" && !path.contains(".resources."));
    given.retain(|path| !path.contains(".resources."));
    let given: BTreeSet<String> =
        given.into_iter().map(|path| path.replace(".labels.grafana_dashboard", ".labels")).collect();
    assert_eq!(given, known);
}

/// A chart can only hold what lies in its own folder, so it has copies.
#[test]
fn its_copies_are_those_files() {
    let update = std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1");
    let copies = [
        ("crds/stator.dev_fleetpolicies.yaml", "crds/stator.dev_fleetpolicies.yaml"),
        ("crds/stator.dev_models.yaml", "crds/stator.dev_models.yaml"),
        ("crds/stator.dev_modelsources.yaml", "crds/stator.dev_modelsources.yaml"),
        ("crds/stator.dev_syncjournals.yaml", "crds/stator.dev_syncjournals.yaml"),
        ("deploy/observability/alerts.yaml", "observability/alerts.yaml"),
        ("deploy/observability/dashboard.json", "observability/dashboard.json"),
    ];
    for (original, copy) in copies {
        let copy = chart().join("files").join(copy);
        let text = fs_err::read_to_string(at(original)).unwrap();
        if update {
            fs_err::write(&copy, &text).unwrap();
        }
        assert!(
            fs_err::read_to_string(&copy).unwrap() == text,
            "{} is not {original}: `STATOR_BLESS=1 cargo test --test integration install::` copies it",
            copy.display()
        );
    }
    let own = fs_err::read_dir(chart().join("files/crds")).unwrap().count();
    assert_eq!(own, 4);
}
