//! The testbed: it serves what stator writes, and it leaves nothing behind.

use crate::testbed::{self, Audit, Launch, Programs, eventually};
use crate::workbench::write_program;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, PostParams};
use serde_json::json;
use std::process::{Command, Stdio};

#[tokio::test]
async fn it_serves_dynamo_and_models() {
    let Some(plane) = testbed::shared() else { return };
    let client = plane.admin().await;
    let mut kinds = Vec::new();
    for group in ["nvidia.com/v1alpha1", "nvidia.com/v1beta1", "stator.dev/v1alpha1"] {
        let served = client.list_api_group_resources(group).await.unwrap();
        let names = served.resources.into_iter().map(|resource| resource.name);
        kinds.extend(names.filter(|name| !name.contains('/')).map(|name| format!("{group} {name}")));
    }
    kinds.sort();
    insta::assert_snapshot!(kinds.join("\n"), @r"
    nvidia.com/v1alpha1 dynamographdeploymentrequests
    nvidia.com/v1alpha1 dynamographdeployments
    nvidia.com/v1alpha1 dynamographdeploymentscalingadapters
    nvidia.com/v1alpha1 dynamomodels
    nvidia.com/v1beta1 dynamographdeploymentrequests
    nvidia.com/v1beta1 dynamographdeployments
    nvidia.com/v1beta1 dynamographdeploymentscalingadapters
    stator.dev/v1alpha1 fleetpolicies
    stator.dev/v1alpha1 models
    stator.dev/v1alpha1 modelsources
    stator.dev/v1alpha1 syncjournals
    ");
}

#[tokio::test]
async fn its_accounts_may_do_what_they_were_given_and_nothing_else() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("accounts").await;
    let read = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".to_owned()]),
        verbs: vec!["list".to_owned()],
        ..PolicyRule::default()
    };
    let reader = plane.account(&namespace, "reader", vec![read]).await;
    let reader = testbed::client(&reader, "reader").await.unwrap();
    let nobody = testbed::client(&plane.kubeconfig(), "nobody").await.unwrap();
    let mut said = Vec::new();
    for (who, client) in [("admin", plane.admin().await), ("reader", reader), ("nobody", nobody)] {
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
        let list = maps.list(&ListParams::default()).await.map(|_| ());
        let deleted = maps.delete("no-such-map", &DeleteParams::default()).await.map(|_| ());
        for (verb, answer) in [("list", list), ("delete", deleted)] {
            let code = match answer {
                Ok(()) => 200,
                Err(kube::Error::Api(status)) => status.code,
                Err(error) => panic!("{error}"),
            };
            said.push(format!("{who} {verb} {code}"));
        }
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    admin list 200
    admin delete 404
    reader list 200
    reader delete 403
    nobody list 403
    nobody delete 403
    ");
}

#[tokio::test]
async fn it_collects_what_belongs_to_a_deleted_graph() {
    let Some(plane) = testbed::shared() else { return };
    if !plane.collects_garbage() {
        return;
    }
    let namespace = plane.namespace("garbage").await;
    let client = plane.admin().await;
    let kind = GroupVersionKind::gvk("nvidia.com", "v1beta1", "DynamoGraphDeployment");
    let resource = ApiResource::from_gvk_with_plural(&kind, "dynamographdeployments");
    let graphs: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let graph = DynamicObject::new("owner", &resource).data(json!({
        "spec": {"components": [{"name": "frontend", "type": "frontend", "replicas": 1}]}
    }));
    let graph = graphs.create(&PostParams::default(), &graph).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let owned = ConfigMap {
        metadata: ObjectMeta {
            name: Some("owned".to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "nvidia.com/v1beta1".to_owned(),
                kind: "DynamoGraphDeployment".to_owned(),
                name: "owner".to_owned(),
                uid: graph.metadata.uid.unwrap(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &owned).await.unwrap();
    graphs.delete("owner", &DeleteParams::background()).await.unwrap();
    eventually("it is collected", async || maps.get_opt("owned").await.unwrap().is_none()).await;
}

fn alive(pid: u32) -> bool {
    let status = Command::new("sh").args(["-c", &format!("kill -0 {pid}")]).stderr(Stdio::null()).status();
    status.unwrap().success()
}

/// A process that holds the pipe, as a test process does, and that is killed: `cat`, through which the words of this
/// test reach the supervisor.
#[test]
fn a_killed_test_process_takes_its_control_plane_along() {
    let Ok(programs) = Programs::find() else {
        // Says why, or fails on CI.
        assert!(testbed::shared().is_none());
        return;
    };
    let mut holder = None;
    let launch = Launch::start(&programs, Audit::Off, |supervisor| {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (ours, theirs) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        holder = Some(cat);
        Ok((supervisor.stdin(theirs).spawn()?, Box::new(ours)))
    })
    .unwrap();
    let until = |what: &str, done: &dyn Fn() -> bool| {
        testbed::until(what, || done().then_some(()).ok_or(|| launch.logs()));
    };
    let names = ["etcd", "kube-apiserver"];
    until("started", &|| names.iter().all(|name| launch.pid(name).is_some()));
    let pids = names.map(|name| launch.pid(name).unwrap());
    assert!(pids.iter().all(|pid| alive(*pid)), "{}", launch.logs());

    let mut holder = holder.unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();

    until("ended", &|| pids.iter().all(|pid| !alive(*pid)));
    until("its data is removed", &|| !launch.folder().exists());
}

/// What `setup-envtest` leaves behind: a folder with a program each, here the ones that Go built.
#[test]
fn a_folder_of_programs_serves_as_well() {
    let Ok(programs) = Programs::find() else {
        // Says why, or fails on CI.
        assert!(testbed::shared().is_none());
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in ["etcd", "kube-apiserver"] {
        let error = Programs::assets(folder.path()).unwrap_err();
        assert_eq!(error, format!("KUBEBUILDER_ASSETS is {}, where no {name} is", folder.path().display()));
        let path = folder.path().join(name);
        match &programs {
            Programs::Built(binary) => {
                let program = format!("#!/bin/sh\nexec '{}' {name} \"$@\"\n", binary.display());
                write_program(&path, program.as_bytes());
            }
            Programs::Assets { folder, .. } => fs_err::os::unix::fs::symlink(folder.join(name), &path).unwrap(),
        }
    }
    let programs = Programs::assets(folder.path()).unwrap();
    assert!(!programs.has_manager());
    let launch = Launch::ready(&programs).unwrap();
    assert!(launch.pid("kube-apiserver").is_some_and(alive));
}
